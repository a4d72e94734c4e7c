# SPDX-License-Identifier: Apache-2.0
"""The own API: boxes. Making, finding, changing and ending them, how long they live, and a gate that dies."""
import base64
import concurrent.futures
import contextlib
import datetime
import json
import os
import re
import time

import pytest

from server import mark, needs_root, serve, shared, tokens_variable, until, waiting  # noqa: F401

pytestmark = needs_root

ID = re.compile(r"[a-z2-7]{26}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
KEYS = {"id", "name", "state", "environment", "backend", "layers", "limits", "network", "metadata", "tools", "approvals", "workdir", "ports", "published_ports", "ttl_seconds", "idle_seconds",
        "created_at", "expires_at"}
NOBODYS_FILE = "3f2b8c1e-5d4a-4c6b-9e7f-0a1b2c3d4e5f"
GIB = 1 << 30

server = shared(box_max_memory="2G", box_ttl_max="7200s", box_idle_max="3600s", node="test")
alone = shared(max_boxes_per_tenant=2, box_ttl_default="600s", box_idle_default="0s")


def when(text):
    assert TIME.fullmatch(text), text
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Box:
    """One that was made, and is gone after the block."""

    def __init__(self, server, headers=None, **fields):
        self.server, self.headers = server, headers
        status, self.answer = server.call("POST", "/v1/boxes", fields, headers)
        assert status == 201, (status, self.answer)
        self.id = self.answer["id"]

    @property
    def path(self):
        return f"/v1/boxes/{self.id}"

    def get(self):
        return self.server.call("GET", self.path, headers=self.headers)

    def patch(self, **fields):
        return self.server.call("PATCH", self.path, fields, self.headers)

    def delete(self):
        return self.server.call("DELETE", self.path, headers=self.headers)

    def call(self, **fields):
        return self.server.call("POST", f"{self.path}/commands", fields, self.headers)

    def run(self, shell, **fields):
        status, answer = self.call(shell=shell, **fields)
        assert status == 200, (status, answer)
        return answer

    def out(self, shell, **fields):
        answer = self.run(shell, **fields)
        assert answer["status"] == "ok", answer
        return answer["stdout"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()


def refused(answer, status, code, field=None):
    """The error of an answer, which must be this one and complete."""
    assert answer[0] == status, answer
    error = answer[1]["error"]
    assert error["code"] == code, error
    assert {"code", "message", "field", "hint", "request_id"} <= set(error) and error["message"] and error["request_id"]
    if field:
        assert error["field"] == field, error
    return error


# --- making one ----------------------------------------------------------------------------------------------


def test_the_plainest_one(server):
    before = time.time()
    with Box(server) as box:
        a = box.answer
        assert set(a) == KEYS
        assert ID.fullmatch(a["id"]) and a["id"].startswith("test")
        assert (a["name"], a["state"], a["environment"], a["backend"]) == (None, "ready", "default", "native")
        assert "seccomp" in a["layers"] and a["network"] == {"policy": "none", "rules": []} and a["metadata"] == {}
        assert a["limits"]["memory_bytes"] == GIB and a["limits"]["output_bytes"] == 16 << 20 and a["limits"]["cpus"] == 2
        assert before - 1 <= when(a["created_at"]) <= time.time() + 1
        assert abs(when(a["expires_at"]) - when(a["created_at"]) - 3600) < 1
        assert a["ttl_seconds"] == 3600 and a["idle_seconds"] == 1800


def test_without_a_body(server):
    status, answer = server.call("POST", "/v1/boxes")
    assert status == 201, answer
    assert server.call("DELETE", f"/v1/boxes/{answer['id']}")[0] == 204


def test_everything_at_once(server):
    file_id = server.upload(b"stored \xff", "x")
    fields = {"name": "all.of-it_1", "environment": "python", "limits": {"memory_bytes": 256 << 20, "cpus": 0.5, "processes": 32,
              "output_bytes": 1000, "open_files": 64, "cpu_seconds": 5, "file_bytes": 1 << 20, "workspace_bytes": 1 << 20,
              "workspace_inodes": 100}, "env": {"GREETING": "hello there", "EMPTY": ""},
              "files": [{"path": "a/b.txt", "content": "text\n"}, {"path": "run.sh", "content": "echo ran", "mode": 0o755},
                        {"path": "bytes", "content_base64": base64.b64encode(bytes(range(256))).decode()},
                        {"path": "stored", "file_id": file_id}],
              "network": {"policy": "none", "rules": []}, "ttl_seconds": 600, "idle_seconds": 60,
              "metadata": {"team": "blue", "über": "ja"}}
    with Box(server, **fields) as box:
        a = box.answer
        assert a["name"] == "all.of-it_1" and a["environment"] == "python" and a["metadata"] == {"team": "blue", "über": "ja"}
        assert {k: a["limits"][k] for k in fields["limits"]} == fields["limits"]
        assert a["ttl_seconds"] == 600 and a["idle_seconds"] == 60
        assert box.out("cat a/b.txt; ./run.sh; echo $GREETING-$EMPTY-; ulimit -n; sha256sum < bytes; xxd -p stored") == (
            "text\nran\nhello there--\n64\n40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880  -\n73746f72656420ff\n")
        assert "No space left" in box.run("head -c 2M /dev/zero > big")["stderr"] or \
            "File too large" in box.run("head -c 2M /dev/zero > big")["stderr"]
        r = box.run("head -c 5000 /dev/zero | tr '\\0' x")
        assert r["stdout"] == "x" * 1000 and r["truncated"] == {"stdout": True, "stderr": False}
        status, seen = server.call("GET", "/v1/boxes/name:all.of-it_1")
        assert status == 200 and seen["id"] == box.id
        assert "GREETING" not in json.dumps(seen)


WRONG = {
    "body": ([], None), "unknown": ({"colour": "blue"}, "colour"),
    "name empty": ({"name": ""}, "name"), "name long": ({"name": "x" * 64}, "name"), "name upper": ({"name": "A"}, "name"),
    "name slash": ({"name": "a/b"}, "name"), "name number": ({"name": 1}, "name"),
    "environment": ({"environment": "node"}, "environment"), "environment type": ({"environment": None}, "environment"),
    "limits type": ({"limits": []}, "limits"), "limits unknown": ({"limits": {"disk": 1}}, "limits.disk"),
    "memory above": ({"limits": {"memory_bytes": 2 * GIB + 1}}, "limits.memory_bytes"),
    "memory below": ({"limits": {"memory_bytes": 1}}, "limits.memory_bytes"),
    "memory text": ({"limits": {"memory_bytes": "1G"}}, "limits.memory_bytes"),
    "cpus above": ({"limits": {"cpus": 8.5}}, "limits.cpus"), "cpus none": ({"limits": {"cpus": 0}}, "limits.cpus"),
    "cpus text": ({"limits": {"cpus": "1"}}, "limits.cpus"), "processes": ({"limits": {"processes": 5000}}, "limits.processes"),
    "processes part": ({"limits": {"processes": 4.5}}, "limits.processes"),
    "output none": ({"limits": {"output_bytes": 0}}, "limits.output_bytes"),
    "output above": ({"limits": {"output_bytes": 65 << 20}}, "limits.output_bytes"),
    "workspace": ({"limits": {"workspace_bytes": 5 << 30}}, "limits.workspace_bytes"),
    "scratch": ({"limits": {"scratch_bytes": 5 << 30}}, "limits.scratch_bytes"),
    "shm": ({"limits": {"shm_bytes": 5 << 30}}, "limits.shm_bytes"),
    "inodes": ({"limits": {"workspace_inodes": 1}}, "limits.workspace_inodes"),
    "open files": ({"limits": {"open_files": 1}}, "limits.open_files"),
    "file bytes": ({"limits": {"file_bytes": -1}}, "limits.file_bytes"),
    "cpu seconds": ({"limits": {"cpu_seconds": -1}}, "limits.cpu_seconds"),
    "env type": ({"env": []}, "env"), "env value": ({"env": {"A": 1}}, "env.A"), "env name": ({"env": {"A B": "x"}}, "env.A B"),
    "env digit": ({"env": {"1A": "x"}}, "env.1A"), "env empty": ({"env": {"": "x"}}, None), "env long": ({"env": {"A": "x" * 2000}}, "env"),
    "mounts": ({"mounts": [{"root": "/etc"}]}, "mounts[0].root"), "mounts type": ({"mounts": {}}, "mounts"),
    "mounts unknown": ({"mounts": [{"root": "x", "mode": "rw"}]}, "mounts[0].mode"),
    "files type": ({"files": "x"}, "files"), "files path": ({"files": [{"content": ""}]}, "files[0].path"),
    "files none": ({"files": [{"path": "x"}]}, "files[0]"),
    "files two": ({"files": [{"path": "x", "content": "", "file_id": NOBODYS_FILE}]}, "files[0]"),
    "files absolute": ({"files": [{"path": "/etc/x", "content": ""}]}, "files[0].path"),
    "files dots": ({"files": [{"path": "a/../../x", "content": ""}]}, "files[0].path"),
    "files base64": ({"files": [{"path": "x", "content_base64": "a"}]}, "files[0].content_base64"),
    "files mode": ({"files": [{"path": "x", "content": "", "mode": 512}]}, "files[0].mode"),
    "files unknown": ({"files": [{"path": "x", "content": "", "owner": "me"}]}, "files[0].owner"),
    "files over a file": ({"files": [{"path": "x", "content": ""}, {"path": "x/y", "content": ""}]}, "files[1]"),
    "files large": ({"files": [{"path": "x", "content": "x" * 100000}], "limits": {"workspace_bytes": 65536}}, "files[0]"),
    "network rule": ({"network": {"policy": "allow", "rules": ["pypi.org", "not a name"]}}, "network.rules[1]"),
    "network word": ({"network": {"policy": "some"}}, "network.policy"), "network rules": ({"network": {"rules": ["pypi.org"]}}, "network.rules"),
    "network unknown": ({"network": {"proxy": "x"}}, "network.proxy"),
    "ttl": ({"ttl_seconds": 7201}, "ttl_seconds"), "ttl 0": ({"ttl_seconds": 0}, "ttl_seconds"), "ttl part": ({"ttl_seconds": 1.5}, "ttl_seconds"),
    "idle": ({"idle_seconds": 3601}, "idle_seconds"), "idle below": ({"idle_seconds": -1}, "idle_seconds"),
    "metadata type": ({"metadata": "x"}, "metadata"), "metadata value": ({"metadata": {"a": {}}}, "metadata.a"),
    "metadata long": ({"metadata": {"a": "x" * 1600}}, "metadata"), "metadata many": ({"metadata": {f"k{i}": "" for i in range(65)}}, "metadata"),
    "ports": ({"ports": [80]}, "ports"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field(server, name):
    body, field = WRONG[name]
    code = "unknown_field" if "unknown" in name else "invalid_field"
    refused(server.call("POST", "/v1/boxes", body), 422, code, field)


@pytest.mark.parametrize("body, status, code", [(b"{", 400, "invalid_json"), (b"", 201, None), (b"{}", 201, None), (b'{"a":1,"a":2}', 400, "invalid_json"),
                                                (b"\xff", 400, "invalid_json"), (b"null", 422, "invalid_field")])
def test_a_body(server, body, status, code):
    answer = server.call("POST", "/v1/boxes", body, {"Content-Type": "application/json"})
    if code:
        refused(answer, status, code)
    else:
        assert answer[0] == status
        server.call("DELETE", f"/v1/boxes/{answer[1]['id']}")


def test_a_body_of_another_type(server):
    refused(server.call("POST", "/v1/boxes", b"{}", {"Content-Type": "text/plain"}), 415, "unsupported_media_type")


def test_a_file_that_nobody_stored(server):
    body = {"files": [{"path": "a", "content": ""}, {"path": "x", "file_id": NOBODYS_FILE}]}
    refused(server.call("POST", "/v1/boxes", body), 404, "not_found", "files[1].file_id")


def test_nothing_is_left_of_what_was_refused(server):
    """Neither a box, nor its name, nor a place among those that there may be."""
    before = server.call("GET", "/v1/boxes")[1]["boxes"]
    refused(server.call("POST", "/v1/boxes", {"name": "lost", "files": [{"path": "x", "content": "x" * 100000}],
                                              "limits": {"workspace_bytes": 65536}}), 422, "invalid_field")
    assert server.call("GET", "/v1/boxes")[1]["boxes"] == before
    with Box(server, name="lost"):
        pass


def test_mounts(serve, tmp_path):
    root = tmp_path / "shared"
    (root / "in").mkdir(parents=True)
    (root / "in" / "f").write_text("of the host")
    (root / "link").symlink_to("/etc")
    root.chmod(0o755)
    server = serve(mount_root=[str(root)])
    with Box(server, mounts=[{"root": "shared", "path": "in"}, {"root": str(root), "at": "/mnt/rw", "readonly": False}]) as box:
        assert box.out("cat /mnt/in/f") == "of the host"
        assert box.run("echo x > /mnt/in/g")["exit_code"] != 0
        assert box.out("echo new > /mnt/rw/made; cat /mnt/rw/made") == "new\n"
    assert (root / "made").read_text() == "new\n" and (root / "made").stat().st_uid == os.geteuid()
    for mount, field in [({"root": "other"}, "mounts[0].root"), ({"root": "shared", "path": "../x"}, "mounts[0].path"),
                         ({"root": "shared", "path": "/etc"}, "mounts[0].path"), ({"root": "shared", "at": "relative"}, "mounts[0].at"),
                         ({"root": "shared", "path": "nothing"}, "mounts"), ({"root": "shared", "path": "link"}, "mounts")]:
        refused(server.call("POST", "/v1/boxes", {"mounts": [mount]}), 422, "invalid_field", field)


# --- names, tenants, quotas ----------------------------------------------------------------------------------


def test_a_name_is_taken_until_its_box_ends(server):
    with Box(server, name="taken") as box:
        error = refused(server.call("POST", "/v1/boxes", {"name": "taken"}), 409, "name_taken", "name")
        assert error["id"] == box.id and error["hint"]
        status, answer = server.call("POST", "/v1/boxes/name:taken/commands", {"shell": "echo by name"})
        assert (status, answer["stdout"]) == (200, "by name\n")
    refused(server.call("GET", "/v1/boxes/name:taken"), 404, "not_found")
    with Box(server, name="taken") as again:
        assert again.id != box.id
        assert server.call("DELETE", "/v1/boxes/name:taken")[0] == 204


@pytest.mark.parametrize("box_id", ["x", "a" * 26, "name:", "name:nobody", "test" + "2" * 22, "%2e%2e", "A" * 26])
def test_no_such_box(server, box_id):
    for method, tail, body in [("GET", "", None), ("DELETE", "", None), ("PATCH", "", {}), ("POST", "/commands", {"shell": "true"}),
                               ("GET", "/commands", None), ("GET", "/commands/x", None), ("DELETE", "/commands/x", None),
                               ("GET", "/commands/x/events", None), ("POST", "/commands/x/stdin", {"eof": True}),
                               ("POST", "/commands/x/signal", {"signal": "INT"})]:
        status = server.request(method, f"/v1/boxes/{box_id}{tail}", body)[0]
        assert status in ((400, 404) if "%" in box_id else (404,)), (method, tail)


def test_to_others_it_does_not_exist(serve):
    tokens = {"one": "token-of-tenant-one-1", "two": "token-of-tenant-two-2"}
    server = serve(env=tokens_variable(tokens))
    mine, theirs = ({"Authorization": f"Bearer {tokens[t]}"} for t in ("one", "two"))
    with Box(server, mine, name="same", metadata={"k": "v"}) as box, Box(server, theirs, name="same") as other:
        assert box.id != other.id
        command = server.call("POST", f"{box.path}/commands", {"shell": "sleep 100", "detach": True}, mine)[1]["id"]
        for method, tail, body in [("GET", "", None), ("PATCH", "", {}), ("POST", "/commands", {"shell": "true"}), ("GET", "/commands", None),
                                   ("GET", f"/commands/{command}", None), ("GET", f"/commands/{command}/events", None),
                                   ("DELETE", f"/commands/{command}", None), ("POST", f"/commands/{command}/signal", {"signal": "KILL"}),
                                   ("DELETE", "", None)]:
            refused(server.call(method, box.path + tail, body, theirs), 404, "not_found")
        assert server.call("GET", f"{box.path}/commands/{command}", headers=mine)[1]["status"] == "running"
        for who, one in ((mine, box), (theirs, other)):
            assert [b["id"] for b in server.call("GET", "/v1/boxes", headers=who)[1]["boxes"]] == [one.id]
        assert server.call("GET", "/v1/boxes")[0] == 401
    refused(server.call("GET", box.path, headers=mine), 410, "gone")
    refused(server.call("GET", box.path, headers=theirs), 404, "not_found")


def test_a_quota(alone):
    with Box(alone), Box(alone):
        status, headers, body = alone.request("POST", "/v1/boxes", {})
        refused((status, json.loads(body)), 503, "quota_exceeded")
        assert int(headers["Retry-After"]) > 0
    with Box(alone) as box:
        assert box.answer["ttl_seconds"] == 600 and box.answer["idle_seconds"] == 0


def test_no_slot_to_make_one(serve):
    """A box waits for a slot only while it is made; commands need none."""
    server = serve(max_concurrent_executions=1, execution_queue_timeout="200ms")
    word = mark()
    with Box(server) as box, server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.next().data["data"] == "begun\n"
        status, headers, body = server.request("POST", "/v1/boxes", {})
        refused((status, json.loads(body)), 429, "saturated")
        assert headers["Retry-After"] == "2"
        assert box.out("echo runs") == "runs\n"
    until(lambda: b'executions_active{operation="execute_stream"} 0' in server.request("GET", "/metrics")[2], "the slot is free")
    with Box(server):
        text = server.request("GET", "/metrics")[2].decode()
    assert 'executions_completed_total{operation="box_create",outcome="ok"} 2' in text
    assert 'executions_completed_total{operation="box_command",outcome="ok"} 1' in text
    assert 'executions_active{operation="box_create"} 0' in text


# --- looking and listing -------------------------------------------------------------------------------------


def test_figures(server):
    with Box(server) as box:
        status, seen = box.get()
        assert status == 200 and set(seen) == KEYS | {"figures"} and seen["state"] == "ready"
        box.out("python3 -c 'sum(range(10**7))'")
        figures = box.get()[1]["figures"]
        assert figures["wall_ms"] > 0 and figures["cpu_ms"] > 0 and figures["peak_memory_bytes"] > 1 << 20 and figures["oom_kills"] == 0


def test_busy_while_a_command_runs(server):
    with Box(server) as box:
        command = box.call(shell="sleep 100", detach=True)[1]["id"]
        assert box.get()[1]["state"] == "busy"
        assert server.call("DELETE", f"{box.path}/commands/{command}?grace_ms=0")[0] == 204
        assert box.get()[1]["state"] == "ready"


def test_the_list(server):
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(Box(server, metadata={"n": str(n), "kind": "listed"})) for n in range(5)]
        ids = [b.id for b in boxes]
        assert ids == sorted(ids), "a later one has a higher id"

        def listed(query):
            status, answer = server.call("GET", f"/v1/boxes?{query}")
            assert status == 200 and set(answer) == {"boxes", "next"}, answer
            return [b["id"] for b in answer["boxes"]], answer["next"]

        assert listed("metadata.kind=listed") == (ids, None)
        assert listed("metadata.kind=listed&metadata.n=3") == ([ids[3]], None)
        assert listed("metadata.kind=other") == ([], None)
        first, following = listed("metadata.kind=listed&limit=2")
        assert first == ids[:2] and following == ids[1]
        boxes[1].delete()  # the place in the list is not a box
        second, following = listed(f"metadata.kind=listed&limit=2&after={following}")
        assert second == ids[2:4] and following == ids[3]
        assert listed(f"metadata.kind=listed&limit=2&after={following}") == ([ids[4]], None)
        command = boxes[2].call(shell="sleep 100", detach=True)[1]["id"]
        assert listed("metadata.kind=listed&state=busy") == ([ids[2]], None)
        assert ids[2] not in listed("metadata.kind=listed&state=ready")[0]
        assert command


@pytest.mark.parametrize("query, field", [("limit=0", "limit"), ("limit=501", "limit"), ("limit=x", "limit"), ("limit=", "limit"), ("state=asleep", "state"),
                                          ("state=", "state"), ("metadata=x", "metadata"), ("sort=name", "sort")])
def test_a_wrong_question(server, query, field):
    answer = server.call("GET", f"/v1/boxes?{query}")
    assert refused(answer, 422, "unknown_field" if field in ("sort", "metadata") else "invalid_field")["field"] == field


# --- how long it lives ---------------------------------------------------------------------------------------


def gone(box):
    """Why it has ended, once it has."""
    answer = until(lambda: (lambda a: a[0] == 410 and a)(box.get()), "the box has ended")
    return refused(answer, 410, "gone")["reason"]


def test_deleted(server):
    box, word = Box(server), mark()
    box.run(f"setsid bash -c 'sleep 1000; : {word}' > /dev/null 2>&1 &")
    until(lambda: server.running(word), "the background process runs")
    assert server.request("DELETE", box.path)[::2] == (204, b"")
    assert not server.running(word), "when it is answered nothing is left"
    for answer in (box.get(), box.delete(), box.patch(), box.call(shell="true"), server.call("GET", f"{box.path}/commands")):
        assert refused(answer, 410, "gone")["reason"] == "deleted"


def test_when_it_has_ended_is_said(server):
    box = Box(server)
    before = time.time()
    box.delete()
    after = time.time()
    time.sleep(0.05)
    said = [refused(box.get(), 410, "gone")["ended_at"] for _ in range(2)]
    when = [datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in said]
    assert all(before - 0.1 <= one <= after + 0.1 for one in when) and abs(when[0] - when[1]) < 0.01, (before, said, after)


def test_many_delete_it(server):
    box = Box(server)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: box.delete()[0], range(4)))
    assert set(answers) <= {204, 410} and 204 in answers


@pytest.mark.more
def test_its_time_is_over_whatever_it_does(server):
    box, word = Box(server, ttl_seconds=3), mark()
    status, answer = box.call(shell=f"echo begun; sleep 1000; : {word}", timeout_ms=None)
    assert status == 200 and answer["status"] == "cancelled" and answer["stdout"] == "begun\n" and "ttl" in answer["error"]
    assert gone(box) == "ttl"
    until(lambda: not server.running(word), "its processes are gone")


@pytest.mark.more
def test_idle(server):
    """Looking at it is no use of it."""
    box, word = Box(server, idle_seconds=2), mark()
    box.run(f"setsid bash -c 'sleep 1000; : {word}' > /dev/null 2>&1 &")
    until(lambda: (server.call("GET", f"{box.path}/commands"), box.get())[1][0] == 410, "the box has ended")
    assert gone(box) == "idle"
    assert not server.running(word)


@pytest.mark.more
def test_a_running_command_is_not_idle(server):
    with Box(server, idle_seconds=1) as box:
        assert box.out("sleep 3; echo done") == "done\n"
        assert box.get()[0] == 200


@pytest.mark.more
def test_patch_keeps_alive(server):
    box = Box(server, idle_seconds=2)
    for _ in range(5):
        time.sleep(0.8)
        status, answer = server.call("PATCH", box.path)
        assert status == 200, answer
    assert gone(box) == "idle"


def test_patch(server):
    with Box(server, ttl_seconds=100, metadata={"a": "1", "b": "2"}) as box:
        status, answer = box.patch(ttl_seconds=1000, idle_seconds=0, metadata={"c": "3"})
        assert status == 200 and set(answer) == KEYS | {"figures"}
        assert answer["metadata"] == {"c": "3"} and answer["ttl_seconds"] == 1000 and answer["idle_seconds"] == 0
        assert abs(when(answer["expires_at"]) - time.time() - 1000) < 5 and answer["created_at"] == box.answer["created_at"]
        assert box.patch(ttl_seconds=None, idle_seconds=None, metadata=None)[1]["metadata"] == {"c": "3"}
        assert box.get()[1]["ttl_seconds"] == 1000
        for body, field in [({"ttl_seconds": 7201}, "ttl_seconds"), ({"ttl_seconds": 0}, "ttl_seconds"), ({"idle_seconds": -1}, "idle_seconds"),
                            ({"idle_seconds": 3601}, "idle_seconds"), ({"metadata": {"a": 1}}, "metadata.a"), ({"metadata": {"a": "x" * 1600}}, "metadata"),
                            ({"metadata": []}, "metadata")]:
            refused(box.patch(**body), 422, "invalid_field", field)
        refused(box.patch(name="new"), 422, "unknown_field", "name")
        assert box.get()[1]["metadata"] == {"c": "3"}
        box.patch(ttl_seconds=1)
        assert gone(box) == "ttl"


def test_out_of_memory_of_a_command_is_not_the_end(server):
    with Box(server, limits={"memory_bytes": 64 << 20}) as box:
        r = box.run("python3 -c \"b = bytearray(b'x') * (1 << 30)\"")
        assert r["status"] == "oom", r
        assert box.out("echo here") == "here\n"
        assert box.get()[1]["figures"]["oom_kills"] >= 1


def test_init_killed_from_outside(server):
    box, word = Box(server), mark()
    box.call(shell=f"sleep 1000; : {word}", detach=True)
    pid = until(lambda: server.running(word), "the command runs")[0]
    os.kill(server.init_of(pid), 9)
    assert gone(box) == "crashed"


# --- the same request again ----------------------------------------------------------------------------------


def keyed(server, key, body, path="/v1/boxes"):
    return server.call("POST", path, body, {"Idempotency-Key": key})


def test_the_same_key_and_body(server):
    key = mark()
    status, first = keyed(server, key, {"metadata": {"k": key}})
    assert status == 201
    assert keyed(server, key, {"metadata": {"k": key}}) == (201, first)
    refused(keyed(server, key, {"metadata": {"k": "other"}}), 409, "idempotency_key_reused", "Idempotency-Key")
    assert len(server.call("GET", f"/v1/boxes?metadata.k={key}")[1]["boxes"]) == 1
    server.call("DELETE", f"/v1/boxes/{first['id']}")
    assert keyed(server, key, {"metadata": {"k": key}}) == (201, first), "the first answer, also when it has ended"
    refused(keyed(server, "x" * 256, {}), 422, "invalid_field", "Idempotency-Key")


def test_the_same_key_at_once(server):
    key = mark()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: keyed(server, key, {"metadata": {"k": key}}), range(8)))
    assert {a[0] for a in answers} == {201} and len({a[1]["id"] for a in answers}) == 1
    assert len(server.call("GET", f"/v1/boxes?metadata.k={key}")[1]["boxes"]) == 1
    server.call("DELETE", f"/v1/boxes/{answers[0][1]['id']}")


