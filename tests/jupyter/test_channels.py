# SPDX-License-Identifier: Apache-2.0
"""Jupyter's channels: every request, and what is told in which order, in every framing.

`client` is one kernel for all tests of a framing, which use names of their own; what could harm it has a `kernel` for itself.
"""
import json
import re
import time

import pytest

from comms import COMM, ECHO
from jup import FRAMINGS, V1, WAIT_FOR, Closed, Kernel, WebSocket, all_closed, count, shown
from server import WARM, certificate, needs_root, serve, shared  # noqa: F401

pytestmark = needs_root

server = shared(**WARM)
small = shared(box_memory="256M", **WARM)

ENDLESS = "import time; time.sleep(1000)"


@pytest.fixture(scope="module")
def everybodys(server):
    with Kernel(server) as kernel:
        kernel.run("first = 1").ok
        yield kernel


@pytest.fixture(scope="module", params=["text", pytest.param("binary", marks=pytest.mark.more), "v1"])
def framing(request):
    return request.param


@pytest.fixture
def client(everybodys, framing):
    """A test that fails in the middle of a cell leaves it to nobody."""
    with everybodys.client(framing) as client:
        yield client
    for _ in range(50):
        if everybodys.state == "idle":
            return
        everybodys.interrupt()
        time.sleep(0.05)
    everybodys.restart()


@pytest.fixture
def kernel(server):
    with Kernel(server) as kernel:
        yield kernel


def plain(*lines):
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(lines))


# --- what is told, in which order ----------------------------------------------------------------------------------


def test_order(client):
    told = client.run("import sys\nprint('out')\ndisplay('shown')\nprint('err', file=sys.stderr)\ndisplay('again')\n6 * 7").ok
    assert told.brief == ["busy", "execute_input", "stream", "display_data", "stream", "display_data", "execute_result", "execute_reply", "idle"]
    assert (told.text(), told.text("stderr"), told.value) == ("out\n", "err\n", "42")
    assert [c["data"] for c in told.of("display_data")] == [{"text/plain": "'shown'"}, {"text/plain": "'again'"}]
    (echo,) = told.of("execute_input")
    assert echo["code"].startswith("import sys\n") and echo["execution_count"] == told.reply["execution_count"]
    (result,) = told.of("execute_result")
    assert result["execution_count"] == told.reply["execution_count"] and result["metadata"] == {}
    assert told.reply["payload"] == [] and told.reply["user_expressions"] == {}
    assert {m.channel for m in told.all} == {"iopub", "shell"} and [m.channel for m in told.replies] == ["shell"]


def test_an_error(client):
    told = client.run("print('before')\ndef f():\n    1/0\nf()")
    assert told.brief == ["busy", "execute_input", "stream", "error", "execute_reply", "idle"]
    (error,) = told.of("error")
    assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert {key: told.reply[key] for key in ("ename", "evalue", "traceback")} == error
    assert told.reply["status"] == "error" and told.reply["execution_count"] > 0 and "1/0" in plain(*told.reply["traceback"])


def test_no_python(client):
    told = client.run("for")
    assert told.reply["status"] == "error" and told.reply["ename"] == "SyntaxError" and len(told.of("error")) == 1


def test_nothing_to_do(client):
    for code in ("", " \n", "# only a comment"):
        told = client.run(code).ok
        assert told.of("execute_result") == [] and told.of("stream") == []


def test_state_and_counts(client):
    first = client.run("counted = 40").ok.reply["execution_count"]
    told = client.run("counted + 2").ok
    assert told.value == "42" and told.reply["execution_count"] == first + 1
    assert client.value("Out[%d]" % (first + 1)) == "42"


def test_characters(client):
    text = "ä€𝄞\u2028\x01\"\\</script>\r"
    assert client.value(f"{text!r}") == repr(text)
    assert client.printed(f"print({text!r}, end='')") == text
    told = client.run("print('\\ud800', end='')")
    assert told.replies, "half a character is no reason to be silent"
    told = client.run("import os; n = os.write(1, b'a\\xffb')").ok
    assert told.text().startswith("a") and told.text().endswith("b")


def test_all_output_comes_before_the_reply(client):
    """Ten megabytes of lines, all of them, in order."""
    code = "for i in range(100000): print(f'{i:099d}')"
    told = client.run(code).ok
    assert told.text() == "".join(f"{i:099d}\n" for i in range(100000))
    assert told.types[-2:] == ["execute_reply", "status"] and set(told.types[2:-2]) == {"stream"}


def test_displays_between_prints(client):
    told = client.run("import sys\nfor i in range(300):\n    print(i)\n    display(i)\n    print(-i, file=sys.stderr)\n    display(-i)").ok
    found = [("out" if m.content.get("name") == "stdout" else "err", m.content["text"]) if m.type == "stream" else ("show", m.content["data"]["text/plain"])
             for m in told.all if m.type in ("stream", "display_data")]
    want = [one for i in range(300) for one in (("out", f"{i}\n"), ("show", f"{i}"), ("err", f"{-i}\n"), ("show", f"{-i}"))]
    assert found == want


def test_children_print_into_the_cell(client):
    told = client.run("!echo one; echo two >&2\nprint('three')\nimport subprocess\nsubprocess.run(['echo', 'four'])\ndisplay(5)\nprint(6)").ok
    assert told.text() == "one\nthree\nfour\n6\n" and told.text("stderr") == "two\n"
    assert [one for one in shown(told.all) if one[0] != "stderr"][-1] == ("stdout", "6\n")


def test_text_that_no_one_ends(client):
    """A prompt, a progress bar: what has no line's end is told as well."""
    header = client.execute("import time\nprint('half', end='', flush=True)\ninput()\nprint(' whole')")
    asked = client.asked(header)
    assert "".join(m.content["text"] for m in client.kept if m.type == "stream" and m.parent == header["msg_id"]) == "half"
    client.answer(asked, "")
    assert client.told(header).ok.text() == "half whole\n"


