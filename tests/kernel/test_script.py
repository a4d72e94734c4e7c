# SPDX-License-Identifier: Apache-2.0
"""glovebox_kernel.script beside the interpreter itself: the same bytes, the same status."""
import os
import re
import signal
import subprocess

import pytest

from fake_init import PYTHON, SOURCE

BOOT = ("import sys; sys.path.insert(0, {source!r}); from glovebox_kernel import script; del sys.path[0]; "
        "script.prepare(['json']); script.run(sys.argv[1], sys.argv[2:])")

PROGRAMS = {
    "nothing": "",
    "hello": "print('hello')",
    "streams": "import sys\nprint('out'); print('err', file=sys.stderr); sys.stdout.write('no end')",
    "utf-8": "print('ü😀')\n# ünï",
    "latin-1": b"# -*- coding: latin-1 -*-\nprint('\xfc')\n",
    "not utf-8": b"x = 1\nprint('\xff')\n",
    "byte order mark": b"\xef\xbb\xbfprint('bom')\n",
    "bad encoding": b"# coding: nonsense\nprint(1)\n",
    "null byte": b"print(1)\n\0\n",
    "carriage returns": b"print(1)\r\nprint('''a\r\nb''')\r\n",
    "arguments": "import sys\nprint(sys.argv, sys.path[0])",
    "names": "print(__name__, __file__, __doc__, __package__, __spec__, type(__loader__).__name__, sorted(globals()), list(globals()))",
    "docstring": "'''The doc.'''\nprint(__doc__)",
    "main module": "import sys\nprint(sys.modules['__main__'].__dict__ is globals(), sys.modules['__main__'])",
    "annotations": "x: int = 5\nprint(__annotations__)",
    "error": "def f(x):\n    return 1 / x\n\nf(0)\n",
    "error in a comprehension": "print([1 / x for x in (1, 0)])",
    "chained": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('bad') from e",
    "during handling": "try:\n    1/0\nexcept ZeroDivisionError:\n    int('x')",
    "syntax error": "x = 1\nif x\n    print(x)\n",
    "indentation": "def f():\nreturn 1\n",
    "unterminated": "print('abc",
    "syntax error in eval": "eval('1 +')",
    "return outside": "return 5",
    "recursion": "def f():\n    f()\nf()",
    "recursion limit": (
        "import sys\nprint(sys.getrecursionlimit())\nsys.setrecursionlimit(80)\nprint(sys.getrecursionlimit())\n"
        "def f(n):\n    return f(n + 1)\nf(0)"),
    "depth": (
        "import sys\nn = 0\ndef f():\n    global n\n    n += 1\n    f()\ntry:\n    f()\nexcept RecursionError:\n"
        "    print(n)"),
    "exit": "import sys; sys.exit()",
    "exit 3": "import sys; print('x'); sys.exit(3)",
    "exit with text": "import sys; sys.exit('a message')",
    "exit with an object": "import sys; sys.exit([1, 2])",
    "exit 256": "import sys; sys.exit(256)",
    "exit -1": "import sys; sys.exit(-1)",
    "exit True": "raise SystemExit(True)",
    "exit()": "exit(4)",
    "quit()": "quit()",
    "os._exit": "import os\nprint('lost')\nos._exit(5)",
    "abort": "import os\nos.abort()",
    "killed": "import os, signal\nprint('x', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "KeyboardInterrupt with text": "def f():\n    raise KeyboardInterrupt('now')\nf()",
    "subclass of KeyboardInterrupt": "class K(KeyboardInterrupt): pass\nraise K",
    "SIGINT": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('not reached')",
    "interrupt and atexit": "import atexit\natexit.register(print, 'bye')\nraise KeyboardInterrupt",
    "atexit": "import atexit\natexit.register(print, 'second')\natexit.register(print, 'first')\nprint('main')",
    "atexit that fails": "import atexit\natexit.register(lambda: 1/0)\nprint('main')",
    "atexit after an error": "import atexit\natexit.register(print, 'bye')\n1/0",
    "threads": (
        "import threading, time\ndef w():\n    time.sleep(0.05)\n    print('thread')\n"
        "threading.Thread(target=w).start()\nprint('main')"),
    "thread that fails": (
        "import threading\ndef w():\n    1/0\nt = threading.Thread(target=w, name='T')\nt.start(); t.join()\n"
        "print('main')"),
    "daemon": "import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()\nprint('main')",
    "finaliser": "class A:\n    def __del__(self): print('gone')\na = A()\nprint('main')",
    "finaliser that fails": "class A:\n    def __del__(self): 1/0\nA()\nprint('main')",
    "unraisable at the end": "class A:\n    def __del__(self): raise ValueError('x')\na = A()",
    "excepthook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1/0",
    "excepthook that fails": "import sys\ndef h(*a): raise ValueError('in hook')\nsys.excepthook = h\n1/0",
    "no stdout": "import sys\nsys.stdout = None\nprint('x')",
    "closed stdout": "import sys\nsys.stdout.close()\nprint('x')",
    "descriptor closed": "import os\nprint('x')\nos.close(1)",
    "full at the end": "import sys\nsys.stdout = open('/dev/full', 'w')\nprint('x')",
    "stdout on /dev/full": "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\nprint('x')",
    "full": "import sys\nsys.stdout = open('/dev/full', 'w')\nprint('x')\nsys.stdout.flush()",
    "stdin": "import sys\nprint(sys.stdin.read(), input() if False else '')",
    "input": "print(input('? ') + input())\nprint(input())",
    "streams' looks": (
        "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(s, s.encoding, s.errors, s.line_buffering, s.mode, s.buffer.raw.name, s.newlines)"),
    "warning": "import warnings\nwarnings.warn('careful')\nprint('x')",
    "syntax warning": "x = 5\nif x is 5: print('y')",
    "import beside": "import beside\nprint(beside.x)",
    "import of a broken module": "import broken",
    "missing module": "import no_such_module_at_all",
    "multiprocessing": (
        "import multiprocessing as mp\ndef f(x): return x * 2\nif __name__ == '__main__':\n"
        "    with mp.get_context('spawn').Pool(1) as p: print(p.map(f, [1, 2]))"),
    "fork": "import os\npid = os.fork()\nif pid == 0:\n    print('child')\nelse:\n    os.waitpid(pid, 0)\n    print('parent')",
    "subprocess": "import subprocess, sys\nprint('a', flush=True)\nsubprocess.run([sys.executable, '-c', 'print(1)'])",
    "asyncio": "import asyncio\nasync def main():\n    await asyncio.sleep(0)\n    print('in')\nasyncio.run(main())",
    "groups": "raise ExceptionGroup('g', [ValueError(1), KeyError('k')])",
    "notes": "e = ValueError('x')\nif hasattr(e, 'add_note'): e.add_note('a note')\nraise e",
    "future": "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)",
    "assertion": "assert 1 == 2, 'no'",
    "large output": "for i in range(20000): print(i)",
    "pickle of main": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)",
    "inspect source": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
    "runpy leaves no trace": "import sys\nprint('runpy' in sys.modules, sys._getframe().f_code.co_filename)",
}
# The only thing that differs, from start to start.
ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")
STDIN = b"first\nsecond\nthird\n"


