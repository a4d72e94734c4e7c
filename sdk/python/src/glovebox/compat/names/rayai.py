# SPDX-License-Identifier: Apache-2.0
"""rayai, which is glovebox.compat.rayai."""
from __future__ import annotations

from glovebox.compat.names import become

become("rayai")
