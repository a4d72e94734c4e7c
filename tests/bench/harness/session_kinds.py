# SPDX-License-Identifier: Apache-2.0
"""The ways of measuring sessions. As in kinds.py: (case, ctx) to rows."""
import contextlib
import json

from . import server, sessions
from .kinds import Tally, company, interleaved, row
from .server_kinds import LARGE_RUNS, LARGE_RUNS_QUICK, attempt
from .stats import percentile

HOT_MS = 100
PROCESSOR = "processor time of the client, a call"
BURSTS, BURSTS_QUICK = 30, 2
MEMORY_ROUNDS, MEMORY_ROUNDS_QUICK = 3, 1
LEVELS, LEVELS_QUICK = (1, 10, 100, 1000), (1, 10, 30)
LEVEL_BURSTS, LEVEL_S, LEVEL_S_QUICK = 3, 5, 1


# --- P4 -----------------------------------------------------------------------------------------------------------


def hot(case, ctx):
    """Cells one after the other in a session that is there, a tenth of a second per peer and round. What a client tells of its own
    processor time, behind the rest, is a figure of its own."""
    figure = case.options["figure"]
    with company(case, ctx, figure, "ms") as (tallies, absent):
        processor = {tally.peer.name: [] for tally in tallies}
        for counted, tally in interleaved(case, ctx, tallies, ctx.runs):
            done = attempt(tally, tally.opened.cells, HOT_MS)
            if done is None or not counted:
                continue
            times, failed, error, *used = done
            for ns in times:
                tally.good(ns / 1e6)
            for _ in range(failed):
                tally.bad(error)
            processor[tally.peer.name] += [ns / 1e3 / (len(times) + failed) for ns in used]
        rows = [row(tally, getattr(tally.opened, "figure", figure), "ms", keep=False) for tally in tallies]
        rows += [row(tally, PROCESSOR, "µs", processor[tally.peer.name]) for tally in tallies if processor[tally.peer.name]]
        return rows + absent


def printed(case, ctx):
    """Payload per second of one cell that prints. The client looks at every byte of every run."""
    work = case.options["work"](case.options["quick_times" if ctx.quick else "times"])
    figure = f"through, {work.bytes / 1e6:.3g} MB"
    rounds = ctx.runs if "large" not in case.options else LARGE_RUNS_QUICK if ctx.quick else LARGE_RUNS
    with company(case, ctx, figure, "MB/s", work) as (tallies, absent):
        growth = {tally.peer.name: [] for tally in tallies}
        for counted, tally in interleaved(case, ctx, tallies, rounds):
            ns = attempt(tally, tally.opened.printed)
            if counted and ns is not None:
                tally.good(work.bytes / 1e6 / (ns / 1e9))
                growth[tally.peer.name].append(tally.opened.growth_mb())
        rows = []
        for tally in tallies:
            rows += [row(tally, figure, "MB/s"), row(tally, tally.opened.grows, "MB", growth[tally.peer.name])]
        return rows + absent


# --- P5 -----------------------------------------------------------------------------------------------------------


def burst(case, ctx):
    """All at once, each to its first result. The sessions are deleted afterwards, and the pool fills again."""
    rounds = BURSTS_QUICK if ctx.quick else BURSTS
    with company(case, ctx, case.options.get("figure", "wall of 100 at once"), "ms") as (tallies, absent):
        series = {tally.peer.name: {"wall": [], "each": [], "one": [], "ratio": []} for tally in tallies}
        for counted, tally in interleaved(case, ctx, tallies, rounds):
            part, opened = series[tally.peer.name], tally.opened
            if len(part["wall"]) == opened.most_bursts:
                continue
            done = attempt(tally, opened.burst, opened.burst_size)
            if done is None or not counted:
                continue
            for _ in range(done["failed"]):
                tally.bad(done["error"])
            if done["count"]:
                add_burst(part, done, opened.burst_size)
                tally.good(done["wall_ns"] / 1e6)
        rows = []
        for tally in tallies:
            part, size = series[tally.peer.name], tally.opened.burst_size
            rows += [row(tally, f"wall of {size} at once", "ms", part["wall"]),
                     row(tally, "wall / sessions", "ms", part["each"]),
                     row(tally, "one session of a burst", "ms", part["one"], keep=False),
                     row(tally, "p99 / p50 of a burst", "×", part["ratio"])]
        return rows + absent


def add_burst(part, done, size):
    times = sorted(ns / 1e6 for ns in done["ns"])
    part["one"] += times
    part["wall"].append(done["wall_ns"] / 1e6)
    part["each"].append(done["wall_ns"] / 1e6 / size)
    part["ratio"].append(percentile(times, 99) / percentile(times, 50))


# --- P7 -----------------------------------------------------------------------------------------------------------


def idle_memory(case, ctx):
    """What the machine has less of (MemAvailable) when so many sessions live, by their number. Neither the server nor its
    images and pools are part of it: they are there before."""
    with company(case, ctx, "memory per session", "MB") as (tallies, absent):
        rows = []
        roles = {tally.peer.name: {} for tally in tallies}
        for number in range(MEMORY_ROUNDS_QUICK if ctx.quick else MEMORY_ROUNDS):
            for tally in tallies:
                size = tally.opened.quick_size if ctx.quick else tally.opened.size
                done = attempt(tally, tally.opened.occupy, size)
                if done is None:
                    continue
                tally.good(done[0] / 1e6 / size)
                for role, grown in done[1].items():
                    roles[tally.peer.name].setdefault(role, []).append(grown / 1e6 / size)
            ctx.progress(case, number + 1, MEMORY_ROUNDS_QUICK if ctx.quick else MEMORY_ROUNDS)
        for tally in tallies:
            size = tally.opened.quick_size if ctx.quick else tally.opened.size
            rows.append({**row(tally, "memory per session", "MB"), "live": size})
            rows += [row(tally, f"of which {'supervisor' if role == 'serve' else role}, RSS", "MB", samples)
                     for role, samples in roles[tally.peer.name].items() if role in ("gate", "keeper")]
        return rows + absent


