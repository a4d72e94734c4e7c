# SPDX-License-Identifier: Apache-2.0
"""init's side of a kernel's channel, in Python: launches a real kernel and writes down everything it says, in order.

GLOVEBOX_KERNEL_LIBS in the environment names folders to look for IPython in, separated by colons, for machines whose
/usr/bin/python3 has none, and to try other versions; GLOVEBOX_KERNEL_PYTHON names another interpreter.
"""
import array
import base64
import io
import json
import os
import pathlib
import re
import select
import signal
import socket
import struct
import subprocess
import time
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "kernel"
PYTHON = os.environ.get("GLOVEBOX_KERNEL_PYTHON", "/usr/bin/python3")
LIBS = [path for path in os.environ.get("GLOVEBOX_KERNEL_LIBS", "").split(":") if path]
# How long anything may take. A test that waits this long has failed.
PATIENCE_S = float(os.environ.get("GLOVEBOX_KERNEL_PATIENCE_S", "120"))

CONFIG, RUN, STDIN, SYNCED, INTERRUPT = 1, 2, 3, 4, 5
WAITING = 15
READY, MESSAGE, END, SYNC = 16, 17, 18, 19
MORE, END_OF_INPUT = 1, 2
HEADER = struct.Struct("<BBHIQ")
PAYLOAD_MAX = 49152
MESSAGE_MAX = 16 << 20


def archive():
    """kernel.pyz, as the build packs it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(SOURCE.rglob("*.py")):
            packed.write(path, path.relative_to(SOURCE).as_posix())
    return out.getvalue()


def memfd(data):
    fd = os.memfd_create("kernel.pyz")
    os.write(fd, data)
    return fd


def command(imports=()):
    """Cold start. With folders of our own, which -I would not look at, the same by other means."""
    path = "/proc/self/fd/CODE"
    if not LIBS:
        return [PYTHON, "-I", "-B", path, *imports]
    code = f"import sys; sys.path[:0] = {[path, *LIBS]!r}; from glovebox_kernel.main import main; main()"
    return [PYTHON, "-I", "-B", "-c", code, *imports]


def has_module(name):
    code = f"import sys; sys.path[:0] = {LIBS!r}; import {name}"
    return subprocess.run([PYTHON, "-I", "-B", "-c", code], capture_output=True, check=False).returncode == 0


class Event:
    """kind: stdout, stderr, message, end, ready. data: bytes of the streams, else what JSON said."""

    def __init__(self, kind, cell, data):
        self.kind, self.cell, self.data = kind, cell, data

    def __repr__(self):
        return f"{self.kind}[{self.cell}]:{str(self.data)[:200]}"


class Result:
    """What was said about a cell until its END."""

    def __init__(self, cell, events):
        self.cell = cell
        self.events = [e for e in events if e.cell == cell]

    def stream(self, kind):
        return b"".join(e.data for e in self.events if e.kind == kind)

    @property
    def out(self):
        return self.stream("stdout").decode("utf-8", "surrogateescape")

    @property
    def err(self):
        return self.stream("stderr").decode("utf-8", "surrogateescape")

    @property
    def messages(self):
        return [e.data for e in self.events if e.kind == "message"]

    def contents(self, kind):
        return [m["content"] for m in self.messages if m["type"] == kind]

    @property
    def order(self):
        """Kinds of what was said, texts of one stream together."""
        kinds = []
        for e in self.events:
            kind = e.data["type"] if e.kind == "message" else e.kind
            if kind not in ("stdout", "stderr") or kinds[-1:] != [kind]:
                kinds.append(kind)
        return kinds

    @property
    def reply(self):
        ends = [e.data for e in self.events if e.kind == "end"]
        assert len(ends) == 1, ends
        return ends[0]["content"]

    @property
    def value(self):
        """text/plain of its result."""
        results = self.contents("execute_result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def error(self):
        """(ename, evalue) of its reply, or None."""
        return (self.reply["ename"], self.reply["evalue"]) if self.reply["status"] == "error" else None


class Died(Exception):
    """The kernel has ended its side of the channel."""


class Zygote:
    """A kernel that went through prepare(), and goes on to serve() in as many processes as are asked for.

    They come about by fork(2) behind the interpreter's back: as with a thawed image, the process is another one and
    nobody has told Python.
    """

    CODE = """
import ctypes, os, signal, socket, sys
from glovebox_kernel import main
main.prepare(sys.argv[1:])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
control = socket.socket(fileno=3)
fork = ctypes.PyDLL(None).fork
control.send(b"up")
while True:
    data, fds, _, _ = socket.recv_fds(control, 1, 1)
    if not data:
        os._exit(0)
    if fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        control.send(b"%d" % os.getpid())
        control.close()
        os.dup2(fds[0], 3)
        os.close(fds[0])
        main.serve(3)
    os.close(fds[0])