@pytest.mark.more
def test_output_is_never_cut(kernel):
    """A client that reads gets all of it, however much it is."""
    with kernel.client() as client:
        told = client.run("for i in range(400000): print(f'{i:099d}')").ok
        text = told.text()
        assert len(text) == 40000000, f"{len(text)} of 40000000 bytes; stderr: {told.text('stderr')[-200:]!r}"
        assert text == "".join(f"{i:099d}\n" for i in range(400000))


def test_a_large_display(client):
    told = client.run("display({'text/plain': 'x' * 12000000, 'application/json': {'a': [1, 2]}}, raw=True)\nprint('after')").ok
    (data,) = [c["data"] for c in told.of("display_data")]
    assert len(data["text/plain"]) == 12000000 and data["application/json"] == {"a": [1, 2]} and told.text() == "after\n"


# --- what execute_request can say ------------------------------------------------------------------------------------


def test_silent(client):
    first = client.run("1").reply["execution_count"]
    told = client.run("silent = 5\nsilent", silent=True).ok
    assert not {"execute_input", "execute_result"} & set(told.types)
    again = client.run("silent").ok
    assert again.value == "5" and again.reply["execution_count"] == first + 1
    last = client.ask("history_request", {"hist_access_type": "tail", "n": 1, "output": False, "raw": True}).reply["history"]
    assert last[0][2] == "silent"
    assert client.run("1/0", silent=True).reply["ename"] == "ZeroDivisionError"


def test_not_into_the_history(client):
    first = client.run("'kept'").reply["execution_count"]
    told = client.run("unkept = 7; unkept", store_history=False).ok
    assert told.value == "7", "its result is shown"
    assert client.run("2").reply["execution_count"] == first + 1
    lines = client.ask("history_request", {"hist_access_type": "tail", "n": 2, "output": False, "raw": True}).reply["history"]
    assert [line[2] for line in lines] == ["'kept'", "2"]


def test_user_expressions(client):
    found = client.run("asked = 3", user_expressions={"good": "asked + 1", "bad": "1/0", "worse": "no(", "rich": "[asked]"}).ok.reply["user_expressions"]
    assert found["good"] == {"status": "ok", "data": {"text/plain": "4"}, "metadata": {}} and found["rich"]["data"] == {"text/plain": "[3]"}
    assert found["bad"]["status"] == "error" and found["bad"]["ename"] == "ZeroDivisionError"
    assert found["worse"]["status"] == "error" and found["worse"]["ename"] == "SyntaxError"
    told = client.run("1/0", user_expressions={"x": "1"})
    assert told.reply["status"] == "error" and told.reply.get("user_expressions", {}) in ({}, {"x": {"status": "ok"}})


def test_payloads(client):
    (page,) = client.run("len?").ok.reply["payload"]
    assert page["source"] == "page" and "text/plain" in page["data"]
    (line,) = client.run("get_ipython().set_next_input('next')").ok.reply["payload"]
    assert line["source"] == "set_next_input" and line["text"] == "next"


def test_contents_that_say_little(client):
    """Keys that are missing have defaults; those nobody knows mean nothing."""
    told = client.told(client.say("execute_request", {"code": "6 * 7"})).check()
    assert told.ok.value == "42" and told.of("execute_input")
    told = client.told(client.say("execute_request", {"code": "6 * 7", "cell_id": "x", "more": [1]})).check()
    assert told.ok.value == "42"
    for content in ({}, {"code": None}, {"code": 5}, {"code": ["1"]}, {"code": "1", "silent": "yes", "user_expressions": []}):
        told = client.told(client.say("execute_request", content)).check()
        assert told.reply["status"] in ("ok", "error"), told.all
    assert client.value("6 * 7") == "42"


def test_a_large_cell(client):
    code = "".join(f"large_{i} = {i}\n" for i in range(10000)) + "large_9999"
    assert client.value(code) == "9999"
    assert client.value(f"len('{'x' * 1000000}')") == "1000000"


def test_await(client):
    assert client.run("import asyncio\nprint(await asyncio.sleep(0, 5))").ok.text() == "5\n"


# --- every other request ---------------------------------------------------------------------------------------------


def check_info(content):
    assert content["status"] == "ok" and content["protocol_version"] == "5.3" and content["implementation"] == "ipython"
    assert content["implementation_version"] and isinstance(content["banner"], str) and isinstance(content["help_links"], list)
    language = content["language_info"]
    assert (language["name"], language["mimetype"], language["file_extension"]) == ("python", "text/x-python", ".py")
    assert re.fullmatch(r"3\.\d+\.\d+.*", language["version"]) and language["pygments_lexer"] and language["codemirror_mode"]


@pytest.mark.parametrize("channel", ["shell", "control"])
def test_kernel_info(client, channel):
    told = client.ask("kernel_info_request", channel=channel)
    assert told.brief == ["busy", "kernel_info_reply", "idle"] and told.replies[0].channel == channel
    check_info(told.reply)


def test_complete(client):
    client.run("complete_me = completed = {'key': 1}").ok
    found = client.ask("complete_request", {"code": "x = complete", "cursor_pos": 12}).reply
    assert found["status"] == "ok" and {"complete_me", "completed"} <= set(found["matches"])
    assert (found["cursor_start"], found["cursor_end"]) == (4, 12) and isinstance(found["metadata"], dict)
    found = client.ask("complete_request", {"code": "𝄞 = 1; completed.ke", "cursor_pos": 19}).reply
    assert found["cursor_start"] in (7, 17) and found["cursor_end"] == 19, "counted in characters"
    assert found["matches"] == ["completed.keys"[found["cursor_start"] - 7:]]
    found = client.ask("complete_request", {"code": "no_such_thing_at_all.", "cursor_pos": 21}).reply
    assert found["status"] == "ok" and found["matches"] == []


