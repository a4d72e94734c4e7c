# SPDX-License-Identifier: Apache-2.0
"""The archive program in a box, beside somebody hostile there: all boxes have the same file, and nobody may come to it.

What an archive can do is tried without a box (tests/api/test_archive_program.py). Here it is seen that a box has the program, whoever its
user is, and that nothing leads from its process to the file that other boxes have, too.
"""
import errno
import io
import json
import os
import struct
import sys
import tarfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tars  # noqa: E402
from gate import JOB_FILE, entries  # noqa: E402
from test_posture import NEEDS_ROOT  # noqa: E402
from test_warm_attacks import HOSTILE  # noqa: E402
from thaws import STDIN, common_place, every_place, place, usual  # noqa: E402,F401

pytestmark = [NEEDS_ROOT, pytest.mark.more]

EXITED = 0
HALF = tars.file("d/a", "1") + tars.head("big", size=1 << 20) + b"x" * 10_000

# What comes of trying everything on one process, again and again until it has ended.
LOOK = r"""
pid = int(sys.argv[1])
gained, rounds = set(), 0
tell("up")
while not over:
    gained.update(went([*reaching(pid), *looking(pid)]))
    rounds += 1
tell({"gained": sorted(gained), "rounds": rounds, "name": state(pid)[0]})
"""


def unpack(box, data):
    return box.box.file("unpack", "out", "auto", "0", "0", data=data)


def waiting(box):
    """(job, pid) of one that unpacks and waits for more."""
    box.last += 1
    job = box.last
    box.box.run(job, "unpack", "out", "auto", "0", "0", kind=JOB_FILE, flags=STDIN, cwd="/workspace")
    pid = struct.unpack("<I", box.box.wait_for(job, "STARTED").body)[0]
    box.box.send("INPUT", job, 0, body=HALF)
    sent = 0
    while sent < len(HALF):
        sent = box.box.wait_for(job, "INPUT_ACK").number
    return job, pid


def test_every_box_has_it(place):  # noqa: F811
    """One that was made for Python, and one that was not; whoever its user is."""
    for image in (None, 0):
        box = place.box(image)
        out, err, end = unpack(box, tars.file("d/a", "1") + tars.head("d/ro", "5", mode=0o555) + tars.END)
        assert (end.how, end.code, err) == (EXITED, 0, b"")
        assert [e.path for e in entries(out)] == [b"out"]
        out, err, end = box.box.file("pack", "out", "tar.gz", "all")
        assert (end.how, end.code, err) == (EXITED, 0, b"")
        with tarfile.open(fileobj=io.BytesIO(out)) as t:
            assert sorted(t.getnames()) == ["d", "d/a", "d/ro"]
        _, err, end = unpack(box, tars.file("../x", "1"))
        assert (end.how, end.code) == (EXITED, errno.EBADMSG) and b"'../x' leads out" in err
        assert box.run('import json, os; print(json.dumps(sorted(os.listdir("/workspace"))))') == ["out"]


def test_nobody_comes_to_its_file(place):  # noqa: F811
    box = place.box(0)
    job, pid = waiting(box)
    looker = box.python(HOSTILE + LOOK, str(pid))
    assert box.told(looker) == "up"
    box.run('import json; print(json.dumps([]))')
    found = box.asked(looker)
    assert found["gained"] == [] and found["rounds"] > 0
    box.signal(job, 15)
    _, err, end = box.box.until_exit(job)
    assert (end.how, end.code, err) == (EXITED, errno.EINTR, b"asked to stop\n")
    assert box.run('import json, os; print(json.dumps(os.listdir("/workspace")))') == []


OWN = r"""
import json, os
print(json.dumps({name: os.path.realpath(f"/proc/self/fd/{name}") for name in sorted(os.listdir("/proc/self/fd"))
                  if os.path.exists(f"/proc/self/fd/{name}")}))
"""


def test_programs_are_not_given_it(place):  # noqa: F811
    assert not [p for p in place.box(0).run(OWN).values() if "archive" in p]


def test_no_space_in_the_box(usual):  # noqa: F811
    box = usual.box(0, WORKSPACE=1 << 20, FILE=16 << 20)
    _, err, end = unpack(box, tars.file("a", b"x" * 100_000) + tars.file("b", b"x" * 3_000_000) + tars.END)
    assert (end.how, end.code) == (EXITED, errno.ENOSPC) and b"'b'" in err
    assert box.run('import json, os; print(json.dumps(os.listdir("/workspace")))') == []
