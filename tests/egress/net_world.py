# SPDX-License-Identifier: Apache-2.0
"""A world to reach: a network namespace with public, private and metadata addresses on its loopback, a resolver, and servers.

    python3 net_world.py DIRECTORY      in a namespace of its own (unshare -n); says "ready", and ends with its standard input

What was asked of the resolver is in DIRECTORY/questions, a name a line; DIRECTORY/ca.pem signs the certificates of all names. Servers, on every address:
80 HTTP and 443 HTTPS answer with JSON of what they were asked (below /files/ with the file of that name in DIRECTORY/files; what /echo/… says beside that: `echo`), 8443 the same as 443
with a certificate that nobody knows; 7 sends a greeting and then what it gets, 9 takes all and says how many bytes that were. Those that misbehave are in net_villains.py.
"""
import gzip
import http.server
import json
import os
import pathlib
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading

import net_villains

PUBLIC, OTHER, PRIVATE, METADATA = "93.184.216.34", "93.184.216.35", "10.9.9.9", "169.254.169.254"
PUBLIC6 = "2606:2800:220:1::34"
# Where clouds and machines have services of their own: HTTP only.
INSIDE = ("100.100.100.200", "168.63.129.16", "169.254.170.2", "172.17.0.1", "192.168.7.7")
INSIDE6 = ("fd00:ec2::254", "fd00::7")
# A socket without a file, in this namespace.
ABSTRACT = "\0glovebox-world"
RESOLVER = "127.0.0.1:5300"
# inner and meta lead where no name may lead; turns goes there the second time it is asked for, flips every other time. *.wild.test leads to PUBLIC, and so
# does held, whose answers wait until an honest name is asked for.
NAMES = {"web.test": [PUBLIC], "www.web.test": [PUBLIC], "other.test": [OTHER], "inner.test": [PRIVATE], "meta.test": [METADATA], "loop.test": ["127.0.0.1"],
         "many.test": [PRIVATE, PUBLIC], "six.test": [], "dead.test": ["93.184.216.99"], "held.test": [PUBLIC], "turns.test": [PUBLIC], "flips.test": [PUBLIC],
         "metadata.google.internal": [METADATA], "alibaba.test": [INSIDE[0]], "azure.test": [INSIDE[1]], "zero.test": ["0.0.0.0"], "xn--bcher-kva.test": [PUBLIC],
         "aws6.test": [], "mapped.test": [], "nat64.test": [], "6to4.test": [], "loop6.test": []}
SIX = {"six.test": [PUBLIC6], "aws6.test": [INSIDE6[0]], "mapped.test": ["::ffff:169.254.169.254"], "nat64.test": ["64:ff9b::a9fe:a9fe"],
       "6to4.test": ["2002:a9fe:a9fe::1"], "loop6.test": ["::1"]}


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_addresses():
    run("ip", "link", "set", "lo", "up")
    for address in (PUBLIC, OTHER, PRIVATE, METADATA, *INSIDE):
        run("ip", "addr", "add", address + "/32", "dev", "lo")
    for address in (PUBLIC6, *INSIDE6):
        run("ip", "-6", "addr", "add", address + "/128", "dev", "lo", "nodad")


def answer(query, asked):
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += query[at] + 1
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    name = ".".join(labels).lower()
    asked.write(f"{name}\n")
    asked.flush()
    odd = net_villains.odd_answer(name, query, at + 5)
    if odd is not None:
        return name, odd
    known = name in NAMES or name.endswith(".wild.test")
    found = [socket.inet_aton(a) for a in NAMES.get(name, [PUBLIC] if known else [])] if kind == 1 else []
    found += [socket.inet_pton(socket.AF_INET6, a) for a in SIX.get(name, [])] if kind == 28 else []
    if name == "turns.test":
        NAMES[name] = [PRIVATE]
    if name == "flips.test" and kind == 1:
        NAMES[name] = [PUBLIC if NAMES[name] == [PRIVATE] else PRIVATE]
    flags = 0x8180 if known else 0x8183
    records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(a)) + a for a in found)
    return name, query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + query[12:at + 5] + records


