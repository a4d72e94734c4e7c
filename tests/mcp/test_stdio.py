# SPDX-License-Identifier: Apache-2.0
"""`glovebox mcp`: lines of both eras to the fixture server and back, with a server in front that has boxes and files, or misbehaves.

With boxes that are real: test_stdio_boxes.py.
"""
import base64
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading

import pytest

from between import HANGS, LOST
from conftest import program_path
from server import SANITIZED, WAIT_S, until
from stdio import META, MODERN, NAMES, Fixture, Front, alone, client, events, meta, reply  # noqa: F401

pytestmark = pytest.mark.more


@pytest.fixture(scope="module", autouse=True)
def fixture_server():
    server = Fixture()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def front(fixture_server):
    with Front(fixture_server) as one:
        yield one


@pytest.fixture
def legacy(client, front):
    """A client of the older era that has said hello."""
    one = client("--url", front.url)
    one.hello()
    return one


def message(number, **more):
    return json.dumps({"jsonrpc": "2.0", "id": number, **more}).encode()


# --- the older era -------------------------------------------------------------------------------------------


def test_hello(client, front):
    c = client("--url", front.url)
    result = c.hello("2025-06-18")
    assert result["protocolVersion"] == "2025-06-18" and result["serverInfo"]["name"] == "glovebox-fixture"
    assert c.call("ping") == {}
    until(lambda: len(front.messages()) == 3, "all of them came")
    first, *later = front.messages()
    ping = front.messages("ping")[0]
    assert "mcp-session-id" not in first.headers and "mcp-protocol-version" not in first.headers
    for one in later:
        assert one.headers["mcp-protocol-version"] == "2025-06-18" and len(one.headers["mcp-session-id"]) == 32
    hears = front.await_request("GET", "/mcp")
    assert hears.headers["mcp-session-id"] == ping.headers["mcp-session-id"] and "text/event-stream" in hears.headers["accept"]
    assert front.made == 0, "nobody needs a box yet"
    assert c.end() == (0, "")
    assert front.await_request("DELETE", "/mcp").headers["mcp-session-id"] == ping.headers["mcp-session-id"]
    assert c.rest() == []


def test_lists_have_our_tools_at_the_end(legacy, front):
    tools = legacy.call("tools/list")["tools"]
    assert [tool["name"] for tool in tools][-2:] == NAMES and len({tool["name"] for tool in tools}) == len(tools)
    for tool in tools[-2:]:
        assert set(tool["inputSchema"]["properties"]) == {"relpath", "local_path"} == set(tool["inputSchema"]["required"]) and tool["description"]
    assert all("inputSchema" in tool for tool in tools) and front.made == 0
    modern = legacy.modern("tools/list")
    assert [tool["name"] for tool in modern["tools"]] == [tool["name"] for tool in tools] and modern["resultType"] == "complete" and "ttlMs" in modern


def test_only_the_last_page_has_them(client, fixture_server):
    pages = {None: {"tools": [{"name": "one"}], "nextCursor": "2"}, "2": {"tools": [{"name": "two"}, {"name": "upload_file", "theirs": True}]}}

    def rule(request):
        asked = request.message or {}
        if asked.get("method") == "tools/list":
            return reply(200, message(asked["id"], result=pages[asked["params"].get("cursor")]))
        return None

    with Front(fixture_server, rule) as front:
        c = client("--url", front.url)
        c.hello()
        assert c.call("tools/list", {}) == pages[None]
        names = [tool["name"] for tool in c.call("tools/list", {"cursor": "2"})["tools"]]
        assert names == ["two", *NAMES]


def test_a_tool_with_a_box(legacy, front):
    assert legacy.tool("test_simple_text")["content"][0]["text"] == "This is a simple text response for testing."
    assert front.made == 1 and [r.headers.get("glovebox-box") for r in front.messages("tools/call")] == ["box-1"]
    legacy.call("resources/read", {"uri": "test://static-text"})
    assert legacy.call("tools/list") and front.messages("tools/list")[-1].headers["glovebox-box"] == "box-1"
    assert front.made == 1 and list(front.boxes) == ["box-1"]
    assert legacy.end() == (0, "")
    assert front.boxes == {}, "it ends with us"


