# SPDX-License-Identifier: Apache-2.0
"""Boxes made ahead, by the server: handed out with the limits of who takes them, to one and never again, and never in anybody's way.

What one-shots make of it is in test_warm.py, what keeper and init do in test_spare.py.
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from prepared import Prepared
from server import POOLED, WARM, mark, metric, needs_root, serve, stat_of, until  # noqa: F401
from test_scarce import few_processes  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

KIB, MIB = 1 << 10, 1 << 20
# Where limits are looked at, what the pool has lies between what is asked for.
STANDARD = {"box_memory": "96M", "box_processes": 40, "box_workspace": "4M", "box_cpus": 1}
SESSIONS = {**WARM, "session_pool_size": 2}


@pytest.fixture(scope="module")
def ipython():
    if not pathlib.Path("/usr/lib/python3/dist-packages/IPython").is_dir():
        pytest.skip("NO IPYTHON: there is no image of a kernel here (apt-get install python3-ipython)")


def waiting(server, image="kernel"):
    return metric(server, "glovebox_pool_boxes", image=image, state="waiting")


def full(server, boxes=2, image="kernel"):
    until(lambda: waiting(server, image) == boxes, "the pool is full")


def hits(server, image="kernel"):
    return metric(server, "glovebox_pool_taken_total", image=image, outcome="hit")


class Box:
    """One of /v1/boxes, gone after the block. `pooled` says whether it must come from the pool."""

    def __init__(self, server, pooled=True, headers=None, **fields):
        if pooled:
            until(lambda: waiting(server) > 0, "somebody waits")
        before = hits(server)
        status, answer = server.call("POST", "/v1/boxes", fields, headers)
        assert status == 201, (status, answer)
        self.server, self.headers, self.answer, self.path = server, headers, answer, f"/v1/boxes/{answer['id']}"
        assert (hits(server) == before + 1) == pooled

    def run(self, shell=None, **fields):
        status, answer = self.server.call("POST", f"{self.path}/commands", {"shell": shell, **fields} if shell else fields, self.headers)
        assert status == 200, (status, answer)
        return answer

    def python(self, code, **fields):
        return self.run(argv=["/usr/bin/python3", "-c", code], **fields)

    def out(self, code):
        answer = self.python(code)
        assert answer["status"] == "ok" and answer["exit_code"] == 0, answer
        return answer["stdout"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.call("DELETE", self.path, headers=self.headers)


# --- there is one --------------------------------------------------------------------------------------------


def test_the_image_is_made_and_told(ipython, serve):
    server = serve(**WARM)
    assert server.call("GET", "/health")[1]["warm"] == ["lean", "full", "kernel"]
    assert metric(server, "glovebox_images", image="kernel") == 1
    assert re.search("event=warm image=kernel bytes=[0-9]+", server.log())
    with Box(server, pooled=False) as box:
        assert "python3" not in box.run("cat /proc/[0-9]*/comm")["stdout"], "nobody waits in a box that was made at once"


def test_boxes_come_from_the_pool_with_a_kernel_that_waits(ipython, serve):
    server = serve(**SESSIONS)
    full(server)
    made = metric(server, "glovebox_boxes_made_total")
    for _ in range(3):
        full(server)
        with Box(server) as box:
            assert box.answer["limits"]["memory_bytes"] == 1 << 30 and box.answer["state"] == "ready"
            assert box.run("tr '\\0' ' ' < /proc/2/cmdline")["stdout"] == "/usr/bin/python3 "
            assert box.run("echo $PPID; cat /proc/2/stat | cut -d' ' -f4")["stdout"] == "1\n1\n"
    full(server)
    assert metric(server, "glovebox_boxes_made_total") == made + 3, "each was made once"
    assert metric(server, "glovebox_pool_made_total", image="kernel") == 5
    assert metric(server, "glovebox_pool_oldest_seconds", image="kernel") >= 0
    assert metric(server, "glovebox_pool_replaced_total") == 0


def test_an_empty_pool_is_slower_and_nothing_else(ipython, serve):
    server = serve(**WARM)
    with Box(server, pooled=False) as box:
        assert box.out("print(1)") == "1\n"
    assert metric(server, "glovebox_pool_taken_total", image="kernel", outcome="miss") == 1


def test_mounts_come_from_no_pool(ipython, serve, tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "file").write_text("content")
    server = serve(**SESSIONS, mount_root=tmp_path / "shown")
    full(server)
    with Box(server, pooled=False, mounts=[{"root": str(tmp_path / "shown"), "at": "/mnt/x"}]) as box:
        assert box.run("cat /mnt/x/file")["stdout"] == "content"
    assert metric(server, "glovebox_pool_taken_total", image="kernel", outcome="miss") == 0, "it did not ask"


def test_files_env_and_names_go_with_it(ipython, serve):
    server = serve(**SESSIONS)
    full(server)
    with Box(server, name="mine", env={"A": "b"}, files=[{"path": "d/f", "content": "text"}]) as box:
        assert box.run("cat d/f; echo $A; ls -A /workspace")["stdout"] == "textb\nd\n"
        assert server.call("GET", "/v1/boxes/name:mine")[1]["id"] == box.answer["id"]


# --- limits --------------------------------------------------------------------------------------------------


LOOK = """
import json, os
def seen(pid):
    return open(f"/proc/{pid}/limits").read()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([seen("self"), seen(1),
    [(os.statvfs(p).f_blocks * os.statvfs(p).f_frsize, os.statvfs(p).f_files) for p in ("/workspace", "/tmp", "/home/box", "/dev/shm")],
    sorted(line.split(" ", 4)[4].split(" - ")[0] for line in open("/proc/self/mountinfo")),
    [status[k] for k in ("Uid", "Gid", "Groups", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp", "Seccomp_filters")],
    sorted(os.listdir("/")), open("/proc/self/cgroup").read(), open("/proc/self/oom_score_adj").read(), os.getcwd(), os.environ["HOME"]]))
"""

LIMITS = {
    "smaller": {"memory_bytes": 48 * MIB, "cpus": 0.5, "cpu_seconds": 7, "processes": 12, "output_bytes": 20000, "file_bytes": 100 * KIB,
                "workspace_bytes": MIB, "workspace_inodes": 30, "open_files": 40, "scratch_bytes": MIB, "shm_bytes": MIB},
    "larger": {"memory_bytes": 300 * MIB, "cpus": 2, "cpu_seconds": 70, "processes": 90, "output_bytes": 20 * MIB, "file_bytes": 20 * MIB,
               "workspace_bytes": 30 * MIB, "workspace_inodes": 70000, "open_files": 2000, "scratch_bytes": 80 * MIB, "shm_bytes": 90 * MIB},
    "none": {},
}


def test_it_is_the_box_that_would_have_been_made(ipython, serve):
    pooled, plain = serve(**SESSIONS, **STANDARD), serve(**STANDARD)
    for limits in LIMITS.values():
        with Box(pooled, limits=limits) as ahead, Box(plain, pooled=False, limits=limits) as fresh:
            assert ahead.answer["limits"] == fresh.answer["limits"] and ahead.answer["layers"] == fresh.answer["layers"]
            assert json.loads(ahead.out(LOOK)) == json.loads(fresh.out(LOOK))
            waits = "print(open('/proc/2/limits').read() == open('/proc/self/limits').read())"
            assert ahead.out(waits) == "True\n", "who waited is no exception"


COUNT = """
import errno, os, subprocess
n, f = 0, os.open(PATH, os.O_CREAT | os.O_WRONLY)
try:
    while n < 100000:
        DO
        n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno])
