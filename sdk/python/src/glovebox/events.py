# SPDX-License-Identifier: Apache-2.0
"""What a cell or a command says while it runs. `kind` tells them apart, for people and for type checkers:

    for event in box.stream("print(1); 2"):
        if event.kind == "stdout":
            print(event.text, end="")
"""
from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Literal, Mapping, Optional, Tuple, Union

from . import _json
from ._refusals import when
from .outputs import Output, output_of
from .results import CellInfo, CommandInfo, Failure, cell_info, command_info, decoded


@dataclass(frozen=True)
class Event:
    """seq: its number, without holes that no Gap tells of. t_ms: since the start."""

    seq: int
    t_ms: int


@dataclass(frozen=True)
class Start(Event):
    """Its first event."""

    started_at: Optional[datetime.datetime]
    kind: Literal["start"] = field(default="start", init=False, repr=False)


@dataclass(frozen=True)
class Stdout(Event):
    """Whole characters; with binary=True all bytes, in `data`."""

    text: str
    raw: Optional[bytes] = field(default=None, repr=False)
    kind: Literal["stdout"] = field(default="stdout", init=False, repr=False)

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8", "replace") if self.raw is None else self.raw


@dataclass(frozen=True)
class Stderr(Event):
    text: str
    raw: Optional[bytes] = field(default=None, repr=False)
    kind: Literal["stderr"] = field(default="stderr", init=False, repr=False)

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8", "replace") if self.raw is None else self.raw


@dataclass(frozen=True)
class Display(Event):
    """Something was shown: display(), a figure."""

    output: Output
    kind: Literal["display"] = field(default="display", init=False, repr=False)


@dataclass(frozen=True)
class Update(Event):
    """What has its display_id is now this."""

    output: Output
    kind: Literal["update"] = field(default="update", init=False, repr=False)


@dataclass(frozen=True)
class Result(Event):
    """The value of the last expression."""

    output: Output
    kind: Literal["result"] = field(default="result", init=False, repr=False)


@dataclass(frozen=True)
class Clear(Event):
    """clear_output(). wait: only when something new comes."""

    wait: bool
    kind: Literal["clear"] = field(default="clear", init=False, repr=False)


@dataclass(frozen=True)
class Error(Event):
    """The cell raised this."""

    error: Failure
    kind: Literal["error"] = field(default="error", init=False, repr=False)


@dataclass(frozen=True)
class Input(Event):
    """input() waits for an answer: stream.input(text). password: it is not to be shown."""

    prompt: str
    password: bool
    kind: Literal["input"] = field(default="input", init=False, repr=False)


@dataclass(frozen=True)
class Comm(Event):
    """A message of a widget, as Jupyter has it. buffers: in base64."""

    type: str
    content: Mapping[str, object]
    metadata: Mapping[str, object]
    buffers: Tuple[str, ...]
    kind: Literal["comm"] = field(default="comm", init=False, repr=False)


@dataclass(frozen=True)
class Gap(Event):
    """Events from `first` to `last` are not held any more. What they said is in the result, as far as it is kept."""

    first: int
    last: int
    kind: Literal["gap"] = field(default="gap", init=False, repr=False)


@dataclass(frozen=True)
class End(Event):
    """It is over. A cell's threads and children may still say something behind it."""

    info: CellInfo
    kind: Literal["end"] = field(default="end", init=False, repr=False)


@dataclass(frozen=True)
class CommandEnd(Event):
    """It is over."""

    info: CommandInfo
    kind: Literal["end"] = field(default="end", init=False, repr=False)


@dataclass(frozen=True)
class Other(Event):
    """One that this version does not know."""

    name: str
    data: Mapping[str, object]
    kind: Literal["other"] = field(default="other", init=False, repr=False)


CellEvent = Union[Start, Stdout, Stderr, Display, Update, Result, Clear, Error, Input, Comm, Gap, End, Other]
CommandEvent = Union[Start, Stdout, Stderr, Gap, CommandEnd, Other]


def _common(name: str, o: Mapping[str, object], binary: bool) -> Union[Start, Stdout, Stderr, Gap, Other]:
    seq, t_ms = _json.integer(o, "seq"), _json.integer(o, "t_ms")
    if name in ("stdout", "stderr"):
        said = _json.text(o, "data")
        text, data = decoded(said) if binary else (said, None)
        return Stdout(seq, t_ms, text, data) if name == "stdout" else Stderr(seq, t_ms, text, data)
    if name == "start":
        return Start(seq, t_ms, when(o.get("started_at")))
    if name == "gap":
        return Gap(seq, t_ms, _json.integer(o, "from"), _json.integer(o, "to"))
    return Other(seq, t_ms, name, o)


def cell_event(name: str, o: Mapping[str, object], binary: bool) -> CellEvent:
    event = _common(name, o, binary)
    if not isinstance(event, Other):
        return event
    seq, t_ms = event.seq, event.t_ms
    if name == "result":
        return Result(seq, t_ms, output_of(o, "result"))
    if name == "end":
        return End(seq, t_ms, cell_info(o))
    if name == "display":
        return Display(seq, t_ms, output_of(o, "display"))
    if name == "update":
        return Update(seq, t_ms, output_of(o, "update"))
    if name == "error":
        return Error(seq, t_ms, Failure(_json.text(o, "name"), _json.text(o, "value"), _json.texts(o, "traceback")))
    if name == "clear":
        return Clear(seq, t_ms, _json.boolean(o, "wait"))
    if name == "input":
        return Input(seq, t_ms, _json.text(o, "prompt"), _json.boolean(o, "password"))
    if name == "comm":
        metadata = _json.member(o, "metadata") if "metadata" in o else {}
        return Comm(seq, t_ms, _json.text(o, "type"), _json.member(o, "content"), metadata, _json.texts(o, "buffers") if "buffers" in o else ())
    return event


def command_event(name: str, o: Mapping[str, object], binary: bool) -> CommandEvent:
    event = _common(name, o, binary)
    if isinstance(event, Other) and name == "end":
        return CommandEnd(event.seq, event.t_ms, command_info(o))
    return event
