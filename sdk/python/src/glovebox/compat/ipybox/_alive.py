# SPDX-License-Identifier: Apache-2.0
"""A container lives until it is killed, and a box for its time only: a thread says again and again that it is still needed.

A thread, because programs block their event loop for as long as they like (by input(), say). A program that was killed says nothing any
more, and its box ends by its time.
"""
from __future__ import annotations

import threading
from typing import Mapping, Optional

from ..._async.http import AsyncHttp
from ..._sync.client import Client
from ...errors import BoxGone, GloveboxError, NotFound

_MOST_S = 60.0


class Alive:
    def __init__(self, http: AsyncHttp, url: str, token: str, box: str, ttl: Optional[int], idle: Optional[int]) -> None:
        self._over = threading.Event()
        self._fields: Mapping[str, object] = {} if ttl is None else {"ttl_seconds": ttl}
        times = [one / 3 for one in (ttl, idle) if one]
        self._each = max(min([*times, _MOST_S]), 0.2)
        self._client = Client(url, token or None, verify=http.context if http.context is not None else True)
        threading.Thread(target=self._run, args=(f"/v1/boxes/{box}",), name="glovebox-ipybox", daemon=True).start()

    def _run(self, path: str) -> None:
        with self._client as client:
            while not self._over.wait(self._each):
                try:
                    client.http().done("PATCH", path, self._fields)
                except (BoxGone, NotFound):
                    return
                except GloveboxError:  # of a server that is not there for the moment
                    continue

    def stop(self) -> None:
        self._over.set()
