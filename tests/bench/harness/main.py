# SPDX-License-Identifier: Apache-2.0
"""Command line, order of events, files written."""
import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import machine, plots, report
from .cases import CASES
from .kinds import Skipped
from .peers import PYTHON
from .promises import add_promises
from .server import NOT_THERE

ROOT = pathlib.Path(__file__).resolve().parents[3]
RUNS, RUNS_QUICK = 50, 10
SCHEMA = 1


class Context:
    """What a case needs to know, and how it speaks."""

    def __init__(self, glovebox, temp, out, runs, quick):
        self.glovebox, self.temp, self.out, self.runs, self.quick = glovebox, temp, out, runs, quick
        self.found, self.notes, self._folders = {}, [], 0
        self._ends = []

    def folder(self, name):
        """A new empty directory that a container's user can reach."""
        self._folders += 1
        path = self.temp / f"{name}-{self._folders}"
        path.mkdir(mode=0o755)
        return path

    def at_end(self, function):
        """To be called when everything is measured, or nothing more is to be."""
        self._ends.append(function)

    def end(self):
        while self._ends:
            self._ends.pop()()

    def shown(self, text):
        """A command as it is reported: without where this tree and the temporary files happen to be."""
        text = text.replace(str(self.glovebox), "build/glovebox").replace(f"{self.out}/", "$OUT/")
        return text.replace(str(self.temp), "$TMP").replace(f"{ROOT}/", "")

    def say(self, text):
        print(text, file=sys.stderr, flush=True)

    def note(self, text):
        text = self.shown(text)
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"   note: {text}")

    def warn(self, text):
        text = self.shown(text)
        if text not in self.notes:
            self.notes.append(text)
            self.say(f"   !! {text}")

    def progress(self, _case, done, all_rounds):
        if sys.stderr.isatty():
            end = "\n" if done == all_rounds else ""
            print(f"\r   round {done}/{all_rounds} ", end=end, file=sys.stderr, flush=True)
        elif done and done % max(1, all_rounds // 5) == 0:
            self.say(f"   round {done}/{all_rounds}")


def parse(doc, argv):
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{RUNS_QUICK} runs instead of {RUNS}")
    parser.add_argument("--only", action="append", default=[], metavar="NAME,…",
                        help="only cases whose group or name contains this, or of this promise (P1, P2, …)")
    parser.add_argument("--runs", type=int, metavar="N", help=f"runs of each figure [{RUNS}]")
    parser.add_argument("--list", action="store_true", help="name the cases and their peers, measure nothing")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench", metavar="DIR",
                        help="where the results go [build/bench]")
    options = parser.parse_args(argv)
    if options.runs is not None and options.runs < 1:
        parser.error("--runs needs a number above 0")
    options.only = [name for text in options.only for name in text.split(",") if name]
    options.runs = options.runs or (RUNS_QUICK if options.quick else RUNS)
    # Fewer than 30 runs say little about the tail, whichever option asked for that.
    options.quick = options.quick or options.runs < 30
    return options, parser


def chosen(only):
    return [case for case in CASES
            if not only or any(text in f"{case.group}/{case.name}" or text == case.promise for text in only)]


def show_list(cases, ctx):
    for case in cases:
        print(f"{case.group}/{case.name}: {case.what}")
        for peer in case.members():
            print(f"    {peer.name:<26} {peer.missing(ctx) or ctx.shown(peer.path(ctx))}")


def lacking(case):
    """Modules that the interpreter of the case cannot import."""
    return [name for name in case.needs
            if subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode]


def measure(case, ctx):
    ctx.say(f"== {case.group} / {case.name}: {case.what}")
    entry = {"group": case.group, "name": case.name, "kind": case.kind.__name__, "what": case.what,
             "skipped": None, "rows": []}
    lacks = lacking(case)
    if lacks:
        entry["skipped"] = f"{PYTHON} cannot import {', '.join(lacks)}"
        ctx.warn(f"{case.group} / {case.name}: SKIPPED: {entry['skipped']}")
        return entry
    start = time.monotonic()
    entry["load_before"] = machine.load()
    try:
        # The first peer comes first, even when it could not take part: it is what the others are compared with.
        order = [peer.name for peer in case.members()]
        entry["rows"] = sorted(case.kind(case, ctx), key=lambda row: order.index(row["peer"]))
    except Skipped as e:
        entry["skipped"] = str(e)
        ctx.warn(f"{case.group} / {case.name}: SKIPPED: {e}")
        return entry
    add_promises(case.promise, entry["rows"])
    entry["load_after"] = machine.load()
    entry["took_s"] = round(time.monotonic() - start, 1)
    for row in entry["rows"]:
        if row["p50"] is not None and case.kind.__name__ != "plan":
            promise = row["promise"]
            kept = f"  promised {promise['text']}: {report.met_text(promise)}" if promise else ""
            ctx.say(f"   {row['peer']:<26} {row['figure']:<34} p50 {report.number(row['p50']):>8} {row['unit']}"
                    f"  p95 {report.number(row['p95']):>8}  failures {row['failures']}{kept}")
    return entry


