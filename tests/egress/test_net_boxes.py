# SPDX-License-Identifier: Apache-2.0
"""The network of boxes of /v1/boxes: asked for, changed while it runs, kept when processes die, told in the audit."""
import errno
import os
import signal

import pytest

from net import needs_root, own, server, shared, world  # noqa: F401
from server import until
from net_world import OTHER, PRIVATE, PUBLIC

pytestmark = needs_root

WEB, NONE = {"policy": "allow", "rules": ["web.test"]}, {"policy": "none", "rules": []}
ASK = 'r = get("http://web.test/")\nsay(r["at"] if isinstance(r, dict) else r)'


def test_none_unless_it_is_asked_for(server):
    box = server.box()
    assert box["network"] == NONE
    assert server.python(box, f'say(get("http://{PUBLIC}/"))') == [errno.ENETUNREACH]


def test_asked_for(server):
    box = server.box(network=WEB)
    assert box["network"] == WEB
    assert server.python(box, ASK + '\nsay(get("http://other.test/"))') == [PUBLIC, errno.ENETUNREACH]
    assert server.call("GET", f"/v1/boxes/{box['id']}")[1]["network"] == WEB


@pytest.mark.parametrize("network,field", [
    ({"policy": "some"}, "network.policy"),
    ({"policy": "allow", "rules": ["web.test", "a b"]}, "network.rules[1]"),
    ({"policy": "allow", "rules": ["10.0.0.1/8"]}, "network.rules[0]"),
    ({"policy": "none", "rules": ["web.test"]}, "network.rules"),
    ({"policy": "allow", "rules": ["x" * 60 + f".{i}.test" for i in range(256)]}, "network.rules"),
    ({"policy": "allow", "rules": ["web.test"] * 257}, "network.rules"),
    ({"policy": "allow", "rule": []}, "network.rule"),
])
def test_what_is_refused(server, network, field):
    before = len(server.call("GET", "/v1/boxes")[1]["boxes"])
    status, answer = server.call("POST", "/v1/boxes", {"network": network})
    assert (status, answer["error"]["field"]) == (422, field), answer
    assert len(server.call("GET", "/v1/boxes")[1]["boxes"]) == before
    box = server.box()
    status, answer = server.call("PUT", f"/v1/boxes/{box['id']}/network", network)
    assert (status, answer["error"]["field"]) == (422, field.replace("network.", "")), answer
    assert server.call("GET", f"/v1/boxes/{box['id']}")[1]["network"] == NONE


def test_changed_while_it_runs(server):
    box = server.box()
    assert server.python(box, ASK) != [PUBLIC]
    status, answer = server.network(box, "allow", "web.test")
    assert (status, answer["network"]) == (200, WEB)
    assert server.python(box, ASK) == [PUBLIC]
    assert server.network(box, "allow", "other.test:80")[0] == 200
    assert server.python(box, ASK + '\nsay(get("http://other.test/")["at"])') == [errno.ENETUNREACH, OTHER]
    assert server.network(box, "open", PRIVATE)[0] == 200
    assert server.python(box, ASK + f'\nsay(get("http://{PRIVATE}/")["at"], get("http://{OTHER}/")["at"])') == [PUBLIC, [PRIVATE, OTHER]]
    assert server.network(box, "none")[1]["network"] == NONE
    assert server.python(box, ASK + f'\nsay(get("http://{PRIVATE}/"), get("http://{OTHER}/"))') == [errno.ENETUNREACH, [errno.ENETUNREACH] * 2]


def follow(server, box, code):
    """A program that goes on: its id."""
    status, answer = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"shell": f"/usr/bin/python3 -c '{code}'", "detach": True})
    assert status == 202, answer
    return f"/v1/boxes/{box['id']}/commands/{answer['id']}"


STAY = """
import socket
s = socket.create_connection(("NAME", 7), timeout=60)
print(s.recv(6).decode().strip(), flush=True)
try:
    print(s.recv(1))
except OSError as e:
    print(e.errno)
"""


def test_a_change_cuts_what_it_does_not_allow(server):
    box = server.box(network={"policy": "allow", "rules": ["web.test", "other.test"]})
    ways = {name: follow(server, box, STAY.replace("NAME", name).replace('"', '"')) for name in ("web.test", "other.test")}
    for way in ways.values():
        until(lambda way=way: server.call("GET", way)[1]["stdout"] == "hello\n", "both are connected")
    assert server.network(box, "allow", "other.test")[0] == 200
    until(lambda: server.call("GET", ways["web.test"])[1]["status"] != "running", "the connection is cut")
    assert server.call("GET", ways["web.test"])[1]["stdout"] == f"hello\n{errno.ECONNRESET}\n"
    assert server.call("GET", ways["other.test"])[1]["status"] == "running"


