# SPDX-License-Identifier: Apache-2.0
"""Files of a box, as clients of the own API have them: read, written, listed, packed and watched.

Where the contract leaves something open, the reading that all tests take is written down here, at the line that needs it.
"""
import contextlib
import io
import json
import re
import socket
import tarfile
import urllib.parse

from server import Stream, multipart, until
from test_boxes import TIME, Box, refused

MIB = 1 << 20
ENTRY = {"path", "type", "size", "mode", "mtime", "target"}
TYPES = {"file", "directory", "symlink", "other"}
ETAG = re.compile(r'"[^"\\\x00-\x20\x7f-\xff]+"')
BYTES = {"Content-Type": "application/octet-stream"}


def quoted(path):
    """As a client writes a path into a target: slashes separate, everything else that is not plain is encoded."""
    return urllib.parse.quote(path, safe="/")


class Reply:
    """One answer, whole."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"Reply({self.status}, {self.body[:300]!r})"

    def json(self):
        assert self.headers.get_content_type() == "application/json", self
        return json.loads(self.body)

    def ok(self, *statuses):
        assert self.status in (statuses or (200,)), self
        return self

    def entry(self, *statuses):
        """What it says of one file."""
        return checked(self.ok(*statuses).json())

    def refused(self, status, code, naming=None):
        """Its error, which must be this one, complete, and speak of that."""
        error = refused((self.status, self.json()), status, code)
        assert naming is None or naming in json.dumps(error, ensure_ascii=False), error
        return error


def checked(entry):
    assert ENTRY <= set(entry), entry
    assert entry["type"] in TYPES and isinstance(entry["path"], str) and isinstance(entry["size"], int), entry
    assert re.fullmatch(r"[0-7]{4}", entry["mode"]) and TIME.fullmatch(entry["mtime"]), entry
    assert (entry["target"] is None) == (entry["type"] != "symlink"), entry
    return entry


class Filed(Box):
    """A box, of which the files are wanted."""

    def __init__(self, server, headers=None, **fields):
        super().__init__(server, headers, **fields)
        self.out("true")  # its init is what it will be: one that becomes it later looks like a leak of the test that runs then

    def target(self, tail, query):
        return f"{self.path}/{tail}" + (f"?{urllib.parse.urlencode(query, quote_via=urllib.parse.quote, safe='/')}" if query else "")

    def ask(self, method, tail, body=None, headers=None, query=None):
        headers = {**(self.headers or {}), **(BYTES if body is not None else {}), **(headers or {})}
        return Reply(*self.server.request(method, self.target(tail, query), body, headers))

    def file(self, path, **query):
        """Where a file is. The path may be bytes."""
        return self.target(f"files/{quoted(path)}", query)

    def read(self, path, headers=None, method="GET", **query):
        return self.ask(method, f"files/{quoted(path)}", None, headers, query)

    def bytes(self, path, **query):
        return self.read(path, **query).ok().body

    def write(self, path, content, headers=None, **query):
        return self.ask("PUT", f"files/{quoted(path)}", content, headers, query)

    def post(self, path, **query):
        return self.ask("POST", f"files/{quoted(path)}", None, None, query)

    def form(self, path, parts, boundary="----between-the-parts"):
        kind, body = multipart(parts, boundary)
        return self.ask("POST", "files" if path is None else f"files/{quoted(path)}", body, {"Content-Type": kind})

    def stat(self, path, **query):
        return self.read(path, stat=1, **query)

    def remove(self, path, **query):
        return self.ask("DELETE", f"files/{quoted(path)}", None, None, query)

    def mkdir(self, path, **query):
        return self.post(path, op="mkdir", **query)

    def move(self, path, to, **query):
        return self.post(path, op="move", to=to, **query)

    def list(self, **query):
        """One call. Here `path` is a parameter, which may be left out."""
        return self.ask("GET", "files", query=query)

    def page(self, **query):
        """(entries, next) of one call."""
        said = self.list(**query).ok().json()
        assert set(said) == {"entries", "next"}, said
        return [checked(e) for e in said["entries"]], said["next"]

    def entries(self, **query):
        """Those of all pages."""
        found, following = self.page(**query)
        while following is not None:
            more, following = self.page(**{**query, "after": following})
            assert more, "there were said to be more"
            found += more
        return found

    def names(self, **query):
        return [e["path"] for e in self.entries(**query)]

    def pack(self, **query):
        return self.ask("GET", "archive", query=query)

    def unpack(self, data, headers=None, **query):
        return self.ask("PUT", "archive", data, {"Content-Type": "application/x-tar", **(headers or {})}, query)

    def watch(self, **query):
        return Watch(self, **query)

    def python(self, code):
        """What a Python program in it prints."""
        status, answer = self.call(argv=["/usr/bin/python3", "-c", code])
        assert status == 200 and answer["status"] == "ok", answer
        return answer["stdout"]

    def tree(self, top="."):
        """{path: kind or content} of everything there, as a program in the box sees it. Files that are large are a number."""
        return json.loads(self.python(TREE % (top,)))


TREE = """
import json, os, stat
def look(path):
    s = os.lstat(path)
    if stat.S_ISLNK(s.st_mode): return "-> " + os.readlink(path)
    if stat.S_ISDIR(s.st_mode): return "directory"
    if not stat.S_ISREG(s.st_mode): return "special"
    if not os.access(path, os.R_OK): return "unreadable"
    return open(path, errors="replace").read() if s.st_size < 4096 else s.st_size
