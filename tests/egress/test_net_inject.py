# SPDX-License-Identifier: Apache-2.0
"""Headers with secrets that requests get on their way out: where they go, and where they never show."""
import base64
import json
import os
import pathlib
import re
import signal
import subprocess
import textwrap
import urllib.parse

import pytest

from net import PRELUDE, Net, needs_root, world  # noqa: F401
from server import SANITIZED, ends, until

pytestmark = needs_root

TOKEN, OTHER_TOKEN, FILE_TOKEN = 'sk-inject/Ab+9"z\\0123456789', "other-0123456789abcdef", "file-0123456789abcdef"
SECRETS = ["web=env:WEB_TOKEN@web.test *.web.test", "everywhere=env:OTHER_TOKEN@*.test", "long=env:LONG_TOKEN@web.test"]
AUTHORIZATION = {"header": "Authorization", "prefix": "Bearer ", "secret": "web"}
RULE = {"host": "web.test", "ports": [443], "inject": AUTHORIZATION}

# In a box: what a server has seen of a request, as its headers (later ones win), or how it was refused.
SEEN = """
import http.client

def fetch(url, method="GET", body=None, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()}), timeout=20) as answer:
            return answer.read().decode("latin-1"), dict(answer.headers)
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode("latin-1")
    except http.client.IncompleteRead:
        return "cut"
    except OSError as e:
        return str(getattr(e, "reason", e))

def seen(url, **how):
    said = fetch(url, **how)
    return dict((k.lower(), v) for k, v in json.loads(said[0])["headers"]) if isinstance(said[0], str) and said[0].startswith("{") else said
"""


def settings(world, folder):
    (folder / "token").write_text(FILE_TOKEN + "\n")
    program = folder / "helper"
    program.write_text(f"#!/bin/sh\necho \"$1-{FILE_TOKEN}\"\n")
    program.chmod(0o755)
    return {"secret": [*SECRETS, f"filed=file:{folder}/token@web.test", f"helped=command:{program} said@web.test"],
            "secret_ca_file": world.folder / "ca.pem", "env": {"WEB_TOKEN": TOKEN, "OTHER_TOKEN": OTHER_TOKEN, "LONG_TOKEN": "x" * 8000}}


