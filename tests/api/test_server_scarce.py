# SPDX-License-Identifier: Apache-2.0
"""A machine that has no more disk, descriptors, processes or memory to give to the server: it says so, answers nothing wrongly, and goes on
by itself when there is some again.

What a client may see meanwhile: 503 with Retry-After, 429, a connection that waits or is closed. Never another answer than the right one.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import time

import pytest

from prepared import Prepared
from server import Gone, mark, needs_root, serve, until  # noqa: F401
from test_scarce import pids_base

# A sanitized program needs terabytes of addresses, and starts processes and opens files of its own at its end.
pytestmark = [needs_root, pytest.mark.skipif("asan" in os.environ.get("GLOVEBOX", ""), reason="not with sanitizers")]

MIB = 1 << 20
LOST = (OSError, http.client.HTTPException, Gone)


def ask(server, method, path, body=None, headers=None):
    """(status, headers, body), or None where the connection was closed without an answer."""
    try:
        return server.request(method, path, body, headers)
    except LOST:
        return None


def busy_or(answer, *statuses, retry_after=True):
    """Whether an answer is one of those that scarcity allows; 503 and 429 say when to come again."""
    if answer is None:
        return True
    status, headers, data = answer
    if status in (429, 503):
        assert not retry_after or int(headers["Retry-After"] or 0) >= 1, (status, str(headers), data)
        return True
    assert status in statuses, (status, data)
    return False


def works(server):
    """Whether a program runs and its file comes back."""
    answer = ask(server, "POST", "/v1/execute", {"code": "open('f', 'w').write('content'); print('ran')", "timeout_ms": 20000})
    if busy_or(answer, 200):
        return False
    result = json.loads(answer[2])
    assert (result["stdout"], result["exit_code"]) == ("ran\n", 0), result
    file_id = result["files"][0]["file_id"]
    assert server.download(file_id) == b"content"
    assert server.request("DELETE", f"/v1/files/{file_id}")[0] == 204
    return True


# --- disk ----------------------------------------------------------------------------------------------------


class Disk:
    """A file system of its own, of a few MiB, that can be filled and freed."""

    def __init__(self, path):
        self.path = path
        self.filler = path / "filler"

    def fill(self, leave=0):
        """Takes all but so many bytes."""
        with open(self.filler, "wb", buffering=0) as f:
            with contextlib.suppress(OSError):
                while True:
                    f.write(bytes(65536))
            with contextlib.suppress(OSError):
                while True:
                    f.write(bytes(512))
        if leave:
            os.truncate(self.filler, max(0, os.path.getsize(self.filler) - leave))

    def free(self):
        self.filler.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "scarce", path], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    yield Disk(path)
    subprocess.run(["umount", "-l", path], check=True)


def upload(server, size):
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    return ask(server, "POST", "/v1/files", head + b"u" * size + b"\r\n--b--\r\n", {"Content-Type": "multipart/form-data; boundary=b"})


def stored(server):
    """Names of files in the store's directory, which must be those that are listed."""
    status, answer = server.call("GET", "/v1/files")
    assert status == 200, answer
    listed = {entry["file_id"]: entry["size_bytes"] for entry in answer["files"]}
    there = {n for n in os.listdir(server.state_dir / "files") if not n.startswith("glovebox-files.sqlite3")}
    assert there == set(listed), "no half file, no lost one"
    return listed


def test_an_upload_onto_a_full_disk(serve, disk):
    server = serve(state_dir=disk.path, audit_on_error="continue")
    kept = server.upload(b"kept" * 1000)
    gate, store = server.pid_of("gate"), server.pid_of("store")
    for leave in (0, 4096, 200_000, 900_000):
        disk.free()
        disk.fill(leave)
        before = stored(server)
        for size in (1 * MIB, 3 * MIB, 20 * MIB):
            answer = upload(server, size)
            assert answer is not None and answer[0] == 503 and int(answer[1]["Retry-After"]) >= 1, (leave, size, answer)
        assert stored(server) == before
        assert server.download(kept) == b"kept" * 1000
    disk.free()
    answer = upload(server, 1 * MIB)
    assert answer[0] == 201 and server.download(json.loads(answer[2])["file_id"]) == b"u" * MIB
    assert (server.pid_of("gate"), server.pid_of("store")) == (gate, store), "by itself, without a restart"


