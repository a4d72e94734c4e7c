# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.sandbox_runtime: handlers in the sandboxes of a pool. What the original does wrong is not there."""
import asyncio
import contextlib
import inspect
import os

import pytest
from pysdk import private_place, python  # noqa: F401

import glovebox
from glovebox.compat.sandbox_runtime import (AsyncSandboxPool, ExecutionMetrics, ExitCode, LambdaContext, LambdaSandboxExecutor, NoAvailableSandboxError, SandboxConfig,
                                             StandardExecutionResult, create_context, invoke)
from server import needs_root, until

pytestmark = needs_root

ECHO = "def handler(event):\n    return event\n"


@contextlib.asynccontextmanager
async def executor(pool_size=1, **config):
    pool = AsyncSandboxPool(pool_size, SandboxConfig(**config))
    await pool.start()
    try:
        yield LambdaSandboxExecutor(pool)
    finally:
        await pool.shutdown()


async def counts(pool):
    stats = await pool.get_stats()
    assert set(stats) == {"pool_size", "idle_count", "busy_count", "is_running"}
    return stats["idle_count"], stats["busy_count"], stats["is_running"]


# --- a program of theirs, with one import changed --------------------------------------------------------------------


PROGRAM = """
    import asyncio
    from glovebox.compat.sandbox_runtime.sandbox.core.executor import LambdaSandboxExecutor
    from glovebox.compat.sandbox_runtime.sandbox.sandbox.async_pool import AsyncSandboxPool
    from glovebox.compat.sandbox_runtime.sandbox.sandbox.config import SandboxConfig

    CODE = "def handler(event, context):\\n    print('for', context.function_name)\\n    return {'sum': event['a'] + event['b']}"

    async def main():
        pool = AsyncSandboxPool(pool_size=2, config=SandboxConfig(memory_limit=256 * 1024, cpu_quota=1, allow_network=False))
        await pool.start()
        try:
            result = await LambdaSandboxExecutor(pool).invoke(CODE, {"a": 1, "b": 41}, {"function_name": "adder"})
            print(result.is_success(), result.to_dict()["result"], result.stdout, end="")
            print(await pool.get_stats())
        finally:
            await pool.shutdown()

    asyncio.run(main())
"""


def test_a_program(private_place):  # noqa: F811
    done = python(PROGRAM)
    assert done.stdout == "True {'sum': 42} for adder\n{'pool_size': 2, 'idle_count': 2, 'busy_count': 0, 'is_running': True}\n", done.stdout + done.stderr
    assert not os.listdir(private_place)


# --- what becomes of a handler ---------------------------------------------------------------------------------------


ENDS = [
    (ECHO, {"a": [1, "ü"]}, 0, ""), ("def handler(e):\n    1 / 0\n", {}, 2, "ZeroDivisionError"), ("x", {}, 1, "NameError"), ("def other(): pass", {}, 1, "handler"), ("", {}, 7, "empty"),
    ("def handler(e): return object()", {}, 3, "not JSON"), ("import os\ndef handler(e): os._exit(3)", {}, 6, "without a result"), ("import os\ndef handler(e): os.kill(os.getpid(), 11)", {}, 137, "signal 11"),
    ("import time\ndef handler(e): time.sleep(60)", {"__timeout": 0.2}, 5, 'not returned after 0.2 s and was ended, and with it all it had made; event["__timeout"] or SandboxConfig(timeout_seconds=…)'),
    ("def handler(e): bytearray(1 << 30)", {}, 137, "MB at its largest, and the sandbox may use 131072 KiB; SandboxConfig(memory_limit=…)"),
    (ECHO, [], 3, "should be a dict"), (ECHO, {"a": {1}}, 3, "cannot be sent as JSON"), (ECHO, {"a": float("nan")}, 3, "cannot be sent as JSON"), ("#" * 102401, {}, 1, "102400 are allowed"), (None, {}, 1, "should be a text"),
]