def test_inspect(client):
    client.run("def inspected(a):\n    'What it does.'\n    return a + 1").ok
    found = client.ask("inspect_request", {"code": "inspected(1)", "cursor_pos": 3, "detail_level": 0}).reply
    assert found["status"] == "ok" and found["found"] and "What it does." in found["data"]["text/plain"]
    found = client.ask("inspect_request", {"code": "inspected", "cursor_pos": 3, "detail_level": 1}).reply
    assert "return a + 1" in plain(found["data"]["text/plain"])
    found = client.ask("inspect_request", {"code": "no_such_name", "cursor_pos": 3, "detail_level": 0}).reply
    assert found["status"] == "ok" and not found["found"] and found["data"] == {}


def test_is_complete(client):
    for code, want in {"a = 1": "complete", "for i in x:": "incomplete", "x = (": "incomplete", "a = )": "invalid", "": "complete"}.items():
        found = client.ask("is_complete_request", {"code": code}).reply
        assert found["status"] == want, code
        assert want != "incomplete" or isinstance(found["indent"], str)


def test_history(client):
    client.run("first_of_history = 1").ok, client.run("first_of_history + 1").ok
    found = client.ask("history_request", {"hist_access_type": "tail", "n": 2, "output": False, "raw": True}).reply
    assert found["status"] == "ok" and [line[2] for line in found["history"]] == ["first_of_history = 1", "first_of_history + 1"]
    found = client.ask("history_request", {"hist_access_type": "tail", "n": 1, "output": True, "raw": True}).reply
    assert found["history"][0][2] == ["first_of_history + 1", "2"]
    found = client.ask("history_request", {"hist_access_type": "search", "pattern": "*_of_history*", "output": False, "raw": True, "n": 10, "unique": True}).reply
    assert {line[2] for line in found["history"]} == {"first_of_history = 1", "first_of_history + 1"}
    number = found["history"][0][1]
    found = client.ask("history_request", {"hist_access_type": "range", "session": 0, "start": number, "stop": number + 1, "output": False, "raw": True}).reply
    assert [line[1] for line in found["history"]] == [number]


def test_nothing_that_is_known(client):
    """A request is answered, whatever it is called; what is no request is not."""
    for kind, channel in (("no_such_request", "shell"), ("connect_request", "shell"), ("no_such_request", "control"), ("debug_request", "control"),
                          ("execute_request", "control"), ("interrupt_request", "shell")):
        told = client.ask(kind, {"code": "1"}, channel)
        assert told.replies[0].type == kind.replace("_request", "_reply") and told.replies[0].channel == channel, told.all
        assert told.reply["status"] in ("ok", "error")
    client.say("no_such_message", {"x": 1})
    client.say("execute_reply", {"status": "ok"})
    client.say("stream", {"name": "stdout", "text": "mine"}, "shell")
    assert client.value("6 * 7") == "42" and not [m for m in client.kept if m.type != "status"]


def test_questions_while_it_is_busy(client):
    """They wait for the cell; those on control do not."""
    header, asked = client.hold("held_here = 1")
    check_info(client.ask("kernel_info_request", channel="control").reply)
    waiting = client.say("complete_request", {"code": "held_", "cursor_pos": 5})
    check_info(client.ask("kernel_info_request", channel="control").reply)
    assert not [m for m in client.kept if m.parent == waiting["msg_id"] and m.type.endswith("_reply")]
    client.answer(asked, "go")
    assert client.told(header).ok
    assert "held_here" in client.told(waiting).check().reply["matches"]


def test_many_requests_at_once(client):
    headers = [client.execute(f"{i} * 2") for i in range(200)]
    assert [client.told(header).check().ok.value for header in headers] == [str(2 * i) for i in range(200)]


# --- headers of all kinds ----------------------------------------------------------------------------------------------

HEADERS = {
    "old": {"version": "5.0", "username": "", "session": "", "date": ""},
    "no date": {"date": None},
    "a number for a date": {"date": 1700000000.5},
    "nobody": {"username": None, "session": None},
    "more": {"subshell_id": None, "extra": {"a": [1]}},
    "characters": {"username": "ä\n\"\\𝄞", "msg_id": "ä-1\n"},
    "of another session": {"session": "0123456789abcdef"},
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(client, name):
    header = {**client.header("execute_request"), **HEADERS[name]}
    header["msg_id"] += name
    for key in [key for key, value in header.items() if value is None]:
        del header[key]
    client.say("execute_request", {"code": "6 * 7"}, header=header)
    found = []
    while not found or found[-1].state != "idle":
        m = client.next()
        found += [m] if m.parent == header["msg_id"] else []
    assert [m.state or m.type for m in found] == ["busy", "execute_input", "execute_result", "execute_reply", "idle"]
    for m in found:
        kept = {key: m.parent_header.get(key) for key in ("msg_id", "msg_type", "session", "username", "version") if key in header}
        assert kept == {key: header[key] for key in kept}


@pytest.mark.parametrize("character", ["x", "\x01", "𝄞"], ids=["short", "escaped", "long"])
def test_the_longest_header(everybodys, framing, character):
    """As long as its parts may be. Of characters that are long when they are escaped it may be too long, which is said."""
    n = 128 // len(character.encode())
    with everybodys.client(framing) as client:
        header = {**client.header("execute_request"), "username": character * n, "session": character * n, "date": "d" * 64, "version": "5" * 32}
        header["msg_id"] += character * (96 // len(character.encode()))
        client.say("execute_request", {"code": "6 * 7"}, header=header)
        try:
            assert client.told(header).check().ok.value == "42"
        except Closed as e:
            assert character != "x" and e.code == 1009 and e.reason


OFFERS = {"v1.kernel.websocket.jupyter.org": True, "other, v1.kernel.websocket.jupyter.org": True, "v1.kernel.websocket.jupyter.org,other": True,
          "a,b, c,v1.kernel.websocket.jupyter.org": True, "v1.kernel.websocket.jupyter.orgs": False, "xv1.kernel.websocket.jupyter.org": False,
          "v2.kernel.websocket.jupyter.org": False, "V1.KERNEL.WEBSOCKET.JUPYTER.ORG": False, "other": False}


@pytest.mark.parametrize("offer", OFFERS)
def test_subprotocols(everybodys, offer):
    """Ours where it is offered, by its whole name; else none: it must not be made up."""
    with WebSocket(everybodys.server, f"{everybodys.path}/channels", protocol=offer) as ws:
        assert ws.status == 101
        assert ws.given.get("sec-websocket-protocol") == (V1 if OFFERS[offer] else None)


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=a%0Ab", "?session_id=request%201", "?session_id=%C3%A4", "?session_id=" + "x" * 128,
                                   "?session_id=" + "x" * 129, "?session_id=" + "x" * 2000, "?session_id=a&session_id=b", "?session_id=a+b", "?SESSION_ID=a", "?x=%"])
