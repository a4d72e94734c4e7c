# SPDX-License-Identifier: Apache-2.0
"""Cells of a box, as clients of the own API have them: run, followed, answered and ended.

Where the contract leaves something open, the reading that all tests take is written down here, at the line that needs it.
"""
import contextlib
import http.client
import json
import re

from server import Stream, until
from test_boxes import ID, Box

KEYS = {"id", "status", "execution_count", "stdout", "stderr", "truncated", "results", "error", "kernel_restarted", "state_lost",
        "output_file", "figures"}
FIGURES = {"wall_ms", "cpu_ms", "peak_memory_bytes"}
STATUSES = {"ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"}
# Reading: the contract names statuses of cells that have ended. One that has not is `running`, as a command is; while it waits for its
# turn it may as well be `queued`.
UNDER_WAY = {"queued", "running"}
NOTHING_CUT = {"stdout": False, "stderr": False, "results": False}
# Boxes made ahead come and go whenever they like, which looks like a leak of the test that is running.
NO_POOL = {"GLOVEBOX_SESSION_POOL_SIZE": "0"}
# What a client sees when the gate dies, at whatever moment.
LOST = (OSError, http.client.HTTPException)
PNG = b"\x89PNG\r\n\x1a\n"


class Session(Box):
    """A box, of which the cells are wanted."""

    def post(self, code, query="", headers=None, **fields):
        return self.server.call("POST", f"{self.path}/cells{query}", {"code": code, **fields}, {**(self.headers or {}), **(headers or {})})

    def cell(self, code, query="", headers=None, **fields):
        """The answer, which must be one."""
        status, answer = self.post(code, query, headers, **fields)
        assert status == 200, (status, answer)
        return checked(answer)

    def ok(self, code, **fields):
        answer = self.cell(code, **fields)
        assert answer["status"] == "ok", answer
        return answer

    def printed(self, code, **fields):
        return self.ok(code, **fields)["stdout"]

    def value(self, code, **fields):
        """text/plain of its result."""
        return value(self.ok(code, **fields))

    def start(self, code, **fields):
        """The id of a cell that nobody waits for."""
        status, answer = self.post(code, detach=True, **fields)
        assert status == 202, (status, answer)
        assert answer["status"] in UNDER_WAY and ID.fullmatch(answer["id"]), answer
        return answer["id"]

    def of(self, cell, tail=""):
        return f"{self.path}/cells/{cell}{tail}"

    def look(self, cell, wait_ms=60000, query=""):
        status, answer = self.server.call("GET", self.of(cell, f"?wait_ms={wait_ms}{query}"), headers=self.headers)
        assert status == 200, (status, answer)
        return answer

    def done(self, cell):
        """Its answer, once it has ended."""
        answer = self.look(cell)
        while answer["status"] in UNDER_WAY:
            answer = self.look(cell)
        return checked(answer)

    def wait_for(self, cell, text, stream="stdout"):
        """Until it has printed that."""
        until(lambda: text in self.look(cell, 0)[stream], f"{text!r} in {stream}")

    def begin(self, code, says="print('up')\n", **fields):
        """The id of a cell that has printed `up`: by its first line, or, with `says` empty, where the code does it."""
        cell = self.start(says + code, **fields)
        self.wait_for(cell, "up")
        return cell

    def events(self, cell, **where):
        with Events(self, cell, **where) as stream:
            assert stream.status == 200, (stream.status, stream.read())
            return list(stream)

    def stream(self, code, headers=None, **fields):
        return Stream(self.server, f"{self.path}/cells", {"code": code, "stream": True, **fields}, {**(self.headers or {}), **(headers or {})})

    def streamed(self, code, **fields):
        """All events of a cell whose client stays."""
        with self.stream(code, **fields) as stream:
            assert stream.status == 200, (stream.status, stream.read())
            found = list(stream)
        check_events(found)
        return found

    def tell(self, cell, text, **fields):
        """What input() is told."""
        return self.server.call("POST", self.of(cell, "/input"), {"text": text, **fields}, self.headers)

    def asked(self, cell, count=1):
        """The events by which a cell asks for input; so many at least."""
        with Events(self, cell) as stream:
            assert stream.status == 200, stream.read()
            found = []
            for e in stream:
                found += [e] if e.name == "input" else []
                if len(found) == count:
                    return found
        raise AssertionError(f"it ended without asking {count} times: {found}")

    def cancel(self, cell):
        return self.server.call("DELETE", self.of(cell), headers=self.headers)

    def interrupt(self, **fields):
        return self.server.call("POST", f"{self.path}/interrupt", fields, self.headers)

    def restart(self, **fields):
        return self.server.call("POST", f"{self.path}/restart", fields, self.headers)

    def kernel(self, name, method="GET"):
        return self.server.call(method, f"{self.path}/kernels/{name}", headers=self.headers)


