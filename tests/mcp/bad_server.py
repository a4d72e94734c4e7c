#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server of MCP on standard input and output that misbehaves: `bad_server.py WAY [FILE]`. What it was told goes into FILE, line by line.

It speaks the legacy era and has one tool, `do`; WAY says what happens when that is called, or before.
"""
import json
import os
import signal
import subprocess
import sys
import time

WAY = sys.argv[1]
HEARD = open(sys.argv[2], "a", encoding="utf-8", buffering=1) if len(sys.argv) > 2 else None
TOOL = {"name": "do", "description": "does\nit", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
FINE = {"content": [{"type": "text", "text": "fine"}]}


def put(text):
    data = text if isinstance(text, bytes) else text.encode()
    while data:
        data = data[os.write(1, data):]


def send(message):
    put(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(number, result):
    send({"id": number, "result": result})


def list_tools(number, params):
    if WAY == "pages":
        answer(number, {"tools": [], "nextCursor": params.get("cursor", "") + "x"})
    elif WAY == "loop":
        answer(number, {"tools": [], "nextCursor": "b" if params.get("cursor") == "a" else "a"})
    elif WAY == "names":
        answer(number, {"tools": [{**TOOL, "name": "\x1b]0;title\x07do", "description": "\x1b[2J\u202egone"}]})
    elif WAY == "wide":
        names = [f"p{i}" for i in range(100000)]
        answer(number, {"tools": [{**TOOL, "inputSchema": {"properties": {name: {} for name in names}, "required": names[::-1]}}]})
    elif WAY == "many":
        answer(number, {"tools": [{**TOOL, "name": f"t{i}"} for i in range(5000)]})
    else:
        answer(number, {"tools": [TOOL]})


def call(number):
    right = {"id": number, "result": FINE}
    if WAY == "endless":
        while True:
            send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1000}})
    elif WAY == "junk":
        while True:
            put(b"\xff\x00junk\n{}\n")
    elif WAY == "long line":
        while True:
            put(b"x" * 65536)
    elif WAY == "huge":
        answer(number, {"content": [{"type": "text", "text": "x" * (70 << 20)}]})
    elif WAY == "ids":
        for other in (number + 1, number - 1, 10 ** 30, str(number), None, [number], -number, 0.5):
            send({"id": other, "result": {"content": [{"type": "text", "text": "wrong"}]}})
        for message in (right, right, {"id": number, "error": {"code": 1, "message": "late"}}):
            send(message)
    elif WAY == "wrong ids":
        answer(number + 1, FINE)
    elif WAY == "shapes":
        put("[" + json.dumps({"jsonrpc": "2.0", **right}) + "]\n\n   \nlog line of a careless program\n")
        send({"id": "q", "method": "no/such"})
        send({"method": "no/such", "params": 5})
        send({"id": number, "jsonrpc": "1.0", "result": FINE})
        send(right)
    elif WAY == "no result":
        answer(number, {"content": "fine"})
    elif WAY == "both":
        send({"id": number, "result": FINE, "error": {"code": 5, "message": "?"}})
    elif WAY == "dies":
        sys.stderr.write("I was here\n\x1b[31mlast words\n")
        put('{"jsonrpc": "2.0", "id":')
        sys.exit(7)
    elif WAY == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif WAY == "questions":
        for i in range(20000):
            send({"id": i, "method": "ping"})
        send(right)
    elif WAY == "refuses":
        send({"id": number, "error": {"code": -32000, "message": "not \x1b[31mtoday"}})
    elif WAY == "fails":
        answer(number, {"content": [{"type": "text", "text": "it failed"}], "isError": True})
    elif WAY == "drip":
        for byte in json.dumps({"jsonrpc": "2.0", **right}):
            put(byte)
            time.sleep(0.2)
    elif WAY == "progress":
        send({"method": "notifications/progress", "params": {"progressToken": number, "progress": 1, "total": 2, "message": "half \x1b[2Jway"}})
        send(right)
    elif WAY == "colours":
        answer(number, {"content": [{"type": "text", "text": "\x1b[31mred\x1b[0m \x1b]0;x\x07title"}]})
    elif WAY == "images":
        image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
        answer(number, {"content": [{**image, "data": "not base64"}] + [image] * 300})
    elif WAY in ("silent", "stubborn", "family"):
        pass
    else:
        send(right)


if WAY == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if WAY == "family":
    subprocess.Popen(["sleep", "1000"])
for line in sys.stdin:
    message = json.loads(line)
    if HEARD:
        HEARD.write(line)
    method, number = message.get("method"), message.get("id")
    if WAY == "deaf" and method == "server/discover":
        continue
    if method == "initialize":
        answer(number, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "bad", "version": "1"}})
    elif method == "tools/list":
        list_tools(number, message.get("params") or {})
    elif method == "tools/call":
        call(number)
    elif method and number is not None:
        send({"id": number, "error": {"code": -32601, "message": "no such method"}})
if WAY in ("stubborn", "family"):
    time.sleep(1000)
if HEARD:
    HEARD.write('"end"\n')
