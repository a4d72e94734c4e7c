# SPDX-License-Identifier: Apache-2.0
"""Tools of MCP servers for code in a box: what happens when things go wrong, servers elsewhere and of clients, RayAI's socket, approval."""
import json
import os
import signal
import threading
import time

import pytest

from gateway import SECRET, SLOW, WAYS, Asked, Box, Socket, Web, audited, certificate, configuration, name_of, one_box, one_server, text_of, web  # noqa: F401
from mcp_servers import HONEST
from server import WARM, ends, needs_root, serve, until  # noqa: F401
from speak import Speaker

pytestmark = [needs_root, pytest.mark.more]


# --- when things go wrong --------------------------------------------------------------------------------------------------


def test_audit(server, box):
    box.call("honest", "tool-1", s="seen")
    event = audited(server, box=box.id)[-1]
    assert event["server"] == "honest" and event["tool"] == "tool-1" and event["outcome"] == "done" and event["tenant"] == "local"
    assert event["arguments"] == '{"s":"seen"}' and int(event["argument_bytes"]) == 12 and int(event["result_bytes"]) > 20 and int(event["ms"]) >= 0


def test_time(box):
    assert box.call("honest", "sleeps", s=60)[0] == "timeout"
    assert text_of(box.call("honest", "tool-1", s="x")) == "{'s': 'x'}"


def test_a_server_that_dies(box):
    kind, text = box.call("honest", "dies")
    assert kind == "failed" and text == "the server has ended, by status 3"
    assert text_of(box.call("honest", "tool-1", s="x")) == "{'s': 'x'}"


def in_flight(box):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(box.call("honest", "sleeps", s=4)))
    thread.start()
    until(lambda: audited(box.server, box=box.id) or box.server.running("honest.py"), "the call is under way")
    time.sleep(0.5)
    return thread, answers


def test_the_tools_process_is_killed(serve, tmp_path):
    server = serve(**WARM, **configuration(tmp_path, honest={"source": SLOW}))
    with Box(server, tools=["honest"]) as box:
        box.call("honest", "tool-1", s="x")
        thread, answers = in_flight(box)
        old = server.pid_of("tools")
        os.kill(old, signal.SIGKILL)
        thread.join()
        assert answers[0] == ("failed", "the tools process has ended")
        assert text_of(box.call("honest", "tool-1", s="again")) == "{'s': 'again'}"
        assert server.pid_of("tools") != old
        until(lambda: len(server.running("honest.py")) == 1, "one server, in one box")


def test_the_gate_is_killed(serve, tmp_path):
    server = serve(**WARM, **configuration(tmp_path, honest={"source": SLOW}))
    with Box(server, tools=["honest"]) as box:
        assert text_of(box.call("honest", "tool-1", s="x")) == "{'s': 'x'}"
        tools = server.pid_of("tools")
        server.next_gate(server.kill_gate())
        until(lambda: server.call("GET", "/health")[0] == 200, "the next gate serves")
        assert text_of(box.call("honest", "tool-1", s="again")) == "{'s': 'again'}"
        assert server.pid_of("tools") == tools


def test_a_caller_that_goes_away(server, box):
    assert box.cell("from mcptools.honest.sleeps import run\nrun(s=4)", timeout_ms=700)["status"] in ("timeout", "error")
    until(lambda: audited(server, box=box.id, outcome="cancelled"), "the call was given up")


def test_rate(serve, tmp_path):
    """Others wait for their turn: a second has so many calls, and no more."""
    server = serve(tool_rate=5, **WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server, tools=["honest"]) as box:
        said = box.says("""
import time
from mcptools import _gateway
times = []
for i in range(16):
    _gateway.call('honest', 'tool-1', {'s': 'x'})
    times.append(time.monotonic())
print(min(b - a for a, b in zip(times, times[6:])) > 0.5, len(times))
""")
        assert said == "True 16\n"


def test_a_server_that_talks_to_itself(server):
    """It is ended when nobody waits for it, whatever it says."""
    with Box(server, tools=[name_of("endless")]) as box:
        assert box.call(name_of("endless"), "do")[0] == "timeout"
        until(lambda: "that nobody has asked for" in server.log() and not server.running("bad_server.py"), "it was ended")


