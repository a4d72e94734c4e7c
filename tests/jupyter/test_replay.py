# SPDX-License-Identifier: Apache-2.0
"""Jupyter's channels for clients that leave and come back: what was said meanwhile is told once and in order.

Also when the gate was killed. Then a cell is told from its beginning, behind a clear_output: what is shown is right all the same.
"""
import contextlib
import random
import time

import pytest

from jup import CLOSE, WAIT_FOR, Closed, Kernel, count, shown
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = [pytest.mark.more, needs_root]

server = shared(**WARM)
FRAMINGS = [pytest.param("text", marks=pytest.mark.more), "v1"]


@pytest.fixture
def kernel(server):
    with Kernel(server) as kernel:
        yield kernel


def kill(server):
    server.next_gate(server.kill_gate())


def texts(messages, number):
    return "".join(m.content["text"] for m in messages if m.type == "stream" and m.parent == number)


# --- away --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("back_as", ["mine", "another", ""])
def test_away_while_a_cell_runs(kernel, framing, back_as):
    """It still runs when the client is back, whoever that is; and ends under its eyes."""
    with kernel.client(framing, session_id="mine") as client:
        header = client.begin(WAIT_FOR.format("one") + "print('while away', flush=True)\ndisplay('shown')\nopen('said', 'w')\n"
                              + WAIT_FOR.format("two") + "print('back')\n6 * 7")
    kernel.wait_alone()
    kernel.touch("one")
    kernel.shell("while ! test -e said; do sleep 0.01; done")
    assert kernel.state == "busy"
    with kernel.client(framing, session_id=back_as) as client:
        m = client.until(lambda m: m.type == "display_data")
        assert m.parent == header["msg_id"]
        kernel.touch("two")
        told = client.told(header)
        assert told.text() == "while away\nback\n" and told.ok.value == "42"
        assert count(told.all) == {"stream": 2, "execute_result": 1, "execute_reply": 1, "idle": 1}, told.all
        assert client.run("1").ok and not [m for m in client.left() if m.parent == header["msg_id"]]


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("back_as", ["mine", "another", ""])
def test_away_until_a_cell_has_ended(kernel, framing, back_as):
    with kernel.client(framing, session_id="mine") as client:
        header = client.begin(WAIT_FOR.format("go") + "print('while away')\ndisplay('shown')\nprint('end')\n6 * 7")
    kernel.wait_alone()
    kernel.touch("go")
    kernel.wait_state("idle")
    with kernel.client(framing, session_id=back_as) as client:
        told = client.told(header)
        assert told.brief == ["stream", "display_data", "stream", "execute_result", "execute_reply", "idle"]
        assert told.text() == "while away\nend\n"
        client.left()
    kernel.wait_alone()
    with kernel.client(framing, session_id="mine") as client:
        assert not [m for m in client.left() if m.parent], "once is enough"


def test_away_with_a_queue(kernel):
    """Cells that waited run one after the other, and are told in that order."""
    with kernel.client(session_id="mine") as client:
        first = client.begin(WAIT_FOR.format("go"))
        headers = [client.execute(f"print('cell', {i})\ndisplay({i})\n{i} * 2") for i in range(20)]
        question = client.say("complete_request", {"code": "prin", "cursor_pos": 4})
        client.quiet()
    kernel.wait_alone()
    kernel.touch("go")
    until(lambda: kernel.state == "idle" and kernel.shell("true") == "", "all of them have run")
    time.sleep(0.2)  # the last one is counted before it is told
    with kernel.client(session_id="mine") as client:
        assert client.told(first).ok.all[-1].state == "idle"
        for i, header in enumerate(headers):
            told = client.told(header).check().ok
            assert told.brief == ["busy", "execute_input", "stream", "display_data", "execute_result", "execute_reply", "idle"]
            assert told.text() == f"cell {i}\n" and told.value == str(2 * i)
            assert not [m for m in client.kept if m.parent in {h["msg_id"] for h in headers[:i]}], "in order"
        assert count(client.left()).get("stream", 0) == 0
        assert client.run("6 * 7").ok.value == "42"
    assert question


def leave(client, header):
    """Says goodbye; what was still on its way is ours."""
    found = []
    client.send(CLOSE, b"\x03\xe8")
    with contextlib.suppress(Closed):
        while True:
            m = client.fresh()
            found += [m] if m.parent == header["msg_id"] else []
    return found