def both(tmp_path, program, args=(), name="prog.py", **options):
    """(stdout, stderr, status) of the interpreter, and of ours."""
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    (folder / "beside.py").write_text("x = 'beside'\n")
    (folder / "broken.py").write_text("def f():\n    1/0\nf()\n")
    (folder / name).write_bytes(program if isinstance(program, bytes) else program.encode())
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    results = []
    for command in ([PYTHON, name, *args], [PYTHON, "-I", "-B", "-c", BOOT.format(source=str(SOURCE)), name, *args]):
        done = subprocess.run(command, cwd=folder, env=env, input=STDIN, capture_output=True, timeout=60, check=False, **options)
        results.append((ADDRESS.sub(b"0x", done.stdout), ADDRESS.sub(b"0x", done.stderr), done.returncode))
    return results


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_the_interpreter(tmp_path, name):
    theirs, ours = both(tmp_path, PROGRAMS[name], ["a", "-b", "ü"])
    assert ours == theirs


@pytest.mark.parametrize("name", ["./prog.py", "sub/../prog.py"])
def test_other_ways_to_name_it(tmp_path, name):
    (tmp_path / "work" / "sub").mkdir(parents=True)
    theirs, ours = both(tmp_path, "import sys\nprint(__file__, sys.argv, sys.path[0])\n1/0", name=name)
    assert ours == theirs


def test_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "real" / "prog.py").write_text("")
    os.symlink(tmp_path / "real" / "prog.py", tmp_path / "work" / "prog.py")
    theirs, ours = both(tmp_path, "import sys\nprint(__file__, sys.path[0])")
    assert ours == theirs


