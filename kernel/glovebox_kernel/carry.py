# SPDX-License-Identifier: Apache-2.0
"""What is the system's and not memory: which of it a copy of this process gets again in its own box, and which is lost.

look() says what there is, in the process that is about to be frozen; Carried.place() and Carried.reopen() put it back in the copy, under the same numbers, so that no
object of Python's has to know. What cannot be carried over leaves /dev/null under its number: what the user writes there must not reach a file that
is opened later.
"""
from .safe import builtins as __builtins__  # isort: skip

import asyncio
import fcntl
import gc
import os
import resource
import select
import selectors
import signal
import socket
import stat
import threading

from . import descriptors

# Of what is lost: so many are named, and with so many characters.
NAMED_MAX, NAME_MAX = 200, 160
DEVICES = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
SQLITE = b"SQLite format 3\0"
SQLITE_BESIDE = ("-journal", "-wal", "-shm")
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
KINDS = {"socket": "a socket", "pipe": "a pipe", "anon_inode": "of the kernel"}


def threads():
    """Those of Python that a copy does not have."""
    main = threading.main_thread()
    return [f"thread {thread.name}" for thread in threading.enumerate() if thread is not main]


def children():
    """Processes that this one started and that are there."""
    found = []
    me = os.getpid()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                command, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        state, parent = rest.split()[:2]
        if int(parent) == me and state != "Z":
            found.append(f"process {name} ({command.partition('(')[2]})")
    return found


def timers():
    """To be asked before a fork: a child has none."""
    return [(which, *signal.getitimer(which)) for which in TIMERS]


def maps():
    """Where there is memory: (start, end)."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return [tuple(int(word, 16) for word in line.split(None, 1)[0].split("-")) for line in file]


def missing(before):
    """Whether something that was mapped is not there any more."""
    now = iter(maps())
    start, end = next(now)
    for at, to in before:
        while at < to:
            while end <= at:
                start, end = next(now, (1 << 64, 1 << 65))
            if start > at:
                return True
            at = end
    return False


class File:
    """A plain file, a directory or a device that is opened again by its name."""

    def __init__(self, fd, path, status):
        self.fd, self.path = fd, path
        self.flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        self.inherited = os.get_inheritable(fd)
        self.id = (status.st_dev, status.st_ino)
        self.offset = os.lseek(fd, 0, os.SEEK_CUR) if stat.S_ISREG(status.st_mode) else None
        # The number of another one that shares its position.
        self.same_as = None

    def __str__(self):
        return f"descriptor {self.fd}: {self.path}"

    def open(self):
        if self.same_as is not None:
            os.dup2(self.same_as, self.fd, self.inherited)
            return
        fd = os.open(self.path, self.flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC) | os.O_CLOEXEC)
        _move(fd, self.fd, self.inherited)
        if self.offset is not None:
            os.lseek(self.fd, self.offset, os.SEEK_SET)


def _move(fd, to, inherited=False):
    if fd != to:
        os.dup2(fd, to, inherited)
        _close(fd)
    else:
        os.set_inheritable(fd, inherited)


def _close(fd):
    descriptors.release(fd)


class Turning:
    """An asyncio loop: its descriptors are the kernel's and a pair of its own."""

    def __init__(self, loop):
        self.loop, self.selector = loop, loop._selector
        self.fds = [self.selector.fileno(), loop._ssock.fileno(), loop._csock.fileno()]

    def place(self):
        poller, ends = select.epoll(), socket.socketpair()
        for end in ends:
            end.setblocking(False)
        # Out of each other's way first.
        high = [fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, max(self.fds) + 1) for one in (poller, *ends)]
        for one in (poller, *ends):
            one.close()
        for fd, to in zip(high, self.fds):
            _move(fd, to)
        # Threads of it are gone, and who waits for one would wait for ever.
        self.loop._default_executor = None

    def listen(self):
        """When all descriptors are back. What is not one that can be waited for is not waited for any more."""
        poller = self.selector._selector
        for fd, key in list(self.selector._fd_to_key.items()):
            mask = (select.EPOLLIN if key.events & selectors.EVENT_READ else 0) | (select.EPOLLOUT if key.events & selectors.EVENT_WRITE else 0)
            try:
                poller.register(fd, mask)
            except OSError:
                self.selector._fd_to_key.pop(fd, None)


def _loops():
    found = []
    for loop in gc.get_objects():
        # Its own type: some objects import what they stand for when they are asked what they are.
        if issubclass(type(loop), asyncio.SelectorEventLoop) and not loop.is_closed():
            try:
                found.append(Turning(loop))
            except (AttributeError, ValueError, OSError):
                pass
    return found


