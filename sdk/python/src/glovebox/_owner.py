# SPDX-License-Identifier: Apache-2.0
"""What belongs to which process, and what is ended when one ends.

A process that was forked has copies of the clients and boxes of its parent. They are not its own: it ends nothing, and what
it does with them is refused. What a process has made and never left (a box without `with`, an event loop that was closed
too early) is ended at its exit; if it is killed, by the idle time of the box, or with the private server.
"""
from __future__ import annotations

import atexit
import os
import socket
import ssl
import time
from typing import Dict, List, Optional, Tuple

from ._address import Address
from .errors import WrongProcess

# For all boxes together.
_AT_EXIT_S = 10.0


class Way:
    """How to reach a server without a loop, a pool or anything else that may be gone."""

    def __init__(self, address: Address, headers: List[Tuple[bytes, bytes]], context: Optional[ssl.SSLContext]) -> None:
        self._address, self._headers, self._context = address, headers, context

    def delete(self, path: str, timeout: float) -> None:
        import http.client  # costs as much as half of the package

        address = self._address
        sock: socket.socket
        if address.unix is not None:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.settimeout(timeout)
            sock.connect(address.unix)
        else:
            sock = socket.create_connection((address.host, address.port), timeout)
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_hostname=address.host)
        with sock:
            connection = http.client.HTTPConnection(address.host)
            connection.sock = sock
            connection.putrequest("DELETE", address.prefix + path, skip_host=True, skip_accept_encoding=True)
            for name, value in self._headers:
                connection.putheader(name.decode("latin-1"), value.decode("latin-1"))
            connection.endheaders()
            connection.getresponse().read(1)


_boxes: Dict[str, Way] = {}
_process = os.getpid()


def own(box_id: str, way: Way) -> None:
    """From now on this process ends it, unless disown() comes first."""
    _boxes[box_id] = way


def disown(box_id: str) -> None:
    _boxes.pop(box_id, None)


def check(process: int) -> None:
    if process != os.getpid():
        raise WrongProcess(f"this belongs to process {process}, and this is process {os.getpid()}, which was forked from it: "
                           "make a box or a client of its own here")


def is_here(process: int) -> bool:
    return process == os.getpid()


def _end_all() -> None:
    if _process != os.getpid():
        return
    until = time.monotonic() + _AT_EXIT_S
    while _boxes:
        box_id, way = _boxes.popitem()
        left = until - time.monotonic()
        if left <= 0:
            return
        try:
            way.delete(f"/v1/boxes/{box_id}", min(left, 5.0))
        except Exception:  # of whatever kind: its idle time ends it
            pass


def _after_fork() -> None:
    global _process
    _process = os.getpid()
    _boxes.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_after_fork)
