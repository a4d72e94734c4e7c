# SPDX-License-Identifier: Apache-2.0
"""Containers of glovebox.compat.ipybox, however a program ends or goes wrong: no box is left. And what they refuse."""
import asyncio
import os
import signal
import socket
import time

import pytest
from pysdk import python, url_of
from test_py_private import background, boxes_of, descendants, directories, ended, line_of, wait_for_no_boxes

import glovebox as sdk
from glovebox.compat.ipybox import DEFAULT_TAG, ExecutionClient, ExecutionContainer, ResourceClient
from glovebox.compat.ipybox import executor as executors
from glovebox.compat.ipybox.resource import client as resources
from server import WARM, Server, needs_root, until

pytestmark = needs_root
more = pytest.mark.more


@pytest.fixture(scope="module")
def server(glovebox, tmp_path_factory):
    """With what looks after networks, and directories that may be mounted."""
    with Server(tmp_path_factory.mktemp("serve"), mount_root=[tmp_path_factory.getbasetemp()], **WARM) as server, sdk.Client(url_of(server)) as client:
        until(lambda: "kernel" in client.health()["warm"], "the image of a kernel")
        with sdk.Box(client=client, network="open") as box:
            box.run("pass")
        yield server


@pytest.fixture(autouse=True)
def address(server, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", url_of(server))


PROGRAM = """
import asyncio, os, signal, sys, time
from glovebox.compat.ipybox import ExecutionClient, ExecutionContainer

async def main():
    async with ExecutionContainer() as container:
        async with ExecutionClient(port=container.executor_port) as client:
            print("here", flush=True)
            {body}

{end}
"""


def program(body, end="asyncio.run(main())", **kw):
    process = background(PROGRAM.format(body=body, end=end), **kw)
    line_of(process)
    return process


# --- the program ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["cell", pytest.param("sleep", marks=more), pytest.param("begin", marks=more)])
def test_ctrl_c(server, where):
    body = {"cell": "await client.execute('import time; time.sleep(1000)')",}.get(where, "await asyncio.sleep(1000)")
    process = program(body) if where != "begin" else background(PROGRAM.format(body=body, end="print('here', flush=True)\nasyncio.run(main())"))
    if where == "begin":
        line_of(process)
    time.sleep(0.2 if where != "begin" else 0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode in (-signal.SIGINT, 130), (process.returncode, said)
    assert said.rstrip().endswith("KeyboardInterrupt") and "exception ignored" not in said.lower() and "never retrieved" not in said, said
    wait_for_no_boxes(server)


@pytest.mark.parametrize("how", ["loop", *(pytest.param(one, marks=more) for one in ("exception", "exit", "task"))])
def test_nothing_is_left(server, how):
    """An event loop that is closed under it, an exception, an exit, a task that nobody awaits."""
    loop = "loop = asyncio.new_event_loop()\nbegun = loop.create_future()\ntask = loop.create_task(main())\nloop.run_until_complete(begun)\n"
    body, end, status = {
        "loop": ("begun.set_result(None)\n            await asyncio.sleep(1000)", loop + "loop.close()", 0),
        "exception": ("1 / 0", "asyncio.run(main())", 1),
        "exit": ("sys.exit(3)", "asyncio.run(main())", 3),
        "task": ("await asyncio.sleep(1000)", "async def other():\n    task = asyncio.create_task(main())\n    await asyncio.sleep(3)\nasyncio.run(other())", 0),
    }[how]
    process = program(body, end)
    _, said = process.communicate(timeout=30)
    assert process.returncode == status, said
    assert boxes_of(server) == []


@pytest.mark.parametrize("how", ["kill", pytest.param("term", marks=more), pytest.param("os._exit", marks=more)])
def test_a_program_that_is_killed_with_a_private_server(how, tmp_path):
    before = directories()
    body = f"assert (await client.execute('open(\"d/f\", \"w\").close()')).text is None\n            {'os._exit(3)' if how == 'os._exit' else 'await asyncio.sleep(1000)'}"
    text = PROGRAM.format(body=body, end="asyncio.run(main())").replace("ExecutionContainer()", f"ExecutionContainer(binds={{{str(tmp_path / 'd')!r}: 'd'}})")
    process = background(text.replace("await asyncio.sleep", "print('there', flush=True)\n            await asyncio.sleep"), env={"GLOVEBOX_URL": ""})
    line_of(process)
    family = descendants(process.pid)
    if how != "os._exit":
        line_of(process)
        process.send_signal({"kill": signal.SIGKILL, "term": signal.SIGTERM}[how])
    process.communicate(timeout=30)
    ended(family)
    until(lambda: directories() == before, "its directory is gone")
    assert (tmp_path / "d/f").exists()


def test_a_process_that_is_forked(server):
    """It ends nothing of its parent's, says so where it is asked for something, and may have containers of its own."""
    done = python("""
        import asyncio, os, glovebox
        from glovebox.compat.ipybox import ExecutionClient, ExecutionContainer

        async def own(port):
            async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port) as client, ExecutionClient(port=port) as parents:
                return (await client.execute("3")).text + (await parents.execute("4")).text

        async def main():
            async with ExecutionContainer() as container:
                async with ExecutionClient(port=container.executor_port) as client:
                    child = os.fork()
                    if child == 0:
                        try:
                            asyncio.events._set_running_loop(None)
                            async def inside():
                                for call in (client.execute("1"), container.init_firewall()):
                                    try:
                                        await call
                                    except (glovebox.WrongProcess, RuntimeError) as e:
                                        assert "belongs to process" in str(e), e
                                    else:
                                        os._exit(1)
                                await client.disconnect()
                                await container.kill()
                                return await own(container.executor_port)
                            os._exit(0 if asyncio.run(inside()) == "34" else 2)
                        finally:
                            os._exit(3)
                    await asyncio.sleep(0)
                    assert os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, child, 0))[1]) == 0
                    print((await client.execute("6 * 7")).text)
        asyncio.run(main())
    """, env={"GLOVEBOX_URL": url_of(server)})
    assert done.stdout == "42\n"
    assert boxes_of(server) == []


def test_cancelled_tasks(server):
    async def work(begun, what):
        async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port) as client:
            begun.set()
            if what == "execute":
                await client.execute("import time; time.sleep(1000)")
            await asyncio.sleep(1000)

    async def main():
        for what in ("execute", "sleep"):
            begun = asyncio.Event()
            task = asyncio.ensure_future(work(begun, what))
            await begun.wait()
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        for delay in (0, 0.002, 0.01, 0.02, 0.05):
            task = asyncio.ensure_future(work(asyncio.Event(), "sleep"))
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    wait_for_no_boxes(server)


def test_a_cancelled_execution_is_interrupted(server):
    async def main():
        async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port) as client:
            task = asyncio.ensure_future(client.execute("x = 1\nimport time; time.sleep(1000)"))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.execute("x")).text == "1"

    asyncio.run(main())


