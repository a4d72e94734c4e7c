# SPDX-License-Identifier: Apache-2.0
"""Somebody hostile is in the box already when a Python is thawed there, and attacks every step of it.

In one box all programs have one uid and are one domain of trust: what one may do to another of them it may do to a kernel. What
must hold is the rest: it never gets a descriptor, a right, memory or a word that it would not have without warm starts; no other
box notices; and whoever asked for the start is told how it went. SECURITY.md has the list.

Each protection names, in a comment beside its test, the mutant that was removed to see the test fail: of a build with mutants
(GLOVEBOX_MUTANT, see tools/mutants), or as a zygote that lacks a line.
"""
import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import pathlib
import platform
import re
import signal
import struct
import time

import pytest

import test_posture as posture
from gate import Failed, text
from server import POOLED, WARM, Server
from test_posture import NEEDS_ROOT
from thaws import (ENV, EXITED, FREEZES, KIT, NOT_BEGUN, PYTHON, SIGNALED, STDIN, THAW, THAW_COLLIDES,  # noqa: F401
                   common_place, every_place, is_collision, place, usual, works)

pytestmark = [NEEDS_ROOT, pytest.mark.more, pytest.mark.skipif(platform.machine() != "x86_64", reason="every start is cold here")]

# What the hostile programs here begin with. SIGTERM asks them to end and tell.
HOSTILE = r"""
import ctypes, errno, json, os, random, resource, signal, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))


def tell(what):
    os.write(1, json.dumps(what).encode() + b"\n")


def call(number, *args):
    if libc.syscall(number, *args) < 0:
        raise OSError(ctypes.get_errno(), "")


def state(pid):
    # (name, state) of a process: everybody may read these.
    with open(f"/proc/{pid}/stat") as f:
        text = f.read()
    end = text.rindex(")")
    return text[text.index("(") + 1:end], text[end + 2]


def others():
    return [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())]


def went(attempts):
    # The names of those that were not refused.
    done = []
    for name, attempt in attempts:
        try:
            attempt()
            done.append(name)
        except OSError:
            pass
    return done


buffer = ctypes.create_string_buffer(64)
vector = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 64)


def reaching(pid):
    # By system calls that reach into another process. None is ever allowed.
    pidfd = os.pidfd_open(pid)
    there = (ctypes.c_ulong * 2)(0x100000, 64)
    yield from [(f"pidfd_getfd {n}", lambda n=n: call(438, pidfd, n, 0)) for n in range(10)]
    yield "process_vm_readv", lambda: call(310, pid, vector, 1, there, 1, 0)
    yield "process_vm_writev", lambda: call(311, pid, vector, 1, there, 1, 0)
    yield "ptrace attach", lambda: call(101, 16, pid, 0, 0)
    yield "ptrace seize", lambda: call(101, 0x4206, pid, 0, 0)
    yield "kcmp", lambda: call(312, pid, os.getpid(), 0, 3, 3)
    yield "process_madvise", lambda: call(440, pidfd, there, 1, 21, 0)
    yield "userfaultfd", lambda: call(323, 0)
    yield "add_key", lambda: call(248, b"user", b"x", b"y", 1, -5)
    yield "memory, to write", lambda: os.open(f"/proc/{pid}/mem", os.O_RDWR)
    os.close(pidfd)


def looking(pid):
    # By /proc. Allowed where the process is dumpable, as between any two programs of one user.
    base = f"/proc/{pid}/"
    for n in range(10):
        for name, flags in (("read", os.O_RDONLY), ("write", os.O_RDWR), ("path", os.O_PATH)):
            yield f"fd {n} {name}", lambda n=n, flags=flags: os.open(f"{base}fd/{n}", flags)
        yield f"fd {n} stat", lambda n=n: os.stat(f"{base}fd/{n}")
        yield f"fd {n} link", lambda n=n: os.readlink(f"{base}fd/{n}")
        yield f"fdinfo {n}", lambda n=n: open(f"{base}fdinfo/{n}").read()
    for name in ("exe", "cwd", "root", "ns/user", "ns/mnt"):
        yield name, lambda name=name: os.stat(base + name)
    for name in ("mem", "environ", "maps", "auxv", "smaps", "pagemap", "syscall", "stack"):
        yield name, lambda name=name: open(base + name, "rb", buffering=0).read(1)
    yield "list of maps", lambda: os.listdir(base + "map_files")
    yield "robust list", lambda: call(274, pid, ctypes.byref(ctypes.c_ulong()), ctypes.byref(ctypes.c_ulong()))
"""


def hostile(box, code, *args):
    """Up to its first word."""
    job = box.python(HOSTILE + code, *args)
    assert box.told(job) == "up"
    return job


# --- during: reaching into who thaws -------------------------------------------------------------------------

