# SPDX-License-Identifier: Apache-2.0
"""Every limit of a box: it holds, it is reported as what it is, and it is nobody else's.

Outcomes only: what a program got to see, how its end was reported, which figures came with it. The one
ratio (share of the processors) is made of two figures of the same run.
"""
import signal

import pytest

from conftest import PATIENCE

pytestmark = pytest.mark.limits

MIB = 1 << 20
# Small stores, so that "memory" is nearly all there is.
SMALL = ("--workspace", "1M", "--workspace-inodes", "64", "--scratch", "1M", "--shm", "64K")

BOMBS = {
    "bytearray": "keep = []\nwhile True: keep.append(bytearray(b'x') * (1 << 20))",
    "one allocation": "b = bytearray(b'x') * (1 << 30)",
    "mmap touched": """
import mmap
m = mmap.mmap(-1, 1 << 30)
for at in range(0, 1 << 30, 4096):
    m[at] = 1
""",
    "mmap shared": """
import mmap
m = mmap.mmap(-1, 1 << 30, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
for at in range(0, 1 << 30, 4096):
    m[at] = 1
""",
}

FILL = """
import os, sys
def fill(path):
    total = 0
    try:
        with open(path, "wb", buffering=0) as f:
            while True:
                total += f.write(b"x" * 65536)
    except OSError as e:
        return e.errno, total
"""


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", BOMBS.values(), ids=BOMBS.keys())
def test_out_of_memory_is_reported_as_such(box_json, code):
    r = box_json(code, "--memory", "64M", *SMALL)
    assert r["oom"] is True and r["status"] == 137
    assert r["signal"] == "SIGKILL" and r["exit_code"] is None and r["timed_out"] is False
    assert r["limits"]["memory_bytes"] == 64 * MIB
    assert 48 * MIB <= r["figures"]["peak_memory_bytes"] <= 68 * MIB
    assert r["error"] is None


def test_out_of_memory_in_words(box_python):
    r = box_python(BOMBS["bytearray"], "--memory", "32M", *SMALL)
    assert r.returncode == 137 and r.stdout == b""
    lines = r.stderr.decode().splitlines()
    assert len(lines) == 1 and "out of memory" in lines[0] and "32 MiB" in lines[0] and "--memory" in lines[0]


def test_out_of_memory_stays_in_its_box(box_json, neighbour):
    for _ in range(3):
        assert box_json(BOMBS["mmap touched"], "--memory", "48M", *SMALL)["oom"]
        neighbour.ask()


def test_parent_survives_a_child_that_is_out_of_memory(box_json):
    r = box_json("""
import subprocess, sys
bomb = "b = bytearray(b'x') * (1 << 30)"
codes = [subprocess.run([sys.executable, "-c", bomb]).returncode for _ in range(3)]
print(codes)
""", "--memory", "64M", *SMALL)
    assert r["stdout"] == "[-9, -9, -9]\n"
    assert r["exit_code"] == 0 and r["status"] == 0
    assert r["oom"] is False, "the program itself ended well"


def test_shell_survives_a_child_that_is_out_of_memory(box_json):
    r = box_json("""
/usr/bin/python3 -c 'b = bytearray(b"x") * (1 << 30)' 2>/dev/null
echo "status $?"
""", "--shell", "--memory", "64M", *SMALL)
    assert r["stdout"] == "status 137\n" and r["exit_code"] == 0


def test_memory_is_of_all_processes_together(box_json):
    r = box_json("""
import os, time
for i in range(8):
    if os.fork() == 0:
        b = bytearray(b"x") * (20 << 20)
        time.sleep(60)
        os._exit(0)
codes = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(3)]
print(codes)
""", "--memory", "96M", *SMALL)
    assert r["stdout"] == "[-9, -9, -9]\n", "8 x 20 MiB do not fit into 96 MiB: the kernel ended some"


def test_killed_is_not_out_of_memory(box_json):
    r = box_json("import os; os.kill(os.getpid(), 9)")
    assert r["oom"] is False and r["status"] == 137 and r["signal"] == "SIGKILL"


