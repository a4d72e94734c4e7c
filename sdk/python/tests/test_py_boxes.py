# SPDX-License-Identifier: Apache-2.0
"""Boxes: made, found, kept, ended; and what is said when there is none."""
import datetime

import httpx
import pytest
from pysdk import both, url_of

import glovebox
from server import needs_root, shared

pytestmark = needs_root

server = shared()
tokens = shared(tokens={"one": "a-token-of-sixteen-and-more", "two": "another-token-of-that-size"})


@both
async def test_a_box_is_made_and_ended(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        async with glovebox.AsyncBox(client=client, name="mine", metadata={"team": "blue"}, ttl=600, idle=99.5, limits={"memory_bytes": 256 << 20},
                                     env={"A": "b"}, files={"d/x.txt": "hello", "y": b"\xff"}) as box:
            info = await box.info()
            assert (info.id, info.name, info.metadata, info.ttl_seconds, info.idle_seconds) == (box.id, "mine", {"team": "blue"}, 600, 100)
            assert info.limits["memory_bytes"] == 256 << 20 and info.state == "ready" and "seccomp" in info.layers
            assert isinstance(info.created_at, datetime.datetime) and info.expires_at > info.created_at
            assert (await box.sh("cat d/x.txt; echo $A")).stdout == "hellob\n"
            assert await box.files.read("y") == b"\xff"
            assert [one.id for one in await client.boxes.list(metadata={"team": "blue"})] == [box.id]
            assert (await box.figures()).wall_ms > 0
        assert await client.boxes.list() == []
        with pytest.raises(glovebox.Closed, match="was closed by this program"):
            await box.run("1")


@both
async def test_one_that_is_there_is_found_and_left_alone(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        made = await client.boxes.create(name="found")
        for reference in (made.id, "found", "name:found"):
            async with glovebox.AsyncBox.connect(reference, client=client) as box:
                assert box.id == made.id
        async with client.boxes.get("found") as box:
            assert (await box.info()).name == "found"
        async with glovebox.AsyncBox.connect("found", url=url_of(server), delete_on_exit=True) as box:
            pass
        assert await client.boxes.list() == []


@both
async def test_one_that_was_created_ends_with_its_context_only(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        box = await client.boxes.create()
        assert len(await client.boxes.list()) == 1
        async with box:
            pass
        assert await client.boxes.list() == []
        box = await client.boxes.create()
        await box.delete()
        await box.close()
        assert await client.boxes.list() == []


@both
async def test_it_is_made_when_it_is_first_used(server):
    box = glovebox.AsyncBox(url=url_of(server))
    with pytest.raises(glovebox.GloveboxError, match="not made yet"):
        box.id
    assert (await box.sh("echo 1")).stdout == "1\n"
    assert len(box.id) == 26
    await box.close()
    await box.close()


@both
async def test_lists_have_pages(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        made = [await client.boxes.create(metadata={"n": str(n)}) for n in range(3)]
        assert [one.id for one in await client.boxes.list(most=2)] == [one.id for one in made[:2]]
        assert [one.id for one in await client.boxes.list(state="ready")] == [one.id for one in made]
        for box in made:
            await box.delete()


@both
async def test_its_time_is_extended(server):
    async with glovebox.AsyncBox(url=url_of(server), ttl=60) as box:
        before = await box.info()
        after = await box.extend(ttl=1200, idle=30, metadata={"a": "b"})
        assert (after.ttl_seconds, after.idle_seconds, after.metadata) == (1200, 30, {"a": "b"}) and after.expires_at > before.expires_at
        assert (await box.extend()).ttl_seconds == 1200


@both
async def test_one_that_has_ended_says_why_and_when(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        box = await client.boxes.create()
        await (client.boxes.get(box.id)).delete()
        with pytest.raises(glovebox.BoxGone) as caught:
            await box.run("1")
        gone = caught.value
        assert (gone.reason, gone.status, gone.code) == ("deleted", 410, "gone")
        assert box.id in str(gone) and "deleted" in str(gone) and "make another box" in str(gone)
        assert abs(gone.when - datetime.datetime.now(datetime.timezone.utc)) < datetime.timedelta(minutes=2)
        assert gone.when.strftime("%H:%M:%S") in str(gone)
        with pytest.raises(glovebox.BoxGone):
            async with client.boxes.get(box.id):
                pytest.fail("it is not there")


@both
async def test_its_own_end_is_no_trouble(server):
    """Whoever leaves a box that has ended meanwhile is told nothing."""
    async with glovebox.AsyncClient(url_of(server)) as client:
        async with glovebox.AsyncBox(client=client) as box:
            await client.boxes.get(box.id).delete()


@both
async def test_refusals_say_what_and_where(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        with pytest.raises(glovebox.InvalidRequest) as caught:
            await client.boxes.create(limits={"memory_bytes": 1 << 40})
        assert caught.value.field == "limits.memory_bytes" and "box_max_memory" in str(caught.value) and "POST /v1/boxes" in str(caught.value)
        with pytest.raises(glovebox.InvalidRequest, match="limits.nonsense"):
            await client.boxes.create(limits={"nonsense": 1})
        async with await client.boxes.create(name="taken") as box:
            with pytest.raises(glovebox.NameTaken) as caught:
                await client.boxes.create(name="taken")
            assert caught.value.box_id == box.id
        with pytest.raises(glovebox.NotFound, match="there is no box 'name:nobody'"):
            await client.boxes.get("nobody").info()
        with pytest.raises(glovebox.InvalidRequest, match="ttl is -1"):
            await client.boxes.create(ttl=-1)
        with pytest.raises(glovebox.InvalidRequest, match="half a character"):
            await client.boxes.create(name="\ud800")
    with pytest.raises(glovebox.Closed, match="client was closed"):
        await client.boxes.list()


def test_names_are_checked_before_they_are_asked_for():
    for wrong in ("", "a/b", "A", "x" * 64, "name:", "name:a b", "é"):
        with pytest.raises(glovebox.InvalidRequest, match="neither the id of a box nor a name"):
            glovebox.Box.connect(wrong)


@both
async def test_tokens(tokens):
    url = url_of(tokens)
    with pytest.raises(glovebox.Unauthorized, match="GLOVEBOX_TOKEN") as caught:
        async with glovebox.AsyncBox(url=url):
            pass
    assert caught.value.status == 401
    with pytest.raises(glovebox.Unauthorized):
        async with glovebox.AsyncBox(url=url, token="a-wrong-token-of-that-size"):
            pass
    async with glovebox.AsyncBox(url=url, token="a-token-of-sixteen-and-more\n") as box:
        assert "a-token-of" not in repr(box)
        async with glovebox.AsyncClient(url.replace("//", "//gb:another-token-of-that-size@")) as other:
            assert "another" not in repr(other)
            with pytest.raises(glovebox.NotFound):
                await other.boxes.get(box.id).info()
    with pytest.raises(glovebox.InvalidRequest, match="no token has"):
        glovebox.AsyncClient(url, "a token")


def test_url_and_token_of_the_environment(tokens, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", url_of(tokens))
    monkeypatch.setenv("GLOVEBOX_TOKEN", "a-token-of-sixteen-and-more")
    with glovebox.Box() as box:
        assert box.sh("echo 1").stdout == "1\n"


@both
async def test_nobody_is_there(tmp_path):
    for url in ("http://127.0.0.1:9", f"unix:{tmp_path}/socket"):
        with pytest.raises(glovebox.ServerUnreachable, match="is the server running") as caught:
            async with glovebox.AsyncBox(url=url, timeout=0.3):
                pass
        assert caught.value.url == url and isinstance(caught.value, ConnectionError)


def test_addresses_that_are_none():
    for wrong, why in (("127.0.0.1:8000", "no scheme|none of http"), ("ftp://x", "'ftp'"), ("http://", "no host"), ("unix:relative", "not absolute"),
                       ("unix:/" + "x" * 200, "107 bytes"), ("http://x:99999", "port"), ("http://x/?a=b", "query"), ("http://a b", "blank")):
        with pytest.raises(glovebox.InvalidRequest, match=why):
            glovebox.Client(wrong)


@both
async def test_health_and_openapi(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        assert (await client.health())["status"] == "ok"
        assert "/v1/boxes" in (await client.openapi())["paths"]


@both
async def test_by_a_transport_of_httpx(server, tmp_path):
    """As for a proxy: calls, streams and files go through it."""
    async with httpx.AsyncHTTPTransport() as transport:
        async with glovebox.AsyncClient(url_of(server), transport=transport) as client, glovebox.AsyncBox(client=client) as box:
            assert (await box.run("1 + 1")).text == "2"
            assert [event.kind async for event in box.stream("1")][-1] == "end"
            await box.files.write("a b/%", iter([b"x" * 100_000, b"y"]))
            assert await box.files.read("a b/%") == b"x" * 100_000 + b"y"
            async with box.files.open("a b/%") as file:
                await file.chunk()
            assert (await box.files.download_dir("a b", tmp_path / "d")).files == 1
            with pytest.raises(glovebox.FileMissing):
                await box.files.read("nothing")


@both
async def test_ports_for_ipybox_and_another_directory(server):
    async with glovebox.AsyncBox(url=url_of(server), ports=True, environment="python") as box:
        info = await box.info()
        assert info.ports is not None and all(1024 <= port < 65536 for port in info.ports) and info.workdir == "/app"
        assert (await box.sh("pwd")).stdout == "/app\n"
    with pytest.raises(glovebox.InvalidRequest, match="client="):
        glovebox.AsyncBox(client=glovebox.AsyncClient(url_of(server)), url=url_of(server))
