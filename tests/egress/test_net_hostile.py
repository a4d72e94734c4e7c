# SPDX-License-Identifier: Apache-2.0
"""Servers that misbehave and boxes that do: neither costs egress more than a bounded amount of memory, both leave nothing open, and what another tenant's box asks
for meanwhile it gets."""
import contextlib
import json
import os
import textwrap

import pytest

from net import PRELUDE, Net, needs_root, world  # noqa: F401
from net_villains import BODY, DEAF, DRIP, LONG_CHAIN, PLAIN, SHAKEN, TLS, TLS_SILENT
from net_world import PUBLIC
from server import REQUEST_S, SANITIZED, status_of, until
from test_net_inject import AUTHORIZATION, SEEN, TOKEN

pytestmark = needs_root

TOKENS = {"good": "token-of-good-0123456789", "bad": "token-of-bad-0123456789"}
# Pipes that are kept for whoever needs one next, at both ends; and a few sockets that ask for names.
KEPT = 2 * 64 + 16
# All that a box may make egress have is less: 512 connections with 64 KiB held, or 128 of them with TLS at both ends.
MEGABYTES = 96
ANY = {"host": "web.test"}
INJECT = {"host": "web.test", "inject": AUTHORIZATION}


class Two(Net):
    """A server with two tenants, one of whom is asked for by `by`."""

    def __init__(self, world, folder, port=8764, before=()):
        super().__init__(world, folder, listen=f"127.0.0.1:{port}", tokens=TOKENS, secret="web=env:WEB_TOKEN@web.test", secret_ca_file=world.folder / "ca.pem", env={"WEB_TOKEN": TOKEN})
        self.prefix += before
        self.world, self.tenant = world, "good"

    def connect(self, timeout=REQUEST_S):
        with self.world.visited():
            return super().connect(timeout)

    def send(self, connection, method, path, body=None, headers=None):
        return super().send(connection, method, path, body, {"Authorization": f"Bearer {TOKENS[self.tenant]}", **(headers or {})})

    @contextlib.contextmanager
    def by(self, tenant):
        before, self.tenant = self.tenant, tenant
        try:
            yield
        finally:
            self.tenant = before


@pytest.fixture(scope="module")
def shared(world, tmp_path_factory):
    with Two(world, tmp_path_factory.mktemp("hostile")) as it:
        it.delete(it.box(network={"policy": "allow", "rules": [ANY]}))
        it.egress = Egress(it)
        yield it


@pytest.fixture
def server(shared):
    yield shared
    for tenant in TOKENS:
        with shared.by(tenant):
            shared.delete_all()


@pytest.fixture
def victim(server):
    """A box of somebody else, that looks up names, and asks by HTTP, by TLS that is opened, and by TLS that is not."""
    box = server.box(network={"policy": "allow", "rules": [{**INJECT, "ports": [443]}, "web.test:80", "other.test", "*.wild.test"]})

    def is_served(times=3):
        said = server.python(box, f"""
            for i in range({times}):
                say(get("http://web.test/")["at"], get("https://web.test/")["at"], get(f"http://victim-{{i}}.wild.test/")["at"])
            context = ssl._create_unverified_context()
            with context.wrap_socket(socket.create_connection(("other.test", 443), timeout=60), server_hostname="other.test") as t:
                say(t.version()[:3])
            """, timeout_ms=100000)
        assert said == [[PUBLIC] * 3] * times + ["TLS"], said

    return is_served


class Egress:
    """What it has, and how much more memory it ever had than when it was new."""

    def __init__(self, server):
        self.pid = server.pid_of("egress")
        self.fds, self.memory = self.descriptors(), self.kilobytes("VmRSS")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def kilobytes(self, what):
        return int(status_of(self.pid)[what].split()[0])

    def check(self, server, megabytes):
        """It is the same process, and has closed what it had opened."""
        assert server.pid_of("egress") == self.pid, server.log()[-2000:]
        until(lambda: self.descriptors() <= self.fds + KEPT, f"descriptors are closed, {self.fds} were there before")
        grown = self.kilobytes("VmHWM") - self.memory
        assert SANITIZED or grown < megabytes * 1024, grown


