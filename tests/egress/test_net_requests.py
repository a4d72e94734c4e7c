# SPDX-License-Identifier: Apache-2.0
"""Rules as objects: ports, protocols, and which requests of HTTP may be made."""
import errno
import textwrap

import pytest

from net import needs_root, server, shared, world  # noqa: F401
from net_world import OTHER, PRIVATE, PUBLIC
from server import until

pytestmark = needs_root

# In a box: a request by any method, as (status, what was seen of it), or "reset".
ASK = r"""
def ask(method, path, host="web.test", port=80, at=None, **headers):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items())]
    said = exchange(at or host, port, ("\r\n".join(lines) + "\r\n\r\n").encode())
    if not said.startswith("HTTP/1."):
        return said
    head, _, body = said.partition("\r\n\r\n")
    status = int(head.split()[1])
    return [status, json.loads(body)["method"] + " " + json.loads(body)["path"]] if status == 200 else [status, body.strip()]

def secure(host):
    context = ssl._create_unverified_context()
    try:
        with socket.create_connection((host, 443), timeout=20) as s, context.wrap_socket(s, server_hostname=host) as t:
            return t.version()[:3]
    except (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return "reset"

def speaks(host, port, first):
    try:
        with socket.create_connection((host, port), timeout=20) as s:
            s.sendall(first)
            return s.recv(100).decode("latin-1").strip()
    except ConnectionResetError:
        return "reset"
"""


def asks(server, box, code):
    return server.python(box, ASK + textwrap.dedent(code))


def box_with(server, *rules, policy="allow"):
    return server.box(network={"policy": policy, "rules": list(rules)})


def refused(method, path, host="web.test"):
    return [403, f"glovebox: {method} {path} at {host}:80 is not allowed by the network rules of this box"]


def test_what_was_written_is_told_again(server):
    rules = ["web.test", "web.test:443", "!10.0.0.0/8",
             {"host": "*.web.test", "ports": [443, "8000-8080"], "protocol": "tls"},
             {"cidr": "10.1.0.0/16", "ports": [5432], "protocol": "http"},
             {"cidr": "[2001:db8::]/32", "methods": ["GET", "HEAD"]},
             {"host": "web.test", "methods": ["GET", "POST"], "paths": ["/api", "/v1/"]},
             {"host": "web.test", "paths": ["/admin"], "deny": True}]
    box = box_with(server, *rules)
    assert box["network"]["rules"] == rules
    assert server.call("GET", f"/v1/boxes/{box['id']}")[1]["network"]["rules"] == rules


def test_what_a_text_says_is_told_as_a_text(server):
    rules = [{"rule": "web.test:443"}, {"host": "web.test"}, {"host": "Web.Test.", "ports": [80]}, {"cidr": "2001:db8::/32"}, {"cidr": "10.0.0.1", "deny": True},
             {"host": "web.test", "ports": ["80-81"], "protocol": "any", "methods": [], "paths": [], "deny": False}]
    assert box_with(server, *rules)["network"]["rules"] == ["web.test:443", "web.test", "web.test:80", "[2001:db8::]/32", "!10.0.0.1", "web.test:80-81"]


@pytest.mark.parametrize("rule,field", [
    ({}, ""),
    (1, ""),
    (None, ""),
    ([], ""),
    ({"host": "web.test", "cidr": "10.0.0.1"}, ""),
    ({"host": "a b"}, ".host"),
    ({"host": "10.0.0.1"}, ".host"),
    ({"host": "web.test:80"}, ".host"),
    ({"cidr": "web.test"}, ".cidr"),
    ({"cidr": "10.0.0.1/8"}, ".cidr"),
    ({"cidr": "::1/129"}, ".cidr"),
    ({"host": "web.test", "ports": [0]}, ".ports[0]"),
    ({"host": "web.test", "ports": [80, 65536]}, ".ports[1]"),
    ({"host": "web.test", "ports": [80, "2-1"]}, ".ports[1]"),
    ({"host": "web.test", "ports": [80, "http"]}, ".ports[1]"),
    ({"host": "web.test", "ports": [[80]]}, ".ports[0]"),
    ({"host": "web.test", "ports": 80}, ".ports"),
    ({"host": "web.test", "ports": list(range(1, 10))}, ".ports"),
    ({"rule": "web.test:80", "ports": [1, 2, 3, 4, 5, 6, 7, 8]}, ".ports[7]"),
    ({"host": "web.test", "protocol": "https"}, ".protocol"),
    ({"host": "web.test", "protocol": "tls", "methods": ["GET"]}, ".protocol"),
    ({"host": "web.test", "protocol": "tls", "paths": ["/"]}, ".protocol"),
    ({"host": "web.test", "methods": ["get"]}, ".methods[0]"),
    ({"host": "web.test", "methods": ["GET", "CONNECT"]}, ".methods[1]"),
    ({"host": "web.test", "methods": "GET"}, ".methods"),
    ({"host": "web.test", "paths": ["/a", "b"]}, ".paths[1]"),
    ({"host": "web.test", "paths": ["/a/../b"]}, ".paths[0]"),
    ({"host": "web.test", "paths": ["/%61"]}, ".paths[0]"),
    ({"host": "web.test", "paths": ["/" + "a" * 600]}, ".paths[0]"),
    ({"host": "web.test", "paths": ["/a"] * 9}, ".paths"),
    ({"host": "web.test", "deny": "yes"}, ".deny"),
    ({"host": "web.test", "path": ["/"]}, ".path"),
])
def test_what_is_refused(server, rule, field):
    status, answer = server.call("POST", "/v1/boxes", {"network": {"policy": "allow", "rules": ["other.test", rule]}})
    assert (status, answer["error"]["field"]) == (422, "network.rules[1]" + field), answer


