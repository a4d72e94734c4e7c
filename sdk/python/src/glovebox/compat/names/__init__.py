# SPDX-License-Identifier: Apache-2.0
"""A directory whose modules have the names of the originals, for programs that are not changed at all:

    PYTHONPATH=$(python3 -m glovebox.compat.names) python3 program.py

What is imported is the same as below glovebox.compat, not a copy of it. An original that is installed is hidden.
"""
from __future__ import annotations

import importlib
import pkgutil
import sys


def become(name: str) -> None:
    """From now on `name` and all below it are the modules of glovebox.compat."""
    real = importlib.import_module(f"glovebox.compat.{name}")
    for one in pkgutil.walk_packages(real.__path__, f"{real.__name__}."):
        importlib.import_module(one.name)
    for found, module in list(sys.modules.items()):
        if found == real.__name__ or found.startswith(f"{real.__name__}."):
            sys.modules[name + found[len(real.__name__):]] = module
