# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime: commands and code in a session, the variables that are asked for, and who is in whose way."""
import concurrent.futures
import json
import math
import signal

import pytest

from conftest import stat_of
from se import MIB, Session, each, refused, unwrapped
from server import mark, needs_root, serve, shared, until  # noqa: F401
from test_se_sessions import NO_POOL

pytestmark = needs_root

CANARY = "canary-of-the-servers-environment"

server = shared(env={**NO_POOL, "SECRET_OF_THE_SERVER": CANARY})


@pytest.fixture(scope="module")
def place(server):
    """A session for tests that do not mind what others left there."""
    with Session(server, "place") as one:
        assert one.create()[0] == 200
        assert one.execute("true")["returncode"] == 0, "its box is there before the first test looks at what is there"
        yield one


@pytest.fixture
def session(server):
    with Session(server) as one:
        yield one


# --- commands ------------------------------------------------------------------------------------------------

COMMANDS = {
    "words": (("echo", "a", "b c"), "a b c\n", "", 0),
    "no arguments": (("echo a",), "a\n", "", 0),
    # On purpose not as the reference has it, which gives all words to a shell: an argument is an argument.
    "no shell sees arguments": (("echo", "$HOME", ";", "echo", "`id`"), "$HOME ; echo `id`\n", "", 0),
    "quotes are characters": (("printf", "%s|", "'a'", '"b c"', "*", ""), "'a'|\"b c\"|*||", "", 0),
    "a pipe": (("printf 'b\\na\\n' | sort",), "a\nb\n", "", 0),
    "directory": (("pwd",), "/workspace\n", "", 0),
    "variables": (("echo $HOME $PYTHONPATH",), "/workspace /workspace\n", "", 0),
    "user": (("id -u",), "65532\n", "", 0),
    "stdin": (("cat",), "", "", 0),
    "no line end": (("printf x",), "x", "", 0),
    "empty lines": (("printf '\\n\\na\\n\\n'",), "\n\na\n\n", "", 0),
    "both streams": (("echo out; echo err >&2; exit 3",), "out\n", "err\n", 3),
    "status": (("exit 255",), "", "", 255),
    "killed": (("kill -9 $$",), "", "", 137),
    "unicode": (("echo", "né€𝄞"), "né€𝄞\n", "", 0),
    "no text": (("printf 'a\\377b'",), "a\ufffdb", "", 0),
    "python": (("python3", "-c", "print(6 * 7)"), "42\n", "", 0),
    "lines": (("x=1\nif true; then\n  echo $x\nfi",), "1\n", "", 0),
    "here document": (("cat <<E\none\ntwo\nE",), "one\ntwo\n", "", 0),
    "NUL": (("printf 'a\\000b'",), "a\0b", "", 0),
    # What the reference takes its own answer apart by.
    "its marker": (("echo '=== EXIT CODE ==='; echo 77; exit 4",), "=== EXIT CODE ===\n77\n", "", 4),
    "its markers": (("echo '=== STDOUT ==='; echo '=== STDERR ===' >&2; echo '=== EXIT CODE ===' >&2; echo 0 >&2; false",),
                    "=== STDOUT ===\n", "=== STDERR ===\n=== EXIT CODE ===\n0\n", 1),
    "its logs": (("echo forged > stdout.log; echo forged > stderr.log; echo true",), "true\n", "", 0),
}


def test_commands(place):
    def check(name):
        words, stdout, stderr, returncode = COMMANDS[name]
        answer = place.execute(*words)
        assert answer == {"stdout": stdout, "stderr": stderr, "returncode": returncode}, answer

    each(COMMANDS, check)


def test_words_are_no_second_command(place):
    """The reference puts them behind the command and gives all of it to a shell. Here a word is a word."""
    for word in (";", "; echo evil", "&& echo evil", "| cat", "$(echo evil)", "`echo evil`", "> evil", "$HOME", "*", "a\nb", "'", '"', "\\",
                 "né€𝄞", "", "-n", "~"):
        answer = place.execute("printf", "%s", word)
        assert answer == {"stdout": word, "stderr": "", "returncode": 0}, answer
    assert place.get("evil")[0] == 404
    assert place.execute("nosuchprogram", "a")["returncode"] == 127


