# SPDX-License-Identifier: Apache-2.0
"""What a process in a box is and sees, in one document, by every way into a box.

posture.json says it once, and beside that, per way, what differs. A program in the box reports everything about
itself; the report must equal the document. What depends on the machine (which directories of the host there
are to show, which files its kernel has in /proc) is listed there as "if there".
"""
import contextlib
import copy
import ctypes
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import tempfile

import pytest

pytestmark = pytest.mark.posture

DOCUMENT = json.loads((pathlib.Path(__file__).parent / "posture.json").read_text())
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup", "time")
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")

REPORT = r'''
import ctypes, json, os, resource, socket, stat

libc = ctypes.CDLL(None, use_errno=True)
fds = {}
for name in os.listdir("/proc/self/fd"):
    try:
        fds[name] = os.readlink("/proc/self/fd/" + name).split(":")[0]
    except OSError:
        pass  # the one of the listing itself
status = dict(line.rstrip("\n").split(":", 1) for line in open("/proc/self/status"))
status = {k: v.strip() for k, v in status.items()}
stat_fields = open("/proc/self/stat").read().rsplit(")", 1)[1].split()

mounts = {}
for line in open("/proc/self/mountinfo"):
    left, right = line.split(" - ")
    words = left.split()
    flags = [f for f in words[5].split(",") if f in ("ro", "rw", "nosuid", "nodev", "noexec")]
    shared = [w for w in words[6:] if w]
    mounts[words[4]] = " ".join([right.split()[0]] + flags + shared)

proc = {}
for name in sorted(os.listdir("/proc")):
    if name.isdigit() or os.path.islink("/proc/" + name):
        continue
    path = "/proc/" + name
    try:
        if os.path.isdir(path):
            proc[name] = "directory" if os.listdir(path) else "empty"
        else:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            proc[name] = "readable" if os.read(fd, 1) else "empty"
            os.close(fd)
    except OSError:
        proc[name] = "refused"

dev = {}
for name in os.listdir("/dev"):
    st = os.lstat("/dev/" + name)
    if stat.S_ISCHR(st.st_mode):
        dev[name] = "character %d:%d" % (os.major(st.st_rdev), os.minor(st.st_rdev))
    elif stat.S_ISLNK(st.st_mode):
        dev[name] = "link " + os.readlink("/dev/" + name)
    else:
        dev[name] = "directory" if stat.S_ISDIR(st.st_mode) else "other"

stores = ("/workspace", "/tmp", "/var/tmp", "/home/box", "/dev/shm")
writable = []
for top, dirs, files in os.walk("/"):
    if top in stores:
        dirs.clear()
    if top.startswith("/usr/") and top.count("/") > 4:
        dirs.clear()
    if top == "/proc":
        dirs[:] = [d for d in dirs if not d.isdigit() and d not in ("self", "thread-self")]
    if os.access(top, os.W_OK):
        writable.append(top)
    if top.startswith(("/etc", "/proc/sys")) or top == "/proc" or top == "/":
        writable += [os.path.join(top, f) for f in files
                     if stat.S_ISREG(os.lstat(os.path.join(top, f)).st_mode)
                     and os.access(os.path.join(top, f), os.W_OK)]

def text(path):
    try:
        return open(path).read().strip()
    except OSError as e:
        return "error %d" % e.errno

mask = os.umask(0)
os.umask(mask)
report = {
    "uid": status["Uid"].split(), "gid": status["Gid"].split(), "groups": status["Groups"].split(),
    "uid_map": [l.split()[0] for l in text("/proc/self/uid_map").splitlines()],
    "gid_map": [l.split()[0] for l in text("/proc/self/gid_map").splitlines()],
    "capabilities": {k: status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")},
    "securebits": libc.prctl(27, 0, 0, 0, 0),
    "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "no_new_privs": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in NAMESPACES
                   if os.path.exists("/proc/self/ns/" + n)},
    "signals": {k: status[k] for k in ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt")},
    "limits": {l[:26].strip(): l[26:].split()[:2] for l in text("/proc/self/limits").splitlines()[1:]},
    "environment": dict(os.environ),
    "fds": fds,
    "mounts": mounts, "proc": proc, "dev": dev, "writable": sorted(set(writable)),
    "root": sorted(os.listdir("/")),
    "etc": sorted(os.listdir("/etc")),
    "hostname": socket.gethostname(), "domain": text("/proc/sys/kernel/domainname"),
    "cwd": os.getcwd(), "umask": "%03o" % mask,
    "is_session_leader": os.getsid(0) == os.getpid(), "is_group_leader": os.getpgrp() == os.getpid(),
    "has_terminal": stat_fields[4] != "0",
    "parent": "init" if os.getppid() == 1 else "other", "pids": len([n for n in os.listdir("/proc") if n.isdigit()]),
    "threads": int(status["Threads"]),
    "oom_score_adj": text("/proc/self/oom_score_adj"),
    "nice": os.nice(0), "scheduler": os.sched_getscheduler(0), "personality": text("/proc/self/personality"),
    "timer_slack_ns": libc.prctl(30, 0, 0, 0, 0), "thp_disabled": libc.prctl(42, 0, 0, 0, 0),
    "interfaces": [n for _, n in socket.if_nameindex()],
    "routes": text("/proc/net/route").splitlines()[1:],
    "cgroups": sorted({l.rsplit(":", 1)[1] for l in text("/proc/self/cgroup").splitlines()}),
    "max_namespaces": sorted({text("/proc/sys/user/max_%s_namespaces" % n) for n in NAMESPACES}),
    "max_inotify_instances": text("/proc/sys/user/max_inotify_instances"),
    "keys": text("/proc/keys"),
}
with open(OUTPUT, "w") as f:
    json.dump(report, f)
'''


