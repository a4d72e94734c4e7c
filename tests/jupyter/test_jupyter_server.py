# SPDX-License-Identifier: Apache-2.0
"""Debian's jupyter_server in gateway mode: its notebooks run in our boxes."""
import pytest

from hosts import hosted
from server import WARM, Server, needs_root
from through_host import *  # noqa: F403

pytestmark = [needs_root, pytest.mark.more]

TENANT = "token-of-a-tenant-0123456789"
host = hosted("jupyter_server", "ServerApp")


@pytest.fixture(scope="module")
def server(glovebox, tmp_path_factory):
    with Server(tmp_path_factory.mktemp("serve"), tokens={"them": TENANT}, **WARM) as server:
        server.token, server.as_tenant = TENANT, {"Authorization": f"token {TENANT}"}
        yield server
