# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/network.py: do not edit.
"""What a box may reach, and what of it can be reached."""
from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, TYPE_CHECKING, Union

from .. import _json
from ..info import NetworkInfo, PublishedPort, network_info, published_port

if TYPE_CHECKING:
    from .. import types
    from .box import Box

Rule = Union[str, "types.NetworkRule", Mapping[str, object]]


class Network:
    """box.network. Rules are texts ("pypi.org:443", "*.pypi.org", "10.1.0.0/16", "!…" denies) or glovebox.types.NetworkRule."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def get(self) -> NetworkInfo:
        """The policy and its rules; with the policy learn, also those that it would need."""
        return (self._box.info()).network

    def set(self, policy: str, rules: Sequence[Rule] = (), *, max_connections: Optional[int] = None, max_bytes: Optional[int] = None,
            bytes_per_second: Optional[int] = None) -> NetworkInfo:
        """none, allow (what rules name), open (public addresses), or learn. In force when this returns; what it does not allow is cut."""
        fields: Dict[str, object] = {"policy": policy, "rules": list(rules)}
        for key, value in (("max_connections", max_connections), ("max_bytes", max_bytes), ("bytes_per_second", bytes_per_second)):
            if value is not None:
                fields[key] = value
        http, box = self._box.way()
        return network_info(_json.member(http.answer("PUT", f"{box}/network", fields), "network"))

    def allow(self, *rules: Rule) -> NetworkInfo:
        """These rules, too, beside those that there are."""
        now = self.get()
        policy = "allow" if now.policy == "none" else now.policy
        kept: List[Rule] = list(now.rules)
        return self.set(policy, kept + [rule for rule in rules if rule not in kept], max_connections=now.max_connections, max_bytes=now.max_bytes,
                              bytes_per_second=now.bytes_per_second)

    def deny_all(self) -> NetworkInfo:
        """Nothing at all, from now on."""
        return self.set("none")


class Ports:
    """box.ports: programs in the box that clients can reach."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def publish(self, port: int, *, loopback: Optional[int] = 0) -> PublishedPort:
        """Clients may reach what listens on this port, now or later. loopback: which port of the server's 127.0.0.1 it gets: 0 a free one, None
        none (then there is only its path on the server)."""
        http, box = self._box.way()
        return published_port(http.answer("POST", f"{box}/ports", {"port": port, "loopback": loopback}))

    def list(self) -> List[PublishedPort]:
        http, box = self._box.way()
        return [published_port(row) for row in _json.objects(http.answer("GET", f"{box}/ports"), "published_ports")]

    def get(self, port: int) -> PublishedPort:
        http, box = self._box.way()
        return published_port(http.answer("GET", f"{box}/ports/{int(port)}"))

    def unpublish(self, port: int) -> None:
        """What goes through it is cut; nobody can connect any more when this returns."""
        http, box = self._box.way()
        http.done("DELETE", f"{box}/ports/{int(port)}")