# Stops the next process of the box at its birth, lets it go step by step, and tries everything at each.
STALK = r"""
pid = os.getpid() + 1
steps, gained, links = {}, set(), set()
# Beside each other, so that neither runs instead of the other.
processors = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {processors[0]})
tell("up")


def stop():
    os.kill(pid, signal.SIGSTOP)
    while state(pid)[1] not in "TtZ":
        pass


def step():
    os.kill(pid, signal.SIGCONT)
    until = time.perf_counter_ns() + random.randrange(80000)
    while time.perf_counter_ns() < until:
        pass


def look():
    name, _ = state(pid)
    try:
        os.readlink(f"/proc/{pid}/exe")
        stage = "open"
    except PermissionError:
        stage = f"closed: {name}"
    count = steps[stage] = steps.get(stage, 0) + 1
    if count > 20 and count % 50:
        return
    gained.update(f"{stage}: {what}" for what in went(reaching(pid)))
    if stage == "open":
        fds = os.listdir(f"/proc/{pid}/fd")
        links.update(os.readlink(f"/proc/{pid}/fd/{fd}").split(":[")[0] for fd in fds)
        gained.update(f"socket {fd}" for fd in fds if "socket" in os.readlink(f"/proc/{pid}/fd/{fd}")
                      and went([("", lambda: os.close(os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)))]))
        maps = os.listdir(f"/proc/{pid}/map_files")
        gained.update(went([(f"mapping {m}", lambda m=m: os.open(f"/proc/{pid}/map_files/{m}", os.O_RDONLY)) for m in maps[:20]]))
        gained.update(went([(f"mapping {m} stat", lambda m=m: os.stat(f"/proc/{pid}/map_files/{m}")) for m in maps[:20]]))
    else:
        gained.update(f"{stage}: {what}" for what in went(looking(pid)))


while not over:
    try:
        os.kill(pid, signal.SIGSTOP)
        os.sched_setaffinity(pid, {processors[-1]})
        break
    except ProcessLookupError:
        pass
while not over:
    try:
        stop()
        look()
        step()
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
went([("", lambda: os.kill(pid, signal.SIGCONT))])
tell([steps, sorted(gained), sorted(links)])
"""


def stalked(place):
    """(steps, gained, links) of one start, and the kernel works all the same."""
    box = place.box()
    before = box.kernel()
    box.cell(before, "import os; os.chmod('/proc/self/exe', 0o755)")  # where one may: then the next start is readable, and dumpable
    box.end_of(before)
    job = hostile(box, STALK)
    kernel = box.thaw()
    said = box.waits(kernel)
    told = box.asked(job)
    if said is True:
        box.works(box.sent_off(kernel))
    else:
        assert is_collision(said)
    return told


# Mutant thaw-hidden: who thaws is dumpable, and the image is among its descriptors.
def test_who_thaws_cannot_be_reached(place):
    all_steps = {}
    for _ in range(30):
        steps, gained, links = stalked(place)
        assert gained == [], steps
        assert set(links) <= {"/dev/null", "pipe", "socket", "anon_inode"}, "of what waits, before and after it said so"
        for stage, count in steps.items():
            all_steps[stage] = all_steps.get(stage, 0) + count
        if {"closed: init", "closed: memfd:python3", "open"} <= set(all_steps):
            return
    pytest.fail(f"it was never seen at every step: {all_steps}")


HELD_STILL = r"""
pid = int(sys.argv[1])
fds = os.listdir(f"/proc/{pid}/fd")
sockets = [fd for fd in fds if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket")]
tell("up")
tell({"gained": went(reaching(pid)), "sockets": len(sockets),
      "opened": went([(fd, lambda: os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR)) for fd in sockets]),
      "connected": went([(fd, lambda: socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(f"/proc/{pid}/fd/{fd}"))
                         for fd in sockets]),
      "init": went([*reaching(1), *looking(1)])})
"""


def test_what_waits_keeps_its_channel(place):
    """It is dumpable, as any program. Its channel is a socket without a name: nobody else can come by the other end of it."""
    box = place.box()
    kernel = box.thawed()
    pid = box.pid(kernel)
    told = box.told(hostile(box, HELD_STILL, str(pid)))
    # The channel, and a pair by which its own loop is woken.
    assert told == {"gained": [], "sockets": 3, "opened": [], "connected": [], "init": []}
    box.works(box.sent_off(kernel))
    told = box.told(hostile(box, HELD_STILL, str(pid)))
    assert told.pop("sockets") >= 1 and set(map(str, told.values())) == {"[]"}
    box.works(kernel)


# --- during: signals, limits, priorities ---------------------------------------------------------------------

STORM = r"""
# What ends, what stops for a moment, and what Python handles: to everybody, at every moment.
weak = [signal.SIGINT, signal.SIGCHLD, signal.SIGWINCH, signal.SIGURG, signal.SIGCONT, signal.SIGPIPE, signal.SIGXFSZ]
fatal = [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP, signal.SIGPROF]
kinds = {"weak": weak, "fatal": fatal, "stops": []}[sys.argv[1]]
last = os.getpid()
tell("up")


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


while not over:
    # The next one is met at its birth; one that went too fast is missed.
    pid = next((p for p in range(last + 1, last + 9) if send(p, 0)), None)
    if pid is None:
        continue
    for _ in range(random.randrange(40)):
        if kinds:
            if random.random() < 0.5:
                send(pid, random.choice(kinds))
        else:
            send(pid, signal.SIGSTOP)
            time.sleep(random.random() / 2000)
            send(pid, signal.SIGCONT)
        time.sleep(random.random() / 2000)
    last = pid
tell("over")
"""


@pytest.mark.parametrize("kind", ["weak", "fatal", "stops"])
def test_signals_at_any_moment(place, kind):
    """Started, or told how it ended; never silence. A neighbour who is started from the same image notices nothing."""
    box, neighbour = place.box(), place.box()
    job = hostile(box, STORM, kind)
    seen = set()
    for n in range(24):
        kernel = box.thaw()
        said = box.waits(kernel)
        if said is True:
            box.go(kernel)
            said = box.begins(kernel)
        if said is True:
            seen.add("began")
            box.end_of(kernel)
        else:
            assert said.flags & NOT_BEGUN and said.how in (EXITED, SIGNALED), (said.how, said.code, said.flags)
            seen.add((said.how, said.code))
        if n % 6 == 0:
            works(neighbour)
    box.asked(job)
    if kind == "stops":
        assert seen - {(EXITED, THAW_COLLIDES)} == {"began"}, "who is stopped for a moment goes on"
    works(box)
    works(neighbour)


