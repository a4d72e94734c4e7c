# SPDX-License-Identifier: Apache-2.0
"""`glovebox demo`: ten attacks, each refused for the right reason."""
import re

import pytest

# What must have refused each attack, in order.
REFUSALS = [
    r"open /proc/1/exe: Permission denied",
    r"no descriptor beyond 0, 1, 2 is open",
    r"write core_pattern: (Read-only file system|Permission denied)",
    r"unshare: Operation not permitted",
    r"no socket of the host is to be seen",
    r"io_uring_setup: Function not implemented",
    r"TIOCSTI: Operation not permitted",
    r"after \d+ processes: Resource temporarily unavailable",
    r"connect 169\.254\.169\.254: Network is unreachable",
    r"none of \d+ places is there or readable",
]


def test_every_attack_is_refused_for_its_reason(run):
    done = run("demo", timeout=120)
    lines = re.findall(r"^    (refused|GOT THROUGH): (.*)$", done.stdout.decode(), re.M)
    assert [verdict for verdict, _ in lines] == ["refused"] * 10
    for (_, said), expected in zip(lines, REFUSALS):
        assert re.fullmatch(expected, said)
    assert done.stdout.endswith(b"10 of 10 attacks refused\n")
    assert done.returncode == 0


@pytest.mark.parametrize("args, status", [(["--help"], 0), (["--nonsense"], 125), (["x"], 125)])
def test_usage(run, args, status):
    done = run("demo", *args)
    assert done.returncode == status
    assert b"usage: glovebox demo" in (done.stderr if status else done.stdout)
