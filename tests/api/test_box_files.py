# SPDX-License-Identifier: Apache-2.0
"""The own API: files of a box. Reading, ranges, tags, writing, directories, moving, deleting, listing; and whose they are.

Whatever is asked here is looked at from the other side as well: by a program in the box. Paths that nobody should send are in
test_box_file_paths.py, transfers that end early in test_box_file_ends.py.
"""
import base64
import concurrent.futures
import email.utils
import hashlib
import json
import os
import random
import re
import time
import urllib.parse

import pytest

from files import BYTES, ETAG, MIB, Filed, Reply, begin, contents, head, member, raw, tar
from server import certificate, file_part, mark, needs_root, serve, shared, tokens_variable, until  # noqa: F401
from test_boxes import refused, when
from test_ci_files import DISPOSITION

pytestmark = needs_root

server = shared()


@pytest.fixture(scope="module")
def box(server):
    with Filed(server) as box:
        yield box


@pytest.fixture
def top(box):
    """A directory of the box for this test alone."""
    name = mark()
    box.out(f"mkdir {name}")
    return name


# --- reading -------------------------------------------------------------------------------------------------


def test_read(box, top):
    box.out(f"printf 'hello\\n' > {top}/a.txt; touch -d @1600000000.25 {top}/a.txt")
    reply = box.read(f"{top}/a.txt").ok()
    assert reply.body == b"hello\n" and reply.headers["Content-Length"] == "6"
    assert ETAG.fullmatch(reply.headers["ETag"]) and reply.headers["Accept-Ranges"] == "bytes"
    assert email.utils.parsedate_to_datetime(reply.headers["Last-Modified"]).timestamp() == 1600000000
    assert reply.headers["X-Content-Type-Options"] == "nosniff" and reply.headers["X-Request-Id"]
    match = DISPOSITION.fullmatch(reply.headers["Content-Disposition"])
    assert match and match["name"] == "a.txt"


CONTENTS = {"empty": b"", "one byte": b"\0", "all bytes": bytes(range(256)) * 20, "line ends": b"\r\n" * 10,
            "looks like a chunk": b"5\r\nhello\r\n0\r\n\r\n", "a page": b"x" * 4096, "around a pipe": os.urandom(65537), "large": os.urandom(5 * MIB + 1)}


def test_content_comes_back_as_it_was(box, top):
    for number, (name, content) in enumerate(CONTENTS.items()):
        path = f"{top}/{number}"
        assert box.write(path, content).entry(201)["size"] == len(content), name
        assert box.bytes(path) == content, name
        assert box.out(f"sha256sum < {path}").split()[0] == hashlib.sha256(content).hexdigest(), name


def test_head_has_what_get_has(box, top):
    box.write(f"{top}/f.json", b"{}").ok(201)
    with box.server.wire() as wire:
        for method in ("HEAD", "GET", "HEAD"):  # on one connection: a body that should not be there would be taken for the next answer
            wire.send(head(box, method, box.file(f"{top}/f.json")))
        answers = [wire.response(has_body=method == "GET") for method in ("HEAD", "GET", "HEAD")]
    for name in ("content-length", "content-type", "etag", "last-modified", "accept-ranges", "content-disposition", "x-content-type-options"):
        assert len({a.get(name) for a in answers}) == 1 and answers[0].get(name), name
    assert answers[1].body == b"{}" and answers[0].status == 200
    assert box.read(f"{top}/missing", method="HEAD").status == 404
    assert box.read(f"{top}/f.json", {"Range": "bytes=0-0"}, method="HEAD").status in (200, 206)


TYPES = {"a.txt": "text/plain", "a.json": "application/json", "a.html": "text/html", "a.csv": "text/csv", "a.png": "image/png", "a.pdf": "application/pdf",
         "a": "application/octet-stream", "a.unheard-of": "application/octet-stream", ".png": "application/octet-stream",
         "a.png.unheard-of": "application/octet-stream", "a.html ": "application/octet-stream", "a.": "application/octet-stream"}


def test_content_types(box, top):
    box.python(f"for n in {list(TYPES)!r}: open('{top}/' + n, 'w').write('<script>')")
    for name, kind in TYPES.items():
        headers = box.read(f"{top}/{name}").ok().headers
        # A name that is all extension may be taken for one.
        assert headers.get_content_type() == kind or name == ".png", (name, headers["Content-Type"])
        # Nobody's browser runs what a box wrote as a page of this server.
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Content-Disposition"].startswith("attachment"), name


ODD = ['a"b.txt', 'a"', "a\\b", 'a\\"; x="', "né€𝄞", "a; filename=b", "100%", "%41", "%2e%2e", "'; x=y", "a,b", "-rf", "~", "a b", " ", "$(touch pwned)", "*", "?",
       "#", "a&b=c", "a+b", "\u202etxt.exe", "CON", "...", ".hidden", "=", ":", "[x]", "{path}"]


def test_odd_names(box, top):
    """They mean themselves: in the box, in the listing, and in the header, from which nothing gets out."""
    for name in ODD:
        assert box.write(f"{top}/{name}", name.encode()).entry(201)["path"].split("/")[-1] == name, name
        answer = raw(box, "GET", box.file(f"{top}/{name}"))
        assert answer.status == 200 and answer.body == name.encode(), (name, answer)
        disposition = answer.get("content-disposition").encode("latin-1").decode("utf-8", "replace")
        match = DISPOSITION.fullmatch(disposition)
        assert match, disposition
        plain = re.sub(r"\\(.)", r"\1", match["name"])
        assert urllib.parse.unquote(match["encoded"], errors="strict") == name if match["encoded"] else plain == name, (name, disposition)
    assert sorted(box.names(path=top)) == sorted(ODD)
    assert json.loads(box.python(f"import json, os; print(json.dumps(sorted(os.listdir('{top}'))))")) == sorted(ODD)


# Over a hundred bytes: (range, what of it comes). None: the whole, 200. 416: nothing.
RANGES = {
    "bytes=0-9": (0, 10), "bytes=90-": (90, 100), "bytes=-10": (90, 100), "bytes=-1000": (0, 100), "bytes=50-1000": (50, 100), "bytes=99-99": (99, 100),
    "bytes=0-": (0, 100), "bytes=0-0": (0, 1), "bytes=-1": (99, 100), "bytes=0-99": (0, 100), "bytes=10-18446744073709551615": (10, 100),
    "bytes=100-": 416, "bytes=100-200": 416, "bytes=-0": 416, "bytes=9223372036854775807-": 416,
    "bytes=0-1,5-6": None, "bytes=0-9,20-": None, "items=0-9": None,
}
# What is no range is ignored, or refused; a number that is too large may be taken for the end. Never is it taken for another.
NO_RANGES = ["bytes=5-4", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1", "bytes=0x1-", "bytes=--1", "bytes=1-2-3", "bytes= -", "0-9", "bytes=+1-2",
             "bytes=18446744073709551616-", "bytes=0-18446744073709551616", "bytes=-99999999999999999999", "bytes=" + "0" * 5000 + "-"]


