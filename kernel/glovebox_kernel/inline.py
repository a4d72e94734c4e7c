# SPDX-License-Identifier: Apache-2.0
"""Figures and images as displays. Nothing is imported for it: what is to be done waits until somebody else imports."""
from .safe import builtins as __builtins__  # isort: skip

import os
import sys
from importlib.util import find_spec

BACKEND = "module://matplotlib_inline.backend_inline"


class After:
    """A finder that finds nothing, and adds to what others have found."""

    def __init__(self):
        self.hooks = {}

    def find_spec(self, name, path=None, target=None):
        if name not in self.hooks:
            return None
        hook = self.hooks.pop(name)
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _extend(spec.loader, hook)
                return spec
        self.hooks[name] = hook
        return None

    def invalidate_caches(self):
        pass


def _extend(loader, hook):
    real = getattr(loader, "exec_module", None)
    if real is None:
        return

    def exec_module(module):
        real(module)
        _quietly(hook, module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass


def _quietly(hook, module):
    try:
        hook(module)
    except Exception:
        pass


_after = After()


def after_import(name, hook):
    if name in sys.modules:
        _quietly(hook, sys.modules[name])
        return
    _after.hooks[name] = hook
    if _after not in sys.meta_path:
        sys.meta_path.insert(0, _after)


def install():
    after_import("matplotlib", _figures)
    after_import("PIL.ImageShow", _images)


def _figures(matplotlib):
    """The backend does the rest when it is loaded. Not by MPLBACKEND: that would reach every child."""
    if not os.environ.get("MPLBACKEND") and find_spec("matplotlib_inline") is not None:
        matplotlib.rcParams["backend"] = BACKEND


def _images(image_show):
    """Before whatever viewer the machine has."""

    class Viewer(image_show.Viewer):
        format = "PNG"

        def show(self, image, **_):
            from IPython.display import display

            display(image)
            return 1

    image_show.register(Viewer, 0)