# Never lets go of the first process that it meets.
STOP = r"""
tell("up")
while not over:
    try:
        os.kill(os.getpid() + 1, signal.SIGSTOP)
        break
    except ProcessLookupError:
        pass
tell("stopped")
"""
STATE = "import json, sys; print(json.dumps(open(f'/proc/{sys.argv[1]}/stat').read().rsplit(')')[1].split()[0]))"


def test_one_that_is_stopped_for_good_can_be_ended(place):
    """It says nothing, which its gate sees by the clock; then it ends as it is told to, and the next one starts."""
    box = place.box()
    job = hostile(box, STOP)
    kernel = box.thaw()
    assert box.told(job) == "stopped"
    box.box.until_exit(job)
    assert box.run(STATE, str(box.pid(kernel))) == "T"
    box.signal(kernel, signal.SIGKILL)
    end = box.waits(kernel)
    if end is True:  # it had said so before it was stopped
        end = box.waits(kernel)
    assert (end.how, end.code, end.flags) == (SIGNALED, signal.SIGKILL, NOT_BEGUN)
    works(box)


# Takes what the next process has: it is stopped again and again until it is the user's own, which it is before it executes anything.
SQUEEZE = r"""
kind = sys.argv[1]
pid = os.getpid() + 1
tell("up")
count = 0
while not over:
    try:
        os.kill(pid, signal.SIGSTOP)
        if kind == "priority":
            os.setpriority(os.PRIO_PROCESS, pid, 19)
            os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})
        else:
            limit = getattr(resource, "RLIMIT_" + kind)
            resource.prlimit(pid, limit, (1, resource.prlimit(pid, limit)[1]))
        count += 1
    except (PermissionError, ProcessLookupError):
        pass
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
tell(count)
"""


@pytest.mark.parametrize("kind", ["AS", "DATA", "STACK", "NOFILE", "FSIZE", "SIGPENDING", "NPROC", "priority"])
def test_limits_of_who_thaws(place, kind):
    """Whoever has the same uid may set them, of any program. The start may fail then, and says so."""
    for _ in range(20):
        box = place.box()
        job = hostile(box, SQUEEZE, kind)
        kernel = box.thaw()
        said = box.waits(kernel)
        if said is True:
            box.go(kernel)
            said = box.begins(kernel)
        assert said is True or said.flags & NOT_BEGUN, (said.how, said.code, said.flags)
        if box.asked(job) > 0:
            works(box)
            return
    pytest.fail("it was never squeezed")


# --- before: names, variables, limits --------------------------------------------------------------------------

# A module of every name that anything could want, wherever Python was ever known to look; each leaves a trace when it runs.
PLANT = r"""
os.makedirs("/tmp/ran")
names = sorted(set(sys.stdlib_module_names) | set('''sitecustomize usercustomize IPython numpy matplotlib matplotlib_inline traitlets
    glovebox_kernel decorator pygments stack_data backcall pexpect jedi colorama exceptiongroup apport_python_hook ipykernel debugpy
    prompt_toolkit astunparse black yapf curio trio wcwidth'''.split()))
code = "import os; open('/tmp/ran/' + __name__, 'w').close()\n"
site = "/home/box/.local/lib/python%d.%d/site-packages" % sys.version_info[:2]
profile = "/home/box/.ipython/profile_default/"
for folder in ("/workspace", "/home/box", "/tmp", "/dev/shm", "/var/tmp", site, profile + "startup", "/home/box/.config/matplotlib"):
    os.makedirs(folder, exist_ok=True)
for folder in ("/workspace", "/home/box", "/tmp", "/dev/shm", site):
    for name in names:
        with open(f"{folder}/{name}.py", "w") as f:
            f.write(code)
for path in (site + "/x.pth", "/workspace/x.pth", "/workspace/python3.pth", profile + "startup/00.py", profile + "ipython_config.py",
             "/home/box/.pythonrc", "/home/box/.pythonrc.py", "/workspace/.pythonrc.py", "/workspace/conftest.py",
             "/workspace/__main__.py", "/home/box/.ipython/ipython_config.py", "/workspace/ipython_config.py"):
    with open(path, "w") as f:
        f.write("import os; open('/tmp/ran/%s', 'w').close()\n" % path.replace("/", "_"))
for path in ("/workspace/python3", "/workspace/thaw", "/tmp/python3", "/workspace/4", "/workspace/image"):
    with open(path, "w") as f:
        f.write("#!/bin/sh\n: >/tmp/ran/program\n")
    os.chmod(path, 0o755)
for path in ("/workspace/pyvenv.cfg", "/home/box/pyvenv.cfg", "/workspace/python311._pth"):
    with open(path, "w") as f:
        f.write("home = /workspace\ninclude-system-site-packages = false\n")
os.symlink("/proc/self/mem", "/workspace/fd")
names = [socket.socket(socket.AF_UNIX) for _ in range(200)]
for n, name in enumerate(names):
    name.bind("\0glovebox-%d" % n)
tell("up")
"""
VARIABLES = {
    "LD_PRELOAD": "/workspace/evil.so", "LD_LIBRARY_PATH": "/workspace", "LD_AUDIT": "/workspace/evil.so", "LD_BIND_NOW": "1",
    "GLIBC_TUNABLES": "glibc.malloc.check=3", "MALLOC_CHECK_": "3", "PYTHONSTARTUP": "/home/box/.pythonrc", "PYTHONHOME": "/workspace",
    "PYTHONINSPECT": "1", "PYTHONUSERBASE": "/home/box/.local", "PYTHONPLATLIBDIR": "/workspace", "PYTHONBREAKPOINT": "sitecustomize.x",
    "PYTHONEXECUTABLE": "/workspace/python3", "PYTHONHASHSEED": "1", "PYTHONMALLOC": "debug", "PYTHONDEVMODE": "1",
    "PYTHONFAULTHANDLER": "1", "PYTHONTRACEMALLOC": "9", "PYTHONWARNINGS": "error", "PYTHONPROFILEIMPORTTIME": "1",
    "IPYTHONDIR": "/home/box/.ipython", "MPLCONFIGDIR": "/home/box/.config/matplotlib", "MATPLOTLIBRC": "/workspace",
    "PATH": "/workspace:/tmp:/usr/bin:/bin",
}
FIRST_CELL = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print(json.dumps({
    "ran": os.listdir("/tmp/ran") if os.path.isdir("/tmp/ran") else [], "environ": dict(os.environ),
    "c": {k: (libc.getenv(k.encode()) or b"").decode() for k in os.environ},
    "flags": list(sys.flags), "prefix": sys.prefix, "executable": sys.executable,
    "foreign": [l.split()[-1] for l in open("/proc/self/maps") if l.split()[-1].startswith(("/workspace", "/tmp", "/home", "/dev/shm"))]}))