# In a box: a program that attacks until it is told to stop, and says on() when others are to see what they still get.
ATTACK = SEEN + """
import errno, os, random, struct, subprocess, threading

context = ssl._create_unverified_context()
GET = b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n"

def on():
    print("on", flush=True)

def goes_on():
    return not os.path.exists("/workspace/stop")

def wait():
    on()
    while goes_on():
        time.sleep(0.02)

def quietly(fn, *words):
    try:
        return fn(*words)
    except (OSError, ValueError, http.client.HTTPException) as e:
        return type(e).__name__

def at_once(fn, rows):
    # A thread for each, results in order.
    said = {}
    threads = [threading.Thread(target=lambda i=i, row=row: said.update({i: quietly(fn, row)})) for i, row in enumerate(rows)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return [said[i] for i in range(len(rows))]

def push(s, data):
    # As much of it as is taken without waiting.
    s.setblocking(False)
    while data:
        data = data[s.send(data):]

def slam(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()

def in_tls(port, name="web.test", **how):
    return context.wrap_socket(socket.create_connection(("web.test", port), timeout=20), server_hostname=name, **how)
"""


class Attacker:
    """A box of the other tenant, and a program in it."""

    def __init__(self, server, rules, code):
        self.server = server
        with server.by("bad"):
            self.path = "/v1/boxes/" + server.box(network={"policy": "allow", "rules": rules})["id"]
            status, started = server.call("POST", f"{self.path}/commands", {"detach": True, "argv": ["/usr/bin/python3", "-c", PRELUDE + ATTACK + textwrap.dedent(code)]})
            assert status == 202, started
        self.command = f"{self.path}/commands/{started['id']}"
        until(lambda: self.now()["status"] != "running" or "on\n" in self.now()["stdout"], "it attacks")
        assert self.now()["status"] == "running", self.now()

    def now(self):
        with self.server.by("bad"):
            return self.server.call("GET", self.command)[1]

    def figures(self):
        with self.server.by("bad"):
            return self.server.call("GET", self.path)[1]["figures"]["network"]

    def stop(self):
        """What it has said beside "on". Nothing is open afterwards, before the box is gone and after it."""
        with self.server.by("bad"):
            assert self.server.request("PUT", f"{self.path}/files/stop", b"")[0] in (200, 201, 204)
        until(lambda: self.now()["status"] != "running", "it stops")
        said = self.now()
        assert said["exit_code"] == 0, said["stderr"]
        until(lambda: self.figures()["open"] == 0, "its connections are closed")
        self.leave()
        return [json.loads(line) for line in said["stdout"].splitlines() if line != "on"]

    def leave(self):
        """As it is."""
        with self.server.by("bad"):
            assert self.server.call("DELETE", self.path)[0] == 204
        self.server.egress.check(self.server, MEGABYTES)


# --- servers -------------------------------------------------------------------------------------------------------


VISIT = """
def visit(port):
    # How many bytes come, of two millions, and the end.
    got, end = 0, "end"
    try:
        with socket.create_connection(("web.test", port), timeout=20) as s:
            s.settimeout(0.2 if port in {quiet} else 20)
            s.sendall(GET)
            while got < 2000000 and (part := s.recv(65536)):
                got += len(part)
    except OSError as e:
        end = "late" if e.errno is None else "reset"
    return [got, "more" if got >= 2000000 else end]
rows = []
while goes_on() or not rows:
    rows = rows or at_once(visit, {ports})
    at_once(visit, {ports})
    on()
say(rows)
"""


@pytest.mark.parametrize("hides", [False, True])
def test_servers_of_http(server, victim, hides):
    """Heads, numbers and interim answers without end, and what is no answer: where answers are looked through they are cut before that costs anything."""
    ports = [*PLAIN]
    rules = [{**INJECT, "ports": ["9001-9019"], "protocol": "http"}] if hides else [ANY]
    # Those that speak before they are asked once found a connection that had ended and went on.
    attacker = Attacker(server, rules, VISIT.format(ports=ports + [9017, 9018, 9019] * (10 if hides else 0), quiet=[9016]))
    victim()
    said = dict(zip(ports, attacker.stop()[0]))
    if hides:
        assert {port: row for port, row in said.items() if port < 9017 and (row[0] > 1000 or row[1] == "more")} == {}
    else:
        assert [said[port] for port in (9001, 9002, 9003, 9004, 9006)] == [[2000000 + said[port][0] % 2000000, "more"] for port in (9001, 9002, 9003, 9004, 9006)]


