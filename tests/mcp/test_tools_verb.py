# SPDX-License-Identifier: Apache-2.0
"""`glovebox tools` with a server on standard input and output: as people call it, and with one that misbehaves (bad_server.py)."""
import json
import os
import pathlib
import pty
import resource
import signal
import sys

import pytest

from server import SANITIZED, until

pytestmark = pytest.mark.more

BAD = pathlib.Path(__file__).resolve().parent / "bad_server.py"
# Whatever a server sends, the client does with so much.
MEMORY = 512 << 20


def bounded():
    if SANITIZED:
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def bad(way, *more):
    return "--", sys.executable, BAD, way, *more


@pytest.fixture
def call(run):
    """call("way", ...): the tool of a bad server."""
    def it(way, *options, **kw):
        return run("tools", "call", "do", *options, *bad(way), preexec_fn=bounded, **kw)
    return it


# --- as it should be --------------------------------------------------------------------------------------------------


def test_list(run):
    got = run("tools", "list", *bad("fine"))
    assert (got.returncode, got.stdout, got.stderr) == (0, b"do  does\n    n: integer\n", b"")
    got = run("tools", "list", "--json", *bad("fine"))
    assert json.loads(got.stdout)["tools"][0]["inputSchema"]["properties"] == {"n": {"type": "integer"}}


def test_gen(run, tmp_path):
    got = run("tools", "gen", *bad("fine"), cwd=tmp_path)
    assert (got.returncode, got.stdout) == (0, b"do\n") and b"1 modules in mcptools/bad" in got.stderr
    assert sorted(path.name for path in (tmp_path / "mcptools/bad").iterdir()) == ["__init__.py", "do.py"]
    written = (tmp_path / "mcptools/bad/do.py").read_bytes()
    compile(written, "do.py", "exec")
    assert b'call("bad", "do", ' in written
    got = run("tools", "gen", "do", *bad("fine"), cwd=tmp_path)
    assert (got.returncode, got.stdout, got.stderr) == (0, written, b"")
    got = run("tools", "gen", "--out", tmp_path / "x", "--name", "My Server", *bad("fine"))
    assert got.returncode == 0 and b'call("My Server", ' in (tmp_path / "x/my_server/do.py").read_bytes()
    got = run("tools", "gen", "nothing", *bad("fine"))
    assert (got.returncode, got.stdout, got.stderr) == (2, b"", b"glovebox: the server has no tool 'nothing'\n")
    (tmp_path / "y").write_text("a file")
    assert run("tools", "gen", "--out", tmp_path / "y", *bad("fine")).returncode == 2
    assert not list(tmp_path.glob("y/*"))


def test_call(run, tmp_path):
    heard = tmp_path / "heard"
    got = run("tools", "call", "--timeout", "30", "do", "n=5", "s=text", "j=[1]", *bad("fine", heard))
    assert (got.returncode, got.stdout, got.stderr) == (0, b"fine\n", b"")
    said = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [one.get("method") for one in said[:-1]] == ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert said[4]["params"]["arguments"] == {"n": 5, "s": "text", "j": [1]}
    assert said[-1] == "end"
    heard.unlink()
    got = run("tools", "call", "do", '{"n": 1.50, "o": {"a": []}}', "--json", *bad("fine", heard))
    assert json.loads(got.stdout) == {"content": [{"type": "text", "text": "fine"}]}
    assert '"arguments":{"n":1.50,"o":{"a":[]}}' in heard.read_text()


def test_a_tool_that_fails(call):
    got = call("fails")
    assert (got.returncode, got.stdout) == (1, b"it failed\n")
    assert call("fails", "--json").returncode == 1
    got = call("refuses")
    assert got.returncode == 1 and got.stderr == b"glovebox: not ?[31mtoday (-32000)\n"