def test_how_handlers_end():
    async def main():
        async with executor() as engine:
            for code, event, exit_code, said in ENDS:
                result = await engine.invoke(code, event)
                assert isinstance(result, StandardExecutionResult) and result.exit_code == exit_code and said in result.stderr, (str(code)[:60], result)
                assert result.result == (event if exit_code == 0 else None) and result.is_success() == (exit_code == 0)
                assert await counts(engine.pool) == (1, 0, True), "it is given back however it ends"
                assert ExitCode.get_description(exit_code) != "unknown"
            result = await engine.invoke("def handler(event, context):\n    sum(range(10 ** 6)); print(1)\n    return {n: getattr(context, n) for n in ('function_name', 'more', 'remaining_time_in_millis', 'memory_limit_in_mb')}", {}, {"function_name": "f", "more": 1})
            context = result.result
            assert context["function_name"] == "f" and context["more"] == 1 and (context["remaining_time_in_millis"], context["memory_limit_in_mb"]) == (300000, 128), "and what is said of it is true"
            assert set(result.to_dict()) == {"exit_code", "stdout", "stderr", "result", "metrics"} and set(result.to_dict()["metrics"]) == {"duration_ms", "memory_peak_mb", "cpu_time_ms"}
            assert result.metrics.cpu_time_ms > 0 and 1 < result.metrics.memory_peak_mb < 128 and result.stdout == "1\n"

    asyncio.run(main())


def test_handlers_share_nothing():
    """Neither variables nor files, nor what one has left running."""
    async def main():
        async with executor() as engine:
            first = "import builtins, os, subprocess\ndef handler(e):\n    builtins.x = 1; open('/tmp/f', 'w').close(); open('f', 'w').close(); subprocess.Popen(['sleep', '60'])\n    return os.getpid()"
            second = "import builtins, os\ndef handler(e):\n    return [hasattr(builtins, 'x'), os.listdir('/tmp'), os.listdir('.'), [p for p in os.listdir('/proc') if p.isdigit() and 'sleep' in open(f'/proc/{p}/comm').read()]]"
            assert (await engine.invoke(first, {})).exit_code == 0
            assert (await engine.invoke(second, {})).result == [False, [], [], []]
            late = await engine.invoke("import time\ndef handler(e):\n    open('/tmp/f', 'w').close(); time.sleep(60)", {"__timeout": 0.2})
            assert late.exit_code == 5 and (await engine.invoke(second, {})).result == [False, [], [], []], "what was too late does not go on"

    asyncio.run(main())


# --- what it may use -------------------------------------------------------------------------------------------------


LOOK = """
import os, threading, time
def size(path):
    s = os.statvfs(path)
    return s.f_blocks * s.f_frsize
def handler(event):
    n = 0
    try:
        for n in range(100):
            threading.Thread(target=time.sleep, args=(0.3,), daemon=True).start()
    except RuntimeError:
        pass
    return {"sizes": [size("/tmp"), size("/workspace")], "threads": n, "cwd": os.getcwd()}
"""


def test_each_field_is_in_force():
    async def main():
        async with executor(memory_limit=512 << 10, cpu_quota=0.5, max_user_progress=20, timeout_seconds=4, tmpfs_size="30M", working_dir="/workspace", max_task_count=1, max_idle_time=0) as engine:
            seen = (await engine.invoke(LOOK, {})).result
            assert seen["sizes"] == [30 << 20, 30 << 20] and 10 < seen["threads"] <= 20 and seen["cwd"] == "/workspace"
            assert (await engine.invoke("def handler(e):\n    return len(bytearray(200 << 20))", {})).result == 200 << 20, "more than the 128 MiB of who says nothing"
            result = await engine.invoke("import time\ndef handler(e): time.sleep(30)", {})
            assert result.exit_code == 5 and "after 4 s" in result.stderr
            # Half a processor takes twice as long for it: more than the time that it has.
            busy = await engine.invoke("import time\ndef handler(e):\n    until = time.process_time() + 3\n    while time.process_time() < until: pass", {})
            assert busy.exit_code == 5
            assert (await engine.invoke("import socket\ndef handler(e):\n    try:\n        socket.create_connection(('1.1.1.1', 80), 1)\n    except OSError as x:\n        return x.errno", {})).result == 101

    asyncio.run(main())


@pytest.mark.parametrize("field,value,said", [
    ("memory_limit", 512, "16384 to 4294967296 KiB, 524288 is 512 MiB"), ("memory_limit", "512m", "whole number"), ("cpu_quota", 0, "processors"), ("max_user_progress", 0, "4 to 32768"), ("timeout_seconds", 0, "1 to 86400"),
    ("timeout_seconds", True, "whole number"), ("tmpfs_size", "50%", "such as '100M'"), ("tmpfs_size", "1K", "64K"), ("max_task_count", 0, "1 to"), ("max_idle_time", -1, "0 to"), ("working_dir", "/app", "os.chdir"),
    ("readonly_paths", ["/data"], "comes with the event"), ("writable_paths", ["/data"], "glovebox.Box(mounts=…)")])
