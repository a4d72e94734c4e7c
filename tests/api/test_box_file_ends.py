# SPDX-License-Identifier: Apache-2.0
"""Transfers of files of a box that do not come to their end: clients that leave or stall, a gate that dies, a box that ends, no room.

Whatever happens: the file is the old one or the new one, nothing else is left in the box, no job goes on, and nobody else notices.
"""
import concurrent.futures
import contextlib
import hashlib
import http.client
import os
import signal
import socket

import pytest

from files import MIB, Filed, begin, head, member, nothing_stays, quiet, raw, tar
from server import SANITIZED, Gone, file_part, multipart, needs_root, serve, shared, status_of, until  # noqa: F401
from test_boxes import refused
from test_gate_edges import narrow, reset

pytestmark = needs_root

GIB = 1 << 30
SHRINKS = 64 * MIB  # far more than is on its way at any moment
AT_ONCE = 16
FORM_TYPE, FORM = multipart([file_part(b"n" * MIB)])
ARCHIVE = tar(member("f", b"n" * MIB), member("g", b"n" * MIB))

server = shared(max_concurrent_executions=64)


@pytest.fixture(scope="module")
def box(server):
    with Filed(server) as box:
        box.write("f", b"old").ok(201)
        yield box


@pytest.fixture(scope="module")
def huge(server):
    """With a file of a gibibyte, of which nothing is there."""
    with Filed(server, limits={"workspace_bytes": 3 * GIB}) as box:
        box.out("truncate -s 1G f")
        yield box


# --- uploads that are cut ------------------------------------------------------------------------------------

# Method, target, further header lines, the whole body.
UPLOADS = {
    "new file": ("PUT", "files/new", [], b"n" * MIB),
    "new file below": ("PUT", "files/a/b/new", [], b"n" * MIB),
    "replaced file": ("PUT", "files/f", [], b"n" * MIB),
    "form": ("POST", "files/f", [f"Content-Type: {FORM_TYPE}"], FORM),
    "form, new": ("POST", "files/new", [f"Content-Type: {FORM_TYPE}"], FORM),
    "archive": ("PUT", "archive", ["Content-Type: application/x-tar"], ARCHIVE),
    "archive elsewhere": ("PUT", "archive?path=elsewhere", ["Content-Type: application/x-tar"], ARCHIVE),
}
SENT = [0, 1, 600, 300_000, MIB - 1]


def send_part(box, upload, sent, chunked=False):
    """A connection on which so much of an upload was sent."""
    method, target, lines, body = UPLOADS[upload]
    wire = box.server.wire()
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    wire.send(head(box, method, f"{box.path}/{target}", framing, *lines))
    data = body[:sent]
    wire.send(b"%x\r\n%s\r\n" % (len(data), data) if chunked and data else data)
    return wire


CUTS = {
    "closed": lambda wire: wire.socket.close(),
    "reset": lambda wire: reset(wire.socket),
    "half closed": lambda wire: (wire.socket.shutdown(socket.SHUT_WR), wire.rest()),
}


def directories_may_stay(tree):
    """Directories on the way were made before the file: they are no file, and may stay."""
    return {path: what for path, what in tree.items() if path not in ("a", "a/b", "elsewhere")}


@contextlib.contextmanager
def as_it_was(box):
    processes, files = len(box.server.tree()), directories_may_stay(box.tree())
    yield
    quiet(box.server, processes)
    assert directories_may_stay(box.tree()) == files


@pytest.mark.parametrize("upload", UPLOADS)
def test_an_upload_whose_client_leaves(box, upload):
    with as_it_was(box):
        for cut in CUTS.values():
            for sent in SENT:
                wire = send_part(box, upload, sent)
                cut(wire)
                wire.socket.close()
    assert box.bytes("f") == b"old"


BROKEN = {"size that is none": b"zz\r\n", "a size too far": b"ffffffffffffffff\r\n", "no line end": b"5\r\nhelloX\r\n", "extension": b"5;x=y\r\nhello\r\n", "negative": b"-1\r\n",
          "trailer": b"0\r\nX: y\r\n\r\n"}


