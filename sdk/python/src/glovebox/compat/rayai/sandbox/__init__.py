# SPDX-License-Identifier: Apache-2.0
"""What `from rayai.sandbox import …` has."""
from __future__ import annotations

from .tools import cleanup_session, execute_code, execute_shell, get_session_stats, upload_file
from .types import CleanupError, CleanupResult, ExecutionError, ExecutionResult, InstallError, InstallResult, SessionStats, UploadError, UploadResult

__all__ = [
    "CleanupError",
    "CleanupResult",
    "ExecutionError",
    "ExecutionResult",
    "InstallError",
    "InstallResult",
    "SessionStats",
    "UploadError",
    "UploadResult",
    "cleanup_session",
    "execute_code",
    "execute_shell",
    "get_session_stats",
    "upload_file",
]