@pytest.fixture(scope="module")
def shared(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inject")
    with Net(world, folder, **settings(world, folder)) as it:
        it.delete(it.box(network={"policy": "allow", "rules": ["web.test"]}))
        yield it


@pytest.fixture
def server(shared):
    yield shared
    shared.delete_all()


@pytest.fixture
def own(world, tmp_path):
    with Net(world, tmp_path, **settings(world, tmp_path)) as it:
        yield it


def box_with(server, *rules, **fields):
    return server.box(network={"policy": "allow", "rules": list(rules)}, **fields)


def python(server, box, code):
    return server.python(box, SEEN + textwrap.dedent(code))


def where_it_could_be(server):
    """Everything that somebody might read afterwards."""
    return [server.log(), *(path.read_text(encoding="utf-8", errors="replace") for path in (server.state_dir / "audit").iterdir())]


# --- where it goes -------------------------------------------------------------------------------------------------


def test_a_request_in_tls_gets_it(server):
    """Python trusts who vouches for the server in this box, without a word about it; what it had said by that header is not there."""
    box = box_with(server, {**RULE, "inject": {**AUTHORIZATION, "redact": False}})
    assert python(server, box, 'say(seen("https://web.test/echo/"), seen("https://web.test/echo/", Authorization="Bearer mine")["authorization"])')[0] == [
        {"accept-encoding": "identity", "host": "web.test", "user-agent": pytest.approx(ANY), "connection": "close", "authorization": "Bearer " + TOKEN}, "Bearer " + TOKEN]


class Anything:
    def __eq__(self, other):
        return True


ANY = Anything()


def test_plain_http_gets_it_only_where_the_rule_says_so(server):
    plain = {"host": "web.test", "ports": [80], "protocol": "http", "inject": {**AUTHORIZATION, "redact": False}}
    box = box_with(server, plain)
    assert python(server, box, 'say(seen("http://web.test/echo/")["authorization"])') == ["Bearer " + TOKEN]
    # A program that may choose does not choose to have it sent in the clear.
    box = box_with(server, {"host": "web.test", "inject": {**AUTHORIZATION, "redact": False}})
    assert python(server, box, 'say("authorization" in seen("http://web.test/echo/"), seen("https://web.test/echo/")["authorization"])') == [[False, "Bearer " + TOKEN]]


@pytest.mark.parametrize("secret,value", [("filed", FILE_TOKEN), ("helped", "said-" + FILE_TOKEN)])
def test_from_a_file_and_from_a_command(server, secret, value):
    box = box_with(server, {**RULE, "inject": {"header": "X-Key", "secret": secret, "redact": False}})
    assert python(server, box, 'say(seen("https://web.test/echo/")["x-key"])') == [value]


def test_requests_that_rules_name_only(server):
    """Of one host: some get it, some do not, some are not let through at all; all that in TLS."""
    box = box_with(server, {"host": "web.test", "ports": [443], "methods": ["GET"], "paths": ["/echo/with"], "inject": {**AUTHORIZATION, "redact": False}},
                   {"host": "web.test", "methods": ["GET", "HEAD"], "paths": ["/echo/without"]}, {"host": "web.test", "paths": ["/echo/without/it"], "deny": True})
    assert python(server, box, """
        say(seen("https://web.test/echo/with")["authorization"], "authorization" in seen("https://web.test/echo/without"))
        say(fetch("https://web.test/echo/with", method="POST", body=b"x")[0], fetch("https://web.test/echo/without/it")[0], fetch("https://web.test/")[0], fetch("https://web.test/echo/with/../x")[0])
        """) == [["Bearer " + TOKEN, False], [403, 403, 403, 403]]


def test_bodies_and_many_requests_of_a_connection(server):
    box = box_with(server, {**RULE, "inject": {**AUTHORIZATION, "redact": False}})
    assert python(server, box, """
        c = http.client.HTTPSConnection("web.test", timeout=20)
        for i in range(50):
            body = [None, b"abc" * i, iter([b"piece"] * i)][i % 3]
            c.request("POST", "/echo/", body=body, headers={"Content-Type": "text/plain"} , encode_chunked=i % 3 == 2)
            said = json.loads(c.getresponse().read())
            assert dict((k.lower(), v) for k, v in said["headers"])["authorization"].endswith("0123456789"), said
            assert said["body"] == ["", "abc" * i, "piece" * i][i % 3], said
        big = bytes(range(256)) * 40000
        c.request("POST", "/", body=big)
        say(json.loads(c.getresponse().read())["bytes"] == len(big))
        """) == [True]


def test_a_client_that_waits_for_a_word_before_its_body(server):
    """Interim answers are passed on where answers are looked through, too."""
    box = box_with(server, RULE)
    assert python(server, box, """
        s = ssl.create_default_context().wrap_socket(socket.create_connection(("web.test", 443), timeout=20), server_hostname="web.test")
        s.sendall(b"POST /echo/ HTTP/1.1\\r\\nHost: web.test\\r\\nContent-Length: 4\\r\\nExpect: 100-continue\\r\\nConnection: close\\r\\n\\r\\n")
        first = s.recv(65536)
        s.sendall(b"body")
        rest = b""
        while part := s.recv(65536):
            rest += part
        say(first.decode(), rest.startswith(b"HTTP/1.1 200 "), json.loads(rest.partition(b"\\r\\n\\r\\n")[2])["body"])
        """) == [["HTTP/1.1 100 Continue\r\n\r\n", True, "body"]]


def test_many_requests_at_once_and_a_long_secret(server):
    """More comes of them than is held at a time."""
    box = box_with(server, {**RULE, "inject": {"header": "X-Key", "secret": "long", "redact": False}})
    assert python(server, box, """
        s = ssl.create_default_context().wrap_socket(socket.create_connection(("web.test", 443), timeout=20), server_hostname="web.test")
        s.sendall(b"".join(b"GET /echo/%d HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n" % i for i in range(300)))
        f = s.makefile("rb")
        for i in range(300):
            status = f.readline()
            assert status.startswith(b"HTTP/1.1 200"), (i, status, f.read1(2000))
            heads = http.client.parse_headers(f)
            said = json.loads(f.read(int(heads["Content-Length"])))
            assert dict(said["headers"])["X-Key"] == "x" * 8000, i
        say(True)
        """) == [True]


def test_many_requests_at_once_through_the_proxy(server):
    """Whole URLs, the second of which must wait for room; and a name with a dot behind it."""
    box = box_with(server, {"host": "web.test", "ports": [80], "protocol": "http", "inject": {"header": "X-Key", "secret": "long", "redact": False}})
    assert python(server, box, """
        s = socket.create_connection(("127.0.0.1", 1080), timeout=20)
        s.sendall(b"".join(b"GET http://web.test%s/echo/%d HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n" % (b"." * (i % 2), i) for i in range(60)))
        f = s.makefile("rb")
        for i in range(60):
            status = f.readline()
            assert status.startswith(b"HTTP/1.1 200"), (i, status, f.read1(2000))
            heads = http.client.parse_headers(f)
            said = json.loads(f.read(int(heads["Content-Length"])))
            assert dict(said["headers"])["X-Key"] == "x" * 8000, i
        say(True)
        """) == [True]


def test_other_names_and_ports_do_not_get_it(server):
    box = box_with(server, {**RULE, "inject": {**AUTHORIZATION, "redact": False}}, "other.test", "www.web.test")
    server.request("PUT", f"/v1/boxes/{box['id']}/files/ca.pem", pathlib.Path(server.options["secret_ca_file"]).read_bytes())
    assert python(server, box, """
        said = seen("https://web.test/echo/redirect?https://other.test/echo/")
        say(said if isinstance(said, str) else said.get("authorization"))
        context = ssl.create_default_context(cafile="/workspace/ca.pem")
        with urllib.request.urlopen("https://other.test/echo/", timeout=20, context=context) as answer:
            say("uthorization" in answer.read().decode())
        """) == [None, False]


# --- whom it is sent to ----------------------------------------------------------------------------------------------


def test_a_server_that_nobody_vouches_for_is_told_nothing(server):
    box = box_with(server, {**RULE, "ports": [443, 8443]})
    said = python(server, box, 'say(fetch("https://web.test:8443/echo/"), fetch("https://web.test/echo/")[1]["Content-Length"] != "")')[0]
    assert said[0][0] == 502 and "its certificate is not trusted: self" in said[0][1] and said[1], said
    until(lambda: [line for line in server.audit("network_connection") if line["box"] == box["id"] and line["end"] == "server_tls"], "its end in the audit")


@pytest.mark.parametrize("host", ["example.org", "*.org", "*.test.org", "xweb.test"])
def test_a_secret_is_for_its_hosts(server, host):
    status, answer = server.call("POST", "/v1/boxes", {"network": {"policy": "allow", "rules": ["a.test", {"host": host, "inject": AUTHORIZATION}]}})
    assert status == 422 and answer["error"]["field"] == "network.rules[1].inject.secret" and "is not for this host" in answer["error"]["message"], answer


@pytest.mark.parametrize("inject,field", [
    ({"header": "Authorization"}, ".inject.secret"),
    ({"secret": "web"}, ".inject.header"),
    ({**AUTHORIZATION, "secret": "nobody"}, ".inject.secret"),
    ({**AUTHORIZATION, "secret": "a/web"}, ".inject.secret"),
    ({**AUTHORIZATION, "header": "Host"}, ".inject.header"),
    ({**AUTHORIZATION, "header": "content-length"}, ".inject.header"),
    ({**AUTHORIZATION, "header": "Transfer-Encoding"}, ".inject.header"),
    ({**AUTHORIZATION, "header": "Sec-WebSocket-Key"}, ".inject.header"),
    ({**AUTHORIZATION, "header": "X-A: b\r\nX-C"}, ".inject.header"),
    ({**AUTHORIZATION, "header": "X A"}, ".inject.header"),
    ({**AUTHORIZATION, "prefix": "a\r\nX: "}, ".inject.prefix"),
    ({**AUTHORIZATION, "prefix": " x"}, ".inject.prefix"),
    ({**AUTHORIZATION, "prefix": "é"}, ".inject.prefix"),
    ({**AUTHORIZATION, "redact": "yes"}, ".inject.redact"),
    ({**AUTHORIZATION, "value": "x"}, ".inject.value"),
    ("web", ".inject"),
])
def test_what_cannot_be_put_in(server, inject, field):
    status, answer = server.call("POST", "/v1/boxes", {"network": {"policy": "allow", "rules": [{"host": "web.test", "inject": inject}]}})
    assert status == 422 and answer["error"]["field"] == "network.rules[0]" + field, answer


@pytest.mark.parametrize("rule", [{"cidr": "10.0.0.1", "inject": AUTHORIZATION}, {"host": "web.test", "deny": True, "inject": AUTHORIZATION}, {"rule": "!web.test", "inject": AUTHORIZATION}])
def test_rules_that_cannot_have_one(server, rule):
    status, answer = server.call("POST", "/v1/boxes", {"network": {"policy": "allow", "rules": [rule]}})
    assert status == 422 and answer["error"]["field"] == "network.rules[0].inject", answer


def test_what_was_written_is_told_again(server):
    rules = [{"host": "web.test", "ports": [443], "protocol": "tls", "methods": ["GET"], "paths": ["/v1"], "inject": AUTHORIZATION},
             {"host": "*.web.test", "inject": {"header": "X-Key", "secret": "everywhere", "redact": False}}]
    box = box_with(server, *rules)
    assert box["network"]["rules"] == rules
    assert server.call("GET", f"/v1/boxes/{box['id']}")[1]["network"]["rules"] == rules


def test_tenants_have_their_own(world, tmp_path):
    """Its own before one that is everybody's; that of another one is not there. By a Unix socket everybody is one tenant, so these ask by TCP, from inside the world."""
    def call(token, method, path, body):
        done = subprocess.run(world.inside("curl", "-sS", "-X", method, "-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json", "-d", json.dumps(body),
                                           "-w", "\n%{http_code}", f"http://127.0.0.1:8765{path}"), capture_output=True, text=True, timeout=60, check=True)
        answer, _, status = done.stdout.rpartition("\n")
        return int(status), json.loads(answer)

    with Net(world, tmp_path, secret=["a/key=env:OF_A@web.test", "key=env:OF_ALL@web.test", "a/mine=env:OF_A@web.test"], secret_ca_file=world.folder / "ca.pem",
             listen="127.0.0.1:8765", ready=False, tokens={"a": "token-of-a-0123456789", "b": "token-of-b-0123456789"}, env={"OF_A": "secret-of-a", "OF_ALL": "secret-of-all"}):
        for tenant, value in (("a", "secret-of-a"), ("b", "secret-of-all")):
            token = f"token-of-{tenant}-0123456789"
            rule = {**RULE, "inject": {"header": "X-Key", "secret": "key", "redact": False}}
            status, box = call(token, "POST", "/v1/boxes", {"network": {"policy": "allow", "rules": [rule]}})
            assert status == 201 and box["network"]["rules"] == [rule], box
            code = 'import urllib.request; print(urllib.request.urlopen("https://web.test/echo/").read().decode())'
            status, said = call(token, "POST", f"/v1/boxes/{box['id']}/commands", {"argv": ["/usr/bin/python3", "-c", code]})
            assert dict(json.loads(said["stdout"])["headers"])["X-Key"] == value, said
            status, answer = call(token, "POST", "/v1/boxes", {"network": {"policy": "allow", "rules": [{**rule, "inject": {"header": "X-Key", "secret": "mine"}}]}})
            assert status == (201 if tenant == "a" else 422), answer


# --- where it does not show ------------------------------------------------------------------------------------------


FORMS = [TOKEN, json.dumps(TOKEN)[1:-1], base64.b64encode(TOKEN.encode()).decode(), urllib.parse.quote(TOKEN, safe="")]


@pytest.mark.parametrize("how", ["", "heads", "drip", "end", "gzip"])
def test_answers_have_asterisks_in_its_place(server, how):
    """In headers and bodies, in pieces of a byte, without a length; what would be compressed is not."""
    box = box_with(server, RULE)
    body, heads = python(server, box, f'say(fetch("https://web.test/echo/{how}", Accept_Encoding="gzip", Range="bytes=3-9"))')[0]
    assert json.loads(body)["headers"][-1][1] == "Bearer " + "*" * len(json.dumps(TOKEN)[1:-1]), body
    assert how != "heads" or heads["X-Seen-Authorization"] == "Bearer " + "*" * len(TOKEN)
    for form in FORMS:
        assert form not in body + str(heads)


def test_a_server_that_compresses_all_the_same(server):
    box = box_with(server, RULE)
    said = python(server, box, 'say(fetch("https://web.test/echo/always-gzip"))')[0]
    assert isinstance(said, str) or said[0] != 200, said
    until(lambda: [line for line in server.audit("network_connection") if line["box"] == box["id"] and line["end"] == "answer"], "its end in the audit")


def test_an_answer_that_is_cut_off_is_seen_to_be(server):
    box = box_with(server, RULE)
    assert python(server, box, 'say(fetch("https://web.test/echo/cut"))') == ["cut"]


@pytest.mark.parametrize("form", ["plain", "json", "base64", "base64 of more", "base64url", "percent", "percent small"])
def test_other_forms_of_it(server, form):
    """What a server might make of it: sent as a body by who knows it, and told by the server."""
    told = {"plain": TOKEN, "json": json.dumps(TOKEN), "base64": base64.b64encode(TOKEN.encode()).decode(),
            "base64 of more": base64.b64encode(b"user:" + TOKEN.encode() + b"@host").decode(), "base64url": base64.urlsafe_b64encode(b"ab" + TOKEN.encode()).decode(),
            "percent": urllib.parse.quote(TOKEN, safe=""), "percent small": re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(TOKEN, safe=""))}[form]
    # The box must not know it: the rule hides it, and this test puts it into a path that the server tells.
    folder = pathlib.Path(server.options["secret_ca_file"]).parent / "files"
    folder.mkdir(exist_ok=True)
    (folder / "leak.txt").write_text(f"<<{told}>>")
    box = box_with(server, RULE)
    body, _ = python(server, box, 'say(fetch("https://web.test/files/leak.txt"))')[0]
    core = told[8:-8] if "base64" in form else told[2:-2]
    assert core not in body and body.startswith("<<") and "*" * (len(core) // 2) in body and len(body) == len(told) + 4, (told, body)


def test_plain_http_hides_it_too(server):
    box = box_with(server, {"host": "web.test", "ports": [80], "protocol": "http", "inject": AUTHORIZATION})
    body, _ = python(server, box, 'say(fetch("http://web.test/echo/drip"))')[0]
    assert TOKEN not in body and "Bearer ***" in body
    assert python(server, box, """
        c = http.client.HTTPConnection("web.test", timeout=20)
        for i in range(20):
            c.request(["GET", "HEAD"][i % 2], "/echo/")
            answer = c.getresponse()
            said = answer.read().decode()
            assert ("Bearer ****" in said) == (i % 2 == 0) and answer.status == 200, said
        say(True)
        """) == [True]


def test_it_is_in_no_log_no_audit_and_not_in_the_box(server):
    box = box_with(server, {"host": "web.test", "inject": AUTHORIZATION}, {"host": "www.web.test", "ports": [8443], "inject": AUTHORIZATION})
    python(server, box, 'fetch("https://web.test/echo/"), fetch("https://www.web.test:8443/"), fetch("https://web.test/nowhere")')
    assert server.request("GET", "/metrics")[0] == 200
    status, said = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"shell": "env; cat /proc/*/environ /proc/*/cmdline /proc/mounts /etc/ssl/glovebox.pem 2>/dev/null | tr '\\0' '\\n'"})
    assert status == 200 and "BEGIN CERTIFICATE" in said["stdout"]
    texts = [said["stdout"], json.dumps(server.call("GET", f"/v1/boxes/{box['id']}")[1]), json.dumps(server.call("GET", "/openapi.json")[1]), *where_it_could_be(server)]
    for text in texts:
        for form in [*FORMS, OTHER_TOKEN, FILE_TOKEN]:
            assert form not in text


