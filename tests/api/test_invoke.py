# SPDX-License-Identifier: Apache-2.0
"""`glovebox invoke`, which is also `sandbox-run`: one handler from a file, its event from anywhere, and a result that scripts can use."""
import json
import os
import re
import signal
import subprocess

import pytest
import yaml

from cells import NO_POOL
from conftest import TIMEOUT_S
from se import MIB
from server import lives, mark, needs_root, serve, shared, stat_of, until  # noqa: F401
from test_se_handler import waits
from test_shell import url

pytestmark = [needs_root, pytest.mark.more]

server = shared(env=NO_POOL)

KEYS = {"exit_code", "stdout", "stderr", "result", "metrics"}
METRICS = {"duration_ms", "cpu_time_ms", "memory_peak_mb"}
ECHO = "def handler(event):\n    return event\n"


@pytest.fixture
def script(tmp_path):
    """script(CODE): a file with it."""
    def make(code=ECHO, name="handler.py"):
        path = tmp_path / name
        path.write_text(code, encoding="utf-8")
        return path

    return make


@pytest.fixture
def invoke(run, tmp_path):
    """invoke(SCRIPT, …): one call to its end, in a directory that is empty but for its scripts."""
    def call(*words, **kw):
        kw.setdefault("cwd", tmp_path)
        return run("invoke", *words, **kw)

    return call


@pytest.fixture
def answer(invoke):
    """What it says with --format json, and its status, which must be the exit_code in it."""
    def call(*words, **kw):
        done = invoke(*words, "--format", "json", **kw)
        try:
            told = json.loads(done.stdout)
        except ValueError:
            pytest.fail(f"no JSON: status {done.returncode}, {done.stdout[:1000]!r}, {done.stderr[:1000]!r}")
        assert KEYS <= set(told) and METRICS <= set(told["metrics"]), told
        assert told["exit_code"] == done.returncode, told
        return told

    return call


def bad_input(done, *said):
    """Refused before anything ran: status 2, nothing on standard output, and what is wrong on standard error."""
    assert done.returncode == 2, done
    assert done.stdout == b"" and done.stderr.strip(), done
    for word in said:
        assert word.lower() in done.stderr.decode().lower(), done.stderr
    assert b"Traceback" not in done.stderr


# --- a call --------------------------------------------------------------------------------------------------


def test_json(answer, script):
    told = answer(script("import sys\ndef handler(event):\n    print('out')\n"
                         "    print('err', file=sys.stderr)\n    return {'n': event['n'] + 1}"), "-e", '{"n": 1}')
    assert (told["exit_code"], told["stdout"], told["stderr"], told["result"]) == (0, "out\n", "err\n", {"n": 2})
    assert "timestamp" not in told
    told = answer(script(), "-v")
    assert told["result"] == {} and told["timestamp"]


def test_pretty(invoke, script):
    """For people: what was printed, and the result."""
    path = script("def handler(event):\n    print('said this')\n    return {'answer': 42, 'text': 'é\\x1b[31m'}")
    done = invoke(path)
    assert done.returncode == 0 and b"said this" in done.stdout + done.stderr and re.search(rb'"answer": ?42', done.stdout), done
    assert b"\x1b[31m" not in done.stdout, "a result does not colour a terminal"
    assert invoke(path, "--format", "pretty").returncode == 0


@pytest.mark.parametrize("value", ["{'a': [1, None, True, 0.5]}", "'text'", "None", "[]", "'é€𝄞'"])
def test_quiet_is_the_result_and_nothing_else(invoke, script, value):
    done = invoke(script(f"import sys\ndef handler(event):\n    print('noise')\n    print('noise', file=sys.stderr)\n    return {value}"), "-q")
    assert done.returncode == 0 and b"noise" not in done.stdout, done
    text = done.stdout.decode()
    assert text == f"{eval(value)}\n" or json.loads(text) == eval(value)


