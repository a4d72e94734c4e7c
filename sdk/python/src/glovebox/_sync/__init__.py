# SPDX-License-Identifier: Apache-2.0
# Made by tools/unasync from _async/__init__.py: do not edit.
"""The blocking form, made by tools/unasync."""
