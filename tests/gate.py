# SPDX-License-Identifier: Apache-2.0
"""A gate in Python: speaks the keeper's operations and a box's frames, also wrongly on request.

Numbers of operations, frames, limits and layers are read from the tables, as the program does.
"""
import array
import collections
import pathlib
import re
import socket
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

REPLY_OK, REPLY_FAILED, EVENT_GONE = 128, 129, 130
EVENT_REFUSED = 133
BOX_HEARD = 2
JOB_FILE, JOB_CELL, JOB_LINK = 1, 2, 3
JOB_STDIN, JOB_ATTENDED, JOB_PROMPT = 2, 1 << 9, 1 << 11
FRAME_MORE, FRAME_END, FRAME_LATE = 1, 2, 1 << 15


def rows(table, macro):
    text = (ROOT / table).read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.findall(rf"^{macro}\((\w+),", text, re.M)


OPS = {name: i + 1 for i, name in enumerate(rows("src/wire/ops.tbl", "OP"))}
FRAMES = {name: i + 1 for i, name in enumerate(rows("src/wire/frames.tbl", "FRAME"))}
FRAME_NAMES = {number: name for name, number in FRAMES.items()}
LAYERS = re.findall(r'^LAYER\(\w+,\s*"([a-z-]+)"', (ROOT / "policy/layers.tbl").read_text(), re.M)
STEPS = rows("policy/plan.tbl", "STEP")

UNITS = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def default_limits():
    """Name and default of each limit, in the order of the table."""
    limits = {}
    text = (ROOT / "policy/limits.tbl").read_text()
    for name, default in re.findall(r'^LIMIT\((\w+),\s*\w+,\s*"[^"]*",\s*\w+,\s*([^,]+),', text, re.M):
        unit = re.match(r"(\w+)\((\d+)\)", default)
        limits[name] = UNITS[unit.group(1)] * int(unit.group(2)) if unit else int(default)
    return limits


def text(s):
    data = s.encode() if isinstance(s, str) else s
    return struct.pack("<I", len(data)) + data


# --- what operations on files say (wire/listing.h, wire/watch.h) ----------------------------------------------

Entry = collections.namedtuple("Entry", "type flags mode size mtime ctime inode path target")
NEW = 1
CHANGES = ("ready", "create", "modify", "attrib", "delete", "move", "overflow")


def etag(entry):
    return f'"{entry.inode:x}-{entry.size:x}-{entry.mtime:x}-{entry.ctime:x}"'


def string_at(data, at):
    n = struct.unpack_from("<I", data, at)[0]
    assert at + 4 + n <= len(data)
    return data[at + 4:at + 4 + n], at + 4 + n


def first_entry(data):
    """The record at the front, and what follows."""
    length = struct.unpack_from("<I", data)[0]
    kind, *fields = struct.unpack_from("<BBIQQQQ", data, 4)
    path, at = string_at(data, 42)
    target, at = string_at(data, at)
    assert at == 4 + length
    return Entry(chr(kind), *fields, path, target), data[at:]


def entries(data):
    found = []
    while data:
        entry, data = first_entry(data)
        found.append(entry)
    return found


def changes(data):
    """[(what, is a directory, path, to)], and the bytes of a record that is not complete."""
    found = []
    while len(data) >= 4 and len(data) >= 4 + struct.unpack_from("<I", data)[0]:
        path, at = string_at(data, 6)
        to, at = string_at(data, at)
        assert at == 4 + struct.unpack_from("<I", data)[0]
        found.append((CHANGES[data[4]], bool(data[5]), path, to))
        data = data[at:]
    return found, data


class Failed(Exception):
    """The keeper's FAILED: (kind, errno, text, hint)."""


class Gone(Exception):
    """The peer closed the connection."""


