# SPDX-License-Identifier: Apache-2.0
"""`glovebox mcp` as a client of MCP has it: a process that takes lines and says lines. And a server for it to talk to: the
fixture server for messages, with somebody in front of it who has boxes and files, writes down what came, and answers as a test wants.
"""
import contextlib
import itertools
import json
import os
import queue
import re
import signal
import socket
import subprocess
import threading

import pytest

from between import HANGS, Between, read_request
from conftest import program_path
from server import WAIT_S, environment, until

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
NAMES = ["upload_file", "download_file"]


def meta(**more):
    """_meta of a request of the modern era."""
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": {}, META + "clientInfo": {"name": "test", "version": "1"}, **more}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def alone(folder, **more):
    """An environment in which no server is found."""
    return environment({"HOME": str(folder), "TMPDIR": str(folder), "GLOVEBOX_LISTEN": f"unix:{folder}/nobody", **more})


class Client:
    """One connection. Every line that it says must be one message."""

    def __init__(self, start, *words, **kw):
        self.process = start("mcp", *words, **kw)
        self.numbers = itertools.count(1)
        self.came = queue.Queue()
        self.others = []  # what came while something else was waited for
        self.errors = b""
        self.readers = [threading.Thread(target=self.read), threading.Thread(target=self.read_errors)]
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            self.came.put(line)
        self.came.put(None)

    def read_errors(self):
        self.errors = self.process.stderr.read()

    def raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, params=None, **more):
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params}), **more}).encode() + b"\n")

    def ask(self, method, params=None):
        """Without waiting for the answer; its id."""
        number = next(self.numbers)
        self.send(method, params, id=number)
        return number

    def next(self):
        """The next message."""
        line = self.came.get(timeout=WAIT_S)
        assert line is not None, "it has ended"
        assert line.endswith(b"\n") and line.count(b"\n") == 1, line
        return json.loads(line)

    def answer(self, number):
        for i, message in enumerate(self.others):
            if message.get("id") == number and "method" not in message:
                return self.others.pop(i)
        while True:
            message = self.next()
            if message.get("id") == number and "method" not in message:
                return message
            self.others.append(message)

    def call(self, method, params=None):
        """The result of a request that must succeed."""
        answer = self.answer(self.ask(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method, params=None):
        answer = self.answer(self.ask(method, params))
        assert "error" in answer, answer
        return answer["error"]

    def modern(self, method, params=None):
        return self.call(method, {**(params or {}), "_meta": meta()})

    def tool(self, name, **arguments):
        return self.call("tools/call", {"name": name, "arguments": arguments})

    def hello(self, version="2025-11-25", **capabilities):
        result = self.call("initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}})
        self.send("notifications/initialized")
        return result

    def await_other(self, method):
        for i, message in enumerate(self.others):
            if message.get("method") == method:
                return self.others.pop(i)
        while True:
            message = self.next()
            if message.get("method") == method:
                return message
            self.others.append(message)

    def end(self, how=None):
        """How it ends, by itself or by a signal: (status, what it said to people). Nothing comes that was not asked for."""
        if how is not None:
            self.process.send_signal(how)
        else:
            self.process.stdin.close()
        status = self.process.wait(WAIT_S)
        for reader in self.readers:
            reader.join(WAIT_S)
        return status, self.errors.decode()

    def rest(self):
        """Messages that nobody has waited for, after the end."""
        while (line := self.came.get(timeout=WAIT_S)) is not None:
            self.others.append(json.loads(line))
        return self.others


@pytest.fixture
def client(start):
    """client(OPTIONS…): a connection, ended with the test."""
    made = []

    def call(*words, **kw):
        made.append(Client(start, *words, **kw))
        return made[-1]

    yield call
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()
        for reader in one.readers:
            reader.join()


# --- a server ------------------------------------------------------------------------------------------------


class Fixture:
    """build/fixture-server: MCP, and nothing else."""

    def __init__(self):
        self.port = free_port()
        self.process = None

    def start(self):
        program = program_path().parent / "fixture-server"
        if not os.access(program, os.X_OK):
            pytest.fail(f"{program} is not there: run 'make build' first")
        self.process = subprocess.Popen([program], env=environment({"PORT": str(self.port)}), stderr=subprocess.PIPE)
        assert b"/mcp" in self.process.stderr.readline()

    def stop(self):
        self.process.send_signal(signal.SIGKILL)  # it knows no other end
        self.process.wait()
        self.process.stderr.close()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), WAIT_S)


