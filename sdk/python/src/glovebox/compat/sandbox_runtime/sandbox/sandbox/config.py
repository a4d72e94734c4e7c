# SPDX-License-Identifier: Apache-2.0
"""What sandboxes of a pool may use."""
from __future__ import annotations

import re
from typing import Dict, List, NoReturn, Optional, Sequence, Tuple

_SIZE = re.compile(r"([0-9]{1,12})([KMG]?)B?", re.I)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_WORKING_DIR = "/workspace"
_MEMORY_LEAST = 16 * 1024


class SandboxConfig:
    """Fields have the names and defaults of Sandbox Runtime. Each is in force, or is refused here, with what to do instead.

    cpu_quota: processors, 2 unless said. memory_limit: KiB, 131072 unless said. max_user_progress: processes and threads at once. timeout_seconds:
    for handlers whose event has no "__timeout". tmpfs_size: of /workspace, where handlers work, and again of /tmp. max_task_count, max_idle_time: a
    sandbox runs one handler and is gone, so that both hold, whatever they are.
    """

    def __init__(self, cpu_quota: Optional[float] = None, memory_limit: Optional[int] = None, allow_network: bool = False, max_task_count: int = 10,
                 max_user_progress: int = 1000, timeout_seconds: int = 300, working_dir: Optional[str] = None, readonly_paths: Optional[Sequence[str]] = None,
                 writable_paths: Optional[Sequence[str]] = None, tmpfs_size: str = "100M", max_idle_time: int = 60) -> None:
        self.cpu_quota = cpu_quota
        self.memory_limit = memory_limit
        self.allow_network = allow_network
        self.max_task_count = max_task_count
        self.max_user_progress = max_user_progress
        self.timeout_seconds = timeout_seconds
        self.working_dir = working_dir
        self.readonly_paths: List[str] = list(readonly_paths or ())
        self.writable_paths: List[str] = list(writable_paths or ())
        self.tmpfs_size = tmpfs_size
        self.max_idle_time = max_idle_time
        self.settings()

    def to_dict(self) -> Dict[str, object]:
        return dict(vars(self))

    def __str__(self) -> str:
        return f"SandboxConfig({self.to_dict()})"

    def settings(self) -> List[Tuple[str, str]]:
        """As options of a server. ValueError: one cannot be in force."""
        found = [("se-allow-network", "true" if self.allow_network else "false"), ("se-timeout", f"{_whole(self, 'timeout_seconds', 1, 86400)}s"),
                 ("se-processes", str(_whole(self, "max_user_progress", 4, 32768)))]
        if self.cpu_quota is not None:
            if not isinstance(self.cpu_quota, (int, float)) or not 0.01 <= self.cpu_quota <= 1024:
                _wrong(self, "cpu_quota", "a number of processors from 0.01 to 1024, 0.5 is half of one")
            found.append(("se-cpus", f"{self.cpu_quota:.3f}"))
        if self.memory_limit is not None:
            kib = _whole(self, "memory_limit", _MEMORY_LEAST, 1 << 32, " KiB, 524288 is 512 MiB")
            found.append(("se-memory", f"{kib}K"))
        found += [(option, str(self._size())) for option in ("se-scratch", "ci-workspace")]
        _whole(self, "max_task_count", 1, 1 << 31)
        _whole(self, "max_idle_time", 0, 1 << 31)
        if self.working_dir not in (None, _WORKING_DIR):
            _wrong(self, "working_dir", f"{_WORKING_DIR}, where every handler works; os.chdir() in the handler goes elsewhere")
        for name in ("readonly_paths", "writable_paths"):
            if getattr(self, name):
                _wrong(self, name, "empty: handlers see no directory of this machine. What they need comes with the event; boxes have "
                                   "directories, glovebox.Box(mounts=…)")
        return found

    def _size(self) -> int:
        match = _SIZE.fullmatch(self.tmpfs_size) if isinstance(self.tmpfs_size, str) else None
        size = int(match[1]) * _UNITS[match[2].upper()] if match else 0
        if not 64 << 10 <= size <= 1 << 40:
            _wrong(self, "tmpfs_size", "a size from 64K to 1024G, such as '100M'")
        return size


def _whole(config: SandboxConfig, name: str, least: int, most: int, unit: str = "") -> int:
    value = getattr(config, name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        _wrong(config, name, f"a whole number from {least} to {most}{unit}")
    return int(value)


def _wrong(config: SandboxConfig, name: str, should: str) -> NoReturn:
    raise ValueError(f"SandboxConfig: {name} is {getattr(config, name)!r}, and should be {should}")
