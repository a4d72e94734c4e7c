# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/folders.py: do not edit.
"""Bytes between files of this machine and those of a box."""
from __future__ import annotations

import os
import secrets
from typing import BinaryIO, Iterable, Iterator, List, Optional, TYPE_CHECKING, Tuple, Union, cast

from .. import _json
from .._extract import Downloaded
from .._folders import CHUNK, Filter, LocalPath, Packer, Progress, Unpacker
from .._transport import blocking as io
from .._transport.patience import Patience
from .._transport.trouble import Trouble
from ..errors import GloveboxError, InvalidRequest
from ..info import FileEntry, file_entry
from .http import Http, Body

if TYPE_CHECKING:
    from .files import Reader, Content


def body_of(content: Content, progress: Optional[Progress]) -> Tuple[Body, Optional[int], bool]:
    """What is sent, how much it is if that is known, and whether it can be sent again."""
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    if isinstance(content, (bytes, bytearray, memoryview)):
        data = bytes(content)
        return data if progress is None else lambda: _pieces_of(data, progress), len(data), True
    if hasattr(content, "read"):
        file = cast(BinaryIO, content)
        try:
            begin = file.tell()
            total = os.fstat(file.fileno()).st_size - begin
        except (OSError, ValueError):
            return lambda: _file_pieces(file, None, None, progress), None, False
        return lambda: _file_pieces(file, begin, total, progress), total, True
    pieces: Union[Iterable[bytes], Iterable[bytes]] = content
    return lambda: _counted(pieces, progress), None, False


def _pieces_of(data: bytes, progress: Optional[Progress]) -> Iterator[bytes]:
    for begin in range(0, len(data), CHUNK):
        yield data[begin:begin + CHUNK]
        if progress is not None:
            progress(min(begin + CHUNK, len(data)), len(data))


def _file_pieces(file: BinaryIO, begin: Optional[int], total: Optional[int], progress: Optional[Progress]) -> Iterator[bytes]:
    """From where it was; as many bytes as were said."""
    if begin is not None:
        io.beside(file.seek, begin)
    done = 0
    while total is None or done < total:
        piece = io.beside(file.read, CHUNK if total is None else min(CHUNK, total - done))
        if not isinstance(piece, bytes):
            raise InvalidRequest(f"a file that gives {type(piece).__name__} and not bytes: open it with mode \"rb\"")
        if not piece:
            if total is None:
                return
            raise GloveboxError("the file has become shorter while it was sent")
        yield piece
        done += len(piece)
        if progress is not None:
            progress(done, total)


def _counted(content: Union[Iterable[bytes], Iterable[bytes]], progress: Optional[Progress]) -> Iterator[bytes]:
    done = 0
    for piece in io.each(content):
        if not isinstance(piece, bytes):
            raise InvalidRequest(f"pieces of a file are bytes, and not {type(piece).__name__}")
        if piece:
            yield piece
        done += len(piece)
        if progress is not None:
            progress(done, None)


def save(file: Reader, local: str, progress: Optional[Progress]) -> int:
    """Under a name of its own first, which then takes the place of what is there."""
    temporary = os.path.join(os.path.dirname(local), f".glovebox-{secrets.token_hex(8)}")
    done = 0
    try:
        out = open(temporary, "xb", buffering=0)
    except OSError as e:
        raise GloveboxError(f"{local!r} cannot be written: {e.strerror or e}") from e
    try:
        with out:
            held: List[bytes] = []
            size = 0
            for piece in file:
                held.append(piece)
                size += len(piece)
                if size >= CHUNK:
                    io.beside(_write, out, b"".join(held))
                    done += size
                    held, size = [], 0
                    if progress is not None:
                        progress(done, file.size)
            io.beside(_write, out, b"".join(held))
            done += size
        os.replace(temporary, local)
    except BaseException as e:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        if isinstance(e, OSError) and not isinstance(e, GloveboxError):
            raise GloveboxError(f"{local!r} cannot be written: {e.strerror or e}") from e
        raise
    if progress is not None:
        progress(done, file.size)
    return done


def _write(out: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view):]


def upload(http: Http, target: str, local: LocalPath, wanted: Optional[Filter], gzip: bool, progress: Optional[Progress]) -> FileEntry:
    first: List[Packer] = [io.beside(Packer, local, wanted, gzip)]
    kind = b"application/gzip" if gzip else b"application/x-tar"

    def pieces() -> Iterator[bytes]:
        packer = first.pop() if first else io.beside(Packer, local, wanted, gzip)
        while True:
            piece = io.beside(packer.next)
            if not piece:
                break
            yield piece
            if progress is not None:
                progress(packer.done, packer.total)

    reply = http.call("PUT", target, pieces, ((b"content-type", kind),), silence=http.timeout)
    return file_entry(_json.decode(reply.body, http.where("PUT", target)))


def download(http: Http, target: str, local: LocalPath, most: int, most_files: int, strict: bool, progress: Optional[Progress]) -> Downloaded:
    exchange = http.open("GET", target)
    try:
        unpacker = io.beside(Unpacker, local, most, most_files, strict)
        try:
            while True:
                piece = exchange.chunk(Patience(http.timeout))
                if not piece:
                    break
                io.beside(unpacker.feed, piece)
                if progress is not None:
                    progress(unpacker.done, None)
            return io.beside(unpacker.finish)
        finally:
            io.beside(unpacker.close)
    except Trouble as trouble:
        raise http.failed(trouble, "GET", target) from None
    finally:
        exchange.close()
