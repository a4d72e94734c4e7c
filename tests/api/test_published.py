# SPDX-License-Identifier: Apache-2.0
"""Published ports: a program of a box that listens, reached by a path of the server or by a port of this machine that is its own."""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import socket
import urllib.parse

import pytest

from server import (Gone, Wire, needs_root, serve, shared, status_of, tokens_variable, until)  # noqa: F401
from test_boxes import Box, refused
from test_ci_tty import WebSocket
from test_serve import audit_of

pytestmark = needs_root

PROGRAM = pathlib.Path(__file__).with_name("listening_program.py").read_text()
ALICE, BOB = "alice-4f0d7a1c6e02b9", "bob-b51e90c2d7713a44"
PORT = 8080

server = shared()
guarded = shared(tokens={"alice": ALICE, "bob": BOB})


class Program:
    """The listening program in a box, and what it says."""

    def __init__(self, box, address="127.0.0.1", port=PORT):
        self.box, self.port = box, port
        status, answer = box.call(argv=["python3", "-c", PROGRAM, address, str(port)], detach=True, stdin_open=True)
        assert status == 202, answer
        self.id = answer["id"]
        self.heard("listens")

    def said(self):
        status, answer = self.box.server.call("GET", f"{self.box.path}/commands/{self.id}", headers=self.box.headers)
        assert status == 200 and answer["status"] == "running", answer
        return answer["stdout"].splitlines()

    def heard(self, word, times=1):
        until(lambda: self.said().count(word) >= times, f"the program says '{word}' {times} times")

    def tell(self, line):
        status, answer = self.box.server.call("POST", f"{self.box.path}/commands/{self.id}/stdin", {"text": line + "\n"}, self.box.headers)
        assert status == 204, answer


class Published(Box):
    """A box with the program, and its port as a path; with loopback, also as a port of this machine."""

    def __init__(self, server, loopback=None, headers=None, address="127.0.0.1", **fields):
        super().__init__(server, headers, **fields)
        self.program = Program(self, address)
        status, self.port = self.publish(port=PORT, **({} if loopback is None else {"loopback": loopback}))
        assert status == 201, self.port
        self.at = self.port["path"].rstrip("/")

    def publish(self, **fields):
        return self.server.call("POST", f"{self.path}/ports", fields, self.headers)

    def ask(self, path, method="GET", body=None, headers=None):
        return self.server.request(method, self.at + path, body, {**(self.headers or {}), **(headers or {})})

    def echoed(self, path="/echo", method="GET", body=None, headers=None):
        """What the program was asked."""
        status, _, data = self.ask(path, method, body, headers)
        assert status == 200, data
        return json.loads(data)

    def raw(self, data, head=False):
        """What a client gets where the program says these bytes: Answer, or None where the connection ends instead."""
        with self.server.wire() as wire:
            wire.send(f"{'HEAD' if head else 'GET'} {self.at}/raw/{data.hex()} HTTP/1.1\r\nHost: {self.server.authority}\r\n\r\n".encode())
            try:
                return wire.response(has_body=not head)
            except Gone:
                return None

    @contextlib.contextmanager
    def own(self):
        """A connection to its port of this machine."""
        c = http.client.HTTPConnection("127.0.0.1", self.port["loopback"], timeout=60)
        with contextlib.closing(c):
            yield c

    def own_request(self, path, method="GET", body=None, headers=None):
        with self.own() as c:
            c.request(method, path, body, headers or {})
            answer = c.getresponse()
            return answer.status, answer.headers, answer.read()


def of(asked, name):
    return [value for key, value in asked["headers"] if key.lower() == name.lower()]


@pytest.fixture(scope="module")
def box(server):
    with Published(server, loopback=0) as box:
        yield box


@pytest.fixture(scope="module")
def tenant(guarded):
    with Published(guarded, loopback=0, headers={"Authorization": f"Bearer {ALICE}"}) as box:
        yield box


# --- publishing ----------------------------------------------------------------------------------------------


