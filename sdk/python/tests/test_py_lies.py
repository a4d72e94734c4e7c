# SPDX-License-Identifier: Apache-2.0
"""Servers that lie, or are something else: each gets a clear exception, in bounded time and memory. And what is said never acts on a terminal."""
import contextlib
import json
import socket
import threading

import httpx
import pytest
from pysdk import both

import glovebox

BOX_ID = "abcd" + "2" * 22
LIMITS = {"memory_bytes": 1, "cpus": 1.0, "cpu_seconds": 0, "processes": 1, "output_bytes": 1, "file_bytes": 0, "workspace_bytes": 1, "workspace_inodes": 1,
          "open_files": 1, "scratch_bytes": 1, "shm_bytes": 1}
BOX = {"id": BOX_ID, "name": None, "state": "ready", "environment": "default", "backend": "native", "layers": [], "limits": LIMITS,
       "network": {"policy": "none", "rules": []}, "metadata": {}, "tools": [], "approvals": [], "workdir": "/workspace", "ports": None, "published_ports": [],
       "ttl_seconds": 1, "idle_seconds": 1, "created_at": "2026-01-01T00:00:00.000Z", "expires_at": "2026-01-01T00:00:00.000Z"}
CELL = {"id": "c" * 26, "status": "ok", "kernel": "main", "execution_count": 1, "error": None, "kernel_restarted": None, "state_lost": False, "output_file": None,
        "figures": None, "summary": None, "started_at": None, "ended_at": None, "stdout": "", "stderr": "", "results": [],
        "truncated": {"stdout": False, "stderr": False, "results": False}}


def answer(body, status="200 OK", *headers):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = "\r\n".join([f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers])
    return head.encode() + b"\r\n\r\n" + data


