# SPDX-License-Identifier: Apache-2.0
"""input() and getpass(): a question to init, and its answer."""
from .safe import builtins as __builtins__  # isort: skip

import builtins
import getpass as getpass_module
from _thread import RLock

from IPython.core.error import StdinNotImplementedError

from . import answers, fork
from .cells import cells
from .channel import END_OF_INPUT, STDIN
from .display import publish
from .plain import text_of

# Threads are answered in the order in which they asked.
_asking = RLock()

NOT_ALLOWED = "input was asked for, but this client has nobody to answer (allow_stdin is false)"


def install():
    builtins.input = read_line
    getpass_module.getpass = read_password


def read_line(prompt="", /):
    """Read a string from standard input. The trailing newline is stripped."""
    __tracebackhide__ = True
    return _ask(text_of(prompt), False)


def read_password(prompt="Password: ", stream=None):
    """Prompt for a password, with echo turned off."""
    __tracebackhide__ = True
    return _ask(text_of(prompt), True)


def _ask(prompt, password):
    __tracebackhide__ = True
    if fork.forked:
        raise EOFError("EOF when reading a line")
    cell = cells.current()
    if not answers.connected() or cell is None or not cell.stdin or not cell.running:
        raise StdinNotImplementedError(NOT_ALLOWED)
    waiter = answers.Waiter(STDIN, cell.id, once=True)
    try:
        with _asking:
            answers.expect(waiter)
            publish("input_request", {"prompt": prompt, "password": password})
        answer = answers.wait(waiter, lambda: cell.running)
    finally:
        answers.done(waiter)
    if answer is None or (not answer.payload and answer.flags & END_OF_INPUT):
        raise EOFError("EOF when reading a line")
    return (answer.payload or b"").decode("utf-8", "replace")
