# SPDX-License-Identifier: Apache-2.0
"""Kernels behind Jupyter's calls and its WebSocket: ours, and those of Debian's jupyter_server, which are ipykernels. The same client
in C asks both, load_jupyter.c, in either framing.

A jupyter_server has a directory of its own for everything, and a token that is drawn anew. It limits what comes out of a kernel by
default (1 MB a second, 1 000 messages): that is off, so that speeds are compared.
"""
import concurrent.futures
import dataclasses
import functools
import importlib.util
import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import time

from . import launch, server, sessions
from .jupyter import PYTHON
from .server import DoesNotWork, connect, exchange, request

V1, LEGACY = "v1", "legacy"
START_S, DELETERS = 60, 8


@dataclasses.dataclass(frozen=True)
class Printing:
    """A cell that prints `expect` so many times."""

    text: str
    expect: bytes
    times: int

    @property
    def bytes(self):
        return len(self.expect) * self.times


def content_of(code):
    """Of an execute_request, as notebooks have it."""
    return json.dumps({"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False,
                       "stop_on_error": True}).encode()


class Channels:
    """What can be asked of a server of kernels; `work` is what their cells run. `most_bursts` None: as many as there are rounds."""

    burst_size = most_bursts = None

    def __init__(self, ctx, port, work, framing, token=None):
        self.ctx, self.port, self.framing = ctx, port, framing
        self.token = f"token={token}&" if token else ""
        times = getattr(work, "times", 1) if work.expect else 0
        self.work = [server.request_file(ctx, content_of(work.text)),
                     server.request_file(ctx, work.expect) if times else "/dev/null", times]
        self.probe()

    def path(self, tail=""):
        return f"/api/kernels{tail}?{self.token}"

    def channels(self, kernel):
        """The client puts a session's id behind it."""
        return f"{self.path(f'/{kernel}/channels')}session_id="

    def create(self):
        return request("POST", self.path(), {"name": "python3"})

    def probe(self):
        """One kernel and a cell, to see that there is such a thing, and that it speaks this framing."""
        kernel = self.make()
        try:
            self.load(kernel, server.request_file(self.ctx, content_of("pass")), "/dev/null", 0, 0)
        except OSError as e:
            raise DoesNotWork(str(e)) from e
        finally:
            self.delete([kernel])

    def make(self):
        with connect(self.port) as connection:
            status, body = exchange(connection, self.create())
        if status != 201:
            raise sessions.refused("POST /api/kernels", status, body)
        return json.loads(body)["id"]

    def delete(self, kernels):
        with concurrent.futures.ThreadPoolExecutor(DELETERS) as pool:
            for status, body in pool.map(self.delete_one, kernels):
                if status != 204:
                    raise OSError(f"DELETE /api/kernels answers {status}: {body[:150].decode(errors='replace')}")

    def delete_one(self, kernel):
        with connect(self.port) as connection:
            return exchange(connection, request("DELETE", self.path(f"/{kernel}")))

    def delete_all(self):
        with connect(self.port) as connection:
            _, body = exchange(connection, request("GET", self.path()))
        self.delete([kernel["id"] for kernel in json.loads(body)])

    def load(self, kernel, *words):
        """What the client says; OSError where a cell was not right."""
        figures, _ = server.load(self.ctx, "jupyter", self.port, self.channels(kernel), self.framing, *words)
        return figures

    @functools.cached_property
    def kernel(self):
        """The one whose cells are timed."""
        try:
            kernel = self.make()
        except DoesNotWork as e:
            raise OSError(str(e)) from e
        self.settle()
        return kernel

    def settle(self):
        """Wait until a kernel has come to rest."""

    def rest(self):
        """Wait until those that were ended are gone."""

    def cells(self, milliseconds):
        figures = self.load(self.kernel, *self.work, milliseconds)
        return figures["ns"], figures["failed"], figures["error"]

    def printed(self):
        """Nanoseconds of one cell, all of whose output has come."""
        figures = self.load(self.kernel, *self.work, 0)
        if figures["failed"]:
            raise OSError(figures["error"])
        return figures["ns"][0]

    def burst(self, number):
        create = server.request_file(self.ctx, self.create())
        try:
            figures, _ = server.load(self.ctx, "kernels", self.port, create, self.channels("{id}"), self.framing, *self.work,
                                     number)
        finally:
            self.delete_all()
            self.rest()
        return figures