@pytest.mark.more
def test_away_again_and_again(kernel):
    """Whoever comes and goes while a cell prints has heard everything once, in order, between them."""
    with kernel.client(session_id="mine") as client:
        header = client.execute("import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.005)")
        first = client.until(lambda m: m.type == "stream")
        heard = [first]
        heard += leave(client, header)
    found = []
    while not found or found[-1].state != "idle":
        kernel.wait_alone()
        with kernel.client(session_id="mine") as client:
            for _ in range(random.randint(1, 40)):
                m = client.next()
                found += [m] if m.parent == header["msg_id"] else []
                if m.state == "idle" and m.parent == header["msg_id"]:
                    break
            found += leave(client, header)
    text = texts(heard, header["msg_id"]) + texts(found, header["msg_id"])
    assert [int(line) for line in text.split()] == list(range(300)), "once, and in order"
    assert count(found)["execute_reply"] == 1


def test_somebody_else_was_there(kernel):
    """Who comes back is told what nobody heard, and not what somebody did."""
    with kernel.client(session_id="other") as other:
        with kernel.client(session_id="mine") as client:
            header = client.begin(WAIT_FOR.format("go") + "print('end')")
        until(lambda: kernel.get()["connections"] == 1, "one is left")
        kernel.touch("go")
        theirs = other.told(header)
        assert theirs.text() == "up\nend\n"
        with kernel.client(session_id="mine") as client:
            assert not [m for m in client.left() if m.parent == header["msg_id"] and m.type == "stream"]
            assert client.run("6 * 7").ok.value == "42"


def test_the_reply_of_who_left_is_not_lost(kernel):
    """Another client is there all the while; the reply waits for whose it is, or goes to who is there."""
    with kernel.client(session_id="other") as other:
        with kernel.client(session_id="mine") as client:
            header = client.begin(WAIT_FOR.format("go") + "6 * 7")
        until(lambda: kernel.get()["connections"] == 1, "one is left")
        kernel.touch("go")
        theirs = other.told(header).replies
        with kernel.client(session_id="mine") as client:
            mine = [m for m in client.left() if m.type == "execute_reply"]
            assert len(theirs) + len(mine) == 1, (theirs, mine)


def test_a_question_waits(kernel):
    """input() of a client that has left is asked again of the one that comes."""
    with kernel.client(session_id="mine") as client:
        header = client.begin(WAIT_FOR.format("go") + "input('who? ')")
    kernel.wait_alone()
    kernel.touch("go")
    with kernel.client(session_id="mine") as client:
        asked = client.asked(header)
        assert asked.content["prompt"] == "who? "
        client.answer(asked, "me")
        assert client.told(header).ok.value == "'me'"


def test_a_lot_was_said(kernel):
    """Megabytes, and displays between them."""
    with kernel.client(session_id="mine") as client:
        header = client.begin(WAIT_FOR.format("go") + "for i in range(50):\n    print(f'{i:09999d}' * 10)\n    display(i)")
    kernel.wait_alone()
    kernel.touch("go")
    kernel.wait_state("idle")
    with kernel.client(session_id="mine") as client:
        told = client.told(header).ok
        assert told.text() == "".join(f"{i:09999d}" * 10 + "\n" for i in range(50))
        assert [c["data"]["text/plain"] for c in told.of("display_data")] == [str(i) for i in range(50)]


def test_late_words_wait_too(kernel):
    code = "import threading, os, time\ndef f():\n    while not os.path.exists('go'): time.sleep(0.01)\n    print('late')\n    open('said', 'w')\nthreading.Thread(target=f).start()"
    with kernel.client(session_id="mine") as client:
        header = client.execute(code)
        client.told(header).check().ok
    kernel.wait_alone()
    kernel.touch("go")
    kernel.shell("while ! test -e said; do sleep 0.01; done")
    time.sleep(0.1)
    with kernel.client(session_id="mine") as client:
        m = client.until(lambda m: m.type == "stream")
        assert m.content["text"] == "late\n" and m.parent == header["msg_id"]
        assert count(client.left()).get("stream", 0) == 0


