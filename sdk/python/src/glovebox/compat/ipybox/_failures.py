# SPDX-License-Identifier: Apache-2.0
"""Programs of ipybox catch exceptions of aiohttp. Where that is installed, ours are such, too."""
from __future__ import annotations

import http
import importlib
from typing import Any, Dict, Optional, Tuple, Type

from ...errors import ApiError, GloveboxError, ServerTimeout, ServerUnreachable


def _aiohttp() -> Any:
    try:
        return importlib.import_module("aiohttp")
    except ImportError:
        return None


_made: Dict[Tuple[Type[GloveboxError], Type[Exception]], Type[GloveboxError]] = {}


def _both(kind: Type[GloveboxError], theirs: Type[Exception]) -> Type[GloveboxError]:
    """An exception that is caught by either name, and says what ours says."""
    if (kind, theirs) not in _made:
        _made[kind, theirs] = _twin(kind, theirs)
    return _made[kind, theirs]


def _twin(kind: Type[GloveboxError], theirs: Type[Exception]) -> Type[GloveboxError]:
    return type(kind.__name__, (kind, theirs), {"__module__": kind.__module__, "__init__": Exception.__init__, "__str__": Exception.__str__,
                                                "__repr__": Exception.__repr__})


def translated(error: GloveboxError) -> GloveboxError:
    """What ipybox would have raised, which is still ours."""
    aiohttp = _aiohttp()
    if aiohttp is None:
        return error
    if isinstance(error, ApiError):
        return _refused(error, aiohttp)
    for ours, theirs in ((ServerTimeout, aiohttp.ServerTimeoutError), (ServerUnreachable, aiohttp.ClientConnectionError)):
        if isinstance(error, ours):
            return _both(type(error), theirs)(str(error))
    return error


def _refused(error: ApiError, aiohttp: Any) -> GloveboxError:
    made = _both(type(error), aiohttp.ClientResponseError)(str(error))
    state: Dict[str, object] = {**vars(error), "message": _phrase(error.status), "history": (), "headers": None, "request_info": _request(error)}
    made.__dict__.update(state)
    return made


def _request(error: ApiError) -> Optional[object]:
    method, _, path = error.call.partition(" ")
    try:
        url = importlib.import_module("yarl").URL(error.url + path)
        return importlib.import_module("aiohttp").RequestInfo(url, method, {}, url)  # type: ignore[no-any-return]
    except Exception:  # of another version of it
        return None


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""
