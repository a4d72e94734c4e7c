# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime: files of a session, by every route that takes a path. One table says what a path is; every route must agree."""
import base64
import contextlib
import json
import os
import re
import shlex
import unicodedata
import urllib.parse

import pytest

from se import MIB, Session, each, refused, unwrapped
from server import file_part, mark, multipart, needs_root, serve, shared, until  # noqa: F401
from test_se_sessions import NO_POOL

pytestmark = [pytest.mark.more, needs_root]

server = shared(env=NO_POOL)


@pytest.fixture(scope="module")
def place(server):
    """A session for tests that leave it as it was, or do not mind. Its processes are there before the first of them: see `kept`."""
    with Session(server, "place") as one:
        one.write("there.txt", "there")
        yield one


@pytest.fixture
def kept(place):
    """The same, and it has afterwards what it had before."""
    before = place.files(recursive="true")
    yield place
    for name in set(place.files(recursive="true")) - set(before):
        place.shell(f"rm -f -- {shlex.quote(name)}")


@pytest.fixture
def session(server):
    with Session(server) as one:
        yield one


def upload(session, content, filename="data.bin", query=None, **kw):
    kind, body = multipart([file_part(content, filename)], **kw)
    return session.call("POST", "upload", "", f"?filename={urllib.parse.quote(query, safe='')}" if query is not None else "", body,
                        {"Content-Type": kind})


# --- one table of paths --------------------------------------------------------------------------------------

NFC, NFD = unicodedata.normalize("NFC", "né.txt"), unicodedata.normalize("NFD", "né.txt")

# What is written, and where it is then.
GOOD = {
    "a.txt": "a.txt", "d/e.txt": "d/e.txt", "d/e/f/g": "d/e/f/g", "/abs.txt": "abs.txt", "//two": "two", "///etc/passwd": "etc/passwd",
    "/workspace/x": "workspace/x", "/proc/self/environ": "proc/self/environ", "...": "...", "..a": "..a", "a..": "a..", "d/...": "d/...",
    "d/..a": "d/..a", ".hidden": ".hidden", " ": " ", " a ": " a ", "a b/c d": "a b/c d", "-rf": "-rf", "~": "~", "~d/x": "~d/x",
    "$HOME": "$HOME",
    "$(id)": "$(id)", "`id`": "`id`", "a;b": "a;b", "a&b=c": "a&b=c", "a?b": "a?b", "a#b": "a#b", "a%b": "a%b", "%2e%2e": "%2e%2e",
    "%2e%2e%2fx": "%2e%2e%2fx", "%00": "%00", "a\\b": "a\\b", "..\\x": "..\\x", "..\\..\\x": "..\\..\\x", "a'b\"c": "a'b\"c", "*": "*",
    "{}": "{}",
    NFC: NFC, NFD: NFD, "日本語.txt": "日本語.txt", "😀": "😀", "․․∕x": "․․∕x", "．．/x": "．．/x", "\u2025/x": "\u2025/x",
    "a\u202egnp.txt": "a\u202egnp.txt", "a\u200b": "a\u200b", "\ufeffbom": "\ufeffbom", "x" * 255: "x" * 255, "é" * 127: "é" * 127,
    "C:\\x": "C:\\x",
    "CON": "CON", "null": "null",
}

# Refused by every route. Those that are no path at all are apart: a URL cannot say them.
BAD = ["..", ".", "../x", "../../x", "./x", "a/../b", "a/..", "a/../../x", "/..", "/../x", "//../x", "../", "d/e/../../../x", "x" * 256,
       "d/" + "x" * 256, "é" * 128, "/".join(["x" * 200] * 21), "a/" * 2100 + "a"]
NO_PATH = ["", "/", "//", "a\0b", "\0", "a\0/../b"]
# Left open: kept as it is meant, or refused.
OPEN = {"o//e": "o/e", "o/./e": "o/e", "a\nb": "a\nb", "a\tb": "a\tb", "\x1b[31m": "\x1b[31m", "\x7f": "\x7f",
        "a\r\nX-Evil: 1": "a\r\nX-Evil: 1"}

WRITERS = {
    "create": lambda session, path: session.put(path, "content"),
    "upload by query": lambda session, path: upload(session, b"content", query=path),
    "execute_code": lambda session, path: session.call("POST", "execute_code", body={"code": "content = 1", "filename": path}),
}


