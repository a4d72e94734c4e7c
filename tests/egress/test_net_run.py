# SPDX-License-Identifier: Apache-2.0
"""`glovebox run --allow`: a box reaches what a rule names, and nothing else; refused means at once."""
import errno
import json

import pytest

from net import needs_root, world  # noqa: F401
from net_world import METADATA, OTHER, PRIVATE, PUBLIC, PUBLIC6

pytestmark = needs_root

UNREACHABLE, RESET, REFUSED = errno.ENETUNREACH, errno.ECONNRESET, errno.ECONNREFUSED


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_allowed_name_is_reached_and_no_other_is_asked_for(world):
    world.questions()
    done = world.run("""
        say(get("http://web.test/a?b"))
        say(get("http://other.test/"), get("http://nowhere.test/"), get("http://web.test.evil.test/"))
        """, allow=["web.test"])
    first, others = lines(done)
    assert (first["host"], first["path"], first["at"]) == ("web.test", "/a?b", PUBLIC)
    assert others == [UNREACHABLE] * 3
    assert world.questions() == ["web.test"]
    assert "refused other.test; --allow other.test allows it" in done.stderr


@pytest.mark.more
@pytest.mark.parametrize("where", [PUBLIC, OTHER, PRIVATE, METADATA, "8.8.8.8", "198.18.0.2", "198.18.1.77", "192.168.1.1", "255.255.255.255", "224.0.0.1",
                                   f"[{PUBLIC6}]", "[2001:db8::1]", "[fd00:ec2::254]", "[fe80::1]", "[::ffff:93.184.216.34]", "[64:ff9b::5db8:d822]"])
def test_an_address_without_a_rule_is_unreachable_at_once(world, where):
    done = world.run(f"""
        begin = time.monotonic()
        s = dial({where.strip("[]")!r}, 80)
        say(s if isinstance(s, int) else exchange({where.strip("[]")!r}, 80, b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"), time.monotonic() - begin < 5)
        """, allow=["web.test"])
    said, soon = lines(done)[0]
    assert soon
    # Addresses that stand for names have a route; one that stands for nobody is reset.
    assert said in ((UNREACHABLE, errno.EINVAL, errno.EACCES, errno.EHOSTUNREACH) if not where.startswith("198.18.") else (RESET, REFUSED, "reset", ""))


def test_names_that_lead_inside_are_refused(world):
    done = world.run("""
        say(get("http://inner.test/"), get("http://meta.test/"), get("http://loop.test/"))
        """, allow=["inner.test", "meta.test", "loop.test"])
    assert lines(done) == [[RESET] * 3]
    assert f"refused {PRIVATE}:80; --allow {PRIVATE}:80 allows it" in done.stderr


def test_a_name_and_its_address_are_both_allowed(world):
    assert lines(world.run('say(get("http://inner.test/"))', allow=["inner.test", PRIVATE]))[0]["at"] == PRIVATE


def test_of_several_addresses_the_allowed_one_is_taken(world):
    assert lines(world.run('say(get("http://many.test/"))', allow=["many.test"]))[0]["at"] == PUBLIC


@pytest.mark.more
def test_a_name_is_not_rebound(world):
    """It leads inside the second time: the box has the same address for it, and does not get there."""
    done = world.run("""
        say(get("http://turns.test/")["at"])
        time.sleep(6)
        say(get("http://turns.test/"))
        """, allow=["turns.test"])
    assert lines(done) == [PUBLIC, RESET]


def test_networks_and_ports(world):
    done = world.run(f"""
        say(get("http://{PRIVATE}/")["at"], get("http://{PUBLIC}/"), get("http://[{PUBLIC6}]/")["at"])
        say(get("http://web.test:80/")["at"], get("http://web.test:443/"))
        """, allow=["10.9.0.0/16:80", f"[{PUBLIC6}]", "web.test:80"])
    assert lines(done) == [[PRIVATE, UNREACHABLE, PUBLIC6], [PUBLIC, RESET]]


