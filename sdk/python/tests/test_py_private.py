# SPDX-License-Identifier: Apache-2.0
"""The private server: there when it is needed, gone with the program, in whatever way that ends; and what becomes of boxes of other servers."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import stat_of
from pysdk import both, environment, python, url_of

import glovebox
from glovebox import _server
from server import WARM, needs_root, shared, until

pytestmark = needs_root

server = shared(**WARM)


def background(code, *words, env=None, **kw):
    """A program of a user, which goes on; it says a line when it has come to where the test wants it."""
    return subprocess.Popen(["/usr/bin/python3", "-u", "-c", textwrap.dedent(code), *map(str, words)], env=environment(env), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)


def descendants(pid):
    """{pid: start} of what descends from a process, minders included: those have the same process as parent."""
    table = {int(one): stat_of(one) for one in os.listdir("/proc") if one.isdigit()}
    found = {}
    for one, stat in table.items():
        above = one
        while table.get(above) and above != pid:
            above = table[above][0]
        if stat and above == pid and one != pid:
            found[one] = stat[1]
    return found


def ended(family):
    until(lambda: not any((stat_of(pid) or (0, 0))[1] == start and stat_of(pid)[2] != "Z" for pid, start in family.items()), f"{family} have ended")


def line_of(process):
    line = process.stdout.readline().strip()
    if not line:
        process.kill()
        pytest.fail(process.communicate()[1][-4000:])
    return line


def directories():
    return {one for one in os.listdir("/tmp") if one.startswith("glovebox-python-")}


def boxes_of(server):
    with glovebox.Client(url_of(server)) as client:
        return [one.id for one in client.boxes.list()]


def wait_for_no_boxes(server):
    until(lambda: not boxes_of(server), "the boxes have ended")


# --- it just works ---------------------------------------------------------------------------------------------------


@both
async def test_it_just_works():
    async with glovebox.AsyncBox() as box:
        assert (await box.run("1 + 1")).text == "2"
        directory = pathlib.Path(box._client.url[5:]).parent
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not directory.exists() and _server._current is None


@both
async def test_all_clients_of_a_process_share_it():
    async with glovebox.AsyncClient() as first:
        async with glovebox.AsyncClient() as second, glovebox.AsyncBox() as box:
            assert first.url == second.url == box._client.url
            assert [one.id for one in await second.boxes.list()] == [box.id]
        assert await first.boxes.list() == []
    assert _server._current is None


@pytest.mark.more
def test_many_threads_start_one():
    import concurrent.futures

    def work(_):
        with glovebox.Box() as box:
            return box._client.url, box.sh("echo 1").stdout

    with glovebox.Client() as client, concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(8))) == {(client._server.url if client._server else client.health() and client.url, "1\n")}


@pytest.mark.more
def test_a_server_that_was_killed_is_told_and_replaced():
    with glovebox.Client() as client:
        client.health()
        family = descendants(client._server._minder.pid)
        os.kill(next(pid for pid in family if stat_of(pid)[0] == client._server._minder.pid), signal.SIGKILL)
        ended(family)
        with pytest.raises(glovebox.ServerUnreachable, match="the private server of this process has ended"):
            client.health()
        with glovebox.Box() as box:
            assert box.sh("echo 1").stdout == "1\n"


@pytest.mark.more
def test_environment_of_the_user_reaches_it(monkeypatch, tmp_path):
    monkeypatch.setenv("GLOVEBOX_MOUNT_ROOT", str(tmp_path))
    monkeypatch.setenv("GLOVEBOX_BOX_MEMORY", "300M")
    monkeypatch.setenv("GLOVEBOX_TOKEN", "local:a-token-of-a-server")
    (tmp_path / "f").write_text("mounted")
    tmp_path.chmod(0o755)
    with glovebox.Box(mounts=[{"root": str(tmp_path), "at": "/mnt/x"}]) as box:
        assert box.sh("cat /mnt/x/f").stdout == "mounted"
        assert box.info().limits["memory_bytes"] == 300 << 20


# --- what cannot be started ------------------------------------------------------------------------------------------


def test_no_program(monkeypatch, tmp_path):
    monkeypatch.setenv("GLOVEBOX_PROGRAM", "/no/such/program")
    with pytest.raises(glovebox.NoServer, match="GLOVEBOX_PROGRAM is '/no/such/program'"):
        glovebox.Box().open()
    monkeypatch.delenv("GLOVEBOX_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(_server, "__file__", "/x.py")
    with pytest.raises(glovebox.NoServer, match="make install.*GLOVEBOX_PROGRAM.*GLOVEBOX_URL"):
        glovebox.Box().open()
    monkeypatch.setattr(_server, "__file__", glovebox.__file__.replace("__init__", "_server"))
    if (pathlib.Path(_server.__file__).parents[4] / "build/glovebox").exists():
        assert _server.find_program().endswith("build/glovebox"), "next to a source tree"


def test_a_program_that_does_not_start(monkeypatch, tmp_path):
    before = directories()
    bad = tmp_path / "bad"
    for text, why in (("#!/bin/sh\necho 'glovebox: no such luck' >&2; printf '\\033[2J' >&2; exit 3\n", "no such luck"), ("#!/bin/sh\nexit 3\n", "it said nothing"),
                      ("#!/bin/sh\necho something else\nexec sleep 100\n", "said nothing")):
        bad.write_text(text)
        bad.chmod(0o755)
        monkeypatch.setenv("GLOVEBOX_PROGRAM", str(bad))
        with pytest.raises(glovebox.NoServer, match=why) as caught:
            glovebox.Box().open()
        assert "\x1b" not in str(caught.value) and "doctor" in str(caught.value)
    assert directories() == before


@pytest.mark.more
def test_nowhere_to_put_it(monkeypatch):
    monkeypatch.setattr(_server.os, "access", lambda *_: False)
    monkeypatch.setenv("GLOVEBOX_PROGRAM", sys.executable)
    monkeypatch.setattr(_server.shutil, "which", lambda name: name)
    with pytest.raises(glovebox.NoServer, match="TMPDIR"):
        glovebox.Box().open()


# --- how programs end --------------------------------------------------------------------------------------------------


BEGIN = """
import glovebox, os, sys, time
box = glovebox.Box(url=os.environ.get("URL")).open()
box.run("import threading; threading.Thread(target=lambda: __import__('time').sleep(1000)).start()")
print(box._client.url, flush=True)
"""


@pytest.mark.parametrize("how", ["kill", "exception", *(pytest.param(one, marks=pytest.mark.more) for one in ("term", "int", "exit", "os._exit", "exec", "segfault"))])
def test_nothing_is_left_of_a_program(how):
    before = directories()
    ends = {"exit": "sys.exit(3)", "os._exit": "os._exit(3)", "exec": "os.execv('/bin/true', ['true'])", "exception": "1/0", "segfault": "os.kill(os.getpid(), 11)"}
    process = background(BEGIN + f"sys.stdin.readline()\n{ends.get(how, '')}\n")
    line_of(process)
    family = descendants(process.pid)
    assert len(family) > 4, "a minder, a server, a box"
    if how in ends:
        process.stdin.write("\n")
        process.stdin.flush()
    else:
        process.send_signal({"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}[how])
    process.communicate(timeout=30)
    ended(family)
    until(lambda: directories() == before, "its directory is gone")


@pytest.mark.more
def test_the_minder_is_killed():
    """Then the kernel tells the server, and the program hears that it has none."""
    with glovebox.Client() as client:
        client.health()
        family, minder = descendants(client._server._minder.pid), client._server._minder
        directory = pathlib.Path(client._server.directory)
        minder.kill()
        ended(family)
        with pytest.raises(glovebox.ServerUnreachable):
            client.health()
    for path in (directory / "log", directory / "socket"):
        path.unlink(missing_ok=True)
    subprocess.run(["rm", "-r", "--one-file-system", str(directory)], check=True)


@pytest.mark.parametrize("how", ["exit", *(pytest.param(one, marks=pytest.mark.more) for one in ("exception", "int", "term"))])
def test_boxes_elsewhere_end_with_the_program(server, how):
    """At its exit; those of one that is killed have their idle time."""
    ends = {"exit": "", "exception": "1/0"}
    process = background(BEGIN + f"sys.stdin.readline()\n{ends.get(how, '')}\n", env={"URL": url_of(server)})
    line_of(process)
    assert len(boxes_of(server)) == 1
    if how in ends:
        process.stdin.write("\n")
        process.stdin.flush()
    else:
        process.send_signal({"term": signal.SIGTERM, "int": signal.SIGINT}[how])
    process.communicate(timeout=30)
    if how == "term":  # no Python runs any more
        with glovebox.Client(url_of(server)) as client:
            client.boxes.get(boxes_of(server)[0]).delete()
    assert boxes_of(server) == []


@pytest.mark.more
def test_what_was_created_to_stay_stays(server):
    python("""
        import glovebox, sys
        with glovebox.Client(sys.argv[1]) as client:
            client.boxes.create(name="stays")
            glovebox.Box(client=client).open()
    """, url_of(server))
    assert len(boxes_of(server)) == 1
    with glovebox.Box.connect("stays", url=url_of(server), delete_on_exit=True):
        pass


# --- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize("where", ["cell", "create", *(pytest.param(one, marks=pytest.mark.more) for one in ("command", "stream", "input", "watch", "terminal", "sleep", "wait"))])
def test_ctrl_c(server, form, where):
    """In the middle of something: the exception is that of Python, and no box is left."""
    await_ = "await " if form == "async" else ""
    with_, for_ = ("async with", "async for") if form == "async" else ("with", "for")
    sleep = "asyncio.sleep(1000)" if form == "async" else "__import__('time').sleep(1000)"
    body = {
        "cell": f"{await_}box.run('import time; time.sleep(1000)')",
        "command": f"{await_}box.sh('sleep 1000')",
        "stream": f"{for_} event in box.stream('import time; time.sleep(1000)'): pass",
        "input": f"{await_}box.run('input()', stdin=lambda event: {sleep})",
        "create": f"{await_}box.run('1')",
        "watch": f"{for_} event in box.files.watch(): pass",
        "terminal": f"{for_} piece in box.terminal(): pass",
        "sleep": f"{await_}{sleep}",
        "wait": f"{await_}({await_}box.start('import time; time.sleep(1000)')).wait()",
    }[where]
    box = "AsyncBox" if form == "async" else "Box"
    main = f"""
{'async ' if form == 'async' else ''}def main():
    if {where == "create"!r}:
        print("here", flush=True)
    {with_} glovebox.{box}(url={url_of(server)!r}) as box:
        if {where != "create"!r}:
            {await_}box.run("1")
            print("here", flush=True)
        {body}
        if {where == "create"!r}:
            {await_}{sleep}
