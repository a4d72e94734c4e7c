# SPDX-License-Identifier: Apache-2.0
"""Modules with the names of other systems' clients: a program written for one of them runs after one changed import."""
