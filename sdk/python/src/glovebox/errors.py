# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one hierarchy, and messages that say what, where, and what to do.

    GloveboxError
      NoServer            no private server could be started
      ServerUnreachable   nobody answers; ConnectionLost: somebody did, and then no more
      ServerTimeout       no answer within the caller's timeout
      ProtocolError       what answers is no Glovebox, or breaks its word
      StillRunning        what the caller waited for goes on
      TooLarge            more than the caller allows
      WrongProcess        a box of the process that this one was forked from
      Closed              used after its end, by this program
      BuildFailed         an environment could not be built
      UnsafeArchive       files from a box that must not be written here
      RunError            a cell or command did not end well: ExecutionError, CommandFailed, TimedOut, OutOfMemory,
                          Interrupted, Cancelled, Crashed
      ApiError            the server refuses: Unauthorized, Forbidden, NotFound, BoxGone, Conflict, InvalidRequest, NoSpace,
                          Busy, Unavailable, …

Everything in a message is plain: what came from a box or a server cannot act on the terminal that shows it.
"""
from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Optional, Union

if TYPE_CHECKING:
    from .results import CellResult, CommandResult


class GloveboxError(Exception):
    """The base of all of them."""


# --- the way to the server ------------------------------------------------------------------------------------


class NoServer(GloveboxError):
    """There is no private server, and none could be started."""


class ServerUnreachable(GloveboxError, ConnectionError):
    """Nobody answers at `url`."""

    url: str = ""


class ConnectionLost(ServerUnreachable):
    """The connection broke, and what was asked may have been done."""


class ServerTimeout(GloveboxError, TimeoutError):
    """No answer in the time that the caller gives it."""


class ProtocolError(GloveboxError):
    """What came is not what this API says: another program answers, or something between changes answers."""


class StillRunning(GloveboxError, TimeoutError):
    """The caller has waited long enough; what it waited for goes on."""


class TooLarge(GloveboxError):
    """More than the caller allows. The message says which argument raises it."""

    limit: int = 0


class WrongProcess(GloveboxError):
    """This process was forked from the one that the client or box belongs to."""


class Closed(GloveboxError):
    """The client, box, terminal or stream was closed by this program."""


class BuildFailed(GloveboxError):
    """An environment could not be built; `log` is the end of what pip said."""

    log: str = ""


class UnsafeArchive(GloveboxError):
    """An archive from a box has something that must not be written here; `member` is its name, plain."""

    member: str = ""


# --- what ran ----------------------------------------------------------------------------------------------------


class RunError(GloveboxError):
    """A cell or a command did not end well. `result` has all that is known of it, with its output."""

    result: Union[CellResult, CommandResult]
    #: Whether the variables of the kernel are lost. Files never are.
    state_lost: bool = False


class ExecutionError(RunError):
    """The code of a cell raised `name`, with the text `value`. `traceback` is plain text."""

    name: str = ""
    value: str = ""
    traceback: str = ""


class CommandFailed(RunError):
    """A command has ended with another exit code than 0, or could not be started (then it is None)."""

    exit_code: Optional[int] = None


class TimedOut(RunError, TimeoutError):
    """Its time was up. `state_lost` says whether the kernel had to be killed, and its variables with it."""

    timeout: Optional[float] = None


class OutOfMemory(RunError):
    """The kernel of the machine ended it for want of memory."""

    #: What the box may use, if that is known; the field of `limits` that raises it; what was used.
    limit_bytes: Optional[int] = None
    field: str = "limits.memory_bytes"
    peak_bytes: Optional[int] = None


class Interrupted(RunError):
    """Somebody interrupted it."""


class Cancelled(RunError):
    """It never began, or its kernel or box was ended under it."""


class Crashed(RunError):
    """Its process was ended by a signal, or ended itself under the cell."""

    signal: Optional[int] = None


# --- what the server says ------------------------------------------------------------------------------------------


class ApiError(GloveboxError):
    """The server refuses. `code` is for programs, docs/boxes.md lists them; `message`, `hint` and `field` are the server's."""

    status: int = 0
    code: str = ""
    message: str = ""
    field: Optional[str] = None
    hint: Optional[str] = None
    request_id: str = ""
    #: What was asked, "POST /v1/boxes", and where.
    call: str = ""
    url: str = ""
    #: All of the answer, if it was JSON.
    body: object = None


class Unauthorized(ApiError):
    """401: a token is needed, or this one is not known."""


class Forbidden(ApiError):
    """403: the user of the box may not do this with this file; or the server does not answer such clients."""


class NotFound(ApiError):
    """404: no such box, cell, command, kernel or port; or it is somebody else's."""


class FileMissing(NotFound, FileNotFoundError):
    """404: no such file in the box."""


class Conflict(ApiError):
    """409: something is in another state than the call needs."""


class NameTaken(Conflict):
    """409: a box of yours has this name; `box_id` is its id."""

    box_id: str = ""


class FileConflict(Conflict):
    """409: a directory where a file was meant, or the other way round; something is there, is not empty, or is in use."""


class FileExists(FileConflict, FileExistsError):
    """409: something has this name."""


class BoxGone(ApiError):
    """410: the box has ended: `reason` (ttl, idle, deleted, oom, restart, crashed), and when, if the server says so."""

    reason: str = ""
    when: Optional[datetime.datetime] = None


class AnswerGone(ApiError):
    """410: the cell or command was run, but what it answered is not held any more. `id`, and `run_status` if somebody knows."""

    id: str = ""
    run_status: Optional[str] = None


class PreconditionFailed(ApiError):
    """412: the file is not the one that was meant."""


class NoSpace(ApiError):
    """413: the box has no room for it, or the request is larger than the server takes."""


class InvalidRequest(ApiError):
    """400, 415, 416, 422: a value that is not understood. `field` says which."""


class Retriable(ApiError):
    """Nothing was done, and later it may be. `retry_after` are seconds, if the server says how many."""

    retry_after: Optional[float] = None


class Busy(Retriable):
    """429: too much of it at once."""


class Unavailable(Retriable):
    """503: no room, as many boxes as there may be, or a part of the server is not there."""


class ProgramUnreachable(ApiError):
    """502: nothing in the box listens on this port, or a tool's server cannot be used."""


class ServerError(ApiError):
    """Another 5xx: the fault is the server's."""
