# SPDX-License-Identifier: Apache-2.0
"""stdout and stderr: whose they are, in which order, and that not a byte is lost."""
import time

import pytest

pytest_plugins = ["kernels"]


def test_text_and_displays_stay_in_order(kernel):
    result = kernel.run("for i in range(3):\n    print(i)\n    display(i)\nprint('e', end='')\n4")
    assert result.order == ["stdout", "display_data"] * 3 + ["stdout", "execute_result", "end"]
    assert result.out == "0\n1\n2\ne"


def test_order_of_ways_to_write(kernel):
    code = ("import os, sys, subprocess, ctypes\nlibc = ctypes.CDLL(None)\nprint('a', end='')\nos.system('printf b')\n"
            "sys.stdout.write('c')\nsubprocess.run(['printf', 'd'])\nprint('e', end='', flush=True)\nos.write(1, b'f')\n"
            "sys.stdout.buffer.write(b'g')\n!printf h\nlibc.printf(b'i')\ndisplay(1)\nprint('j')")
    result = kernel.run(code)
    assert result.out == "abcdefghij\n"
    assert result.order == ["stdout", "display_data", "stdout", "end"]


def test_order_does_not_depend_on_how_fast_init_is(kernel):
    """What is printed after a message is not read before it, however long the message waits."""
    receive = kernel.receive

    def slowly():
        time.sleep(0.002)
        receive()

    kernel.receive = slowly
    result = kernel.run("import sys, os\nfor i in range(20):\n    print(i)\n    display(i)\n    print('e', i, file=sys.stderr)\n"
                        "    display(-i)\n    os.system(f'echo {i}')\n")
    assert result.order == ["stdout", "display_data", "stderr", "display_data", "stdout"] + [
        "stdout", "display_data", "stderr", "display_data", "stdout"][1:] * 19 + ["end"]


def test_an_init_that_does_not_want_to_be_asked(boot):
    kernel = boot(configure=False)
    kernel.configure(kernel.home, sync=False)
    result = kernel.run("for i in range(100):\n    print(i)\n    display(i)")
    assert result.out == "".join(f"{i}\n" for i in range(100)) and len(result.contents("display_data")) == 100
    assert result.order[-1] == "end"


def test_output_of_c_belongs_to_its_cell(kernel):
    assert kernel.run("import ctypes; libc = ctypes.CDLL(None); n = libc.puts(b'from C')").out == "from C\n"
    assert kernel.run("1").out == ""


def test_unfinished_lines_are_seen_before_anything_is_waited_for(kernel):
    cell = kernel.begin("import time\nprint('working...', end='')\ntime.sleep(60)")
    kernel.wait_for(cell, "working...")
    kernel.stop(cell)
    cell = kernel.begin("import asyncio\nprint('awaiting...', end='')\nawait asyncio.sleep(60)")
    kernel.wait_for(cell, "awaiting...")
    kernel.stop(cell)


def test_bytes_pass_unchanged(kernel):
    data = bytes(range(256)) * 4
    result = kernel.run("import sys\nn = sys.stdout.buffer.write(bytes(range(256)) * 4)\nn")
    assert result.stream("stdout") == data and result.value == "1024"
    assert kernel.run("import os; n = os.write(1, bytes(range(256)))").stream("stdout") == bytes(range(256))
    assert kernel.run("!printf '\\377\\000\\200'").stream("stdout") == b"\xff\0\x80"
    assert kernel.run("%%bash\nprintf '\\377\\000\\200'").stream("stdout") == b"\xff\0\x80"
    assert kernel.run("n = sys.stdout.buffer.write(memoryview(bytearray(b'view')))").stream("stdout") == b"view"


def test_text_that_is_no_utf8(kernel):
    result = kernel.run("print('a\\ud800b\\0c', '\\udcff')")
    assert result.out == "a\\ud800b\0c \\udcff\n"


