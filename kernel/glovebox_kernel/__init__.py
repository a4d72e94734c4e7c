# SPDX-License-Identifier: Apache-2.0
"""The Python in a box: a real IPython behind a channel to init. kernel/README.md is the contract."""
PROTOCOL = 1
