# SPDX-License-Identifier: Apache-2.0
"""Directories of this machine on their way into a box and out of one, in terms of bytes: who sends them is no matter of this."""
from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import stat
import zlib
from typing import Callable, Iterator, List, NamedTuple, Optional, Union

from . import _tar
from ._extract import Downloaded, Extractor
from .errors import GloveboxError

LocalPath = Union[str, "os.PathLike[str]"]
#: Told how many bytes have gone, and how many there are, if that is known.
Progress = Callable[[int, Optional[int]], object]
#: Whether a file or directory is wanted, by its path below the directory.
Filter = Callable[[pathlib.PurePosixPath], bool]

CHUNK = 256 * 1024


class _Row(NamedTuple):
    name: str  # in the archive
    path: str
    found: os.stat_result


class Packer:
    """A directory as a tar archive: next() until it is empty. Links go as links; devices, pipes and sockets are left out."""

    def __init__(self, directory: LocalPath, wanted: Optional[Filter], gzip: bool) -> None:
        self._rows = list(_rows(os.fspath(directory), wanted))
        self.total = sum(row.found.st_size for row in self._rows if stat.S_ISREG(row.found.st_mode))
        self.done = 0
        self._pieces = self._all()
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, 31) if gzip else None

    def next(self) -> bytes:
        """The next piece; empty at the end."""
        while True:
            piece = next(self._pieces, None)
            if self._gzip is None:
                return piece or b""
            if piece is None:
                gzip, self._gzip = self._gzip, None
                return gzip.flush()
            packed = self._gzip.compress(piece)
            if packed:
                return packed

    def _all(self) -> Iterator[bytes]:
        held: List[bytes] = []  # headers of small things, together
        size = 0
        for row in self._rows:
            mode, when = row.found.st_mode, row.found.st_mtime
            if stat.S_ISDIR(mode):
                piece = _tar.header(row.name + "/", _tar.DIRECTORY, 0, mode & 0o777, when)
            elif stat.S_ISLNK(mode):
                piece = _tar.header(row.name, _tar.SYMLINK, 0, 0o777, when, os.readlink(row.path))
            else:
                piece = _tar.header(row.name, _tar.FILE, row.found.st_size, mode & 0o777, when)
            held.append(piece)
            size += len(piece)
            if stat.S_ISREG(mode):
                for piece in _content(row):
                    held.append(piece)
                    size += len(piece)
                    self.done += len(piece)
                    if size >= CHUNK:
                        yield b"".join(held)
                        held, size = [], 0
                held.append(_tar.padding(row.found.st_size))
                size += len(held[-1])
        yield b"".join([*held, _tar.END])


def _rows(directory: str, wanted: Optional[Filter]) -> Iterator[_Row]:
    try:
        names = sorted(os.listdir(directory))
    except OSError as e:
        raise GloveboxError(f"{directory!r} cannot be read: {e.strerror or e}") from e
    above: List[str] = []
    pending = [(name, os.path.join(directory, name)) for name in reversed(names)]
    while pending:
        name, path = pending.pop()
        if wanted is not None and not wanted(pathlib.PurePosixPath(name)):
            continue
        try:
            found = os.lstat(path)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                continue
            inside = sorted(os.listdir(path), reverse=True) if stat.S_ISDIR(found.st_mode) else above
        except OSError as e:
            raise GloveboxError(f"{path!r} cannot be read: {e.strerror or e}") from e
        yield _Row(name, path, found)
        pending += [(f"{name}/{one}", os.path.join(path, one)) for one in inside]


def _content(row: _Row) -> Iterator[bytes]:
    """As many bytes as its header says."""
    left = row.found.st_size
    try:
        with open(row.path, "rb", buffering=0) as file:
            while left:
                piece = file.read(min(CHUNK, left))
                if not piece:
                    raise GloveboxError(f"{row.path!r} has become shorter while it was sent")
                left -= len(piece)
                yield piece
    except OSError as e:
        raise GloveboxError(f"{row.path!r} cannot be read: {e.strerror or e}") from e


class Unpacker:
    """A directory from a tar archive: feed() it, then finish(); close() in any case.

    Where there is no such directory yet it appears when it is complete, and not at all if something goes wrong. Into one that is there
    files are put one by one, each when it is complete; they take the place of what has their name.
    """

    def __init__(self, directory: LocalPath, most: int, most_files: int, strict: bool) -> None:
        if os.open not in os.supports_dir_fd:
            raise GloveboxError("this system cannot open files below a directory without following links: no directory from a box is written here")
        self._target = os.path.abspath(os.fspath(directory))
        self._new = ""
        above = os.path.dirname(self._target)
        try:
            os.makedirs(above, exist_ok=True)
            if not os.path.isdir(self._target):
                self._new = os.path.join(above, f".glovebox-{secrets.token_hex(8)}")
                os.mkdir(self._new)
            opened = os.open(self._new or self._target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            raise GloveboxError(f"{self._target!r} cannot be written: {e.strerror or e}") from e
        self._extractor = Extractor(opened, most, most_files, strict)
        self._reader = _tar.Reader(self._extractor)

    def feed(self, piece: bytes) -> None:
        self._reader.feed(piece)

    @property
    def done(self) -> int:
        """Bytes of files that were written."""
        return self._extractor.bytes

    def finish(self) -> Downloaded:
        self._reader.finish()
        if self._new:
            try:
                os.rename(self._new, self._target)
            except OSError as e:
                raise GloveboxError(f"{self._target!r} cannot be written: {e.strerror or e}") from e
            self._new = ""
        return self._extractor.report()

    def close(self) -> None:
        self._extractor.close()
        if self._new:
            shutil.rmtree(self._new, ignore_errors=True)
            self._new = ""