def test_servers_of_tls(server, victim, world):
    """None of those whose certificate or handshake is wrong is told anything: who asks gets words, or a reset. Those that misbehave later are cut."""
    ports, later = [*TLS], [*SHAKEN]
    attacker = Attacker(server, [{**INJECT, "ports": ["9101-9140"]}], f"""
        def visit(port):
            said = fetch(f"https://web.test:{{port}}/")
            return said[0] if isinstance(said[0], int) else "hi" if said[0] == "hi" else "reset"
        say(at_once(visit, {ports}))
        wait()
        say(at_once(visit, {later}), visit({LONG_CHAIN}))
        """)
    victim()
    first = attacker.now()["stdout"]
    assert TOKEN.encode() not in (world.folder / "told").read_bytes(), first
    said = attacker.stop()
    assert set(said[0]) <= {502, "reset"} and said[0].count(502) > len(ports) // 2, said
    assert set(said[1][0]) == {"reset"} and said[1][1] == "hi", said
    assert (world.folder / "told").read_bytes().count(TOKEN.encode()) >= len(later)


@pytest.mark.parametrize("rule", [ANY, INJECT])
def test_servers_that_do_not_read_and_answers_without_end(server, victim, rule):
    """Those of one side wait for the other one, in the kernel and not in egress."""
    attacker = Attacker(server, [{**rule, "protocol": "http"}] if rule is INJECT else [rule], f"""
        held = []
        def fill(i):
            s = socket.create_connection(("web.test", ({DEAF}, {BODY}, {DRIP})[i % 3]), timeout=20)
            held.append(s)
            s.sendall(GET if i % 3 else b"POST / HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 99999999\\r\\n\\r\\n")
            if i % 3 == 0:
                push(s, bytes(1 << 22))
            elif i % 3 == 1:
                got = 0
                while got < 1 << 20:
                    got += len(s.recv(65536))
        for n in range(2):
            at_once(fill, range(60))
        wait()
        [slam(s) for s in held]
        """)
    victim()
    assert attacker.figures()["open"] > 100
    attacker.stop()


def test_a_resolver_that_breaks_off(server, victim):
    """An answer that does not fit is no reason to forget what others have asked; names that nobody answers for are forgotten in time."""
    box = server.box(network={"policy": "allow", "rules": ["held.test"]})
    server.world.questions()
    status, started = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"detach": True, "argv": ["/usr/bin/python3", "-c", PRELUDE + 'say(get("http://held.test/")["at"])']})
    until(lambda: "held.test" in server.world.questions(), "it is asked for")
    attacker = Attacker(server, ["*.test"], """
        def read(name):
            with socket.create_connection((name, 80), timeout=20) as s:
                return s.recv(1).decode()
        say(at_once(read, ["cut.test"] * 20 + ["failed.test", "format.test", "short.test"] * 3))
        wait()
        """)
    victim(1)
    answer = server.call("GET", f"/v1/boxes/{box['id']}/commands/{started['id']}?wait_ms=60000")[1]
    assert (answer["status"], answer["stdout"]) == ("ok", json.dumps(PUBLIC) + "\n"), answer
    assert attacker.stop() == [["ConnectionResetError"] * 29]


# --- boxes ---------------------------------------------------------------------------------------------------------


