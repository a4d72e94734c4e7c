# SPDX-License-Identifier: Apache-2.0
"""The source of a module of this program. Those of a box are asked for by ResourceClient.get_module_sources()."""
from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

__all__ = ["ModuleInfo", "get_module_info"]


@dataclass
class ModuleInfo:
    """`relpath` is where an import looks for it; `source` is empty if it has none."""

    name: str
    relpath: PurePath
    source: str


def get_module_info(module_name: str) -> ModuleInfo:
    """Imports it first."""
    module = importlib.import_module(module_name)
    relpath = PurePosixPath(*module_name.split("."))
    is_package = Path(inspect.getfile(module)).name == "__init__.py"
    try:
        source = inspect.getsource(module)
    except OSError:
        source = ""
    return ModuleInfo(module.__name__, relpath / "__init__.py" if is_package else relpath.with_suffix(".py"), source)
