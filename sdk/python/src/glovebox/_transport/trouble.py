# SPDX-License-Identifier: Apache-2.0
"""What can become of a connection. Whoever asked for something makes an error of it that says what was asked."""
from __future__ import annotations


class Trouble(Exception):
    """The base of these. They never leave the package."""


class Refused(Trouble):
    """No connection: nothing was sent."""


class Untrusted(Refused):
    """Somebody is there, and is not who it should be, or speaks no TLS. It will be the same the next time."""


class Lost(Trouble):
    """It broke: what was sent may have arrived."""


class Silent(Trouble):
    """Nothing came, or nothing was taken, for as long as the caller waits."""


class Nonsense(Trouble):
    """What came is no HTTP, or no WebSocket."""