# --- P13 ----------------------------------------------------------------------------------------------------------


def repeated(number, once):
    """A way to measure: (times in ms, errors) of so many runs. The one before is not counted: others asked meanwhile."""
    def measure():
        once()
        runs = [once() for _ in range(number)]
        return [run.ns / 1e6 for run in runs if not run.error], [run.error for run in runs if run.error]

    return measure


def measures(opened, case, ctx, shots):
    """What is measured of a server at every number of live sessions: series, unit, function to (samples, errors)."""
    def hot_cells(words, *tail):
        figures, _ = server.load(ctx, *words, *tail)
        return [ns / 1e6 for ns in figures["ns"]], [figures["error"]] * figures["failed"]

    def bursts():
        done = [opened.burst(opened.burst_size) for _ in range(1 if ctx.quick else LEVEL_BURSTS)]
        return [d["wall_ns"] / 1e6 for d in done], [d["error"] for d in done if d["failed"]]

    def rate():
        data, expect = server.request_file(ctx, shots[0].data), f'"stdout":{json.dumps(shots[0].expect.decode())}'
        figures, _ = server.load(ctx, "rate", opened.server.port, data, expect, case.options["connections"], 1000,
                                 LEVEL_S_QUICK if ctx.quick else LEVEL_S)
        opened.server.await_rest()
        return figures["slices"], [figures["error"]] * figures["failed"]

    http = opened.hot_box("http")
    opened.live = 1  # the session of the hot cells
    try:
        stream = opened.hot_box("socket")
        by_socket = [("P4 hot cell, WebSocket", "ms", lambda: hot_cells(stream, 10 * HOT_MS))]
    except server.DoesNotWork as e:
        ctx.warn(f"{case.group} / {case.name}: hot cell, WebSocket: NOT MEASURED: {e}")
        by_socket = []
    return [
        ("P1 print(1), pool hit", "ms", repeated(ctx.runs, shots[0].once)),
        ("P2 numpy and pandas, pool hit", "ms", repeated(ctx.runs, shots[1].once)),
        ("P3 new session", "ms", repeated(ctx.runs, opened.once)),
        ("P4 hot cell, HTTP", "ms", lambda: hot_cells(http, 10 * HOT_MS, 1)),
        *by_socket,
        (f"P5 burst of {opened.burst_size}", "ms", bursts),
        ("P6 one-shots", "1/s", rate),
    ]


def curve(case, ctx):
    """Every figure at 1, 10, 100, 1 000 live sessions, one level after the other. A command is measured at each level, too:
    by how much it changes, the machine does."""
    levels = LEVELS_QUICK if ctx.quick else LEVELS
    with company(case, ctx, "grown", "×") as (tallies, absent), contextlib.ExitStack() as stack:
        ways, points = {}, {tally.peer.name: {} for tally in tallies}
        for tally in tallies:
            ways[tally.peer.name] = ways_of(tally, case, ctx, stack)
        for number, live in enumerate(levels):
            ctx.progress(case, number, len(levels))
            for tally in tallies:
                for series, unit, measure in ways[tally.peer.name]:
                    point = (live, *tried(tally.opened, live, measure))
                    points[tally.peer.name].setdefault((series, unit), []).append(point)
        ctx.progress(case, len(levels), len(levels))
        rows = [one for tally in tallies for one in curve_rows(tally, points[tally.peer.name])]
        return rows + absent


def ways_of(tally, case, ctx, stack):
    opened = tally.opened
    if not isinstance(opened, sessions.OpenedSessions):
        return [(f"{case.work.text}, bare", "ms", repeated(ctx.runs, opened.once))]
    shots = [server.OneShots(case.options["shots"], opened.server, work) for work in case.options["works"]]
    for one in shots:
        stack.callback(one.close)
    return measures(opened, case, ctx, shots)


def tried(opened, live, measure):
    """(samples, errors) with so many live sessions."""
    try:
        if isinstance(opened, sessions.OpenedSessions):
            opened.grow_to(live)
        return measure()
    except OSError as e:
        return [], [str(e)]


def curve_rows(tally, per_series):
    """Rows of every series and level, and by what factor the last differs from the first: above 1 is worse."""
    rows = []
    for (series, unit), points in per_series.items():
        part = []
        for live, samples, errors in points:
            one = Tally(tally.peer, tally.opened)
            one.samples = samples
            for error in errors:
                one.bad(error)
            part.append({**row(one, f"{series}, {live} live", unit, keep=len(samples) < 1000), "series": series,
                         "live": live})
        good = [one for one in part if one["p50"]]
        if len(good) > 1:
            grown, one = good[-1]["p50"] / good[0]["p50"], Tally(tally.peer, tally.opened)
            one.good(1 / grown if unit == "1/s" else grown)
            part.append(row(one, f"grown: {series}, {good[0]['live']} to {good[-1]['live']} live", "×"))
        rows += part
    return rows