def test_ten_thousand_connections(server, victim):
    """To everything that there is: names, addresses, the proxy, the resolver, and the listener that takes what is meant for others."""
    attacker = Attacker(server, [ANY, "10.0.0.0/8"], """
        names = [socket.gethostbyname(name) for name in ("web.test", "other.test")]
        places = [(names[0], 7), (names[0], 80), (names[1], 80), ("10.9.9.9", 80), ("8.8.8.8", 80), ("198.18.77.7", 80), ("127.0.0.1", 1080), ("127.0.0.1", 53), *(("127.0.0.1", port) for port in (1, 2, 3, 79, 81, 1023))]
        held = [quietly(socket.create_connection, places[0]) for i in range(700)]
        others = []
        for i in range(10000):
            s = socket.socket()
            s.setblocking(False)
            quietly(s.connect, random.choice(places))
            others.append(s)
            if len(others) > 200:
                (slam if i % 3 else socket.socket.close)(others.pop(random.randrange(200)))
        wait()
        """)
    until(lambda: attacker.figures()["open"] == 512, "as many are open as there may be")
    victim()
    attacker.stop()


def test_all_descriptors_that_there_are(world, tmp_path):
    """Where egress may have few, connections do not have the last ones: the next box gets its network, and nobody's connections end by it."""
    with Two(world, tmp_path, port=8763, before=["prlimit", "--nofile=1000"]) as server:
        server.delete(server.box(network={"policy": "allow", "rules": [ANY]}))
        server.egress = Egress(server)
        attacker = Attacker(server, [ANY], """
            web = socket.gethostbyname("web.test")
            held = [quietly(socket.create_connection, (web, 7)) for i in range(700)]
            on()
            held[0].recv(6)
            while goes_on():
                held[0].sendall(b"x\\n")
                assert held[0].recv(2) == b"x\\n"
                time.sleep(0.02)
            """)
        until(lambda: attacker.figures()["open"] > 200, "many are open")
        box = server.box(network={"policy": "allow", "rules": ["web.test"]})
        assert server.egress.descriptors() < 900
        attacker.stop()
        assert server.python(box, 'say(get("http://web.test/")["at"])') == [PUBLIC]


@pytest.mark.parametrize("leave", [False, True])
def test_what_is_never_finished(server, victim, leave):
    """Hellos, heads, words to the proxy, requests behind one that waits: a megabyte of each on hundreds of connections, of which a few kilobytes are held."""
    attacker = Attacker(server, [ANY], f"""
        more = b"y" * (1 << 20)
        upgrade = b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n"
        kinds = [("127.0.0.1", 1080, b"CONNECT web.test:80 HTTP/1.1\\r\\nX: " + more), ("127.0.0.1", 1080, b"\\5\\xff" + b"\\1" * 100), ("127.0.0.1", 1080, b"\\5\\1\\0\\5\\1\\0\\3\\xff" + b"a" * 100),
                 ("web.test", 443, b"\\x16\\3\\1\\x40\\0\\1\\0\\x7f\\xff" + more), ("web.test", 443, (b"\\x16\\3\\1\\0\\1\\1" + b"\\x16\\3\\1\\0\\1\\0") * 10000), ("web.test", 80, b"GET /" + more),
                 ("web.test", 80, b"GET / HTTP/1.1\\r\\nX: " + b"y" * 30000), ("web.test", 80, b"GET / HTTP/1.1\\r\\n" + b"X: y\\r\\n" * 90), ("web.test", {DEAF}, GET * 30000), ("web.test", {DEAF}, upgrade + more),
                 ("web.test", {DEAF}, b"POST / HTTP/1.1\\r\\nHost: web.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n" + b"1\\r\\nx\\r\\n" * 100000), ("web.test", {DEAF}, b"\\1" + more), ("web.test", 80, b"\\r\\n" * 100000)]
        held = []
        def begin(i):
            host, port, data = kinds[i % len(kinds)]
            s = socket.create_connection((host, port), timeout=20)
            held.append(s)
            push(s, data)
        for n in range(10):
            at_once(begin, range(n * 48, n * 48 + 48))
        wait()
        [slam(s) for s in held]
        """)
    victim()
    if leave:
        attacker.leave()
    else:
        attacker.stop()