def test_deny_wins(world):
    done = world.run(f"""
        say(get("http://www.web.test/"), get("http://web.test/")["at"])
        say(get("http://{PRIVATE}/"))
        """, allow=["!www.web.test", "*.web.test", "web.test", "10.0.0.0/8", f"!{PRIVATE}"])
    assert lines(done) == [[UNREACHABLE, PUBLIC], UNREACHABLE]


def test_open_is_what_is_public(world):
    done = world.run(f"""
        say(get("http://web.test/")["at"], get("http://{OTHER}/")["at"], get("http://[{PUBLIC6}]/")["at"])
        say(get("http://{PRIVATE}/"), get("http://{METADATA}/"), get("http://inner.test/"), get("http://meta.test/"), get("http://[fd00:ec2::254]/"))
        """, "--network", "open")
    assert lines(done) == [[PUBLIC, OTHER, PUBLIC6], [UNREACHABLE, UNREACHABLE, RESET, RESET, UNREACHABLE]]


def test_open_and_what_is_named(world):
    done = world.run(f"""
        say(get("http://{PRIVATE}/")["at"], get("http://other.test/"), get("http://{OTHER}/"))
        """, "--network", "open", allow=[PRIVATE, "!other.test", f"!{OTHER}"])
    assert lines(done) == [[PRIVATE, UNREACHABLE, UNREACHABLE]]


def test_only_six(world):
    """A name with addresses of IPv6 only: the box sees one of IPv4, that stands for it."""
    assert lines(world.run('say(get("http://six.test/")["at"])', allow=["six.test"])) == [PUBLIC6]


def test_nobody_there(world):
    done = world.run("""
        say(get("http://dead.test/"), get("http://unknown.test/"))
        """, allow=["dead.test", "unknown.test"])
    assert lines(done)[0][1] == RESET and lines(done)[0][0] == RESET


# --- whom a request is for ------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("request_", [
    "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: web.test:81\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: web.test\r\nHost: other.test\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: web.test\r\n\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "GET http://other.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "GET / HTTP/1.1\nHost: other.test\n\n",
    "GET  /  HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "get / http/1.1\r\nHost: other.test\r\n\r\n",
    "\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : other.test\r\n\r\n",
    "GET / HTTP/1.1\r\nX: y\r\n Host: other.test\r\nHost: web.test\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: other.test\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: web.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
    "CONNECT other.test:80 HTTP/1.1\r\nHost: web.test\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: web.test\x00.other.test\r\n\r\n",
])
def test_http_for_somebody_else_is_cut(world, request_):
    said = lines(world.run(f"say(exchange('web.test', 80, {request_.encode('latin-1')!r}))", allow=["web.test"]))[0]
    assert "other.test" not in said.replace('"host": "web.test"', "")
    assert said == "reset" or said.count("HTTP/1.1 200") <= 1


def test_requests_one_after_the_other(world):
    done = world.run("""
        import http.client
        c = http.client.HTTPConnection("web.test", timeout=20)
        for i in range(3):
            c.request("POST" if i else "GET", f"/{i}", b"x" * 100000 if i == 1 else iter([b"abc", b"de"]) if i else None, encode_chunked=i == 2,
                      headers={"Transfer-Encoding": "chunked"} if i == 2 else {})
            answer = json.loads(c.getresponse().read())
            say(answer["path"], answer["bytes"])
        """, allow=["web.test"])
    assert lines(done) == [["/0", 0], ["/1", 100000], ["/2", 5]]


@pytest.mark.parametrize("name,reached", [("web.test", True), ("WEB.TEST.", True), (None, True), ("other.test", False), ("www.web.test", False)])
def test_tls_for_whom(world, name, reached):
    done = world.run(f"""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            s = context.wrap_socket(socket.create_connection(("web.test", 443), timeout=20), server_hostname={name!r})
            s.sendall(b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\nConnection: close\\r\\n\\r\\n")
            say(s.recv(65536).decode().split(" ")[1])
        except OSError as e:
            say(type(e).__name__)
        """, allow=["web.test"])
    assert (lines(done)[0] == "200") == reached


