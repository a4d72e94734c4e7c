# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime: sessions by the names that clients choose; made, shown, listed, ended; and the client of its SDK from end to end."""
import asyncio
import concurrent.futures
import http.client
import json
import os

import pytest

from described import Described, needs_jsonschema, operations
from se import BASE, Session, each, handle, quoted, refused, unwrapped
from se_client import SandboxError, SharedEnvSandbox, new_answer, old_answer
from server import file_part, mark, multipart, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

# Boxes made ahead come and go whenever they like, which looks like a leak of the test that is running.
NO_POOL = {"GLOVEBOX_SESSION_POOL_SIZE": "0"}

server = shared(env=NO_POOL)


@pytest.fixture
def session(server):
    with Session(server) as one:
        yield one


def workspaces(server, headers=None):
    status, answer = server.call("GET", f"{BASE}/workspaces", headers=headers)
    assert status == 200, (status, answer)
    return answer["workspaces"]


# --- made and ended ------------------------------------------------------------------------------------------


def test_healthy(server):
    status, answer = server.call("GET", f"{BASE}/healthy")
    assert status == 200 and answer["status"] == "success"


@pytest.mark.parametrize("fields",
                         [{}, {"size": "100M"}, {"size": "50m"}, {"size": "1048576"}, {"size": "64k"}, {"size": "100M", "colour": "blue"}],
                         ids=str)
def test_create(session, fields):
    status, answer = session.create(**fields)
    assert status == 200 and unwrapped(answer) == {"session_id": session.id}
    assert session.shell("echo here") == "here\n"


def test_a_name_is_taken_once(session):
    assert session.create()[0] == 200
    session.write("kept", "mine")
    for fields in ({}, {"size": "50M"}):
        said = refused(*session.create(**fields), 409)
        assert "Failed to create session" in said and "already exists" in said
    assert session.read("kept") == b"mine"


def test_one_of_many_makes_it(session):
    """All ask at once: it is made once, and the others are told."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: session.create()[0], range(8)))
    assert sorted(statuses) == [200] + [409] * 7


def test_many_use_it_before_it_is_there(session):
    """Whoever comes first makes it; all of them are in the same one."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda i: session.write(f"f{i}", str(i)), range(6)))
    assert set(session.files()) == {f"f{i}" for i in range(6)}


def test_delete_is_for_ever_and_for_all(session):
    session.write("f", "x")
    for _ in range(3):
        status, answer = session.delete()
        assert status == 200 and unwrapped(answer) == {"status": "success"}
    assert session.status()["exists"] is False
    assert session.files() == {}, "the next of that name is a new one"
    assert session.create()[0] == 409, "and was made by asking for its files"


def test_delete_ends_what_runs(server, session):
    word = mark()
    session.shell(f"setsid sh -c 'while sleep 0.1; do :; done; : {word}' > /dev/null 2>&1 &")
    until(lambda: server.running(word), "it runs")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        other = pool.submit(session.call, "POST", "execute", body={"command": f"sleep 1000; : in front {word}"})
        until(lambda: len(server.running(word)) >= 2, "the command runs")
        assert session.delete()[0] == 200
        status, answer = other.result()
    assert status >= 400 or unwrapped(answer)["returncode"] != 0, "who waited is told that it did not go well"
    until(lambda: not server.running(word), "nothing of it is left")
    assert session.status()["exists"] is False, "what ended does not make it again"


def test_many_end_it_at_once(server):
    """Whoever comes second finds it ended, which is what he wanted; who asks meanwhile is told one or the other."""
    for _ in range(8):
        session = Session(server)
        session.write("f", "x")
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            ends = [pool.submit(session.delete) for _ in range(4)]
            looks = [pool.submit(session.call, "GET", "status") for _ in range(2)]
            assert [end.result() for end in ends] == [(200, {"status": "success", "result": {"status": "success"}})] * 4
            assert [look.result()[0] for look in looks] == [200, 200]
        assert session.status()["exists"] is False


def test_who_comes_while_it_is_made_and_ended(server):
    """In whatever order they are taken: who ends it is told so, who uses it has it, or is told that it was ended while he did."""
    def ends(session):
        return session.delete()[0]

    def uses(session):
        status, answer = session.put("f", "x")
        return status if status == 200 else refused(status, answer, 500)

    def looks(session):
        return session.call("GET", "status")[0]

    for _ in range(6):
        session = Session(server)
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            found = [(act, pool.submit(act, session)) for _ in range(3) for act in (uses, ends, looks)]
            for act, one in found:
                assert one.result() == 200 or act is uses and "ended" in one.result(), (act, one.result())
        session.delete()


