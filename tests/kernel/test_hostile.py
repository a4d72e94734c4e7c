# SPDX-License-Identifier: Apache-2.0
"""User code that means harm, or does not know better. The channel stays framed, every RUN gets its END, and the next cell runs."""
import pytest

from fake_init import Died

pytest_plugins = ["kernels"]

SURVIVED = {
    "closes everything above 2": "import os; os.closerange(3, 5000)",
    "closes everything, one by one": "import os\nfor fd in range(3, 5000):\n    try: os.close(fd)\n    except OSError: pass",
    "closes everything in the list": (
        "import os\nfor fd in os.listdir('/proc/self/fd'):\n    try: os.close(int(fd))\n    except OSError: pass"),
    "closes 0, 1 and 2": "import os; os.close(0); os.close(1); os.close(2)",
    "uses up all descriptors": "kept = []\ntry:\n    while True: kept.append(open('/dev/null'))\nexcept OSError: print('full')",
    "deletes builtins": (
        "import builtins\nfor n in list(vars(builtins)):\n    if n not in ('list', 'vars'): delattr(builtins, n)"),
    "clears builtins": "import builtins; vars(builtins).clear()",
    "replaces builtins": (
        "import builtins\n"
        "for n in ('len', 'isinstance', 'str', 'print', 'type', 'getattr', 'open'): setattr(builtins, n, None)"),
    "replaces exceptions": "import builtins; builtins.Exception = builtins.BaseException = builtins.KeyError = int",
    "clears modules": "import sys; sys.modules.clear()",
    "deletes our modules": (
        "import sys\nfor n in list(sys.modules):\n"
        "    if n.startswith(('glovebox_kernel', 'IPython', 'json', 'os')): del sys.modules[n]"),
    "patches json": (
        "import json.encoder\nfor n in list(vars(json.encoder)):\n"
        "    if not n.startswith('__'): setattr(json.encoder, n, None)"),
    "patches os": "import os\nfor n in ('write', 'read', 'getcwd', 'dup2', 'pipe'): setattr(os, n, None)",
    "patches socket and select": (
        "import socket, select\nsocket.socket = socket.SOL_SOCKET = None\nselect.poll = select.epoll = None"),
    "patches threading": (
        "import threading\nthreading.Thread = threading.RLock = threading.current_thread = threading.main_thread = None"),
    "patches asyncio": (
        "import asyncio\nasyncio.events.get_event_loop = asyncio.set_event_loop = None\n"
        "asyncio.get_event_loop().run_forever = None"),
    "patches the loop": "import asyncio\nloop = asyncio.get_event_loop()\nfor n in list(vars(loop)): setattr(loop, n, None)",
    "closes the loop": "import asyncio\nloop = asyncio.get_event_loop()\nloop.stop(); loop.close(); loop._selector.close()",
    "patches signal": "import signal\nsignal.signal = signal.getsignal = None",
    "patches the shell": "ip = get_ipython()\nip.display_pub = ip.displayhook = ip.events = None",
    "patches the formatter": "get_ipython().display_formatter = None",
    "patches the history": "get_ipython().history_manager.store_inputs = None; del In[:]",
    "patches showtraceback": "get_ipython().showtraceback = get_ipython()._showtraceback = None\n1/0",
    "sets hooks": "import sys\nsys.excepthook = sys.displayhook = sys.unraisablehook = None\n1/0",
    "raises in hooks": "import sys\ndef h(*a): raise RuntimeError\nsys.excepthook = sys.displayhook = h\n1/0",
    "traces": "import sys\ndef t(*a): raise RuntimeError('trace')\nsys.settrace(t)",
    "profiles": "import sys\ndef t(*a): raise RuntimeError('profile')\nsys.setprofile(t)",
    "recurses": "def f(): f()\nf()",
    "low recursion limit": (
        "import sys\nfor n in range(1, 200):\n    try: sys.setrecursionlimit(n); break\n    except RecursionError: pass"),
    "recursion in repr": "class A:\n    def __repr__(self): return repr(self)\nA()",
    "raises a hostile exception": "class E(Exception):\n    def __str__(self): raise self\n    __repr__ = __str__\nraise E",
    "raises with a hostile name": "E = type('E\\ud800', (Exception,), {})\nraise E('\\ud800\\0')",
    "renders its own traceback": "class E(Exception):\n    def _render_traceback_(self): return 5\nraise E",
    "raises a class of exit": "raise SystemExit('\\ud800')",
    "raises BaseException": "class B(BaseException): pass\nraise B",
    "raises GeneratorExit": "raise GeneratorExit",
    "raises StopIteration": "raise StopIteration(5)",
    "raises in await": "import asyncio\nawait asyncio.sleep(0)\nraise StopAsyncIteration",
    "cancels itself": "import asyncio\nasyncio.current_task().cancel()\nawait asyncio.sleep(1)",
    "audits": "import sys\ndef h(*a): raise RuntimeError('audit')\nsys.addaudithook(h)",
    "fires timers": (
        "import signal\ndef h(*a): raise TimeoutError('late')\nsignal.signal(signal.SIGALRM, h)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.003)"),
    "displays from a finaliser": (
        "class A:\n    def __del__(self): display('x'); print('y')\nfor i in range(100): A()\na = A(); a.a = a"),
    "displays from many threads": ("import threading\nts = [threading.Thread(target=lambda: [display('x' * 100000) for i in range(20)]) for j in range(8)]\n"
                                   "[t.start() for t in ts]; [t.join() for t in ts];"),
    "writes from many threads": ("import threading\nts = [threading.Thread(target=lambda: [print('x' * 100) for i in range(500)]) for j in range(8)]\n"
                                 "[t.start() for t in ts]; [t.join() for t in ts];"),
    "patches our modules": "import sys\nm = sys.modules['glovebox_kernel.messages']\nm.encode = m.message = None\ndisplay(1)",
    "patches our channel": "import sys\nm = sys.modules['glovebox_kernel.display']\nm.publish = None\ndisplay(1)",
    "replaces threads' local data": "import threading\nthreading.local = threading._active = None",
    "deletes the working directory": "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
    "clears the environment": "import os; os.environ.clear()",
    "removes IPython from the path": (
        "import sys; sys.path.clear(); sys.meta_path.clear(); sys.path_hooks.clear(); sys.path_importer_cache.clear()"),
    "uses up memory": (
        "x = []\nimport resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "while True: x.append(bytearray(10 << 20))"),
    "garbage": "$$$",
    "null bytes": "x = 1\0",
    "ends with a backslash": "x = 1 \\",
    "deep nesting": "(" * 5000,
    "deep expression": "+".join(["1"] * 5000),
    "sets the class of the shell": "get_ipython().__class__ = object",
    "deletes names of IPython": "del In, Out, _ih, _oh, _dh, get_ipython, exit, quit",
    "names of IPython": "_ = In = Out = _oh = get_ipython = display = 5\n6",
    "stops with a signal handler": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: 1/0)\nsignal.alarm(1)",
    "nests cells": "get_ipython().run_cell('print(1)'); get_ipython().run_cell('1/0')",
    "freezes the collector": "import gc; gc.disable(); gc.set_threshold(1)\ngc.callbacks.append(lambda *a: 1/0); gc.collect()",
    "non-blocking output": (
        "import os; os.set_blocking(1, False); os.set_blocking(2, False)\nfor i in range(3000): print('x' * 100)"),
    "an event that fails": (
        "def bad(*a): raise RuntimeError('event')\nget_ipython().events.register('post_execute', bad)\n"
        "get_ipython().events.register('pre_run_cell', bad)"),
    "an input transformer that fails": (
        "def bad(lines): raise RuntimeError('transform')\nget_ipython().input_transformers_cleanup.append(bad)"),
    "a syntax transformer that fails": "get_ipython().ast_transformers.append(5)",
    "a custom handler": "get_ipython().set_custom_exc((ValueError,), lambda *a, **k: 1/0)\nraise ValueError",
    "an alias for a module": "import sys; sys.modules['IPython.display'] = sys.modules['pickle'] = None",
}


