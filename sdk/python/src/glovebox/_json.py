# SPDX-License-Identifier: Apache-2.0
"""JSON of known shapes: what a server says is looked at before it is believed."""
from __future__ import annotations

import json
from typing import Dict, List, Mapping, NoReturn, Optional, Tuple, cast

from ._text import plain
from .errors import InvalidRequest, ProtocolError

Object = Dict[str, object]

# The one that is made by json.dumps() with arguments is made anew for every call.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def encode(value: object, call: str) -> bytes:
    try:
        return _encode(value).encode()
    except UnicodeEncodeError as e:
        raise InvalidRequest(f"a text has half a character (a lone surrogate) in it, at {e.start}: it cannot be sent [{call}]") from None
    except (TypeError, ValueError) as e:
        raise InvalidRequest(f"this cannot be sent as JSON: {plain(str(e))} [{call}]") from None


def decode(data: bytes, where: str) -> Object:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise ProtocolError(f"an answer that is no JSON ({plain(str(e))[:200]}): {shown(data)} [{where}]; is that a Glovebox server?") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"an answer that is no JSON object: {shown(data)} [{where}]; is that a Glovebox server?")
    return value


def shown(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace")) + ("…" if len(data) > 80 else "")


def _bad(o: Mapping[str, object], key: str, kind: str) -> NoReturn:
    value = plain(repr(o.get(key)))[:80]
    raise ProtocolError(f"an answer in which {key!r} is {value if key in o else 'missing'} and should be {kind}; is that a Glovebox server of this version?")


def text(o: Mapping[str, object], key: str) -> str:
    value = o.get(key)
    return value if isinstance(value, str) else _bad(o, key, "a text")


def text_or_none(o: Mapping[str, object], key: str) -> Optional[str]:
    value = o.get(key)
    return value if value is None or isinstance(value, str) else _bad(o, key, "a text or null")


def integer(o: Mapping[str, object], key: str) -> int:
    value = o.get(key)
    return value if type(value) is int else _bad(o, key, "a number")


def integer_or_none(o: Mapping[str, object], key: str) -> Optional[int]:
    value = o.get(key)
    return value if value is None or type(value) is int else _bad(o, key, "a number or null")


def boolean(o: Mapping[str, object], key: str) -> bool:
    value = o.get(key)
    return value if isinstance(value, bool) else _bad(o, key, "true or false")


def member(o: Mapping[str, object], key: str) -> Object:
    value = o.get(key)
    return value if isinstance(value, dict) else _bad(o, key, "an object")


def member_or_none(o: Mapping[str, object], key: str) -> Optional[Object]:
    value = o.get(key)
    return value if value is None or isinstance(value, dict) else _bad(o, key, "an object or null")


def objects(o: Mapping[str, object], key: str) -> List[Object]:
    value = o.get(key)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        _bad(o, key, "a list of objects")
    return cast(List[Object], value)


def texts(o: Mapping[str, object], key: str) -> Tuple[str, ...]:
    value = o.get(key)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        _bad(o, key, "a list of texts")
    return tuple(cast(List[str], value))


def mapping_of_texts(o: Mapping[str, object], key: str) -> Dict[str, str]:
    value = member(o, key)
    if not all(isinstance(one, str) for one in value.values()):
        _bad(o, key, "an object of texts")
    return cast(Dict[str, str], value)


def header(headers: List[Tuple[bytes, bytes]], name: bytes) -> Optional[str]:
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None