def test_session_ids(everybodys, query):
    """Whatever it is, requests are answered, once."""
    with everybodys.client(query=query) as client:
        if client.status != 101:
            assert client.status == 400 and ("%" in query or query.count("=") == 2)
            return
        assert client.run("6 * 7").ok.value == "42"


def test_messages_that_lack_things(everybodys):
    """As small clients send them: no channel, no parent, no metadata, buffers that are an object."""
    with everybodys.client("text") as client:
        for left_out, put_in in ((["channel"], {}), (["parent_header", "metadata"], {}), ([], {"buffers": {}}), (["buffers"], {}), (["msg_id", "msg_type"], {}),
                                 (["channel", "parent_header", "metadata", "buffers", "msg_id", "msg_type"], {}), ([], {"parent_header": None, "metadata": None})):
            header = client.header("execute_request")
            m = {"header": header, "parent_header": {}, "metadata": {}, "content": {"code": "6 * 7"}, "buffers": [], "channel": "shell",
                 "msg_id": header["msg_id"], "msg_type": header["msg_type"], **put_in}
            for key in left_out:
                del m[key]
            client.send(1, json.dumps(m).encode())
            assert client.told(header).check().ok.value == "42"


def test_pings(everybodys):
    with everybodys.client("text") as client:
        client.send(9, b"are you there")
        assert client.value("6 * 7") == "42" and client.pongs == [b"are you there"]
        assert client.leave() == 1000


# --- when one fails, and others wait -------------------------------------------------------------------------------------


def test_an_error_stops_what_waits(client):
    header, asked = client.hold("1/0")
    runs = [client.execute("print('never')"), client.execute("never = 1")]
    info = client.say("kernel_info_request")
    client.answer(asked, "go")
    assert client.told(header).reply["ename"] == "ZeroDivisionError"
    for one in runs:
        told = client.told(one)
        assert told.reply["status"] == "aborted" and set(told.types) == {"status", "execute_reply"} and told.states == ["busy", "idle"], told.all
    check_info(client.told(info).check().reply)
    assert client.value("'never' in globals()") == "False"


def test_an_error_that_stops_nothing(client):
    header, asked = client.hold("1/0", stop_on_error=False)
    runs = [client.execute("print('first')"), client.execute("print('second')")]
    client.answer(asked, "go")
    assert client.told(header).reply["ename"] == "ZeroDivisionError"
    assert [client.told(one).check().ok.text() for one in runs] == ["first\n", "second\n"]


def test_an_error_stops_what_others_wait_for(kernel):
    with kernel.client() as one, kernel.client("text") as two:
        header, asked = one.hold("1/0")
        theirs, ours = two.execute("print('never')"), one.execute("print('never')")
        check_info(two.ask("kernel_info_request", channel="control").reply)  # the request before it has arrived
        one.answer(asked, "go")
        assert one.told(header).reply["status"] == "error"
        assert two.told(theirs).reply["status"] == "aborted" and one.told(ours).reply["status"] == "aborted"
        assert two.run("6 * 7").ok.value == "42"


def test_an_interrupt_stops_what_waits(client, everybodys):
    header = client.begin(ENDLESS)
    waits = client.execute("print('never')")
    client.quiet()
    assert everybodys.interrupt()[0] == 204
    assert client.told(header).reply["ename"] == "KeyboardInterrupt" and client.told(waits).reply["status"] == "aborted"


# --- input ---------------------------------------------------------------------------------------------------------------


def test_input(client):
    header = client.execute("name = input('Who? ')\nimport getpass\nword = getpass.getpass('Secret: ')\nname, word")
    asked = client.asked(header)
    assert asked.channel == "stdin" and asked.content == {"prompt": "Who? ", "password": False}
    client.answer(asked, "wörld 𝄞")
    asked = client.asked(header)
    assert asked.content == {"prompt": "Secret: ", "password": True}
    client.answer(asked, "")
    told = client.told(header).ok
    assert told.value == "('wörld 𝄞', '')"


def test_input_that_is_long(client):
    header, asked = client.hold()
    client.answer(asked, "x" * 40000)
    assert client.told(header).ok
    header = client.execute("long = input()\nlen(long)")
    client.answer(client.asked(header), "ä" * 1000000)
    told = client.told(header)
    assert told.reply["status"] == "error" or told.value == "1000000", "all of it, or an error: never a part"


