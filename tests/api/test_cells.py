# SPDX-License-Identifier: Apache-2.0
"""Cells: what init makes of a kernel's channel. The kernels are the tests' own, most of them hostile.

A kernel here runs the request as Python, with `cell`, `out` and `err` in reach and everything of KERNEL below, then sends END.
"""
import hashlib
import os
import signal
import struct
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from gate import FRAME_LATE, JOB_CELL, Cell, Failed, Keeper  # noqa: E402

pytestmark = [pytest.mark.more,
              pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")]

EXITED, SIGNALED = 0, 1
STDIN, SWEEP, HELD, KERNEL_FLAG, KEEP = 2, 4, 8, 64, 128
TIMED_OUT, CUT_STDOUT, NOT_READY, DIED = 1, 2, 8, 16
LINGER_MAX = 32
ENV = ("PATH=/usr/bin:/bin",)
K = 1  # the kernel's job

KERNEL = r"""
import array, fcntl, hashlib, os, signal, socket, struct, subprocess, sys, threading, time

CONFIG, RUN, STDIN, WAITING, READY, MESSAGE, END = 1, 2, 3, 15, 16, 17, 18
MORE = 1
channel = socket.socket(fileno=3)

def send(kind, cell=0, body=b"", flags=0, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    channel.sendmsg([struct.pack("<BBHIQ", kind, flags, 0, 0, cell) + body], rights)

def say(cell, body, kind=MESSAGE):
    # As a kernel should: what is printed next comes behind it.
    parts = [body[at:at + 49152] for at in range(0, len(body), 49152)] or [b""]
    for i, part in enumerate(parts):
        send(kind, cell, part, MORE if i + 1 < len(parts) else 0)
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(channel, 0x5411, left)  # SIOCOUTQ

def hear():
    data, ancillary, flags, _ = channel.recvmsg(16 + 49152 + 1, socket.CMSG_SPACE(8 * 4))
    if not data:
        os._exit(0)
    kind, flags, _, _, cell = struct.unpack_from("<BBHIQ", data)
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    return kind, flags, cell, data[16:], list(fds)

def message():
    parts, all_fds = [], []
    while True:
        kind, flags, cell, data, fds = hear()
        parts.append(data)
        all_fds += fds
        if not flags & MORE:
            return kind, flags, cell, b"".join(parts), all_fds

def begin():
    send(WAITING)
    assert message()[0] == CONFIG
    send(READY, 0, b"ready")

def serve():
    kept = []
    while True:
        kind, _, cell, body, fds = message()
        if kind != RUN:
            continue
        kept.append(fds)
        while len(kept) > 32:
            for fd in kept.pop(0):
                try:
                    os.close(fd)
                except OSError:
                    pass
        out, err = fds
        answer = b"done"
        try:
            exec(body, {**globals(), "cell": cell, "out": out, "err": err, "body": body})
        except KeyboardInterrupt:
            answer = b"interrupted"
        except Exception as e:
            answer = repr(e).encode()
        say(cell, answer, END)
"""
HONEST = KERNEL + "\nbegin()\nserve()\n"


@pytest.fixture(scope="module")
def keeper(glovebox):
    k = Keeper(glovebox)
    yield k
    k.stop()


@pytest.fixture
def box(keeper):
    b = keeper.new_box()
    yield b
    b.end()


def launch(box, code=HONEST, job=K, flags=0, env=ENV):
    """Up to its READY."""
    box.run(job, "/usr/bin/python3", "-I", "-B", "-c", code, flags=HELD | KERNEL_FLAG | flags, env=env)
    box.send("ACK", job, box.wait_for(job, "READY").number)
    box.go(job)
    frame = box.wait_for(job, "MESSAGE")
    box.send("ACK", job, frame.number)
    assert frame.body == b"ready"


@pytest.fixture
def kernel(box):
    launch(box)
    return box


def run(box, job, code, kernel=K, **kw):
    box.cell(job, kernel, code if isinstance(code, bytes) else code.encode(), **kw)
    cell = box.until_cell(job)
    assert cell.first == 1
    return cell


def sh(box, job, script, **kw):
    box.run(job, "/bin/bash", "-c", script, env=ENV, **kw)


def fine(box, job):
    """The kernel and other jobs of its box are well."""
    cell = run(box, job, "os.write(out, b'fine')")
    assert (cell.events, cell.exit.flags) == ([("out", b"fine"), ("end", b"done")], 0)
    sh(box, job + 1, "echo well")
    assert box.until_exit(job + 1)[0] == b"well\n"


def refusal(box, job):
    """errno."""
    with pytest.raises(Failed) as failed:
        box.until_cell(job)
    return failed.value.args[0]


def interrupt(box, job, number=signal.SIGINT):
    box.send("SIGNAL", job, body=struct.pack("<II", number, 1))


def init_of(keeper):
    """Of the only box there is."""
    pid = keeper.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        (init,) = f.read().split()
    return int(init)


def descriptors(keeper):
    return len(os.listdir(f"/proc/{init_of(keeper)}/fd"))


def until(condition, what, patience=20):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


# --- as it should be -----------------------------------------------------------------------------------------


def test_text_and_messages_stay_in_order(kernel):
    cell = run(kernel, 2, "for i in range(200): os.write(out, b'o%d' % i); say(cell, b'm%d' % i); os.write(err, b'e')")
    expected = [e for i in range(200) for e in (("out", b"o%d" % i), ("message", b"m%d" % i), ("err", b"e"))]
    # Between two messages the streams have no order.
    got = [sorted(chunk) for chunk in split(cell.events)]
    assert got == [sorted(chunk) for chunk in split([*expected, ("end", b"done")])]
    assert (cell.exit.how, cell.exit.code, cell.exit.flags) == (EXITED, 0, 0)
    assert (cell.exit.stdout_bytes, cell.exit.stderr_bytes) == (len(cell.out), 200)


def split(events):
    chunks = [[]]
    for kind, data in events:
        if kind in ("out", "err"):
            chunks[-1].append((kind, data))
        else:
            chunks += [[(kind, data)], []]
    return chunks


@pytest.mark.parametrize("size", [0, 1, 49151, 49152, 49153, 65536, 98304, 16 << 20])
def test_a_request_arrives_whole(kernel, size):
    code = b"send(MESSAGE, cell, hashlib.sha256(body).digest()) #"
    request = code + b"x" * (size - len(code)) if size > len(code) else b"#" * size
    cell = run(kernel, 2, request)
    assert cell.end == b"done"
    assert cell.of("message") == (hashlib.sha256(request).digest() if size > len(code) else b"")


def test_a_large_message_arrives_whole(kernel):
    cell = run(kernel, 2, "os.write(out, b'a'); say(cell, bytes(16 << 20)); os.write(out, b'b'); say(cell, b'x' * 500000, END)")
    kinds = [(name, len(data)) for name, data in cell.events]
    assert kinds[:4] == [("out", 1), ("message", 16 << 20), ("out", 1), ("end", 500000)]


def test_one_cell_after_another(kernel):
    for job in range(2, 60):
        assert run(kernel, job, f"os.write(out, b'{job}')").out == b"%d" % job


def test_children_and_threads_write_to_their_cell(kernel):
    cell = run(kernel, 2, """
subprocess.run(['echo', 'child'], stdout=out)
t = threading.Thread(target=os.write, args=(err, b'thread')); t.start(); t.join()
""")
    assert cell.events == [("out", b"child\n"), ("err", b"thread"), ("end", b"done")] or \
        cell.events == [("err", b"thread"), ("out", b"child\n"), ("end", b"done")]


def test_what_comes_late_is_said_to_be(kernel):
    kernel.cell(2, K, b"""
def later():
    for i in range(3):
        time.sleep(0.2)
        os.write(out, b'%d' % i)
        say(cell, b'm')
threading.Thread(target=later).start()
os.write(out, b'now')
""")
    cell = kernel.until_cell(2)
    assert cell.events == [("out", b"now"), ("end", b"done")]
    assert run(kernel, 3, "os.write(out, b'another')").out == b"another"
    while len(cell.events) < 8:
        frame = kernel.next(2)
        assert frame.flags & FRAME_LATE
        cell.take(frame)
        kernel.send("ACK", 2, frame.number)
    assert cell.events[2:] == [("out", b"0"), ("message", b"m"), ("out", b"1"), ("message", b"m"), ("out", b"2"), ("message", b"m")]


def test_only_the_last_cells_are_listened_to(keeper, kernel):
    before = descriptors(keeper)
    for job in range(2, 2 + LINGER_MAX + 20):
        run(kernel, job, f"globals().setdefault('outs', []); import builtins; builtins.o{job} = os.dup(out)")
    until(lambda: descriptors(keeper) <= before + 2 * LINGER_MAX, "pipes are given up")
    cell = run(kernel, 100, "import builtins\ntry: os.write(builtins.o2, b'x')\nexcept BrokenPipeError: os.write(out, b'broken')")
    assert cell.out == b"broken"
    kernel.cell(101, K, b"import builtins; os.write(builtins.o50, b'late')")
    assert (frame := kernel.wait_for(50, "OUTPUT")).body == b"late" and frame.flags == 1 | FRAME_LATE


def test_input(kernel):
    kernel.cell(2, K, b"""
send(MESSAGE, cell, b'input?')
kind, flags, whose, text, _ = message()
os.write(out, b'%d %d %d %s' % (kind, flags, whose == cell, text))
""")
    number = kernel.wait_for(2, "MESSAGE").number
    kernel.send("TELL", 2, number, body=b"x" * 49152)
    kernel.send("TELL", 2, number, body=b"said again by another gate")
    assert kernel.until_cell(2).out == b"3 0 1 " + b"x" * 49152
    kernel.cell(3, K, b"kind, flags, whose, text, _ = message(); os.write(out, b'%d %d %s' % (kind, flags, text))")
    kernel.wait_for(3, "STARTED")
    kernel.send("TELL", 3, flags=1)
    assert kernel.wait_for(3, "OUTPUT").body == b"3 2 "
    kernel.wait_for(3, "EXIT")
    kernel.send("TELL", 3, body=b"too late")
    with pytest.raises(Failed):
        kernel.wait_for(3, "STARTED")


def test_interrupt(kernel):
    kernel.cell(2, K, b"os.write(out, b'up'); time.sleep(1000)")
    kernel.wait_for(2, "OUTPUT")
    interrupt(kernel, 2)
    frame = kernel.wait_for(2, "MESSAGE")
    assert (frame.body, frame.flags) == (b"interrupted", 2)
    kernel.wait_for(2, "EXIT")
    interrupt(kernel, 2)  # runs no more: nobody gets it
    with pytest.raises(Failed):
        kernel.wait_for(2, "STARTED")
    fine(kernel, 3)


def test_time(kernel):
    cell = run(kernel, 2, "time.sleep(1000)", timeout_us=300_000)
    assert (cell.end, cell.exit.how, cell.exit.code, cell.exit.flags) == (b"interrupted", EXITED, 0, TIMED_OUT)
    assert cell.exit.wall_us >= 300_000
    fine(kernel, 3)


def test_time_of_who_does_not_listen(kernel):
    cell = run(kernel, 2, "signal.signal(signal.SIGINT, signal.SIG_IGN); os.write(out, b'x')\nwhile True: time.sleep(1000)",
               timeout_us=200_000)
    assert (cell.out, cell.end) == (b"x", b"")
    assert (cell.exit.how, cell.exit.code, cell.exit.flags) == (SIGNALED, signal.SIGKILL, TIMED_OUT | DIED)
    assert cell.exit.wall_us >= 2_000_000
    end = kernel.until_exit(K)[2]
    assert (end.how, end.code, end.flags) == (SIGNALED, signal.SIGKILL, 0)


def test_time_does_not_count_while_the_request_comes(kernel):
    kernel.run(2, str(K), kind=JOB_CELL, flags=STDIN, timeout_us=3_000_000)
    code = b"time.sleep(1)"
    kernel.send("INPUT", 2, 0, body=code)
    time.sleep(2.5)
    kernel.send("INPUT_END", 2, len(code))
    cell = kernel.until_cell(2)
    assert (cell.end, cell.exit.flags) == (b"done", 0)


@pytest.mark.parametrize("how", ["time", "signal"])
def test_a_request_that_never_ends_is_cut_and_the_kernel_lives(kernel, how):
    kernel.run(2, str(K), kind=JOB_CELL, flags=STDIN, timeout_us=300_000 if how == "time" else 0)
    kernel.send("INPUT", 2, 0, body=b"os.write(out, b'x'")
    if how == "signal":
        kernel.wait_for(2, "INPUT_ACK")
        interrupt(kernel, 2)
    cell = kernel.until_cell(2)
    assert cell.end.startswith(b"SyntaxError")
    assert cell.exit.flags == (TIMED_OUT if how == "time" else 0)
    fine(kernel, 3)


def test_output_beyond_the_limit_is_dropped_and_counted(kernel):
    cell = run(kernel, 2, "for i in range(1000): os.write(out, bytes(1000))", output_max=5000)
    assert (len(cell.out), cell.exit.stdout_bytes, cell.exit.flags) == (5000, 1_000_000, CUT_STDOUT)


def test_refusals(box):
    box.run(K, "/usr/bin/python3", "-I", "-B", "-c", HONEST, flags=HELD | KERNEL_FLAG, env=ENV)
    box.run(2, str(K), kind=JOB_CELL, flags=STDIN)
    assert refusal(box, 2) == 11  # EAGAIN: no GO yet
    box.go(K)
    box.cell(3, K, b"message()")
    for kernel_id in ("77", "3", "x", ""):  # unknown; a cell; no number
        box.run(4, kernel_id, kind=JOB_CELL, flags=STDIN)
        assert refusal(box, 4) == 3  # ESRCH
    box.run(4, str(K), kind=JOB_CELL, flags=STDIN)
    assert refusal(box, 4) == 16  # EBUSY
    for flags in (0, STDIN | SWEEP, STDIN | HELD, STDIN | 1):
        box.run(4, str(K), kind=JOB_CELL, flags=flags)
        assert refusal(box, 4) == 71  # EPROTO
    box.run(4, str(K), "more", kind=JOB_CELL, flags=STDIN)
    assert refusal(box, 4) == 71
    box.run(0, str(K), kind=JOB_CELL, flags=STDIN)
    assert refusal(box, 0) == 22  # EINVAL
    box.go(3)
    assert refusal(box, 3) == 3
    box.send("TELL", K, body=b"not a cell")
    assert refusal(box, K) == 3
    box.send("TELL", 3, body=b"")
    assert box.until_cell(3).end == b"done"


def test_a_program_is_no_kernel(box):
    sh(box, K, "sleep 1000")
    box.run(2, str(K), kind=JOB_CELL, flags=STDIN)
    assert refusal(box, 2) == 3


def test_a_one_shot_is_not_listened_to_after_it_waits(box):
    """Without the flag of a kernel nothing that it says means anything."""
    code = KERNEL + "\nbegin()\nfor i in range(100): send(17, 1, b'x'); send(18, 1, b'x')\nprint('over')"
    box.run(K, "/usr/bin/python3", "-I", "-B", "-c", code, flags=HELD, env=ENV)
    assert box.wait_for(K, "READY")
    box.run(2, str(K), kind=JOB_CELL, flags=STDIN)
    assert refusal(box, 2) == 3
    box.go(K)
    assert box.wait_for(K, "OUTPUT", "MESSAGE", "EXIT").body == b"over\n"


# --- the end of a kernel -------------------------------------------------------------------------------------


@pytest.mark.parametrize("code, how, number", [
    ("os._exit(7)", EXITED, 7), ("os.kill(os.getpid(), 11)", SIGNALED, 11), ("os.kill(0, 9)", SIGNALED, 9),
], ids=["exit", "signal", "group"])
def test_a_cell_that_ends_its_kernel(kernel, code, how, number):
    cell = run(kernel, 2, f"os.write(out, b'last'); send(MESSAGE, cell, b'words'); {code}")
    assert cell.events == [("out", b"last"), ("message", b"words")]
    assert (cell.exit.how, cell.exit.code, cell.exit.flags) == (how, number, DIED)
    end = kernel.until_exit(K)[2]
    assert (end.how, end.code, end.flags) == (how, number, 0)
    kernel.run(3, str(K), kind=JOB_CELL, flags=STDIN)
    assert refusal(kernel, 3) == 3


def test_a_reply_right_before_the_end_counts(kernel):
    cell = run(kernel, 2, "os.write(out, b'x'); send(END, cell, b'bye'); os._exit(3)")
    assert cell.events == [("out", b"x"), ("end", b"bye")]
    assert (cell.exit.how, cell.exit.code, cell.exit.flags) == (EXITED, 0, 0)
    assert kernel.until_exit(K)[2].code == 3


def test_a_kernel_that_cannot_start(box):
    box.run(K, "/nowhere", flags=HELD | KERNEL_FLAG)
    box.go(K)
    end = box.until_exit(K)[2]
    assert (end.how, end.code, end.stage, end.flags) == (2, 2, "exec", NOT_READY)


def test_daemons_of_a_cell_outlive_its_kernel_without_harm(keeper, kernel):
    cell = run(kernel, 2, """
if os.fork() == 0:
    os.setsid()
    for i in range(100000):
        os.write(out, b'd' * 100)
        time.sleep(0.001)
time.sleep(0.1)
os._exit(5)
""")
    assert (cell.exit.code, cell.exit.flags) == (5, DIED)
    assert kernel.until_exit(K)[2].code == 5
    sh(kernel, 3, "sleep 0.3; pgrep -c python3")
    assert int(kernel.until_exit(3)[0]) == 1  # neither blocked nor broken
    kernel.send("SIGNAL", 0, body=struct.pack("<II", signal.SIGKILL, 2))
    until(lambda: descriptors(keeper) <= 8, "everything is closed")


def test_two_kernels_in_one_box(box):
    launch(box, job=1)
    launch(box, job=2)
    box.cell(3, 1, b"os.write(out, b'up'); time.sleep(1000)")
    box.wait_for(3, "OUTPUT")
    cell = run(box, 4, "os.write(out, b'x'); send(MESSAGE, 3, b'not mine'); send(END, 3, b'not mine'); send(MESSAGE, 2, b'-')",
               kernel=2)
    assert cell.events == [("out", b"x"), ("end", b"done")]
    interrupt(box, 3)
    frame = box.wait_for(3, "MESSAGE")
    assert frame.body == b"interrupted"


# --- acknowledgements and a new gate ---------------------------------------------------------------------------


def test_a_new_gate_gets_everything_again(kernel):
    kernel.cell(2, K, b"for i in range(50): os.write(out, b'%d ' % i); send(MESSAGE, cell, b'm%d' % i)\n")
    first = Cell()
    while first.exit is None:
        frame = kernel.next(2)
        if frame.name != "INPUT_ACK":
            first.take(frame)
    kernel.attach()
    assert kernel.until_cell(2).events == first.events
    fine(kernel, 3)


def test_a_new_gate_goes_on_with_the_request(kernel):
    code = b"os.write(out, hashlib.sha256(body).hexdigest().encode()) #" + os.urandom(150_000).hex().encode()
    kernel.run(2, str(K), kind=JOB_CELL, flags=STDIN)
    kernel.wait_for(2, "STARTED")
    taken = 0
    while taken + 65536 < len(code):  # every gate sends a bit, some of it twice, and is replaced
        kernel.run(2, str(K), kind=JOB_CELL, flags=STDIN)  # known already: nothing happens
        kernel.send("INPUT", 2, taken, body=code[taken:taken + 40_000])
        kernel.send("INPUT", 2, taken + 1000, body=code[taken + 1000:taken + 65536])
        before = taken
        while taken == before:
            taken = kernel.wait_for(2, "INPUT_ACK").number
        kernel.attach()
        assert kernel.wait_for(2, "INPUT_ACK").number >= taken
    kernel.send("INPUT", 2, taken, body=code[taken:])
    kernel.send("INPUT_END", 2, len(code))
    kernel.wait_for(2, "OUTPUT")
    kernel.attach()
    kernel.send("INPUT_END", 2, len(code))
    kernel.run(2, str(K), kind=JOB_CELL, flags=STDIN)
    assert kernel.until_cell(2).out == hashlib.sha256(code).hexdigest().encode()
    fine(kernel, 3)


def test_ten_gates_one_after_another(kernel):
    """Each acknowledges a bit and dies."""
    kernel.cell(2, K, b"for i in range(2000): os.write(out, b'%d\\n' % i); i % 100 or send(MESSAGE, cell, b'm%d' % i)\n")
    events, acked = Cell(), 0
    for gate in range(1000):
        for _ in range(5):
            if events.exit is not None:
                break
            frame = kernel.next(2)
            if frame.name == "INPUT_ACK" or frame.number <= acked:
                continue
            events.take(frame)
            acked = frame.number
            kernel.send("ACK", 2, acked)
        if events.exit is not None:
            break
        if gate % 5 == 0:
            kernel.attach()
    assert events.out == b"".join(b"%d\n" % i for i in range(2000))
    assert events.of("message") == b"".join(b"m%d" % i for i in range(0, 2000, 100))


def test_nobody_waits_for_a_reader_who_keeps(kernel):
    """20 MB of text and 10 MB of messages, not one acknowledgement."""
    kernel.cell(2, K, b"for i in range(200): os.write(out, bytes(100000)); say(cell, bytes(50000))\n"
                b"open('/tmp/over', 'w').close()\n", flags=KEEP, output_max=16 << 20)
    cell = kernel.until_cell(2, ack=False)
    assert (len(cell.out), len(cell.of("message")), cell.exit.flags) == (16 << 20, 10_000_000, CUT_STDOUT)
    kernel.attach()
    again = kernel.until_cell(2)
    assert again.events == cell.events
    fine(kernel, 3)


def test_a_program_that_keeps(box):
    sh(box, 1, "head -c 8000000 /dev/zero; echo end >&2", flags=KEEP, output_max=10_000_000)
    out, err, end = box.until_exit(1, ack=False)
    assert (len(out), err, end.flags) == (8_000_000, b"end\n", 0)
    box.send("ACK", 1, 1 << 40)
    sh(box, 2, "echo next", flags=KEEP)
    assert box.until_exit(2)[0] == b"next\n"


def test_without_that_it_waits(kernel):
    kernel.cell(2, K, b"for i in range(100): os.write(out, bytes(60000)); say(cell, bytes(30000))\n"
                b"open('/tmp/over', 'w').close()\n")
    cell = Cell()
    kernel.stream.settimeout(1)
    with pytest.raises(TimeoutError):
        while True:
            frame = kernel.next(2)
            if frame.name != "INPUT_ACK":
                cell.take(frame)
    kernel.stream.settimeout(30)
    assert len(cell.out) < 300_000
    sh(kernel, 3, "test -e /tmp/over && echo over || echo waits")
    assert kernel.until_exit(3)[0] == b"waits\n"
    kernel.send("ACK", 2, cell.last)
    while cell.exit is None:
        frame = kernel.next(2)
        if frame.name != "INPUT_ACK":
            cell.take(frame)
            kernel.send("ACK", 2, frame.number)
    assert (len(cell.out), len(cell.of("message"))) == (6_000_000, 3_000_000)


def test_memory_of_what_was_acknowledged_is_given_back(keeper, kernel):
    def resident():
        with open(f"/proc/{init_of(keeper)}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) >> 10

    kernel.cell(2, K, b"for i in range(300): os.write(out, bytes(60000))\n", flags=KEEP, output_max=64 << 20)
    cell = kernel.until_cell(2, ack=False)
    assert len(cell.out) == 18_000_000 and resident() >= 17
    kernel.send("ACK", 2, cell.last)
    until(lambda: resident() < 5, "memory goes back")
    fine(kernel, 3)


# --- hostile kernels -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packet", [
    "b'x'", "bytes(15)", "bytes(16)", "b'\\xff' * 16", "b'\\xff' * 49168", "bytes(49169)", "bytes(150000)",
    "struct.pack('<BBHIQ', 17, 0, 0, 0, 0)", "struct.pack('<BBHIQ', 17, 255, 9, 9, 1)", "struct.pack('<BBHIQ', 18, 0, 0, 0, 1)",
    "struct.pack('<BBHIQ', 16, 0, 0, 0, 0) + b'again'", "struct.pack('<BBHIQ', 15, 0, 0, 0, 0)",
    "struct.pack('<BBHIQ', 2, 0, 0, 0, cell)", "struct.pack('<BBHIQ', 18, 0, 0, 0, cell + 1)",
    "struct.pack('<BBHIQ', 18, 0, 0, 0, 2**64 - 1)",
])
def test_packets_that_mean_nothing(kernel, packet):
    cell = run(kernel, 2, f"for _ in range(300): channel.send({packet})")
    assert [e for e in cell.events if e[0] != "message"] == [("end", b"done")]
    fine(kernel, 3)


