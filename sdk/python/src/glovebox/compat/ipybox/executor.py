# SPDX-License-Identifier: Apache-2.0
"""ExecutionClient: code in an IPython kernel of a container, by its executor port. It also speaks to containers of ipybox itself.

What a kernel says comes from a stranger. It is text, and pictures of bounded size; nothing of it is executed here.
"""
from __future__ import annotations

import asyncio
import base64
import binascii
import functools
import uuid
from dataclasses import dataclass
from typing import Any, AsyncIterator, List, Mapping, Optional, Union, cast

from ... import _json, _owner
from ..._async.http import JSON_TYPE, quoted
from ..._text import plain
from ..._transport import aio as io
from ...errors import ApiError, GloveboxError, ProtocolError, Retriable, ServerUnreachable
from ...outputs import Picture, picture
from ._channel import Channel
from ._port import Port

__all__ = ["ConnectionError", "Execution", "ExecutionClient", "ExecutionError", "ExecutionResult"]

# Of an interrupt: how long it may take; and how long the kernel has then, which refuses what comes right behind code that has failed.
_INTERRUPT_S, _SETTLE_S = 10.0, 0.2
# How long a kernel that has replied may take to say that it is idle.
_IDLE_S = 2.0
_END_S = 20.0
_ON_PATH = "import sys\nsys.path.append('/app')"


class ConnectionError(ServerUnreachable):  # pylint: disable=redefined-builtin
    """There is no kernel, or no connection to it."""


class ExecutionError(GloveboxError):
    """The code raised something: "ValueError: text" in its own words. `trace` is IPython's traceback, with colours: it acts on terminals."""

    def __init__(self, message: str, trace: Optional[str] = None) -> None:
        super().__init__(message)
        self.trace = trace


@dataclass
class ExecutionResult:
    """`text` is all output in one, without white space around it; None if there was none. `images` are of Pillow."""

    text: Optional[str]
    images: List[Any]