def peers_of(cases, ctx):
    found = {}
    for case in cases:
        for peer in case.members():
            why = peer.missing(ctx)
            found.setdefault(peer.name, {
                "path": ctx.shown(peer.path(ctx)), "status": why or "present", "holds": peer.holds,
                "version": None if why else machine.version(peer.path(ctx), peer.version)})
    return found


def write(results, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    try:
        plan_text = (ROOT / "policy" / "plan.tbl").read_text()
    except OSError:
        plan_text = ""
    (folder / "table.md").write_text(report.markdown(results, plan_text))


def glovebox_failures(results):
    return sum(row["failures"] > 0 or row["status"] != "measured" for case in results["cases"] for row in case["rows"]
               if row["peer"].startswith("glovebox") and not row["status"].startswith(NOT_THERE))


def not_there(results):
    """What this build does not have, and so could not be measured."""
    return [f"{case['group']} / {case['name']}: {row['peer']}: {row['status']}" for case in results["cases"]
            for row in case["rows"] if row["status"].startswith(NOT_THERE)]


def main(doc, argv=None):
    options, parser = parse(doc, argv)
    cases = chosen(options.only)
    if not cases:
        parser.error(f"no case matches {options.only}; --list names them")
    glovebox = pathlib.Path(os.environ.get("GLOVEBOX") or ROOT / "build" / "glovebox").resolve()
    temp = pathlib.Path(tempfile.mkdtemp(prefix="gb-bench-"))
    temp.chmod(0o755)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ctx = Context(glovebox, temp, options.out.resolve(), options.runs, options.quick)
    try:
        if options.list:
            show_list(cases, ctx)
            return 0
        if not os.access(glovebox, os.X_OK):
            parser.error(f"{glovebox} is not there: run 'make build' first")
        return bench(options, cases, ctx)
    finally:
        ctx.end()
        remove(temp, ctx)


def remove(temp, ctx):
    """A container that left a mount of the host in there must not take the host with it."""
    if f" {temp}/" in pathlib.Path("/proc/self/mountinfo").read_text(errors="replace"):
        ctx.say(f"!! something is still mounted below {temp}: left alone")
        return
    shutil.rmtree(temp, ignore_errors=True)


def bench(options, cases, ctx):
    # A copy is measured: somebody may build anew meanwhile, and half a table of each would look like one.
    source = ctx.glovebox
    options.out.mkdir(parents=True, exist_ok=True)
    ctx.glovebox = ctx.out / "glovebox"
    for part, copy in ((source, ctx.glovebox), (source.parent / "glovebox-gate", ctx.out / "glovebox-gate")):
        copy.unlink(missing_ok=True)
        if part.exists():
            shutil.copy2(part, copy)
    results = {"schema": SCHEMA, "quick": options.quick, "runs": options.runs, "interrupted": False,
               "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
               "machine": machine.describe(source), "peers": peers_of(cases, ctx), "cases": [],
               "notes": ctx.notes}
    results["machine"]["load_before"] = machine.load()
    results["glovebox_sha256"] = machine.digest(ctx.glovebox)
    if (ctx.out / "glovebox-gate").exists():
        results["glovebox_gate_sha256"] = machine.digest(ctx.out / "glovebox-gate")
    stolen, ticks = machine.cpu_times()
    start = time.monotonic()
    try:
        for case in cases:
            results["cases"].append(measure(case, ctx))
    except KeyboardInterrupt:
        results["interrupted"] = True
    results["took_s"] = round(time.monotonic() - start, 1)
    results["machine"]["load_after"] = machine.load()
    stolen_now, ticks_now = machine.cpu_times()
    results["machine"]["steal_percent"] = round(100 * (stolen_now - stolen) / max(1, ticks_now - ticks), 2)
    write(results, options.out)
    written = ["results.json", "table.md"]
    if importlib.util.find_spec("matplotlib"):
        written += plots.draw(results, options.out)
    else:
        ctx.say("no plots: python3-matplotlib is not installed")
    ctx.say(f"{results['took_s']:.0f} s; wrote {ctx.shown(str(options.out))}: {' '.join(written)}")
    if results["interrupted"]:
        return 130
    for text in not_there(results):
        ctx.say(f"!! NOT MEASURED: {text}")
    failed = glovebox_failures(results)
    if failed:
        ctx.say(f"GLOVEBOX FAILED in {failed} figures: see table.md")
    return 1 if failed else 0
