# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.ipybox and what comes from strangers: archives, messages of kernels, output that nobody reads; and connections that break."""
import asyncio
import base64
import contextlib
import io
import os
import re
import signal
import tarfile

import pytest
from pysdk import url_of

import glovebox as sdk
from glovebox.compat.ipybox import ExecutionClient, ExecutionContainer, ResourceClient, _channel, _routes
from glovebox.compat.ipybox import executor as executors
from server import WARM, Server, needs_root, until
from test_py_lies import Liar, answer
from websocket_server import Kernel


def archive(*members):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return data.getvalue()


def member(name, content=b"", **kw):
    info = tarfile.TarInfo(name)
    for key, value in kw.items():
        setattr(info, key, value)
    return info, content


def port_of(liar):
    return int(liar.url.rpartition(":")[2])


def downloaded(lie, folder):
    async def main(port):
        client = ResourceClient(port)
        try:
            await client.download_directory("x", folder / "out")
        finally:
            await client.disconnect()

    with Liar(lie) as liar:
        asyncio.run(main(port_of(liar)))


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil"])
def test_an_archive_that_leads_out(tmp_path, name):
    with pytest.raises(sdk.UnsafeArchive):
        downloaded(answer(archive(member("fine", b"1"), member(name, b"2"))), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_with_links_and_devices(tmp_path):
    (tmp_path / "victim").mkdir()
    downloaded(answer(archive(member("out", type=tarfile.SYMTYPE, linkname="../victim"), member("fine", b"1", mode=0o4755),
                              member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3), member("in", type=tarfile.SYMTYPE, linkname="fine"))), tmp_path)
    assert sorted(os.listdir(tmp_path / "out")) == ["fine", "in"] and (tmp_path / "out/fine").stat().st_mode & 0o7777 == 0o755
    with pytest.raises(sdk.GloveboxError):
        downloaded(answer(archive(member("d", type=tarfile.SYMTYPE, linkname="../../victim"), member("d/f", b"1"), member("d", type=tarfile.DIRTYPE), member("../f"))), tmp_path)
    assert list((tmp_path / "victim").iterdir()) == []


