# SPDX-License-Identifier: Apache-2.0
"""The client of Jupyter's tests speaks to executors, too."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "jupyter"))
