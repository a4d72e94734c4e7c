# SPDX-License-Identifier: Apache-2.0
"""A pool of sandboxes: a private server with the limits of the pool's configuration, whose boxes wait ready for handlers.

What waits is fresh: a sandbox runs one handler, and another one takes its place. At most pool_size are given out at once, by turns. The server ends
with shutdown(), or with the program, in whatever way that ends. A process that was forked has no part in it.
"""
from __future__ import annotations

import asyncio
import collections
import time
from typing import Deque, Dict, Optional

from glovebox import _server
from glovebox._async.client import AsyncClient
from glovebox._async.http import AsyncHttp
from glovebox._transport import aio as io
from glovebox.errors import Unavailable

from ..core.errors import NoAvailableSandboxError
from .async_instance import AsyncSandboxInstance
from .config import SandboxConfig

_MOST = 1024
_READY_S = 30.0


class AsyncSandboxPool:
    def __init__(self, pool_size: int = 5, config: Optional[SandboxConfig] = None) -> None:
        if not isinstance(pool_size, int) or isinstance(pool_size, bool) or not 1 <= pool_size <= _MOST:
            raise ValueError(f"pool_size is {pool_size!r}, and should be a whole number from 1 to {_MOST}")
        self.pool_size = pool_size
        self.config = SandboxConfig() if config is None else config
        self.is_running = False
        self._client: Optional[AsyncClient] = None
        self._starting = io.Lock()
        self._was_shut_down = False
        # Those that are given out, and the loop whose task has each.
        self._busy: Dict[AsyncSandboxInstance, asyncio.AbstractEventLoop] = {}
        self._waiting: Deque[asyncio.Future[AsyncSandboxInstance]] = collections.deque()

    # --- its life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Until sandboxes can be had. What stands against that is raised: a pool that has started works."""
        async with self._starting:
            if self.is_running:
                return
            size = str(self.pool_size)
            settings = [*self.config.settings(), ("pool-size", size), ("pool-max", str(max(128, self.pool_size))), ("max-concurrent-executions", size),
                        ("max-boxes", str(max(256, 2 * self.pool_size + 8)))]
            client = AsyncClient._apart(settings)
            try:
                await _until_ready(await client.http())
            except BaseException:
                await client.close()
                raise
            self._client, self.is_running, self._was_shut_down = client, True, False

    async def shutdown(self) -> None:
        """Ends the server with all its boxes, also with those in which something runs. Who waits for a sandbox is told."""
        client = self._forget()
        if client is not None:
            await client.close()

    def shutdown_now(self) -> None:
        """The same for who cannot wait for it."""
        client = self._forget()
        if client is not None:
            client._closed = True
            server, client._server = client._server, None
            if client._http is not None:
                client._http.closed = True
            if server is not None:
                _server.release(server)

    def _forget(self) -> Optional[AsyncClient]:
        client, self._client = self._client, None
        self.is_running, self._was_shut_down = False, True
        self._busy.clear()
        waiting, self._waiting = self._waiting, collections.deque()
        for one in waiting:
            if not one.done() and not one.get_loop().is_closed():
                one.set_exception(NoAvailableSandboxError("the pool was shut down"))
        return client

    async def http(self) -> AsyncHttp:
        if self._client is None:
            raise self._not_running()
        return await self._client.http()

    def _not_running(self) -> NoAvailableSandboxError:
        return NoAvailableSandboxError("the pool was shut down: start() it again" if self._was_shut_down else "the pool was not started: await pool.start()")

    @property
    def was_shut_down(self) -> bool:
        return self._was_shut_down

    # --- sandboxes ----------------------------------------------------------------------------------------------------

    async def acquire(self, timeout: float = 10.0) -> AsyncSandboxInstance:
        """A sandbox, for who asked first. NoAvailableSandboxError: none was free in `timeout` seconds."""
        if not self.is_running:
            raise self._not_running()
        loop = asyncio.get_running_loop()
        # Tasks of a loop that was closed do not come back to release what they had.
        for one in [one for one, owner in self._busy.items() if owner.is_closed()]:
            del self._busy[one]
        if len(self._busy) < self.pool_size:
            return self._give(loop)
        place: asyncio.Future[AsyncSandboxInstance] = loop.create_future()
        timer = loop.call_later(timeout, self._too_late, place, timeout)
        self._waiting.append(place)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                await self.release(place.result())
            raise
        finally:
            timer.cancel()
            if place in self._waiting:
                self._waiting.remove(place)

    async def release(self, sandbox: AsyncSandboxInstance) -> None:
        """It is gone, and the next one is free. A second time does nothing."""
        if self._busy.pop(sandbox, None) is None:
            return
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done() and not place.get_loop().is_closed():
                place.set_result(self._give(place.get_loop()))
                return

    def has(self, sandbox: AsyncSandboxInstance) -> bool:
        return sandbox in self._busy

    async def get_stats(self) -> Dict[str, object]:
        busy = len(self._busy)
        return {"pool_size": self.pool_size, "idle_count": self.pool_size - busy if self.is_running else 0, "busy_count": busy, "is_running": self.is_running}

    def _give(self, loop: asyncio.AbstractEventLoop) -> AsyncSandboxInstance:
        sandbox = AsyncSandboxInstance(self.config, self)
        self._busy[sandbox] = loop
        return sandbox

    def _too_late(self, place: asyncio.Future[AsyncSandboxInstance], timeout: float) -> None:
        if not place.done():
            place.set_exception(NoAvailableSandboxError(
                f"none of the pool's {self.pool_size} sandboxes was free in {timeout:g} s: release() them, or make it larger: AsyncSandboxPool(pool_size=…)"))


async def _until_ready(http: AsyncHttp) -> None:
    until = time.monotonic() + _READY_S
    while True:
        try:
            await http.call("GET", "/ready", timeout=5.0)
            return
        except Unavailable:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(0.05)
