# SPDX-License-Identifier: Apache-2.0
"""Programs that take all they can get: processes, memory of every kind, files, kernel objects, output.

Each attack is real and runs beside a neighbour box that must go on answering. The attacker gets an error of
its own kernel limit, is out of memory inside its own box, or runs into its time; nothing else happens.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import select
import signal
import subprocess
import threading
import time

import pytest

pytestmark = [pytest.mark.limits, pytest.mark.more]

MIB = 1 << 20
SMALL = ("--workspace", "1M", "--workspace-inodes", "64", "--scratch", "1M", "--shm", "64K")


def host_value(path):
    return pathlib.Path(path).read_text(encoding="ascii")


# --- processes -----------------------------------------------------------------------------------------------

PROCESS_ATTACKS = {
    "fork bomb in sh": (("--shell",), "bomb() { bomb | bomb & }; bomb 2>/dev/null; while :; do :; done"),
    "fork bomb in Python": ((), "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"),
    "double fork": ((), """
import os
while True:
    try:
        if os.fork() == 0:
            if os.fork():
                os._exit(0)
            os.setsid()
    except OSError:
        pass
"""),
    "stopped children": ((), """
import os, signal
while True:
    try:
        if os.fork() == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
    except OSError:
        pass
"""),
    "vfork and stop": ((), """
import os, subprocess
while True:
    try:
        subprocess.Popen(["/bin/sh", "-c", "kill -STOP $$"])  # uses vfork
    except OSError:
        pass
"""),
    "exec loop": ((), """
import os, sys
try:
    os.fork()
    os.fork()
except OSError:
    pass
os.execv(sys.executable, [sys.executable, sys.argv[0]])
"""),
    "dying and reborn": ((), """
import os
while True:
    try:
        if os.fork():
            os._exit(0) if os.getppid() == 1 and os.getpid() != LEADER else None
    except OSError:
        pass
""".replace("LEADER", "3")),
    "kill everything": ((), """
import os, time
for _ in range(10):
    try:
        if os.fork() == 0:
            os.setsid(); time.sleep(100)
    except OSError:
        pass
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for sig in (15, 1, 18, 10, 12):
    try: os.kill(-1, sig)
    except OSError: pass
time.sleep(100)
"""),
    "spinning threads": ((), """
import threading
def spin():
    while True: pass
while True:
    try: threading.Thread(target=spin).start()
    except RuntimeError: pass
"""),
}


@pytest.mark.parametrize("options, code", PROCESS_ATTACKS.values(), ids=PROCESS_ATTACKS.keys())
def test_processes(box_json, neighbour, options, code):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        attack = pool.submit(box_json, code, *options, "--processes", "64", "--timeout", "1", *SMALL)
        while not attack.done():
            neighbour.ask()
            time.sleep(0.05)
    r = attack.result()
    assert r["timed_out"] is True or r["signal"] in ("SIGHUP", "SIGUSR1") or r["oom"], r
    assert r["status"] in (124, 129, 137, 138)


def test_zombie_flood(box_json):
    """Orphans come to the box's init, which collects them: the process limit is not used up by the dead."""
    r = box_json("""
import os, time
for i in range(600):
    while True:
        try:
            pid = os.fork()
            break
        except BlockingIOError:
            time.sleep(0.001)
    if pid == 0:
        try:
            if os.fork() == 0:
                os._exit(0)
        except BlockingIOError:
            pass
        os._exit(0)
    os.waitpid(pid, 0)
time.sleep(0.2)
states = []
for name in os.listdir("/proc"):
    if name.isdigit():
        try:
            states.append(open(f"/proc/{name}/stat").read().rsplit(")", 1)[1].split()[0])
        except OSError:
            pass
print(states.count("Z"), len(states))
""", "--processes", "16")
    assert r["stdout"] == "0 2\n", r["stderr"]


