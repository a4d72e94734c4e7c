# SPDX-License-Identifier: Apache-2.0
"""What calls return: dicts with these keys, and no others."""
from __future__ import annotations

from typing import Literal, TypedDict, final


@final  # a type checker tells results from errors by `"stdout" in result`
class ExecutionResult(TypedDict):
    """It was run: `status` is "success" with exit code 0, "error" with any other."""

    status: Literal["success", "error"]
    stdout: str
    stderr: str
    exit_code: int
    execution_id: str


@final
class ExecutionError(TypedDict):
    """It could not be run to its end: no box, no time left."""

    status: Literal["error"]
    error: str
    error_type: str
    execution_id: str


@final
class InstallResult(TypedDict):
    status: Literal["success", "error"]
    stdout: str
    stderr: str
    exit_code: int


@final
class InstallError(TypedDict):
    status: Literal["error"]
    error: str
    error_type: str


@final
class UploadResult(TypedDict):
    status: Literal["success"]
    path: str
    size: int


@final
class UploadError(TypedDict):
    status: Literal["error"]
    error: str
    error_type: str


@final
class SessionStats(TypedDict):
    """`created_at` is a time of time.time(), `uptime` are seconds since then, `container_status` is running, exited or not_started."""

    session_id: str
    execution_count: int
    created_at: float
    uptime: float
    container_status: str


@final
class CleanupResult(TypedDict):
    status: Literal["success"]
    session_id: str


@final
class CleanupError(TypedDict):
    status: Literal["error"]
    error: str
    session_id: str
