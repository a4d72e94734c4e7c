# SPDX-License-Identifier: Apache-2.0
"""A program that listens in a box, one thread a connection. What it answers is in the path: it is the test that decides.

    /echo/…       what it was asked, as JSON: line, headers in order, size and hash of the body
    /raw/HEX      these bytes, and nothing else; then it closes
    /cut/HEX      these bytes, and then a reset
    /mute/…       nothing, until whoever asked is gone; then it says so on standard output
    /big/N        N bytes, with their length
    /endless/…    lines, as fast as they are taken
    /slow/…       events, one for each line that the test writes to its standard input
    /sink/…       it reads nothing of the body until the test writes a line to its standard input
    /early/…      the head of its answer, before it has read the body; nothing more until that is over
    /endless-head a head that has no end
    /ws/…         a WebSocket; every byte that comes behind the head goes back
"""
import base64
import hashlib
import json
import queue
import socket
import struct
import sys
import threading

lines = queue.Queue()


def say(*what):
    sys.stdout.write(" ".join(map(str, what)) + "\n")
    sys.stdout.flush()


class Gone(Exception):
    pass


class Client:
    def __init__(self, connection):
        self.c, self.buffer = connection, b""

    def fill(self):
        data = self.c.recv(65536)
        if not data:
            raise Gone
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line.decode("latin-1")

    def take(self, n, to):
        while n:
            if not self.buffer:
                self.fill()
            part, self.buffer = self.buffer[:n], self.buffer[n:]
            to(part)
            n -= len(part)

    def body(self, headers, to):
        found = {name.lower(): value for name, value in headers}
        if "transfer-encoding" in found:
            while size := int(self.line(), 16):
                self.take(size, to)
                self.line()
            while self.line():
                pass
        else:
            self.take(int(found.get("content-length", 0)), to)

    def answer(self, body, status="200 OK", more=""):
        self.c.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)


def echo(client, first, headers, _):
    size, digest = 0, hashlib.sha256()

    def take(part):
        nonlocal size
        size += len(part)
        digest.update(part)

    client.body(headers, take)
    client.answer(json.dumps({"line": first, "headers": headers, "size": size, "sha256": digest.hexdigest()}).encode(),
                  more="Content-Type: application/json\r\n")


def raw(client, first, headers, word):
    client.body(headers, lambda part: None)
    client.c.sendall(bytes.fromhex(word))


def cut(client, first, headers, word):
    raw(client, first, headers, word)
    client.c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def mute(client, *_):
    say("asked")
    try:
        while True:
            client.fill()
    except (Gone, OSError):
        say("left")


def big(client, first, headers, word):
    left = int(word)
    client.c.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
    block = bytes(range(256)) * 256
    while left:
        client.c.sendall(block[:left])
        left -= min(left, len(block))


def endless(client, *_):
    client.c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    sent = 0
    try:
        while True:
            sent += client.c.send(b"x" * 65536)
            if sent % (1 << 20) == 0:
                say("sent", sent)
    except OSError:
        say("left")


def slow(client, *_):
    client.c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    say("asked")
    while word := lines.get().strip():
        data = f"data: {word}\n\n".encode()
        client.c.sendall(b"%x\r\n%s\r\n" % (len(data), data))
    client.c.sendall(b"0\r\n\r\n")


def sink(client, first, headers, _):
    say("asked")
    lines.get()
    echo(client, first, headers, "")


def early(client, first, headers, _):
    client.c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    client.body(headers, lambda part: None)
    client.c.sendall(b"ok")


def endless_head(client, *_):
    client.c.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        client.c.sendall(b"y" * 1000)


def ws(client, first, headers, word):
    key = {name.lower(): value for name, value in headers}["sec-websocket-key"]
    accept = base64.b64encode(hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()).decode()
    client.c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n"
                     f"Sec-WebSocket-Protocol: {word or 'none'}\r\nX-Saw: {len(headers)}\r\n\r\n".encode())
    try:
        while True:
            if client.buffer:
                client.c.sendall(client.buffer)
                client.buffer = b""
            client.fill()
    except (Gone, OSError):
        say("left")


def serve(connection):
    client = Client(connection)
    try:
        first, headers = client.line(), []
        while line := client.line():
            name, _, value = line.partition(": ")
            headers.append((name, value))
        parts = first.split(" ")[1].split("?")[0].split("/")
        {"echo": echo, "raw": raw, "cut": cut, "mute": mute, "big": big, "endless": endless, "slow": slow, "sink": sink, "early": early, "endless-head": endless_head,
         "ws": ws}.get(
            parts[1], echo)(client, first, headers, parts[2] if len(parts) > 2 else "")
    except (Gone, OSError):
        pass
    finally:
        connection.close()


def read_lines():
    for line in sys.stdin:
        lines.put(line)


family, address, port = (socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET), sys.argv[1], int(sys.argv[2])
s = socket.socket(family)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((address, port))
s.listen(200)
threading.Thread(target=read_lines, daemon=True).start()
say("listens")
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
