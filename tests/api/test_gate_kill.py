# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the gate: the next one takes over, and who resumes misses nothing and gets nothing twice.

A client that sends Idempotency-Key gets events with ids. After a lost connection it repeats its request with
Last-Event-ID, until it has a result.
"""
import contextlib
import http.client
import json
import os
import random
import re
import signal
import threading
import time
import uuid

import pytest

from conftest import stat_of
from server import joined, lives, mark, needs_root, serve, until, waiting  # noqa: F401

pytestmark = needs_root

# What a client sees when the gate dies, at whatever moment. A refused connection is not among it.
LOST = (ConnectionResetError, BrokenPipeError, http.client.HTTPException)

COUNTING = """
import os, time
print("run", os.urandom(8).hex(), flush=True)
for i in range({lines}):
    print(i, "x" * (i % 100))
    time.sleep(0.01)
with open("ran.txt", "a") as f:
    f.write("once\\n")
print("end")
"""


def counted(lines):
    return "".join(f"{i} {'x' * (i % 100)}\n" for i in range(lines)) + "end\n"


class Resumer(threading.Thread):
    """One run, resumed as often as it takes."""

    def __init__(self, server, body, deadline_s):
        super().__init__(daemon=True)
        self.server, self.body = server, body
        self.deadline = time.monotonic() + deadline_s
        self.key, self.events, self.lost, self.failure = uuid.uuid4().hex, [], 0, None

    def run(self):
        try:
            while not self.attempt():
                self.lost += 1
                if time.monotonic() > self.deadline:
                    raise AssertionError("no result in time")
        except BaseException as e:  # it is told in the main thread
            self.failure = e

    def attempt(self):
        """Whether the result came."""
        headers = {"Idempotency-Key": self.key}
        if self.events:
            headers["Last-Event-ID"] = self.events[-1].id
        try:
            with self.server.stream(self.body, headers) as stream:
                if stream.status != 200:
                    raise AssertionError(f"answered {stream.status}: {stream.read()!r}")
                for event in stream:
                    assert event.id is not None, f"no id: {event}"
                    assert event.name in ("output", "result"), event
                    self.events.append(event)
                    if event.name == "result":
                        return True
        except LOST:
            pass
        return False


def under_kills(server, runs, kills, lines):
    """Kills the gate at random moments while clients stream; every client must have it all, once."""
    body = {"code": COUNTING.format(lines=lines), "timeout_ms": 600_000}
    clients = [Resumer(server, body, 600) for _ in range(runs)]
    for client in clients:
        client.start()
    until(lambda: all(c.events or c.failure for c in clients), "every run has begun")
    for _ in range(kills):
        gate = server.kill_gate()
        server.next_gate(gate)
        time.sleep(random.uniform(0, 0.1))
    for client in clients:
        client.join(600)
    for client in clients:
        if client.failure:
            raise client.failure
        assert not client.is_alive()
        first, _, rest = joined(client.events).partition("\n")
        assert re.fullmatch("run [0-9a-f]{16}", first), first
        assert rest == counted(lines) and joined(client.events, "stderr") == ""
        assert [e.name for e in client.events].count("result") == 1
        ids = [e.id for e in client.events]
        assert len(set(ids)) == len(ids), "an event came twice"
        result = client.events[-1].data
        assert (result["exit_code"], result["timed_out"]) == (0, False)
        assert [f["path"] for f in result["files"]] == ["ran.txt"]
        assert server.download(result["files"][0]["file_id"]) == b"once\n"
    assert sum(c.lost for c in clients) >= kills, "the kills were felt"


RUN_ENV = {"MAX_EXEC_TIMEOUT_MS": "600000", "MAX_CONCURRENT_EXECUTIONS": "64"}


@pytest.mark.more
def test_resumed_streams_are_whole(serve):
    under_kills(serve(env=RUN_ENV), runs=10, kills=20, lines=400)


@pytest.mark.slow
def test_many_resumed_streams_are_whole(serve):
    under_kills(serve(env=RUN_ENV), runs=50, kills=100, lines=3000)


# --- ids of events -------------------------------------------------------------------------------------------


def test_events_have_ids_only_when_there_is_a_key(serve):
    server = serve()
    body = {"code": "import os\nos.write(1, b'a')\nos.write(2, b'b')\nNone"}
    _, _, plain = server.request("POST", "/v1/execute/stream", body)
    assert re.fullmatch(rb"(?:event: (?:output|result)\ndata: [^\r\n]+\n\n)+", plain), plain
    _, _, keyed = server.request("POST", "/v1/execute/stream", body, {"Idempotency-Key": uuid.uuid4().hex})
    frames = keyed.removesuffix(b"\n\n").split(b"\n\n")
    assert len(frames) >= 3 and all(len(re.findall(rb"^id: ?\S+$", frame, re.M)) == 1 for frame in frames), keyed
    assert all(len(frame.split(b"\n")) == 3 for frame in frames), "id, event and data, and nothing else"


@pytest.mark.more
def test_a_lost_connection_can_be_resumed_without_any_kill(serve):
    """The client leaves and comes back: with a key the program goes on meanwhile."""
    server, word, key = serve(), mark(), uuid.uuid4().hex
    body = {"code": f"import time\nfor i in range(30):\n    print(i)\n    time.sleep(0.05)\nprint('end')  # {word}", "timeout_ms": 60000}
    with server.stream(body, {"Idempotency-Key": key}) as stream:
        events = [stream.next(), stream.next()]
    with server.stream(body, {"Idempotency-Key": key, "Last-Event-ID": events[-1].id}) as stream:
        assert stream.status == 200
        events += list(stream)
    assert joined(events) == "".join(f"{i}\n" for i in range(30)) + "end\n"
    assert events[-1].name == "result" and len({e.id for e in events}) == len(events)


def test_another_key_is_another_run(serve):
    server = serve()
    body = {"code": "import os\nprint(os.urandom(8).hex())"}
    texts = set()
    for _ in range(3):
        with server.stream(body, {"Idempotency-Key": uuid.uuid4().hex}) as stream:
            texts.add(joined(list(stream)))
    assert len(texts) == 3


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_a_run_that_ended_while_its_client_was_away(serve, killed):
    """It hears how it ended, and what it had not heard of its output; the program does not run again."""
    server, word, key = serve(), mark(), uuid.uuid4().hex
    program = "import os, time; os.write(1, os.urandom(8).hex().encode()); time.sleep(1); os.write(1, b' end')"
    body = {"code": f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {program!r}, {word!r}])", "timeout_ms": 60000}
    with server.stream(body, {"Idempotency-Key": key}) as stream:
        events = [stream.next()]
    if killed:
        server.next_gate(server.kill_gate())
    until(lambda: not server.running(word), "the program has ended")
    with server.stream(body, {"Idempotency-Key": key, "Last-Event-ID": events[0].id}) as stream:
        assert stream.status == 200, stream.read()
        events += list(stream)
    assert re.fullmatch("[0-9a-f]{16} end", joined(events))
    assert events[-1].name == "result" and events[-1].data["exit_code"] == 0
    assert len({e.id for e in events}) == len(events)


# --- while nothing happens -----------------------------------------------------------------------------------


def test_the_next_request_is_answered(serve):
    """Each on a new connection, right after the kill: it is taken, and answered by the next gate."""
    server = serve()
    keeper, serving = server.pid_of("keeper"), server.pid
    file_id = server.upload(b"kept")
    for i in range(5):
        gate = server.kill_gate()
        assert server.execute(f"print({i})")["stdout"] == f"{i}\n"
        assert server.pid_of("gate") != gate
    assert (server.pid_of("keeper"), server.pid) == (keeper, serving)
    assert server.download(file_id) == b"kept"


def test_connections_that_wait_are_not_refused(serve):
    """Opened while there is no gate at all."""
    server = serve()
    server.kill_gate()
    wires = [server.wire() for _ in range(20)]
    for wire in wires:
        wire.send(b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % server.authority.encode())
    for wire in wires:
        with wire:
            assert wire.response().json()["status"] == "ok"


def test_the_next_gate_is_as_confined_as_the_first(serve):
    server = serve()

    def posture():
        with open(f"/proc/{server.pid_of('gate')}/status", encoding="ascii", errors="replace") as f:
            return {line.split(":")[0]: line.split(":")[1].split() for line in f
                    if line.startswith(("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp:"))}

    before = posture()
    server.next_gate(server.kill_gate())
    assert server.request("GET", "/health")[0] == 200
    assert posture() == before and before["CapEff"] == ["0000000000000000"]


# --- who hangs -----------------------------------------------------------------------------------------------


def stopped(server, *roles):
    """{pid: start time}: they stand still from now on."""
    pids = [server.pid_of(role) for role in roles]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return {pid: stat_of(pid)[1] for pid in pids}


@pytest.mark.more
@pytest.mark.parametrize("role", ["gate", "store"])
def test_who_hangs_is_replaced(serve, role):
    """As if it had died: the pair is a new one, what was running goes on."""
    server = serve(hang_timeout="2s")
    keeper, old = server.pid_of("keeper"), server.pids()
    file_id = server.upload(b"kept")
    session = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})[1]["session_id"]
    assert bash(server, session, "echo kept > f") == ""
    (pid, start), = stopped(server, role).items()
    until(lambda: not lives(pid, start), "it is gone")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert bash(server, session, "cat f") == "kept\n"
    assert server.download(file_id) == b"kept"
    assert f"the {role} does not answer" in server.log()
    assert server.pid_of("keeper") == keeper
    assert not {*server.pids()["gate"], *server.pids()["store"]} & {*old["gate"], *old["store"]}
    assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204


@pytest.mark.more
def test_who_comes_while_the_gate_hangs_is_answered(serve):
    """By the next one: the connection waits in the kernel."""
    server = serve(hang_timeout="2s")
    gate = server.pid_of("gate")
    stopped(server, "gate")
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.pid_of("gate") != gate


@pytest.mark.more
def test_a_pause_of_everybody_is_no_hang(serve):
    """A machine that slept, a container that was frozen: nobody is to blame for the time that has gone."""
    server = serve(hang_timeout="4s")
    for _ in range(2):
        pids = stopped(server, "keeper", "gate", "store")
        time.sleep(7)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert server.execute("print(1)")["stdout"] == "1\n"
    time.sleep(5)  # time for a mistake
    assert set(pids) == {server.pid_of(role) for role in ("keeper", "gate", "store")}
    assert "does not answer" not in server.log()


@pytest.mark.more
def test_a_server_whose_gate_hangs_can_be_stopped(serve):
    server = serve(hang_timeout="2s", drain_timeout="1s")
    stopped(server, "gate")
    server.stop()


# --- what goes on --------------------------------------------------------------------------------------------


def bash(server, session, cmd):
    status, answer = server.call("POST", f"/v1/sessions/{session}/bash", {"cmd": cmd})
    assert status == 200, answer
    return answer["stdout"]


def begin(server, wire, session, body):
    """Asks for a command and waits for nothing."""
    body = json.dumps(body).encode()
    wire.send(b"POST /v1/sessions/%s/bash HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
              % (session.encode(), server.authority.encode(), len(body), body))


def test_sessions_go_on(serve):
    server, word = serve(), mark()
    _, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})
    session = answer["session_id"]
    beats = f"setsid bash -c 'while sleep 0.1; do date +%N > beat; done; : {word}' > /dev/null 2>&1 &"
    assert bash(server, session, f"echo kept > f; {beats} echo begun") == "begun\n"
    process = until(lambda: server.running(word), "the background process runs")[0]
    start = stat_of(process)[1]
    for i in range(3):
        server.kill_gate()
        assert bash(server, session, f"cat f; echo {i}") == f"kept\n{i}\n"
        assert stat_of(process)[1] == start, "it is still the same process"
    assert bash(server, session, "a=$(cat beat); while [ \"$a\" = \"$(cat beat)\" ]; do sleep 0.05; done; echo beats") == "beats\n"
    assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204
    until(lambda: not server.running(word), "a session made before the kills can be ended after them")
    assert server.call("POST", f"/v1/sessions/{session}/bash", {"cmd": "true"})[0] == 404


@pytest.mark.more
def test_a_session_is_over_in_time_although_its_gate_died(serve):
    server, word = serve(), mark()
    _, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 4})
    assert bash(server, answer["session_id"], f"setsid bash -c 'sleep 1000; : {word}' > /dev/null 2>&1 & echo begun") == "begun\n"
    server.kill_gate()
    until(lambda: not server.running(word), "the session is over")
    assert server.call("POST", f"/v1/sessions/{answer['session_id']}/bash", {"cmd": "true"})[0] == 404


@pytest.mark.more
def test_a_command_that_ran_meanwhile_does_not_block_its_session(serve):
    """Its client lost the answer; the session takes the next command."""
    server, word = serve(), mark()
    _, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})
    session = answer["session_id"]
    with server.wire() as wire:
        begin(server, wire, session, {"cmd": f"sleep 1000; : {word}", "timeout_ms": 3000})
        until(lambda: server.running(word), "the command runs")
        server.kill_gate()
        assert wire.is_ended(), "no half answer"
    assert bash(server, session, "echo here") == "here\n"
    until(lambda: not server.running(word), "its time is over also without the gate that took it")
    assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204


def test_a_run_without_a_key_ends_with_its_gate(serve):
    """Its client cannot come back for it."""
    server, word = serve(), mark()
    with server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.next().data["data"] == "begun\n"
        server.kill_gate()
        assert list(stream) == []
    until(lambda: not server.running(word), "the program is gone")
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_slots_are_counted_right_afterwards(serve):
    """What the old gate ran does not hold slots of the new one for ever, and what runs on still holds its own."""
    server, word = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "50"}), mark()
    with server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.next().name == "output"
        server.kill_gate()
    assert server.execute("print(1)")["stdout"] == "1\n"
    until(lambda: not server.running(word), "the program without a client is gone")


ONE_SLOT = {"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "0.2"}


def asked(server):
    """The status of one more execution."""
    return server.call("POST", "/v1/execute", {"code": "print(1)"})[0]


def active(server, operation):
    text = server.request("GET", "/metrics")[2].decode()
    return int(re.search(rf'^code_interpreter_executions_active{{operation="{operation}"}} (\d+)$', text, re.M)[1])


def adopted(server, what):
    """How many boxes this gate took over."""
    text = server.request("GET", "/metrics")[2].decode()
    return int(re.search(rf'^glovebox_boxes_adopted_total{{what="{what}"}} (\d+)$', text, re.M)[1])


def end_by_force(server, word):
    for pid in server.running(word):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_run_that_goes_on_holds_its_slot(serve):
    """As many run at once as may, also after a kill: what was taken over counts, until it has ended."""
    server, word, key = serve(env=ONE_SLOT), mark(), uuid.uuid4().hex
    body = {"code": waiting(word), "timeout_ms": 60000}
    with server.stream(body, {"Idempotency-Key": key}) as stream:
        first = stream.next()
    assert (adopted(server, "run"), adopted(server, "session")) == (0, 0)
    for _ in range(2):
        server.kill_gate()
        assert asked(server) == 429 and server.running(word)
        assert active(server, "execute_stream") == 1
        assert (adopted(server, "run"), adopted(server, "session")) == (1, 0)
    end_by_force(server, word)
    with server.stream(body, {"Idempotency-Key": key, "Last-Event-ID": first.id}) as stream:
        assert list(stream)[-1].name == "result"
    until(lambda: asked(server) == 200, "its slot is free")
    assert active(server, "execute_stream") == 0


def test_a_command_that_goes_on_holds_its_slot(serve):
    server, word = serve(env=ONE_SLOT), mark()
    session = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})[1]["session_id"]
    with server.wire() as wire:
        begin(server, wire, session, {"cmd": f"sleep 1000; : {word}", "timeout_ms": 60000})
        until(lambda: server.running(word), "the command runs")
        for _ in range(2):
            server.kill_gate()
            assert asked(server) == 429 and server.running(word)
            assert active(server, "session_bash") == 1
            assert (adopted(server, "run"), adopted(server, "session")) == (0, 1)
    end_by_force(server, word)
    until(lambda: asked(server) == 200, "its slot is free")
    assert active(server, "session_bash") == 0
    server.kill_gate()
    assert asked(server) == 200, "a command that has ended is not taken over"
    assert bash(server, session, "echo here") == "here\n"
    assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204


def test_a_command_that_ended_without_a_gate_holds_no_slot(serve):
    """Nobody was there to hear of it: the next gate hears it from the box."""
    server, word = serve(env=ONE_SLOT), mark()
    session = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})[1]["session_id"]
    with server.wire() as wire:
        begin(server, wire, session, {"cmd": f"sleep 1000; : {word}", "timeout_ms": 60000})
        until(lambda: server.running(word), "the command runs")
        os.kill(server.pid_of("gate"), signal.SIGSTOP)
        end_by_force(server, word)
        server.kill_gate()
    until(lambda: asked(server) == 200, "its slot is free")
    assert active(server, "session_bash") == 0
    assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204


def test_killed_again_and_again_while_it_starts(serve):
    server = serve()
    for _ in range(10):
        for pid in server.pids().get("gate", []):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert server.execute("print(1)")["stdout"] == "1\n"
