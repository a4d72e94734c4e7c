# SPDX-License-Identifier: Apache-2.0
"""Code Interpreter: the file store, by its own routes and over restarts."""
import json
import os
import re
import time
import urllib.parse
import uuid

import pytest

from server import Server, file_part, lives, multipart, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

MIB = 1 << 20
NOBODYS_ID = "3f2b8c1e-5d4a-4c6b-9e7f-0a1b2c3d4e5f"
UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# attachment; filename="..." with what must be escaped escaped, and perhaps the same for readers of RFC 6266.
DISPOSITION = re.compile(r'attachment; filename="(?P<name>(?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*)"'
                         r"(?:; filename\*=(?:UTF|utf)-8''(?P<encoded>[A-Za-z0-9!#$&+.^_`|~%-]+))?")

server = shared()
small = shared(env={"MAX_FILE_SIZE_MB": "1"})


def post(server, parts, **kw):
    kind, body = multipart(parts, **kw)
    return server.call("POST", "/v1/files", body, {"Content-Type": kind})


def listing(server):
    status, answer = server.call("GET", "/v1/files")
    assert status == 200 and set(answer) == {"files"}
    return {entry["file_id"]: entry for entry in answer["files"]}


def gone(server, file_id):
    status, _, body = server.request("GET", f"/v1/files/{file_id}")
    return status == 404 and json.loads(body) == {"detail": f"File with ID '{file_id}' not found"}


# --- up, down, away ------------------------------------------------------------------------------------------


def test_upload(server):
    status, answer = post(server, [file_part(b"hello", "greeting.txt")])
    assert status == 201 and set(answer) == {"file_id", "filename", "size_bytes"}
    assert UUID4.fullmatch(answer["file_id"]) and answer["filename"] == "greeting.txt" and answer["size_bytes"] == 5


def test_download(server):
    file_id = server.upload(b"hello", "greeting.txt")
    status, headers, body = server.request("GET", f"/v1/files/{file_id}")
    assert (status, body) == (200, b"hello")
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == 'attachment; filename="greeting.txt"'


CONTENTS = {
    "empty": b"",
    "all bytes": bytes(range(256)) * 20,
    "line ends": b"\r\n" * 10,
    "looks like the end": b"x\r\n------between-the-part",
    "looks like a boundary": b"\r\n--\r\n----\r\n------between-the-partz\r\n",
    "begins like a part": b"Content-Disposition: form-data\r\n\r\nx",
    "five megabytes": os.urandom(5 * MIB),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_comes_back_as_it_was(server, name):
    content = CONTENTS[name]
    status, answer = post(server, [file_part(content)])
    assert status == 201 and answer["size_bytes"] == len(content)
    assert server.download(answer["file_id"]) == content


@pytest.mark.parametrize("boundary", ["x", "a" * 70, "with'odd(chars)+_,-./:=?", "----WebKitFormBoundary7MA4YWxkTrZu0gW"])
def test_any_boundary(server, boundary):
    kind, body = multipart([file_part(b"content")], boundary)
    kind = kind.replace(boundary, f'"{boundary}"')
    status, answer = server.call("POST", "/v1/files", body, {"Content-Type": kind})
    assert status == 201 and server.download(answer["file_id"]) == b"content"


def test_an_upload_in_pieces(server):
    """Chunked, in pieces that cut boundary and headers at every place."""
    kind, body = multipart([file_part(b"in\r\npieces")])
    with server.wire() as wire:
        wire.send(b"POST /v1/files HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
                  % (server.authority.encode(), kind.encode()))
        for byte in body:
            wire.send(b"1\r\n%c\r\n" % byte)
        wire.send(b"0\r\n\r\n")
        answer = wire.response()
    assert answer.status == 201 and server.download(answer.json()["file_id"]) == b"in\r\npieces"


def test_list(server):
    before = time.time()
    ids = {server.upload(b"x" * n, f"list-{n}"): n for n in range(3)}
    after = time.time()
    entries = listing(server)
    for file_id, n in ids.items():
        entry = entries[file_id]
        assert set(entry) == {"file_id", "filename", "size_bytes", "upload_time"}
        assert (entry["filename"], entry["size_bytes"]) == (f"list-{n}", n)
        assert isinstance(entry["upload_time"], (int, float)) and before - 1 <= entry["upload_time"] <= after + 1


def test_delete(server):
    file_id = server.upload(b"x")
    status, _, body = server.request("DELETE", f"/v1/files/{file_id}")
    assert (status, body) == (204, b"")
    assert gone(server, file_id) and file_id not in listing(server)
    assert server.call("DELETE", f"/v1/files/{file_id}") == (404, {"detail": f"File with ID '{file_id}' not found"})
    status, answer = server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "file_id": file_id}]})
    assert (status, answer) == (404, {"detail": f"File with ID '{file_id}' not found for path 'p'."})


