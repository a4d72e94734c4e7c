# SPDX-License-Identifier: Apache-2.0
"""MCP over HTTP: tools and resources of a real server, sessions, owners, and what happens when things go wrong."""
import base64
import json
import threading

import pytest

from mcp_servers import HONEST, HOSTILE
from server import WARM, needs_root, serve, shared, until  # noqa: F401
from speak import LOST, Speaker, events, joined
from wheels import wheel

pytestmark = needs_root

TOKENS = {"one": "token-of-one-0123456789abcdef", "two": "token-of-two-0123456789abcdef"}
server = shared(tokens=TOKENS, **WARM)


@pytest.fixture
def one(server):
    speaker = Speaker(server, TOKENS["one"])
    speaker.initialize()
    yield speaker
    assert speaker.end() in (204, 404)


@pytest.fixture
def boxes(server):
    """Boxes of a tenant that are not about to end, as pairs of id and metadata."""
    def find(tenant="one"):
        answer = server.call("GET", "/v1/boxes", headers={"Authorization": f"Bearer {TOKENS[tenant]}"})[1]
        return {b["id"]: b["metadata"] for b in answer["boxes"] if b["state"] != "ending"}
    yield find
    for tenant, token in TOKENS.items():
        for box in find(tenant):
            server.call("DELETE", f"/v1/boxes/{box}", headers={"Authorization": f"Bearer {token}"})


# --- cells ------------------------------------------------------------------------------------------------------


def test_cells_of_a_session_share_their_variables(one):
    assert one.text("execute_ipython_cell", code="x = 41\nprint('hi')\nx + 1") == "hi\n42\n"
    assert one.text("execute_ipython_cell", code="x") == "41\n"


def test_nothing_printed_is_an_empty_text(one):
    assert one.call("execute_ipython_cell", code="pass")["content"] == [{"type": "text", "text": ""}]


def test_an_exception(one):
    result = one.call("execute_ipython_cell", code="print('before')\n1/0")
    assert result["isError"] is True
    assert [c["text"] for c in result["content"]][0] == "before\n"
    assert result["content"][1]["text"].startswith("ZeroDivisionError: division by zero\n-----")
    assert "\x1b" not in joined(result) and "1/0" in joined(result)


def test_colours_of_output_are_left_out(one):
    assert one.text("execute_ipython_cell", code=r"print('\x1b[31mred\x1b[0m \x1b[1;32mgreen\x1b[0m')") == "red green\n"


def test_a_timeout_keeps_the_session(one):
    one.call("execute_ipython_cell", code="x = 5")
    result = one.call("execute_ipython_cell", code="import time\ntime.sleep(600)", timeout=0.3)
    assert result["isError"] and joined(result).startswith("Execution timed out after 0.300 seconds")
    assert one.text("execute_ipython_cell", code="x") == "5\n"


def test_a_kernel_that_dies(one):
    one.call("execute_ipython_cell", code="x = 5")
    result = one.call("execute_ipython_cell", code="import os\nos._exit(3)")
    assert result["isError"] and "the kernel ended with status 3" in joined(result) and "all variables" in joined(result)
    result = one.call("execute_ipython_cell", code="print('x' in dir())")
    assert joined(result).startswith("[The kernel was started anew") and joined(result).endswith("False\n")


def test_output_is_cut_where_it_is_asked_for(one):
    assert one.text("execute_ipython_cell", code="print('ä' * 100, end='')", max_output_chars=10) == "ä" * 10 + "\n\n[Output truncated: exceeded 10 character limit]"
    assert one.text("execute_ipython_cell", code="print('ä' * 10, end='')", max_output_chars=10) == "ä" * 10
    assert len(one.text("execute_ipython_cell", code="print('x' * 3_000_000, end='')")) == 3_000_000