top = %r
print(json.dumps({os.path.relpath(os.path.join(at, n), top): look(os.path.join(at, n)) for at, d, f in os.walk(top) for n in d + f}))
"""


# --- bytes on the wire ---------------------------------------------------------------------------------------


def head(box, method, target, *lines):
    """The head of a request in bytes, and nothing behind it."""
    more = "".join(f"{line}\r\n" for line in (*lines, *(f"{k}: {v}" for k, v in (box.headers or {}).items())))
    target = target if isinstance(target, bytes) else target.encode()
    return b"%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (method.encode(), target, box.server.authority.encode(), more.encode())


def raw(box, method, target, body=None, timeout=60):
    """The answer to a target of these very bytes."""
    with box.server.wire(timeout) as wire:
        lines = [] if body is None else [f"Content-Length: {len(body)}", "Content-Type: application/octet-stream"]
        wire.send(head(box, method, target, *lines) + (body or b""))
        return wire.response(has_body=method != "HEAD")


def begin(box, target, size=MIB, sent=300_000, method="PUT", lines=("Content-Type: application/octet-stream",)):
    """A connection with a request whose body is not all there."""
    wire = box.server.wire()
    wire.send(head(box, method, target, f"Content-Length: {size}", *lines) + b"x" * sent)
    return wire


def quiet(server, before):
    """Until the server has no more processes than that: whatever ran in its boxes for a call is gone."""
    until(lambda: len(server.tree()) <= before, "the job of the call has ended")


@contextlib.contextmanager
def nothing_stays(box):
    """Whatever happens meanwhile: its job ends, and the workspace is as it was, hidden files included."""
    processes, files = len(box.server.tree()), box.tree()
    yield
    quiet(box.server, processes)
    assert box.tree() == files


# --- events --------------------------------------------------------------------------------------------------


class Watch(Stream):
    """GET …/watch; ready when it is made. Reading: `ready` is the first event, and everything that happens behind it is told."""

    def __init__(self, box, headers=None, ready=True, receive=None, **query):
        server = box.server
        self.connection, self.answer = server.connection(), None
        if receive:
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket = self.connection.sock
        try:
            self.answer = server.send(self.connection, "GET", box.target("watch", query), None, {**(box.headers or {}), **(headers or {})})
            self.status, self.headers = self.answer.status, self.answer.headers
            if ready:
                assert self.status == 200 and self.headers.get_content_type() == "text/event-stream", (self.status, self.read())
                first = self.next()
                assert first.name == "ready", first
        except BaseException:
            self.close()
            raise

    def until(self, name, path):
        """All events up to this one."""
        found = []
        for event in self:
            found.append(event)
            if (event.name, event.data.get("path")) == (name, path):
                return found
        raise AssertionError(f"the stream ended without {name} of {path}: {found}")


def told(events):
    """[(name, path), …], and for a move (name, path, to). `overflow` has no path."""
    return [(e.name, e.data.get("path", "")) + ((e.data["to"],) if e.name == "move" else ()) for e in events]


# --- archives ------------------------------------------------------------------------------------------------


def member(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644, **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, link, mode, len(data) if kind == tarfile.REGTYPE else 0
    info.mtime = 1_600_000_000
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def directory(name, mode=0o755):
    return member(name, kind=tarfile.DIRTYPE, mode=mode)


def symlink(name, to):
    return member(name, kind=tarfile.SYMTYPE, link=to, mode=0o777)


def hard_link(name, to):
    return member(name, kind=tarfile.LNKTYPE, link=to)


def tar(*members, how="w", shape=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=how, format=shape) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def contents(data):
    """{name: kind or content} of an archive, as Python reads it."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as archive:
        for info in archive:
            name = info.name.removeprefix("./").rstrip("/")
            assert name not in found, f"{name} is there twice"
            found[name] = (archive.extractfile(info).read() if info.isreg() or info.islnk() else "directory" if info.isdir()
                           else f"-> {info.linkname}" if info.issym() else "special")
    return found
