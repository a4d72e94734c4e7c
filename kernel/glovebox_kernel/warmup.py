# SPDX-License-Identifier: Apache-2.0
"""Cells that nobody sees: what the first cell of a session would pay for is paid before. No trace is left."""
from .safe import builtins as __builtins__  # isort: skip

import linecache
import sys

from . import requests
from .execute import Executor

CELLS = ("1 + 1", "import sys\nfor warm in [1]:\n    pass\nprint(end='')", "def warm():\n    raise ValueError('x')\nwarm()",
         "1 +", "%pwd")
LAST = ("last_type", "last_value", "last_traceback", "last_exc")


class _NoCell:
    """There is no channel yet: what it says goes nowhere."""

    id = 0
    pipes = ()
    stdin = running = False

    def flush(self):
        pass


def warm(shell):
    history = shell.history_manager
    lists = [(values, list(values)) for values in (history.input_hist_parsed, history.input_hist_raw, history.dir_hist)]
    dicts = [(values, dict(values)) for values in (shell.user_ns, shell.user_ns_hidden, history.output_hist,
                                                   history.output_hist_reprs, linecache.cache)]
    extra = [values for values in (getattr(history, name, None) for name in ("outputs", "exceptions")) if values is not None]
    hook = shell.displayhook
    unders = {name: getattr(hook, name) for name in ("_", "__", "___")}
    names = {name: getattr(history, name) for name in ("_i", "_ii", "_iii", "_i00")}
    last = {name: getattr(sys, name) for name in LAST if hasattr(sys, name)}
    count, path = shell.execution_count, list(sys.path)
    executor = Executor(shell)
    try:
        for code in CELLS:
            executor.execute(_NoCell(), {"code": code}, None)
        for kind in ("complete", "inspect", "is_complete"):
            executor.call(_NoCell(), requests.HANDLERS[kind], shell, {"content": {"code": "print"}})
    finally:
        shell.execution_count = count
        for values, before in lists:
            values[:] = before
        for values, before in dicts:
            values.clear()
            values.update(before)
        for values in extra:
            values.clear()
        for name, value in unders.items():
            setattr(hook, name, value)
        for name, value in names.items():
            setattr(history, name, value)
        for name in LAST:
            if name in last:
                setattr(sys, name, last[name])
            elif hasattr(sys, name):
                delattr(sys, name)
        shell.last_execution_result = shell.last_error = None
        shell.last_execution_succeeded = True
        shell.payload_manager.clear_payload()
        forget = getattr(shell.compile, "_filename_map", None)
        if forget is not None:
            forget.clear()
        sys.path[:] = path
