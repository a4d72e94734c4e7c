# SPDX-License-Identifier: Apache-2.0
"""Cells without any of IPython's own syntax, as most are: they are left as they are, and no tokens are needed to find that out."""
from .safe import builtins as __builtins__  # isort: skip

import re

from IPython.core.inputtransformer2 import TransformerManager

# What a transformation may look for: magics, commands and questions anywhere, prompts and quoting at the beginning of a line, space
# before everything; and ends of lines that are none to us.
_special = re.compile(r"[%!?\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]|\A\s|^[ \t]*(?:[,;/]|>>>|\.\.\.|In \[)", re.M).search


class Manager(TransformerManager):
    def __init__(self):
        super().__init__()
        self._usual = self._now()

    def _now(self):
        return [*self.cleanup_transforms, *self.line_transforms, *self.token_transformers]

    def transform_cell(self, cell):
        if _special(cell) is None and self._now() == self._usual:
            return cell if cell.endswith("\n") else cell + "\n"
        return super().transform_cell(cell)
