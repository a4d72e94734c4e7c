# SPDX-License-Identifier: Apache-2.0
"""Boxes in a world of their own, see net_world.py: `world` is a fixture, and what a test asks for runs in its namespace."""
import contextlib
import ctypes
import json
import pathlib
import subprocess
import textwrap

import pytest

from conftest import ROOT, program_path
from server import Server, needs_root  # noqa: F401
from net_world import RESOLVER

# What programs of boxes begin with.
PRELUDE = """
import json, socket, ssl, sys, time, urllib.request


def get(url, **headers):
    # What the server says, or the errno with which it was refused.
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as e:
        return [e.code, e.reason]
    except OSError as e:
        return number(e)


def number(e):
    while getattr(e, "reason", None) is not None and isinstance(e.reason, Exception):
        e = e.reason
    return e.errno


def dial(host, port):
    try:
        return socket.create_connection((host, port), timeout=20)
    except OSError as e:
        return e.errno


def exchange(host, port, data):
    # What comes back until the end; "reset" where that was none.
    try:
        s = socket.create_connection((host, port), timeout=20)
        s.sendall(data)
        got = b""
        while part := s.recv(65536):
            got += part
        return got.decode("latin-1")
    except ConnectionResetError:
        return "reset"


def say(*values):
    print(json.dumps(values if len(values) > 1 else values[0]), flush=True)


"""


class World:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen(["unshare", "-n", "/usr/bin/python3", "-B", ROOT / "tests/egress/net_world.py", self.folder],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            pytest.fail("the world did not begin")

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def inside(self, *words):
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--", *map(str, words)]

    @contextlib.contextmanager
    def visited(self):
        """Sockets that are made meanwhile are of its namespace, and stay there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net", encoding="ascii") as home, open(f"/proc/{self.process.pid}/ns/net", encoding="ascii") as there:
            assert libc.setns(there.fileno(), 0) == 0, ctypes.get_errno()
            try:
                yield
            finally:
                assert libc.setns(home.fileno(), 0) == 0, ctypes.get_errno()

    def questions(self):
        """Names that the resolver has been asked for, since it was last asked here."""
        text = (self.folder / "questions").read_text(encoding="latin-1").split("\n")[:-1]
        seen = getattr(self, "_seen", 0)
        self._seen = len(text)
        return sorted(set(text[seen:]))

    def run(self, code, *options, allow=(), status=0, timeout=60):
        """Python in a fresh box: what it printed, decoded, line by line, and what came on standard error."""
        words = [word for rule in allow for word in ("--allow", rule)]
        done = subprocess.run(self.inside(program_path(), "run", "--resolver", RESOLVER, *words, *options, "-"),
                              input=PRELUDE + textwrap.dedent(code), capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == status, done.stderr
        return done


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    it = World(tmp_path_factory.mktemp("world"))
    yield it
    it.end()


class Net(Server):
    """A server in a world, reached by a Unix socket."""

    def __init__(self, world, folder, listen=None, **options):
        super().__init__(folder, listen=listen or f"unix:{folder}/socket", resolver=RESOLVER, prefix=world.inside(), **{"se_network": "true", **options})

    def box(self, **fields):
        status, box = self.call("POST", "/v1/boxes", fields)
        assert status == 201, box
        return box

    def python(self, box, code, **fields):
        """What a program in a box printed, decoded line by line."""
        status, answer = self.call("POST", f"/v1/boxes/{box['id']}/commands", {"argv": ["/usr/bin/python3", "-c", PRELUDE + textwrap.dedent(code)], **fields})
        assert status == 200 and answer["exit_code"] == 0, answer
        return [json.loads(line) for line in answer["stdout"].splitlines()]

    def network(self, box, policy, *rules):
        return self.call("PUT", f"/v1/boxes/{box['id']}/network", {"policy": policy, "rules": rules})

    def delete(self, box):
        assert self.call("DELETE", f"/v1/boxes/{box['id']}")[0] == 204

    def delete_all(self):
        for box in self.call("GET", "/v1/boxes")[1]["boxes"]:
            self.delete(box)

    def audit(self, event):
        return [line for line in map(json.loads, (self.state_dir / "audit/audit.jsonl").read_text(encoding="utf-8").splitlines()) if line["event"] == event]


@pytest.fixture(scope="module")
def shared(world, tmp_path_factory):
    with Net(world, tmp_path_factory.mktemp("net")) as it:
        # Egress is there from now on, and no test has left it behind.
        it.delete(it.box(network={"policy": "allow", "rules": ["web.test"]}))
        yield it


@pytest.fixture
def server(shared):
    """Boxes that a test makes go with it."""
    yield shared
    shared.delete_all()


@pytest.fixture
def own(world, tmp_path):
    """A server whose processes may be killed."""
    with Net(world, tmp_path) as it:
        yield it
