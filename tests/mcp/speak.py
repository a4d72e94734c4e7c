# SPDX-License-Identifier: Apache-2.0
"""A plain client of MCP over HTTP: messages in both eras, nothing hidden."""
import contextlib
import http.client
import itertools
import json

VERSION = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
ACCEPT = "application/json, text/event-stream"


class Answer:
    """What came back for one message: status, headers, all messages, and the last of them."""

    def __init__(self, status, headers, messages):
        self.status, self.headers, self.messages = status, headers, messages
        self.last = messages[-1] if messages else None

    @property
    def result(self):
        assert self.last is not None and "result" in self.last, (self.status, self.messages)
        return self.last["result"]

    @property
    def error(self):
        assert self.last is not None and "error" in self.last, (self.status, self.messages)
        return self.last["error"]["code"], self.last["error"]["message"]


def events(response):
    """The messages of a stream, as they come."""
    for line in response:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


class Speaker:
    """`token`: who asks. `session`: as initialize() found it; None: the modern era."""

    def __init__(self, server, token=None):
        self.server, self.token, self.session, self.box = server, token, None, None
        self.ids = itertools.count(1)

    def headers(self, more=None):
        found = {"Content-Type": "application/json", "Accept": ACCEPT}
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        if self.session:
            found["Mcp-Session-Id"] = self.session
        if self.box:
            found["Glovebox-Box"] = self.box
        return {name: value for name, value in {**found, **(more or {})}.items() if value is not None}

    @contextlib.contextmanager
    def open(self, method="POST", body=None, headers=None):
        """The response, not read yet."""
        with contextlib.closing(self.server.connection()) as connection:
            connection.request(method, "/mcp", body, self.headers(headers))
            yield connection.getresponse()

    def send(self, message, headers=None):
        body = message if isinstance(message, (str, bytes)) else json.dumps(message)
        with self.open("POST", body, headers) as response:
            if "event-stream" in (response.getheader("Content-Type") or ""):
                return Answer(response.status, response.headers, list(events(response)))
            text = response.read()
            return Answer(response.status, response.headers, [json.loads(text)] if text else [])

    def ask(self, method, params=None, headers=None, **more):
        """A request of the legacy era."""
        message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, **more}
        if params is not None:
            message["params"] = params
        return self.send(message, headers)

    def modern(self, method, params=None, headers=None, **meta):
        params = dict(params or {})
        params["_meta"] = {PREFIX + "protocolVersion": VERSION, PREFIX + "clientCapabilities": {}, **meta}
        name = params.get("name") if method in ("tools/call", "prompts/get") else params.get("uri") if method == "resources/read" else None
        return self.send({"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params},
                         {"MCP-Protocol-Version": VERSION, "Mcp-Method": method, "Mcp-Name": name, **(headers or {})})

    def initialize(self, version="2025-11-25", **capabilities):
        got = self.ask("initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "tests", "version": "1"}})
        self.session = got.headers["Mcp-Session-Id"]
        assert self.send({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
        return got.result

    def call(self, tool, /, **arguments):
        """The result of a tool, in the era that this one speaks."""
        return (self.ask if self.session else self.modern)("tools/call", {"name": tool, "arguments": arguments}).result

    def text(self, tool, /, **arguments):
        return joined(self.call(tool, **arguments))

    def end(self):
        with self.open("DELETE") as response:
            response.read()
            return response.status


def joined(result):
    return "".join(one["text"] for one in result["content"] if one["type"] == "text")


LOST = (ConnectionError, http.client.HTTPException)
