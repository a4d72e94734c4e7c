# SPDX-License-Identifier: Apache-2.0
"""How much of the network a box may have, and how much it has had."""
import json
import os
import signal
import textwrap

import pytest

from net import Net, needs_root, own, server, shared, world  # noqa: F401
from net_world import PUBLIC
from server import ends, until

pytestmark = needs_root

ALL = ["web.test", "other.test"]
NOTHING = {"open": 0, "connections": 0, "refused": 0, "questions": 0, "sent_bytes": 0, "received_bytes": 0, "refused_rules": []}
# As many bytes as there are, to a server that takes them all: how many it said, or how that ended.
PUSH = """
def push(total):
    try:
        with socket.create_connection(("web.test", 9), timeout=60) as s:
            for at in range(0, total, 65536):
                s.sendall(b"\\0" * min(65536, total - at))
            s.shutdown(socket.SHUT_WR)
            return int(s.recv(100) or b"-1")
    except OSError as e:
        return "reset" if e.errno in (104, 32) else e.errno
"""


def box_with(server, **network):
    return server.box(network={"policy": "allow", "rules": ALL, **network})


def figures(server, box):
    return server.call("GET", f"/v1/boxes/{box['id']}")[1]["figures"]["network"]


def metric(server, name):
    lines = server.request("GET", "/metrics")[2].decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ") or line.startswith(name + "{"))


# --- figures -----------------------------------------------------------------------------------------------------


def test_what_it_has_had(server):
    box = box_with(server)
    assert server.python(box, PUSH + 'say(push(1 << 20))') == [1 << 20]
    seen = until(lambda: figures(server, box) if figures(server, box)["sent_bytes"] else None, "egress tells")
    # What the server said were seven digits and an end of line.
    assert seen == {**NOTHING, "connections": 1, "questions": seen["questions"], "sent_bytes": 1 << 20, "received_bytes": 8}
    assert seen["questions"] >= 1


def test_a_box_without_a_network_has_none(server):
    box = server.box()
    assert figures(server, box) is None
    assert server.network(box, "allow", "web.test")[0] == 200
    assert figures(server, box) == NOTHING


def test_while_it_goes_on(server):
    box = box_with(server)
    way = f"/v1/boxes/{box['id']}/commands"
    code = 'import socket, time\ns = socket.create_connection(("web.test", 7))\ns.sendall(bytes(1000))\ntime.sleep(1000)'
    assert server.call("POST", way, {"argv": ["/usr/bin/python3", "-c", code], "detach": True})[0] == 202
    # A greeting of six bytes, and what it was sent.
    until(lambda: (figures(server, box)["open"], figures(server, box)["sent_bytes"], figures(server, box)["received_bytes"]) == (1, 1000, 1006), "all of it")
    assert metric(server, "glovebox_network_connections") >= 1


def test_refusals(server):
    box = box_with(server)
    server.python(box, 'get("http://www.web.test/")\nfor i in range(3): dial("web.test", 1)')
    until(lambda: figures(server, box)["refused"] >= 1, "a name")


def test_all_boxes_together(server):
    names = [f"glovebox_network_{name}_total" for name in ("connections", "refused", "questions")] + ['glovebox_network_bytes_total{direction="sent"}']
    before = [metric(server, name) for name in names]
    box = box_with(server)
    server.python(box, PUSH + 'push(100000)\nget("http://inner.test/")')
    server.delete(box)
    until(lambda: [metric(server, name) for name in names] >= [before[0] + 1, before[1] + 1, before[2] + 2, before[3] + 100000], "they are counted")
    assert metric(server, names[3]) == before[3] + 100000


def test_figures_outlive_a_gate_and_egress(own):
    box = box_with(own)
    assert own.python(box, PUSH + "say(push(50000))") == [50000]
    until(lambda: figures(own, box)["sent_bytes"] == 50000, "they are told")
    own.next_gate(own.kill_gate())
    assert until(lambda: own.call("GET", f"/v1/boxes/{box['id']}")[0] == 200, "the next gate has the box")
    assert figures(own, box)["sent_bytes"] == 50000
    old = own.pid_of("egress")
    os.kill(old, signal.SIGKILL)
    until(lambda: [pid for pid in own.pids().get("egress", []) if pid != old], "another egress")
    assert own.python(box, PUSH + "say(push(50000))") == [50000]
    until(lambda: figures(own, box)["sent_bytes"] == 100000, "they go on")


# --- bounds ------------------------------------------------------------------------------------------------------


def test_bounds_are_shown(server):
    box = box_with(server, max_connections=3, max_bytes=1000000, bytes_per_second=100000)
    shown = {"policy": "allow", "rules": ALL, "max_connections": 3, "max_bytes": 1000000, "bytes_per_second": 100000}
    assert box["network"] == shown
    assert server.network(box, "allow", *ALL)[1]["network"] == {"policy": "allow", "rules": ALL}


@pytest.mark.parametrize("field,value", [("max_connections", 0), ("max_connections", 513), ("max_bytes", 0), ("max_bytes", -1), ("bytes_per_second", 1023),
                                         ("bytes_per_second", (1 << 40) + 1), ("max_bytes", "1M")])
def test_bounds_that_are_none(server, field, value):
    status, answer = server.call("POST", "/v1/boxes", {"network": {"policy": "allow", field: value}})
    assert (status, answer["error"]["field"]) == (422, f"network.{field}"), answer
    assert server.call("POST", "/v1/boxes", {"network": {"policy": "allow", field: None}})[0] == 201


def test_connections_at_once(server):
    box = box_with(server, max_connections=2)
    assert server.python(box, """
        def hello():
            # The reset may come before connect() has looked.
            s = dial("web.test", 7)
            try:
                return s, s.recv(6).decode()
            except (ConnectionResetError, AttributeError):
                return s, "reset"
        a, b, c = hello(), hello(), hello()
        say(a[1], b[1], c[1])
        a[0].close()
        for i in range(500):
            d = hello()
            if d[1] != "reset":
                break
            time.sleep(0.05)
        say(d[1])
        """) == [["hello\n", "hello\n", "reset"], "hello\n"]


def test_bytes_in_all(server):
    """Whoever has had them is cut, and told so; what was said before is not changed by it."""
    box = box_with(server, max_bytes=500000)
    assert server.python(box, PUSH + "say(push(400000), push(400000), push(10))") == [[400000, "reset", "reset"]]
    until(lambda: figures(server, box)["open"] == 0 and figures(server, box)["sent_bytes"] + figures(server, box)["received_bytes"] == 500000, "it had all of it")
    told = until(lambda: [e["end"] for e in server.audit("network_connection") if e["box"] == box["id"]][1:], "the audit tells of the others")
    assert set(told) == {"limit"}
    assert server.python(box, """
        with socket.create_connection(("127.0.0.1", 1080)) as s:
            s.sendall(b"CONNECT web.test:9 HTTP/1.1\\r\\nHost: web.test:9\\r\\n\\r\\n")
            said = b""
            while part := s.recv(4096):
                said += part
            say(said[9:12].decode(), b"all that it may" in said)
        """) == [["403", True]]
    # More may be given, and counts from the beginning.
    assert server.call("PUT", f"/v1/boxes/{box['id']}/network", {"policy": "allow", "rules": ALL, "max_bytes": 600000})[0] == 200
    assert server.python(box, PUSH + "say(push(90000), push(90000))") == [[90000, "reset"]]


def test_bytes_a_second(server):
    """Nobody has more than what was earned since the beginning, and one time what may be had at once: whatever else the machine does."""
    rate, burst = 400000, 65536
    box = box_with(server, bytes_per_second=rate)
    said = server.python(box, PUSH + textwrap.dedent(f"""
        start = time.monotonic()
        up = push({rate})
        took_up = time.monotonic() - start
        # What the server echoes waits for the way back.
        start = time.monotonic()
        with socket.create_connection(("web.test", 7)) as s:
            import threading
            threading.Thread(target=lambda: s.sendall(bytes({rate})), daemon=True).start()
            got = 0
            while got < {rate}:
                got += len(s.recv(65536))
        say(up, took_up, got, time.monotonic() - start)
        """), timeout_ms=60000)
    up, took_up, got, took_down = said[0]
    assert (up, got >= rate) == (rate, True)
    assert rate <= burst + rate * took_up * 1.01 and rate <= burst + rate * took_down * 1.01
    until(lambda: figures(server, box)["sent_bytes"] >= 2 * rate, "and is told")


def test_a_slow_box_slows_nobody_else(server):
    """Two that share: both come to their end, and so does another box meanwhile."""
    slow, other = box_with(server, bytes_per_second=100000), box_with(server)
    way = f"/v1/boxes/{slow['id']}/commands"
    code = PUSH + "import socket, threading\nthreads = [threading.Thread(target=lambda: print(push(150000), flush=True)) for i in range(2)]\n" \
                  "[t.start() for t in threads]\n[t.join() for t in threads]"
    status, started = server.call("POST", way, {"argv": ["/usr/bin/python3", "-c", code], "detach": True})
    assert status == 202
    assert server.python(other, PUSH + "say(push(1 << 24))") == [1 << 24]
    answer = server.call("GET", f"{way}/{started['id']}?wait_ms=60000")[1]
    assert (answer["status"], answer["stdout"]) == ("ok", "150000\n150000\n"), answer


def test_an_operator_bounds_all(world, tmp_path):
    with Net(world, tmp_path, box_net_connections=10, box_net_bytes="1M", box_net_rate="512K") as own:
        box = box_with(own)
        bounds = {"max_connections": 10, "max_bytes": 1 << 20, "bytes_per_second": 512 << 10}
        assert box["network"] == {"policy": "allow", "rules": ALL, **bounds}
        for name, value in bounds.items():
            status, answer = own.call("POST", "/v1/boxes", {"network": {"policy": "allow", name: value + 1}})
            assert (status, answer["error"]["field"]) == (422, f"network.{name}"), answer
            assert "box_net_" in answer["error"]["message"]
        assert box_with(own, max_bytes=1000)["network"]["max_bytes"] == 1000


@pytest.mark.parametrize("option,value", [("box_net_connections", "513"), ("box_net_connections", "0"), ("box_net_rate", "100")])
def test_an_operator_is_told(tmp_path, option, value):
    done = ends(listen=f"unix:{tmp_path}/s", state_dir=tmp_path / "state", **{option: value})
    assert done.returncode != 0 and option.replace("_", "-") in done.stderr.replace("_", "-") and done.stdout == ""


# --- glovebox run ------------------------------------------------------------------------------------------------


def test_a_run(world):
    done = world.run(PUSH + "say(push(1 << 20), push(1 << 20))", "--network-bytes", "1.5M", allow=["web.test"])
    assert json.loads(done.stdout) == [1 << 20, "reset"]
    done = world.run('say(get("http://web.test/")["at"])', "--json", allow=["web.test"])
    answer = json.loads(done.stdout)
    assert json.loads(answer["stdout"]) == PUBLIC
    assert (answer["figures"]["network"]["connections"], answer["figures"]["network"]["refused"]) == (1, 0)
    assert "network" not in json.loads(world.run("pass", "--json").stdout)["figures"]


def test_what_a_run_refuses(run):
    for words in (("--network-bytes", "some"), ("--network-rate", "10"), ("--network-rate", "2T")):
        done = run("run", *words, "-c", "pass")
        assert done.returncode == 125 and words[0] in done.stderr.decode(), words
