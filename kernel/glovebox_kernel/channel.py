# SPDX-License-Identifier: Apache-2.0
"""The socket to init: messages in packets, in both directions.

Nothing here trusts the process it is in: a signal handler of the user may raise between any two bytecodes, threads send
at once, a finaliser may display something in the middle of a message. What was sent or received is therefore noted by
C code (deque.extend over map) in the same step, so that an exception neither loses nor repeats a packet.
"""
from .safe import builtins as __builtins__  # isort: skip

import errno
import socket
import struct
from _thread import allocate_lock, get_ident
from collections import deque
from itertools import repeat
from os import close, write
from select import POLLIN, POLLOUT, poll
from time import sleep

CONFIG, RUN, STDIN, SYNCED, INTERRUPT = 1, 2, 3, 4, 5
WAITING, READY, MESSAGE, END, SYNC = 15, 16, 17, 18, 19
MORE, END_OF_INPUT = 1, 2

HEADER = struct.Struct("<BBHIQ")
PAYLOAD_MAX = 49152
MESSAGE_MAX = 16 << 20
# Of init: the largest cell of a client, 16 MiB, and what is around it.
REQUEST_MAX = 17 << 20
# Messages of which a part has come, at most; init sends one after the other.
PARTS_MAX = 16
# More than any packet has, so that none is cut off without being noticed.
RECEIVE_SIZE = HEADER.size + PAYLOAD_MAX + 1
FDS_MAX = 8
ANCILLARY_SIZE = socket.CMSG_SPACE(FDS_MAX * struct.calcsize("i"))
RECEIVE_FLAGS = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
PEEK_FLAGS = socket.MSG_DONTWAIT | socket.MSG_PEEK
CUT_OFF = socket.MSG_TRUNC
NOTHING = ((), (), 0)
RIGHTS = (socket.SOL_SOCKET, socket.SCM_RIGHTS)
# The peer is gone, or somebody closed our descriptor: nothing will ever be sent again.
LOST = {errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.ENOTSOCK, errno.ENOTCONN, errno.EMSGSIZE, errno.EINVAL, errno.EIO}
# Errors in a row without a packet sent that are believed to be somebody's signal handler.
PATIENCE = 1000

_header_size = HEADER.size
_pack, _unpack, _struct = HEADER.pack, HEADER.unpack, struct.Struct
_new_socket = socket.socket
_kind = (socket.AF_UNIX, socket.SOCK_SEQPACKET, 0)


class Gone(Exception):
    """There is nobody at the other end."""


class Message:
    """Of init. `payload` is None if it was too large."""

    __slots__ = ("type", "cell", "flags", "payload", "fds")

    def __init__(self, kind, cell, flags, payload, fds):
        self.type, self.cell, self.flags, self.payload, self.fds = kind, cell, flags, payload, fds


class Outgoing:
    """A message on its way. To push it twice is to push it once."""

    __slots__ = ("packets", "sent")

    def __init__(self, kind, cell, payload):
        size = len(payload)
        if size <= PAYLOAD_MAX:
            self.packets = [_pack(kind, 0, 0, 0, cell) + payload]
        else:
            more, last = _pack(kind, MORE, 0, 0, cell), _pack(kind, 0, 0, 0, cell)
            self.packets = [(more if at + PAYLOAD_MAX < size else last) + payload[at:at + PAYLOAD_MAX]
                            for at in range(0, size, PAYLOAD_MAX)]
        self.sent = deque()

    def done(self):
        return len(self.sent) >= len(self.packets)


