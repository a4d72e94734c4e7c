# SPDX-License-Identifier: Apache-2.0
"""What users write, as mypy --strict is to understand it; nothing of it is run. reveal_type() would show what these lines assert."""
from __future__ import annotations

import datetime
from typing import Dict, List, Optional, Tuple

import glovebox
from glovebox import events
from glovebox.compat.rayai import execute_code, upload_file
from glovebox.compat.sandbox_runtime import AsyncSandboxPool, LambdaSandboxExecutor, SandboxConfig, SharedEnvSandbox
from glovebox.types import BoxLimits, NetworkRule

limits: BoxLimits = {"memory_bytes": 1 << 30, "cpus": 0.5}
rule: NetworkRule = {"host": "api.example.org", "ports": [443], "methods": ["GET"]}


def blocking() -> None:
    with glovebox.Client("http://127.0.0.1:8000", timeout=5) as client, glovebox.Box(client=client, limits=limits, network=["pypi.org:443", rule]) as box:
        result: glovebox.CellResult = box.run("1", timeout=None)
        text: str = result.text
        images: List[bytes] = result.images
        started: Optional[datetime.datetime] = result.started_at
        for event in box.stream("1"):
            if event.kind == "stdout":
                text += event.text
            elif event.kind == "end":
                started = event.info.started_at
            elif isinstance(event, events.Display):
                images.append(event.output.png or b"")
        code: Optional[int] = box.sh("true").exit_code
        names: List[str] = [entry.path for entry in box.files.list(recursive=True)]
        box.files.upload_dir(".", wanted=lambda path: path.suffix == ".py", progress=lambda done, total: print(done, total))
        skipped: Tuple[str, ...] = tuple(one.path for one in box.files.download_dir("", "x").skipped)
        with box.approvals.answering(lambda call: call.tool == "read"):
            pass
        for change in box.files.watch():
            names.append(change.path)
        with box.terminal() as terminal:
            data: bytes = terminal.read(1.0)
        try:
            box.run("1/0")
        except glovebox.OutOfMemory as error:
            limit: Optional[int] = error.limit_bytes
            print(limit, error.result.id)
        except glovebox.ExecutionError as raised:
            print(raised.name, raised.traceback)
        memory: int = box.info().limits["memory_bytes"]
        print(text, images, started, code, names, skipped, data, memory)


async def awaited() -> None:
    async with glovebox.AsyncBox(network={"policy": "open", "max_bytes": 5}) as box:
        result: glovebox.CellResult = await box.run("1")
        async for event in box.stream("1"):
            if event.kind == "input":
                await box.get_cell(result.id).input(event.prompt)

        async def decide(call: object) -> bool:
            return call is not None

        async with box.approvals.answering(decide) as answering:
            print(answering.approved)
        async for piece in box.files.open("f"):
            print(len(piece))
        await box.run("input()", stdin=lambda request: None if request.password else request.prompt)


async def by_other_names() -> None:
    sandbox = SharedEnvSandbox("x", servers=["http://127.0.0.1:9101"])
    told: Dict[str, object] = await sandbox.execute("ls", "-l")
    handled = await LambdaSandboxExecutor(AsyncSandboxPool(1, SandboxConfig(memory_limit=1 << 20))).invoke("", {"a": 1})
    shares: float = handled.metrics.cpu_time_ms
    result = execute_code("1", session_id="s", volumes={"/data": {"bind": "/mnt/data", "mode": "ro"}})
    said = result["stdout"] if "stdout" in result else result["error"]
    print(told, shares, said, upload_file("/tmp/x", b"", "s")["status"])


def wrong() -> None:
    box = glovebox.Box()
    box.run(5)  # type: ignore[arg-type]
    box.run("1", wait=5)  # type: ignore[call-arg]
    glovebox.Box(limits={"memory": 5})  # type: ignore[arg-type]
    print(glovebox.AsyncBox().run("1").text)  # type: ignore[attr-defined]