MAKERS = {
    "upload": ("POST", "upload", "", "?filename=f", None), "create": ("POST", "create", "", "", {"filename": "f", "content": "x"}),
    "download": ("GET", "download", "/f", "", None), "execute": ("POST", "execute", "", "", {"command": "true"}),
    "execute_code": ("POST", "execute_code", "", "", {"code": "1"}), "files": ("GET", "files", "/", "", None),
    "readfile": ("GET", "readfile", "/f", "", None),
}


@pytest.mark.parametrize("route", MAKERS)
def test_every_route_makes_it(session, route):
    method, route, rest, query, body = MAKERS[route]
    headers = {}
    if route == "upload":
        body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\nx\r\n--b--\r\n'
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
    status = session.request(method, route, rest, query, body, headers)[0]
    assert status == (404 if route in ("download", "readfile") else 200)
    assert session.status()["exists"] is True and session.create()[0] == 409


def test_asking_how_it_is_does_not_make_it(server, session):
    for _ in range(2):
        answer = session.status()
        assert (answer["id"], answer["exists"], answer["is_mounted"]) == (session.id, False, False)
        assert answer["created_at"] is None and answer["mount_point"] is None
    assert session.id not in workspaces(server)
    assert session.create()[0] == 200


def test_status(session):
    session.write("d/a.txt", "four")
    session.write("b", "")
    answer = session.status()
    assert {"id", "exists", "created_at", "mount_point", "is_mounted", "files"} <= set(answer)
    assert (answer["id"], answer["exists"], answer["is_mounted"]) == (session.id, True, True)
    assert answer["created_at"] and isinstance(answer["mount_point"], str)
    for entry in answer["files"]:
        assert {"filename", "size", "type", "modified_at"} <= set(entry) and entry["modified_at"]
    sizes = {entry["filename"]: entry["size"] for entry in answer["files"]}
    assert sizes["b"] == 0 and sizes.get("d/a.txt", 4) == 4
    assert session.status()["created_at"] == answer["created_at"], "it was made once"


def test_workspaces(server):
    with Session(server) as one, Session(server, "second of them") as other:
        assert not {one.id, other.id} & set(workspaces(server))
        one.create()
        other.create()
        found = workspaces(server)
        assert {one.id, other.id} <= set(found)
        for sid in (one.id, other.id):
            assert isinstance(found[sid]["mount_point"], str) and found[sid]["created_at"]
        one.delete()
        assert one.id not in workspaces(server) and other.id in workspaces(server)


@pytest.mark.parametrize("body", [{"force": True}, {"force": False}, {}], ids=str)
def test_cleanup_all(serve, body):
    server = serve(env=NO_POOL)
    for n in (0, 3):
        sessions = [Session(server) for _ in range(n)]
        for one in sessions:
            assert one.create()[0] == 200
        status, answer = server.call("POST", f"{BASE}/cleanup-all", body)
        assert status == 200, answer
        assert answer["total"] == n and answer["success"] + len(answer["failed"]) + len(answer["skipped"]) == n, answer
        assert set(workspaces(server)) <= set(answer["skipped"]) and answer["failed"] == []
        if body.get("force"):
            assert answer["success"] == n and workspaces(server) == {}
            assert all(one.status()["exists"] is False for one in sessions)
        for one in sessions:
            one.delete()


def test_cleanup_forces_who_is_at_work(serve):
    server, word = serve(env=NO_POOL), mark()
    session = Session(server)
    session.shell(f"setsid sh -c 'while sleep 0.1; do :; done; : {word}' > /dev/null 2>&1 &")
    until(lambda: server.running(word), "it runs")
    assert server.call("POST", f"{BASE}/cleanup-all", {"force": True})[1]["success"] == 1
    until(lambda: not server.running(word), "it is gone")


# --- names ---------------------------------------------------------------------------------------------------

NAMES = ["a", "A", "with space", "a.b", ".hidden", "...", "..a", "a..", "-rf", "~", "ünï", "u\u0308ni\u0308", "日本語", "😀", "a%2e", "a%2F..%2Fb",
         "a\\b",
         "..\\..\\x", "semi;colon", "$(id)", "`id`", "a'b\"c", "*", "a?b", "a#b", "a&b=c", "null", "0", "preview", "x" * 64, "․․", "．．", "a∕b",
         "\u202egnp", "a\u200bb"]