@pytest.mark.parametrize("words, status, text", [
    (["tools"], 2, "usage"), (["tools", "bogus"], 2, "no command"), (["tools", "list"], 2, "no server"), (["tools", "list", "--bogus", "x"], 2, "unknown option"),
    (["tools", "list", "--"], 2, "no program"), (["tools", "list", "https://x/mcp"], 2, "https"), (["tools", "list", "ftp://x"], 2, "no URL"),
    (["tools", "list", "http://user@x/"], 2, "no URL"), (["tools", "list", "--timeout", "x", "http://x"], 2, "duration"),
    (["tools", "list", "--header", "x", "http://x"], 2, "Name: value"), (["tools", "list", "--header", "a: b\nc: d", "http://x"], 2, "Name: value"),
    (["tools", "list", "--header", "a: ${NO_SUCH_VARIABLE}", "http://x"], 2, "is not set"), (["tools", "list", "--config", "/no/such", "x"], 2, "/no/such"),
    (["tools", "list", "http://x", "y"], 2, "not needed"), (["tools", "call", "http://x"], 2, "no tool is named"),
    (["tools", "list", "http://127.0.0.1:1/mcp"], 3, "refused"), (["tools", "list", "http://127.0.0.1:1/sse"], 3, "refused"),
    (["tools", "list", "--", "/no/such/program"], 3, "No such file"), (["tools", "list", "--", "false"], 3, "has ended, by status 1"),
    (["tools", "call", "nope", *bad("fine")], 2, "no tool 'nope'"), (["tools", "call", "do", "x", *bad("fine")], 2, "key=value"),
    (["tools", "call", "do", "n=x", *bad("fine")], 2, "not of the type"), (["tools", "call", "do", "{", *bad("fine")], 2, "no JSON object")])
def test_called_wrongly(run, words, status, text):
    got = run(*words)
    assert got.returncode == status and text in got.stderr.decode() and not got.stdout, got


def test_help(run):
    for words in (["tools", "--help"], ["tools", "list", "-h"], ["tools", "call", "--help"]):
        got = run(*words)
        assert got.returncode == 0 and b"outside any box" in got.stdout and b"--timeout" in got.stdout


def test_config(run, tmp_path):
    heard, config = tmp_path / "heard", tmp_path / "config.json"
    config.write_text(json.dumps({"mcpServers": {
        "one": {"command": "${PYTHON}", "args": ["-c", "import os, runpy, sys; assert os.environ['SECRET'] == 'x-$-y'; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])",
                                                 str(BAD), "fine", "${DIR}/heard"], "env": {"SECRET": "x-$-${VALUE}"}},
        "web": {"type": "http", "url": "http://127.0.0.1:1/${DIR}", "headers": {"Authorization": "Bearer ${NO_SUCH_VARIABLE}"}},
        "both": {"command": "x", "url": "y"}, "none": {}, "odd": {"command": 5}, "args": {"command": "x", "args": {}}, "env": {"command": "x", "env": {"A": 1}}}}))
    env = {"PYTHON": sys.executable, "DIR": str(tmp_path), "VALUE": "y", "PATH": "/usr/bin:/bin"}
    got = run("tools", "call", "--config", config, "one", "do", env=env)
    assert (got.returncode, got.stdout) == (0, b"fine\n"), got
    assert heard.exists()
    for name, text in {"web": "NO_SUCH_VARIABLE", "both": "one of", "none": "one of", "odd": "'command' is no string", "args": "'args'", "env": "no string", "no": "no server 'no'"}.items():
        got = run("tools", "list", "--config", config, name, env=env)
        assert got.returncode == 2 and text in got.stderr.decode(), (name, got)
    config.write_text("{")
    assert run("tools", "list", "--config", config, "one", env=env).returncode == 2


# --- servers that misbehave -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["ids", "shapes", "questions"])
def test_what_is_for_nobody_is_passed_over(call, way):
    got = call(way)
    assert (got.returncode, got.stdout) == (0, b"fine\n"), got


@pytest.mark.parametrize("way, text", [
    ("junk", "too much that is for nobody"), ("long line", "more than 67108864 bytes"), ("huge", "more than 67108864 bytes"), ("no result", "no result of a tool"),
    ("both", "both a result and an error"), ("dies", "has ended, by status 7"), ("killed", "has ended, by signal 9")])
def test_a_server_that_makes_no_sense(call, way, text):
    got = call(way)
    assert got.returncode == 3 and text in got.stderr.decode() and got.stdout == b"", got


