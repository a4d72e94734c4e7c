# SPDX-License-Identifier: Apache-2.0
"""The benchmark itself: its arithmetic, its table, its command line, and one small real run. No time is asserted."""
import asyncio
import dataclasses
import hashlib
import importlib.util
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import box_files, cases, hostile, imports, kernels, kinds, launch, main, packages, peers, promises, report, sdk, server, session_kinds, stats, tools  # noqa: E402

pytestmark = pytest.mark.more

FIGURES = {"runs", "failures", "p50", "p95", "p99", "min", "mean"}


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")


def bench(*words, timeout=60):
    return subprocess.run([HERE / "run", *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, check=False)


# --- arithmetic ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples, q, expected", [
    ([7], 0, 7), ([7], 50, 7), ([7], 100, 7),
    ([1, 2], 50, 1.5), ([1, 2, 3], 50, 2), ([1, 2, 3, 4], 50, 2.5),
    (list(range(101)), 95, 95), (list(range(101)), 99, 99), (list(range(101)), 100, 100),
    ([0, 10], 95, 9.5), ([5, 5, 5], 99, 5),
])
def test_percentile(samples, q, expected):
    assert stats.percentile(samples, q) == pytest.approx(expected)


@pytest.mark.parametrize("samples, q", [([], 50), ([1], -1), ([1], 101)])
def test_percentile_refuses(samples, q):
    with pytest.raises(ValueError):
        stats.percentile(samples, q)


def test_summary_counts_failures_and_keeps_them_out_of_the_times():
    row = stats.summary([3, 1, 2], failures=2)
    assert (row["runs"], row["failures"], row["p50"], row["min"], row["max"], row["mean"]) == (5, 2, 2, 1, 3, 2)


def test_summary_of_nothing_but_failures():
    row = stats.summary([], failures=4)
    assert (row["runs"], row["failures"], row["p50"], row["mean"]) == (4, 4, None, None)


def test_tail_of_a_rate_is_its_low_end():
    row = stats.summary(range(101), more_is_better=True)
    assert (row["p50"], row["p95"], row["p99"], row["min"]) == (50, 5, 1, 0)


# --- one run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages, expect, error", [
    ([["/bin/echo", "1"]], b"1\n", None),
    ([["/bin/echo", "1"], ["/usr/bin/cat"]], b"1\n", None),
    ([["/bin/echo", "{id}"]], None, None),
    ([["/bin/echo", "2"]], b"1\n", "printed"),
    ([["/bin/false"]], b"", "exit status [1]"),
    ([["/bin/sh", "-c", "echo no good >&2; exit 3"]], None, "no good"),
    ([["/nonexistent/program"]], b"", "No such file"),
])
def test_once_tells_a_right_answer_from_a_wrong_one(stages, expect, error):
    run = launch.once(launch.Command(stages, expect))
    assert run.ns > 0
    assert run.error is None if error is None else error in run.error


def test_once_ends_what_does_not_end(tmp_path):
    trace = tmp_path / "cleaned"
    command = launch.Command([["/bin/sleep", "1000"]], cleanup=["/usr/bin/touch", str(trace)])
    assert "no end after" in launch.once(command, timeout_s=0.2).error
    assert trace.exists()


def test_launcher_is_a_process_of_its_own_and_reports_its_troubles():
    launcher = launch.Launcher()
    try:
        assert launcher.call(os.getpid) != os.getpid()
        with pytest.raises(RuntimeError, match="FileNotFoundError"):
            launcher.call(os.stat, "/nonexistent")
        assert launcher.call(launch.count_bytes, launch.Command([["/usr/bin/head", "-c", "300000", "/dev/zero"]])) \
            == 300000
    finally:
        launcher.close()


# --- the tables ----------------------------------------------------------------------------------------------


def test_every_case_is_complete():
    names = [(case.group, case.name) for case in cases.CASES]
    assert len(names) == len(set(names))
    for case in cases.CASES:
        assert case.what and case.peers and callable(case.kind)
        for peer in case.members():
            assert peer.holds and os.path.isabs(peer.program) or peer.program == "glovebox"


def test_bundle_has_a_place_for_every_mount(tmp_path):
    spec = peers.oci_spec(cases.PRINT, cgroup=True)
    peers.make_bundle(tmp_path, spec)
    assert json.loads((tmp_path / "config.json").read_text()) == spec
    for mount in spec["mounts"]:
        assert (tmp_path / "rootfs" / mount["destination"].lstrip("/")).exists()


class FakeContext:
    runs, quick = 8, True

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)

    def progress(self, *_):
        pass


class FakePeer:
    holds = "nothing"

    def __init__(self, name, answers=(), why=None):
        self.name, self.answers, self.why, self.shown, self.log = name, answers, why, name, None

    def missing(self, _ctx):
        return self.why

    def open(self, _ctx, _work):
        return self

    def once(self):
        self.log.append(self.name)
        error = self.answers[len([n for n in self.log if n == self.name]) % len(self.answers)]
        return launch.Run(1000000, error)

    def close(self):
        self.log.append(f"{self.name} closed")


class FakeCase:
    group, name, work, options = "group", "name", None, {}

    def __init__(self, *members):
        self.log = []
        for member in members:
            member.log = self.log
        self.list = members

    def members(self):
        return self.list


def test_latency_interleaves_counts_and_never_drops():
    case = FakeCase(FakePeer("good", [None]), FakePeer("flaky", [None, "oops"]), FakePeer("broken", ["no"]),
                    FakePeer("absent", why="not installed"))
    ctx = FakeContext()
    rows = {row["peer"]: row for row in kinds.latency(case, ctx)}
    assert set(rows) == {"good", "flaky", "broken", "absent"}
    assert (rows["good"]["runs"], rows["good"]["failures"], rows["good"]["p50"]) == (8, 0, 1.0)
    assert (rows["flaky"]["runs"], rows["flaky"]["failures"]) == (8, 4)
    assert rows["broken"]["status"] == "does not work here: no"
    assert rows["broken"]["failures"] == rows["broken"]["runs"] == kinds.GIVE_UP_AFTER
    assert rows["absent"]["status"] == "not installed"
    assert any("NOT INSTALLED" in text for text in ctx.warnings)
    # One round of three that does not count, five with everyone, then without the one that never worked.
    rounds = [set(case.log[i:i + 3]) for i in range(0, 18, 3)]
    assert rounds == [{"good", "flaky", "broken"}] * 6
    assert case.log[-3:] == ["good closed", "flaky closed", "broken closed"]


def test_what_takes_seconds_says_how_often_it_is_run():
    case = FakeCase(FakePeer("slow", [None]))
    case.options = {"rounds": (30, 3)}
    (row,) = kinds.latency(case, FakeContext())
    assert row["runs"] == 3 and len(case.log) == 1 + 3 + 1


# --- promises ------------------------------------------------------------------------------------------------


def promised(case_id, value, base=None, figure="end to end", unit="ms", peer="glovebox serve, pool miss"):
    rows = [{"peer": "python3", "figure": figure, "unit": unit, "p50": base},
            {"peer": peer, "figure": figure, "unit": unit, "p50": value}]
    promises.add_promises(case_id, rows)
    assert rows[0]["promise"] is None
    return rows[1]["promise"]


