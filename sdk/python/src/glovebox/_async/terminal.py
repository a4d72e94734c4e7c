# SPDX-License-Identifier: Apache-2.0
"""Terminals of a box: a login shell, in bytes."""
from __future__ import annotations

import json
from typing import AsyncIterator, Optional, Union

from .. import _json
from .._text import plain
from ..errors import Closed, ConnectionLost, GloveboxError, ProtocolError
from ..info import TerminalExit
from .http import quoted
from .stream import AsyncPlace
from .websocket import AsyncWebSocket, object_of

# The server takes messages of 64 KiB.
_MESSAGE = 32 * 1024


class AsyncTerminal:
    """A shell in a terminal of the box. What it says is bytes for a terminal, from a stranger: do not write them to yours unless that is meant.

    Leaving it leaves the shell running: box.terminal(id) comes back to it. `exit` says how it has ended, when it has.
    """

    def __init__(self, box: AsyncPlace, id: Optional[str], columns: int, rows: int) -> None:
        self._box, self._wanted, self._size = box, id, (columns, rows)
        self._socket: Optional[AsyncWebSocket] = None
        self._where = ""
        self._id = id or ""
        self.exit: Optional[TerminalExit] = None

    async def open(self) -> AsyncTerminal:
        """Connects, if that was not done yet."""
        await self._open()
        return self

    async def _open(self) -> AsyncWebSocket:
        if self._socket is not None:
            return self._socket
        http, box = await self._box.way()
        path = f"{box}/tty" + (f"?tty={quoted(self._wanted)}" if self._wanted is not None else "")
        socket = AsyncWebSocket(http, path)
        self._where = http.where("GET", path)
        await socket.open()
        try:
            first = await socket.receive(http.timeout)
            if not isinstance(first, str):
                raise ProtocolError(f"a terminal that does not say which it is [{self._where}]")
            self._id = _json.text(object_of(first, self._where), "tty")
            await socket.send(json.dumps({"resize": list(self._size)}))
        except BaseException:
            await socket.close()
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

    async def __aenter__(self) -> AsyncTerminal:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def read(self, timeout: Optional[float] = None) -> bytes:
        """What it says next; empty when the shell has ended, or another client looks at it now. TimeoutError after `timeout` seconds of silence."""
        socket = await self._open()
        while True:
            message = await socket.receive(timeout)
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

    async def read_until(self, text: Union[str, bytes], timeout: Optional[float] = None, *, most: int = 1 << 20) -> bytes:
        """All that it says up to this text, and what has come with it. ConnectionLost if it ends before."""
        wanted = text.encode() if isinstance(text, str) else text
        found = bytearray()
        while wanted not in found:
            piece = await self.read(timeout)
            if not piece:
                raise ConnectionLost(f"the terminal has ended before it said {plain(wanted.decode('utf-8', 'replace'))!r} [{self._where}]")
            found += piece
            if len(found) > most:
                raise ProtocolError(f"more than {most} bytes before {plain(wanted.decode('utf-8', 'replace'))!r}: most=… allows more")
        return bytes(found)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            piece = await self.read()
            if not piece:
                return
            yield piece

    async def write(self, data: Union[str, bytes]) -> None:
        """Keys that somebody types."""
        socket = await self._open()
        if self.exit is not None:
            raise Closed("the shell has ended")
        data = data.encode() if isinstance(data, str) else data
        for begin in range(0, len(data), _MESSAGE):
            await socket.send(data[begin:begin + _MESSAGE])

    async def resize(self, columns: int, rows: int) -> None:
        """How large it is, in characters."""
        await (await self._open()).send(json.dumps({"resize": [int(columns), int(rows)]}))

    async def close(self) -> None:
        """Looks at it no more. The shell goes on; write("exit\\n") ends it."""
        if self._socket is not None:
            await self._socket.close()
