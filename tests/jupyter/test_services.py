# SPDX-License-Identifier: Apache-2.0
"""JupyterLab's own client, npm's @jupyterlab/services, as a client of ours: npm/services.cjs does it, check by check."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from comms import COMM, ECHO
from conftest import ROOT
from server import WARM, needs_root, shared

pytestmark = [needs_root, pytest.mark.more]

HERE = pathlib.Path(__file__).resolve().parent / "npm"
TOKEN = "a-token-for-jupyterlab-0123456789"
server = shared(tokens={"lab": TOKEN}, **WARM)
INSTALL_S, RUN_S = 240, 280
CHECKS = re.findall(r"^  async (?:'([^']+)'|(\w+))\(\) \{$", (HERE / "services.cjs").read_text(), re.M)
CHECKS = [quoted or bare for quoted, bare in CHECKS]


def run(*words, cwd, timeout):
    try:
        return subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(cwd), "NODE_OPTIONS": ""})
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, (e.stdout or b"").decode(), (e.stderr or b"").decode() + f"\nno end after {timeout} s")


@pytest.fixture(scope="module")
def packages():
    """A folder below build/ with what the lock file names."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"no {program}: JupyterLab's client cannot be tried")
    folder = ROOT / "build" / "jupyter-npm"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(HERE / name).read_bytes() for name in ("package.json", "package-lock.json")]
    done = folder / "installed"
    if not done.exists() or done.read_bytes() != b"".join(wanted):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        got = run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--cache", str(folder / "cache"), cwd=folder, timeout=INSTALL_S)
        if got.returncode:
            pytest.skip(f"npm ci failed: is the registry there? {got.stderr[-300:]}")
        done.write_bytes(b"".join(wanted))
    shutil.copy(HERE / "services.cjs", folder)
    return folder


@pytest.fixture(scope="module")
def results(packages, server):
    got = run("node", "services.cjs", f"http://{server.authority}/", TOKEN, COMM + ECHO, cwd=packages, timeout=RUN_S)
    found = [json.loads(line) for line in got.stdout.splitlines()]
    assert {one["name"] for one in found} == set(CHECKS), (got.returncode, got.stdout[-1000:], got.stderr[-3000:])
    return {one["name"]: one["error"] for one in found}


@pytest.mark.parametrize("name", CHECKS)
def test_jupyterlabs_client(results, name):
    assert results[name] is None, results[name]


def test_nothing_is_left(results, server):
    assert server.call("GET", "/api/kernels", headers={"Authorization": f"token {TOKEN}"}) == (200, []), results