def check_partial(reply, content, part):
    start, end = part
    assert reply.status == 206 and reply.body == content[start:end], reply
    assert reply.headers["Content-Range"] == f"bytes {start}-{end - 1}/{len(content)}"
    assert reply.headers["Content-Length"] == str(end - start)


def test_ranges(box, top):
    content = bytes(range(100))
    tag = box.write(f"{top}/f", content).ok(201).headers["ETag"]
    for text, expected in RANGES.items():
        reply = box.read(f"{top}/f", {"Range": text})
        if expected is None:
            assert reply.status == 200 and reply.body == content and reply.headers["Content-Range"] is None, text
        elif expected == 416:
            assert reply.status == 416 and reply.headers["Content-Range"] == "bytes */100", (text, reply)
        else:
            check_partial(reply, content, expected)
            assert reply.headers["ETag"] == tag
    for text in NO_RANGES:
        reply = box.read(f"{top}/f", {"Range": text})
        assert reply.status in (400, 416, 431) or (reply.status in (200, 206) and reply.body == content), (text, reply)
    box.write(f"{top}/empty", b"").ok(201)
    reply = box.read(f"{top}/empty", {"Range": "bytes=0-"})
    assert reply.status == 416 and reply.headers["Content-Range"] == "bytes */0"


def test_ranges_of_a_large_file(box, top):
    content = os.urandom(3 * MIB + 17)
    box.write(f"{top}/f", content).ok(201)
    for start, end in [(0, 65536), (65535, 65537), (MIB - 1, 3 * MIB), (len(content) - 1, len(content))] + [
            tuple(sorted(random.sample(range(len(content)), 2))) for _ in range(6)]:
        check_partial(box.read(f"{top}/f", {"Range": f"bytes={start}-{end - 1}"}), content, (start, end))


def test_a_range_far_into_a_sparse_file(server):
    """Where 32 bits are too few."""
    with Filed(server, limits={"workspace_bytes": 4 << 30}) as large:
        large.python("f = open('f', 'wb'); f.seek(4000000000 - 3); f.write(b'end')")
        reply = large.read("f", {"Range": "bytes=3999999995-"})
        assert reply.status == 206 and reply.body == b"\0\0end" and reply.headers["Content-Range"] == "bytes 3999999995-3999999999/4000000000"
        assert large.read("f", {"Range": "bytes=-5"}).body == b"\0\0end"
        assert large.read("f", method="HEAD").headers["Content-Length"] == "4000000000"
        assert large.stat("f").entry()["size"] == 4000000000


def test_if_range(box, top):
    content = b"0123456789"
    tag = box.write(f"{top}/f", content).ok(201).headers["ETag"]
    date = box.read(f"{top}/f").headers["Last-Modified"]
    for condition, is_part in [(tag, True), ('"another"', False), (f"W/{tag}", False), (tag.strip('"'), False), (date, None),
                               ("Thu, 01 Jan 1970 00:00:00 GMT", False)]:
        reply = box.read(f"{top}/f", {"Range": "bytes=2-3", "If-Range": condition})
        if reply.status == 206 and is_part is not False:
            check_partial(reply, content, (2, 4))
        else:
            assert not is_part and reply.status == 200 and reply.body == content, (condition, reply)
    reply = box.read(f"{top}/f", {"Range": "bytes=20-", "If-Range": '"another"'})
    assert reply.status == 200 and reply.body == content, "a range of another version is none of this one"


def test_if_none_match(box, top):
    tag = box.write(f"{top}/f", b"content").ok(201).headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', f'{tag},"other"', f'"a" ,\t{tag}', "*"):
        for method in ("GET", "HEAD"):
            reply = box.read(f"{top}/f", {"If-None-Match": known}, method=method)
            assert reply.status == 304 and reply.body == b"" and reply.headers["ETag"] == tag, (known, reply)
        assert box.read(f"{top}/f", {"If-None-Match": known, "Range": "bytes=0-1"}).status == 304
    for other in ('"other"', tag[:-2] + '"', tag.strip('"'), f'"x{tag[1:]}', '""', '"*"'):
        assert box.read(f"{top}/f", {"If-None-Match": other}).ok().body == b"content", other
    assert box.read(f"{top}/missing", {"If-None-Match": "*"}).status == 404


def test_the_tag_changes_with_the_file(box, top):
    path = f"{top}/f"
    tags = [box.write(path, b"one").ok(201).headers["ETag"]]
    assert box.read(path).headers["ETag"] == tags[0] == box.read(path).headers["ETag"] == box.stat(path).headers.get("ETag", tags[0])
    for change in (f"printf two > {path}", f"printf 222 > {path}; touch -d @1600000000 {path}", f"printf 333 > {path}; touch -d @1600000000 {path}",
                   f"cp {path} {path}2; touch -r {path} {path}2; mv {path}2 {path}"):
        box.out(change)
        tags.append(box.read(path).headers["ETag"])
    tags.append(box.write(path, b"two").ok(200).headers["ETag"])
    tags.append(box.write(path, b"two").ok(200).headers["ETag"])
    assert len(set(tags)) == len(tags), "each state has a tag of its own, whatever its size and time"


def test_stat(box, top):
    box.python(f"""
import os, socket
os.chdir({top!r})
open("f", "w").write("12345"); os.chmod("f", 0o640); os.utime("f", (1600000000, 1600000000.125))
os.mkdir("d", 0o700); os.symlink("f", "l"); os.symlink("nowhere", "dangling"); os.mkfifo("p")
socket.socket(socket.AF_UNIX).bind("s")
""")
    entry = box.stat(f"{top}/f").entry()
    assert (entry["type"], entry["size"], entry["mode"], entry["target"]) == ("file", 5, "0640", None)
    assert when(entry["mtime"]) == 1600000000.125 and entry["path"].split("/")[-1] == "f"
    assert {n: box.stat(f"{top}/{n}").entry()["type"] for n in "dps"} == {"d": "directory", "p": "other", "s": "other"}
    assert box.stat(f"{top}/d").entry()["mode"] == "0700"
    # Reading: what a link leads to is what counts, as for reading it.
    entry = box.stat(f"{top}/l").entry()
    assert (entry["type"], entry["size"]) == ("file", 5)
    box.stat(f"{top}/dangling").refused(404, "not_found", "dangling")
    box.stat(f"{top}/missing").refused(404, "not_found", "missing")
    assert box.stat("etc/passwd", root="/").entry()["type"] == "file"
    assert box.read(f"{top}/f", stat=0).ok().body == b"12345" and box.read(f"{top}/f", stat="perhaps").status == 422


