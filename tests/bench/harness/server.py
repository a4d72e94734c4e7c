# SPDX-License-Identifier: Apache-2.0
"""A running `glovebox serve`, and what asks it: by hand for one request at a time, by load.c for many or large ones.

A server is started when a peer is opened and stopped by SIGTERM when it is closed; it has a state directory of its
own, and its log goes to a file there. It is at rest when it has no more boxes than when it was idle, and its pools are full
again: that is waited for between runs. Memory is read from /proc/PID/status: what a process occupies (VmRSS), and
the most it ever did (VmHWM).
"""
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import launch

HERE = pathlib.Path(__file__).resolve().parent
LOAD_SOURCES = sorted(HERE.parent.glob("*.c"))
START_S, SETTLE_S, REST_S, STOP_S, REQUEST_S, LOAD_S = 20, 60, 20, 60, 120, 180
LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:([0-9]+)\n")
# The rest is what sanitizers and coverage need to be told.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **{
    name: value for name, value in os.environ.items()
    if name.startswith(("ASAN_", "UBSAN_", "LSAN_", "GCOV_", "LLVM_"))}}
POOL = re.compile(rb'^glovebox_\w*pool_(?:boxes|taken_total)\{[^}]*(?:state|outcome)="(\w+)"[^}]*\} ([0-9]+)$', re.M)
IMAGE = re.compile(rb"^glovebox_images\{[^}]*\} ([0-9]+)$", re.M)
NOT_THERE = "not there"
# Beside the boxes, a keeper has these two children.
SERVANTS = 2


class DoesNotWork(Exception):
    """Why a peer cannot take part after all."""


class NotThere(DoesNotWork):
    """What this build of Glovebox does not have (yet). It is said aloud, and is no failure."""


# --- processes ----------------------------------------------------------------------------------------------


def arguments(glovebox, state, options):
    return [str(glovebox), "serve", "--listen", "127.0.0.1:0", "--state-dir", str(state), *options]


def await_port(fd, deadline):
    """What stands behind 'listening on', or None."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    said = b""
    while not (where := LISTENING.search(said)):
        if not poll.poll(max(0, (deadline - time.monotonic()) * 1000)):
            return None
        piece = os.read(fd, 4096)
        if not piece:
            return None
        said += piece
    return int(where[1])


def roles(root):
    """{"serve": pid, "keeper": pid, "gate": pid, "store": pid} of a server."""
    found = {"serve": root}
    for pid, depth in launch.family(root):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if 0 < depth < 3 and len(words) > 1 and words[1] in (b"keeper", b"gate", b"store"):
            found.setdefault(words[1].decode(), pid)
    return found


def boxes(keeper):
    """How many boxes a keeper has, by its children."""
    try:
        children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    except OSError:
        return 0
    return max(0, len(children) - SERVANTS)


def memory_kib(pid, field="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise OSError(f"no {field} of process {pid}")


def available_memory():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def mb(kib):
    return kib * 1024 / 1e6


def end_with_parent():
    """A harness that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(launch.PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def has_option(ctx, name):
    """Whether `glovebox serve` knows this option."""
    if "options" not in ctx.found:
        done = subprocess.run([ctx.glovebox, "serve", "--help"], capture_output=True, text=True, timeout=10, check=False)
        ctx.found["options"] = set(re.findall(r"^  (--[a-z-]+)", done.stdout, re.M))
    return name in ctx.found["options"]


@dataclasses.dataclass(frozen=True)
class Rest:
    """A server that is idle: how many boxes it has then, and how many of them wait in its pools."""

    port: int
    keeper: int
    boxes: int
    waiting: int


class Server:
    def __init__(self, ctx, options=(), state=None):
        self.ctx, self.state = ctx, pathlib.Path(state or ctx.folder("state"))
        self.log = ctx.folder("log") / "stderr"
        argv = arguments(ctx.glovebox, self.state, options)
        self.shown = ctx.shown(shlex.join(argv))
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                            env=ENVIRONMENT, process_group=0, preexec_fn=end_with_parent)
        try:
            self.port = await_port(self.process.stdout.fileno(), time.monotonic() + START_S)
            if self.port is None:
                raise DoesNotWork(f"the server did not start: {self.last_words()}")
            end = time.monotonic() + START_S
            while True:  # until what is warm is warm
                connection = connect(self.port)
                status, _ = exchange(connection, request("GET", "/ready"))
                connection.close()
                if status == 200 or time.monotonic() > end:
                    break
                time.sleep(0.05)
            if status != 200:
                raise DoesNotWork(f"the server makes no boxes: {self.last_words()}")
            self.pids = roles(self.process.pid)
            self.settle()
        except (DoesNotWork, OSError, ValueError, KeyError) as e:
            self.stop()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"the server does not answer: {e}") from e
        self.base_kib = {role: memory_kib(pid) for role, pid in self.pids.items()}

    def settle(self):
        """Wait until nothing goes on any more: that is its rest from now on."""
        connection, same, before = connect(self.port), 0, None
        end = time.monotonic() + SETTLE_S
        while same < 5 and time.monotonic() < end:
            text = exchange(connection, request("GET", "/metrics"))[1]
            pools, number = pools_of(text), boxes(self.pids["keeper"])
            # A one-shot pool that is full makes nothing; a box that ends is a child until it is gone. A pool whose image
            # is not there yet makes nothing, either.
            still = pools["making"] == 0 and b"0" not in IMAGE.findall(text)
            same = same + 1 if still and (pools["waiting"], number) == before else 0
            before = pools["waiting"], number
            time.sleep(0.02)
        connection.close()
        self.rest = Rest(self.port, self.pids["keeper"], number, pools["waiting"])

    def await_rest(self):
        await_rest(self.rest)

    def last_words(self):
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"

    def growth_mb(self, role):
        """By how much a process was at most larger than when the server was idle for the first time."""
        return mb(memory_kib(self.pids[role], "VmHWM") - self.base_kib[role])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        if status:
            self.ctx.warn(f"glovebox serve ended with {status}: {self.last_words()}")
        shutil.rmtree(self.state, ignore_errors=True)


