#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets `dns`, `socks` and `tls_hello`, and the policies of `netrule`: corpus/TARGET/NAME, small and each with a meaning.

    tests/fuzz/corpus/generate_egress.py

The formats are written down here from RFC 1035, 6891, 1928, 8446, 6066, 7301 and 8701, and not from the code. A name with
"bad" in it is for what must be refused.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent


def write(target, name, data):
    directory = HERE / target
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(data)


# --- dns: one byte that picks the reply, then the query ---------------------------------------------------------------

A, PTR, AAAA, ANY = 1, 12, 28, 255
IN, CHAOS = 1, 3


def labels(name):
    parts = name.split(b".") if name else []
    return b"".join(bytes([len(p)]) + p for p in parts) + b"\0"


def opt(room=1232, version=0, data=b""):
    return b"\0" + struct.pack(">HHBBHH", 41, room, 0, version, 0, len(data)) + data


def query(name, kind=A, cls=IN, flags=0x0100, counts=(1, 0, 0), extra=b"", question=None):
    body = question if question is not None else labels(name) + struct.pack(">HH", kind, cls)
    return struct.pack(">HHHHHH", 0x1234, flags, *counts, 1 if extra else 0) + body + extra


def dns(name, how, data):
    write("dns", name, bytes([how]) + data)


dns("a", 1, query(b"PyPI.org"))
dns("a-none", 0, query(b"pypi.org"))
dns("a-edns", 1, query(b"pypi.org", extra=opt()))
dns("a-cookie", 1, query(b"pypi.org", extra=opt(4096, data=b"\0\x0a\0\x08" + b"c" * 8)))
dns("aaaa", 1, query(b"pypi.org", AAAA))
dns("any-nxdomain", 5, query(b"_srv.example", ANY))
dns("root", 0, query(b"", 2))
dns("ptr", 2, query(b"7.0.18.198.in-addr.arpa", PTR))
dns("ptr-long", 2, query(b".".join([b"x" * 63] * 3 + [b"y" * 61]), PTR))
dns("bad-chaos", 0, query(b"version.bind", 16, CHAOS))
dns("bad-version", 0, query(b"pypi.org", extra=opt(version=1)))
dns("bad-compressed", 0, query(b"", question=b"\xc0\x0c\0\1\0\1"))
dns("bad-dot", 0, query(b"", question=b"\x08pypi.org\0\0\1\0\1"))
dns("bad-address", 0, query(b"127.0.0.1"))
dns("bad-notify", 0, query(b"pypi.org", flags=0x2000))
dns("bad-answer", 0, query(b"pypi.org", flags=0x8180))
dns("bad-tsig", 0, query(b"pypi.org", extra=b"\0" + struct.pack(">HHIH", 250, 255, 0, 0)))
dns("bad-option", 0, query(b"pypi.org", extra=opt(data=b"\0\x0a\0\x09" + b"c" * 8)))
dns("bad-two", 0, query(b"pypi.org", counts=(2, 0, 0)))


# --- socks: one byte, odd for a greeting, then the bytes --------------------------------------------------------------


def request(kind, address, port=443, command=1):
    return b"\0\5" + bytes([command]) + b"\0" + bytes([kind]) + address + struct.pack(">H", port)


def by_name(name):
    return request(3, bytes([len(name)]) + name)


write("socks", "greeting", b"\1\5\1\0")
write("socks", "greeting-three", b"\1\5\3\2\1\0")
write("socks", "greeting-bad-method", b"\1\5\1\2")
write("socks", "greeting-bad-version", b"\1\4\1\0")
write("socks", "v4", request(1, bytes([198, 18, 0, 7])))
write("socks", "v6", request(4, b"\x20\1\x0d\xb8" + b"\0" * 11 + b"\1"))
write("socks", "v6-mapped", request(4, b"\0" * 10 + b"\xff\xff\x7f\0\0\1"))
write("socks", "name", by_name(b"PyPI.org."))
write("socks", "name-v4", by_name(b"198.18.0.7"))
write("socks", "name-long", by_name(b".".join([b"x" * 63] * 3 + [b"y" * 61])))
write("socks", "bad-name-hex", by_name(b"0x7f.1"))
write("socks", "bad-name-nul", by_name(b"pypi.org\0.evil.example"))
write("socks", "bad-name-v6", by_name(b"[::1]"))
write("socks", "bad-port", request(1, bytes(4), 0))
write("socks", "bad-bind", request(1, bytes(4), command=2))
write("socks", "bad-kind", request(2, bytes(4)))


# --- tls_hello: one byte that says how to cut (odd: the rest is a ClientHello without its records), then the bytes ----


