# SPDX-License-Identifier: Apache-2.0
"""Ports of a box: whose they are, what is there, and when they go."""
import http.client
import json
import os
import pathlib
import socket

import pytest

from boxes import Agent, Box, Failed, Port
from jup import WebSocket
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root
server = shared(**WARM)

TOKENS = {"one": "token-of-the-first-tenant-0123456789", "two": "token-of-the-second-tenant-0123456789"}
AS = {name: {"Authorization": f"Bearer {token}"} for name, token in TOKENS.items()}


@pytest.fixture
def box(server):
    with Box(server) as box:
        yield box


def listeners(port):
    """Addresses of this machine on which somebody listens at this port, as the kernel writes them."""
    found = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, _, number = line.split()[1].partition(":")
            if line.split()[3] == "0A" and int(number, 16) == port:
                found.append(address)
    return found


def is_refused(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 5):
            return False
    except ConnectionRefusedError:
        return True


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# --- what is asked for -----------------------------------------------------------------------------------------


def test_a_box_has_two_ports(server, box):
    assert set(box.ports) == {"executor", "resource"} and box.ports["executor"] != box.ports["resource"]
    assert box.made["workdir"] == "/app"
    status, seen = server.call("GET", f"/v1/boxes/{box.id}")
    assert status == 200 and seen["ports"] == box.ports and seen["workdir"] == "/app"
    (listed,) = [one for one in server.call("GET", "/v1/boxes")[1]["boxes"] if one["id"] == box.id]
    assert listed["ports"] == box.ports


@pytest.mark.parametrize("ports", [None, False])
def test_a_box_has_none_unless_asked(server, ports):
    status, made = server.call("POST", "/v1/boxes", {"ports": ports})
    assert status == 201 and made["ports"] is None and made["workdir"] == "/workspace"
    assert server.request("DELETE", f"/v1/boxes/{made['id']}")[0] == 204


def test_only_this_machine_can_connect(box):
    for port in box.ports.values():
        assert listeners(port) == ["0100007F"]


@pytest.mark.parametrize("ports", [{}, {"executor": 0}, {"executor": 0, "resource": 0}])
def test_free_ones(server, ports):
    with Box(server, ports=ports) as box:
        assert all(port >= 1024 for port in box.ports.values())


def test_those_that_are_named(server):
    wanted = {"executor": free_port(), "resource": free_port()}
    with Box(server, ports=wanted) as box:
        assert box.ports == wanted
        # Of another box, or of anybody else.
        for name in wanted:
            status, answer = server.call("POST", "/v1/boxes", {"ports": {name: wanted[name]}})
            assert status == 409 and answer["error"]["code"] == "port_taken" and answer["error"]["field"] == f"ports.{name}", answer
            assert str(wanted[name]) in answer["error"]["message"]
    with Box(server, ports=wanted) as box:
        assert box.ports == wanted  # free again with the box
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        status, answer = server.call("POST", "/v1/boxes", {"ports": {"resource": other.getsockname()[1]}})
        assert status == 409 and answer["error"]["code"] == "port_taken", answer
    assert [one for one in server.call("GET", "/v1/boxes")[1]["boxes"] if one["ports"]] == []