def test_a_returned_file_onto_a_full_disk(serve, disk):
    server = serve(state_dir=disk.path, audit_on_error="continue")
    disk.fill()
    before = stored(server)
    code = "open('a', 'wb').write(bytes(2 << 20)); open('b', 'w').write('b'); print('ran')"
    for _ in range(3):
        status, headers, data = server.request("POST", "/v1/execute", {"code": code, "timeout_ms": 20000})
        assert status == 503 and int(headers["Retry-After"]) >= 1, (status, data)
    events = [(name, data) for name, data in server.sse("/v1/execute/stream", {"code": code, "timeout_ms": 20000})]
    assert events[-1][0] == "error" and [n for n, _ in events if n == "result"] == [], "after the stream began there is no status left to say it"
    assert stored(server) == before
    assert server.execute("print('needs no disk')")["stdout"] == "needs no disk\n"
    disk.free()
    assert works(server)
    result = server.execute(code, timeout_ms=20000)
    assert sorted(f["path"] for f in result["files"]) == ["a", "b"]


def test_staging_needs_no_room(serve, disk):
    """What is stored can be read, staged and deleted while nothing can be written."""
    server = serve(state_dir=disk.path, audit_on_error="continue")
    file_id, other = server.upload(b"kept"), server.upload(b"other")
    disk.fill()
    assert server.execute("print(open('p').read())", files=[{"path": "p", "file_id": file_id}])["stdout"] == "kept\n"
    answer = ask(server, "DELETE", f"/v1/files/{other}")
    assert answer is not None and (answer[0] == 204 or busy_or(answer))
    disk.free()
    assert server.request("DELETE", f"/v1/files/{file_id}")[0] == 204


def audit_events(path):
    lines = path.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines), "no half line"
    return [json.loads(line) for line in lines]


def test_an_audit_that_cannot_be_written_refuses(serve, disk):
    """What nobody may know of is not done: executions and sessions; the rest goes on."""
    server = serve(audit_file=disk.path / "audit" / "audit.jsonl", audit_on_error="refuse")
    assert works(server)
    disk.fill()
    refused = False
    word = mark()
    for _ in range(200):  # a page of the file may still have room
        answer = ask(server, "POST", "/v1/execute", {"code": f"print('ran')  # {word}"})
        assert answer is not None
        if busy_or(answer, 200):
            refused = True
            break
    assert refused, "it went on without an audit"
    for _ in range(3):
        status, headers, data = server.request("POST", "/v1/execute", {"code": "print('ran')"})
        assert status == 503 and int(headers["Retry-After"]) >= 1 and b"ran" not in data, (status, data)
        assert server.request("POST", "/v1/execute/stream", {"code": "1"})[0] == 503
        assert server.request("POST", "/v1/sessions", {})[0] == 503
    assert server.request("GET", "/health")[0] == 200 and server.request("GET", "/v1/files")[0] == 200
    audit_events(disk.path / "audit" / "audit.jsonl")
    disk.free()
    until(lambda: works(server), "with room for the audit programs run again")
    until(lambda: len(audit_events(disk.path / "audit" / "audit.jsonl")) > 0, "and are written down")
    lost = re.search(r"^glovebox_audit_lost_total (\d+)", server.request("GET", "/metrics")[2].decode(), re.M)
    assert int(lost[1]) > 0, "what could not be written is counted"


@pytest.mark.more
def test_an_audit_that_cannot_be_written_is_counted(serve, disk):
    server = serve(audit_file=disk.path / "audit" / "audit.jsonl", audit_on_error="continue")
    assert works(server)
    disk.fill()

    def lost():
        assert works(server), "it goes on"
        return int(re.search(r"^glovebox_audit_lost_total (\d+)", server.request("GET", "/metrics")[2].decode(), re.M)[1])

    until(lost, "lines are lost, and counted")
    before = len(audit_events(disk.path / "audit" / "audit.jsonl"))
    disk.free()
    until(lambda: works(server) and len(audit_events(disk.path / "audit" / "audit.jsonl")) > before, "and are written again when there is room")


