# SPDX-License-Identifier: Apache-2.0
"""The kernel's end of the channel and its encoder, by themselves: they need no IPython."""
import array
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from fake_init import END_OF_INPUT, HEADER, MESSAGE, MORE, PAYLOAD_MAX, RUN, SOURCE, STDIN

sys.path.insert(0, str(SOURCE))

from glovebox_kernel import messages, plain  # noqa: E402
from glovebox_kernel.channel import REQUEST_MAX, Channel, Gone, Outgoing  # noqa: E402


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(theirs.detach())
    yield ours, channel
    ours.close()
    channel.socket.close()


def packets(sock):
    """All packets there are, as (type, flags, cell, payload)."""
    found = []
    while True:
        try:
            data = sock.recv(1 << 20, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return found
        if not data:
            return found
        kind, flags, _, _, cell = HEADER.unpack(data[:16])
        found.append((kind, flags, cell, data[16:]))


@pytest.mark.parametrize("size", [0, 1, PAYLOAD_MAX - 1, PAYLOAD_MAX, PAYLOAD_MAX + 1, 2 * PAYLOAD_MAX, 2 * PAYLOAD_MAX + 7])
def test_messages_are_cut_and_joined(pair, size):
    sock, channel = pair
    data = random.Random(size).randbytes(size)
    channel.send(MESSAGE, 2**64 - 1, data)
    got = packets(sock)
    assert b"".join(p[3] for p in got) == data and len(got) == max(1, -(-size // PAYLOAD_MAX))
    assert [p[1] for p in got] == [MORE] * (len(got) - 1) + [0] and {p[0::2] for p in [p[:3] for p in got]} == {(MESSAGE, 2**64 - 1)}
    for i, (_, flags, _, piece) in enumerate(got):
        assert channel.receive() is None or i == 0
        sock.send(HEADER.pack(RUN, flags, 0, 0, 7) + piece)
    message = channel.receive()
    assert (message.type, message.cell, message.payload, message.fds) == (RUN, 7, data, [])
    assert channel.receive() is None


def test_messages_of_several_cells_interleave(pair):
    sock, channel = pair
    for flags, cell, piece in ((MORE, 1, b"a"), (MORE, 2, b"x"), (MORE, 1, b"b"), (0, 2, b"y"), (END_OF_INPUT, 1, b"c")):
        sock.send(HEADER.pack(STDIN, flags, 0, 0, cell) + piece)
    first, second = channel.receive(), channel.receive()
    assert (first.cell, first.payload, first.flags) == (2, b"xy", 0)
    assert (second.cell, second.payload, second.flags) == (1, b"abc", END_OF_INPUT)


def test_descriptors_come_with_the_first_packet(pair):
    sock, channel = pair
    read, write = os.pipe()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write, write]))]
    sock.sendmsg([HEADER.pack(RUN, MORE, 0, 0, 1) + b"{"], rights)
    sock.send(HEADER.pack(RUN, 0, 0, 0, 1) + b"}")
    message = channel.receive()
    assert message.payload == b"{}" and len(message.fds) == 2
    assert not any(os.get_inheritable(fd) for fd in message.fds)
    for fd in message.fds:
        os.write(fd, b"x")
        os.close(fd)
    assert os.read(read, 10) == b"xx"
    os.close(read)
    os.close(write)


