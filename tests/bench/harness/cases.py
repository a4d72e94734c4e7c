# SPDX-License-Identifier: Apache-2.0
"""What is measured: one row per case. A new case is a new row; a new way of measuring is a function in kinds.py.

The first peer of a row is the one the others are compared with. `promise` names what is promised, see promises.py.
"""
import dataclasses
import typing

from . import hostile, imports, kernels, kinds, net, packages, server_kinds, session_kinds
from .peers import PEERS, Work

MIB = 1 << 20
FLOOD_BYTES = 256 * MIB

PRINT = Work("python", "print(1)", b"1\n")
HEAVY = Work("python", "import numpy, pandas; print(1)", b"1\n")
TRUE = Work("shell", "true", b"")
CALL = Work("python", "mcptools.everything.echo.run(message='x')", b"")
PACKAGED = Work("python", packages.CODE, b"1\n")
REACH = Work("shell", "true", b"")
ASSIGN = Work("python", "x = 1", b"")
# The last line is the call, which a server makes by itself.
HANDLER = "def handler(event):\n    print(1)\n    return 1\nhandler({})"
HANDLE = Work("python", HANDLER, b"1\n")
HANDLE_HEAVY = Work("python", f"import numpy, pandas\n{HANDLER}", b"1\n")


def flood_of(size):
    return Work("python", f"import os\nb = b'Z' * 65536\nfor _ in range({size // 65536}): os.write(1, b)", None)


def lines_of(times):
    line = ("0123456789" * 8)[:79]
    return kernels.Printing(f"line = '{line}'\nfor _ in range({times}): print(line)", f"{line}\n".encode(), times)


def pieces_of(times):
    return kernels.Printing("import sys\npiece = 'Z' * 65535 + '\\n'\n"
                            f"for _ in range({times}): sys.stdout.write(piece)", b"Z" * 65535 + b"\n", times)


FLOOD = flood_of(FLOOD_BYTES)
IDLE = Work("python", "import sys\nprint('ready')\nsys.stdin.read()", None)


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    name: str
    kind: typing.Callable
    work: Work
    peers: tuple
    what: str
    needs: tuple = ()
    options: dict = dataclasses.field(default_factory=dict)
    promise: str | None = None

    def members(self):
        return [PEERS[name] for name in self.peers]


FRAMINGS = ("jupyter_server, legacy framing", "jupyter_server, v1 framing", "glovebox serve, legacy framing",
            "glovebox serve, v1 framing")

