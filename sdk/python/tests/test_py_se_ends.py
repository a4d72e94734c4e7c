# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.sandbox_runtime: what goes wrong with sessions, and how programs end."""
import asyncio
import json
import os
import signal
import subprocess
import textwrap
import time

import pytest
from pysdk import environment, private_place, python, url_of  # noqa: F401
from se_sessions import closed_port, error_of, other_server, sessions_of, with_session

from glovebox.compat.sandbox_runtime.sdk.shared_env import SharedEnvSandbox
from server import needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

server = shared()
hurried = shared(se_timeout="1s")
guarded = shared(tokens={"alice": "alice-4f0d7a1c6e02b9"})


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_no_server():
    async def main():
        with other_server({"detail": "no"}, 500) as (bad, _), other_server({"x": 1}) as (odd, _):
            dead = f"http://any:a-secret@127.0.0.1:{closed_port()}"
            error = await error_of(SharedEnvSandbox("x", servers=[dead, bad, odd, "nonsense"]).execute("ls"))
            for said in ("No available server", "nobody answers", "`glovebox serve` starts one", bad, "not that it is healthy", "it has no scheme"):
                assert said in str(error), error
            assert "a-secret" not in str(error) and "a-secret" not in json.dumps(error.to_dict())

    asyncio.run(main())


def test_wrong_token(guarded):
    async def main():
        for url in (url_of(guarded), url_of(guarded).replace("//", "//any:wrong-token-1234567@")):
            error = await error_of(SharedEnvSandbox("x", servers=[url]).execute("ls"))
            assert "token" in str(error) and "wrong-token" not in str(error), error
        right = url_of(guarded).replace("//", "//any:alice-4f0d7a1c6e02b9@")
        async with SharedEnvSandbox("x", servers=[right]) as sandbox:
            assert (await sandbox.execute("echo 1"))["stdout"] == "1\n"

    asyncio.run(main())


def test_refusals(server, tmp_path):
    async def work(sandbox):
        await sandbox.create_session("1M")
        (tmp_path / "big").write_bytes(bytes(2 << 20))
        there = tmp_path / "there"
        there.write_text("as it was")
        rows = [(sandbox.create_session(), 409, "already exists"), (sandbox.read_file("nothing"), 404, "File not found"), (sandbox.download_file("nothing", there), 404, "File not found"),
                (sandbox.create_file("x", "../x"), 400, "Invalid file path"), (sandbox.create_file(3, "x"), 422, "content: Input should be a valid string"),
                (sandbox.execute_code("1", script_type="perl"), 422, "perl"), (sandbox.upload_file(tmp_path / "big"), 413, "No space"), (sandbox.upload_file(tmp_path / "none"), None, "File not found"),
                (sandbox.download_file("x", "/proc/nowhere/x"), None, "cannot be written"), (sandbox.read_file("\udcff"), None, "half a character"),
                (sandbox.download_from_efast([{"docid": "x"}], token="t"), 503, "efast_url")]
        for call, status, said in rows:
            error = await error_of(call)
            assert said in str(error) and error.context.get("status") == status, (str(error), error.context)
            assert error.to_dict()["message"] == error.message == str(error)
        assert there.read_text() == "as it was" and sorted(one.name for one in tmp_path.iterdir()) == ["big", "there"], "no part is left"

    with_session(url_of(server), work)


def test_time(hurried):
    async def work(sandbox):
        error = await error_of(sandbox.execute("echo begun; sleep 60"))
        assert "Execution timed out" in str(error) and "what is in the session stays; se_timeout" in str(error)
        assert error.context["err_msg"]["detail"]["stdout"] == "begun\n", "what it had printed"
        assert (await sandbox.execute("pgrep -c sleep"))["stdout"] == "0\n", "it was killed"

    with_session(url_of(hurried), work)


def test_memory(server):
    async def work(sandbox):
        answer = await sandbox.execute_code("b = bytearray(1 << 30)")
        assert answer["returncode"] == 137 and "may use 131072 KiB" in answer["stderr"] and "SANDBOX_MEMORY_LIMIT" in answer["stderr"] and "largest process had" in answer["stderr"]

    with_session(url_of(server), work)


