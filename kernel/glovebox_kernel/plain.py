# SPDX-License-Identifier: Apache-2.0
"""Values of user code as JSON, whatever they are.

An encoder of our own, because json's looks its parts up in a module that anybody may patch, and stops at the first value
that JSON does not have. Here bytes become base64, numbers without a JSON form null, and what is nothing of all this its
str(). Bounded in depth, in number and in size.
"""
from .safe import builtins as __builtins__  # isort: skip

from binascii import b2a_base64
from json.decoder import JSONDecoder
from json.encoder import encode_basestring
from operator import index

DEPTH_MAX = 64
VALUES_MAX = 4 << 20
# Where measuring ends: of what is larger it is only said that it is.
SIZE_MAX = 256 << 20

_quote = encode_basestring
_decode = JSONDecoder().decode
_items, _iter_list, _iter_tuple = dict.items, list.__iter__, tuple.__iter__
_str, _int, _float = str.__str__, int.__repr__, float.__repr__
_infinity = float("inf")


class TooLarge(Exception):
    def __init__(self, size, exact=False):
        super().__init__(size)
        self.size = size
        self.exact = exact

    def text(self):
        return f"{self.size} bytes" if self.exact else f"more than {self.size} bytes"


def encode(value, limit):
    """UTF-8. Raises TooLarge, and what code of the user raises that is not an Exception."""
    writer = _Writer()
    writer.put(value, 0)
    data = "".join(writer.out).encode("utf-8", "backslashreplace")
    if len(data) > limit:
        raise TooLarge(len(data), exact=True)
    return data


def decode(data):
    """What init sends. Raises ValueError."""
    try:
        return _decode(data.decode("utf-8", "surrogatepass"))
    except RecursionError:
        raise ValueError("too deep") from None


class _Writer:
    def __init__(self):
        self.out = []
        self.left = VALUES_MAX
        self.size = 0

    def text(self, text):
        self.size += len(text)
        if self.size > SIZE_MAX:
            raise TooLarge(self.size)
        self.out.append(_quote(text))

    def put(self, value, depth):
        self.left -= 1
        if self.left < 0:
            raise TooLarge(self.size + VALUES_MAX)
        if value is None:
            self.out.append("null")
        elif value is True:
            self.out.append("true")
        elif value is False:
            self.out.append("false")
        elif isinstance(value, str):
            self.text(_str(value))
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self.text(base64_of(value))
        elif isinstance(value, int):
            self.out.append(_number(value))
        elif isinstance(value, float):
            self.out.append(_float(value) if -_infinity < value < _infinity else "null")
        elif depth >= DEPTH_MAX:
            self.text("…")
        elif isinstance(value, dict):
            self.object(_items(value), depth)
        elif isinstance(value, list):
            self.array(_iter_list(value), depth)
        elif isinstance(value, tuple):
            self.array(_iter_tuple(value), depth)
        else:
            self.other(value, depth)

    def object(self, items, depth):
        out = self.out
        out.append("{")
        first = True
        for key, value in list(items):
            if not first:
                out.append(",")
            first = False
            self.text(_str(key) if isinstance(key, str) else _text_of_key(key))
            out.append(":")
            self.put(value, depth + 1)
        out.append("}")

    def array(self, values, depth):
        out = self.out
        out.append("[")
        first = True
        for value in values:
            if not first:
                out.append(",")
            first = False
            self.put(value, depth + 1)
        out.append("]")

    def other(self, value, depth):
        """Numbers of numpy, dates, sets, mappings: whatever says what it is, else its text."""
        try:
            number = index(value)
        except Exception:
            pass
        else:
            self.out.append(_number(number))
            return
        for way in (_mapping, _elements, _item):
            try:
                plain = way(value)
            except Exception:
                plain = None
            if plain is not None:
                self.put(plain, depth + 1)
                return
        self.text(text_of(value))


def _number(value):
    try:
        return _int(value)
    except ValueError:
        # More digits than Python wants to convert.
        return "null"


def _mapping(value):
    if hasattr(type(value), "keys") and hasattr(type(value), "__getitem__"):
        return {key: value[key] for key in value.keys()}
    return None


def _elements(value):
    return list(value) if isinstance(value, (set, frozenset, range)) else None


def _item(value):
    for name in ("isoformat", "item"):
        method = getattr(value, name, None)
        if callable(method):
            plain = method()
            return plain if isinstance(plain, (str, int, float)) else None
    return None


def _text_of_key(key):
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return text_of(key)


def base64_of(value):
    try:
        return b2a_base64(value, newline=False).decode("ascii")
    except (BufferError, ValueError):
        return b2a_base64(bytes(value), newline=False).decode("ascii")


def text_of(value):
    """str(value), by any means: of a type without a working one, only its name."""
    try:
        return _str(str(value))
    except Exception:
        try:
            return f"<unprintable {_str(type(value).__name__)} object>"
        except Exception:
            return "<unprintable object>"