@pytest.mark.skipif(SANITIZED, reason="the memory of a sanitized process is terabytes of addresses")
def test_the_gate_does_not_have_it(server):
    """It checks rules, and has names and hosts. Whoever takes it over has no secret."""
    box_with(server, RULE)
    for pid in server.pids()["gate"]:
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
            for line in maps:
                first, last = (int(x, 16) for x in line.split()[0].split("-"))
                if "rw" not in line.split()[1] or "[vv" in line or "[vs" in line:
                    continue
                memory.seek(first)
                assert TOKEN.encode() not in memory.read(last - first), line


def test_a_box_trusts_its_own_authority_only(server):
    """That of another box vouches for nobody here."""
    first, second = box_with(server, RULE), box_with(server, RULE)
    pem = [server.request("GET", f"/v1/boxes/{box['id']}/files/etc/ssl/glovebox.pem?root=/")[-1] for box in (first, second)]
    assert pem[0] != pem[1] and pem[0].count(b"BEGIN CERT") == 2
    assert server.request("PUT", f"/v1/boxes/{second['id']}/files/other.pem", pem[0].rpartition(b"-----BEGIN")[1] + pem[0].rpartition(b"-----BEGIN")[2])[0] in (200, 201, 204)
    assert python(server, second, """
        try:
            urllib.request.urlopen("https://web.test/", timeout=20, context=ssl.create_default_context(cafile="/workspace/other.pem"))
        except urllib.error.URLError as e:
            say(e.reason.verify_code != 0)
        """) == [True]
    assert server.call("POST", f"/v1/boxes/{first['id']}/commands", {"shell": "echo x >> /etc/ssl/glovebox.pem"})[1]["exit_code"] != 0


