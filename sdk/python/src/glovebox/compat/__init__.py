# SPDX-License-Identifier: Apache-2.0
"""Modules in place of other sandboxes' own, with their names: a program that was written for one of those runs with another import."""
