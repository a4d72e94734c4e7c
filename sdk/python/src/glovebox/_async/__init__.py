# SPDX-License-Identifier: Apache-2.0
"""The form for asyncio, from which tools/unasync makes the blocking one."""
