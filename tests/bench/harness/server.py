# SPDX-License-Identifier: Apache-2.0
"""A running `glovebox serve`, and what asks it: by hand for one request at a time, by load.c for many or large ones.

A server is started when a peer is opened and stopped by SIGTERM when it is closed; it has a state directory of its
own, and its log goes to a file there. Memory is read from /proc/PID/status: what a process occupies (VmRSS), and the
most it ever did (VmHWM).
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
import time

from . import launch

HERE = pathlib.Path(__file__).resolve().parent
LOAD_SOURCES = sorted(HERE.parent.glob("*.c"))
START_S, STOP_S, REQUEST_S, LOAD_S = 20, 30, 120, 180
LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:([0-9]+)\n")
# The rest is what sanitizers and coverage need to be told.
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **{
    name: value for name, value in os.environ.items()
    if name.startswith(("ASAN_", "UBSAN_", "LSAN_", "GCOV_", "LLVM_"))}}
NO_POOL = "no warm pool yet"
# Beside the boxes, a keeper has these two children.
SERVANTS = 2


class DoesNotWork(Exception):
    """Why a peer cannot take part after all."""


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


def await_no_box(keeper, seconds=START_S):
    deadline = time.monotonic() + seconds
    while boxes(keeper) and time.monotonic() < deadline:
        time.sleep(0.0002)


def memory_kib(pid, field="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise OSError(f"no {field} of process {pid}")


def mb(kib):
    return kib * 1024 / 1e6


def end_with_parent():
    """A harness that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(launch.PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


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
            await_no_box(self.pids["keeper"])
        except (DoesNotWork, OSError, ValueError, KeyError) as e:
            self.stop()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"the server does not answer: {e}") from e
        self.base_kib = {role: memory_kib(pid) for role, pid in self.pids.items()}

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


def request(method, path, fields=None):
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
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


_connection = None


def keep_connection(port):
    global _connection
    _connection = connect(port)


def ask(data, expect, keeper):
    """One timed execution, from the first byte of the request to the last of the answer. The box ends afterwards:
    that is waited for, so that the next peer does not pay for it, and has a time of its own."""
    start = time.perf_counter_ns()
    try:
        status, body = exchange(_connection, data)
    except OSError as e:
        return launch.Run(time.perf_counter_ns() - start, f"no answer: {e}")
    ns = time.perf_counter_ns() - start
    await_no_box(keeper)
    gone = time.perf_counter_ns() - start
    return launch.Run(ns, wrong_answer(status, body, expect), gone_ns=gone)


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
        connection.close()
        pids = roles(pid)
        await_no_box(pids["keeper"])
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


def request_file(ctx, data):
    path = ctx.folder("request") / "bytes"
    path.write_bytes(data)
    return path


# --- peers ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ServerPeer:
    """`glovebox serve` with these options; `fields` go into every execution beside the code."""

    name: str
    holds: str = "all layers of `glovebox doctor`"
    options: tuple = ()
    fields: dict = dataclasses.field(default_factory=dict)
    program: str = "glovebox"
    version: tuple = ("--version",)

    def path(self, ctx):
        return str(ctx.glovebox)

    def missing(self, ctx):
        if not os.access(ctx.glovebox, os.X_OK):
            return "not installed"
        return None if (ctx.glovebox.parent / "glovebox-gate").exists() else "glovebox-gate is not beside it"

    def open(self, ctx, work):
        return OpenedServer(self, ctx, work)

    def execute(self, code, path="/v1/execute"):
        return request("POST", path, {"code": code, **self.fields})


class OpenedServer:
    """once() is one execution on a connection that stays open."""

    def __init__(self, peer, ctx, work):
        self.peer, self.ctx, self.work = peer, ctx, work
        state = None
        if isinstance(work, Transfer):
            state = work.folder / "state"
            state.mkdir(mode=0o755)
        self.server = Server(ctx, peer.options, state)
        self.launcher, self.shown = None, self.server.shown
        if getattr(work, "language", None) == "python":
            self.data = peer.execute(work.text)
            fields = json.dumps({"code": work.text, **peer.fields}, ensure_ascii=False)
            self.shown += f", POST /v1/execute {fields if len(fields) < 100 else '…'}"
            self.launcher = launch.Launcher()
            self.launcher.call(keep_connection, self.server.port)

    def once(self):
        return self.launcher.call(ask, self.data, self.work.expect, self.server.pids["keeper"])

    def load(self, verb, *words):
        return load(self.ctx, verb, self.server.port, *words)

    def ask(self, method, path):
        connection = connect(self.server.port)
        try:
            return exchange(connection, request(method, path))
        finally:
            connection.close()

    def close(self):
        if self.launcher:
            self.launcher.close()
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

    def __init__(self, ctx):
        self.ctx, self.shown = ctx, "load answer"
        self.process = subprocess.Popen([load_client(ctx), "answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def load(self, verb, *words):
        return load(self.ctx, verb, self.port, *words)

    def close(self):
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
