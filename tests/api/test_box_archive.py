# SPDX-License-Identifier: Apache-2.0
"""The own API: archives of a box, both ways, and archives that nobody should take.

An archive that is refused is refused whole: 422 invalid_archive, and in the box nothing has changed, wherever the bad member stands.
"""
import concurrent.futures
import gzip
import http.client
import io
import os
import random
import tarfile

import pytest

from files import MIB, Filed, Reply, contents, directory, hard_link, head, member, nothing_stays, symlink, tar
from server import SANITIZED, mark, needs_root, shared, status_of
from test_ci_files import DISPOSITION

pytestmark = needs_root

GIB = 1 << 30

server = shared()


@pytest.fixture(scope="module")
def box(server):
    with Filed(server) as box:
        yield box


@pytest.fixture
def top(box):
    name = mark()
    box.out(f"mkdir {name}")
    return name


# --- out of a box --------------------------------------------------------------------------------------------

ONE_OF_EACH = """
import os
os.chdir(%r)
os.makedirs("d/e"); os.mkdir("empty", 0o700)
open("a.txt", "w").write("hello"); os.chmod("a.txt", 0o640); os.utime("a.txt", (1600000000, 1600000000))
open("d/e/run.sh", "w").write("#!/bin/sh\\n"); os.chmod("d/e/run.sh", 0o755)
open("d/bytes", "wb").write(bytes(range(256)) * 300)
open("größe 漢 -x", "w").write("name"); open("n" * 255, "w").write("long"); open("zero", "w")
os.symlink("a.txt", "link"); os.symlink("../a.txt", "d/up")
"""
EACH = {"a.txt": b"hello", "d": "directory", "d/bytes": bytes(range(256)) * 300, "d/e": "directory", "d/e/run.sh": b"#!/bin/sh\n", "d/up": "-> ../a.txt",
        "empty": "directory", "größe 漢 -x": b"name", "link": "-> a.txt", "n" * 255: b"long", "zero": b""}


@pytest.mark.parametrize("shape, kind", [("tar", "application/x-tar"), ("tar.gz", "application/gzip"), (None, None)])
def test_pack(box, top, shape, kind):
    box.python(ONE_OF_EACH % top)
    reply = box.pack(path=top, **({"format": shape} if shape else {})).ok()
    if kind:
        assert reply.headers.get_content_type() == kind and (reply.body[:2] == b"\x1f\x8b") == (shape == "tar.gz")
    assert DISPOSITION.fullmatch(reply.headers["Content-Disposition"]) and reply.headers["X-Content-Type-Options"] == "nosniff"
    assert contents(reply.body) == EACH
    with tarfile.open(fileobj=io.BytesIO(reply.body), mode="r:*") as archive:
        modes = {m.name.removeprefix("./").rstrip("/"): m.mode & 0o7777 for m in archive}
        times = {m.name.removeprefix("./"): m.mtime for m in archive}
    assert (modes["a.txt"], modes["d/e/run.sh"], modes["empty"]) == (0o640, 0o755, 0o700) and times["a.txt"] == 1600000000


def test_how_it_is_sent(box, top):
    """To a client of 1.1 in chunks, and the connection goes on; to one of 1.0 until the connection ends."""
    box.python(ONE_OF_EACH % top)
    target = f"{box.path}/archive?path={top}&format=tar"
    with box.server.wire() as wire:
        wire.send(head(box, "GET", target) * 2 + head(box, "HEAD", target) + head(box, "GET", box.file(f"{top}/a.txt")))
        assert contents(wire.response().body) == EACH == contents(wire.response().body)
        assert wire.response(has_body=False).status == 200 and wire.response().body == b"hello"
    said = box.server.raw(head(box, "GET", target).replace(b"HTTP/1.1", b"HTTP/1.0"))
    answer_head, _, body = said.partition(b"\r\n\r\n")
    assert b"chunked" not in answer_head and contents(body) == EACH