def test_any_packet_at_all(kernel):
    cell = run(kernel, 2, """
import random
r = random.Random(5)
for _ in range(20000):
    kind = r.choice([0, 1, 2, 3, 15, 16, 17, 17, 19, 255])
    whose = r.choice([0, 1, 2, 3, cell - 1, cell + 1, r.getrandbits(64)])
    channel.send(struct.pack('<BBHIQ', kind, r.getrandbits(8), r.getrandbits(16), r.getrandbits(32), whose) + bytes(r.choice([0, 1, 40000])))
""")
    assert cell.end == b"done"
    fine(kernel, 3)


@pytest.mark.parametrize("code", ["channel.send(b'')", "channel.shutdown(socket.SHUT_WR)", "os.close(3)",
                                  "os.dup2(os.open('/dev/null', 2), 3)"], ids=["empty", "shut", "close", "replace"])
def test_a_kernel_without_its_channel_is_ended(kernel, code):
    box = kernel
    box.cell(2, K, f"{code}\nwhile True: time.sleep(1)".encode(), timeout_us=1_000_000)
    cell = box.until_cell(2)
    assert cell.exit.flags & DIED and (cell.exit.how, cell.exit.code) == (SIGNALED, signal.SIGKILL)
    assert box.until_exit(K)[2].how == SIGNALED
    sh(box, 3, "echo well")
    assert box.until_exit(3)[0] == b"well\n"


