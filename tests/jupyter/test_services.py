# SPDX-License-Identifier: Apache-2.0
"""JupyterLab's own client, npm's @jupyterlab/services, as a client of ours: npm/services.cjs does it, check by check."""
import json
import pathlib
import re

import pytest

import npm
from comms import COMM, ECHO
from server import WARM, needs_root, shared

pytestmark = [needs_root, pytest.mark.more]

HERE = pathlib.Path(__file__).resolve().parent / "npm"
TOKEN = "a-token-for-jupyterlab-0123456789"
server = shared(tokens={"lab": TOKEN}, **WARM)
RUN_S = 280
CHECKS = re.findall(r"^  async (?:'([^']+)'|(\w+))\(\) \{$", (HERE / "services.cjs").read_text(), re.M)
CHECKS = [quoted or bare for quoted, bare in CHECKS]


@pytest.fixture(scope="module")
def packages():
    return npm.installed(HERE, "jupyter-npm", "services.cjs")


@pytest.fixture(scope="module")
def results(packages, server):
    got = npm.run("node", "services.cjs", f"http://{server.authority}/", TOKEN, COMM + ECHO, cwd=packages, timeout=RUN_S)
    found = [json.loads(line) for line in got.stdout.splitlines()]
    assert {one["name"] for one in found} == set(CHECKS), (got.returncode, got.stdout[-1000:], got.stderr[-3000:])
    return {one["name"]: one["error"] for one in found}


@pytest.mark.parametrize("name", CHECKS)
def test_jupyterlabs_client(results, name):
    assert results[name] is None, results[name]


def test_nothing_is_left(results, server):
    assert server.call("GET", "/api/kernels", headers={"Authorization": f"token {TOKEN}"}) == (200, []), results
