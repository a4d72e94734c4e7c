# SPDX-License-Identifier: Apache-2.0
"""Files of a box: read and written in every way, listed, moved, deleted, watched."""
import datetime
import io
import pathlib

import pytest
from pysdk import both, url_of, warm_box  # noqa: F401

import glovebox
from server import needs_root, shared

pytestmark = needs_root

server = shared()


@both
async def test_written_and_read(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        entry = await box.files.write("a/b.txt", "Grüße\n", mode=0o600)
        assert (entry.path, entry.type, entry.size, entry.mode, entry.is_file, entry.is_dir) == ("a/b.txt", "file", 8, 0o600, True, False)
        assert isinstance(entry.mtime, datetime.datetime) and entry.target is None
        assert await box.files.read("a/b.txt") == "Grüße\n".encode() and await box.files.read_text("a/b.txt") == "Grüße\n"
        assert await box.files.read("/workspace/a/./b.txt", start=4, length=2) == b"\xc3\x9f" and await box.files.read("a/b.txt", length=0) == b""
        assert await box.files.read(pathlib.PurePosixPath("a/b.txt"), start=6) == b"e\n"
        assert (await box.files.write("a/b.txt", b"")).size == 0 and await box.files.read(b"a/b.txt") == b""
        assert "debian" in (await box.files.read_text("/etc/os-release")).lower()
        await box.files.write("latin", b"\xe4")
        with pytest.raises(glovebox.GloveboxError, match="no text in utf-8 .at byte 0"):
            await box.files.read_text("latin")
        assert await box.files.read_text("latin", encoding="latin-1") == "ä" and await box.files.read_text("latin", errors="replace") == "\ufffd"


@both(more=["sync"])
async def test_all_kinds_of_content(server, tmp_path):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        large = bytes(range(256)) * 4096
        for content in (large, bytearray(large), io.BytesIO(large), iter([large[:1000], b"", large[1000:]])):
            await box.files.write("f", content)
            assert await box.files.read("f") == large
        (tmp_path / "local").write_bytes(large)
        with open(tmp_path / "local", "rb") as file:
            file.seek(5)
            assert (await box.files.write("f", file)).size == len(large) - 5
        assert await box.files.read("f", start=len(large) - 7) == large[-2:]
        for wrong, why in ((iter(["text"]), "not str"), (io.StringIO("text"), "not bytes")):
            with pytest.raises(glovebox.InvalidRequest, match=why):
                await box.files.write("wrong", wrong)
        assert not await box.files.exists("wrong"), "what was cut leaves nothing"


def test_pieces_that_are_awaited(server):
    import asyncio

    async def pieces():
        for n in range(3):
            await asyncio.sleep(0)
            yield b"%d" % n

    async def main():
        async with glovebox.AsyncBox(url=url_of(server)) as box:
            await box.files.write("f", pieces())
            assert await box.files.read("f") == b"012"

    asyncio.run(main())


@both
async def test_up_and_down_with_progress(server, tmp_path):
    (tmp_path / "up").write_bytes(b"x" * 3_000_000)
    (tmp_path / "up").chmod(0o750)
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        told = []
        entry = await box.files.upload(tmp_path / "up", "d/up", progress=lambda *now: told.append(now))
        assert (entry.size, entry.mode) == (3_000_000, 0o750)
        assert told == sorted(told) and told[-1] == (3_000_000, 3_000_000) and len(told) > 3
        told.clear()
        assert await box.files.download("d/up", tmp_path / "down", progress=lambda *now: told.append(now)) == 3_000_000
        assert (tmp_path / "down").read_bytes() == b"x" * 3_000_000 and told[-1] == (3_000_000, 3_000_000)
        with pytest.raises(glovebox.FileMissing):
            await box.files.download("nothing", tmp_path / "down")
        assert (tmp_path / "down").stat().st_size == 3_000_000, "and what was there stays"
        with pytest.raises(glovebox.GloveboxError, match="cannot be read"):
            await box.files.upload(tmp_path / "nothing", "x")
        with pytest.raises(glovebox.GloveboxError, match="cannot be written"):
            await box.files.download("d/up", tmp_path / "no" / "such" / "directory")
        assert sorted(one.name for one in tmp_path.iterdir()) == ["down", "up"]
        told.clear()
        await box.files.write("f", b"y" * 1_000_000, progress=lambda *now: told.append(now))
        assert told[-1] == (1_000_000, 1_000_000)


@both
async def test_read_piece_by_piece(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.sh("head -c 2000000 /dev/zero > f")
        async with box.files.open("f") as file:
            assert file.size == 2_000_000 and file.etag
            count = 0
            async for piece in file:
                count += len(piece)
            assert count == 2_000_000
        file = box.files.open("f", start=10)
        assert len(await file.chunk()) > 0
        await file.close()
        with pytest.raises(glovebox.TooLarge, match="most=") as caught:
            await box.files.read("f", most=1000)
        assert caught.value.limit == 1000


@both
async def test_versions(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.files.write("f", "1", exclusive=True)
        with pytest.raises(glovebox.PreconditionFailed):
            await box.files.write("f", "2", exclusive=True)
        async with box.files.open("f") as file:
            etag = file.etag
        await box.files.write("f", "22", if_match=etag)
        with pytest.raises(glovebox.PreconditionFailed, match="look again"):
            await box.files.write("f", "3", if_match=etag)
        assert await box.files.read("f") == b"22"


@both
async def test_directories(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        assert (await box.files.mkdir("a/b", mode=0o700)).mode == 0o700
        await box.files.mkdir("a/b")
        for n in range(3):
            await box.files.write(f"a/b/{n}", str(n))
        await box.sh("ln -s 0 a/b/link; mkfifo a/b/pipe")
        found = await box.files.list("a/b")
        assert [(one.path, one.type) for one in found] == [("a/b/0", "file"), ("a/b/1", "file"), ("a/b/2", "file"), ("a/b/link", "symlink"), ("a/b/pipe", "other")]
        assert found[3].target == "0" and await box.files.read(found[3].path) == b"0"
        assert [one.path for one in await box.files.list("a", recursive=True)][:2] == ["a/b", "a/b/0"]
        assert [one.path async for one in box.files.iterate()] == ["a"]
        assert "/workspace/a/b" in [one.path for one in await box.files.list("/workspace", recursive=True)]
        with pytest.raises(glovebox.TooLarge, match="iterate"):
            await box.files.list("a/b", most=2)
        assert (await box.files.stat("a/b")).is_dir and await box.files.exists("a") and not await box.files.exists("b")
        assert (await box.files.move("a/b/0", "new/zero")).path == "new/zero"
        with pytest.raises(glovebox.FileExists) as caught:
            await box.files.move("a/b/1", "new/zero", overwrite=False)
        assert isinstance(caught.value, FileExistsError)
        await box.files.move("a/b/1", "new/zero")
        assert await box.files.read("new/zero") == b"1"
        with pytest.raises(glovebox.InvalidRequest, match="both begin with a slash"):
            await box.files.move("new/zero", "/tmp/x")
        await box.files.move("/workspace/new/zero", "/tmp/x")
        with pytest.raises(glovebox.FileConflict, match="recursive"):
            await box.files.delete("a")
        await box.files.delete("a", recursive=True)
        await box.files.delete("new")
        assert await box.files.list() == []


@both(more=["sync"])
async def test_many_files_have_pages(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.sh("touch $(seq 2500)")
        assert len(await box.files.list()) == 2500
        await box.files.delete("7")
        assert len([one async for one in box.files.iterate()]) == 2499


@both
async def test_what_is_refused(server):
    async with glovebox.AsyncBox(url=url_of(server), limits={"workspace_bytes": 8 << 20}) as box:
        with pytest.raises(glovebox.FileMissing, match="'no' does not exist") as caught:
            await box.files.read("no")
        assert isinstance(caught.value, FileNotFoundError) and isinstance(caught.value, glovebox.NotFound)
        await box.files.mkdir("d")
        with pytest.raises(glovebox.FileConflict, match="is a directory"):
            await box.files.read("d")
        with pytest.raises(glovebox.Forbidden, match="read-only"):
            await box.files.write("/etc/passwd", "x")
        with pytest.raises(glovebox.NoSpace, match="limits.workspace_bytes|larger workspace"):
            await box.files.write("large", b"x" * (30 << 20))
        with pytest.raises(glovebox.InvalidRequest):
            await box.files.read("d/../../etc/passwd")
        with pytest.raises(glovebox.InvalidRequest, match="names nothing"):
            await box.files.read("/")
        with pytest.raises(glovebox.InvalidRequest, match="NUL"):
            await box.files.read("a\0b")
        with pytest.raises(glovebox.InvalidRequest, match="not negative"):
            box.files.open("a", start=-1)
        with pytest.raises(glovebox.InvalidRequest, match="not a int"):
            await box.files.stat(5)


@both(more=["sync"])
async def test_strange_names(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        for name in ("ä ö", "a?b#c%2F", "new\nline", "\x1b[31m", "~", "&=+", "-", "..."):
            await box.files.write(name, name)
            assert await box.files.read(name) == name.encode(), name
            await box.files.delete(name)
        await box.files.write(b"\xff/\xfe", "x")
        assert (await box.files.list())[0].path_bytes == b"\xff" and (await box.files.list())[0].path == "\ufffd"
        found = [one for one in await box.files.list(recursive=True) if one.is_file]
        assert found[0].path_bytes == b"\xff/\xfe" and await box.files.read(found[0].path_bytes) == b"x"


@both
async def test_watched(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.files.mkdir("d/e")
        async with box.files.watch("d", recursive=True) as watch:
            await box.files.write("d/f", "1")
            await box.files.move("d/f", "d/e/g")
            await box.files.delete("d/e/g")
            seen = []
            async for event in watch:
                seen.append((event.kind, event.path, event.to))
                if event.kind == "delete":
                    break
        assert ("create", "d/f", None) in seen and ("move", "d/f", "d/e/g") in seen and seen[-1] == ("delete", "d/e/g", None)
        with pytest.raises(glovebox.FileMissing):
            async with box.files.watch("nothing"):
                pass


@both
async def test_a_watch_ends_with_its_box(server):
    async with glovebox.AsyncClient(url_of(server)) as client:
        box = await client.boxes.create()
        async with box.files.watch() as watch:
            await client.boxes.get(box.id).delete()
            assert [event async for event in watch] == [] and watch.reason == "deleted"
