# SPDX-License-Identifier: Apache-2.0
"""For tests of tools that code in a box calls: servers of many kinds, boxes, cells in them, and who is asked."""
import base64
import contextlib
import http.server
import json
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from mcp_servers import HONEST
from server import WARM, Server, until

HERE = pathlib.Path(__file__).resolve().parent
SECRET = "s3cret-of-the-operator"

SLOW = HONEST.replace('    if name == "fails":', '''    if name == "sleeps":
        import time
        time.sleep(args["s"])
    if name == "dies":
        os._exit(3)
    if name == "large":
        return {"content": [{"type": "text", "text": "x" * args["n"]}]}
    if name == "fails":''').replace('    {"name": "env"', '''    {"name": "sleeps", "inputSchema": {"type": "object"}}, {"name": "dies", "inputSchema": {"type": "object"}},
    {"name": "large", "inputSchema": {"type": "object"}}, {"name": "env"''')


# Ways to misbehave (bad_server.py), and what comes of a call.
WAYS = {"endless": "timeout", "junk": "failed", "long line": "failed", "huge": "failed", "ids": "fine", "wrong ids": "timeout", "shapes": "fine", "no result": "failed",
        "both": "failed", "dies": "failed", "killed": "failed", "questions": "fine", "refuses": "refused", "drip": "timeout", "silent": "timeout", "deaf": "fine"}


def name_of(way):
    return "bad-" + way.replace(" ", "-")


def configuration(folder, **servers):
    """Options of a server that has these MCP servers, each {"source": …} or what a file would have."""
    place = folder / "servers"
    place.mkdir(mode=0o755)
    for name, one in servers.items():
        source = one.pop("source", None)
        if source is not None:
            (place / f"{name}.py").write_text(source)
            one.update(command="/usr/bin/python3", args=[f"/mnt/servers/{name}.py"])
        if "command" in one:
            one.setdefault("mounts", [{"root": str(place), "at": "/mnt/servers"}])
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return {"tool_servers": file, "mount_root": place}


class Box:
    """A box of /v1/boxes, and cells in it."""

    def __init__(self, server, **fields):
        self.server = server
        status, answer = server.call("POST", "/v1/boxes", fields)
        assert status == 201, answer
        self.id, self.made = answer["id"], answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.server.call("DELETE", f"/v1/boxes/{self.id}")[0] in (200, 204)

    def cell(self, code, **fields):
        status, answer = self.server.call("POST", f"/v1/boxes/{self.id}/cells", {"code": code, **fields})
        assert status == 200, answer
        return answer

    def says(self, code, **fields):
        """What it prints; an exception fails the test."""
        answer = self.cell(code, **fields)
        assert answer["status"] == "ok", answer
        return answer["stdout"]

    def call(self, server, tool, **arguments):
        """(kind, text) of a refusal, or the result."""
        said = self.says(f"""
import json
from mcptools import _gateway
try:
    print(json.dumps({{"result": _gateway.call({server!r}, {tool!r}, {arguments!r})}}))
except _gateway.GatewayError as e:
    print(json.dumps({{"refused": [e.kind, str(e)]}}))
""")
        said = json.loads(said)
        return said["result"] if "result" in said else tuple(said["refused"])


def text_of(result):
    return "".join(one["text"] for one in result["content"])