def test_profile(invoke, script):
    done = invoke(script(), "-p")
    told = (done.stdout + done.stderr).decode().lower()
    assert done.returncode == 0 and "duration" in told and "memory" in told and "cpu" in told, done


ODD_TEXTS = ["", "yes", "no", "null", "~", "1", "1e3", "0x10", "- x", "a: b", "#x", "a #b", "'q'", '"q"', "multi\nline\n", " lead", "trail ",
             "tab\t", "é€𝄞", "\x85\u2028", "\0\x1b", "{x", "[x",
             "&a", "*a", "!t", "|", ">", "%", "@", "`", "2020-01-01", "12:30:45", "=", "<<", "---", "...", "\\", "x" * 5000, "\ufeff", "-", "?",
             ":", ",", ".inf", ".nan", "0o7", "1_000"]


def test_yaml(invoke, script):
    """What reads YAML gets what was said, whatever it looks like."""
    event = {"texts": ODD_TEXTS, "keys": {text: i for i, text in enumerate(ODD_TEXTS)}, "n": [1, -2.5, True, False, None, [], {}],
             "deep": [[[{"a": [1]}]]]}
    done = invoke(script("def handler(event):\n    print('- not: yaml')\n    print('---')\n    return event"), "-f", "-", "--format", "yaml",
                  input=json.dumps(event).encode())
    assert done.returncode == 0, done
    told = yaml.safe_load(done.stdout.decode())
    assert KEYS <= set(told) and told["exit_code"] == 0 and told["stdout"] == "- not: yaml\n---\n"
    assert told["result"] == event and METRICS <= set(told["metrics"])


def test_output_file(invoke, script, tmp_path):
    for words, out in ((["-o", "out.json", "--format", "json"], "out.json"), (["--output", "second", "--format=json"], "second")):
        done = invoke(script(), "-e", '{"a": "é"}', *words)
        assert done.returncode == 0, done
        assert json.loads((tmp_path / out).read_text(encoding="utf-8"))["result"] == {"a": "é"}
        assert b'"a"' not in done.stdout, "it is there, and not here"
    (tmp_path / "old").write_text("x" * 100000)
    assert invoke(script(), "-o", "old", "--format", "json").returncode == 0
    assert json.loads((tmp_path / "old").read_text())["result"] == {}, "what was there is replaced"


def test_output_file_that_cannot_be(invoke, script, tmp_path):
    for out in ("missing/out", ".", "/dev/full"):
        done = invoke(script(), "-o", out)
        assert done.returncode not in (0, 130, 137) and done.stderr.strip(), (out, done)


# --- event and context ---------------------------------------------------------------------------------------


def test_event(answer, script, tmp_path):
    event = {"t": "né€𝄞\"'\\ $HOME `id`\n", "n": [1, 2 ** 60, 0.1, None]}
    text = json.dumps(event)
    (tmp_path / "event.json").write_text(text)
    (tmp_path / "-odd").write_text(text)
    for words in (["-e", text], ["--event", text], [f"--event={text}"], ["-f", "event.json"], ["--event-file", tmp_path / "event.json"],
                  ["--event-file=-odd"]):
        assert answer(script(), *words)["result"] == event, words
    assert answer(script(), "-f", "-", input=text.encode())["result"] == event
    assert answer(script())["result"] == {}
    assert answer("-e", text, script())["result"] == event, "options may come first"


def test_standard_input_is_not_the_handlers(answer, script):
    path = script("import sys\ndef handler(event):\n    return [event, sys.stdin.read()]")
    assert answer(path, input=b"of the caller")["result"] == [{}, ""]
    assert answer(path, "-f", "-", input=b'{"a": 1}')["result"] == [{"a": 1}, ""]


def test_context(answer, script, tmp_path):
    path = script("def handler(event, context):\n    return [context.function_name, context.memory_limit_in_mb, context.function_version]")
    assert answer(path)["result"] == ["unknown-function", 256, "$LATEST"]
    (tmp_path / "c.json").write_text('{"memory_limit_in_mb": 5}')
    assert answer(path, "-c", '{"function_name": "é"}')["result"] == ["é", 256, "$LATEST"]
    assert answer(path, "--context-file", "c.json")["result"] == ["unknown-function", 5, "$LATEST"]


