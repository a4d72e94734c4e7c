# SPDX-License-Identifier: Apache-2.0
"""What a handler is told of its call."""
from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Dict, Mapping, Optional


def _uuid() -> str:
    return str(uuid.uuid4())


@dataclass
class LambdaContext:
    function_name: str = "unknown-function"
    function_version: str = "$LATEST"
    request_id: str = field(default_factory=_uuid)
    log_group_name: str = "/lambda-sandbox/logs"
    log_stream_name: str = field(default_factory=_uuid)
    remaining_time_in_millis: int = 3000
    memory_limit_in_mb: int = 256
    invoked_function_arn: Optional[str] = None

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_time_in_millis

    def to_dict(self) -> Dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> LambdaContext:
        """Keys that it has no field for are left out."""
        known = {one.name for one in fields(cls)}
        given: Dict[str, Any] = {key: value for key, value in data.items() if key in known}
        return cls(**given)


def create_context(**kwargs: object) -> LambdaContext:
    given: Dict[str, Any] = kwargs
    return LambdaContext(**given)
