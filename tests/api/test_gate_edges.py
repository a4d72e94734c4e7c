# SPDX-License-Identifier: Apache-2.0
"""The gate at its edges: clients that leave, repeat, stall or send by halves at an awkward moment.

Every test ends with the same gate that it began with: one that crashed would have been replaced. Built with the
sanitizers, this also finds what is used after it was freed.
"""
import contextlib
import json
import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import uuid

import pytest

from server import certificate, Server, file_part, mark, multipart, needs_root, serve, shared, until, waiting  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

server = shared(env={"MAX_CONCURRENT_EXECUTIONS": "64", "MAX_EXEC_TIMEOUT_MS": "60000"})


@contextlib.contextmanager
def same_gate(server):
    gate = server.pid_of("gate")
    yield gate
    assert server.execute("print(1)")["stdout"] == "1\n"
    assert server.pids()["gate"] == [gate], server.log()[-4000:]
    assert "Sanitizer" not in server.log(), server.log()[-4000:]


def request(server, method, path, body=None, headers=()):
    """A request in bytes."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {server.authority}", *headers]
    data = b""
    if body is not None:
        data = json.dumps(body).encode()
        head += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def reset(sock):
    """Closes so that the other side's next send fails."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def narrow(server, size=4096):
    """A connection that takes little before it is read from."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    s.settimeout(60)
    s.connect((server.host, server.port))
    return s


def processor_time(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def assert_rests(pid, seconds=2.0):
    before = processor_time(pid)
    time.sleep(seconds)
    used = processor_time(pid) - before
    assert used < seconds / 4, f"the gate used {used:.2f} s of {seconds} s while there was nothing to do"


def session_of(server, **fields):
    status, answer = server.call("POST", "/v1/sessions", fields or {"ttl_seconds": 600})
    assert status == 201, answer
    return answer["session_id"]


# --- TLS -----------------------------------------------------------------------------------------------------


def test_half_a_tls_record_does_not_stop_the_gate(serve, certificate):
    cert, key = certificate
    server = serve(tls_cert=cert, tls_key=key, ca=cert)
    with same_gate(server) as gate:
        with socket.create_connection((server.host, server.port), 10) as s:
            s.sendall(b"\x16\x03\x01\x02")  # the beginning of a handshake
            with server.wire(5) as wire:
                wire.send(request(server, "GET", "/health"))
                assert wire.response().status == 200
            assert_rests(gate)
        whole, ours = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=cert)
        tls = context.wrap_bio(ours, whole, server_hostname=server.host)
        with socket.create_connection((server.host, server.port), 10) as s:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    s.sendall(whole.read())
                    ours.write(s.recv(65536))
            s.sendall(whole.read())
            tls.write(request(server, "GET", "/health"))
            record = whole.read()
            s.sendall(record[:-7])
            with server.wire(5) as wire:
                wire.send(request(server, "GET", "/health"))
                assert wire.response().status == 200
            assert_rests(gate)


def test_tls_requests_in_one_record(serve, certificate):
    """What the library has decrypted already is announced by no event."""
    cert, key = certificate
    server = serve(tls_cert=cert, tls_key=key, ca=cert)
    with same_gate(server), server.wire(10) as wire:
        one = request(server, "POST", "/v1/execute", {"code": "print(1)" + " " * 5000})
        wire.send(one[:-2000])
        time.sleep(0.3)  # the rest of the body is read to its place, what stands behind it is not
        wire.send(one[-2000:] + one + request(server, "GET", "/health"))
        assert [wire.response().status for _ in range(3)] == [200, 200, 200]


# --- health --------------------------------------------------------------------------------------------------


def test_many_ask_for_health_before_it_is_known(serve):
    server = serve()
    old = server.kill_gate()
    wires = [server.wire() for _ in range(200)]
    for wire in wires:
        wire.send(request(server, "GET", "/health"))
    for wire in wires:
        with wire:
            assert wire.response().status == 200
    gate = server.pid_of("gate")
    assert gate != old and server.log().count("ended by signal") == 1, server.log()[-4000:]


def test_ready_is_answered_while_the_server_stops(serve):
    server, word = serve(), mark()
    with server.stream({"code": waiting(word), "timeout_ms": 20000}) as stream, server.wire() as wire:
        assert stream.next().name == "output"
        data = request(server, "GET", "/ready")
        wire.send(data[:10])
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        wire.send(data[10:])
        wire.socket.settimeout(10)
        answer = wire.response()
        assert answer.status == 503 and answer.get("connection") == "close"


def test_nobody_waits_for_a_server_that_stops(serve):
    """What is under way is finished; who comes now is told at once to go elsewhere."""
    server, word = serve(), mark()
    with server.stream({"code": waiting(word), "timeout_ms": 20000}) as stream:
        assert stream.next().name == "output"
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in server.log(), "it stops")
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        assert server.running(word)


# --- answers that are not read -------------------------------------------------------------------------------


def test_a_client_that_resets_its_download(server):
    file_id = server.upload(os.urandom(1 << 20) * 24)
    with same_gate(server):
        for i in range(60):
            s = narrow(server, 65536)
            s.sendall(request(server, "GET", f"/v1/files/{file_id}"))
            left = random.randrange(0, 8 << 20)
            while left > 0 and (data := s.recv(65536)):
                left -= len(data)
            if i % 2:
                time.sleep(random.uniform(0, 0.01))
            reset(s)


def test_a_client_that_resets_its_upload(server):
    kind, body = multipart([file_part(os.urandom(1 << 20) * 8)])
    head = (f"POST /v1/files HTTP/1.1\r\nHost: {server.authority}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    with same_gate(server):
        for _ in range(60):
            s = server.connect()
            s.sendall(head + body[:random.randrange(0, len(body))])
            reset(s)


@pytest.mark.parametrize("half_closed", [False, True], ids=["open", "half-closed"])
def test_a_download_that_nobody_reads_costs_nothing(server, half_closed):
    """The store has long closed its end of the pipe, the client's side may be closed as well."""
    with same_gate(server) as gate:
        sockets = []
        for size in range(1, 13):
            file_id = server.upload(bytes(size * 600_000))
            sockets.append(narrow(server))
            sockets[-1].sendall(request(server, "GET", f"/v1/files/{file_id}", headers=["Connection: close"]))
        time.sleep(1)
        for s in sockets:
            if half_closed:
                s.shutdown(socket.SHUT_WR)
        assert_rests(gate)
        for s in sockets:
            s.close()


