# SPDX-License-Identifier: Apache-2.0
"""Ways out of a box that its rules do not know of: packets, addresses in disguise, names that lead elsewhere, and whatever two readers of one text could take
for different things. In the world outside there is a server behind each of them."""
import errno
import json
import signal
import subprocess
import textwrap
import time

import pytest

from conftest import program_path
from net import Net, needs_root, world  # noqa: F401
from net_villains import ODD, PASSES_ALERTS, UPGRADES
from net_world import ABSTRACT, INSIDE, INSIDE6, METADATA, OTHER, PRIVATE, PUBLIC, PUBLIC6, RESOLVER
from server import until
from test_net_inject import AUTHORIZATION, RULE, SEEN, TOKEN, settings
from test_net_run import ASK, SOCKS, lines

pytestmark = needs_root

UNREACHABLE, RESET = errno.ENETUNREACH, errno.ECONNRESET


@pytest.fixture(scope="module")
def shared(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacks")
    with Net(world, folder, **settings(world, folder)) as it:
        it.delete(it.box(network={"policy": "allow", "rules": ["web.test"]}))
        yield it


@pytest.fixture
def server(shared):
    yield shared
    shared.delete_all()


def box_with(server, *rules, policy="allow"):
    return server.box(network={"policy": policy, "rules": list(rules)})


def python(server, box, code):
    """What it prints: one value."""
    return server.python(box, SEEN + SOCKS + ASK + SPEAK + textwrap.dedent(code))[0]


def ends(server, box, n):
    """How its first connections ended, as the audit tells it."""
    found = until(lambda: [e for e in server.audit("network_connection") if e["box"] == box["id"]][n - 1:] and server.audit("network_connection"), f"{n} lines")
    return [(e["to"], e["end"]) for e in found if e["box"] == box["id"]]


# In a box: bytes as they are (none: their end), to the network or in TLS, and what comes back: all of it, or "reset" where that was none.
SPEAK = r"""
import errno, threading

def speak(*pieces, host="web.test", port=80, tls=False):
    got = b""
    try:
        s = socket.create_connection((host, port), timeout=20)
        if tls:
            s = ssl.create_default_context().wrap_socket(s, server_hostname=host)
        s.sendall(pieces[0])
        for piece in pieces[1:]:
            time.sleep(0.1)
            s.sendall(piece) if piece else s.shutdown(socket.SHUT_WR)
        while part := s.recv(65536):
            got += part
            if got.endswith(b"}"):
                break
    except OSError:
        pass
    return got.decode("latin-1") or "reset"

def at_once(fn, *lists):
    # One thread each, results in order.
    said = {}
    threads = [threading.Thread(target=lambda i=i, row=row: said.update({i: fn(*row)})) for i, row in enumerate(zip(*lists))]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return [said[i] for i in range(len(threads))]
"""

# --- packets -----------------------------------------------------------------------------------------------------

NEVER = [PRIVATE, METADATA, *INSIDE, "127.0.0.1", "127.9.9.9", "0.0.0.0", "192.0.0.192", "240.0.0.1", "224.0.0.1", "239.1.2.3", "255.255.255.255",
         *INSIDE6, "::1", "::", "fe80::1", "fec0::1", "ff02::1", "ff05::1:3", "::ffff:10.9.9.9", f"::ffff:{METADATA}", "::10.9.9.9", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]
# As numbers, because not every Python knows all of them: packets, ICMP, raw of any kind, vsock, Bluetooth, netfilter and others of netlink, and what is rare.
KINDS = [(17, 3, 0), (17, 2, 0), (2, 3, 1), (10, 3, 58), (2, 2, 1), (10, 2, 58), (2, 3, 255), (2, 3, 6), (2, 10, 0), (40, 1, 0), (40, 2, 0), (31, 3, 0), (31, 3, 1),
         (16, 3, 12), (16, 3, 4), (16, 3, 9), (16, 3, 15), (38, 5, 0), (15, 3, 2), (44, 3, 0), (30, 5, 0), (29, 3, 1), (33, 2, 2), (43, 1, 0), (2, 1, 132), (2, 5, 132),
         (2, 6, 33), (2, 2, 136), (3, 2, 0), (9, 5, 0), (5, 2, 0), (4, 2, 0), (8, 5, 0), (41, 2, 0), (42, 2, 0), (39, 5, 0), (36, 2, 0)]
PROBE = SPEAK + f"""
NEVER, OWN, KINDS, ABSTRACT = {NEVER}, ("127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::"), {KINDS}, {ABSTRACT!r}

def attempt(fn):
    try:
        return fn() or "done"
    except OSError as e:
        return errno.errorcode.get(e.errno, "late")

def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET

def reached(address, by_device):
    with socket.socket(family(address)) as s:
        s.settimeout(0.5)
        def fetch():
            if by_device:  # needs no route
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\\0")
            s.connect((address, 80))
            s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            return s.recv(100).decode()
        return attempt(fetch)

def datagram(address, port):
    with socket.socket(family(address), socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        return attempt(lambda: s.sendto(b"x", (address, port)) and "sent")

def unnamed():
    with socket.socket(socket.AF_UNIX) as s:
        return attempt(lambda: s.connect(ABSTRACT))

say([a for a, r in zip(NEVER * 2, at_once(reached, NEVER * 2, [False] * len(NEVER) + [True] * len(NEVER))) if not r.startswith("E") and r != "late"])
say([a for a in NEVER if a not in OWN for port in (80, 123, 443, 5353) if not datagram(a, port).startswith("E")])
say([k for k in KINDS if not attempt(lambda: socket.socket(*k).close()).startswith("E")])
say(unnamed())
"""


@pytest.mark.parametrize("policy,allow", [("none", []), ("allow", []), ("allow", ["web.test"]), ("open", []), ("learn", [])])
def test_no_packet_gets_anywhere(world, policy, allow):
    """With a route or without one, by TCP or anything else: no address that is not public, and no kind of socket that could ask for one."""
    done = world.run(PROBE, "--network", policy, allow=allow)
    assert lines(done) == [[], [], [], "ECONNREFUSED"]


def test_no_datagram_leaves_for_a_public_address(world):
    """QUIC, NTP, and a resolver that was asked for by its address: that one is egress, which answers by itself."""
    world.questions()
    done = world.run(PROBE.partition("\nsay(")[0] + ASK + f"""
say([datagram(a, port) for a in ("{PUBLIC}", "{PUBLIC6}", socket.gethostbyname("web.test")) for port in (443, 123, 3478)])
say(ask("tunnel.example.org", 1, to="{PUBLIC}"), ask("tunnel.example.org", 16, to="{PUBLIC}")[:2], ask("web.test", 1, to="{PUBLIC}"))
""", "--network", "allow", allow=["web.test", PUBLIC, f"[{PUBLIC6}]"])
    assert lines(done) == [["EPERM"] * 9, [[0, 1, "192.0.2.1"], [0, 0], [0, 1, "198.18.1.0"]]]
    assert world.questions() == []


def test_another_box_is_not_there(server):
    """Two that may reach everything public, one of which listens on all its addresses."""
    first, second = box_with(server, policy="open"), box_with(server, policy="open")
    status, started = server.call("POST", f"/v1/boxes/{first['id']}/commands", {"detach": True, "argv": ["/usr/bin/python3", "-c", textwrap.dedent(f"""
        import socket, time
        s = socket.create_server(("::", 7777), family=socket.AF_INET6, dualstack_ipv6=True)
        names = []
        for family, far in ((socket.AF_INET, "{PUBLIC}"), (socket.AF_INET6, "{PUBLIC6}")):
            with socket.socket(family, socket.SOCK_DGRAM) as d:
                d.connect((far, 53))
                names.append(d.getsockname()[0])
        print(" ".join(names), flush=True)
        while True:
            s.accept()[0].sendall(b"here")
        """)]})
    assert status == 202
    way = f"/v1/boxes/{first['id']}/commands/{started['id']}"
    own = until(lambda: server.call("GET", way)[1]["stdout"].split(), "it listens")
    assert len(own) == 2
    code = f"say([exchange(a, 7777, b'x') if not isinstance(dial(a, 7777), int) else 0 for a in {[*own, '127.0.0.1', '::1']}])"
    assert python(server, second, code) == [0] * 4
    assert python(server, second, f"say([speak(b'CONNECT %s:7777 HTTP/1.1\\r\\n\\r\\n' % a, host='127.0.0.1', port=1080)[9:12] for a in {[a.encode() for a in own[:1]]}])") == ["403"]


# --- metadata, and names that lead inside -----------------------------------------------------------------------


LEAD_INSIDE = ["metadata.google.internal", "meta.test", "alibaba.test", "azure.test", "aws6.test", "inner.test", "loop.test", "zero.test", "mapped.test", "nat64.test", "6to4.test",
               "loop6.test", "chain.test", "ttl.test", "forever.test"]


@pytest.mark.parametrize("policy,rules", [("open", []), ("learn", []), ("allow", [*LEAD_INSIDE, "*.internal"])])
def test_names_that_lead_inside(server, policy, rules):
    """Whatever they are called, by IPv4, IPv6, one in the other, or by other names: it is seen where they lead, when they are connected to."""
    box = box_with(server, *rules, policy=policy)
    assert python(server, box, f"say([get('http://%s/' % name) for name in {LEAD_INSIDE}])") == [RESET] * len(LEAD_INSIDE)
    assert ends(server, box, len(LEAD_INSIDE)) == [(f"{name}:80", "not_public") for name in LEAD_INSIDE]


def test_a_name_is_asked_about_each_time_it_is_connected_to(server):
    """By its address it is remembered, by its name it is looked up anew; its TTL is 0 and it leads inside every other time."""
    box = box_with(server, "flips.test")
    said = python(server, box, "say([get('http://flips.test/') for i in range(6)] + [speak(b'GET http://flips.test/ HTTP/1.1\\r\\nHost: flips.test\\r\\n\\r\\n', host='127.0.0.1', port=1080) for i in range(6)])")
    assert all(PRIVATE not in json.dumps(row) for row in said)
    assert any(PUBLIC in json.dumps(row) for row in said)


# Answers that are none to c-ares: it goes on waiting for another one.
IGNORED = ["number.test", "question.test", "garbage.test", "empty.test", "nobody.test"]


@pytest.mark.parametrize("names", [[name for name in ODD if name not in IGNORED], pytest.param(IGNORED, marks=pytest.mark.more)])
def test_answers_that_are_none(server, names):
    """Of a resolver that lies: what is for another question or no answer at all leads nowhere, chains end, and egress goes on."""
    pid = server.pid_of("egress")
    box = box_with(server, *names, "web.test")
    said = python(server, box, f"say(at_once(get, ['http://%s/' % name for name in {names}]), get('http://web.test/')['at'])")
    reached = {name: answer["at"] for name, answer in zip(names, said[0]) if isinstance(answer, dict)}
    assert said[1] == PUBLIC and reached == {name: PUBLIC for name in names if name in ("cname.test", "both.test")}
    assert server.pid_of("egress") == pid


# --- names as a way out ------------------------------------------------------------------------------------------


def test_questions_do_not_leave(world):
    """Not for names without a rule, in any type, by any way; and not for those with one: they are looked up only when somebody connects."""
    world.questions()
    done = world.run(ASK + r"""
data = ["c2VjcmV0" * 7 + "abcdefg", ".".join(["c2VjcmV0"] * 27), ".".join("a" * 120), "x" * 63 + "." + "y" * 63 + "." + "z" * 63]
for name in data:
    for kind in (1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 64, 65, 99, 252, 255, 256, 65280):
        for where in (".other.test", ".wild.test"):
            ask(name + where, kind, tcp=kind == 16)
say(ask("web.test", 1), ask(data[0] + ".wild.test", 1)[2])
""", allow=["web.test", "*.wild.test"])
    assert lines(done) == [[[0, 1, "198.18.1.0"], "198.18.1.1"]] or lines(done)[0][0][:2] == [0, 1]
    assert world.questions() == []


def test_what_leaves_by_a_wildcard_is_bounded(world):
    """Who allows *.wild.test allows to tell its owner something: as much as there are connections, 1000 and 200 a second."""
    world.questions()
    done = world.run("""
        begin = time.monotonic()
        for i in range(1500):
            name = b"%d.wild.test" % i
            try:
                with socket.create_connection(("127.0.0.1", 1080)) as s:
                    s.sendall(b"\\5\\1\\0\\5\\1\\0\\3" + bytes([len(name)]) + name + b"\\0\\x09")
                    while len(s.recv(100)) == 2:
                        pass
            except OSError:
                pass
        say(time.monotonic() - begin)
        """, allow=["*.wild.test:9"])
    asked = len(world.questions())
    assert 0 < asked <= 1000 + 200 * (lines(done)[0] + 1) + 1


def test_what_is_refused_ends_nobody_who_does_not_listen(world):
    """A box has refused what it likes, far more often than can wait for a command that stands still; afterwards that goes on."""
    words = world.inside(program_path(), "run", "--resolver", RESOLVER, "--allow", "*.wild.test:9", "-c", textwrap.dedent("""
        import socket
        print("begun", flush=True)
        for i in range(2000):
            name = b"%d.not.test" % i
            try:
                with socket.create_connection(("127.0.0.1", 1080)) as s:
                    s.sendall(b"\\5\\1\\0\\5\\1\\0\\3" + bytes([len(name)]) + name + b"\\0\\x09")
                    while len(s.recv(100)) == 2:
                        pass
            except OSError:
                pass
        print("done")
        """))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, b"done\n"), err


