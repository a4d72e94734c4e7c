# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/client.py: do not edit.
"""The way to a server, given or private, and its boxes."""
from __future__ import annotations

import functools
import os
import threading
import urllib.parse
import warnings
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _address, _json, _owner, _server, _tls, types
from .._fields import InitialFiles, NetworkGiven
from .._transport import blocking as io
from ..errors import Closed, InvalidRequest
from ..info import BoxInfo, box_info
from .box import Box
from .environments import Environments
from .http import Http
from .wire import BroughtWire, Wire

ANSWER_MAX = 256 * 1024 * 1024


class Client:
    """A server and how to talk to it. Without a URL, here or in GLOVEBOX_URL, it is a private one, which this process has for itself.

    url: http://HOST:PORT, https://HOST or unix:/PATH. token: or GLOVEBOX_TOKEN. timeout: seconds for a call in all, repetitions
    included; what runs in a box has its own. verify: False, a file or directory of certificates, or an ssl.SSLContext. headers: sent
    with every request. answer_max: bytes that one answer may have. transport: one of httpx, for a proxy for instance; it is not closed.

    Connections are kept and may be used by several tasks at once. Leave it by close() or `with`: the private server ends with its
    last client.
    """

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *, timeout: float = 60.0, verify: _tls.Verify = True,
                 headers: Optional[Mapping[str, str]] = None, answer_max: int = ANSWER_MAX, transport: Optional[io.Transport] = None) -> None:
        if not timeout > 0:
            raise InvalidRequest(f"timeout is {timeout!r}, and should be a number of seconds above 0")
        url = url or os.environ.get("GLOVEBOX_URL") or None
        self._given_url = url
        self._given = None if url is None else _address.parse(url)
        self._token = (token or (self._given.token if self._given else None) or os.environ.get("GLOVEBOX_TOKEN") or "").strip()
        if not all("!" <= c <= "~" for c in self._token):
            raise InvalidRequest("the token has characters that no token has: they are visible and ASCII [token=…, or GLOVEBOX_TOKEN]")
        self._timeout, self._verify, self._answer_max, self._transport = timeout, verify, answer_max, transport
        self._headers = _headers(headers or {})
        self._http: Optional[Http] = None
        self._server: Optional[_server.Server] = None
        self._start: Callable[[], _server.Server] = _server.acquire
        self._process = os.getpid()
        self._closed = False
        self._guard = threading.Lock()  # held for a moment, in both forms
        #: The boxes of this server.
        self.boxes = Boxes(self)
        #: What they can be made of.
        self.environments = Environments(self)

    @classmethod
    def _apart(cls, settings: _server.Settings, timeout: float = 60.0) -> Client:
        """One with a private server of its own, whatever GLOVEBOX_URL says, which has these options."""
        client = cls("unix:/", timeout=timeout)
        client._given = client._given_url = None
        client._start = functools.partial(_server.apart, settings)
        return client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._given.url if self._given else 'private server'}{', closed' if self._closed else ''}>"

    def __enter__(self) -> Client:
        self.http()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Boxes that are not private stay: they are ended by whoever made them, or by their time."""
        self._closed = True
        http, self._http = self._http, None
        server, self._server = self._server, None
        if not _owner.is_here(self._process):
            return
        if http is not None:
            http.closed = True
            http.wire.close()
        if server is not None:
            io.beside(_server.release, server)

    def __del__(self) -> None:
        server = getattr(self, "_server", None)
        if server is not None and _owner.is_here(self._process):
            self._server = None
            warnings.warn(f"{self!r} was never closed: use `with`, or close()", ResourceWarning, source=self, stacklevel=2)
            _server.release(server, wait=False)

    @property
    def url(self) -> Optional[str]:
        """Where the server is; None for a private one that nobody has needed yet."""
        return self._given.url if self._given else self._server.url if self._server else None

    def again(self) -> Client:
        """Another one like it, which is open."""
        url = self._given_url
        return type(self)(url, self._token or None, timeout=self._timeout, verify=self._verify, answer_max=self._answer_max, transport=self._transport)

    def http(self) -> Http:
        """What calls are made by; starts the private server if there is none."""
        if self._http is not None:
            return self._http
        _owner.check(self._process)
        if self._closed:
            raise Closed("the client was closed: make another one, or stay inside of its `with`")
        server: Optional[_server.Server] = None
        if self._given is None:
            started = io.in_thread(self._start, undo=_let_go)
            server = started
        with self._guard:
            if self._http is None and not self._closed:
                self._http = self._make(self._given or _address.parse(server.url if server is not None else ""))
                self._server, server = server, None
            http = self._http
        if server is not None:  # somebody was faster
            _server.release(server)
        if http is None:
            raise Closed("the client was closed meanwhile")
        return http

    def _make(self, address: _address.Address) -> Http:
        context = _tls.context(address, self._verify)
        wire: Union[Wire, BroughtWire] = Wire(address, context)
        if self._transport is not None:
            wire = BroughtWire(address, self._transport)
        headers = list(self._headers)
        if self._token:
            headers.append((b"authorization", b"Bearer " + self._token.encode()))
        return Http(address, wire, headers, self._timeout, self._answer_max, context, self._given is None, self._why_gone)

    def _why_gone(self) -> str:
        if self._server is None or self._server.lives():
            return ""
        return f"; the private server of this process has ended: {self._server.last_words() or 'it said nothing'}"

    def openapi(self) -> Dict[str, object]:
        """What the server says of its API."""
        return (self.http()).answer("GET", "/openapi.json")

    def health(self) -> Dict[str, object]:
        """Whether boxes can be made, by which version, sealed by what."""
        return (self.http()).answer("GET", "/health")


class Boxes:
    """client.boxes: making and finding them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, *, name: Optional[str] = None, environment: Optional[str] = None, limits: Optional[types.BoxLimits] = None,
               env: Optional[Mapping[str, str]] = None, mounts: Optional[Sequence[types.BoxMount]] = None, files: Optional[InitialFiles] = None,
               network: Optional[NetworkGiven] = None, ports: Union[bool, types.BoxPorts, None] = None, workdir: Optional[str] = None,
               ttl: Optional[float] = None, idle: Optional[float] = None, tools: Optional[Sequence[str]] = None,
               approvals: Optional[Sequence[str]] = None, metadata: Optional[Mapping[str, str]] = None) -> Box:
        """A box, made now: the same fields as Box(). It lives on by itself until its time is over; as a context manager it ends with that."""
        box = Box(client=self._client, name=name, environment=environment, limits=limits, env=env, mounts=mounts, files=files, network=network,
                       ports=ports, workdir=workdir, ttl=ttl, idle=idle, tools=tools, approvals=approvals, metadata=metadata)
        return box.open(own=False)

    def get(self, id_or_name: str) -> Box:
        """One that is there. Leaving it does not end it."""
        return Box.connect(id_or_name, client=self._client)

    def list(self, *, state: Optional[str] = None, metadata: Optional[Mapping[str, str]] = None, most: int = 10000) -> List[BoxInfo]:
        """Yours, the oldest first; of a state, or with these metadata."""
        http = self._client.http()
        found: List[BoxInfo] = []
        after: Optional[str] = None
        while len(found) < most:
            query: List[Tuple[str, str]] = [("limit", str(min(500, most - len(found))))]
            if state is not None:
                query.append(("state", state))
            query += [(f"metadata.{key}", value) for key, value in (metadata or {}).items()]
            if after is not None:
                query.append(("after", after))
            page = http.answer("GET", "/v1/boxes?" + urllib.parse.urlencode(query))
            rows = _json.objects(page, "boxes")
            found += [box_info(row) for row in rows]
            after = _json.text_or_none(page, "next")
            if after is None or not rows:
                break
        return found


def _let_go(server: _server.Server) -> None:
    _server.release(server, wait=False)


def _headers(given: Mapping[str, str]) -> List[Tuple[bytes, bytes]]:
    found: List[Tuple[bytes, bytes]] = []
    for name, value in given.items():
        if not name or any(not ("!" <= c <= "~") or c in "()<>@,;:\\\"/[]?={}" for c in name) or any(c < " " or c > "~" for c in value):
            raise InvalidRequest(f"headers: {name!r} or its value cannot be sent in a head")
        found.append((name.lower().encode(), value.encode()))
    return found
