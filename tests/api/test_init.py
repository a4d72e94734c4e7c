# SPDX-License-Identifier: Apache-2.0
"""The protocols below the command line: keeper and init, spoken to by a gate of the test's own."""
import hashlib
import os
import signal
import struct
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from gate import FRAMES, OPS, Exit, Failed, Gone, Keeper, entries, first_entry  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")

EXITED, SIGNALED, FAILED = 0, 1, 2
PTY, STDIN, SWEEP = 1, 2, 4
ENV = ("PATH=/usr/bin:/bin",)


@pytest.fixture
def keeper(glovebox):
    k = Keeper(glovebox)
    yield k
    k.stop()


@pytest.fixture
def box(keeper):
    return keeper.new_box()


def sh(box, job, script, **kw):
    box.run(job, "/bin/bash", "-c", script, env=ENV, **kw)


# --- jobs ----------------------------------------------------------------------------------------------------


def test_argv_env_cwd_and_streams(box):
    box.run(1, "/bin/bash", "-c", 'echo "$0 $1 $X"; pwd; echo oops >&2; exit 7', "zero", "a b", env=(*ENV, "X=y"), cwd="/tmp")
    out, err, end = box.until_exit(1)
    assert out == b"zero a b y\n/tmp\n"
    assert err == b"oops\n"
    assert (end.how, end.code, end.stdout_bytes, end.stderr_bytes) == (EXITED, 7, len(out), len(err))


def test_a_program_that_does_not_exist_says_so(box):
    box.run(1, "/nowhere/program")
    _, _, end = box.until_exit(1)
    assert (end.how, end.code, end.stage) == (FAILED, 2, "exec")
    box.run(2, "true", cwd="/nowhere", env=ENV)
    _, _, end = box.until_exit(2)
    assert (end.how, end.code, end.stage) == (FAILED, 2, "working directory")


def test_path_lookup_is_by_the_job_s_own_path(box):
    box.run(1, "true", env=("PATH=/nowhere",))
    assert box.until_exit(1)[2].how == FAILED
    box.run(2, "true", env=("PATH=/nowhere:/usr/bin",))
    assert box.until_exit(2)[2].how == EXITED


def test_input_arrives_in_order_and_ends(box):
    data = os.urandom(300_000)
    sh(box, 1, "sha256sum", flags=STDIN)
    sent = taken = 0
    while sent < len(data):
        while sent - taken >= 65536:
            frame = box.receive()
            if frame.name == "INPUT_ACK":
                taken = frame.number
        chunk = data[sent:min(sent + 30_000, taken + 65536)]
        box.send("INPUT", 1, sent, body=chunk)
        sent += len(chunk)
    box.send("INPUT_END", 1, sent)
    assert box.until_exit(1)[0].split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_input_that_is_repeated_by_a_new_gate_counts_once(box):
    sh(box, 1, "cat", flags=STDIN)
    box.wait_for(1, "STARTED")  # what a gate said right before it was replaced may be lost
    box.send("INPUT", 1, 0, body=b"hello ")
    box.attach()
    box.send("INPUT", 1, 0, body=b"hello wor")
    box.send("INPUT", 1, 6, body=b"world")
    box.send("INPUT_END", 1, 11)
    assert box.until_exit(1)[0] == b"hello world"


def test_input_beyond_the_window_is_refused_and_the_job_goes_on(box):
    sh(box, 1, "sleep 0.2; cat | wc -c", flags=STDIN)
    for i in range(3):  # 192 KiB: the pipe takes 64, the window 64 more
        box.send("INPUT", 1, i * 65536, body=b"x" * 65536)
    refused = 0
    while not refused:
        frame = box.receive()
        if frame.name == "REFUSED":
            refused = frame.number + 1
    box.send("SIGNAL", 1, body=struct.pack("<II", signal.SIGKILL, 0))
    assert box.until_exit(1)[2].how == SIGNALED


