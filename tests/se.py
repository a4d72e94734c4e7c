# SPDX-License-Identifier: Apache-2.0
"""The Sandbox Runtime dialect, as its clients have it: sessions by the names they choose, and handlers.

Where the reference leaves something open, the reading that all tests take is written down here, at the line that needs it.
"""
import json
import re
import urllib.parse
import uuid

BASE = "/workspace/se"
MIB = 1 << 20
ANSWER = {"stdout", "stderr", "result", "exit_code", "metrics"}
METRICS = {"duration_ms", "memory_peak_mb", "cpu_time_ms", "timeout_seconds"}


def quoted(text):
    """One segment of a path, whatever is in it."""
    return urllib.parse.quote(text, safe="", errors="surrogateescape")


def unwrapped(answer):
    """The bare keys of an answer; beside them `result` must hold the same object, for clients of older servers."""
    assert isinstance(answer, dict) and isinstance(answer.get("result"), dict), answer
    bare = {key: value for key, value in answer.items() if key not in ("result", "full_result")}
    assert answer["result"] == bare, "old and new clients are told the same"
    return bare


def refused(status, answer, *statuses):
    """What a refusal says, in its message and its detail. It has the shape of the dialect, or FastAPI's where a type is wrong."""
    assert status in statuses if statuses else 400 <= status < 600, (status, answer)
    assert set(answer) == {"detail"} and answer["detail"], answer
    detail = answer["detail"]
    if status == 422 and isinstance(detail, list):
        assert {"type", "loc", "msg"} <= set(detail[0]), detail
        return json.dumps(detail)
    assert detail["type"] == "SandboxError" and detail["message"] and isinstance(detail["message"], str), detail
    return f"{detail['message']} {detail.get('detail', '')}"


def each(table, check):
    """check(row) of every row; all that fail are told, not only the first."""
    wrong = {}
    for row in table:
        try:
            check(row)
        except AssertionError as e:
            wrong[str(row)[:60]] = str(e).split("\n")[0][:300]
    assert not wrong, "\n".join(f"{row!r}: {why}" for row, why in wrong.items())


class Session:
    """A session by its name, which is deleted at the end. The server makes it at its first use, or by create()."""

    def __init__(self, server, sid=None, headers=None):
        self.server, self.id, self.headers = server, f"s-{uuid.uuid4().hex[:12]}" if sid is None else sid, headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.request("DELETE", "session")

    def path(self, route, rest="", query=""):
        return f"{BASE}/{route}/{quoted(self.id)}{rest}{query}"

    def request(self, method, route, rest="", query="", body=None, headers=None):
        return self.server.request(method, self.path(route, rest, query), body, {**(self.headers or {}), **(headers or {})})

    def call(self, method, route, rest="", query="", body=None, headers=None):
        """(status, what the JSON of the answer says)."""
        status, _, data = self.request(method, route, rest, query, body, headers)
        return status, json.loads(data) if data else None

    def ok(self, method, route, rest="", query="", body=None, headers=None):
        """The bare keys of an answer that must be one."""
        status, answer = self.call(method, route, rest, query, body, headers)
        assert status == 200, (status, answer)
        return unwrapped(answer)

    # --- what clients ask for --------------------------------------------------------------------------------

    def create(self, **fields):
        return self.call("POST", "session", body=fields)

    def delete(self):
        return self.call("DELETE", "session")

    def status(self):
        return self.ok("GET", "status")

    def put(self, filename, content="", **fields):
        return self.call("POST", "create", body={"filename": filename, "content": content, **fields})

    def write(self, filename, content="", **fields):
        status, answer = self.put(filename, content, **fields)
        assert status == 200, (status, answer)
        return unwrapped(answer)

    def get(self, path):
        """(status, headers, bytes) of a download; the path is sent as one text in which only slashes are left alone."""
        rest = urllib.parse.quote(path, safe="/", errors="surrogateescape")
        return self.request("GET", "download", f"/{rest}")

    def read(self, path):
        status, _, data = self.get(path)
        assert status == 200, (status, data)
        return data

    def files(self, folder="", **query):
        """{name: (size, type)} of a listing. Readings: whether the type of a.txt has its dot is left open, and so is whether code that
        came without a name is kept as script_…"""
        rest = "/" + urllib.parse.quote(folder, safe="/", errors="surrogateescape")
        answer = self.ok("GET", "files", rest, "?" + urllib.parse.urlencode(query) if query else "")
        assert set(answer) == {"files"}
        assert all({"filename", "size", "type"} <= set(entry) for entry in answer["files"]), answer
        found = {entry["filename"]: (entry["size"], entry["type"].lstrip(".")) for entry in answer["files"]}
        assert len(found) == len(answer["files"]), "each is listed once"
        return {name: what for name, what in found.items() if not re.fullmatch(r"script_\w+\.(py|sh)", name)}

    def execute(self, command, *args, **fields):
        answer = self.ok("POST", "execute", body={"command": command, **({"args": list(args)} if args else {}), **fields})
        assert set(answer) == {"stdout", "stderr", "returncode"}, answer
        return answer

    def shell(self, command):
        """What a command said, which must have gone well."""
        answer = self.execute(command)
        assert (answer["returncode"], answer["stderr"]) == (0, ""), answer
        return answer["stdout"]

    def run(self, code, **fields):
        answer = self.ok("POST", "execute_code", body={"code": code, **fields})
        assert {"stdout", "stderr", "returncode"} <= set(answer), answer
        return answer


# --- handlers ------------------------------------------------------------------------------------------------


def handle(server, code, event=None, context=None, headers=None):
    """(status, answer) of a handler. What is None is not sent."""
    body = {"handler_code": code}
    if event is not None:
        body["event"] = event
    if context is not None:
        body["context"] = context
    return server.call("POST", f"{BASE}/v2/execute_code", body, headers)


def checked(answer):
    """An answer of a handler; its keys are these, and what it measured are numbers."""
    assert set(answer) == ANSWER, answer
    assert isinstance(answer["stdout"], str) and isinstance(answer["stderr"], str) and type(answer["exit_code"]) is int, answer
    metrics = answer["metrics"]
    assert METRICS <= set(metrics), metrics
    assert all(isinstance(metrics[name], (int, float)) and not isinstance(metrics[name], bool) and metrics[name] >= 0
               for name in METRICS), metrics
    return answer


def answered(server, code, event=None, context=None):
    status, answer = handle(server, code, event, context)
    assert status == 200, (status, answer)
    return checked(answer)


def result(server, code, event=None, context=None):
    """The result of a handler that must go well."""
    answer = answered(server, code, event, context)
    assert answer["exit_code"] == 0, answer
    return answer["result"]


def failed(server, code, exit_code, event=None):
    """The answer of a handler that must not go well: it has no result, and somebody says why."""
    answer = answered(server, code, event)
    assert (answer["exit_code"], answer["result"]) == (exit_code, None), answer
    assert answer["stderr"].strip(), "why is said"
    return answer


def error_of(status, answer, expected_status, code):
    """The detail of a refusal by v2."""
    assert status == expected_status, (status, answer)
    detail = answer["detail"]
    assert detail["error_code"] == code, detail
    for key in ("description", "error_detail", "solution", "error_link"):
        assert isinstance(detail[key], str), detail
    assert detail["description"], detail
    return detail
