# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.sandbox_runtime: sessions of a server. What the original does wrong is not there."""
import asyncio
import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import textwrap
import threading
import time

import pytest
from pysdk import environment, private_place, python, url_of  # noqa: F401

from glovebox.compat.sandbox_runtime import SandboxError
from glovebox.compat.sandbox_runtime.sdk import servers
from glovebox.compat.sandbox_runtime.sdk.shared_env import SharedEnvSandbox
from glovebox.compat.sandbox_runtime.sdk.utils.common import safe_unescape
from server import needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

server = shared()
hurried = shared(se_timeout="1s")
guarded = shared(tokens={"alice": "alice-4f0d7a1c6e02b9"})


def with_session(url, work, session_id="a b/c", **more):
    """work(sandbox) with a session, which is gone afterwards."""
    async def go():
        async with SharedEnvSandbox(session_id, servers=[url], **more) as sandbox:
            return await work(sandbox)

    return asyncio.run(go())


def sessions_of(server):
    return set(server.call("GET", "/workspace/se/workspaces")[1]["workspaces"])


@contextlib.contextmanager
def other_server(answer, status=200):
    """One that is not ours: it says the same to everything."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            self.server.heard.append(self.path)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as instead:
        instead.heard = []
        thread = threading.Thread(target=instead.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{instead.server_address[1]}", instead.heard
        finally:
            instead.shutdown()
            thread.join()


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def error_of(awaitable):
    with pytest.raises(SandboxError) as caught:
        await awaitable
    return caught.value


# --- a program of theirs, with one import changed --------------------------------------------------------------------


PROGRAM = """
    import asyncio, sys, uuid
    from pathlib import Path
    from {prefix}sandbox_runtime.sdk.shared_env import SharedEnvSandbox

    async def main():
        sandbox = SharedEnvSandbox(session_id=str(uuid.uuid4()), {servers})
        try:
            await sandbox.create_file("print('from a file')", "hello.py")
            print([one["filename"] for one in await sandbox.list_files()])
            print((await sandbox.read_file("hello.py"))["content"])
            print((await sandbox.execute("python3", "hello.py"))["stdout"], end="")
            result = await sandbox.execute_code("import sys\\nprint(f'hello {{sys.argv[1]}}')", filename="greet.py", args=["world"])
            print(result["returncode"], result["stdout"], end="")
            Path("in.txt").write_text("up and down")
            print((await sandbox.upload_file(Path("in.txt")))["size"])
            print(await sandbox.download_file("in.txt", Path("out/in.txt")), Path("out/in.txt").read_text())
            result = await sandbox.execute_code("a = 1\\nb = [1, {{'c': 2}}]", output_params=["a", "b"])
            print(result["output_variables"])
            print("ZeroDivisionError" in (await sandbox.execute_code("print(1/0)"))["stderr"])
            print((await sandbox.get_status())["exists"])
            try:
                await sandbox.read_file("nothing.txt")
            except Exception as e:
                print("File not found" in str(e))
        finally:
            await sandbox.close()

    asyncio.run(main())
"""
SAID = """['hello.py']\nprint('from a file')\nfrom a file\n0 hello world\n11\nTrue up and down\n{'a': 1, 'b': [1, {'c': 2}]}\nTrue\nTrue\nTrue\n"""


def test_a_program_with_a_server(server, tmp_path):
    done = python(PROGRAM.format(prefix="glovebox.compat.", servers=f"servers=[{url_of(server)!r}]"), cwd=tmp_path)
    assert done.stdout == SAID, done.stdout + done.stderr
    assert sessions_of(server) == set(), "close() deletes the session"


def test_a_program_without_a_server(tmp_path, private_place):  # noqa: F811
    """Nobody listens at the default address: a private one, with what the original has as network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLOVEBOX_SE_ALLOW_NETWORK", "false")
        done = python(PROGRAM.format(prefix="glovebox.compat.", servers=""), cwd=tmp_path)
    assert done.stdout == SAID, done.stdout + done.stderr