@pytest.mark.parametrize("upload", UPLOADS)
def test_a_broken_chunk(box, upload):
    """It is said, and the connection is closed: what follows is in doubt."""
    with as_it_was(box):
        for name, data in BROKEN.items():
            for sent in (0, 300_000):
                with send_part(box, upload, sent, chunked=True) as wire:
                    wire.send(data)
                    assert wire.response().status in (400, 413), name
                    assert wire.is_ended(), name
        for cut in CUTS.values():
            wire = send_part(box, upload, 300_000, chunked=True)
            wire.send(b"1000\r\nhalf")
            cut(wire)
            wire.socket.close()
    assert box.bytes("f") == b"old"


def test_what_follows_a_body_is_the_next_request(box):
    """A length that is too short for what was meant makes a short file, and no second one."""
    with as_it_was(box), box.server.wire() as wire:
        wire.send(head(box, "PUT", box.file("f"), "Content-Length: 3") + b"oldGARBAGE / HTTP/1.1\r\n\r\n")
        assert wire.response().status == 200
        assert wire.response().status in (400, 405, 501)
    assert box.bytes("f") == b"old"


def test_after_many_that_left_there_is_room(box):
    """Each gives its place back."""
    for n in range(3 * AT_ONCE):
        wire = send_part(box, "new file", 10_000)
        (reset if n % 2 else lambda s: s.close())(wire.socket)
    until(lambda: box.read("f").status == 200, "there is room again")
    with as_it_was(box):
        pass


# --- downloads that are cut ----------------------------------------------------------------------------------


def ask_for(box, path, connection):
    connection.sendall(head(box, "GET", box.file(path)))
    return connection


def peak_kib(server):
    return int(status_of(server.pid_of("gate"))["VmHWM"].split()[0])


def forget_peak(server):
    with open(f"/proc/{server.pid_of('gate')}/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def test_a_client_that_stops_reading(server, huge, box):
    """A gibibyte for somebody who takes nothing of it: it costs the gate a queue (REQ_HIGH, in a buffer of up to twice that), and nobody waits for it."""
    processes = len(server.tree())
    forget_peak(server)
    before = peak_kib(server)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(contextlib.closing(ask_for(huge, "f", narrow(server, 65536)))) for _ in range(8)]
        assert all(r.recv(12) == b"HTTP/1.1 200" for r in readers)
        assert box.bytes("f") == b"old" and huge.read("f", {"Range": "bytes=0-4"}).body == bytes(5)
        huge.write("g", b"x" * MIB).ok(201)
        assert huge.bytes("g") == b"x" * MIB and huge.out("echo here") == "here\n"
        assert SANITIZED or peak_kib(server) - before < 8 * 2 * 1024 + 8 * 1024, "the gate holds what nobody reads"
    quiet(server, processes)


def test_clients_that_leave_a_download(server, huge):
    processes, gate = len(server.tree()), server.pid_of("gate")
    for n in range(20):
        s = ask_for(huge, "f", narrow(server, 65536))
        left = n * 200_000
        while left > 0 and (data := s.recv(65536)):
            left -= len(data)
        (reset if n % 2 else lambda sock: sock.close())(s)
    quiet(server, processes)
    assert server.pid_of("gate") == gate and huge.read("f", method="HEAD").headers["Content-Length"] == str(GIB)


@pytest.mark.parametrize("change", ["truncate -s 100 f2", "rm f2; echo another > f2", "truncate -s 0 f2; truncate -s 2G f2"])
def test_a_file_that_changes_while_it_is_read(server, huge, change):
    """As much as was announced, or the connection is cut. More, or less with a proper end, would be a lie."""
    huge.out("rm -f f2; truncate -s 64M f2")
    with contextlib.closing(ask_for(huge, "f2", narrow(server, 65536))) as s:
        data = s.recv(65536)
        headers, _, rest = data.partition(b"\r\n\r\n")
        assert b"200 OK" in headers and b"Content-Length: %d" % SHRINKS in headers
        huge.out(change)
        got = len(rest)
        with contextlib.suppress(ConnectionResetError):
            while data := s.recv(MIB):
                got += len(data)
                if got == SHRINKS:
                    break
    assert got <= SHRINKS
    if change.startswith("rm"):
        assert got == SHRINKS, "who has the file open keeps it"
    if change.endswith(" 100 f2"):
        assert got < SHRINKS, "what is not there any more was sent"
    assert huge.read("f2", method="HEAD").status == 200
    huge.out("rm f2")


