# SPDX-License-Identifier: Apache-2.0
"""A small client as agents have them: no subprotocol, no session, old headers, `buffers` an object; it understands five messages.

It stops reading at the reply, so everything that was said must have come before it.
"""
import base64
import io
import json
import re
import uuid

import pytest

from jup import PING, TEXT, WebSocket
from server import WARM, needs_root, shared

pytestmark = needs_root
server = shared(**WARM)


class Failed(Exception):
    pass


class Agent:
    def __init__(self, server):
        self.server = server
        status, answer = server.call("POST", "/api/kernels", {"name": "python"})
        assert status == 201
        self.id = answer["id"]
        self.ws = WebSocket(server, f"/api/kernels/{self.id}/channels")
        assert self.ws.status == 101 and "sec-websocket-protocol" not in self.ws.given

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.socket.close()
        assert self.server.request("DELETE", f"/api/kernels/{self.id}")[0] == 204

    def submit(self, code):
        number = uuid.uuid4().hex
        header = {"username": "", "version": "5.0", "session": "", "msg_id": number, "msg_type": "execute_request"}
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        self.ws.send(TEXT, json.dumps({"header": header, "parent_header": {}, "channel": "shell", "content": content, "metadata": {},
                                       "buffers": {}}).encode())
        return number

    def result(self, number):
        """(text, images), by msg_type beside the header."""
        chunks, images, error = [], [], None
        while True:
            kind, data = self.ws.receive()
            assert kind == TEXT
            m = json.loads(data)
            if m["parent_header"].get("msg_id") != number:
                continue
            content = m["content"]
            if m["msg_type"] == "stream":
                chunks.append(content["text"])
            elif m["msg_type"] in ("execute_result", "display_data"):
                chunks.append(content["data"]["text/plain"])
                if "image/png" in content["data"]:
                    images.append(base64.b64decode(content["data"]["image/png"]))
            elif m["msg_type"] == "error":
                error = content
            elif m["msg_type"] == "execute_reply":
                if content["status"] == "error":
                    raise Failed(f"{error['ename']}: {error['evalue']}", "\n".join(error["traceback"]))
                return "".join(chunks).strip() or None, images

    def run(self, code):
        return self.result(self.submit(code))


@pytest.fixture
def agent(server):
    with Agent(server) as agent:
        yield agent


def test_text(agent):
    assert agent.run("print('hello')") == ("hello", [])
    assert agent.run("x = 5") == (None, [])
    assert agent.run("x") == ("5", [])
    assert agent.run("   y = 1\n   print(x + y)") == ("6", [])
    assert agent.run("!echo shell") == ("shell", [])
    assert agent.run("import asyncio\nawait asyncio.sleep(0)\nprint('awaited')") == ("awaited", [])


def test_all_of_it_before_the_reply(agent):
    for i in range(20):
        assert agent.run(f"for i in range(1000): print({i}, i)")[0] == "\n".join(f"{i} {n}" for n in range(1000))
    text, _ = agent.run("print('x' * 500000)")
    assert text == "x" * 500000
    assert agent.run("'y' * 1000000")[0] == repr("y" * 1000000)
    assert agent.run("\n".join(f"v{i} = {i}" for i in range(10000)) + "\nv9999")[0] == "9999"


def test_images(agent):
    text, (png,) = agent.run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert png.startswith(b"\x89PNG")
    _, (png,) = agent.run("from PIL import Image\nImage.new('RGB', (40, 30), 'red').show()")
    from PIL import Image
    assert Image.open(io.BytesIO(png)).size == (40, 30)


def test_errors(agent):
    with pytest.raises(Failed, match="ZeroDivisionError: division by zero") as e:
        agent.run("print('before')\n1/0")
    assert "1/0" in re.sub(r"\x1b\[[0-9;]*m", "", e.value.args[1])
    with pytest.raises(Failed, match="StdinNotImplementedError"):
        agent.run("input()")
    assert agent.run("print(1)")[0] == "1"


def test_two_at_once(agent):
    """Answers are told apart by what they answer."""
    first, second = agent.submit("print('first')"), agent.submit("print('second')")
    assert agent.result(first)[0] == "first" and agent.result(second)[0] == "second"


def test_interrupt(agent):
    number = agent.submit("import time\nkept = 1\nprint('up', flush=True)\ntime.sleep(1000)")
    while "up" not in json.loads(agent.ws.receive()[1])["content"].get("text", ""):
        pass
    assert agent.server.request("POST", f"/api/kernels/{agent.id}/interrupt", b'{"any": "body"}')[0] == 204
    with pytest.raises(Failed, match="KeyboardInterrupt"):
        agent.result(number)
    assert agent.run("kept")[0] == "1"


def test_heartbeat(agent):
    for _ in range(3):
        agent.ws.send(PING, b"beat")
    assert agent.run("1")[0] == "1" and agent.ws.pongs == [b"beat"] * 3


def test_two_agents(server):
    with Agent(server) as one, Agent(server) as two:
        one.run("mine = 1; open('f', 'w').write('x')")
        assert two.run("import os; 'mine' in globals(), os.path.exists('f')")[0] == "(False, False)"


def test_nothing_but_a_header_and_code(server):
    """The smallest client: no channel either, and no key that is not needed."""
    with Agent(server) as agent:
        header = {"msg_id": "only-this", "msg_type": "execute_request"}
        agent.ws.send(TEXT, json.dumps({"header": header, "content": {"code": "6 * 7"}}).encode())
        assert agent.result("only-this") == ("42", [])
