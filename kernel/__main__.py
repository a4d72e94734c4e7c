# SPDX-License-Identifier: Apache-2.0
"""python3 -I -B kernel.pyz [MODULE...]: a kernel, with the channel on descriptor 3; with --freeze or --handler, see zygote.py."""
import sys

if sys.argv[1:2] == ["--freeze"]:
    from glovebox_kernel.zygote import program
    program(sys.argv[2:])
elif sys.argv[1:2] == ["--freeze-kernel"]:
    from glovebox_kernel.zygote import kernel
    kernel(sys.argv[2:])
elif sys.argv[1:2] == ["--handler"]:
    from glovebox_kernel.zygote import cold
    cold()
else:
    from glovebox_kernel.main import main
    main()
