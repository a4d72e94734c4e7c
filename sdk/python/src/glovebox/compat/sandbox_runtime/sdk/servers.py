# SPDX-License-Identifier: Apache-2.0
"""Which server has a session: one that was named and is healthy, the same for all programs; or a private one."""
from __future__ import annotations

import asyncio
import hashlib
import os
from typing import Dict, List, Optional, Sequence, Tuple

from glovebox import _json
from glovebox._async.client import AsyncClient
from glovebox._async.http import REFUSAL_MAX, Reply
from glovebox._text import plain
from glovebox._transport.patience import Patience
from glovebox._transport.trouble import Trouble
from glovebox.errors import GloveboxError

#: Where a program that names no server finds one.
DEFAULT_HOST, DEFAULT_PORT = "localhost", 8899
HEALTHY = "/workspace/se/healthy"
_HEALTH_S = 10.0
_CONNECT_S = 1.0


async def choose(session_id: str, servers: Sequence[str], timeout: float) -> Tuple[Optional[AsyncClient], Dict[str, str]]:
    """A client of the server that has this session; None if no server is healthy, and why each is not.

    Of several the one with the largest digest of itself and the session: other programs choose the same, and a server that is gone moves only
    the sessions that it had.
    """
    named = True
    if not servers:
        url = os.environ.get("GLOVEBOX_URL")
        if not url and not await _somebody_listens():
            return AsyncClient(timeout=timeout), {}
        named = bool(url)
        servers = [url or f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"]
    found = await asyncio.gather(*(_trouble(url, named) for url in servers))
    healthy = [url for url, trouble in zip(servers, found) if trouble is None]
    if not healthy and not named:  # something else listens there
        return AsyncClient(timeout=timeout), {}
    if not healthy:
        return None, {shown(url): trouble or "" for url, trouble in zip(servers, found)}
    return _client(max(healthy, key=lambda url: _weight(url, session_id)), timeout, named), {}


def _client(url: str, timeout: float, named: bool) -> AsyncClient:
    client = AsyncClient(url, timeout=timeout)
    if not named:
        client._token = ""  # whoever listens there has not been given it
    return client


def shown(url: str) -> str:
    """Without the token that may be in it."""
    before, at, behind = url.rpartition("@")
    return url if not at else f"{before.partition('://')[0]}://{behind}"


def _weight(url: str, session_id: str) -> bytes:
    return hashlib.sha256(f"{shown(url).rstrip('/')}\0{session_id}".encode("utf-8", "surrogatepass")).digest()


async def _trouble(url: str, named: bool) -> Optional[str]:
    """Why this server cannot be used, or None."""
    try:
        client = _client(url, _HEALTH_S, named)
    except GloveboxError as e:
        return plain(str(e))
    try:
        http = await client.http()
        patience = Patience(_HEALTH_S)
        try:  # once: another server may be there
            exchange = await http._begin("GET", HEALTHY, None, (), None, patience)
            reply = Reply(exchange.status, exchange.headers, await http.read(exchange, patience, REFUSAL_MAX))
        except Trouble as e:
            return str(http.failed(e, "GET", HEALTHY))
        if reply.status != 200:
            return str(http.refused("GET", HEALTHY, reply))
        answer = _json.decode(reply.body, http.where("GET", HEALTHY))
    except GloveboxError as e:
        return plain(str(e))
    finally:
        await client.close()
    return None if unwrapped(answer).get("status") == "success" else f"it says {plain(str(answer))[:200]}, and not that it is healthy"


async def _somebody_listens() -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(DEFAULT_HOST, DEFAULT_PORT), _CONNECT_S)
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    return True


def unwrapped(answer: _json.Object) -> _json.Object:
    """What servers of either generation mean: the members at the top, or those of `result`."""
    inner = answer.get("result")
    return inner if isinstance(inner, dict) else answer


def listed(servers: object) -> List[str]:
    if servers is None:
        return []
    if isinstance(servers, str) or not isinstance(servers, (list, tuple)) or not all(isinstance(one, str) for one in servers):
        raise ValueError(f"servers is {servers!r}, and should be a list of addresses: [\"http://127.0.0.1:9101\"]")
    return list(servers)
