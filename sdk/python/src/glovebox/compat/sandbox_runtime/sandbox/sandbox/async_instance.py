# SPDX-License-Identifier: Apache-2.0
"""A sandbox that a pool has given out: one handler, in a box and an interpreter that nobody has used before."""
from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING, Dict, Mapping

from glovebox import _json
from glovebox._async.http import JSON_TYPE
from glovebox._text import plain
from glovebox.errors import ApiError, InvalidRequest

from ..core.errors import ExitCode, NoAvailableSandboxError, SandboxException
from .config import SandboxConfig

if TYPE_CHECKING:
    from .async_pool import AsyncSandboxPool

_PATH = "/workspace/se/v2/execute_code"
# What the server says where it was not for want of memory.
_BY_SIGNAL = re.compile(r"ended by signal [0-9]+\n\Z")
_LONGEST_S = 3600.0
# For all that is not the handler.
_BESIDE_S = 60.0


class AsyncSandboxInstance:
    def __init__(self, config: SandboxConfig, pool: AsyncSandboxPool) -> None:
        self.config = config
        self.task_count = 0
        self.create_time = self.last_active_time = time.time()
        self.is_busy = False
        self._pool = pool

    async def execute(self, task_data: Mapping[str, object]) -> Dict[str, object]:
        """task_data: handler_code, event, context. Returns exit_code, stdout, stderr, result, metrics. A second time it is another box.

        SandboxException, or a GloveboxError: nothing was run, or nobody knows what became of it.
        """
        if not self.is_alive():
            raise NoAvailableSandboxError("the sandbox was released, or its pool was shut down: acquire another one")
        event = task_data.get("event")
        if not isinstance(event, dict):
            raise SandboxException(f"the event is {type(event).__name__}, and should be a dict", ExitCode.JSON_SERIALIZATION_ERROR)
        limit = self.time_of(event)
        body = _json.encode({"handler_code": task_data.get("handler_code"), "event": event, "context": task_data.get("context") or {}}, "the event or context")
        self.is_busy, self.task_count = True, self.task_count + 1
        try:
            http = await self._pool.http()
            reply = await http.call("POST", _PATH, body, (JSON_TYPE,), timeout=limit + _BESIDE_S)
            return self._told(_json.decode(reply.body, http.where("POST", _PATH)))
        except ApiError as e:
            return self._refused(e, limit)
        finally:
            self.is_busy, self.last_active_time = False, time.time()

    def time_of(self, event: Mapping[str, object]) -> float:
        """Seconds that a handler has with this event."""
        said = event.get("__timeout")
        if isinstance(said, (int, float)) and not isinstance(said, bool) and math.isfinite(said) and said > 0:
            return min(float(said), _LONGEST_S)
        return float(self.config.timeout_seconds)

    @property
    def memory_kib(self) -> int:
        """What it may use, in KiB."""
        return 131072 if self.config.memory_limit is None else self.config.memory_limit

    def _told(self, answer: _json.Object) -> Dict[str, object]:
        if answer.get("exit_code") == 137 and not _BY_SIGNAL.search(str(answer.get("stderr"))[-100:]):
            peak = _json.member(answer, "metrics").get("memory_peak_mb")
            answer["stderr"] = f"{answer.get('stderr')}System error: it had {peak} MB at its largest, and the sandbox may use {self.memory_kib} KiB; " \
                               "SandboxConfig(memory_limit=…) gives it more, in KiB\n"
        return answer

    @staticmethod
    def _refused(error: ApiError, limit: float) -> Dict[str, object]:
        if error.code == "Sandbox.ExecTimeout":
            return {"exit_code": int(ExitCode.EXECUTION_TIMEOUT), "stdout": "", "result": None,
                    "stderr": f"System error: the handler had not returned after {limit:g} s and was ended, and with it all it had made; event[\"__timeout\"] or "
                              "SandboxConfig(timeout_seconds=…) gives it more\n"}
        if isinstance(error, InvalidRequest):
            raise SandboxException(plain(str(error)), ExitCode.CODE_LOAD_ERROR) from error
        if error.code in ("Sandbox.NotInitialized", "Sandbox.TooManyRequestsExection"):
            raise NoAvailableSandboxError(plain(str(error))) from error
        raise error

    def is_alive(self) -> bool:
        return self._pool.has(self)

    def should_retire(self) -> bool:
        """After its first handler: nothing of one is left for the next."""
        return self.task_count > 0 or not self.is_alive()

    async def terminate(self) -> None:
        await self._pool.release(self)
