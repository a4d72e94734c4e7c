# SPDX-License-Identifier: Apache-2.0
"""What a server says of boxes, their files, ports, kernels and tools."""
from __future__ import annotations

import base64
import binascii
import datetime
from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple, Union, cast

from . import _json, types
from ._refusals import when
from .errors import ProtocolError


@dataclass(frozen=True)
class NetworkFigures:
    """What a box has had of the network."""

    open: int
    connections: int
    refused: int
    questions: int
    sent_bytes: int
    received_bytes: int
    #: Rules that would have allowed what was refused: they can be given to box.network.allow() as they are.
    refused_rules: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """What a box has used since it was made."""

    wall_ms: int
    cpu_ms: Optional[int]
    peak_memory_bytes: Optional[int]
    #: Processes that were ended for want of memory.
    oom_kills: Optional[int]
    network: Optional[NetworkFigures]


@dataclass(frozen=True)
class NetworkInfo:
    """What a box may reach: `policy` none, allow, open or learn; rules are texts and objects, see docs/network.md."""

    policy: str
    rules: Tuple[Union[str, Mapping[str, object]], ...]
    #: With the policy learn: the rules that it would need.
    learned: Tuple[str, ...] = ()
    max_connections: Optional[int] = None
    max_bytes: Optional[int] = None
    bytes_per_second: Optional[int] = None


@dataclass(frozen=True)
class PublishedPort:
    """A port of a box that clients can reach: by `url` (a port of the server's 127.0.0.1), and by `path` on the server."""

    port: int
    path: str
    loopback: Optional[int]
    url: Optional[str]


@dataclass(frozen=True)
class EnvironmentInfo:
    """What boxes can be made of. `kind` is machine, packages or root; `cells`: it has IPython; `warm`: kernels start from an image now; `ready`:
    sessions that wait to be handed out."""

    name: str
    kind: str
    python: Optional[str]
    python_version: Optional[str]
    cells: bool
    warm: bool
    ready: int
    bytes: Optional[int]
    created_at: Optional[datetime.datetime]


@dataclass(frozen=True)
class EnvironmentBuild:
    """`status` is running, ok or failed; `log` is the end of what was said."""

    name: str
    status: str
    started_at: Optional[datetime.datetime]
    ended_at: Optional[datetime.datetime]
    log: str = field(repr=False)


@dataclass(frozen=True)
class BoxInfo:
    """A box. `state` is creating, ready, busy, paused or ending."""

    id: str
    name: Optional[str]
    state: str
    environment: str
    backend: str
    layers: Tuple[str, ...] = field(repr=False)
    limits: types.LimitValues = field(repr=False)
    network: NetworkInfo
    metadata: Mapping[str, str]
    tools: Tuple[str, ...]
    approvals: Tuple[str, ...]
    workdir: str
    #: Of 127.0.0.1, for clients of ipybox: where kernels are, and where files are.
    ports: Optional[Tuple[int, int]]
    published_ports: Tuple[PublishedPort, ...]
    ttl_seconds: int
    idle_seconds: int
    created_at: Optional[datetime.datetime]
    expires_at: Optional[datetime.datetime]
    #: Only where one box was asked for.
    figures: Optional[Figures]


@dataclass(frozen=True)
class FileEntry:
    """A file of a box. `type` is file, directory, symlink or other. `path` may have U+FFFD in it; path_bytes never has."""

    path: str
    type: str
    size: int
    mode: int
    mtime: Optional[datetime.datetime]
    #: Of a symlink: what it says.
    target: Optional[str]
    path_bytes: bytes = field(default=b"", repr=False)

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    @property
    def is_file(self) -> bool:
        return self.type == "file"


@dataclass(frozen=True)
class FileEvent:
    """A change below a directory. `kind` is create, modify, attrib, delete, move (then `to` says where it is now), or overflow: then
    something was not told, and the directory has to be listed again."""

    kind: str
    path: str
    type: str
    to: Optional[str] = None
    path_bytes: bytes = field(default=b"", repr=False)
    to_bytes: Optional[bytes] = field(default=None, repr=False)


@dataclass(frozen=True)
class KernelInfo:
    """A kernel. `state` is none, starting, idle, busy or ending; `cell` is the id of the one that it runs."""

    name: str
    state: str
    execution_count: Optional[int]
    queued: int
    cell: Optional[str]
    started_at: Optional[datetime.datetime]


@dataclass(frozen=True)
class Completion:
    """How code could go on: each of `matches` in place of the characters from `start` to `end`."""

    matches: Tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class IsComplete:
    """`status` is complete, incomplete, invalid or unknown; of incomplete, `indent` is what the next line begins with."""

    status: str
    indent: Optional[str]


@dataclass(frozen=True)
class Inspection:
    """What something in the code is: texts by mime type."""

    found: bool
    data: Mapping[str, object]

    @property
    def text(self) -> str:
        value = self.data.get("text/plain")
        return value if isinstance(value, str) else ""


@dataclass(frozen=True)
class ToolServer:
    """A server whose tools code in the box can call: `from mcptools.PACKAGE.TOOL import run`."""

    server: str
    package: str
    tools: Tuple[str, ...]


@dataclass(frozen=True)
class Approval:
    """A call of a tool that waits for somebody to allow it. `arguments` are what the box says: not to be trusted."""

    id: str
    server: str
    tool: str
    arguments: Mapping[str, object]
    asked_at: Optional[datetime.datetime] = None


