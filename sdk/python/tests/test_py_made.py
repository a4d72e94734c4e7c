# SPDX-License-Identifier: Apache-2.0
"""What is made from something else is as it would be made now; types hold; the package can be built, installed and used."""
import ast
import os
import pathlib
import re
import subprocess
import sys

import pytest
from pysdk import HERE, ROOT, SDK, SOURCE, environment, python, tool, url_of

import glovebox
from server import needs_root, shared

server = shared()
PACKAGE = SOURCE / "glovebox"
FILES = sorted(PACKAGE.rglob("*.py"))


def test_the_blocking_form_is_made_from_the_other():
    made = dict(tool("unasync").wanted())
    for path, text in made.items():
        assert path.exists() and path.read_text(encoding="utf-8") == text, f"{path.name}: run sdk/python/tools/unasync"
    assert set(made) == set((PACKAGE / "_sync").glob("*.py"))
    assert not re.search(r"\basync\b|\bawait\b|Async[A-Z]|asyncio", "".join(text for path, text in made.items() if path.name != "__init__.py"))


def test_unasync_knows_words_only():
    unasync = tool("unasync").unasync
    text = "#\nfrom typing import AsyncIterator, Awaitable, Iterator\nasync def f(x: AsyncBox) -> AsyncIterator[Union[Awaitable[int], int]]:\n    async with x as y: return await y.z()\n"
    assert unasync(text, "x.py").splitlines()[2:] == ["from typing import Iterator", "def f(x: Box) -> Iterator[int]:", "    with x as y: return y.z()"]


def test_types_are_those_of_the_server(server):
    with glovebox.Client(url_of(server)) as client:
        text = tool("gen-types").Types(client.openapi()).text()
    assert (PACKAGE / "types.py").read_text(encoding="utf-8") == text, "run sdk/python/tools/gen-types"


