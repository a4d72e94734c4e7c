#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MCP server with a few datasets, on standard input and output; nothing but the standard library.

    list_datasets()              what there is
    import_dataset(name, limit)  one of them, as CSV

It stands for whatever your data is behind: a database, a warehouse, an API with a key. It runs in a box of its own, and the key, which code that
analyses the data never sees, is in its environment.
"""
import csv
import io
import json
import math
import os
import random
import sys

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


def weather():
    """Three years of days in a city that there is not."""
    rng = random.Random(7)
    for day in range(3 * 365):
        season = math.cos((day - 200) / 365 * 2 * math.pi)
        yield {"day": day, "month": day % 365 // 31 + 1, "temperature": round(11 + 9 * season + rng.gauss(0, 2.5), 1),
               "rain_mm": round(max(0.0, rng.gauss(1.5 - season, 3)), 1)}


def sales():
    rng = random.Random(8)
    for week in range(156):
        for shop in ("north", "south", "harbour"):
            yield {"week": week, "shop": shop, "items": int(200 + week * (1.2 if shop == "harbour" else 0.3) + rng.gauss(0, 15))}


DATASETS = {"weather": ("days of three years: temperature and rain", weather), "sales": ("items sold in three shops, by week", sales)}

TOOLS = [
    {"name": "list_datasets", "description": "Names of the datasets that there are, and what is in them.", "inputSchema": {"type": "object", "properties": {}},
     "outputSchema": {"type": "object", "properties": {"datasets": {"type": "object", "additionalProperties": {"type": "string"}}}, "required": ["datasets"]}},
    {"name": "import_dataset", "description": "A dataset, as CSV with a header.",
     "inputSchema": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "enum": sorted(DATASETS), "description": "which one"},
                                                                            "limit": {"type": "integer", "minimum": 1, "description": "rows at most"}}}},
]


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def call(name, arguments):
    if "DATA_KEY" not in os.environ:
        return text("the server has no key to its data", isError=True)
    if name == "list_datasets":
        found = {key: about for key, (about, _) in DATASETS.items()}
        return text(json.dumps(found), structuredContent={"datasets": found})
    if arguments.get("name") not in DATASETS:
        return text(f"there is no dataset {arguments.get('name')!r}", isError=True)
    rows = list(DATASETS[arguments["name"]][1]())[:arguments.get("limit")]
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text(out.getvalue())


def answer(method, params):
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {"protocolVersion": asked if asked in VERSIONS else VERSIONS[0], "capabilities": {"tools": {}}, "serverInfo": {"name": "datasets", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
