# SPDX-License-Identifier: Apache-2.0
"""What is said about a list of samples. Pure functions, nothing else."""
import math


def percentile(ordered, q):
    """The q-th percentile (0..100) of sorted samples, linear between neighbours as numpy does by default."""
    if not ordered:
        raise ValueError("no samples")
    if not 0 <= q <= 100:
        raise ValueError(f"no such percentile: {q}")
    rank = (len(ordered) - 1) * q / 100
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def summary(samples, failures=0, more_is_better=False):
    """The figures of one row. Runs counts every attempt; the times are of those that gave the right answer,
    because a quick refusal is not a quick answer. All are None when there is none.

    p95 means that 95 of 100 runs were this good or better, also where more is better."""
    def tail(q):
        return percentile(ordered, 100 - q if more_is_better else q)

    ordered = sorted(samples)
    row = {"runs": len(ordered) + failures, "failures": failures}
    if not ordered:
        return row | {key: None for key in ("p50", "p95", "p99", "min", "max", "mean")}
    return row | {
        "p50": tail(50),
        "p95": tail(95),
        "p99": tail(99),
        "min": ordered[0],
        "max": ordered[-1],
        "mean": math.fsum(ordered) / len(ordered),
    }
