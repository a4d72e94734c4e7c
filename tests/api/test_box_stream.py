# SPDX-License-Identifier: Apache-2.0
"""The own API: WebSocket …/stream. Many cells and commands over one connection, and frames that nobody should send.

Readings: a message of ours is one JSON object with `op`, `ref` (a text) and the fields of the POST. What comes back is one object per event:
the data of the event as server-sent events have it, with `ref` and, because nothing else says what it is, its name as `event`.
`input` and `cancel` name a cell by `cell`, its id; `interrupt` a kernel by `kernel`. Whether and how these three are answered
when all is well is open: the tests look at what they do.
"""
import contextlib
import json
import os
import struct
import time

import pytest

from cells import IN_END, NO_POOL, Session, value
from server import both_ways, needs_root, serve, tokens_variable, until  # noqa: F401
from test_ci_tty import BINARY, CLOSE, PING, PONG, TEXT, WebSocket

pytestmark = needs_root

MIB = 1 << 20
CONTINUATION = 0
ENDLESS = "print('up')\nimport time; time.sleep(1000)"

server = both_ways(env=NO_POOL)


@pytest.fixture
def box(server):
    with Session(server) as box:
        yield box


class Link(WebSocket):
    """…/stream of a box, in messages."""

    def __init__(self, box, query="", headers=(), **more):
        super().__init__(box.server, f"{box.path}/stream{query}", headers, **more)
        self.socket.settimeout(60)
        self.kept = []

    def send(self, opcode, payload, masked=True, first=0x80):
        """As that of the terminal tests, for payloads of megabytes."""
        n = len(payload)
        head = bytes([first | opcode, (0x80 if masked else 0) | (n if n < 126 else 126 if n < 65536 else 127)])
        head += b"" if n < 126 else struct.pack(">H" if n < 65536 else ">Q", n)
        mask = os.urandom(4) if masked else bytes(4)
        key = int.from_bytes((mask * (n // 4 + 1))[:n], "little")
        data = (int.from_bytes(payload, "little") ^ key).to_bytes(n, "little")
        self.socket.sendall(head + (mask if masked else b"") + data)

    def say(self, op, ref, **fields):
        self.send(TEXT, json.dumps({"op": op, "ref": ref, **fields}).encode())

    def message(self):
        """The next one, which must come."""
        if self.kept:
            return self.kept.pop(0)
        while True:
            opcode, payload = self.receive()
            if opcode == TEXT:
                return json.loads(payload)
            assert opcode in (PING, PONG), ("closed" if opcode in (CLOSE, None) else opcode, payload[:200])

    def of(self, ref, stop=lambda m: m.get("event") == "end" or "error" in m and "event" not in m):
        """Messages with this ref up to the first that stop() wants; those of others are kept for them."""
        found, others = [], []
        while not found or not stop(found[-1]):
            m = self.message()
            (found if m.get("ref") == ref else others).append(m)
        self.kept = others + self.kept
        return found

    def until_event(self, ref, name):
        return self.of(ref, lambda m: m.get("event") == name)[-1]

    def refused(self, ref):
        """The error that a message of ours got."""
        (m,) = self.of(ref, lambda m: "error" in m and "event" not in m)
        assert {"code", "message", "field"} <= set(m["error"]) and m["error"]["code"], m
        return m["error"]

    def ended(self):
        """The code of the server's goodbye, whatever comes before it."""
        try:
            return self.close_code()
        except (ConnectionResetError, TimeoutError) as e:
            return type(e).__name__

    def leave(self, code=1000):
        self.send(CLOSE, struct.pack(">H", code))
        return self.ended()


def check(found, ref, what="cell"):
    """Events of one run: numbered without holes, from start to end, with their ref."""
    assert [m["event"] for m in found][0] == "start" and found[-1]["event"] == "end", found
    assert [m["seq"] for m in found] == list(range(1, len(found) + 1))
    assert {m["ref"] for m in found} == {ref} and len({m[what] for m in found}) == 1 and all(m["t_ms"] >= 0 for m in found)


def text(found, name="stdout"):
    return "".join(m["data"] for m in found if m.get("event") == name)


# --- cells and commands --------------------------------------------------------------------------------------


def test_a_cell(box):
    with Link(box) as link:
        assert link.status == 101
        link.say("cell", "first", code="import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay('shown')\n6 * 7")
        found = link.of("first")
        check(found, "first")
        assert (text(found), text(found, "stderr")) == ("out\n", "err\n")
        by_name = {m["event"]: m for m in found}
        assert by_name["display"]["data"] == {"text/plain": "'shown'"} and by_name["result"]["data"] == {"text/plain": "42"}
        answer = box.done(found[0]["cell"])
        assert {k: found[-1][k] for k in IN_END} == {k: answer[k] for k in IN_END} and value(answer) == "42"
        # The same as others see, number by number.
        seen = [{"event": e.name, "ref": "first", **e.data} for e in box.events(found[0]["cell"])]
        assert found == seen
        link.say("cell", "second", code="x = 1\n1/0")
        found = link.of("second")
        check(found, "second")
        assert found[-1]["status"] == "error" and found[-1]["error"]["name"] == "ZeroDivisionError"
        assert link.leave() == 1000
    assert box.value("x") == "1", "the same kernel as that of every other client"


def test_every_field(box):
    """Those of the POST mean the same."""
    with Link(box) as link:
        link.say("cell", "1", code="import time; time.sleep(1000)", timeout_ms=300)
        assert link.of("1")[-1]["status"] == "timeout"
        link.say("cell", "2", code="x = 5", kernel="other")
        assert link.of("2")[-1]["status"] == "ok" and box.value("x", kernel="other") == "5"
        link.say("cell", "3", code="import sys; n = sys.stdout.buffer.write(b'\\xff')", output_encoding="base64")
        assert text(link.of("3")) == "/w=="
        link.say("cell", "4", code="input()")
        assert link.of("4")[-1]["error"]["name"] == "StdinNotImplementedError"


def test_a_command(box):
    with Link(box) as link:
        link.say("command", "c", shell="echo out; echo err >&2; exit 3")
        found = link.of("c")
        check(found, "c", "command")
        assert (text(found), text(found, "stderr"), found[-1]["status"], found[-1]["exit_code"]) == ("out\n", "err\n", "error", 3)
        assert box.server.call("GET", f"{box.path}/commands/{found[0]['command']}")[1]["stdout"] == "out\n"


def test_several_in_flight(box):
    """Cells of one kernel in order, other kernels and commands beside them; each message is told whose it is."""
    with Link(box) as link:
        link.say("cell", "held", code="print('up')\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nseen = []")
        link.until_event("held", "stdout")
        for i in range(5):
            link.say("cell", f"q{i}", code=f"seen.append({i}); print('cell', {i})")
        link.say("cell", "other", code="print('other')", kernel="other")
        assert text(link.of("other")) == "other\n"
        link.say("command", "go", shell="touch go; echo went")
        assert text(link.of("go")) == "went\n"
        assert link.of("held")[-1]["status"] == "ok"
        for i in range(5):
            found = link.of(f"q{i}")
            check(found, f"q{i}")
            assert text(found) == f"cell {i}\n"
    assert box.value("seen") == "[0, 1, 2, 3, 4]"


def test_several_connections(box):
    """Each hears of its own."""
    with contextlib.ExitStack() as stack:
        links = [stack.enter_context(Link(box)) for _ in range(4)]
        for i, link in enumerate(links):
            link.say("cell", "same", code=f"print({i})")
        for i, link in enumerate(links):
            found = link.of("same")
            check(found, "same")
            assert text(found) == f"{i}\n" and not link.kept


def test_events_from_some_place_on(box):
    """…and behind the last one that there are none any more, as 204 of HTTP says: also when it ends only later."""
    with Link(box) as link:
        for what, fields in (("cell", {"code": "print('x')"}), ("command", {"shell": "echo x"})):
            link.say(what, "first", **fields)
            found = link.of("first")
            name, last = {what: found[0][what]}, found[-1]["seq"]
            link.say("events", "again", **name)
            assert [{**m, "ref": "first"} for m in link.of("again")] == found
            link.say("events", "end", after=last - 1, **name)
            assert [m["seq"] for m in link.of("end")] == [last]
            for after in (last, last + 100):
                link.say("events", "behind", after=after, **name)
                assert link.message() == {"ref": "behind", "done": True}
        link.say("command", "runs", shell="read x", stdin_open=True)
        name = {"command": link.until_event("runs", "start")["command"]}
        link.say("events", "behind", after=1000, **name)
        link.say("stdin", "go", text="\n", **name)
        assert link.of("behind", lambda m: True) == [{"ref": "behind", "done": True}]


def test_input(box):
    with Link(box) as link:
        link.say("cell", "q", code="name = input('who? ')\nprint('hello', name)", stdin=True)
        asked = link.until_event("q", "input")
        assert (asked["prompt"], asked["password"]) == ("who? ", False)
        link.say("input", "a", cell=asked["cell"], text="Ünï")
        assert text(link.of("q")) == "hello Ünï\n"
        link.say("input", "late", cell=asked["cell"], text="x")
        assert link.refused("late")


def test_interrupt_and_cancel(box):
    box.ok("kept = 1")
    with Link(box) as link:
        link.say("cell", "a", code=ENDLESS)
        link.until_event("a", "stdout")
        link.say("interrupt", "i", kernel="main")
        assert link.of("a")[-1]["status"] == "interrupted"
        link.say("cell", "b", code=ENDLESS)
        running = link.until_event("b", "stdout")["cell"]
        link.say("cell", "c", code="kept = 2")
        link.say("interrupt", "j")
        assert link.of("b")[-1]["status"] == "interrupted" and link.of("c")[-1]["status"] == "ok"
        link.say("cell", "d", code=ENDLESS)
        running = link.until_event("d", "stdout")["cell"]
        waiting = box.start("kept = 3")
        link.say("cancel", "k", cell=waiting)
        until(lambda: box.look(waiting, 0)["status"] == "cancelled", "who waits is cancelled")
        link.say("cancel", "l", cell=running)
        assert link.of("d")[-1]["status"] == "interrupted"
    assert box.value("kept") == "2"


def test_large_messages_both_ways(box):
    with Link(box) as link:
        code = "data = '" + "x" * (8 * MIB) + "'\ndisplay({'text/plain': data}, raw=True)\nprint(len(data))"
        link.say("cell", "large", code=code)
        found = link.of("large")
        check(found, "large")
        assert text(found) == f"{8 * MIB}\n"
        assert [len(m["data"]["text/plain"]) for m in found if m["event"] == "display"] == [8 * MIB]


# --- what is refused -----------------------------------------------------------------------------------------

WRONG = {
    "no code": ({"op": "cell"}, "code"), "code number": ({"op": "cell", "code": 1}, "code"),
    "unknown field": ({"op": "cell", "code": "1", "colour": 1}, "colour"),
    "timeout": ({"op": "cell", "code": "1", "timeout_ms": 0}, "timeout_ms"), "kernel": ({"op": "cell", "code": "1", "kernel": ""}, "kernel"),
    "command": ({"op": "command"}, None), "command's cell": ({"op": "command", "code": "1"}, None), "unknown op": ({"op": "dance"}, None),
    "no op": ({}, None), "op number": ({"op": 1}, None), "op null": ({"op": None}, None),
    "input of nobody": ({"op": "input", "cell": "a" * 26, "text": "x"}, None),
    "input without text": ({"op": "input", "cell": "a" * 26}, None), "cancel of nobody": ({"op": "cancel", "cell": "a" * 26}, None),
    "cancel of nothing": ({"op": "cancel"}, None), "interrupt of nobody": ({"op": "interrupt", "kernel": "nobody"}, None),
}


def test_what_is_refused(box):
    """Each with its ref; the connection and what runs on it go on."""
    with Link(box) as link:
        link.say("cell", "runs", code="print('up')\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
        link.until_event("runs", "stdout")
        for i, (name, (message, field)) in enumerate(WRONG.items()):
            link.send(TEXT, json.dumps({"ref": f"w{i}", **message}).encode())
            error = link.refused(f"w{i}")
            assert field is None or error["field"] == field, (name, error)
        box.out("touch go")
        assert link.of("runs")[-1]["status"] == "ok"


def test_a_full_queue(box):
    with Link(box) as link:
        link.say("cell", "held", code="print('up')\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)")
        link.until_event("held", "stdout")
        for i in range(65):
            link.say("cell", f"q{i}", code=f"last = {i}")
        assert link.refused("q64")
        box.out("touch go")
        assert {link.of(f"q{i}")[-1]["status"] for i in range(64)} == {"ok"}
    assert box.value("last") == "63"


NO_MESSAGES = {
    "cut": b'{"op": "cell", "ref": "x"', "nothing": b"", "list": b"[]", "null": b"null", "text": b'"cell"', "number": b"1",
    "twice": b'{"op": "cell", "op": "cell", "ref": "x", "code": "1"}', "deep": b"[" * 100000,
    "nul": b'{"op": "cell", "ref": "x", "code": "a\\u0000b"}', "no ref": b'{"op": "dance"}', "ref is a list": b'{"op": "dance", "ref": []}',
}


@pytest.fixture
def bystander(box):
    """A cell that runs while a test does what it likes to connections, and is well afterwards."""
    cell = box.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')")
    yield cell
    box.out("touch go")
    assert box.done(cell)["stdout"] == "up\nend\n"


def test_messages_that_are_none(box, bystander):
    """Reading: an error whose ref is null (or what stood there), or the end of the connection; what runs goes on."""
    for name, data in NO_MESSAGES.items():
        with Link(box) as link:
            link.send(TEXT, data)
            opcode, payload = link.receive()
            while opcode == PING:
                opcode, payload = link.receive()
            if opcode == TEXT:
                m = json.loads(payload)
                assert m["error"]["code"] and m.get("ref") in (None, "x", []), (name, m)
                link.say("cell", "after", code="print('still here')", kernel="b")
                assert text(link.of("after")) == "still here\n", name
            else:
                assert opcode == CLOSE and struct.unpack(">H", payload[:2])[0] in (1002, 1003, 1007, 1008), (name, opcode, payload)


FRAMES = {
    "unmasked": (lambda link: link.send(TEXT, b"{}", masked=False), (1002,)),
    "reserved bits": (lambda link: link.send(TEXT, b"{}", first=0xf0), (1002,)), "reserved opcode": (lambda link: link.send(5, b"x"), (1002,)),
    "bad utf-8": (lambda link: link.send(TEXT, b'{"op": "\xff"}'), (1007,)), "long ping": (lambda link: link.send(PING, b"x" * 126), (1002,)),
    "binary": (lambda link: link.send(BINARY, b'{"op": "cell", "ref": "x", "code": "1"}'), (1003, 1008)),
    "too long": (lambda link: link.send(TEXT, b"x" * (16 * MIB + 1)), (1009,)),
    "too long in parts": (lambda link: [link.send(TEXT if i == 0 else CONTINUATION, b"x" * MIB, first=0) for i in range(17)], (1009,)),
    "a part of nothing": (lambda link: link.send(CONTINUATION, b"x"), (1002,)),
}


def test_hostile_frames(box, bystander):
    """The connection ends, with its reason or without a word; what runs goes on, and so does the server."""
    for name, (act, codes) in FRAMES.items():
        with Link(box) as link:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                act(link)
            # Reading: a binary message means nothing here, and ends the connection as well.
            assert link.ended() in (*codes, None, "ConnectionResetError"), name
        with Link(box) as link:
            link.say("command", "x", shell="echo well")
            assert text(link.of("x")) == "well\n", name


def test_fragments(box):
    """A message in many frames, with a ping between them."""
    message = json.dumps({"op": "cell", "ref": "f", "code": "print('" + "ä" * 1000 + "')"}, ensure_ascii=False).encode()
    parts = [message[at:at + 7] for at in range(0, len(message), 7)]
    with Link(box) as link:
        for i, part in enumerate(parts):
            link.send(TEXT if i == 0 else CONTINUATION, part, first=0x80 if i == len(parts) - 1 else 0)
            if i == 3:
                link.send(PING, b"between")
        found = link.of("f")
        check(found, "f")
        assert text(found) == "ä" * 1000 + "\n"


def test_as_long_as_may_be(box):
    """16 MiB are taken; most of them mean nothing."""
    start = b'{"op": "cell", "ref": "l", "code": "print(5)"'
    with Link(box) as link:
        link.send(TEXT, start + b" " * (16 * MIB - len(start) - 1) + b"}")
        assert text(link.of("l")) == "5\n"


def test_ping_is_answered(box):
    with Link(box) as link:
        link.send(PING, b"are you there")
        opcode, payload = link.receive()
        assert (opcode, payload) == (PONG, b"are you there")


# --- coming and going ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["goodbye", "without a word"])
def test_who_leaves_ends_nothing(box, how):
    with Link(box) as link:
        link.say("cell", "a", code="print('up')\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')")
        cell = link.until_event("a", "stdout")["cell"]
        link.say("command", "c", shell="while [ ! -e go ]; do sleep 0.01; done; echo end")
        command = link.until_event("c", "start")["command"]
        link.say("cell", "b", code="print('next')")
        link.say("command", "sent", shell="true")
        link.of("sent")  # all before it was heard
        if how == "goodbye":
            assert link.leave() == 1000
    box.out("touch go")
    assert box.done(cell)["stdout"] == "up\nend\n"
    assert box.server.call("GET", f"{box.path}/commands/{command}?wait_ms=60000")[1]["stdout"] == "end\n"
    found = box.events(cell)
    assert "".join(e.data["data"] for e in found if e.name == "stdout") == "up\nend\n"
    assert box.ok("1")["execution_count"] == 3, "the one that waited was run, too"


def test_who_leaves_and_wants_it_ended(box):
    box.ok("kept = 1")
    with Link(box) as link:
        link.say("cell", "a", code=ENDLESS, on_disconnect="interrupt")
        cell = link.until_event("a", "stdout")["cell"]
    assert box.done(cell)["status"] == "interrupted" and box.value("kept") == "1"


def test_the_box_is_deleted(server):
    box = Session(server)
    with Link(box) as link:
        link.say("cell", "a", code=ENDLESS)
        link.until_event("a", "stdout")
        assert box.delete()[0] == 204
        assert link.of("a")[-1]["status"] == "cancelled"
        assert link.ended() == 1000
    with Link(box) as link:
        assert link.status == 410


def test_no_upgrade_and_no_box(server, box):
    status, headers, _ = server.request("GET", f"{box.path}/stream")
    assert status == 426 and headers["Upgrade"] == "websocket"
    with WebSocket(server, f"/v1/boxes/{'a' * 26}/stream") as ws:
        assert ws.status == 404


def test_a_page_from_elsewhere_is_refused(box):
    with Link(box, headers=["Origin: http://evil.example"]) as link:
        assert link.status == 403
    with Link(box, host="evil.example") as link:
        assert link.status == 421


def test_tokens(serve):
    """By header, or in the address; of the right tenant."""
    tokens = {"one": "token-of-tenant-one-1", "two": "token-of-tenant-two-2"}
    server = serve(env={**tokens_variable(tokens), **NO_POOL})
    mine = {"Authorization": f"Bearer {tokens['one']}"}
    with Session(server, mine) as box:
        for query, headers, status in [("", [], 401), ("?token=wrong", [], 401), ("", ["Authorization: Bearer wrong"], 401),
                                       (f"?token={tokens['two']}", [], 404),
                                       (f"?token={tokens['one']}", [], 101), ("", [f"Authorization: Bearer {tokens['one']}"], 101),
                                       ("", [f"X-API-KEY: {tokens['one']}"], 101)]:
            with Link(box, query, headers) as link:
                assert link.status == status, (query, headers)
                if status == 101:
                    link.say("command", "x", shell="echo in")
                    assert text(link.of("x")) == "in\n"
        assert not any(token in server.log() for token in tokens.values())


def test_a_connection_is_lost_with_the_gate_and_nothing_else(serve):
    server = serve(env=NO_POOL)
    with Session(server) as box:
        with Link(box) as link:
            link.say("cell", "a", code="print('up')\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')")
            cell = link.until_event("a", "stdout")["cell"]
            server.next_gate(server.kill_gate())
            assert link.ended() in (None, "ConnectionResetError")
        with Link(box) as link:
            link.say("command", "go", shell="touch go")
            assert link.of("go")[-1]["status"] == "ok"
        assert box.done(cell)["stdout"] == "up\nend\n"


# --- who does not read ---------------------------------------------------------------------------------------

FLOOD = "for i in range(200000): print(f'{i:099}')\nended = 1"


def unread(box):
    """A link which has asked for more than the way can hold, and reads nothing any more; and the cell."""
    link = Link(box)
    link.say("cell", "flood", code=FLOOD)
    return link, link.until_event("flood", "start")["cell"]


@pytest.mark.more
def test_a_slow_reader_holds_nobody_up_and_gets_everything(box):
    """It comes back before its time is over."""
    link, cell = unread(box)
    with link:
        assert box.done(cell)["status"] == "ok"
        with Link(box) as other:
            other.say("cell", "x", code="print(ended)")
            assert text(other.of("x")) == "1\n"
        rest = link.of("flood")
        # What is kept of a cell is 16 MiB.
        assert text(rest) == "".join(f"{i:099}\n" for i in range(200000))[:16 * MIB] and rest[-1]["truncated"]["stdout"] is True


@pytest.mark.slow
def test_who_does_not_read_at_all_is_sent_away(box):
    """After 30 s, with 1013 if there is still room for that; the cell goes on, and others get its events."""
    link, cell = unread(box)
    with link:
        assert box.done(cell)["status"] == "ok"
        time.sleep(40)
        assert link.ended() in (None, 1013)
    found = box.events(cell)
    assert "".join(e.data["data"] for e in found if e.name == "stdout") == "".join(f"{i:099}\n" for i in range(200000))[:16 * MIB]
    assert box.value("ended") == "1"
