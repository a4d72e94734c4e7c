# SPDX-License-Identifier: Apache-2.0
"""What code that ipybox generated imports, inside a box. The clients of ipybox that run outside are not here."""
