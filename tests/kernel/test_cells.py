# SPDX-License-Identifier: Apache-2.0
"""Cells: what IPython makes of them, and what their replies say."""
import pytest

from fake_init import need, plain

pytest_plugins = ["kernels"]


def test_state_stays_and_values_are_results(kernel):
    assert kernel.run("x = 41").value is None
    result = kernel.run("x + 1")
    assert result.contents("execute_result") == [{"execution_count": 2, "data": {"text/plain": "42"}, "metadata": {}}]
    assert result.reply == {"status": "ok", "execution_count": 2, "user_expressions": {}, "payload": []}
    assert kernel.run("_, Out[2], _2, In[1]").value == "(42, 42, 42, 'x = 41')"
    assert kernel.run("x;").value is None
    assert kernel.run("None").messages == []


def test_an_empty_cell_is_no_cell(kernel):
    for code in ("", " \n\t", "# only a comment"):
        assert kernel.run(code).order == ["end"]


def test_lines_of_ipython(kernel):
    result = kernel.run("!echo out; echo err >&2; exit 3")
    assert (result.out, result.err) == ("out\n", "err\n")
    assert kernel.run("_exit_code").value == "3"
    assert kernel.run("!kill -9 $$\n_exit_code").value == "-9"
    assert kernel.run("lines = !printf 'a\\nb'\nlines").value == "['a', 'b']"
    assert kernel.run("name = 'Ö'\n!echo {name} $name $$HOME").out == f"Ö Ö {kernel.home}\n"
    assert kernel.run("!sleep 0.1 &\n_exit_code").value == "0"


def test_magics(kernel):
    assert kernel.run("%%bash\necho hello; echo there >&2").out == "hello\n"
    result = kernel.run("%%bash\nexit 4")
    assert result.error[0] == "CalledProcessError"
    assert kernel.run("%%sh --no-raise-error\nexit 4").reply["status"] == "ok"
    assert kernel.run("%%bash --out got --err bad\necho x; echo y >&2").out == ""
    assert kernel.run("got, bad").value == "('x\\n', 'y\\n')"
    assert kernel.run("%%script no-such-program-here\nx").out.startswith("Couldn't find program")
    assert kernel.run("%env FOO=1").out == "env: FOO=1\n"
    assert kernel.run("import os; os.environ['FOO']").value == "'1'"
    assert kernel.run("!echo $FOO").out == "1\n"
    assert kernel.run("%cd /usr").out == "/usr\n"
    assert kernel.run("%pwd").value == "'/usr'"
    assert kernel.run("!pwd").out == "/usr\n"
    assert kernel.run("%cd -q ~").order == ["end"]
    assert "Wall time" in kernel.run("%%time\nsum(range(10))").out
    assert "per loop" in kernel.run("%timeit -n1 -r1 1+1").out
    assert kernel.run("%%capture got\nprint('x'); display(5)\n!echo y").order == ["end"]
    assert kernel.run("got.stdout, len(got.outputs)").value == "('x\\ny\\n', 1)"
    assert kernel.run("%%writefile mod.py\ndef f(): return 7").out == "Writing mod.py\n"
    assert kernel.run("from mod import f; f()").value == "7"
    assert kernel.run("%%writefile prog.py\nimport sys; print(sys.argv, __name__); y = 5").reply["status"] == "ok"
    assert kernel.run("%run prog.py a b\ny").out == "['prog.py', 'a', 'b'] __main__\n"
    assert kernel.run("%store y").out == "Stored 'y' (int)\n"
    assert kernel.run("del y\n%store -r y\ny").value == "5"
    assert kernel.run("%load mod.py").reply["payload"][0]["source"] == "set_next_input"
    assert "6" in kernel.run("%%python3\nprint(2 * 3)").out


def test_background_scripts(kernel):
    assert kernel.run("%%bash --bg --out stream\necho late").reply["status"] == "ok"
    assert kernel.run("await stream.read()").value == "b'late\\n'"


def test_reset(kernel):
    kernel.run("x = 1")
    kernel.run("%reset -f")
    result = kernel.run("x")
    assert result.error == ("NameError", "name 'x' is not defined")
    assert kernel.run("print(1); 2").value == "2"


def test_usage_errors(kernel):
    result = kernel.run("%no_such_magic")
    assert "UsageError" in result.err and result.error[0] == "UsageError"