def test_what_cannot_be_in_force_is_refused(field, value, said):
    with pytest.raises(ValueError, match=f"SandboxConfig: {field} is .*") as caught:
        SandboxConfig(**{field: value})
    assert said in str(caught.value)
    config = SandboxConfig()
    setattr(config, field, value)
    with pytest.raises(ValueError, match=field):
        asyncio.run(AsyncSandboxPool(1, config).start())


def test_names_and_defaults():
    said = {name: one.default for name, one in inspect.signature(SandboxConfig).parameters.items()}
    assert said == {"cpu_quota": None, "memory_limit": None, "allow_network": False, "max_task_count": 10, "max_user_progress": 1000, "timeout_seconds": 300, "working_dir": None, "readonly_paths": None,
                    "writable_paths": None, "tmpfs_size": "100M", "max_idle_time": 60}
    assert {**said, "readonly_paths": [], "writable_paths": []} == SandboxConfig().to_dict()
    context = create_context(function_name="x")
    assert context.to_dict().keys() == {"function_name", "function_version", "request_id", "log_group_name", "log_stream_name", "remaining_time_in_millis", "memory_limit_in_mb", "invoked_function_arn"}
    assert LambdaContext.from_dict({**context.to_dict(), "other": 1}) == context and context.request_id != LambdaContext().request_id and context.get_remaining_time_in_millis() == 3000
    assert {one.name: int(one) for one in ExitCode} == {"SUCCESS": 0, "CODE_LOAD_ERROR": 1, "HANDLER_EXECUTION_ERROR": 2, "JSON_SERIALIZATION_ERROR": 3, "NO_AVAILABLE_SANDBOX": 4, "EXECUTION_TIMEOUT": 5, "SYSTEM_ERROR": 6, "EMPTY_CODE": 7}
    assert StandardExecutionResult(0, "", "", None).metrics == ExecutionMetrics(0.0, 0.0, 0.0)
    for size in (0, -1, 2000, True, "5"):
        with pytest.raises(ValueError, match="pool_size"):
            AsyncSandboxPool(size)


# --- the pool --------------------------------------------------------------------------------------------------------


def test_the_pool_counts_and_waits(private_place):  # noqa: F811
    async def main():
        pool = AsyncSandboxPool(2)
        assert await counts(pool) == (0, 0, False)
        with pytest.raises(NoAvailableSandboxError, match=r"await pool.start\(\)"):
            await pool.acquire()
        await asyncio.gather(pool.start(), pool.start())
        assert await counts(pool) == (2, 0, True)
        one, two = await pool.acquire(), await pool.acquire()
        assert await counts(pool) == (0, 2, True) and one.is_alive() and not one.should_retire()
        with pytest.raises(NoAvailableSandboxError, match="2 sandboxes was free in 0.1 s") as caught:
            await pool.acquire(timeout=0.1)
        assert caught.value.exit_code == 4
        # Who asked first is first; who is cancelled takes nothing with him, not even when he had been given one.
        order = [asyncio.ensure_future(pool.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        order[0].cancel()
        await asyncio.sleep(0)
        await pool.release(one)
        order[1].cancel()
        await asyncio.sleep(0.01)
        assert order[2].done() and order[1].cancelled() and await counts(pool) == (0, 2, True)
        await pool.release(one)
        assert await counts(pool) == (0, 2, True), "a second time is nothing"
        assert not one.is_alive()
        with pytest.raises(NoAvailableSandboxError, match="was released"):
            await one.execute({"handler_code": ECHO, "event": {}})
        assert (await two.execute({"handler_code": ECHO, "event": {"a": 1}}))["result"] == {"a": 1} and two.should_retire() and two.task_count == 1
        await two.terminate()
        assert await counts(pool) == (1, 1, True)
        # Its end is the end of all.
        three = await pool.acquire()
        waiting = asyncio.ensure_future(pool.acquire())
        running = asyncio.ensure_future(three.execute({"handler_code": "import time\ndef handler(e): time.sleep(60)", "event": {}}))
        await asyncio.sleep(0.2)
        await pool.shutdown()
        with pytest.raises(NoAvailableSandboxError, match="was shut down"):
            await waiting
        with pytest.raises((glovebox.GloveboxError, NoAvailableSandboxError)):
            await running
        assert await counts(pool) == (0, 0, False)
        with pytest.raises(NoAvailableSandboxError, match=r"shut down: start\(\) it again"):
            await pool.acquire()
        await pool.shutdown()

    asyncio.run(main())
    assert not os.listdir(private_place)


@pytest.mark.more
def test_more_calls_than_sandboxes():
    async def main():
        async with executor(2) as engine:
            nap = "import time\ndef handler(e):\n    time.sleep(0.2)\n    return e['n']"
            done = asyncio.gather(*(engine.invoke(nap, {"n": n}) for n in range(6)))
            await asyncio.sleep(0.1)
            assert await counts(engine.pool) == (0, 2, True)
            assert [one.result for one in await done] == list(range(6))
            # What a cancelled caller had is free again.
            tasks = [asyncio.ensure_future(engine.invoke("import time\ndef handler(e): time.sleep(60)", {})) for _ in range(4)]
            await asyncio.sleep(0.2)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert await counts(engine.pool) == (2, 0, True)
            assert (await engine.invoke(ECHO, {"a": 1})).result == {"a": 1}
            # And its sandbox is ended: nothing of it is left on the server.
            client = engine.pool._client
            until(lambda: metric(client._server, "code_interpreter_executions_active") == 0, "nothing runs")

    asyncio.run(main())


def metric(server, name):
    import http.client
    import socket

    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(server.url[5:])
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), None)


