# SPDX-License-Identifier: Apache-2.0
"""Jupyter's channels and clients that mean harm: frames that are none, floods, and readers who do not read.

Whatever one client does, its kernel lives, a `neighbour` in another box answers all the while, and the gate stays small.
"""
import contextlib
import json
import os
import random
import socket
import struct
import threading
import time
import uuid

import pytest

from jup import BINARY, CLOSE, CONTINUATION, MIB, PING, TEXT, Closed, Kernel, Message, all_closed, dumps, encode, refusal, table
from server import SANITIZED, WARM, needs_root, serve, shared, status_of, until  # noqa: F401

pytestmark = needs_root

server = shared(**WARM)
# Protocol error, no such data, policy, not what it says it is, too large.
GOODBYES = {1002, 1003, 1007, 1008, 1009}


@pytest.fixture(scope="module")
def kernel(server):
    with Kernel(server) as kernel:
        kernel.run("alive = 42").ok
        yield kernel


@pytest.fixture(autouse=True)
def it_lives(request):
    """After every test the kernel is still the same, and answers."""
    yield
    if "kernel" in request.fixturenames:
        assert request.getfixturevalue("kernel").run("alive").ok.value == "42"


def high_water(server):
    return int(status_of(server.pid_of("gate"))["VmHWM"].split()[0]) * 1024


class Neighbour:
    """Another kernel, which is asked the same all the while."""

    def __init__(self, server):
        self.kernel = Kernel(server)
        self.client = self.kernel.client("text")
        self.answers, self.failure, self.stop = 0, None, threading.Event()
        self.client.run("x = 0").ok
        self.thread = threading.Thread(target=self.ask)

    def ask(self):
        try:
            while not self.stop.is_set():
                self.answers += 1
                assert self.client.run("x += 1; x").ok.value == str(self.answers)
        except BaseException as e:
            self.failure = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stop.set()
        self.thread.join(60)
        self.client.socket.close()
        self.kernel.call("DELETE")
        if kind is None:
            assert self.failure is None and self.answers > 0, self.failure


# --- frames that are none --------------------------------------------------------------------------------------------


def good(kind="execute_request", code="'never'", channel="shell", buffers=()):
    header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": "x", "username": "x", "date": "", "version": "5.3"}
    return Message(channel, header, {}, {}, {"code": code}, list(buffers))


def v1_parts():
    m = good()
    return [b"shell", *map(dumps, (m.header, {}, {}, m.content))]


def v1_offsets(offsets, parts=None):
    parts = parts or v1_parts()
    return struct.pack(f"<{1 + len(offsets)}Q", len(offsets), *offsets) + b"".join(parts)


def honest(parts, word=8, extra=1):
    at, found = (1 + len(parts) + extra) * word, []
    for part in parts:
        found.append(at)
        at += len(part)
    return found + [at] * extra


