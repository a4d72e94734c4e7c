# SPDX-License-Identifier: Apache-2.0
"""Code that came as the inside of a literal."""
from __future__ import annotations

import ast


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def safe_unescape(code: str) -> str:
    r"""Python that a model has written with \n for each line end becomes what was meant. What is Python as it is stays as it
    is: print("a\nb") has its backslash for a reason."""
    if "\\" not in code or _is_python(code):
        return code
    for quote in ('"""', "'''"):
        try:
            meant = ast.literal_eval(f"{quote}{code}{quote}")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(meant, str) and _is_python(meant):
            return meant
    return code