@pytest.mark.parametrize("case_id, value, base, figure, met", [
    ("P1", 6, 14, "end to end", True), ("P1", 7, 14, "end to end", True), ("P1", 6, 10, "end to end", False),
    ("P1", 8, 20, "end to end", False), ("P1", None, 14, "end to end", None), ("P1", 6, None, "end to end", None),
    ("P11", 50000, None, "GET /health", True), ("P11", 9999, None, "GET /v1/files, 10 files", False),
    ("P13", 1.5, None, "grown: P1, 1 to 1000 live", True), ("P13", 1.6, None, "grown: P1, 1 to 1000 live", False),
])
def test_promise_is_kept_by_both_of_its_limits(case_id, value, base, figure, met):
    assert promised(case_id, value, base, figure)["met"] is met


@pytest.mark.parametrize("case_id, figure, ends_of_names", [
    ("P1", "end to end", {"pool hit": 2, "pool miss": 7}),
    ("P5", "wall of 100 at once", {"session pool 8": 600, "session pool 100": 100}),
    ("P6", "rate over 20 s", {"lean image": 400, "full image": 220}),
])
def test_promise_depends_on_where_the_box_comes_from(case_id, figure, ends_of_names):
    for end, limit in ends_of_names.items():
        assert promised(case_id, 1, 1, figure, peer=f"glovebox serve, {end}")["limit"] == limit
    assert promised(case_id, 1, 1, figure, peer="glovebox serve, cold") is None


def test_promise_says_what_it_is_about():
    promise = promised("P1", 20, 14)
    assert promise["id"] == "P1" and promise["limit"] == 7 and report.met_text(promise) == "**no**"
    assert promise["text"] == "pool miss: ≤ 7 ms and ≤ 0.5 × python3"
    assert promised("P11", 1, None, "GET /health", "1/s")["text"] == "≥ 50 000 1/s"


@pytest.mark.parametrize("case_id, figure, peer", [
    (None, "end to end", "glovebox serve, pool hit"), ("P1", "until the box is gone", "glovebox serve, pool hit"),
    ("P1", "end to end", "glovebox"), ("P9", "end to end", "glovebox serve"),
])
def test_nothing_is_promised_of_other_rows(case_id, figure, peer):
    assert promised(case_id, 1, 1, figure, peer=peer) is None


def test_every_promise_belongs_to_a_case():
    assert {p.id for p in promises.PROMISES} == {case.promise for case in cases.CASES if case.promise}


# --- the client in C -----------------------------------------------------------------------------------------


def context(glovebox, folder):
    temp = folder / "temp"
    temp.mkdir()
    return main.Context(glovebox, temp, folder, runs=1, quick=True)


@pytest.fixture
def ctx(glovebox, tmp_path):
    return context(glovebox, tmp_path)


@pytest.fixture(scope="module")
def one_ctx(glovebox, tmp_path_factory):
    """For many tests of the client: it is compiled once."""
    return context(glovebox, tmp_path_factory.mktemp("client"))


def test_client_counts_what_is_answered(ctx):
    opened = server.AnswersPeer().open(ctx, None)
    try:
        data = server.request_file(ctx, server.request("GET", "/"))
        figures, _ = opened.load("rate", data, '"status":"ok"', 3, 50, 2)
        assert figures["count"] > 0 and figures["failed"] == 0 and len(figures["slices"]) == 2
        assert 0 < len(figures["ns"]) <= figures["count"]
        figures, _ = opened.load("rate", data, "no such text", 1, 50, 1)
        assert figures["count"] == 0 and figures["failed"] > 0 and "200" in figures["error"]
        figures, _ = opened.load("paced", data, '"status":"ok"', 500, 20)
        assert (len(figures["ns"]), figures["failed"]) == (20, 0)
        figures, _ = opened.load("paced", data, "no such text", 500, 3)
        assert (figures["ns"], figures["failed"]) == ([], 3) and "200" in figures["error"]
        with pytest.raises(OSError, match="200 with 15 bytes of 16"):
            opened.load("down", "/", 16)
        assert opened.load("down", "/", 15)[0]["bytes"] == 15
    finally:
        opened.close()


