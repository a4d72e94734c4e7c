# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/websocket.py: do not edit.
"""WebSockets, by the part of `websockets` that knows no network, over the connections of _transport: one way for both forms, Unix
sockets included, and for every version of it since 10."""
from __future__ import annotations

import collections
import time
from typing import Any, Deque, Optional, Tuple, Union

from .. import _json
from .._text import plain
from .._transport import blocking as io
from .._transport.patience import Patience
from .._transport.trouble import Lost, Nonsense, Silent, Trouble
from ..errors import ConnectionLost, ProtocolError
from .http import REFUSAL_MAX, Http, Reply
from .wire import CONNECT_S

MESSAGE_MAX = 16 * 1024 * 1024
# Of frames, as RFC 6455 has them.
_CONT, _TEXT, _BINARY, _CLOSE = 0, 1, 2, 8


def _protocol(uri: str) -> Any:
    """The part of websockets that knows no network. It is imported here, because few need it, and it is large."""
    import websockets.client
    from websockets.uri import parse_uri

    # It is ClientConnection before websockets 11.
    make: Any = getattr(websockets.client, "ClientProtocol", None) or getattr(websockets.client, "ClientConnection")
    return make(parse_uri(uri), max_size=MESSAGE_MAX)


class WebSocket:
    """One connection. receive() by one task or thread at a time, send() by any."""

    def __init__(self, http: Http, path: str) -> None:
        self._http, self._path = http, path
        self._pipe: Optional[io.Pipe] = None
        self._lock = io.Lock()
        self._protocol: Any = None
        self._messages: Deque[Union[str, bytes]] = collections.deque()
        self._parts: Tuple[bytes, ...] = ()
        self._is_text = False
        self._closed = False
        self.close_code: Optional[int] = None
        self.close_reason = ""

    def open(self) -> None:
        """The handshake. A refusal is that of any other call."""
        http = self._http
        http.check()
        address = http.address
        scheme = "wss" if address.scheme == "https" else "ws"
        protocol = _protocol(f"{scheme}://{address.authority}{address.prefix}{self._path}")
        request = protocol.connect()
        for name, value in http.headers:
            if name not in (b"host", b"user-agent"):
                request.headers[name.decode()] = value.decode()
        try:
            self._pipe = pipe = io.connect(address, http.context, min(http.timeout, CONNECT_S))
        except Trouble as trouble:
            raise http.failed(trouble, "GET", self._path) from None
        self._protocol = protocol
        patience = Patience(http.timeout)
        try:
            protocol.send_request(request)
            self._flush(patience)
            answer: Any = None
            while answer is None:
                data = pipe.read(patience.left())
                if not data:
                    raise Lost("the connection ended before an answer")
                try:
                    protocol.receive_data(data)
                except Exception as e:  # of what is no HTTP; each version has its own
                    raise Nonsense(str(e)) from None
                events = protocol.events_received()
                self._flush(patience)
                if events:
                    answer = events.pop(0)
                error = getattr(protocol, "handshake_exc", None) or getattr(protocol, "parser_exc", None)
                # Another status than 101 is an answer, too: below.
                if error is not None and type(error).__name__ != "InvalidStatus":
                    raise Nonsense(str(error))
            if answer.status_code != 101:
                reply = Reply(answer.status_code, [(k.lower().encode(), v.encode("latin-1", "replace")) for k, v in answer.headers.raw_items()],
                              (answer.body or b"")[:REFUSAL_MAX])
                raise http.refused("GET", self._path, reply)
            for event in events:
                self._take(event)
        except Trouble as trouble:
            self.drop()
            raise http.failed(trouble, "GET", self._path) from None
        except BaseException:
            self.drop()
            raise

    def receive(self, timeout: Optional[float] = None) -> Union[str, bytes, None]:
        """The next message; None when the connection was closed as it should be. TimeoutError when none comes in time."""
        # Pings come all the time, and are no messages.
        patience = Patience(None, None if timeout is None else time.monotonic() + timeout)
        while not self._messages:
            if self._closed or self._pipe is None:
                return None
            try:
                data = self._pipe.read(patience.left())
            except Silent:
                raise TimeoutError(f"nothing came in {timeout:g} s") from None
            except Trouble as trouble:
                if self._closed:
                    return None
                raise self._lost(trouble) from None
            with self._lock:
                if data:
                    self._protocol.receive_data(data)
                else:
                    self._protocol.receive_eof()
                for event in self._protocol.events_received():
                    self._take(event)
                try:
                    self._flush(Patience(self._http.timeout))
                except Trouble as trouble:
                    raise self._lost(trouble) from None
            self._check_end(not data)
        return self._messages.popleft()

    def _check_end(self, eof: bool) -> None:
        wrong = getattr(self._protocol, "parser_exc", None)
        if wrong is not None and not isinstance(wrong, EOFError) and self.close_code is None:
            self.drop()
            raise ProtocolError(f"what comes is no WebSocket: {plain(str(wrong))[:200]} [{self._http.where('GET', self._path)}]")
        if self.close_code is not None:
            self._closed = True
            self.drop()
        elif eof and not self._closed:
            raise self._lost(Lost("it ended without a word"))

    def _take(self, event: Any) -> None:
        opcode = getattr(event, "opcode", None)
        if opcode == _CLOSE:
            data = bytes(event.data)
            self.close_code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
            self.close_reason = plain(data[2:].decode("utf-8", "replace"))
        elif opcode in (_TEXT, _BINARY, _CONT):
            if opcode != _CONT:
                self._is_text, self._parts = opcode == _TEXT, ()
            self._parts += (bytes(event.data),)
            if event.fin:
                data = b"".join(self._parts)
                self._parts = ()
                self._messages.append(data.decode("utf-8", "replace") if self._is_text else data)

    def send(self, message: Union[str, bytes]) -> None:
        """A text or bytes."""
        if isinstance(message, str):
            self._send("send_text", message.encode())
        else:
            self._send("send_binary", message)

    def ping(self) -> None:
        """So that nobody on the way takes the connection for idle; the answer is no message."""
        self._send("send_ping", b"")

    def _send(self, what: str, data: bytes) -> None:
        if self._closed or self._pipe is None:
            raise ConnectionLost(f"the connection was closed{': ' + self.close_reason if self.close_reason else ''} [{self._http.where('GET', self._path)}]")
        with self._lock:
            try:
                getattr(self._protocol, what)(data)
                self._flush(Patience(self._http.timeout))
            except Trouble as trouble:
                raise self._lost(trouble) from None
            except Exception as e:  # of websockets: the state of the connection allows it no more
                raise self._lost(Lost(str(e))) from None

    def _flush(self, patience: Patience) -> None:
        assert self._pipe is not None
        for data in self._protocol.data_to_send():
            if data:
                self._pipe.write(data, patience.left())
        self._pipe.flush(patience.left())

    def _lost(self, trouble: Trouble) -> ConnectionLost:
        self.drop()
        error = ConnectionLost(f"the connection broke: {plain(str(trouble)) or 'nobody takes what is sent'} [{self._http.where('GET', self._path)}]")
        error.url = self._http.address.url
        return error

    def close(self) -> None:
        """Says goodbye, and does not wait for an answer."""
        if self._closed or self._pipe is None:
            return
        self._closed = True
        try:
            with self._lock:
                self._protocol.send_close(1000)
                self._flush(Patience(1.0))
        except Exception:  # it is over in any case
            pass
        self.drop()

    @property
    def closed(self) -> bool:
        return self._closed

    def drop(self) -> None:
        """Away with it, for whoever waits for a message, too."""
        self._closed = True
        pipe = self._pipe
        if pipe is not None:
            pipe.cut()
            pipe.close()


def object_of(message: Union[str, bytes], where: str) -> _json.Object:
    """A message that is JSON."""
    return _json.decode(message.encode() if isinstance(message, str) else message, where)
