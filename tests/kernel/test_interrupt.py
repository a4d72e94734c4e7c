# SPDX-License-Identifier: Apache-2.0
"""SIGINT: in a cell, and between cells."""
import signal

import pytest
from fake_init import INTERRUPT

pytest_plugins = ["kernels"]

SYNC = {
    "sleep": "import time\nprint('go')\ntime.sleep(100)",
    "busy": "print('go')\nwhile True: pass",
    "printing": "print('go')\nwhile True: print(end='')",
    "printing lines": "print('go')\nwhile True: print('x' * 1000)",
    "displaying": "print('go')\nwhile True: display(1)",
    "c call": "import select\nprint('go')\nselect.select([], [], [], 100)",
    "regular expression": "import re\nprint('go')\nre.match('(a*)*b', 'a' * 40)",
    "lock": "import threading\nl = threading.Lock(); l.acquire()\nprint('go')\nl.acquire()",
    "join": (
        "import threading, time\nt = threading.Thread(target=time.sleep, args=(100,), daemon=True); t.start()\n"
        "print('go')\nt.join()"),
    "child": "import subprocess\np = subprocess.Popen(['sleep', '100'])\ntry:\n    print('go'); p.wait()\nfinally:\n    p.kill(); p.wait()",
    "command": "print('go')\n!sleep 100",
    "script": "%%bash\necho go\nsleep 100",
    "nested loop": "import asyncio\nasync def f():\n    print('go')\n    await asyncio.sleep(100)\nasyncio.run(f())",
    "our loop": ("import asyncio\nasync def f():\n    print('go')\n    await asyncio.sleep(100)\n"
                 "asyncio.get_event_loop().run_until_complete(f())"),
    "our loop for ever": "import asyncio\nprint('go')\nasyncio.get_event_loop().run_forever()",
    "repr": "import time\nclass A:\n    def __repr__(self):\n        print('go'); time.sleep(100)\nA()",
    "run": "%%writefile p.py\nimport time\nprint('go')\ntime.sleep(100)",
    "import": "open('slow.py', 'w').write('import time; print(\"go\"); time.sleep(100)')\nimport slow",
}
ASYNC = {
    "await": "import asyncio\nprint('go')\nawait asyncio.sleep(100)",
    "await for nothing": "import asyncio\nprint('go')\nawait asyncio.get_running_loop().create_future()",
    "busy": "import asyncio\nawait asyncio.sleep(0)\nprint('go')\nwhile True: pass",
    "turning": "import asyncio\nprint('go')\nwhile True: await asyncio.sleep(0)",
    "busy task": ("import asyncio\nasync def f():\n    print('go')\n    while True: pass\nt = asyncio.create_task(f())\n"
                  "await asyncio.sleep(100)"),
    "busy callback": ("import asyncio\ndef f():\n    print('go')\n    while True: pass\nasyncio.get_event_loop().call_soon(f)\n"
                      "await asyncio.sleep(100)"),
    "gather": "import asyncio\nprint('go')\nawait asyncio.gather(asyncio.sleep(100), asyncio.sleep(100))",
    "blocking": "import asyncio, time\nawait asyncio.sleep(0)\nprint('go')\ntime.sleep(100)",
    "thread": "import asyncio, threading\ne = threading.Event()\nprint('go')\nawait asyncio.to_thread(e.wait)",
    "printing": "import asyncio\nprint('go')\nwhile True:\n    print('y')\n    await asyncio.sleep(0)",
}


def interrupted(kernel, code):
    cell = kernel.begin(code)
    kernel.wait_for(cell, "go")
    return kernel.stop(cell)