# --- slow ones -----------------------------------------------------------------------------------------------


def test_a_slow_client_is_in_nobodys_way(server, box):
    """One that sends byte by byte, in each of the ways to send; the others are answered between two bytes."""
    with contextlib.ExitStack() as stack:
        wires = {name: stack.enter_context(send_part(box, name, 5)) for name in UPLOADS}
        for n in range(5, 12):
            for name, wire in wires.items():
                assert wire.send(UPLOADS[name][3][n:n + 1])
            assert box.bytes("f") == b"old"
            box.write(f"other{n}", b"x").ok(201)
            assert server.request("GET", "/health")[0] == 200
            with Filed(server) as other:
                other.write("f", b"y").ok(201)
        assert not any(wire.is_readable() for wire in wires.values())
        with wires.pop("new file") as wire:
            wire.send(UPLOADS["new file"][3][12:])
            assert wire.response().status == 201
    assert box.bytes("new") == b"n" * MIB
    box.out("rm -rf new other* a elsewhere")


def test_a_client_that_sends_nothing_more_is_cut_off(serve):
    """After `body_timeout`; and of its file nothing is left."""
    server = serve(body_timeout="1s")
    with Filed(server) as box, nothing_stays(box):
        with begin(box, box.file("f")) as wire:
            answer = wire.rest()
            assert wire.closed and (answer == b"" or answer.startswith(b"HTTP/1.1 408")), answer


def test_seventeen_at_once(server, box):
    """The sixteenth is taken, the seventeenth is told so; other boxes have their own sixteen."""
    processes = len(server.tree())
    with as_it_was(box), contextlib.ExitStack() as stack:
        wires = [stack.enter_context(begin(box, box.file(f"slow{n}"), size=10, sent=5)) for n in range(AT_ONCE - 1)]
        until(lambda: len(server.tree()) >= processes + len(wires), "each of them has its job")
        assert box.bytes("f") == b"old", "one more has room"
        wires.append(stack.enter_context(begin(box, box.file("slow15"), size=10, sent=5)))
        reply = until(lambda: (lambda r: r.status == 429 and r)(box.read("f")), "there is no room left")
        reply.refused(429, "too_many")
        assert int(reply.headers["Retry-After"]) > 0
        for method, tail, body in (("PUT", "files/x", b"x"), ("DELETE", "files/f", None), ("GET", "files", None), ("POST", "files/x?op=mkdir", None), ("GET", "archive", None),
                                   ("PUT", "archive", b"\0" * 1024), ("GET", "watch", None)):
            refused(server.call(method, f"{box.path}/{tail}", body, {"Content-Type": "application/octet-stream"}), 429, "too_many")
        with Filed(server) as other:
            other.write("f", b"x").ok(201)
        assert box.out("cat f") == "old", "commands are another matter"
        for n, wire in enumerate(wires):
            assert wire.send(b"%05d" % n)
            assert wire.response().status == 201
        until(lambda: box.read("f").status == 200, "there is room again")
        assert {n: box.bytes(f"slow{n}") for n in range(AT_ONCE)} == {n: b"xxxxx%05d" % n for n in range(AT_ONCE)}
        for n in range(AT_ONCE):
            box.remove(f"slow{n}").ok(204)


