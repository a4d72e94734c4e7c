# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/stream.py: do not edit.
"""Events of a cell or command as they come. When the connection is lost, or the gate, it goes on behind the last event."""
from __future__ import annotations

import collections
import os
import time
from typing import Callable, Deque, Generic, Iterator, Mapping, Optional, Protocol, Tuple, TypeVar

from .. import _json
from .._sse import Message, Parser
from .._transport import blocking as io
from .._transport.patience import Patience
from .._transport.trouble import Lost, Trouble
from ..errors import Closed, GloveboxError, ProtocolError
from .http import JSON_TYPE, Answer, Http, quoted

E = TypeVar("E")

# A comment comes every 15 s.
SILENCE_S = 45.0
# Without one event in between.
LOSSES_MAX = 8


class Place(Protocol):
    """A box, as far as what runs in it needs to know."""

    memory: Optional[int]

    def way(self) -> Tuple[Http, str]: ...


class Stream(Generic[E]):
    """An iterator over events, which begins with the first of them. Leaving it early leaves what runs running, but for Ctrl-C and a cancelled
    task: those end it.

    kind: "cell" or "command". Either `start` is the body of a request that begins something, or `id` names what runs already.
    """

    def __init__(self, box: Place, kind: str, parse: Callable[[str, Mapping[str, object]], E], *, start: Optional[bytes] = None,
                 id: Optional[str] = None, after: int = 0) -> None:
        self._box, self._kind, self._parse = box, kind, parse
        self._start, self._key, self._id = start, os.urandom(12).hex(), id
        self._last = after
        self._exchange: Optional[Answer] = None
        self._parser = Parser(0)
        self._ready: Deque[Message] = collections.deque()
        self._ended = False  # its `end` has come
        self._over = False
        self._losses = 0

    @property
    def id(self) -> Optional[str]:
        """Of the cell or command; None before its first event."""
        return self._id

    @property
    def last(self) -> int:
        """The number of the last event that was given out."""
        return self._last

    def __enter__(self) -> Stream[E]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[E]:
        return self

    def close(self) -> None:
        """Stops listening. What runs goes on."""
        self._over = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()

    def __next__(self) -> E:
        try:
            while not self._over:
                while self._ready:
                    event = self._take(self._ready.popleft())
                    if event is not None:
                        return event
                self._more()
        except Exception:
            self.close()
            raise
        except BaseException:
            self.close()
            if self._start is not None and not self._ended:
                io.finish(self.end, 1.0)
            raise
        raise StopIteration

    def _take(self, message: Message) -> Optional[E]:
        """An event, if it is a new one."""
        data = _json.decode(message.data, f"events of a {self._kind}")
        seq = _json.integer(data, "seq")
        if self._id is None:
            self._id = _json.text(data, self._kind)
        if seq <= self._last:
            return None
        event = self._parse(message.name, data)
        self._last, self._losses = seq, 0
        if message.name == "end":
            self._ended = True
        return event

    def _more(self) -> None:
        """Reads on, or connects again."""
        try:
            if self._exchange is None:
                self._connect()
                if self._exchange is None:
                    return
            piece = self._exchange.chunk(Patience(SILENCE_S))
            if piece:
                self._ready.extend(self._parser.feed(piece))
                return
            if self._ended:
                self._over = True
                return
            raise Lost("the stream ended before what runs had ended")
        except Trouble as trouble:
            self._lost(trouble)

    def _lost(self, trouble: Trouble) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()
        if self._ended:
            self._over = True
            return
        self._losses += 1
        if self._losses > LOSSES_MAX:
            http, box = self._box.way()
            raise http.failed(trouble, "GET", f"{box}/{self._kind}s/{self._id}/events")
        io.sleep(0.05 * (self._losses - 1))

    def _connect(self) -> None:
        http, box = self._box.way()
        path = f"{box}/{self._kind}s"
        last: Tuple[Tuple[bytes, bytes], ...] = ((b"last-event-id", b"%d" % self._last),) if self._last else ()
        self._parser = Parser(http.answer_max)
        if self._id is not None:
            exchange = http.open("GET", f"{path}/{quoted(self._id)}/events", headers=last)
        elif self._start is not None:
            exchange = http.open("POST", path, self._start, (JSON_TYPE, *last), key=self._key)
        else:
            raise Closed("there is nothing to follow")
        if exchange.status == 204:
            # Behind the last event.
            exchange.close()
            self._over = True
            return
        kind = _json.header(exchange.headers, b"content-type") or ""
        if not kind.startswith("text/event-stream"):
            exchange.close()
            raise ProtocolError(f"an answer that is no stream of events [{http.where('POST', path)}]")
        self._exchange = exchange

    def end(self, seconds: float) -> None:
        """Ends what runs, because nobody will look at it any more; if that can be done at once."""
        if self._id is None:
            return
        try:
            http, box = self._box.way()
            http.call("DELETE", f"{box}/{self._kind}s/{quoted(self._id)}", timeout=seconds)
        except GloveboxError:
            pass


def wait(box: Place, kind: str, id: str, timeout: Optional[float], is_over: Callable[[_json.Object], bool]) -> Optional[_json.Object]:
    """A cell or command when it has ended, by long polls; None: it has not in this time."""
    until = None if timeout is None else time.monotonic() + timeout
    http, path = box.way()
    while True:
        left = 30.0 if until is None else max(0.0, min(30.0, until - time.monotonic()))
        found = http.answer("GET", f"{path}/{kind}s/{quoted(id)}?wait_ms={int(left * 1000)}", timeout=left + http.timeout)
        if is_over(found):
            return found
        if until is not None and time.monotonic() >= until:
            return None
