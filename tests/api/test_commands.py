# SPDX-License-Identifier: Apache-2.0
"""The own API: commands of a box, their events, input and signals, terminals, and a gate that dies under them."""
import base64
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import time

import pytest

from server import Stream, mark, needs_root, serve, shared, until  # noqa: F401
from test_boxes import ID, TIME, Box, refused
from test_ci_tty import BINARY, TEXT, WebSocket

pytestmark = needs_root

KEYS = {"id", "status", "exit_code", "signal", "error", "stdout", "stderr", "truncated", "figures", "summary", "started_at", "ended_at"}
HELD = 168  # that have ended, of a box
NOTHING_CUT = {"stdout": False, "stderr": False}

server = shared(box_max_timeout_ms=100000)
brief = shared(box_timeout_ms=1500, box_output_bytes=1000)


@pytest.fixture
def box(server):
    with Box(server) as box:
        yield box


def detached(box, shell, **fields):
    status, answer = box.call(shell=shell, detach=True, **fields)
    assert status == 202, (status, answer)
    assert set(answer) == KEYS - {"stdout", "stderr"} and answer["status"] == "running" and answer["figures"] is None
    return answer["id"]


def look(box, command, wait_ms=60000):
    status, answer = box.server.call("GET", f"{box.path}/commands/{command}?wait_ms={wait_ms}")
    assert status == 200, answer
    return answer


class Events(Stream):
    """GET …/events; the same iterator."""

    def __init__(self, box, command, after=None, last=None):
        server = box.server
        self.connection = server.connection()
        self.socket = self.connection.sock
        path = f"{box.path}/commands/{command}/events" + (f"?after={after}" if after is not None else "")
        self.answer = server.send(self.connection, "GET", path, None, {"Last-Event-ID": str(last)} if last is not None else {})
        self.status, self.headers = self.answer.status, self.answer.headers


def events(box, command, **where):
    with Events(box, command, **where) as stream:
        assert stream.status == 200, stream.read()
        return list(stream)


def text(found, name="stdout"):
    return "".join(e.data["data"] for e in found if e.name == name)


def check_events(found, command, first=1):
    """Numbers without holes, one start, one end, each event complete."""
    assert [int(e.id) for e in found] == list(range(first, first + len(found)))
    for e in found:
        assert e.data["command"] == command and e.data["seq"] == int(e.id) and e.data["t_ms"] >= 0
    assert found[-1].name == "end" and (first > 1 or found[0].name == "start")


# --- running -------------------------------------------------------------------------------------------------


def test_shell(box):
    r = box.run("echo out; echo err >&2; pwd; id -u; exit 3")
    assert set(r) == KEYS and ID.fullmatch(r["id"]) and r["id"][:4] == box.id[:4]
    assert (r["status"], r["exit_code"], r["signal"], r["error"]) == ("error", 3, None, None)
    assert (r["stdout"], r["stderr"], r["truncated"]) == ("out\n/workspace\n65532\n", "err\n", NOTHING_CUT)
    assert set(r["figures"]) == {"wall_ms", "cpu_ms", "peak_memory_bytes"} and r["figures"]["peak_memory_bytes"] > 0
    assert TIME.fullmatch(r["started_at"]) and TIME.fullmatch(r["ended_at"]) and r["started_at"] <= r["ended_at"]
    assert r["summary"].startswith("echo out")


def test_argv(box):
    status, r = box.call(argv=["python3", "-c", "import sys; print(sys.argv[1:])", "a b", "", "*", "é"])
    assert status == 200 and (r["status"], r["exit_code"], r["stdout"]) == ("ok", 0, "['a b', '', '*', 'é']\n")


def test_what_is_not_there_cannot_be_started(box):
    for fields in ({"argv": ["/no/such/program"]}, {"argv": ["no-such-program"]}, {"shell": "true", "cwd": "/nowhere"}):
        status, r = box.call(**fields)
        assert status == 200 and (r["status"], r["exit_code"]) == ("error", None) and "No such file" in r["error"], r
    assert box.out("echo on") == "on\n"


def test_environment_and_place(server):
    with Box(server, env={"A": "box", "B": "box", "PATH": "/usr/bin:/bin:/workspace"}) as box:
        box.run("mkdir -p d/e; echo '#!/bin/sh\necho mine' > tool; chmod +x tool")
        assert box.out("echo $A $B $C $HOME; pwd", env={"B": "command", "C": "$A=x"}, cwd="d/e") == "box command $A=x /home/box\n/workspace/d/e\n"
        assert box.out("tool; pwd", cwd="/tmp") == "mine\n/tmp\n"
        assert box.call(argv=["tool"])[1]["stdout"] == "mine\n"


