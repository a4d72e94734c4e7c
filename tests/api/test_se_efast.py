# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime: sessions that are filled from a document store, which here is one of our own."""
import contextlib
import hashlib
import http.server
import json
import re
import socket
import threading
import time

import pytest

from described import Described, needs_jsonschema
from se import BASE, MIB, Session, refused
from server import Server, ends, needs_root, serve, until  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

TOKEN = "a-token.of_ours"


class Store:
    """A document store: documents by their ids, each with its name and its bytes, or with what is to be answered instead."""

    def __init__(self):
        store = self
        self.documents, self.asked, self.fetched = {}, [], []
        self.hold = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                store.asked.append((self.path, dict(self.headers), json.loads(body)))
                document = store.documents.get(json.loads(body)["docid"])
                if document is None:
                    self.say(404, b'{"cause": "no such document"}')
                elif callable(document.get("answer")):
                    document["answer"](self)
                elif "answer" in document:
                    self.say(200, document["answer"])
                else:
                    self.say(200, json.dumps(store.told(json.loads(body)["docid"])).encode())

            def do_GET(self):
                store.fetched.append((self.path, dict(self.headers)))
                document = store.documents[self.path.split("/")[2].split("?")[0]]
                if callable(document.get("send")):
                    document["send"](self)
                else:
                    self.say(200, document["data"])

            def say(self, status, data):
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def told(self, docid, url=None, method="GET", headers=("X-Signed: yes",)):
        return {"authrequest": [method, url or f"{self.url}/object/{docid}?signature=a%2Fb", *headers], "name": self.documents[docid].get("name"),
                "size": len(self.documents[docid].get("data", b"")), "rev": "1"}

    def close(self):
        self.hold.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def the_store():
    store = Store()
    yield store
    store.close()


@pytest.fixture
def store(the_store):
    the_store.documents.clear()
    the_store.asked.clear()
    the_store.fetched.clear()
    return the_store


@pytest.fixture(scope="module")
def server(glovebox, tmp_path_factory, the_store):
    one = Server(tmp_path_factory.mktemp("serve"), efast_url=the_store.url + "/some/where/", efast_token=TOKEN,
                 env={"GLOVEBOX_SESSION_POOL_SIZE": "0"})
    one.start()
    yield one
    one.stop()


@pytest.fixture
def session(server):
    with Session(server) as one:
        one.create()
        yield one


def fetch(session, *files, **fields):
    """The bare keys of the answer."""
    answer = session.ok("POST", "download_from_efast", body={"file_params": list(files), **fields})
    assert set(answer) == {"message", "success_count", "failed_count", "total_count", "results", "save_path"}
    assert answer["total_count"] == len(files) == answer["success_count"] + answer["failed_count"] == len(answer["results"])
    assert [one["docid"] for one in answer["results"]] == [one["docid"] for one in files]
    return answer


def failed(session, docid="d", **fields):
    """Why the only document could not be had. Nothing of it is there."""
    before = session.files(recursive="true")
    answer = fetch(session, {"docid": docid}, **fields)
    assert answer["success_count"] == 0 and answer["results"][0]["status"] == "failed"
    assert session.files(recursive="true") == before
    return answer["results"][0]["message"]


def test_documents(store, session):
    store.documents.update({"a1": {"name": "first.txt", "data": b"one"}, "b2": {"name": "second.bin", "data": bytes(range(256)) * 1000},
                            "c3": {"name": "empty", "data": b""}})
    answer = fetch(session, {"docid": "a1"}, {"docid": "b2", "rev": "7", "savename": "as/I/like.bin"}, {"docid": "c3"}, save_path="in/here")
    assert answer["success_count"] == 3 and answer["save_path"] == "in/here"
    assert [(one["status"], one["filename"], one["size"]) for one in answer["results"]] == [
        ("success", "in/here/first.txt", 3), ("success", "in/here/as/I/like.bin", 256000), ("success", "in/here/empty", 0)]
    assert session.read("in/here/first.txt") == b"one" and session.read("in/here/as/I/like.bin") == bytes(range(256)) * 1000
    assert session.read("in/here/empty") == b""
    assert session.shell("stat -c '%a %u' in/here/first.txt") == "644 65532\n"
    path, headers, question = store.asked[1]
    assert path == "/some/where/api/efast/v1/file/osdownload/"
    assert headers["Authorization"] == f"Bearer {TOKEN}" and headers["Host"] == f"127.0.0.1:{store.port}"
    assert question == {"docid": "b2", "rev": "7", "savename": "as/I/like.bin", "authtype": "QUERY_STRING"}
    path, headers = store.fetched[0]
    assert path == "/object/a1?signature=a%2Fb" and headers["X-Signed"] == "yes"
    assert TOKEN not in str(store.fetched), "the token is for the store, not for where its files are"


