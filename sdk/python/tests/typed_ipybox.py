# SPDX-License-Identifier: Apache-2.0
"""What users of ipybox write, as mypy --strict is to understand it; nothing of it is run."""
from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Optional

from ipybox import ExecutionClient, ExecutionContainer, ExecutionError, ResourceClient, arun
from ipybox.executor import ConnectionError, ExecutionResult
from ipybox.mcp.run import run_sync


async def main() -> None:
    async with ExecutionContainer(tag="mine", binds={"data": "data"}, env={"A": "b"}, executor_port=None) as container:
        port: int = container.executor_port
        async with ExecutionClient(port=port, host="localhost", heartbeat_interval=5) as client, ResourceClient(port=container.resource_port) as files:
            execution = await client.submit("1")
            chunks: List[str] = [chunk async for chunk in execution.stream(timeout=3)]
            result: ExecutionResult = await execution.result()
            text: Optional[str] = result.text
            try:
                await client.execute("1", timeout=1.5)
            except ExecutionError as e:
                text = e.trace
            except ConnectionError as e:
                text = e.url
            sources: Dict[str, str] = await files.get_module_sources(["json"])
            names: List[str] = await files.generate_mcp_sources("a", "b", {"command": "c", "args": []})
            await files.download_directory("a", Path("b"))
        await container.init_firewall(["pypi.org"])
    count: int = await arun(len, chunks)
    answer: Optional[str] = run_sync("x", {"a": 1}, {"url": "http://localhost/mcp"})
    assert text and sources and names and count and answer