def test_what_comes_on_the_way(legacy):
    number = legacy.ask("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "p"}})
    assert legacy.answer(number)["result"]["content"][0]["text"] == "Tool with progress completed"
    progress = [m["params"] for m in legacy.others if m["method"] == "notifications/progress"]
    assert [p["progress"] for p in progress] == [0, 50, 100] and {p["progressToken"] for p in progress} == {"p"}
    legacy.tool("test_tool_with_logging")
    assert len([m for m in legacy.others if m["method"] == "notifications/message"]) == 3


def test_questions_of_the_server(client, front):
    c = client("--url", front.url)
    c.hello(elicitation={}, sampling={})
    number = c.ask("tools/call", {"name": "test_elicitation", "arguments": {"message": "who?"}})
    question = c.await_other("elicitation/create")
    assert question["params"]["message"] == "who?"
    c.raw(message(question["id"], result={"action": "accept", "content": {"username": "ü", "email": "e"}}) + b"\n")
    assert "ü" in c.answer(number)["result"]["content"][0]["text"]
    number = c.ask("tools/call", {"name": "test_sampling", "arguments": {"prompt": "?"}})
    question = c.await_other("sampling/createMessage")
    c.raw(message(question["id"], error={"code": -1, "message": "no"}) + b"\n")
    assert c.answer(number)["result"]["isError"] is True


def test_what_the_session_is_told(legacy, front):
    front.await_request("GET", "/mcp")
    # The stream may begin a moment later: what changes is said again.
    until(lambda: legacy.tool("test_trigger_tool_change") and legacy.call("ping") == {} and [m for m in legacy.others if m["method"].endswith("tools/list_changed")], "news")


def test_the_stream_is_opened_again(legacy, front):
    front.await_request("GET", "/mcp")
    front.cut()
    until(lambda: len([r for r in front.requests if (r.method, r.path) == ("GET", "/mcp")]) > 1, "another GET")
    until(lambda: legacy.tool("test_trigger_prompt_change") and [m for m in legacy.others if m["method"].endswith("prompts/list_changed")], "news")


def test_a_server_without_a_stream(client, fixture_server):
    with Front(fixture_server, lambda r: reply(405) if r.method == "GET" else None) as front:
        c = client("--url", front.url)
        c.hello()
        front.await_request("GET", "/mcp")
        for _ in range(3):
            assert c.call("ping") == {}
        assert c.end() == (0, "") and len([r for r in front.requests if r.method == "GET"]) == 1


def test_cancelled_in_the_older_era(legacy, front):
    number = legacy.ask("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": 1}})
    legacy.await_other("notifications/progress")
    legacy.send("notifications/cancelled", {"requestId": number})
    until(lambda: front.messages("notifications/cancelled"), "it is passed on")
    assert legacy.call("ping") == {}
    legacy.end()
    assert [m for m in legacy.rest() if m.get("id") == number] == [], "no answer, and no error"


def test_a_second_hello(legacy, front):
    legacy.call("ping")
    first = front.messages("ping")[0].headers["mcp-session-id"]
    legacy.hello()
    assert legacy.call("ping") == {} and front.messages("ping")[-1].headers["mcp-session-id"] != first
    assert front.await_request("DELETE", "/mcp").headers["mcp-session-id"] == first


# --- the modern era ------------------------------------------------------------------------------------------


def test_modern(client, front):
    c = client("--url", front.url)
    found = c.modern("server/discover")
    assert MODERN in found["supportedVersions"] and front.made == 0
    result = c.modern("tools/call", {"name": "test_simple_text"})
    assert result["resultType"] == "complete"
    discover, tool = front.messages()
    assert (discover.headers["mcp-protocol-version"], discover.headers["mcp-method"]) == (MODERN, "server/discover") and "mcp-name" not in discover.headers
    assert (tool.headers["mcp-method"], tool.headers["mcp-name"], tool.headers["glovebox-box"]) == ("tools/call", "test_simple_text", "box-1")
    c.modern("resources/read", {"uri": "test://static-text"})
    c.modern("prompts/get", {"name": "test_simple_prompt"})
    assert [r.headers["mcp-name"] for r in front.messages()[2:]] == ["test://static-text", "test_simple_prompt"]
    assert all("mcp-session-id" not in r.headers for r in front.requests)
    assert c.end() == (0, "") and front.boxes == {} and not [r for r in front.requests if (r.method, r.path) in (("GET", "/mcp"), ("DELETE", "/mcp"))]


@pytest.mark.parametrize("name", ["grüße", " before", "behind ", "a\tb", "line\nfeed\r\nEvil: yes", "", "=?base64?eA==?=", "plain with spaces ~!"])
def test_names_in_headers(client, front, name):
    c = client("--url", front.url)
    error = c.error("prompts/get", {"name": name, "_meta": meta()})
    assert error["code"] == -32602 and "no prompt" in error["message"], "the server read the same name"
    said = front.messages()[0].headers
    assert "evil" not in said
    if name.startswith("plain"):
        assert said["mcp-name"] == name
    else:
        assert said["mcp-name"] == f"=?base64?{base64.b64encode(name.encode()).decode()}?="


@pytest.mark.parametrize("region", ["eu-1", " größer\n", None])
def test_parameters_in_headers(client, front, region):
    """Those that the list of tools says; the server compares them."""
    c = client("--url", front.url)
    c.modern("tools/list")
    c.modern("tools/list")
    arguments = {} if region is None else {"region": region}
    result = c.modern("tools/call", {"name": "test_x_mcp_header", "arguments": arguments})
    assert result["content"][0]["text"] == f"region: {region or 'none'}"
    assert ("mcp-param-region" in front.messages("tools/call")[0].headers) == (region is not None)


