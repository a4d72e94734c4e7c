# SPDX-License-Identifier: Apache-2.0
"""Code Interpreter: sessions, which are files and processes that stay, and bash in them."""
import concurrent.futures
import json
import re
import time

import pytest

from server import mark, needs_root, shared, until

pytestmark = needs_root

NOBODYS_FILE = "3f2b8c1e-5d4a-4c6b-9e7f-0a1b2c3d4e5f"
SESSION_ID = re.compile(r"code-session-[0-9a-f]{32}")
KEYS = {"stdout", "stderr", "exit_code", "timed_out", "duration_ms"}

server = shared(env={"MAX_EXEC_TIMEOUT_MS": "50000"})
tight = shared(env={"MAX_OUTPUT_BYTES": "1000", "MEMORY_LIMIT_MB": "64"})


class Session:
    def __init__(self, server, **fields):
        status, answer = server.call("POST", "/v1/sessions", fields)
        assert status == 201, (status, answer)
        self.server, self.answer, self.id = server, answer, answer["session_id"]

    def call(self, **fields):
        return self.server.call("POST", f"/v1/sessions/{self.id}/bash", fields)

    def bash(self, cmd, **fields):
        status, answer = self.call(cmd=cmd, **fields)
        assert status == 200, (status, answer)
        return answer

    def delete(self):
        return self.server.call("DELETE", f"/v1/sessions/{self.id}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()


@pytest.fixture
def session(server):
    with Session(server) as session:
        yield session


def not_found(session_id):
    return 404, {"detail": f"Session '{session_id}' not found"}


# --- making one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields, ttl", [({}, 900), ({"ttl_seconds": 60}, 60), ({"ttl_seconds": 1}, 1), ({"ttl_seconds": 86400}, 86400),
                                         ({"ttl_seconds": 60, "files": [], "colour": "blue"}, 60)])
def test_create(server, fields, ttl):
    before = time.time()
    with Session(server, **fields) as session:
        after = time.time()
        assert set(session.answer) == {"session_id", "expires_at"} and SESSION_ID.fullmatch(session.id)
        assert before + ttl - 1 <= session.answer["expires_at"] <= after + ttl + 1