def test_what_is_packed(box, top):
    """Files, directories and links; what has no content is left out, or is told as what it is, and is never read."""
    box.python(f"""
import os, socket
os.chdir({top!r})
open("f", "w").write("x"); os.mkfifo("p"); socket.socket(socket.AF_UNIX).bind("s"); os.symlink("/etc/passwd", "l"); os.symlink("nowhere", "dangling")
os.link("f", "hard"); os.mkdir(".glovebox-unpack-7"); open(".glovebox-unpack-7/x", "w"); open(".hidden", "w"); open("\\n", "w")
""")
    found = contents(box.pack(path=top, format="tar").ok().body)
    assert {k: v for k, v in found.items() if k not in ("p", "s")} == {"f": b"x", "hard": b"x", "l": "-> /etc/passwd", "dangling": "-> nowhere", ".hidden": b"", "\n": b""}
    assert {found.get("p", "special"), found.get("s", "special")} == {"special"}
    box.pack(path=f"{top}/missing").refused(404, "not_found", "missing")
    box.pack(path=f"{top}/f").refused(409, "not_a_directory")
    for shape in ("zip", "tar.xz", "", "TAR"):
        assert box.pack(path=top, format=shape).status == 422, shape
    box.out(f"mkdir {top}/empty")
    assert contents(box.pack(path=f"{top}/empty", format="tar").ok().body) == {}
    assert "hostname" in contents(box.pack(path="etc", root="/", format="tar").ok().body)


def test_names_that_are_no_text_are_packed(box, top):
    box.python(f"open(b'{top}/\\xff\\xfe', 'w').write('raw'); open(b'{top}/' + b'\\xf8' * 120, 'w').write('long')")
    with tarfile.open(fileobj=io.BytesIO(box.pack(path=top, format="tar").ok().body), errors="surrogateescape") as archive:
        names = {m.name.removeprefix("./").encode("utf-8", "surrogateescape") for m in archive if m.isreg()}
    assert names == {b"\xff\xfe", b"\xf8" * 120}


def test_large_and_sparse_files_are_packed(server):
    with Filed(server, limits={"workspace_bytes": 200 * MIB}) as large:
        content = os.urandom(20 * MIB)
        large.write("big", content).ok(201)
        large.out("truncate -s 30M sparse; printf end >> sparse")
        found = contents(large.pack(format="tar.gz").ok().body)
        assert found["big"] == content and found["sparse"] == bytes(30 * MIB) + b"end"


@pytest.mark.more
def test_a_file_that_shrinks_while_it_is_packed(server):
    """The archive is sound, or the connection is cut: never does a broken one end as if it were whole."""
    with Filed(server, limits={"workspace_bytes": 200 * MIB}) as large:
        large.out("truncate -s 64M a; truncate -s 64M b")
        connection = server.connection()
        answer = server.send(connection, "GET", f"{large.path}/archive?format=tar")
        assert answer.status == 200
        large.out("truncate -s 10 a b")
        try:
            body = answer.read()
        except (http.client.IncompleteRead, ConnectionResetError):
            return  # cut off
        finally:
            connection.close()
        with tarfile.open(fileobj=io.BytesIO(body)) as archive:
            for m in archive:
                assert not m.isreg() or len(archive.extractfile(m).read()) == m.size


# --- into a box ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["w", "w:gz"])
@pytest.mark.parametrize("shape", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT], ids=["pax", "gnu", "ustar"])
def test_unpack(box, top, how, shape):
    long = "/".join(["d" * 50] * 4) if shape == tarfile.USTAR_FORMAT else "/".join(["ü" * 100] * 8)
    data = tar(directory("d", 0o700), member("d/run.sh", b"#!/bin/sh\n", mode=0o755), member("made/on/the/way", b"x"), member(f"{long}/f", b"far"), symlink("link", "d/run.sh"),
               symlink("d/up", "../made"), hard_link("hard", "d/run.sh"), member("empty"), member("0", b"x" * 70_000), how=how, shape=shape)
    entry = box.unpack(data, path=f"{top}/in/it").entry()
    assert entry["type"] == "directory"
    tree = box.tree(f"{top}/in/it")
    assert {k: v for k, v in tree.items() if v != "directory"} == {
        "d/run.sh": "#!/bin/sh\n", "made/on/the/way": "x", f"{long}/f": "far", "link": "-> d/run.sh", "d/up": "-> ../made", "hard": "#!/bin/sh\n", "empty": "", "0": 70_000}
    assert box.out(f"cd {top}/in/it; stat -c '%a %u %Y' d/run.sh; stat -c %a d; stat -c %h d/run.sh hard") == "755 65532 1600000000\n700\n2\n2\n"


