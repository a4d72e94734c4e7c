# SPDX-License-Identifier: Apache-2.0
"""The end of a program, as the interpreter does it, without taking the interpreter apart.

A thawed process shares its memory with an image until it writes. To free every object of every module, as the interpreter does at its
end, is to write to all of it: 10 ms and many megabytes, to no purpose. So here is done what a program can notice: its threads are
joined, what it registered is called, its own modules are emptied, streams are flushed. Then the process ends.

The system takes its memory apart all the same, and that takes a while. So the process takes its status for a name, and stops: init sees
that, and need not wait for the rest. It kills who has stopped, or lets it go on, and exit.
"""
import atexit
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
import weakref
from itertools import islice
from os import getpid
from types import SimpleNamespace

NAME = b"gb-ended %d"
PR_SET_NAME = 15
SIGSTOP = int(signal.SIGSTOP)

# These keep the interpreter's lock: no other thread says anything any more.
_prctl, _raise = (getattr(ctypes.PyDLL(None), name) for name in ("prctl", "raise"))
# The process whose init looks at it, if any.
_watched = 0

_before = set()
# The last of them: our own name, as an object that nobody else has.
_last = __name__.encode().decode()


def remember():
    """Modules that are there now belong to the image and stay as they are."""
    sys.modules[_last] = sys.modules.pop(__name__)
    _before.update(sys.modules)


def be_watched():
    """By an init that knows what it means when this process stops."""
    global _watched
    _watched = getpid()


def _stop(status):
    """Goes on if it is to exit by itself. A child of the program's has its own end."""
    if getpid() == _watched:
        _prctl(PR_SET_NAME, NAME % (status & 255), 0, 0, 0)
        _raise(SIGSTOP)


def fail(error):
    """An exception that nobody caught, as PyErr_PrintEx() tells it. The exit status, or -1: by SIGINT."""
    try:
        return _fail(type(error), error, error.__traceback__)
    except SystemExit as e:
        return status_of(e)


def _fail(kind, error, trace):
    if isinstance(error, SystemExit):
        return status_of(error)
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    try:
        hook = sys.excepthook
    except AttributeError:
        _say("sys.excepthook is missing\n")
        sys.__excepthook__(kind, error, trace)
    else:
        try:
            hook(kind, error, trace)
        except SystemExit:
            raise
        except BaseException as second:
            second.__traceback__ = second.__traceback__.tb_next if second.__traceback__ else None
            _say("Error in sys.excepthook:\n")
            sys.__excepthook__(type(second), second, second.__traceback__)
            _say("\nOriginal exception was:\n")
            sys.__excepthook__(kind, error, trace)
    return -1 if kind is KeyboardInterrupt else 1


def _say(text):
    try:
        sys.stderr.write(text)
    except Exception:
        pass


def status_of(error):
    """What sys.exit() was called with."""
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -1 << 63 <= code < 1 << 63 else 255
    try:
        sys.stdout.flush()
    except Exception:
        pass
    try:
        print(code, file=sys.stderr)
    except Exception:
        pass
    return 1


def flush():
    """False: what was printed could not be written."""
    fine = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception as e:
            if name == "stdout":
                _ignore(e, stream)
                fine = False
    return fine


def _ignore(error, thing):
    """As PyErr_WriteUnraisable(): a hook of the program's own gets it, else it is printed."""
    error.__traceback__ = None
    try:
        if sys.unraisablehook is not sys.__unraisablehook__:
            sys.unraisablehook(SimpleNamespace(exc_type=type(error), exc_value=error, exc_traceback=None, err_msg=None, object=thing))
        else:
            _say(f"Exception ignored in: {thing!r}\n" + "".join(traceback.format_exception_only(error)))
    except Exception:
        pass


def _clear(module):
    """In the order of the interpreter: names with one underscore first."""
    names = module.__dict__
    for late in (False, True):
        for name in list(names):
            private = name[:1] == "_" and name[1:2] != "_"
            if name != "__builtins__" and (late or private):
                names[name] = None


def _own_modules():
    """Names of the program's modules, the oldest first.

    To walk over a name is to write to it, and those of an image are on hundreds of pages. New ones come behind them. So if ours is
    still as far from the beginning as it was, and nothing known is behind it, the rest is all there is, and is not looked at.
    """
    new = len(sys.modules) - len(_before)
    if new >= 0 and type(sys.modules) is dict:
        names = list(islice(reversed(sys.modules), new + 1))
        if names.pop() is _last and _before.isdisjoint(names):
            return ["__main__", *reversed(names)]
    return [name for name in sys.modules if name not in _before or name == "__main__"]


def _empty_modules():
    """Objects that live in the program's own modules die, and may have something to say."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    # At its end the interpreter shows no source lines any more.
    sys.modules["io"] = None
    modules = []
    for name in _own_modules():
        module = sys.modules.pop(name, None)
        try:
            modules.append(weakref.ref(module))
        except TypeError:
            pass
    module = None
    gc.collect()
    for reference in reversed(modules):
        module = reference()
        if module is not None and isinstance(getattr(module, "__dict__", None), dict):
            _clear(module)
    module = None
    gc.collect()


def end(status, libc):
    """Does not return. `status` -1: by SIGINT, as an interrupted interpreter."""
    try:
        threading._shutdown()
    except BaseException as e:
        _ignore(e, threading._shutdown)
    atexit._run_exitfuncs()
    fine = flush()
    _empty_modules()
    # Finalisers may have printed something.
    if not fine or not flush():
        status = 120
    libc.fflush(None)
    if status < 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    try:
        _stop(status)
    finally:
        os._exit(status)


def leave(libc):
    """The end of a process that has nothing more to say. Does not return."""
    libc.fflush(None)
    try:
        _stop(0)
    finally:
        os._exit(0)