def test_code_behind_code_that_fails(server):
    """A kernel does not run it then; that is no result."""
    async def main():
        async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port) as client:
            first, second = await client.submit("import time; time.sleep(0.3); 1 / 0"), await client.submit("2")
            with pytest.raises(executors.ExecutionError, match="^ZeroDivisionError: division by zero$"):
                await first.result()
            with pytest.raises(executors.ExecutionError, match="^Aborted: "):
                await second.result()
            assert (await first.result()).text is None

    asyncio.run(main())


def test_an_exception_in_the_block(server):
    async def main():
        async with ExecutionContainer() as container:
            async with ExecutionClient(port=container.executor_port), ResourceClient(port=container.resource_port):
                with sdk.Client(url_of(server)) as client:
                    (info,) = client.boxes.list(metadata={"made_by": "ipybox"})  # `glovebox ipybox cleanup` would find it
                    assert info.ports == (container.executor_port, container.resource_port)
                raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(main())
    assert boxes_of(server) == []


@more
def test_it_lives_as_long_as_it_is_needed(tmp_path, monkeypatch):
    """Also while the program blocks its loop; one that was killed says nothing any more, and its box goes."""
    with Server(tmp_path / "s", box_ttl_default="2s", box_idle_default="2s", **WARM) as server:
        async def main():
            async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port) as client:
                time.sleep(5)  # pylint: disable=blocking-call
                return (await client.execute("1 + 1")).text

        monkeypatch.setenv("GLOVEBOX_URL", url_of(server))
        assert asyncio.run(main()) == "2"
        process = program("await asyncio.sleep(1000)")
        process.kill()
        process.communicate()
        wait_for_no_boxes(server)


# --- what it refuses -----------------------------------------------------------------------------------------------------


def failing(container):
    async def main():
        with pytest.raises(Exception) as caught:
            async with container:
                pytest.fail("it was made")
        return caught.value

    return asyncio.run(main())


