# SPDX-License-Identifier: Apache-2.0
"""Pictures of the results, where matplotlib is installed. Imported after the last measurement."""
import re

from .report import number

GLOVEBOX, OTHERS, PROMISED = "#1f6f8b", "#b8b8b8", "#c0392b"


def draw(results, folder):
    """Writes one picture per case and returns their names. Raises ImportError without matplotlib."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    mark = " (quick run)" if results["quick"] else ""
    names = []
    for case in results["cases"]:
        rows = [r for r in case["rows"] if r["p50"] is not None]
        if not rows:
            continue
        name = re.sub(r"\W+", "-", f"{case['group']}-{case['name']}") + ".png"
        if case["kind"] == "plan":
            figure = steps(pyplot, rows)
        elif case["kind"] == "curve":
            figure = curves(pyplot, rows)
        elif case["kind"] == "beside":
            figure = bars(pyplot, [r for r in rows if r["unit"] == "×"] or rows)
        else:
            figure = bars(pyplot, rows)
        title = re.sub(r"[`*]", "", case["what"])
        figure.suptitle(f"{case['group']}: {title}{mark}", fontsize=10, y=1.02, verticalalignment="bottom")
        figure.savefig(folder / name, dpi=120, bbox_inches="tight")
        pyplot.close(figure)
        names.append(name)
    return names


def bars(pyplot, rows):
    """p50 as a bar, whiskers to the minimum and to p95 (below p50 where more is better); one panel per unit. A red
    line across a bar is what is promised of it."""
    units = list(dict.fromkeys(r["unit"] for r in rows))
    figure, axes = pyplot.subplots(len(units), 1, squeeze=False,
                                   figsize=(8, sum(0.6 + 0.35 * sum(r["unit"] == u for r in rows) for u in units)))
    for axis, unit in zip(axes[:, 0], units):
        part = [r for r in rows if r["unit"] == unit][::-1]
        several = len({r["figure"] for r in part}) > 1
        labels = [f"{r['peer']}, {r['figure']}" if several else r["peer"] for r in part]
        values = [r["p50"] for r in part]
        spread = [[r["p50"] - r["min"] for r in part], [max(0, r["p95"] - r["p50"]) for r in part]]
        colours = [GLOVEBOX if r["peer"].startswith("glovebox") else OTHERS for r in part]
        axis.barh(labels, values, xerr=spread, color=colours, ecolor="#555555", capsize=2)
        right = max(max(r["p50"], r["p95"]) for r in part)
        axis.set_xlim(0, right * 1.18)
        for y, row in enumerate(part):
            promise = row.get("promise")
            if promise and promise["limit"] is not None and promise["limit"] <= right * 1.18:
                axis.plot([promise["limit"]] * 2, [y - 0.45, y + 0.45], color=PROMISED, linewidth=2)
            told = f"   {promise['id']}: {promise['text']}" if promise else ""
            axis.text(max(row["p50"], row["p95"]) + right * 0.015, y, number(row["p50"]) + told, va="center",
                      fontsize=8)
        axis.set_xlabel(f"{unit}: p50, min to p95")
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def curves(pyplot, rows):
    """p50 against the number of live sessions, a line per series, a panel per unit; shaded up to p95."""
    rows = [r for r in rows if "live" in r]
    units = list(dict.fromkeys(r["unit"] for r in rows))
    figure, axes = pyplot.subplots(len(units), 1, squeeze=False, figsize=(8, 3.6 * len(units)))
    for axis, unit in zip(axes[:, 0], units):
        for series in dict.fromkeys((r["peer"], r["series"]) for r in rows if r["unit"] == unit):
            part = [r for r in rows if r["unit"] == unit and (r["peer"], r["series"]) == series]
            style = "-" if series[0].startswith("glovebox") else ":"
            live = [r["live"] for r in part]
            line, = axis.plot(live, [r["p50"] for r in part], style, marker="o", label=series[1])
            axis.fill_between(live, [r["p50"] for r in part], [r["p95"] for r in part], color=line.get_color(), alpha=0.1)
        axis.set_xscale("log")
        levels = sorted({r["live"] for r in rows})
        axis.set_xticks(levels, levels)
        axis.set_xticks([], minor=True)
        if unit == "ms":
            axis.set_yscale("log")
        else:
            axis.set_ylim(0)
        axis.set_xlabel("live sessions")
        axis.set_ylabel(f"{unit}: p50, shaded to p95")
        axis.legend(loc="upper left", bbox_to_anchor=(1.02, 1), fontsize=8, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure


def steps(pyplot, rows):
    """Two stacked bars: the steps of the plan, and the whole run that they are part of. Means, because
    means add up and medians do not."""
    around = {r["figure"]: r["mean"] for r in rows if r["figure"].startswith("(")}
    parts = sorted(((r["figure"], r["mean"]) for r in rows if not r["figure"].startswith("(")),
                   key=lambda p: -p[1])
    total = sum(value for _, value in parts) or 1
    big = [p for p in parts if p[1] >= total * 0.02]
    rest = [p for p in parts if p[1] < total * 0.02]
    if rest:
        big.append((f"{len(rest)} smaller steps", sum(value for _, value in rest)))
    if "(set-up: between the steps)" in around:
        big.append(("between the steps", max(0, around["(set-up: between the steps)"])))
    whole = [("set-up", around.get("(set-up: all)", total)), ("program", around.get("(program)", 0)),
             ("command line, keeper, end of the box", around.get("(command line, keeper, end of the box)", 0))]
    figure, axes = pyplot.subplots(2, 1, figsize=(10, 4.6))
    colours = pyplot.get_cmap("tab20").colors
    for axis, bar, label in ((axes[0], big, "set-up of a box"), (axes[1], whole, "one shot, end to end")):
        left = 0
        for place, (name, value) in enumerate(bar):
            axis.barh([label], [value], left=left, color=colours[place % len(colours)],
                      label=f"{name} {value:.0f}")
            left += value
        axis.set_xlabel("µs, mean")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.38), ncol=4, fontsize=7, frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    return figure
