# SPDX-License-Identifier: Apache-2.0
"""RayAI's sandbox, with its names, as plain calls: docs/rayai.md says what differs."""
from __future__ import annotations

from .sandbox import (
    CleanupError,
    CleanupResult,
    ExecutionError,
    ExecutionResult,
    SessionStats,
    UploadError,
    UploadResult,
    cleanup_session,
    execute_code,
    execute_shell,
    get_session_stats,
    upload_file,
)

__all__ = [
    "CleanupError",
    "CleanupResult",
    "ExecutionError",
    "ExecutionResult",
    "SessionStats",
    "UploadError",
    "UploadResult",
    "cleanup_session",
    "execute_code",
    "execute_shell",
    "get_session_stats",
    "upload_file",
]
