# SPDX-License-Identifier: Apache-2.0
"""attacks.tbl has a row for every class of attack, and every row has a test that exists."""
import ast
import functools
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = ROOT / "tests" / "escape" / "attacks.tbl"
SECTIONS = {"4.1": 9, "4.2": 12, "4.3": 7, "4.4": 9, "4.5": 11}
# Everything in these can be tried today.
NO_LATER = ("4.1", "4.2", "4.3", "4.4")


def rows():
    found = []
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            found.append((number, [c.strip() for c in line.split("|")]))
    return found


@functools.cache
def functions_in(path):
    tree = ast.parse((ROOT / path).read_text(), path)
    return {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name.startswith("test_")}


def problems(number, columns):
    """What is wrong with one row."""
    if len(columns) != 3 or not all(columns):
        return [f"line {number}: three columns, none empty"]
    section, _, tests = columns
    if section not in SECTIONS:
        return [f"line {number}: no section {section}"]
    if tests.startswith("later:"):
        short = len(tests.removeprefix("later:").strip()) < 10
        return [f"line {number}: later, but why?"] * short + [f"line {number}: not later"] * (section in NO_LATER)
    wrong = []
    for node in tests.split():
        path, _, name = node.partition("::")
        if not re.fullmatch(r"tests/[\w/]+\.py", path):
            wrong.append(f"line {number}: '{node}' is no test")
        elif not (ROOT / path).is_file():
            wrong.append(f"line {number}: there is no {path}")
        elif name and name not in functions_in(path):
            wrong.append(f"line {number}: {path} has no {name}")
    return wrong


def test_every_row_has_a_test():
    wrong = [p for number, columns in rows() for p in problems(number, columns)]
    assert wrong == []


@pytest.mark.parametrize("section", SECTIONS)
def test_no_row_is_lost(section):
    assert len([c for _, c in rows() if c[0] == section]) >= SECTIONS[section]


def test_no_class_is_named_twice():
    names = [c[1] for _, c in rows() if len(c) > 1]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("row, word", [
    ("4.1 | x |", "three columns"), ("4.1 | | tests/escape/test_table.py", "three columns"), ("9.9 | x | y", "no section"),
    ("4.1 | x | later: because it is not there yet", "not later"), ("4.5 | x | later: no", "why"),
    ("4.1 | x | tests/escape/test_table.py::test_nothing_of_the_kind", "has no"), ("4.1 | x | tests/none.py", "there is no"),
    ("4.1 | x | ?", "no test"),
])
def test_mistakes_are_found(row, word):
    found = problems(1, [c.strip() for c in row.split("|")])
    assert len(found) == 1 and word in found[0]


def test_tests_of_attacks_are_named():
    """A test of these files that no row names would be lost with the next clean-up."""
    named = {node for _, c in rows() for node in c[2].split()}
    for path in ("tests/escape/test_runtime.py", "tests/escape/test_kernel.py", "tests/escape/test_warm_attacks.py", "tests/egress/test_net_attacks.py", "tests/egress/test_net_hostile.py"):
        assert {f"{path}::{t}" for t in functions_in(path)} - named == set()
