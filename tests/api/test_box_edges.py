# SPDX-License-Identifier: Apache-2.0
"""Corners of cells and kernels: ends that cross each other, records, spills, floods, clients that do not read."""
import base64
import json
import threading

import pytest

from cells import NO_POOL, Session, check_events, kill, shown, text, value
from server import needs_root, serve, until  # noqa: F401
from test_box_stream import Link

pytestmark = [needs_root, pytest.mark.more]

MIB = 1 << 20


@pytest.fixture
def server(serve):
    return serve(env=NO_POOL)


@pytest.fixture
def box(server):
    with Session(server) as box:
        yield box


def head(method, path, body=b""):
    type_ = b"Content-Type: application/json\r\n" if body else b""
    return b"%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s" % (method.encode(), path.encode(), type_, len(body), body)


# --- an answer brings the connection's next request ----------------------------------------------------------


def pipelined(server, *requests):
    gate = server.pid_of("gate")
    with server.wire() as wire:
        wire.send(b"".join(requests))
        statuses = [wire.response().status for _ in requests]
    assert server.pid_of("gate") == gate, "the gate has died"
    return statuses


def test_a_kernel_and_then_its_box_are_deleted(server):
    box = Session(server)
    box.ok("x = 1")
    assert pipelined(server, head("DELETE", f"{box.path}/kernels/main"), head("DELETE", box.path)) == [204, 204]


def test_a_kernel_is_restarted_and_then_deleted(server, box):
    box.ok("x = 1")
    assert pipelined(server, head("POST", f"{box.path}/restart", b"{}"), head("DELETE", f"{box.path}/kernels/main")) == [204, 204]
    gate = server.pid_of("gate")
    assert box.value("'x' in globals()") == "False"
    assert server.pid_of("gate") == gate


# --- answers that are told in pieces --------------------------------------------------------------------------

BYTES = bytes(range(256)) * 4096
SAYS_ALL = ("import os, sys\nb = bytes(range(256)) * 4096\nos.write(1, b)\nos.write(2, b[1:])\n"
            "display({'text/plain': 'd' * 200000}, raw=True)\n'r' * 300000")


def posted(box, code, version=b"1.1", **fields):
    data = head("POST", f"{box.path}/cells", json.dumps({"code": code, **fields}).encode())
    return data.replace(b"HTTP/1.1", b"HTTP/" + version)


def check_long(r):
    assert (r["stdout"], r["stderr"]) == (BYTES.decode(errors="replace"), BYTES[1:].decode(errors="replace"))
    assert shown(r) == ["d" * 200000] and value(r) == repr("r" * 300000) and not any(r["truncated"].values())


def test_a_long_answer_is_whole(box):
    r = box.ok(SAYS_ALL)
    check_long(r)
    check_long(box.look(r["id"], 0))
    assert box.look(r["id"], 0, "&outputs=1")["outputs"][0]["output_type"] == "stream"


def test_a_long_answer_in_base64(box):
    r = box.ok(SAYS_ALL, output_encoding="base64")
    assert (base64.b64decode(r["stdout"]), base64.b64decode(r["stderr"])) == (BYTES, BYTES[1:])


def test_a_long_answer_is_the_same_for_every_client(server, box):
    for version in (b"1.0", b"1.1"):
        with server.wire() as wire:
            wire.send(posted(box, SAYS_ALL, version))
            answer = wire.response()
            assert answer.status == 200 and answer.get("content-length") is None
            check_long(json.loads(answer.body))
    command = {"shell": "head -c 1000000 /dev/zero; head -c 500000 /dev/zero >&2"}
    status, r = server.call("POST", f"{box.path}/commands", command)
    assert (status, r["stdout"], r["stderr"]) == (200, "\0" * 1000000, "\0" * 500000)


def test_a_head_of_a_long_answer_has_no_body(server, box):
    cell = box.ok(SAYS_ALL)["id"]
    with server.wire() as wire:
        wire.send(head("HEAD", f"{box.path}/cells/{cell}") + head("GET", "/health"))
        assert wire.response(has_body=False).status == 200
        assert wire.response().status == 200


def test_a_request_behind_a_long_answer(server, box):
    assert pipelined(server, posted(box, SAYS_ALL), head("GET", "/health"), posted(box, "1"), head("DELETE", box.path)) == [200, 200, 200, 204]


def test_a_long_answer_outlives_its_box(server):
    """Its client has had the beginning of it; more than fits into the connection is to come."""
    box = Session(server)
    with server.wire() as wire:
        wire.send(posted(box, "import os\nfor _ in range(12 << 4): os.write(1, bytes(65536))"))
        assert wire.line().split()[1] == b"200"
        assert box.delete()[0] == 204
        while wire.line():
            pass
        r = json.loads(wire.chunks())
    assert r["status"] == "ok" and r["stdout"] == "\0" * (12 * MIB)


def test_a_client_leaves_a_long_answer(server, box):
    gate = server.pid_of("gate")
    for restart in (False, True):
        with server.wire() as wire:
            wire.send(posted(box, "import os\nfor _ in range(12 << 4): os.write(1, bytes(65536))"))
            wire.line()
            assert not restart or box.restart()[0] == 204
    assert box.value("6 * 7") == "42" and server.pid_of("gate") == gate


def both(box, code):
    """Its events: as they come, and when all are there."""
    yield box.streamed(code)
    yield box.events(box.ok(code)["id"])


def test_many_events_are_whole(box):
    for found in both(box, "for i in range(30000): print(i)"):
        check_events(found)
        assert text(found) == "".join(f"{i}\n" for i in range(30000))


