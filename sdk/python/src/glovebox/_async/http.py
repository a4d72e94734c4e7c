# SPDX-License-Identifier: Apache-2.0
"""Calls of the API: what is sent with each, when it is sent again, and what becomes of a refusal.

A call is repeated only if that does nothing twice: it changes nothing, or says what shall be (GET, PUT, PATCH, DELETE), it has
an Idempotency-Key, or the server has said that nothing was done (429, 503). A number of times, within its timeout.
"""
from __future__ import annotations

import os
import ssl
import time
from typing import AsyncIterable, Callable, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote

from .. import _json, _owner
from .._address import Address
from .._refusals import refusal
from .._text import plain, size
from .._transport import aio as io
from .._transport.patience import Patience
from .._transport.trouble import Lost, Nonsense, Refused, Silent, Trouble, Untrusted
from .._version import __version__
from ..errors import ApiError, Closed, ConnectionLost, GloveboxError, InvalidRequest, ProtocolError, Retriable, ServerTimeout, ServerUnreachable, TooLarge
from .wire import AsyncBroughtExchange, AsyncBroughtWire, AsyncExchange, AsyncWire, Headers

Answer = Union[AsyncExchange, AsyncBroughtExchange]
Body = Union[bytes, Callable[[], AsyncIterable[bytes]], None]

# Between attempts, when nobody answers: a gate that died has a successor by then.
PAUSES = (0.0, 0.05, 0.15, 0.4, 0.8, 1.6)
# A refusal is short.
REFUSAL_MAX = 1024 * 1024
JSON_TYPE = (b"content-type", b"application/json")
REPEATABLE = frozenset(("GET", "HEAD", "PUT", "PATCH", "DELETE"))