def v1_cases():
    parts = v1_parts()
    right = honest(parts)
    swapped, overlap = list(right), list(right)
    swapped[1], swapped[2] = right[2], right[1]
    overlap[2] = right[1] + 1
    yield "empty", b""
    yield "one byte", b"\x06"
    yield "seven bytes", b"\x06" + bytes(6)
    yield "no offsets", struct.pack("<Q", 0)
    yield "two offsets", v1_offsets(right[:2])
    yield "five offsets", v1_offsets(right[:5])
    yield "a table that is cut", struct.pack("<Q", 6) + bytes(20)
    yield "a count that overflows", struct.pack("<Q", 1 << 61) + bytes(200)
    yield "the largest count", struct.pack("<Q", (1 << 64) - 1) + bytes(200)
    yield "a thousand buffers", table([*parts, *[b""] * 1000], "Q", "<", 1)
    yield "offsets of zero", v1_offsets([0] * 6)
    yield "backwards", v1_offsets(swapped)
    yield "overlap into JSON", v1_offsets(overlap)
    yield "into the table", v1_offsets([8, *right[1:]])
    yield "behind the end", v1_offsets([*right[:5], right[5] + 1])
    yield "far behind the end", v1_offsets([*right[:4], 1 << 62, 1 << 63])
    yield "before the end", v1_offsets([*right[:5], right[5] - 1])
    yield "bytes that are nobody's", v1_offsets(right) + b"more"
    yield "negative", v1_offsets([right[0], right[1], (1 << 64) - 8, *right[3:]])
    yield "no JSON", table([b"shell", b"{", b"{}", b"{}", b"{}"], "Q", "<", 1)
    yield "a header that is a list", table([b"shell", b"[]", b"{}", b"{}", b"{}"], "Q", "<", 1)
    yield "a header that is empty", table([b"shell", b"{}", b"{}", b"{}", b"{}"], "Q", "<", 1)
    yield "contents that are a list", table([*parts[:4], b"[]"], "Q", "<", 1)
    yield "no UTF-8", table([parts[0], parts[1].replace(b'"x"', b'"\xff"'), *parts[2:]], "Q", "<", 1)
    yield "a channel of nothing but zeros", table([b"\x00" * 5, *parts[1:]], "Q", "<", 1)
    yield "a long channel", table([b"s" * 1000, *parts[1:]], "Q", "<", 1)
    yield "big-endian", table(parts, "Q", ">", 1)
    yield "legacy", encode("binary", good())[1]
    yield "deep", table([*parts[:4], b'{"a":' * 100000 + b"1" + b"}" * 100000], "Q", "<", 1)
    yield "noise", random.Random(5).randbytes(1000)


def text_cases():
    whole = json.loads(encode("text", good())[1])
    yield "empty", b""
    yield "no JSON", b"hello"
    yield "half", dumps(whole)[:-1]
    yield "two", dumps(whole) * 2
    yield "a list", b"[]"
    yield "null", b"null"
    yield "a number", b"5"
    yield "no header", dumps({**whole, "header": None})
    yield "a header that is a text", dumps({**whole, "header": "x"})
    yield "no type", dumps({**whole, "msg_type": None, "header": {"msg_id": "x"}})
    yield "a type that is a number", dumps({**whole, "header": {**whole["header"], "msg_type": 5}})
    yield "an id that is a list", dumps({**whole, "header": {**whole["header"], "msg_id": [1]}})
    yield "a long id", dumps({**whole, "header": {**whole["header"], "msg_id": "x" * 100000}})
    yield "a long header", dumps({**whole, "header": {**whole["header"], "more": "x" * 1000000}})
    yield "a long type", dumps({**whole, "msg_type": "x" * 10000, "header": {**whole["header"], "msg_type": "x" * 10000}})
    yield "contents that are a text", dumps({**whole, "content": "x"})
    yield "metadata that is a list", dumps({**whole, "metadata": []})
    yield "a parent that is a list", dumps({**whole, "parent_header": [1]})
    yield "a channel that is a number", dumps({**whole, "channel": 5})
    yield "buffers in JSON", dumps({**whole, "buffers": ["AAAA"]})
    yield "NaN", dumps(whole).replace(b'"never"', b"NaN").replace(b"'never'", b"x")[:-1] + b',"x":NaN}'
    yield "deep", b'{"a":' * 100000 + b"1" + b"}" * 100000
    yield "a long number", b'{"a":' + b"9" * 1000000 + b"}"
    yield "a lone half", dumps(whole).replace(b"'never'", b"\\ud800")[:-1] + b',"channel":"\\ud800"}'


