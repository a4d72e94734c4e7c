# SPDX-License-Identifier: Apache-2.0
"""input(), getpass() and everything that asks by way of them."""
import signal
import time

pytest_plugins = ["kernels"]


def test_input(kernel):
    result = kernel.run("name = input('who? ')\nprint('hello', name)", ["Ünï"], allow_stdin=True)
    assert result.out == "hello Ünï\n"
    assert result.contents("input_request") == [{"prompt": "who? ", "password": False}]
    assert kernel.run("input(), input(5)", ["", "x\ty"], allow_stdin=True).value == "('', 'x\\ty')"
    assert kernel.run("import getpass; getpass.getpass()", ["secret"], allow_stdin=True).value == "'secret'"
    assert kernel.seen(kernel.number).contents("input_request") == [{"prompt": "Password: ", "password": True}]


def test_what_was_printed_comes_before_the_question(kernel):
    result = kernel.run("print('a', end=''); input(); print('b')", ["x"], allow_stdin=True)
    assert result.order == ["stdout", "input_request", "stdout", "end"] and result.out == "ab\n"


def test_end_of_input(kernel):
    assert kernel.run("input()", [None], allow_stdin=True).error == ("EOFError", "EOF when reading a line")
    assert kernel.run("try:\n    while True: input()\nexcept EOFError: print('done')", ["a", None], allow_stdin=True).out == "done\n"


def test_not_allowed_is_an_error_at_once(kernel):
    for code in ("input()", "import getpass; getpass.getpass()", "input('x')"):
        result = kernel.run(code)
        assert result.error[0] == "StdinNotImplementedError" and result.contents("input_request") == []
    assert kernel.run("import sys; sys.stdin.read(), sys.stdin.readline()").value == "('', '')"
    assert kernel.run("!cat").out == ""


def test_a_long_answer_and_one_that_is_no_text(kernel):
    assert kernel.run("len(input())", ["x" * 200000], allow_stdin=True).value == "200000"
    cell = kernel.begin("input()", allow_stdin=True)
    kernel.until(lambda: kernel.seen(cell).contents("input_request"))
    kernel.send(3, cell, b"a\xffb\0")
    assert kernel.finish(cell).value == "'a\ufffdb\\x00'"


def test_answers_nobody_waits_for_are_forgotten(kernel):
    kernel.answer(1, "early")
    kernel.answer(99, "lost")
    assert kernel.run("input()", ["right"], allow_stdin=True).value == "'right'"
    cell = kernel.begin("import time; time.sleep(0.2); input()", allow_stdin=True)
    kernel.answer(cell - 1, "of another cell")
    assert kernel.finish(cell, ["mine"]).value == "'mine'"


def test_a_request_that_comes_meanwhile_waits(kernel):
    first = kernel.begin("input()", allow_stdin=True)
    kernel.until(lambda: kernel.seen(first).contents("input_request"))
    second = kernel.begin("'second'")
    kernel.answer(first, "first")
    assert kernel.finish(second).value == "'second'" and kernel.finish(first).value == "'first'"


def test_interrupt(kernel):
    cell = kernel.begin("input('?')", allow_stdin=True)
    kernel.until(lambda: kernel.seen(cell).contents("input_request"))
    assert kernel.stop(cell).error[0] == "KeyboardInterrupt"
    kernel.answer(cell, "too late")
    assert kernel.run("input()", ["now"], allow_stdin=True).value == "'now'"


def test_threads_and_tasks_may_ask(kernel):
    code = "import threading\ngot = []\nt = threading.Thread(target=lambda: got.append(input('in a thread')))\nt.start(); t.join(); got"
    assert kernel.run(code, ["x"], allow_stdin=True).value == "['x']"
    assert kernel.run("import asyncio\nawait asyncio.to_thread(input, '?')", ["y"], allow_stdin=True).value == "'y'"
    # Whose cell is over nobody answers.
    code = "def late():\n    go.wait()\n    try: input()\n    except Exception as e: got.append(type(e).__name__)\ngo = threading.Event()\n"
    kernel.run(code + "got.clear(); t = threading.Thread(target=late); t.start()", allow_stdin=True)
    assert kernel.run("go.set(); t.join(); got").value == "['StdinNotImplementedError']"


