# SPDX-License-Identifier: Apache-2.0
"""The ways of measuring a server. As in kinds.py: (case, ctx) to rows."""
import contextlib
import json
import os
import pathlib
import shutil
import tempfile
import time

from . import box_files, launch, server
from .kinds import RATE_SLICE_S, Skipped, company, interleaved, row

MIB, GIB = 1 << 20, 1 << 30
# What takes seconds per run is not run fifty times.
LARGE_RUNS, LARGE_RUNS_QUICK = 5, 2
SUSTAINED_S, SUSTAINED_S_QUICK = 20, 2
STARTS, STARTS_QUICK = 25, 3
REQUEST_ROUNDS, REQUEST_ROUNDS_QUICK = 5, 2
GROWTH = {role: f"growth of the {role}'s memory" for role in ("gate", "store")}


def size_text(size):
    return f"{size // GIB} GiB" if size % GIB == 0 else f"{size // MIB} MiB"


def attempt(tally, function, *args):
    """What it returns; None, and a failure counted, when it does not work out."""
    try:
        return function(*args)
    except OSError as e:
        tally.bad(str(e))
        return None


# --- P6 -----------------------------------------------------------------------------------------------------


def sustained(case, ctx):
    """The server without a pause, as it would be used; commands in slices of a second, half of them before it and
    half after it. What is counted are answers per second; the server's last second includes the end of the last box, and
    filling the pool again."""
    seconds = SUSTAINED_S_QUICK if ctx.quick else SUSTAINED_S
    workers = len(os.sched_getaffinity(0))
    figure = f"rate over {seconds} s"
    with company(case, ctx, figure, "1/s") as (tallies, absent), contextlib.ExitStack() as stack:
        servers = [t for t in tallies if isinstance(t.opened, server.OpenedServer)]
        commands = [t for t in tallies if t not in servers]
        times = {t.peer.name: [] for t in tallies}
        crews = {t.peer.name: [launch.Launcher(t.opened.prepare) for _ in range(workers)] for t in commands}
        for launcher in (launcher for crew in crews.values() for launcher in crew):
            stack.callback(launcher.close)
        for number in range(seconds):
            if number == seconds // 2:
                for tally in servers:
                    flood_of_requests(tally, case, ctx, seconds, times[tally.peer.name])
            ctx.progress(case, number, seconds)
            for tally in commands:
                one_slice(tally, crews[tally.peer.name], times[tally.peer.name])
        ctx.progress(case, seconds, seconds)
        rows = []
        for tally in tallies:
            done = times[tally.peer.name]
            rate_row = row(tally, figure, "1/s")
            rate_row["runs"] = len(done) + tally.failures
            rows += [rate_row, row(tally, "one run under that load", "ms", done, keep=False)]
        return rows + absent


def one_slice(tally, crew, times):
    for launcher in crew:
        launcher.send(launch.loop, tally.opened.command, RATE_SLICE_S)
    answers = [launcher.answer() for launcher in crew]
    for good, errors, _ in answers:
        times += [ns / 1e6 for ns in good]
        for error in errors:
            tally.bad(error)
    if any(good for good, _, _ in answers):
        tally.good(sum(len(good) / took for good, _, took in answers))


def flood_of_requests(tally, case, ctx, seconds, times):
    opened = tally.opened
    data = server.request_file(ctx, opened.shots.data)
    expect = f'"stdout":{json.dumps(case.work.expect.decode())}'
    done = attempt(tally, opened.load, "rate", data, expect, case.options["connections"], 1000, seconds)
    if done is None:
        return
    figures, answered = done[0], time.monotonic()
    opened.server.await_rest()
    teardown = time.monotonic() - answered
    for _ in range(figures["failed"]):
        tally.bad(figures["error"])
    for number, count in enumerate(figures["slices"]):
        tally.good(count if number < seconds - 1 else count / (1 + teardown))
    times += [ns / 1e6 for ns in figures["ns"]]


# --- P8 -----------------------------------------------------------------------------------------------------


