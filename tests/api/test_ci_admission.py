# SPDX-License-Identifier: Apache-2.0
"""Code Interpreter: how many run at once, what the others are told, and the routes that say how it goes."""
import contextlib
import json
import re

import pytest

from conftest import ROOT
from server import mark, needs_root, serve, shared, tokens_variable, until, waiting  # noqa: F401

pytestmark = needs_root

ONE = {"MAX_CONCURRENT_EXECUTIONS": "1"}
SOON = {**ONE, "EXECUTION_QUEUE_TIMEOUT_SEC": "0.2"}
BUCKETS = [.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, float("inf")]
OPERATIONS = ("execute", "execute_stream", "session_create", "session_bash")

server = shared()
busy = shared(env=SOON)
patient = shared(env={**ONE, "EXECUTION_QUEUE_TIMEOUT_SEC": "50"})


def metrics(server):
    """{(name, frozenset of labels): value} of what /metrics says now."""
    status, headers, body = server.request("GET", "/metrics")
    assert status == 200 and headers.get_content_type() == "text/plain"
    found = {}
    for line in body.decode().splitlines():
        if line and not line.startswith("#"):
            match = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)', line)
            assert match, line
            labels = frozenset(re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            assert (match[1], labels) not in found, f"twice: {line}"
            found[match[1], labels] = float(match[3])
    return found


def value(found, name, **labels):
    return found.get((f"code_interpreter_{name}", frozenset(labels.items())))


@contextlib.contextmanager
def held(server):
    """The slots are one fewer: a program runs until the end of the block, and is gone after it."""
    word = mark()
    with server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.status == 200, stream.read()
        assert stream.next().data["data"] == "begun\n"
        yield
    until(lambda: not server.running(word), "the program that held the slot is gone")
    until(lambda: value(metrics(server), "executions_active", operation="execute_stream") == 0, "its slot is free")


def new_session(server):
    status, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})
    assert status == 201, answer
    return answer["session_id"]


# --- no slot -------------------------------------------------------------------------------------------------


def test_no_slot_is_429_for_every_operation(busy):
    session = new_session(busy)
    calls = {
        "execute": ("/v1/execute", {"code": "1"}),
        "execute_stream": ("/v1/execute/stream", {"code": "1"}),
        "session_create": ("/v1/sessions", {}),
        "session_bash": (f"/v1/sessions/{session}/bash", {"cmd": "true"}),
    }
    before = metrics(busy)
    with held(busy):
        for operation, (path, body) in calls.items():
            status, headers, data = busy.request("POST", path, body)
            answer = json.loads(data)
            assert status == 429 and headers["Retry-After"] == "2", operation
            assert set(answer) == {"detail"} and "saturated" in answer["detail"]
    after = metrics(busy)
    for operation in OPERATIONS:
        labels = {"operation": operation, "status": "429", "reason": "concurrency_limit"}
        rejected = [value(found, "executions_rejected_total", **labels) or 0 for found in (before, after)]
        assert rejected[1] == rejected[0] + 1, operation
    assert busy.request("DELETE", f"/v1/sessions/{session}")[0] == 204


def test_a_wrong_request_is_wrong_also_when_there_is_no_slot(busy):
    with held(busy):
        assert busy.call("POST", "/v1/execute", {"code": 1})[0] == 422
        assert busy.call("POST", "/v1/execute", {"code": "1", "timeout_ms": 10 ** 6})[0] == 422


def test_other_routes_need_no_slot(busy):
    with held(busy):
        file_id = busy.upload(b"x")
        assert busy.download(file_id) == b"x" and busy.request("DELETE", f"/v1/files/{file_id}")[0] == 204
        for path in ("/health", "/ready", "/metrics", "/v1/files"):
            assert busy.request("GET", path)[0] == 200


def test_a_slot_comes_free_again(busy):
    with held(busy):
        assert busy.call("POST", "/v1/execute", {"code": "1"})[0] == 429
    assert busy.execute("print(1)")["stdout"] == "1\n"


@pytest.mark.parametrize("code, fields", [("1/0", {}), ("import time; time.sleep(1000)", {"timeout_ms": 200}),
                                          ("import os; os.kill(os.getpid(), 9)", {})],
                         ids=["failed", "timed out", "killed"])
