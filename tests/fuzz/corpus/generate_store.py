#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz target `store`: corpus/store/NAME, small and each with a meaning.

    tests/fuzz/corpus/generate_store.py

The formats are written down here a second time, from src/wire/store.h and not from the code. A name with "bad" in it is
for what must be refused.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent / "store"
ID = "01234567-89ab-4cde-8f01-23456789abcd"
PUT, COMMIT, ABORT, GET, NAME, AUDIT, META, FIGURES, FAILURE, LIST = range(10)


def string(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<I", len(data)) + data


def write(name, decoder, *parts):
    (HERE / name).write_bytes(bytes([decoder]) + b"".join(parts))


def u64(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def meta(file_id=ID, name="report.csv", sha256=b"\x5a" * 32):
    return string(file_id) + string(name) + u64(1000, 1700000000000000) + string(sha256)


HERE.mkdir(exist_ok=True)
write("put", PUT, string("acme"), string("a.txt"), u64(1 << 20), string(""))
write("put-unless", PUT, string(""), string("dir/ü"), u64(0), string(b"\xa5" * 32))
write("put-bad-hash", PUT, string("acme"), string("a.txt"), u64(1), string(b"\xa5" * 31))
write("put-bad-nul", PUT, string(b"a\0b"), string("a.txt"), u64(1), string(""))
write("commit", COMMIT, u64(7, 1000))
write("abort", ABORT, u64(7))
write("abort-bad-rest", ABORT, u64(7), b"\0")
write("get", GET, string("acme"), string(ID), u64(0, 0))
write("get-range", GET, string("acme"), string("../x"), u64(1 << 40, 1))
write("get-bad-id", GET, string("acme"), string("i" * 65), u64(0, 0))
write("name", NAME, string("acme"), string(ID))
write("name-empty", NAME, string(""), string(""))
write("name-bad-length", NAME, struct.pack("<I", 0xffffffff), b"acme", string(ID))
write("audit", AUDIT, string('{"event":"box","id":1}'))
write("audit-bad-newline", AUDIT, string("a\nb"))
write("meta", META, meta())
write("meta-bad-id", META, meta(ID.upper()))
write("meta-bad-hash", META, meta(sha256=b""))
write("figures", FIGURES, u64(1, 2, 3, 4, 5, 6))
write("failure", FAILURE, struct.pack("<I", 2), string("write an upload: No space left on device"))
write("failure-bad-reason", FAILURE, struct.pack("<I", 99), string(""))
write("list-empty", LIST, struct.pack("<BH", 0, 0))
write("list", LIST, struct.pack("<BH", 1, 3), meta(), meta(name=""), meta(name="x" * 300))
write("list-bad-count", LIST, struct.pack("<BH", 0, 4), meta(), meta())
write("list-bad-rest", LIST, struct.pack("<BH", 0, 1), meta(), b"\0")