def test_there_and_back(box, top):
    box.python(ONE_OF_EACH % top)
    for n, shape in enumerate(("tar", "tar.gz")):
        packed = box.pack(path=top, format=shape).ok().body
        box.unpack(packed, path=f"copy{n}-{top}").ok()
        again = box.pack(path=f"copy{n}-{top}", format="tar").ok().body
        assert contents(again) == EACH
        look = "find . -printf '%p %m %y %l %T@\\n' | sed 's/\\.[0-9]*$//' | sort | grep -v '^\\. '"  # tar has whole seconds
        assert box.out(f"cd {top}; {look}").split("\n")[1:] == box.out(f"cd copy{n}-{top}; {look}").split("\n")[1:], "modes and times, too"
        box.remove(f"copy{n}-{top}", recursive=1).ok(204)


def test_where_it_is_unpacked(box, top):
    name = mark()
    box.unpack(tar(member(f"{name}/f", b"x"))).ok()
    assert box.bytes(f"{name}/f") == b"x"
    box.unpack(tar(member("f", b"x")), path=f"tmp/{name}", root="/").ok()
    assert box.bytes(f"tmp/{name}/f", root="/") == b"x"
    box.out(f"cd {top}; touch file; mkdir real ro; ln -s real link; chmod 555 ro")
    box.unpack(tar(member("f", b"x")), path=f"{top}/file").refused(409, "not_a_directory")
    box.unpack(tar(member("f", b"x")), path=f"{top}/ro").refused(403, "not_permitted")
    box.unpack(tar(member("f", b"x")), path="etc", root="/").refused(403, "not_permitted")
    box.unpack(tar(member("f", b"x")), path=f"{top}/link").ok()
    assert box.tree(top) == {"file": "", "real": "directory", "ro": "directory", "link": "-> real", "real/f": "x"}
    box.unpack(tar(), path=f"{top}/nothing").ok()
    assert box.tree(f"{top}/nothing") == {}


def test_merge(box, top):
    """Directories are joined, files replaced, the rest stays."""
    box.python(f"""
import os
os.chdir({top!r})
os.makedirs("d/kept"); open("d/kept/f", "w").write("old"); open("d/replaced", "w").write("old"); open("other", "w").write("old"); os.symlink("other", "link"); os.chmod("d", 0o711)
""")
    box.unpack(tar(directory("d"), member("d/replaced", b"new"), member("d/kept/g", b"new"), member("link", b"no link any more"), symlink("d/l", "replaced")), path=top).ok()
    assert box.tree(top) == {"d": "directory", "d/kept": "directory", "d/kept/f": "old", "d/kept/g": "new", "d/replaced": "new", "d/l": "-> replaced", "other": "old",
                             "link": "no link any more"}


CONFLICTS = {
    "file over a directory": [member("aaa", b"new"), member("d", b"x")],
    "file over an empty directory": [member("aaa", b"new"), member("e", b"x")],
    "link over a directory": [member("aaa", b"new"), symlink("d", "aaa")],
    "directory over a file": [member("aaa", b"new"), directory("f")],
    "file below a file": [member("aaa", b"new"), member("f/x", b"x")],
    "directory over a link": [member("aaa", b"new"), directory("to-file")],
}


def test_what_stands_in_the_way(box, top):
    """It is found before the first file is moved: nothing is half done."""
    box.out(f"cd {top}; mkdir d e; echo f > d/f; echo f > f; ln -s f to-file; ln -s /tmp to-tmp")
    before = box.tree(top)
    for name, members in CONFLICTS.items():
        reply = box.unpack(tar(*members), path=top)
        assert reply.status in (409, 422), (name, reply)
        assert box.tree(top) == before, name
    # A link of the box where the archive has a directory: joined with what it leads to, replaced, or refused; but /tmp is not in the archive.
    reply = box.unpack(tar(directory("to-tmp"), member("to-tmp/planted", b"x")), path=top)
    assert reply.status in (200, 409, 422), reply
    assert "planted" not in box.out("ls -A /tmp")


# --- archives that nobody should take ------------------------------------------------------------------------


