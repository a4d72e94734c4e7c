# SPDX-License-Identifier: Apache-2.0
"""Somebody between a client and its server, who passes on what comes, or does not: answers that are lost, late, or another's.

A rule is asked for every request: rule(method, path, body) returns None (it is passed on), or what becomes of it:
an answer in bytes, LOST, HANGS, HEAD_ONLY. Every connection is for one request, or for a WebSocket.
"""
import contextlib
import socket
import threading

LOST = "the server gets it, the client no answer"
HANGS = "nobody gets it, and the connection stays until `go` is set"
HEAD_ONLY = "the head of the answer comes, and its body when `go` is set"


def refusal(status, code="unschedulable"):
    """An answer such as a server gives that cannot now."""
    body = b'{"error": {"code": "%s", "message": "not now"}}' % code.encode()
    return b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


class Between:
    def __init__(self, server, rule=None):
        self.server, self.rule = server, rule or (lambda *_: None)
        self.seen = []  # (method, path, body) in the order in which they came
        self.go = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open, self.lock, self.threads = set(), threading.Lock(), []

    def __enter__(self):
        self.threads.append(threading.Thread(target=self.accept))
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        self.go.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()
        for thread in self.threads:
            thread.join()

    def cut(self):
        """Every connection that there is."""
        with self.lock:
            for s in self.open:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self.serve, args=(client,))
            self.threads.append(thread)
            thread.start()

    def serve(self, client):
        with client, contextlib.suppress(OSError, ValueError):
            with self.lock:
                self.open.add(client)
            try:
                self.pass_on(client)
            finally:
                with self.lock:
                    self.open.discard(client)

    def pass_on(self, client):
        head, body = read_request(client)
        method, path = head.split(b" ", 2)[:2]
        request = (method.decode(), path.decode(), body)
        self.seen.append(request)
        way = self.rule(*request)
        if isinstance(way, bytes):
            client.sendall(way)
            return
        if way == HANGS:
            self.go.wait()
            return
        with contextlib.closing(self.server.connect()) as upstream:
            with self.lock:
                self.open.add(upstream)
            try:
                if b"\r\nupgrade: websocket\r\n" in head.lower():
                    upstream.sendall(head)
                    back = threading.Thread(target=pump, args=(client, upstream))
                    back.start()
                    pump(upstream, client)
                    back.join()
                else:
                    upstream.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
                    self.answer(client, upstream, way)
            finally:
                with self.lock:
                    self.open.discard(upstream)

    def answer(self, client, upstream, way):
        held = b""
        while data := upstream.recv(65536):
            if way == LOST:
                continue
            if way == HEAD_ONLY:
                held += data
                end = held.find(b"\r\n\r\n") + 4
                if end < 4:
                    continue
                client.sendall(held[:end])
                self.go.wait()
                data, way = held[end:], None
            client.sendall(data)


def pump(source, to):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            to.sendall(data)
    with contextlib.suppress(OSError):
        to.shutdown(socket.SHUT_RDWR)


def read_request(client):
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65536)
        if not more:
            raise ValueError("it has ended")
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < (lengths[0] if lengths else 0):
        more = client.recv(65536)
        if not more:
            raise ValueError("it has ended")
        body += more
    return head + b"\r\n\r\n", body
