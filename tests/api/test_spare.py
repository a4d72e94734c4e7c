# SPDX-License-Identifier: Apache-2.0
"""Boxes made ahead, below the server: BOX_SPARE, BOX_LIMITS and LIMITS, by a gate of the test's own.

A spare box that is given limits must be the box that would have been made with them. And it is given them once, before anybody has it.
"""
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from gate import Failed, Gone, Keeper, default_limits  # noqa: E402

pytestmark = [pytest.mark.more,
              pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")]

SPARE, KIT = 8, 16
HELD, JOB_KIT, KERNEL = 8, 32, 64
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ENV = ("PATH=/usr/bin:/bin",)

DEFAULTS = default_limits()
SMALL = {"MEMORY": 96 * MIB, "CPUS": 500, "CPU_SECONDS": 7, "PROCESSES": 20, "FILE": 300 * KIB, "WORKSPACE": 2 * MIB, "WORKSPACE_INODES": 40,
         "OPEN_FILES": 50, "SCRATCH": MIB, "SHM": 3 * MIB}
LARGE = {"MEMORY": 2 * GIB, "CPUS": 3000, "CPU_SECONDS": 900, "PROCESSES": 700, "FILE": GIB, "WORKSPACE": 700 * MIB, "WORKSPACE_INODES": 90000,
         "OPEN_FILES": 3000, "SCRATCH": 300 * MIB, "SHM": 200 * MIB}


@pytest.fixture
def keeper(glovebox):
    k = Keeper(glovebox)
    yield k
    k.stop()


def rlimits(limits):
    """The body of LIMITS, as wire/rlimits.h has it."""
    file = limits["FILE"] or limits["WORKSPACE"] + 65536
    return struct.pack("<4Q", limits["OPEN_FILES"], file, limits["PROCESSES"] + 1, limits["CPU_SECONDS"])


def give(box, **limits):
    """What a gate does when it hands a box out."""
    limits = {**DEFAULTS, **limits}
    box.send("LIMITS", body=rlimits(limits))
    box.keeper.call("BOX_LIMITS", struct.pack(f"<QH{len(limits)}Q", box.number, len(limits), *limits.values()))


def run(box, code, job=1):
    box.run(job, "/usr/bin/python3", "-c", code, env=ENV)
    out, err, end = box.until_exit(job)
    assert (end.how, end.code) == (0, 0), (out, err, end.how, end.code)
    return out.decode()


# What of a box can be seen from inside; the cgroup from outside.
LOOK = """
import json, os
seen = {"limits": open("/proc/self/limits").read(), "init": open("/proc/1/limits").read()}
for place in ("/workspace", "/tmp", "/home/box", "/dev/shm"):
    s = os.statvfs(place)
    seen[place] = s.f_blocks * s.f_frsize, s.f_files
seen["mounts"] = sorted(line.split(" ", 4)[4] for line in open("/proc/self/mountinfo") if "tmpfs" in line)
print(json.dumps(seen))
"""


def cgroup(keeper):
    """What the cgroups of the keeper's youngest box say."""
    child = max(int(pid) for pid in open(f"/proc/{keeper.process.pid}/task/{keeper.process.pid}/children", encoding="ascii").read().split())
    mounts = {}
    for line in open("/proc/self/mountinfo", encoding="utf-8"):
        fields = line.split()
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        if kind in ("cgroup", "cgroup2"):
            for name in options if kind == "cgroup" else [""]:
                mounts[name] = fields[4]
    said = {}
    for line in open(f"/proc/{child}/cgroup", encoding="utf-8"):
        _, kinds, path = line.rstrip("\n").split(":", 2)
        for kind in kinds.split(","):
            for name in ("memory.max", "memory.swap.max", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max", "cpu.max",
                         "cpu.cfs_quota_us"):
                try:
                    with open(f"{mounts[kind]}{path}/{name}", encoding="ascii") as f:
                        said[name] = f.read()
                except (OSError, KeyError):
                    pass
    return said


def look(box):
    outside = cgroup(box.keeper)
    assert any(name in outside for name in ("memory.max", "memory.limit_in_bytes")) and "pids.max" in outside, outside
    return json.loads(run(box, LOOK)), outside


@pytest.mark.parametrize("limits", [SMALL, LARGE, {**LARGE, "FILE": 0, "CPU_SECONDS": 0}], ids=["small", "large", "large, no bound"])
def test_it_is_the_box_that_was_wanted(keeper, limits):
    made = keeper.new_box(**limits)
    want = look(made)
    made.end()
    spare = keeper.new_box(flags=SPARE)
    give(spare, **limits)
    assert look(spare) == want


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("values", [SMALL, LARGE], ids=["smaller", "larger"])
def test_each_limit_by_itself(keeper, name, values):
    """So that none is there only because of another one."""
    made = keeper.new_box(**{name: values[name]})
    want = look(made)
    made.end()
    plain = keeper.new_box()
    usual = look(plain)
    plain.end()
    spare = keeper.new_box(flags=SPARE)
    give(spare, **{name: values[name]})
    assert look(spare) == want and want != usual


def test_who_waits_has_them_too(keeper):
    """A process that was started before."""
    box = keeper.new_box(flags=SPARE)
    waiting = "import socket; s = socket.socket(fileno=3); s.send(bytes([15]) + bytes(15)); s.recv(1)"
    box.run(9, "/usr/bin/python3", "-c", waiting, flags=HELD, env=ENV)
    box.wait_for(9, "READY")
    give(box, **SMALL)
    seen = run(box, "print(open('/proc/2/limits').read() == open('/proc/self/limits').read(), open('/proc/2/comm').read())")
    assert seen == "True python3\n\n"


@pytest.fixture
def unprivileged(glovebox):
    """A keeper of an ordinary user, who has no cgroups and one uid."""
    uid, home = 54322, pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
    shutil.copy(glovebox, home / "glovebox")
    os.chown(home, uid, uid)
    k = Keeper(home / "glovebox", env={"PATH": "/usr/bin:/bin", "HOME": str(home)}, uid=uid)
    yield k
    k.stop()
    shutil.rmtree(home)
    shutil.rmtree(f"/tmp/glovebox-{uid}", ignore_errors=True)


@pytest.mark.parametrize("limits", [SMALL, LARGE], ids=["small", "large"])
def test_without_privileges_it_is_the_same(unprivileged, limits):
    """Also upwards: nobody has to raise anything."""
    seen = []
    for spare in (False, True):
        lacks = ("own-uids", "memory-limit", "process-limit", "cpu-limit")
        box = unprivileged.new_box(flags=SPARE if spare else 0, waived=lacks, **({} if spare else limits))
        if spare:
            give(box, **limits)
        seen.append(json.loads(run(box, LOOK.replace(', "init": open("/proc/1/limits").read()', ""))))
    assert seen[0] == seen[1]


def test_unchanged_it_is_as_any_other(keeper):
    """The limits that it was made with: the keeper is not asked, init is."""
    plain = keeper.new_box()
    want = look(plain)
    plain.end()
    spare = keeper.new_box(flags=SPARE)
    spare.send("LIMITS", body=rlimits(DEFAULTS))
    assert look(spare) == want


# --- once, and first -----------------------------------------------------------------------------------------


def test_limits_are_given_once(keeper):
    box = keeper.new_box(flags=SPARE)
    give(box, **SMALL)
    with pytest.raises(Failed, match="do not change"):
        give(box, **LARGE)
    assert json.loads(run(box, LOOK))["/workspace"] == [2 * MIB, 40], "and nothing happened to it"


@pytest.mark.parametrize("op, body", [("BOX_DEADLINE", struct.pack("<Q", 10**9)), ("BOX_RECORD", struct.pack("<I", 3) + b"abc"), ("BOX_ATTACH", b"")])
def test_a_box_that_somebody_has_keeps_its_limits(keeper, op, body):
    box = keeper.new_box(flags=SPARE)
    if op == "BOX_ATTACH":
        box.attach()
    else:
        keeper.call(op, struct.pack("<Q", box.number) + body)
    with pytest.raises(Failed, match="do not change"):
        give(box, **LARGE)


def test_a_box_that_was_no_spare_keeps_its_limits(keeper):
    box = keeper.new_box()
    with pytest.raises(Failed, match="do not change"):
        give(box, **LARGE)
    box.run(1, "/bin/true", env=ENV)
    assert box.until_exit(1)[2].code == 0


def test_a_limit_out_of_range_is_refused(keeper):
    box = keeper.new_box(flags=SPARE)
    with pytest.raises(Failed, match="memory_bytes"):
        keeper.call("BOX_LIMITS", struct.pack(f"<QH{len(DEFAULTS)}Q", box.number, len(DEFAULTS), *{**DEFAULTS, "MEMORY": 1}.values()))
    give(box, **SMALL)  # still a spare


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b[:8] + b"\x03\0" + b[10:]], ids=["short", "long", "count"])
def test_a_malformed_one_ends_the_gate(keeper, change):
    box = keeper.new_box(flags=SPARE)
    body = struct.pack(f"<QH{len(DEFAULTS)}Q", box.number, len(DEFAULTS), *DEFAULTS.values())
    with pytest.raises((Gone, ConnectionResetError, BrokenPipeError)):
        keeper.call("BOX_LIMITS", change(body))


