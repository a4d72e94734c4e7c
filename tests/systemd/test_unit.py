# SPDX-License-Identifier: Apache-2.0
"""The unit, under a systemd that is PID 1: started, watched, reloaded, killed and stopped by it.

Only for the guest, `tools/guest/run --systemd`: it installs into /usr/local and starts a service. A test begins with the
unit as it was installed and leaves it stopped.
"""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import ROOT, stat_of
from server import WAIT_S, Server, lives, mark, until, words_of

NAME = "glovebox.service"
IN_GUEST = "GLOVEBOX_GUEST" in os.environ and pathlib.Path("/run/systemd/system").is_dir()
pytestmark = pytest.mark.skipif(not IN_GUEST, reason="installs and starts a service: tools/guest/run --systemd")

# In an emulated guest everything takes longer than a server has reason to expect.
PATIENT = "backend_check_timeout = 60s\n"
WATCHDOG_S = 6
LONG_S = WAIT_S * 3


def tool(*words, timeout=WAIT_S * 2):
    return subprocess.run([str(word) for word in words], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)


def systemctl(*words):
    done = tool("systemctl", *words)
    assert done.returncode == 0, f"systemctl {' '.join(words)}: {done.stdout}\n{journal()}"
    return done.stdout


def journal(invocation=None):
    """What systemd and the service said about it; about one start of it."""
    which = [f"INVOCATION_ID={invocation}", "+", f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else ["-n", "60", "-u", NAME]
    return tool("journalctl", "--no-pager", "-o", "cat", *which).stdout


class Unit(Server):
    """The service as a server of server.py, which systemd starts and stops."""

    def __init__(self, folder):
        super().__init__(folder)
        words = re.search(r"argv\[\]=([^;]*)", self.show("ExecStart"))[1].split()
        self.program, self.config = words[0], pathlib.Path(words[words.index("--config") + 1])
        self.scheme, self.host, self.port = "http", "127.0.0.1", 8000

    @staticmethod
    def show(*names):
        """A property, as systemd has it; the list of several."""
        lines = systemctl("show", *(f"--property={name}" for name in names), NAME).splitlines()
        found = dict(line.split("=", 1) for line in lines)
        return found[names[0]] if len(names) == 1 else [found[name] for name in names]

    def is_running(self, restarts=0):
        return self.show("ActiveState", "SubState", "Result", "NRestarts") == ["active", "running", "success", str(restarts)]

    @property
    def pid(self):
        return int(self.show("MainPID"))

    @property
    def cgroup(self):
        return pathlib.Path("/sys/fs/cgroup" + self.show("ControlGroup"))

    def start(self):
        systemctl("start", NAME)

    def stop(self):
        systemctl("stop", NAME)

    def configure(self, text):
        self.config.write_text(PATIENT + text, encoding="utf-8")

    def drop_in(self, text):
        """As `systemctl edit` makes it; "" is none."""
        path = pathlib.Path("/etc/systemd/system", f"{NAME}.d", "override.conf")
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            systemctl("daemon-reload")

    def await_other(self, old):
        """Until systemd has another process in the place of this one, and has heard that it is ready."""
        def is_there():
            pid, state = self.show("MainPID", "ActiveState")
            return int(pid) not in (0, old) and state == "active"

        until(is_there, "another is started", LONG_S)

    def answers(self, text="6 * 7", expected="42\n"):
        return self.execute(text, timeout_ms=40000)["stdout"] == expected

    def session(self):
        """(pid of a process that waits in a box that stays, pid of the init of its box)."""
        word = mark()
        status, answer = self.call("POST", "/v1/sessions", {})
        assert status == 201, answer
        status, answer = self.call("POST", f"/v1/sessions/{answer['session_id']}/bash",
                                   {"cmd": f"exec -a {word} sleep 1000 >/dev/null 2>&1 & disown", "timeout_ms": 60000})
        assert (status, answer["exit_code"]) == (200, 0), answer
        pid = until(lambda: self.running(word), "a process in the box")[0]
        return pid, self.init_of(pid)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """`make install`, without the build before it."""
    done = tool("meson", "install", "-C", "build", "--no-rebuild")
    assert done.returncode == 0, done.stdout
    systemctl("daemon-reload")
    return Unit(tmp_path_factory.mktemp("unit"))


@pytest.fixture
def unit(installed):
    """The unit, stopped, with nothing changed but what an emulated guest needs."""
    installed.drop_in("")
    installed.configure("")
    yield installed
    installed.stop()
    tool("systemctl", "reset-failed", NAME)


@pytest.fixture
def running(unit):
    unit.start()
    return unit


# --- the unit itself -----------------------------------------------------------------------------------------


def test_systemd_accepts_it(unit, capsys):
    done = tool("systemd-analyze", "verify", NAME)
    assert (done.returncode, done.stdout) == (0, "")
    assert unit.show("LoadState", "Type", "NeedDaemonReload") == ["loaded", "notify", "no"]
    systemctl("enable", NAME)
    assert unit.show("UnitFileState") == "enabled"
    systemctl("disable", NAME)
    figure = re.findall(r"Overall exposure level.*", tool("systemd-analyze", "security", "--no-pager", NAME).stdout)
    with capsys.disabled():  # a figure to read, nothing to insist on
        print(f"\n{' '.join(figure)}")


# --- started -------------------------------------------------------------------------------------------------


def test_start_returns_when_it_serves(running):
    # Both come with one message, so that one was there before `systemctl start` returned.
    assert running.show("ActiveState", "SubState", "StatusText") == ["active", "running", "serving"]
    assert words_of(running.pid)[:2] == [running.program.encode(), b"serve"]
    status, answer = running.call("GET", "/health")
    assert (status, answer["status"]) == (200, "ok"), answer
    assert running.answers("print(6 * 7)")


def test_a_start_that_fails_says_so(unit):
    unit.configure("max_boxes = many\n")
    done = tool("systemctl", "start", NAME)
    assert done.returncode != 0 and unit.show("ActiveState") != "active", done.stdout
    assert "max_boxes" in journal()


def test_confinement_costs_boxes_no_layer(running, box_json):
    """Boxes of the service have what a box has that root makes without systemd."""
    plain = box_json("")["layers"]
    missing = running.call("GET", "/health")[1]["missing_layers"]
    assert plain and not set(plain) & set(missing)


# --- watched -------------------------------------------------------------------------------------------------


def test_it_is_heard_and_stays(unit):
    unit.drop_in(f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    unit.start()
    first, pid = int(unit.show("WatchdogTimestampMonotonic")), unit.pid
    until(lambda: int(unit.show("WatchdogTimestampMonotonic")) > first + WATCHDOG_S * 2500000,
          "it is heard for longer than the watchdog waits", LONG_S)
    assert unit.pid == pid and unit.is_running()


@pytest.mark.parametrize("role", ["serve", "keeper"])
def test_one_that_hangs_is_replaced(unit, role):
    unit.drop_in(f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    unit.start()
    pid, invocation, family = unit.pid, unit.show("InvocationID"), unit.tree()
    os.kill(unit.pid_of(role), signal.SIGSTOP)
    unit.await_other(pid)
    assert unit.is_running(restarts=1) and unit.answers()
    assert "Failed with result 'watchdog'" in journal(invocation)
    assert not any(lives(*one) for one in family.items())


# --- reloaded ------------------------------------------------------------------------------------------------


def is_refused(unit, timeout_ms):
    """A request for this much time."""
    return unit.call("POST", "/v1/execute", {"code": "", "timeout_ms": timeout_ms})[0] == 422


def test_reload_applies_what_has_changed(running):
    pid = running.pid
    assert not is_refused(running, 50000)
    running.configure("ci_max_timeout_ms = 40000\n")
    systemctl("reload", NAME)
    until(lambda: is_refused(running, 50000), "the new configuration holds")
    assert running.answers() and running.pid == pid and running.is_running()


def test_reload_of_a_mistake_changes_nothing(running):
    pid = running.pid
    running.configure("ci_max_timeout_ms = 40000\nno_such_key = 1\n")
    systemctl("reload", NAME)
    until(lambda: "the configuration stays as it was" in journal(), "it says so")
    assert "no_such_key" in journal()
    assert not is_refused(running, 50000) and running.pid == pid and running.is_running()
    # The next one is heard as well.
    running.configure("ci_max_timeout_ms = 40000\n")
    systemctl("reload", NAME)
    until(lambda: is_refused(running, 50000), "the corrected configuration holds")
    assert running.pid == pid and running.is_running()


# --- its part of the cgroup tree -----------------------------------------------------------------------------


def cgroup_of(pid):
    return pathlib.Path("/sys/fs/cgroup" + pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").strip().removeprefix("0::"))


def value(cgroup, name):
    return (cgroup / name).read_text(encoding="ascii").strip()


def test_boxes_are_below_the_service_with_limits_of_their_own(unit):
    unit.configure("ci_memory = 96M\nci_processes = 20\n")
    unit.start()
    pid, init = unit.session()
    box = cgroup_of(init)
    assert cgroup_of(pid) == box and box.parent == unit.cgroup == cgroup_of(unit.pid).parent
    assert {"memory", "pids", "cpu"} <= set(value(unit.cgroup, "cgroup.subtree_control").split())
    assert value(unit.cgroup, "pids.max") == "max"
    limits = value(box, "memory.max"), value(box, "pids.max")
    assert 96 << 20 <= int(limits[0]) < 1 << 30 and limits[1] == "21"
    systemctl("daemon-reload")
    assert (value(box, "memory.max"), value(box, "pids.max")) == limits

    # In force, and nobody else's affair.
    answer = unit.execute("x = bytearray(1 << 30)", timeout_ms=60000)
    assert answer["exit_code"] == 137, answer
    answer = unit.execute("import subprocess\nfor i in range(40): subprocess.Popen(['sleep', '100'])", timeout_ms=60000)
    assert answer["exit_code"] == 1 and "BlockingIOError" in answer["stderr"], answer
    assert unit.answers() and lives(pid, stat_of(pid)[1])
    assert unit.is_running()


# --- killed --------------------------------------------------------------------------------------------------


def test_after_kill_another_serves_and_the_boxes_of_before_are_gone(running):
    file_id = running.upload(b"kept")
    pid, init = running.session()
    old, family, box, cgroup = running.pid, running.tree(), cgroup_of(init), running.cgroup
    assert {pid, init} <= set(family)
    before = box.stat().st_ino
    os.kill(old, signal.SIGKILL)
    running.await_other(old)
    assert running.is_running(restarts=1) and running.answers()
    assert not any(lives(*one) for one in family.items())
    assert before not in [entry.inode() for entry in os.scandir(cgroup)]  # another box may have its name by now
    assert running.cgroup == cgroup and running.download(file_id) == b"kept"
    assert cgroup_of(running.session()[1]).parent == cgroup


def test_restart_is_another_with_boxes(running):
    old = running.pid
    systemctl("restart", NAME)
    assert running.pid != old and running.is_running()
    assert cgroup_of(running.session()[1]).parent == running.cgroup


# --- stopped -------------------------------------------------------------------------------------------------


def leftovers(unit, family, cgroup, socket):
    """What is there of it, as text."""
    found = [f"process {pid}" for pid, start in family.items() if lives(pid, start)]
    found += [f"process {pid}: {words_of(pid)}" for pid in os.listdir("/proc")
              if pid.isdigit() and os.path.basename(words_of(pid)[0]).startswith(b"glovebox")]
    found += [str(path) for path in (cgroup, socket) if path.exists()]
    found += [str(path) for folder in ("/tmp", "/var/tmp") for path in pathlib.Path(folder).glob("systemd-private-*glovebox*")]
    # Lock files stay on purpose, see src/keeper/instance.c; an empty one is nobody's.
    found += [str(path) for path in pathlib.Path("/run/glovebox").iterdir() if path.stat().st_size or path.suffix != ".lock"]
    found += [line for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
              if "glovebox" in line and str(ROOT) not in line]
    ports = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")
    found += [line for line in ports.splitlines() if f":{unit.port:04X} 00000000:0000 0A" in line]
    return found


def test_stop_lets_requests_finish_and_leaves_nothing(unit):
    socket = pathlib.Path("/run/glovebox.sock")
    unit.configure(f"listen = 127.0.0.1:8000\nlisten = unix:{socket}\n")
    unit.start()
    pid, _ = unit.session()
    assert socket.is_socket()
    word = mark()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(unit.execute, f"import subprocess\nsubprocess.run(['sh', '-c', 'sleep 3; true', '{word}'])\nprint('finished')",
                             timeout_ms=60000)
        until(lambda: unit.running(word), "the program runs")
        family, cgroup, invocation = unit.tree(), unit.cgroup, unit.show("InvocationID")
        assert pid in family
        unit.stop()
        assert answer.result()["stdout"] == "finished\n"
    # By itself, with status 0. systemd has forgotten all but what it wrote down.
    assert unit.show("ActiveState", "SubState") == ["inactive", "dead"]
    said = journal(invocation)
    assert "Deactivated successfully" in said and "Failed with" not in said and "Killing process" not in said, said
    assert leftovers(unit, family, cgroup, socket) == []