os._exit(0)
"""


def count(box, do, path="/dev/null"):
    """How often something can be done, and why not once more."""
    n, why = box.out(COUNT.replace("DO", do).replace("PATH", repr(path))).split()
    return int(n), why


def open_files(box, value):
    n, why = count(box, "os.open('/dev/null', 0)")
    return value - 12 < n < value and why == "EMFILE"


def workspace_inodes(box, value):
    return count(box, "os.close(os.open(f'{n}', os.O_CREAT))") == (value - 1, "ENOSPC")


def bytes_in(path):
    return lambda box, value: count(box, "os.write(f, bytes(65536))", f"{path}/large") == (value // 65536, "ENOSPC")


def file_bytes(box, value):
    return count(box, "os.write(f, bytes(65536))", "/workspace/large") == (value // 65536, "EFBIG")


def processes(box, value):
    """init is none of them; who waits and who counts are."""
    return count(box, "subprocess.Popen(['/bin/sleep', '100'])") == (value - 2, "EAGAIN")


def memory_bytes(box, value):
    """The bound lies above by the size of the files that there may be, which is small here."""
    half = box.python(f"print(len(bytearray(b'x') * ({value} // 2)))")
    more = box.python(f"print(len(bytearray(b'x') * ({value} * 3 // 2)))")
    return half["stdout"] == f"{value // 2}\n" and more["stdout"] == "" and more["status"] == "oom"


def cpu_seconds(box, value):
    answer = box.python("import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU), flush=True)\nwhile True: pass", timeout_ms=60000)
    return answer["stdout"] == f"({value}, {value + 1})\n" and answer["signal"] == signal.SIGXCPU


def cpus(box, value):
    word = mark()
    assert box.server.call("POST", f"{box.path}/commands", {"shell": f"sleep 1000; : {word}", "detach": True})[0] == 202
    pid = until(lambda: box.server.running(word), "it runs")[0]
    return quota(pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii")) == value * 100000


def output_bytes(box, value):
    answer = box.python("print('x' * (18 << 20), end='')")
    return len(answer["stdout"]) == min(value, 18 << 20) and answer["truncated"]["stdout"] == (value < 18 << 20)


FEW_FILES = {"workspace_bytes": MIB, "scratch_bytes": MIB, "shm_bytes": MIB, "workspace_inodes": 100}
ROOM = {"file_bytes": 200 * MIB, "workspace_bytes": 100 * MIB, "memory_bytes": 300 * MIB}
# What the pool has lies between: a limit, a smaller and a larger value, whether it holds, and what it needs beside.
HOLD = [
    ("open_files", 30, 2000, open_files, {}),
    ("workspace_inodes", 20, 70000, workspace_inodes, {}),
    ("workspace_bytes", 512 * KIB, 90 * MIB, bytes_in("/workspace"), {"file_bytes": 200 * MIB, "memory_bytes": 300 * MIB}),
    ("scratch_bytes", 512 * KIB, 90 * MIB, bytes_in("/tmp"), ROOM),
    ("shm_bytes", 512 * KIB, 90 * MIB, bytes_in("/dev/shm"), ROOM),
    ("file_bytes", 128 * KIB, 20 * MIB, file_bytes, {"workspace_bytes": 100 * MIB}),
    ("processes", 10, 100, processes, {}),
    ("memory_bytes", 40 * MIB, 400 * MIB, memory_bytes, FEW_FILES),
    ("cpu_seconds", 1, 2, cpu_seconds, {}),  # the pool has none
    ("cpus", 0.5, 2, cpus, {}),
    ("output_bytes", 100, 30 * MIB, output_bytes, {}),
]


@pytest.mark.parametrize("which", ["smaller", "larger"])
def test_limits_hold(ipython, serve, which):
    server = serve(**SESSIONS, **STANDARD)
    for name, smaller, larger, holds, beside in HOLD:
        value = smaller if which == "smaller" else larger
        with Box(server, limits={**beside, name: value}) as box:
            assert holds(box, value), f"{name} = {value}"
    assert metric(server, "glovebox_pool_replaced_total") == 0 and hits(server) == len(HOLD)


def quota(text):
    """Of the cgroup of a process: processor time in 100 ms."""
    for line in text.splitlines():
        _, kinds, path = line.split(":", 2)
        for base, name in ((f"/sys/fs/cgroup/{kinds}{path}", "cpu.cfs_quota_us"), (f"/sys/fs/cgroup{path}", "cpu.max")):
            with contextlib.suppress(OSError):
                return int(pathlib.Path(base, name).read_text(encoding="ascii").split()[0])
    raise AssertionError(text)


# --- one owner -----------------------------------------------------------------------------------------------


def test_nobody_sees_what_another_left(ipython, serve):
    """Two tenants in turn, who leave what they can: files, processes, names in /dev/shm, a kernel that was stopped."""
    tokens = {tenant: f"{tenant}-token-of-the-test" for tenant in ("one", "two")}
    asks = [{"Authorization": f"Bearer {token}"} for token in tokens.values()]
    server = serve(**SESSIONS, tokens=tokens)
    server.asks_with = asks[0]
    seen = set()
    for i in range(4):
        full(server)
        with Box(server, headers=asks[i % 2], env={f"SECRET{i}": "x"}) as box:
            found = box.run("find /workspace /tmp /var/tmp /home/box /dev/shm -mindepth 1; env; cat /proc/[0-9]*/comm")["stdout"]
            assert "left" not in found and "sleep" not in found and found.count("SECRET") == 1, found
            box.run("touch /workspace/left /tmp/left /var/tmp/left ~/left /dev/shm/left; kill -STOP 2; setsid sleep 1000 >&- 2>&- &")
            seen.add(box.run("readlink /proc/self/ns/pid /proc/self/ns/user")["stdout"])
    assert len(seen) == 4, "each had namespaces of its own"


def test_a_kernel_that_was_killed_harms_nobody(ipython, serve):
    """By who has the box: it works, without."""
    server = serve(**SESSIONS)
    full(server)
    with Box(server) as box:
        assert box.run("kill -9 2; sleep 0.1; ls -d /proc/2")["exit_code"] == 2
        assert box.out("print(1)") == "1\n"
        assert server.call("GET", box.path)[1]["state"] == "ready"


def test_a_session_outlives_the_gate(ipython, serve):
    server = serve(**SESSIONS)
    full(server)
    with Box(server, limits={"open_files": 99}) as box:
        box.run("echo kept > f")
        old = server.kill_gate()
        server.next_gate(old)
        until(lambda: server.request("GET", "/ready")[0] == 200, "the next one is ready")
        assert box.run("cat f; ulimit -n")["stdout"] == "kept\n99\n"
        full(server)


# --- when something fails ------------------------------------------------------------------------------------


def pythons(server):
    """pids of kernels that wait in boxes."""
    return [pid for pid in server.tree() if (stat_of(pid) or [0, 0, "", ""])[3] == "python3"]


def test_members_that_die_are_replaced(ipython, serve):
    server = serve(**SESSIONS)
    full(server)
    for pid in pythons(server):
        os.kill(pid, signal.SIGKILL)
    until(lambda: metric(server, "glovebox_pool_lost_total", image="kernel") == 2, "they are missed")
    with Box(server) as box:
        assert box.out("print(1)") == "1\n"
    full(server)


def test_a_box_that_cannot_be_changed_is_another_one(ipython, serve):
    """Something lies in it that does not fit into what is asked for, put there from outside: a box is made at once, without a kernel."""
    server = serve(**{**SESSIONS, "session_pool_size": 1})
    full(server, 1)
    subprocess.run(["nsenter", "--target", str(pythons(server)[0]), "--user", "--mount", "-S", "65532", "-G", "65532",
                    "dd", "if=/dev/zero", "of=/dev/shm/filler", "bs=1M", "count=8", "status=none"], check=True)
    with Box(server, limits={"shm_bytes": MIB, "open_files": 77}) as box:
        assert metric(server, "glovebox_pool_replaced_total") == 1
        assert re.search("event=hand_out_failed why=.*shm", server.log())
        assert box.run("ls -A /dev/shm; ulimit -n; df -k --output=size /dev/shm | tail -1")["stdout"].split() == ["77", "1024"]
        assert "python3" not in box.run("cat /proc/[0-9]*/comm")["stdout"]
    full(server, 1)


def test_the_pool_is_in_nobodys_way(ipython, glovebox, tmp_path, few_processes):
    """As many processes as there may be are the pool's: whoever wants something else gets it, and the pool is smaller."""
    (tmp_path / "shown").mkdir()
    with Prepared(tmp_path / "serve", few_processes(400), **{**SESSIONS, "session_pool_size": 6}, mount_root=tmp_path / "shown",
                  health_check_interval="3600s") as server:
        full(server, 6)
        few_processes(len(server.tree()))
        assert server.execute("print(1)")["stdout"] == "1\n"
        assert metric(server, "glovebox_pool_yielded_total") == 1 and members(server) == 5
        boxes = [Box(server, pooled=False, mounts=[{"root": "shown"}]) for _ in range(4)]
        assert metric(server, "glovebox_pool_yielded_total") >= 2 and members(server) <= 4
        few_processes(400)
        for box in boxes:
            assert server.call("DELETE", box.path)[0] == 204


