# SPDX-License-Identifier: Apache-2.0
"""From what a server answers to the exception that says it."""
from __future__ import annotations

import datetime
from typing import Dict, Mapping, Optional, Type

from . import errors
from ._text import clipped, plain

_BY_CODE: Dict[str, Type[errors.ApiError]] = {
    "unauthorized": errors.Unauthorized,
    "name_taken": errors.NameTaken,
    "exists": errors.FileExists,
    "not_a_directory": errors.FileConflict,
    "is_a_directory": errors.FileConflict,
    "not_empty": errors.FileConflict,
    "busy": errors.FileConflict,
    "other_file_system": errors.FileConflict,
    "gone": errors.BoxGone,
    "answer_gone": errors.AnswerGone,
    "program": errors.ProgramUnreachable,
    "tool_server": errors.ProgramUnreachable,
}

_BY_STATUS: Dict[int, Type[errors.ApiError]] = {
    400: errors.InvalidRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.AnswerGone,
    412: errors.PreconditionFailed,
    413: errors.NoSpace,
    415: errors.InvalidRequest,
    416: errors.InvalidRequest,
    422: errors.InvalidRequest,
    429: errors.Busy,
    502: errors.ProgramUnreachable,
    503: errors.Unavailable,
}

# Where the server leaves it to the client to know.
_WHAT_TO_DO = {
    "unauthorized": "give the right one: token=…, or GLOVEBOX_TOKEN",
    "wrong_host": "ask it by a name that is in its allowed_host",
    "forwarded": "a proxy in front of it needs a server with tokens",
    "saturated": "try again later, or give it more time: timeout=…",
    "unschedulable": "`glovebox doctor` on its machine says what is missing",
    "wrong_state": "it is being made, or is ending: try again, or make another box",
    "no_space": "delete something, or make a box with a larger limits.workspace_bytes",
    "body_too_large": "send less at once; files go by box.files.write()",
}

_MOST = 4000


def text_of(body: Mapping[str, object], key: str) -> Optional[str]:
    value = body.get(key)
    return plain(value[:_MOST]) if isinstance(value, str) else None


def when(text: object) -> Optional[datetime.datetime]:
    """A time of RFC 3339, or None if it is none."""
    if not isinstance(text, str) or len(text) > 40:
        return None
    try:
        return datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        return None


def _of_dialect(detail: object) -> Mapping[str, object]:
    """What other APIs of the same server have in `detail`: a text, an object, or a list of what is wrong with a body."""
    if isinstance(detail, str):
        return {"message": detail}
    if isinstance(detail, list):
        problems = [one for one in detail[:4] if isinstance(one, dict)]
        places = [".".join(str(part) for part in loc if part != "body") if isinstance(loc, list) else "" for loc in (one.get("loc") for one in problems)]
        return {"message": "; ".join(f"{place}: {one.get('msg')}" if place else str(one.get("msg")) for place, one in zip(places, problems))}
    if not isinstance(detail, dict):
        return {}
    parts = [part for part in (detail.get("message"), detail.get("description"), detail.get("detail"), detail.get("error_detail")) if isinstance(part, str) and part]
    return {"code": detail.get("error_code") or detail.get("type"), "message": ": ".join(parts), "hint": detail.get("solution")}


def refusal(status: int, body: object, *, call: str, url: str, retry_after: Optional[float]) -> errors.ApiError:
    """What a status from 400 on means. `body` is the JSON of the answer, or None if it had none."""
    said: Mapping[str, object] = {}
    if isinstance(body, dict):
        inner = body.get("error")
        said = inner if isinstance(inner, dict) else {}
        said = said or _of_dialect(body.get("detail"))
    code = text_of(said, "code") or ""
    message = text_of(said, "message") or f"the server answers {status}"
    field = text_of(said, "field")
    hint = text_of(said, "hint") or _WHAT_TO_DO.get(code)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or (errors.ServerError if status >= 500 else errors.ApiError)
    if code == "not_found" and field == "path":
        kind = errors.FileMissing
    reason, ended = text_of(said, "reason"), when(said.get("ended_at"))
    if ended is not None:
        message += f" at {ended:%Y-%m-%d %H:%M:%S} UTC"
    parts = [message]
    if field is not None and field not in message:
        parts.append(f"field: {field}")
    if hint is not None:
        parts.append(hint)
    if retry_after is not None:
        parts.append(f"the server says: again in {retry_after:g} s")
    request_id = text_of(said, "request_id") or ""
    where = f"{call} at {url}" + (f", request {request_id}" if request_id else "")
    error = kind(clipped("; ".join(parts), _MOST) + f" [{where}]")
    error.status, error.code, error.message, error.field, error.hint = status, code, message, field, hint
    error.request_id, error.call, error.url, error.body = request_id, call, url, body
    if isinstance(error, errors.Retriable):
        error.retry_after = retry_after
    elif isinstance(error, errors.NameTaken):
        error.box_id = text_of(said, "id") or ""
    elif isinstance(error, errors.BoxGone):
        error.reason, error.when = reason or "", ended
    elif isinstance(error, errors.AnswerGone):
        error.id, error.run_status = text_of(said, "id") or "", text_of(said, "status")
    return error