def test_pictures(one):
    result = one.call("execute_ipython_cell", code="from PIL import Image\ndisplay(Image.new('RGB', (3, 2)))\nprint('behind')")
    kinds = [c["type"] for c in result["content"]]
    assert sorted(kinds) == ["image", "text"] and joined(result) == "behind\n"
    [image] = [c for c in result["content"] if c["type"] == "image"]
    assert image["mimeType"] == "image/png" and base64.b64decode(image["data"], validate=True)[1:4] == b"PNG"


def test_what_was_cleared_is_not_told(one):
    code = "from IPython.display import clear_output\nprint('old')\nclear_output()\nprint('new')"
    assert one.text("execute_ipython_cell", code=code) == "new\n"


def test_reset(one):
    assert one.call("reset")["content"] == []
    one.call("execute_ipython_cell", code="x = 1\nopen('stays', 'w').close()")
    assert one.call("reset")["content"] == []
    assert one.text("execute_ipython_cell", code="import os\nprint('x' in dir(), os.path.exists('stays'))") == "False True\n"


def test_progress_and_the_end_come_on_one_stream(one):
    code = "import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.4)"
    got = one.ask("tools/call", {"name": "execute_ipython_cell", "arguments": {"code": code}, "_meta": {"progressToken": "p"}})
    progress = [m["params"] for m in got.messages if m.get("method") == "notifications/progress"]
    assert progress and all(p["progressToken"] == "p" for p in progress)
    assert [p["progress"] for p in progress] == sorted({p["progress"] for p in progress})
    assert joined(got.result) == "0\n1\n2\n3\n"
    assert got.headers["X-Accel-Buffering"] == "no"


# --- who leaves -------------------------------------------------------------------------------------------------


def begun(one):
    return "begun" in [e["path"] for e in one.call("list_files")["structuredContent"]["entries"]]


ENDLESS = "open('begun', 'w').close()\nimport time\ntry:\n    time.sleep(600)\nfinally:\n    open('ended', 'w').close()"


def test_a_client_that_leaves_interrupts_its_cell(one, server):
    one.call("execute_ipython_cell", code="x = 7")
    connection = server.connection()
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": {
        "name": "execute_ipython_cell", "arguments": {"code": ENDLESS}}}), one.headers())
    until(lambda: begun(one), "the cell runs")
    connection.close()
    assert one.text("execute_ipython_cell", code="import os\nprint(x, os.path.exists('ended'))") == "7 True\n"


def test_a_call_is_cancelled_by_its_id(one, server):
    answers = []
    message = {"jsonrpc": "2.0", "id": "the call", "method": "tools/call", "params": {"name": "execute_ipython_cell", "arguments": {"code": ENDLESS}}}
    thread = threading.Thread(target=lambda: answers.append(one.send(message)))
    thread.start()
    until(lambda: begun(one), "the cell runs")
    other = Speaker(server, TOKENS["two"])
    other.initialize()
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "the call"}}
    assert other.send(cancel).status == 202  # not theirs: nothing happens
    assert not answers and other.end() == 204
    assert one.send(cancel).status == 202
    thread.join()
    assert answers[0].status == 202 and not answers[0].messages
    assert one.text("execute_ipython_cell", code="import os\nprint(os.path.exists('ended'))") == "True\n"


# --- commands ---------------------------------------------------------------------------------------------------


def test_a_command(one):
    result = one.call("run_command", command="echo out; echo err >&2; pwd; exit 3", cwd="/tmp")
    found = result["structuredContent"]
    assert (found["stdout"], found["stderr"], found["exit_code"], found["status"]) == ("out\n/tmp\n", "err\n", 3, "error")
    assert joined(result) == "out\n/tmp\nerr\n[exit code 3]" and not result.get("isError")


def test_input_of_a_command(one):
    assert one.text("run_command", command="tr a-z A-Z", stdin="hello") == "HELLO"


def test_a_command_that_takes_too_long(one):
    result = one.call("run_command", command="echo begun; sleep 600", timeout=0.3)
    assert result["isError"] and joined(result) == "begun\n[timeout]" and result["structuredContent"]["status"] == "timeout"


