# SPDX-License-Identifier: Apache-2.0
"""The own API: cells of a box. What they answer and show, input, time, kernels, the queue, events, refusals.

Written from the contract, not from the program. `session` is one box for many tests, which use names of their own; what could harm
it, or counts, has a `box` for itself.
"""
import base64
import concurrent.futures
import hashlib
import json
import re
import struct
import textwrap
import time

import pytest

from cells import (IN_END, NO_POOL, NOTHING_CUT, PNG, UNDER_WAY, Events, Session, check_events, checked, kill, names, plain,
                   refusal, says, shown, text, value)
from server import both_ways, mark, needs_root, serve, shared, tokens_variable, until  # noqa: F401
from test_boxes import ID, gone, refused

pytestmark = needs_root

MIB = 1 << 20

server = both_ways(box_max_timeout_ms=100000, env=NO_POOL)
# Of this one only defaults are looked at.
brief = shared(box_timeout_ms=1000, box_output_bytes=1000, env=NO_POOL)


@pytest.fixture(scope="module")
def everybodys(server):
    with Session(server) as box:
        box.ok("first = 1")
        yield box


@pytest.fixture
def session(everybodys):
    """A test that fails in the middle of a cell leaves it to nobody."""
    yield everybodys
    for _ in range(50):
        if everybodys.get()[1].get("state") != "busy":
            return
        everybodys.interrupt()
        time.sleep(0.05)
    everybodys.restart()


@pytest.fixture
def box(server):
    with Session(server) as box:
        yield box


# --- the answer ----------------------------------------------------------------------------------------------


def test_the_answer(box):
    r = box.cell("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7")
    assert r["id"][:4] == box.id[:4], "the first 4 name the node"
    assert (r["status"], r["execution_count"], r["stdout"], r["stderr"]) == ("ok", 1, "out\n", "err\n")
    assert r["truncated"] == NOTHING_CUT and r["error"] is None and r["output_file"] is None
    assert not r["kernel_restarted"] and r["state_lost"] is False
    (result,) = r["results"]
    assert (result["type"], result["data"], result["metadata"], result["display_id"]) == ("result", {"text/plain": "42"}, {}, None)
    assert r["figures"]["wall_ms"] >= 0 and r["figures"]["peak_memory_bytes"] > 0


def test_state_stays_and_cells_are_counted(box):
    assert [box.ok(code)["execution_count"] for code in ("a = 40", "def f(x): return a + x", "print(f(2))")] == [1, 2, 3]
    assert box.cell("1/0")["execution_count"] == 4
    r = box.ok("f(2)")
    assert (value(r), r["execution_count"]) == ("42", 5)
    assert value(box.ok("_ + 1")) == "43" and value(box.ok("Out[5]")) == "42" and value(box.ok("In[1]")) == "'a = 40'"


VALUES = {"6 * 7": "42", "6 * 7;": None, "x = 1": None, "None": None, "'ä€𝄞'": "'ä€𝄞'", "1\n2": "2", "   5 + 5": "10", "    a = 1\n    a + 1": "2",
          "# nothing": None, "print(end='')": None}


def test_the_value_of_a_cell(session):
    assert {code: session.value(code) for code in VALUES} == VALUES


def test_a_cell_without_code(session):
    """Reading: an empty cell runs, or is refused by name; nothing else."""
    status, answer = session.post("")
    if status == 200:
        assert answer["status"] == "ok" and answer["results"] == []
    else:
        refusal((status, answer), 422, "code")


