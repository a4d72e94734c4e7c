# SPDX-License-Identifier: Apache-2.0
"""Waiting for a word of init in the middle of a cell: STDIN, SYNCED.

Whoever waits reads the channel, and hands on what is not for it. A thread lets the main one do it, should that be at it.
"""
from .safe import builtins as __builtins__  # isort: skip

import threading
from _thread import get_ident
from collections import deque
from queue import Empty, SimpleQueue

from .channel import RUN, Gone

# How long a thread looks at the channel before it looks whether somebody else has got its answer.
LOOK_MS = 5

_main = threading.main_thread().ident
_channel = None
_waiting = {}
# Requests that came while somebody waited, and how to tell the main thread of one.
early = deque()
_wake = None


def connect(channel, wake):
    global _channel, _wake
    _channel, _wake = channel, wake


def connected():
    return _channel is not None


def expect(kind, cell):
    """Before the question is sent. Returns what wait() wants, or None if somebody waits for the same."""
    key = (kind, cell)
    if key in _waiting:
        return None
    _waiting[key] = SimpleQueue()
    return key


def wait(key, still):
    """A message, or None if there will be none. `still()` says whether to go on."""
    __tracebackhide__ = True
    main = get_ident() == _main
    queue = _waiting[key]
    while still():
        try:
            return queue.get_nowait()
        except Empty:
            pass
        try:
            if _channel.wait(None if main and len(_waiting) == 1 else LOOK_MS):
                message = _channel.receive()
                if message is not None:
                    _hand_on(message, main)
        except Gone:
            break
    return None


def done(key):
    _waiting.pop(key, None)


def deliver(message):
    """Without anybody who waits it is forgotten."""
    queue = _waiting.get((message.type, message.cell))
    if queue is not None:
        queue.put(message)


def _hand_on(message, main):
    if message.type != RUN:
        deliver(message)
        return
    early.append(message)
    if not main:
        _wake()
