# SPDX-License-Identifier: Apache-2.0
"""What became of cells and commands."""
from __future__ import annotations

import base64
import binascii
import datetime
from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Tuple

from . import _json
from ._refusals import when
from .errors import ProtocolError
from .outputs import Output, output_of


@dataclass(frozen=True)
class RunFigures:
    """What it used: milliseconds, and of the largest process bytes."""

    wall_ms: int
    cpu_ms: int
    peak_memory_bytes: int


@dataclass(frozen=True)
class Truncated:
    """Whether something is missing: `limits.output_bytes` is how much is kept of each."""

    stdout: bool = False
    stderr: bool = False
    results: bool = False

    def __bool__(self) -> bool:
        return self.stdout or self.stderr or self.results


@dataclass(frozen=True)
class Failure:
    """What a cell raised. `traceback` has lines as IPython prints them, with colours: glovebox.plain() takes those away."""

    name: str
    value: str
    traceback: Tuple[str, ...]


@dataclass(frozen=True)
class CellInfo:
    """A cell without its output. `status` is queued, running, ok, error, timeout, interrupted, oom, crashed or cancelled."""

    id: str
    status: str
    kernel: str
    execution_count: Optional[int]
    error: Optional[Failure]
    #: Why the kernel before ended, if this cell began with another one: its variables were lost.
    kernel_restarted: Optional[str]
    #: The kernel ended with this cell, and its variables are lost. Files are not.
    state_lost: bool
    #: Where in the box all output is, if it was asked to spill.
    output_file: Optional[str]
    figures: Optional[RunFigures]
    #: The beginning of its code.
    summary: Optional[str]
    started: Optional[str] = field(repr=False)
    ended: Optional[str] = field(repr=False)

    @property
    def started_at(self) -> Optional[datetime.datetime]:
        return when(self.started)

    @property
    def ended_at(self) -> Optional[datetime.datetime]:
        return when(self.ended)

    @property
    def is_over(self) -> bool:
        return self.status not in ("queued", "running")


@dataclass(frozen=True)
class CellResult(CellInfo):
    """A cell with its output."""

    stdout: str = ""
    stderr: str = ""
    #: What it displayed, in order, and the value of its last expression.
    results: Tuple[Output, ...] = ()
    truncated: Truncated = Truncated()
    #: Of stdout and stderr, with binary=True.
    raw: Optional[Tuple[bytes, bytes]] = field(default=None, repr=False)

    @property
    def stdout_bytes(self) -> bytes:
        """All of them with binary=True; otherwise those of the text."""
        return self.stdout.encode("utf-8", "replace") if self.raw is None else self.raw[0]

    @property
    def stderr_bytes(self) -> bytes:
        return self.stderr.encode("utf-8", "replace") if self.raw is None else self.raw[1]

    def __repr__(self) -> str:
        return f"CellResult({self.id}, {self.status}, stdout={_begin(self.stdout)}, stderr={_begin(self.stderr)}, text={_begin(self.text)}, {len(self.results)} results)"

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def result(self) -> Optional[Output]:
        """The value of its last expression, if that was not None."""
        return next((one for one in reversed(self.results) if one.type == "result"), None)

    @property
    def text(self) -> str:
        """That value as text; empty if there is none."""
        value = self.result
        return "" if value is None else value.text

    @property
    def images(self) -> List[bytes]:
        """Its pictures, PNG or JPEG, in order."""
        return [image for image in (one.image for one in self.results) if image is not None]

    def show(self) -> None:
        """Opens its pictures in windows, by Pillow."""
        for one in self.results:
            if one.image is not None:
                one.show()


@dataclass(frozen=True)
class CommandInfo:
    """A command without its output. `status` is running, ok, error, timeout, cancelled, interrupted, oom or crashed."""

    id: str
    status: str
    exit_code: Optional[int]
    signal: Optional[int]
    #: Why it could not be started, or was ended.
    error: Optional[str]
    figures: Optional[RunFigures]
    #: The beginning of what was run.
    summary: Optional[str]
    started: Optional[str] = field(repr=False)
    ended: Optional[str] = field(repr=False)

    @property
    def started_at(self) -> Optional[datetime.datetime]:
        return when(self.started)

    @property
    def ended_at(self) -> Optional[datetime.datetime]:
        return when(self.ended)

    @property
    def is_over(self) -> bool:
        return self.status != "running"


