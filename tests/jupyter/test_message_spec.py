# SPDX-License-Identifier: Apache-2.0
"""Messages as Jupyter's own projects check them: ipykernel's tests of the message specification, run with our kernels.

Its tests talk to a client of jupyter_client; what is below that client's methods is our WebSocket.
"""
import importlib
import queue

import pytest

from comms import COMM, ECHO
from jup import Kernel
from server import WARM, needs_root, shared

pytestmark = [needs_root, pytest.mark.more]
server = shared(**WARM)

jupyter_client = pytest.importorskip("jupyter_client.client", reason="Debian's python3-jupyter-client is not installed")
specification = pytest.importorskip("ipykernel.tests.test_message_spec", reason="Debian's python3-ipykernel is not installed")
# Of ports there are none.
NOT_OURS = {"test_connect_request"}
NAMES = [name for name in dir(specification) if name.startswith("test_") and name not in NOT_OURS]


class Channel:
    def __init__(self, client, name):
        self.client, self.name = client, name

    def send(self, message):
        header = dict(message["header"], date=message["header"]["date"].isoformat())
        self.client.wire.say(header["msg_type"], message["content"], self.name, parent=message["parent_header"], header=header)

    def is_alive(self):
        return True


class Client(jupyter_client.KernelClient):
    """jupyter_client's own way to make messages; a WebSocket of ours."""

    def __init__(self, wire):
        super().__init__()
        self.wire, self.waiting = wire, {"shell": [], "iopub": [], "stdin": [], "control": []}
        self.allow_stdin = False

    shell_channel = property(lambda self: Channel(self, "shell"))
    control_channel = property(lambda self: Channel(self, "control"))
    stdin_channel = property(lambda self: Channel(self, "stdin"))

    def get(self, name, timeout=None, block=True):
        waiting = self.waiting[name]
        self.wire.socket.settimeout(timeout if timeout and block else 0.2)
        try:
            while not waiting:
                m = self.wire.next()
                self.waiting[m.channel].append(m.whole())
        except TimeoutError:
            raise queue.Empty from None
        return waiting.pop(0)

    def get_shell_msg(self, timeout=None, block=True, **_):
        return self.get("shell", timeout, block)

    def get_iopub_msg(self, timeout=None, block=True, **_):
        return self.get("iopub", timeout, block)

    def get_stdin_msg(self, timeout=None, block=True, **_):
        return self.get("stdin", timeout, block)


@pytest.fixture(scope="module", params=["text", "v1"])
def wire(request, server):
    with Kernel(server) as kernel, kernel.client(request.param) as wire:
        wire.run("first = 1").ok
        yield wire


@pytest.fixture
def client(wire, monkeypatch):
    client = Client(wire)
    utils = importlib.import_module("ipykernel.tests.utils")
    monkeypatch.setattr(utils, "KC", client)
    monkeypatch.setattr(specification, "KC", client)
    return client


@pytest.mark.parametrize("name", NAMES)
def test_of_ipykernel(client, name):
    getattr(specification, name)()


def test_every_message(client, wire):
    """Of a session in which everything is said once."""
    wire.socket.settimeout(60)
    wire.kept = []
    wire.run(COMM + ECHO)
    heard = [*wire.run("print(1)\nimport sys\nprint(2, file=sys.stderr)\nh = display(3, display_id=True)\nh.update(4)\n"
                       "from IPython.display import clear_output, HTML, Latex\nclear_output(True)\ndisplay(HTML('<b>x</b>'), Latex('$x$'))\n6 * 7").all]
    heard += wire.run("1/0").all
    for kind, content in (("kernel_info", {}), ("complete", {"code": "pri", "cursor_pos": 3}), ("inspect", {"code": "print", "cursor_pos": 3, "detail_level": 0}),
                          ("history", {"hist_access_type": "tail", "n": 3, "output": True, "raw": True}), ("is_complete", {"code": "for x in y:"}), ("comm_info", {})):
        heard += wire.ask(f"{kind}_request", content).all
    heard += wire.told(wire.say("comm_open", {"comm_id": "x", "target_name": "echo", "data": {}})).all
    seen = set()
    for m in heard:
        seen.add(m.type)
        if m.type in specification.references:
            specification.validate_message(m.whole())
    assert {"status", "execute_input", "stream", "display_data", "update_display_data", "execute_result", "error", "clear_output", "execute_reply",
            "kernel_info_reply", "complete_reply", "inspect_reply", "history_reply", "is_complete_reply", "comm_info_reply", "comm_msg"} <= seen


def test_what_old_clients_make_of_them(client, wire):
    """jupyter_client translates between versions of the protocol: from ours to the last one, and to an old one."""
    adapter = importlib.import_module("jupyter_client.adapter")
    wire.socket.settimeout(60)
    for m in wire.run("print(1)\n6 * 7").all + wire.ask("complete_request", {"code": "pri", "cursor_pos": 3}).all:
        assert adapter.adapt(m.whole())["msg_type"] == m.type
        assert adapter.adapt(m.whole(), 4)["header"]["msg_id"] == m.header["msg_id"]


def test_a_session_takes_them(client, wire):
    """jupyter_client's Session can sign, send and read them: as a proxy that speaks ZeroMQ to others does."""
    session = importlib.import_module("jupyter_client.session").Session()
    wire.socket.settimeout(60)
    for m in wire.run("print('ä')\n6 * 7").all:
        packed = session.serialize({**m.whole(), "buffers": []})
        _, parts = session.feed_identities(packed)
        assert session.deserialize(parts)["content"] == m.content
