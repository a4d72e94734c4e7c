# SPDX-License-Identifier: Apache-2.0
"""`glovebox tools` with servers over HTTP that misbehave, both kinds of HTTP; and what it does where it meets nothing of the kind."""
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import program_path
from server import SANITIZED, until

pytestmark = pytest.mark.more

MEMORY = 512 << 20
TOOL = {"name": "do", "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}}
FINE = {"content": [{"type": "text", "text": "fine"}]}
STREAM = "Content-Type: text/event-stream"


class Server:
    """Raw HTTP. `call`: what happens to tools/call; it gets the connection and the message. `before`: the same for anything; true: that was it."""

    def __init__(self, call=None, before=None, modern=False, session=None, get=None):
        self.call, self.before, self.modern, self.session, self.get = call, before, modern, session, get
        self.heard, self.lost = [], threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.over = False
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        while not self.over:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            if self.over:
                connection.close()
                return
            connection.settimeout(30)
            thread = threading.Thread(target=self.serve, args=(connection,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as f:
                method, target, _ = f.readline().decode().split()
                headers = {}
                while (line := f.readline().decode().strip()):
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                body = f.read(int(headers.get("content-length", 0)))
                message = json.loads(body) if body else None
                self.heard.append((method, target, headers, message))
                if not (self.before and self.before(connection, method, target, message)):
                    self.answer(connection, method, message)
        except (OSError, ValueError):
            self.lost.set()

    def answer(self, c, method, message):
        if method == "GET" and self.get:
            return self.get(c)
        if method != "POST":
            return reply(c, "", status="200 OK" if method == "DELETE" else "405 No")
        asked, number = message.get("method"), message.get("id")
        if asked == "tools/call" and self.call:
            return self.call(c, message)
        if number is None:
            return reply(c, "", status="202 Accepted")
        if asked == "server/discover" and self.modern:
            return result(c, number, {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}})
        if asked == "initialize":
            more = [f"Mcp-Session-Id: {self.session}"] if self.session else []
            return result(c, number, {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "bad", "version": "1"}}, *more)
        if asked == "tools/list":
            return result(c, number, {"tools": [TOOL]})
        if asked == "tools/call":
            return result(c, number, FINE)
        return reply(c, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "?"}}, status="404 Not Found")

    def methods(self):
        return [message.get("method") if message else method for method, _, _, message in self.heard]

    def end(self):
        self.over = True
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            pass
        self.listener.close()
        for thread in self.threads:
            thread.join(35)


def reply(c, body, *headers, status="200 OK", kind="application/json"):
    text = body if isinstance(body, str) else json.dumps(body)
    c.sendall("\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(text.encode())}", *headers, "", text]).encode())


def result(c, number, value, *headers):
    reply(c, {"jsonrpc": "2.0", "id": number, "result": value}, *headers)


def stream(c):
    c.sendall(f"HTTP/1.1 200 OK\r\n{STREAM}\r\n\r\n".encode())


def event(c, message, *lines):
    c.sendall(("".join(f"{line}\n" for line in lines) + f"data: {json.dumps(message)}\n\n").encode())


@pytest.fixture
def serve():
    started = []

    def it(*args, **kw):
        started.append(Server(*args, **kw))
        return started[-1]
    yield it
    for one in started:
        one.end()


@pytest.fixture
def call(run):
    def it(url, *words):
        return run("tools", "call", url, "do", *words, preexec_fn=None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)))
    return it


# --- as it should be --------------------------------------------------------------------------------------------------


def test_the_legacy_era(serve, call):
    server = serve(session="s-1")
    got = call(server.url + "?a=b#c", "--header", "X-Key: v")
    assert (got.returncode, got.stdout, got.stderr) == (0, b"fine\n", b"")
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "GET", "tools/list", "tools/call", "DELETE"]
    assert {target for _, target, _, _ in server.heard} == {"/mcp?a=b"}
    for method, _, headers, message in server.heard:
        asked = message.get("method") if message else None
        assert headers["x-key"] == "v" and headers["host"] == f"127.0.0.1:{server.port}"
        assert headers.get("mcp-session-id") == (None if asked in ("server/discover", "initialize") else "s-1")
        assert headers.get("mcp-protocol-version") == {"server/discover": "2026-07-28", "initialize": None}.get(asked, "2025-06-18")
        assert "mcp-method" not in headers or asked == "server/discover"
        if method == "POST":
            assert headers["accept"] == "application/json, text/event-stream" and headers["content-type"] == "application/json"


