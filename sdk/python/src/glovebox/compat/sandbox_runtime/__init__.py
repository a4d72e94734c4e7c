# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime's client and handler engine, with its names: docs/sandbox-runtime.md says what differs."""
from __future__ import annotations

from .sandbox.core.context import LambdaContext, create_context
from .sandbox.core.errors import ExitCode, NoAvailableSandboxError, SandboxException
from .sandbox.core.executor import LambdaSandboxExecutor, invoke
from .sandbox.core.result import ExecutionMetrics, StandardExecutionResult
from .sandbox.sandbox.async_instance import AsyncSandboxInstance
from .sandbox.sandbox.async_pool import AsyncSandboxPool
from .sandbox.sandbox.config import SandboxConfig
from .sdk.shared_env import SandboxError, SharedEnvSandbox

__all__ = [
    "AsyncSandboxInstance",
    "AsyncSandboxPool",
    "ExecutionMetrics",
    "ExitCode",
    "LambdaContext",
    "LambdaSandboxExecutor",
    "NoAvailableSandboxError",
    "SandboxConfig",
    "SandboxError",
    "SandboxException",
    "SharedEnvSandbox",
    "StandardExecutionResult",
    "create_context",
    "invoke",
]
