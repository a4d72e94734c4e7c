# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/kernels.py: do not edit.
"""Kernels: Pythons of a box, each with variables of its own."""
from __future__ import annotations

from typing import Optional, TYPE_CHECKING

from .. import _json
from .._fields import DEFAULT, Timeout
from ..info import Completion, Inspection, IsComplete, KernelInfo, kernel_info
from ..results import CellResult
from .cells import Cell, CellStream
from .http import quoted
from .running import OnDisconnect, OnEvent, Stdin

if TYPE_CHECKING:
    from .box import Box


class Kernel:
    """One kernel of a box. It is started with its first cell."""

    def __init__(self, box: Box, name: str) -> None:
        self._box = box
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._box!r}>"

    def run(self, code: str, *, timeout: Timeout = DEFAULT, stdin: Optional[Stdin] = None, spill: bool = False, binary: bool = False,
            check: bool = True, on_event: Optional[OnEvent] = None) -> CellResult:
        """box.run() in this kernel."""
        return self._box.run(code, kernel=self.name, timeout=timeout, stdin=stdin, spill=spill, binary=binary, check=check, on_event=on_event)

    def stream(self, code: str, *, timeout: Timeout = DEFAULT, stdin: bool = False, spill: bool = False, binary: bool = False,
               on_disconnect: OnDisconnect = "continue") -> CellStream:
        """box.stream() in this kernel."""
        return self._box.stream(code, kernel=self.name, timeout=timeout, stdin=stdin, spill=spill, binary=binary, on_disconnect=on_disconnect)

    def start(self, code: str, *, timeout: Timeout = DEFAULT, stdin: bool = False, spill: bool = False, binary: bool = False) -> Cell:
        """box.start() in this kernel."""
        return self._box.start(code, kernel=self.name, timeout=timeout, stdin=stdin, spill=spill, binary=binary)

    def interrupt(self) -> None:
        """KeyboardInterrupt for the cell that it runs."""
        http, box = self._box.way()
        http.done("POST", f"{box}/interrupt", {"kernel": self.name})

    def restart(self) -> None:
        """Ends it and starts it anew: variables are lost, cells that run or wait are cancelled."""
        http, box = self._box.way()
        http.done("POST", f"{box}/restart", {"kernel": self.name})

    def delete(self) -> None:
        """Ends it. A cell that names it later starts another one."""
        http, box = self._box.way()
        http.done("DELETE", f"{box}/kernels/{quoted(self.name)}")

    def info(self) -> KernelInfo:
        http, box = self._box.way()
        return kernel_info(http.answer("GET", f"{box}/kernels/{quoted(self.name)}"))

    def complete(self, code: str, cursor: Optional[int] = None) -> Completion:
        """How the code could go on at `cursor` (a character; its end unless said)."""
        http, box = self._box.way()
        found = http.answer("POST", f"{box}/complete", {"code": code, "cursor": cursor, "kernel": self.name})
        return Completion(_json.texts(found, "matches"), _json.integer(found, "start"), _json.integer(found, "end"))

    def is_complete(self, code: str) -> IsComplete:
        """Whether it is a whole cell."""
        http, box = self._box.way()
        found = http.answer("POST", f"{box}/is_complete", {"code": code, "kernel": self.name})
        return IsComplete(_json.text(found, "status"), _json.text_or_none(found, "indent"))

    def inspect(self, code: str, cursor: Optional[int] = None, *, detail: int = 0) -> Inspection:
        """What stands at `cursor`; detail=1: with its source."""
        http, box = self._box.way()
        found = http.answer("POST", f"{box}/inspect", {"code": code, "cursor": cursor, "kernel": self.name, "detail": detail})
        return Inspection(_json.boolean(found, "found"), _json.member(found, "data"))
