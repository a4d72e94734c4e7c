# SPDX-License-Identifier: Apache-2.0
"""results.json becomes table.md. Pure: what goes in is the results, what comes out is text."""
import re
from itertools import repeat

STEP = re.compile(r'^STEP\((\w+),\s*\w+,\s*"(.*)"\)', re.M)
COLUMNS = ("p50", "p95", "p99", "min", "mean")


def number(value):
    if value is None:
        return "–"
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"


WORDS = ("peer", "figure", "unit", "version", "keeps in", "step", "what", "promise", "case", "kept",
         "id", "beside")


def met_text(promise):
    return {True: "yes", False: "**no**", None: "–"}[promise["met"]]


def table(head, rows):
    def line(cells):
        # A bar inside a cell would end it.
        return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("---" if name in WORDS else "---:" for name in head) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def ratio(row, rows):
    """How many times the same figure of the first peer, by p50."""
    base = next((r for r in rows if r["peer"] == rows[0]["peer"] and r["figure"] == row["figure"]), None)
    if not base or not base["p50"] or row["p50"] is None:
        return "–"
    return f"{row['p50'] / base['p50']:.2f}"


def case_rows(case):
    rows = case["rows"]
    several = len({r["figure"] for r in rows}) > 1
    promised = any(r.get("promise") for r in rows)
    head = ["peer"] + (["figure"] if several else []) + ["unit", *COLUMNS, "runs", "failures",
                                                        f"× {rows[0]['peer']}"]
    head += ["promise", "kept"] if promised else []
    cells = []
    for row in rows:
        name = row["peer"] if row["peer"].split()[0] != "glovebox" else f"**{row['peer']}**"
        if row["status"] != "measured":
            name += f": **{row['status']}**"
        cells.append([name] + ([row["figure"]] if several else []) + [row["unit"]]
                     + [number(row[c]) for c in COLUMNS] + [row["runs"], row["failures"], ratio(row, rows)])
        if promised:
            promise = row.get("promise")
            cells[-1] += [promise["text"], met_text(promise)] if promise else ["", ""]
    return table(head, cells)


def promise_rows(results):
    """Everything that is promised, in one place."""
    return [[promise["id"], f"{case['group']}: {case['name']}", row["figure"], promise["text"],
             f"{number(row['p50'])} {row['unit']}", met_text(promise)]
            for case in results["cases"] for row in case["rows"] if (promise := row.get("promise"))]


def plan_rows(case, texts):
    """The steps by cost, then what surrounds them."""
    rows = [r for r in case["rows"] if r["p50"] is not None]
    steps = sorted((r for r in rows if not r["figure"].startswith("(")), key=lambda r: -r["p50"])
    total = sum(r["mean"] for r in steps) or 1
    head = ["step", *COLUMNS, "share", "what"]
    cells = [[f"`{r['figure']}`", *(number(r[c]) for c in COLUMNS), f"{100 * r['mean'] / total:.1f} %",
              texts.get(r["figure"], "")] for r in steps]
    around = [[r["figure"].strip("()"), *(number(r[c]) for c in COLUMNS), "", ""]
              for r in rows if r["figure"].startswith("(")]
    first = case["rows"][0]
    return (table(head, cells + around)
            + f"\n\nµs over {first['runs']} runs, {first['failures']} failed. Share: of the sum of the means of the"
              " steps. The last rows are not steps: the program's time is the box's own clock, the rest is what"
              " remains of the time end to end.")


