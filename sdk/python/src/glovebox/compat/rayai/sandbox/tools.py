# SPDX-License-Identifier: Apache-2.0
"""The calls. With Ray they are remote functions; here each is called as it is, and returns what ray.get() would."""
from __future__ import annotations

import time
import uuid
from typing import Callable, Mapping, NoReturn, Optional, Sequence, TypeVar, Union

from glovebox._text import plain
from glovebox.errors import GloveboxError
from glovebox.results import CellResult, CommandResult

from . import outcome, sessions
from .config import DEFAULT_IMAGE, DEFAULT_TIMEOUT
from .types import CleanupError, CleanupResult, ExecutionError, ExecutionResult, SessionStats, UploadError, UploadResult
from .wishes import Volumes, Wish

F = TypeVar("F", bound=Callable[..., object])

_RUNS = ("creating", "ready", "busy", "paused")


def remotable(function: F) -> F:
    """The place where Ray comes in: until then .remote() says what to do instead."""

    def remote(*_: object, **__: object) -> NoReturn:
        name = function.__name__
        raise NotImplementedError(f"{name}.remote(…) needs Ray, which is not supported yet: call {name}(…), which returns what ray.get() would")

    setattr(function, "remote", remote)
    return function


@remotable
def execute_code(code: str, session_id: Optional[str] = None, image: str = DEFAULT_IMAGE, dockerfile: Optional[str] = None,
                 environment: Optional[Mapping[str, str]] = None, volumes: Optional[Volumes] = None, mcp_allowlist: Optional[Sequence[str]] = None,
                 timeout: float = DEFAULT_TIMEOUT) -> Union[ExecutionResult, ExecutionError]:
    """Runs Python in the session, which keeps variables, functions, imports and files. Without a session_id its box ends with the call.

    The first call of a session decides on image, environment, volumes and mcp_allowlist. timeout: seconds; then it is ended.
    """
    return _run("", code, session_id, Wish(image, dockerfile, environment, volumes, mcp_allowlist), timeout)


@remotable
def execute_shell(command: str, session_id: Optional[str] = None, image: str = DEFAULT_IMAGE, dockerfile: Optional[str] = None,
                  environment: Optional[Mapping[str, str]] = None, volumes: Optional[Volumes] = None, mcp_allowlist: Optional[Sequence[str]] = None,
                  timeout: float = DEFAULT_TIMEOUT) -> Union[ExecutionResult, ExecutionError]:
    """Runs a text by `sh -c` in the same box, with the same files."""
    return _run("shell_", command, session_id, Wish(image, dockerfile, environment, volumes, mcp_allowlist), timeout)


def _run(prefix: str, text: str, session_id: Optional[str], wish: Wish, timeout: float) -> Union[ExecutionResult, ExecutionError]:
    one = sessions.session(f"session-{uuid.uuid4().hex[:8]}-{int(time.time())}" if session_id is None else session_id)
    execution_id = f"{one.id}_{prefix}{one.next_number()}"
    try:
        box = one.box(wish)
        if box is None:
            return outcome.error("the session was cleaned up meanwhile", "RuntimeError", execution_id)
        run: Union[CellResult, CommandResult]
        if prefix:
            run = box.command(["sh", "-c", text], timeout=timeout, check=False)
            return outcome.of_command(run, timeout, box.memory, execution_id)
        run = box.run(text, timeout=timeout, check=False)
        return outcome.of_cell(run, timeout, box.memory, execution_id)
    except (ValueError, GloveboxError) as e:
        said = plain(str(e))
        if isinstance(e, GloveboxError) and sessions.gone(one, e):
            said += f"; what the session {plain(one.id)} had is lost, and the next call with its id begins anew"
        return outcome.error(said, type(e).__name__, execution_id)
    finally:
        if session_id is None and sessions.forget(one):
            try:
                one.end()
            except GloveboxError:  # it is ended by its time, or with this program
                pass


@remotable
def upload_file(path: str, content: bytes, session_id: str) -> Union[UploadResult, UploadError]:
    """Puts a file into the session; directories on the way are made. A path without a slash in front is below /workspace."""
    one = sessions.find(session_id)
    if one is None:
        raise ValueError(f"Session {session_id} not found. Execute code first to create session.")
    try:
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise TypeError(f"the content is {type(content).__name__}, and should be bytes")
        box = one.box(None)
        if box is None:
            raise ValueError(f"Session {session_id} has no box yet. Execute code first to create session.")
        box.files.write(path, bytes(content))
    except (ValueError, TypeError, GloveboxError) as e:
        said = plain(str(e))
        if isinstance(e, GloveboxError) and sessions.gone(one, e):
            said += "; what the session had is lost"
        return {"status": "error", "error": said, "error_type": type(e).__name__}
    return {"status": "success", "path": path, "size": len(content)}


@remotable
def get_session_stats(session_id: str) -> SessionStats:
    one = sessions.find(session_id)
    if one is None:
        raise ValueError(f"Session {session_id} not found")
    try:
        box = one.box(None)
        status = "not_started" if box is None else "running" if box.info().state in _RUNS else "exited"
    except GloveboxError:
        status = "exited"
    return {"session_id": session_id, "execution_count": one.count, "created_at": one.created_at, "uptime": time.time() - one.created_at, "container_status": status}


@remotable
def cleanup_session(session_id: str) -> Union[CleanupResult, CleanupError]:
    """Ends the session, with what runs in it: nothing of it is left when this returns."""
    one = sessions.find(session_id)
    if one is None or not sessions.forget(one):
        return {"status": "error", "error": f"Session {session_id} not found", "session_id": session_id}
    try:
        one.end()
    except GloveboxError as e:
        return {"status": "error", "error": plain(str(e)), "session_id": session_id}
    return {"status": "success", "session_id": session_id}
