# SPDX-License-Identifier: Apache-2.0
"""Modules that are lent to user code: packages of ours beside this one, found last, so that a package of that name wins if there is one.

The archive is closed when user code runs: sources are read before, and compiled when somebody imports them.
"""
from .safe import builtins as __builtins__  # isort: skip

import os
import sys
from importlib.machinery import ModuleSpec

_FILES = {
    "ipybox": "ipybox/__init__.py",
    "ipybox.mcp": "ipybox/mcp/__init__.py",
    "ipybox.mcp.run": "ipybox/mcp/run.py",
    "mcptools": "mcptools/__init__.py",
    "mcptools._gateway": "mcptools/_gateway.py",
    "mcptools._run": "ipybox/mcp/run.py",
    "mcptools._runtime": "mcptools/_runtime.py",
}


def _read():
    top = os.path.dirname(os.path.dirname(__file__))
    return {name: (file.endswith("/__init__.py"), __spec__.loader.get_data(os.path.join(top, *file.split("/")))) for name, file in _FILES.items()}


_sources = _read()


class _Lender:
    """Finder and loader."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _sources:
            return None
        package, _ = _sources[name]
        # Where it would be: tracebacks and inspect ask us for its lines.
        spec = ModuleSpec(name, _Lender, origin=f"glovebox/{name.replace('.', '/')}{'/__init__' if package else ''}.py", is_package=package)
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        spec = module.__spec__
        exec(compile(_sources[spec.name][1], spec.origin, "exec"), module.__dict__)

    @staticmethod
    def get_source(name):
        return _sources[name][1].decode()


def install():
    sys.meta_path.append(_Lender)
