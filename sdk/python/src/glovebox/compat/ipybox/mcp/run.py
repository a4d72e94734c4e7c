# SPDX-License-Identifier: Apache-2.0
"""Calls a tool of an MCP server, by a connection of its own. Needs the package `mcp`."""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib
from typing import Any, AsyncIterator, Mapping, Optional, Tuple

__all__ = ["mcp_client", "run_async", "run_sync"]


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ImportError(f"{name} is needed to speak to MCP servers: pip install 'glovebox[ipybox]' ({e})") from e


def _connection(server_params: Mapping[str, object]) -> Any:
    """A context manager of `mcp` that gives streams."""
    if "command" in server_params:
        return _module("mcp.client.stdio").stdio_client(_module("mcp").StdioServerParameters(**server_params))
    if "url" not in server_params:
        raise ValueError(f'Neither a "command" nor a "url" key in server_params: {sorted(server_params)}')
    url, kind = str(server_params["url"]), server_params.get("type")
    more = {key: value for key, value in server_params.items() if key not in ("url", "type")}
    if kind == "streamable_http" or (kind != "sse" and "/mcp" in url):
        return _module("mcp.client.streamable_http").streamablehttp_client(url, **more)
    if kind == "sse" or "/sse" in url:
        return _module("mcp.client.sse").sse_client(url, **more)
    raise ValueError(f'Unable to determine MCP client type from URL: {url}; "/mcp" or "/sse" in it tells, or "type": "streamable_http" or "sse"')


@contextlib.asynccontextmanager
async def mcp_client(server_params: Mapping[str, object]) -> AsyncIterator[Tuple[object, object]]:
    """Two streams, for mcp.ClientSession: of a server with "command", which is started here, or of one with "url"."""
    async with _connection(server_params) as (read, write, *_):
        yield read, write


async def run_async(tool_name: str, params: Mapping[str, object], server_params: Mapping[str, object], connect_timeout: float = 5) -> Optional[str]:
    """Its answer, if that is one text; else None. An exception with that text if the tool says that it failed."""
    async with mcp_client(server_params) as (read, write), _module("mcp").ClientSession(read, write) as session:
        await asyncio.wait_for(session.initialize(), connect_timeout)
        result = await session.call_tool(tool_name, arguments=dict(params))
    content = result.content
    if len(content) != 1 or getattr(content[0], "type", None) != "text":
        return None
    text = str(content[0].text)
    if result.isError:
        raise Exception(text)  # as ipybox has it
    return text


def run_sync(tool_name: str, params: Mapping[str, object], server_params: Mapping[str, object], connect_timeout: float = 5) -> Optional[str]:
    """The same for who does not await; also where an event loop runs, which stands still meanwhile."""

    def run() -> Optional[str]:
        return asyncio.run(run_async(tool_name, params, server_params, connect_timeout))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()
