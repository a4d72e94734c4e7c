# SPDX-License-Identifier: Apache-2.0
"""Messages and replies as bytes. What cannot be sent is replaced by something that says so."""
from .safe import builtins as __builtins__  # isort: skip

from .channel import MESSAGE_MAX
from .plain import TooLarge, encode, text_of

DISPLAYS = ("display_data", "update_display_data", "execute_result")
_MIB = 1 << 20
# The reply of a cell that went well and was asked nothing. Its values are ours.
_USUAL = {"status": "ok", "execution_count": None, "user_expressions": {}, "payload": []}
_USUAL_REPLY = b'{"type":"execute_reply","content":{"status":"ok","execution_count":%d,"user_expressions":{},"payload":[]}}'


def message(kind, content, **more):
    """{"type", "content"}, and what comm messages have beside: metadata, buffers."""
    whole = {"type": kind, "content": content}
    whole.update(more)
    try:
        return encode(whole, MESSAGE_MAX)
    except TooLarge as e:
        return _instead(kind, content, f"{kind} of {e.text()} was left out: a message has at most {MESSAGE_MAX // _MIB} MiB")
    except Exception as e:
        return _instead(kind, content, f"{kind} could not be sent: {type(e).__name__}: {text_of(e)[:1000]}")


def reply(kind, content):
    """The content of END. Raises nothing."""
    if kind == "execute_reply" and type(content) is dict and len(content) == len(_USUAL):
        count = content.get("execution_count")
        if type(count) is int and all(content.get(key) == value for key, value in _USUAL.items() if value is not None):
            return _USUAL_REPLY % count
    try:
        return encode({"type": kind, "content": content}, MESSAGE_MAX)
    except TooLarge as e:
        text = f"the reply had {e.text()}, and a message has at most {MESSAGE_MAX // _MIB} MiB"
    except BaseException as e:
        text = f"the reply could not be sent: {type(e).__name__}"
    count = content.get("execution_count") if type(content) is dict else None
    return failure(kind, "MessageError", text, count)


def failure(kind, name, text, count=None):
    content = {"status": "error", "ename": name, "evalue": text, "traceback": []}
    if type(count) is int:
        content["execution_count"] = count
    try:
        return encode({"type": kind, "content": content}, MESSAGE_MAX)
    except BaseException:
        return b'{"type":"' + kind.encode() + b'","content":{"status":"error","ename":"Error","evalue":"","traceback":[]}}'


def _instead(kind, content, text):
    if kind == "error":
        name = text_of(content.get("ename"))[:1000]
        return encode({"type": kind, "content": {"ename": name, "evalue": text, "traceback": [f"{name}: {text}"]}}, MESSAGE_MAX)
    new = {"data": {"text/plain": f"[{text}]"}, "metadata": {}}
    if kind in DISPLAYS:
        for key in ("execution_count", "transient"):
            value = content.get(key)
            if type(value) is int:
                new[key] = value
            elif type(value) is dict and type(value.get("display_id")) is str:
                new[key] = {"display_id": value["display_id"][:1000]}
    else:
        kind = "display_data"
    return encode({"type": kind, "content": new}, MESSAGE_MAX)