# --- who asks in words -------------------------------------------------------------------------------------------


# What some readers take for PRIVATE, METADATA, this machine, or for web.test, and others for something else.
DISGUISED = [b"10.9.9.9", b"0x0a090909", b"0xa.0x9.0x9.0x9", b"012.011.011.011", b"168364297", b"10.9.2313", b"10.592137", b"0", b"127.1", b"2130706433", b"017700000001", b"localhost",
             b"10.9.9.9.", b"10.9.9.09", b"10.9.9.9%00.web.test", b"10.9.9.9\0.web.test", b"web.test\0", b"web.test\0.inner.test", b"inner.test\0.web.test", b"web.test@10.9.9.9",
             b"user@web.test", b"user:word@web.test", b"web.test:80@inner.test", b"web.test#inner.test", b"inner.test/.web.test", b"web.test\\inner.test", b"web.test%2einner.test",
             b"web.test inner.test", b"web.test\tinner.test", b"web.test\r\nHost: inner.test", b"web..test", b".web.test", b"web.test..", b"*.test", b"%77eb.test", b"w\x01eb.test", b"-",
             "ⓦeb.test".encode(), "１０.９.９.９".encode(), "10。9。9。9".encode(), "wеb.test".encode(), "bücher.test".encode(), b"xn--\xff.test", b"a" * 64 + b".test", b"a." * 127 + b"t",
             b"[::ffff:10.9.9.9]", b"::ffff:10.9.9.9", b"::ffff:0a09:0909", b"[::1]", b"[fd00:ec2::254]", b"[::ffff:169.254.169.254]", b"[fe80::1%25lo]", b"[0:0:0:0:0:ffff:a09:909]"]


