# SPDX-License-Identifier: Apache-2.0
"""ExecutionContainer: a box with two ports, where ipybox has a container of Docker."""
from __future__ import annotations

import contextlib
import os
from typing import Dict, List, Optional

from ... import _address, types
from ..._async.box import AsyncBox
from ..._async.client import AsyncClient
from ...errors import ApiError, GloveboxError
from . import _routes
from ._alive import Alive
from ._binds import Bind, binds_of
from .utils import arun

__all__ = ["DEFAULT_TAG", "ExecutionContainer"]

DEFAULT_TAG = "ghcr.io/gradion-ai/ipybox"

# `glovebox ipybox cleanup` finds boxes by it.
_MARK = {"made_by": "ipybox"}


class ExecutionContainer:
    """A box whose executor and resource server are on two ports of this machine, from `async with` (or run()) to its end (or kill()).

        async with ExecutionContainer(binds={"data": "data"}) as container:
            async with ExecutionClient(port=container.executor_port) as client: …

    tag: which environment its code has. DEFAULT_TAG is the server's default one; of others, what is behind the last slash is the name. binds:
    directories of this machine, made if they are missing, by where they are below /app; ":ro" behind that lets code only read them. env: environment
    variables. executor_port, resource_port: else free ones. port_allocation_timeout and show_pull_progress mean nothing: a box has its ports when it
    is made, and nothing is pulled.

    The server is that of GLOVEBOX_URL and GLOVEBOX_TOKEN, else a private one, which ends with this program. What code may reach is public addresses,
    until init_firewall().
    """

    def __init__(self, tag: str = DEFAULT_TAG, binds: Optional[Dict[str, str]] = None, env: Optional[Dict[str, str]] = None,
                 executor_port: Optional[int] = None, resource_port: Optional[int] = None, port_allocation_timeout: float = 10,
                 show_pull_progress: bool = True) -> None:
        self.tag = tag
        self.binds = binds or {}
        self.env = env or {}
        self.show_pull_progress = show_pull_progress
        self._executor_port = executor_port
        self._resource_port = resource_port
        self._client: Optional[AsyncClient] = None
        self._box: Optional[AsyncBox] = None
        self._alive: Optional[Alive] = None
        self._known: List[int] = []  # ports in _routes

    async def __aenter__(self) -> ExecutionContainer:
        await self.run()
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        try:
            await self.kill()
        except GloveboxError:
            # What went wrong first is what the caller is to see; the box ends with this program.
            if exc_type is None:
                raise

    @property
    def executor_port(self) -> int:
        """Where ExecutionClient finds it. RuntimeError if it was not said and there is no box yet."""
        if self._executor_port is None:
            raise RuntimeError("Container not running")
        return self._executor_port

    @property
    def resource_port(self) -> int:
        """Where ResourceClient finds it. RuntimeError if it was not said and there is no box yet."""
        if self._resource_port is None:
            raise RuntimeError("Container not running")
        return self._resource_port

    async def run(self) -> None:
        """Makes the box. One that it had is killed first."""
        await self.kill()
        try:
            await self._run()
        except BaseException:
            # Also Ctrl-C, and a task that is cancelled.
            with contextlib.suppress(GloveboxError):
                await self._end()
            raise

    async def kill(self) -> None:
        """Ends the box; nothing of it is left then. Nothing happens if there is none, or in a process that was forked."""
        await self._end()

    async def init_firewall(self, allowed_domains: Optional[List[str]] = None) -> None:
        """From now on code in the box reaches these names, addresses and networks, and nothing else; as often as you like. Also rules as
        docs/network.md has them. RuntimeError if there is no box, or the server refuses."""
        if self._box is None:
            raise RuntimeError("Container not running")
        try:
            await self._box.network.set("allow", list(allowed_domains or []))
        except GloveboxError as e:
            raise RuntimeError(f"Failed to initialize firewall: {e}") from e

    # --- how it is made ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        client = self._client = AsyncClient()
        here = client.url is None or _routes.is_here(_address.parse(client.url))
        binds = [await arun(binds_of, host, at, here) for host, at in self.binds.items()]
        if client.url is None and binds:
            # An option takes the place of what the environment says, and does not add to it.
            roots = [*os.environ.get("GLOVEBOX_MOUNT_ROOT", "").split(","), *sorted({bind.root for bind in binds})]
            client = self._client = AsyncClient._apart([("mount-root", root.strip()) for root in roots if root.strip()])
        http = await client.http()
        box = self._box = await self._make(client, binds)
        info = await box.info()
        if info.ports is None:
            raise GloveboxError(f"the server at {http.address.url} made a box without ports")
        self._executor_port, self._resource_port = info.ports
        for port, path in zip(info.ports, ("jupyter", "ipybox")):
            _routes.add(port, http.address, client._token, f"/v1/boxes/{box.id}/{path}")
            self._known.append(port)
        self._alive = Alive(http, client.url or "", client._token, box.id, info.ttl_seconds, info.idle_seconds)

    async def _make(self, client: AsyncClient, binds: List[Bind]) -> AsyncBox:
        """Until the server knows what is meant: an environment by this name, a directory that may be mounted and has the one that is wanted."""
        environment: Optional[str] = _environment(self.tag)
        while True:
            mounts: List[types.BoxMount] = [bind.mount() for bind in binds]
            ports: types.BoxPorts = {"executor": self._executor_port or 0, "resource": self._resource_port or 0}
            box = AsyncBox(client=client, environment=environment, mounts=mounts or None, env=self.env or None, network="open", ports=ports, metadata=_MARK)
            try:
                return await box.open()
            except ApiError as e:
                at = e.field or ""
                if environment is not None and at == "environment":
                    if not _is_own_image(environment):
                        raise _unknown(self.tag, environment, e) from e
                    environment = None
                elif not any(at == f"mounts[{i}].root" and bind.up() for i, bind in enumerate(binds)):
                    raise

    async def _end(self) -> None:
        alive, self._alive = self._alive, None
        if alive is not None:
            alive.stop()
        while self._known:
            _routes.remove(self._known.pop())
        box, self._box = self._box, None
        client, self._client = self._client, None
        try:
            if box is not None:
                await box.close()
        finally:
            if client is not None:
                await client.close()


def _unknown(tag: str, environment: str, error: ApiError) -> ApiError:
    """The same refusal, which says what the tag was taken for."""
    made = type(error)(f"the tag {tag!r} means the environment {environment!r}: {error}; DEFAULT_TAG is the default one")
    made.__dict__.update(vars(error))
    return made


def _environment(tag: str) -> str:
    """The name that `glovebox ipybox build -t TAG` gives: what is behind the last slash, in letters that a name has."""
    name = "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789-_." else "-" for c in tag.rpartition("/")[2].lower())
    return name.lstrip("-_.")


def _is_own_image(environment: str) -> bool:
    """One of ipybox's own has nothing that the default environment would not do for."""
    return environment == "ipybox" or environment.startswith("ipybox-")
