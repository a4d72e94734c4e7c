# SPDX-License-Identifier: Apache-2.0
"""The end of a thawed program. It says itself how it ended, by its name and by stopping, before its memory is torn down. User code can do so, too.

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

# What a program does at its end, as user code can do it.
FORGER = """
import ctypes, os, sys, time
def named(name):
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)
def ended(status):
    named(b"gb-ended %d" % status)
    os.kill(os.getpid(), 19)
def child(act):
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    return pid
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
    "forged": ("ended(7)\ntime.sleep(1000)", (EXITED, 7)),
    "forged, with somebody else there": ("child(lambda: time.sleep(1000))\nended(7)\nsys.exit(4)", (EXITED, 4)),
    "forged by a child": ("pid = child(lambda: ended(8))\nos.waitpid(pid, os.WUNTRACED)\nsys.exit(6)", (EXITED, 6)),
    "named by a child": ("def name():\n    try: open(f'/proc/{os.getppid()}/comm', 'w').write('gb-ended 8')\n    except OSError: pass\n"
                         "child(name)\nos.wait()\nsys.exit(6)", (EXITED, 6)),
    "stopped by a child": ("pid = child(lambda: (os.kill(os.getppid(), 19), time.sleep(.2), os.kill(os.getppid(), 18)))\nos.wait()\nsys.exit(6)", (EXITED, 6)),
    "woken by a child": ("me = os.getpid()\ndef wake():\n    while True: os.kill(me, 18)\nchild(wake)\nsys.exit(6)", (EXITED, 6)),
    "ignores SIGCONT": ("import signal\nsignal.signal(18, signal.SIG_IGN)\nchild(lambda: time.sleep(1000))\nsys.exit(6)", (EXITED, 6)),
    "blocks what it can": ("import signal\nsignal.pthread_sigmask(0, signal.valid_signals())\nchild(lambda: time.sleep(1000))\nsys.exit(6)", (EXITED, 6)),
    "the name alone": ("named(b'gb-ended 7')\nsys.exit(4)", (EXITED, 4)),
    "a status too large": ("named(b'gb-ended 256')\nchild(lambda: (time.sleep(.2), os.kill(os.getppid(), 18)))\nos.kill(os.getpid(), 19)\nsys.exit(4)", (EXITED, 4)),
    "a child ends first": ("if os.fork() == 0:\n    sys.exit(9)\nos.wait()\nsys.exit(6)", (EXITED, 6)),
    "a child that nobody waits for": ("if os.fork() == 0:\n    sys.exit(9)\ntime.sleep(.1)\nsys.exit(6)", (EXITED, 6)),
    "a thread that goes on": ("import threading\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\nsys.exit(6)", (EXITED, 6)),
    "closed": ("os.closerange(0, 1000)\nsys.exit(5)", (EXITED, 5)),
    "another program": ("os.execv('/bin/sh', ['sh', '-c', 'exit 6'])", (EXITED, 6)),
    "a signal": ("os.kill(os.getpid(), 15)", (SIGNALED, signal.SIGTERM)),
    "at once": ("os._exit(2)", (EXITED, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_statuses(box, name):
    code, expected = PROGRAMS[name]
    _, end = run(box, FORGER + code)
    assert (end.how, end.code) == expected


def test_nothing_of_ours_is_open_in_it(box):
    """It needs no descriptor for that."""
    out, _ = run(box, "import os\nprint(sorted(fd for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')))")
    assert out == "['0', '1', '2']\n"


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
