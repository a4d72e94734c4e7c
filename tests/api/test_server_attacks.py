# SPDX-License-Identifier: Apache-2.0
"""Attacks on the server itself: by clients, by pages in a browser, and by programs that prepare what the server will touch.

Section 4.5 of the attacks in tests/escape/attacks.tbl. Each attack is done for real; afterwards what it aimed at is looked at:
a canary beside the file store, the store's own directory, other tenants, the processes of the server.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import socket
import threading
import uuid

import pytest

from server import SANITIZED, file_part, mark, multipart, needs_root, serve, shared, status_of, until  # noqa: F401

pytestmark = needs_root

MIB = 1 << 20
ALICE, BOB = "alice-91c07de2b5f34a18", "bob-3ad5c6f0e7b14992"
SECRET = b"what only the host knows"
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
STORE_FILES = re.compile(rf"glovebox-files\.sqlite3(?:-wal|-shm|-journal)?|{UUID4.pattern}")

server = shared()
guarded = shared(tokens={"alice": ALICE, "bob": BOB})


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def canary(server):
    """A file beside the store, where "../" from the store leads; it is not read, and not removed."""
    path = server.state_dir / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o644)  # the store's user could read it: only the id is in the way
    yield path
    assert path.read_bytes() == SECRET
    path.unlink()


@pytest.fixture
def same_processes(server):
    """Nothing of the server died of it, which a restart would hide."""
    before = {role: server.pid_of(role) for role in ("serve", "keeper", "gate", "store")}
    yield
    assert {role: server.pid_of(role) for role in before} == before
    assert server.execute("print(1)")["stdout"] == "1\n"


def listing(server, headers=None):
    status, answer = server.call("GET", "/v1/files", headers=headers)
    assert status == 200
    return {entry["file_id"]: entry for entry in answer["files"]}


def in_store(server):
    """What lies in the directory of the store: the index, and files under their ids. Nothing else."""
    names = os.listdir(server.state_dir / "files")
    assert [n for n in names if not STORE_FILES.fullmatch(n)] == []
    return {n for n in names if UUID4.fullmatch(n)}


def paths(answer):
    return sorted(f["path"] for f in answer["files"])


# --- paths where ids belong ----------------------------------------------------------------------------------

# Bytes of a request target, and the text that a JSON body would have for the same.
TRAVERSALS = {
    "dots": (b"../secret", "../secret"),
    "encoded dots": (b"%2e%2e/secret", "%2e%2e/secret"),
    "encoded slash": (b"..%2fsecret", "..%2fsecret"),
    "all encoded": (b"%2e%2e%2fsecret", "%2E%2E%2Fsecret"),
    "encoded twice": (b"%252e%252e%252fsecret", "%252e%252e%252fsecret"),
    "encoded three times": (b"%25252e%25252e%25252fsecret", "%25252e%25252e%25252fsecret"),
    "backslash": (b"..\\secret", "..\\secret"),
    "encoded backslash": (b"..%5csecret", "..%5csecret"),
    "absolute": (b"%2fetc%2fpasswd", "/etc/passwd"),
    "absolute with two slashes": (b"//etc/passwd", "//etc/passwd"),
    "through itself": (b"%2e/%2e/..%2fsecret", "./././../secret"),
    "NUL": (b"..%2fsecret%00", "../secret\0"),
    "NUL and a suffix": (b"%2e%2e%2fsecret%00.txt", "../secret\0.txt"),
    "overlong dots": (b"%c0%ae%c0%ae%2fsecret", None),
    "overlong slash": (b"..%c0%afsecret", None),
    "overlong in three": (b"%e0%80%ae%e0%80%ae%e0%80%afsecret", None),
    "overlong, raw": (b"..\xc0\xafsecret", None),
    "full width": ("．．／secret".encode(), "．．／secret"),
    "full width, encoded": (b"%ef%bc%8e%ef%bc%8e%ef%bc%8fsecret", "．．∕secret"),
    "two dot leader": ("‥/secret".encode(), "‥/secret"),
    "division slash": ("..∕secret".encode(), "..∕secret"),
    "semicolon": (b"..;/secret", "..;/secret"),
    "question": (b"%3f/../secret", "?/../secret"),
    "the index": (b"glovebox-files.sqlite3", "glovebox-files.sqlite3"),
    "the audit": (b"..%2faudit%2faudit.jsonl", "../audit/audit.jsonl"),
    "proc": (b"..%2f..%2f..%2f..%2fproc%2fself%2fenviron", "/proc/self/environ"),
    "this directory": (b"%2e", "."),
    "line end": (b"..%2fsecret%0d%0aX-Evil:%20yes", "../secret\r\nX-Evil: yes"),
}
# 404: there is no such id. 400: no target. 405: after the dots it is another path. 403 and 421 are for hosts.
REFUSED = (400, 404, 405)


@pytest.mark.parametrize("name", TRAVERSALS)
def test_traversal_in_every_id_of_a_target(server, canary, same_processes, name):
    target = TRAVERSALS[name][0]
    mine = server.upload(b"mine")
    before = in_store(server)
    body = b'{"cmd": "cat ../secret /etc/passwd"}'
    for method, head, tail, content in ((b"GET", b"/v1/files/", b"", b""), (b"DELETE", b"/v1/files/", b"", b""),
                                        (b"DELETE", b"/v1/sessions/", b"", b""), (b"POST", b"/v1/sessions/", b"/bash", body),
                                        (b"DELETE", b"/v1/sessions/code-session-", b"", b""), (b"GET", b"/assets/", b"", b""),
                                        (b"GET", b"/docs/", b"", b""), (b"GET", b"/", b"", b"")):
        said = server.raw(b"%s %s%s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\n"
                          b"Content-Length: %d\r\n\r\n%s" % (method, head, target, tail, server.authority.encode(), len(content), content))
        status = int(said.split(b" ", 2)[1])
        if status == 200:  # dots may lead to a page that everybody may see
            assert method == b"GET" and head in (b"/docs/", b"/assets/", b"/") and b"<html" in said, (head, said)
        else:
            assert status in REFUSED, (head, said)
        assert SECRET not in said and b"root:" not in said and b"SQLite" not in said and b'"event"' not in said and b"\nX-Evil" not in said
    assert in_store(server) == before and server.download(mine) == b"mine"


@pytest.mark.parametrize("name", [n for n in TRAVERSALS if TRAVERSALS[n][1] is not None])
def test_traversal_in_a_file_id_of_a_body(server, canary, name):
    files = [{"path": "p", "file_id": TRAVERSALS[name][1]}]
    for path, body in (("/v1/execute", {"code": "print(open('p').read())", "files": files}),
                       ("/v1/execute/stream", {"code": "print(open('p').read())", "files": files}), ("/v1/sessions", {"files": files})):
        status, headers, data = server.request("POST", path, body)
        assert status in (404, 422), (path, data)
        assert SECRET not in data and b"root:" not in data and headers["X-Evil"] is None


LISTED = """
import os
print([os.path.relpath(os.path.join(top, f), "/workspace") for top in ("/workspace", "/tmp", "/home/box", "/dev/shm", "/var/tmp")
       for top, _, names in os.walk(top) for f in names if f != "__main__.py"])
