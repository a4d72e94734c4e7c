# SPDX-License-Identifier: Apache-2.0
"""Calls of tools that wait until somebody allows them."""
from __future__ import annotations

from typing import TYPE_CHECKING, AsyncIterator, Awaitable, Callable, List, Optional, Union

from .. import _json
from .._transport import aio as io
from ..errors import ApiError, BoxGone, ConnectionLost, NotFound
from ..info import Approval, approval
from .websocket import AsyncWebSocket, object_of

if TYPE_CHECKING:
    from .box import AsyncBox

Handler = Callable[[Approval], Union[Awaitable[bool], bool]]

_LOSSES_MAX = 8


class AsyncApprovals:
    """box.approvals. What is asked comes from code in the box: its arguments are not to be trusted."""

    def __init__(self, box: AsyncBox) -> None:
        self._box = box

    async def list(self) -> List[Approval]:
        """Those that wait, the oldest first."""
        http, box = await self._box.way()
        return [approval(row) for row in _json.objects(await http.answer("GET", f"{box}/approvals"), "approvals")]

    async def answer(self, call: Union[Approval, str], approved: bool) -> None:
        """Allows one, or refuses it. NotFound if it waits no more."""
        http, box = await self._box.way()
        await http.answer("POST", f"{box}/approvals", {"id": call if isinstance(call, str) else call.id, "approved": approved})

    async def approve(self, call: Union[Approval, str]) -> None:
        await self.answer(call, True)

    async def reject(self, call: Union[Approval, str]) -> None:
        await self.answer(call, False)

    async def __aiter__(self) -> AsyncIterator[Approval]:
        """As they come, those that wait already first; ends with the box. Each has to be answered."""
        listener = AsyncListener(self._box)
        try:
            while True:
                call = await listener.next()
                if call is None:
                    return
                yield call
        finally:
            await listener.close()

    def answering(self, handler: Handler) -> AsyncAnswering:
        """A context manager in which handler(call) answers each call by its bool, beside what else the program does. A handler that raises
        refuses the call, and its exception is raised when the context is left."""
        return AsyncAnswering(self._box, handler)


class AsyncListener:
    """The connection on which they are told. One that is lost is made anew; what was told already is not told again."""

    def __init__(self, box: AsyncBox) -> None:
        self._box = box
        self._socket: Optional[AsyncWebSocket] = None
        self._told: List[str] = []
        self._losses = 0
        self._closed = False

    async def open(self) -> AsyncWebSocket:
        http, box = await self._box.way()
        socket = AsyncWebSocket(http, f"{box}/approvals")
        await socket.open()
        self._socket = socket
        return socket

    async def next(self) -> Optional[Approval]:
        """None when the box has ended, or close() was called."""
        while not self._closed:
            try:
                socket = self._socket or await self.open()
                message = await socket.receive()
            except (BoxGone, NotFound):
                return None
            except ConnectionLost:
                if self._closed:
                    return None
                self._socket = None
                self._losses += 1
                if self._losses > _LOSSES_MAX:
                    raise
                await io.sleep(0.05 * self._losses)
                continue
            if message is None:
                # The server stops, or the box has ended: whoever asks next is told.
                self._socket = None
                self._losses += 1
                if self._losses > _LOSSES_MAX:
                    return None
                await io.sleep(0.05 * self._losses)
                continue
            said = object_of(message, "approvals")
            self._losses = 0
            if said.get("method") != "approve":
                continue
            params = _json.member(said, "params")
            call = Approval(_json.text(said, "id"), _json.text(params, "server_name"), _json.text(params, "tool_name"), _json.member(params, "tool_args"))
            if call.id not in self._told:
                self._told = [*self._told[-255:], call.id]
                return call
        return None


    async def close(self) -> None:
        self._closed = True
        socket = self._socket
        if socket is not None:
            await socket.close()


class AsyncAnswering:
    """See AsyncApprovals.answering()."""

    def __init__(self, box: AsyncBox, handler: Handler) -> None:
        self._box, self._handler = box, handler
        self._listener = AsyncListener(box)
        self._task: Optional[io.Task] = None
        self._error: Optional[BaseException] = None
        #: How many calls were allowed, and how many refused.
        self.approved = self.rejected = 0

    async def __aenter__(self) -> AsyncAnswering:
        await self._listener.open()
        self._task = io.Task(self._work, "glovebox approvals")
        return self

    async def __aexit__(self, kind: object, error: object, _: object) -> None:
        await self._listener.close()
        if self._task is not None:
            await self._task.wait()
        if self._error is not None and kind is None:
            raise self._error

    async def _work(self) -> None:
        try:
            while True:
                call = await self._listener.next()
                if call is None:
                    return
                try:
                    approved = bool(await io.call(self._handler, call))
                except Exception as e:
                    self._error, approved = e, False
                try:
                    await self._box.approvals.answer(call, approved)
                except NotFound:
                    continue  # somebody else was faster, or its time is over
                if approved:
                    self.approved += 1
                else:
                    self.rejected += 1
        except ApiError as e:
            self._error = e
