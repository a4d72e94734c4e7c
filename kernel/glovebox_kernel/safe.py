# SPDX-License-Identifier: Apache-2.0
"""Built-in names of our own.

User code shares the process and may replace or delete what is in `builtins`. Every module here begins with

    from .safe import builtins as __builtins__

after which its functions look names up in this copy. IPython looks them up in the real place: what it cannot do without
is put back before the next request, the rest when a request failed. To replace print() is anybody's right.
"""
import builtins as live
import sys

builtins = dict(vars(live))
__builtins__ = builtins

ESSENTIAL = ("AttributeError", "BaseException", "Exception", "KeyError", "SyntaxError", "TypeError", "ValueError", "__build_class__",
             "__import__", "bool", "callable", "compile", "dict", "eval", "exec", "getattr", "hasattr", "int", "isinstance",
             "issubclass", "iter", "len", "list", "range", "set", "setattr", "str", "super", "tuple", "type")

_modules = {}
_sys = sys
_table = sys.modules


def remember():
    """What there is now is what repair() puts back."""
    builtins.update(vars(live))
    _modules.clear()
    _modules.update(_table)


def broken():
    """Whether something is gone without which nothing works. Asked before every request."""
    if _table.get("sys") is not _sys or "builtins" not in _table or "IPython" not in _table:
        return True
    names = live.__dict__
    for name in ESSENTIAL:
        if names.get(name) is not builtins[name]:
            return True
    return False


def repair():
    names = live.__dict__
    for name, value in builtins.items():
        if names.get(name) is not value:
            names[name] = value
    if _table.get("sys") is not _sys or "builtins" not in _table or "IPython" not in _table:
        for name, module in list(_modules.items()):
            _table.setdefault(name, module)
        _table["sys"] = _sys