def test_parameters_of_all_kinds(client, fixture_server):
    kinds = {"a": 12, "b": -1.5, "c": True, "d": "x", "e": [1], "f": None, "g": "not asked for"}
    schema = {"properties": {key: {"x-mcp-header": f"P-{key}"} for key in "abcdef"} | {"g": {}, "h": {"x-mcp-header": "Bad\r\nEvil: 1"}}}

    def rule(request):
        if request.message and request.message["method"] == "tools/list":
            return reply(200, message(request.message["id"], result={"tools": [{"name": "t", "inputSchema": schema}, {"name": 1}, 2]}))
        return None

    with Front(fixture_server, rule) as front:
        c = client("--url", front.url)
        c.modern("tools/list")
        c.error("tools/call", {"name": "t", "arguments": {**kinds, "h": "x"}, "_meta": meta()})
        headers = front.messages("tools/call")[0].headers
        assert {name: value for name, value in headers.items() if name.startswith("mcp-param")} == {"mcp-param-p-a": "12", "mcp-param-p-b": "-1.5",
                                                                                                   "mcp-param-p-c": "true", "mcp-param-p-d": "x"}
        assert "evil" not in headers and c.end()[0] == 0


def test_discover_without_a_version(client, front):
    """Who only tries what the server is gets an answer that is none of the modern era's results."""
    c = client("--url", front.url)
    assert c.error("server/discover")["code"] == -32602 and c.error("server/discover", {"_meta": {META + "protocolVersion": "1999-01-01", META + "clientCapabilities": {}}})["code"] == -32022


def test_cancelled_in_the_modern_era(client, front):
    c = client("--url", front.url)
    number = c.ask("tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": meta(progressToken="x")})
    c.await_other("notifications/progress")
    c.send("notifications/cancelled", {"requestId": number})
    assert c.modern("tools/call", {"name": "test_simple_text"})
    c.end()
    assert [m for m in c.rest() if m.get("id") == number] == [] and front.messages("notifications/cancelled") == []


def test_a_listener(client, front):
    c = client("--url", front.url)
    number = c.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": meta()})
    c.await_other("notifications/subscriptions/acknowledged")
    assert front.made == 0
    c.modern("tools/call", {"name": "test_trigger_tool_change"})
    assert c.await_other("notifications/tools/list_changed")["params"]["_meta"][META + "subscriptionId"] == number


# --- lines ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line, code", [(b"{", -32700), (b"nonsense", -32700), (b'{"a": "\xff\x00"}', -32700), (b"[]", -32600), (b"1", -32600), (b"{}", -32600),
                                        (b'{"jsonrpc": "2.0", "method": "ping", "id": null}', -32600), (b'{"jsonrpc": "2.0", "method": "ping", "id": {}}', -32600),
                                        (b'{"jsonrpc": "2.0", "method": "ping", "id": "%s"}' % (b"x" * 300), -32600), (b"[" * 100000, -32700)])
def test_lines_that_are_no_messages(legacy, line, code):
    legacy.raw(line + b"\n")
    answer = legacy.next()
    assert (answer["error"]["code"], answer["id"]) == (code, None), answer
    legacy.raw(b"\n \t\r\n")  # nothing at all is nothing
    assert legacy.call("ping") == {}


@pytest.mark.slow
def test_a_line_that_is_too_long(legacy):
    piece = b"x" * (1024 * 1024)
    for _ in range(70):
        legacy.raw(piece)
    legacy.raw(b"\n")
    assert legacy.next()["error"]["code"] == -32600
    assert legacy.call("ping") == {}


def test_ids_come_back_as_they_were(legacy):
    for number in (b'"text"', b"-7", b'"1"', b"9007199254740993", b'"\\u00fc\\n"', b"1.5"):
        legacy.raw(b'{"id":%s,"jsonrpc":"2.0","method":"ping"}\n' % number)
        assert legacy.next() == {"jsonrpc": "2.0", "id": json.loads(number), "result": {}}


def test_a_last_line_without_an_end(client, front):
    c = client("--url", front.url)
    c.raw(message(1, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}})[:-1] + b"}")
    assert c.end()[0] == 0 and c.rest()[0]["id"] == 1


def test_many_at_once(legacy, front):
    """More than there are connections; each has its answer, in whatever order."""
    numbers = [legacy.ask("tools/call", {"name": "test_tool_with_logging", "arguments": {}}) for _ in range(100)]
    for number in numbers:
        assert "result" in legacy.answer(number)
    assert front.made == 1


