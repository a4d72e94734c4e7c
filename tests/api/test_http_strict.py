# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as hostile or careless clients send it: refused with a 4xx, and closed where framing is in doubt.

A message whose end is in doubt is followed by a second request. It must never be answered: who answers it can be
made, behind a proxy, to take one client's bytes for another client's request.
"""
import contextlib
import json
import os
import pathlib
import re
import resource
import socket

import pytest

from server import file_part, multipart, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

MIB = 1 << 20
CODE = b'{"code": "print(1)"}'

server = shared()
hasty = shared(header_timeout=1)


def message(server, line, *headers, body=b"", host=True):
    """A request in bytes. Host is added unless told otherwise."""
    head = [line] + ([b"Host: " + server.authority.encode()] if host else []) + list(headers)
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def health(server):
    return message(server, b"GET /health HTTP/1.1")


def run(server, code="print(1)", *headers):
    body = json.dumps({"code": code}).encode()
    return message(server, b"POST /v1/execute HTTP/1.1", b"Content-Type: application/json",
                   b"Content-Length: %d" % len(body), *headers, body=body)


def refused(server, data, statuses=(400,)):
    """It is answered once, with such a status and a JSON body, and then the connection is closed."""
    with server.wire() as wire:
        wire.send(data)
        answer = wire.response()
        assert answer.status in statuses, answer
        assert answer.json()
        assert wire.is_ended(), "there was a second answer, or the connection is still open"
    assert server.request("GET", "/health")[0] == 200


# --- the first line ------------------------------------------------------------------------------------------

# 505 where it is the version that is wrong, 501 or 405 where the method is none.
LINES = {
    "no version": (b"GET /health", (400, 505)),
    "version 2": (b"GET /health HTTP/2.0", (400, 505)),
    "version 1.10": (b"GET /health HTTP/1.10", (400, 505)),
    "lower case": (b"GET /health http/1.1", (400, 505)),
    "no HTTP": (b"GET /health FTP/1.1", (400, 505)),
    "one word": (b"GET", (400,)),
    "two spaces": (b"GET  /health HTTP/1.1", (400,)),
    "space at the end": (b"GET /health HTTP/1.1 ", (400, 505)),
    "tab": (b"GET\t/health\tHTTP/1.1", (400, 405, 501)),
    "space before": (b" GET /health HTTP/1.1", (400,)),
    "space in the target": (b"GET /health /x HTTP/1.1", (400,)),
    "NUL in the target": (b"GET /hea\0lth HTTP/1.1", (400,)),
    "control in the target": (b"GET /hea\x01lth HTTP/1.1", (400,)),
    "delete in the target": (b"GET /hea\x7flth HTTP/1.1", (400,)),
    "carriage return in the target": (b"GET /hea\rlth HTTP/1.1", (400,)),
    "target without slash": (b"GET health HTTP/1.1", (400,)),
    "NUL in the method": (b"GE\0T /health HTTP/1.1", (400, 405, 501)),
    "brackets in the method": (b"G(E)T /health HTTP/1.1", (400, 405, 501)),
}


@pytest.mark.parametrize("name", LINES)
def test_first_line(server, name):
    line, statuses = LINES[name]
    refused(server, message(server, line), statuses)


def test_garbage(server):
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"\xff" * 1000 + b"\r\n\r\n", b"\0\r\n\r\n"):
        refused(server, data, (400, 505))


def test_a_target_that_is_too_long(server):
    refused(server, message(server, b"GET /" + b"x" * 200000 + b" HTTP/1.1"), (400, 414, 431))


@pytest.mark.parametrize("target", ["/%", "/%zz", "/%0", "/%00", "/v1/files%00", "/%ff", "/v1/../../etc/passwd", "/..", "//",
                                    "/health/../v1/%2e%2e/x"])
def test_odd_paths(server, target):
    """Malformed (400) or not there (404); never a file of the host, never 5xx."""
    status, _, body = server.request("GET", target)
    assert status in (400, 404) and b"root:" not in body and json.loads(body)


# --- headers -------------------------------------------------------------------------------------------------

HEADERS = {
    "space before the colon": b"X-A : 1",
    "tab before the colon": b"X-A\t: 1",
    "length, space before the colon": b"Content-Length : 5",
    "no colon": b"X-A",
    "no name": b": 1",
    "space in the name": b"X A: 1",
    "folded": b"X-A: 1\r\n 2",
    "folded by a tab": b"X-A: 1\r\n\t2",
    "NUL": b"X-A: 1\x002",
    "NUL in the name": b"X\0A: 1",
    "control": b"X-A: \x01",
    "delete": b"X-A: \x7f",
    "escape": b"X-A: \x1b[31m",
    "bare carriage return": b"X-A: 1\r2",
    "bare line feed": b"X-A: 1\nX-B: 2",
    "bytes in the name": b"X-\xff: 1",
    "brackets in the name": b"X(A): 1",
    "second Host": b"Host: 127.0.0.1",
}


@pytest.mark.parametrize("name", HEADERS)
def test_header(server, name):
    refused(server, message(server, b"GET /health HTTP/1.1", HEADERS[name]) + health(server))


def test_space_before_the_first_header(server):
    refused(server, b"GET /health HTTP/1.1\r\n Host: %s\r\n\r\n" % server.authority.encode() + health(server))


def test_line_feeds_alone(server):
    refused(server, health(server).replace(b"\r\n", b"\n") + health(server))


def test_without_host(server):
    refused(server, message(server, b"GET /v1/files HTTP/1.1", host=False) + health(server))


@pytest.mark.parametrize("host", [b"", b"a b", b"127.0.0.1:port", b"127.0.0.1:99999", b"[::1", b"user@127.0.0.1", b"a/b",
                                  b"127.0.0.1,evil", b"\xff"])
def test_a_host_that_is_none(server, host):
    """Malformed, or not this server: 400, or what a foreign name gets."""
    with server.wire() as wire:
        wire.send(message(server, b"GET /v1/files HTTP/1.1", b"Host: " + host, host=False))
        assert wire.response().status in (400, 403, 421)


def test_headers_that_are_too_large(server):
    for size in (100_000, 2 * MIB):
        refused(server, message(server, b"GET /health HTTP/1.1", b"X-A: " + b"x" * size), (400, 431))
    refused(server, message(server, b"GET /health HTTP/1.1", b"x" * 100_000 + b": 1"), (400, 431))


def test_headers_that_are_too_many(server):
    refused(server, message(server, b"GET /health HTTP/1.1", *[b"X-%d: 1" % i for i in range(20000)]), (400, 431))


def test_headers_without_end(server):
    """Bytes that never make a request are not kept for ever."""
    with server.wire() as wire:
        wire.send(b"GET /health HTTP/1.1\r\n")
        for i in range(100_000):
            if wire.is_readable() or not wire.send(b"X-%d: %s\r\n" % (i, b"x" * 100)):
                break
        else:
            pytest.fail("it took 10 MB of headers")
        assert wire.response().status in (400, 431)


def test_many_headers_that_are_fine(server):
    with server.wire() as wire:
        wire.send(message(server, b"GET /health HTTP/1.1", *[b"X-%d:\tvalue \t" % i for i in range(40)], b"X-Empty:"))
        assert wire.response().status == 200


# --- where a body ends ---------------------------------------------------------------------------------------

CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"14\r\n" + CODE + b"\r\n0\r\n\r\n"

FRAMING = {
    "two lengths": ([b"Content-Length: 20", b"Content-Length: 5"], CODE),
    "two equal lengths": ([b"Content-Length: 20", b"Content-Length: 20"], CODE),
    "a list of lengths": ([b"Content-Length: 20, 20"], CODE),
    "length and chunks": ([b"Content-Length: 20", CHUNKED], CHUNKS),
    "chunks and length": ([CHUNKED, b"Content-Length: 4"], CHUNKS),
    "length with a plus": ([b"Content-Length: +20"], CODE),
    "negative length": ([b"Content-Length: -1"], CODE),
    "hexadecimal length": ([b"Content-Length: 0x14"], CODE),
    "length with a fraction": ([b"Content-Length: 20.0"], CODE),
    "empty length": ([b"Content-Length:"], CODE),
    "length with a space in it": ([b"Content-Length: 2 0"], CODE),
    "length of letters": ([b"Content-Length: twenty"], CODE),
    "length in other digits": (["Content-Length: ２０".encode()], CODE),
    "unknown coding": ([b"Transfer-Encoding: xchunked"], CHUNKS),
    "coding with a control character": ([b"Transfer-Encoding: \x0bchunked"], CHUNKS),
    "chunked, then another": ([b"Transfer-Encoding: chunked, identity"], CHUNKS),
    "chunked in quotes": ([b'Transfer-Encoding: "chunked"'], CHUNKS),
    "identity": ([b"Transfer-Encoding: identity"], CODE),
    "gzip first": ([b"Transfer-Encoding: gzip, chunked"], CHUNKS),
    "chunked twice": ([b"Transfer-Encoding: chunked, chunked"], CHUNKS),
    "two codings in two lines": ([CHUNKED, b"Transfer-Encoding: identity"], CHUNKS),
    "empty coding": ([b"Transfer-Encoding:"], CODE),
}


@pytest.mark.parametrize("name", FRAMING)
def test_framing(server, name):
    """501 is what the standard has for codings that are not known."""
    headers, body = FRAMING[name]
    refused(server, message(server, b"POST /v1/execute HTTP/1.1", *headers, body=body) + health(server), (400, 501))


def test_a_length_beyond_all_numbers(server):
    for length in (2 ** 63, 2 ** 64, 2 ** 64 + 20, 10 ** 40):
        refused(server, message(server, b"POST /v1/execute HTTP/1.1", b"Content-Length: %d" % length, body=CODE), (400, 413))


def test_chunks_in_http_1_0(server):
    refused(server, message(server, b"POST /v1/execute HTTP/1.0", CHUNKED, body=CHUNKS) + health(server), (400, 501))


CHUNK_BODIES = {
    "letters": b"g\r\n" + CODE + b"\r\n0\r\n\r\n",
    "nothing": b"\r\n" + CODE + b"\r\n0\r\n\r\n",
    "negative": b"-14\r\n" + CODE + b"\r\n0\r\n\r\n",
    "plus": b"+14\r\n" + CODE + b"\r\n0\r\n\r\n",
    "0x": b"0x14\r\n" + CODE + b"\r\n0\r\n\r\n",
    "space before": b" 14\r\n" + CODE + b"\r\n0\r\n\r\n",
    "over 64 bits": b"10000000000000014\r\n" + CODE + b"\r\n0\r\n\r\n",
    "endless size": b"0" * 100_000 + b"14\r\n" + CODE + b"\r\n0\r\n\r\n",
    "line feed after the size": b"14\n" + CODE + b"\r\n0\r\n\r\n",
    "line feed after the data": b"14\r\n" + CODE + b"\n0\r\n\r\n",
    "nothing after the data": b"14\r\n" + CODE + b"0\r\n\r\n",
    "more data than said": b"14\r\n" + CODE + b"xx\r\n0\r\n\r\n",
    "NUL in the size": b"14\0\r\n" + CODE + b"\r\n0\r\n\r\n",
    "control in an extension": b"14;a=\x01\r\n" + CODE + b"\r\n0\r\n\r\n",
    "endless extension": b"14;" + b"a" * 100_000 + b"\r\n" + CODE + b"\r\n0\r\n\r\n",
    "line feed at the end": b"14\r\n" + CODE + b"\r\n0\r\n\n",
    "bad trailer": b"14\r\n" + CODE + b"\r\n0\r\nX A: 1\r\n\r\n",
    "endless trailer": b"14\r\n" + CODE + b"\r\n0\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", CHUNK_BODIES)
def test_chunks(server, name):
    refused(server, message(server, b"POST /v1/execute HTTP/1.1", CHUNKED, body=CHUNK_BODIES[name]) + health(server), (400, 413, 431))


@pytest.mark.parametrize("sizes", [(20,), (1,) * 20, (7, 13)], ids=["one", "many", "two"])
def test_a_body_in_chunks(server, sizes):
    with server.wire() as wire:
        wire.send(message(server, b"POST /v1/execute HTTP/1.1", b"Content-Type: application/json", b"transfer-encoding:  Chunked"))
        at = 0
        for size in sizes:
            wire.send(b"%x\r\n%s\r\n" % (size, CODE[at:at + size]))
            at += size
        wire.send(b"0\r\n\r\n")
        answer = wire.response()
        assert answer.status == 200 and answer.json()["stdout"] == "1\n"
        wire.send(health(server))
        assert wire.response().status == 200


# --- how large a body may be ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [b"/v1/execute", b"/v1/execute/stream", b"/v1/sessions"])
def test_a_body_over_its_limit_is_refused_before_it_is_read(server, path):
    with server.wire() as wire:
        wire.send(message(server, b"POST %s HTTP/1.1" % path, b"Content-Type: application/json", b"Content-Length: %d" % (1 << 40)))
        answer = wire.response()
        assert answer.status == 413 and answer.json()
        assert wire.is_ended()


def test_a_chunked_body_over_its_limit(server):
    with server.wire() as wire:
        wire.send(message(server, b"POST /v1/execute HTTP/1.1", b"Content-Type: application/json", CHUNKED))
        for _ in range(64):
            if wire.is_readable() or not wire.send(b"100000\r\n" + b" " * MIB + b"\r\n"):
                break
        else:
            pytest.fail("it took 64 MiB")
        assert wire.response().status == 413
        assert wire.is_ended()


def pipes(server):
    """How many the gate has: one for each upload on its way to the store."""
    found = 0
    for fd in pathlib.Path(f"/proc/{server.pid_of('gate')}/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(fd).startswith("pipe:")
    return found


def test_a_bad_chunk_ends_an_upload(server):
    """Whoever takes the body is told: nothing of the upload goes on without its request."""
    before = pipes(server)
    kind, form = multipart([file_part(b"x" * 300_000)])
    for _ in range(20):
        with server.wire() as wire:
            part = form[:200_000]
            wire.send(message(server, b"POST /v1/files HTTP/1.1", b"Content-Type: " + kind.encode(), CHUNKED))
            wire.send(b"%x\r\n%s\r\n" % (len(part), part))
            until(lambda: pipes(server) > before, "the upload has begun")
            wire.send(b"no size\r\n")
            assert wire.response().status == 400
            assert wire.is_ended()
    until(lambda: pipes(server) == before, "none is left")
    assert server.call("GET", "/v1/files") == (200, {"files": []})


def test_a_large_body_below_the_limit(server):
    code = "#" * (15 * MIB) + "\nprint(2)"
    assert server.execute(code, timeout_ms=60000)["stdout"] == "2\n"


def test_expect_100_continue(server):
    with server.wire() as wire:
        wire.send(message(server, b"POST /v1/execute HTTP/1.1", b"Content-Type: application/json", b"Expect: 100-continue",
                          b"Content-Length: %d" % len(CODE)))
        assert wire.response().status == 100
        wire.send(CODE)
        answer = wire.response()
        assert answer.status == 200 and answer.json()["stdout"] == "1\n"


def test_expect_is_not_met_when_the_body_is_too_large(server):
    with server.wire() as wire:
        wire.send(message(server, b"POST /v1/execute HTTP/1.1", b"Expect: 100-continue", b"Content-Length: %d" % (1 << 40)))
        assert wire.response().status == 413


# --- what a body says ----------------------------------------------------------------------------------------

BODIES = {
    "deep lists": b'{"code": "1", "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep lists without end": b"[" * 1_000_000,
    "deep objects": b'{"code": "1", "x": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
    "bad UTF-8": b'{"code": "\xff\xfe"}',
    "bad UTF-8 in a key": b'{"code": "1", "\xff": 1}',
    "UTF-16": '{"code": "1"}'.encode("utf-16"),
    "NUL after it": CODE + b"\0",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_no_json(server, name):
    status, _, answer = server.request("POST", "/v1/execute", BODIES[name])
    assert status in (400, 413, 422) and json.loads(answer)["detail"]


def test_after_a_wrong_body_the_connection_is_good(server):
    """Its framing was not in doubt."""
    with server.wire() as wire:
        for body, status in ((b"{", (400, 422)), (b'{"code": 1}', (422,)), (CODE, (200,))):
            wire.send(message(server, b"POST /v1/execute HTTP/1.1", b"Content-Type: application/json",
                              b"Content-Length: %d" % len(body), body=body))
            assert wire.response().status in status


def test_half_a_body_runs_nothing(server):
    """The rest never comes: the client leaves, and the server is as before."""
    before = server.tree()
    with server.wire() as wire:
        wire.send(run(server)[:-1])
        assert server.request("GET", "/health")[0] == 200
        assert not wire.is_readable() and set(server.tree()) <= set(before)
    assert server.execute("print(1)")["stdout"] == "1\n"


# --- routes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/executes", "/V1/EXECUTE", "/v1/files/a/b/c", "/tree", "/%68ealthy"])
def test_an_unknown_path(server, path):
    status, headers, body = server.request("GET", path)
    assert status == 404 and headers.get_content_type() == "application/json"
    assert {"detail", "error"} & set(json.loads(body))


@pytest.mark.parametrize("method, path", [("GET", "/v1/execute"), ("PUT", "/v1/execute"), ("DELETE", "/v1/execute/stream"),
                                          ("PATCH", "/v1/files"),
                                          ("POST", "/health"), ("GET", "/v1/sessions/x/bash"), ("DELETE", "/metrics")])
def test_a_method_that_the_route_has_not(server, method, path):
    status, _, body = server.request(method, path)
    assert status == 405 and json.loads(body)


@pytest.mark.parametrize("method", [b"BREW", b"get", b"TRACE", b"CONNECT", b"PROPFIND", b"A" * 100])
def test_an_unknown_method(server, method):
    with server.wire() as wire:
        wire.send(message(server, method + b" /health HTTP/1.1"))
        answer = wire.response()
        assert answer.status in (400, 405, 501) and answer.json()


def test_head_has_no_body(server):
    """Whether HEAD is a method of a route is left open; that its answer has no body is not."""
    with server.wire() as wire:
        wire.send(message(server, b"HEAD /health HTTP/1.1"))
        assert wire.response(has_body=False).status in (200, 405)
        wire.send(health(server))
        assert wire.response().status == 200


# --- one connection, several requests ------------------------------------------------------------------------


def test_keep_alive(server):
    with server.wire() as wire:
        for i in range(100):
            wire.send(health(server))
            assert wire.response().status == 200
        wire.send(run(server))
        assert wire.response().json()["stdout"] == "1\n"


def test_close_when_asked(server):
    with server.wire() as wire:
        wire.send(message(server, b"GET /health HTTP/1.1", b"Connection: close") + health(server))
        answer = wire.response()
        assert answer.status == 200 and answer.get("connection").lower() == "close"
        assert wire.is_ended()


def test_pipelined_requests_are_answered_in_order(server):
    with server.wire() as wire:
        wire.send(run(server, "import time; time.sleep(0.5); print('slow')") + run(server, "print('fast')")
                  + message(server, b"GET /nothing HTTP/1.1") + health(server))
        assert wire.response().json()["stdout"] == "slow\n"
        assert wire.response().json()["stdout"] == "fast\n"
        assert wire.response().status == 404
        assert wire.response().json()["status"] == "ok"


def test_a_request_byte_by_byte(server):
    with server.wire() as wire:
        for byte in run(server):
            wire.send(bytes([byte]))
        assert wire.response().json()["stdout"] == "1\n"


def test_a_thousand_pipelined(server):
    with server.wire() as wire:
        assert wire.send(health(server) * 1000)
        for _ in range(1000):
            assert wire.response().status == 200


def test_http_1_0(server):
    with server.wire() as wire:
        wire.send(message(server, b"GET /health HTTP/1.0"))
        answer = wire.response()
        assert answer.status == 200 and answer.get("transfer-encoding") is None and answer.json()["status"] == "ok"
        assert wire.is_ended()


def test_a_stream_in_http_1_0(server):
    """There are no chunks in 1.0: it ends with the connection."""
    with server.wire() as wire:
        wire.send(message(server, b"POST /v1/execute/stream HTTP/1.0", b"Content-Type: application/json",
                          b"Content-Length: %d" % len(CODE), body=CODE))
        answer = wire.response()
        assert wire.closed
    assert answer.status == 200 and answer.get("transfer-encoding") is None
    assert re.search(rb"event: result\ndata: [^\n]+\n\n\Z", answer.body)


def test_an_answer_is_for_its_request(server):
    """Many connections at once, each with its own program."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.wire()) for _ in range(10)]
        for i, wire in enumerate(wires):
            wire.send(run(server, f"print({i})"))
        assert [wire.response().json()["stdout"] for wire in wires] == [f"{i}\n" for i in range(10)]