def test_a_kernel_that_will_not_hear_any_more(kernel):
    assert run(kernel, 2, "channel.shutdown(socket.SHUT_RD)").end == b"done"
    kernel.run(3, str(K), kind=JOB_CELL, flags=STDIN)
    try:
        kernel.send("INPUT", 3, 0, body=b"pass")
        kernel.send("INPUT_END", 3, 4)
        assert kernel.until_cell(3).exit.flags == DIED
    except Failed:
        pass  # it has ended by itself before
    assert kernel.until_exit(K)[2]


def test_descriptors_that_are_sent_to_init_do_not_stay(keeper, kernel):
    before = descriptors(keeper)
    cell = run(kernel, 2, """
mine = [os.open('/dev/null', 0) for _ in range(250)]
def push(*args):
    while True:
        try: return send(*args, fds=mine)
        except OSError as e: assert e.errno == 109  # too many in flight: init has not taken them yet
for _ in range(200):
    push(MESSAGE, cell, b'x')
    push(99, cell, b'x')
    push(MESSAGE, 12345, b'x')
push(END, cell, b'first')
for fd in mine: os.close(fd)
""")
    assert cell.end == b"first"
    fine(kernel, 3)
    assert descriptors(keeper) <= before + 8


def test_too_many_descriptors_in_flight(kernel):
    """Of one uid only so many may be; init's own pipes wait until there are less."""
    cell = run(kernel, 2, """
a, b = socket.socketpair()
mine = [os.open('/dev/null', 0) for _ in range(250)]
try:
    for _ in range(20):
        a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', mine))])
except OSError as e:
    os.write(out, str(e.errno).encode())
for fd in mine: os.close(fd)
import builtins; builtins.flight = (a, b)
def free():
    time.sleep(0.5)
    a.close(); b.close()
threading.Thread(target=free).start()
""")
    assert cell.out == b"109"  # ETOOMANYREFS
    fine(kernel, 3)


