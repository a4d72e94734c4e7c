# SPDX-License-Identifier: Apache-2.0
"""The WebSocket of a kernel, as Jupyter has it: messages of all requests, sorted by the request that they belong to.

One task reads all the time, so that pings of the server are answered whatever the program does. What belongs to an Execution that nobody has
any more is dropped. What nobody reads yet is held, up to a bound, and then the kernel has to wait; unless somebody waits for another request,
which would be behind it for ever: then the largest of those that are not read is lost.
"""
from __future__ import annotations

import asyncio
import weakref
from typing import Mapping, Optional

from ... import _json
from ..._async.http import AsyncHttp
from ..._async.websocket import AsyncWebSocket, object_of
from ..._text import size as shown_size
from ...errors import GloveboxError, ProtocolError
from ._inbox import Inbox

UNREAD_MAX = 64 * 1024 * 1024
_WANTED = frozenset(("stream", "error", "execute_reply", "execute_result", "display_data", "status"))


class Channel:
    def __init__(self, http: AsyncHttp, path: str, heartbeat: float) -> None:
        self._http, self._path, self._heartbeat = http, path, heartbeat
        self._socket = AsyncWebSocket(http, path)
        self._inboxes: weakref.WeakValueDictionary[str, Inbox] = weakref.WeakValueDictionary()
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._reader: Optional[asyncio.Task[None]] = None
        self._beater: Optional[asyncio.Task[None]] = None

    @property
    def is_lost(self) -> bool:
        return self._socket.closed

    async def open(self) -> None:
        await self._socket.open()
        self._reader = self._loop.create_task(self._read(), name="glovebox-ipybox-reader")
        self._beater = self._loop.create_task(self._beat(), name="glovebox-ipybox-heartbeat")

    def inbox(self, request: str) -> Inbox:
        """For the answers to a request that is about to be sent."""
        inbox = self._inboxes.setdefault(request, Inbox())
        if self.is_lost:
            inbox.end(self._lost())
        return inbox

    async def get(self, inbox: Inbox, until: Optional[float]) -> _json.Object:
        self._room.set()
        try:
            return await inbox.get(until)
        finally:
            self._room.set()

    async def send(self, message: Mapping[str, object]) -> None:
        await self._socket.send(_json.encode(message, f"GET {self._path}").decode())

    async def close(self) -> None:
        for task in (self._reader, self._beater):
            # Of a loop that was closed there is nobody who could hear it.
            if task is not None and not self._loop.is_closed():
                task.cancel()
        if not self._loop.is_closed():
            await self._socket.close()

    # --- what the two tasks do ------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        why: Exception = self._lost()
        try:
            while True:
                message = await self._socket.receive()
                if message is None:
                    return
                self._sort(object_of(message, self._http.where("GET", self._path)), len(message))
                await self._wait_for_room()
        except GloveboxError as e:
            why = self._lost(f": {e}")
        finally:
            self._socket.drop()
            for inbox in list(self._inboxes.values()):
                inbox.end(why)

    def _sort(self, message: _json.Object, size: int) -> None:
        kind = message.get("msg_type") or _member(message, "header").get("msg_type")
        request = _member(message, "parent_header").get("msg_id")
        inbox = self._inboxes.get(request) if isinstance(request, str) else None
        if inbox is not None and kind in _WANTED:
            inbox.put({"kind": kind, "content": _member(message, "content")}, size)

    async def _wait_for_room(self) -> None:
        while True:
            inboxes = list(self._inboxes.values())
            if sum(one.size for one in inboxes) <= UNREAD_MAX:
                return
            if any(one.waits for one in inboxes):
                max(inboxes, key=lambda one: one.size).drop(ProtocolError(f"more than {shown_size(UNREAD_MAX)} of output that nobody has read: it is lost"))
                continue
            del inboxes
            self._room.clear()
            await self._room.wait()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat)
            try:
                await self._socket.ping()
            except GloveboxError:
                return

    def _lost(self, why: str = "") -> GloveboxError:
        from .executor import ConnectionError  # which imports this module

        return ConnectionError(f"the connection to the kernel is over{why} [{self._http.where('GET', self._path)}]")


def _member(o: Mapping[str, object], key: str) -> _json.Object:
    """What should be an object, and may be anything: a box has written it."""
    value = o.get(key)
    return value if isinstance(value, dict) else {}