WRONG = {
    "zero": ({"ttl_seconds": 0}, "greater_than_equal"),
    "negative": ({"ttl_seconds": -5}, "greater_than_equal"),
    "too long": ({"ttl_seconds": 86401}, "less_than_equal"),
    "true": ({"ttl_seconds": True}, "int_type"),
    "fraction": ({"ttl_seconds": 60.0}, "int_type"),
    "text": ({"ttl_seconds": "60"}, "int_type"),
    "null": ({"ttl_seconds": None}, "int_type"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_time_that_is_none(server, name):
    body, kind = WRONG[name]
    status, answer = server.call("POST", "/v1/sessions", body)
    assert status == 422
    assert (answer["detail"][0]["loc"], answer["detail"][0]["type"]) == (["body", "ttl_seconds"], kind)


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"ttl_seconds": 5, "ttl_seconds": 6}', b'{"files": {}}', b'{"files": [{}]}'])
def test_a_body_that_is_wrong(server, body):
    status, answer = server.call("POST", "/v1/sessions", body)
    assert status in (400, 422) and answer["detail"]


def test_files_are_there_from_the_start(server):
    files = [{"path": path, "file_id": server.upload(content)} for path, content in
             [("a.txt", b"alpha"), ("d/e.bin", bytes(range(256))), ("__main__.py", b"print('entry')")]]
    with Session(server, files=files) as session:
        r = session.bash("cat a.txt; stat -c ' %u %g' a.txt; wc -c < d/e.bin; cat __main__.py")
        assert r["stdout"] == "alpha 65532 65532\n256\nprint('entry')"


BAD_FILES = {
    "/etc/x": (422, "File paths must be relative."),
    "../x": (422, "File paths must not contain '..'."),
    "": (422, "File path must not be empty."),
}


@pytest.mark.parametrize("path", BAD_FILES, ids=repr)
def test_a_bad_path(server, path):
    status, detail = BAD_FILES[path]
    body = {"files": [{"path": path, "file_id": server.upload(b"x")}]}
    assert server.call("POST", "/v1/sessions", body) == (status, {"detail": detail})


@pytest.mark.parametrize("file_id", [NOBODYS_FILE, "/etc/passwd", "../x", ""], ids=repr)
def test_an_unknown_file(server, file_id):
    body = {"files": [{"path": "ok", "file_id": server.upload(b"x")}, {"path": "p", "file_id": file_id}]}
    assert server.call("POST", "/v1/sessions", body) == (404, {"detail": f"File with ID '{file_id}' not found for path 'p'."})


# --- bash ----------------------------------------------------------------------------------------------------


def test_the_answer_has_exactly_these_keys(session):
    r = session.bash("echo out; echo err >&2; exit 3")
    assert set(r) == KEYS and type(r["duration_ms"]) is int and r["duration_ms"] >= 0
    assert (r["stdout"], r["stderr"], r["exit_code"], r["timed_out"]) == ("out\n", "err\n", 3, False)


COMMANDS = {
    "directory": ("pwd", "/workspace\n"),
    "user": ("id -u; id -g", "65532\n65532\n"),
    "stdin": ("readlink /proc/self/fd/0; cat", "/dev/null\n"),
    "shell": ("echo $BASH_VERSION | grep -c .; [[ x == x ]] && echo bash", "1\nbash\n"),
    "quotes": ("""echo "a'b" 'c"d' \\$x""", "a'b c\"d $x\n"),
    "lines": ("x=1\nif true; then\n  echo $x\nfi", "1\n"),
    "here document": ("cat <<E\none\ntwo\nE", "one\ntwo\n"),
    "empty": ("", ""),
    "unicode": ("echo né€𝄞", "né€𝄞\n"),
    "no interfaces": ("python3 -c 'import socket; print(socket.if_nameindex())'", "[(1, 'lo')]\n"),
    "python": ("python3 -c 'print(6 * 7)'", "42\n"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_bash(session, name):
    cmd, expected = COMMANDS[name]
    assert session.bash(cmd)["stdout"] == expected


@pytest.mark.parametrize("cmd, code", [("exit 0", 0), ("false", 1), ("exit 255", 255), ("nosuchcommand", 127),
                                       ("kill -9 $$", 137), ("if", 2)])
def test_exit_code(session, cmd, code):
    r = session.bash(cmd)
    assert (r["exit_code"], r["timed_out"]) == (code, False)


def test_bytes_that_are_no_text_are_replaced(session):
    assert session.bash(r"printf 'a\xffb'")["stdout"] == "a\ufffdb"


def test_files_stay(session):
    session.bash("mkdir -p d; echo kept > d/f; echo scratch > /tmp/g; echo shm > /dev/shm/h")
    assert session.bash("cat d/f /tmp/g /dev/shm/h")["stdout"] == "kept\nscratch\nshm\n"


def test_shell_state_does_not_stay(session):
    session.bash("cd /tmp; export X=1; Y=2; f() { echo f; }")
    r = session.bash("pwd; echo [$X$Y]; f")
    assert r["stdout"] == "/workspace\n[]\n" and r["exit_code"] == 127


def test_processes_stay(session):
    r = session.bash("setsid sleep 1000 > /dev/null 2>&1 & echo $!")
    pid = int(r["stdout"])
    assert session.bash(f"kill -0 {pid} && echo alive")["stdout"] == "alive\n"
    assert session.bash(f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; echo ended")["stdout"] == "ended\n"


def test_a_server_in_the_background_can_be_asked(session):
    session.bash("echo served > f; setsid python3 -m http.server 8080 --bind 127.0.0.1 > /dev/null 2>&1 &")
    r = session.bash("""python3 - <<'E'
import time, urllib.request
while True:
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8080/f").read().decode(), end="")
        break
    except OSError:
        time.sleep(0.05)
E""")
    assert r["stdout"] == "served\n"


def test_two_at_once(session):
    """One reads what the other writes: neither could end alone."""
    session.bash("mkfifo there back")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(session.bash, "cat there; echo answer > back")
        second = pool.submit(session.bash, "echo question > there; cat back")
        assert (first.result()["stdout"], second.result()["stdout"]) == ("question\n", "answer\n")


def test_sessions_do_not_see_each_other(server, session):
    with Session(server) as other:
        session.bash("echo mine > f; echo mine > /tmp/f; echo mine > /dev/shm/f")
        assert other.bash("cat f /tmp/f /dev/shm/f 2>/dev/null; ls | wc -l")["stdout"] == "0\n"
        assert session.bash("cat f")["stdout"] == "mine\n"


def test_output_is_limited(tight):
    """The batch route's rule or the stream's: the reference does not say which one bash follows."""
    with Session(tight) as session:
        r = session.bash("head -c 5000 /dev/zero | tr '\\0' x")
    assert r["stdout"].startswith("x" * 968) and len(r["stdout"]) <= 1000 and r["exit_code"] == 0


def test_memory_of_one_command_is_not_the_end_of_the_session(tight):
    with Session(tight) as session:
        session.bash("echo kept > f")
        r = session.bash("python3 -c \"b = bytearray(b'x') * (1 << 30)\"")
        assert r["exit_code"] == 137 and r["timed_out"] is False
        assert session.bash("cat f")["stdout"] == "kept\n"


# --- time ----------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_a_timeout_leaves_the_session_usable(server, session):
    word = mark()
    r = session.bash(f"echo before > f; echo so far; trap '' TERM INT HUP; while true; do sleep 1; : {word}; done", timeout_ms=2000)
    assert (r["exit_code"], r["timed_out"], r["stdout"]) == (None, True, "so far\n")
    until(lambda: not server.running(word), "the bash that timed out is gone")
    assert session.bash("cat f")["stdout"] == "before\n"


WRONG_BASH = {
    "no command": ({}, "cmd"),
    "number": ({"cmd": 1}, "cmd"),
    "null": ({"cmd": None}, "cmd"),
    "list": ({"cmd": ["ls"]}, "cmd"),
    "timeout 0": ({"cmd": "true", "timeout_ms": 0}, "timeout_ms"),
    "timeout true": ({"cmd": "true", "timeout_ms": True}, "timeout_ms"),
    "timeout fraction": ({"cmd": "true", "timeout_ms": 10.0}, "timeout_ms"),
    "timeout text": ({"cmd": "true", "timeout_ms": "10"}, "timeout_ms"),
    "timeout too long": ({"cmd": "true", "timeout_ms": 50001}, "timeout_ms"),
}


@pytest.mark.parametrize("name", WRONG_BASH)
def test_a_wrong_field(session, name):
    body, field = WRONG_BASH[name]
    status, answer = session.call(**body)
    assert status == 422 and field in json.dumps(answer["detail"])


def test_the_longest_timeout(session):
    assert session.bash("echo 1", timeout_ms=50000)["stdout"] == "1\n"


# --- the end -------------------------------------------------------------------------------------------------


def test_delete(server):
    session, word = Session(server), mark()
    session.bash(f"setsid bash -c 'sleep 1000; : {word}' > /dev/null 2>&1 &")
    until(lambda: server.running(word), "the background process runs")
    status, _, body = server.request("DELETE", f"/v1/sessions/{session.id}")
    assert (status, body) == (204, b"")
    until(lambda: not server.running(word), "its processes are gone")
    assert session.call(cmd="true") == not_found(session.id)
    assert session.delete() == not_found(session.id)


def test_delete_while_a_command_runs(server):
    """The command's answer is left open: its session went away, or it was killed."""
    session, word = Session(server), mark()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(session.call, cmd=f"bash -c 'sleep 1000; : {word}'", timeout_ms=50000)
        until(lambda: server.running(word), "the command runs")
        assert session.delete()[0] == 204
        status, body = answer.result()
    assert status in (404, 409, 410, 500) or (status == 200 and body["exit_code"] != 0 and not body["timed_out"])
    until(lambda: not server.running(word), "its processes are gone")


FOREIGN = ["code-session-" + "0" * 32, "0" * 32, "x", "code-session-", "code-session-" + "0" * 31, "code-session-" + "g" * 32,
           "code-session-*"]


@pytest.mark.parametrize("session_id", FOREIGN)
def test_an_unknown_session(server, session_id):
    assert server.call("DELETE", f"/v1/sessions/{session_id}") == not_found(session_id)
    assert server.call("POST", f"/v1/sessions/{session_id}/bash", {"cmd": "true"}) == not_found(session_id)


@pytest.mark.parametrize("session_id", ["..", "%2e%2e", "..%2f..%2fx", "code-session-..%2fx", "%00", "code-session-%00", "a" * 5000])
def test_an_id_that_is_none(server, session_id):
    """As for files: 404, or what the malformed target itself deserves."""
    assert server.request("DELETE", f"/v1/sessions/{session_id}")[0] in (400, 404, 405, 414)
    assert server.request("POST", f"/v1/sessions/{session_id}/bash", {"cmd": "true"})[0] in (400, 404, 405, 414)


def test_an_id_without_its_prefix_ends_nobodys_session(server, session):
    bare = session.id.removeprefix("code-session-")
    assert server.call("DELETE", f"/v1/sessions/{bare}") == not_found(bare)
    assert server.call("POST", f"/v1/sessions/{bare}/bash", {"cmd": "true"}) == not_found(bare)
    assert session.bash("echo here")["stdout"] == "here\n"


@pytest.mark.more
def test_a_session_ends_when_its_time_is_over(server):
    """Also when nobody asks for it: first its processes are seen to go, then it is asked for."""
    session, word = Session(server, ttl_seconds=4), mark()
    assert session.bash(f"setsid bash -c 'sleep 1000; : {word}' > /dev/null 2>&1 & echo begun")["stdout"] == "begun\n"
    until(lambda: server.running(word), "the background process runs")
    until(lambda: not server.running(word), "its processes are gone")
    assert session.call(cmd="true") == not_found(session.id)
    assert session.delete() == not_found(session.id)


def test_many_sessions(server):
    sessions = [Session(server) for _ in range(8)]
    try:
        for n, session in enumerate(sessions):
            session.bash(f"echo {n} > f")
        assert [s.bash("cat f")["stdout"] for s in sessions] == [f"{n}\n" for n in range(8)]
    finally:
        for session in sessions:
            session.delete()