"""
    run = "asyncio.run(main())" if form == "async" else "main()"
    process = background(f"import asyncio, glovebox\n{main}\n{run}\n")
    line_of(process)
    time.sleep({"create": 0.02}.get(where, 0.2))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode in (-signal.SIGINT, 130), (process.returncode, said)
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert "exception ignored" not in said.lower() and "never retrieved" not in said, said
    wait_for_no_boxes(server)


@pytest.mark.more
def test_ctrl_c_in_a_loop_leaves_the_state(server):
    """As somebody at a prompt has it: the cell is interrupted, and the box goes on."""
    process = background(f"""
        import glovebox
        with glovebox.Box(url={url_of(server)!r}) as box:
            box.run("import time; x = 5")
            print("here", flush=True)
            try:
                box.run("print('begun'); time.sleep(1000)")
            except KeyboardInterrupt:
                pass
            print(box.list_cells()[-1].status, box.run("x").text, flush=True)
    """)
    line_of(process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert out.strip() == "interrupted 5", (out, said)


# --- asyncio -----------------------------------------------------------------------------------------------------------


def test_cancelled_tasks(server):
    import asyncio

    async def work(begun, what):
        async with glovebox.AsyncBox(url=url_of(server)) as box:
            await box.run("1")
            begun.set()
            if what == "run":
                await box.run("import time; time.sleep(1000)")
            elif what == "stream":
                async for _ in box.stream("import time; time.sleep(1000)"):
                    pass
            else:
                await asyncio.sleep(1000)

    async def main():
        for what in ("run", "stream", "sleep"):
            begun = asyncio.Event()
            task = asyncio.ensure_future(work(begun, what))
            await begun.wait()
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        for delay in (0, 0.001, 0.005, 0.01, 0.02):
            task = asyncio.ensure_future(work(asyncio.Event(), "run"))
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work(asyncio.Event(), "run"), 0.8)
        # Again while it is left.
        begun = asyncio.Event()
        task = asyncio.ensure_future(work(begun, "sleep"))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    wait_for_no_boxes(server)


@pytest.mark.more
def test_cancelling_one_of_several_leaves_the_others(server):
    import asyncio

    async def main():
        async with glovebox.AsyncBox(url=url_of(server)) as box:
            code = "import asyncio\nawait asyncio.sleep(0.8)\n7"
            tasks = [asyncio.ensure_future(box.run(code, kernel=name)) for name in ("main", "main", "other")]
            await asyncio.sleep(0.2)
            tasks[2].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [one.text for one in results[:2]] == ["7", "7"] and isinstance(results[2], asyncio.CancelledError)
            # Two that are alike: neither is touched, for nobody knows which it was.
            tasks = [asyncio.ensure_future(box.run(code)) for _ in range(2)]
            await asyncio.sleep(0.2)
            tasks[0].cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError) and results[1].text == "7"

    asyncio.run(main())


def test_a_loop_that_is_closed_too_early(server):
    """The box of a coroutine that nobody went on with."""
    done = python(f"""
        import asyncio, glovebox, sys
        async def main(url):
            box = glovebox.AsyncBox(url=url)
            await box.open()
            await box.run("1")
            return box
        boxes = [asyncio.run(main(None)), asyncio.run(main({url_of(server)!r}))]
        # In another loop it goes on.
        async def again():
            print((await boxes[0].run("2")).text, (await boxes[1].run("3")).text)
        asyncio.run(again())
        loop = asyncio.new_event_loop()
        box = loop.run_until_complete(main({url_of(server)!r}))
        task = loop.create_task(box.run("import time; time.sleep(1000)"))
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()
    """)
    assert done.stdout.strip() == "2 3" and boxes_of(server) == []


@pytest.mark.more
def test_a_client_goes_from_loop_to_loop(server):
    import asyncio

    client = glovebox.AsyncClient(url_of(server))
    for _ in range(3):
        assert asyncio.run(client.health())["status"] == "ok"
    asyncio.run(client.close())


def test_what_is_forgotten_is_let_go_of():
    """By the garbage collector: with a word for those who want to hear it."""
    with pytest.warns(ResourceWarning, match="never closed"):
        box = glovebox.Box().open()
        family = descendants(box._client._server._minder.pid)
        minder = box._client._server._minder
        del box
        import gc

        gc.collect()
    ended(family)
    minder.wait(20)
    from glovebox import _owner

    _owner._boxes.clear()


# --- fork --------------------------------------------------------------------------------------------------------------


def test_a_process_that_was_forked(server):
    """It ends nothing of its parent's, is told so, and may have a server of its own."""
    done = python(f"""
        import glovebox, os, sys
        with glovebox.Box() as near, glovebox.Box(url={url_of(server)!r}) as far, glovebox.Client() as client:
            near.run("x = 1"); far.run("x = 2"); client.health()
            for _ in range(2):
                pid = os.fork()
                if pid == 0:
                    for call in (lambda: near.run("1"), lambda: far.files.read("x"), client.health, lambda: far.terminal().open(), near.info):
                        try:
                            call()
                            os._exit(1)
                        except glovebox.WrongProcess as e:
                            assert "forked" in str(e)
                    with glovebox.Box() as own:
                        assert own._client.url != near._client.url and own.run("5").text == "5"
                    near.close(); far.close(); client.close()
                    sys.exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            print(near.run("x").text, far.run("x").text)
    """)
    assert done.stdout.strip() == "1 2", done.stderr