@pytest.mark.parametrize("way", WAYS)
def test_a_malicious_server(server, way):
    """It cannot hang, crash or bloat what calls it, and others do not notice."""
    with Box(server, tools=[name_of(way), "honest"]) as box:
        box.call("honest", "tool-1", s="x")
        before = server.pid_of("tools")
        result = box.call(name_of(way), "do")
        assert text_of(result) == "fine" if WAYS[way] == "fine" else result[0] == WAYS[way], result
        assert text_of(box.call("honest", "tool-1", s="x")) == "{'s': 'x'}"
        assert server.pid_of("tools") == before
        with open(f"/proc/{before}/status", encoding="utf-8") as f:
            assert int(next(line for line in f if line.startswith("VmRSS:")).split()[1]) < 200000


# --- configuration ---------------------------------------------------------------------------------------------------------


BAD = [('{"mcpServers": {"x": {"command": "a", "env": {"K": "${NO_SUCH}"}}}}', "server 'x': the variable 'NO_SUCH' is not set"),
       ('{"mcpServers": {"x": {}}}', "server 'x': it has to have one of 'command' and 'url'"),
       ('{"mcpServers": {"a b": {"command": "x"}}}', "server 'a b': it is no name"),
       ('{"mcpServers": []}', "has no object 'mcpServers'"),
       ('{', "is not JSON"),
       ('{"mcpServers": {"x": {"url": "ftp://h/"}}}', "'ftp://h/' is no URL that can be spoken to"),
       ('{"mcpServers": {"x": {"command": "a", "limits": {"memory": 1}}}}', "there is no limit 'memory'"),
       ('{"mcpServers": {"x": {"command": "a", "mounts": [{"root": "/x"}]}}}', "a mount has to have 'root' and 'at'")]


@pytest.mark.parametrize("text,why", BAD, ids=range(len(BAD)))
def test_what_is_wrong_is_said_when_it_starts(glovebox, tmp_path, text, why):
    file = tmp_path / "mcp.json"
    file.write_text(text)
    ended = ends("--listen=127.0.0.1:0", f"--state-dir={tmp_path}/state", f"--tool-servers={file}")
    assert ended.returncode == 125 and why in ended.stderr, ended.stderr


def test_a_server_that_cannot_begin(serve, tmp_path):
    options = configuration(tmp_path, gone={"command": "/no/such/program"}, walled={"source": HONEST, "mounts": [{"root": "/etc", "at": "/mnt/x"}]})
    server = serve(**WARM, **options)
    with Box(server, tools=["gone", "walled", "never"]) as box:
        kind, text = box.call("gone", "x")
        assert kind == "failed" and "No such file or directory" in text
        kind, text = box.call("walled", "x")
        assert kind == "failed" and "mount_root" in text
        assert box.call("never", "x") == ("unknown", "there is no server 'never'")


# --- servers elsewhere -------------------------------------------------------------------------------------------------------


def test_a_server_by_http(serve, tmp_path):
    with web() as port:
        server = serve(env={"KEY": SECRET}, **WARM, **configuration(tmp_path, web={"url": f"http://127.0.0.1:{port}/mcp", "headers": {"X-Key": "${KEY}"}},
                                                                      moved={"url": f"http://127.0.0.1:{port}/moved"}, nobody={"url": "http://127.0.0.1:1/mcp"}))
        with Box(server, tools=["web", "moved", "nobody"]) as box:
            assert box.says("from mcptools.web.who import run\nprint(run().key)") == SECRET + "\n"
            kind, text = box.call("moved", "who")
            assert kind == "failed" and "redirects" in text
            kind, text = box.call("nobody", "who")
            assert kind == "failed" and "refused" in text.lower()
            assert SECRET not in server.log()


@pytest.mark.parametrize("status", [404, 400])
def test_a_session_that_the_server_has_forgotten(serve, tmp_path, monkeypatch, status):
    """It has done nothing, says its status: the call is made once more, in a new session. Once, for it may say so for ever."""
    with web() as port:
        server = serve(**WARM, **configuration(tmp_path, web={"url": f"http://127.0.0.1:{port}/session/{status}"}))
        with Box(server, tools=["web"]) as box:
            assert box.call("web", "who")["structuredContent"] == {"key": ""}
            Web.sessions.clear()
            Web.heard.clear()
            assert box.says("from mcptools.web.who import run\nprint(len([run() for _ in range(3)]))") == "3\n"
            assert [method for method, _ in Web.heard].count("initialize") == 1
            assert len({session for method, session in Web.heard if method == "tools/call" and session in Web.sessions}) == 1
            Web.heard.clear()
            monkeypatch.setattr(Web, "forgets", True)
            kind, text = box.call("web", "who")
            assert (kind, text) == (("failed", "the session is over, says the server (status 404)") if status == 404 else ("refused", "no such session (-32000)"))
            assert [method for method, _ in Web.heard].count("tools/call") == 2
            Web.forgets = False
            assert isinstance(box.call("web", "who"), dict)