@dataclass(frozen=True)
class TerminalExit:
    """How the shell of a terminal has ended."""

    exit_code: Optional[int]
    signal: Optional[int]


# --- from JSON -----------------------------------------------------------------------------------------------------


def network_info(o: Mapping[str, object]) -> NetworkInfo:
    rules = o.get("rules")
    if not isinstance(rules, list) or not all(isinstance(rule, (str, dict)) for rule in rules):
        raise ProtocolError("an answer in which 'rules' is no list of texts and objects; is that a Glovebox server of this version?")
    return NetworkInfo(_json.text(o, "policy"), tuple(rules), _json.texts(o, "learned") if "learned" in o else (),
                       _json.integer_or_none(o, "max_connections"), _json.integer_or_none(o, "max_bytes"), _json.integer_or_none(o, "bytes_per_second"))


def published_port(o: Mapping[str, object]) -> PublishedPort:
    return PublishedPort(_json.integer(o, "port"), _json.text(o, "path"), _json.integer_or_none(o, "loopback"), _json.text_or_none(o, "url"))


def _figures(o: Mapping[str, object]) -> Optional[Figures]:
    value = _json.member_or_none(o, "figures")
    if value is None:
        return None
    had = _json.member_or_none(value, "network")
    network = None if had is None else NetworkFigures(
        _json.integer(had, "open"), _json.integer(had, "connections"), _json.integer(had, "refused"), _json.integer(had, "questions"),
        _json.integer(had, "sent_bytes"), _json.integer(had, "received_bytes"), _json.texts(had, "refused_rules") if "refused_rules" in had else ())
    return Figures(_json.integer(value, "wall_ms"), _json.integer_or_none(value, "cpu_ms"), _json.integer_or_none(value, "peak_memory_bytes"),
                   _json.integer_or_none(value, "oom_kills"), network)


def box_info(o: Mapping[str, object]) -> BoxInfo:
    ports = _json.member_or_none(o, "ports")
    return BoxInfo(
        _json.text(o, "id"), _json.text_or_none(o, "name"), _json.text(o, "state"), _json.text(o, "environment"), _json.text(o, "backend"),
        _json.texts(o, "layers"), cast(types.LimitValues, _json.member(o, "limits")), network_info(_json.member(o, "network")),
        _json.mapping_of_texts(o, "metadata"), _json.texts(o, "tools"), _json.texts(o, "approvals"), _json.text(o, "workdir"),
        None if ports is None else (_json.integer(ports, "executor"), _json.integer(ports, "resource")),
        tuple(published_port(one) for one in _json.objects(o, "published_ports")),
        _json.integer(o, "ttl_seconds"), _json.integer(o, "idle_seconds"), when(o.get("created_at")), when(o.get("expires_at")), _figures(o))


def environment_info(o: Mapping[str, object]) -> EnvironmentInfo:
    made = o.get("created_at")
    return EnvironmentInfo(_json.text(o, "name"), _json.text(o, "kind"), _json.text_or_none(o, "python"), _json.text_or_none(o, "python_version"), _json.boolean(o, "cells"),
                           _json.boolean(o, "warm"), _json.integer(o, "ready"), _json.integer_or_none(o, "bytes"), None if made is None else when(made))


def environment_build(o: Mapping[str, object]) -> EnvironmentBuild:
    ended = o.get("ended_at")
    return EnvironmentBuild(_json.text(o, "name"), _json.text(o, "status"), when(o.get("started_at")), None if ended is None else when(ended),
                            _json.text_or_none(o, "log") or "")


def name_bytes(o: Mapping[str, object], key: str) -> bytes:
    """The bytes of a name, which need not be UTF-8."""
    said = o.get(f"{key}_base64")
    if said is None:
        return _json.text(o, key).encode("utf-8", "replace")
    try:
        return base64.b64decode(_json.text(o, f"{key}_base64"), validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(f"an answer in which '{key}_base64' is no base64; is that a Glovebox server?") from None


def file_entry(o: Mapping[str, object]) -> FileEntry:
    try:
        mode = int(_json.text(o, "mode"), 8)
    except ValueError:
        raise ProtocolError("an answer in which 'mode' is no octal number; is that a Glovebox server?") from None
    return FileEntry(_json.text(o, "path"), _json.text(o, "type"), _json.integer(o, "size"), mode, when(o.get("mtime")), _json.text_or_none(o, "target"),
                     name_bytes(o, "path"))


def file_event(kind: str, o: Mapping[str, object]) -> FileEvent:
    moved = "to" in o
    return FileEvent(kind, _json.text(o, "path"), _json.text(o, "type"), _json.text(o, "to") if moved else None, name_bytes(o, "path"),
                     name_bytes(o, "to") if moved else None)


def kernel_info(o: Mapping[str, object]) -> KernelInfo:
    return KernelInfo(_json.text(o, "name"), _json.text(o, "state"), _json.integer_or_none(o, "execution_count"), _json.integer(o, "queued"),
                      _json.text_or_none(o, "cell"), when(o.get("started_at")))


def approval(o: Mapping[str, object]) -> Approval:
    return Approval(_json.text(o, "id"), _json.text(o, "server"), _json.text(o, "tool"), _json.member(o, "arguments"), when(o.get("asked_at")))
