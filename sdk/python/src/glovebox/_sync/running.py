# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/running.py: do not edit.
"""What runs in a box: cells and commands, waited for, followed, or left to themselves."""
from __future__ import annotations

import os
from typing import Callable, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, Union

from .. import _json
from .._fields import DEFAULT, Timeout, timeout_ms
from .._transport import blocking as io
from ..errors import GloveboxError, ServerTimeout
from ..events import CellEvent, Input
from ..results import CellInfo, CellResult, CommandInfo, CommandResult, cell_info, cell_result, command_info, command_result
from . import cells, commands
from .cells import Cell, CellStream
from .commands import Command, CommandStream
from .http import JSON_TYPE, Http

#: Answers to input(): lines, or a function that is asked for each. None, and the end of the lines, is EOFError.
Stdin = Union[str, Sequence[str], Callable[[Input], Optional[str]]]
OnEvent = Callable[[CellEvent], None]
OnDisconnect = Literal["continue", "interrupt"]
Argv = Union[str, Sequence[str]]

# How long a cell or command may say nothing before it is asked whether anybody is there; then it is waited for again.
SILENCE_S = 60.0


class Running:
    """The part of a box that runs something."""

    #: How much memory it may use, in bytes, once that is known.
    memory: Optional[int] = None

    def way(self) -> Tuple[Http, str]:
        """How to call, and the path of the box."""
        raise NotImplementedError

    # --- cells --------------------------------------------------------------------------------------------------------

    def run(self, code: str, *, kernel: str = "main", timeout: Timeout = DEFAULT, stdin: Optional[Stdin] = None, spill: bool = False,
            binary: bool = False, check: bool = True, on_event: Optional[OnEvent] = None) -> CellResult:
        """Runs Python, as IPython takes it, and waits for its end. Variables are kept from cell to cell.

        timeout: seconds from its start; None: as long as the box lives; the server's default unless said (120 s). stdin: answers to input().
        spill: output that is too long goes into a file of the box. binary: all bytes of stdout and stderr, in stdout_bytes and
        stderr_bytes. on_event: called with each event as it comes. check=False returns also what did not end well, instead of raising it.
        """
        fields = _cell(code, kernel, timeout, stdin is not None, spill, binary)
        if stdin is not None or on_event is not None:
            fields["stream"] = True
            return _talk(CellStream(self, start=_json.encode(fields, "a cell"), binary=binary, timeout=timeout), stdin, on_event, check)
        answer = self._run_to_end("/cells", _json.encode(fields, "a cell"), lambda row: _is_cell(row, code, kernel))
        return cells.checked(cell_result(answer, binary), check, timeout, self.memory)

    def stream(self, code: str, *, kernel: str = "main", timeout: Timeout = DEFAULT, stdin: bool = False, spill: bool = False,
               binary: bool = False, on_disconnect: OnDisconnect = "continue") -> CellStream:
        """The same, event by event; it begins when the first one is asked for. A lost connection is made anew, and goes on behind the last event.
        stdin: input() waits for stream.input()."""
        fields = _cell(code, kernel, timeout, stdin, spill, binary)
        fields.update(stream=True, on_disconnect=on_disconnect)
        return CellStream(self, start=_json.encode(fields, "a cell"), binary=binary, timeout=timeout)

    def start(self, code: str, *, kernel: str = "main", timeout: Timeout = DEFAULT, stdin: bool = False, spill: bool = False,
              binary: bool = False) -> Cell:
        """The same, begun and left to itself: wait(), events(), input() and cancel() of what comes back."""
        http, box = self.way()
        fields = _cell(code, kernel, timeout, stdin, spill, binary)
        fields["detach"] = True
        answer = http.answer("POST", f"{box}/cells", fields, key=_key())
        return Cell(self, _json.text(answer, "id"), binary=binary, timeout=timeout)

    def get_cell(self, id: str, *, binary: bool = False) -> Cell:
        """One that was started before, maybe by another program. binary: it was started so."""
        return Cell(self, id, binary=binary)

    def list_cells(self) -> List[CellInfo]:
        """Those that wait or run, and the last that have ended."""
        http, box = self.way()
        return [cell_info(row) for row in _json.objects(http.answer("GET", f"{box}/cells"), "cells")]

    # --- commands -----------------------------------------------------------------------------------------------------

    def command(self, argv: Argv, *, stdin: Union[str, None] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
                timeout: Timeout = DEFAULT, binary: bool = False, check: bool = True) -> CommandResult:
        """Runs a program with its arguments, or a text by `bash -c`, and waits for its end.

        stdin: fed to it. env: beside that of the box. cwd: where it begins. timeout: seconds, then it is killed; None: as long as the box
        lives; the server's default unless said (120 s). binary: all bytes of what it says. check=False: another exit code than 0 is no exception.
        """
        fields = _command(argv, stdin, False, env, cwd, timeout, binary)
        answer = self._run_to_end("/commands", _json.encode(fields, "a command"), lambda row: _is_command(row, argv))
        return commands.checked(command_result(answer, binary), check, timeout, self.memory)

    def sh(self, text: str, *, stdin: Union[str, None] = None, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None,
           timeout: Timeout = DEFAULT, binary: bool = False, check: bool = True) -> CommandResult:
        """command() of a text for `bash -c`."""
        return self.command(text, stdin=stdin, env=env, cwd=cwd, timeout=timeout, binary=binary, check=check)

    def stream_command(self, argv: Argv, *, stdin: Union[str, None] = None, stdin_open: bool = False, env: Optional[Mapping[str, str]] = None,
                       cwd: Optional[str] = None, timeout: Timeout = DEFAULT, binary: bool = False,
                       on_disconnect: OnDisconnect = "continue") -> CommandStream:
        """The same, event by event; it begins when the first one is asked for. stdin_open: more input comes by stream.write()."""
        fields = _command(argv, stdin, stdin_open, env, cwd, timeout, binary)
        fields.update(stream=True, on_disconnect=on_disconnect)
        return CommandStream(self, start=_json.encode(fields, "a command"), binary=binary, timeout=timeout)

    def start_command(self, argv: Argv, *, stdin: Union[str, None] = None, stdin_open: bool = False, env: Optional[Mapping[str, str]] = None,
                      cwd: Optional[str] = None, timeout: Timeout = DEFAULT, binary: bool = False) -> Command:
        """The same, begun and left to itself: wait(), events(), write(), signal() and cancel() of what comes back."""
        http, box = self.way()
        fields = _command(argv, stdin, stdin_open, env, cwd, timeout, binary)
        fields["detach"] = True
        answer = http.answer("POST", f"{box}/commands", fields, key=_key())
        return Command(self, _json.text(answer, "id"), binary=binary, timeout=timeout)

    def get_command(self, id: str, *, binary: bool = False) -> Command:
        """One that was started before, maybe by another program. binary: it was started so."""
        return Command(self, id, binary=binary)

    def list_commands(self) -> List[CommandInfo]:
        """Those that run, and the last that have ended."""
        http, box = self.way()
        return [command_info(row) for row in _json.objects(http.answer("GET", f"{box}/commands"), "commands")]

    # --- waiting --------------------------------------------------------------------------------------------------------

    def _run_to_end(self, kind: str, body: bytes, is_it: Callable[[_json.Object], bool]) -> _json.Object:
        """One request, whose answer comes when what it runs has ended. The key lets it be sent again: that waits for the same run."""
        http, box = self.way()
        path, key = box + kind, _key()
        try:
            while True:
                try:
                    reply = http.call("POST", path, body, (JSON_TYPE,), key=key, silence=SILENCE_S)
                    return _json.decode(reply.body, http.where("POST", path))
                except ServerTimeout:
                    # It runs for long, or nobody is there: then this says so.
                    http.call("GET", box, timeout=min(http.timeout, 20.0))
        except Exception:
            raise
        except BaseException:  # Ctrl-C, or its task is cancelled
            def end(seconds: float) -> None:
                _end_one(http, path, is_it, seconds)

            io.finish(end, 1.0)
            raise