def test_several_jobs_at_once(box):
    for job in range(1, 21):
        sh(box, job, f"read x; echo {job} $x", flags=STDIN)
    for job in range(20, 0, -1):
        box.send("INPUT", job, 0, body=b"%d\n" % (job * job))
        box.send("INPUT_END", job, len(b"%d\n" % (job * job)))
    outputs, ended = {}, 0
    while ended < 20:
        frame = box.receive()
        if frame.name == "OUTPUT":
            outputs[frame.job] = outputs.get(frame.job, b"") + frame.body
        ended += frame.name == "EXIT"
    assert outputs == {job: b"%d %d\n" % (job, job * job) for job in range(1, 21)}


def test_more_jobs_than_there_is_room_for_are_refused(box):
    for job in range(1, 130):
        sh(box, job, "read x", flags=STDIN)
    while True:
        frame = box.receive()
        if frame.name == "REFUSED":
            break
    assert frame.job == 129
    box.send("SIGNAL", 0, body=struct.pack("<II", signal.SIGKILL, 2))
    ended = set()
    while len(ended) < 128:
        frame = box.receive()
        if frame.name == "EXIT":
            ended.add(frame.job)
            box.send("ACK", frame.job, frame.number)
    sh(box, 200, "echo again")
    assert box.until_exit(200)[0] == b"again\n"


def test_signals_by_scope(box):
    sh(box, 1, "trap 'echo got' USR1; echo ready; while :; do sleep 0.05; done")
    while box.receive().name != "OUTPUT":
        pass
    box.send("SIGNAL", 1, body=struct.pack("<II", signal.SIGUSR1, 1))
    frame = box.receive()
    while frame.name != "OUTPUT":
        frame = box.receive()
    assert frame.body == b"got\n"
    box.send("SIGNAL", 1, body=struct.pack("<II", signal.SIGTERM, 0))
    end = box.until_exit(1)[2]
    assert (end.how, end.code) == (SIGNALED, signal.SIGTERM)


def test_terminal_with_size_and_resize(box):
    sh(box, 1, 'test -t 0 && test -t 1 && stty size; trap "stty size; exit 3" WINCH; echo wait; while :; do sleep 0.05; done',
       flags=PTY, rows=30, cols=100)
    seen = b""
    while b"wait" not in seen:
        frame = box.receive()
        seen += frame.body if frame.name == "OUTPUT" else b""
    assert b"30 100" in seen
    box.send("RESIZE", 1, body=struct.pack("<HH", 50, 132))
    out, _, end = box.until_exit(1)
    assert b"50 132" in out
    assert (end.how, end.code) == (EXITED, 3)


def test_terminal_takes_input(box):
    sh(box, 1, 'stty -echo; echo go; read x; echo "got $x"', flags=PTY)
    while b"go" not in (frame := box.receive()).body:
        pass
    box.send("INPUT", 1, 0, body=b"abc\n")
    assert b"got abc" in box.until_exit(1)[0]


def test_timeout_of_a_job_and_sweep_of_daemons(box):
    sh(box, 1, "setsid sleep 1000 & echo $!; sleep 1000", timeout_us=300_000, flags=SWEEP)
    out, _, end = box.until_exit(1)
    assert (end.how, end.code, end.flags & 1) == (SIGNALED, signal.SIGKILL, 1)
    sh(box, 2, f"test -e /proc/{int(out)} && echo alive || echo gone")
    assert box.until_exit(2)[0] == b"gone\n"


def test_without_sweep_a_daemon_lives_and_does_not_hold_the_exit_back(box):
    sh(box, 1, "(sleep 0.3; echo late; sleep 1000) & echo early")
    out, _, end = box.until_exit(1)
    assert out == b"early\n"
    assert end.how == EXITED
    sh(box, 2, "sleep 0.5; grep -l sleep /proc/[0-9]*/comm | wc -l")
    assert int(box.until_exit(2)[0]) >= 1


