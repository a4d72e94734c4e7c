# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python SDK share: the package from this source tree, and each test in both forms.

@both takes a test that is written for asyncio and runs it twice: as it is, and as tools/unasync makes it.
"""
import ast
import asyncio
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

from conftest import program_path
from server import until

# Through the link in tests/sdk, or not.
HERE = pathlib.Path(__file__).resolve().parent
SDK = HERE.parent
ROOT = SDK.parent.parent
SOURCE = SDK / "src"

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE))
for name in ("GLOVEBOX_URL", "GLOVEBOX_TOKEN"):
    os.environ.pop(name, None)
os.environ["GLOVEBOX_PROGRAM"] = str(program_path())


def tool(name):
    """A program of sdk/python/tools as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(SDK / "tools" / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


_unasync = tool("unasync")


def _blocking(function):
    """The same for the blocking form, with what pytest says of a failed assert."""
    lines, first = inspect.getsourcelines(function)
    while not lines[0].startswith(("async def", "def")):
        lines, first = lines[1:], first + 1
    text = _unasync.unasync("\n" + "".join(lines), "").split("\n", 2)[2]  # without what is said of files
    text = "\n" * (first - 1) + text
    tree = ast.parse(text)
    rewrite_asserts(tree, text.encode())
    # The globals are those of its file, as they are when it runs.
    found = {}
    exec(compile(tree, inspect.getsourcefile(function), "exec", dont_inherit=True), function.__globals__, found)
    return found[function.__name__]


def both(function=None, *, more=()):
    """A test in both forms: test_x[async] and test_x[sync]. Those of `more` are left to `make test-all`."""
    if function is None:
        return functools.partial(both, more=more)
    blocking = _blocking(function)

    @pytest.mark.parametrize("form", [pytest.param(form, marks=[pytest.mark.more] if form in more else []) for form in ("async", "sync")])
    @functools.wraps(function)
    def run(form, **fixtures):
        if form == "async":
            asyncio.run(function(**fixtures))
        else:
            blocking(**fixtures)

    parameters = [inspect.Parameter("form", inspect.Parameter.KEYWORD_ONLY)]
    given = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in inspect.signature(function).parameters.values()]
    run.__signature__ = inspect.Signature(parameters + [one for one in given if one.name != "form"])
    del run.__wrapped__
    return run


def url_of(server):
    return f"{server.scheme}://{server.host}:{server.port}" if server.port else f"unix:{server.path}"


def python(code, *words, env=None, timeout=60, check=True, executable="/usr/bin/python3", **kw):
    """A program of a user of the SDK, to its end."""
    done = subprocess.run([executable, "-c", textwrap.dedent(code), *map(str, words)], env=environment(env), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, check=False, **kw)
    if check and done.returncode:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


def environment(more=None):
    """That of such a program."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}


def raises(kind, call, *args, **kw):
    """What a call raises, for the blocking form and for what is not awaited."""
    with pytest.raises(kind) as caught:
        call(*args, **kw)
    return caught.value


@pytest.fixture
def private_place(monkeypatch):
    """A directory in which this test and its programs have their private servers, and nobody else. It is empty in the end."""
    place = tempfile.mkdtemp(prefix="gb-", dir="/tmp")
    monkeypatch.setenv("XDG_RUNTIME_DIR", place)
    yield place
    until(lambda: not os.listdir(place), f"nothing is left in {place}")
    os.rmdir(place)


@pytest.fixture(scope="module")
def warm_box(server):
    """The id of a box whose main kernel runs, for all tests of a file: they leave nothing in it that others could mind."""
    import glovebox

    with glovebox.Box(url=url_of(server)) as box:
        box.run("pass")
        yield box.id
