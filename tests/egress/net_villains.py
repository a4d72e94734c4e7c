# SPDX-License-Identifier: Apache-2.0
"""Servers outside that misbehave, each on a port of its own, and answers of a resolver that does: see net_world.py, which runs them.

PLAIN speak HTTP, or should; TLS are met by who wants to speak TLS, SHAKEN misbehave when hands were shaken; PASSES_ALERTS and UPGRADES are honest, and take what
strict ones refuse. Whatever they were told in TLS is in DIRECTORY/told.
"""
import json
import os
import random
import socket
import socketserver
import ssl
import struct
import subprocess
import threading

# --- HTTP ------------------------------------------------------------------------------------------------------


def asked(serve):
    """Does that when it has been told something."""
    def begin(s):
        s.recv(65536)
        serve(s)
    return begin


def endless(first, piece):
    """Says one thing, and then another one for ever."""
    def serve(s):
        s.sendall(first)
        while True:
            s.sendall(piece)
    return serve


def silent(s):
    """Takes everything, and says nothing."""
    while s.recv(65536):
        pass


def deaf(s):
    """Neither reads nor says anything, for as long as the world is there."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    threading.Event().wait()


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half(s):
    """Is done at once, and goes on listening."""
    s.shutdown(socket.SHUT_WR)
    silent(s)


def drip(s):
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndrip":
        s.sendall(bytes([byte]))


def says(text):
    return lambda s: s.sendall(text)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PLAIN = {
    9001: asked(endless(OK, b"X-More: " + b"y" * 1000 + b"\r\n")),
    9002: asked(endless(OK + b"X-Long: ", b"y" * 65536)),
    9003: asked(endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100)),
    9004: asked(endless(CHUNKED, b"0" * 65536)),
    9005: asked(endless(CHUNKED + b"1;x=", b"y" * 65536)),
    9006: asked(endless(b"", os.urandom(65536))),
    9007: asked(says(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhim")),
    9008: asked(says(OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
    9009: asked(says(OK + b"Content-Length: 2\r\n\r\nhi" + OK + b"Content-Length: 4\r\n\r\nmore")),
    9010: asked(says(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi")),
    9011: asked(says(OK + b"Content-Length: 2\r\n X-Folded: 1\r\n\r\nhi")),
    9012: asked(says(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")),
    9013: asked(says(b"")),
    9014: reset,
    9015: half,
    9016: silent,
    # Before anybody has asked.
    9017: endless(CHUNKED, b"0" * 65536),
    9018: endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    9019: says(OK + b"Content-Length: 2\r\n\r\nhi"),
}
# What a program in a box can wait for without end, and nobody can tell from what is honest.
BODY, DEAF, DRIP = 9050, 9051, 9052
OTHERS = {BODY: asked(endless(OK + b"\r\n", b"body" * 16384)), DEAF: deaf, DRIP: asked(drip)}

# --- TLS -------------------------------------------------------------------------------------------------------


def record(kind, body, version=0x303):
    return struct.pack(">BHH", kind, version, len(body)) + body


def shaken(context, then):
    """A whole handshake, and then bytes that are no TLS, or none."""
    def serve(s):
        t = context().wrap_socket(s, server_side=True)
        tell(t.recv(65536))
        raw = socket.socket(fileno=t.detach())
        raw.sendall(then)
        raw.close()
    return serve


def untrusted(which):
    def serve(s):
        t = context_of(which).wrap_socket(s, server_side=True)
        tell(t.recv(65536))
        t.sendall(OK + b"Content-Length: 2\r\n\r\nhi")
    return serve


def old_version(s):
    context = context_of("cert")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.wrap_socket(s, server_side=True)


TLS = {
    9101: asked(endless(b"", os.urandom(65536))),
    9102: asked(says(OK + b"Content-Length: 2\r\n\r\nhi")),
    9103: asked(endless(b"", record(21, b"\1\x5a") * 100)),
    9104: asked(endless(b"", record(22, b"\2\xff\xff\xff" + bytes(16000)))),
    9105: asked(endless(b"", record(22, b""))),
    9106: asked(endless(b"\x16\3\3\xff\xff", bytes(65536))),
    9107: asked(endless(b"", record(20, b"\1"))),
    9108: asked(reset),
    9109: asked(half),
    9110: reset,
    9111: asked(says(record(21, b"\2\x28"))),
    9112: old_version,
    9113: untrusted("expired"),
    9114: untrusted("name"),
    9115: untrusted("client"),
    9116: untrusted("issued"),
    9117: untrusted("huge"),
}
# The handshake is as it should be: who is there is known, and is told what is there to be told.
SHAKEN = {
    9121: shaken(lambda: context_of("cert"), b""),
    9122: shaken(lambda: context_of("cert"), record(23, bytes(100))),
    9123: shaken(lambda: context_of("cert"), b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    9124: shaken(lambda: context_of("cert"), record(22, bytes(16000)) * 20),
    9125: shaken(lambda: context_of("cert"), b"\x17\3\3\xff\xff" + bytes(70000)),
}
LONG_CHAIN, TLS_SILENT = 9130, 9131
MORE_TLS = {LONG_CHAIN: untrusted("long"), TLS_SILENT: asked(silent)}

# --- lenient ones ------------------------------------------------------------------------------------------------

PASSES_ALERTS, UPGRADES = 9141, 9142


def passes_alerts(s):
    """As some libraries do: a warning in front of a hello is nothing."""
    while s.recv(1, socket.MSG_PEEK) == b"\x15":
        s.recv(7, socket.MSG_WAITALL)
    context, asked = context_of("cert"), []
    context.sni_callback = lambda t, name, c: asked.append(name)
    t = context.wrap_socket(s, server_side=True)
    t.recv(65536)
    t.sendall(OK + b"Connection: close\r\n\r\n" + json.dumps(asked).encode())
    t.unwrap()


def upgrades(s):
    """To whatever is asked for, what it likes best first; and says all that comes then."""
    head = s.recv(65536).lower()
    s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n" % (b"h2c" if b"h2c" in head else b"websocket"))
    while data := s.recv(65536):
        s.sendall(data)


# --- running them ------------------------------------------------------------------------------------------------


FOLDER = None


def tell(data):
    with open(FOLDER / "told", "ab") as told:
        told.write(data)


def context_of(which):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / f"{which}.pem", FOLDER / "key.pem")
    return context


def make_certificates(folder):
    """Of web.test, by the authority of the world, and wrong: out of date, for somebody else, for clients, by who may not; and with far too many others."""
    def sign(which, subject, extensions, *words, ca="ca.pem"):
        (folder / "extensions").write_text(extensions)
        subprocess.run(["openssl", "req", "-new", "-key", folder / "key.pem", "-subj", f"/CN={subject}", "-out", folder / "want"], check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", folder / "want", "-CA", folder / ca, "-CAkey", folder / "key.pem", "-set_serial", str(random.getrandbits(60)),
                        "-extfile", folder / "extensions", "-out", folder / f"{which}.pem", *words], check=True, capture_output=True)

    name = "subjectAltName=DNS:web.test\n"
    sign("expired", "web.test", name, "-days", "-1")
    sign("name", "other.test", "subjectAltName=DNS:other.test,DNS:web.test.other.test,DNS:*.test.other.test\n")
    sign("client", "web.test", name + "extendedKeyUsage=clientAuth\n")
    sign("issued", "web.test", name, ca="cert.pem")
    cert, ca = (folder / "cert.pem").read_text(), (folder / "ca.pem").read_text()
    (folder / "issued.pem").write_text((folder / "issued.pem").read_text() + cert)
    (folder / "long.pem").write_text(cert + ca * 20)
    (folder / "huge.pem").write_text(cert + ca * 400)


class Villain(socketserver.BaseRequestHandler):
    serve = None

    def handle(self):
        try:
            type(self).serve(self.request)
        except OSError:
            pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 1024


def begin(folder, address):
    global FOLDER
    FOLDER = folder
    (folder / "told").touch()
    make_certificates(folder)
    for port, serve in {**PLAIN, **OTHERS, **TLS, **SHAKEN, **MORE_TLS, PASSES_ALERTS: passes_alerts, UPGRADES: upgrades}.items():
        kind = type("On%d" % port, (Villain,), {"serve": staticmethod(serve)})
        threading.Thread(target=Server((address, port), kind).serve_forever, daemon=True).start()


# --- a resolver ----------------------------------------------------------------------------------------------------

HERE = b"\xc0\x0c"


def label(text):
    return b"".join(bytes([len(part)]) + part.encode() for part in text.split(".")) + b"\0"


def resource(name, kind, data, ttl=60):
    return name + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def reply(query, end, records, flags=0x8180, question=None, count=None):
    kind = struct.unpack(">H", query[end - 4:end - 2])[0]
    answers = records if kind == 1 else []
    return query[:2] + struct.pack(">HHHHH", flags, 1, len(answers) if count is None else count, 0, 0) + (question or query[12:end]) + b"".join(answers)


A, CNAME = 1, 5
OUT, IN = bytes([93, 184, 216, 34]), bytes([10, 9, 9, 9])
# Whom an answer leads to, or that it is none.
ODD = {
    "cname.test": lambda q, e: reply(q, e, [resource(HERE, CNAME, label("far.example")), resource(label("far.example"), A, OUT)]),
    "chain.test": lambda q, e: reply(q, e, [resource(HERE, CNAME, label("a.example")), resource(label("a.example"), CNAME, label("b.example")), resource(label("b.example"), A, IN)]),
    "circle.test": lambda q, e: reply(q, e, [resource(HERE, CNAME, label("a.example")), resource(label("a.example"), CNAME, label("circle.test"))]),
    "both.test": lambda q, e: reply(q, e, [resource(HERE, A, IN), resource(HERE, A, OUT)]),
    "ttl.test": lambda q, e: reply(q, e, [resource(HERE, A, IN, ttl=0)]),
    "forever.test": lambda q, e: reply(q, e, [resource(HERE, A, IN, ttl=0xffffffff)]),
    "number.test": lambda q, e: bytes([q[0] ^ 1]) + reply(q, e, [resource(HERE, A, OUT)])[1:],
    "question.test": lambda q, e: reply(q, e, [resource(HERE, A, OUT)], question=label("answer.test") + q[e - 4:e]),
    "pointer.test": lambda q, e: reply(q, e, [resource(b"\xc0" + bytes([e]), A, OUT)]),
    "short.test": lambda q, e: reply(q, e, [resource(HERE, A, OUT)[:-2]]),
    "wide.test": lambda q, e: reply(q, e, [resource(HERE, A, OUT * 2)]),
    "count.test": lambda q, e: reply(q, e, [resource(HERE, A, OUT)], count=9999),
    "hundreds.test": lambda q, e: reply(q, e, [resource(HERE, A, IN)] * 1000 + [resource(HERE, A, OUT)]),
    "cut.test": lambda q, e: reply(q, e, [], flags=0x8380),
    "format.test": lambda q, e: reply(q, e, [], flags=0x8181),
    "failed.test": lambda q, e: reply(q, e, [], flags=0x8182),
    "garbage.test": lambda q, e: q[:2] + os.urandom(300),
    "empty.test": lambda q, e: q[:2],
    "nobody.test": lambda q, e: b"",
}


def odd_answer(name, query, end):
    return ODD[name](query, end) if name in ODD else None
