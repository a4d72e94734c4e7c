# SPDX-License-Identifier: Apache-2.0
"""What became of a cell or command, as RayAI tells it."""
from __future__ import annotations

import re
from typing import Optional, Tuple, Union

from glovebox._outcome import cell_error, command_error
from glovebox._text import plain, size
from glovebox.results import CellResult, CommandResult

from .types import ExecutionError, ExecutionResult

_KILLED_BY = 128
_SIGKILL = 9
# What IPython says to sys.exit().
_EXIT_WARNING = re.compile(r"^[^\n]*UserWarning: To exit: use 'exit', 'quit', or Ctrl-D\.\n[^\n]*\n", re.M)
_STATUS = re.compile(r"ended with status ([0-9]{1,3})")
_SIGNAL = re.compile(r"signal ([0-9]{1,2})")
_RAISE_IT = "MEMORY_LIMIT of glovebox.compat.rayai.sandbox.config gives new sessions more"

Result = Union[ExecutionResult, ExecutionError]


def result(stdout: str, stderr: str, exit_code: int, execution_id: str) -> ExecutionResult:
    return {"status": "error" if exit_code else "success", "stdout": stdout, "stderr": stderr, "exit_code": exit_code, "execution_id": execution_id}


def error(text: str, kind: str, execution_id: str) -> ExecutionError:
    return {"status": "error", "error": text, "error_type": kind, "execution_id": execution_id}


def of_cell(cell: CellResult, timeout: float, memory: Optional[int], execution_id: str) -> Result:
    stdout, stderr = _whole(cell)
    kept = "its variables are lost, files are not" if cell.state_lost else "variables and files are kept"
    if cell.status == "ok":
        return result(stdout, stderr, 0, execution_id)
    if cell.status == "timeout":
        return error(f"Execution timed out after {timeout:g} seconds: it was ended, {kept}; timeout=… gives it more", "TimeoutError", execution_id)
    if cell.status == "error" and cell.error is not None:
        if cell.error.name == "SystemExit":
            return _exited(cell.error.value, stdout, _EXIT_WARNING.sub("", stderr), execution_id)
        traceback = plain("\n".join(cell.error.traceback)) or f"{plain(cell.error.name)}: {plain(cell.error.value)}"
        return result(stdout, _line(stderr, traceback), 1, execution_id)
    if cell.status == "oom":
        return result(stdout, _line(stderr, f"{_memory(cell, memory)}; {kept}; {_RAISE_IT}"), _KILLED_BY + _SIGKILL, execution_id)
    if cell.status == "crashed":
        why = plain(cell.error.value) if cell.error is not None else ""
        status, signal = _STATUS.search(why), _SIGNAL.search(why)
        exit_code = int(status[1]) if status else _KILLED_BY + int(signal[1]) if signal else 1
        return result(stdout, _line(stderr, f"{why or 'the interpreter ended'}: {kept}"), exit_code, execution_id)
    failure = cell_error(cell, timeout, memory)
    return error(str(failure), type(failure).__name__, execution_id)


def of_command(command: CommandResult, timeout: float, memory: Optional[int], execution_id: str) -> Result:
    stdout, stderr = _whole(command)
    if command.status == "timeout":
        return error(f"Shell execution timed out after {timeout:g} seconds: it was killed, files are kept; timeout=… gives it more", "TimeoutError", execution_id)
    if command.status == "oom":
        return result(stdout, _line(stderr, f"{_memory(command, memory)}; variables and files are kept; {_RAISE_IT}"), _KILLED_BY + _SIGKILL, execution_id)
    if command.exit_code is not None:
        return result(stdout, stderr, command.exit_code, execution_id)
    if command.signal is not None:
        return result(stdout, _line(stderr, f"ended by signal {command.signal}"), _KILLED_BY + command.signal, execution_id)
    failure = command_error(command, timeout, memory)
    return error(str(failure), type(failure).__name__, execution_id)


def _exited(value: str, stdout: str, stderr: str, execution_id: str) -> ExecutionResult:
    """sys.exit(): a number is the exit code, nothing is 0, what else is said goes to stderr."""
    if value in ("", "None"):
        return result(stdout, stderr, 0, execution_id)
    if re.fullmatch(r"-?[0-9]{1,9}", value):
        return result(stdout, stderr, int(value) & 255, execution_id)
    return result(stdout, _line(stderr, value), 1, execution_id)


def _memory(run: Union[CellResult, CommandResult], memory: Optional[int]) -> str:
    said = "killed: out of memory"
    if memory is not None:
        said += f"; the session may use {size(memory)}"
    if run.figures is not None and run.figures.peak_memory_bytes:
        said += f", its largest process had {size(run.figures.peak_memory_bytes)}"
    return said


def _line(text: str, more: str) -> str:
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{more.rstrip(chr(10))}\n"


def _whole(run: Union[CellResult, CommandResult]) -> Tuple[str, str]:
    """Both streams; it is said of one that is not all."""
    return (run.stdout + "\n...[truncated]" * run.truncated.stdout, run.stderr + "\n...[truncated]" * run.truncated.stderr)