def vec(width, data):
    return len(data).to_bytes(width, "big") + data


def extension(kind, data):
    return struct.pack(">H", kind) + vec(2, data)


def sni(*names, kind=0):
    return extension(0, vec(2, b"".join(bytes([kind]) + vec(2, n) for n in names)))


def alpn(*names):
    return extension(16, vec(2, b"".join(vec(1, n) for n in names)))


def versions(*values):
    return extension(43, vec(1, b"".join(struct.pack(">H", v) for v in values)))


def hello(*extensions, version=0x0303, tail=b"", session=b"s" * 32, suites=b"\x13\1\x13\2"):
    body = struct.pack(">H", version) + b"r" * 32 + vec(1, session) + vec(2, suites) + vec(1, b"\0")
    if extensions:
        body += vec(2, b"".join(extensions))
    return b"\1" + vec(3, body + tail)


def records(message, size=16384, version=0x0301):
    pieces = [message[i:i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16" + struct.pack(">H", version) + vec(2, p) for p in pieces)


GREASE = 0x1a1a
FULL = hello(extension(GREASE, b""), sni(b"PyPI.org"), alpn(b"\x2a\x2a", b"h2", b"http/1.1"),
             versions(0x3a3a, 0x0304, 0x0303), extension(0xfe0d, b"\0" * 12), extension(0x4a4a, b"\0"),
             suites=b"\x0a\x0a\x13\1")

for name, data in {
    "full": FULL,
    "old": hello(version=0x0301),
    "name": hello(sni(b"pypi.org.")),
    "no-name": hello(alpn(b"http/1.1")),
    "bad-two-names": hello(sni(b"pypi.org", b"evil.example")),
    "bad-twice": hello(sni(b"pypi.org"), sni(b"pypi.org")),
    "bad-kind": hello(sni(b"pypi.org", kind=1)),
    "bad-address": hello(sni(b"127.0.0.1")),
    "bad-nul": hello(sni(b"pypi.org\0")),
    "bad-tail": hello(sni(b"pypi.org"), tail=b"\0"),
    "bad-session": hello(session=b"s" * 33),
    "bad-suites": hello(suites=b"\x13"),
    "bad-versions": hello(versions(0x1a1a)),
}.items():
    write("tls_hello", name, b"\1" + data)
write("tls_hello", "records", b"\2" + records(FULL))
write("tls_hello", "records-three", b"\4" + records(FULL, len(FULL) // 3 + 1) + b"\x17\3\3\0\1x")
write("tls_hello", "records-many", b"\6" + records(hello(sni(b"a.b")), 2))
write("tls_hello", "bad-records-alert", b"\2" + b"\x15\3\1\0\2\2\0")
write("tls_hello", "bad-records-version", b"\2" + records(FULL, version=0x0300))
write("tls_hello", "bad-records-empty", b"\2" + records(FULL, 40)[:45] + b"\x16\3\1\0\0")


# --- netrule: a policy as egress is told it, after the byte that says so ----------------------------------------------

EXACT, BELOW, CIDR = 0, 1, 2
ANYTHING, TLS, HTTP = 0, 1, 2


def text(data):
    return struct.pack("<I", len(data)) + data


def rule(kind, what, deny=0, protocol=ANYTHING, ports=(), methods=0, paths=()):
    return bytes([kind, deny, protocol]) + what + bytes([len(ports)]) + b"".join(struct.pack("<HH", *p) for p in ports) + \
        bytes([methods, len(paths)]) + b"".join(map(text, paths))


def net(v6, address, bits):
    return bytes([v6]) + text(address) + bytes([bits])


def policy(name, mode, *rules, connections=512, most=0, rate=0):
    write("netrule", name, b"\1" + bytes([mode]) + struct.pack("<IQQH", connections, most, rate, len(rules)) + b"".join(rules))


policy("policy", 1, rule(EXACT, text(b"pypi.org"), ports=[(443, 443)]), rule(BELOW, text(b"a.org")), rule(CIDR, net(0, bytes([10, 0, 0, 0]), 8), deny=1),
       rule(CIDR, net(1, bytes([0x20, 1, 0xd, 0xb8]) + bytes(12), 32), ports=[(1, 2), (80, 90)]))
policy("policy-bounds", 3, connections=1, most=1 << 40, rate=1024)
policy("policy-narrow", 1, rule(EXACT, text(b"a.org"), protocol=HTTP, methods=5, paths=[b"/v1", b"/v2/"]), rule(EXACT, text(b"b.org"), protocol=TLS))
policy("policy-bad-bounds", 1, connections=513)
policy("policy-bad-rate", 1, rate=1023)