# --- programs ----------------------------------------------------------------------------------------------------------


def test_programs_trust_it_without_a_setting(server):
    box = box_with(server, {**RULE, "inject": {**AUTHORIZATION, "redact": False}})
    for program, text in (("curl", "curl -sS https://web.test/echo/"), ("python3", "python3 -c 'import requests; print(requests.get(\"https://web.test/echo/\").text)'"),
                          ("node", "node -e 'require(\"https\").get(\"https://web.test/echo/\", r => r.pipe(process.stdout))'"),
                          ("openssl", "printf 'GET /echo/ HTTP/1.1\\r\\nHost: web.test\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -connect web.test:443 -servername web.test 2>/dev/null | tail -1")):
        if not os.access(f"/usr/bin/{program}", os.X_OK):
            continue
        status, said = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"shell": text})
        assert status == 200 and json.dumps("Bearer " + TOKEN) in said["stdout"], (program, said)


def test_git_trusts_it(server, world):
    box = box_with(server, RULE)
    said = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"shell": "git ls-remote https://web.test/files/nothing.git"})[1]
    assert "not found" in said["stderr"] and "certificate" not in said["stderr"], said


def test_a_kernel_trusts_it(server):
    box = box_with(server, {**RULE, "inject": {**AUTHORIZATION, "redact": False}})
    status, said = server.call("POST", f"/v1/boxes/{box['id']}/cells", {"code": 'import urllib.request\nprint(urllib.request.urlopen("https://web.test/echo/").read().decode())'})
    assert status == 200 and json.dumps("Bearer " + TOKEN) in said["stdout"], said