@pytest.mark.parametrize("size", [0, 1, 65536, 3_000_000])
def test_stdin(box, size):
    data = "0123456789abcde\n" * (size // 16) + "x" * (size % 16)
    r = box.run("sha256sum; cat | wc -c", stdin=data)
    import hashlib
    assert r["stdout"] == f"{hashlib.sha256(data.encode()).hexdigest()}  -\n0\n"
    assert box.run("cat")["stdout"] == "", "without it there is nothing to read"


def test_bytes_that_are_no_text(box):
    shell = "printf 'a\\xff\\xe2\\x82b\\x00c'; printf '\\xfe' >&2"
    assert box.run(shell)["stdout"] == "a\ufffd\ufffdb\x00c"
    r = box.run(shell, output_encoding="base64")
    assert base64.b64decode(r["stdout"]) == b"a\xff\xe2\x82b\x00c" and base64.b64decode(r["stderr"]) == b"\xfe"
    command = detached(box, shell, output_encoding="base64")
    assert base64.b64decode(text(events(box, command))) == b"a\xff\xe2\x82b\x00c"


def test_a_signal(box):
    r = box.run("kill -SEGV $$")
    assert (r["status"], r["exit_code"], r["signal"]) == ("crashed", None, 11)


def test_timeout(server, box):
    word = mark()
    r = box.run(f"echo so far; trap '' TERM INT; while true; do sleep 1; : {word}; done", timeout_ms=1500)
    assert (r["status"], r["exit_code"], r["signal"], r["stdout"]) == ("timeout", None, 9, "so far\n")
    until(lambda: not server.running(word), "it is gone")
    assert box.out("echo on") == "on\n"


@pytest.mark.more
def test_defaults(brief):
    with Box(brief) as box:
        assert box.run("sleep 100")["status"] == "timeout"
        r = box.run("head -c 5000 /dev/zero | tr '\\0' x; head -c 5000 /dev/zero | tr '\\0' y >&2")
        assert r["stdout"] == "x" * 1000 and r["stderr"] == "y" * 1000 and r["truncated"] == {"stdout": True, "stderr": True}
        assert box.out("sleep 2; echo late", timeout_ms=None) == "late\n"


def test_much_output(box):
    """All of the 16 MiB that are kept, and the program does not wait for anybody."""
    r = box.run("head -c 16M /dev/zero | tr '\\0' x; echo end >&2")
    assert r["stdout"] == "x" * (16 << 20) and r["stderr"] == "end\n" and r["truncated"] == NOTHING_CUT
    r = box.run("head -c 20M /dev/zero | tr '\\0' x; echo end >&2")
    assert r["stdout"] == "x" * (16 << 20) and r["stderr"] == "end\n" and r["truncated"] == {"stdout": True, "stderr": False}


def test_side_by_side(box):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda n: box.out(f"sleep 0.5; echo {n}"), range(16)))
    assert answers == [f"{n}\n" for n in range(16)]


def test_too_many(box):
    commands = [detached(box, "sleep 100") for _ in range(32)]
    status, headers, body = box.server.request("POST", f"{box.path}/commands", {"shell": "true"})
    refused((status, json.loads(body)), 429, "too_many")
    assert int(headers["Retry-After"]) > 0
    assert box.server.call("DELETE", f"{box.path}/commands/{commands[5]}?grace_ms=0")[0] == 204
    assert box.out("echo one more") == "one more\n"


