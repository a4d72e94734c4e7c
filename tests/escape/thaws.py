# SPDX-License-Identifier: Apache-2.0
"""Images, boxes made from them, and Python that is thawed there, next to somebody hostile who was there before.

The tests are the gate (tests/gate.py): they speak with keeper and init themselves, so that they know at which step a start is.
`place` is a keeper in one of the ways in which one can be run, with boxes of ordinary users or of box roots.
"""
import contextlib
import json
import os
import signal
import struct

import pytest

import test_posture as posture
from gate import Exit, Failed, Keeper, text

ROOT_USER, FREEZES = 1, 4
STDIN, SWEEP, HELD, THAW, KIT, KERNEL = 2, 4, 8, 16, 32, 64
EXITED, SIGNALED, FAILED = 0, 1, 2
NOT_BEGUN, DIED = 8, 16
THAW_COLLIDES = 93
PYTHON = "/usr/bin/python3"
ARCHIVE = "/proc/self/fd/6"
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/box", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
LIMITS = ("memory-limit", "process-limit", "cpu-limit")
FREEZE_BYTES = 4 << 30

# A zygote of the tests' own: {} is put in before it is one.
ZYGOTE = """
import sys
sys.path.insert(0, {archive!r})
from glovebox_kernel import fresh, main, zygote
{before}
zygote.{kind}({modules!r})
"""


def is_collision(end):
    return (end.how, end.code, end.flags) == (EXITED, THAW_COLLIDES, NOT_BEGUN)


def words(env):
    return [f"{name}={value}" for name, value in env.items()]


class Place:
    """A keeper and the kind of boxes it is asked for."""

    def __init__(self, keeper, flags, waived, name):
        self.keeper, self.flags, self.waived, self.name = keeper, flags, waived, name
        self.images = {}
        self.opened = []

    def image(self, kind="kernel", modules=("json",), before=""):
        """Its number. Made once for each way of asking."""
        key = kind, tuple(modules), before
        if key not in self.images:
            self.images[key] = self.make_image(kind, modules, before)
        return self.images[key]

    def make_image(self, kind, modules, before):
        number = struct.unpack("<I", self.keeper.call("IMAGE_NEW", text(kind))[0])[0]
        box = self.keeper.new_box(flags=FREEZES, image=number, waived=self.waived, MEMORY=FREEZE_BYTES, FILE=FREEZE_BYTES)
        options = ["-I", "-B"] if kind == "kernel" else []
        code = ZYGOTE.format(archive=ARCHIVE, before=before, kind=kind, modules=list(modules))
        box.run(1, PYTHON, *options, "-c", code, flags=KIT | SWEEP, env=words(ENV))
        _, err, end = box.until_exit(1)
        box.end()
        assert (end.how, end.code) == (EXITED, 0), err.decode()
        self.keeper.call("IMAGE_SEAL", struct.pack("<IQ", number, 0))
        return number

    def drop(self, number):
        self.keeper.call("IMAGE_DROP", struct.pack("<I", number))
        self.images = {key: value for key, value in self.images.items() if value != number}

    def box(self, image=None, **limits):
        """A box that ends with the test."""
        image = self.image() if image is None else image
        box = Thaws(self.keeper.new_box(flags=self.flags, image=image, waived=self.waived, **limits))
        self.opened.append(box)
        return box

    def end_boxes(self):
        while self.opened:
            self.opened.pop().end()

    def init_of(self, box):
        """Host pid of a box's process 1: the youngest child of the keeper, right after the box was made."""
        pid = self.keeper_pid()
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return max(int(word) for word in f.read().split())

    def keeper_pid(self):
        """A rootless one is a child of the process that we started, where it has to be."""
        return self.keeper.process.pid