def test_a_slow_download_is_not_idle(serve, tmp_path):
    """The gate is done with the answer long before the client has it."""
    server = serve(idle_timeout="1s", listen=f"unix:{tmp_path}/socket")  # of which the kernel holds little
    content = os.urandom(1 << 20) * 2
    file_id = server.upload(content)
    with same_gate(server), contextlib.closing(server.connect()) as s:
        s.sendall(request(server, "GET", f"/v1/files/{file_id}"))
        got = 0
        while got < len(content):
            data = s.recv(65536)
            assert data, f"cut after {got} bytes"
            got += len(data)
            time.sleep(0.15)


def test_many_requests_before_an_answer_is_read(server):
    """More than the gate takes in at once, each with an answer that fills its queue."""
    count = 400
    one = request(server, "GET", "/openapi.json", headers=["X-Padding: " + "x" * 4000])
    with same_gate(server):
        s = narrow(server, 65536)
        with contextlib.closing(s):
            sender = threading.Thread(target=lambda: s.sendall(one * count), daemon=True)
            sender.start()
            time.sleep(1)
            size, lines = 0, 0
            s.settimeout(20)
            tail = b""
            while lines < count:
                data = s.recv(1 << 20)
                assert data, f"closed after {lines} answers"
                size += len(data)
                lines += (tail + data).count(b"HTTP/1.1 200 OK")
                tail = data[-14:]
            sender.join(10)
            assert not sender.is_alive()


