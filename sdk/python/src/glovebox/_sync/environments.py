# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/environments.py: do not edit.
"""What boxes can be made of, beside the machine's own programs."""
from __future__ import annotations

import time
from typing import Dict, List, Optional, Sequence, TYPE_CHECKING

from .. import _json
from .._text import plain
from ..errors import BuildFailed, StillRunning
from ..info import EnvironmentBuild, EnvironmentInfo, environment_build, environment_info
from .http import quoted

if TYPE_CHECKING:
    from .client import Client

# How long one question about a build may wait, and how much of what it said is in a message.
WAIT_S = 20.0
LINES = 12


class Environments:
    """client.environments: `Box(environment=name)` is made of one of them. See docs/environments.md."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> List[EnvironmentInfo]:
        """All of them, the machine's own first."""
        http = self._client.http()
        return [environment_info(row) for row in _json.objects(http.answer("GET", "/v1/environments"), "environments")]

    def get(self, name: str) -> EnvironmentInfo:
        http = self._client.http()
        return environment_info(http.answer("GET", f"/v1/environments/{quoted(name)}"))

    def start_build(self, name: str, requirements: Sequence[str] = (), *, imports: Sequence[str] = (), pool: Optional[int] = None) -> EnvironmentBuild:
        """Begins a virtual environment of these requirements, as pip has them. One at a time; Forbidden where the operator does not allow it."""
        fields: Dict[str, object] = {"name": name, "requirements": list(requirements), "imports": list(imports)}
        if pool is not None:
            fields["pool"] = pool
        http = self._client.http()
        return environment_build(http.answer("POST", "/v1/environments", fields))

    def build_info(self, name: str, *, wait: float = 0.0) -> EnvironmentBuild:
        """How the build goes; `wait`: so many seconds, unless it ends earlier."""
        http = self._client.http()
        path = f"/v1/environments/{quoted(name)}/build?wait_ms={int(1000 * min(max(wait, 0.0), WAIT_S))}"
        return environment_build(http.answer("GET", path, timeout=WAIT_S + 40.0))

    def build(self, name: str, requirements: Sequence[str] = (), *, imports: Sequence[str] = (), pool: Optional[int] = None,
              timeout: float = 3600.0) -> EnvironmentInfo:
        """start_build(), until it can be used. imports: modules that its kernels start with; pool: sessions that are kept ready. BuildFailed
        says why it cannot be: what was there by this name stays."""
        until = time.monotonic() + timeout
        state = self.start_build(name, requirements, imports=imports, pool=pool)
        while state.status == "running":
            left = until - time.monotonic()
            if left <= 0:
                raise StillRunning(f"the environment '{plain(name)}' is still being built after {timeout:g} s: build_info() says how it goes")
            state = self.build_info(name, wait=left)
        if state.status != "ok":
            error = BuildFailed(f"the environment '{plain(name)}' was not built:\n" + "\n".join(plain(line) for line in state.log.splitlines()[-LINES:]))
            error.log = state.log
            raise error
        return self.get(name)

    def remove(self, name: str) -> None:
        """Boxes that run keep it."""
        http = self._client.http()
        http.done("DELETE", f"/v1/environments/{quoted(name)}")