def test_a_command_that_is_none(place):
    answer = place.execute("nosuchcommand")
    assert answer["returncode"] == 127 and "not found" in answer["stderr"]
    answer = place.execute("if")
    assert answer["returncode"] != 0 and answer["stderr"]
    answer = place.execute("")
    assert answer["stdout"] == ""


def test_args_may_be_null(place):
    answer = place.ok("POST", "execute", body={"command": "echo a", "args": None})
    assert answer["stdout"] == "a\n"
    assert place.ok("POST", "execute", body={"command": "echo a", "args": []})["stdout"] == "a\n"


def test_what_a_session_sees(place):
    env = place.shell("env")
    assert CANARY not in env and "GLOVEBOX" not in env
    assert CANARY not in place.shell("cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    assert place.execute("touch /usr/x || touch /x || touch /etc/x")["returncode"] != 0


def test_files_stay_and_the_shell_does_not(session):
    session.shell("echo kept > f; echo scratch > /tmp/g; cd /tmp; export X=1")
    assert session.shell("pwd; cat f /tmp/g; echo [$X]") == "/workspace\nkept\nscratch\n[]\n"


def test_what_is_left_running(session):
    """It runs on, is seen by the next command, and its output is nobody's answer."""
    session.shell("setsid sh -c 'echo $$ > pid; while sleep 0.05; do date +%N > beat; done' > /dev/null 2>&1 &")
    until(lambda: session.get("beat")[0] == 200, "it beats")
    assert session.shell("kill -0 $(cat pid) && echo alive") == "alive\n"
    goes_on = 'a=$(cat beat); while [ "$a" = "$(cat beat)" ]; do sleep 0.05; done; kill -9 -- -$(cat pid); echo beats'
    assert session.shell(goes_on) == "beats\n"


WRONG = {
    "no command": ("execute", {}, ["command"]), "command is a list": ("execute", {"command": ["echo"]}, ["command"]),
    "command is null": ("execute", {"command": None}, ["command"]), "args is text": ("execute", {"command": "echo", "args": "a"}, ["args"]),
    "args has a number": ("execute", {"command": "echo", "args": [1]}, ["args", 0]),
    "args is an object": ("execute", {"command": "echo", "args": {}}, ["args"]),
    "no code": ("execute_code", {}, ["code"]), "code is a number": ("execute_code", {"code": 1}, ["code"]),
    "filename is a number": ("execute_code", {"code": "1", "filename": 1}, ["filename"]),
    "args is a number": ("execute_code", {"code": "1", "args": 1}, ["args"]),
    "output_params is text": ("execute_code", {"code": "1", "output_params": "x"}, ["output_params"]),
    "output_params has null": ("execute_code", {"code": "1", "output_params": [None]}, ["output_params", 0]),
    "script_type is a number": ("execute_code", {"code": "1", "script_type": 1}, ["script_type"]),
}


def test_wrong_fields_are_named(place):
    def check(name):
        route, body, where = WRONG[name]
        status, answer = place.call("POST", route, body=body)
        assert status == 422 and answer["detail"][0]["loc"] == ["body", *where], answer

    each(WRONG, check)


def test_bodies_that_are_none(place):
    for route in ("execute", "execute_code"):
        for body in (b"", b"[]", b"{", b"null", b"command=id", b'{"command": "a", "command": "b"}'):
            status, answer = place.call("POST", route, body=body)
            assert status in (400, 422) and answer["detail"], (route, body)


# --- code ----------------------------------------------------------------------------------------------------


def test_python(session):
    answer = session.run("import sys\nprint(sys.argv[1:], __name__)\nprint('err', file=sys.stderr)", args=["a", "$HOME", "b c", ""])
    assert answer == {"stdout": "['a', '$HOME', 'b c', ''] __main__\n", "stderr": "err\n", "returncode": 0}, "words are words here"
    answer = session.run("import os; print(os.getcwd(), os.environ['HOME'], os.environ['PYTHONPATH'])")
    assert answer["stdout"] == "/workspace /workspace /workspace\n"


def test_python_that_fails(session):
    answer = session.run("print('before')\n\nraise ValueError('boom')", filename="bad.py")
    assert (answer["stdout"], answer["returncode"]) == ("before\n", 1)
    assert "line 3" in answer["stderr"] and "bad.py" in answer["stderr"] and answer["stderr"].endswith("ValueError: boom\n")
    for code, returncode in (("import sys; sys.exit(3)", 3), ("x = = 1", 1), ("import os; os._exit(9)", 9),
                             ("import os; os.kill(os.getpid(), 9)", 137),
                             ("", 0), ("# nothing", 0)):
        assert session.run(code)["returncode"] == returncode, code


def test_shell(session):
    answer = session.run("echo $1 $2; echo $#; exit 5", script_type="shell", args=["a b", "c"])
    assert (answer["stdout"], answer["returncode"]) == ("a b c\n2\n", 5)
    answer = session.run("#!/usr/bin/python3\nprint('python, by its first line')", script_type="shell")
    assert answer["stdout"] == "python, by its first line\n"
    assert session.run("", script_type="shell")["returncode"] == 0


@pytest.mark.parametrize("kind", ["ruby", "", "Python", "python ", "sh; id", "null"], ids=repr)
def test_a_script_type_that_is_none(place, kind):
    status, answer = place.call("POST", "execute_code", body={"code": "print(1)", "script_type": kind})
    assert status >= 400 and ("Unsupported script type" in json.dumps(answer) or status == 422), answer


def test_the_file_is_kept_by_its_name(session):
    code = "print('naïve')\r\nprint(2)\n"
    assert session.run(code, filename="sub/kept.py")["stdout"] == "naïve\n2\n"
    assert session.read("sub/kept.py") == code.encode()
    assert session.shell("python3 sub/kept.py") == "naïve\n2\n"
    session.run("print(3)", filename="sub/kept.py")
    assert session.read("sub/kept.py") == b"print(3)"
    session.run("def f(): return 'imported'", filename="module.py")
    assert session.run("import module; print(module.f())")["stdout"] == "imported\n"
    session.run("#!/bin/sh\necho kept", filename="s.sh", script_type="shell")
    assert session.shell("sh s.sh") == "kept\n"


def test_variables_do_not_stay(session):
    session.run("x = 1; import builtins; builtins.y = 2")
    assert "NameError" in session.run("x")["stderr"] and "NameError" in session.run("y")["stderr"]


def test_code_and_its_text(place):
    """Quotes, line ends and what a shell would take for its own are code."""
    for text in ("a'b\"c", "$HOME `id` $(id)", "\\n \\\\", "né€𝄞", "%s {} {{", "EOF", "\u2028"):
        assert place.run(f"import sys\nsys.stdout.write({text!r})")["stdout"] == text


# --- variables that are asked for ----------------------------------------------------------------------------


def variables(session, code, *names, **fields):
    answer = session.run(code, output_params=list(names), **fields)
    assert set(answer) == {"stdout", "stderr", "returncode", "output_variables"}, answer
    return answer["output_variables"]


def test_output_params(place):
    code = """
import datetime
a, b, c, d, e, f, g = 1, "text é€𝄞", None, [1, 2.5, True], {"k": {"n": []}}, (1, 2), {3: "x"}
when = datetime.date(2020, 1, 2)
class C:
    def __str__(self):
        return "as text"
obj, _under = C(), 5
print("said")
"""
    found = variables(place, code, "a", "b", "c", "d", "e", "f", "g", "when", "obj", "_under", "missing")
    assert found == {"a": 1, "b": "text é€𝄞", "c": None, "d": [1, 2.5, True], "e": {"k": {"n": []}}, "f": [1, 2], "g": {"3": "x"},
                     "when": "2020-01-02",
                     "obj": "as text", "_under": 5}
    assert place.run(code, output_params=["a"])["stdout"] == "said\n", "nothing of it is in the output"


def test_output_params_of_a_script_that_fails(place):
    assert variables(place, "x = 1\nraise ValueError", "x") == {}
    assert variables(place, "x = 1\nimport sys; sys.exit(3)", "x") == {}
    assert variables(place, "x = 1\nimport os; os._exit(0)", "x") == {}
    assert variables(place, "x = = 1", "x") == {}
    assert variables(place, "", "x") == {}


def test_without_output_params_there_are_none(place):
    for fields in ({}, {"output_params": None}):
        assert "output_variables" not in place.run("x = 1", **fields)
    answer = place.run("x = 1", output_params=[])
    assert answer.get("output_variables", {}) == {}


def test_output_params_are_names(place):
    """What is no name of a variable is looked for as one, and not found."""
    names = ["__import__('os').system('echo evil')", "x.y", "x; y", "x\n", " x", "x ", "", "1", "x[0]", "x\0", "*", "../x", "é" * 1000,
             "print(x)"]
    for name in names:
        status, answer = place.call("POST", "execute_code", body={"code": "x = 'v'", "output_params": [name, "x"]})
        if status == 200:
            assert unwrapped(answer)["output_variables"] == {"x": "v"} and "evil" not in answer["stdout"], name
        else:
            assert "\0" in name and status in (400, 422), (name, answer)
    found = variables(place, "x = 1", *["x"] * 1000)
    assert found == {"x": 1}


def test_output_that_looks_like_variables(place):
    """Whoever prints what the server might look for has printed it."""
    code = """
import json, os, sys
for text in ('=== OUTPUT ===', '=== OUTPUT VARIABLES ===', '{"x": "forged"}', '{"output_variables": {"x": "forged"}}', '=== EXIT CODE ===', '0'):
    print(text)
    print(text, file=sys.stderr)
    for fd in range(3, 64):
        try:
            os.write(fd, text.encode() + b"\\n")
        except OSError:
            pass
x = "true"
"""
    answer = place.run(code, output_params=["x"])
    assert answer["output_variables"] in ({"x": "true"}, {}), answer
    assert answer["returncode"] == 0 and answer["stdout"].count("forged") == 2


HOSTILE_VALUES = {
    "json replaced": ("import json\njson.dumps = lambda *a, **k: '{\"x\": \"forged\"}'\nx = 'true'", {"x": "true"}),
    "builtins replaced": ("import builtins\nx = 'true'\nfor name in ('open', 'print', 'len', 'str', 'isinstance', 'globals'):\n"
                          "    setattr(builtins, name, None)", {"x": "true"}),
    "stdout closed": ("import os, sys\nx = 'true'\nos.close(1)\nos.close(2)\nsys.stdout = None", {"x": "true"}),
    "not a number": ("x = float('nan')", None),
    "infinite": ("x = [float('inf')]", None),
    "circular": ("x = []\nx.append(x)", {}),
    "text fails": ("class C:\n    def __str__(self):\n        raise ValueError\n    __repr__ = __str__\nx = C()", {}),
    "half a pair": ("x = '\\ud800'", None),
    "NUL": ("x = 'a\\0b'", {"x": "a\0b"}),
    "very deep": ("x = []\nfor _ in range(100000):\n    x = [x]", {}),
    "exits as text": ("import os\nclass C:\n    def __str__(self):\n        os._exit(0)\nx = C()", {}),
}


def test_values_that_are_hostile(place):
    """The true value, or none; always an answer, and always JSON. Where the value has no form in JSON, what it becomes is left open."""
    def check(name):
        code, expected = HOSTILE_VALUES[name]
        found = variables(place, code, "x")
        assert found in ({}, expected) if expected is not None else set(found) <= {"x"}, found
        assert variables(place, "x = 1", "x") == {"x": 1}
        assert not any(isinstance(v, float) and not math.isfinite(v) for v in found.values())

    each(HOSTILE_VALUES, check)


# --- two at once ---------------------------------------------------------------------------------------------


def test_two_clients_one_after_the_other(session):
    """A session does one thing at a time: whoever reads, waits and writes is not disturbed."""
    session.write("n", "0")
    count = "n=$(cat n); sleep 0.02; echo $((n + 1)) > n; echo $n"
    code = "import time\nn = int(open('n').read())\ntime.sleep(0.02)\nopen('n', 'w').write(str(n + 1))\nprint(n)"

    def client(number):
        return [int((session.execute(count) if number else session.run(code))["stdout"]) for _ in range(5)]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        seen = [n for one in pool.map(client, range(2)) for n in one]
    assert sorted(seen) == list(range(10)) and session.read("n").strip() == b"10"


def test_two_sessions_at_the_same_time(server):
    """Each waits for the other: neither could end alone. They meet by their files, through the client."""
    with Session(server) as one, Session(server) as other, concurrent.futures.ThreadPoolExecutor(2) as pool:
        wait = "echo > here; while [ ! -e go ]; do sleep 0.02; done; echo gone"
        waiting = [pool.submit(session.shell, wait) for session in (one, other)]
        for session in (one, other):
            until(lambda session=session: session.get("here")[0] == 200, "both run")
        for session in (one, other):
            session.write("go", "")
        assert [w.result() for w in waiting] == ["gone\n"] * 2


def test_files_while_a_command_runs(session):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        command = pool.submit(session.shell, "echo > begun; while [ ! -e go ]; do sleep 0.02; done; cat go")
        until(lambda: "begun" in session.files(), "it runs")
        session.write("go", "went")
        assert command.result() == "went"


@pytest.mark.more
def test_those_who_wait_are_counted(session):
    """64 of them; who comes then is told to come later, and nothing of his runs."""
    session.create()
    with concurrent.futures.ThreadPoolExecutor(80) as pool:
        first = pool.submit(session.shell, "echo > begun; while [ ! -e go ]; do sleep 0.02; done; cat go")
        until(lambda: session.get("begun")[0] == 200, "it runs")
        others = [pool.submit(session.request, "POST", "execute", "", "", {"command": "echo >> ran"}) for _ in range(75)]
        until(lambda: sum(one.done() for one in others) >= 11, "some were sent away")
        session.write("go", "went")
        assert first.result() == "went"
        statuses = [one.result()[0] for one in others]
        assert all(one.result()[1]["Retry-After"] for one in others if one.result()[0] == 429)
    assert sorted(statuses) == [200] * 64 + [429] * 11
    assert session.read("ran") == b"\n" * 64


# --- how much ------------------------------------------------------------------------------------------------


def test_a_full_session_is_full_and_no_other(server):
    with Session(server) as small, Session(server) as other:
        assert small.create(size="2M")[0] == 200
        other.create()
        answer = small.execute("head -c 10000000 /dev/zero > f")
        assert answer["returncode"] != 0 and "No space left" in answer["stderr"]
        assert 0 < small.files()["f"][0] <= 2 * MIB
        answer = small.execute("python3", "-c", "try:\n    open('g', 'wb').write(b'x' * 3000000)\nexcept OSError as e:\n    print(e.errno)")
        assert answer["stdout"] in ("28\n", ""), answer
        refused(*small.call("POST", "execute_code", body={"code": "print('there is no room for the script')"}), 413)
        for status, said in (small.put("h", "x" * 3000000), small.call("POST", "upload", "", "?filename=h", *large_form(3 * MIB))):
            assert "space" in refused(status, said).lower() or status in (413, 507), said
        assert small.get("h")[0] == 404, "no half files"
        assert other.execute("head -c 10000000 /dev/zero > f && wc -c < f")["stdout"] == "10000000\n"
        assert small.shell("rm f; rm -f g; head -c 1000000 /dev/zero > f; wc -c < f") == "1000000\n"


def large_form(size):
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n%s\r\n--b--\r\n' % (b"x" * size)
    return body, {"Content-Type": "multipart/form-data; boundary=b"}


@pytest.mark.more
def test_no_names_left(server):
    """Files without content are many as well."""
    with Session(server) as small, Session(server) as other:
        small.create(size="1M")
        answer = small.run("i = 0\ntry:\n    while i < 3000000:\n        open(f'n{i}', 'w').close()\n"
                           "        i += 1\nexcept OSError as e:\n    print(e.errno)")
        assert answer["stdout"] == "28\n", answer
        assert other.shell("echo > f; echo made") == "made\n"
        assert small.shell("ls -f | head -5 | xargs rm -f -- 2>/dev/null; echo here").endswith("here\n")


def test_memory(server):
    """Whether it is refused memory or killed is left open; that others are not is not."""
    with Session(server) as one, Session(server) as other:
        other.shell("setsid sleep 1000 > /dev/null 2>&1 & echo $! > pid")
        answer = one.run("x = []\nwhile True:\n    x.append(b'x' * 1000000)")
        assert answer["returncode"] != 0 and (answer["returncode"] in (137, -9) or "MemoryError" in answer["stderr"]), answer
        assert other.shell("kill -0 $(cat pid) && echo alive; kill $(cat pid)") == "alive\n"
        assert one.run("print('goes on')")["stdout"] == "goes on\n"


@pytest.mark.more
def test_processes(server, session):
    with Session(server) as other:
        other.create()
        answer = session.run("import os, time\ntry:\n    for n in range(5000):\n        if os.fork() == 0:\n            os.closerange(0, 3)\n"
                             "            time.sleep(1000)\nexcept OSError:\n    print('no more')")
        assert answer["stdout"] == "no more\n", answer
        assert other.shell("echo here") == "here\n"
        assert session.delete()[0] == 200 and session.shell("echo anew") == "anew\n"


@pytest.mark.more
def test_much_output(session):
    """16 MiB of each stream are kept; the rest is not, and the status is the true one."""
    answer = session.execute("head -c 20000000 /dev/zero | tr '\\0' a; head -c 20000000 /dev/zero | tr '\\0' b >&2; exit 7")
    assert answer["returncode"] == 7
    for stream, letter in (("stdout", "a"), ("stderr", "b")):
        assert answer[stream].startswith(letter * (15 * MIB)) and len(answer[stream]) < 17 * MIB
    assert session.shell("echo after") == "after\n"


def test_a_command_out_of_time(serve):
    """The reference has no limit here, but a variable for one. How it is told is left open: a status of its own, or an error."""
    server, word = serve(env={**NO_POOL, "SANDBOX_TIMEOUT_SECONDS": "1"}), mark()
    with Session(server) as session:
        session.write("f", "kept")
        for route, body in (("execute", {"command": f"sleep 1000; : {word}"}), ("execute_code", {"code": f"while True: pass  # {word}"})):
            status, answer = session.call("POST", route, body=body)
            assert status >= 500 and answer["detail"] or unwrapped(answer)["returncode"] != 0, answer
            until(lambda: not server.running(word), "it is ended")
        assert session.shell("cat f") == "kept", "the session goes on"


# A signal for everybody in a session, again and again; and what is asked of the session meanwhile.
BESET = "import os\nwhile True:\n    try:\n        os.kill(-1, %d)\n    except OSError:\n        pass"
LOOKS = (("files", "/"), ("download", "/f"), ("readfile", "/f"), ("status", ""))


@pytest.mark.more
def test_a_session_that_stops_whoever_works_in_it(server, session):
    """Files are worked on by somebody whom the session can stop. Who asked is told so, in a time that he can wait."""
    session.write("f", "x")
    session.write("stop.py", BESET % signal.SIGSTOP)
    word = mark()
    session.shell(f"setsid sh -c 'sleep 1000; : {word}' > /dev/null 2>&1 &")
    session.shell("setsid python3 stop.py > /dev/null 2>&1 &")
    until(lambda: [stat_of(pid)[2] for pid in server.running(word)] in (["T"], ["T", "T"]), "it stops everybody")
    for route, rest in LOOKS * 5:
        with server.wire() as wire, Session(server) as other:
            wire.send(f"GET {session.path(route, rest)} HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
            assert other.shell("echo nobody else") == "nobody else\n"
            try:
                wire.response()
            except TimeoutError:
                pytest.fail(f"{route} has no answer")


@pytest.mark.more
def test_a_session_that_kills_whoever_works_in_it(server, session):
    session.write("f", "x")
    session.write("kill.py", BESET % signal.SIGKILL)
    word = mark()
    session.shell(f"setsid python3 kill.py {word} > /dev/null 2>&1 &")
    until(lambda: server.running(word), "it kills everybody")
    for _ in range(10):
        for route, rest in LOOKS:
            status, _, data = session.request("GET", route, rest)
            assert status == 200 or status >= 500 and json.loads(data)["detail"], data
        status, answer = session.put("g", "y")
        assert status == 200 or status >= 500 and answer["detail"], answer
    with Session(server) as other:
        assert other.shell("echo nobody else") == "nobody else\n"
    assert session.delete()[0] == 200
    until(lambda: not server.running(word), "it can be ended")


@pytest.mark.more
def test_a_client_that_leaves(session):
    """A command of a session does not end with who asked for it."""
    body = json.dumps({"command": "echo > begun; while [ ! -e go ]; do sleep 0.05; done; echo done > done"}).encode()
    with session.server.wire() as wire:
        wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (session.path("execute").encode(), session.server.authority.encode(), len(body), body))
        until(lambda: session.get("begun")[0] == 200, "it runs")
    session.write("go", "")
    until(lambda: session.get("done")[2] == b"done\n", "it went on")
    assert session.shell("echo next") == "next\n"
