# SPDX-License-Identifier: Apache-2.0
"""Connections, time and tasks of the form for asyncio. blocking.py has the same names for threads."""
from __future__ import annotations

import asyncio
import collections
import functools
import inspect
import ssl
from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Awaitable, Callable, Deque, Iterable, List, Optional, Set, TypeVar, Union, cast

from .._address import Address
from .trouble import Lost, Refused, Silent, Untrusted

if TYPE_CHECKING:
    import httpx

    Transport = httpx.AsyncBaseTransport

T = TypeVar("T")

sleep = asyncio.sleep

_TOGETHER = 64 * 1024
_PIECE = 256 * 1024
# What has come and nobody has read: above this the other side has to wait.
_UNREAD_MAX = 256 * 1024


class Pipe(asyncio.Protocol):
    """One connection: see blocking.py. A protocol of its own, because streams and wait_for() cost as much as the rest of a call."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Optional[asyncio.Transport] = None
        self._chunks: Deque[bytes] = collections.deque()
        self._unread = 0
        self._paused = False
        self._over = False
        self._error: Optional[Exception] = None
        self._reader: Optional[asyncio.Future[None]] = None
        self._writer: Optional[asyncio.Future[None]] = None
        self._full = False
        self._held: List[bytes] = []
        self._size = 0
        self.is_deaf = False

    # --- called by the loop --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._unread += len(data)
        if self._unread > _UNREAD_MAX and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._over = True
        _wake(self._reader)
        # Plain connections stay open for what is still to be written; those in TLS cannot.
        return False

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._over, self.is_deaf, self._error, self._transport = True, True, exc, None
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        _wake(self._writer)

    # --- called by us ----------------------------------------------------------------------------------------------

    async def read(self, timeout: Optional[float]) -> bytes:
        if self._size:
            await self.flush(timeout)
        if not self._chunks and not self._over:
            self._reader = self._loop.create_future()
            try:
                await _within(self._loop, self._reader, timeout)
            finally:
                self._reader = None
        if not self._chunks:
            if self._error is not None:
                raise Lost(str(self._error)) from None
            return b""
        data = self._chunks.popleft()
        self._unread -= len(data)
        if self._paused and self._unread <= _UNREAD_MAX // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes, timeout: Optional[float]) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size >= _TOGETHER:
            await self.flush(timeout)

    async def flush(self, timeout: Optional[float]) -> None:
        held = self._held if self._size > 2 * _TOGETHER else [b"".join(self._held)]
        self._held = []
        self._size = 0
        for data in held:
            # In pieces: what cannot leave at once is copied.
            for begin in range(0, len(data), _PIECE):
                if self.is_deaf or self._transport is None:
                    return
                self._transport.write(data if len(data) <= _PIECE else memoryview(data)[begin:begin + _PIECE])
                while self._full and not self.is_deaf:
                    self._writer = self._loop.create_future()
                    try:
                        await _within(self._loop, self._writer, timeout)
                    finally:
                        self._writer = None

    def is_stale(self) -> bool:
        return self._over or self.is_deaf or bool(self._chunks)

    def close(self) -> None:
        self._over = True
        if self._transport is not None and not self._loop.is_closed():
            self._transport.abort()

    cut = close


def _wake(future: Optional[asyncio.Future[None]]) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _late(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(Silent())


async def _within(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None], timeout: Optional[float]) -> None:
    if timeout is None:
        await future
        return
    timer = loop.call_later(timeout, _late, future)
    try:
        await future
    finally:
        timer.cancel()


class Lock:
    """A lock that can be made where no loop runs, and goes with its owner from loop to loop."""

    def __init__(self) -> None:
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._lock: Optional[asyncio.Lock] = None

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()


async def connect(address: Address, context: Optional[ssl.SSLContext], timeout: float) -> Pipe:
    loop = asyncio.get_running_loop()
    try:
        if address.unix is not None:
            made = loop.create_unix_connection(Pipe, address.unix)
        elif context is not None:
            made = loop.create_connection(Pipe, address.host, address.port, ssl=context, server_hostname=address.host)
        else:
            made = loop.create_connection(Pipe, address.host, address.port)
        _, pipe = await asyncio.wait_for(made, timeout)
    except asyncio.TimeoutError:
        raise Refused(f"no connection after {timeout:.0f} s") from None
    except ssl.SSLError as e:
        raise Untrusted(str(e)) from None
    except (OSError, ValueError) as e:
        raise Refused(str(e)) from None
    return pipe


def here() -> object:
    """What connections belong to: those of another loop are of no use."""
    return asyncio.get_running_loop()


# --- work -------------------------------------------------------------------------------------------------------


async def in_thread(function: Callable[[], T], *, undo: Callable[[T], None]) -> T:
    """What blocks, beside the loop. undo() takes back what nobody waits for any more."""
    loop = asyncio.get_running_loop()
    waiting = loop.run_in_executor(None, function)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiting.add_done_callback(functools.partial(_take_back, undo))
        raise


def _take_back(undo: Callable[[T], None], done: asyncio.Future[T]) -> None:
    if not done.cancelled() and done.exception() is None:
        undo(done.result())


async def beside(function: Callable[..., T], *args: Any) -> T:
    """Work with files of this machine, which may take its time. Whoever is cancelled waits for it: the files are still in use."""
    waiting = asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *args))
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        await asyncio.wait({waiting})
        if not waiting.cancelled():
            waiting.exception()
        raise


async def finish(work: Callable[[float], Awaitable[T]], seconds: float) -> T:
    """work(seconds) to its end, also if its caller is cancelled meanwhile."""

    async def run() -> T:
        return await work(seconds)

    task = asyncio.ensure_future(run())
    cancelled: Optional[asyncio.CancelledError] = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as e:
            cancelled = e
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled
    return task.result()


class Task:
    """Work beside the caller's."""

    _all: Set[asyncio.Task[None]] = set()  # the loop itself holds them weakly

    def __init__(self, work: Callable[[], Awaitable[object]], name: str) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(work), name=name)
        self._all.add(self._task)
        self._task.add_done_callback(self._all.discard)

    @staticmethod
    async def _run(work: Callable[[], Awaitable[object]]) -> None:
        await work()

    async def wait(self) -> None:
        """Until it is over; raises what it raised."""
        await asyncio.shield(self._task)


async def each(pieces: Union[Iterable[T], AsyncIterable[T]]) -> AsyncIterator[T]:
    """What the user gives one by one, in either way."""
    if isinstance(pieces, AsyncIterable):
        async for piece in pieces:
            yield piece
    else:
        for piece in pieces:
            yield piece


async def call(function: Callable[..., Any], *args: object) -> Any:
    """A callback of the user's: a function, or one that is awaited."""
    value = function(*args)
    return await value if inspect.isawaitable(value) else value
