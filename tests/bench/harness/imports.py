# SPDX-License-Identifier: Apache-2.0
"""Importing an image: `glovebox env import` of an OCI layout, beside tar, which unpacks the same layers into one directory of the same file system.

The image is made by hand: files of all sizes, half of their bytes like text and half as random ones, so that neither a file system nor
gzip has an easy time with it; programs of this machine, because an image needs some. Nobody waits for the disk: both leave that to the kernel.
"""
import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import os
import pathlib
import random
import shlex
import shutil
import sys
import tarfile

from . import box_files, launch, server
from .kinds import Skipped, company, interleaved, row
from .packages import argv_of, lacking
from .server_kinds import LARGE_RUNS, LARGE_RUNS_QUICK, MIB, attempt, place_of, size_text

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TESTS))

import images  # noqa: E402

IMPORT_S = 600
LAYERS, DIRECTORIES = 4, 50
SMALLEST, LARGEST = 128, 1 << 20
POOL = 8 * MIB
WORDS = 4096


# --- the image ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Image:
    folder: pathlib.Path  # of the file system in question
    layout: pathlib.Path
    layers: list  # archives, in their order
    files: dict  # path to (size, digest)
    bytes: int  # of the layers, not compressed
    compressed: bool

    def check(self, tree, whole):
        """That a directory has the same files; whole: every byte of them."""
        found = 0
        for path, (size, wanted) in self.files.items():
            file = tree / path
            try:
                if file.stat().st_size != size or whole and box_files.digest(file.read_bytes()) != wanted:
                    raise OSError(f"{path} is another file")
            except FileNotFoundError:
                raise OSError(f"{path} is not there") from None
        for _, _, names in os.walk(tree / "usr" / "share" / "bench"):
            found += len(names)
        if found != len(self.files):
            raise OSError(f"there are {found} files, not {len(self.files)}")