def test_a_start_on_a_full_disk(serve, disk):
    """It says why and ends, or serves what needs no disk. When there is room it works, and nothing was lost."""
    server = serve(state_dir=disk.path)
    kept = server.upload(b"kept")
    server.stop()
    disk.fill()
    server.ready = False
    before = len(server.log())
    server.launch()
    until(lambda: server.process.poll() is not None or server.said(), "it says where it listens, or ends")
    until(lambda: server.process.poll() is not None or "glovebox: the store ended" not in server.log()[before:], "its tries are over")
    if server.process.poll() is None:
        server.await_start()
        busy_or(ask(server, "POST", "/v1/execute", {"code": "1"}), 200)
        disk.free()
    else:
        assert server.process.returncode != 0 and re.search("space|full|I/O error", server.log()[before:]), server.log()[before:]
        server.process = None
        disk.free()
        server.start()
    until(lambda: works(server), "with room it works")
    assert set(stored(server)) == {kept} and server.download(kept) == b"kept"


# --- descriptors ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def idle(server, count):
    """Connections that say nothing. Some may not be taken."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            s = stack.enter_context(socket.socket())
            s.setblocking(False)
            s.connect_ex((server.host, server.port))
        yield


@pytest.mark.more
def test_more_connections_than_descriptors(tmp_path):
    """Who connects is served in the end, or sent away; who was first does not starve the rest for longer than they may be idle."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))

    with Prepared(tmp_path, few, header_timeout="1s", idle_timeout="1s") as server:
        assert works(server)
        gate = server.pid_of("gate")
        for _ in range(3):
            with idle(server, 800):
                until(lambda: ask(server, "GET", "/health") is not None, "somebody else is answered")
                until(lambda: works(server), "a program runs for somebody else")
        until(lambda: works(server), "afterwards everything works")
        assert server.pid_of("gate") == gate
        until(lambda: len(os.listdir(f"/proc/{gate}/fd")) < 100, "and the descriptors are free again")


@pytest.mark.parametrize("most", [12, 16, 20, 24, 32, 40, 48])
def test_few_descriptors(tmp_path, most):
    """It does not start and says so, or it serves; what it cannot do is 503."""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    server = Prepared(tmp_path, few, ready=False)
    try:
        server.start()
    except pytest.fail.Exception:
        assert server.log(), "it says why"
        return
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: ask(server, "POST", "/v1/execute", {"code": f"print({i} * 3)", "timeout_ms": 20000}), range(16)))
        for i, answer in enumerate(answers):
            if not busy_or(answer, 200):
                assert json.loads(answer[2])["stdout"] == f"{i * 3}\n"
        kept = [upload(server, 1000) for _ in range(4)]
        for answer in kept:
            if not busy_or(answer, 201):
                assert server.download(json.loads(answer[2])["file_id"]) == b"u" * 1000
        assert server.process.poll() is None
    finally:
        server.stop()


# --- processes -----------------------------------------------------------------------------------------------


@pytest.fixture
def group():
    """A cgroup with a limit on processes that a test can move: (enter, limit)."""
    base = pids_base()
    if base is None:
        pytest.skip("needs the pids controller")
    path = base / f"test-scarce-server-{os.getpid()}"
    path.mkdir()
    yield path
    until(lambda: not (path / "cgroup.procs").read_text().split(), "nobody is in it any more")
    path.rmdir()


def is_v1(group):
    return not (group.parent / "cgroup.controllers").exists()


@pytest.mark.parametrize("free", [0, 1, 2])
def test_no_processes(tmp_path, group, free):
    """0: no box; 1: a box, but nothing can be started in it; 2: a program can, and no more. What cannot be is 503 with Retry-After, and
    files are served. With processes again, boxes are made again."""
    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))

    with Prepared(tmp_path, enter) as server:
        assert works(server)
        until(lambda: int((group / "pids.current").read_text()) == len(server.pids()), "the first box is gone")
        (group / "pids.max").write_text(str(len(server.pids()) + free))
        file_id = server.upload(b"kept")
        for _ in range(5):
            answer = ask(server, "POST", "/v1/execute", {"code": "print('ran')"})
            assert answer is not None
            if not busy_or(answer, 200):
                assert (free > 1 or not is_v1(group)) and json.loads(answer[2])["stdout"] == "ran\n", "on v2 a box is born elsewhere"
        answer = ask(server, "POST", "/v1/sessions", {})
        if not busy_or(answer, 201):
            assert server.request("DELETE", f"/v1/sessions/{json.loads(answer[2])['session_id']}")[0] == 204
        assert server.download(file_id) == b"kept" and server.request("GET", "/health")[0] == 200
        (group / "pids.max").write_text("max")
        until(lambda: works(server), "boxes are made again")