"""


@pytest.mark.parametrize("name", [n for n in TRAVERSALS if TRAVERSALS[n][1] is not None])
def test_traversal_in_a_path_of_a_body(server, same_processes, name):
    """Refused, or taken as a name that means nothing: then exactly that file is there, below the workspace."""
    path = TRAVERSALS[name][1]
    status, answer = server.call("POST", "/v1/execute", {"code": LISTED, "files": [{"path": path, "content": "staged"}]})
    if status == 200:
        assert ".." not in path.split("/") and not path.startswith("/") and "\0" not in path
        assert answer["stdout"] == f"{[path]!r}\n" and answer["files"] == []
    else:
        assert status in (400, 422), answer
    status, answer = server.call("POST", "/v1/sessions", {"files": [{"path": path, "content": "staged"}]})
    assert status in (201, 400, 422), answer
    if status == 201:
        assert server.request("DELETE", f"/v1/sessions/{answer['session_id']}")[0] == 204


@pytest.mark.parametrize("raw", [b"..\xc0\xafx", b"\xc0\xae\xc0\xae/x", b"\xe0\x80\xae./x", b"a\xed\xa0\x80b", b"a\\ud800b", b"a\\u0000b",
                                 b"\\u002e\\u002e\\u002fx", b"\\u002e./x", b"a\\/..\\/..\\/x"], ids=repr)
def test_paths_that_only_a_parser_can_make(server, same_processes, raw):
    """Overlong and lone code units are no text; escapes mean the same as the letters that they stand for."""
    for key in (b"content", b"content_base64"):
        status, answer = server.call("POST", "/v1/execute", b'{"code": "1", "files": [{"path": "%s", "%s": "eA=="}]}' % (raw, key))
        assert status in (400, 422) and answer["detail"], answer


NAMES = ["../../../tmp/x", "/etc/cron.d/x", "..\\..\\x", "secret", "glovebox-files.sqlite3", "../audit.jsonl", "．．／x", ".", "..",
         "$(touch pwned)", "`touch pwned`", "; touch pwned", "| touch pwned", "-rf", "\u202etxt.exe"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_are_kept_as_text_and_never_used(server, canary, name):
    """An upload under a hostile name, staged and returned: on the host there is only the id."""
    before = in_store(server), sorted(os.listdir(server.state_dir)), sorted(os.listdir(server.folder))
    kind, body = multipart([file_part(b"uploaded", name.replace("\\", "\\\\"))])
    status, answer = server.call("POST", "/v1/files", body, {"Content-Type": kind})
    assert status in (201, 400, 422), answer
    new = {answer["file_id"]} if status == 201 else set()
    if status == 201:
        assert server.download(answer["file_id"]) == b"uploaded"
        result = server.execute("print(open('in').read())", files=[{"path": "in", "file_id": answer["file_id"]}])
        assert result["stdout"] == "uploaded\n"
    assert in_store(server) == before[0] | new
    assert (sorted(os.listdir(server.state_dir)), sorted(os.listdir(server.folder))) == before[1:]


def test_no_shell_sees_a_name(server):
    """Names and texts that a shell would act on go in, through, and out."""
    evil = ["$(touch pwned)", "`touch pwned`", "a;touch pwned", "a|touch pwned", "a&&touch pwned", "'", '"', "*", "~", "$HOME",
            "-c", "--help", "!!", "a b"]
    answer = server.execute("import os\nfor n in os.listdir('in'): os.rename('in/' + n, 'out-' + n)",
                            files=[{"path": f"in/{e}", "content": e} for e in evil])
    assert answer["exit_code"] == 0 and paths(answer) == sorted(f"out-{e}" for e in evil)
    for entry in answer["files"]:
        assert server.download(entry["file_id"]).decode() == entry["path"].removeprefix("out-")
    for folder in (server.folder, server.state_dir, server.state_dir / "files"):
        assert "pwned" not in os.listdir(folder)


def test_the_server_fetches_nothing(server):
    """An address wherever a client can write one: nobody connects to it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "file_id": url}]})
        server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "url": url, "content": ""}], "url": url, "webhook": url})
        server.call("POST", "/v1/sessions", {"files": [{"path": "p", "file_id": url}]})
        server.request("GET", "/v1/files", headers={"Referer": url, "Origin": url.removesuffix("/x"), "X-Callback": url})
        server.raw(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (url.encode(), server.authority.encode()))
        server.raw(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (url.split("/")[2].encode(), server.authority.encode()))
        code = f"import socket\ntry: socket.create_connection(('127.0.0.1', {listener.getsockname()[1]}), 1)\nexcept OSError as e: print('no')"
        assert server.execute(code)["stdout"] == "no\n"
        with pytest.raises(BlockingIOError):
            listener.accept()


# --- what is whose -------------------------------------------------------------------------------------------


