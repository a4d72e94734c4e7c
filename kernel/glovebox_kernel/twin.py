# SPDX-License-Identifier: Apache-2.0
"""A copy of this kernel, which goes on in another box.

Between two cells a kernel that was thawed forks. The child has one thread and the same memory; it looks at what is the system's (carry.py), freezes into the image that
init has sent with the request, and ends. The kernel answers with what a copy will be without, and goes on. A process that thaws the image comes out of
the same call as the child did: it waits to be told what is the caller's, as every thawed kernel does, and then has what the child had.
"""
from .safe import builtins as __builtins__  # isort: skip

import ctypes
import errno
import json
import os
import select
import signal
import traceback
import warnings

from . import answers, carry, descriptors, fork, fresh, order
from .cells import cells
from .channel import READY, WAITING
from .interrupt import interrupts
from .plain import decode, encode

# src/warm's shared object, by which this process was frozen; None: it was started cold.
lib = None
CHANNEL = 3
WORDS_MAX = 1 << 16
CHECK_MS = 100
DONE = b"\n"


class NotCopied(Exception):
    """This process cannot be copied as it is."""


class NoRoom(NotCopied):
    """The image is too small."""

    def __init__(self, text, needs):
        super().__init__(text)
        self.needs = needs


def prepare(library):
    global lib
    lib = library
    lib.gb_freeze_again.restype = ctypes.c_long
    lib.gb_freeze_again.argtypes = [ctypes.c_int]


def freeze(kernel, image):
    """The content of the reply; None in the copy, which has nobody to reply to."""
    if lib is None:
        raise NotCopied("this kernel was started cold")
    lost = carry.threads() + carry.children()
    timers, maps = carry.timers(), carry.maps()
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        # That there are threads is known, and said.
        warnings.simplefilter("ignore")
        fork.becoming = True
        try:
            pid = os.fork()
        except OSError:
            os.close(ours)
            os.close(theirs)
            raise
        finally:
            fork.becoming = False
    if pid:
        os.close(theirs)
        return _hear(pid, ours, lost)
    _freeze_child(kernel, image, (ours, theirs), timers, maps)
    return None


# --- the kernel, meanwhile -----------------------------------------------------------------------------------


def _hear(pid, fd, lost):
    """What the child says is one line of JSON, and the end of that line its last act."""
    said = b""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    try:
        while not said.endswith(DONE) and len(said) <= WORDS_MAX:
            if poller.poll(CHECK_MS):
                piece = os.read(fd, WORDS_MAX)
                if not piece:
                    break
                said += piece
            elif _is_gone(pid):
                break
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(fd)
        _reap(pid)
    if not said.endswith(DONE):
        raise NotCopied("the copy ended while it was made: it may have been out of memory")
    answer = json.loads(said)
    if answer.get("errno") == errno.EFBIG:
        raise NoRoom(answer["why"], answer["bytes"])
    if "why" in answer:
        raise NotCopied(answer["why"])
    return {"status": "ok", "lost": lost + answer["lost"], "bytes": answer["bytes"]}


def _is_gone(pid):
    """Somebody else may have reaped it."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _reap(pid):
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass


# --- the child -----------------------------------------------------------------------------------------------


def _freeze_child(kernel, image, pipe, timers, maps):
    """Returns in a copy only."""
    status = 1
    try:
        if carry.missing(maps):
            raise NotCopied("there is memory that a fork does not inherit (MADV_DONTFORK)")
        carried = carry.Carried({image, *pipe})
        thawed = lib.gb_freeze_again(image)
        if thawed > 0:
            # Nothing that is said now is the child's.
            pipe = None
            _become(kernel, carried, timers)
            return
        answer = {"bytes": ctypes.c_uint64.in_dll(lib, "gb_bytes").value}
        if thawed == 0:
            answer["lost"] = carried.named()
        else:
            answer["why"], answer["errno"] = lib.gb_why().decode(), -thawed
        status = 0
    except NotCopied as e:
        answer = {"why": str(e)}
    except BaseException as e:
        if pipe is None:
            # Half a copy is none.
            os.write(2, f"the copy could not go on: {''.join(traceback.format_exception(type(e), e, e.__traceback__))}"[-4000:].encode("utf-8", "replace"))
            os._exit(1)
        answer = {"why": f"{type(e).__name__}: {e}"[:1000]}
    try:
        os.write(pipe[1], json.dumps(answer).encode() + DONE)
    finally:
        os._exit(status)


# --- the copy ------------------------------------------------------------------------------------------------


def _become(kernel, carried, timers):
    channel = kernel.channel
    os.dup2(CHANNEL, channel.fd, False)
    if channel.fd != CHANNEL:
        descriptors.release(CHANNEL)
    fork.becoming = True
    # As after a fork: locks and ids of the other process must not be taken for ours.
    ctypes.pythonapi.PyOS_AfterFork_Child()
    fork.becoming = False
    channel.begin_again()
    descriptors.restore()
    carried.place()
    cells.begin_again()
    answers.begin_again()
    kernel.begin_again()
    interrupts.wanted = None
    fresh.renew_again()
    channel.send(WAITING, 0, b"")
    config = answers.await_config(channel)
    _settle(kernel, config)
    carried.reopen(timers)
    fresh.begin()
    order.connect(channel, bool(config.get("sync", False)))
    descriptors.disconnect()
    channel.send(READY, 0, encode({**decode(kernel.ready), "lost": carried.named()}, 1 << 20))


def _settle(kernel, config):
    """Variables that are as they were given before are as they are given now."""
    given, env = kernel.env, config.get("env")
    kernel.history = bool(config.get("history", True))
    if type(env) is not dict:
        return
    for name in {**given, **env}:
        try:
            if os.environ.get(name) == given.get(name) and given.get(name) != env.get(name):
                if name in env:
                    os.environ[name] = env[name]
                else:
                    del os.environ[name]
        except (ValueError, TypeError, KeyError):
            pass
    kernel.env = env
