# SPDX-License-Identifier: Apache-2.0
"""sandbox_runtime, which is glovebox.compat.sandbox_runtime."""
from __future__ import annotations

from glovebox.compat.names import become

become("sandbox_runtime")
