# SPDX-License-Identifier: Apache-2.0
"""Python from an image, and boxes made ahead: the same answers as a cold start, nothing shared, and nothing that fails when it fails.

The suites of /v1/execute and of its stream run both ways by themselves (server.both_ways). Here is what only a warm start can get
wrong.
"""
import json
import os
import pathlib
import re
import signal
import textwrap

import pytest

from server import POOLED, WARM, Server, metric, needs_root, serve, until, words_of  # noqa: F401

pytestmark = needs_root


@pytest.fixture(scope="module")
def servers(glovebox, tmp_path_factory):
    """A warm one and a cold one."""
    with Server(tmp_path_factory.mktemp("warm"), **WARM) as warm, Server(tmp_path_factory.mktemp("cold")) as cold:
        yield warm, cold


@pytest.fixture(scope="module")
def warm(servers):
    return servers[0]


def waiting_boxes(server):
    return metric(server, "glovebox_pool_boxes", state="waiting")


def full_pool(server, boxes=4):
    until(lambda: waiting_boxes(server) == boxes, "the pool is full")


def printed(server, code, **fields):
    answer = server.execute(textwrap.dedent(code), **{"timeout_ms": 20000, **fields})
    assert answer["exit_code"] == 0, answer
    return answer["stdout"]


# --- there is something warm ---------------------------------------------------------------------------------


def test_images_are_made_and_told(warm):
    images = warm.call("GET", "/health")[1]["warm"]
    assert images == ["lean", "full", "kernel"]
    for image in images:
        assert metric(warm, "glovebox_images", image=image) == 1
        assert re.search(rf"event=warm image={image} bytes=[0-9]+ ms=[0-9]+", warm.log())
    assert metric(warm, "glovebox_zygotes_total", outcome="failed") == 0


def test_programs_come_from_the_image(warm):
    """What is in the image is there without an import of its own; what is not, is not."""
    assert printed(warm, "import sys; print('json' in sys.modules, 'numpy' in sys.modules)") == "True True\n"  # it says numpy
    assert printed(warm, "import sys; print('json' in sys.modules, 'num' + 'py' in sys.modules)") == "True False\n"


def test_the_pool_is_used_and_filled_again(serve):
    warm = serve(**POOLED)
    full_pool(warm)
    hits, made = metric(warm, "glovebox_pool_taken_total", outcome="hit"), metric(warm, "glovebox_pool_made_total")
    for i in range(6):
        full_pool(warm)
        assert printed(warm, f"print({i})") == f"{i}\n"
    assert metric(warm, "glovebox_pool_taken_total", outcome="hit") == hits + 6
    full_pool(warm)
    assert metric(warm, "glovebox_pool_made_total") == made + 6


def test_an_empty_pool_is_slower_and_nothing_else(serve):
    server = serve(**WARM)
    for i in range(3):
        assert printed(server, f"print({i})") == f"{i}\n"
    assert metric(server, "glovebox_pool_taken_total", outcome="miss") == 3 and waiting_boxes(server) == 0


def test_warm_can_be_switched_off(serve):
    server = serve(warm="false")
    assert printed(server, "import sys; print('dataclasses' in sys.modules)") == "False\n"
    assert server.call("GET", "/health")[1]["warm"] == [] and "warm: off" in server.log()


# --- the same answers ----------------------------------------------------------------------------------------