class Events(Stream):
    """GET …/events; the same iterator."""

    def __init__(self, session, cell, after=None, last=None, what="cells"):
        server = session.server
        self.connection = server.connection()
        self.socket, self.answer = self.connection.sock, None
        path = f"{session.path}/{what}/{cell}/events" + (f"?after={after}" if after is not None else "")
        headers = {**(session.headers or {}), **({"Last-Event-ID": str(last)} if last is not None else {})}
        try:
            self.answer = server.send(self.connection, "GET", path, None, headers)
        except BaseException:
            self.close()
            raise
        self.status, self.headers = self.answer.status, self.answer.headers


def checked(answer):
    """An answer of a cell that has ended: complete, and of the right types."""
    assert KEYS <= set(answer), KEYS - set(answer)
    assert ID.fullmatch(answer["id"]) and answer["status"] in STATUSES, answer
    assert isinstance(answer["stdout"], str) and isinstance(answer["stderr"], str)
    assert {"stdout", "stderr"} <= set(answer["truncated"]) and all(isinstance(v, bool) for v in answer["truncated"].values())
    for result in answer["results"]:
        assert {"type", "data", "metadata", "display_id"} <= set(result) and result["type"] in ("display", "result"), result
        assert isinstance(result["data"], dict) and isinstance(result["metadata"], dict)
    if answer["error"] is not None:
        error = answer["error"]
        assert {"name", "value", "traceback"} <= set(error) and isinstance(error["name"], str), error
        assert isinstance(error["value"], str) and all(isinstance(line, str) for line in error["traceback"])
    # Reading: without a restart `kernel_restarted` is null or false; with one it is the reason, a text.
    assert not answer["kernel_restarted"] or isinstance(answer["kernel_restarted"], str)
    assert isinstance(answer["state_lost"], bool)
    # Reading: figures of a cell that never ran may be null.
    assert answer["figures"] is None or FIGURES <= set(answer["figures"])
    if answer["status"] == "ok":
        assert answer["error"] is None and not answer["state_lost"]
    if answer["status"] in ("error", "crashed", "oom"):
        assert answer["error"], answer
    return answer


def value(answer):
    found = [r["data"].get("text/plain") for r in answer["results"] if r["type"] == "result"]
    assert len(found) < 2, answer["results"]
    return found[0] if found else None


def shown(answer):
    """text/plain of its displays."""
    return [r["data"].get("text/plain") for r in answer["results"] if r["type"] == "display"]


def names(found):
    return [e.name for e in found]


def text(found, name="stdout"):
    return "".join(e.data["data"] for e in found if e.name == name)


def check_events(found, cell=None, first=1):
    """Numbers without holes, one start, one end, each event complete."""
    assert found, "no event"
    cell = cell or found[0].data["cell"]
    assert [int(e.id) for e in found] == list(range(first, first + len(found)))
    for e in found:
        assert e.data["cell"] == cell and e.data["seq"] == int(e.id) and e.data["t_ms"] >= 0, e
    assert names(found).count("end") == 1 and found[-1].name == "end"
    # Reading: `start` is the first event of every cell that was started; one that was cancelled in the queue need not have one.
    assert first > 1 or found[0].name == "start" or found[-1].data["status"] == "cancelled"


# `end` is the answer without its output; these are no output.
IN_END = KEYS - {"stdout", "stderr", "results", "truncated"}


def follow(session, cell, what="cells"):
    """Every event of it, by a client that comes back whenever it is cut off."""
    found, last = [], 0
    while not found or found[-1].name != "end":
        with contextlib.suppress(*LOST):
            with Events(session, cell, last=last, what=what) as stream:
                assert stream.status == 200, f"{cell} behind {last}: {stream.status}, {stream.read()!r}"
                for e in stream:
                    found.append(e)
                    last = int(e.id)
    return found


def plain(lines):
    """A traceback without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))


def refusal(answer, status, field=None):
    """The error of an answer, whatever its code."""
    assert answer[0] == status, answer
    error = answer[1]["error"]
    assert {"code", "message", "field", "hint", "request_id"} <= set(error) and error["code"] and error["message"], error
    assert field is None or error["field"] == field, error
    return error


def says(answer, pattern):
    """Whether its error speaks of that."""
    return re.search(pattern, json.dumps(answer["error"]), re.I)


def kill(server):
    """The gate, by -9; the next one is there."""
    server.next_gate(server.kill_gate())
