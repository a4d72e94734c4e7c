# SPDX-License-Identifier: Apache-2.0
"""What sessions have. A program may set these before a session begins."""
from __future__ import annotations

#: The environment that boxes have anyway.
DEFAULT_IMAGE = "python:3.12-slim"
#: Seconds of a call.
DEFAULT_TIMEOUT = 30
#: Of all processes of a session together: bytes, or with k, m, g.
MEMORY_LIMIT = "512m"
#: CPU_QUOTA / CPU_PERIOD processors.
CPU_QUOTA = 100000
CPU_PERIOD = 100000
#: Seconds that a session may be unused; then it ends.
SESSION_TIMEOUT = 3600
#: No session reaches anything but the tools of its mcp_allowlist.
NETWORK_MODE = "none"
#: Where code in a session finds those.
MCP_SOCKET_PATH = "/tmp/mcp.sock"
MCP_SOCKET_DIR = "/tmp"
