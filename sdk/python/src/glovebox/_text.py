# SPDX-License-Identifier: Apache-2.0
"""Text from a box is not to be trusted with a terminal: it may move the cursor, change colours, or type for its reader.

What goes into messages of exceptions, which Python prints, goes through here. What a result has is left as it is.
"""
from __future__ import annotations

import re
from typing import Match

# Sequences that terminals act on: CSI (colours and the like), OSC and its relatives up to their end, others of two characters.
_SEQUENCES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]")
# What is left of controls; and what changes the direction of text, so that it reads as something else.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _shown(match: Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def plain(text: str) -> str:
    """The same without colours and the like; other control characters but line ends and tabs are written out."""
    return _CONTROLS.sub(_shown, _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def clipped(text: str, most: int) -> str:
    """Its end, where the reason of a failure usually is."""
    return text if len(text) <= most else f"[{len(text) - most} characters left out]\n{text[-most:]}"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "GiB"
    return f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