WRONG = {
    "nothing": ({}, "", "invalid_field"), "both": ({"argv": ["a"], "shell": "a"}, "", "invalid_field"),
    "unknown": ({"shell": "a", "colour": 1}, "colour", "unknown_field"),
    "argv empty": ({"argv": []}, "argv", "invalid_field"), "argv text": ({"argv": "ls"}, "argv", "invalid_field"),
    "argv number": ({"argv": ["a", 1]}, "argv[1]", "invalid_field"), "argv many": ({"argv": ["a"] * 1025}, "argv", "invalid_field"),
    "argv long": ({"argv": ["a", "x" * 300000]}, "argv", "invalid_field"), "shell empty": ({"shell": ""}, "shell", "invalid_field"),
    "shell list": ({"shell": ["ls"]}, "shell", "invalid_field"), "shell long": ({"shell": ":" * 300000}, "shell", "invalid_field"),
    "stdin": ({"shell": "a", "stdin": 1}, "stdin", "invalid_field"), "stdin_open": ({"shell": "a", "stdin_open": 1}, "stdin_open", "invalid_field"),
    "env": ({"shell": "a", "env": {"A=B": "x"}}, "env.A=B", "invalid_field"), "env type": ({"shell": "a", "env": "A=B"}, "env", "invalid_field"),
    "cwd": ({"shell": "a", "cwd": ""}, "cwd", "invalid_field"), "cwd type": ({"shell": "a", "cwd": None}, "cwd", "invalid_field"),
    "cwd long": ({"shell": "a", "cwd": "x" * 4090}, "cwd", "invalid_field"),
    "timeout 0": ({"shell": "a", "timeout_ms": 0}, "timeout_ms", "invalid_field"),
    "timeout long": ({"shell": "a", "timeout_ms": 100001}, "timeout_ms", "invalid_field"),
    "timeout part": ({"shell": "a", "timeout_ms": 1.5}, "timeout_ms", "invalid_field"),
    "stream": ({"shell": "a", "stream": "yes"}, "stream", "invalid_field"), "detach": ({"shell": "a", "detach": 1}, "detach", "invalid_field"),
    "stream and detach": ({"shell": "a", "stream": True, "detach": True}, "detach", "invalid_field"),
    "encoding": ({"shell": "a", "output_encoding": "latin-1"}, "output_encoding", "invalid_field"),
    "on_disconnect": ({"shell": "a", "on_disconnect": "kill"}, "on_disconnect", "invalid_field"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field(box, name):
    body, field, code = WRONG[name]
    refused(box.call(**body), 422, code, field)
    assert box.get()[1]["state"] == "ready", "nothing was started"


# --- looking, waiting, ending --------------------------------------------------------------------------------


@pytest.mark.more
def test_detached(box):
    command = detached(box, "echo one; sleep 2; echo two")
    until(lambda: look(box, command, 0)["stdout"] == "one\n", "its first output can be seen")
    begun = time.monotonic()
    assert look(box, command, 100)["status"] == "running", "the wait was too short"
    assert time.monotonic() - begun >= 0.1
    r = look(box, command)
    assert (r["status"], r["stdout"], r["exit_code"]) == ("ok", "one\ntwo\n", 0)
    assert look(box, command) == r, "as often as one likes"


def test_the_list_of_commands(box):
    running, ended = detached(box, "sleep 100"), box.run("echo x")["id"]
    status, answer = box.server.call("GET", f"{box.path}/commands")
    assert status == 200
    assert [(c["id"], c["status"]) for c in answer["commands"]] == [(running, "running"), (ended, "ok")]
    assert all(set(c) == KEYS - {"stdout", "stderr", "truncated"} for c in answer["commands"])
    assert [c["summary"] for c in answer["commands"]] == ["sleep 100", "echo x"]


def test_so_many_are_held(box):
    first = box.run("echo first")["id"]
    for n in range(HELD):
        last = box.run(f"echo {n}")["id"]
    assert len(box.server.call("GET", f"{box.path}/commands")[1]["commands"]) == HELD
    refused(box.server.call("GET", f"{box.path}/commands/{first}"), 404, "not_found")
    assert look(box, last)["stdout"] == f"{HELD - 1}\n"


@pytest.mark.parametrize("query", ["wait_ms=60001", "wait_ms=x", "wait_ms=-1", "wait_ms="])
def test_a_wrong_wait(box, query):
    command = box.run("true")["id"]
    refused(box.server.call("GET", f"{box.path}/commands/{command}?{query}"), 422, "invalid_field", "wait_ms")


def test_no_such_command(box):
    other = "a" * 26
    for method, tail, body in [("GET", "", None), ("DELETE", "", None), ("GET", "/events", None), ("POST", "/stdin", {"eof": True}),
                               ("POST", "/signal", {"signal": "INT"})]:
        refused(box.server.call(method, f"{box.path}/commands/{other}{tail}", body), 404, "not_found")


def test_a_command_of_another_box(server, box):
    with Box(server) as other:
        command = other.run("true")["id"]
        refused(server.call("GET", f"{box.path}/commands/{command}"), 404, "not_found")


def test_delete_asks_first(server, box):
    command = detached(box, "trap 'echo asked; exit 7' TERM; echo ready; while true; do sleep 0.05; done")
    until(lambda: look(box, command, 0)["stdout"] == "ready\n", "it runs")
    assert server.request("DELETE", f"{box.path}/commands/{command}")[::2] == (204, b"")
    r = look(box, command)
    assert (r["status"], r["exit_code"], r["stdout"]) == ("cancelled", 7, "ready\nasked\n")
    assert server.request("DELETE", f"{box.path}/commands/{command}")[0] == 204, "and again, to no effect"
    assert look(box, command) == r


def test_delete_insists(server, box):
    word = mark()
    command = detached(box, f"trap '' TERM; echo ready; while true; do sleep 0.05; : {word}; done")
    until(lambda: look(box, command, 0)["stdout"] == "ready\n", "it runs")
    assert server.request("DELETE", f"{box.path}/commands/{command}?grace_ms=300")[0] == 204
    r = look(box, command)
    assert (r["status"], r["signal"]) == ("cancelled", 9)
    until(lambda: not server.running(word), "it is gone")
    refused(server.call("DELETE", f"{box.path}/commands/{command}?grace_ms=60001"), 422, "invalid_field", "grace_ms")


def test_out_of_memory(server):
    with Box(server, limits={"memory_bytes": 64 << 20}) as box:
        status, r = box.call(argv=["python3", "-c", "b = bytearray(b'x') * (1 << 30)"])
        assert status == 200 and (r["status"], r["signal"]) == ("oom", 9)
        assert box.run("kill -9 $$")["status"] == "crashed", "a kill is not always for want of memory"


def test_its_box_is_deleted(server):
    box = Box(server)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answer = pool.submit(box.call, shell="echo begun; sleep 1000", timeout_ms=None)
        until(lambda: box.get()[1]["state"] == "busy", "it runs")
        command = server.call("GET", f"{box.path}/commands")[1]["commands"][0]["id"]
        until(lambda: look(box, command, 0)["stdout"] == "begun\n", "it has begun")
        stream = Events(box, command)
        assert box.delete()[0] == 204
        status, r = answer.result()
    assert status == 200 and (r["status"], r["stdout"]) == ("cancelled", "begun\n") and "deleted" in r["error"]
    found = list(stream)
    check_events(found, command)
    assert found[-1].data["status"] == "cancelled"
    stream.close()


# --- input and signals ---------------------------------------------------------------------------------------


def feed(box, command, **fields):
    return box.server.call("POST", f"{box.path}/commands/{command}/stdin", fields)


def test_input_piece_by_piece(box):
    command = detached(box, "while read line; do echo got $line; done; echo over", stdin="first\n", stdin_open=True)
    until(lambda: look(box, command, 0)["stdout"] == "got first\n", "the first line")
    assert feed(box, command, text="second\n") == (204, None)
    until(lambda: look(box, command, 0)["stdout"] == "got first\ngot second\n", "the second line")
    assert feed(box, command, base64=base64.b64encode("dritte é\n".encode()).decode(), eof=True)[0] == 204
    assert look(box, command)["stdout"] == "got first\ngot second\ngot dritte é\nover\n"


def test_input_where_none_is_wanted(box):
    command = detached(box, "sleep 100")
    refused(feed(box, command, text="x"), 409, "no_input")
    command = detached(box, "cat > /dev/null; sleep 100", stdin="x", stdin_open=True)
    assert feed(box, command, eof=True)[0] == 204
    refused(feed(box, command, text="x"), 409, "no_input")
    command = box.run("true")["id"]
    refused(feed(box, command, text="x"), 409, "command_ended")


@pytest.mark.parametrize("fields, field", [({}, "text"), ({"text": "a", "base64": "YQ=="}, "base64"), ({"base64": "a"}, "base64"), ({"text": 1}, "text"),
                                           ({"eof": "yes"}, "eof"), ({"data": "x"}, "data")])
def test_wrong_input(box, fields, field):
    command = detached(box, "sleep 100", stdin_open=True)
    refused(feed(box, command, **fields), 422, "unknown_field" if field == "data" else "invalid_field", field)


def test_a_program_that_does_not_read(box):
    command = detached(box, "sleep 100", stdin_open=True)
    piece = "x" * 200000
    for _ in range(20):
        answer = feed(box, command, text=piece)
        if answer[0] != 204:
            break
    refused(answer, 429, "input_full")


def send(box, command, signal):
    return box.server.call("POST", f"{box.path}/commands/{command}/signal", {"signal": signal})


@pytest.mark.parametrize("name", ["SIGUSR1", "USR1", "10"])
def test_signals(box, name):
    command = detached(box, "trap 'echo caught; exit 0' USR1; echo ready; while true; do sleep 0.05; done")
    until(lambda: look(box, command, 0)["stdout"] == "ready\n", "it runs")
    assert send(box, command, name) == (204, None)
    assert look(box, command)["stdout"] == "ready\ncaught\n"
    refused(send(box, command, name), 409, "command_ended")


@pytest.mark.parametrize("name", ["", "SIG", "sigint", "0", "65", "-1", "WHAT", 2, None])
def test_no_such_signal(box, name):
    command = detached(box, "sleep 100")
    refused(send(box, command, name), 422, "invalid_field", "signal")


# --- events --------------------------------------------------------------------------------------------------


def test_stream(server, box):
    with Stream(server, f"{box.path}/commands", {"shell": "echo one; sleep 0.3; echo two >&2; sleep 0.3; echo é; exit 4", "stream": True}) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
        found = list(stream)
    command = found[0].data["command"]
    check_events(found, command)
    assert [e.name for e in found] == ["start", "stdout", "stderr", "stdout", "end"]
    assert (text(found), text(found, "stderr")) == ("one\né\n", "two\n")
    assert TIME.fullmatch(found[0].data["started_at"]) and found[3].data["t_ms"] >= 500
    answer = look(box, command)
    end = found[-1].data
    assert {k: end[k] for k in KEYS - {"stdout", "stderr"}} == {k: answer[k] for k in KEYS - {"stdout", "stderr"}}, "the answer without its output"
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("one\né\n", "two\n", 4)


def test_events_from_anywhere(box):
    command = detached(box, "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done")
    all_of_them = events(box, command)
    check_events(all_of_them, command)
    assert text(all_of_them) == "1\n2\n3\n4\n5\n"
    as_told = [(e.name, e.data) for e in all_of_them]
    for after in range(len(all_of_them)):
        for where in ({"after": after}, {"last": after}, {"last": after, "after": 0}):
            assert [(e.name, e.data) for e in events(box, command, **where)] == as_told[after:]
    with Events(box, command, after=len(all_of_them)) as stream:
        assert stream.status == 204
    refused(box.server.call("GET", f"{box.path}/commands/{command}/events?after=x"), 422, "invalid_field", "after")


@pytest.mark.more
def test_several_follow(box):
    command = detached(box, "for i in $(seq 30); do echo $i; sleep 0.05; done")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: events(box, command), range(8)))
    for found in seen:
        check_events(found, command)
        assert text(found) == "".join(f"{i}\n" for i in range(1, 31))