@pytest.mark.parametrize("policy,rules", [("open", []), ("allow", ["web.test", "*.web.test", "*.test"])])
def test_names_and_addresses_in_disguise(server, world, policy, rules):
    """By SOCKS, CONNECT and a whole URL. What is not strictly a name or an address is none, and nobody is asked for it."""
    box = box_with(server, *rules, policy=policy)
    world.questions()
    said = python(server, box, f"""
        DISGUISED = {DISGUISED}
        def in_url(name):
            return speak(b"GET http://" + name + b"/ HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n", host="127.0.0.1", port=1080)
        def by_connect(name):
            return speak(b"CONNECT " + name + b":80 HTTP/1.1\\r\\n\\r\\n", host="127.0.0.1", port=1080)
        say([(socks(name)[1] if len(name) < 256 else 0, by_connect(name)[:12], in_url(name)[:12]) for name in DISGUISED])
        """)
    assert [(name, row) for name, row in zip(DISGUISED, said) if any("200" in str(answer) for answer in row)] == []
    assert set(world.questions()) <= {"inner.test", "-"}


def test_addresses_that_proxies_are_asked_for(server):
    """IPv4 in IPv6 is IPv4, for what is allowed and for what is not."""
    box = box_with(server, f"!{OTHER}", policy="open")
    assert python(server, box, f"""
        def by_connect(address):
            return speak(b"CONNECT %s:80 HTTP/1.1\\r\\n\\r\\n" % address.encode() + b"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n", host="127.0.0.1", port=1080)[9:12]
        six = ["::ffff:{PUBLIC}", "{PUBLIC6}", "::ffff:{OTHER}", "::ffff:{PRIVATE}", "::ffff:{METADATA}", "fd00:ec2::254", "::1", "::", "::{PRIVATE}"]
        four = ["{PUBLIC}", "{OTHER}", "{PRIVATE}", "{METADATA}", "127.0.0.1", "0.0.0.0", "198.18.1.77"]
        say([socks(socket.inet_pton(socket.AF_INET6, a), kind=4)[1] for a in six], [socks(socket.inet_aton(a), kind=1)[1] for a in four], [by_connect(f"[{{a}}]") for a in six], [by_connect(a) for a in four])
        """) == [["HTTP/1.1 200"] * 2 + [2] * 7, ["HTTP/1.1 200"] + [2] * 6, ["200"] * 2 + ["403"] * 7, ["200"] + ["403"] * 6]