WRONG = {
    "a number": (1, "ports"), "a text": ("true", "ports"), "a list": ([1, 2], "ports"), "of root": ({"executor": 22}, "ports.executor"),
    "the highest of root": ({"resource": 1023}, "ports.resource"), "too high": ({"executor": 65536}, "ports.executor"),
    "negative": ({"executor": -1}, "ports.executor"), "no number": ({"executor": "8888"}, "ports.executor"),
    "the same twice": ({"executor": 20000, "resource": 20000}, "ports.executor"), "unknown": ({"debugger": 0}, "ports.debugger"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(server, name):
    ports, field = WRONG[name]
    status, answer = server.call("POST", "/v1/boxes", {"ports": ports})
    assert status == 422 and answer["error"]["field"] == field, answer


def test_what_the_operator_allows(serve):
    none, free = serve(box_ports="none"), serve(box_ports="free")
    status, answer = none.call("POST", "/v1/boxes", {"ports": True})
    assert status == 422 and "box_ports" in answer["error"]["message"], answer
    status, answer = free.call("POST", "/v1/boxes", {"ports": {"executor": free_port()}})
    assert status == 422 and "box_ports" in answer["error"]["message"], answer
    with Box(free):
        pass
    assert none.call("GET", "/v1/boxes")[1]["boxes"] == []


# --- when they go ----------------------------------------------------------------------------------------------


def test_they_go_with_the_box(server):
    box = Box(server)
    with Agent(box.executor) as agent:
        assert agent.run("1") == "1"
    kept = box.resource.connection()  # a client that keeps its connection
    answer = box.resource.send(kept, "GET", "/status/")
    assert answer.read() == b'{"status":"ok"}'
    box.delete()
    for port in box.ports.values():
        assert is_refused(port) and listeners(port) == []
    with pytest.raises((http.client.HTTPException, OSError)):
        box.resource.send(kept, "GET", "/status/")
        pytest.fail("somebody answers for a box that has gone")
    kept.close()


def test_they_go_at_its_time(server):
    box = Box(server, ttl_seconds=1)
    until(lambda: is_refused(box.ports["executor"]) and is_refused(box.ports["resource"]), "ports of a box whose time is over are closed")


def test_a_websocket_ends_with_the_box(server):
    box = Box(server)
    agent = Agent(box.executor)
    agent.run("1")
    box.delete()
    assert agent.ws.close_code() is not None
    agent.ws.socket.close()


def test_the_next_gate_has_them(serve):
    server = serve(**WARM)
    with Box(server) as box:
        agent = Agent(box.executor)
        agent.run("kept = 41")
        old = server.kill_gate()
        agent.ws.socket.close()
        # Who connects meanwhile waits.
        assert box.resource.request("GET", "/status/")[0] == 200
        assert server.next_gate(old) != old
        agent.connect()
        assert agent.run("kept + 1") == "42"
        assert server.call("GET", f"/v1/boxes/{box.id}")[1]["ports"] == box.ports
        assert agent.run("import urllib.request as u; print(u.urlopen('http://127.0.0.1:8900/status/').status)") == "200"
        for _ in range(3):
            server.next_gate(server.kill_gate())
            assert box.executor.request("GET", "/api/kernels")[0] == 200
        agent.connect()
        agent.__exit__()


# --- what is where ---------------------------------------------------------------------------------------------


def test_main_has_none_of_it(server):
    for path in ("/status/", "/files/x", "/directories/x", "/modules?q=os"):
        assert server.request("GET", path)[0] == 404


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/v1/boxes", "/v1/execute", "/openapi.json", "/api/me", "/docs"])
def test_ports_have_nothing_else(box, path):
    for port in (box.executor, box.resource):
        status, answer = port.call("GET", path)
        assert status == 404, (path, answer)
    assert "reason" in box.executor.call("GET", path)[1] and "detail" in box.resource.call("GET", path)[1]


def test_methods(box):
    status, headers, body = box.resource.request("PATCH", "/files/x")
    assert status == 405 and set(headers["Allow"].split(", ")) == {"GET", "POST", "DELETE"} and "detail" in json.loads(body)
    status, headers, _ = box.executor.request("PUT", "/api/kernels")
    assert status == 405 and set(headers["Allow"].split(", ")) == {"GET", "POST"}


def test_below_a_box_of_main(server, box):
    """The same calls without a port."""
    at = f"/v1/boxes/{box.id}"
    assert server.call("GET", f"{at}/ipybox/status/") == (200, {"status": "ok"})
    status, headers, _ = server.request("GET", f"{at}/ipybox/status")
    assert status == 307 and headers["Location"] == f"{at}/ipybox/status/"
    assert server.call("POST", f"{at}/ipybox/files/a/b.txt", b"x")[0] == 200
    assert box.resource.request("GET", "/files/a/b.txt")[2] == b"x"
    status, made = server.call("POST", f"{at}/jupyter/api/kernels", {"name": "python"})
    assert status == 201 and made["id"] in [one["id"] for one in box.executor.call("GET", "/api/kernels")[1]]
    assert server.request("GET", "/v1/boxes/nothing/ipybox/status/")[0] == 404
    # Also of a box without ports, and then in its own working directory.
    status, plain = server.call("POST", "/v1/boxes", {})
    assert server.call("POST", f"/v1/boxes/{plain['id']}/ipybox/files/x", b"1")[0] == 200
    status, answer = server.call("POST", f"/v1/boxes/{plain['id']}/commands", {"shell": "cat /workspace/x; ls -d /app"})
    assert answer["stdout"] == "1" and answer["exit_code"] != 0
    assert server.request("DELETE", f"/v1/boxes/{plain['id']}")[0] == 204


# --- kernels ---------------------------------------------------------------------------------------------------


def test_kernels_of_a_box_share_its_files(box):
    with Agent(box.executor) as one, Agent(box.executor) as two:
        assert one.run("import os; os.getcwd()") == "'/app'"
        one.run("mine = 1; open('f', 'w').write('shared')")
        assert two.run("'mine' in globals(), open('/app/f').read(), open('/workspace/f').read()") == "(False, 'shared', 'shared')"
        assert {k["id"] for k in box.executor.call("GET", "/api/kernels")[1]} == {one.id, two.id}
    assert box.executor.call("GET", "/api/kernels") == (200, [])


def test_boxes_do_not_see_each_others_kernels(server, box):
    with Box(server) as other, Agent(box.executor) as agent:
        agent.run("open('/app/f', 'w').write('x')")
        assert other.executor.call("GET", "/api/kernels") == (200, [])
        assert other.executor.request("GET", f"/api/kernels/{agent.id}")[0] == 404
        assert other.executor.request("DELETE", f"/api/kernels/{agent.id}")[0] == 404
        assert other.executor.request("POST", f"/api/kernels/{agent.id}/interrupt")[0] == 404
        with WebSocket(other.executor, f"/api/kernels/{agent.id}/channels") as ws:
            assert ws.status == 404
        status, answer = other.executor.call("POST", "/api/sessions", {"path": "x", "kernel": {"id": agent.id}})
        assert status == 404, answer
        assert other.resource.request("GET", "/files/f")[0] == 404
        assert other.executor.call("GET", "/api/status")[1]["kernels"] == 0
        assert agent.run("1") == "1"


def test_the_last_kernel_is_not_the_end_of_the_box(box):
    with Agent(box.executor) as agent:
        agent.run("open('f', 'w').write('stays')")
    assert box.resource.request("GET", "/files/f")[2] == b"stays"


def test_as_many_kernels_as_a_box_may_have(box):
    made = [box.executor.call("POST", "/api/kernels", {"name": "python"})[1]["id"] for _ in range(8)]
    status, answer = box.executor.call("POST", "/api/kernels", {"name": "python"})
    assert status == 403 and answer["reason"] == "Forbidden", answer
    for one in made:
        assert box.executor.request("DELETE", f"/api/kernels/{one}")[0] == 204
    assert box.executor.call("POST", "/api/kernels", {"name": "no such"})[0] == 404


def test_rest_of_the_gateway(box):
    assert box.executor.call("GET", "/api")[0] == 200
    specs = box.executor.call("GET", "/api/kernelspecs")[1]
    assert "python" in specs["kernelspecs"] and "python3" in specs["kernelspecs"]
    assert box.executor.request("GET", "/api/swagger.json")[0] == 200
    status, headers, body = box.executor.request("POST", "/api/kernels", b'{"name": "python"}')
    model = json.loads(body)
    assert status == 201 and headers["Location"] == f"/api/kernels/{model['id']}"
    assert box.executor.call("POST", f"/api/kernels/{model['id']}/restart")[0] == 200
    assert box.executor.request("POST", f"/api/kernels/{model['id']}/interrupt", b"{}")[0] == 204
    assert box.executor.request("DELETE", f"/api/kernels/{model['id']}")[0] == 204


# --- the working directory -------------------------------------------------------------------------------------


def test_app_is_the_workspace(box):
    assert box.shell("pwd") == "/app\n"
    assert box.shell("echo 1 > f; cat /workspace/f; stat -c %i /app /workspace | uniq | wc -l") == "1\n1\n"
    assert box.shell("touch /app/made && rm /workspace/made && ls /app") == "f\n"
    mounts = box.shell("grep -E ' /(app|workspace) ' /proc/self/mountinfo").splitlines()
    assert len(mounts) == 2
    for line in mounts:
        options = set(line.split()[5].split(","))
        assert {"rw", "nosuid", "nodev"} <= options, line
    assert box.shell("cd / && ! touch /x 2>/dev/null && ! mkdir /app2 2>/dev/null && echo sealed") == "sealed\n"


@pytest.mark.parametrize("fields,want", [({"ports": True, "workdir": "/workspace"}, "/workspace"), ({"workdir": "/app"}, "/app"),
                                         ({"ports": True, "workdir": None}, "/app")])
def test_it_can_be_chosen(server, fields, want):
    status, made = server.call("POST", "/v1/boxes", fields)
    assert status == 201 and made["workdir"] == want
    at = f"/v1/boxes/{made['id']}"
    assert server.call("POST", f"{at}/commands", {"argv": ["pwd"]})[1]["stdout"] == want + "\n"
    assert server.call("POST", f"{at}/cells", {"code": "import os; os.getcwd()"})[1]["results"][0]["data"]["text/plain"] == repr(want)
    assert server.request("PUT", f"{at}/files/x", b"1")[0] == 201
    assert server.call("POST", f"{at}/commands", {"shell": f"cat {want}/x"})[1]["stdout"] == "1"
    assert server.request("DELETE", at)[0] == 204


def test_nothing_else_can_be_chosen(server):
    for wrong in ("/", "app", "/home", "/app/", ""):
        status, answer = server.call("POST", "/v1/boxes", {"workdir": wrong})
        assert status == 422 and answer["error"]["field"] == "workdir", (wrong, answer)


def test_files_of_the_request(server):
    with Box(server, files=[{"path": "a/b", "content": "x"}]) as box:
        assert box.shell("cat /app/a/b") == "x"


# --- tokens ----------------------------------------------------------------------------------------------------


def test_tokens(serve):
    server = serve(tokens=TOKENS, **WARM)
    with Box(server, headers=AS["one"]) as box:
        executor, resource = Port(box.ports["executor"]), Port(box.ports["resource"])
        for port, path in ((executor, "/api/kernels"), (resource, "/status/")):
            assert port.request("GET", path)[0] == 401
            assert port.request("GET", path, headers={"Authorization": "Bearer wrong"})[0] == 401
            assert port.request("GET", path, headers=AS["one"])[0] == 200
            assert port.request("GET", path, headers=AS["two"])[0] == 404  # to others it does not exist
        assert executor.request("POST", "/api/kernels", b"{}", AS["two"])[0] == 404
        assert executor.request("GET", f"/api/kernels?token={TOKENS['one']}")[0] == 200
        with WebSocket(executor, "/api/kernels/x/channels") as ws:
            assert ws.status == 401
        with Agent(box.executor) as agent:
            # Who is in the box has no token, and needs none for what is its own.
            assert agent.run("import urllib.request as u; u.urlopen('http://127.0.0.1:8900/status/').read()") == "b'{\"status\":\"ok\"}'"
            assert TOKENS["one"] not in agent.run("open('/proc/self/environ').read()")


def test_pages_from_elsewhere(box):
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"X-Forwarded-For": "1.2.3.4"}):
        status = box.resource.request("GET", "/status/", headers=headers)[0]
        assert status in (403, 421), (headers, status)