def test_characters_are_whole(box):
    command = detached(box, "printf 'a\\xe2'; sleep 0.3; printf '\\x82'; sleep 0.3; printf '\\xac\\xe2\\x82'")
    found = events(box, command)
    check_events(found, command)
    assert text(found) == "a€\ufffd" and look(box, command)["stdout"] == "a€\ufffd"
    assert [e.data["data"] for e in found if e.name == "stdout"][0] == "a"


@pytest.mark.more
def test_who_leaves_can_come_back(server, box):
    with Stream(server, f"{box.path}/commands", {"shell": "for i in $(seq 40); do echo $i; sleep 0.05; done", "stream": True}) as stream:
        first = [stream.next() for _ in range(5)]
    command = first[0].data["command"]
    rest = events(box, command, last=first[-1].id)
    check_events(rest, command, int(first[-1].id) + 1)
    assert text(first) + text(rest) == "".join(f"{i}\n" for i in range(1, 41))
    assert rest[-1].data["status"] == "ok"


def test_who_leaves_and_wants_it_ended(server, box):
    for fields in ({"stream": True}, {}):
        word = mark()
        body = {"shell": f"echo begun; sleep 1000; : {word}", "on_disconnect": "interrupt", "timeout_ms": None, **fields}
        with server.wire() as wire:
            data = json.dumps(body).encode()
            wire.send(b"POST %s/commands HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
                box.path.encode(), server.authority.encode(), len(data), data))
            until(lambda: server.running(word), "it runs")
        until(lambda: not server.running(word), "it is gone")
        last = server.call("GET", f"{box.path}/commands")[1]["commands"][-1]["id"]
        assert look(box, last)["status"] == "interrupted"