def test_what_is_said_of_it(server):
    with Box(server) as box:
        assert box.answer["published_ports"] == []
        status, answer = server.call("POST", f"{box.path}/ports", {"port": 3000})
        assert status == 201
        assert answer == {"port": 3000, "path": f"{box.path}/ports/3000/", "loopback": None, "url": None}
        status, other = server.call("POST", f"{box.path}/ports", {"port": 80, "loopback": 0})
        assert status == 201 and other["loopback"] >= 1024 and other["url"] == f"http://127.0.0.1:{other['loopback']}/"
        assert server.call("GET", f"{box.path}/ports") == (200, {"published_ports": [other, answer]})
        assert server.call("GET", f"{box.path}/ports/80") == (200, other)
        assert box.get()[1]["published_ports"] == [other, answer]
        # The same again is the same; a port of this machine can come later.
        assert server.call("POST", f"{box.path}/ports", {"port": 80, "loopback": 0}) == (201, other)
        assert server.call("POST", f"{box.path}/ports", {"port": 80}) == (201, other)
        status, more = server.call("POST", f"{box.path}/ports", {"port": 3000, "loopback": 0})
        assert status == 201 and more["loopback"] not in (None, other["loopback"])
        refused(server.call("POST", f"{box.path}/ports", {"port": 3000, "loopback": other["loopback"]}), 409, "wrong_state", "loopback")


@pytest.mark.parametrize("fields,field", [({}, "port"), ({"port": 0}, "port"), ({"port": 65536}, "port"), ({"port": -1}, "port"), ({"port": "80"}, "port"),
                                          ({"port": 80, "loopback": 80}, "loopback"), ({"port": 80, "loopback": 65536}, "loopback"),
                                          ({"port": 80, "loopback": True}, "loopback"), ({"port": 80, "colour": "blue"}, "colour")])
def test_what_makes_no_sense(server, fields, field):
    with Box(server) as box:
        status, answer = server.call("POST", f"{box.path}/ports", fields)
        assert status == 422 and answer["error"]["field"] == field, answer
        assert server.call("GET", f"{box.path}/ports") == (200, {"published_ports": []})


def test_a_port_that_is_taken(server):
    with socket.create_server(("127.0.0.1", 0)) as s, Box(server) as box:
        taken = s.getsockname()[1]
        refused(server.call("POST", f"{box.path}/ports", {"port": 80, "loopback": taken}), 409, "port_taken", "loopback")
        assert server.call("GET", f"{box.path}/ports") == (200, {"published_ports": []})
        assert server.call("POST", f"{box.path}/ports", {"port": 80})[0] == 201
        refused(server.call("POST", f"{box.path}/ports", {"port": 80, "loopback": taken}), 409, "port_taken", "loopback")
        assert server.call("GET", f"{box.path}/ports/80")[1]["loopback"] is None  # what was there before stays


def test_how_many(server):
    with Box(server) as box:
        ports = [server.call("POST", f"{box.path}/ports", {"port": 1000 + i, "loopback": 0})[1]["loopback"] for i in range(8)]
        assert len(set(ports)) == 8
        assert server.call("POST", f"{box.path}/ports", {"port": 2000, "loopback": 0})[0] == 503
        for i in range(8):
            assert server.call("POST", f"{box.path}/ports", {"port": 2000 + i})[0] == 201
        refused(server.call("POST", f"{box.path}/ports", {"port": 3000}), 429, "too_many", "port")
        assert server.call("DELETE", f"{box.path}/ports/1003")[0] == 204
        assert server.call("POST", f"{box.path}/ports", {"port": 3000, "loopback": ports[3]})[1]["loopback"] == ports[3]


def test_published_no_more(server):
    with Published(server, loopback=0) as box:
        for path in (box.at + "/mute", None):
            with contextlib.ExitStack() as stack:
                wire = stack.enter_context(server.wire() if path else Wire(socket.create_connection(("127.0.0.1", box.port["loopback"]), 60)))
                wire.send(f"GET {path or '/mute'} HTTP/1.1\r\nHost: {server.authority if path else 'localhost'}\r\n\r\n".encode())
                box.program.heard("asked", 1 if path else 2)
                if path:
                    assert box.ask("/echo")[0] == 200
                else:
                    assert server.call("DELETE", f"{box.path}/ports/{PORT}")[0] == 204
                    assert wire.response().status == 502
                    box.program.heard("left", 2)
        refused(server.call("GET", f"{box.path}/ports/{PORT}"), 404, "not_found", "port")
        refused(server.call("GET", box.at + "/echo"), 404, "not_found", "port")
        refused(server.call("DELETE", f"{box.path}/ports/{PORT}"), 404, "not_found", "port")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", box.port["loopback"]), 60)


