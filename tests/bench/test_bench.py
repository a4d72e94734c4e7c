# SPDX-License-Identifier: Apache-2.0
"""The benchmark itself: its arithmetic, its table, its command line, and one small real run. No time is asserted."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import cases, kinds, launch, peers, report, stats  # noqa: E402

FIGURES = {"runs", "failures", "p50", "p95", "p99", "min", "mean"}


def bench(*words):
    return subprocess.run([HERE / "run", *map(str, words)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)


# --- arithmetic ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples, q, expected", [
    ([7], 0, 7), ([7], 50, 7), ([7], 100, 7),
    ([1, 2], 50, 1.5), ([1, 2, 3], 50, 2), ([1, 2, 3, 4], 50, 2.5),
    (list(range(101)), 95, 95), (list(range(101)), 99, 99), (list(range(101)), 100, 100),
    ([0, 10], 95, 9.5), ([5, 5, 5], 99, 5),
])
def test_percentile(samples, q, expected):
    assert stats.percentile(samples, q) == pytest.approx(expected)


@pytest.mark.parametrize("samples, q", [([], 50), ([1], -1), ([1], 101)])
def test_percentile_refuses(samples, q):
    with pytest.raises(ValueError):
        stats.percentile(samples, q)


def test_summary_counts_failures_and_keeps_them_out_of_the_times():
    row = stats.summary([3, 1, 2], failures=2)
    assert (row["runs"], row["failures"], row["p50"], row["min"], row["max"], row["mean"]) == (5, 2, 2, 1, 3, 2)


def test_summary_of_nothing_but_failures():
    row = stats.summary([], failures=4)
    assert (row["runs"], row["failures"], row["p50"], row["mean"]) == (4, 4, None, None)


def test_tail_of_a_rate_is_its_low_end():
    row = stats.summary(range(101), more_is_better=True)
    assert (row["p50"], row["p95"], row["p99"], row["min"]) == (50, 5, 1, 0)


# --- one run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages, expect, error", [
    ([["/bin/echo", "1"]], b"1\n", None),
    ([["/bin/echo", "1"], ["/usr/bin/cat"]], b"1\n", None),
    ([["/bin/echo", "{id}"]], None, None),
    ([["/bin/echo", "2"]], b"1\n", "printed"),
    ([["/bin/false"]], b"", "exit status [1]"),
    ([["/bin/sh", "-c", "echo no good >&2; exit 3"]], None, "no good"),
    ([["/nonexistent/program"]], b"", "No such file"),
])
def test_once_tells_a_right_answer_from_a_wrong_one(stages, expect, error):
    run = launch.once(launch.Command(stages, expect))
    assert run.ns > 0
    assert run.error is None if error is None else error in run.error


def test_once_ends_what_does_not_end(tmp_path):
    trace = tmp_path / "cleaned"
    command = launch.Command([["/bin/sleep", "1000"]], cleanup=["/usr/bin/touch", str(trace)])
    assert "no end after" in launch.once(command, timeout_s=0.2).error
    assert trace.exists()


def test_launcher_is_a_process_of_its_own_and_reports_its_troubles():
    launcher = launch.Launcher()
    try:
        assert launcher.call(os.getpid) != os.getpid()
        with pytest.raises(RuntimeError, match="FileNotFoundError"):
            launcher.call(os.stat, "/nonexistent")
        assert launcher.call(launch.count_bytes, launch.Command([["/usr/bin/head", "-c", "300000", "/dev/zero"]])) \
            == 300000
    finally:
        launcher.close()


# --- the tables ----------------------------------------------------------------------------------------------


def test_every_case_is_complete():
    names = [(case.group, case.name) for case in cases.CASES]
    assert len(names) == len(set(names))
    for case in cases.CASES:
        assert case.what and case.peers and callable(case.kind)
        for peer in case.members():
            assert peer.holds and os.path.isabs(peer.program) or peer.program == "glovebox"


def test_bundle_has_a_place_for_every_mount(tmp_path):
    spec = peers.oci_spec(cases.PRINT, cgroup=True)
    peers.make_bundle(tmp_path, spec)
    assert json.loads((tmp_path / "config.json").read_text()) == spec
    for mount in spec["mounts"]:
        assert (tmp_path / "rootfs" / mount["destination"].lstrip("/")).exists()


class FakeContext:
    runs, quick = 8, True

    def __init__(self):
        self.warnings = []

    def warn(self, text):
        self.warnings.append(text)

    def progress(self, *_):
        pass


class FakePeer:
    holds = "nothing"

    def __init__(self, name, answers=(), why=None):
        self.name, self.answers, self.why, self.shown, self.log = name, answers, why, name, None

    def missing(self, _ctx):
        return self.why

    def open(self, _ctx, _work):
        return self

    def once(self):
        self.log.append(self.name)
        error = self.answers[len([n for n in self.log if n == self.name]) % len(self.answers)]
        return launch.Run(1000000, error)

    def close(self):
        self.log.append(f"{self.name} closed")


class FakeCase:
    group, name, work = "group", "name", None

    def __init__(self, *members):
        self.log = []
        for member in members:
            member.log = self.log
        self.list = members

    def members(self):
        return self.list


def test_latency_interleaves_counts_and_never_drops():
    case = FakeCase(FakePeer("good", [None]), FakePeer("flaky", [None, "oops"]), FakePeer("broken", ["no"]),
                    FakePeer("absent", why="not installed"))
    ctx = FakeContext()
    rows = {row["peer"]: row for row in kinds.latency(case, ctx)}
    assert set(rows) == {"good", "flaky", "broken", "absent"}
    assert (rows["good"]["runs"], rows["good"]["failures"], rows["good"]["p50"]) == (8, 0, 1.0)
    assert (rows["flaky"]["runs"], rows["flaky"]["failures"]) == (8, 4)
    assert rows["broken"]["status"] == "does not work here: no"
    assert rows["broken"]["failures"] == rows["broken"]["runs"] == kinds.GIVE_UP_AFTER
    assert rows["absent"]["status"] == "not installed"
    assert any("NOT INSTALLED" in text for text in ctx.warnings)
    # One round of three that does not count, five with everyone, then without the one that never worked.
    rounds = [set(case.log[i:i + 3]) for i in range(0, 18, 3)]
    assert rounds == [{"good", "flaky", "broken"}] * 6
    assert case.log[-3:] == ["good closed", "flaky closed", "broken closed"]


# --- the report ----------------------------------------------------------------------------------------------


def canned():
    def row(peer, figure, unit, samples, failures=0, status="measured", errors=()):
        return {"peer": peer, "status": status, "figure": figure, "unit": unit, "holds": "x", "how": f"/bin/{peer}",
                **stats.summary(samples, failures), "samples": samples, "errors": list(errors)}

    steps = [row("glovebox --json", name, "µs", [value]) for name, value in
             (("cheap", 1), ("dear", 900), ("middle", 99), ("(set-up: all)", 1100), ("(end to end)", 9000))]
    return {
        "schema": 1, "quick": True, "runs": 10, "interrupted": False, "notes": ["a note"],
        "machine": {"cpu": "Some CPU", "cores": 2, "virtual": True, "governor": "unknown", "memory_bytes": 1 << 34,
                    "kernel": "6.1", "architecture": "x86_64", "system": "Debian", "cgroups": "v2", "user": "root",
                    "build": {"buildtype": "release"}, "load_before": [1.5, 1, 1], "load_after": [2, 1, 1],
                    "steal_percent": 0.0},
        "peers": {"a | b": {"path": "/bin/a", "status": "present", "holds": "nothing", "version": "a 1"},
                  "c": {"path": "/bin/c", "status": "not installed", "holds": "nothing", "version": None}},
        "cases": [
            {"group": "one shot", "name": "print", "kind": "latency", "what": "w", "skipped": None,
             "load_before": [0.5, 0, 0], "load_after": [9, 0, 0], "rows": [
                row("a | b", "end to end", "ms", [10, 10]), row("glovebox", "end to end", "ms", [25], 1,
                                                               errors=["boom"]),
                row("c", "end to end", "ms", [], status="not installed")]},
            {"group": "one shot", "name": "heavy", "kind": "latency", "what": "w", "skipped": "cannot import x",
             "rows": []},
            {"group": "plan", "name": "steps", "kind": "plan", "what": "w", "skipped": None, "rows": steps,
             "load_before": [0.5, 0, 0], "load_after": [0.6, 0, 0]},
        ],
    }


def test_table_says_it_all():
    text = report.markdown(canned(), 'STEP(dear,  MOUNT_NS, "what is dear")\n')
    lines = text.splitlines()
    assert "**Quick run: 10 runs per figure. Not to be quoted.**" in lines
    assert any("busy" in line for line in lines)
    assert "| a \\| b | ms | 10.0 | 10.0 | 10.0 | 10.0 | 10.0 | 2 | 0 | 1.00 |" in lines
    assert "| **glovebox** | ms | 25.0 | 25.0 | 25.0 | 25.0 | 25.0 | 2 | 1 | 2.50 |" in lines
    assert "| c: **not installed** | ms | – | – | – | – | – | 0 | 0 | – |" in lines
    assert "- glovebox failed with: boom" in lines
    assert "Load average before 0.5, after 9: **busy with something else**." in lines
    assert "Load average before 0.5, after 0.6." in lines
    assert "**Skipped: cannot import x**" in lines
    order = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert order == ["dear", "middle", "cheap"]
    assert any("90.0 %" in line and "what is dear" in line for line in lines)


def test_table_columns_agree():
    width = None
    for line in report.markdown(canned()).splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = line.replace("\\|", "").count("|")
        assert width in (None, cells), line
        width = cells


# --- the command ---------------------------------------------------------------------------------------------


def test_help_and_list():
    assert "--only" in bench("--help").stdout
    done = bench("--list")
    assert done.returncode == 0, done.stderr
    for case in cases.CASES:
        assert f"{case.group}/{case.name}: " in done.stdout
    assert "/usr/bin/python3" in done.stdout


@pytest.mark.parametrize("words, message", [
    (("--only", "no-such-case"), "no case matches"), (("--runs", "0"), "above 0"), (("--runs", "many"), "invalid"),
])
def test_bad_use_is_refused(words, message):
    done = bench(*words)
    assert done.returncode == 2 and message in done.stderr


def test_quick_run_of_one_case(glovebox, tmp_path):
    done = bench("--quick", "--only", "plan", "--runs", "2", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "results.json").read_text()
    results = json.loads(text)
    assert results["schema"] == 1 and results["quick"] is True and results["runs"] == 2
    assert {"cpu", "cores", "kernel", "load_before", "load_after"} <= set(results["machine"])
    assert os.uname().nodename not in json.dumps(results["machine"])
    assert results["peers"]["glovebox --json"]["version"]
    (case,) = results["cases"]
    assert (case["group"], case["name"]) == ("plan", "steps")
    for row in case["rows"]:
        assert FIGURES <= set(row) and row["status"] == "measured"
        assert (row["runs"], row["failures"], len(row["samples"])) == (2, 0, 2)
    figures = {row["figure"] for row in case["rows"]}
    assert {"root_tree", "seccomp", "(end to end)"} <= figures
    assert "## plan: steps" in (tmp_path / "table.md").read_text()