def test_a_file_stands_where_it_is(box, top):
    """Through links that the box made, as its user could go."""
    box.out(f"cd {top}; mkdir d; echo in > d/f; ln -s d l; ln -s l/f m; ln -s /etc/passwd p; ln -s loop loop; ln -s /workspace/{top}/d abs")
    for path in ("d/f", "l/f", "m", "abs/f"):
        assert box.bytes(f"{top}/{path}") == b"in\n"
    assert box.bytes(f"{top}/p") == box.out("cat /etc/passwd").encode() == box.bytes("etc/passwd", root="/")
    box.read(f"{top}/loop").refused(422, "invalid_path")
    assert box.names(path=f"{top}/l") == ["f"]


def test_what_cannot_be_read(box, top):
    box.out(f"cd {top}; mkdir d; echo secret > d/f; echo x > f; chmod 000 d f")
    box.read(f"{top}/f").refused(403, "not_permitted")
    box.read(f"{top}/d/f").refused(403, "not_permitted")
    box.list(path=f"{top}/d").refused(403, "not_permitted")
    box.out(f"cd {top}; chmod 755 d")
    box.read(f"{top}/d").refused(409, "is_a_directory")
    box.read(f"{top}/d/f/g").refused(409, "not_a_directory")
    box.list(path=f"{top}/d/f").refused(409, "not_a_directory")
    error = box.read(f"{top}/missing").refused(404, "not_found", f"{top}/missing")
    assert "/proc" not in error["message"]
    box.list(path=f"{top}/gone").refused(404, "not_found", "gone")


# --- writing -------------------------------------------------------------------------------------------------


def test_write(box, top):
    reply = box.write(f"{top}/a/b/c.txt", b"one")
    entry = reply.entry(201)
    assert (entry["type"], entry["size"], entry["mode"]) == ("file", 3, "0644") and ETAG.fullmatch(reply.headers["ETag"])
    assert reply.headers["ETag"] == box.read(f"{top}/a/b/c.txt").headers["ETag"]
    assert box.out(f"cat {top}/a/b/c.txt; stat -c %u:%a {top}/a/b/c.txt {top}/a/b") == "one65532:644\n65532:755\n"
    again = box.write(f"{top}/a/b/c.txt", b"a longer one")
    assert again.entry(200)["size"] == 12 and again.headers["ETag"] != reply.headers["ETag"]
    assert box.write(f"{top}/a/b/c.txt", b"").entry(200)["size"] == 0
    assert box.tree(top) == {"a": "directory", "a/b": "directory", "a/b/c.txt": ""}


def test_modes(box, top):
    for mode, there in (("644", "0644"), ("600", "0600"), ("0755", "0755"), ("777", "0777"), ("0", "0000"), ("400", "0400")):
        assert box.write(f"{top}/f{mode}", b"x", mode=mode).entry(201)["mode"] == there
    assert box.out(f"cd {top}; stat -c %a f644 f600 f0755 f777 f0 f400") == "644\n600\n755\n777\n0\n400\n"
    box.out(f"chmod 710 {top}/f644")
    assert box.write(f"{top}/f644", b"y").entry(200)["mode"] == "0710", "that of the file that is replaced"
    assert box.write(f"{top}/f644", b"y", mode="604").entry(200)["mode"] == "0604"
    for mode in ("8", "999", "-1", "x", "0o644", "644 ", "u+x", "77777", "4294967296", "0x1ff", "6 4"):
        assert refused_mode(box.write(f"{top}/new", b"x", mode=mode)), mode
        assert refused_mode(box.mkdir(f"{top}/new", mode=mode)), mode
    for mode in ("4755", "2755", "1777"):
        reply = box.write(f"{top}/special", b"x", mode=mode)
        assert refused_mode(reply) or reply.entry(200, 201)["mode"][0] == "0", mode
    assert box.out(f"find {top} -perm /7000; ls -d {top}/new 2>&1 | grep -c 'No such'") == "1\n"


def refused_mode(reply):
    return reply.status == 422 and bool(refused((reply.status, reply.json()), 422, "invalid_field"))


def test_what_stands_in_the_way(box, top):
    box.out(f"cd {top}; mkdir d full; touch full/f; echo file > f; ln -s f to-file; ln -s d to-dir; ln -s nowhere dangling; mkfifo p; mkdir ro; chmod 555 ro")
    box.write(f"{top}/d", b"x").refused(409, "is_a_directory")
    box.write(f"{top}/f/below", b"x").refused(409, "not_a_directory")
    box.write(f"{top}/ro/f", b"x").refused(403, "not_permitted")
    box.write("etc/passwd", b"x", root="/").refused(403, "not_permitted")
    box.write("usr/bin/new", b"x", root="/").refused(403, "not_permitted")
    before = box.tree(top)
    assert before["f"] == "file\n"
    # A link at the end is replaced, what it leads to is left alone; so is whatever else has that name.
    for name in ("to-file", "dangling", "p", "to-dir"):
        reply = box.write(f"{top}/{name}", b"new")
        assert reply.entry(200, 201)["type"] == "file", name
        before[name] = "new"
    assert box.tree(top) == before
    # A link on the way is followed.
    box.out(f"cd {top}; rm to-dir; ln -s d to-dir")
    box.write(f"{top}/to-dir/f", b"through").ok(201)
    assert box.tree(top)["d/f"] == "through"


def test_preconditions(box, top):
    path = f"{top}/f"
    for condition in ("*", '"x"'):
        box.write(path, b"1", {"If-Match": condition}).refused(412, "precondition_failed")
    assert box.tree(top) == {}
    tag = box.write(path, b"1", {"If-None-Match": "*"}).ok(201).headers["ETag"]
    box.write(path, b"2", {"If-None-Match": "*"}).refused(412, "precondition_failed")
    box.write(path, b"2", {"If-Match": '"x"'}).refused(412, "precondition_failed")
    box.write(path, b"2", {"If-Match": f"W/{tag}"}).refused(412, "precondition_failed")
    assert box.bytes(path) == b"1"
    newer = box.write(path, b"2", {"If-Match": f'"x", {tag}'}).ok(200).headers["ETag"]
    box.write(path, b"3", {"If-Match": tag}).refused(412, "precondition_failed")
    box.write(path, b"3", {"If-Match": "*"}).ok(200)
    assert newer != tag and box.tree(top) == {"f": "3"}
    box.out(f"mkdir {top}/d; ln -s nowhere {top}/l")
    assert box.write(f"{top}/d", b"x", {"If-None-Match": "*"}).status in (409, 412)
    box.write(f"{top}/l", b"x", {"If-None-Match": "*"}).refused(412, "precondition_failed")
    assert box.tree(top) == {"f": "3", "d": "directory", "l": "-> nowhere"}


