# SPDX-License-Identifier: Apache-2.0
"""Connections and gates that are lost, answers that come late: what is done is done once, and a stream goes on behind its last event."""
import asyncio
import json
import threading
import time

import pytest
from pysdk import both, url_of

import glovebox
from between import HANGS, LOST, Between, refusal
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

server = shared(**WARM)


class Once:
    """A rule that holds for the first requests that it is meant for."""

    def __init__(self, way, method, ending, times=1):
        self.way, self.method, self.ending, self.times = way, method, ending, times

    def __call__(self, method, path, body):
        if self.times and method == self.method and path.partition("?")[0].endswith(self.ending):
            self.times -= 1
            return self.way
        return None


@both(more=["sync"])
async def test_an_answer_that_is_lost_is_asked_for_again(server):
    """And what it was about is done once: a box, a cell, a command."""
    with Between(server, Once(LOST, "POST", "/boxes", 2)) as between:
        async with glovebox.AsyncClient(between.url) as client:
            async with glovebox.AsyncBox(client=client) as box:
                assert len(await client.boxes.list()) == 1
                assert sum(path == "/v1/boxes" and method == "POST" for method, path, _ in between.seen) == 3
                await box.run("n = 0")
                between.rule = Once(LOST, "POST", "/cells", 2)
                assert (await box.run("n += 1; n")).text == "1" and (await box.run("n")).text == "1"
                between.rule = Once(LOST, "POST", "/commands", 2)
                assert (await box.sh("echo x >> f; cat f")).stdout == "x\n"
                between.rule = Once(LOST, "POST", "/cells")
                assert (await (await box.start("n += 1; n")).wait()).text == "2"
                between.rule = Once(LOST, "PUT", "/g")
                await box.files.write("g", "1")
                between.rule = Once(LOST, "GET", "/g")
                assert await box.files.read("g") == b"1"
                between.rule = Once(LOST, "DELETE", "/g")
                with pytest.raises(glovebox.FileMissing):
                    await box.files.delete("g")  # it was deleted the first time
                between.rule = Once(LOST, "DELETE", box.id, 2)
            assert await client.boxes.list() == []


@both
async def test_what_must_not_be_done_twice_is_not_repeated(server):
    with Between(server) as between:
        async with glovebox.AsyncBox(url=between.url) as box:
            cell = await box.start("input()", stdin=True)
            async for event in cell.events():
                if event.kind == "input":
                    between.rule = Once(LOST, "POST", "/input")
                    with pytest.raises(glovebox.ConnectionLost, match="may have been done"):
                        await cell.input("once")
            assert (await cell.wait()).text == "'once'"
            assert sum(path.endswith("/input") for _, path, _ in between.seen) == 1


@both(more=["sync"])
async def test_a_stream_goes_on_behind_its_last_event(server):
    code = "import time\nfor i in range(30):\n    print(i, flush=True); time.sleep(0.02)\n'end'"
    with Between(server) as between:
        async with glovebox.AsyncBox(url=between.url) as box:
            await box.run("1")
            for make in (lambda: box.stream(code), lambda: box.stream_command("for i in $(seq 0 29); do echo $i; sleep 0.02; done")):
                between.seen.clear()
                seen = []
                async for event in make():
                    seen.append(event)
                    if event.seq in (1, 3, 9, 10):
                        between.cut()
                assert [one.seq for one in seen] == list(range(1, len(seen) + 1)), "each once"
                assert "".join(one.text for one in seen if one.kind == "stdout") == "".join(f"{n}\n" for n in range(30))
                assert seen[-1].kind == "end" and not any(one.kind == "gap" for one in seen)
                assert sum(method == "POST" for method, _, _ in between.seen) == 1, "and begun once"


@both
async def test_a_stream_whose_beginning_is_lost(server):
    with Between(server, Once(LOST, "POST", "/cells")) as between:
        async with glovebox.AsyncBox(url=between.url) as box:
            await box.run("n = 0")
            between.rule = Once(LOST, "POST", "/cells")
            seen = [event async for event in box.stream("n += 1; n")]
            assert seen[-2].output.text == "1" and (await box.run("n")).text == "1"