def test_many_more_than_sixteen(box):
    """Everybody is answered, by a file or by 429; and nothing is mixed up."""
    box.python("import os; os.makedirs('many', exist_ok=True)\nfor n in range(60): open(f'many/{n}', 'w').write(str(n) * 1000)")

    def one(n):
        while (reply := box.read(f"many/{n}")).status == 429:
            reply.refused(429, "too_many")
        return reply.ok().body

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        assert list(pool.map(one, range(60))) == [str(n).encode() * 1000 for n in range(60)]
    box.remove("many", recursive=1).ok(204)


# --- no gate, no box -----------------------------------------------------------------------------------------


def test_the_gate_dies_under_uploads(serve):
    """None of them leaves anything, and the old file is the old file."""
    server = serve()
    with Filed(server) as box:
        box.write("f", b"old").ok(201)
        with as_it_was(box):
            processes = len(server.tree())
            wires = [send_part(box, name, 300_000) for name in UPLOADS]
            until(lambda: len(server.tree()) >= processes + len(UPLOADS), "each of them has its job")
            server.next_gate(server.kill_gate())
            for wire in wires:
                assert wire.is_ended(), "no half answer"
                wire.socket.close()
            assert box.bytes("f") == b"old" and set(box.names(recursive=1)) <= {"a", "a/b", "elsewhere", "f"}
            # Unpacking was killed with the gate: what it had so far is hidden, and goes with the next archive.
            for place in ({}, {"path": "elsewhere"}):
                box.unpack(tar(), **place).ok()
        box.write("f", b"new").ok(200)
        assert set(box.names()) <= {"a", "f", "elsewhere"}


def test_the_gate_dies_under_downloads(serve):
    server = serve()
    with Filed(server, limits={"workspace_bytes": 2 * GIB}) as box:
        box.out("truncate -s 1G f; mkdir d; cp --sparse=always f d/f")
        processes = len(server.tree())
        connections = [ask_for(box, "f", narrow(server, 65536)) for _ in range(2)]
        connections.append(narrow(server, 65536))
        connections[-1].sendall(head(box, "GET", f"{box.path}/archive?path=d&format=tar"))
        for s in connections:
            assert s.recv(12) == b"HTTP/1.1 200"
        watch = box.watch()
        server.next_gate(server.kill_gate())
        assert list(watch) == []
        watch.close()
        for s in connections:
            got = 0
            with contextlib.suppress(ConnectionResetError):
                while data := s.recv(MIB):
                    got += len(data)
            assert got < GIB
            s.close()
        quiet(server, processes)
        assert box.read("f", {"Range": "bytes=-1"}).status == 206


def test_the_box_ends_under_transfers(server):
    """Whoever is in the middle of something hears of it; nobody waits for ever."""
    box = Filed(server, limits={"workspace_bytes": 2 * GIB})
    box.out("truncate -s 1G f")
    processes = len(server.tree())
    uploads = {name: send_part(box, name, 300_000) for name in UPLOADS}
    download = ask_for(box, "f", narrow(server, 65536))
    assert download.recv(12) == b"HTTP/1.1 200"
    watch = box.watch()
    assert box.delete()[0] == 204
    assert [e.name for e in watch][-1:] == ["end"]
    watch.close()
    got = 0
    with contextlib.suppress(ConnectionResetError):
        while data := download.recv(MIB):
            got += len(data)
    assert got < GIB
    download.close()
    for name, wire in uploads.items():
        try:
            answer = wire.response()
            assert answer.status in (404, 409, 410, 500, 503), (name, answer)
        except Gone:
            pass
        wire.socket.close()
    box.read("f").refused(410, "gone")
    until(lambda: len(server.tree()) < processes, "its processes are gone")