def test_a_large_body_that_is_refused(box, top):
    """The client hears why, although it is still sending."""
    box.write(f"{top}/f", b"kept").ok(201)
    box.write(f"{top}/f", b"x" * (8 * MIB), {"If-None-Match": "*"}).refused(412, "precondition_failed")
    box.write(f"{top}/f/g", b"x" * (8 * MIB)).refused(409, "not_a_directory")
    assert box.tree(top) == {"f": "kept"}


def test_only_one_is_the_first(box, top):
    """Of eight who want to make the same file; again and again, for there are many moments at which they can meet."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number in range(10):
            replies = list(pool.map(lambda n, path=f"{top}/{number}": box.write(path, b"%d" % n * 5000, {"If-None-Match": "*"}), range(8)))
            assert sorted(r.status for r in replies) == [201] + [412] * 7, replies
            winner = [r.status for r in replies].index(201)
            assert box.bytes(f"{top}/{number}") == b"%d" % winner * 5000
    assert sorted(box.tree(top)) == [str(n) for n in range(10)]


def test_a_file_is_always_whole(box, top):
    """Whoever reads it while it is replaced sees one version or another, and always one of them."""
    box.write(f"{top}/f", b"0" * 200_000).ok(201)
    status, reader = box.call(shell=f"python3 -c \"\nn = 0\nimport os\nwhile not os.path.exists('{top}/stop'):\n    t = open('{top}/f').read()\n"
                              f"    assert len(t) == 200000 and len(set(t)) == 1, (len(t), set(t))\n    n += 1\nprint(n)\"", detach=True)
    assert status == 202
    for n in range(60):
        box.write(f"{top}/f", b"%d" % (n % 10) * 200_000).ok(200)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert {r.status for r in pool.map(lambda n: box.write(f"{top}/f", b"%d" % (n % 10) * 200_000), range(40))} == {200}
        text = box.bytes(f"{top}/f")
    assert len(text) == 200_000 and len(set(text)) == 1
    box.write(f"{top}/stop", b"").ok(201)
    done = box.server.call("GET", f"{box.path}/commands/{reader['id']}?wait_ms=60000")[1]
    assert done["status"] == "ok" and int(done["stdout"]) > 0, done
    assert sorted(box.tree(top)) == ["f", "stop"]


def test_in_chunks(box, top):
    content = os.urandom(70_000)
    pieces = [content[:1], content[1:3], content[3:65539], content[65539:]]
    with box.server.wire() as wire:
        wire.send(head(box, "PUT", box.file(f"{top}/f"), "Transfer-Encoding: chunked"))
        for piece in pieces:
            wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        wire.send(b"0\r\n\r\n")
        assert wire.response().status == 201
        wire.send(head(box, "PUT", box.file(f"{top}/empty"), "Transfer-Encoding: chunked") + b"0\r\n\r\n" + head(box, "GET", box.file(f"{top}/f")))
        assert wire.response().status == 201
        assert wire.response().body == content
    assert box.stat(f"{top}/empty").entry()["size"] == 0


def test_asked_before_it_is_sent(box, top):
    """Expect: 100-continue. What the head alone decides is said at once."""
    with box.server.wire() as wire:
        wire.send(head(box, "PUT", box.file(f"{top}/f"), "Content-Length: 5", "Expect: 100-continue"))
        assert wire.response().status == 100
        wire.send(b"hello")
        assert wire.response().status == 201
    with box.server.wire() as wire:
        wire.send(head(box, "PUT", f"{box.path}/files/{top}%2F..%2Fx", "Content-Length: 5", "Expect: 100-continue"))
        assert wire.response().status == 422
    assert box.bytes(f"{top}/f") == b"hello"


def test_many_at_once(box, top):
    """On one connection each, and one behind the other on one."""
    content = {f"{top}/{n}": os.urandom(20_000) for n in range(40)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert {r.status for r in pool.map(lambda item: box.write(*item), content.items())} == {201}
        assert list(pool.map(box.bytes, content)) == list(content.values())
    with box.server.wire() as wire:
        wire.send(b"".join(head(box, "PUT", box.file(path), "Content-Length: 3") + b"%03d" % n for n, path in enumerate(content)))
        assert [wire.response().status for _ in content] == [200] * 40
        wire.send(b"".join(head(box, "GET", box.file(path)) for path in content))
        assert [wire.response().body for _ in content] == [b"%03d" % n for n in range(40)]


# --- forms ---------------------------------------------------------------------------------------------------


def field(name, value):
    return f'Content-Disposition: form-data; name="{name}"'.encode(), value


def test_a_form(box, top):
    content = os.urandom(200_000)
    assert box.form(f"{top}/a/f", [file_part(content, "other-name")]).entry(201)["size"] == len(content)
    assert box.bytes(f"{top}/a/f") == content
    assert box.form(f"{top}/a/f", [field("note", b"x"), file_part(b"again")]).entry(200)["size"] == 5
    name = f"{mark()}.txt"
    box.form(None, [file_part(b"by its name", name)]).entry(201)
    assert box.bytes(name) == b"by its name"
    box.form(None, [field("path", f"{top}/by/path".encode()), file_part(b"by its path", name)]).entry(201)
    assert box.bytes(f"{top}/by/path") == b"by its path" and box.bytes(name) == b"by its name"
    for tricky in (b"", b"x\r\n------between-the-part", b"\r\n--\r\n----\r\n------between-the-partz\r\n", b"\r\n" * 5):
        box.form(f"{top}/f", [file_part(tricky)]).ok(200, 201)
        assert box.bytes(f"{top}/f") == tricky


FORM_NAMES = ["../../escaped", "/tmp/escaped", "..", ".", "a/../../escaped", "/etc/passwd", "a//b", "a/./b", "x" * 256]


def test_the_name_in_a_form_leads_nowhere(box):
    """Refused, or reduced to its last part; but nothing is made outside, or under another name."""
    before, outside = box.tree(), box.out("find /tmp /home /var/tmp /dev/shm | sort")
    for name in FORM_NAMES:
        for parts in ([file_part(b"mine", name)], [field("path", name.encode()), file_part(b"mine", "plain")]):
            reply = box.form(None, parts)
            assert reply.status in (201, 400, 422), (name, reply)
            if reply.status == 201:
                assert "path" not in parts[0][0].decode(), "what the client names as the path is taken as it is"
                kept = name.rsplit("/", 1)[-1]
                assert kept not in ("", ".", "..") and reply.json()["path"] == kept, (name, reply)
                assert box.bytes(kept) == b"mine"
                box.remove(kept).ok(204)
            else:
                assert reply.status == 400 or reply.json()["error"]["code"] in ("invalid_path", "invalid_field"), (name, reply)
    assert box.tree() == before and box.out("find /tmp /home /var/tmp /dev/shm | sort") == outside


BAD_FORMS = {"no part": [], "another part": [file_part(b"x", name="other")], "only a path": [field("path", b"x")]}


def test_forms_that_are_none(box, top):
    before = box.tree()
    for name, parts in BAD_FORMS.items():
        for path in (f"{top}/f", None):
            assert box.form(path, parts).status in (400, 422), name
    box.form(None, [file_part(b"x", "")]).ok(400, 422)
    for kind, body in [("text/plain", b"x"), ("application/json", b"{}"), ("multipart/form-data", b"x"), ("multipart/form-data; boundary=b", b"no form"),
                       ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\ncut')]:
        assert box.ask("POST", f"files/{top}/f", body, {"Content-Type": kind}).status in (400, 415, 422), kind
    assert box.tree() == before


# --- directories, moving, deleting ---------------------------------------------------------------------------


def test_mkdir(box, top):
    entry = box.mkdir(f"{top}/a/b/c").entry(201)
    assert (entry["type"], entry["mode"]) == ("directory", "0755")
    assert box.mkdir(f"{top}/a/b/c").entry(200)["type"] == "directory"
    assert box.mkdir(f"{top}/private", mode="700").entry(201)["mode"] == "0700"
    box.out(f"cd {top}; touch f; ln -s a link; ln -s nowhere dangling")
    box.mkdir(f"{top}/f").refused(409, "exists")
    box.mkdir(f"{top}/f/g").refused(409, "not_a_directory")
    box.mkdir("etc/new", root="/").refused(403, "not_permitted")
    assert box.mkdir(f"{top}/dangling").status in (404, 409)
    assert box.mkdir(f"{top}/link").status in (200, 409)
    assert box.tree(top) == {"a": "directory", "a/b": "directory", "a/b/c": "directory", "private": "directory", "f": "", "link": "-> a", "dangling": "-> nowhere"}


def test_move(box, top):
    box.write(f"{top}/f", b"one").ok(201)
    entry = box.move(f"{top}/f", f"{top}/new/place/g").entry(200)
    assert entry["type"] == "file" and entry["path"].split("/")[-1] == "g"
    assert box.tree(top) == {"new": "directory", "new/place": "directory", "new/place/g": "one"}
    box.write(f"{top}/f", b"two").ok(201)
    box.move(f"{top}/f", f"{top}/new/place/g", overwrite=0).refused(409, "exists")
    assert box.bytes(f"{top}/f") == b"two" and box.bytes(f"{top}/new/place/g") == b"one"
    box.move(f"{top}/f", f"{top}/new/place/g").ok(200)
    assert box.tree(top) == {"new": "directory", "new/place": "directory", "new/place/g": "two"}
    assert box.move(f"{top}/new", f"{top}/other").entry(200)["type"] == "directory"
    assert box.move(f"{top}/other/place/g", f"{top}/h", overwrite=0).status == 200
    assert box.tree(top) == {"other": "directory", "other/place": "directory", "h": "two"}


def test_moves_that_are_refused(box, top):
    box.out(f"cd {top}; mkdir -p d/sub full; echo f > f; touch full/x; ln -s f link; echo 1 > one")
    before = box.tree(top)
    box.move(f"{top}/missing", f"{top}/x").refused(404, "not_found", "missing")
    box.move(f"{top}/d", f"{top}/d/sub/d").refused(422, "invalid_path")
    box.move(f"{top}/d", f"{top}/full").refused(409, "not_empty")
    box.move(f"{top}/f", f"{top}/d").refused(409, "is_a_directory")
    box.move(f"{top}/d", f"{top}/f").refused(409, "not_a_directory")
    box.move(f"{top}/f", f"{top}/one/x").refused(409, "not_a_directory")
    for to in ("../x", f"{top}/../x", "a//b", "/tmp/x", ".", "a/.", "x" * 256, "a/" * 2048 + "a"):
        box.move(f"{top}/f", to).refused(422, "invalid_path")
    assert box.move(f"{top}/f", "").status == 422
    assert box.post(f"{top}/f", op="move").status == 422
    assert box.post(f"{top}/f", op="copy", to=f"{top}/x").status == 422
    assert box.move(f"{top}/f", f"{top}/x", overwrite="perhaps").status == 422
    assert box.move("etc/passwd", "tmp/passwd", root="/").status in (403, 409)
    assert box.move(f"workspace/{top}/f", "etc/passwd", root="/").status == 403
    assert box.tree(top) == before and box.out("ls -A /tmp | grep -c passwd || true") == "0\n", "no half of a move"
    box.move(f"{top}/f", f"{top}/f").ok(200)
    box.move(f"{top}/link", f"{top}/moved").ok(200)  # the link, not what it leads to
    del before["link"]
    assert box.tree(top) == {**before, "moved": "-> f"}


def test_move_to_another_file_system(box, top):
    box.out(f"cd {top}; head -c 300000 /dev/urandom > f; chmod 750 f; mkdir d; touch d/x")
    content, name = box.bytes(f"{top}/f"), mark()
    entry = box.move(f"workspace/{top}/f", f"tmp/{name}/f", root="/").entry(200)
    assert entry["size"] == 300_000 and entry["mode"] == "0750"
    assert box.bytes(f"tmp/{name}/f", root="/") == content and sorted(box.tree(top)) == ["d", "d/x"]
    box.move(f"workspace/{top}/d", f"tmp/{name}/d", root="/").refused(409, "other_file_system")
    assert sorted(box.tree(top)) == ["d", "d/x"] and box.out(f"ls -A /tmp/{name}") == "f\n"
    box.write(f"{top}/f", b"other").ok(201)
    box.move(f"workspace/{top}/f", f"tmp/{name}/f", root="/", overwrite=0).refused(409, "exists")
    assert box.bytes(f"tmp/{name}/f", root="/") == content and box.bytes(f"{top}/f") == b"other"
    box.remove(f"tmp/{name}", root="/", recursive=1).ok(204)


def test_delete(box, top):
    box.out(f"cd {top}; mkdir -p full/a/b empty keep; touch f full/a/b/c full/x keep/kept; ln -s keep link; ln -s ../keep full/out; ln -s nowhere dangling; mkfifo p")
    assert box.remove(f"{top}/f").ok(204).body == b""
    box.remove(f"{top}/f").refused(404, "not_found", f"{top}/f")
    box.remove(f"{top}/full").refused(409, "not_empty")
    for name in ("empty", "dangling", "p"):
        box.remove(f"{top}/{name}").ok(204)
    box.remove(f"{top}/link", recursive=1).ok(204)
    box.remove(f"{top}/full", recursive=1).ok(204)
    assert box.tree(top) == {"keep": "directory", "keep/kept": ""}, "links are removed, never followed"
    box.remove(f"{top}/keep/kept/x").refused(409, "not_a_directory")
    assert box.remove(f"{top}/keep", recursive="perhaps").status == 422
    box.remove("etc/passwd", root="/").refused(403, "not_permitted")
    for recursive in (0, 1):
        for path in ("workspace", "tmp", "dev/shm", "proc"):
            assert box.remove(path, root="/", recursive=recursive).status in (403, 409), path
            box.out("test -d /workspace -a -d /tmp -a -d /dev/shm")
        if not recursive:
            assert box.tree(top) == {"keep": "directory", "keep/kept": ""}
    assert box.ask("DELETE", "files").status in (404, 405, 409, 422)


def test_delete_a_deep_tree(box, top):
    """Deeper than any path can name, and than there are descriptors."""
    box.python(f"import os\nos.chdir({top!r})\nfor _ in range(1100):\n    os.mkdir('deep'); os.chdir('deep')\nopen('f', 'w')")
    box.remove(f"{top}/deep").refused(409, "not_empty")
    box.remove(f"{top}/deep", recursive=1).ok(204)
    assert box.tree(top) == {}


# --- listing -------------------------------------------------------------------------------------------------


def in_order(paths):
    """Names of a directory by bytes, a directory before what is in it."""
    return sorted(paths, key=lambda p: [part.encode() for part in p.split("/")])


def test_list(box, top):
    box.python(f"""
