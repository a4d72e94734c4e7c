# SPDX-License-Identifier: Apache-2.0
"""A program that is written for ipybox: what its documentation shows, in our words. It is run with several packages of that name; what it prints
is to be the same. Arguments: a directory to work in, the text of an MCP server."""
import asyncio
import json
import pathlib
import re
import sys

from ipybox import DEFAULT_TAG, ExecutionClient, ExecutionContainer, ExecutionError, ResourceClient, arun
from ipybox.executor import ExecutionResult

HERE = pathlib.Path(sys.argv[1])
said = {}


async def code(container):
    async with ExecutionClient(port=container.executor_port) as client, ExecutionClient(port=container.executor_port) as other:
        result = await client.execute("print('Hello, world!')")
        said["hello"] = (isinstance(result, ExecutionResult), result.text, result.images)
        said["nothing"] = (await client.execute("x = 6")).text
        said["state"] = (await client.execute("x * 7")).text
        said["others"] = ((await other.execute("'x' in globals()")).text, client.kernel_id != other.kernel_id)
        said["shell"] = (await client.execute("!pwd")).text
        said["await"] = (await client.execute("import asyncio\nawait asyncio.sleep(0)\nprint(sys.path[-1])")).text
        said["order"] = (await client.execute("import os\nprint('1', flush=True)\nprint('2', file=sys.stderr, flush=True)\nos.environ['GREETING']")).text

        execution = await client.submit("import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.02)")
        said["chunks"] = "".join([chunk async for chunk in execution.stream()])
        said["and then"] = (await execution.result()).text
        said["long"] = len((await client.execute("print('x' * 500000)")).text)

        result = await client.execute("from PIL import Image\nImage.new('RGB', (40, 30), (200, 0, 0)).show()")
        said["image"] = [(one.size, one.convert("RGB").getpixel((1, 1))) for one in result.images]
        try:
            await client.execute("print('before')\nraise ValueError('this one')")
        except ExecutionError as e:
            plain = re.sub(r"\x1b\[[0-9;]*m", "", e.trace)
            said["error"] = (e.args, str(e), plain != e.trace, "raise ValueError" in plain)
        try:
            await client.execute("kept = 1\ntime.sleep(1000)", timeout=1)
        except asyncio.TimeoutError as e:
            said["timeout"] = (e.args, (await client.execute("kept")).text)


async def files(container):
    local = HERE / "in"
    (local / "sub").mkdir(parents=True)
    (local / "one.py").write_text("def answer():\n    return 42\n")
    (local / "sub" / "data").write_bytes(bytes(range(256)) * 5000)
    async with ResourceClient(port=container.resource_port) as client, ExecutionClient(port=container.executor_port) as executor:
        await client.upload_file("a b/deep/ä.py", local / "one.py")
        await client.download_file("a b/deep/ä.py", HERE / "back" / "one.py")
        said["file"] = (HERE / "back" / "one.py").read_text()
        await client.upload_directory("tree", local)
        said["import"] = (await executor.execute("from tree.one import answer\nanswer()")).text
        await executor.execute("open('tree/sub/new', 'w').write('made')")
        await client.download_directory("tree", HERE / "tree")
        said["tree"] = sorted((str(p.relative_to(HERE / "tree")), p.stat().st_size) for p in (HERE / "tree").rglob("*") if p.is_file() and "pyc" not in str(p))
        await client.delete_file("a b/deep/ä.py")
        for name, call in (("deleted", client.delete_file("a b/deep/ä.py")), ("no file", client.download_file("nothing", HERE / "x")),
                           ("no directory", client.download_directory("nothing", HERE / "y")),
                           ("no module", client.get_module_sources(["json", "no_such_module"])), ("no server", client.get_mcp_sources("mcp", "nobody"))):
            try:
                await call
            except Exception as e:
                said[name] = getattr(e, "status", repr(e))
        for call in (client.upload_file("x", HERE / "missing"), client.upload_directory("x", HERE / "missing")):
            try:
                await call
            except FileNotFoundError as e:
                said.setdefault("missing", []).append(str(e).replace(str(HERE), ""))
        said["modules"] = {name: source[:12] for name, source in (await client.get_module_sources(["tree.one", "json"])).items()}


async def tools(container):
    (HERE / "server.py").write_text(sys.argv[2])
    async with ResourceClient(port=container.resource_port) as client, ExecutionClient(port=container.executor_port) as executor:
        await client.upload_file("server.py", HERE / "server.py")
        said["tools"] = await client.generate_mcp_sources("mcptools", "honest", {"command": "python3", "args": ["/app/server.py"]})
        sources = await client.get_mcp_sources("mcptools", "honest")
        said["sources"] = (sorted(sources), "def tool_1(params: Params) -> str:" in sources["tool_1"])
        said["call"] = (await executor.execute("from mcptools.honest.tool_1 import Params, tool_1\nprint(tool_1(Params(s='x')))")).text[:10]


async def main():
    (HERE / "shown").mkdir()
    async with ExecutionContainer(tag=DEFAULT_TAG, binds={str(HERE / "shown"): "shown", str(HERE / "made"): "made"}, env={"GREETING": "hi"}) as container:
        said["ports"] = container.executor_port != container.resource_port
        await code(container)
        await files(container)
        await tools(container)
        async with ExecutionClient(port=container.executor_port) as client:
            await client.execute("open('shown/from the box', 'w').write('x'); open('made/too', 'w').close()")
            await container.init_firewall([])
            try:
                await client.execute("import socket\nsocket.create_connection(('8.8.8.8', 53), 3)")
            except ExecutionError as e:
                said["firewall"] = e.args[0].partition(":")[0]
    said["binds"] = sorted(str(p.relative_to(HERE)) for name in ("shown", "made") for p in (HERE / name).iterdir())
    said["arun"] = await arun(int, "11", base=2)


asyncio.run(main())
print(json.dumps(said, indent=1))