def header(name=b"f", size=0, kind=b"0", link=b"", mode=b"0000644", magic=b"ustar\x0000", prefix=b"", checksum=None, size_field=None):
    """A header by hand."""
    block = bytearray(512)
    block[0:len(name[:100])] = name[:100]
    block[100:107] = mode[:7]
    block[108:115] = block[116:123] = b"0000000"
    block[124:136] = size_field if size_field is not None else b"%011o\0" % size
    block[136:147] = b"%011o" % 1_600_000_000
    block[156:157] = kind
    block[157:157 + len(link[:100])] = link[:100]
    block[257:265] = magic
    block[345:345 + len(prefix)] = prefix
    block[148:156] = b" " * 8
    block[148:156] = checksum if checksum is not None else b"%06o\0 " % sum(block)
    return bytes(block)


END = bytes(1024)


def padded(data):
    return data + bytes(-len(data) % 512)


def pax(records, kind=b"x"):
    """An extended header with these records: key to value, in bytes."""
    data = b""
    for key, value in records.items():
        size = len(key) + len(value) + 3
        size += len(str(size + len(str(size))))
        data += b"%d %s=%s\n" % (size, key, value)
    return header(b"pax", len(data), kind) + padded(data)


GOOD = header(b"good", 1) + padded(b"x")


def base256(number):
    return b"\x80" + number.to_bytes(11, "big")