def test_nothing_was_missed(kernel):
    with kernel.client(session_id="mine") as client:
        header = client.execute("print('heard')")
        client.told(header).check().ok
        assert client.leave() == 1000
    for name in ("mine", "other", ""):
        kernel.wait_alone()
        with kernel.client(session_id=name) as client:
            assert not [m for m in client.left() if m.parent == header["msg_id"]]


# --- a gate that is killed -----------------------------------------------------------------------------------------------


PRINTS = "import time\nfor i in range(400):\n    print(i, flush=True)\n    if i % 50 == 49: display(i)\n    time.sleep(0.004)\n6 * 7"


def printed_so(messages):
    """What is to be seen at the end of PRINTS."""
    want = []
    for i in range(0, 400, 50):
        want += [("stdout", "".join(f"{n}\n" for n in range(i, i + 50))), ("display_data", str(i + 49))]
    want.append(("execute_result", "42"))
    return [(kind, what if isinstance(what, str) else what["data"]["text/plain"]) for kind, what in messages] == want


def follow(kernel, header, found, session_id="mine", framing="v1"):
    """Every message of a request, by a client that comes back whenever it is cut off."""
    number = header["msg_id"]
    while not found or found[-1].state != "idle":
        with contextlib.suppress(Closed, ConnectionError):
            with kernel.client(framing, session_id=session_id) as client:
                assert client.status == 101, client.head
                while not found or found[-1].state != "idle":
                    m = client.next()
                    found += [m] if m.parent == number else []
    return found


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.more)])
def test_killed_while_a_cell_prints(serve, framing, kills):
    server = serve(**WARM)
    kernel = Kernel(server)
    found = []
    with kernel.client(framing, session_id="mine") as client:
        client.run("kept = 1").ok
        header = client.execute(PRINTS)
        while len(found) < 60:
            m = client.next()
            found += [m] if m.parent == header["msg_id"] else []
        kill(server)
    for _ in range(kills - 1):
        with contextlib.suppress(Closed, ConnectionError):
            with kernel.client(framing, session_id="mine") as client:
                for _ in range(60):
                    m = client.next()
                    found += [m] if m.parent == header["msg_id"] else []
        kill(server)
    follow(kernel, header, found, framing=framing)
    assert printed_so(shown(found)), shown(found)
    assert [m.content["status"] for m in found if m.type == "execute_reply"] == ["ok"]
    told = kernel.run("kept", framing)
    assert told.ok.value == "1" and told.reply["execution_count"] == 3


@pytest.mark.more
def test_killed_while_nobody_is_there(serve):
    server = serve(**WARM)
    kernel = Kernel(server)
    with kernel.client(session_id="mine") as client:
        header = client.execute(PRINTS)
        client.until(lambda m: m.type == "display_data")
        before = [m for m in client.kept if m.parent == header["msg_id"]]
    kernel.wait_alone()
    kill(server)
    kernel.wait_state("idle")
    found = follow(kernel, header, before)
    assert printed_so(shown(found)), shown(found)
    assert count(found)["execute_reply"] == 1


@pytest.mark.more
def test_killed_after_a_cell_that_was_heard(serve):
    """Nobody is told again what was told to its end."""
    server = serve(**WARM)
    kernel = Kernel(server)
    with kernel.client(session_id="mine") as client:
        header = client.execute("kept = 5\nprint('heard')")
        client.told(header).check().ok
        client.quiet()
        kill(server)
    with kernel.client(session_id="mine") as client:
        told = client.run("kept").ok
        assert told.value == "5" and not [m for m in client.left() if m.parent == header["msg_id"] and m.type == "stream"]


@pytest.mark.more
def test_killed_with_a_queue(serve):
    """Every request that was sent gets an answer: it ran, or it is aborted. None runs twice."""
    server = serve(**WARM)
    kernel = Kernel(server)
    with kernel.client(session_id="mine") as client:
        client.run("ran = []").ok
        first = client.begin("ran.append('first')\n" + WAIT_FOR.format("go"))
        waits = [client.execute(f"ran.append({i})") for i in range(5)]
        client.quiet()
        kill(server)
    kernel.touch("go")
    with kernel.client(session_id="mine", timeout=20) as client:
        assert client.told(first).ok
        answered = {}
        for i, one in enumerate(waits):
            try:
                answered[i] = client.told(one).reply["status"]
            except TimeoutError:
                break
        ran = client.run("ran").ok.value if len(answered) == len(waits) else None
    assert set(answered) == set(range(5)), f"of 5 that waited these were answered: {answered}"
    assert set(answered.values()) <= {"ok", "aborted"}
    assert eval(ran) == ["first"] + [i for i in range(5) if answered[i] == "ok"]