# --- changes -----------------------------------------------------------------------------------------------------------


def test_a_rule_that_comes_and_goes(server):
    """Connections that were begun under another rule do not go on under this one."""
    box = box_with(server, "web.test:443")
    rule = {**RULE, "inject": {**AUTHORIZATION, "redact": False}}
    status, started = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"detach": True, "argv": ["/usr/bin/python3", "-c", textwrap.dedent("""
        import socket, ssl, time
        s = ssl._create_unverified_context().wrap_socket(socket.create_connection(("web.test", 443)), server_hostname="web.test")
        print("open", flush=True)
        try:
            s.settimeout(50)
            print(s.recv(10))
        except OSError as e:
            print("gone")
        """)]})
    assert status == 202
    until(lambda: "open" in server.call("GET", f"/v1/boxes/{box['id']}/commands/{started['id']}")[1]["stdout"], "its connection")
    assert server.network(box, "allow", rule)[0] == 200
    until(lambda: server.call("GET", f"/v1/boxes/{box['id']}/commands/{started['id']}")[1]["stdout"] in ("open\ngone\n", "open\nb''\n"), "its end")
    assert python(server, box, 'say(seen("https://web.test/echo/")["authorization"])') == ["Bearer " + TOKEN]
    assert server.network(box, "allow", "web.test:443")[0] == 200
    assert python(server, box, """
        context = ssl._create_unverified_context()
        with urllib.request.urlopen("https://web.test/echo/", timeout=20, context=context) as answer:
            say("uthorization" in answer.read().decode())
        """) == [False]