def test_a_hello_in_small_pieces(world):
    done = world.run("""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        inside, outside = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(inside, outside, server_hostname="web.test")
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        hello = outside.read()
        s = socket.create_connection(("web.test", 443), timeout=20)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(hello)):
            s.send(hello[i:i + 1])
        say(s.recv(1)[0])
        """, allow=["web.test"])
    assert lines(done) == [22]


def test_who_waits_for_the_server_first(world):
    done = world.run("""
        s = dial("web.test", 7)
        say(s.recv(100).decode())
        s.sendall(b"SSH-2.0-x\\r\\n" + bytes(range(256)))
        say(len(s.recv(1000)) > 0)
        """, allow=["web.test:7"])
    assert lines(done) == ["hello\n", True]


def test_much_both_ways(world):
    done = world.run("""
        import hashlib, threading
        n = 64 << 20
        s = dial("web.test", 9)
        s.sendall(b"\\0" * n)
        s.shutdown(socket.SHUT_WR)
        say(int(s.recv(100)) == n)
        s = dial("web.test", 7)
        s.recv(6)
        data = bytes(range(256)) * 4096
        sent, got = hashlib.sha256(), hashlib.sha256()

        def send():
            s.sendall(b"\\0")
            for _ in range(32):
                sent.update(data)
                s.sendall(data)
            s.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        s.recv(1)
        while part := s.recv(1 << 18):
            got.update(part)
        thread.join()
        say(sent.hexdigest() == got.hexdigest())
        """, allow=["web.test"])
    assert lines(done) == [True, True]


# --- asked for in words ------------------------------------------------------------------------------------------


def test_proxies(world):
    done = world.run("""
        import os
        def through(url, proxy):
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy}),
                                                 urllib.request.HTTPSHandler(context=ssl._create_unverified_context()))
            try:
                answer = json.loads(opener.open(url, timeout=20).read())
                return [answer["host"], answer["path"], answer["name"]]
            except urllib.error.HTTPError as e:
                return [e.code, e.read().decode()]
            except OSError as e:
                return str(e)
        say(through("http://web.test/x", "http://127.0.0.1:1080"))
        say(through("https://web.test/y", "http://127.0.0.1:1080"))
        say(through("http://other.test/", "http://127.0.0.1:1080"))
        say(through("https://other.test/", "http://127.0.0.1:1080"))
        """, allow=["web.test"])
    plain, secure, refused, tunnel = lines(done)
    assert plain == ["web.test", "/x", None] and secure == ["web.test", "/y", "web.test"]
    assert refused[0] == 403 and "other.test:80 is not allowed" in refused[1]
    assert "403 other.test:443 is not allowed by the network rules of this box" in tunnel


SOCKS = """
def socks(name, port=80, kind=3):
    s = socket.create_connection(("127.0.0.1", 1080), timeout=20)
    s.sendall(b"\\5\\1\\0")
    first = s.recv(2)
    raw = bytes([len(name)]) + name if kind == 3 else name
    s.sendall(b"\\5\\1\\0" + bytes([kind]) + raw + port.to_bytes(2, "big"))
    answer = s.recv(100)
    if answer[1:2] != b"\\0":
        return list(first), answer[1] if answer else "end"
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n")
    return list(first), s.recv(1000)[:12].decode()
"""


def test_socks(world):
    done = world.run(SOCKS + f"""
say(socks(b"web.test"))
say(socks(b"other.test"))
say(socks(b"web.test\\0.other.test"))
say(socks(b"other.test\\0.web.test"))
say(socks(b"0x5db8d822"))
say(socks(socket.inet_aton("{PUBLIC}"), kind=1))
say(socks(socket.inet_aton(socket.gethostbyname("web.test")), kind=1))
""", allow=["web.test"])
    reached, refused = [[5, 0], "HTTP/1.1 200"], [[5, 0], 2]
    said = lines(done)
    assert said[0] == reached and said[1] == refused and said[5] == refused and said[6] == reached
    assert all(row[1] != "HTTP/1.1 200" for row in said[2:5])


