# SPDX-License-Identifier: Apache-2.0
"""A plain client of Jupyter's dialect, written from the protocol: kernels over REST, channels in every framing.

    text     legacy: JSON in text frames; with buffers a binary frame
    binary   legacy: every message in a binary frame, also without buffers
    v1       the subprotocol v1.kernel.websocket.jupyter.org

Whatever it receives is checked: frames, headers, ids that come once.
"""
import base64
import collections
import contextlib
import datetime
import hashlib
import json
import os
import re
import struct
import time
import uuid

from server import WAIT_S, until

V1 = "v1.kernel.websocket.jupyter.org"
FRAMINGS = ("text", "binary", "v1")
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MIB = 1 << 20
CHANNELS = ("shell", "control", "iopub", "stdin")
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
STATES = {"starting", "idle", "busy", "restarting", "dead"}
KERNEL_KEYS = {"id", "name", "last_activity", "execution_state", "connections"}


def date_of(text):
    assert DATE.fullmatch(text), text
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# --- WebSocket -------------------------------------------------------------------------------------------------


class Closed(Exception):
    """The server said goodbye, or just went: code None."""

    def __init__(self, code, reason):
        super().__init__(code, reason)
        self.code, self.reason = code, reason


class WebSocket:
    """Frames, also those that none should send. Pings are answered."""

    def __init__(self, server, path, headers=(), protocol=None, timeout=WAIT_S):
        self.socket = server.connect(timeout)
        self.buffer, self.pongs, self.unanswered = bytearray(), [], 0
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {server.authority}", "Connection: Upgrade", "Upgrade: websocket",
                 "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *headers]
        lines += [f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []
        try:
            self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
            self.head = self.read_head()
            self.status = int(self.head.split(b" ")[1])
            self.given = dict(line.lower().split(": ", 1) for line in self.head.decode().split("\r\n")[1:])
            if self.status == 101:
                want = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
                assert self.given["sec-websocket-accept"] == base64.b64encode(want).decode().lower()
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        return head

    def body(self):
        """What was answered instead of an upgrade, as JSON."""
        return json.loads(bytes(self.take(int(self.given["content-length"]))))

    def fill(self):
        try:
            data = self.socket.recv(MIB)
        except ConnectionError as e:
            raise Closed(None, str(e)) from e
        if not data:
            raise Closed(None, "the end")
        self.buffer += data

    def need(self, n):
        while len(self.buffer) < n:
            self.fill()

    def take(self, n):
        self.need(n)
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def send(self, opcode, payload=b"", masked=True, first=0x80):
        n = len(payload)
        head = bytes([first | opcode, (0x80 if masked else 0) | (n if n < 126 else 126 if n < 65536 else 127)])
        head += b"" if n < 126 else struct.pack(">H" if n < 65536 else ">Q", n)
        mask = os.urandom(4) if n < 65536 else bytes(4)
        if masked and n < 65536:
            payload = bytes(b ^ mask[i % 4] for i, b in enumerate(payload))
        self.socket.sendall(head + (mask if masked else b"") + payload)

    def frame(self):
        """(opcode, whether it is the last of its message, payload). Whole or not at all: who was timed out may come again."""
        self.need(2)
        first, n = self.buffer[:2]
        assert not n & 0x80, "a server does not mask"
        assert not first & 0x70, "no extension was asked for"
        head = 2 + (0 if n < 126 else 2 if n == 126 else 8)
        self.need(head)
        if n >= 126:
            n = int.from_bytes(self.buffer[2:head], "big")
        self.need(head + n)
        return first & 15, bool(first & 0x80), self.take(head + n)[head:]

    def receive(self):
        """(opcode, payload) of the next message; pings do not make the time longer in which it must come."""
        kind, parts = None, []
        deadline = time.monotonic() + (self.socket.gettimeout() or WAIT_S)
        while True:
            opcode, last, payload = self.frame()
            if time.monotonic() > deadline:
                raise TimeoutError("no message came, only pings")
            if opcode == PING:
                self.send(PONG, payload)
            elif opcode == PONG:
                self.pongs.append(payload)
            elif opcode == CLOSE:
                code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else None
                raise Closed(code, payload[2:].decode())
            else:
                assert (opcode == CONTINUATION) == (kind is not None)
                kind = kind or opcode
                parts.append(payload)
                if last:
                    return kind, b"".join(parts)

    def close_code(self):
        """Of the server's goodbye, whatever comes before it."""
        try:
            while True:
                self.receive()
        except Closed as e:
            return e.code

    def leave(self, code=1000):
        """Properly; the code that comes back."""
        self.send(CLOSE, struct.pack(">H", code))
        return self.close_code()

    def goes_away(self):
        """Without a word."""
        self.socket.close()


# --- messages ----------------------------------------------------------------------------------------------------


class Message:
    def __init__(self, channel, header, parent_header, metadata, content, buffers):
        self.channel, self.header, self.parent_header = channel, header, parent_header
        self.metadata, self.content, self.buffers = metadata, content, buffers

    @property
    def type(self):
        return self.header["msg_type"]

    @property
    def parent(self):
        """msg_id of what it answers."""
        return self.parent_header.get("msg_id")

    @property
    def state(self):
        return self.content["execution_state"] if self.type == "status" else None

    def __repr__(self):
        return f"Message({self.channel}, {self.type}, {str(self.content)[:200]}, to {self.parent})"

    def whole(self):
        """As jupyter_client has it."""
        return {"header": self.header, "msg_id": self.header["msg_id"], "msg_type": self.type, "parent_header": self.parent_header,
                "metadata": self.metadata, "content": self.content, "buffers": self.buffers}


def table(parts, word, order, ends):
    """Offsets in front of parts: where each begins, and with ends where the last one ends."""
    count = len(parts) + ends
    at, offsets = (1 + count) * (8 if word == "Q" else 4), []
    for part in parts:
        offsets.append(at)
        at += len(part)
    return struct.pack(f"{order}{1 + count}{word}", count, *offsets, *([at] if ends else [])) + b"".join(parts)


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def legacy_object(m, buffers=()):
    return {"header": m.header, "msg_id": m.header.get("msg_id"), "msg_type": m.header.get("msg_type"), "parent_header": m.parent_header,
            "metadata": m.metadata, "content": m.content, "buffers": list(buffers), "channel": m.channel}


def encode(framing, m):
    """(opcode, payload)"""
    if framing == "v1":
        parts = [m.channel.encode(), *map(dumps, (m.header, m.parent_header, m.metadata, m.content)), *m.buffers]
        return BINARY, table(parts, "Q", "<", 1)
    if framing == "binary" or m.buffers:
        return BINARY, table([dumps(legacy_object(m)), *m.buffers], "I", ">", 0)
    return TEXT, dumps(legacy_object(m))


def cut(payload, word, order, ends):
    """The parts behind a table, which must be sound."""
    size = 8 if word == "Q" else 4
    (count,) = struct.unpack_from(order + word, payload)
    offsets = list(struct.unpack_from(f"{order}{count}{word}", payload, size)) + ([] if ends else [len(payload)])
    assert offsets[0] == (1 + count) * size and offsets[-1] == len(payload) and offsets == sorted(offsets), offsets
    return [payload[a:b] for a, b in zip(offsets, offsets[1:])]


def decode(framing, opcode, payload):
    if framing == "v1":
        assert opcode == BINARY
        channel, header, parent, metadata, content, *buffers = cut(payload, "Q", "<", True)
        return Message(channel.decode(), *map(json.loads, (header, parent, metadata, content)), buffers)
    buffers = []
    if opcode == BINARY:
        payload, *buffers = cut(payload, "I", ">", False)
        assert buffers, "a message without buffers is text"
    m = json.loads(payload)
    assert m["msg_id"] == m["header"]["msg_id"] and m["msg_type"] == m["header"]["msg_type"], "beside the header, too"
    assert isinstance(m["buffers"], list), m["buffers"]
    return Message(m["channel"], m["header"], m["parent_header"], m["metadata"], m["content"], buffers)


def checked(m):
    assert m.channel in CHANNELS, m.channel
    for value in (m.header, m.parent_header, m.metadata, m.content):
        assert isinstance(value, dict), m.whole()
    assert {"msg_id", "msg_type", "session", "username", "date", "version"} <= set(m.header), m.header
    assert all(isinstance(m.header[key], str) for key in ("msg_id", "msg_type", "session", "username", "version")), m.header
    assert m.header["version"] == "5.3"
    date_of(m.header["date"])
    if m.type == "status":
        assert m.channel == "iopub" and m.state in STATES, m
    if m.type.endswith("_reply"):
        assert m.channel in ("shell", "control") and m.content["status"] in ("ok", "error", "aborted") or m.type == "is_complete_reply", m
        assert m.parent, "a reply is to something"
    return m


# --- what a request was answered -----------------------------------------------------------------------------------


class Told:
    """Every message that answers one request, in order."""

    def __init__(self, messages):
        self.all = messages

    @property
    def types(self):
        return [m.type for m in self.all]

    @property
    def replies(self):
        return [m for m in self.all if m.channel in ("shell", "control")]

    @property
    def reply(self):
        """Its content."""
        (m,) = self.replies
        return m.content

    @property
    def ok(self):
        assert self.reply["status"] == "ok", self.reply
        return self

    def of(self, kind):
        return [m.content for m in self.all if m.type == kind]

    def text(self, name="stdout"):
        return "".join(c["text"] for c in self.of("stream") if c["name"] == name)

    @property
    def value(self):
        """text/plain of its result."""
        found = self.of("execute_result")
        assert len(found) < 2
        return found[0]["data"]["text/plain"] if found else None

    @property
    def states(self):
        return [m.state for m in self.all if m.type == "status"]

    @property
    def brief(self):
        """Types, several of a stream in a row as one; status by its state."""
        found = []
        for m in self.all:
            name = m.state or m.type
            if m.type != "stream" or found[-1:] != ["stream"]:
                found.append(name)
        return found

    def check(self):
        """busy first, one reply if it was a request, idle last."""
        assert self.states[0] == "busy" and self.all[0].state == "busy", self.brief
        assert self.states == ["busy", "idle"] and self.all[-1].state == "idle", self.brief
        assert len(self.replies) < 2, self.brief
        return self


def shown(messages):
    """What a notebook shows of one cell's messages: streams as one text each, in order, and clear_output honoured."""
    out, clear = [], False
    for m in messages:
        if m.type == "clear_output":
            clear = m.content["wait"]
            out = out if clear else []
            continue
        if m.type not in ("stream", "display_data", "execute_result", "error"):
            continue
        if clear:
            out, clear = [], False
        if m.type == "stream":
            name, text = m.content["name"], m.content["text"]
            if out and out[-1][0] == name:
                out[-1] = (name, out[-1][1] + text)
            else:
                out.append((name, text))
        else:
            out.append((m.type, m.content))
    return out


# --- channels --------------------------------------------------------------------------------------------------------


class Client(WebSocket):
    """A kernel's channels."""

    def __init__(self, kernel, framing="v1", session_id=None, headers=(), timeout=WAIT_S, query=None, **header):
        self.framing, self.kernel, self.more = framing, kernel, header
        self.session = session_id if session_id is not None else uuid.uuid4().hex
        query = query if query is not None else f"?session_id={self.session}" if self.session else ""
        given = [f"{key}: {value}" for key, value in kernel.headers.items()]
        super().__init__(kernel.server, f"{kernel.path}/channels{query}", [*given, *headers], V1 if framing == "v1" else None, timeout)
        self.kept, self.seen = [], set()
        if self.status == 101:
            assert self.given.get("sec-websocket-protocol") == (V1 if framing == "v1" else None)

    def header(self, kind, **more):
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        return {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": self.session, "username": "tester", "date": now,
                "version": "5.3", **self.more, **more}

    def say(self, kind, content=None, channel="shell", buffers=(), metadata=None, parent=None, header=None):
        """Sends it; its header."""
        header = header or self.header(kind)
        m = Message(channel, header, parent or {}, metadata or {}, content or {}, list(buffers))
        self.send(*encode(self.framing, m))
        return header

    def execute(self, code, **fields):
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True,
                   "stop_on_error": True, **fields}
        return self.say("execute_request", content)

    def fresh(self):
        """The next message that comes."""
        m = checked(decode(self.framing, *self.receive()))
        assert m.header["msg_id"] not in self.seen, "every message has an id of its own"
        self.seen.add(m.header["msg_id"])
        return m

    def next(self):
        return self.kept.pop(0) if self.kept else self.fresh()

    def until(self, wanted):
        """The first message that is wanted; what comes before it is kept."""
        for i, m in enumerate(self.kept):
            if wanted(m):
                return self.kept.pop(i)
        while True:
            m = self.fresh()
            if wanted(m):
                return m
            self.kept.append(m)

    def until_state(self, state, parent=None):
        return self.until(lambda m: m.state == state and m.parent == parent)

    def told(self, header):
        """Told: what a request is answered, up to idle; what belongs to others is kept."""
        number, found, others = header["msg_id"], [], []
        while not found or found[-1].state != "idle":
            m = self.next()
            (found if m.parent == number else others).append(m)
        self.kept = others + self.kept
        if header["msg_type"].endswith("_request"):
            for m in found:
                same = {key: m.parent_header.get(key) for key in header}
                assert same == header, "parent_header is the header of the request"
        return Told(found)

    def ask(self, kind, content=None, channel="shell", **more):
        return self.told(self.say(kind, content, channel, **more)).check()

    def run(self, code, **fields):
        return self.told(self.execute(code, **fields)).check()

    def value(self, code):
        return self.run(code).ok.value

    def printed(self, code):
        return self.run(code).ok.text()

    def answer(self, asked, value):
        """What input() is told."""
        return self.say("input_reply", {"value": value, "status": "ok"}, "stdin", parent=asked.header)

    def asked(self, header):
        return self.until(lambda m: m.type == "input_request" and m.parent == header["msg_id"])

    def hold(self, then="", **fields):
        """A cell that waits in input(), and goes on with `then`: (its header, the question)."""
        header = self.execute(f"input('held')\n{then}", **fields)
        return header, self.asked(header)

    def begin(self, code, **fields):
        """A cell that has printed `up`."""
        header = self.execute("print('up', flush=True)\n" + code, **fields)
        self.until(lambda m: m.type == "stream" and m.parent == header["msg_id"] and "up" in m.content["text"])
        return header

    def quiet(self):
        """Nothing is on its way to us but what was kept: a question and its answer are all that comes."""
        header = self.say("kernel_info_request", channel="control")
        return self.told(header).check()

    def left(self):
        """What has come and nobody took, once all of it is here."""
        self.quiet()
        kept, self.kept = self.kept, []
        return kept


