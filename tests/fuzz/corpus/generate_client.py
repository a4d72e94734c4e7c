#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of what our own clients read, as generate.py does for the rest: corpus/{http_answer,ws_frame,tar,filter,line_keys,term_modes,mcp_client}/NAME.

    tests/fuzz/corpus/generate_client.py

A name with "bad" in it is for what must be refused. Each seed begins with a byte that says how to cut it.
"""
import io
import json
import pathlib
import struct
import tarfile

HERE = pathlib.Path(__file__).resolve().parent


def write(target, seeds):
    directory = HERE / target
    directory.mkdir(exist_ok=True)
    for number, (name, data) in enumerate(seeds.items()):
        (directory / name).write_bytes(bytes([number * 37 & 0xff]) + data)


# --- http_answer --------------------------------------------------------------------------------------------------


def answer(line, *headers, body=b""):
    return "\r\n".join([line, *headers, "", ""]).encode("latin-1") + body


def chunks(*parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


EVENTS = (b'id: 1\nevent: start\ndata: {"cell":"c","seq":1}\n\n: still there\n\n', b'id: 2\nevent: stdout\ndata: {"data":"aGk="}\n\n',
          b'id: 3\nevent: end\ndata: {"status":"ok"}\n\n')

write("http_answer", {
    "json": answer("HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Length: 2", body=b"{}"),
    "created": answer("HTTP/1.1 201 Created", "Content-Length: 12", "X-Request-Id: abc", body=b'{"id": "abc"}'),
    "nothing": answer("HTTP/1.1 204 No Content", "X-Request-Id: abc"),
    "chunked": answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=chunks(b"hello", b" ", b"world") + b"HTTP"),
    "events": answer("HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked", body=chunks(*EVENTS)),
    "events-to-end": answer("HTTP/1.1 200 OK", "Content-Type: text/event-stream", body=b"".join(EVENTS).replace(b"\n", b"\r\n")),
    "continue": answer("HTTP/1.1 100 Continue") + answer("HTTP/1.1 200 OK", "Content-Length: 1", body=b"x"),
    "upgrade": answer("HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
                      "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", body=b"\x81\x02hi"),
    "old": answer("HTTP/1.0 404 Not Found", "Retry-After: 3", body=b"{}"),
    "close": answer("HTTP/1.1 503 Service Unavailable", "Connection: close", "Content-Length: 0"),
    "cut": answer("HTTP/1.1 200 OK", "Content-Length: 10", body=b"half"),
    "bad-ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "bad-tls": b"\x15\x03\x01\x00\x02\x02\x46",
    "bad-line-end": b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "bad-two-lengths": answer("HTTP/1.1 200 OK", "Content-Length: 1", "Transfer-Encoding: chunked", body=b"x"),
    "bad-length": answer("HTTP/1.1 200 OK", "Content-Length: +1", body=b"x"),
    "bad-chunk": answer("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", body=b"zz\r\n"),
    "bad-event-too-long": answer("HTTP/1.1 200 OK", body=b"data: " + b"x" * 5000 + b"\n\n"),
    "events-retry": answer("HTTP/1.1 200 OK", "Content-Type: text/event-stream",
                           body=b"id: event-1\nretry: 500\ndata: \n\nid: a\rb\ndata: x\n\nid\ndata: y\n\nretry: 5x\n\n"),
})

# --- ws_frame -----------------------------------------------------------------------------------------------------


def frame(opcode, data=b"", fin=True):
    size = len(data)
    length = bytes([size]) if size < 126 else struct.pack(">BH", 126, size) if size < 65536 else struct.pack(">BQ", 127, size)
    return bytes([0x80 * fin | opcode]) + length + data


write("ws_frame", {
    "text": frame(1, '{"tty": "abc"}'.encode()),
    "bytes": frame(2, bytes(range(256))),
    "pieces": frame(1, b"caf\xc3", False) + frame(9, b"?") + frame(0, b"\xa9", False) + frame(0, b"!"),
    "control": frame(9) + frame(10, b"pong") + frame(8, struct.pack(">H", 1000) + b"bye"),
    "empty": frame(1) + frame(2) + frame(8),
    "long": frame(2, b"x" * 126) + frame(2, b"y" * 1999),
    "bad-too-long": frame(2, b"x" * 2001),
    "bad-masked": b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
    "bad-reserved": b"\xc1\x00",
    "bad-opcode": b"\x83\x00",
    "bad-utf8": frame(1, b"\xff"),
    "bad-length": b"\x82\x7e\x00\x01x",
    "bad-close": frame(8, b"\x00\x01"),
    "bad-goes-on": frame(0, b"x"),
    "bad-ping": frame(9, b"x", False),
})

# --- tar ----------------------------------------------------------------------------------------------------------


def archive(*members, form=tarfile.GNU_FORMAT):
    """Members as (name, type, contents or target of a link, mode)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, kind, what, mode in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.mtime = kind, mode, 1700000000
            if kind == tarfile.REGTYPE:
                info.size = len(what)
            else:
                info.linkname = what.decode()
            tar.addfile(info, io.BytesIO(what) if kind == tarfile.REGTYPE else None)
    return out.getvalue()[:sum(512 + (len(w) + 511) // 512 * 512 for _, _, w, _ in members) + 4096]


FILE, DIRECTORY, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
LONG = "/".join(["n" * 60] * 4)

write("tar", {
    "file": archive(("a.txt", FILE, b"hello", 0o644)),
    "empty": archive(("a", FILE, b"", 0o600)),
    "tree": archive(("d", DIRECTORY, b"", 0o755), ("d/a", FILE, b"x" * 600, 0o755), ("d/l", LINK, b"a", 0o777)),
    "long": archive((LONG, FILE, b"x", 0o644), ("l", LINK, LONG.encode(), 0o777)),
    "posix": archive((LONG[61:], FILE, b"x", 0o644), form=tarfile.USTAR_FORMAT),
    "nothing": b"\0" * 1024,
    "bad-pax": archive((LONG + "\u00e9", FILE, b"x", 0o644), form=tarfile.PAX_FORMAT),
    "bad-absolute": archive(("/etc/passwd", FILE, b"x", 0o644)),
    "bad-dots": archive(("a/../../b", FILE, b"x", 0o644)),
    "bad-hard-link": archive(("a", tarfile.LNKTYPE, b"/etc/passwd", 0o644)),
    "bad-device": archive(("a", tarfile.CHRTYPE, b"", 0o666)),
    "bad-pipe": archive(("a", tarfile.FIFOTYPE, b"", 0o666)),
    "bad-sum": b"x" + archive(("a", FILE, b"x", 0o644))[1:],
    "cut": archive(("a", FILE, b"x" * 1000, 0o644))[:700],
})

# --- terminals ----------------------------------------------------------------------------------------------------

SAFE, PLAIN, NOTHING = b"\1", b"\2", b"\0"

write("filter", {
    "text": SAFE + "plain\tt\u00e4xt \u6f22 \U0001f600\r\n".encode(),
    "colours": SAFE + b"\x1b[31mred\x1b[0m \x1b[1;38;5;208mbold\x1b[m \x1b[38:2:1:2:3mtrue",
    "progress": SAFE + b"10%\r\x1b[K100%\x1b[?25l\x1b[2A\x1b[1;1H\x1b[2J\x1b[?25h",
    "plain": PLAIN + b"\x1b[31mred\x1b[0m\x1b]0;title\x07text",
    "nothing": NOTHING + b"\x1b]0;t\x07\xff\0",
    "bad-questions": SAFE + b"\x1b[6n\x1b[c\x1b[>c\x1b[20t\x1bP$q\"p\x1b\\\x1b[?1049h",
    "bad-scrollback": SAFE + b"\x1b[3J\x1b[03J\x1b[2;3J\x1b[0J\x1b[1J",
    "bad-strings": SAFE + b"\x1b]0;title\x07a\x1b]52;c;aGk=\x1b\\b\x1b_x\x1b\\\x1b^y\x1b\\\x1bXz\x1b\\\x1b]0;never\nc",
    "bad-utf8": SAFE + b"\xc2\x9b31m\x9b\xff\xe6\xbcb\xf0\x9f\x98",
    "bad-long": SAFE + b"\x1b[" + b"1" * 40 + b"m\x1b(0\x1b)B\x1bc\x1b[31\nb",
})
write("line_keys", {
    "text": "a\u00e4\u6f22\U0001f600\t\r".encode(),
    "arrows": b"\x1b[A\x1b[B\x1bOC\x1bOD\x1b[H\x1b[F\x1b[3~\x1b[1;5C\x1b[Z",
    "controls": bytes(range(1, 32)) + b"\x7f",
    "alt": b"\x1bb\x1bf\x1bd\x1b\x7f\x1b\r\x1b\x1b[A",
    "paste": b"\x1b[200~two\nlines\x1b[20\x1b[201x\x1b[201~after",
    "paste-unfinished": b"\x1b[200~text\x1b[20",
    "unfinished": b"a\x1b[1;",
    "bad-utf8": b"\xff\xe2\x28\xc2\x9bm\xf0\x9f",
    "bad-long": b"\x1b[" + b"1;" * 40 + b"Hx\x1b[3\x01",
})
write("term_modes", {
    "editor": b"\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[?2004h\x1b[?25l\x1b[1;24r\x1b[27m",
    "mouse": b"\x1b[?1000;1002;1003;1006h\x1b[?1004h\x1b[?1003l",
    "off": b"\x1b[?1049h\x1b[?1049l\x1b=\x1b>\x1b[?7l\x1bc",
    "unfinished": b"\x1b[?25l\x1b[?10",
    "bad-numbers": b"\x1b[?" + b"9" * 40 + b";;;" + b"1;" * 40 + b"h\x1b[?1049$p",
})


# --- mcp_client ---------------------------------------------------------------------------------------------------


def said(*messages):
    """What a server says, line by line; `@` is the id of what was asked last."""
    return b"\n".join(one if isinstance(one, bytes) else json.dumps(one).replace('"@"', "@").encode() for one in messages)


def result(value, number="@"):
    return {"jsonrpc": "2.0", "id": number, "result": value}


def error(code, number="@", **more):
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": "no", **more}}


DISCOVERED = result({"resultType": "complete", "supportedVersions": ["2026-07-28"], "serverInfo": {"name": "s", "version": "1"}})
INITIALIZED = result({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s"}, "capabilities": {}})
PARAMETERS = {"region": {"type": "string", "x-mcp-header": "Region"}, "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}}
TOOLS = result({"tools": [{"name": "t", "description": "d", "inputSchema": {"type": "object", "properties": PARAMETERS}}]})
FORM = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"properties": {"a": {"default": 1.5}, "b": {}}}}}
DONE = result({"content": [{"type": "text", "text": "x"}], "isError": False})

write("mcp_client", {
    "modern": said(DISCOVERED, TOOLS, DONE),
    "legacy": said(error(-32601), INITIALIZED, TOOLS, DONE),
    "again": said(error(-32022, data={"supported": ["2026-07-28"]}), DISCOVERED, TOOLS, DONE),
    "pages": said(DISCOVERED, result({"tools": [], "nextCursor": "a"}), result({"tools": [], "nextCursor": "b"}), TOOLS, DONE),
    "bad-pages": said(DISCOVERED, result({"tools": [], "nextCursor": "a"}), result({"tools": [], "nextCursor": "a"})),
    "inputs": said(DISCOVERED, TOOLS, result({"resultType": "input_required", "inputRequests": {"k": FORM}, "requestState": "s\"t"}), DONE),
    "bad-inputs": said(DISCOVERED, TOOLS, result({"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}})),
    "questions": said(error(-32601), INITIALIZED, {"jsonrpc": "2.0", "id": "q", "method": "ping"}, {"jsonrpc": "2.0", "id": 5, **FORM},
                      {"jsonrpc": "2.0", "id": 6, "method": "sampling/createMessage"}, TOOLS, DONE),
    "progress": said(error(-32601), INITIALIZED, TOOLS,
                     {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "@", "progress": 0.5}},
                     {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": {}}}, DONE, DONE),
    "bad-ids": said(DISCOVERED, TOOLS, result({"content": []}, "x"), result({"content": []}, 99), error(-1, None)),
    "bad-junk": said(b"\xff\x00", b"[]", b"{}", b"[{]", b"null", b"5"),
    "bad-tools": said(DISCOVERED, result({"tools": [5, {"name": "t"}, {"name": "t", "inputSchema": {"items": {"x-mcp-header": "A"}}}]})),
    "batch": said(error(-32601), result({"protocolVersion": "2025-03-26"}), b"[" + said(TOOLS) + b", 5]", DONE),
})
