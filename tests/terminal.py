# SPDX-License-Identifier: Apache-2.0
"""A real terminal for a test: a tmux of its own, keys in, what is on the screen out. Everything that is waited for is bounded."""
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile

import pytest

from conftest import program_path
from server import PASSED_ON, WAIT_S, until

TMUX = "/usr/bin/tmux"


class Terminal:
    """`command` in a pane; its status is shown when it has ended, with the terminal's modes at that moment.

    Commands see this environment only, and a home directory of their own.
    """

    def __init__(self, folder, command, *, cols=100, rows=30, env=None):
        # Paths of sockets are short.
        self.folder = tempfile.mkdtemp(prefix="term-", dir="/tmp")
        self.socket = f"{self.folder}/tmux"
        self.home = pathlib.Path(folder) / "home"
        self.home.mkdir(exist_ok=True)
        passed_on = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", "SHELL": "/bin/sh", **passed_on,
                    **(env or {})}
        words = command if isinstance(command, str) else shlex.join(map(str, command))
        # Ctrl-C is for the command, and not for the shell that tells how it ended.
        script = f"trap : INT QUIT; {words}; echo \"[status $?]\"; stty -a | tr ' ;' '\\n\\n' | grep -xE -- '-?(icanon|echo|isig|icrnl|opost)' | tr '\\n' ' '; echo .; " \
                 "trap '' INT TSTP QUIT; exec cat >/dev/null"
        self.tmux("-f", "/dev/null", "start-server", ";", "set-option", "-g", "history-limit", "20000", ";",
                  "new-session", "-d", "-x", cols, "-y", rows, "-c", str(folder), "sh", "-c", script)
        self.server = int(self.tmux("display-message", "-p", "#{pid}"))

    def tmux(self, *words, **kw):
        done = subprocess.run([TMUX, "-S", self.socket, *map(str, words)], env=self.env, timeout=WAIT_S, capture_output=True, check=False, **kw)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([TMUX, "-S", self.socket, "kill-server"], timeout=WAIT_S, capture_output=True, check=False)
        until(lambda: is_dead(self.server), "tmux is gone")
        for entry in os.listdir(self.folder):
            os.unlink(f"{self.folder}/{entry}")
        os.rmdir(self.folder)

    # --- keys ------------------------------------------------------------------------------------------------

    def keys(self, *names):
        """Keys by tmux's names: "Enter", "C-c", "Up", "M-b"."""
        self.tmux("send-keys", *names)

    def type(self, text):
        """Characters, as they are. (A semicolon at the end would be tmux's own.)"""
        self.tmux("send-keys", "-l", "--", text[:-1] + "\\;" if text.endswith(";") else text)

    def line(self, text):
        self.type(text)
        self.keys("Enter")

    def paste(self, text):
        """As a terminal pastes: in brackets, where these were asked for."""
        self.tmux("load-buffer", "-", input=text.encode())
        self.tmux("paste-buffer", "-p", "-d")

    def resize(self, cols, rows):
        self.tmux("resize-window", "-x", cols, "-y", rows)

    # --- the screen ------------------------------------------------------------------------------------------

    def screen(self, colours=False):
        """What is there, and what has left it at the top: lines without spaces at their end."""
        text = self.tmux("capture-pane", "-p", "-S", "-20000", *(["-e"] if colours else []))
        return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")

    def cursor(self):
        return tuple(map(int, self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y}").split()))

    def see(self, pattern, count=1, seconds=WAIT_S):
        """Waits until the pattern is on the screen so many times; returns the screen."""
        try:
            until(lambda: len(re.findall(pattern, self.screen(), re.M)) >= count, pattern, seconds)
        except pytest.fail.Exception:
            pytest.fail(f"not seen: {pattern!r} x {count} in\n{self.screen()}")
        return self.screen()

    def ended(self):
        """(status, modes of the terminal) when the command is over."""
        found = re.search(r"\[status (\d+)\]\n([^\n]*) \.", self.see(r"\[status \d+\]\n[^\n]* \."))
        return int(found[1]), set(found[2].split())

    def pid(self, verb="shell"):
        """Of the first process of glovebox in it."""
        def find():
            for entry in os.listdir("/proc"):
                try:
                    words = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                    fds = os.readlink(f"/proc/{entry}/fd/0")
                except OSError:
                    continue
                if os.path.basename(words[0]) == b"glovebox" and words[1:2] == [verb.encode()] and fds == self.tty():
                    return int(entry)
            return None

        return until(find, "a glovebox in this terminal")

    def tty(self):
        return self.tmux("display-message", "-p", "#{pane_tty}").strip()

    def kill(self, sig=signal.SIGTERM, verb="shell"):
        os.kill(self.pid(verb), sig)


def is_dead(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def glovebox(*words):
    return [program_path(), *words]


# A terminal as people have it.
SANE = {"icanon", "echo", "isig", "icrnl", "opost"}
