# SPDX-License-Identifier: Apache-2.0
"""The program that packs and unpacks archives inside a box, run directly: archives of honest programs and of hostile people.

A sanitized build has it as archive-checked, because a static program has no sanitizers.
"""
import ctypes
import errno
import fcntl
import hashlib
import io
import os
import random
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tarfile
import tempfile
import threading
import time

import pytest

import tars
from conftest import program_path

STAGING = ".glovebox-unpack-"
NOBODY = 65534
TIMEOUT_S = 120


def find_program():
    folder = program_path().parent / "src/archive"
    checked = folder / "archive-checked"
    return checked if checked.exists() else folder / "glovebox-archive"


PROGRAM = find_program()
IS_CHECKED = PROGRAM.name == "archive-checked"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="a build without the archive program")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as somebody else")


def call(*args, data=b"", **kw):
    return subprocess.run([PROGRAM, *map(str, args)], input=data, capture_output=True, timeout=TIMEOUT_S, check=False, **kw)


def as_nobody(cwd, *args, data=b""):
    """By a descriptor and in a directory of theirs: they can see neither where the program is nor where that is."""
    program = os.path.join(tempfile.mkdtemp(), "program")
    try:
        shutil.copyfile(PROGRAM, program)
        # As in a box: who executes it cannot read it, and is not dumpable therefore. Sanitizers could not bear that.
        os.chmod(program, 0o555 if IS_CHECKED else 0o111)
        fd = os.open(program, os.O_PATH)
    finally:
        shutil.rmtree(os.path.dirname(program))
    try:
        return subprocess.run(["glovebox-archive", *map(str, args)], executable=f"/proc/self/fd/{fd}", pass_fds=[fd], cwd=cwd,
                              user=NOBODY, group=NOBODY, extra_groups=[], input=data, capture_output=True,
                              timeout=TIMEOUT_S, check=False)
    finally:
        os.close(fd)


def unpack(data, into, max_bytes=0, max_entries=0):
    return call("unpack", into, "auto", max_bytes, max_entries, data=data)


def pack(path, form="tar", what="all"):
    return call("pack", path, form, what)


def good(done):
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return done


def bad(done, error, *words):
    text = done.stderr.decode()
    assert done.returncode == error, (done.returncode, text)
    assert text.count("\n") == 1 and text.endswith("\n") and len(text) < 600, text
    for word in words:
        assert word in text, text
    return done


def tree(root, times=True):
    """All that is below root: by path, what it is."""
    root = os.fsencode(root)
    found = {}
    for folder, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            entry = [stat.S_IFMT(st.st_mode), stat.S_IMODE(st.st_mode)]
            if stat.S_ISLNK(st.st_mode):
                entry = [stat.S_IFLNK, os.readlink(path)]
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    entry.append(hashlib.sha256(f.read()).hexdigest())
            found[os.path.relpath(path, root)] = (*entry, *([int(st.st_mtime)] if times else []))
    return found


@pytest.fixture
def target(tmp_path):
    """A directory with something in it."""
    path = tmp_path / "target"
    path.mkdir()
    (path / "kept").write_text("kept")
    return path


@pytest.fixture
def world(tmp_path):
    """A bit of everything, with times of long ago."""
    root = tmp_path / "world"
    (root / "a/b/c").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "a/file").write_text("hello")
    (root / "a/b/script").write_text("#!/bin/sh\n")
    (root / "a/b/script").chmod(0o755)
    (root / "a/b/c/large").write_bytes(random.Random(1).randbytes(300_000))
    (root / "a/none").write_bytes(b"")
    (root / "a/link").symlink_to("b/script")
    (root / "a/b/up").symlink_to("../file")
    (root / "dangling").symlink_to("nowhere")
    (root / "a/far").symlink_to("far/" * 40 + "away")
    os.link(root / "a/file", root / "a/b/again")
    (root / ("n" * 120)).mkdir()
    (root / ("n" * 120) / ("m" * 200)).write_text("long")
    (root / "caf\u00e9 \u2603").write_text("unicode")
    (root / "empty").chmod(0o700)
    for folder, directories, files in os.walk(root, topdown=False):
        for name in directories + files:
            os.utime(os.path.join(folder, name), (10**9, 10**9 + len(name)), follow_symlinks=False)
    return root


# --- archives of other programs ----------------------------------------------------------------------------------


def archive_by_gnu(world, form, *options):
    return subprocess.run(["tar", "--format", form, *options, "-C", world, "-cf", "-", "."], capture_output=True, check=True).stdout


def archive_by_python(world, form):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as t:
        t.add(world, arcname=".")
    return out.getvalue()