def constant_bits(numbers, bits):
    """Bits that are the same in all."""
    ones = zeros = (1 << bits) - 1
    for n in numbers:
        ones, zeros = ones & n, zeros & ~n
    return [b for b in range(bits) if (ones | zeros) >> b & 1]


def test_ids_of_files_have_122_random_bits(server):
    ids = [server.upload(b"") for _ in range(60)]
    assert all(UUID4.fullmatch(i) for i in ids) and len(set(ids)) == 60
    # Version and variant: four and two bits. That one of the others is 60 times the same is less likely than 2^-52.
    assert constant_bits([uuid.UUID(i).int for i in ids], 128) == [62, 63, 76, 77, 78, 79]
    for i in ids:
        server.request("DELETE", f"/v1/files/{i}")


def test_ids_of_sessions_have_128_random_bits(server):
    ids = []
    for _ in range(60):
        status, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 60})
        assert status == 201 and re.fullmatch("code-session-[0-9a-f]{32}", answer["session_id"]), answer
        ids.append(answer["session_id"])
        assert server.request("DELETE", f"/v1/sessions/{ids[-1]}")[0] == 204
    assert len(set(ids)) == 60
    numbers = [int(i.removeprefix("code-session-"), 16) for i in ids]
    fixed = constant_bits(numbers, 128)
    assert len(fixed) <= 6, f"{128 - len(fixed)} random bits"


def test_one_bit_beside_an_id_is_nobody(guarded):
    alice, bob = bearer(ALICE), bearer(BOB)
    file_id = guarded.upload(b"alice's", headers=alice)
    _, answer = guarded.call("POST", "/v1/sessions", {"ttl_seconds": 60}, alice)
    session = answer["session_id"]
    for bit in range(0, 128, 5):
        near = str(uuid.UUID(int=uuid.UUID(file_id).int ^ 1 << bit))
        for who in (alice, bob):
            assert guarded.call("GET", f"/v1/files/{near}", headers=who) == (404, {"detail": f"File with ID '{near}' not found"})
        near = f"code-session-{int(session.removeprefix('code-session-'), 16) ^ 1 << bit:032x}"
        assert guarded.call("DELETE", f"/v1/sessions/{near}", headers=alice)[0] == 404
    for other in (file_id.upper(), file_id.replace("-", ""), "{" + file_id + "}", f"urn:uuid:{file_id}", f"{file_id}%20", f"%20{file_id}"):
        assert guarded.request("GET", f"/v1/files/{other}", headers=bob)[0] in (400, 404)
        assert guarded.request("DELETE", f"/v1/files/{other}", headers=bob)[0] in (400, 404)
    assert guarded.download(file_id, alice) == b"alice's"
    assert guarded.request("DELETE", f"/v1/sessions/{session}", headers=alice)[0] == 204


def test_a_foreign_id_is_told_as_one_that_never_was(guarded):
    """The whole answer is the same but for the id that was asked for: nobody learns that it exists."""
    file_id, never = guarded.upload(b"x" * 1000, "name.txt", bearer(ALICE)), str(uuid.uuid4())
    _, answer = guarded.call("POST", "/v1/sessions", {"ttl_seconds": 60}, bearer(ALICE))
    session, no_session = answer["session_id"], "code-session-" + uuid.uuid4().hex

    def told(method, path, body, mine, other):
        status, headers, data = guarded.request(method, path, body, bearer(BOB))
        names = sorted(name.lower() for name in headers)
        return status, names, headers["Content-Length"], data.replace(mine.encode(), b"ID") if mine.encode() in data else data, other

    for method, path, body, tail in (("GET", "/v1/files/", None, ""), ("DELETE", "/v1/files/", None, "")):
        first, second = (told(method, path + one + tail, body, one, None) for one in (file_id, never))
        assert first == second and first[0] == 404
    for method, tail, body in (("DELETE", "", None), ("POST", "/bash", {"cmd": "true"})):
        first, second = (told(method, f"/v1/sessions/{one}{tail}", body, one, None) for one in (session, no_session))
        assert first == second and first[0] == 404
    assert guarded.request("DELETE", f"/v1/sessions/{session}", headers=bearer(ALICE))[0] == 204


def test_the_key_of_another_tenant_opens_nothing(guarded):
    """Bob knows Alice's Idempotency-Key, her request and her last event: he gets a run of his own, or nothing."""
    key = uuid.uuid4().hex
    body = {"code": "import os\nprint('run', os.urandom(16).hex(), flush=True)\nNone", "timeout_ms": 20000}
    with guarded.stream(body, {"Idempotency-Key": key, **bearer(ALICE)}) as stream:
        events = list(stream)
    text = "".join(e.data["data"] for e in events if e.name == "output")
    assert text.startswith("run ")
    for extra in ({}, {"Last-Event-ID": events[0].id}, {"Last-Event-ID": "0"}):
        with guarded.stream(body, {"Idempotency-Key": key, **extra, **bearer(BOB)}) as stream:
            said = stream.read()
        assert text.split()[1].encode() not in said
    status, answer = guarded.call("POST", "/v1/execute", body, {"Idempotency-Key": key, **bearer(BOB)})
    assert text.split()[1] not in json.dumps(answer), status


def test_two_tenants_share_nothing(guarded):
    """Files, sessions and what programs leave behind, as the other one could look for it."""
    guarded.call("POST", "/v1/execute", {"code": "for d in ('/tmp', '/dev/shm', '/home/box', '/var/tmp', '.'): open(d + '/left', 'w').write('x')"},
                 bearer(ALICE))
    _, answer = guarded.call("POST", "/v1/execute", {"code": LISTED}, bearer(BOB))
    assert answer["stdout"] == "[]\n"
    assert not set(listing(guarded, bearer(ALICE))) & set(listing(guarded, bearer(BOB)))


# --- tokens --------------------------------------------------------------------------------------------------


