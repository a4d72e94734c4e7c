# SPDX-License-Identifier: Apache-2.0
"""What modules of `mcptools` call. A server that was registered with this box (_servers/) runs inside it: started with its first call, kept for the next
ones, and gone with the process that called; _run.py speaks MCP with it. All others are called through the box's socket (_gateway.py).
"""
import asyncio
import atexit
import contextlib
import functools
import json
import os
import pathlib
import threading

from . import _gateway, _run

_SERVERS = pathlib.Path(__file__).resolve().parent / "_servers"
_sessions = {}
_lock = threading.Lock()


class ToolError(Exception):
    """The tool says that it failed."""


def _params(server):
    for path in sorted(_SERVERS.glob("*.json")):
        known = json.loads(path.read_text("utf-8"))
        if known["name"] == server:
            return known["params"]
    return None


def _substituted(value):
    """${NAME} is a variable of the environment."""
    if isinstance(value, str):
        for name in os.environ:
            value = value.replace("${" + name + "}", os.environ[name])
    elif isinstance(value, dict):
        return {key: _substituted(one) for key, one in value.items()}
    elif isinstance(value, list):
        return [_substituted(one) for one in value]
    return value


def _ask(server, params, tool, arguments):
    """With the connection that is there, or, if that is of no use any more, with a new one."""
    with _lock:
        session = _sessions.get((os.getpid(), server))
        fresh = session is None
        if fresh:
            session = _sessions[os.getpid(), server] = _run.Session(_substituted(params), 30)
        try:
            return session.call_tool(tool, arguments)
        except BaseException as e:
            if isinstance(e, _run.McpError) and not e.lost:
                raise
            del _sessions[os.getpid(), server]
            with contextlib.suppress(Exception):
                session.close()
            if fresh or not isinstance(e, _run.McpError):
                raise
    return _ask(server, params, tool, arguments)


def _value(result, model):
    content = [one for one in result.get("content") or [] if isinstance(one, dict)]
    text = "\n".join(str(one.get("text")) for one in content if one.get("type") == "text")
    if result.get("isError"):
        raise ToolError(text or "the tool failed")
    if model is not None and isinstance(result.get("structuredContent"), dict):
        return model.model_validate(result["structuredContent"])
    return text if all(one.get("type") == "text" for one in content) else content


def call(server, tool, arguments, model=None):
    """Call a tool: its structured result as a model, or its text, or, where there is more than text, its content as it came."""
    params = _params(server)
    return _value(_gateway.call(server, tool, arguments) if params is None else _ask(server, params, tool, arguments), model)


async def call_async(server, tool, arguments, model=None):
    return await asyncio.get_running_loop().run_in_executor(None, functools.partial(call, server, tool, arguments, model))


@atexit.register
def _close():
    for (pid, _), session in list(_sessions.items()):
        if pid == os.getpid():
            with contextlib.suppress(Exception):
                session.close()
