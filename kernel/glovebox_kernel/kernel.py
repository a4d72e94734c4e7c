# SPDX-License-Identifier: Apache-2.0
"""Requests in, replies out: one RUN after the other, and the loop turning in between.

Every RUN gets its END, whatever user code did to the process. So each step may be left by any exception, and what is
still to do is kept in attributes, not on the stack.
"""
from .safe import builtins as __builtins__  # isort: skip

import atexit
import sys
from collections import deque
from os import _exit, getcwd

from . import answers, descriptors, display, fork, loop, output, safe, twin
from .cells import cells
from .channel import END, INTERRUPT, RUN, Channel, Gone, Outgoing
from .execute import Executor
from .interrupt import interrupts
from .messages import failure, reply
from .plain import decode, text_of
from .quiet import hush, let
from .requests import BRIEF, HANDLERS
from .shell import describe

# Loops that break in a row before we do without until the next cell, and what is said between two cells at most.
LOOPS_MAX = 3
COMPLAINTS_MAX = 20
LEVELS = 6


class Kernel:
    def __init__(self, fd, shell):
        self.shell = shell
        self.executor = Executor(shell)
        self.channel = interrupts.channel = Channel(descriptors.own(fd))
        self.waiting = deque()
        # The RUN that has no END yet: its cell, the type of its reply, and its END.
        self.cell = self.kind = self.end = None
        self.history = True
        self.loop = None
        self.idle = False
        self.watched = False
        self.broken_loops = self.complaints = 0
        # What CONFIG had, and what READY had.
        self.env, self.ready = {}, b""
        # To freeze into; it comes with a request. -1: none.
        self.image = -1
        fork.own(self.channel)

    # --- the outermost loop -----------------------------------------------------------------------------------

    def run(self):
        """Until the channel ends."""
        display.connect(self.channel)
        answers.connect(self.channel, self._wake)
        loop.Selector.check = staticmethod(self._before_wait)
        self._go_on(LEVELS)
        self._leave()

    def _go_on(self, level):
        """Exceptions of somebody's signal handler may also come while another one is dealt with: then a level further out."""
        while not self.channel.gone:
            try:
                if level:
                    self._go_on(level - 1)
                else:
                    self._turn()
            except Gone:
                # The channel knows.
                pass
            except BaseException as e:
                # Of a signal handler, or of a task that called sys.exit(): nothing that concerns us.
                self._complain(e)

    def _turn(self):
        hush()
        fork.check()
        if self.cell is not None:
            self._finish()
        elif self._next() is not None:
            self._take(self.waiting[0])
        else:
            self._idle()

    def _next(self):
        early = answers.early
        while early:
            self.waiting.append(early[0])
            early.popleft()
        return self.waiting[0] if self.waiting else None

    @staticmethod
    def _leave():
        try:
            atexit._run_exitfuncs()
        except BaseException:
            pass
        _exit(0)

    def _complain(self, error):
        self.complaints += 1
        try:
            if self.complaints <= COMPLAINTS_MAX and not isinstance(error, (KeyboardInterrupt, SystemExit)):
                output.stderr.write(f"Exception ignored between cells: {type(error).__name__}: {text_of(error)}\n")
        except BaseException:
            pass

    # --- between cells ----------------------------------------------------------------------------------------

    def _idle(self):
        """Tasks go on; a message ends it."""
        if self.broken_loops >= LOOPS_MAX:
            self.channel.wait()
            self._read()
            return
        try:
            if not self.watched:
                self._loop().add_reader(self.channel.fd, self._readable)
                self.watched = True
            if self._rest():
                return
            self.idle = True
            try:
                let()
                self.loop.run_forever()
            finally:
                self.idle = False
                hush()
            self.broken_loops = 0
        except (OSError, RuntimeError, AttributeError, TypeError, ValueError, KeyError) as e:
            # Its descriptors were closed, or its inside was changed: another one, without the tasks of this.
            self.broken_loops += 1
            loop.discard(self.loop)
            self.loop = None
            self.watched = False
            self._complain(e)

    def _rest(self):
        """A loop that has nothing to do is not turned: to start and stop it takes longer than many a cell. Whether there is a request."""
        if not loop.rests(self.loop):
            return False
        fork.check()
        if not self._has_work():
            try:
                let()
                loop.wait(self.loop)
            finally:
                hush()
        self._read_quietly()
        return self._has_work()

    def _readable(self):
        if not self.idle:
            # User code turns the loop. What comes now waits in the socket.
            self.loop.remove_reader(self.channel.fd)
            self.watched = False
            return
        hush()
        try:
            if not self._read():
                return
        except Gone:
            # The channel knows.
            pass
        finally:
            let()
        self.loop.stop()

    def _before_wait(self):
        """The loop is about to wait. Whether there is something to do instead, because the last word about it was lost."""
        fork.check()
        if self.idle and self._has_work():
            self.loop.stop()
            self._read_quietly()
            return True
        return False

    def _has_work(self):
        return bool(self.waiting or answers.early or self.channel.gone or self.channel.has_read())

    def _read_quietly(self):
        try:
            self._read()
        except Gone:
            pass

    def _wake(self):
        """A thread has received a request, while it waited for input."""
        current = self.loop
        if current is not None:
            try:
                current.call_soon_threadsafe(current.stop)
            except RuntimeError:
                pass

    def _read(self):
        """Whether there is something to do."""
        descriptors.open_reserve()
        try:
            while True:
                message = self.channel.receive()
                if message is None:
                    return bool(self.waiting)
                if message.type == RUN:
                    self.waiting.append(message)
                elif message.type == INTERRUPT:
                    interrupts.wanted = message.cell
                else:
                    answers.deliver(message)
        finally:
            descriptors.close_reserve()

    # --- a request --------------------------------------------------------------------------------------------

    def _take(self, message):
        """From here on it will be answered."""
        fds = [descriptors.own(fd) for fd in message.fds]
        message.fds = []
        for fd in fds[3:]:
            descriptors.release(fd)
        cell = cells.begin(message.cell, fds[:2] if len(fds) >= 2 else ())
        self.end, self.kind = None, "execute_reply"
        self.complaints = 0
        self.broken_loops = min(self.broken_loops, LOOPS_MAX - 1)
        self.cell = cell
        self.waiting.popleft()
        self.image = fds[2] if len(fds) > 2 else -1
        try:
            self._perform(message, cell)
        finally:
            if self.image >= 0:
                descriptors.release(self.image)
                self.image = -1

    def _perform(self, message, cell):
        if safe.broken():
            safe.repair()
        request = self._parse(message)
        if request is None:
            return
        kind = request["type"]
        self.kind = f"{kind}_reply"
        self._before(cell)
        try:
            interrupts.arm()
            let()
            content = self._answer(kind, request, cell)
            hush()
            interrupts.disarm()
            if content is None:
                # We are a copy: nobody here has asked.
                return
        except BaseException as e:
            hush()
            interrupts.disarm()
            fork.check()
            self.end = self._failed(e)
            return
        fork.check()
        self.end = Outgoing(END, cell.id, reply(self.kind, content))
        if kind in BRIEF:
            self._finish()
            cells.forget(cell)

    def _parse(self, message):
        try:
            if message.payload is None:
                raise ValueError("the request is too large")
            request = decode(message.payload)
            if type(request) is not dict or type(request.get("content", {})) is not dict:
                raise ValueError("a request has a type and a content")
            request.setdefault("content", {})
            if request.get("type") not in ("execute", "freeze") and request.get("type") not in HANDLERS:
                raise ValueError(f"no such request: {text_of(request.get('type'))[:100]!r}")
        except Exception as e:
            self.end = Outgoing(END, message.cell, failure(self.kind, type(e).__name__, text_of(e)))
            return None
        return request

    def _before(self, cell):
        if cell.pipes:
            descriptors.connect(cell.pipes[0].fd, cell.pipes[1].fd)
        output.restore()
        loop.make_current()
        # A module that the last cell wrote is found by this one, even within one tick of the clock.
        try:
            sys.path_importer_cache[getcwd()].invalidate_caches()
        except Exception:
            pass

    def _answer(self, kind, request, cell):
        if kind == "execute":
            content = self.executor.execute(cell, request["content"], self._loop(), bool(request.get("echo")))
            if fork.forked:
                fork.end(_exit_status(self.shell, content))
            return content
        if kind == "freeze":
            return self._freeze()
        if kind == "history" and not self.history:
            return {"status": "ok", "history": []}
        return self.executor.call(cell, HANDLERS[kind], self.shell, request)

    def _freeze(self):
        if self.image < 0:
            raise ValueError("there is no image to freeze into")
        try:
            return twin.freeze(self, self.image)
        except twin.NotCopied as e:
            content = {"status": "error", "ename": type(e).__name__, "evalue": str(e), "traceback": []}
            if type(e) is twin.NoRoom:
                content["needs"] = e.needs
            return content

    def begin_again(self):
        """In a copy of the process."""
        self.waiting.clear()
        self.cell = self.kind = self.end = None
        self.image = -1

    def _loop(self):
        if self.loop is None:
            self.loop = loop.create()
            self.watched = False
        return self.loop

    def _failed(self, error):
        """IPython itself failed, or was interrupted where it does not expect it."""
        content = {"status": "error", "execution_count": 0}
        content.update(describe(type(error), error))
        try:
            content["execution_count"] = self.shell.execution_count - 1
            if self.kind == "execute_reply":
                self.executor.call(self.cell, display.publish, "error", describe(type(error), error))
        except BaseException:
            pass
        if not isinstance(error, KeyboardInterrupt):
            safe.repair()
        return Outgoing(END, self.cell.id, reply(self.kind, content))

    def _finish(self):
        """END, after everything, and once."""
        cell = self.cell
        if self.end is None:
            self.end = Outgoing(END, cell.id, failure(self.kind, "KernelError", "the request was lost in an exception"))
        interrupts.disarm()
        for step in (output.flush_theirs, output.flush_c, cells.flush, cell.flush, descriptors.disconnect):
            try:
                step()
            except Exception as e:
                self._complain(e)
        cell.running = False
        if not self.end.done():
            try:
                self.channel.push(self.end)
            except BaseException:
                if not self.end.done() and not self.channel.gone:
                    raise
        self.cell = self.end = None


def _exit_status(shell, content):
    """Of a forked child that came to the end of the cell."""
    if content.get("status") == "ok":
        return 0
    error = getattr(shell.last_execution_result, "error_in_exec", None)
    if isinstance(error, SystemExit):
        code = error.code
        return 0 if code is None else code & 255 if isinstance(code, int) else 1
    return 1
