# SPDX-License-Identifier: Apache-2.0
"""The private server: started when the first client of a process needs one, shared by all, stopped with the last.

It listens on a socket in a directory of mode 0700, and lives as long as a pipe that only this process holds: see _minder.sh. So
it ends with this process, however that ends. A process that was forked from this one has no part in it, and may have one of its own.
Who needs directories of this machine in a box has a server for that: what may be mounted is said when one starts.
"""
from __future__ import annotations

import atexit
import os
import pathlib
import pkgutil
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from typing import Dict, List, Optional, Sequence, Set, Tuple

from ._address import UNIX_PATH_MAX
from ._text import plain
from .errors import NoServer

_START_S = 60.0
_STOP_S = 30.0
_WORDS_MAX = 2000
_NAME = "glovebox-python-"

# Unless the environment says otherwise, by GLOVEBOX_ and the name in capitals. It is for a few boxes: what is made ahead of
# them would only take time from the first. And when it ends, nobody is there who waits for an answer.
_OPTIONS = {"drain-timeout": "0s", "audit-file": "none", "warm": "false", "pool-size": "0", "session-pool-size": "0", "log-level": "warn"}
# Of the client, and no business of a server.
_NOT_PASSED_ON = ("GLOVEBOX_URL", "GLOVEBOX_TOKEN", "GLOVEBOX_PROGRAM", "GLOVEBOX_LISTEN", "GLOVEBOX_STATE_DIR", "HOST", "PORT")


#: Options of `glovebox serve`, ("mount-root", "/data"); one may be there several times.
Settings = Sequence[Tuple[str, str]]


