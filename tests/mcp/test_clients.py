# SPDX-License-Identifier: Apache-2.0
"""The official clients of MCP (npm's sdk and client, both eras) against a real server: npm/clients.mjs does it, check by check."""
import json
import re

import pytest

from conftest import program_path
from node import HERE, node, packages
from server import WARM, needs_root, shared, until

pytestmark = [needs_root, pytest.mark.more]

TOKEN = "a-token-for-mcp-0123456789abcdef"
server = shared(tokens={"agent": TOKEN}, **WARM)
CHECKS = re.findall(r"^  async '([^']+)'\(\) \{$", (HERE / "clients.mjs").read_text(), re.M)
CLIENTS = ["v1", "v2", "v2-modern"]
RUN_S = 200


@pytest.fixture(scope="module", params=[(client, way) for way in ("http", "stdio") for client in CLIENTS], ids="-".join)
def results(request, server, tmp_path_factory):
    client, way = request.param
    folder = tmp_path_factory.mktemp("files")
    (folder / "token").touch(0o600)
    (folder / "token").write_text(TOKEN)
    (folder / "there").write_text("from outside")
    url = f"http://{server.authority}"
    words = [f"{url}/mcp", TOKEN] if way == "http" else [program_path(), "mcp", "--url", url, "--token-file", folder / "token", "--allowed-dir", folder]
    got = node(packages(), "clients.mjs", client, folder, *words, timeout=RUN_S)
    found = [json.loads(line) for line in got.stdout.splitlines()]
    assert {one["name"] for one in found} == set(CHECKS), (got.returncode, got.stdout[-1000:], got.stderr[-3000:])
    return {one["name"]: one["error"] for one in found}


@pytest.mark.parametrize("name", CHECKS)
def test_official_client(results, name):
    assert results[name] is None, results[name]


def test_its_boxes_go_with_it(results, server):
    until(lambda: server.call("GET", "/v1/boxes", headers={"Authorization": f"Bearer {TOKEN}"}) == (200, {"boxes": [], "next": None}), f"no box is left: {results}")