"""


def test_what_was_planted_runs_before_nobody(place):
    """Names and variables mean to a thawed kernel what they mean to a cold one: until the first cell runs, nothing."""
    env = {**ENV, **VARIABLES}
    told = []
    for start in ("thawed", "cold"):
        box = place.box()
        box.box.until_exit(hostile(box, PLANT))
        kernel = box.thawed(env=env) if start == "thawed" else box.cold("json")
        told.append(box.shown(box.sent_off(kernel, env=env), FIRST_CELL))
    assert told[0]["ran"] == [] and told[0]["foreign"] == []
    assert told[0]["environ"] == told[0]["c"] == env
    assert told[0] == told[1]


# Zygote without a line: main._settle(), which puts the environment of CONFIG in place of its own.
@pytest.mark.parametrize("before, kept", [("", False), ("main._settle = lambda config: None", True)], ids=["whole", "mutant"])
def test_nothing_of_the_zygotes_environment_is_left(usual, before, kept):
    box = usual.box(usual.image(before="import os; os.environ['OF_THE_ZYGOTE'] = '1'\n" + before))
    kernel = box.kernel(env={"ONLY": "this"})
    told = box.shown(kernel, FIRST_CELL)
    assert ("OF_THE_ZYGOTE" in told["environ"]) == kept
    if not kept:
        assert told["environ"] == told["c"] == {"ONLY": "this"}


FILL = r"""
kind = sys.argv[1]
kept = []


def until_refused(step):
    try:
        while True:
            kept.append(step())
    except OSError:
        pass


def child():
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(1000)
    return pid


def in_flight():
    # Descriptors that nobody has taken yet: the kernel counts them for the user, init's among them.
    a, b = socket.socketpair(socket.AF_UNIX)
    socket.send_fds(a, [b"x"], [0] * 200)
    return a, b


def full(folder):
    with open(f"{folder}/full", "ab", buffering=0) as f:
        return f.write(bytes(1 << 20))


if kind == "processes":
    until_refused(child)
elif kind == "descriptors":
    until_refused(in_flight)
elif kind == "files":
    for folder in ("/workspace", "/tmp", "/home/box", "/var/tmp", "/dev/shm"):
        until_refused(lambda: full(folder))
elif kind == "memory":
    kept = [bytearray(b"x") * (1 << 20) for _ in range(int(sys.argv[2]))]
tell("up")
while not over:
    time.sleep(0.01)
for pid in kept if kind == "processes" else []:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
tell(len(kept))
"""


def told_of_start(box):
    """True: it serves. Else an errno, or how it ended."""
    try:
        job = box.thaw()
        said = box.waits(job)
    except Failed as refused:
        return refused.args[0]
    if said is not True:
        return said
    box.go(job)
    said = box.begins(job)
    if said is True:
        box.end_of(job)
    return said


@pytest.mark.parametrize("kind", ["processes", "descriptors", "files"])
def test_what_the_box_has_is_used_up(usual, kind):
    """Refused, or it works; and it works again afterwards."""
    box, neighbour = usual.box(PROCESSES=20), usual.box()
    job = hostile(box, FILL, kind)
    said = told_of_start(box)
    if kind == "processes":
        assert said == 11, "EAGAIN, and said at once"
    else:
        assert said is True or is_collision(said)
    works(neighbour)
    assert box.asked(job) > 0
    works(box)


def test_a_box_whose_files_are_small(usual):
    """init has to make files for a start, of which the program's limit is none of its business."""
    box = usual.box(FILE=4096)
    limit = "import json, resource; print(json.dumps(resource.getrlimit(resource.RLIMIT_FSIZE)))"
    assert box.run(limit) == box.shown(box.kernel(), limit) == box.shown(box.sent_off(box.cold("json")), limit) == [4096, 4096]