# --- inside ----------------------------------------------------------------------------------------------------

INSIDE = """
import json, urllib.request, urllib.error
def ask(port, path, method="GET", data=None):
    q = urllib.request.Request(f"http://localhost:{port}{path}", data, method=method)
    try:
        with urllib.request.urlopen(q) as r: return r.status, r.read().decode()
    except urllib.error.HTTPError as e: return e.code, e.read().decode()
"""


def test_inside_it_is_8888_and_8900(server, box):
    with Box(server) as other, Agent(other.executor), Agent(box.executor) as agent:
        agent.run(INSIDE)
        assert agent.run("ask(8900, '/status/')") == "(200, '{\"status\":\"ok\"}')"
        assert agent.run("ask(8900, '/files/made', 'POST', b'x')[0], open('/app/made').read()") == "(200, 'x')"
        # This box only.
        assert agent.run("[k['id'] for k in json.loads(ask(8888, '/api/kernels')[1])]") == repr([agent.id])
        assert agent.run("ask(8888, '/v1/boxes')[0], ask(8900, '/v1/boxes')[0], ask(8900, '/metrics')[0]") == "(404, 404, 404)"
        # Nobody in the box can take their place.
        with pytest.raises(Failed, match="Address already in use"):
            agent.run("import socket; s = socket.socket(); s.bind(('127.0.0.1', 8888))")


