# SPDX-License-Identifier: Apache-2.0
from glovebox.compat.ipybox.mcp.gen import *
