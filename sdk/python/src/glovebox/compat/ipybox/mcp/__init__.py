# SPDX-License-Identifier: Apache-2.0
"""Tools of MCP servers as functions. Both modules need the package `mcp` (pip install 'glovebox[ipybox]'), and reach servers from this program: in
a box, ResourceClient.generate_mcp_sources() does it."""
