# SPDX-License-Identifier: Apache-2.0
"""Servers that clients have registered with their boxes, when the gate is killed with -9: the next one has them, for who may call them, and they go with their boxes."""
import json
import os
import signal

import pytest

from gateway import SECRET, Asked, Box, audited, configuration, text_of
from mcp_servers import HONEST
from server import WARM, needs_root, serve, until  # noqa: F401
from speak import Speaker

pytestmark = [needs_root, pytest.mark.more]

LONG = "x" * 20000  # longer than what the keeper has of a box


def mine(**env):
    return {"command": "/usr/bin/python3", "args": ["-c", HONEST], "env": env}


def register(box, name, **env):
    status, answer = box.server.call("POST", f"/v1/boxes/{box.id}/tools", {"server": name, "params": mine(**env)})
    assert status == 200, answer


def next_gate(server):
    server.next_gate(server.kill_gate())
    until(lambda: server.call("GET", "/health")[0] == 200, "the next gate serves")


def forgotten(server):
    """Names of servers whose box has ended, as the log has them."""
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line["server"] for line in lines if line.get("what") == "tool_server_gone"]


def is_running(server):
    return server.running("for line in sys.stdin")


def test_they_outlive_gates(serve, tmp_path):
    server = serve(tool_env=["LENT"], env={"LENT": "lent", "KEY": SECRET}, log_format="json", **WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server) as box, Box(server, tools=["mine"]) as other:
        register(box, "mine", SECRET="${LENT}")
        register(box, "long", SECRET=LONG)
        for _ in range(3):
            next_gate(server)
            assert text_of(box.call("mine", "env")) == "lent"
            assert text_of(box.call("long", "env")) == LONG
            assert box.says("from mcptools.mine.tool_1 import run\nprint(run(s='x'))") == "{'s': 'x'}\n"
            # Nobody may call more than before.
            assert sorted(server.call("GET", f"/v1/boxes/{box.id}")[1]["tools"]) == ["long", "mine"]
            assert box.call("honest", "env")[0] == "denied"
            assert other.call("mine", "env") == ("unknown", "there is no server 'mine'"), "it is that box's alone"
        assert {event["outcome"] for event in audited(server, box=other.id)} == {"unknown"}
        # The gate that has taken over tells the next tools process.
        old = server.pid_of("tools")
        os.kill(old, signal.SIGKILL)
        until(lambda: isinstance(box.call("mine", "env"), dict), "it is there again")
        assert server.pid_of("tools") != old and text_of(box.call("long", "env")) == LONG
        # Registered anew it is another one, also after a gate.
        register(box, "mine", SECRET="other")
        next_gate(server)
        assert text_of(box.call("mine", "env")) == "other"
        assert not forgotten(server) and SECRET not in server.log()
    until(lambda: sorted(forgotten(server)) == ["long", "mine"] and not is_running(server), "they go with their box")


def test_a_call_still_waits_for_approval(serve, tmp_path):
    server = serve(**WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server, approvals=["mine"]) as box:
        register(box, "mine", SECRET="s")
        next_gate(server)
        asked = Asked(box, "from mcptools.mine.env import run\nprint(run())")
        one, = asked.waiting()
        assert one["server"] == "mine" and not audited(server, box=box.id)
        assert server.call("POST", f"/v1/boxes/{box.id}/approvals", {"id": one["id"], "approved": True})[0] == 200
        assert asked.end()["stdout"] == "s\n"


def test_of_a_box_that_ends_with_the_gate(serve, tmp_path):
    """The next one has never known it."""
    server = serve(log_format="json", **WARM, **configuration(tmp_path, honest={"source": HONEST}))
    with Box(server) as stays:
        register(stays, "stays")
        goes = Box(server)
        register(goes, "goes")
        goes.says("import subprocess\nsubprocess.Popen(['sleep', '98765.25'])")
        init, gate, keeper = server.init_of(server.running("98765.25")[0]), server.pid_of("gate"), server.pid_of("keeper")
        os.kill(keeper, signal.SIGSTOP)  # who would tell this gate
        try:
            os.kill(gate, signal.SIGKILL)
            os.kill(init, signal.SIGKILL)
        finally:
            os.kill(keeper, signal.SIGCONT)
        server.next_gate(gate)
        until(lambda: forgotten(server) == ["goes"], "the next gate has it forgotten")
        assert text_of(stays.call("stays", "env")) == "none"
        assert forgotten(server) == ["goes"]


def test_a_session_of_mcp(serve, tmp_path):
    server = serve(**WARM, **configuration(tmp_path, honest={"source": HONEST}))
    speaker = Speaker(server)
    speaker.initialize()
    assert not speaker.call("register_mcp_server", server_name="mine", server_params=mine(SECRET="s"), where="apart").get("isError")
    next_gate(server)
    assert speaker.text("execute_ipython_cell", code="from mcptools.mine.env import run\nprint(run())") == "s\n"
    speaker.end()
    until(lambda: not is_running(server), "it goes with the session's box")
