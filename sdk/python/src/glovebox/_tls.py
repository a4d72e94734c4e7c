# SPDX-License-Identifier: Apache-2.0
"""Whose certificates are believed."""
from __future__ import annotations

import ssl
from typing import Optional, Union

from ._address import Address
from .errors import InvalidRequest

Verify = Union[bool, str, ssl.SSLContext]


def context(address: Address, verify: Verify) -> Optional[ssl.SSLContext]:
    """verify: those of this machine; a file or directory of others (PEM); a context; False: anybody's, which is no protection."""
    if address.scheme != "https":
        return None
    if isinstance(verify, ssl.SSLContext):
        return verify
    made = ssl.create_default_context()
    if isinstance(verify, str):
        import os

        try:
            made.load_verify_locations(capath=verify) if os.path.isdir(verify) else made.load_verify_locations(cafile=verify)
        except (OSError, ssl.SSLError) as e:
            raise InvalidRequest(f"verify={verify!r} has no certificates that can be read: {e}") from None
    elif not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made
