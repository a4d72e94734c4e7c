# SPDX-License-Identifier: Apache-2.0
"""The official conformance suite, against the server core with the suite's fixtures (fixture_server.c)."""
import os
import re
import subprocess

import pytest

from conftest import program_path
from node import SCOPE, node, packages

pytestmark = pytest.mark.more

SUITE = f"{SCOPE}/conformance/dist/index.js"
# How many scenarios are scored: fewer would mean that the suite did not do what it is for.
SCORED = {"2025-11-25": 30, "2026-07-28": 37}
RUN_S = 200


@pytest.fixture(scope="module")
def url():
    process = subprocess.Popen([program_path().parent / "fixture-server"], env={**os.environ, "PORT": "0"}, stderr=subprocess.PIPE, text=True)
    try:
        yield process.stderr.readline().split()[-1]
        assert process.poll() is None, process.stderr.read()
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.parametrize("revision", SCORED)
def test_every_scored_scenario_passes(url, revision):
    got = node(packages(), SUITE, "server", "--url", url, "--requirements", revision, timeout=RUN_S)
    summary = got.stdout.partition("=== SUMMARY ===")[2]
    unscored = set(re.findall(r"^  [✓✗] (\S+) \(", summary, re.M))
    verdicts = {name: mark for mark, name in re.findall(r"^([✓✗]) (\S+): \d+ passed", summary, re.M) if name not in unscored}
    assert len(verdicts) == SCORED[revision], got.stdout[-3000:] + got.stderr[-1000:]
    assert set(verdicts.values()) == {"✓"}, summary
    # What else it looks at, but for an extension that this server does not have.
    failing = set(re.findall(r"^  ✗ (\S+) \(", summary, re.M))
    assert all(name.startswith("tasks-") for name in failing), summary
    assert not re.search(r"\bWARNING\b", got.stdout), got.stdout
