# SPDX-License-Identifier: Apache-2.0
"""Where a server is: http://HOST:PORT, https://HOST, unix:/PATH, the first two also with a prefix of a proxy."""
from __future__ import annotations

import urllib.parse
from typing import NamedTuple, Optional

from .errors import InvalidRequest

# sun_path of Linux, with its final NUL.
UNIX_PATH_MAX = 107


class Address(NamedTuple):
    url: str  # as it is shown: without a password
    scheme: str  # http or https
    host: str
    port: int
    unix: Optional[str]  # a path; then host and port mean nothing
    prefix: str  # of every path, "" or "/something"
    authority: str  # for Host
    token: Optional[str]  # from http://gb:TOKEN@host/


def _wrong(url: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{url!r} is no address of a server: {why}; it is http://HOST:PORT, https://HOST or unix:/PATH [url=…, or GLOVEBOX_URL]")


def parse(url: str) -> Address:
    if any(c <= " " or c == "\x7f" for c in url):
        raise _wrong(url, "it has a blank or a control character")
    if url.startswith("unix:"):
        path = url[5:]
        if path.startswith("//"):
            path = path[2:]
        if not path.startswith("/"):
            raise _wrong(url, "the path of its socket is not absolute")
        if len(path.encode()) > UNIX_PATH_MAX:
            raise _wrong(url, f"a socket's path has at most {UNIX_PATH_MAX} bytes")
        return Address(f"unix:{path}", "http", "localhost", 80, path, "", "localhost", None)
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode("ascii") if ":" not in (parts.hostname or "") else parts.hostname or ""
    except (ValueError, UnicodeError):
        raise _wrong(url, "its host or port makes no sense") from None
    shown = urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    if parts.scheme not in ("http", "https"):
        raise _wrong(shown, f"{parts.scheme!r} is none of http, https and unix" if parts.scheme else "it has no scheme")
    if not host:
        raise _wrong(shown, "it names no host")
    if parts.query or parts.fragment:
        raise _wrong(shown, "it has a query or a fragment")
    default = 443 if parts.scheme == "https" else 80
    bracketed = f"[{host}]" if ":" in host else host
    authority = bracketed if port is None or port == default else f"{bracketed}:{port}"
    prefix = urllib.parse.quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")
    token = urllib.parse.unquote(parts.password) if parts.password else None
    return Address(shown.rstrip("/"), parts.scheme, host, port or default, None, prefix, authority, token)