def test_one_name_in_several_forms(server):
    """Case and the dot at the end make no difference, neither in rules nor in requests; other alphabets have one form."""
    box = box_with(server, "Web.Test.", "XN--Bcher-KVA.test", "!*.WEB.test.")
    assert python(server, box, """
        request = b"GET / HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n"
        def by_connect(name):
            return speak(b"CONNECT %s:80 HTTP/1.1\\r\\n\\r\\n" % name + request % name, host="127.0.0.1", port=1080).count(" 200 ")
        def by_name(name):
            return speak(request % name, host=name.decode()).count(" 200 ")
        forms = [b"web.test", b"WEB.TEST", b"wEb.TeSt.", b"xn--bcher-kva.test", b"XN--BCHER-KVA.TEST."]
        say([by_name(name) for name in forms], [by_connect(name) for name in forms], [socks(name)[1] for name in forms[:3]], [socks(b"WWW.web.TEST.")[1], socks(b"www.web.test")[1]])
        """) == [[1] * 5, [2] * 5, ["HTTP/1.1 200"] * 3, [2, 2]]


@pytest.mark.parametrize("network", [{"policy": "allow"}, {"policy": "allow", "rules": []}, {"policy": "allow", "rules": ["!web.test"]}])
def test_no_rule_is_no_network(server, world, network):
    box = server.box(network=network)
    world.questions()
    code = f"say([get(u) for u in ('http://web.test/', 'http://{PUBLIC}/', 'http://[{PUBLIC6}]/')], socks(b'web.test')[1], [socks(socket.inet_aton(a), kind=1)[1] for a in ('{PUBLIC}', '{PRIVATE}')])"
    assert python(server, box, code) == [[UNREACHABLE] * 3, 2, [2, 2]]
    box = box_with(server, "web.test")
    assert server.call("PUT", f"/v1/boxes/{box['id']}/network", network)[0] == 200
    assert python(server, box, code) == [[UNREACHABLE] * 3, 2, [2, 2]]
    assert world.questions() == []