def test_memory_is_used_up(usual):
    """The box has not enough for a kernel. Somebody in it is ended: who filled it, or who starts. Its gate is told."""
    box, neighbour = usual.box(MEMORY=96 << 20, WORKSPACE=1 << 20, SCRATCH=1 << 20, SHM=1 << 20), usual.box()
    job = hostile(box, FILL, "memory", "85")
    for _ in range(5):
        said = told_of_start(box)
        assert said is True or said.flags & NOT_BEGUN, (said.how, said.code)
        works(neighbour)
    box.end_of(job)
    works(box)


# --- the image -----------------------------------------------------------------------------------------------


def descriptors(pid, name):
    """{number: flags} of those of a process that are this memory file."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == f"/memfd:{name} (deleted)":
                info = pathlib.Path(f"/proc/{pid}/fdinfo/{fd}").read_text()
                found[int(fd)] = int(info.split("flags:")[1].split()[0], 8)
    return found


# Mutants image-seal, image-mode, image-read-only: each fails here at its line.
def test_nobody_can_change_an_image(place):
    """Not even the host's root, for whom modes mean nothing."""
    image = place.image()
    init = place.init_of(place.box(image))
    (number, flags), = descriptors(init, "image").items()
    assert flags & os.O_ACCMODE == os.O_RDONLY, "image-read-only"
    path = f"/proc/{init}/fd/{number}"
    assert os.stat(path).st_mode & 0o777 == 0o400, "image-mode: who comes upon it may not open it again"
    before = hashlib.sha256(pathlib.Path(path).read_bytes()).digest()
    fd = os.open(path, os.O_RDWR)
    try:
        size = os.fstat(fd).st_size
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) & seals == seals, "image-seal"
        for attempt in (lambda: os.pwrite(fd, b"x", 0), lambda: os.pwrite(fd, b"x", size), lambda: os.ftruncate(fd, size - 1),
                        lambda: os.ftruncate(fd, size + 1), lambda: os.posix_fallocate(fd, size, 4096),
                        lambda: mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
                        lambda: fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0)):
            with pytest.raises(OSError):
                attempt()
    finally:
        os.close(fd)
    assert hashlib.sha256(pathlib.Path(path).read_bytes()).digest() == before


def test_an_image_that_is_not_complete_is_nobodys(usual):
    """While it is written to there is no box from it; once it is sealed nobody gets it to write to."""
    number = struct.unpack("<I", usual.keeper.call("IMAGE_NEW", text("half"))[0])[0]
    try:
        with pytest.raises(Failed):
            usual.box(number)
        zygote = usual.keeper.new_box(flags=FREEZES, image=number)
        with pytest.raises(Failed):
            usual.keeper.new_box(flags=FREEZES, image=number)
        with pytest.raises(Failed):
            usual.keeper.call("IMAGE_SEAL", struct.pack("<IQ", number, 0))
        zygote.end()
        usual.keeper.call("IMAGE_SEAL", struct.pack("<IQ", number, 0))
        with pytest.raises(Failed):
            usual.keeper.new_box(flags=FREEZES, image=number)
        box = usual.box(number)
        said = box.waits(box.thaw())
        assert (said.how, said.code, said.flags) == (EXITED, 90, NOT_BEGUN), "an empty one: it cannot be read"
    finally:
        usual.drop(number)


KIT_OF_A_JOB = """
import fcntl, json, os, sys
fds = sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n))
print(json.dumps({"fds": fds, "inode": [os.fstat(6).st_dev, os.fstat(6).st_ino], "seals": fcntl.fcntl(6, fcntl.F_GET_SEALS),
                  "to write": os.access("/proc/self/fd/6", os.W_OK)}), flush=True)
fcntl.flock(6, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(os.open("/proc/self/fd/6", os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
print(json.dumps("locked"), flush=True)
sys.stdin.read()
"""


# Mutant kit-apart: a job that does not freeze has the image and freeze too.
def test_the_kit_of_a_cold_start(place):
    """The archive, of which each box has a copy: what a program does to its file is not seen in another box."""
    inodes = []
    for _ in range(2):
        box = place.box()
        job = box.start(PYTHON, "-I", "-B", "-c", KIT_OF_A_JOB, flags=KIT | STDIN)
        told = box.told(job)
        assert told["fds"] == [0, 1, 2, 6] and told["seals"] & 15 == 15
        assert told["to write"] is False or place.name == "one id"
        assert box.told(job) == "locked"
        inodes.append(tuple(told["inode"]))
    assert inodes[0] != inodes[1]


OWN_PROGRAM = r"""
import fcntl, json, os
there = os.stat("/proc/self/exe")
tried = {}
for name, attempt in {
    "read": lambda: os.open("/proc/self/exe", os.O_RDONLY), "write": lambda: os.open("/proc/self/exe", os.O_RDWR),
    "times": lambda: os.utime("/proc/self/exe"), "attribute": lambda: os.setxattr("/proc/self/exe", "user.x", b"y"),
    "cut": lambda: os.truncate("/proc/self/exe", 0), "link": lambda: os.link("/proc/self/exe", "/tmp/exe"),
}.items():
    try:
        attempt()
        tried[name] = "done"
    except OSError as e:
        tried[name] = e.strerror
print(json.dumps({"inode": [there.st_dev, there.st_ino], "mode": there.st_mode & 0o7777, "tried": tried}))
"""


