# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime: names of sessions belong to who chose them. To others the same name is another session, or none."""
import json

import pytest

from se import BASE, Session, handle
from server import mark, needs_root, shared, until
from test_se_sessions import NO_POOL, workspaces

pytestmark = needs_root

ALICE, BOB = "alice-0f9d2c7b41e84a66", "bob-7be1d0a2c3f94455"
AS_ALICE, AS_BOB = ({"Authorization": f"Bearer {token}"} for token in (ALICE, BOB))

server = shared(tokens={"alice": ALICE, "bob": BOB}, env=NO_POOL)


@pytest.fixture
def hers(server):
    with Session(server, "shared name", AS_ALICE) as one:
        assert one.create()[0] == 200
        one.write("secret.txt", "of alice")
        yield one


@pytest.fixture
def his(server):
    with Session(server, "shared name", AS_BOB) as one:
        yield one


ROUTES = [("POST", "session", "", {}), ("DELETE", "session", "", None), ("POST", "create", "", {"filename": "f", "content": "x"}),
          ("POST", "upload", "?filename=f", b"x"), ("GET", "download", "/secret.txt", None),
          ("POST", "execute", "", {"command": "cat secret.txt"}),
          ("POST", "execute_code", "", {"code": "print(open('secret.txt').read())"}), ("GET", "files", "/", None),
          ("GET", "readfile", "/secret.txt", None),
          ("GET", "status", "", None)]
OTHERS = [("GET", "/workspaces", None), ("POST", "/cleanup-all", {"force": True}),
          ("POST", "/v2/execute_code", {"handler_code": "def handler(e): return 1"}),
          ("GET", "/files/preview/shared%20name/secret.txt?sid=x", None)]


def test_every_route_asks_for_the_token(server, hers):
    paths = [(method, hers.path(route, rest), body) for method, route, rest, body in ROUTES] + [(m, BASE + p, b) for m, p, b in OTHERS]
    for method, path, body in paths:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {ALICE}x"}):
            status, answer, data = server.request(method, path, body, headers)
            assert status == 401 and answer["WWW-Authenticate"], (method, path, status)
            assert b"of alice" not in data
    assert hers.read("secret.txt") == b"of alice" and hers.files().keys() == {"secret.txt"}


def test_the_token_is_no_parameter(server, hers):
    assert server.request("GET", hers.path("download", "/secret.txt", f"?token={ALICE}"))[0] == 401


def test_anothers_session_does_not_exist(server, hers, his):
    assert his.status()["exists"] is False and his.status()["files"] == []
    assert his.id not in workspaces(server, AS_BOB) and hers.id in workspaces(server, AS_ALICE)
    status, _, data = his.get("secret.txt")
    assert status == 404 and b"alice" not in data
    assert his.call("GET", "readfile", "/secret.txt")[0] == 404
    assert his.files() == {}
    assert "of alice" not in json.dumps(his.execute("cat secret.txt; ls -la / /workspace /tmp"))


def test_the_same_name_is_two_sessions(server, hers, his):
    assert his.create()[0] == 200, "his name is free"
    his.write("secret.txt", "of bob")
    his.write("more.txt", "")
    assert hers.read("secret.txt") == b"of alice" and his.read("secret.txt") == b"of bob"
    assert hers.files().keys() == {"secret.txt"}
    assert hers.create()[0] == his.create()[0] == 409
    assert workspaces(server, AS_ALICE).keys() == workspaces(server, AS_BOB).keys() == {"shared name"}
    word = mark()
    hers.shell(f"setsid sh -c 'while sleep 0.1; do :; done; : {word}' > /dev/null 2>&1 &")
    until(lambda: server.running(word), "it runs")
    assert word not in his.shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert his.delete()[0] == 200
    assert hers.read("secret.txt") == b"of alice" and server.running(word)


def test_cleanup_is_of_ones_own(server, hers, his):
    with Session(server, "another", AS_ALICE) as second:
        second.write("f", "kept")
        his.write("g", "x")
        status, answer = server.call("POST", f"{BASE}/cleanup-all", {"force": True}, AS_BOB)
        assert status == 200 and (answer["total"], answer["success"]) == (1, 1), answer
        assert "another" not in json.dumps(answer)
        assert hers.read("secret.txt") == b"of alice" and second.read("f") == b"kept"
        assert workspaces(server, AS_BOB) == {} and workspaces(server, AS_ALICE).keys() == {"shared name", "another"}
        status, answer = server.call("POST", f"{BASE}/cleanup-all", {"force": True}, AS_ALICE)
        assert answer["success"] == 2 and workspaces(server, AS_ALICE) == {}


def test_names_of_others_cannot_be_said(server, hers, his):
    """Whatever the server makes of tenant and name inside: no name of his is a name of hers."""
    for name in ("alice/shared name", "alice:shared name", "../alice/shared name", "alice\0shared name", "/shared name",
                 "tenant=alice shared name", "alice.shared name"):
        other = Session(server, name, AS_BOB)
        status, _, data = other.request("GET", "download", "/secret.txt")
        assert status in (400, 404, 422) and b"of alice" not in data, name
        other.request("DELETE", "session")
    assert hers.read("secret.txt") == b"of alice"


def test_boxes_of_others_are_not_listed(server, hers):
    """By the own API either, if sessions are boxes there."""
    assert all(box.get("name") != hers.id for box in server.call("GET", "/v1/boxes", headers=AS_BOB)[1]["boxes"])


def test_handlers_of_two(server):
    code = "import os\ndef handler(event):\n    found = os.path.exists('/tmp/f')\n    open('/tmp/f', 'w').write(event['who'])\n    return found"
    for headers, who in ((AS_ALICE, "alice"), (AS_BOB, "bob")) * 2:
        status, answer = handle(server, code, {"who": who}, headers=headers)
        assert status == 200 and answer["result"] is False, answer
