# SPDX-License-Identifier: Apache-2.0
"""A terminal in a session, over WebSocket: frames as a client sends them, also those that none should."""
import base64
import hashlib
import json
import os
import re
import socket
import struct

import pytest

from server import needs_root, serve, shared, tokens_variable, until  # noqa: F401

pytestmark = needs_root
server = shared()

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class WebSocket:
    def __init__(self, server, path, headers=(), host=None):
        self.socket = socket.create_connection((server.host, server.port), timeout=30)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {host or server.authority}", "Connection: Upgrade", "Upgrade: websocket",
                 "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *headers]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            data = self.socket.recv(65536)
            assert data, "closed instead of an answer"
            self.buffer += data
        self.head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        self.status = int(self.head.split(b" ")[1])
        if self.status == 101:
            want = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest())
            assert b"sec-websocket-accept: " + want.lower() in self.head.lower()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, opcode, payload, masked=True, first=0x80):
        n = len(payload)
        head = bytes([first | opcode, (0x80 if masked else 0) | (n if n < 126 else 126 if n < 65536 else 127)])
        head += b"" if n < 126 else struct.pack(">H" if n < 65536 else ">Q", n)
        mask = os.urandom(4) if masked else b""
        self.socket.sendall(head + mask + (bytes(b ^ mask[i % 4] for i, b in enumerate(payload)) if masked else payload))

    def take(self, n):
        while len(self.buffer) < n:
            data = self.socket.recv(65536)
            if not data:
                return None
            self.buffer += data
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def receive(self):
        """(opcode, payload), or (None, b"") at the end."""
        head = self.take(2)
        if head is None:
            return None, b""
        assert not head[1] & 0x80, "a server does not mask"
        n = head[1] & 0x7f
        if n >= 126:
            n = struct.unpack(">H" if n == 126 else ">Q", self.take(2 if n == 126 else 8))[0]
        return head[0] & 15, self.take(n)

    def read_until(self, pattern):
        text = b""
        while not re.search(pattern, text):
            opcode, payload = self.receive()
            assert opcode in (BINARY, PING), (opcode, payload, text)
            text += payload if opcode == BINARY else b""
        return text

    def close_code(self):
        """The code of the server's goodbye."""
        while True:
            opcode, payload = self.receive()
            if opcode is None:
                return None
            if opcode == CLOSE:
                return struct.unpack(">H", payload[:2])[0]


def session(server, headers=None):
    status, answer = server.call("POST", "/v1/sessions", {}, headers)
    assert status == 201
    return answer["session_id"]


@pytest.fixture
def name(server):
    """A session."""
    name = session(server)
    yield name
    server.request("DELETE", f"/v1/sessions/{name}")


def test_type_and_see(server, name):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        assert ws.status == 101
        ws.send(BINARY, b"echo $((6 * 7)) $(tty) $(pwd) > seen; cat seen; id -u\n")
        text = ws.read_until(rb"42 /dev/pts/\d+ /workspace\r\n65532\r\n")
        assert b"\r\n" in text
        ws.send(BINARY, b"exit 7\n")
        while True:
            opcode, payload = ws.receive()
            if opcode == TEXT:
                break
        assert json.loads(payload) == {"exit": {"exit_code": 7, "signal": None}}
        assert ws.close_code() == 1000
    status, answer = server.call("POST", f"/v1/sessions/{name}/bash", {"cmd": "cat seen"})
    assert status == 200 and answer["stdout"].startswith("42 "), "the same files as commands have"


def test_resize(server, name):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        ws.send(BINARY, b"stty size\n")
        ws.read_until(rb"24 80\r\n")
        ws.send(TEXT, b'{"resize": [132, 43]}')
        ws.send(BINARY, b"stty size\n")
        ws.read_until(rb"43 132\r\n")


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"resize": [0, 1]}', b'{"resize": [1]}', b'{"resize": ["a", "b"]}', b"{}"])
def test_text_that_is_no_resize(server, name, text):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        ws.send(TEXT, text)
        assert ws.close_code() == 1008