class Contents:
    """Bytes to be had at once: a piece of a pool, of text or of noise, from where nobody had one."""

    def __init__(self):
        self.draw = random.Random(1)
        words = ["".join(self.draw.choices("abcdefghijklmnopqrstuvwxyz_", k=self.draw.randrange(2, 11))) for _ in range(WORDS)]
        text = " ".join(self.draw.choices(words, k=POOL // 6)).encode()
        self.pools = (text, self.draw.randbytes(POOL))

    def piece(self):
        size = int(SMALLEST * (LARGEST / SMALLEST) ** self.draw.random())  # as many small ones as their logarithm has it
        pool = self.pools[self.draw.randrange(2)]
        at = self.draw.randrange(len(pool) - size)
        return pool[at:at + size]


def add_file(archive, path, data):
    about = tarfile.TarInfo(path)
    about.size, about.mode = len(data), 0o644
    archive.addfile(about, io.BytesIO(data))


def write_layer(path, number, size, contents, first):
    """An archive of about this size; what is in it, as Image has it."""
    files = {}
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        if first is not None:
            for part in sorted(first.iterdir()):
                archive.add(part, part.name)
        while archive.offset < size:
            name, data = f"usr/share/bench/{number}-{len(files) % DIRECTORIES}/{len(files)}", contents.piece()
            add_file(archive, name, data)
            files[name] = len(data), box_files.digest(data)
    return files


def packed(path):
    """The same compressed, in its place."""
    with open(path, "rb") as plain, gzip.open(f"{path}.gz", "wb", compresslevel=6) as file:
        shutil.copyfileobj(plain, file, MIB)
    path.unlink()
    return pathlib.Path(f"{path}.gz")


def sha256(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(MIB):
            found.update(piece)
    return found.hexdigest()


def write_layout(folder, layers, compressed):
    """An OCI layout of these files, which become its blobs: where they are then."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def entry(name, size, kind):
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{name}", "size": size}

    def document(data, kind):
        name = images.sha256(data)
        (blobs / name).write_bytes(data)
        return entry(name, len(data), kind)

    entries, places = [], []
    for layer in layers:
        name = sha256(layer)
        places.append(layer.rename(blobs / name))
        entries.append(entry(name, places[-1].stat().st_size, "layer.v1.tar+gzip" if compressed else "layer.v1.tar"))
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": document(images.config(), "config.v1+json"), "layers": entries}
    index = {**document(json.dumps(manifest).encode(), "manifest.v1+json"), "platform": {"architecture": images.ARCH, "os": "linux"}}
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    return places


def make(folder, size, compressed):
    contents, first = Contents(), images.root(folder / "programs")
    files, layers, total = {}, [], 0
    for number in range(LAYERS):
        path = folder / f"layer-{number}.tar"
        files |= write_layer(path, number, size // LAYERS, contents, None if number else first)
        total += path.stat().st_size
        layers.append(packed(path) if compressed else path)
    shutil.rmtree(first)
    layout = folder / "image"
    return Image(folder, layout, write_layout(layout, layers, compressed), files, total, compressed)


# --- who unpacks it -----------------------------------------------------------------------------------------------


class OpenedTar:
    def __init__(self, program, ctx, image):
        self.image, self.tree, self.launcher = image, image.folder / "unpacked", launch.Launcher()
        options = "-xzf" if image.compressed else "-xf"
        self.commands = [[program, options, str(layer), "-C", str(self.tree)] for layer in image.layers]
        self.shown = "; ".join(f"{program} {options} LAYER{number} -C TREE" for number in range(1, LAYERS + 1))

    def unpack(self, whole):
        self.tree.mkdir()
        try:
            runs = [self.launcher.call(launch.once, launch.Command([argv]), IMPORT_S) for argv in self.commands]
            if error := next((run.error for run in runs if run.error), None):
                raise OSError(error)
            self.image.check(self.tree, whole)
            return sum(run.ns for run in runs)
        finally:
            shutil.rmtree(self.tree)

    def close(self):
        self.launcher.close()


class OpenedImport:
    def __init__(self, ctx, image):
        self.ctx, self.image, self.folder, self.launcher = ctx, image, image.folder / "environments", launch.Launcher()
        self.argv = self.command("import", "bench", image.layout)
        self.shown = ctx.shown(shlex.join(self.command("import", "bench", "IMAGE")))

    def command(self, verb, *words):
        return argv_of(self.ctx, self.folder, verb, *words)

    def call(self, argv, capture=False):
        run = self.launcher.call(launch.once, launch.Command([argv], capture=capture), IMPORT_S)
        if run.error:
            raise OSError(run.error)
        return run

    def unpack(self, whole):
        ns = self.call(self.argv).ns
        try:
            tree = json.loads(self.call(self.command("list", "--json"), capture=True).out)["tree"]
            self.image.check(self.folder / tree, whole)
        finally:
            self.call(self.command("remove", "bench"))
        if left := os.listdir(self.folder):
            raise OSError(f"it leaves {left}")
        return ns

    def close(self):
        self.launcher.close()


class TarPeer(box_files.TarPeer):
    def open(self, ctx, image):
        return OpenedTar(self.program, ctx, image)


class ImportPeer(server.ServerPeer):
    """No server: the command alone."""

    def missing(self, ctx):
        return super().missing(ctx) or lacking(ctx)

    def open(self, ctx, image):
        return OpenedImport(ctx, image)


# --- the way of measuring -----------------------------------------------------------------------------------------


def imports(case, ctx):
    """Bytes of the layers, not compressed, per second. The round that does not count compares every byte, the others names and sizes."""
    size = case.options["quick_bytes" if ctx.quick else "bytes"]
    figure = f"unpacked, {size_text(size)}"
    folder = place_of(case, ctx, size)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        ctx.say(f"   making an image of {size_text(size)}")
        try:
            image = make(folder, size, case.options["compressed"])
        except OSError as e:
            raise Skipped(f"no image can be made: {e}") from e
        with company(case, ctx, figure, "MB/s", image) as (tallies, absent):
            for counted, tally in interleaved(case, ctx, tallies, LARGE_RUNS_QUICK if ctx.quick else LARGE_RUNS):
                ns = attempt(tally, tally.opened.unpack, not counted)
                if counted and ns is not None:
                    tally.good(image.bytes / 1e6 / (ns / 1e9))
            return [row(tally, figure, "MB/s") for tally in tallies] + absent
