# SPDX-License-Identifier: Apache-2.0
"""The resource server: files and directories below /app, call by call."""
import gzip
import io
import json
import os
import socket
import tarfile

import pytest

from boxes import Box
from server import needs_root, shared, until

pytestmark = needs_root
server = shared()


@pytest.fixture(scope="module")
def running(server):
    with Box(server) as box:
        yield box


@pytest.fixture
def box(running):
    running.shell("chmod -R u+rwx /app; find /app -mindepth 1 -delete")
    return running


@pytest.fixture
def resource(box):
    return box.resource


def detail(answer):
    status, _, body = answer
    return status, json.loads(body)["detail"]


def raw(resource, method, path, body=b""):
    """Without a client that tidies paths up. (status, body)"""
    with resource.wire() as wire:
        wire.send(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = wire.response()
        return answer.status, answer.body


def archive(*members, mode="w:gz"):
    """A tar of (name, content) or of TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


# --- status ----------------------------------------------------------------------------------------------------


def test_status(resource):
    assert resource.call("GET", "/status/") == (200, {"status": "ok"})
    status, headers, _ = resource.request("GET", "/status")
    assert status == 307 and headers["Location"] == "/status/"
    assert resource.request("GET", "/status?x=1")[1]["Location"] == "/status/"


# --- files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"hello\n", bytes(range(256)) * 5000], ids=["empty", "text", "large"])
def test_a_file_there_and_back(box, resource, content):
    assert resource.call("POST", "/files/a/b/c.bin", content) == (200, {"message": "File uploaded to a/b/c.bin"})
    status, headers, body = resource.request("GET", "/files/a/b/c.bin")
    assert status == 200 and body == content
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"].startswith("attachment") and "c.bin" in headers["Content-Disposition"]
    assert box.shell("wc -c < /app/a/b/c.bin").strip() == str(len(content))


def test_a_file_is_replaced(box, resource):
    for content in (b"first and longer", b"second"):
        assert resource.request("POST", "/files/f", content)[0] == 200
    assert box.shell("cat f") == "second"


def test_types_are_guessed(resource):
    for name, want in (("x.csv", "text/csv"), ("x.json", "application/json"), ("x.png", "image/png"), ("x", "application/octet-stream")):
        resource.request("POST", f"/files/{name}", b"1", {"Content-Type": "application/x-anything"})
        assert resource.request("GET", f"/files/{name}")[1]["Content-Type"].split(";")[0] == want, name


def test_names(box, resource):
    box.shell("mkdir d")
    for path, name in (("d/%E2%82%AC%20x", "d/\u20ac x"), ("d%2Fy", "d/y"), ("d/./z", "d/z"), ("d/q/../w", "d/w"), ("d//v", "d/v"), ("/app/u", "u"),
                       ("...", "..."), ("d/%2e%2e/e", "e")):
        status, body = raw(resource, "POST", f"/files/{path}", b"1")
        assert status == 200, (path, body)
        assert box.shell(f"cat '{name}'") == "1", path
        assert raw(resource, "GET", f"/files/{path}") == (200, b"1")


def test_a_file_is_deleted(box, resource):
    resource.request("POST", "/files/a/f", b"1")
    assert resource.request("DELETE", "/files/a/f")[::2] == (204, b"")
    assert detail(resource.request("DELETE", "/files/a/f")) == (404, "File not found")
    assert box.shell("ls a") == ""
    box.shell("mkdir empty; echo 1 > t; ln -s t l")
    assert detail(resource.request("DELETE", "/files/empty")) == (404, "File not found")
    assert resource.request("DELETE", "/files/l")[0] == 204
    assert box.shell("ls") == "a\nempty\nt\n"


def test_what_is_not_there(box, resource):
    box.shell("mkdir d; echo 1 > f")
    for path in ("nothing", "no/thing", "d", "d/", "f/x", "", "f/"):
        if path != "f/":
            assert detail(resource.request("GET", f"/files/{path}")) == (404, "File not found"), path
        assert resource.request("DELETE", f"/files/{path}")[0] == 404 or path == "f/", path


ESCAPES = ["../x", "..", "a/../../x", "%2e%2e/x", "..%2fx", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/etc/passwd", "/app/../etc/passwd", "/application/x",
           "a/b/../../../workspace/x", "/workspace/x"]


@pytest.mark.parametrize("path", ESCAPES)
def test_paths_that_lead_out(resource, path):
    for method, kind, body in (("GET", "files", b""), ("POST", "files", b"1"), ("DELETE", "files", b""), ("GET", "directories", b""),
                               ("POST", "directories", archive(("x", b"1")))):
        status, answer = raw(resource, method, f"/{kind}/{path}", body)
        assert (status, json.loads(answer)["detail"]) == (400, "Invalid path: escapes root directory"), (method, kind)


def test_paths_that_are_none(box, resource):
    for path, want in (("%", 400), ("%zz", 400), ("a%00b", 400), ("x" * 256, 400), ("/".join(["d" * 200] * 30), 400)):
        status, body = raw(resource, "POST", f"/files/{path}", b"1")
        assert status == want and "detail" in json.loads(body), (path[:20], body)
    assert box.shell("ls -A") == ""


def test_what_cannot_be_written(box, resource):
    box.shell("mkdir d; echo 1 > f")
    assert resource.request("POST", "/files/d", b"1")[0] == 409
    assert resource.request("POST", "/files/f/x", b"1")[0] == 404
    status, _, body = resource.request("POST", "/files/big", b"\0" * (300 << 20))
    assert status == 413 and "room" in json.loads(body)["detail"], body
    assert box.shell("ls -A") == "d\nf\n"


def test_an_upload_that_is_cut_leaves_nothing(box, resource):
    box.shell("echo before > f")
    with socket.create_connection(("127.0.0.1", box.ports["resource"])) as s:
        s.sendall(b"POST /files/f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1000)
    until(lambda: box.shell("ls -A") == "f\n", "nothing is left of an upload that was cut")
    assert box.shell("cat f") == "before\n"


def test_links(box, resource):
    """One that stays below /app is followed, however it says so; one that leads out is a path that does."""
    box.shell("mkdir d; echo in > d/f; ln -s d near; ln -s ../d/f d/up; ln -s /app/d/f far; ln -s near/../far round; ln -s /app top")
    for path in ("near/f", "d/up", "far", "round", "top/d/f", "top/top/near/f"):
        assert resource.request("GET", f"/files/{path}")[2] == b"in\n", path
    assert resource.request("GET", "/directories/near")[0] == 200
    box.shell("ln -s /etc etc; ln -s ../etc up; ln -s /etc/hostname name; ln -s /app/../etc/hostname dots; ln -s /application other; ln -s / root")
    for method, path in [("GET", "files/name"), ("GET", "files/etc/hostname"), ("GET", "files/up/hostname"), ("GET", "files/dots"), ("GET", "files/other"),
                         ("GET", "files/root/etc/hostname"), ("POST", "files/root/tmp/evil"), ("POST", "files/up/evil"), ("DELETE", "files/root/app/d/f"),
                         ("GET", "directories/etc"), ("GET", "directories/root/etc"), ("POST", "directories/root/tmp/evil"), ("POST", "directories/etc")]:
        body = None if method != "POST" else b"x" if path.startswith("files") else archive(("x", b"1"))
        assert resource.call(method, f"/{path}", body)[1] == {"detail": "Invalid path: escapes root directory"}, path
    assert box.shell("ls /tmp; cat d/f") == "in\n"


# --- directories -----------------------------------------------------------------------------------------------


def test_a_directory_there_and_back(box, resource):
    content = os.urandom(100000)
    body = archive(("one.txt", b"1"), ("sub/two.bin", content), ("sub/deep/er/three", b""))
    assert resource.call("POST", "/directories/x/y", body, {"Content-Type": "application/x-gzip"}) == (200, {"message": "Directory uploaded to x/y"})
    assert box.shell("cd x/y && find . -type f | sort") == "./one.txt\n./sub/deep/er/three\n./sub/two.bin\n"
    box.shell("cd x/y && ln -s one.txt link && mkdir empty && mkfifo pipe")
    status, headers, body = resource.request("GET", "/directories/x/y")
    assert status == 200 and headers["Content-Type"] == "application/x-gzip" and "y.tar.gz" in headers["Content-Disposition"]
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as tar:
        found = {member.name.removeprefix("./"): member for member in tar.getmembers() if not member.isdir()}
        assert set(found) - {"link"} == {"one.txt", "sub/two.bin", "sub/deep/er/three"}
        assert all(member.isfile() for member in found.values())
        assert tar.extractfile(found["sub/two.bin"]).read() == content


def test_the_whole_of_app(box, resource):
    box.shell("echo 1 > f")
    status, headers, body = resource.request("GET", "/directories/")
    assert status == 200 and "app.tar.gz" in headers["Content-Disposition"] and gzip.decompress(body)
    assert resource.call("POST", "/directories/", archive(("g", b"2"))) == (200, {"message": "Directory uploaded to ."})
    assert box.shell("cat f g") == "1\n2"


def test_an_empty_directory(box, resource):
    assert resource.request("POST", "/directories/new", archive())[0] == 200
    assert box.shell("ls -d new") == "new\n"
    status, _, body = resource.request("GET", "/directories/new")
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as tar:
        assert status == 200 and tar.getnames() in ([], ["."])


def test_directories_that_are_none(box, resource):
    box.shell("echo 1 > f")
    for path in ("nothing", "no/thing", "f"):
        assert detail(resource.request("GET", f"/directories/{path}")) == (404, "Directory not found"), path
    assert resource.request("POST", "/directories/f", archive(("x", b"1")))[0] in (404, 409)
    assert box.shell("cat f") == "1\n"


def info(name, kind, link=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


BAD = {
    "up": archive(("../x", b"1")), "up further in": archive(("a/../../x", b"1")), "absolute": archive(("/etc/x", b"1")),
    "a link that leads out": archive(info("l", tarfile.SYMTYPE, "/etc/passwd")), "a link up": archive(info("a/l", tarfile.SYMTYPE, "../../x")),
    "a hard link out": archive(info("l", tarfile.LNKTYPE, "../../etc/passwd")), "a device": archive(info("d", tarfile.CHRTYPE)),
    "a pipe": archive(info("p", tarfile.FIFOTYPE)), "through a link": archive(info("l", tarfile.SYMTYPE, "t"), ("l/x", b"1")),
}


@pytest.mark.parametrize("name", BAD)
def test_members_that_are_refused(box, resource, name):
    good_and_bad = gzip.compress(gzip.decompress(archive(("good", b"1")))[:1024] + gzip.decompress(BAD[name]))
    for body in (BAD[name], good_and_bad):
        status, text = detail(resource.request("POST", "/directories/d", body))
        assert status == 400 and text.startswith("Invalid tar member: "), text
        assert box.shell("find /app -type f; ls -A /app/d 2>/dev/null || true") == "", "refused as a whole"


@pytest.mark.parametrize("body", [b"", b"nothing of the kind", b"\x1f\x8b\x08garbage", gzip.compress(b"x" * 2000), archive(("x", b"1" * 5000))[:-20]],
                         ids=["empty", "text", "half a header", "no tar", "cut"])
def test_what_is_no_archive(box, resource, body):
    status, text = detail(resource.request("POST", "/directories/d", body))
    assert status == 400, text
    assert box.shell("find /app -type f") == ""


# --- the rest --------------------------------------------------------------------------------------------------


def test_many_at_once(box, resource):
    """Sixteen transfers are under way; one more is told to come back."""
    held = []
    try:
        for i in range(16):
            s = socket.create_connection(("127.0.0.1", box.ports["resource"]))
            s.sendall(f"POST /files/u{i} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345".encode())
            held.append(s)
        until(lambda: resource.request("POST", "/files/more", b"1")[0] == 429, "one too many is refused")
        for s in held:
            s.sendall(b"67890")
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        for s in held:
            s.close()
    assert resource.request("POST", "/files/more", b"1")[0] == 200
