# SPDX-License-Identifier: Apache-2.0
"""Descriptors 0, 1 and 2, and those of ours among the user's.

Ours are moved out of the way, so that the user's begin at 3 as they do everywhere, and os.close() does not see them:
"close everything above 2" is a habit of programs that start others. Whoever goes behind its back ends the kernel.
"""
from .safe import builtins as __builtins__  # isort: skip

import errno
import os
import posix
from fcntl import F_DUPFD_CLOEXEC, fcntl
from os import O_CLOEXEC, O_RDWR, dup, dup2, strerror

OURS_FROM = 100
# How many descriptors are held back for those that a RUN brings, when the user has used up all others.
RESERVED = 2

_close, _closerange, _open = os.close, os.closerange, os.open
_ours = set()
_reserve = []
_null = -1


def own(fd):
    """A descriptor becomes ours. Returns its new number."""
    try:
        high = fcntl(fd, F_DUPFD_CLOEXEC, OURS_FROM)
    except Exception:
        # The limit is that low, or somebody audits fcntl(). It stays where it is, unless that is not ours to use.
        if fd > 2:
            _ours.add(fd)
            return fd
        high = _above_2(fd)
    _ours.add(high)
    _really_close(fd)
    return high


def _above_2(fd):
    low = []
    while fd <= 2:
        low.append(fd)
        fd = dup(fd)
    for each in low[1:]:
        _really_close(each)
    return fd


def add(fd):
    """One that must not be moved any more."""
    _ours.add(fd)


def forget(fd):
    """Somebody else has closed it."""
    _ours.discard(fd)


def numbers():
    """Those that are ours."""
    return set(_ours)


def release(fd):
    _ours.discard(fd)
    _really_close(fd)


def _really_close(fd):
    try:
        _close(fd)
    except OSError:
        pass


def prepare():
    """To be called once per process, before the first cell."""
    global _null
    _null = own(_open("/dev/null", O_RDWR | O_CLOEXEC))
    _fill_reserve()


def restore():
    """In a copy of the process, which has none of those that are known here. Cells and loops see to theirs."""
    null = _open("/dev/null", O_RDWR | O_CLOEXEC)
    for fd in (_null, *_reserve):
        dup2(null, fd, False)
    _really_close(null)


def connect(out, err):
    """Children and C code write to these; they read nothing."""
    dup2(_null, 0)
    dup2(out, 1)
    dup2(err, 2)


def disconnect():
    connect(_null, _null)


def open_reserve():
    while _reserve:
        release(_reserve.pop())


def _fill_reserve():
    try:
        while len(_reserve) < RESERVED:
            fd = fcntl(_null, F_DUPFD_CLOEXEC, OURS_FROM)
            _ours.add(fd)
            _reserve.append(fd)
    except Exception:
        pass


close_reserve = _fill_reserve


# --- os.close() ----------------------------------------------------------------------------------------------


def close(fd):
    """Close a file descriptor."""
    __tracebackhide__ = True
    if type(fd) is int and fd in _ours:
        raise OSError(errno.EBADF, strerror(errno.EBADF))
    return _close(fd)


def closerange(fd_low, fd_high, /):
    """Closes all file descriptors in [fd_low, fd_high), ignoring errors."""
    __tracebackhide__ = True
    if type(fd_low) is not int or type(fd_high) is not int:
        return _closerange(fd_low, fd_high)
    at = fd_low
    for fd in sorted(_ours):
        if at <= fd < fd_high:
            _closerange(at, fd)
            at = fd + 1
    return _closerange(at, fd_high)


def guard():
    for module in (os, posix):
        module.close, module.closerange = close, closerange


def unguard():
    """In a forked child nothing is ours."""
    _ours.clear()
    _reserve.clear()
