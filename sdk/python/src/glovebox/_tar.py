# SPDX-License-Identifier: Apache-2.0
"""Tar archives, piece by piece and with bounds: read as a box sends them, written as a box takes them.

The reader knows what honest archives are made of (ustar, long names of pax and of GNU) and nothing else. What a name means on
this machine is for _extract.py to say.
"""
from __future__ import annotations

import tarfile
from typing import Dict, NamedTuple, Optional, Protocol

from ._text import plain
from .errors import ProtocolError

BLOCK = 512
# Of a long name, or of a pax header: more than any name has.
_EXTRA_MAX = 64 * 1024

FILE, HARDLINK, SYMLINK, DIRECTORY = b"0", b"1", b"2", b"5"


class Member(NamedTuple):
    name: bytes
    kind: bytes  # of the header
    size: int
    mode: int
    mtime: float
    target: bytes


class Sink(Protocol):
    """Who is told what is in an archive."""

    def begin(self, member: Member) -> None: ...

    def data(self, piece: bytes) -> None: ...

    def end(self) -> None: ...


def _broken(why: str) -> ProtocolError:
    return ProtocolError(f"what came is no sound tar archive: {why}")


class Reader:
    """feed() it, then finish(). Each member is told to the sink: begin, data, end."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held = bytearray()
        self._left = 0  # bytes of the member that are still to come
        self._padding = 0
        self._extra: Optional[bytes] = None  # the kind of a header that says more about the next member
        self._extra_data = bytearray()
        self._pax: Dict[str, bytes] = {}
        self._in_member = False
        self._zeros = 0  # blocks of zeros, of which two are the end

    def feed(self, piece: bytes) -> None:
        view = memoryview(piece)
        while view:
            if self._zeros >= 2:
                if any(view[:BLOCK]) or any(view):
                    raise _broken("something stands behind its end")
                return
            if self._left:
                view = self._content(view)
            elif self._padding:
                skipped = min(self._padding, len(view))
                self._padding -= skipped
                view = view[skipped:]
            else:
                taken = min(BLOCK - len(self._held), len(view))
                self._held += view[:taken]
                view = view[taken:]
                if len(self._held) == BLOCK:
                    header, self._held = bytes(self._held), bytearray()
                    self._header(header)

    def finish(self) -> None:
        """That was all."""
        if self._zeros < 2 or self._left or self._in_member:
            raise _broken("it ends in the middle")

    def _content(self, view: memoryview) -> memoryview:
        taken = view[:self._left]
        self._left -= len(taken)
        if self._extra is not None:
            self._extra_data += taken
        else:
            self._sink.data(bytes(taken))
        if not self._left:
            self._over()
        return view[len(taken):]

    def _over(self) -> None:
        """The content of a header is there."""
        if self._extra is None:
            self._in_member = False
            self._sink.end()
            return
        kind, data = self._extra, bytes(self._extra_data)
        self._extra, self._extra_data = None, bytearray()
        if kind == b"x":
            self._pax.update(_records(data))
        elif kind == b"L":
            self._pax["path"] = data.rstrip(b"\0")
        elif kind == b"K":
            self._pax["linkpath"] = data.rstrip(b"\0")

    def _header(self, block: bytes) -> None:
        if not any(block):
            self._zeros += 1
            return
        if self._zeros:
            raise _broken("a block of zeros stands within it")
        if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * 32:
            raise _broken("a header has a wrong checksum")
        kind = block[156:157]
        size = _number(block[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            if size > _EXTRA_MAX:
                raise _broken("a name or header in it is too long")
            self._extra = kind
        else:
            kind = FILE if kind in (b"\0", b"7") else kind
            pax, self._pax = self._pax, {}
            if any(key.startswith("GNU.sparse") for key in pax) or kind == b"S":
                raise _broken("it has a file with holes, which nobody asked for")
            name = _until_nul(block[:100])
            prefix = _until_nul(block[345:500]) if block[257:263] == b"ustar\0" else b""
            if prefix:
                name = prefix + b"/" + name
            if "size" in pax:
                size = _decimal(pax["size"])
            if kind in (HARDLINK, SYMLINK, DIRECTORY):
                size = 0
            mtime = float(_decimal(pax["mtime"].partition(b".")[0])) if "mtime" in pax else float(_number(block[136:148]))
            self._in_member = True
            self._sink.begin(Member(pax.get("path", name), kind, size, _number(block[100:108]) & 0o7777, mtime, pax.get("linkpath", _until_nul(block[157:257]))))
        self._left, self._padding = size, -size % BLOCK
        if not size:
            self._over()


def _until_nul(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes) -> int:
    """Octal, or as GNU writes what is too large for that."""
    if field[0] & 0x80:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if field[0] & 0x40 or value >= 1 << 62:
            raise _broken("a number in it makes no sense")
        return value
    text = field.strip(b" \0")
    try:
        return int(text, 8) if text else 0
    except ValueError:
        raise _broken("a number in it is none") from None


def _decimal(text: bytes) -> int:
    digits = text[1:] if text.startswith(b"-") else text
    if len(digits) > 18 or not digits.isdigit():
        raise _broken("a number in it is none")
    return 0 if digits is not text else int(digits)


def _records(data: bytes) -> Dict[str, bytes]:
    """Of a pax header: "LENGTH KEY=VALUE\\n"."""
    found: Dict[str, bytes] = {}
    while data:
        length, blank, _ = data.partition(b" ")
        if not blank or not length.isdigit() or len(length) > 6:
            raise _broken("a header of pax is none")
        end = int(length)
        record = data[len(length) + 1:end]
        if end > len(data) or not record.endswith(b"\n") or b"=" not in record:
            raise _broken("a header of pax is none")
        key, _, value = record[:-1].partition(b"=")
        if b"\0" in value:
            raise _broken(f"the value of {plain(key.decode('utf-8', 'replace'))[:40]!r} has a NUL in it")
        found[key.decode("utf-8", "replace")] = value
        data = data[end:]
    return found


# --- writing ---------------------------------------------------------------------------------------------------------


def header(name: str, kind: bytes, size: int, mode: int, mtime: float, target: str = "") -> bytes:
    """What stands before a member. Names are as os.fsdecode() gives them."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.mtime, info.linkname = kind, size, mode, int(mtime), target
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def padding(size: int) -> bytes:
    return b"\0" * (-size % BLOCK)


END = b"\0" * (2 * BLOCK)