def test_good_paths(kept):
    """Written, listed, read and downloaded by the name that was given."""
    def check(path):
        where = GOOD[path]
        answer = kept.write(path, "content")
        assert answer["size"] == 7 and answer["filename"] in (path, where), answer
        assert where in kept.files(recursive="true")
        for name in {path, where}:
            assert kept.read(name) == b"content"
        answer = kept.ok("GET", "readfile", f"/{urllib.parse.quote(where)}")
        assert (answer["size"], answer["is_eof"]) == (7, True), answer
        assert kept.shell(f"cat -- {shlex.quote('/workspace/' + where)}") == "content"

    each(GOOD, check)


@pytest.mark.parametrize("writer", list(WRITERS)[1:])
def test_good_paths_for_all_who_write(kept, writer):
    def check(path):
        status, answer = WRITERS[writer](kept, path)
        assert status == 200, answer
        if writer == "execute_code":
            assert answer["returncode"] == 0 and kept.read(path) == b"content = 1", answer
        else:
            assert kept.read(GOOD[path]) == b"content"

    each(["a.txt", "d/e.txt", "///etc/passwd", "..\\x", NFD, "%2e%2e", "x" * 255], check)


@pytest.mark.parametrize("writer", WRITERS)
def test_bad_paths_are_not_written(kept, writer):
    """Without a file name execute_code takes one of its own, and an upload that of its part."""
    before = kept.files(recursive="true")

    def check(path):
        status, answer = WRITERS[writer](kept, path)
        if writer != "create" and path == "" and status == 200:
            kept.shell("rm -f data.bin")
            return
        assert 400 <= status < 500, (status, answer)
        assert status == 414 or answer["detail"], "longer than any target may be: nobody knows whose it is"
        assert kept.files(recursive="true") == before

    each(BAD + NO_PATH, check)


def test_bad_paths_are_not_read(place):
    def check(path):
        for encoded in {urllib.parse.quote(path, safe=""), urllib.parse.quote(path), urllib.parse.quote(path).replace(".", "%2e")}:
            status, _, data = place.request("GET", "download", f"/{encoded}")
            assert status in (400, 404, 405, 414), (encoded, status)
            assert b"root:" not in data and json.loads(data)
            for route in ("files", "readfile"):
                if (route, path) == ("files", "."):
                    continue  # to some who stand between, that is the directory itself
                status, _, data = place.request("GET", route, f"/{urllib.parse.quote(path, safe='')}")
                assert 400 <= status < 500, (route, status, data)

    each(BAD, check)


@pytest.mark.parametrize("path", ["..", "../x", "a/../b", "d/e/../../../x"])
def test_download_says_what_is_wrong(place, path):
    status, _, data = place.request("GET", "download", "/" + urllib.parse.quote(path, safe=""))
    assert "Invalid file path" in refused(status, json.loads(data), 400)


@pytest.mark.parametrize("encoded",
                         ["%00", "a%00b", "there.txt%00", "%ff", "%c0%ae%c0%ae/x", "%c0%af", "%ed%a0%80", "%", "%zz", "%252e%252e%252fx",
                                     "..%252f..%252fetc%252fpasswd", "%2e%2e/%2e%2e/%2e%2e/etc/passwd", "..;/x", "%u002e%u002e/x",
                                     "there.txt/", "there.txt/.", "there.txt/x", "/".join(["x" * 200] * 40)], ids=lambda e: e[:40])
def test_targets_that_are_none(place, encoded):
    """404 where it is a name of nothing, 400 where it is no path."""
    for route in ("download", "readfile"):
        status, _, data = place.request("GET", route, f"/{encoded}")
        assert status in (400, 404, 405, 414, 422), (route, status, data)
        assert b"root:" not in data and json.loads(data)


def test_paths_that_may_be_refused(kept):
    def check(path):
        before = kept.files(recursive="true")
        status, answer = kept.put(path, "content")
        if status == 200:
            status, headers, data = kept.get(OPEN[path])
            assert (status, data) == (200, b"content") and headers["X-Evil"] is None
            assert OPEN[path] in kept.files(recursive="true")
        else:
            assert 400 <= status < 500 and answer["detail"], (status, answer)
            assert kept.files(recursive="true") == before

    each(OPEN, check)


