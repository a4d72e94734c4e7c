# SPDX-License-Identifier: Apache-2.0
"""The network of a box: connections, streams and names, by a program in a box and by the same program beside it, to the same servers.

All of it is in a network namespace of its own, with public addresses on its loopback and a resolver: tests/egress/net_world.py. Server, boxes and whoever asks
without a box are in there, too; so the harness enters it for a moment whenever it does something.
"""
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from . import launch, server, sessions
from .kinds import company, interleaved, row
from .server import DoesNotWork, connect, exchange, request
from .server_kinds import LARGE_RUNS, LARGE_RUNS_QUICK, attempt

WORLD = pathlib.Path(__file__).resolve().parents[2] / "egress" / "net_world.py"
PUBLIC, NAME, RESOLVER = "93.184.216.34", "web.test", "127.0.0.1:5300"
ECHO, SINK, ASKED = 2001, 2002, 2053
RULES = {"policy": "allow", "rules": [f"{NAME}:{ECHO}-{SINK}"]}
AT = "/mnt/load"
CLONE_NEWNET = 0x40000000
STOP_S, CALL_S = 10, 60
# A box may have 200 new connections a second in the long run, and 1 000 more at once; 500 and 1 000 questions.
AT_ONCE = 20
STREAM_MS, STREAM_MS_QUICK = 500, 100


def enter(fd):
    if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) < 0:
        raise OSError(ctypes.get_errno(), "setns")


class World:
    """One for all cases of a run, ended with it."""

    def __init__(self, ctx):
        self.processes = []
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        folder = ctx.folder("world")
        world = self.start(["unshare", "-n", sys.executable, "-B", str(WORLD), str(folder)])
        self.inside_fd = os.open(f"/proc/{world.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        with self.inside():
            self.start([server.load_client(ctx), "net-serve", PUBLIC])

    def start(self, argv):
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0, preexec_fn=server.end_with_parent)
        self.processes.append(process)
        if process.stdout.readline() != b"ready\n":
            self.end()
            raise DoesNotWork("there can be no network namespace with servers here")
        return process

    @contextlib.contextmanager
    def inside(self):
        enter(self.inside_fd)
        try:
            yield
        finally:
            enter(self.home)

    def end(self):
        for process in reversed(self.processes):
            process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self.processes = []


def world_of(ctx):
    if "world" not in ctx.found:
        ctx.found["world"] = World(ctx)
        ctx.at_end(ctx.found["world"].end)
    return ctx.found["world"]


class Asking:
    """What both sides can be asked for; ask() runs the client in C with these words and returns what it says."""

    def cells(self, _milliseconds):
        words = ("net-connect", self.address, ECHO) if self.way == "connect" else ("net-dns", *self.resolver, NAME)
        done = self.ask(*words, AT_ONCE)
        return done["ns"], done["failed"], done["error"]

    def stream(self, streams, milliseconds):
        """MB/s"""
        done = self.ask("net-stream", self.address, SINK, streams, milliseconds)
        return done["bytes"] / 1e6 / (done["ns"] / 1e9)


# --- without a box ------------------------------------------------------------------------------------------------


class OpenedDirect(Asking):
    address, resolver = PUBLIC, (PUBLIC, ASKED)

    def __init__(self, peer, ctx):
        self.ctx, self.way, self.world = ctx, peer.way, world_of(ctx)
        self.shown = "the same program, without a box"

    def ask(self, *words):
        with self.world.inside():
            return server.load(self.ctx, *words)[0]

    def close(self):
        pass


@dataclasses.dataclass(frozen=True)
class DirectPeer:
    name: str
    way: str = "connect"
    program: str = "/usr/bin/python3"  # there is no program of its own
    holds: str = "nothing"
    version: tuple = ("--version",)

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        return None if os.geteuid() == 0 else "needs root, for a network namespace"

    def open(self, ctx, _work):
        return OpenedDirect(self, ctx)