@pytest.mark.parametrize("name", ["--version", "-r /etc/passwd", "x$(touch hacked)", "x' 'y"])
def test_a_package_is_an_argument_and_no_text_for_a_shell(one, name):
    result = one.call("install_package", package_name=name)
    assert result["isError"] and f"Invalid requirement: {name!r}" in joined(result)
    assert one.call("list_files")["structuredContent"]["entries"] == []


def test_a_package_that_was_installed_is_there_for_cells(one):
    name, data = wheel("gbpackage", "2.5")
    assert one.text("execute_ipython_cell", code="try:\n    import gbpackage\nexcept ImportError as e: print(e)") == "No module named 'gbpackage'\n"
    one.call("write_file", path=name, content_base64=base64.b64encode(data).decode())
    assert "Successfully installed gbpackage-2.5" in joined(one.call("install_package", package_name=f"./{name}"))
    assert one.text("execute_ipython_cell", code="import gbpackage; gbpackage.VERSION") == "'2.5'\n"


# --- servers for code in the box --------------------------------------------------------------------------------


def register(one, name="my-server", text=HONEST, **params):
    one.call("write_file", path="/tmp/server.py", content=text)
    return one.call("register_mcp_server", server_name=name, server_params={"command": "python3", "args": ["/tmp/server.py"], **params})


def test_tools_of_a_server_in_the_box(one):
    result = register(one, env={"SECRET": "${WHERE}"})
    assert joined(result) == '["tool_1","fails","env"]'
    assert result["structuredContent"]["tools"] == ["tool_1", "fails", "env"] and result["structuredContent"]["package"] == "my_server"
    code = "import os\nos.environ['WHERE'] = 'here'\nfrom mcptools.my_server.tool_1 import Params, run, run_async\nprint(run(Params(s='x', n=3)), run(s='y'), await run_async(s='z', b=True))"
    assert one.text("execute_ipython_cell", code=code) == "{'s': 'x', 'n': 3.0} {'s': 'y'} {'s': 'z', 'b': True}\n"
    code = "from mcptools.my_server import fails, env\ntry:\n    fails.run()\nexcept Exception as e:\n    print(type(e).__name__, e)\nprint(env.run())"
    assert one.text("execute_ipython_cell", code=code) == "ToolError it failed\nhere\n"
    # One server for all calls of a process; another program has its own, and takes it along.
    assert one.text("run_command", command="pgrep -fc '^python3 /tmp/server.py'") == "1\n"
    assert one.text("run_command", command="python3 -c 'from mcptools.my_server.tool_1 import run; print(run(s=1 and \"q\"))'") == "{'s': 'q'}\n"
    assert one.text("run_command", command="pgrep -fc '^python3 /tmp/server.py'") == "1\n"


def test_a_server_in_the_box_that_dies_is_started_again(one):
    register(one)
    code = "from mcptools.my_server.tool_1 import run\nprint(run(s='a'))"
    assert one.text("execute_ipython_cell", code=code) == "{'s': 'a'}\n"
    one.call("run_command", command="pkill -f '^python3 /tmp/server.py'")
    assert one.text("execute_ipython_cell", code=code) == "{'s': 'a'}\n"


def test_a_hostile_server_puts_no_code_into_its_clients(one):
    names = register(one, "x'; import os; '", HOSTILE)["structuredContent"]
    assert len(names["tools"]) == 6 and names["package"].isidentifier()
    for name in names["tools"]:
        assert one.call("execute_ipython_cell", code=f"import mcptools.{names['package']}.{name} as m\nm.Params").get("isError") is None
    assert one.text("run_command", command="ls; ls /app 2>/dev/null; ls mcptools").split() == ["mcptools", "__init__.py", "_gateway.py", "_run.py", "_runtime.py", "_servers", names["package"]]


@pytest.mark.parametrize("params, says", [
    ({}, 'Neither a "command" nor a "url" key'), (5, "must be an object"), ({"url": "http://127.0.0.1:1/mcp"}, "refused"), ({"command": "false"}, "has ended"),
    ({"command": "/nothing"}, "No such file")])