@both(more=["sync"])
async def test_a_gap_is_told(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        stream = box.stream_command("for i in $(seq 70000); do echo $i; done", binary=True)
        async for event in stream:
            break
        await stream.result()
        seen = [event async for event in stream.command.events()]
        numbers = [one.seq for one in seen]
        assert numbers == sorted(set(numbers)) and seen[-1].kind == "end"
        for gap in (one for one in seen if one.kind == "gap"):
            assert gap.first <= gap.last


@pytest.mark.more
@both
async def test_a_gate_that_dies(serve):
    server = serve(**WARM)
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.run("x = 1")
        seen = []
        async for event in box.stream("import time\nfor i in range(20):\n    print(i, flush=True); time.sleep(0.03)"):
            seen.append(event)
            if event.seq in (3, 8):
                server.kill_gate()
        assert "".join(one.text for one in seen if one.kind == "stdout") == "".join(f"{n}\n" for n in range(20))
        cell = await box.start("import time; time.sleep(0.3); x + 1")
        old = server.kill_gate()
        assert (await cell.wait()).text == "2"
        server.next_gate(old)
        server.kill_gate()
        assert await box.files.list() == []
        async with box.files.watch() as watch:
            server.kill_gate()
            async for event in watch:
                assert event.kind == "overflow"
                break
            await box.files.write("f", "1")
            async for event in watch:
                assert (event.kind, event.path) == ("create", "f")
                break


@pytest.mark.more
@both
async def test_a_gate_that_dies_under_a_cell(serve):
    """Its answer is asked for again, by its key: run() says nothing of it."""
    server = serve(**WARM)
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.run("n = 0")
        killer = threading.Timer(0.3, server.kill_gate)
        killer.start()
        assert (await box.run("import time; time.sleep(0.8); n += 1; n")).text == "1"
        killer.join()
        assert (await box.run("n")).text == "1"


@pytest.mark.more
@both
async def test_the_server_is_busy_for_a_while(server):
    """What says Retry-After has done nothing: it is asked again, within the caller's time."""
    def busy(status, seconds):
        return refusal(status).replace(b"Content-Type", b"Retry-After: %d\r\nContent-Type" % seconds, 1)

    with Between(server, Once(busy(503, 0), "POST", "/boxes", 2)) as between:
        async with glovebox.AsyncBox(url=between.url) as box:
            await box.run("n = 0")
            between.rule = Once(busy(429, 0), "POST", "/cells", 2)
            assert (await box.run("n += 1; n")).text == "1"
            between.rule = Once(busy(429, 0), "POST", "/cells", 2)
            assert [event.kind async for event in box.stream("n")][-1] == "end"
    for status, kind in ((429, glovebox.Busy), (503, glovebox.Unavailable)):
        with Between(server, lambda *_: busy(status, 3)) as between:
            begun = time.monotonic()
            with pytest.raises(kind, match="again in 3 s") as caught:
                async with glovebox.AsyncBox(url=between.url, timeout=1):
                    pass
            assert caught.value.retry_after == 3 and time.monotonic() - begun < 3, "who has no time for that is told at once"


@both
async def test_no_answer(server):
    with Between(server, Once(HANGS, "GET", "/health", 9)) as between:
        async with glovebox.AsyncClient(between.url, timeout=0.3) as client:
            with pytest.raises(glovebox.ServerTimeout, match="no answer in 0.3 s") as caught:
                await client.health()
            assert isinstance(caught.value, TimeoutError)


@pytest.mark.more
@both
async def test_a_cell_that_says_nothing_for_long(server, monkeypatch):
    """It is asked whether anybody is there, and then waited for again; the silence of somebody who is gone has an end."""
    from glovebox._async import running
    from glovebox._sync import running as running_sync

    monkeypatch.setattr(running, "SILENCE_S", 0.15)
    monkeypatch.setattr(running_sync, "SILENCE_S", 0.15)
    with Between(server) as between:
        async with glovebox.AsyncBox(url=between.url, timeout=1) as box:
            await box.run("n = 0")
            between.seen.clear()
            assert (await box.run("import time; time.sleep(0.7); n += 1; n")).text == "1"
            assert sum(method == "POST" for method, _, _ in between.seen) > 2 and sum(method == "GET" for method, _, _ in between.seen) > 1
            between.rule = lambda method, path, body: HANGS if method != "DELETE" else None
            with pytest.raises(glovebox.ServerTimeout):
                await box.run("n")


def test_many_at_once(server):
    """One box, many tasks; one client, many threads."""
    import concurrent.futures

    async def main():
        async with glovebox.AsyncBox(url=url_of(server)) as box:
            found = await asyncio.gather(*(box.run(f"{n}") for n in range(40)))
            assert [one.text for one in found] == [str(n) for n in range(40)]

    asyncio.run(main())
    with glovebox.Box(url=url_of(server)) as box, concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert [one.stdout for one in pool.map(lambda n: box.sh(f"echo {n}"), range(24))] == [f"{n}\n" for n in range(24)]


def test_connections_are_kept(server):
    with Between(server) as between:  # it has one request on each
        with glovebox.Box(url=between.url) as box:
            box.run("1")
    assert all(json.loads(body) for method, path, body in between.seen if path.endswith("/cells"))
    with glovebox.Client(url_of(server)) as client:
        for _ in range(20):
            client.health()
        assert len(client._http.wire._idle) == 1


@pytest.mark.more
def test_an_idle_connection_that_was_closed(serve):
    """It is noticed before it is used, so that nothing has to be repeated that must not be."""
    server = serve(idle_timeout="1s")
    with glovebox.Box(url=url_of(server)) as box:
        cell = box.start("input()", stdin=True)
        until(lambda: cell.get().status == "running", "it runs")
        for event in cell.events():
            if event.kind == "input":
                break
        time.sleep(1.6)
        cell.input("x")
        assert cell.wait().text == "'x'"
