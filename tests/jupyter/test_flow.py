# SPDX-License-Identifier: Apache-2.0
"""Output of any length: nothing of it is dropped as long as somebody reads, and a client that is slow makes its program wait, and nobody else."""
import concurrent.futures
import time

import pytest

from jup import Kernel
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

# Half a megabyte is kept for nobody: what flows is much more than that.
server = shared(box_output_bytes="524288", **WARM)
LINE = "".join(chr(33 + i % 90) for i in range(990))
LINES = f"for i in range({{}}): print(f'{{{{i:09d}}}}', {LINE!r})\n"
MISSING = "output is missing"


@pytest.fixture
def kernel(server):
    with Kernel(server) as kernel:
        yield kernel


def numbers(text):
    """Of the lines, each of which must be whole."""
    found = []
    for line in text.splitlines():
        number, rest = line.split(" ", 1)
        assert rest == LINE, line[:100]
        found.append(int(number))
    return found


def memory(server):
    """Of the gate, in bytes."""
    with open(f"/proc/{server.pid_of('gate')}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * 4096


@pytest.mark.parametrize("framing", [pytest.param("text", marks=pytest.mark.more), "v1"])
def test_all_of_it_arrives(kernel, framing):
    with kernel.client(framing) as client:
        told = client.run(LINES.format(30000)).ok
        assert numbers(told.text()) == list(range(30000)) and told.text("stderr") == ""
        assert client.run("6 * 7").ok.value == "42"


def test_both_streams(kernel):
    with kernel.client() as client:
        told = client.run("import sys\n" + LINES.format(6000) + f"for i in range(6000): print(f'{{i:09d}}', {LINE!r}, file=sys.stderr)").ok
        assert numbers(told.text()) == numbers(told.text("stderr")) == list(range(6000))


@pytest.mark.more
def test_more_displays_than_are_kept(kernel):
    """A progress bar that goes on for hours."""
    with kernel.client() as client:
        told = client.run("h = display('x' * 100000, display_id='bar')\nfor i in range(600): h.update(f'{i}' + 'x' * 100000)").ok
        assert [c["data"]["text/plain"].strip("'x") for c in told.of("update_display_data")] == [str(i) for i in range(600)]
        assert MISSING not in told.text("stderr")


@pytest.mark.more
def test_more_events_than_are_kept(kernel):
    with kernel.client() as client:
        told = client.run("import sys\nfor i in range(100000): sys.stdout.write(f'{i} '); sys.stdout.flush()").ok
        assert [int(n) for n in told.text().split()] == list(range(100000)) and told.text("stderr") == ""


@pytest.mark.more
def test_a_client_that_pauses(server, kernel):
    """It reads nothing for a while; its program waits, and others do not."""
    with kernel.client() as client, Kernel(server) as other:
        before = memory(server)
        header = client.execute(LINES.format(150000))
        client.kept.append(client.until(lambda m: m.type == "stream"))
        time.sleep(2)
        assert kernel.state == "busy", "it waits"
        assert other.run("6 * 7").value == "42"
        assert memory(server) - before < 64 << 20
        told = client.told(header).ok
        assert numbers(told.text()) == list(range(150000)) and told.text("stderr") == ""


@pytest.mark.more
def test_one_reads_and_one_pauses(kernel):
    """Both have all of it in the end."""
    with kernel.client() as client, kernel.client() as other, concurrent.futures.ThreadPoolExecutor(1) as pool:
        header = client.execute(LINES.format(60000))
        mine = pool.submit(lambda: client.told(header).ok.text())
        time.sleep(1)
        theirs = other.told(header)
        assert numbers(theirs.text()) == numbers(mine.result()) == list(range(60000))
        assert not theirs.replies, "that is for who asked"


def test_nobody_is_there(kernel):
    """What is kept is bounded, the program goes on, and who comes is told that something is missing."""
    with kernel.client(session_id="mine") as client:
        header = client.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n" + LINES.format(20000) + "open('said', 'w')")
    kernel.wait_alone()
    kernel.touch("go")
    kernel.shell("while ! test -e said; do sleep 0.01; done")
    kernel.wait_state("idle")
    with kernel.client(session_id="mine") as client:
        told = client.told(header).ok
        assert MISSING in told.text("stderr")
        text = told.text()
        assert text.startswith("000000000 ") and (1 << 20) < len(text) < (8 << 20)


@pytest.mark.more
def test_who_does_not_read_leaves(kernel):
    """The program goes on when the client that made it wait has gone."""
    with kernel.client(session_id="mine") as client:
        client.begin("import os, time\n" + LINES.format(60000) + "open('said', 'w')")
        client.until(lambda m: m.type == "stream")
        time.sleep(1)
        assert kernel.state == "busy"
    kernel.shell("while ! test -e said; do sleep 0.01; done")
    kernel.wait_state("idle")
    assert kernel.run("6 * 7").value == "42"


@pytest.mark.more
def test_interrupted_while_it_waits(kernel):
    with kernel.client() as client:
        header = client.execute("while True: print('x' * 1000)")
        client.until(lambda m: m.type == "stream")
        time.sleep(1)
        assert kernel.interrupt()[0] == 204
        told = client.told(header)
        assert told.reply["ename"] == "KeyboardInterrupt"
        assert client.run("6 * 7").ok.value == "42"


@pytest.mark.more
def test_killed_while_it_flows(serve):
    """What is shown is cleared, and told again as far as init has kept it."""
    server = serve(box_output_bytes="524288", **WARM)
    kernel = Kernel(server)
    with kernel.client(session_id="mine") as client:
        header = client.execute(LINES.format(100000))
        heard = 0
        while heard < 40_000_000:
            m = client.next()
            heard += len(m.content["text"]) if m.parent == header["msg_id"] and m.type == "stream" else 0
        server.next_gate(server.kill_gate())
    rest = []
    with kernel.client(session_id="mine") as client:
        while not rest or rest[-1].state != "idle":
            m = client.next()
            rest += [m] if m.parent == header["msg_id"] else []
    assert "clear_output" in [m.type for m in rest]
    said = {name: "".join(m.content["text"] for m in rest if m.type == "stream" and m.content["name"] == name) for name in ("stdout", "stderr")}
    text = said["stdout"]
    if not text.startswith("000000000 "):
        assert MISSING in said["stderr"]
        text = text[text.index("\n") + 1:]
    begin = int(text[:9])
    assert numbers(text) == list(range(begin, 100000)), "once, and in order"
    assert begin * 1000 < heard, "nothing is missing that was not heard"
    assert [m.content["status"] for m in rest if m.type == "execute_reply"] == ["ok"]


def cells_of(kernel):
    status, answer = kernel.server.call("GET", f"/v1/boxes/{kernel.box}/cells")
    assert status == 200
    return answer["cells"]


@pytest.mark.more
def test_somebody_looks_at_it_meanwhile(server, kernel):
    """An answer is told from the log where it lies: nothing is let go of meanwhile, and then it goes on."""
    with kernel.client() as client:
        header = client.begin("import os, time\n" + LINES.format(900) + "while not os.path.exists('go'): time.sleep(0.01)\n" + LINES.format(60000))
        (cell,) = [c for c in cells_of(kernel) if c["status"] == "running"]
        looks = server.connect()
        try:
            looks.sendall(f"GET /v1/boxes/{kernel.box}/cells/{cell['id']}/events HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
            kernel.touch("go")
            client.until(lambda m: m.type == "stream" and "000030000" in m.content["text"])
        finally:
            looks.close()
        told = client.told(header).ok
        assert MISSING not in told.text("stderr")


@pytest.mark.more
def test_large_displays_to_a_slow_client(kernel):
    with kernel.client() as client:
        header = client.execute("for i in range(6): display({'text/plain': str(i) + 'x' * 10_000_000}, raw=True); print(i)")
        client.until(lambda m: m.type == "execute_input")
        time.sleep(1)
        told = client.told(header).ok
        assert [c["data"]["text/plain"].rstrip("x") for c in told.of("display_data")] == [str(i) for i in range(6)]
        assert told.text() == "".join(f"{i}\n" for i in range(6))


def test_a_reply_always_finds_room(kernel):
    """Displays that nobody takes fill what is kept; how the cell ended is kept all the same."""
    with kernel.client(session_id="mine") as client:
        header = client.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
                              "for i in range(8): display({'text/plain': 'x' * 6_000_000}, raw=True)\nopen('said', 'w')")
    kernel.wait_alone()
    kernel.touch("go")
    kernel.shell("while ! test -e said; do sleep 0.01; done")
    kernel.wait_state("idle")
    with kernel.client(session_id="mine") as client:
        told = client.told(header).ok
        assert MISSING in told.text("stderr") and 0 < len(told.of("display_data")) < 8


def test_aborted_cells_come_behind_the_one_that_failed(kernel):
    with kernel.client() as client:
        first = client.execute(LINES.format(8000) + "1 / 0")
        behind = [client.execute("print('never')") for _ in range(200)]
        time.sleep(0.5)
        messages = []
        while not messages or messages[-1].state != "idle" or messages[-1].parent != behind[-1]["msg_id"]:
            messages.append(client.next())
        order = [h["msg_id"] for h in [first, *behind]]
        seen = [m.parent for m in messages if m.parent in order]
        assert seen == sorted(seen, key=order.index), "one after the other"
        replies = {m.parent: m.content["status"] for m in messages if m.type == "execute_reply"}
        assert replies == {first["msg_id"]: "error", **{h["msg_id"]: "aborted" for h in behind}}
        assert client.run("6 * 7").ok.value == "42"


def test_a_kernel_dies_behind_much_output(kernel):
    """`restarting` comes behind what its last cell said: clients forget a cell when they hear it."""
    with kernel.client() as client:
        header = client.execute(LINES.format(8000) + "import os, sys; sys.stdout.flush(); os._exit(3)")
        time.sleep(0.5)
        messages = []
        while not messages or messages[-1].state != "restarting":
            messages.append(client.next())
        told = [m for m in messages if m.parent == header["msg_id"]]
        assert told[-1].state == "idle" and numbers("".join(m.content["text"] for m in told if m.type == "stream" and m.content["name"] == "stdout")) == list(range(8000))
        client.until_state("idle")
        assert client.run("6 * 7").ok.value == "42"
