# SPDX-License-Identifier: Apache-2.0
"""Directories of this machine that a container shows: `{host path: path below /app}` of ipybox, as mounts of a box."""
from __future__ import annotations

import pathlib

from ... import types


class Bind:
    """Which part of which root it is is the server's to know: up() tries the next one."""

    def __init__(self, root: str, path: str, at: str, readonly: bool) -> None:
        self.root, self.path, self.at, self.readonly = root, path, at, readonly

    def mount(self) -> types.BoxMount:
        return {"root": self.root, "path": self.path, "at": self.at, "readonly": self.readonly}

    def up(self) -> bool:
        """The directory above is the root, if there is one above."""
        above = pathlib.PurePosixPath(self.root)
        if above.parent == above or not above.is_absolute():
            return False
        self.root, self.path = str(above.parent), f"{above.name}/{self.path}" if self.path else above.name
        return True


def binds_of(host: str, at: str, here: bool) -> Bind:
    """`here`: the server is on this machine, where the directory is made if it is missing."""
    path, readonly = pathlib.Path(host).resolve(), False
    if here:
        path.mkdir(parents=True, exist_ok=True)
    for suffix in (":ro", ":rw"):
        if at.endswith(suffix):
            at, readonly = at[:-3], suffix == ":ro"
    return Bind(str(path), "", str(pathlib.PurePosixPath("/app") / at.strip("/")), readonly)
