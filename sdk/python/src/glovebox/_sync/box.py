# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/box.py: do not edit.
"""A box: made, found, kept alive, ended."""
from __future__ import annotations

import os
from typing import Dict, List, Mapping, Optional, Sequence, TYPE_CHECKING, Tuple, Union

from .. import _json, _owner, _tls, types
from .._fields import InitialFiles, NetworkGiven, box_reference, creation, seconds
from .._transport import blocking as io
from ..errors import BoxGone, Closed, GloveboxError, InvalidRequest, NotFound
from ..info import BoxInfo, Figures, KernelInfo, box_info, kernel_info
from .approvals import Approvals
from .files import Files
from .http import JSON_TYPE, Http, quoted
from .kernels import Kernel
from .network import Network, Ports
from .running import Running
from .terminal import Terminal
from .tools import Tools

if TYPE_CHECKING:
    from .client import Client

_END_S = 20.0


def _fork_fields(ttl: Optional[float], idle: Optional[float], metadata: Optional[Mapping[str, str]]) -> Dict[str, object]:
    fields: Dict[str, object] = {}
    if ttl is not None:
        fields["ttl_seconds"] = seconds(ttl, "ttl")
    if idle is not None:
        fields["idle_seconds"] = seconds(idle, "idle")
    if metadata is not None:
        fields["metadata"] = dict(metadata)
    return fields