@pytest.mark.parametrize("host,trusted,kind", [("IP:127.0.0.1", True, "done"), ("IP:127.0.0.1", False, "failed"), ("IP:127.0.0.2", True, "failed")])
def test_a_server_by_https(serve, tmp_path, host, trusted, kind):
    context, cert = certificate(tmp_path, host)
    with web(context) as port:
        more = {"tool_ca_file": cert} if trusted else {}
        server = serve(**WARM, **more, **configuration(tmp_path, web={"url": f"https://127.0.0.1:{port}/mcp", "headers": {"X-Key": "k"}}))
        with Box(server, tools=["web"]) as box:
            result = box.call("web", "who")
            assert result["structuredContent"] == {"key": "k"} if kind == "done" else result[0] == kind, result


# --- RayAI's socket -----------------------------------------------------------------------------------------------------------


RAY = """
import json, socket, struct
def ray(message, raw=None):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/tmp/mcp.sock")
    data = json.dumps(message).encode() if raw is None else raw
    s.sendall(data if raw is not None else struct.pack(">I", len(data)) + data)
    head = b""
    while len(head) < 4:
        head += s.recv(4 - len(head))
    n, body = struct.unpack(">I", head)[0], b""
    while len(body) < n:
        body += s.recv(n - len(body))
    assert s.recv(1) == b""
    return json.loads(body)
"""


def test_the_socket_of_rayai(serve, tmp_path):
    with web() as port:
        url = f"http://127.0.0.1:{port}/ray"
        server = serve(rayai_url=[url, "http://127.0.0.1:1/ray"], **WARM)
        assert server.call("POST", "/v1/boxes", {"tools": [url + "x"]})[0] == 422
        with Box(server, tools=[url, "http://127.0.0.1:1/ray"]) as box:
            def ray(message, raw=None):
                return json.loads(box.says(RAY + f"print(json.dumps(ray({message!r}, {raw!r})))"))

            assert ray({"url": url, "tool": "t", "arguments": {"a": 1}}) == {"result": {"got": {"tool": "t", "arguments": {"a": 1}}}}
            assert ray({"url": url, "tool": "t"}) == {"result": {"got": {"tool": "t", "arguments": {}}}}
            allowed = [url, "http://127.0.0.1:1/ray"]
            for trick in (url + "/", url.upper(), url.replace("127.0.0.1", "localhost"), url + "?x", url + "#", "http://127.0.0.1:2/"):
                assert ray({"url": trick, "tool": "t"}) == {"error": f"URL not in allowlist: {trick}", "allowed_urls": allowed}
            assert ray({"tool": "t"}) == {"error": "Missing 'url' in request"}
            assert ray({"url": url}) == {"error": "Missing 'tool' in request"}
            assert ray({"url": "http://127.0.0.1:1/ray", "tool": "t"}) == {"error": "Cannot connect to MCP server: http://127.0.0.1:1/ray"}
            assert ray({"url": url, "tool": "breaks"})["error"].startswith("MCP server error: ")
            assert ray(None, b"\0\0\0\2{]")["error"].startswith("Invalid JSON: ")
            assert ray(None, b"\0\xff\xff\xff")["error"] == "Message too large: 16777215 bytes (max: 2097152)"
            assert {event["outcome"] for event in audited(server, box=box.id)} == {"done", "denied", "failed", "refused"}
        with Box(server, tools=["x"]) as box:
            assert box.cell(RAY + "ray({})")["error"]["name"] == "FileNotFoundError"


# --- approval -----------------------------------------------------------------------------------------------------------------


CALL = "from mcptools.honest.tool_1 import run\nprint(run(s='x'))"


def test_approval(server):
    with Box(server, tools=["honest"], approvals=["honest/tool-1"]) as box:
        path = f"/v1/boxes/{box.id}/approvals"
        assert server.call("GET", path) == (200, {"approvals": []})
        assert text_of(box.call("honest", "env")) == SECRET, "others do not wait"
        # Its time stands still meanwhile.
        asked = Asked(box, CALL, timeout_ms=3000)
        one, = asked.waiting()
        assert one["server"] == "honest" and one["tool"] == "tool-1" and one["arguments"] == {"s": "x"}
        assert server.call("POST", path, {"id": "x" * 26, "approved": True})[0] == 404
        time.sleep(4)
        assert server.call("POST", path, {"id": one["id"], "approved": True}) == (200, {"approved": True})
        answer = asked.end()
        assert answer["status"] == "ok" and answer["stdout"] == "{'s': 'x'}\n", answer
        assert server.call("POST", path, {"id": one["id"], "approved": True})[0] == 404
        asked = Asked(box, CALL)
        server.call("POST", path, {"id": asked.waiting()[0]["id"], "approved": False})
        assert asked.end()["error"]["value"] == "the call was not allowed"
        assert [event["outcome"] for event in audited(server, box=box.id)] == ["done", "done", "rejected"]
        # And it goes on afterwards.
        assert box.cell("import time; time.sleep(30)", timeout_ms=500)["status"] == "timeout"


