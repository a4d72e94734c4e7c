# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/terminal.py: do not edit.
"""Terminals of a box: a login shell, in bytes."""
from __future__ import annotations

import json
from typing import Iterator, Optional, Union

from .. import _json
from .._text import plain
from ..errors import Closed, ConnectionLost, GloveboxError, ProtocolError
from ..info import TerminalExit
from .http import quoted
from .stream import Place
from .websocket import WebSocket, object_of

# The server takes messages of 64 KiB.
_MESSAGE = 32 * 1024


class Terminal:
    """A shell in a terminal of the box. What it says is bytes for a terminal, from a stranger: do not write them to yours unless that is meant.

    Leaving it leaves the shell running: box.terminal(id) comes back to it. `exit` says how it has ended, when it has.
    """

    def __init__(self, box: Place, id: Optional[str], columns: int, rows: int) -> None:
        self._box, self._wanted, self._size = box, id, (columns, rows)
        self._socket: Optional[WebSocket] = None
        self._where = ""
        self._id = id or ""
        self.exit: Optional[TerminalExit] = None

    def open(self) -> Terminal:
        """Connects, if that was not done yet."""
        self._open()
        return self

    def _open(self) -> WebSocket:
        if self._socket is not None:
            return self._socket
        http, box = self._box.way()
        path = f"{box}/tty" + (f"?tty={quoted(self._wanted)}" if self._wanted is not None else "")
        socket = WebSocket(http, path)
        self._where = http.where("GET", path)
        socket.open()
        try:
            first = socket.receive(http.timeout)
            if not isinstance(first, str):
                raise ProtocolError(f"a terminal that does not say which it is [{self._where}]")
            self._id = _json.text(object_of(first, self._where), "tty")
            socket.send(json.dumps({"resize": list(self._size)}))
        except BaseException:
            socket.close()
            raise
        self._socket = socket
        return socket

    @property
    def id(self) -> str:
        """To come back to it: box.terminal(id)."""
        if not self._id:
            raise GloveboxError("the terminal is not open yet, and has no id: enter it by `with`, call open(), or use it")
        return self._id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id or 'not open yet'}>"

    def __enter__(self) -> Terminal:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, timeout: Optional[float] = None) -> bytes:
        """What it says next; empty when the shell has ended, or another client looks at it now. TimeoutError after `timeout` seconds of silence."""
        socket = self._open()
        while True:
            message = socket.receive(timeout)
            if message is None:
                code = socket.close_code
                if code not in (None, 1000, 1001):
                    raise ConnectionLost(f"the terminal was closed: {socket.close_reason or code} [{self._where}]")
                return b""
            if isinstance(message, bytes):
                if message:
                    return message
                continue
            said = object_of(message, self._where)
            if "exit" in said:
                how = _json.member(said, "exit")
                self.exit = TerminalExit(_json.integer_or_none(how, "exit_code"), _json.integer_or_none(how, "signal"))

    def read_until(self, text: Union[str, bytes], timeout: Optional[float] = None, *, most: int = 1 << 20) -> bytes:
        """All that it says up to this text, and what has come with it. ConnectionLost if it ends before."""
        wanted = text.encode() if isinstance(text, str) else text
        found = bytearray()
        while wanted not in found:
            piece = self.read(timeout)
            if not piece:
                raise ConnectionLost(f"the terminal has ended before it said {plain(wanted.decode('utf-8', 'replace'))!r} [{self._where}]")
            found += piece
            if len(found) > most:
                raise ProtocolError(f"more than {most} bytes before {plain(wanted.decode('utf-8', 'replace'))!r}: most=… allows more")
        return bytes(found)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            piece = self.read()
            if not piece:
                return
            yield piece

    def write(self, data: Union[str, bytes]) -> None:
        """Keys that somebody types."""
        socket = self._open()
        if self.exit is not None:
            raise Closed("the shell has ended")
        data = data.encode() if isinstance(data, str) else data
        for begin in range(0, len(data), _MESSAGE):
            socket.send(data[begin:begin + _MESSAGE])

    def resize(self, columns: int, rows: int) -> None:
        """How large it is, in characters."""
        (self._open()).send(json.dumps({"resize": [int(columns), int(rows)]}))

    def close(self) -> None:
        """Looks at it no more. The shell goes on; write("exit\\n") ends it."""
        if self._socket is not None:
            self._socket.close()
