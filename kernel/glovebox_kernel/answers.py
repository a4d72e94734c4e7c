# SPDX-License-Identifier: Apache-2.0
"""Waiting for a word of init in the middle of a cell: STDIN, SYNCED.

One of those who wait reads the channel, and hands on what is not for it; the others look now and then whether it still does.
"""
from .safe import builtins as __builtins__  # isort: skip

import threading
from _thread import RLock, get_ident
from collections import deque
from queue import Empty, SimpleQueue

from .channel import CONFIG, INTERRUPT, RUN, Gone
from .interrupt import interrupts
from .plain import decode

# How long a thread reads, and the main one; a signal handler that asks may have got its answer meanwhile.
READ_MS, READ_MAIN_MS = 5, 1000
# How long somebody relies on another one who reads.
REST_S = 0.02

_main = threading.main_thread().ident
_channel = None
# Who waits, in the order in which they asked.
_waiting = []
# Who reads has it, also in a signal handler.
_reading = RLock()
# Requests that came while somebody waited, and how to tell the main thread of one.
early = deque()
_wake = None


class Waiter:
    """Somebody who wants messages of one kind about one cell: one, or all."""

    __slots__ = ("key", "once", "given", "queue")

    def __init__(self, kind, cell, once=False):
        self.key, self.once, self.given, self.queue = (kind, cell), once, False, SimpleQueue()


def connect(channel, wake):
    global _channel, _wake
    _channel, _wake = channel, wake


def await_config(channel):
    """The first word of init."""
    while True:
        channel.wait()
        message = channel.receive()
        if message is not None and message.type == CONFIG:
            config = decode(message.payload or b"{}")
            return config if type(config) is dict else {}


def begin_again():
    """In a copy of the process: nobody waits, and nothing has come."""
    global _reading
    _reading = RLock()
    _waiting.clear()
    early.clear()


def connected():
    return _channel is not None


def expected(kind, cell):
    """Whether somebody waits for that."""
    return any(waiter.key == (kind, cell) for waiter in _waiting[:])


def expect(waiter):
    """Before its question is sent."""
    _waiting.append(waiter)


def done(waiter):
    if waiter in _waiting:
        _waiting.remove(waiter)


def wait(waiter, still):
    """A message, or None if there will be none. `still()` says whether to go on."""
    __tracebackhide__ = True
    main = get_ident() == _main
    while still():
        reads = _reading.acquire(False)
        try:
            if reads and waiter.queue.empty():
                _read(main)
            return waiter.queue.get(not reads, REST_S)
        except Empty:
            pass
        except Gone:
            break
        finally:
            if reads:
                _reading.release()
    return None


def _read(main):
    __tracebackhide__ = True
    if _channel.wait(READ_MAIN_MS if main else READ_MS):
        message = _channel.receive()
        if message is not None:
            _hand_on(message, main)


def deliver(message):
    """To the first who waits for it and has none. Without anybody it is forgotten."""
    for waiter in _waiting[:]:
        if waiter.key == (message.type, message.cell) and not (waiter.once and waiter.given):
            waiter.given = True
            waiter.queue.put(message)
            return


def _hand_on(message, main):
    if message.type == INTERRUPT:
        interrupts.wanted = message.cell
        return
    if message.type != RUN:
        deliver(message)
        return
    early.append(message)
    if not main:
        _wake()