class Liar:
    """Says `lie` to every request but those that make and end a box. A lie is bytes, or an iterable of pieces; then the connection is closed."""

    def __init__(self, lie, path=None):
        self.lie, self.path, self.asked = lie, path, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads = [threading.Thread(target=self.accept)]
        self.open, self.over = set(), threading.Event()

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for one in list(self.open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.threads.append(threading.Thread(target=self.serve, args=(self.listener.accept()[0],)))
                self.threads[-1].start()

    def serve(self, client):
        self.open.add(client)
        with client, contextlib.suppress(OSError, ValueError), client.makefile("rb") as reader:
            while True:
                line = reader.readline().decode("latin-1")
                if not line:
                    return
                method, path, _ = line.split(" ", 2)
                length = 0
                while True:
                    header = reader.readline().strip().lower()
                    if not header:
                        break
                    if header.startswith(b"content-length:"):
                        length = int(header.partition(b":")[2])
                reader.read(length)
                self.asked.append((method, path))
                if method == "DELETE":
                    client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
                elif method == "POST" and path == "/v1/boxes":
                    client.sendall(answer(BOX))
                else:
                    for piece in [self.lie] if isinstance(self.lie, bytes) else self.lie(self):
                        client.sendall(piece)
                    client.shutdown(socket.SHUT_WR)
                    return
        self.open.discard(client)


def endless(head, piece):
    def say(liar):
        yield head
        while not liar.over.is_set():
            yield piece
    return say


def silent(head=b""):
    def say(liar):
        yield head
        liar.over.wait(20)
    return say


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
LIES = {
    "no http": (b"SSH-2.0-OpenSSH_9.2\r\n", glovebox.ProtocolError, "is that a Glovebox server"),
    "html": (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", glovebox.ProtocolError, "no JSON.*<html>"),
    "bad json": (answer(b'{"id": '), glovebox.ProtocolError, "no JSON"),
    "no utf-8": (answer(b'{"id": "\xff"}'), glovebox.ProtocolError, "no JSON"),
    "deep json": (answer(b"[" * 100_000), glovebox.ProtocolError, "no JSON"),
    "a number of many digits": (answer(b'{"status": ' + b"9" * 10_000 + b"}"), glovebox.ProtocolError, "no JSON|missing"),
    "a list": (answer(b"[1]"), glovebox.ProtocolError, "no JSON object"),
    "an empty object": (answer({}), glovebox.ProtocolError, "'id' is missing and should be a text"),
    "wrong types": (answer({**CELL, "state_lost": "no"}), glovebox.ProtocolError, "'state_lost' is 'no' and should be true or false"),
    "wrong members": (answer({**CELL, "results": [1]}), glovebox.ProtocolError, "'results'.*a list of objects"),
    "wrong figures": (answer({**CELL, "figures": {"wall_ms": True}}), glovebox.ProtocolError, "'wall_ms' is True and should be a number"),
    "wrong traceback": (answer({**CELL, "status": "error", "error": {"name": "x", "value": "y", "traceback": [1]}}), glovebox.ProtocolError, "a list of texts"),
    "an empty answer": (answer(b""), glovebox.ProtocolError, "no JSON"),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", glovebox.ProtocolError, "no JSON"),
    "redirect": (answer(b"", "302 Found", "Location: http://evil.test/\x1b[2J"), glovebox.ProtocolError, "redirect|no HTTP"),
    "plain redirect": (answer(b"", "307 Temporary Redirect", "Location: http://evil.test/v1"), glovebox.ProtocolError, "redirect to http://evil.test/v1, which is not followed"),
    "huge headers": (HEAD + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n", glovebox.ProtocolError, "no HTTP"),
    "endless headers": (endless(HEAD, b"X-A: a\r\n"), glovebox.ProtocolError, "no HTTP"),
    "endless hints": (endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), glovebox.ServerTimeout, "no answer in"),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", glovebox.ProtocolError, "no HTTP"),
    "a length that is none": (HEAD + b"Content-Length: -1\r\n\r\n{}", glovebox.ProtocolError, "no HTTP"),
    "bad chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", glovebox.ProtocolError, "no HTTP"),
    "too long a body": (HEAD + b"Content-Length: 100000000000\r\n\r\n" + b" " * 3_000_000, glovebox.TooLarge, "answer_max"),
    "endless body": (endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + b" " * 10_000 + b"\r\n"), glovebox.TooLarge, "answer_max"),
    "upgrade": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", glovebox.ProtocolError, "no HTTP"),
    "cut in the body": (HEAD + b"Content-Length: 100\r\n\r\n{", glovebox.ConnectionLost, "within an answer"),
    "cut in the head": (b"HTTP/1.1 200 O", glovebox.ConnectionLost, "before an answer"),
    "closed": (b"", glovebox.ConnectionLost, "before an answer"),
    "silence": (silent(), glovebox.ServerTimeout, "no answer in"),
    "silence in the head": (silent(HEAD), glovebox.ServerTimeout, "no answer in"),
    "silence in the body": (silent(HEAD + b"Content-Length: 100\r\n\r\n{"), glovebox.ServerTimeout, "no answer in"),
    "compressed": (answer(b"\x1f\x8b\x08nonsense", "200 OK", "Content-Encoding: gzip"), glovebox.ProtocolError, "no JSON"),
    "an error without json": (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nnginx", glovebox.ProgramUnreachable, "the server answers 502"),
    "an error of a proxy": (b"HTTP/1.1 503 No\r\nContent-Length: 5\r\nContent-Type: text/html\r\n\r\nnginx", glovebox.Unavailable, "answers 503"),
    "an error that is none": (answer({"error": "yes"}, "422 No"), glovebox.InvalidRequest, "answers 422"),
    "an error of other types": (answer({"error": {"code": 5, "message": ["x"], "field": {}}}, "418 No"), glovebox.ApiError, "answers 418"),
    "an error with escapes": (answer({"error": {"code": "x", "message": "\x1b[2J\x1b]0;t\x07bad\u202e"}}, "400 No"), glovebox.InvalidRequest, r"bad\\u202e"),
    "a long error": (answer({"error": {"code": "x", "message": "m" * 900_000}}, "400 No"), glovebox.InvalidRequest, "mmm"),
    "a date that is none": (answer({"error": {"code": "gone", "message": "m", "reason": "ttl", "ended_at": "9999-99-99T00:00:00Z"}}, "410 No"), glovebox.BoxGone, "m"),
    "a retry after a century": (answer({}, "429 No", "Retry-After: 3000000000"), glovebox.Busy, "answers 429"),
}


@pytest.mark.parametrize("name", LIES)
@both(more=["async"])
async def test_lies_about_a_cell(name):
    lie, kind, said = LIES[name]
    with Liar(lie) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=0.25, answer_max=2_000_000) as client:
            box = await client.boxes.create()
            with pytest.raises(kind, match=said) as caught:
                await box._http.answer("GET", "/v1/boxes/x/y") if "answer in" in said else await box.run("1")
            assert len(str(caught.value)) < 6000 and not any(c < " " and c != "\n" or "\x7f" <= c < "\xa0" for c in str(caught.value)), str(caught.value)
            if name == "plain redirect":
                assert not any("evil" in path for _, path in liar.asked)


