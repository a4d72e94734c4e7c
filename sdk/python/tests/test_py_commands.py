# SPDX-License-Identifier: Apache-2.0
"""Commands: waited for, followed, fed, signalled; and how they end badly."""
import pytest
from pysdk import both, url_of, warm_box  # noqa: F401

import glovebox
from server import needs_root, shared

pytestmark = needs_root

server = shared()


@both
async def test_programs_and_texts(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        done = await box.command(["printf", "%s", "a b"])
        assert (done.ok, done.status, done.exit_code, done.stdout, done.stderr, done.signal) == (True, "ok", 0, "a b", "", None)
        assert done.figures.wall_ms >= 0 and done.ended_at >= done.started_at
        assert (await box.sh("echo $A; pwd; cat", env={"A": "x"}, cwd="/tmp", stdin="given")).stdout == "x\n/tmp\ngiven"
        assert (await box.command("echo 1")).stdout == "1\n"
        assert (await box.sh("printf 'a\\xff'", binary=True)).stdout_bytes == b"a\xff"
        assert done.id in [one.id for one in await box.list_commands()]
        assert (await box.get_command(done.id).get()).stdout == "a b"


@both
async def test_one_that_fails(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        with pytest.raises(glovebox.CommandFailed) as caught:
            await box.sh("echo no, not so >&2; printf '\\033[2J' >&2; exit 3")
        error = caught.value
        assert error.exit_code == 3 and "exit code 3" in str(error) and "no, not so" in str(error) and "\x1b" not in str(error)
        assert error.result.stderr.endswith("\x1b[2J")
        done = await box.sh("exit 3", check=False)
        assert (done.ok, done.exit_code) == (False, 3)
        with pytest.raises(glovebox.CommandFailed, match="could not be started") as caught:
            await box.command(["no-such-program"])
        assert caught.value.exit_code is None
        with pytest.raises(glovebox.Crashed, match="signal 15") as caught:
            await box.sh("kill -TERM $$")
        assert caught.value.signal == 15
        with pytest.raises(glovebox.InvalidRequest, match="argv"):
            await box.command([])


@both
async def test_its_time_is_up(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        with pytest.raises(glovebox.TimedOut, match="killed after 0.2 s") as caught:
            await box.sh("echo begun; sleep 100", timeout=0.2)
        assert caught.value.result.stdout == "begun\n"


@both(more=["sync"])
async def test_out_of_memory(server):
    async with glovebox.AsyncBox(url=url_of(server), limits={"memory_bytes": 64 << 20, "workspace_bytes": 1 << 20, "scratch_bytes": 1 << 20,
                                                            "shm_bytes": 1 << 20}) as box:
        with pytest.raises(glovebox.OutOfMemory, match="64 MiB") as caught:
            await box.command(["python3", "-c", "a = b'x' * (1 << 29)"])
        assert caught.value.limit_bytes == 64 << 20


@both
async def test_events(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        stream = box.stream_command("echo a; echo b >&2; exit 2")
        seen = [event async for event in stream]
        assert [one.kind for one in seen][0] == "start" and seen[-1].kind == "end" and seen[-1].info.exit_code == 2
        assert {one.kind: one.text for one in seen if one.kind in ("stdout", "stderr")} == {"stdout": "a\n", "stderr": "b\n"}
        with pytest.raises(glovebox.CommandFailed):
            await stream.result()
        assert (await stream.result(check=False)).stdout == "a\n"


@both
async def test_a_conversation(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        said = ""
        async with box.stream_command(["cat"], stdin="first\n", stdin_open=True) as stream:
            async for event in stream:
                if event.kind == "stdout":
                    said += event.text
                    if said == "first\n":
                        await stream.write("second\n")
                    elif said.endswith("second\n"):
                        await stream.write(b"\xff", eof=True)
        assert said == "first\nsecond\n\ufffd"


@both
async def test_started_and_left_to_itself(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        command = await box.start_command(["bash", "-c", "trap 'echo got it; exit 7' USR1; echo ready; while :; do sleep 0.05; done"])
        async for event in command.events():
            if event.kind == "stdout" and "ready" in event.text:
                await command.signal("SIGUSR1")
        assert (await command.wait(check=False)).exit_code == 7
        command = await box.start_command(["cat"], stdin_open=True)
        await command.write("x")
        with pytest.raises(glovebox.StillRunning):
            await command.wait(0.1)
        await command.eof()
        assert (await command.wait()).stdout == "x"
        with pytest.raises(glovebox.Conflict) as caught:
            await command.signal(9)
        assert caught.value.code == "command_ended"
        command = await box.start_command("sleep 100")
        await command.cancel(grace=1)
        with pytest.raises(glovebox.Cancelled):
            await command.wait()


@both(more=["sync"])
async def test_much_output(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        done = await box.sh("head -c 3000000 /dev/zero | tr '\\0' x")
        assert len(done.stdout) == 3000000
        count = 0
        async for event in box.stream_command("head -c 3000000 /dev/zero | tr '\\0' x"):
            if event.kind == "stdout":
                count += len(event.text)
        assert count == 3000000