class Reply(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class AsyncHttp:
    def __init__(self, address: Address, wire: Union[AsyncWire, AsyncBroughtWire], headers: Headers, timeout: float, answer_max: int,
                 context: Optional[ssl.SSLContext], private: bool, why_gone: Callable[[], str]) -> None:
        self.address = address
        self.context = context
        self.timeout = timeout
        self.answer_max = answer_max
        self.process = os.getpid()
        self.wire = wire
        #: Of every request.
        self.headers: Headers = [(b"host", address.authority.encode()), (b"user-agent", b"glovebox-python/" + __version__.encode()), *headers]
        self._private = private
        self._why_gone = why_gone
        self._prefix = address.prefix
        self.closed = False

    def way(self) -> _owner.Way:
        """How to end something when there is no loop and no connection any more."""
        return _owner.Way(self.address, self.headers, self.context)

    # --- calls that are answered at once ------------------------------------------------------------------------

    async def answer(self, method: str, path: str, fields: Optional[Mapping[str, object]] = None, *, key: Optional[str] = None,
                     timeout: Optional[float] = None, silence: Optional[float] = None) -> _json.Object:
        """The JSON object that a call answers with."""
        body = None if fields is None else _json.encode(fields, f"{method} {path}")
        reply = await self.call(method, path, body, (JSON_TYPE,) if body is not None else (), key=key, timeout=timeout, silence=silence)
        return _json.decode(reply.body, self.where(method, path))

    async def done(self, method: str, path: str, fields: Optional[Mapping[str, object]] = None, *, timeout: Optional[float] = None) -> None:
        """A call whose answer has nothing more to say."""
        body = None if fields is None else _json.encode(fields, f"{method} {path}")
        await self.call(method, path, body, (JSON_TYPE,) if body is not None else (), timeout=timeout)

    async def call(self, method: str, path: str, body: Body = None, headers: Tuple[Tuple[bytes, bytes], ...] = (), *,
                   key: Optional[str] = None, timeout: Optional[float] = None, silence: Optional[float] = None,
                   repeatable: Optional[bool] = None) -> Reply:
        """The whole answer. `silence`: how long the server may say nothing, with which the call itself has no end."""
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        patience = Patience(None, until) if silence is None else Patience(silence)
        if repeatable is None:
            repeatable = key is not None or method in REPEATABLE
        attempt = 0
        while True:
            try:
                exchange = await self._begin(method, path, body, headers, key, patience)
                reply = Reply(exchange.status, exchange.headers, await self.read(exchange, patience, self.answer_max))
            except Trouble as trouble:
                pause = self._pause(trouble, attempt, until, repeatable, method, path, silence or timeout)
                attempt += 1
            else:
                if 200 <= reply.status < 300 or reply.status == 304:
                    return reply
                error = self.refused(method, path, reply)
                pause = self._later(error, until)
            await io.sleep(pause)

    async def open(self, method: str, path: str, body: Body = None, headers: Tuple[Tuple[bytes, bytes], ...] = (), *,
                   key: Optional[str] = None, timeout: Optional[float] = None) -> Answer:
        """An answer whose body is read piece by piece, by who asks."""
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        repeatable = key is not None or method in REPEATABLE
        attempt = 0
        while True:
            try:
                exchange = await self._begin(method, path, body, headers, key, Patience(None, until))
                if 200 <= exchange.status < 300:
                    return exchange
                reply = Reply(exchange.status, exchange.headers, await self.read(exchange, Patience(None, until), REFUSAL_MAX))
            except Trouble as trouble:
                pause = self._pause(trouble, attempt, until, repeatable, method, path, timeout)
                attempt += 1
            else:
                error = self.refused(method, path, reply)
                pause = self._later(error, until)
            await io.sleep(pause)

    # --- one attempt ------------------------------------------------------------------------------------------------

    async def _begin(self, method: str, path: str, body: Body, headers: Tuple[Tuple[bytes, bytes], ...], key: Optional[str],
                     patience: Patience) -> Answer:
        self.check()
        all_headers = [*self.headers, *headers]
        if key is not None:
            all_headers.append((b"idempotency-key", key.encode()))
        if body is None or isinstance(body, bytes):
            if body is not None or method != "GET":
                all_headers.append((b"content-length", b"%d" % len(body or b"")))
            return await self.wire.exchange(method.encode(), (self._prefix + path).encode(), all_headers, body, patience)
        if not any(name == b"content-length" for name, _ in headers):
            all_headers.append((b"transfer-encoding", b"chunked"))
        return await self.wire.exchange(method.encode(), (self._prefix + path).encode(), all_headers, body(), patience)

    async def read(self, exchange: Answer, patience: Patience, most: int) -> bytes:
        """The rest of an answer, which the caller allows to be so large."""
        pieces: List[bytes] = []
        count = 0
        while True:
            piece = await exchange.chunk(patience)
            if not piece:
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            count += len(piece)
            if count > most:
                await exchange.close()
                error = TooLarge(f"an answer of more than {size(most)}: Client(answer_max=…) allows more [{self.address.url}]")
                error.limit = most
                raise error
            pieces.append(piece)

    def check(self) -> None:
        """Whether this process may use it."""
        _owner.check(self.process)
        if self.closed:
            raise Closed("the client was closed: make another one, or stay inside of its `with`")

    # --- what is said when it fails -----------------------------------------------------------------------------

    def where(self, method: str, path: str) -> str:
        return f"{method} {path} at {self.address.url}"

    def _pause(self, trouble: Trouble, attempt: int, until: float, repeatable: bool, method: str, path: str, timeout: Optional[float]) -> float:
        """How long to wait before the next attempt; raises what it means if there is none."""
        # A private server that does not listen has ended; others may be on their way back.
        refused = isinstance(trouble, Refused) and not isinstance(trouble, Untrusted)
        may = (refused and not self._why_gone()) or (repeatable and isinstance(trouble, Lost))
        if may and attempt < len(PAUSES) and time.monotonic() + PAUSES[attempt] < until and not self.closed:
            return PAUSES[attempt]
        raise self.failed(trouble, method, path, timeout) from None

    def _later(self, error: GloveboxError, until: float) -> float:
        """How long to wait before what was refused is asked again; raises the refusal if that makes no sense, or takes too long."""
        if not isinstance(error, Retriable) or error.retry_after is None or time.monotonic() + error.retry_after > until:
            raise error
        if self._private and error.code in ("unschedulable", "Sandbox.NotInitialized"):
            raise error  # nobody else is there who would make room
        if error.code == "SandboxError" and error.status == 503:
            raise error  # clients of that API hear it at once
        return max(error.retry_after, 0.1)

    def failed(self, trouble: Trouble, method: str, path: str, timeout: Optional[float] = None) -> GloveboxError:
        where = self.where(method, path)
        said = plain(str(trouble))
        unreachable: ServerUnreachable
        if isinstance(trouble, Silent):
            return ServerTimeout(f"no answer in {self.timeout if timeout is None else timeout:g} s: the server is busy or stuck, or more time is needed "
                                 f"(timeout=…) [{where}]")
        if isinstance(trouble, Nonsense):
            return ProtocolError(f"what answers speaks no HTTP that is understood: {said}; is that a Glovebox server? [{where}]")
        if isinstance(trouble, Lost):
            unreachable = ConnectionLost(f"the connection broke, and what was asked may have been done: {said}{self._why_gone()} [{where}]")
        elif isinstance(trouble, Untrusted):
            unreachable = ServerUnreachable(f"no connection that can be trusted to {self.address.url}: {said}; verify=… names the file of the certificate that "
                                            f"vouches for it [{where}]")
        else:
            advice = self._why_gone() or ("; is the server running, and is this its address? `glovebox serve` starts one, and without url=… and GLOVEBOX_URL "
                                          "there is a private one")
            unreachable = ServerUnreachable(f"nobody answers at {self.address.url}: {said}{advice} [{where}]")
        unreachable.url = self.address.url
        return unreachable

    def refused(self, method: str, path: str, reply: Reply) -> GloveboxError:
        where = self.where(method, path)
        if 300 <= reply.status < 400:
            to = plain((_json.header(reply.headers, b"location") or "nowhere")[:200])
            return ProtocolError(f"a redirect to {to}, which is not followed: the address has to be that of the server itself [{where}]")
        if reply.status < 300:
            return ProtocolError(f"an answer with status {reply.status}, which nobody asked for [{where}]")
        body: object = None
        if (_json.header(reply.headers, b"content-type") or "").startswith("application/json"):
            try:
                body = _json.decode(reply.body, where)
            except ProtocolError:
                pass
        after = _json.header(reply.headers, b"retry-after") or ""
        retry_after = float(after) if after.isdigit() and len(after) < 6 else None
        error: ApiError = refusal(reply.status, body, call=f"{method} {path}", url=self.address.url, retry_after=retry_after)
        return error


def quoted(value: str) -> str:
    """An id or a name, as a part of a path."""
    if not value or "/" in value or value in (".", "..") or any(c <= " " or c == "\x7f" for c in value):
        raise InvalidRequest(f"{plain(value)!r} is no id and no name")
    return quote(value, safe=":")
