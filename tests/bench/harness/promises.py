# SPDX-License-Identifier: Apache-2.0
"""What is promised for a machine with two cores, and whether a figure keeps it. By p50, of the server's rows.

A ratio, or how much more it may be, is to the same figure of the first peer of the case.
"""
import dataclasses

@dataclasses.dataclass(frozen=True)
class Promise:
    id: str
    figure: str  # how the figure's name begins
    sense: str
    limit: float | None
    times: float | None = None
    of: str = ""  # what it is promised for, where that is less than everything: how the peer's name ends
    more: float | None = None

    def text(self, unit, first):
        parts = [] if self.limit is None else [f"{self.sense} {self.limit:,g} {unit}".replace(",", " ")]
        if self.times is not None:
            parts.append(f"{self.sense} {self.times:.3g} × {first}")
        if self.more is not None:
            parts.append(f"{self.sense} {self.more:g} {unit} more than {first}")
        text = " and ".join(parts)
        return f"{self.of}: {text}" if self.of else text

    def keeps(self, value, limit):
        return limit is None or (value <= limit if self.sense == "≤" else value >= limit)


PROMISES = [
    #       id     figure                       sense limit  ratio    of
    Promise("P1",  "end to end",                "≤",  2,     0.15,    "pool hit"),
    Promise("P1",  "end to end",                "≤",  7,     0.5,     "pool miss"),
    Promise("P2",  "end to end",                "≤",  3,     0.02,    "pool hit"),
    Promise("P3",  "new session",               "≤",  3,     1 / 300, "pool hit"),
    Promise("P4",  "hot cell",                  "≤",  0.3,   0.1),
    Promise("P5",  "wall of",                   "≤",  600,   None,    "session pool 8"),
    Promise("P5",  "wall of",                   "≤",  100,   None,    "session pool 100"),
    Promise("P5",  "p99 / p50",                 "≤",  3),
    Promise("P6",  "rate",                      "≥",  400,   None,    "lean image"),
    Promise("P6",  "rate",                      "≥",  220,   None,    "full image"),
    Promise("P7",  "memory per session",        "≤",  4),
    Promise("P8",  "up",                        "≥",  0.7),
    Promise("P8",  "down",                      "≥",  0.7),
    Promise("P8",  "growth of the gate",        "≤",  16),
    Promise("P9",  "through",                   "≥",  300),
    Promise("P9",  "growth of the gate",        "≤",  16),
    Promise("P10", "to 'listening on'",         "≤",  20),
    Promise("P10", "to full pools",             "≤",  1500),
    Promise("P10", "idle: gate and keeper",     "≤",  15),
    Promise("P11", "GET /health",               "≥",  50000),
    Promise("P11", "GET /v1/files",             "≥",  10000),
    Promise("P13", "grown: ",                   "≤",  1.5),
    Promise("P14", "p99 / quiet: ",             "≤",  2),
    Promise("P15", "connection and a byte back", "≤", None,  more=0.3),
    Promise("P16", "through",                   "≥",  None,  0.5),
    Promise("P17", "answer",                    "≤",  0.1),
    Promise("P18", "box",                       "≤",  None,  more=1),
]


def promise_of(case_id, row):
    if case_id is None or not row["peer"].startswith("glovebox serve"):
        return None
    return next((p for p in PROMISES if p.id == case_id and row["figure"].startswith(p.figure)
                 and row["peer"].endswith(p.of)), None)


def add_promises(case_id, rows):
    """Puts into each row what is promised of it (or None): id, text, limit, met."""
    for row in rows:
        promise = promise_of(case_id, row)
        row["promise"] = promise and {
            "id": promise.id, "text": promise.text(row["unit"], rows[0]["peer"]), "limit": promise.limit,
            "met": is_met(promise, row, rows)}


def is_met(promise, row, rows):
    """None where there is nothing to compare."""
    if row["p50"] is None:
        return None
    met = promise.keeps(row["p50"], promise.limit)
    if promise.times is None and promise.more is None:
        return met
    base = next((r["p50"] for r in rows if r["peer"] == rows[0]["peer"] and r["figure"] == row["figure"]), None)
    if not base:
        return None
    return met and promise.keeps(row["p50"] / base, promise.times) and promise.keeps(row["p50"] - base, promise.more)