def audited(server, **wanted):
    found = []
    for line in (pathlib.Path(server.folder) / "state/audit/audit.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "tool_call" and all(event.get(key) == value for key, value in wanted.items()):
            found.append(event)
    return found


@pytest.fixture(name="server", scope="module")
def one_server(glovebox, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    options = configuration(folder, honest={"source": SLOW, "env": {"SECRET": "${KEY}"}}, other={"source": HONEST},
                            **{name_of(way): {"command": "/usr/bin/python3", "args": ["/mnt/servers/bad_server.py", way]} for way in WAYS})
    shutil.copy(HERE / "bad_server.py", folder / "servers")
    with Server(folder, env={"KEY": SECRET}, tool_timeout="5s", tool_rate=0, tool_idle="1s", audit_tool_arguments="true", **WARM, **options) as running:
        with Box(running, tools=["honest"]) as box:
            box.call("honest", "env")  # the tools process stays from here on; servers go when nobody calls them
        until(lambda: not running.running("honest.py"), "the server has ended, for nobody calls it")
        yield running


@pytest.fixture(name="box")
def one_box(server):
    with Box(server, tools=["honest"]) as box:
        yield box


class Web(http.server.BaseHTTPRequestHandler):
    """A small MCP server of streamable HTTP, JSON only; and what RayAI's tools are: a POST of {"tool", "arguments"}."""

    protocol_version = "HTTP/1.1"
    sessions, forgets, heard = set(), False, []  # of /session/STATUS, which says so to who has none of these; methods and sessions that came

    def log_message(self, *_):
        pass

    def reply(self, value, status=200, **headers):
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, one in headers.items():
            self.send_header(name.replace("_", "-"), one)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/ray/tools/call":
            if said["tool"] == "breaks":
                self.reply({}, 500)
            else:
                self.reply({"got": said})
        elif self.path == "/moved":
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:1/mcp")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.startswith("/session/") and not self.has_session(said):
            self.reply({"jsonrpc": "2.0", "id": said.get("id"), "error": {"code": -32000, "message": "no such session"}}, int(self.path.split("/")[2]))
        elif "id" not in said:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web", "version": "1"}},
                       "tools/list": {"tools": [{"name": "who", "description": "Who asks?", "inputSchema": {"type": "object", "properties": {}},
                                                 "outputSchema": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}}]},
                       "tools/call": {"content": [{"type": "text", "text": "?"}], "structuredContent": {"key": self.headers.get("X-Key") or ""}}}
            if said["method"] in results:
                more = {"Mcp_Session_Id": str(len(self.heard))} if said["method"] == "initialize" and self.path.startswith("/session/") else {}
                self.sessions.update(more.values())
                self.reply({"jsonrpc": "2.0", "id": said["id"], "result": results[said["method"]]}, **more)
            else:
                self.reply({"jsonrpc": "2.0", "id": said["id"], "error": {"code": -32601, "message": "no such method"}})

    def has_session(self, said):
        session = self.headers.get("Mcp-Session-Id")
        self.heard.append((said["method"], session))
        return session is None or (session in self.sessions and not self.forgets)

    def do_GET(self):
        self.reply({}, 405)


@contextlib.contextmanager
def web(context=None):
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    listener.daemon_threads = True
    if context is not None:
        listener.socket = context.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    yield listener.server_address[1]
    listener.shutdown()
    thread.join()
    listener.server_close()


def certificate(folder, host):
    """Of this host, by nobody but itself: a context, and the file to trust."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=test",
                    "-addext", f"subjectAltName={host}"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


class Socket:
    """A WebSocket, for short texts."""

    def __init__(self, port, path):
        self.wire = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.wire.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                          f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode())
        self.file = self.wire.makefile("rb")
        assert b" 101 " in self.file.readline()
        while self.file.readline().strip():
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.wire.close()

    def send(self, text):
        data = text.encode()
        assert len(data) < 126
        self.wire.sendall(bytes([0x81, 0x80 | len(data)]) + bytes(4) + data)

    def receive(self):
        kind, n = self.file.read(2)
        assert kind == 0x81
        return self.file.read(struct.unpack(">H", self.file.read(2))[0] if n == 126 else n).decode()


class Asked:
    """A call that waits for somebody."""

    def __init__(self, box, code, **fields):
        self.box, self.answer = box, None
        self.thread = threading.Thread(target=lambda: setattr(self, "answer", box.cell(code, **fields)))
        self.thread.start()

    def waiting(self):
        return until(lambda: self.box.server.call("GET", f"/v1/boxes/{self.box.id}/approvals")[1]["approvals"], "somebody is asked")

    def end(self):
        self.thread.join()
        return self.answer
