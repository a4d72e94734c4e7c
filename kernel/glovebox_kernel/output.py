# SPDX-License-Identifier: Apache-2.0
"""sys.stdout and sys.stderr: objects that know the cell of whoever writes.

A line is written when it ends. What has no end yet is written before anything else can be seen or is waited for: a
message, the end of the cell, time.sleep(), the event loop at rest, and whatever raises an audit event: a child, a file,
a connection, an import.
"""
from .safe import builtins as __builtins__  # isort: skip

import io
import sys
import time

from .cells import cells
from .order import settle, settle_current
from .pipe import flush_all

NAMES = ("<stdout>", "<stderr>")
# Audit events of children, which write to the same pipes.
CHILDREN = {"os.system", "subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn", "os.exec"}

_text = str.__str__


def _put(number, data):
    cell = cells.writer()
    if cell is not None:
        if cell.behind:
            settle(cell)
        cell.pipes[number].put(data)


class Stream(io.TextIOBase):
    """As io.TextIOWrapper over a pipe, as far as anybody has been seen to look."""

    encoding = "utf-8"
    errors = "backslashreplace"
    newlines = None
    line_buffering = True
    write_through = False
    mode = "w"

    def __init__(self, number):
        super().__init__()
        self._number = number
        self._closed = False
        self._buffer = Buffer(self, number)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if self._closed:
            raise ValueError("I/O operation on closed file.")
        if type(text) is not str:
            text = _text(text)
        _put(self._number, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        pipe = cells.pipe(self._number)
        if pipe is not None:
            pipe.flush()

    @property
    def name(self):
        return NAMES[self._number]

    @property
    def buffer(self):
        return self._buffer

    @property
    def closed(self):
        return self._closed

    def close(self):
        """Until the next cell."""
        self.flush()
        self._closed = True

    def reopen(self):
        self._closed = False

    def __del__(self):
        pass

    def fileno(self):
        return self._number + 1

    def isatty(self):
        return False

    def readable(self):
        return False

    def writable(self):
        return True

    def seekable(self):
        return False

    def reconfigure(self, **_):
        """UTF-8, line by line: nothing else is to be had."""
        self.flush()

    def detach(self):
        raise io.UnsupportedOperation("detach")

    def __repr__(self):
        return f"<_io.TextIOWrapper name='{self.name}' mode='w' encoding='utf-8'>"

    def __reduce__(self):
        raise TypeError("cannot pickle '_io.TextIOWrapper' object")


class Buffer(io.BufferedIOBase):
    """sys.stdout.buffer, and its own raw. That a wrapper around it closes it harms nobody."""

    mode = "wb"

    def __init__(self, stream, number):
        super().__init__()
        self._stream = stream
        self._number = number

    def write(self, data):
        if isinstance(data, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        data = bytes(memoryview(data).cast("B")) if type(data) is not bytes else data
        _put(self._number, data)
        return len(data)

    def flush(self):
        pipe = cells.pipe(self._number)
        if pipe is not None:
            pipe.flush()

    def close(self):
        self.flush()

    def __del__(self):
        pass

    @property
    def raw(self):
        return self

    @property
    def name(self):
        return NAMES[self._number]

    @property
    def closed(self):
        return False

    def fileno(self):
        return self._number + 1

    def isatty(self):
        return False

    def writable(self):
        return True


stdout, stderr = Stream(0), Stream(1)
# The interpreter's own are kept: when they are collected they close descriptors 1 and 2.
_kept = []


def install():
    _kept.extend((sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    sys.addaudithook(_on_event)
    if sys.version_info < (3, 13):
        time.sleep = sleep


def _on_event(event, _):
    flush_all()
    if event in CHILDREN:
        settle_current()


def sleep(seconds, /):
    __tracebackhide__ = True
    flush_all()
    return _sleep(seconds)


# An audit event since Python 3.13.
_sleep = time.sleep
sleep.__module__, sleep.__doc__ = "time", _sleep.__doc__


def restore():
    """Before a cell. Whoever put something that works in their place may keep it."""
    stdout.reopen()
    stderr.reopen()
    for name, ours in (("stdout", stdout), ("stderr", stderr)):
        try:
            theirs = getattr(sys, name)
            usable = theirs is ours or (callable(theirs.write) and not getattr(theirs, "closed", False))
        except BaseException:
            usable = False
        if not usable:
            setattr(sys, name, ours)


def flush_theirs():
    """Text that waits in a stream of the user's, who may have wrapped ours."""
    for theirs in (sys.__dict__.get("stdout"), sys.__dict__.get("stderr")):
        if theirs is not stdout and theirs is not stderr and theirs is not None:
            try:
                theirs.flush()
            except Exception:
                pass


# --- the buffer of the C library -----------------------------------------------------------------------------

_fflush = _fpending = _c_stdout = None


def find_c_stdout():
    """Output of C code waits in a buffer of its own, which belongs to the cell that filled it."""
    global _fflush, _fpending, _c_stdout
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        _fflush = libc.fflush
        _fflush.argtypes = [ctypes.c_void_p]
        _fpending = libc.__fpending
        _fpending.argtypes, _fpending.restype = [ctypes.c_void_p], ctypes.c_size_t
        _c_stdout = ctypes.c_void_p.in_dll(libc, "stdout")
    except (ImportError, OSError, AttributeError, ValueError):
        _fflush = None


def flush_c():
    if _fflush is not None:
        try:
            if _fpending(_c_stdout):
                settle_current()
                _fflush(_c_stdout)
        except Exception:
            pass


def flush_everything():
    """Before a fork, and at the end of a forked child."""
    cells.flush()
    flush_c()