HOSTILE = {
    "absolute": tar(member("/tmp/owned", b"x")),
    "absolute directory": tar(directory("/tmp/owned")),
    "up": tar(member("../owned", b"x")),
    "up inside": tar(directory("d"), member("d/../../owned", b"x")),
    "up that stays inside": tar(directory("d"), member("d/../owned", b"x")),
    "up alone": tar(directory("..")),
    "up at the end": tar(member("d/..", b"x")),
    "empty name": header(b"", 1) + padded(b"x") + END,
    "only slashes": tar(member("//", b"x")),
    "NUL by pax": pax({b"path": b"a\0b"}) + header(b"f", 1) + padded(b"x") + END,
    "up by pax": pax({b"path": b"../owned"}) + header(b"f", 1) + padded(b"x") + END,
    "up by a global pax header": pax({b"path": b"../owned"}, b"g") + header(b"f", 1) + padded(b"x") + END,
    "absolute by pax": pax({b"path": b"/tmp/owned"}) + header(b"f", 1) + padded(b"x") + END,
    "up by a long name of GNU": header(b"././@LongLink", 9, b"L") + padded(b"../owned\0") + header(b"f", 1) + padded(b"x") + END,
    "up by the prefix": header(b"owned", 1, prefix=b"d/../..") + padded(b"x") + END,
    "long component": tar(member("x" * 256, b"x")),
    "long path": tar(member("/".join(["x" * 200] * 21), b"x")),
    "symlink up": tar(symlink("l", "../x")),
    "symlink absolute": tar(symlink("l", "/etc/passwd")),
    "symlink up from below": tar(directory("d"), symlink("d/l", "../../x")),
    "symlink up by a way around": tar(directory("d"), symlink("l", "d/../../x")),
    "symlink to nothing": header(b"l", 0, b"2", b"") + END,
    "symlink by pax": pax({b"linkpath": b"/etc"}) + header(b"l", 0, b"2", b"fine") + END,
    "symlink by a link of the same archive": tar(directory("d"), symlink("d/a", ".."), symlink("b", "d/a/../../x")),
    "below a symlink": tar(directory("d"), symlink("l", "d"), member("l/owned", b"x")),
    "below a symlink that comes later": tar(member("l/owned", b"x"), symlink("l", "d")),
    "below a file": tar(member("f", b"x"), member("f/owned", b"x")),
    "hard link out": tar(hard_link("h", "/etc/passwd")),
    "hard link up": tar(hard_link("h", "../x")),
    "hard link to what is not there": tar(hard_link("h", "missing")),
    "hard link to what was there before": tar(hard_link("h", "outside")),
    "hard link to a directory": tar(directory("d"), hard_link("h", "d")),
    "hard link to a symlink, then below": tar(symlink("l", "d"), hard_link("h", "l"), directory("d"), member("h/owned", b"x")),
    "hard link to itself": tar(hard_link("h", "h")),
    "character device": tar(member("dev", kind=tarfile.CHRTYPE, devmajor=1, devminor=5)),
    "block device": tar(member("dev", kind=tarfile.BLKTYPE, devmajor=8, devminor=0)),
    "fifo": tar(member("p", kind=tarfile.FIFOTYPE)),
    "socket": header(b"s", 0, b"s") + END,
    "setuid": tar(member("f", b"x", mode=0o4755)),
    "setgid": tar(member("f", b"x", mode=0o2755)),
    "sticky": tar(directory("d", mode=0o1777)),
    "twice as different types": tar(member("a", b"x"), directory("a")),
    "twice as file and link": tar(member("a", b"x"), symlink("a", "b"), member("a/owned", b"x")),
    "twice as directory and link": tar(directory("a"), symlink("a", "b")),
    "trailing garbage": tar(member("f", b"x")) + b"garbage" * 100,
    "a second archive behind": tar(member("f", b"x")) + tar(member("../owned", b"x")),
    "garbage behind the gzip": gzip.compress(tar(member("f", b"x"))) + b"garbage",
    "cut off in a header": tar(member("a", b"x"), member("b", b"y"))[:1200],
    "cut off in the content": tar(member("a", b"x" * 5000))[:2048],
    "cut off gzip": gzip.compress(tar(member("a", os.urandom(5000))))[:-100],
    "gzip with a wrong sum": gzip.compress(tar(member("a", b"x")))[:-8] + bytes(8),
    "no archive": b"hello, this is no archive" * 100,
    "nothing at all": b"",
    "half a header": b"x" * 300,
    "random": random.Random(1).randbytes(5000),
    "wrong checksum": header(b"f", 1, checksum=b"000001\0 ") + padded(b"x") + END,
    "size that is none": header(b"f", size_field=b"zzzzzzzzzzz\0") + END,
    "negative size": header(b"f", size_field=b"\xff" * 12) + END,
    "immense size": header(b"f", size_field=base256(1 << 62)) + END,
    "more than immense": header(b"f", size_field=base256(1 << 80)) + END,
    "size by pax": pax({b"size": b"9223372036854775807"}) + header(b"f", 1) + padded(b"x") + END,
    "negative size by pax": pax({b"size": b"-1"}) + header(b"f", 1) + padded(b"x") + END,
    "endless long name": header(b"././@LongLink", 2 * MIB, b"L") + b"x" * (2 * MIB) + header(b"f", 1) + padded(b"x") + END,
    "endless pax header": pax({b"comment": b"x" * (2 * MIB)}) + header(b"f", 1) + padded(b"x") + END,
    "pax header for nobody": pax({b"path": b"f"}) + END,
    "broken pax record": header(b"pax", 20, b"x") + padded(b"999 path=../owned\n\0\0") + header(b"f", 1) + padded(b"x") + END,
    "sparse of GNU": header(b"f", 0, b"S") + END,
    "sparse by pax": pax({b"GNU.sparse.major": b"1", b"GNU.sparse.minor": b"0", b"GNU.sparse.name": b"../owned", b"GNU.sparse.realsize": b"1099511627776"})
    + header(b"f", 512) + padded(b"1\n0\n0\n") + END,
    "name of a sparse file": pax({b"GNU.sparse.name": b"../owned"}) + header(b"f", 1) + padded(b"x") + END,
    "volume header": header(b"../owned", 0, b"V") + header(b"../owned", 1, b"M") + padded(b"x") + END,
    "unknown kind": header(b"f", 0, b"Q") + END,
    "the staging directory": tar(directory(".glovebox-unpack-1"), member(".glovebox-unpack-1/../../owned", b"x")),
    "bzip2": tar(member("f", b"x"), how="w:bz2"),
    "xz": tar(member("f", b"x"), how="w:xz"),
    "gzip in gzip": gzip.compress(gzip.compress(tar(member("f", b"x")))),
    "zip": b"PK\x03\x04" + bytes(26) + b"f" + b"PK\x05\x06" + bytes(18),
    "cpio": b"070701" + b"0" * 104 + b"TRAILER!!!\0",
    "ar": b"!<arch>\nf/              0           0     0     644     1         `\nx\n",
    "mtree": b"#mtree\n./owned type=link link=/etc/passwd\n",
    "ISO": bytes(32768) + b"\x01CD001\x01" + bytes(2041),
}
# These may be refused as what they are (422), or for want of room (413).
NO_ROOM = {"immense size", "more than immense", "size by pax", "sparse by pax"}
# Readers of archives differ in what these mean. Where one is taken, it is for a plain file, or for nothing.
OPEN = {"volume header", "name of a sparse file", "symlink by a link of the same archive", "up by a global pax header", "pax header for nobody", "broken pax record",
        "sparse of GNU", "unknown kind", "socket", "gzip in gzip", "nothing at all"}