def test_own_zombies_count_and_go(box_json):
    r = box_json("""
import errno, os
n = 0
try:
    while True:
        if os.fork() == 0:
            os._exit(0)
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
""", "--processes", "40")
    assert r["stdout"] == "EAGAIN 39\n" and r["exit_code"] == 0


# --- memory --------------------------------------------------------------------------------------------------

# Each takes memory of one kind until something stops it; "end" means that a limit gave it an error.
MEMORY_ATTACKS = {
    "page tables": """
import mmap
maps = []
try:
    while True:  # one page of every 2 MiB: the tables cost as much as the pages
        m = mmap.mmap(-1, 1 << 30)
        for at in range(0, 1 << 30, 2 << 20):
            m[at] = 1
        maps.append(m)
except OSError:
    print("end")
""",
    "pipe buffers": """
import fcntl, os
fds = []
try:
    while True:
        r, w = os.pipe()
        fds += [r, w]
        try: fcntl.fcntl(w, 1031, 1 << 20)
        except OSError: pass
        os.set_blocking(w, False)
        try:
            while True: os.write(w, b"x" * 65536)
        except BlockingIOError: pass
except OSError:
    print("end")
""",
    "socket buffers": """
import socket
keep = []
try:
    while True:
        a, b = socket.socketpair()
        keep += [a, b]
        for s in (a, b):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
            s.setblocking(False)
            try:
                while True: s.send(b"x" * 65536)
            except BlockingIOError: pass
except OSError:
    print("end")
""",
    "UDP to itself": """
import socket
keep = []
try:
    while True:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
        s.bind(("127.0.0.1", 0))
        s.setblocking(False)
        keep.append(s)
        for _ in range(300):
            s.sendto(b"x" * 1000, s.getsockname())
except OSError:
    print("end")
""",
    "memfd": """
import os
keep = []
try:
    while True:
        fd = os.memfd_create("x")
        keep.append(fd)
        for _ in range(16): os.write(fd, b"x" * (1 << 20))
except OSError:
    print("end")
""",
    "System V shared memory": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
n = 0
while True:
    id = libc.shmget(0, 16 << 20, 0o1600)
    if id < 0:
        print("end"); break
    at = libc.shmat(id, None, 0)
    if at in (None, ctypes.c_void_p(-1).value):
        print("end"); break
    ctypes.memset(at, 1, 16 << 20)
""",
    "System V queues": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
buf = ctypes.create_string_buffer(8 + 8192)
buf[0] = 1
while True:
    q = libc.msgget(0, 0o1600)
    if q < 0:
        print("end"); break
    while libc.msgsnd(q, buf, 8192, 0o4000) == 0:
        pass
""",
    "System V semaphores": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
while libc.semget(0, 32000, 0o1600) >= 0:
    pass
print("end")
""",
    "dentries that are not there": """
import os
for i in range(100000):
    os.path.exists(f"/workspace/{i:0200d}")
print("end")
""",
    "epoll": """
import select
keep = []
try:
    while True:
        keep.append(select.epoll())
        for fd in range(max(0, len(keep) - 30), len(keep) - 1):
            try: keep[-1].register(keep[fd].fileno())
            except OSError: pass
except OSError:
    print("end")
""",
    "timers": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
sev = (ctypes.c_char * 64)()
ctypes.cast(sev, ctypes.POINTER(ctypes.c_int))[3] = 1  # SIGEV_NONE
id = ctypes.c_int()
n = 0
while n < 200000 and libc.syscall(222, 1, sev, ctypes.byref(id)) == 0:
    n += 1
print("end")
""",
    "timerfd": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
while libc.timerfd_create(1, 0) >= 0: pass
print("end")
""",
    "file locks": """
import fcntl, os, struct
fd = os.open("f", os.O_CREAT | os.O_RDWR)
try:
    for i in range(10000):
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, i * 2)
except OSError:
    pass
print("end")
""",
    "many mappings": """
import mmap
keep = []
try:
    while True: keep.append(mmap.mmap(-1, 4096, prot=mmap.PROT_READ if len(keep) % 2 else mmap.PROT_WRITE))
