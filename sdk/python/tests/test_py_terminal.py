# SPDX-License-Identifier: Apache-2.0
"""Terminals: keys in, bytes out, another size, left and found again."""
import pytest
from pysdk import both, url_of

import glovebox
from server import needs_root, shared

pytestmark = needs_root

server = shared()
tokens = shared(tokens={"one": "a-token-of-sixteen-and-more"})


@both
async def test_a_shell(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        async with box.terminal(columns=100, rows=40) as terminal:
            await terminal.write("stty size; echo $((6 * 7))\n")
            assert b"40 100\r\n" in await terminal.read_until("42\r\n", 20)
            await terminal.resize(120, 50)
            await terminal.write(b"stty size; echo $((6 * 8))\n")
            assert b"50 120\r\n" in await terminal.read_until(b"48\r\n", 20)
            with pytest.raises(TimeoutError):
                while True:
                    await terminal.read(0.3)
            assert terminal.exit is None
            await terminal.write("exit 3\n")
            rest = b"".join([piece async for piece in terminal])
            assert b"exit" in rest and (terminal.exit.exit_code, terminal.exit.signal) == (3, None)
            assert await terminal.read() == b""
            with pytest.raises(glovebox.Closed):
                await terminal.write("x")


@both(more=["sync"])
async def test_it_is_left_and_found_again(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        terminal = box.terminal()
        with pytest.raises(glovebox.GloveboxError, match="not open yet"):
            terminal.id
        await terminal.write("kept=5\necho $((kept + 1))\n")
        await terminal.read_until("6\r\n", 20)
        await terminal.close()
        await terminal.close()
        with pytest.raises(glovebox.ConnectionLost):
            await terminal.write("x")
        async with box.terminal(terminal.id) as again:
            assert again.id == terminal.id
            assert b"6\r\n" in await again.read(20), "what it said last"
            await again.write("echo $((kept + 2))\n")
            await again.read_until("7\r\n", 20)
            async with box.terminal(terminal.id) as third:
                assert b"7" in await third.read_until("7\r\n", 20)
                while await again.read(20):
                    pass
                assert again.exit is None, "somebody else looks at it"


@both(more=["sync"])
async def test_much_of_it(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        async with box.terminal() as terminal:
            await terminal.write("stty -echo raw; echo $((6 * 7))go; head -c 200000 | wc -c; stty sane\n")
            await terminal.read_until("42go", 20)
            await terminal.write(b"x" * 200_000)
            await terminal.read_until("200000", 30)
            await terminal.write("head -c 1000000 /dev/zero | tr '\\0' y; echo; echo $((1 + 1))end\n")
            found = await terminal.read_until("2end", 60, most=3_000_000)
            assert found.count(b"y") >= 1_000_000
            await terminal.write("head -c 1000000 /dev/zero | tr '\\0' y\n")
            with pytest.raises(glovebox.ProtocolError, match="most="):
                await terminal.read_until("nothing of it", 20, most=10_000)


@both
async def test_what_is_refused(server, tokens):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        with pytest.raises(glovebox.NotFound, match="tty") as caught:
            await box.terminal("no-such-terminal").read()
        assert caught.value.status == 404 and "terminal" in str(caught.value)
        shells = [await box.terminal().open() for _ in range(8)]
        with pytest.raises(glovebox.Busy):
            await box.terminal().open()
        for shell in shells:
            await shell.close()
    async with glovebox.AsyncBox(url=url_of(tokens), token="a-token-of-sixteen-and-more") as box:
        async with box.terminal() as terminal:
            await terminal.write("echo $((6 * 7))\n")
            await terminal.read_until("42\r\n", 20)
        async with glovebox.AsyncBox.connect(box.id, url=url_of(tokens), token="a-token-of-sixteen-and-more") as other:
            other._http.headers = [one for one in other._http.headers if one[0] != b"authorization"]
            with pytest.raises(glovebox.Unauthorized):
                await other.terminal().open()


@both
async def test_it_ends_with_its_box(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        box = await client.boxes.create()
        async with box.terminal() as terminal:
            await client.boxes.get(box.id).delete()
            with pytest.raises((glovebox.ConnectionLost, AssertionError)):
                while True:
                    assert await terminal.read(20)


@pytest.mark.more
def test_another_thread_ends_the_waiting(server):
    import threading

    with glovebox.Box(url=url_of(server)) as box:
        terminal = box.terminal().open()
        while True:
            try:
                terminal.read(0.5)
            except TimeoutError:
                break
        timer = threading.Timer(0.2, terminal.close)
        timer.start()
        assert terminal.read(20) == b""
        timer.join()
