# SPDX-License-Identifier: Apache-2.0
"""Sessions of a running server: boxes of /v1/boxes with cells in them. One at a time by hand, many or fast ones by load.c.

Everything here is probed before anything is measured: a server that answers 404 to a call does not have it (NotThere).
"""
import base64
import contextlib
import json
import os
import re
import socket
import time

from . import launch, server
from .server import DoesNotWork, NotThere, connect, exchange, request

CREATE = request("POST", "/v1/boxes", {})
ID = re.compile(rb'"id":\s*"([^"]+)"')
END = re.compile(rb'"\w+":\s*"end"')
OK = '"status":"ok"'
MCP_OK = '"content":[{"type":"text","text":""}]'
HOT_CODE = "x = 1"
# Sessions that nobody waits for are made by this many connections, so many at a time; then is looked how much memory is left.
MAKERS, PORTION = 4, 100
MEMORY_LEFT = 2 << 30
PROBE_S = 10


def cell_request(code, box="{id}"):
    return request("POST", f"/v1/boxes/{box}/cells", {"code": code})


def mcp_request(code, box):
    """The same by MCP, in the era without sessions."""
    version, tool = "2026-07-28", "execute_ipython_cell"
    meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
    return request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": {"code": code}, "_meta": meta}},
        {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": tool, "Glovebox-Box": box, "Accept": "application/json, text/event-stream"})


def refused(what, status, body):
    """What to raise: a route that is not there is no failure."""
    said = f"{what} answers {status}"
    return NotThere(said) if status in (404, 405) else DoesNotWork(f"{said}: {body[:150].decode(errors='replace')}")


def wrong_cell(status, body, expect):
    if status != 200:
        return f"cell: status {status}: {body[:150].decode(errors='replace')}"
    answer = json.loads(body)
    if answer.get("status") != "ok" or answer.get("stdout") != expect.decode():
        return f"cell: answered {body[:150].decode(errors='replace')}"
    return None


def create(connection):
    status, body = exchange(connection, CREATE)
    if status != 201:
        raise refused("POST /v1/boxes", status, body)
    return json.loads(body)["id"]


def delete(connection, box):
    return exchange(connection, request("DELETE", f"/v1/boxes/{box}"))


def probe(port, work):
    """A session with one cell, to see that there is such a thing."""
    with connect(port) as connection:
        box = create(connection)
        status, body = exchange(connection, cell_request(work.text, box))
        if status != 200:
            raise refused("POST /v1/boxes/{id}/cells", status, body)
        wrong = wrong_cell(status, body, work.expect)
        delete(connection, box)
    if wrong:
        raise DoesNotWork(wrong)


# --- a WebSocket, as far as a probe needs one -------------------------------------------------------------------


def frame(text):
    """A short text of a client, masked with nothing."""
    data = text.encode()
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return b"\x81" + size + bytes(4) + data


def frames(stream):
    """Payloads of what a server says."""
    while len(head := stream.read(2)) == 2:
        size = head[1] & 0x7F
        if size >= 126:
            size = int.from_bytes(stream.read(2 if size == 126 else 8), "big")
        yield stream.read(size)


def probe_stream(port, path, message):
    """How the last message about a cell is told from others: a piece of its text."""
    with connect(port) as connection:
        connection.settimeout(PROBE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall((f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        stream = connection.makefile("rb")
        status = int(stream.readline()[9:12] or b"0")
        while stream.readline() not in (b"\r\n", b""):
            pass
        if status != 101:
            raise refused("GET /v1/boxes/{id}/stream", status, b"")
        connection.sendall(frame(message))
        said = []
        with contextlib.suppress(socket.timeout):
            for text in frames(stream):
                said.append(text)
                if (end := END.search(text)) and OK.encode() in text:
                    return end[0].decode()
    raise DoesNotWork(f"no end of a cell on /v1/boxes/{{id}}/stream: {b' '.join(said)[-200:].decode(errors='replace')}")


# --- inside a launcher ------------------------------------------------------------------------------------------


def ask_session(cell, expect, rest, outcome, new=CREATE):
    """One new session, from the first byte of the request for it to the last of the answer of its first cell."""
    asker = server._asker
    try:
        asker.wake()
        start = time.perf_counter_ns()
        status, body = exchange(asker.connection, new)
        made = time.perf_counter_ns() - start
        found = ID.search(body)
        if status != 201 or not found:
            return launch.Run(made, f"new session: status {status}: {body[:150].decode(errors='replace')}")
        status, body = exchange(asker.connection, cell.replace(b"{id}", found[1]))
        ns = time.perf_counter_ns() - start
        wrong = wrong_cell(status, body, expect)
        delete(asker.connection, found[1].decode())
        came = asker.after(rest, outcome)
    except OSError as e:
        return launch.Run(0, f"no answer: {e}")
    return launch.Run(ns, wrong or came, parts={"of which POST /v1/boxes": made})


# --- a server with sessions ---------------------------------------------------------------------------------------


def known(ctx, options):
    """Options and their values, without those that this build does not have: they are said aloud."""
    kept = []
    for name, value in zip(options[::2], options[1::2]):
        if server.has_option(ctx, name):
            kept += [name, value]
        else:
            ctx.warn(f"NOT THERE: serve has no {name}; measured without")
    return tuple(kept)


class Sessions:
    """What can be asked of a running server about sessions; `work` is the first cell of each."""

    def __init__(self, ctx, running, work, outcome=None):
        self.ctx, self.server, self.work, self.outcome = ctx, running, work, outcome
        probe(running.port, work)
        running.await_rest()
        self.live, self.launcher = 0, launch.Launcher()
        self.launcher.call(server.keep_connection, running.port)
        self.create = server.request_file(ctx, CREATE)
        self.cell = server.request_file(ctx, cell_request(work.text))
        self.answer = f'"stdout":{json.dumps(work.expect.decode())}'
        self.hot = None

    def once(self):
        return self.launcher.call(ask_session, cell_request(self.work.text), self.work.expect, self.server.rest,
                                  self.outcome)

    def make(self, total, at_once, end):
        """New sessions by load.c: what it says."""
        figures, _ = server.load(self.ctx, "sessions", self.server.port, self.create, self.cell, self.answer, total,
                                 at_once, end)
        return figures

    def burst(self, number):
        figures = self.make(number, number, "delete")
        self.server.await_rest()
        return figures

    def grow_to(self, number):
        """So many sessions that stay; OSError where one failed or memory gets short."""
        while self.live < number:
            if server.available_memory() < MEMORY_LEFT:
                raise OSError(f"memory gets short at {self.live} sessions")
            figures = self.make(min(PORTION, number - self.live), MAKERS, "keep")
            self.live += figures["count"]
            if figures["failed"]:
                raise OSError(f"at {self.live} sessions: {figures['error']}")
        self.server.settle()

    # One session whose cells are timed.

    def hot_box(self, way):
        """Words for load.c: HOT_CODE over and over, in a session that is there."""
        if self.hot is None:
            with connect(self.server.port) as connection:
                self.hot = create(connection)
                status, body = exchange(connection, cell_request(HOT_CODE, self.hot))
                if wrong := wrong_cell(status, body, b""):
                    raise DoesNotWork(wrong)
            self.server.settle()
        if way == "http":
            return ["rate", self.server.port, server.request_file(self.ctx, cell_request(HOT_CODE, self.hot)), OK, 1]
        if way == "mcp":
            return ["rate", self.server.port, server.request_file(self.ctx, mcp_request(HOT_CODE, self.hot)), MCP_OK, 1]
        path, message = f"/v1/boxes/{self.hot}/stream", json.dumps({"op": "cell", "ref": "1", "code": HOT_CODE})
        end = probe_stream(self.server.port, path, message)
        return ["socket", self.server.port, path, server.request_file(self.ctx, message.encode()), end, OK]

    def close(self):
        self.launcher.close()


class SessionPeer(server.ServerPeer):
    """A server, asked for sessions. `fields` say the way of a hot cell: http, socket or mcp."""

    def open(self, ctx, work):
        return OpenedSessions(self, ctx, work)


class OpenedSessions(Sessions):
    def __init__(self, peer, ctx, work):
        running = server.Server(ctx, known(ctx, peer.options))
        try:
            super().__init__(ctx, running, work, peer.outcome)
            way = peer.fields.get("way")
            self.words = self.hot_box(way) if way else None
        except (DoesNotWork, OSError, ValueError, KeyError) as e:
            running.stop()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"the server does not answer: {e}") from e
        self.shown = f"{running.shown}, POST /v1/boxes {{}}, " + (
            f"POST /mcp tools/call execute_ipython_cell {json.dumps({'code': work.text})}" if way == "mcp" else
            f"WebSocket …/stream, op cell, code {work.text!r}" if way == "socket" else
            f"POST …/cells {json.dumps({'code': work.text})}")
        self.burst_size, self.most_bursts = 100, None

    def cells(self, milliseconds):
        """Times of hot cells, one after the other, and failures: (ns, failed, error)."""
        tail = (milliseconds, 1) if self.words[0] == "rate" else (milliseconds,)
        figures, _ = server.load(self.ctx, *self.words, *tail)
        return figures["ns"], figures["failed"], figures["error"]

    def close(self):
        super().close()
        self.server.stop()


class IdlePeer(server.ServerPeer):
    """A server that is started anew for every measurement of what its sessions occupy."""

    def open(self, ctx, work):
        return OpenedIdle(self, ctx, work)


class OpenedIdle:
    def __init__(self, peer, ctx, work):
        self.ctx, self.work, self.options = ctx, work, known(ctx, peer.options)
        self.size, self.quick_size = 1000, 50
        running = server.Server(ctx, self.options)
        try:
            probe(running.port, work)
        finally:
            running.stop()
        self.shown = f"{running.shown}, POST /v1/boxes {{}}, POST …/cells {json.dumps({'code': work.text})}"

    def occupy(self, number):
        """What sessions occupy, each after one cell, in bytes of all: (of the machine, {role: of it})."""
        running = server.Server(self.ctx, self.options)
        try:
            sessions = Sessions(self.ctx, running, self.work)
            try:
                before = server.available_memory()
                sessions.grow_to(number)
                after = server.available_memory()
                roles = {role: (server.memory_kib(pid) - running.base_kib[role]) * 1024
                         for role, pid in running.pids.items()}
            finally:
                sessions.close()
        finally:
            running.stop()
        return before - after, roles

    def close(self):
        pass