@pytest.mark.parametrize("policy,rules", [("allow", ["*.test", "!other.test", "0.0.0.0/0", f"!{PRIVATE}", "![2000::]/3"]), ("allow", [f"!{PRIVATE}", "![2000::]/3", "!OTHER.test.", "*.test", "0.0.0.0/0"]),
                                          ("open", ["!other.test", f"!{PRIVATE}", PRIVATE, f"![{PUBLIC6}]", f"[{PUBLIC6}]"])])
def test_a_rule_that_denies_wins(server, policy, rules):
    """In whatever order, by whatever way; also for who connects to the address and then says the name."""
    box = box_with(server, *rules, policy=policy)
    assert python(server, box, f"""
        urls = ["http://other.test/", "http://inner.test/", "http://six.test/", "http://{PRIVATE}/", "http://[{PUBLIC6}]/"]
        say([isinstance(get(url), dict) for url in urls], socks(b"OTHER.test.")[1], [socks(socket.inet_pton(socket.AF_INET6, a), kind=4)[1] for a in ("::ffff:{PRIVATE}", "{PUBLIC6}")],
            get("http://web.test/")["at"])
        """) == [[False] * 5, 2, [2, 2], PUBLIC]


def test_a_name_that_is_denied_is_denied_by_its_address(server):
    """Who finds its address elsewhere may connect to that, and may not ask for the name."""
    box = box_with(server, "!other.test", policy="open")
    assert python(server, box, f"""
        request = b"GET / HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n"
        context = ssl._create_unverified_context()
        def shakes(name):
            try:
                with socket.create_connection(("{OTHER}", 443), timeout=20) as s, context.wrap_socket(s, server_hostname=name) as t:
                    return t.version()[:3]
            except OSError:
                return "reset"
        say([speak(request % name, host="{OTHER}")[:12] for name in (b"web.test", b"other.test", b"Other.Test.:80", b"{OTHER}")], [shakes(name) for name in ("web.test", "other.test", None)])
        """) == [["HTTP/1.1 200", "reset", "reset", "HTTP/1.1 200"], ["TLS", "reset", "TLS"]]


# --- HTTP ----------------------------------------------------------------------------------------------------------


HEAD = b"Host: other.test\r\nConnection: close\r\n\r\n"
# What lenient servers take for a request of HTTP, and who waits for one that is whole and tidy does not.
UNTIDY = {
    "a version that comes late": [b"GET /" + b"a" * 9000, b" HTTP/1.1\r\n" + HEAD],
    "a long method": [b"G" * 9000, b" / HTTP/1.1\r\n" + HEAD],
    "a form feed": [b"GET\x0c/ HTTP/1.1\r\n" + HEAD],
    "a vertical tab in front": [b"\x0bGET / HTTP/1.1\r\n" + HEAD],
    "separators": [b"GET\x1c/\x1dHTTP/1.1\r\n" + HEAD],
    "a control character": [b"GET /\x01 HTTP/1.1\r\n" + HEAD],
    "a NUL": [b"GET /\0 HTTP/1.1\r\n" + HEAD],
    "space in front": [b"  \r\n \t GET /\x02 HTTP/1.1\r\n" + HEAD],
    "no version": [b"GET http://other.test/\r\n\r\n"],
    "no version and a tab": [b"GET\thttp://other.test/ \r\n" + HEAD],
    "no version, slowly": [b"GE", b"T http://other", b".test/\r\n\r\n"],
    "no version and no line": [b"GET http://other.test/", b""],
    "no end of the line": [b"GET http://other.test/ HTTP/1.1", b""],
}


@pytest.mark.parametrize("what", UNTIDY)
def test_requests_that_are_not_tidy(server, what):
    """The server in this world takes most of them; they do not get there, whoever they are for."""
    box = box_with(server, "web.test", {"host": "web.test", "methods": ["DELETE"], "deny": True})
    ways = [UNTIDY[what], [piece.replace(b"other.test", b"web.test") for piece in UNTIDY[what]]]
    assert python(server, box, f"say([speak(*way) for way in {ways}])") == ["reset", "reset"]


# Some of these have words in them that HTTP has, too, or begin nearly as TLS does.
OTHERS = [b"SSH-2.0-x\r\n", b"EHLO x\r\n", b"get /key\r\n", b"*1\r\n$4\r\nPING\r\n", b"003egit-upload-pack /x.git\0host=web.test\0", b"\0\0\0\x08\x04\xd2\x16\x2f", b"\x80\x2e\0\0", b"\x15\x02", b"l\0\x0b\0",
          b"\x13BitTorrent protocol", b"CONNECT {}\r\n", b"DESCRIBE rtsp://web.test/x RTSP/1.0\r\n", b"x" * 9000 + b"=" * 9000, b"<?xml version='1.0'?>\n", b"A" * 100 + b"\n"]


