# SPDX-License-Identifier: Apache-2.0
"""glovebox_kernel.transform: a cell that is not looked at closely is what IPython would have made of it."""
import json
import random
import subprocess

import pytest

from fake_init import LIBS, PYTHON, SOURCE

CODE = """
import json, sys
sys.path[:0] = {path!r}
from IPython.core.inputtransformer2 import TransformerManager
from glovebox_kernel import transform
ours, theirs = transform.Manager(), TransformerManager()
{before}
asked = []
real = TransformerManager.transform_cell
TransformerManager.transform_cell = lambda self, cell: asked.append(cell) or real(self, cell)
def of(manager, cell):
    try:
        return manager.transform_cell(cell)
    except SyntaxError as e:
        return str(e)
print(json.dumps([(of(ours, cell) == real_of(cell), cell in asked) for cell in json.load(sys.stdin)]))
"""
REAL = """
def real_of(cell):
    try:
        return real(theirs, cell)
    except SyntaxError as e:
        return str(e)
"""


def compared(cells, before=""):
    """(whether both made the same of it, whether IPython was asked) of each."""
    code = CODE.format(path=[str(SOURCE), *LIBS], before=REAL + before)
    done = subprocess.run([PYTHON, "-I", "-B", "-c", code], input=json.dumps(cells), capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# What is asked for, and what is not.
CELLS = {
    "x = 1": False, "": False, "x = 1\n": False, "if x:\n    y\nelse:\n    z": False, "'''\nabc\n'''": False, "f(a,\n  b)": False, "# nothing": False,
    "await f()": False, "x = 'ü'": False, "a.b.c": False, "x = (": False, "1 /2": False, "x = [\n 1\n]": False,
    "%time x": True, "!ls": True, "x = !ls": True, "x?": True, "??x": True, "%%bash\nls": True, " x = 1": True, "\n\nx": True, ">>> x": True, "... x": True,
    "In [1]: x": True, ";f a": True, ",f a": True, "/f a": True, "x\r\ny": True, "'%d' % 1": True, "x = 1\n  /f a": True, "x\f\n  ": True, "f(\n...\n)": True,
    "\u2028x": True,
}


def test_what_has_nothing_of_ipythons_is_left_alone():
    told = compared(list(CELLS))
    assert [(cell, same, asked) for cell, (same, asked) in zip(CELLS, told)] == [(cell, True, asked) for cell, asked in CELLS.items()]


PIECES = ["x", " ", "  ", "\n", "\t", "=", "1", "%", "%%", "!", "?", "??", ",", ";", "/", ">>> ", "... ", "In [1]: ", "'", '"""', "(", ")", "\\\n", "#", "\r", "\f",
          "\u2028", "\x1c", "if a:\n", "await ", "print", "...", "ls", "\x0b", "\x85", "@", "-", "$", "é"]


@pytest.mark.parametrize("seed", range(4))
def test_any_text(seed):
    random.seed(seed)
    cells = ["".join(random.choice(PIECES) for _ in range(random.randrange(12))) for _ in range(2000)]
    told = compared(cells)
    assert [cell for cell, (same, _) in zip(cells, told) if not same] == []
    assert any(not asked for _, asked in told) and any(asked for _, asked in told)


@pytest.mark.parametrize("where", ["cleanup_transforms", "line_transforms"])
def test_transformations_of_the_user_are_asked(where):
    add = f"for m in (ours, theirs): m.{where}.append(lambda lines: [line.replace('x', 'y') for line in lines])"
    assert compared(["x = 1"], add) == [[True, True]]
