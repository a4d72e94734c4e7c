# SPDX-License-Identifier: Apache-2.0
"""The command line of ipybox: `glovebox ipybox`, with the same words."""
from __future__ import annotations

import os
import sys

from ..._server import find_program
from ...errors import NoServer


def main() -> None:
    try:
        program = find_program()
    except NoServer as e:
        sys.exit(f"ipybox: {e}")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execv(program, [program, "ipybox", *sys.argv[1:]])


if __name__ == "__main__":
    main()