def test_the_default_addresses(server, monkeypatch):
    """GLOVEBOX_URL first, then where the original looks."""
    monkeypatch.setattr(servers, "DEFAULT_PORT", server.port)
    monkeypatch.setattr(servers, "DEFAULT_HOST", "127.0.0.1")

    async def where():
        async with SharedEnvSandbox("x") as sandbox:
            await sandbox.get_status()
            return sandbox.current_server

    assert asyncio.run(where()) == url_of(server)
    monkeypatch.setattr(servers, "DEFAULT_PORT", closed_port())
    monkeypatch.setenv("GLOVEBOX_URL", url_of(server))
    assert asyncio.run(where()) == url_of(server)


# --- its methods -----------------------------------------------------------------------------------------------------


def test_files(server, tmp_path):
    big = tmp_path / "big"
    big.write_bytes(bytes(range(256)) * 4096)

    async def work(sandbox):
        assert await sandbox.create_session() == {"session_id": "a b/c"}
        assert await sandbox.create_file("x", "d/e/ü 1.sh", 0o755) == {"filename": "d/e/ü 1.sh", "size": 1}
        assert await sandbox.create_file("", "top.txt") == {"filename": "top.txt", "size": 0}
        assert await sandbox.upload_file(str(big), "q/b.bin") == {"filename": "q/b.bin", "size": 1 << 20}
        assert [one["filename"] for one in await sandbox.list_files()] == ["top.txt"]
        assert {one["filename"] for one in await sandbox.list_files(recursive=True)} == {"d/e/ü 1.sh", "top.txt", "q/b.bin"}
        assert [one["type"] for one in await sandbox.list_files("d/e")] == ["sh"]
        assert (await sandbox.execute("stat -c %a 'd/e/ü 1.sh'"))["stdout"] == "755\n"
        assert await sandbox.download_file("q/b.bin", tmp_path / "new/folder/b") is True
        assert (tmp_path / "new/folder/b").read_bytes() == big.read_bytes()
        piece = await sandbox.read_file("q/b.bin", offset=10, buffer_size=20)
        assert piece["is_binary"] and piece["offset"] == 30 and piece["size"] == 1 << 20 and not piece["is_eof"]
        status = await sandbox.get_status()
        assert status["exists"] and len(status["files"]) == 3
        assert await sandbox.delete_session() is True and await sandbox.delete_session() is True
        assert (await sandbox.get_status())["exists"] is False

    with_session(url_of(server), work)


def test_what_runs(server):
    async def work(sandbox):
        assert await sandbox.execute("printf 'a\\n=== EXIT CODE ===\\nb'; exit 3") == {"stdout": "a\n=== EXIT CODE ===\nb", "stderr": "", "returncode": 3}
        assert (await sandbox.execute("echo", "a; echo b", "$HOME"))["stdout"] == "a; echo b $HOME\n", "arguments are arguments"
        assert (await sandbox.execute_code("echo $1; exit 2", script_type="shell", args=["x"])) == {"stdout": "x\n", "stderr": "", "returncode": 2}
        result = await sandbox.execute_code("n = float('nan')\nd = {1: object}\nprint(1)", output_params=["n", "d", "missing"])
        assert result["output_variables"]["n"] is None and "missing" not in result["output_variables"] and set(result) == {"stdout", "stderr", "returncode", "output_variables"}
        assert (await sandbox.execute_code("1/0", output_params=["n"]))["output_variables"] == {}
        # Beside each other: one waits for the other.
        both = await asyncio.gather(*(sandbox.execute("echo $$") for _ in range(3)))
        assert len({one["stdout"] for one in both}) == 3

    with_session(url_of(server), work)


def test_code_is_not_spoilt(server):
    """Escapes stay what they are, and what came as the inside of a literal becomes what was meant."""
    async def work(sandbox):
        assert (await sandbox.execute_code("print('a\\nb', r'\\d', '''c''', \"\\\\\")"))["stdout"] == "a\nb \\d c \\\n"
        assert (await sandbox.execute_code("x = 1\\nprint(x)"))["stdout"] == "1\n"
        assert (await sandbox.execute_code("printf 'a\\tb'", script_type="shell"))["stdout"] == "a\tb"

    with_session(url_of(server), work)


