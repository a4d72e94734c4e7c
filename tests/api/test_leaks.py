# SPDX-License-Identifier: Apache-2.0
"""Boxes by the dozen, ended in every way: afterwards everything is where it was.

conftest.py looks after every test for processes, cgroups, mounts and files. Here also: descriptors of the caller,
namespaces, lock files, and the sweep of what nobody was left to remove.
"""
import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import signal
import subprocess
import time

import pytest

from conftest import keeper_of as holder_of

pytestmark = pytest.mark.leaks

# Boxes per way. An emulated guest takes a second or two for one.
FEW = 6 if os.environ.get("GLOVEBOX_GUEST") else 30
COUNTS = [pytest.param(FEW, id="some"), pytest.param(1000, id="1000", marks=pytest.mark.slow)]
AT_ONCE = 3
RUN_DIR = pathlib.Path("/run/glovebox")
SLEEP = "import os, time\nos.fork() and os.write(1, b'begun\\n')\ntime.sleep(1000)"


# --- what there is -------------------------------------------------------------------------------------------


def parents():
    """Who is whose parent, of all that live."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text(errors="replace")
                state, parent = stat[stat.rindex(")") + 2:].split()[:2]
                if state not in "ZX":
                    table[int(entry)] = int(parent)
            except (OSError, ValueError):
                pass
    return table


def is_ours(pid, table):
    while pid in table and pid > 1:
        if pid == os.getpid():
            return True
        pid = table[pid]
    return False


def namespaces():
    """Every namespace that one of our descendants is in: of a box's processes, nobody else's."""
    found = set()
    table = parents()
    for pid in table:
        if is_ours(pid, table):
            for name in ("net", "mnt", "user", "pid", "ipc", "uts", "cgroup"):
                try:
                    found.add(os.readlink(f"/proc/{pid}/ns/{name}"))
                except OSError:
                    pass
    return found


def locks():
    """(held, forgotten): those of living instances, and those that say something although nobody holds them: of
    instances that died and were not swept."""
    held, forgotten = set(), set()
    for path in RUN_DIR.glob("*.lock") if os.access(RUN_DIR, os.R_OK) else ():
        with open(path, "rb") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                held.add(str(path))
                continue
            if f.read():
                forgotten.add(str(path))
    return held, forgotten


def of_others(held):
    """Those of these locks whose keepers live, and are not ours: another glovebox was started meanwhile."""
    table = parents()
    keepers = {path: holder_of(pathlib.Path(path).stem) for path in held}
    return {path for path, pid in keepers.items() if pid in table and not is_ours(pid, table)}


def only_these_live(living):
    """Wait for those that were killed: they hold their locks until the kernel is done with them, orphans too."""
    deadline = time.monotonic() + 10
    while (held := locks()[0] - living) - of_others(held):
        assert time.monotonic() < deadline, "a killed instance lives on"
        time.sleep(0.01)


def descriptors():
    return {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{n}")}


def files():
    """Names that could be ours: those of the run directory, and what appears in the common places."""
    return {str(p) for p in RUN_DIR.glob("*") if not p.name.endswith(".lock")} if os.access(RUN_DIR, os.R_OK) else set()


def snapshot():
    return {"namespaces": namespaces(), "descriptors": set(descriptors().values()), "files": files(),
            "mounts": {line.split(" ", 1)[1] for line in open("/proc/self/mountinfo", encoding="utf-8")
                       if "glovebox" in line.split(" - ")[0].split()[4]}}


@pytest.fixture
def unchanged():
    before = snapshot()
    yield
    deadline = time.monotonic() + 10
    while True:
        after = snapshot()
        left = {k: after[k] - before[k] for k in after if after[k] - before[k]}
        dead = locks()[1]
        if not left and not dead or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    assert not left and not dead, (left, dead)


# --- ways to end ---------------------------------------------------------------------------------------------


def keeper_of(pid):
    for other, parent in parents().items():
        if parent == pid:
            try:
                words = pathlib.Path(f"/proc/{other}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:2] == [b"keeper"]:
                return other
    return None


class Ending:
    """One run, ended in one way at one moment. Delays go through all phases of a start, which takes some 10 ms."""

    def __init__(self, start):
        self.start = start

    def begin(self, *args):
        return self.start("run", *args, stdin=subprocess.DEVNULL)

    @staticmethod
    def finish(p, *statuses):
        out, err = p.communicate(timeout=10)
        assert p.returncode in statuses, (p.returncode, out, err)

    def success(self, _):
        self.finish(self.begin("-c", "print(1)"), 0)

    def failure(self, _):
        self.finish(self.begin("-c", "raise SystemExit(3)"), 3)

    def crash(self, _):
        self.finish(self.begin("-c", "import os, time\nos.fork() or time.sleep(1000)\nos.kill(os.getpid(), 11)"), 139)

    def timeout(self, i):
        self.finish(self.begin("--timeout", f"{50 + i % 50}ms", "-c", SLEEP), 124)

    def out_of_memory(self, _):
        self.finish(self.begin("--memory", "16M", "--workspace", "64K", "--scratch", "64K", "--shm", "64K", "-c",
                               "b = bytearray(b'x') * (1 << 28)"), 137)

    def no_interpreter(self, _):
        self.finish(self.begin("--interpreter", "/nothing", "-c", "pass"), 125)

    def refused(self, _):
        self.finish(self.begin("--mount", "/etc:/mnt/x:rw", "--mount-root", "/tmp", "-c", "pass"), 125)

    def does_not_fit(self, _):
        self.finish(self.begin("--workspace", "64K", "-c", "x = '" + "x" * 100000 + "'"), 125)

    def interrupted(self, i):
        p = self.begin("-c", SLEEP)
        if i % 2:
            assert p.stdout.readline() == b"begun\n"
        else:
            time.sleep(i * 0.002 % 0.04)
        p.send_signal(signal.SIGINT)
        self.finish(p, 130, -signal.SIGINT, *([1] if i % 2 == 0 else []))  # 1: Python itself was just starting

    def terminated(self, i):
        p = self.begin("-c", SLEEP)
        time.sleep(i * 0.0013 % 0.04)
        p.terminate()
        self.finish(p, 143, -signal.SIGTERM)

    def kill_command(self, i):
        p = self.begin("-c", SLEEP)
        time.sleep(i * 0.0013 % 0.04)
        p.kill()
        self.finish(p, -9)

    def kill_keeper(self, i):
        p = self.begin("-c", SLEEP)
        keeper, deadline = None, time.monotonic() + 10
        while keeper is None and p.poll() is None and time.monotonic() < deadline:
            keeper = keeper_of(p.pid)
        time.sleep(i * 0.0013 % 0.04)
        os.kill(keeper, signal.SIGKILL)
        self.finish(p, 125)

    def kill_keeper_at_birth(self, _):
        """In the moment in which it has made the first process of a box and not yet told it to go on."""
        p = self.begin("-c", SLEEP)
        keeper, deadline = None, time.monotonic() + 10
        while keeper is None and p.poll() is None and time.monotonic() < deadline:
            keeper = keeper_of(p.pid)
        children = f"/proc/{keeper}/task/{keeper}/children"
        with contextlib.suppress(OSError):
            while p.poll() is None and not pathlib.Path(children).read_bytes():
                pass
        os.kill(keeper, signal.SIGKILL)
        self.finish(p, 125)

    def kill_both(self, i):
        p = self.begin("-c", SLEEP)
        if i % 2:
            assert p.stdout.readline() == b"begun\n"
        else:
            time.sleep(i * 0.0013 % 0.04)
        keeper = keeper_of(p.pid)
        for pid in (keeper, p.pid) if i % 4 < 2 else (p.pid, keeper):
            try:
                os.kill(pid or p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        p.communicate(timeout=10)

    def kill_init(self, i):
        """From outside: as the kernel does when the whole machine is out of memory."""
        p = self.begin("-c", SLEEP)
        assert p.stdout.readline() == b"begun\n"
        keeper = keeper_of(p.pid)
        inits = [pid for pid, parent in parents().items() if parent == keeper]
        os.kill(inits[0], signal.SIGKILL)
        self.finish(p, 125)

    def reader_gone(self, _):
        p = self.begin("-c", "while True: print('x' * 1000)")
        p.stdout.read(1)
        p.stdout.close()
        p.stdout = None
        self.finish(p, 141)


WAYS = [name for name in vars(Ending) if not name.startswith("_") and name not in ("begin", "finish")]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left(unchanged, start, run, way, count):
    if way in ("timeout", "interrupted") and count < 100:
        count //= 2
    ending = getattr(Ending(start), way)
    living = locks()[0]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(ending, range(count)))
    if way == "kill_both":
        only_these_live(living)
        assert run("run", "-c", "print(1)").stdout == b"1\n"  # whoever comes next sweeps


def test_sweep_leaves_the_living_alone(unchanged, start, run):
    """One instance is dead, one lives: the next run removes what the first left, and only that."""
    alive = start("run", "--stdin", "-c", "print('begun', flush=True)\nprint(input())")
    assert alive.stdout.readline() == b"begun\n"
    ending = Ending(start)
    living = locks()[0]
    for i in range(6):
        ending.kill_both(i)
        only_these_live(living)
        assert run("run", "-c", "print(1)").stdout == b"1\n"
    alive.stdin.write(b"well\n")
    alive.stdin.close()
    assert alive.stdout.read() == b"well\n" and alive.wait(30) == 0


def test_programs_die_with_their_keeper_and_command(unchanged, start, run):
    """kill -9 of both at once: nobody is left who could end the box, and it ends."""
    living = locks()[0]
    p = start("run", "-c", "import os, signal, time\n[signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]\n"
                           "os.fork() and os.write(1, b'begun\\n')\n"
                           "while True: time.sleep(1)")
    assert p.stdout.readline() == b"begun\n"
    keeper = keeper_of(p.pid)
    box = [pid for pid, parent in parents().items() if parent == keeper]
    assert box
    os.kill(p.pid, signal.SIGSTOP)  # so that neither can react to the other's end
    os.kill(keeper, signal.SIGKILL)
    os.kill(p.pid, signal.SIGKILL)
    p.wait(30)
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{pid}/ns/pid") and is_ours(pid, parents()) and
              pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z" for pid in box):
        assert time.monotonic() < deadline, "the box lives on without anybody who knows of it"
        time.sleep(0.05)
    only_these_live(living)
    assert run("run", "-c", "print(1)").stdout == b"1\n"


def test_descriptors_of_a_long_lived_keeper_do_not_grow(start):
    """Within one run: many programs and files pass through the same descriptors of command and init."""
    p = start("run", "--stdin", "--shell", "-c", "while read -r x; do /bin/true; echo $x; done")
    counts = []
    for i in range(200):
        p.stdin.write(b"%d\n" % i)
        p.stdin.flush()
        assert p.stdout.readline() == b"%d\n" % i
        if i in (20, 199):
            counts.append(len(os.listdir(f"/proc/{p.pid}/fd")))
    assert counts[0] == counts[1]
