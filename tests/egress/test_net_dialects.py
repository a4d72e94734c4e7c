# SPDX-License-Identifier: Apache-2.0
"""What boxes of the dialects reach when nobody says anything, or their variables do."""
import errno
import json
import signal
import socket
import subprocess

import pytest

import se
from conftest import program_path
from net import Net, PRELUDE, needs_root, server, shared, world  # noqa: F401
from net_world import OTHER, PRIVATE, PUBLIC, RESOLVER
from server import POOLED, ends, until
from test_net_mcp import said

pytestmark = needs_root

# A public name and address, and one that is not.
ASK = PRELUDE + f"""
def at(url):
    r = get(url)
    return r["at"] if isinstance(r, dict) else r
def all_of_them():
    return [at("http://web.test/"), at("http://{OTHER}/"), at("http://{PRIVATE}/")]
"""
OPEN, NONE = [PUBLIC, OTHER, errno.ENETUNREACH], [socket.EAI_AGAIN, errno.ENETUNREACH, errno.ENETUNREACH]
WEB_ONLY = [PUBLIC, errno.ENETUNREACH, errno.ENETUNREACH]
HANDLER = ASK + "def handler(event):\n    return all_of_them()\n"
SAY = ASK + "say(all_of_them())"


@pytest.fixture(scope="module")
def closed(world, tmp_path_factory):
    """A server whose operator has said what dialects may reach."""
    with Net(world, tmp_path_factory.mktemp("closed"), env={"SANDBOX_ALLOW_NETWORK": "false"}, se_network=None, ci_allow=["web.test:80", "!other.test"]) as it:
        assert execute(it) == WEB_ONLY  # egress is there from now on, and no test has left it behind
        yield it


def session_says(server, **fields):
    with se.Session(server) as session:
        if fields:
            status, answer = session.create(**fields)
            assert status == 200, answer
        return json.loads(session.run(SAY)["stdout"])


def test_sandbox_runtime_is_open(server):
    assert session_says(server) == OPEN
    assert session_says(server, size="50M") == OPEN
    assert se.result(server, HANDLER) == OPEN


def test_a_warm_handler(world, tmp_path):
    """From a box that was made ahead, and nobody knew then what for: each call, and not the programs between them."""
    with Net(world, tmp_path, **POOLED) as own:
        until(lambda: len(own.call("GET", "/health")[1]["warm"]) == 3, "there are images")
        for _ in range(3):
            assert se.result(own, HANDLER) == OPEN
            assert execute(own) == NONE


def test_sandbox_runtime_where_it_is_closed(closed):
    assert session_says(closed) == NONE
    assert se.result(closed, HANDLER) == NONE


def test_a_session_may_be_closed(server):
    assert session_says(server, allow_network=False) == NONE
    assert session_says(server, allow_network=True) == OPEN
    assert session_says(server, allow_network=None) == OPEN


def test_a_session_is_not_opened_by_its_client(closed):
    with se.Session(closed) as session:
        status, answer = session.create(allow_network=True)
        assert (status, answer["detail"]["message"]) == (403, "Permission denied")
        assert "se_allow_network" in answer["detail"]["detail"]
        assert session.status()["exists"] is False
    with se.Session(closed) as session:
        status, answer = session.create(allow_network="perhaps")
        assert status == 422 and "allow_network" in json.dumps(answer)


def execute(server):
    status, answer = server.call("POST", "/v1/execute", {"code": SAY, "timeout_ms": 20000})
    assert status == 200 and answer["exit_code"] == 0, answer
    return json.loads(answer["stdout"])


def bash(server):
    status, made = server.call("POST", "/v1/sessions", {})
    assert status == 201, made
    status, answer = server.call("POST", f"/v1/sessions/{made['session_id']}/bash", {"cmd": f"python3 -c '{SAY}'"})
    assert status == 200 and answer["exit_code"] == 0, answer
    assert server.call("DELETE", f"/v1/sessions/{made['session_id']}")[0] in (200, 204)
    return made["session_id"], json.loads(answer["stdout"])


def test_code_interpreter_reaches_nothing(server):
    assert execute(server) == NONE
    assert bash(server)[1] == NONE
    assert server.call("GET", "/health")[1]["network_isolation"] == "network_namespace:none"


