# SPDX-License-Identifier: Apache-2.0
"""ipybox, with boxes where it has containers of Docker: a program that was written for it changes its import.

    from glovebox.compat.ipybox import ExecutionClient, ExecutionContainer

    async with ExecutionContainer() as container:
        async with ExecutionClient(port=container.executor_port) as client:
            print((await client.execute("6 * 7")).text)

Names, signatures and exceptions are those of ipybox 0.6. The server is the one that GLOVEBOX_URL names, else a private one: see docs/ipybox.md.
"""
from __future__ import annotations

from .container import DEFAULT_TAG, ExecutionContainer
from .executor import Execution, ExecutionClient, ExecutionError, ExecutionResult
from .resource.client import ResourceClient
from .utils import arun

__all__ = ["DEFAULT_TAG", "Execution", "ExecutionClient", "ExecutionContainer", "ExecutionError", "ExecutionResult", "ResourceClient", "arun"]