def test_all_connections_are_busy(client, fixture_server):
    """Nobody is answered, and still one can be cancelled, and the next gets its place."""
    with Front(fixture_server, lambda r: HANGS if r.message and r.message["method"] == "slow" else None) as front:
        c = client("--url", front.url)
        c.hello()
        numbers = [c.ask("slow", {"_meta": meta()}) for _ in range(64)]
        until(lambda: len(front.messages("slow")) == 64, "64 of them are under way")
        waits = c.ask("ping")
        c.send("notifications/cancelled", {"requestId": "unknown"})
        until(lambda: front.messages("notifications/cancelled"), "what wants no answer is passed on")
        assert front.messages("ping") == []
        c.send("notifications/cancelled", {"requestId": numbers[7]})
        assert c.answer(waits)["result"] == {}
        assert c.end()[0] == 0


def test_more_than_the_server_takes(legacy):
    error = legacy.error("prompts/get", {"name": "x" * (17 << 20)})
    assert error["code"] == -32603 and error["message"], error
    assert legacy.call("ping") == {}


def memory_of(pid):
    """How much it had at most, in KiB. (Sanitizers have their own ideas.)"""
    return 0 if SANITIZED else int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def test_nobody_reads_for_a_while(start, front):
    """Neither lines nor answers pile up without end, and nothing is lost."""
    count, big = 1000, "x" * 100_000
    process = start("mcp", "--url", front.url)
    lines = [message(0, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}})]
    lines += [message(i, method="prompts/get", params={"name": "test_prompt_with_arguments", "arguments": {"arg1": big, "arg2": ""}}) for i in range(1, count)]
    feeder = threading.Thread(target=lambda: (process.stdin.write(b"\n".join(lines) + b"\n"), process.stdin.flush()))
    feeder.start()
    until(lambda: len(front.messages("prompts/get")) >= 64, "all that may be under way is")
    assert {json.loads(process.stdout.readline())["id"] for _ in range(count)} == set(range(count))
    feeder.join(WAIT_S)
    assert memory_of(process.pid) < 60_000, "of 100 MB that went each way"
    process.stdin.close()
    assert process.wait(WAIT_S) == 0


# --- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ends(legacy, front, how):
    legacy.tool("test_simple_text")
    legacy.ask("tools/call", {"name": "test_tool_with_logging", "arguments": {}})
    assert legacy.end(how)[0] == 0
    assert front.boxes == {} and front.await_request("DELETE", "/mcp")