def test_a_message_that_never_ends_waits_for_its_reader(kernel):
    kernel.cell(2, K, b"while True: send(MESSAGE, cell, bytes(49152), MORE)")
    total = 0
    kernel.stream.settimeout(1)
    with pytest.raises(TimeoutError):
        while True:
            frame = kernel.next(2)
            assert frame.name in ("STARTED", "MESSAGE", "INPUT_ACK")
            total += len(frame.body)
    assert total < 400_000
    kernel.stream.settimeout(30)
    sh(kernel, 3, "echo well")
    assert kernel.until_exit(3)[0] == b"well\n"
    interrupt(kernel, 2, signal.SIGKILL)
    kernel.send("ACK", 2, 1 << 40)
    while (frame := kernel.wait_for(2, "MESSAGE", "EXIT")).name != "EXIT":
        kernel.send("ACK", 2, frame.number)


def test_time_of_a_kernel_that_waits_for_a_reader(kernel):
    """It is over although nobody acknowledges; the rest of what it said, perhaps a reply, comes before the end."""
    kernel.cell(2, K, b"while True: send(MESSAGE, cell, bytes(49152), MORE)", timeout_us=200_000)
    sh(kernel, 3, "while pgrep python3 > /dev/null; do sleep 0.1; done; echo gone")
    assert kernel.until_exit(3)[0] == b"gone\n"
    kernel.attach()
    while (frame := kernel.wait_for(2, "MESSAGE", "STARTED", "EXIT")).name != "EXIT":
        kernel.send("ACK", 2, frame.number)
    assert frame.body[5] in (TIMED_OUT | DIED, TIMED_OUT)
    assert kernel.until_exit(K)[2].code == signal.SIGKILL


