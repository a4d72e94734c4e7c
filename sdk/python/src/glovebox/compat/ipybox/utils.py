# SPDX-License-Identifier: Apache-2.0
"""A helper that programs of ipybox use."""
from __future__ import annotations

import asyncio
import functools
from typing import Callable, TypeVar

T = TypeVar("T")

__all__ = ["arun"]


async def arun(func: Callable[..., T], *args: object, **kwargs: object) -> T:
    """What blocks, in a thread beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(func, *args, **kwargs))