class Server:
    """One that was started. `users` is how many clients it has."""

    def __init__(self, settings: Settings = ()) -> None:
        program = find_program()
        self.users = 0
        self._settings = settings
        self.directory = _make_directory()
        self.url = f"unix:{self.directory}/socket"
        self._life = -1
        self._minder: Optional[subprocess.Popen[bytes]] = None
        try:
            self._start(program)
        except BaseException:
            self.stop()
            raise

    def _start(self, program: str) -> None:
        command = ["/bin/sh", *_minder(), self.directory, program, *_arguments(self.directory, self._settings)]
        listens, self._life = os.pipe()
        try:
            self._minder = subprocess.Popen(command, stdin=listens, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/",
                                            env=_environment(), start_new_session=True)
        except OSError as e:
            raise NoServer(f"no process can be started for a private server: {e}") from None
        finally:
            os.close(listens)
        line = _first_line(self._minder)
        if not line.startswith(b"listening on "):
            raise NoServer(f"the private server has not started: {self.last_words() or 'it said nothing'} [{program}]; "
                           f"`{program} doctor` says what this machine lacks")

    def lives(self) -> bool:
        """Whether somebody still listens."""
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(f"{self.directory}/socket")
            except OSError:
                return False
        return True

    def last_words(self) -> str:
        try:
            with open(os.path.join(self.directory, "log"), "rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(log.tell() - _WORDS_MAX, 0))
                lines = log.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return ""
        return plain("; ".join(line.replace("glovebox: ", "", 1) for line in lines[-4:]))

    def let_go(self) -> None:
        """It stops by itself from now on."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def stop(self) -> None:
        """Until nothing of it is left."""
        self.let_go()
        minder, self._minder = self._minder, None
        if minder is None:
            shutil.rmtree(self.directory, ignore_errors=True)
            return
        if minder.stdout is not None:
            minder.stdout.close()
        try:
            minder.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            # It goes on by itself: we only stop waiting. Popen would complain of it otherwise.
            minder.returncode = -1

    def forget(self) -> None:
        """In a process that was forked: it is the parent's."""
        self.let_go()
        if self._minder is not None:
            self._minder.returncode = -1
            if self._minder.stdout is not None:
                self._minder.stdout.close()


def _minder() -> List[str]:
    """How the shell is told what to do: a file, or its text where the package lies in an archive."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_minder.sh")
    if os.path.isfile(path):
        return [path]
    return ["-c", (pkgutil.get_data(__package__, "_minder.sh") or b"").decode(), "minder"]


def _first_line(minder: subprocess.Popen[bytes]) -> bytes:
    assert minder.stdout is not None
    line, until = b"", time.monotonic() + _START_S
    poll = select.poll()
    poll.register(minder.stdout, select.POLLIN)
    while b"\n" not in line and len(line) < 4096:
        if not poll.poll(max(until - time.monotonic(), 0) * 1000):
            break
        piece = os.read(minder.stdout.fileno(), 4096)
        if not piece:
            break
        line += piece
    return line


def find_program() -> str:
    """Where `glovebox` is: GLOVEBOX_PROGRAM, the PATH, or the source tree that this file is in."""
    named = os.environ.get("GLOVEBOX_PROGRAM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NoServer(f"GLOVEBOX_PROGRAM is {named!r}, and there is no such program")
        return os.path.abspath(found)
    found = shutil.which("glovebox")
    if found is None:
        try:
            built = pathlib.Path(__file__).resolve().parents[4] / "build" / "glovebox"
        except IndexError:
            built = pathlib.Path("/nonexistent")
        found = str(built) if os.access(built, os.X_OK) else None
    if found is None:
        raise NoServer("a private server needs the program `glovebox`, which is not in the PATH: build and install it (`make build && sudo make install` in its "
                       "source), name it by GLOVEBOX_PROGRAM, or give the address of a server that runs: url=…, or GLOVEBOX_URL")
    return os.path.abspath(found)


def _make_directory() -> str:
    for above in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if above and os.path.isabs(above) and os.access(above, os.W_OK) and len(os.fsencode(above)) + len(_NAME) + 20 < UNIX_PATH_MAX:
            try:
                return tempfile.mkdtemp(prefix=_NAME, dir=above)
            except OSError:
                continue
    raise NoServer("a private server needs a directory that can be written, and neither XDG_RUNTIME_DIR nor TMPDIR is one")


def _arguments(directory: str, settings: Settings) -> List[str]:
    options = {name: value for name, value in _OPTIONS.items() if f"GLOVEBOX_{name.upper().replace('-', '_')}" not in os.environ}
    options.update({"listen": f"unix:{directory}/socket", "state-dir": f"{directory}/state"})
    for name, _ in settings:
        options.pop(name, None)
    return ["serve", *(f"--{name}={value}" for name, value in [*options.items(), *settings])]


def _environment() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NOT_PASSED_ON}


# --- of this process ---------------------------------------------------------------------------------------------

# Clients are also let go of by the garbage collector, in whichever line it comes to work.
_lock = threading.RLock()
_current: Optional[Server] = None
# Those with settings of their own, which nobody shares.
_apart: Set[Server] = set()


def apart(settings: Settings) -> Server:
    """One for a single user, who wants these settings. release() stops it."""
    with _lock:
        server = Server(settings)
        server.users = 1
        _apart.add(server)
        return server


def acquire() -> Server:
    """The server of this process, with one user more. release() takes it back."""
    global _current
    with _lock:
        server = _current
        if server is not None:
            server.users += 1
            if server.lives():
                return server
            server.users -= 1
            server.let_go()
        _current = server = Server()
        server.users = 1
        return server


def release(server: Server, wait: bool = True) -> None:
    """One user less; the last one stops it."""
    global _current
    with _lock:
        server.users -= 1
        if server.users > 0:
            return
        if _current is server:
            _current = None
        _apart.discard(server)
    if wait:
        server.stop()
    else:
        server.let_go()


def _at_exit() -> None:
    global _current
    servers = [*_apart, *([_current] if _current is not None else [])]
    _current = None
    _apart.clear()
    for server in servers:
        server.let_go()
    for server in servers:
        server.stop()


def _after_fork() -> None:
    global _current, _lock
    _lock = threading.RLock()
    servers = [*_apart, *([_current] if _current is not None else [])]
    _current = None
    _apart.clear()
    for server in servers:
        server.forget()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