def place_of(case, ctx, size):
    """A directory of the file system in question; Skipped when there is no room."""
    parent = pathlib.Path("/dev/shm") if case.options["on"] == "tmpfs" else ctx.out
    try:
        free = shutil.disk_usage(parent).free
    except OSError as e:
        raise Skipped(f"{parent}: {e.strerror}") from None
    if case.options["on"] == "tmpfs":
        free = min(free, server.available_memory())
    if free < 4 * size:
        raise Skipped(f"{ctx.shown(str(parent))} has no room for four times {size_text(size)}")
    try:
        return pathlib.Path(tempfile.mkdtemp(prefix="gb-bench-", dir=parent))
    except OSError as e:
        raise Skipped(f"{parent}: {e.strerror}") from None


def write_source(path, size):
    """Content without holes and without repetition that a file system would notice."""
    block = bytearray(os.urandom(MIB))
    with open(path, "wb", buffering=0) as file:
        for number in range(size // MIB):
            block[:8] = number.to_bytes(8, "little")
            file.write(block)


def transfer(case, ctx):
    """A file there and back."""
    size = case.options["quick_bytes" if ctx.quick else "bytes"]
    figures = {"up": f"up, {size_text(size)}", "down": f"down, {size_text(size)}"}
    folder = place_of(case, ctx, size)
    try:
        write_source(folder / "source", size)
        return there_and_back(case, ctx, server.Transfer(folder, folder / "source", size), size, figures, "GB/s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def trees(case, ctx):
    """Many small files there and back, as one archive."""
    count = case.options["quick_files" if ctx.quick else "files"]
    figures = {"up": f"unpack, {count} files", "down": f"pack, {count} files"}
    folder = place_of(case, ctx, case.options["bytes"])
    try:
        return there_and_back(case, ctx, box_files.plant(folder, count), count * 1e9, figures, "1/s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def there_and_back(case, ctx, work, amount, figures, unit):
    """amount: of the unit, times a second in nanoseconds where it is per second. The round that does not count compares every byte."""
    with company(case, ctx, figures["up"], unit, work) as (tallies, absent):
        series = {t.peer.name: {"up": [], "down": [], "gate": [], "store": []} for t in tallies}
        for counted, tally in interleaved(case, ctx, tallies, LARGE_RUNS_QUICK if ctx.quick else LARGE_RUNS):
            one_transfer(tally, counted, amount, series[tally.peer.name])
        rows = []
        for tally in tallies:
            part = series[tally.peer.name]
            rows += [row(tally, figures[way], unit, part[way]) for way in ("up", "down")]
            rows += [row(tally, GROWTH[role], "MB", part[role]) for role in GROWTH if part[role]]
        return rows + absent


def one_transfer(tally, counted, amount, part):
    opened = tally.opened
    try:
        up = opened.up()
        down = opened.down(compare=not counted)
        opened.forget()
    except (OSError, ValueError, KeyError) as e:
        tally.bad(str(e))
        return
    if counted:
        tally.good(amount / up)
        part["up"].append(amount / up)
        part["down"].append(amount / down)
        if isinstance(opened, server.OpenedServer):
            for role in opened.grows:
                part[role].append(opened.server.growth_mb(role))


# --- P9 -----------------------------------------------------------------------------------------------------


def flood(case, ctx):
    """Payload per second. The client counts the payload of every run; what a command prints is counted once."""
    size = case.options["quick_bytes" if ctx.quick else "bytes"]
    work = case.options["work"](size)
    figure = f"through, {size_text(size)}"
    with company(case, ctx, figure, "MB/s", work) as (tallies, absent):
        growth = {t.peer.name: {role: [] for role in GROWTH} for t in tallies}
        requests = {}
        for tally in tallies:
            if isinstance(tally.opened, server.OpenedServer):
                tally.opened.shown = tally.opened.shown.replace("/v1/execute", "/v1/execute/stream")
                data = tally.peer.execute(work.text, "/v1/execute/stream")
                requests[tally.peer.name] = server.request_file(ctx, data)
            else:
                check_bytes(tally, size)
        for counted, tally in interleaved(case, ctx, tallies, LARGE_RUNS_QUICK if ctx.quick else LARGE_RUNS):
            ns = attempt(tally, one_flood, tally, requests.get(tally.peer.name), case, size)
            if not counted or ns is None:
                continue
            tally.good(size / 1e6 / (ns / 1e9))
            if tally.peer.name in requests:
                growth[tally.peer.name]["gate"].append(tally.opened.server.growth_mb("gate"))
        rows = []
        for tally in tallies:
            rows.append(row(tally, figure, "MB/s"))
            rows += [row(tally, GROWTH[role], "MB", samples)
                     for role, samples in growth[tally.peer.name].items() if samples]
        return rows + absent


def check_bytes(tally, size):
    first = launch.Command(tally.opened.command.stages[:1])
    got = tally.opened.launcher.call(launch.count_bytes, first)
    if got != size:
        tally.bad(f"{got} bytes of {size} came through")


def one_flood(tally, data, case, size):
    if data is None:
        run = tally.opened.once()
        if run.error:
            raise OSError(run.error)
        return run.ns
    figures, _ = tally.opened.load("flood", data, case.options["character"])
    tally.opened.server.await_rest()
    if figures["bytes"] != size:
        raise OSError(f"{figures['bytes']} bytes of {size} came through")
    return figures["ns"]


# --- P10 ----------------------------------------------------------------------------------------------------


def starts(case, ctx):
    """A server from its start to its first answer, and what it occupies when it is idle again. Its state directory
    is there already, as after the first start of an installation."""
    with company(case, ctx, "to 'listening on'", "ms") as (tallies, absent):
        rows = list(absent)
        for tally in tallies:
            times, kib = {"listening_ns": [], "answered_ns": [], "warm_ns": []}, {}
            for counted, _ in interleaved(case, ctx, [tally], STARTS_QUICK if ctx.quick else STARTS):
                figures, error = tally.opened.once()
                if error:
                    tally.bad(error)
                elif counted:
                    tally.good(figures["listening_ns"] / 1e6)
                    for name, values in times.items():
                        values.append(figures[name] / 1e6)
                    for role, value in figures["kib"].items():
                        kib.setdefault(role, []).append(server.mb(value))
            rows += [row(tally, "to 'listening on'", "ms", times["listening_ns"]),
                     row(tally, "to the first answer of /v1/execute", "ms", times["answered_ns"]),
                     row(tally, "to full pools of every image", "ms", times["warm_ns"]),
                     row(tally, "idle: gate and keeper, RSS", "MB",
                         [a + b for a, b in zip(kib.get("gate", []), kib.get("keeper", []))])]
            rows += [row(tally, f"idle: {'supervisor' if role == 'serve' else role} alone, RSS", "MB", values)
                     for role, values in kib.items()]
        return rows


# --- P11 ----------------------------------------------------------------------------------------------------


def requests(case, ctx):
    """Slices of a second, peers and requests in turn."""
    rounds, slice_ms = (REQUEST_ROUNDS_QUICK, 200) if ctx.quick else (REQUEST_ROUNDS, 1000)
    connections, files = case.options["connections"], case.options["files"]
    asked = {"GET /health": ("/health", '"status":"ok"'), f"GET /v1/files, {files} files": ("/v1/files", '"file_id"')}
    with company(case, ctx, "GET /health", "1/s") as (tallies, absent):
        data = {figure: server.request_file(ctx, server.request("GET", path)) for figure, (path, _) in asked.items()}
        series = {t.peer.name: {} for t in tallies}
        small = ctx.folder("small") / "file"
        small.write_bytes(b"x" * 100)
        for tally in tallies:
            if isinstance(tally.opened, server.OpenedServer):
                for _ in range(files):
                    attempt(tally, tally.opened.load, "up", small)
        for counted, tally in interleaved(case, ctx, tallies, rounds):
            for figure, (_, expect) in asked.items():
                if figure != "GET /health" and not isinstance(tally.opened, server.OpenedServer):
                    continue
                done = attempt(tally, tally.opened.load, "rate", data[figure], expect, connections, slice_ms, 1)
                if done is None or not counted:
                    continue
                for _ in range(done[0]["failed"]):
                    tally.bad(done[0]["error"])
                tally.good(done[0]["count"] / done[0]["seconds"])
                rates, times = series[tally.peer.name].setdefault(figure, ([], []))
                rates.append(done[0]["count"] / done[0]["seconds"])
                times += [ns / 1e3 for ns in done[0]["ns"]]
        rows = []
        for tally in tallies:
            for figure, (rates, times) in series[tally.peer.name].items():
                rows += [row(tally, figure, "1/s", rates),
                         row(tally, f"one of {connections}: {figure}", "µs", times, keep=False)]
            if not series[tally.peer.name]:
                rows.append(row(tally, "GET /health", "1/s"))
        return rows + absent