def binary_cases():
    whole = dumps(json.loads(encode("text", good())[1]))
    yield "empty", b""
    yield "three bytes", b"\x00\x00\x00"
    yield "no parts", struct.pack(">I", 0)
    yield "a table that is cut", struct.pack(">II", 3, 16)
    yield "the largest count", struct.pack(">I", (1 << 32) - 1) + whole
    yield "a count that overflows", struct.pack(">I", 1 << 30) + bytes(100)
    yield "a thousand buffers", table([whole, *[b""] * 1000], "I", ">", 0)
    yield "into the table", struct.pack(">III", 2, 4, 12 + len(whole)) + whole
    yield "backwards", struct.pack(">III", 2, 12 + len(whole), 12) + whole
    yield "behind the end", struct.pack(">III", 2, 12, 13 + len(whole)) + whole
    yield "far behind the end", struct.pack(">III", 2, 12, (1 << 32) - 1) + whole
    yield "cut off", table([whole[:-5]], "I", ">", 0)
    yield "little-endian", table([whole], "I", "<", 0)
    yield "a v1 message", encode("v1", good())[1]
    yield "no UTF-8", table([whole.replace(b'"x"', b'"\xff"')], "I", ">", 0)
    yield "text", whole
    yield "noise", random.Random(6).randbytes(1000)


CASES = [pytest.param(framing, opcode, payload, id=f"{framing}-{kind}-{name}") for framing, kind, opcode, cases in
         (("v1", "binary", BINARY, v1_cases), ("text", "text", TEXT, text_cases), ("text", "binary", BINARY, binary_cases))
         for name, payload in cases()]


@pytest.mark.parametrize("framing, opcode, payload", CASES)
def test_what_is_no_message(kernel, framing, opcode, payload):
    """Who sends it is told to go; nothing of it was run, and nobody else notices."""
    with kernel.client(framing) as client, kernel.client("text") as other:
        client.send(opcode, payload)
        try:
            while True:
                m = client.fresh()
                assert m.type != "execute_result", m
                assert m.state != "idle" or m.parent is None, "it was answered as a message"
        except Closed as e:
            assert e.code in GOODBYES and e.reason, (e.code, e.reason)
        assert other.run("alive").ok.value == "42"
        assert not [m for m in other.left() if m.type == "execute_input" and "never" in m.content["code"]]


def test_text_where_bytes_belong(kernel):
    """v1 knows no text; a legacy client that sends bytes where text would do is understood."""
    with kernel.client("v1") as client:
        client.send(TEXT, encode("text", good())[1])
        assert client.close_code() in GOODBYES
    with kernel.client("text") as client:
        m = good(code="6 * 7")
        client.send(*encode("binary", m))
        assert client.told(m.header).check().ok.value == "42"


@pytest.mark.parametrize("framing", ["text", "binary", "v1"])
def test_channels_that_nobody_sends_on(kernel, framing):
    for channel in ("iopub", "heartbeat", "", "shell ", "SHELL", "shell\n", "x" * 60):
        with kernel.client(framing) as client:
            m = good(channel=channel)
            client.send(*encode(framing, m))
            with contextlib.suppress(TimeoutError, Closed):
                client.socket.settimeout(0.3)
                while True:
                    assert client.fresh().type not in ("execute_input", "execute_reply"), channel


@pytest.mark.parametrize("frame", ["unmasked", "reserved bits", "reserved opcode", "reserved control", "long ping", "half a ping", "no UTF-8", "continues nothing",
                                   "a message in a message", "a close of one byte", "a close code that is none"])
def test_frames_that_are_none(kernel, frame):
    with kernel.client("text") as client:
        if frame == "unmasked":
            client.send(TEXT, b"{}", masked=False)
        elif frame == "reserved bits":
            client.send(TEXT, b"{}", first=0xf0)
        elif frame == "reserved opcode":
            client.send(5, b"{}")
        elif frame == "reserved control":
            client.send(0xb, b"")
        elif frame == "long ping":
            client.send(PING, b"x" * 126)
        elif frame == "half a ping":
            client.send(PING, b"x", first=0)
        elif frame == "no UTF-8":
            client.send(TEXT, b'{"a":"\xff\xfe"}')
        elif frame == "continues nothing":
            client.send(CONTINUATION, b"{}")
        elif frame == "a message in a message":
            client.send(TEXT, b"{", first=0)
            client.send(TEXT, b"}")
        elif frame == "a close of one byte":
            client.send(CLOSE, b"x")
        else:
            client.send(CLOSE, struct.pack(">H", 1005))
        assert client.close_code() in {*GOODBYES, None, 1000}


