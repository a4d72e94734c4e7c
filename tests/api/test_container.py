# SPDX-License-Identifier: Apache-2.0
"""Inside a container: what is there is used, what is missing is said.

A container's mark is a /proc with something mounted over a part of it: the kernel then refuses a fresh /proc to
a user namespace. `unshare` makes such a place here. A real container runtime is used where one is installed.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making a container needs root")

MASK = "mount --bind /dev/null /proc/timer_list && exec \"$@\""
ORDINARY = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]
NO_CGROUP = "memory-limit,process-limit,cpu-limit,own-uids"


def masked(*command):
    return subprocess.run(["unshare", "--mount", "/bin/bash", "-c", MASK, "bash", *map(str, command)], cwd="/",
                          capture_output=True, timeout=60, check=False)


@pytest.fixture
def public_glovebox(glovebox, tmp_path_factory):
    """Where an ordinary user can execute it."""
    folder = pathlib.Path("/tmp") / f"glovebox-test-{os.getpid()}"
    folder.mkdir(mode=0o755)
    shutil.copy(glovebox, folder / "glovebox")
    yield folder / "glovebox"
    shutil.rmtree(folder)
    # The run directory of a user without /run/user: lock files stay in it on purpose.
    shutil.rmtree("/tmp/glovebox-12345", ignore_errors=True)


def test_root_mounts_proc_for_a_box_that_may_not(glovebox):
    done = masked(glovebox, "run", "--json", "-c",
                  "import os; print(open('/proc/1/comm').read(), sorted(int(p) for p in os.listdir('/proc') if p.isdigit())[0],"
                  " os.path.getsize('/proc/keys'), os.listdir('/proc/irq'))")
    result = json.loads(done.stdout)
    assert result["stdout"] == "init\n 1 0 []\n"
    assert {"own-proc", "masked-proc", "namespace-counters"} <= set(result["layers"])


def test_without_help_the_layer_is_missing_and_refused_by_name(public_glovebox):
    done = masked(*ORDINARY, public_glovebox, "run", "--accept-missing", NO_CGROUP, "-c", "print(1)")
    assert done.returncode == 125
    assert b"own-proc" in done.stderr
    assert done.stdout == b""


def test_a_box_without_proc_works_and_says_so(public_glovebox):
    done = masked(*ORDINARY, public_glovebox, "run", "--json", "--accept-missing",
                  NO_CGROUP + ",own-proc,namespace-counters", "-c",
                  "import os, subprocess; print(os.listdir('/proc'), subprocess.run(['true']).returncode)")
    result = json.loads(done.stdout)
    assert result["stdout"] == "[] 0\n"
    assert not {"own-proc", "namespace-counters", "own-uids"} & set(result["layers"])


# What container runtimes give by default.
CAPS = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
        "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL",
        "CAP_AUDIT_WRITE"]


def bundle(folder, glovebox, caps):
    """A container as a runtime makes it: masked /proc, read-only cgroups, no seccomp profile."""
    root = folder / "rootfs"
    for name in ("usr", "proc", "dev", "tmp", "etc", "sys", "run", "gb"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": ["newinstance", "ptmxmode=0666"]},
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        {"destination": "/gb", "type": "bind", "source": str(glovebox.parent), "options": ["rbind", "ro"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
    ]
    config = {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "args": [],
                    "capabilities": {kind: caps for kind in ("bounding", "effective", "permitted")}},
        "root": {"path": "rootfs"},
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "network")],
                  "maskedPaths": ["/proc/keys", "/proc/timer_list"],
                  "readonlyPaths": ["/proc/sys", "/proc/irq", "/proc/bus"]},
    }
    return config


@pytest.mark.skipif(shutil.which("runc") is None, reason="runc is not installed")
@pytest.mark.parametrize("caps, own_proc", [(CAPS + ["CAP_SYS_ADMIN"], True), (CAPS, False)],
                         ids=["SYS_ADMIN", "default capabilities"])
def test_in_a_real_container(glovebox, tmp_path, caps, own_proc):
    config = bundle(tmp_path, glovebox, caps)
    missing = NO_CGROUP.removesuffix(",own-uids") + ("" if own_proc else ",own-proc,namespace-counters")
    config["process"]["args"] = ["/gb/" + glovebox.name, "run", "--json", "--accept-missing", missing, "-c",
                                 "import os; print(os.getuid(), '1' in os.listdir('/proc'))"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    name = f"glovebox-test-{os.getpid()}"
    done = subprocess.run(["runc", "--root", str(tmp_path / "state"), "run", "--bundle", str(tmp_path), name],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert result["error"] is None
    assert result["stdout"] == f"65532 {own_proc}\n"
    assert ("own-proc" in result["layers"]) == own_proc
    assert "own-uids" in result["layers"]