# --- clients that leave --------------------------------------------------------------------------------------


def leave_at_random(server, data, count, most_s):
    for _ in range(count):
        s = server.connect()
        s.sendall(data())
        time.sleep(random.uniform(0, most_s))
        reset(s)


@pytest.mark.parametrize("what", ["execute", "stream", "keyed", "session"])
def test_leaving_at_any_moment(serve, what):
    """Whatever is under way for them then: the box, files, its record, the program."""
    server = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1000"})  # runs with a key go on for a while
    files = [{"path": f"f{i}", "content": "x" * 100} for i in range(3)]
    program = {"code": "print('x' * 1000)\nopen('made', 'w').write('y')", "files": files}
    make = {
        "execute": lambda: request(server, "POST", "/v1/execute", program),
        "stream": lambda: request(server, "POST", "/v1/execute/stream", program),
        "keyed": lambda: request(server, "POST", "/v1/execute/stream", program, [f"Idempotency-Key: {uuid.uuid4().hex}"]),
        "session": lambda: request(server, "POST", "/v1/sessions", {"ttl_seconds": 2, "files": files}),
    }[what]
    with same_gate(server):
        threads = [threading.Thread(target=leave_at_random, args=(server, make, 40, 0.12), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)


def test_leaving_gives_the_slot_back(serve):
    server = serve(env={"MAX_CONCURRENT_EXECUTIONS": "2", "EXECUTION_QUEUE_TIMEOUT_SEC": "30"})
    with same_gate(server):
        leave_at_random(server, lambda: request(server, "POST", "/v1/execute", {"code": "1"}), 60, 0.06)
        for _ in range(4):
            assert server.execute("print(2)")["stdout"] == "2\n"
        until(lambda: b'operations_active{operation="execute"} 0' in server.request("GET", "/metrics")[2]
              or b'active{operation="execute"} 0' in server.request("GET", "/metrics")[2], "no slot is held")


# --- the same key again --------------------------------------------------------------------------------------


def test_the_same_key_again_while_the_first_one_waits(serve):
    """The first request is gone by the time that its program is put into the box."""
    server, word = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "50"}), mark()
    text = "".join(chr(ord("a") + i % 26) for i in range(200_000))
    body = {"code": "print(open('f').read(), end='')", "last_line_interactive": False, "timeout_ms": 20000,
            "files": [{"path": "f", "content": text}]}
    headers = {"Idempotency-Key": uuid.uuid4().hex}
    with same_gate(server):
        with server.stream({"code": waiting(word), "timeout_ms": 50000}) as first:
            assert first.next().name == "output"
            data = request(server, "POST", "/v1/execute/stream", body, [f"{k}: {v}" for k, v in headers.items()])
            with server.wire() as lost, server.wire() as wire:
                lost.send(data)
                time.sleep(0.3)
                wire.send(data)
                assert lost.is_ended(), "the older of the two is closed"
                for _ in range(20):  # memory that was freed is used again
                    server.request("POST", "/v1/files", b"z" * 200_000, {"Content-Type": "text/plain"})
                first.close()
                answer = wire.response()
        assert answer.status == 200
        events = [part for part in answer.body.decode().split("\n\n") if "event: output" in part]
        assert "".join(json.loads(e.partition("data: ")[2])["data"] for e in events) == text


def test_the_same_key_behind_a_refusal_on_one_connection(serve):
    server, word = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "0.3"}), mark()
    data = request(server, "POST", "/v1/execute/stream", {"code": "print(1)"}, [f"Idempotency-Key: {uuid.uuid4().hex}"])
    with same_gate(server):
        with server.stream({"code": waiting(word), "timeout_ms": 50000}) as first:
            assert first.next().name == "output"
            with server.wire() as wire:
                wire.send(data * 3)
                assert [wire.response().status for _ in range(3)] == [429, 429, 429]
        until(lambda: not server.running(word), "the slot is free")