# --- in a box -----------------------------------------------------------------------------------------------------


class OpenedBoxes(Asking):
    resolver = ("127.0.0.1", 53)

    def __init__(self, peer, ctx):
        self.ctx, self.way, self.world, self.fields = ctx, peer.way, world_of(ctx), peer.fields
        program = pathlib.Path(shutil.copy(server.load_client(ctx), ctx.folder("load")))
        self.connection = None
        with self.world.inside():
            self.server = server.Server(ctx, (*peer.options, "--resolver", RESOLVER, "--mount-root", str(program.parent)))
            try:
                self.connection = connect(self.server.port)
                self.box = self.create({"mounts": [{"root": str(program.parent), "at": AT}]})
                self.address = self.look_up()
                self.server.settle()
            except (DoesNotWork, OSError, ValueError, KeyError) as e:
                self.close_here()
                raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"the server does not answer: {e}") from e
        self.program = f"{AT}/{program.name}"
        self.shown = f"{self.server.shown}, POST /v1/boxes {json.dumps(self.fields)}"

    def create(self, more=()):
        status, body = exchange(self.connection, request("POST", "/v1/boxes", {**self.fields, **dict(more)}))
        if status != 201:
            raise sessions.refused("POST /v1/boxes", status, body)
        return json.loads(body)["id"]

    def command(self, argv):
        status, body = exchange(self.connection, request("POST", f"/v1/boxes/{self.box}/commands", {"argv": argv, "timeout_ms": CALL_S * 1000}))
        answer = json.loads(body)
        if status != 200 or answer["exit_code"] != 0:
            raise OSError(f"in the box: {answer.get('stderr') or answer}"[:300])
        return answer["stdout"]

    def look_up(self):
        """The address that stands for the name in this box."""
        if self.fields["network"]["policy"] == "none":
            return None
        return self.command(["/usr/bin/getent", "ahostsv4", NAME]).split()[0]

    def ask(self, *words):
        return json.loads(self.command([self.program, *map(str, words)]))

    def once(self):
        """A box, from the request for it to its answer; it is ended afterwards."""
        try:
            start = time.perf_counter_ns()
            box = self.create()
            ns = time.perf_counter_ns() - start
            sessions.delete(self.connection, box)
        except (OSError, DoesNotWork) as e:
            return launch.Run(0, str(e))
        with self.world.inside():
            self.server.await_rest()
        return launch.Run(ns, None)

    def close_here(self):
        if self.connection is not None:
            self.connection.close()
        self.server.stop()

    def close(self):
        with self.world.inside():
            self.close_here()


@dataclasses.dataclass(frozen=True)
class NetPeer(server.ServerPeer):
    way: str = "connect"

    def missing(self, ctx):
        return super().missing(ctx) or (None if os.geteuid() == 0 else "needs root, for a network namespace")

    def open(self, ctx, _work):
        return OpenedBoxes(self, ctx)


# --- the way of measuring what is not one of the others -------------------------------------------------------------


def streams(case, ctx):
    """What goes out of one connection, and of many at once."""
    milliseconds = STREAM_MS_QUICK if ctx.quick else STREAM_MS
    rounds = LARGE_RUNS_QUICK if ctx.quick else LARGE_RUNS
    with company(case, ctx, "through one connection", "MB/s") as (tallies, absent):
        series = {tally.peer.name: {n: [] for n in case.options["streams"]} for tally in tallies}
        for counted, tally in interleaved(case, ctx, tallies, rounds):
            for number, samples in series[tally.peer.name].items():
                rate = attempt(tally, tally.opened.stream, number, milliseconds)
                if counted and rate is not None:
                    samples.append(rate)
                    tally.good(rate)
        return [row(tally, f"through {'one connection' if number == 1 else f'{number} at once'}", "MB/s", samples)
                for tally in tallies for number, samples in series[tally.peer.name].items()] + absent