def test_a_token_in_an_address_is_neither_taken_nor_logged(serve, tmp_path):
    audit = tmp_path / "audit.jsonl"
    server = serve(tokens={"alice": ALICE}, log_level="debug", log_format="json", audit_file=audit)
    encoded = "".join(f"%{ord(c):02x}" for c in ALICE)
    for name in ("token", "access_token", "api_key", "apikey", "key", "auth", "Authorization", "X-API-KEY", "bearer"):
        for value in (ALICE, encoded, f"Bearer%20{ALICE}"):
            for method, path, body in (("GET", "/v1/files", None), ("POST", "/v1/execute", {"code": "1"}), ("GET", "/metrics", None),
                                       ("GET", "/", None), ("GET", "/docs", None)):
                assert server.request(method, f"{path}?{name}={value}", body)[0] == 401
    for headers in ({"Cookie": f"token={ALICE}"}, {"Referer": f"http://x/?token={ALICE}"}, {"Proxy-Authorization": f"Bearer {ALICE}"},
                    {"Sec-WebSocket-Protocol": f"bearer, {ALICE}"}):
        assert server.request("GET", "/v1/files", headers=headers)[0] == 401
    assert server.call("POST", "/v1/execute", {"code": "1", "token": ALICE})[0] == 401
    said = server.raw(b"GET http://gb:%s@%s/v1/files HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
                      % (ALICE.encode(), server.authority.encode(), server.authority.encode()))
    assert int(said.split(b" ", 2)[1]) in (400, 401)
    assert server.request("GET", f"/v1/files?token={ALICE}", headers=bearer(ALICE))[0] == 200, "beside the proper one it does no harm"
    until(lambda: audit.exists() and b"token_refused" in audit.read_bytes(), "refusals are in the audit file")
    server.stop()
    for place, text in (("log", server.log()), ("audit file", audit.read_text())):
        for secret in (ALICE, encoded, encoded.upper()):
            assert secret not in text, f"{secret} is in the {place}"