@pytest.mark.parametrize("code,meant", [("x = 1\\nprint(x)", "x = 1\nprint(x)"), ('s = \\"a\\"\\nprint(s)', 's = "a"\nprint(s)'), ("print('\\n')", "print('\\n')"), ("no python \\n at all", "no python \\n at all"),
                                        ("x = '''\\n'''", "x = '''\\n'''"), ("\\", "\\"), ("a\\x", "a\\x"), ("(" * 5000 + "\\n", "(" * 5000 + "\\n"), ("x\0\\n", "x\0\\n")])
def test_unescaping(code, meant):
    assert safe_unescape(code) == meant


# --- which server ----------------------------------------------------------------------------------------------------


def test_other_programs_choose_the_same_server(server):
    """And only what a server had goes elsewhere when it is gone."""
    with other_server({"status": "success"}) as (first, _), other_server({"result": {"status": "success"}, "full_result": {}}) as (second, _):
        urls = [first, second, url_of(server)]

        async def chosen(name, among):
            client, _ = await servers.choose(name, among, 5)
            await client.close()
            return client.url

        async def all_of(among):
            return {name: await chosen(name, among) for name in map(str, range(12))}

        mine = asyncio.run(all_of(urls))
        assert len(set(mine.values())) == 3
        there = python(f"""
            import asyncio
            from glovebox.compat.sandbox_runtime.sdk import servers
            async def main():
                print(",".join([(await servers.choose(str(n), {urls[::-1]!r}, 5))[0].url for n in range(12)]))
            asyncio.run(main())
        """, env={"PYTHONHASHSEED": "1"}).stdout.strip().split(",")
        assert there == list(mine.values())
        left = asyncio.run(all_of([*urls[:2], f"http://127.0.0.1:{closed_port()}"]))
        assert all(left[name] == url for name, url in mine.items() if url in urls[:2])


def test_instances_share_no_servers(server):
    one, two = SharedEnvSandbox("x", servers=[url_of(server)]), SharedEnvSandbox("y", server_selector_params={"servers": ["http://b"]})
    assert (one.servers, two.servers, SharedEnvSandbox("z").servers) == ([url_of(server)], ["http://b"], [])


@pytest.mark.parametrize("words,said", [({"session_id": ""}, "session_id is required"), ({"server_selector_type": "k8s"}, "address of the service"), ({"servers": "http://x"}, "list of addresses"),
                                        ({"server_selector_params": {"namespace": "x"}}, "namespace")])
def test_what_makes_no_sense_is_said_at_once(words, said):
    with pytest.raises(ValueError, match=said):
        SharedEnvSandbox(**{"session_id": "x", **words})


def test_an_original_server_of_the_old_kind():
    """Everything in \"result\", and once more."""
    with other_server({"result": {"status": "success", "files": [{"filename": "a"}], "stdout": "x"}, "full_result": {}}) as (url, heard):
        async def work(sandbox):
            assert await sandbox.list_files(recursive=True) == [{"filename": "a"}]
            assert (await sandbox.execute("x"))["stdout"] == "x"

        with_session(url, work)
        assert "/workspace/se/files/a%20b%2Fc/?recursive=true" in heard and heard[-1] == "/workspace/se/session/a%20b%2Fc"


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


def test_time_and_memory(hurried):
    async def work(sandbox):
        error = await error_of(sandbox.execute("echo begun; sleep 60"))
        assert "Execution timed out" in str(error) and "what is in the session stays; se_timeout" in str(error)
        assert error.context["err_msg"]["detail"]["stdout"] == "begun\n", "what it had printed"
        assert (await sandbox.execute("pgrep -c sleep"))["stdout"] == "0\n", "it was killed"
        answer = await sandbox.execute_code("b = bytearray(1 << 30)")
        assert answer["returncode"] == 137 and "may use 131072 KiB" in answer["stderr"] and "SANDBOX_MEMORY_LIMIT" in answer["stderr"] and "largest process had" in answer["stderr"]

    with_session(url_of(hurried), work)


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
