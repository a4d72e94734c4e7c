# SPDX-License-Identifier: Apache-2.0
"""Untrusted Python and shell in sealed boxes: a client of Glovebox.

    import glovebox

    with glovebox.Box() as box:
        print(box.run("1 + 1").text)

Box and Client block; AsyncBox and AsyncClient are the same for asyncio. Nothing that comes from a box is executed.
"""
from ._async.box import AsyncBox
from ._async.client import AsyncClient
from ._extract import Downloaded
from ._fields import DEFAULT
from ._sync.box import Box
from ._sync.client import Client
from ._text import plain
from ._version import __version__
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .outputs import Output
from .results import CellResult, CommandResult

__all__ = ["DEFAULT", "AsyncBox", "AsyncClient", "Box", "CellResult", "Client", "CommandResult", "Downloaded", "Output", "__version__", "plain", *_errors]