def test_all_of_them_or_the_end(keeper):
    """What is in the workspace does not fit any more, which no honest gate brings about: it has run something before."""
    box = keeper.new_box(flags=SPARE)
    run(box, "open('large', 'wb').write(bytes(8 << 20))")
    limits = {**DEFAULTS, **SMALL}
    with pytest.raises(Failed, match="resize the workspace"):
        keeper.call("BOX_LIMITS", struct.pack(f"<QH{len(limits)}Q", box.number, len(limits), *limits.values()))
    with pytest.raises(Failed, match="no such box"):
        keeper.call("BOX_FIGURES", struct.pack("<Q", box.number))
    with pytest.raises(Gone):
        while True:
            box.receive()


# --- what init takes -----------------------------------------------------------------------------------------


def test_init_takes_limits_before_anything_else(keeper):
    """Behind a program that ran they would not hold for what that one left: the gate that says so is shut out."""
    box = keeper.new_box(flags=SPARE)
    box.run(1, "/bin/true", env=ENV)
    box.until_exit(1)
    box.send("LIMITS", body=rlimits({**DEFAULTS, **SMALL}))
    with pytest.raises(Gone):
        while True:
            box.receive()


def test_init_raises_nothing(keeper):
    """In a box that was made with its limits LIMITS can only take away."""
    hard = "import resource as r\nprint([r.getrlimit(getattr(r, n))[1] for n in dir(r) if n.startswith('RLIMIT_')])"
    box, plain = keeper.new_box(**SMALL), keeper.new_box(**SMALL)
    box.send("LIMITS", body=rlimits({**DEFAULTS, **LARGE}))
    assert run(box, hard) == run(plain, hard)


