#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of what clients of MCP do: corpus/mcp/NAME, small and each with a meaning.

    tests/fuzz/corpus/generate_mcp.py

Messages are written from the revisions 2025-11-25 and 2026-07-28 of the protocol, steps as fuzz_mcp.c lays them out. A name with "bad"
in it is for what must be refused.
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
META = "io.modelcontextprotocol/"

OTHER, NO_HEADERS, FIRST, LAST, FOREIGN, DEAF, HEADERS, MODERN, AGREE = 1, 2, 4, 8, 12, 16, 32, 64, 128
NOW, LATER, ALL, ASK = "now", "later", "all", "ask"


def write(name, *steps):
    directory = HERE / "mcp"
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(b"".join(steps))


def said(text, flags=0, headers=None):
    data = text if isinstance(text, bytes) else json.dumps(text, separators=(",", ":")).encode()
    lines = b""
    if headers is not None:
        flags |= HEADERS
        lines = bytes([len(headers)]) + headers
    return bytes([0, flags]) + lines + struct.pack("<H", len(data)) + data


def request(method, params=None, flags=FIRST, number=1, **kw):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    if params is not None:
        message["params"] = params
    return said(message, flags, **kw)


def note(method, params=None, flags=FIRST):
    return said({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}, flags)


def answer(number, result, flags=FIRST):
    return said({"jsonrpc": "2.0", "id": f"gb-{number}", **result}, flags)


def initialize(flags=0, version="2025-11-25"):
    return request("initialize", {"protocolVersion": version, "capabilities": {"sampling": {}, "roots": {}},
                                  "clientInfo": {"name": "c", "version": "1"}}, flags)


def tool(name, flags=FIRST, number=1, **more):
    return request("tools/call", {"name": name, **more}, flags, number)


def modern(method, flags=MODERN | AGREE, number=1, meta=None, headers=None, **params):
    params["_meta"] = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}, **(meta or {})}
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    text = json.dumps(message, separators=(",", ":")).encode().replace(b"\\u0001", b"\1")
    return said(text, flags, headers)


def hear(flags=FIRST):
    return bytes([4, flags])


def delete(flags=FIRST):
    return bytes([5, flags])


def leave(which=0):
    return bytes([6, which])


def happen(what):
    return bytes([7, what])


ANSWER = 4
CHANGED, CHANGED_OF_ONE, UPDATED = 1, 2, 3
A_DAY = [happen(31 << 3)] * 5

write("session", initialize(), note("notifications/initialized"), request("ping"), request("tools/list", {}),
      request("prompts/list"), request("resources/list"), request("resources/templates/list"), delete(), request("ping"))
write("session-old", initialize(version="2024-11-05"), tool(NOW, _meta={"progressToken": "t"}), tool(NOW, arguments={"text": "x"}))
write("session-level", initialize(), request("logging/setLevel", {"level": "debug"}), tool(NOW), request("logging/setLevel", {"level": "x"}))
write("session-idle", initialize(), initialize(OTHER), tool(LATER), *A_DAY, initialize())
write("calls", initialize(), tool(LATER), tool(LATER, number="x"), happen(ANSWER), happen(ANSWER))
write("calls-cancel", initialize(), tool(LATER, number=7), note("notifications/cancelled", {"requestId": 7}),
      note("notifications/cancelled", {"requestId": 7}))
write("calls-leave", initialize(), tool(LATER), tool(ASK), hear(), leave(2), leave(0), leave(0))
write("calls-session-ends", initialize(), tool(LATER), tool(ALL), tool(ASK), tool(ALL), hear(), delete())
write("calls-entangled", initialize(), tool(LATER), tool(ALL), delete())
write("calls-all", initialize(), initialize(OTHER), tool(ALL), tool(LATER, FIRST | OTHER), tool(ALL), leave(0))
write("ask", initialize(), tool(ASK), answer(1, {"result": {"x": [1, {}]}}), answer(2, {"error": {"code": 1, "message": "no"}}),
      answer(3, {"result": {}}), happen(ANSWER))
write("ask-deaf", initialize(), tool(ASK, FIRST | DEAF))
write("ask-others-bad", initialize(), initialize(OTHER), tool(ASK), answer(1, {"result": {}}, OTHER | FIRST),
      answer(1, {"result": {}}, OTHER | FOREIGN), answer(2, {"result": {}}, OTHER | FOREIGN), tool(ASK, OTHER | FIRST))