# --- comparing -----------------------------------------------------------------------------------------------


def expected(way):
    """The document, with the differences of this way put in as a JSON merge patch: null takes a key out."""
    return merged(DOCUMENT["posture"], DOCUMENT["differences"][way])


def merged(doc, patch):
    if not isinstance(doc, dict) or not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = {k: copy.deepcopy(v) for k, v in doc.items() if k not in patch}
    out.update({k: merged(doc.get(k), v) for k, v in patch.items() if v is not None})
    return out


def own_or_hosts(links):
    """Namespaces as "own" or "the host's"; the numbers themselves mean nothing."""
    return {n: "the host's" if link == os.readlink(f"/proc/self/ns/{n}") else "own"
            for n, link in links.items()}


def compare(report, way):
    doc = expected(way)
    report = copy.deepcopy(report)
    problems = []
    report["namespaces"] = own_or_hosts(report["namespaces"])
    for name in ("mounts", "root", "etc", "proc"):
        seen, must = report.pop(name), doc.pop(name)
        may = doc.pop(name + "_if_there")
        if isinstance(seen, list):
            seen, must, may = (dict.fromkeys(x, "") for x in (seen, must, may))
        for key in sorted(set(seen) | set(must)):
            if key not in seen:
                problems.append(f"{name}: {key} is missing")
            elif key in must and not fits(seen[key], must[key]):
                problems.append(f"{name}: {key} is {seen[key]!r}, not {must[key]!r}")
            elif key not in must and key not in may:
                problems.append(f"{name}: {key} ({seen[key]!r}) should not be there")
            elif key not in must and not fits(seen[key], may[key]):
                problems.append(f"{name}: {key} is {seen[key]!r}, not {may[key]!r}")
    for key in sorted(set(report) | set(doc)):
        if report.get(key) != doc.get(key):
            problems.append(f"{key} is {report.get(key)!r}, not {doc.get(key)!r}")
    assert not problems, "\n" + "\n".join(problems)


def fits(text, allowed):
    """HOST stands for the type of a file system of the host, whatever that is; OPEN for a file that may be empty."""
    pattern = re.escape(allowed).replace("HOST", r"[\w.]+").replace("OPEN", "readable|empty")
    return re.fullmatch(pattern, text) is not None


# --- ways into a box -----------------------------------------------------------------------------------------


def program(output="/workspace/report.json"):
    return f"NAMESPACES = {NAMESPACES!r}\nOUTPUT = {output!r}\n" + REPORT


def read_report(done, out):
    path = out / "report.json"
    assert done.returncode == 0 and path.exists(), (done.returncode, done.stdout, done.stderr)
    return json.loads(path.read_text())


@pytest.fixture
def report(run, tmp_path):
    """report("--root"): the report of a program in a box that these options made."""

    def call(*options, **kw):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        return read_report(run("run", "--out", out, *options, "-", input=program().encode(), **kw), out)

    return call


def test_run(report):
    compare(report(), "run")


def test_root(report):
    compare(report("--root"), "root")


def test_stdin(run, tmp_path):
    code = tmp_path / "p.py"
    code.write_text(program())
    done = run("run", "--stdin", "--out", tmp_path / "out", code, input=b"x")
    compare(read_report(done, tmp_path / "out"), "stdin")


