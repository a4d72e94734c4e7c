# SPDX-License-Identifier: Apache-2.0
"""Cells: Python that runs in a kernel of a box, which keeps its variables."""
from __future__ import annotations

import functools
from typing import Mapping, Optional, Tuple

from .. import _json
from .._fields import Timeout, timeout_s
from .._outcome import cell_error
from ..errors import GloveboxError, StillRunning
from ..events import CellEvent, cell_event
from ..results import CellResult, cell_result
from .http import AsyncHttp, quoted
from .stream import AsyncPlace, AsyncStream, wait


class AsyncCell:
    """A cell that was started. It goes on whether or not somebody waits for it."""

    def __init__(self, box: AsyncPlace, id: str, *, binary: bool = False, timeout: Timeout = None) -> None:
        self.id = id
        self._box, self._binary, self._timeout = box, binary, timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def _way(self) -> Tuple[AsyncHttp, str]:
        http, box = await self._box.way()
        return http, f"{box}/cells/{quoted(self.id)}"

    async def get(self) -> CellResult:
        """It as it is now, with its output so far."""
        http, path = await self._way()
        return cell_result(await http.answer("GET", path), self._binary)

    async def wait(self, timeout: Optional[float] = None, *, check: bool = True) -> CellResult:
        """Its end. StillRunning after `timeout` seconds, after which it goes on all the same."""
        found = await wait(self._box, "cell", self.id, timeout, _is_over)
        if found is None:
            raise StillRunning(f"the cell {self.id} has not ended after {timeout:g} s and goes on: wait() again, or cancel()")
        return checked(cell_result(found, self._binary), check, self._timeout, self._box.memory)

    def events(self, after: int = 0) -> AsyncCellStream:
        """Its events behind number `after`, from the first that is held unless said."""
        return AsyncCellStream(self._box, id=self.id, after=after, binary=self._binary, timeout=self._timeout)

    async def input(self, text: str) -> None:
        """What input() returns that waits for it."""
        http, path = await self._way()
        await http.done("POST", f"{path}/input", {"text": text})

    async def eof(self) -> None:
        """input() raises EOFError."""
        http, path = await self._way()
        await http.done("POST", f"{path}/input", {"eof": True})

    async def cancel(self, grace: float = 5.0) -> None:
        """Interrupts it, or takes it out of the queue; after `grace` seconds its kernel is killed. Returns when it has ended."""
        http, path = await self._way()
        await http.call("DELETE", f"{path}?grace_ms={int(grace * 1000)}", timeout=grace + http.timeout)


class AsyncCellStream(AsyncStream[CellEvent]):
    """Events of a cell. When they are over, result() has all of it."""

    def __init__(self, box: AsyncPlace, *, start: Optional[bytes] = None, id: Optional[str] = None, after: int = 0, binary: bool = False,
                 timeout: Timeout = None) -> None:
        super().__init__(box, "cell", functools.partial(_event, binary), start=start, id=id, after=after)
        self._binary, self._timeout = binary, timeout

    async def __aenter__(self) -> AsyncCellStream:
        return self

    @property
    def cell(self) -> AsyncCell:
        """The cell, from its first event on."""
        if self._id is None:
            raise GloveboxError("the cell has not begun: its first event has its id")
        return AsyncCell(self._box, self._id, binary=self._binary, timeout=self._timeout)

    async def input(self, text: str) -> None:
        """The answer to an Input event."""
        await self.cell.input(text)

    async def cancel(self, grace: float = 5.0) -> None:
        """Interrupts the cell; see AsyncCell.cancel()."""
        await self.cell.cancel(grace)

    async def result(self, *, check: bool = True) -> CellResult:
        """The cell, when it has ended."""
        return await self.cell.wait(check=check)


def _event(binary: bool, name: str, data: Mapping[str, object]) -> CellEvent:
    return cell_event(name, data, binary)


def _is_over(o: _json.Object) -> bool:
    return o.get("status") not in ("queued", "running")


def checked(result: CellResult, check: bool, timeout: Timeout, memory: Optional[int]) -> CellResult:
    if check:
        error = cell_error(result, timeout_s(timeout), memory)
        if error is not None:
            raise error
    return result