def check_hostile(box, name, data):
    reply = box.unpack(data, path="place")
    assert reply.status == 422 or (name in NO_ROOM and reply.status == 413) or (name in OPEN and reply.status == 200), (name, reply)
    if reply.status == 422:
        error = reply.refused(422, "invalid_archive")
        assert error["message"] and not any(ord(c) < 32 for c in error["message"]), (name, error)
    return reply.status


def everywhere(box):
    return box.out("find /workspace /tmp /home /var/tmp /dev/shm -printf '%p %y %s %l %m\\n' | sort")


def test_hostile_archives(server):
    with Filed(server) as box:
        box.out("mkdir place; echo old > place/old; echo outside > place/outside; echo owned-not > owned-not")
        before = everywhere(box)
        for name, data in HOSTILE.items():
            refused = check_hostile(box, name, data) != 200
            assert not refused or everywhere(box) == before, f"{name}: something was written"
            assert "/owned" not in everywhere(box).replace("/owned-not", ""), name
            if not refused:
                box.out("cd place; ls -A | grep -v -e '^old$' -e '^outside$' | xargs -r rm -rf")


def test_hostile_members_behind_good_ones(server):
    """However late it is found: of the good ones nothing is there, either. Chunked or compressed, it is the same archive."""
    with Filed(server) as box:
        box.out("mkdir place; echo old > place/good; echo outside > place/outside")
        before = everywhere(box)
        for name, data in HOSTILE.items():
            if data[257:262] == b"ustar" and name not in OPEN:
                check_hostile(box, name, GOOD + data)
                check_hostile(box, name, gzip.compress(GOOD + header(b"d", 0, b"5") + data))
                assert everywhere(box) == before, name


def test_a_member_is_named(box, top):
    """So that somebody can mend the archive."""
    assert "bad" in box.unpack(tar(member("fine", b"x"), member("d/../bad", b"x")), path=top).refused(422, "invalid_archive")["message"]
    error = box.unpack(tar(member("\x1b[31mred\x07/../x", b"x")), path=top).refused(422, "invalid_archive")
    assert "\x1b" not in error["message"] and "\x07" not in error["message"]
    assert box.tree(top) == {}


def test_bombs(server):
    """A gibibyte in a megabyte, a million entries in a few: the box's own limits end it, and nothing of it stays."""
    with Filed(server, limits={"workspace_bytes": 8 * MIB, "workspace_inodes": 1000, "memory_bytes": 64 * MIB}) as small, nothing_stays(small):
        zeros = gzip.compress(header(b"f", 64 * MIB) + bytes(64 * MIB) + END, 1)
        assert small.unpack(zeros).status == 413
        many = gzip.compress(b"".join(header(b"%d" % n) for n in range(5000)) + END)
        assert small.unpack(many).status in (413, 422)
        deep = tar(member("/".join(["d"] * 2000), b"x"))
        assert small.unpack(deep, path="deep").status in (413, 422)
        assert small.unpack(gzip.compress(gzip.compress(zeros))).status in (413, 422)
        small.remove("deep", recursive=1)


def test_plain_ones_that_look_odd(box, top):
    """They are taken: names with backslashes, dots, spaces, controls; the archive's own root; another owner; other block sizes."""
    data = tar(directory("."), member("./a\\..\\b", b"1"), member("...", b"2"), member("..x", b"3"), member(" ", b"4"), member("-rf", b"5"),
               member("d/", kind=tarfile.DIRTYPE, mode=0o755),
               member("d/e", b"6"), member("owner", b"7", uid=0, gid=0, uname="root", gname="root"), member("nl\nx", b"8"),
               symlink("d/l", "../..."), symlink("d/self", "."), member("twice", b"first"), member("twice", b"second"), member("mode", b"9", mode=0o407))
    box.unpack(data + bytes(10240), path=top).ok()
    assert box.tree(top) == {"a\\..\\b": "1", "...": "2", "..x": "3", " ": "4", "-rf": "5", "d": "directory", "d/e": "6", "owner": "7", "nl\nx": "8", "d/l": "-> ../...",
                    "d/self": "-> .", "twice": "second", "mode": "9"}
    assert box.out(f"stat -c %u:%a {top}/owner {top}/mode") == "65532:644\n65532:407\n"
    raw_name = header("é".encode("latin-1"), 1) + padded(b"x") + END
    reply = box.unpack(raw_name, path=f"{top}/raw")
    assert reply.status in (200, 422), reply


