# SPDX-License-Identifier: Apache-2.0
"""What others notice of a hostile session: their times while one does its worst, beside those of a quiet server.

An act is a cell in a session of its own that has the default limits. A thread asks for it, over and over, for as long as others are
measured; what that costs the machine, the thread's reading included, is part of the act.
"""
import dataclasses
import functools
import json
import random
import re
import socket
import threading
import time
import typing

from . import launch, server, sessions
from .kinds import Tally, company, row
from .server import connect, exchange, request

ROUNDS, ROUNDS_QUICK = 3, 1
# How often others ask, in microseconds, and how many times in each round.
CELL_US, CELLS, CELLS_QUICK = 5000, 250, 30
SMALL_US, SMALLS, SMALLS_QUICK = 1000, 1000, 100
PAUSELESS_MS, PAUSELESS_MS_QUICK = 1000, 100
GOING_S, STOP_S = 30, 20
PIECE, BEGINNING = 1 << 18, 2000
LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)", re.I)
STATUS = re.compile(rb'"status":"(\w+)"')
LAST_CHUNK = b"\r\n0\r\n\r\n"
BEFORE, AFTER = "quiet, before", "quiet, after"


# --- how an act is asked for --------------------------------------------------------------------------------------


def answered(attack):
    """One cell, its answer read whole and dropped, but for its beginning."""
    attack.send(attack.connection)
    got = b""
    while b"\r\n\r\n" not in got:
        got += attack.receive()
    head, _, body = got.partition(b"\r\n\r\n")
    length, read, tail = LENGTH.search(head), len(body), body
    while read < int(length[1]) if length else not tail.endswith(LAST_CHUNK):
        piece = attack.receive()
        read, tail = read + len(piece), (tail[-BEGINNING:] + piece)[-BEGINNING:]
        if len(body) < BEGINNING:
            body += piece
    attack.ended(body[:BEGINNING])


def followed(attack):
    """One cell, its events read as fast as they come."""
    attack.send(attack.connection, stream=True)
    tail = b""
    while not tail.endswith(LAST_CHUNK):
        tail = (tail + attack.receive()[-BEGINNING:])[-BEGINNING:]
    attack.ended(tail)


def unread(attack):
    """One cell, whose events nobody reads. A cell that waits behind it tells when it has ended."""
    with connect(attack.port) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        attack.send(deaf, stream=True)
        attack.ended(exchange(attack.connection, sessions.cell_request("pass", attack.box))[1])


def lasting(attack):
    """One cell that says when it goes on, and does so until its box is ended."""
    attack.send(attack.connection, stream=True, timeout_ms=None)
    said = b""
    while b'"up' not in said:
        said += attack.receive()
        if said.endswith(LAST_CHUNK):
            raise OSError(f"it ended: {said[-200:].decode(errors='replace')}")
    attack.times = 1
    while not said.endswith(LAST_CHUNK):  # which may come in pieces, too
        said = said[-200:] + attack.receive()
    raise OSError(f"it ended: {said[-200:].decode(errors='replace')}")


@dataclasses.dataclass(frozen=True)
class Act:
    name: str
    way: typing.Callable
    code: str
    ends: tuple = ()  # as what its cells may end; nothing: as anything
    fields: dict = dataclasses.field(default_factory=dict)
    crowd: bool = False  # it goes on when its box has as many processes as it may


FLOOD = "import os\nb = b'x' * 65536\nfor _ in range(272): os.write(1, b)"  # a little more than is kept
ZEROS = FLOOD.replace("b'x'", "bytes(1)")  # of which JSON has six bytes for one
# As many processes as a box has processors by default.
SPIN_ALL = "import os\nos.fork()\nprint('up')\nwhile True: pass"
NAMES = "'len', 'isinstance', 'str', 'print', 'type', 'open', 'Exception', 'dict'"