class Keeper:
    """A keeper of our own, and the gate's end of its channel."""

    def __init__(self, glovebox, *args, hello=True, uid=None, **popen):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The channel is descriptor 3: a shell does what subprocess cannot.
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec 3<&{theirs.fileno()} {theirs.fileno()}<&- "$0" keeper "$@"',
             str(glovebox), *args],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
            **({} if uid is None else {"user": uid, "group": uid, "extra_groups": []}), **popen)
        theirs.close()
        self.socket = ours
        self.socket.settimeout(30)
        self.request = 0
        self.events = []
        self.refused = False  # EVENT_REFUSED came
        if hello:
            self.call("HELLO", struct.pack("<II", 1, 1))

    def send(self, op, body=b"", fds=(), request=None):
        number = OPS[op] if isinstance(op, str) else op
        if request is None:
            self.request += 1
            request = self.request
        header = struct.pack("<HHIQ", number, 0, 0, request)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([header + body], rights)

    def receive(self):
        data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(16 * 4))
        if not data:
            raise Gone
        fds = array.array("i")
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(content[:len(content) - len(content) % 4])
        kind, _, _, request = struct.unpack_from("<HHIQ", data)
        return kind, request, data[16:], list(fds)

    def call(self, op, body=b""):
        """Body and descriptors of the answer. Events are kept in self.events."""
        self.send(op, body)
        wanted = self.request
        while True:
            kind, request, data, fds = self.receive()
            if kind == EVENT_GONE:
                self.events.append(data)
            elif kind == EVENT_REFUSED:
                self.refused = True
            elif kind == REPLY_FAILED:
                code, error, n = struct.unpack_from("<III", data)
                raise Failed(code, error, data[12:12 + n].decode(), request)
            else:
                assert (kind, request) == (REPLY_OK, wanted)
                return data, fds

    def wait_event(self):
        while not self.events:
            kind, _, data, _ = self.receive()
            assert kind in (EVENT_GONE, EVENT_REFUSED)
            if kind == EVENT_GONE:
                self.events.append(data)
            else:
                self.refused = True
        box, why = struct.unpack_from("<QI", self.events[0])
        return box, why, struct.unpack_from("<6Q", self.events.pop(0)[12:])

    def refusals(self):
        """(box, number of a system call), as they were heard."""
        self.refused = False
        return list(struct.iter_unpack("<QI", self.call("REFUSALS")[0]))

    def new_box(self, flags=0, waived=(), mounts=(), image=0, environment=0, **limits):
        values = {**default_limits(), **limits}
        body = struct.pack("<IQH", flags, sum(1 << LAYERS.index(w) for w in waived), len(values))
        body += struct.pack(f"<{len(values)}Q", *values.values())
        body += struct.pack("<IIH", image, environment, len(mounts))
        for root, read_only, path, at in mounts:
            body += struct.pack("<HB", root, read_only) + text(path) + text(at)
        data, fds = self.call("BOX_NEW", body)
        box, layers, _ = struct.unpack_from("<QQQ", data)
        return Box(self, box, fds[0], [name for i, name in enumerate(LAYERS) if layers >> i & 1])

    def stop(self):
        self.socket.close()
        self.process.wait(30)


class Box:
    """A box and the stream to its init."""

    def __init__(self, keeper, number, fd, layers):
        self.keeper, self.number, self.layers = keeper, number, layers
        self.last_job = 1_000_000  # of those that are numbered here
        self.attach_fd(fd)

    def attach_fd(self, fd, hello=True):
        self.stream = socket.socket(fileno=fd)
        self.stream.settimeout(30)
        self.buffer = b""
        self.kept = {}
        if hello:
            self.send("HELLO", body=struct.pack("<IIQ", 2, 2, 0))
            assert self.receive().name == "HELLO"

    def attach(self, hello=True):
        """As a new gate does."""
        _, fds = self.keeper.call("BOX_ATTACH", struct.pack("<Q", self.number))
        self.stream.close()
        self.attach_fd(fds[0], hello)

    def end(self):
        """(wall us, cpu us, peak bytes, limit bytes, oom kills, has)"""
        data, _ = self.keeper.call("BOX_END", struct.pack("<Q", self.number))
        self.stream.close()
        return struct.unpack("<6Q", data)

    def send(self, kind, job=0, number=0, flags=0, body=b""):
        number_of_kind = FRAMES[kind] if isinstance(kind, str) else kind
        self.stream.sendall(struct.pack("<IHHQQ", len(body), number_of_kind, flags, job, number) + body)

    def receive(self):
        while len(self.buffer) < 24 or len(self.buffer) < 24 + struct.unpack_from("<I", self.buffer)[0]:
            try:
                data = self.stream.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Gone
            self.buffer += data
        length, kind, flags, job, number = struct.unpack_from("<IHHQQ", self.buffer)
        frame = Frame(FRAME_NAMES[kind], flags, job, number, self.buffer[24:24 + length])
        self.buffer = self.buffer[24 + length:]
        return frame

    def run(self, job, *argv, kind=0, flags=0, timeout_us=0, output_max=0, cwd="/workspace", env=(), rows=0, cols=0):
        body = struct.pack("<BIQQQQQHH", kind, flags, timeout_us, output_max, 0, 0, 0, rows, cols)
        body += text(cwd) + struct.pack("<HH", len(argv), len(env))
        body += b"".join(map(text, argv)) + b"".join(map(text, env))
        self.send("RUN", job, body=body)

    def next(self, job, refused=True):
        """The next frame of a job; what comes for others is kept for them. REFUSED is raised, unless told otherwise."""
        waiting = self.kept.get(job)
        frame = waiting.pop(0) if waiting else self.receive()
        while frame.job != job:
            self.kept.setdefault(frame.job, []).append(frame)
            frame = self.receive()
        if frame.name == "REFUSED" and refused:
            raise Failed(struct.unpack_from("<I", frame.body)[0], frame.body[8:].decode())
        return frame

    def wait_for(self, job, *names):
        """The next such frame of a job; others of that job are left out."""
        while True:
            frame = self.next(job)
            if frame.name in names:
                return frame

    def go(self, job, body=b"{}", timeout_us=0, output_max=0):
        self.send("GO", job, body=struct.pack("<QQ", timeout_us, output_max) + body)

    def cell(self, job, kernel, request, flags=0, timeout_us=0, output_max=0):
        """Starts a cell, and sends its request as fast as it is taken."""
        self.run(job, str(kernel), kind=JOB_CELL, flags=JOB_STDIN | flags, timeout_us=timeout_us, output_max=output_max)
        sent, taken, others = 0, 0, []
        while sent < len(request):
            part = request[sent:min(sent + 32768, taken + 65536)]
            if part:
                self.send("INPUT", job, sent, body=part)
                sent += len(part)
                continue
            frame = self.next(job)
            if frame.name == "INPUT_ACK":
                taken = frame.number
            else:
                others.append(frame)
        self.send("INPUT_END", job, sent)
        self.kept[job] = others + self.kept.get(job, [])

    def file(self, op, path, *words, data=None, flags=0, cwd="/workspace", env=()):
        """(stdout, stderr, Exit) of an operation on files. It may end before it has taken all of its data."""
        self.last_job += 1
        job, sent, taken, started = self.last_job, 0, 0, False
        self.run(job, op, path, *words, kind=JOB_FILE, flags=flags | (JOB_STDIN if data is not None else 0), cwd=cwd, env=env)
        out = {1: b"", 2: b""}
        while True:
            while data is not None and sent < len(data) and sent < taken + 65536:
                part = data[sent:min(sent + 32768, taken + 65536)]
                self.send("INPUT", job, sent, body=part)
                sent += len(part)
            if data is not None and sent == len(data):
                self.send("INPUT_END", job, sent)
                data = None
            frame = self.next(job, refused=not started)
            started = started or frame.name == "STARTED"
            if frame.name == "INPUT_ACK":
                taken = frame.number
            elif frame.name == "OUTPUT":
                self.send("ACK", job, frame.number)
                out[frame.flags] += frame.body
            elif frame.name == "EXIT":
                self.send("ACK", job, frame.number)
                return out[1], out[2], Exit(frame.body)

    def until_cell(self, job, ack=True):
        """Cell: everything of it up to its EXIT."""
        cell = Cell()
        while cell.exit is None:
            frame = self.next(job)
            if frame.name == "INPUT_ACK":
                continue
            if ack:
                self.send("ACK", job, frame.number)
            cell.take(frame)
        return cell

    def until_exit(self, job, ack=True):
        """(stdout, stderr, Exit) of a job."""
        out = {1: b"", 2: b""}
        while True:
            frame = self.next(job)
            if frame.name in ("INPUT_ACK", "STARTED", "READY"):
                continue
            if ack:
                self.send("ACK", job, frame.number)
            if frame.name == "OUTPUT":
                out[frame.flags] += frame.body
            elif frame.name != "MESSAGE":
                assert frame.name == "EXIT"
                return out[1], out[2], Exit(frame.body)