# --- one request at a time: inside a launcher, or here ---------------------------------------------------------


def request(method, path, fields=None, headers=None):
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    if fields is None:
        return (head + "\r\n").encode()
    body = json.dumps(fields).encode()
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), REQUEST_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def exchange(connection, data):
    """(status, body) of one request of a keep-alive connection. No http.client: it costs more than the server."""
    connection.sendall(data)
    got, head, length = b"", -1, 0
    while head < 0 or len(got) < head + length:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError("the connection was closed")
        got += piece
        if head < 0 and (end := got.find(b"\r\n\r\n")) >= 0:
            head = end + 4
            found = re.search(rb"\r\nContent-Length: ([0-9]+)", got[:head], re.I)
            length = int(found[1]) if found else 0
    return int(got[9:12]), got[head:]


def wrong_answer(status, body, expect):
    if status != 200:
        return f"status {status}: {body[:150].decode(errors='replace')}"
    answer = json.loads(body)
    if answer["stdout"] != expect.decode() or answer["exit_code"] != 0:
        return f"answered {body[:150].decode(errors='replace')}"
    return None


def pools_of(text):
    """What /metrics says of all pools together: boxes that wait, that are being made; hits, misses so far."""
    found = dict.fromkeys(("waiting", "making", "hit", "miss"), 0)
    for name, value in POOL.findall(text):
        found[name.decode()] = found.get(name.decode(), 0) + int(value)
    return found


def pools_now(connection):
    return pools_of(exchange(connection, request("GET", "/metrics"))[1])


def await_rest(rest, connection=None):
    """What the pools say when the server is at rest again; also when it is not within REST_S. A connection on which nothing was
    asked yet is closed before that: it is made when it is needed."""
    end = time.monotonic() + REST_S
    while True:
        if boxes(rest.keeper) <= rest.boxes or time.monotonic() > end:
            if connection is None:
                with connect(rest.port) as own:
                    pools = pools_now(own)
            else:
                pools = pools_now(connection)
            if pools["waiting"] >= rest.waiting or time.monotonic() > end:
                return pools
        time.sleep(0.0005)


def await_warm(connection):
    """Until there is every image, and the pools are full."""
    end = time.monotonic() + START_S
    while True:
        text = exchange(connection, request("GET", "/metrics"))[1]
        images, pools = IMAGE.findall(text), pools_of(text)
        if images and b"0" not in images and pools["waiting"] > 0 and pools["making"] == 0:
            return
        if time.monotonic() > end:
            raise OSError("the pools do not fill")
        time.sleep(0.002)


