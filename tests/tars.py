# SPDX-License-Identifier: Apache-2.0
"""tar archives made by hand, block by block: what no honest program would write.

An archive is bytes that are joined: head("a", size=3) + pad(b"abc") + END. Fields that are not named are what a program
would write; `fields` puts bytes at an offset of the block. The checksum is right unless it is given.
"""
import gzip

BLOCK = 512
END = b"\0" * (2 * BLOCK)
POSIX, GNU, V7 = b"ustar\x0000", b"ustar  \0", b"\0" * 8


def octal(value, width):
    return b"%0*o\0" % (width - 1, value)


def base256(value, width=12):
    return b"\x80" + value.to_bytes(width - 1, "big")


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def head(name, kind=b"0", size=0, link="", mode=0o644, magic=POSIX, mtime=0, prefix="", fields=None, checksum=None):
    """One block. size is a number or the 12 bytes of the field."""
    block = bytearray(BLOCK)

    def put(at, data):
        block[at:at + len(data)] = data

    put(0, as_bytes(name))
    put(100, octal(mode, 8))
    put(108, octal(0, 8))
    put(116, octal(0, 8))
    put(124, size if isinstance(size, bytes) else octal(size, 12) if size < 8**11 else base256(size))
    put(136, octal(mtime, 12))
    put(156, as_bytes(kind))
    put(157, as_bytes(link))
    put(257, magic)
    put(345, as_bytes(prefix))
    for at, data in (fields or {}).items():
        put(at, data)
    put(148, b" " * 8)
    put(148, b"%06o\0 " % sum(block) if checksum is None else checksum)
    assert len(block) == BLOCK
    return bytes(block)


def pad(data):
    data = as_bytes(data)
    return data + b"\0" * (-len(data) % BLOCK)


def file(name, data=b"", **kw):
    data = as_bytes(data)
    return head(name, size=len(data), **kw) + pad(data)


def extra(kind, data, magic=POSIX):
    """A header in front of a member: of type x, g, L or K."""
    data = as_bytes(data)
    return head("extra", kind, len(data), magic=magic) + pad(data)


def record(key, value):
    """One of a pax header: its length counts itself."""
    rest = b" " + as_bytes(key) + b"=" + as_bytes(value) + b"\n"
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length += 1
    return str(length).encode() + rest


def pax(*pairs, kind=b"x", **keys):
    return extra(kind, b"".join(record(key, value) for key, value in (*pairs, *keys.items())))


def long_name(name, kind=b"L"):
    return extra(kind, as_bytes(name) + b"\0", magic=GNU)


def old_sparse(name, parts, data, real_size, **kw):
    """GNU's first form: a map in the header, and in blocks behind it. parts: (offset, bytes)."""
    def entry(part):
        return octal(part[0], 12) + octal(part[1], 12)

    more = parts[4:]
    fields = {386: b"".join(map(entry, parts[:4])), 482: bytes([bool(more)]), 483: octal(real_size, 12)}
    out = head(name, "S", len(data), magic=GNU, fields=fields, **kw)
    while more:
        block = b"".join(map(entry, more[:21]))
        more = more[21:]
        out += block.ljust(504, b"\0") + bytes([bool(more)]) + b"\0" * 7
    return out + pad(data)


def pax_sparse(name, parts, data, real_size, minor):
    """GNU's later forms: 0.0, 0.1 and 1.0, by which a map is records, one record, or in front of the contents."""
    keys = [("GNU.sparse.size", str(real_size)), ("GNU.sparse.numblocks", str(len(parts)))]
    if minor == "0.0":
        for offset, count in parts:
            keys += [("GNU.sparse.offset", str(offset)), ("GNU.sparse.numbytes", str(count))]
    elif minor == "0.1":
        keys += [("GNU.sparse.name", name), ("GNU.sparse.map", ",".join(f"{o},{n}" for o, n in parts))]
    else:
        keys = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", name),
                ("GNU.sparse.realsize", str(real_size))]
        data = pad("".join([f"{len(parts)}\n"] + [f"{o}\n{n}\n" for o, n in parts])) + data
    return pax(*keys) + file(name, data)


def gz(data, **kw):
    return gzip.compress(data, mtime=0, **kw)