@pytest.mark.more
def test_who_leaves_means_nothing_to_it(server, box):
    word = mark()
    body = json.dumps({"shell": f"sleep 2; echo done; : {word}"}).encode()
    with server.wire() as wire:
        wire.send(b"POST %s/commands HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            box.path.encode(), server.authority.encode(), len(body), body))
        until(lambda: server.running(word), "it runs")
    command = server.call("GET", f"{box.path}/commands")[1]["commands"][-1]["id"]
    assert look(box, command)["stdout"] == "done\n"


def test_a_slow_reader_gets_everything_and_holds_nobody_up(server, box):
    """It reads nothing until the program has ended, which prints far more than any buffer on the way holds."""
    with Stream(server, f"{box.path}/commands", {"shell": "seq 1 1500000; touch ended", "stream": True}) as stream:
        command = stream.next().data["command"]
        assert look(box, command)["status"] == "ok"
        assert text(stream) == "".join(f"{i}\n" for i in range(1, 1500001))


@pytest.mark.more
def test_a_comment_in_a_long_silence(box):
    command = detached(box, "sleep 18")
    with Events(box, command) as stream:
        lines = [stream.answer.readline() for _ in range(5)]
    assert lines[0].startswith(b"id: 1") and lines[4].startswith(b":")


def test_head_of_events(box):
    command = detached(box, "sleep 100")
    status, headers, body = box.server.request("HEAD", f"{box.path}/commands/{command}/events")
    assert status == 200 and body == b"" and headers["Content-Type"].startswith("text/event-stream")


# --- the same request again ----------------------------------------------------------------------------------


def keyed(box, key, **fields):
    return box.server.call("POST", f"{box.path}/commands", fields, {"Idempotency-Key": key})


def test_the_same_command_runs_once(server, box):
    key = mark()
    status, first = keyed(box, key, shell="echo x >> f; wc -l < f")
    assert status == 200 and first["stdout"] == "1\n"
    assert keyed(box, key, shell="echo x >> f; wc -l < f") == (200, first)
    refused(keyed(box, key, shell="echo y >> f"), 409, "idempotency_key_reused")
    with Box(server) as other:
        assert keyed(other, key, shell="echo other")[1]["stdout"] == "other\n", "keys are a box's own"
    assert box.out("cat f") == "x\n"


def test_the_same_command_at_once(box):
    key = mark()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: keyed(box, key, shell="sleep 1; echo x >> f; wc -l < f"), range(6)))
    assert {a[0] for a in answers} == {200} and len({a[1]["id"] for a in answers}) == 1 and answers[0][1]["stdout"] == "1\n"