# --- how programs end ------------------------------------------------------------------------------------------------


def test_an_executor_by_itself(private_place):  # noqa: F811
    """It starts its pool when it is needed, in whichever loop; shutdown() leaves nothing."""
    engine = LambdaSandboxExecutor(AsyncSandboxPool(1))
    assert not os.listdir(private_place)
    for n in range(2):
        assert asyncio.run(engine.invoke(ECHO, {"n": n})).result == {"n": n}

    async def forgotten():
        await engine.pool.acquire()

    asyncio.run(forgotten())
    assert asyncio.run(engine.invoke(ECHO, {})).exit_code == 0, "what a loop that is gone had is free"
    engine.shutdown()
    assert not os.listdir(private_place)
    assert asyncio.run(engine.invoke(ECHO, {})).exit_code == 4
    assert asyncio.run(invoke(ECHO, {"a": 1})).result == {"a": 1} and not os.listdir(private_place)
    assert LambdaSandboxExecutor().pool.pool_size == 5


def test_no_program(monkeypatch):
    monkeypatch.setenv("GLOVEBOX_PROGRAM", "/no/such/program")
    result = asyncio.run(LambdaSandboxExecutor(AsyncSandboxPool(1)).invoke(ECHO, {}))
    assert result.exit_code == 6 and "GLOVEBOX_PROGRAM is '/no/such/program'" in result.stderr
    with pytest.raises(glovebox.NoServer):
        asyncio.run(AsyncSandboxPool(1).start())


@pytest.mark.parametrize("end", ["fork", pytest.param("int", marks=pytest.mark.more), pytest.param("closed loop", marks=pytest.mark.more)])
def test_nothing_is_left_of_a_pool(private_place, end):  # noqa: F811
    ends = {
        "fork": "r = asyncio.run(engine.invoke(ECHO, {}))\nif os.fork() == 0:\n    r = asyncio.run(engine.invoke(ECHO, {}))\n    assert r.exit_code == 6 and 'forked' in r.stderr, r\n    os._exit(3)\n"
                "print(os.waitstatus_to_exitcode(os.wait()[1]), asyncio.run(engine.invoke(ECHO, {})).exit_code)",
        "int": "async def main():\n    asyncio.get_running_loop().call_later(0.7, os.kill, os.getpid(), 2)\n    await engine.invoke(SLEEP, {})\ntry:\n    asyncio.run(main())\nexcept KeyboardInterrupt:\n    print(3, 0)",
        "closed loop": "loop = asyncio.new_event_loop()\nloop.create_task(engine.invoke(SLEEP, {}))\nloop.run_until_complete(asyncio.sleep(0.7))\nloop.close()\nprint(3, 0)",
    }
    done = python("import asyncio, os\nfrom glovebox.compat.sandbox_runtime import *\nECHO = 'def handler(e): return e'\nSLEEP = 'import time\\ndef handler(e): time.sleep(60)'\n"
                  f"engine = LambdaSandboxExecutor(AsyncSandboxPool(1))\n{ends[end]}\n")
    assert done.stdout.split() == ["3", "0"], done.stdout + done.stderr