def test_ping_is_answered(server, name):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        ws.send(PING, b"are you there")
        while True:
            opcode, payload = ws.receive()
            if opcode == PONG:
                break
        assert payload == b"are you there"


@pytest.mark.parametrize("frame, code", [("unmasked", 1002), ("reserved bits", 1002), ("reserved opcode", 1002),
                                        ("bad utf-8", 1007), ("long ping", 1002), ("too long", 1009)])
def test_hostile_frames(server, name, frame, code):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        if frame == "unmasked":
            ws.send(BINARY, b"x", masked=False)
        elif frame == "reserved bits":
            ws.send(BINARY, b"x", first=0xf0)
        elif frame == "reserved opcode":
            ws.send(5, b"x")
        elif frame == "bad utf-8":
            ws.send(TEXT, b"\xff\xfe")
        elif frame == "long ping":
            ws.send(PING, b"x" * 126)
        else:
            ws.send(BINARY, b"x" * (64 * 1024 + 1))
        assert ws.close_code() in (code, None)
    assert server.request("GET", "/health")[0] == 200


def test_who_leaves_takes_the_shell_along(server, name):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        ws.send(BINARY, b"echo pid=$$\n")
        pid = re.search(rb"pid=(\d+)\r", ws.read_until(rb"pid=\d+\r"))[1].decode()

    def is_gone():
        _, answer = server.call("POST", f"/v1/sessions/{name}/bash", {"cmd": f"kill -0 {pid} 2>/dev/null || echo gone"})
        return answer["stdout"] == "gone\n"

    until(is_gone, "the shell is gone")


def test_a_flood_is_held_back_and_comes_whole(server, name):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        ws.send(BINARY, b"stty -echo; echo be''gin; seq 1 200000; echo e''nd\n")
        text = ws.read_until(rb"end\r\n")
        numbers = text.split(b"begin\r\n")[1].split(b"end")[0]
        assert numbers == b"".join(b"%d\r\n" % i for i in range(1, 200001))


def test_what_is_no_upgrade(server, name):
    status, headers, _ = server.request("GET", f"/v1/sessions/{name}/tty")
    assert status == 426 and headers["Upgrade"] == "websocket"


def test_no_such_session(server):
    with WebSocket(server, "/v1/sessions/code-session-" + "0" * 32 + "/tty") as ws:
        assert ws.status == 404


def test_a_page_from_elsewhere_is_refused(server, name):
    """Cross-site WebSocket hijacking, and a name that was made to point here."""
    with WebSocket(server, f"/v1/sessions/{name}/tty", ["Origin: http://evil.example"]) as ws:
        assert ws.status == 403
    with WebSocket(server, f"/v1/sessions/{name}/tty", host="evil.example") as ws:
        assert ws.status == 421


def test_the_token_may_stand_in_the_address(serve):
    token = "a-token-of-a-tenant-1234"
    server = serve(env=tokens_variable({"one": token}))
    name = session(server, {"Authorization": f"Bearer {token}"})
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        assert ws.status == 401
    with WebSocket(server, f"/v1/sessions/{name}/tty?token=wrong") as ws:
        assert ws.status == 401
    with WebSocket(server, f"/v1/sessions/{name}/tty?token={token}") as ws:
        assert ws.status == 101
    assert token not in server.log()
    server.request("DELETE", f"/v1/sessions/{name}", headers={"Authorization": f"Bearer {token}"})


def test_deleting_the_session_ends_the_terminal(server, name):
    with WebSocket(server, f"/v1/sessions/{name}/tty") as ws:
        ws.send(BINARY, b"echo re''ady\n")
        ws.read_until(rb"ready\r\n")
        assert server.request("DELETE", f"/v1/sessions/{name}")[0] == 204
        assert ws.close_code() in (1001, 1011, None)