def test_one_line_of_a_megabyte(kernel):
    assert kernel.run("print('x' * (1 << 20))").out == "x" * (1 << 20) + "\n"
    assert len(kernel.run("%%bash\nhead -c 1000000 /dev/zero | tr '\\0' y").out) == 1000000
    assert len(kernel.run("import sys\nn = sys.stderr.write('é' * 500000)").stream("stderr")) == 1000000


def test_many_lines(kernel):
    assert kernel.run("for i in range(100000): print(i)").out == "".join(f"{i}\n" for i in range(100000))


def test_streams_look_like_streams(kernel):
    code = ("import io, sys\nassert isinstance(sys.stdout, io.TextIOBase)\nassert sys.stdout.fileno() == 1 and "
            "sys.stderr.fileno() == 2\nassert not sys.stdout.isatty() and sys.stdout.writable() and not sys.stdout.readable()\n"
            "assert sys.stdout.encoding == 'utf-8' and sys.stdout.name == '<stdout>'\nsys.stdout.reconfigure(encoding='utf-8', "
            "line_buffering=True)\nsys.stdout.writelines(['a', 'b'])\nassert sys.__stdout__ is sys.stdout\n"
            "sys.stdout.buffer.raw.write(b'c')\nassert sys.stdout.write('d') == 1\n"
            "try:\n    sys.stdout.write(b'x')\nexcept TypeError as e:\n    print(e)\n"
            "class S(str):\n    def __str__(self): raise ValueError\n    encode = None\n"
            "print(S('sub'), end='')" "")
    result = kernel.run(code)
    assert result.reply["status"] == "error" and result.error[0] == "ValueError"
    assert result.out == "abcdwrite() argument must be str, not bytes\n"
    assert kernel.run("n = sys.stdout.write(S('sub'))").out == "sub"


def test_logging_warnings_and_tracebacks_go_to_stderr(kernel):
    result = kernel.run("import logging, warnings, traceback\nlogging.warning('w')\nwarnings.warn('x')\n"
                        "try:\n    1/0\nexcept Exception:\n    traceback.print_exc()")
    assert "WARNING:root:w" in result.err and "UserWarning: x" in result.err and "ZeroDivisionError" in result.err
    assert result.out == ""


def test_replaced_streams(kernel):
    assert kernel.run("import sys, io\nold = sys.stdout\nsys.stdout = io.TextIOWrapper(old.buffer, encoding='utf-8')\n"
                      "print('wrapped', end='')").out == "wrapped"
    assert kernel.run("print('still')").out == "still\n"
    assert kernel.run("sys.stdout = old\nimport gc; gc.collect()\nprint('back')").out == "back\n"
    kernel.run("sys.stdout = open('log', 'w')")
    kernel.run("print('to the file')")
    assert (kernel.home / "log").read_text() == "to the file\n"
    kernel.run("sys.stdout.close()")
    assert kernel.run("print('ours')").out == "ours\n"
    for code in ("sys.stdout = None", "del sys.stdout", "sys.stdout = 5", "sys.stdout.close()",
                 "import os; os.close(1); os.close(2); os.close(0)", "sys.stderr.close(); sys.stderr.buffer.close()"):
        kernel.run(code)
        assert kernel.run("import sys; print('again'); n = sys.stderr.write('too')").order[-1] == "end"
        assert kernel.run("print('x'); !echo y").error is not None
        assert kernel.run("print('x')\n!echo y").out == "x\ny\n", code


def test_redirection(kernel):
    result = kernel.run("import contextlib, io\nf = io.StringIO()\nwith contextlib.redirect_stdout(f):\n    print('in')\n"
                        "    !echo command\n    display(3)\nprint(f.getvalue(), end='')")
    assert result.out == "in\ncommand\n" and len(result.contents("display_data")) == 1


# --- late writers --------------------------------------------------------------------------------------------