def test_the_same_stream_goes_on(server, box):
    key, body = mark(), {"shell": "for i in $(seq 20); do echo $i; sleep 0.05; done", "stream": True}
    with Stream(server, f"{box.path}/commands", body, {"Idempotency-Key": key}) as stream:
        first = [stream.next() for _ in range(4)]
    with Stream(server, f"{box.path}/commands", body, {"Idempotency-Key": key, "Last-Event-ID": first[-1].id}) as stream:
        rest = list(stream)
    check_events(rest, first[0].data["command"], 5)
    assert text(first) + text(rest) == "".join(f"{i}\n" for i in range(1, 21))


def test_an_answer_that_is_not_held_any_more(box):
    key = mark()
    status, first = keyed(box, key, shell="echo once")
    assert status == 200
    for _ in range(HELD):
        box.run("true")
    error = refused(keyed(box, key, shell="echo once"), 410, "answer_gone", "Idempotency-Key")
    assert (error["id"], error["status"]) == (first["id"], "ok")
    refused(keyed(box, key, shell="echo twice"), 409, "idempotency_key_reused")


# --- terminals -----------------------------------------------------------------------------------------------


def tty(box, query=""):
    return WebSocket(box.server, f"{box.path}/tty{query}")


def tty_id(ws):
    opcode, payload = ws.receive()
    assert opcode == TEXT, payload
    return json.loads(payload)["tty"]


def ending(ws):
    while True:
        opcode, payload = ws.receive()
        assert opcode is not None, "closed without a word"
        if opcode == TEXT:
            return json.loads(payload)


def test_a_terminal(server):
    with Box(server, env={"COLOUR": "blue"}) as box, tty(box) as ws:
        assert ws.status == 101 and ID.fullmatch(tty_id(ws))
        ws.send(BINARY, b"echo $((6 * 7)) $(tty) $(pwd) $COLOUR; stty size\n")
        ws.read_until(rb"42 /dev/pts/\d+ /workspace blue\r\n24 80\r\n")
        ws.send(TEXT, b'{"resize": [132, 43]}')
        ws.send(BINARY, b"stty size\n")
        ws.read_until(rb"43 132\r\n")
        ws.send(BINARY, b"exit 7\n")
        assert ending(ws) == {"exit": {"exit_code": 7, "signal": None}}
        assert ws.close_code() == 1000


def test_coming_back_to_a_terminal(box):
    with tty(box) as ws:
        name = tty_id(ws)
        ws.send(BINARY, b"export KEPT=yes; echo be''fore\n")
        ws.read_until(rb"before\r\n")
    with tty(box, f"?tty={name}") as ws:
        assert tty_id(ws) == name
        ws.read_until(rb"before\r\n")  # what it said last
        ws.send(BINARY, b"echo $KEPT\n")
        ws.read_until(rb"yes\r\n")
        with tty(box, f"?tty={name}") as other:
            assert tty_id(other) == name
            assert ws.close_code() == 1000, "another one looks now"
            other.send(BINARY, b"exit\n")
            assert ending(other) == {"exit": {"exit_code": 0, "signal": None}}
    with tty(box, f"?tty={name}") as ws:
        assert ws.status == 404


@pytest.mark.more
def test_a_terminal_that_nobody_looks_at_is_idle(server):
    box = Box(server, idle_seconds=2)
    with tty(box) as ws:
        tty_id(ws)
        time.sleep(3)
        assert box.get()[0] == 200, "somebody looks"
    until(lambda: box.get()[0] == 410, "nobody does")


def test_wrong_terminals(server, box):
    assert server.request("GET", f"{box.path}/tty")[0] == 426
    with tty(box, "?tty=nothing") as ws:
        assert ws.status == 404
    with tty(box) as ws:
        tty_id(ws)
        ws.send(TEXT, b"{}")
        assert ws.close_code() == 1008
    with contextlib.ExitStack() as stack:
        for _ in range(7):  # the one above still runs
            tty_id(stack.enter_context(tty(box)))
        assert stack.enter_context(tty(box)).status == 429
        assert box.delete()[0] == 204


# --- a gate that dies ----------------------------------------------------------------------------------------


def test_the_last_one_is_held_however_much_it_said(serve):
    """Nobody had waited for it; the one before it makes room."""
    with Box(serve(box_log_bytes="1M")) as box:
        ran = []
        for _ in range(2):  # one after the other: the last is the one that ended last
            ran.append(detached(box, "head -c 3000000 /dev/zero | tr '\\0' x"))
            until(lambda: box.server.call("GET", f"{box.path}/commands/{ran[-1]}")[1].get("status", "gone") != "running", "it has ended")
        first, last = ran
        assert len(look(box, last)["stdout"]) == 3000000
        assert box.server.call("GET", f"{box.path}/commands/{first}")[0] == 404