def test_memory_error_is_the_programs_own(box_json):
    r = box_json("import resource; resource.setrlimit(resource.RLIMIT_AS, (64 << 20, 64 << 20))\n"
                 "b = bytearray(1 << 30)")
    assert r["exit_code"] == 1 and "MemoryError" in r["stderr"] and r["oom"] is False


def test_memory_below_the_limit_is_there(box_json):
    r = box_json("b = bytearray(b'x') * (150 << 20); print(len(b))", "--memory", "192M", *SMALL)
    assert r["exit_code"] == 0 and r["stdout"] == f"{150 * MIB}\n"
    assert r["figures"]["peak_memory_bytes"] >= 150 * MIB


# --- files in memory -----------------------------------------------------------------------------------------

STORES = {"/workspace": 64, "/tmp": 16, "/home/box": 16, "/var/tmp": 16, "/dev/shm": 16}
SIZES = ("--memory", "32M", "--workspace", "64M", "--scratch", "16M", "--shm", "16M")


@pytest.mark.parametrize("place", STORES)
def test_full_store_is_no_space_and_not_out_of_memory(box_json, place):
    r = box_json(FILL + f"print(*fill('{place}/big'))", *SIZES)
    assert r["exit_code"] == 0 and r["oom"] is False, r["said"] + r["stderr"]
    error, total = map(int, r["stdout"].split())
    assert error == 28, "ENOSPC"
    assert (STORES[place] - 1) * MIB <= total <= STORES[place] * MIB


def test_all_stores_full_and_memory_in_use(box_json):
    """Everything that a box may hold, at once: still nothing is out of memory."""
    r = box_json(FILL + """
places = ["/workspace", "/tmp", "/dev/shm"]
print(*(fill(p + "/big")[0] for p in places))
b = bytearray(b"x") * (12 << 20)
print("alive")
""", *SIZES)
    assert r["stdout"] == "28 28 28\nalive\n" and r["oom"] is False and r["exit_code"] == 0


def test_a_full_workspace_does_not_stop_other_programs(box_json):
    r = box_json("head -c 100M /dev/zero > big; echo $?; echo still; ls | wc -l", "--shell", *SIZES)
    assert r["stdout"] == "1\nstill\n2\n" and "No space left" in r["stderr"]


def test_space_comes_back(box_json):
    r = box_json(FILL + """
for _ in range(4):
    print(*fill("/workspace/big"))
    os.unlink("/workspace/big")
""", *SIZES)
    rows = r["stdout"].splitlines()
    assert len(rows) == 4 and len(set(rows)) == 1, rows


@pytest.mark.parametrize("place, option, limit", [("/workspace", "--workspace-inodes", 100)])
def test_inodes(box_json, place, option, limit):
    r = box_json(f"""
import os
n = 0
try:
    while True:
        open(f"{place}/f{{n}}", "w").close()
        n += 1
except OSError as e:
    print(e.errno, n)
""", option, limit)
    error, n = map(int, r["stdout"].split())
    assert error == 28 and limit - 5 <= n < limit, "the root and the program are two of them"


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_all_inodes_of_a_store_are_no_reason_to_be_out_of_memory(box_json, place):
    """An empty file costs the kernel memory, too; that of all files that are allowed belongs to the stores."""
    r = box_json(f"""
import os
os.chdir({place!r})
n = 0
try:
    while True:
        os.close(os.open(f"f{{n}}", os.O_CREAT | os.O_WRONLY))
        n += 1
except OSError as e:
    print(e.errno, n)
""", *SIZES, "--timeout", "50")
    assert r["oom"] is False and r["exit_code"] == 0, f"ended with {r['signal']}: {r['figures']}"
    assert r["stdout"].split()[0] == "28"


def test_sparse_giant_is_refused(box_json):
    r = box_json("""
import errno, os
fd = os.open("f", os.O_CREAT | os.O_RDWR)
for size in (1 << 60, 1 << 62, (1 << 63) - 1):
    try:
        os.truncate(fd, size)
        print("truncated")
    except OSError as e:
        print(errno.errorcode[e.errno])
try:
    os.pwrite(fd, b"x", 1 << 60)
    print("written")
except OSError as e:
    print(errno.errorcode[e.errno])
print(os.fstat(fd).st_size)
""")
    assert r["stdout"].split() == ["EFBIG"] * 4 + ["0"] and r["exit_code"] == 0