# --- sessions that end ---------------------------------------------------------------------------------------


def in_background(server, method, path, body):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.call(method, path, body)), daemon=True)
    thread.start()
    return lambda: (thread.join(60), answers[0])[1]


@pytest.mark.parametrize("how", ["expired", "deleted"])
def test_a_session_ends_while_its_commands_wait(serve, how):
    """One has the only slot; with the session it gives it to the next one, of the same session."""
    server, word = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "50"}), mark()
    with same_gate(server):
        session = session_of(server, ttl_seconds=3 if how == "expired" else 600)
        bash = f"/v1/sessions/{session}/bash"
        answers = [in_background(server, "POST", bash, {"cmd": f"sleep 1000; : {word}", "timeout_ms": 50000})]
        until(lambda: server.running(word), "the first command runs")
        answers += [in_background(server, "POST", bash, {"cmd": "echo never"}) for _ in range(5)]
        time.sleep(0.5)
        if how == "deleted":
            assert server.request("DELETE", f"/v1/sessions/{session}")[0] == 204
        assert [answer()[0] for answer in answers] == [404] * 6


def test_delete_behind_a_command_that_is_refused(serve):
    """On one connection: the second request is taken while the first is being answered."""
    server, word = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "1"}), mark()
    with same_gate(server):
        session = session_of(server)
        with server.stream({"code": waiting(word), "timeout_ms": 50000}) as first, server.wire() as wire:
            assert first.next().name == "output"
            wire.send(request(server, "POST", f"/v1/sessions/{session}/bash", {"cmd": "true"})
                      + request(server, "DELETE", f"/v1/sessions/{session}"))
            assert [wire.response().status, wire.response().status] == [429, 204]
        until(lambda: not server.running(word), "the slot is free")


def test_a_long_command_that_waits_and_a_delete_behind_it(serve):
    server, word = serve(env={"MAX_CONCURRENT_EXECUTIONS": "1", "EXECUTION_QUEUE_TIMEOUT_SEC": "50"}), mark()
    with same_gate(server):
        session = session_of(server)
        with server.stream({"code": waiting(word), "timeout_ms": 50000}) as first, server.wire() as wire:
            assert first.next().name == "output"
            wire.send(request(server, "POST", f"/v1/sessions/{session}/bash", {"cmd": ":" + " " * 300_000})
                      + request(server, "DELETE", f"/v1/sessions/{session}"))
            time.sleep(0.5)
            first.close()
            assert [wire.response().status, wire.response().status] == [422, 204]


# --- small things --------------------------------------------------------------------------------------------


def test_head_of_a_malformed_target_has_no_body(server):
    with same_gate(server), server.wire(5) as wire:
        wire.send(request(server, "HEAD", "/%zz"))
        assert wire.response(has_body=False).status == 400
        assert wire.is_ended()


def test_standard_error_that_nobody_reads(glovebox, tmp_path):
    """Neither the gate waits for it, nor the end of the server."""
    server = Server(tmp_path / "serve", log_level="debug")
    ours, theirs = os.pipe()
    launch = subprocess.Popen
    try:
        def with_pipe(*args, **kwargs):
            return launch(*args, **{**kwargs, "stderr": theirs})

        subprocess.Popen = with_pipe
        try:
            server.start()
        finally:
            subprocess.Popen = launch
            os.close(theirs)
        with server.wire() as wire:
            for _ in range(40):
                wire.send(request(server, "GET", "/v1/files", headers=["traceparent: " + "x" * 50]) * 50)
                for _ in range(50):
                    assert wire.response().status == 200
        process = server.process
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        server.process = None
    finally:
        os.close(ours)
        if server.process is not None:
            server.kill()