@pytest.fixture
def mortal(serve):
    server = serve()
    with Box(server) as box:
        yield box


def kill(box):
    box.server.next_gate(box.server.kill_gate())


@pytest.mark.more
def test_commands_survive_the_gate(mortal):
    box = mortal
    command = detached(box, "for i in $(seq 40); do echo $i; echo e$i >&2; sleep 0.1; done; exit 5")
    with Events(box, command) as stream:
        first = [stream.next() for _ in range(6)]
        kill(box)
    rest = events(box, command, last=first[-1].id)
    found = first + rest
    check_events(found, command)
    assert text(found) == "".join(f"{i}\n" for i in range(1, 41)) and text(found, "stderr") == "".join(f"e{i}\n" for i in range(1, 41))
    r = look(box, command)
    assert (r["status"], r["exit_code"], r["truncated"]) == ("error", 5, NOTHING_CUT)
    assert r["stdout"] == text(found) and box.get()[1]["state"] == "ready"


def test_what_nobody_has_heard_of_survives(mortal):
    box = mortal
    ids = [detached(box, f"echo {n}; exit {n}") for n in range(4)]
    until(lambda: {c["status"] for c in box.server.call("GET", f"{box.path}/commands")[1]["commands"]} <= {"ok", "error"}, "all have ended")
    kill(box)
    kill(box)
    for n, command in enumerate(ids):
        r = look(box, command)
        assert (r["stdout"], r["exit_code"]) == (f"{n}\n", n)


@pytest.mark.more
def test_older_output_is_a_gap_after_the_gate_died(mortal):
    box = mortal
    command = detached(box, "seq 1 400000; echo printed >&2; sleep 3; echo end")
    until(lambda: look(box, command, 0)["stderr"] == "printed\n", "much was printed")
    kill(box)
    found = events(box, command)
    assert found[0].name == "start" and found[-1].name == "end"
    numbers = [int(e.id) for e in found]
    assert numbers == sorted(numbers)
    gaps = [e.data for e in found if e.name == "gap"]
    r = look(box, command)
    whole = "".join(f"{i}\n" for i in range(1, 400001)) + "end\n"
    assert whole.endswith(r["stdout"]) and r["stdout"] == text(found) and r["stdout"].endswith("400000\nend\n")
    if len(r["stdout"]) < len(whole):
        assert len(gaps) == 1 and gaps[0]["from"] == 2 and r["truncated"]["stdout"] is True
    else:
        assert not gaps and r["truncated"] == NOTHING_CUT


def test_input_and_signals_go_on_over_gates(mortal):
    box = mortal
    command = detached(box, "while read line; do echo got $line; done; echo over; sleep 1000", stdin="one\n", stdin_open=True)
    until(lambda: look(box, command, 0)["stdout"] == "got one\n", "the first line")
    kill(box)
    assert feed(box, command, text="two\n")[0] == 204
    until(lambda: look(box, command, 0)["stdout"] == "got one\ngot two\n", "the second line")
    kill(box)
    assert feed(box, command, text="three\n", eof=True)[0] == 204
    until(lambda: look(box, command, 0)["stdout"].endswith("over\n"), "all lines")
    kill(box)
    refused(feed(box, command, text="x"), 409, "no_input")
    assert send(box, command, "KILL")[0] == 204
    assert look(box, command)["signal"] == 9


def test_input_waits_until_init_has_told_where_it_goes_on(mortal):
    """The next gate does not know how much was sent. Sent from the beginning, init would take it for a repetition."""
    box, word = mortal, mark()
    command = detached(box, f"while read line; do echo got $line; done; echo over; sleep 1000; : {word}", stdin="one\n", stdin_open=True)
    until(lambda: look(box, command, 0)["stdout"] == "got one\n", "the first line")
    init = box.server.init_of(box.server.running(word)[0])
    os.kill(init, signal.SIGSTOP)
    try:
        kill(box)
        assert feed(box, command, text="two\n")[0] == 204
        assert feed(box, command, text="three\n", eof=True)[0] == 204
        refused(feed(box, command, text="x"), 409, "no_input")
    finally:
        os.kill(init, signal.SIGCONT)
    until(lambda: look(box, command, 0)["stdout"] == "got one\ngot two\ngot three\nover\n", "all lines")


@pytest.mark.more
def test_a_key_of_a_command_survives(mortal):
    box, key = mortal, mark()
    fields = {"shell": "echo x >> f; sleep 3; wc -l < f", "detach": True}
    status, first = keyed(box, key, **fields)
    assert status == 202
    kill(box)
    assert keyed(box, key, **fields)[1]["id"] == first["id"]
    refused(keyed(box, key, shell="other"), 409, "idempotency_key_reused")
    assert look(box, first["id"])["stdout"] == "1\n"


