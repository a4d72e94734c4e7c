# SPDX-License-Identifier: Apache-2.0
"""What every test of the real program shares: how to run it, and proof that it left nothing behind.

The program under test is build/glovebox, or what GLOVEBOX in the environment names (the sanitizer tier
does that). A test that starts something in the background owns it until its end: what is still there a moment
after the test is a leak, and fails it.
"""
import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of one call. An emulated processor in a guest is many times slower.
TIMEOUT_S = 240 if os.environ.get("GLOVEBOX_GUEST") else 60
# How long a background process may take to end when a test is over, before it is killed.
END_S = 10
# How long what a test started may take to go.
LEAK_GRACE_S = float(os.environ.get("GLOVEBOX_LEAK_GRACE_S", "3"))
# A file may be of a test that runs beside this one: an ordinary user's run directory, for instance. A leak is there for longer.
FILE_GRACE_S = 10 * LEAK_GRACE_S

PR_SET_CHILD_SUBREAPER = 36

# A program that must get as far as its first line before its time is over needs more of it in an emulated guest.
PATIENCE = 20 if "GLOVEBOX_GUEST" in os.environ else 1

# A test that hangs fails, with the line at which it did, instead of holding up all others.
LONGEST_S = {False: 300, True: 3600}  # by whether it is a slow one


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    def too_long(*_):
        pytest.fail(f"still running after {limit} s")

    limit = LONGEST_S[item.get_closest_marker("slow") is not None] * PATIENCE
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

# Whoever runs the tests in the background or under nohup(1) ignores these, and what is ignored is inherited
# over exec: the program under test would honour that, as it should, and never see an interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# --- running the program -------------------------------------------------------------------------------------


def program_path():
    return pathlib.Path(os.environ.get("GLOVEBOX") or ROOT / "build" / "glovebox").resolve()


@pytest.fixture(scope="session")
def glovebox():
    """Path of the program under test."""
    path = program_path()
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is not there: run 'make build' first")
    return path


@pytest.fixture(scope="session")
def hostile():
    """Path of the static program that misbehaves on request; to be run inside a box."""
    path = program_path().parent / "hostile"
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is not there: run 'make build' first")
    return path


@pytest.fixture(scope="session")
def run(glovebox):
    """run("run", "-", input=b"print(1)"): one call of the program, to its end.

    Returns subprocess.CompletedProcess with bytes in stdout and stderr. Standard input is empty unless
    given; keywords are those of subprocess.run. A call that takes over a minute fails the test.
    """

    def call(*args, timeout=TIMEOUT_S, **kw):
        if "input" not in kw:
            kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        command = [str(glovebox), *(os.fspath(a) if isinstance(a, os.PathLike) else str(a) for a in args)]
        try:
            return subprocess.run(command, timeout=timeout, check=False, **kw)
        except subprocess.TimeoutExpired as e:
            pytest.fail(f"{' '.join(command)}: no end after {timeout} s\n"
                        f"stdout: {e.stdout!r}\nstderr: {e.stderr!r}")

    return call


@pytest.fixture(scope="session")
def box_python(run):
    """box_python("print(1)", "--memory", "64M"): Python code in a fresh box, as `glovebox run OPTIONS -`."""

    def call(code, *options, **kw):
        return run("run", *options, "-", input=code.encode(), **kw)

    return call


@pytest.fixture(scope="session")
def box_json(run):
    """box_json("print(1)", "--memory", "64M"): as box_python, and the object that --json prints.

    Two keys are added: "status", the exit status, and "said", what came on standard error.
    """

    def call(code, *options, **kw):
        done = run("run", "--json", *options, "-", input=code.encode(), **kw)
        try:
            result = json.loads(done.stdout)
        except ValueError:
            pytest.fail(f"no JSON: status {done.returncode}, {done.stdout[:2000]!r}, {done.stderr[:2000]!r}")
        result["status"] = done.returncode
        result["said"] = done.stderr.decode(errors="replace")
        return result

    return call


@pytest.fixture
def start(glovebox):
    """start("run", "-c", CODE): the program in the background, as subprocess.Popen; ended with the test."""
    started = []

    def call(*args, **kw):
        for stream in ("stdin", "stdout", "stderr"):
            kw.setdefault(stream, subprocess.PIPE)
        process = subprocess.Popen([str(glovebox), *map(str, args)], **kw)
        started.append(process)
        return process

    yield call
    for process in started:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass


class Neighbour:
    """A box that squares the numbers it is given: alive as long as ask() returns."""

    CODE = "import sys\nfor line in sys.stdin:\n    print(int(line) ** 2, flush=True)\n"

    def __init__(self, process):
        self.process = process
        self.asked = 0

    def ask(self):
        self.asked += 1
        self.process.stdin.write(b"%d\n" % self.asked)
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], TIMEOUT_S)[0]:
            pytest.fail(f"a neighbour box did not answer for {TIMEOUT_S} s")
        answer = self.process.stdout.readline()
        if answer != b"%d\n" % self.asked ** 2:
            pytest.fail(f"a neighbour box broke: {answer!r}, {self.process.stderr.read()!r}")

    def end(self):
        """It also ends as it should."""
        self.process.stdin.close()
        assert self.process.wait(TIMEOUT_S) == 0, self.process.stderr.read()


@pytest.fixture
def neighbour(start):
    """A second box, in which a well-behaved program works while a test attacks."""
    other = Neighbour(start("run", "--stdin", "--timeout", "0", "-c", Neighbour.CODE))
    other.ask()
    yield other
    other.ask()
    other.end()


