# SPDX-License-Identifier: Apache-2.0
"""The archive that we came out of, behind a descriptor. It is not a place to look for anybody else's modules."""
from .safe import builtins as __builtins__  # isort: skip

import os
import sys

_PREFIX = "/proc/self/fd/"
_path = sys.path[0] if sys.path and sys.path[0].startswith(_PREFIX) else None

# At once: what searches sys.path for packages' metadata would keep it open.
if _path:
    del sys.path[0]


def shut():
    """When all of our modules are imported."""
    if _path:
        for path in list(sys.path_importer_cache):
            if path.startswith(_path):
                del sys.path_importer_cache[path]
        try:
            os.close(int(_path[len(_PREFIX):]))
        except (OSError, ValueError):
            pass