def test_no_process_for_the_next_gate(tmp_path, group):
    """The gate dies and another cannot be started: connections wait, and are answered when there is one."""
    def enter():
        (group / "cgroup.procs").write_text(str(os.getpid()))

    with Prepared(tmp_path, enter) as server:
        keeper = server.pid_of("keeper")
        (group / "pids.max").write_text("1")
        server.kill_gate()
        with server.wire() as wire:
            wire.send(b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % server.authority.encode())
            time.sleep(0.5)  # in which it tries, and must not give up
            assert not wire.is_readable() and server.process.poll() is None
            (group / "pids.max").write_text("max")
            assert wire.response().status == 200
        assert server.pid_of("keeper") == keeper
        until(lambda: works(server), "boxes are made again")


# --- memory --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small(tmp_path, mib):
    """A server of which no process may have more than so many MiB of addresses; None where not even the start succeeds."""
    def little():
        resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))

    server = Prepared(tmp_path, little, ready=False)
    try:
        server.start()
    except pytest.fail.Exception:
        assert server.log(), "it says why"
        yield None
        return
    try:
        yield server
    finally:
        server.stop()


LARGE = json.dumps({"code": "print('large')", "x": "x" * (12 * MIB)}).encode()


@pytest.mark.parametrize("mib", [24, 32, 48, 64])
def test_little_memory_for_the_gate(tmp_path, mib):
    """Large requests at once: 503, 413, or a lost connection; small ones are answered rightly throughout, or by the next gate."""
    with small(tmp_path, mib) as server:
        if server is None:
            return

        def throw(i):
            if i % 3 == 0:
                busy_or(ask(server, "GET", "/health"), 200, retry_after=False)
            elif i % 3 == 1:
                answer = upload(server, 2 * MIB)
                if not busy_or(answer, 201, retry_after=False):
                    assert json.loads(answer[2])["size_bytes"] == 2 * MIB
            else:
                answer = ask(server, "POST", "/v1/execute", LARGE)
                if not busy_or(answer, 200, 413, retry_after=False) and answer[0] == 200:
                    assert json.loads(answer[2])["stdout"] in ("large\n", ""), answer  # a program has the limit too, and may end by it

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            list(pool.map(throw, range(36)))
        until(lambda: (ask(server, "GET", "/health") or [0])[0] == 200, "it is there again")
        answer = upload(server, 100)
        assert answer is not None and answer[0] == 201 and server.download(json.loads(answer[2])["file_id"]) == b"u" * 100


def test_no_memory_says_when_to_come_again(tmp_path):
    with small(tmp_path, 48) as server:
        assert server is not None
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda _: ask(server, "POST", "/v1/execute", LARGE), range(24)))
        refused = [a for a in answers if a is not None and a[0] == 503]
        assert refused, "the limit was felt"
        for answer in refused:
            busy_or(answer)


def memory_base():
    for line in open("/proc/self/cgroup", encoding="ascii"):
        _, kinds, path = line.rstrip("\n").split(":", 2)
        if "memory" in kinds.split(","):
            base = pathlib.Path("/sys/fs/cgroup/memory" + path)
            if base.is_dir():
                return base
    return None


def test_out_of_memory_in_the_gate(serve, tmp_path):
    """The kernel ends the gate for want of memory: clients lose their connections, the next gate serves."""
    base = memory_base()
    if base is None:
        pytest.skip("needs the memory controller of cgroup v1")
    group = base / f"test-scarce-gate-{os.getpid()}"
    group.mkdir()
    try:
        server = serve()
        file_id = server.upload(b"kept")
        gate = server.pid_of("gate")
        (group / "cgroup.procs").write_text(str(gate))
        used = int((group / "memory.usage_in_bytes").read_text())
        (group / "memory.limit_in_bytes").write_text(str(used + 8 * MIB))
        large = json.dumps({"code": "print('large')", "x": "x" * (15 * MIB)}).encode()
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda _: ask(server, "POST", "/v1/execute", large), range(6)))
        for answer in answers:
            if not busy_or(answer, 200):
                assert json.loads(answer[2])["stdout"] == "large\n"
        assert server.next_gate(gate), "the limit was felt"
        until(lambda: works(server), "the next gate serves")
        assert server.download(file_id) == b"kept"
        server.stop()
    finally:
        until(lambda: not (group / "cgroup.procs").read_text().split(), "nobody is in it any more")
        group.rmdir()
