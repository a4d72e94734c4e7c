# SPDX-License-Identifier: Apache-2.0
"""One cell, from its code to its reply."""
from .safe import builtins as __builtins__  # isort: skip

import sys
from contextvars import Context

from .cells import enter
from .display import publish
from .interrupt import interrupts
from .safe import repair
from .shell import LeaveCell, describe

_settrace, _setprofile = sys.settrace, sys.setprofile


class Executor:
    """`context` is that of all cells: what one sets in it, the next one finds."""

    def __init__(self, shell):
        self.shell = shell
        self.context = Context()

    def call(self, cell, function, *args):
        """In the name of a cell."""
        self.context.run(enter, cell)
        return self.context.run(function, *args)

    def execute(self, cell, content, loop, echo=False):
        shell = self.shell
        code = content.get("code")
        code = code if type(code) is str else ""
        silent = bool(content.get("silent", False))
        store = bool(content.get("store_history", not silent)) and not silent
        cell.stdin = bool(content.get("allow_stdin", False))
        shell.last_error = None
        _payload(shell)
        count = shell.execution_count
        error = None
        try:
            interrupts.look(cell.id)
            if echo and not silent:
                self.call(cell, publish, "execute_input", {"code": code, "execution_count": count})
            result = self._run(cell, code, silent, store, loop)
            error = result.error_before_exec or result.error_in_exec
        except BaseException as e:
            # Not in the code of the cell, or between two of its statements.
            error = e
            if not isinstance(e, (KeyboardInterrupt, LeaveCell)):
                repair()
            self.call(cell, self._show, e)
        finally:
            _untrace()
        if store and shell.execution_count == count and code.strip():
            # Interrupted before IPython came to count it.
            shell.execution_count = count + 1
        return self._reply(cell, content, error)

    def _run(self, cell, code, silent, store, loop):
        """As InteractiveShell.run_cell(), but that all of it runs in our context, awaiting or not."""
        shell = self.shell
        result = None
        try:
            coro, is_async = self.call(cell, self._prepare, code, silent, store)
            if is_async:
                result = interrupts.run(loop, coro, self.context)
            else:
                result = self.context.run(_step, coro)
        finally:
            self.context.run(shell.events.trigger, "post_execute")
            if not silent:
                self.context.run(shell.events.trigger, "post_run_cell", result)
        return result

    def _prepare(self, code, silent, store):
        shell = self.shell
        failed = None
        try:
            cell = shell.transform_cell(code)
        except Exception:
            cell, failed = code, sys.exc_info()
        # To ask is to compile.
        is_async = ("await" in cell or "async" in cell) and shell.should_run_async(code, transformed_cell=cell, preprocessing_exc_tuple=failed)
        coro = shell.run_cell_async(code, store_history=store, silent=silent, transformed_cell=cell,
                                    preprocessing_exc_tuple=failed)
        return coro, is_async

    def _show(self, error):
        if isinstance(error, LeaveCell):
            return
        try:
            if isinstance(error, KeyboardInterrupt):
                self.shell._showtraceback(KeyboardInterrupt, error, None)
            else:
                self.shell.showtraceback((type(error), error, error.__traceback__))
        except Exception:
            self.shell._showtraceback(type(error), error, None)

    def _reply(self, cell, content, error):
        shell = self.shell
        reply = {"status": "ok", "execution_count": shell.execution_count - 1, "user_expressions": {}, "payload": []}
        if error is None and shell.last_error is not None and shell.last_error["ename"] == "KeyboardInterrupt":
            # %run shows it and goes on. An interrupt is for the cell.
            error = KeyboardInterrupt()
        if error is None or isinstance(error, LeaveCell):
            wanted = content.get("user_expressions")
            if type(wanted) is dict and wanted:
                reply["user_expressions"] = self.call(cell, shell.user_expressions, wanted)
        else:
            said = shell.last_error or describe(type(error), error, [])
            reply.update(status="error", ename=said["ename"], evalue=said["evalue"], traceback=said["traceback"])
            if said["ename"] != type(error).__name__:
                # The last that was shown was another one, as when its repr failed as well.
                reply.update(describe(type(error), error, said["traceback"]))
        reply["payload"] = _payload(shell)
        return reply


def _payload(shell):
    """What there is; then there is none."""
    found = list(shell.payload_manager.read_payload())
    if found:
        shell.payload_manager.clear_payload()
    return found


def _step(coro):
    """A coroutine that never waits."""
    try:
        coro.send(None)
    except StopIteration as end:
        return end.value
    coro.close()
    raise RuntimeError("the cell awaits, but was not expected to")


def _untrace():
    """A trace function of the cell ends with it: what it raises would be raised in our code."""
    for off in (_settrace, _setprofile, _settrace):
        try:
            off(None)
        except BaseException:
            pass