def test_no_input(client):
    told = client.run("input('?')", allow_stdin=False)
    assert told.reply["ename"] == "StdinNotImplementedError" and not [m for m in told.all if m.channel == "stdin"]


def test_input_that_nobody_asked_for(client):
    for content in ({"value": "stale"}, {}, {"value": 5}, {"value": None}):
        client.say("input_reply", content, "stdin")
    header = client.execute("input()")
    client.answer(client.asked(header), "fresh")
    assert client.told(header).ok.value == "'fresh'"
    client.say("input_reply", {"value": "late"}, "stdin")
    assert client.run("6 * 7").ok.value == "42"


def test_input_is_interrupted(client, everybodys):
    header, _ = client.hold()
    assert everybodys.interrupt()[0] == 204
    assert client.told(header).reply["ename"] == "KeyboardInterrupt"
    header = client.execute("input()")
    client.answer(client.asked(header), "again")
    assert client.told(header).ok.value == "'again'"


# --- interrupts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [ENDLESS, "while True: pass", "!sleep 1000", "import asyncio\nawait asyncio.sleep(1000)"],
                         ids=["sleep", "loop", "command", "await"])
def test_interrupt_by_rest(client, everybodys, code):
    header = client.begin(code)
    assert everybodys.interrupt()[0] == 204
    told = client.told(header)
    assert told.reply["status"] == "error" and told.reply["ename"] == "KeyboardInterrupt" and len(told.of("error")) == 1, told.all[-5:]
    assert client.run("6 * 7").ok.value == "42"


def test_interrupt_by_control(client):
    header = client.begin(ENDLESS)
    told = client.ask("interrupt_request", channel="control")
    assert told.reply == {"status": "ok"} and told.replies[0].channel == "control"
    assert client.told(header).reply["ename"] == "KeyboardInterrupt"
    assert client.ask("interrupt_request", channel="control").reply == {"status": "ok"}, "also when nothing runs"
    assert client.run("6 * 7").ok.value == "42"


def test_a_cell_may_catch_it(client):
    header = client.execute("import time\ntry:\n    print('up', flush=True)\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    print('caught')")
    client.until(lambda m: m.type == "stream" and "up" in m.content["text"])
    client.ask("interrupt_request", channel="control")
    assert client.told(header).ok.text().endswith("caught\n")


# --- several clients ---------------------------------------------------------------------------------------------------------


def test_iopub_is_everybodys_and_replies_are_not(kernel):
    with kernel.client() as one, kernel.client("text") as two, kernel.client("binary") as three:
        header = one.execute("print('out')\ndisplay(1)\n6 * 7")
        mine = one.told(header).check()
        for other in (two, three):
            theirs = other.told(header)
            assert [m.state or m.type for m in theirs.all] == [m.state or m.type for m in mine.all if m.channel == "iopub"]
            assert theirs.text() == "out\n" and theirs.value == "42"
        assert not [m for m in two.left() + three.left() if m.channel != "iopub"]
        # Each asks, and each is answered what it asked.
        headers = [(c, c.execute(f"{i} + 100")) for i, c in enumerate((one, two, three))]
        assert [c.told(h).check().ok.value for c, h in headers] == ["100", "101", "102"]


def test_every_reply_is_for_who_asked(kernel):
    questions = (("kernel_info", {}, "shell"), ("comm_info", {}, "shell"), ("complete", {"code": "p", "cursor_pos": 1}, "shell"),
                 ("inspect", {"code": "print", "cursor_pos": 1}, "shell"), ("history", {"hist_access_type": "tail", "n": 1}, "shell"),
                 ("is_complete", {"code": "1"}, "shell"), ("no_such", {}, "shell"), ("kernel_info", {}, "control"), ("interrupt", {}, "control"))
    with kernel.client() as one, kernel.client("text") as two:
        for asks, other in ((one, two), (two, one)):
            for kind, content, channel in questions:
                told = asks.ask(f"{kind}_request", content, channel)
                assert [m.type for m in told.replies] == [f"{kind}_reply"]
                heard = [m for m in other.left() if m.channel != "iopub"]
                assert not heard, heard


def test_who_asked_is_asked(kernel):
    """input() is a question to who runs the cell."""
    with kernel.client() as one, kernel.client("text") as two:
        header, asked = one.hold()
        check_info(two.ask("kernel_info_request", channel="control").reply)
        assert not [m for m in two.kept if m.channel == "stdin"]
        one.answer(asked, "x")
        assert one.told(header).ok


def test_two_with_the_same_session(kernel):
    """A browser that was opened twice: both hear the reply, or one of them; nobody hears it twice."""
    with kernel.client(session_id="same") as one, kernel.client(session_id="same") as two:
        header = one.execute("6 * 7")
        assert one.told(header).check().ok.value == "42"
        assert len([m for m in two.told(header).all if m.channel == "shell"]) < 2
        assert two.run("7 * 7").ok.value == "49"


def test_one_leaves_another_stays(kernel):
    with kernel.client() as one:
        with kernel.client("text") as two:
            header = two.begin(WAIT_FOR.format("go") + "print('end')")
        kernel.touch("go")
        theirs = one.told(header)
        assert theirs.text() == "up\nend\n" and theirs.all[-1].state == "idle"


# --- displays that change ------------------------------------------------------------------------------------------------------


def test_updates(client):
    told = client.run("h = display('one', display_id='named')\nh.update('two')\nd = display('x', display_id=True)\n"
                      "from IPython.display import update_display\nupdate_display('three', display_id='named')").ok
    kinds = [(m.type, m.content["data"]["text/plain"], m.content["transient"].get("display_id")) for m in told.all if "display_data" in m.type]
    generated = kinds[2][2]
    assert kinds == [("display_data", "'one'", "named"), ("update_display_data", "'two'", "named"), ("display_data", "'x'", generated),
                     ("update_display_data", "'three'", "named")] and isinstance(generated, str) and generated
    assert client.run("h.update('later')").ok.of("update_display_data")[0]["transient"] == {"display_id": "named"}


