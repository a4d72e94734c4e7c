# SPDX-License-Identifier: Apache-2.0
"""The way to one of the two servers of a container: ours, or those of ipybox itself."""
from __future__ import annotations

from typing import Optional

from ... import _address, _tls
from ..._async.client import ANSWER_MAX
from ..._async.http import AsyncHttp
from ..._async.wire import AsyncWire
from ..._transport.trouble import Refused, Trouble
from . import _routes

# Kernels begin and end, files go, packages with a server of MCP are fetched: all in one request each.
_CALL_S = 300.0


class Port(AsyncHttp):
    """Calls that say nothing of a server of Glovebox. While `at_once`, who does not listen is not waited for: the caller does that."""

    def __init__(self, host: str, port: int) -> None:
        route = _routes.find(host, port)
        address = _address.parse(route.url)
        token = route.token or address.token
        headers = [(b"authorization", b"Bearer " + token.encode())] if token else []
        context = _tls.context(address, True)
        super().__init__(address, AsyncWire(address, context), headers, _CALL_S, ANSWER_MAX, context, False, lambda: "")
        self.at_once = False

    def _pause(self, trouble: Trouble, attempt: int, until: float, repeatable: bool, method: str, path: str, timeout: Optional[float]) -> float:
        if self.at_once and isinstance(trouble, Refused):
            raise self.failed(trouble, method, path, timeout) from None
        return super()._pause(trouble, attempt, until, repeatable, method, path, timeout)

    async def close(self) -> None:
        self.closed = True
        await self.wire.close()