def test_last_words(call):
    got = call("dies")
    assert b"the server says: I was here\n" in got.stderr and b"the server says: ?[31mlast words\n" in got.stderr
    got = call("dies", "--verbose")
    assert b"I was here\n" in got.stderr and b"server says" not in got.stderr


@pytest.mark.parametrize("way", ["endless", "silent", "wrong ids", "drip"])
def test_no_answer_in_time(call, way):
    got = call(way, "--timeout", "1")
    assert got.returncode == 3 and b"no answer to 'tools/call' in time" in got.stderr, got


@pytest.mark.parametrize("way, text", [("pages", "more than 256 pages"), ("loop", "does not end"), ("many", "more than 4096 tools")])
def test_lists_without_end(run, way, text):
    got = run("tools", "list", *bad(way), preexec_fn=bounded)
    assert got.returncode == 3 and text in got.stderr.decode() and got.stdout == b"", got


def test_names_do_nothing_to_a_terminal(run):
    got = run("tools", "list", *bad("names"))
    assert got.stdout.startswith("?]0;title?do  ?[2J???gone\n".encode()), got
    assert "\x1b" not in run("tools", "list", "--json", *bad("names")).stdout.decode()


def test_a_tool_with_very_many_parameters(run):
    lines = run("tools", "list", *bad("wide"), preexec_fn=bounded).stdout.decode().splitlines()
    assert len(lines) == 66 and lines[1] == "    p0: any, required" and lines[-1] == "    … and more"


@pytest.mark.more
@pytest.mark.parametrize("way", ["stubborn", "family"])
def test_a_server_that_does_not_end(call, way):
    """It, and what it has started, is gone all the same: see conftest.py."""
    assert call(way, "--timeout", "1").returncode == 3


@pytest.mark.more
def test_a_server_that_does_not_answer_what_it_does_not_know(call):
    assert call("deaf").stdout == b"fine\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels_the_call(start, tmp_path, number):
    heard = tmp_path / "heard"
    process = start("tools", "call", "do", *bad("silent", heard))
    until(lambda: heard.exists() and "tools/call" in heard.read_text(), "it is called")
    process.send_signal(number)
    assert process.wait(20) == 128 + number
    said = [json.loads(line) for line in heard.read_text().splitlines()]
    assert said[-2]["method"] == "notifications/cancelled" and said[-2]["params"]["requestId"] == said[-3]["id"]
    assert said[-1] == "end"


def test_progress_is_for_a_terminal(run):
    ours, theirs = pty.openpty()
    try:
        got = run("tools", "call", "do", *bad("progress"), stderr=theirs)
        assert (got.returncode, got.stdout) == (0, b"fine\n")
        said = os.read(ours, 4096)
        assert b"\r\x1b[K1 of 2  half ?[2Jway" in said and said.endswith(b"\r\x1b[K")
    finally:
        os.close(ours)
        os.close(theirs)
    assert run("tools", "call", "do", *bad("progress")).stderr == b""


def test_texts_act_on_no_terminal(run):
    ours, theirs = pty.openpty()
    try:
        assert run("tools", "call", "do", *bad("colours"), stdout=theirs).returncode == 0
        assert os.read(ours, 4096).replace(b"\r\n", b"\n") == b"\x1b[31mred\x1b[0m title\x1b[0m\n"
    finally:
        os.close(ours)
        os.close(theirs)
    assert run("tools", "call", "do", *bad("colours")).stdout == b"\x1b[31mred\x1b[0m \x1b]0;x\x07title\n"


def test_files_are_new_and_not_too_many(run, tmp_path):
    (tmp_path / "do-2.png").symlink_to(tmp_path / "elsewhere")
    got = run("tools", "call", "do", "--images", tmp_path, *bad("images"))
    assert got.returncode == 0 and got.stdout.count(b"[image/png: ") == 255 and got.stdout.count(b"[image/png]") == 1 + 45
    assert b"it is no base64" in got.stderr and b"there are too many" in got.stderr and got.stderr.count(b"could not be saved") == 2
    assert not (tmp_path / "elsewhere").exists() and (tmp_path / "do-1.png").read_bytes() == b"hi"
    got = run("tools", "call", "do", "--images", "/proc/no/such", *bad("images"))
    assert got.returncode == 0 and b"[image/png: " not in got.stdout
