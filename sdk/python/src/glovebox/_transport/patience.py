# SPDX-License-Identifier: Apache-2.0
"""How long somebody waits: for each pause of the other side, and in all."""
from __future__ import annotations

import time
from typing import Optional

from .trouble import Silent


class Patience:
    __slots__ = ("pause", "until")

    def __init__(self, pause: Optional[float], until: Optional[float] = None) -> None:
        self.pause = pause
        self.until = until

    def left(self) -> Optional[float]:
        """For the next pause; None: without end."""
        if self.until is None:
            return self.pause
        left = self.until - time.monotonic()
        if left <= 0:
            raise Silent
        return left if self.pause is None or left < self.pause else self.pause