def test_egress_dies_and_the_box_trusts_the_next_one(own):
    box = box_with(own, {**RULE, "inject": {**AUTHORIZATION, "redact": False}})
    code = 'say(seen("https://web.test/echo/")["authorization"])'
    assert python(own, box, code) == ["Bearer " + TOKEN]
    old = own.pid_of("egress")
    os.kill(old, signal.SIGKILL)
    until(lambda: [pid for pid in own.pids().get("egress", []) if pid != old], "another egress")
    assert python(own, box, code) == ["Bearer " + TOKEN]


def test_others_are_fetched_when_the_configuration_is_read_again(own):
    box = box_with(own, {**RULE, "inject": {"header": "X-Key", "secret": "filed", "redact": False}})
    code = 'say(seen("https://web.test/echo/")["x-key"])'
    assert python(own, box, code) == [FILE_TOKEN]
    (own.folder / "token").write_text("another-0123456789")
    os.kill(own.pid, signal.SIGHUP)
    until(lambda: python(own, box, code) == ["another-0123456789"], "the other secret")
    (own.folder / "token").write_text("x")
    os.kill(own.pid, signal.SIGHUP)
    until(lambda: "has less than 8 characters" in own.log(), "its refusal")
    assert python(own, box, code) == ["another-0123456789"]