def test_orphans_are_reaped(box):
    sh(box, 1, "for i in $(seq 50); do (sleep 0 & ); done; sleep 0.3; grep -l '^State:.*zombie' /proc/[0-9]*/status | wc -l")
    assert box.until_exit(1)[0] == b"0\n"


def test_output_limit_counts_and_drains(box):
    sh(box, 1, "head -c 300000 /dev/zero; head -c 100 /dev/zero >&2; echo end >&2", output_max=1000)
    out, err, end = box.until_exit(1)
    assert len(out) == 1000
    assert err.endswith(b"end\n")
    assert (end.stdout_bytes, end.stderr_bytes) == (300000, 104)
    assert end.flags == 2


# --- collecting ----------------------------------------------------------------------------------------------


def python(box, job, code, **kw):
    box.run(job, "/usr/bin/python3", "-c", code, env=ENV, **kw)


def frames(box, job):
    """The output of a job as it comes, (stream, bytes) of each frame; its Exit."""
    found = []
    while True:
        frame = box.next(job)
        if frame.name == "EXIT":
            box.send("ACK", job, frame.number)
            return found, Exit(frame.body)
        if frame.name == "OUTPUT":
            box.send("ACK", job, frame.number)
            found.append((frame.flags, frame.body))


SLOWLY = """
import os, time
for i in range(2000):
    os.write(%d, b"%%d\\n" %% i)
    end = time.perf_counter() + 1e-4
    while time.perf_counter() < end: pass
"""


@pytest.mark.parametrize("stream", [1, 2])
@pytest.mark.parametrize("flags", [0, SWEEP])
def test_lines_in_a_row_come_together(box, stream, flags):
    python(box, 1, SLOWLY % stream, flags=flags)
    found, end = frames(box, 1)
    text = b"".join(b"%d\n" % i for i in range(2000))
    assert b"".join(body for _, body in found) == text
    assert len(found) <= end.wall_us / 1000 + len(text) / 2048 + 8, "one in a millisecond, and those that are large"


TURNS = """
import os
while os.read(0, 1):
    os.write(%d, b"a\\n")
    os.write(%d, b"b\\n")
"""


@pytest.mark.parametrize("first, second", [(1, 2), (2, 1)])
def test_streams_in_turn_stay_in_turn(box, first, second):
    """Each turn begins when the one before it has arrived."""
    python(box, 1, TURNS % (first, second), flags=STDIN)
    for i in range(300):
        box.send("INPUT", 1, i, body=b"x")
        turn = [box.wait_for(1, "OUTPUT") for _ in range(2)]
        assert [(frame.flags, frame.body) for frame in turn] == [(first, b"a\n"), (second, b"b\n")]
        box.send("ACK", 1, turn[1].number)
    box.send("INPUT_END", 1, 300)
    assert box.until_exit(1)[0] == b""


@pytest.mark.parametrize("count", [100, 700, 3000])
def test_a_terminal_has_said_everything_before_its_end(box, count):
    """Also what it does not count as there to be read."""
    python(box, 1, f"import os\nos.write(1, b''.join(b'%d\\n' % i for i in range({count})))\nos._exit(0)", flags=PTY)
    assert box.until_exit(1)[0].replace(b"\r", b"") == b"".join(b"%d\n" % i for i in range(count))


@pytest.mark.parametrize("then", ["time.sleep(1000)", "os.close(1); time.sleep(1000)", "os.fork() or time.sleep(1000)"])
@pytest.mark.parametrize("count", [2, 3, 50])
def test_the_last_line_does_not_wait_for_another(box, count, then):
    python(box, 1, f"import os, time\nfor i in range({count}): os.write(1, b'x\\n')\n{then}")
    got = b""
    while len(got) < 2 * count:
        frame = box.wait_for(1, "OUTPUT")
        got += frame.body
    assert got == b"x\n" * count
    box.send("SIGNAL", 1, body=struct.pack("<II", signal.SIGKILL, 2))


