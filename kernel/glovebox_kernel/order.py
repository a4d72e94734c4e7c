# SPDX-License-Identifier: Apache-2.0
"""Text after a message, and not before it.

init empties the pipes of a cell before it passes a message on: what was printed before is then in front of it. But what
is printed while the message waits would be, too. So whoever wants to write after a message first asks init whether it
has come that far: SYNC, SYNCED. One question per change from messages to text, and none if init does not want them.
"""
from .safe import builtins as __builtins__  # isort: skip

from itertools import count

from . import answers, fork
from .cells import cells
from .channel import SYNC, SYNCED

wanted = False
_numbers = count(1)
_channel = None


def connect(channel, sync):
    global _channel, wanted
    _channel, wanted = channel, sync


def settle(cell):
    """Returns when all messages of the cell were passed on."""
    __tracebackhide__ = True
    if not cell.behind or not wanted or fork.forked:
        return
    with cell.lock:
        if not cell.behind or answers.expected(SYNCED, cell.id):
            # In order already, or this is a signal handler that prints while its thread waits here.
            return
        waiter = answers.Waiter(SYNCED, cell.id)
        try:
            answers.expect(waiter)
            number = b"%d" % next(_numbers)
            _channel.send(SYNC, cell.id, number)
            while True:
                answer = answers.wait(waiter, _still)
                # One that an interrupt left over is of another number.
                if answer is None or answer.payload == number:
                    break
        finally:
            answers.done(waiter)
        cell.behind = False


def settle_current():
    cell = cells.current()
    if cell is not None and cell.behind:
        settle(cell)


def _still():
    return not _channel.gone
