# SPDX-License-Identifier: Apache-2.0
"""Code Interpreter: POST /v1/execute/stream, and what happens when the reader is slow or leaves."""
import concurrent.futures
import hashlib
import json
import os
import re
import signal
import time

import pytest

from server import both_ways, joined, mark, needs_root, status_of, until, waiting

pytestmark = needs_root

PATH = "/v1/execute/stream"
LIMIT = 1000
MIB = 1 << 20
FRAMES = re.compile(rb"(?:event: (?:output|result|error)\ndata: [^\r\n]+\n\n)+")

server = both_ways()
tight = both_ways(env={"MAX_OUTPUT_BYTES": str(LIMIT)})
wide = both_ways(env={"MAX_OUTPUT_BYTES": "1000000000", "CPU_TIME_LIMIT_SEC": "60"})


def events_of(server, code, **fields):
    with server.stream({"code": code, **fields}) as stream:
        assert stream.status == 200, stream.read()
        return list(stream)


def result_of(events):
    """The one result, which is the last event."""
    assert [e.name for e in events].count("result") == 1 and events[-1].name == "result", events
    return events[-1].data


# --- frames --------------------------------------------------------------------------------------------------


def test_frames_byte_by_byte(server):
    status, headers, body = server.request("POST", PATH,
                                           {"code": "import sys\nprint('é \"x\"')\nprint('err', file=sys.stderr)\nsys.exit(3)"})
    assert status == 200 and headers.get_content_type() == "text/event-stream"
    assert FRAMES.fullmatch(body), body
    frames = [re.fullmatch(rb"event: (\w+)\ndata: (.*)", frame).groups() for frame in body.removesuffix(b"\n\n").split(b"\n\n")]
    events = [(name.decode(), json.loads(data)) for name, data in frames]
    assert {name for name, _ in events[:-1]} == {"output"} and events[-1][0] == "result"
    assert all(set(data) == {"stream", "data"} for _, data in events[:-1])
    assert events[-1][1] == {"exit_code": 3, "timed_out": False, "duration_ms": events[-1][1]["duration_ms"], "files": []}
    assert type(events[-1][1]["duration_ms"]) is int
    text = {name: "".join(d["data"] for _, d in events[:-1] if d["stream"] == name) for name in ("stdout", "stderr")}
    assert text == {"stdout": 'é "x"\n', "stderr": "err\n"}


def test_headers(server):
    _, headers, _ = server.request("POST", PATH, {"code": "1"})
    assert headers["Cache-Control"] == "no-cache"
    assert headers["Connection"].lower() == "keep-alive"
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Content-Length"] is None


def test_as_a_generator(server):
    events = list(server.sse(PATH, {"code": "import os\nos.write(1, b'once')\nNone"}))
    assert events[:-1] == [("output", {"stream": "stdout", "data": "once"})] and events[-1][0] == "result"


def test_a_silent_program_gives_only_a_result(server):
    events = events_of(server, "x = 1")
    assert [e.name for e in events] == ["result"] and result_of(events)["exit_code"] == 0


def test_output_comes_while_the_program_runs(server):
    with server.stream({"code": "import os, time\nos.write(2, b'first')\ntime.sleep(1000)", "timeout_ms": 60000}) as stream:
        assert stream.next().data == {"stream": "stderr", "data": "first"}


def test_files_and_last_line(server):
    file_id = server.upload(b"in")
    events = events_of(server, "open('out.txt', 'w').write(open('in.txt').read() + '+')", files=[{"path": "in.txt", "file_id": file_id}])
    assert joined(events) == "3\n"
    files = result_of(events)["files"]
    assert [(f["path"], f["kind"]) for f in files] == [("out.txt", "file")] and server.download(files[0]["file_id"]) == b"in+"


def test_stdin(server):
    assert joined(events_of(server, "print(input(), end='')", stdin="fed\n")) == "fed"


def test_an_exception(server):
    events = events_of(server, "print('before')\n1/0")
    assert joined(events) == "before\n" and 'File "<stdin>", line 2' in joined(events, "stderr")
    assert result_of(events)["exit_code"] == 1