def test_a_flood_of_late_words_harms_nobody_else(kernel):
    """A thread of an ended cell prints without end."""
    kernel.cell(2, K, b"""
def flood():
    while True:
        os.write(out, bytes(30000))
threading.Thread(target=flood, daemon=True).start()
""")
    kernel.until_cell(2)
    # From here on nobody acknowledges: it waits in its own pipe.
    for job in range(3, 13):
        assert run(kernel, job, "os.write(out, b'x')").out == b"x"
    sh(kernel, 20, "echo well")
    assert kernel.until_exit(20)[0] == b"well\n"


def test_a_kernel_that_does_not_read(kernel):
    assert run(kernel, 2, """
def stop():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGSTOP)
threading.Thread(target=stop).start()
""").end == b"done"
    time.sleep(0.6)
    kernel.run(3, str(K), kind=JOB_CELL, flags=STDIN, timeout_us=500_000)
    sent = taken = 0
    kernel.stream.settimeout(0.3)
    with pytest.raises(TimeoutError):
        while True:
            while sent - taken < 65536:
                kernel.send("INPUT", 3, sent, body=bytes(16384))
                sent += 16384
            frame = kernel.next(3)
            taken = frame.number if frame.name == "INPUT_ACK" else taken
    kernel.stream.settimeout(30)
    assert sent < 1 << 20
    sh(kernel, 4, "echo well")
    assert kernel.until_exit(4)[0] == b"well\n"
    frame = kernel.wait_for(3, "EXIT")
    assert frame.body[5] == TIMED_OUT | DIED
    kernel.wait_for(K, "EXIT")