# What the user has broken stays broken, or is broken in IPython itself; the kernel answers all the same.
STAYS_BROKEN = {"patches the shell", "patches the formatter", "patches os", "patches the history", "low recursion limit",
                "an input transformer that fails", "uses up memory", "audits", "sets the class of the shell",
                "removes IPython from the path", "patches showtraceback", "patches our modules", "patches our channel",
                "deletes names of IPython", "names of IPython", "uses up all descriptors", "fires timers", "patches asyncio",
                "patches socket and select", "deletes our modules", "patches signal", "patches threading",
                "deletes the working directory", "an alias for a module", "sets hooks"}


@pytest.mark.parametrize("name", SURVIVED)
def test_the_kernel_survives(kernel, name):
    assert kernel.run(SURVIVED[name]).order[-1] == "end"
    for code in ("x = 1", "print('x')", "x", "1/0", "import asyncio; await asyncio.sleep(0)", "display(1)"):
        assert kernel.run(code).order[-1] == "end", code
    kernel.ask("complete", {"code": "x", "cursor_pos": 1})
    if name not in STAYS_BROKEN:
        result = kernel.run("print('alive')\n40 + 2")
        assert "alive\n" in result.out and result.value == "42", result.events


@pytest.mark.parametrize("name", sorted(STAYS_BROKEN - {"patches the shell", "patches the formatter", "sets the class of the shell",
                                                       "an input transformer that fails", "low recursion limit", "patches showtraceback",
                                                       "names of IPython", "deletes names of IPython", "patches the history",
                                                       "patches our modules", "audits"}))