CASES = [
    Case("one shot", "print", kinds.latency, PRINT,
         ("python3", "python3 -I -S", "bwrap", "crun", "runc", "runsc", "docker run", "glovebox",
          "glovebox serve, pool hit", "glovebox serve, pool miss", "glovebox serve, cold",
          "GET /health by the same client"),
         "`print(1)` from nothing to the end of everything, ms; over HTTP: to the end of the answer",
         options={"times": 2}, promise="P1"),
    Case("one shot", "numpy-pandas", kinds.latency, HEAVY,
         ("python3", "bwrap", "crun", "runc", "runsc", "docker run", "glovebox", "glovebox serve, pool hit",
          "glovebox serve, pool miss", "glovebox serve, cold"),
         "the same with `import numpy, pandas`, ms", needs=("numpy", "pandas"), promise="P2"),
    Case("shell", "true", kinds.latency, TRUE,
         ("bash", "sh", "bwrap", "crun", "runc", "runsc", "glovebox"),
         "`true` in bash (the shell of a box), ms; bare sh beside it"),
    Case("plan", "steps", kinds.plan, PRINT, ("glovebox --json",),
         "what each step of making a box costs, µs, as the keeper reports it"),
    Case("throughput", "flood", kinds.throughput, FLOOD,
         ("python3 | cat", "bwrap | cat", "glovebox --output-limit 0"),
         "256 MiB printed in 64 KiB writes to /dev/null, start and end included, MB/s",
         options={"bytes": FLOOD_BYTES}),
    Case("rate", "sustained", kinds.rate, PRINT, ("python3", "bwrap", "glovebox"),
         "`print(1)` one after the other on all cores, teardown included, per second"),
    Case("memory", "idle", kinds.memory, IDLE,
         ("bwrap", "crun", "runc", "runsc", "glovebox --stdin"),
         "processes of one idle box, KiB", options={"ready": b"ready\n"}),
    Case("sessions", "first-cell", kinds.latency, PRINT,
         ("ipykernel", "glovebox serve, session pool hit", "glovebox serve, session pool miss",
          "GET /health by the same client"),
         "a new session to the result of its first cell, `print(1)`, ms", options={"figure": "new session to first result"},
         promise="P3"),
    Case("sessions", "hot-cell", session_kinds.hot, ASSIGN,
         ("ipykernel", "glovebox serve, HTTP keep-alive", "glovebox serve, WebSocket", "glovebox serve, MCP", "GET /health by the same client",
          "answers without looking"),
         "`x = 1` in a session that is there, one after the other, ms", options={"figure": "hot cell"}, promise="P4"),
    Case("sessions", "burst", session_kinds.burst, PRINT,
         ("ipykernel", "glovebox serve, session pool 8", "glovebox serve, session pool 100"),
         "100 new sessions at once (ipykernel: 10), each to the result of its first cell, ms", promise="P5"),
    Case("sessions", "memory", session_kinds.idle_memory, ASSIGN, ("ipykernel", "glovebox serve, idle sessions"),
         "what a session occupies after one cell: MemAvailable before and after 1 000 of them (ipykernel: 10), MB",
         promise="P7"),
    Case("sessions", "growth", session_kinds.curve, PRINT, ("python3", "glovebox serve, live sessions"),
         "what everything costs while 1, 10, 100, 1 000 sessions live",
         options={"connections": 4, "works": (PRINT, HEAVY), "shots": PEERS["glovebox serve, pool hit"]},
         promise="P13"),
    Case("server", "sustained", server_kinds.sustained, PRINT, ("python3", "glovebox serve, lean image"),
         "fresh one-shots over 4 connections, teardown included, per second; python3 looped on all cores",
         options={"connections": 4}, promise="P6"),
    Case("server", "sustained-full", server_kinds.sustained, HEAVY, ("python3", "glovebox serve, full image"),
         "the same with `import numpy, pandas`, which is sent to the full image", needs=("numpy", "pandas"),
         options={"connections": 4}, promise="P6"),
    Case("server", "handlers", server_kinds.sustained, HANDLE, ("python3", "glovebox serve, handlers, lean image"),
         "calls of a handler by v2/execute_code, a fresh interpreter for each, over 4 connections, teardown included, per second",
         options={"connections": 4}, promise="P6"),
    Case("server", "handlers-full", server_kinds.sustained, HANDLE_HEAVY, ("python3", "glovebox serve, handlers, full image"),
         "the same with `import numpy, pandas`, which is sent to the full image", needs=("numpy", "pandas"),
         options={"connections": 4}, promise="P6"),
    Case("server", "files-tmpfs", server_kinds.transfer, None, ("cp", "glovebox serve, file limits raised"),
         "a file up and down, state directory in /dev/shm, GB/s",
         options={"on": "tmpfs", "bytes": 1024 * MIB, "quick_bytes": 32 * MIB}, promise="P8"),
    Case("server", "files-disk", server_kinds.transfer, None, ("cp", "glovebox serve, file limits raised"),
         "the same with the state directory on the file system of the build",
         options={"on": "disk", "bytes": 1024 * MIB, "quick_bytes": 32 * MIB}, promise="P8"),
    Case("server", "box-files", server_kinds.transfer, None,
         ("cp", "glovebox serve, a box with room", "glovebox serve, Sandbox Runtime", "glovebox serve, ipybox"),
         "a file into a box and out of it, by …/files and by the dialects that have files, GB/s; cp in /dev/shm",
         options={"on": "tmpfs", "bytes": 1024 * MIB, "quick_bytes": 32 * MIB}, promise="P8"),
    Case("server", "box-archive", server_kinds.trees, None, ("tar", "glovebox serve, a box with room"),
         "10 000 small files into a box and out of it as one tar, by …/archive, files per second; tar in /dev/shm",
         options={"on": "tmpfs", "bytes": 64 * MIB, "files": 10_000, "quick_files": 500}, promise="P8"),
    Case("server", "flood", server_kinds.flood, None, ("python3 | cat", "glovebox serve, output limit off"),
         "printed in 64 KiB writes, streamed as events, MB/s of payload",
         options={"work": flood_of, "character": "Z", "bytes": 1024 * MIB, "quick_bytes": 32 * MIB}, promise="P9"),
    Case("server", "start", server_kinds.starts, PRINT, ("glovebox serve, started anew",),
         "from its start to 'listening on' and to the first answer, ms; what it occupies when idle, MB",
         promise="P10"),
    Case("server", "requests", server_kinds.requests, None, ("answers without looking", "glovebox serve"),
         "small requests on 16 connections, per second", options={"connections": 16, "files": 10}, promise="P11"),
    Case("jupyter", "hot-cell", session_kinds.hot, ASSIGN,
         ("ipykernel", "jupyter_server, legacy framing", "jupyter_server, v1 framing", "glovebox serve, legacy framing",
          "glovebox serve, v1 framing", "GET /health by the same client"),
         "`x = 1` by `execute_request` on a kernel's channels, one after the other, to reply and idle, ms; ipykernel: by "
         "jupyter_client", options={"figure": "hot cell"}, promise="P4"),
    Case("jupyter", "print-lines", session_kinds.printed, None, FRAMINGS,
         "37 500 lines of 80 bytes by `print` in one cell, to reply and idle, MB/s of payload",
         options={"work": lines_of, "times": 37500, "quick_times": 37500}),
    Case("jupyter", "print-large", session_kinds.printed, None, FRAMINGS,
         "100 MB in 64 KiB writes by one cell, to reply and idle, MB/s of payload",
         options={"work": pieces_of, "times": 1526, "quick_times": 489, "large": True}),
    Case("jupyter", "burst", session_kinds.burst, PRINT,
         ("jupyter_server, v1 framing", "glovebox serve, kernels, session pool 8", "glovebox serve, kernels, session pool 200"),
         "200 new kernels at once (jupyter_server: 10), each to the end of its first cell, ms",
         options={"figure": "wall of 200 at once"}),
    Case("sdk", "hot-cell", session_kinds.hot, ASSIGN,
         ("http.client, one connection", "glovebox SDK, blocking", "glovebox SDK, asyncio", "glovebox serve, HTTP keep-alive"),
         "`x = 1` by the Python SDK in a session that is there, one after the other, ms; by http.client in the same Python; the last: by a client in C",
         options={"figure": "hot cell"}),
    Case("environments", "build", kinds.latency, PACKAGED, ("python3 -m venv, pip", "glovebox serve, a new environment"),
         "an environment of 20 packages from wheels in a folder, ms; and what imports all of them first in it",
         options={"figure": "build", "rounds": (10, 2)}),
    Case("environments", "start", kinds.latency, PACKAGED,
         ("python3 of a venv", "glovebox serve, environment, pool hit", "glovebox serve, environment, pool miss"),
         "`import` of 20 packages of an environment whose image is there, a new session to the result of its first cell, ms",
         options={"figure": "start to first result"}),
    Case("environments", "import", imports.imports, None, ("tar -x", "glovebox env import"),
         "an image of four layers, as an OCI layout, to the file system of the build, MB/s; tar: the same layers",
         options={"on": "disk", "bytes": 1024 * MIB, "quick_bytes": 64 * MIB, "compressed": False}),
    Case("environments", "import-gzip", imports.imports, None, ("tar -x", "glovebox env import"),
         "the same with layers compressed by gzip, MB/s of what comes out",
         options={"on": "disk", "bytes": 1024 * MIB, "quick_bytes": 64 * MIB, "compressed": True}),
    Case("tools", "call", session_kinds.hot, CALL, ("npm's sdk", "glovebox serve, tools"),
         "a tool of an MCP server, called by code in a box and answered, one call after the other, ms; npm's sdk: the same server, which it has started itself",
         options={"figure": "tool call"}),
    Case("tools", "loop", kinds.latency, CALL, ("npm's sdk", "glovebox serve, tools"),
         "1 000 such calls in a loop, for Glovebox in one cell: from the request to the answer, ms",
         options={"figure": "1 000 calls"}),
    Case("network", "connect", session_kinds.hot, REACH, ("without a box", "glovebox serve, a box with rules"),
         "a connection by name, until a byte has come back, one after the other, ms; the same program without a box",
         options={"figure": "connection and a byte back"}, promise="P15"),
    Case("network", "streams", net.streams, REACH, ("without a box", "glovebox serve, a box with rules"),
         "as much as goes out of one connection, and of 64 at once, MB/s", options={"streams": (1, 64)}, promise="P16"),
    Case("network", "names", session_kinds.hot, REACH, ("without a box, a server that answers without looking", "glovebox serve, names of a box"),
         "a question for the address of an allowed name and its answer, one after the other, ms",
         options={"figure": "answer"}, promise="P17"),
    Case("network", "boxes", kinds.latency, REACH, ("glovebox serve, network none", "glovebox serve, network allow"),
         "`POST /v1/boxes` from a pool, without a network and with rules, to its answer, ms", options={"figure": "box"}, promise="P18"),
    # The last one: the load average takes minutes to forget it.
    Case("sessions", "hostile", hostile.beside, ASSIGN,
         ("answers without looking", "glovebox serve, beside a hostile session"),
         "what others notice of a hostile session: `x = 1` in a session of theirs, and `GET /health`, ms",
         options={"acts": hostile.ACTS}, promise="P14"),
    Case("spared", "hostile", hostile.beside, ASSIGN,
         ("answers without looking", "glovebox serve, a processor kept free"),
         "the same with a processor that boxes may not use (spare_cpus), ms", options={"acts": hostile.ACTS}),
]
