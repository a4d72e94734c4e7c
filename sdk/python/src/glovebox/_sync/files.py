# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/files.py: do not edit.
"""Files of a box: read and written, listed, moved, deleted."""
from __future__ import annotations

import codecs
import os
from dataclasses import replace
from typing import BinaryIO, Iterable, Iterator, List, Optional, TYPE_CHECKING, Tuple, Union
from urllib.parse import quote

from .. import _json
from .._folders import CHUNK, Filter, LocalPath, Progress
from .._extract import Downloaded
from .._paths import BoxPath, directory_query, file_target, parts, query
from .._text import size
from .._transport.patience import Patience
from .._transport.trouble import Trouble
from ..errors import ConnectionLost, FileMissing, GloveboxError, InvalidRequest, TooLarge
from ..info import FileEntry, file_entry
from . import folders
from .http import Answer, Http, Body
from .watch import Watch

if TYPE_CHECKING:
    from .box import Box

Content = Union[bytes, str, BinaryIO, Iterable[bytes], Iterable[bytes]]


class Files:
    """box.files. Paths are below its working directory, or with a slash in front below its root: text, bytes, or PurePosixPath."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def _file(self, path: BoxPath, *more: str) -> Tuple[Http, str]:
        target, root = file_target(path)
        http, box = self._box.way()
        return http, f"{box}/files/{target}{query(root, *more)}"

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, path: BoxPath, *, start: int = 0, length: Optional[int] = None, most: Optional[int] = None) -> bytes:
        """Its bytes, or `length` of them from `start` on. TooLarge above `most` bytes (Client(answer_max=…) unless said): open() has no bound."""
        attempt = 0
        while True:
            try:
                with self.open(path, start=start, length=length) as file:
                    return file.read(most)
            except ConnectionLost:
                attempt += 1
                if attempt == 3:
                    raise

    def read_text(self, path: BoxPath, *, encoding: str = "utf-8", errors: str = "strict", most: Optional[int] = None) -> str:
        """The same as text."""
        data = self.read(path, most=most)
        try:
            return codecs.decode(data, encoding, errors)
        except UnicodeDecodeError as e:
            raise GloveboxError(f"{path!r} is no text in {encoding} (at byte {e.start}): read() has its bytes, errors=\"replace\" what can be shown") from None

    def open(self, path: BoxPath, *, start: int = 0, length: Optional[int] = None) -> Reader:
        """To be read piece by piece, whatever its size; opened when it is entered or first read. Iterating gives bytes."""
        if start < 0 or (length is not None and length < 0):
            raise InvalidRequest("start and length are numbers of bytes, not negative")
        target, root = file_target(path)
        headers: Tuple[Tuple[bytes, bytes], ...] = ()
        if length == 0:
            headers = ((b"range", b"bytes=0-0"),)
        elif start or length is not None:
            headers = ((b"range", b"bytes=%d-" % start + (b"" if length is None else b"%d" % (start + length - 1))),)
        return Reader(self._box, f"/files/{target}{query(root)}", headers, length == 0)

    def download(self, path: BoxPath, local: LocalPath, *, progress: Optional[Progress] = None) -> int:
        """Into a file of this machine, which appears when it is complete. Returns its size."""
        with self.open(path) as file:
            return folders.save(file, os.fspath(local), progress)

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, path: BoxPath, content: Content, *, mode: Optional[int] = None, if_match: Optional[str] = None, exclusive: bool = False,
              progress: Optional[Progress] = None) -> FileEntry:
        """Makes the file, or replaces it, when all of it has arrived; directories above it are made. content: text, bytes, an open file, or pieces.

        mode: 0o755. if_match: an etag, only over that version. exclusive: only where nothing is. Both raise PreconditionFailed.
        """
        http, target = self._file(path, "" if mode is None else f"mode={mode & 0o7777:o}")
        headers: List[Tuple[bytes, bytes]] = [(b"content-type", b"application/octet-stream")]
        if if_match is not None:
            headers.append((b"if-match", if_match.encode("latin-1", "replace")))
        if exclusive:
            headers.append((b"if-none-match", b"*"))
        body, count, again = folders.body_of(content, progress)
        if count is not None and not isinstance(body, bytes):
            headers.append((b"content-length", b"%d" % count))
        return self._put(http, target, body, tuple(headers), again)

    def upload(self, local: LocalPath, path: BoxPath, *, mode: Optional[int] = None, progress: Optional[Progress] = None) -> FileEntry:
        """A file of this machine, with its permissions unless said."""
        try:
            with open(os.fspath(local), "rb") as file:
                found = os.fstat(file.fileno())
                return self.write(path, file, mode=found.st_mode & 0o777 if mode is None else mode, progress=progress)
        except OSError as e:
            if isinstance(e, GloveboxError):
                raise
            raise GloveboxError(f"{os.fspath(local)!r} cannot be read: {e.strerror or e}") from e

    def _put(self, http: Http, target: str, body: Body, headers: Tuple[Tuple[bytes, bytes], ...], again: bool) -> FileEntry:
        # A body that goes on has no end to wait for: its pauses are bounded.
        silence = None if isinstance(body, bytes) and len(body) < CHUNK else http.timeout
        reply = http.call("PUT", target, body, headers, repeatable=again, silence=silence)
        return file_entry(_json.decode(reply.body, http.where("PUT", target)))

    # --- whole directories ----------------------------------------------------------------------------------------------

    def upload_dir(self, local: LocalPath, path: BoxPath = "", *, wanted: Optional[Filter] = None, gzip: bool = False,
                   progress: Optional[Progress] = None) -> FileEntry:
        """What is in a directory of this machine, into one of the box: all of it or nothing. wanted: which files, by their path in it. gzip: for
        a slow line. progress: called with the bytes that were sent, and all of them."""
        http, box = self._box.way()
        return folders.upload(http, f"{box}/archive{query(directory_query(path))}", local, wanted, gzip, progress)

    def download_dir(self, path: BoxPath, local: LocalPath, *, most: int = 4 << 30, most_files: int = 100_000, strict: bool = False,
                     progress: Optional[Progress] = None) -> Downloaded:
        """A directory of the box, into one of this machine. Nothing is written outside of that, no device, no link that leads out; what is left out
        is in `skipped` of the answer, and with strict=True an exception. most, most_files: bytes and files that it may have, else TooLarge.

        A directory that is not there yet appears when it is complete. In one that is there files take the place of what has their names.
        """
        http, box = self._box.way()
        return folders.download(http, f"{box}/archive{query(directory_query(path), 'format=tar')}", local, most, most_files, strict, progress)

    # --- looking ------------------------------------------------------------------------------------------------------

    def list(self, path: BoxPath = "", *, recursive: bool = False, most: int = 100_000) -> List[FileEntry]:
        """What is in a directory, by name. The paths are such that they can be read: with that of the directory in front."""
        found: List[FileEntry] = []
        for entry in self.iterate(path, recursive=recursive):
            if len(found) == most:
                error = TooLarge(f"more than {most} files: most=… allows more, iterate() gives them one by one")
                error.limit = most
                raise error
            found.append(entry)
        return found

    def iterate(self, path: BoxPath = "", *, recursive: bool = False) -> Iterator[FileEntry]:
        """The same one by one, page by page."""
        http, box = self._box.way()
        base, after = directory_query(path), ""
        while True:
            page = http.answer("GET", f"{box}/files{query(base, 'recursive=1' if recursive else '', after)}")
            rows = _json.objects(page, "entries")
            for row in rows:
                yield below(path, file_entry(row))
            following = _json.text_or_none(page, "next")
            if following is None or not rows:
                return
            after = "after=" + quoted_text(following)

    def stat(self, path: BoxPath) -> FileEntry:
        """What it is. Links are followed."""
        http, target = self._file(path, "stat=1")
        return file_entry(http.answer("GET", target))

    def exists(self, path: BoxPath) -> bool:
        """Whether there is something; a link that leads nowhere is nothing."""
        try:
            self.stat(path)
        except FileMissing:
            return False
        return True

    def watch(self, path: BoxPath = "", *, recursive: bool = False) -> Watch:
        """What changes in a directory, from when it is entered. Iterating gives FileEvents."""
        return Watch(self._box, path, recursive)

    # --- changing -----------------------------------------------------------------------------------------------------

    def mkdir(self, path: BoxPath, *, mode: Optional[int] = None) -> FileEntry:
        """A directory, with those above it. One that is there is no error."""
        http, target = self._file(path, "op=mkdir", "" if mode is None else f"mode={mode & 0o7777:o}")
        # To be done twice does no harm.
        reply = http.call("POST", target, repeatable=True)
        return file_entry(_json.decode(reply.body, http.where("POST", target)))

    def move(self, path: BoxPath, to: BoxPath, *, overwrite: bool = True) -> FileEntry:
        """Another name or place. overwrite=False: FileExists if something is there."""
        from_root, _ = parts(path)
        to_root, names = parts(to)
        if from_root != to_root:
            raise InvalidRequest(f"{path!r} and {to!r}: both are below the working directory, or both begin with a slash")
        try:
            text = b"/".join(names).decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"{to!r} is not UTF-8: the server moves only to names that are") from None
        http, target = self._file(path, "op=move", "to=" + quoted_text(text), "" if overwrite else "overwrite=0")
        return file_entry(http.answer("POST", target))

    def delete(self, path: BoxPath, *, recursive: bool = False) -> None:
        """A file or an empty directory; recursive: with all that is in it."""
        http, target = self._file(path, "recursive=1" if recursive else "")
        http.done("DELETE", target)


class Reader:
    """A file of a box that is read. Once it is open `size` is how much there is to read, and `etag` its version for write(if_match=…)."""

    def __init__(self, box: Box, target: str, headers: Tuple[Tuple[bytes, bytes], ...], nothing: bool) -> None:
        self._box, self._target, self._headers, self._nothing = box, target, headers, nothing
        self._http: Optional[Http] = None
        self._exchange: Optional[Answer] = None
        self.size: Optional[int] = None
        self.etag: Optional[str] = None

    def open(self) -> Reader:
        """Asks for it, if that was not done yet."""
        self._open()
        return self

    def _open(self) -> Tuple[Http, Answer]:
        if self._http is None or self._exchange is None:
            self._http, box = self._box.way()
            self._exchange = exchange = self._http.open("GET", box + self._target, headers=self._headers)
            length = _json.header(exchange.headers, b"content-length") or ""
            self.size = 0 if self._nothing else int(length) if length.isdigit() and len(length) < 20 else None
            self.etag = _json.header(exchange.headers, b"etag")
        return self._http, self._exchange

    def __enter__(self) -> Reader:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._exchange is not None:
            self._exchange.close()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            piece = self.chunk()
            if not piece:
                return
            yield piece

    def chunk(self) -> bytes:
        """The next piece, as it comes; empty at the end."""
        http, exchange = self._open()
        if self._nothing:
            return b""
        try:
            return exchange.chunk(Patience(http.timeout))
        except Trouble as trouble:
            raise http.failed(trouble, "GET", self._target) from None

    def read(self, most: Optional[int] = None) -> bytes:
        """All that is left; TooLarge above `most` bytes."""
        http, _ = self._open()
        most = http.answer_max if most is None else most
        pieces: List[bytes] = []
        count = 0
        if self.size is not None and self.size > most:
            raise _too_large(most)
        while True:
            piece = self.chunk()
            if not piece:
                return b"".join(pieces)
            count += len(piece)
            if count > most:
                raise _too_large(most)
            pieces.append(piece)


def _too_large(most: int) -> TooLarge:
    error = TooLarge(f"a file of more than {size(most)}: most=… allows more, and files.open() reads it piece by piece")
    error.limit = most
    return error


def quoted_text(text: str) -> str:
    return quote(text, safe="")


def below(directory: BoxPath, entry: FileEntry) -> FileEntry:
    """An entry of a list, with the path of the directory in front."""
    from_root, names = parts(directory)
    prefix = (b"/" if from_root else b"") + b"".join(name + b"/" for name in names)
    return entry if not prefix else replace(entry, path=prefix.decode("utf-8", "replace") + entry.path, path_bytes=prefix + entry.path_bytes)