class Box(Running):
    """A sealed box with its files and processes, made when it is entered or first used, ended when it is left.

        with glovebox.Box() as box:
            print((box.run("1 + 1")).text)

    Without a client or a URL it is made by a private server, which is started and stopped with it. All fields are optional:

    name: unique among yours. limits: {"memory_bytes": …, "cpus": …} and others of glovebox.types.BoxLimits. env: environment variables.
    mounts: directories of the server's machine. files: {"path": content} put into its working directory first. network: "none", "open",
    rules that it may reach (["pypi.org:443"]), or all of glovebox.types.BoxNetwork. ttl, idle: seconds that it lives, and lives unused.
    tools, approvals: of MCP servers. ports: for clients of ipybox. metadata: texts of yours. See docs/boxes.md for each.

    A box that a program forgets is ended when the program ends; one whose program was killed, by its idle time, or with the private server.
    """

    def __init__(self, *, client: Optional[Client] = None, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0,
                 verify: _tls.Verify = True, name: Optional[str] = None, environment: Optional[str] = None, limits: Optional[types.BoxLimits] = None,
                 env: Optional[Mapping[str, str]] = None, mounts: Optional[Sequence[types.BoxMount]] = None, files: Optional[InitialFiles] = None,
                 network: Optional[NetworkGiven] = None, ports: Union[bool, types.BoxPorts, None] = None, workdir: Optional[str] = None,
                 ttl: Optional[float] = None, idle: Optional[float] = None, tools: Optional[Sequence[str]] = None,
                 approvals: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, str]] = None) -> None:
        from . import client as clients  # which imports this module

        if client is not None and (url is not None or token is not None):
            raise InvalidRequest("client=… knows where its server is: url=… and token=… are for boxes without one")
        self._fields = creation(name=name, environment=environment, limits=limits, env=env, mounts=mounts, files=files, network=network, ports=ports,
                                workdir=workdir, ttl=ttl, idle=idle, tools=tools, approvals=approvals, metadata=metadata)
        self._given_client = client
        self._client = client if client is not None else clients.Client(url, token, timeout=timeout, verify=verify)
        self._reference: Optional[str] = None  # of one that is there
        self._ends = True  # with close()
        self._http: Optional[Http] = None
        self._path = ""
        self._id = ""
        self._opening = io.Lock()
        self._closed = False
        self._process = os.getpid()
        #: Of a fork: what it was made of had these, and it has not: threads, processes, sockets.
        self.lost: Tuple[str, ...] = ()
        #: Its files.
        self.files = Files(self)
        #: What it may reach.
        self.network = Network(self)
        #: Its ports that clients can reach.
        self.ports = Ports(self)
        #: Calls of tools that wait for somebody to allow them.
        self.approvals = Approvals(self)
        #: Servers whose tools its code can call.
        self.tools = Tools(self)

    @classmethod
    def connect(cls, id_or_name: str, *, client: Optional[Client] = None, url: Optional[str] = None, token: Optional[str] = None,
                timeout: float = 60.0, verify: _tls.Verify = True, delete_on_exit: bool = False) -> Box:
        """One that is there, by its id or its name. Leaving it does not end it, unless delete_on_exit says so."""
        box = cls(client=client, url=url, token=token, timeout=timeout, verify=verify)
        box._reference = box_reference(id_or_name)
        box._ends = delete_on_exit
        return box

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id or self._reference or 'not made yet'}{', closed' if self._closed else ''}>"

    # --- its life -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Box:
        return self.open()

    def __exit__(self, kind: object, error: object, _: object) -> None:
        try:
            self.close()
        except GloveboxError:
            # What went wrong first is what the caller is to see; the box is ended by its time, or with this program.
            if kind is None:
                raise

    def open(self, *, own: bool = True) -> Box:
        """Makes it, or looks whether it is there, if that was not done yet. own: this program ends it at its own end at the latest."""
        if self._http is not None:
            if own and self._ends and self._id:
                _owner.own(self._id, self._http.way())
            return self
        _owner.check(self._process)
        with self._opening:
            if self._http is None:
                if self._closed:
                    raise Closed("the box was closed: make another one, or connect to one that is there")
                self._open(own)
        return self

    def _open(self, own: bool) -> None:
        try:
            http = self._client.http()
            if self._reference is None:
                self._create(http, own)
            else:
                self._known(http, http.answer("GET", f"/v1/boxes/{self._reference}"), own)
        except BaseException:
            if self._given_client is None:
                self._client.close()
                self._client = self._client.again()
            raise

    def _known(self, http: Http, answer: _json.Object, own: bool) -> None:
        info = box_info(answer)
        if own and self._ends:
            _owner.own(info.id, http.way())
        self._id, self._path = info.id, f"/v1/boxes/{info.id}"
        self.memory = info.limits.get("memory_bytes")
        self._http = http

    def _create(self, http: Http, own: bool) -> None:
        body, key = _json.encode(self._fields, "POST /v1/boxes"), os.urandom(12).hex()
        try:
            reply = http.call("POST", "/v1/boxes", body, (JSON_TYPE,), key=key)
            self._known(http, _json.decode(reply.body, http.where("POST", "/v1/boxes")), own)
        except Exception:
            raise
        except BaseException:
            # Ctrl-C, or its task is cancelled. It may have been made, or be made just now: the same request says which it is.
            def undo(seconds: float) -> None:
                try:
                    again = http.call("POST", "/v1/boxes", body, (JSON_TYPE,), key=key, timeout=seconds)
                    made = _json.text(_json.decode(again.body, http.where("POST", "/v1/boxes")), "id")
                    http.call("DELETE", f"/v1/boxes/{quoted(made)}", timeout=seconds)
                    _owner.disown(made)
                except GloveboxError:
                    pass

            io.finish(undo, 10.0)
            raise

    def close(self) -> None:
        """Ends it, unless it was only connected to; and the private server, if nothing else needs it. A second time does nothing."""
        was_closed, self._closed = self._closed, True
        if was_closed or not _owner.is_here(self._process):
            return
        try:
            if self._http is not None and self._ends:
                io.finish(self._end, _END_S)
        finally:
            if self._given_client is None:
                self._client.close()

    def _end(self, timeout: float) -> None:
        assert self._http is not None
        try:
            self._http.call("DELETE", self._path, timeout=timeout)
        except (BoxGone, NotFound):
            pass
        _owner.disown(self._id)

    def delete(self) -> None:
        """Ends it now, also if it was only connected to. Returns when nothing of it is left."""
        http, path = self.way()
        http.call("DELETE", path)
        _owner.disown(self._id)
        self._ends = False
        self.close()

    # --- how it is reached ----------------------------------------------------------------------------------------------

    def way(self) -> Tuple[Http, str]:
        """How to call, and its path; makes it if it is not made yet."""
        http = self._http
        if http is None:
            self.open()
            http = self._http
            assert http is not None
        elif self._closed:
            raise Closed(f"the box {self._id} was closed by this program: make another one, or connect to one that is there")
        return http, self._path

    @property
    def id(self) -> str:
        if not self._id:
            raise GloveboxError("the box is not made yet, and has no id: enter it by `with`, call open(), or use it")
        return self._id

    # --- what it is ---------------------------------------------------------------------------------------------------

    def info(self) -> BoxInfo:
        """All that the server says of it. That is no use of it: it does not keep it alive."""
        http, path = self.way()
        return box_info(http.answer("GET", path))

    def figures(self) -> Figures:
        """What it has used."""
        found = (self.info()).figures
        if found is None:
            raise GloveboxError(f"the server has no figures of the box {self._id}")
        return found

    def extend(self, ttl: Optional[float] = None, *, idle: Optional[float] = None, metadata: Optional[Mapping[str, str]] = None) -> BoxInfo:
        """ttl: seconds that it lives from now on; idle: seconds that it may be unused; metadata: in place of what it had. With nothing at all it
        is only kept from being idle."""
        fields = {"ttl_seconds": None if ttl is None else seconds(ttl, "ttl"), "idle_seconds": None if idle is None else seconds(idle, "idle"),
                  "metadata": None if metadata is None else dict(metadata)}
        http, path = self.way()
        return box_info(http.answer("PATCH", path, {key: value for key, value in fields.items() if value is not None}))

    # --- copies -------------------------------------------------------------------------------------------------------

    def fork(self, name: Optional[str] = None, *, ttl: Optional[float] = None, idle: Optional[float] = None,
             metadata: Optional[Mapping[str, str]] = None) -> Box:
        """Another box with the same variables and the same files, each on its own from then on; it ends when it is left or closed, or with the
        private server of this one. What it does not have is in its `lost`."""
        fields = _fork_fields(ttl, idle, metadata)
        if name is not None:
            fields["name"] = name
        http, path = self.way()
        answer = http.answer("POST", f"{path}/fork", fields)
        return self._forked(http, answer, answer)

    def forks(self, count: int, *, ttl: Optional[float] = None, idle: Optional[float] = None,
              metadata: Optional[Mapping[str, str]] = None) -> List[Box]:
        """Several at once: the session is written down once."""
        fields = _fork_fields(ttl, idle, metadata)
        fields["count"] = count
        http, path = self.way()
        answer = http.answer("POST", f"{path}/fork", fields)
        return [self._forked(http, row, answer) for row in _json.objects(answer, "boxes")]

    def _forked(self, http: Http, answer: _json.Object, said: _json.Object) -> Box:
        box = Box(client=self._client)
        box._known(http, answer, True)
        box.lost = _json.texts(said, "lost")
        return box

    # --- kernels and terminals ------------------------------------------------------------------------------------------

    def kernel(self, name: str = "main") -> Kernel:
        """One of its kernels; it is started with its first cell."""
        return Kernel(self, name)

    def list_kernels(self) -> List[KernelInfo]:
        http, path = self.way()
        return [kernel_info(row) for row in _json.objects(http.answer("GET", f"{path}/kernels"), "kernels")]

    def interrupt(self, kernel: str = "main") -> None:
        """KeyboardInterrupt for the cell that the kernel runs."""
        self.kernel(kernel).interrupt()

    def restart(self, kernel: str = "main") -> None:
        """Ends the kernel and starts it anew: variables are lost, cells that run or wait are cancelled."""
        self.kernel(kernel).restart()

    def terminal(self, id: Optional[str] = None, *, columns: int = 80, rows: int = 24) -> Terminal:
        """A login shell in a terminal, opened when it is entered or first used; or, with the id of one, that one again."""
        return Terminal(self, id, columns, rows)