def test_the_modern_era(serve, call):
    server = serve(modern=True, session="ignored")
    got = call(server.url, "region=Zürich ")
    assert (got.returncode, got.stdout, got.stderr) == (0, b"fine\n", b"")
    assert server.methods() == ["server/discover", "tools/list", "tools/call"]
    headers = server.heard[-1][2]
    assert (headers["mcp-method"], headers["mcp-name"], headers["mcp-param-region"]) == ("tools/call", "do", "=?base64?WsO8cmljaCA=?=")
    assert "mcp-session-id" not in headers


def test_an_answer_on_a_stream(serve, call):
    def on_call(c, message):
        stream(c)
        c.sendall(b": hello\n\nevent: other\ndata: 5\n\nid: 1\nretry: 1\ndata: \n\n")
        event(c, {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": message["id"], "progress": 1}})
        event(c, {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"requestedSchema": {"properties": {"a": {"default": 5}}}}})
        until(lambda: server.methods().count(None) == 1, "it is answered")
        event(c, {"jsonrpc": "2.0", "id": message["id"], "result": FINE})
    server = serve(on_call)
    for options, answer in {(): {"action": "decline"}, ("--accept",): {"action": "accept", "content": {"a": 5}}}.items():
        server.heard.clear()
        got = call(server.url, *options)
        assert (got.returncode, got.stdout) == (0, b"fine\n"), got
        assert [message for _, _, _, message in server.heard if message and "method" not in message] == [{"jsonrpc": "2.0", "id": "q", "result": answer}]


def test_a_stream_that_is_resumed(serve, call):
    def on_call(c, message):
        server.number = message["id"]
        stream(c)
        c.sendall(b"id: e-1\nretry: 30\ndata: \n\nid: half\ndata: 1\n")

    def on_get(c):
        if "last-event-id" not in server.heard[-1][2]:
            return reply(c, "", status="405 No")
        stream(c)
        if server.heard[-1][2]["last-event-id"] == "e-1":
            return c.sendall(b"id: e-2\ndata: \n\n")
        return event(c, {"jsonrpc": "2.0", "id": server.number, "result": FINE})
    server = serve(on_call, get=on_get)
    got = call(server.url)
    assert (got.returncode, got.stdout) == (0, b"fine\n"), got
    assert [headers.get("last-event-id") for method, _, headers, _ in server.heard if method == "GET"] == [None, "e-1", "e-2"]


def test_an_interrupt_cancels_the_call(serve, start):
    def on_call(c, _):
        stream(c)
        c.recv(1)
        server.lost.set()
    for modern in (False, True):
        server = serve(on_call, modern=modern, session="s")
        process = start("tools", "call", server.url, "do")
        until(lambda: "tools/call" in server.methods(), "it is called")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 128 + signal.SIGINT
        assert server.lost.wait(10)
        if modern:
            assert server.methods()[-1] == "tools/call"
        else:
            assert server.methods()[-2:] == ["notifications/cancelled", "DELETE"]


# --- the server half of ours ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fixture_server():
    process = subprocess.Popen([program_path().parent / "fixture-server"], env={**os.environ, "PORT": "0"}, stderr=subprocess.PIPE, text=True)
    try:
        yield process.stderr.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.parametrize("words, status, text", [
    (["test_simple_text"], 0, "This is a simple text response for testing.\n"),
    (["test_error_handling"], 1, "This tool intentionally returns an error for testing\n"),
    (["test_tool_with_progress"], 0, "Tool with progress completed\n"),
    (["test_embedded_resource"], 0, "[resource test://embedded-resource]\nThis is an embedded resource content.\n"),
    (["test_input_required_result_elicitation", "--accept"], 0, 'Hello: {"action":"accept","content":{}}\n'),
    (["test_input_required_result_multi_round"], 0, 'Both: {"action":"decline"}\n'),
    (["test_input_required_result_sampling"], 3, "wants 'sampling/createMessage'"),
    (["test_missing_capability"], 1, "(-32021)"), (["HEADER", "region=Zürich"], 0, "")])
def test_our_own_server(fixture_server, run, words, status, text):
    if words[0] == "HEADER":
        listed = json.loads(run("tools", "list", "--json", fixture_server).stdout)["tools"]
        [words[0]] = [tool["name"] for tool in listed if "x-mcp-header" in json.dumps(tool)]
    got = run("tools", "call", fixture_server, *words)
    assert got.returncode == status and (got.stdout.decode() == text if got.stdout and text else text in got.stderr.decode()), got


# --- what is no server of MCP ---------------------------------------------------------------------------------------


def test_redirects_are_not_followed(serve, call):
    other = serve()
    for status in (301, 302, 307, 308):
        server = serve(before=lambda c, *_, s=status: reply(c, "", f"Location: {other.url}", status=f"{s} There") or True)
        got = call(server.url)
        assert got.returncode == 3 and f"redirects to '{other.url}', which is not followed" in got.stderr.decode()
        assert len(server.heard) == 1 and other.heard == []


@pytest.mark.parametrize("status, text", [("401 No", "status 401"), ("403 No", "status 403"), ("404 No", "status 404"), ("500 No", "status 500"), ("204 No", "no answer to this")])
def test_a_server_that_refuses(serve, call, status, text):
    server = serve(before=lambda c, *_: reply(c, "<html>", status=status, kind="text/html") or True if "204" not in status else
                   c.sendall(b"HTTP/1.1 204 No\r\n\r\n") or True)
    got = call(server.url)
    assert got.returncode == 3 and text in got.stderr.decode(), got
    assert len(server.heard) == (1 if status[:3] in ("401", "403") else 2)


@pytest.mark.parametrize("data", [b"SSH-2.0-OpenSSH_9\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", b"\x00" * 100000, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20000],
                         ids=["another protocol", "nothing", "two lengths", "zeros", "a long head"])
def test_what_is_no_http(serve, call, data):
    server = serve(before=lambda c, *_: c.sendall(data) or True)
    got = call(server.url)
    assert got.returncode == 3 and got.stderr, got


@pytest.mark.parametrize("session", ["a b", "é", "x" * 300])
def test_sessions_that_can_be_none(serve, call, session):
    got = call(serve(session=session).url)
    assert got.returncode == 3 and b"session that can be none" in got.stderr


# --- servers that misbehave -----------------------------------------------------------------------------------------


def no_end(c, piece):
    while True:
        c.sendall(piece)


def slowly(c, text):
    for byte in text:
        c.sendall(bytes([byte]))
        time.sleep(0.2)


def many(c, text, total):
    for _ in range(total // len(text) + 1):
        c.sendall(text)


LONG = 70 << 20
WAYS = {
    "an endless stream of comments": (lambda c, m: (stream(c), no_end(c, b": still there\n\n" * 1000)), "in time"),
    "an endless stream of notifications": (lambda c, m: (stream(c), no_end(c, b'data: {"jsonrpc":"2.0","method":"x"}\n\n' * 1000)), "in time"),
    "an endless stream of junk": (lambda c, m: (stream(c), no_end(c, b"data: junk\n\n" * 1000)), "for nobody"),
    "an endless event": (lambda c, m: (stream(c), no_end(c, b"data: " + b"x" * 100000 + b"\n")), "more than 67108864 bytes"),
    "an endless line": (lambda c, m: (stream(c), no_end(c, b"x" * 100000)), "more than 67108864 bytes"),
    "a huge body": (lambda c, m: (c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n"), many(c, b" " * 100000, LONG)), "more than"),
    "a slow head": (lambda c, m: slowly(c, b"HTTP/1.1 200 OK\r\n" + b"a" * 1000), "in time"),
    "a slow stream": (lambda c, m: (stream(c), slowly(c, b"data: {" + b"a" * 1000)), "in time"),
    "another id": (lambda c, m: result(c, m["id"] + 1, FINE), "no answer to this request"),
    "an id that is a text": (lambda c, m: result(c, str(m["id"]), FINE), "no answer to this request"),
    "no result of a tool": (lambda c, m: result(c, m["id"], {"content": {}}), "no result of a tool"),
    "no JSON": (lambda c, m: reply(c, "{", status="200 OK"), "no answer to this request"),
    "another type": (lambda c, m: reply(c, json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": FINE}), kind="text/plain"), "no answer to this request"),
    "a list of messages": (lambda c, m: reply(c, [{"jsonrpc": "2.0", "id": m["id"], "result": FINE}]), "no answer to this request"),
    "a stream without an answer": (lambda c, m: stream(c), "ended without it"),
    "half a body": (lambda c, m: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"), "before its end"),
    "half a head": (lambda c, m: c.sendall(b"HTTP/1.1 200 OK\r\nContent-"), "no answer"),
    "nothing": (lambda c, m: None, "no answer"),
    "the session is over": (lambda c, m: reply(c, "", status="404 Gone"), "session is over"),
    "a stream that always ends": (lambda c, m: (stream(c), c.sendall(b"id: 1\nretry: 0\ndata: \n\n")), "cannot be had: status 405"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_makes_no_sense(serve, call, way):
    on_call, text = WAYS[way]
    got = call(serve(lambda c, m: on_call(c, m) and None, session="s").url, "--timeout", "2")
    assert got.returncode == 3 and text in got.stderr.decode() and got.stdout == b"", got


def test_a_get_stream_without_end_disturbs_nobody(serve, call):
    def on_get(c):
        stream(c)
        no_end(c, b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n' * 100)
    got = call(serve(get=on_get).url)
    assert (got.returncode, got.stdout) == (0, b"fine\n"), got


def test_a_get_stream_that_ends_again_and_again(serve, call):
    def on_call(c, message):
        until(lambda: server.methods().count("GET") == 6, "it has come back five times")
        result(c, message["id"], FINE)

    def on_get(c):
        stream(c)
        c.sendall(b"retry: 20\n\n")
    server = serve(on_call, get=on_get)
    assert call(server.url).stdout == b"fine\n"


def test_wrong_answers_on_the_get_stream(serve, call):
    def on_get(c):
        stream(c)
        for number in range(1, 9):
            event(c, {"jsonrpc": "2.0", "id": number + 100, "result": FINE})
        c.recv(1)
    assert call(serve(get=on_get).url).stdout == b"fine\n"


# --- the old HTTP+SSE -----------------------------------------------------------------------------------------------


def old(serve, endpoint, modify=lambda answers: answers):
    """A server of 2024-11-05: GET /sse, whose first event is `endpoint`, where PORT is its own; all answers are events."""
    held = {}

    def before(c, method, target, message):
        if method == "GET":
            held["stream"] = c
            stream(c)
            c.sendall(f"event: endpoint\ndata: {endpoint.replace('PORT', str(server.port))}\n\n".encode())
            c.recv(1)
            return True
        reply(c, "Accepted", status="202 Accepted", kind="text/plain")
        number, asked = message.get("id"), message.get("method")
        results = {"initialize": {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}},
                   "tools/list": {"tools": [TOOL]}, "tools/call": FINE}
        if asked in results:
            for one in modify([{"jsonrpc": "2.0", "id": number, "result": results[asked]}]):
                event(held["stream"], one, "event: message")
        return True
    server = serve(before=before)
    server.url = f"http://127.0.0.1:{server.port}/deep/sse"
    return server


@pytest.mark.parametrize("endpoint, target", [("/messages?sessionId=1", "/messages?sessionId=1"), ("messages", "/deep/messages"), ("?x", "/deep/?x"), ("http://127.0.0.1:PORT/m", "/m")])
def test_the_old_transport(serve, call, endpoint, target):
    server = old(serve, endpoint)
    got = call(server.url)
    assert (got.returncode, got.stdout) == (0, b"fine\n"), got
    assert server.methods() == ["GET", "initialize", "notifications/initialized", "tools/list", "tools/call"]
    assert {where for method, where, _, _ in server.heard if method == "POST"} == {target}


@pytest.mark.parametrize("where", ["http://127.0.0.1:OTHER/m", "https://127.0.0.1:PORT/m", "//127.0.0.1:OTHER/m", "http://localhost:PORT/m", "javascript:alert(1)",
                                   "http://x@127.0.0.1:PORT/m", "/a b", "/a\x7f"])
def test_the_old_transport_speaks_to_nobody_else(serve, call, where):
    other = serve()
    server = old(serve, where.replace("OTHER", str(other.port)))
    got = call(server.url)
    assert got.returncode == 3 and b"which is not itself" in got.stderr, got
    assert server.methods() == ["GET"] and other.heard == []


def test_the_old_transport_with_a_server_that_misbehaves(serve, call):
    wrong = [{"jsonrpc": "2.0", "id": 77, "result": FINE}, 5, None, {"jsonrpc": "2.0", "id": "x", "error": {}}]
    assert call(old(serve, "/m", lambda right: wrong + right + right).url).stdout == b"fine\n"
    got = call(old(serve, "/m", lambda right: []).url, "--timeout", "1")
    assert got.returncode == 3 and b"no answer to 'initialize' in time" in got.stderr
    got = call(serve(before=lambda c, *_: reply(c, "no", status="404 No") or True).url, "--sse")
    assert got.returncode == 3 and b"status 404, and no stream of events" in got.stderr
    got = call(serve(before=lambda c, *_: stream(c) or True).url, "--sse")
    assert got.returncode == 3 and b"has ended" in got.stderr
