# SPDX-License-Identifier: Apache-2.0
"""ipykernel, driven by jupyter_client as its documentation does: what a stateful session costs elsewhere.

A launcher of its own imports jupyter_client; the kernels are its children, by /usr/bin/python3 with the command of
ipykernel's own kernel spec. A cell's result is there when the reply has come and the kernel says that it is idle.
"""
import asyncio
import dataclasses
import importlib.util
import os
import subprocess
import sys
import time

from . import launch
from .server import available_memory

KERNEL_S, CELL_S = 60, 30
PYTHON = "/usr/bin/python3"
SHOWN = "jupyter_client: AsyncKernelManager().start_kernel() of `python3 -m ipykernel_launcher -f FILE`, " \
        "wait_for_ready(), execute_interactive({!r})"

# --- inside a launcher ------------------------------------------------------------------------------------------

_loop, _kernels = None, []


def prepare(folder):
    """Files of kernels go to a directory of ours. The imports are no part of any figure."""
    global _loop
    os.environ.clear()
    os.environ.update(launch.ENVIRONMENT, HOME=folder, JUPYTER_RUNTIME_DIR=folder, IPYTHONDIR=folder)
    sys.executable = PYTHON
    _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)
    from jupyter_client.manager import AsyncKernelManager  # noqa: F401 (heavy: here, not in other launchers)


async def first_result(code, expect):
    """(manager, client, nanoseconds, error) of a new kernel and its first cell."""
    from jupyter_client.manager import AsyncKernelManager
    start = time.perf_counter_ns()
    manager = AsyncKernelManager(kernel_name="python3")
    await manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = manager.client()
    client.start_channels()
    error = None
    try:
        await client.wait_for_ready(timeout=KERNEL_S)
        error = await cell(client, code, expect)
    except (RuntimeError, TimeoutError) as e:
        error = f"{e.__class__.__name__}: {e}"
    return manager, client, time.perf_counter_ns() - start, error


async def cell(client, code, expect):
    said = []

    def hook(message):
        if message["msg_type"] == "stream":
            said.append(message["content"]["text"])

    reply = await client.execute_interactive(code, timeout=CELL_S, output_hook=hook)
    if reply["content"]["status"] != "ok" or "".join(said) != expect.decode():
        return f"cell: {reply['content']['status']}, printed {''.join(said)[:60]!r}"
    return None


async def end(manager, client):
    client.stop_channels()
    await manager.shutdown_kernel(now=True)


async def session(code, expect):
    manager, client, ns, error = await first_result(code, expect)
    await end(manager, client)
    return launch.Run(ns, error)


async def crowd(code, expect, number):
    start = time.perf_counter_ns()
    done = await asyncio.gather(*(first_result(code, expect) for _ in range(number)))
    wall = time.perf_counter_ns() - start
    for manager, client, _, _ in done:
        await end(manager, client)
    errors = [error for _, _, _, error in done if error]
    return {"wall_ns": wall, "ns": [ns for _, _, ns, error in done if not error], "count": number - len(errors),
            "failed": len(errors), "error": errors[0] if errors else ""}


async def cells(code, expect, milliseconds):
    if not _kernels:
        _kernels.append(await first_result(code, expect))
    client = _kernels[0][1]
    times, errors = [], []
    until = time.monotonic() + milliseconds / 1000
    while time.monotonic() < until:
        start = time.perf_counter_ns()
        error = await cell(client, code, expect)
        if error:
            errors.append(error)
        else:
            times.append(time.perf_counter_ns() - start)
    return times, len(errors), errors[0] if errors else ""


async def occupy(code, expect, number):
    before = available_memory()
    done = [await first_result(code, expect) for _ in range(number)]
    after = available_memory()
    for manager, client, _, _ in done:
        await end(manager, client)
    errors = [error for _, _, _, error in done if error]
    if errors:
        raise OSError(errors[0])
    return before - after, {}


async def end_all():
    while _kernels:
        await end(*_kernels.pop()[:2])


def call(function, *args):
    return _loop.run_until_complete(function(*args))


# --- outside ------------------------------------------------------------------------------------------------------


class Prepare:
    """prepare() with its argument, as something that can be called without."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self):
        prepare(self.folder)


class OpenedKernels:
    def __init__(self, ctx, work):
        self.work, self.shown = work, SHOWN.format(work.text)
        self.burst_size, self.most_bursts = 10, 5
        self.size = self.quick_size = 10
        self.launcher = launch.Launcher(Prepare(ctx.folder("jupyter")))

    def ask(self, function, *args):
        return self.launcher.call(call, function, self.work.text, self.work.expect, *args)

    def once(self):
        return self.ask(session)

    def burst(self, number):
        return self.ask(crowd, number)

    def cells(self, milliseconds):
        return self.ask(cells, milliseconds)

    def occupy(self, number):
        return self.ask(occupy, number)

    def close(self):
        self.launcher.call(call, end_all)
        self.launcher.close()


@dataclasses.dataclass(frozen=True)
class JupyterPeer:
    name: str = "ipykernel"
    program: str = PYTHON
    holds: str = "nothing"
    version: tuple = ("-c", "import ipykernel, jupyter_client as c; print('ipykernel', ipykernel.__version__, "
                            "'jupyter_client', c.__version__)")

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        lacks = [name for name in ("ipykernel", "jupyter_client") if not importlib.util.find_spec(name)]
        return f"not installed: {', '.join(lacks)}" if lacks else None

    def open(self, ctx, work):
        return OpenedKernels(ctx, work)
