# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/watch.py: do not edit.
"""What changes below a directory of a box."""
from __future__ import annotations

import collections
from dataclasses import replace
from typing import Deque, Iterator, Optional

from .. import _json
from .._paths import BoxPath, directory_query, parts, query
from .._sse import Message, Parser
from .._transport import blocking as io
from .._transport.patience import Patience
from .._transport.trouble import Lost, Trouble
from ..errors import BoxGone, ProtocolError
from ..info import FileEvent, file_event
from .http import Answer
from .stream import LOSSES_MAX, SILENCE_S, Place


class Watch:
    """An iterator over FileEvents, which ends with the box; `reason` says why then.

    Events are not held by the server: when the connection was lost and is there again, an event `overflow` says that something may be
    missing, and that the directory has to be listed anew.
    """

    def __init__(self, box: Place, directory: BoxPath, recursive: bool) -> None:
        self._box, self._query = box, query(directory_query(directory), "recursive=1" if recursive else "")
        from_root, names = parts(directory)
        self._prefix = (b"/" if from_root else b"") + b"".join(name + b"/" for name in names)
        self._exchange: Optional[Answer] = None
        self._parser = Parser(0)
        self._ready: Deque[Message] = collections.deque()
        self._over = False
        self._losses = 0
        self.reason: Optional[str] = None

    def __enter__(self) -> Watch:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._over = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()

    def open(self) -> None:
        """From now on it is told. Without this, and without `with`, from the first event on that is asked for."""
        if self._exchange is not None or self._over:
            return
        http, box = self._box.way()
        target = f"{box}/watch{self._query}"
        self._parser = Parser(http.answer_max)
        exchange = http.open("GET", target)
        if not (_json.header(exchange.headers, b"content-type") or "").startswith("text/event-stream"):
            exchange.close()
            raise ProtocolError(f"an answer that is no stream of events [{http.where('GET', target)}]")
        self._exchange = exchange
        try:
            while not self._ready:
                self._read()
            if self._ready[0].name == "ready":
                self._ready.popleft()
        except Trouble as trouble:
            self.close()
            raise http.failed(trouble, "GET", target) from None

    def __iter__(self) -> Iterator[FileEvent]:
        return self

    def __next__(self) -> FileEvent:
        try:
            self.open()
            while not self._over:
                if self._ready:
                    message = self._ready.popleft()
                    data = _json.decode(message.data, "events of a directory")
                    self._losses = 0
                    if message.name == "end":
                        self.reason = _json.text(data, "reason")
                        break
                    return self._below(file_event(message.name, data))
                try:
                    self._read()
                except Trouble as trouble:
                    return self._again(trouble)
        except BoxGone as gone:
            self.reason = gone.reason
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopIteration

    def _read(self) -> None:
        if self._exchange is None:
            raise Lost("there is no connection")
        piece = self._exchange.chunk(Patience(SILENCE_S))
        if not piece:
            raise Lost("the stream ended before the box")
        self._ready.extend(self._parser.feed(piece))

    def _again(self, trouble: Trouble) -> FileEvent:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.close()
        self._losses += 1
        if self._losses > LOSSES_MAX:
            http, box = self._box.way()
            raise http.failed(trouble, "GET", f"{box}/watch{self._query}")
        io.sleep(0.05 * (self._losses - 1))
        self.open()
        return FileEvent("overflow", "", "directory")

    def _below(self, event: FileEvent) -> FileEvent:
        if not self._prefix or event.kind == "overflow":
            return event
        text = self._prefix.decode("utf-8", "replace")
        return replace(event, path=text + event.path, path_bytes=self._prefix + event.path_bytes, to=None if event.to is None else text + event.to,
                       to_bytes=None if event.to_bytes is None else self._prefix + event.to_bytes)
