# SPDX-License-Identifier: Apache-2.0
"""Kernels that were frozen and thawed, outside of any box: with the programs of src/warm, as init starts them."""
import os
import subprocess

from conftest import program_path
from fake_init import LIBS, PYTHON, FakeInit, archive, memfd

# What is on descriptors 3, 4 and so on.
LAUNCH = """
import fcntl, os, signal, sys
fds, words = [int(word) for word in sys.argv[1].split(",")], sys.argv[2:]
high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in fds]
for number, fd in enumerate(high, 3):
    os.dup2(fd, number)
os.closerange(3 + len(fds), 400)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execve(words[0], words, {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]})
"""


def part(name):
    return program_path().parent / "src/warm" / name


def launch(fds, words, home, **kw):
    return subprocess.Popen([PYTHON, "-c", LAUNCH, ",".join(map(str, fds)), *map(str, words)], stdin=subprocess.DEVNULL, pass_fds=fds, cwd="/",
                            env={"PATH": os.environ["PATH"], "HOME": str(home)}, **kw)


def zygote(home, imports=()):
    """An image of a kernel that has imported these."""
    image, code, null = os.memfd_create("image"), memfd(archive()), os.open(os.devnull, os.O_RDWR)
    so = os.open(part("glovebox-freeze.so"), os.O_RDONLY)
    command = [PYTHON, "-I", "-B", "/proc/self/fd/6", "--freeze-kernel", *imports]
    if LIBS:
        code_ = f"import sys; sys.path[:0] = {['/proc/self/fd/6', *LIBS]!r}; from glovebox_kernel.zygote import kernel; kernel({list(imports)!r})"
        command = [PYTHON, "-I", "-B", "-c", code_]
    try:
        process = launch([null, image, so, code], command, home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = process.communicate(timeout=120)[0]
        assert process.returncode == 0, said.decode()
    finally:
        for fd in (code, null, so):
            os.close(fd)
    return image


class Thaw:
    """What FakeInit spawns a kernel from: an image, and the one that it refers to."""

    def __init__(self, home, image, base=None):
        self.home, self.image, self.base = home, image, base

    def spawn(self, channel):
        thaw = os.open(part("glovebox-thaw"), os.O_RDONLY)
        fds = [channel.fileno(), self.image] + ([self.base] if self.base is not None else [])
        try:
            return launch(fds, [part("glovebox-thaw")], self.home, stdout=subprocess.DEVNULL)
        finally:
            os.close(thaw)


class Kernel(FakeInit):
    """One that can be copied: copy() is a kernel of its own."""

    def __init__(self, home, image, base=None, **kw):
        self.base = base if base is not None else image
        self.copies = []
        super().__init__(home, zygote=Thaw(home, image, base), **kw)

    def freeze(self, room=256 << 20):
        """The image, which has room for so much, and the content of the reply."""
        image = os.memfd_create("copy")
        os.ftruncate(image, room)
        cell = self.request("freeze", lend=image)
        result = self.finish(cell)
        return image, result.reply

    def copy(self, **kw):
        image, reply = self.freeze()
        try:
            assert reply["status"] == "ok", reply
            kernel = Kernel(self.home, image, self.base, **kw)
        finally:
            os.close(image)
        kernel.lost = reply["lost"] + kernel.ready["lost"]
        kernel.number = self.number
        self.copies.append(kernel)
        return kernel

    def close(self):
        for kernel in self.copies:
            kernel.close()
        return super().close()