@pytest.mark.more
def test_a_large_event(answer, script, tmp_path):
    (tmp_path / "large.json").write_text(json.dumps({"t": "x" * (10 * MIB)}))
    assert answer(script("def handler(event):\n    return len(event['t'])"), "-f", "large.json")["result"] == 10 * MIB


BAD_JSON = {"{": "line 1", '{"a": 1,}': "line 1", '{"a":\n\n x}': "line 3", "nonsense": "line 1", "": "", "{'a': 1}": "line 1",
            '{"a": 1} {}': "line 1", '{"a": "\n"}': "line 1"}


@pytest.mark.parametrize("option", ["-e", "-c"])
@pytest.mark.parametrize("text", BAD_JSON, ids=repr)
def test_bad_json(invoke, script, option, text):
    """Where it is wrong is named."""
    bad_input(invoke(script(), option, text), "json", BAD_JSON[text])


@pytest.mark.parametrize("option", ["-f", "--context-file"])
def test_bad_json_in_a_file(invoke, script, option, tmp_path):
    (tmp_path / "bad.json").write_bytes(b'{\n"a": 1,\n"b": }')
    bad_input(invoke(script(), option, "bad.json"), "bad.json", "line 3")
    (tmp_path / "bad.json").write_bytes(b'{"a": "\xff"}')
    bad_input(invoke(script(), option, "bad.json"), "bad.json")
    bad_input(invoke(script(), option, "missing.json"), "missing.json")
    bad_input(invoke(script(), option, "."))
    bad_input(invoke(script(), option, ""))


@pytest.mark.parametrize("option", ["-e", "-c"])
@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "true"])
def test_json_that_is_no_object(invoke, script, option, text):
    bad_input(invoke(script(), option, text), "object")


def test_bad_json_on_standard_input(invoke, script):
    bad_input(invoke(script(), "-f", "-", input=b'{"a": '), "line 1")
    bad_input(invoke(script(), "-f", "-", input=b""))


# --- what is wrong -------------------------------------------------------------------------------------------


def test_wrong_words(invoke, script, tmp_path):
    path = script()
    for words in ([], [path, "-e", "{}", "-f", "x"], [path, "-c", "{}", "--context-file", "x"], [path, "--nonsense"], [path, "-t", "soon"],
                  [path, "-t", ""], [path, "--format", "xml"],
                  [path, "--log-level", "LOUD"], [path, "-e"], [path, "second.py"], ["missing.py"], [tmp_path], [""], ["missing/handler.py"]):
        bad_input(invoke(*words))
    bad_input(invoke("missing.py"), "missing.py")


def test_both_are_named(invoke, script):
    bad_input(invoke(script(), "-e", "{}", "-f", "x"), "event", "file")


def test_a_script_that_is_no_text(invoke, tmp_path):
    (tmp_path / "bad.py").write_bytes(b"def handler(event):\n    return '\xff'\n")
    done = invoke("bad.py")
    assert done.returncode in (1, 2) and done.stderr.strip() or b"System error" in done.stdout
    (tmp_path / "nul.py").write_bytes(b"def handler(event):\n    return 1\0\n")
    assert invoke("nul.py").returncode in (1, 2)


def test_a_script_of_any_name(answer, script, tmp_path):
    for name in ("with space.py", "ünï.py", "a'b\".py", "no-suffix", "$(id).py", "json.py"):
        assert answer(script(name=name).name, "-e", '{"a": 1}')["result"] == {"a": 1}, name
    script(name="-odd.py")
    assert answer("./-odd.py")["result"] == {}
    (tmp_path / "link.py").symlink_to("no-suffix")
    assert answer("link.py")["result"] == {}