def test_the_last_lines_come_before_the_end(box):
    for job in range(1, 40):
        python(box, job, "import os\nfor i in range(20): os.write(1, b'x\\n')\nos._exit(0)")
        assert box.until_exit(job)[0] == b"x\n" * 20


# --- acknowledgements and a new gate -------------------------------------------------------------------------


def test_a_full_ring_blocks_the_program_until_it_is_acknowledged(box):
    size = 3_000_000
    sh(box, 1, f"head -c {size} /dev/zero; echo done > /tmp/done")
    got, last = 0, 0
    while got < 150_000:
        frame = box.receive()
        if frame.name == "OUTPUT":
            got, last = got + len(frame.body), frame.number
    sh(box, 2, "test -e /tmp/done && echo done || echo blocked")
    frame = box.receive()
    while frame.job != 2 or frame.name != "OUTPUT":
        if frame.job == 1 and frame.name == "OUTPUT":
            got, last = got + len(frame.body), frame.number
        frame = box.receive()
    assert frame.body == b"blocked\n"
    assert got < 600_000
    box.send("ACK", 1, last)
    out, _, end = box.until_exit(1)
    assert got + len(out) == size == end.stdout_bytes


@pytest.mark.more
def test_a_new_gate_gets_what_the_old_one_did_not_acknowledge(box):
    sh(box, 1, "for i in $(seq 2000); do echo $i; sleep 0.0001; done")
    joined, acked = b"", 0
    for _ in range(10):  # ten gates, each of which dies after some frames
        for _ in range(7):
            frame = box.receive()
            if frame.name == "OUTPUT":
                assert frame.number > acked
                joined += frame.body
                acked = frame.number
                box.send("ACK", 1, acked)
            elif frame.name == "EXIT":
                break
        box.attach()
    while True:
        frame = box.receive()
        if frame.name == "OUTPUT" and frame.number > acked:
            joined += frame.body
            acked = frame.number
        if frame.name == "EXIT":
            break
    assert joined == b"".join(b"%d\n" % i for i in range(1, 2001))


def test_unacknowledged_frames_are_repeated_byte_by_byte(box):
    sh(box, 1, "echo one; echo two >&2")
    first = []
    while not first or first[-1].name != "EXIT":
        first.append(box.receive())
    box.attach()
    again = [box.receive() for _ in first]
    assert [(f.name, f.number, f.flags, f.body) for f in first] == [(f.name, f.number, f.flags, f.body) for f in again]
    assert [f.number for f in first] == list(range(1, len(first) + 1))


def test_a_job_that_is_asked_for_twice_runs_once(box):
    script = "echo x >> /tmp/count; wc -l < /tmp/count"
    sh(box, 1, script)
    box.attach()
    sh(box, 1, script)
    assert box.until_exit(1)[0] == b"1\n"
    sh(box, 1, script)
    frame = box.receive()
    while frame.name != "REFUSED":
        frame = box.receive()
    assert struct.unpack_from("<I", frame.body)[0] == 114  # EALREADY
    sh(box, 2, script)
    assert box.until_exit(2)[0] == b"2\n"


def test_an_old_gate_s_stream_is_closed(box):
    old = box.stream.dup()
    old.settimeout(30)
    box.attach()
    while old.recv(65536):
        pass


# --- files ----------------------------------------------------------------------------------------------------


def test_a_file_in_and_out_and_in_the_tree(box):
    """All that there is about files: test_init_files.py."""
    assert box.file("write", "a/b/c.txt", "750", "", "", data=b"hello")[2].code == 0
    out, _, end = box.file("read", "a/b/c.txt", "nofollow", "0", "", "", "")
    assert (first_entry(out)[1], end.code) == (b"hello", 0)
    found = {entry.path: (entry.type, entry.mode, entry.size) for entry in entries(box.file("tree", ".")[0])}
    assert found[b"a/b/c.txt"] == ("f", 0o750, 5)
    assert found[b"a"][0] == found[b"a/b"][0] == "d"


# --- what a broken or hostile peer gets -----------------------------------------------------------------------