def test_stale_staging(box, top):
    """What an unpacking left that was killed is cleared away by the next one; and somebody's file of that name is no way in."""
    box.out(f"cd {top}; mkdir -p .glovebox-unpack-999999/deep; touch .glovebox-unpack-999999/deep/f; ln -s /tmp .glovebox-unpack-999998; echo x > /tmp/kept")
    box.unpack(tar(member("f", b"x")), path=top).ok()
    assert box.bytes(f"{top}/f") == b"x" and box.out("cat /tmp/kept") == "x\n"
    assert ".glovebox-unpack-999999" not in box.tree(top)


def test_in_chunks(box, top):
    data = tar(*(member(f"{n}", b"x" * n) for n in range(50)))
    with box.server.wire() as wire:
        wire.send(head(box, "PUT", f"{box.path}/archive?path={top}", "Transfer-Encoding: chunked", "Content-Type: application/x-tar"))
        for at in range(0, len(data), 333):
            piece = data[at:at + 333]
            wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        wire.send(b"0\r\n\r\n")
        assert wire.response().status == 200
    assert box.tree(top) == {str(n): "x" * n for n in range(50)}


def test_two_at_once(box, top):
    """Into one place: each file is whole, from one or the other."""
    archives = [tar(*(member(f"d/{n}", b"%d" % who * 3000) for n in range(30))) for who in range(6)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert {r.status for r in pool.map(lambda a: box.unpack(a, path=top), archives)} == {200}
    tree = box.tree(top)
    assert set(tree) == {"d"} | {f"d/{n}" for n in range(30)}
    assert all(len(set(v)) == 1 and len(v) == 3000 for k, v in tree.items() if k != "d")


# --- how much ------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_ten_thousand_small_files(server):
    with Filed(server) as large:
        files = {f"{n % 100}/{n}": os.urandom(n % 300) for n in range(10_000)}
        large.unpack(tar(*(member(name, data) for name, data in files.items()), how="w:gz")).ok()
        assert large.out("find -type f | wc -l") == "10000\n"
        found = contents(large.pack(format="tar").ok().body)
        assert {k: v for k, v in found.items() if v != "directory"} == files


@pytest.mark.slow
def test_the_gate_holds_nothing_of_an_archive(server):
    """A gibibyte each way: what the gate has at most does not grow with it."""
    with Filed(server, limits={"workspace_bytes": 3 * GIB}) as large:
        gate = server.pid_of("gate")
        with open(f"/proc/{gate}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")
        before = int(status_of(gate)["VmHWM"].split()[0])
        block = os.urandom(MIB)
        with server.wire() as wire:
            wire.send(head(large, "PUT", f"{large.path}/archive", f"Content-Length: {GIB + 512 + 1024}", "Content-Type: application/x-tar") + header(b"f", GIB))
            for _ in range(1024):
                assert wire.send(block)
            wire.send(END)
            assert wire.response().status == 200
            wire.send(head(large, "GET", f"{large.path}/archive?format=tar"))
            got = 0
            while b"\r\n\r\n" not in wire.buffer:
                wire.fill()
            wire.buffer = wire.buffer.partition(b"\r\n\r\n")[2]
            while size := int(wire.line(), 16):
                got += len(wire.take(size))
                assert wire.take(2) == b"\r\n"
        assert got >= GIB + 1536
        assert SANITIZED or int(status_of(gate)["VmHWM"].split()[0]) - before < 16 * 1024
        assert large.out("sha256sum < f; head -c 1048576 f | cmp - <(tail -c 1048576 f) && echo same").endswith("same\n")
        assert Reply(*server.request("GET", large.file("f"), headers={"Range": "bytes=0-1048575"})).body == block