def test_the_program_that_thawed_is_the_boxes_own(place):
    """/proc/self/exe: no file that another box has, so neither its locks nor its times tell anything."""
    told = []
    for _ in range(2):
        box = place.box()
        told.append(box.shown(box.kernel(), OWN_PROGRAM))
        # Who is its owner may touch it. That is one box's business.
        mine = place.name in ("box root", "rootless root", "one id")
        gained = {name for name, what in told[-1]["tried"].items() if what == "done"}
        assert gained <= ({"times", "attribute"} if mine else set()), told[-1]
        assert told[-1]["mode"] == 0o111
        works(box)
    assert told[0]["inode"] != told[1]["inode"]


def test_starts_next_door_cannot_be_counted(usual):
    """The time of the last start anywhere used to be the time of last access of a file that all boxes had."""
    box = usual.box()
    kernel = box.kernel()
    look = "import json, os; st = os.stat('/proc/self/exe'); print(json.dumps([st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns]))"
    before = box.shown(kernel, look)
    for _ in range(3):
        time.sleep(0.02)  # more than what times are rounded to
        works(usual.box())
    assert box.shown(kernel, look) == before


# --- after: nothing random in common ---------------------------------------------------------------------------

# As libraries do that are used while they are imported.
LIBRARY = r"""
import multiprocessing, numpy, random, sqlite3, ssl, tempfile, types, uuid
library = sys.modules["library"] = types.ModuleType("library")
library.random, library.chosen = random.Random(), numpy.random.default_rng(42)
library.generator, library.state = numpy.random.default_rng(), numpy.random.RandomState()
library.philox = numpy.random.Generator(numpy.random.Philox())
library.database = sqlite3.connect(":memory:")
library.database.execute("select random()").fetchall()
ssl.RAND_bytes(8), numpy.random.rand(), random.random(), tempfile.mktemp(), multiprocessing.current_process().authkey
"""
NUMBERS = r"""
import ctypes, json, library, multiprocessing, numpy, os, random, secrets, sqlite3, ssl, tempfile, uuid
thread = ctypes.pythonapi.PyThread_get_thread_ident
thread.restype = ctypes.c_ulong
print(json.dumps({
    "random": random.random(), "system": random.SystemRandom().random(), "secrets": secrets.token_hex(), "urandom": os.urandom(8).hex(),
    "uuid1": uuid.uuid1().hex, "uuid4": uuid.uuid4().hex, "tempfile": tempfile.mktemp(), "mkstemp": tempfile.mkstemp()[1],
    "openssl": ssl.RAND_bytes(16).hex(),
    "numpy": numpy.random.rand(), "numpy generator": numpy.random.default_rng().random(),
    "authkey": multiprocessing.current_process().authkey.hex(), "library random": library.random.random(),
    "library generator": library.generator.random(), "library state": library.state.rand(), "library philox": library.philox.random(),
    "library database": library.database.execute("select random()").fetchall()[0][0],
    "database": sqlite3.connect(":memory:").execute("select hex(randomblob(16))").fetchall()[0][0],
    "library chosen": library.chosen.random(), "hash": hash("glovebox"), "address": id(library), "pid": os.getpid(),
    "stack protector": ctypes.c_ulong.from_address(thread() + 0x28).value,
    "pointer guard": ctypes.c_ulong.from_address(thread() + 0x30).value}))
"""
MODULES = ("numpy", "ssl", "sqlite3", "multiprocessing")
# The same in all boxes of an image: SECURITY.md says so.
SHARED = {"library chosen", "hash", "address", "stack protector", "pointer guard"}
GENERATORS = {"library random", "library generator", "library state", "library philox"}
# What a zygote lacks, and what is the same then.
LACKS = {
    "nothing": ("", set()),
    "openssl": ("del fresh.FIRST_STEPS['ssl']", {"openssl"}),
    "numpy": ("del fresh.FIRST_STEPS['numpy.random']; fresh._is_drawn = lambda g: False",
              {"numpy"} | GENERATORS - {"library random"}),
    "sqlite": ("del fresh.FIRST_STEPS['_sqlite3']", {"database", "library database"}),
    "multiprocessing": ("del fresh.FIRST_STEPS['multiprocessing.process']", {"authkey"}),
    "generators": ("fresh.remember = fresh.renew", GENERATORS),
    # Its names come from such a generator, too.
    "tempfile": ("fresh.remember = fresh.renew; del fresh.FIRST_STEPS['tempfile']", {"tempfile", "mkstemp"} | GENERATORS),
}


def alike(usual, image, numbers):
    """What is the same in at least two of four boxes. All have the zygote's pid: who takes another one for a sign of a fork sees none."""
    rows = []
    try:
        while len(rows) < 4:
            box = usual.box(image)
            rows.append(numbers(box))
            box.end()
            if rows[-1].pop("pid") != 2:
                rows.pop()  # the first one collided
    finally:
        usual.drop(image)
    return {name for name in rows[0] if len({row[name] for row in rows}) < len(rows)}


@pytest.mark.parametrize("lacks", LACKS)
def test_two_kernels_have_nothing_random_in_common(usual, lacks):
    before, expected = LACKS[lacks]
    image = usual.image(modules=MODULES, before=LIBRARY + before)
    assert alike(usual, image, lambda box: box.shown(box.kernel(), NUMBERS)) == SHARED | expected