def test_a_killed_gate_changes_nothing(own):
    box = own.box(network=WEB)
    own.next_gate(own.kill_gate())
    until(lambda: own.call("GET", f"/v1/boxes/{box['id']}")[0] == 200, "the next gate has the box")
    assert own.python(box, ASK + '\nsay(get("http://other.test/"))') == [PUBLIC, errno.ENETUNREACH]
    assert until(lambda: own.call("GET", f"/v1/boxes/{box['id']}")[1]["network"] == WEB, "it knows the policy")
    assert own.network(box, "none")[0] == 200
    assert own.python(box, ASK) == [errno.ENETUNREACH]


def test_a_killed_egress_is_followed_by_another(own):
    box = own.box(network=WEB)
    assert own.python(box, ASK) == [PUBLIC]
    old = own.pid_of("egress")
    os.kill(old, signal.SIGKILL)
    # Nothing opens meanwhile: who connects waits, or is reset.
    assert own.python(box, f'say(get("http://{OTHER}/"))') == [errno.ENETUNREACH]
    until(lambda: [pid for pid in own.pids().get("egress", []) if pid != old], "another egress")
    assert own.python(box, ASK + '\nsay(get("http://other.test/"))') == [PUBLIC, errno.ENETUNREACH]


def test_boxes_do_not_share(server):
    """Addresses that stand for names are a box's own, and so are rules."""
    one, two = server.box(network=WEB), server.box(network={"policy": "allow", "rules": ["other.test"]})
    ask = 'say(socket.gethostbyname("{}"), get("http://{}/")["at"])'
    assert server.python(one, ask.format("web.test", "web.test")) == [["198.18.1.0", PUBLIC]]
    assert server.python(two, ask.format("other.test", "other.test")) == [["198.18.1.0", OTHER]]
    assert server.python(two, ASK) == [errno.ENETUNREACH]


def test_what_the_audit_says(server):
    box = server.box(network=WEB)
    server.python(box, ASK + '\nget("http://refused.test/")')
    until(lambda: [e for e in server.audit("network_connection") if e["box"] == box["id"]], "a line in the audit")
    line = [e for e in server.audit("network_connection") if e["box"] == box["id"]][-1]
    assert (line["to"], line["address"], line["rule"], line["end"]) == ("web.test:80", PUBLIC, "0", "closed")
    sent, received = map(int, line["bytes"].split("/"))
    assert 50 < sent < 1000 and 50 < received < 1000
    refused = [e for e in server.audit("network_name") if e["box"] == box["id"]]
    assert [(e["to"], e["end"]) for e in refused] == [("refused.test:0", "not_allowed")]


def test_egress_has_nothing(server):
    """Its own uid, no capability, an empty root, a filter; and no process for a server whose boxes have no network."""
    server.python(server.box(network=WEB), ASK)
    pid = server.pid_of("egress")
    status = open(f"/proc/{pid}/status", encoding="ascii").read()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert all(int(fields[f"Cap{kind}"], 16) == 0 for kind in ("Prm", "Eff", "Bnd", "Amb"))
    assert fields["NoNewPrivs"].strip() == "1"
    assert len(set(fields["Uid"].split())) == 1 and int(fields["Uid"].split()[0]) > 1000000
    assert os.listdir(f"/proc/{pid}/root") == []
    if "asan" not in os.environ.get("GLOVEBOX", ""):
        assert fields["Seccomp"].strip() == "2"


def test_questions_without_end_do_not_fill_the_audit(server):
    box = server.box(network=WEB)
    server.python(box, """
        import struct
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.connect(("127.0.0.1", 53))
        s.settimeout(20)
        for i in range(900):
            name = b"x%d" % i
            s.send(struct.pack(">HHHHHH", i, 0x100, 1, 0, 0, 0) + bytes([len(name)]) + name + b"\\4test\\0" + struct.pack(">HH", 1, 1))
            s.recv(2000)
        say(get("http://web.test/")["at"])
        """)
    until(lambda: [e for e in server.audit("network_connection") if e["box"] == box["id"]], "the last line of it")
    assert 100 <= len([e for e in server.audit("network_name") if e["box"] == box["id"]]) < 450
