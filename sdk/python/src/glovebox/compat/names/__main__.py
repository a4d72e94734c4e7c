# SPDX-License-Identifier: Apache-2.0
"""Says where the modules are that have the names of the originals."""
from __future__ import annotations

import os
import sys

sys.stdout.write(os.path.dirname(os.path.abspath(__file__)) + "\n")