def test_the_same_content_twice_is_two_files(server):
    first, second = server.upload(b"same"), server.upload(b"same")
    assert first != second
    assert server.request("DELETE", f"/v1/files/{first}")[0] == 204
    assert server.download(second) == b"same"


# --- ids that are not ours -----------------------------------------------------------------------------------


def test_an_unknown_id(server):
    assert gone(server, NOBODYS_ID)
    assert server.call("DELETE", f"/v1/files/{NOBODYS_ID}") == (404, {"detail": f"File with ID '{NOBODYS_ID}' not found"})


FOREIGN = ["x", "..", ".", "%2e%2e", "..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "/etc/passwd", "../../../../etc/passwd",
           "..%5c..%5cx", "%00",
           NOBODYS_ID + "%00", "%252e%252e%252f", "%c0%ae%c0%ae%2fx", "%ff", "%", "%zz", "*", "a" * 5000]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("file_id", FOREIGN, ids=[i[:30] for i in FOREIGN])
def test_a_foreign_id_is_refused(server, method, file_id):
    """404; 400 where the target itself is malformed; 405 where dots lead to a path without that method; 414 if too long."""
    status, _, body = server.request(method, f"/v1/files/{file_id}")
    assert status in (400, 404, 405, 414) and b"root:" not in body
    assert json.loads(body)


def test_neighbours_of_an_id_are_not_found(server):
    file_id = server.upload(b"x")
    for other in (f"{file_id}.meta.json", f"{file_id}%20", f"{file_id}%0a", f".%2f{file_id}", file_id[:-1], f"{file_id}0"):
        assert server.request("GET", f"/v1/files/{other}")[0] in (400, 404)
        assert server.request("DELETE", f"/v1/files/{other}")[0] in (400, 404)
    assert server.download(file_id) == b"x"


# --- names ---------------------------------------------------------------------------------------------------


def test_without_a_name_it_is_unnamed(server):
    status, answer = post(server, [file_part(b"x", "")])
    assert status == 201 and answer["filename"] == "unnamed"


def test_a_part_without_the_parameter_is_unnamed_or_no_file(server):
    """To FastAPI it is a field of text and no file (422); the reference only says 'or unnamed'."""
    status, answer = post(server, [(b'Content-Disposition: form-data; name="file"', b"x")])
    assert status == 422 or (status == 201 and answer["filename"] == "unnamed")


@pytest.mark.parametrize("name", ["naïve.txt", "with space.txt", "日本語.csv", "semi;colon", "a" * 200, "-rf", "percent%41", "it's"])
def test_the_clients_name_is_kept(server, name):
    status, answer = post(server, [file_part(b"x", name)])
    assert status == 201 and answer["filename"] == name
    assert listing(server)[answer["file_id"]]["filename"] == name


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b"])
def test_a_name_like_a_path_leads_nowhere(server, name):
    """Whether the folders are kept as text is left open."""
    status, answer = post(server, [file_part(b"mine", name)])
    assert status == 201 and answer["filename"] in (name, os.path.basename(name))
    assert server.download(answer["file_id"]) == b"mine"


