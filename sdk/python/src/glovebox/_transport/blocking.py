# SPDX-License-Identifier: Apache-2.0
"""Connections, time and threads of the blocking form. aio.py has the same names for asyncio."""
from __future__ import annotations

import queue
import select
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, TypeVar

from .._address import Address
from .trouble import Lost, Refused, Silent, Untrusted

if TYPE_CHECKING:
    import httpx

    Transport = httpx.BaseTransport

T = TypeVar("T")

Lock = threading.Lock
sleep = time.sleep

# What is written waits for more up to this, or until an answer is wanted: head and body of a call leave together.
_TOGETHER = 64 * 1024


class Pipe:
    """One connection.

    A server that refuses a large body answers before it has read it, and stops reading. So it is no error yet when nobody
    takes what is written: what the server said can still be read, and if there is nothing, then it is lost.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._held: List[bytes] = []
        self._size = 0
        #: The other side has stopped listening.
        self.is_deaf = False

    def read(self, timeout: Optional[float]) -> bytes:
        """What comes next; empty at the end."""
        if self._size:
            self.flush(timeout)
        try:
            self._sock.settimeout(timeout)
            return self._sock.recv(65536)
        except socket.timeout:
            raise Silent from None
        except (OSError, ValueError) as e:
            raise Lost(str(e)) from None

    def write(self, data: bytes, timeout: Optional[float]) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size >= _TOGETHER:
            self.flush(timeout)

    def flush(self, timeout: Optional[float]) -> None:
        held = self._held if self._size > 2 * _TOGETHER else [b"".join(self._held)]
        self._held = []
        self._size = 0
        if self.is_deaf:
            return
        try:
            self._sock.settimeout(timeout)
            for data in held:
                self._sock.sendall(data)
        except socket.timeout:
            raise Silent from None
        except (OSError, ValueError):
            self.is_deaf = True

    def is_stale(self) -> bool:
        """Whether an idle connection is of no use any more: it has ended, or somebody speaks without being asked."""
        if self.is_deaf or self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._sock.close()

    def cut(self) -> None:
        """Ends it for whoever reads from it in another thread, too."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def connect(address: Address, context: Optional[ssl.SSLContext], timeout: float) -> Pipe:
    sock: Optional[socket.socket] = None
    try:
        if address.unix is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(address.unix)
        else:
            sock = socket.create_connection((address.host, address.port), timeout)
            # Otherwise what is written in two pieces waits for an acknowledgement in between: 40 ms on Linux.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                sock = context.wrap_socket(sock, server_hostname=address.host)
    except BaseException as e:
        if sock is not None:
            sock.close()
        if isinstance(e, socket.timeout):
            raise Refused(f"no connection after {timeout:.0f} s") from None
        if isinstance(e, ssl.SSLError):
            raise Untrusted(str(e)) from None
        if isinstance(e, (OSError, ValueError)):
            raise Refused(str(e)) from None
        raise
    return Pipe(sock)


def here() -> object:
    """What connections belong to: of threads all may use all of them."""
    return None


# --- work -------------------------------------------------------------------------------------------------------


def in_thread(function: Callable[[], T], *, undo: Callable[[T], None]) -> T:
    """What blocks, where it may. undo() takes back what nobody waits for any more."""
    return function()


def beside(function: Callable[..., T], *args: Any) -> T:
    """Work with files of this machine, which may take its time."""
    return function(*args)


def finish(work: Callable[[float], T], seconds: float) -> T:
    """work(seconds) to its end, also if somebody presses Ctrl-C meanwhile. Who presses it again means it."""
    try:
        return work(seconds)
    except KeyboardInterrupt:
        work(min(seconds, 5.0))
        raise


class Task:
    """Work beside the caller's."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._over: queue.Queue[Optional[BaseException]] = queue.Queue(1)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        error: Optional[BaseException] = None
        try:
            self._work()
        except BaseException as e:  # raised again by wait()
            error = e
        self._over.put(error)

    def wait(self) -> None:
        """Until it is over; raises what it raised."""
        error = self._over.get()
        self._over.put(error)
        self._thread.join()
        if error is not None:
            raise error


def each(pieces: Iterable[T]) -> Iterable[T]:
    """What the user gives one by one."""
    return pieces


def call(function: Callable[..., Any], *args: object) -> Any:
    """A callback of the user's."""
    return function(*args)