def test_no_command_runs_twice_because_a_gate_died(mortal):
    """Its client had the answer. Init may have it still, if the gate dies at once; then it is given again."""
    box, keys, fields = mortal, [mark() for _ in range(5)], {"shell": "echo x >> f; wc -l < f"}
    ids = []
    for key in keys:
        status, first = keyed(box, key, **fields)
        assert status == 200
        ids.append(first["id"])
    for _ in range(2):
        kill(box)
        for key, id in zip(keys, ids):
            status, answer = keyed(box, key, **fields)
            if status == 200:
                assert answer["id"] == id
            else:
                refused((status, answer), 410, "answer_gone", "Idempotency-Key")
                assert answer["error"]["id"] == id and answer["error"]["status"] in ("ok", None)
            refused(keyed(box, key, shell="echo y >> f"), 409, "idempotency_key_reused")
    assert box.out("cat f") == "x\n" * len(keys)


def test_a_terminal_survives(mortal):
    box = mortal
    with tty(box) as ws:
        name = tty_id(ws)
        ws.send(BINARY, b"export KEPT=yes; echo re''ady\n")
        ws.read_until(rb"ready\r\n")
        kill(box)
    with tty(box, f"?tty={name}") as ws:
        assert tty_id(ws) == name
        ws.send(BINARY, b"echo $KEPT\n")
        ws.read_until(rb"yes\r\n")


def test_what_a_gate_has_said_before_it_died_counts(mortal):
    """The keeper is held up meanwhile: it hears all of it together with the news of its death."""
    box = mortal
    keeper = box.server.pid_of("keeper")
    os.kill(keeper, signal.SIGSTOP)
    try:
        with tty(box) as ws:
            name = tty_id(ws)
            ws.send(BINARY, b"export KEPT=yes; echo re''ady\n")
            ws.read_until(rb"ready\r\n")
            commands = [detached(box, "sleep 1000") for _ in range(4)]
            old = box.server.kill_gate()
    finally:
        os.kill(keeper, signal.SIGCONT)
    box.server.next_gate(old)
    with tty(box, f"?tty={name}") as ws:
        assert tty_id(ws) == name
        ws.send(BINARY, b"echo $KEPT\n")
        ws.read_until(rb"yes\r\n")
    assert {look(box, command, 0)["status"] for command in commands} == {"running"}


def test_what_is_typed_waits_until_init_has_told_where_it_goes_on(mortal):
    box, word = mortal, mark()
    with tty(box) as ws:
        name = tty_id(ws)
        ws.send(BINARY, b"export KEPT=yes; echo re''ady\n")
        ws.read_until(rb"ready\r\n")
        detached(box, f"sleep 1000; : {word}")
        init = box.server.init_of(until(lambda: box.server.running(word), "a command runs")[0])
        os.kill(init, signal.SIGSTOP)
        kill(box)
    try:
        with tty(box, f"?tty={name}") as ws:
            ws.send(BINARY, b"echo $KEPT\n")
            assert tty_id(ws) == name
            time.sleep(0.1)
            os.kill(init, signal.SIGCONT)
            ws.read_until(rb"yes\r\n")
    finally:
        os.kill(init, signal.SIGCONT)


@pytest.mark.more
def test_the_gate_dies_again_and_again(mortal):
    """Many commands, followed by clients that come back; every line of each comes once and in order."""
    box = mortal
    ids = [detached(box, f"for i in $(seq 60); do echo {n}-$i; sleep 0.1; done", timeout_ms=None) for n in range(8)]

    def follow(command):
        seen, last = [], 0
        while not seen or seen[-1].name != "end":
            with contextlib.suppress(OSError):
                with Events(box, command, last=last) as stream:
                    if stream.status == 200:
                        for e in stream:
                            seen.append(e)
                            last = int(e.id)
        return seen

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        following = [pool.submit(follow, c) for c in ids]
        for _ in range(4):
            time.sleep(0.8)
            kill(box)
        for n, (command, one) in enumerate(zip(ids, following)):
            found = one.result()
            check_events(found, command)
            assert text(found) == "".join(f"{n}-{i}\n" for i in range(1, 61))


def test_the_server_stops_while_somebody_follows(serve):
    """Events end, and nothing is left: the fixture looks."""
    server = serve(drain_timeout="5s")
    box = Box(server)
    command = detached(box, "sleep 1000")
    with Events(box, command) as stream:
        stream.next()
        server.stop()
        assert list(stream) == []


def test_ids_are_not_in_the_log_of_others(server, box):
    r = box.run("echo a-secret-of-the-program")
    assert "a-secret-of-the-program" not in server.log()
    assert re.search(r"/v1/boxes/[a-z2-7]{26}/commands", server.log()) and r
