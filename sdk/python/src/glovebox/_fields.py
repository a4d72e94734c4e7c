# SPDX-License-Identifier: Apache-2.0
"""What a caller says, as the API wants it: see docs/boxes.md."""
from __future__ import annotations

import base64
import enum
import math
import re
from typing import Dict, List, Mapping, Optional, Sequence, Union

from . import types
from .errors import InvalidRequest


class Default(enum.Enum):
    """For what may also be None: the server's default."""

    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT = Default.DEFAULT

Timeout = Union[float, None, Default]
InitialFiles = Union[Mapping[str, Union[str, bytes]], Sequence[types.BoxFile]]
NetworkGiven = Union[str, Sequence[Union[str, types.NetworkRule]], types.BoxNetwork]

_ID = re.compile(r"[a-z2-7]{26}")
_NAME = re.compile(r"[a-z0-9_.-]{1,63}")


def box_reference(id_or_name: str) -> str:
    """As a path of the API has it: an id, or name:x."""
    if _ID.fullmatch(id_or_name):
        return id_or_name
    name = id_or_name[5:] if id_or_name.startswith("name:") else id_or_name
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{id_or_name!r} is neither the id of a box nor a name: that has 1 to 63 of a-z 0-9 - _ .")
    return f"name:{name}"


def seconds(value: float, field: str) -> int:
    """Whole ones: a box that is to live 0.5 s lives one."""
    if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        error = InvalidRequest(f"{field} is {value!r}, and should be a number of seconds")
        error.field = field
        raise error
    return math.ceil(value)


def network_of(value: NetworkGiven) -> types.BoxNetwork:
    """A policy, rules that are allowed, or all of it."""
    if isinstance(value, str):
        return {"policy": value}  # type: ignore[typeddict-item]  # the server says what is none
    if isinstance(value, Mapping):
        return value
    return {"policy": "allow", "rules": list(value)}


def _files(value: InitialFiles) -> List[types.BoxFile]:
    if not isinstance(value, Mapping):
        return list(value)
    found: List[types.BoxFile] = []
    for path, content in value.items():
        if isinstance(content, str):
            found.append({"path": path, "content": content})
        else:
            found.append({"path": path, "content_base64": base64.b64encode(content).decode()})
    return found


def creation(*, name: Optional[str], environment: Optional[str], limits: Optional[types.BoxLimits], env: Optional[Mapping[str, str]],
             mounts: Optional[Sequence[types.BoxMount]], files: Optional[InitialFiles], network: Optional[NetworkGiven],
             ports: Union[bool, types.BoxPorts, None], workdir: Optional[str], ttl: Optional[float], idle: Optional[float],
             tools: Optional[Sequence[str]], approvals: Optional[Sequence[str]], metadata: Optional[Mapping[str, str]]) -> Dict[str, object]:
    """The body of POST /v1/boxes."""
    fields: Dict[str, object] = {
        "name": name, "environment": environment, "limits": None if limits is None else dict(limits), "env": None if env is None else dict(env),
        "mounts": None if mounts is None else list(mounts), "files": None if files is None else _files(files),
        "network": None if network is None else network_of(network), "ports": ports or None, "workdir": workdir,
        "ttl_seconds": None if ttl is None else seconds(ttl, "ttl"), "idle_seconds": None if idle is None else seconds(idle, "idle"),
        "tools": None if tools is None else list(tools), "approvals": None if approvals is None else list(approvals),
        "metadata": None if metadata is None else dict(metadata),
    }
    return {key: value for key, value in fields.items() if value is not None}


def timeout_ms(timeout: Timeout) -> Dict[str, object]:
    """{} for the server's default."""
    if isinstance(timeout, Default):
        return {}
    if timeout is None:
        return {"timeout_ms": None}
    if not isinstance(timeout, (int, float)) or not math.isfinite(timeout) or timeout <= 0:
        error = InvalidRequest(f"timeout is {timeout!r}, and should be a number of seconds above 0, or None for as long as the box lives")
        error.field = "timeout"
        raise error
    return {"timeout_ms": max(1, math.ceil(timeout * 1000))}


def timeout_s(timeout: Timeout) -> Optional[float]:
    return None if isinstance(timeout, Default) else timeout