def test_replies_out_of_turn(kernel):
    """END of a cell whose request has not come yet, and of cells to come."""
    cell = run(kernel, 2, "for i in range(3, 50): send(END, i, b'early')")
    assert cell.events == [("end", b"done")]
    fine(kernel, 3)
    kernel.cell(5, K, b"""
def guess():
    while True:
        send(END, 6, b'guessed')
        send(MESSAGE, 6, b'x')
        time.sleep(0.001)
threading.Thread(target=guess, daemon=True).start()
""")
    assert kernel.until_cell(5).end == b"done"
    kernel.run(6, str(K), kind=JOB_CELL, flags=STDIN)
    kernel.send("INPUT", 6, 0, body=b"half of")
    while (frame := kernel.wait_for(6, "EXIT", "MESSAGE", "STARTED")).name != "EXIT":
        pass
    kernel.send("INPUT", 6, 7, body=b" a request")  # its end has been told: nothing more is said of it
    cell = run(kernel, 7, "os.write(out, b'x')")
    assert cell.exit.flags == 0


def test_twice_the_end(kernel):
    cell = run(kernel, 2, "for _ in range(100): send(END, cell, b'over'); send(MESSAGE, cell, b'late')")
    assert cell.events == [("end", b"over")]
    fine(kernel, 3)