def test_clear(client):
    told = client.run("from IPython.display import clear_output\nprint(1)\nclear_output()\nprint(2)\nclear_output(wait=True)\nprint(3)").ok
    assert told.of("clear_output") == [{"wait": False}, {"wait": True}]
    assert told.brief == ["busy", "execute_input", "stream", "clear_output", "stream", "clear_output", "stream", "execute_reply", "idle"]
    assert shown(told.all) == [("stdout", "3\n")]


def test_a_plot(client):
    told = client.run("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()").ok
    (data,) = [c["data"] for c in told.of("display_data")]
    assert data["image/png"].startswith("iVBORw0KGgo") and data["text/plain"].startswith("<Figure")


# --- words that come late ------------------------------------------------------------------------------------------------------


LATE = "import threading\ndef late():\n    {}\n    print('late')\n    display('shown late')\n    print('later')\nthreading.Thread(target=late).start()\n"


def test_late_words_keep_their_parent(client, everybodys):
    code = LATE.format("import os, time\n    while not os.path.exists('late-go'): time.sleep(0.01)")
    header = client.execute(code)
    assert client.told(header).check().ok.text() == ""
    other = client.begin("input()\nprint('mine')")
    asked = client.asked(other)
    everybodys.touch("late-go")
    found = []
    while not found or "later" not in str(found[-1].content):
        m = client.next()
        found += [m] if m.parent == header["msg_id"] else []
    assert [(m.type, m.content.get("text") or m.content["data"]["text/plain"]) for m in found if m.type != "status"] == \
        [("stream", "late\n"), ("display_data", "'shown late'"), ("stream", "later\n")]
    client.answer(asked, "x")
    assert client.told(other).ok.text().endswith("mine\n")
    everybodys.shell("rm -f late-go")


def test_late_words_while_nothing_runs(client, everybodys):
    code = LATE.format("import os, time\n    while not os.path.exists('late-idle'): time.sleep(0.01)")
    header = client.execute(code)
    client.told(header).check().ok
    everybodys.touch("late-idle")
    last = client.until(lambda m: m.type == "stream" and "later" in m.content["text"])
    assert last.parent == header["msg_id"]
    everybodys.shell("rm -f late-idle")


def test_a_task_goes_on(client):
    header = client.execute("import asyncio\nasync def f():\n    await asyncio.sleep(0.05)\n    print('from a task')\nt = asyncio.create_task(f())")
    assert client.told(header).check().ok.text() == ""
    m = client.until(lambda m: m.type == "stream")
    assert m.content["text"] == "from a task\n" and m.parent == header["msg_id"]


# --- comms ---------------------------------------------------------------------------------------------------------------------


def test_comms(client):
    client.run(COMM + ECHO).ok
    parts = [b"", b"\x00\xff" * 1000, bytes(range(256)) * 4096]
    header = client.say("comm_open", {"comm_id": "c1", "target_name": "echo", "data": {"hello": 1}}, metadata={"m": 1}, buffers=parts[:2])
    told = client.told(header).check()
    (m,) = [m for m in told.all if m.type == "comm_msg"]
    assert m.channel == "iopub" and m.content == {"comm_id": "c1", "data": {"opened": {"hello": 1}}} and m.buffers == parts[:2]
    assert told.brief == ["busy", "comm_msg", "idle"], "no reply"
    for buffers in ([], parts, [b"x"] * 100):
        told = client.told(client.say("comm_msg", {"comm_id": "c1", "data": {"n": len(buffers), "text": "ä𝄞"}}, buffers=buffers)).check()
        (m,) = [m for m in told.all if m.type == "comm_msg"]
        assert m.content["data"] == {"echo": {"n": len(buffers), "text": "ä𝄞"}} and m.buffers == buffers and m.metadata == {"was": len(buffers)}
    found = client.ask("comm_info_request", {"target_name": "echo"}).reply
    assert found == {"status": "ok", "comms": {"c1": {"target_name": "echo"}}}
    assert client.ask("comm_info_request", {"target_name": "other"}).reply["comms"] == {} and "c1" in client.ask("comm_info_request").reply["comms"]
    told = client.told(client.say("comm_close", {"comm_id": "c1", "data": {"bye": 1}})).check()
    assert told.text() == "closed {'bye': 1}\n"
    assert client.ask("comm_info_request").reply["comms"] == {}


def test_comms_that_the_kernel_opens(client):
    told = client.run(COMM + "c = comm.create_comm(target_name='there', data={'a': 1}, metadata={'m': 2}, buffers=[b'\\x00\\x01'], comm_id='k1')\n"
                      "c.send({'b': 2}, buffers=[memoryview(b'abc')])\nc.close({'c': 3})").ok
    kinds = {m.type: m for m in told.all if m.type.startswith("comm_")}
    assert [m.type for m in told.all if m.type.startswith("comm_")] == ["comm_open", "comm_msg", "comm_close"]
    opened = kinds["comm_open"]
    assert {**opened.content, "target_module": None} == {"comm_id": "k1", "data": {"a": 1}, "target_name": "there", "target_module": None}
    assert opened.buffers == [b"\x00\x01"] and opened.metadata == {"m": 2} and kinds["comm_msg"].buffers == [b"abc"]
    assert kinds["comm_close"].content["data"] == {"c": 3}


def test_comms_of_nobody(client):
    """Messages for comms that are not there: nothing happens, nothing breaks."""
    for kind, content in (("comm_msg", {"comm_id": "nobody", "data": {}}), ("comm_close", {"comm_id": "nobody", "data": {}}), ("comm_msg", {}),
                          ("comm_open", {"comm_id": "x", "target_name": "nobody", "data": {}}), ("comm_open", {})):
        told = client.told(client.say(kind, content, buffers=[b"1"]))
        assert told.states == ["busy", "idle"]
    assert client.run("6 * 7").ok.value == "42"