import os
os.chdir({top!r})
os.makedirs("b/c"); os.mkdir("empty", 0o700)
open("a", "w").write("12345"); os.chmod("a", 0o600); os.utime("a", (1600000000, 1600000000))
open("b/c/d", "w"); os.symlink("/etc/passwd", "l"); os.symlink("b", "to-b"); os.mkfifo("p")
""")
    entries = {e["path"]: e for e in box.page(path=top)[0]}
    assert list(entries) == ["a", "b", "empty", "l", "p", "to-b"]
    assert {n: e["type"] for n, e in entries.items()} == {"a": "file", "b": "directory", "empty": "directory", "l": "symlink", "p": "other", "to-b": "symlink"}
    assert (entries["a"]["size"], entries["a"]["mode"], when(entries["a"]["mtime"])) == (5, "0600", 1600000000)
    assert entries["empty"]["mode"] == "0700" and entries["l"]["target"] == "/etc/passwd" and entries["to-b"]["target"] == "b"
    assert box.names(path=top, recursive=1) == ["a", "b", "b/c", "b/c/d", "empty", "l", "p", "to-b"], "links are not followed"
    assert box.names(path=f"{top}/empty") == [] and box.page(path=f"{top}/empty") == ([], None)
    assert box.names(path=f"{top}/b", recursive=1) == ["c", "c/d"]
    assert top in box.names() and "passwd" in box.names(path="etc", root="/")
    assert {"etc", "workspace", "proc"} <= set(box.names(root="/"))
    assert {e["type"] for e in box.page(path="dev", root="/")[0] if e["path"] in ("null", "zero")} == {"other"}


TRICKY = ["a", "a/b", "a/b/c", "a.b", "a.b/x", "a-b", "a!", "a0", "A", "Z", "z", "b", "b/a", "é", "é/é", "e\u0301", "日本", "\U0001d11e", "~", " ", "a b",
          "-", "0", "10", "2", "a/B", "a/b.c", "a/b-c"]


def make_tree(box, top, paths):
    """Directories are those that are above another."""
    box.python(f"""
