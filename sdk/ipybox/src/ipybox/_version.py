# SPDX-License-Identifier: Apache-2.0
"""The version: that of the server which it is made with."""

__version__ = "0.1.0"
