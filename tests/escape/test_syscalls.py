# SPDX-License-Identifier: Apache-2.0
"""Every system call number, by every entry of the processor, against what policy/syscalls.tbl says.

sysprobe runs in a box and reports what the box's filter decides, not what the kernel thinks of the
arguments (how, is told at its top). The table is read here by regular expressions and evaluated by
fifteen lines below, so that a mistake of tools/gen-seccomp cannot hide itself. The hostile cases are written
out with the answer that they must get, so that a mistake in the table cannot hide either.
"""
import collections
import errno
import json
import pathlib
import platform
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "policy" / "syscalls.tbl"
LAST_NR = 600
ENTRIES = ("x86_64", "x32", "i386")

# Newer kernels ask no filter about the calls of their own probe trampolines; made by anyone else these end in
# SIGILL (uretprobe) or ENXIO (uprobe). On older ones they are what the table says.
NOT_FILTERED = {"uretprobe": ("killed", 0), "uprobe": ("refused", errno.ENXIO)}

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="sysprobe is for x86-64")

Call = collections.namedtuple("Call", "name nr arm verdict clauses")
Clause = collections.namedtuple("Clause", "verdict conditions")
Condition = collections.namedtuple("Condition", "kind arg mask value")


# --- the table -----------------------------------------------------------------------------------------------


def read_table():
    text = re.sub(r"/\*.*?\*/", "", TABLE.read_text(), flags=re.S)
    constants = {n: int(v, 0) for n, v in re.findall(r"^CONSTANT\((\w+), (\w+)\)$", text, re.M)}
    calls = {}
    for kind, row in re.findall(r"^(SYSCALL|CLAUSE)\((.*)\)$", text, re.M):
        name, rest = re.split(r",\s*", row, maxsplit=1)
        if kind == "SYSCALL":
            nr, arm, verdict = re.split(r",\s*", rest)
            calls[name] = Call(name, int(nr), int(arm), verdict, [])
        else:
            verdict, conditions = rest.split(", ", 1)
            calls[name].clauses.append(Clause(verdict, read_conditions(conditions, constants)))
    return calls


def read_conditions(text, constants):
    found = []
    for kind, args in re.findall(r"(EQ|BITS|ANY|ALWAYS)(?:\(([^)]*)\))?", text):
        words = args.split(", ") if args else []
        numbers = [int(words[0])] + [constants[w] for w in words[1:]] if words else []
        if kind == "EQ":
            numbers.insert(1, 0xFFFFFFFF)
        found.append(Condition(kind, *(numbers + [0, 0, 0])[:3]))
    assert found, text
    return found


def holds(condition, args):
    bits = args[condition.arg] & condition.mask & 0xFFFFFFFF
    return {"ALWAYS": True, "ANY": bits != 0}.get(condition.kind, bits == condition.value)


def expected(call, args):
    """(verdict, errno) that sysprobe must report for this call with these arguments."""
    verdict = call.verdict if call else "NOSYS"
    if verdict == "CLAUSES":
        matching = (c.verdict for c in call.clauses if all(holds(x, args) for x in c.conditions))
        verdict = next(matching, "EPERM")
    if verdict in ("ALLOW", "UNHEARD"):  # nobody listens to a box of `glovebox run`: see test_refusals.py
        return "allowed", 0
    return "refused", {"NOSYS": errno.ENOSYS, "TOLD": errno.EPERM}.get(verdict) or getattr(errno, verdict)


CALLS = read_table()
BY_NR = {c.nr: c for c in CALLS.values() if c.nr >= 0}


def test_table_knows_every_call():
    assert sorted(BY_NR) == [*range(0, 337), *range(424, 472)]
    assert len(BY_NR) == sum(c.nr >= 0 for c in CALLS.values())
    on_arm = sorted(c.arm for c in CALLS.values() if c.arm >= 0)
    assert on_arm == [*range(0, 244), *range(260, 295), *range(424, 472)]


# --- in the box ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sysprobe(glovebox):
    path = glovebox.parent / "sysprobe"
    if not path.exists():
        pytest.fail(f"{path} is not there: run 'make build' first")
    return path