import os
os.chdir({top!r})
for p in {paths!r}:
    if os.path.dirname(p): os.makedirs(os.path.dirname(p), exist_ok=True)
    if not any(q.startswith(p + "/") for q in {paths!r}): open(p, "w")
    else: os.makedirs(p, exist_ok=True)
""")


def test_order_and_pages(box, top):
    """Whatever the pages: everything once, in one order."""
    make_tree(box, top, TRICKY)
    expected = in_order(TRICKY)
    flat = in_order([p for p in TRICKY if "/" not in p])
    assert box.names(path=top) == flat and box.names(path=top, recursive=1) == expected
    for limit in (1, 2, 3, 7, len(expected) - 1, len(expected), len(expected) + 1):
        entries, following = box.page(path=top, recursive=1, limit=limit)
        assert [e["path"] for e in entries] == expected[:limit] and (following is None) == (limit >= len(expected)), limit
        assert box.names(path=top, recursive=1, limit=limit) == expected, limit
    assert box.names(path=top, limit=2) == flat
    for at, path in enumerate(expected):
        assert box.names(path=top, recursive=1, after=path) == expected[at + 1:], path
    # The place is not a file: it may be gone, or never have been there.
    box.out(f"rm -r {top}/a")
    rest = [p for p in expected if p != "a" and not p.startswith("a/")]
    assert box.names(path=top, recursive=1, after="a/b") == [p for p in rest if in_order([p, "a/b"])[0] == "a/b"]
    assert box.names(path=top, recursive=1, after="a/zzz") == [p for p in rest if in_order([p, "a/zzz"])[0] == "a/zzz"]
    assert box.names(path=top, after="\U0010ffff") == []


def test_bounds_of_a_page(box, top):
    for limit in ("0", "10001", "-1", "x", "", "1.5", "18446744073709551617"):
        assert box.list(path=top, limit=limit).refused(422, "invalid_field")["field"] == "limit", limit
    assert box.list(path=top, limit=10000).status == 200
    assert box.list(path=top, recursive="perhaps").status == 422
    for after in ("../x", "/etc", "a//b", "a/../b", "x" * 5000):
        assert box.list(path=top, after=after).status in (200, 422), after


def test_a_thousand_unless_said(box, top):
    box.python(f"for n in range(1500): open(f'{top}/{{n:04}}', 'w')")
    entries, following = box.page(path=top)
    assert len(entries) == 1000 and following is not None
    assert [e["path"] for e in box.page(path=top, after=following)[0]] == [f"{n:04}" for n in range(1000, 1500)]
    assert len(box.page(path=top, limit=1500)[0]) == 1500


RAW = [b"\xff", b"\xff\xfe", b"a\x80", b"a\x80\x81", b"\xc0\xaf", b"\xed\xa0\x80", b"a\xf8z", b"ok", "\ufffd".encode(), b"\xc3", b"\xc3\xa9", b"new\nline", b"tab\t",
       b"\x01", b"\x1b[31m", b"\x7f", b'"', b"\\"]


def test_names_that_are_no_text(box, top):
    """U+FFFD in the text, all of it beside; pages get past them, too."""
    box.python(f"import os\nfor n in {RAW!r}: open(os.path.join({top.encode()!r}, n), 'w')\nos.mkdir({top.encode()!r} + b'/\\xfd'); open({top.encode()!r} + b'/\\xfd/in', 'w')\n"
               f"os.symlink(b'\\xfe\\xff', {top.encode()!r} + b'/link')")
    every = sorted(RAW + [b"\xfd", b"link"])

    def name_of(entry):
        text = entry.get("path_base64")
        found = base64.b64decode(text, validate=True) if text is not None else entry["path"].encode()
        assert found.decode("utf-8", "replace").count("\ufffd") == 0 or "\ufffd" in entry["path"], entry
        assert (text is not None) == (found.decode("utf-8", "ignore").encode() != found), entry
        return found

    assert [name_of(e) for e in box.page(path=top)[0]] == every
    for limit in (1, 2, 5):
        found, following = box.page(path=top, limit=limit, recursive=1)
        while following is not None:
            more, following = box.page(path=top, limit=limit, recursive=1, after=following)
            found += more
            assert len(found) <= len(every) + 1, "a page comes again and again"
        assert sorted(map(name_of, found)) == sorted(every + [b"\xfd/in"]), f"by pages of {limit}"


def test_a_name_that_is_no_text_in_a_target(box, top):
    """Decoded once, it is that name; or no target. It is never another file's."""
    box.python(f"open(b'{top}/\\xff', 'w').write('raw'); open('{top}/\\ufffd', 'w').write('replaced')")
    reply = box.read(os.path.join(top.encode(), b"\xff"))
    assert (reply.status == 200 and reply.body == b"raw") or reply.status in (400, 422), reply
    assert box.bytes(f"{top}/\ufffd") == b"replaced"