def test_handshakes_without_end(server, victim):
    """Where TLS is opened: broken off at each step, a byte at a time, with records that are none, begun anew in the middle; and those that go on for ever."""
    attacker = Attacker(server, [{**INJECT, "ports": [443, TLS_SILENT]}], f"""
        def hello(name="web.test"):
            outside = ssl.MemoryBIO()
            tls = context.wrap_bio(ssl.MemoryBIO(), outside, server_hostname=name)
            quietly(tls.do_handshake)
            return outside.read()
        def dialed(port=443):
            s = socket.create_connection(("web.test", port), timeout=20)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return s
        def byte_by_byte(s):
            for byte in hello():
                s.send(bytes([byte]))
            s.recv(1)
        def shaken(then):
            def go(s):
                t = context.wrap_socket(s, server_hostname="web.test")
                raw = socket.socket(fileno=t.detach())
                raw.sendall(then)
                while raw.recv(65536):
                    pass
            return go
        def waits(s):
            t = context.wrap_socket(s, server_hostname="web.test")
            t.sendall(b"POST / HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 1000000\\r\\n\\r\\n")
            quietly(t.sendall, bytes(100000))
        ways = [lambda s: (s.sendall(hello()), slam(s)), lambda s: (s.sendall(hello()), s.shutdown(socket.SHUT_WR), s.recv(99999)), lambda s: (s.sendall(hello()), s.recv(99999), s.sendall(os.urandom(5000)), s.recv(9)),
                lambda s: (s.sendall(hello()[:100]), s.shutdown(socket.SHUT_WR), s.recv(9)), lambda s: (s.sendall(hello("other.test")), s.recv(9)), lambda s: (s.sendall(hello() * 50), s.recv(99999), s.recv(9)), byte_by_byte,
                shaken(b"\\x17\\3\\3\\xff\\xff" + bytes(70000)), shaken(b"\\x17\\3\\3\\0\\x20" + bytes(32)), shaken(b"\\x15\\3\\3\\0\\2\\1\\x5a" * 100), shaken(b"\\x16\\3\\3\\x40\\0" + bytes(16384) * 10), waits]
        held = []
        def attack(i):
            s = dialed({TLS_SILENT} if i % 5 == 0 else 443)
            held.append(s.dup())
            s.settimeout(0.3)
            quietly(ways[i % len(ways)], s)
        def client(words, letter):
            with subprocess.Popen(["openssl", "s_client", "-connect", "web.test:443", "-servername", "web.test", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
                for i in range(20):
                    time.sleep(0.01)
                    p.stdin.write(letter + b"\\n")
                    p.stdin.flush()
                p.stdin.close()
                return p.stdout.read().count(b"RENEGOTIATING" if letter == b"R" else b"KEYUPDATE")
        for n in range(4):
            at_once(attack, range(n * 60, n * 60 + 60))
        say(at_once(lambda row: client(*row), [(["-tls1_3"], b"K"), (["-tls1_3"], b"k"), (["-tls1_2"], b"R")]))
        wait()
        [slam(s) for s in held]
        """)
    victim()
    attacker.stop()


def test_whole_connections_that_are_opened(server, victim):
    """As many as may be: each holds as much as it may, and waits. No other box lacks what these have."""
    attacker = Attacker(server, [{**INJECT, "ports": [443, 8443, LONG_CHAIN]}], f"""
        held = []
        def begin(i):
            t = in_tls(443)
            held.append(t)
            t.sendall((b"GET /echo/ HTTP/1.1\\r\\nHost: web.test\\r\\nX: " + b"y" * 30000, b"POST /echo/ HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 3000000\\r\\n\\r\\n" + bytes(1000000), GET * 250 + b"GET /")[i % 3])
        for n in range(8):
            at_once(begin, range(n * 20, n * 20 + 20))
        wait()
        """)
    victim()
    assert 32 <= attacker.figures()["open"] <= 128
    attacker.stop()


def test_resets_and_half_closes(server, victim):
    """In every state, from both sides, in both orders, while bytes are on their way."""
    attacker = Attacker(server, [ANY], """
        web = socket.gethostbyname("web.test")
        def attack(i):
            s = socket.create_connection((web, (7, 80, 9014, 9015)[i % 4]), timeout=20)
            s.settimeout(0.3)
            if i % 3 == 0:
                push(s, b"\\0" * (1 << 18))
            if i % 5 == 0:
                s.shutdown(socket.SHUT_WR)
            if i % 7 == 0:
                s.shutdown(socket.SHUT_RD)
            if i % 2 == 0:
                s.setblocking(True)
                s.recv(100)
            (slam if i % 11 else socket.socket.close)(s)
        at_once(attack, range(100))
        on()
        while goes_on():
            at_once(attack, range(100))
        """)
    victim()
    attacker.stop()