def test_what_was_refused_is_not_remembered(server):
    key = mark()
    refused(keyed(server, key, {"ttl_seconds": 0}), 422, "invalid_field")
    status, box = keyed(server, key, {})
    assert status == 201
    server.call("DELETE", f"/v1/boxes/{box['id']}")


def test_a_client_that_leaves_before_the_answer(server):
    """Without a key its box is ended, with one it is made."""
    for key in (None, mark()):
        name = "left-" + mark()[:8]
        body = json.dumps({"name": name, "files": [{"path": f"f{i}", "content": "x"} for i in range(900)]}).encode()
        lines = [b"POST /v1/boxes HTTP/1.1", b"Host: " + server.authority.encode(), b"Content-Type: application/json",
                 b"Content-Length: %d" % len(body)] + ([b"Idempotency-Key: " + key.encode()] if key else [])
        with server.wire() as wire:
            wire.send(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            until(lambda: server.call("GET", f"/v1/boxes/name:{name}")[0] == 200, "it is being made")
        if key:
            until(lambda: server.call("GET", f"/v1/boxes/name:{name}")[1].get("state") == "ready", "it is made all the same")
            server.call("DELETE", f"/v1/boxes/name:{name}")
        else:
            until(lambda: server.call("GET", f"/v1/boxes/name:{name}")[0] != 200 or
                  server.call("GET", f"/v1/boxes/name:{name}")[1].get("state") == "ready", "it is gone, or was faster")
            server.call("DELETE", f"/v1/boxes/name:{name}")


# --- a gate that dies ----------------------------------------------------------------------------------------


def test_boxes_survive_the_gate(serve):
    server = serve(box_ttl_max="7200s")
    key = mark()
    fields = {"name": "stays", "limits": {"cpus": 0.5, "memory_bytes": 128 << 20}, "env": {"A": "1", "B": "x" * 500}, "metadata": {"k": "v"},
              "ttl_seconds": 600, "idle_seconds": 300, "environment": "python"}
    status, first = keyed(server, key, fields)
    assert status == 201
    path = f"/v1/boxes/{first['id']}"
    server.call("POST", f"{path}/commands", {"shell": "echo kept > f"})
    server.call("PATCH", path, {"metadata": {"k": "w"}, "ttl_seconds": 1000})
    before = server.call("GET", path)[1]
    server.next_gate(server.kill_gate())
    status, after = server.call("GET", path)
    assert status == 200
    for one in (before, after):
        one.pop("figures")
    assert after == before
    assert server.call("GET", "/v1/boxes/name:stays")[1]["id"] == first["id"]
    status, r = server.call("POST", f"{path}/commands", {"shell": "cat f; echo $A ${#B}"})
    assert (status, r["stdout"]) == (200, "kept\n1 500\n")
    status, again = keyed(server, key, fields)
    assert status == 201 and again["id"] == first["id"]
    refused(keyed(server, key, {}), 409, "idempotency_key_reused")
    refused(server.call("POST", "/v1/boxes", {"name": "stays"}), 409, "name_taken")
    assert b'glovebox_boxes_adopted_total{what="box"} 1' in server.request("GET", "/metrics")[2]
    server.call("PATCH", path, {"idle_seconds": 2})
    box = Box.__new__(Box)
    box.server, box.id, box.headers = server, first["id"], None
    assert gone(box) == "idle"


@pytest.mark.more
def test_its_time_goes_on_over_gates(serve):
    server = serve()
    box, word = Box(server, ttl_seconds=6, idle_seconds=0), mark()
    box.call(shell=f"sleep 1000; : {word}", detach=True)
    until(lambda: server.running(word), "the command runs")
    server.next_gate(server.kill_gate())
    assert box.get()[0] == 200
    assert gone(box) == "ttl"
    until(lambda: not server.running(word), "its processes are gone")


def test_the_gate_is_killed_again_and_again(serve):
    server = serve()
    boxes = [Box(server, metadata={"n": str(n)}) for n in range(6)]
    for n, box in enumerate(boxes):
        box.run(f"echo {n} > f")
    for _ in range(4):
        server.next_gate(server.kill_gate())
        assert [b["metadata"]["n"] for b in server.call("GET", "/v1/boxes")[1]["boxes"]] == [str(n) for n in range(6)]
        assert [box.out("cat f") for box in boxes] == [f"{n}\n" for n in range(6)]
    for box in boxes:
        assert box.delete()[0] == 204


# --- what is written about it --------------------------------------------------------------------------------


def test_errors_are_the_table_of_the_docs():
    """Every code of errors.tbl is in docs/boxes.md with its status, and no other."""
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    with open(os.path.join(root, "src/gate/errors.tbl"), encoding="utf-8") as f:
        told = {(int(s), c) for s, c in re.findall(r'^ERROR\(\w+,\s+(\d+),\s+"(\w+)"', f.read(), re.M)}
    with open(os.path.join(root, "docs/boxes.md"), encoding="utf-8") as f:
        table = {(int(s), c) for s, c in re.findall(r"^\| (\d{3}) \| `(\w+)` \|", f.read(), re.M)}
    assert told == table and len(told) > 15


@pytest.mark.more
def test_it_is_audited(serve):
    server = serve()
    box = Box(server, ttl_seconds=2)
    box.run("true")
    gone(box)
    file = server.state_dir / "audit" / "audit.jsonl"
    lines = until(lambda: (lambda found: "box_expired" in str(found) and found)([json.loads(x) for x in file.read_text().splitlines()]), "a line")
    events = {e["event"]: e for e in lines if e.get("box") == box.id}
    assert set(events) == {"box_made", "command", "box_expired"}
    assert events["box_made"]["for"] == "box" and events["box_expired"]["reason"] == "ttl" and events["command"]["tenant"] == "local"