@pytest.mark.parametrize("port", ["81", "0", "x", "080", "65616", "+8080", "8080 "])
def test_what_is_not_published(server, box, port):
    assert port == "080" or server.call("GET", f"{box.path}/ports/{urllib.parse.quote(port)}/echo")[0] == 404


def test_the_end_of_the_box(server):
    with Published(server, loopback=0) as box:
        with server.wire() as wire:
            wire.send(f"GET {box.at}/mute HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
            box.program.heard("asked")
            box.delete()
            assert wire.response().status in (410, 502)
        assert server.request("GET", box.at + "/echo")[0] == 410
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", box.port["loopback"]), 60)


# --- requests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_where_a_program_may_listen(server, address):
    with Published(server, address=address) as box:
        assert box.echoed()["line"] == "GET /echo HTTP/1.1"


def test_before_anybody_listens(server):
    with Box(server) as box:
        assert server.call("POST", f"{box.path}/ports", {"port": PORT})[0] == 201
        error = refused(server.call("GET", f"{box.path}/ports/{PORT}/"), 502, "program")
        assert str(PORT) in error["message"] and "listen" in error["hint"]
        Program(box)
        assert server.request("GET", f"{box.path}/ports/{PORT}/")[0] == 200


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_methods(box, method):
    assert box.echoed(method=method)["line"] == f"{method} /echo HTTP/1.1"
    status, _, body = box.own_request("/echo", method)
    assert status == 200 and json.loads(body)["line"] == f"{method} /echo HTTP/1.1"


@pytest.mark.parametrize("path", ["/", "/?", "/echo/", "/a//b", "/%2e%2e/x", "/a%2Fb%00%ff", "/echo?a=1&a=2&b", "/echo?q=%zz", "/echo/;x=1", "/a:b@c"])
def test_paths_are_the_program_s(box, path):
    """Nothing of them is decoded, put right or refused here."""
    assert box.echoed(path)["line"] == f"GET {path} HTTP/1.1"
    assert json.loads(box.own_request(path)[2])["line"] == f"GET {path} HTTP/1.1"


@pytest.mark.parametrize("path", ["/../network", "/x/../../network", "/%2e%2e/network", "/..%2fnetwork"])
def test_a_path_leads_nowhere_else(box, path):
    """It is the program that is asked, or nobody, and never this server."""
    status, _, body = box.ask(path)
    assert status == 200 and json.loads(body)["line"] == f"GET {path} HTTP/1.1"


def test_one_line_for_both(server, box):
    """Without the slash it is the port itself."""
    assert server.call("GET", box.at)[1] == box.port


@pytest.mark.parametrize("size", [0, 1, 65536, 20 << 20])
def test_bodies(box, size):
    data = os.urandom(size)
    for asked in (box.echoed(method="POST", body=data), json.loads(box.own_request("/echo", "POST", data)[2])):
        assert (asked["size"], asked["sha256"]) == (size, hashlib.sha256(data).hexdigest())
        assert of(asked, "Content-Length") == [str(size)] and of(asked, "Transfer-Encoding") == []


def test_a_body_in_chunks(box):
    parts = [os.urandom(n) for n in (1, 100_000, 70_000)]
    with box.own() as c:
        c.request("POST", "/echo", iter(parts), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        asked = json.loads(c.getresponse().read())
    assert (asked["size"], asked["sha256"]) == (170_001, hashlib.sha256(b"".join(parts)).hexdigest())
    assert of(asked, "Transfer-Encoding") == ["chunked"] and of(asked, "Content-Length") == []


def test_one_connection_serves_many(box):
    with box.own() as c:
        for i in range(5):
            c.request("POST", f"/echo/{i}", b"x" * i)
            answer = c.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["size"] == i


def test_who_waits_with_its_body(server, box):
    """It is asked for by us: the program does not see the question."""
    with server.wire() as wire:
        wire.send(f"PUT {box.at}/echo HTTP/1.1\r\nHost: {server.authority}\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n".encode())
        assert wire.response().status == 100
        wire.send(b"abc")
        asked = json.loads(wire.response().body)
        assert asked["size"] == 3 and of(asked, "Expect") == []


def test_events_come_as_they_are_said(server, box):
    with server.wire() as wire:
        wire.send(f"GET {box.at}/slow HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
        assert wire.line().startswith(b"HTTP/1.1 200")
        for word in ("one", "two", "three"):
            box.program.tell(word)
            while not wire.buffer.endswith(f"data: {word}\n\n\r\n".encode()):
                wire.fill()
        box.program.tell("")
        while not wire.buffer.endswith(b"0\r\n\r\n"):
            wire.fill()


def test_large_answers(server, box):
    size = 64 << 20
    block = hashlib.sha256()
    for _ in range(size >> 16):
        block.update(bytes(range(256)) * 256)
    assert hashlib.sha256(box.ask(f"/big/{size}")[2]).hexdigest() == block.hexdigest()


def test_the_gate_keeps_none_of_it(server, box):
    """A client that does not read holds the program up; one that sends is held up by a program that does not read."""
    gate = server.pid_of("gate")
    before = int(status_of(gate)["VmHWM"].split()[0])
    with server.wire() as reads_not, server.wire() as sends:
        reads_not.send(f"GET {box.at}/endless HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
        sends.send(f"POST {box.at}/sink HTTP/1.1\r\nHost: {server.authority}\r\nContent-Length: {256 << 20}\r\n\r\n".encode())
        box.program.heard("asked")
        sends.socket.setblocking(False)
        sent, still = 0, 0
        while still < 25:
            try:
                sent += sends.socket.send(b"x" * 65536)
                still = 0
            except BlockingIOError:
                still += 1
                until(lambda: box.echoed()["size"] == 0, "others are served")
        assert sent < 64 << 20
        said = box.program.said()
        assert f"sent {64 << 20}" not in said
    assert int(status_of(gate)["VmHWM"].split()[0]) - before < 16 << 10
    box.program.heard("left")
    box.program.tell("go on")


def test_a_client_that_leaves(server, box):
    was = box.program.said().count("left")
    asked = box.program.said().count("asked")
    with server.wire() as wire:
        wire.send(f"GET {box.at}/mute HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
        box.program.heard("asked", asked + 1)
    box.program.heard("left", was + 1)


def test_too_many_at_once(server):
    with Published(server) as box, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in range(64)]
        for wire in wires:
            wire.send(f"GET {box.at}/mute HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
        box.program.heard("asked", 64)
        status, headers, body = server.request("GET", box.at + "/echo")
        assert status == 429 and headers["Retry-After"] and json.loads(body)["error"]["code"] == "too_many"
        wires[0].socket.close()
        box.program.heard("left")
        assert box.echoed()["size"] == 0


# --- what both sides hear of each other ------------------------------------------------------------------------


def test_headers_of_a_request(server, box):
    sent = {"Accept": "text/plain", "X-Mine": "1", "Connection": "X-Hop", "X-Hop": "2", "Keep-Alive": "300", "TE": "gzip", "Upgrade": "h2c", "Proxy-Authorization": "x",
            "Cookie": "session=of-the-server", "Accept-Encoding": "identity"}
    asked = box.echoed(headers=sent)
    names = {name.lower() for name, _ in asked["headers"]}
    assert names == {"host", "accept", "accept-encoding", "x-mine", "connection", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix"}
    assert of(asked, "Connection") == ["close"] and of(asked, "Host") == [server.authority] == of(asked, "X-Forwarded-Host")
    assert of(asked, "X-Forwarded-Proto") == ["http"] and of(asked, "X-Forwarded-Prefix") == [box.at]
    own = json.loads(box.own_request("/echo", headers=sent)[2])
    assert of(own, "Host") == [f"127.0.0.1:{box.port['loopback']}"] and of(own, "X-Forwarded-Prefix") == []


def test_several_connection_headers(server, box):
    with server.wire() as wire:
        wire.send(f"GET {box.at}/echo HTTP/1.1\r\nHost: {server.authority}\r\nConnection: keep-alive\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n".encode())
        assert of(json.loads(wire.response().body), "X-Hop") == []


def headers_of(answer):
    return dict(answer.headers)


def test_headers_of_an_answer(box):
    a = box.raw(b"HTTP/1.1 203 Whatever\r\nContent-Type: text/x\r\nX-Mine: 1\r\nX-Mine: 2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTrailer: x\r\n"
                b"Strict-Transport-Security: max-age=1\r\nAlt-Svc: h3\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\nServer: mine\r\nX-Request-Id: forged\r\n"
                b"Date: yesterday\r\nX-Content-Type-Options: off\r\nClear-Site-Data: *\r\nService-Worker-Allowed: /\r\nContent-Length: 2\r\n\r\nhi")
    assert a.status == 203 and a.body == b"hi"
    names = [name for name, _ in a.headers]
    assert [value for name, value in a.headers if name == "x-mine"] == ["1", "2"]
    assert a.get("content-type") == "text/x" and a.get("server") == "mine" and a.get("x-content-type-options") == "nosniff"
    assert a.get("x-request-id") != "forged" and a.get("date") != "yesterday"
    for name in ("x-hop", "trailer", "strict-transport-security", "alt-svc", "set-cookie", "access-control-allow-origin", "clear-site-data", "service-worker-allowed"):
        assert name not in names, name


def test_its_own_port_is_an_origin_of_its_own(server, box):
    """There it may have what acts on its origin, but for what a browser would keep for all of 127.0.0.1."""
    answer = (b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Path=/\r\nAccess-Control-Allow-Origin: *\r\nStrict-Transport-Security: max-age=1\r\nClear-Site-Data: \"storage\"\r\n"
              b"Content-Length: 0\r\n\r\n")
    _, headers, _ = box.own_request(f"/raw/{answer.hex()}")
    cookie = headers["Set-Cookie"]
    assert re.fullmatch(r"gb-[a-z2-7]{8}-a=b; Path=/", cookie) and cookie[3:11] == box.id[-8:]
    assert headers["Access-Control-Allow-Origin"] == "*" and headers["Clear-Site-Data"] and not headers["Strict-Transport-Security"]
    assert not headers["Content-Security-Policy"]
    asked = json.loads(box.own_request("/echo", headers={"Cookie": f"other=1; {cookie.split(';')[0]}; gb-aaaaaaaa-a=c"})[2])
    assert of(asked, "Cookie") == ["a=b"]


def test_pages_by_a_path_have_no_origin(box):
    a = box.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: default-src *\r\nContent-Length: 0\r\n\r\n")
    policies = [value for name, value in a.headers if name == "content-security-policy"]
    assert policies[0] == "default-src *" and policies[1].startswith("sandbox ") and "allow-same-origin" not in policies[1]


@pytest.mark.parametrize("location,seen", [("/next?a=b", "{at}/next?a=b"), ("next", "next"), ("../x", "../x"), ("http://localhost:8080/next", "{at}/next"),
                                           ("http://127.0.0.1:8080", "{at}/"), ("http://127.0.0.1:8080?x", "{at}/?x"), ("http://{host}/x", "{at}/x"),
                                           ("https://example.org/x", "https://example.org/x"), ("//example.org/x", "//example.org/x"),
                                           ("http://localhost:8081/", "http://localhost:8081/"), ("", ""), ("/\\example.org", "/\\example.org")])
def test_where_it_sends_its_client(server, box, location, seen):
    location = location.format(host=server.authority)
    a = box.raw(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
    assert a.status == 302 and a.get("location") == seen.format(at=box.at)


@pytest.mark.parametrize("answer,status,body", [
    (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, b"until the end"),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, b"hi"),
    (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""), (b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 5\r\n\r\n", 304, b""),
    (b"HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nbad", 500, b"bad"), (b"HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n", 599, b""),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more", 200, b"hi")])
def test_answers(box, answer, status, body):
    a = box.raw(answer)
    assert (a.status, a.body) == (status, body)


def test_the_head_alone(box):
    a = box.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 12345\r\nX-Mine: 1\r\n\r\n", head=True)
    assert a.status == 200 and a.get("content-length") == "12345" and a.get("x-mine") == "1"
    a = box.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head=True)
    assert a.status == 200 and a.get("content-length") is None


BAD = {"nothing": b"", "half a head": b"HTTP/1.1 200 OK\r\nX: ", "no http": b"hello\n", "http/2": b"HTTP/2 200\r\n\r\n", "bare lf": b"HTTP/1.1 200 OK\n\n",
       "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "length and chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       "folded": b"HTTP/1.1 200 OK\r\nX: 1\r\n 2\r\n\r\n", "control": b"HTTP/1.1 200 OK\r\nX: \x01\r\nContent-Length: 0\r\n\r\n", "space": b"HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 0\r\n\r\n",
       "large head": b"HTTP/1.1 200 OK\r\n" + b"X:y\r\n" * 300 + b"\r\n",
       "coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
       "status": b"HTTP/1.1 999 OK\r\n\r\n", "many": b"HTTP/1.1 100 Continue\r\n\r\n" * 30, "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"}


@pytest.mark.parametrize("name", BAD)
def test_answers_that_are_none(box, name):
    a = box.raw(BAD[name])
    assert a.status == 502 and a.json()["error"]["code"] == "program", a
    assert box.echoed()["size"] == 0


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
                                    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"])
def test_one_that_breaks_off_is_not_taken_for_whole(box, answer):
    assert box.raw(answer) is None


def test_an_endless_head(server, box):
    status, _, body = box.ask("/endless-head")
    assert status == 502 and json.loads(body)["error"]["code"] == "program"


def test_an_answer_before_the_question_is_whole(server, box):
    """And then it never is: nothing of ours is taken for a part of the program's answer."""
    with server.wire() as wire:
        wire.send(f"POST {box.at}/early HTTP/1.1\r\nHost: {server.authority}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        assert wire.line().startswith(b"HTTP/1.1 200")
        while b"\r\n\r\n" not in wire.buffer:
            wire.fill()
        wire.send(b"no chunk\r\n")
        assert b"HTTP/1.1" not in wire.rest() and wire.closed


def test_a_reset(server, box):
    status, _, body = box.ask("/cut/" + b"HTTP/1.1 200 OK\r\n".hex())
    assert status == 502, body


# --- WebSockets ----------------------------------------------------------------------------------------------


class OwnPort:
    """So much of a server as a WebSocket needs."""

    def __init__(self, box):
        self.host, self.port = "127.0.0.1", box.port["loopback"]
        self.authority = f"127.0.0.1:{self.port}"


@pytest.mark.parametrize("own", [False, True], ids=["by a path", "by its port"])
def test_a_websocket(server, box, own):
    was = box.program.said().count("left")
    with WebSocket(OwnPort(box) if own else server, "/ws/chat" if own else box.at + "/ws/chat", ["Sec-WebSocket-Protocol: chat"]) as ws:
        assert ws.status == 101, ws.head
        head = ws.head.decode().lower().split("\r\n")
        assert "sec-websocket-protocol: chat" in head and any(line.startswith("x-saw: ") for line in head)
        assert len([line for line in head if line.startswith("sec-websocket-accept")]) == 1
        # The program sends back what it gets, so that frames of a client come back masked: they are not looked at here.
        data = os.urandom(300_000)
        ws.socket.settimeout(60)
        heard = b""
        for at in range(0, len(data), 50_000):
            ws.socket.sendall(data[at:at + 50_000])
            while len(heard) < min(at + 50_000, len(data)):
                heard += ws.buffer or ws.socket.recv(65536)
                ws.buffer = b""
        assert heard == data
    box.program.heard("left", was + 1)


def test_a_websocket_that_is_refused(server, box):
    with WebSocket(server, box.at + "/echo") as ws:
        assert ws.status == 200  # the program's answer


def test_a_websocket_with_another_key(server, box):
    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n"
    with WebSocket(server, box.at + "/raw/" + answer.hex()) as ws:
        assert ws.status == 502


# --- who may ask -----------------------------------------------------------------------------------------------


def test_tokens(guarded, tenant):
    assert guarded.request("GET", tenant.at + "/echo")[0] == 401
    assert guarded.request("GET", tenant.at + "/echo", headers={"Authorization": f"Bearer {BOB}"})[0] == 404
    assert tenant.own_request("/echo")[0] == 401
    assert tenant.own_request("/echo", headers={"Authorization": f"Bearer {BOB}"})[0] == 404
    basic = base64.b64encode(f"gb:{ALICE}".encode()).decode()
    for name, value in (("Authorization", f"Bearer {ALICE}"), ("Authorization", f"token {ALICE}"), ("Authorization", f"Basic {basic}"), ("X-API-KEY", ALICE),
                        ("X-Access-Token", ALICE)):
        for answer in (guarded.request("GET", tenant.at + "/echo", headers={name: value, "Referer": f"http://x/?token={ALICE}"}),
                       tenant.own_request("/echo", headers={name: value, "Referer": f"http://x/?token={ALICE}"})):
            assert answer[0] == 200
            assert ALICE.encode() not in answer[2] and basic.encode() not in answer[2]  # the program does not hear it


def test_a_token_in_the_address_is_no_token_here(guarded, tenant):
    """A program would see it."""
    assert guarded.request("GET", tenant.at + f"/echo?token={ALICE}")[0] == 401


def test_without_tokens_credentials_are_the_program_s(box):
    asked = box.echoed(headers={"Authorization": "Bearer of-the-program", "X-API-KEY": "k"})
    assert of(asked, "Authorization") == ["Bearer of-the-program"] and of(asked, "X-API-KEY") == ["k"]


@pytest.mark.parametrize("headers,status", [({"Origin": "http://evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
                                            ({"Host": "evil.example"}, 421), ({"Host": "127.0.0.1.evil.example"}, 421), ({"Origin": "null"}, 403)])
def test_other_pages_may_not_ask_its_port(box, headers, status):
    assert box.own_request("/echo", headers=headers)[0] == status


@pytest.mark.parametrize("headers,status", [({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 421), ({"Origin": "null"}, 200)])
def test_other_pages_may_not_ask_its_path(box, headers, status):
    """A page of its own has no origin, and a path that nobody else knows."""
    assert box.ask("/echo", headers=headers)[0] == status


def test_a_page_of_its_own_may_not_ask_the_server(server, box):
    for path in ("/v1/boxes", box.path, box.at):
        assert server.request("GET", path, headers={"Origin": "null", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"})[0] == 403


def test_its_port_is_for_it_alone(box):
    """Whatever is asked there is the program's to answer."""
    for path in ("/v1/boxes", "/health", "/metrics", "/openapi.json", "/docs", "/mcp", "/"):
        assert json.loads(box.own_request(path)[2])["line"] == f"GET {path} HTTP/1.1"


def test_behind_a_proxy_without_tokens(box):
    assert box.ask("/echo", headers={"X-Forwarded-For": "1.2.3.4"})[0] == 403
    assert box.own_request("/echo", headers={"X-Forwarded-For": "1.2.3.4"})[0] == 403


def test_forwarded_headers_are_ours(guarded, tenant):
    asked = tenant.echoed(headers={"X-Forwarded-For": "1.2.3.4", "X-Forwarded-Prefix": "/elsewhere", "X-Real-IP": "1.2.3.4", "Forwarded": "for=1.2.3.4"})
    assert of(asked, "X-Forwarded-Prefix") == [tenant.at] and not of(asked, "X-Forwarded-For") and not of(asked, "Forwarded") and not of(asked, "X-Real-IP")


# --- a box without a network is one still --------------------------------------------------------------------


def test_nothing_gets_out_by_it(box):
    assert box.run("python3 -c 'import socket; socket.create_connection((\"198.18.0.5\", 80), 5)'")["exit_code"] != 0
    assert "unreachable" in box.run("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'")["stderr"]


def test_two_boxes_have_the_same_port(server, box):
    with Published(server, loopback=0) as other:
        assert other.port["loopback"] != box.port["loopback"]
        other.run("echo other > who")
        asked = other.echoed("/echo")
        assert asked["line"] == "GET /echo HTTP/1.1" and other.id in of(asked, "X-Forwarded-Prefix")[0]


def test_a_request_is_a_use(serve):
    with Published(serve(), idle_seconds=2) as box:
        with box.server.wire() as wire:
            wire.send(f"GET {box.at}/slow HTTP/1.1\r\nHost: {box.server.authority}\r\n\r\n".encode())
            wire.line()
            box.program.tell("")
            assert box.get()[0] == 200


# --- a gate that dies ------------------------------------------------------------------------------------------


def test_it_outlives_a_gate(serve):
    server = serve()
    with Published(server, loopback=0) as box:
        with server.wire() as wire:
            wire.send(f"GET {box.at}/mute HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
            box.program.heard("asked")
            server.next_gate(server.kill_gate())
            box.program.heard("left")
        assert server.call("GET", f"{box.path}/ports") == (200, {"published_ports": [box.port]})
        assert box.echoed()["size"] == 0
        assert json.loads(box.own_request("/echo")[2])["size"] == 0
        assert server.call("DELETE", f"{box.path}/ports/{PORT}")[0] == 204
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", box.port["loopback"]), 60)


def test_in_the_audit(serve, tmp_path):
    server = serve(audit_file=tmp_path / "audit")
    with Box(server) as box:
        server.call("POST", f"{box.path}/ports", {"port": 80, "loopback": 0})
        server.call("DELETE", f"{box.path}/ports/80")
        want = [("port_published", box.id, "80"), ("port_withdrawn", box.id, "80")]
        until(lambda: [(e["event"], e["box"], e["port"]) for e in audit_of(tmp_path / "audit") if e["event"].startswith("port_")] == want, "both are told")