def test_what_hides_the_old_one_does_not_go_on_with_the_new_one(own):
    """A connection knows what it has to hide when it begins."""
    box = box_with(own, {**RULE, "inject": {"header": "X-Key", "secret": "filed"}})
    status, started = own.call("POST", f"/v1/boxes/{box['id']}/commands", {"detach": True, "argv": ["/usr/bin/python3", "-c", PRELUDE + SEEN + textwrap.dedent("""
        c = http.client.HTTPSConnection("web.test", timeout=50)
        c.auto_open = 0
        c.connect()
        while True:
            c.request("GET", "/echo/")
            say(c.getresponse().read().decode())
            time.sleep(0.05)
        """)]})
    assert status == 202
    command = f"/v1/boxes/{box['id']}/commands/{started['id']}"
    until(lambda: "****" in own.call("GET", command)[1]["stdout"], "its first answers")
    (own.folder / "token").write_text("another-0123456789")
    os.kill(own.pid, signal.SIGHUP)
    until(lambda: own.call("GET", command)[1]["status"] != "running", "its end")
    said = own.call("GET", command)[1]["stdout"]
    assert "another-0123456789" not in said and FILE_TOKEN not in said
    assert "*" * 18 in python(own, box, 'say(fetch("https://web.test/echo/")[0])')[0]


# --- how it is configured ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret,why", [
    ("web", "NAME=SOURCE@HOST"),
    ("web=env:TOKEN", "lacks '@HOST'"),
    ("web=TOKEN@web.test", "comes from"),
    ("web=env:@web.test", "the name of a variable"),
    ("web=file:token@web.test", "begins with '/'"),
    ("Web=env:TOKEN@web.test", "is no name"),
    ("a b/web=env:TOKEN@web.test", "its tenant"),
    ("web=env:TOKEN@10.0.0.1/8", "are the hosts"),
    ("web=env:TOKEN@http://web.test", "are the hosts"),
    ("web=env:MISSING@web.test", "the variable 'MISSING' is not set"),
    ("web=env:SHORT@web.test", "less than 8"),
    ("web=env:LINES@web.test", "no header can have"),
    ("web=file:/nowhere@web.test", "No such file"),
    ("web=command:/bin/false@web.test", "has failed"),
    ("web=command:/nowhere secret-argument@web.test", "has failed"),
])
def test_what_is_no_secret_is_said_at_the_start(tmp_path, secret, why):
    done = ends(listen="127.0.0.1:0", state_dir=tmp_path, secret=secret, env={"TOKEN": "token-0123456789", "SHORT": "x", "LINES": "token\r\nX-Other: 1"})
    assert done.returncode != 0 and why in done.stderr and "token-0123456789" not in done.stderr and "secret-argument" not in done.stderr, done.stderr


def test_one_that_is_there_twice(tmp_path):
    done = ends(listen="127.0.0.1:0", state_dir=tmp_path, secret=["web=env:A@web.test", "web=env:B@web.test"], env={"A": "a" * 9, "B": "b" * 9})
    assert done.returncode != 0 and "'web' is there twice" in done.stderr


def test_without_secrets_a_rule_cannot_name_one(world, tmp_path):
    with Net(world, tmp_path) as server:
        status, answer = server.call("POST", "/v1/boxes", {"network": {"policy": "allow", "rules": [RULE]}})
        assert status == 422 and "there is no secret 'web'" in answer["error"]["message"]