def test_methods(server):
    box = box_with(server, {"host": "web.test", "methods": ["GET", "HEAD"]})
    assert asks(server, box, 'for m in ("GET", "POST", "DELETE", "PROPFIND", "OPTIONS"): say(ask(m, "/x"))') == [
        [200, "GET /x"], refused("POST", "/x"), refused("DELETE", "/x"), refused("PROPFIND", "/x"), refused("OPTIONS", "/x")]


def test_paths(server):
    box = box_with(server, {"host": "web.test", "paths": ["/api", "/v1/"]})
    said = asks(server, box, 'for p in ("/api", "/api/x?y=/z", "/apis", "/v1", "/v1/x", "/", "/%61pi/x", "/API"): say(ask("GET", p))')
    assert said == [[200, "GET /api"], [200, "GET /api/x?y=/z"], refused("GET", "/apis"), refused("GET", "/v1"), [200, "GET /v1/x"], refused("GET", "/"),
                    [200, "GET /%61pi/x"], refused("GET", "/API")]


@pytest.mark.parametrize("path", ["/api/../admin", "/api/%2e%2e/admin", "/api/..%2fadmin", "/api/..;/admin", "/api//admin", "//admin", "/api/%252e%252e/admin",
                                  "/api%5c..%5cadmin", "/api/./x", "/api/%00"])
def test_paths_that_servers_read_differently(server, path):
    box = box_with(server, {"host": "web.test", "paths": ["/api"]})
    assert asks(server, box, f'say(ask("GET", {path!r}))') == [refused("GET", path)]


@pytest.mark.parametrize("header", ["X_HTTP_Method_Override", "X_HTTP_Method", "X_Method_Override", "X_Original_URL", "X_Rewrite_URL", "x_http_method_override"])
def test_headers_that_make_it_another_request(server, header):
    box = box_with(server, {"host": "web.test", "methods": ["GET", "POST"]}, "other.test")
    assert asks(server, box, f'say(ask("POST", "/", {header}="DELETE"), ask("POST", "/", host="other.test", {header}="DELETE"))') == [
        [refused("POST", "/"), [200, "POST /"]]]


def test_requests_that_are_denied(server):
    box = box_with(server, "web.test", {"host": "web.test", "paths": ["/admin"], "deny": True}, {"host": "web.test", "methods": ["DELETE"], "deny": True})
    assert asks(server, box, 'say(ask("GET", "/"), ask("GET", "/admin/x"), ask("GET", "/%41dmin"), ask("DELETE", "/"), secure("web.test"))') == [
        [[200, "GET /"], refused("GET", "/admin/x"), refused("GET", "/%41dmin"), refused("DELETE", "/"), "reset"]]


def test_the_second_request_of_a_connection(server):
    """It is asked about as the first one was; there is no room for words between the answers of others."""
    box = box_with(server, {"host": "web.test", "methods": ["GET"]})
    assert asks(server, box, r"""
        two = b"GET /1 HTTP/1.1\r\nHost: web.test\r\n\r\n%s /2 HTTP/1.1\r\nHost: web.test\r\nConnection: close\r\n\r\n"
        say(exchange("web.test", 80, two % b"GET").count("200 OK"), exchange("web.test", 80, two % b"POST"))
        """) == [[2, "reset"]]


def test_what_cannot_be_read_has_no_way(server):
    """Where rules speak of requests only, TLS and other protocols are not let through: nobody could tell what is asked for."""
    box = box_with(server, {"host": "web.test", "methods": ["GET"]}, {"host": "other.test", "paths": ["/"]}, "other.test:443")
    assert asks(server, box, 'say(secure("web.test"), speaks("web.test", 80, b"\\1\\2\\n"), secure("other.test"), ask("GET", "/", host="other.test"))') == [
        ["reset", "reset", "TLS", [200, "GET /"]]]


