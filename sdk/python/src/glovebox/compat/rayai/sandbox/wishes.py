# SPDX-License-Identifier: Apache-2.0
"""What the first call of a session asks for, as fields of a box and options of a private server."""
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from glovebox import types

from . import config

_SIZE = re.compile(r"([0-9]{1,15})([bkmg]?)", re.I)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

Volumes = Mapping[str, Mapping[str, str]]
#: Of a private server: what it lets boxes have, as options of it. () is nothing beside what the environment says.
Server = Tuple[Tuple[str, str], ...]


@dataclass(frozen=True)
class Wish:
    image: str
    dockerfile: Optional[str]
    environment: Optional[Mapping[str, str]]
    volumes: Optional[Volumes]
    mcp_allowlist: Optional[Sequence[str]]

    def check(self) -> None:
        """ValueError: what no session can have, and what to do instead."""
        if self.dockerfile is not None:
            raise ValueError("dockerfile: images are not built here. Build it elsewhere, make an environment of it with `glovebox env import`, and name that: image=\"NAME\"; "
                             "without either a session has the programs and packages of the server's machine")
        memory_limit()
        for host, how in (self.volumes or {}).items():
            if not host.startswith("/"):
                raise ValueError(f"volumes: {host!r} is no absolute path: volumes with names are Docker's, give the directory")
            if not isinstance(how, Mapping) or not isinstance(how.get("bind"), str) or set(how) - {"bind", "mode"}:
                raise ValueError(f"volumes: that of {host!r} is {how!r}, and should be {{'bind': '/path/in/the/box', 'mode': 'ro' or 'rw'}}")
            if how.get("mode", "rw") not in ("ro", "rw"):
                raise ValueError(f"volumes: the mode of {host!r} is {how.get('mode')!r}, and should be 'ro' or 'rw'")

    def server(self) -> Server:
        """The options of a private server that grants it. ValueError: a directory is none."""
        options: List[Tuple[str, str]] = []
        for host in self.volumes or {}:
            if not os.path.isdir(host):
                raise ValueError(f"volumes: {host!r} is no directory of this machine")
            options.append(("mount-root", os.path.realpath(host)))
        options += [("rayai-url", url) for url in self.mcp_allowlist or ()]
        return tuple(sorted(set(options)))

    def mounts(self) -> List[types.BoxMount]:
        found: List[types.BoxMount] = []
        for host, how in (self.volumes or {}).items():
            found.append({"root": os.path.realpath(host), "at": how["bind"], "readonly": how.get("mode", "rw") == "ro"})
        return found


def upward(mount: types.BoxMount) -> Optional[types.BoxMount]:
    """The same directory as a part of the one above: a server that allows /data lets boxes have /data/a. None above the root."""
    above, name = os.path.split(mount["root"])
    if not name:
        return None
    path = mount.get("path")
    moved: types.BoxMount = {"root": above, "path": name if path is None else f"{name}/{path}", "at": mount["at"], "readonly": mount["readonly"]}
    return moved


def memory_limit() -> int:
    """config.MEMORY_LIMIT in bytes."""
    match = _SIZE.fullmatch(str(config.MEMORY_LIMIT))
    if match is None:
        raise ValueError(f"config.MEMORY_LIMIT is {config.MEMORY_LIMIT!r}, and should be bytes, or a number with k, m or g: '512m'")
    return int(match[1]) * _UNITS[match[2].lower()]


def limits() -> types.BoxLimits:
    return {"memory_bytes": memory_limit(), "cpus": config.CPU_QUOTA / config.CPU_PERIOD}


def environment_name(image: str) -> Optional[str]:
    """None: the default one."""
    return None if image == config.DEFAULT_IMAGE else image


def texts(environment: Optional[Mapping[str, str]]) -> Optional[Dict[str, str]]:
    return None if environment is None else dict(environment)
