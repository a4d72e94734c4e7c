# SPDX-License-Identifier: Apache-2.0
"""A client of MCP servers for code in a box: a connection per call, as ipybox has it; nothing but the standard library.

    run_sync("tool", {"a": 1}, {"command": "uvx", "args": ["server"]})
    await run_async("tool", {"a": 1}, {"url": "http://host/mcp"})

A server with "command" is started inside this box, as a child; one with "url" is reached over whatever network the box has. As a program
(`python3 run.py list`, server_params as JSON on standard input) it prints the tools of a server. What a server says is not trusted: lines and
bodies have bounds, waiting has a limit.
"""
import asyncio
import contextlib
import functools
import http.client
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
LINE_MAX = 64 << 20
PAGES_MAX = 1000
CONNECT_S = 5
CALL_S = 3600
END_S = 2


class McpError(Exception):
    """The server refused, or did not keep to the protocol; `lost`: it is of no use any more."""

    def __init__(self, text, lost=True):
        super().__init__(text)
        self.lost = lost


def _left(deadline):
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the MCP server does not answer")
    return left


# --- ways to a server -------------------------------------------------------------------------------------------


class _Stdio:
    """A child that speaks a line of JSON at a time."""

    def __init__(self, params, deadline):
        env = {**os.environ, **{str(k): str(v) for k, v in (params.get("env") or {}).items()}}
        self.process = subprocess.Popen([params["command"], *map(str, params.get("args") or [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=env, cwd=params.get("cwd"), start_new_session=True)
        self.rest = bytearray()
        os.set_blocking(self.process.stdout.fileno(), False)
        os.set_blocking(self.process.stdin.fileno(), False)

    def send(self, message, deadline):
        data, fd = memoryview(json.dumps(message).encode() + b"\n"), self.process.stdin.fileno()
        while data:
            # Who does not read because nobody reads from it would wait for ever.
            ready = select.select([self.process.stdout], [fd], [], _left(deadline))
            if ready[0]:
                self._fill()
            if ready[1]:
                try:
                    data = data[os.write(fd, data):]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    raise McpError(f"the MCP server has ended, status {self.process.poll()}") from None

    def _fill(self):
        piece = os.read(self.process.stdout.fileno(), 1 << 16)
        if not piece:
            raise McpError(f"the MCP server has ended, status {self.process.poll()}")
        self.rest += piece
        if len(self.rest) > LINE_MAX and b"\n" not in self.rest:
            raise McpError(f"the MCP server says more than {LINE_MAX} bytes at once")

    def receive(self, deadline):
        while b"\n" not in self.rest:
            if select.select([self.process.stdout], [], [], _left(deadline))[0]:
                self._fill()
        line, _, self.rest = self.rest.partition(b"\n")
        return line

    def close(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, sign)
            try:
                self.process.wait(END_S)
                break
            except subprocess.TimeoutExpired:
                continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what it has started
        self.process.stdout.close()


def _events(response):
    """(name, data) of server-sent events."""
    name, data = "message", []
    while True:
        line = response.readline(LINE_MAX)
        if not line:
            return
        if len(line) == LINE_MAX:
            raise McpError(f"the MCP server says more than {LINE_MAX} bytes at once")
        line = line.rstrip(b"\r\n")
        key, _, value = line.partition(b":")
        if not line:
            if data:
                yield name, b"\n".join(data)
            name, data = "message", []
        elif key == b"event":
            name = value.strip().decode("latin-1")
        elif key == b"data":
            data.append(value[1:] if value[:1] == b" " else value)


class _Http:
    """Streamable HTTP. What comes is a queue: an answer, or the events of one."""

    def __init__(self, params, deadline):
        self.url = urllib.parse.urlsplit(params["url"])
        self.headers = {str(k): str(v) for k, v in (params.get("headers") or {}).items()}
        self.session, self.version, self.waiting = None, None, []

    def _connect(self, deadline):
        if self.url.scheme not in ("http", "https") or not self.url.hostname:
            raise McpError(f"'{self.url.geturl()}' is no URL of http")
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        return kind(self.url.hostname, self.url.port, timeout=_left(deadline))

    def _head(self):
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **self.headers}
        if self.session:
            head["Mcp-Session-Id"] = self.session
        if self.version:
            head["MCP-Protocol-Version"] = self.version
        return head

    def _path(self):
        return (self.url.path or "/") + ("?" + self.url.query if self.url.query else "")

    def send(self, message, deadline):
        connection = self._connect(deadline)
        connection.request("POST", self._path(), json.dumps(message).encode(), self._head())
        response = connection.getresponse()
        self.session = response.getheader("Mcp-Session-Id") or self.session
        if response.status >= 300:
            text = response.read(4096).decode(errors="replace")
            connection.close()
            raise McpError(f"the MCP server answers {response.status}: {text[:200]}")
        self.waiting.append((connection, response))

    def receive(self, deadline):
        while self.waiting:
            connection, response = self.waiting[0]
            if connection.sock is not None:
                connection.sock.settimeout(_left(deadline))
            if "text/event-stream" in (response.getheader("Content-Type") or ""):
                if not hasattr(response, "told"):
                    response.told = _events(response)
                for name, data in response.told:
                    if name == "message":
                        return data
                data = b""
            else:
                data = response.read(LINE_MAX + 1)
                if len(data) > LINE_MAX:
                    raise McpError(f"the MCP server says more than {LINE_MAX} bytes at once")
            self.waiting.pop(0)
            connection.close()
            if data.strip():
                return data
        raise McpError("the MCP server has nothing more to say")

    def close(self):
        for connection, _ in self.waiting:
            connection.close()
        if self.session:
            with contextlib.suppress(OSError, McpError, http.client.HTTPException):
                connection = self._connect(time.monotonic() + END_S)
                connection.request("DELETE", self._path(), headers=self._head())
                connection.getresponse().read()
                connection.close()


class _Sse(_Http):
    """The older way: one stream of events, whose first says where messages go."""

    def __init__(self, params, deadline):
        super().__init__(params, deadline)
        self.stream = self._connect(deadline)
        self.stream.request("GET", self._path(), headers={**self.headers, "Accept": "text/event-stream"})
        response = self.stream.getresponse()
        if response.status != 200:
            raise McpError(f"the MCP server answers {response.status}")
        self.told = _events(response)
        for name, data in self.told:
            if name == "endpoint":
                target = urllib.parse.urlsplit(urllib.parse.urljoin(self.url.geturl(), data.decode()))
                if target[:2] != self.url[:2]:
                    raise McpError("the MCP server sends its clients elsewhere")
                self.url = target
                return
        raise McpError("the MCP server does not say where messages go")

    def send(self, message, deadline):
        connection = self._connect(deadline)
        with contextlib.closing(connection):
            connection.request("POST", self._path(), json.dumps(message).encode(), self._head())
            response = connection.getresponse()
            response.read(4096)
            if response.status >= 300:
                raise McpError(f"the MCP server answers {response.status}")

    def receive(self, deadline):
        if self.stream.sock is not None:
            self.stream.sock.settimeout(_left(deadline))
        for name, data in self.told:
            if name == "message":
                return data
        raise McpError("the MCP server has ended")

    def close(self):
        self.stream.close()


def _way(params):
    if "command" in params:
        return _Stdio
    if "url" not in params:
        raise ValueError('Neither a "command" nor a "url" key in server_params, got: ' + ", ".join(map(str, params)))
    url, kind = str(params["url"]), params.get("type")
    if kind == "streamable_http" or (kind is None and "/mcp" in url):
        return _Http
    if kind == "sse" or (kind is None and "/sse" in url):
        return _Sse
    raise ValueError(f'the type of the MCP server cannot be told from its url, say "type": "streamable_http" or "sse": {url}')


# --- the protocol -----------------------------------------------------------------------------------------------


class Session:
    """One connection, one request at a time."""

    def __init__(self, params, connect_timeout=CONNECT_S):
        deadline = time.monotonic() + connect_timeout
        self.ids, self.way = itertools.count(1), _way(params)(params, deadline)
        try:
            info = self.request("initialize", {"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": {"name": "glovebox", "version": "1"}}, deadline)
            if info.get("protocolVersion") not in VERSIONS:
                raise McpError(f"the MCP server speaks another protocol: {info.get('protocolVersion')!r}")
            self.way.version = info["protocolVersion"]
            self.way.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, deadline)
        except BaseException:
            self.close()
            raise

    def request(self, method, params, deadline):
        number = next(self.ids)
        self.way.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, deadline)
        while True:
            try:
                message = json.loads(self.way.receive(deadline))
            except ValueError:
                continue  # servers print things that they should not
            for one in message if isinstance(message, list) else [message]:
                if not isinstance(one, dict):
                    continue
                if "method" in one:
                    self._answer(one, deadline)
                elif one.get("id") == number and isinstance(one.get("result"), dict):
                    return one["result"]
                elif one.get("id") == number:
                    error = one.get("error") if isinstance(one.get("error"), dict) else {}
                    raise McpError(str(error.get("message", "the MCP server answers nonsense")), lost=False)

    def _answer(self, message, deadline):
        """Questions of a server: it hears that we are there, and that nobody can be asked."""
        if "id" not in message:
            return
        answer = {"result": {}} if message["method"] == "ping" else {"error": {"code": -32601, "message": "not here"}}
        self.way.send({"jsonrpc": "2.0", "id": message["id"], **answer}, deadline)

    def list_tools(self, timeout=CONNECT_S):
        deadline, tools, cursor, seen = time.monotonic() + timeout, [], None, set()
        for _ in range(PAGES_MAX):
            page = self.request("tools/list", {"cursor": cursor} if cursor is not None else {}, deadline)
            tools += [tool for tool in page.get("tools") or [] if isinstance(tool, dict)]
            cursor = page.get("nextCursor")
            if cursor is None or cursor in seen:
                return tools
            seen.add(cursor)
        raise McpError("the list of tools has no end")

    def call_tool(self, name, arguments, timeout=CALL_S):
        return self.request("tools/call", {"name": name, "arguments": arguments}, time.monotonic() + timeout)

    def close(self):
        self.way.close()


