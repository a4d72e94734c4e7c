# SPDX-License-Identifier: Apache-2.0
from glovebox.compat.ipybox.__main__ import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
