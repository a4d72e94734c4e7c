# SPDX-License-Identifier: Apache-2.0
"""SIGINT: KeyboardInterrupt in the cell that runs, nothing between cells.

In a cell that awaits, an exception out of the signal handler would come out of the event loop and leave the cell's task
where it is. So while the loop waits or does its own work the handler asks for the task to be cancelled, and drive()
turns that into KeyboardInterrupt at the `await`.

A signal that comes when a cell was asked for and has not begun finds nobody. Init says in a packet ahead of it for which cell
it is, and a cell looks for that when it listens to signals: so none is lost, and none hits the next cell.
"""
from .safe import builtins as __builtins__  # isort: skip

import _signal
import asyncio.base_events
import asyncio.events
import asyncio.selector_events
import operator
import selectors
import signal
from _signal import SIG_DFL, SIG_IGN
from asyncio import CancelledError
from contextlib import contextmanager
from types import coroutine

from .channel import INTERRUPT

_SIGINT, _SIGURG = int(signal.SIGINT), int(signal.SIGURG)
# Does nothing, and has no frame.
_NOTHING = operator.is_
# Not those of the signal module, which convert to enums and back.
_set, _get, _default = _signal.signal, _signal.getsignal, signal.default_int_handler
_LOOP_FILES = {module.__file__ for module in (asyncio.base_events, asyncio.events, asyncio.selector_events, selectors)}


class Interrupts:
    def __init__(self):
        # The task of a cell that awaits, its loop, and whether an interrupt is on its way to it.
        self.task = self.loop = None
        self.coming = False
        # Where packets come, and the cell that the last one was about.
        self.channel = self.wanted = None

    def arm(self):
        """For a cell. Python's own handler: others look for it, and it has no frame."""
        if _get(_SIGURG) in (SIG_DFL, SIG_IGN):
            # Init sends it behind an interrupt: one that comes just before a call that waits would be noticed after it.
            _set(_SIGURG, _NOTHING)
        _set(_SIGINT, _default)

    def look(self, cell):
        """For a cell that has just been armed."""
        if self.wanted == cell or (self.channel is not None and self.channel.comes(INTERRUPT, cell)):
            self.wanted = None
            raise KeyboardInterrupt

    def disarm(self):
        """Between cells nobody else's handler is in place."""
        _set(_SIGINT, _NOTHING)

    def after_fork(self):
        self.task = self.loop = None
        if _get(_SIGINT) in (_NOTHING, self.on_signal):
            _set(_SIGINT, _default)

    def on_signal(self, _, frame):
        """While a cell awaits."""
        if self.task is not None and frame is not None and frame.f_code.co_filename in _LOOP_FILES:
            self.coming = True
            try:
                self.loop.call_soon_threadsafe(self.task.cancel)
                return
            except RuntimeError:
                pass
        raise KeyboardInterrupt

    @contextmanager
    def later(self):
        """What must not be left half done. Yields a list that is not empty if somebody wanted to interrupt."""
        wanted = []
        try:
            old = _set(_SIGINT, lambda *_: wanted.append(True))
        except ValueError:
            # Not the main thread: nobody interrupts it.
            yield wanted
            return
        try:
            yield wanted
        finally:
            _set(_SIGINT, old if old is not None else _default)

    def run(self, loop, coro, context):
        """A coroutine in the loop to its end, whatever else happens in the loop meanwhile."""
        driven = self._task(coro)
        if context is not None:
            try:
                task = loop.create_task(driven, context=context)
            except TypeError:
                # Before Python 3.11 a task has a copy.
                task = context.run(loop.create_task, driven)
        else:
            task = loop.create_task(driven)
        outer = self.task, self.loop
        self.coming = False
        self.task, self.loop = task, loop
        if _get(_SIGINT) == _default:
            _set(_SIGINT, self.on_signal)
        try:
            while True:
                try:
                    return loop.run_until_complete(task)
                except KeyboardInterrupt:
                    # Out of another task, or of a callback. The cell is what was meant.
                    if task.done():
                        raise
                    self.coming = True
                    task.cancel()
                except RuntimeError:
                    # Somebody has stopped the loop.
                    if task.done() or loop.is_closed() or loop.is_running():
                        raise
        finally:
            self.task, self.loop = outer
            if outer[0] is None and _get(_SIGINT) == self.on_signal:
                _set(_SIGINT, _default)

    async def _task(self, coro):
        return await self._drive(coro)

    @coroutine
    def _drive(self, coro):
        step, value = coro.send, None
        while True:
            try:
                future = step(value)
            except StopIteration as end:
                return end.value
            try:
                value = yield future
                step = coro.send
            except GeneratorExit:
                coro.close()
                raise
            except CancelledError as e:
                step, value = coro.throw, e
                if self.coming:
                    self.coming = False
                    value = KeyboardInterrupt()
            except BaseException as e:
                step, value = coro.throw, e


interrupts = Interrupts()