@dataclass(frozen=True)
class CommandResult(CommandInfo):
    """A command with its output."""

    stdout: str = ""
    stderr: str = ""
    truncated: Truncated = Truncated()
    #: Of stdout and stderr, with binary=True.
    raw: Optional[Tuple[bytes, bytes]] = field(default=None, repr=False)

    @property
    def stdout_bytes(self) -> bytes:
        """All of them with binary=True; otherwise those of the text."""
        return self.stdout.encode("utf-8", "replace") if self.raw is None else self.raw[0]

    @property
    def stderr_bytes(self) -> bytes:
        return self.stderr.encode("utf-8", "replace") if self.raw is None else self.raw[1]

    def __repr__(self) -> str:
        return f"CommandResult({self.id}, {self.status}, exit_code={self.exit_code}, stdout={_begin(self.stdout)}, stderr={_begin(self.stderr)})"

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def _begin(text: str) -> str:
    return repr(text) if len(text) <= 120 else f"{text[:120]!r}… ({len(text)})"


# --- from JSON -----------------------------------------------------------------------------------------------------


def figures_of(o: Mapping[str, object]) -> Optional[RunFigures]:
    value = _json.member_or_none(o, "figures")
    if value is None:
        return None
    return RunFigures(_json.integer(value, "wall_ms"), _json.integer(value, "cpu_ms"), _json.integer(value, "peak_memory_bytes"))


def _truncated(o: Mapping[str, object]) -> Truncated:
    value = _json.member(o, "truncated")
    return Truncated(value.get("stdout") is True, value.get("stderr") is True, value.get("results") is True)


def _failure(o: Mapping[str, object]) -> Optional[Failure]:
    value = _json.member_or_none(o, "error")
    return None if value is None else Failure(_json.text(value, "name"), _json.text(value, "value"), _json.texts(value, "traceback"))


Raw = Optional[Tuple[bytes, bytes]]


def _streams(o: Mapping[str, object], binary: bool) -> Tuple[str, str, Raw]:
    stdout = _json.text(o, "stdout") if "stdout" in o else ""
    stderr = _json.text(o, "stderr") if "stderr" in o else ""
    if not binary:
        return stdout, stderr, None
    (out, out_bytes), (err, err_bytes) = decoded(stdout), decoded(stderr)
    return out, err, (out_bytes, err_bytes)


def decoded(said: str) -> Tuple[str, bytes]:
    try:
        data = base64.b64decode(said, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("output that was to be base64 and is none; is that a Glovebox server?") from None
    return data.decode("utf-8", "replace"), data


def cell_info(o: Mapping[str, object]) -> CellInfo:
    return CellInfo(
        _json.text(o, "id"), _json.text(o, "status"), _json.text(o, "kernel"), _json.integer_or_none(o, "execution_count"), _failure(o),
        _json.text_or_none(o, "kernel_restarted"), _json.boolean(o, "state_lost"), _json.text_or_none(o, "output_file"), figures_of(o),
        _json.text_or_none(o, "summary"), _json.text_or_none(o, "started_at"), _json.text_or_none(o, "ended_at"))


def cell_result(o: Mapping[str, object], binary: bool = False) -> CellResult:
    stdout, stderr, raw = _streams(o, binary)
    shown = tuple(output_of(one, _json.text(one, "type")) for one in _json.objects(o, "results")) if "results" in o else ()
    return CellResult(
        _json.text(o, "id"), _json.text(o, "status"), _json.text(o, "kernel"), _json.integer_or_none(o, "execution_count"), _failure(o),
        _json.text_or_none(o, "kernel_restarted"), _json.boolean(o, "state_lost"), _json.text_or_none(o, "output_file"), figures_of(o),
        _json.text_or_none(o, "summary"), _json.text_or_none(o, "started_at"), _json.text_or_none(o, "ended_at"),
        stdout, stderr, shown, _truncated(o), raw)


def command_info(o: Mapping[str, object]) -> CommandInfo:
    return CommandInfo(
        _json.text(o, "id"), _json.text(o, "status"), _json.integer_or_none(o, "exit_code"), _json.integer_or_none(o, "signal"),
        _json.text_or_none(o, "error"), figures_of(o), _json.text_or_none(o, "summary"), _json.text_or_none(o, "started_at"), _json.text_or_none(o, "ended_at"))


def command_result(o: Mapping[str, object], binary: bool = False) -> CommandResult:
    stdout, stderr, raw = _streams(o, binary)
    return CommandResult(
        _json.text(o, "id"), _json.text(o, "status"), _json.integer_or_none(o, "exit_code"), _json.integer_or_none(o, "signal"),
        _json.text_or_none(o, "error"), figures_of(o), _json.text_or_none(o, "summary"), _json.text_or_none(o, "started_at"), _json.text_or_none(o, "ended_at"),
        stdout, stderr, _truncated(o), raw)