def test_two_programs_have_nothing_random_in_common(usual):
    image = usual.image("program", MODULES, LIBRARY)
    assert alike(usual, image, lambda box: program(box, NUMBERS)) == SHARED


def test_another_image_has_other_secrets(usual):
    rows = []
    for _ in range(2):
        image = usual.make_image("kernel", MODULES, LIBRARY)
        box = usual.box(image)
        rows.append(box.shown(box.kernel(), NUMBERS))
        usual.drop(image)
    assert {name for name in rows[0] if rows[0][name] == rows[1][name]} <= {"library chosen", "pid"}


def program(box, code):
    """What a thawed program prints, as JSON."""
    for _ in range(5):
        job = box.thaw(flags=THAW)
        said = box.waits(job)
        if said is True:
            break
        assert is_collision(said)
    box.box.go(job, json.dumps({"env": [f"{k}={v}" for k, v in ENV.items()], "cwd": "/workspace", "argv": [PYTHON, "/workspace/p.py"],
                                "source": code}).encode())
    out, err, end = box.box.until_exit(job)
    assert (end.how, end.code) == (EXITED, 0), (out, err)
    return json.loads(out)


# --- after: the posture of a cold start ------------------------------------------------------------------------

# Beside what posture.json speaks of.
MORE = r"""
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)


def ask(number, *args):
    r = libc.syscall(number, *args)
    return r if r >= 0 else -ctypes.get_errno()


def to_write(path):
    try:
        os.close(os.open(path, os.O_WRONLY))
        return "opened"
    except OSError as e:
        return e.strerror


def text(path):
    try:
        return open(path).read()
    except OSError as e:
        return e.strerror


lines = dict(line.split(":", 1) for line in text("/proc/self/status").splitlines())
more = {
    "status": {k: v.strip() for k, v in lines.items() if not k.startswith(("Vm", "Rss", "Huge", "NS")) and
               k not in ("Pid", "Tgid", "Ngid", "PPid", "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches", "FDSize")},
    "prctl": {n: libc.prctl(n, 0, 0, 0, 0) for n in (3, 7, 27, 30, 37, 39, 42, 66)},
    "parent's death": [libc.prctl(2, ctypes.byref(word := ctypes.c_int(99)), 0, 0, 0), word.value],
    "io priority": ask(252, 1, 0), "affinity": sorted(os.sched_getaffinity(0)), "keyring": ask(250, 0, -3, 0),
    "files": {n: text("/proc/self/" + n)
              for n in ("coredump_filter", "cgroup", "loginuid", "sessionid", "oom_score_adj", "timers", "setgroups")},
    "to write": {n: to_write("/proc/self/" + n) for n in ("comm", "mem", "oom_score_adj", "clear_refs", "uid_map", "coredump_filter")},
    "refused": {n: ask(n, 0, 0, 0, 0, 0, 0) for n in (101, 165, 272, 308, 310, 311, 321, 323, 425, 438)},
    "timers": [ask(36, n, ctypes.byref((ctypes.c_long * 4)())) for n in range(3)],
}
"""


@pytest.mark.parametrize("kind", ["kernel", "program"])
def test_the_posture_of_a_cold_start(place, kind):
    """Of the first line of user code, in everything that a process can ask about itself."""
    code = posture.program("/dev/null") + MORE + "report.update(more)\nprint(json.dumps(report))\n"
    reports = []
    for start in ("thawed", "cold"):
        box = place.box(place.image(kind))
        if kind == "kernel":
            report = box.shown(box.kernel() if start == "thawed" else box.sent_off(box.cold("json")), code)
        elif start == "thawed":
            report = program(box, code)
        else:
            box.box.until_exit(box.python("import sys; open('/workspace/p.py', 'w').write(sys.argv[1])", code))
            out, err, end = box.box.until_exit(box.start(PYTHON, "/workspace/p.py"))
            assert end.code == 0, err
            report = json.loads(out)
        report["namespaces"] = posture.own_or_hosts(report["namespaces"])
        reports.append(report)
    assert reports[0]["dumpable"] == 1 and reports[0]["seccomp"] == "2" and reports[0]["no_new_privs"] == "1"
    assert reports[0] == reports[1]


# --- other boxes ---------------------------------------------------------------------------------------------

SCRIBBLE = r"""
import ctypes, json, mmap, os, re
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
mapped = [(int(a, 16), int(b, 16), p) for a, b, p in re.findall(r"^(\w+)-(\w+) (\S+) .*/memfd:image", open("/proc/self/maps").read(), re.M)]
before = len(mapped)
opened = []
for start, end, _ in mapped:
    try:
        opened.append(os.open("/proc/self/map_files/%x-%x" % (start, end), os.O_RDWR))
    except OSError:
        pass
for start, end, _ in mapped:
    for advice in (9, 21, 20, 14, 25, 8):  # REMOVE, PAGEOUT, COLD, HUGEPAGE, COLLAPSE, FREE: of the file behind it, if that were possible
        libc.madvise(start, end - start, advice)
    libc.msync(start, end - start, 4)
if os.fork() == 0:
    # What follows is not survived for long.
    for start, end, _ in reversed(mapped):
        if libc.mprotect(start, end - start, 3) == 0:
            ctypes.memset(start, 0x41, end - start)
            libc.msync(start, end - start, 4)
    os._exit(0)
os.wait()
print(json.dumps([before, opened]))
"""