# --- sizes -----------------------------------------------------------------------------------------------------------


def sized(framing, n, client):
    """A message of n bytes whose cell is short."""
    header = client.header("execute_request")
    m = Message("shell", header, {}, {}, {"code": "'large'#"}, [])
    missing = n - len(encode(framing, m)[1])
    m.content["code"] += "x" * missing
    opcode, payload = encode(framing, m)
    assert len(payload) == n
    return header, opcode, payload


@pytest.mark.parametrize("framing", [pytest.param("text", marks=pytest.mark.more), pytest.param("binary", marks=pytest.mark.more), "v1"])
def test_the_largest_message(kernel, framing):
    with kernel.client(framing) as client:
        header, opcode, payload = sized(framing, 16 * MIB, client)
        client.send(opcode, payload)
        assert client.told(header).check().ok.value == "'large'"
        header, opcode, payload = sized(framing, 16 * MIB + 1, client)
        with contextlib.suppress(ConnectionError):
            client.send(opcode, payload)
        assert client.close_code() in (1009, None)


def test_a_length_that_is_a_lie(kernel):
    """Room is made for what has come, not for what is said to come."""
    before = high_water(kernel.server)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(kernel.client("v1"))
            client.socket.sendall(bytes([0x82, 0xff]) + struct.pack(">Q", 16 * MIB) + bytes(4) + b"x")
            far = stack.enter_context(kernel.client("v1"))
            far.socket.sendall(bytes([0x82, 0xff]) + struct.pack(">Q", (1 << 63) - 1) + bytes(4) + b"x" * 100)
            assert far.close_code() in (1009, 1002, None)
        assert kernel.run("alive").ok.value == "42"
        assert SANITIZED or high_water(kernel.server) - before < 64 * MIB


def fragments(client, sizes):
    """Sends fragments for ever; how many were taken before it was told to go, and its goodbye."""
    first = True
    for n, size in enumerate(sizes):
        try:
            client.send(TEXT if first else CONTINUATION, b" " * size, first=0)
        except (ConnectionError, TimeoutError):
            return n, None
        first = False
    return n, client.close_code()


def test_fragments_of_one_message(kernel):
    with kernel.client("text") as client:
        m = good(code="'in pieces'")
        _, payload = encode("text", m)
        for i in range(0, len(payload), 7):
            client.send(TEXT if i == 0 else CONTINUATION, payload[i:i + 7], first=0 if i + 7 < len(payload) else 0x80)
            client.send(PING, b"")
        assert client.told(m.header).check().ok.value == "'in pieces'"


def test_fragments_for_ever(kernel):
    before = high_water(kernel.server)
    with kernel.client("text") as client:
        taken, code = fragments(client, [65536] * 400)
        assert code in (1009, None) and taken <= 400
    assert SANITIZED or high_water(kernel.server) - before < 100 * MIB


@pytest.mark.parametrize("size", [0, 1])
def test_small_fragments_for_ever(kernel, size):
    """What costs more to keep than it has bytes is counted for what it costs."""
    before = high_water(kernel.server)
    with kernel.client("text") as client:
        piece = bytes([CONTINUATION, 0x80 | size]) + bytes(4 + size)
        client.send(TEXT, b" ", first=0)
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                client.socket.sendall(piece * 5000)
        grown = high_water(kernel.server) - before
        assert SANITIZED or grown < 100 * MIB, f"a million fragments of {size} bytes cost {grown // MIB} MiB"


