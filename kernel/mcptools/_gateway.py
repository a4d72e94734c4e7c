# SPDX-License-Identifier: Apache-2.0
"""The way out of a box to the tools that it may call: a socket of its own. Who is at the other end knows which box this is, has the servers and
their secrets, and refuses what the box may not call.

Requests are HTTP. A connection has one at a time; several threads have several connections.
"""
import json
import os
import select
import socket
import threading
import urllib.parse

SOCKET = "/run/glovebox/tools.sock"

_idle = []
_lock = threading.Lock()


class GatewayError(Exception):
    """There was no answer, or it was a refusal: `kind` says which (denied, unknown, timeout, failed, busy, rate, refused, rejected, …)."""

    def __init__(self, text, kind="failed"):
        super().__init__(text)
        self.kind = kind


def _connect():
    """One that nobody uses, or another one."""
    with _lock:
        while _idle:
            pid, sock = _idle.pop()
            if pid == os.getpid() and not select.select([sock], [], [], 0)[0]:
                return sock
            sock.close()  # of a process that has forked us, or closed by the other side
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(SOCKET)
    except OSError as e:
        sock.close()
        raise GatewayError(f"this box may call no tools of MCP servers ({e.strerror})", "none") from None
    return sock


def _answer(sock):
    data = bytearray()
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            raise GatewayError("the call was lost: there is no answer", "lost")
        data += piece
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    pieces, have = [body], len(body)
    while have < length:
        piece = sock.recv(min(length - have, 1 << 20))
        if not piece:
            raise GatewayError("the call was lost: the answer is not whole", "lost")
        pieces.append(piece)
        have += len(piece)
    return int(lines[0].split()[1]), b"".join(pieces), not any(line.lower() == b"connection: close" for line in lines)


def request(method, path, value=None):
    """Status and body."""
    body = b"" if value is None else json.dumps(value).encode()
    sock = _connect()
    try:
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        status, answer, keep = _answer(sock)
    except BaseException as e:
        sock.close()
        if isinstance(e, OSError):
            raise GatewayError(f"the call was lost: {e.strerror}", "lost") from None
        raise
    if keep:
        with _lock:
            _idle.append((os.getpid(), sock))
    else:
        sock.close()
    return status, answer


def _refusal(answer):
    try:
        said = json.loads(answer)
        error = said["error"]
        if isinstance(error, dict):
            return GatewayError(error["message"], error["code"])
        return GatewayError(error, said.get("type", "failed"))
    except (ValueError, KeyError, TypeError):
        return GatewayError(answer.decode(errors="replace")[:200])


def get(path, **query):
    status, answer = request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""))
    if status != 200:
        raise _refusal(answer)
    return answer


def call(server, tool, arguments):
    """The result, as the protocol has it."""
    status, answer = request("POST", "/call", {"server": server, "tool": tool, "arguments": arguments})
    if status != 200:
        raise _refusal(answer)
    return json.loads(answer)["result"]


def servers():
    """Names of those of which this box may call something."""
    try:
        return json.loads(get("/tools"))["servers"]
    except GatewayError as e:
        if e.kind == "none":
            return []
        raise


def tools(server):
    """[{"module": …, "tool": {"name", "description", "inputSchema", …}}]"""
    return json.loads(get("/tools", server=server))["tools"]