def _what(link):
    kind, _, rest = link.partition(":")
    if kind == "anon_inode":
        return f"{KINDS[kind]}, {rest.strip('[]')}"
    return KINDS.get(kind, link)


def _is_sqlite(fd, path):
    if path.endswith(SQLITE_BESIDE):
        return True
    try:
        return os.pread(fd, len(SQLITE), 0) == SQLITE
    except OSError:
        return False


class Carried:
    """Of this process, as it is now. `skip`: descriptors that are nobody's, for they are ours for the moment."""

    def __init__(self, skip=()):
        self.lost = []
        self.files, self.gone = [], []
        self.loops = _loops()
        self.cwd = os.getcwd()
        self.umask = os.umask(0)
        os.umask(self.umask)
        self.nice = os.getpriority(os.PRIO_PROCESS, 0)
        self.limits = [(which, resource.getrlimit(which)[0]) for which in LIMITS]
        self._look_at_descriptors({*skip, *descriptors.numbers(), *(fd for turning in self.loops for fd in turning.fds)})
        self._find_shared()

    def _look_at_descriptors(self, skip):
        for name in sorted(os.listdir("/proc/self/fd"), key=int):
            fd = int(name)
            if fd <= 2 or fd in skip:
                continue
            try:
                path, status = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd)
            except OSError:
                # That of the directory.
                continue
            mode = status.st_mode
            if stat.S_ISREG(mode) and _is_sqlite(fd, path):
                self._lose(fd, f"an sqlite3 database, {path}")
            elif self._has_name(path, status) and (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path in DEVICES):
                self.files.append(File(fd, path, status))
            else:
                self._lose(fd, _what(path))

    @staticmethod
    def _has_name(path, status):
        try:
            found = os.stat(path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino) and not path.startswith(("/proc/", "/sys/"))

    def _lose(self, fd, what):
        self.gone.append(fd)
        self.lost.append(f"descriptor {fd}: {what}")

    def _find_shared(self):
        """Descriptors that were duplicated have one position: what is read by one moves the other."""
        for i, file in enumerate(self.files):
            for other in self.files[:i]:
                if other.same_as is None and file.offset is not None and (file.id, file.flags, file.offset) == (other.id, other.flags, other.offset) and \
                        self._moves_with(other, file):
                    file.same_as = other.fd
                    break

    @staticmethod
    def _moves_with(one, other):
        try:
            os.lseek(one.fd, one.offset + 1, os.SEEK_SET)
            return os.lseek(other.fd, 0, os.SEEK_CUR) == one.offset + 1
        finally:
            os.lseek(one.fd, one.offset, os.SEEK_SET)

    def named(self):
        """What is lost, as it is told."""
        names = [name if len(name) <= NAME_MAX else name[:NAME_MAX - 1] + "…" for name in self.lost]
        return names if len(names) <= NAMED_MAX else [*names[:NAMED_MAX - 1], f"{len(names) - NAMED_MAX + 1} more"]

    # --- in the copy ------------------------------------------------------------------------------------------

    def place(self):
        """What needs no file of the box's."""
        for turning in self.loops:
            turning.place()
        for fd in self.gone:
            self._bury(fd)

    @staticmethod
    def _bury(fd):
        _move(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), fd)

    def reopen(self, timers):
        """When the files are there. What is lost over it is added to `lost`, which is empty before."""
        self.lost = []
        try:
            os.chdir(self.cwd)
        except OSError as e:
            self.lost.append(f"the working directory {self.cwd}: {e.strerror}")
        for file in self.files:
            try:
                file.open()
            except OSError as e:
                self.lost.append(f"{file}: {e.strerror}")
                self._bury(file.fd)
        for turning in self.loops:
            turning.listen()
        self._restore(timers)

    def _restore(self, timers):
        os.umask(self.umask)
        for which, soft in self.limits:
            try:
                hard = resource.getrlimit(which)[1]
                resource.setrlimit(which, (soft if hard == resource.RLIM_INFINITY or (soft != resource.RLIM_INFINITY and soft <= hard) else hard, hard))
            except (ValueError, OSError):
                pass
        try:
            if self.nice > os.getpriority(os.PRIO_PROCESS, 0):
                os.setpriority(os.PRIO_PROCESS, 0, self.nice)
        except OSError:
            pass
        for which, left, interval in timers:
            if left:
                signal.setitimer(which, left, interval)