def test_comms_are_everybodys(kernel):
    with kernel.client() as one, kernel.client("text") as two:
        one.run(COMM + ECHO).ok
        header = one.say("comm_open", {"comm_id": "c1", "target_name": "echo", "data": {}}, buffers=[b"\x00"])
        one.told(header)
        (m,) = [m for m in two.told(header).all if m.type == "comm_msg"]
        assert m.buffers == [b"\x00"], "binary to everybody, each in its own framing"


# --- restart and end -------------------------------------------------------------------------------------------------------------


def restarted(client):
    """A kernel that was begun anew under a client: the same connection goes on. `restarting` would mean that it had died, and
    notebooks would say so to their users."""
    told = client.run("'old' in globals()").ok
    assert told.value == "False" and told.reply["execution_count"] == 1
    states = [m.state for m in client.kept if m.type == "status" and m.parent is None]
    assert "restarting" not in states and "dead" not in states, states


@pytest.mark.parametrize("way", ["rest", "control"])
@pytest.mark.parametrize("framing_of_it", ["text", "v1"])
def test_restart_with_queued_requests(kernel, way, framing_of_it):
    with kernel.client(framing_of_it) as client, kernel.client() as other:
        client.run("old = 1").ok
        header = client.begin(ENDLESS)
        waits = [client.execute("print('never')"), client.say("complete_request", {"code": "o", "cursor_pos": 1}), client.execute("never = 1")]
        theirs = other.execute("print('never')")
        other.quiet()
        client.quiet()
        if way == "rest":
            assert kernel.restart()[0] == 200
        else:
            assert client.ask("shutdown_request", {"restart": True}, "control").reply == {"status": "ok", "restart": True}
        assert client.told(header).reply["status"] in ("error", "aborted")
        for one in waits:
            assert client.told(one).reply["status"] in ("aborted", "error"), one
        assert other.told(theirs).reply["status"] in ("aborted", "error")
        restarted(client)
        restarted_too = other.run("6 * 7").ok
        assert restarted_too.value == "42" and "restarting" not in [m.state for m in other.kept]
        assert kernel.get()["id"] == kernel.id


def test_restart_when_idle(kernel):
    with kernel.client() as client:
        for _ in range(3):
            client.run("old = 1").ok
            assert kernel.restart()[0] == 200
            restarted(client)


def test_restarts_on_top_of_each_other(kernel):
    with kernel.client() as client:
        for _ in range(10):
            assert kernel.restart()[0] == 200
        client.say("shutdown_request", {"restart": True}, "control")
        header = client.execute("6 * 7")
        told = client.told(header)
        if told.reply["status"] != "ok":  # it came before the last restart
            told = client.run("6 * 7").ok
        assert told.value == "42"


def test_shutdown(server):
    kernel = Kernel(server)
    with kernel.client() as client, kernel.client("text") as other:
        header = client.begin(ENDLESS)
        waits = client.execute("print('never')")
        client.quiet()
        asked = client.say("shutdown_request", {"restart": False}, "control")
        told = client.until(lambda m: m.type == "shutdown_reply")
        assert told.parent == asked["msg_id"] and told.channel == "control" and told.content == {"status": "ok", "restart": False}
        assert client.told(header).reply["status"] == "error" and client.told(waits).reply["status"] == "aborted"
        assert client.close_code() in (1000, 1001) and other.close_code() in (1000, 1001)
    assert kernel.call("GET")[0] == 404
    with kernel.client() as client:
        assert client.status == 404


# --- a kernel that dies ------------------------------------------------------------------------------------------------------------

DEATHS = {
    "exit": "import os; os._exit(3)",
    "status 0": "import os; os._exit(0)",
    "kill": "import os; os.kill(os.getpid(), 9)",
    "segv": "import ctypes; ctypes.string_at(1)",
    "child": "import os, subprocess; subprocess.run(['kill', '-9', str(os.getpid())]); import time; time.sleep(1000)",
}


def died(client, header, name):
    """Told: an error, a reply, and that it starts anew; then it takes cells again."""
    told = client.told(header)
    assert told.text() == "before\n", "what it said first is not lost"
    assert told.reply["status"] == "error" and told.reply["ename"] and told.reply["evalue"], told.reply
    (error,) = told.of("error")
    assert error["ename"] == told.reply["ename"] and isinstance(error["traceback"], list)
    assert told.all[-1].state == "idle" and told.brief.index("error") < told.brief.index("execute_reply")
    client.until_state("restarting")
    again = client.run("'before' in globals()").ok
    assert again.value == "False" and again.reply["execution_count"] == 1, name


@pytest.mark.parametrize("name", DEATHS)
def test_a_kernel_that_dies(kernel, name):
    with kernel.client() as client, kernel.client("text") as other:
        header = client.execute("before = 1\nprint('before')\n" + DEATHS[name])
        died(client, header, name)
        theirs = other.told(header)
        assert theirs.text() == "before\n" and theirs.of("error") and theirs.all[-1].state == "idle"
        other.until_state("restarting")
        assert kernel.get()["id"] == kernel.id


@pytest.mark.more
def test_a_kernel_without_memory(small):
    with Kernel(small) as kernel, kernel.client() as client:
        header = client.execute("before = 1\nprint('before')\nx = []\nwhile True: x.append(bytearray(b'x' * 16000000))")
        told = client.told(header)
        if told.reply.get("ename") != "MemoryError":
            assert told.reply["status"] == "error" and "emory" in told.reply["ename"] + told.reply["evalue"], told.reply
            client.until_state("restarting")
        assert client.run("6 * 7").ok.value == "42"