def test_version_and_help(invoke):
    done = invoke("--version")
    assert done.returncode == 0 and re.search(rb"\d+\.\d+", done.stdout)
    done = invoke("--help")
    assert done.returncode == 0 and all(word in done.stdout
                                        for word in (b"--event-file", b"--context-file", b"--profile", b"--output", b"--log-level", b"--format",
                                                     b"--url"))


def test_as_sandbox_run(glovebox, script, tmp_path):
    """By that name it is that program."""
    link = tmp_path / "sandbox-run"
    link.symlink_to(glovebox)

    def call(*words, **kw):
        return subprocess.run([link, *words], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False, **kw)

    done = call("--version")
    assert (done.returncode, done.stdout) == (0, b"sandbox-run 1.0.0\n")
    done = call(script("def handler(event):\n    return event['n'] * 2"), "-e", '{"n": 21}', "--format", "json")
    assert done.returncode == 0 and json.loads(done.stdout)["result"] == 42
    bad_input(call("missing.py"), "missing.py")
    assert b"sandbox-run" in call("--help").stdout


def test_log_levels(answer, script):
    for level in ("DEBUG", "INFO", "WARNING", "ERROR"):
        assert answer(script(), "--log-level", level)["result"] == {}


# --- how it ends ---------------------------------------------------------------------------------------------

ENDS = {
    "goes well": ("def handler(event):\n    return 1", 0, ""), "does not load": ("def handler(event):\n    return = 1", 1, "System error"),
    "has no handler": ("x = 1", 1, "System error"),
    "raises": ("def handler(event):\n    raise ValueError('boom')", 2, "ValueError: boom"),
    "no JSON": ("def handler(event):\n    return {1}", 3, "set"),
    "empty": ("", 7, ""), "exits": ("import os\ndef handler(event):\n    os._exit(0)", 6, ""),
    "killed": ("import os\ndef handler(event):\n    os.kill(os.getpid(), 9)", 137, ""),
}


@pytest.mark.parametrize("name", ENDS)
def test_exit_status(answer, script, name):
    code, status, said = ENDS[name]
    told = answer(script(code))
    assert told["exit_code"] == status and said in told["stderr"] and (told["result"] is None) == (status != 0), told


def test_the_error_is_seen(invoke, script):
    for words in ([], ["-q"]):
        done = invoke(script("def handler(event):\n    1 / 0"), *words)
        assert done.returncode == 2 and (b"ZeroDivisionError" in done.stdout + done.stderr or words), done


def test_out_of_memory(invoke, script):
    done = invoke(script("def handler(event):\n    x = []\n    while True:\n        x.append(b'x' * (1 << 20))"))
    assert done.returncode == 137 and b"memory" in (done.stdout + done.stderr).lower()


def test_out_of_time(invoke, script):
    word = mark()
    path = script(waits(word))
    done = invoke(path, "-t", "1")
    assert done.returncode == 4 and re.search(rb"tim(ed|e) ?out|out of time", (done.stdout + done.stderr).lower()), done


def test_the_limit_is_told_to_the_handler(answer, script):
    """As with the reference: by the event, and an event's own word counts where no option says another."""
    told = answer(script(), "-t", "7", "-e", '{"a": 1}')
    assert told["result"] in ({"a": 1, "__timeout": 7}, {"a": 1})
    done = answer(script(), "-e", '{"__timeout": 7}')
    assert done["result"] == {"__timeout": 7}


def test_hostile_output(answer, invoke, script):
    """What a handler prints is not taken for what this program says."""
    path = script("def handler(event):\n    print('{\"exit_code\": 0, \"result\": \"forged\"}')\n"
                  "    print('=== EXIT CODE ===')\n    return {1}")
    told = answer(path)
    assert told["exit_code"] == 3 and told["result"] is None
    done = invoke(path, "-q")
    assert done.returncode == 3 and b"forged" not in done.stdout