def test_a_directory_that_changes_meanwhile(box, top):
    status, answer = box.call(shell=f"cd {top}; touch stays; while [ ! -e stop ]; do mkdir -p a/b c; touch a/b/f c/g; rm -rf a; mv c a; rm -rf a; done", detach=True)
    assert status == 202
    until(lambda: "stays" in box.names(path=top), "it has begun")
    for n in range(40):
        names = box.names(path=top, recursive=n % 2, limit=1 + n % 7)
        assert "stays" in names and len(set(names)) == len(names), names
        reply = box.list(path=f"{top}/a", recursive=1)
        assert reply.status in (200, 404), reply
        assert box.read(f"{top}/a/b/f").status in (200, 404, 409)
    box.write(f"{top}/stop", b"").ok(201)
    assert box.server.call("GET", f"{box.path}/commands/{answer['id']}?wait_ms=60000")[1]["status"] == "ok"


def test_a_deep_tree_is_listed_as_far_as_it_has_names(box, top):
    """Paths end at 4095 bytes; what is deeper is left out, or refused, and nobody crashes."""
    box.python(f"import os\nos.chdir({top!r})\nfor _ in range(1100):\n    os.mkdir('deep'); os.chdir('deep')")
    reply = box.list(path=top, recursive=1, limit=10000)
    assert reply.status in (200, 422), reply
    if reply.status == 200:
        names = [e["path"] for e in reply.json()["entries"]]
        assert names == ["/".join(["deep"] * n) for n in range(1, len(names) + 1)] and len(names) > 700
    assert box.names(path=top) == ["deep"]
    box.remove(f"{top}/deep", recursive=1).ok(204)


@pytest.mark.slow
def test_a_hundred_thousand_files(server):
    with Filed(server, limits={"workspace_inodes": 300_000, "memory_bytes": 2 << 30}) as large:
        large.python("""
import os
os.mkdir("flat")
for n in range(100000): open(f"flat/{n}", "w")
for a in range(100):
    os.makedirs(f"deep/{a}")
    for b in range(100): open(f"deep/{a}/{b}", "w")
""")
        flat = large.names(path="flat", limit=10000)
        assert flat == sorted(map(str, range(100_000)))
        assert large.names(path="flat", after=flat[50_000]) == flat[50_001:]
        assert large.names(path="deep", recursive=1, limit=777) == in_order([f"{a}" for a in range(100)] + [f"{a}/{b}" for a in range(100) for b in range(100)])
        everything = large.names(recursive=1, limit=10000)
        assert len(everything) == len(set(everything)) == 110_102
        large.remove("flat", recursive=1).ok(204)
        assert large.names() == ["deep"]


# --- whose they are ------------------------------------------------------------------------------------------

CALLS = [("GET", "files/f", None), ("HEAD", "files/f", None), ("GET", "files/f?stat=1", None), ("PUT", "files/f", b"theirs"), ("POST", "files/f?op=mkdir", None),
         ("POST", "files/f?op=move&to=g", None), ("DELETE", "files/f", None), ("GET", "files", None), ("GET", "watch", None), ("GET", "archive", None),
         ("PUT", "archive", b"\0" * 1024)]


def test_to_others_they_do_not_exist(serve):
    tokens = {"one": "token-of-tenant-one-1", "two": "token-of-tenant-two-2"}
    server = serve(env=tokens_variable(tokens))
    mine, theirs = ({"Authorization": f"Bearer {tokens[t]}"} for t in ("one", "two"))
    with Filed(server, mine) as box:
        box.write("f", b"mine").ok(201)
        for method, tail, body in CALLS:
            reply = Reply(*server.request(method, f"{box.path}/{tail}", body, {**BYTES, **theirs}))
            assert reply.status == 404, (method, tail, reply)
            assert b"mine" not in reply.body and (method == "HEAD" or reply.refused(404, "not_found", box.id))
            assert server.request(method, f"{box.path}/{tail}", body, BYTES)[0] == 401, (method, tail)
        assert box.bytes("f") == b"mine" and box.names() == ["f"]


def test_boxes_that_are_not_there(server):
    gone = Filed(server)
    gone.delete()
    for method, tail, body in CALLS:
        for box_id in ("a" * 26, "name:nobody"):
            reply = Reply(*server.request(method, f"/v1/boxes/{box_id}/{tail}", body, BYTES))
            assert reply.status == 404 and (method == "HEAD" or reply.refused(404, "not_found", box_id.removeprefix("name:"))), (method, tail, reply)
        reply = Reply(*server.request(method, f"{gone.path}/{tail}", body, BYTES))
        assert reply.status == 410, (method, tail, reply)
        assert method == "HEAD" or reply.refused(410, "gone")["reason"] == "deleted"


def test_by_name(server):
    name = f"files-{mark()[:12]}"
    with Filed(server, name=name) as box:
        box.write("f", b"x").ok(201)
        assert server.request("GET", f"/v1/boxes/name:{name}/files/f")[2] == b"x"


def test_two_boxes_have_nothing_in_common(server):
    with Filed(server) as one, Filed(server) as two:
        for where in ("workspace", "tmp", "home/box", "dev/shm", "var/tmp"):
            one.write(f"{where}/canary", b"one", root="/").ok(201)
            two.read(f"{where}/canary", root="/").refused(404, "not_found")


