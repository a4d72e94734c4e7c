# SPDX-License-Identifier: Apache-2.0
"""Which way leads to the ports of containers of this program, by their numbers.

A port is on 127.0.0.1 of the server's machine, and clients are given its number only. Where the server wants a token, or is on another
machine, they also need to know that.
"""
from __future__ import annotations

from typing import Dict, NamedTuple, Optional

from ... import _address

_HERE = ("localhost", "127.0.0.1", "::1")


class Route(NamedTuple):
    url: str
    token: Optional[str] = None


_routes: Dict[int, Route] = {}


def is_here(address: _address.Address) -> bool:
    """Whether a server is on this machine, as far as its address tells."""
    return address.unix is not None or address.host in _HERE


def add(port: int, address: _address.Address, token: str, path: str) -> None:
    """A container has this port; on its server, the same is at `path`."""
    if is_here(address):
        _routes[port] = Route(f"http://127.0.0.1:{port}", token or None)
    else:
        _routes[port] = Route(address.url + path, token or None)


def remove(port: int) -> None:
    _routes.pop(port, None)


def find(host: str, port: int) -> Route:
    """Also for ports that no container of ours has: of another process, or of ipybox itself."""
    known = _routes.get(port) if host in _HERE else None
    return known or Route(f"http://{host}:{port}")