@pytest.fixture(scope="module")
def ask(run, sysprobe, tmp_path_factory):
    """ask([(entry, nr, args), ...]): what sysprobe reports in a fresh box; None asks for its sweep."""

    def call(cases=None):
        files, script = ["--file", sysprobe], b"./sysprobe\n"
        if cases is not None:
            path = tmp_path_factory.mktemp("cases") / "cases.txt"
            path.write_text("".join(f"{e} {nr} {' '.join(map(str, pad(args)))}\n" for e, nr, args in cases))
            files += ["--file", path]
            script = b"./sysprobe - < cases.txt\n"
        done = run("run", *files, "--shell", "-", input=script)
        assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-2000:])
        reports = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(reports) == (len(ENTRIES) * (LAST_NR + 1) if cases is None else len(cases))
        return reports

    return call


@pytest.fixture(scope="module")
def sweep(ask):
    return {(r["entry"], r["nr"]): r for r in ask()}


def pad(args):
    return [*args, 0, 0, 0, 0, 0][:5]


def differences(pairs):
    """pairs of (report, wanted (verdict, errno), what it was about)."""
    return [f"{about}: is {r['verdict']} errno {r['errno']} signal {r['signal']}, must be {want[0]} {want[1]}"
            for r, want, about in pairs if (r["verdict"], r["errno"]) != want]


def test_every_number(sweep):
    pairs = []
    for nr in range(LAST_NR + 1):
        call = BY_NR.get(nr)
        want, report = expected(call, pad([])), sweep["x86_64", nr]
        name = call.name if call else "unknown"
        if (report["verdict"], report["errno"]) == NOT_FILTERED.get(name):
            continue
        pairs.append((report, want, f"{nr} {name}"))
    assert differences(pairs) == []


def test_x32_is_refused(sweep):
    pairs = [(sweep["x32", nr], ("refused", errno.ENOSYS), f"x32 {nr}") for nr in range(LAST_NR + 1)]
    assert differences(pairs) == []


def test_int80_is_refused(sweep):
    reports = [sweep["i386", nr] for nr in range(LAST_NR + 1)]
    if all(r["verdict"] == "no entry" for r in reports):
        return  # a kernel without 32-bit programs: there is nothing to refuse
    assert differences((r, ("refused", errno.ENOSYS), f"int 0x80 {r['nr']}") for r in reports) == []


# --- arguments -----------------------------------------------------------------------------------------------


def edges(condition):
    """Values around the one that a condition asks for, with and without bits that must not matter."""
    low = {condition.value, condition.value - 1, condition.value + 1, condition.mask,
           condition.value | ~condition.mask, ~condition.mask}
    if condition.kind == "ANY":
        low |= {1 << bit for bit in range(32)}
    return {v & 0xFFFFFFFF | high for v in low for high in (0, 1 << 32, 0xFFFFFFFF << 32)}


def clause_cases(call):
    """Per clause: arguments that match it, then each of them moved through all edges of the call."""
    per_arg = collections.defaultdict(set)
    for clause in call.clauses:
        for c in clause.conditions:
            if c.kind != "ALWAYS":
                per_arg[c.arg] |= edges(c)
    cases = set()
    for clause in call.clauses:
        base = [0] * 5
        for c in clause.conditions:
            base[c.arg] = c.mask if c.kind == "ANY" else c.value
        cases.add(tuple(base))
        for arg, values in per_arg.items():
            cases |= {tuple([*base[:arg], v, *base[arg + 1:]]) for v in values}
    return sorted(cases)


def test_edges_of_every_clause(ask):
    wanted = [(c, args) for c in BY_NR.values() for args in (clause_cases(c) if c.clauses else ())]
    reports = ask([("x86_64", c.nr, args) for c, args in wanted])
    pairs = [(r, expected(c, args), f"{c.name}{tuple(map(hex, args))}") for r, (c, args) in zip(reports, wanted)]
    assert differences(pairs) == []


OK = ("allowed", 0)
EPERM, EINVAL, ENOMEM = (("refused", e) for e in (errno.EPERM, errno.EINVAL, errno.ENOMEM))
NO_FAMILY, NO_PROTOCOL = ("refused", errno.EAFNOSUPPORT), ("refused", errno.EPROTONOSUPPORT)
STREAM, DGRAM, RAW, SEQPACKET, SOCK_PACKET = 1, 2, 3, 5, 10
CLOEXEC_NONBLOCK = 0o2000000 | 0o4000
HIGH = 1 << 32
SIGCHLD = 17
TIOCSTI, TIOCLINUX, TIOCGWINSZ = 0x5412, 0x541C, 0x5413
PTHREAD = 0x3D0F00  # flags of pthread_create