def test_names_are_names(server):
    """Whatever a client calls it: a session of that name, and of no other."""
    for begin in range(0, len(NAMES), 8):
        names = NAMES[begin:begin + 8]
        sessions = [Session(server, name) for name in names]
        try:
            for one in sessions:
                status, answer = one.create(size="1M")
                assert status == 200 and answer["session_id"] == one.id, (one.id, answer)
                one.write("who", one.id)
            assert [one.read("who").decode() for one in sessions] == names
            assert set(names) == set(workspaces(server))
        finally:
            for one in sessions:
                one.delete()


# A name may be refused. What must not be: that it leads to another place, or that it is there and cannot be ended.
ODD_NAMES = ["%2e", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc", "a%2fb", "%2f", "%2fetc%2fpasswd", "%00", "a%00b", "%0a", "a%0db", "%ff", "%c0%ae%c0%ae",
             "%ed%a0%80",
             "x" * 255, "x" * 256, "x" * 4096, "%", "%zz", "%7f", "%1b%5b31m", ".", ".."]


@pytest.mark.parametrize("name", ODD_NAMES, ids=[name[:20] + str(len(name)) for name in ODD_NAMES])
def test_odd_names(server, name):
    before = set(workspaces(server))
    path = f"{BASE}/session/{name}"
    status, _, data = server.request("POST", path, {})
    assert status in (200, 400, 404, 405, 414, 422, 431), (status, data)
    json.loads(data)
    if status == 200:
        assert len(set(workspaces(server)) - before) == 1
        body = {"filename": "f", "content": "x"}
        assert server.request("POST", f"{BASE}/create/{name}", body)[0] == 200
        assert server.request("GET", f"{BASE}/download/{name}/f")[2] == b"x"
        assert server.request("DELETE", path)[0] == 200
    assert set(workspaces(server)) == before


# --- what is wrong -------------------------------------------------------------------------------------------

WRONG_TYPES = [1, True, None, [], {}, 1.5]


@pytest.mark.parametrize("size", WRONG_TYPES, ids=repr)
def test_a_size_of_the_wrong_type(session, size):
    """null is left open: the field is optional."""
    status, answer = session.create(size=size)
    if size is None and status == 200:
        return
    assert status == 422 and answer["detail"][0]["loc"] == ["body", "size"], answer
    assert session.status()["exists"] is False


@pytest.mark.parametrize("size",
                         ["", "x", "M", "-1", "-1M", "1.5.5M", "1Q", "0", "1M; rm -rf /", "1M,mode=777", "100M,exec", "999999999T", "1 M x",
                                  "9" * 40, "1\u0660M"], ids=repr)
def test_a_size_that_is_none(session, size):
    refused(*session.create(size=size))
    assert session.status()["exists"] is False


@pytest.mark.parametrize("body", [b"[]", b"{", b"null", b'"x"', b"size=1M"], ids=repr)
def test_a_body_that_is_none(session, body):
    status, answer = session.call("POST", "session", body=body)
    assert status in (400, 422) and answer["detail"]
    assert session.status()["exists"] is False


@pytest.mark.parametrize("method, path",
                         [("GET", "/nothing"), ("GET", ""), ("GET", "/"), ("PUT", "/session/x"), ("GET", "/execute/x"), ("POST", "/healthy"),
                                          ("GET", "/v2/execute_code"), ("POST", "/session/"), ("POST", "/session"), ("POST", "/session/a/b"),
                                          ("GET", "/../../health")], ids=str)
def test_routes_that_are_none(server, method, path):
    before = set(workspaces(server))
    status, _, data = server.request(method, f"{BASE}{path}", {} if method in ("PUT", "POST") else None)
    assert status in (400, 404, 405), (status, data)
    json.loads(data)
    assert set(workspaces(server)) == before


@pytest.mark.parametrize("body", [{}, {"file_params": []}, {"file_params": [{}]}, {"file_params": [{"docid": "../x"}]},
                                  {"file_params": [{"docid": "gns://x"}], "efast_url": "http://127.0.0.1:9", "token": "t"}], ids=str)
def test_a_store_that_is_not_there(session, body):
    """The documents of another product: said to be wrong, or not to be had."""
    refused(*session.call("POST", "download_from_efast", body=body))


