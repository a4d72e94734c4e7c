# SPDX-License-Identifier: Apache-2.0
"""A running `glovebox serve`, and ways to talk to it: properly, in raw bytes, and event by event.

`server = shared(...)` in a test file is a server for all tests of that file; the fixture `serve` starts one for one
test. Options are keywords: max_connections=10 is `--max-connections 10`, no_auth=True is `--no-auth`. The server sees
only the environment given here. Every server is stopped by SIGTERM, must then exit with 0, and must leave no process.

What the references leave to the program (how a token is configured, what a role's command line is) is written down
here once: TOKENS_VARIABLE, ROLES.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import select
import signal
import socket
import ssl
import subprocess
import time
import uuid

import pytest

from conftest import program_path, stat_of

START_S = 20
STOP_S = 30
# For whatever a test waits for: far more than it takes, so that it only ends tests that would hang.
WAIT_S = 60
REQUEST_S = 120

TOKENS_VARIABLE = "GLOVEBOX_TOKEN"
ROLES = ("serve", "keeper", "gate", "store", "tools", "egress")
LISTENING = re.compile(r"listening on (?:(?P<scheme>https?)://(?P<host>.+):(?P<port>[0-9]+)|unix:(?P<path>.+))\n")
# What the sanitizers and the coverage build need to be told.
# A sanitized gate keeps what is freed for a while, and makes system calls that its filter does not know.
SANITIZED = "asan" in os.environ.get("GLOVEBOX", "")
PASSED_ON = ("ASAN_", "UBSAN_", "LSAN_", "GCOV_", "LLVM_")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")


def until(condition, what, seconds=WAIT_S):
    """The first true value of condition(); fails the test, saying what it waited for, when none comes."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s in vain: {what}")
        time.sleep(0.02)


def environment(given=None):
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **passed_on, **(given or {})}


def arguments(options):
    """{"max_connections": 10} as words of a command line. True is a bare flag, a list is the flag repeated."""
    words = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [flag] if one is True else [f"{flag}={one}"]
    return words


def tokens_variable(tokens):
    """{"tenant": "token"} as the program is told: in the environment, where no `ps` shows it."""
    return {TOKENS_VARIABLE: ",".join(f"{tenant}:{token}" for tenant, token in tokens.items())} if tokens else {}


def ends(*words, env=None, timeout=START_S, **options):
    """A call of `glovebox serve` that is expected to end by itself, as subprocess.CompletedProcess with text."""
    command = [str(program_path()), "serve", *map(str, words), *arguments(options)]
    try:
        return subprocess.run(command, env=environment(env), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=timeout, check=False)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"{' '.join(command)}: still there after {timeout} s\nstdout: {e.stdout!r}\nstderr: {e.stderr!r}")


def multipart(parts, boundary="----between-the-parts"):
    """(content type, body) of a form. A part is (header lines without the last empty one, content), in bytes."""
    body = b"".join(b"--%s\r\n%s\r\n\r\n%s\r\n" % (boundary.encode(), head, content) for head, content in parts)
    return f"multipart/form-data; boundary={boundary}", body + b"--%s--\r\n" % boundary.encode()


def file_part(content, filename="data.bin", name="file"):
    head = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"\r\n' \
           "Content-Type: application/octet-stream"
    return head.encode(), content