except OSError:
    print("end")
""",
    "locked memory": """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
m = mmap.mmap(-1, 1 << 20)
at = ctypes.addressof(ctypes.c_char.from_buffer(m))
print("locked" if libc.mlock(ctypes.c_void_p(at), 1 << 20) == 0 else "end")
""",
    "huge pages": """
import mmap
try:
    m = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
    m[0] = 1
    print("huge")
except OSError:
    print("end")
""",
    "keyrings": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 100000 and libc.syscall(248, b"user", b"key%d" % n, b"x" * 30000, 30000, -2) >= 0:
    n += 1
print("end")
""",
    "abstract sockets": """
import socket
keep = []
try:
    for i in range(100000):
        s = socket.socket(socket.AF_UNIX); s.bind(b"\\0%d" % i); keep.append(s)
except OSError:
    print("end")
""",
    "pending signals": """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 100000 and libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(0)) == 0:
    n += 1
print("end" if n <= 256 else n)
""",
    "descriptors in flight": """
import array, os, socket
keep = []
try:
    while True:
        a, b = socket.socketpair()
        b.setblocking(False); a.setblocking(False)
        keep.append((a, b))
        fds = [os.open("/dev/null", 0) for _ in range(100)]
        try:
            while True: a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        except BlockingIOError: pass
        for fd in fds: os.close(fd)
except OSError as e:
    print("end")
""",
}


@pytest.mark.parametrize("code", MEMORY_ATTACKS.values(), ids=MEMORY_ATTACKS.keys())
def test_memory(box_json, neighbour, code):
    """Out of memory in this box alone, or a limit before that: never more than the box may have."""
    r = box_json(code, "--memory", "48M", "--timeout", "20", *SMALL)
    neighbour.ask()
    assert r["error"] is None, r["error"]
    assert r["oom"] or (r["exit_code"] == 0 and r["stdout"] == "end\n"), r
    assert r["figures"]["peak_memory_bytes"] <= 52 * MIB


def test_memory_of_many_children(box_json, neighbour):
    """Every process that the kernel ends is replaced: the box lives on, at its limit, until its time is over."""
    r = box_json("""
import os
def eat():
    keep = []
    while True: keep.append(bytearray(b"x") * (1 << 20))
while True:
    try:
        if os.fork() == 0:
            eat()
        os.waitpid(-1, os.WNOHANG)
    except OSError:
        pass
""", "--memory", "64M", "--timeout", "2", "--processes", "20", *SMALL)
    neighbour.ask()
    assert r["timed_out"] or r["oom"]


def test_peers_memory_is_not_taken(box_json, start):
    """Two boxes at their limits at once: each has all of its own."""
    code = "b = bytearray(b'x') * (200 << 20); print(len(b))"
    others = [start("run", "--memory", "256M", "-c", code) for _ in range(4)]
    assert box_json("b = []\nwhile True: b.append(bytearray(b'x') * (1 << 20))", "--memory", "64M", *SMALL)["oom"]
    for p in others:
        assert p.stdout.read() == b"%d\n" % (200 * MIB) and p.wait(60) == 0


# --- files ---------------------------------------------------------------------------------------------------

