# SPDX-License-Identifier: Apache-2.0
"""Pages that a thawed Python has for its own before it goes on: by the list of its image, and of no box but its own."""
import json
import platform
import time

import pytest

from test_posture import NEEDS_ROOT
from thaws import ENV, EXITED, KERNEL, PYTHON, SWEEP, THAW, common_place, usual, words  # noqa: F401

pytestmark = [NEEDS_ROOT, pytest.mark.skipif(platform.machine() != "x86_64", reason="every start is cold here")]

FLAGS = {"program": THAW | SWEEP, "kernel": THAW | KERNEL}
# A zygote that rehearses nothing.
NO_LIST = "zygote.rehearsal.learn = lambda perform, play: []"
OWN = """
import json, re, sys
with open(f"/proc/{sys.argv[1]}/smaps_rollup") as f:
    print(json.dumps(sum(map(int, re.findall("Anonymous: *([0-9]+)", f.read())))))
"""


def own_kib(box, job):
    """Of a process that waits, when it does not grow any more."""
    last, now = -1, box.run(OWN, str(box.pid(job)))
    while now != last:
        time.sleep(0.1)
        last, now = now, box.run(OWN, str(box.pid(job)))
    return now


@pytest.mark.parametrize("kind", FLAGS)
def test_pages_are_taken_ahead(usual, kind):
    sizes = []
    for before in ("", NO_LIST):
        box = usual.box(usual.image(kind, ("json",), before))
        sizes.append(own_kib(box, box.thawed(flags=FLAGS[kind])))
    assert sizes[0] >= sizes[1] + 400, "of a hundred pages at least"
    assert sizes[0] < sizes[1] + 16384 + 1024


@pytest.mark.parametrize("before", ["", NO_LIST])
def test_with_and_without_it_is_the_same_program(usual, before):
    box = usual.box(usual.image("program", ("json",), before))
    for _ in range(3):
        job = box.thawed(flags=FLAGS["program"])
        config = {"env": words(ENV), "cwd": "/workspace", "argv": [PYTHON, f"/workspace/p{job}.py"],
                  "source": "import json, sys\nprint(json.dumps(len(sys.modules) > 9))"}
        box.box.go(job, json.dumps(config).encode())
        out, err, end = box.box.until_exit(job)
        assert (out, err, end.how, end.code) == (b"true\n", b"", EXITED, 0)


def test_no_trace_of_the_rehearsal(usual):
    """A kernel counts its cells from one, and knows no name of the cell that was rehearsed."""
    box = usual.box(usual.image("kernel", ("json",)))
    kernel = box.kernel()
    assert box.shown(kernel, "print(get_ipython().execution_count)") == 1
    assert box.shown(kernel, "import json\nprint(json.dumps([n for n in ('_', '_i1', '_1') if n in globals() and globals()[n] == 1]))") == []
