# SPDX-License-Identifier: Apache-2.0
"""What a kernel has said to one request and nobody has read yet."""
from __future__ import annotations

import asyncio
import collections
from typing import Deque, Optional, Tuple

from ... import _json


class Inbox:
    """One reader. What comes first is read first; then end() says why nothing more comes."""

    def __init__(self) -> None:
        self._held: Deque[Tuple[_json.Object, int]] = collections.deque()
        self._waiter: Optional[asyncio.Future[None]] = None
        self._end: Optional[Exception] = None
        self.size = 0

    @property
    def waits(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def put(self, message: _json.Object, size: int) -> None:
        if self._end is None:
            self._held.append((message, size))
            self.size += size
            self._wake()

    def end(self, why: Exception) -> None:
        if self._end is None:
            self._end = why
            self._wake()

    def drop(self, why: Exception) -> None:
        """Nobody has read it in time."""
        self._held.clear()
        self.size = 0
        self.end(why)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self, until: Optional[float]) -> _json.Object:
        """The next one; asyncio.TimeoutError at `until`, by the loop's clock, also if there is always one more."""
        loop = asyncio.get_running_loop()
        while True:
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                raise asyncio.TimeoutError
            if self._held:
                message, size = self._held.popleft()
                self.size -= size
                return message
            if self._end is not None:
                raise self._end
            self._waiter = loop.create_future()
            try:
                await asyncio.wait({self._waiter}, timeout=left)
            finally:
                self._waiter = None