@pytest.mark.parametrize("text", [rb"\ud800", rb"a\udc80b", rb"\ud800/x", b"\xff", b"\xed\xa0\x80"])
def test_a_name_that_is_no_text(kept, text):
    before = kept.files(recursive="true")
    status, answer = kept.call("POST", "create", body=b'{"filename": "%s", "content": "x"}' % text)
    assert status in (400, 422) and answer["detail"]
    assert kept.files(recursive="true") == before


def test_both_forms_of_a_letter_are_two_names(session):
    session.write(NFC, "composed")
    session.write(NFD, "decomposed")
    assert session.read(NFC) == b"composed" and session.read(NFD) == b"decomposed"


def test_4096_bytes(session):
    """Up to what the kernel takes, a path may work or be refused; above, it is refused. Nothing hangs or breaks."""
    for size in (4000, 4094, 4095, 4096, 4097, 8192):
        parts = "/".join(["x" * 99] * (size // 100))
        path = parts + "/" + "y" * (size - len(parts) - 1)
        assert len(path) == size
        status, answer = session.put(path, "deep")
        if status == 200:
            assert size < 4096 and session.read(path) == b"deep"
        else:
            assert 400 <= status < 500 and answer["detail"], (status, answer)
    assert session.shell("echo here") == "here\n"


# --- links that a session makes ------------------------------------------------------------------------------

LINKS = {
    "passwd": "/etc/passwd", "root": "/", "up": "..", "upup": "../../../../../..", "self": "/proc/self", "environ": "/proc/1/environ",
    "outside": "/tmp/outside",
    "dangling": "/tmp/not-there", "loop": "loop", "two": "one", "one": "two", "long": "x" * 4000, "empty-name": "d/../../tmp/outside/f",
    "device": "/dev/zero", "mine": "/proc/self/cwd", "fd": "/proc/self/fd/0",
}
# Below each link, a path that would be a file if the link were followed.
THROUGH = ["passwd", "root/etc/passwd", "root/tmp/outside/f", "up/etc/passwd", "upup/etc/passwd", "self/environ", "self/root/etc/passwd",
           "environ", "outside/f",
           "dangling", "loop", "one", "two/x", "long", "empty-name", "device", "d/link/f", "mine/../etc/passwd", "fd"]


@pytest.fixture(scope="module")
def linked(server):
    with Session(server, "linked") as one:
        one.run("import os\nos.makedirs('/tmp/outside')\nopen('/tmp/outside/f', 'w').write('outside')\n"
                "os.makedirs('d')\nopen('d/f', 'w').write('inside')\n"
                "os.symlink('/tmp/outside', 'd/link')\nos.symlink('d/f', 'in')\n"
                "os.symlink('/workspace/d/f', 'abs-in')\nos.symlink('d', 'dir-in')\n"
                f"for name, target in {LINKS!r}.items():\n    os.symlink(target, name)")
        yield one


def outside_is_untouched(session):
    return session.shell("ls /tmp/outside /tmp/not-there 2>/dev/null; cat /tmp/outside/f; ls / | grep -c evil; true").endswith("outside0\n")


def test_nothing_is_read_through_a_link_that_leads_out(linked):
    def check(path):
        for route in ("download", "readfile"):
            status, _, data = linked.request("GET", route, f"/{path}")
            assert status in (400, 403, 404), (route, status, data)
            assert b"root:" not in data and b"outside" != data and json.loads(data)["detail"]

    each(THROUGH, check)


def test_nothing_is_written_through_a_link_that_leads_out(linked):
    """A link that the name itself is may be replaced by a file, which is in the session then; never what it leads to."""
    def check(path):
        for write in (lambda: linked.put(path, "evil"), lambda: upload(linked, b"evil", query=path)):
            status, answer = write()
            assert status == 200 and "/" not in path or 400 <= status < 500, (status, answer)
            assert outside_is_untouched(linked)
            if status == 200:
                assert linked.read(path) == b"evil"
                linked.shell(f"rm {path}; ln -s -- {shlex.quote(LINKS[path])} {path}")

    each([*THROUGH, "root/tmp/outside/evil", "outside/evil", "d/link/evil", "up/evil", "root/evil"], check)


def test_no_script_is_written_through_a_link_that_leads_out(linked):
    def check(path):
        status, answer = linked.call("POST", "execute_code", body={"code": "print('ran')", "filename": path})
        assert 400 <= status < 500, (status, answer)
        assert outside_is_untouched(linked)

    each(["root/tmp/outside/evil.py", "outside/evil.py", "d/link/evil.py", "up/evil.py", "root/evil.py", "self/evil.py"], check)


@pytest.mark.parametrize("path", ["root", "up", "outside", "self", "d/link", "mine", "upup/etc"])
def test_nothing_is_listed_through_a_link_that_leads_out(linked, path):
    for query in ("", "?recursive=true"):
        status, answer = linked.call("GET", "files", f"/{path}", query)
        assert 400 <= status < 500 or (path == "mine" and status == 200) or answer["files"] == [], (status, answer)


def test_links_that_stay(linked):
    assert linked.read("in") == b"inside" and linked.read("dir-in/f") == b"inside"
    status, _, data = linked.get("abs-in")
    assert status in (400, 404) or data == b"inside", "it is in the session, by a name that only the session knows"
    linked.write("dir-in/new", "new")
    assert linked.read("d/new") == b"new"


def test_a_listing_with_links_ends(linked):
    """Links to directories above, to themselves and to the whole machine: none of them is walked into."""
    for entries in (linked.files(recursive="true"), linked.files()):
        assert not [name for name in entries if name.startswith(("root/", "up/", "upup/", "self/", "outside/", "mine/", "d/link/"))]
    assert linked.status()["exists"] is True


@pytest.mark.more
def test_links_that_change_meanwhile(session):
    """A name is a directory at one moment and a link that leads out at the next; who looks first must not be wrong afterwards."""
    word = mark()
    session.run("import os\nos.makedirs('/tmp/outside')\nopen('/tmp/outside/passwd', 'w').write('outside')\nos.makedirs('real')\n"
                "open('real/passwd', 'w').write('inside')\nos.symlink('/tmp/outside', 'away')\nos.symlink('/etc', 'etc')")
    session.write("flip.py", """
import ctypes, os
libc = ctypes.CDLL(None)
while True:
    for other in (b"away", b"etc"):
        libc.renameat2(-100, b"real", -100, other, 2)
        libc.renameat2(-100, b"real", -100, other, 2)
""")
    session.shell(f"setsid python3 flip.py {word} > /dev/null 2>&1 &")
    until(lambda: session.server.running(word), "it flips")
    seen = set()
    for number in range(300):
        status, _, data = session.get("real/passwd")
        seen.add(data if status == 200 else status)
        session.put(f"real/new-{number}", "new")
        session.call("GET", "files", "/real")
    assert seen <= {b"inside", 400, 403, 404, 409}, seen
    assert session.shell("ls /tmp/outside; cat /tmp/outside/passwd") == "passwd\noutside"
    assert not [name for name in os.listdir("/etc") if name.startswith("new-")]


# --- things that are no files --------------------------------------------------------------------------------


def test_what_is_no_file(session):
    session.run("import os, socket\nos.mkfifo('fifo')\nos.mkdir('dir')\n"
                "socket.socket(socket.AF_UNIX).bind('socket')\nopen('closed', 'w').close()\nos.chmod('closed', 0)\n"
                "os.makedirs('shut/in'); os.chmod('shut', 0)")
    for name in ("fifo", "dir", "socket"):
        status, _, data = session.get(name)
        assert "Not a file" in refused(status, json.loads(data), 400), name
        refused(*session.call("GET", "readfile", f"/{name}"))
    for name in ("fifo", "socket"):  # replaced or refused; it must not wait for a reader
        status, answer = session.put(name, "x")
        assert status == 200 and session.read(name) == b"x" or 400 <= status < 500, (status, answer)
    for write in (lambda: session.put("dir", "x"), lambda: upload(session, b"x", query="dir"), lambda: session.put("closed/x", "x")):
        refused(*write(), 400, 404, 409, 422)
    assert session.shell("ls -d dir") == "dir\n"
    assert set(session.files(recursive="true")) >= {"closed"} and session.status()["exists"] is True
    session.shell("chmod 755 shut")


# --- up and down ---------------------------------------------------------------------------------------------

CONTENTS = {
    "empty": b"", "all bytes": bytes(range(256)) * 20, "line ends": b"\r\n" * 10, "looks like the end": b"x\r\n------between-the-part",
    "five megabytes": os.urandom(5 * MIB),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_upload_and_download(kept, name):
    content = CONTENTS[name]
    status, answer = upload(kept, content, "up.bin")
    assert status == 200 and unwrapped(answer) == {"filename": "up.bin", "size": len(content)}
    status, headers, data = kept.get("up.bin")
    assert (status, data) == (200, content)
    assert headers.get_content_type() == "application/octet-stream" and headers["Content-Length"] == str(len(content))
    assert re.match(r"attachment; ?filename=\"?up\.bin\"?", headers["Content-Disposition"])


def test_the_name_of_the_query_wins(kept):
    assert unwrapped(upload(kept, b"x", "part.bin", "q/query.bin")[1])["filename"] == "q/query.bin"
    assert kept.read("q/query.bin") == b"x" and kept.get("part.bin")[0] == 404


def test_an_upload_without_a_name(kept):
    before = kept.files(recursive="true")
    refused(*upload(kept, b"x", ""), 400, 422)
    refused(*upload(kept, b"x", "", ""), 400, 422)
    kind, body = multipart([file_part(b"x", name="other")])
    status, answer = kept.call("POST", "upload", "", "?filename=x", body, {"Content-Type": kind})
    assert status in (400, 422) and answer["detail"]
    status, answer = kept.call("POST", "upload", "", "?filename=x", b"x", {"Content-Type": "text/plain"})
    assert status in (400, 415, 422) and answer["detail"]
    assert kept.files(recursive="true") == before


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", ".."])
def test_a_part_named_like_a_path(kept, name):
    """Refused, or it is what the last of it says; never elsewhere."""
    before = set(kept.files(recursive="true"))
    status, answer = upload(kept, b"evil", name)
    assert status == 200 or 400 <= status < 500, (status, answer)
    assert set(kept.files(recursive="true")) - before <= {"evil", "etc/evil"}
    assert not os.path.exists("/etc/evil")


def test_an_upload_replaces(kept):
    for content in (b"first, and longer", b"second"):
        assert upload(kept, content, "same")[0] == 200
        assert kept.read("same") == content


def test_an_upload_that_is_cut_off_leaves_nothing(kept):
    upload(kept, b"before", "cut.bin")
    kind, body = multipart([file_part(b"x" * 100000, "cut.bin")])
    for size in (0, 50, 60000):
        with kept.server.wire() as wire:
            wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                      % (kept.path("upload").encode(), kept.server.authority.encode(), kind.encode(), len(body), body[:size]))
    until(lambda: kept.read("cut.bin") == b"before", "it is as it was")
    assert kept.files(recursive="true").keys() == {"there.txt", "cut.bin"}


def test_a_session_that_ends_during_an_upload(session):
    session.create()
    kind, body = multipart([file_part(b"x" * 1000000, "cut.bin")])
    with session.server.wire() as wire:
        wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                  % (session.path("upload").encode(), session.server.authority.encode(), kind.encode(), len(body), body[:500000]))
        assert session.delete()[0] == 200
        wire.send(body[500000:])
        answer = wire.response()
    assert answer.status == 200 and session.read("cut.bin") == b"x" * 1000000 or answer.status >= 400 and answer.json()["detail"], answer
    assert session.status()["exists"] is (answer.status == 200)


@pytest.mark.parametrize("act", ["truncate -s 10 f", "rm f", None], ids=["cut off", "removed", "session ended"])
def test_a_file_that_goes_away_while_it_is_sent(session, act):
    """Whole, or seen not to be: never padded, never waiting for what cannot come."""
    size = 30 * MIB
    session.run(f"open('f', 'wb').write(b'x' * {size})")
    with session.server.wire() as wire:
        wire.send(f"GET {session.path('download', '/f')} HTTP/1.1\r\nHost: {session.server.authority}\r\n"
                  "Connection: close\r\n\r\n".encode())
        wire.fill()
        _ = session.shell(act) if act else session.delete()
        rest = wire.socket.makefile("rb").read()
        head, _, body = (wire.buffer + rest).partition(b"\r\n\r\n")
    assert b"Content-Length: %d" % size in head and body == b"x" * len(body) and len(body) <= size
    assert act != "rm f" or len(body) == size, "who has it open has it"


@pytest.mark.parametrize("content", ["", "plain", "naïve €uro 𝄞\n", "a\r\nb", "\u2028", "x" * 100000, "\x1b[0m\x7f"],
                         ids=lambda c: repr(c[:10]))
def test_create(kept, content):
    """The size is that of the file, in bytes."""
    answer = kept.write("made", content)
    assert answer == {"filename": "made", "size": len(content.encode())}
    assert kept.read("made") == content.encode()


def test_the_mode(kept):
    kept.write("plain", "x")
    kept.write("program", "#!/bin/sh\necho ran", mode=0o755)
    kept.write("secret", "x", mode=0o600)
    assert kept.shell("stat -c %a plain program secret; ./program") == "644\n755\n600\nran\n"
    kept.write("program", "echo again", mode=0o644)
    assert kept.shell("stat -c %a program") == "644\n"


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777, 0o7777])
def test_bits_above_the_mode(kept, mode):
    """Refused or left out: a file of a session gives nobody's rights to anybody."""
    status, answer = kept.put("set", "x", mode=mode)
    if status == 200:
        assert int(kept.shell("stat -c %a set"), 8) & 0o6000 == 0
    else:
        refused(status, answer)