def test_memory_from_the_image_is_ones_own(place):
    """A box that writes over all of it, and wants it given back or away, changes nothing for the next."""
    image = place.image()
    box = place.box(image)
    init = place.init_of(box)
    (number, _), = descriptors(init, "image").items()
    path = pathlib.Path(f"/proc/{init}/fd/{number}")
    before = hashlib.sha256(path.read_bytes()).digest()
    neighbour = place.box(image)
    there = neighbour.kernel()
    mappings, opened = box.shown(box.kernel(), SCRIBBLE)
    assert mappings > 10 and opened == []
    assert hashlib.sha256(path.read_bytes()).digest() == before
    neighbour.works(there)
    works(neighbour)
    works(place.box(image))


FUTEX = r"""
import ctypes, json, re, time
libc = ctypes.CDLL(None, use_errno=True)
at = int(re.search(r"^(\w+)-\w+ r-\S+ .*PLACE", open("/proc/self/maps").read(), re.M)[1], 16)
value = ctypes.c_uint32.from_address(at).value
"""
FUTEX_WAIT = FUTEX + "print('true', flush=True)\nlibc.syscall(202, ctypes.c_void_p(at), 0, value, None, None, 0)\n"
# As often as it takes until the other one waits.
FUTEX_WAKE = FUTEX + r"""
for _ in range(50):
    woken = libc.syscall(202, ctypes.c_void_p(at), 1, 100, None, None, 0)
    if woken:
        break
    time.sleep(0.02)
print(json.dumps(woken))
"""


@pytest.mark.xfail(strict=True, raises=AssertionError,
                   reason="a futex on a page that boxes share, of the image or of a file in /usr, is one futex in all of them")
@pytest.mark.parametrize("where", ["memfd:image", "libc.so"])
def test_pages_that_boxes_share_carry_no_word(usual, where):
    """Known and not closed: programs need futexes on shared memory, and the filter does not see on which."""
    box, other = usual.box(), usual.box()
    wait, wake = (code.replace("PLACE", where) for code in (FUTEX_WAIT, FUTEX_WAKE))
    if where == "memfd:image":
        kernel, there = box.kernel(), other.kernel()
        assert box.box.wait_for(box.begin_cell(kernel, wait), "OUTPUT").body == b"true\n"
        heard = other.shown(there, wake)
    else:
        assert box.told(box.python(wait)) is True
        heard = other.run(wake)
    assert heard == 0


# --- by the server -------------------------------------------------------------------------------------------


def images_of(server):
    """What the keeper has, as bytes."""
    keeper = server.pid_of("keeper")
    return [pathlib.Path(f"/proc/{keeper}/fd/{fd}").read_bytes() for fd in descriptors(keeper, "image")]


def test_an_image_has_no_secret(glovebox, tmp_path):
    """Nothing of the server, of who started it, or of this machine but what every box sees."""
    token, variable = "a-token-of-the-tests-" + os.urandom(8).hex(), "a-variable-of-the-tests-" + os.urandom(8).hex()
    with Server(tmp_path, **WARM, env={"GLOVEBOX_TOKEN": token, "SOMETHING_OF_THE_SERVER": variable}) as server:
        images = images_of(server)
        assert len(images) == 3 and all(len(image) > 1 << 20 for image in images)
        secrets = {
            "token": token.encode(), "hash of the token": hashlib.sha256(token.encode()).digest(), "variable": variable.encode(),
            "name of the variable": b"SOMETHING_OF_THE_SERVER", "directory": bytes(tmp_path), "program": bytes(glovebox),
            "port": b"127.0.0.1:%d" % server.port, "boot": pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes().strip(),
            "home": os.fsencode(os.path.expanduser("~/")), "source": bytes(pathlib.Path(__file__).resolve().parents[2]),
        }
        for name, secret in secrets.items():
            assert [secret in image for image in images] == [False] * 3, name
        assert all(b"/home/box" in image for image in images), "one of a box is found, so that the others would be"


HARM = r"""
import fcntl, os, signal
SCRIBBLE
for attempt in (lambda: os.chmod("/proc/self/exe", 0), lambda: os.utime("/proc/self/exe"), lambda: os.truncate("/proc/self/exe", 0),
                lambda: os.setxattr("/proc/self/exe", "user.x", b"y"), lambda: fcntl.flock(os.open("/proc/self/exe", os.O_RDONLY), 2),
                lambda: os.kill(1, signal.SIGKILL), lambda: os.kill(-1, signal.SIGSTOP)):
    try:
        attempt()
    except OSError:
        pass
"""


def test_programs_from_one_image_do_not_harm_each_other(glovebox, tmp_path):
    """What somebody does to memory, program and init of a thawed box is nothing to who comes next, from the pool or not."""
    with Server(tmp_path, **POOLED) as server:
        before = [hashlib.sha256(image).digest() for image in images_of(server)]
        numbers = set()
        for _ in range(4):
            answer = server.execute(HARM.replace("SCRIBBLE", SCRIBBLE), timeout_ms=20000)
            assert answer["exit_code"] == 0, answer
            answer = server.execute("import random, sys; print('json' in sys.modules, random.random())", timeout_ms=20000)
            warm, number = answer["stdout"].split()
            assert warm == "True"
            numbers.add(number)
        assert len(numbers) == 4
        assert [hashlib.sha256(image).digest() for image in images_of(server)] == before
        failed = re.findall("event=thaw_failed .*", server.log())
        assert [line for line in failed if f"code={THAW_COLLIDES}" not in line] == []