@pytest.mark.more
def test_killed_while_input_waits(serve):
    server = serve(**WARM)
    kernel = Kernel(server)
    with kernel.client(session_id="mine") as client:
        header, _ = client.hold("print('end')")
        kill(server)
    with kernel.client(session_id="mine") as client:
        client.answer(client.asked(header), "x")
        told = client.told(header)
        assert told.ok.text() == "end\n"


@pytest.mark.more
def test_killed_while_idle(serve):
    """Kernels stay, with their ids, names and environment; connections are counted anew."""
    server = serve(**WARM)
    kernel = Kernel(server, {"name": "python", "env": {"KERNEL_A": "b"}})
    with kernel.client() as client:
        client.run("x = 1").ok
        kill(server)
        with pytest.raises((Closed, ConnectionError)):
            while True:
                client.next()
    model = kernel.get()
    assert (model["id"], model["name"], model["connections"]) == (kernel.id, "python", 0)
    assert [k["id"] for k in server.call("GET", "/api/kernels")[1]] == [kernel.id]
    with kernel.client() as client:
        assert client.run("import os; x, os.environ['KERNEL_A']").ok.value == "(1, 'b')"
        info = client.ask("kernel_info_request", channel="control").reply
        assert info["status"] == "ok" and info["language_info"]["name"] == "python" and info["implementation_version"]
        assert kernel.interrupt()[0] == 204 and kernel.restart()[0] == 200
        assert client.run("import os; 'x' in globals(), os.environ['KERNEL_A']").ok.value == "(False, 'b')"
    box = kernel.box
    assert kernel.call("DELETE")[0] == 204
    until(lambda: server.call("GET", f"/v1/boxes/{box}")[0] in (404, 410), "its box ends with it, also after another gate")


@pytest.mark.slow
def test_killed_at_random(serve):
    """A client that always comes back never sees anything but the right thing."""
    server = serve(**WARM)
    kernel = Kernel(server)
    for round_ in range(20):
        found = []
        with kernel.client(session_id="mine") as client:
            header = client.execute(PRINTS)
            try:
                for _ in range(random.randint(1, 300)):
                    m = client.next()
                    found += [m] if m.parent == header["msg_id"] else []
                    if m.state == "idle" and m.parent == header["msg_id"]:
                        break
            except Closed:
                pass
            if not found:  # it may not have been taken
                continue
            kill(server)
        follow(kernel, header, found)
        assert printed_so(shown(found)), (round_, shown(found))
        replies = [m.content["status"] for m in found if m.type == "execute_reply"]
        assert replies and set(replies) == {"ok"}, round_


@pytest.mark.more
def test_the_answer_is_for_who_asked_also_after_a_kill(serve):
    """Somebody else came back first, and heard it; who asked is told all the same."""
    server = serve(**WARM)
    kernel = Kernel(server)
    with kernel.client(session_id="other") as other, kernel.client(session_id="mine") as client:
        header = client.begin(WAIT_FOR.format("go") + "6 * 7")
        other.quiet()
        kill(server)
    kernel.touch("go")
    with kernel.client(session_id="other") as other:
        other.until(lambda m: m.state == "idle" and m.parent == header["msg_id"])
        with kernel.client(session_id="mine") as client:
            m = client.until(lambda m: m.type == "execute_reply")
            assert m.parent == header["msg_id"] and m.content["status"] == "ok"
            client.until_state("idle", header["msg_id"])
            assert client.run("1").ok


@pytest.mark.more
def test_a_client_takes_its_own_place(kernel):
    """Its old connection hangs, with output in it; nothing of that is lost."""
    with kernel.client(session_id="mine") as old:
        header = old.begin("for i in range(40000): print(i, 'x' * 200)")
        until(lambda: kernel.state == "busy" and len(old.buffer) >= 0, "it prints")
        time.sleep(1)
        with kernel.client(session_id="mine") as client:
            told = client.told(header)
            assert told.ok.text().endswith("39999 " + "x" * 200 + "\n")