PROGRAMS = {
    "main": "print(__name__, __file__, __builtins__, __doc__, __package__, __spec__, sorted(k for k in globals()))",
    "argv": "import sys; print(sys.argv, sys.path, sys.executable, sys.orig_argv, sys.flags, sys.prefix)",
    "exception": "def f(x):\n    return 1 / x\n\nf(0)",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('no') from e",
    "group": "raise ExceptionGroup('many', [ValueError(1), KeyError(2)])",
    "syntax": "x = (1,\n",
    "tabs": "if True:\n\tx = 1\n        y = 2\n",
    "encoding": "# -*- coding: latin-1 -*-\nprint('\u00e9')",
    "no encoding": "# -*- coding: nonsense -*-\nprint(1)",
    "exit 3": "import sys; print('x'); sys.exit(3)",
    "exit text": "import sys; sys.exit('a reason')",
    "exit none": "raise SystemExit",
    "exit in function": "def f(): exit(7)\nf()",
    "os exit": "import os; print('lost'); os._exit(5)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "interrupt": "raise KeyboardInterrupt",
    "interrupted": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "atexit": "import atexit\natexit.register(print, 'bye')\natexit.register(lambda: 1 / 0)\nprint('hello')",
    "thread goes on": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()\nprint('early')",
    "daemon": "import threading, time\nthreading.Thread(target=lambda: time.sleep(100), daemon=True).start()\nprint('x')",
    "thread fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()",
    "deleted at the end": "class A:\n    def __del__(self): print('deleted')\na = A()\nb = [a]\nb.append(b)",
    "unflushed file": "f = open('out.txt', 'w')\nf.write('content')",
    "recursion": "def f(n): return f(n + 1)\nf(0)",
    "recursion limit": "import sys; print(sys.getrecursionlimit())",
    "how deep": "import sys\nn = 0\ndef f():\n    global n\n    n += 1\n    f()\ntry:\n    f()\nexcept RecursionError:\n    print(n)",
    "stdin": "import sys; print(repr(sys.stdin.read()), sys.stdin.isatty())",
    "input": "print(input('? '))",
    "streams": "import sys\nfor f in (sys.stdin, sys.stdout, sys.stderr):\n    print(f.name, f.mode, f.encoding, f.errors, f.line_buffering, f.fileno())",
    "unbuffered": "import sys; print('x', end=''); sys.stdout.write('y'); raise ValueError",
    "bytes": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "closed stdout": "import sys; sys.stdout.close()",
    "no stdout": "import os; os.close(1); print('x')",
    "hook": "import sys; sys.excepthook = lambda *a: print('hooked', a[0]); 1 / 0",
    "bad hook": "import sys; sys.excepthook = 5; 1 / 0",
    "warning": "import warnings; warnings.warn('careful')",
    "pickle": "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A())).__class__)",
    "multiprocessing fork": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
                            "    with m.get_context('fork').Pool(2) as p: print(p.map(f, [1, 2]))",
    "multiprocessing spawn": "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
                             "    with m.get_context('spawn').Pool(2) as p: print(p.map(f, [1, 2]))",
    "subprocess": "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True))",
    "asyncio": "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\nprint(asyncio.run(f()))",
    "unretrieved": "import asyncio\nasync def g(): 1 / 0\nasync def f():\n    asyncio.create_task(g())\n    await asyncio.sleep(0.01)\nasyncio.run(f())",
    "inspect": "import inspect\ndef f(): return 1\nprint(inspect.getsource(f))",
    "import own": "open('mine.py', 'w').write('x = 3')\nimport mine\nprint(mine.x, mine.__file__)",
    "environment": "import os; print(sorted(os.environ.items()))",
    "place": "import os; print(os.getcwd(), os.umask(0o22), os.getuid(), os.getgid(), os.getgroups())",
    "signals": "import signal; print([(s.name, str(signal.getsignal(s))) for s in signal.valid_signals() if isinstance(s, signal.Signals)])",
    "modules": "import sys; print(sorted(k for k in sys.modules['__main__'].__dict__))",
    "locale": "import locale, sys; print(locale.getlocale(), sys.getfilesystemencoding(), locale.getpreferredencoding())",
    "gc": "import gc; print(gc.isenabled(), gc.get_threshold())",
    "annotations": "x: int = 5\nprint(__annotations__)",
    "numpy": "import numpy; print(numpy.arange(5).sum(), (numpy.ones((50, 50)) @ numpy.ones((50, 50))).sum())",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_answer_as_cold(servers, name):
    answers = []
    for server in servers:
        answer = server.execute(PROGRAMS[name], timeout_ms=20000, **({"stdin": "a line\n"} if name in ("stdin", "input") else {}))
        answers.append({key: answer[key] for key in ("stdout", "stderr", "exit_code", "timed_out")} |
                       {"files": sorted(f["path"] for f in answer["files"])})
        answers[-1]["stderr"] = re.sub(r"0x[0-9a-f]{6,}|Thread-[0-9]+|[0-9]{6,}", "N", answers[-1]["stderr"])
        answers[-1]["stdout"] = re.sub(r"0x[0-9a-f]{6,}", "N", answers[-1]["stdout"])
    assert answers[0] == answers[1]


# --- nothing shared ------------------------------------------------------------------------------------------

RANDOM = """
import json, os, random, secrets, ssl, tempfile, uuid
import numpy
import multiprocessing
print(json.dumps([random.random(), random.SystemRandom().random(), numpy.random.rand(), numpy.random.default_rng().random(),
                  secrets.token_hex(), uuid.uuid1().hex, uuid.uuid4().hex, uuid.getnode() if False else 0, tempfile.mktemp(),
                  ssl.RAND_bytes(16).hex(), os.urandom(8).hex(), multiprocessing.current_process().authkey.hex()]))
"""


def test_random_is_random_in_every_box(warm):
    rows = [json.loads(printed(warm, RANDOM)) for _ in range(8)]
    for column in zip(*rows):
        assert len(set(column)) == len(rows) or set(column) == {0}, column


def test_what_one_does_the_next_does_not_see(warm):
    printed(warm, """
        import builtins, json, os, sys, numpy
        json.dumps = lambda *a: "patched"
        builtins.mine = numpy.mine = sys.mine = 1
        os.environ["MINE"] = "1"
        open("/tmp/mine", "w").close()
        open("/dev/shm/mine", "w").close()
        os.umask(0)
        """)
    assert printed(warm, """
        import builtins, json, os, sys, numpy
        print(json.dumps([1]), hasattr(builtins, "mine"), hasattr(numpy, "mine"), hasattr(sys, "mine"), "MINE" in os.environ,
              os.path.exists("/tmp/mine"), os.path.exists("/dev/shm/mine"), os.umask(0))
        """) == "[1] False False False False False False 18\n"


POSTURE = """
import ctypes, json, os, resource, signal
def read(path):
    try:
        return open(path).read()
    except OSError as e:
        return e.errno
status = dict(line.split(":", 1) for line in read("/proc/self/status").splitlines())
keep = ("Umask", "Uid", "Gid", "Groups", "NStgid", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
        "NoNewPrivs", "Seccomp", "Speculation_Store_Bypass", "Cpus_allowed", "Threads", "THP_enabled")
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps({
    "status": {k: status.get(k) for k in keep},
    "fds": {fd: os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in sorted(os.listdir("/proc/self/fd")) if int(fd) < 100 and os.path.exists(f"/proc/self/fd/{fd}")},
    "limits": read("/proc/self/limits"), "oom": read("/proc/self/oom_score_adj"), "cgroup": read("/proc/self/cgroup"),
    "environ": read("/proc/self/environ"), "namespaces": sorted(os.listdir("/proc/self/ns")), "mounts": len(read("/proc/self/mountinfo").splitlines()),
    "writable memory": read("/proc/self/mem") if False else 0, "nice": os.getpriority(os.PRIO_PROCESS, 0), "sched": os.sched_getscheduler(0),
    "session": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid(), "dumpable": libc.prctl(3, 0, 0, 0, 0),
    "securebits": libc.prctl(27, 0, 0, 0, 0), "timerslack": libc.prctl(30, 0, 0, 0, 0), "pdeathsig": 0, "cwd": os.getcwd(), "root": os.listdir("/"),
    "comm": read("/proc/self/comm"), "processes": sorted(p for p in os.listdir("/proc") if p.isdigit())[:1], "altstack": 0,
}))
"""


def test_the_posture_of_a_cold_start(servers):
    warm_one, cold_one = (json.loads(printed(server, POSTURE)) for server in servers)
    warm_one["status"].pop("NStgid"), cold_one["status"].pop("NStgid")
    assert warm_one == cold_one


def test_addresses_of_thaw_are_gone(warm):
    """Nothing of the program that thawed is left in the process."""
    maps = printed(warm, "print(open('/proc/self/maps').read())")
    starts = [int(line.split("-")[0], 16) for line in maps.split("\n") if line]
    assert min(starts) >= 0x300000 and not any(0x100000000000 <= s < 0x100010000000 for s in starts)
    assert "rwx" not in maps


@pytest.mark.parametrize("program, text", [
    ("x = []\nwhile True: x.append(bytearray(1 << 20))", 137), ("while True: pass", None)])
def test_limits_hold(warm, program, text):
    answer = warm.execute(program, timeout_ms=20000 if text else 1500)
    assert answer["exit_code"] == text and answer["timed_out"] == (text is None)


# --- when something fails ------------------------------------------------------------------------------------


def pythons(server):
    """pids of thawed processes that wait."""
    return [pid for pid in server.tree() if words_of(pid) == [b"/usr/bin/python3"]]


@pytest.mark.more
def test_members_that_die_are_replaced(serve):
    server = serve(**POOLED)
    full_pool(server)
    for pid in pythons(server):
        os.kill(pid, signal.SIGKILL)
    assert printed(server, "print(1)") == "1\n"
    until(lambda: metric(server, "glovebox_pool_lost_total") >= 3, "they are missed")
    full_pool(server)
    assert printed(server, "print(2)") == "2\n"


def test_a_module_that_is_not_there_is_left_out(serve):
    server = serve(**{**WARM, "zygote_imports": "numpy no_such_module"})
    assert server.call("GET", "/health")[1]["warm"] == ["lean", "full", "kernel"]
    assert printed(server, "import numpy; print(1)") == "1\n"


def test_what_a_library_opened_on_import_is_not_closed_again(serve):
    """IPython opens /dev/null when it is imported and closes it at the end: after a thaw its number is anybody's."""
    server = serve(**{**WARM, "zygote_imports": "IPython.utils.io"})
    answer = server.execute("import IPython.utils.io\nprint(IPython.utils.io.devnull.closed)", timeout_ms=20000)
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("True\n", "", 0)


def test_an_image_that_cannot_be_made_leaves_the_other(serve):
    """To import that module is to run it: it does not like its arguments and ends the interpreter."""
    server = serve(**{**WARM, "zygote_imports": "unittest.__main__ numpy"})
    assert server.call("GET", "/health")[1]["warm"] == ["lean"]
    assert printed(server, "import numpy; print(numpy.ones(2).sum())") == "2.0\n"
    until(lambda: metric(server, "glovebox_zygotes_total", outcome="failed") >= 2, "it is tried again")
    assert re.search("event=zygote_failed image=full", server.log())


def test_images_outlive_the_gate(serve):
    server = serve(**POOLED)
    full_pool(server)
    os.kill(server.pid_of("gate"), signal.SIGKILL)
    until(lambda: "starting another" in server.log(), "it is noticed")
    until(lambda: server.request("GET", "/ready")[0] == 200, "the next one is ready")
    assert metric(server, "glovebox_zygotes_total", outcome="made") == 0, "the images of the gate before are used"
    full_pool(server)
    assert printed(server, "import sys; print('json' in sys.modules)") == "True\n"
    assert metric(server, "glovebox_pool_taken_total", outcome="hit") == 1


@pytest.mark.more
def test_another_environment_makes_another_image(serve):
    """Of a directory of packages the time is changed, as a new package would."""
    server = serve(**POOLED)
    folder = pathlib.Path("/usr/lib/python3/dist-packages")
    before = os.stat(folder)
    try:
        os.utime(folder)
        until(lambda: metric(server, "glovebox_zygotes_total", outcome="made") >= 6, "all images are made anew")
        full_pool(server)
        assert printed(server, "print(1)") == "1\n"
    finally:
        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