def test_what_is_neither_http_nor_tls_goes_on(server):
    box = box_with(server, "web.test:7")
    assert python(server, box, f"""
        def echoed(first):
            s = dial("web.test", 7)
            s.sendall(first)
            got = b""
            while len(got) < 6 + len(first):
                got += s.recv(65536)
            return got[6:] == first
        say([echoed(first) for first in {OTHERS}])
        """) == [True] * len(OTHERS)


WS = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
PROTOCOLS = ["websocket", "WebSocket", "h2c", "websocket, h2c", "h2c,websocket", "websocket,", "websocket/13", "TLS/1.0, websocket", "h2c\r\nUpgrade: websocket"]


def test_protocols_to_change_to(server):
    """A WebSocket, and nothing else in its company: what follows would be requests that nobody reads."""
    box = box_with(server, "web.test")
    assert python(server, box, f"""
        def changed(to):
            s = dial("web.test", {UPGRADES})
            s.sendall(("GET / HTTP/1.1\\r\\nHost: web.test\\r\\n" + {WS!r} + "Upgrade: " + to + "\\r\\n\\r\\n").encode())
            try:
                return s.recv(1000).decode()[9:12]
            except OSError:
                return "reset"
        say([changed(to) for to in {PROTOCOLS}])
        """) == ["101", "101"] + ["reset"] * 7


POST = "POST /x HTTP/1.1\r\nHost: web.test\r\n"
INNER = "DELETE /y HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n"
CODED = "Transfer-Encoding: chunked\r\n\r\n"
# What ends the body of a request for one reader, and not for another one.
SMUGGLED = [
    "Content-Length: 5\r\n" + CODED + "0\r\n\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "Content-Length: 0\r\nContent-Length: 99\r\n\r\n", "Content-Length: 0, 99\r\n\r\n",
    "Content-Length: +0\r\n\r\n", "Content-Length: 0x0\r\n\r\n", "Content-Length: -1\r\n\r\n", "Content-Length:\r\n\r\n", "Content-Length: 0 \r\n\r\n", "Content-Length:\t0\r\n\r\n", "Content-Length : 99\r\n\r\n",
    "Content-Length: 18446744073709551616\r\n\r\n", "X: y\r\n Content-Length: 99\r\n\r\n", "X: y\nContent-Length: 99\r\n\r\n", "X: y\rContent-Length: 99\r\n\r\n",
    "Transfer-Encoding: identity\r\n" + CODED + "0\r\n\r\n", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: identity\r\n\r\n", "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n", 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n', CODED + "0;x\r\n\r\n", CODED + "0\n\n", CODED + "0\r\nX: y\r\n\r\n",
    CODED + "10000000000000000\r\n", CODED + " 0\r\n\r\n", CODED + "0x0\r\n\r\n", "Expect: 100-continue, x\r\n\r\n"]


@pytest.mark.parametrize("tls", [False, True])
def test_requests_hidden_in_others(server, tls):
    """What a server could take for a second request is not there, or is asked about: in the clear, and in TLS that is opened."""
    rule = {**RULE, "methods": ["POST"], "inject": {**AUTHORIZATION, "redact": False}} if tls else {"host": "web.test", "methods": ["POST"]}
    whole = [(POST + way + INNER).encode("latin-1") for way in [*SMUGGLED, "Content-Length: 2\r\n\r\nxx", CODED + "0\r\n\r\n"]]
    said = python(server, box_with(server, rule), f"say(at_once(lambda data: speak(data, port={443 if tls else 80}, tls={tls}), {whole}))")
    assert [(data, answer) for data, answer in zip(whole, said) if '"DELETE"' in answer or answer.count("HTTP/1.1 200") > 1] == []


def test_headers_that_look_alike(server):
    """To servers that have headers as variables X_HTTP_Method_Override is what it is with dashes."""
    names = ["X_HTTP_Method_Override", "X-HTTP_Method-Override", "x_http_method", "X.Original.URL", "X_Rewrite-Url"]
    requests = [(POST + name + ": DELETE\r\n\r\n").encode() for name in names]
    assert python(server, box_with(server, {"host": "web.test", "methods": ["POST"]}), f"say([speak(request)[9:12] for request in {requests}])") == ["403"] * len(names)


# --- TLS -----------------------------------------------------------------------------------------------------------


