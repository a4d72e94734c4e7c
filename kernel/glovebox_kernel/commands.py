# SPDX-License-Identifier: Apache-2.0
"""!command, x = !command and %%bash, without terminal and without a thread.

A command writes to the pipes of its cell itself: its bytes are not decoded, its stderr is not its stdout, and nothing of
it comes too early or too late. Where user code has put something else in place of sys.stdout, output goes there.
"""
from .safe import builtins as __builtins__  # isort: skip

import os
import signal
import subprocess
import sys

from . import output
from .cells import cells
from .interrupt import interrupts
from .order import settle_current

SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
# What an interrupted command is told, and how long it has to end each time.
ENDINGS = ((signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGKILL, None))

_Popen, _PIPE, _STDOUT, _NULL = subprocess.Popen, subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
_Expired = subprocess.TimeoutExpired


def run(command, text=b""):
    """A shell command, or the words of a program with its standard input. Returns its status, -N for signal N."""
    ours = sys.stdout is output.stdout and sys.stderr is output.stderr
    if not ours:
        status, out, err = _collect(command, text, _PIPE)
        _write(sys.stdout, out)
        _write(sys.stderr, err)
        return status
    pipes = cells.pipe(0), cells.pipe(1)
    output.flush_everything()
    settle_current()
    out, err = (pipe.fd if pipe is not None else _NULL for pipe in pipes)
    process = _start(command, text, out, err)
    _communicate(process, text)
    return _status(process)


def collect(command):
    """All that it says, on whichever stream, as text."""
    return _collect(command, b"", _STDOUT)[1].decode("utf-8", "replace")


def _collect(command, text, err):
    process = _start(command, text, _PIPE, err)
    out, err = _communicate(process, text)
    return _status(process), out, err or b""


def _communicate(process, text):
    try:
        return process.communicate(text or None)
    except KeyboardInterrupt:
        _end(process)
        # Where in the library it waited is of no interest.
        raise KeyboardInterrupt from None
    except BaseException:
        _end(process)
        raise


def _start(command, text, out, err):
    if isinstance(command, str):
        options = {"shell": True, "executable": _shell()}
    else:
        options = {}
    with interrupts.later() as interrupted:
        # A group of its own: an interrupt is for the command and whatever it started.
        process = _Popen(command, stdin=_PIPE if text else _NULL, stdout=out, stderr=err, start_new_session=True, **options)
    if interrupted:
        _end(process)
        raise KeyboardInterrupt
    return process


def _shell():
    shell = os.environ.get("SHELL") or ""
    return shell if os.path.basename(shell) in SHELLS and os.access(shell, os.X_OK) else None


def _status(process):
    code = process.returncode
    # A shell says 128+N of a command that died of signal N.
    return -(code - 128) if code > 128 and isinstance(process.args, str) else code


def _end(process):
    for number, patience in ENDINGS:
        try:
            os.killpg(process.pid, number)
        except OSError:
            pass
        try:
            process.wait(patience)
            break
        except _Expired:
            pass
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                pass


def _write(stream, data):
    if data and stream is not None:
        stream.write(data.decode("utf-8", "replace"))


# --- %%script ------------------------------------------------------------------------------------------------


def script_magic(shell):
    """Replaces what %%bash and the like call; their options that want a pipe or a background stay IPython's."""
    try:
        magics = shell.magics_manager.registry["ScriptMagics"]
    except KeyError:
        return
    theirs = getattr(magics, "shebang", None)
    parser = getattr(theirs, "parser", None)
    if parser is None:
        return

    def shebang(line, cell):
        words = _split(line)
        args, command = parser.parse_known_args(words)
        if args.bg or args.out or args.err or args.proc or not command:
            return theirs(line, cell)
        if not cell.endswith("\n"):
            cell += "\n"
        try:
            status = run(command, cell.encode("utf-8", "replace"))
        except FileNotFoundError:
            print(f"Couldn't find program: {command[0]!r}")
            return None
        if status and args.raise_error:
            raise subprocess.CalledProcessError(status, cell)
        return None

    shebang.parser = parser
    shebang.__doc__ = theirs.__doc__
    magics.shebang = shebang
    shell.magics_manager.register_function(shebang, "cell", "script")


def _split(line):
    from IPython.utils.process import arg_split

    return arg_split(line, posix=True)
