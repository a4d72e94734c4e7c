# SPDX-License-Identifier: Apache-2.0
"""Directories into boxes and out of them; and archives that would like to be written elsewhere."""
import io
import os
import pathlib
import stat
import tarfile

import pytest
from pysdk import both, url_of

import glovebox
from glovebox import _folders, _tar
from server import needs_root, shared

pytestmark = needs_root

server = shared()


def tree(root):
    """{path: mode and content} of all that is below a directory."""
    found = {}
    for path in sorted(pathlib.Path(root).rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_fifo():
            found[name] = "pipe"
        elif path.is_dir():
            found[name] = "dir"
        else:
            found[name] = (oct(path.stat().st_mode & 0o777), path.read_bytes())
    return found


@pytest.fixture
def local(tmp_path):
    root = tmp_path / "local"
    (root / "d/e").mkdir(parents=True)
    (root / "a").write_bytes(b"hello")
    (root / "d/run").write_bytes(b"#!/bin/sh\n")
    (root / "d/run").chmod(0o755)
    (root / "d/e/large").write_bytes(bytes(range(256)) * 8192)
    (root / ("long" * 30)).mkdir()
    (root / ("long" * 30) / ("name" * 40)).write_bytes(b"x")
    (root / "ä").write_bytes(b"")
    (root / "link").symlink_to("d/run")
    os.utime(root / "a", (1_000_000_000, 1_000_000_000))
    return root


@both
async def test_up_and_down(server, local, tmp_path):
    os.mkfifo(local / "pipe")
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        told = []
        entry = await box.files.upload_dir(local, "there/x", progress=lambda *now: told.append(now))
        assert entry.is_dir and told[-1][0] == told[-1][1] == 5 + 10 + 256 * 8192 + 1
        assert (await box.sh("there/x/d/run; stat -c '%a %Y' there/x/a; readlink there/x/link")).stdout == "644 1000000000\nd/run\n"
        told.clear()
        for target in (tmp_path / "new" / "back", tmp_path / "new" / "back"):
            done = await box.files.download_dir("there/x", target, progress=lambda *now: told.append(now))
            assert (done.files, done.links, done.skipped) == (5, 1, ()) and done.directories == 3
            expected = tree(local)
            del expected["pipe"]
            assert tree(target) == expected
            assert (target / "a").stat().st_mtime == 1_000_000_000
        assert told[-1][1] is None and told[-1][0] == done.bytes
        assert [one.name for one in (tmp_path / "new").iterdir()] == ["back"]


@both(more=["async"])
async def test_gzip_and_what_is_wanted(server, local):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.files.upload_dir(local, wanted=lambda path: path.name != "e" and "long" not in path.name, gzip=True)
        assert [one.path for one in await box.files.list(recursive=True)] == ["a", "d", "d/run", "link", "ä"]


@both(more=["async"])
async def test_an_empty_directory(server, tmp_path):
    (tmp_path / "empty").mkdir()
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.files.upload_dir(tmp_path / "empty", "e")
        done = await box.files.download_dir("e", tmp_path / "back")
        assert (done.files, done.bytes) == (0, 0) and tree(tmp_path / "back") == {}
        with pytest.raises(glovebox.GloveboxError, match="cannot be read"):
            await box.files.upload_dir(tmp_path / "nothing")
        with pytest.raises(glovebox.FileMissing):
            await box.files.download_dir("nothing", tmp_path / "b")
        assert not (tmp_path / "b").exists()


@both
async def test_what_a_box_has_that_must_not_come_out(server, tmp_path):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.sh("ln -s /etc/passwd absolute; ln -s ../.. up; mkdir d; ln -s ../ok d/inside; ln -s ../../x d/outside; echo 1 > ok; ln -s d/.. tricky; "
                     "mkfifo pipe; printf x > $'\\x1b[2J'; printf x > $'new\\nline'")
        done = await box.files.download_dir("", tmp_path / "out")
        assert tree(tmp_path / "out") == {"d": "dir", "d/inside": ("link", "../ok"), "ok": ("0o644", b"1\n")}
        skipped = {one.path: one.why for one in done.skipped}
        assert {name for name, why in skipped.items() if "leads out" in why} == {"absolute", "up", "d/outside", "tricky"}
        assert sum("control characters" in why for why in skipped.values()) == 2 and done.skipped_count == len(skipped)
        assert not any(c < " " for name in skipped for c in name)
        with pytest.raises(glovebox.UnsafeArchive) as caught:
            await box.files.download_dir("", tmp_path / "strict", strict=True)
        assert caught.value.member in skipped and not (tmp_path / "strict").exists()


@both(more=["async"])
async def test_bounds(server, tmp_path):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.sh("for i in $(seq 20); do echo $i > f$i; done; head -c 1000000 /dev/zero > large")
        with pytest.raises(glovebox.TooLarge, match="most_files="):
            await box.files.download_dir("", tmp_path / "a", most_files=5)
        with pytest.raises(glovebox.TooLarge, match="976.6 KiB|most="):
            await box.files.download_dir("", tmp_path / "b", most=100_000)
        assert list(tmp_path.iterdir()) == [], "nothing of it is left"


@both(more=["async"])
async def test_a_file_that_becomes_shorter(server, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"x" * 3_000_000)
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        def shrink(*_):
            os.truncate(tmp_path / "d/f", 10)

        with pytest.raises(glovebox.GloveboxError, match="shorter"):
            await box.files.upload_dir(tmp_path / "d", "x", progress=shrink)
        assert not await box.files.exists("x/f")


# --- archives of a box that lies -----------------------------------------------------------------------------------


def unpack(tmp_path, data, *, step=None, target="target", **options):
    """What becomes of an archive. It comes in pieces of `step` bytes."""
    unpacker = _folders.Unpacker(tmp_path / target, options.get("most", 1 << 20), options.get("most_files", 100), options.get("strict", False))
    try:
        step = step or len(data) or 1
        for begin in range(0, len(data), step):
            unpacker.feed(data[begin:begin + step])
        return unpacker.finish()
    finally:
        unpacker.close()


def archive(*members, format=tarfile.GNU_FORMAT):
    """Of (name, kind, content or target), or TarInfo."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as tar:
        for member in members:
            name, kind, more = member
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o7777
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = more
                tar.addfile(info)
            else:
                info.size = len(more)
                tar.addfile(info, io.BytesIO(more))
    return buffer.getvalue()


@pytest.fixture
def canary(tmp_path):
    """A file beside the target that nobody may touch."""
    (tmp_path / "canary").write_bytes(b"alive")
    yield
    assert (tmp_path / "canary").read_bytes() == b"alive" and not (tmp_path / "canary").is_symlink()
    assert {one.name for one in tmp_path.iterdir()} <= {"canary", "target"}


HOSTILE = {
    "up": [("../canary", b"0", b"x")],
    "up in the middle": [("a/../../canary", b"0", b"x")],
    "absolute": [("/tmp/canary-of-a-test", b"0", b"x")],
    "through a link": [("l", b"2", "."), ("l/canary", b"0", b"x")],
    "a directory that is a link": [("l", b"2", "d"), ("d", b"5", b""), ("l", b"5", b"")],
    "too deep": [("a/" * 201 + "f", b"0", b"x")],
    "a long name": [("n" * 300, b"0", b"x")],
    "no name": [(".", b"0", b"x")],
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("there", [False, True])
def test_hostile_archives(canary, tmp_path, name, there):
    if there:
        (tmp_path / "target").mkdir()
    with pytest.raises(glovebox.UnsafeArchive, match="must not be written here"):
        unpack(tmp_path, archive(("before", b"0", b"1"), *HOSTILE[name]))
    assert (tmp_path / "target").exists() == there


SKIPPED = {
    "link up": [("l", b"2", "../canary")],
    "link out by way of another": [("a/b/l", b"2", "../.."), ("m", b"2", "a/b/l/..")],
    "absolute link": [("l", b"2", "/etc/passwd")],
    "hard link out": [("l", b"1", "../target/before2")],
    "hard link to what is there": [("l", b"1", "was")],
    "hard link to a link": [("s", b"2", "before"), ("l", b"1", "s")],
    "block device": [("dev", b"4", b"")],
    "character device": [("dev", b"3", b"")],
    "pipe": [("p", b"6", b"")],
    "contiguous nonsense": [("z", b"Z", b"content")],
    "escape": [("\x1b]0;x\x07", b"0", b"x")],
    "link with a line end": [("l", b"2", "a\nb")],
}


@pytest.mark.parametrize("name", SKIPPED)
def test_what_is_left_out(canary, tmp_path, name):
    (tmp_path / "target").mkdir()
    (tmp_path / "target/was").write_bytes(b"1")
    if name == "hard link out":
        with pytest.raises(glovebox.UnsafeArchive):
            unpack(tmp_path, archive(("before", b"0", b"1"), *SKIPPED[name]))
        return
    done = unpack(tmp_path, archive(("before", b"0", b"1"), *SKIPPED[name], ("after", b"0", b"2")), step=100)
    assert done.skipped_count == 1 and {"before", "after"} <= set(os.listdir(tmp_path / "target"))
    left = set(os.listdir(tmp_path / "target")) - {"before", "after", "was", "a", "s"}
    assert not left, left
    with pytest.raises(glovebox.UnsafeArchive):
        unpack(tmp_path, archive(*SKIPPED[name]), strict=True)


def test_modes_links_and_hard_links(canary, tmp_path):
    done = unpack(tmp_path, archive(("d", b"5", b""), ("d/f", b"0", b"1"), ("d/h", b"1", "d/f"), ("d/s", b"2", "../d/f"), ("./x/./y", b"0", b"2")), step=1)
    assert (done.files, done.links, done.directories) == (2, 2, 1)
    target = tmp_path / "target"
    assert tree(target) == {"d": "dir", "d/f": ("0o755", b"1"), "d/h": ("0o755", b"1"), "d/s": ("link", "../d/f"), "x": "dir", "x/y": ("0o755", b"2")}
    assert not any((target / one).stat().st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX | 0o022) for one in ("d", "d/f", "x/y"))
    assert (target / "d/h").stat().st_ino == (target / "d/f").stat().st_ino


def test_links_that_are_there_are_not_followed(canary, tmp_path):
    """Also those that the user of this machine has made: a file takes the place of a link."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "f").symlink_to(tmp_path / "canary")
    (target / "d").symlink_to(tmp_path)
    unpack(tmp_path, archive(("f", b"0", b"new")))
    assert (target / "f").read_bytes() == b"new" and not (target / "f").is_symlink()
    with pytest.raises(glovebox.UnsafeArchive, match="stands in its way"):
        unpack(tmp_path, archive(("d/canary", b"0", b"x")))


def test_a_directory_is_no_file(canary, tmp_path):
    (tmp_path / "target/d").mkdir(parents=True)
    with pytest.raises(glovebox.GloveboxError, match="cannot be written"):
        unpack(tmp_path, archive(("d", b"0", b"x")))
    assert os.listdir(tmp_path / "target") == ["d"]


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_formats(tmp_path, format):
    name = "a/" * 45 + "name" if format == tarfile.USTAR_FORMAT else "a/" * 90 + "nämé" * 20
    target = "t" if format == tarfile.USTAR_FORMAT else "t" * 200
    done = unpack(tmp_path, archive((name, b"0", b"x" * 700), ("l", b"2", target), format=format), step=77)
    assert (done.files, done.links) == (1, 1) and (tmp_path / "target" / name).read_bytes() == b"x" * 700
    assert os.readlink(tmp_path / "target/l") == target


def broken(change, *members):
    data = bytearray(archive(*(members or [("f", b"0", b"content")])))
    change(data)
    return bytes(data)


def checksummed(data):
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])


