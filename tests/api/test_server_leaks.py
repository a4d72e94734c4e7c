# SPDX-License-Identifier: Apache-2.0
"""One server, runs by the dozen, ended in every way that clients, programs and killed gates have: afterwards it is as it was.

As it was: no box, no cgroup, no process more; descriptors, threads and memory of gate, keeper and store as after the warm-up; every
slot free; nothing half-written in the store. And after SIGTERM nothing of it is on the host but its state directory.
"""
import concurrent.futures
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import socket
import struct
import threading
import time
import uuid

import pytest

from server import SANITIZED, Gone, file_part, lives, mark, multipart, needs_root, serve, status_of, until, waiting  # noqa: F401

pytestmark = [needs_root, pytest.mark.leaks, pytest.mark.more]

FEW = 20 if os.environ.get("GLOVEBOX_GUEST") else 60
COUNTS = [pytest.param(FEW, id="some"), pytest.param(1000, id="1000", marks=pytest.mark.slow)]
AT_ONCE = 4
SLOTS = 6
LOST = (ConnectionResetError, BrokenPipeError, http.client.HTTPException, Gone)
SLEEP = "import os, time\nos.fork() and os.write(1, b'begun\\n')\ntime.sleep(1000)"
# Memory may settle at another level, as allocators do; a leak of one buffer per run is far above that.
GROWTH_KIB = 8 * 1024


# --- what there is -------------------------------------------------------------------------------------------


def cgroups_of(server):
    """Cgroups of its boxes: those of its keeper's instance. The keeper has a lock whose number they carry."""
    numbers = set()
    keeper = server.pid_of("keeper")
    for fd in os.listdir(f"/proc/{keeper}/fd"):
        with contextlib.suppress(OSError):
            match = re.search(r"/(\d+)\.lock$", os.readlink(f"/proc/{keeper}/fd/{fd}"))
            if match:
                numbers.add(int(match[1]))
    assert len(numbers) == 1, "a keeper holds one lock"
    pattern = re.compile(rf"glovebox-[0-9a-f]+-{numbers.pop()}-\d+")
    return {os.path.join(top, child) for top, children, _ in os.walk("/sys/fs/cgroup") for child in children if pattern.fullmatch(child)}


def metrics(server):
    text = server.request("GET", "/metrics")[2].decode()
    return {name: float(value) for name, value in re.findall(r"^(\S+(?:\{[^}]*\})?) (\S+)$", text, re.M)}


def active(server):
    return sum(value for name, value in metrics(server).items() if name.startswith("code_interpreter_executions_active"))


def descriptors(server, role):
    """What a process of the server has open, without the numbers that name each socket and pipe."""
    pid = server.pid_of(role)
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.append(re.sub(r"\[\d+\]", "", os.readlink(f"/proc/{pid}/fd/{fd}")))
    return sorted(found)


def figures(server):
    """Processes, descriptors and threads. No client is connected but the one that asks."""
    return {
        "processes": sorted(words for words in server.pids()),
        "tree": len(server.tree()),
        "descriptors": {role: descriptors(server, role) for role in ("keeper", "gate", "store")},
        "threads": {role: status_of(server.pid_of(role))["Threads"] for role in ("serve", "keeper", "gate", "store")},
        "boxes": sorted(cgroups_of(server)),
        "active": active(server), "counted": metrics(server)["glovebox_boxes"], "sessions": metrics(server)["glovebox_sessions"],
    }


def memory(server):
    return {role: int(status_of(server.pid_of(role))["VmRSS"].split()[0]) for role in ("keeper", "gate", "store")}


def odd_files(server):
    """What lies in the store's directory and is neither the index nor a file that is listed."""
    status, answer = server.call("GET", "/v1/files")
    assert status == 200
    listed = {entry["file_id"] for entry in answer["files"]}
    return [n for n in os.listdir(server.state_dir / "files") if not n.startswith("glovebox-files.sqlite3") and n not in listed]


# --- ways to end ---------------------------------------------------------------------------------------------


