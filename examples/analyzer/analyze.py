#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run analysis.py in a box that may call the dataset server's tools, show what it printed, and save its plot.

    DATA_KEY=secret glovebox serve --tool-servers examples/analyzer/mcp.json --mount-root $PWD/examples/analyzer &
    examples/analyzer/analyze.py [--url http://127.0.0.1:8000] [--out plot.png]
"""
import argparse
import base64
import json
import pathlib
import sys
import urllib.request


def call(url, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as response:
        text = response.read()
    return json.loads(text) if text else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--out", default="plot.png", type=pathlib.Path)
    options = parser.parse_args()
    code = (pathlib.Path(__file__).resolve().parent / "analysis.py").read_text(encoding="utf-8")
    box = call(options.url, "POST", "/v1/boxes", {"tools": ["datasets"]})
    try:
        answer = call(options.url, "POST", f"/v1/boxes/{box['id']}/cells", {"code": code})
    finally:
        call(options.url, "DELETE", f"/v1/boxes/{box['id']}")
    print(answer["stdout"], end="")
    if answer["status"] != "ok":
        print("\n".join(answer["error"]["traceback"]) if answer.get("error") else answer["status"], file=sys.stderr)
        return 1
    for result in answer["results"]:
        image = result.get("data", result).get("image/png")
        if image:
            options.out.write_bytes(base64.b64decode(image))
            print(f"the plot is in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