def test_other_methods(box):
    for method, tail in (("PATCH", "files/f"), ("PUT", "files"), ("POST", "archive"), ("DELETE", "archive"), ("POST", "watch")):
        assert box.ask(method, tail, b"").status in (404, 405), (method, tail)


def test_the_description(server):
    status, api = server.call("GET", "/openapi.json")
    assert status == 200
    said = {re.sub(r"^/v1/boxes/\{box_id\}", "", re.sub(r"/files/\{\w+\}$", "/files/…", path)): set(methods) for path, methods in api["paths"].items()
            if path.startswith("/v1/boxes/{box_id}/")}
    assert {"get", "put", "post", "delete"} <= said["/files/…"] and {"get", "post"} <= said["/files"]
    assert "get" in said["/watch"] and {"get", "put"} <= said["/archive"]


# --- other ways to a box, and into it ------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["TLS", "socket"])
def test_over(serve, certificate, tmp_path, way):
    """What is sent and read goes other ways inside the gate."""
    cert, key = certificate
    server = serve(tls_cert=cert, tls_key=key, ca=cert) if way == "TLS" else serve(listen=f"unix:{tmp_path}/socket")
    content = os.urandom(3 * MIB + 5)
    with Filed(server) as box:
        box.write("f", content).ok(201)
        assert box.bytes("f") == content
        check_partial(box.read("f", {"Range": "bytes=100000-2500000"}), content, (100_000, 2_500_001))
        box.form("g", [file_part(content)]).ok(201)
        assert contents(box.pack(format="tar").ok().body) == {"f": content, "g": content}
        box.unpack(tar(member("h", content)), path="d").ok()
        assert box.bytes("d/h") == content and box.names(recursive=1) == ["d", "d/h", "f", "g"]


def test_a_directory_of_the_host(serve, tmp_path):
    """One that may only be read is only read; in one that may be written, files are those of who started this."""
    shared_folder = tmp_path / "shared"
    for name in ("ro", "rw"):
        (shared_folder / name / "d").mkdir(parents=True)
        (shared_folder / name / "f").write_text("of the host")
    (shared_folder / "beside").write_text("not for the box")
    server = serve(mount_root=[str(shared_folder)])
    mounts = [{"root": "shared", "path": "ro", "at": "/mnt/ro"}, {"root": "shared", "path": "rw", "at": "/mnt/rw", "readonly": False}]

    def state(top):
        return {str(p.relative_to(top)): p.read_text() if p.is_file() else None for p in top.rglob("*")}

    before = state(shared_folder / "ro")
    with Filed(server, mounts=mounts) as box:
        assert box.bytes("mnt/ro/f", root="/") == box.bytes("mnt/rw/f", root="/") == b"of the host"
        for reply in (box.write("mnt/ro/f", b"x", root="/"), box.write("mnt/ro/new", b"x", root="/"), box.mkdir("mnt/ro/new", root="/"),
                      box.remove("mnt/ro/f", root="/"), box.remove("mnt/ro/d", root="/", recursive=1), box.move("mnt/ro/f", "mnt/ro/g", root="/"),
                      box.unpack(tar(member("f", b"x")), path="mnt/ro", root="/")):
            reply.refused(403, "not_permitted")
        box.write("mnt/rw/new/f", b"made", root="/").ok(201)
        box.unpack(tar(member("g", b"made")), path="mnt/rw", root="/").ok()
        box.remove("mnt/rw/f", root="/").ok(204)
        for path in ("mnt/rw", "mnt/ro"):
            assert box.remove(path, root="/", recursive=1).status in (403, 409)
        assert box.read("mnt/beside", root="/").status == 404
    assert state(shared_folder / "ro") == before and (shared_folder / "beside").read_text() == "not for the box"
    assert not [p for p in shared_folder.rglob("*") if p.lstat().st_uid != os.geteuid()]


# --- using a box ---------------------------------------------------------------------------------------------


@pytest.mark.more
def test_a_transfer_is_not_idle(server):
    """A client that takes its time keeps the box; when it is gone, the box ends as one that nobody needs."""
    with Filed(server, idle_seconds=2, limits={"workspace_bytes": 1 << 30}) as slow:
        with begin(slow, slow.file("f"), size=40, sent=1) as wire:
            for _ in range(39):
                assert wire.send(b"x")
                time.sleep(0.1)
            assert wire.response().status == 201
        assert slow.bytes("f") == b"x" * 40


@pytest.mark.more
def test_calls_are_use(server):
    """Each of them puts the end off; without any, it comes."""
    with Filed(server, idle_seconds=2) as box:
        for _ in range(5):
            time.sleep(0.8)
            box.list().ok()
        until(lambda: box.get()[0] == 410, "nobody needs it any more")
        assert box.read("f").refused(410, "gone")["reason"] == "idle"


def test_changes_are_audited_and_counted(serve):
    """Whoever changed something, and how; never what it is called. To look is no event."""
    server = serve()
    with Filed(server) as box:
        box.write("secret-name", b"12345").ok(201)
        box.form("by-form", [file_part(b"x")]).ok(201)
        box.mkdir("d").ok(201)
        box.move("secret-name", "d/moved").ok(200)
        box.bytes("d/moved"), box.stat("d/moved").ok(), box.names(recursive=1), box.pack().ok()
        box.write("d", b"x").refused(409, "is_a_directory")
        box.remove("d", recursive=1).ok(204)
        box.unpack(tar(member("f", b"x"))).ok()
        text = server.request("GET", "/metrics")[2].decode()
    file = server.state_dir / "audit" / "audit.jsonl"
    lines = until(lambda: (lambda found: found if len(found) == 5 else None)(
        [e for e in map(json.loads, file.read_text().splitlines()) if e["event"] == "file"]), "all of them")
    assert [e["operation"] for e in lines] == ["write", "write", "move", "delete", "unpack"]
    assert all(e["box"] == box.id and e["tenant"] == "local" and e["request"] and e["route"] for e in lines)
    assert "secret-name" not in file.read_text()
    counted = dict(re.findall(r'^glovebox_file_calls_total\{operation="(\w+)"\} (\d+)$', text, re.M))
    assert counted == {"stat": "1", "read": "1", "write": "3", "mkdir": "1", "delete": "1", "move": "1", "list": "1", "tree": "0", "watch": "0", "pack": "1", "unpack": "1"}
    assert re.search(r"^glovebox_file_calls 0$", text, re.M)
    moved = {d: int(n) for d, n in re.findall(r'^glovebox_file_bytes_total\{direction="(\w+)"\} (\d+)$', text, re.M)}
    assert moved["in"] >= 6 + 1024 and moved["out"] > 5