def test_an_archive_that_is_none(tmp_path):
    whole = archive(member("fine", b"1" * 100000))
    for lie in (b"", b"no gzip", whole[:-40]):
        with pytest.raises(sdk.ProtocolError, match="gzip"):
            downloaded(answer(lie), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_that_becomes_large(tmp_path, monkeypatch):
    """It is unpacked piece by piece, and only as far as is allowed."""
    from glovebox.compat.ipybox.resource import client

    monkeypatch.setattr(client, "_BYTES_MAX", 1 << 20)
    with pytest.raises(sdk.TooLarge):
        downloaded(answer(archive(member("zeros", bytes(64 << 20)))), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_sources_that_are_none():
    async def main(port):
        client = ResourceClient(port)
        for call in (lambda: client.get_module_sources(["x"]), lambda: client.generate_mcp_sources("a", "b", {}), lambda: client.get_mcp_sources("a", "b")):
            with pytest.raises(sdk.ProtocolError):
                await call()
        await client.disconnect()

    for lie in ({"x": 1}, [1], "text", b"\xff", b'{"x":"y"}}'):
        with Liar(answer(lie)) as liar:
            asyncio.run(main(port_of(liar)))


# --- kernels ---------------------------------------------------------------------------------------------------------


def ran(*messages, **kw):
    """What becomes of the one cell of a kernel that says these things. Each is (type, content)."""
    async def main():
        async with Kernel(messages) as kernel, ExecutionClient(kernel.port) as client:
            return await client.execute("whatever", **kw)

    return asyncio.run(main())


PNG = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082")).decode()
OK = ("execute_reply", {"status": "ok"})


def test_messages_of_odd_shapes():
    """What has the wrong shape is no output."""
    result = ran(("stream", {"text": 5}), ("stream", "x"), ("stream", {}), ("display_data", {"data": [1]}), ("display_data", {"data": {"text/plain": {}}}),
                 ("display_data", {"data": {"image/png": PNG}}), ("unknown", None), ("error", "x"), ("stream", {"text": " kept \x1b[2J"}), OK)
    assert result.text == "kept \x1b[2J" and [one.size for one in result.images] == [(1, 1)]


@pytest.mark.parametrize("data, kind", [("%%%", sdk.ProtocolError), (base64.b64encode(b"no picture").decode(), sdk.ProtocolError), (PNG[:60], sdk.ProtocolError)])
def test_pictures_that_are_none(data, kind):
    with pytest.raises(kind):
        ran(("display_data", {"data": {"image/png": data, "text/plain": "x"}}), OK)


def test_errors_of_odd_shapes():
    for content in ({}, {"ename": 5, "evalue": "\x1b]0;title\x07x\x1b[2J", "traceback": 7}, {"ename": "E", "evalue": "v", "traceback": [1, None, "line"]}):
        with pytest.raises(executors.ExecutionError) as caught:
            ran(("error", content), ("execute_reply", {"status": "error"}))
        assert "\x1b" not in str(caught.value) and isinstance(caught.value.trace, str)
    with pytest.raises(executors.ExecutionError, match="^Unknown Error: $"):
        ran(("execute_reply", {}))


def test_messages_that_are_no_json():
    with pytest.raises(executors.ConnectionError, match="no JSON"):
        ran("{", OK)


def test_a_kernel_that_says_nothing_more():
    with pytest.raises(executors.ConnectionError, match="the connection to the kernel is over"):
        ran(None)
    with pytest.raises(asyncio.TimeoutError):
        ran(("stream", {"text": "x"}), timeout=0.2)


# --- with a real one -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(glovebox, tmp_path_factory):
    with Server(tmp_path_factory.mktemp("serve"), **WARM) as server, sdk.Client(url_of(server)) as client:
        until(lambda: "kernel" in client.health()["warm"], "the image of a kernel")
        with sdk.Box(client=client, network="open") as box:
            box.run("pass")
        yield server


@pytest.fixture
def address(server, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", url_of(server))


@contextlib.asynccontextmanager
async def connected():
    async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port, heartbeat_interval=0.05) as client:
        yield container, client


@needs_root
@pytest.mark.more
def test_executions_in_any_order(address):
    """Each has its own output, whoever reads first; and one that nobody has any more holds nothing."""
    async def main():
        async with connected() as (_, client):
            many = [await client.submit(f"print({i})") for i in range(5)]
            assert [(await one.result()).text for one in reversed(many)] == list("43210")
            del many
            chunks = []
            execution = await client.submit("import time\nfor i in range(1000):\n    print(i, flush=True)\n    time.sleep(0.005)")
            async for chunk in execution.stream():
                chunks.append(chunk)
                if len(chunks) == 2:
                    break
            del execution
            await client._interrupt_kernel()
            assert (await client.execute("7")).text == "7"
            assert len(client._channel._inboxes) == 0

    asyncio.run(main())


@needs_root
@pytest.mark.more
def test_output_that_nobody_reads(address, monkeypatch):
    """The kernel waits for its reader; who waits for something behind it takes the place of that."""
    monkeypatch.setattr(_channel, "UNREAD_MAX", 100_000)

    async def main():
        async with connected() as (_, client):
            code = "for i in range(40):\n    print('x' * 9999, flush=True)"
            large = await client.submit(code)
            await asyncio.sleep(0.3)
            held = sum(one.size for one in client._channel._inboxes.values())
            assert 100_000 < held < 200_000, "it is held back"
            assert len((await large.result()).text) == 40 * 10000 - 1, "and nothing is lost"
            large, small = await client.submit(code), await client.submit("5")
            assert (await small.result()).text == "5"
            with pytest.raises(sdk.ProtocolError, match="nobody has read"):
                await large.result()

    asyncio.run(main())


@needs_root
@pytest.mark.more
def test_a_gate_that_dies(glovebox, tmp_path, monkeypatch):
    """What was read before is kept; the next execution finds the same kernel."""
    async def main():
        async with connected() as (container, client), ResourceClient(container.resource_port) as files:
            await client.execute("x = 6")
            task = asyncio.ensure_future(client.execute("import time; time.sleep(0.5)"))
            await asyncio.sleep(0.2)
            os.kill(server.pid_of("gate"), signal.SIGKILL)
            with pytest.raises(executors.ConnectionError):
                await task
            for _ in range(100):
                with contextlib.suppress(executors.ConnectionError):
                    assert (await client.execute("x * 7")).text == "42"
                    break
                await asyncio.sleep(0.1)
            else:
                pytest.fail("no kernel any more")
            assert "def dumps" in (await files.get_module_sources(["json"]))["json"]

    with Server(tmp_path / "s", **WARM) as server:
        monkeypatch.setenv("GLOVEBOX_URL", url_of(server))
        asyncio.run(main())


@needs_root
@pytest.mark.more
def test_a_server_on_another_machine(server, address, monkeypatch):
    """Its ports cannot be reached, so calls go to its own address."""
    monkeypatch.setattr(_routes, "_HERE", ("localhost",))

    async def main():
        async with connected() as (container, client), ResourceClient(container.resource_port) as files:
            assert re.search(r"/v1/boxes/[a-z2-7]+/jupyter$", client._http.address.url), client._http.address.url
            assert (await client.execute("6 * 7")).text == "42"
            await files.get_module_sources(["json"])

    asyncio.run(main())
    assert _routes._routes == {}