def _run(tool_name, params, server_params, connect_timeout):
    with contextlib.closing(Session(server_params, connect_timeout)) as session:
        result = session.call_tool(tool_name, params)
    content = result.get("content") or []
    if len(content) != 1 or not isinstance(content[0], dict) or content[0].get("type") != "text":
        return None
    if result.get("isError"):
        raise Exception(content[0]["text"])  # as ipybox has it
    return content[0]["text"]


def run_sync(tool_name, params, server_params, connect_timeout=CONNECT_S):
    """Call a tool of a server, and wait. Its one text; None for anything else; an exception if the tool says that it failed."""
    return _run(tool_name, params, server_params, connect_timeout)


async def run_async(tool_name, params, server_params, connect_timeout=CONNECT_S):
    """The same, while others run."""
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(_run, tool_name, params, server_params, connect_timeout))


class _AsyncSession:
    def __init__(self, session):
        self.session, self.lock = session, threading.Lock()

    def _alone(self, call, *words):
        with self.lock:
            return call(*words)

    async def list_tools(self):
        return await asyncio.get_running_loop().run_in_executor(None, self._alone, self.session.list_tools)

    async def call_tool(self, name, arguments=None):
        return await asyncio.get_running_loop().run_in_executor(None, self._alone, self.session.call_tool, name, arguments or {})


@contextlib.asynccontextmanager
async def mcp_client(server_params, connect_timeout=CONNECT_S):
    """A connection for several calls: list_tools() and call_tool(name, arguments), with results as the protocol has them."""
    loop = asyncio.get_running_loop()
    session = await loop.run_in_executor(None, Session, server_params, connect_timeout)
    try:
        yield _AsyncSession(session)
    finally:
        await loop.run_in_executor(None, session.close)


def main(words):
    if words[:1] != ["list"]:
        print("usage: run.py list [SECONDS] < server_params.json", file=sys.stderr)
        return 2
    limit = float(words[1]) if len(words) > 1 else CONNECT_S
    try:
        with contextlib.closing(Session(json.load(sys.stdin), limit)) as session:
            json.dump({"tools": session.list_tools(limit)}, sys.stdout)
    except (McpError, OSError, ValueError, http.client.HTTPException) as e:
        print(f"{type(e).__name__}: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
