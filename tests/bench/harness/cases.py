# SPDX-License-Identifier: Apache-2.0
"""What is measured: one row per case. A new case is a new row; a new way of measuring is a function in kinds.py.

The first peer of a row is the one the others are compared with.
"""
import dataclasses
import typing

from . import kinds
from .peers import PEERS, Work

MIB = 1 << 20
FLOOD_BYTES = 256 * MIB

PRINT = Work("python", "print(1)", b"1\n")
HEAVY = Work("python", "import numpy, pandas; print(1)", b"1\n")
TRUE = Work("shell", "true", b"")
FLOOD = Work("python", f"import os\nb = b'x' * 65536\nfor _ in range({FLOOD_BYTES // 65536}): os.write(1, b)",
             None)
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

    def members(self):
        return [PEERS[name] for name in self.peers]


CASES = [
    Case("one shot", "print", kinds.latency, PRINT,
         ("python3", "python3 -I -S", "bwrap", "crun", "runc", "runsc", "glovebox"),
         "`print(1)` from nothing to the end of everything, ms"),
    Case("one shot", "numpy-pandas", kinds.latency, HEAVY,
         ("python3", "bwrap", "crun", "runc", "runsc", "glovebox"),
         "the same with `import numpy, pandas`, ms", needs=("numpy", "pandas")),
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
]