def test_file_size(box_json):
    r = box_json(FILL + "print(*fill('/workspace/big'))", "--file-size", "1M")
    assert r["stdout"].split() == ["27", str(MIB)], "EFBIG, because Python ignores the signal"
    r = box_json("exec head -c 2M /dev/zero > big", "--shell", "--file-size", "1M")
    assert r["signal"] == "SIGXFSZ" and r["status"] == 128 + signal.SIGXFSZ


def test_open_files(box_json):
    r = box_json("""
import errno, os
fds = []
try:
    while True:
        fds.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e:
    print(errno.errorcode[e.errno], max(fds))
""", "--open-files", "40")
    assert r["stdout"].split() == ["EMFILE", "39"]


def test_the_fewest_open_files(box_json):
    """What a box and its init have of their own leaves enough to put a program in and to start it."""
    assert box_json("print(1)", "--open-files", "16")["stdout"] == "1\n"


def test_limits_cannot_be_raised(box_json):
    r = box_json("""
import resource
for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
    soft, hard = resource.getrlimit(getattr(resource, name))
    if hard == resource.RLIM_INFINITY:
        continue
    try:
        resource.setrlimit(getattr(resource, name), (soft, hard + 1))
        print("raised", name)
    except (ValueError, OSError):
        pass
print("end")
""", "--root")
    assert r["stdout"] == "end\n"


# --- processes -----------------------------------------------------------------------------------------------

