# SPDX-License-Identifier: Apache-2.0
"""The two halves of a start.

prepare() is all that can be done for every box: imports, the shell, its first cell. serve() is what is a process's own.
Between the two there is one thread, no loop and no descriptor but 0, 1 and 2, and nothing remembers a pid, a time or a
place: so a process can be frozen there, and go on in another one.
"""
from .safe import builtins as __builtins__  # isort: skip

from . import archive  # isort: skip

import gc
import importlib
import os
import sys

from . import answers, cells, comms, descriptors, fork, fresh, inline, lent, loop, order, output, requests, safe, shell, stdin, warmup
from .channel import READY, WAITING
from .interrupt import interrupts
from .kernel import Kernel
from .plain import decode, encode

CHANNEL = 3
# The home directory that a box has of its own: nothing in it is shown among files.
HOME = "/home/box"

_shell = None
_ready = b""


def prepare(imports=()):
    """`imports`: names of modules that are to be there already; one that cannot be imported is left out."""
    global _shell, _ready
    archive.shut()
    output.find_c_stdout()
    output.install()
    cells.watch_threads()
    loop.patch()
    _shell = shell.create()
    inline.install()
    comms.install()
    stdin.install()
    lent.install()
    fork.watch(output.flush_everything)
    descriptors.guard()
    for name in imports:
        try:
            importlib.import_module(name)
        except Exception:
            pass
    warmup.warm(_shell)
    loop.rehearse()
    _ready = encode(requests.ready(_shell), 1 << 20)
    decode(_ready)
    safe.remember()
    fresh.remember()
    gc.collect()
    gc.freeze()


def serve(fd=CHANNEL):
    """The rest of this process's life."""
    descriptors.prepare()
    interrupts.disarm()
    fresh.renew()
    kernel = Kernel(fd, _shell)
    kernel.loop = loop.create()
    kernel.channel.send(WAITING, 0, b"")
    config = answers.await_config(kernel.channel)
    kernel.env, kernel.ready = config.get("env") if type(config.get("env")) is dict else {}, _ready
    _settle(config)
    fresh.begin()
    kernel.history = bool(config.get("history", True))
    order.connect(kernel.channel, bool(config.get("sync", False)))
    descriptors.disconnect()
    kernel.channel.send(READY, 0, _ready)
    kernel.run()


def _settle(config):
    env = config.get("env")
    if type(env) is dict:
        os.environ.clear()
        for name, value in env.items():
            try:
                os.environ[name] = value
            except (ValueError, TypeError):
                pass
    try:
        os.chdir(config.get("cwd") or "/")
    except OSError:
        pass
    argv = config.get("argv")
    sys.argv[:] = [str(word) for word in argv] if argv and type(argv) is list else [""]
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = ["", *(entry for entry in path if entry not in sys.path)]
    _find_packages_of_user()
    _shell.settle(os.path.expanduser("~"), os.getcwd())


def _find_packages_of_user():
    """What pip installs in this box is found where any Python of it finds it. The directory is there from the beginning: that one is missing would be remembered."""
    packages = f"{os.path.expanduser('~')}/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    try:
        if packages.startswith(HOME + "/"):
            os.makedirs(packages, exist_ok=True)
    except OSError:
        pass
    ends = ("/site-packages", "/dist-packages")
    sys.path.insert(next((i for i, entry in enumerate(sys.path) if entry.endswith(ends)), len(sys.path)), packages)


def main():
    """Cold: both halves, one after the other."""
    prepare(sys.argv[1:])
    serve()