def test_pings_for_ever(kernel):
    """Who pings and does not read the answers is not remembered without bound."""
    before = high_water(kernel.server)
    with kernel.client("text") as client:
        client.socket.settimeout(20)
        piece = bytes([0x80 | PING, 0x80 | 125]) + bytes(4 + 125)
        with contextlib.suppress(ConnectionError, TimeoutError):
            for _ in range(3000):
                client.socket.sendall(piece * 1000)
        grown = high_water(kernel.server) - before
        assert SANITIZED or grown < 100 * MIB, f"pongs that nobody takes cost {grown // MIB} MiB"


# --- floods ------------------------------------------------------------------------------------------------------------


def replies(client, headers):
    """Statuses, in the order of the requests; each is answered once."""
    found, idle = {}, set()
    while len(idle) < len(headers):
        m = client.next()
        if m.type == "execute_reply":
            assert m.parent not in found
            found[m.parent] = m.content["status"]
        elif m.state == "idle" and m.parent in found:
            idle.add(m.parent)
    return [found[header["msg_id"]] for header in headers]


@pytest.mark.more
def test_more_requests_than_may_wait(server):
    """Each is answered: it runs, or is refused; and then it is as before."""
    with Kernel(server) as kernel, kernel.client() as client, Neighbour(server):
        header, asked = client.hold()
        headers = [client.execute("1", silent=True) for _ in range(6000)]
        client.answer(asked, "go")
        client.told(header).ok
        statuses = replies(client, headers)
        assert set(statuses) <= {"ok", "error"} and statuses.count("ok") >= 64
        assert client.run("6 * 7").ok.value == "42"


@pytest.mark.more
def test_large_requests_that_wait(server):
    """As many bytes as may wait, and no more."""
    with Kernel(server) as kernel, kernel.client() as client, Neighbour(server):
        before = high_water(server)
        header, asked = client.hold()
        headers = [client.execute("1 #" + "x" * (8 * MIB), silent=True) for _ in range(40)]
        client.quiet()
        grown = high_water(server) - before
        client.answer(asked, "go")
        client.told(header).ok
        statuses = replies(client, headers)
        assert set(statuses) <= {"ok", "error"} and statuses[0] == "ok"
        assert SANITIZED or grown < 256 * MIB, f"{grown // MIB} MiB for what waits"
        assert client.run("6 * 7").ok.value == "42"


def test_a_thousand_clients(server):
    """Those beyond the limit are told so, in words; the others work, and when some leave there is room again."""
    with Kernel(server) as kernel, Neighbour(server), contextlib.ExitStack() as stack:
        clients = []
        for _ in range(1000):
            client = stack.enter_context(kernel.client("text"))
            if client.status == 101:
                clients.append(client)
            else:
                assert client.status == 429
                refusal((429, client.body()), 429)
        assert 16 <= len(clients) <= 512 and kernel.get()["connections"] == len(clients)
        header = clients[0].execute("print('to all')")
        clients[0].told(header).check().ok
        for client in clients[1:]:
            assert client.told(header).text() == "to all\n"
        clients[0].goes_away()
        until(lambda: kernel.get()["connections"] < len(clients), "one has left")
        with kernel.client() as client:
            assert client.status == 101 and client.run("6 * 7").ok.value == "42"


def test_messages_to_a_kernel_that_is_gone(server):
    kernel = Kernel(server)
    with all_closed([kernel.client("text") for _ in range(5)]) as clients:
        clients[0].begin("import time; time.sleep(1000)")
        assert kernel.call("DELETE")[0] == 204
        for client in clients:
            with contextlib.suppress(ConnectionError):
                for _ in range(200):
                    client.execute("1")
                    client.say("interrupt_request", channel="control")
                    client.say("shutdown_request", {"restart": True}, "control")
                    client.say("input_reply", {"value": "x"}, "stdin")
            assert client.close_code() in (1000, 1001, None)
    assert kernel.call("GET")[0] == 404