# --- names --------------------------------------------------------------------------------------------------------


ASK = """
import struct
def ask(name, kind, tcp=False, to="127.0.0.1"):
    query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in name.split(".")) + b"\\0" + struct.pack(">HH", kind, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(20)
    s.connect((to, 53))
    s.send((struct.pack(">H", len(query)) if tcp else b"") + query)
    answer = s.recv(2000)[2 if tcp else 0:]
    return [answer[3] & 15, struct.unpack(">H", answer[6:8])[0], ".".join(map(str, answer[-4:])) if kind == 1 else ""]
"""


def test_kinds_of_questions(world):
    world.questions()
    done = world.run(ASK + """
say(ask("web.test", 1), ask("WeB.tEsT", 1, tcp=True), ask("web.test", 1, to="198.18.9.9"))
say([ask("web.test", kind)[:2] for kind in (28, 5, 15, 16, 33, 65, 2, 6, 255)])
say(ask("0.1.18.198.in-addr.arpa", 12)[:2], ask("9.9.9.10.in-addr.arpa", 12)[:2], socket.gethostbyaddr("198.18.1.0")[0])
say(ask("other.test", 1), ask("a.very.long.tunnel.of.bytes.other.test", 16)[:2])
""", allow=["web.test"])
    said = lines(done)
    assert said[0] == [[0, 1, "198.18.1.0"]] * 3
    assert said[1][:-1] == [[0, 0]] * 8 and said[1][-1] == [0, 1]
    assert said[2] == [[0, 1], [3, 0], "web.test"]
    assert said[3] == [[0, 1, "192.0.2.1"], [0, 0]]
    assert world.questions() == []


def test_other_datagrams_are_refused(world):
    done = world.run("""
        def send(host, port):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                s.sendto(b"x", (host, port))
                return 0
            except OSError as e:
                return e.errno
        say(send(socket.gethostbyname("web.test"), 443), send("8.8.8.8", 443), send("8.8.8.8", 53), send("10.9.9.9", 123))
        """, allow=["web.test", PRIVATE])
    quic, public, dns, private = lines(done)[0]
    assert quic == errno.EPERM and private == errno.EPERM and public == dns == UNREACHABLE


# --- bounds, and what is said of bad rules -------------------------------------------------------------------------


@pytest.mark.more
def test_many_connections_are_bounded(world):
    done = world.run("""
        import resource
        open_, ended = [], 0
        for _ in range(700):
            s = dial("web.test", 7)
            if not isinstance(s, int):
                open_.append(s)
        for s in open_:
            try:
                ended += s.recv(6) != b"hello\\n"
            except OSError:
                ended += 1
        say(len(open_) - ended)
        for s in open_:
            s.close()
        time.sleep(0.5)
        say(dial("web.test", 7).recv(6).decode())
        """, "--open-files", "2000", allow=["web.test"])
    some, again = lines(done)
    assert 100 <= some <= 512 and again == "hello\n"


@pytest.mark.parametrize("rule", ["", "a b", "http://web.test", "*", "web.test:0", "1.2.3", "::1", "10.0.0.1/8"])
def test_a_rule_that_is_none(world, rule):
    done = world.run("", allow=[rule], status=125)
    assert "--allow" in done.stderr and repr(rule)[1:-1] in done.stderr and len(done.stderr.splitlines()) == 1


def test_none_has_nothing(world):
    done = world.run("""
        say(dial("web.test", 80) if False else [dial("127.0.0.1", port) for port in (1, 53, 1080)], get("http://93.184.216.34/"))
        try:
            socket.gethostbyname("web.test")
        except OSError as e:
            say(e.errno)
        """)
    ports, address = lines(done)[0]
    assert ports == [REFUSED] * 3 and address == UNREACHABLE
