# SPDX-License-Identifier: Apache-2.0
"""The published client, ipybox of PyPI, with a box of ours: try_client.py does it, check by check. (What starts containers of
Docker is not used.)"""
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from boxes import Box
from conftest import ROOT
from server import WARM, needs_root, serve, shared  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

VERSION = "ipybox==0.6.7"
SCRIPT = pathlib.Path(__file__).resolve().parent / "try_client.py"
CHECKS = re.search(r"^CHECKS = \[(.*)\]$", SCRIPT.read_text(), re.M)[1].split(", ")
TOKEN = "a-token-for-ipybox-0123456789"
INSTALL_S, RUN_S = 240, 280

server = shared(**WARM)


def run(*words, timeout, cwd=None):
    try:
        return subprocess.run(list(map(str, words)), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(ROOT / "build")})  # what pip starts may write there
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, (e.stdout or b"").decode(), (e.stderr or b"").decode() + f"\nno end after {timeout} s")


@pytest.fixture(scope="module")
def python():
    """A Python below build/ that has ipybox."""
    folder = ROOT / "build" / "ipybox-venv"
    done = folder / "installed"
    if not done.exists() or done.read_text() != VERSION:
        shutil.rmtree(folder, ignore_errors=True)
        got = run("/usr/bin/python3", "-m", "venv", folder, timeout=INSTALL_S)
        if got.returncode:
            pytest.skip(f"no virtual environment, the client of ipybox cannot be tried: {got.stdout[-300:]}{got.stderr[-300:]}")
        got = run(folder / "bin" / "pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--quiet", VERSION, timeout=INSTALL_S)
        if got.returncode:
            pytest.skip(f"pip install {VERSION} failed: is PyPI there? {got.stderr[-300:]}")
        done.write_text(VERSION)
    return folder / "bin" / "python3"


def tried(python, box, host, folder):
    got = run(python, "-B", SCRIPT, box.ports["executor"], box.ports["resource"], host, timeout=RUN_S, cwd=folder)
    found = [json.loads(line) for line in got.stdout.splitlines()]
    assert [one["name"] for one in found] == CHECKS, (got.returncode, got.stdout[-1000:], got.stderr[-3000:])
    return {one["name"]: one["error"] for one in found}


@pytest.fixture(scope="module")
def results(python, server, tmp_path_factory):
    with Box(server) as box:
        yield tried(python, box, "localhost", tmp_path_factory.mktemp("client"))
        assert box.executor.call("GET", "/api/kernels") == (200, []), "every client has ended its kernel"


@pytest.mark.parametrize("name", CHECKS)
def test_the_client_of_ipybox(results, name):
    assert results[name] is None, results[name]


def test_with_a_token(python, serve, tmp_path):
    """It knows no tokens; but its host can carry one, as a URL does."""
    server = serve(tokens={"tenant": TOKEN}, **WARM)
    with Box(server, headers={"Authorization": f"Bearer {TOKEN}"}) as box:
        results = tried(python, box, f"gb:{TOKEN}@localhost", tmp_path)
        assert {name: error for name, error in results.items() if error} == {}
