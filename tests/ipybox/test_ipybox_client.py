# SPDX-License-Identifier: Apache-2.0
"""The published client, ipybox of PyPI, with a box of ours: try_client.py does it, check by check. (What starts containers of
Docker is not used.)"""
import json
import pathlib
import re

import pytest

from boxes import Box
from pypi import call, python_with_ipybox
from server import WARM, needs_root, serve, shared  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

SCRIPT = pathlib.Path(__file__).resolve().parent / "try_client.py"
CHECKS = re.search(r"^CHECKS = \[(.*)\]$", SCRIPT.read_text(), re.M)[1].split(", ")
TOKEN = "a-token-for-ipybox-0123456789"
RUN_S = 280

server = shared(**WARM)


@pytest.fixture(scope="module")
def python():
    return python_with_ipybox()


def tried(python, box, host, folder):
    got = call(python, "-B", SCRIPT, box.ports["executor"], box.ports["resource"], host, timeout=RUN_S, cwd=folder)
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