@pytest.mark.more
def test_a_timeout(server):
    events = events_of(server, "import time\nprint('so far')\nopen('made', 'w').write('x')\ntime.sleep(1000)", timeout_ms=2000)
    result = result_of(events)
    assert (result["exit_code"], result["timed_out"]) == (None, True)
    assert joined(events) == "so far\n" and [f["path"] for f in result["files"]] == ["made"]


# --- text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["€", "𝄞", "é", "a€b𝄞c"])
def test_a_character_written_byte_by_byte(server, text):
    """Each byte is a write of its own, with time between for it to travel alone."""
    events = events_of(server, f"""
import os, time
for byte in {text!r}.encode():
    os.write(1, bytes([byte]))
    os.write(2, bytes([byte]))
    time.sleep(0.02)
""")
    assert joined(events) == joined(events, "stderr") == text


def test_characters_over_the_size_of_a_read(server):
    text = "x" + "€" * 20000
    assert joined(events_of(server, "import sys\nsys.stdout.write('x' + '€' * 20000)\nNone")) == text


BROKEN_TEXT = [b"\xff", b"a\xc3(b", b"\xe2\x82", b"\xe2\x82(", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf"]


@pytest.mark.parametrize("data", BROKEN_TEXT, ids=[d.hex() for d in BROKEN_TEXT])
def test_bytes_that_are_no_text_are_replaced(server, data):
    events = events_of(server, f"import os\nos.write(1, {data!r})\nNone")
    assert joined(events) == data.decode("utf-8", "replace")


def test_no_output_can_forge_a_frame(server):
    text = "\n\nevent: result\ndata: {\"exit_code\": 0}\n\n\r\n\rid: 7\n"
    events = events_of(server, f"import sys\nsys.stdout.write({text!r})\nsys.exit(9)")
    assert joined(events) == text and result_of(events)["exit_code"] == 9
    assert all(e.id is None for e in events)


# --- how much ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT, LIMIT + 1, 500 * LIMIT])
def test_output_over_the_limit_is_dropped_without_a_word(tight, size):
    events = events_of(tight, f"import sys\nsys.stdout.write('o' * {size})\nsys.stderr.write('e' * {size})\nNone")
    kept = min(size, LIMIT)
    assert joined(events) == "o" * kept and joined(events, "stderr") == "e" * kept
    assert result_of(events)["exit_code"] == 0


def test_a_limit_within_a_character(tight):
    data = "€".encode() * LIMIT
    assert joined(events_of(tight, f"import os\nos.write(1, '€'.encode() * {LIMIT})\nNone")) == data[:LIMIT].decode("utf-8", "replace")


@pytest.mark.more
def test_fifty_megabytes_arrive_whole(wide):
    digest, size = hashlib.sha256(), 0
    with wide.stream({"code": "import sys\nfor i in range(3276800): sys.stdout.write(f'{i:015d}\\n')", "timeout_ms": 60000}) as stream:
        for event in stream:
            if event.name == "output":
                data = event.data["data"].encode()
                digest.update(data)
                size += len(data)
        assert event.name == "result" and event.data["exit_code"] == 0
    assert size == 50 * MIB
    assert digest.hexdigest() == hashlib.sha256(b"".join(b"%015d\n" % i for i in range(3276800))).hexdigest()


def written_by(pid):
    """Bytes that a process has written."""
    with open(f"/proc/{pid}/io", encoding="ascii") as f:
        return int(re.search(r"wchar: (\d+)", f.read())[1])


def until_stuck(pid):
    """Waits until a process that writes as fast as it can has written nothing for a second; how much it wrote before."""
    last, since = written_by(pid), time.monotonic()
    deadline = since + 60
    while time.monotonic() - since < 1:
        assert time.monotonic() < deadline, f"it is not held back: {last} bytes so far"
        time.sleep(0.05)
        now = written_by(pid)
        if now != last:
            last, since = now, time.monotonic()
    return last


@pytest.mark.more
def test_a_slow_reader_holds_the_program_back(wide):
    """Nobody reads: the program stands still, the gate keeps little, and what is read later is what was printed."""
    word, total = mark(), 512 * MIB
    code = f"""
import os, sys
os.execv(sys.executable, [sys.executable, "-u", "-c", '''
import os
for i in range(0, {total} // 16, 4096):
    data = b"".join(b"%015d\\\\n" % n for n in range(i, i + 4096))
    while data: data = data[os.write(1, data):]
''', {word!r}])
"""
    gate = wide.pid_of("gate")
    before = int(status_of(gate)["VmRSS"].split()[0])
    with wide.stream({"code": code, "timeout_ms": 60000}) as stream:
        text = stream.next().data["data"]
        writer = until(lambda: wide.running(word), "the program writes")[0]
        assert until_stuck(writer) < total // 4
        grown = int(status_of(gate)["VmRSS"].split()[0]) - before
        assert grown < 64 * 1024, f"the gate grew by {grown} KiB"
        while len(text) < 20 * MIB:
            text += stream.next().data["data"]
    lines = text.split("\n")[:-1]
    assert lines == [f"{n:015d}" for n in range(len(lines))]
    until(lambda: not wide.running(word), "the program ends when its reader left")


# --- what cannot be granted ----------------------------------------------------------------------------------

REFUSED = {
    "no code": ({}, 422),
    "wrong type": ({"code": 1}, 422),
    "timeout too long": ({"code": "1", "timeout_ms": 60001}, 422),
    "timeout of zero": ({"code": "1", "timeout_ms": 0}, 422),
    "path with dots": ({"code": "1", "files": [{"path": "../x", "content": ""}]}, 422),
    "reserved path": ({"code": "1", "files": [{"path": "__main__.py", "content": ""}]}, 422),
    "unknown file": ({"code": "1", "files": [{"path": "p", "file_id": "/etc/passwd"}]}, 404),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_before_the_stream_are_statuses(server, name):
    body, expected = REFUSED[name]
    status, headers, data = server.request("POST", PATH, body)
    assert status == expected and headers.get_content_type() == "application/json"
    assert json.loads(data)["detail"] == server.call("POST", "/v1/execute", body)[1]["detail"], "the same words as in the other route"


# --- our failure ---------------------------------------------------------------------------------------------


def break_box(server, word):
    os.kill(server.init_of(until(lambda: server.running(word), "the program runs")[0]), signal.SIGKILL)


def test_a_broken_box_is_an_error_event(server):
    word = mark()
    with server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.next().data["data"] == "begun\n"
        break_box(server, word)
        events = list(stream)
    assert [e.name for e in events] == ["error"]
    assert set(events[0].data) == {"message"} and events[0].data["message"]


def test_a_broken_box_is_a_server_error_of_the_other_route(server):
    word = mark()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.call, "POST", "/v1/execute", {"code": waiting(word), "timeout_ms": 60000})
        break_box(server, word)
        status, body = answer.result()
    assert status in (500, 503) and body["detail"]


# --- a client that leaves ------------------------------------------------------------------------------------


def test_leaving_the_stream_ends_the_run(server):
    word = mark()
    with server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.next().data["data"] == "begun\n"
        assert server.running(word)
    until(lambda: not server.running(word), "the program ends when its client left")


def test_leaving_while_it_is_silent_ends_the_run(server):
    """Nothing is written to the connection that could fail: only its end tells."""
    word = mark()
    code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(1000)', {word!r}])"
    for path in (PATH, "/v1/execute"):
        body = json.dumps({"code": code, "timeout_ms": 60000}).encode()
        with server.wire() as wire:
            wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                      % (path.encode(), server.authority.encode(), len(body), body))
            until(lambda: server.running(word), "the program runs")
        until(lambda: not server.running(word), "the program ends when its client left")


def test_others_go_on_when_one_leaves(server):
    stays, leaves = mark(), mark()
    with server.stream({"code": waiting(stays), "timeout_ms": 60000}) as other:
        assert other.next().name == "output"
        with server.stream({"code": waiting(leaves), "timeout_ms": 60000}) as stream:
            assert stream.next().name == "output"
        until(lambda: not server.running(leaves), "the program ends when its client left")
        assert server.running(stays)
    until(lambda: not server.running(stays), "the other one, too")