def test_come_and_go(server):
    """A thousand connections, one after the other, some without a goodbye."""
    with Kernel(server) as kernel:
        kernel.run("alive = 42").ok
        before = len(socket_list(server))
        for i in range(300):
            client = kernel.client("text" if i % 2 else "v1")
            if i % 3 == 0:
                client.execute("alive")
            if i % 5 == 0:
                client.leave()
            client.socket.close()
        kernel.wait_alone()
        until(lambda: len(socket_list(server)) <= before + 2, "no descriptor is left")
        assert kernel.run("alive").ok.value == "42"


def socket_list(server):
    return os.listdir(f"/proc/{server.pid_of('gate')}/fd")


# --- readers who do not read -------------------------------------------------------------------------------------------

BOUND = 400 * MIB


def deaf(kernel, framing="text"):
    """A client that never reads, with as little room on the way as can be had."""
    client = kernel.client(framing)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return client


@pytest.mark.more
def test_nobody_reads_what_is_printed(serve):
    """200 MB, 40 readers who do not read and one who does: the cell goes on, and so does everybody else."""
    server = serve(**WARM)
    with Kernel(server) as kernel, Neighbour(server) as neighbour, all_closed([deaf(kernel) for _ in range(40)]):
        with kernel.client() as client:
            client.run("alive = 42").ok
            told = client.run("line = 'x' * 9999\nfor i in range(20000): print(line)")
            assert told.reply["status"] == "ok"
            assert neighbour.failure is None
            assert SANITIZED or high_water(server) < BOUND, f"{high_water(server) // MIB} MiB"
            assert client.run("alive").ok.value == "42"


@pytest.mark.slow
def test_nobody_reads_what_is_displayed(serve):
    """15 MB each, again and again, to readers who do not read. Who reads may have to wait until they were sent away."""
    server = serve(**WARM)
    with Kernel(server) as kernel, Neighbour(server) as neighbour, all_closed([deaf(kernel) for _ in range(40)]):
        with kernel.client(timeout=300) as client:
            client.run("alive = 42").ok
            header = client.execute("data = {'text/plain': 'x' * 15000000}\nfor i in range(12):\n    display(data, raw=True)")
            told = client.told(header)
            assert told.reply["status"] == "ok"
            assert neighbour.failure is None
            assert SANITIZED or high_water(server) < BOUND, f"{high_water(server) // MIB} MiB"
            assert client.run("alive").ok.value == "42"


ONE, TWO = "the-first-token-0123456789", "the-second-token-0123456789"


@pytest.mark.more
@pytest.mark.parametrize("whose", [ONE, TWO], ids=["same tenant", "another tenant"])
def test_pictures_of_others_do_not_wait(serve, whose):
    """What lies there for those who do not read is not in the way of another kernel's pictures: they come while the others are still there."""
    server = serve(tokens={"one": ONE, "two": TWO}, **WARM)
    with Kernel(server, headers={"Authorization": f"token {ONE}"}) as kernel, Kernel(server, headers={"Authorization": f"token {whose}"}) as other:
        with all_closed([deaf(kernel) for _ in range(40)]) as readers, other.client() as client:
            client.run("data = {'text/plain': 'x' * 2000000}").ok
            readers[0].execute("data = {'text/plain': 'x' * 15000000}\nfor i in range(12):\n    display(data, raw=True)")
            time.sleep(1)
            for _ in range(5):
                told = client.run("display(data, raw=True)").ok
                assert len(told.of("display_data")) == 1
            assert kernel.get()["connections"] == 40, "they were waited for"