ERRORS = {
    "division": ("print('before')\n1/0", "ZeroDivisionError", "division by zero", "1/0"),
    "name": ("print('before'); no_such_name", "NameError", "name 'no_such_name' is not defined", "no_such_name"),
    "raised": ("print('before')\nraise ValueError('ä\\n\"x\"')", "ValueError", 'ä\n"x"', "ValueError"),
    "exit": ("print('before')\nimport sys; sys.exit(3)", "SystemExit", "3", None),
    "class": ("print('before')\nclass Mine(Exception): pass\ndef f(): raise Mine(1, 2)\nf()", "Mine", "(1, 2)", "in f"),
    "chained": ("print('before')\ntry:\n    {}['k']\nexcept KeyError as e:\n    raise TypeError('no') from e", "TypeError", "no", "KeyError"),
    "import": ("print('before')\nimport no_such_module", "ModuleNotFoundError", "No module named 'no_such_module'", "import no_such_module"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error(session, name):
    code, kind, said, in_traceback = ERRORS[name]
    r = session.cell(code)
    assert (r["status"], r["stdout"], r["state_lost"]) == ("error", "before\n", False)
    assert (r["error"]["name"], r["error"]["value"]) == (kind, said)
    if in_traceback:
        assert in_traceback in plain(r["error"]["traceback"]) and kind in plain(r["error"]["traceback"])
    assert session.value("6 * 7") == "42"


def test_no_python(session):
    for code in ("x = (1,\n)\n)", "for", "def f(:\n  pass", "  x = 1\n y = 2\nz = 3"):
        r = session.cell(code)
        assert r["status"] == "error" and r["error"]["name"] in ("SyntaxError", "IndentationError"), r["error"]
        assert r["stdout"] == "" and r["results"] == []


def test_exit_is_a_wish(session):
    """The rest of the cell is not run; the session goes on."""
    session.ok("kept = 1")
    assert session.printed("print('a')\nexit()\nprint('b')") == "a\n"
    assert session.value("kept") == "1"


# --- what a cell can do --------------------------------------------------------------------------------------


def test_where_it_runs(server):
    with Session(server, env={"COLOUR": "blue"}, files=[{"path": "mod.py", "content": "answer = 42"}]) as box:
        assert box.value("import os\nos.getcwd(), os.environ['COLOUR'], os.path.expanduser('~'), os.getuid()") == \
            "('/workspace', 'blue', '/home/box', 65532)"
        assert box.value("import mod; mod.answer") == "42"
        box.ok("open('made', 'w').write('by a cell')")
        assert box.out("cat made; echo by a command > other") == "by a cell"
        assert box.printed("print(open('other').read(), end='')") == "by a command\n"


def test_it_is_ipython(session):
    assert session.printed("!echo shell $((6 * 7))") == "shell 42\n"
    assert session.printed("got = !printf 'a\\nb\\n'\nprint(list(got))") == "['a', 'b']\n"
    assert session.printed("name = 'ä b'\n!echo {name}") == "ä b\n"
    assert session.printed("%%bash\nfor i in 1 2; do echo $i; done\necho bad >&2") == "1\n2\n"
    assert session.cell("%%bash\necho out; echo bad >&2; exit 3")["stderr"].startswith("bad\n")
    session.ok("%%writefile told.txt\nline one")
    assert session.printed("%cat told.txt").strip() == "line one"
    assert session.value("%env HOME") == "'/home/box'"
    assert "Wall time" in session.printed("%%time\nsum(range(10))")
    assert session.value("get_ipython().__class__.__name__") == "'ZMQInteractiveShell'"
    r = session.cell("%no_such_magic")
    assert "no_such_magic" in r["stderr"] + json.dumps(r["error"])
    r = session.cell("%%bash\nexit 7")
    assert r["status"] == "error" and r["error"]["name"] == "CalledProcessError"


def test_await(session):
    r = session.ok("import asyncio\nprint('a')\nawait asyncio.sleep(0.01)\nprint('b')\nawait asyncio.sleep(0, 7)")
    assert (r["stdout"], value(r)) == ("a\nb\n", "7")
    assert session.value("async def g():\n    return 5\nasyncio.run(g())") == "5"


def test_tasks_go_on_between_cells(box):
    """The next cell neither runs it nor waits for it: it has a loop of its own to go on in."""
    box.ok("import asyncio\nasync def work():\n    for i in range(3):\n        await asyncio.sleep(0.02)\n        open('ticks', 'a').write(f'{i} ')\n"
           "task = asyncio.create_task(work())")
    until(lambda: box.out("cat ticks 2>/dev/null || true") == "0 1 2 ", "the task goes on while no cell runs")
    assert box.value("task.done(), await task") == "(True, None)"


def test_threads_and_children_print_to_their_cell(session):
    code = """
        import os, subprocess, sys, threading
        def work():
            print('thread')
            print('thread err', file=sys.stderr)
        t = threading.Thread(target=work); t.start(); t.join()
        subprocess.run(['echo', 'child'])
        subprocess.run('echo child err >&2', shell=True)
        os.system('echo system')
        pid = os.fork()
        if pid == 0:
            print('fork'); sys.stdout.flush(); os._exit(0)
        os.waitpid(pid, 0)
        import ctypes
        ctypes.CDLL(None).puts(b'from C')
        """
    r = session.ok(textwrap.dedent(code))
    assert r["stdout"] == "thread\nchild\nsystem\nfork\nfrom C\n" and r["stderr"] == "thread err\nchild err\n"


def test_late_words_are_not_another_cells(box):
    """Of a thread, a task and a child of an earlier cell. Reading: the cell of whoever prints has ended, so its answer was given; whether it
    still shows them later is left open, another cell never does."""
    first = box.ok(textwrap.dedent("""
        import asyncio, subprocess, threading
        go = threading.Event()
        t = threading.Thread(target=lambda: (go.wait(), print('late thread'), display('late display')))
        t.start()
        async def work():
            while not go.is_set():
                await asyncio.sleep(0.01)
            print('late task')
        task = asyncio.create_task(work())
        child = subprocess.Popen('read x; echo late child', shell=True, stdin=-1)
        print('first')
        """))
    assert first["stdout"] == "first\n"
    second = box.ok("go.set(); t.join(); await task\nn = child.communicate(b'\\n')\nprint('second')")
    assert second["stdout"] == "second\n" and second["results"] == []
    assert box.printed("print('third')") == "third\n"
    later = box.look(first["id"], 0)
    assert later["stdout"].startswith("first\n") and "second" not in later["stdout"]


def test_ten_thousand_lines(session):
    code = "\n".join(f"x{i} = {i}" for i in range(9999)) + "\nx1 + x9998"
    assert session.value(code) == "9999"


def test_code_of_megabytes(session):
    """Just below what a request may have."""
    code = "# " + "x" * (15 * MIB) + "\n6 * 7"
    assert session.value(code) == "42"


# --- what it shows -------------------------------------------------------------------------------------------

PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SHOWN = {
    "html": ("display(HTML('<b>ä</b>'))", "text/html", "<b>ä</b>"), "markdown": ("display(Markdown('*x*'))", "text/markdown", "*x*"),
    "latex": ("display(Latex('$x^2$'))", "text/latex", "$x^2$"), "math": ("display(Math('x'))", "text/latex", "$\\displaystyle x$"),
    "svg": ("display(SVG('<svg/>'))", "image/svg+xml", "<svg/>"), "javascript": ("display(Javascript('1'))", "application/javascript", "1"),
    "json": ("display(JSON({'a': [1, None, 'ä', 0.5, True]}))", "application/json", {"a": [1, None, "ä", 0.5, True]}),
    "json list": ("display({'application/json': [1, [2]]}, raw=True)", "application/json", [1, [2]]),
    "vendor": ("display({'application/vnd.x.v1+json': {'k': {}}}, raw=True)", "application/vnd.x.v1+json", {"k": {}}),
    "jpeg": ("display({'image/jpeg': b'\\xff\\xd8'}, raw=True)", "image/jpeg", base64.b64encode(b"\xff\xd8").decode()),
    "plain": ("display('x')", "text/plain", "'x'"), "nul": ("display({'text/plain': 'a\\0b'}, raw=True)", "text/plain", "a\0b"),
    "own type": ("display({'a/b': 'c'}, raw=True)", "a/b", "c"),
}


def test_a_display(session):
    for name, (code, mime, wanted) in SHOWN.items():
        r = session.ok(f"from IPython.display import *\n{code}")
        (result,) = r["results"]
        assert (result["type"], result["data"][mime], result["display_id"]) == ("display", wanted, None), name


def test_an_image(session):
    """As display, as result, and with metadata."""
    code = f"import base64\nfrom IPython.display import Image\nimage = Image(base64.b64decode('{PIXEL}'), width=5)\ndisplay(image)\nimage"
    first, second = session.ok(code)["results"]
    assert (first["type"], second["type"]) == ("display", "result")
    for result in (first, second):
        assert base64.b64decode(result["data"]["image/png"]) == base64.b64decode(PIXEL)
        assert result["metadata"]["image/png"]["width"] == 5


def png_size(data):
    raw = base64.b64decode(data)
    assert raw.startswith(PNG)
    return struct.unpack(">II", raw[16:24])


def test_figures_and_pictures(session):
    """plt.show(), a figure at the end of a cell, and Pillow's show()."""
    r = session.ok("import warnings; warnings.simplefilter('ignore')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\n"
                   "print('between')\nplt.figure(); plt.plot([2, 1]);", timeout_ms=60000)
    assert r["stdout"] == "between\n" and len(r["results"]) == 2
    for result in r["results"]:
        width, height = png_size(result["data"]["image/png"])
        assert result["type"] == "display" and width > 100 and height > 100 and "Figure" in result["data"]["text/plain"]
    r = session.ok("from PIL import Image\nimg = Image.new('RGB', (7, 5), 'red')\nimg.show()\nimg")
    assert [(x["type"], png_size(x["data"]["image/png"])) for x in r["results"]] == [("display", (7, 5)), ("result", (7, 5))]


def test_tables(session):
    r = session.ok("import pandas as pd\npd.DataFrame({'a': [1, 2]})", timeout_ms=60000)
    (result,) = r["results"]
    assert "<table" in result["data"]["text/html"] and re.search(r"0\s+1", result["data"]["text/plain"])


def test_representations(session):
    r = session.ok("class A:\n    def _repr_html_(self): return '<i>'\n    def _repr_mimebundle_(self, **kw): return {'a/b': 'c'}\n"
                   "    def __repr__(self): return 'A!'\nA()")
    assert r["results"][0]["data"] == {"text/html": "<i>", "a/b": "c", "text/plain": "A!"}


def test_updates_are_applied(session):
    r = session.ok("handle = display('one', display_id='me')\ndisplay('other')\nhandle.update('two')\nprint('x')\nhandle.update('three')")
    assert [(x["display_id"], x["data"]["text/plain"]) for x in r["results"]] == [("me", "'three'"), (None, "'other'")]
    found = session.streamed("handle.update('four')")
    (update,) = [e.data for e in found if e.name == "update"]
    assert update["display_id"] == "me" and update["data"]["text/plain"] == "'four'", "of a display of an earlier cell, too"
    r = session.ok("a = display(1, display_id='a'); b = display(1, display_id='a'); a.update(2)")
    assert shown(r) == ["2", "2"], "all that have this name"


CLEARED = {
    "at once": ("print('a'); display(1); clear_output(); print('b')", "b\n", []), "everything": ("print('a'); display(1); clear_output()", "", []),
    "waiting": ("print('a'); clear_output(wait=True); print('b')", "b\n", []),
    "waiting for a display": ("print('a'); clear_output(wait=True); display(2)", "", ["2"]),
    "waiting in vain": ("print('a'); display(1); clear_output(wait=True)", "a\n", ["1"]),
    "often": ("for i in range(100):\n    clear_output(wait=True); display(i); print(i)", "99\n", ["99"]),
}


def test_clear_output_is_applied(session):
    for name, (code, out, displays) in CLEARED.items():
        r = session.ok(f"from IPython.display import clear_output\n{code}")
        assert (r["stdout"], shown(r)) == (out, displays), name


def notebook(outputs):
    """nbformat outputs in one form: lists of lines are texts, texts of a stream that follow each other are one."""
    found = []
    for o in outputs:
        o = dict(o)
        if o["output_type"] == "stream":
            o["text"] = "".join(o["text"])
            if found and found[-1]["output_type"] == "stream" and found[-1]["name"] == o["name"]:
                found[-1]["text"] += o["text"]
                continue
        found.append(o)
    return found


def test_outputs_of_a_notebook(box):
    code = ("import sys\nprint('a'); print('b')\ndisplay({'text/plain': 'shown', 'application/json': {'k': 1}}, raw=True, metadata={'m': 1})\n"
            "print('e', file=sys.stderr)\nprint('c')\n6 * 7")
    r = box.cell(code, "?outputs=1")
    wanted = [{"output_type": "stream", "name": "stdout", "text": "a\nb\n"},
              {"output_type": "display_data", "data": {"text/plain": "shown", "application/json": {"k": 1}}, "metadata": {"m": 1}},
              {"output_type": "stream", "name": "stderr", "text": "e\n"}, {"output_type": "stream", "name": "stdout", "text": "c\n"},
              {"output_type": "execute_result", "execution_count": 1, "data": {"text/plain": "42"}, "metadata": {}}]
    # The two streams are two pipes: between two messages they have no order.
    either = wanted[:2] + [wanted[3], wanted[2], wanted[4]]
    assert notebook(r["outputs"]) in (wanted, either)
    assert notebook(box.look(r["id"], 0, "&outputs=1")["outputs"]) == notebook(r["outputs"])
    assert "outputs" not in box.look(r["id"], 0)
    (first, error) = notebook(box.cell("print('x')\n1/0", "?outputs=1")["outputs"])
    assert first == {"output_type": "stream", "name": "stdout", "text": "x\n"}
    assert (error["output_type"], error["ename"], error["evalue"]) == ("error", "ZeroDivisionError", "division by zero") and error["traceback"]
    r = box.cell("from IPython.display import clear_output\nprint('x'); h = display(1, display_id='i'); clear_output()\n"
                 "h = display(2, display_id='i'); h.update(3)", "?outputs=1")
    assert [o["data"]["text/plain"] for o in notebook(r["outputs"])] == ["3"]


def test_text_and_displays_stay_in_order(session):
    found = session.streamed("for i in range(50):\n    print(i)\n    display(i)")
    order = [(e.name, e.data["data"] if e.name == "stdout" else e.data["data"]["text/plain"]) for e in found[1:-1]]
    assert order == [x for i in range(50) for x in (("stdout", f"{i}\n"), ("display", f"{i}"))]


# --- text, bytes and limits ----------------------------------------------------------------------------------


def test_bytes_that_are_no_text(session):
    code = "import sys\nn = sys.stdout.buffer.write(b'a\\xff\\xe2\\x82b\\0c')\nn = sys.stderr.buffer.write(b'\\xfe')"
    r = session.ok(code)
    assert (r["stdout"], r["stderr"]) == ("a\ufffd\ufffdb\0c", "\ufffd")
    r = session.ok(code, output_encoding="base64")
    assert (base64.b64decode(r["stdout"]), base64.b64decode(r["stderr"])) == (b"a\xff\xe2\x82b\0c", b"\xfe")
    code = "for i in range(50): n = sys.stdout.buffer.write(bytes(range(256)))"
    found = session.streamed(code, output_encoding="base64")
    assert b"".join(base64.b64decode(e.data["data"]) for e in found if e.name == "stdout") == bytes(range(256)) * 50
    assert base64.b64decode(session.look(found[0].data["cell"])["stdout"]) == bytes(range(256)) * 50
    assert session.ok(code)["stdout"] == (bytes(range(256)) * 50).decode("utf-8", "replace")


def test_characters_are_whole(session):
    """Although they are written byte by byte, and the last one never comes whole."""
    code = ("import os, time\nfor b in 'a€𝄞'.encode() + b'\\xe2\\x82':\n    n = os.write(1, bytes([b])); time.sleep(0.05)")
    found = session.streamed(code)
    assert text(found) == "a€𝄞\ufffd" and session.look(found[0].data["cell"])["stdout"] == "a€𝄞\ufffd"


LONE = ("\ud800", "\ufffd", "\\ud800", "?")


def test_lone_surrogates(session):
    """Reading: no text has a place for them. What stands there instead is open; what is around it is right, and the answer is JSON."""
    r = session.ok("print('a\\ud800b')\ndisplay({'text/plain': 'c\\ud800d', 'application/json': {'e\\ud800': 'f\\ud800'}}, raw=True)\n'g\\ud800h'")
    assert r["stdout"] in [f"a{x}b\n" for x in LONE]
    assert r["results"][0]["data"]["text/plain"] in [f"c{x}d" for x in LONE]
    assert list(r["results"][0]["data"]["application/json"].items()) in [[(f"e{x}", f"f{y}")] for x in LONE for y in LONE]
    assert r["results"][1]["data"]["text/plain"] == "'g\\ud800h'"
    r = session.cell("raise ValueError('a\\ud800b\\0c')")
    assert r["error"]["value"] in [f"a{x}b\0c" for x in LONE]


def test_half_a_million_characters(session):
    r = session.ok("print('ä' * 500000)\n'x' * 1000000")
    assert r["stdout"] == "ä" * 500000 + "\n" and value(r) == "'" + "x" * 1000000 + "'" and r["truncated"] == NOTHING_CUT
    assert session.printed("for i in range(10000): print(i)") == "".join(f"{i}\n" for i in range(10000))


def test_output_is_cut_where_the_box_says(server):
    with Session(server, limits={"output_bytes": 1000}) as box:
        code = "import sys\nprint('é' * 5000, end='')\nprint('y' * 5000, end='', file=sys.stderr)\nprint('end')"
        r = box.ok(code)
        assert r["stdout"] == "é" * 500 and r["stderr"] == "y" * 1000 and r["truncated"] == {**r["truncated"], "stdout": True, "stderr": True}
        assert r["output_file"] is None
        r = box.ok("print('x' * 999)")
        assert len(r["stdout"]) == 1000 and r["truncated"] == NOTHING_CUT
        r = box.ok("for i in range(1000): print(i, file=sys.stderr)")
        assert r["stderr"] == "".join(f"{i}\n" for i in range(1000))[:1000] and r["truncated"]["stderr"] and not r["truncated"]["stdout"]
        found = box.streamed("print('z' * 5000)")
        assert text(found) == "z" * 1000 and found[-1].data["truncated"]["stdout"] is True


def test_a_line_of_64_mib(server):
    """All of it where the box may say as much, else cut with the mark."""
    code = "import sys\nfor i in range(64): n = sys.stdout.write(chr(97 + i % 26) * (1 << 20))"
    line = "".join(chr(97 + i % 26) * MIB for i in range(64))
    with Session(server, limits={"output_bytes": 64 * MIB}) as box:
        r = box.ok(code)
        assert r["stdout"] == line and r["truncated"] == NOTHING_CUT
    with Session(server) as box:
        r = box.ok(code)
        assert r["stdout"] == line[:16 * MIB] and r["truncated"]["stdout"] is True
        assert box.value("6 * 7") == "42"


@pytest.mark.slow
def test_a_line_of_a_gib(server):
    """From Python, from C and from a child; the box has less memory than that."""
    ways = ["import sys\nfor i in range(1024): n = sys.stdout.write('x' * (1 << 20))",
            "import os\nfor i in range(1024):\n    left = 1 << 20\n    while left: left -= os.write(1, b'x' * left)",
            "!head -c 1G /dev/zero | tr '\\0' x"]
    with Session(server, limits={"memory_bytes": 512 * MIB}) as box:
        for code in ways:
            r = box.ok(code, timeout_ms=None)
            assert r["stdout"] == "x" * (16 * MIB) and r["truncated"]["stdout"] is True
            assert box.value("6 * 7") == "42"


def test_spill(server):
    """Reading: the file has all that was printed, as bytes; its name is one that code of the box can open."""
    with Session(server, limits={"output_bytes": 1000}) as box:
        full = "".join(f"line {i}\n" for i in range(5000))
        r = box.ok("for i in range(5000): print('line', i)", spill=True)
        assert r["stdout"] == full[:1000] and r["truncated"]["stdout"] is True and isinstance(r["output_file"], str)
        assert box.value(f"open({r['output_file']!r}, 'rb').read().decode() == ''.join(f'line {{i}}\\n' for i in range(5000))") == "True"
        digest = hashlib.sha256(full.encode()).hexdigest()
        assert box.out(f"sha256sum < '{r['output_file']}'").split()[0] == digest, "for commands, too"
        other = box.ok("import sys\nprint('E' * 2000, file=sys.stderr)", spill=True)
        assert other["truncated"] == {**other["truncated"], "stdout": False, "stderr": True} and other["output_file"] not in (None, r["output_file"])
        assert box.value(f"'E' * 2000 + '\\n' in open({other['output_file']!r}).read()") == "True"
        assert box.ok("print('short')", spill=True)["output_file"] is None
        assert box.ok("print('x' * 5000)")["output_file"] is None
        raw = box.ok("n = sys.stdout.buffer.write(bytes(range(256)) * 100)", spill=True, output_encoding="base64")
        assert base64.b64decode(raw["stdout"]) == (bytes(range(256)) * 100)[:1000]
        assert box.value(f"open({raw['output_file']!r}, 'rb').read() == bytes(range(256)) * 100") == "True"
        both = box.ok("print('O' * 2000, flush=True)\nprint('E' * 2000, file=sys.stderr)", spill=True)
        assert box.value(f"data = open({both['output_file']!r}).read()\n'O' * 2000 in data and 'E' * 2000 in data") == "True"
        assert box.out(f"sha256sum < '{r['output_file']}'").split()[0] == digest, "the first one is still there"


@pytest.mark.slow
def test_spill_of_much(server):
    with Session(server, limits={"workspace_bytes": 512 * MIB}) as box:
        code = "import sys\nline = 'x' * 1023 + '\\n'\nfor i in range(150 << 10): n = sys.stdout.write(line)"
        r = box.ok(code, spill=True, timeout_ms=None)
        assert r["truncated"]["stdout"] is True and len(r["stdout"]) == 16 * MIB
        assert box.out(f"wc -c < '{r['output_file']}'").strip() == str(150 * MIB)


@pytest.mark.more
def test_defaults(brief):
    """Time and output of a cell that does not say, and `null`."""
    with Session(brief) as box:
        r = box.cell("kept = 1\nimport time; time.sleep(1000)")
        assert (r["status"], r["state_lost"]) == ("timeout", False)
        r = box.ok("print('x' * 5000)")
        assert r["stdout"] == "x" * 1000 and r["truncated"]["stdout"] is True
        assert box.printed("time.sleep(1.5); print('late', kept)", timeout_ms=None) == "late 1\n"


# --- input ---------------------------------------------------------------------------------------------------


def test_input(session):
    cell = session.start("name = input('who? ')\nprint('hello', name)\nimport getpass\nword = getpass.getpass('word: ')\nlen(word)", stdin=True)
    (asked,) = session.asked(cell)
    # Reading: the event has `prompt` and `password`, as Jupyter's input_request.
    assert (asked.data["prompt"], asked.data["password"]) == ("who? ", False)
    assert session.tell(cell, "Ünï €") == (204, None)
    second = session.asked(cell, 2)[1]
    assert (second.data["prompt"], second.data["password"]) == ("word: ", True)
    assert session.look(cell, 0)["stdout"] == "hello Ünï €\n"
    assert session.tell(cell, "secret") == (204, None)
    r = session.done(cell)
    assert (r["status"], r["stdout"], value(r)) == ("ok", "hello Ünï €\n", "6")
    assert "secret" not in json.dumps(r)


def test_what_was_printed_comes_before_the_question(session):
    with session.stream("print('a', end='')\ninput('?')\nprint('b')", stdin=True) as stream:
        first = [stream.next()]
        while first[-1].name != "input":
            first.append(stream.next())
        assert session.tell(first[0].data["cell"], "x")[0] == 204
        found = first + list(stream)
    check_events(found)
    assert text(first) == "a" and text(found) == "ab\n" and found[-1].data["status"] == "ok"


def test_what_input_returns(session):
    for said in ("", " ", "ä" * 20000, "tab\tquote'", '{"text": 1}'):
        cell = session.start("got = input()\nprint(got, end='')", stdin=True)
        session.asked(cell)
        assert session.tell(cell, said)[0] == 204
        assert session.done(cell)["stdout"] == said


def test_many_questions(session):
    cell = session.start("print([input(str(i)) for i in range(10)])", stdin=True)
    for i in range(10):
        assert session.asked(cell, i + 1)[-1].data["prompt"] == str(i)
        assert session.tell(cell, f"a{i}")[0] == 204
    assert session.done(cell)["stdout"] == str([f"a{i}" for i in range(10)]) + "\n"


def test_threads_ask_at_once(session):
    """Every question is told, and each is answered in its turn."""
    cell = session.start("import threading\ngot = {}\ndef ask(name): got[name] = input(name)\n"
                         "threads = [threading.Thread(target=ask, args=(f't{n}',)) for n in range(3)]\n"
                         "for t in threads: t.start()\nask('main')\nfor t in threads: t.join()\nprint(sorted(got.items()))", stdin=True)
    names = [e.data["prompt"] for e in session.asked(cell, 4)]
    assert sorted(names) == ["main", "t0", "t1", "t2"]
    for name in names:
        assert session.tell(cell, f"to {name}") == (204, None)
    assert session.done(cell)["stdout"] == str(sorted((name, f"to {name}") for name in names)) + "\n"
    cell = session.start("import threading, time\nt = threading.Thread(target=input)\nt.start()\ninput()\nt.join()\ntime.sleep(1000)", stdin=True)
    session.asked(cell, 2)
    assert [session.tell(cell, "x")[0] for _ in range(3)] == [204, 204, 409], "as many as there were questions"
    assert session.cancel(cell)[0] == 204


def test_without_stdin_input_raises_at_once(session):
    for code in ("input()", "import getpass; getpass.getpass()", "input('x')"):
        r = session.cell(code)
        assert (r["status"], r["error"]["name"]) == ("error", "StdinNotImplementedError")
    assert session.value("import sys; sys.stdin.read()") == "''" and session.printed("!cat") == ""


def test_input_where_none_is_wanted(session):
    cell = session.begin("import time; time.sleep(1000)")
    refusal(session.tell(cell, "x"), 409)
    assert session.cancel(cell)[0] == 204
    session.done(cell)
    refusal(session.tell(cell, "x"), 409)
    refused(session.tell("a" * 26, "x"), 404, "not_found")


def test_wrong_input(session):
    cell = session.start("input()", stdin=True)
    session.asked(cell)
    for body, field in [({}, "text"), ({"text": 1}, "text"), ({"text": None}, "text"), ({"text": ["x"]}, "text"), ({"text": "x", "colour": 1}, "colour")]:
        code = "unknown_field" if field == "colour" else "invalid_field"
        refused(session.server.call("POST", session.of(cell, "/input"), body), 422, code, field)
    assert session.look(cell, 0)["status"] == "running", "it still waits"
    assert session.tell(cell, "right")[0] == 204
    assert value(session.done(cell)) == "'right'"


def test_an_interrupted_question(session):
    """What comes too late is nobody's answer."""
    cell = session.start("input('?')", stdin=True)
    session.asked(cell)
    assert session.interrupt()[0] == 204
    assert session.done(cell)["status"] == "interrupted"
    refusal(session.tell(cell, "too late"), 409)
    cell = session.start("input()", stdin=True)
    session.asked(cell)
    assert session.tell(cell, "now")[0] == 204
    assert value(session.done(cell)) == "'now'"


# --- time, interrupts, the end of a kernel -------------------------------------------------------------------

ENDLESS = {
    "sleep": "import time\ntime.sleep(1000)", "busy": "while True: pass", "await": "import asyncio\nawait asyncio.sleep(1000)",
    "child": "!sleep 1000", "script": "%%bash\necho up\nsleep 1000", "printing": "while True: print('x' * 1000)",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_timeout_keeps_the_session(session, name):
    session.ok(f"kept = {name!r}")
    r = session.cell(ENDLESS[name], timeout_ms=300)
    assert (r["status"], r["state_lost"]) == ("timeout", False)
    r = session.ok("kept")
    assert value(r) == repr(name) and not r["kernel_restarted"]


STUBBORN = "import signal, time\nkept = 1\nprint('so far')\nwhile True:\n    try: time.sleep(1)\n    except KeyboardInterrupt: pass"


@pytest.mark.more
def test_a_cell_that_does_not_listen_is_killed(box):
    box.ok("kept = 2; open('f', 'w').write('kept')")
    r = box.cell(STUBBORN, timeout_ms=200)
    assert (r["status"], r["stdout"], r["state_lost"]) == ("timeout", "so far\n", True)
    r = box.cell("kept")
    assert r["status"] == "error" and r["error"]["name"] == "NameError"
    assert isinstance(r["kernel_restarted"], str) and r["kernel_restarted"] and r["execution_count"] == 1
    r = box.ok("open('f').read()")
    assert value(r) == "'kept'" and not r["kernel_restarted"], "it is said once"


@pytest.mark.parametrize("how", ["interrupt", "interrupt of main", "delete"])
@pytest.mark.parametrize("name", ["sleep", "await", "script"])
def test_an_interrupt_keeps_the_session(session, how, name):
    session.ok("kept = 3")
    cell = session.start(ENDLESS[name]) if name == "script" else session.begin(ENDLESS[name])
    session.wait_for(cell, "up")
    if how == "delete":
        assert session.cancel(cell) == (204, None)
    else:
        assert session.interrupt(**({"kernel": "main"} if how == "interrupt of main" else {})) == (204, None)
    r = session.done(cell)
    assert (r["status"], r["stdout"], r["state_lost"]) == ("interrupted", "up\n", False)
    assert session.cancel(cell) == (204, None) and session.done(cell) == r, "and again, to no effect"
    r = session.ok("kept")
    assert value(r) == "3" and not r["kernel_restarted"]


@pytest.mark.parametrize("how", ["interrupt", "delete"])
def test_an_interrupt_right_behind_the_start(session, how):
    """Before the cell listens to signals: it is interrupted nevertheless, and not the next one, and nothing is lost."""
    session.ok("kept = 5")
    for _ in range(25):
        cell = session.start("while True: pass")
        assert (session.interrupt() if how == "interrupt" else session.cancel(cell)) == (204, None)
        r = session.done(cell)
        assert (r["status"], r["state_lost"]) == ("interrupted", False), r
        assert session.value("kept") == "5"


def test_an_interrupt_without_a_body(session):
    cell = session.begin(ENDLESS["sleep"])
    assert session.server.call("POST", f"{session.path}/interrupt")[0] == 204
    assert session.done(cell)["status"] == "interrupted"


def test_an_interrupt_of_nothing(session):
    session.ok("kept = 4")
    for _ in range(3):
        assert session.interrupt() == (204, None)
        assert session.value("kept") == "4"


def test_a_cell_may_catch_it(session):
    """Reading: a cell that goes on to its end after an interrupt is ok, or was interrupted; it is complete."""
    cell = session.begin("import time\ntry:\n    print('up')\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    print('caught')\nprint('end')", says="")
    assert session.interrupt()[0] == 204
    r = session.done(cell)
    assert r["status"] in ("ok", "interrupted") and r["stdout"] == "up\ncaught\nend\n"


@pytest.mark.parametrize("before", ["pass", "import signal; signal.signal(signal.SIGURG, signal.SIG_IGN)"], ids=["", "after a cell that ignores SIGURG"])
def test_an_interrupt_just_before_a_wait(session, before):
    """Python takes notice of a signal when the call ends in which it comes. Here another one follows at once, as by chance in any cell."""
    session.ok(before)
    cell = session.begin("import ctypes; list(map(ctypes.CDLL(None).usleep, [1000_000_000] * 2))")
    assert session.interrupt()[0] == 204
    assert session.done(cell)["status"] == "interrupted"


def test_one_interrupt_is_one(session):
    """Nothing that comes behind it disturbs what a cell does then."""
    cell = session.begin("import time\ntry:\n    print('up')\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    a = time.monotonic()\n    time.sleep(0.6)\n"
                         "    b = time.monotonic()\nprint(b - a >= 0.6)", says="")
    assert session.interrupt()[0] == 204
    assert session.done(cell)["stdout"] == "up\nTrue\n"


ENDINGS = {
    "exit 3": ("import os; os._exit(3)", r"\b3\b"), "exit 0": ("import os; os._exit(0)", None),
    "segv": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", r"SIGSEGV|\b11\b"),
    "address 0": ("import ctypes; ctypes.string_at(0)", r"SIGSEGV|\b11\b"), "kill": ("import os; os.kill(os.getpid(), 9)", r"SIGKILL|\b9\b"),
    "abort": ("import os; os.abort()", r"SIGABRT|\b6\b"), "exec": ("import os; os.execv('/bin/true', ['true'])", None),
    "by a command": ("!kill -TERM $PPID\nimport time; time.sleep(1000)", r"SIGTERM|\b15\b"),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_cell_that_ends_its_kernel(box, name):
    code, pattern = ENDINGS[name]
    box.ok("kept = 1; open('f', 'w').write('kept')")
    r = box.cell(f"print('last')\ndisplay('words')\n{code}")
    assert (r["status"], r["stdout"], shown(r), r["state_lost"]) == ("crashed", "last\n", ["'words'"], True)
    assert pattern is None or says(r, pattern), r["error"]
    r = box.ok("'kept' in globals(), open('f').read()")
    assert value(r) == "(False, 'kept')" and isinstance(r["kernel_restarted"], str) and r["kernel_restarted"]
    assert box.get()[1]["state"] == "ready"


def test_kernels_that_die_over_and_over(box):
    """More than are replaced at once: the others come, too, and who does not want to wait for one is let go."""
    for _ in range(10):
        assert box.cell("import os; os._exit(3)")["status"] == "crashed"
    r = box.ok("1")
    assert value(r) == "1" and r["kernel_restarted"] == "exited"
    for _ in range(2):
        assert box.cell("import os; os._exit(3)")["status"] == "crashed"
    waits = box.start("2")
    assert box.cancel(waits)[0] == 204
    assert box.done(waits)["status"] in ("cancelled", "ok"), "on a slow machine it has run"
    assert value(box.ok("3")) == "3"


def test_a_kernel_that_ends_between_cells(box):
    """Killed by another kernel of its box, or by a thread of its own."""
    pid = box.value("import os; os.getpid()", kernel="b")
    box.ok(f"import os; os.kill({pid}, 9)")
    until(lambda: box.run(f"kill -0 {pid}")["status"] == "error", "it is gone")
    r = box.ok("'kept' in globals()", kernel="b")
    assert value(r) == "False" and isinstance(r["kernel_restarted"], str) and r["kernel_restarted"]
    pid = box.value("kept = 1; import os; os.getpid()")
    box.ok("import threading\nt = threading.Timer(0.1, os._exit, [3]); t.start()")
    until(lambda: box.run(f"kill -0 {pid}")["status"] == "error", "it is gone")
    r = box.ok("'kept' in globals()")
    assert value(r) == "False" and r["kernel_restarted"]


BOMB = "print('lit')\nx = []\nwhile True: x.append(bytearray(b'x') * (4 << 20))"


def test_out_of_memory(server):
    with Session(server, limits={"memory_bytes": 256 * MIB}) as box:
        box.ok("open('f', 'w').write('kept')")
        r = box.cell(BOMB)
        assert (r["status"], r["stdout"], r["state_lost"]) == ("oom", "lit\n", True)
        r = box.ok("open('f').read()")
        assert value(r) == "'kept'" and r["kernel_restarted"]
        assert box.cell("import os; os.kill(os.getpid(), 9)")["status"] == "crashed", "a kill is not always for want of memory"


def test_restart(box):
    box.ok("kept = 1; import json; json.dumps = None; open('f', 'w').write('kept')")
    assert box.restart(kernel="main") == (204, None)
    # Reading: who asked for a restart need not be told of it in the next answer.
    r = box.ok("import json\n'kept' in globals(), open('f').read(), json.dumps(1)")
    assert value(r) == "(False, 'kept', '1')" and r["execution_count"] == 1
    assert box.server.call("POST", f"{box.path}/restart")[0] == 204
    assert box.ok("1")["execution_count"] == 1


def test_restart_while_a_cell_runs(box):
    """Reading: its kernel was taken from it: interrupted, cancelled or crashed, and state_lost."""
    cell = box.begin(STUBBORN, timeout_ms=None)
    queued = box.start("print('next')")
    assert box.restart() == (204, None)
    r = box.done(cell)
    assert r["status"] in ("interrupted", "cancelled", "crashed") and r["stdout"] == "up\nso far\n" and r["state_lost"] is True
    # Reading: who waits is run by the new kernel, or told that it is not.
    r = box.done(queued)
    assert (r["status"], r["stdout"]) in (("ok", "next\n"), ("cancelled", ""))
    assert box.value("6 * 7") == "42"


def test_who_waits_behind_a_crash(box):
    """It is the next cell, for which the kernel is replaced."""
    first = box.begin("while not __import__('os').path.exists('go'): pass\nimport os; os._exit(1)")
    second, third = box.start("print('second')"), box.start("print('third')")
    box.out("touch go")
    assert box.done(first)["status"] == "crashed"
    r = box.done(second)
    assert (r["status"], r["stdout"]) == ("ok", "second\n") and r["kernel_restarted"]
    r = box.done(third)
    assert (r["status"], r["stdout"]) == ("ok", "third\n") and not r["kernel_restarted"]


def test_who_waits_behind_an_error(session):
    """Reading: an error is the end of its cell, not of those that were sent after it."""
    first = session.begin("while not __import__('os').path.exists('go on'): pass\n1/0")
    second = session.start("print('second')")
    session.out("touch 'go on'")
    assert session.done(first)["status"] == "error"
    assert session.done(second)["stdout"] == "second\n"


# --- kernels -------------------------------------------------------------------------------------------------


def test_kernels_share_files_but_no_variables(box):
    box.ok("x = 'of main'; open('f', 'w').write('shared')")
    refusal(box.kernel("other"), 404)
    r = box.ok("'x' in globals(), open('f').read()", kernel="other")
    assert value(r) == "(False, 'shared')" and r["execution_count"] == 1 and not r["kernel_restarted"]
    box.ok("x = 'of other'", kernel="other")
    assert box.value("x", kernel="main") == "'of main'" and box.value("x", kernel="other") == "'of other'"
    for name in ("main", "other"):
        status, answer = box.kernel(name)
        # Reading: what is said of a kernel has its name; the rest is open.
        assert status == 200 and answer["name"] == name, answer
    assert box.value("import os; os.getpid()") != box.value("import os; os.getpid()", kernel="other")


def test_kernels_run_at_the_same_time(box):
    """Each waits for the other: one after another they would never end."""
    code = "import os, time\nopen('{0}', 'w').close()\nwhile not os.path.exists('{1}'): time.sleep(0.01)\nprint('{0} met {1}')"
    first, second = box.start(code.format("a", "b"), kernel="a"), box.start(code.format("b", "a"), kernel="b")
    assert (box.done(first)["stdout"], box.done(second)["stdout"]) == ("a met b\n", "b met a\n")


def test_each_kernel_for_itself(box):
    """Interrupts, crashes and restarts are of one of them."""
    box.ok("x = 1")
    cell = box.begin(ENDLESS["sleep"], kernel="b")
    assert box.interrupt() == (204, None) and box.interrupt(kernel="main") == (204, None)
    assert box.look(cell, 0)["status"] == "running"
    assert box.restart(kernel="main") == (204, None)
    assert box.look(cell, 0)["status"] == "running"
    assert box.interrupt(kernel="b") == (204, None)
    assert box.done(cell)["status"] == "interrupted"
    box.ok("x = 2", kernel="main")
    assert box.cell("import os; os._exit(1)", kernel="b")["status"] == "crashed"
    r = box.ok("x")
    assert value(r) == "2" and not r["kernel_restarted"]
    assert box.ok("1", kernel="b")["kernel_restarted"]


def test_a_kernel_is_deleted(server, box):
    word = mark()
    box.ok("x = 1")
    box.ok(f"x = 2; import subprocess\nchild = subprocess.Popen(['sleep', '1000'], env={{'A': '1'}})\nword = {word!r}", kernel="b")
    cell, queued = box.begin(ENDLESS["sleep"], kernel="b"), box.start("print('never')", kernel="b")
    assert box.kernel("b", "DELETE") == (204, None)
    r = box.done(cell)
    assert r["status"] in ("interrupted", "cancelled", "crashed") and r["state_lost"] is True
    r = box.done(queued)
    assert (r["status"], r["stdout"]) == ("cancelled", "")
    refusal(box.kernel("b"), 404)
    refusal(box.kernel("b", "DELETE"), 404)
    assert box.value("x") == "1"
    r = box.ok("'x' in globals()", kernel="b")
    assert value(r) == "False" and r["execution_count"] == 1, "made anew on first use"


@pytest.mark.parametrize("call", ["interrupt", "restart"])
def test_no_such_kernel(session, call):
    refusal(getattr(session, call)(kernel="nobody"), 404)
    refused(getattr(session, call)(kernel=1), 422, "invalid_field", "kernel")
    refused(getattr(session, call)(colour="blue"), 422, "unknown_field", "colour")
    refusal(session.kernel("nobody", "DELETE"), 404)


# --- the queue -----------------------------------------------------------------------------------------------

HELD = "import os, time\nwhile not os.path.exists({0!r}): time.sleep(0.01)\nseen = []"


def test_one_at_a_time_and_in_order(box):
    box.ok("seen = []")
    cells = [box.start(f"import time\nseen.append({i}); time.sleep(0.01); seen.append({i}); print({i})") for i in range(12)]
    answers = [box.done(c) for c in cells]
    assert [a["stdout"] for a in answers] == [f"{i}\n" for i in range(12)]
    assert [a["execution_count"] for a in answers] == list(range(2, 14))
    assert box.value("seen") == str([i for i in range(12) for _ in (0, 1)])


def test_many_clients_at_once(box):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: box.ok(f"print({i})\n{i} * 2"), range(24)))
    assert [(a["stdout"], value(a)) for a in answers] == [(f"{i}\n", str(i * 2)) for i in range(24)]
    assert sorted(a["execution_count"] for a in answers) == list(range(1, 25))


def test_a_full_queue(box):
    """64 wait, then it is said; nothing of what was refused is run."""
    first = box.begin(HELD.format("go"))
    cells = [box.start(f"seen.append({i})") for i in range(64)]
    status, headers, body = box.server.request("POST", f"{box.path}/cells", {"code": "seen.append('refused')"})
    refusal((status, json.loads(body)), 429)
    assert int(headers["Retry-After"]) > 0
    assert box.value("6 * 7", kernel="other") == "42", "the queue is a kernel's own"
    box.out("touch go")
    # Whoever asks late, when the last of them has ended, still hears of the first.
    for cell in (cells[-1], first):
        assert box.done(cell)["status"] == "ok"
    assert {box.done(c)["status"] for c in cells} == {"ok"}
    assert box.value("seen == list(range(64))") == "True"


def test_who_waits_can_be_cancelled(box):
    first = box.begin(HELD.format("go"))
    cells = [box.start(f"seen.append({i})") for i in range(5)]
    for i in (1, 3):
        assert box.look(cells[i], 0)["status"] in UNDER_WAY
        assert box.cancel(cells[i]) == (204, None)
        r = box.done(cells[i])
        assert (r["status"], r["stdout"], r["state_lost"]) == ("cancelled", "", False)
        check_events(box.events(cells[i]))
    assert box.look(first, 0)["status"] == "running", "the one that runs is not disturbed"
    box.out("touch go")
    assert [box.done(c)["status"] for c in cells] == ["ok", "cancelled", "ok", "cancelled", "ok"]
    assert box.value("seen") == "[0, 2, 4]"


@pytest.mark.more
def test_time_counts_from_the_start(box):
    """Not from when it was sent."""
    first = box.begin("import time; time.sleep(1.5)")
    second = box.start("print('ran')", timeout_ms=1000)
    assert box.done(second)["stdout"] == "ran\n" and box.done(first)["status"] == "ok"


# --- the box -------------------------------------------------------------------------------------------------


def test_busy_while_a_cell_runs(box):
    box.ok("1")
    assert box.get()[1]["state"] == "ready"
    cell = box.begin(ENDLESS["sleep"])
    assert box.get()[1]["state"] == "busy"
    assert box.cancel(cell)[0] == 204
    box.done(cell)
    until(lambda: box.get()[1]["state"] == "ready", "it is ready")


@pytest.mark.more
def test_a_running_cell_is_not_idle(server):
    box = Session(server, idle_seconds=1)
    cell = box.start("import time; time.sleep(2.5); print('done')")
    assert box.done(cell)["stdout"] == "done\n" and box.get()[0] == 200
    assert gone(box) == "idle"
    for answer in (box.post("1"), box.interrupt(), box.restart(), box.kernel("main"), box.server.call("GET", box.of(cell))):
        assert refused(answer, 410, "gone")["reason"] == "idle"


def test_a_deleted_box(server):
    """Who waits is answered, also those whose turn it never was."""
    box = Session(server)
    box.ok("1")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        running = pool.submit(box.post, "print('begun')\nopen('begun', 'w').close()\nimport time; time.sleep(1000)", timeout_ms=None)
        until(lambda: box.run("test -e begun")["status"] == "ok", "it runs")
        queued = pool.submit(box.post, "print('never')")
        follower = box.start("print('never')")
        stream = Events(box, follower)
        assert box.delete()[0] == 204
        answers = [running.result(), queued.result()]
    with stream:
        found = list(stream)
    # Reading: as for commands, a box that has ended cancels its cells, and their clients get that as an answer. One whose request comes
    # too late for that is told that the box is ending, or gone.
    status, r = answers[0]
    assert (status, r["status"], r["stdout"]) == (200, "cancelled", "begun\n"), answers[0]
    status, r = answers[1]
    if status == 200:
        assert (r["status"], r["stdout"]) == ("cancelled", "")
    else:
        assert (status, r["error"]["code"]) in ((409, "wrong_state"), (410, "gone")), answers[1]
    assert not found or found[-1].name == "end" and found[-1].data["status"] == "cancelled"
    refused(box.post("1"), 410, "gone")


def test_to_others_it_does_not_exist(serve):
    tokens = {"one": "token-of-tenant-one-1", "two": "token-of-tenant-two-2"}
    server = serve(env={**tokens_variable(tokens), **NO_POOL})
    mine, theirs = ({"Authorization": f"Bearer {tokens[t]}"} for t in ("one", "two"))
    with Session(server, mine, name="same") as box:
        cell = box.begin(ENDLESS["sleep"])
        for method, tail, body in [("POST", "/cells", {"code": "1"}), ("GET", f"/cells/{cell}", None), ("GET", f"/cells/{cell}/events", None),
                                   ("DELETE", f"/cells/{cell}", None), ("POST", f"/cells/{cell}/input", {"text": "x"}), ("POST", "/interrupt", {}),
                                   ("POST", "/restart", {}), ("GET", "/kernels/main", None), ("DELETE", "/kernels/main", None)]:
            refused(server.call(method, box.path + tail, body, theirs), 404, "not_found")
            assert server.call(method, box.path + tail, body)[0] == 401
        assert box.look(cell, 0)["status"] == "running"
        status, answer = server.call("POST", "/v1/boxes/name:same/cells", {"code": "print('by name')", "kernel": "b"}, mine)
        assert (status, answer["stdout"]) == (200, "by name\n")


def test_no_such_cell(server, session):
    with Session(server) as other:
        theirs = other.ok("1")["id"]
        for cell in ("a" * 26, "x", theirs):
            for method, tail, body in [("GET", "", None), ("DELETE", "", None), ("GET", "/events", None), ("POST", "/input", {"text": "x"})]:
                refused(server.call(method, session.of(cell, tail), body), 404, "not_found")
        command = other.run("true")["id"]
        refused(server.call("GET", other.of(command)), 404, "not_found")
        refused(server.call("GET", f"{other.path}/commands/{theirs}"), 404, "not_found")


def test_it_is_described(server):
    """Every call of cells and kernels is in /openapi.json."""
    paths = server.call("GET", "/openapi.json")[1]["paths"]
    told = {(method, re.sub(r"\{[^}]*\}", "{}", path)) for path, calls in paths.items() for method in calls}
    for method, tail in [("post", "cells"), ("get", "cells/{}"), ("delete", "cells/{}"), ("get", "cells/{}/events"), ("post", "cells/{}/input"),
                         ("post", "interrupt"), ("post", "restart"), ("get", "kernels/{}"), ("delete", "kernels/{}")]:
        assert (method, f"/v1/boxes/{{}}/{tail}") in told


# --- fields that are wrong -----------------------------------------------------------------------------------

WRONG = {
    "no code": ({}, "code"), "code null": ({"code": None}, "code"), "code number": ({"code": 1}, "code"), "code list": ({"code": ["1"]}, "code"),
    "unknown": ({"code": "1", "colour": "blue"}, "colour"), "argv": ({"code": "1", "argv": ["ls"]}, "argv"),
    "timeout 0": ({"code": "1", "timeout_ms": 0}, "timeout_ms"), "timeout below": ({"code": "1", "timeout_ms": -1}, "timeout_ms"),
    "timeout above": ({"code": "1", "timeout_ms": 100001}, "timeout_ms"), "timeout part": ({"code": "1", "timeout_ms": 1.5}, "timeout_ms"),
    "timeout text": ({"code": "1", "timeout_ms": "1000"}, "timeout_ms"), "timeout bool": ({"code": "1", "timeout_ms": True}, "timeout_ms"),
    "kernel number": ({"code": "1", "kernel": 1}, "kernel"), "kernel empty": ({"code": "1", "kernel": ""}, "kernel"),
    "kernel list": ({"code": "1", "kernel": ["main"]}, "kernel"), "kernel slash": ({"code": "1", "kernel": "a/b"}, "kernel"),
    "kernel long": ({"code": "1", "kernel": "x" * 1000}, "kernel"),
    "stream": ({"code": "1", "stream": "yes"}, "stream"), "stream number": ({"code": "1", "stream": 1}, "stream"),
    "detach": ({"code": "1", "detach": 1}, "detach"), "stream and detach": ({"code": "1", "stream": True, "detach": True}, "detach"),
    "stdin text": ({"code": "1", "stdin": "x"}, "stdin"), "stdin number": ({"code": "1", "stdin": 1}, "stdin"),
    "spill": ({"code": "1", "spill": "yes"}, "spill"), "spill path": ({"code": "1", "spill": "/tmp/x"}, "spill"),
    "encoding": ({"code": "1", "output_encoding": "latin-1"}, "output_encoding"),
    "encoding number": ({"code": "1", "output_encoding": 8}, "output_encoding"),
    "on_disconnect": ({"code": "1", "on_disconnect": "kill"}, "on_disconnect"),
    "on_disconnect bool": ({"code": "1", "on_disconnect": True}, "on_disconnect"),
}


def test_a_wrong_field(session):
    for name, (body, field) in WRONG.items():
        code = "unknown_field" if name in ("unknown", "argv") else "invalid_field"
        refused(session.server.call("POST", f"{session.path}/cells", body), 422, code, field)


def test_nothing_of_what_was_refused_is_run(session):
    session.ok("ran = []")
    refused(session.post("ran.append(1)", timeout_ms=0), 422, "invalid_field", "timeout_ms")
    refused(session.post("ran.append(1)", colour=1), 422, "unknown_field", "colour")
    assert session.value("ran") == "[]"


NO_BODIES = {
    "empty": (b"", (400, 422)), "cut": (b"{", (400,)), "no text": (b"\xff", (400,)), "twice": (b'{"code": "1", "code": "2"}', (400,)),
    "nul": (b'{"code": "a\\u0000b"}', (400, 422)), "surrogate": (b'{"code": "a\\ud800b"}', (400, 422)), "null": (b"null", (422,)),
    "list": (b"[]", (422,)), "text": (b'"1"', (422,)),
}


def test_a_body_that_is_none(session):
    for name, (body, statuses) in NO_BODIES.items():
        answer = session.server.call("POST", f"{session.path}/cells", body, {"Content-Type": "application/json"})
        assert answer[0] in statuses and refusal(answer, answer[0]), name


def test_a_body_of_another_type(session):
    refused(session.server.call("POST", f"{session.path}/cells", b'{"code": "1"}', {"Content-Type": "text/plain"}), 415, "unsupported_media_type")


def test_a_body_that_is_too_large(session):
    body = b'{"code": "' + b"#" * (16 * MIB) + b'"}'
    status, answer = session.server.call("POST", f"{session.path}/cells", body, {"Content-Type": "application/json"})
    assert status == 413 and answer["error"]["code"] == "body_too_large"
    assert session.value("6 * 7") == "42"


def test_a_wrong_wait(session):
    cell = session.ok("1")["id"]
    for query in ("wait_ms=60001", "wait_ms=x", "wait_ms=-1", "wait_ms="):
        refused(session.server.call("GET", session.of(cell, f"?{query}")), 422, "invalid_field", "wait_ms")


# --- looking and events --------------------------------------------------------------------------------------


def test_detached(box):
    status, answer = box.post("import os, time\nprint('one')\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('two')\n6 * 7", detach=True)
    assert status == 202 and answer["status"] in UNDER_WAY
    cell = answer["id"]
    box.wait_for(cell, "one\n")
    assert box.look(cell, 100)["status"] == "running", "the wait was too short"
    box.out("touch go")
    r = box.done(cell)
    assert (r["status"], r["stdout"], value(r)) == ("ok", "one\ntwo\n", "42")
    assert box.done(cell) == r, "as often as one likes"


def test_stream(box):
    """Each kind of event, in order, and the same as the answer."""
    code = """
        import sys
        from IPython.display import clear_output
        print('one')
        handle = display({'text/plain': 'shown', 'application/json': {'k': 1}}, raw=True, metadata={'m': 1}, display_id='d')
        handle.update({'text/plain': 'updated'}, raw=True)
        clear_output(wait=True)
        print('two', file=sys.stderr)
        display('kept')
        6 * 7"""
    with box.stream(textwrap.dedent(code)) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
        found = list(stream)
    check_events(found)
    assert names(found) == ["start", "stdout", "display", "update", "clear", "stderr", "display", "result", "end"]
    _, out, display, update, clear, err, kept, result, end = (e.data for e in found)
    assert (out["data"], err["data"]) == ("one\n", "two\n")
    # Reading: displays and results are told in the form they have in the answer, but for `type`.
    assert (display["data"], display["metadata"], display["display_id"]) == ({"text/plain": "shown", "application/json": {"k": 1}}, {"m": 1}, "d")
    assert (update["data"], update["display_id"]) == ({"text/plain": "updated"}, "d") and clear["wait"] is True
    assert kept["data"] == {"text/plain": "'kept'"} and result["data"] == {"text/plain": "42"}
    answer = box.done(found[0].data["cell"])
    assert (answer["stdout"], answer["stderr"], shown(answer), value(answer)) == ("", "two\n", ["'kept'"], "42")
    assert {k: end[k] for k in IN_END} == {k: answer[k] for k in IN_END} and "stdout" not in end and "stderr" not in end
    found = box.streamed("print('x')\n1/0")
    assert names(found) == ["start", "stdout", "error", "end"] and found[-1].data["status"] == "error"
    assert (found[2].data["name"], found[2].data["value"]) == ("ZeroDivisionError", "division by zero")
    assert found[2].data["traceback"] == found[-1].data["error"]["traceback"]


@pytest.mark.parametrize("code, status", [("import os; print('x'); os._exit(3)", "crashed"),
                                          ("import time\nprint('x')\ntime.sleep(1000)", "timeout")], ids=["crashed", "timeout"])
def test_the_end_of_a_stream(box, code, status):
    found = box.streamed(code, timeout_ms=500 if status == "timeout" else 20000)
    assert text(found) == "x\n" and found[-1].data["status"] == status and found[-1].data["state_lost"] is (status == "crashed")


def test_events_from_anywhere(session):
    cell = session.ok("for i in range(5): print(i); display(i)")["id"]
    everything = session.events(cell)
    check_events(everything, cell)
    told = [(e.name, e.data) for e in everything]
    for after in range(len(everything)):
        for where in ({"after": after}, {"last": after}, {"last": after, "after": 0}):
            assert [(e.name, e.data) for e in session.events(cell, **where)] == told[after:]
    with Events(session, cell, after=len(everything)) as stream:
        assert stream.status == 204
    refused(session.server.call("GET", session.of(cell, "/events?after=x")), 422, "invalid_field", "after")


def test_several_follow(session):
    cell = session.start("import time\nfor i in range(20): print(i); display(i); time.sleep(0.02)")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        seen = list(pool.map(lambda _: session.events(cell), range(6)))
    for found in seen:
        check_events(found, cell)
        assert text(found) == "".join(f"{i}\n" for i in range(20)) and names(found).count("display") == 20


def test_who_leaves_can_come_back(session):
    with session.stream("import time\nfor i in range(30): print(i); time.sleep(0.02)") as stream:
        first = [stream.next() for _ in range(5)]
    cell = first[0].data["cell"]
    rest = session.events(cell, last=first[-1].id)
    check_events(rest, cell, int(first[-1].id) + 1)
    assert text(first) + text(rest) == "".join(f"{i}\n" for i in range(30)) and rest[-1].data["status"] == "ok"


def test_who_leaves_means_nothing_to_it(session):
    code = "open('left', 'w').close()\nimport os, time\nwhile not os.path.exists('left go'): time.sleep(0.01)\nleft = 'done'"
    body = json.dumps({"code": code}).encode()
    with session.server.wire() as wire:
        wire.send(b"POST %s/cells HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            session.path.encode(), session.server.authority.encode(), len(body), body))
        until(lambda: session.run("test -e left")["status"] == "ok", "it runs")
    session.out("touch 'left go'")
    assert session.value("left") == "'done'"


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["plain", "stream"])
def test_who_leaves_and_wants_it_ended(box, fields):
    box.ok("kept = 5")
    body = json.dumps({"code": "open('begun', 'w').close()\ntry:\n    import time; time.sleep(1000)\nfinally:\n    ended = True",
                       "on_disconnect": "interrupt", "timeout_ms": None, **fields}).encode()
    with box.server.wire() as wire:
        wire.send(b"POST %s/cells HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
            box.path.encode(), box.server.authority.encode(), len(body), body))
        until(lambda: box.run("test -e begun")["status"] == "ok", "it runs")
        assert box.get()[1]["state"] == "busy"
    assert box.value("kept, ended") == "(5, True)"


@pytest.mark.more
def test_a_slow_reader_gets_everything_and_holds_nobody_up(box):
    """It reads nothing until the cell has ended, which prints far more than any buffer on the way holds."""
    with box.stream("for i in range(100000): print(f'{i:099}')\ndisplay({'text/plain': 'y' * 5000000}, raw=True)") as stream:
        cell = stream.next().data["cell"]
        assert box.done(cell)["status"] == "ok"
        rest = list(stream)
    assert text(rest) == "".join(f"{i:099}\n" for i in range(100000))
    assert [len(e.data["data"]["text/plain"]) for e in rest if e.name == "display"] == [5000000] and rest[-1].name == "end"


@pytest.mark.slow
def test_a_comment_in_a_long_silence(session):
    cell = session.begin(ENDLESS["sleep"])
    with Events(session, cell) as stream:
        lines = []
        while not lines or not lines[-1].startswith(b":"):
            lines.append(stream.answer.readline())
            assert lines[-1].endswith(b"\n")
    assert session.cancel(cell)[0] == 204
    session.done(cell)


# --- the same request again ----------------------------------------------------------------------------------


def keyed(box, key, code, **fields):
    return box.post(code, headers={"Idempotency-Key": key}, **fields)


def test_the_same_cell_runs_once(server, box):
    key, code = mark(), "runs = globals().get('runs', 0) + 1\nprint(runs)"
    status, first = keyed(box, key, code)
    assert status == 200 and first["stdout"] == "1\n"
    assert keyed(box, key, code) == (200, first)
    refused(keyed(box, key, "runs = 9"), 409, "idempotency_key_reused")
    refused(keyed(box, key, code, kernel="main"), 409, "idempotency_key_reused")
    with Session(server) as other:
        assert keyed(other, key, code)[1]["id"] != first["id"], "keys are a box's own"
    assert box.value("runs") == "1"
    refused(keyed(box, mark(), code, timeout_ms=0), 422, "invalid_field")
    refused(keyed(box, "x" * 256, code), 422, "invalid_field", "Idempotency-Key")


def test_what_was_refused_is_not_remembered(box):
    key = mark()
    refused(keyed(box, key, "x = 1", timeout_ms=0), 422, "invalid_field")
    assert keyed(box, key, "x = 1")[1]["status"] == "ok"


def test_the_same_cell_at_once(box):
    key, code = mark(), "import time; time.sleep(0.5)\nruns = globals().get('runs', 0) + 1\nprint(runs)"
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: keyed(box, key, code), range(6)))
    assert {a[0] for a in answers} == {200} and len({a[1]["id"] for a in answers}) == 1 and answers[0][1]["stdout"] == "1\n"
    assert box.value("runs") == "1"