# --- nothing stays behind ------------------------------------------------------------------------------------
#
# Orphans of what a test started become children of pytest (it is a child subreaper), so "descends from us" is
# exact: another glovebox on this machine is not mistaken for a leak. For the other kinds the names must do.


def stat_of(pid):
    """(parent, start time, state, name) of a process, or None if it is gone."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    fields = text[text.rindex(")") + 2:].split()
    return int(fields[1]), int(fields[19]), fields[0], name


def our_processes():
    """Living descendants of this process, as text that stays the same as long as they live: what they are called changes when they exec."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = stat_of(entry)
            if stat:
                table[int(entry)] = stat
    me = os.getpid()
    found = set()
    for pid, (parent, start, state, _) in table.items():
        ancestor = parent
        while ancestor in table and ancestor != me:
            ancestor = table[ancestor][0]
        if ancestor != me:
            continue
        if state == "Z":
            if parent == me:
                reap(pid)
            continue
        found.add(f"process {pid} started {start}")
    return found


def described(text):
    """A trace, with what its process is called now."""
    words = text.split()
    if words[0] != "process":
        return text
    try:
        cmdline = pathlib.Path(f"/proc/{words[1]}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        cmdline = b""
    return f"{text} ({(stat_of(words[1]) or ['?'])[-1]}): {cmdline.decode(errors='replace')[:200]}"


def reap(pid):
    """An adopted orphan that has ended; nobody else will collect it."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def our_cgroups():
    found = set()
    for folder, children, _ in os.walk("/sys/fs/cgroup"):
        for child in list(children):
            if child.startswith("glovebox-"):
                children.remove(child)
                if not is_somebody_elses(f"{folder}/{child}"):
                    found.add(f"cgroup {folder}/{child}")
    return found


def keeper_of(slot):
    """The process that holds the lock of an instance of root's, or None."""
    try:
        inode = os.stat(f"/run/glovebox/{int(slot):04}.lock").st_ino
    except (OSError, ValueError):
        return None
    for line in pathlib.Path("/proc/locks").read_text(encoding="ascii").splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[5].endswith(f":{inode}"):
            return int(fields[4])
    return None


def is_somebody_elses(cgroup):
    """Whether another glovebox is at work there: its keeper, or a process of a box of the same instance, does not descend from us.

    A box that is being made or ended is empty for a moment, so it alone cannot tell.
    """
    place, name = os.path.split(cgroup)
    instance = name.rpartition("-")[0] + "-"
    keeper = keeper_of(instance.split("-")[-2])
    if keeper is not None:
        return not is_ours(keeper)
    pids = set()
    for entry in list_dir(place):
        if entry.startswith(instance):
            for folder, _, _ in os.walk(f"{place}/{entry}"):
                try:
                    pids.update(pathlib.Path(folder, "cgroup.procs").read_text(encoding="ascii").split())
                except OSError:
                    pass
    return bool(pids) and not any(is_ours(int(pid)) for pid in pids)


def is_ours(pid):
    while pid > 1:
        if pid == os.getpid():
            return True
        stat = stat_of(pid)
        if not stat:
            return False
        pid = stat[0]
    return False


def our_mounts():
    found = set()
    for line in pathlib.Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
        fields = line.split()
        if "glovebox" in line and str(ROOT) not in line:
            found.add(f"mount {fields[0]} on {fields[4]}")
    return found


def our_files():
    found = set()
    run_dirs = ["/run/glovebox"]
    if os.environ.get("XDG_RUNTIME_DIR"):
        run_dirs.append(os.path.join(os.environ["XDG_RUNTIME_DIR"], "glovebox"))
    for run_dir in run_dirs:
        for entry in list_dir(run_dir):
            # Lock files stay on purpose: removing one that somebody waits for would give two owners.
            if not entry.endswith((".lock", "/lock")) and entry != "lock":
                found.add(f"file {run_dir}/{entry}")
    for folder in ("/tmp", "/dev/shm"):
        for entry in list_dir(folder):
            if entry.startswith("glovebox"):
                found.add(f"file {folder}/{entry}")
    return found


def list_dir(path):
    try:
        return os.listdir(path)
    except OSError:
        return []


def traces():
    return our_processes() | our_cgroups() | our_mounts() | our_files()


def is_for_others(trace):
    """A directory that a living process was told of which does not descend from us: another glovebox at work."""
    kind, _, path = trace.partition(" ")
    if kind != "file":
        return False
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                told = path.encode() in pathlib.Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if told and not is_ours(int(entry)):
                return True
    return False


def new_traces(before):
    """What is there now and was not before, after giving it a moment to go."""
    begun = time.monotonic()
    while True:
        left = {trace for trace in traces() - before if not is_for_others(trace)}
        waited = time.monotonic() - begun
        if not left or any(waited > (FILE_GRACE_S if trace.startswith("file ") else LEAK_GRACE_S) for trace in left):
            return sorted(left)
        time.sleep(0.02)


def fail_on(left, when):
    """What was left is also ended where it is a process of ours: one leak is one failure."""
    said = "\n  ".join(map(described, left))
    for text in left:
        words = text.split()
        if words[0] == "process":
            try:
                os.kill(int(words[1]), signal.SIGKILL)
            except ProcessLookupError:
                pass
    if left:
        pytest.fail(f"left behind {when}, and still there when it had had its time to go:\n  {said}", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_by_session():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = traces()
    yield
    fail_on(new_traces(before), "by the whole run")


@pytest.fixture(autouse=True)
def nothing_left_by_test(nothing_left_by_session):
    before = traces()
    yield
    fail_on(new_traces(before), "by this test")
