# SPDX-License-Identifier: Apache-2.0
"""`glovebox mcp --allowed-domain`: an agent's box reaches what its host has allowed."""
import json
import subprocess

from conftest import program_path
from net import PRELUDE, needs_root, server, shared, world  # noqa: F401
from net_world import PUBLIC

pytestmark = needs_root


def said(server, *words, verb=("mcp",)):
    """What a cell prints that asks two names."""
    code = PRELUDE + 'say(*(r["at"] if isinstance(r, dict) else r for r in map(get, ("http://web.test/", "http://other.test/"))))'
    lines = [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}},
             {"jsonrpc": "2.0", "method": "notifications/initialized"},
             {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "execute_ipython_cell", "arguments": {"code": code}}}]
    process = subprocess.Popen([program_path(), *verb, "--url", f"unix:{server.path}", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        for line in lines:
            process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                return json.loads(answer["result"]["content"][0]["text"])
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def test_what_is_allowed_and_nothing_else(server):
    assert said(server, "--allowed-domain", "web.test") == [PUBLIC, 101]
    assert said(server)[0] != PUBLIC