class Asker:
    """Lives in a launcher, with two connections that stay open: one is timed, the other asks about the pools."""

    def __init__(self, port):
        self.port, self.connection, self.watch = port, connect(port), connect(port)
        self.before = pools_now(self.watch)

    def wake(self):
        """Before the clock runs: a server closes what was idle for too long, while other peers had their turn."""
        for name in ("connection", "watch"):
            if select.select([getattr(self, name)], [], [], 0)[0]:
                getattr(self, name).close()
                setattr(self, name, connect(self.port))
                exchange(getattr(self, name), request("GET", "/health"))

    def after(self, rest, outcome):
        """Wait for rest. What is wrong about where the box came from, or None."""
        before, self.before = self.before, await_rest(rest, self.watch)
        if outcome is None or self.before[outcome] == before[outcome] + 1:
            return None
        return f"no pool {outcome}: {before} became {self.before}"


_asker = None


def keep_connection(port):
    global _asker
    _asker = Asker(port)


def ask(data, expect, rest, outcome):
    """One timed execution, from the first byte of the request to the last of the answer. The box ends afterwards:
    that is waited for, so that the next peer does not pay for it, and has a time of its own."""
    try:
        _asker.wake()
        start = time.perf_counter_ns()
        status, body = exchange(_asker.connection, data)
        ns = time.perf_counter_ns() - start
        came = _asker.after(rest, outcome)
    except OSError as e:
        return launch.Run(0, f"no answer: {e}")
    rested = "until the box is gone" + (" and the pool is full" if rest.waiting else "")
    return launch.Run(ns, wrong_answer(status, body, expect) or came, parts={rested: time.perf_counter_ns() - start})


def ask_small(data, expect):
    """One timed request that needs no box."""
    try:
        _asker.wake()
        start = time.perf_counter_ns()
        status, body = exchange(_asker.connection, data)
    except OSError as e:
        return launch.Run(0, f"no answer: {e}")
    ns = time.perf_counter_ns() - start
    return launch.Run(ns, None if status == 200 and expect in body else f"status {status}: {body[:150]}")


def start_once(argv, data, expect):
    """A server from its start to its end: figures in a dict, or what went wrong."""
    r, w = os.pipe()
    start = time.perf_counter_ns()
    pid = launch.spawn(argv, "/dev/null", w, "/dev/null", ENVIRONMENT)
    os.close(w)
    figures, error = {}, None
    try:
        port = await_port(r, time.monotonic() + START_S)
        figures["listening_ns"] = time.perf_counter_ns() - start
        if port is None:
            return {}, "it did not start"
        connection = connect(port)
        status, body = exchange(connection, data)
        figures["answered_ns"] = time.perf_counter_ns() - start
        error = wrong_answer(status, body, expect)
        await_warm(connection)
        figures["warm_ns"] = time.perf_counter_ns() - start
        connection.close()
        pids = roles(pid)
        figures["kib"] = {role: memory_kib(one) for role, one in pids.items()}
    except (OSError, KeyError, ValueError) as e:
        error = f"{e.__class__.__name__}: {e}"
    finally:
        os.kill(pid, signal.SIGTERM)
        status = launch.wait(pid, time.monotonic() + STOP_S)
        os.close(r)
    if error is None and status != 0:
        error = f"it ended with {status}"
    return figures, error


# --- many or large ones: load.c --------------------------------------------------------------------------------


