# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/cells.py: do not edit.
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
from .http import Http, quoted
from .stream import Place, Stream, wait


class Cell:
    """A cell that was started. It goes on whether or not somebody waits for it."""

    def __init__(self, box: Place, id: str, *, binary: bool = False, timeout: Timeout = None) -> None:
        self.id = id
        self._box, self._binary, self._timeout = box, binary, timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def _way(self) -> Tuple[Http, str]:
        http, box = self._box.way()
        return http, f"{box}/cells/{quoted(self.id)}"

    def get(self) -> CellResult:
        """It as it is now, with its output so far."""
        http, path = self._way()
        return cell_result(http.answer("GET", path), self._binary)

    def wait(self, timeout: Optional[float] = None, *, check: bool = True) -> CellResult:
        """Its end. StillRunning after `timeout` seconds, after which it goes on all the same."""
        found = wait(self._box, "cell", self.id, timeout, _is_over)
        if found is None:
            raise StillRunning(f"the cell {self.id} has not ended after {timeout:g} s and goes on: wait() again, or cancel()")
        return checked(cell_result(found, self._binary), check, self._timeout, self._box.memory)

    def events(self, after: int = 0) -> CellStream:
        """Its events behind number `after`, from the first that is held unless said."""
        return CellStream(self._box, id=self.id, after=after, binary=self._binary, timeout=self._timeout)

    def input(self, text: str) -> None:
        """What input() returns that waits for it."""
        http, path = self._way()
        http.done("POST", f"{path}/input", {"text": text})

    def eof(self) -> None:
        """input() raises EOFError."""
        http, path = self._way()
        http.done("POST", f"{path}/input", {"eof": True})

    def cancel(self, grace: float = 5.0) -> None:
        """Interrupts it, or takes it out of the queue; after `grace` seconds its kernel is killed. Returns when it has ended."""
        http, path = self._way()
        http.call("DELETE", f"{path}?grace_ms={int(grace * 1000)}", timeout=grace + http.timeout)


class CellStream(Stream[CellEvent]):
    """Events of a cell. When they are over, result() has all of it."""

    def __init__(self, box: Place, *, start: Optional[bytes] = None, id: Optional[str] = None, after: int = 0, binary: bool = False,
                 timeout: Timeout = None) -> None:
        super().__init__(box, "cell", functools.partial(_event, binary), start=start, id=id, after=after)
        self._binary, self._timeout = binary, timeout

    def __enter__(self) -> CellStream:
        return self

    @property
    def cell(self) -> Cell:
        """The cell, from its first event on."""
        if self._id is None:
            raise GloveboxError("the cell has not begun: its first event has its id")
        return Cell(self._box, self._id, binary=self._binary, timeout=self._timeout)

    def input(self, text: str) -> None:
        """The answer to an Input event."""
        self.cell.input(text)

    def cancel(self, grace: float = 5.0) -> None:
        """Interrupts the cell; see Cell.cancel()."""
        self.cell.cancel(grace)

    def result(self, *, check: bool = True) -> CellResult:
        """The cell, when it has ended."""
        return self.cell.wait(check=check)


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