@pytest.mark.parametrize("name", SYNC)
def test_in_a_cell(kernel, name):
    if name == "run":
        kernel.run(SYNC[name])
        result = interrupted(kernel, "%run p.py")
    else:
        result = interrupted(kernel, SYNC[name])
    assert result.error[0] == "KeyboardInterrupt", result.reply
    assert [c["ename"] for c in result.contents("error")] == ["KeyboardInterrupt"]
    assert result.order[-2:] == ["error", "end"]
    assert "glovebox_kernel" not in "".join(result.reply["traceback"]) or name in ("command", "script", "our loop", "our loop for ever")
    after = kernel.run("print('alive'); 5")
    assert (after.out, after.value) == ("alive\n", "5")


@pytest.mark.parametrize("what", ["KeyboardInterrupt", "ValueError"])
def test_while_an_error_is_shown(kernel, what):
    """What was to be shown is shown, if only in short."""
    result = kernel.run(f"class E(Exception):\n    def _render_traceback_(self):\n        raise {what}\nraise E('x')")
    assert result.error == ("E", "x")
    assert [(c["ename"], c["evalue"], c["traceback"]) for c in result.contents("error")] == [("E", "x", ["E: x"])]
    assert kernel.run("5").value == "5"


@pytest.mark.parametrize("what", ["raise SystemError('x')", "while True: pass"])
def test_over_and_over(kernel, what):
    """Wherever the signals come: there is an error, and it is in the reply."""
    for _ in range(30):
        cell = kernel.begin(f"print('go')\n{what}")
        kernel.wait_for(cell, "go")
        while not kernel.ended(cell):
            kernel.interrupt()
            kernel.pump(0.0005)
        result = kernel.finish(cell)
        shown = [c["ename"] for c in result.contents("error")]
        assert result.error[0] in shown and set(shown) <= {"SystemError", "KeyboardInterrupt"}, (result.error, shown)


@pytest.mark.parametrize("name", ASYNC)
def test_in_a_cell_that_awaits(kernel, name):
    result = interrupted(kernel, ASYNC[name])
    assert result.error[0] == "KeyboardInterrupt", result.reply
    assert [c["ename"] for c in result.contents("error")] == ["KeyboardInterrupt"]
    kernel.run("e.set()") if name == "thread" else None
    assert kernel.run("import asyncio; await asyncio.sleep(0, 6)").value == "6"
    assert kernel.run("7").value == "7"


def test_between_cells_it_is_nothing(kernel):
    kernel.run("import asyncio\nn = 0\nasync def f():\n    global n\n    while True:\n        n += 1\n        await asyncio.sleep(0.001)\n"
               "t = asyncio.create_task(f())")
    for _ in range(20):
        kernel.interrupt()
    assert kernel.run("before = n; t.done()").value == "False"
    for i in range(20):
        kernel.interrupt()
        result = kernel.run(f"{i}")
        # Just before its start or after its end is nobody's; within, it is the cell's.
        assert result.error is None or result.error[0] == "KeyboardInterrupt"
    assert kernel.run("await asyncio.sleep(0.05); n > before, t.done()").value == "(True, False)"


@pytest.mark.parametrize("code", ["while True: pass", "import asyncio\nawait asyncio.sleep(1000)", "%%bash\nsleep 1000"], ids=["busy", "awaits", "bash"])
def test_before_the_cell_listens_to_signals(kernel, code):
    """The signal is over by then; init has said for which cell it is."""
    for _ in range(5):
        kernel.process.send_signal(signal.SIGSTOP)
        cell = kernel.begin(code)
        kernel.interrupt(cell)
        kernel.process.send_signal(signal.SIGCONT)
        assert kernel.finish(cell).error[0] == "KeyboardInterrupt"
    assert kernel.run("7").value == "7"


def test_the_word_may_come_before_its_cell(kernel):
    kernel.send(INTERRUPT, kernel.number + 1, b"")
    assert kernel.run("while True: pass").error[0] == "KeyboardInterrupt"