def resolve(asked, host, port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((host, port))
    held = []
    while True:
        query, who = server.recvfrom(4096)
        name, said = answer(query, asked)
        if name == "held.test":
            held.append((said, who))
        elif said:
            server.sendto(said, who)
        while held and name != "held.test" and name not in net_villains.ODD:
            server.sendto(*held.pop())


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files = pathlib.Path()

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def send_file(self):
        path = self.files / self.path.partition("?")[0].removeprefix("/files/").rstrip("/")
        if path.is_dir():
            path /= "index.html"
        data = path.read_bytes() if path.is_file() else None
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Type", "text/html" if path.suffix == ".html" else "application/json" if path.suffix == "" else "application/octet-stream")
        self.send_header("Content-Length", str(len(data or b"")))
        self.end_headers()
        self.wfile.write(data or b"")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def echo(self, body):
        """/echo/HOW: the headers of the request, told in one of many ways."""
        how, seen = self.path.split("?")[0].removeprefix("/echo/"), json.dumps({"headers": self.headers.items(), "body": body.decode("latin-1")}).encode()
        if how == "redirect":
            self.send_response(302)
            self.send_header("Location", self.path.partition("?")[2])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if how in ("gzip", "always-gzip") and (how == "always-gzip" or "gzip" in self.headers.get("Accept-Encoding", "")):
            seen = gzip.compress(seen)
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
        else:
            self.send_response(200)
        for name, value in self.headers.items() if how == "heads" else []:
            self.send_header("X-Seen-" + name, value)
        if how in ("drip", "cut"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(len(seen)):
                self.chunk(seen[at:at + 1])
            if how == "drip":
                self.chunk(b"")
            self.close_connection = how == "cut"
        elif how == "end":
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(seen)
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(seen)))
            self.end_headers()
            self.wfile.write(seen if self.command != "HEAD" else b"")

    def do_GET(self):
        body = self.read_body()
        if self.path.startswith("/files/"):
            self.send_file()
            return
        if self.path.startswith("/echo/"):
            self.echo(body)
            return
        said = json.dumps({"host": self.headers.get("Host"), "path": self.path, "method": self.command, "at": self.connection.getsockname()[0],
                           "name": getattr(self.connection, "asked_for", None), "bytes": len(body)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PROPFIND = do_TRACE = do_GET

    def log_message(self, *_):
        pass


class Greeting(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"hello\n")
        while data := self.request.recv(65536):
            self.request.sendall(data)


class Sink(socketserver.BaseRequestHandler):
    def handle(self):
        total = 0
        while data := self.request.recv(1 << 18):
            total += len(data)
        self.request.sendall(b"%d\n" % total)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass


class Server6(Server):
    address_family = socket.AF_INET6


def make_certificates(folder):
    key, ca, want, cert = (str(folder / name) for name in ("key.pem", "ca.pem", "want.csr", "cert.pem"))
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=world",
        "-keyout", key, "-out", ca)
    run("openssl", "req", "-new", "-key", key, "-subj", "/CN=web.test", "-out", want)
    names = folder / "names.cnf"
    names.write_text("subjectAltName=" + ",".join("DNS:" + name for name in NAMES))
    run("openssl", "x509", "-req", "-in", want, "-CA", ca, "-CAkey", key, "-set_serial", "1", "-days", "2", "-extfile", str(names), "-out", cert)
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=stranger",
        "-addext", names.read_text(), "-keyout", folder / "other-key.pem", "-out", folder / "other.pem")

    def remember(connection, name, _):
        connection.asked_for = name

    for server, files in ((SecureServer, (cert, key)), (StrangeServer, (folder / "other.pem", folder / "other-key.pem"))):
        server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.context.load_cert_chain(*files)
        server.context.sni_callback = remember


class SecureServer(Server):
    context = None

    def finish_request(self, request, client_address):
        try:
            super().finish_request(self.context.wrap_socket(request, server_side=True), client_address)
        except OSError:
            pass


class StrangeServer(SecureServer):
    pass


def main():
    folder = pathlib.Path(sys.argv[1])
    make_addresses()
    make_certificates(folder)
    Web.files = folder / "files"
    asked = open(folder / "questions", "w", encoding="latin-1")
    for host, port in (RESOLVER.split(":"), (PUBLIC, 53)):
        threading.Thread(target=resolve, args=[asked, host, int(port)], daemon=True).start()
    unnamed = socket.socket(socket.AF_UNIX)
    unnamed.bind(ABSTRACT)
    unnamed.listen()
    for port, handler, kind in ((80, Web, Server), (443, Web, SecureServer), (8443, Web, StrangeServer), (7, Greeting, Server), (9, Sink, Server), (7001, Greeting, Server)):
        for address in (PUBLIC, OTHER, PRIVATE, METADATA, "127.0.0.1"):
            threading.Thread(target=kind((address, port), handler).serve_forever, daemon=True).start()
    for kind, address in [(Server, address) for address in INSIDE] + [(Server6, address) for address in (PUBLIC6, *INSIDE6)]:
        threading.Thread(target=kind((address, 80), Web).serve_forever, daemon=True).start()
    net_villains.begin(folder, PUBLIC)
    print("ready", flush=True)
    os.read(0, 1)


if __name__ == "__main__":
    main()