def test_plain_cells_still_work(kernel, name):
    """However much was broken, code that needs none of it runs."""
    kernel.run(SURVIVED[name])
    kernel.run("kept = x = None")
    if name == "fires timers":
        stop_timer(kernel)
    for _ in range(3):
        result = kernel.run("y = 40 + 2")
        assert result.reply["status"] == "ok", result.events
    assert kernel.run("print(y)").out.endswith("42\n")


@pytest.mark.parametrize("code, status", [
    ("import os; os._exit(3)", 3),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9),
    ("import ctypes; ctypes.string_at(0)", -11),
    ("import ctypes; ctypes.CDLL(None).close(103)", None),
    ("import os, socket; s = socket.socket(fileno=103); s.close()", None),
    ("import os; os.execv('/bin/true', ['true'])", 0),
])
def test_what_ends_it_ends_it_cleanly(boot, code, status):
    kernel = boot(zygote=None)
    kernel.run("print('first')")
    with pytest.raises(Died):
        kernel.run("print('before')\n" + code)
        kernel.run("1")
    assert kernel.process.wait(10) == (0 if status is None else status)
    # What was said up to then was complete, and init has it.
    assert kernel.parts == {}
    assert "before\n" in kernel.seen(2).out


# A handler that raises so many times and then stops its timer: on a machine that has no time no cell gets far enough to do that.
HANDLER = """
import signal, time
class T(Exception): pass
def h(*a):
    global left
    left -= 1
    if left <= 0:
        signal.setitimer(signal.ITIMER_REAL, 0)
    raise T
signal.signal(signal.SIGALRM, h)
"""


def stop_timer(kernel):
    """As soon as a cell gets that far."""
    while kernel.run("import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)").error:
        pass
    kernel.run("1")


def test_timers_do_not_break_messages(kernel):
    """A signal handler that raises hits every place in time."""
    kernel.run(HANDLER)
    for i in range(20):
        result = kernel.run("left = 200\nsignal.setitimer(signal.ITIMER_REAL, 0.005, 0.002)\nn = 0\nend = time.time() + 0.1\nwhile time.time() < end:\n"
                            "    try:\n        display('x' * 200000); print('y' * 5000); n += 1\n    except T: pass\n"
                            "    finally: pass")
        assert result.order[-1] == "end"
        for content in result.contents("display_data"):
            text = content["data"]["text/plain"]
            assert len(text) == 200002 or "could not be sent" in text
        stop_timer(kernel)
        assert kernel.run(f"print({i})").out == f"{i}\n"
        del kernel.events[:]


def test_timers_between_cells(kernel):
    kernel.run(HANDLER + "left = 2000\nsignal.setitimer(signal.ITIMER_REAL, 0.001, 0.003)")
    for _ in range(30):
        kernel.run("x = 1")
    stop_timer(kernel)
    assert kernel.run("6 * 7").value == "42"


def test_threads_that_talk_all_the_time(kernel):
    kernel.run("import threading\nrun = True\ndef talk(n):\n    while run:\n        display(n); print(n)\n"
               "ts = [threading.Thread(target=talk, args=(n,)) for n in range(4)]\n[t.start() for t in ts];")
    for i in range(20):
        assert kernel.run(f"{i}").value == str(i)
    kernel.run("run = False\n[t.join() for t in ts];")
    assert kernel.run("5").value == "5"


def test_a_slow_reader_is_waited_for(kernel):
    """Back-pressure, in messages and in text, and nothing is lost."""
    cell = kernel.begin("for i in range(300):\n    display('x' * 20000); print('y' * 2000)")
    import time
    for _ in range(10):
        time.sleep(0.02)
        kernel.pump(0.01)
    result = kernel.finish(cell)
    assert len(result.contents("display_data")) == 300 and len(result.out) == 300 * 2001
