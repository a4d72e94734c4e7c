# SPDX-License-Identifier: Apache-2.0
"""Tools of MCP servers for code in a box that has no network: calls, and who may call what."""
import os
import pathlib

import pytest

from gateway import SECRET, Box, audited, one_box, one_server, text_of  # noqa: F401
from server import SANITIZED, needs_root, status_of

pytestmark = [pytest.mark.more, needs_root]


# --- calls -----------------------------------------------------------------------------------------------------------


def test_a_tool_is_a_function(box):
    assert box.made["tools"] == ["honest"] and box.made["approvals"] == []
    assert box.says("from mcptools.honest.tool_1 import Params, run\nprint(run(s='x'), run(Params(s='y', n=3)))") == \
        "{'s': 'x'} {'s': 'y', 'n': 3.0}\n"
    assert box.says("print(await __import__('mcptools.honest.tool_1', fromlist=['x']).run_async(s='z'))") == "{'s': 'z'}\n"
    answer = box.cell("from mcptools.honest.fails import run\nrun()")
    assert answer["status"] == "error" and answer["error"]["name"] == "ToolError" and answer["error"]["value"] == "it failed"


@pytest.mark.more
def test_many_calls_at_once(box):
    code = "from mcptools.honest.tool_1 import run_async\nimport asyncio\nprint(len(set(await asyncio.gather(*(run_async(s=str(i)) for i in range(40))))))"
    assert box.says(code) == "40\n"


@pytest.mark.more
def test_a_thousand_calls(box):
    assert box.says("from mcptools.honest.tool_1 import run\nprint(sum(run(s=str(i)) == str({'s': str(i)}) for i in range(1000)))") == "1000\n"


def test_looking_for_tools(box):
    said = box.says("import mcptools\nprint(mcptools.servers())\nprint(mcptools.search_tools('this is'))\nprint(mcptools.tool_help('honest', 'tool-1'))")
    assert said == """['honest']
honest: tool-1(s: str, n: float = …, b: bool = …) — This is tool 1.
from mcptools.honest.tool_1 import Params, run, run_async

tool-1(s: str, n: float = …, b: bool = …)

This is tool 1.
  s: str — a text
  n: float, optional = 2
  b: bool, optional
"""


@pytest.mark.more
def test_a_large_result_and_large_arguments(box):
    assert len(text_of(box.call("honest", "large", n=3000000))) == 3000000
    assert box.call("honest", "large", n=11000000)[0] in ("failed", "too_large")
    said = box.says("from mcptools import _gateway\nprint(len(_gateway.call('honest', 'tool-1', {'s': 'x' * 1500000})['content'][0]['text']))")
    assert said == "1500009\n"
    answer = box.cell("_gateway.call('honest', 'tool-1', {'s': 'x' * 3000000})")
    assert answer["status"] == "error"
    assert text_of(box.call("honest", "tool-1", s="x")) == "{'s': 'x'}"


# --- who may call what ---------------------------------------------------------------------------------------------------


def test_nothing_without_being_told(server):
    with Box(server) as box:
        assert box.made["tools"] == []
        assert box.call("honest", "tool-1", s="x")[0] == "none"
        assert box.says("import mcptools\nprint(mcptools.servers(), mcptools.search_tools())") == "[] no tools\n"
        assert box.cell("import mcptools.honest")["error"]["name"] == "ModuleNotFoundError"


TRICKS = [("Honest", "tool-1"), ("honest", "Tool-1"), ("honest", "tool-1 "), ("honest", "tool-1\x00"), ("honest ", "tool-1"), ("hon\u200best", "tool-1"), ("honest/tool-1", "tool-1"),
          ("honest", "x/../tool-1"), ("other", "tool-1"), ("honest", "*"), ("*", "tool-1"), ("", "tool-1"), ("honest", "ｔool-1"), ("./honest", "tool-1"), ("honest", "env")]