def test_a_child_with_the_channel_outlives_the_kernel(keeper, kernel):
    """It goes on talking; nobody listens, and the end of the kernel is told at once."""
    cell = run(kernel, 2, """
if os.fork() == 0:
    os.setsid()
    while True:
        try: send(MESSAGE, cell, b'x' * 1000); os.write(out, b'x' * 1000)
        except OSError: time.sleep(0.01)
time.sleep(0.1)
os._exit(5)
""")
    assert (cell.exit.code, cell.exit.flags) == (5, DIED)
    assert kernel.until_exit(K)[2].code == 5
    sh(kernel, 3, "echo well")
    assert kernel.until_exit(3)[0] == b"well\n"
    launch(kernel, job=10)
    assert run(kernel, 11, "os.write(out, b'new')", kernel=10).out == b"new"


def test_a_thief_in_the_pipe(keeper):
    """What was counted as printed is read by somebody else, who has to be root of the box: nothing waits for it."""
    box = keeper.new_box(flags=1)
    try:
        launch(box)
        cell = run(box, 2, """
fcntl.fcntl(out, 1031, 1 << 20)
if os.fork() == 0:
    os.setsid()
    thief = os.open('/proc/self/fd/%d' % out, os.O_RDONLY)
    while True: os.read(thief, 65536)
for i in range(300):
    os.write(out, bytes(100000))
    send(MESSAGE, cell, b'm')
""")
        assert cell.of("message") == b"m" * 300 and cell.end == b"done"
        assert cell.exit.stdout_bytes < 30_000_000
    finally:
        box.end()