def event(name, fields, id=1):
    return f"id: {id}\nevent: {name}\ndata: {json.dumps({'cell': 'c' * 26, 'seq': id, 't_ms': 0, **fields})}\n\n".encode()


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
STREAMS = {
    "endless line": (endless(STREAM, b"data: " + b"x" * 100_000), glovebox.TooLarge, "answer_max"),
    "endless lines": (endless(STREAM, b"data:\n" * 10_000), glovebox.TooLarge, "answer_max"),
    "no json": (STREAM + b"event: start\ndata: nonsense\n\n", glovebox.ProtocolError, "no JSON"),
    "no number": (STREAM + b'event: start\ndata: {"cell": "c"}\n\n', glovebox.ProtocolError, "'seq' is missing"),
    "no cell": (STREAM + b'event: start\ndata: {"seq": 1, "t_ms": 0}\n\n', glovebox.ProtocolError, "'cell' is missing"),
    "wrong output": (STREAM + event("stdout", {"data": 5}), glovebox.ProtocolError, "'data' is 5"),
    "wrong display": (STREAM + event("display", {"data": []}), glovebox.ProtocolError, "'data'"),
    "json in place of events": (answer(CELL), glovebox.ProtocolError, "no stream of events"),
    "a cell that would be a path": (STREAM + event("start", {"cell": "../../x", "started_at": None}), glovebox.InvalidRequest, "no id"),
    "it ends again and again": (STREAM + event("start", {"started_at": None}), glovebox.ConnectionLost, "before what runs had ended"),
}


@pytest.mark.parametrize("name", [one if one[:7] != "it ends" else pytest.param(one, marks=pytest.mark.more) for one in STREAMS])
@both(more=["async"])
async def test_lies_in_a_stream(name):
    lie, kind, said = STREAMS[name]
    with Liar(lie) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=1, answer_max=500_000) as client:
            box = await client.boxes.create()
            with pytest.raises(kind, match=said):
                async for _ in box.stream("1"):
                    pass


@both
async def test_what_is_new_is_passed_on():
    """Events and members that this version does not know."""
    events = event("start", {"started_at": "never"}) + event("news", {"x": 1}, 2) + event("end", {**CELL, "more": True}, 3)
    with Liar(STREAM + b": a comment\nretry: 5\n\n" + events) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=1) as client:
            box = await client.boxes.create()
            seen = [one async for one in box.stream("1")]
            assert [one.kind for one in seen] == ["start", "other", "end"] and seen[1].name == "news" and seen[1].data["x"] == 1


BOXES = {
    "an id that would be a path": {**BOX, "id": "../../x"},
    "no id": {key: value for key, value in BOX.items() if key != "id"},
    "limits": {**BOX, "limits": []},
    "rules": {**BOX, "network": {"policy": "none", "rules": [5]}},
    "metadata": {**BOX, "metadata": {"a": 1}},
    "ports": {**BOX, "published_ports": [{"port": "x"}]},
}


@pytest.mark.parametrize("name", BOXES)
@both(more=["async"])
async def test_lies_about_a_box(name):
    with Liar(answer(BOXES[name])) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=1) as client:
            with pytest.raises((glovebox.ProtocolError, glovebox.InvalidRequest)):
                box = client.boxes.get(BOX_ID)
                await box.open()
                await box.run("1")


@both
async def test_lies_about_files(tmp_path):
    entry = {"path": "a", "type": "file", "size": 1, "mode": "0644", "mtime": "x", "target": None}
    for wrong in ({**entry, "mode": "999"}, {**entry, "path_base64": "???"}, {**entry, "size": "1"}, {}):
        with Liar(answer({"entries": [wrong], "next": None})) as liar:
            async with glovebox.AsyncClient(liar.url, timeout=1) as client:
                with pytest.raises(glovebox.ProtocolError):
                    await (await client.boxes.create()).files.list()
    with Liar(answer({"entries": [], "next": "again"})) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=1) as client:
            assert await (await client.boxes.create()).files.list() == [], "a page of nothing is the last"
    with Liar(HEAD + b"Content-Length: 100\r\n\r\nhalf") as liar:
        async with glovebox.AsyncClient(liar.url, timeout=1) as client:
            box = await client.boxes.create()
            with pytest.raises(glovebox.ConnectionLost):
                await box.files.download("f", tmp_path / "f")
            assert list(tmp_path.iterdir()) == []
            with pytest.raises(glovebox.ConnectionLost):
                await box.files.read("f")
    with Liar(endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"2710\r\n" + b" " * 10_000 + b"\r\n")) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=1) as client:
            box = await client.boxes.create()
            with pytest.raises(glovebox.TooLarge):
                await box.files.read("f", most=100_000)
            with pytest.raises(glovebox.ProtocolError, match="no sound tar"):
                await box.files.download_dir("", tmp_path / "d")
            assert list(tmp_path.iterdir()) == []


