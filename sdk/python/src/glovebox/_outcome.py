# SPDX-License-Identifier: Apache-2.0
"""The exception for a cell or command that did not end well: what happened, what is lost, and what to do."""
from __future__ import annotations

from typing import Optional, Union

from . import errors
from ._text import clipped, plain, size
from .results import CellResult, CommandResult, Failure

_TRACEBACK_MAX = 6000
_STDERR_MAX = 2000


def _kept(result: CellResult) -> str:
    if result.state_lost:
        return "the kernel went with it: its variables are lost, files are not"
    return "variables and files are kept"


def _seconds(timeout: Optional[float]) -> str:
    return "" if timeout is None else f" after {timeout:g} s"


def _out_of_memory(result: Union[CellResult, CommandResult], what: str, limit: Optional[int], lost: str) -> errors.OutOfMemory:
    peak = None if result.figures is None else result.figures.peak_memory_bytes
    said = [f"{what} was killed for want of memory"]
    if limit is not None:
        said.append(f"the box may use {size(limit)} ({limit} bytes)")
    if peak:
        said.append(f"its largest process had {size(peak)}")
    if lost:
        said.append(lost)
    said.append("make the box with more: limits={\"memory_bytes\": …}")
    error = errors.OutOfMemory("; ".join(said))
    error.limit_bytes, error.peak_bytes = limit, peak
    return error


def cell_error(result: CellResult, timeout: Optional[float], memory: Optional[int]) -> Optional[errors.RunError]:
    """None: it ended well, or has not ended. timeout and memory: what it was allowed, if that is known."""
    error: errors.RunError
    failure = result.error or Failure("", "", ())
    if result.status in ("ok", "queued", "running"):
        return None
    if result.status == "error":
        name, value = plain(failure.name), plain(failure.value)
        traceback = plain("\n".join(failure.traceback))
        raised = errors.ExecutionError(f"{name}: {clipped(value, _STDERR_MAX)}" + (f"\n\n{clipped(traceback, _TRACEBACK_MAX)}" if traceback else ""))
        raised.name, raised.value, raised.traceback = name, value, traceback
        error = raised
    elif result.status == "timeout":
        late = errors.TimedOut(f"the cell was interrupted{_seconds(timeout)}: {_kept(result)}; run(…, timeout=…) gives it more time, None all that the box has")
        late.timeout = timeout
        error = late
    elif result.status == "oom":
        error = _out_of_memory(result, "the kernel", memory, _kept(result))
    elif result.status == "interrupted":
        error = errors.Interrupted(f"the cell was interrupted: {_kept(result)}")
    elif result.status == "cancelled":
        error = errors.Cancelled(f"the cell was cancelled: {plain(failure.value) or 'its kernel was ended or restarted'}; {_kept(result)}")
    else:
        error = errors.Crashed(f"the kernel ended under the cell ({plain(failure.value) or result.status}): {_kept(result)}; the next cell starts another")
    error.result, error.state_lost = result, result.state_lost
    return error


def command_error(result: CommandResult, timeout: Optional[float], memory: Optional[int]) -> Optional[errors.RunError]:
    error: errors.RunError
    if result.status in ("ok", "running"):
        return None
    summary = plain((result.summary or "the command").strip().partition("\n")[0])[:200]
    if result.status == "error":
        if result.exit_code is None:
            said = f"the command could not be started: {plain(result.error or 'nobody says why')} [{summary}]"
        else:
            said = f"the command has ended with exit code {result.exit_code} [{summary}]"
            last = plain(result.stderr.strip() or result.stdout.strip())
            said += f"\n{clipped(last, _STDERR_MAX)}" if last else ""
        failed = errors.CommandFailed(said)
        failed.exit_code = result.exit_code
        error = failed
    elif result.status == "timeout":
        late = errors.TimedOut(f"the command was killed{_seconds(timeout)}; timeout=… gives it more time, None all that the box has [{summary}]")
        late.timeout = timeout
        error = late
    elif result.status == "oom":
        error = _out_of_memory(result, "the command", memory, "")
    elif result.status == "interrupted":
        error = errors.Interrupted(f"the command was interrupted [{summary}]")
    elif result.status == "cancelled":
        error = errors.Cancelled(f"the command was cancelled{': ' + plain(result.error) if result.error else ''} [{summary}]")
    else:
        crashed = errors.Crashed(f"the command was ended by signal {result.signal} [{summary}]")
        crashed.signal = result.signal
        error = crashed
    error.result = result
    return error