def test_errors(kernel):
    result = kernel.run("print('before')\ndef f():\n    raise ValueError('bad ü')\nf()\nprint('after')")
    assert result.order == ["stdout", "error", "end"] and result.out == "before\n"
    error = result.contents("error")[0]
    assert (error["ename"], error["evalue"]) == ("ValueError", "bad ü")
    text = plain(error["traceback"])
    assert "Traceback (most recent call last)" in text and "raise ValueError('bad ü')" in text
    assert "glovebox_kernel" not in text and "interactiveshell" not in text
    assert {key: result.reply[key] for key in error} == error and result.reply["status"] == "error"
    assert kernel.run("1 +").error[0] == "SyntaxError"
    assert kernel.run("  x = 1\n y").error[0] == "IndentationError"
    assert kernel.run("return 5").error[0] == "SyntaxError"
    assert kernel.run("%tb").reply["status"] == "ok"
    assert kernel.run("raise KeyboardInterrupt").error[0] == "KeyboardInterrupt"
    assert kernel.run("x = 3\nx").value == "3"


def test_chained_errors_and_groups(kernel):
    result = kernel.run("try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e")
    text = plain(result.reply["traceback"])
    assert "ZeroDivisionError" in text and "direct cause" in text
    result = kernel.run("raise ExceptionGroup('many', [ValueError('one'), TypeError('two')])")
    if result.error[0] == "NameError":
        pytest.skip("no exception groups before Python 3.11")
    assert result.order == ["error", "end"]
    text = plain(result.reply["traceback"])
    assert "one" in text and "two" in text and "glovebox_kernel" not in text and "run_code" not in text


def test_sys_exit_is_an_error_and_exit_is_a_wish(kernel):
    result = kernel.run("import sys; sys.exit(3)")
    assert result.error == ("SystemExit", "3")
    for code in ("exit", "quit", "print('a'); exit(); print('b')", "print('a'); quit(3); print('b')"):
        result = kernel.run(code)
        assert result.out in ("", "a\n") and result.reply["status"] == "ok", code
        assert result.reply["payload"] == [{"source": "ask_exit", "keepkernel": True}]
    assert kernel.run("1").reply["payload"] == []


def test_help_is_a_payload(kernel):
    for code in ("len?", "?len", "len??", "%timeit?"):
        result = kernel.run(code)
        assert result.order == ["end"]
        (payload,) = result.reply["payload"]
        assert payload["source"] == "page" and payload["data"]["text/plain"]
    assert kernel.run("help(len)").out.startswith("Help on built-in function len")


def test_silent_and_without_history(kernel):
    result = kernel.run("print('x'); 5", silent=True)
    assert result.order == ["stdout", "end"] and result.reply["execution_count"] == 0
    result = kernel.run("6", store_history=False)
    assert result.value == "6"
    assert kernel.run("In").value == "['', 'In']"
    assert kernel.run("1/0", silent=True).reply["status"] == "error"


def test_user_expressions(kernel):
    result = kernel.run("a = 1", user_expressions={"two": "a + 1", "bad": "nope"})
    expressions = result.reply["user_expressions"]
    assert expressions["two"] == {"status": "ok", "data": {"text/plain": "2"}, "metadata": {}}
    assert expressions["bad"]["status"] == "error" and expressions["bad"]["ename"] == "NameError"
    assert kernel.run("1/0", user_expressions={"two": "2"}).reply["user_expressions"] == {}


# --- asyncio -------------------------------------------------------------------------------------------------


def test_top_level_await(kernel):
    result = kernel.run("import asyncio\nprint('a')\nawait asyncio.sleep(0.01)\nprint('b')\nawait asyncio.sleep(0, 7)")
    assert (result.out, result.value) == ("a\nb\n", "7")
    assert kernel.run("async for x in (i async for i in agen()): pass").error[0] in ("NameError", "SyntaxError")
    assert kernel.run("async with asyncio.Lock() as l: print('in')").out == "in\n"
    assert kernel.run("await asyncio.wait_for(asyncio.sleep(9), 0.01)").error[0] == "TimeoutError"


def test_one_loop_for_all_cells(kernel):
    kernel.run("import asyncio\na = id(asyncio.get_running_loop())\nawait asyncio.sleep(0)")
    assert kernel.run("await asyncio.sleep(0)\nid(asyncio.get_running_loop()) == a == id(asyncio.get_event_loop())").value == "True"
    assert kernel.run("id(asyncio.get_event_loop()) == a").value == "True"


