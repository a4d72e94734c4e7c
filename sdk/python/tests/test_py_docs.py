# SPDX-License-Identifier: Apache-2.0
"""Documentation is run: each example of docs/python.md and of README.md, and what its comments say is printed; and mypy reads it."""
import ast
import asyncio
import contextlib
import inspect
import io
import re
import textwrap

import pytest
from conftest import described, our_processes
from pysdk import ROOT, SDK
from test_py_made import mypy

import glovebox
from glovebox.compat.rayai.sandbox import sessions
from mcp_servers import HONEST
from server import needs_root, until

pytestmark = needs_root

PAGES = [ROOT / "docs" / "python.md", SDK / "README.md", ROOT / "docs" / "sandbox-runtime.md", ROOT / "docs" / "rayai.md"]


def examples():
    """(page and line, code, name of the exception that ends it or None)."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```python\n(.*?)^```\n(?:<!-- raises (\w+) -->)?", text, re.M | re.S):
            yield f"{page.parent.name}-{page.stem}-{text.count(chr(10), 0, match.start()) + 2}", match[1], match[2]


EXAMPLES = list(examples())


@pytest.fixture(scope="module", autouse=True)
def one_server():
    """For all of them, with an image of a kernel; what looks after networks and tools is there before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOVEBOX_WARM", "true")
        patch.setenv("GLOVEBOX_ENVIRONMENT_BUILDS", "true")
        client = glovebox.Client()
        client.boxes.list()
    with client:
        until(lambda: "kernel" in client.health()["warm"], "the image of a kernel")
        with glovebox.Box(client=client, network="open") as box:
            box.tools.add("x", {"command": "python3", "args": ["-c", HONEST]})
        yield
        sessions._at_exit()


@pytest.mark.parametrize("code, raises", [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES])
def test_example(code, raises, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    scope = {"__name__": "example"}
    said = io.StringIO()

    def go():
        value = eval(compiled, scope)
        if inspect.iscoroutine(value):
            asyncio.run(value)

    with contextlib.redirect_stdout(said):
        if raises:
            with pytest.raises(getattr(glovebox, raises)):
                go()
        else:
            go()
    # What an example used for the first time has its image made, which would look like a leak of the next one.
    until(lambda: not any("--freeze-" in described(one) for one in our_processes()), "no image is being made")
    lines = iter(said.getvalue().splitlines())
    for expected in re.findall(r"^\s*(?:.*\b)?print\(.*\)\s+# (.*)$", code, re.M):
        assert any(line.strip() == expected for line in lines), f"{expected!r} is not said:\n{said.getvalue()}"


@pytest.mark.more
def test_examples_are_typed(tmp_path):
    for name, code, _ in EXAMPLES:
        (tmp_path / f"{name.replace('-', '_')}.py").write_text("import glovebox\n\nasync def main() -> None:\n" + textwrap.indent(code, "    "))
    mypy("--disable-error-code", "no-redef", "--disable-error-code", "typeddict-item", *sorted(tmp_path.glob("*.py")))


def test_every_exception_is_in_the_table():
    text = PAGES[0].read_text(encoding="utf-8")
    from glovebox import errors

    for name in (name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, glovebox.GloveboxError)):
        assert f"`{name}`" in text, name