def test_an_upgrade_does_not_go_around_the_token(guarded):
    """Whatever a route answers to an upgrade: not before the token was seen, and never 101 here."""
    for path in ("/v1/files", "/v1/execute", "/", "/metrics", "/v1/sessions/x/bash"):
        for protocol in ("websocket", "h2c", "tcp"):
            headers = {"Connection": "Upgrade", "Upgrade": protocol, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
                       "Sec-WebSocket-Version": "13", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
            status, _, data = guarded.request("GET", path, headers=headers)
            assert status in (400, 401), (path, protocol, data)
            assert guarded.request("GET", path, headers={**headers, **bearer(ALICE)})[0] != 101


# --- browsers ------------------------------------------------------------------------------------------------

CODE = "open('made-by-a-page', 'w').write('x')"
FORM_BODIES = {
    "text/plain": b'{"code": "open(\'made-by-a-page\', \'w\').write(\'x\')", "x": "=\r\n"}',
    "application/x-www-form-urlencoded": b'{"code": "open(\'made-by-a-page\', \'w\').write(\'x\')", "x": "="}',
    "multipart/form-data; boundary=b": b'--b\r\nContent-Disposition: form-data; name="code"\r\n\r\nopen("made-by-a-page","w")\r\n--b--\r\n',
    "text/plain; x=application/json": b'{"code": "open(\'made-by-a-page\', \'w\').write(\'x\')"}',
    "TEXT/PLAIN;charset=UTF-8": b'{"code": "open(\'made-by-a-page\', \'w\').write(\'x\')"}',
    "": b'{"code": "open(\'made-by-a-page\', \'w\').write(\'x\')"}',
}


@pytest.mark.parametrize("kind", FORM_BODIES)
def test_a_form_of_a_page_runs_nothing(server, kind):
    """What a page can send without being asked before: three content types. With the marks of a browser, and without any."""
    before = listing(server)
    marks = [{"Origin": "http://evil.example"}, {"Origin": "null"},
             {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"},
             {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"}, {}]
    for headers in marks:
        for path in ("/v1/execute", "/v1/execute/stream", "/v1/sessions"):
            status, _, data = server.request("POST", path, FORM_BODIES[kind], {**headers, "Content-Type": kind})
            assert status in ((403,) if headers else (400, 415, 422)), (path, headers, data)
    assert listing(server) == before


SITES = {
    "cross-site no-cors": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "cross-site cors": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
    "cross-site image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    "cross-site socket": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "websocket", "Connection": "Upgrade", "Upgrade": "websocket",
                          "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
    "same site, other port": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    "no mode": {"Sec-Fetch-Site": "cross-site"},
    "foreign origin, but it says otherwise": {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    "foreign origin of a navigation": {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    "opaque origin": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    "own name, other port": {"Origin": "http://127.0.0.1:1"},
    "own name, other scheme": {"Origin": "file://127.0.0.1"},
    "a prefix": {"Origin": "http://127.0.0.1"},
    "a suffix": {"Origin": "http://127.0.0.1:{port}.evil.example"},
    "with a path": {"Origin": "http://127.0.0.1:{port}/"},
    "user": {"Origin": "http://127.0.0.1:{port}@evil.example"},
}


@pytest.mark.parametrize("name", SITES)
def test_requests_across_sites_do_nothing(server, name):
    headers = {key: value.format(port=server.port) for key, value in SITES[name].items()}
    file_id = server.upload(b"kept")
    _, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 60})
    session = answer["session_id"]
    before = listing(server)
    kind, form = multipart([file_part(b"planted", "planted")])
    calls = [("POST", "/v1/execute", {"code": CODE}), ("POST", "/v1/execute/stream", {"code": CODE}), ("POST", "/v1/sessions", {}),
             ("POST", f"/v1/sessions/{session}/bash", {"cmd": "touch planted"}), ("DELETE", f"/v1/sessions/{session}", None),
             ("DELETE", f"/v1/files/{file_id}", None), ("GET", f"/v1/files/{file_id}", None), ("GET", "/v1/files", None),
             ("GET", "/metrics", None)]
    for method, path, body in calls:
        status, answered, data = server.request(method, path, body, headers)
        assert status in (400, 403), (method, path, status, data)
        assert not [h for h in answered if h.lower().startswith("access-control-allow")]
    assert server.request("POST", "/v1/files", form, {**headers, "Content-Type": kind})[0] in (400, 403)
    assert listing(server) == before
    status, answer = server.call("POST", f"/v1/sessions/{session}/bash", {"cmd": "ls"})
    assert (status, answer["stdout"]) == (200, "")
    assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204


def test_a_cross_site_post_that_navigates_does_nothing(server):
    """Following a link is fine; submitting a form is not, whatever the mode says."""
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.request("GET", "/", headers=headers)[0] == 200
    file_id = server.upload(b"kept")
    for method, path, body in (("POST", "/v1/execute", {"code": CODE}), ("DELETE", f"/v1/files/{file_id}", None), ("POST", "/v1/sessions", {})):
        assert server.request(method, path, body, headers)[0] == 403
    assert server.download(file_id) == b"kept"


REBOUND = ["evil.example:{port}", "evil.example", "127.0.0.1.nip.io:{port}", "localhost.evil.example:{port}", "127.1:{port}", "0:{port}",
           "2130706433:{port}", "0x7f.1:{port}", "017700000001:{port}", "[::ffff:127.0.0.1]:{port}", "0.0.0.0:{port}", "[::]:{port}",
           "127.0.0.2:{port}",
           "localhost.:{port}", "127.0.0.1:{port}@evil.example", "evil.example#127.0.0.1:{port}", "evil.example\t:{port}", ""]


@pytest.mark.parametrize("host", REBOUND, ids=repr)
def test_a_name_that_was_made_to_point_here(server, host):
    """To the browser it is one site: Host and Origin agree, and Sec-Fetch-Site says same-origin. Only names of ours count.
    Other spellings of this machine may be refused or not; a name of somebody else never gets anything."""
    host = host.format(port=server.port)
    before = listing(server)
    for method, path, body in ((b"POST", b"/v1/execute", json.dumps({"code": CODE}).encode()), (b"GET", b"/v1/files", b""), (b"GET", b"/", b""),
                               (b"POST", b"/v1/sessions", b"{}"), (b"GET", b"/openapi.json", b"")):
        said = server.raw(b"%s %s HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nSec-Fetch-Site: same-origin\r\nConnection: close\r\n"
                          b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                          % (method, path, host.encode(), host.encode(), len(body), body))
        assert int(said.split(b" ", 2)[1]) in (400, 403, 421), (path, said)
    assert listing(server) == before


def test_the_name_in_an_absolute_target_counts(server):
    for target in (b"http://evil.example/v1/files", b"https://evil.example/v1/files", b"http://evil.example:%d/v1/files" % server.port):
        said = server.raw(b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, server.authority.encode()))
        assert int(said.split(b" ", 2)[1]) in (400, 403, 421), said


# --- what a program prepares for the one who collects ----------------------------------------------------------


def test_links_out_of_the_workspace_are_not_followed(server, tmp_path):
    """To files and directories of the box and of the host, absolute, relative, through one another, and where an input was."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    targets = ["/etc/passwd", str(outside), str(outside / "secret"), "../" * 30 + str(outside)[1:], "/proc/self/environ", "/proc/1/environ",
               "/proc/self/root" + str(outside), "/dev/zero", "/dev/stdin", "/", "..", ".", "/proc/self/fd/0"]
    answer = server.execute(f"""
import os
for i, target in enumerate({targets!r}):
    os.symlink(target, f"link{{i}}")
os.symlink("/etc", "etc")
os.symlink("etc/passwd", "through")
os.symlink("loop", "loop")
os.makedirs("d")
os.symlink("../etc", "d/up")
os.remove("in/put"); os.rmdir("in"); os.symlink("/etc", "in")
open("kept", "w").write("kept")
""", files=[{"path": "in/put", "content": "x"}, {"path": "in2", "content": "y"}])
    assert answer["exit_code"] == 0 and paths(answer) == ["kept"], answer
    assert server.download(answer["files"][0]["file_id"]) == b"kept"


SWAP = r"""
import os, sys, time
TARGET = {target!r}
os.makedirs("d")
for n in ("d/passwd", "f"):
    open(n, "w").write("harmless")
os.mkdir("other"); open("other/passwd", "w").write("harmless")
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for s in range(1, 32):
        try:
            __import__("signal").signal(s, 1)
        except (OSError, ValueError):
            pass
    os.dup2(os.open("/dev/null", os.O_RDWR), 1); os.dup2(1, 2)
    os.symlink(TARGET, "link")
    os.symlink(TARGET + "/passwd", "flink")
    while True:
        os.rename("d", "x"); os.rename("link", "d"); os.rename("d", "link"); os.rename("x", "d")
        os.rename("f", "y"); os.rename("flink", "f"); os.rename("f", "flink"); os.rename("y", "f")
time.sleep({wait})
{end}
"""


def check_swapped(server, answer):
    """Only plain files with the content that the program gave them came back."""
    for entry in answer["files"]:
        assert entry["path"].split("/")[0] in ("d", "f", "other", "x", "y"), entry
        assert server.download(entry["file_id"]) == b"harmless", entry
        server.request("DELETE", f"/v1/files/{entry['file_id']}")
    return len(answer["files"])


@pytest.mark.more
@pytest.mark.parametrize("rounds", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_links_swapped_while_files_are_collected(server, tmp_path, same_processes, rounds):
    """A process that outlives the program exchanges directory and link, file and link, as fast as it can."""
    (tmp_path / "passwd").write_bytes(SECRET)

    def attack(i):
        code = SWAP.format(target=("/etc", str(tmp_path), "/proc/self/root/etc")[i % 3], wait=0.001 * (i % 20),
                           end="os._exit(0)" if i % 4 else "time.sleep(1000)")
        answer = server.execute(code, timeout_ms=60000 if i % 4 else 300)
        assert answer["timed_out"] == (i % 4 == 0), answer
        return check_swapped(server, answer)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        returned = list(pool.map(attack, range(rounds)))
    assert sum(returned) > rounds, "files came back"


def test_what_is_no_plain_file_does_not_stop_the_collection(server, same_processes):
    """Hard links, pipes without a writer, sockets; nodes of devices cannot be made. Nobody waits for any of them."""
    answer = server.execute("""
import os, socket, stat
refused = 0
for kind in (stat.S_IFBLK, stat.S_IFCHR):
    for device in (os.makedev(1, 1), os.makedev(8, 0), os.makedev(1, 5), os.makedev(5, 0), 0):
        try:
            os.mknod(f"node{kind}{device}", kind | 0o666, device)
        except OSError:
            refused += 1
for place in ("/etc/passwd", "/usr/bin/env", "/proc/self/environ", "/dev/zero", "/etc/hostname"):
    try:
        os.link(place, "linked" + place.replace("/", "-"))
    except OSError:
        refused += 1
for i in range(20):
    os.mkfifo(f"pipe{i}")
reader = os.open("pipe0", os.O_RDONLY | os.O_NONBLOCK)
socket.socket(socket.AF_UNIX).bind("socket")
open("one", "w").write("same")
for i in range(10):
    os.link("one", f"two{i}")
print(refused)
""")
    assert answer["stdout"] == "15\n", answer
    assert paths(answer) == sorted(["one"] + [f"two{i}" for i in range(10)])
    assert {server.download(f["file_id"]) for f in answer["files"]} == {b"same"}


def test_a_setuid_file_comes_back_as_bytes(server):
    answer = server.execute("import os\nopen('s', 'w').write('#!/bin/sh')\nos.chmod('s', 0o6777)\nprint(oct(os.stat('s').st_mode))")
    file_id = answer["files"][0]["file_id"]
    stored = (server.state_dir / "files" / file_id).stat()
    assert stored.st_mode & 0o7777 == 0o600, "no bit of the box's is on the host"


def test_a_sparse_terabyte(server, same_processes):
    """A file cannot be larger than the workspace, holes or not."""
    answer = server.execute("""
import os
for size in (1 << 40, 1 << 62, 200 << 20):
    for way in (os.truncate, lambda p, n: os.posix_fallocate(os.open(p, os.O_RDWR), 0, n), lambda p, n: os.pwrite(os.open(p, os.O_RDWR), b"x", n)):
        open("f", "w").close()
        try:
            way("f", size)
            print("made", size, os.stat("f").st_size)
        except OSError as e:
            pass
os.remove("f")
""")
    assert (answer["stdout"], answer["exit_code"], answer["files"]) == ("", 0, []), answer


def stored_bytes(server):
    return sum(os.stat(server.state_dir / "files" / n).st_blocks * 512 for n in os.listdir(server.state_dir / "files"))


HOLES = "for i in range({count}):\n    with open(f's{{i}}', 'wb') as f: f.truncate({size})"


def test_holes_do_not_exceed_what_the_store_may_hold(serve):
    server = serve(store_bytes="16M", ci_workspace="64M")
    kept = server.upload(b"kept")
    status, headers, data = server.request("POST", "/v1/execute", {"code": HOLES.format(count=100, size=4 * MIB), "timeout_ms": 20000})
    assert status == 503 and headers["Retry-After"], (status, data)
    assert stored_bytes(server) < 20 * MIB
    assert server.download(kept) == b"kept"
    for file_id in set(listing(server)) - {kept}:
        assert server.request("DELETE", f"/v1/files/{file_id}")[0] == 204
    assert paths(server.execute("open('f', 'w').write('x')")) == ["f"]


def test_holes_do_not_exceed_the_workspace(serve):
    """A box with room for 1 MiB takes 100 MiB of the host's disk by files that have no blocks."""
    server = serve(ci_workspace="1M")
    server.request("POST", "/v1/execute", {"code": HOLES.format(count=100, size=MIB), "timeout_ms": 20000})
    assert stored_bytes(server) < 10 * MIB


@pytest.mark.slow
def test_sixty_five_thousand_files(server, same_processes):
    """More than can be returned: said so, or the first of them; nothing is half stored, others are served meanwhile."""
    before = in_store(server)
    code = "for i in range(65000):\n    open(f'f{i}', 'w').close()\nprint('made')"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        work = pool.submit(server.call, "POST", "/v1/execute", {"code": code, "timeout_ms": 60000})
        answered = 0
        while not work.done() or not answered:
            assert server.request("GET", "/health")[0] == 200
            answered += 1
        status, answer = work.result()
    if status == 200:
        assert answer["stdout"] == "made\n"
        for entry in answer["files"]:
            server.request("DELETE", f"/v1/files/{entry['file_id']}")
    else:
        assert status in (413, 422, 500, 507) and "too many files" in answer["detail"]
    assert in_store(server) == before


def test_names_that_are_no_text(server, same_processes):
    """Passed over, or returned with what is no text replaced; the answer is text, and no name is two."""
    answer = server.execute(r"""
import os
bad = [b"\xff", b"a\xffb", b"\xc0\xae\xc0\xae", b"..\xc0\xafx", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"x" * 254 + b"\x80",
       b"new\nline", b"\r", b"\x1b[2J", b"\x7f", b"tab\t"]
good = ["ok", "\u00e9", "\U0001d11e", "x" * 255, " ", "\\", "...", "\u202e", "\ufeff", "\uffff"]
for name in bad + [g.encode() for g in good]:
    with open(name, "wb") as f:
        f.write(b"content")
os.mkdir(b"\xff\xfe")
open(b"\xff\xfe/inner", "w").write("content")
""", last_line_interactive=False)
    assert answer["exit_code"] == 0, answer
    found = paths(answer)
    assert {"ok", "é", "𝄞", "x" * 255, " ", "\\", "..."} <= set(found)
    assert [p for p in found if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", p) or ".." in p.split("/")] == []
    assert {server.download(f["file_id"]) for f in answer["files"]} == {b"content"}
    listing(server)  # is JSON


def test_a_program_that_never_stops_changing_its_files(server, same_processes):
    """Descendants write, grow, shrink, rename and remove while everything is collected. An answer comes, and they are gone."""
    word = mark()
    for _ in range(5):
        answer = server.execute(f"""
import os, subprocess, sys, time
child = '''
import os, sys, random
n = int(sys.argv[2])
while True:
    name = f"f{{n}}-{{random.randrange(20)}}"
    try:
        with open(name, "wb") as f:
            f.write(b"x" * random.randrange(200000))
        os.rename(name, f"g{{n}}-{{random.randrange(20)}}")
        os.truncate(name, 10)
        os.remove(f"g{{n}}-{{random.randrange(20)}}")
    except OSError:
        pass
'''
for n in range(4):
    subprocess.Popen([sys.executable, "-c", child, {word!r}, str(n)], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while len(os.listdir(".")) < 10:
    time.sleep(0.01)
""", timeout_ms=60000)
        assert answer["exit_code"] == 0 and all(re.fullmatch(r"[fg]\d-\d+", p) for p in paths(answer)), answer
        for entry in answer["files"]:
            data = server.download(entry["file_id"])
            assert len(data) < 200000 and data.strip(b"x\0") == b""
            server.request("DELETE", f"/v1/files/{entry['file_id']}")
    until(lambda: not server.running(word), "the descendants are gone")


DAEMON = """
import ctypes, os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    for s in range(1, 65):
        try:
            signal.signal(s, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.chdir("/")
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)", "WORD"])
time.sleep(0.2)
"""


def test_a_daemon_does_not_stay(server):
    """Detached, deaf to signals, with no descriptor of ours: gone when the run, the stream or the session is."""
    word = mark()
    code = DAEMON.replace("WORD", word)
    assert server.execute(code)["exit_code"] == 0
    assert [n for n, _ in server.sse("/v1/execute/stream", {"code": code})] == ["result"]
    _, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 60, "files": [{"path": "d.py", "content": code}]})
    status, said = server.call("POST", f"/v1/sessions/{answer['session_id']}/bash", {"cmd": "python3 d.py"})
    assert (status, said["exit_code"]) == (200, 0)
    assert len(until(lambda: server.running(word), "that of the session is there")) == 1
    assert server.request("DELETE", f"/v1/sessions/{answer['session_id']}")[0] == 204
    until(lambda: not server.running(word), "no daemon is left")


# --- floods --------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_output_that_nobody_reads(serve):
    """Ten clients ask for endless output and do not read it: the gate keeps little of it, others are served, and they are let go."""
    server = serve(env={"MAX_OUTPUT_BYTES": "500000000"}, write_timeout="1s", ci_cpu_seconds=60)
    word = mark()
    gate = server.pid_of("gate")
    before = int(status_of(gate)["VmRSS"].split()[0])
    code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import os\\nwhile True: os.write(1, bytes(65536))', {word!r}])"
    body = json.dumps({"code": code, "timeout_ms": 50000}).encode()
    with contextlib.ExitStack() as stack:
        for path in (b"/v1/execute/stream",) * 10:
            s = stack.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect((server.host, server.port))
            s.sendall(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                      % (path, server.authority.encode(), len(body), body))
        until(lambda: server.running(word), "they run")
        assert server.execute("print(1)", timeout_ms=20000)["stdout"] == "1\n"
        until(lambda: not server.running(word), "who does not read is let go, and the program ends")
        grown = int(status_of(gate)["VmRSS"].split()[0]) - before
    assert server.pid_of("gate") == gate and (SANITIZED or grown < 64 * 1024), f"{grown} KiB"
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_answers_that_nobody_reads(serve):
    """The same with one large answer each, and pipelined requests whose answers pile up."""
    server = serve(env={"MAX_OUTPUT_BYTES": "4000000"}, write_timeout="1s")
    gate = server.pid_of("gate")
    body = json.dumps({"code": "print('x' * 4000000)", "timeout_ms": 20000}).encode()
    request = (b"POST /v1/execute HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
               % (server.authority.encode(), len(body), body))
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            s = stack.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect((server.host, server.port))
            s.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                s.send(request * 20)

        def timed_out():
            text = server.request("GET", "/metrics")[2].decode()
            return int(re.search(r"^glovebox_connections_timed_out_total (\d+)", text, re.M)[1]) >= 8

        until(timed_out, "all eight are let go")
    assert server.pid_of("gate") == gate
    # A sanitizer keeps what was freed for a while, 256 MiB of it by default.
    assert int(status_of(gate)["VmRSS"].split()[0]) < (512 if "ASAN_OPTIONS" in os.environ else 256) * 1024
    assert server.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.more
def test_many_entries_of_files(server, same_processes):
    """999 are staged; when the last is not ours, none is and nothing runs."""
    count = "import os\nprint(sum(len(f) for _, _, f in os.walk('in')))"
    files = [{"path": f"in/{i % 7}/{i}", "content": str(i)} for i in range(999)]
    answer = server.execute(count, files=files, timeout_ms=60000)
    assert (answer["stdout"], answer["files"]) == ("999\n", [])
    file_id = server.upload(b"x")
    answer = server.execute(count, files=[{"path": f"in/{i}", "file_id": file_id} for i in range(999)], timeout_ms=60000)
    assert (answer["stdout"], answer["files"]) == ("999\n", [])
    before = in_store(server)
    for last, statuses in (({"path": "p", "file_id": str(uuid.uuid4())}, (404,)), ({"path": "../p", "content": ""}, (422,)),
                           ({"path": "p"}, (422,)), ({"path": "in/0/0/x", "content": ""}, (400, 409, 422)),
                           ({"path": "p", "content_base64": "%"}, (422,)), ({"path": 5, "content": ""}, (422,))):
        status, answer = server.call("POST", "/v1/execute", {"code": "open('ran', 'w')", "files": [*files[:998], last]})
        assert status in statuses, (last, answer)
    assert server.call("POST", "/v1/execute", {"code": "1", "files": [*files, files[0]]})[0] == 422, "1000 are too many"
    assert in_store(server) == before


def test_the_same_path_999_times(server, same_processes):
    status, answer = server.call("POST", "/v1/execute", {"code": "print(open('p').read())", "timeout_ms": 60000,
                                                         "files": [{"path": "p", "content": str(i)} for i in range(999)]})
    assert status in (400, 409, 422) or (status == 200 and answer["stdout"] in ("0\n", "998\n")), answer


BOMBS = {
    "lists": b"[" * 1_000_000,
    "closed lists": b'{"code": "1", "x": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "objects": b'{"code": "1", "x": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}",
    "mixed": b'{"code": "1", "files": ' + b'[{"path":' * 100_000,
    "wide": b'{"code": "1", "x": [' + b"0," * 2_000_000 + b"0]}",
    "many keys": b'{"code": "1"' + b"".join(b',"%d":0' % i for i in range(300_000)) + b"}",
    "long key": b'{"code": "1", "' + b"k" * 8_000_000 + b'": 1}',
    "long number": b'{"code": "1", "timeout_ms": ' + b"9" * 4_000_000 + b"}",
    "exponent": b'{"code": "1", "timeout_ms": 1e999999999}',
    "escapes": b'{"code": "1", "x": "' + b"\\u0041" * 2_000_000 + b'"}',
    "spaces": b" " * 8_000_000 + b'{"code": "1"}',
    "many files": b'{"code": "1", "files": [' + b'{"path": "a", "content": ""},' * 300_000 + b'{"path": "a", "content": ""}]}',
    "files of nothing": b'{"code": "1", "files": [' + b"{}," * 1_000_000 + b"{}]}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_json_that_unfolds(server, same_processes, name):
    """A refusal, or what it says is done; the answer is small, and the gate keeps nothing of it."""
    gate = server.pid_of("gate")
    before = int(status_of(gate)["VmRSS"].split()[0])
    status, _, data = server.request("POST", "/v1/execute", BOMBS[name])
    assert status in (200, 400, 413, 422), data[:200]
    assert len(data) < 100_000, "an answer is no echo"
    assert SANITIZED or int(status_of(gate)["VmRSS"].split()[0]) - before < 64 * 1024


def test_bombs_by_many_at_once(server, same_processes):
    """Two dozen of the heaviest at the same time, and somebody who only wants to know how it goes."""
    failures = []

    def throw(name):
        try:
            assert server.request("POST", "/v1/execute", BOMBS[name])[0] in (200, 400, 413, 422, 429, 503)
        except BaseException as e:  # it is told in the main thread
            failures.append(e)

    threads = [threading.Thread(target=throw, args=(name,)) for name in ("objects", "many keys", "long key", "wide") * 6]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert server.request("GET", "/health")[0] == 200
    for thread in threads:
        thread.join(120)
    assert not failures and not any(t.is_alive() for t in threads), failures


# --- files that the host might trust ---------------------------------------------------------------------------

TRUSTED = ["glovebox.conf", ".env", "sitecustomize.py", "usercustomize.py", "evil.pth", "conftest.py", ".git/config", ".git/hooks/pre-commit",
           ".bashrc", ".profile", ".bash_profile", "settings.json", ".claude/settings.json", "pyvenv.cfg", "python3._pth", "json.py", "ast.py",
           "audit.jsonl", "glovebox-files.sqlite3", "token_file", "state/files/x", "__init__.py", "ld.so.preload", ".pdbrc", ".inputrc",
           ".ssh/authorized_keys", "Makefile", "docker-compose.yml"]


def test_files_of_a_box_have_no_effect_outside(serve):
    """They come back as bytes under ids. The server, started again and told to read its settings again, is as before; so is the next run."""
    server = serve()
    evil = "import os\nos.environ['PWNED'] = 'yes'\nprint('PWNED')\nlisten = 0.0.0.0:1\n"
    server.execute("1")
    until(lambda: list(server.state_dir.rglob("audit.jsonl")), "the audit file is begun")
    before = sorted(os.listdir(server.folder)), sorted(os.listdir(server.state_dir))
    answer = server.execute(f"""
import os
for base in ("/workspace", "/home/box", "/tmp", "/home/box/.local/lib/python3.11/site-packages"):
    for name in {TRUSTED!r}:
        path = os.path.join(base, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write({evil!r})
        os.chmod(path, 0o777)
""")
    assert answer["exit_code"] == 0 and paths(answer) == sorted(TRUSTED), answer
    assert (sorted(os.listdir(server.folder)), sorted(os.listdir(server.state_dir))) == before
    assert in_store(server) == {f["file_id"] for f in answer["files"]}
    log = server.log()
    os.kill(server.pid, 1)
    clean = "import os, sys, json, ast\nprint(sorted(os.listdir('.')), os.environ.get('PWNED'), json.__file__.startswith('/usr'))"
    said = "['__main__.py'] None True\n"
    assert server.execute(clean, last_line_interactive=False)["stdout"] == said
    server.next_gate(server.kill_gate())
    assert server.execute(clean, last_line_interactive=False)["stdout"] == said
    server.stop()
    server.start()
    assert server.execute(clean, last_line_interactive=False)["stdout"] == said
    assert "PWNED" not in server.log()[len(log):] and (sorted(os.listdir(server.folder)), sorted(os.listdir(server.state_dir))) == before


def test_staged_modules_do_not_run_before_the_program(server):
    """What lies beside the program may shadow a module for the program, as in every directory; it does not act on how the run is
    reported: exit code, output and files are still its own."""
    files = [{"path": name, "content": "import os\nos.write(1, b'SHADOW')\nos._exit(9)\n"} for name in
             ("sitecustomize.py", "usercustomize.py", "encodings.py", "codecs.py", "io.py", "os.py", "site.py", "abc.py")]
    answer = server.execute("print('mine')", files=files)
    assert (answer["stdout"], answer["exit_code"], answer["files"]) == ("mine\n", 0, []), answer


def test_limits_of_the_box_are_not_those_of_the_server(server):
    """Limits, priorities and affinity that a program sets end with its box."""
    def theirs():
        return [(pathlib.Path(f"/proc/{pid}/limits").read_text(), os.getpriority(os.PRIO_PROCESS, pid), os.sched_getaffinity(pid))
                for pid in (server.pid_of(role) for role in ("serve", "keeper", "gate", "store"))]

    before = theirs()
    answer = server.execute("import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))\nos.nice(19)\n"
                            "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nprint('done')")
    assert answer["stdout"] == "done\n", answer
    assert theirs() == before