def test_nobody_reads_any_more(legacy, front, start):
    legacy.tool("test_simple_text")
    process = start("mcp", "--url", front.url)
    process.stdin.write(message(1, method="tools/call", params={"name": "test_simple_text", "_meta": meta()}) + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(WAIT_S) == 0
    assert list(front.boxes) == ["box-1"]


def test_the_end_while_a_box_is_made(client, fixture_server):
    """One that comes late is ended all the same."""
    go = threading.Event()

    def rule(request):
        if (request.method, request.path) == ("POST", "/v1/boxes"):
            go.wait(WAIT_S)

    with Front(fixture_server, rule) as front:
        c = client("--url", front.url)
        c.ask("tools/call", {"name": "test_simple_text", "_meta": meta()})
        front.await_request("POST", "/v1/boxes")
        c.process.send_signal(signal.SIGTERM)
        go.set()
        assert c.end(signal.SIGTERM)[0] == 0
        assert front.made == 1 and front.boxes == {}


def test_killed(legacy, front):
    legacy.tool("test_simple_text")
    legacy.process.kill()
    legacy.process.wait()
    assert front.boxes["box-1"]["idle_seconds"] == 0, "its ttl ends it"


# --- servers that fail ---------------------------------------------------------------------------------------


def asked(method, *answers):
    """A rule: the first messages with this method are answered so."""
    left = list(answers)
    return lambda r: left.pop(0) if left and r.message and r.message.get("method") == method else None


@pytest.mark.parametrize("answer, text", [
    (LOST, "the connection was lost"), (b"", "the connection was lost"), (b"nonsense\r\n\r\n", "is no glovebox"),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", "the connection was lost"),
    (reply(200, b"{"), "not JSON"), (reply(200, b"[1]"), "said nothing"), (reply(202), "said nothing"), (reply(200, b'{"id": 1}'), "said nothing"),
    (reply(502, b"<html>", "text/html"), "status 502"), (reply(401, {"error": {"message": "who are you?"}}), "--token-file"),
    (reply(413, {"error": {"message": "too much", "hint": "say less"}}), "too much; say less"),
    (events(), "said nothing"), (events(b"{"), "not JSON"), (events(b'{"jsonrpc": "2.0", "method": "n"}'), "said nothing"),
    (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:", "the connection was lost"),
])
def test_answers_that_are_none(client, fixture_server, answer, text):
    with Front(fixture_server, asked("ping", answer)) as front:
        c = client("--url", front.url)
        c.hello()
        error = c.error("ping")
        assert error["code"] == -32603 and text in error["message"], error
        assert c.call("ping") == {}, "the next one is tried again"


@pytest.mark.parametrize("data, line", [
    (b'{"jsonrpc":\ndata: "2.0","id":1,\ndata:"result":{"a":"b\\nc"}}', {"jsonrpc": "2.0", "id": 1, "result": {"a": "b\nc"}}),
    (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\u0000\\ud800\\u007f"}}', {"jsonrpc": "2.0", "id": 1, "result": {"a": "\0\ufffd\x7f"}}),
    (b'{"jsonrpc":"2.0","id":1,"result":{"a":"\xff\xfe\xe2\x80\xa8"}}', {"jsonrpc": "2.0", "id": 1, "result": {"a": "\ufffd\ufffd\u2028"}}),
    (b' {"jsonrpc" : "2.0", "id":1, "result":{"n":[1e2, 12345678901234567890, -0.10]} } ', {"jsonrpc": "2.0", "id": 1, "result": {"n": [1e2, 12345678901234567890, -0.10]}}),
])
def test_what_is_said_is_one_line(client, fixture_server, data, line):
    with Front(fixture_server, lambda r: events(b"raw \nnews", b'"text"', data)) as front:
        c = client("--url", front.url)
        c.send("ping", id=1)
        said = c.came.get(timeout=WAIT_S)
        assert json.loads(said) == line and said.count(b"\n") == 1 and said.endswith(b"\n") and b"\r" not in said
        status, told = c.end()
        assert status == 0 and "not JSON" in told and c.rest() == []


def test_an_error_without_an_id(client, fixture_server):
    """Who asked gets it under its own."""
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?", "data": [1]}}
    with Front(fixture_server, asked("ping", reply(400, refusal))) as front:
        c = client("--url", front.url)
        c.hello()
        assert c.error("ping") == refusal["error"]


def test_two_answers(client, fixture_server):
    with Front(fixture_server, asked("ping", events(message(2, result={"n": 1}), message(2, result={"n": 2})))) as front:
        c = client("--url", front.url)
        c.hello()
        assert c.call("ping") == {"n": 1}
        assert c.end()[0] == 0 and c.rest() == []


def test_a_server_that_is_not_there_and_comes(client):
    server = Fixture()
    c = client("--url", f"http://localhost:{server.port}")
    error = c.error("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
    assert error["code"] == -32603 and "connect to" in error["message"] and "refused" in error["message"]
    server.start()
    try:
        c.hello()
        assert c.call("ping") == {}
    finally:
        server.stop()
    assert "refused" in c.error("ping")["message"]
    status, said = c.end()
    assert status == 0 and "refused" in said and "answers again" in said


def test_a_host_that_is_none(client):
    c = client("--url", "http://no-such-host.invalid:1")
    assert "no host" in c.error("ping")["message"]
    assert c.end()[0] == 0


def test_a_server_that_says_nothing(client, fixture_server):
    """It is waited for, for a tool may take its time; an end is heard meanwhile."""
    with Front(fixture_server, lambda r: HANGS if r.message else None) as front:
        c = client("--url", front.url)
        c.ask("ping")
        until(lambda: front.messages("ping"), "it is asked")
        assert c.end(signal.SIGTERM)[0] == 0


def test_the_client_leaves_while_nothing_is_read(client, fixture_server):
    """Behind an initialize that nobody answers, no line is; the end of them is heard."""
    with Front(fixture_server, lambda r: HANGS) as front:
        c = client("--url", front.url)
        c.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        c.ask("ping")
        until(lambda: front.messages("initialize"), "it is asked")
        assert c.end()[0] == 0 and c.rest() == []


def test_a_token(client, front, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret-word\n")
    token.chmod(0o600)
    c = client("--url", front.url, "--token-file", token)
    c.error("ping")
    c.error("ping")
    assert {r.headers["authorization"] for r in front.requests} == {"Bearer secret-word"}


# --- boxes ---------------------------------------------------------------------------------------------------


def test_no_box(client, fixture_server):
    """Whoever needs one is told why there is none; the next one is tried again."""
    left = [reply(503, {"error": {"message": "no room", "hint": "wait"}}), LOST, reply(201, {"id": "../../x"})]

    def rule(request):
        if (request.method, request.path) != ("POST", "/v1/boxes") or not left:
            return None
        answer = left.pop(0)
        return b"" if answer == LOST else answer

    with Front(fixture_server, rule) as front:
        c = client("--url", front.url)
        c.hello()
        for text in ("no box: no room; wait", "connection was lost", "without an id"):
            error = c.error("tools/call", {"name": "test_simple_text"})
            assert error["code"] == -32603 and text in error["message"], error
        assert c.tool("test_simple_text")
        keys = [r.headers["idempotency-key"] for r in front.requests if r.path == "/v1/boxes"]
        assert len(set(keys)) == 1, "what was lost may have made one"


def test_what_the_box_is_given(client, front, tmp_path):
    (tmp_path / "env").write_text("# comment\nA=1\nexport B='two words'\nC=\"x=y\"\n\n")
    c = client("--url", front.url, "--container-env-file", tmp_path / "env", "--container-env-var", "A=2", "--container-env-var", "D=", "--memory", "64M",
               "--container-bind", "data//sub:there:ro", "--container-tag", "some:tag")
    c.modern("tools/call", {"name": "test_simple_text"})
    box = front.boxes["box-1"]
    assert box["env"] == {"A": "2", "B": "two words", "C": "x=y", "D": ""} and box["limits"] == {"memory_bytes": 64 << 20} and box["idle_seconds"] == 0
    assert box["mounts"] == [{"root": "data", "path": "sub", "at": "/workspace/there", "readonly": True}] and "workdir" not in box
    assert "--container-tag" in c.end()[1]


def test_ipybox_mcp(front, start, tmp_path):
    """By its verb, and by the name of the program."""
    (tmp_path / "ipybox").symlink_to(program_path())
    asks = message(1, method="tools/call", params={"name": "test_simple_text", "_meta": meta()}) + b"\n"
    for command in ([program_path(), "ipybox", "mcp"], [tmp_path / "ipybox", "mcp"]):
        process = subprocess.Popen([*command, "--url", front.url, "--container-bind", "d:rel"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with process:
            process.stdin.write(asks)
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            box = front.boxes[f"box-{front.made}"]
            assert box["workdir"] == "/app" and box["metadata"] == {"made_by": "ipybox"} and box["mounts"][0]["at"] == "/app/rel"
            process.stdin.close()
            assert process.wait(WAIT_S) == 0
    assert front.made == 2 and front.boxes == {}


def test_a_box_that_is_there(client, front):
    front.boxes["mine"] = {}
    c = client("--url", front.url, "--box", "mine")
    c.modern("tools/call", {"name": "test_simple_text"})
    assert front.messages()[-1].headers["glovebox-box"] == "mine" and front.made == 0
    assert c.end()[0] == 0 and list(front.boxes) == ["mine"]
    c = client("--url", front.url, "--box", "other")
    assert "it does not exist" in c.error("tools/call", {"name": "test_simple_text", "_meta": meta()})["message"]
    assert c.end()[0] == 0


def test_a_box_that_goes(legacy, front, tmp_path):
    legacy.tool("test_simple_text")
    front.boxes.clear()
    (tmp_path / "f").write_text("x")
    gone = legacy.tool("upload_file", relpath="f", local_path=str(tmp_path / "f"))
    assert gone["isError"]
    assert legacy.tool("upload_file", relpath="f", local_path=str(tmp_path / "f")) == {"content": []}
    assert front.made == 2 and "has ended" in legacy.end()[1]


# --- files of this machine -----------------------------------------------------------------------------------


@pytest.fixture
def files(client, front, tmp_path):
    """A client that may use one directory; (client, that directory)."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "secret").write_text("secret")
    c = client("--url", front.url, "--allowed-dir", allowed, cwd=tmp_path)
    c.hello()
    return c, allowed


def text_of(result):
    assert result["isError"] is True and len(result["content"]) == 1 and result["content"][0]["type"] == "text"
    return result["content"][0]["text"]


def test_upload_and_download(files, front):
    c, allowed = files
    data = os.urandom(3_000_000)
    (allowed / "in").write_bytes(data)
    assert c.tool("upload_file", relpath="./a//b c/ü%.bin", local_path=str(allowed / "in")) == {"content": []}
    assert front.files == {"a/b%20c/%C3%BC%25.bin": data}
    assert c.tool("download_file", relpath="a/b c/ü%.bin", local_path=str(allowed / "x" / "y" / "out")) == {"content": []}
    assert (allowed / "x/y/out").read_bytes() == data and [p.name for p in (allowed / "x/y").iterdir()] == ["out"]
    (allowed / "empty").touch()
    assert c.tool("upload_file", relpath="e", local_path="allowed/empty") == {"content": []} and front.files["e"] == b""
    assert c.tool("download_file", relpath="e", local_path="allowed/x/y/out") == {"content": []} and (allowed / "x/y/out").read_bytes() == b""
    assert front.messages("tools/call") == [], "the server does not hear of files of this machine"


def test_files_in_the_modern_era(files, front):
    c, allowed = files
    (allowed / "in").write_text("x")
    assert c.modern("tools/call", {"name": "upload_file", "arguments": {"relpath": "f", "local_path": str(allowed / "in")}}) == {"resultType": "complete", "content": []}
    result = c.modern("tools/call", {"name": "download_file", "arguments": {"relpath": "no", "local_path": str(allowed / "out")}})
    assert text_of(result) == "File not found: no" and result["resultType"] == "complete"


def test_files_that_are_refused(files, front, tmp_path):
    c, allowed = files
    (allowed / "dir").mkdir()
    (allowed / "link").symlink_to(tmp_path / "secret")
    (allowed / "near").symlink_to("in")
    (allowed / "in").write_text("near")
    os.mkfifo(allowed / "fifo")
    up = lambda path, relpath="f": c.tool("upload_file", relpath=relpath, local_path=str(path))  # noqa: E731
    down = lambda path, relpath="f": c.tool("download_file", relpath=relpath, local_path=str(path))  # noqa: E731
    for path in (tmp_path / "secret", allowed / "link", allowed / ".." / "secret", "secret", "/etc/passwd"):
        assert text_of(up(path)) == f"Path '{path}' is not within allowed directories for upload"
        assert text_of(down(path)) == f"Path '{path}' is not within allowed directories for download"
    assert text_of(up(allowed / "nothing")) == f"File not found: {allowed}/nothing"
    for path in (allowed, allowed / "dir", allowed / "fifo"):
        assert text_of(up(path)) == f"Not a file: {path}" and text_of(down(path)) == f"Not a file: {path}"
    for relpath in ("", "/abs", "../up", "a/../b", "."):
        assert text_of(up(allowed / "in", relpath)) == f"Invalid path: {relpath}"
    assert text_of(down(allowed / "new" / "out", "no")) == "File not found: no"
    assert front.files == {} and sorted(p.name for p in allowed.iterdir()) == ["dir", "fifo", "in", "link", "near"]
    assert (tmp_path / "secret").read_text() == "secret"
    assert up(allowed / "near") == {"content": []} and front.files == {"f": b"near"}


@pytest.mark.parametrize("arguments", [{}, {"relpath": "x"}, {"relpath": 1, "local_path": "x"}, {"relpath": "x", "local_path": None}, {"relpath": "a\0b", "local_path": "x"}, None])
def test_arguments_that_are_none(files, arguments):
    c, _ = files
    for name in NAMES:
        assert c.error("tools/call", {"name": name, "arguments": arguments})["code"] == -32602


def test_usual_directories(client, front, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "f").write_text("home")
    c = client("--url", front.url, env=alone(home))
    assert c.tool("upload_file", relpath="f", local_path=str(home / "f")) == {"content": []}
    assert text_of(c.tool("upload_file", relpath="f", local_path="/etc/passwd")).endswith("for upload")
    # /tmp is one of them, whoever's home it is.
    with open(f"/tmp/stdio-{os.getpid()}", "w", encoding="ascii") as f:
        f.write("tmp")
    try:
        assert c.tool("upload_file", relpath="g", local_path=f.name) == {"content": []} and front.files["g"] == b"tmp"
    finally:
        os.unlink(f.name)


def test_downloads_that_fail_leave_nothing(client, fixture_server, tmp_path):
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf", reply(403, {"error": {"message": "not yours"}}), reply(409, {"error": {"message": "is a directory"}}), b""]
    texts = ["connection was lost", "not yours", "is a directory", "connection was lost"]
    (tmp_path / "old").write_text("old")

    def rule(request):
        return answers.pop(0) if "/files/" in request.path else None

    with Front(fixture_server, rule) as front:
        c = client("--url", front.url, "--allowed-dir", tmp_path)
        for text in texts:
            path = tmp_path / ("old" if "lost" in text else "new/dir/f")
            assert text in text_of(c.tool("download_file", relpath="f", local_path=str(path)))
        assert [p.name for p in tmp_path.iterdir()] == ["old"] and (tmp_path / "old").read_text() == "old"


def test_a_download_that_is_cancelled(client, fixture_server, tmp_path):
    """By the client, and by our end."""
    with socket.create_server(("127.0.0.1", 0)) as slow:

        class Slow(Front):
            def own(self, request):
                return None if "/files/" in request.path else super().own(request)

        class There:
            def connect(self):
                return socket.create_connection(slow.getsockname())

        with Slow(There()) as front:
            c = client("--url", front.url, "--allowed-dir", tmp_path)
            for how in ("cancelled", "ended"):
                number = c.ask("tools/call", {"name": "download_file", "arguments": {"relpath": "f", "local_path": str(tmp_path / "sub" / "f")}})
                upstream, _ = slow.accept()
                with upstream:
                    upstream.recv(65536)
                    upstream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
                    until(lambda: (tmp_path / "sub").exists() and list((tmp_path / "sub").iterdir()), "it has begun")
                    if how == "cancelled":
                        c.send("notifications/cancelled", {"requestId": number})
                    else:
                        assert c.end(signal.SIGTERM)[0] == 0
                    until(lambda: not (tmp_path / "sub").exists(), "nothing is left")
            assert c.rest() == []


def test_a_large_file_in_little_memory(client, tmp_path):
    size = 200 << 20
    with open(tmp_path / "large", "wb") as f:
        f.truncate(size)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        c = client("--url", f"http://127.0.0.1:{listener.getsockname()[1]}", "--box", "b", "--allowed-dir", tmp_path)
        numbers = [c.ask("tools/call", {"name": name, "arguments": {"relpath": "f", "local_path": str(tmp_path / file)}}) for name, file in zip(NAMES, ("large", "back"))]
        with listener.accept()[0] as s:
            s.recv(65536)
            s.sendall(reply(200, {"id": "b"}))
        for number in numbers:
            with listener.accept()[0] as s:
                head, _, body = s.recv(65536).partition(b"\r\n\r\n")
                got = len(body)
                while head.startswith(b"PUT") and got < size:
                    got += len(s.recv(1 << 20))
                s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (0 if head.startswith(b"PUT") else size))
                for _ in range(0 if head.startswith(b"PUT") else size >> 20):
                    s.sendall(bytes(1 << 20))
            assert c.answer(number)["result"] == {"content": []}
        assert (tmp_path / "back").stat().st_size == size and memory_of(c.process.pid) < 20_000
        assert c.end()[0] == 0


def test_an_upload_that_is_refused_early(client, fixture_server, tmp_path):
    with open(tmp_path / "large", "wb") as f:
        f.truncate(64 << 20)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        c = client("--url", f"http://127.0.0.1:{listener.getsockname()[1]}", "--box", "b", "--allowed-dir", tmp_path)
        number = c.ask("tools/call", {"name": "upload_file", "arguments": {"relpath": "f", "local_path": str(tmp_path / "large")}})
        for answer in (reply(200, {"id": "b"}), reply(413, {"error": {"message": "does not fit"}})):
            s, _ = listener.accept()
            s.recv(65536)
            s.sendall(answer)
            if b"413" in answer:
                assert text_of(c.answer(number)["result"]) == "does not fit"
            s.close()
        assert c.end()[0] == 0


# --- the command line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, text", [(("--allowed-domain", "exa mple.org"), "exa mple.org"), (("--allowed-dir", "/proc/none"), "/proc/none"), (("word",), "no option"),
                                         (("--container-env-var", "x"), "NAME=VALUE"), (("--container-env-file", "/proc/none"), "/proc/none"),
                                         (("--container-bind", "x"), "DIR:PATH"), (("--box", "UPPER"), "neither"), (("--box", "b", "--container-env-var", "A=1"), "already"), (("--box", "b", "--memory", "64M"), "already"), (("--box", "b", "--allowed-domain", "a.org"), "already"),
                                         (("--memory", "x"), "no number"), (("--url", "ftp://x"), "begins with"), (("--no-such",), "unknown option")])
def test_called_wrongly(run, words, text):
    for verb in (["mcp"], ["ipybox", "mcp"]):
        done = run(*verb, "--url", "http://127.0.0.1:1", *words)
        assert done.returncode == 125 and text in done.stderr.decode() and done.stdout == b"", done


def test_help(run):
    done = run("mcp", "--help")
    assert done.returncode == 0 and all(word in done.stdout for word in (b"--allowed-dir", b"--print-config", b"--container-env-file", b"--url", b"--memory", b"exit status"))
    assert run("ipybox", "mcp", "--help").stdout == done.stdout and b"ipybox mcp" in run("ipybox", "--help").stdout
    assert b"\n  mcp " in run("--help").stdout


def test_print_config(run, tmp_path):
    (tmp_path / "d").mkdir()
    words = ["--allowed-dir", "d", "--container-bind=d:there", "--memory", "64M", '--container-env-var=A="\n']
    done = run("mcp", "--print-config", *words, cwd=tmp_path, env={"GLOVEBOX_URL": "unix:/x y", "GLOVEBOX_TOKEN": "secret"})
    said = json.loads(done.stdout)
    want = {"command": str(program_path()), "args": ["mcp", "--allowed-dir", f"{tmp_path}/d", f"--container-bind={tmp_path}/d:there", "--memory", "64M", words[-1]],
            "env": {"GLOVEBOX_URL": "unix:/x y"}}
    assert done.returncode == 0 and said == {"mcpServers": {"glovebox": want}, "servers": {"glovebox": {"type": "stdio", **want}}}
    assert b"VS Code" in done.stderr and b"secret" not in done.stdout
    assert "env" not in json.loads(run("mcp", "--print-config", env={}).stdout)["mcpServers"]["glovebox"]
    assert json.loads(run("ipybox", "mcp", "--print-config", "--print-config", env={}).stdout)["servers"]["glovebox"]["args"] == ["ipybox", "mcp"]
    with open("/dev/full", "wb") as full:
        assert run("mcp", "--print-config", stdout=full).returncode == 125