ACTS = [
    #   name                       way       code                                                       its cells end as
    Act("fork bomb",               lasting,  "import os\nprint('up')\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        crowd=True),
    Act("memory bomb",             answered, "x = []\nwhile True: x.append(bytearray(b'x') * (4 << 20))", ("oom",)),
    Act("output flood, read",      followed, FLOOD,                                                     ("ok",)),
    Act("output flood, not read",  unread,   FLOOD,                                                     ("ok",)),
    Act("output flood, one answer", answered, FLOOD,                                                    ("ok",)),
    Act("flood of zeros, one answer", answered, ZEROS,                                                  ("ok",)),
    Act("line flood, read",        followed, "for i in range(20000): print(i)",                         ("ok",)),
    Act("display flood, read",     followed, "for i in range(2000): display(i)",                        ("ok",)),
    Act("displays of 15 MiB, read", followed, "display({'text/plain': 'x' * (15 << 20)}, raw=True)",    ("ok",)),
    Act("os._exit",                answered, "import os; os._exit(3)",                                  ("crashed",)),
    Act("closes all descriptors",  answered, "import ctypes\nlibc = ctypes.CDLL(None)\nfor fd in range(2000): libc.close(fd)",
        ("crashed",)),
    Act("replaces builtins",       answered, f"import builtins\nsay = print\nfor n in ({NAMES}): setattr(builtins, n, None)\n"
        "for _ in range(100): say('x' * 100)"),
    Act("SIGSTOP to itself",       answered, "import os; os.kill(os.getpid(), 19)",                     ("timeout",),
        {"timeout_ms": 300}),
    Act("spins",                   lasting,  "print('up')\nwhile True: pass"),
    Act("spins, two processes",    lasting,  SPIN_ALL),
]


class Attack:
    """A session that does an act over and over, from begin() to stop()."""

    def __init__(self, running, act):
        self.server, self.port, self.act = running, running.port, act
        self.times, self.error, self.over = 0, None, False
        self.control, self.connection = connect(self.port), connect(self.port)
        status, body = exchange(self.control, sessions.CREATE)
        if status != 201:
            raise OSError(f"POST /v1/boxes answers {status}: {body[:150].decode(errors='replace')}")
        made = json.loads(body)
        self.box, self.limits = made["id"], made["limits"]
        self.thread = threading.Thread(target=self.run, daemon=True)

    def begin(self):
        """Returns when it goes on; OSError when it does not."""
        rest = self.server.rest
        server.await_rest(dataclasses.replace(rest, boxes=rest.boxes + 1), self.control)
        alone = len(launch.family(rest.keeper))
        self.thread.start()
        end = time.monotonic() + GOING_S
        while self.error is None and not (self.times and self.is_crowded(alone)):
            if time.monotonic() > end:
                raise OSError(f"{self.act.name}: it does not go on")
            time.sleep(0.02)
        if self.error:
            raise OSError(f"{self.act.name}: {self.error}")

    def is_crowded(self, alone):
        if not self.act.crowd:
            return True
        return len(launch.family(self.server.rest.keeper)) - alone >= self.limits["processes"] * 0.9

    def run(self):
        try:
            while not self.over:
                self.act.way(self)
        except (OSError, ValueError) as e:
            if not self.over:
                self.error = str(e)

    def send(self, connection, **fields):
        fields = {"code": self.act.code, **self.act.fields, **fields}
        connection.sendall(request("POST", f"/v1/boxes/{self.box}/cells", fields))

    def receive(self):
        piece = self.connection.recv(PIECE)
        if not piece:
            raise OSError("the connection was closed")
        return piece

    def ended(self, answer):
        """A cell has come to its end; part of the answer that says how."""
        found = STATUS.findall(answer)
        if not found or (self.act.ends and found[-1].decode() not in self.act.ends):
            raise OSError(f"a cell ended otherwise: {answer[-200:].decode(errors='replace')}")
        self.times += 1

    def cpu_ms(self):
        """Processor time of its box so far."""
        status, body = exchange(self.control, request("GET", f"/v1/boxes/{self.box}"))
        return (json.loads(body)["figures"] or {}).get("cpu_ms") or 0 if status == 200 else 0

    def stop(self):
        self.over = True
        sessions.delete(self.control, self.box)
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the server was first
        if self.thread.ident is not None:
            self.thread.join(STOP_S)
        self.connection.close()
        self.control.close()
        self.server.await_rest()


# --- the way of measuring -----------------------------------------------------------------------------------------


class Point:
    """One series beside one act: what came of it in all rounds."""

    def __init__(self, tally):
        self.tally = Tally(tally.peer, tally.opened)
        self.acts, self.cpu_ms, self.wall_ms, self.limits = 0, 0, 0, None

    def measure(self, way):
        try:
            times, failed, error = way()
        except OSError as e:
            self.tally.bad(str(e))
            return
        for ns in times:
            self.tally.good(ns / 1e6)
        for _ in range(failed):
            self.tally.bad(error)

    def beside(self, attack, way):
        acts, cpu_ms, start = attack.times, attack.cpu_ms(), time.monotonic()
        self.measure(way)
        self.wall_ms += (time.monotonic() - start) * 1000
        self.cpu_ms += attack.cpu_ms() - cpu_ms
        self.acts += attack.times - acts
        self.limits = attack.limits
        if attack.error:
            self.tally.bad(f"{attack.act.name}: {attack.error}")


def ways_of(tallies, ctx):
    """What is measured: (name, whose, a function to (times in ns, failed, error)). Cells without a pause are not what one client
    asks for, but what a loop does: they use most of a core themselves, and a neighbour that spins wants the same."""
    cells, smalls, pauseless_ms = ((CELLS_QUICK, SMALLS_QUICK, PAUSELESS_MS_QUICK) if ctx.quick else
                                   (CELLS, SMALLS, PAUSELESS_MS))
    health, found = server.request_file(ctx, request("GET", "/health")), []

    def paced(*words):
        figures, _ = server.load(ctx, "paced", *words)
        return figures["ns"], figures["failed"], figures["error"]

    for tally in tallies:
        opened = tally.opened
        if not isinstance(opened, sessions.OpenedSessions):
            found.append((tally.peer.name, tally, functools.partial(paced, opened.port, health, sessions.OK, SMALL_US, smalls)))
            continue
        cell = opened.words[1:4]
        found += [("GET /health", tally,
                   functools.partial(paced, opened.server.port, health, sessions.OK, SMALL_US, smalls)),
                  ("hot cell", tally, functools.partial(paced, *cell, CELL_US, cells)),
                  ("hot cell, no pause", tally, functools.partial(opened.cells, pauseless_ms))]
    return found


def beside(case, ctx):
    """In every round the quiet server, each act in an order drawn anew, and the quiet server again."""
    rounds = ROUNDS_QUICK if ctx.quick else ROUNDS
    acts, draw = list(case.options["acts"]), random.Random(1)
    with company(case, ctx, "hot cell", "ms") as (tallies, absent):
        hosts = [t.opened.server for t in tallies if isinstance(t.opened, sessions.OpenedSessions)]
        ways = ways_of(tallies, ctx) if hosts else []
        names = [BEFORE, *(act.name for act in acts), AFTER]
        points = [{name: Point(tally) for name in names} for _, tally, _ in ways]
        for number in range(rounds if hosts else 0):
            ctx.progress(case, number, rounds)
            draw.shuffle(acts)
            for act in (BEFORE, *acts, AFTER):
                visit(act, hosts[0], ways, points)
        ctx.progress(case, rounds, rounds)
        rows = []
        for (series, tally, _), part in zip(ways, points):
            rows += series_rows(series, tally, part)
        return rows + absent


def visit(act, running, ways, points):
    if isinstance(act, str):
        for (_, _, way), part in zip(ways, points):
            part[act].measure(way)
        return
    attack = None
    try:
        attack = Attack(running, act)
        attack.begin()
        for (_, _, way), part in zip(ways, points):
            part[act.name].beside(attack, way)
    except (OSError, ValueError, KeyError) as e:
        for part in points:
            part[act.name].tally.bad(str(e))
    finally:
        if attack:
            attack.stop()


def series_rows(series, tally, part):
    """Rows of one series; how many times the quiet server's each percentile is, and p99 of that as a row of its own."""
    quiet = Tally(tally.peer, tally.opened)
    quiet.samples = part[BEFORE].tally.samples + part[AFTER].tally.samples
    base = row(quiet, series, "ms", keep=False)
    rows, ratios = [], []
    for name, point in part.items():
        one = {**row(point.tally, f"{series}, {name if name in (BEFORE, AFTER) else f'beside: {name}'}", "ms", keep=False),
               "series": series, "beside": name, "limits": point.limits, "acts": point.acts if point.limits else None,
               "cores": point.cpu_ms / point.wall_ms if point.wall_ms else None}
        one["times_quiet"] = {key: one[key] / base[key] if one[key] and base[key] else None for key in ("p50", "p95", "p99")}
        rows.append(one)
        if point.limits and one["times_quiet"]["p99"]:
            ratio = Tally(tally.peer, tally.opened)
            ratio.good(one["times_quiet"]["p99"])
            ratios.append(row(ratio, f"p99 / quiet: {series}, beside: {name}", "×"))
    return rows + ratios
