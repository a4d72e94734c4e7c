# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.ipybox, and the package `ipybox`: the same names as in the original, and one program that runs with each of them."""
import contextlib
import json
import os
import socket
import subprocess
import sys
import zipfile

import pytest
from pysdk import HERE, ROOT, SDK, SOURCE, environment, python, url_of

import glovebox
from mcp_servers import HONEST
from pypi import call, python_with_ipybox
from server import WARM, Server, needs_root, until

OTHER = SDK.parent / "ipybox"
PROGRAM = (HERE / "ipybox_program.py").read_text(encoding="utf-8")
OURS, THEIRS = "from glovebox.compat.ipybox", "from ipybox"
RUN_S = 120

more = pytest.mark.more


@pytest.fixture(scope="module")
def server(glovebox, tmp_path_factory):
    """One whose boxes may have parts of what tests write, with an image of a kernel and what looks after networks."""
    import glovebox as sdk

    with Server(tmp_path_factory.mktemp("serve"), mount_root=[tmp_path_factory.getbasetemp()], **WARM) as server, sdk.Client(url_of(server)) as client:
        until(lambda: "kernel" in client.health()["warm"], "the image of a kernel")
        with sdk.Box(client=client, network="open") as box:
            box.run("pass")
        yield server


def said(interpreter, text, folder, env):
    """What the program prints; it is given a directory, which the box's user may enter."""
    work = folder / "work"
    work.mkdir()
    for one in (folder, *folder.parents[:2]):
        one.chmod(0o755)
    (folder / "program.py").write_text(text)
    done = call(interpreter, "-B", folder / "program.py", work, HONEST, timeout=RUN_S, cwd=folder, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "never retrieved" not in done.stderr and "was never" not in done.stderr, done.stderr
    return json.loads(done.stdout)


EXPECTED = {
    "ports": True, "hello": [True, "Hello, world!", []], "nothing": None, "state": "42", "others": ["False", True], "shell": "/app", "await": "/app",
    "order": "1\n2\n'hi'", "chunks": "0\n1\n2\n3\n", "and then": "0\n1\n2\n3", "long": 500000, "image": [[[40, 30], [200, 0, 0]]],
    "error": [["ValueError: this one"], "ValueError: this one", True, True], "timeout": [[], "1"], "file": "def answer():\n    return 42\n", "import": "42",
    "tree": [["one.py", 28], ["sub/data", 1280000], ["sub/new", 4]], "deleted": 404, "no file": 404, "no directory": 404, "no module": 404, "no server": 404,
    "missing": ["Local file not found: /missing", "Local directory not found: /missing"], "modules": {"tree.one": "def answer()", "json": 'r"""JSON (Ja'},
    "tools": ["tool_1", "fails", "env"], "sources": [["env", "fails", "tool_1"], True], "call": "{'s': 'x',", "firewall": "OSError",
    "binds": ["made/too", "shown/from the box"], "arun": 3}


@needs_root
def test_with_one_changed_import(server, tmp_path):
    """On a server that has an address."""
    env = environment({"GLOVEBOX_URL": url_of(server)})
    assert said("/usr/bin/python3", PROGRAM.replace(THEIRS, OURS), tmp_path, env) == EXPECTED
    with glovebox.Client(url_of(server)) as client:
        assert client.boxes.list() == []


@needs_root
@more
def test_with_none(tmp_path):
    """And a private server, with directories of its own."""
    assert said("/usr/bin/python3", PROGRAM, tmp_path, environment({"PYTHONPATH": f"{OTHER / 'src'}:{SOURCE}"})) == EXPECTED


@needs_root
@more
def test_with_the_original_clients(tmp_path):
    """They are given the ports of a container of ours."""
    interpreter = python_with_ipybox()
    text = PROGRAM.replace("ExecutionContainer, ", "").replace("\n\nHERE", "\nfrom glovebox.compat.ipybox import ExecutionContainer\n\nHERE")
    assert "import DEFAULT_TAG, ExecutionClient, ExecutionError" in text and text.count("import ExecutionContainer") == 1
    assert said(interpreter, text, tmp_path, environment()) == EXPECTED


@needs_root
@more
def test_where_aiohttp_is_installed(tmp_path):
    """What the server refuses is caught by the names of aiohttp, and the package `mcp` speaks to servers."""
    interpreter = python_with_ipybox()
    text = PROGRAM.replace(THEIRS, OURS).replace("except Exception as e:\n                said[name] = getattr(e, \"status\", repr(e))",
                                                 "except aiohttp.ClientResponseError as e:\n                said[name] = e.status\n"
                                                 "                assert isinstance(e, GloveboxError) and e.message in ('Not Found', 'Bad Request') and e.history == (), repr(e)")
    text = text.replace("import asyncio\n", "import asyncio\nimport aiohttp\nfrom glovebox import GloveboxError\n", 1)
    assert said(interpreter, text, tmp_path, environment()) == EXPECTED


@contextlib.contextmanager
def inside_of_a_container(folder):
    """The two servers that a container of ipybox has, without Docker: (executor port, resource port)."""
    python = python_with_ipybox()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]
    (folder / "app").mkdir()
    words = [[python.parent / "jupyter-kernelgateway", "--KernelGatewayApp.ip=127.0.0.1", f"--KernelGatewayApp.port={ports[0]}"],
             [python, "-B", "-m", "ipybox.resource.server", "--root-dir", folder / "app", "--host", "127.0.0.1", "--port", str(ports[1])]]
    with open(folder / "log", "wb") as log:
        processes = [subprocess.Popen(one, cwd=folder / "app", env={"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(folder)}, stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=log) for one in words]
    try:
        yield ports
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(30)


@more
def test_with_containers_of_ipybox_itself(tmp_path):
    """Our clients speak to what it has in its containers."""
    import asyncio

    from glovebox.compat.ipybox import ExecutionClient, ExecutionError, ResourceClient

    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/sub/ä b").write_bytes(bytes(range(256)) * 5000)

    async def main(executor, resource):
        async with ExecutionClient(executor) as client, ResourceClient(resource) as files:
            execution = await client.submit("for i in range(3):\n    print(i, flush=True)\n6 * 7")
            assert "".join([chunk async for chunk in execution.stream()]) == "0\n1\n2\n42"
            with pytest.raises(ExecutionError, match="^ZeroDivisionError: division by zero$") as caught:
                await client.execute("x = 3; 1 / 0")
            assert "\x1b[" in caught.value.trace
            with pytest.raises(asyncio.TimeoutError):
                await client.execute("import time; time.sleep(1000)", timeout=0.5)
            assert (await client.execute("x")).text == "3"
            await files.upload_directory("tree", tmp_path / "in")
            await files.upload_file("tree/new file", tmp_path / "in/sub/ä b")
            assert (await client.execute("import os; sorted(os.listdir('tree'))")).text == "['new file', 'sub']"
            await files.download_directory("tree", tmp_path / "out")
            await files.download_file("tree/sub/ä b", tmp_path / "one")
            assert (tmp_path / "out/sub/ä b").read_bytes() == (tmp_path / "one").read_bytes() == (tmp_path / "in/sub/ä b").read_bytes()
            await files.delete_file("tree/new file")
            for call, status in ((files.delete_file("tree/new file"), 404), (files.upload_file("../x", tmp_path / "one"), 400), (files.get_module_sources(["no_such"]), 404)):
                with pytest.raises(glovebox.ApiError) as caught:
                    await call
                assert caught.value.status == status
            assert "def dumps" in (await files.get_module_sources(["json"]))["json"]
            (tmp_path / "server.py").write_text(HONEST)
            params = {"command": "python3", "args": [str(tmp_path / "server.py")]}
            assert (await files.generate_mcp_sources("mcp tools", "honest", params))[:2] == ["tool_1", "fails"]
            assert 'run_sync("tool-1"' in (await files.get_mcp_sources("mcp tools", "honest"))["tool_1"]
        assert not client._http and client._kernel_id is None

    with inside_of_a_container(tmp_path) as ports:
        asyncio.run(main(*ports))


# --- names -----------------------------------------------------------------------------------------------------------


def names(interpreter, package, path):
    done = subprocess.run([str(interpreter), "-B", str(HERE / "ipybox_names.py"), package], env=environment({"PYTHONPATH": path}), capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@more
def test_names_and_signatures_are_those_of_the_original():
    theirs, ours = names(python_with_ipybox(), "ipybox", ""), names("/usr/bin/python3", "glovebox.compat.ipybox", SOURCE)
    assert len(theirs) > 15 and set(theirs.pop("top")) <= set(ours.pop("top"))
    for name, value in theirs.items():
        if isinstance(value, dict):  # a class, which may have more
            assert isinstance(ours.get(name), dict), name
            assert {key: ours[name].get(key) for key in value} == value, name
        else:
            assert ours.get(name) == value, name


def test_the_package_has_the_same_objects():
    code = """
        import importlib, glovebox.compat.ipybox as ours, ipybox
        for name in ("", ".container", ".executor", ".utils", ".modinfo", ".resource.client", ".mcp.gen", ".mcp.run"):
            theirs, other = importlib.import_module("ipybox" + name), importlib.import_module("glovebox.compat.ipybox" + name)
            for key in other.__all__:
                assert getattr(theirs, key) is getattr(other, key), (name, key)
        assert ipybox.executor.ConnectionError is not ipybox.resource.client.ConnectionError
        assert "aiohttp" not in __import__("sys").modules, "imported when it is needed"
    """
    python(code, env={"PYTHONPATH": f"{OTHER / 'src'}:{SOURCE}"})


def test_versions_and_licence():
    texts = [(folder / "_version.py").read_text() for folder in (OTHER / "src/ipybox", SOURCE / "glovebox")]
    assert texts[0] == texts[1] and (OTHER / "LICENSE").resolve() == ROOT / "LICENSE"


@pytest.mark.parametrize("package", ["ipybox", "glovebox.compat.ipybox"])
def test_the_command_line(package):
    """Is that of glovebox ipybox."""
    env = environment({"PYTHONPATH": f"{OTHER / 'src'}:{SOURCE}"})
    done = subprocess.run(["/usr/bin/python3", "-B", "-m", package, "mcp", "--help"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "--container-bind" in done.stdout, done
    env["GLOVEBOX_PROGRAM"] = "/no/such/program"
    done = subprocess.run(["/usr/bin/python3", "-B", "-m", package, "cleanup"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and done.stderr.startswith("ipybox: GLOVEBOX_PROGRAM is '/no/such/program'"), done


def test_types_of_the_package_hold():
    done = subprocess.run(["/usr/bin/python3", "-m", "mypy", "--config-file", str(OTHER / "pyproject.toml"), str(OTHER / "src/ipybox"), str(HERE / "typed_ipybox.py")], cwd=OTHER,
                          env={**os.environ, "MYPYPATH": f"{OTHER / 'src'}:{SOURCE}"}, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@needs_root
@more
def test_wheels_in_a_virtual_environment(tmp_path):
    """The program as it is, with both wheels and nothing of the source tree; and the command."""
    import shutil

    for folder in (SDK, OTHER):
        shutil.copytree(folder, tmp_path / "source" / folder.name, ignore=shutil.ignore_patterns("__pycache__", "tests", "*.egg-info", "build", "dist"))
        done = subprocess.run(["/usr/bin/python3", "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path / "dist", tmp_path / "source" / folder.name],
                              capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    wheels = sorted((tmp_path / "dist").iterdir())
    assert [one.name.split("-")[0] for one in wheels] == ["glovebox", "glovebox_ipybox"]
    held = zipfile.ZipFile(wheels[1]).namelist()
    assert {"ipybox/py.typed", "ipybox/mcp/run.py", "ipybox/resource/client.py"} <= set(held) and any(name.endswith("LICENSE") for name in held)
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--system-site-packages", tmp_path / "venv"], check=True, timeout=120)
    done = call(tmp_path / "venv/bin/pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", *wheels, timeout=120)
    assert done.returncode == 0, done.stderr
    env = {"GLOVEBOX_PROGRAM": os.environ["GLOVEBOX_PROGRAM"]}
    assert said(tmp_path / "venv/bin/python3", PROGRAM, tmp_path, env) == EXPECTED
    done = call(tmp_path / "venv/bin/ipybox", "cleanup", "--help", timeout=60, env=env)
    assert done.returncode == 0 and "--ancestor" in done.stdout, done


# --- tools of servers --------------------------------------------------------------------------------------------------


def test_what_is_made_of_a_hostile_tool():
    """It becomes literals; what it would do is not done."""
    import ast

    from glovebox.compat.ipybox.mcp import gen

    for name, text in (('x"); boom() #', '"""\nboom()\n"""'), ("\\", "\\"), ("a\n\r\0\u2028\ud800", 'ends with "'), ("'\"" * 9, "'''\\\"\"\"\\"), ("", None)):
        tree = ast.parse(gen.generate_function_definition(gen.sanitize_name(name) or "f", name, text))
        *_, function = tree.body
        assert len(tree.body) == 3 and isinstance(function, ast.FunctionDef) and len(function.body) == 2
        assert ast.literal_eval(function.body[1].value.args[0]) == name
    assert gen.sanitize_name("../../Es cape-ä") == "______es_cape__"
    params = {"command": "x", "env": {"A": "'\"\n"}}
    assert ast.literal_eval(gen.generate_init_definition(params).partition("=")[2].strip()) == params


def test_parameters_of_servers():
    from glovebox.compat.ipybox.mcp import run

    with pytest.raises(ValueError, match='Neither a "command" nor a "url"'):
        run.run_sync("x", {}, {"arguments": []})
    with pytest.raises(ValueError, match="Unable to determine MCP client type from URL: http://x/y"):
        run.run_sync("x", {}, {"url": "http://x/y"})
    if "mcp" not in sys.modules:
        with pytest.raises(ImportError, match=r"pip install 'glovebox\[ipybox\]'"):
            run.run_sync("x", {}, {"command": "true"})


@more
def test_tools_of_a_server_outside_of_boxes(tmp_path):
    """mcp.gen and mcp.run, with the packages that they need."""
    interpreter = python_with_ipybox()
    (tmp_path / "server.py").write_text(HONEST)
    (tmp_path / "use.py").write_text("""
import asyncio, pathlib, sys
from ipybox.mcp.gen import generate_mcp_sources
from ipybox.mcp.run import run_async, run_sync
params = {"command": "python3", "args": ["server.py"], "env": {"SECRET": "of mine", "PATH": "/usr/bin"}}
print(asyncio.run(generate_mcp_sources("honest", params, pathlib.Path("made"))))
sys.path.insert(0, "made")
from honest.tool_1 import Params, tool_1
print(tool_1(Params(s="x", n=3)), run_sync("env", {}, params))

async def main():
    print(await run_async("tool-1", {"s": "y"}, params), run_sync("env", {}, params))
    try:
        await run_async("fails", {}, params)
    except Exception as e:
        print(repr(e))
asyncio.run(main())
""")
    env = environment({"PYTHONPATH": f"{OTHER / 'src'}:{SOURCE}"})
    done = call(interpreter, "-B", "use.py", timeout=RUN_S, cwd=tmp_path, env=env)
    assert done.stdout.splitlines() == ["['tool_1', 'fails', 'env']", "{'s': 'x', 'n': 3.0} of mine", "{'s': 'y'} of mine", "Exception('it failed')"], (done.stdout, done.stderr[-3000:])