def test_tasks_go_on_between_cells(kernel):
    result = kernel.run("import asyncio\nasync def tick():\n    for i in range(3):\n        await asyncio.sleep(0.01)\n"
                        "        print('tick', i)\n    open('done', 'w').close()\nt = asyncio.create_task(tick())")
    assert result.reply["status"] == "ok"
    kernel.wait_for(result.cell, "tick 2")
    assert kernel.run("t.done(), await t").value == "(True, None)"
    assert (kernel.home / "done").exists()
    result = kernel.run("t = asyncio.ensure_future(tick()); t2 = asyncio.get_event_loop().create_task(tick())")
    kernel.until(lambda: kernel.seen(result.cell).out.count("tick 2") == 2)


def test_asyncio_run_works_in_a_cell(kernel):
    code = "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    return 5\nasyncio.run(main())"
    assert kernel.run(code).value == "5"
    assert kernel.run("loop = asyncio.get_event_loop()\nr = loop.run_until_complete(main())\nloop.close()\nr").value == "5"
    assert kernel.run("loop = asyncio.new_event_loop()\nr = loop.run_until_complete(main())\nloop.close()\nr").value == "5"
    assert kernel.run("asyncio.set_event_loop(None)").reply["status"] == "ok"
    assert kernel.run("await main()").value == "5"
    assert kernel.run("asyncio.get_event_loop().run_until_complete(main())").value == "5"


def test_stopping_the_loop_does_not_stop_the_cell(kernel):
    assert kernel.run("import asyncio\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(0.01)\n5").value == "5"
    kernel.run("async def bad():\n    raise SystemExit(3)\nt = asyncio.create_task(bad())")
    kernel.run("async def worse():\n    raise KeyboardInterrupt\nt = asyncio.create_task(worse())")
    kernel.run("asyncio.get_event_loop().call_soon(lambda: 1/0)")
    assert kernel.run("await asyncio.sleep(0)\n6").value == "6"


def test_context_variables_stay(kernel):
    kernel.run("import contextvars, asyncio\nv = contextvars.ContextVar('v', default=0)\nv.set(1)")
    assert kernel.run("v.get()").value == "1"
    if tuple(map(int, kernel.ready["python"].split("."))) < (3, 11):
        pytest.skip("before Python 3.11 a task has a copy of the context")
    kernel.run("await asyncio.sleep(0)\nv.set(2)")
    assert kernel.run("v.get()").value == "2"
    assert kernel.run("await asyncio.sleep(0)\nv.get()").value == "2"


def test_asyncio_subprocesses(kernel):
    code = ("import asyncio\np = await asyncio.create_subprocess_shell('echo sub; exit 2', stdout=-1)\n"
            "out, _ = await p.communicate()\nout, p.returncode")
    assert kernel.run(code).value == "(b'sub\\n', 2)"
    assert kernel.run("p = await asyncio.create_subprocess_shell('echo direct')\nawait p.wait()").out == "direct\n"


def test_errors_in_await_have_clean_tracebacks(kernel):
    result = kernel.run("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0\nawait f()")
    text = plain(result.reply["traceback"])
    assert "await f()" in text and "1/0" in text and "glovebox_kernel" not in text


# --- sizes ---------------------------------------------------------------------------------------------------


def test_ten_thousand_lines(kernel):
    code = "\n".join(f"x{i} = {i}" for i in range(10000)) + "\nx9999"
    assert kernel.run(code).value == "9999"


def test_half_a_million_characters(kernel):
    text = "ü" * 250000 + "x" * 250000
    assert kernel.run(f"s = '{text}'\nlen(s), s[0], s[-1]").value == "(500000, 'ü', 'x')"


def test_a_thousand_cells_leave_nothing(kernel):
    def rss():
        with open(f"/proc/{kernel.process.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096

    def some(n):
        for i in range(n):
            assert kernel.run(f"x = {i}\nprint(x)").out == f"{i}\n"
            del kernel.events[:]

    some(100)
    fds, memory = len(kernel.fds()), rss()
    some(900)
    assert len(kernel.fds()) == fds
    # In and the source of every cell stay, by intention: some kilobytes each.
    assert rss() - memory < 16 << 20


def test_modules_written_by_the_last_cell_are_found(kernel):
    for i in range(30):
        kernel.run(f"import os\ntry:\n    import m{i}\nexcept ImportError:\n    pass\nopen('m{i}.py', 'w').write('x = {i}')")
        assert kernel.run(f"import m{i}; m{i}.x").value == str(i)


def test_pandas_and_html(kernel):
    need("pandas")
    result = kernel.run("import pandas as pd; pd.DataFrame({'a': [1, 2]})")
    data = result.contents("execute_result")[0]["data"]
    assert "<table" in data["text/html"] and "a" in data["text/plain"]