def test_threads_write_to_the_cell_that_started_them(kernel):
    first = kernel.run("import threading\ngo = threading.Event()\ndef work():\n    go.wait()\n    print('late')\n"
                       "    display('shown')\n    import sys; print('bad', file=sys.stderr)\n"
                       "    t2 = threading.Thread(target=lambda: print('grandchild')); t2.start(); t2.join()\n"
                       "t = threading.Thread(target=work); t.start()").cell
    second = kernel.run("go.set(); t.join(); print('mine')")
    kernel.wait_for(first, "grandchild")
    seen = kernel.seen(first)
    assert (seen.out, seen.err, second.out) == ("late\ngrandchild\n", "bad\n", "mine\n")
    assert seen.contents("display_data")[0]["data"]["text/plain"] == "'shown'"
    # Although END of its cell is long past. Which of its two streams is read first is nobody's promise.
    assert seen.order[:3] == ["end", "stdout", "display_data"] and sorted(seen.order[3:]) == ["stderr", "stdout"]


def test_raw_threads_pools_and_timers(kernel):
    kernel.run("import _thread, threading, concurrent.futures, time\ngo = threading.Event()\nleft = []\n"
               "def work(name):\n    go.wait(); print(name); left.append(name)")
    cells = [kernel.run("_thread.start_new_thread(work, ('raw',));").cell,
             kernel.run("pool = concurrent.futures.ThreadPoolExecutor(1); f = pool.submit(work, 'pool')").cell,
             kernel.run("threading.Timer(0.01, work, ['timer']).start()").cell]
    kernel.run("go.set()\nwhile len(left) < 3: time.sleep(0.01)\nprint('x')")
    for cell, text in zip(cells, ("raw\n", "pool\n", "timer\n")):
        kernel.wait_for(cell, text)
        assert kernel.seen(cell).out == text
    late = kernel.run("import asyncio\nawait asyncio.to_thread(print, 'by context')")
    assert late.out == "by context\n"


def test_tasks_write_to_the_cell_that_started_them(kernel):
    kernel.run("import asyncio\ngo = asyncio.Event()\nasync def work(n):\n    await go.wait()\n    print(n)\n    display(n)")
    cells = [kernel.run(f"t{n} = asyncio.create_task(work({n}))").cell for n in range(3)]
    last = kernel.run("go.set(); await asyncio.gather(t0, t1, t2); print('x')")
    assert last.order == ["stdout", "end"] and last.out == "x\n"
    for n, cell in enumerate(cells):
        kernel.wait_for(cell, f"{n}\n")
        assert kernel.seen(cell).contents("display_data")[0]["data"]["text/plain"] == str(n)


def test_callbacks_write_to_the_cell_that_registered_them(kernel):
    first = kernel.run("import asyncio; h = asyncio.get_event_loop().call_later(0.05, print, 'called')").cell
    kernel.run("1")
    kernel.wait_for(first, "called\n")


def test_children_write_to_their_cell(kernel):
    first = kernel.run("import subprocess\np = subprocess.Popen('read x; echo $x; echo e >&2', shell=True, stdin=-1)").cell
    second = kernel.run("p.communicate(b'late\\n'); print('mine')")
    kernel.wait_for(first, "e\n", "err")
    assert (kernel.seen(first).out, kernel.seen(first).err, second.out) == ("late\n", "e\n", "mine\n")


def test_the_last_32_cells_stay_open(kernel):
    kernel.run("import threading\nboxes = {}\ndef work(n):\n    boxes[n][0].wait()\n    print('late', n)\n    boxes[n][1].set()\n"
               "def begin(n):\n    boxes[n] = (threading.Event(), threading.Event())\n    threading.Thread(target=work, args=(n,)).start()")
    cells = [kernel.run(f"begin({n})").cell for n in range(40)]
    last = kernel.run("for go, done in boxes.values():\n    go.set(); done.wait()\nprint('x')")
    kernel.wait_for(cells[-1], "late")
    kept = [cell for cell in cells if "late" in kernel.seen(cell).out]
    assert kept == cells[-31:]
    assert last.out == "".join(f"late {n}\n" for n in range(9)) + "x\n"
    pipes = [name for name in kernel.fds().values() if name.startswith("pipe:")]
    assert len(pipes) == 64