# --- as it is described --------------------------------------------------------------------------------------


def test_its_description(server):
    assert server.request("GET", "/api.json")[2] == server.request("GET", "/openapi.json")[2]
    paths = server.call("GET", "/api.json")[1]["paths"]
    assert {f"{BASE}/healthy", f"{BASE}/v2/execute_code", f"{BASE}/workspaces"} <= set(paths)


FORM, UPLOAD = multipart([file_part(bytes(range(256)), "b.bin")])
JSON = {"Content-Type": "application/json"}
HANDLER = "def handler(event, context):\n    print(1)\n    return event"

# In this order, in one session: method, route, its path, query, body, headers, status.
CALLS = [
    ("GET", "healthy", None, "", None, None, 200),
    ("GET", "status", None, "", None, None, 200),
    ("POST", "session", None, "", {"size": "128k"}, None, 200),
    ("POST", "session", None, "", {}, None, 409),
    ("POST", "session", None, "", {"size": 1}, None, 422),
    ("POST", "session", None, "", {"size": "x"}, None, 422),
    ("POST", "create", None, "", {"filename": "d/a.txt", "content": "text"}, None, 200),
    ("POST", "create", None, "", {"filename": "../a.txt", "content": "text"}, None, 400),
    ("POST", "create", None, "", b'{"filename": "a", "content": "\xff"}', JSON, 400),
    ("POST", "create", None, "", {"filename": "large", "content": "x" * 500_000}, None, 413),
    ("POST", "create", None, "", b"filename=a", {"Content-Type": "text/plain"}, 415),
    ("POST", "create", None, "", {"filename": 1, "mode": -1}, None, 422),
    ("POST", "upload", None, "", UPLOAD, {"Content-Type": FORM}, 200),
    ("POST", "upload", None, "?filename=d/b.html", UPLOAD, {"Content-Type": FORM}, 200),
    ("POST", "upload", None, "?filename=d/b.html", UPLOAD, {"Content-Type": FORM, "If-None-Match": "*"}, 412),
    ("POST", "upload", None, "?filename=..", UPLOAD, {"Content-Type": FORM}, 400),
    ("POST", "upload", None, "", b"", {"Content-Type": FORM}, 400),
    ("POST", "upload", None, "", UPLOAD[:-4], {"Content-Type": FORM}, 400),
    ("POST", "upload", None, "", b"x", {"Content-Type": "text/plain"}, 415),
    ("GET", "download", "d/a.txt", "", None, None, 200),
    ("GET", "download", "d/a.txt", "", None, {"Range": "bytes=1-2"}, 206),
    ("GET", "download", "d/a.txt", "", None, {"If-None-Match": "*"}, 304),
    ("GET", "download", "d/a.txt", "", None, {"Range": "bytes=1000-"}, 416),
    ("GET", "download", "d", "", None, None, 400),
    ("GET", "download", "none", "", None, None, 404),
    ("GET", "files/preview", "d/a.txt", "", None, None, 200),
    ("GET", "files/preview", "d/b.html", "", None, {"Range": "bytes=-1"}, 206),
    ("GET", "files/preview", "b.bin", "", None, None, 400),
    ("GET", "files/preview", "none.txt", "", None, None, 404),
    ("GET", "files", "", "", None, None, 200),
    ("GET", "files", "/", "?recursive=true", None, None, 200),
    ("GET", "files", "d/a.txt", "", None, None, 400),
    ("GET", "files", "none", "", None, None, 404),
    ("GET", "files", "", "?recursive=maybe", None, None, 422),
    ("GET", "readfile", "d/a.txt", "", None, None, 200),
    ("GET", "readfile", "d/a.txt", "?offset=1&buffer_size=2", None, None, 200),
    ("GET", "readfile", "d/a.txt", "?offset=1000", None, None, 200),
    ("GET", "readfile", "b.bin", "", None, None, 200),
    ("GET", "readfile", "d", "", None, None, 400),
    ("GET", "readfile", "none", "", None, None, 404),
    ("GET", "readfile", "b.bin", "?offset=x", None, None, 422),
    ("POST", "execute", None, "", {"command": "echo 1; echo 2 >&2; exit 3"}, None, 200),
    ("POST", "execute", None, "", {"command": "none", "args": ["x"]}, None, 200),
    ("POST", "execute", None, "", b"{", {"Content-Type": "text/plain"}, 415),
    ("POST", "execute", None, "", b"{", JSON, 422),
    ("POST", "execute", None, "", {"command": "echo", "args": ["x" * 1_000_000] * 4}, None, 422),
    ("POST", "execute_code", None, "", {"code": "print(1)"}, None, 200),
    ("POST", "execute_code", None, "", {"code": "x = 1", "filename": "d/x.py", "output_params": ["x", "y"]}, None, 200),
    ("POST", "execute_code", None, "", {"code": "1", "filename": "/"}, None, 400),
    ("POST", "execute_code", None, "", {"code": "1", "script_type": "ruby"}, None, 422),
    ("GET", "status", None, "", None, None, 200),
    ("GET", "status", None, "", None, {"Origin": "http://example.org"}, 403),
    ("GET", "status", None, "", None, {"Host": "example.org"}, 421),
    ("GET", "workspaces", None, "", None, None, 200),
    ("POST", "cleanup-all", None, "", {"force": []}, None, 422),
    ("POST", "cleanup-all", None, "", {"force": True}, None, 200),
    ("DELETE", "session", None, "", None, None, 200),
    ("POST", "download_from_efast", None, "", {}, None, 400),
    ("POST", "download_from_efast", None, "", {"file_params": 1}, None, 422),
    ("POST", "download_from_efast", None, "", {"file_params": [{"docid": "x"}], "efast_url": "http://x", "token": "t"}, None, 503),
    ("POST", "v2/execute_code", None, "", {"handler_code": HANDLER, "event": {"a": [1, None]}, "context": {"b": 1}}, None, 200),
    ("POST", "v2/execute_code", None, "", {"handler_code": "def handler(event): 1 / 0"}, None, 200),
    ("POST", "v2/execute_code", None, "", {"handler_code": "import os\ndef handler(event): os._exit(1)"}, None, 200),
    ("POST", "v2/execute_code", None, "", {"handler_code": "x" * 102401}, None, 400),
    ("POST", "v2/execute_code", None, "?timeout_ms=x", {"handler_code": HANDLER}, None, 400),
    ("POST", "v2/execute_code", None, "", {"handler_code": HANDLER}, {"Origin": "http://example.org"}, 403),
    ("POST", "v2/execute_code", None, "", {"handler_code": HANDLER, "event": 1}, None, 422),
    ("POST", "v2/execute_code", None, "", {"event": {"long": "x" * 5000}}, None, 422),
    ("POST", "v2/execute_code", None, "?timeout_ms=100", {"handler_code": "def handler(event):\n while True: pass"}, None, 500),
]


