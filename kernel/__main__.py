# SPDX-License-Identifier: Apache-2.0
"""python3 -I -B kernel.pyz [MODULE…]: a kernel, with the channel on descriptor 3."""
from glovebox_kernel.main import main

main()
