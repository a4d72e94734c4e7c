# SPDX-License-Identifier: Apache-2.0
"""The write end of a cell's stdout or stderr: whole lines at once, the rest when somebody flushes."""
from .safe import builtins as __builtins__  # isort: skip

from _thread import RLock
from collections import deque
from os import write
from select import POLLOUT, poll

# What is collected without the end of a line.
PENDING_MAX = 8192
_new_lock = RLock
# Those with something that was not written yet.
_unwritten = set()


def flush_all(wait=False):
    """What was printed is seen, before anything is waited for. Called very often, and mostly for nothing."""
    if _unwritten:
        for pipe in list(_unwritten):
            if pipe.lock.acquire(wait):
                try:
                    pipe.drain()
                finally:
                    pipe.lock.release()


class Pipe:
    __slots__ = ("fd", "lock", "pending", "size")

    def __init__(self, fd):
        self.fd = fd
        self.lock = _new_lock()
        self.pending = []
        self.size = 0

    def put(self, data):
        with self.lock:
            self.pending.append(data)
            self.size += len(data)
            if self.size >= PENDING_MAX or b"\n" in data:
                self.drain()
            else:
                _unwritten.add(self)

    def flush(self):
        if self.pending:
            with self.lock:
                self.drain()

    def drain(self):
        """Under the lock. A reader that is slow makes us wait; one that is gone makes us forget."""
        _unwritten.discard(self)
        while self.pending:
            data = memoryview(b"".join(self.pending))
            self.pending.clear()
            self.size = 0
            written = deque()
            try:
                while data:
                    try:
                        written.extend(map(write, (self.fd,), (data,)))
                        data = data[written.popleft():]
                    except BlockingIOError:
                        # Somebody made it non-blocking, as asyncio does with what it is given.
                        _wait(self.fd)
            except OSError as e:
                if e.errno is None:
                    # Not of the pipe: a signal handler of the user raised it.
                    self._put_back(data, written)
                    raise
                return
            except BaseException:
                self._put_back(data, written)
                raise

    def _put_back(self, data, written):
        """An interrupt loses no text and repeats none."""
        rest = bytes(data[sum(written):])
        if rest:
            self.pending.insert(0, rest)
            self.size += len(rest)
            _unwritten.add(self)

    def replace_lock(self):
        """In a forked child: whoever held it is not here."""
        self.lock = _new_lock()
        self.pending.clear()
        self.size = 0
        _unwritten.discard(self)

    def take(self):
        """The descriptor, if nobody is writing; -1 is left, to which nothing can be written."""
        if not self.lock.acquire(False):
            return -1
        try:
            fd, self.fd = self.fd, -1
        finally:
            self.lock.release()
        return fd


def _wait(fd):
    poller = poll()
    poller.register(fd, POLLOUT)
    poller.poll(1000)
