# SPDX-License-Identifier: Apache-2.0
"""The end of a thawed program. It says itself how it ended, on a channel that user code can come by, before its memory is torn down.

What must hold: the same statuses, all output and the right figures, as if init had waited for it; and who lies ends only itself.
"""
import json
import platform
import signal
import struct

import pytest

from test_posture import NEEDS_ROOT
from thaws import ENV, EXITED, PYTHON, SIGNALED, SWEEP, THAW, common_place, usual, words  # noqa: F401

pytestmark = [NEEDS_ROOT, pytest.mark.skipif(platform.machine() != "x86_64", reason="every start is cold here")]

TIMED_OUT, NOT_BEGUN = 1, 8
MIB = 1 << 20

# The channel, as user code finds it; and what may be said there.
FORGER = """
import os, sys, time
channel, = (int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) >= 100 and os.path.exists(f"/proc/self/fd/{fd}"))
def ended(status):
    return bytes([13]) + bytes(15) + bytes([status])
"""


@pytest.fixture
def box(usual):
    return usual.box(usual.image("program", ("json", "subprocess")))


def begin(box, code, flags=SWEEP, timeout_us=0):
    job = box.thawed(flags=THAW | flags)
    config = {"env": words(ENV), "cwd": "/workspace", "argv": [PYTHON, f"/workspace/p{job}.py"], "source": code}
    box.box.go(job, json.dumps(config).encode(), timeout_us)
    return job


def run(box, code, **kw):
    """stdout and how it ended."""
    out, err, end = box.box.until_exit(begin(box, code, **kw))
    assert err == b"", err.decode()
    assert end.flags & NOT_BEGUN == 0
    return out.decode(), end


# (how, code) of programs that say something they should not, or nothing.
PROGRAMS = {
    "status": ("sys.exit(3)", (EXITED, 3)),
    "forged": ("os.write(channel, ended(7))\ntime.sleep(1000)", (EXITED, 7)),
    "forged by a child": ("if os.fork() == 0:\n    os.write(channel, ended(8))\n    os._exit(0)\nos.wait()\nsys.exit(6)", (EXITED, 6)),
    "forged by who goes on": ("if os.fork() == 0:\n    os.write(channel, ended(8))\n    time.sleep(1000)\ntime.sleep(.1)\nsys.exit(6)", (EXITED, 6)),
    "twice": ("os.write(channel, ended(7)), os.write(channel, ended(8))\ntime.sleep(1000)", (EXITED, 7)),
    "too long": ("os.write(channel, ended(7) + b'x')\nsys.exit(4)", (EXITED, 4)),
    "too short": ("os.write(channel, bytes([13]))\nsys.exit(4)", (EXITED, 4)),
    "of another kind": ("os.write(channel, bytes([15]) + bytes(15))\nsys.exit(4)", (EXITED, 4)),
    "closed": ("os.closerange(3, 1000)\nsys.exit(5)", (EXITED, 5)),
    "shut down": ("import socket\nsocket.socket(fileno=channel).shutdown(2)\nsys.exit(5)", (EXITED, 5)),
    "a child ends first": ("if os.fork() == 0:\n    sys.exit(9)\nos.wait()\nsys.exit(6)", (EXITED, 6)),
    "a child that nobody waits for": ("if os.fork() == 0:\n    sys.exit(9)\ntime.sleep(.1)\nsys.exit(6)", (EXITED, 6)),
    "another program": ("os.execv('/bin/sh', ['sh', '-c', 'exit 6'])", (EXITED, 6)),
    "a signal": ("os.kill(os.getpid(), 15)", (SIGNALED, signal.SIGTERM)),
    "at once": ("os._exit(2)", (EXITED, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_statuses(box, name):
    code, expected = PROGRAMS[name]
    _, end = run(box, FORGER + code)
    assert (end.how, end.code) == expected


def test_what_has_the_number_of_the_channel_is_left_alone(box):
    out, end = run(box, FORGER + "os.dup2(os.open('file', os.O_RDWR | os.O_CREAT), channel)\nprint('x')\nsys.exit(5)")
    assert (out, end.how, end.code) == ("x\n", EXITED, 5)
    assert box.run("import os\nprint(os.path.getsize('/workspace/file'))") == 0


def test_all_output_comes_before_the_end(box):
    out, end = run(box, "import os, sys\nfor i in range(300000): print(i)\nsys.stdout.flush()\nos.write(1, b'last\\n')")
    assert out == "".join(f"{i}\n" for i in range(300000)) + "last\n" and (end.how, end.code) == (EXITED, 0)
    assert end.stdout_bytes == len(out)


def test_nobody_is_left(box):
    """What the program left running is gone, although nobody waited for it."""
    out, _ = run(box, "import subprocess, sys\np = subprocess.Popen(['/bin/sleep', '1000'])\nprint(p.pid)")
    assert box.run(f"import os\nprint(int(os.path.exists('/proc/{int(out)}/exe')))") == 0


def test_what_somebody_else_printed_is_there(box):
    out, end = run(box, "import os, sys, time\nr, w = os.pipe()\nif os.fork() == 0:\n    print('child', flush=True)\n    os.write(w, b'x')\n    time.sleep(1000)\n"
                        "os.read(r, 1)\nprint('parent')\nsys.exit(4)")
    assert (out, end.how, end.code) == ("child\nparent\n", EXITED, 4)


def test_time_is_over(box):
    _, end = run(box, "while True: pass", timeout_us=300000)
    assert (end.how, end.code, end.flags) == (SIGNALED, signal.SIGKILL, TIMED_OUT)


BURN = "import time\nkept = bytearray(b'x') * (100 << 20)\nwhile time.process_time() < .3: pass\n"


@pytest.mark.parametrize("who", ["the program", "a thread", "a child", "a child of another program"])
def test_figures(box, who):
    """Of whoever used it, as far as it was waited for."""
    code = {"the program": BURN,
            "a thread": f"import threading\nt = threading.Thread(target=exec, args=({BURN!r}, {{}}))\nt.start()\nt.join()",
            "a child": f"import os\nif os.fork() == 0:\n    exec({BURN!r})\n    os._exit(0)\nos.wait()",
            "a child of another program": f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])"}[who]
    _, end = run(box, code)
    assert (end.how, end.code) == (EXITED, 0)
    assert end.user_us + end.sys_us >= 300000 and end.max_rss >= 100 * MIB
    assert end.wall_us > 0 and end.max_rss < 1024 * MIB


def test_another_job_is_not_ended_by_it(box):
    """Without JOB_SWEEP the program ends alone, and what is told of it is what the system says."""
    other = box.start("/bin/sleep", "1000")
    end = box.box.until_exit(begin(box, "import sys\nsys.exit(3)", flags=0))[2]
    assert (end.how, end.code) == (EXITED, 3)
    box.box.send("SIGNAL", other, body=struct.pack("<II", signal.SIGTERM, 0))
    end = box.box.until_exit(other)[2]
    assert (end.how, end.code) == (SIGNALED, signal.SIGTERM)
