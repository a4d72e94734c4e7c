# SPDX-License-Identifier: Apache-2.0
"""Files of a box of a running server: one by PUT and GET, a tree of small ones as an archive. And tar beside it.

A server that answers 404 to …/files or …/archive does not have them (NotThere).
"""
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import random
import shutil
import tarfile

from . import launch, server
from .server import connect, exchange, request
from .sessions import refused

FOLDERS = 100


@dataclasses.dataclass
class Tree:
    """Small files as an archive, and a directory of the file system in question."""

    folder: pathlib.Path
    archive: pathlib.Path
    files: dict  # name to a digest of its content

    def check(self, archive):
        """That this one has the same files."""
        with tarfile.open(archive) as found:
            files = {os.path.normpath(m.name): digest(found.extractfile(m).read()) for m in found if m.isreg()}
        if files != self.files:
            raise OSError(f"{len(files)} files came back, or others, of {len(self.files)}")


def digest(data):
    return hashlib.blake2b(data, digest_size=8).digest()


def plant(folder, count):
    """A tree of so many files, of about two kilobytes each."""
    draw, files = random.Random(1), {}
    with tarfile.open(folder / "source.tar", "w") as archive:
        for number in range(count):
            name, data = f"{number % FOLDERS}/{number}", draw.randbytes(draw.randrange(100, 4000))
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
            files[name] = digest(data)
    return Tree(folder, folder / "source.tar", files)


class BoxPeer(server.ServerPeer):
    """One box; `fields` are what it is made with."""

    def open(self, ctx, work):
        return OpenedBox(self, ctx, work)


class OpenedBox(server.OpenedServer):
    grows = ("gate",)

    def __init__(self, peer, ctx, work):
        super().__init__(peer, ctx, work)
        try:
            with connect(self.server.port) as connection:
                status, body = exchange(connection, request("POST", "/v1/boxes", peer.fields))
                if status != 201:
                    raise refused("POST /v1/boxes", status, body)
                self.box = f"/v1/boxes/{json.loads(body)['id']}"
                status, body = exchange(connection, request("GET", f"{self.box}/files"))
                if status != 200:
                    raise refused("GET …/files", status, body)
        except BaseException:
            self.close()
            raise
        self.is_tree = isinstance(work, Tree)
        self.shown += ", PUT and GET …/archive" if self.is_tree else ", PUT and GET …/files/bench"

    def up(self):
        if self.is_tree:
            return self.load("put", f"{self.box}/archive?path=bench", self.work.archive)[0]["ns"]
        return self.load("put", f"{self.box}/files/bench", self.work.source)[0]["ns"]

    def down(self, compare=False):
        if not self.is_tree:
            words = [self.work.source] if compare else []
            return self.load("down", f"{self.box}/files/bench", self.work.bytes, *words)[0]["ns"]
        kept = [self.work.folder / "back.tar"] if compare else []
        ns = self.load("chunks", f"{self.box}/archive?path=bench&format=tar", *kept)[0]["ns"]
        for archive in kept:
            self.work.check(archive)
            archive.unlink()
        return ns

    def forget(self):
        self.ask("DELETE", f"{self.box}/files/bench?recursive=1")


class SandboxPeer(server.ServerPeer):
    """A session of the Sandbox Runtime, as its clients fill and empty it."""

    def open(self, ctx, work):
        return OpenedSandbox(self, ctx, work)


class OpenedSandbox(server.OpenedServer):
    grows = ("gate",)

    def __init__(self, peer, ctx, work):
        super().__init__(peer, ctx, work)
        self.base = "/workspace/se"
        self.shown += ", POST …/upload/bench, GET …/download/bench/file"

    def up(self):
        return self.load("up", self.work.source, f"{self.base}/upload/bench?filename=file")[0]["ns"]

    def down(self, compare=False):
        words = [self.work.source] if compare else []
        return self.load("down", f"{self.base}/download/bench/file", self.work.bytes, *words)[0]["ns"]

    def forget(self):
        self.ask("DELETE", f"{self.base}/session/bench")


class ResourcePeer(BoxPeer):
    """A box with ports, and its resource server, as clients of ipybox have it."""

    def open(self, ctx, work):
        return OpenedResource(self, ctx, work)


class OpenedResource(OpenedBox):
    def __init__(self, peer, ctx, work):
        super().__init__(peer, ctx, work)
        self.port = json.loads(self.ask("GET", self.box)[1])["ports"]["resource"]
        self.shown += ", POST and GET /files/bench of its resource port"

    def up(self):
        return server.load(self.ctx, "put", self.port, "/files/bench", self.work.source, "POST")[0]["ns"]

    def down(self, compare=False):
        words = [self.work.source] if compare else []
        return server.load(self.ctx, "down", self.port, "/files/bench", self.work.bytes, *words)[0]["ns"]


class OpenedTar:
    """`tar` from a file to the file system beside an upload, and to nowhere beside a download whose client discards what it gets."""

    def __init__(self, program, ctx, work):
        self.copy, self.work = work.folder / "copy", work
        self.there = launch.Command([[program, "-xf", str(work.archive), "-C", str(self.copy)]])
        # By a pipe: an archive that is /dev/null itself tar does not fill.
        self.back = launch.Command([[program, "-cf", "-", "-C", str(self.copy), "."], ["/usr/bin/cat"]])
        self.launcher = launch.Launcher()
        self.shown = ctx.shown(f"{program} -x (up), {program} -c | cat (down)")

    def run(self, command):
        run = self.launcher.call(launch.once, command)
        if run.error:
            raise OSError(run.error)
        return run.ns

    def up(self):
        self.copy.mkdir()
        return self.run(self.there)

    def down(self, compare=False):
        if compare:
            found = {str(p.relative_to(self.copy)): digest(p.read_bytes()) for p in self.copy.rglob("*") if p.is_file()}
            if found != self.work.files:
                raise OSError("the copy is not whole")
        return self.run(self.back)

    def forget(self):
        shutil.rmtree(self.copy)

    def close(self):
        self.launcher.close()


@dataclasses.dataclass(frozen=True)
class TarPeer:
    name: str = "tar"
    program: str = "/usr/bin/tar"
    holds: str = "nothing"
    version: tuple = ("--version",)

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        return None if os.access(self.program, os.X_OK) else "not installed"

    def open(self, ctx, work):
        return OpenedTar(self.program, ctx, work)