def test_code(run, tmp_path):
    compare(read_report(run("run", "--out", tmp_path / "out", "-c", program()), tmp_path / "out"), "run")


def test_shell(run, tmp_path):
    (tmp_path / "r.py").write_text(program())
    done = run("run", "--shell", "--out", tmp_path / "out", "-f", tmp_path / "r.py", "-c", "exec /usr/bin/python3 r.py")
    compare(read_report(done, tmp_path / "out"), "shell")


def test_child_of_a_shell(run, tmp_path):
    """A grandchild of the box's init has no more than its parents."""
    (tmp_path / "r.py").write_text(program())
    done = run("run", "--shell", "--out", tmp_path / "out", "-f", tmp_path / "r.py", "-c",
               "/usr/bin/python3 r.py; exit $?")
    compare(read_report(done, tmp_path / "out"), "child")


def test_tty(glovebox, tmp_path):
    (tmp_path / "r.py").write_text(program())
    master, slave = pty.openpty()
    try:
        p = subprocess.Popen([glovebox, "run", "--tty", "--out", tmp_path / "out", tmp_path / "r.py"],
                             stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = p.communicate(timeout=60)
    finally:
        os.close(master)
        os.close(slave)
    done = subprocess.CompletedProcess([], p.returncode, said, b"")
    compare(read_report(done, tmp_path / "out"), "tty")


def test_mount(report, run, tmp_path):
    """A directory of the host adds one mount, and nothing else changes."""
    for name in ("ro", "rw"):
        (tmp_path / name).mkdir()
    probe = run("run", "--mount-root", tmp_path, "--mount", f"{tmp_path}/rw:/mnt/rw:rw", "-c", "pass")
    if b"has no id-mapped mounts" in probe.stderr:
        pytest.skip("the file system of the temporary directory has no id-mapped mounts (tmpfs before Linux 6.3)")
    r = report("--mount-root", tmp_path, "--mount", f"{tmp_path}/ro:/mnt/ro", "--mount", f"{tmp_path}/rw:/mnt/rw:rw")
    assert re.fullmatch(r"[\w.]+ ro nosuid nodev", r["mounts"].pop("/mnt/ro"))
    assert re.fullmatch(r"[\w.]+ rw nosuid nodev", r["mounts"].pop("/mnt/rw"))
    r["writable"].remove("/mnt/rw")
    compare(r, "run")


def test_limits(report):
    r = report("--cpu-seconds", "100", "--processes", "50", "--open-files", "64", "--file-size", "1M")
    assert r["limits"]["Max cpu time"] == ["100", "101"]
    assert r["limits"]["Max processes"] == ["51", "51"]
    assert r["limits"]["Max open files"] == ["64", "64"]
    assert r["limits"]["Max file size"] == [str(1 << 20)] * 2


@pytest.mark.parametrize("options", [(), ("--root",), ("--shell", "--interpreter", "/bin/cat")],
                         ids=["run", "root", "shell"])
def test_signals_of_a_program_without_a_runtime(run, options):
    """Python sets dispositions of its own; cat shows what a program is given."""
    r = run("run", "--interpreter", "/bin/cat", *options, "-c", "", "/proc/self/status")
    status = dict(line.split(":\t") for line in r.stdout.decode().splitlines())
    for name in ("SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"):
        assert int(status[name], 16) == 0, name
    assert status["Threads"].strip() == "1" and status["TracerPid"].strip() == "0"


def test_init_is_as_closed_as_its_programs(run):
    """What can be seen of process 1 from beside it."""
    r = run("run", "-c", """
import os
status = dict(line.rstrip("\\n").split(":", 1) for line in open("/proc/1/status"))
print(status["Name"].strip(), *(status[k].strip() for k in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")),
      status["Seccomp"].strip(), status["NoNewPrivs"].strip(), status["Groups"].strip() == "")
for what in ("mem", "environ", "exe", "cwd", "root", "fd", "maps", "ns/user", "map_files", "io", "stack", "syscall"):
    path = "/proc/1/" + what
    try:
        if what in ("exe", "cwd", "root", "ns/user"):
            os.readlink(path)
        elif os.path.isdir(path):
            os.listdir(path)
        else:
            os.read(os.open(path, os.O_RDONLY), 1)
        print("open:", what)
    except OSError:
        pass
for sig in (9, 15, 19, 2):
    try:
        os.kill(1, sig)
    except OSError:
        pass
import signal, resource, time
try:
    print("limit", resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)))
except OSError:
    print("refused")
time.sleep(0.1)
print("alive")
""")
    zero = "0" * 16
    assert r.stdout.decode() == f"init {zero} {zero} {zero} {zero} {zero} 2 1 True\nrefused\nalive\n", r.stderr


# --- what callers hand down ----------------------------------------------------------------------------------


LIBC = ctypes.CDLL(None, use_errno=True)
CALLERS = {
    "signals blocked": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
    "signals ignored": lambda: [signal.signal(s, signal.SIG_IGN) for s in signal.valid_signals()
                                if s not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD)],
    "umask 0": lambda: os.umask(0),
    "umask 777": lambda: os.umask(0o777),
    "low oom score": lambda: set_oom_score(-500),
    "high priority": lambda: set_nice(-5),
    "no address randomisation": lambda: LIBC.personality(0x0040000),
    "readable is executable": lambda: LIBC.personality(0x0400000),
    "timer slack": lambda: LIBC.prctl(29, 1, 0, 0, 0),
    "no huge pages": lambda: LIBC.prctl(41, 1, 0, 0, 0),
    "dies with its parent": lambda: LIBC.prctl(1, 10, 0, 0, 0),
    "capabilities kept": lambda: LIBC.prctl(8, 1, 0, 0, 0),
    "ambient capability": lambda: raise_ambient(21),
    "many open files": lambda: [os.dup2(os.open("/etc/hostname", os.O_RDONLY), n) for n in (20, 77, 300)],
}


