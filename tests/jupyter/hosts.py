# SPDX-License-Identifier: Apache-2.0
"""Debian's own Jupyter servers, in gateway mode: their kernels are ours. And a client that talks to them as a browser does."""
import contextlib
import importlib.util
import socket
import subprocess

import pytest

from jup import Kernel, check_model
from server import STOP_S, WAIT_S, Server, environment, until

PYTHON = "/usr/bin/python3"
TOKEN = "token-of-the-notebook-server-0123456789"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Host(Server):
    """`python3 -m notebook` or `python3 -m jupyter_server`, whose gateway is a server of ours. In a folder of its own."""

    def __init__(self, folder, module, application, gateway, token=None, env=None):
        super().__init__(folder)
        self.module, self.gateway = module, gateway
        self.host, self.port, self.scheme, self.path, self.ca = "127.0.0.1", free_port(), "http", None, None
        self.headers = {"Authorization": f"token {TOKEN}"}
        self.words = [f"--gateway-url=http://{gateway.authority}", "--no-browser", "--allow-root", f"--{application}.ip=127.0.0.1",
                      f"--{application}.port={self.port}", f"--{application}.port_retries=0", f"--{application}.token={TOKEN}",
                      f"--{application}.{'notebook_dir' if application == 'NotebookApp' else 'root_dir'}={self.folder}"]
        home = str(self.folder)
        self.env = {"HOME": home, "JUPYTER_CONFIG_DIR": f"{home}/config", "JUPYTER_DATA_DIR": f"{home}/data", "JUPYTER_RUNTIME_DIR": f"{home}/run",
                    "JUPYTER_NO_CONFIG": "1", "TMPDIR": home, **({"JUPYTER_GATEWAY_AUTH_TOKEN": token} if token else {}), **(env or {})}

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "stderr", "ab") as log:
            self.process = subprocess.Popen([PYTHON, "-m", self.module, *self.words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment(self.env), cwd=self.folder)
        try:
            until(self.answers, f"{self.module} answers")
        except BaseException:
            self.stop()
            raise

    def answers(self):
        if self.process.poll() is not None:
            pytest.fail(f"{self.module} ended with {self.process.returncode}\n{self.log()[-3000:]}")
        try:
            return self.call("GET", "/api/status", headers=self.headers)[0] == 200
        except (OSError, ValueError):
            return False

    def stop(self):
        process, self.process = self.process, None
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, method, path, body=None):
        return self.call(method, path, body, self.headers)


class HostKernel(Kernel):
    """A kernel that a notebook's session asked for."""

    def __init__(self, host, path="x.ipynb"):
        self.server, self.headers, self.query, self.box = host, host.headers, "", None
        status, answer = host.ask("POST", "/api/sessions", {"path": path, "name": path, "type": "notebook", "kernel": {"name": "python3"}})
        assert status == 201, (status, answer, host.log()[-3000:])
        self.session, self.model = answer, check_model(answer["kernel"])
        self.id = self.model["id"]
        self.path = f"/api/kernels/{self.id}"

    def client(self, framing="text", **more):
        """These servers lose what is said before they have connected to us: as browsers do, ask until they answer."""
        client = super().client(framing, **more)
        client.socket.settimeout(1)
        for _ in range(WAIT_S):
            header = client.say("kernel_info_request")
            with contextlib.suppress(TimeoutError):
                client.until(lambda m, header=header: m.state == "idle" and m.parent == header["msg_id"])
                break
        client.socket.settimeout(WAIT_S)
        client.kept = [m for m in client.kept if m.parent_header.get("msg_type") != "kernel_info_request"]
        return client

    def __exit__(self, *_):
        self.server.ask("DELETE", f"/api/sessions/{self.session['id']}")


TENANT = "token-of-a-tenant-0123456789"
AS_TENANT = {"Authorization": f"token {TENANT}"}


def in_front(module, application):
    """A fixture: in_front_of(server, NAME="value") is a Host of this kind before it, in a block, with that in its environment."""

    @pytest.fixture(scope="module")
    def in_front_of(tmp_path_factory):
        if not importlib.util.find_spec(module):
            pytest.skip(f"no module {module}: Debian's package is not installed")
        return lambda server, **env: Host(tmp_path_factory.mktemp("host"), module, application, server, TENANT, env)

    return in_front_of