def test_only_what_the_list_names(server):
    with Box(server, tools=["honest/tool-1"]) as box:
        assert text_of(box.call("honest", "tool-1", s="x")) == "{'s': 'x'}"
        for name, tool in TRICKS:
            assert box.call(name, tool)[0] in ("denied", "invalid"), (name, tool)
        assert box.says("import mcptools; print([t.name for t in mcptools.search_tools()])") == "['tool-1']\n"
        assert box.cell("import mcptools.honest.env")["error"]["name"] == "ModuleNotFoundError"
        assert box.cell("import mcptools.other")["error"]["name"] == "ModuleNotFoundError"
    assert {event["outcome"] for event in audited(server, box=box.id)} == {"done", "denied"}


def test_what_is_asked_for_first_is_found_all_the_same(server):
    """The rule that asks is there before the one that allows."""
    with Box(server, approvals=["honest/tool-1", "other"]) as box:
        assert server.call("POST", f"/v1/boxes/{box.id}/tools", {"server": "honest"})[0] == 200
        assert box.says("import mcptools\nprint(mcptools.servers())") == "['honest']\n"
        assert box.says("from mcptools.honest.env import run\nprint(run())") == SECRET + "\n"


RULES = ["", "/", "/x", "x/", "a b", "x\n", "../x", "ü/x", "x" * 65, "x/" + "y" * 400, "*"]


@pytest.mark.more
@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_what_is_no_rule(server, rule):
    status, answer = server.call("POST", "/v1/boxes", {"tools": [rule]})
    assert status == 422 and answer["error"]["field"].startswith("tools"), answer


def test_the_socket_is_the_box_s_own(server, box):
    """What is asked over it is about this box; nothing else of the server is there."""
    with Box(server, tools=["other"]) as second:
        assert second.call("honest", "tool-1", s="x")[0] == "denied"
        code = "from mcptools import _gateway\nprint([_gateway.request(*one)[0] for one in [('GET', '/v1/boxes'), ('POST', '/v1/execute', {'code': '1'}), ('GET', '/health'), ('GET', '/mcp')]])"
        assert box.says(code) == "[404, 404, 404, 404]\n"
        assert box.says(f"print(_gateway.request('POST', '/call', {{'server': 'other', 'tool': 'env', 'box': {second.id!r}}})[0])") == "403\n"


def test_secrets_stay_outside(server, box):
    assert text_of(box.call("honest", "env")) == SECRET, "the server itself has it"
    said = box.says("import subprocess\nprint(subprocess.run('env; cat /proc/*/environ /proc/*/cmdline; ls -lR /run', shell=True, capture_output=True, text=True).stdout)")
    assert SECRET not in said and "tools.sock" in said
    assert SECRET not in server.log()
    assert all(SECRET.encode() not in pathlib.Path(f"/proc/{pid}/environ").read_bytes() for role in ("gate", "store", "tools") for pid in server.pids().get(role, []))


def test_the_tools_process_has_nothing(server, box):
    """As the gate: an id of its own, no capability, no file, no network, a filter of system calls; and no descriptor of what it read at its start."""
    box.call("honest", "env")
    tools, gate = server.pid_of("tools"), server.pid_of("gate")
    status = status_of(tools)
    uid = status["Uid"].split()[0]
    assert uid not in ("0", status_of(gate)["Uid"].split()[0], status_of(server.pid_of("store"))["Uid"].split()[0])
    assert set(status["Uid"].split()) == {uid} and set(status["Gid"].split()) == {uid} and status["Groups"].strip() == ""
    assert [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "0" if SANITIZED else "2")
    assert os.listdir(f"/proc/{tools}/root/") == []
    assert os.readlink(f"/proc/{tools}/ns/net") != os.readlink("/proc/self/ns/net")
    kinds = {os.readlink(f"/proc/{tools}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{tools}/fd") if int(fd) > 2}
    assert kinds == {"socket"}, kinds
