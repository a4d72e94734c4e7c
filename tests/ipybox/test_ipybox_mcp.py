# SPDX-License-Identifier: Apache-2.0
"""Clients for MCP servers, generated: /mcp of the resource server, and what the generated code does in a box."""
import json

import pytest

from boxes import Box
from mcp_servers import HONEST, HOSTILE
from server import needs_root, shared

pytestmark = needs_root
server = shared()

PARAMS = {"command": "python3", "args": ["/tmp/server.py"], "env": {"SECRET": "known"}}


@pytest.fixture
def box(server):
    with Box(server) as box:
        box.shell(f"cat > /tmp/server.py <<'THE END'\n{HONEST}\nTHE END")
        yield box


def put(box, path="mcptools/honest", params=None):
    status, _, body = box.resource.request("PUT", f"/mcp/{path}", json.dumps(PARAMS if params is None else params).encode())
    return status, json.loads(body)


def get(box, path, name):
    status, _, body = box.resource.request("GET", f"/mcp/{path}?server_name={name}")
    return status, json.loads(body)


def cell(box, code):
    answer = box.cell(code)
    assert answer["status"] == "ok", answer
    return answer["stdout"]


def test_clients_are_generated(box):
    assert put(box) == (200, ["tool_1", "fails", "env"])
    status, sources = get(box, "mcptools", "honest")
    assert status == 200 and sorted(sources) == ["env", "fails", "tool_1"]
    for fragment in ("class Params(", "s: str", "n: ", "float", "b: Optional[bool]", "def tool_1(params: Params) -> str:", 'run_sync("tool-1"', "This is tool 1."):
        assert fragment in sources["tool_1"], fragment
    assert box.shell("ls /app/mcptools/honest").split() == ["__init__.py", "env.py", "fails.py", "tool_1.py"]


def test_generated_code_calls_the_server(box):
    assert put(box)[0] == 200
    assert cell(box, "from mcptools.honest.tool_1 import Params, tool_1\nprint(tool_1(Params(s='x', n=3)))") == "{'s': 'x', 'n': 3.0}\n"
    assert cell(box, "from mcptools.honest.env import Params, env\nprint(env(Params()))") == "known\n"
    assert cell(box, "from mcptools.honest import fails\ntry:\n    fails.fails(fails.Params())\nexcept Exception as e:\n    print(e)") == "it failed\n"
    assert cell(box, "import ipybox.mcp.run as run, mcptools.honest as h\nprint(await run.run_async('tool-1', {'s': 1}, h.SERVER_PARAMS))") == "{'s': 1}\n"
    assert box.shell("pgrep -f '[/]tmp/server.py' || true") == "", "a connection per call, and nothing that stays"


def test_it_is_made_anew(box):
    assert put(box)[0] == 200
    box.shell("touch /app/mcptools/honest/old.py")
    assert put(box)[0] == 200
    assert "old.py" not in box.shell("ls /app/mcptools/honest")


def test_hostile_servers_put_no_code_into_their_clients(box):
    box.shell(f"cat > /tmp/server.py <<'THE END'\n{HOSTILE}\nTHE END")
    status, names = put(box, "mcptools/hostile")
    assert status == 200 and len(names) == 6
    for name in names:
        assert name.isidentifier()
        cell(box, f"import importlib\nm = importlib.import_module('mcptools.hostile.{name}')\nprint(m.Params)")
    assert box.shell("find /app -name hacked; ls /app; ls /app/mcptools").split() == ["mcptools", "hostile"]


@pytest.mark.parametrize("params, says", [
    ({}, 'Neither a "command" nor a "url" key'), ({"url": "http://127.0.0.1:1/mcp"}, "refused"), ({"url": "ftp://x/mcp"}, "is no URL of http"),
    ({"url": "http://x/y"}, "type"), ({"command": "/nothing/of/the/kind"}, "No such file"), ({"command": "true"}, "has ended"), ({"command": "false"}, "has ended"),
    ({"command": "python3", "args": ["-c", "print('{}'); print('[]'); print('junk')"]}, "has ended")])
def test_servers_that_cannot_be_used(box, params, says):
    status, answer = put(box, params=params)
    assert status == 400 and answer["detail"].startswith("MCP server honest cannot be used: ") and says in answer["detail"]
    assert box.shell("ls /app") == ""


@pytest.mark.parametrize("path", ["../x", "a/../../x", "%2e%2e/x", "/etc/x"])
def test_paths_that_lead_out(box, path):
    assert box.resource.request("PUT", f"/mcp/{path}", b"{}")[0] == 400
    assert box.resource.request("GET", f"/mcp/{path}?server_name=x")[0] == 400


def test_what_is_not_there(box):
    assert get(box, "mcptools", "nobody") == (404, {"detail": "MCP server nobody not found"})
    assert get(box, "mcptools", "..%2fx")[0] == 400
    assert box.resource.request("GET", "/mcp/mcptools")[0] == 422
    assert box.resource.request("PUT", "/mcp/mcptools/x", b"[]")[0] == 422
    assert box.resource.request("PUT", "/mcp/mcptools/x", b"{")[0] == 422
    box.shell("mkdir -p /app/mcptools/empty")
    assert get(box, "mcptools", "empty") == (200, {})
