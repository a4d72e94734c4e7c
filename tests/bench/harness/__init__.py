# SPDX-License-Identifier: Apache-2.0
"""The parts of tests/bench/run; README.md says which is which."""
