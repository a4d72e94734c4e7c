# SPDX-License-Identifier: Apache-2.0
"""How a handler can end."""
from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Besides, 124 and 137 are those of an interpreter that was killed: for its time, for its memory."""

    SUCCESS = 0
    CODE_LOAD_ERROR = 1
    HANDLER_EXECUTION_ERROR = 2
    JSON_SERIALIZATION_ERROR = 3
    NO_AVAILABLE_SANDBOX = 4
    EXECUTION_TIMEOUT = 5
    SYSTEM_ERROR = 6
    EMPTY_CODE = 7

    @classmethod
    def get_description(cls, code: int) -> str:
        return _DESCRIPTIONS.get(code, "unknown")


_DESCRIPTIONS = {
    0: "it returned",
    1: "the code does not load: a syntax error, an exception, or no function 'handler'",
    2: "the handler raised",
    3: "the event or the result is not JSON",
    4: "no sandbox was free",
    5: "its time was over",
    6: "the sandbox failed, or the interpreter ended without a result",
    7: "there is no code",
    124: "its time was over",
    137: "it was killed, most likely for want of memory",
}


class SandboxException(Exception):
    def __init__(self, message: str, exit_code: int = ExitCode.SYSTEM_ERROR) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class CodeLoadError(SandboxException):
    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.CODE_LOAD_ERROR)


class HandlerExecutionError(SandboxException):
    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.HANDLER_EXECUTION_ERROR)


class TimeoutError(SandboxException):
    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.EXECUTION_TIMEOUT)


class NoAvailableSandboxError(SandboxException):
    def __init__(self, message: str = "no sandbox of the pool is free") -> None:
        super().__init__(message, ExitCode.NO_AVAILABLE_SANDBOX)