def test_long_events_are_whole(box):
    for found in both(box, "for i in range(5): display({'text/plain': str(i) * 3000000}, raw=True)"):
        check_events(found)
        assert [e.data["data"]["text/plain"] for e in found if e.name == "display"] == [str(i) * 3000000 for i in range(5)]


# --- cells that must not wait for ever -----------------------------------------------------------------------


def test_a_large_display_of_a_cell_that_spills(box):
    r = box.cell("from IPython.display import HTML\nHTML('x' * 400000)", spill=True, timeout_ms=20000)
    assert r["status"] == "ok" and len(r["results"]) == 1


def test_a_megabyte_behind_the_limit(server):
    with Session(server, limits={"output_bytes": 100000}) as box:
        r = box.cell("line = 'x' * 1023\nfor i in range(2000): print(line)", spill=True, timeout_ms=20000)
        assert r["status"] == "ok"
        assert box.out(f"wc -c < '{r['output_file']}'").strip() == str(2000 * 1024)


def test_displays_without_end(server):
    """More than the log holds, and than a ring does."""
    with Session(server, limits={"memory_bytes": 400 * MIB}) as box:
        code = "from IPython.display import HTML\nfor i in range(250): display(HTML('x' * 1000000))"
        r = box.cell(code, timeout_ms=60000)
        assert r["status"] == "ok" and r["truncated"]["results"] is True


def test_a_cell_that_spills_outlives_the_gate(server, box):
    cell = box.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nfor i in range(2000): print('x' * 1023)\nprint('end')",
                     spill=True, timeout_ms=20000)
    kill(server)
    box.out("touch go")
    r = box.done(cell)
    assert r["status"] == "ok" and r["stdout"].endswith("end\n")


def test_a_cell_behind_a_restart_runs(box):
    """In the new kernel: it neither ran nor waited when the old one was told to go."""
    box.ok("x = 1")
    link = Link(box)
    for i in range(20):
        link.say("restart", f"r{i}")
        link.say("cell", f"c{i}", code="6 * 7", timeout_ms=20000)
        end = link.of(f"c{i}")[-1]
        assert end["status"] == "ok", (i, end)
    link.leave()


def test_a_kernel_that_goes_between_cells(box):
    """Whatever cell meets its end is run by the next one, or says that its kernel is gone; its code is not lost."""
    for _ in range(30):
        r = box.cell("import os, threading\nthreading.Timer(0.02, os._exit, (3,)).start()")
        if r["status"] != "ok":  # it can be that cell, too
            assert r["state_lost"], r
            continue
        for _ in range(40):
            r = box.cell("print('ran')", timeout_ms=20000)
            assert (r["status"], r["stdout"]) == ("ok", "ran\n") or r["state_lost"], r
            if r["kernel_restarted"] or r["state_lost"]:
                break


# --- the next gate -------------------------------------------------------------------------------------------


def test_a_deleted_kernel_whose_cells_nobody_asked_for(server, box):
    box.ok("kept = 1")
    cell = box.start("print('heard by nobody')", kernel="other")
    until(lambda: box.kernel("other")[1]["state"] == "idle", "it has ended")
    assert box.kernel("other", "DELETE")[0] == 204
    kill(server)
    assert box.get()[0] == 200, "the box is there"
    assert box.value("kept") == "1"
    assert box.done(cell)["stdout"] == "heard by nobody\n"


def test_late_output_of_a_cell_of_the_last_gate(server, box):
    cell = box.start("import os, threading, time\ndef late():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late')\n"
                     "threading.Thread(target=late).start()")
    until(lambda: box.kernel("main")[1]["state"] == "idle", "it has ended")
    kill(server)
    assert box.done(cell)["status"] == "ok"  # told: from here on the gate lets go
    box.out("touch go")
    until(lambda: "late" in box.look(cell, 0)["stdout"], "what its thread prints")


# --- memory that is somebody else's --------------------------------------------------------------------------


def test_a_late_event_when_the_log_is_full(serve):
    """The largest log that has ended goes; it is the one that is being written to."""
    server = serve(env=NO_POOL, log_bytes=4 * MIB)
    gate = server.pid_of("gate")
    with Session(server) as box:
        cell = box.start("import os, threading, time\nfrom IPython.display import HTML\n"
                         "def late():\n    while not os.path.exists('go'): time.sleep(0.01)\n"
                         "    for i in range(8): display(HTML('y' * 400000))\n"
                         "threading.Thread(target=late).start()\ndisplay(HTML('x' * 2000000))\nprint('z' * 1000000)")
        box.done(cell)
        box.out("touch go")
        for _ in range(50):
            for event in box.events(cell):
                if event.name == "display":
                    assert set(event.data["data"]["text/html"]) <= set("xy"), "bytes that nobody displayed"
            shown(box.look(cell, 0))
    assert server.pid_of("gate") == gate, "the gate has died"


@pytest.mark.slow
def test_a_link_that_is_full_when_a_call_is_answered(server, box):
    """Not read, with one large event and junk before the answers of calls that wait."""
    gate = server.pid_of("gate")
    for size in range(16 * MIB - 7000, 16 * MIB - 1000, 500):
        link = Link(box)
        link.say("cell", "long", code="print('up')\nimport time\ntime.sleep(1000)", kernel="b")
        cell = link.until_event("long", "stdout")["cell"]
        for i in range(200):
            link.say("cancel", i, cell=cell)
        link.say("cell", "large", code=f"from IPython.display import HTML\ndisplay(HTML('x' * {size}))")
        threading.Event().wait(2)
        link.socket.close()
        box.restart(kernel="b")
        assert server.pid_of("gate") == gate, "the gate has died"