def test_every_end_frees_the_slot(busy, code, fields):
    for _ in range(2):
        busy.execute(code, **fields)
    assert busy.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "file_id": "x"}]})[0] == 404
    assert busy.execute("print(1)")["stdout"] == "1\n"


def test_an_idle_session_holds_no_slot(busy):
    session = new_session(busy)
    assert busy.execute("print(1)")["stdout"] == "1\n"
    assert busy.request("DELETE", f"/v1/sessions/{session}")[0] == 204


def test_retry_after_is_a_variable(serve):
    server = serve(env={**SOON, "EXECUTION_RETRY_AFTER_SEC": "7"})
    with held(server):
        status, headers, _ = server.request("POST", "/v1/execute", {"code": "1"})
        assert (status, headers["Retry-After"]) == (429, "7")


# --- waiting for one -----------------------------------------------------------------------------------------


def post(server, path, body):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(), server.authority.encode(), len(data), data)


def pass_by(server):
    """Requests that were sent before have been read when these are answered."""
    for _ in range(10):
        assert server.request("GET", "/health")[0] == 200


def test_who_waits_gets_a_turn(patient):
    with patient.wire() as first, patient.wire() as second:
        with held(patient):
            first.send(post(patient, "/v1/execute", {"code": "print('first')"}))
            pass_by(patient)
            second.send(post(patient, "/v1/execute", {"code": "print('second')"}))
            pass_by(patient)
            assert not first.is_readable() and not second.is_readable(), "both wait"
            found = metrics(patient)
            assert value(found, "executions_active", operation="execute_stream") == 1
            assert not value(found, "executions_active", operation="execute")
        for wire, text in ((first, "first\n"), (second, "second\n")):
            answer = wire.response()
            assert answer.status == 200 and answer.json()["stdout"] == text


def test_who_leaves_the_queue_is_not_run(patient):
    before = metrics(patient)
    with held(patient):
        with patient.wire() as wire:
            wire.send(post(patient, "/v1/execute", {"code": "1"}))
            pass_by(patient)
            assert not wire.is_readable()
        pass_by(patient)
    assert patient.execute("print(1)")["stdout"] == "1\n"
    completed = [sum(v for (name, labels), v in found.items()
                     if name == "code_interpreter_executions_completed_total" and ("operation", "execute") in labels)
                 for found in (before, metrics(patient))]
    assert completed[1] == completed[0] + 1, "only the second one"


# --- metrics -------------------------------------------------------------------------------------------------


def test_limit(server, busy):
    assert value(metrics(server), "executions_limit") == 16
    assert value(metrics(busy), "executions_limit") == 1


def test_active(busy):
    with held(busy):
        assert value(metrics(busy), "executions_active", operation="execute_stream") == 1


def test_every_operation_is_counted(server):
    before = metrics(server)
    server.execute("1")
    server.execute("1/0")
    server.execute("import time; time.sleep(1000)", timeout_ms=100)
    list(server.sse("/v1/execute/stream", {"code": "1"}))
    session = new_session(server)
    server.call("POST", f"/v1/sessions/{session}/bash", {"cmd": "true"})
    server.call("POST", f"/v1/sessions/{session}/bash", {"cmd": "sleep 1000", "timeout_ms": 100})
    server.request("DELETE", f"/v1/sessions/{session}")
    after = metrics(server)

    def grown(name, **labels):
        return (value(after, name, **labels) or 0) - (value(before, name, **labels) or 0)

    total = {o: sum(grown("executions_completed_total", operation=o, outcome=outcome) for outcome in ("ok", "timed_out", "error"))
             for o in OPERATIONS}
    assert total == {"execute": 3, "execute_stream": 1, "session_create": 1, "session_bash": 2}
    assert {o: grown("executions_completed_total", operation=o, outcome="timed_out") for o in OPERATIONS} == \
        {"execute": 1, "execute_stream": 0, "session_create": 0, "session_bash": 1}
    assert grown("executions_completed_total", operation="execute", outcome="ok") >= 1
    for histogram in ("admission_wait_seconds", "execution_duration_seconds"):
        assert {o: grown(f"{histogram}_count", operation=o) for o in OPERATIONS} == total