@needs_jsonschema
def test_it_is_as_described(store, server, session):
    store.documents["a"] = {"name": "f", "data": b"x"}
    described = Described(server)
    for body, expected in [({"file_params": [{"docid": "a"}, {"docid": "none"}]}, 200), ({"file_params": [{"docid": "a"}], "efast_url": "http://x"}, 403)]:
        assert described.ask("POST", f"{BASE}/download_from_efast/{{session_id}}", "", body, None, session_id=session.id)[0] == expected


def test_a_session_is_made_for_it(store, server):
    store.documents["d"] = {"name": "f", "data": b"x"}
    with Session(server) as session:
        assert fetch(session, {"docid": "d"})["success_count"] == 1
        assert session.read("f") == b"x"


def test_a_token_of_the_request(store, session):
    store.documents["d"] = {"name": "f", "data": b"x"}
    fetch(session, {"docid": "d"}, token="mine", efast_url=store.url)
    assert store.asked[-1][1]["Authorization"] == "Bearer mine"
    for token in ("a b", "a\r\nX-Evil: 1", "é", "a\0"):
        refused(*session.call("POST", "download_from_efast", body={"file_params": [{"docid": "d"}], "token": token}), 422)


def test_some_that_are_not_there(store, session):
    store.documents.update({"one": {"name": "one", "data": b"1"}, "two": {"name": "two", "data": b"2"}})
    answer = fetch(session, {"docid": "one"}, {"docid": "none"}, {"docid": "two"})
    assert (answer["success_count"], answer["failed_count"]) == (2, 1)
    assert "404" in answer["results"][1]["message"]
    assert session.files().keys() == {"one", "two"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://localhost:{port}", "http://store.example", "https://127.0.0.1:{port}", "file:///etc/passwd",
                                 "http://127.0.0.1:{port}@127.0.0.1:9", "//127.0.0.1", "x", "http://127.0.0.1:{port} x", "http://[::1]:{port}"])
def test_another_store(store, session, url):
    """Whoever may fill a session may not choose whom this server speaks to."""
    store.documents["d"] = {"name": "f", "data": b"x"}
    text = refused(*session.call("POST", "download_from_efast",
                                 body={"file_params": [{"docid": "d"}], "efast_url": url.format(port=store.port)}), 403)
    assert "efast_url" in text and not store.asked


