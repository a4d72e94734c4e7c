# SPDX-License-Identifier: Apache-2.0
"""Paths of files of a box, as nobody should send them, and places in a box where no plain file is.

Reading: a target that our HTTP reader refuses for every route ('.' and '..' as a segment, '//', control characters, raw bytes) may stay
400; what reaches the call is 422 invalid_path. Whichever it is: nothing is read, made or removed.
"""
import unicodedata

import pytest

from files import Filed, nothing_stays, raw
from server import mark, needs_root, shared, until
from test_server_attacks import TRAVERSALS

pytestmark = needs_root

server = shared()


@pytest.fixture(scope="module")
def box(server):
    """/workspace/canary is below what paths are relative to; /tmp/canary is beside it, and one "../" away."""
    with Filed(server) as box:
        box.out("mkdir -p d/e; echo inside > d/f; echo 'canary of the box' > /tmp/canary; ln -s /tmp out; ln -s .. up")
        yield box


BAD, EITHER, MALFORMED = (422,), (400, 422), (400,)
SECRET = b"canary of the box"

# What stands in the target behind …/files/, in bytes, and what it may be answered by.
REFUSED = {
    "dots": (b"../tmp/canary", EITHER),
    "dots below": (b"d/../../tmp/canary", EITHER),
    "dots that stay inside": (b"d/../d/f", EITHER),
    "dots at the end": (b"d/..", EITHER),
    "dot": (b"d/./f", EITHER),
    "dot first": (b"./d/f", EITHER),
    "dot last": (b"d/f/.", EITHER),
    "dots alone": (b"..", EITHER),
    "dot alone": (b".", EITHER),
    "empty component": (b"d//f", EITHER),
    "empty first": (b"/d/f", EITHER),
    "absolute": (b"/tmp/canary", EITHER),
    "two slashes first": (b"//tmp/canary", EITHER),
    "encoded dots": (b"%2e%2e/tmp/canary", EITHER),
    "half encoded dots": (b".%2E/tmp/canary", EITHER),
    "encoded slash": (b"..%2Ftmp%2Fcanary", BAD),
    "encoded slashes": (b"d%2F..%2F..%2Ftmp%2Fcanary", BAD),
    "all encoded": (b"%2e%2e%2f%74%6d%70%2fcanary", BAD),
    "encoded absolute": (b"%2Ftmp%2Fcanary", BAD),
    "encoded empty component": (b"d%2F%2Ff", BAD),
    "encoded dot": (b"d%2F.%2Ff", BAD),
    "encoded slash at the end": (b"d%2F", BAD),
    "encoded dots at the end": (b"d%2F..", BAD),
    "only an encoded slash": (b"%2F", BAD),
    "slash at the end of a directory": (b"d/", EITHER),
    "slash at the end of a file": (b"d/f/", EITHER),
    "NUL": (b"d/f%00", MALFORMED),
    "NUL and a suffix": (b"d/f%00.txt", MALFORMED),
    "NUL alone": (b"%00", MALFORMED),
    "NUL behind an encoded slash": (b"d%2Ff%00", MALFORMED),
    "raw NUL": (b"d/f\0", MALFORMED),
    "percent alone": (b"d/f%", MALFORMED),
    "percent and one digit": (b"d/f%4", MALFORMED),
    "percent and no digits": (b"d/%zz", MALFORMED),
    "raw space": (b"d/f x", MALFORMED),
    "fragment": (b"d/f#x", MALFORMED),
    "long component": (b"x" * 256, BAD),
    "long component below": (b"d/" + b"x" * 256 + b"/f", BAD),
    "long component in two-byte characters": (b"%c3%a9" * 128, BAD),
    "long path": (b"/".join([b"x" * 200] * 20) + b"/" + b"y" * 76, BAD),
}
# Names like others, although they look like more. What is asked for is not there.
PLAIN = {
    "encoded twice": (b"%252e%252e%252ftmp%252fcanary", "%2e%2e%2ftmp%2fcanary"),
    "encoded three times": (b"%25252e", "%252e"),
    "backslashes": (b"..\\tmp\\canary", "..\\tmp\\canary"),
    "encoded backslashes": (b"..%5Ctmp%5Ccanary", "..\\tmp\\canary"),
    "three dots": (b"...", "..."),
    "dots with a suffix": (b"..x", "..x"),
    "dots with a space": (b"..%20", ".. "),
    "semicolon": (b"..;x", "..;x"),
    "full width": (b"%ef%bc%8e%ef%bc%8e%ef%bc%8ftmp", "．．／tmp"),
    "division slash": (b"..%e2%88%95tmp", "..∕tmp"),
    "drive": (b"C:%5Cx", "C:\\x"),
    "tilde": (b"~root", "~root"),
    "variable": (b"$HOME", "$HOME"),
    "encoded question mark": (b"a%3Fstat=1", "a?stat=1"),
    "plus": (b"a+b", "a+b"),
    "encoded plain letters": (b"%61%62", "ab"),
    "encoded slash between plain names": (b"new%2Fname", "new/name"),
    "longest component": (b"x" * 255, "x" * 255),
    "longest component in two-byte characters": (b"%c3%a9" * 127 + b"x", "é" * 127 + "x"),
}
# A request of every kind about that path. None: no body.
METHODS = [("GET", b"", None), ("HEAD", b"", None), ("GET", b"?stat=1", None), ("PUT", b"", b"written"), ("POST", b"?op=mkdir", None), ("POST", b"?op=move&to=moved", None),
           ("DELETE", b"", None), ("DELETE", b"?recursive=1", None)]