def longer(data):
    data[124:136] = b"77777777777\0"
    checksummed(data)


def enormous(data):
    data[124:136] = b"\x80" + b"\xff" * 11
    checksummed(data)


def negative(data):
    data[124:136] = b"\xff" * 12
    checksummed(data)


BROKEN = {
    "nothing": b"",
    "no end": archive(("f", b"0", b"x"))[:1024],
    "cut": archive(("f", b"0", b"x" * 2000))[:1500],
    "noise": os.urandom(2048),
    "checksum": broken(lambda data: data.__setitem__(0, 65)),
    "a size that is none": broken(lambda data: (data.__setitem__(slice(124, 135), b"xxxxxxxxxxx"), checksummed(data))),
    "negative": broken(negative),
    "enormous": broken(enormous),
    "one block of zeros": bytes(512) + archive(("f", b"0", b"x")),
    "something behind the end": archive(("f", b"0", b"x")) + b"x" * 512,
    "a pax header that is none": archive(("x", b"x", b"9999 path=a\n")),
    "a pax header that is long": archive(("x", b"x", b"1" * 70000)),
    "a long name that is long": archive(("x", b"L", b"a" * 70000)),
    "a pax size that is none": archive(("x", b"x", b"13 size=--5x\n"), ("f", b"0", b"x")),
    "sparse": archive(("x", b"x", b"22 GNU.sparse.major=1\n"), ("f", b"0", b"x")),
    "old sparse": archive(("f", b"S", b"x")),
    "html": b"<html>" + b" " * 1018,
}


