# SPDX-License-Identifier: Apache-2.0
"""Names of files in a box, as parts of a URL. Names of a box are any bytes; here they are texts, bytes, or paths."""
from __future__ import annotations

import os
import pathlib
from typing import List, Tuple, Union
from urllib.parse import quote_from_bytes

from ._text import plain
from .errors import InvalidRequest

#: From the working directory of the box, or, with a slash in front, from its root.
BoxPath = Union[str, bytes, pathlib.PurePosixPath]


def _wrong(path: BoxPath, why: str) -> InvalidRequest:
    error = InvalidRequest(f"{plain(str(path))!r} is no path in a box: {why}")
    error.field = "path"
    return error


def parts(path: BoxPath) -> Tuple[bool, List[bytes]]:
    """Whether it begins at the root of the box, and its names. What is no name at all is passed over, '..' is refused."""
    data = path if isinstance(path, bytes) else _bytes(path)
    if b"\0" in data:
        raise _wrong(path, "it has a NUL in it")
    names = [name for name in data.split(b"/") if name not in (b"", b".")]
    if b".." in names:
        raise _wrong(path, "'..' means nothing here")
    return data.startswith(b"/"), names


def _bytes(path: Union[str, pathlib.PurePosixPath]) -> bytes:
    if not isinstance(path, (str, pathlib.PurePosixPath)):
        raise InvalidRequest(f"a path in a box is a str, bytes or a PurePosixPath, and not a {type(path).__name__}")
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        raise _wrong(str(path).encode("utf-8", "replace"), "it has half a character in it") from None


def joined(names: List[bytes]) -> str:
    return "/".join(quote_from_bytes(name, safe="") for name in names)


def file_target(path: BoxPath) -> Tuple[str, str]:
    """The path of a URL below /files/, and what its query begins with ("root=/" or nothing)."""
    from_root, names = parts(path)
    if not names:
        raise _wrong(path, "it names nothing")
    return joined(names), "root=%2F" if from_root else ""


def directory_query(path: BoxPath) -> str:
    """A directory as a part of a query."""
    from_root, names = parts(path)
    query = "root=%2F" if from_root else ""
    if names:
        query += ("&" if query else "") + "path=" + joined(names).replace("/", "%2F")
    return query


def query(*pieces: str) -> str:
    said = "&".join(piece for piece in pieces if piece)
    return f"?{said}" if said else ""
