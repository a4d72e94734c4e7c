# SPDX-License-Identifier: Apache-2.0
"""What becomes of a handler."""
from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Dict


@dataclass
class ExecutionMetrics:
    """Of the interpreter that ran it, as the kernel of the machine counted."""

    duration_ms: float = 0.0
    memory_peak_mb: float = 0.0
    cpu_time_ms: float = 0.0

    def to_dict(self) -> Dict[str, float]:
        return asdict(self)


@dataclass
class StandardExecutionResult:
    #: One of ExitCode, or 137.
    exit_code: int
    stdout: str
    stderr: str
    #: What it returned, by way of JSON.
    result: Any
    metrics: ExecutionMetrics = field(default_factory=ExecutionMetrics)

    def is_success(self) -> bool:
        return self.exit_code == 0

    def to_dict(self) -> Dict[str, object]:
        return {"exit_code": self.exit_code, "stdout": self.stdout, "stderr": self.stderr, "result": self.result, "metrics": self.metrics.to_dict()}