def test_no_such_file(tmp_path):
    results = []
    for command in ([PYTHON, "nope.py"], [PYTHON, "-I", "-B", "-c", BOOT.format(source=str(SOURCE)), "nope.py"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        results.append((done.stdout, done.stderr, done.returncode))
    assert results[0] == results[1]


def test_a_reader_that_is_gone(tmp_path):
    (tmp_path / "prog.py").write_text("print('x' * 100)\n")
    results = []
    for command in ([PYTHON, "prog.py"], [PYTHON, "-I", "-B", "-c", BOOT.format(source=str(SOURCE)), "prog.py"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(command, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, check=False)
        os.close(write)
        results.append((done.stderr, done.returncode))
    assert results[0] == results[1]


def test_interrupted_from_outside(tmp_path):
    (tmp_path / "prog.py").write_text("import threading, time\nthreading.Timer(0.3, print, ['go'], {'flush': True}).start()\ntime.sleep(100)\n")
    results = []
    for command in ([PYTHON, "prog.py"], [PYTHON, "-I", "-B", "-c", BOOT.format(source=str(SOURCE)), "prog.py"]):
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            results.append((process.communicate(timeout=60), process.returncode))
    assert results[0] == results[1] and results[0][1] == -signal.SIGINT


def test_a_program_from_a_string(tmp_path):
    code = BOOT.replace("script.run(sys.argv[1], sys.argv[2:])", "script.run('<string>', ['x'], source='import sys\\nprint(__file__, sys.argv)\\n1/0')")
    done = subprocess.run([PYTHON, "-I", "-B", "-c", code.format(source=str(SOURCE))], cwd=tmp_path, capture_output=True, check=False)
    assert done.stdout == b"<string> ['<string>', 'x']\n"
    assert done.stderr == b'Traceback (most recent call last):\n  File "<string>", line 3, in <module>\nZeroDivisionError: division by zero\n'
    assert done.returncode == 1


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_terminal(tmp_path, env):
    (tmp_path / "prog.py").write_text("import sys\nprint(sys.stdout.isatty(), sys.stdout.line_buffering, sys.stdin.line_buffering)\n")
    results = []
    for command in ([PYTHON, "prog.py"], [PYTHON, "-I", "-B", "-c", BOOT.format(source=str(SOURCE)), "prog.py"]):
        master, slave = os.openpty()
        subprocess.run(command, cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave, env=env, check=True)
        results.append(os.read(master, 1000))
        os.close(master)
        os.close(slave)
    assert results[0] == results[1]


@pytest.mark.parametrize("before", ["", "1"])
@pytest.mark.parametrize("after", ["", "1"])
def test_outputs_that_were_opened_ahead(tmp_path, before, after):
    """They are those of the environment that the program has, whatever it was when they were opened."""
    (tmp_path / "prog.py").write_text("import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):\n"
                                      "    print(s, type(s.buffer), s.line_buffering, s.write_through, s.encoding, s.errors)\n"
                                      "print('no end', end='')\nsys.stderr.write('x')\nimport os\nos._exit(3)")
    ahead = BOOT.replace("script.run(", f"import os; os.environ['PYTHONUNBUFFERED'] = {before!r}; script.open_outputs(); "
                                        f"os.environ['PYTHONUNBUFFERED'] = {after!r}; script.run(")
    results = []
    for command in ([PYTHON, "prog.py"], [PYTHON, "-I", "-B", "-c", ahead.format(source=str(SOURCE)), "prog.py"]):
        done = subprocess.run(command, cwd=tmp_path, env={"LANG": "C.UTF-8", "PYTHONUNBUFFERED": after}, capture_output=True,
                              stdin=subprocess.DEVNULL, check=False)
        results.append((done.stdout, done.stderr, done.returncode))
    assert results[0] == results[1] and results[0][2] == 3


# What a program does to sys.modules, and whether the names of the image have to be walked over to find its own.
MODULES = {
    "nothing": ("", False),
    "one more": ("import beside", False),
    "two more": ("import beside, colorsys", False),
    "one that is gone again": ("import beside\ndel sys.modules['beside']", False),
    "another in its place": ("sys.modules['json'] = sys", False),
    "one less": ("del sys.modules['json']", True),
    "one less, one more": ("del sys.modules['json']\nimport beside", True),
    "the same once more": ("del sys.modules['json']\nimport json", True),
    "ours is gone": ("del sys.modules[ours]", True),
    "ours is the last again": ("del sys.modules['json']\nours_it_is = sys.modules.pop(ours)\nimport beside\n"
                               "sys.modules[ours] = ours_it_is", True),
    "another order": ("them = dict(sys.modules)\nsys.modules.clear()\nsys.modules.update(sorted(them.items()))", True),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_the_program(tmp_path, name):
    change, walked = MODULES[name]
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "prog.py").write_text(f"""
import sys
import glovebox_kernel.ending as ending
class Asked(set):
    asked = 0
    def __contains__(self, name):
        Asked.asked += 1
        return super().__contains__(name)
ours = "glovebox_kernel.ending"
before = ending._before
ending._before = Asked(before)
{change}
found, asked = ending._own_modules(), Asked.asked
ending._before = before
print(found == [n for n in sys.modules if n not in before or n == "__main__"], asked > 0)
""")
    done = subprocess.run([PYTHON, "-I", "-B", "-c", BOOT.format(source=str(SOURCE)), "prog.py"], cwd=tmp_path, capture_output=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (b"True %r\n" % walked, b"", 0)
