# SPDX-License-Identifier: Apache-2.0
"""Links: connections to programs of a box, below the server. JOB_LINK, by a gate of the test's own."""
import errno
import os
import struct
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from gate import JOB_ATTENDED, JOB_LINK, JOB_PROMPT, JOB_STDIN, Exit, Failed, Keeper  # noqa: E402

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")

EXITED, SIGNALED = 0, 1
TIMED_OUT = 1
FLAGS = JOB_STDIN | JOB_ATTENDED
PORT = 4000

# What a server is like: one connection at a time, on whatever address; `c` is the connection. It says on stdout what it has to say.
SERVER = """
import socket, sys, time
s = socket.socket({family})
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(({address!r}, 4000))
s.listen(200)
print("listens", flush=True)
while True:
    c, peer = s.accept()
{body}
    c.close()
"""
ECHO = """
    while data := c.recv(65536):
        c.sendall(data)
"""


@pytest.fixture
def keeper(glovebox):
    k = Keeper(glovebox)
    yield k
    k.stop()


@pytest.fixture
def box(keeper):
    return keeper.new_box()


def serve(box, body, family="socket.AF_INET", address="127.0.0.1", job=1):
    box.run(job, "/usr/bin/python3", "-c", SERVER.format(body=body, family=family, address=address), env=("PATH=/usr/bin",))
    assert said(box, job) == b"listens\n"
    return job


def said(box, job):
    frame = box.wait_for(job, "OUTPUT")
    box.send("ACK", job, frame.number)
    return frame.body


def link(box, job, port=PORT, **kw):
    box.run(job, str(port), kind=JOB_LINK, flags=FLAGS, **kw)


def talk(box, job, data, end=True):
    """Send everything as it is taken, and hear everything until the end: (what came, Exit)."""
    sent = taken = 0
    heard, started = b"", False
    while True:
        part = data[sent:min(sent + 32768, taken + 65536)]
        if part:
            box.send("INPUT", job, sent, body=part)
            sent += len(part)
            continue
        if end and sent == len(data):
            box.send("INPUT_END", job, sent)
            end = False
        frame = box.next(job, refused=not started)
        started = started or frame.name == "STARTED"
        if frame.name == "INPUT_ACK":
            taken = frame.number
        elif frame.name == "OUTPUT":
            assert frame.flags == 1
            box.send("ACK", job, frame.number)
            heard += frame.body
        elif frame.name == "EXIT":
            box.send("ACK", job, frame.number)
            return heard, Exit(frame.body)


@pytest.mark.parametrize("family,address", [("socket.AF_INET", "127.0.0.1"), ("socket.AF_INET", "0.0.0.0"),
                                            ("socket.AF_INET6", "::1"), ("socket.AF_INET6", "::")])
def test_both_ways_and_an_end_each(box, family, address):
    serve(box, ECHO, family, address)
    link(box, 2)
    heard, end = talk(box, 2, b"hello")
    assert heard == b"hello"  # so it heard that there was no more, and could still answer
    assert (end.how, end.code) == (EXITED, 0)


def test_a_little_of_it_at_once(box):
    """What is said is heard before more is said, or the end: one byte at a time."""
    serve(box, ECHO)
    box.run(2, str(PORT), kind=JOB_LINK, flags=FLAGS | JOB_PROMPT)
    for at in range(20):
        box.send("INPUT", 2, at, body=bytes([at]))
        assert said(box, 2) == bytes([at])


def test_much_of_it(box):
    serve(box, ECHO)
    data = os.urandom(1 << 20) * 8
    link(box, 2)
    assert talk(box, 2, data)[0] == data


def test_who_does_not_read_holds_it_up_and_nobody_else(box):
    """Without an acknowledgement a ring is all that comes; another link goes on."""
    serve(box, """
    c.sendall(b"x" * (4 << 20)) if c.recv(1) == b"m" else c.sendall(b"few")
""" + "    if False: pass\n")
    link(box, 2)
    box.send("INPUT", 2, 0, body=b"m")
    heard = 0
    while heard < 200_000:
        heard += len(box.wait_for(2, "OUTPUT").body)
    serve_second(box)
    link(box, 4, 4001)
    assert talk(box, 4, b"a")[0] == b"a"
    # What is left of the ring and no more: it waits.
    while frames := [f for f in box.kept.get(2, []) if f.name == "OUTPUT"]:
        heard += sum(len(f.body) for f in frames)
        box.kept[2] = []
    assert heard <= 256 * 1024