# In a box: hellos that Python would not say, and what comes back of them.
HELLOS = r"""
import struct

def hello_of(name):
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl._create_unverified_context().wrap_bio(inside, outside, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outside.read()

def with_extension(hello, kind, body):
    # Behind the others, and all lengths as they must be then.
    more = struct.pack(">HH", kind, len(body)) + body
    message, at = hello[9:], 34
    at += 1 + message[at]
    at += 2 + struct.unpack(">H", message[at:at + 2])[0]
    at += 1 + message[at]
    message = message[:at] + struct.pack(">H", len(message) - at - 2 + len(more)) + message[at + 2:] + more
    return b"\x16\3\1" + struct.pack(">H", len(message) + 4) + b"\1\0" + struct.pack(">H", len(message)) + message

def named(raw, kind=0, times=1):
    # One that has these for names.
    entry = bytes([kind]) + struct.pack(">H", len(raw)) + raw
    return with_extension(hello_of(None), 0, struct.pack(">H", len(entry) * times) + entry * times)

def begins(first, port=443):
    # The kind of the record that comes back.
    try:
        with socket.create_connection(("web.test", port), timeout=20) as s:
            s.sendall(first)
            return s.recv(1)[0]
    except (OSError, IndexError):
        return "reset"

def asked_for(first, name, port):
    # Whom the server has been asked for, behind some bytes.
    inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ssl._create_unverified_context().wrap_bio(inside, outside, server_hostname=name)
    s = socket.create_connection(("web.test", port), timeout=20)
    def until_done(step, *words):
        while True:
            try:
                return step(*words)
            except ssl.SSLWantReadError:
                s.sendall(outside.read())
                inside.write(s.recv(65536) or b"?")
    try:
        s.sendall(first)
        until_done(tls.do_handshake)
        tls.write(b"?")
        return until_done(tls.read, 65536).decode().rpartition("\n")[2]
    except OSError:
        return "reset"
"""


def test_records_in_front_of_a_hello(server):
    """There are servers that pass over them; they would be asked for another name than we have seen. One has a hello of SSL 2 in front."""
    firsts = [b"", b"\x15\3\1\0\2\1\x5a", b"\x15\3\1\0\2\1\x70" * 3]
    others = [b"\x14\3\3\0\1\1", b"\x17\3\3\0\0", b"\x18\3\3\0\0", b"\x16\3\1\0\0", b"\x16\3\1\0\4\0\0\0\0", b"\x80\x1f\1\3\3\0\6\0\0\0\x10\0\0\x2f\0\0\x35" + bytes(16)]
    assert python(server, box_with(server, "web.test"), HELLOS + f"say([asked_for(first, name, {PASSES_ALERTS}) for first in {firsts} for name in ('web.test', 'other.test')], "
                  f"[begins(first + hello_of('other.test')) for first in {others}])") == [['["web.test"]'] + ["reset"] * 5, ["reset"] * 6]


def test_hellos_with_other_names_in_them(server):
    """Encrypted, with NUL, twice, of another kind: whoever reads it as web.test may not be the one who answers."""
    assert python(server, box_with(server, "web.test"), HELLOS + r"""
say([begins(named(raw)) for raw in (b"web.test", b"WEB.test")],
    [begins(named(raw)) for raw in (b"other.test", b"web.test\0.other.test", b"web.test\0", b"other.test\0web.test", b"", b"web.test\n", b"web%2etest", b"93.184.216.35", "ⓦeb.test".encode(), b".web.test", b"*.test")],
    [begins(named(b"web.test", times=2)), begins(named(b"web.test", kind=1)), begins(with_extension(hello_of("web.test"), 0, b"\0\x0d\0\0\x0aother.test"))],
    [begins(with_extension(hello_of("web.test"), 0xfe0d, b"\0\0\1\0\1\0\0\x20" + bytes(32) + b"\0\x10" + bytes(16))), begins(with_extension(hello_of("web.test"), 0xfe0d, b""))],
    begins(with_extension(hello_of("web.test"), 0xabab, b"x")))
""") == [[22, 22], ["reset"] * 11, ["reset"] * 3, ["reset", "reset"], 22]


ASKED = r"""
def asked(connected, shaken, host, target="/echo/"):
    try:
        s = socket.create_connection(("127.0.0.1", 1080) if PROXY else (connected, 443), timeout=20)
        if PROXY:
            s.sendall(f"CONNECT {connected}:443 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            s.recv(100)
        with ssl._create_unverified_context().wrap_socket(s, server_hostname=shaken) as t:
            t.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            got = b""
            while part := t.recv(65536):
                got += part
        return "with" if b"sk-inject" in got else got.decode()[9:12] or "reset"
    except OSError:
        return "reset"
web, other, www = "web.test", "other.test", "www.web.test"
say([asked(web, web, web), asked(web, None, web), asked(web, web, "WEB.test.:443"), asked(other, other, other)],
    [asked(*names) for names in ((web, web, other), (web, other, web), (web, other, other), (web, web, www), (web, None, other), (web, web, "web.test:80"), (web, web, "web.test\r\nHost: other.test"),
                                 (web, web, "web.test, other.test"), (web, web, ""), (other, web, web), (web, web, web, "https://other.test/"), (web, web, web, "/\0"))])
"""