@pytest.mark.more
def test_a_child_does_not_keep_the_server_alive():
    """Its end of the pipe is closed: when the parent is killed the server ends, whatever its children do."""
    process = background(BEGIN + "pid = os.fork()\nif pid == 0:\n    time.sleep(1000)\nprint(pid, flush=True)\ntime.sleep(1000)\n")
    line_of(process)
    child = int(line_of(process))
    family = descendants(process.pid)
    start = family.pop(child)
    process.kill()
    process.wait()
    ended(family)
    os.kill(child, signal.SIGKILL)
    ended({child: start})
    process.communicate()


@pytest.mark.more
def test_multiprocessing(server):
    python(f"""
        import multiprocessing, glovebox
        def work(n):
            with glovebox.Box(url={url_of(server)!r}) as box:
                return int(box.run(f"{{n}} ** 2").text)
        if __name__ == "__main__":
            with glovebox.Box(url={url_of(server)!r}) as box:
                box.run("1")
                for how in ("fork", "spawn"):
                    if how == "fork":
                        with multiprocessing.get_context(how).Pool(2) as pool:
                            assert pool.map(work, range(4)) == [0, 1, 4, 9]
                assert box.run("2").text == "2"
    """)
    wait_for_no_boxes(server)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes an ordinary user")
def test_a_machine_that_cannot_make_boxes_says_so_at_once():
    """Nobody else is on a private server who could make room: it is not waited for."""
    uid = 54324
    try:
        done = python(f"""
            import glovebox, os, sys, time
            os.setgroups([]); os.setgid({uid}); os.setuid({uid})
            os.environ["HOME"] = "/nonexistent"
            begun = time.monotonic()
            try:
                with glovebox.Box() as box:
                    print(box.run("1 + 1").text)
            except (glovebox.Unavailable, glovebox.NoServer) as e:
                assert "doctor" in str(e), e
                print(2 if time.monotonic() - begun < 9 else "late")
        """)
    finally:
        shutil.rmtree(f"/tmp/glovebox-{uid}", ignore_errors=True)  # lock files stay in it on purpose
    assert done.stdout.strip() == "2"