ACCEPT = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: nonsense\r\n\r\n"
SOCKETS = {
    "a wrong accept": (ACCEPT, (glovebox.ProtocolError, glovebox.ConnectionLost), "at http"),
    "no http": (b"SSH-2.0\r\n\r\n", (glovebox.ProtocolError, glovebox.ConnectionLost), "at http"),
    "ok": (answer({}), glovebox.ProtocolError, "status 200, which nobody asked for"),
    "redirect": (answer({}, "302 Found", "Location: http://evil.test/"), glovebox.ProtocolError, "redirect"),
    "refused": (answer({"error": {"code": "too_many", "message": "eight are open"}}, "429 No"), glovebox.Busy, "eight are open"),
    "closed": (b"", glovebox.ConnectionLost, "before an answer"),
    "silence": (silent(), glovebox.ServerTimeout, "no answer in"),
    "endless headers": (endless(b"HTTP/1.1 101 X\r\n", b"X-A: a\r\n"), (glovebox.ProtocolError, glovebox.ConnectionLost), "at http"),
}


@pytest.mark.parametrize("name", SOCKETS)
@pytest.mark.more
@both
async def test_lies_about_a_terminal(name):
    lie, kind, said = SOCKETS[name]
    with Liar(lie) as liar:
        async with glovebox.AsyncClient(liar.url, timeout=0.5) as client:
            box = await client.boxes.create()
            with pytest.raises(kind, match=said):
                await box.terminal().open()


def test_a_transport_of_httpx():
    """One that is brought along, in both forms: what it says and how it fails is the same."""
    import asyncio

    calls = []

    def handle(request):
        calls.append((request.method, request.url.raw_path, request.headers["host"], request.headers.get("x-own")))
        if request.url.path == "/v1/boxes":
            return httpx.Response(201, json=BOX)
        if request.url.path.endswith("/cells"):
            return httpx.Response(200, json={**CELL, "stdout": "mocked"})
        if request.url.path.endswith("/lost"):
            raise httpx.ReadError("gone")
        if request.url.path.endswith("/late"):
            raise httpx.ReadTimeout("late")
        if request.method == "PUT":
            return httpx.Response(201, json={"path": "f", "type": "file", "size": len(request.read()), "mode": "0644", "mtime": None, "target": None})
        return httpx.Response(204)

    with glovebox.Client("http://glovebox.test/prefix", transport=httpx.MockTransport(handle), headers={"X-Own": "yes"}) as client:
        with pytest.raises(glovebox.ProtocolError, match="no JSON"):
            client.boxes.create()
    assert calls == [("POST", b"/prefix/v1/boxes", "glovebox.test", "yes")]
    calls.clear()
    with glovebox.Client("http://glovebox.test", transport=httpx.MockTransport(handle), headers={"X-Own": "yes"}, timeout=0.5) as client:
        with glovebox.Box(client=client) as box:
            assert box.run("1").stdout == "mocked"
            assert box.files.write("ä%2F/\xff", [b"ab", b"c"]).size == 3
            with pytest.raises(glovebox.ConnectionLost, match="gone"):
                client._http.answer("GET", "/lost")
            with pytest.raises(glovebox.ServerTimeout):
                client._http.answer("GET", "/late")
    assert calls[0] == ("POST", b"/v1/boxes", "glovebox.test", "yes") and calls[2][1].endswith(b"/files/%C3%A4%252F/%C3%BF")

    async def main():
        async with glovebox.AsyncClient("http://glovebox.test", transport=httpx.MockTransport(handle), timeout=0.5) as client:
            async with glovebox.AsyncBox(client=client) as box:
                assert (await box.run("1")).stdout == "mocked"
                assert (await box.files.write("f", [b"ab", b"c"])).size == 3

    asyncio.run(main())
