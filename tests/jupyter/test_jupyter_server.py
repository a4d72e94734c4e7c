# SPDX-License-Identifier: Apache-2.0
"""Debian's jupyter_server in gateway mode: its notebooks run in our boxes."""
import pytest

from hosts import in_front
from server import needs_root
from through_host import *  # noqa: F403

pytestmark = [needs_root, pytest.mark.more]

in_front_of = in_front("jupyter_server", "ServerApp")