def _key() -> str:
    return os.urandom(12).hex()


def _cell(code: str, kernel: str, timeout: Timeout, stdin: bool, spill: bool, binary: bool) -> Dict[str, object]:
    fields: Dict[str, object] = {"code": code}
    if kernel != "main":
        fields["kernel"] = kernel
    if timeout is not DEFAULT:
        fields.update(timeout_ms(timeout))
    if stdin:
        fields["stdin"] = True
    if spill:
        fields["spill"] = True
    if binary:
        fields["output_encoding"] = "base64"
    return fields


def _command(argv: Argv, stdin: Optional[str], stdin_open: bool, env: Optional[Mapping[str, str]], cwd: Optional[str], timeout: Timeout,
             binary: bool) -> Dict[str, object]:
    fields: Dict[str, object] = {"shell": argv} if isinstance(argv, str) else {"argv": list(argv)}
    if timeout is not DEFAULT:
        fields.update(timeout_ms(timeout))
    if stdin is not None:
        fields["stdin"] = stdin
    if stdin_open:
        fields["stdin_open"] = True
    if env is not None:
        fields["env"] = dict(env)
    if cwd is not None:
        fields["cwd"] = cwd
    if binary:
        fields["output_encoding"] = "base64"
    return fields


def _talk(stream: CellStream, stdin: Optional[Stdin], on_event: Optional[OnEvent], check: bool) -> CellResult:
    """Follows a cell to its end, and answers what it asks."""
    lines: Iterator[str] = iter(())
    if isinstance(stdin, str):
        lines = iter(stdin.splitlines())
    elif stdin is not None and not callable(stdin):
        lines = iter(stdin)
    try:
        for event in stream:
            if on_event is not None:
                io.call(on_event, event)
            if isinstance(event, Input):
                answer = io.call(stdin, event) if callable(stdin) else next(lines, None)
                if answer is None:
                    stream.cell.eof()
                else:
                    stream.input(answer)
    except BaseException:
        # Whoever should answer has failed, or nobody waits any more.
        if stream.id is not None:
            io.finish(stream.end, 1.0)
        raise
    finally:
        stream.close()
    return stream.result(check=check)


# --- what nobody waits for any more ----------------------------------------------------------------------------------


def _is_cell(row: _json.Object, code: str, kernel: str) -> bool:
    return row.get("status") in ("queued", "running") and row.get("kernel") == kernel and _begins(code, row)


def _is_command(row: _json.Object, argv: Argv) -> bool:
    return row.get("status") == "running" and _begins(argv if isinstance(argv, str) else " ".join(argv), row)


def _begins(text: str, row: _json.Object) -> bool:
    summary = row.get("summary")
    return isinstance(summary, str) and bool(summary) and text.startswith(summary) and (len(summary) == len(text) or len(summary.encode()) > 150)


def _end_one(http: Http, path: str, is_it: Callable[[_json.Object], bool], seconds: float) -> None:
    """Its id is not known, for its answer has not come. If exactly one is like it, that is it; of several none is touched."""
    try:
        rows = http.answer("GET", path, timeout=seconds)
        found = [row for row in _json.objects(rows, path.rpartition("/")[2]) if is_it(row)]
        if len(found) == 1:
            http.call("DELETE", f"{path}/{_json.text(found[0], 'id')}", timeout=seconds)
    except GloveboxError:
        pass
