# SPDX-License-Identifier: Apache-2.0
"""What a new environment has, found out in a box of it: a line of JSON. `glovebox env` runs this with the environment's own Python; sys.argv[1:] are modules to be imported."""
import importlib
import json
import sys


def failure(name):
    try:
        importlib.import_module(name)
    except BaseException as e:
        return f"{name}: {type(e).__name__}: {e}"[:300]
    return None


def main():
    cells = failure("IPython") is None and sys.version_info >= (3, 9)
    failed = [text for text in map(failure, sys.argv[1:]) if text]
    print(json.dumps({"python_version": "%d.%d.%d" % sys.version_info[:3], "cells": cells, "failed": failed[:8]}))


main()