def described_path(api, route, inside):
    """The path of a route as the description has it."""
    path = f"{BASE}/{route}" + ("" if inside is None else "/{session_id}/{path}")
    return path if path in api["paths"] else f"{BASE}/{route}/{{session_id}}"


@needs_jsonschema
def test_answers_are_as_described(server):
    """Whatever is answered, and with which status: nothing is missing that was promised, nothing is there that was not told."""
    described = Described(server)
    with Session(server, "as/described") as session:
        def check(row):
            method, route, inside, query, body, headers, expected = row
            path = described_path(described.api, route, inside)
            status, _, data = described.ask(method, path, query, body, headers, session_id=session.id, path=inside)
            assert status == expected, (status, data[:300])

        each(CALLS, check)
        status, _, _ = described.ask("GET", f"{BASE}/status/{{session_id}}", session_id="\x01")
        assert status == 422
    answered = {(method, path) for method, path, status in described.seen if status == 200}
    told = {(method, path) for method, path, call in operations(described.api) if call["tags"] == ["sandbox-runtime"]}
    assert told - answered == {("post", f"{BASE}/download_from_efast/{{session_id}}")}, "but this, which test_se_efast.py has"


@needs_jsonschema
@pytest.mark.more
def test_the_end_of_time_is_as_described(serve):
    described = Described(serve(env={**NO_POOL, "SANDBOX_TIMEOUT_SECONDS": "1"}))
    with Session(described.server) as session:
        for route, body in (("execute", {"command": "echo 1; sleep 1000"}), ("execute_code", {"code": "import time\ntime.sleep(1000)"})):
            status, _, data = described.ask("POST", f"{BASE}/{route}/{{session_id}}", "", body, session_id=session.id)
            assert status == 500 and {"stdout", "stderr"} <= set(json.loads(data)["detail"])