write("others-bad", initialize(), initialize(OTHER), tool(LATER, number=7), hear(), request("ping", flags=OTHER | FOREIGN),
      hear(OTHER | FOREIGN), delete(OTHER | FOREIGN), note("notifications/cancelled", {"requestId": 7}, OTHER | FIRST), happen(ANSWER))
write("hear", initialize(), hear(), hear(), request("resources/subscribe", {"uri": "x"}), happen(UPDATED), happen(CHANGED), hear(),
      request("resources/unsubscribe", {"uri": "x"}), happen(UPDATED), delete())
write("prompt", initialize(), request("prompts/get", {"name": "ask", "arguments": {"who": "x"}}), answer(1, {"result": {}}),
      answer(2, {"result": {}}), answer(3, {"result": {}}), request("completion/complete", {
          "ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "who", "value": "x"}}))
write("read", initialize(), request("resources/read", {"uri": "x"}), request("resources/read", {"uri": "a"}),
      request("resources/read", {"uri": "z"}))
write("modern", modern("server/discover"), modern("tools/list"), modern("tools/call", name=NOW, arguments={"text": "x"}),
      modern("resources/read", uri="x"), modern("resources/read", uri="z"), modern("tools/call", name=LATER), happen(ANSWER))
write("modern-log", modern("tools/call", meta={META + "logLevel": "info", "progressToken": 5}, name=NOW))
write("modern-no-headers", modern("tools/call", NO_HEADERS, name=NOW))
write("modern-headers", modern("tools/call", 0, headers=b"MCP-Protocol-Version: 2026-07-28\nMcp-Method: =?base64?dG9vbHMvY2FsbA==?=\n"
                               b"Mcp-Name: now", name=NOW))
write("modern-param", modern("tools/call", meta={META + "clientCapabilities": {"sampling": {}}}, headers=b"Mcp-Param-Text: x",
                             name="need", arguments={"text": "x"}))
write("modern-ask", modern("tools/call", name=ASK), modern("tools/call", name=ASK, requestState="\1", inputResponses={"a": {}, "b": {}}),
      modern("tools/call", name=ASK, requestState="\1", inputResponses={"a": {}, "b": {}, "c": {}}), happen(ANSWER))
write("modern-state-bad", modern("tools/call", name=ASK), modern("tools/call", MODERN | AGREE | OTHER, name=ASK, requestState="\1"),
      modern("prompts/get", name=ASK, requestState="\1", arguments={"who": "x"}), modern("tools/call", name=ASK, requestState="x\1"))
write("modern-listen", modern("subscriptions/listen", notifications={"toolsListChanged": True, "resourceSubscriptions": ["x", 1, "z", "x"]}),
      modern("subscriptions/listen", MODERN | AGREE | OTHER, notifications={"resourcesListChanged": True}),
      happen(CHANGED), happen(CHANGED_OF_ONE), happen(UPDATED), happen(CHANGED | 16), leave(0))
write("modern-bad", modern("ping"), modern("tools/call", 0, name=NOW), modern("tools/list", meta={META + "protocolVersion": "1"}),
      modern("tools/list", meta={META + "clientCapabilities": None}), modern("tools/list", params=1), modern("subscriptions/listen"))
write("bad-json", said(b""), said(b"{"), said(b"[]"), said(b'"x"'), said(b"\xff"), said(b"[" * 40 + b"]" * 40))
write("bad-messages", said({"jsonrpc": "2.0", "id": None, "method": "ping"}), said({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
      said({"jsonrpc": "2.0", "id": 1}), said({"jsonrpc": "2.0", "id": "x" * 300, "method": "ping"}),
      said({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}), said({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}))
write("bad-params", initialize(), tool(5), tool("x"), tool(NOW, arguments=[]), request("tools/list", {"cursor": "50"}),
      request("tools/list", {"cursor": 5}), request("prompts/get", {"name": "ask"}), request("resources/read", {"uri": 1}),
      request("resources/subscribe", {"uri": "z"}), request("completion/complete", {"ref": 1}))
write("bad-session", hear(0), delete(0), request("ping", flags=0), request("ping", flags=FIRST),
      request("ping", flags=0, headers=b"Mcp-Session-Id: 0123456789abcdef0123456789abcdef"))
