# SPDX-License-Identifier: Apache-2.0
"""The asyncio loop of the kernel. It lives as long as the kernel, and turns between cells.

A cell without top-level `await` runs outside of it: there no loop is running, so asyncio.run() and libraries that ask
for a running loop behave as in a program. asyncio.create_task() works there nonetheless, as in every notebook: its
task begins when the cell is over.
"""
from .safe import builtins as __builtins__  # isort: skip

import asyncio
import selectors
from _thread import get_ident
from asyncio import events, tasks
from select import POLLIN, poll

from . import descriptors
from .pipe import flush_all

_create_task = tasks.create_task
_running = events._get_running_loop
_set_loop = events.set_event_loop
_base = getattr(selectors, "EpollSelector", selectors.DefaultSelector)
_Loop = asyncio.SelectorEventLoop

_loop = None
_main = 0


class Selector(_base):
    """Nothing that was printed waits for an event."""

    # Called before every wait: whether not to.
    check = staticmethod(lambda: False)

    def select(self, timeout=None):
        if self.check():
            timeout = 0
        if timeout != 0:
            flush_all()
        return super().select(timeout)


class Loop(_Loop):
    def close(self):
        """Programs close the loop that they got from get_event_loop(). This one is not theirs."""


def create():
    """A new loop. Its descriptors are ours."""
    global _loop, _main
    selector = Selector()
    _loop = Loop(selector)
    _main = get_ident()
    try:
        descriptors.add(selector.fileno())
        for end in (_loop._ssock, _loop._csock):
            descriptors.add(end.fileno())
    except AttributeError:
        pass
    make_current()
    return _loop


def rests(loop):
    """Whether it only waits: for descriptors, not for a time."""
    return not loop._ready and not loop._scheduled and not loop._stopping


def wait(loop):
    """Until one of its descriptors is ready."""
    flush_all()
    poller = poll()
    poller.register(loop._selector.fileno(), POLLIN)
    poller.poll()


def rehearse():
    """The first loop takes twice as long as the second. Nothing of it is left."""
    global _loop
    loop, _loop = create(), None
    loop.call_soon(loop.stop)
    loop.run_forever()
    discard(loop)
    make_current()


def discard(loop):
    """One that does not work any more: its descriptors, as far as it knows them."""
    try:
        fds = [loop._selector.fileno(), loop._ssock.fileno(), loop._csock.fileno()]
        _Loop.close(loop)
        for fd in fds:
            descriptors.forget(fd)
    except BaseException:
        pass


def make_current():
    """asyncio.run() leaves none behind."""
    try:
        _set_loop(_loop)
    except Exception:
        pass


def create_task(coro, *args, **kw):
    """Schedule the execution of a coroutine object in a spawn task; outside of a running loop, in the kernel's."""
    __tracebackhide__ = True
    if _running() is None and _loop is not None and get_ident() == _main:
        return _loop.create_task(coro, *args, **kw)
    return _create_task(coro, *args, **kw)


def patch():
    asyncio.create_task = tasks.create_task = create_task