def load_client(ctx):
    """Where the client in C is; compiled when it is asked for first."""
    if "load" not in ctx.found:
        program = ctx.temp / "load"
        command = ["cc", "-std=c17", "-D_GNU_SOURCE", "-O3", "-o", str(program), *map(str, LOAD_SOURCES)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            why = done.stderr.strip()[:200] if done.returncode else None
        except OSError as e:
            why = str(e)
        if why:
            raise DoesNotWork(f"the client cannot be compiled: {why}")
        ctx.found["load"] = str(program)
    return ctx.found["load"]


def load(ctx, *words):
    """(figures, the lines behind them) of one call of the client; OSError when it was not satisfied."""
    try:
        done = subprocess.run([load_client(ctx), *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"no end after {LOAD_S} s") from None
    if done.returncode:
        raise OSError(done.stderr.strip()[:200] or f"the client ended with {done.returncode}")
    first, _, rest = done.stdout.partition("\n")
    return json.loads(first), rest


def small_requests(ctx, port, milliseconds):
    """Times of GET /health, one after the other by the client in C: (ns, failed, error)."""
    data = request_file(ctx, request("GET", "/health"))
    figures, _ = load(ctx, "rate", port, data, '"status":"ok"', 1, milliseconds, 1)
    return figures["ns"], figures["failed"], figures["error"]


def request_file(ctx, data):
    path = ctx.folder("request") / "bytes"
    path.write_bytes(data)
    return path


# --- peers ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ServerPeer:
    """`glovebox serve` with these options; `fields` go into every execution beside the code. `outcome`: where its boxes must
    come from, "hit" or "miss" of a pool. `needs`: options without which it cannot take part."""

    name: str
    holds: str = "all layers of `glovebox doctor`"
    options: tuple = ()
    fields: dict = dataclasses.field(default_factory=dict)
    outcome: str | None = None
    needs: tuple = ()
    program: str = "glovebox"
    version: tuple = ("--version",)
    route = "/v1/execute"

    def path(self, ctx):
        return str(ctx.glovebox)

    def missing(self, ctx):
        if not os.access(ctx.glovebox, os.X_OK):
            return "not installed"
        if not (ctx.glovebox.parent / "glovebox-gate").exists():
            return "glovebox-gate is not beside it"
        lacks = [name for name in self.needs if not has_option(ctx, name)]
        return f"{NOT_THERE}: serve has no {', '.join(lacks)}" if lacks else None

    def open(self, ctx, work):
        return OpenedServer(self, ctx, work)

    def body_of(self, code):
        return {"code": code, **self.fields}

    def execute(self, code, path=None):
        return request("POST", path or self.route, self.body_of(code))


class OneShots:
    """once() is one execution by a running server, on a connection that stays open."""

    def __init__(self, peer, running, work):
        self.server, self.outcome, self.expect = running, peer.outcome, work.expect
        self.data = peer.execute(work.text)
        fields = json.dumps(peer.body_of(work.text), ensure_ascii=False)
        self.shown = f"POST {peer.route} {fields if len(fields) < 100 else '…'}"
        self.launcher = launch.Launcher()
        self.launcher.call(keep_connection, running.port)

    def once(self):
        return self.launcher.call(ask, self.data, self.expect, self.server.rest, self.outcome)

    def close(self):
        self.launcher.close()


class OpenedServer:
    """once() is one execution, where the work is a program."""

    grows = ("gate", "store")  # which of its processes have a part in moving files

    def __init__(self, peer, ctx, work):
        self.peer, self.ctx, self.work = peer, ctx, work
        state = None
        if isinstance(work, Transfer):
            state = pathlib.Path(tempfile.mkdtemp(prefix="state-", dir=work.folder))
            state.chmod(0o755)
        self.server = Server(ctx, peer.options, state)
        self.shots, self.shown = None, self.server.shown
        if getattr(work, "language", None) == "python":
            self.shots = OneShots(peer, self.server, work)
            self.shown += f", {self.shots.shown}"

    def once(self):
        return self.shots.once()

    def load(self, verb, *words):
        return load(self.ctx, verb, self.server.port, *words)

    def ask(self, method, path):
        connection = connect(self.server.port)
        try:
            return exchange(connection, request(method, path))
        finally:
            connection.close()

    def close(self):
        if self.shots:
            self.shots.close()
        self.server.stop()

    # A file there and back, as Copy has it.

    def up(self):
        figures, body = self.load("up", self.work.source)
        self.file = json.loads(body)["file_id"]
        return figures["ns"]

    def down(self, compare=False):
        words = [self.work.source] if compare else []
        return self.load("down", f"/v1/files/{self.file}", self.work.bytes, *words)[0]["ns"]

    def forget(self):
        self.ask("DELETE", f"/v1/files/{self.file}")


class HandlerPeer(ServerPeer):
    """Executions that are calls of a handler. The last line of the work is its call, which is the server's to make."""

    route = "/workspace/se/v2/execute_code"

    def body_of(self, code):
        return {"handler_code": code.rpartition("\n")[0], "event": {}, **self.fields}

    def open(self, ctx, work):
        opened = super().open(ctx, work)
        try:
            with connect(opened.server.port) as connection:
                status, _ = exchange(connection, opened.shots.data)
            if status in (404, 405):
                raise NotThere(f"POST {self.route} answers {status}")
            opened.server.await_rest()
        except BaseException:
            opened.close()
            raise
        return opened


class HealthPeer(ServerPeer):
    """What client, connection and gate cost by themselves: GET /health, asked as executions are."""

    def open(self, ctx, work):
        return OpenedHealth(self, ctx)


class OpenedHealth:
    figure = "GET /health"

    def __init__(self, peer, ctx):
        self.ctx, self.server = ctx, Server(ctx, peer.options)
        self.shown = f"{self.server.shown}, GET /health"
        self.launcher = launch.Launcher()
        self.launcher.call(keep_connection, self.server.port)

    def once(self):
        return self.launcher.call(ask_small, request("GET", "/health"), b'"status":"ok"')

    def cells(self, milliseconds):
        return small_requests(self.ctx, self.server.port, milliseconds)

    def close(self):
        self.launcher.close()
        self.server.stop()


class StartingPeer(ServerPeer):
    """A server that is started anew for every run."""

    def open(self, ctx, work):
        return OpenedStarts(self, ctx, work)


class OpenedStarts:
    def __init__(self, peer, ctx, work):
        self.argv = arguments(ctx.glovebox, ctx.folder("starts"), peer.options)
        self.data, self.expect = peer.execute(work.text), work.expect
        self.shown = ctx.shown(shlex.join(self.argv))
        self.launcher = launch.Launcher()

    def once(self):
        return self.launcher.call(start_once, self.argv, self.data, self.expect)

    def close(self):
        self.launcher.close()


@dataclasses.dataclass
class Transfer:
    """A file to move, and a directory of the file system in question."""

    folder: pathlib.Path
    source: pathlib.Path
    bytes: int


class OpenedCopy:
    """`cp` beside an upload, and to nowhere beside a download whose client discards what it gets."""

    def __init__(self, program, ctx, work):
        self.copy, self.work = work.folder / "copy", work
        self.there = launch.Command([[program, str(work.source), str(self.copy)]])
        self.back = launch.Command([[program, str(self.copy), "/dev/null"]])
        self.launcher = launch.Launcher()
        self.shown = ctx.shown(f"{program} SOURCE COPY (up), {program} COPY /dev/null (down)")

    def run(self, command):
        run = self.launcher.call(launch.once, command)
        if run.error:
            raise OSError(run.error)
        return run.ns

    def up(self):
        ns = self.run(self.there)
        if self.copy.stat().st_size != self.work.bytes:
            raise OSError("the copy is not whole")
        return ns

    def down(self, compare=False):
        return self.run(self.back)

    def forget(self):
        self.copy.unlink(missing_ok=True)

    def close(self):
        self.launcher.close()


@dataclasses.dataclass(frozen=True)
class CopyPeer:
    name: str = "cp"
    program: str = "/usr/bin/cp"
    holds: str = "nothing"
    version: tuple = ("--version",)

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        return None if os.access(self.program, os.X_OK) else "not installed"

    def open(self, ctx, work):
        return OpenedCopy(self.program, ctx, work)


class OpenedAnswers:
    """The other half of load.c: answers every request with the same bytes."""

    figure = "GET /health"

    def __init__(self, ctx):
        self.ctx, self.shown = ctx, "load answer"
        self.process = subprocess.Popen([load_client(ctx), "answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def load(self, verb, *words):
        return load(self.ctx, verb, self.port, *words)

    def cells(self, milliseconds):
        return small_requests(self.ctx, self.port, milliseconds)

    def close(self):
        self.process.terminate()  # launchers that were forked later hold copies of its pipe
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(STOP_S)


@dataclasses.dataclass(frozen=True)
class AnswersPeer:
    name: str = "answers without looking"
    program: str = "/usr/bin/cc"
    holds: str = "nothing: what the client can reach at all"
    version: tuple = ()

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        return None if shutil.which("cc") else "no C compiler"

    def open(self, ctx, _work):
        return OpenedAnswers(ctx)