class Frame:
    def __init__(self, name, flags, job, number, body):
        self.name, self.flags, self.job, self.number, self.body = name, flags, job, number, body

    def __repr__(self):
        return f"Frame({self.name}, flags={self.flags}, job={self.job}, number={self.number}, {self.body[:40]!r})"


class Cell:
    """What was said of a cell: events are ("out" or "err", bytes), ("message", bytes), ("end", bytes), in order."""

    def __init__(self):
        self.events, self.parts, self.exit, self.first, self.last = [], {}, None, None, 0

    def take(self, frame):
        self.first = self.first or frame.number
        assert frame.number == self.last + 1 or frame.number == self.first, f"{frame} behind {self.last}"
        assert bool(frame.flags & FRAME_LATE) == (self.exit is not None), frame
        self.last = frame.number
        if frame.name == "OUTPUT":
            name = ("out", "err")[(frame.flags & ~FRAME_LATE) - 1]
            if self.events and self.events[-1][0] == name:
                self.events[-1] = (name, self.events[-1][1] + frame.body)
            else:
                self.events.append((name, frame.body))
        elif frame.name == "MESSAGE":
            end = frame.flags & FRAME_END
            whole = self.parts.pop(end, b"") + frame.body
            if frame.flags & FRAME_MORE:
                self.parts[end] = whole
            else:
                self.events.append(("end" if end else "message", whole))
        elif frame.name == "EXIT":
            self.exit = Exit(frame.body)
        else:
            assert frame.name == "STARTED", frame

    def of(self, kind):
        return b"".join(data for name, data in self.events if name == kind)

    @property
    def out(self):
        return self.of("out")

    @property
    def end(self):
        return self.of("end")


class Exit:
    def __init__(self, body):
        (self.how, self.code, self.flags, self.wall_us, self.user_us, self.sys_us, self.max_rss, self.stdout_bytes,
         self.stderr_bytes, n) = struct.unpack_from("<BIIQQQQQQI", body)
        self.stage = body[61:61 + n].decode()