def test_a_server_that_is_not_there(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    monkeypatch.setenv("GLOVEBOX_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setattr("glovebox._async.http.PAUSES", (0.0, 0.01))
    error = failing(ExecutionContainer())
    assert isinstance(error, sdk.ServerUnreachable) and "glovebox serve" in str(error)

    async def clients():
        for client, kind, text in ((ExecutionClient(port), executors.ConnectionError, "Failed to create kernel"),
                                   (ResourceClient(port, connect_retries=2, connect_retry_interval=0), resources.ConnectionError, "Failed to connect to resource server")):
            with pytest.raises(kind, match=text):
                await (client.connect(retries=2, retry_interval=0) if isinstance(client, ExecutionClient) else client.connect())

    asyncio.run(clients())


def test_tags(server):
    error = failing(ExecutionContainer(tag="someone/my-box:v1"))
    assert isinstance(error, sdk.InvalidRequest) and error.field == "environment" and "'someone/my-box:v1' means the environment 'my-box-v1'" in str(error)

    async def main():
        for tag in (DEFAULT_TAG, "ghcr.io/gradion-ai/ipybox:0.6.7", "gradion-ai/ipybox"):
            async with ExecutionContainer(tag=tag):
                pass

    asyncio.run(main())
    assert boxes_of(server) == []


def test_binds_of_a_server_that_has_an_address(server, tmp_path):
    """It says which directories may be shown; what is below one of them is found."""
    for one in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        one.chmod(0o755)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/f").write_text("1")

    async def main():
        binds = {str(tmp_path / "new"): "data/new", str(tmp_path / "there"): "fixed:ro"}
        async with ExecutionContainer(binds=binds) as container, ExecutionClient(port=container.executor_port) as client:
            await client.execute("open('data/new/f', 'w').write('2')")
            assert (await client.execute("open('fixed/f').read()")).text == "'1'"
            with pytest.raises(executors.ExecutionError, match="Read-only"):
                await client.execute("open('fixed/f', 'w')")

    asyncio.run(main())
    assert (tmp_path / "new/f").read_text() == "2" and (tmp_path / "there/f").read_text() == "1"
    error = failing(ExecutionContainer(binds={"/etc": "etc"}))
    assert isinstance(error, sdk.InvalidRequest) and error.field == "mounts[0].root" and "mount_root" in str(error)
    assert boxes_of(server) == []


def test_ports(server):
    with socket.create_server(("127.0.0.1", 0)) as s:
        taken = s.getsockname()[1]
        error = failing(ExecutionContainer(executor_port=taken))
        assert isinstance(error, sdk.Conflict) and error.code == "port_taken"

    async def main():
        container = ExecutionContainer(executor_port=taken)
        assert container.executor_port == taken
        for call in (lambda: container.resource_port, lambda: ExecutionContainer().executor_port):
            with pytest.raises(RuntimeError, match="^Container not running$"):
                call()
        with pytest.raises(RuntimeError, match="^Container not running$"):
            await container.init_firewall()
        await container.kill()
        await container.run()
        await container.run()  # the first is killed
        assert container.executor_port == taken and len(boxes_of(server)) == 1
        with pytest.raises(RuntimeError, match="Failed to initialize firewall: .*http://no"):
            await container.init_firewall(["http://no"])
        await container.init_firewall(["example.org", "10.1.0.0/16"])
        with sdk.Client(url_of(server)) as client:
            network = client.boxes.list()[0].network
            assert (network.policy, list(network.rules)) == ("allow", ["example.org", "10.1.0.0/16"])
        await container.kill()
        await container.kill()
        assert container.executor_port == taken
        with pytest.raises(RuntimeError, match="^Container not running$"):
            await container.init_firewall()

    asyncio.run(main())
    assert boxes_of(server) == []


def test_paths_that_lead_out(server, tmp_path):
    (tmp_path / "f").write_text("x")

    async def main():
        async with ExecutionContainer() as container, ResourceClient(port=container.resource_port) as client:
            for call in (client.upload_file("../out", tmp_path / "f"), client.download_file("a/../../etc/passwd", tmp_path / "g"), client.delete_file("%2e%2e/x")):
                with pytest.raises(sdk.ApiError) as caught:
                    await call
                assert caught.value.status in (400, 404), caught.value
            assert not (tmp_path / "g").exists() and os.listdir(tmp_path) == ["f"]

    asyncio.run(main())


@more
def test_tokens(glovebox, tmp_path, monkeypatch):
    """Clients find that of a container by its port; another program says it with the host."""
    token = "a-token-for-ipybox-0123456789"
    with Server(tmp_path / "s", tokens={"one": token}, **WARM) as server:
        monkeypatch.setenv("GLOVEBOX_URL", url_of(server))
        assert isinstance(failing(ExecutionContainer()), sdk.Unauthorized)
        monkeypatch.setenv("GLOVEBOX_TOKEN", token)

        async def main():
            async with ExecutionContainer() as container, ExecutionClient(port=container.executor_port) as client, ResourceClient(port=container.resource_port):
                done = python(f"""
                    import asyncio, sys
                    from glovebox.compat.ipybox import ExecutionClient
                    from glovebox.compat.ipybox.executor import ConnectionError
                    async def main():
                        async with ExecutionClient(port={container.executor_port}, host="gb:{token}@localhost") as client:
                            print((await client.execute("5")).text)
                        try:
                            await ExecutionClient(port={container.executor_port}).connect()
                        except ConnectionError as e:
                            assert "Unauthorized" in repr(e.__cause__), repr(e)
                    asyncio.run(main())
                """, env={"GLOVEBOX_TOKEN": ""})
                return (await client.execute("4")).text + done.stdout

        assert asyncio.run(main()) == "45\n"