@pytest.mark.parametrize("form", ["gnu", "oldgnu", "posix"])
def test_archives_of_gnu_tar(world, tmp_path, form):
    good(unpack(archive_by_gnu(world, form), tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(world)
    # A hard link is one.
    assert os.stat(tmp_path / "out/a/file").st_ino == os.stat(tmp_path / "out/a/b/again").st_ino


@pytest.mark.parametrize("form", ["ustar", "v7"])
def test_archives_of_gnu_tar_that_know_no_long_names(world, tmp_path, form):
    shutil.rmtree(world / ("n" * 120))
    (world / "a/far").unlink()
    os.utime(world / "a", (10**9, 10**9 + 1))
    good(unpack(archive_by_gnu(world, form), tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(world)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_archives_of_python(world, tmp_path, form):
    good(unpack(archive_by_python(world, form), tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(world)


@pytest.mark.skipif(shutil.which("bsdtar") is None, reason="no bsdtar here")
@pytest.mark.parametrize("form", ["pax", "paxr", "gnutar"])
def test_archives_of_bsdtar(world, tmp_path, form):
    data = subprocess.run(["bsdtar", "--format", form, "-C", world, "-cf", "-", "."], capture_output=True, check=True).stdout
    good(unpack(data, tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(world)


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_archives_of_git(world, tmp_path, form):
    def git(*args):
        return subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", world, *args], capture_output=True, check=True).stdout

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "all")
    good(unpack(git("archive", f"--format={form}", "--prefix=p/", "HEAD"), tmp_path / "out"))
    shutil.rmtree(world / ".git")
    os.rmdir(world / "empty")  # git has no such thing
    out = {k: v[0:1] + v[2:3] for k, v in tree(tmp_path / "out/p", times=False).items() if v[0] != stat.S_IFDIR}
    assert out == {k: v[0:1] + v[2:3] for k, v in tree(world, times=False).items() if v[0] != stat.S_IFDIR}


def sparse_world(tmp_path):
    root = tmp_path / "sparse"
    root.mkdir()
    with open(root / "holes", "wb") as f:
        for i in range(60):
            f.seek(i * 100_000)
            f.write(b"x%d" % i)
        f.truncate(60 * 100_000)
    (root / "only-a-hole").touch()
    os.truncate(root / "only-a-hole", 1 << 20)
    return root


@pytest.mark.parametrize("options", [["gnu"], ["posix", "--sparse-version=0.0"], ["posix", "--sparse-version=0.1"],
                                     ["posix", "--sparse-version=1.0"]])
def test_sparse_files(tmp_path, options):
    root = sparse_world(tmp_path)
    data = archive_by_gnu(root, options[0], "-S", *options[1:])
    assert len(data) < 1_000_000
    good(unpack(data, tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(root)
    assert os.stat(tmp_path / "out/only-a-hole").st_blocks * 512 < 1 << 20


SPARSE = [(0, 3), (1000, 2), (4096, 4)]
SPARSE_DATA = b"abcdefghi"
SPARSE_WHOLE = b"abc".ljust(1000, b"\0") + b"de" + b"\0" * (4096 - 1002) + b"fghi" + b"\0" * 900


def sparse(form, parts, data, real_size):
    return tars.old_sparse("s", parts, data, real_size) if form == "old" else tars.pax_sparse("s", parts, data, real_size, form)


FORMS = ["old", "0.0", "0.1", "1.0"]


@pytest.mark.parametrize("form", FORMS)
def test_sparse_files_by_hand(tmp_path, form):
    good(unpack(sparse(form, SPARSE, SPARSE_DATA, 5000) + tars.END, tmp_path / "out"))
    assert (tmp_path / "out/s").read_bytes() == SPARSE_WHOLE


# --- what an archive can say, and is taken -----------------------------------------------------------------------


GOOD = {
    "nothing at all": (tars.END, {}),
    "one block of zeros": (tars.file("a", "1") + tars.END[:512], {"a": "1"}),
    "many blocks of zeros": (tars.file("a", "1") + b"\0" * 1_000_448, {"a": "1"}),
    "a directory that is nowhere named": (tars.file("a/b/c", "1"), {"a/b/c": "1"}),
    "a name twice: the second": (tars.file("a", "1") + tars.file("a", "22"), {"a": "22"}),
    "dots and slashes": (tars.file("./a//b", "1") + tars.file("././c", "2"), {"a/b": "1", "c": "2"}),
    "the directory itself": (tars.head("./", "5") + tars.file("./a", "1"), {"a": "1"}),
    "a directory as v7 has it": (tars.head("d/", b"\0", magic=tars.V7) + tars.file("d/f", "1", magic=tars.V7), {"d/f": "1"}),
    "base 256": (tars.head("a", size=tars.base256(1)) + tars.pad("1"), {"a": "1"}),
    "a size in a pax header": (tars.pax(size="1") + tars.head("a", size=0) + tars.pad("1"), {"a": "1"}),
    "a prefix": (tars.file("b", "1", prefix="p/q"), {"p/q/b": "1"}),
    "a name in two dialects": (tars.long_name("x" * 150) + tars.file("x", "1", magic=tars.GNU), {"x" * 150: "1"}),
    "a comment for all": (tars.pax(comment="c", kind=b"g") + tars.file("a", "1"), {"a": "1"}),
    "a label": (tars.head("label", "V", magic=tars.GNU) + tars.file("a", "1"), {"a": "1"}),
    "a backslash": (tars.file("..\\a", "1"), {"..\\a": "1"}),
    "255 bytes": (tars.pax(path="x" * 255) + tars.file("x", "1"), {"x" * 255: "1"}),
    "a contiguous file": (tars.head("a", "7", 1) + tars.pad("1"), {"a": "1"}),
    "a mode with a type in it": (tars.file("a", "1", mode=0o100644), {"a": "1"}),
    "a file of the past": (tars.pax(mtime="-1.5") + tars.file("a", "1"), {"a": "1"}),
    "a file of the far past": (tars.head("a", fields={136: b"\xff" * 4 + b"\0" * 8}), {"a": ""}),
    "a file of the far future": (tars.pax(mtime="9" * 30 + "." + "9" * 30) + tars.file("a", "1"), {"a": "1"}),
    "a directory of the far future": (tars.head("d", "5", fields={136: b"\x80\0\0\0\x7f" + b"\xff" * 7}) + tars.file("d/a", "1"), {"d/a": "1"}),
    "attributes": (tars.pax(("SCHILY.xattr.user.x", "y"), ("LIBARCHIVE.xattr.user.x", "eQ=="), ("SCHILY.acl.access", "user::rwx,group::r-x"),
                            ("SCHILY.fflags", "nodump"), ("unknown.to.all", "=")) + tars.file("a", "1"), {"a": "1"}),
    "gzip": (tars.gz(tars.file("a", "1") + tars.END), {"a": "1"}),
    "gzip in two streams": (tars.gz(tars.file("a", "1")) + tars.gz(tars.END), {"a": "1"}),
    "gzip with zeros behind": (tars.gz(tars.file("a", "1") + tars.END) + b"\0" * 5000, {"a": "1"}),
}


@pytest.mark.parametrize("what", GOOD)
def test_taken(target, what):
    data, files = GOOD[what]
    if not data.startswith(b"\x1f\x8b") and "zeros" not in what:
        data += tars.END
    good(unpack(data, target))
    found = {os.fsdecode(path): entry for path, entry in tree(target).items()}
    for path, text in files.items():
        assert (target / path).read_text() == text
    assert {p for p, e in found.items() if e[0] == stat.S_IFREG} == {*files, "kept"}


def test_names_are_bytes(tmp_path):
    names = [b"caf\xe9", b"new\nline", b"\x1b[31m", "\u202e".encode(), b" ", b"*", b"-rf", b"a" * 255]
    data = b"".join(tars.file(n, "1") for n in names if len(n) < 100)
    data += tars.pax(path=b"latin-\xe9") + tars.file("x", "1") + tars.pax(hdrcharset="BINARY", path=b"binary-\xe9") + tars.file("x", "1")
    good(unpack(data + tars.END, tmp_path / "out"))
    want = {n for n in names if len(n) < 100} | {b"latin-\xe9", b"binary-\xe9"}
    assert set(os.listdir(os.fsencode(tmp_path / "out"))) == want
    good(unpack(good(pack(tmp_path / "out")).stdout, tmp_path / "again"))
    assert set(os.listdir(os.fsencode(tmp_path / "again"))) == want


@pytest.mark.more
def test_as_deep_as_names_can_be(tmp_path):
    """Deeper than there are descriptors, by a name of 4095 bytes."""
    path = "/".join("d" * 2047) + "/f"
    assert len(path) == 4095
    good(unpack(tars.pax(path=path) + tars.file("x", "1") + tars.END, tmp_path / "out"))
    packed = good(pack(tmp_path / "out")).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as t:
        assert path in t.getnames() and len(t.getnames()) == 2048
    # Once more, into what is there; then it is to be refused, and the staging directory is as deep.
    good(unpack(packed, tmp_path / "out"))
    bad(unpack(tars.pax(path=path) + tars.file("x", "1") + tars.file("../x"), tmp_path / "out"), errno.EBADMSG)
    assert os.listdir(tmp_path / "out") == ["d"]
    subprocess.run(["rm", "-r", tmp_path / "out"], check=True)


# --- what is refused, whole --------------------------------------------------------------------------------------


A = tars.file("a", "1")
LINK_TEXT = "'l' leads"
BAD = {
    # names
    "absolute": (tars.file("/etc/x", "1"), "'/etc/x' is absolute"),
    "up": (tars.file("../x", "1"), "'../x' leads out"),
    "up in the middle": (tars.file("a/../../x", "1"), "leads out"),
    "up and back": (tars.file("a/../b", "1"), "member 2 of the archive: 'a/../b' leads out"),
    "up at the end": (tars.head("a/..", "5"), "leads out"),
    "up by a prefix": (tars.file("x", "1", prefix=".."), "leads out"),
    "absolute by a prefix": (tars.file("x", "1", prefix="/etc"), "is absolute"),
    "up by a pax header": (tars.pax(path="../x") + A, "leads out"),
    "up by a long name": (tars.long_name("../x") + A, "leads out"),
    "up by a sparse name": (tars.pax(("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", "../x"),
                                     ("GNU.sparse.realsize", "1")) + tars.file("s", tars.pad("1\n0\n1\n") + b"1"), "leads out"),
    "no name": (tars.file("", "1"), "no name"),
    "a file that is the directory": (tars.file(".", "1"), "'.' is no directory"),
    "NUL in a pax name": (tars.pax(path=b"a\0b") + A, "pax header"),
    "NUL in a long name": (tars.extra("L", b"a\0b\0", magic=tars.GNU) + A, "long name"),
    "256 bytes": (tars.pax(path="x" * 256) + A, "more than 255"),
    "4096 bytes": (tars.pax(path="/".join(["x" * 200] * 21)) + A, "longer than 4095"),
    "a name of ours": (tars.file(STAGING + "7/x", "1"), "a name of ours"),
    "a name of ours, below": (tars.file("a/" + STAGING + "x", "1"), "a name of ours"),
    # links
    "an absolute link": (tars.head("l", "2", link="/etc/passwd"), LINK_TEXT + " to an absolute path"),
    "a link up": (tars.head("l", "2", link="../x"), LINK_TEXT + " out"),
    "a link up, deeper": (tars.head("d/l", "2", link="../../x"), "leads out"),
    "a link down and up": (tars.head("d/l", "2", link="e/../../../x"), "leads down and up again"),
    "a chain of links": (tars.head("d/up", "2", link="..") + tars.head("l", "2", link="d/up/.."), "leads down and up again"),
    "a link to nothing": (tars.head("l", "2"), LINK_TEXT + " nowhere"),
    "a long link up": (tars.long_name("../" * 60, "K") + tars.head("l", "2", link="../" * 33, magic=tars.GNU), LINK_TEXT + " out"),
    "a pax link up": (tars.pax(linkpath="../x") + tars.head("l", "2", link="a"), LINK_TEXT + " out"),
    "below a link": (tars.head("d", "2", link=".") + tars.file("d/x", "1"), "below what is no directory"),
    "below a link, by another name": (tars.head("d", "2", link=".") + tars.file("./d//x", "1"), "below what is no directory"),
    "below a file": (tars.file("f", "1") + tars.file("f/x", "1"), "below what is no directory"),
    "a directory below a link": (tars.head("d", "2", link=".") + tars.head("d/x", "5"), "below what is no directory"),
    "a hard link out": (tars.head("h", "1", link="../kept"), "'h' leads out"),
    "an absolute hard link": (tars.head("h", "1", link="/etc/passwd"), "'h' leads out"),
    "a hard link to what is there": (tars.head("h", "1", link="kept"), "no file of the archive"),
    "a hard link to nothing": (tars.head("h", "1", link="nothing"), "no file of the archive"),
    "a hard link to a directory": (tars.head("d", "5") + tars.head("h", "1", link="d"), "no file of the archive"),
    "a hard link to a link": (tars.head("l", "2", link="a") + tars.head("h", "1", link="l"), "no file of the archive"),
    "a hard link through a link": (tars.head("d", "2", link=".") + tars.head("h", "1", link="d/a"), "no file of the archive"),
    "a hard link to itself": (tars.head("a", "1", link="a"), "a link to itself"),
    "a hard link to the directory": (tars.head("h", "1", link="."), "'h' leads out"),
    "a hard link with contents": (tars.head("h", "1", 3, link="a") + tars.pad("abc"), "contents of what has none"),
    "a hard link with contents, by pax": (tars.pax(size="3") + tars.head("h", "1", link="a") + tars.pad("abc"), "contents of what has none"),
    "a file that pax makes a link": (tars.pax(linkpath="a") + tars.file("b", "1"), "no link"),
    "a file that GNU makes a link": (tars.long_name("a", "K") + tars.file("b", "1", magic=tars.GNU), "no link"),
    # what a box has no use for
    "a character device": (tars.head("c", "3"), "a device"),
    "a block device": (tars.head("b", "4"), "a device"),
    "a pipe": (tars.head("p", "6"), "a pipe"),
    "setuid": (tars.file("s", "1", mode=0o4755), "setuid"),
    "setgid": (tars.file("s", "1", mode=0o2755), "setuid"),
    "sticky": (tars.head("s", "5", mode=0o1777), "setuid"),
    "setuid of the directory itself": (tars.head("./", "5", mode=0o4755), "setuid"),
    "another volume": (tars.head("m", "M", 1, magic=tars.GNU) + tars.pad("1"), "another volume"),
    "an incremental directory": (tars.head("d", "D", 1, magic=tars.GNU) + tars.pad("1"), "incremental"),
    "something new": (tars.head("q", "Q"), "not known here"),
    "Sun's": (tars.extra("X", tars.record("path", "b")) + A, "not known here"),
    "an ACL of Solaris": (tars.extra("A", "x") + A, "not known here"),
    # twice
    "a file and a link": (tars.file("x", "1") + tars.head("x", "2", link="a"), "not as the same"),
    "a link and a file": (tars.head("x", "2", link="a") + tars.file("x", "1"), "not as the same"),
    "a file and a directory": (tars.file("x", "1") + tars.head("x", "5"), "not as the same"),
    "a directory and a file": (tars.head("x", "5") + tars.file("x", "1"), "not as the same"),
    "a directory and a link": (tars.head("x", "5") + tars.head("x", "2", link="a"), "not as the same"),
    "a directory and a hard link": (tars.head("x", "5") + tars.head("x", "1", link="a"), "not as the same"),
    # numbers
    "a negative size": (tars.head("n", size=b"\xff" * 12), "no number"),
    "a negative octal size": (tars.head("n", size=b"-0000000001\0"), "no number"),
    "a negative pax size": (tars.pax(size="-1") + A, "no number"),
    "a size that overflows": (tars.head("n", size=b"\x80" + b"\xff" * 11), "no number"),
    "a pax size that overflows": (tars.pax(size="18446744073709551617") + A, "no number"),
    "a size that is none": (tars.head("n", size=b"elephants\0\0\0"), "no number"),
    "a directory with contents": (tars.head("d", "5", 3) + tars.pad("abc"), "contents of what has none"),
    "a v7 directory with contents": (tars.head("d/", b"\0", 3, magic=tars.V7) + tars.pad("abc"), "directory with contents"),
    "a symbolic link with contents": (tars.head("l", "2", 3, link="a") + tars.pad("abc"), "contents of what has none"),
    # headers in front
    "a header of 64 KiB": (tars.pax(comment="x" * 65536) + A, "more than 64 KiB"),
    "a long name of 64 KiB": (tars.long_name("x" * 65536) + A, "more than 64 KiB"),
    "a long name of a terabyte": (tars.head("x", "L", 1 << 40, magic=tars.GNU) + A, "more than 64 KiB"),
    "a pax header of a terabyte": (tars.head("x", "x", 1 << 40) + A, "more than 64 KiB"),
    "headers without end": (tars.pax(comment="x", kind=b"g") * 100 + A, "too many headers"),
    "long headers without end": (tars.pax(comment="x" * 65500, kind=b"g") * 100 + A, "of headers in front"),
    "labels without end": (tars.head("label", "V", magic=tars.GNU) * 1000 + A, "too many headers"),
    "two pax headers": (tars.pax(comment="x") + tars.pax(path="b") + A, "two headers"),
    "two long names": (tars.long_name("x") + tars.long_name("y") + A, "two headers"),
    "two dialects": (tars.pax(path="x") + tars.long_name("y") + A, "two headers"),
    "two dialects, the other way": (tars.long_name("y") + tars.pax(path="x") + A, "two headers"),
    "two names in a pax header": (tars.pax(("path", "b"), ("path", "c")) + A, "given twice"),
    "a name for all": (tars.pax(path="g", kind=b"g") + A, "every member's"),
    "a size for all": (tars.pax(size="0", kind=b"g") + A, "every member's"),
    "a link for all": (tars.pax(linkpath="../x", kind=b"g") + A, "every member's"),
    "a map for all": (tars.pax(("GNU.sparse.major", "1"), kind=b"g") + A, "every member's"),
    "a header of nothing": (tars.pax(path="b"), "without a member"),
    "a pax header that is none": (tars.extra("x", "path=b\n") + A, "pax header"),
    "a pax header that is too short": (tars.extra("x", "99 path=b\n") + A, "pax header"),
    # sparse files
    "a map of what is no sparse file": (tars.head("s", "0", 1, magic=tars.GNU, fields={386: tars.octal(0, 12) + tars.octal(1, 12)}) + tars.pad("1"),
                                        "not known here"),
    "a size of what is no sparse file": (tars.head("s", "0", 1, magic=tars.GNU, fields={483: tars.octal(1 << 30, 12)}) + tars.pad("1"),
                                         "not known here"),
    "a map without end": (tars.head("s", "S", 1, magic=tars.GNU, fields={386: tars.octal(0, 12) * 2, 482: b"\1"})
                          + (b"\0" * 504 + b"\1" + b"\0" * 7) * 3000, "of headers in front"),
    "a map that goes back": (tars.old_sparse("s", [(1000, 3), (0, 3)], b"abcdef", 2000), "a map that is wrong"),
    "a map that overlaps": (tars.pax_sparse("s", [(0, 3), (1, 3)], b"abcdef", 2000, "0.1"), "a map that is wrong"),
    "a map beyond the end": (tars.pax_sparse("s", [(3000, 3)], b"abc", 2000, "1.0"), "a map that is wrong"),
    "a negative map": (tars.pax_sparse("s", [(-5, 3)], b"abc", 2000, "1.0"), "member 2"),
    "a map that is no map": (tars.pax(("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "9")) + tars.file("s", "what?"),
                             "member 2"),
    "a map of a version to come": (tars.pax(("GNU.sparse.major", "7"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "9")) + tars.file("s", "what?"),
                                   "member 2"),
    "a map of too many parts": (tars.pax_sparse("s", [(i * 2, 1) for i in range(32769)], b"", 1 << 30, "1.0"), "too many parts"),
    "a map of a million parts": (tars.pax_sparse("s", [(i * 2, 1) for i in range(999_999)], b"", 1 << 30, "1.0"), "too many parts"),
    "holes of Solaris": (tars.pax(("SUN.holesdata", " 0 5")) + A, "not known here"),
    # the archive
    "a damaged header": (tars.head("x", checksum=b"0000000\0"), "a damaged header"),
    "cut in a file": (tars.head("x", size=10_000) + tars.pad("1"), "cut"),
    "a file of the whole world": (tars.head("x", size=1 << 59) + tars.pad("1"), "cut"),
}
NO_END = {"cut in a file", "a file of the whole world"}


def refused(data, target, text, error=errno.EBADMSG, **kw):
    before, around = tree(target), os.listdir(target.parent)
    done = bad(unpack(data, target, **kw), error, text)
    assert done.stdout == b""
    assert tree(target) == before and os.listdir(target.parent) == around


@pytest.mark.parametrize("what", BAD)
def test_refused_whole(target, what):
    data, text = BAD[what]
    refused(A + data + (b"" if what in NO_END else tars.END), target, text)


ENDS = {
    "nothing": (b"", "not a tar archive"),
    "text": (b"hello, world\n" * 100, "not a tar archive"),
    "a zip": (b"PK\3\4" + b"\0" * 2000, "not a tar archive"),
    "bzip2": (b"BZh91AY&SY" + b"\0" * 2000, "not a tar archive"),
    "xz": (b"\xfd7zXZ\0" + b"\0" * 2000, "not a tar archive"),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"\0" * 2000, "not a tar archive"),
    "cpio": (b"070701" + b"0" * 2000, "not a tar archive"),
    "gzip of text": (tars.gz(b"hello" * 1000), "not a tar archive"),
    "gzip of nothing": (tars.gz(b""), "not a tar archive"),
    "gzip of gzip": (tars.gz(tars.gz(A + tars.END)), "not a tar archive"),
    "the beginning of gzip": (b"\x1f\x8b", "cut"),
    "gzip of something else": (b"\x1f\x8b\x07" + b"\0" * 100, "damaged"),
    "gzip that is cut": (tars.gz(A + tars.END)[:-5], "cut"),
    "gzip with a wrong sum": (tars.gz(A + tars.END)[:-8] + b"\0" * 8, "damaged"),
    "gzip with something behind": (tars.gz(A + tars.END) + b"x", "behind the end"),
    "gzip with zeros and something behind": (tars.gz(A + tars.END) + b"\0\0" + tars.gz(b"x"), "behind the end"),
    "an archive behind the end": (A + tars.END + A + tars.END, "behind the end"),
    "garbage behind the end": (A + tars.END + b"x", "behind the end"),
    "an archive behind the end in gzip": (tars.gz(A + tars.END) + tars.gz(A), "behind the end"),
    "zeros without end": (A + b"\0" * (20 << 20), "behind the end"),
    "zeros without end in gzip": (tars.gz(A + b"\0" * (20 << 20)), "behind the end"),
    "no end": (A, "cut"),
    "no end in gzip": (tars.gz(A), "cut"),
    "half a block": (A + A[:100], "cut"),
}


@pytest.mark.parametrize("what", ENDS)
def test_the_end_of_an_archive(target, what):
    refused(*ENDS[what][:1], target, ENDS[what][1])


def test_a_target_that_was_made_goes_again(tmp_path):
    bad(unpack(A + tars.file("../x"), tmp_path / "made/for/it"), errno.EBADMSG)
    assert os.listdir(tmp_path) == []
    (tmp_path / "made").mkdir()
    (tmp_path / "made/by-others").touch()
    bad(unpack(A + tars.file("../x"), f"{tmp_path}/made//for/it//"), errno.EBADMSG)
    assert os.listdir(tmp_path / "made") == ["by-others"]
    good(unpack(A + tars.END, f"{tmp_path}/made//for/it//"))
    assert (tmp_path / "made/for/it/a").read_text() == "1"


def test_targets_that_are_none(target, tmp_path):
    bad(unpack(A, target / "kept"), errno.ENOTDIR, "kept")
    bad(unpack(A, target / "kept/below"), errno.ENOTDIR)
    bad(unpack(A, tmp_path / ("x" * 256)), errno.ENAMETOOLONG)
    bad(unpack(A, tmp_path / "made" / "too" / ("x" * 256) / "deep"), errno.ENAMETOOLONG)
    assert os.listdir(tmp_path) == ["target"]
    (target / "loop").symlink_to("loop")
    bad(unpack(A, target / "loop"), errno.ELOOP)
    # Where the user's own link leads is the user's affair.
    (tmp_path / "elsewhere").mkdir()
    (target / "link").symlink_to(tmp_path / "elsewhere")
    good(unpack(A + tars.END, target / "link"))
    assert os.listdir(tmp_path / "elsewhere") == ["a"]


@pytest.mark.parametrize("args", [[], ["pack"], ["pack", "."], ["unpack", ".", "auto", "0"], ["unpack", ".", "zip", "0", "0"],
                                  ["unpack", ".", "auto", "x", "0"], ["unpack", ".", "auto", "0", "-1"], ["unpack", "", "auto", "0", "0"],
                                  ["pack", ".", "zip", "all"], ["pack", ".", "tar", "some"], ["list", ".", "tar", "all"]])
def test_usage(args, tmp_path):
    bad(call(*args, cwd=tmp_path), errno.EINVAL, "usage")


# --- limits ------------------------------------------------------------------------------------------------------


def test_bytes_are_counted(target):
    data = tars.file("a", "x" * 600) + tars.file("b", "x" * 400) + tars.END
    refused(data, target, "larger than it may be", max_bytes=999)
    refused(tars.gz(data), target, "larger than it may be", max_bytes=599)
    good(unpack(data, target, max_bytes=1000))


def test_sizes_are_believed_before_contents(target):
    refused(tars.head("a", size=1 << 40) + tars.END, target, "larger than it may be", max_bytes=1 << 30)
    refused(tars.file("b") + tars.head("a", size=(1 << 60) - 1) + tars.END, target, "larger than it may be", max_bytes=1 << 30)


@pytest.mark.parametrize("form", FORMS)
def test_holes_are_counted(target, form):
    refused(sparse(form, [(1 << 32, 1)], b"x", (1 << 32) + 1) + tars.END, target, "larger than it may be", max_bytes=1 << 30)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_very_many_parts(tmp_path, form):
    """As many as may be, or as a header has room for."""
    most = {"old": 40_000, "0.0": 900, "0.1": 4_000, "1.0": 32_768}[form]
    good(unpack(sparse(form, [(i * 2, 1) for i in range(most)], b"x" * most, most * 2) + tars.END, tmp_path / "out"))
    assert (tmp_path / "out/s").read_bytes() == b"x\0" * most


def test_members_are_counted(target):
    data = tars.head("d", "5") + tars.file("a", "1") + tars.head("l", "2", link="a") + tars.END
    refused(data, target, "member 3 of the archive: 'l' is one too many", max_entries=2)
    good(unpack(data, target, max_entries=3))


def test_a_file_that_may_not_be_so_large(target):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    before = tree(target)
    done = call("unpack", target, "auto", 0, 0, data=tars.file("a", "x" * 2000) + tars.END, preexec_fn=limit)
    bad(done, errno.EFBIG, "'a'")
    assert tree(target) == before


# --- into what is there ------------------------------------------------------------------------------------------


def test_directories_become_one(target):
    (target / "d/e").mkdir(parents=True)
    (target / "d").chmod(0o750)
    (target / "d/old").write_text("old")
    (target / "d/same").write_text("old")
    (target / "d/e/link").symlink_to("nowhere")
    os.utime(target / "d/old", (1, 1))
    good(unpack(tars.head("d", "5", mode=0o700) + tars.file("d/same", "new") + tars.file("d/e/link", "file") +
                tars.head("d/new", "5", mode=0o711) + tars.file("d/new/x", "x") + tars.head("kept", "2", link="d/old") + tars.END, target))
    assert (target / "d/old").read_text() == "old" and (target / "d/same").read_text() == "new"
    assert (target / "d/e/link").read_text() == "file" and not (target / "d/e/link").is_symlink()
    assert stat.S_IMODE((target / "d").stat().st_mode) == 0o750  # it was there
    assert stat.S_IMODE((target / "d/new").stat().st_mode) == 0o711
    assert os.readlink(target / "kept") == "d/old"
    assert (target / "d/new").stat().st_mtime == 0
    assert not [n for n in os.listdir(target) if n.startswith(STAGING)]


NEW = {"file": tars.file("z/x", "1"), "link": tars.head("z/x", "2", link="y"), "directory": tars.head("z/x", "5"), "below": tars.file("z/x/y", "1")}


@pytest.mark.parametrize("there, new, error", [
    ("directory", "file", errno.EISDIR),
    ("directory", "link", errno.EISDIR),
    ("file", "directory", errno.ENOTDIR),
    ("file", "below", errno.ENOTDIR),
    ("link", "directory", errno.ENOTDIR),
    ("link", "below", errno.ENOTDIR),
])
def test_conflicts_are_found_before_anything_moves(target, there, new, error):
    (target / "z").mkdir()
    (target / "elsewhere").mkdir()
    if there == "directory":
        (target / "z/x").mkdir()
    elif there == "file":
        (target / "z/x").write_text("file")
    else:
        (target / "z/x").symlink_to("../elsewhere")
    around = b"".join(tars.file(n, "new") for n in ("a", "kept", "z/a", "z/zz", "zz"))
    refused(around + NEW[new] + tars.END, target, "'z/x'", error=error)


@needs_root
def test_places_where_nobody_may_write(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    (root / "mine").mkdir()  # root's
    (root / "mine/x").write_text("old")
    bad(as_nobody(root, "unpack", ".", "auto", 0, 0, data=A + tars.file("mine/y", "1") + tars.END), errno.EACCES, "'mine'")
    bad(as_nobody(root, "unpack", "mine", "auto", 0, 0, data=A + tars.END), errno.EACCES)
    assert sorted(os.listdir(root)) == ["mine"] and os.listdir(root / "mine") == ["x"]


@needs_root
def test_modes_that_shut_out_their_owner(tmp_path):
    """Not root, who would not notice: directories that can neither be written nor entered."""
    root = tmp_path / "root"
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    data = (tars.head("ro", "5", mode=0o555, mtime=5) + tars.head("ro/sub", "5", mode=0o500, mtime=6) + tars.file("ro/sub/f", "1", mode=0o400) +
            tars.head("none", "5", mode=0, mtime=7) + tars.head("none/sub", "5", mode=0, mtime=8) + tars.file("none/sub/f", "1", mode=0) + tars.END)
    done = as_nobody(root, "unpack", ".", "auto", 0, 0, data=data)
    assert (done.returncode, done.stderr) == (0, b"")
    want = {"ro": (0o555, 5), "ro/sub": (0o500, 6), "ro/sub/f": (0o400, 0), "none": (0, 7), "none/sub": (0, 8), "none/sub/f": (0, 0)}
    assert {n: (stat.S_IMODE((root / n).stat().st_mode), (root / n).stat().st_mtime) for n in want} == want
    # The same again goes into them: those that are there cannot be written to.
    bad(as_nobody(root, "unpack", ".", "auto", 0, 0, data=data), errno.EACCES)
    # And away again, when it is refused.
    bad(as_nobody(root, "unpack", "new", "auto", 0, 0, data=data[:-1024] + tars.file("../x") + tars.END), errno.EBADMSG)
    assert sorted(os.listdir(root)) == ["none", "ro"]
    # Names of directories in another order, and twice.
    data = tars.file("p/q/f", "1") + tars.head("p/q", "5", mode=0o555) + tars.head("p", "5", mode=0o500) + tars.head("p", "5", mode=0o555)
    done = as_nobody(root, "unpack", ".", "auto", 0, 0, data=data + tars.END)
    assert (done.returncode, done.stderr) == (0, b"")
    assert [stat.S_IMODE((root / n).stat().st_mode) for n in ("p", "p/q")] == [0o555, 0o555]


@needs_root
def test_owners_are_ignored(tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo("a")
        info.uid, info.gid, info.uname, info.gname = 12345, 12345, "daemon", "daemon"
        t.addfile(info)
    good(unpack(out.getvalue(), tmp_path / "out"))
    st = os.stat(tmp_path / "out/a")
    assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid())


def test_the_answer_is_a_record(tmp_path):
    for path, name in ((tmp_path / "out", b"out"), (f"{tmp_path}/out//", b"out"), (f"{tmp_path}/out/.", b".")):
        record = good(unpack(A + tars.END, path)).stdout
        length, kind = struct.unpack_from("<Ic", record)
        assert length == len(record) - 4 and kind == b"d" and struct.pack("<I", len(name)) + name in record


# --- file systems, and what forbids to move ------------------------------------------------------------------------


def in_a_mount(tmp_path, at, size, *args, data):
    """With a small file system there, which nobody else sees; also what was in it in the end."""
    script = 'at=$1 size=$2; shift 2; mount -t tmpfs -o size=$size none "$at" && { "$@"; echo $? >"$at/../status"; find "$at" -mindepth 1 >"$at/../found"; }'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", at, size, PROGRAM, *map(str, args)], input=data, capture_output=True,
                          timeout=TIMEOUT_S, check=False)
    done.returncode = int((tmp_path / "status").read_text())
    return done, (tmp_path / "found").read_text().split()


@needs_root
def test_no_space(tmp_path):
    at = tmp_path / "small"
    at.mkdir()
    data = tars.file("a/b", b"x" * 100_000) + tars.file("c", b"x" * 3_000_000) + tars.END
    done, found = in_a_mount(tmp_path, at, "2m", "unpack", at / "new/here", "auto", 0, 0, data=data)
    bad(done, errno.ENOSPC, "'c'")
    assert found == []
    done, found = in_a_mount(tmp_path, at, "4m", "unpack", at, "auto", 0, 0, data=data)
    good(done)
    assert sorted(found) == [f"{at}/a", f"{at}/a/b", f"{at}/c"]


@needs_root
def test_another_file_system_below(tmp_path):
    at = tmp_path / "mounted"
    at.mkdir()
    done, found = in_a_mount(tmp_path, at, "1m", "unpack", tmp_path, "auto", 0, 0, data=A + tars.file("mounted/x", "1") + tars.END)
    bad(done, errno.EXDEV, "'mounted'")
    assert found == [] and sorted(os.listdir(tmp_path)) == ["found", "mounted", "status"]


def nothing_changes_its_directory():
    """As in a box on Linux 5.13 to 5.18: Landlock that has no word for it forbids it."""
    libc = ctypes.CDLL(None, use_errno=True)
    every = (1 << 13) - 1
    attributes = ctypes.create_string_buffer(struct.pack("<Q", every))
    ruleset = libc.syscall(444, attributes, 8, 0)
    root = os.open("/", os.O_PATH)
    rule = ctypes.create_string_buffer(struct.pack("<Qi", every, root))
    if ruleset < 0 or libc.syscall(445, ruleset, 1, rule, 0) < 0 or libc.prctl(38, 1, 0, 0, 0) < 0 or libc.syscall(446, ruleset, 0) < 0:
        os._exit(99)


def without_moving(data, into, max_bytes=0):
    done = call("unpack", into, "auto", max_bytes, 0, data=data, preexec_fn=nothing_changes_its_directory)
    if done.returncode == 99:
        pytest.skip("no Landlock here")
    return done


def test_where_nothing_may_change_its_directory(world, tmp_path):
    (world / "a/b").chmod(0o555)
    (world / "a/b/c/large").chmod(0)
    os.truncate(world / "a/none", 1 << 20)  # a hole
    for name in ("a/none", "a/b", "a/b/c", "a"):
        os.utime(world / name, (10**9, 10**9))
    data = archive_by_gnu(world, "gnu", "-S")
    out = tmp_path / "out"
    good(without_moving(data, out))
    assert tree(out) == tree(world)
    assert os.stat(out / "a/none").st_blocks * 512 < 1 << 20
    # Into what is there, in place of what is there.
    (out / "a/file").write_text("old")
    (out / "a/b/more").write_text("more")
    (out / "a").chmod(0o750)
    good(without_moving(data, out))
    assert (out / "a/file").read_text() == "hello" and (out / "a/b/more").read_text() == "more"
    assert stat.S_IMODE((out / "a").stat().st_mode) == 0o750
    before = tree(out)
    bad(without_moving(data[:-10240] + tars.file("../x") + tars.END, out), errno.EBADMSG)
    assert tree(out) == before and staged(out) == []


def test_a_copy_counts(tmp_path):
    data = tars.file("d/a", "x" * 600) + tars.head("e/b", "1", link="d/a") + tars.END
    bad(without_moving(data, tmp_path / "out", max_bytes=1199), errno.EBADMSG, "'e/b'", "larger than it may be")
    good(without_moving(data, tmp_path / "out", max_bytes=1200))
    good(unpack(data, tmp_path / "other", max_bytes=600))


# --- ends before the end -----------------------------------------------------------------------------------------


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def staged(target):
    return [n for n in os.listdir(target) if n.startswith(STAGING)] if target.exists() else []


def start(target, data):
    """One that has read so much and waits for more."""
    process = subprocess.Popen([PROGRAM, "unpack", target, "auto", "0", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(data)
    process.stdin.flush()
    return process


HALF = tars.file("d/a", "1") + tars.head("big", size=1 << 20) + b"x" * 500_000


AT_REST = {"nothing": b"", "a header": A[:100], "a file": HALF, "gzip": tars.gz(HALF)[:600], "the end": A + tars.END}


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("where", AT_REST)
def test_asked_to_stop(tmp_path, where, signal_number):
    target = tmp_path / "made/here"
    process = start(target, AT_REST[where])
    wait_for(lambda: staged(target))
    process.send_signal(signal_number)
    assert process.wait(30) == errno.EINTR
    assert process.stderr.read() == b"asked to stop\n"
    assert os.listdir(tmp_path) == []
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


def test_what_a_killed_one_left_goes_with_the_next(target):
    process = start(target, HALF)
    wait_for(lambda: staged(target) and (target / staged(target)[0] / "big").exists())
    left = staged(target)
    # While it lives it is left alone.
    good(unpack(A + tars.END, target))
    assert staged(target) == left
    process.kill()
    process.communicate()
    assert staged(target) == left
    good(unpack(A + tars.END, target))
    assert staged(target) == [] and (target / "a").exists()


def test_staging_directories_of_others(target):
    """Of a process that lives, of one that holds it in another box, and what only looks like one."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"{STAGING}{os.getpid()}", f"{STAGING}{gone.pid}", f"{STAGING}{gone.pid}-3", STAGING, f"{STAGING}x", f"{STAGING}{gone.pid}x",
             f"{STAGING}{gone.pid}-", f"{STAGING}0", f"{STAGING}99999999999999999999"]
    for name in names:
        (target / name / "d").mkdir(parents=True)
        (target / name / "d").chmod(0)
    (target / f"{STAGING}{gone.pid}-4").symlink_to("..")
    (target / f"{STAGING}{gone.pid}-5").write_text("")
    held = os.open(target / f"{STAGING}{gone.pid}-3", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    good(unpack(A + tars.END, target))
    left = set(names) - {f"{STAGING}{gone.pid}"} | {f"{STAGING}{gone.pid}-4", f"{STAGING}{gone.pid}-5"}
    assert set(staged(target)) == left
    os.close(held)
    good(unpack(A + tars.END, target))
    assert set(staged(target)) == left - {f"{STAGING}{gone.pid}-3"}


def test_a_name_that_is_taken(target):
    """In a directory that several boxes share, processes have the same numbers."""
    process = start(target, b"")
    wait_for(lambda: staged(target))
    assert staged(target) == [f"{STAGING}{process.pid}"]
    process.stdin.close()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    assert staged(target) == []


# --- others of the same user, meanwhile --------------------------------------------------------------------------


def test_others_move_things_about(target, tmp_path):
    """Whatever they do, it ends, and nothing outside is touched."""
    outside = tmp_path / "outside"
    (outside / "d").mkdir(parents=True)
    (outside / "d/f").write_text("theirs")
    over = threading.Event()

    def meddle():
        dice = random.Random(7)
        while not over.is_set():
            for name in staged(target):
                stage = target / name
                try:
                    found = [os.path.join(f, n) for f, ds, fs in os.walk(stage) for n in ds + fs]
                    victim = dice.choice(found) if found else None
                    what = dice.randrange(4)
                    if victim and what == 0:
                        os.rename(victim, stage / f"moved{dice.randrange(9)}")
                    elif victim and what == 1:
                        os.rename(victim, victim + "~")
                        os.symlink(outside, victim)
                    elif what == 2:
                        os.symlink(outside, stage / f"d{dice.randrange(9)}")
                    elif victim:
                        shutil.rmtree(victim) if os.path.isdir(victim) and not os.path.islink(victim) else os.unlink(victim)
                except OSError:
                    pass

    thread = threading.Thread(target=meddle)
    thread.start()
    try:
        data = b"".join(tars.head(f"d{i}", "5") + tars.file(f"d{i}/f", "ours") + tars.head(f"d{i}/h", "1", link=f"d{i}/f") +
                        tars.head(f"d{i}/l", "2", link="f") for i in range(9)) * 20 + tars.END
        for _ in range(25):
            done = unpack(data, target)
            assert 0 <= done.returncode < 128 and done.stderr.count(b"\n") == (done.returncode != 0)
    finally:
        over.set()
        thread.join()
    assert tree(outside, times=False) == {b"d": (stat.S_IFDIR, 0o755), b"d/f": tree(outside, times=False)[b"d/f"]}
    assert (outside / "d/f").read_text() == "theirs"


# --- packing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_there_and_back(world, tmp_path, form):
    packed = good(pack(world, form)).stdout
    assert packed.startswith(b"\x1f\x8b") == (form == "tar.gz")
    good(unpack(packed, tmp_path / "out"))
    assert tree(tmp_path / "out") == tree(world)
    with tarfile.open(fileobj=io.BytesIO(packed)) as t:
        names = t.getnames()
        assert "." not in names and len(names) == len(set(names)) == len(tree(world))
        for member in t:
            assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
            parent = os.path.dirname(member.name)
            assert parent == "" or names.index(parent) < names.index(member.name)


@pytest.mark.parametrize("form", ["tar", "tar.gz"])
def test_others_read_what_is_packed(world, tmp_path, form):
    (tmp_path / "packed").write_bytes(good(pack(world, form)).stdout)
    (tmp_path / "by-gnu").mkdir()
    done = subprocess.run(["tar", "-C", tmp_path / "by-gnu", "-xf", tmp_path / "packed"], capture_output=True, check=True)
    assert done.stderr == b"" and tree(tmp_path / "by-gnu") == tree(world)
    with tarfile.open(tmp_path / "packed") as t:
        t.extractall(tmp_path / "by-python", filter="fully_trusted") if hasattr(tarfile, "fully_trusted_filter") else t.extractall(tmp_path / "by-python")
    # It leaves links the time of now.
    assert tree(tmp_path / "by-python", times=False) == tree(world, times=False)


def test_the_same_bytes_twice(world):
    assert good(pack(world, "tar.gz")).stdout == good(pack(world, "tar.gz")).stdout


def test_files_only(world):
    with tarfile.open(fileobj=io.BytesIO(good(pack(world, "tar", "files")).stdout)) as t:
        assert {os.fsencode(n) for n in t.getnames()} == {p for p, e in tree(world).items() if e[0] == stat.S_IFREG}
        assert all(m.isreg() for m in t)


def test_what_is_left_out(world):
    before = good(pack(world)).stdout
    os.mkfifo(world / "empty/pipe")
    with socket.socket(socket.AF_UNIX) as s:
        here = os.getcwd()
        os.chdir(world / "empty")
        s.bind("socket")
        os.chdir(here)
    if os.geteuid() == 0:
        os.mknod(world / "empty/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    (world / "empty" / (STAGING + "1")).mkdir()
    (world / "empty" / (STAGING + "1") / "x").write_text("x")
    (world / (STAGING + "2")).write_text("x")
    (world / ".glovebox-put-3").write_text("x")
    os.utime(world / "empty", (10**9, 10**9 + len("empty")))
    assert len(good(pack(world)).stdout) == len(before)


def test_what_is_no_directory(target, tmp_path):
    bad(pack(target / "kept"), errno.ENOTDIR, "kept")
    assert bad(pack(tmp_path / "nothing"), errno.ENOENT, "nothing").stdout == b""


@needs_root
def test_what_cannot_be_read(world):
    for path in [world, *world.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    (world / "a/b/secret").write_text("x")
    (world / "a/b/secret").chmod(0)
    done = as_nobody(world, "pack", ".", "tar", "all")
    assert done.returncode == errno.EACCES and done.stderr.startswith(b"'a/b/secret': ")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as t:
        assert len(t.getnames()) == len(tree(world)) - 1
    (world / "a/b/secret").unlink()
    (world / "a/b").chmod(0)
    done = as_nobody(world, "pack", ".", "tar", "all")
    assert done.returncode == errno.EACCES and done.stderr.startswith(b"'a/b': ")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as t:
        assert "a/file" in t.getnames() and "a/b" in t.getnames() and "a/b/script" not in t.getnames()


CHANGES = {"was cut": lambda path: os.truncate(path, 3_000_000), "grew": lambda path: os.truncate(path, 9_000_000), "": os.unlink}


@pytest.mark.parametrize("text", CHANGES)
def test_a_file_changes_while_it_is_packed(tmp_path, text):
    root = tmp_path / "root"
    root.mkdir()
    (root / "big").write_bytes(b"x" * 8_000_000)
    process = subprocess.Popen([PROGRAM, "pack", root, "tar", "all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    data = process.stdout.read(10_000)
    CHANGES[text](root / "big")
    rest, said = process.communicate(timeout=60)
    assert process.returncode == (errno.EAGAIN if text else 0)
    assert said.decode() == (f"'big': it {text} while it was read\n" if text else "")
    with tarfile.open(fileobj=io.BytesIO(data + rest)) as t:
        assert t.getmember("big").size == 8_000_000
        content = t.extractfile("big").read()
    assert len(content) == 8_000_000 and content.startswith(b"x" * 9_000)


def test_nobody_reads_what_is_packed(world):
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([PROGRAM, "pack", world, "tar", "all"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    process.communicate(timeout=30)
    assert process.returncode != 0


# --- size --------------------------------------------------------------------------------------------------------


# 8 MiB, and the program itself with its stack.
MOST_BYTES = 12 << 20


def in_little_memory():
    """All that it maps is bounded: a test that only looked at it would see the memory of its parent."""
    if not IS_CHECKED:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))


def fed(chunks, *args):
    """With input that is made as it is read: the exit status, and what it said."""
    read, write = os.pipe()

    def feed():
        try:
            with open(write, "wb", buffering=1 << 20) as f:
                for chunk in chunks:
                    f.write(chunk)
        except BrokenPipeError:
            pass

    thread = threading.Thread(target=feed)
    process = subprocess.Popen([PROGRAM, *map(str, args)], stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=in_little_memory)
    os.close(read)
    thread.start()
    _, said = process.communicate()
    thread.join()
    return process.returncode, said


def check_many(tmp_path, members, size):
    def chunks():
        for i in range(members):
            folder = f"d{i % 7}/e{i % 89}"
            yield tars.pax(mtime="1.5") + tars.file(f"{folder}/{i}", "1") if i % 10 else tars.head(f"{folder}/d{i}", "5", mode=0o711)
        yield tars.head("big", size=size)
        for _ in range(size >> 20):
            yield b"x" * (1 << 20)
        yield tars.END

    assert fed(chunks(), "unpack", tmp_path / "out", "auto", 0, 0) == (0, b"")
    with open(tmp_path / "packed", "wb") as f:
        subprocess.run([PROGRAM, "pack", tmp_path / "out", "tar.gz", "all"], stdout=f, check=True, preexec_fn=in_little_memory)
    with open(tmp_path / "packed", "rb") as f:
        subprocess.run([PROGRAM, "unpack", tmp_path / "again", "auto", "0", "0"], stdin=f, stdout=subprocess.DEVNULL, check=True,
                       preexec_fn=in_little_memory)
    assert sum(len(d) + len(f) for _, d, f in os.walk(tmp_path / "again")) == sum(len(d) + len(f) for _, d, f in os.walk(tmp_path / "out"))
    assert os.path.getsize(tmp_path / "again/big") == size
    shutil.rmtree(tmp_path / "again")
    shutil.rmtree(tmp_path / "out")


@pytest.mark.more
def test_many_members_in_little_memory(tmp_path):
    check_many(tmp_path, 3000, 32 << 20)


@pytest.mark.slow
def test_very_many_members_in_little_memory(tmp_path):
    check_many(tmp_path, 100_000, 1 << 30)


@pytest.mark.parametrize("what", ["a map of a million parts", "long headers without end", "a map without end", "a long name of a terabyte"])
def test_headers_take_little_memory(tmp_path, what):
    status, said = fed([A, BAD[what][0], tars.END], "unpack", tmp_path / "out", "auto", 0, 0)
    assert status == errno.EBADMSG and BAD[what][1] in said.decode()


@pytest.mark.skipif(IS_CHECKED, reason="a sanitized program has much memory before it begins")
@pytest.mark.parametrize("mib", [2, 3, 4, 5])
def test_without_memory(target, mib):
    """The library has a way out of its own then."""
    before = tree(target)
    data = A + tars.pax_sparse("s", [(i * 2, 1) for i in range(32_768)], b"x" * 32_768, 65_536, "1.0") + tars.END
    done = call("unpack", target, "auto", 0, 0, data=data,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
    assert (done.returncode == errno.EBADMSG and tree(target) == before) or mib == 5, (done.returncode, done.stderr)