@pytest.mark.parametrize("data", [
    b"\xff" * 24,                                                         # a length beyond every bound
    struct.pack("<IHHQQ", 0, 999, 0, 1, 0),                               # an unknown type
    struct.pack("<IHHQQ", 0, FRAMES["RUN"], 0, 1, 0),                     # too short for its row
    struct.pack("<IHHQQ", 4, FRAMES["STARTED"], 0, 1, 0) + b"\0\0\0\0",   # the wrong direction
], ids=["length", "type", "short", "direction"])
def test_a_gate_that_breaks_the_frames_loses_its_connection_only(box, data):
    sh(box, 1, "sleep 0.2; echo still here")
    box.stream.sendall(data)
    with pytest.raises(Gone):
        while True:
            box.receive()
    box.attach()
    assert box.until_exit(1)[0] == b"still here\n"


def test_nothing_is_heard_before_the_hello(box):
    box.attach(hello=False)
    assert box.receive().name == "HELLO"
    sh(box, 1, "echo early")
    with pytest.raises(Gone):
        box.receive()
    box.attach()
    sh(box, 2, "ls -A /workspace")
    assert box.until_exit(2)[0] == b""


def test_a_hello_of_an_unknown_version_is_refused(box):
    box.attach(hello=False)
    box.send("HELLO", body=struct.pack("<IIQ", 9, 9, 0))
    with pytest.raises(Gone):
        while True:
            box.receive()


@pytest.mark.parametrize("spec", [
    struct.pack("<BIQQQQQHH", 9, 0, 0, 0, 0, 0, 0, 0, 0),       # an unknown kind
    struct.pack("<BIQQQQQHH", 0, 1 << 30, 0, 0, 0, 0, 0, 0, 0),  # an unknown flag
], ids=["kind", "flag"])
def test_a_malformed_job_is_refused(box, spec):
    box.send("RUN", 1, body=spec + struct.pack("<I", 1) + b"/" + struct.pack("<HH", 1, 0) + struct.pack("<I", 1) + b"x")
    with pytest.raises(Failed):
        box.until_exit(1)
    sh(box, 2, "echo fine")
    assert box.until_exit(2)[0] == b"fine\n"


@pytest.mark.parametrize("op, body, fds", [
    (999, b"", 0),
    ("BOX_END", b"\0" * 7, 0),
    ("BOX_END", b"\0" * 9, 0),
    ("BOX_FIGURES", b"\0" * 8, 1),
    ("HELLO", struct.pack("<II", 1, 1), 0),
    ("BOX_NEW", b"\0" * 8, 0),
], ids=["unknown", "short", "long", "descriptor", "second hello", "malformed"])
def test_a_gate_that_breaks_the_operations_is_ended_with_its_boxes(glovebox, op, body, fds):
    keeper = Keeper(glovebox)
    box = keeper.new_box()
    sh(box, 1, "sleep 1000")
    keeper.send(op, body, fds=[0] * fds)
    with pytest.raises(Gone):
        while True:
            keeper.receive()
    with pytest.raises(Gone):
        while True:
            box.receive()
    keeper.stop()
    assert keeper.process.returncode == 0


def test_no_operation_before_the_hello(glovebox):
    keeper = Keeper(glovebox, hello=False)
    keeper.send("BOX_LIST", struct.pack("<Q", 0))
    with pytest.raises(Gone):
        keeper.receive()
    keeper.stop()


def test_unknown_boxes_are_refused_and_nothing_breaks(keeper, box):
    for op in ("BOX_END", "BOX_FIGURES", "BOX_ATTACH"):
        with pytest.raises(Failed):
            keeper.call(op, struct.pack("<Q", 4711))
    with pytest.raises(Failed):
        keeper.call("BOX_DEADLINE", struct.pack("<QQ", 4711, 1))
    sh(box, 1, "echo fine")
    assert box.until_exit(1)[0] == b"fine\n"


