#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of Jupyter's framings: corpus/{jup_text,jup_binary,jup_v1}/NAME, small and each with a meaning.

    tests/fuzz/corpus/generate_jupyter.py

The framings are written down here a second time, from src/wire/jupyter.h and not from the code. A name with "bad" in it
is for what must be refused. Inputs of the binary targets begin with a byte that says whether a frame follows, or parts of
one with NULs between them.
"""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
RAW, PARTS = b"\0", b"\1"


def write(target, seeds):
    directory = HERE / target
    directory.mkdir(exist_ok=True)
    for name, data in seeds.items():
        (directory / name).write_bytes(data)


def text(value):
    return json.dumps(value, separators=(",", ":")).encode()


def header(kind="execute_request", **more):
    return {"msg_id": "a1", "session": "s1", "username": "u", "date": "2024-02-29T12:34:56.000001Z", "msg_type": kind,
            "version": "5.3", **more}


def message(**more):
    return {"header": header(), "parent_header": {}, "metadata": {}, "content": {"code": "1+1", "silent": False},
            "channel": "shell", "buffers": [], **more}


def table(word, parts, end=False, count=None, change=lambda offsets: offsets):
    size = struct.calcsize(word)
    offsets, at = [], size * (1 + len(parts) + end)
    for part in parts:
        offsets.append(at)
        at += len(part)
    offsets = change(offsets + [at] * end)
    numbers = [len(offsets) if count is None else count, *offsets]
    return b"".join(struct.pack(word, number) for number in numbers) + b"".join(parts)


def binary(parts, **more):
    return RAW + table(">I", parts, **more)


def v1(parts, **more):
    return RAW + table("<Q", parts, end=True, **more)


def moved(index, by):
    def change(offsets):
        offsets[index] += by
        return offsets
    return change


SMALLEST = {"header": {"msg_id": "a", "msg_type": "t"}}
BUFFERS = [b"\0\1\2", b"", b"\xff" * 9]
COMM = text(message(header=header("comm_msg"), content={"comm_id": "c", "data": {"x": 1}}))
FIVE = [b"shell", text(header()), b"{}", b"{}", text({"code": "print(1)\n"})]
REPLY = [b"stdin", text(header("input_reply")), text(header("input_request")), b"{}", text({"value": "caf\u00e9"})]

write("jup_text", {
    "execute": text(message()),
    "smallest": text(SMALLEST),
    "with-space": json.dumps(message(), indent=1).encode(),
    "beside": text({"header": {"session": ""}, "msg_id": "a", "msg_type": "t", "buffers": {}, "channel": None}),
    "empty-strings": text(message(header=header(session="", date="", username=None))),
    "input-reply": text(message(channel="stdin", parent_header=header("input_request"), content={"value": "x"})),
    "control": text(message(channel="control", header=header("interrupt_request", subshell_id=None))),
    "unknown": text(message(channel="hb", header=header("no_such_request"))),
    "nulls": text({**SMALLEST, "parent_header": None, "metadata": None, "content": None, "buffers": None}),
    "keys-twice": b'{"header":1,"header":{"msg_id":0,"msg_id":"a","msg_type":"t","x":1,"x":2},"content":[],"content":{}}',
    "escapes": rb'{"h\u0065ader":{"msg_id":"\ud83d\ude00\"","msg_type":"\u0074","\u0073ession":"\ud800"},"content":{"\u0000":1}}',
    "levels": b'{"header":{"msg_id":"a","msg_type":"t"},"content":' + b'{"a":' * 126 + b"{}" + b"}" * 127,
    "longest": text(message(header=header(msg_id="i" * 128, msg_type="t" * 64, session="s" * 128))),
    "bad-levels": b'{"header":{"msg_id":"a","msg_type":"t"},"content":' + b'{"a":' * 127 + b"{}" + b"}" * 128,
    "bad-id": text(message(header=header(msg_id="i" * 129))),
    "bad-id-type": text(message(header=header(msg_id=1))),
    "bad-no-id": text({"header": {"msg_type": "t"}}),
    "bad-header": text({"header": [], "msg_id": "a", "msg_type": "t"}),
    "bad-long-header": text(message(header=header(x="x" * 4096))),
    "bad-growing-header": text(SMALLEST)[:-2] + b',"x":"' + b"\x7f" * 700 + b'"}}',
    "bad-buffers": text(message(buffers=[1])),
    "bad-content": text(message(content=[])),
    "bad-parent": text(message(parent_header={"msg_id": 1})),
    "bad-channel": text(message(channel=1)),
    "bad-utf8": text(message())[:-1] + b',"x":"\xff"}',
    "bad-array": b"[]",
    "bad-cut": text(message())[:-5],
})

write("jup_binary", {
    "no-buffer": binary([COMM]),
    "buffers": binary([COMM, *BUFFERS]),
    "empty-buffers": binary([COMM, b"", b""]),
    "parts": PARTS + b"\0".join([COMM, b"one", b"", b"three"]),
    "most-parts": PARTS + text(SMALLEST) + b"\0" * 256,
    "bad-most-parts": PARTS + text(SMALLEST) + b"\0" * 257,
    "bad-none": binary([]),
    "bad-count": binary([COMM, *BUFFERS], count=0x40000001),
    "bad-count-less": binary([COMM, *BUFFERS], count=3),
    "bad-first": binary([COMM, *BUFFERS], change=moved(0, 1)),
    "bad-backwards": binary([COMM, *BUFFERS], change=lambda o: [o[0], o[2], o[1], o[3]]),
    "bad-behind": binary([COMM, *BUFFERS], change=moved(3, 100)),
    "bad-cut-table": binary([COMM, *BUFFERS])[:14],
    "bad-short": RAW + b"\0\0\0",
    "bad-json": binary([COMM[:-1], *BUFFERS]),
    "bad-buffers-twice": binary([text(message(buffers=[1])), *BUFFERS]),
})

write("jup_v1", {
    "execute": v1(FIVE),
    "buffers": v1(FIVE + BUFFERS),
    "empty-buffers": v1(FIVE + [b"", b""]),
    "input-reply": v1(REPLY),
    "nulls": v1([b"iopub", text(header()), b"null", b"null", b"null"]),
    "unknown": v1([b"", text(header("x")), b"{}", b" {}", b"{}\n"]),
    "parts": PARTS + b"\0".join(FIVE + [b"one", b"", b"three"]),
    "levels": PARTS + b"\0".join(FIVE[:4] + [b'{"a":' * 127 + b"{}" + b"}" * 127]),
    "most-parts": PARTS + b"\0".join(FIVE) + b"\0" * 256,
    "bad-most-parts": PARTS + b"\0".join(FIVE) + b"\0" * 257,
    "bad-few": v1(FIVE[:4]),
    "bad-count": v1(FIVE, count=(1 << 61) + 6),
    "bad-count-most": v1(FIVE, count=(1 << 64) - 1),
    "bad-count-less": v1(FIVE + BUFFERS, count=8),
    "bad-first": v1(FIVE, change=moved(0, 8)),
    "bad-last": v1(FIVE, change=moved(5, -1)),
    "bad-backwards": v1(FIVE, change=lambda o: [o[0], o[2], o[1], *o[3:]]),
    "bad-behind": v1(FIVE, change=moved(4, 1 << 40)),
    "bad-cut-table": v1(FIVE)[:40],
    "bad-left-over": v1(FIVE) + b"x",
    "bad-channel": v1([b"she\0l", *FIVE[1:]]),
    "bad-json": v1([*FIVE[:4], b"{"]),
    "bad-empty-part": v1([*FIVE[:2], b"", *FIVE[3:]]),
    "bad-utf8": v1([*FIVE[:4], b'{"a":"\xff"}']),
})