FORK_BOMBS = {
    "python": ((), """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""),
    "double fork": ((), """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
    except OSError:
        pass
"""),
    "shell": (("--shell",), "b() { b | b & }; b 2>/dev/null\nwhile :; do :; done"),
    "threads": ((), """
import threading, time
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    except RuntimeError:
        pass
"""),
}


@pytest.mark.parametrize("options, code", FORK_BOMBS.values(), ids=FORK_BOMBS.keys())
def test_fork_bomb_ends_with_its_time(box_json, neighbour, options, code):
    r = box_json(code, *options, "--processes", "40", "--timeout", "1")
    assert r["timed_out"] is True and r["status"] == 124 and r["oom"] is False
    neighbour.ask()


def test_number_of_processes(box_json):
    r = box_json("""
import errno, os, time
n = 1
try:
    while True:
        if os.fork() == 0:
            time.sleep(100)
        n += 1
except OSError as e:
    print(errno.errorcode[e.errno], n)
""", "--processes", "30")
    assert r["stdout"].split() == ["EAGAIN", "30"] and r["exit_code"] == 0


def test_number_of_threads(box_json):
    r = box_json("""
import os, threading, time
n = 1
try:
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        n += 1
except RuntimeError:
    print(n, flush=True)
    os._exit(0)
""", "--processes", "30")
    assert r["stdout"] == "30\n" and r["exit_code"] == 0


def test_processes_come_back(box_json):
    r = box_json("""
import os
for i in range(500):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
print("end")
""", "--processes", "8")
    assert r["stdout"] == "end\n"


# --- processor time ------------------------------------------------------------------------------------------


@pytest.mark.more
def test_share_of_the_processors(box_json):
    r = box_json("""
import os, time
os.fork()
end = time.monotonic() + 2
while time.monotonic() < end:
    pass
""", "--cpus", "0.5")
    figures = r["figures"]
    assert r["limits"]["cpus"] == 0.5
    assert figures["wall_ms"] >= 2000
    assert figures["cpu_ms"] <= 0.8 * figures["wall_ms"], figures


def test_processor_seconds(box_json):
    r = box_json("while True: pass", "--cpu-seconds", "1")
    assert r["signal"] == "SIGXCPU" and r["status"] == 128 + signal.SIGXCPU
    assert r["timed_out"] is False and r["oom"] is False
    assert r["figures"]["cpu_ms"] >= 700  # the limit is counted in ticks


def test_processor_seconds_in_words(box_python):
    r = box_python("while True: pass", "--cpu-seconds", "1")
    assert r.returncode == 128 + signal.SIGXCPU and b"--cpu-seconds" in r.stderr


@pytest.mark.more
def test_processor_seconds_when_the_warning_is_ignored(box_json):
    r = box_json("import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
                 "--cpu-seconds", "1")
    assert r["signal"] == "SIGKILL" and r["status"] == 137
    assert r["oom"] is False and r["timed_out"] is False


# --- wall clock ----------------------------------------------------------------------------------------------


def test_timeout(box_json):
    r = box_json("import time; print('begun'); time.sleep(100)", "--timeout", f"{500 * PATIENCE}ms")
    assert r["timed_out"] is True and r["status"] == 124 and r["exit_code"] is None
    assert r["stdout"] == "begun\n" and r["figures"]["wall_ms"] >= 500


def test_timeout_in_words(box_python):
    r = box_python("import time; time.sleep(100)", "--timeout", "0.5")
    assert r.returncode == 124
    lines = r.stderr.decode().splitlines()
    assert len(lines) == 1 and "0.500 s" in lines[0] and "--timeout" in lines[0]


@pytest.mark.parametrize("what", ["SIGTERM", "SIGINT", "SIGHUP", "SIGALRM", "SIGSTOP"])
def test_timeout_ends_what_resists(box_json, what):
    act = ("os.kill(os.getpid(), signal.SIGSTOP)" if what == "SIGSTOP" else
           f"signal.signal(signal.{what}, signal.SIG_IGN)")
    r = box_json(f"import os, signal, time\n{act}\ntime.sleep(100)", "--timeout", "500ms")
    assert r["timed_out"] is True and r["status"] == 124


def test_timeout_while_it_prints(box_json):
    r = box_json("while True: print('x' * 1000)", "--timeout", f"{700 * PATIENCE}ms", "--output-limit", "10K")
    assert r["timed_out"] is True and len(r["stdout"]) == 10240 and r["truncated"]["stdout"]


DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for s in set(range(1, 32)) - {{signal.SIGKILL, signal.SIGSTOP}}:
            signal.signal(s, signal.SIG_IGN)
        os.chdir("/")
        {streams}
        while True:
            time.sleep(1)
    os._exit(0)
os.wait()
print("daemon is there", flush=True)
{then}
"""


@pytest.mark.parametrize("streams", ["pass", "os.closerange(0, 100)"], ids=["keeps the pipes", "closes them"])
@pytest.mark.parametrize("then", ["pass", "time.sleep(100)", "os.kill(os.getpid(), 11)"],
                         ids=["ends", "times out", "crashes"])
def test_daemons_go_with_the_program(box_json, streams, then):
    r = box_json(DAEMON.format(streams=streams, then=then), "--timeout", str(PATIENCE))
    assert r["stdout"] == "daemon is there\n"
    assert r["status"] == {"pass": 0, "time.sleep(100)": 124}.get(then, 139)


def test_nohup_goes_with_the_program(box_json):
    r = box_json("nohup sleep 1000 >/dev/null 2>&1 &\nsetsid sleep 1000 &\ndisown -a\necho end", "--shell")
    assert r["stdout"] == "end\n" and r["exit_code"] == 0


def test_no_timeout(box_json):
    r = box_json("print(1)", "--timeout", "0")
    assert r["stdout"] == "1\n" and r["timed_out"] is False


# --- output --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size, limit, cut", [(999, 1000, False), (1000, 1000, False), (1001, 1000, True),
                                              (5_000_000, 1000, True), (70000, 65536, True), (1, 1, False)])
def test_output_limit_counts_bytes_of_each_stream(box_json, size, limit, cut):
    for stream, other in (("stdout", "stderr"), ("stderr", "stdout")):
        r = box_json(f"""
import sys
sys.{stream}.write("a" * {size})
sys.{stream}.flush()
sys.{other}.write("b" * {min(limit, 10)})
sys.exit(7)
""", "--output-limit", limit)
        assert r["exit_code"] == 7, "the rest was read: the program came to its end"
        assert r[stream] == "a" * min(size, limit)
        assert r[other] == "b" * min(limit, 10)
        assert r["truncated"] == {stream: cut, other: False}