def test_code_interpreter_reaches_what_was_said(closed):
    assert execute(closed) == WEB_ONLY
    session, found = bash(closed)
    assert found == WEB_ONLY
    assert closed.call("GET", "/health")[1]["network_isolation"] == "network_namespace:allow"
    assert closed.call("POST", "/v1/execute", {"code": ASK + 'say(at("http://other.test/"))', "timeout_ms": 20000})[1]["stdout"] == f"{errno.ENETUNREACH}\n"
    ours = until(lambda: [e for e in closed.audit("network_connection") if e.get("session") == session], "a session's connection is told")
    assert [(e["to"], e["rule"], e["tenant"]) for e in ours] == [("web.test:80", "0", "local")]


def test_whose_connection_it_was(closed):
    """The audit names the request, also of a connection that ended with its box."""
    code = PRELUDE + 's = dial("web.test", 80)\ns.sendall(b"GET ")\ntime.sleep(0.2)\nprint("there")'
    status, headers, _ = closed.request("POST", "/v1/execute", {"code": code, "timeout_ms": 20000})
    assert status == 200
    request = headers["X-Request-Id"] if "X-Request-Id" in headers else headers["x-request-id"]
    ours = until(lambda: [e for e in closed.audit("network_connection") if e.get("request") == request], "it is told")
    assert [(e["to"], e["tenant"]) for e in ours] == [("web.test:80", "local")]
    made = [e for e in closed.audit("box_made") if e.get("request") == request]
    assert [e["policy"] for e in made] == ["network allow"]


@pytest.mark.parametrize("rule,why", [("web.test/x", "ci_allow"), ("10.0.0.1/8", "10.0.0.1/8")])
def test_rules_that_are_none(tmp_path, rule, why):
    done = ends(listen=f"unix:{tmp_path}/s", state_dir=tmp_path / "state", ci_allow=rule)
    assert done.returncode != 0 and why in done.stderr and done.stdout == ""


def test_rules_change_while_it_runs(world, tmp_path):
    file = tmp_path / "glovebox.conf"
    file.write_text("se_allow_network = false\n")
    # What the file says is what counts then.
    with Net(world, tmp_path, se_network=None, config=file) as own:
        assert execute(own) == NONE
        file.write_text("ci_allow = web.test\nse_allow_network = true\n")
        own.process.send_signal(signal.SIGHUP)
        until(lambda: execute(own) == WEB_ONLY, "the rules are in force")
        assert session_says(own) == OPEN
        file.write_text("ci_allow = web test\n")
        own.process.send_signal(signal.SIGHUP)
        until(lambda: "ci_allow: " in own.log(), "it says what is wrong")
        assert execute(own) == WEB_ONLY


def test_what_it_says_when_it_starts(server, closed):
    assert "of Sandbox Runtime: public addresses; of Code Interpreter: none" in server.log()
    assert "of Sandbox Runtime: none; of Code Interpreter: what ci_allow says" in closed.log()


# --- ipybox ----------------------------------------------------------------------------------------------------


def ipybox_says(world, server, *words):
    """What a kernel in a box of `glovebox ipybox` reaches."""
    process = subprocess.Popen(world.inside(program_path(), "ipybox", "--json", "--url", f"unix:{server.path}", "--executor-port", "0", "--resource-port", "0", *words),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        box = json.loads(process.stdout.readline())["box"]
        status, cell = server.call("POST", f"/v1/boxes/{box}/cells", {"code": SAY})
        assert status == 200 and cell["status"] == "ok", cell
        return json.loads(cell["stdout"])
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout.close()


def test_ipybox_is_open_until_it_is_told(world, server):
    assert ipybox_says(world, server) == OPEN
    assert ipybox_says(world, server, "--allowed-domain", "web.test") == WEB_ONLY
    assert ipybox_says(world, server, "--network", "none") == NONE


def test_ipybox_mcp_is_open_until_it_is_told(server):
    assert said(server, verb=("ipybox", "mcp")) == [PUBLIC, OTHER]
    assert said(server, "--allowed-domain", "web.test", verb=("ipybox", "mcp")) == [PUBLIC, errno.ENETUNREACH]
    assert said(server, "--network", "open") == [PUBLIC, OTHER]


def test_what_the_command_line_refuses(run):
    for words, why in (((("ipybox", "--network", "some")), "--network 'some'"), (("ipybox", "--network", "none", "--allowed-domain", "a.org"), "leaves nothing"),
                       (("ipybox", "--allowed-domain", "a b"), "--allowed-domain"), (("mcp", "--network", "none", "--allowed-domain", "a.org"), "leaves nothing"),
                       (("mcp", "--box", "x", "--network", "open"), "--box")):
        done = run(*words)
        assert done.returncode == 125 and why in done.stderr.decode(), (words, done.stderr)
