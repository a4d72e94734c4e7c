# SPDX-License-Identifier: Apache-2.0
"""What an attack must leave alone: the host, and a box next door that was there before and still is.

`unharmed` wraps a test: it looks at both before and after, and fails when anything differs. `act` runs one
act of hostile.c in a fresh box and returns what it told. `Talk` is a box that answers line by line.
"""
import hashlib
import json
import os
import pathlib
import platform
import select
import subprocess
import time

import pytest

from conftest import program_path

TALK_S = 20
# Settings of the kernel that containers were left by, one way or another.
SETTINGS = """
    /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hotplug /proc/sys/kernel/sysrq
    /proc/sys/kernel/hostname /proc/sys/kernel/domainname /proc/sys/kernel/randomize_va_space
    /proc/sys/kernel/poweroff_cmd /proc/sys/kernel/core_uses_pid /proc/sys/kernel/panic_on_oops
    /proc/sys/fs/suid_dumpable /proc/sys/vm/panic_on_oom /proc/sys/vm/overcommit_memory
    /proc/sys/net/ipv4/ip_forward /proc/sys/user/max_user_namespaces /sys/kernel/uevent_helper
    /proc/sys/kernel/random/boot_id /etc/passwd /etc/hostname /etc/machine-id
""".split()
PROGRAMS = ["/usr/bin/python3", "/bin/bash", "/bin/sh", "/usr/bin/env"]


def text_of(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as e:
        return type(e).__name__


def names_in(path):
    try:
        return sorted(os.listdir(path))
    except OSError as e:
        return type(e).__name__


def identity(path):
    path = os.path.realpath(path)
    st = os.stat(path)
    return st.st_ino, st.st_size, st.st_mtime_ns, st.st_mode, st.st_uid


def host_state(canary):
    program = program_path()
    return {
        **{path: text_of(path) for path in SETTINGS},
        **{path: identity(path) for path in PROGRAMS},
        "program": (identity(program), hashlib.sha256(program.read_bytes()).hexdigest()),
        "canary": (text_of(canary), identity(canary), names_in(canary.parent)),
        "binfmt_misc": names_in("/proc/sys/fs/binfmt_misc"),
        "release agents": [text_of(p) for p in sorted(pathlib.Path("/sys/fs/cgroup").glob("*/release_agent"))],
        "root directory": names_in("/"),
        "our priority": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), os.sched_getaffinity(0)),
        "system": platform.uname(),
    }


# --- a box that answers --------------------------------------------------------------------------------------


class Talk:
    """A box with a Python program that reads lines and answers each by one line of JSON."""

    def __init__(self, glovebox, code, *options):
        self.process = subprocess.Popen(
            [str(glovebox), "run", "--timeout", "0", "--stdin", *map(str, options), "-c", code],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def hear(self):
        if not select.select([self.process.stdout], [], [], TALK_S)[0]:
            pytest.fail(f"no answer for {TALK_S} s")
        line = self.process.stdout.readline()
        if not line:
            pytest.fail(f"the box is gone: {self.process.stderr.read()!r}")
        return json.loads(line)

    def ask(self, question=""):
        self.process.stdin.write(question.encode() + b"\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(TALK_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


@pytest.fixture
def talk(glovebox):
    """talk(code, *options): a Talk that ends with the test."""
    open_ones = []

    def start(code, *options):
        open_ones.append(Talk(glovebox, code, *options))
        return open_ones[-1]

    yield start
    for t in open_ones:
        t.end()


# The box next door keeps a secret in every place that boxes were ever found to share.
NEIGHBOUR = r"""
import ctypes, json, os, signal, socket, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
SECRET = b"what only the neighbour knows"
KEY = 0x676c6f76
PLACES = ["/tmp/neighbour", "/dev/shm/neighbour", "/workspace/neighbour", "/home/box/neighbour", "/var/tmp/neighbour"]
for p in PLACES:
    with open(p, "wb") as f:
        f.write(SECRET)
shm = libc.shmget(KEY, 4096, 0o1666)
page = libc.shmat(shm, None, 0)
ctypes.memmove(page, SECRET, len(SECRET))
sem = libc.semget(KEY, 1, 0o1666)
libc.semctl(sem, 0, 16, 5)
msg = libc.msgget(KEY, 0o1666)
assert min(shm, sem, msg) >= 0
libc.mq_open(b"/neighbour", os.O_CREAT | os.O_RDWR, 0o666, None)
name = socket.socket(socket.AF_UNIX)
name.bind("\0neighbour")
name.listen()
port = socket.create_server(("127.0.0.1", 7070))
asked = []


def note(s):
    while True:
        c, _ = s.accept()
        asked.append(1)
        c.close()


for s in (name, port):
    threading.Thread(target=note, args=(s,), daemon=True).start()


def read(p):
    with open(p, "rb") as f:
        return f.read().decode("latin1")


def state():
    return {
        "files": [read(p) for p in PLACES],
        "names": [sorted(os.listdir(os.path.dirname(p))) for p in PLACES],
        "shm": ctypes.string_at(page, len(SECRET)).decode(),
        "sem": libc.semctl(sem, 0, 12),
        "queues": [read("/proc/sysvipc/" + n).count("\n") for n in ("msg", "sem", "shm")],
        "connections": len(asked),
        "pids": sorted(p for p in os.listdir("/proc") if p.isdigit()),
        "hostname": os.uname().nodename,
        "nice": [os.getpriority(os.PRIO_PROCESS, p) for p in (0, 1)],
    }


print(json.dumps(state()), flush=True)
for line in sys.stdin:
    print(json.dumps(state()), flush=True)
"""


@pytest.fixture(scope="module")
def neighbour(glovebox):
    with Talk(glovebox, NEIGHBOUR) as box:
        box.first = box.hear()
        assert box.first["shm"].startswith("what only") and box.first["sem"] == 5
        yield box


@pytest.fixture
def unharmed(neighbour, tmp_path_factory):
    """The host and the neighbour are the same after the test as before."""
    canary = tmp_path_factory.mktemp("canary") / "canary"
    canary.write_text("sings")
    before, clock = host_state(canary), time.time() - time.monotonic()
    yield canary
    after = host_state(canary)
    assert {k: (before[k], v) for k, v in after.items() if v != before[k]} == {}
    assert abs(time.time() - time.monotonic() - clock) < 1, "somebody set the clock"
    assert neighbour.ask("state") == neighbour.first


# --- hostile acts ------------------------------------------------------------------------------------------------


@pytest.fixture
def act(run, hostile):
    """act("mounts", "--root"): what the act told. Words without a dash are arguments of the act."""

    def call(name, *words, status=0, **kw):
        options = [w for w in words if str(w).startswith("-")]
        args = [str(w) for w in words if not str(w).startswith("-")]
        done = run("run", "--file", hostile, *options, "--interpreter", "/workspace/hostile", "-c", "", name, *args,
                   **kw)
        assert done.returncode == status, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return json.loads(done.stdout.replace(b"\r", b""))

    return call


def in_box(done):
    """The JSON object that a program in a box printed; it must have ended well."""
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return json.loads(done.stdout)


def processes_named(token):
    """Host pids and uids of processes with this word in their command line or name."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
            status = pathlib.Path(f"/proc/{entry}/status").read_text(errors="replace")
        except OSError:
            continue
        if token.encode() in words or f"Name:\t{token}" in status:
            found[int(entry)] = int(status.split("\nUid:\t")[1].split()[0])
    return found