# --- ours -----------------------------------------------------------------------------------------------------------


class KernelPeer(server.ServerPeer):
    """A server, asked for kernels. `fields` say the framing."""

    def open(self, ctx, work):
        return OpenedServer(self, ctx, work)


class OpenedServer(Channels):
    burst_size = 200
    grows = "growth of the gate's memory"

    def __init__(self, peer, ctx, work):
        self.server = server.Server(ctx, sessions.known(ctx, peer.options))
        self.shown = f"{self.server.shown}, POST /api/kernels, WebSocket …/channels, {peer.fields['framing']}, code {work.text!r}"
        try:
            super().__init__(ctx, self.server.port, work, peer.fields["framing"])
            self.server.await_rest()
        except (DoesNotWork, OSError, ValueError, KeyError) as e:
            self.server.stop()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"the server does not answer: {e}") from e

    def settle(self):
        self.server.settle()

    def rest(self):
        self.server.await_rest()

    def growth_mb(self):
        return self.server.growth_mb("gate")

    def close(self):
        self.server.stop()


# --- jupyter_server ---------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Host:
    """A running jupyter_server."""

    def __init__(self, ctx):
        self.folder, self.port, self.token = ctx.folder("jupyter-server"), free_port(), secrets.token_hex(16)
        argv = [PYTHON, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
                f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.folder}",
                "--ServerApp.limit_rate=False"]
        folder = str(self.folder)
        environment = {**launch.ENVIRONMENT, "HOME": folder, "TMPDIR": folder, "IPYTHONDIR": folder,
                       "JUPYTER_DATA_DIR": folder, "JUPYTER_RUNTIME_DIR": folder, "JUPYTER_NO_CONFIG": "1",
                       "JUPYTER_TOKEN": self.token}
        self.shown = ctx.shown(shlex.join(argv))
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment,
                                            process_group=0, preexec_fn=server.end_with_parent)
        try:
            self.await_answer()
        except BaseException:
            self.stop()
            raise

    def await_answer(self):
        end = time.monotonic() + START_S
        while True:
            try:
                with connect(self.port) as connection:
                    if exchange(connection, request("GET", f"/api/status?token={self.token}"))[0] == 200:
                        return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > end:
                raise DoesNotWork(f"jupyter_server did not start: {self.last_words()}")
            time.sleep(0.05)

    def last_words(self):
        lines = (self.folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"

    def stop(self):
        """It ends its kernels by itself; whoever is left then is ended here."""
        left = []
        for pid, depth in launch.family(self.process.pid):
            try:
                left += [os.pidfd_open(pid)] if depth else []
            except ProcessLookupError:
                pass
        self.process.terminate()
        try:
            self.process.wait(server.STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for fd in left:
            try:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(fd)


class OpenedHost(Channels):
    burst_size, most_bursts = 10, 5
    grows = "growth of the server's memory"

    def __init__(self, ctx, work, framing):
        self.host = Host(ctx)
        self.shown = f"{self.host.shown}, POST /api/kernels, WebSocket …/channels, {framing}, code {work.text!r}"
        try:
            super().__init__(ctx, self.host.port, work, framing, self.host.token)
            self.base_kib = server.memory_kib(self.host.process.pid)
        except (DoesNotWork, OSError, ValueError, KeyError) as e:
            self.host.stop()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"jupyter_server does not answer: {e}") from e

    def growth_mb(self):
        return server.mb(server.memory_kib(self.host.process.pid, "VmHWM") - self.base_kib)

    def close(self):
        self.host.stop()


@dataclasses.dataclass(frozen=True)
class HostPeer:
    """Debian's jupyter_server; its kernels are ipykernels."""

    name: str
    framing: str
    program: str = PYTHON
    holds: str = "nothing"
    version: tuple = ("-c", "import jupyter_server as s, ipykernel; print('jupyter_server', s.__version__, "
                            "'ipykernel', ipykernel.__version__)")

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        lacks = [name for name in ("jupyter_server", "ipykernel") if not importlib.util.find_spec(name)]
        return f"not installed: {', '.join(lacks)}" if lacks else None

    def open(self, ctx, work):
        return OpenedHost(ctx, work, self.framing)