def serve_second(box):
    box.run(3, "/usr/bin/python3", "-c", (SERVER.format(body=ECHO, family="socket.AF_INET", address="127.0.0.1")).replace("4000", "4001"),
            env=("PATH=/usr/bin",))
    assert said(box, 3) == b"listens\n"


def test_a_program_that_has_no_more_to_say_ends_it(box):
    serve(box, '    c.sendall(b"bye")')
    link(box, 2)
    heard, end = talk(box, 2, b"", end=False)
    assert heard == b"bye"
    assert (end.how, end.code, end.stdout_bytes) == (EXITED, 0, 3)


def test_one_that_is_reset(box):
    serve(box, """
    c.recv(1)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
""")
    link(box, 2)
    heard, end = talk(box, 2, b"x" * 100_000, end=False)
    assert heard == b"" and end.how == EXITED


def test_nobody_listens(box):
    link(box, 2)
    with pytest.raises(Failed) as e:
        talk(box, 2, b"x")
    assert e.value.args == (errno.ECONNREFUSED, "nobody listens there")
    serve(box, ECHO)  # the id is free, and the box has not suffered
    link(box, 3)
    assert talk(box, 3, b"now")[0] == b"now"


def test_it_comes_from_the_box_s_own_loopback(box):
    serve(box, "    c.sendall(repr(peer[0]).encode())", address="0.0.0.0")
    link(box, 2)
    assert talk(box, 2, b"")[0] == b"'127.0.0.1'"


@pytest.mark.parametrize("port", ["0", "65536", "-1", "+1", "x", "", "80 ", "127.0.0.1:80"])
def test_no_port(box, port):
    link(box, 2, port)
    with pytest.raises(Failed) as e:
        talk(box, 2, b"x")
    assert e.value.args[0] == errno.EINVAL


@pytest.mark.parametrize("flags", [0, JOB_STDIN, JOB_ATTENDED, FLAGS | 1, FLAGS | 4, FLAGS | 1 << 7])
def test_flags_that_make_no_sense(box, flags):
    box.run(2, str(PORT), kind=JOB_LINK, flags=flags)
    with pytest.raises(Failed):
        box.next(2)


@pytest.mark.parametrize("sig,scope", [(15, 0), (9, 1)])
def test_a_signal_is_its_end(box, sig, scope):
    serve(box, """
    c.sendall(b"1")
    while c.recv(10):
        pass
    print("gone", flush=True)
""")
    link(box, 2)
    assert said(box, 2) == b"1"
    box.send("SIGNAL", 2, body=struct.pack("<II", sig, scope))
    frame = box.wait_for(2, "EXIT")
    box.send("ACK", 2, frame.number)
    end = Exit(frame.body)
    assert (end.how, end.code) == (SIGNALED, 9)
    assert said(box, 1) == b"gone\n"
    link(box, 3)  # and init has not hit itself
    assert said(box, 3) == b"1"


def test_its_time(box):
    serve(box, "    time.sleep(100)")
    link(box, 2, timeout_us=50_000)
    frame = box.wait_for(2, "EXIT")
    assert Exit(frame.body).flags & TIMED_OUT


def test_it_ends_with_its_gate(box):
    serve(box, """
    c.sendall(b"1")
    while c.recv(10):
        pass
    print("gone", flush=True)
""")
    link(box, 2)
    assert said(box, 2) == b"1"
    box.attach()
    assert said(box, 1) == b"gone\n"
    link(box, 2)  # the id is as if it had never been
    assert said(box, 2) == b"1"


def test_as_many_as_there_are_jobs(box):
    """More are refused, the others work, and there is room again."""
    serve(box, """
    import threading
    threading.Thread(target=lambda c=c: (c.sendall(c.recv(1)), c.recv(1), c.close())).start()
    continue
""")
    links = range(2, 129)
    for job in links:
        link(box, job)
        box.wait_for(job, "STARTED")
    link(box, 500)
    with pytest.raises(Failed) as e:
        box.next(500)
    assert e.value.args[0] == errno.EAGAIN
    for job in links:
        box.send("INPUT", job, 0, body=b"z")
    for job in links:
        assert said(box, job) == b"z"
        box.send("INPUT", job, 1, body=b"z")
        frame = box.wait_for(job, "EXIT")
        box.send("ACK", job, frame.number)
    link(box, 600)
    assert talk(box, 600, b"yz", end=False)[0] == b"y"