# --- sessions and those who run them -------------------------------------------------------------------------


def test_it_lives_in_its_own_box(server):
    """Two sessions see nothing of each other, and nothing of the machine."""
    with Session(server) as one, Session(server) as other:
        one.write("secret-of-one", "x")
        one.shell("echo one > /tmp/one; echo one > /dev/shm/one 2>/dev/null || true; cp secret-of-one /workspace/also")
        assert "one" not in other.shell("ls -a /workspace /tmp /dev/shm")
        assert other.shell("id -u") == one.shell("id -u") == "65532\n"
        host = os.readlink("/proc/self/ns/pid")
        assert host not in (one.shell("readlink /proc/self/ns/pid").strip(), other.shell("readlink /proc/self/ns/pid").strip())
        assert one.shell("python3 -c 'import socket; print([n for _, n in socket.if_nameindex()])'") == "['lo']\n"


def test_gate_killed_between_calls(serve):
    server = serve(env=NO_POOL)
    session = Session(server, "kept over kills")
    assert session.create(size="10M")[0] == 200
    created = session.status()["created_at"]
    session.write("d/f.txt", "kept")
    word = mark()
    session.shell(f"setsid sh -c 'while sleep 0.1; do :; done; : {word}' > /dev/null 2>&1 &")
    process = min(until(lambda: server.running(word), "it runs"))  # not one that it has just forked
    for number in range(3):
        gate = server.kill_gate()
        assert session.read("d/f.txt") == b"kept"
        assert session.shell(f"cat d/f.txt; echo {number} >> log; wc -l < log") == f"kept{number + 1}\n"
        assert server.pid_of("gate") != gate
        assert workspaces(server).keys() == {session.id}
        assert session.create()[0] == 409 and session.status()["created_at"] == created
    assert process in server.running(word), "what it left running runs on"
    refusal = session.execute("head -c 12000000 /dev/zero > large")
    assert refusal["returncode"] != 0 and "No space left" in refusal["stderr"], "its size is what it was"
    assert handle(server, "def handler(event):\n    return 1")[1]["result"] == 1
    assert session.delete()[0] == 200
    until(lambda: not server.running(word), "it can be ended by the next gate")
    assert workspaces(server) == {}


@pytest.mark.more
def test_gate_killed_while_commands_run(serve):
    """The client loses its answer, the session nothing."""
    server, word = serve(env=NO_POOL), mark()
    session = Session(server)
    session.write("f", "kept")
    body = json.dumps({"command": f"sleep 1; echo done > done; : {word}"}).encode()
    with server.wire() as wire:
        wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (session.path("execute").encode(), server.authority.encode(), len(body), body))
        until(lambda: server.running(word), "the command runs")
        server.kill_gate()
        assert wire.is_ended(), "no half answer"
    assert session.shell("cat f") == "kept"
    until(lambda: session.get("done")[2] == b"done\n", "the command has gone on")
    session.delete()


@pytest.mark.more
def test_a_session_is_not_for_ever(serve):
    server = serve(env={**NO_POOL, "WORKSPACE_EXPIRATION_TIME": "2"})
    session, word = Session(server), mark()
    assert session.create()[0] == 200
    session.shell(f"setsid sh -c 'while sleep 0.1; do :; done; : {word}' > /dev/null 2>&1 &")
    until(lambda: session.id not in workspaces(server), "it is over")
    until(lambda: not server.running(word), "and so is what ran in it")
    assert session.status()["exists"] is False


def test_as_many_as_there_may_be(serve):
    server = serve(env=NO_POOL, max_boxes=2)
    sessions = [Session(server) for _ in range(3)]
    assert [one.create()[0] for one in sessions] == [200, 200, 503]
    for one in sessions[2:]:
        refused(*one.put("f", "x"), 429, 503)
        refused(*one.call("POST", "execute", body={"command": "true"}), 429, 503)
        assert one.status()["exists"] is False
    assert sessions[0].shell("echo here") == "here\n"
    sessions[0].delete()
    assert sessions[2].create()[0] == 200
    for one in sessions:
        one.delete()


