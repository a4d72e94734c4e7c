# SPDX-License-Identifier: Apache-2.0
"""What people do with ipybox, with ipybox itself. Arguments: executor port, resource port, host. A line of JSON per check."""
import asyncio
import json
import pathlib
import re
import sys
import tempfile
import traceback

import aiohttp
from ipybox import ExecutionClient, ExecutionError, ResourceClient

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from mcp_servers import HONEST  # pylint: disable=wrong-import-position

EXECUTOR, RESOURCE, HOST = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def executor():
    return ExecutionClient(port=EXECUTOR, host=HOST)


def resource():
    return ResourceClient(port=RESOURCE, host=HOST)


async def executes():
    async with executor() as client:
        assert (await client.execute("print('hello')")).text == "hello"
        assert (await client.execute("x = 6")).text is None
        assert (await client.execute("x * 7")).text == "42"
        assert (await client.execute("!pwd")).text == "/app"
        assert (await client.execute("import asyncio\nawait asyncio.sleep(0)\nprint(1)")).text == "1"


async def streams():
    async with executor() as client:
        execution = await client.submit("import time\nfor i in range(5):\n  print(i, flush=True)\n  time.sleep(0.05)")
        chunks = [chunk async for chunk in execution.stream()]
        assert "".join(chunks).split() == list("01234"), chunks
        assert (await execution.result()).text == "0\n1\n2\n3\n4"


async def long_outputs():
    async with executor() as client:
        assert (await client.execute("print('x' * 500000)")).text == "x" * 500000
        assert len((await client.execute("'y' * 1000000")).text) == 1000002
        assert (await client.execute("\n".join(f"v{i} = {i}" for i in range(10000)) + "\nv9999")).text == "9999"


async def images():
    async with executor() as client:
        result = await client.execute("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
        assert len(result.images) == 1 and result.images[0].size[0] > 100
        result = await client.execute("from PIL import Image\nImage.new('RGB', (40, 30), 'red').show()")
        assert result.images[0].size == (40, 30)


async def errors():
    async with executor() as client:
        try:
            await client.execute("print('before')\nraise ValueError('this one')")
        except ExecutionError as e:
            plain = re.sub(r"\x1b\[[0-9;]*m", "", e.trace)
            assert e.args[0] == "ValueError: this one" and "raise ValueError" in plain and plain != e.trace, (e.args, e.trace)
        else:
            raise AssertionError("no error")
        assert (await client.execute("1")).text == "1"


async def timeouts():
    async with executor() as client:
        await client.execute("kept = 1")
        try:
            await client.execute("import time\ntime.sleep(1000)", timeout=1)
        except asyncio.TimeoutError:
            pass
        else:
            raise AssertionError("no timeout")
        assert (await client.execute("kept")).text == "1"


async def two_clients():
    async with executor() as one, executor() as two:
        assert one.kernel_id != two.kernel_id
        await one.execute("mine = 1\nopen('shared.txt', 'w').write('text')")
        assert (await two.execute("'mine' in globals(), open('shared.txt').read()")).text == "(False, 'text')"


async def modules_of_app():
    async with executor() as client, resource() as files:
        with tempfile.TemporaryDirectory() as folder:
            local = pathlib.Path(folder) / "helper.py"
            local.write_text("def answer():\n    return 42\n")
            await files.upload_file("helper.py", local)
        assert (await client.execute("import helper\nhelper.answer()")).text == "42"
        found = await files.get_module_sources(["helper", "json"])
        assert found["helper"].startswith("def answer") and "def dumps" in found["json"]
        try:
            await files.get_module_sources(["json", "no_such_module"])
        except aiohttp.ClientResponseError as e:
            assert e.status == 404
        else:
            raise AssertionError("no refusal")


async def files():
    async with resource() as client:
        with tempfile.TemporaryDirectory() as folder:
            local, back = pathlib.Path(folder) / "data.csv", pathlib.Path(folder) / "sub" / "back.csv"
            local.write_bytes(bytes(range(256)) * 1000)
            await client.upload_file("a/b/data.csv", local)
            await client.download_file("a/b/data.csv", back)
            assert back.read_bytes() == local.read_bytes()
            await client.delete_file("a/b/data.csv")
            for call in (client.delete_file("a/b/data.csv"), client.download_file("a/b/data.csv", back)):
                try:
                    await call
                except aiohttp.ClientResponseError as e:
                    assert e.status == 404
                else:
                    raise AssertionError("no refusal")
            try:
                await client.upload_file("x", pathlib.Path(folder) / "missing")
            except FileNotFoundError:
                pass
            else:
                raise AssertionError("no refusal")


async def directories():
    async with resource() as client:
        with tempfile.TemporaryDirectory() as folder:
            there, back = pathlib.Path(folder) / "there", pathlib.Path(folder) / "back"
            (there / "sub").mkdir(parents=True)
            (there / "one.txt").write_text("1")
            (there / "sub" / "two.txt").write_text("2")
            await client.upload_directory("tree", there)
            await client.download_directory("tree", back)
            assert sorted(str(p.relative_to(back)) for p in back.rglob("*") if p.is_file()) == ["one.txt", "sub/two.txt"]
            assert (back / "sub" / "two.txt").read_text() == "2"
            try:
                await client.download_directory("nothing", back)
            except aiohttp.ClientResponseError as e:
                assert e.status == 404
            else:
                raise AssertionError("no refusal")


async def mcp_clients():
    async with resource() as client:
        with tempfile.NamedTemporaryFile("w", suffix=".py") as server:
            server.write(HONEST)
            server.flush()
            await client.upload_file("server.py", pathlib.Path(server.name))
        params = {"command": "python3", "args": ["/app/server.py"]}
        assert await client.generate_mcp_sources("mcptools", "honest", params) == ["tool_1", "fails", "env"]
        sources = await client.get_mcp_sources("mcptools", "honest")
        assert sorted(sources) == ["env", "fails", "tool_1"] and "def tool_1(params: Params) -> str:" in sources["tool_1"], sources
    async with executor() as client:
        result = await client.execute("from mcptools.honest.tool_1 import Params, tool_1\nprint(tool_1(Params(s='x')))")
        assert result.text.strip().startswith("{'s': 'x'"), result


CHECKS = [executes, streams, long_outputs, images, errors, timeouts, two_clients, modules_of_app, files, directories, mcp_clients]


def main():
    for check in CHECKS:
        error = None
        try:
            asyncio.run(asyncio.wait_for(check(), 60))
        except BaseException:
            error = traceback.format_exc()
        print(json.dumps({"name": check.__name__, "error": error}), flush=True)


if __name__ == "__main__":
    main()