def words_of(pid):
    """The command line of a process; empty if it is gone or has none."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return [b""]


def lives(pid, start):
    stat = stat_of(pid)
    return stat is not None and stat[1] == start and stat[2] not in "ZX"


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


# --- the process ---------------------------------------------------------------------------------------------


class Server:
    """`glovebox serve` with a state directory of its own. start() and stop() may be called again and again."""

    def __init__(self, folder, *, listen="127.0.0.1:0", env=None, tokens=None, ca=None, ready=True, state_dir=None,
                 warm="false", se_network="false", prefix=(), **options):
        self.folder = pathlib.Path(folder)
        self.state_dir = pathlib.Path(state_dir or self.folder / "state")
        self.options = {"listen": listen, "state_dir": self.state_dir, **options}
        # Most tests are about something else, and an image costs each server a second of a processor.
        # And a network would start a process in whichever test is the first to have one.
        self.env = {"GLOVEBOX_WARM": warm, **({"GLOVEBOX_SE_ALLOW_NETWORK": se_network} if se_network else {}), **tokens_variable(tokens), **(env or {})}
        self.ca, self.ready = ca, ready
        # What it is started by, and becomes it: for another namespace, for instance.
        self.prefix = list(prefix)
        self.process = self.scheme = self.host = self.port = self.path = self.line = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
        else:
            with contextlib.suppress(Exception, pytest.fail.Exception):  # the first failure is the one to see
                self.stop()

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        """Everything it said on standard error, of all its starts."""
        return (self.folder / "stderr").read_text(encoding="utf-8", errors="replace")

    def said(self):
        """What it said on standard output since it was started."""
        return (self.folder / "stdout").read_text(encoding="utf-8", errors="replace")

    def launch(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state_dir.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "stdout", "wb") as out, open(self.folder / "stderr", "ab") as err:
            self.process = subprocess.Popen([*self.prefix, str(program_path()), "serve", *arguments(self.options)], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, env=environment(self.env), cwd=self.folder)

    def start(self):
        """Runs it until it says where it listens, and until it says that it is ready."""
        self.launch()
        try:
            self.await_start()
        except BaseException:
            if self.process:
                self.kill()
            raise

    def await_start(self):
        until(lambda: self.said().endswith("\n") or self.process.poll() is not None, "'listening on'", START_S)
        status = self.process.poll()
        where = LISTENING.fullmatch(self.said())
        if status is not None or not where:
            pytest.fail(f"no 'listening on': exit status {status}, stdout {self.said()!r}, stderr\n{self.log()[-4000:]}")
        self.line = where.group()
        self.scheme, self.host, self.path = where["scheme"] or "http", where["host"] or "localhost", where["path"]
        self.port = int(where["port"] or 0)
        if self.ready:
            until(lambda: self.request("GET", "/ready")[0] == 200, "/ready answers 200")

    def stop(self):
        """SIGTERM; exit status 0; no process of it is left; it never said more on standard output."""
        if self.process is None:
            return
        family = self.tree()
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            pytest.fail(f"no end {STOP_S} s after SIGTERM\n{self.log()[-4000:]}")
        if status:
            pytest.fail(f"exit status {status} after SIGTERM\n{self.log()[-4000:]}")
        until(lambda: not any(lives(*one) for one in family.items()), f"all of {family} are gone after the end", STOP_S)
        assert self.said() == self.line, "one line on standard output is all"

    def kill(self):
        """kill -9 of the first process, as a test may want. What it leaves is the test's to look at."""
        process, self.process = self.process, None
        process.kill()
        process.wait()

    # --- its processes ---------------------------------------------------------------------------------------

    def tree(self):
        """{pid: start time} of it and of all that descends from it."""
        table = {int(entry): stat_of(entry) for entry in os.listdir("/proc") if entry.isdigit()}
        found, first = {}, self.pid
        for pid, stat in table.items():
            ancestor = pid
            while table.get(ancestor) and ancestor != first:
                ancestor = table[ancestor][0]
            if stat and ancestor == first and stat[2] not in "ZX":
                found[pid] = stat[1]
        return found

    def pids(self):
        """{"serve": [pid], "keeper": [...], "gate": [...], "store": [...]}: those that are there."""
        found = {}
        for pid in self.tree():
            words = words_of(pid)
            if os.path.basename(words[0]).startswith(b"glovebox") and len(words) > 1:
                role = words[1].decode(errors="replace")
                if role in ROLES:
                    found.setdefault(role, []).append(pid)
        return found

    def pid_of(self, role):
        return until(lambda: self.pids().get(role), f"a {role} process")[0]

    def running(self, word):
        """Processes of its boxes that have this word in their command line."""
        return [pid for pid in self.tree() if any(word.encode() in one for one in words_of(pid))]

    def init_of(self, pid):
        """Process 1 of the box in which a process is: the last before the keeper."""
        keeper = self.pid_of("keeper")
        while stat_of(pid)[0] != keeper:
            pid = stat_of(pid)[0]
            assert pid > 1, "that process is in no box of this server"
        return pid

    def kill_gate(self):
        """kill -9, and wait until it is gone. Returns the pid that it had."""
        pid = self.pid_of("gate")
        start = stat_of(pid)[1]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not lives(pid, start), f"the killed gate {pid} is gone")
        return pid

    def next_gate(self, old):
        return until(lambda: [pid for pid in self.pids().get("gate", []) if pid != old], "another gate")[0]

    # --- requests --------------------------------------------------------------------------------------------

    @property
    def authority(self):
        """What a well-behaved client writes into Host."""
        return f"{self.host}:{self.port}" if self.port else self.host

    def connect(self, timeout=REQUEST_S):
        if self.path:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(self.path)
            return s
        s = socket.create_connection((self.host.strip("[]"), self.port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.scheme == "https":
            s = ssl.create_default_context(cafile=self.ca).wrap_socket(s, server_hostname=self.host)
        return s

    def connection(self):
        """An http.client connection that is already there."""
        c = http.client.HTTPConnection(self.host, self.port or None, timeout=REQUEST_S)
        c.sock = self.connect()
        return c

    def send(self, connection, method, path, body=None, headers=None):
        """Sends a request; what is not bytes is sent as JSON. Returns the answer, its body unread."""
        headers = {"Host": self.authority, **(headers or {})}
        if body is not None:
            if not isinstance(body, bytes):
                body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, body, headers)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it answered before it had read everything, or is gone: the next line finds out
        return connection.getresponse()

    def request(self, method, path, body=None, headers=None):
        """(status, headers, body) of one request on a connection of its own."""
        with contextlib.closing(self.connection()) as c:
            answer = self.send(c, method, path, body, headers)
            return answer.status, answer.headers, answer.read()

    def call(self, method, path, body=None, headers=None):
        """(status, what the JSON of the answer says); None for an empty one."""
        status, _, data = self.request(method, path, body, headers)
        return status, json.loads(data) if data else None

    def execute(self, code, **fields):
        """The answer of /v1/execute, which must be 200."""
        status, answer = self.call("POST", "/v1/execute", {"code": code, **fields})
        assert status == 200, (status, answer)
        return answer

    def upload(self, content, filename="data.bin", headers=None):
        """The id under which the file store has it."""
        kind, body = multipart([file_part(content, filename)])
        status, answer = self.call("POST", "/v1/files", body, {"Content-Type": kind, **(headers or {})})
        assert status == 201, (status, answer)
        return answer["file_id"]

    def download(self, file_id, headers=None):
        status, _, data = self.request("GET", f"/v1/files/{file_id}", headers=headers)
        assert status == 200, (status, data)
        return data

    def stream(self, body, headers=None, path="/v1/execute/stream"):
        return Stream(self, path, body, headers)

    def sse(self, path, body):
        """Events of a stream as (name, data); the stream must be granted."""
        with self.stream(body, path=path) as stream:
            assert stream.status == 200, (stream.status, stream.read())
            for event in stream:
                yield event.name, event.data

    def wire(self, timeout=WAIT_S):
        return Wire(self.connect(timeout))

    def raw(self, data, timeout=WAIT_S):
        """Sends these bytes and returns what comes back until the other side closes, or time is up."""
        with self.wire(timeout) as wire:
            wire.send(data)
            return wire.rest()


# --- streams of events ---------------------------------------------------------------------------------------


class Event:
    def __init__(self, name, data, number):
        self.name, self.data, self.id = name, data, number

    def __repr__(self):
        return f"Event({self.name}, {str(self.data)[:200]}, id={self.id})"


class Stream:
    """One answer of server-sent events; iterating gives each Event when it is complete.

    Iterating ends when the other side does, properly or not: whether it was whole is for who reads it to say.
    """

    def __init__(self, server, path, body, headers=None):
        self.connection = server.connection()
        self.socket = self.connection.sock
        self.answer = None
        try:
            self.answer = server.send(self.connection, "POST", path, body, headers)
        except BaseException:
            self.close()
            raise
        self.status, self.headers = self.answer.status, self.answer.headers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def read(self):
        return self.answer.read()

    def __iter__(self):
        fields = {}
        while True:
            try:
                line = self.answer.readline()
            except (ConnectionResetError, http.client.IncompleteRead):
                return
            if not line.endswith(b"\n"):
                return
            line = line.rstrip(b"\r\n").decode()
            if line:
                name, _, value = line.partition(":")
                if name:  # a line that begins with a colon is a comment
                    fields[name] = value.removeprefix(" ")
            elif fields:
                yield Event(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
                fields = {}

    def next(self):
        """The next event, which must come."""
        event = next(iter(self), None)
        assert event is not None, "the stream ended"
        return event

    def close(self):
        """Leaves, whether or not everything was read."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        if self.answer:
            self.answer.close()
        self.connection.close()
        self.socket.close()


def joined(events, stream="stdout"):
    return "".join(e.data["data"] for e in events if e.name == "output" and e.data["stream"] == stream)


# --- bytes ---------------------------------------------------------------------------------------------------


class Gone(Exception):
    """The other side closed where an answer should have been."""


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"Answer({self.status}, {self.headers}, {self.body[:200]!r})"

    def get(self, name):
        found = [value for key, value in self.headers if key == name.lower()]
        assert len(found) < 2, f"{name} is there {len(found)} times"
        return found[0] if found else None

    def json(self):
        assert (self.get("content-type") or "").startswith("application/json"), self
        return json.loads(self.body)


class Wire:
    """One connection in bytes. Reading an answer also checks that its framing is sound."""

    def __init__(self, sock):
        self.socket, self.buffer, self.closed = sock, b"", False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        """Whether the other side still took it."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def is_readable(self):
        return bool(self.buffer) or bool(select.select([self.socket], [], [], 0)[0])

    def fill(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            raise Gone(f"closed after {self.buffer[:200]!r}")
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def take(self, size):
        while len(self.buffer) < size:
            self.fill()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def chunks(self):
        body = b""
        while True:
            size = int(self.line(), 16)
            body += self.take(size)
            assert self.take(2) == b"\r\n"
            if size == 0:
                return body

    def response(self, has_body=True):
        """The next answer, whole. has_body=False: to a HEAD."""
        first = self.line()
        match = re.fullmatch(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) [ -~]*", first)
        assert match, first
        headers = []
        while line := self.line():
            name, colon, value = line.partition(b":")
            assert colon and re.fullmatch(rb"[A-Za-z0-9-]+", name), line
            headers.append((name.decode().lower(), value.strip().decode("latin-1")))
        answer = Answer(int(match[1]), headers, b"")
        if not has_body or answer.status < 200 or answer.status in (204, 304):
            return answer
        length, coding = answer.get("content-length"), answer.get("transfer-encoding")
        assert length is None or coding is None, "an answer has one framing"
        if coding:
            assert coding == "chunked"
            answer.body = self.chunks()
        elif length is not None:
            answer.body = self.take(int(length))
        else:
            answer.body = self.rest()
        return answer

    def rest(self):
        """Everything until the other side closes (then .closed is true), or until time is up."""
        try:
            while True:
                self.fill()
        except (Gone, TimeoutError):
            data, self.buffer = self.buffer, b""
            return data

    def is_ended(self):
        """Whether the other side closed without another byte."""
        return self.rest() == b"" and self.closed


def metric(server, name, **labels):
    """The sum of a series of /metrics over the labels that are not said. With tokens, server.asks_with has a header."""
    total, found = 0, False
    for line in server.request("GET", "/metrics", headers=getattr(server, "asks_with", None))[2].decode().splitlines():
        series = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if not series or series[1] != name:
            continue
        has = dict(re.findall(r'(\w+)="([^"]*)"', series[2] or ""))
        if labels.items() <= has.items():
            total, found = total + float(series[3]), True
    assert found, (name, labels)
    return total


# --- fixtures ------------------------------------------------------------------------------------------------


def shared(**options):
    """A fixture: one server for all tests of the file that assigns it to a name."""

    @pytest.fixture(scope="module")
    def running_server(glovebox, tmp_path_factory):
        with Server(tmp_path_factory.mktemp("serve"), **options) as server:
            yield server

    return running_server


# Python from an image; numpy stands for what is large. Boxes made ahead come and go whenever they like, which looks like a leak
# of the test that is running: so only servers of one test have them.
WARM = {"warm": "true", "pool_size": 0, "session_pool_size": 0, "zygote_imports": "numpy"}
POOLED = {**WARM, "pool_size": 2}


def both_ways(**options):
    """As shared(), but each test of the file runs twice: with a server whose programs start cold, and with a warm one."""

    @pytest.fixture(scope="module", params=[pytest.param("cold", marks=pytest.mark.slow), "warm"])
    def running_server(request, glovebox, tmp_path_factory):
        more = WARM if request.param == "warm" else {}
        with Server(tmp_path_factory.mktemp("serve"), **more, **options) as server:
            server.start_way = request.param
            if request.param == "warm":
                assert {"lean", "full"} <= set(server.call("GET", "/health")[1]["warm"]), server.log()
            yield server

    return running_server


@pytest.fixture
def serve(glovebox, tmp_path):
    """serve(max_connections=10): a server for this test only."""
    started = []

    def call(**options):
        server = Server(options.pop("folder", tmp_path / f"serve-{len(started)}"), **options)
        started.append(server)
        server.start()
        return server

    yield call
    failures = []
    for server in started:
        try:
            server.stop()
        except (Exception, pytest.fail.Exception) as e:
            failures.append(e)
    if failures:
        raise failures[0]


def mark():
    """A word that no other process has in its command line."""
    return uuid.uuid4().hex


def waiting(word, before=""):
    """A program that becomes, after `before`, a process with that word in its command line, and waits."""
    return f"""{before}
import os, sys
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, "-c", "import os, time; os.write(1, b'begun\\\\n'); time.sleep(1000)", {word!r}])
"""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(certificate, key) of localhost, as files."""
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(["/usr/bin/openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
                   check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"