def test_approval_from_inside_is_none(server):
    with Box(server, tools=["honest"], approvals=["*"], ports=True) as box:
        asked = Asked(box, CALL)
        number = asked.waiting()[0]["id"]
        said = box.server.call("POST", f"/v1/boxes/{box.id}/commands", {"argv": ["python3", "-c", f"""
import socket, urllib.request, urllib.error
def status(url, body=None):
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, {{"Content-Type": "application/json"}}), timeout=5).status
    except urllib.error.HTTPError as e:
        return e.code
print(status("http://127.0.0.1:8900/v1/boxes/{box.id}/approvals", b'{{"id": "{number}", "approved": true}}'))
s = socket.create_connection(("127.0.0.1", 8900))
s.sendall(b"GET /approval HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n")
print(s.recv(100).split()[1])
"""]})[1]
        assert said["stdout"] == "404\nb'403'\n", said
        assert len(asked.waiting()) == 1
        server.call("POST", f"/v1/boxes/{box.id}/approvals", {"id": number, "approved": False})
        asked.end()


def test_a_call_that_nobody_waits_for_any_more(server):
    with Box(server, tools=["honest"], approvals=["*"]) as box:
        asked = Asked(box, CALL)
        asked.waiting()
        server.call("POST", f"/v1/boxes/{box.id}/interrupt")
        assert asked.end()["status"] != "ok"
        until(lambda: not server.call("GET", f"/v1/boxes/{box.id}/approvals")[1]["approvals"], "nobody is asked any more")


@pytest.mark.parametrize("path", ["/v1/boxes/{id}/approvals", "/approval"])
def test_approval_by_websocket(server, path):
    with Box(server, tools=["honest"], approvals=["*"], ports=True) as box:
        asked = Asked(box, CALL)
        asked.waiting()
        port = box.made["ports"]["resource"] if path == "/approval" else server.port
        with Socket(port, path.format(id=box.id)) as socket:
            told = json.loads(socket.receive())
            assert told["jsonrpc"] == "2.0" and told["method"] == "approve"
            assert told["params"] == {"server_name": "honest", "tool_name": "tool-1", "tool_args": {"s": "x"}}
            for junk in ("{", "[]", '{"id": 1}', '{"id": "x", "result": true}', json.dumps({"id": told["id"], "result": "yes"})):
                socket.send(junk)
            socket.send(json.dumps({"jsonrpc": "2.0", "id": told["id"], "result": True}))
            assert asked.end()["stdout"] == "{'s': 'x'}\n"
            asked = Asked(box, CALL)
            told = json.loads(socket.receive())
            socket.send(json.dumps({"jsonrpc": "2.0", "id": told["id"], "result": False}))
            assert asked.end()["status"] == "error"


# --- servers of clients -------------------------------------------------------------------------------------------------------


def mine(**env):
    return {"command": "/usr/bin/python3", "args": ["-c", HONEST], "env": env}


