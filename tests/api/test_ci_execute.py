# SPDX-License-Identifier: Apache-2.0
"""Code Interpreter: POST /v1/execute, its fields, results, files and refusals."""
import base64
import concurrent.futures
import json
import uuid

import pytest

from server import both_ways, mark, needs_root, until

pytestmark = needs_root

CANARY = "canary-of-the-servers-environment"
FIELDS = {"stdout": str, "stderr": str, "timed_out": bool, "duration_ms": int, "files": list}
LIMIT = 1000
NOBODYS_ID = "3f2b8c1e-5d4a-4c6b-9e7f-0a1b2c3d4e5f"
MIB = 1 << 20

server = both_ways(env={"SECRET_OF_THE_SERVER": CANARY})
tight = both_ways(env={"MAX_OUTPUT_BYTES": str(LIMIT), "CPU_TIME_LIMIT_SEC": "1", "MEMORY_LIMIT_MB": "64"})
tiny = both_ways(env={"MAX_OUTPUT_BYTES": "20"})
hasty = both_ways(env={"MAX_EXEC_TIMEOUT_MS": "3000"})


def names(answer):
    return sorted(f["path"] for f in answer["files"])


def content_of(server, answer, path):
    found = [f for f in answer["files"] if f["path"] == path]
    assert len(found) == 1 and found[0]["kind"] == "file", answer["files"]
    return server.download(found[0]["file_id"])


def refusal(server, body, headers=None):
    """Status and detail of a request that must not be granted."""
    status, answer = server.call("POST", "/v1/execute", body, headers)
    assert 400 <= status < 500, (status, answer)
    return status, answer["detail"]


# --- the answer ----------------------------------------------------------------------------------------------


def test_the_answer_has_its_fields(server):
    r = server.execute("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert {name: type(r[name]) for name in FIELDS} == FIELDS
    assert type(r["exit_code"]) is int
    assert (r["stdout"], r["stderr"], r["exit_code"], r["timed_out"], r["files"]) == ("out\n", "err\n", 0, False, [])
    assert r["duration_ms"] >= 0


def test_the_answer_is_json(server):
    status, headers, body = server.request("POST", "/v1/execute", {"code": "print(1)"})
    assert status == 200 and headers.get_content_type() == "application/json"
    assert json.loads(body)["stdout"] == "1\n"


def test_unknown_keys_are_ignored(server):
    assert server.execute("print(1)", colour="blue", nested={"a": [1, {}]})["stdout"] == "1\n"


@pytest.mark.parametrize("text", ["naïve €uro 𝄞", "tab\there", "esc\x1b[31m", 'quote " and \\', "\u2028\u2029",
                                  "\x7f\x80"],
                         ids=["unicode", "tab", "escape", "quotes", "separators", "controls"])
def test_text_comes_through_as_it_is(server, text):
    r = server.execute("import sys\nsys.stdout.write(sys.stdin.read())\nNone", stdin=text)
    assert r["stdout"] == text and r["exit_code"] == 0


def test_a_nul_is_no_text(server):
    """No string of a request may hold one: refused by name, not cut off."""
    for body in ({"code": "1\0"}, {"code": "1", "stdin": "a\0b"}, {"code": "1", "files": [{"path": "a\0b", "content": ""}]}):
        assert server.call("POST", "/v1/execute", body)[0] == 422


BROKEN_TEXT = [b"\xff", b"a\xc3(b", b"\xe2\x82", b"\xe2\x82(", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80x", b"\x80\x80"]


@pytest.mark.parametrize("data", BROKEN_TEXT, ids=[d.hex() for d in BROKEN_TEXT])
def test_bytes_that_are_no_text_are_replaced(server, data):
    r = server.execute(f"import os\nos.write(1, {data!r})\nos.write(2, {data!r})\nNone")
    assert r["stdout"] == r["stderr"] == data.decode("utf-8", "replace")


def test_five_at_once(server):
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda i: server.execute(f"import time\ntime.sleep(0.3)\nprint({i})"), range(5)))
    assert [a["stdout"] for a in answers] == [f"{i}\n" for i in range(5)]


# --- fields that are wrong -----------------------------------------------------------------------------------

