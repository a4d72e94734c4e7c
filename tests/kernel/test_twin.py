# SPDX-License-Identifier: Apache-2.0
"""Copies of a kernel: it freezes between two cells, and a process that thaws the image goes on with all that it had."""
import os
import signal
import time
from array import array

import pytest

import frozen
from fake_init import PATIENCE_S, need

pytest_plugins = ["kernels"]
DATA = ["numpy", "pandas", "matplotlib"]


@pytest.fixture(scope="module")
def image(ipython, nothing_left_by_session, tmp_path_factory):
    fd = frozen.zygote(tmp_path_factory.mktemp("zygote"), ["asyncio", "random", "tempfile", "ssl", "sqlite3", "uuid"])
    yield fd
    os.close(fd)


@pytest.fixture(scope="module")
def data(ipython, nothing_left_by_session, tmp_path_factory):
    for name in DATA:
        need(name)
    fd = frozen.zygote(tmp_path_factory.mktemp("zygote"), DATA)
    yield fd
    os.close(fd)


@pytest.fixture
def kernel(image, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    one = frozen.Kernel(home, image)
    yield one
    one.close()


def value(kernel, code):
    result = kernel.run(code)
    assert result.error is None, result.error
    return result.value


def test_variables_and_what_is_half_done(kernel):
    kernel.run("""
class Point:
    def __init__(self, x): self.x = x
def count():
    for i in range(10): yield i
half = count(); next(half); next(half)
add = (lambda n: lambda x: x + n)(5)
p = Point([1, 2]); q = p.x
from decimal import getcontext, Decimal
getcontext().prec = 7
it = iter({"a": 1, "b": 2}); next(it)
""")
    twin = kernel.copy()
    assert twin.lost == []
    assert value(twin, "next(half), add(1), p.x is q, str(Decimal(1) / 3), next(it)") == "(2, 6, True, '0.3333333', 'b')"
    twin.run("p.x.append(3)")
    assert value(twin, "q, isinstance(p, Point)") == "([1, 2, 3], True)"
    assert value(kernel, "q, next(half)") == "([1, 2], 2)"


def test_a_copy_of_a_copy(kernel):
    kernel.run("a = list(range(100000)); b = {i: str(i) for i in range(1000)}")
    third = kernel.copy()
    third.run("a.append('second')")
    third = third.copy()
    third.run("a.append('third')")
    third = third.copy()
    assert value(third, "len(a), a[-2:], b[999]") == "(100002, ['second', 'third'], '999')"
    assert value(kernel, "len(a)") == "100000"


def test_a_copy_goes_on_by_itself(kernel):
    """What a kernel does besides running cells: displays, history, questions, errors, interrupts."""
    kernel.run("first = 1")
    kernel.run("second = 2")
    twin = kernel.copy()
    assert value(twin, "first + second, In[1], len(In)") == "(3, 'first = 1', 4)"
    assert twin.run("x = input('? ')\nprint(x)", answers=["yes"], allow_stdin=True).out == "yes\n"
    assert twin.run("1/0").error == ("ZeroDivisionError", "division by zero")
    assert twin.run("display(first)").contents("display_data")[0]["data"] == {"text/plain": "1"}
    cell = twin.begin("print('up')\nimport time; time.sleep(1000)")
    twin.wait_for(cell, "up")
    twin.interrupt(cell)
    assert twin.finish(cell).error[0] == "KeyboardInterrupt"
    assert twin.run("!echo $((6 * 7))").out == "42\n"
    assert kernel.run("second").value == "2"


def test_descriptors_of_the_kernel_are_its_own(kernel):
    """And nothing of a copy that was made, or could not be, stays in the one it was made of."""
    def fds(kernel):
        """But for pipes of cells: the last ones stay open."""
        kernel.run("1")
        return {fd: what.partition(":")[0] for fd, what in kernel.fds().items() if not what.startswith("pipe:")}

    before = fds(kernel)
    twin = kernel.copy()
    assert kernel.freeze(room=1 << 20)[1]["status"] == "error"
    assert fds(kernel) == fds(twin) == fds(twin.copy()) == before


# --- files ---------------------------------------------------------------------------------------------------


def test_open_files_are_at_their_places(kernel):
    kernel.run("""
import os
open("data", "w").write("0123456789")
read = open("data"); read.read(3)
raw = os.open("data", os.O_RDONLY); os.lseek(raw, 5, 0)
shared = os.dup(raw)
write = open("out", "a"); write.write("kept, "); write.flush()
folder = os.open(".", os.O_RDONLY); null = open("/dev/null", "w")
""")
    twin = kernel.copy()
    assert twin.lost == []
    assert value(twin, "read.read(2), os.read(raw, 1), os.read(shared, 1), os.listdir(folder) == os.listdir('.')") == "('34', b'5', b'6', True)"
    assert value(twin, "write.write('by the copy'), write.flush(), null.write('x')") == "(11, None, 1)"
    assert value(kernel, "os.read(raw, 1), read.read(1), open('out').read()") == "(b'5', '3', 'kept, by the copy')"


def test_what_cannot_be_carried_over_is_named_and_its_number_is_nobodys(kernel):
    kernel.run("""
import os, socket, sqlite3, subprocess, threading
gone = open("gone", "w+"); gone.write("x"); gone.flush(); os.unlink("gone")
a, b = socket.socketpair()
r, w = os.pipe()
base = sqlite3.connect("base.db"); base.execute("create table t (x)"); base.commit()
stop = threading.Event()
thread = threading.Thread(target=stop.wait, name="worker"); thread.start()
child = subprocess.Popen(["sleep", "1000"])
""")
    numbers = value(kernel, "gone.fileno(), a.fileno(), b.fileno(), r, w")
    twin = kernel.copy()
    lost = "\n".join(twin.lost)
    for what in ("a socket", "a pipe", "base.db", "thread worker", "(sleep)", "gone (deleted)"):
        assert what in lost, lost
    assert value(twin, "[os.readlink(f'/proc/self/fd/{fd}') for fd in (gone.fileno(), a.fileno(), b.fileno(), r, w)]") == str(["/dev/null"] * 5)
    assert value(twin, "new = open('new', 'w'); os.write(w, b'x'), new.fileno() in (gone.fileno(), a.fileno(), b.fileno(), r, w)") == "(1, False)"
    assert value(twin, "thread.is_alive(), threading.active_count()") == "(False, 1)"
    assert value(twin, "gone.fileno(), a.fileno(), b.fileno(), r, w") == numbers
    kernel.run("stop.set(); thread.join(); child.kill(); child.wait()")
    assert value(kernel, "os.write(w, b'xy'), os.read(r, 9), base.execute('select count(*) from t').fetchone()") == "(2, b'xy', (0,))"


def test_a_file_that_is_not_there_is_lost(kernel):
    kernel.run("f = open('f', 'w'); f.write('x'); f.flush()")
    image, reply = kernel.freeze()
    os.unlink(kernel.home / "f")
    twin = frozen.Kernel(kernel.home, image, kernel.base)
    kernel.copies.append(twin)
    os.close(image)
    assert reply["lost"] == [] and len(twin.ready["lost"]) == 1 and str(kernel.home / "f") in twin.ready["lost"][0]
    assert value(twin, "f.write('y'), f.flush()") == "(1, None)"
    assert not (kernel.home / "f").exists()


# --- data ---------------------------------------------------------------------------------------------------


def test_data(data, tmp_path):
    """Arrays and their views, threads of OpenBLAS before and after, tables, figures, generators with a seed of their own choice and without one."""
    kernel = frozen.Kernel(tmp_path, data)
    try:
        kernel.run("""
import numpy as np, pandas as pd, matplotlib.pyplot as plt
a = np.arange(4_000_000, dtype=float); view = a[::2]; b = np.ones((700, 700)); c = b @ b
df = pd.DataFrame({"x": range(1000), "y": [str(i) for i in range(1000)]}); by = df.groupby("y")
chosen, drawn = np.random.default_rng(3), np.random.default_rng()
fig, ax = plt.subplots(); ax.plot([1, 2]); plt.close(fig)
np.random.seed(1)
""")
        twins = [kernel.copy(), kernel.copy()]
        for twin in twins:
            assert value(twin, "view[5] = -1; a[10], view.base is a, (b @ b)[0, 0], len(by), df.x.sum()") in (
                "(-1.0, True, 700.0, 1000, 499500)", "(np.float64(-1.0), True, np.float64(700.0), 1000, np.int64(499500))")
            assert "image/png" in twin.run("ax.plot([3, 1]); fig").contents("execute_result")[0]["data"]
        assert "10.0" in value(kernel, "a[10]")
        all_of_them = [kernel, *twins]
        assert len({value(one, "chosen.random()") for one in all_of_them}) == 1
        assert len({value(one, "drawn.random()") for one in all_of_them}) == len({value(one, "np.random.random()") for one in all_of_them}) == 3
    finally:
        kernel.close()


# --- what is the system's ------------------------------------------------------------------------------------


def test_the_process_is_as_it_was(kernel):
    nice = os.nice(0)
    kernel.run("""
import os, signal, resource
os.makedirs("below"); os.chdir("below"); os.umask(0o27)
signal.signal(signal.SIGUSR1, lambda *_: print("heard"))
signal.setitimer(signal.ITIMER_REAL, 1000, 500)
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
os.environ["MINE"] = "1"
os.nice(3)
""")
    twin = kernel.copy(env={"GIVEN": "anew"})
    assert value(twin, "os.path.basename(os.getcwd()), oct(os.umask(0o27)), os.nice(0), os.environ['MINE'], os.environ['GIVEN']") == \
        f"('below', '0o27', {nice + 3}, '1', 'anew')"
    assert value(twin, "[round(t, -2) for t in signal.getitimer(signal.ITIMER_REAL)], resource.getrlimit(resource.RLIMIT_CORE)[0]") == "([1000.0, 500.0], 0)"
    assert twin.run("os.kill(os.getpid(), signal.SIGUSR1)").out == "heard\n"


def test_variables_that_were_given_are_given_anew(image, tmp_path):
    kernel = frozen.Kernel(tmp_path, image, env={"GIVEN": "1", "CHANGED": "1", "DROPPED": "1"})
    try:
        kernel.run("import os; os.environ['CHANGED'] = 'mine'")
        twin = kernel.copy(env={"GIVEN": "2", "CHANGED": "2"})
        assert value(twin, "[os.environ.get(name) for name in ('GIVEN', 'CHANGED', 'DROPPED')]") == "['2', 'mine', None]"
    finally:
        kernel.close()


def test_random_sources_differ(kernel):
    code = """
import random, ssl, tempfile, uuid, os, secrets, sqlite3
def drawn():
    return [random.random(), ssl.RAND_bytes(8), next(tempfile._get_candidate_names()), uuid.uuid1().node if 0 else uuid.uuid4(), os.urandom(8),
            secrets.token_hex(8), sqlite3.connect(":memory:").execute("select random()").fetchone()]
drawn()
random.seed(1)
chosen = random.Random(7)
"""
    kernel.run(code)
    twins = [kernel.copy(), kernel.copy()]
    values = [eval(value(k, "[str(v) for v in drawn()]")) for k in (kernel, *twins)]
    for column in zip(*values):
        assert len(set(column)) == 3, column
    assert len({value(k, "chosen.random()") for k in (kernel, *twins)}) == 1, "a variable is as it was"
    assert value(twins[0], "os.getpid() != 0 and os.getpid() == int(os.readlink('/proc/self'))") == "True"


# --- loops ---------------------------------------------------------------------------------------------------


def test_tasks_go_on(kernel):
    kernel.run("""
import asyncio
done = []
event = asyncio.Event()
async def wait(name, what):
    await what
    done.append(name)
    print(name)
tasks = [asyncio.create_task(wait("slept", asyncio.sleep(0.2))), asyncio.create_task(wait("told", event.wait()))]
await asyncio.sleep(0)
own = asyncio.new_event_loop()
""")
    twin = kernel.copy()
    assert twin.lost == []
    assert value(twin, "event.set(); await asyncio.wait(tasks); sorted(done)") == "['slept', 'told']"
    assert value(twin, "async def f(): return await own.run_in_executor(None, lambda: 6 * 7)\nimport threading\nt = threading.Thread(target=lambda: r.append(own.run_until_complete(f())))\n"
                 "r = []; t.start(); t.join(); r") == "[42]"
    assert value(twin, "await asyncio.to_thread(lambda: 3)") == "3"
    assert value(kernel, "event.set(); await asyncio.wait(tasks); sorted(done)") == "['slept', 'told']"


def test_a_reader_of_what_is_lost_is_not_waited_for(kernel):
    kernel.run("import asyncio, os\nr, w = os.pipe()\nasyncio.get_event_loop().add_reader(r, lambda: print('heard'))")
    twin = kernel.copy()
    assert "a pipe" in "\n".join(twin.lost)
    assert value(twin, "await asyncio.sleep(0.01, 5)") == "5"
    assert value(twin, "asyncio.get_event_loop().remove_reader(r); 1") == "1"


# --- memory --------------------------------------------------------------------------------------------------

MAPS = """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p; libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.madvise.argtypes = libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def filled(n=1 << 20):
    p = libc.mmap(None, n, 3, 0x22, -1, 0); ctypes.memset(p, 0x42, n); return p
"""


def test_memory_of_every_kind(kernel):
    kernel.run(MAPS + """
dropped = filled(); libc.madvise(dropped, 1 << 20, 4)
hidden = filled(); libc.mprotect(hidden, 1 << 20, 0)
large = filled(16 << 20); libc.madvise(large, 16 << 20, 14)
fixed = filled(); libc.mprotect(fixed, 1 << 20, 1)
hole = libc.mmap(None, 64 << 30, 3, 0x4022, -1, 0); ctypes.memset(hole + (33 << 30), 7, 10)
open("mapped", "w").write("a" * 8192)
f = open("mapped", "r+b"); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY); m[0:1] = b"b"
""")
    twin = kernel.copy()
    assert value(twin, "ctypes.string_at(dropped, 3), ctypes.string_at(large + (9 << 20), 3), ctypes.string_at(fixed, 2)") == "(b'\\x00\\x00\\x00', b'BBB', b'BB')"
    assert value(twin, "libc.mprotect(hidden, 1 << 20, 1), ctypes.string_at(hidden + 5000, 3)") == "(0, b'BBB')"
    assert value(twin, "ctypes.string_at(hole + (33 << 30), 11)") == "b'\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x00'"
    assert value(twin, "m[:2], m[4096:4098]") == "(b'ba', b'aa')"
    assert value(twin, "mmap.mmap(-1, 4096)[:2]") == "b'\\x00\\x00'"


def pages(pid):
    """All that a stopped process has, but for what the kernel maps into it: {address: page}, and how many bytes there are."""
    found, bytes_ = {}, 0
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem, \
            open(f"/proc/{pid}/pagemap", "rb", buffering=0) as words:
        for line in maps:
            span, rights, *_ = line.split(None, 2)
            start, end = (int(word, 16) for word in span.split("-"))
            if "[v" in line or "[stack]" in line and start > 1 << 46 and pid == pages.thawed:
                continue
            present = array("Q", os.pread(words.fileno(), (end - start) // 4096 * 8, start // 4096 * 8))
            for i, word in enumerate(present):
                at = start + i * 4096
                try:
                    # Who never touched it has zeros, or what is in the file.
                    page = os.pread(mem.fileno(), 4096, at) if rights[0] == "r" or word >> 62 else bytes(4096)
                except OSError:
                    page = bytes(4096)
                if page != bytes(4096):
                    found[at] = page
                    bytes_ += 4096
    return found, bytes_


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]


def children_of(pid):
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        yield int(name)
            except OSError:
                pass


def stopped(of):
    """The first of these that has stopped."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for pid in of():
            if state(pid) == "T":
                return pid
        time.sleep(0.01)
    pytest.fail("nobody stopped")


@pytest.mark.parametrize("copies", [0, 2], ids=["a kernel", "a copy of a copy"])
def test_every_page_is_the_same(kernel, copies):
    """The process that froze and the one that was thawed, both stopped there: they differ in what the system has told the C library, and nowhere else."""
    kernel.run(MAPS + """
from glovebox_kernel import twin
ctypes.c_int.in_dll(twin.lib, "gb_stops").value = 0
a = filled(8 << 20); libc.madvise(a + 4096 * 100, 4096 * 50, 4); b = {i: [str(i)] for i in range(50000)}; c = bytearray(b"xyz") * (5 << 20)
del b
def again(): ctypes.c_int.in_dll(twin.lib, "gb_stops").value = 1
""")
    one = kernel
    for _ in range(copies):
        one = one.copy()
        one.run("d = [object() for _ in range(100000)]; libc.madvise(a, 4096 * 10, 4)")
    one.run("again()")
    image = os.memfd_create("copy")
    os.ftruncate(image, 256 << 20)
    cell = one.request("freeze", lend=image)
    frozen_pid = stopped(lambda: children_of(one.process.pid))
    other = frozen.Kernel(kernel.home, image, kernel.base, configure=False)
    kernel.copies.append(other)
    pages.thawed = stopped(lambda: [other.process.pid])
    ours, n = pages(frozen_pid)
    theirs, m = pages(pages.thawed)
    os.close(image)
    differ = sorted(at for at in {*ours, *theirs} if ours.get(at) != theirs.get(at))
    for pid in (frozen_pid, pages.thawed):
        os.kill(pid, signal.SIGCONT)
    one.finish(cell)
    assert n > 32 << 20 and abs(n - m) < 64 << 10, (n, m)
    # The stack below, the thread's own words (its id, rseq), the C library's program break.
    assert len(differ) <= 8, [hex(at) for at in differ]
    assert sum(sum(x != y for x, y in zip(ours.get(at, bytes(4096)), theirs.get(at, bytes(4096)))) for at in differ) < 4096


def test_deep_recursion_in_a_copy(kernel):
    code = "import sys; sys.setrecursionlimit(10 ** 6)\ndef nest(n):\n    x = []\n    for _ in range(n): x = [x]\n    return len(repr(x))\nnest(3000)"
    assert value(kernel, code) == "6002"
    assert value(kernel.copy().copy(), "nest(20000)") == "40002"


@pytest.mark.parametrize("what, says", [
    ("m = mmap.mmap(-1, 4096); m[0:5] = b'hello'", "shared"),
    ("p = filled(65536); libc.madvise(p, 65536, 10)", "fork"),
], ids=["shared", "not inherited"])
def test_memory_that_cannot_be_copied_is_refused(kernel, what, says):
    kernel.run(MAPS + "x = 1\n" + what)
    image, reply = kernel.freeze()
    os.close(image)
    assert (reply["status"], reply["ename"]) == ("error", "NotCopied") and says in reply["evalue"], reply
    assert value(kernel, "x") == "1"


def test_more_than_an_image_may_have_is_refused(kernel):
    kernel.run("x = bytearray(b'x') * (64 << 20)")
    image, reply = kernel.freeze(room=32 << 20)
    assert reply["ename"] == "NoRoom" and "more memory" in reply["evalue"] and 64 << 20 < reply["needs"] < 128 << 20
    os.close(image)
    image, again = kernel.freeze(room=reply["needs"] + (1 << 20))
    assert again["status"] == "ok", again
    os.close(image)
    kernel.run("del x")
    assert kernel.copy().run("1").value == "1"


def test_cold_kernels_are_not_copied(ipython, tmp_path):
    one = frozen.FakeInit(tmp_path)
    try:
        image = os.memfd_create("copy")
        reply = one.finish(one.request("freeze", lend=image)).reply
        os.close(image)
        assert reply["ename"] == "NotCopied" and "cold" in reply["evalue"]
        assert one.finish(one.request("freeze")).reply["status"] == "error", "without an image"
        assert one.run("1").value == "1"
    finally:
        one.close()