FILE_ATTACKS = {
    "empty files": """
import os
n = 0
try:
    while True:
        os.close(os.open(f"f{n}", os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "long names": """
import os
n = 0
try:
    while True:
        os.close(os.open(f"{n:0255d}", os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "directories": """
import os
n = 0
try:
    while True: os.mkdir(f"d{n}"); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "deep directories": """
import os
n = 0
try:
    while True: os.mkdir("d" * 255); os.chdir("d" * 255); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "hard links": """
import os
open("f", "w").close()
n = 0
try:
    while True: os.link("f", f"l{n}"); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "symbolic links": """
import os
n = 0
try:
    while True: os.symlink("x" * 4000, f"s{n}"); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "pipes and sockets": """
import os, socket
n = 0
try:
    while True:
        os.mkfifo(f"p{n}"); n += 1
except OSError as e:
    print(e.errno, n)
""",
    "deleted while open": """
import os
n = 0
try:
    while True:
        fd = os.open("f", os.O_CREAT | os.O_RDWR); os.unlink("f"); n += 1
        for _ in range(16): os.write(fd, b"x" * 65536)
except OSError as e:
    print(e.errno, n)
""",
    "extended attributes": """
import os
open("f", "w").close()
n = 0
try:
    while n < 100000: os.setxattr("f", f"user.a{n}", b"x" * 60000); n += 1
    print("without end")
except OSError as e:
    print(28, n)
""",
}


@pytest.mark.parametrize("place, name", [("/workspace", n) for n in FILE_ATTACKS] +
                         [("/tmp", n) for n in FILE_ATTACKS if n != "deep directories"])  # these have 65536 inodes
def test_files(box_json, place, name):
    """No space left, long before the memory of the box is gone."""
    inodes = 3000 if name == "deep directories" else 20000
    r = box_json(f"import os; os.chdir({place!r})\n" + FILE_ATTACKS[name], "--workspace", "8M",
                 "--workspace-inodes", inodes, "--scratch", "8M", "--timeout", "50")
    assert r["oom"] is False and r["exit_code"] == 0, r["stderr"]
    error, n = map(int, r["stdout"].split())
    assert error in (28, 24, 12), "ENOSPC, or EMFILE where descriptors are the first to run out"
    assert n <= 70000


@pytest.mark.slow
@pytest.mark.parametrize("levels", [20_000])
def test_very_deep_directories(box_json, tmp_path, levels):
    """Deeper than any path is long: the box ends, and collecting gives up on it in words.

    Every step checks all directories above (Landlock), so that the number of levels is a matter of the square.
    """
    r = box_json(f"""
import os
open("top", "w").write("x")
for i in range({levels}):
    os.mkdir("d"); os.chdir("d")
print("end")
""", "--out", tmp_path / "out", "--workspace-inodes", "200000", "--timeout", "100")
    assert r["stdout"] == "end\n" and r["exit_code"] == 0 and r["files"] == ["top"]


@pytest.mark.slow
def test_a_quarter_million_files_to_collect(run, tmp_path):
    """As many as the default allows: collected, or refused in words; not for ever."""
    r = run("run", "--out", tmp_path / "out", "--timeout", "100", "-c", """
import os
try:
    for i in range(300000): os.close(os.open(f"f{i}", os.O_CREAT | os.O_WRONLY))
except OSError as e:
    print(e.errno)
""", timeout=600)
    assert r.stdout == b"28\n" and r.returncode in (0, 125)
    if r.returncode == 125:
        assert r.stderr.startswith(b"glovebox: ") and len(r.stderr.splitlines()) <= 2


# --- things that the kernel counts per user ------------------------------------------------------------------

TAKE_INOTIFY = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 100000 and libc.inotify_init1(0) >= 0:
    n += 1
"""
TAKE_MQUEUE = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
n = 0
while n < 100000:
    if libc.syscall(240, b"q%d" % n, 0o102, 0o600, None) < 0:
        break
    n += 1
"""
TAKE_SIGNALS = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
n = 0
while n < 100000 and libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(0)) == 0:
    n += 1
"""
TAKE_TIMERS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
id = ctypes.c_int()
n = 0
while n < 100000 and libc.syscall(222, 1, None, ctypes.byref(id)) == 0:
    n += 1
"""
TAKE_PROCESSES = """
import os, time
n = 0
try:
    while n < 100000:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError:
    pass
"""
TAKE_PIPES = """
import fcntl, os
n = 0
try:
    while True:
        r, w = os.pipe()
        fcntl.fcntl(w, 1031, 1 << 20)
        n += 1
except OSError:
    pass
"""
TAKE_PTYS = """
import os
n = 0
try:
    while True:
        os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        n += 1
except OSError:
    pass
"""
TAKE_PORTS = """
import socket
n = 0
keep = []
try:
    while True:
        s = socket.socket(); s.bind(("127.0.0.1", 0)); keep.append(s); n += 1
except OSError:
    pass
"""


@pytest.mark.parametrize("code", [TAKE_INOTIFY, TAKE_MQUEUE, TAKE_SIGNALS, TAKE_TIMERS, TAKE_PROCESSES, TAKE_PIPES,
                                  TAKE_PTYS, TAKE_PORTS],
                         ids=["inotify", "message queues", "pending signals", "timers", "processes", "pipe pages",
                              "terminals", "ports"])
def test_what_one_box_takes_another_still_has(start, code):
    """Several at once, each holding all that it got: the last gets as much as the first."""
    counts, boxes = [], []
    for _ in range(4):
        p = start("run", "--stdin", "--processes", "64", "-c", code + "\nprint(n, flush=True)\ninput()\n")
        assert select.select([p.stdout], [], [], 60)[0], "no answer"
        line = p.stdout.readline()
        assert line, p.stderr.read()
        counts.append(int(line))
        boxes.append(p)
    assert len(set(counts)) == 1, counts
    assert counts[0] < 100000
    for p in boxes:
        p.stdin.close()
        assert p.wait(60) in (0, 1)


def test_the_host_keeps_its_own(start):
    """After four boxes took what they could, the host's user still gets inotify instances and queues."""
    boxes = []
    for code in (TAKE_INOTIFY, TAKE_MQUEUE, TAKE_PTYS, TAKE_SIGNALS):
        p = start("run", "--stdin", "-c", code + "\nprint(n, flush=True)\ninput()\n")
        assert p.stdout.readline()
        boxes.append(p)
    for code in (TAKE_INOTIFY.replace("100000", "8"), TAKE_SIGNALS.replace("100000", "8")):
        done = subprocess.run(["/usr/bin/python3", "-c", code + "\nprint(n)"], stdout=subprocess.PIPE, check=True)
        assert done.stdout == b"8\n"
    master, slave = os.openpty()
    os.close(master)
    os.close(slave)


# --- processor -----------------------------------------------------------------------------------------------


def test_spinning_on_all_processors(box_json, neighbour):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        attack = pool.submit(box_json, "import os\nfor _ in range(6): os.fork()\nwhile True: pass",
                             "--timeout", "2", "--cpus", "0.5")
        while not attack.done():
            neighbour.ask()
            time.sleep(0.02)
    r = attack.result()
    assert r["timed_out"] and r["figures"]["cpu_ms"] <= 0.8 * r["figures"]["wall_ms"]


@pytest.mark.parametrize("options", [(), ("--root",)], ids=["user", "root"])
def test_priorities_are_refused(box_json, options):
    r = box_json("""
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, what):
    try:
        what()
        print("allowed", name)
    except OSError as e:
        pass
attempt("nice", lambda: os.nice(-1))
attempt("setpriority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    attempt("policy %d" % policy, lambda: os.sched_setscheduler(0, policy, os.sched_param(1)))
attr = (ctypes.c_uint32 * 14)(56, 6, 0, 0, 0, 0, 10_000_000, 0, 20_000_000, 0, 20_000_000, 0, 0, 0)
def deadline():
    if libc.syscall(314, 0, attr, 0) < 0:
        raise OSError(ctypes.get_errno(), "sched_setattr")
attempt("deadline", deadline)
def ioprio():
    if libc.syscall(251, 1, 0, 1 << 13) < 0:
        raise OSError(ctypes.get_errno(), "ioprio_set")
attempt("real-time I/O", ioprio)
print("end", os.nice(0), os.sched_getscheduler(0))
""", *options)
    assert r["stdout"] == "end 0 0\n"


# --- output --------------------------------------------------------------------------------------------------


def test_endless_output(box_json, neighbour):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        attack = pool.submit(box_json, "import os\nb = b'x' * 65536\nwhile True: os.write(1, b); os.write(2, b)",
                             "--timeout", "1", "--output-limit", "100K")
        while not attack.done():
            neighbour.ask()
            time.sleep(0.02)
    r = attack.result()
    assert r["timed_out"] and r["stdout"] == r["stderr"] == "x" * 102400 and r["truncated"]["stdout"]


@pytest.mark.slow
def test_a_line_of_one_gigabyte(run):
    r = run("run", "--output-limit", "1M", "-c", "import os\nb = b'x' * (1 << 20)\nfor _ in range(1024): os.write(1, b)",
            timeout=300)
    assert r.returncode == 0 and r.stdout == b"x" * MIB and b"1 GiB" in r.stderr


@pytest.mark.slow
def test_a_gigabyte_comes_through(glovebox):
    code = "import os\nb = bytes(range(256)) * 4096\nfor _ in range(1024): os.write(1, b)"
    p = subprocess.Popen([glovebox, "run", "--output-limit", "2G", "-c", code], stdout=subprocess.PIPE)
    total, digest = 0, hashlib.sha256()
    while chunk := p.stdout.read(MIB):
        total += len(chunk)
        digest.update(chunk)
    p.stdout.close()
    wanted = hashlib.sha256()
    for _ in range(1024):
        wanted.update(bytes(range(256)) * 4096)
    assert p.wait(60) == 0 and total == 1 << 30 and digest.digest() == wanted.digest()


@pytest.mark.parametrize("switches", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_switching_between_the_streams_keeps_the_order_of_each(run, switches):
    r = run("run", "--output-limit", "64M", "-c", f"""
import os
for i in range({switches}):
    os.write(1 + i % 2, b"%d\\n" % i)
""", timeout=300)
    assert r.returncode == 0
    assert r.stdout == b"".join(b"%d\n" % i for i in range(0, switches, 2))
    assert r.stderr == b"".join(b"%d\n" % i for i in range(1, switches, 2))


@pytest.mark.parametrize("data", [b"\0" * 100000, b"\xff\xfe" * 50000, b"\xed\xa0\x80\xed\xbf\xbf" * 1000,
                                  b"\x1b]0;title\x07\x1b[2J" * 100, bytes(range(256)) * 400, b"\xf0\x9f\x98" * 999,
                                  b"a\r\nb\rc\n" * 1000, b"\xc3"],
                         ids=["NUL", "no UTF-8", "surrogates", "escapes", "all bytes", "cut character", "line ends",
                              "one half"])
def test_any_bytes(run, tmp_path, data):
    """As they are to a pipe; as some text in JSON, which stays JSON; ASCII in it unharmed."""
    (tmp_path / "data").write_bytes(data)
    code = "import os\nd = open('data', 'rb').read()\nwhile d: d = d[os.write(1, d):]"
    assert run("run", "-f", tmp_path / "data", "-c", code).stdout == data
    r = run("run", "--json", "-f", tmp_path / "data", "-c", code)
    text = json.loads(r.stdout.decode("utf-8"))["stdout"]
    text.encode("utf-8")
    assert len(text) >= len(data) // 4


def test_characters_cut_by_buffers(box_json):
    """A character of several bytes that arrives in pieces is one character in the end."""
    text = "ä漢😀" * 20000
    r = box_json(f"import os\nd = {text!r}.encode()\nwhile d: d = d[os.write(1, d[:1021]):]")
    assert r["stdout"] == text


def test_slow_reader(start, neighbour):
    """Nobody reads: the program waits, our memory does not grow, the box keeps its time limit."""
    p = start("run", "--timeout", "2", "-c", "import os\nwhile True: os.write(1, b'x' * 65536)")
    assert p.stdout.read(1) == b"x"
    end = time.monotonic() + 1
    while time.monotonic() < end:
        neighbour.ask()
        rss = int(host_value(f"/proc/{p.pid}/statm").split()[1]) * 4096
        assert rss < 64 * MIB
        time.sleep(0.1)
    rest = p.stdout.read()
    assert p.wait(30) == 124 and len(rest) > 65536


def test_slow_reader_gets_everything(start):
    p = start("run", "-c", "import os\nfor i in range(100000): print(i)")
    seen = b""
    for _ in range(20):
        seen += os.read(p.stdout.fileno(), 4096)
        time.sleep(0.02)
    seen += p.stdout.read()
    assert p.wait(60) == 0 and seen == b"".join(b"%d\n" % i for i in range(100000))


def test_reader_that_leaves_in_the_middle(start, neighbour):
    for stream in ("stdout", "stderr"):
        p = start("run", "-c", "import os\nwhile True: os.write(1, b'x' * 4096); os.write(2, b'y' * 4096)")
        pipe = getattr(p, stream)
        # From the beginning: one that is not read stops both.
        other = threading.Thread(target=(p.stderr if stream == "stdout" else p.stdout).read)
        other.start()
        assert pipe.read(10000)
        pipe.close()
        other.join()
        assert p.wait(30) == 128 + signal.SIGPIPE
        neighbour.ask()


# --- descriptors and sockets ---------------------------------------------------------------------------------


def test_descriptor_exhaustion(box_json, neighbour):
    """Every process of the box at its limit at once."""
    r = box_json("""
import os, time
for _ in range(20):
    if os.fork() == 0:
        break
n = 0
try:
    while True: os.open("/etc/passwd", os.O_RDONLY); n += 1
except OSError:
    pass
os.write(1, b"%d\\n" % n)
time.sleep(0.5)
""", "--open-files", "4096", "--timeout", "20")
    neighbour.ask()
    assert r["stdout"].split() == ["4093"] * 21


def test_ten_thousand_sockets(box_json, neighbour):
    r = box_json("""
import socket
keep = []
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(5000)
for i in range(5000):
    c = socket.create_connection(server.getsockname())
    keep += [c, server.accept()[0]]
print(len(keep))
""", "--open-files", "12000", "--timeout", "50")
    neighbour.ask()
    assert r["stdout"] == "10000\n", r["stderr"]


# --- many boxes ----------------------------------------------------------------------------------------------


def test_create_and_destroy_storm(run):
    def one(i):
        return run("run", "-c", f"print({i} ** 2)").stdout == b"%d\n" % i ** 2

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        assert all(pool.map(one, range(50)))


def test_boxes_do_not_share_anything_at_the_same_time(start):
    """Ten at once: each sees only its own processes, files, names, ports and queues."""
    code = """
import os, socket
open("/tmp/x", "x"); open("/dev/shm/x", "x"); open("/workspace/x", "x")
s = socket.socket(); s.bind(("127.0.0.1", 7777)); s.listen()
a = socket.socket(socket.AF_UNIX); a.bind(b"\\0name"); a.listen()
pids = [int(n) for n in os.listdir("/proc") if n.isdigit()]
print(len(pids), max(pids) < 10, flush=True)
input()
"""
    boxes = [start("run", "--stdin", "-c", code) for _ in range(10)]
    for p in boxes:
        assert p.stdout.readline() == b"2 True\n"
    uids = set()
    for p in boxes:
        for pid in os.listdir("/proc"):
            if pid.isdigit():
                try:
                    status = host_value(f"/proc/{pid}/status")
                    if f"NSpid:\t{pid}\t" in status and descends_from(int(pid), p.pid):
                        uids.add((p.pid, status.split("Uid:\t")[1].split()[0]))
                except (OSError, UnicodeDecodeError):
                    pass
    assert len({uid for _, uid in uids}) == len(boxes), "a host uid for every box"
    for p in boxes:
        p.stdin.close()
        p.wait(30)


def descends_from(pid, ancestor):
    while pid > 1:
        try:
            pid = int(host_value(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[1])
        except (OSError, UnicodeDecodeError):
            return False
        if pid == ancestor:
            return True
    return False