def test_the_same_stream_goes_on(box):
    key, code = mark(), "import time\nfor i in range(20): print(i); time.sleep(0.03)"
    with box.stream(code, {"Idempotency-Key": key}) as stream:
        first = [stream.next() for _ in range(4)]
    with box.stream(code, {"Idempotency-Key": key, "Last-Event-ID": first[-1].id}) as stream:
        rest = list(stream)
    check_events(rest, first[0].data["cell"], 5)
    assert text(first) + text(rest) == "".join(f"{i}\n" for i in range(20))


def test_a_key_survives_the_gate(serve):
    """Of a cell that runs, whose client lost its connection and asks again, and of one that nobody has heard of."""
    server = serve(env=NO_POOL)
    with Session(server) as box:
        box.ok("runs = 0")
        code = "runs += 1\nopen('begun', 'w').close()\nimport os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('runs', runs)"
        key = mark()
        with server.wire() as wire:
            body = json.dumps({"code": code}).encode()
            wire.send(b"POST %s/cells HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s" % (
                box.path.encode(), server.authority.encode(), key.encode(), len(body), body))
            until(lambda: box.run("test -e begun")["status"] == "ok", "it runs")
            kill(server)
            assert wire.is_ended(), "no half answer"
        refused(keyed(box, key, "other"), 409, "idempotency_key_reused")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            again = pool.submit(keyed, box, key, code)
            box.out("touch go")
            status, answer = again.result()
        assert (status, checked(answer)["stdout"]) == (200, "runs 1\n")
        kill(server)
        # Its answer was told, and may have gone; it is not run again.
        status, told = keyed(box, key, code)
        assert (told if status == 200 else refused((status, told), 410, "answer_gone"))["id"] == answer["id"]
        detached = mark()
        status, first = keyed(box, detached, "runs += 1", detach=True)
        assert status == 202 and ID.fullmatch(first["id"])
        kill(server)
        assert keyed(box, detached, "runs += 1", detach=True)[1]["id"] == first["id"]
        # It ran once, or its fate is told.
        assert (box.done(first["id"])["status"], box.value("runs")) in (("ok", "2"), ("cancelled", "1"))


# --- what others see of it -----------------------------------------------------------------------------------


def test_code_is_not_in_the_log(server, session):
    session.ok("'a-secret-of-the-cell'")
    assert "a-secret-of-the-cell" not in server.log() and re.search(r"/v1/boxes/[a-z2-7]{26}/cells", server.log())