def test_servers_that_cannot_be_registered(one, params, says):
    result = one.call("register_mcp_server", server_name="x", server_params=params)
    assert result["isError"] and says in joined(result)
    assert one.call("list_files")["structuredContent"]["entries"] == []


@pytest.mark.parametrize("name", ["_runtime", "_RUN", "_servers"])
def test_names_that_are_taken(one, name):
    assert register(one, name) == {"content": [{"type": "text", "text": f"an MCP server cannot be called '{name}'"}], "isError": True}


# --- files ------------------------------------------------------------------------------------------------------


def test_files(one):
    assert one.text("write_file", path="d/é b.txt", content="héllo") == "6 bytes written"
    assert one.text("write_file", path="/tmp/bytes", content_base64="AAH/") == "3 bytes written"
    assert one.text("read_file", path="./d/é b.txt") == "héllo"
    [block] = one.call("read_file", path="/tmp/bytes")["content"]
    assert block["type"] == "resource" and block["resource"]["blob"] == "AAH/" and block["resource"]["uri"].endswith("//tmp/bytes")
    entries = one.call("list_files", recursive=True)["structuredContent"]["entries"]
    assert [(e["path"], e["type"]) for e in entries] == [("d", "directory"), ("d/é b.txt", "file")]
    assert one.text("list_files", path="d") == "é b.txt  6\n"


def test_a_large_file_in_parts(one):
    one.call("execute_ipython_cell", code="open('large', 'w').write('0123456789' * 1_000_000)")
    first = one.call("read_file", path="large")
    assert len(first["content"][0]["text"]) == 8 * 1024 * 1024
    assert first["content"][1]["text"] == "[8388608 of 10000000 bytes; go on with offset 8388608]"
    rest = one.call("read_file", path="large", offset=8388608)
    assert first["content"][0]["text"] + rest["content"][0]["text"] == "0123456789" * 1_000_000 and len(rest["content"]) == 1


@pytest.mark.parametrize("path", ["../x", "a/../../x", "a//b", "x\x01/..", "/../etc/shadow"])
@pytest.mark.parametrize("tool", ["read_file", "write_file", "list_files"])
def test_paths_that_lead_nowhere(one, tool, path):
    result = one.call(tool, path=path, **({"content": ""} if tool == "write_file" else {}))
    assert result["isError"] and "is no path here" in joined(result)


def test_a_file_that_is_not_there(one):
    assert one.call("read_file", path="nothing") == {"content": [{"type": "text", "text": "'nothing' does not exist"}], "isError": True}
    assert one.call("read_file", path="/tmp")["isError"]
    assert one.call("write_file", path="x", content_base64="no base64!")["isError"]


# --- resources --------------------------------------------------------------------------------------------------


def test_resources(one):
    assert one.ask("resources/list").result["resources"] == []
    one.call("execute_ipython_cell", code="import os\nos.makedirs('d')\nfor i in range(120):\n    open(f'd/{i:03}', 'w').write(str(i))")
    found, cursor = [], None
    while True:
        page = one.ask("resources/list", {"cursor": cursor} if cursor else {}).result
        assert len(page["resources"]) <= 50
        found += page["resources"]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert [r["name"] for r in found] == [f"d/{i:03}" for i in range(120)]
    contents = one.ask("resources/read", {"uri": found[7]["uri"]}).result["contents"]
    assert contents == [{"uri": found[7]["uri"], "mimeType": "application/octet-stream", "text": "7"}]
    assert one.ask("resources/list", {"cursor": "%%%"}).error[0] == -32602


@pytest.mark.parametrize("uri", ["glovebox://", "glovebox:///x", "glovebox://BOX", "glovebox://BOX/", "glovebox://BOX/..", "glovebox://BOX/%2e%2e/x",
                                 "glovebox://BOX/%00", "glovebox://BOX/%zz", "glovebox://nobody/x", "file:///etc/passwd", "", "glovebox://BOX/d/%2"])
