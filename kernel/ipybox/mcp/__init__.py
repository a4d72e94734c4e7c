# SPDX-License-Identifier: Apache-2.0
"""MCP servers, called from code in a box."""