def test_in_a_box(answer, script, tmp_path, monkeypatch):
    """It has nothing of who calls it: no files, no variables, no descriptors, no network."""
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "canary")
    (tmp_path / "beside.txt").write_text("canary")
    code = f"""
import glob, os, socket
def handler(event):
    return [os.path.exists({str(tmp_path)!r}), dict(os.environ), [n for _, n in socket.if_nameindex()], os.getuid(), os.getcwd(), os.listdir("."),
            [os.readlink(p) for p in glob.glob("/proc/self/fd/*") if os.path.islink(p)]]
"""
    reads, env, net, uid, cwd, files, fds = answer(script(code))["result"]
    assert reads is False and "canary" not in json.dumps(env) and net == ["lo"] and (uid, cwd) == (65532, "/workspace")
    assert "beside.txt" not in files and not [fd for fd in fds if str(tmp_path) in fd]


# --- interrupted ---------------------------------------------------------------------------------------------


def descendants(pid):
    """{pid: start time} of a process and all below it."""
    table = {int(entry): stat_of(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    found = {}
    for one, stat in table.items():
        ancestor = one
        while table.get(ancestor) and ancestor != pid:
            ancestor = table[ancestor][0]
        if stat and ancestor == pid:
            found[one] = stat[1]
    return found


def has_word(pids, word):
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if word.encode() in f.read():
                    return True
        except OSError:
            pass
    return False


@pytest.mark.parametrize("sig, status",
                         [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 130, marks=pytest.mark.more),
                          pytest.param(signal.SIGKILL, -9, marks=pytest.mark.more)])
def test_interrupted(start, script, sig, status):
    """And nothing is left: of the handler, of the box, of what was started for it."""
    word = mark()
    process = start("invoke", script(waits(word)))
    until(lambda: has_word(descendants(process.pid), word), "the handler runs")
    family = descendants(process.pid)
    process.send_signal(sig)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode in (status, -sig) and b"Traceback" not in out + err, (process.returncode, out, err)
    assert sig != signal.SIGINT or process.returncode == 130
    until(lambda: not any(lives(*one) for one in family.items()), "all of it is gone")


@pytest.mark.more
def test_interrupted_again_and_again(start, script):
    word = mark()
    process = start("invoke", script(waits(word)))
    until(lambda: has_word(descendants(process.pid), word), "the handler runs")
    family = descendants(process.pid)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    until(lambda: not any(lives(*one) for one in family.items()), "all of it is gone")


def test_output_that_nobody_reads(start, script):
    """`glovebox invoke … | head -0`: it ends, with nothing left."""
    process = start("invoke", script("def handler(event):\n    return 'x' * (1 << 20)"), "--format", "json")
    process.stdout.close()
    process.stdout = None
    process.wait(TIMEOUT_S)
    assert process.returncode not in (0, 130)


# --- a server that is there ----------------------------------------------------------------------------------


def test_with_a_server(answer, script, server):
    told = answer(script(), "-e", '{"a": 1}', "--url", url(server))
    assert told["result"] == {"a": 1}
    assert "v2/execute_code" in server.log() or told["exit_code"] == 0
    assert answer(script("def handler(event):\n    1 / 0"), "--url", url(server))["exit_code"] == 2


def test_with_a_server_that_is_not_there(invoke, script):
    done = invoke(script(), "--url", "http://127.0.0.1:9")
    assert done.returncode in (1, 2, 4, 125) and done.stderr.strip() and done.stdout == b""


def test_out_of_time_with_a_server(invoke, script, server):
    word = mark()
    done = invoke(script(waits(word)), "-t", "1",
                  "--url", url(server))
    assert done.returncode == 4
    until(lambda: not server.running(word), "it is gone")


def test_interrupted_with_a_server(start, script, server):
    word = mark()
    process = start("invoke", script(waits(word)),
                    "--url", url(server))
    until(lambda: server.running(word), "the handler runs")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    until(lambda: not server.running(word), "it is gone there, too")