def test_requests_that_leave_nobody_behind_keep_no_pipes(kernel):
    cell = kernel.run("import threading; go = threading.Event(); t = threading.Thread(target=lambda: (go.wait(), print('late')))\n"
                      "t.start()").cell
    for _ in range(40):
        kernel.ask("complete", {"code": "go", "cursor_pos": 2})
    kernel.run("go.set(); t.join()")
    kernel.wait_for(cell, "late\n")


def test_without_pipes_output_goes_to_the_newest_cell(kernel):
    first = kernel.run("1").cell
    kernel.number += 1
    kernel.send(2, kernel.number, {"type": "execute", "content": {"code": "print('where')"}})
    assert kernel.finish(kernel.number).reply["status"] == "ok"
    kernel.wait_for(first, "where\n")


# --- children that are copies of us --------------------------------------------------------------------------


def test_a_forked_child_says_nothing_on_the_channel(kernel):
    code = ("import os\nprint('before', end='')\npid = os.fork()\nif pid == 0:\n    display('child'); print('child')\nelse:\n"
            "    status = os.waitpid(pid, 0)[1]\n    print('parent', status)")
    result = kernel.run(code)
    assert result.out == "beforechild\nparent 0\n"
    assert result.order == ["stdout", "end"]
    result = kernel.run("pid = os.fork()\nif pid == 0:\n    1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert result.value == "1" and "ZeroDivisionError" in result.err and result.contents("error") == []
    result = kernel.run("import sys\npid = os.fork()\nif pid == 0:\n    sys.exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert result.value == "7"
    result = kernel.run("pid = os.fork()\nif pid == 0:\n    input()\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
                        allow_stdin=True)
    assert result.value == "1" and "EOFError" in result.err
    assert kernel.run("1").value == "1"


def test_forks_in_tasks_and_threads(kernel):
    kernel.run("import asyncio, os, threading\nasync def f():\n    pid = os.fork()\n    if pid: os.waitpid(pid, 0)\n    print('x', bool(pid))")
    cell = kernel.run("t = asyncio.create_task(f())").cell
    kernel.wait_for(cell, "x True\n")
    assert kernel.run("await f()").out.count("x True\n") == 1
    result = kernel.run("def g():\n    pid = os.fork()\n    if pid == 0:\n        display('no'); print('child'); os._exit(0)\n"
                        "    os.waitpid(pid, 0)\nt = threading.Thread(target=g); t.start(); t.join(); print('done')")
    assert result.out == "child\ndone\n" and result.contents("display_data") == []
    assert kernel.run("1").value == "1"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(kernel, method):
    (kernel.home / "work.py").write_text("def double(x):\n    print('in child', x)\n    return 2 * x\n")
    result = kernel.run(f"import multiprocessing as mp, work\nctx = mp.get_context({method!r})\n"
                        "pool = ctx.Pool(2)\nr = pool.map(work.double, [1, 2, 3])\npool.close(); pool.join()\nr")
    assert result.value == "[2, 4, 6]", result.err
    assert sorted(result.out.splitlines()) == ["in child 1", "in child 2", "in child 3"]
    second = kernel.run("p = ctx.Process(target=work.double, args=(4,)); p.start(); p.join(); p.exitcode")
    assert second.value == "0"
    # The server of forks is a child of the first cell, and so are its children.
    kernel.wait_for(result.cell if method == "forkserver" else second.cell, "in child 4\n")
    # Its helpers would stay as long as the kernel.
    kernel.run("from multiprocessing import forkserver, resource_tracker\n"
               "resource_tracker._resource_tracker._stop()\nforkserver._forkserver._stop() if forkserver._forkserver._forkserver_pid else 0")


def test_functions_of_cells_in_forked_pools(kernel):
    result = kernel.run("import multiprocessing as mp\ndef f(x): return x + 1\nwith mp.get_context('fork').Pool(2) as p:\n"
                        "    r = p.map(f, range(4))\nr")
    assert result.value == "[1, 2, 3, 4]"
