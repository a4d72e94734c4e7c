#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of what a kernel sends: corpus/{cell_messages,json_text}/NAME, small and each with a meaning.

    tests/fuzz/corpus/generate_kernel.py

Messages are written from kernel/README.md and Jupyter's messaging protocol. A name with "bad" in it is for what must be
refused.
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def write(target, name, data):
    directory = HERE / target
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(data)


def message(kind, content, **more):
    return json.dumps({"type": kind, "content": content, **more}).encode()


def display(kind="display_data", data=None, display_id=None, **more):
    transient = {} if display_id is None else {"display_id": display_id}
    return message(kind, {"data": data or {"text/plain": "x"}, "metadata": {}, "transient": transient, **more})


def said(name, *pieces):
    write("cell_messages", name, b"\0".join(pieces))


UPDATE = "update_display_data"
CLEAR, WAIT = (message("clear_output", {"wait": wait}) for wait in (False, True))
ERROR = message("error", {"ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31mValueError\x1b[0m", "no"]})

said("display", display(data={"text/plain": "caf\u00e9 \U0001f600", "image/png": "iVBORw0KGgo="}))
said("display-list", display(data={"text/html": ["<b>", "x\n", "</b>"], "text/x": ["a", 1], "text/y": 5}))
said("display-json", display(data={"application/json": {"a": [1, 2.5e3, None]}, "application/geo+json": []}))
said("display-number-id", display(display_id=5), display(UPDATE, display_id=5))
said("result", display("execute_result", execution_count=7))
said("result-large-count", display("execute_result", execution_count=1 << 70))
said("error", ERROR)
said("clear", CLEAR)
said("input", message("input_request", {"prompt": "? ", "password": True}))
said("comm", message("comm_open", {"comm_id": "c", "target_name": "t", "data": {}}, metadata={"v": 1}, buffers=["AAAA"]),
     message("comm_msg", {"comm_id": "c", "data": {"x": 1}}), message("comm_close", {"comm_id": "c"}))
said("unknown", message("status", {"execution_state": "busy"}))
said("text", b"\1out", b"\2err", b"\1\xe2\x82", b"\1\xac", b"\1\xff")
said("updates", display(display_id="a"), display(display_id="b"), display(UPDATE, {"text/plain": "new"}, "a"),
     display("execute_result", display_id="a", execution_count=1), display(UPDATE, {"text/plain": "newer"}, "a"))
said("clears", b"\1old", display(display_id="a"), CLEAR, b"\2kept", display(UPDATE, display_id="a"))
said("clears-wait", b"\1old", WAIT, b"\1new", WAIT, ERROR, WAIT)
said("reply", b"\3" + message("execute_reply", {"status": "ok", "execution_count": 3, "payload": []}))
said("reply-error", b"\3" + message("execute_reply", {"status": "error", "ename": "KeyboardInterrupt", "evalue": "",
                                                       "traceback": ["KeyboardInterrupt"], "execution_count": 4}))
said("reply-aborted", b"\3" + message("execute_reply", {"status": "aborted"}))
said("reply-bad-status", b"\3" + message("execute_reply", {"status": "fine"}))
said("keys-twice", b'{"type":"x","type":"error","content":{"ename":1,"ename":"E","evalue":"","traceback":[]}}')
said("space", b'\n{ "type"\t:\r\n"display_data" , "content" : { "data" : { "application/json" : [ 1 ,\n2 ] } } }\n')
said("surrogates", b'{"type":"display_data","content":{"data":{"text/plain":"\\ud800 \\udc00\\ud83d\\ude00 \\u2028 \xff\xc3"}}}')
said("long-mime", b'{"type":"display_data","content":{"data":{"application/' + b"\xff" * 230 + b'+json":1}}}')
said("bad-nan", b'{"type":"display_data","content":{"data":{"application/json":NaN}}}')
said("bad-traceback", message("error", {"ename": "E", "evalue": "", "traceback": [1]}))
said("bad-content", message("display_data", []))
said("bad-cut", ERROR[:-3])
said("bad-deep", b'{"type":"display_data","content":{"data":{"application/json":' + b"[" * 126 + b"]" * 126 + b"}}}")

for name, text in {
    "words": b'[true, false, null, {}, [], ""]',
    "numbers": b"[0, -0, 1.50, -2E+3, 1e-999, 123456789012345678901234567890]",
    "escapes": rb'"\"\\\/\b\f\n\r\t\u0000\u00e9\ud83d\ude00\u2028"',
    "halves": rb'["\ud800", "\udc00", "\ud800\u0041", "\ud800\ud83d\ude00", "\ud83d"]',
    "bytes": b'"\xff \xc3 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x80\xae \xc2\x85 \x7f"',
    "grows-most": b'"' + b"\x7f" * 80 + b'"',
    "space": b' \t\r\n{ "a" : [ 1 , 2 ]\n, "b c" :\n{ } } ',
    "keys-twice": rb'{"a": 1, "b": 2, "\u0061": 3}',
    "deepest": b"[" * 128 + b"]" * 128,
    "marks-in-strings": rb'{"}\"{": ["],[", ":", "\\"]}',
    "bad-deeper": b"[" * 129 + b"]" * 129,
    "bad-number": b"[1.]",
    "bad-zero": b"[01]",
    "bad-nan": b"[NaN]",
    "bad-control": b'["a\nb"]',
    "bad-escape": rb'"\u12"',
    "bad-open": b'{"a": [1, "b',
    "bad-rest": b"[] []",
    "bad-long-number": b"1" * 4097,
}.items():
    write("json_text", name, text)
