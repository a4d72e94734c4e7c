# SPDX-License-Identifier: Apache-2.0
"""A box with ports, and ways to talk to it: its two servers, and an agent on its executor."""
import json
import pathlib
import sys
import uuid

from server import Server

# The client of Jupyter's tests speaks to executors, too.
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "jupyter"))
from jup import TEXT, WebSocket  # pylint: disable=wrong-import-position


class Port(Server):
    """One of the servers of a box: requests go there. It is nobody's to start or stop."""

    def __init__(self, number, headers=None):
        self.scheme, self.host, self.port, self.path, self.ca = "http", "127.0.0.1", number, None, None
        self.headers, self.process = headers or {}, None

    def request(self, method, path, body=None, headers=None):
        return super().request(method, path, body, {**self.headers, **(headers or {})})


class Box:
    """A box of a server, in a block. Keywords are fields of the request that makes it."""

    def __init__(self, server, headers=None, ports=True, **fields):
        self.server, self.headers = server, headers
        status, self.made = server.call("POST", "/v1/boxes", {"ports": ports, **fields}, headers)
        assert status == 201, (status, self.made)
        self.id, self.ports = self.made["id"], self.made["ports"]
        self.executor, self.resource = (Port(self.ports[name], headers) for name in ("executor", "resource"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()

    def delete(self):
        status, _, _ = self.server.request("DELETE", f"/v1/boxes/{self.id}", headers=self.headers)
        assert status in (204, 410)

    def shell(self, text):
        """What a command says; it must end well."""
        status, answer = self.server.call("POST", f"/v1/boxes/{self.id}/commands", {"shell": text}, self.headers)
        assert status == 200 and answer["exit_code"] == 0, (status, answer)
        return answer["stdout"]

    def cell(self, code):
        """The answer of a cell in the working directory of the box."""
        status, answer = self.server.call("POST", f"/v1/boxes/{self.id}/cells", {"code": code}, self.headers)
        assert status == 200, (status, answer)
        return answer


class Failed(Exception):
    pass


class Agent:
    """A client of an executor, as small as agents have them."""

    def __init__(self, executor):
        self.server = executor
        status, answer = executor.call("POST", "/api/kernels", {"name": "python"})
        assert status == 201, (status, answer)
        self.id = answer["id"]
        self.connect()

    def connect(self):
        self.ws = WebSocket(self.server, f"/api/kernels/{self.id}/channels", headers=[f"{name}: {value}" for name, value in self.server.headers.items()])
        assert self.ws.status == 101

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.socket.close()
        assert self.server.request("DELETE", f"/api/kernels/{self.id}")[0] == 204

    def run(self, code):
        """What it says, in one text."""
        number, chunks, error = uuid.uuid4().hex, [], None
        header = {"username": "", "version": "5.0", "session": "", "msg_id": number, "msg_type": "execute_request"}
        content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        self.ws.send(TEXT, json.dumps({"header": header, "parent_header": {}, "channel": "shell", "content": content, "metadata": {},
                                       "buffers": {}}).encode())
        while True:
            m = json.loads(self.ws.receive()[1])
            if m["parent_header"].get("msg_id") != number:
                continue
            if m["msg_type"] == "stream":
                chunks.append(m["content"]["text"])
            elif m["msg_type"] in ("execute_result", "display_data"):
                chunks.append(m["content"]["data"]["text/plain"])
            elif m["msg_type"] == "error":
                error = m["content"]
            elif m["msg_type"] == "execute_reply":
                if m["content"]["status"] == "error":
                    raise Failed(f"{error['ename']}: {error['evalue']}")
                return "".join(chunks).strip()