# --- kernels ---------------------------------------------------------------------------------------------------------


class Kernel:
    """A kernel in a box of its own, ended with the block."""

    def __init__(self, server, body=None, headers=None, query="", base=""):
        self.server, self.headers, self.query, self.base, self.id = server, headers or {}, query, base, None
        before = self.boxes()
        status, given, data = server.request("POST", f"{base}/api/kernels{query}", body, self.headers)
        assert status == 201, (status, data)
        self.model = check_model(json.loads(data))
        self.id, self.location = self.model["id"], given["Location"]
        self.box = (self.boxes() - before or {None}).pop()
        self.path = f"{base}/api/kernels/{self.id}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call("DELETE")

    def boxes(self):
        status, answer = self.server.call("GET", "/v1/boxes?limit=500", headers=self.headers)
        return {box["id"] for box in answer["boxes"]} if status == 200 else set()

    def call(self, method, tail="", body=None):
        return self.server.call(method, f"{self.path}{tail}{self.query}", body, self.headers)

    def get(self):
        status, model = self.call("GET")
        assert status == 200, (status, model)
        return check_model(model)

    @property
    def state(self):
        return self.get()["execution_state"]

    def wait_state(self, *states):
        until(lambda: self.state in states, f"state {states}")

    def wait_alone(self):
        """Until the server knows that nobody is connected."""
        until(lambda: self.get()["connections"] == 0, "no connections")

    def interrupt(self):
        return self.call("POST", "/interrupt")

    def restart(self):
        return self.call("POST", "/restart")

    def shell(self, line):
        """A command in its box, beside the kernel: what it prints."""
        status, answer = self.server.call("POST", f"/v1/boxes/{self.box}/commands", {"shell": line}, self.headers)
        assert status == 200 and answer["status"] == "ok", (status, answer)
        return answer["stdout"]

    def touch(self, name):
        self.shell(f"touch {name}")

    def client(self, framing="v1", **more):
        return Client(self, framing, **more)

    def run(self, code, framing="v1"):
        with self.client(framing) as client:
            return client.run(code)


def check_model(model):
    assert KERNEL_KEYS <= set(model), model
    assert UUID.fullmatch(model["id"]) and model["name"] and model["execution_state"] in STATES, model
    assert isinstance(model["connections"], int) and model["last_activity"].endswith("Z"), model
    date_of(model["last_activity"])
    return model


def refusal(answer, status, *contains):
    """(status, JSON) is an error as Jupyter has them."""
    assert answer[0] == status, answer
    assert {"reason", "message"} <= set(answer[1]) and answer[1]["message"], answer
    for text in contains:
        assert text in answer[1]["message"], answer
    return answer[1]


# A cell that waits until a file is there; the file is made by a command of the box.
WAIT_FOR = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.01)\n"


@contextlib.contextmanager
def all_closed(clients):
    try:
        yield clients
    finally:
        for client in clients:
            client.socket.close()


def count(messages):
    """How often each type is there; status by its state."""
    return collections.Counter(m.state or m.type for m in messages)