class Channel:
    def __init__(self, fd):
        self.socket = _new_socket(*_kind, fd)
        self.socket.setblocking(True)
        self.fd = fd
        self.gone = False
        self._recvmsg, self._recv = self.socket.recvmsg, self.socket.recv
        # Packets that were read, parts of messages, and a message that nobody has fetched.
        self._got = deque()
        self._parts = {}
        self._ready = None
        self._receiving = allocate_lock()
        self._sending = allocate_lock()
        self._sender = 0
        self._later = deque()
        self._poll_out = poll()
        self._poll_out.register(fd, POLLOUT)

    # --- sending ---------------------------------------------------------------------------------------------

    def send(self, kind, cell, payload):
        self.push(Outgoing(kind, cell, payload))

    def push(self, outgoing):
        """Sends what is not yet sent, and waits as long as init does not read.

        Raises nothing but what a signal handler raised meanwhile, and that only when the message is complete.
        """
        me = get_ident()
        if self._sender == me:
            # A finaliser or a signal handler, in the middle of another message of this thread.
            self._later.append(outgoing)
            return
        with self._sending:
            self._sender = me
            try:
                error = self._write(outgoing)
                while self._later:
                    error = self._write(self._later.popleft()) or error
            finally:
                self._sender = 0
        if error is not None:
            raise error

    def _write(self, outgoing):
        sent, packets = outgoing.sent, outgoing.packets
        error, failures = None, 0
        while len(sent) < len(packets) and not self.gone:
            before = len(sent)
            try:
                sent.extend(map(write, repeat(self.fd), packets[before:]))
            except BlockingIOError:
                error = self._wait(self._poll_out) or error
            except OSError as e:
                if e.errno in (errno.ENOBUFS, errno.ENOMEM):
                    error = self._pause() or error
                elif e.errno in LOST:
                    self.gone = True
                else:
                    error = e
            except BaseException as e:
                error = e
            failures = failures + 1 if len(sent) == before else 0
            if failures > PATIENCE and error is not None:
                self.gone = True
        return error

    @staticmethod
    def _wait(poller):
        try:
            poller.poll(1000)
        except BaseException as e:
            return e
        return None

    @staticmethod
    def _pause():
        try:
            sleep(0.01)
        except BaseException as e:
            return e
        return None

    # --- receiving -------------------------------------------------------------------------------------------

    def wait(self, timeout=None):
        """Until there is something to receive. Interrupts are raised here, where nothing can be lost."""
        if self.has_read():
            return True
        poller = poll()  # not one for all: a thread, or a signal handler, may wait at the same time
        poller.register(self.fd, POLLIN)
        return bool(poller.poll(timeout))

    def has_read(self):
        """Whether there is something that nobody has fetched."""
        return bool(self._got) or self._ready is not None

    def comes(self, kind, cell):
        """Whether that is the next packet. It stays there."""
        try:
            head = self._recv(_header_size, PEEK_FLAGS)
        except OSError:
            return False
        return len(head) == _header_size and _unpack(head)[::4] == (kind, cell)

    def receive(self):
        """The next message, or None if there is none yet. Raises Gone."""
        with self._receiving:
            while self._ready is None:
                if not self._got and not self._read():
                    return None
                self._take(*self._got[0])
            message, self._ready = self._ready, None
            return message

    def _read(self):
        if self.gone:
            raise Gone
        try:
            self._got.extend(map(self._recvmsg, (RECEIVE_SIZE,), (ANCILLARY_SIZE,), (RECEIVE_FLAGS,)))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as e:
            if e.errno in LOST:
                self.gone = True
                raise Gone from None
            raise
        return True

    def _take(self, data, ancillary, flags, _):
        """The first packet of _got. All that it changes is changed at the end, between two calls."""
        fds = []
        for level, kind, content in ancillary:
            if (level, kind) == RIGHTS:
                count = len(content) // 4
                fds.extend(_struct(f"={count}i").unpack(content[:count * 4]))
        if not _header_size <= len(data) <= _header_size + PAYLOAD_MAX or flags & CUT_OFF:
            # An end, or a peer that is not our init.
            self.gone = True
            raise Gone
        kind, bits, _, _, cell = _unpack(data[:_header_size])
        key = (kind, cell)
        parts, held, size = self._parts.get(key, NOTHING)
        size += len(data) - _header_size
        parts = [*parts, data[_header_size:]] if size <= REQUEST_MAX else []
        held = [*held, *fds]
        if bits & MORE:
            if len(self._parts) >= PARTS_MAX and key not in self._parts:
                self.gone = True
                raise Gone
            self._parts[key] = (parts, held, size)
        else:
            self._ready = Message(kind, cell, bits, b"".join(parts) if size <= REQUEST_MAX else None, held)
            if key in self._parts:
                del self._parts[key]
        self._got.popleft()

    # --- another process -------------------------------------------------------------------------------------

    def begin_again(self):
        """In a copy of the process: the descriptor is that of another channel."""
        self._sending, self._receiving = allocate_lock(), allocate_lock()
        self._sender = 0
        self._later.clear()
        self._got.clear()
        self._parts.clear()
        self._ready = None
        self.gone = False

    # --- ending ----------------------------------------------------------------------------------------------

    def abandon(self):
        """In a forked child: this is not our channel any more."""
        self.gone = True
        self._sending, self._receiving = allocate_lock(), allocate_lock()
        self._sender = 0
        self._later.clear()
        try:
            self.socket.detach()
            close(self.fd)
        except OSError:
            pass