class Request:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ", 2)
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        self.head, self.body = head, body
        self.message = None
        if self.path == "/mcp" and body:
            self.message = json.loads(body)

    def __repr__(self):
        return f"{self.method} {self.path} {self.headers} {self.body[:200]!r}"


def reply(status, body=b"", kind="application/json", **headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} So\r\nContent-Type: {kind}\r\n{more}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def events(*data):
    """A stream with these texts as data of events, each as it is."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + b"".join(b"data: %s\n\n" % text for text in data)


class Front(Between):
    """Has boxes and files, and passes messages on. rule(request) is asked first, as in between.py."""

    def __init__(self, server, rule=None):
        super().__init__(server)
        self.rule_of_test = rule or (lambda _: None)
        self.requests, self.boxes, self.files, self.made = [], {}, {}, 0
        self.changed = threading.Lock()

    def __exit__(self, *_):
        """Also of what begins at this moment: clients end after us."""
        self.go.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            while thread.is_alive():
                self.cut()
                thread.join(0.02)

    def pass_on(self, client):
        request = Request(*read_request(client))
        self.requests.append(request)
        way = self.rule_of_test(request)
        if way is None and request.path.startswith("/v1/"):
            with self.changed:
                way = self.own(request)
        if isinstance(way, bytes):
            client.sendall(way)
            return
        if way == HANGS:
            while not self.go.wait(0.02):
                with contextlib.suppress(BlockingIOError):
                    if client.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) == b"":
                        return
            return
        with contextlib.closing(self.server.connect()) as upstream:
            with self.lock:
                self.open.add(upstream)
            try:
                upstream.sendall(request.head + request.body)
                watch = threading.Thread(target=self.leave, args=(client, upstream))
                watch.start()
                self.answer(client, upstream, way)
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                watch.join()
            finally:
                with self.lock:
                    self.open.discard(upstream)

    def leave(self, client, upstream):
        """Who leaves has left on the other side, too."""
        with contextlib.suppress(OSError):
            client.recv(1)
        with contextlib.suppress(OSError):
            upstream.shutdown(socket.SHUT_RDWR)

    def own(self, request):
        missing = reply(404, {"error": {"code": "not_found", "message": "it does not exist"}})
        if (request.method, request.path) == ("POST", "/v1/boxes"):
            self.made += 1
            box = f"box-{self.made}"
            self.boxes[box] = json.loads(request.body)
            return reply(201, {"id": box, "ttl_seconds": 3600, "idle_seconds": 0})
        found = re.fullmatch(r"/v1/boxes/([^/]+)(?:/files/(.+))?", request.path)
        if not found or found[1] not in self.boxes:
            return missing
        box, path = found[1], found[2]
        if path is None:
            if request.method == "DELETE":
                del self.boxes[box]
                return b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
            return reply(200, {"id": box, "ttl_seconds": 3600, "idle_seconds": 0})
        if request.method == "PUT":
            self.files[path] = request.body
            return reply(201, {"path": path})
        return reply(200, self.files[path], "application/octet-stream") if path in self.files else missing

    def messages(self, method=None):
        """Those that were posted to /mcp."""
        return [r for r in self.requests if r.message is not None and (method is None or r.message.get("method") == method)]

    def await_request(self, method, path, what=None):
        return until(lambda: [r for r in self.requests if (r.method, r.path) == (method, path)], what or f"{method} {path}")[-1]