def test_a_job_that_is_killed_in_the_box(server, box):
    """By somebody in the box, who may: the client is told that it did not work, or cut off; the next call works."""
    status, killer = box.call(shell="echo up; while [ ! -e stop ]; do kill -9 -1; done", detach=True)
    assert status == 202
    seen = set()
    for n in range(30):
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            reply = box.read("f")
            seen.add(reply.status)
            assert reply.status != 200 or reply.body == b"old", reply
        with contextlib.suppress(http.client.HTTPException, ConnectionError):
            seen.add(box.write("killed", b"x" * 100_000).status)
            seen.add(box.list(recursive=1).status)
    assert seen <= {200, 201, 409, 500, 502, 503}, seen
    server.call("DELETE", f"{box.path}/commands/{killer['id']}?grace_ms=0")
    until(lambda: box.read("f").status == 200, "nobody kills it any more")
    size = box.out("stat -c %s killed 2>/dev/null; true").strip()
    assert size in ("", "100000"), "a file is whole or not there"
    box.out("rm -f killed; rm -f .[a-z]* ")
    assert box.bytes("f") == b"old"


def test_jobs_that_are_stopped(server, box):
    """By somebody in the box, who may. Whoever waits does not wait for as long as that one likes: it is ended, and that is said."""
    with begin(box, box.file("stopped"), size=10, sent=5) as wire:
        status, stopper = box.call(shell="while :; do kill -STOP -1; sleep 0.01; done 2> /dev/null", detach=True)
        assert status == 202
        answer = wire.response()
        assert answer.status >= 500 and "signal 9" in answer.json()["error"]["message"], answer.body
        for _ in range(20):
            assert box.read("f").status in (200, 500)
        with Filed(server) as other:
            other.write("f", b"x").ok(201)
    server.call("DELETE", f"{box.path}/commands/{stopper['id']}?grace_ms=0")
    until(lambda: box.read("f").status == 200, "nobody stops it any more")
    assert box.read("stopped").status == 404


# --- no room -------------------------------------------------------------------------------------------------


def full(reply):
    error = reply.refused(413, "no_space")
    assert "room" in error["message"], error
    return True


def test_a_file_that_does_not_fit(server, box):
    """413; of what was sent nothing is left; the old file stays; and other boxes do not notice."""
    with Filed(server, limits={"workspace_bytes": 2 * MIB}) as small, nothing_stays(box):
        small.write("f", b"old").ok(201)
        with nothing_stays(small):
            for path in ("f", "new"):
                assert full(small.write(path, b"x" * (8 * MIB)))
                assert full(small.form(path, [file_part(b"x" * (8 * MIB))]))
            assert full(small.unpack(tar(member("a", b"x" * MIB), member("b", b"x" * (4 * MIB)))))
            box.write("beside", b"x" * (4 * MIB)).ok(201)
            box.remove("beside").ok(204)
        content = os.urandom(MIB)
        small.write("fits", content).ok(201)
        assert small.bytes("fits") == content
        assert "No space left" in small.run("head -c 4M /dev/zero > more")["stderr"], "a program sees the same limit"
        assert full(small.write("g", b"x" * (1024 * 1024)))
        small.remove("more").ok(204)
        small.write("g", b"x" * 100_000).ok(201)


def test_a_file_without_a_length_that_does_not_fit(server):
    """It is refused before its end: who would send for ever is told to stop."""
    with Filed(server, limits={"workspace_bytes": MIB}) as small, nothing_stays(small):
        with small.server.wire() as wire:
            wire.send(head(small, "PUT", small.file("f"), "Transfer-Encoding: chunked"))
            for _ in range(1024):
                if wire.is_readable() or not wire.send(b"10000\r\n%s\r\n" % (b"x" * 65536)):
                    break
            else:
                pytest.fail("it took 64 MiB")
            answer = wire.response()
            assert answer.status == 413 and answer.json()["error"]["code"] == "no_space"


def test_other_limits_of_files(server):
    """Size of one file, number of files: they are those of the box's programs."""
    with Filed(server, limits={"file_bytes": 100_000, "workspace_inodes": 32}) as small:
        with nothing_stays(small):
            assert full(small.write("f", b"x" * 300_000))
            assert full(small.unpack(tar(member("f", b"x" * 300_000))))
        small.write("f", b"x" * 100_000).ok(201)
        statuses = [small.write(f"n{n}", b"").status for n in range(40)]
        assert set(statuses) == {201, 413} and statuses == sorted(statuses)
        made = statuses.count(201)
        assert len(small.names()) == made + 1
        assert "No space left" in small.run("touch one-more")["stderr"]
        small.remove("n0").ok(204)
        small.write("again", b"").ok(201)