@pytest.mark.more
def test_who_does_not_read_is_sent_away(serve):
    """…after a while, and may come back to a kernel that has gone on."""
    server = serve(**WARM)
    with Kernel(server) as kernel:
        with deaf(kernel) as client:
            client.execute("alive = 42\nline = 'x' * 9999\nfor i in range(5000): print(line)")
            until(lambda: kernel.get()["connections"] == 0, "it was sent away", 120)
        kernel.wait_state("idle")
        assert kernel.run("alive").ok.value == "42"


@pytest.mark.more
def test_who_reads_slowly_gets_it_all(serve):
    server = serve(**WARM)
    with Kernel(server) as kernel, kernel.client() as client:
        header = client.execute("for i in range(100000): print(f'{i:099d}')")
        found = []
        while not found or found[-1].state != "idle":
            m = client.next()
            if m.parent == header["msg_id"]:
                found.append(m)
                time.sleep(0.002 if len(found) < 1000 else 0)
        text = "".join(m.content["text"] for m in found if m.type == "stream" and m.content["name"] == "stdout")
        assert text == "".join(f"{i:099d}\n" for i in range(100000))


# --- a kernel that means harm --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [
    "for i in range(2000): display({'text/plain': 'x' * 5000}, raw=True)",
    "for i in range(100000): display(i)",
    "from IPython.display import clear_output\nfor i in range(20000): clear_output(); print(i)",
    "h = display(0, display_id=True)\nfor i in range(20000): h.update(i)",
    "import sys\nfor i in range(20000): sys.stdout.write('o'); sys.stdout.flush(); sys.stderr.write('e'); sys.stderr.flush()",
], ids=["large displays", "many displays", "clears", "updates", "letters"])
@pytest.mark.more
def test_a_cell_that_says_much(server, code):
    """Its client reads, and gets the reply behind all of it."""
    with Kernel(server) as kernel, kernel.client() as client, Neighbour(server):
        told = client.run(code).ok
        assert told.all[-2].type == "execute_reply"
        if "range(100000)" in code:
            numbers = [int(c["data"]["text/plain"]) for c in told.of("display_data")]
            assert numbers == sorted(set(numbers)) and numbers[-1] == 99999
            assert numbers == list(range(100000)) or "missing" in told.text("stderr"), "nothing is left out without a word"


def test_traffic_that_is_not_what_it_seems(server):
    """A cell that displays what looks like our own messages, and mimes and metadata of all kinds."""
    with Kernel(server) as kernel, kernel.client() as client, kernel.client("text") as other:
        told = client.run("display({'application/x+json': {'msg_type': 'status', 'execution_state': 'dead'}, 'text/plain': '\\n\\n{\"a\": 1}', 'no mime': 5, "
                          "'text/html': ['a', 'b']}, metadata={'x': [None, True, 1e300]}, raw=True)\nprint('{\"channel\": \"shell\"}')").ok
        assert told.states == ["busy", "idle"] and len(told.replies) == 1
        assert other.run("6 * 7").ok.value == "42"


def test_replies_that_are_not_what_they_seem(server):
    """User code may say on the kernel's own channel what it likes: only its own clients hear it, and nothing breaks."""
    code = ("import os, json\nfor fd in range(100, 256):\n"
            "    for kind in (17, 18):\n        for text in (b'{}', b'x', json.dumps({'type': 'status', 'content': {'execution_state': 'dead'}}).encode(), "
            "json.dumps({'type': 'execute_reply', 'content': {'status': 'ok'}}).encode() * 2):\n"
            "            try: os.write(fd, bytes([kind, 0, 0, 0, 0, 0, 0, 0]) + (1).to_bytes(8, 'little') + text)\n            except OSError: pass\n")
    with Kernel(server) as kernel, kernel.client() as client, Neighbour(server):
        header = client.execute(code)
        told = client.told(header)
        assert "dead" not in told.states and told.all[-1].state == "idle"
        for _ in range(3):
            told = client.told(client.execute("6 * 7"))
            if told.reply["status"] == "ok" and told.value == "42":
                return
        pytest.fail("it never came to its senses")