def test_a_session_that_was_ended(server):
    """Under a command; and before, where the name makes another one, as it does for everybody."""
    async def work(sandbox):
        await sandbox.create_file("x", "f")
        running = asyncio.ensure_future(sandbox.execute("sleep 60"))
        await asyncio.sleep(0.2)
        await SharedEnvSandbox("a b/c", servers=[url_of(server)]).delete_session()
        assert "the box has ended: deleted" in str(await error_of(running))
        assert await sandbox.list_files() == []

    with_session(url_of(server), work)


@pytest.mark.more
def test_a_server_that_goes_away(serve):
    server = serve()

    async def main():
        sandbox = SharedEnvSandbox("x", servers=[url_of(server)])
        await sandbox.get_status()
        server.stop()
        error = await error_of(sandbox.execute("ls"))
        assert "nobody answers" in str(error) or "connection broke" in str(error), error
        assert "No available server" in str(await error_of(sandbox.execute("ls")))
        await sandbox.close()

    asyncio.run(main())


def test_answers_that_lie():
    for answer in ({"status": "success", "files": 3}, {"status": "success", "files": ["x"]}, {"status": "success"}):
        with other_server(answer) as (url, _):
            with_session(url, lambda sandbox: error_of(sandbox.list_files()))


# --- how programs end ------------------------------------------------------------------------------------------------


def test_cancelled(server):
    """A session that is made just now is ended; what close() is asked for is done, also in a task that is cancelled twice."""
    async def main():
        for delay in (0, 0.002, 0.01, 0.05):
            making = asyncio.ensure_future(SharedEnvSandbox("new", servers=[url_of(server)]).create_session())
            await asyncio.sleep(delay)
            done = making.done()
            making.cancel()
            await asyncio.sleep(0)
            making.cancel()
            await asyncio.wait({making})
            if done:
                await SharedEnvSandbox("new", servers=[url_of(server)]).delete_session()
            assert "new" not in sessions_of(server), delay

        async def work():
            async with SharedEnvSandbox("other", servers=[url_of(server)]) as sandbox:
                await sandbox.create_session()
                begun.set()
                await sandbox.execute("sleep 60")

        begun = asyncio.Event()
        task = asyncio.ensure_future(work())
        await begun.wait()
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sessions_of(server) == set()

    asyncio.run(main())


def test_ctrl_c(server):
    process = subprocess.Popen(["/usr/bin/python3", "-u", "-c", textwrap.dedent(f"""
        import asyncio
        from glovebox.compat.sandbox_runtime import SharedEnvSandbox
        async def main():
            sandbox = SharedEnvSandbox("x", servers=[{url_of(server)!r}])
            try:
                await sandbox.create_session()
                print("here")
                await sandbox.execute("sleep 60")
            finally:
                await sandbox.close()
        asyncio.run(main())
    """)], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert said.rstrip().endswith("KeyboardInterrupt") and "never retrieved" not in said, said
    until(lambda: sessions_of(server) == set(), "the session has ended")


def test_a_fork_and_another_loop(server):
    """A child has no part in the parent's server, and what it closes is not ended."""
    done = python(f"""
        import asyncio, os
        from glovebox.compat.sandbox_runtime import SandboxError, SharedEnvSandbox
        sandbox = SharedEnvSandbox("x", servers=[{url_of(server)!r}])
        asyncio.run(sandbox.create_file("1", "f"))
        if os.fork() == 0:
            try:
                asyncio.run(sandbox.list_files())
            except SandboxError as e:
                assert "forked" in str(e)
                asyncio.run(sandbox.close())
                own = SharedEnvSandbox("x", servers=[{url_of(server)!r}])
                os._exit(len(asyncio.run(own.list_files())) + 4)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        async def work():
            print(len(await sandbox.list_files()))
            await sandbox.close()
        asyncio.run(work())
    """)
    assert done.stdout.split() == ["5", "1"] and sessions_of(server) == set(), done.stdout + done.stderr


@pytest.mark.more
def test_a_private_server_ends_with_its_program(private_place):  # noqa: F811
    python("""
        import asyncio
        from glovebox.compat.sandbox_runtime import SharedEnvSandbox
        loop = asyncio.new_event_loop()
        sandbox = SharedEnvSandbox("x")
        task = loop.create_task(sandbox.execute("sleep 60"))
        loop.run_until_complete(asyncio.sleep(1))
        loop.close()
    """, env={"GLOVEBOX_SE_ALLOW_NETWORK": "false"})
    assert not os.listdir(private_place)