def test_pipes_of_another_kind(kernel):
    """O_DIRECT, non-blocking, closed, dup'ed over: the kernel's own loss."""
    cell = run(kernel, 2, """
fcntl.fcntl(out, fcntl.F_SETFL, os.O_DIRECT | os.O_NONBLOCK)
for i in range(100):
    try: os.write(out, b'x' * i)
    except BlockingIOError: pass
    send(MESSAGE, cell, b'm')
os.close(out); os.close(err)
send(MESSAGE, cell, b'm')
""")
    assert cell.of("message") == b"m" * 101 and cell.end == b"done"
    kernel.cell(3, K, b"pass")
    assert kernel.until_cell(3).end == b"done"


def test_few_descriptors(keeper):
    """init has as many as a program of the box: cells that linger make place for others."""
    box = keeper.new_box(OPEN_FILES=48)
    try:
        launch(box, KERNEL.replace("len(kept) > 32", "len(kept) > 8") + "\nbegin()\nserve()\n")
        for job in range(2, 60):
            cell = run(box, job, "subprocess.Popen(['sleep', '1000'], stdout=out, stderr=err); os.write(out, b'x')")
            assert (cell.out, cell.end) == (b"x", b"done")
            sh(box, 1000 + job, "echo well")
            assert box.until_exit(1000 + job)[0] == b"well\n"
    finally:
        box.end()


def test_a_thousand_cells_leave_nothing(keeper, kernel):
    run(kernel, 2, "pass")
    before = descriptors(keeper)
    for job in range(3, 1003):
        cell = run(kernel, job, "os.write(out, b'x'); send(MESSAGE, cell, b'm')")
        assert [name for name, _ in cell.events] == ["out", "message", "end"]
    assert descriptors(keeper) <= before + 2 * LINGER_MAX
    kernel.send("SIGNAL", K, body=struct.pack("<II", signal.SIGKILL, 0))
    kernel.until_exit(K)
    until(lambda: descriptors(keeper) <= before - 2, "everything is closed")