WRONG = {
    "no content": ({"filename": "f"}, ["content"]), "no filename": ({"content": "x"}, ["filename"]),
    "content is a number": ({"content": 1, "filename": "f"}, ["content"]),
    "filename is a list": ({"content": "x", "filename": ["f"]}, ["filename"]),
    "filename is null": ({"content": "x", "filename": None}, ["filename"]),
    "mode is text": ({"content": "x", "filename": "f", "mode": "rw"}, ["mode"]),
    "mode is a fraction": ({"content": "x", "filename": "f", "mode": 1.5}, ["mode"]),
    "mode is a list": ({"content": "x", "filename": "f", "mode": []}, ["mode"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field_is_named(kept, name):
    body, where = WRONG[name]
    status, answer = kept.call("POST", "create", body=body)
    assert status == 422 and answer["detail"][0]["loc"] == ["body", *where], answer
    assert kept.get("f")[0] == 404


@pytest.mark.parametrize("mode", [-1, 0o10000, 2 ** 31, 2 ** 70], ids=str)
def test_a_mode_that_is_none(kept, mode):
    status, answer = kept.put("f", "x", mode=mode)
    assert status in (400, 422) and answer["detail"]


def test_a_file_that_is_not_there(place):
    status, _, data = place.get("missing.txt")
    assert "not found" in refused(status, json.loads(data), 404).lower()
    refused(*place.call("GET", "readfile", "/missing.txt"), 404)


def test_a_file_with_holes(session):
    session.run("open('sparse', 'wb').truncate(40 << 20)")
    assert session.read("sparse") == bytes(40 * MIB)


def test_an_odd_name_is_safe_in_the_header(kept):
    for name in ('a"b.txt', "a\\b", 'a\\"; x="', "né€𝄞", "a; filename=b", "100%"):
        kept.write(name, "odd")
        with kept.server.wire() as wire:
            target = kept.path("download", "/" + urllib.parse.quote(name, safe=""))
            wire.send(f"GET {target} HTTP/1.1\r\nHost: {kept.server.authority}\r\n\r\n".encode())
            answer = wire.response()
        assert answer.status == 200 and answer.body == b"odd"
        disposition = answer.get("content-disposition").encode("latin-1").decode("utf-8", "replace")
        assert re.match(r'attachment; ?filename[*]?=', disposition), disposition
        plain = re.search(r'filename="((?:[^"\\]|\\.)*)"(.*)', disposition)
        assert plain is None or re.fullmatch(r"(; ?filename\*=(?:UTF|utf)-8''[\w!#$&+.^`|~%-]+)?", plain[2]), disposition


# --- what is there -------------------------------------------------------------------------------------------


def test_listing(session):
    assert session.files() == {} == session.files(recursive="true")
    for name in ("a.txt", "b", "d/c.tar.gz", "d/e/f.PNG", ".hidden", "stdout.log", "stderr.log"):
        session.write(name, "x" * len(name))
    session.shell("mkdir -p hollow/inner")
    top = {"a.txt": (5, "txt"), "b": (1, "unknown")}
    found = session.files()
    assert {name: found[name] for name in top} == top and found.keys() - {".hidden"} == top.keys(), "no directories, no logs"
    assert session.files("d") == {"d/c.tar.gz": (10, "gz")} == session.files("d/") == session.files("/d")
    assert session.files("d/e")["d/e/f.PNG"][0] == 9
    assert session.files(recursive="true").keys() - {".hidden"} == {"a.txt", "b", "d/c.tar.gz", "d/e/f.PNG"}
    assert session.files(recursive="false").keys() == found.keys()
    assert session.files("hollow") == {} == session.files("hollow", recursive="true")
    assert session.read("stdout.log") == b"x" * 10, "hidden, not gone"
    refused(*session.call("GET", "files", "/missing"))
    refused(*session.call("GET", "files", "/a.txt"))
    assert session.call("GET", "files", "/", "?recursive=maybe")[0] == 422


def test_listing_without_a_slash(place):
    """The reference sends its clients to the same with one."""
    status, headers, data = place.request("GET", "files")
    if status == 307:
        assert urllib.parse.urlsplit(headers["Location"]).path == place.path("files", "/")
    else:
        assert status == 200 and json.loads(data)["files"]


def test_names_in_a_listing_are_any_bytes(session):
    session.run(r"""
import os
for name in (b"\xff\xfe", b"a\nb", b"a\tb", b"\x1b[2J", b"\xed\xa0\x80", b"ok"):
    open(os.path.join(b"/workspace", name), "w").close()
""", filename="make.py")
    for query in ("", "?recursive=true"):
        status, _, data = session.request("GET", "files", "/", query)
        assert status == 200
        names = [entry["filename"] for entry in json.loads(data)["files"]]
        data.decode("utf-8", "strict")
        assert "ok" in names and not any("\ud800" <= c <= "\udfff" for name in names for c in name)
    assert "ok" in {entry["filename"] for entry in session.status()["files"]}


@pytest.mark.more
def test_many_files_and_deep_ones(session):
    session.run("""
import os
os.makedirs("many")
for i in range(5000):
    open(f"many/{i}.txt", "w").close()
for i in range(1000):
    os.mkdir("deep")
    os.chdir("deep")
open("bottom", "w").close()
""", filename="make.py")
    assert len(session.files("many")) == 5000
    status, answer = session.call("GET", "files", "/", "?recursive=true")
    assert status == 200 and len(answer["files"]) >= 5000 or 400 <= status < 600 and answer["detail"]
    assert session.shell("echo here") == "here\n"


# --- preview -------------------------------------------------------------------------------------------------

SHOWN = ["html", "txt", "md", "json", "xml", "csv", "png", "jpg", "jpeg", "gif", "bmp", "webp", "svg", "ico"]


def preview(session, name):
    return session.server.request("GET", f"/workspace/se/files/preview/{session.id}/{name}?sid={session.id}")


def test_preview(kept):
    """A page of a session must not be one of this server's for a browser."""
    def check(extension):
        content = b"<script>alert(1)</script>" if extension in ("html", "svg", "xml") else b"content"
        assert upload(kept, content, f"f.{extension}")[0] == 200
        status, headers, data = preview(kept, f"f.{extension}")
        assert (status, data) == (200, content)
        attached = (headers["Content-Disposition"] or "").startswith("attachment")
        assert attached or "sandbox" in (headers["Content-Security-Policy"] or "")
        assert attached or headers["X-Content-Type-Options"] == "nosniff"

    each(SHOWN, check)


def test_what_is_not_shown(kept):
    for name in ("f.py", "f.exe", "f", "f.html.sh", ".html.."):
        kept.write(name, "x")
        status, _, data = preview(kept, name)
        assert 400 <= status < 500 and json.loads(data)["detail"], name
    assert preview(kept, "missing.txt")[0] == 404
    for path in ("..%2fx.txt", "%2e%2e/%2e%2e/etc/x.txt", "a%00.txt"):
        assert preview(kept, path)[0] in (400, 404)


# --- in pieces -----------------------------------------------------------------------------------------------


def pieces(session, name, size):
    """The whole file by readfile, as bytes, following the offsets it is given; and how many answers it took."""
    offset, data, binary = 0, [], None
    for number in range(1, 10000):
        answer = session.ok("GET", "readfile", f"/{name}", f"?offset={offset}&buffer_size={size}")
        assert answer["offset"] > offset or answer["is_eof"], answer
        binary = answer["is_binary"]
        data.append(base64.b64decode(answer["content"], validate=True) if binary else answer["content"])
        offset = answer["offset"]
        if answer["is_eof"]:
            assert offset == answer["size"]
            return b"".join(data) if binary else "".join(data), number
    pytest.fail("no end")


def test_readfile(kept):
    kept.write("f.txt", "0123456789")
    assert kept.ok("GET", "readfile", "/f.txt") == {"content": "0123456789", "is_binary": False, "offset": 10, "size": 10, "is_eof": True}
    answer = kept.ok("GET", "readfile", "/f.txt", "?offset=2&buffer_size=3")
    assert answer == {"content": "234", "is_binary": False, "offset": 5, "size": 10, "is_eof": False}
    answer = kept.ok("GET", "readfile", "/f.txt", "?offset=7&buffer_size=3")
    assert (answer["content"], answer["is_eof"]) == ("789", True)
    for offset in (10, 11, 10 ** 15):
        answer = kept.ok("GET", "readfile", "/f.txt", f"?offset={offset}")
        assert answer["content"] == "" and answer["is_eof"] is True and answer["size"] == 10 and "is_binary" not in answer
    kept.write("empty.txt", "")
    answer = kept.ok("GET", "readfile", "/empty.txt")
    assert (answer["content"], answer["size"], answer["is_eof"]) == ("", 0, True)


def test_readfile_of_bytes(kept):
    data = bytes(range(256)) * 100
    upload(kept, data, "f.bin")
    answer = kept.ok("GET", "readfile", "/f.bin", "?buffer_size=100")
    assert answer["is_binary"] is True and base64.b64decode(answer["content"]) == data[:100] and answer["offset"] == 100
    assert pieces(kept, "f.bin", 1000) == (data, 26)


@pytest.mark.more
def test_readfile_of_text_in_pieces(kept):
    """Letters of several bytes at every cut: none is lost, doubled or broken."""
    text = "a€é𝄞" * 500
    kept.write("f.txt", text)
    for size in (4, 5, 7, 4096):
        assert pieces(kept, "f.txt", size)[0] == text


def test_readfile_of_text_that_is_none(kept):
    """By its name a text, by its bytes none: something is said, and it is JSON."""
    upload(kept, b"caf\xe9 \xff\xfe\x00 \x81", "f.txt")
    answer = kept.ok("GET", "readfile", "/f.txt")
    assert answer["content"] and answer["size"] == 10 and answer["is_eof"] is True


def test_readfile_of_text_in_gbk(kept):
    """What is no UTF-8 is GBK, if it can be; and a piece ends with a whole character of that, too."""
    text = "中文 text，标点。" * 100
    upload(kept, text.encode("gbk"), "f.txt")
    answer = kept.ok("GET", "readfile", "/f.txt")
    assert (answer["content"], answer["is_binary"], answer["is_eof"]) == (text, False, True)
    for size in (1, 7, 64):
        answer = kept.ok("GET", "readfile", "/f.txt", f"?buffer_size={size}")
        assert answer["content"] and text.startswith(answer["content"]) and len(answer["content"].encode("gbk")) == answer["offset"]
    upload(kept, "café".encode("latin-1"), "f.txt")
    assert kept.ok("GET", "readfile", "/f.txt")["content"] == "café"


@pytest.mark.parametrize("query",
                         ["offset=-1", "offset=x", "offset=1.5", "offset=", "buffer_size=-1", "buffer_size=x", "offset=99999999999999999999999"])
def test_a_place_that_is_none(kept, query):
    status, answer = kept.call("GET", "readfile", "/there.txt", f"?{query}")
    assert 400 <= status < 500 and answer["detail"]


def test_a_buffer_of_any_size(kept):
    """What is asked for may be more than is sent; where the next begins is told."""
    data = os.urandom(3 * MIB)
    upload(kept, data, "f.bin")
    assert pieces(kept, "f.bin", 10 ** 12)[0] == data
    with contextlib.suppress(AssertionError):  # nothing at a time may be refused, but it must not be answered for ever
        answer = kept.ok("GET", "readfile", "/f.bin", "?buffer_size=0")
        assert answer["content"] == ""