THREADS = """import threading
got = {}
def ask(name):
    try:
        got[name] = input(name)
    except EOFError:
        got[name] = None
threads = [threading.Thread(target=ask, args=(f"t{n}",)) for n in range(5)]
for t in threads: t.start()
"""


def prompts(kernel, cell, count):
    """In the order in which they were asked."""
    kernel.until(lambda: len(kernel.seen(cell).contents("input_request")) == count)
    return [c["prompt"] for c in kernel.seen(cell).contents("input_request")]


def test_several_threads_ask_at_once(kernel):
    """All are heard, and each gets the answer to its own question: with a main thread that asks, too, one that waits, and none."""
    for main in ("ask('main')", "import time\nwhile len(got) < 5: time.sleep(0.001)", "pass"):
        cell = kernel.begin(f"{THREADS}{main}\nfor t in threads: t.join()\nprint(sorted(got.items()))", allow_stdin=True)
        names = prompts(kernel, cell, 6 if "main" in main else 5)
        assert len(set(names)) == len(names)
        for name in names[:-1]:
            kernel.answer(cell, f"to {name}")
        kernel.answer(cell, None)
        want = {name: f"to {name}" for name in names[:-1]} | {names[-1]: None}
        assert kernel.finish(cell).out == f"{sorted(want.items())}\n"


def test_the_others_are_answered_when_one_was_interrupted(kernel):
    code = "while True:\n    try: ask('main')\n    except KeyboardInterrupt: break\nprint('left')\nfor t in threads: t.join()\nprint(sorted(got.items()))"
    cell = kernel.begin(THREADS + code, allow_stdin=True)
    names = prompts(kernel, cell, 6)
    while "left" not in kernel.seen(cell).out:
        kernel.interrupt()
        again = time.monotonic() + 2
        while time.monotonic() < again and "left" not in kernel.seen(cell).out:
            kernel.pump(0.1)
    names.remove("main")
    for name in names:
        kernel.answer(cell, f"to {name}")
    want = {name: f"to {name}" for name in names}
    assert kernel.finish(cell).out == f"left\n{sorted(want.items())}\n"


def test_others_print_while_one_waits(kernel):
    """Text after a message waits for a word of init, too: in a thread, and in a signal handler of the thread that waits."""
    code = ("import os, signal, threading\ndef show(*_):\n    display('x')\n    print('shown')\n"
            "signal.signal(signal.SIGUSR1, show)\nt = threading.Thread(target=show)\ngo = threading.Timer(0.05, t.start)\ngo.start()\ninput('?')")
    cell = kernel.begin(code, allow_stdin=True)
    prompts(kernel, cell, 1)
    kernel.wait_for(cell, "shown\n")
    kernel.process.send_signal(signal.SIGUSR1)
    kernel.wait_for(cell, "shown\nshown\n")
    kernel.answer(cell, "there")
    result = kernel.finish(cell)
    assert result.value == "'there'" and result.order.count("display_data") == 2


def test_a_thread_that_waits_when_its_cell_ends(kernel):
    code = ("import threading\ngot = []\ndef ask():\n    try: input()\n    except EOFError as e: got.append('eof')\n"
            "t = threading.Thread(target=ask); t.start()\nimport time\nwhile not getattr(t, 'x', 1): pass\ntime.sleep(0.2)")
    cell = kernel.begin(code, allow_stdin=True)
    kernel.finish(cell)
    for i in range(20):
        assert kernel.run(f"{i}").value == str(i)
    assert kernel.run("t.join(); got").value == "['eof']"


def test_the_debugger(kernel):
    kernel.run("def f():\n    x = 42\n    raise ValueError\nf()")
    result = kernel.run("%debug", ["p x", "up", "q"], allow_stdin=True)
    assert "42" in result.out and result.reply["status"] == "ok"
    assert [c["prompt"] for c in result.contents("input_request")] == ["ipdb> "] * 3
    result = kernel.run("y = 7\nbreakpoint()\nprint('on')", ["p y", "c"], allow_stdin=True)
    assert "7" in result.out and result.out.endswith("on\n")
