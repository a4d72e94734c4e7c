#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A beam search over ways to analyse data: at each step every session that is left is forked, each copy goes on in a way of its own, and the best are kept.

    beam_search.py [--out DIR]

The data is loaded and cleaned once. Nothing is run again for a copy: it has the data frame, the model and the random state of the session that it was made of. Each of the
eight branches of a step draws its plot into DIR, as step-branch.png.
"""
import argparse
import os
import pathlib
import time

import glovebox

# What is done once, however many ways there are to go on.
BEGIN = """
import numpy as np, matplotlib.pyplot as plt
rng = np.random.default_rng(7)
x = np.sort(rng.uniform(0, 10, 300))
y = np.sin(x) * x + 3 * np.cos(2 * x) + 0.02 * x ** 3 + rng.normal(0, 1.0, x.size)
train = rng.random(x.size) < 0.7
features, story = [np.ones_like(x), x], ["a line"]

def error(columns):
    a = np.column_stack(columns)
    found, *_ = np.linalg.lstsq(a[train], y[train], rcond=None)
    return float(np.sqrt(np.mean((a[~train] @ found - y[~train]) ** 2))), a @ found
"""

# What a branch may add to what it has.
WAYS = ["np.sin(x)", "np.cos(2 * x)", "x * np.sin(x)", "x ** 3", "x * np.cos(x)", "x ** 2", "np.cos(2 * x)", "np.sqrt(x)"]
GO = """
features.append({way}); story.append("{way}")
score, fitted = error(features)
fig, ax = plt.subplots(figsize=(5, 3)); ax.plot(x, y, ".", ms=3); ax.plot(x, fitted, lw=2)
ax.set_title(f"{{score:.2f}}: " + " + ".join(story), fontsize=8); plt.show()
score
"""
BRANCHES, KEPT, STEPS = 8, 2, 3


def tried(branch, number, step, out):
    """(its error, the box), with its picture in the folder."""
    box, way = branch
    result = box.run(GO.format(way=way))
    (out / f"{step}-{number}.png").write_bytes(result.images[0])
    return float(result.text), box


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("branches"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("GLOVEBOX_WARM", "true")  # of a server of our own, which makes no image otherwise
    with glovebox.Client() as client:
        # A server that has just begun makes the image that kernels come from; those that come from it can be copied.
        while "kernel" not in client.health()["warm"]:
            time.sleep(0.1)
        beam = [glovebox.Box(client=client).open()]
        beam[0].run(BEGIN)
        for step in range(1, STEPS + 1):
            share = BRANCHES // len(beam)
            forks = [fork for box in beam for fork in box.forks(share)]
            scored = sorted((tried(branch, number, step, out) for number, branch in enumerate(zip(forks, WAYS), 1)), key=lambda one: one[0])
            for _, box in [*((None, box) for box in beam), *scored[KEPT:]]:
                box.close()
            beam = [box for _, box in scored[:KEPT]]
            print(f"step {step}: best {scored[0][0]:.2f}, worst {scored[-1][0]:.2f}")
        print(beam[0].run("print(' + '.join(story))").stdout.strip())
        for box in beam:
            box.close()


if __name__ == "__main__":
    main()