def test_limits_out_of_range_and_foreign_roots_are_refused(keeper):
    with pytest.raises(Failed) as failed:
        keeper.new_box(MEMORY=1)
    assert "memory_bytes" in failed.value.args[2]
    keeper.new_box()


def test_a_mount_root_that_does_not_exist_ends_the_gate(glovebox):
    keeper = Keeper(glovebox)
    with pytest.raises(Gone):
        keeper.new_box(mounts=[(3, True, "x", "/mnt/x")])
    keeper.stop()


@pytest.mark.parametrize("path", ["../etc", "/etc", "a/../../etc", "link"])
def test_a_mount_never_leaves_its_root(glovebox, tmp_path, path):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    keeper = Keeper(glovebox, f"root={tmp_path}")
    with pytest.raises(Failed):
        keeper.new_box(mounts=[(0, True, path, "/mnt/x")])
    box = keeper.new_box(mounts=[(0, True, "a", "/mnt/x")])
    sh(box, 1, "ls /mnt")
    assert box.until_exit(1)[0] == b"x\n"
    keeper.stop()


# --- what the next gate needs ----------------------------------------------------------------------------------


def test_records_and_the_list_of_boxes(keeper):
    boxes = [keeper.new_box() for _ in range(3)]
    for i, box in enumerate(boxes):
        record = b"record %d" % i
        keeper.call("BOX_RECORD", struct.pack("<QI", box.number, len(record)) + record)
    boxes[1].end()
    seen, after = [], 0
    while True:
        data, _ = keeper.call("BOX_LIST", struct.pack("<Q", after))
        if not data:
            break
        after = struct.unpack_from("<Q", data)[0]
        seen.append((after, data[data.rindex(b"record"):]))
    assert seen == [(boxes[0].number, b"record 0"), (boxes[2].number, b"record 2")]


def test_a_deadline_ends_the_box_even_if_nobody_asks(keeper, box):
    sh(box, 1, "sleep 1000")
    keeper.call("BOX_DEADLINE", struct.pack("<QQ", box.number, 100_000))
    number, why, figures = keeper.wait_event()
    assert (number, why) == (box.number, 1)
    assert figures[0] >= 100_000


def test_the_end_of_init_is_an_event(keeper, box):
    sh(box, 1, "true")
    box.until_exit(1)
    inits = [int(line) for line in open(f"/proc/{keeper.process.pid}/task/{keeper.process.pid}/children").read().split()]
    assert len(inits) == 1
    os.kill(inits[0], signal.SIGKILL)
    assert keeper.wait_event()[:2] == (box.number, 0)


def test_figures_grow_and_are_the_box_s_own(keeper, box):
    sh(box, 1, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    box.until_exit(1)
    data, _ = keeper.call("BOX_FIGURES", struct.pack("<Q", box.number))
    now = struct.unpack("<6Q", data)
    end = box.end()
    assert 0 < now[1] <= end[1]
    assert 0 < now[2] <= end[2]
    assert end[5] == 7


def test_a_killed_keeper_takes_every_box_with_it(glovebox):
    keeper = Keeper(glovebox)
    boxes = [keeper.new_box() for _ in range(3)]
    for box in boxes:
        sh(box, 1, "setsid sleep 1000 & sleep 1000")
        assert box.receive().name == "STARTED"
    keeper.process.kill()
    for box in boxes:
        with pytest.raises(Gone):
            while True:
                box.receive()
    keeper.stop()
    # What it left is swept by the next one, and only that.
    Keeper(glovebox).stop()


def test_a_sweep_leaves_the_living_alone(glovebox, run):
    keeper = Keeper(glovebox)
    box = keeper.new_box()
    assert run("run", "-c", "print(1)").returncode == 0
    Keeper(glovebox).stop()
    sh(box, 1, "echo alive")
    assert box.until_exit(1)[0] == b"alive\n"
    keeper.stop()


def test_operations_have_the_numbers_of_the_table():
    assert OPS["HELLO"] == 1 and OPS["BOX_NEW"] == 2