class Ways:
    """One run each. `kills` says that a gate may die meanwhile: then an answer may be lost, but never wrong."""

    def __init__(self, server, kills=False):
        self.server, self.kills = server, kills

    def execute(self, code, **fields):
        """The answer, or None where the gate died or (while slots of dead runs are not yet free) there was no slot."""
        for _ in range(50):
            try:
                status, answer = self.server.call("POST", "/v1/execute", {"code": code, **fields})
            except LOST:
                assert self.kills, "no connection may be lost"
                return None
            if status in (429, 503) and self.kills:
                time.sleep(0.1)
                continue
            assert status == 200, (status, answer)
            return answer
        return None

    def ended(self, code, expected, timed_out=False, **fields):
        answer = self.execute(code, **fields)
        assert answer is None or (answer["exit_code"], answer["timed_out"]) == (expected, timed_out), answer

    def success(self, i):
        answer = self.execute(f"print({i})")
        assert answer is None or answer["stdout"] == f"{i}\n"

    def failure(self, _):
        self.ended("1/0", 1)

    def crash(self, _):
        self.ended("import os, time\nos.fork() or time.sleep(1000)\nos.kill(os.getpid(), 11)", 139)

    def timeout(self, i):
        self.ended(SLEEP, None, True, timeout_ms=50 + i % 50)

    def out_of_memory(self, _):
        self.ended("b = bytearray(b'x') * (1 << 30)", 137, timeout_ms=20000)

    def files_back(self, i):
        answer = self.execute(f"for n in range(5): open(str(n), 'w').write('{i}' * 1000)", files=[{"path": "0", "content": str(i) * 1000}])
        if answer is not None:
            assert sorted(f["path"] for f in answer["files"]) == ["1", "2", "3", "4"], answer
            for entry in answer["files"]:
                self.remove(entry["file_id"])

    def remove(self, file_id):
        try:
            assert self.server.request("DELETE", f"/v1/files/{file_id}")[0] == 204
        except LOST:
            assert self.kills

    def refused(self, _):
        with contextlib.suppress(*LOST):
            assert self.server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "file_id": str(uuid.uuid4())}]})[0] == 404
            assert self.server.call("POST", "/v1/execute", {"code": 1})[0] == 422
            assert self.server.request("POST", "/v1/execute", b"{")[0] == 422

    def does_not_fit(self, _):
        """Staging fails for want of room."""
        with contextlib.suppress(*LOST):
            status, _ = self.server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "content": "x" * (5 << 20)}]})
            assert status in (413, 422, 429, 503, 507), status

    def upload(self, i):
        try:
            self.remove(self.server.upload(os.urandom(1000 + 5000 * (i % 20))))
        except LOST:
            assert self.kills

    def stream(self, _):
        with contextlib.suppress(*LOST):
            with self.server.stream({"code": "for i in range(50): print(i)", "timeout_ms": 20000}) as stream:
                if stream.status == 200:
                    events = list(stream)
                    assert self.kills or events[-1].name == "result"

    def stream_left(self, i):
        """The client goes away, properly or by a reset, early or in the middle."""
        with contextlib.suppress(*LOST):
            with self.server.stream({"code": "import time\nfor i in range(100000): print(i)\ntime.sleep(1000)", "timeout_ms": 60000}) as stream:
                if i % 3 and stream.status == 200:
                    for _ in itertools.islice(iter(stream), i % 5):
                        pass
                if i % 2:
                    reset(stream.socket)

    def keyed_stream(self, i):
        """A run that goes on while its client is away, thrice, and is fetched to its end."""
        body = {"code": "import time\nfor i in range(10): print(i); time.sleep(0.05)", "timeout_ms": 5000}
        key, last, whole = uuid.uuid4().hex, None, False
        for attempt in range(40):
            headers = {"Idempotency-Key": key, **({"Last-Event-ID": last} if last else {})}
            with contextlib.suppress(*LOST):
                with self.server.stream(body, headers) as stream:
                    if stream.status == 200:
                        for event in stream:
                            last = event.id or last  # "gap", for what it had and did not read, has none
                            if event.name == "result":
                                whole = True
                                stream.read()  # to its end: what was not taken is kept for who comes back
                                return
                            if i % 2 and attempt < 3:
                                break
                    elif stream.status == 410:
                        assert self.kills and whole, "a run that nobody has had"
                        return  # it was taken, and then its gate died before it could say that this was all
                    else:
                        assert self.kills and stream.status in (429, 503), stream.read()
            time.sleep(0.05)

    def keyed_left(self, i):
        """The client never comes back: it is waited for, and then the run is forgotten."""
        with self.server.stream({"code": "print(1)" if i % 2 else SLEEP, "timeout_ms": 60000}, {"Idempotency-Key": uuid.uuid4().hex}) as stream:
            assert stream.status == 200 and stream.next().name == "output"

    def session(self, i):
        session = None
        with contextlib.suppress(*LOST):
            status, answer = self.server.call("POST", "/v1/sessions", {"ttl_seconds": 4, "files": [{"path": "f", "content": "x"}]})
            if status != 201:
                assert self.kills and status in (429, 503), answer
                return
            session = answer["session_id"]
            commands = ["cat f", "setsid sleep 1000 > /dev/null 2>&1 &", "kill -9 $$", "while :; do :; done", "head -c 3000000 /dev/zero",
                        "python3 -c 'b = bytearray(b\"x\") * (1 << 30)'"]
            for n in range(i % 3 + 1):
                self.server.call("POST", f"/v1/sessions/{session}/bash", {"cmd": commands[(i + n) % len(commands)], "timeout_ms": 1000})
        if session and i % 4:  # every fourth ends by its time
            self.delete(session)

    def delete(self, session):
        for _ in range(50):
            with contextlib.suppress(*LOST):
                if self.server.request("DELETE", f"/v1/sessions/{session}")[0] in (204, 404):
                    return
            time.sleep(0.05)

    def session_that_ends_by_itself(self, _):
        with contextlib.suppress(*LOST):
            _, answer = self.server.call("POST", "/v1/sessions", {"ttl_seconds": 1})
            if "session_id" in answer:
                self.server.call("POST", f"/v1/sessions/{answer['session_id']}/bash", {"cmd": "sleep 1000", "timeout_ms": 5000})

    def cut_off(self, i):
        """A request of some kind, of which the client sends so many bytes, waits a little, and is gone by a reset."""
        kind, form = multipart([file_part(b"y" * 100000)])
        _, sent = random_of([("/v1/execute", "application/json", json.dumps({"code": SLEEP, "timeout_ms": 60000}).encode()),
                             ("/v1/execute/stream", "application/json", json.dumps({"code": SLEEP, "timeout_ms": 60000}).encode()),
                             ("/v1/execute", "application/json", json.dumps({"code": "for i in range(50): open(str(i), 'w').write('x')",
                                                                            "timeout_ms": 60000}).encode()),
                             ("/v1/files", kind, form), ("/v1/sessions", "application/json", b'{"ttl_seconds": 3}')], i, self.server)
        with contextlib.suppress(*LOST):
            s = self.server.connect()
            with s:
                s.sendall(sent[:[1, 10, len(sent) // 2, len(sent) - 1, len(sent), len(sent), len(sent)][i % 7]])
                time.sleep(i * 0.0017 % 0.12)
                reset(s)


def random_of(choices, i, server):
    path, kind, body = choices[i % len(choices)]
    return path, (f"POST {path} HTTP/1.1\r\nHost: {server.authority}\r\nContent-Type: {kind}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def reset(s):
    """Closing it sends RST instead of an orderly end."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


WAYS = [name for name, value in vars(Ways).items() if callable(value) and
        name not in ("__init__", "execute", "ended", "remove", "delete", "keyed_left")]


# --- the proof -----------------------------------------------------------------------------------------------

OPTIONS = {"env": {"MAX_CONCURRENT_EXECUTIONS": str(SLOTS), "EXECUTION_QUEUE_TIMEOUT_SEC": "50", "MEMORY_LIMIT_MB": "64"},
           "ci_workspace": "4M", "body_timeout": "2s", "header_timeout": "2s"}


def go(server, count, kills):
    """So many runs, some at once, each in the next of the ways."""
    ways = Ways(server, kills)

    def one(i):
        getattr(ways, WAYS[i % len(WAYS)])(i)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for work in [pool.submit(one, i) for i in range(count)]:
            work.result(timeout=300)


def steady(server):
    """What there is when nothing changes any more: a request that was cut off may still hold a descriptor."""
    was = figures(server)
    while True:
        time.sleep(0.5)
        now = figures(server)
        if now == was:
            return now
        was = now


def settled(server, before):
    """What differs from before, once everything has had time to go."""
    deadline = time.monotonic() + 60
    while True:
        now = figures(server)
        different = {key: (before[key], now[key]) for key in before if before[key] != now[key]}
        if not different or time.monotonic() > deadline:
            return different
        time.sleep(0.1)


def every_slot_is_free(server):
    """As many programs as there are slots run at the same time: each ends when all have begun."""
    word = mark()
    with contextlib.ExitStack() as stack:
        for _ in range(SLOTS):
            stream = stack.enter_context(server.stream({"code": waiting(word), "timeout_ms": 60000}))
            assert stream.status == 200, stream.read()
            assert stream.next().data["data"] == "begun\n"
        assert len(server.running(word)) == SLOTS and active(server) == SLOTS
    until(lambda: not server.running(word), "they are gone")


def warm_up(server):
    """Every way once or twice, so that what is made on first use is there; then what there is."""
    go(server, 2 * len(WAYS), False)
    every_slot_is_free(server)
    until(lambda: not cgroups_of(server) and active(server) == 0, "the boxes of the warm-up are gone")
    until(lambda: metrics(server)["glovebox_boxes"] == 0 == metrics(server)["glovebox_sessions"], "the gate knows of none")
    return steady(server), memory(server)


@pytest.mark.parametrize("count", COUNTS)
def test_nothing_is_left_in_a_server(serve, count):
    server = serve(**OPTIONS)
    family = {role: server.pid_of(role) for role in ("serve", "keeper", "gate", "store")}
    before, room = warm_up(server)
    go(server, count, False)
    different = settled(server, before)
    assert not different, different
    every_slot_is_free(server)
    different = settled(server, before)
    assert not different, different
    assert {role: server.pid_of(role) for role in family} == family, "nothing died"
    grown = {role: kib - room[role] for role, kib in memory(server).items()}
    assert SANITIZED or all(kib < GROWTH_KIB for kib in grown.values()), f"KiB more than after the warm-up: {grown}"
    assert odd_files(server) == []


@pytest.mark.parametrize("count", COUNTS)
def test_nothing_is_left_by_killed_gates(serve, count):
    """The same while gates are killed at random: boxes of dead gates are taken over, ended, and forgotten."""
    server = serve(**OPTIONS)
    keeper = server.pid_of("keeper")
    before, room = warm_up(server)
    over, kills = threading.Event(), []

    def kill():
        chance = random.Random(count)
        while not over.wait(chance.uniform(0.1, 0.5)):
            gate = server.kill_gate()
            kills.append(gate)
            server.next_gate(gate)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        go(server, count, True)
    finally:
        over.set()
        killer.join(60)
    assert not killer.is_alive() and kills
    until(lambda: server.request("GET", "/ready")[0] == 200, "it is ready again")
    different = settled(server, before)
    assert not different, different
    every_slot_is_free(server)
    assert server.pid_of("keeper") == keeper
    assert memory(server)["keeper"] - room["keeper"] < GROWTH_KIB
    assert odd_files(server) == []


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, pytest.param("keyed_left", marks=pytest.mark.slow)])
def test_nothing_is_left_by_each_way(serve, way):
    """One way at a time names the culprit."""
    server = serve(**OPTIONS)
    one = getattr(Ways(server), way)

    def some(numbers):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for work in [pool.submit(one, i) for i in numbers]:
                work.result(timeout=300)

    Ways(server).success(0)  # opens what is opened on first use, such as the audit file
    some(range(8))
    until(lambda: not cgroups_of(server) and metrics(server)["glovebox_boxes"] == 0, "the boxes of the warm-up are gone")
    before = steady(server)
    some(range(8, 24))
    different = settled(server, before)
    assert not different, different
    assert odd_files(server) == []


@pytest.mark.skipif(SANITIZED, reason="a sanitized gate keeps what is freed for a while")
def test_files_that_go_out_leave_no_memory_behind(serve):
    """Each had a buffer of its own size in the gate."""
    server = serve()
    code = "for i in range(100):\n    open(f'{i}.bin', 'wb').write(bytes([i]) * 10000)"

    def some(runs):
        for _ in range(runs):
            status, done = server.call("POST", "/v1/execute", {"code": code, "timeout_ms": 20000})[:2]
            assert status == 200 and len(done["files"]) == 100, done
        return memory(server)["gate"]

    before = some(2)
    assert some(6) - before < 4000, "600 files of 10 kB must not stay, in kB"


def mounts():
    return pathlib.Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()


def sockets(port):
    """Sockets of this machine that have that port as their own, other than those that only wait for their time."""
    found = []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == port and fields[3] != "06":
            found.append(line)
    return found


@pytest.mark.parametrize("how", ["idle", "busy", "gate killed just before"])
def test_nothing_is_left_after_the_end(serve, tmp_path, how):
    """Files, sessions and running programs are there when it is told to stop. Its state directory is all that stays."""
    state, cwd = tmp_path / "state", tmp_path / "cwd"
    before = mounts(), set(os.listdir("/tmp")), set(os.listdir("/dev/shm"))
    server = serve(folder=cwd, state_dir=state, drain_timeout="1s", **OPTIONS)
    word, port = mark(), server.port
    kept = server.upload(b"kept")
    _, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})
    server.call("POST", f"/v1/sessions/{answer['session_id']}/bash", {"cmd": f"setsid bash -c 'sleep 1000; : {word}' > /dev/null 2>&1 &"})
    until(lambda: server.running(word), "the session's process runs")
    with contextlib.ExitStack() as stack:
        if how == "busy":
            for _ in range(3):
                stream = stack.enter_context(server.stream({"code": waiting(word), "timeout_ms": 60000}))
                assert stream.next().name == "output"
            half = stack.enter_context(server.connect())
            half.sendall(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b")
        if how == "gate killed just before":
            server.kill_gate()
        groups, family = cgroups_of(server), server.tree()
        owners = {os.stat(f"/proc/{pid}").st_uid for pid in family}
        assert groups and server.running(word)
        server.stop()
    until(lambda: not any(lives(*one) for one in family.items()), "every process of it is gone")
    until(lambda: not [g for g in groups if os.path.exists(g)], "its cgroups are gone")
    until(lambda: not sockets(port), "nobody listens on its port")
    assert mounts() == before[0]
    # Others use these directories too: only what has a name of ours and was not made by another user counts.
    new = [f"/tmp/{n}" for n in set(os.listdir("/tmp")) - before[1]] + [f"/dev/shm/{n}" for n in set(os.listdir("/dev/shm")) - before[2]]
    assert not [n for n in new if "glovebox" in n and os.path.lexists(n) and os.lstat(n).st_uid in (0, *owners)]
    assert sorted(os.listdir(tmp_path)) == ["cwd", "state"] and sorted(os.listdir(cwd)) == ["stderr", "stdout"]
    assert sorted(os.listdir(state)) == ["audit", "environments", "files"]
    names = [n for n in os.listdir(state / "files") if not n.startswith("glovebox-files.sqlite3")]
    assert names == [kept], "no half upload"