@needs_root
def test_gen_types_asks_a_server_of_its_own():
    done = subprocess.run([SDK / "tools/gen-types", "--check"], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# What of the package makes which call.
CALLS = {
    "/v1/boxes": {"POST": "boxes.create", "GET": "boxes.list"},
    "/v1/boxes/{box_id}": {"GET": "info", "PATCH": "extend", "DELETE": "delete"},
    "/v1/boxes/{box_id}/cells": {"POST": "run", "GET": "list_cells"},
    "/v1/boxes/{box_id}/cells/{cell_id}": {"GET": "cell.wait", "DELETE": "cell.cancel"},
    "/v1/boxes/{box_id}/cells/{cell_id}/events": {"GET": "cell.events"},
    "/v1/boxes/{box_id}/cells/{cell_id}/input": {"POST": "cell.input"},
    "/v1/boxes/{box_id}/kernels": {"GET": "list_kernels"},
    "/v1/boxes/{box_id}/kernels/{kernel}": {"GET": "kernel.info", "DELETE": "kernel.delete"},
    "/v1/boxes/{box_id}/interrupt": {"POST": "interrupt"},
    "/v1/boxes/{box_id}/restart": {"POST": "restart"},
    "/v1/boxes/{box_id}/fork": {"POST": "fork"},
    "/v1/boxes/{box_id}/complete": {"POST": "kernel.complete"},
    "/v1/boxes/{box_id}/is_complete": {"POST": "kernel.is_complete"},
    "/v1/boxes/{box_id}/inspect": {"POST": "kernel.inspect"},
    "/v1/boxes/{box_id}/commands": {"POST": "command", "GET": "list_commands"},
    "/v1/boxes/{box_id}/commands/{command_id}": {"GET": "command.wait", "DELETE": "command.cancel"},
    "/v1/boxes/{box_id}/commands/{command_id}/events": {"GET": "command.events"},
    "/v1/boxes/{box_id}/commands/{command_id}/stdin": {"POST": "command.write"},
    "/v1/boxes/{box_id}/commands/{command_id}/signal": {"POST": "command.signal"},
    "/v1/boxes/{box_id}/files": {"GET": "files.list", "POST": "forms are for browsers: files.write"},
    "/v1/boxes/{box_id}/files/{path}": {"GET": "files.read", "PUT": "files.write", "POST": "files.mkdir", "DELETE": "files.delete"},
    "/v1/boxes/{box_id}/watch": {"GET": "files.watch"},
    "/v1/boxes/{box_id}/archive": {"GET": "files.download_dir", "PUT": "files.upload_dir"},
    "/v1/boxes/{box_id}/network": {"PUT": "network.set"},
    "/v1/boxes/{box_id}/ports": {"POST": "ports.publish", "GET": "ports.list"},
    "/v1/boxes/{box_id}/ports/{port}": {"GET": "ports.get", "DELETE": "ports.unpublish"},
    "/v1/boxes/{box_id}/tools": {"POST": "tools.add"},
    "/v1/boxes/{box_id}/approvals": {"GET": "approvals.list", "POST": "approvals.answer"},
    "/v1/environments": {"GET": "environments.list", "POST": "environments.start_build"},
    "/v1/environments/{environment}": {"GET": "environments.get", "DELETE": "environments.remove"},
    "/v1/environments/{environment}/build": {"GET": "environments.build_info"},
}


def test_every_call_of_the_server_has_its_place():
    """A new one, or one that has gone, is noticed here."""
    from glovebox import types

    assert {(method, path) for path, methods in CALLS.items() for method in methods} == set(types.CALLS)


def test_what_is_written_suits_python_3_9():
    for path in [*FILES, *(SDK / "tools").iterdir()]:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))
        if path in FILES and path.name != "_version.py" and any(isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for one in ast.walk(tree)):
            assert any(isinstance(one, ast.ImportFrom) and one.module == "__future__" for one in tree.body), f"{path}: annotations are evaluated"
        for one in ast.walk(tree):
            # Syntax is not all: what 3.10 and later have at run time.
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
                keywords = {word.arg for word in one.keywords}
                assert not (one.func.id == "dataclass" and keywords & {"slots", "kw_only"}), f"{path}:{one.lineno}"
                assert not (one.func.id == "zip" and "strict" in keywords) and one.func.id not in ("aiter", "anext"), f"{path}:{one.lineno}"
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
                assert (one.value.id, one.attr) not in {("asyncio", "timeout"), ("asyncio", "TaskGroup"), ("asyncio", "Runner"), ("datetime", "UTC")}, f"{path}:{one.lineno}"
            if isinstance(one, ast.ImportFrom) and one.module == "typing":
                late = {"Self", "TypeAlias", "ParamSpec", "Required", "NotRequired", "assert_never", "override", "TypeGuard", "Never", "Unpack"}
                assert not {name.name for name in one.names} & late, f"{path}:{one.lineno}"


def test_nothing_is_executed():
    """No pickle, no eval, no shell but the minder's; nothing of a box reaches a terminal."""
    for path in FILES:
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, (ast.Import, ast.ImportFrom)):
                names = {name.name for name in one.names} | {getattr(one, "module", None) or ""}
                assert not names & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "code", "runpy", "ctypes"}, path
                assert "subprocess" not in names or path.name == "_server.py", path
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
                assert one.func.id not in ("eval", "exec", "compile", "__import__", "print"), f"{path}:{one.lineno}"


def test_files_are_small():
    for path in FILES:
        if path.name != "types.py":
            assert len(path.read_text(encoding="utf-8").splitlines()) < 400, path


def test_the_version_is_that_of_the_server():
    assert glovebox.__version__ == (ROOT / "VERSION").read_text().strip()