def targets(box, path):
    return [(method, f"{box.path}/files/".encode() + path + query, body) for method, query, body in METHODS]


def test_refused(box):
    everywhere = "find /workspace /tmp /home /var/tmp /dev/shm -printf '%p %s %T@\\n' | sort"
    before = box.out(everywhere)
    for name, (path, statuses) in REFUSED.items():
        for method, target, body in targets(box, path):
            answer = raw(box, method, target, body)
            assert answer.status in statuses, (name, method, target[:120], answer)
            assert SECRET not in answer.body and b"inside" not in answer.body
            if answer.status == 422 and method != "HEAD":
                assert answer.json()["error"]["code"] == "invalid_path", (name, answer)
    assert box.out(everywhere) == before


# Whatever no target may have is refused before anybody looks at parameters; a slash at the end, or a dot, may name a directory there.
NO_PARAMETERS = {"raw NUL", "raw space", "fragment", "percent alone", "percent and one digit", "percent and no digits", "slash at the end of a directory",
                 "encoded slash at the end", "dot alone"}
PARAMETERS = [("GET", "files?path="), ("GET", "files?recursive=1&path="), ("GET", "archive?path="), ("PUT", "archive?path="), ("GET", "watch?path="),
              ("POST", "files/d/f?op=move&to=")]


def test_the_same_in_a_parameter(box):
    """path= and to= are decoded once as well, and mean the same."""
    before = box.tree()
    for name, (path, statuses) in REFUSED.items():
        for method, what in PARAMETERS if name not in NO_PARAMETERS else ():
            answer = raw(box, method, f"{box.path}/{what}".encode() + path, b"" if method == "PUT" else None)
            assert answer.status in (statuses if statuses == MALFORMED else BAD), (name, what, answer)
            assert SECRET not in answer.body
    assert box.tree() == before


def test_plain(box):
    """Written, read, seen by the box under exactly that name, listed, removed."""
    for name, (path, there) in PLAIN.items():
        target = f"{box.path}/files/plain/".encode() + path
        assert raw(box, "GET", target).status == 404, name
        assert raw(box, "PUT", target, name.encode()).status == 201, name
        answer = raw(box, "GET", target)
        assert answer.status == 200 and answer.body == name.encode(), (name, answer)
        assert [path for path, what in box.tree("plain").items() if what != "directory"] == [there], name
        assert [e["path"] for e in box.entries(path="plain", recursive=1) if e["type"] == "file"] == [there], name
        assert raw(box, "DELETE", target).status == 204, name
        box.remove("plain", recursive=1).ok(204)


def test_known_traversals(box):
    """What is tried on every other route, on this one: refused, or the name of a file that is not there."""
    for name, (target, _) in TRAVERSALS.items():
        for method, query in (("GET", b""), ("HEAD", b""), ("GET", b"?stat=1"), ("DELETE", b""), ("DELETE", b"?recursive=1")):
            answer = raw(box, method, f"{box.path}/files/".encode() + target + query)
            assert answer.status in (400, 404, 422), (name, method, answer)
            assert b"root:" not in answer.body and SECRET not in answer.body and answer.get("x-evil") is None, name