def test_output_limit_without_json(box_python):
    r = box_python("import sys\nfor i in range(1000): sys.stdout.write('%09d\\n' % i)\nsys.exit(3)",
                   "--output-limit", "2K")
    assert r.returncode == 3
    assert r.stdout == b"".join(b"%09d\n" % i for i in range(1000))[:2048]
    lines = r.stderr.decode().splitlines()
    assert len(lines) == 1 and "stdout was cut" in lines[0] and "--output-limit" in lines[0]


def test_output_of_many_processes_is_counted_together(box_json):
    r = box_json("""
import os
for i in range(10):
    if os.fork() == 0:
        os.write(1, b"c" * 1000)
        os._exit(0)
for i in range(10):
    os.wait()
""", "--output-limit", "5000")
    assert r["stdout"] == "c" * 5000 and r["truncated"]["stdout"]


# --- how it ended --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 42, 124, 125, 126, 127, 130, 137, 255])
def test_exit_codes_are_the_programs(box_json, code):
    r = box_json(f"import os; os._exit({code})")
    assert r["exit_code"] == code and r["status"] == code
    assert r["signal"] is None and r["timed_out"] is False and r["oom"] is False and r["error"] is None


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGTERM", "SIGKILL", "SIGFPE", "SIGBUS", "SIGHUP",
                                  "SIGPIPE", "SIGUSR1", "SIGALRM", "SIGQUIT", "SIGSYS"])
def test_signals_are_named(box_json, name):
    number = getattr(signal, name)
    r = box_json(f"import os, signal; signal.signal({int(number)}, 0) if {int(number)} != 9 else 0; "
                 f"os.kill(os.getpid(), {int(number)})")
    assert r["signal"] == name and r["status"] == 128 + number and r["exit_code"] is None
    assert r["oom"] is False and r["timed_out"] is False


def test_a_real_segmentation_fault(box_json):
    r = box_json("import ctypes; ctypes.string_at(0)")
    assert r["signal"] == "SIGSEGV" and r["status"] == 139


def test_real_time_signals_too(box_json):
    r = box_json("import os; os.kill(os.getpid(), 40)")
    assert r["status"] == 168 and r["exit_code"] is None and r["signal"]


def test_uncaught_exception(box_json):
    r = box_json("raise ValueError('no')")
    assert r["exit_code"] == 1 and "ValueError: no" in r["stderr"]


# --- figures -------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_figures_are_measured(box_json):
    idle = box_json("import time; time.sleep(0.5)")["figures"]
    busy = box_json("import time\nb = bytearray(b'x') * (100 << 20)\nend = time.process_time() + 0.5\n"
                    "while time.process_time() < end: pass")["figures"]
    assert idle["measured_by"] == busy["measured_by"] == "cgroup"
    assert idle["wall_ms"] >= 500 and busy["wall_ms"] >= 400
    assert 0 < idle["cpu_ms"] < busy["cpu_ms"] and busy["cpu_ms"] >= 500
    assert 0 < idle["peak_memory_bytes"] < 100 * MIB <= busy["peak_memory_bytes"] < 300 * MIB
    assert idle["setup_ms"] > 0


def test_figures_count_every_process(box_json):
    """Processor time and memory of a grandchild that nobody waited for are in the figures, too."""
    r = box_json("""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        b = bytearray(b"x") * (80 << 20)
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
        open("done", "w").close()
        os._exit(0)
    os._exit(0)
while not os.path.exists("done"):
    time.sleep(0.01)
""")
    assert r["figures"]["cpu_ms"] >= 500 and r["figures"]["peak_memory_bytes"] >= 80 * MIB


def test_limits_are_reported(box_json):
    r = box_json("pass", "--memory", "100M", "--cpus", "1.5", "--cpu-seconds", "7", "--processes", "9",
                 "--output-limit", "1k", "--file-size", "2K", "--workspace", "3M", "--workspace-inodes", "44",
                 "--open-files", "55", "--scratch", "6M", "--shm", "7M")
    assert r["limits"] == {
        "memory_bytes": 100 * MIB, "cpus": 1.5, "cpu_seconds": 7, "processes": 9, "output_bytes": 1024,
        "file_bytes": 2048, "workspace_bytes": 3 * MIB, "workspace_inodes": 44, "open_files": 55,
        "scratch_bytes": 6 * MIB, "shm_bytes": 7 * MIB}