class Thaws:
    """A box with short words for what tests do there. Jobs are numbered from 1 on."""

    def __init__(self, box):
        self.box, self.last, self.over = box, 0, False
        self.pids, self.said = {}, {}

    def end(self):
        if not self.over:
            self.over = True
            self.box.end()

    def start(self, *argv, flags=0, env=None, **kw):
        self.last += 1
        self.box.run(self.last, *argv, flags=flags, env=words(ENV if env is None else env), **kw)
        return self.last

    # --- programs --------------------------------------------------------------------------------------------

    def python(self, code, *args, **kw):
        return self.start(PYTHON, "-I", "-B", "-c", code, *args, **kw)

    def told(self, job):
        """The next line that a job prints, as JSON."""
        data = self.said.get(job, b"")
        while b"\n" not in data:
            frame = self.box.wait_for(job, "OUTPUT", "EXIT")
            self.box.send("ACK", job, frame.number)
            assert frame.name == "OUTPUT", "it has ended without a word"
            if frame.flags != 1:
                pytest.fail(frame.body.decode())
            data += frame.body
        line, _, self.said[job] = data.partition(b"\n")
        return json.loads(line)

    def run(self, code, *args):
        """What a program prints, as JSON; it must end well."""
        out, err, end = self.box.until_exit(self.python(code, *args))
        assert (end.how, end.code) == (EXITED, 0), (end.how, end.code, out, err)
        return json.loads(out)

    def signal(self, job, number):
        """To its process group."""
        self.box.send("SIGNAL", job, body=struct.pack("<II", number, 0))

    def end_of(self, job):
        """Ends it, if it has not ended yet."""
        self.signal(job, signal.SIGKILL)
        return self.box.until_exit(job)[2]

    def asked(self, job):
        """SIGTERM, and what it says then."""
        self.signal(job, signal.SIGTERM)
        answer = self.told(job)
        self.box.until_exit(job)
        return answer

    # --- kernels ---------------------------------------------------------------------------------------------

    def thaw(self, flags=THAW | KERNEL, env=None):
        """Begins; what comes of it is waited for elsewhere."""
        return self.start(PYTHON, "", flags=HELD | flags, env=env)

    def cold(self, *modules):
        """A kernel that is started as kernel/README.md has it, and waits; its job."""
        job = self.start(PYTHON, "-I", "-B", ARCHIVE, *modules, flags=HELD | KIT | KERNEL)
        assert self.waits(job) is True
        return job

    def waits(self, job):
        """True: it waits for GO. Else how it ended."""
        frame = self.box.wait_for(job, "READY", "EXIT", "STARTED")
        if frame.name == "STARTED":
            self.pids[job] = struct.unpack("<I", frame.body)[0]
            frame = self.box.wait_for(job, "READY", "EXIT")
        return True if frame.name == "READY" else self.how(job, frame)

    def how(self, job, frame):
        self.box.send("ACK", job, frame.number)
        return Exit(frame.body)

    def go(self, job, env=None, **config):
        config = {"env": ENV if env is None else env, "cwd": "/workspace", **config}
        self.box.go(job, json.dumps(config).encode())

    def begins(self, job):
        """True: the kernel said READY. Else how it ended."""
        while True:
            frame = self.box.wait_for(job, "MESSAGE", "EXIT")
            if frame.name == "EXIT":
                return self.how(job, frame)
            self.box.send("ACK", job, frame.number)
            if not frame.flags & 1:
                return True

    def thawed(self, **kw):
        """A kernel that waits; its job. The kernel may put a new stack where the image has something, once in thousands of starts."""
        for _ in range(5):
            job = self.thaw(**kw)
            said = self.waits(job)
            if said is True:
                return job
            assert is_collision(said), (said.how, said.code, said.flags)
        return pytest.fail("it collides every time")

    def sent_off(self, job, **kw):
        """GO to one that waits; its job."""
        self.go(job, **kw)
        assert self.begins(job) is True
        return job

    def kernel(self, job=None, **kw):
        """One that is there and serves; its job."""
        job = self.thawed() if job is None else job
        return self.sent_off(job, **kw)

    def pid(self, job):
        """In the box."""
        if job not in self.pids:
            self.pids[job] = struct.unpack("<I", self.box.wait_for(job, "STARTED").body)[0]
        return self.pids[job]

    def begin_cell(self, kernel, code):
        self.last += 1
        self.box.cell(self.last, kernel, json.dumps({"type": "execute", "content": {"code": code}}).encode())
        return self.last

    def cell(self, kernel, code):
        return self.box.until_cell(self.begin_cell(kernel, code))

    def shown(self, kernel, code):
        """What a cell prints, as JSON; it must end well."""
        cell = self.cell(kernel, code)
        reply = json.loads(cell.end)
        assert reply["content"]["status"] == "ok", "\n".join(reply["content"].get("traceback", []))
        return json.loads(cell.out)

    def works(self, kernel):
        assert self.shown(kernel, "print(6 * 7)") == 42


def works(box):
    """A kernel can be started in this box, and works."""
    box.works(box.kernel())


# --- places --------------------------------------------------------------------------------------------------


def is_able(keeper, waived):
    try:
        keeper.new_box(waived=waived).end()
        return True
    except Failed:
        return False


@contextlib.contextmanager
def keeper_of(glovebox, who):
    """(Keeper, what it has to waive): root's, a user's, or that of a user without a range of ids."""
    if who == "root":
        keeper = Keeper(glovebox)
        try:
            yield keeper, ()
        finally:
            keeper.stop()
        return
    with posture.some_user(glovebox, who == "user") as user:
        keeper = Keeper(user.program, env={"PATH": os.environ["PATH"], "HOME": str(user.home)}, user=user.uid, group=user.gid,
                        extra_groups=[], cwd="/")
        more = () if who == "user" else ("own-uids",)
        try:
            yield keeper, more if is_able(keeper, more) else (*LIMITS, *more)
        finally:
            keeper.stop()


PLACES = {"box": ("root", 0), "box root": ("root", ROOT_USER), "rootless": ("user", 0), "rootless root": ("user", ROOT_USER),
          "one id": ("number", 0)}
SLOW = ("rootless root", "one id")


@contextlib.contextmanager
def open_place(glovebox, name):
    who, flags = PLACES[name]
    with keeper_of(glovebox, who) as (keeper, waived):
        yield Place(keeper, flags, waived, name)


@pytest.fixture(scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PLACES])
def every_place(request, glovebox):
    with open_place(glovebox, request.param) as place:
        yield place


@pytest.fixture
def place(every_place):
    """Every way of running a keeper, one after the other."""
    yield every_place
    every_place.end_boxes()


@pytest.fixture(scope="module")
def common_place(glovebox):
    with open_place(glovebox, "box") as place:
        yield place


@pytest.fixture
def usual(common_place):
    """Root's keeper and ordinary boxes."""
    yield common_place
    common_place.end_boxes()