"""

    def __init__(self, home, imports=()):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = "/proc/self/fd/CODE"
        words = [PYTHON, "-I", "-B", "-c", f"import sys; sys.path[:0] = {[path, *LIBS]!r}\n{self.CODE}", *imports]
        self.process = launch(theirs, words, home)
        theirs.close()
        assert self.control.recv(20) == b"up"

    def spawn(self, channel):
        socket.send_fds(self.control, [b"x"], [channel.fileno()])
        return Spawned(int(self.control.recv(20)))

    def close(self):
        self.control.close()
        self.process.wait(PATIENCE_S)


class Spawned:
    """As subprocess.Popen, of a process that somebody else reaps."""

    def __init__(self, pid):
        self.pid = pid

    def send_signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        try:
            self.send_signal(signal.SIGKILL)
        except ProcessLookupError:
            pass

    def wait(self, timeout=PATIENCE_S):
        deadline = time.monotonic() + timeout
        while os.path.exists(f"/proc/{self.pid}"):
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"kernel {self.pid}", timeout)
            try:
                # Ours to reap, should the zygote have ended first.
                os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pass
            time.sleep(0.001)
        return None


def launch(channel, words, home):
    """A process with the channel on descriptor 3 and the archive on 4, as init starts it."""
    code = memfd(archive())
    words = [word.replace("/proc/self/fd/CODE", "/proc/self/fd/4") for word in words]
    try:
        return subprocess.Popen([PYTHON, "-c", LAUNCH, str(channel.fileno()), str(code), *words], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, pass_fds=[channel.fileno(), code], cwd="/",
                                env={"PATH": os.environ["PATH"], "HOME": str(home)})
    finally:
        os.close(code)


class FakeInit:
    """A kernel, cold unless there is a zygote."""

    def __init__(self, home, *, zygote=None, imports=(), env=None, argv=(), history=True, configure=True):
        self.events = []
        self.waiting = False
        self.parts = {}
        self.pipes = {}
        self.number = 0
        self.dead = False
        self.home = pathlib.Path(home)
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = zygote.spawn(theirs) if zygote else launch(theirs, command(imports), home)
        theirs.close()
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.env.update(env or {})
        if configure:
            self.configure(home, argv, history)

    def configure(self, cwd, argv=(), history=True, sync=True):
        self.send(CONFIG, 0, {"env": self.env, "cwd": str(cwd), "argv": list(argv), "history": history, "sync": sync})
        self.ready = self.until(lambda: next((e.data for e in self.events if e.kind == "ready"), None))

    # --- sending ---------------------------------------------------------------------------------------------

    def send(self, kind, cell, message, fds=(), flags=0):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        pieces = [data[at:at + PAYLOAD_MAX] for at in range(0, len(data), PAYLOAD_MAX)] or [b""]
        for i, piece in enumerate(pieces):
            more = MORE if i + 1 < len(pieces) else 0
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds and not i else []
            self.channel.sendmsg([HEADER.pack(kind, flags | more, 0, 0, cell), piece], rights)

    def request(self, kind, content=None, lend=None, **more):
        """Sends a RUN, with one descriptor more if there is something to lend. Returns its number."""
        self.number += 1
        ends = []
        for stream in ("stdout", "stderr"):
            read, write = os.pipe()
            os.set_blocking(read, False)
            self.pipes[read] = (stream, self.number)
            ends.append(write)
        try:
            self.send(RUN, self.number, {"type": kind, "content": content or {}, **more}, ends if lend is None else [*ends, lend])
        finally:
            for fd in ends:
                os.close(fd)
        return self.number

    def begin(self, code, **options):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "user_expressions": {},
                   "stop_on_error": True}
        content.update(options)
        return self.request("execute", content)

    def answer(self, cell, text=None):
        """None is the end of input."""
        self.send(STDIN, cell, b"" if text is None else text.encode(), flags=END_OF_INPUT if text is None else 0)

    def interrupt(self, cell=None):
        if cell is not None:
            self.send(INTERRUPT, cell, b"")
        self.process.send_signal(signal.SIGINT)

    # --- receiving -------------------------------------------------------------------------------------------

    def until(self, condition, patience=PATIENCE_S):
        """What condition() returns, as soon as it is true."""
        deadline = time.monotonic() + patience
        while True:
            value = condition()
            if value:
                return value
            if self.dead:
                raise Died(f"status {self.process.wait(PATIENCE_S)}, {self.events[-5:]}")
            left = deadline - time.monotonic()
            assert left > 0, f"nothing after {patience} s: {self.events[-5:]}"
            self.pump(left)

    def pump(self, timeout):
        poller = select.poll()
        poller.register(self.channel, select.POLLIN)
        for fd in self.pipes:
            poller.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(timeout * 1000)]
        if self.channel.fileno() in ready:
            self.receive()
        else:
            for fd in ready:
                self.drain(fd)

    def receive(self):
        try:
            data = self.channel.recv(HEADER.size + PAYLOAD_MAX + 1)
        except ConnectionResetError:
            data = b""
        if not data:
            self.dead = True
            for fd in list(self.pipes):
                self.drain(fd)
            return
        kind, flags, zero, zero2, cell = HEADER.unpack(data[:HEADER.size])
        assert (zero, zero2) == (0, 0) and not flags & ~MORE and len(data) <= HEADER.size + PAYLOAD_MAX
        if kind == WAITING:
            assert not self.waiting and not self.events and len(data) == HEADER.size, "it waits once, first of all"
            self.waiting = True
            return
        assert kind in (READY, MESSAGE, END, SYNC), kind
        whole = self.parts.pop((kind, cell), b"") + data[HEADER.size:]
        if flags & MORE:
            assert len(data) > HEADER.size
            self.parts[kind, cell] = whole
            return
        assert len(whole) <= MESSAGE_MAX
        if kind == SYNC:
            self.send(SYNCED, cell, whole)
            return
        # What its cell printed before the message is passed on before it.
        for fd in [fd for fd, (_, owner) in self.pipes.items() if owner == cell]:
            self.drain(fd)
        name = {READY: "ready", MESSAGE: "message", END: "end"}[kind]
        self.events.append(Event(name, cell, json.loads(whole, parse_constant=_not_json)))

    def drain(self, fd):
        stream, cell = self.pipes[fd]
        while True:
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                del self.pipes[fd]
                os.close(fd)
                return
            self.events.append(Event(stream, cell, data))

    def finish(self, cell, answers=()):
        """Until its END; input_requests are answered meanwhile, by texts or None."""
        answers = list(answers)
        asked = [0]

        def over():
            requests = sum(e.kind == "message" and e.cell == cell and e.data["type"] == "input_request" for e in self.events)
            while asked[0] < requests and answers:
                asked[0] += 1
                self.answer(cell, answers.pop(0))
            return self.ended(cell)

        self.until(over)
        return Result(cell, self.events)

    def ended(self, cell):
        return any(e.kind == "end" and e.cell == cell for e in self.events)

    def stop(self, cell):
        """Interrupts it to its end. More than once if need be: Python misses a signal in the instant before it waits."""
        while not self.ended(cell):
            self.interrupt()
            again = time.monotonic() + 2
            while time.monotonic() < again and not self.ended(cell) and not self.dead:
                self.pump(0.1)
        return self.finish(cell)

    def run(self, code, answers=(), **options):
        return self.finish(self.begin(code, **options), answers)

    def ask(self, kind, content=None, **more):
        """A request that is not execute. Returns the content of its reply."""
        result = self.finish(self.request(kind, content, **more))
        end = [e.data for e in result.events if e.kind == "end"][0]
        assert end["type"] == f"{kind}_reply"
        return end["content"]

    def seen(self, cell):
        """What was said about a cell so far."""
        return Result(cell, self.events)

    def wait_for(self, cell, text, stream="out"):
        self.until(lambda: text in getattr(self.seen(cell), stream))

    # --- ending ----------------------------------------------------------------------------------------------

    def fds(self):
        """Descriptors of the kernel, as {number: what it is}."""
        folder = f"/proc/{self.process.pid}/fd"
        found = {}
        for name in os.listdir(folder):
            try:
                found[int(name)] = os.readlink(f"{folder}/{name}")
            except OSError:
                pass
        return found

    def close(self):
        """The channel ends, and the kernel with it."""
        self.channel.close()
        for fd in self.pipes:
            os.close(fd)
        self.pipes = {}
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


# Puts the channel on descriptor 3 as init does, the archive where nobody else is.
LAUNCH = """
import os, signal, sys
channel, code, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
os.dup2(code, 200)
os.dup2(channel, 3)
os.dup2(200, 4)
os.closerange(5, 201)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(words[0], words)
"""


def _not_json(name):
    raise ValueError(f"{name} is not JSON")


def png_size(text):
    """Width and height of an image in base64."""
    data = base64.b64decode(text, validate=True)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", data[16:24])


def need(name):
    """Skips a test that wants a module which is not here, and says so."""
    if not has_module(name):
        pytest.skip(f"/usr/bin/python3 has no {name} here")


def plain(lines):
    """A traceback without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))
