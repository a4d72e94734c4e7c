# SPDX-License-Identifier: Apache-2.0
"""The zygote: imports, freezes, and goes on as what a box wants.

    python3 kernel.pyz --freeze MODULE...                  a program: as it is started cold, without options
    python3 -I -B kernel.pyz --freeze-kernel MODULE...     a kernel
    python3 kernel.pyz --handler                           nothing is frozen: a program, or the call of a handler, at once

Descriptor 4 is the image, 5 the shared object of src/warm. The process that froze ends with status 0; a thawed one says on its channel that it waits,
and goes on when it is told what to do.
"""
import ctypes
import gc
import io
import json
import os
import socket
import sys
from array import array

from . import archive, ending, fresh, handler, rehearsal, script

CHANNEL, IMAGE, FREEZE = 3, 4, 5
CONFIG, RUN, BEGUN, WAITING, READY, END = 1, 2, 14, 15, 16, 18
HEADER = 16
MORE = 1
# Of BEGUN: there will be messages.
TELLS = 4


def _freezer():
    lib = ctypes.PyDLL(f"/proc/self/fd/{FREEZE}")
    lib.gb_freeze.restype = ctypes.c_long
    lib.gb_freeze.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
    lib.gb_why.restype = ctypes.c_char_p
    if lib.gb_prepare() < 0:
        raise RuntimeError(lib.gb_why().decode())
    return lib


def _alone():
    """Go on in a process with one thread: libraries that start threads at import stop them in a fork."""
    if len(os.listdir("/proc/self/task")) == 1:
        return
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)


def _close_files():
    """What a library opened when it was imported is not open in a thawed process: its number may be another file there."""
    gc.unfreeze()
    for file in gc.get_objects():
        # Its own type: some objects import what they stand for when they are asked what they are.
        if issubclass(type(file), io.IOBase):
            try:
                if file.fileno() > 2:
                    file.close()
            except (OSError, ValueError):
                pass
    gc.freeze()


def _freeze(lib, pages):
    """Returns in thawed processes only. `pages`: (start, length, advice) of those that they are going to use."""
    taken = array("Q", (number for row in pages for number in row))
    _close_files()
    _alone()
    sys.stdout.flush(), sys.stderr.flush()
    os.close(FREEZE)
    thawed = lib.gb_freeze(IMAGE, taken.buffer_info()[0], len(pages))
    if thawed < 0:
        raise OSError(-thawed, lib.gb_why().decode())
    if thawed == 0:
        os._exit(0)
    # As after a fork: a lock or an id of the zygote's must not be taken for ours.
    ctypes.pythonapi.PyOS_AfterFork_Child()


def _wait(channel):
    """What to do. The other side is gone: then there is nothing to do."""
    message = b""
    channel.send(bytes([WAITING]) + bytes(HEADER - 1))
    while True:
        packet = channel.recv(1 << 16)
        if len(packet) < HEADER or packet[0] != CONFIG:
            os._exit(1)
        message += packet[HEADER:]
        if not packet[1] & MORE:
            return json.loads(message)


def _run(channel, config):
    os.environ.clear()
    for word in config["env"]:
        name, _, value = word.partition("=")
        os.environ[name] = value
    fresh.begin()
    os.chdir(config["cwd"])
    if "handler" in config:
        channel.send(bytes([BEGUN, TELLS]) + bytes(HEADER - 2))
        ending.be_watched()
        handler.run(channel)
    argv = config["argv"]
    if "source" in config:
        with open(argv[1], "xb", buffering=0) as file:
            file.write(config["source"].encode("utf-8", "surrogatepass"))
    if "stdin" in config:
        fd = os.open(config["stdin"], os.O_RDONLY)
        os.dup2(fd, 0)
        os.close(fd)
        if config["stdin"] != os.devnull:
            os.unlink(config["stdin"])
    channel.send(bytes([BEGUN]) + bytes(HEADER - 1))
    ending.be_watched()
    channel.close()
    script.run(argv[1], argv[2:])


def _serve(channel):
    """What is the same for every program comes before it waits for one."""
    fresh.renew()
    script.open_outputs()
    _run(channel, _wait(channel))


# --- rehearsals ----------------------------------------------------------------------------------------------


def _packet(kind, cell, message):
    return bytes([kind]) + bytes(7) + cell.to_bytes(8, "little") + json.dumps(message).encode()


def _sample(modules):
    """What most programs do: they import something, and print."""
    return "".join(f"import {name}\n" for name in modules if name in sys.modules) + "print(1)\n"


def _perform_program(channel):
    for fd in (1, 2):
        os.dup2(os.pipe()[1], fd)
    _serve(channel)


def _rehearse_program(modules):
    path = os.path.join(os.getcwd(), ".rehearsal.py")

    def play(channel, pid):
        rehearsal.expect(channel, WAITING)
        channel.send(_packet(CONFIG, 0, {"argv": [sys.executable, path], "env": [f"{name}={value}" for name, value in os.environ.items()],
                                         "cwd": os.getcwd(), "source": _sample(modules), "stdin": os.devnull}))
        rehearsal.expect_stop(channel, pid)

    pages = rehearsal.learn(_perform_program, play)
    if os.path.exists(path):
        os.unlink(path)
    return pages


def _rehearse_kernel(modules, serve):
    def play(channel, _):
        rehearsal.expect(channel, WAITING)
        channel.send(_packet(CONFIG, 0, {"env": dict(os.environ), "cwd": os.getcwd()}))
        rehearsal.expect(channel, READY)
        ends = [*os.pipe(), *os.pipe()]
        socket.send_fds(channel, [_packet(RUN, 1, {"type": "execute", "content": {"code": _sample(modules) + "1\n"}})], ends[1::2])
        rehearsal.expect(channel, END)
        for fd in ends:
            os.close(fd)

    return rehearsal.learn(lambda channel: serve(channel.detach()), play)


# --- what is frozen ------------------------------------------------------------------------------------------


def program(modules):
    lib = _freezer()
    archive.shut()
    # What is used below is used once before, so that it is in the image.
    json.loads(json.dumps({"env": ["A=b"], "argv": []}))
    script.prepare(modules)
    fresh.remember()
    gc.collect()
    gc.freeze()
    _freeze(lib, _rehearse_program(modules))
    _serve(socket.socket(fileno=CHANNEL))


def cold():
    """A handler without an image."""
    archive.shut()
    script.prepare()
    _serve(socket.socket(fileno=CHANNEL))


def kernel(modules):
    from . import main, twin
    lib = _freezer()
    twin.prepare(lib)
    main.prepare(modules)
    _freeze(lib, _rehearse_kernel(modules, main.serve))
    main.serve(CHANNEL)
