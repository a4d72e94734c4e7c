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


def summary(samples, failures=0):
    """The figures of one row. Runs counts every attempt; the times are of those that gave the right answer,
    because a quick refusal is not a quick answer. All are None when there is none."""
    ordered = sorted(samples)
    row = {"runs": len(ordered) + failures, "failures": failures}
    if not ordered:
        return row | {key: None for key in ("p50", "p95", "p99", "min", "max", "mean")}
    return row | {
        "p50": percentile(ordered, 50),
        "p95": percentile(ordered, 95),
        "p99": percentile(ordered, 99),
        "min": ordered[0],
        "max": ordered[-1],
        "mean": math.fsum(ordered) / len(ordered),
    }
