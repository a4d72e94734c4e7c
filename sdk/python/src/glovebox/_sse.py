# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, from bytes as they come. An event has a bounded size, whatever the server says."""
from __future__ import annotations

from typing import List, NamedTuple

from ._text import size
from .errors import TooLarge


class Message(NamedTuple):
    id: str  # the last one that was said
    name: str
    data: bytes


class Parser:
    def __init__(self, most: int) -> None:
        self._most = most
        self._line = bytearray()  # the part of a line that has come
        self._id = ""
        self._name = ""
        self._data: List[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> List[Message]:
        """The events that are complete with it."""
        found: List[Message] = []
        first, *rest = piece.split(b"\n")
        self._line += first
        for following in rest:
            self._take(bytes(self._line), found)
            self._line = bytearray(following)
        if len(self._line) + self._size > self._most:
            error = TooLarge(f"an event of more than {size(self._most)}: Client(answer_max=…) allows more")
            error.limit = self._most
            raise error
        return found

    def _take(self, line: bytes, found: List[Message]) -> None:
        line = line[:-1] if line.endswith(b"\r") else line
        if not line:
            if self._data:
                found.append(Message(self._id, self._name or "message", b"\n".join(self._data)))
            self._name, self._data, self._size = "", [], 0
            return
        key, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if key == b"data":
            self._data.append(value)
            self._size += len(value) + 1
        elif key == b"event":
            self._name = value[:100].decode("utf-8", "replace")
        elif key == b"id":
            self._id = value[:100].decode("utf-8", "replace")