def set_oom_score(value):
    """Where we may: root without CAP_SYS_RESOURCE (in a container) may not."""
    with contextlib.suppress(PermissionError):
        pathlib.Path("/proc/self/oom_score_adj").write_text(str(value), encoding="ascii")


def set_nice(value):
    with contextlib.suppress(PermissionError):
        os.nice(value)


def raise_ambient(cap):
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    LIBC.capget(header, data)
    data[2] |= 1 << cap
    LIBC.capset(header, data)
    LIBC.prctl(47, 2, cap, 0, 0)


@NEEDS_ROOT
@pytest.mark.parametrize("prepare", CALLERS.values(), ids=CALLERS.keys())
def test_nothing_is_inherited(report, prepare):
    compare(report(preexec_fn=prepare, close_fds=False, env={**os.environ, "LD_BIND_NOW": "1", "SECRET": "x"}), "run")


@NEEDS_ROOT
def test_real_time_callers(run, tmp_path):
    """A caller under a real-time policy: refused, or the box is not under it."""
    done = run("run", "--out", tmp_path / "out", "-", input=program().encode(),
               preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    if done.returncode == 125:
        assert done.stderr.startswith(b"glovebox: ") and done.stdout == b""
    else:
        compare(read_report(done, tmp_path / "out"), "run")


# --- without privileges --------------------------------------------------------------------------------------


class User:
    """An ordinary user, how to run something as that user, and a directory that it owns."""

    def __init__(self, uid, gid, home, program, prefix=(), name=None):
        self.uid, self.gid, self.home, self.program, self.prefix = uid, gid, pathlib.Path(home), program, prefix
        self.name = name

    def run(self, *args, **kw):
        ids = {} if self.prefix else {"user": self.uid, "group": self.gid, "extra_groups": []}
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        env.update({k: v for k, v in os.environ.items() if k.startswith("GLOVEBOX_")})
        return subprocess.run([*self.prefix, self.program, *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False, env=env, **ids, **kw)


@contextlib.contextmanager
def some_user(glovebox, named):
    """With a name and a range of subordinate ids, or with a bare number."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
    binary = home / "glovebox"
    shutil.copy(glovebox, binary)
    name, uid = f"gbtest{os.getpid()}", 54321
    try:
        if named:
            if not shutil.which("useradd") or not shutil.which("newuidmap"):
                pytest.skip("needs useradd (package passwd) and newuidmap (package uidmap)")
            subprocess.run(["useradd", "-M", "-d", home, "-s", "/bin/sh", name], check=True)
            uid = int(subprocess.run(["id", "-u", name], stdout=subprocess.PIPE, check=True).stdout)
            with open("/etc/subuid", encoding="ascii") as f:
                if not any(line.startswith(name + ":") for line in f):
                    subprocess.run(["usermod", "--add-subuids", "700000-765535", "--add-subgids", "700000-765535",
                                    name], check=True)
        home.chmod(0o755)
        os.chown(home, uid, uid)
        yield User(uid, uid, home, binary, name=name)
    finally:
        if named and shutil.which("userdel"):
            subprocess.run(["userdel", name], stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(f"/tmp/glovebox-{uid}", ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def user(glovebox):
    if os.environ.get("GLOVEBOX_TEST_AS_USER"):
        name = os.environ["GLOVEBOX_TEST_USER"]
        uid = int(subprocess.run(["id", "-u", name], stdout=subprocess.PIPE, check=True).stdout)
        home = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
        os.chown(home, uid, uid)
        yield User(uid, uid, home, glovebox, (os.environ["GLOVEBOX_TEST_AS_USER"],), name)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(f"/tmp/glovebox-{uid}", ignore_errors=True)
    else:
        with some_user(glovebox, True) as u:
            yield u


@pytest.fixture
def number(glovebox):
    with some_user(glovebox, False) as u:
        yield u


def missing_without_cgroup(u):
    """The option that this user needs where no cgroup is its own."""
    done = u.run("run", "-c", "pass")
    if done.returncode == 0:
        return ()
    assert done.returncode == 125 and b"--accept-missing" in done.stderr, done.stderr
    return ("--accept-missing", "memory-limit,process-limit,cpu-limit")


@NEEDS_ROOT
def test_rootless(user):
    accept = missing_without_cgroup(user)
    done = user.run("run", *accept, "--out", user.home / "out", "-", input=program().encode())
    compare(read_report(done, user.home / "out"), "rootless")


@NEEDS_ROOT
def test_rootless_root(user):
    accept = missing_without_cgroup(user)
    done = user.run("run", *accept, "--root", "--out", user.home / "out", "-", input=program().encode())
    compare(read_report(done, user.home / "out"), "rootless root")


@NEEDS_ROOT
def test_rootless_files_belong_to_the_caller(user):
    accept = missing_without_cgroup(user)
    work = user.home / "work"
    work.mkdir()
    os.chown(work, user.uid, user.gid)
    waive = [accept[0], accept[1] + ",own-uids"] if accept else ["--accept-missing", "own-uids"]
    done = user.run("run", *waive, "--mount-root", work, "--mount", f"{work}:/mnt/w:rw", "-c",
                    "open('/mnt/w/f', 'w').write('x')")
    assert done.returncode == 0, done.stderr
    assert (work / "f").stat().st_uid == user.uid


@NEEDS_ROOT
def test_rootless_without_own_ids_is_refused_and_can_be_accepted(number):
    done = number.run("run", "--accept-missing", "memory-limit,process-limit,cpu-limit", "-c", "print('ran')")
    assert done.returncode == 125 and b"own-uids" in done.stderr and done.stdout == b""
    accept = ("--accept-missing", "memory-limit,process-limit,cpu-limit,own-uids")
    done = number.run("run", *accept, "--out", number.home / "out", "-", input=program().encode())
    compare(read_report(done, number.home / "out"), "one id")


@NEEDS_ROOT
def test_rootless_layers_are_told(number):
    done = number.run("run", "--json", "--accept-missing", "memory-limit,process-limit,cpu-limit,own-uids", "-c", "pass")
    result = json.loads(done.stdout)
    assert "own-uids" not in result["layers"] and "seccomp" in result["layers"]
    if "memory-limit" not in result["layers"]:
        assert result["figures"]["measured_by"] == "rusage"


@NEEDS_ROOT
def test_a_run_directory_that_somebody_else_made(number):
    """/tmp is everybody's: a directory of the right name and the wrong owner is not used."""
    where = pathlib.Path(f"/tmp/glovebox-{number.uid}")
    if pathlib.Path(f"/run/user/{number.uid}").exists():
        pytest.skip("this user has a runtime directory")
    accept = ("--accept-missing", "memory-limit,process-limit,cpu-limit,own-uids")
    for make in (lambda: where.mkdir(0o700), lambda: where.symlink_to("/etc"), lambda: where.write_text("")):
        make()
        try:
            done = number.run("run", *accept, "-c", "print('ran')")
            assert done.returncode == 125 and done.stdout == b"" and str(where).encode() in done.stderr
        finally:
            if where.is_dir() and not where.is_symlink():
                shutil.rmtree(where)
            else:
                where.unlink()


def test_init_is_spared_by_out_of_memory_and_its_programs_are_not(box_json):
    r = box_json("print(open('/proc/1/oom_score_adj').read(), open('/proc/self/oom_score_adj').read())")
    assert r["status"] == 0, r["said"]
    if "init-oom-shield" not in r["layers"]:
        pytest.skip("this machine cannot shield the init of a box (CAP_SYS_RESOURCE)")
    assert r["stdout"].split() == ["-999", "0"]
