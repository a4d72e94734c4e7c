# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over connections that are kept: by h11, the part of httpx that reads and writes it, without what httpx lays around it.

One call costs as much as with http.client this way, and 2.5 times as much with httpx.Client (README.md has the figures).
Redirects are not followed and nothing is decompressed; a head has at most 64 KiB. What fails says what the connection has
come to (trouble.py), so that the caller knows what may have been done.
"""
from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, AsyncIterable, AsyncIterator, List, Optional, Tuple, Union, cast

import h11

from .._address import Address
from .._transport import aio as io
from .._transport.patience import Patience
from .._transport.trouble import Lost, Nonsense, Refused, Silent

if TYPE_CHECKING:
    import httpx

Headers = List[Tuple[bytes, bytes]]
Body = Union[bytes, AsyncIterable[bytes], None]

HEAD_MAX = 64 * 1024
CONNECT_S = 10.0
# The server closes a connection that was idle for 75 s.
IDLE_S = 60.0
IDLE_MAX = 64


class AsyncExchange:
    """An answer whose body is still to come. close() it, or read it to its end."""

    def __init__(self, wire: AsyncWire, pipe: io.Pipe, state: h11.Connection, answer: h11.Response) -> None:
        self.status: int = answer.status_code
        # h11 writes names in lower case.
        self.headers: Headers = list(answer.headers)
        self._wire = wire
        self._pipe: Optional[io.Pipe] = pipe
        self._h11 = state

    async def chunk(self, patience: Patience) -> bytes:
        """A piece of the body; empty at its end."""
        pipe = self._pipe
        if pipe is None:
            return b""
        try:
            while True:
                event = await _next_event(pipe, self._h11, patience)
                if isinstance(event, h11.Data):
                    if event.data:
                        return bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    self._pipe = None
                    await self._wire.give_back(pipe, self._h11)
                    return b""
                else:
                    raise Nonsense(f"{type(event).__name__} inside of an answer")
        except BaseException:
            self.drop()
            raise

    async def close(self) -> None:
        """What was not read is not wanted: the connection goes with it."""
        self.drop()

    def drop(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()


async def _next_event(pipe: io.Pipe, state: h11.Connection, patience: Patience) -> object:
    ended = False
    while True:
        try:
            event = state.next_event()
        except h11.RemoteProtocolError as e:
            raise (Lost("the connection ended within an answer") if ended else Nonsense(str(e))) from None
        if event is not h11.NEED_DATA:
            return event
        data = await pipe.read(patience.left())
        ended = not data
        if ended and state.their_state is h11.SEND_RESPONSE:
            begun = state.trailing_data[0]
            if begun and not b"HTTP/1.".startswith(begun[:7]):
                raise Nonsense(f"an answer that begins with {begun[:40]!r}")
            raise Lost("the connection ended before an answer")
        state.receive_data(data)


class AsyncWire:
    """Connections to one server. Idle ones are used again, the last one first."""

    def __init__(self, address: Address, context: Optional[ssl.SSLContext]) -> None:
        self._address = address
        self._context = context
        self._idle: List[Tuple[float, io.Pipe, h11.Connection]] = []
        self._where = io.here()
        self._closed = False

    async def exchange(self, method: bytes, target: bytes, headers: Headers, body: Body, patience: Patience) -> AsyncExchange:
        """The head of the answer."""
        pipe, state = await self._connection(patience)
        try:
            await pipe.write(_sent(state, h11.Request(method=method, target=target, headers=headers)), patience.left())
            if isinstance(body, bytes):
                await pipe.write(_sent(state, h11.Data(data=body)), patience.left())
            elif body is not None:
                async for piece in body:
                    if pipe.is_deaf:
                        break
                    await pipe.write(_sent(state, h11.Data(data=piece)), patience.left())
            if not pipe.is_deaf:
                await pipe.write(_sent(state, h11.EndOfMessage()), patience.left())
            while True:
                event = await _next_event(pipe, state, patience)
                if isinstance(event, h11.Response):
                    return AsyncExchange(self, pipe, state, event)
                if not isinstance(event, h11.InformationalResponse) or event.status_code == 101:
                    raise Nonsense(f"{type(event).__name__} in place of an answer")
        except BaseException:
            pipe.close()
            raise

    async def _connection(self, patience: Patience) -> Tuple[io.Pipe, h11.Connection]:
        if self._where is not io.here():
            # Of an event loop that is over: nothing can be said on them any more.
            self._idle, self._where = [], io.here()
        oldest = time.monotonic() - IDLE_S
        while self._idle:
            try:
                since, pipe, state = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if since >= oldest and not pipe.is_stale():
                return pipe, state
            pipe.close()
        if self._closed:
            raise Refused("the client was closed")
        pipe = await io.connect(self._address, self._context, min(patience.left() or CONNECT_S, CONNECT_S))
        return pipe, h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_MAX)

    async def give_back(self, pipe: io.Pipe, state: h11.Connection) -> None:
        if state.our_state is h11.DONE and state.their_state is h11.DONE and not self._closed and len(self._idle) < IDLE_MAX:
            state.start_next_cycle()
            self._idle.append((time.monotonic(), pipe, state))
            return
        pipe.close()

    async def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for _, pipe, _ in idle:
            pipe.close()


def _sent(state: h11.Connection, event: Union[h11.Request, h11.Data, h11.EndOfMessage]) -> bytes:
    # None means that it is to be closed, which no request of ours asks for.
    return state.send(event) or b""


class AsyncBroughtWire:
    """The same by a transport of httpx that the user brought: for proxies, mocks, or what else there is."""

    def __init__(self, address: Address, transport: io.Transport) -> None:
        self._address = address
        self._transport = transport

    async def exchange(self, method: bytes, target: bytes, headers: Headers, body: Body, patience: Patience) -> AsyncBroughtExchange:
        import httpx

        address, pause = self._address, patience.left()
        url = httpx.URL(scheme=address.scheme, host=address.host, port=address.port, raw_path=target)
        request = httpx.Request(method.decode(), url, headers=headers, content=body,
                                extensions={"timeout": {"connect": CONNECT_S, "pool": CONNECT_S, "read": pause, "write": pause}})
        try:
            answer = await self._transport.handle_async_request(request)
        except httpx.HTTPError as e:
            raise _trouble(e) from None
        answer.request = request
        return AsyncBroughtExchange(answer)

    async def close(self) -> None:
        """It is whose who brought it."""


class AsyncBroughtExchange:
    def __init__(self, answer: httpx.Response) -> None:
        self.status: int = answer.status_code
        self.headers: Headers = [(name.lower(), value) for name, value in answer.headers.raw]
        self._answer = answer
        self._pieces: Optional[AsyncIterator[bytes]] = None

    async def chunk(self, patience: Patience) -> bytes:
        import httpx

        if self._pieces is None:
            self._pieces = cast(AsyncIterable[bytes], self._answer.stream).__aiter__()
        patience.left()
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except httpx.HTTPError as e:
            raise _trouble(e) from None
        return b""

    async def close(self) -> None:
        await self._answer.aclose()


def _trouble(error: Exception) -> Exception:
    """What an exception of httpx means for the connection."""
    name, text = type(error).__name__, str(error)
    if name in ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"):
        return Refused(text)
    if name in ("ReadTimeout", "WriteTimeout"):
        return Silent(text)
    if name in ("ReadError", "WriteError", "CloseError") or "disconnected" in text or "closed" in text:
        return Lost(text)
    return Nonsense(text)
