# SPDX-License-Identifier: Apache-2.0
"""A box: made, found, kept alive, ended."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _json, _owner, _tls, types
from .._fields import InitialFiles, NetworkGiven, box_reference, creation, seconds
from .._transport import aio as io
from ..errors import BoxGone, Closed, GloveboxError, InvalidRequest, NotFound
from ..info import BoxInfo, Figures, KernelInfo, box_info, kernel_info
from .approvals import AsyncApprovals
from .files import AsyncFiles
from .http import JSON_TYPE, AsyncHttp, quoted
from .kernels import AsyncKernel
from .network import AsyncNetwork, AsyncPorts
from .running import AsyncRunning
from .terminal import AsyncTerminal
from .tools import AsyncTools

if TYPE_CHECKING:
    from .client import AsyncClient

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


class AsyncBox(AsyncRunning):
    """A sealed box with its files and processes, made when it is entered or first used, ended when it is left.

        async with glovebox.AsyncBox() as box:
            print((await box.run("1 + 1")).text)

    Without a client or a URL it is made by a private server, which is started and stopped with it. All fields are optional:

    name: unique among yours. limits: {"memory_bytes": …, "cpus": …} and others of glovebox.types.BoxLimits. env: environment variables.
    mounts: directories of the server's machine. files: {"path": content} put into its working directory first. network: "none", "open",
    rules that it may reach (["pypi.org:443"]), or all of glovebox.types.BoxNetwork. ttl, idle: seconds that it lives, and lives unused.
    tools, approvals: of MCP servers. ports: for clients of ipybox. metadata: texts of yours. See docs/boxes.md for each.

    A box that a program forgets is ended when the program ends; one whose program was killed, by its idle time, or with the private server.
    """

    def __init__(self, *, client: Optional[AsyncClient] = None, url: Optional[str] = None, token: Optional[str] = None, timeout: float = 60.0,
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
        self._client = client if client is not None else clients.AsyncClient(url, token, timeout=timeout, verify=verify)
        self._reference: Optional[str] = None  # of one that is there
        self._ends = True  # with close()
        self._http: Optional[AsyncHttp] = None
        self._path = ""
        self._id = ""
        self._opening = io.Lock()
        self._closed = False
        self._process = os.getpid()
        #: Of a fork: what it was made of had these, and it has not: threads, processes, sockets.
        self.lost: Tuple[str, ...] = ()
        #: Its files.
        self.files = AsyncFiles(self)
        #: What it may reach.
        self.network = AsyncNetwork(self)
        #: Its ports that clients can reach.
        self.ports = AsyncPorts(self)
        #: Calls of tools that wait for somebody to allow them.
        self.approvals = AsyncApprovals(self)
        #: Servers whose tools its code can call.
        self.tools = AsyncTools(self)

    @classmethod
    def connect(cls, id_or_name: str, *, client: Optional[AsyncClient] = None, url: Optional[str] = None, token: Optional[str] = None,
                timeout: float = 60.0, verify: _tls.Verify = True, delete_on_exit: bool = False) -> AsyncBox:
        """One that is there, by its id or its name. Leaving it does not end it, unless delete_on_exit says so."""
        box = cls(client=client, url=url, token=token, timeout=timeout, verify=verify)
        box._reference = box_reference(id_or_name)
        box._ends = delete_on_exit
        return box

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._id or self._reference or 'not made yet'}{', closed' if self._closed else ''}>"

    # --- its life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> AsyncBox:
        return await self.open()

    async def __aexit__(self, kind: object, error: object, _: object) -> None:
        try:
            await self.close()
        except GloveboxError:
            # What went wrong first is what the caller is to see; the box is ended by its time, or with this program.
            if kind is None:
                raise

    async def open(self, *, own: bool = True) -> AsyncBox:
        """Makes it, or looks whether it is there, if that was not done yet. own: this program ends it at its own end at the latest."""
        if self._http is not None:
            if own and self._ends and self._id:
                _owner.own(self._id, self._http.way())
            return self
        _owner.check(self._process)
        async with self._opening:
            if self._http is None:
                if self._closed:
                    raise Closed("the box was closed: make another one, or connect to one that is there")
                await self._open(own)
        return self

    async def _open(self, own: bool) -> None:
        try:
            http = await self._client.http()
            if self._reference is None:
                await self._create(http, own)
            else:
                self._known(http, await http.answer("GET", f"/v1/boxes/{self._reference}"), own)
        except BaseException:
            if self._given_client is None:
                await self._client.close()
                self._client = self._client.again()
            raise

    def _known(self, http: AsyncHttp, answer: _json.Object, own: bool) -> None:
        info = box_info(answer)
        if own and self._ends:
            _owner.own(info.id, http.way())
        self._id, self._path = info.id, f"/v1/boxes/{info.id}"
        self.memory = info.limits.get("memory_bytes")
        self._http = http

    async def _create(self, http: AsyncHttp, own: bool) -> None:
        body, key = _json.encode(self._fields, "POST /v1/boxes"), os.urandom(12).hex()
        try:
            reply = await http.call("POST", "/v1/boxes", body, (JSON_TYPE,), key=key)
            self._known(http, _json.decode(reply.body, http.where("POST", "/v1/boxes")), own)
        except Exception:
            raise
        except BaseException:
            # Ctrl-C, or its task is cancelled. It may have been made, or be made just now: the same request says which it is.
            async def undo(seconds: float) -> None:
                try:
                    again = await http.call("POST", "/v1/boxes", body, (JSON_TYPE,), key=key, timeout=seconds)
                    made = _json.text(_json.decode(again.body, http.where("POST", "/v1/boxes")), "id")
                    await http.call("DELETE", f"/v1/boxes/{quoted(made)}", timeout=seconds)
                    _owner.disown(made)
                except GloveboxError:
                    pass

            await io.finish(undo, 10.0)
            raise

    async def close(self) -> None:
        """Ends it, unless it was only connected to; and the private server, if nothing else needs it. A second time does nothing."""
        was_closed, self._closed = self._closed, True
        if was_closed or not _owner.is_here(self._process):
            return
        try:
            if self._http is not None and self._ends:
                await io.finish(self._end, _END_S)
        finally:
            if self._given_client is None:
                await self._client.close()

    async def _end(self, timeout: float) -> None:
        assert self._http is not None
        try:
            await self._http.call("DELETE", self._path, timeout=timeout)
        except (BoxGone, NotFound):
            pass
        _owner.disown(self._id)

    async def delete(self) -> None:
        """Ends it now, also if it was only connected to. Returns when nothing of it is left."""
        http, path = await self.way()
        await http.call("DELETE", path)
        _owner.disown(self._id)
        self._ends = False
        await self.close()

    # --- how it is reached ----------------------------------------------------------------------------------------------

    async def way(self) -> Tuple[AsyncHttp, str]:
        """How to call, and its path; makes it if it is not made yet."""
        http = self._http
        if http is None:
            await self.open()
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

    async def info(self) -> BoxInfo:
        """All that the server says of it. That is no use of it: it does not keep it alive."""
        http, path = await self.way()
        return box_info(await http.answer("GET", path))

    async def figures(self) -> Figures:
        """What it has used."""
        found = (await self.info()).figures
        if found is None:
            raise GloveboxError(f"the server has no figures of the box {self._id}")
        return found

    async def extend(self, ttl: Optional[float] = None, *, idle: Optional[float] = None, metadata: Optional[Mapping[str, str]] = None) -> BoxInfo:
        """ttl: seconds that it lives from now on; idle: seconds that it may be unused; metadata: in place of what it had. With nothing at all it
        is only kept from being idle."""
        fields = {"ttl_seconds": None if ttl is None else seconds(ttl, "ttl"), "idle_seconds": None if idle is None else seconds(idle, "idle"),
                  "metadata": None if metadata is None else dict(metadata)}
        http, path = await self.way()
        return box_info(await http.answer("PATCH", path, {key: value for key, value in fields.items() if value is not None}))

    # --- copies -------------------------------------------------------------------------------------------------------

    async def fork(self, name: Optional[str] = None, *, ttl: Optional[float] = None, idle: Optional[float] = None,
                   metadata: Optional[Mapping[str, str]] = None) -> AsyncBox:
        """Another box with the same variables and the same files, each on its own from then on; it ends when it is left or closed, or with the
        private server of this one. What it does not have is in its `lost`."""
        fields = _fork_fields(ttl, idle, metadata)
        if name is not None:
            fields["name"] = name
        http, path = await self.way()
        answer = await http.answer("POST", f"{path}/fork", fields)
        return self._forked(http, answer, answer)

    async def forks(self, count: int, *, ttl: Optional[float] = None, idle: Optional[float] = None,
                    metadata: Optional[Mapping[str, str]] = None) -> List[AsyncBox]:
        """Several at once: the session is written down once."""
        fields = _fork_fields(ttl, idle, metadata)
        fields["count"] = count
        http, path = await self.way()
        answer = await http.answer("POST", f"{path}/fork", fields)
        return [self._forked(http, row, answer) for row in _json.objects(answer, "boxes")]

    def _forked(self, http: AsyncHttp, answer: _json.Object, said: _json.Object) -> AsyncBox:
        box = AsyncBox(client=self._client)
        box._known(http, answer, True)
        box.lost = _json.texts(said, "lost")
        return box

    # --- kernels and terminals ------------------------------------------------------------------------------------------

    def kernel(self, name: str = "main") -> AsyncKernel:
        """One of its kernels; it is started with its first cell."""
        return AsyncKernel(self, name)

    async def list_kernels(self) -> List[KernelInfo]:
        http, path = await self.way()
        return [kernel_info(row) for row in _json.objects(await http.answer("GET", f"{path}/kernels"), "kernels")]

    async def interrupt(self, kernel: str = "main") -> None:
        """KeyboardInterrupt for the cell that the kernel runs."""
        await self.kernel(kernel).interrupt()

    async def restart(self, kernel: str = "main") -> None:
        """Ends the kernel and starts it anew: variables are lost, cells that run or wait are cancelled."""
        await self.kernel(kernel).restart()

    def terminal(self, id: Optional[str] = None, *, columns: int = 80, rows: int = 24) -> AsyncTerminal:
        """A login shell in a terminal, opened when it is entered or first used; or, with the id of one, that one again."""
        return AsyncTerminal(self, id, columns, rows)