WRONG = {
    "no code": ({}, "missing", ["code"]),
    "code is null": ({"code": None}, "string_type", ["code"]),
    "code is a number": ({"code": 1}, "string_type", ["code"]),
    "code is a list": ({"code": ["1"]}, "string_type", ["code"]),
    "stdin is a number": ({"code": "1", "stdin": 1}, "string_type", ["stdin"]),
    "stdin is false": ({"code": "1", "stdin": False}, "string_type", ["stdin"]),
    "timeout is true": ({"code": "1", "timeout_ms": True}, "int_type", ["timeout_ms"]),
    "timeout is 1.0": ({"code": "1", "timeout_ms": 1000.0}, "int_type", ["timeout_ms"]),
    "timeout is 1.5": ({"code": "1", "timeout_ms": 1.5}, "int_type", ["timeout_ms"]),
    "timeout is text": ({"code": "1", "timeout_ms": "1000"}, "int_type", ["timeout_ms"]),
    "timeout is null": ({"code": "1", "timeout_ms": None}, "int_type", ["timeout_ms"]),
    "timeout is 0": ({"code": "1", "timeout_ms": 0}, "greater_than_equal", ["timeout_ms"]),
    "timeout is negative": ({"code": "1", "timeout_ms": -1}, "greater_than_equal", ["timeout_ms"]),
    "flag is a word": ({"code": "1", "last_line_interactive": "maybe"}, "bool_parsing", ["last_line_interactive"]),
    "flag is 2": ({"code": "1", "last_line_interactive": 2}, "bool_parsing", ["last_line_interactive"]),
    "flag is a list": ({"code": "1", "last_line_interactive": []}, "bool_type", ["last_line_interactive"]),
    "flag is null": ({"code": "1", "last_line_interactive": None}, "bool_type", ["last_line_interactive"]),
    "files is an object": ({"code": "1", "files": {}}, "list_type", ["files"]),
    "files is text": ({"code": "1", "files": "a"}, "list_type", ["files"]),
    "files is null": ({"code": "1", "files": None}, "list_type", ["files"]),
    "file is text": ({"code": "1", "files": ["a"]}, None, ["files", 0]),
    "file without path": ({"code": "1", "files": [{"file_id": "x"}]}, "missing", ["files", 0, "path"]),
    "path is a number": ({"code": "1", "files": [{"path": 1, "file_id": "x"}]}, "string_type", ["files", 0, "path"]),
    "id is a number": ({"code": "1", "files": [{"path": "a", "file_id": 1}]}, "string_type", ["files", 0, "file_id"]),
}
MESSAGES = {
    "missing": "Field required",
    "string_type": "Input should be a valid string",
    "int_type": "Input should be a valid integer",
    "greater_than_equal": "Input should be greater than or equal to 1",
    "list_type": "Input should be a valid list",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field_is_named(server, name):
    body, kind, where = WRONG[name]
    status, detail = refusal(server, body)
    assert status == 422 and isinstance(detail, list) and detail
    first = detail[0]
    assert {"type", "loc", "msg", "input"} <= set(first)
    assert first["loc"] == ["body", *where]
    assert kind is None or first["type"] == kind
    assert first["msg"] == MESSAGES.get(first["type"], first["msg"]) and first["msg"]


def test_the_second_of_two_files_is_named(server):
    file_id = server.upload(b"x")
    _, detail = refusal(server, {"code": "1", "files": [{"path": "a", "file_id": file_id}, {"path": 2, "file_id": file_id}]})
    assert detail[0]["loc"] == ["body", "files", 1, "path"]


def test_a_timeout_over_the_maximum(server):
    for timeout in (60001, 10 ** 9):
        assert refusal(server, {"code": "1", "timeout_ms": timeout}) == (422, "timeout_ms exceeds maximum of 60000 ms")
    assert server.execute("print(1)", timeout_ms=60000)["stdout"] == "1\n"


def test_a_timeout_that_is_no_machine_number(server):
    """Whether such a number is too large or no number at all is left open."""
    for timeout in (2 ** 31, 2 ** 63, 10 ** 40):
        assert refusal(server, {"code": "1", "timeout_ms": timeout})[0] in (400, 422)


def test_the_maximum_is_a_variable(hasty):
    assert refusal(hasty, {"code": "1", "timeout_ms": 3001}) == (422, "timeout_ms exceeds maximum of 3000 ms")
    assert hasty.execute("print(1)", timeout_ms=3000)["exit_code"] == 0


NO_OBJECT = {
    "nothing": b"",
    "half": b'{"code": "1"',
    "list": b"[]",
    "text": b'"code"',
    "null": b"null",
    "comma": b'{"code": "1",}',
    "single quotes": b"{'code': '1'}",
    "bare word": b'{"code": code}',
    "not a number": b'{"code": "1", "timeout_ms": NaN}',
    "more after it": b'{"code": "1"} {"code": "2"}',
    "control character": b'{"code": "a\nb"}',
    "bad UTF-8": b'{"code": "\xff"}',
    "overlong UTF-8": b'{"code": "\xc0\xaf"}',
    "half a surrogate pair": b'{"code": "\\ud800"}',
    "bad escape": b'{"code": "\\x41"}',
    "same key twice": b'{"code": "print(1)", "code": "print(2)"}',
    "same key twice, one escaped": b'{"code": "print(1)", "c\\u006fde": "print(2)"}',
    "same key twice further in": b'{"code": "1", "files": [{"path": "a", "path": "b", "content": ""}]}',
    "form": b"code=print(1)",
}


@pytest.mark.parametrize("name", NO_OBJECT)
def test_a_body_that_is_no_object(server, name):
    """FastAPI says 422 for all of it; api.md has 400 for what is malformed. Both name the trouble in "detail"."""
    status, detail = refusal(server, NO_OBJECT[name])
    assert status in (400, 422) and detail


# --- input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{}, {"stdin": None}, {"stdin": ""}], ids=["absent", "null", "empty"])
def test_without_stdin_there_is_its_end(server, fields):
    assert server.execute("import sys\nprint(repr(sys.stdin.read()))", **fields)["stdout"] == "''\n"


def test_stdin_and_then_its_end(server):
    r = server.execute("print(input())\nprint(input())\ninput()", stdin="one\ntwo\n")
    assert r["stdout"] == "one\ntwo\n" and r["exit_code"] == 1 and "EOFError" in r["stderr"]


def test_much_stdin(server):
    text = "0123456789abcdef" * (MIB // 16)
    r = server.execute("import sys\nprint(len(sys.stdin.read()))", stdin=text)
    assert r["stdout"] == f"{MIB}\n"


def test_stdin_that_nobody_reads(server):
    assert server.execute("print(1)", stdin="x" * MIB)["stdout"] == "1\n"


# --- how it ends ---------------------------------------------------------------------------------------------

ENDS = {
    "nothing": ("", 0),
    "exit 0": ("raise SystemExit", 0),
    "exit 3": ("import sys; sys.exit(3)", 3),
    "exit 255": ("import os; os._exit(255)", 255),
    "exit with text": ("import sys; sys.exit('why')", 1),
    "exception": ("1/0", 1),
    "killed": ("import os; os.kill(os.getpid(), 9)", 137),
    "crash": ("import os; os.kill(os.getpid(), 11)", 139),
}


@pytest.mark.parametrize("flag", [True, False], ids=["interactive", "plain"])
@pytest.mark.parametrize("name", ENDS)
def test_exit_code(server, name, flag):
    code, expected = ENDS[name]
    r = server.execute(code, last_line_interactive=flag)
    assert (r["exit_code"], r["timed_out"]) == (expected, False)


def test_exit_text_goes_to_stderr(server):
    assert server.execute("import sys; sys.exit('why')")["stderr"] == "why\n"


@pytest.mark.parametrize("flag, file", [(True, "<stdin>"), (False, "/workspace/__main__.py")], ids=["interactive", "plain"])
def test_an_error_in_the_middle(server, flag, file):
    r = server.execute("print('before')\n\nraise ValueError('boom')\nprint('after')", last_line_interactive=flag)
    assert (r["stdout"], r["exit_code"]) == ("before\n", 1)
    assert f'File "{file}", line 3' in r["stderr"]
    assert r["stderr"].startswith("Traceback (most recent call last):\n") and r["stderr"].endswith("ValueError: boom\n")


def test_an_error_in_the_last_line(server):
    r = server.execute("x = 0\n1 / x")
    assert r["exit_code"] == 1 and 'File "<stdin>", line 2' in r["stderr"] and "ZeroDivisionError" in r["stderr"]


@pytest.mark.parametrize("flag", [True, False], ids=["interactive", "plain"])
@pytest.mark.parametrize("code, name", [("print('before')\nx = = 1", "SyntaxError"), ("if 1:\nx = 1", "IndentationError"),
                                        ("return 1", "SyntaxError"), ("print('open", "SyntaxError")])
def test_a_program_that_is_none(server, code, name, flag):
    r = server.execute(code, last_line_interactive=flag)
    assert r["exit_code"] == 1 and r["stdout"] == "" and name in r["stderr"]
    assert ("<stdin>" in r["stderr"]) == flag


# --- the last line -------------------------------------------------------------------------------------------

LAST = {
    "number": ("1 + 1", "2\n"),
    "text": ("'a'", "'a'\n"),
    "None": ("None", ""),
    "call that returns None": ("print('p')", "p\n"),
    "assignment": ("x = 5", ""),
    "name": ("x = 5\nx", "5\n"),
    "several lines": ("(1,\n 2,\n 3)", "(1, 2, 3)\n"),
    "comprehension over lines": ("[\n    i * i\n    for i in range(3)\n]", "[0, 1, 4]\n"),
    "only the last": ("1\n2\n3", "3\n"),
    "after a semicolon": ("1; 2", "2\n"),
    "in an if": ("if True:\n    7", ""),
    "function of before": ("def f():\n    return y\ny = 4\nf()", "4\n"),
    "followed by comments": ("5  # five\n\n# end\n\n", "5\n"),
    "doc string": ("'''only'''", "'only'\n"),
    "future": ("from __future__ import annotations\n6", "6\n"),
    "no line end": ("x = 1\nx + 1", "2\n"),
    "other line ends": ("x = 1\r\nx + 1\r\n", "2\n"),
    "own hook": ("import sys\nsys.displayhook = lambda v: print('hook', v)\n4", "hook 4\n"),
    "unicode": ("'é€𝄞'", "'é€𝄞'\n"),
    "only comments": ("# nothing\n", ""),
    "main": ("__name__", "'__main__'\n"),
    "prints before": ("print('a')\n'b'", "a\n'b'\n"),
}


@pytest.mark.parametrize("name", LAST)
def test_last_line(server, name):
    code, expected = LAST[name]
    r = server.execute(code)
    assert (r["stdout"], r["stderr"], r["exit_code"]) == (expected, "", 0)


def test_last_line_that_writes_a_file(server):
    r = server.execute("from pathlib import Path\nPath('n.txt').write_text('abc')")
    assert r["stdout"] == "3\n" and content_of(server, r, "n.txt") == b"abc"


def test_last_line_whose_repr_fails(server):
    r = server.execute("class R:\n    def __repr__(self):\n        return 1 / 0\nR()")
    assert r["exit_code"] == 1 and "ZeroDivisionError" in r["stderr"]


def test_without_the_flag_it_is_a_plain_script(server):
    r = server.execute("print(__name__, __file__)\n1 + 1", last_line_interactive=False)
    assert r["stdout"] == "__main__ /workspace/__main__.py\n"


@pytest.mark.parametrize("value", [True, 1, "true", "True", "TRUE", "1", "on", "yes", "y", "t"], ids=repr)
def test_what_switches_the_flag_on(server, value):
    assert server.execute("7", last_line_interactive=value)["stdout"] == "7\n"


@pytest.mark.parametrize("value", [False, 0, "false", "False", "0", "off", "no", "n", "f"], ids=repr)
def test_what_switches_the_flag_off(server, value):
    assert server.execute("7", last_line_interactive=value)["stdout"] == ""


# --- time, processor, memory ---------------------------------------------------------------------------------


def test_a_timeout_keeps_what_was_done(server):
    r = server.execute("""
import sys, time
open("made.txt", "w").write("so far")
print("out")
print("err", file=sys.stderr)
time.sleep(1000)
""", timeout_ms=2000)
    assert (r["exit_code"], r["timed_out"]) == (None, True)
    assert (r["stdout"], r["stderr"]) == ("out\n", "err\n")
    assert content_of(server, r, "made.txt") == b"so far"


@pytest.mark.more
def test_there_is_a_timeout_by_default(server):
    r = server.execute("import time\ntime.sleep(1000)")
    assert (r["exit_code"], r["timed_out"]) == (None, True)


def test_a_timeout_ends_all_processes(server):
    word = mark()
    r = server.execute(f"""
import signal, subprocess, sys, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN)
for _ in range(3):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", {word!r}], start_new_session=True)
time.sleep(1000)
""", timeout_ms=1000)
    assert r["timed_out"] is True
    until(lambda: not server.running(word), "the children of a program that timed out are gone")


def test_the_end_of_the_program_ends_what_it_started(server):
    word = mark()
    r = server.execute(f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", {word!r}], start_new_session=True)
print("left it")
""")
    assert (r["stdout"], r["exit_code"], r["timed_out"]) == ("left it\n", 0, False)
    until(lambda: not server.running(word), "what a program started is gone")


def test_too_much_processor_time(tight):
    r = tight.execute("print('begun')\nwhile True: pass", timeout_ms=60000)
    assert (r["stdout"], r["exit_code"], r["timed_out"]) == ("begun\n", 137, False)


def test_too_much_memory(tight):
    r = tight.execute("print('begun')\nb = bytearray(b'x') * (1 << 30)", timeout_ms=60000)
    assert (r["stdout"], r["exit_code"], r["timed_out"]) == ("begun\n", 137, False)
    assert tight.execute("print(1)")["stdout"] == "1\n"


def test_memory_below_the_limit(tight):
    assert tight.execute("b = bytearray(b'x') * (30 << 20); print(len(b))", timeout_ms=60000)["stdout"] == f"{30 * MIB}\n"


# --- how much output -----------------------------------------------------------------------------------------


def cut(data, limit):
    return data.decode() if len(data) <= limit else \
        data[:max(0, limit - 32)].decode("utf-8", "replace") + "\n...[truncated]"


@pytest.mark.parametrize("size", [0, 1, LIMIT - 33, LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 32, 5 * LIMIT, 1000 * LIMIT])
def test_output_is_cut(tight, size):
    data = (b"0123456789" * (size // 10 + 1))[:size]
    r = tight.execute(f"import os\ndata = (b'0123456789' * {size // 10 + 1})[:{size}]\n"
                      "while data: data = data[os.write(1, data):]")
    assert r["stdout"] == cut(data, LIMIT) and r["stderr"] == "" and r["exit_code"] == 0


def test_each_stream_is_cut_by_itself(tight):
    r = tight.execute(f"import sys\nsys.stdout.write('o' * {LIMIT + 1})\nsys.stderr.write('e' * {LIMIT})\nNone")
    assert r["stdout"] == "o" * (LIMIT - 32) + "\n...[truncated]" and r["stderr"] == "e" * LIMIT
    r = tight.execute(f"import sys\nsys.stdout.write('o' * {LIMIT})\nsys.stderr.write('e' * {LIMIT + 1})\nNone")
    assert r["stdout"] == "o" * LIMIT and r["stderr"] == "e" * (LIMIT - 32) + "\n...[truncated]"


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_cut_within_a_character(tight, before):
    data = b"x" * before + "€".encode() * LIMIT
    r = tight.execute(f"import os\nos.write(1, {before} * b'x' + '€'.encode() * {LIMIT})\nNone")
    assert r["stdout"] == cut(data, LIMIT)


def test_a_limit_below_the_mark(tiny):
    assert tiny.execute("print('x' * 19)")["stdout"] == "x" * 19 + "\n"
    assert tiny.execute("print('x' * 20)")["stdout"] == "\n...[truncated]"


# --- files out -----------------------------------------------------------------------------------------------


def test_a_new_file_comes_back(server):
    r = server.execute("open('result.txt', 'w').write('42'); None")
    assert [(set(f), f["path"], f["kind"]) for f in r["files"]] == [({"path", "kind", "file_id"}, "result.txt", "file")]
    file_id = r["files"][0]["file_id"]
    assert str(uuid.UUID(file_id)) == file_id and server.download(file_id) == b"42"
    _, listing = server.call("GET", "/v1/files")
    assert [(f["filename"], f["size_bytes"]) for f in listing["files"] if f["file_id"] == file_id] == [("result.txt", 2)]


def test_files_below_directories(server):
    r = server.execute("""
import os
os.makedirs("a/b/c")
os.makedirs("empty")
open("a/b/c/deep.txt", "w").write("deep")
open("a/top.txt", "w").write("top")
""")
    assert names(r) == ["a/b/c/deep.txt", "a/top.txt"]
    assert content_of(server, r, "a/b/c/deep.txt") == b"deep"


def test_what_is_no_file_is_ignored(server):
    r = server.execute("""
import os, socket
os.mkdir("directory")
os.symlink("/etc/passwd", "link")
os.symlink("kept.txt", "link-to-own")
os.symlink("/etc", "link-to-directory")
os.symlink("nowhere", "dangling")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("socket")
open("kept.txt", "w").write("kept")
""")
    assert r["exit_code"] == 0 and names(r) == ["kept.txt"]


def test_the_entry_point_is_never_returned(server):
    r = server.execute("""
import os
os.makedirs("a/b")
for path in ("a/__main__.py", "a/b/__main__.py", "a/main.py", "__main__.txt"):
    open(path, "w").write("x")
""")
    assert names(r) == ["__main__.txt", "a/main.py"]


@pytest.mark.parametrize("data", [bytes(range(256)) * 3, b"\x80", b"\xff\xfe\x00", b"", b"\r\n\n\r"],
                         ids=["all bytes", "0x80", "mark", "empty", "line ends"])
def test_binary_files_come_back_unchanged(server, data):
    r = server.execute(f"open('data.bin', 'wb').write({data!r})")
    assert content_of(server, r, "data.bin") == data


ODD = [".env", ".config/settings", "..data", "with space", "ünï.txt", "a'b\"c", "back\\slash", "-rf", "$(id)",
       "%41", "x" * 255]


@pytest.mark.parametrize("path", ODD, ids=[repr(p[:20]) for p in ODD])
def test_odd_names_keep_their_name(server, path):
    r = server.execute(f"import os\npath = {path!r}\nif '/' in path: os.makedirs(os.path.dirname(path))\n"
                       "open(path, 'w').write('odd')")
    assert names(r) == [path] and content_of(server, r, path) == b"odd"


def test_a_name_with_control_characters_is_passed_over(server):
    r = server.execute("for name in ('new\\nline', 'esc\\x1b[31m', 'fine'): open(name, 'w').write('x')")
    assert names(r) == ["fine"]


def test_one_file_that_cannot_be_read_does_not_hide_the_others(server):
    r = server.execute("""
import os
open("secret", "w").write("x")
os.chmod("secret", 0)
os.mkdir("closed")
open("closed/inner", "w").write("x")
os.chmod("closed", 0)
open("good", "w").write("good")
open(b"\\xff\\xfe", "w").write("no text is its name")
""")
    assert r["exit_code"] == 0 and "good" in names(r) and content_of(server, r, "good") == b"good"


def test_many_files(server):
    r = server.execute("import os\nos.mkdir('d')\nfor i in range(300): open(f'd/{i}', 'w').write(str(i))", timeout_ms=60000)
    assert names(r) == sorted(f"d/{i}" for i in range(300))
    assert len({f["file_id"] for f in r["files"]}) == 300 and content_of(server, r, "d/299") == b"299"


def test_a_large_file(server):
    r = server.execute("open('large', 'wb').write(bytes(range(256)) * 131072)", timeout_ms=60000)
    assert content_of(server, r, "large") == bytes(range(256)) * 131072


def test_a_failed_program_still_gives_its_files(server):
    r = server.execute("open('made', 'w').write('x')\n1/0")
    assert r["exit_code"] == 1 and names(r) == ["made"]


# --- files in ------------------------------------------------------------------------------------------------


def staged(server, content, path="in.txt"):
    return {"path": path, "file_id": server.upload(content)}


def test_a_staged_file_is_there_and_is_the_programs_own(server):
    r = server.execute("import os\nprint(open('d/in.bin', 'rb').read() == bytes(range(256)), os.stat('d/in.bin').st_uid == os.getuid())",
                       files=[staged(server, bytes(range(256)), "d/in.bin")])
    assert r["stdout"] == "True True\n" and r["files"] == []


UNCHANGED = {
    "only read": "open('in.txt').read(); None",
    "same bytes again": "open('in.txt', 'w').write('same'); None",
    "touched": "import os; os.utime('in.txt', (1, 1))",
    "mode changed": "import os; os.chmod('in.txt', 0o444)",
    "removed": "import os; os.remove('in.txt')",
    "replaced by a link": "import os; os.remove('in.txt'); os.symlink('/etc/passwd', 'in.txt')",
    "replaced by a directory": "import os; os.remove('in.txt'); os.mkdir('in.txt')",
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_an_input_that_did_not_change_is_not_returned(server, name):
    r = server.execute(UNCHANGED[name], files=[staged(server, b"same")])
    assert (r["exit_code"], r["files"]) == (0, [])


CHANGED = {
    "more": ("open('in.txt', 'a').write('+'); None", b"same+"),
    "less": ("open('in.txt', 'w').close()", b""),
    "same size": ("open('in.txt', 'w').write('SAME'); None", b"SAME"),
    "moved away and anew": ("import os; os.rename('in.txt', 'x'); os.remove('x'); open('in.txt', 'w').write('new'); None", b"new"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_an_input_that_changed_comes_back_as_a_new_file(server, name):
    code, expected = CHANGED[name]
    entry = staged(server, b"same")
    r = server.execute(code, files=[entry])
    assert names(r) == ["in.txt"] and content_of(server, r, "in.txt") == expected
    assert r["files"][0]["file_id"] != entry["file_id"] and server.download(entry["file_id"]) == b"same"


@pytest.mark.parametrize("path", ["./in.txt", ".//in.txt", "././in.txt"])
def test_a_path_with_a_dot_is_the_path_without(server, path):
    assert server.execute("print(open('in.txt').read())", files=[staged(server, b"same", path)])["files"] == []
    r = server.execute("open('in.txt', 'w').write('new')", files=[staged(server, b"same", path)])
    assert names(r) == ["in.txt"]


def test_a_file_may_be_staged_twice(server):
    file_id = server.upload(b"x")
    r = server.execute("print(open('a').read(), open('b/c').read())",
                       files=[{"path": "a", "file_id": file_id}, {"path": "b/c", "file_id": file_id}])
    assert r["stdout"] == "x x\n"


def test_a_result_can_be_staged_again(server):
    first = server.execute("open('a', 'w').write('first'); None")
    r = server.execute("print(open('b').read())", files=[{"path": "b", "file_id": first["files"][0]["file_id"]}])
    assert r["stdout"] == "first\n"


def test_a_nested_entry_point_may_be_staged_and_is_not_returned(server):
    r = server.execute("open('d/__main__.py', 'a').write(', more'); print(open('d/__main__.py').read())",
                       files=[staged(server, b"some", "d/__main__.py")])
    assert r["stdout"] == "some, more\n" and r["files"] == []


RELATIVE = "File paths must be relative."
DOTS = "File paths must not contain '..'."
EMPTY = "File path must not be empty."
RESERVED = "File path '__main__.py' is reserved for the execution entrypoint."
BAD_PATHS = {
    "/etc/x": RELATIVE, "/": RELATIVE, "//x": RELATIVE, "../x": DOTS, "..": DOTS, "a/../b": DOTS, "a/..": DOTS, "./../x": DOTS,
    "": EMPTY, "__main__.py": RESERVED,
}


@pytest.mark.parametrize("path", BAD_PATHS, ids=repr)
def test_a_bad_path_is_refused_in_these_words(server, path):
    assert refusal(server, {"code": "print(1)", "files": [staged(server, b"x", path)]}) == (422, BAD_PATHS[path])


STRANGE_PATHS = {".": ".", "./": "./", "entry point with a dot": "./__main__.py", "nul": "a\0b", "long name": "x" * 256,
                 "long path": "a/" * 3000 + "x"}


@pytest.mark.parametrize("name", STRANGE_PATHS)
def test_a_path_that_cannot_be_is_refused(server, name):
    """The reference has no text for these."""
    status, detail = refusal(server, {"code": "print(1)", "files": [staged(server, b"x", STRANGE_PATHS[name])]})
    assert status in (400, 422) and detail


def test_a_path_below_a_file_is_refused(server):
    status, _ = refusal(server, {"code": "1", "files": [staged(server, b"x", "a"), staged(server, b"y", "a/b")]})
    assert status in (400, 409, 422)


FOREIGN_IDS = [NOBODYS_ID, "", "x", "/etc/passwd", "../x", "..", ".", "../../../../etc/passwd", "%2fetc%2fpasswd", "*",
               "a" * 1000, "ünï"]


@pytest.mark.parametrize("file_id", FOREIGN_IDS, ids=[repr(i[:24]) for i in FOREIGN_IDS])
def test_an_id_that_is_not_ours_is_not_found(server, file_id):
    body = {"code": "print(open('p').read())", "files": [{"path": "p", "file_id": file_id}]}
    assert refusal(server, body) == (404, f"File with ID '{file_id}' not found for path 'p'.")


def test_neighbours_of_an_id_in_the_store_are_not_found(server):
    file_id = server.upload(b"x")
    for other in (f"{file_id}.meta.json", f"./{file_id}", f"{file_id}/", f"{file_id}/.", f"{file_id} ", f"{file_id}\n", file_id[:-1]):
        body = {"code": "1", "files": [{"path": "p", "file_id": other}]}
        assert refusal(server, body) == (404, f"File with ID '{other}' not found for path 'p'.")


# --- files with their content --------------------------------------------------------------------------------


def test_inline_content(server):
    data = bytes(range(256))
    r = server.execute("print(open('t').read()); print(open('d/b', 'rb').read() == bytes(range(256))); print(open('e').read())",
                       files=[{"path": "t", "content": "héllo\n"}, {"path": "d/b", "content_base64": base64.b64encode(data).decode()},
                              {"path": "e", "content": ""}])
    assert r["stdout"] == "héllo\n\nTrue\n\n" and r["files"] == []


def test_inline_content_that_changed_comes_back(server):
    r = server.execute("open('t', 'a').write('+'); None", files=[{"path": "t", "content": "a"}, {"path": "u", "content": "b"}])
    assert names(r) == ["t"] and content_of(server, r, "t") == b"a+"


INLINE_WRONG = {
    "none of them": {},
    "two of them": {"content": "a", "content_base64": "YQ=="},
    "id and content": {"content": "a", "file_id": NOBODYS_ID},
    "content is a number": {"content": 1},
    "content is null": {"content": None},
    "no base64": {"content_base64": "!!!!"},
    "base64 cut off": {"content_base64": "YQ="},
    "base64 is a list": {"content_base64": ["YQ=="]},
}


@pytest.mark.parametrize("name", INLINE_WRONG)
def test_inline_content_that_is_wrong(server, name):
    status, detail = refusal(server, {"code": "1", "files": [{"path": "p", **INLINE_WRONG[name]}]})
    assert status == 422 and "files" in json.dumps(detail), "the field is named"


@pytest.mark.parametrize("path", ["/x", "../x", "", "__main__.py"], ids=repr)
def test_inline_content_at_a_bad_path(server, path):
    assert refusal(server, {"code": "1", "files": [{"path": path, "content": "x"}]}) == (422, BAD_PATHS.get(path, RELATIVE))


# --- what the program is and sees ----------------------------------------------------------------------------


def report(server, expression, **fields):
    return json.loads(server.execute(f"import json, os, socket, sys\nprint(json.dumps({expression}))", **fields)["stdout"])


def test_who_and_where(server):
    assert report(server, "[os.getcwd(), os.getuid(), os.getgid(), os.geteuid(), os.getegid()]") == \
        ["/workspace", 65532, 65532, 65532, 65532]
    assert report(server, "list(sys.version_info[:2])") >= [3, 9]


def test_environment(server):
    env = report(server, "dict(os.environ)")
    expected = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", "MPLCONFIGDIR": "/tmp/matplotlib", "PIP_BREAK_SYSTEM_PACKAGES": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    assert {name: env.get(name) for name in expected} == expected
    assert CANARY not in json.dumps(env)
    assert not env["HOME"].startswith("/workspace")


def test_no_network(server):
    assert report(server, "socket.if_nameindex()") == [[1, "lo"]]
    code = "import socket\nfor where in (('127.0.0.1', {port}), ('192.0.2.1', 80), ('1.1.1.1', 53)):\n" \
           "    try: socket.create_connection(where, 5); print('connected')\n    except OSError as e: print('refused')\n"
    assert server.execute(code.format(port=server.port), timeout_ms=60000)["stdout"] == "refused\n" * 3


def test_nothing_of_the_host(server):
    paths = ["/etc/shadow", str(server.state_dir), str(server.folder), "/run/glovebox"]
    seen = report(server, f"[p for p in {paths!r} if os.path.exists(p) and (not os.path.isdir(p) or os.listdir(p))]")
    assert seen == []
    pids = report(server, "[int(p) for p in os.listdir('/proc') if p.isdigit()]")
    assert len(pids) < 10 and max(pids) < 1000, "a process table of its own"


def test_every_run_is_in_a_fresh_box(server):
    places = "('/workspace/left', '/tmp/left', '/dev/shm/left', os.path.expanduser('~/left'))"
    server.execute(f"import os\nfor p in {places}: open(p, 'w').write('x')")
    assert report(server, f"[p for p in {places} if os.path.exists(p)]") == []
    assert report(server, "[n for n in os.listdir('/workspace') if n != '__main__.py']") == []
