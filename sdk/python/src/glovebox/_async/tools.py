# SPDX-License-Identifier: Apache-2.0
"""Servers of MCP whose tools code in a box can call."""
from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Mapping, Optional

from .. import _json
from ..info import ToolServer

if TYPE_CHECKING:
    from .box import AsyncBox


class AsyncTools:
    """box.tools."""

    def __init__(self, box: AsyncBox) -> None:
        self._box = box

    async def add(self, server: str, params: Optional[Mapping[str, object]] = None, *, timeout: Optional[float] = None) -> ToolServer:
        """One of the operator's; or, with params ({"command", "args", "env"} or {"url", "headers"}), one of yours under this name, in a box of
        its own. See docs/mcp.md."""
        fields: Dict[str, object] = {"server": server} if params is None else {"server": server, "params": dict(params)}
        http, box = await self._box.way()
        found = await http.answer("POST", f"{box}/tools", fields, timeout=timeout)
        return ToolServer(_json.text(found, "server"), _json.text(found, "package"), _json.texts(found, "tools"))
