# SPDX-License-Identifier: Apache-2.0
"""Untrusted Python and shell in sealed boxes: a client of Glovebox.

    import glovebox

    with glovebox.Box() as box:
        print(box.run("1 + 1").text)

Box and Client block; AsyncBox and AsyncClient are the same for asyncio. Nothing that comes from a box is executed.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, List

from ._extract import Downloaded
from ._fields import DEFAULT
from ._text import plain
from ._version import __version__
from .errors import (
    AnswerGone,
    ApiError,
    BoxGone,
    BuildFailed,
    Busy,
    Cancelled,
    Closed,
    CommandFailed,
    Conflict,
    ConnectionLost,
    Crashed,
    ExecutionError,
    FileConflict,
    FileExists,
    FileMissing,
    Forbidden,
    GloveboxError,
    Interrupted,
    InvalidRequest,
    NameTaken,
    NoServer,
    NoSpace,
    NotFound,
    OutOfMemory,
    PreconditionFailed,
    ProgramUnreachable,
    ProtocolError,
    Retriable,
    RunError,
    ServerError,
    ServerTimeout,
    ServerUnreachable,
    StillRunning,
    TimedOut,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnsafeArchive,
    WrongProcess,
)
from .outputs import Output
from .results import CellResult, CommandResult

if TYPE_CHECKING:
    from ._async.box import AsyncBox
    from ._async.client import AsyncClient
    from ._sync.box import Box
    from ._sync.client import Client

# Who uses one form does not wait for the other to be imported: asyncio is larger than all of this.
_FORMS = {"AsyncBox": "._async.box", "AsyncClient": "._async.client", "Box": "._sync.box", "Client": "._sync.client"}


def __getattr__(name: str) -> object:
    if name not in _FORMS:
        raise AttributeError(f"module 'glovebox' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_FORMS[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return __all__


__all__ = [
    "AnswerGone",
    "ApiError",
    "AsyncBox",
    "AsyncClient",
    "Box",
    "BoxGone",
    "BuildFailed",
    "Busy",
    "Cancelled",
    "CellResult",
    "Client",
    "Closed",
    "CommandFailed",
    "CommandResult",
    "Conflict",
    "ConnectionLost",
    "Crashed",
    "DEFAULT",
    "Downloaded",
    "ExecutionError",
    "FileConflict",
    "FileExists",
    "FileMissing",
    "Forbidden",
    "GloveboxError",
    "Interrupted",
    "InvalidRequest",
    "NameTaken",
    "NoServer",
    "NoSpace",
    "NotFound",
    "OutOfMemory",
    "Output",
    "PreconditionFailed",
    "ProgramUnreachable",
    "ProtocolError",
    "Retriable",
    "RunError",
    "ServerError",
    "ServerTimeout",
    "ServerUnreachable",
    "StillRunning",
    "TimedOut",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "UnsafeArchive",
    "WrongProcess",
    "__version__",
    "plain",
]