def test_a_box_without_ports_has_nothing_inside(server):
    status, made = server.call("POST", "/v1/boxes", {})
    code = "import socket\ntry: socket.create_connection(('127.0.0.1', 8888))\nexcept ConnectionRefusedError: print('nobody')"
    assert server.call("POST", f"/v1/boxes/{made['id']}/cells", {"code": code})[1]["stdout"] == "nobody\n"
    assert server.request("DELETE", f"/v1/boxes/{made['id']}")[0] == 204


def test_who_is_inside_cannot_take_all_connections(server, box):
    """More connections than a box is allowed: others are served, and so is the box when it lets go."""
    with Agent(box.executor) as agent:
        agent.run(INSIDE + "import socket\nheld = []\nfor _ in range(64):\n  s = socket.socket(); s.setblocking(False)\n"
                  "  try: s.connect(('127.0.0.1', 8900))\n  except BlockingIOError: pass\n  held.append(s)\n")
        assert server.request("GET", "/health")[0] == 200
        for _ in range(20):
            assert box.resource.request("GET", "/status/")[0] == 200
        connections = [fd for fd in os.listdir(f"/proc/{server.pid_of('gate')}/fd")]
        assert len(connections) < 100, connections
        agent.run("for s in held: s.close()")
        assert agent.run("ask(8900, '/status/')[0]") == "200"


def test_hostile_bytes_from_inside(server, box):
    """What is no HTTP is refused as anywhere, and the gate lives."""
    gate = server.pid_of("gate")
    with Agent(box.executor) as agent:
        agent.run("import os, socket\nfor i in range(50):\n  s = socket.create_connection(('127.0.0.1', 8888 if i % 2 else 8900)); s.settimeout(5)\n"
                  "  s.sendall([os.urandom(2000), b'GET / HTTP/1.1\\r\\nHost: x\\r\\n', b'GET /files/../../etc/passwd HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n',"
                  " b'\\x00' * 100, b'POST /files/x HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 99999999999999999999\\r\\n\\r\\n'][i % 5])\n"
                  "  s.close()")
        assert agent.run("1") == "1"
    assert server.pid_of("gate") == gate