# Names that come out of a box. (Those with control characters do not: see test_ci_execute.py.)
ODD = {
    "quote": 'a"b.txt', "quote at the end": 'a"', "backslash": "a\\b", "backslash and quote": 'a\\"; x="',
    "unicode": "né€𝄞",
    "semicolon": "a; filename=b", "percent": "100%",
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_is_safe_in_the_header(server, name):
    result = server.execute(f"open({ODD[name]!r}, 'w').write('odd'); None")
    assert [f["path"] for f in result["files"]] == [ODD[name]]
    file_id = result["files"][0]["file_id"]
    assert listing(server)[file_id]["filename"] == ODD[name]
    with server.wire() as wire:
        wire.send(b"GET /v1/files/%s HTTP/1.1\r\nHost: %s\r\n\r\n" % (file_id.encode(), server.authority.encode()))
        answer = wire.response()
    assert answer.status == 200 and answer.body == b"odd" and answer.get("x-evil") is None
    disposition = answer.get("content-disposition").encode("latin-1").decode("utf-8", "replace")
    match = DISPOSITION.fullmatch(disposition)
    assert match, disposition
    if match["encoded"]:
        assert urllib.parse.unquote(match["encoded"], errors="strict") == ODD[name]


def test_a_quote_sent_by_a_client(server):
    status, answer = post(server, [file_part(b"x", 'a\\"b.txt')])
    assert status == 201
    _, headers, _ = server.request("GET", f"/v1/files/{answer['file_id']}")
    assert DISPOSITION.fullmatch(headers["Content-Disposition"])


# --- how much ------------------------------------------------------------------------------------------------


def test_the_largest_upload(small):
    status, answer = post(small, [file_part(b"x" * MIB)])
    assert status == 201 and answer["size_bytes"] == MIB


@pytest.mark.parametrize("over", [1, 3 * MIB])
def test_an_upload_that_is_too_large(small, over):
    before = listing(small)
    status, answer = post(small, [file_part(b"x" * (MIB + over))])
    assert (status, answer) == (413, {"detail": "File size exceeds maximum of 1 MB"})
    assert listing(small) == before


def test_an_upload_without_end_is_refused_before_its_end(small):
    kind, body = multipart([file_part(b"")])
    with small.wire() as wire:
        wire.send(b"POST /v1/files HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n"
                  % (small.authority.encode(), kind.encode(), body.index(b"\r\n\r\n") + 4, body[:body.index(b"\r\n\r\n") + 4]))
        for _ in range(256):
            if wire.is_readable() or not wire.send(b"10000\r\n%s\r\n" % (b"x" * 65536)):
                break
        else:
            pytest.fail("it took 16 MiB")
        assert wire.response().status == 413


def test_a_result_may_be_as_large_as_an_upload(small):
    result = small.execute(f"open('at', 'wb').write(b'x' * {MIB}); None")
    assert small.download(result["files"][0]["file_id"]) == b"x" * MIB


# --- forms that are none -------------------------------------------------------------------------------------


def test_the_part_is_missing(server):
    for parts in ([], [file_part(b"x", name="other")], [(b'Content-Disposition: form-data; name="note"', b"x")]):
        status, answer = post(server, parts)
        assert status == 422 and answer["detail"][0]["loc"] == ["body", "file"] and answer["detail"][0]["type"] == "missing"


def test_other_parts_do_not_matter(server):
    note = (b'Content-Disposition: form-data; name="note"', b"hello")
    status, answer = post(server, [note, file_part(b"the one"), note, file_part(b"another", name="other")])
    assert status == 201 and server.download(answer["file_id"]) == b"the one"


B = b"----between-the-parts"
GOOD_TYPE, GOOD_BODY = multipart([file_part(b"content")])
BAD_FORMS = {
    "no type": (None, GOOD_BODY),
    "other type": ("application/json", GOOD_BODY),
    "no boundary": ("multipart/form-data", GOOD_BODY),
    "empty boundary": ("multipart/form-data; boundary=", GOOD_BODY),
    "another boundary": ("multipart/form-data; boundary=other", GOOD_BODY),
    "nothing": (GOOD_TYPE, b""),
    "no form": (GOOD_TYPE, b"hello"),
    "cut off in the content": (GOOD_TYPE, GOOD_BODY[:-len(B) - 10]),
    "cut off in the last boundary": (GOOD_TYPE, GOOD_BODY[:-10]),
    "cut off in the headers": (GOOD_TYPE, GOOD_BODY[:40]),
    "header without colon": (GOOD_TYPE, GOOD_BODY.replace(b"Content-Type:", b"Content-Type")),
    "NUL in a header": (GOOD_TYPE, GOOD_BODY.replace(b"data.bin", b"data\0bin")),
    "name is no UTF-8": (GOOD_TYPE, GOOD_BODY.replace(b"data.bin", b"data\xffbin")),
    "endless header": (GOOD_TYPE, GOOD_BODY.replace(b"data.bin", b"a" * 100000)),
    "many headers": (GOOD_TYPE, GOOD_BODY.replace(b"Content-Type:", b"X: y\r\n" * 5000 + b"Content-Type:")),
    "line feeds only": (GOOD_TYPE, GOOD_BODY.replace(b"\r\n", b"\n")),
}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_a_form_that_is_none(server, name):
    """400, 415 or 422: the reference has only 422 for the missing part. 413 or 431 for what is too much of it."""
    kind, body = BAD_FORMS[name]
    before = listing(server)
    with server.wire() as wire:
        wire.send(b"POST /v1/files HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s"
                  % (server.authority.encode(), b"Content-Type: %s\r\n" % kind.encode() if kind else b"", len(body), body))
        answer = wire.response()
    assert answer.status in (400, 413, 415, 422, 431) and answer.json()["detail"]
    assert listing(server) == before, "nothing is kept"


def test_an_upload_whose_client_leaves_is_not_kept(server):
    before = listing(server)
    for size in (0, 10, len(GOOD_BODY) - len(B) - 10):
        with server.wire() as wire:
            wire.send(b"POST /v1/files HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                      % (server.authority.encode(), GOOD_TYPE.encode(), len(GOOD_BODY), GOOD_BODY[:size]))
    server.upload(b"another", "after")
    assert len(listing(server)) == len(before) + 1


# --- what lasts, and how long --------------------------------------------------------------------------------


def test_files_survive_a_restart(serve):
    server = serve()
    uploaded = server.upload(bytes(range(256)), "kept.bin")
    made = server.execute("open('made.txt', 'w').write('made'); None")["files"][0]["file_id"]
    deleted = server.upload(b"x")
    assert server.request("DELETE", f"/v1/files/{deleted}")[0] == 204
    before = listing(server)
    server.stop()
    server.start()
    assert listing(server) == before and set(before) == {uploaded, made}
    assert server.download(uploaded) == bytes(range(256)) and server.download(made) == b"made"
    assert gone(server, deleted)


def test_files_survive_a_kill(serve):
    server = serve()
    uploaded = server.upload(b"kept" * 1000, "kept.bin")
    family = server.tree()
    server.kill()
    until(lambda: not any(lives(*one) for one in family.items()), "the rest follows the first process")
    server.start()
    assert server.download(uploaded) == b"kept" * 1000


def size_of(folder):
    return sum(os.path.getsize(os.path.join(top, name)) for top, _, names in os.walk(folder) for name in names)


@pytest.mark.slow
def test_files_expire_and_foreign_files_stay(serve, tmp_path):
    """FILE_STORAGE_DIR may hold files of somebody else: they are never listed, served, staged, or removed."""
    storage = tmp_path / "storage"
    (storage / "folder").mkdir(parents=True)
    foreign = {"secret.txt": b"secret", NOBODYS_ID: b"secret", "folder/inner": b"secret", "x.meta.json": b'{"filename": "x"}'}
    for name, content in foreign.items():
        (storage / name).write_bytes(content)
    server = serve(env={"FILE_STORAGE_DIR": str(storage), "FILE_TTL_SEC": "1"})

    for name in ("secret.txt", NOBODYS_ID, "folder%2finner", "folder", "x", "x.meta.json"):
        assert server.request("GET", f"/v1/files/{name}")[0] == 404
        assert server.request("DELETE", f"/v1/files/{name}")[0] == 404
        status, _ = server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "file_id": urllib.parse.unquote(name)}]})
        assert status == 404
    assert listing(server) == {}

    file_id = server.upload(os.urandom(4 * MIB))
    made = server.execute("open('made', 'w').write('x'); None")["files"][0]["file_id"]
    until(lambda: gone(server, file_id) and gone(server, made), "files over their time are gone")
    until(lambda: listing(server) == {}, "they are not listed any more")
    assert server.call("POST", "/v1/execute", {"code": "1", "files": [{"path": "p", "file_id": file_id}]})[0] == 404
    until(lambda: size_of(storage) < MIB, "they take no room any more")
    assert {name: (storage / name).read_bytes() for name in foreign} == foreign


def test_files_expire_while_nobody_is_there(serve):
    """The time runs also while the server does not."""
    server = serve(env={"FILE_TTL_SEC": "1"})
    file_id = server.upload(b"x")
    uploaded = time.time()
    server.stop()
    until(lambda: time.time() > uploaded + 1.1, "a second passes")
    server.start()
    assert gone(server, file_id) and listing(server) == {}


def test_the_store_is_below_the_state_directory_by_default(serve, tmp_path):
    server = serve()
    before = size_of(server.state_dir)
    server.upload(os.urandom(4 * MIB))
    assert size_of(server.state_dir) >= before + 4 * MIB
    other = Server(tmp_path / "other")
    with other:
        assert listing(other) == {}, "another state directory is another store"


def test_ids_are_not_guessable(server):
    ids = [uuid.UUID(server.upload(b"")) for _ in range(20)]
    assert len({i.int >> 64 for i in ids}) == 20 and len({i.int & (1 << 60) - 1 for i in ids}) == 20
