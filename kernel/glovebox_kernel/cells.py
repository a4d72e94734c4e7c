# SPDX-License-Identifier: Apache-2.0
"""Cells, and whose code is running: a task's by its context, a thread's by who started it."""
from .safe import builtins as __builtins__  # isort: skip

import _thread
import threading
from collections import deque
from contextvars import ContextVar

from . import descriptors
from .pipe import Pipe

# Cells whose pipes stay open for late writers.
KEPT = 32

_context = ContextVar("glovebox_cell", default=None)
_local = threading.local()


class Cell:
    __slots__ = ("id", "pipes", "stdin", "running", "behind", "lock")

    def __init__(self, number, fds):
        self.id = number
        self.pipes = tuple(Pipe(fd) for fd in fds)
        # Whether input() may be asked for, and whether this is the cell that runs.
        self.stdin = False
        self.running = True
        # Whether messages of it may not have been passed on yet, and who asks.
        self.behind = False
        self.lock = _thread.RLock()

    def open(self):
        return bool(self.pipes) and self.pipes[0].fd >= 0

    def flush(self):
        for pipe in self.pipes:
            pipe.flush()


class Cells:
    """The last ones, the newest last."""

    def __init__(self):
        self.kept = deque()
        self.newest = None

    def begin(self, number, fds):
        """`fds`: the write ends of its pipes, or none if init sent none."""
        cell = Cell(number, fds)
        if cell.pipes:
            self.kept.append(cell)
            self.newest = cell
            while len(self.kept) > KEPT and self._drop(self.kept[0]):
                self.kept.popleft()
        return cell

    def forget(self, cell):
        """A request that leaves nobody behind who could write."""
        if len(self.kept) > 1 and self.kept[-1] is cell and self._drop(cell):
            self.kept.pop()
            self.newest = self.kept[-1]

    @staticmethod
    def _drop(cell):
        for pipe in cell.pipes:
            pipe.flush()
            if pipe.fd >= 0:
                fd = pipe.take()
                if fd < 0:
                    return False
                descriptors.release(fd)
        return True

    def current(self):
        """The cell of whoever asks, or None before the first."""
        cell = _context.get()
        if cell is None:
            cell = getattr(_local, "cell", None)
        return cell or self.newest

    def writer(self):
        """The cell whose pipes are written to: that of whoever asks, or if those are closed the newest. Or None."""
        cell = _context.get()
        if cell is None:
            cell = getattr(_local, "cell", None)
        if cell is None or not cell.open():
            cell = self.newest
        return cell

    def pipe(self, number):
        cell = self.writer()
        return cell.pipes[number] if cell is not None else None

    def flush(self):
        cell = self.writer()
        if cell is not None:
            cell.flush()

    def after_fork(self):
        """Only what the child writes to stays open in it, so that others see the end of theirs."""
        mine = {self.pipe(0), self.pipe(1)}
        for cell in self.kept:
            cell.lock = _thread.RLock()
            for pipe in cell.pipes:
                pipe.replace_lock()
                if pipe not in mine and pipe.fd >= 0:
                    descriptors.release(pipe.fd)
                    pipe.fd = -1


    def begin_again(self):
        """In a copy of the process, whose box has none of these pipes."""
        for cell in self.kept:
            cell.running = cell.behind = False
            cell.lock = _thread.RLock()
            for pipe in cell.pipes:
                pipe.replace_lock()
                descriptors.forget(pipe.fd)
                pipe.fd = -1
        self.kept.clear()
        self.newest = None


cells = Cells()


def enter(cell):
    """The code of this context is the cell's from now on, and so is what it starts."""
    return _context.set(cell)


def leave(token):
    _context.reset(token)


# --- threads -------------------------------------------------------------------------------------------------


def _starting(real):
    """A start_new_thread() whose threads know by which cell they were started."""

    def start(function, *args, **kw):
        cell = cells.current()
        if cell is None:
            return real(function, *args, **kw)

        def run(*args, **kw):
            _local.cell = cell
            return function(*args, **kw)

        return real(run, *args, **kw)

    start.__name__ = start.__qualname__ = real.__name__
    start.__doc__ = real.__doc__
    return start


def watch_threads():
    for module, names in ((threading, ("_start_new_thread", "_start_joinable_thread")),
                          (_thread, ("start_new_thread", "start_new", "start_joinable_thread"))):
        for name in names:
            real = getattr(module, name, None)
            if real is not None:
                setattr(module, name, _starting(real))
