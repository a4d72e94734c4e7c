# SPDX-License-Identifier: Apache-2.0
"""Forks: boxes with the same variables and files, each on its own from then on."""
import pytest
from pysdk import both, url_of

import glovebox
from server import WARM, needs_root, shared

pytestmark = needs_root

server = shared(**WARM)


@both
async def test_a_fork_is_a_box_of_its_own(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        async with glovebox.AsyncBox(client=client, metadata={"a": "b"}) as box:
            await box.run("import threading\ntried = []; open('f', 'w').write('x')\nt = threading.Thread(target=threading.Event().wait, name='waits', daemon=True); t.start()")
            async with await box.fork("second", ttl=100) as fork:
                assert fork.lost == ("thread waits",) and fork.id != box.id
                info = await fork.info()
                assert (info.name, info.ttl_seconds, info.metadata) == ("second", 100, {"a": "b"})
                assert (await fork.run("tried.append(1); tried, open('f').read()")).text == "([1], 'x')"
            assert (await box.run("tried")).text == "[]"
            assert [one.id for one in await client.boxes.list()] == [box.id]


@both
async def test_several_at_once(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        async with glovebox.AsyncBox(client=client) as box:
            await box.run("x = 1")
            forks = await box.forks(3, metadata={"of": "it"})
            for i, fork in enumerate(forks):
                assert (await fork.run(f"x += {i}; x")).text == str(1 + i) and (await fork.info()).metadata == {"of": "it"}
            for fork in forks:
                await fork.close()
            assert len(await client.boxes.list()) == 1


@both
async def test_what_is_refused_says_why(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        async with glovebox.AsyncBox(client=client) as box:
            await box.run("import mmap; m = mmap.mmap(-1, 4096); m[:1] = b'x'")
            with pytest.raises(glovebox.GloveboxError, match="shared mapping"):
                await box.fork()
            with pytest.raises(glovebox.GloveboxError, match="count"):
                await box.forks(0)
            assert len(await client.boxes.list()) == 1
