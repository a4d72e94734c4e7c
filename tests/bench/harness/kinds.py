# SPDX-License-Identifier: Apache-2.0
"""The ways of measuring. Each takes (case, ctx) and returns rows for the report.

A row is a dict: peer, status ("measured", or why not), figure, unit, how (the command), the keys of
stats.summary, samples where there are few, errors (up to three, as text).
"""
import contextlib
import json
import os
import random

from . import launch
from .server import NOT_THERE, DoesNotWork, NotThere
from .stats import summary

# A peer whose first runs all fail does not work here; it is not asked fifty times.
GIVE_UP_AFTER = 5
ERRORS_KEPT = 3
RATE_SLICES, RATE_SLICES_QUICK, RATE_SLICE_S = 10, 2, 1.0
MEMORY_RUNS = 10
MORE_IS_BETTER = ("MB/s", "GB/s", "1/s")


class Skipped(Exception):
    """Why a case cannot be measured here."""


class Tally:
    """What one peer has shown so far."""

    def __init__(self, peer, opened):
        self.peer, self.opened = peer, opened
        self.samples, self.failures, self.errors = [], 0, []

    def good(self, value):
        self.samples.append(value)

    def bad(self, error):
        self.failures += 1
        if error not in self.errors and len(self.errors) < ERRORS_KEPT:
            self.errors.append(error)

    def gave_up(self):
        return not self.samples and self.failures >= GIVE_UP_AFTER

    def status(self):
        return "measured" if self.samples else f"does not work here: {self.errors[0] if self.errors else '?'}"


def row(tally, figure, unit, samples=None, keep=True):
    samples = tally.samples if samples is None else samples
    figures = summary(samples, tally.failures, more_is_better=unit in MORE_IS_BETTER)
    return {"peer": tally.peer.name, "status": tally.status(), "figure": figure, "unit": unit,
            "holds": tally.peer.holds, "how": tally.opened.shown, **figures,
            "samples": [round(s, 4) for s in samples] if keep else [], "errors": tally.errors}


def absent_row(peer, why, figure, unit):
    return {"peer": peer.name, "status": why, "figure": figure, "unit": unit, "holds": peer.holds, "how": "",
            **summary([], 0), "samples": [], "errors": []}


@contextlib.contextmanager
def company(case, ctx, figure, unit, work=None):
    """The peers of a case, opened: (tallies, rows of those that are missing, said aloud)."""
    tallies, absent = [], []
    try:
        for peer in case.members():
            why = peer.missing(ctx)
            if why:
                ctx.warn(f"{case.group} / {case.name}: {peer.name}: {why.upper()}")
                absent.append(absent_row(peer, why, figure, unit))
                continue
            try:
                tallies.append(Tally(peer, peer.open(ctx, work or case.work)))
            except NotThere as e:
                ctx.warn(f"{case.group} / {case.name}: {peer.name}: NOT THERE: {e}")
                absent.append(absent_row(peer, f"{NOT_THERE}: {e}", figure, unit))
            except DoesNotWork as e:
                ctx.warn(f"{case.group} / {case.name}: {peer.name}: {e}")
                absent.append(absent_row(peer, f"does not work here: {e}", figure, unit))
        yield tallies, absent
    finally:
        for tally in tallies:
            tally.opened.close()
            for error in tally.errors:
                ctx.warn(f"{case.group} / {case.name}: {tally.peer.name}: "
                         f"{tally.failures} failed, such as: {error}")


def interleaved(case, ctx, tallies, rounds):
    """Everyone once, then everyone again: noise hits all alike. The order within a round is drawn (with a
    fixed seed), so that nobody always runs in the wake of the same neighbour. One round before is not counted:
    it fills the page cache for everybody."""
    draw = random.Random(1)
    for tally in tallies:
        yield False, tally
    for number in range(rounds):
        ctx.progress(case, number, rounds)
        order = [tally for tally in tallies if not tally.gave_up()]
        draw.shuffle(order)
        for tally in order:
            yield True, tally
    ctx.progress(case, rounds, rounds)


# --- the kinds ----------------------------------------------------------------------------------------------


def latency(case, ctx):
    """What takes seconds says in its options how often it is run: (usually, with --quick)."""
    figure = case.options.get("figure", "end to end")
    rounds = case.options["rounds"][ctx.quick] if "rounds" in case.options else ctx.runs * case.options.get("times", 1)
    with company(case, ctx, figure, "ms") as (tallies, absent):
        parts = {tally.peer.name: {} for tally in tallies}
        for counted, tally in interleaved(case, ctx, tallies, rounds):
            run = tally.opened.once()
            if counted and run.error:
                tally.bad(run.error)
            elif counted:
                tally.good(run.ns / 1e6)
                for part, ns in run.parts.items():
                    parts[tally.peer.name].setdefault(part, []).append(ns / 1e6)
        rows = []
        for tally in tallies:
            rows.append(row(tally, getattr(tally.opened, "figure", figure), "ms"))
            rows += [row(tally, part, "ms", samples) for part, samples in parts[tally.peer.name].items()]
        return rows + absent