def test_a_client_registers_a_server(serve, tmp_path):
    server = serve(tool_env=["LENT"], env={"LENT": "lent", "KEY": SECRET}, **WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server) as box, Box(server, tools=["mine"]) as other:
        path = f"/v1/boxes/{box.id}/tools"
        assert box.call("mine", "env")[0] == "none"
        assert server.call("POST", path, {"server": "mine", "params": mine(SECRET="${LENT}")}) == \
            (200, {"server": "mine", "package": "mine", "tools": ["tool_1", "fails", "env"]})
        assert text_of(box.call("mine", "env")) == "lent"
        assert server.call("GET", f"/v1/boxes/{box.id}")[1]["tools"] == ["mine"]
        assert other.call("mine", "env") == ("unknown", "there is no server 'mine'"), "it is this box's alone"
        # It is there again when the tools process is.
        os.kill(server.pid_of("tools"), signal.SIGKILL)
        until(lambda: isinstance(box.call("mine", "env"), dict), "it is there again")
        # Once more, and another.
        assert server.call("POST", path, {"server": "mine", "params": mine(SECRET="other")})[0] == 200
        assert text_of(box.call("mine", "env")) == "other"
        # One that the operator has.
        assert box.call("honest", "env")[0] == "denied"
        assert server.call("POST", path, {"server": "honest"})[0] == 200
        assert text_of(box.call("honest", "env")) == "none"
        for body, status, why in (({"server": "x", "params": mine(K="${KEY}")}, 502, "the variable 'KEY' is not set"), ({"server": "never"}, 404, "there is no server 'never'"),
                                  ({"server": "x", "params": {"url": "http://127.0.0.1:1/mcp"}}, 502, "is no place"), ({"server": "a/b"}, 422, "'server' is no name"),
                                  ({"server": "x", "params": {}}, 502, "one of 'command' and 'url'"), ({"server": "x", "params": 1}, 422, "'params'"), ([], 422, "no JSON object"),
                                  ({"server": "x", "params": {"command": "/no/such"}}, 502, "No such file")):
            got, answer = server.call("POST", path, body)
            assert got == status and why in answer["error"]["message"], answer
        assert server.running("for line in sys.stdin")
    until(lambda: not server.running("for line in sys.stdin"), "they go with their box")


def test_who_is_told_of_tools_can_call_them(serve, tmp_path):
    """The socket in the box is the keeper's to make, which may take longer than to say what tools there are."""
    server = serve(**WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server, tools=["honest"]) as first, Box(server) as box:
        assert text_of(first.call("honest", "env")) == "none", "the server runs"
        assert box.says("print(1)") == "1\n", "the kernel, too"
        keeper, told = server.pid_of("keeper"), []

        def register():
            told.append(server.call("POST", f"/v1/boxes/{box.id}/tools", {"server": "honest"})[0])
            told.append(box.call("honest", "env"))

        registers = threading.Thread(target=register)
        os.kill(keeper, signal.SIGSTOP)
        try:
            registers.start()
            registers.join(1)
        finally:
            os.kill(keeper, signal.SIGCONT)
        registers.join()
        assert told[0] == 200 and text_of(told[1]) == "none", told


def test_a_box_that_ends_before_its_tools_are_there(serve, tmp_path):
    server = serve(**WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server, tools=["honest"]) as first:
        assert text_of(first.call("honest", "env")) == "none"
        box, keeper, told = Box(server), server.pid_of("keeper"), []
        registers = [threading.Thread(target=lambda: told.append(server.call("POST", f"/v1/boxes/{box.id}/tools", {"server": "honest"}))) for _ in range(3)]
        os.kill(keeper, signal.SIGSTOP)
        try:
            for one in registers:
                one.start()
            registers[0].join(0.5)
            ends = threading.Thread(target=lambda: told.append(server.call("DELETE", f"/v1/boxes/{box.id}")))
            ends.start()
            ends.join(0.5)
        finally:
            os.kill(keeper, signal.SIGCONT)
        for one in (*registers, ends):
            one.join()
        assert len(told) == 4 and all(status in (200, 204, 404, 410) for status, _ in told), told


def test_what_there_is_no_room_for_is_not_allowed(server):
    """Rules are in the record of the box, which is as large as it is."""
    with Box(server, tools=["honest"], metadata={"k": "x" * 1515}) as box:
        status, answer = server.call("POST", f"/v1/boxes/{box.id}/tools", {"server": "other"})
        assert status == 422 and "no room" in answer["error"]["message"], answer
        assert box.call("other", "env") == ("denied", "this box may not call 'other/env'")
        assert server.call("GET", f"/v1/boxes/{box.id}")[1]["tools"] == ["honest"]


def test_a_server_is_registered_by_mcp(serve, tmp_path):
    server = serve(**WARM, **configuration(tmp_path, honest={"source": HONEST}))
    speaker = Speaker(server)
    speaker.initialize()
    result = speaker.call("register_mcp_server", server_name="mine", server_params=mine(SECRET="s"), where="apart")
    assert result["structuredContent"]["tools"] == ["tool_1", "fails", "env"] and result["structuredContent"]["package"] == "mine"
    assert speaker.call("register_mcp_server", server_name="honest", where="apart")["structuredContent"]["package"] == "honest"
    assert speaker.text("execute_ipython_cell", code="from mcptools.mine.env import run\nfrom mcptools.honest.env import run as other\nprint(run(), other())") == "s none\n"
    assert speaker.call("register_mcp_server", server_name="never", where="apart")["isError"]
    assert speaker.call("register_mcp_server", server_name="never")["isError"]
    speaker.end()
