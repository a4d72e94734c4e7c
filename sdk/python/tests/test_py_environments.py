# SPDX-License-Identifier: Apache-2.0
"""client.environments: what boxes can be made of."""
import pytest
from pysdk import both, url_of

import glovebox
from server import needs_root, shared

pytestmark = [needs_root, pytest.mark.more]

server = shared(environment_builds=True)
strict = shared()


@both
async def test_built_used_and_removed(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        assert [one.name for one in await client.environments.list()] == ["default"]
        made = await client.environments.build("mine", imports=["colorsys"])
        assert (made.name, made.kind, made.cells, made.ready) == ("mine", "packages", True, 0) and made.created_at is not None
        assert [one.name for one in await client.environments.list()] == ["default", "mine"]
        async with glovebox.AsyncBox(client=client, environment="mine") as box:
            assert (await box.run("import sys; sys.prefix")).text == "'/opt/environment'"
        await client.environments.remove("mine")
        with pytest.raises(glovebox.InvalidRequest, match="environment"):
            async with glovebox.AsyncBox(client=client, environment="mine"):
                pass


@both
async def test_what_cannot_be_built(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        with pytest.raises(glovebox.BuildFailed, match="no-such") as failed:
            await client.environments.build("bad", ["no-such @ file:///nowhere/no-such-1.0-py3-none-any.whl"])
        assert "no-such" in failed.value.log
        assert [one.name for one in await client.environments.list()] == ["default"]
        for name, requirements in (("Bad Name", []), ("../x", []), ("default", []), ("x", ["-r /etc/passwd"])):
            with pytest.raises(glovebox.InvalidRequest):
                await client.environments.build(name, requirements)
        with pytest.raises(glovebox.NotFound):
            await client.environments.get("bad")
        with pytest.raises(glovebox.NotFound):
            await client.environments.remove("bad")


@both
async def test_somebody_has_to_allow_it(strict):
    async with glovebox.AsyncClient(url_of(strict)) as client:
        with pytest.raises(glovebox.Forbidden, match="environment_builds"):
            await client.environments.build("mine")


@both
async def test_who_does_not_want_to_wait(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        with pytest.raises(glovebox.StillRunning, match="build_info"):
            await client.environments.build("slow", timeout=0.01)
        with pytest.raises(glovebox.Conflict, match="one at a time"):
            await client.environments.start_build("other")
        state = await client.environments.build_info("slow", wait=20)
        while state.status == "running":
            state = await client.environments.build_info("slow", wait=20)
        assert state.status == "ok" and "Python 3" in state.log and state.ended_at is not None
        await client.environments.remove("slow")