def test_a_message_that_is_too_large_is_known_to_be(pair):
    sock, channel = pair
    piece = b"x" * PAYLOAD_MAX
    for _ in range(REQUEST_MAX // PAYLOAD_MAX + 1):
        sock.send(HEADER.pack(RUN, MORE, 0, 0, 1) + piece)
        assert channel.receive() is None
    sock.send(HEADER.pack(RUN, 0, 0, 0, 1))
    assert channel.receive().payload is None
    sock.send(HEADER.pack(RUN, 0, 0, 0, 2) + b"small")
    assert channel.receive().payload == b"small"


@pytest.mark.parametrize("size", [1, 15, 16 + PAYLOAD_MAX + 1, 16 + PAYLOAD_MAX + 2])
def test_what_is_no_packet_ends_it(pair, size):
    sock, channel = pair
    sock.send(b"x" * size)
    with pytest.raises(Gone):
        channel.receive()
    channel.send(MESSAGE, 1, b"goes nowhere")
    assert channel.gone


def test_parts_of_too_many_messages_end_it(pair):
    sock, channel = pair
    with pytest.raises(Gone):
        for cell in range(100):
            sock.send(HEADER.pack(RUN, MORE, 0, 0, cell))
            channel.receive()


def test_an_end(pair):
    sock, channel = pair
    sock.close()
    channel.send(MESSAGE, 1, b"x" * 200000)
    assert channel.gone
    with pytest.raises(Gone):
        channel.receive()


def test_nobody_reads(pair):
    """Sending waits, and goes on."""
    sock, channel = pair
    data = os.urandom(3 << 20)
    thread = threading.Thread(target=channel.send, args=(MESSAGE, 1, data))
    thread.start()
    time.sleep(0.05)
    assert thread.is_alive()
    got = b""
    while len(got) < len(data):
        got += sock.recv(1 << 20)[16:]
    thread.join()
    assert got == data


def test_a_socket_that_somebody_made_non_blocking(pair):
    sock, channel = pair
    os.set_blocking(channel.fd, False)
    thread = threading.Thread(target=channel.send, args=(MESSAGE, 1, b"x" * (1 << 20)))
    thread.start()
    got = 0
    while got < 1 << 20:
        got += len(sock.recv(1 << 20)) - 16
    thread.join()


def test_threads_do_not_mix(pair):
    sock, channel = pair
    texts = [bytes([65 + n]) * 200001 for n in range(6)]
    threads = [threading.Thread(target=lambda t=text: [channel.send(MESSAGE, 1, t) for _ in range(5)]) for text in texts]
    for thread in threads:
        thread.start()
    whole, got = b"", []
    while len(got) < 30:
        data = sock.recv(1 << 20)
        whole += data[16:]
        if not data[1] & MORE:
            got.append(whole)
            whole = b""
    for thread in threads:
        thread.join()
    assert sorted(got) == sorted(texts * 5)


HIT = """
import signal, socket, sys, threading
sys.path.insert(0, sys.argv[1])
from glovebox_kernel.channel import Channel, Outgoing

class Hit(Exception):
    pass

def handler(*_):
    raise Hit

def read():
    whole = b""
    while len(got) < len(expected):
        data = ours.recv(1 << 20)
        whole += data[16:]
        if not data[1] & 1:
            got.append(whole)
            whole = b""

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
channel, got = Channel(theirs.detach()), []
expected = [b"%06d" % n * 50000 for n in range(60)]
outgoing = [Outgoing(17, 1, data) for data in expected]
signal.signal(signal.SIGALRM, handler)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
reader = threading.Thread(target=read, daemon=True)
reader.start()
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
hits = 0
for each in outgoing:
    while not each.done():
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
            channel.push(each)
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        except Hit:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            hits += 1
signal.setitimer(signal.ITIMER_REAL, 0)
reader.join()
assert got == expected
print(hits)
"""


def test_exceptions_of_signal_handlers_neither_lose_nor_repeat_packets():
    """In a process of its own: the handler hits every place, also outside of what is tested, there where the exception is
    caught or as the interpreter comes down with it. Then it is tried again."""
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", HIT, str(SOURCE)], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != -signal.SIGALRM and not done.stderr.rstrip().endswith("Hit"):
            break
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_handler_that_sends_while_something_is_sent(pair):
    """Its message comes after the one it interrupted."""
    sock, channel = pair
    old = signal.signal(signal.SIGALRM, lambda *_: channel.send(MESSAGE, 1, b"inner"))
    try:
        thread = threading.Timer(0.2, lambda: [got.append(sock.recv(1 << 20)[16:]) for _ in range(70)])
        got = []
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        thread.start()
        channel.send(MESSAGE, 1, b"x" * (68 * PAYLOAD_MAX + 5))
    finally:
        signal.signal(signal.SIGALRM, old)
    thread.join()
    assert got[-1] == b"inner" and b"inner" not in b"".join(got[:-1])


# --- the encoder ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, True, 0, -5, 1.5, 1e300, "", "ü\n\t\"\\\x7f\u2028😀", [], {}, [[], {}], {"a": [1, {"b": None}]}, "\ud800x",
                                   list(range(1000)), {"x" * 1000: "y" * 100000}])
def test_json_is_json(value):
    assert json.loads(plain.encode(value, 1 << 20)) == value
    assert plain.decode(plain.encode(value, 1 << 20)) == value


def test_lone_surrogates_are_escapes():
    assert plain.encode("a\ud800b", 100) == b'"a\\ud800b"'
    assert plain.encode("\\\udfff", 100) == b'"\\\\\\udfff"'


def test_bounds_of_the_encoder():
    assert plain.encode("x" * 98, 100)
    with pytest.raises(plain.TooLarge) as e:
        plain.encode("x" * 99, 100)
    assert e.value.text() == "101 bytes"
    circle = []
    circle.extend([circle, circle])
    with pytest.raises(plain.TooLarge):
        plain.encode(circle, 100)


def test_text_of_anything():
    class Bad:
        def __str__(self):
            raise ValueError

    class Worse(type):
        @property
        def __name__(cls):
            raise ValueError

    assert plain.text_of(Bad()) == "<unprintable Bad object>"
    assert plain.text_of(Worse("W", (Bad,), {})()) == "<unprintable object>"


def test_what_cannot_be_sent_is_replaced():
    big = "x" * (17 << 20)
    for kind in ("display_data", "execute_result", "error", "comm_msg", "clear_output"):
        found = json.loads(messages.message(kind, {"data": {"a/b": big}, "ename": "E", "evalue": big, "execution_count": 3}))
        assert "left out" in json.dumps(found) and len(json.dumps(found)) < 1000
    found = json.loads(messages.reply("execute_reply", {"status": "ok", "x": big, "execution_count": 3}))
    assert found["content"]["status"] == "error" and found["content"]["execution_count"] == 3
