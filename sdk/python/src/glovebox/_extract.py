# SPDX-License-Identifier: Apache-2.0
"""Files from a box, written below a directory of this machine. The archive is hostile: whoever wrote it would like to write elsewhere.

Should: open every directory from the one above it, and never by a path; make files under a name of our own and rename them.
Must not: follow a link, neither one of the archive nor one that is there; make a device, a pipe, a socket, or what is setuid;
take a name that is absolute, leads up, or could act on a terminal; write more than the caller allows.

A link is made if it leads nowhere but below the directory: relative, with '..' only in front, and no more of them than there are
directories above it. With '..' further in it could lead out by way of another link.
"""
from __future__ import annotations

import os
import secrets
import stat
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from . import _tar
from ._text import plain, size
from .errors import GloveboxError, TooLarge, UnsafeArchive

_DEPTH_MAX = 200
_REPORTED_MAX = 1000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Skipped:
    """Something that was not written, and why. `path` is plain text."""

    path: str
    why: str


@dataclass(frozen=True)
class Downloaded:
    """What came of a download. `skipped` names at most 1000; skipped_count says how many there were."""

    files: int
    directories: int
    links: int
    bytes: int
    skipped: Tuple[Skipped, ...]
    skipped_count: int


class Extractor:
    """A sink of _tar.Reader. close() it in any case."""

    def __init__(self, directory: int, most: int, most_files: int, strict: bool) -> None:
        self._most, self._most_files, self._strict = most, most_files, strict
        self._names: List[bytes] = []  # the directory that is open, below the first
        self._open: List[int] = [directory]
        self._file = -1
        self._temporary = b""
        self._member: Optional[_tar.Member] = None
        self._name = b""
        self._made: Dict[Tuple[bytes, ...], Tuple[int, int]] = {}  # regular files, for hard links to them
        self._where: Tuple[bytes, ...] = ()
        self._members = 0
        self.files = self.directories = self.links = self.bytes = self.skipped_count = 0
        self._skipped: List[Skipped] = []

    def close(self) -> None:
        """Also takes away a file that is not complete."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            try:
                os.unlink(self._temporary, dir_fd=self._open[-1])
            except OSError:
                pass
        while self._open:
            os.close(self._open.pop())

    def report(self) -> Downloaded:
        return Downloaded(self.files, self.directories, self.links, self.bytes, tuple(self._skipped), self.skipped_count)

    # --- told by the reader --------------------------------------------------------------------------------------------

    def begin(self, member: _tar.Member) -> None:
        self._members += 1
        if self._members > self._most_files:
            error = TooLarge(f"more than {self._most_files} files and directories: most_files=… allows more")
            error.limit = self._most_files
            raise error
        self._grow(member.size)
        names = self._checked(member.name)
        if names is None:
            return
        try:
            self._make(member, names)
        except OSError as e:
            raise GloveboxError(f"{_shown(member.name)} cannot be written: {e.strerror or e}") from e

    def data(self, piece: bytes) -> None:
        if self._file >= 0:
            view = memoryview(piece)
            try:
                while view:
                    view = view[os.write(self._file, view):]
            except OSError as e:
                raise GloveboxError(f"{_shown(self._name)} cannot be written: {e.strerror or e}") from e
        self.bytes += len(piece)

    def end(self) -> None:
        if self._file < 0 or self._member is None:
            return
        try:
            os.fchmod(self._file, self._member.mode & 0o755 | 0o600)
            os.utime(self._file, (self._member.mtime, self._member.mtime))
            found = os.fstat(self._file)
            os.rename(self._temporary, self._name, src_dir_fd=self._open[-1], dst_dir_fd=self._open[-1])
            os.close(self._file)
            self._file = -1
        except (OSError, OverflowError) as e:
            raise GloveboxError(f"{_shown(self._name)} cannot be written: {e}") from e
        self._made[self._where] = (found.st_dev, found.st_ino)
        self.files += 1

    # --- what is allowed ------------------------------------------------------------------------------------------------

    def _grow(self, count: int) -> None:
        if self.bytes + count > self._most:
            error = TooLarge(f"more than {size(self._most)} of files: most=… allows more")
            error.limit = self._most
            raise error

    def _skip(self, name: bytes, why: str) -> None:
        if self._strict:
            raise _unsafe(name, why)
        self.skipped_count += 1
        if len(self._skipped) < _REPORTED_MAX:
            self._skipped.append(Skipped(_shown(name), why))

    def _checked(self, name: bytes) -> Optional[List[bytes]]:
        """The names that lead to a member. No honest archive of ours has others: they end the download."""
        if name.startswith(b"/"):
            raise _unsafe(name, "its name is absolute")
        names = [part for part in name.split(b"/") if part not in (b"", b".")]
        if b".." in names:
            raise _unsafe(name, "its name leads up")
        if len(names) > _DEPTH_MAX or any(len(part) > 255 for part in names):
            raise _unsafe(name[:400], "its name is too deep or too long")
        if any(_acts_on_terminals(part) for part in names):
            self._skip(name, "its name has control characters")
            return None
        return names

    # --- making it ------------------------------------------------------------------------------------------------------

    def _make(self, member: _tar.Member, names: List[bytes]) -> None:
        if member.kind == _tar.DIRECTORY:
            self._enter(names)
            if names:
                os.fchmod(self._open[-1], member.mode & 0o755 | 0o700)
                self.directories += 1
            return
        if not names:
            raise _unsafe(member.name, "it has no name")
        if member.kind not in (_tar.FILE, _tar.SYMLINK, _tar.HARDLINK):
            self._skip(member.name, "it is a device, a pipe or something unknown")
            return
        self._enter(names[:-1])
        above, name = self._open[-1], names[-1]
        self._name, self._where = name, tuple(names)
        temporary = b".glovebox-" + secrets.token_hex(8).encode()
        if member.kind == _tar.FILE:
            self._member, self._temporary = member, temporary
            self._file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=above)
            return
        if member.kind == _tar.SYMLINK:
            if not _stays(member.target, len(names) - 1):
                self._skip(member.name, "it is a link that leads out of the directory")
                return
            os.symlink(member.target, temporary, dir_fd=above)
        elif not self._hard_link(member, temporary):
            return
        above = self._open[-1]  # the same directory, maybe opened anew
        try:
            os.rename(temporary, name, src_dir_fd=above, dst_dir_fd=above)
        except OSError:
            os.unlink(temporary, dir_fd=above)
            raise
        self.links += 1

    def _hard_link(self, member: _tar.Member, temporary: bytes) -> bool:
        """To a file of this very archive, and to nothing else."""
        to = self._checked(member.target)
        made = self._made.get(tuple(to or ()))
        if to is None or made is None:
            self._skip(member.name, "it is a link to something that is not in the archive")
            return False
        here = os.dup(self._open[-1])
        try:
            names = list(self._names)
            self._enter(to[:-1])
            found = os.stat(to[-1], dir_fd=self._open[-1], follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) != made:
                raise _unsafe(member.name, "what it links to was changed meanwhile")
            os.link(to[-1], temporary, src_dir_fd=self._open[-1], dst_dir_fd=here, follow_symlinks=False)
            self._enter(names)
        finally:
            os.close(here)
        return True

    def _enter(self, names: List[bytes]) -> None:
        """Opens the directory, and makes it and those above it where they are missing."""
        same = 0
        while same < len(self._names) and same < len(names) and self._names[same] == names[same]:
            same += 1
        while len(self._names) > same:
            os.close(self._open.pop())
            self._names.pop()
        for name in names[same:]:
            try:
                os.mkdir(name, 0o700, dir_fd=self._open[-1])
            except FileExistsError:
                pass
            try:
                self._open.append(os.open(name, _DIRECTORY, dir_fd=self._open[-1]))
            except OSError:
                raise _unsafe(b"/".join(names), "a link or a file stands in its way") from None
            self._names.append(name)


def _stays(target: bytes, depth: int) -> bool:
    if target.startswith(b"/") or not target or _acts_on_terminals(target):
        return False
    up, inside = 0, False
    for part in target.split(b"/"):
        if part == b"..":
            if inside:
                return False
            up += 1
        elif part not in (b"", b"."):
            inside = True
    return up <= depth


def _acts_on_terminals(name: bytes) -> bool:
    text = name.decode("utf-8", "surrogateescape")
    return any(c < " " or "\x7f" <= c <= "\x9f" for c in text)


def _shown(name: bytes) -> str:
    return plain(name[:400].decode("utf-8", "replace")).replace("\n", "\\n").replace("\t", "\\t")


def _unsafe(name: bytes, why: str) -> UnsafeArchive:
    error = UnsafeArchive(f"the archive from the box has {_shown(name)!r}, which must not be written here: {why}; nothing more of it was written")
    error.member = _shown(name)
    return error