# --- those that take their time ------------------------------------------------------------------------------


def test_half_a_request_is_given_up(hasty):
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(hasty.wire()) for _ in range(4)]
        for wire, half in zip(wires, (b"G", b"GET /health HTT", b"GET /health HTTP/1.1\r\nHost: 127", health(hasty)[:-2])):
            wire.send(half)
        for wire in wires:
            said = wire.rest()
            assert wire.closed and (said == b"" or said.startswith(b"HTTP/1.1 408 ")), said


def test_a_trickle_of_headers_is_given_up(hasty):
    """A byte now and then is not progress."""
    with hasty.wire() as wire:
        wire.send(b"GET /health HTTP/1.1\r\nX: ")
        until(lambda: wire.is_readable() or not wire.send(b"x"), "the connection is closed")
        said = wire.rest()
        assert wire.closed and (said == b"" or said.startswith(b"HTTP/1.1 408 ")), said


@pytest.mark.more
def test_a_program_may_take_longer_than_headers(hasty):
    assert hasty.execute("import time; time.sleep(2.5); print(1)", timeout_ms=60000)["stdout"] == "1\n"


def open_files_at_least(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this test needs {count} descriptors, {hard} are allowed")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def crowd(server, count):
    """That many connections which say nothing, and other requests beside them."""
    with contextlib.ExitStack() as stack:
        for i in range(count):
            s = stack.enter_context(socket.create_connection((server.host, server.port), 60))
            if i % 3 == 0:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: ")
        assert server.request("GET", "/health")[0] == 200
        assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.execute("print(2)")["stdout"] == "2\n"


@pytest.mark.parametrize("count", [pytest.param(2000, id="2000"), pytest.param(10000, id="10000", marks=pytest.mark.slow)])
def test_idle_connections_do_not_stop_others(serve, count):
    open_files_at_least(count + 200)
    crowd(serve(max_connections=count + 100), count)


def test_more_connections_than_allowed(serve):
    """Who comes when it is full waits, is told so, or is closed; afterwards all is well, and nothing was lost of others."""
    server = serve(max_connections=20)
    with server.stream({"code": "import time\nfor i in range(5): print(i); time.sleep(0.2)", "timeout_ms": 60000}) as stream:
        with contextlib.ExitStack() as stack:
            for _ in range(60):
                with contextlib.suppress(ConnectionResetError):
                    stack.enter_context(socket.create_connection((server.host, server.port), 60))
            events = list(stream)
    assert events[-1].name == "result" and events[-1].data["exit_code"] == 0
    until(lambda: answers(server), "it answers again")


def test_the_last_connection_that_fits_is_kept(serve):
    """Room is made for one that waits, not for one that might come."""
    server = serve(max_connections=2)
    with server.stream({"code": "import time\nwhile True: print(1); time.sleep(0.05)", "timeout_ms": 60000}) as stream:
        stream.next()
        for _ in range(50):
            with server.wire() as wire:
                wire.send(b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % server.authority.encode())
                assert wire.response().status == 200
                wire.send(b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % server.authority.encode())
                assert wire.response().status == 200, "it may be used again"
        stream.next()


def test_waiting_for_room_is_counted(serve):
    """With as many connections as there may be, all of them at work."""
    server, ticks = serve(max_connections=2), {"code": "import time\nwhile True: print(1); time.sleep(0.05)", "timeout_ms": 60000}

    def counted(name):
        return int(re.search(rf"^glovebox_{name}_total (\d+)$", server.request("GET", "/metrics")[2].decode(), re.M)[1])

    assert counted("accepts_paused") == 0 < counted("connections_accepted")
    with server.stream(ticks) as one, server.stream(ticks):
        one.next()
        with server.wire() as third:
            third.send(b"GET /health HTTP/1.1\r\nHost: %s\r\n\r\n" % server.authority.encode())
            for _ in range(10):
                one.next()
            assert not third.is_readable(), "there is no room for it"
            one.close()
            assert third.response().status == 200
    until(lambda: answers(server), "it answers")
    assert counted("accepts_paused") >= 1


def answers(server):
    with contextlib.suppress(OSError):
        return server.request("GET", "/health")[0] == 200
    return False


def test_descriptors_do_not_grow(server):
    """Connections of every kind, and then as few descriptors in the gate as before."""
    gate = server.pid_of("gate")

    def count():
        return len(os.listdir(f"/proc/{gate}/fd"))

    server.execute("1")
    before = count()
    for _ in range(8):
        server.execute("print(1)")
        server.request("GET", "/nothing")
        refused(server, message(server, b"GET /health HTTP/1.1", b"X A: 1"))
        with server.wire() as wire:
            wire.send(run(server)[:-5])
        with server.wire() as wire:
            wire.send(run(server, "import time; time.sleep(1000)"))
    until(lambda: count() <= before, "the gate has no more descriptors than before")


def test_a_slow_body_holds_nobody_up(server):
    """Not even the one that sends it."""
    body = run(server)
    with server.wire() as slow:
        for byte in body[:-1]:
            slow.send(bytes([byte]))
        for _ in range(50):
            assert server.request("GET", "/health")[0] == 200
        slow.send(body[-1:])
        assert slow.response().json()["stdout"] == "1\n"
