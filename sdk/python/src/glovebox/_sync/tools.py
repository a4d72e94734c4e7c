# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/tools.py: do not edit.
"""Servers of MCP whose tools code in a box can call."""
from __future__ import annotations

from typing import Dict, Mapping, Optional, TYPE_CHECKING

from .. import _json
from ..info import ToolServer

if TYPE_CHECKING:
    from .box import Box


class Tools:
    """box.tools."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def add(self, server: str, params: Optional[Mapping[str, object]] = None, *, timeout: Optional[float] = None) -> ToolServer:
        """One of the operator's; or, with params ({"command", "args", "env"} or {"url", "headers"}), one of yours under this name, in a box of
        its own. See docs/mcp.md."""
        fields: Dict[str, object] = {"server": server} if params is None else {"server": server, "params": dict(params)}
        http, box = self._box.way()
        found = http.answer("POST", f"{box}/tools", fields, timeout=timeout)
        return ToolServer(_json.text(found, "server"), _json.text(found, "package"), _json.texts(found, "tools"))