def test_the_word_is_for_one_cell(kernel):
    cell = kernel.begin("print('go')\nwhile True: pass")
    kernel.wait_for(cell, "go")
    kernel.interrupt(cell)
    assert kernel.finish(cell).error[0] == "KeyboardInterrupt"
    kernel.send(INTERRUPT, cell, b"")
    kernel.send(INTERRUPT, cell + 1000, b"")
    assert kernel.run("1").value == "1"
    cell = kernel.begin("print(input())", allow_stdin=True)
    kernel.until(lambda: kernel.seen(cell).contents("input_request"))
    kernel.send(INTERRUPT, cell - 1, b"")
    kernel.answer(cell, "said")
    assert kernel.finish(cell).out == "said\n"


def test_a_cell_may_catch_it(kernel):
    cell = kernel.begin("import time\ntry:\n    print('go')\n    while True: time.sleep(0.01)\nexcept KeyboardInterrupt:\n    print('caught')\n"
                        "print('again')\nwhile True: time.sleep(0.01)")
    kernel.wait_for(cell, "go")
    kernel.interrupt()
    kernel.wait_for(cell, "again")
    assert kernel.stop(cell).error[0] == "KeyboardInterrupt"
    cell = kernel.begin("import asyncio\ntry:\n    print('go'); await asyncio.sleep(100)\nexcept KeyboardInterrupt:\n    print('caught')\n"
                        "finally:\n    await asyncio.sleep(0.01)\n5")
    kernel.wait_for(cell, "go")
    kernel.interrupt()
    result = kernel.finish(cell)
    assert result.value == "5" and "caught" in result.out


def test_handlers_of_the_user_end_with_their_cell(kernel):
    cell = kernel.begin("import signal, time\nhit = []\nold = signal.signal(signal.SIGINT, lambda *a: hit.append(1))\nprint('go')\n"
                        "while not hit: time.sleep(0.01)\nprint('mine')")
    kernel.wait_for(cell, "go")
    kernel.interrupt()
    assert "mine" in kernel.finish(cell).out
    kernel.run("signal.signal(signal.SIGINT, signal.SIG_DFL)")
    kernel.interrupt()
    assert interrupted(kernel, SYNC["sleep"]).error[0] == "KeyboardInterrupt"
    kernel.run("import asyncio; asyncio.get_event_loop().add_signal_handler(signal.SIGINT, print, 'x')")
    kernel.interrupt()
    assert interrupted(kernel, SYNC["sleep"]).error[0] == "KeyboardInterrupt"
    assert kernel.run("signal.getsignal(signal.SIGINT) is signal.default_int_handler").value == "True"


def test_a_pipe_that_nobody_reads_does_not_keep_it_away(kernel):
    """Output waits for init, an interrupt does not."""
    cell = kernel.begin("print('go', flush=True)\nwhile True: print('x' * 100000)")
    kernel.wait_for(cell, "go")
    unread = dict(kernel.pipes)
    kernel.pipes.clear()
    kernel.interrupt()
    kernel.pump(0.2)
    kernel.interrupt()
    kernel.pipes.update(unread)
    assert kernel.finish(cell).error[0] == "KeyboardInterrupt"


def test_many_interrupts(kernel):
    for _ in range(30):
        cell = kernel.begin("print('go')\nfor i in range(10**9): display(i)")
        kernel.wait_for(cell, "go")
        for _ in range(5):
            kernel.interrupt()
        result = kernel.finish(cell)
        assert result.error[0] == "KeyboardInterrupt"
        assert [int(c["data"]["text/plain"]) for c in result.contents("display_data")] == list(
            range(len(result.contents("display_data"))))
        del kernel.events[:]
    assert kernel.run("8").value == "8"


def test_requests_that_hang(kernel):
    kernel.run("import time\nclass A:\n    def __dir__(self):\n        print('go'); time.sleep(100)\na = A()")
    cell = kernel.request("complete", {"code": "a.", "cursor_pos": 2})
    kernel.wait_for(cell, "go")
    assert kernel.stop(cell).reply["status"] in ("ok", "error")
    assert kernel.run("1").value == "1"
