# SPDX-License-Identifier: Apache-2.0
"""Calls handlers in the sandboxes of a pool."""
from __future__ import annotations

import time
from typing import Dict, Mapping, Optional

from glovebox import _json
from glovebox._text import plain
from glovebox.errors import GloveboxError, InvalidRequest

from ..sandbox.async_instance import AsyncSandboxInstance
from ..sandbox.async_pool import AsyncSandboxPool
from .context import LambdaContext
from .errors import ExitCode, SandboxException
from .result import ExecutionMetrics, StandardExecutionResult

_ACQUIRE_S = 5.0


class LambdaSandboxExecutor:
    """A pool that was not started is started with the first call. shutdown() ends it."""

    def __init__(self, pool: Optional[AsyncSandboxPool] = None) -> None:
        self.pool = AsyncSandboxPool() if pool is None else pool

    async def invoke(self, handler_code: str, event: Mapping[str, object], context_kwargs: Optional[Mapping[str, object]] = None) -> StandardExecutionResult:
        """Calls handler(event) or handler(event, context) of the code. What goes wrong is in the result: exit_code, and stderr, which says what to do."""
        begun = time.monotonic()
        try:
            return await self._invoke(handler_code, event, context_kwargs or {})
        except SandboxException as e:
            code, why = e.exit_code, e.message
        except InvalidRequest as e:
            code, why = ExitCode.JSON_SERIALIZATION_ERROR, str(e)
        except GloveboxError as e:
            code, why = ExitCode.SYSTEM_ERROR, str(e)
        return StandardExecutionResult(int(code), "", f"System error: {plain(why)}\n", None, ExecutionMetrics(duration_ms=(time.monotonic() - begun) * 1000))

    async def _invoke(self, code: str, event: Mapping[str, object], context: Mapping[str, object]) -> StandardExecutionResult:
        if not isinstance(code, str):
            raise SandboxException(f"handler_code is {type(code).__name__}, and should be a text", ExitCode.CODE_LOAD_ERROR)
        if not self.pool.is_running and not self.pool.was_shut_down:
            await self.pool.start()
        sandbox = await self.pool.acquire(timeout=_ACQUIRE_S)
        try:
            answer = await sandbox.execute({"handler_code": code, "event": event, "context": {**_context(sandbox, event), **context}})
        finally:
            await self.pool.release(sandbox)
        return _result(answer)

    def shutdown(self) -> None:
        """Ends the pool, with what runs in it."""
        self.pool.shutdown_now()


def _context(sandbox: AsyncSandboxInstance, event: Mapping[str, object]) -> Dict[str, object]:
    """That of a caller who says nothing: time and memory are those that the handler has."""
    limit = sandbox.time_of(event) if isinstance(event, dict) else 0
    return LambdaContext(remaining_time_in_millis=int(limit * 1000), memory_limit_in_mb=sandbox.memory_kib // 1024).to_dict()


def _result(answer: _json.Object) -> StandardExecutionResult:
    said = _json.member_or_none(answer, "metrics") or {}
    figures = [float(value) if isinstance(value, (int, float)) else 0.0 for value in (said.get(name) for name in ("duration_ms", "memory_peak_mb", "cpu_time_ms"))]
    return StandardExecutionResult(_json.integer(answer, "exit_code"), _json.text(answer, "stdout"), _json.text(answer, "stderr"), answer.get("result"),
                                   ExecutionMetrics(*figures))


async def invoke(handler_code: str, event: Mapping[str, object], context_kwargs: Optional[Mapping[str, object]] = None) -> StandardExecutionResult:
    """One call, by a pool of its own: who makes several keeps an executor."""
    executor = LambdaSandboxExecutor(AsyncSandboxPool(pool_size=1))
    try:
        return await executor.invoke(handler_code, event, context_kwargs)
    finally:
        await executor.pool.shutdown()