def test_a_place_that_was_not_named(store, session):
    """Where the store says that its document is: only there where the operator lets it be."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        port = other.getsockname()[1]
        store.documents["d"] = {"name": "f", "data": b"x"}
        store.documents["d"]["answer"] = json.dumps(store.told("d", f"http://127.0.0.1:{port}/x")).encode()
        assert f"127.0.0.1:{port}" in failed(session) and "efast_host" in failed(session)
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_place_that_was_named(store, serve):
    with contextlib.closing(Store()) as other:
        server = serve(efast_url=store.url, efast_token=TOKEN, efast_host=[f"127.0.0.1:{other.port}"], env={"GLOVEBOX_SESSION_POOL_SIZE": "0"})
        other.documents["d"] = store.documents["d"] = {"name": "f", "data": b"over there"}
        store.documents["d"] = {"name": "f", "answer": json.dumps(other.told("d")).encode()}
        with Session(server) as session:
            assert fetch(session, {"docid": "d"})["success_count"] == 1
            assert session.read("f") == b"over there" and other.fetched and not store.fetched


SAYS = {
    "nothing": b"", "no JSON": b"<html>", "a list": b"[]", "half": b'{"authrequest": ["GET"', "null": b'{"authrequest": null}',
    "no list": b'{"authrequest": "GET"}', "empty": b'{"authrequest": []}', "no URL": b'{"authrequest": ["GET"]}',
    "PUT": b'{"authrequest": ["PUT", "http://127.0.0.1:1/"]}', "numbers": b'{"authrequest": ["GET", 5]}',
    "https": b'{"authrequest": ["GET", "https://127.0.0.1/"]}', "no scheme": b'{"authrequest": ["GET", "/etc/passwd"]}',
    "a line break": b'{"authrequest": ["GET", "http://URL/x\\r\\nX-Evil: 1"]}', "a space": b'{"authrequest": ["GET", "http://URL/ HTTP/1.1"]}',
    "a header with a line break": b'{"authrequest": ["GET", "http://URL/object/d", "X: y\\r\\nX-Evil: 1"]}',
    "a header without a name": b'{"authrequest": ["GET", "http://URL/object/d", ": y"]}',
    "a header that is none": b'{"authrequest": ["GET", "http://URL/object/d", "nothing"]}',
    "a header with a space in its name": b'{"authrequest": ["GET", "http://URL/object/d", "X : y"]}',
    "a header that is a number": b'{"authrequest": ["GET", "http://URL/object/d", 5]}',
    "a long header": b'{"authrequest": ["GET", "http://URL/object/d", "X: %s"]}' % (b"x" * 5000),
    "a long URL": b'{"authrequest": ["GET", "http://URL/%s"]}' % (b"x" * 20000),
    "much": b'{"a": "%s"}' % (b"x" * 300000), "deep": b"[" * 100000,
}


@pytest.mark.parametrize("said", SAYS)
def test_what_a_store_may_not_say(store, session, said):
    store.documents["d"] = {"name": "f", "data": b"x", "answer": SAYS[said].replace(b"URL", f"127.0.0.1:{store.port}".encode())}
    assert failed(session)
    assert not store.fetched


def test_headers_that_are_ours(store, session):
    store.documents["d"] = {"name": "f", "data": b"x"}
    told = store.told("d", headers=["Host: evil", "Content-Length: 5", "transfer-encoding: chunked", "Connection: keep-alive", "X-Kept: 1"])
    store.documents["d"]["answer"] = json.dumps(told).encode()
    assert fetch(session, {"docid": "d"})["success_count"] == 1
    headers = store.fetched[0][1]
    assert headers["Host"] == f"127.0.0.1:{store.port}" and headers["X-Kept"] == "1" and not {"Content-Length", "transfer-encoding"} & set(headers)


@pytest.mark.parametrize("name, path", [("../../etc/x", "x"), ("/etc/passwd", "passwd"), ("a/b", "b"), ("né €", "né €"), (None, "d"), ("", "d")])
def test_names_that_a_store_gives(store, session, name, path):
    store.documents["d"] = {"name": name, "data": b"x"}
    assert fetch(session, {"docid": "d"})["results"][0]["filename"] == path
    assert session.read(path) == b"x"


@pytest.mark.parametrize("name", ["..", ".", "a/..", "a/.", "x" * 300, "/"])
def test_names_that_cannot_be(store, session, name):
    store.documents["d"] = {"name": name, "data": b"x"}
    if len(name) <= 255:
        assert failed(session, save_path="in/here")
    if len(name) > 255:
        assert fetch(session, {"docid": "d"})["results"][0]["filename"] == "d", "what does not fit is as if it was not said"
    else:
        assert failed(session)


@pytest.mark.parametrize("fields", [{"save_path": "../x"}, {"file_params": [{"docid": "d", "savename": "../x"}]}, {"file_params": []}, {"file_params": [{}]},
                                    {"file_params": [{"docid": ""}]}], ids=str)
def test_what_cannot_be_asked(store, session, fields):
    refused(*session.call("POST", "download_from_efast", body={"file_params": [{"docid": "d"}], **fields}), 400)
    assert not store.asked


def test_a_link_that_leads_out(store, session):
    session.shell("ln -s /tmp out; ln -s .. up")
    store.documents["d"] = {"name": "f", "data": b"x"}
    for where in ("out", "up", "up/tmp"):
        assert "link" in failed(session, save_path=where)
    assert session.shell("ls /tmp; ls /f 2>/dev/null; true") == ""


def test_a_path_that_is_too_long(store, session):
    store.documents["d"] = {"name": "f", "data": b"x"}
    assert "long" in failed(session, save_path="a" + "/" * 9000 + "b")


def test_as_many_as_may_be(store, server):
    """Also where their sessions have to be made first, and are all there at once."""
    began, go = threading.Semaphore(0), threading.Event()

    def answer(handler):
        began.release()
        go.wait(60)
        handler.say(404, b"{}")

    store.documents["d"] = {"answer": answer}
    found = []
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(Session(server)) for _ in range(24)]
        threads = [threading.Thread(target=lambda one=one: found.append(one.call("POST", "download_from_efast", body={"file_params": [{"docid": "d"}]})))
                   for one in sessions]
        for thread in threads:
            thread.start()
        for _ in range(16):
            assert began.acquire(timeout=60)
        until(lambda: len(found) == 8, "the others are told to come later")
        go.set()
        for thread in threads:
            thread.join(60)
    assert sorted(status for status, _ in found) == [200] * 16 + [429] * 8


def test_a_large_one(store, session):
    """In pieces, and in chunks: as it comes."""
    piece = bytes(range(256)) * 256

    def send(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for _ in range(640):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    store.documents["d"] = {"name": "large", "send": send}
    assert fetch(session, {"docid": "d"})["results"][0]["size"] == 40 * MIB
    assert session.shell("sha256sum < large").split()[0] == hashlib.sha256(piece * 640).hexdigest()


CUT = {
    "no head": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-"),
    "half of it": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 500),
    "an empty length": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nxxx"),
    "half a chunk": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\nxxx"),
    "no last chunk": lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxxx\r\n"),
    "no HTTP": lambda h: h.wfile.write(b"hello\r\n\r\n" * 10),
    "an error": lambda h: h.say(403, b"no"), "another place": lambda h: h.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"),
    "endless head": lambda h: [h.wfile.write(b"HTTP/1.1 200 OK\r\n"), *[h.wfile.write(b"X: y\r\n") for _ in range(20000)]],
}


@pytest.mark.parametrize("how", CUT)
def test_what_is_not_whole_is_not_there(store, session, how):
    def send(handler):
        handler.close_connection = True
        with contextlib.suppress(OSError):
            CUT[how](handler)

    store.documents["d"] = {"name": "f", "data": b"x", "send": send}
    assert failed(session)
    store.documents["d"] = {"name": "f", "data": b"x", "answer": send}
    assert failed(session)


def test_a_store_that_is_slow(store, session):
    store.documents["d"] = {"name": "f", "answer": lambda handler: store.hold.wait(60)}
    assert "too long" in failed(session, timeout=1)
    store.documents["d"] = {"name": "f", "data": b"x", "send": lambda handler: store.hold.wait(60)}
    assert "too long" in failed(session, timeout=1)


def test_a_store_that_is_not_there(serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server = serve(efast_url=f"http://127.0.0.1:{port}", efast_token=TOKEN)
    with Session(server) as session:
        assert "refused" in failed(session).lower()


def test_a_store_whose_name_leads_nowhere(serve):
    server = serve(efast_url="http://no-such-store.invalid", efast_token=TOKEN)
    assert "no-such-store.invalid" in server.log()
    with Session(server) as session:
        assert "no address" in failed(session)


def test_no_store(serve):
    server = serve()
    with Session(server) as session:
        assert "efast_url" in refused(*session.call("POST", "download_from_efast", body={"file_params": [{"docid": "d"}], "token": "t",
                                                                                        "efast_url": "http://127.0.0.1:9"}), 503)


def test_a_session_that_is_full(store, server):
    store.documents["d"] = {"name": "f", "data": b"x" * (3 * MIB)}
    store.documents["e"] = {"name": "g", "data": b"x"}
    with Session(server) as session:
        session.create(size="1M")
        answer = fetch(session, {"docid": "d"}, {"docid": "e"})
        assert answer["success_count"] == 1 and "full" in answer["results"][0]["message"] or "room" in answer["results"][0]["message"]
        assert session.files().keys() == {"g"}


def test_a_session_that_ends_meanwhile(store, session):
    began = threading.Event()

    def send(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
        handler.wfile.flush()
        began.set()
        store.hold.wait(60)

    store.documents["d"] = {"name": "f", "data": b"x", "send": send}
    found = []
    thread = threading.Thread(target=lambda: found.append(session.call("POST", "download_from_efast", body={"file_params": [{"docid": "d"}, {"docid": "d"}]})))
    thread.start()
    assert began.wait(30)
    assert session.delete()[0] == 200
    thread.join(30)
    status, answer = found[0]
    assert status == 200 and answer["failed_count"] == 2 and "ended" in answer["results"][1]["message"], answer


def test_a_client_that_leaves(store, session):
    began, ended = threading.Event(), threading.Event()

    def send(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        try:
            while True:
                handler.wfile.write(b"x" * 1000)
                began.set()
                time.sleep(0.002)
        except OSError:
            ended.set()

    store.documents["d"] = {"name": "f", "data": b"x", "send": send}
    body = json.dumps({"file_params": [{"docid": "d"}]}).encode()
    with session.server.wire() as wire:
        wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                  % (session.path("download_from_efast").encode(), session.server.authority.encode(), len(body), body))
        assert began.wait(30)
    assert ended.wait(30), "the store is left, too"
    assert session.files() == {}


def test_the_token_is_nobody_s(store, server, session):
    store.documents["d"] = {"name": "f", "data": b"x"}
    fetch(session, {"docid": "d"})
    assert TOKEN not in server.log() and TOKEN not in session.shell("env; cat f")


@pytest.mark.parametrize("option, value", [("efast_url", "https://store.example"), ("efast_url", "store"), ("efast_url", "http://u:p@store"), ("efast_url", "http://store:99999"),
                                           ("efast_host", ["http://x"]), ("efast_host", ["a b"])])
def test_settings_that_cannot_be(tmp_path, option, value):
    done = ends(listen="127.0.0.1:0", state_dir=tmp_path / "state", **{"efast_url": "http://127.0.0.1:9", option: value})
    assert done.returncode == 125 and option in done.stderr and re.search(r"http://|NAME", done.stderr), done.stderr