ACTS = {
    # name of the act: (call, arguments, what must be reported)
    "unix stream": ("socket", (1, STREAM | CLOEXEC_NONBLOCK), OK),
    "unix seqpacket": ("socket", (1, SEQPACKET), OK),
    "unix raw": ("socket", (1, RAW), EPERM),
    "tcp": ("socket", (2, STREAM | CLOEXEC_NONBLOCK, 6), OK),
    "tcp 6": ("socket", (10, STREAM), OK),
    "udp": ("socket", (2, DGRAM, 17), OK),
    "udp 6": ("socket", (10, DGRAM | CLOEXEC_NONBLOCK), OK),
    "raw icmp": ("socket", (2, RAW, 1), EPERM),
    "raw 6": ("socket", (10, RAW | CLOEXEC_NONBLOCK, 255), EPERM),
    "raw, high bits": ("socket", (2 | HIGH, RAW | HIGH, 1), EPERM),
    "inet packet": ("socket", (2, SOCK_PACKET, 3), EPERM),
    "ping": ("socket", (2, DGRAM, 1), NO_PROTOCOL),
    "sctp stream": ("socket", (2, STREAM, 132), NO_PROTOCOL),
    "sctp seqpacket": ("socket", (10, SEQPACKET, 132), EPERM),
    "mptcp": ("socket", (2, STREAM, 262), NO_PROTOCOL),
    "dccp": ("socket", (2, 6, 33), EPERM),
    "udplite": ("socket", (2, DGRAM, 136), NO_PROTOCOL),
    "l2tp": ("socket", (2, DGRAM, 115), NO_PROTOCOL),
    "netlink route": ("socket", (16, RAW | CLOEXEC_NONBLOCK, 0), OK),
    "netlink sock_diag": ("socket", (16, RAW, 4), EPERM),
    "netlink netfilter": ("socket", (16, RAW, 12), EPERM),
    "netlink uevent": ("socket", (16, DGRAM, 15), EPERM),
    "netlink generic": ("socket", (16, RAW, 16), EPERM),
    "netlink crypto": ("socket", (16, RAW, 21), EPERM),
    "netlink netfilter, high bits": ("socket", (16 | HIGH, RAW, 12 | HIGH), EPERM),
    "AF_X25": ("socket", (9, SEQPACKET), NO_FAMILY),
    "AF_KEY": ("socket", (15, RAW, 2), NO_FAMILY),
    "AF_PACKET": ("socket", (17, RAW, 0x300), NO_FAMILY),
    "AF_PACKET dgram": ("socket", (17, DGRAM, 0x300), NO_FAMILY),
    "AF_RDS": ("socket", (21, SEQPACKET), NO_FAMILY),
    "AF_CAN": ("socket", (29, RAW, 1), NO_FAMILY),
    "AF_TIPC": ("socket", (30, SEQPACKET), NO_FAMILY),
    "AF_BLUETOOTH": ("socket", (31, RAW, 1), NO_FAMILY),
    "AF_ALG": ("socket", (38, SEQPACKET), NO_FAMILY),
    "AF_VSOCK": ("socket", (40, STREAM), NO_FAMILY),
    "AF_KCM": ("socket", (41, DGRAM), NO_FAMILY),
    "AF_QIPCRTR": ("socket", (42, DGRAM), NO_FAMILY),
    "AF_SMC": ("socket", (43, STREAM), NO_FAMILY),
    "AF_XDP": ("socket", (44, RAW), NO_FAMILY),
    "AF_ALG, high bits": ("socket", (38 | HIGH, SEQPACKET), NO_FAMILY),
    "socketpair": ("socketpair", (1, STREAM), OK),
    "socketpair of AF_TIPC": ("socketpair", (30, SEQPACKET), NO_FAMILY),
    "kernel TLS": ("setsockopt", (3, 6, 31), ("refused", errno.ENOENT)),
    "TCP_NODELAY": ("setsockopt", (3, 6, 1), OK),
    "fork": ("clone", (SIGCHLD,), OK),
    "fork of glibc": ("clone", (0x1200000 | SIGCHLD,), OK),
    "thread": ("clone", (PTHREAD,), OK),
    "vfork of glibc": ("clone", (0x4100 | SIGCHLD,), OK),
    **{f"clone {name}": ("clone", (flag | SIGCHLD,), EPERM) for name, flag in {
        "NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000,
        "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}.items()},
    "clone NEWUSER in a thread": ("clone", (0x10000000 | PTHREAD,), EPERM),
    "clone NEWUSER, high bits": ("clone", (0xFFFFFFFF10000000 | SIGCHLD,), EPERM),
    "clone3": ("clone3", (0, 88), ("refused", errno.ENOSYS)),
    "unshare NEWUSER": ("unshare", (0x10000000,), EPERM),
    "unshare NEWTIME": ("unshare", (0x80,), EPERM),
    "TIOCSTI": ("ioctl", (0, TIOCSTI), EPERM),
    "TIOCSTI, high bits": ("ioctl", (0, TIOCSTI | HIGH), EPERM),
    "TIOCSTI, all high bits": ("ioctl", (0, TIOCSTI | 0xFFFFFFFF << 32), EPERM),
    "TIOCLINUX": ("ioctl", (0, TIOCLINUX), EPERM),
    "TIOCLINUX, high bits": ("ioctl", (0, TIOCLINUX | HIGH), EPERM),
    "TIOCCONS": ("ioctl", (0, 0x541D), EPERM),
    "TIOCSETD": ("ioctl", (0, 0x5423), EPERM),
    "TIOCGWINSZ": ("ioctl", (0, TIOCGWINSZ), OK),
    "change a project id": ("ioctl", (0, 0x401C5820), EPERM),
    "chattr": ("ioctl", (0, 0x40086602), EPERM),
    "btrfs subvolume": ("ioctl", (0, 0x5000940E), EPERM),
    "copy by reference": ("ioctl", (0, 0x40049409), OK),
    "personality query": ("personality", (0xFFFFFFFF,), OK),
    "personality query, 64 bits": ("personality", (0xFFFFFFFFFFFFFFFF,), OK),
    "personality none": ("personality", (0,), OK),
    "no address randomisation": ("personality", (0x40000,), EPERM),
    "no address randomisation, high bits": ("personality", (0x40000 | HIGH,), EPERM),
    "read implies exec": ("personality", (0x400000,), EPERM),
    "mknod fifo": ("mknod", (0, 0o010644), OK),
    "mknod file": ("mknod", (0, 0o644), OK),
    "mknod socket": ("mknod", (0, 0o140644), OK),
    "mknod block device": ("mknod", (0, 0o060644, 0x801), EPERM),
    "mknod character device": ("mknod", (0, 0o020644, 0x101), EPERM),
    "mknod block device, high bits": ("mknod", (0, 0o060644 | 0xABCD0000 | HIGH, 0x801), EPERM),
    "mknodat fifo": ("mknodat", (-100 % (1 << 64), 0, 0o010644), OK),
    "mknodat block device": ("mknodat", (-100 % (1 << 64), 0, 0o060644, 0x801), EPERM),
    "name a thread": ("prctl", (15,), OK),
    "no_new_privs": ("prctl", (38, 1), OK),
    "PR_SET_MM": ("prctl", (35, 13), EINVAL),
    "core scheduling": ("prctl", (62, 1), EINVAL),
    "merge all pages": ("prctl", (67, 1), EINVAL),
    "merge pages": ("madvise", (0, 0, 12), EINVAL),
    "merge pages, high bits": ("madvise", (0, 0, 12 | HIGH), EINVAL),
    "give pages back": ("madvise", (0, 0, 4), OK),
    "map memory": ("mmap", (0, 4096, 3, 0x22), OK),
    "map huge pages": ("mmap", (0, 4096, 3, 0x40022), ENOMEM),
    "memfd": ("memfd_create", (0, 3), OK),
    "memfd of huge pages": ("memfd_create", (0, 4), ENOMEM),
    "shared huge pages": ("shmget", (0, 4096, 0o4000 | 0o1600), ENOMEM),
}


def test_acts(ask):
    reports = ask([("x86_64", CALLS[name].nr, args) for name, args, _ in ACTS.values()])
    assert differences((r, want, act) for r, (act, (_, _, want)) in zip(reports, ACTS.items())) == []


REFUSED = """
    unshare setns mount umount2 pivot_root chroot fsopen fsconfig fsmount fspick move_mount open_tree
    open_tree_attr mount_setattr ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp bpf perf_event_open
    userfaultfd kexec_load kexec_file_load init_module finit_module delete_module add_key keyctl request_key
    name_to_handle_at open_by_handle_at quotactl quotactl_fd swapon swapoff reboot syslog acct iopl ioperm
    lookup_dcookie modify_ldt vmsplice fanotify_init fanotify_mark memfd_secret mbind set_mempolicy
    set_mempolicy_home_node migrate_pages move_pages settimeofday clock_settime clock_adjtime adjtimex sethostname
    setdomainname vhangup lsm_set_self_attr
""".split()
ABSENT = "clone3 io_uring_setup io_uring_enter io_uring_register statmount listmount cachestat".split()


def test_refused_by_name(sweep):
    pairs = [(sweep["x86_64", CALLS[n].nr], ("refused", errno.EPERM), n) for n in REFUSED]
    pairs += [(sweep["x86_64", CALLS[n].nr], ("refused", errno.ENOSYS), n) for n in ABSENT]
    assert differences(pairs) == []


# --- and the ordinary still works ----------------------------------------------------------------------------

ORDINARY = r"""
import asyncio, concurrent.futures, ctypes, fcntl, mmap, multiprocessing, os, pty, select, signal, socket
import sqlite3, subprocess, sys, tempfile, threading, time
from multiprocessing import shared_memory


def square(n):
    return n * n


async def child():
    p = await asyncio.create_subprocess_exec("/bin/sh", "-c", "echo async", stdout=subprocess.PIPE)
    return (await p.communicate())[0]


def terminal():
    pid, fd = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", "test -t 0 && echo terminal"])
    text = os.read(fd, 100)
    os.waitpid(pid, 0)
    return b"terminal" in text


def memory_file():
    fd = os.memfd_create("m", os.MFD_CLOEXEC)
    os.ftruncate(fd, 4096)
    with mmap.mmap(fd, 4096) as m:
        m[:3] = b"abc"
        return os.pread(fd, 3, 0) == b"abc"


def shared():
    s = shared_memory.SharedMemory(create=True, size=4096)
    s.buf[0] = 7
    t = shared_memory.SharedMemory(name=s.name)
    ok = t.buf[0] == 7
    t.close(), s.close(), s.unlink()
    return ok


def sockets():
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_connection(a.getsockname()) as b:
        c, _ = a.accept()
        with c:
            b.sendall(b"x")
            return c.recv(1) == b"x"


def process_fd():
    p = subprocess.Popen(["/bin/sleep", "100"])
    fd = os.pidfd_open(p.pid)
    signal.pidfd_send_signal(fd, signal.SIGKILL)
    return p.wait() == -signal.SIGKILL


def database():
    db = sqlite3.connect(os.path.join(tempfile.mkdtemp(), "db"))
    db.execute("pragma journal_mode=wal")
    db.execute("create table t (x)")
    db.execute("insert into t values (1)")
    db.commit()
    return db.execute("select count(*) from t").fetchone() == (1,)


def main():
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(square, range(9))) == [n * n for n in range(9)], "threads"
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(len, ["a", "bb"]) == [1, 2], method
    assert asyncio.run(child()) == b"async\n", "asyncio"
    for f in (terminal, memory_file, shared, sockets, process_fd, database):
        assert f(), f.__name__
    assert socket.getaddrinfo("127.0.0.1", 80), "getaddrinfo"
    os.sync()
    print("all is well")


if __name__ == "__main__":
    main()
"""


def test_ordinary_programs_do_not_notice(run, tmp_path):
    (tmp_path / "ordinary.py").write_text(ORDINARY)
    done = run("run", "--file", tmp_path / "ordinary.py", "--shell", "-", input=b"python3 ordinary.py\n")
    assert (done.returncode, done.stdout) == (0, b"all is well\n"), done.stderr[-3000:]
