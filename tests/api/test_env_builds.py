# SPDX-License-Identifier: Apache-2.0
"""Environments that clients build and remove through the API, where the operator allows it."""
import json
import os
import pathlib
import signal

import pytest

from cells import NO_POOL, Session
from server import WARM, needs_root, serve, until  # noqa: F401
from test_boxes import refused

pytestmark = [needs_root, pytest.mark.more]


@pytest.fixture
def server(serve):
    return serve(environment_builds=True, env=NO_POOL)


def build(server, name, **fields):
    status, answer = server.call("POST", "/v1/environments", {"name": name, **fields})
    assert (status, answer["name"], answer["status"]) == (202, name, "running"), answer
    return answer


def built(server, name):
    answer = {"status": "running"}
    while answer["status"] == "running":
        status, answer = server.call("GET", f"/v1/environments/{name}/build?wait_ms=60000")
        assert status == 200, answer
    return answer


def names(server):
    return [each["name"] for each in server.call("GET", "/v1/environments")[1]["environments"]]


def on_disk(server):
    return sorted(os.listdir(server.state_dir / "environments"))


def test_built_used_and_removed(serve):
    server = serve(environment_builds=True, **WARM, env=NO_POOL)
    build(server, "mine", imports=["colorsys", "wave"], pool=1)
    done = built(server, "mine")
    assert done["status"] == "ok" and "mine: Python 3" in done["log"], done
    assert "mine" in names(server), "who hears that it was built can use it"
    box = server.call("POST", "/v1/boxes", {"environment": "mine"})[1]
    status, cell = server.call("POST", f"/v1/boxes/{box['id']}/cells", {"code": "import sys; sys.prefix"})
    assert status == 200 and cell["results"][0]["data"]["text/plain"] == "'/opt/environment'"
    until(lambda: server.call("GET", "/v1/environments/mine")[1]["warm"], "its image")
    with Session(server, environment="mine") as warm:
        assert warm.value("import sys; 'colorsys' in sys.modules and 'wave' in sys.modules") == "True"
    assert server.request("DELETE", "/v1/environments/mine")[0] == 204
    assert "mine" not in names(server)
    error = refused(server.call("POST", "/v1/boxes", {"environment": "mine"}), 422, "invalid_field", "environment")
    assert "no environment 'mine'" in error["message"]
    status, cell = server.call("POST", f"/v1/boxes/{box['id']}/cells", {"code": "import mailbox; mailbox.__name__"})
    assert status == 200 and cell["status"] == "ok", "a box that runs keeps it"
    lines = [json.loads(line) for line in (server.state_dir / "audit/audit.jsonl").read_text().splitlines()]
    assert [(line["event"], line["environment"]) for line in lines if line["event"].startswith("environment_")] == [("environment_build", "mine"), ("environment_removed", "mine")]


def test_one_at_a_time(server):
    build(server, "first")
    refused(server.call("POST", "/v1/environments", {"name": "second"}), 409, "busy")
    assert built(server, "first")["status"] == "ok"
    refused(server.call("GET", "/v1/environments/second/build"), 404, "not_found")


def test_what_cannot_be_built(server):
    build(server, "mine", requirements=["no-such-package @ file:///workspace/nowhere.whl"])
    done = built(server, "mine")
    assert done["status"] == "failed" and "nowhere.whl" in done["log"], done
    assert names(server) == ["default"] and on_disk(server) == []


@pytest.mark.parametrize("fields,field", [
    ({"name": "../x"}, "name"), ({"name": "default"}, "name"), ({"name": "python3"}, "name"), ({"name": "X"}, "name"), ({"name": ""}, "name"), ({"name": "a" * 64}, "name"), ({}, "name"),
    ({"name": "x", "requirements": ["-r /etc/passwd"]}, "requirements[0]"), ({"name": "x", "requirements": ["ok", "--index-url=http://x"]}, "requirements[1]"),
    ({"name": "x", "requirements": ["a\n-r b"]}, "requirements[0]"), ({"name": "x", "requirements": [""]}, "requirements[0]"), ({"name": "x", "requirements": ["x" * 600]}, "requirements[0]"),
    ({"name": "x", "requirements": "numpy"}, "requirements"), ({"name": "x", "imports": ["os; print()"]}, "imports[0]"), ({"name": "x", "imports": ["a b"]}, "imports[0]"),
    ({"name": "x", "pool": -1}, "pool"), ({"name": "x", "pool": 2000}, "pool"), ({"name": "x", "python": "/bin/sh"}, "python"),
])
def test_what_is_refused(server, fields, field):
    status, answer = server.call("POST", "/v1/environments", fields)
    assert status == 422 and answer["error"]["field"] == field, answer


def test_nobody_may_unless_it_is_allowed(serve):
    server = serve(env=NO_POOL)
    refused(server.call("POST", "/v1/environments", {"name": "mine"}), 403, "not_permitted")
    refused(server.call("DELETE", "/v1/environments/default"), 403, "not_permitted")


def test_what_is_not_there_is_not_removed(server):
    for name in ("mine", "default", "python3"):
        refused(server.call("DELETE", f"/v1/environments/{name}"), 404, "not_found")


def test_a_gate_that_dies_does_not_end_a_build(server):
    build(server, "mine")
    server.next_gate(server.kill_gate())
    until(lambda: "mine" in names(server), "the environment")


def test_a_server_that_ends_leaves_nothing_half_built(server):
    build(server, "mine")
    folder = pathlib.Path(server.state_dir / "environments")
    until(lambda: os.listdir(folder), "its beginning")
    os.kill(server.pid, signal.SIGTERM)
    server.process.wait(60)
    assert os.listdir(folder) == []