def mypy(*words, cwd=SDK):
    done = subprocess.run(["/usr/bin/python3", "-m", "mypy", "--config-file", str(SDK / "pyproject.toml"), *map(str, words)], cwd=cwd, env=environment({"MYPYPATH": str(SOURCE)}),
                          capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_types_hold():
    """mypy --strict over the package, and over what its users write."""
    mypy(SOURCE / "glovebox", HERE / "typed_use.py")


def test_no_any_in_what_users_see():
    """The annotations of public functions say what comes."""
    for path in FILES:
        if "_transport" in str(path) or path.name in ("_json.py", "websocket.py", "wire.py"):
            continue
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and not one.name.startswith("_"):
                assert one.returns is not None, f"{path}:{one.lineno}"
                for annotation in [one.returns, *(argument.annotation for argument in one.args.args + one.args.kwonlyargs if argument.annotation is not None)]:
                    assert not any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(annotation)), f"{path}:{one.lineno}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built as a distributor does it: without a network, from a copy."""
    import shutil

    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(SDK, folder / "python", ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info", "build", "dist"), symlinks=False)
    done = subprocess.run(["/usr/bin/python3", "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder / "dist"), str(folder / "python")], capture_output=True,
                          text=True, timeout=240, check=False, env=environment())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    (found,) = (folder / "dist").iterdir()
    return found


@pytest.mark.more
def test_a_wheel(wheel):
    import zipfile

    assert wheel.name == f"glovebox-{glovebox.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {str(path.relative_to(SOURCE)) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix in (".py", ".sh", ".typed")}
    assert expected <= names and all(name.startswith(("glovebox/", "glovebox-")) for name in names)
    assert any(name.endswith("LICENSE") for name in names)


@needs_root
@pytest.mark.more
def test_it_is_installed_and_used(wheel, tmp_path):
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", tmp_path / "venv"], check=True, timeout=120)
    interpreter = tmp_path / "venv/bin/python3"
    subprocess.run([interpreter, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", wheel], check=True, timeout=120,
                   env={**os.environ, "PIP_CONFIG_FILE": "/dev/null"})
    done = python("""
        import glovebox, asyncio
        assert "/venv/" in glovebox.__file__, glovebox.__file__
        with glovebox.Box() as box:
            print(box.run("1 + 1").text)
        async def main():
            async with glovebox.AsyncBox() as box:
                print((await box.sh("echo 3")).stdout)
        asyncio.run(main())
    """, env={"PYTHONPATH": ""}, executable=str(interpreter))
    assert done.stdout.split() == ["2", "3"]


@needs_root
def test_a_zip_archive_works(tmp_path):
    """Where the minder's text is no file."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "glovebox.zip", "w") as archive:
        for path in PACKAGE.rglob("*"):
            if path.is_file() and path.suffix in (".py", ".sh"):
                archive.write(path, path.relative_to(SOURCE))
    done = python("import glovebox\nassert '.zip' in glovebox.__file__\nwith glovebox.Box() as box: print(box.sh('echo 5').stdout)", env={"PYTHONPATH": str(tmp_path / "glovebox.zip")})
    assert done.stdout.strip() == "5"


PYTHONS = sorted({str(path) for version in ("3.9", "3.10", "3.12", "3.13", "3.14") for path in
                  [*pathlib.Path("/usr/bin").glob(f"python{version}"), *pathlib.Path("/usr/local/bin").glob(f"python{version}"),
                   *pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")]})


@pytest.mark.slow
@pytest.mark.parametrize("interpreter", PYTHONS or ["none"], ids=lambda path: pathlib.Path(path).name)
def test_other_pythons_with_what_pypi_has_today(interpreter, tmp_path):
    """The tests of this folder again, with the latest httpx and websockets; where there is a network, and another Python."""
    if interpreter == "none":
        pytest.skip("there is no other Python on this machine")
    subprocess.run([interpreter, "-m", "venv", tmp_path / "venv"], check=True, timeout=120)
    own = tmp_path / "venv/bin/python"
    done = subprocess.run([own, "-m", "pip", "install", "-q", "httpx", "websockets", "pytest<8", "pillow"], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"PyPI cannot be reached: {done.stderr.strip().splitlines()[-1:]}")
    names = [f"tests/sdk/python/test_py_{name}.py" for name in ("text", "boxes", "cells", "commands", "files", "folders", "terminal", "network", "tls", "lies", "lost",
                                                                "ipybox_ends", "ipybox_lies", "se_sessions", "se_ends", "se_handlers", "rayai", "rayai_ends")]
    done = subprocess.run([own, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "-m", "not slow and not more", *names], cwd=ROOT,
                          env={**os.environ, "GLOVEBOX": os.environ["GLOVEBOX_PROGRAM"]}, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, f"{sys.executable}\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
