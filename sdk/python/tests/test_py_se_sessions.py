# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.sandbox_runtime: sessions of a server. What the original does wrong is not there."""
import asyncio

import pytest
from pysdk import private_place, python, url_of  # noqa: F401
from se_sessions import Heard, closed_port, other_server, sessions_of, with_session

from glovebox.compat.sandbox_runtime.sdk import servers
from glovebox.compat.sandbox_runtime.sdk.shared_env import SharedEnvSandbox
from glovebox.compat.sandbox_runtime.sdk.utils.common import safe_unescape
from server import needs_root, shared

pytestmark = needs_root

server = shared()


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
    with other_server({"status": "success"}) as (url, _):
        monkeypatch.setattr(servers, "DEFAULT_PORT", int(url.rpartition(":")[2]))
        monkeypatch.setenv("GLOVEBOX_TOKEN", "a-token-of-another-server")
        assert asyncio.run(where()) == url and not any("authorization" in one.lower() for one in Heard.heads), "whoever that is, it is not told"
        monkeypatch.delenv("GLOVEBOX_TOKEN")
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
            return {name: await chosen(name, among) for name in map(str, range(60))}

        mine = asyncio.run(all_of(urls))
        assert len(set(mine.values())) == 3
        there = python(f"""
            import asyncio
            from glovebox.compat.sandbox_runtime.sdk import servers
            async def main():
                print(",".join([(await servers.choose(str(n), {urls[::-1]!r}, 5))[0].url for n in range(60)]))
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