def test_resources_that_are_none(one, uri):
    box = one.call("run_command", command="mkdir d")["structuredContent"]["box"]
    got = one.ask("resources/read", {"uri": uri.replace("BOX", box)})
    assert got.error[0] == -32002 and got.last["error"]["data"] == {"uri": uri.replace("BOX", box)}


def test_a_resource_of_somebody_else(one, server):
    one.call("write_file", path="secret", content="mine")
    [resource] = one.ask("resources/list").result["resources"]
    other = Speaker(server, TOKENS["two"])
    other.initialize()
    assert other.ask("resources/read", {"uri": resource["uri"]}).error[0] == -32002
    assert other.ask("resources/subscribe", {"uri": resource["uri"]}).error[0] == -32002
    assert one.ask("resources/subscribe", {"uri": resource["uri"].replace("secret", "no/such")}).error[0] == -32002
    assert other.call("read_file", path="secret", box=resource["uri"].split("/")[2])["isError"]
    assert other.end() == 204


def test_changes_are_told(one):
    one.call("write_file", path="d/watched", content="1")
    [resource] = one.ask("resources/list").result["resources"]
    with one.open("GET") as response:
        assert response.status == 200
        told = events(response)
        assert one.ask("resources/subscribe", {"uri": resource["uri"]}).result == {}
        one.call("run_command", command="echo 2 > d/other; echo 2 > d/watched")
        assert next(told) == {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": resource["uri"]}}
        assert one.ask("resources/unsubscribe", {"uri": resource["uri"]}).result == {}


def test_changes_are_told_to_listeners_of_the_modern_era(server, boxes):
    speaker = Speaker(server, TOKENS["one"])
    speaker.box = speaker.call("create_box")["structuredContent"]["box"]
    speaker.call("write_file", path="watched", content="1")
    uri = f"glovebox://{speaker.box}/watched"
    params = {"notifications": {"resourceSubscriptions": [uri, "glovebox://nobody/x"]}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}
    body = json.dumps({"jsonrpc": "2.0", "id": "ear", "method": "subscriptions/listen", "params": params})
    with speaker.open("POST", body, {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}) as response:
        told = events(response)
        first = next(told)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        speaker.call("write_file", path="watched", content="2")
        second = next(told)
        assert (second["method"], second["params"]["uri"]) == ("notifications/resources/updated", uri)
        assert second["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "ear"}


def test_completion(one):
    box = one.call("run_command", command="mkdir -p dir && touch dir/one dir/other date")["structuredContent"]["box"]

    def complete(name, value, **more):
        params = {"ref": {"type": "ref/resource", "uri": "glovebox://{box}/{+path}"}, "argument": {"name": name, "value": value}, **more}
        return one.ask("completion/complete", params).result["completion"]["values"]
    assert complete("box", box[:6]) == [box] and complete("box", "nobody") == []
    assert complete("path", "d") == ["date", "dir/"] and complete("path", "dir/o") == ["dir/one", "dir/other"]
    assert complete("path", "../") == [] and complete("path", "no/") == [] and complete("else", "") == []
    assert complete("path", "", context={"arguments": {"box": box}}) == ["date", "dir/"]


# --- which box --------------------------------------------------------------------------------------------------


def test_a_session_has_one_box_and_takes_it_along(server, boxes):
    speaker = Speaker(server, TOKENS["one"])
    speaker.initialize()
    assert boxes() == {}
    threads = [threading.Thread(target=speaker.call, args=("run_command",), kwargs={"command": "true"}) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(boxes().values()) == [{"mcp.session": speaker.session}]
    assert speaker.end() == 204
    until(lambda: boxes() == {}, "the box is gone")
    assert speaker.ask("tools/list").status == 404


def test_without_a_session_a_new_box_is_named(server, boxes):
    speaker = Speaker(server, TOKENS["one"])
    result = speaker.call("execute_ipython_cell", code="x = 1\nx")
    assert result["resultType"] == "complete" and result["content"][0]["text"] == "1\n"
    [box] = boxes()
    assert box in result["content"][1]["text"]
    assert speaker.text("execute_ipython_cell", code="x", box=box) == "1\n"
    assert speaker.call("delete_box", box=box)["content"] == []
    assert boxes() == {}
    assert f"box '{box}'" in speaker.text("execute_ipython_cell", code="x", box=box)


def test_boxes_by_name_and_by_header(server, boxes):
    speaker = Speaker(server, TOKENS["one"])
    box = speaker.call("create_box", name="mine")["structuredContent"]["box"]
    assert speaker.text("execute_ipython_cell", code="x = 2\nx", box="name:mine") == "2\n"
    speaker.box = box
    assert speaker.text("execute_ipython_cell", code="x") == "2\n"
    assert "has the name 'mine'" in speaker.text("create_box", name="mine")


def test_a_session_whose_box_has_gone_gets_another(one, boxes, server):
    one.call("execute_ipython_cell", code="x = 1")
    [box] = boxes()
    server.call("DELETE", f"/v1/boxes/{box}", headers={"Authorization": f"Bearer {TOKENS['one']}"})
    assert one.text("execute_ipython_cell", code="'x' in dir()") == "False\n"
    assert list(boxes()) != [box]


def test_forks(one, server, boxes):
    assert one.call("fork_box")["isError"] and "no box yet" in one.text("fork_box")
    one.call("execute_ipython_cell", code="import threading; x = [1]\nthreading.Thread(target=threading.Event().wait, name='waits', daemon=True).start()")
    [mine] = boxes()
    result = one.call("fork_box", count=2)
    made = result["structuredContent"]
    assert joined(result).split() == made["boxes"] and made["lost"] == ["thread waits"]
    for box in made["boxes"]:
        assert one.text("execute_ipython_cell", code="x.append(2); x", box=box) == "[1, 2]\n"
    assert one.text("execute_ipython_cell", code="x") == "[1]\n", "the connection has its box, and not one of those"
    assert set(boxes()) == {mine, *made["boxes"]} and not any(boxes()[box] for box in made["boxes"]), "and a copy is not this session's"
    assert one.call("fork_box", count=0)["isError"]
    for box in made["boxes"]:
        one.call("delete_box", box=box)


def test_a_box_of_somebody_else(one, server):
    box = one.call("run_command", command="true")["structuredContent"]["box"]
    other = Speaker(server, TOKENS["two"])
    for tool, arguments in {"execute_ipython_cell": {"code": "1"}, "run_command": {"command": "true"}, "read_file": {"path": "x"}, "reset": {},
                            "write_file": {"path": "x", "content": ""}, "list_files": {}, "delete_box": {}, "fork_box": {}, "install_package": {"package_name": "x"}}.items():
        result = other.call(tool, box=box, **arguments)
        assert result["isError"] and "there is no box" in joined(result), tool
    assert one.text("run_command", command="echo there") == "there\n"


# --- sessions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_versions(server, version):
    speaker = Speaker(server, TOKENS["one"])
    assert speaker.initialize(version)["protocolVersion"] == version
    assert speaker.ask("ping", headers={"MCP-Protocol-Version": version}).result == {}
    assert speaker.end() == 204


def test_a_version_that_nobody_knows(server):
    speaker = Speaker(server, TOKENS["one"])
    assert speaker.initialize("1999-01-01")["protocolVersion"] == "2025-11-25"
    assert speaker.ask("ping", headers={"MCP-Protocol-Version": "1999-01-01"}).status == 400
    assert speaker.end() == 204


def test_sessions_are_their_owners(one, server):
    other = Speaker(server, TOKENS["two"])
    other.session = one.session
    assert other.ask("tools/list").status == 404 and other.end() == 404
    with other.open("GET") as response:
        assert response.status == 404
    assert one.ask("ping").status == 200


def test_without_a_session(server):
    speaker = Speaker(server, TOKENS["one"])
    assert speaker.ask("tools/list").status == 400
    with speaker.open("GET") as response:
        assert response.status == 405 and response.getheader("Allow") == "POST"
    with speaker.open("DELETE") as response:
        assert response.status == 400


def test_no_token_no_answer(server):
    speaker = Speaker(server)
    assert speaker.ask("initialize", {}).status == 401
    assert Speaker(server, "wrong").modern("server/discover").status == 401


def test_a_page_of_another_origin(server):
    speaker = Speaker(server, TOKENS["one"])
    assert speaker.modern("server/discover", headers={"Origin": "http://evil.example"}).status == 403
    assert speaker.modern("server/discover", headers={"Host": "evil.example"}).status == 421


@pytest.mark.parametrize("text, code", [
    ("", -32700), ("{", -32700), ("\xff", -32700), ("[]", -32600), ("1", -32600), ("{}", -32600), ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":1}', -32600), ('{"jsonrpc":"2.0","id":1,"method":5}', -32600), ("[" * 100, -32700),
    ('{"jsonrpc":"2.0","id":"' + "x" * 300 + '","method":"ping"}', -32600)])
def test_messages_that_are_none(one, text, code):
    got = one.send(text.encode("latin-1"))
    assert got.status == 400 and got.error[0] == code


def test_other_types_of_bodies(one):
    assert one.send("{}", {"Content-Type": "text/plain"}).status == 415


@pytest.mark.parametrize("arguments", [{"code": 5}, {}, {"code": "1", "bogus": 1}, {"code": "1", "timeout": -1}, {"code": "1", "timeout": "x"},
                                       {"code": "1", "box": 5}, {"code": "1", "box": "../x"}, {"code": "1", "box": "x" * 200}])
def test_arguments_that_are_none(one, arguments):
    assert one.call("execute_ipython_cell", **arguments)["isError"]


def test_calls_that_are_none(one):
    assert one.ask("tools/call", {"name": "no such"}).error == (-32602, "there is no tool 'no such'")
    assert one.ask("tools/call", {}).error[0] == -32602
    assert one.ask("tools/call", {"name": "reset", "arguments": []}).error[0] == -32602
    assert one.ask("tools/call").error[0] == -32602
    assert one.ask("prompts/list").error[0] == -32601
    assert one.ask("tools/list", {"cursor": "5"}).error[0] == -32602
    assert one.ask("tools/list", []).error[0] == -32602


# --- a gate that dies -------------------------------------------------------------------------------------------


@pytest.fixture
def mortal(serve):
    """A session on a server whose gate may be killed."""
    speaker = Speaker(serve(**WARM))
    speaker.initialize()
    return speaker


def test_a_session_survives_the_gate(mortal):
    mortal.call("execute_ipython_cell", code="x = 11")
    old = mortal.server.kill_gate()
    mortal.server.next_gate(old)

    def again():
        try:
            return mortal.text("execute_ipython_cell", code="x")
        except LOST:
            return None
    assert until(again, "the next gate answers") == "11\n"
    assert mortal.end() == 204
    until(lambda: mortal.server.call("GET", "/v1/boxes")[1]["boxes"] == [], "its box has gone")


def test_a_call_under_way_when_the_gate_dies_is_not_answered_wrongly(mortal):
    failures = []

    def call():
        try:
            mortal.call("execute_ipython_cell", code=ENDLESS)
            failures.append("it was answered")
        except LOST:
            pass
    thread = threading.Thread(target=call)
    thread.start()
    until(lambda: begun(mortal), "the cell runs")
    old = mortal.server.kill_gate()
    mortal.server.next_gate(old)
    thread.join()
    assert failures == []
    assert mortal.end() == 204
    until(lambda: mortal.server.call("GET", "/v1/boxes")[1]["boxes"] == [], "its box has gone")
