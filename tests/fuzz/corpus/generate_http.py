#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of what clients send, as generate.py does for the rest: corpus/{http1,multipart,base64}/NAME.

    tests/fuzz/corpus/generate_http.py

A name with "bad" in it is for what must be refused.
"""
import base64
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def write(target, seeds, prefix=lambda number: b""):
    directory = HERE / target
    directory.mkdir(exist_ok=True)
    for number, (name, data) in enumerate(seeds.items()):
        (directory / name).write_bytes(prefix(number) + data)


def head(line, *headers):
    return "\r\n".join([line, *headers, "", ""]).encode("latin-1")


def cut(number):
    return bytes([number * 37 & 0xff])


# --- http1 --------------------------------------------------------------------------------------------------------

HOST = "Host: a.example:8443"
WEBSOCKET = ["Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
CHUNKED = head("POST /v1/files HTTP/1.1", HOST, "Transfer-Encoding: chunked", "Expect: 100-continue")

write("http1", {
    "get": head("GET /v1/boxes?limit=10&after=b%20c HTTP/1.1", HOST, "Accept: */*", "User-Agent: x/1"),
    "old": head("GET / HTTP/1.0", "Connection: keep-alive"),
    "empty-line-first": b"\r\n" + head("GET / HTTP/1.1", HOST),
    "options": head("OPTIONS * HTTP/1.1", "Host: [::1]"),
    "post": head("POST /v1/run HTTP/1.1", HOST, "Content-Type: application/json", "Content-Length: 2",
                 "Authorization: Bearer abc", "Idempotency-Key: 1", "Connection: close") + b"{}",
    "chunked": CHUNKED + b"5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\nGET",
    "websocket": head("GET /v1/boxes/b/tty HTTP/1.1", HOST, *WEBSOCKET),
    "two": head("GET /a HTTP/1.1", HOST) + head("GET /b HTTP/1.1", HOST),
    "values": head("GET / HTTP/1.1", HOST, "A:", "B: \t", "C: \xe9 \t x", "traceparent: 00-1-2-01"),
    "cut": head("GET / HTTP/1.1", HOST)[:-1],
    "bad-tls": b"\x16\x03\x01\x02\x00\x01\x00\x01",
    "bad-http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "bad-line-end": head("GET / HTTP/1.1", HOST, "A: b\nC: d"),
    "bad-folded": head("GET / HTTP/1.1", HOST, "A: b", " c"),
    "bad-two-lengths": head("POST / HTTP/1.1", HOST, "Content-Length: 1", "Transfer-Encoding: chunked"),
    "bad-host": head("GET / HTTP/1.1", "Host: a, b"),
    "bad-websocket": head("GET / HTTP/1.1", HOST, *WEBSOCKET[:2]),
}, lambda number: b"\0" + cut(number))
write("http1", {
    "body": b"3\r\nabc\r\n0\r\n\r\n",
    "body-of-line-ends": b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
    "body-large": b"4000000000000000\r\nabc",
    "body-bad-extension": b"3;a=b\r\nabc\r\n0\r\n\r\n",
    "body-bad-trailer": b"0\r\nA: b\r\n\r\n",
}, lambda number: b"\1" + cut(number))
write("http1", {
    "target": b"/v1/boxes/b-1/files/a%2Fb%20c?recursive&depth=2&q=%c3%a9+x",
    "target-slash-last": b"/a/b/",
    "target-bad-dots": b"/a/%2e%2e/b",
    "target-bad-twice": b"/?a=1&%61=2",
    "target-rest": b"/v1/boxes/b/files/a//b/../%ff%2f%0a?root=/",
    "range": b"bytes=10-18446744073709551615",
    "range-of-the-end": b"bytes=-500",
    "range-bad-several": b"bytes=0-1,5-6",
}, lambda number: b"\2" + cut(number))

# --- multipart ----------------------------------------------------------------------------------------------------


def form(*parts, boundary="xyz", last=b"--\r\n"):
    mark = b"--" + boundary.encode()
    return b"".join(mark + b"\r\n" + part + b"\r\n" for part in parts) + mark + last


def part(parameters, data=b"", *headers):
    return head("Content-Disposition: form-data; " + parameters, *headers) + data


def typed(content_type, body):
    return bytes([len(content_type)]) + content_type.encode() + body


WEBKIT = "----WebKitFormBoundaryABCDEF0123456789"
write("multipart", {
    "field": typed("", form(part('name="a"', b"1"))),
    "file": typed("", form(part('name="f"; filename="a b.txt"', b"line\r\nline\r\n", "Content-Type: text/plain"))),
    "several": typed("", form(part("name=a", b"1"), part("name=b", b"\0" * 40), part("name=c"))),
    "nothing": typed("", b"--xyz--\r\n"),
    "browser": typed("multipart/form-data; boundary=" + WEBKIT,
                     form(part('name="f"; filename="q%22.bin"', bytes(range(64))), boundary=WEBKIT)),
    "quoted-boundary": typed('multipart/form-data; charset=utf-8; boundary="x y"', form(part("name=a", b"1"), boundary="x y")),
    "names": typed("", form(part('name="\\"\\\\"; filename="x"; filename*=UTF-8\'\'%c3%a9'), part('name=""; filename=""'))),
    "around": typed("", b"before\r\n--xy\r\n" + form(part("name=a", b"1")) + b"behind"),
    "nearly-boundaries": typed("", form(part("name=a", b"\r\r\n--xy\r\n--xYz\r\n-\r\n--"))),
    "no-body": typed("", b"--xyz\r\n" + part("name=a") + b"--xyz--"),
    "cut": typed("", form(part("name=a", b"12345"))[:-8]),
    "bad-boundary": typed("multipart/form-data; boundary=\"\"", b"--\r\n"),
    "bad-type": typed("multipart/mixed; boundary=x", b"--x--"),
    "bad-no-name": typed("", form(b"Content-Type: text/plain\r\n\r\n1")),
    "bad-name": typed("", form(part('name="\xff"', b"1"))),
    "bad-encoding": typed("", form(part("name=a", b"MQ==", "Content-Transfer-Encoding: base64"))),
    "bad-behind-boundary": typed("", b"--xyz \r\n" + part("name=a", b"1") + b"\r\n--xyz--"),
}, cut)

# --- base64 -------------------------------------------------------------------------------------------------------

write("base64", {
    "empty": b"",
    **{f"bytes-{n}": base64.b64encode(bytes(range(256 - n, 256))) for n in (1, 2, 3, 4, 100)},
    "ends": b"////++++AAAAzz99",
    "raw": bytes(range(256)),
    "bad-length": b"AAA",
    "bad-padding": b"AA=A",
    "bad-bits": b"Zh==",
    "bad-url": b"-_-_",
    "bad-line": b"AAAA\nAAA",
})
