# SPDX-License-Identifier: Apache-2.0
"""A machine that has no more processes, descriptors or memory to give: said in a line, status 125, nothing left."""
import os
import pathlib
import re
import resource
import subprocess

import pytest

# A sanitized program needs terabytes of addresses, and starts processes and opens files of its own at its end.
pytestmark = pytest.mark.skipif("asan" in os.environ.get("GLOVEBOX", ""), reason="not with sanitizers")

MIB = 1 << 20


def pids_base():
    """Where a cgroup with a limit on processes can be made."""
    for line in open("/proc/self/mountinfo", encoding="utf-8"):
        at, kind, options = line.split()[4], *re.search(r" - (\S+) \S+ (\S+)", line).groups()
        if kind == "cgroup" and "pids" in options.split(","):
            return pathlib.Path(at)
        if kind == "cgroup2" and "pids" in pathlib.Path(at, "cgroup.subtree_control").read_text().split():
            return pathlib.Path(at)
    return None


@pytest.fixture
def few_processes():
    """A function that limits the calling process, and all it starts, to so many processes."""
    base = pids_base()
    if os.geteuid() != 0 or base is None:
        pytest.skip("needs root and the pids controller")
    group = base / f"test-scarce-{os.getpid()}"
    group.mkdir()

    def enter(most):
        (group / "pids.max").write_text(str(most))
        return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))

    yield enter
    group.rmdir()


def told_in_a_line(done):
    lines = done.stderr.decode().splitlines()
    return 1 <= len(lines) <= 2 and all(line.startswith("glovebox: ") for line in lines)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_processes(glovebox, few_processes, most):
    """1: no keeper; 2: no box; 3: a box, but no program in it. (v2 boxes are born elsewhere and may have more.)"""
    done = subprocess.run([glovebox, "run", "-c", "print('ran')"], preexec_fn=few_processes(most), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    if done.returncode == 0:
        assert most > 1 and done.stdout == b"ran\n"
        return
    assert done.returncode == 125 and done.stdout == b""
    assert told_in_a_line(done), done.stderr
    assert b"Resource temporarily unavailable" in done.stderr


@pytest.mark.parametrize("most", [4, 6, 8, 12, 16, 24, 32, 48])
def test_no_descriptors(glovebox, most):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    done = subprocess.run([glovebox, "run", "-c", "print('ran')"], preexec_fn=few, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    if done.returncode == 0:
        assert done.stdout == b"ran\n"
        return
    assert done.returncode == 125 and done.stdout == b""
    assert told_in_a_line(done), done.stderr


def with_little(mib):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))


@pytest.fixture(scope="module")
def smallest(glovebox):
    """So many MiB of addresses that the kernel can start the program at all: with less it is ended before its first instruction."""
    def starts(mib):
        return subprocess.run([glovebox, "--version"], preexec_fn=with_little(mib), capture_output=True, check=False).returncode >= 0

    return next(filter(starts, range(4, 64)))


@pytest.mark.parametrize("more", [0, 1, 5, 13])
def test_no_memory(glovebox, smallest, more):
    """At first not even the loader starts (127); with more, we run or say why not."""
    done = subprocess.run([glovebox, "run", "--shell", "-c", "echo ran"], preexec_fn=with_little(smallest + more), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    if done.returncode == 0:
        assert done.stdout == b"ran\n"
        return
    assert done.returncode in (125, 127), (done.returncode, done.stderr)
    assert done.stderr