def test_questions_that_are_none(server, victim):
    """NUL, control characters and what is no name, by datagrams and connections that are never finished: none of it is in the audit, or keeps others from asking."""
    attacker = Attacker(server, [ANY], r"""
        def question(raw, kind=1):
            return struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + raw + struct.pack(">HH", kind, 1)
        def labels(*parts):
            return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"
        odd = [labels(b"a\0b", b"test"), labels(b"a\nb", b"test"), labels(b"\x1b[2J", b"test"), labels(b"a.b", b"test"), labels(b"a b", b"test"), labels(b'"},{"', b"test"), labels(bytes(range(1, 64)), b"test"),
               labels(*[b"a"] * 200), labels(*[b"x" * 63] * 5), b"\xc0\x0c", b"\x40" + b"x" * 64 + b"\0", b"\x3f", b"", labels("ä".encode(), b"test"), labels(b"ok", b"test") + bytes(100)]
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", 53))
        for n in range(3):
            for raw in odd:
                s.send(question(raw))
                s.send(question(raw, kind=255)[:random.randrange(1, 40)])
                s.send(os.urandom(300))
        held = []
        for i in range(300):
            t = socket.create_connection(("127.0.0.1", 53))
            held.append(t)
            quietly(t.sendall, (b"\2", b"\xff\xff" + bytes(1000), b"\0\x20" + question(labels(b"a", b"test"))[:9], b"\0\0" * 500)[i % 4])
        for i in range(600):
            s.send(question(labels(b"n%d" % i, b"test")))
        wait()
        """)
    victim()
    assert server.egress.descriptors() <= server.egress.fds + KEPT
    attacker.stop()
    told = [line["to"] for line in server.audit("network_name")]
    assert all(set(to) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.:") for to in told), told
    assert not any(ord(c) < 32 and c != "\n" for c in server.log())


@pytest.mark.more
def test_more_names_than_there_are_addresses(server, victim):
    """4096 of one box have one; then it gets no further ones, and others do."""
    attacker = Attacker(server, ["*.test"], r"""
        def ask(s, i):
            name = b"n%d" % i
            s.send(struct.pack(">HHHHHH", i, 0x100, 1, 0, 0, 0) + bytes([len(name)]) + name + b"\4test\0" + struct.pack(">HH", 1, 1))
            return s.recv(2000)[3] & 15
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", 53))
        s.settimeout(0.2)
        said = []
        for i in range(4200):
            while not isinstance(r := quietly(ask, s, i), int):
                pass
            said.append(r)
        say(said.count(0), said.count(2), said[4096:].count(0))
        wait()
        """)
    victim()
    assert attacker.stop() == [[4096, 104, 0]]


@pytest.mark.slow
def test_handshakes_that_nobody_finishes_end_by_themselves(server, victim):
    """Of a server that says nothing, and of a client: both are given up, and what they had is there again while they still wait."""
    attacker = Attacker(server, [{**INJECT, "ports": [443, TLS_SILENT]}], f"""
        held = [socket.create_connection(("web.test", (443, {TLS_SILENT})[i % 2]), timeout=60) for i in range(60)]
        outside = ssl.MemoryBIO()
        quietly(context.wrap_bio(ssl.MemoryBIO(), outside, server_hostname="web.test").do_handshake)
        hello = outside.read()
        for i, s in enumerate(held):
            s.sendall(hello if i % 4 else hello[:50])
        on()
        for s in held:
            quietly(lambda: [None for part in iter(lambda: s.recv(65536), b"")])
        say("over")
        wait()
        """)
    victim()
    until(lambda: "over" in attacker.now()["stdout"], "all of them are given up")
    until(lambda: attacker.figures()["open"] == 0, "and closed")
    assert attacker.stop() == ["over"]