@pytest.mark.more
def test_gate_killed_while_sessions_are_made(serve):
    """Each is there with its name, or not at all: nobody has a box that no name leads to."""
    server = serve(env=NO_POOL)

    def make(sid):
        try:
            return Session(server, sid).create()[0]
        except (OSError, http.client.HTTPException):
            return None

    for number in range(8):
        names = [f"{number}-{i}" for i in range(6)]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            made = [pool.submit(make, name) for name in names]
            server.kill_gate()
            told = {name for name, one in zip(names, made) if one.result() == 200}
        found = set(workspaces(server))
        assert told <= found <= set(names)
        assert len(server.call("GET", "/v1/boxes")[1]["boxes"]) == len(found)
        assert server.call("POST", f"{BASE}/cleanup-all", {"force": True})[1]["success"] == len(found)


@pytest.mark.more
def test_many_sessions_at_once(serve):
    server = serve(env=NO_POOL)
    sessions = [Session(server, f"many-{i}") for i in range(30)]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda one: one.write("who", one.id), sessions))
        assert list(pool.map(lambda one: one.shell("cat who"), sessions)) == [one.id for one in sessions]
    assert len(workspaces(server)) == 30
    assert server.call("POST", f"{BASE}/cleanup-all", {"force": True})[1]["success"] == 30
    assert workspaces(server) == {}


# --- its SDK -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unwrap", [old_answer, new_answer])
def test_sdk_from_end_to_end(server, tmp_path, unwrap):
    """What a program does that was written for the reference; nobody listens at the first address it knows."""
    sandbox = SharedEnvSandbox(f"sdk {unwrap.__name__}", ["http://127.0.0.1:9", f"http://{server.authority}"], unwrap)
    try:
        asyncio.run(a_days_work(sandbox, tmp_path))
    finally:
        server.request("DELETE", f"{BASE}/session/{quoted(sandbox.session_id)}")
    assert sandbox.session_id not in workspaces(server)


async def a_days_work(sandbox, folder):
    assert (await sandbox.get_status())["exists"] is False
    assert (await sandbox.create_session())["session_id"] == sandbox.session_id
    try:
        await sandbox.create_session()
        raise AssertionError("it was there already")
    except SandboxError as e:
        assert "already exists" in e.context["body"]
    data = bytes(range(256)) * 1000
    (folder / "in.bin").write_bytes(data)
    assert (await sandbox.upload_file(str(folder / "in.bin"), "data/in.bin"))["size"] == len(data)
    assert (await sandbox.upload_file(str(folder / "in.bin")))["filename"] == "in.bin"
    assert (await sandbox.create_file("import sys\ndef double(x): return 2 * x\n", "lib.py"))["filename"] == "lib.py"
    assert await sandbox.execute("wc -c < data/in.bin") == {"stdout": f"{len(data)}\n", "stderr": "", "returncode": 0}
    assert (await sandbox.execute("wc", "-c", "data/in.bin"))["stdout"] == f"{len(data)} data/in.bin\n"
    code = r"import lib, sys\nanswer = {'n': lib.double(21), 'args': sys.argv[1:]}\nprint('said')\nopen('out.txt', 'w').write('naïve')\n"
    answer = await sandbox.execute_code(code, "main.py", ["a", "b"], output_params=["answer", "missing"])
    assert (answer["stdout"], answer["stderr"], answer["returncode"]) == ("said\n", "", 0)
    assert answer["output_variables"] == {"answer": {"n": 42, "args": ["a", "b"]}}
    assert "output_variables" not in await sandbox.execute_code("print(1)", "main.py")
    answer = await sandbox.execute_code("echo $1; exit 3", "s.sh", ["x"], "shell")
    assert (answer["stdout"], answer["returncode"]) == ("x\n", 3)
    names = {entry["filename"] for entry in await sandbox.list_files(recursive=True)}
    assert {"data/in.bin", "in.bin", "lib.py", "main.py", "out.txt", "s.sh"} <= names
    assert {entry["filename"] for entry in await sandbox.list_files("data")} == {"data/in.bin"}
    assert await sandbox.read_file("out.txt") == {"content": "naïve", "is_binary": False, "offset": 6, "size": 6, "is_eof": True}
    assert await sandbox.download_file("data/in.bin", folder / "out.bin") and (folder / "out.bin").read_bytes() == data
    try:
        await sandbox.download_file("missing", folder / "no")
        raise AssertionError("it is not there")
    except SandboxError as e:
        assert e.context["status"] == 404
    status = await sandbox.get_status()
    assert status["exists"] is True and "out.txt" in {entry["filename"] for entry in status["files"]}
    assert await sandbox.delete_session() is True and await sandbox.delete_session() is True
    assert (await sandbox.get_status())["exists"] is False