def test_a_kernel_that_dies_with_queued_requests(kernel):
    with kernel.client() as client:
        header = client.execute("input()\nimport os; os._exit(1)")
        asked = client.asked(header)
        waits = [client.execute("print('never')"), client.say("kernel_info_request"), client.execute("2")]
        client.quiet()
        client.answer(asked, "die")
        assert client.told(header).reply["status"] == "error"
        assert [client.told(one).reply["status"] for one in waits] == ["aborted", "ok", "aborted"]
        assert client.run("6 * 7").ok.value == "42"


def test_a_kernel_that_dies_in_between(kernel):
    """Nothing runs: clients hear that it starts anew, and the next cell runs."""
    with kernel.client() as client:
        client.run("import os, threading\nthreading.Timer(0.1, os._exit, [0]).start()").ok
        client.until_state("restarting")
        assert client.run("'threading' in globals()").ok.value == "False"


@pytest.mark.more
def test_a_kernel_that_dies_again_and_again(kernel):
    with kernel.client() as client:
        for _ in range(20):
            header = client.execute("print('before'); import os; os._exit(1)")
            died(client, header, "again")


def test_nobody_is_there_when_it_dies(kernel):
    with kernel.client(session_id="mine") as client:
        header = client.begin(WAIT_FOR.format("die") + "os._exit(1)")
    kernel.wait_alone()
    kernel.touch("die")
    kernel.wait_state("idle")
    with kernel.client(session_id="mine") as client:
        told = client.told(header)
        assert told.reply["status"] == "error" and told.of("error") and told.all[-1].state == "idle"
        assert client.run("6 * 7").ok.value == "42"


# --- nobody is in anybody's way ----------------------------------------------------------------------------------------------------


def test_as_many_as_there_may_be(kernel):
    with all_closed([kernel.client() for _ in range(30)]) as clients:
        assert {c.status for c in clients} == {101} and kernel.get()["connections"] == 30
        header = clients[0].execute("print('to all')")
        clients[0].told(header).check().ok
        for c in clients[1:]:
            assert c.told(header).text() == "to all\n"
    kernel.wait_alone()
    assert kernel.run("6 * 7").value == "42"


def test_two_kernels(server):
    with Kernel(server) as one, Kernel(server) as two, one.client() as a, two.client() as b:
        a.run("x = 'one'").ok, b.run("x = 'two'").ok
        header = a.begin(ENDLESS)
        assert b.value("x") == "'two'", "one is busy, the other is not"
        a.ask("interrupt_request", channel="control")
        assert a.told(header).reply["status"] == "error" and a.value("x") == "'one'"
        assert not [m for m in b.left() if m.parent == header["msg_id"]]


def test_a_kernel_of_the_own_api(server):
    """It is in the list as soon as it is there, and whoever connects to it shares it; its box stays."""
    status, box = server.call("POST", "/v1/boxes", {})
    path = f"/v1/boxes/{box['id']}"
    try:
        assert server.call("POST", f"{path}/cells", {"code": "x = 5"})[0] == 200
        (model,) = [k for k in server.call("GET", "/api/kernels")[1] if server.call("GET", f"{path}/jupyter/api/kernels/{k['id']}")[0] == 200]
        shared_one = Kernel.__new__(Kernel)
        shared_one.server, shared_one.headers, shared_one.query, shared_one.path = server, {}, "", f"/api/kernels/{model['id']}"
        with shared_one.client() as client:
            assert client.run("x += 1; x").ok.value == "6"
            assert server.call("POST", f"{path}/restart", {})[0] == 204
            assert client.run("'x' in globals()").ok.value == "False", "restarted by its other name"
            assert shared_one.call("DELETE")[0] == 204
            assert client.close_code() == 1000
        assert server.call("GET", path)[0] == 200
        assert server.call("POST", f"{path}/cells", {"code": "6 * 7"})[1]["results"][0]["data"]["text/plain"] == "42"
    finally:
        assert server.call("DELETE", path)[0] == 204


def test_its_box_is_ended(server):
    kernel = Kernel(server)
    with kernel.client() as client:
        header = client.begin(ENDLESS)
        assert server.call("DELETE", f"/v1/boxes/{kernel.box}")[0] == 204
        assert client.told(header).reply["status"] == "error"
        assert client.close_code() in (1000, 1001)
    assert kernel.call("GET")[0] == 404


@pytest.mark.more
def test_the_server_is_stopped(serve):
    """Clients are told to go, and it ends in time, whatever runs."""
    server = serve(drain_timeout="1s", **WARM)
    kernel = Kernel(server)
    with kernel.client() as client, kernel.client("text") as other:
        client.begin(ENDLESS)
        server.stop()
        assert client.close_code() in (1001, 1000, None) and other.close_code() in (1001, 1000, None)


@pytest.mark.more
def test_over_tls(serve, certificate):
    server = serve(tls_cert=certificate[0], tls_key=certificate[1], ca=certificate[0], **WARM)
    with Kernel(server) as kernel:
        for framing in FRAMINGS:
            assert kernel.run("print('x' * 1000000)", framing).ok.text() == "x" * 1000000 + "\n"


def test_cells_of_the_own_api_beside(kernel):
    """The same kernel by its other name: they share its queue, and neither hears the other's output."""
    with kernel.client() as client:
        client.run("x = 5").ok
        status, answer = kernel.server.call("POST", f"/v1/boxes/{kernel.box}/cells", {"code": "print('own'); x"})
        assert status == 200 and answer["stdout"] == "own\n" and answer["results"][0]["data"]["text/plain"] == "5"
        assert client.run("x + 1").ok.value == "6"
        assert count(client.left()).get("stream", 0) == 0