def test_no_processes_left(server):
    """A box that has used up what it may have: refused for a while, not for ever, and not by a crash."""
    with Filed(server, limits={"processes": 16}) as small:
        small.write("f", b"old").ok(201)
        status, bomb = small.call(shell="while [ ! -e stop ]; do sleep 1000 & done 2>/dev/null", detach=True)
        assert status == 202
        for _ in range(20):
            reply = small.read("f")
            assert reply.status in (200, 429, 500, 503), reply
        server.call("DELETE", f"{small.path}/commands/{bomb['id']}?grace_ms=0")
        until(lambda: small.read("f").status == 200, "it is over")


def test_no_memory_left(server):
    """Files are not of the memory that processes may have."""
    with Filed(server, limits={"memory_bytes": 32 * MIB, "workspace_bytes": 200 * MIB}) as small:
        content = os.urandom(MIB) * 64
        small.write("f", content).ok(201)
        assert hashlib.sha256(small.bytes("f")).digest() == hashlib.sha256(content).digest()
        assert small.get()[1]["figures"]["oom_kills"] == 0


# --- how much ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["raw", "form", "chunked"])
def test_a_gibibyte_each_way(server, how):
    """Byte by byte the same, and the gate is as large afterwards as before."""
    block = os.urandom(MIB)
    before_form, after_form = FORM.split(b"n" * MIB)
    with Filed(server, limits={"workspace_bytes": 2 * GIB}) as large:
        forget_peak(server)
        before = peak_kib(server)
        with server.wire() as wire:
            if how == "chunked":
                wire.send(head(large, "PUT", large.file("f"), "Transfer-Encoding: chunked"))
                for n in range(1024):
                    assert wire.send(b"%x\r\n%s\r\n" % (MIB, n.to_bytes(8, "big") + block[8:]))
                wire.send(b"0\r\n\r\n")
            else:
                size = GIB + (len(before_form) + len(after_form) if how == "form" else 0)
                wire.send(head(large, "PUT" if how == "raw" else "POST", large.file("f"), f"Content-Length: {size}",
                               *([f"Content-Type: {FORM_TYPE}"] if how == "form" else [])) + (before_form if how == "form" else b""))
                for n in range(1024):
                    assert wire.send(n.to_bytes(8, "big") + block[8:])
                wire.send(after_form if how == "form" else b"")
            answer = wire.response()
            assert answer.status == 201 and answer.json()["size"] == GIB
            wire.send(head(large, "GET", large.file("f")))
            while b"\r\n\r\n" not in wire.buffer:
                wire.fill()
            answer_head, _, wire.buffer = wire.buffer.partition(b"\r\n\r\n")
            assert b"Content-Length: %d" % GIB in answer_head
            for n in range(1024):
                assert wire.take(MIB) == n.to_bytes(8, "big") + block[8:], f"block {n}"
        assert SANITIZED or peak_kib(server) - before < 16 * 1024


@pytest.mark.more
def test_the_gate_dies_at_random_moments(serve):
    """A client that tries again until it is answered has its file in the end, whole, and nothing else is there."""
    server = serve()
    content = [os.urandom(500_000) for _ in range(8)]
    with Filed(server) as box:
        done = []

        def insist(n):
            while True:
                with contextlib.suppress(http.client.HTTPException, OSError):
                    if box.write(f"f{n}", content[n]).status in (200, 201):
                        done.append(n)
                        return

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(insist, n) for n in range(8)]
            for _ in range(5):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(server.pid_of("gate"), signal.SIGKILL)
            for future in futures:
                future.result()
        until(lambda: sorted(box.out("ls -A").split()) == [f"f{n}" for n in range(8)], "nothing else is left")
        assert [box.bytes(f"f{n}") for n in range(8)] == content and raw(box, "GET", box.file("f0")).status == 200