@pytest.mark.parametrize("name", BROKEN)
def test_archives_that_are_none(canary, tmp_path, name):
    with pytest.raises(glovebox.ProtocolError, match="no sound tar archive"):
        unpack(tmp_path, BROKEN[name])
    assert not (tmp_path / "target").exists()


def test_a_size_that_is_a_lie(canary, tmp_path):
    with pytest.raises(glovebox.TooLarge):
        unpack(tmp_path, broken(longer))


def test_many_small_things_are_bounded(tmp_path):
    with pytest.raises(glovebox.TooLarge, match="100 files"):
        unpack(tmp_path, archive(*[("d", b"5", b"")] * 101))
    with pytest.raises(glovebox.TooLarge, match="100 files"):
        unpack(tmp_path, archive(*[("p", b"6", b"")] * 101))
    done = unpack(tmp_path, archive(*[(f"p{n}", b"6", b"") for n in range(50)]), most_files=10_000)
    assert done.skipped_count == len(done.skipped) == 50


def test_the_directory_above_is_made_and_the_user_decides_where(tmp_path):
    unpack(tmp_path, archive(("f", b"0", b"1")), target="new/deeper/target")
    assert tree(tmp_path) == {"new": "dir", "new/deeper": "dir", "new/deeper/target": "dir", "new/deeper/target/f": ("0o755", b"1")}
    (tmp_path / "link").symlink_to(tmp_path / "new/deeper/target")
    unpack(tmp_path, archive(("g", b"0", b"1")), target="link")
    assert (tmp_path / "new/deeper/target/g").exists(), "a link that the user names is meant"


def test_headers_are_such_as_tar_reads():
    name = "ä" * 80
    data = _tar.header(name, _tar.FILE, 5, 0o644, 12.5) + b"hello" + _tar.padding(5) + _tar.header("l", _tar.SYMLINK, 0, 0o777, 0, "t" * 150) + _tar.END
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        first, second = tar.getmembers()
        assert (first.name, first.size, first.mode, first.mtime, tar.extractfile(first).read()) == (name, 5, 0o644, 12, b"hello")
        assert second.linkname == "t" * 150