class Execution:
    """Code that was sent to a kernel. Read it by stream(), by result(), or one after the other."""

    def __init__(self, client: ExecutionClient, req_id: str) -> None:
        self.client = client
        self.req_id = req_id
        self._channel = client._connected()
        self._inbox = self._channel.inbox(req_id)
        self._chunks: List[str] = []
        self._images: List[Picture] = []
        self._stream_consumed = False

    async def result(self, timeout: float = 120) -> ExecutionResult:
        """All of it, when it has ended. ExecutionError if the code raised; asyncio.TimeoutError after `timeout` seconds, and the kernel is
        interrupted then. None for timeout: however long it takes."""
        if not self._stream_consumed:
            async for _ in self.stream(timeout=timeout):
                pass
        return ExecutionResult("".join(self._chunks).strip() if self._chunks else None, self._images)

    async def stream(self, timeout: float = 120) -> AsyncIterator[str]:
        """Text as it comes; pictures are in result(), which does not wait any more after this. Exceptions as there. A task that is cancelled
        while it waits here interrupts the kernel."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        error: Optional[_json.Object] = None
        reply: Optional[_json.Object] = None
        idle = False
        try:
            while reply is None or not idle:
                try:
                    message = await self._channel.get(self._inbox, until)
                except asyncio.TimeoutError:
                    if reply is None:
                        raise
                    break
                kind, content = message["kind"], cast(_json.Object, message["content"])
                chunk: object = None
                if kind == "stream":
                    chunk = content.get("text")
                elif kind == "error":
                    error = content
                elif kind == "status":
                    idle = idle or content.get("execution_state") == "idle"
                elif kind == "execute_reply":
                    # With ipybox's own containers output may come behind it, and what is idle has said everything.
                    reply = content
                    idle = idle or content.get("status") == "aborted"
                    until = min(until or loop.time() + _IDLE_S, loop.time() + _IDLE_S)
                else:
                    chunk = self._shown(content.get("data"))
                if isinstance(chunk, str):
                    self._chunks.append(chunk)
                    yield chunk
            if reply is not None and reply.get("status") != "ok":
                raise _failed(error or reply)
        except (asyncio.TimeoutError, asyncio.CancelledError):
            await io.finish(self.client._interrupt_kernel, _INTERRUPT_S)
            raise
        finally:
            self._stream_consumed = True

    def _shown(self, data: object) -> object:
        """What is displayed as text, if it is; its picture is kept."""
        if not isinstance(data, dict):
            return None
        png = data.get("image/png")
        if isinstance(png, str):
            try:
                self._images.append(picture(base64.b64decode(png)))
            except (binascii.Error, ValueError):
                raise ProtocolError("the box has sent an image/png that is no base64") from None
        return data.get("text/plain")


def _failed(content: Mapping[str, object]) -> ExecutionError:
    if content.get("status") == "aborted":
        return ExecutionError("Aborted: it was not run, because code that was sent before it has failed", "")
    lines = content.get("traceback")
    trace = "\n".join(str(line) for line in lines) if isinstance(lines, list) else ""
    return ExecutionError(plain(f"{content.get('ename', 'Unknown Error')}: {content.get('evalue', '')}"), trace)


class ExecutionClient:
    """A kernel of a container, from `async with` (or connect()) to its end (or disconnect()). Its variables stay from one execution to the next.

        async with ExecutionClient(port=container.executor_port) as client:
            print((await client.execute("6 * 7")).text)

    host: of a container on another machine; "gb:TOKEN@host" for one that wants a token. heartbeat_interval: seconds between pings, so that nobody
    on the way takes the connection for idle.
    """

    def __init__(self, port: int, host: str = "localhost", heartbeat_interval: float = 10) -> None:
        self.port = port
        self.host = host
        self._heartbeat_interval = heartbeat_interval
        self._kernel_id: Optional[str] = None
        self._http: Optional[Port] = None
        self._channel: Optional[Channel] = None

    async def __aenter__(self) -> ExecutionClient:
        await self.connect()
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.disconnect()

    @property
    def kernel_id(self) -> str:
        """ValueError if there is none."""
        if self._kernel_id is None:
            raise ValueError("Not connected to kernel")
        return self._kernel_id

    @property
    def base_http_url(self) -> str:
        return f"http://{self.host}:{self.port}/api/kernels"

    @property
    def kernel_http_url(self) -> str:
        return f"{self.base_http_url}/{self.kernel_id}"

    @property
    def kernel_ws_url(self) -> str:
        return f"ws://{self.host}:{self.port}/api/kernels/{self.kernel_id}/channels"

    # --- the kernel ---------------------------------------------------------------------------------------------------------

    async def connect(self, retries: int = 10, retry_interval: float = 1.0) -> None:
        """Starts a kernel. ConnectionError if nobody has answered after so many tries, or somebody has refused."""
        await self.disconnect()
        self._http = Port(self.host, self.port)
        try:
            self._kernel_id = await self._start(self._http, retries, retry_interval)
            self._channel = Channel(self._http, self._kernel_path("/channels"), self._heartbeat_interval)
            await self._channel.open()
            await self.execute(_ON_PATH)
        except BaseException:
            await self.disconnect()
            raise

    async def _start(self, http: Port, retries: int, retry_interval: float) -> str:
        why: Optional[GloveboxError] = None
        for _ in range(retries):
            try:
                return await _begin_kernel(http)
            except GloveboxError as e:
                why = e
                if isinstance(e, ApiError) and e.status < 500 and not isinstance(e, Retriable):
                    break  # it will say the same again
            await asyncio.sleep(retry_interval)
        raise ConnectionError(f"Failed to create kernel{': ' if why else ''}{why or ''}") from why

    async def disconnect(self) -> None:
        """Ends the kernel. Nothing happens if there is none, if the container has ended before, or in a process that was forked."""
        kernel, self._kernel_id = self._kernel_id, None
        channel, self._channel = self._channel, None
        http, self._http = self._http, None
        if http is not None and _owner.is_here(http.process):
            await io.finish(functools.partial(_end_kernel, http, kernel, channel), _END_S)

    async def _interrupt_kernel(self, seconds: float = _INTERRUPT_S) -> None:
        if self._http is None or self._kernel_id is None:
            return
        try:
            await self._http.call("POST", self._kernel_path("/interrupt"), b"{}", (JSON_TYPE,), timeout=seconds)
        except GloveboxError:
            pass  # what the caller waits for has failed in any case
        await asyncio.sleep(_SETTLE_S)

    def _kernel_path(self, more: str) -> str:
        return f"/api/kernels/{quoted(self.kernel_id)}{more}"

    # --- code ---------------------------------------------------------------------------------------------------------------

    async def execute(self, code: str, timeout: float = 120) -> ExecutionResult:
        """Runs it, and waits for its result. Exceptions as those of Execution.result()."""
        execution = await self.submit(code)
        return await execution.result(timeout=timeout)

    async def submit(self, code: str) -> Execution:
        """Runs it, behind what was sent before, and does not wait."""
        if self._http is not None:
            self._http.check()
        if self._channel is not None and self._channel.is_lost and self._http is not None:
            # The server was replaced, say. The kernel has not noticed.
            self._channel = Channel(self._http, self._kernel_path("/channels"), self._heartbeat_interval)
            try:
                await self._channel.open()
            except GloveboxError as e:
                raise ConnectionError(f"the connection to the kernel is over: {e}") from e
        execution = Execution(self, uuid.uuid4().hex)
        try:
            await self._connected().send(_request(code, execution.req_id))
        except ServerUnreachable as e:
            raise ConnectionError(str(e)) from e
        return execution

    def _connected(self) -> Channel:
        if self._channel is None:
            raise ConnectionError("Not connected to kernel")
        return self._channel


async def _begin_kernel(http: Port) -> str:
    """If its caller is cancelled meanwhile, there is none."""

    async def begin(seconds: float) -> str:
        answer = await http.answer("POST", "/api/kernels", {"name": "python"}, timeout=seconds)
        return _json.text(answer, "id")

    task = asyncio.ensure_future(begin(http.timeout))
    http.at_once = True
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        async def undo(seconds: float) -> None:
            try:
                await http.call("DELETE", f"/api/kernels/{quoted(await task)}", timeout=seconds)
            except GloveboxError:
                pass

        await io.finish(undo, _END_S)
        raise
    finally:
        http.at_once = False


async def _end_kernel(http: Port, kernel: Optional[str], channel: Optional[Channel], seconds: float) -> None:
    http.at_once = True
    if channel is not None:
        await channel.close()
    try:
        if kernel is not None:
            await http.call("DELETE", f"/api/kernels/{quoted(kernel)}", timeout=seconds)
    except GloveboxError:
        pass  # with its box it goes in any case
    await http.close()


def _request(code: str, request: str) -> Mapping[str, Union[str, Mapping[str, object]]]:
    return {
        "header": {"username": "", "version": "5.0", "session": "", "msg_id": request, "msg_type": "execute_request"},
        "parent_header": {},
        "channel": "shell",
        "content": {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False},
        "metadata": {},
        "buffers": {},
    }