@pytest.mark.parametrize("proxy", [False, True])
def test_three_names_are_one(server, proxy):
    """The one that was connected to, that of TLS, and, where that is opened, that of the request."""
    box = box_with(server, {**RULE, "inject": {**AUTHORIZATION, "redact": False}}, "other.test:443", "www.web.test:443")
    assert python(server, box, f"PROXY = {proxy}\n" + ASKED) == [["with", "with", "with", "200"], ["reset"] * 12]


# --- secrets -------------------------------------------------------------------------------------------------------


# Headers by which a client could have its own word beside ours, or in place of it; the first ones are let through without it.
TRICKS = ["x-kEY: mine", "X-KEY: mine\r\nX-Key: mine", "X_Key: mine", "x_kEY: mine", "X.Key: mine", "X-Key:mine", "X-Key:", "Connection: X-Key", "Connection: close, x-key",
          "X-Key : mine", "X-Key\t: mine", " X-Key: mine", "A: b\r\n X-Key: mine", "A: b\r\n\tmine", "A: b\rX-Key: mine", "A: b\nX-Key: mine", "A: b\0\r\nX-Key: mine", ": mine", "X-Key", "\x0bX-Key: mine", "X-Key\0: mine",
          "X-Këy: mine", "\ufeffX-Key: mine"]


def test_there_is_one_header_and_it_is_ours(server):
    """A request that a server could read otherwise is refused, or goes on without what the client has said."""
    box = box_with(server, {**RULE, "inject": {"header": "X-Key", "secret": "web", "redact": False}})
    requests = [f"GET /echo/ HTTP/1.1\r\nHost: web.test\r\n{trick}\r\n\r\n".encode() for trick in TRICKS] + [b"\r\nGET /echo/ HTTP/1.1\r\nHost: web.test\r\n\r\n"]
    said = python(server, box, f"say(at_once(lambda request: speak(request, port=443, tls=True).rpartition('\\n')[2], {requests}))")
    assert [answer == "reset" for answer in said] == [False] * 9 + [True] * 14 + [False]
    for headers in [json.loads(answer)["headers"] for answer in said if answer != "reset"]:
        assert [value for name, value in headers if "key" in name.lower()] == [TOKEN] and "mine" not in json.dumps(headers)


def test_a_part_or_a_compressed_form_of_an_answer(server):
    """Not of answers to other requests of that connection either: a server may tell there what it was told before."""
    box = box_with(server, {**RULE, "paths": ["/echo/with"], "inject": AUTHORIZATION}, "web.test")
    assert python(server, box, """
        heads = b"Host: web.test\\r\\nAccept-Encoding: gzip\\r\\nTE: gzip\\r\\nRange: bytes=0-3\\r\\nIf-Range: x\\r\\n"
        said = speak(b"GET /echo/with HTTP/1.1\\r\\n" + heads + b"\\r\\nGET /echo/gzip HTTP/1.1\\r\\n" + heads + b"Connection: close\\r\\n\\r\\n", port=443, tls=True)
        say(said.count("HTTP/1.1 200"), "Range" in said, "gzip" in said, said.count("uthorization"), "sk-inject" in said)
        """) == [2, False, False, 1, False]


def test_methods_that_tell_what_they_were_sent(server):
    """TRACE, and a redirection to where there is no TLS: nothing of it is read, and nothing is sent in the clear."""
    said = python(server, box_with(server, {**RULE, "inject": AUTHORIZATION}, "web.test:80"), """
        say(fetch("https://web.test/echo/", method="TRACE")[0], seen("https://web.test/echo/redirect?http://web.test/echo/"))
        """)
    assert '"Bearer ****' in said[0] and TOKEN not in said[0] and "authorization" not in said[1] and said[1]["host"] == "web.test"


def test_what_is_told_elsewhere(server):
    """Refusals in words, metrics, figures and the audit, of requests that had it, or nearly had it."""
    box = box_with(server, {**RULE, "ports": [443, 8443], "methods": ["GET"], "inject": AUTHORIZATION})
    said = python(server, box, """
        say(fetch("https://web.test:8443/echo/"), fetch("https://web.test/echo/", method="POST", body=b"x"), speak(b"GET /echo/ HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n", port=443, tls=True),
            fetch("https://web.test/echo/always-gzip"), fetch("https://web.test/echo/cut"))
        """)
    assert [said[0][0], said[1][0], said[2]] == [502, 403, "reset"]
    ends(server, box, 5)
    texts = [json.dumps(said), server.request("GET", "/metrics")[2].decode(), json.dumps(server.call("GET", f"/v1/boxes/{box['id']}")[1]), json.dumps(server.audit("network_connection")), server.log()]
    assert [text for text in texts if TOKEN in text or json.dumps(TOKEN)[1:-1] in text] == []