def beside_rows(case, cores):
    """What is measured beside each act, and how many times the quiet server's that is."""
    rows = [r for r in case["rows"] if "beside" in r]
    kept = {r["figure"].partition(": ")[2]: r["promise"] for r in case["rows"] if r.get("promise")}
    limits = next((r["limits"] for r in rows if r["limits"]), {})
    head = ["what", "beside", "p50", "p95", "p99", "p50 / quiet", "p95 / quiet", "p99 / quiet", "runs", "failures", "its cores",
            "acts", "kept"]
    cells = [[f"{r['series']}, ms", r["beside"], *(number(r[key]) for key in ("p50", "p95", "p99")),
              *(number(r["times_quiet"][key]) for key in ("p50", "p95", "p99")), r["runs"], r["failures"],
              number(r["cores"]), "–" if r["acts"] is None else r["acts"],
              met_text(kept[r["figure"]]) if r["figure"] in kept else ""] for r in rows]
    told = ", ".join(f"{key} {value}" for key, value in limits.items())
    return (table(head, cells)
            + "\n\nQuiet: before and after together. Its cores: processor time of the hostile box by that of the clock, while"
              " others were measured; acts: how often it did it meanwhile, 0 for what does not end. Its limits are the defaults:"
              f" {told}. A neighbour that spins takes processor time from everybody on these {cores} cores: a server that"
              " answers without looking, asked beside the same acts, tells how much.")


def busy(case, cores):
    """Whether the load after a case is more than the case itself can explain: one worker per core and then some."""
    return not case["skipped"] and case["kind"] != "beside" and case["load_after"][0] > cores + 1


def load_line(case, cores):
    return (f"Load average before {case['load_before'][0]}, after {case['load_after'][0]}"
            f"{': **busy with something else**' if busy(case, cores) else ''}.")


def machine_lines(results):
    m = results["machine"]
    yield (f"{m['cpu']}, {m['cores']} cores{' of a virtual machine' if m['virtual'] else ''}, "
           f"{m['memory_bytes'] / (1 << 30):.1f} GiB; Linux {m['kernel']} {m['architecture']}, {m['system']}; "
           f"cgroups {m['cgroups']}; governor {m['governor']}; run as {m['user']}.")
    yield (f"Load average before {m['load_before'][0]}, after {m['load_after'][0]} (the benchmark itself is part of "
           f"the latter); {m['steal_percent']:.1f} % of the processors' time was stolen by the hypervisor.")
    if m["load_before"][0] > m["cores"] * 0.25 or any(map(busy, results["cases"], repeat(m["cores"]))):
        yield ("**The machine was busy with something else: compare within a table only, not between tables, and "
               "mind p95 and p99.**")
    build = ", ".join(f"{k} {v}" for k, v in sorted(m["build"].items()))
    yield f"Build of Glovebox: {build or 'unknown'}."


def markdown(results, plan_text=""):
    texts = dict(STEP.findall(plan_text))
    out = ["# Benchmark", ""]
    if results["quick"]:
        out += [f"**Quick run: {results['runs']} runs per figure. Not to be quoted.**", ""]
    if results["interrupted"]:
        out += ["**Interrupted: cases are missing.**", ""]
    out += [*machine_lines(results), ""]
    out += [table(["peer", "version", "keeps in"],
                  [[name, p["version"] if p["status"] == "present" else f"**{p['status']}**", p["holds"]]
                   for name, p in results["peers"].items()]), ""]
    promised = promise_rows(results)
    if promised:
        out += ["## Promises", "", "Made for a machine with two cores; a figure keeps one by its p50.", "",
                table(["id", "case", "figure", "promise", "p50", "kept"], promised), ""]
    for case in results["cases"]:
        out += [f"## {case['group']}: {case['name']}", "", case["what"], ""]
        if case["skipped"]:
            out += [f"**Skipped: {case['skipped']}**", ""]
            continue
        if case["kind"] == "plan" and case["rows"][0]["p50"] is not None:
            out += [plan_rows(case, texts), ""]
        elif case["kind"] == "beside" and any("beside" in row for row in case["rows"]):
            out += [beside_rows(case, results["machine"]["cores"]), ""]
        else:
            out += [case_rows(case), ""]
        out += [load_line(case, results["machine"]["cores"]), ""]
        failed = {row["peer"]: row["errors"] for row in case["rows"] if row["errors"]}
        out += [f"- {peer} failed with: {'; '.join(errors)}" for peer, errors in failed.items()]
        out += ["", "<details><summary>How each was called</summary>", "", "```"]
        out += sorted({f"{row['peer']}: {row['how']}" for row in case["rows"] if row["how"]})
        out += ["```", "</details>", ""]
    if results["notes"]:
        out += ["## Notes", "", *(f"- {note}" for note in results["notes"]), ""]
    return "\n".join(out)
