# SPDX-License-Identifier: Apache-2.0
"""What a box may reach, what of it can be reached, tools that it calls, and calls that somebody has to allow."""
import http.client
import json
import urllib.request

import pytest
from pysdk import both, url_of

import glovebox
from mcp_servers import HONEST
from server import Server, WARM, needs_root, shared

pytestmark = needs_root

cold = shared(**WARM)


@pytest.fixture(scope="module")
def server(cold):
    """What looks after networks runs before any test, and is no leak of one."""
    with glovebox.Box(url=url_of(cold), network="open"):
        pass
    return cold


@both
async def test_policies(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        assert ((await box.network.get()).policy, (await box.network.get()).rules) == ("none", ())
        with pytest.raises(glovebox.InvalidRequest, match="rules") as caught:
            await box.network.set("allow", ["http://not.a.rule/"])
        assert caught.value.field == "rules[0]"
        with pytest.raises(glovebox.InvalidRequest, match="policy"):
            await box.network.set("anything")


@both(more=["sync"])
async def test_rules(server):
    async with glovebox.AsyncBox(url=url_of(server), network=["pypi.org:443"]) as box:
        assert ((await box.network.get()).policy, (await box.network.get()).rules) == ("allow", ("pypi.org:443",))
        now = await box.network.allow("*.example.org", {"host": "api.example.org", "ports": [80], "methods": ["GET"]})
        assert now.rules[:2] == ("pypi.org:443", "*.example.org") and now.rules[2]["host"] == "api.example.org"
        assert await box.network.allow("pypi.org:443") == now, "what is allowed already is not there twice"
        now = await box.network.set("open", max_bytes=1000000, bytes_per_second=65536, max_connections=5)
        assert (now.policy, now.max_bytes, now.bytes_per_second, now.max_connections) == ("open", 1000000, 65536, 5)
        assert (await box.network.allow("10.1.2.3")).max_bytes == 1000000
        assert (await box.network.deny_all()).policy == "none"
        figures = (await box.figures()).network
        assert figures is not None and figures.open == 0
    async with glovebox.AsyncBox(url=url_of(server), network="learn") as box:
        await box.sh("curl -s -m 1 http://192.0.2.7:81/", check=False)
        assert (await box.network.get()).policy == "learn" and isinstance((await box.network.get()).learned, tuple)


@both
async def test_ports(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.files.write("index.html", "served")
        web = await box.start_command(["python3", "-u", "-m", "http.server", "3000"])
        port = await box.ports.publish(3000)
        assert port.port == 3000 and port.url == f"http://127.0.0.1:{port.loopback}/" and box.id in port.path
        async for event in web.events():
            if event.kind in ("stdout", "stderr"):
                break
        with urllib.request.urlopen(port.url + "index.html", timeout=20) as answer:
            assert answer.read() == b"served"
        assert await box.ports.list() == [port] == [await box.ports.get(3000)] and (await box.info()).published_ports == (port,)
        await box.ports.unpublish(3000)
        assert await box.ports.list() == []
        assert (await box.ports.publish(3001, loopback=None)).url is None
        with pytest.raises(glovebox.NotFound):
            await box.ports.get(3000)
        await web.cancel(grace=0.1)


@both
async def test_a_program_that_does_not_listen(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        port = await box.ports.publish(3000)
        connection = http.client.HTTPConnection("127.0.0.1", port.loopback, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == 502
        connection.close()


# --- tools ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """A server whose operator has configured a server of MCP."""
    folder = tmp_path_factory.mktemp("tools")
    place = folder / "servers"
    place.mkdir(mode=0o755)
    (place / "honest.py").write_text(HONEST)
    one = {"command": "/usr/bin/python3", "args": ["/mnt/servers/honest.py"], "mounts": [{"root": str(place), "at": "/mnt/servers"}]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"honest": one}}))
    with Server(folder / "serve", tool_servers=folder / "mcp.json", mount_root=place, **WARM) as running:
        # The server of MCP, and what looks after it, stay for a while: they are no leak of the test that needs them first.
        with glovebox.Box(url=url_of(running), tools=["honest"]) as box:
            box.run(CALL.format("first"))
        yield running


CALL = "from mcptools.honest.tool_1 import run\nrun(s={!r})"


@both(more=["sync"])
async def test_tools(tools):
    async with glovebox.AsyncBox(url=url_of(tools)) as box:
        added = await box.tools.add("honest")
        assert (added.server, added.package) == ("honest", "honest") and "tool_1" in added.tools
        assert "'s': 'x'" in (await box.run(CALL.format("x"))).text
        with pytest.raises(glovebox.NotFound):
            await box.tools.add("nobody")
        own = await box.tools.add("own", {"command": "python3", "args": ["-c", HONEST]})
        assert own.package == "own"
        with pytest.raises(glovebox.ProgramUnreachable, match="cannot be used"):
            await box.tools.add("bad", {"command": "no-such-program"})


@both(more=["sync"])
async def test_somebody_has_to_allow_it(tools):
    async with glovebox.AsyncBox(url=url_of(tools), tools=["honest"], approvals=["*"]) as box:
        assert (await box.info()).approvals == ("*",)
        asked = []

        def decide(call):
            asked.append((call.server, call.tool, dict(call.arguments)))
            return call.arguments.get("s") == "yes"

        async with box.approvals.answering(decide) as answering:
            assert "'s': 'yes'" in (await box.run(CALL.format("yes"))).text
            with pytest.raises(glovebox.ExecutionError, match="GatewayError|rejected"):
                await box.run(CALL.format("no"))
            assert (answering.approved, answering.rejected) == (1, 1)
        assert [one[1:] for one in asked] == [("tool-1", {"s": "yes"}), ("tool-1", {"s": "no"})]

        cell = await box.start(CALL.format("later"))
        async for call in box.approvals:
            assert [one.id for one in await box.approvals.list()] == [call.id] and (await box.approvals.list())[0].asked_at is not None
            await box.approvals.approve(call)
            break
        assert (await cell.wait()).ok and await box.approvals.list() == []
        with pytest.raises(glovebox.NotFound):
            await box.approvals.reject("a" * 26)


@both(more=["sync"])
async def test_who_decides_fails(tools):
    async with glovebox.AsyncBox(url=url_of(tools), tools=["honest"], approvals=["*"]) as box:
        def decide(call):
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            async with box.approvals.answering(decide):
                assert (await box.run(CALL.format("x"), check=False)).status == "error"


@both(more=["sync"])
async def test_approvals_end_with_the_box(tools):
    async with glovebox.AsyncClient(url_of(tools)) as client:
        box = await client.boxes.create(tools=["honest"], approvals=["*"])
        async with box.approvals.answering(lambda call: True):
            await client.boxes.get(box.id).delete()
        assert [call async for call in box.approvals] == []