class Canned(threading.Thread):
    """Answers one client, whatever it asks, with these bytes; `asked` is what it said first."""

    def __init__(self, answer):
        super().__init__(daemon=True)
        self.answer, self.asked = answer, b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        connection, _ = self.listener.accept()
        with self.listener, connection:
            self.asked = connection.recv(65536)
            connection.sendall(self.answer)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_client_reads_chunks(one_ctx, tmp_path):
    fake = Canned(CHUNKED + b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n")
    assert server.load(one_ctx, "chunks", fake.port, "/x?y=z", tmp_path / "kept")[0]["bytes"] == 15
    assert (tmp_path / "kept").read_bytes() == b"hello0123456789" and fake.asked.startswith(b"GET /x?y=z HTTP/1.1\r\n")
    large = CHUNKED + b"300000\r\n" + bytes(0x300000) + b"\r\n0\r\n\r\n"
    assert server.load(one_ctx, "chunks", Canned(large).port, "/")[0]["bytes"] == 0x300000
    for answer in (CHUNKED + b"5\r\nhello\r\n", large[:-3000], CHUNKED + b"zz\r\n", CHUNKED + b"5\r\nhelloX\r\n", CHUNKED + b"0" * 100,
                   b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"HTTP/1.1 404 Not Found\r\n\r\n"):
        with pytest.raises(OSError):
            server.load(one_ctx, "chunks", Canned(answer).port, "/")


def test_client_puts_a_file(one_ctx, tmp_path):
    (tmp_path / "source").write_bytes(b"content")
    fake = Canned(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")
    figures, body = server.load(one_ctx, "put", fake.port, "/a/b", tmp_path / "source")
    assert figures["ns"] > 0 and body.strip() == "{}"
    assert fake.asked.startswith(b"PUT /a/b HTTP/1.1\r\n") and b"Content-Length: 7\r\n" in fake.asked
    with pytest.raises(OSError, match="507"):
        server.load(one_ctx, "put", Canned(b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n").port, "/", tmp_path / "source")


def test_a_tree_that_came_back_is_compared(tmp_path):
    tree = box_files.plant(tmp_path, 150)
    assert len(tree.files) == 150
    tree.check(tree.archive)
    with tarfile.open(tree.archive) as whole, tarfile.open(tmp_path / "less.tar", "w") as less:
        for member in list(whole)[:-1]:
            less.addfile(member, whole.extractfile(member))
    with pytest.raises(OSError, match="149 files"):
        tree.check(tmp_path / "less.tar")


def test_client_knows_a_session_from_another_answer(ctx):
    opened = server.AnswersPeer().open(ctx, None)
    try:
        create, cell = (server.request_file(ctx, data) for data in (b"GET / HTTP/1.1\r\n\r\n", b"GET /{id}\r\n\r\n"))
        figures, _ = opened.load("sessions", create, cell, "", 3, 2, "delete")
        assert (figures["count"], figures["failed"], figures["ns"]) == (0, 3, [])
        assert figures["error"].startswith("new session: 200: ")
        with pytest.raises(OSError, match="{id}"):
            opened.load("sessions", create, create, "", 1, 1, "keep")
        with pytest.raises(OSError, match="200: "):
            opened.load("socket", "/", create, "end", "", 10)
    finally:
        opened.close()


def test_client_refuses_bad_use(ctx):
    for words in ([], ["rate"], ["rate", "x", "/dev/null", "", "1", "1", "1"], ["flood", "1"], ["sessions", "1"],
                  ["put", "1", "/"], ["put", "1", "/", "/missing"], ["chunks", "1"],
                  ["paced", "1", "/dev/null", "", "0", "1"],
                  ["socket", "1"], ["jupyter", "1"], ["jupyter", "1", "/", "v2", "/dev/null", "", "0", "0"],
                  ["kernels", "1", "/dev/null", "/{id}", "v1", "/dev/null", "", "0", "1"]):
        with pytest.raises(OSError):
            server.load(ctx, *words)


class FakeKernels(threading.Thread):
    """Takes one client, and answers every request by messages as told: (channel, type, content), with the id of what they belong to
    where that is another one. The first cell of a connection is answered properly."""

    GOOD = (("iopub", "status", {"execution_state": "busy"}), ("shell", "execute_reply", {"status": "ok"}),
            ("iopub", "status", {"execution_state": "idle"}))

    def __init__(self, framing, answers, takes=True):
        super().__init__(daemon=True)
        self.v1, self.answers, self.takes = framing == "v1", answers, takes
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        connection, _ = self.listener.accept()
        with self.listener, connection, connection.makefile("rwb") as stream:
            while stream.readline() not in (b"\r\n", b""):
                pass
            taken = "Sec-WebSocket-Protocol: v1.kernel.websocket.jupyter.org\r\n" if self.v1 and self.takes else ""
            stream.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n{taken}\r\n".encode())
            stream.flush()
            for answers in (self.GOOD, self.answers):
                request = self.read(stream)
                if request is None:
                    return
                for answer in answers:
                    stream.write(self.frame(request, *answer))
                stream.flush()

    def read(self, stream):
        """msg_id of the next request; None: there is none."""
        head = stream.read(2)
        if not head:
            return None
        size = head[1] & 0x7F
        size = struct.unpack(">H", stream.read(2))[0] if size == 126 else size
        mask = stream.read(4)
        data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(stream.read(size)))
        if not self.v1:
            return json.loads(data)["header"]["msg_id"]
        begin, end = struct.unpack("<QQ", data[16:32])
        return json.loads(data[begin:end])["msg_id"]

    def frame(self, request, channel, kind, content, parent=None):
        header, parent = {"msg_id": "m", "msg_type": kind}, {"msg_id": parent or request}
        if self.v1:
            parts = [channel.encode(), *(json.dumps(part).encode() for part in (header, parent, {}, content))]
            ends = [8 * 7 + sum(map(len, parts[:i])) for i in range(6)]
            data = struct.pack("<7Q", 6, *ends) + b"".join(parts)
        else:
            data = json.dumps({"header": header, "parent_header": parent, "metadata": {"content": {}}, "content": content,
                               "buffers": [], "channel": channel}).encode()
        size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack(">H", len(data))
        return bytes([0x82 if self.v1 else 0x81]) + size + data


def prints(text, name="stdout"):
    return "iopub", "stream", {"name": name, "text": text}


BUSY, REPLY, IDLE = FakeKernels.GOOD
CODE = ("iopub", "execute_input", {"code": 'x = {"a": "]}\\\\"}'})
OTHER = ("iopub", "status", {"execution_state": "idle"}, "another")
FAILED = ("shell", "execute_reply", {"status": "error", "ename": "E"})

# A cell that must print "ab\n" twice: what it is answered, and what the client says of that. None: it is right.
CELLS = [
    ([BUSY, CODE, prints("ab\nab\n"), REPLY, IDLE], None),
    ([BUSY, prints("a"), prints("b\nab"), prints("\n"), REPLY, IDLE], None),
    ([BUSY, prints("ab\nab\n"), IDLE, REPLY], None),
    ([OTHER, BUSY, prints("ab\nab\n"), REPLY, OTHER, IDLE], None),
    ([BUSY, prints("ab\n"), REPLY, IDLE], "printed 3 bytes of 6"),
    ([BUSY, prints("ab\n"), (*prints("ab\n"), "another"), REPLY, IDLE], "printed 3 bytes of 6"),
    ([BUSY, REPLY, IDLE], "printed 0 bytes of 6"),
    ([BUSY, prints("ab\nab\nab\n"), REPLY, IDLE], "printed something else"),
    ([BUSY, prints("ab\naZ\n"), REPLY, IDLE], "printed something else behind 3 bytes"),
    ([BUSY, prints("ab\nab\u2028"), REPLY, IDLE], "printed something else"),
    ([BUSY, prints("ab\n"), prints("ab\n", "stderr"), REPLY, IDLE], "printed elsewhere"),
    ([BUSY, prints("ab\nab\n"), FAILED, IDLE], "replied"),
    ([BUSY, prints("ab\nab\n"), ("iopub", "execute_reply", {"status": "ok"}), IDLE], "replied"),
    ([BUSY, prints("ab\nab\n"), REPLY, REPLY, IDLE], "replied"),
    ([BUSY, prints("ab\nab\n"), ("iopub", "error", {"ename": "E"}), REPLY, IDLE], "said"),
    ([BUSY, prints("ab\nab\n"), ("iopub", "status", {"execution_state": "dead"}), REPLY, IDLE], "is {"),
]


@pytest.mark.parametrize("framing", [kernels.LEGACY, kernels.V1])
@pytest.mark.parametrize("answers, error", CELLS)
def test_client_knows_a_right_cell_from_a_wrong_one(one_ctx, framing, answers, error):
    fake = FakeKernels(framing, answers)
    fake.start()
    content, piece = (server.request_file(one_ctx, data) for data in (kernels.content_of("code"), b"ab\n"))
    figures, _ = server.load(one_ctx, "jupyter", fake.port, "/?session_id=", framing, content, piece, 2, 0)
    fake.join()
    assert (figures["count"], figures["failed"], len(figures["ns"])) == ((1, 0, 1) if error is None else (0, 1, 0))
    assert figures["error"] == "" if error is None else figures["error"].startswith(error.replace('"', "'"))


@pytest.mark.parametrize("framing, answers, takes, error", [
    (kernels.V1, [], False, "does not take v1.kernel"),
    (kernels.V1, [BUSY, REPLY], True, "closed"),
    (kernels.LEGACY, [BUSY, IDLE], True, "closed"),
    (kernels.LEGACY, [BUSY, REPLY, OTHER], True, "closed"),
])
def test_client_waits_for_reply_and_idle(one_ctx, framing, answers, takes, error):
    fake = FakeKernels(framing, answers, takes)
    fake.start()
    content = server.request_file(one_ctx, kernels.content_of("code"))
    with pytest.raises(OSError, match=error):
        server.load(one_ctx, "jupyter", fake.port, "/?session_id=", framing, content, "-", 0, 0)


def test_client_knows_a_kernel_from_another_answer(ctx):
    opened = server.AnswersPeer().open(ctx, None)
    try:
        create = server.request_file(ctx, b"GET / HTTP/1.1\r\n\r\n")
        figures, _ = opened.load("kernels", create, "/{id}", kernels.V1, create, "-", 0, 3)
        assert (figures["count"], figures["failed"], figures["ns"]) == (0, 3, [])
        assert figures["error"].startswith("new kernel: 200: ")
        with pytest.raises(OSError, match="{id}"):
            opened.load("kernels", create, "/", kernels.V1, create, "-", 0, 1)
        with pytest.raises(OSError, match="200: "):
            opened.load("jupyter", "/", kernels.V1, create, "-", 0, 0)
    finally:
        opened.close()


# --- servers -------------------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("number, case_id", [(0, "P1"), (1, "P2")])
def test_one_shot_over_http(ctx, number, case_id):
    """P1 and P2: beside the first peer only."""
    case = cases.CASES[number]
    assert case.promise == case_id
    if main.lacking(case):
        pytest.skip("/usr/bin/python3 has no numpy or no pandas")
    case = dataclasses.replace(case, peers=("python3", "glovebox serve, pool hit", "glovebox serve, pool miss"))
    rows = kinds.latency(case, ctx)
    promises.add_promises(case.promise, rows)
    times = case.options.get("times", 1)
    assert [(row["figure"], row["unit"]) for row in rows] == [
        ("end to end", "ms"), ("end to end", "ms"), ("until the box is gone and the pool is full", "ms"),
        ("end to end", "ms"), ("until the box is gone", "ms")]
    for row in rows:
        assert (row["status"], row["runs"], row["failures"], len(row["samples"])) == ("measured", times, 0, times), row
    assert rows[1]["promise"]["id"] == case_id
    for first, second in ((rows[1], rows[2]), (rows[3], rows[4])):
        assert all(gone >= answered for answered, gone in zip(first["samples"], second["samples"]))


@needs_root
@pytest.mark.parametrize("options, outcome, other", [(("--pool-size", "1"), "hit", "miss"),
                                                     (("--pool-size", "0"), "miss", "hit")])
def test_a_run_that_came_from_elsewhere_is_no_good(ctx, options, outcome, other):
    for wanted in (outcome, other):
        opened = server.ServerPeer("glovebox serve", options=options, outcome=wanted).open(ctx, cases.PRINT)
        try:
            run = opened.once()
        finally:
            opened.close()
        assert run.error is None if wanted == outcome else f"no pool {wanted}" in run.error


def test_server_that_does_not_start_is_a_row(ctx):
    class Broken(FakeCase):
        work = cases.PRINT

    case = Broken(FakePeer("good", [None]))
    case.list += (server.ServerPeer("glovebox serve", options=("--no-such-option",)),)
    (good, broken) = kinds.latency(case, ctx)
    assert good["status"] == "measured"
    assert broken["status"].startswith("does not work here: the server did not start") and broken["runs"] == 0


# What each row of the table must have: case, promise, figures of the server (how they begin), those with a promise.
SERVER_ROWS = [
    ("sustained", "P6", ["rate over", "one run under"], 1),
    ("sustained-full", "P6", ["rate over", "one run under"], 1),
    ("handlers", "P6", ["rate over", "one run under"], 1),
    ("handlers-full", "P6", ["rate over", "one run under"], 1),
    ("files-tmpfs", "P8", ["up,", "down,", "growth of the gate", "growth of the store"], 3),
    ("files-disk", "P8", ["up,", "down,", "growth of the gate", "growth of the store"], 3),
    ("box-files", "P8", ["up,", "down,", "growth of the gate"] * 3, 9),
    ("box-archive", "P8", ["unpack,", "pack,", "growth of the gate"], 1),
    ("flood", "P9", ["through,", "growth of the gate"], 2),
    ("start", "P10", ["to 'listening on'", "to the first answer", "to full pools", "idle: gate and keeper",
                      "idle: supervisor", "idle: keeper", "idle: store", "idle: gate alone"], 3),
    ("requests", "P11", ["GET /health", "one of 16: GET /health", "GET /v1/files", "one of 16: GET /v1/files"], 2),
]


@pytest.fixture(scope="module")
def server_run(glovebox, tmp_path_factory):
    """One quick run of all that is measured of a server: (results, table, names of the files)."""
    out = tmp_path_factory.mktemp("bench")
    done = bench("--quick", "--only", "server", "--runs", "1", "--out", out, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text()), (out / "table.md").read_text(), os.listdir(out)


@needs_root
@pytest.mark.parametrize("name, case_id, figures, count", SERVER_ROWS, ids=[row[0] for row in SERVER_ROWS])
def test_server_row(server_run, name, case_id, figures, count):
    results, table, files = server_run
    (case,) = [case for case in results["cases"] if case["name"] == name]
    if case["skipped"]:
        pytest.skip(case["skipped"])
    rows = [row for row in case["rows"] if row["peer"].startswith("glovebox serve")]
    if rows[0]["status"].startswith(server.NOT_THERE):
        pytest.skip(rows[0]["status"])
    for row in rows:
        assert FIGURES <= set(row) and row["status"] == "measured" and row["failures"] == 0, row["errors"]
        assert row["p50"] is not None and row["how"].startswith("build/glovebox serve")
    begun = [next((f for f in figures if row["figure"].startswith(f)), None) for row in rows]
    assert sorted(begun) == sorted(figures)
    made = [row["promise"] for row in rows if row["promise"]]
    assert len(made) == count and {promise["id"] for promise in made} == ({case_id} if case_id else set())
    assert f"## server: {name}" in table
    assert case_id is None or any(line.startswith(f"| {case_id} |") for line in table.splitlines())
    assert f"server-{name}.png" in files or not importlib.util.find_spec("matplotlib")


@needs_root
def test_server_is_measured_beside_others(server_run):
    results, _, _ = server_run
    first = {case["name"]: case["rows"][0]["peer"] for case in results["cases"] if not case["skipped"]}
    expected = {"sustained": "python3", "sustained-full": "python3", "handlers": "python3", "handlers-full": "python3",
                "files-tmpfs": "cp", "files-disk": "cp", "box-files": "cp", "box-archive": "tar", "flood": "python3 | cat",
                "requests": "answers without looking"}
    assert {name: peer for name, peer in first.items() if name in expected} == {
        name: peer for name, peer in expected.items() if name in first}
    assert results["glovebox_gate_sha256"]


# --- sessions ------------------------------------------------------------------------------------------------

# Figures of each case (how they begin), for every peer that is a server.
SESSION_ROWS = [
    ("first-cell", "P3", ["new session", "of which POST"]),
    ("hot-cell", "P4", ["hot cell"]),
    ("burst", "P5", ["wall of", "wall /", "one session", "p99 / p50"]),
    ("memory", "P7", ["memory per session", "of which keeper", "of which gate"]),
    ("growth", "P13", ["P1", "P2", "P3", "P4 hot cell, HTTP", "P5", "P6", "grown: P1", "grown: P6"]),
    ("hostile", "P14", [f"{series}, {name}" for series in ("hot cell", "hot cell, no pause", "GET /health") for name in
                        ("quiet, before", "quiet, after", *(f"beside: {act.name}" for act in hostile.ACTS))]),
]


@pytest.fixture(scope="module")
def session_run(glovebox, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    done = bench("--quick", "--only", "sessions", "--runs", "1", "--out", out, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text()), done.stderr


@needs_root
@pytest.mark.parametrize("name, case_id, figures", SESSION_ROWS, ids=[row[0] for row in SESSION_ROWS])
def test_session_row(session_run, name, case_id, figures):
    """What a build does not have is said aloud and is no failure; what it has is measured without one."""
    results, said = session_run
    (case,) = [case for case in results["cases"] if case["name"] == name]
    rows = [row for row in case["rows"] if row["peer"].startswith("glovebox serve")]
    assert rows and cases.PEERS[case["rows"][0]["peer"]].name == next(c for c in cases.CASES if c.name == name).peers[0]
    for peer in {row["peer"] for row in rows}:
        own = [row for row in rows if row["peer"] == peer]
        if own[0]["status"].startswith(server.NOT_THERE):
            assert len(own) == 1 and f"NOT MEASURED: sessions / {name}: {peer}: {own[0]['status']}" in said
            continue
        for row in own:
            assert row["status"] == "measured" and row["failures"] == 0 and row["p50"] is not None, row
        for figure in figures:
            assert any(row["figure"].startswith(figure) for row in own), figure
        if not peer.endswith("session pool miss"):
            assert any(row["promise"] and row["promise"]["id"] == case_id for row in own)


@pytest.mark.parametrize("unit, samples, grown", [("ms", ([2, 2, 2], [3, 3, 3]), 1.5), ("1/s", ([300], [200]), 1.5)])
def test_growth_above_one_is_worse(unit, samples, grown):
    points = {("series", unit): [(1, samples[0], []), (10, [], ["oops"]), (1000, samples[1], [])]}
    peer = FakePeer("glovebox serve")
    rows = session_kinds.curve_rows(kinds.Tally(peer, peer), points)
    assert [row.get("live") for row in rows] == [1, 10, 1000, None]
    assert rows[1]["failures"] == 1 and rows[1]["status"].startswith("does not work here")
    assert rows[3]["figure"] == "grown: series, 1 to 1000 live" and rows[3]["p50"] == pytest.approx(grown)


def test_burst_figures():
    part = {"wall": [], "each": [], "one": [], "ratio": []}
    session_kinds.add_burst(part, {"wall_ns": 30e6, "ns": [2e6, 1e6, 3e6]}, 3)
    assert (part["wall"], part["each"], part["one"]) == ([30], [10], [1, 2, 3])
    assert part["ratio"] == [pytest.approx(2.98 / 2)]


@needs_root
def test_every_hostile_act_goes_on(session_run):
    """One that ends, ends while others are measured; one that does not has processor time, but for who stands still."""
    results, _ = session_run
    (case,) = [case for case in results["cases"] if case["name"] == "hostile"]
    rows = [row for row in case["rows"] if row.get("series") == "hot cell"]
    if not rows:
        pytest.skip("this build has no sessions")
    assert [row["beside"] for row in rows] == [hostile.BEFORE, *(act.name for act in hostile.ACTS), hostile.AFTER]
    for row, act in zip(rows[1:-1], hostile.ACTS):
        assert row["limits"]["processes"] and row["runs"] > 0
        # Of one series alone it may have had none: a quick one is over in a tenth of a second, in which others may have both processors.
        if act.way is hostile.lasting:
            assert sum(other["cores"] for other in case["rows"] if other.get("beside") == act.name) > 0, row
    assert sum(row["acts"] for row in rows[1:-1]) > 0


def test_hostile_figures_are_those_of_both_quiet_times():
    peer = FakePeer("glovebox serve")
    part = {name: hostile.Point(kinds.Tally(peer, peer)) for name in (hostile.BEFORE, "act", "broken", hostile.AFTER)}
    for name, samples in ((hostile.BEFORE, [1, 1]), ("act", [6]), (hostile.AFTER, [3, 3])):
        part[name].tally.samples += samples
    for name in ("act", "broken"):
        part[name].limits, part[name].wall_ms, part[name].cpu_ms = {"cpus": 2}, 1000, 1500
    part["broken"].tally.bad("it does not go on")
    rows = hostile.series_rows("series", part["act"].tally, part)
    assert [row["figure"] for row in rows] == [
        "series, quiet, before", "series, beside: act", "series, beside: broken", "series, quiet, after",
        "p99 / quiet: series, beside: act"]
    assert rows[1]["times_quiet"] == {"p50": 3, "p95": 2, "p99": 2} and rows[1]["cores"] == 1.5
    assert rows[2]["failures"] == 1 and rows[2]["times_quiet"]["p99"] is None
    assert rows[4]["p50"] == 2 and rows[4]["unit"] == "×"


class FakeAttack:
    def __init__(self):
        self.times, self.error, self.limits, self.act, self.ms = 3, None, {"cpus": 2}, hostile.ACTS[0], 0

    def cpu_ms(self):
        self.ms += 500
        return self.ms


def test_what_is_measured_beside_an_act():
    peer = FakePeer("glovebox serve")
    point, attack = hostile.Point(kinds.Tally(peer, peer)), FakeAttack()

    def way():
        attack.times += 2
        return [1000000, 2000000], 1, "oops"

    def fails():
        raise OSError("no answer")

    point.beside(attack, way)
    assert (point.tally.samples, point.tally.failures, point.tally.errors) == ([1, 2], 1, ["oops"])
    assert (point.acts, point.cpu_ms, point.limits) == (2, 500, {"cpus": 2})
    point.beside(attack, fails)
    attack.error = "it ended"
    point.beside(attack, way)
    assert point.tally.errors == ["oops", "no answer", "fork bomb: it ended"] and point.acts == 4


@needs_root
@pytest.mark.parametrize("act, error", [
    (hostile.Act("wrong end", hostile.answered, "1 / 0", ("ok",)), "a cell ended otherwise"),
    (hostile.Act("over too soon", hostile.lasting, "print('up')"), "it ended"),
    (hostile.Act("never begins", hostile.lasting, "1"), "it ended"),
])
def test_an_act_that_does_not_go_on_is_a_failure(ctx, act, error):
    running = server.Server(ctx, ("--session-pool-size", "0"))
    try:
        attack = hostile.Attack(running, act)
        try:
            attack.begin()
            deadline = time.monotonic() + 60
            while attack.error is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert error in (attack.error or "")
        except OSError as e:
            assert error in str(e)
        finally:
            attack.stop()
    finally:
        running.stop()


@needs_root
def test_connection_that_was_idle_for_too_long_is_opened_again(ctx):
    options = ("--pool-size", "0", "--idle-timeout", "1s")
    opened = server.ServerPeer("glovebox serve", options=options).open(ctx, cases.PRINT)
    try:
        opened.once()
        deadline = time.monotonic() + 20
        while connections(opened.server.port) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert opened.once().error is None
    finally:
        opened.close()


def connections(port):
    """How many the server has at this port, as the kernel sees it."""
    lines = pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


@pytest.mark.parametrize("text, found", [
    (b'glovebox_pool_boxes{state="waiting"} 8\nglovebox_pool_boxes{state="making"} 1\n', (8, 1, 0)),
    (b'glovebox_pool_boxes{pool="a",state="waiting"} 8\nglovebox_session_pool_boxes{state="waiting"} 3\n', (11, 0, 0)),
    (b'glovebox_pool_taken_total{outcome="hit"} 5\nglovebox_pool_taken_total{outcome="miss"} 2\n', (0, 0, 5)),
    (b'# TYPE glovebox_pool_boxes gauge\nglovebox_pool_made_total 9\n', (0, 0, 0)),
])
def test_pools_are_read_from_metrics(text, found):
    pools = server.pools_of(text)
    assert (pools["waiting"], pools["making"], pools["hit"]) == found


# --- Jupyter -------------------------------------------------------------------------------------------------

# Figures of each case (how they begin), for every peer that is a server.
JUPYTER_ROWS = [
    ("hot-cell", ["hot cell"]),
    ("print-lines", ["through, 3 MB", "growth of the"]),
    ("print-large", ["through, 32 MB", "growth of the"]),
    ("burst", ["wall of", "wall /", "one session", "p99 / p50"]),
]
needs_jupyter = pytest.mark.skipif(bool(cases.PEERS["jupyter_server, v1 framing"].missing(None)), reason="no jupyter_server, or no ipykernel")


@pytest.fixture(scope="module")
def jupyter_run(glovebox, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    done = bench("--quick", "--only", "jupyter", "--runs", "1", "--out", out, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text())


@needs_root
@needs_jupyter
@pytest.mark.parametrize("name, figures", JUPYTER_ROWS, ids=[row[0] for row in JUPYTER_ROWS])
def test_jupyter_row(jupyter_run, name, figures):
    """Both servers, every framing: measured, and not one failure."""
    (case,) = [case for case in jupyter_run["cases"] if case["name"] == name]
    (wanted,) = [case for case in cases.CASES if (case.group, case.name) == ("jupyter", name)]
    assert list(dict.fromkeys(row["peer"] for row in case["rows"])) == list(wanted.peers)
    for peer in wanted.peers:
        rows = [row for row in case["rows"] if row["peer"] == peer]
        for row in rows:
            assert row["status"] == "measured" and row["failures"] == 0 and row["p50"] is not None, row
        if peer.startswith(("glovebox serve", "jupyter_server")):
            assert [any(row["figure"].startswith(figure) for row in rows) for figure in figures] == [True] * len(figures)
        promised = {row["promise"]["id"] for row in rows if row["promise"]}
        assert promised == ({wanted.promise} if wanted.promise and peer.startswith("glovebox serve") else set())


@needs_jupyter
def test_jupyter_server_leaves_nothing_behind(ctx):
    opened = cases.PEERS["jupyter_server, v1 framing"].open(ctx, cases.ASSIGN)
    try:
        times, failed, error = opened.cells(1)
        pids = [pid for pid, _ in launch.family(opened.host.process.pid)]
        assert times and (failed, error) == (0, "") and len(pids) > 1
    finally:
        opened.close()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


# --- the Python SDK --------------------------------------------------------------------------------------------

SDK_PEERS = ["http.client, one connection", "glovebox SDK, blocking", "glovebox SDK, asyncio", "glovebox serve, HTTP keep-alive"]
needs_sdk = pytest.mark.skipif(not all(importlib.util.find_spec(name) for name in sdk.NEEDS), reason="no h11, or no websockets")


@needs_root
@needs_sdk
def test_sdk_rows(glovebox, tmp_path):
    """Every client: measured, without a failure; those in Python say what processor time they had."""
    done = bench("--quick", "--only", "sdk", "--runs", "1", "--out", tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    (case,) = json.loads((tmp_path / "results.json").read_text())["cases"]
    for row in case["rows"]:
        assert row["status"] == "measured" and row["failures"] == 0 and row["p50"] > 0 and row["promise"] is None, row
    found = [(row["peer"], row["figure"]) for row in case["rows"]]
    assert found == [(peer, figure) for peer in SDK_PEERS for figure in ("hot cell", session_kinds.PROCESSOR)][:-1]


def raises():
    raise ValueError("boom")


@pytest.mark.parametrize("call, good, error", [(lambda: ("ok", ""), True, ""), (lambda: ("error", ""), False, "answered ('error', '')"),
                                               (lambda: ("ok", "x"), False, "answered ('ok', 'x')"), (raises, False, "ValueError: boom")])
def test_a_call_counts_when_its_answer_was_right(call, good, error):
    async def awaited():
        return call()

    def said(result):
        return result

    for times, failed, why, processor in (sdk.timed(call, said, "", 5), asyncio.run(sdk.timed_async(awaited, said, "", 5))):
        assert (bool(times), bool(failed), why) == (good, not good, error)
        assert not good or 0 < processor


def test_raw_client_wants_the_right_status():
    with pytest.raises(OSError, match="status 404: no"):
        sdk.Raw(Canned(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno").port)


@needs_root
@needs_sdk
def test_client_whose_server_dies_is_a_failure(ctx):
    opened = cases.PEERS["glovebox SDK, blocking"].open(ctx, cases.ASSIGN)
    try:
        assert opened.cells(1)[0]
        opened.server.stop()
        times, failed, error, _ = opened.cells(1)
        assert (times, failed) == ([], 1) and "ServerUnreachable" in error
    finally:
        opened.close()


class FakeClient(FakePeer):
    def cells(self, _milliseconds):
        return [1000000, 3000000], 0, "", 500000


def test_processor_time_is_that_of_a_call():
    case = FakeCase(FakeClient("client"))
    case.options = {"figure": "hot cell"}
    cell, processor = session_kinds.hot(case, FakeContext())
    assert (cell["figure"], cell["unit"], cell["p50"], cell["runs"]) == ("hot cell", "ms", 2, 16)
    assert (processor["figure"], processor["unit"], processor["p50"], processor["runs"]) == (session_kinds.PROCESSOR, "µs", 250, 8)


# --- environments ----------------------------------------------------------------------------------------------

# Figures of each case, by peer, in their order.
BUILT = ["build", packages.FIRST]
STARTED = ["start to first result", "of which POST /v1/boxes"]
ENVIRONMENT_ROWS = [
    ("build", {"python3 -m venv, pip": BUILT, "glovebox serve, a new environment": [*BUILT, packages.IMAGE]}),
    ("start", {"python3 of a venv": STARTED[:1], "glovebox serve, environment, pool hit": STARTED, "glovebox serve, environment, pool miss": STARTED}),
    ("import", {"tar -x": ["unpacked, 64 MiB"], "glovebox env import": ["unpacked, 64 MiB"]}),
    ("import-gzip", {"tar -x": ["unpacked, 64 MiB"], "glovebox env import": ["unpacked, 64 MiB"]}),
]


@pytest.fixture(scope="module")
def environment_run(glovebox, tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    done = bench("--quick", "--only", "environments", "--runs", "1", "--out", out, timeout=900)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir() if path.is_dir()) == [], "no image is left"
    return json.loads((out / "results.json").read_text())


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("name, figures", ENVIRONMENT_ROWS, ids=[row[0] for row in ENVIRONMENT_ROWS])
def test_environment_row(environment_run, name, figures):
    """Both sides: measured, and not one failure; nothing is promised."""
    (case,) = [case for case in environment_run["cases"] if case["name"] == name]
    found = {}
    for row in case["rows"]:
        if row["status"].startswith("not "):
            pytest.skip(row["status"])
        assert row["status"] == "measured" and row["failures"] == 0 and row["p50"] > 0 and row["promise"] is None, row
        found.setdefault(row["peer"], []).append(row["figure"])
    assert found == figures


@pytest.fixture
def image(tmp_path):
    return imports.make(tmp_path, 1 << 20, compressed=True)


def test_an_image_is_what_it_says(image):
    index = json.loads((image.layout / "index.json").read_text())
    blobs = {path.name: path.read_bytes() for path in (image.layout / "blobs" / "sha256").iterdir()}
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in blobs.items())
    manifest = json.loads(blobs[index["manifests"][0]["digest"].removeprefix("sha256:")])
    assert len(manifest["layers"]) == imports.LAYERS == len(image.layers)
    for layer, path in zip(manifest["layers"], image.layers):
        assert layer["digest"] == f"sha256:{path.name}" and layer["size"] == path.stat().st_size and layer["mediaType"].endswith("+gzip")
    assert image.bytes >= 1 << 20 and sum(size for size, _ in image.files.values()) < image.bytes
    assert sum(path.stat().st_size for path in image.layers) > image.bytes // 2, "not easy to compress"


def test_what_was_unpacked_is_compared(ctx, image):
    opened = imports.TarPeer("tar -x").open(ctx, image)
    try:
        assert opened.unpack(whole=True) > 0 and not opened.tree.exists()
        path, (size, _) = next(iter(image.files.items()))
        for files, error in (({"usr/share/bench/none": (1, b"")}, "is not there"), ({path: (size + 1, b"")}, "is another file"), ({path: (size, b"")}, "is another file")):
            image.files |= files
            with pytest.raises(OSError, match=error):
                opened.unpack(whole=True)
            image.files.pop("usr/share/bench/none", None)
        del image.files[path]
        with pytest.raises(OSError, match=f"files, not {len(image.files)}"):
            opened.unpack(whole=False)
        assert not opened.tree.exists()
    finally:
        opened.close()


def test_packages_are_all_required(tmp_path):
    place, requirements = packages.plant(tmp_path)
    assert {path.name.partition("-")[0] for path in place.iterdir()} == set(packages.NAMES)
    assert [line.partition("==")[0] for line in requirements.read_text().split()] == packages.NAMES
    sys_path = ", ".join(repr(str(path)) for path in place.iterdir())
    done = subprocess.run([peers.PYTHON, "-B", "-c", f"import sys; sys.path[:0] = [{sys_path}]\n{packages.CODE}"], capture_output=True, check=False)
    assert done.stdout == cases.PACKAGED.expect, done.stderr


def test_program_without_environments_is_a_row(ctx, tmp_path):
    ctx.glovebox = tmp_path / "glovebox"
    for name in ("glovebox", "glovebox-gate"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 125\n")
        (tmp_path / name).chmod(0o755)
    for peer in ("glovebox env import", "glovebox serve, a new environment"):
        assert cases.PEERS[peer].missing(ctx) == f"{server.NOT_THERE}: there is no `glovebox env`"


# --- tools -----------------------------------------------------------------------------------------------------

TOOL_ROWS = [("call", ["tool call"]), ("loop", ["1 000 calls", "of which one call"])]


@pytest.fixture(scope="module")
def tool_run(glovebox, tmp_path_factory):
    try:
        tools.installed()
    except server.NotThere as e:
        pytest.skip(str(e))
    out = tmp_path_factory.mktemp("bench")
    done = bench("--quick", "--only", "tools", "--runs", "1", "--out", out, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "results.json").read_text())


@needs_root
@pytest.mark.parametrize("name, figures", TOOL_ROWS)
def test_tool_row(tool_run, name, figures):
    (case,) = [case for case in tool_run["cases"] if case["name"] == name]
    assert [row["peer"] for row in case["rows"]] == [peer for peer in ("npm's sdk", "glovebox serve, tools") for _ in figures]
    for row in case["rows"]:
        assert row["status"] == "measured" and row["failures"] == 0 and row["p50"] is not None, row
        assert any(row["figure"].startswith(figure) for figure in figures)


class FakeCalls(tools.Calls):
    def __init__(self, **done):
        self.done = {"ns": [1] * tools.LOOP, "wall_ns": 5 * tools.LOOP, "failed": 0, "error": "", **done}

    def ask(self, what):
        assert what in ({"ms": 7}, {"calls": tools.LOOP})
        return self.done


@pytest.mark.parametrize("done, error", [({}, None), ({"ns": [1], "failed": 999, "error": "boom"}, "999 of 1000 calls failed: boom"), ({"ns": [1]}, "0 of 1000 calls failed")])
def test_a_loop_counts_when_every_call_was_right(done, error):
    calls = FakeCalls(**done)
    assert calls.cells(7) == (calls.done["ns"], calls.done["failed"], calls.done["error"])
    run = calls.once()
    assert run.error is None and run.parts == {"of which one call, mean": 5} if error is None else error in run.error


@pytest.mark.parametrize("peer", ["npm's sdk", "glovebox serve, tools"])
def test_without_npm_it_is_said(ctx, monkeypatch, peer):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cases.PEERS[peer].missing(ctx) == "no node: programs of npm cannot be tried"


# --- the report ----------------------------------------------------------------------------------------------


def canned():
    def row(peer, figure, unit, samples, failures=0, status="measured", errors=()):
        return {"peer": peer, "status": status, "figure": figure, "unit": unit, "holds": "x", "how": f"/bin/{peer}",
                **stats.summary(samples, failures), "samples": samples, "errors": list(errors)}

    steps = [row("glovebox --json", name, "µs", [value]) for name, value in
             (("cheap", 1), ("dear", 900), ("middle", 99), ("(set-up: all)", 1100), ("(end to end)", 9000))]
    return {
        "schema": 1, "quick": True, "runs": 10, "interrupted": False, "notes": ["a note"],
        "machine": {"cpu": "Some CPU", "cores": 2, "virtual": True, "governor": "unknown", "memory_bytes": 1 << 34,
                    "kernel": "6.1", "architecture": "x86_64", "system": "Debian", "cgroups": "v2", "user": "root",
                    "build": {"buildtype": "release"}, "load_before": [1.5, 1, 1], "load_after": [2, 1, 1],
                    "steal_percent": 0.0},
        "peers": {"a | b": {"path": "/bin/a", "status": "present", "holds": "nothing", "version": "a 1"},
                  "c": {"path": "/bin/c", "status": "not installed", "holds": "nothing", "version": None}},
        "cases": [
            {"group": "one shot", "name": "print", "kind": "latency", "what": "w", "skipped": None,
             "load_before": [0.5, 0, 0], "load_after": [9, 0, 0], "rows": [
                row("a | b", "end to end", "ms", [10, 10]), row("glovebox", "end to end", "ms", [25], 1,
                                                               errors=["boom"]),
                row("c", "end to end", "ms", [], status="not installed")]},
            {"group": "one shot", "name": "heavy", "kind": "latency", "what": "w", "skipped": "cannot import x",
             "rows": []},
            {"group": "plan", "name": "steps", "kind": "plan", "what": "w", "skipped": None, "rows": steps,
             "load_before": [0.5, 0, 0], "load_after": [0.6, 0, 0]},
        ],
    }


def test_table_says_it_all():
    text = report.markdown(canned(), 'STEP(dear,  MOUNT_NS, "what is dear")\n')
    lines = text.splitlines()
    assert "**Quick run: 10 runs per figure. Not to be quoted.**" in lines
    assert any("busy" in line for line in lines)
    assert "| a \\| b | ms | 10.0 | 10.0 | 10.0 | 10.0 | 10.0 | 2 | 0 | 1.00 |" in lines
    assert "| **glovebox** | ms | 25.0 | 25.0 | 25.0 | 25.0 | 25.0 | 2 | 1 | 2.50 |" in lines
    assert "| c: **not installed** | ms | – | – | – | – | – | 0 | 0 | – |" in lines
    assert "- glovebox failed with: boom" in lines
    assert "Load average before 0.5, after 9: **busy with something else**." in lines
    assert "Load average before 0.5, after 0.6." in lines
    assert "**Skipped: cannot import x**" in lines
    order = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert order == ["dear", "middle", "cheap"]
    assert any("90.0 %" in line and "what is dear" in line for line in lines)


def test_table_of_hostile_acts():
    results = canned()
    row = {"peer": "glovebox serve", "status": "measured", "unit": "ms", "holds": "x", "how": "", "samples": [], "errors": [],
           "promise": None, "series": "hot cell"}
    quiet = {**row, **stats.summary([1]), "figure": "hot cell, quiet, before", "beside": "quiet, before", "limits": None,
             "acts": None, "cores": None, "times_quiet": {"p50": 1, "p95": 1, "p99": 1}}
    act = {**row, **stats.summary([3], 1), "figure": "hot cell, beside: spins", "beside": "spins", "limits": {"cpus": 2},
           "acts": 0, "cores": 1, "times_quiet": {"p50": 3, "p95": 3, "p99": 3}}
    ratio = {**row, **stats.summary([3]), "figure": "p99 / quiet: hot cell, beside: spins", "unit": "×",
             "promise": {"id": "P14", "text": "≤ 2 ×", "limit": 2, "met": False}}
    results["cases"].append({"group": "sessions", "name": "hostile", "kind": "beside", "what": "w", "skipped": None,
                             "load_before": [0, 0, 0], "load_after": [99, 0, 0], "rows": [quiet, act, ratio]})
    lines = report.markdown(results).splitlines()
    assert "| hot cell, ms | quiet, before | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1 | 0 | – | – |  |" in lines
    assert "| hot cell, ms | spins | 3.00 | 3.00 | 3.00 | 3.00 | 3.00 | 3.00 | 2 | 1 | 1.00 | 0 | **no** |" in lines
    assert any("cpus 2" in line and "2 cores" in line for line in lines)
    assert "Load average before 0, after 99." in lines


def canned_with_promise():
    results = canned()
    results["cases"][0]["rows"][1]["promise"] = {"id": "P1", "text": "≤ 7 ms", "limit": 7, "met": False}
    return results


def test_table_shows_a_promise_and_whether_it_is_kept():
    lines = report.markdown(canned_with_promise()).splitlines()
    assert "| P1 | one shot: print | end to end | ≤ 7 ms | 25.0 ms | **no** |" in lines
    assert any(line.endswith("| 2 | 1 | 2.50 | ≤ 7 ms | **no** |") for line in lines)
    assert "| a \\| b | ms | 10.0 | 10.0 | 10.0 | 10.0 | 10.0 | 2 | 0 | 1.00 |  |  |" in lines
    assert "## Promises" not in report.markdown(canned())


@pytest.mark.parametrize("results", [canned(), canned_with_promise()])
def test_table_columns_agree(results):
    width = None
    for line in report.markdown(results).splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = line.replace("\\|", "").count("|")
        assert width in (None, cells), line
        width = cells


# --- the command ---------------------------------------------------------------------------------------------


def test_help_and_list():
    assert "--only" in bench("--help").stdout
    done = bench("--list")
    assert done.returncode == 0, done.stderr
    for case in cases.CASES:
        assert f"{case.group}/{case.name}: " in done.stdout
    assert "/usr/bin/python3" in done.stdout


@pytest.mark.parametrize("only, names", [
    (["P1"], {"print"}), (["P1", "P13"], {"print", "growth"}), (["burst", "plan"], {"burst", "steps"}),
])
def test_only_names_cases_and_promises(only, names):
    options, _ = main.parse("", ["--only", ",".join(only)])
    assert options.only == only and {case.name for case in main.chosen(options.only)} == names


@pytest.mark.parametrize("words, message", [
    (("--only", "no-such-case"), "no case matches"), (("--runs", "0"), "above 0"), (("--runs", "many"), "invalid"),
])
def test_bad_use_is_refused(words, message):
    done = bench(*words)
    assert done.returncode == 2 and message in done.stderr


def test_quick_run_of_one_case(glovebox, tmp_path):
    done = bench("--quick", "--only", "plan", "--runs", "2", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "results.json").read_text()
    results = json.loads(text)
    assert results["schema"] == 1 and results["quick"] is True and results["runs"] == 2
    assert {"cpu", "cores", "kernel", "load_before", "load_after"} <= set(results["machine"])
    assert os.uname().nodename not in json.dumps(results["machine"])
    assert results["peers"]["glovebox --json"]["version"]
    (case,) = results["cases"]
    assert (case["group"], case["name"]) == ("plan", "steps")
    for row in case["rows"]:
        assert FIGURES <= set(row) and row["status"] == "measured"
        assert (row["runs"], row["failures"], len(row["samples"])) == (2, 0, 2)
    figures = {row["figure"] for row in case["rows"]}
    assert {"root_tree", "seccomp", "(end to end)"} <= figures
    assert "## plan: steps" in (tmp_path / "table.md").read_text()