@pytest.mark.parametrize("body", [struct.pack("<4Q", 0, 1, 1, 0), struct.pack("<4Q", 1 << 40, 1, 1, 0), struct.pack("<4Q", 9, 1, 1, 1 << 40)])
def test_init_takes_no_nonsense(keeper, body):
    box = keeper.new_box(flags=SPARE)
    box.send("LIMITS", body=body)
    with pytest.raises(Gone):
        while True:
            box.receive()


# --- what a kernel is started with ---------------------------------------------------------------------------


def test_a_kernel_starts_cold_where_there_is_no_image(keeper):
    """BOX_KIT without an image: the Python of kernel/ is there, thaw and freeze are not."""
    box = keeper.new_box(flags=KIT)
    box.run(5, "/usr/bin/python3", "-I", "-B", "/proc/self/fd/6", flags=HELD | JOB_KIT | KERNEL, env=(*ENV, "HOME=/home/box"))
    frame = box.wait_for(5, "READY", "EXIT")
    if frame.name == "EXIT":
        pytest.skip("no IPython here")
    box.go(5, json.dumps({"cwd": "/workspace"}).encode())
    assert json.loads(box.wait_for(5, "MESSAGE").body)["implementation"] == "ipython"
    box.cell(6, 5, json.dumps({"type": "execute", "content": {"code": "print(6 * 7)"}}).encode())
    assert box.until_cell(6).out == b"42\n"


def test_without_the_kit_there_is_none(keeper):
    box = keeper.new_box()
    box.run(5, "/usr/bin/python3", "-I", "-B", "/proc/self/fd/6", flags=HELD | JOB_KIT | KERNEL, env=ENV)
    with pytest.raises(Failed):
        box.wait_for(5, "READY", "EXIT")