# --- how many ------------------------------------------------------------------------------------------------


def members(server):
    return metric(server, "glovebox_pool_boxes")


def test_there_is_a_ceiling_over_all(ipython, serve):
    server = serve(**{**POOLED, "pool_size": 4, "session_pool_size": 4, "pool_max": 4})
    until(lambda: metric(server, "glovebox_pool_boxes", state="waiting") == 4, "as many as there may be")
    assert members(server) == 4 and all(waiting(server, image) >= 1 for image in ("lean", "full", "kernel"))


def test_members_are_nobodys(ipython, serve):
    """Boxes that wait count for no tenant, and not against max_boxes."""
    server = serve(**{**SESSIONS, "max_boxes": 2, "max_boxes_per_tenant": 2, "session_pool_size": 3})
    full(server, 3)
    with Box(server), Box(server):
        status, answer = server.call("POST", "/v1/boxes", {})
        assert status in (429, 503) and answer["error"]["code"] == "quota_exceeded", answer
        full(server, 3)


def test_sizes_follow_a_reload(ipython, serve, tmp_path):
    conf = tmp_path / "pool.conf"
    conf.write_text("session_pool_size = 3\nbox_memory = 200M\n")
    server = serve(config=conf, **{key: value for key, value in WARM.items() if key != "session_pool_size"})
    full(server, 3)
    conf.write_text("session_pool_size = 1\nbox_memory = 300M\n")
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: "reloaded" in server.log(), "it is read again")
    full(server, 1)
    until(lambda: metric(server, "glovebox_boxes") == 1, "the others are gone")
    with Box(server) as box:
        assert box.answer["limits"]["memory_bytes"] == 300 * MIB
    assert metric(server, "glovebox_pool_replaced_total") == 0