def plan(case, ctx):
    """Steps from the keeper's own clock; what surrounds them from ours."""
    with company(case, ctx, "set-up", "µs") as (tallies, absent):
        series = {}
        for counted, tally in interleaved(case, ctx, tallies, ctx.runs):
            run = tally.opened.once()
            if not counted:
                continue
            try:
                if run.error:
                    raise ValueError(run.error)
                answer = json.loads(run.out)
                if answer["stdout"] != "1\n":
                    raise ValueError(f"printed {answer['stdout']!r}")
                figures = answer["figures"]
            except (ValueError, KeyError) as e:
                tally.bad(str(e))
                continue
            steps = figures["setup_steps_us"]
            setup, wall, total = figures["setup_ms"] * 1000, figures["wall_ms"] * 1000, run.ns / 1000
            tally.good(setup)
            around = {"(set-up: all)": setup,
                      "(set-up: between the steps)": setup - sum(steps.values()),
                      "(program)": wall,
                      "(command line, keeper, end of the box)": total - setup - wall,
                      "(end to end)": total}
            for name, value in {**steps, **around}.items():
                series.setdefault(name, []).append(value)
        rows = [row(tally, name, "µs", samples) for tally in tallies for name, samples in series.items()]
        return rows + ([] if series else [row(tally, "set-up", "µs") for tally in tallies]) + absent


def throughput(case, ctx):
    size = case.options["bytes"]
    with company(case, ctx, "through", "MB/s") as (tallies, absent):
        for tally in tallies:
            first = launch.Command(tally.opened.command.stages[:1])
            got = tally.opened.launcher.call(launch.count_bytes, first)
            if got != size:
                tally.bad(f"{got} bytes of {size} came through")
        for counted, tally in interleaved(case, ctx, tallies, ctx.runs):
            run = tally.opened.once()
            if counted and run.error:
                tally.bad(run.error)
            elif counted:
                tally.good(size / 1e6 / (run.ns / 1e9))
        return [row(tally, "through", "MB/s") for tally in tallies] + absent


def rate(case, ctx):
    """Slices of a second, peers in turn, with one worker per core. The mean over the slices is the rate; the
    times of the single runs under that load are a figure of their own."""
    workers = len(os.sched_getaffinity(0))
    slices = RATE_SLICES_QUICK if ctx.quick else RATE_SLICES
    with company(case, ctx, "rate", "1/s") as (tallies, absent), contextlib.ExitStack() as stack:
        crews, times = {}, {tally.peer.name: [] for tally in tallies}
        for tally in tallies:
            crew = [launch.Launcher(tally.opened.prepare) for _ in range(workers)]
            crews[tally.peer.name] = crew
            for launcher in crew:
                stack.callback(launcher.close)
        for counted, tally in interleaved(case, ctx, tallies, slices):
            crew = crews[tally.peer.name]
            for launcher in crew:
                launcher.send(launch.loop, tally.opened.command, RATE_SLICE_S if counted else 0.2)
            answers = [launcher.answer() for launcher in crew]
            if not counted:
                continue
            for good, errors, _ in answers:
                times[tally.peer.name] += [ns / 1e6 for ns in good]
                for error in errors:
                    tally.bad(error)
            if any(good for good, _, _ in answers):
                tally.good(sum(len(good) / seconds for good, _, seconds in answers))
        rows = []
        for tally in tallies:
            done = times[tally.peer.name]
            rate_row = row(tally, f"rate, {workers} workers, {slices} slices of {RATE_SLICE_S:g} s", "1/s")
            rate_row["runs"] = len(done) + tally.failures
            rows += [rate_row, row(tally, "one run under that load", "ms", done, keep=False)]
        return rows + absent


# By how far down from the process that was started.
ROLES = ["run", "keeper", "init"]


def memory(case, ctx):
    rounds = min(ctx.runs, MEMORY_RUNS)
    with company(case, ctx, "all but the program, PSS", "KiB") as (tallies, absent):
        series = {}
        for counted, tally in interleaved(case, ctx, tallies, rounds):
            processes, error = tally.opened.launcher.call(launch.memory_of_idle, tally.opened.command,
                                                          case.options["ready"])
            if not counted:
                continue
            if error:
                tally.bad(error)
                continue
            own = [p for p in processes if not os.path.basename(p["name"]).startswith("python3")]
            tally.good(sum(p["pss_kib"] for p in own))
            figures = series.setdefault(tally.peer.name, {})
            for measure in ("rss_kib", "pss_kib"):
                figures.setdefault(f"all but the program, {measure[:3].upper()}", []).append(
                    sum(p[measure] for p in own))
            if tally.peer.name.startswith("glovebox"):
                for process in own:
                    for measure in ("rss_kib", "pss_kib"):
                        figure = f"{ROLES[min(process['depth'], 2)]}, {measure[:3].upper()}"
                        figures.setdefault(figure, []).append(process[measure])
        rows = []
        for tally in tallies:
            for figure, samples in series.get(tally.peer.name, {"all but the program, PSS": []}).items():
                rows.append(row(tally, figure, "KiB", samples))
        return rows + absent
