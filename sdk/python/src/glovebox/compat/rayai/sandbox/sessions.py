# SPDX-License-Identifier: Apache-2.0
"""Sessions: each is a box, by the id that its caller chose, as long as this process lives or until it is cleaned up.

A session whose first call wants volumes or tools has a private server that allows just these; sessions that want the same share it, the others have the
one of this process. With GLOVEBOX_URL all are on that server, and it decides. A process that was forked has none of its parent's.
"""
from __future__ import annotations

import atexit
import os
import re
import threading
import time
from typing import Dict, List, Optional

from glovebox import types
from glovebox._sync.box import Box
from glovebox._sync.client import Client
from glovebox.errors import BoxGone, FileMissing, GloveboxError, InvalidRequest, NotFound, ServerUnreachable

from . import config
from .wishes import Server, Wish, environment_name, limits, texts, upward

_TTL_S = 86400


class Session:
    def __init__(self, id: str) -> None:
        self.id = id
        self.created_at = time.time()
        self._count = 0
        self._lock = threading.Lock()
        self._box: Optional[Box] = None
        self._server: Server = ()
        self._client: Optional[Client] = None
        self._is_over = False

    @property
    def count(self) -> int:
        """Of its calls, code and shell together."""
        return self._count

    def next_number(self) -> int:
        with self._lock:
            self._count += 1
            return self._count

    def box(self, wish: Optional[Wish]) -> Optional[Box]:
        """Its box, made as the first call wishes. None: there is none yet, and nobody wishes for one."""
        with self._lock:
            if self._box is None and wish is not None and not self._is_over:
                wish.check()
                server = () if os.environ.get("GLOVEBOX_URL") else wish.server()
                client = _take(server)
                try:
                    self._box = _made(self.id, wish, client)
                    self._server, self._client = server, client
                except BaseException:
                    _give_back(server)
                    raise
            return self._box

    def server_lives(self) -> bool:
        return self._client is not None and _lives(self._client)

    def end(self) -> None:
        """Ends its box, also under what runs in it."""
        with self._lock:
            box, self._box, self._is_over = self._box, None, True
        if box is not None:
            try:
                box.close()
            finally:
                _give_back(self._server)


def _made(id: str, wish: Wish, client: Client) -> Box:
    mounts = wish.mounts()
    tools = list(wish.mcp_allowlist or ())
    ttl: Optional[int] = _TTL_S
    idle: Optional[int] = config.SESSION_TIMEOUT
    first: Optional[InvalidRequest] = None
    while True:
        try:
            return Box(client=client, environment=environment_name(wish.image), limits=limits(), env=texts(wish.environment), mounts=mounts or None,
                       tools=tools or None, ttl=ttl, idle=idle, metadata={"rayai.session": id[:200]}).open()
        except InvalidRequest as e:
            first = first or e
            if e.field == "ttl_seconds" and ttl is not None:
                ttl = None  # as long as this server lets it
            elif e.field == "idle_seconds" and idle is not None:
                idle = None
            elif not _moved_up(mounts, e.field):
                raise _explained(first, wish) from None


def _explained(error: InvalidRequest, wish: Wish) -> InvalidRequest:
    """Which of the volumes it was, in the words of who asked."""
    match = re.fullmatch(r"mounts\[([0-9]+)\].*", error.field or "")
    if match is None:
        return error
    said = InvalidRequest(f"volumes: {list(wish.volumes or ())[int(match[1])]!r}: {error}")
    said.field = "volumes"
    return said


def _moved_up(mounts: List[types.BoxMount], field: Optional[str]) -> bool:
    """Whether the mount whose root the server does not allow can be asked for as a part of the directory above."""
    for i, mount in enumerate(mounts):
        if field in (f"mounts[{i}]", f"mounts[{i}].root"):
            above = upward(mount)
            if above is not None:
                mounts[i] = above
                return True
    return False


# --- all of this process -----------------------------------------------------------------------------------------


class _Shared:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.users = 0


_sessions: Dict[str, Session] = {}
_clients: Dict[Server, _Shared] = {}
_guard = threading.RLock()


def session(id: str) -> Session:
    """The one with this id, which begins with its first call."""
    with _guard:
        return _sessions.setdefault(id, Session(id))


def find(id: str) -> Optional[Session]:
    with _guard:
        return _sessions.get(id)


def forget(one: Session) -> bool:
    """Its id is free again. False: it was already."""
    with _guard:
        if _sessions.get(one.id) is not one:
            return False
        del _sessions[one.id]
        return True


def gone(one: Session, error: GloveboxError) -> bool:
    """Whether this means that the session has no box any more; then its id is free. A server that does not answer may do so again, a private one not."""
    if isinstance(error, ServerUnreachable):
        if one.server_lives():
            return False
    elif not isinstance(error, BoxGone) and not (isinstance(error, NotFound) and not isinstance(error, FileMissing)):
        return False
    forget(one)
    try:
        one.end()
    except GloveboxError:
        pass
    return True


def _take(server: Server) -> Client:
    with _guard:
        shared = _clients.get(server)
        if shared is not None and not _lives(shared.client):
            del _clients[server]
            shared.client.close()
            shared = None
        if shared is None:
            shared = _clients[server] = _Shared(Client._apart(server) if server else Client())
        shared.users += 1
        return shared.client


def _lives(client: Client) -> bool:
    """A private server that has ended is replaced; with one that was named nobody but its operator can do anything."""
    return client._server is None or client._server.lives()


def _give_back(server: Server) -> None:
    """The one of the whole process stays for the next session."""
    with _guard:
        shared = _clients.get(server)
        if shared is None:
            return
        shared.users -= 1
        if shared.users > 0 or not server:
            return
        del _clients[server]
    shared.client.close()


def _at_exit() -> None:
    # Boxes of other servers are ended by who owns them: glovebox/_owner.py.
    with _guard:
        shared = list(_clients.values())
        _clients.clear()
    for one in shared:
        one.client.close()


def _after_fork() -> None:
    global _guard
    _guard = threading.RLock()
    _sessions.clear()
    _clients.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
