#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz targets: corpus/TARGET/NAME, small and each with a meaning.

    tests/fuzz/corpus/generate.py

The formats are written down here a second time, from the headers in src/wire and not from the code. A name with "bad"
in it is for what must be refused. Run it again when a format or policy/limits.tbl changes: seeds that are refused
at once teach the fuzzer little. Files with other names, such as inputs that once broke a target, stay.
"""
import pathlib
import re
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True

import tars  # noqa: E402: found by the line above


def write(target, name, data):
    directory = HERE / target
    directory.mkdir(exist_ok=True)
    (directory / name).write_bytes(data)


def string(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<I", len(data)) + data


# --- tables -----------------------------------------------------------------------------------------------------


def rows(path, macro):
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    return [m.group(1) for m in re.finditer(macro + r"\(((?:[^()]|\([^()]*\))*)\)", text)]


def frame_types():
    return {row.split(",")[0].strip(): number + 1 for number, row in enumerate(rows("src/wire/frames.tbl", "FRAME"))}


def limit_defaults():
    shift = {"KIB": 10, "MIB": 20, "GIB": 30, "TIB": 40}
    values = []
    for row in rows("policy/limits.tbl", "LIMIT"):
        word = row.split(",")[4].strip()
        m = re.fullmatch(r"(\w+)\((\d+)\)", word)
        values.append(int(m.group(2)) << shift[m.group(1)] if m else int(word))
    return values


# --- messages ---------------------------------------------------------------------------------------------------

FRAME = frame_types()
FILE, CELL = 1, 2  # kinds of jobs


def frame(name, payload=b"", flags=0, job=1, number=0):
    return struct.pack("<IHHQQ", len(payload), FRAME[name], flags, job, number) + payload


def job_spec(argv, env=(), kind=0, flags=0, cwd="/workspace", timeout_us=0, counts=None):
    argc, envc = counts or (len(argv), len(env))
    head = struct.pack("<BIQQQQQHH", kind, flags, timeout_us, 1 << 24, 0, 0, 0, 24, 80)
    return (head + string(cwd) + struct.pack("<HH", argc, envc) +
            b"".join(map(string, argv)) + b"".join(map(string, env)))


def job_exit(how, code, flags=0, stage="", only=""):
    return struct.pack("<BIIQQQQQQ", how, code, flags, 1000, 600, 300, 9 << 20, 12, 0) + string(stage) + string(only)


def record(kind, path, size=3, flags=0, target=""):
    rest = kind.encode() + struct.pack("<BIQQQQ", flags, 0o100644, size, 10**18, 10**18, 4711) + string(path) + string(target)
    return struct.pack("<I", len(rest)) + rest


READY, CREATE, MODIFY, ATTRIB, DELETE, MOVE, OVERFLOW = range(7)


def change(what, path="", to="", directory=0):
    rest = struct.pack("<BB", what, directory) + string(path) + string(to)
    return struct.pack("<I", len(rest)) + rest


def box_request(flags=0, waived=0, limits=None, image=0, mounts=(), environment=0):
    limits = limits if limits is not None else limit_defaults()
    data = struct.pack("<IQH", flags, waived, len(limits)) + struct.pack(f"<{len(limits)}Q", *limits)
    data += struct.pack("<IIH", image, environment, len(mounts))
    for root, read_only, path, at in mounts:
        data += struct.pack("<HB", root, read_only) + string(path) + string(at)
    return data


def box_limits(limits=None, count=None):
    limits = limits if limits is not None else limit_defaults()
    return struct.pack("<QH", 7, len(limits) if count is None else count) + struct.pack(f"<{len(limits)}Q", *limits)


# --- the seeds --------------------------------------------------------------------------------------------------


def seeds_frame():
    hello = frame("HELLO", struct.pack("<IIQ", 2, 2, 0), job=0)
    run = frame("RUN", job_spec(["python3", "main.py"], ["PATH=/bin"]))
    to_box = {
        "hello": hello,
        "run": hello + run,
        "input": hello + run + frame("INPUT", b"abc", number=0) + frame("INPUT_END", number=3),
        "signal": frame("SIGNAL", struct.pack("<II", 15, 0)) + frame("RESIZE", struct.pack("<HH", 24, 80)),
        "ack": frame("ACK", number=2) * 3,
        "limits": hello + frame("LIMITS", struct.pack("<4Q", 1024, 65536, 257, 0), job=0),
        "cell": hello + frame("RUN", job_spec(["1"], kind=CELL, flags=2), job=2) + frame("INPUT", b"{}", job=2) +
        frame("INPUT_END", job=2, number=2) + frame("TELL", b"a line", job=2, number=3) + frame("TELL", flags=1, job=2),
    }
    ended = frame("EXIT", job_exit(0, 0), number=4)
    from_box = {
        "started-output-exit": hello + frame("STARTED", struct.pack("<I", 7), number=1) +
        frame("OUTPUT", b"out", flags=1, number=2) + frame("OUTPUT", b"err", flags=2, number=3) + ended,
        "messages": hello + frame("STARTED", struct.pack("<I", 7), number=1) + frame("MESSAGE", b'{"type":', flags=1, number=2) +
        frame("MESSAGE", b'"x"}', number=3) + frame("MESSAGE", b"{}", flags=2, number=4) + frame("EXIT", job_exit(0, 0), number=5) +
        frame("OUTPUT", b"late", flags=0x8001, number=6) + frame("MESSAGE", b"", flags=0x8000, number=7),
        "refused": frame("REFUSED", struct.pack("<I", 11) + string("too many jobs at once")) + frame("INPUT_ACK", number=5),
        "cut-in-payload": hello + frame("OUTPUT", b"x" * 100, flags=1, number=1)[:-50],
        "cut-in-header": ended + hello[:11],
        "bad-type": hello + struct.pack("<IHHQQ", 0, 99, 0, 1, 0),
        "bad-length": hello + struct.pack("<IHHQQ", 0xffffffff, FRAME["OUTPUT"], 1, 1, 1) + b"x" * 30,
        "bad-empty-output": frame("OUTPUT", b"", flags=1),
        "wrong-direction": frame("ACK", number=1) + frame("INPUT_ACK", number=1),
    }
    for cut, (name, stream) in enumerate({**to_box, **from_box}.items()):
        write("frame", name, bytes([cut * 37 & 0xff]) + stream)


def seeds_toolmsg():
    types = {row.split(",")[0].strip(): number + 1 for number, row in enumerate(rows("src/wire/toolmsg.tbl", "TOOLMSG"))}

    def message(name, body=b"", number=1, length=None, zero=0):
        return struct.pack("<IHHQ", len(body) if length is None else length, types[name], zero, number) + body

    call = message("CALL", string("") + string("memory") + string("read_graph") + struct.pack("<Q", 60000000) + b"{}")
    result = message("RESULT", struct.pack("<BQ", 0, 0) + b'{"content": []}')
    inputs = {
        "call": b"\x01" + call + message("CANCEL"),
        "list": b"\x07" + message("LIST", string("") + string("memory") + struct.pack("<Q", 1)),
        "server": b"\x03" + message("SERVER", string("box") + string("mine") + b'{"command": "x"}') + message("FORGET", string("box")),
        "box": b"\x02" + message("BOX") + message("NO_BOX", string("no room")),
        "result": b"\x05" + result + message("SAY", string("e") + string("s") + string("t")),
        "want": b"\x04" + message("BOX_WANT", string("memory") + struct.pack("<I", 1) + struct.pack("<HQ", 0, 1 << 25) + struct.pack("<I", 1) +
                                   string("/srv") + string("") + string("/mnt/x") + b"\x01") + message("BOX_END"),
        "bad-zero": b"\x01" + message("CANCEL", zero=1),
        "bad-length": b"\x01" + message("CALL", length=0xffffffff),
        "bad-direction": b"\x01" + call + result,
        "cut-in-body": b"\x02" + call[:-1],
    }
    for name, data in inputs.items():
        write("toolmsg", name, data)


def seeds_job_spec():
    write("job_spec", "exec", job_spec(["python3", "-u", "main.py"], ["PATH=/usr/bin:/bin", "HOME=/home/box"], timeout_us=10**7))
    write("job_spec", "smallest", job_spec([""], cwd=""))
    write("job_spec", "terminal", job_spec(["/bin/bash", "-l"], ["TERM=xterm"], flags=1))
    write("job_spec", "write", job_spec(["write", "dir/file", "644", "", ""], kind=FILE, flags=2))
    write("job_spec", "attended", job_spec(["list", "", "0", "", "1000"], kind=FILE, flags=512))
    write("job_spec", "bad-file", job_spec(["tree"], kind=FILE))
    write("job_spec", "bad-file-terminal", job_spec(["tree", "."], kind=FILE, flags=1))
    write("job_spec", "bad-attended", job_spec(["python3"], flags=512 | 8))
    write("job_spec", "kernel", job_spec(["/usr/bin/python3"], flags=8 | 16 | 64 | 128))
    write("job_spec", "cell", job_spec(["1"], kind=CELL, flags=2 | 128, timeout_us=10**7))
    write("job_spec", "bad-cell", job_spec(["1"], kind=CELL, flags=2 | 4))
    write("job_spec", "bad-kernel", job_spec(["1"], flags=64))
    write("job_spec", "tree", job_spec(["tree", "."], kind=FILE))
    write("job_spec", "many", job_spec([""] * 40, [""] * 40))
    write("job_spec", "bad-kind", job_spec(["x"], kind=200))
    write("job_spec", "bad-flags", job_spec(["x"], flags=0x100))
    write("job_spec", "bad-nul", job_spec([b"a\0b"]))
    write("job_spec", "bad-no-argument", job_spec([], ["A=1"]))
    write("job_spec", "bad-count", job_spec(["x"], counts=(3, 0)))
    write("job_spec", "bad-counts-without-strings", job_spec([], cwd="", counts=(4096, 4096)))
    write("job_spec", "bad-left-over", job_spec(["x"]) + b"\0")
    write("job_spec", "bad-length", job_spec(["x"])[:-5] + struct.pack("<I", 0xfffffffe) + b"x")


def seeds_job_exit():
    write("job_exit", "exited", job_exit(0, 3))
    write("job_exit", "signaled", job_exit(1, 9, flags=1))
    write("job_exit", "failed", job_exit(2, 2, stage="exec"))
    write("job_exit", "longest-stage", job_exit(2, 2, flags=7, stage="s" * 31))
    write("job_exit", "bad-stage", job_exit(2, 2, stage="s" * 32))
    write("job_exit", "bad-how", job_exit(3, 0))
    write("job_exit", "bad-code", job_exit(0, 0x80000000))
    write("job_exit", "kernel-died", job_exit(1, 9, flags=0x11))
    write("job_exit", "bad-flags", job_exit(0, 0, flags=0x20))
    write("job_exit", "bad-short", job_exit(0, 0)[:-1])


def seeds_listing():
    tree = (record("d", "dir") + record("f", "dir/file.txt") + record("l", "dir/link", target="/etc/passwd") + record("o", "dir/pipe"))
    deep = "/".join("abcdefghij"[i % 10] * 7 for i in range(40))
    seeds = {
        "tree": tree,
        "one": record("f", "x"),
        "new": record("f", "x", flags=1),
        "top": record("d", "."),
        "then-bytes": record("f", "x", flags=1) + b"the bytes of the file",
        "longest": record("l", "/".join(["p" * 255] * 16), target="t" * 4095),
        "deep": record("f", deep),
        "names": record("f", "a b") + record("f", "...") + record("f", "caf\u00e9") + record("f", b"\xff\xfe") +
        record("f", "a\x1b[2J"),
        "empty": b"",
        "cut": tree[:-3],
        "cut-in-length": tree + b"\x2a\0",
        "bad-path-up": record("f", "../../etc/passwd"),
        "bad-path-absolute": tree + record("f", "/etc/passwd"),
        "bad-flags": record("f", "x", flags=2),
        "bad-target": record("f", "x", target="y"),
        "bad-target-long": record("l", "x", target="t" * 4096),
        "bad-path-dot": record("f", "./x"),
        "bad-path-empty": record("f", ""),
        "bad-path-nul": record("f", b"a\0b"),
        "bad-type": record("c", "device"),
        "bad-length-zero": tree + struct.pack("<I", 0) + b"x",
        "bad-length-large": struct.pack("<I", 0xffffffff) + b"x" * 20,
        "bad-left-over": struct.pack("<I", 48) + record("f", "x")[4:] + b"y",
    }
    for cut, (name, stream) in enumerate(seeds.items()):
        write("listing", name, bytes([cut * 37 & 0xff, 0]) + stream)
    write("listing", "stopped", bytes([5, 2]) + tree)


def seeds_watch():
    stream = change(READY) + change(CREATE, "dir", directory=1) + change(CREATE, "dir/a") + change(MODIFY, "dir/a") + change(ATTRIB, "dir/a")
    moved = change(MOVE, "dir/a", "b") + change(DELETE, "dir", directory=1) + change(OVERFLOW)
    seeds = {
        "stream": stream + moved,
        "one": change(READY),
        "names": change(CREATE, "a\nb") + change(CREATE, b"\xff") + change(MOVE, "a b", "..."),
        "longest": change(MOVE, "/".join(["p" * 255] * 16), "/".join(["q" * 255] * 16)),
        "empty": b"",
        "cut": stream[:-2],
        "bad-what": change(7, "a"),
        "bad-directory": change(CREATE, "a", directory=2),
        "bad-path-up": stream + change(CREATE, "../a"),
        "bad-path-absolute": change(DELETE, "/etc/passwd"),
        "bad-path-empty": change(CREATE),
        "bad-path-of-ready": change(READY, "a"),
        "bad-to": change(CREATE, "a", "b"),
        "bad-to-missing": change(MOVE, "a"),
        "bad-length-zero": stream + struct.pack("<I", 0) + b"x",
        "bad-length-large": struct.pack("<I", 0xffffffff) + b"x" * 20,
        "bad-left-over": struct.pack("<I", 12) + change(CREATE, "a")[4:] + b"y",
    }
    for cut, (name, data) in enumerate(seeds.items()):
        write("watch", name, bytes([cut * 37 & 0xff, 0]) + data)
    write("watch", "stopped", bytes([5, 2]) + stream)


def seeds_fileop():
    def read(size, start="0", count="", if_range="", if_none_match=""):
        return bytes([size]) + "\n".join((start, count, if_range, if_none_match)).encode()

    tag = '"1-64-0-0"'  # of 100 bytes
    write("fileop", "whole", read(100))
    write("fileop", "empty", read(0))
    write("fileop", "range", read(100, "10", "20"))
    write("fileop", "range-of-empty", read(0, "0", "1"))
    write("fileop", "last", read(100, "-30"))
    write("fileop", "last-of-many", read(100, "-300"))
    write("fileop", "behind", read(100, "100"))
    write("fileop", "huge", read(100, "1", "18446744073709551616"))
    write("fileop", "same", read(100, "10", "20", tag))
    write("fileop", "another", read(100, "10", "20", '"x"'))
    write("fileop", "unchanged", read(100, if_none_match=tag))
    write("fileop", "unchanged-weak", read(100, if_none_match='"a,b", W/' + tag))
    write("fileop", "any", read(100, if_none_match=" *"))
    write("fileop", "changed", read(100, if_none_match='"x", W/"y"'))
    write("fileop", "bad-tags", read(100, if_none_match='x, ' + tag))
    write("fileop", "bad-number", read(100, "--1"))
    write("fileop", "bad-huge", read(100, "1", "81446744073709551616J"))


def seeds_ops():
    mounts = [(0, 1, "", "/mnt/data"), (1, 0, "a/b", "/workspace/b")]
    request, info, figures, failed, limits = b"\0", b"\1", b"\2", b"\3", b"\4"
    steps = len(rows("policy/plan.tbl", "STEP"))
    write("ops", "request", request + box_request())
    write("ops", "request-root-mounts", request + box_request(flags=1, mounts=mounts))
    write("ops", "request-all-mounts", request + box_request(mounts=[(i, 0, f"p{i}", f"/m{i}") for i in range(16)]))
    write("ops", "request-bad-mounts", request + box_request(mounts=[(i, 0, "", "/m") for i in range(17)]))
    write("ops", "request-spare", request + box_request(flags=2 | 8 | 16, image=3))
    write("ops", "request-bad-flags", request + box_request(flags=1 << 31))
    write("ops", "request-bad-waived", request + box_request(waived=1 << 63))
    write("ops", "request-bad-limit", request + box_request(limits=[1] * len(limit_defaults())))
    write("ops", "request-bad-limits", request + box_request(limits=[1]))
    write("ops", "request-bad-path", request + box_request(mounts=[(0, 0, "../x", "/m")]))
    write("ops", "request-bad-place", request + box_request(mounts=[(0, 0, "x", "m")]))
    write("ops", "info", info + struct.pack(f"<QQQII{steps}I", 1, 0xffffff, 9000, 3, 2, *range(steps)))
    write("ops", "figures", figures + struct.pack("<6Q", 1, 2, 3, 4, 0, 7))
    write("ops", "failed", failed + struct.pack("<II", 4, 1) + string("make a box, step 'proc'") + string("'glovebox doctor' says why"))
    write("ops", "limits", limits + box_limits())
    write("ops", "limits-bad-value", limits + box_limits([1] * len(limit_defaults())))
    write("ops", "limits-bad-count", limits + box_limits(count=3))
    write("ops", "limits-bad-left-over", limits + box_limits() + b"\0")
    write("ops", "failed-bad-kind", failed + struct.pack("<II", 99, 0) + string("") + string(""))


def seeds_rlimits():
    write("rlimits", "plain", struct.pack("<4Q", 1024, (256 << 20) + 65536, 257, 0))
    write("rlimits", "with-seconds", struct.pack("<4Q", 16, 5000, 5, 3))
    write("rlimits", "bad-none", struct.pack("<4Q", 0, 5000, 5, 3))
    write("rlimits", "bad-many", struct.pack("<4Q", 1 << 40, 5000, 5, 3))
    write("rlimits", "bad-short", struct.pack("<3Q", 16, 5000, 5))


def seeds_chan():
    def message(fds, body, headers=1, length=None):
        return struct.pack("<BH", fds | (headers - 1) << 4, len(body) if length is None else length) + body

    def whole(kind, body=b"", request=1):
        return struct.pack("<HHIQ", kind, 0, 0, request) + body

    write("chan", "hello", message(0, whole(1, struct.pack("<II", 1, 1))))
    write("chan", "one-fd", message(1, whole(128, b"answer")))
    write("chan", "four-fds", message(4, whole(2, b"x")) + message(0, whole(3)))
    write("chan", "two-headers", message(4, whole(2), headers=2))
    write("chan", "bad-five-fds", message(5, whole(2)) + message(0, whole(3)))
    write("chan", "bad-fifteen-fds", message(15, whole(2), headers=4) + message(1, whole(3)))
    write("chan", "bad-short", message(2, whole(2)[:15]) + message(0, b"x"))
    write("chan", "bad-long", message(1, whole(2), length=0x8000 | 16) + message(0, whole(3)))
    write("chan", "empty", message(3, b"") + message(0, b""))


def seeds_str():
    texts = ["0", "18446744073709551615", "18446744073709551616", "512", "64k", "1.5G", "256MiB", "8388607.999999T",
             "0.5s", "250ms", "3min", "2562047788h", "0.001", "9223372036854775807", "1.", ".5", "-1", "1e9", "",
             "a/b/c", "/a/b", "../a", "a/./b", "a//b", "caf\u00e9/...", "a\nb", "x" * 255, "x" * 256,
             "/".join(["n" * 200] * 20), "/".join(["n" * 200] * 21)]
    for i, text in enumerate(texts):
        write("str", f"{i:02}", text.encode())


def seeds_json():
    def text(b):
        return bytes([len(b)]) + b

    write("json", "nothing", b"")
    write("json", "string", b"\0" + text(b"hello \"world\"\\\n"))
    write("json", "bytes", b"\1\5\0\xff\xc3\xa9\0x")
    write("json", "numbers", b"".join(bytes([c]) + struct.pack(">Q", v) for c in (2, 3, 4) for v in (0, 1, 1 << 63, 2**64 - 1)))
    write("json", "words", b"\5\0\5\1\6")
    write("json", "object", b"\x08" + b"\2" + text(b"key") + b"\0" * 8 + b"\6" + text(b"k\xff") + b"\7" + text(b"") + b"\6")
    write("json", "nested", b"\x09" * 8 + b"\x06" + b"\7" * 4 + b"\6" * 2)
    write("json", "utf8", "caf\u00e9 \u20ac \U0001f600 \x7f\x01".encode())
    write("json", "bad-utf8", b"\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82 \xf0\x9f\x98 \xff")


def environment(number=1, name="research", kind=0, python="/opt/environment/bin/python3", path="", imports="numpy sklearn.svm",
                variables=b"LANG=C.UTF-8\0EMPTY=\0", version="3.12.4", cells=1, pool=2, tree="/e/research@1/tree", gone=0):
    return struct.pack("<I", number) + string(name) + struct.pack("<B", kind) + string(python) + string(path) + string(imports) + \
        string(variables) + string(version) + struct.pack("<BIQQ", cells, pool, 1 << 30, 1795107546394) + string(tree) + struct.pack("<B", gone)


def seeds_envtable():
    good = environment()
    inputs = {
        "packages": good,
        "root": environment(3, "slim", 1, "/usr/local/bin/python3", "/usr/local/bin:/usr/bin", "", b"", tree="", gone=1),
        "two": good + environment(2, "0.x_y-z"),
        "no-python": environment(python="", version="", cells=0, variables=b""),
        "bad-number": environment(0),
        "bad-name": environment(name="python3"),
        "bad-kind": environment(kind=2),
        "bad-python": environment(python="/a/../b"),
        "bad-variables": environment(variables=b"A=1\0=2\0"),
        "bad-end": environment(variables=b"A=1"),
        "bad-cells": environment(cells=2),
        "bad-second": good + environment(gone=2),
        "bad-cut": good[:-1],
    }
    for name, data in inputs.items():
        write("envtable", name, data)


def seeds_tar_guard():
    """The first byte says how to cut; an odd one has the checksums put right."""
    a, directory, hard = tars.file("a", "abc"), tars.head("d/", "5"), tars.head("h", "1", link="a")
    soft = tars.head("l", "2", link="a")
    inputs = {
        "posix": directory + tars.file("d/f", "hello") + soft + hard,
        "gnu": tars.long_name("n" * 150) + tars.long_name("t" * 150, "K") + tars.head("x", "2", magic=tars.GNU) + a,
        "v7": tars.head("d/", b"\0", magic=tars.V7) + tars.file("d/f", "hello", magic=tars.V7),
        "pax": tars.pax(path="p" * 120, mtime="1.5") + tars.file("x", "abc") + tars.pax(size="3") + tars.head("y") + tars.pad("abc"),
        "global": tars.pax(comment="c", kind=b"g") + a,
        "label": tars.head("label", "V", magic=tars.GNU) + a,
        "base-256": tars.head("b", size=tars.base256(3)) + tars.pad("abc"),
        "sparse-old": tars.old_sparse("s", [(i * 1024, 1) for i in range(30)], b"x" * 30, 1 << 20),
        "sparse-0.0": tars.pax_sparse("s", [(0, 1), (600, 2)], b"abc", 1024, "0.0"),
        "sparse-0.1": tars.pax_sparse("s", [(0, 1), (600, 2)], b"abc", 1024, "0.1"),
        "sparse-1.0": tars.pax_sparse("s", [(0, 1), (600, 2)], b"abc", 1024, "1.0"),
        "nothing": b"",
        "bad-device": tars.head("c", "3"),
        "bad-volume": tars.head("m", "M", 3, magic=tars.GNU) + tars.pad("abc"),
        "bad-negative": tars.head("n", size=b"\xff" * 12),
        "bad-hard-link": tars.head("h", "1", 3, link="a") + tars.pad("abc"),
        "bad-directory": tars.head("d", "5", 3) + tars.pad("abc"),
        "bad-global": tars.pax(path="g", kind=b"g") + a,
        "bad-pax": tars.extra("x", "9 path=a") + a,
        "bad-two": tars.pax(path="a") + tars.long_name("b") + a,
        "bad-map": tars.head("s", "0", magic=tars.GNU, fields={386: tars.octal(0, 12)}) + a,
        "bad-sum": tars.head("s", checksum=b"0000000\0"),
    }
    for name, data in inputs.items():
        write("tar_guard", name, b"\1" + data + tars.END)
    write("tar_guard", "bad-cut", b"\0" + a)
    write("tar_guard", "bad-behind", b"\0" + tars.END + a)
    write("tar_guard", "tail", b"\0" + a + b"\0" * 10240)


for make in (seeds_frame, seeds_toolmsg, seeds_job_spec, seeds_job_exit, seeds_listing, seeds_watch, seeds_fileop, seeds_ops, seeds_rlimits, seeds_chan, seeds_str, seeds_json,
             seeds_envtable, seeds_tar_guard):
    make()
