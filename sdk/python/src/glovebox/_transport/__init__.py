# SPDX-License-Identifier: Apache-2.0
"""What the two forms do not have in common: `aio` for asyncio, `blocking` for threads. Both have the same names."""