@pytest.mark.parametrize("name", ["admission_wait_seconds", "execution_duration_seconds"])
def test_buckets(server, name):
    server.execute("1")
    found = metrics(server)
    buckets = {}
    for (series, labels), count in found.items():
        labels = dict(labels)
        if series == f"code_interpreter_{name}_bucket" and labels["operation"] == "execute":
            assert set(labels) == {"operation", "le"}
            buckets[float(labels["le"])] = count
    assert sorted(buckets) == BUCKETS
    counts = [buckets[le] for le in BUCKETS]
    assert counts == sorted(counts) and counts[-1] == value(found, f"{name}_count", operation="execute") >= 1
    assert value(found, f"{name}_sum", operation="execute") >= 0


def test_types_are_declared(server):
    server.execute("1")
    types = dict(re.findall(r"^# TYPE code_interpreter_(\S+) (\w+)$", server.request("GET", "/metrics")[2].decode(), re.M))
    expected = {"executions_active": "gauge", "executions_limit": "gauge", "executions_rejected_total": "counter",
                "executions_completed_total": "counter", "admission_wait_seconds": "histogram", "execution_duration_seconds": "histogram"}
    assert {name: types.get(name) for name in expected} == expected


# --- health --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_health_and_ready(server, path):
    status, headers, data = server.request("GET", path)
    assert status == 200 and headers.get_content_type() == "application/json"
    body = json.loads(data)
    assert body["status"] == "ok" and body["version"] == "0.4.4" and "message" in body
    assert body["message"] is None or isinstance(body["message"], str)
    assert body["glovebox_version"] == (ROOT / "VERSION").read_text(encoding="ascii").strip()
    for name in ("executor_backend", "network_isolation"):
        assert isinstance(body[name], str) and body[name]


def test_health_and_ready_say_the_same(server):
    health, ready = (server.call("GET", path)[1] for path in ("/health", "/ready"))
    assert set(health) == set(ready)


def test_ready_is_not_said_too_early(serve):
    """As soon as it listens, /ready is 503 or 200, with the same body; and once it is 200 a program runs."""
    server = serve(ready=False)
    status, body = server.call("GET", "/ready")
    assert status in (200, 503) and body["version"] == "0.4.4"
    assert server.execute("print(1)", timeout_ms=60000)["stdout"] == "1\n"


def test_as_many_boxes_as_there_may_be(serve):
    """Sessions count, idle or not; one-shots too. What is over is refused before anything is made."""
    server = serve(max_boxes=2)
    names = []
    for _ in range(2):
        status, answer = server.call("POST", "/v1/sessions", {})
        assert status == 201
        names.append(answer["session_id"])
    for path, body in (("/v1/sessions", {}), ("/v1/execute", {"code": "1"}), ("/v1/execute/stream", {"code": "1"})):
        status, headers, text = server.request("POST", path, body)
        assert status == 503 and "quota_exceeded" in json.loads(text)["detail"] and int(headers["Retry-After"]) > 0
    assert server.request("DELETE", f"/v1/sessions/{names[0]}")[0] == 204
    assert server.execute("print(1)")["stdout"] == "1\n"
    server.kill_gate()
    until(lambda: server.request("POST", "/v1/execute", {"code": "1"})[0] == 200, "one is free after a gate died, too")
    assert server.request("DELETE", f"/v1/sessions/{names[1]}")[0] == 204


def test_one_tenant_cannot_use_up_the_boxes_of_another(serve):
    tokens = {"one": "token-of-tenant-one-12", "two": "token-of-tenant-two-12"}
    server = serve(env=tokens_variable(tokens), max_boxes_per_tenant=1)
    bearer = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    status, answer = server.call("POST", "/v1/sessions", {}, bearer["one"])
    assert status == 201
    assert server.request("POST", "/v1/execute", {"code": "1"}, bearer["one"])[0] == 503
    assert server.request("POST", "/v1/execute", {"code": "1"}, bearer["two"])[0] == 200
    assert server.request("DELETE", f"/v1/sessions/{answer['session_id']}", headers=bearer["one"])[0] == 204