def test_protocols(server):
    box = box_with(server, {"host": "web.test", "protocol": "tls"}, {"host": "other.test", "protocol": "http"}, {"cidr": PRIVATE, "protocol": "http", "ports": [80]})
    assert asks(server, box, f"""
        say(secure("web.test"), ask("GET", "/"))
        say(secure("other.test"), ask("GET", "/", host="other.test"))
        say(ask("GET", "/", host="{PRIVATE}"), speaks("{PRIVATE}", 80, b"\\1\\2\\n"))
        """) == [["TLS", "reset"], ["reset", [200, "GET /"]], [[200, "GET /"], "reset"]]


def test_several_rules_are_together_what_each_of_them_is(server):
    box = box_with(server, {"host": "web.test", "protocol": "tls"}, {"host": "web.test", "methods": ["GET"]}, {"host": "web.test", "methods": ["POST"], "paths": ["/in"]})
    assert asks(server, box, 'say(secure("web.test"), ask("GET", "/x"), ask("POST", "/in"), ask("POST", "/x"))') == [
        ["TLS", [200, "GET /x"], [200, "POST /in"], refused("POST", "/x")]]


def test_a_name_that_leads_inside_and_requests(server):
    box = box_with(server, "inner.test", {"cidr": "10.0.0.0/8", "methods": ["GET"]})
    assert asks(server, box, 'say(ask("GET", "/", host="inner.test"), ask("POST", "/", host="inner.test"))') == [
        [[200, "GET /"], refused("POST", "/", "inner.test")]]


def test_through_the_proxy(server):
    box = box_with(server, {"host": "web.test", "methods": ["GET"], "paths": ["/api"]})
    assert asks(server, box, """
        say(ask("GET", "http://web.test/api/x", at="127.0.0.1", port=1080), ask("GET", "http://web.test/x", at="127.0.0.1", port=1080)[0],
            ask("POST", "http://web.test/api/x", at="127.0.0.1", port=1080)[0])
        """) == [[[200, "GET /api/x"], 403, 403]]


STAY = r"""
import os, socket, time
s = socket.create_connection(("web.test", 80), timeout=60)

def answer():
    got = b""
    while b"\r\n\r\n" not in got or not got.endswith(b"}"):
        part = s.recv(4096)
        if not part:
            return "end"
        got += part
    return got[9:12].decode()

for i in range(3):
    while not os.path.exists(str(i)):
        time.sleep(0.01)
    try:
        s.sendall(open(str(i)).read().encode() + b" / HTTP/1.1\r\nHost: web.test\r\n\r\n")
        print(answer(), flush=True)
    except OSError as e:
        print(e.errno, flush=True)
"""


def test_a_change_is_for_the_next_request(server):
    """The connection stays: what is asked for on it from then on is another matter."""
    box = box_with(server, "web.test")
    way = f"/v1/boxes/{box['id']}/commands"
    way += "/" + server.call("POST", way, {"argv": ["/usr/bin/python3", "-c", STAY], "detach": True})[1]["id"]

    def ask(number, method):
        assert server.request("PUT", f"/v1/boxes/{box['id']}/files/{number}", method.encode())[0] in (200, 201, 204)
        return until(lambda: server.call("GET", way)[1]["stdout"].split()[number:], "an answer")[0]

    assert ask(0, "POST") == "200"
    assert server.network(box, "allow", {"host": "web.test", "methods": ["GET"]})[0] == 200
    assert ask(1, "GET") == "200"
    assert ask(2, "POST") == str(errno.ECONNRESET)


def test_what_the_audit_says(server):
    box = box_with(server, {"host": "web.test", "methods": ["GET"]})
    asks(server, box, 'say(ask("POST", "/x"))')
    ends = until(lambda: [e for e in server.audit("network_connection") if e["box"] == box["id"]], "a line in the audit")
    assert [(e["to"], e["address"], e["end"]) for e in ends] == [("web.test:80", PUBLIC, "request")]


def test_open_with_requests_that_are_denied(server):
    box = box_with(server, {"host": "web.test", "methods": ["POST"], "deny": True}, policy="open")
    assert asks(server, box, f'say(ask("GET", "/"), ask("POST", "/"), get("http://{OTHER}/")["at"])') == [
        [[200, "GET /"], refused("POST", "/"), OTHER]]
    assert server.python(box, f'say(get("http://{PRIVATE}/"))') == [errno.ENETUNREACH]