def test_both_forms_of_a_letter(box):
    """NFC and NFD are two names, and nobody makes one into the other."""
    with nothing_stays(box):
        composed, apart = unicodedata.normalize("NFC", "é-å"), unicodedata.normalize("NFD", "é-å")
        for name in (composed, apart):
            box.read(name).refused(404, "not_found")
            box.write(name, name.encode()).ok(201)
        assert box.bytes(composed) == composed.encode() and box.bytes(apart) == apart.encode()
        assert {composed, apart} <= set(box.names())
        for name in (composed, apart):
            box.remove(name).ok(204)


@pytest.mark.more
def test_the_longest_path(box):
    """4095 bytes, whichever way they are divided; and one more."""
    with nothing_stays(box):
        for part in ("x" * 255, "y" * 100, "zz", "v"):
            path = "/".join([part] * (4096 // (len(part) + 1)))
            path += "/" + "e" * (4094 - len(path)) if len(path) < 4094 else "e" * (4095 - len(path))
            assert len(path) == 4095 and max(map(len, path.split("/"))) <= 255
            box.write(path + "x" if len(path.split("/")[-1]) < 255 else path + "/x", b"").refused(422, "invalid_path")
            box.write(path, b"far").ok(201)
            assert box.bytes(path) == b"far" and box.stat(path).entry()["size"] == 3
            box.remove(path).ok(204)
            box.remove(part, recursive=1).ok(204)


def test_names_of_the_box_itself(box):
    """What an archive is unpacked in is nobody's file: its name shows nowhere, and what is there by chance does no harm."""
    box.out("mkdir .glovebox-unpack-1 && touch .glovebox-unpack-1/f .glovebox-unpack-note; mkdir shown; touch shown/f")
    try:
        names = box.names(recursive=1)
        assert not [n for n in names if n.startswith(".glovebox-unpack-")] and "shown/f" in names
    finally:
        box.out("rm -rf .glovebox-unpack-* shown")


# --- by links ------------------------------------------------------------------------------------------------


def test_links_lead_as_far_as_the_box(box):
    """A link out of the workspace is followed: the box's user could, too. It never leads out of the box."""
    assert box.bytes("out/canary").strip() == SECRET
    assert "workspace" in box.names(path="up")
    assert box.bytes("up/etc/hostname") == b"glovebox\n"
    box.out("ln -s /proc/1/root escape; ln -s /proc/self/root self; ln -s /proc/1/cwd cwd; ln -s /proc/self/fd fds; ln -s ../../../../../../../.. above")
    try:
        assert box.read("escape/etc/hostname").status in (403, 404)
        assert box.list(path="escape").status in (403, 404)
        assert box.read("cwd/x").status in (403, 404)
        for path in ("self/etc/hostname", "above/etc/hostname"):
            reply = box.read(path)
            assert reply.status in (403, 404) or reply.body == b"glovebox\n", reply
        assert box.write("above/etc/made", b"x").status == 403
        assert box.write("escape/made", b"x").status in (403, 404, 409)
    finally:
        box.out("rm escape self cwd fds above")


def test_long_chains_of_links(box):
    box.python("""
import os
os.mkdir("chain")
open("chain/0", "w").write("end")
for n in range(1, 60): os.symlink(f"{n - 1}", f"chain/{n}")
os.symlink("x/" * 2000 + "x", "chain/long")
""")
    assert box.bytes("chain/30") == b"end"
    box.read("chain/59").refused(422, "invalid_path")
    assert box.read("chain/long").status in (404, 422)
    entry = [e for e in box.entries(path="chain") if e["path"] == "long"][0]
    assert entry["target"] == "x/" * 2000 + "x"
    box.remove("chain", recursive=1).ok(204)


# --- from the root, and what is no plain file -----------------------------------------------------------------


def test_root(box):
    assert box.bytes("etc/passwd", root="/") == box.out("cat /etc/passwd").encode()
    assert b"65532" in box.bytes("etc/passwd", root="/")
    assert box.bytes("workspace/d/f", root="/") == b"inside\n"
    assert box.bytes("usr/lib/os-release", root="/") == box.out("cat /usr/lib/os-release").encode()
    for root in ("/tmp", "x", "", "//", "/..", "0"):
        assert box.read("d/f", root=root).status == 422, root
    for path in ("root/x", "var/lib/x", "boot/x", "srv/x"):
        assert box.write(path, b"x", root="/").status in (403, 404), path


# Whatever it says: it says something, and it is nothing of the host.
PROC = ["proc/1/environ", "proc/1/cmdline", "proc/1/root/etc/shadow", "proc/1/cwd/x", "proc/1/fd/0", "proc/1/fd/3", "proc/1/mem", "proc/1/maps", "proc/self/environ",
        "proc/self/cmdline", "proc/self/fd/0", "proc/self/fd/1", "proc/self/fd/2", "proc/self/fd/3", "proc/self/fd/10", "proc/self/mem", "proc/self/maps", "proc/self/exe",
        "proc/self/root/etc/hostname", "proc/thread-self/status", "proc/kcore", "proc/kmsg", "proc/sysrq-trigger", "proc/sys/kernel/core_pattern", "proc/uptime", "proc/mounts",
        "proc/self/pagemap", "proc/self/clear_refs", "proc/self/task", "dev/stdin", "dev/stdout", "dev/fd/0", "dev/fd/3", "dev/tty", "dev/ptmx"]


def test_proc(box, tmp_path):
    """Every one of them is answered, and nothing of the host is in it."""
    (tmp_path / "secret").write_text("of the host")
    mine = {str(tmp_path).encode(), b"GLOVEBOX_WARM", b"of the host", str(box.server.state_dir).encode()}
    for path in PROC + [f"proc/self/root{tmp_path}/secret", f"proc/1/root{tmp_path}/secret"]:
        for query in ("", "?stat=1"):
            answer = raw(box, "GET", f"{box.path}/files/{path}{query}{'&' if query else '?'}root=/", timeout=20)
            assert answer.status in (200, 403, 404, 409, 422, 500), (path, answer)
            assert answer.status != 500 or path.endswith(("mem", "pagemap", "kmsg")), (path, answer)  # a read that fails
            said = answer.body.replace(f"'/{path}'".encode(), b"")  # what was asked for is named
            assert not any(word in said for word in mine), (path, answer)
    for path in PROC:
        assert raw(box, "PUT", f"{box.path}/files/{path}?root=/", b"1", timeout=20).status in (403, 404, 409, 422), path
        assert raw(box, "DELETE", f"{box.path}/files/{path}?root=/", timeout=20).status in (403, 404, 409, 422), path
    for path in ("proc", "proc/1", "proc/self", "proc/self/fd", "proc/1/fd", "proc/self/task", "sys", "dev", "dev/pts"):
        reply = box.list(path=path, root="/")
        assert reply.status in (200, 403, 404) and not any(word in reply.body for word in mine), (path, reply)
    assert box.out("echo here") == "here\n"


# What has no end, or waits for somebody. Size 0 or refused: what is no regular file is not read.
SPECIAL = ["dev/zero", "dev/random", "dev/full", "dev/null", "dev/tty", "workspace/fifo", "workspace/socket", "workspace/to-zero", "workspace/to-fifo"]


def test_what_is_no_plain_file_is_not_read(box):
    """Neither endless, nor for ever: a fifo that nobody writes to holds up nobody."""
    box.python("import os, socket\nos.mkfifo('fifo'); socket.socket(socket.AF_UNIX).bind('socket'); os.symlink('/dev/zero', 'to-zero'); os.symlink('fifo', 'to-fifo')")
    processes = len(box.server.tree())
    try:
        for path in SPECIAL:
            for method in ("GET", "HEAD"):
                answer = raw(box, method, f"{box.path}/files/{path}?root=/", timeout=20)
                assert answer.status in (403, 409, 422) or (answer.status == 200 and answer.body == b"" and answer.get("content-length") == "0"), (path, answer)
            assert raw(box, "GET", f"{box.path}/files/{path}?root=/&stat=1", timeout=20).json()["type"] == "other"
            answer = raw(box, "PUT", f"{box.path}/files/{path}/below?root=/", b"x", timeout=20)
            assert answer.status == 409, (path, answer)
        for path in SPECIAL[:5]:
            assert raw(box, "PUT", f"{box.path}/files/{path}?root=/", b"x", timeout=20).status == 403, path
        for path in ("fifo", "socket"):
            assert box.move(path, f"{path}-moved").status == 200
            assert box.stat(f"{path}-moved").entry()["type"] == "other"
            assert box.move(f"{path}-moved", path).status == 200
            assert box.list(path=path).refused(409, "not_a_directory")
        # Across file systems only plain files go: a fifo that is read would wait for ever, a device would have no end.
        box.move("workspace/fifo", f"tmp/{mark()}", root="/").refused(409, "other_file_system")
        assert box.bytes("d/f") == b"inside\n"
        until(lambda: len(box.server.tree()) <= processes, "no job waits")
    finally:
        box.out("rm -f fifo socket to-zero to-fifo")
