# SPDX-License-Identifier: Apache-2.0
"""Every request but `execute`: contents as in Jupyter's messaging protocol."""
from .safe import builtins as __builtins__  # isort: skip

import sys
from fnmatch import fnmatchcase

import IPython
from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

from . import PROTOCOL, comms

PYTHON = ".".join(str(part) for part in sys.version_info[:3])
LANGUAGE = {"name": "python", "version": PYTHON, "mimetype": "text/x-python", "file_extension": ".py",
            "pygments_lexer": "ipython3", "nbconvert_exporter": "python", "codemirror_mode": {"name": "ipython", "version": 3}}


_banner = ""


def ready(shell):
    global _banner
    # Kept: IPython 9 says something else each time.
    _banner = shell.banner
    return {"protocol": PROTOCOL, "implementation": "ipython", "python": PYTHON, "ipython": IPython.__version__,
            "language_info": LANGUAGE, "banner": _banner}


def _code(content):
    code = content.get("code")
    code = code if isinstance(code, str) else ""
    position = content.get("cursor_pos")
    if type(position) is not int or not 0 <= position <= len(code):
        position = len(code)
    return code, position


def complete(shell, request):
    code, position = _code(request["content"])
    with provisionalcompleter():
        found = list(rectify_completions(code, shell.Completer.completions(code, position)))
    kinds = [{"start": c.start, "end": c.end, "text": c.text, "type": c.type, "signature": c.signature} for c in found]
    start, end = (found[0].start, found[0].end) if found else (position, position)
    return {"status": "ok", "matches": [c.text for c in found], "cursor_start": start, "cursor_end": end,
            "metadata": {"_jupyter_types_experimental": kinds}}


def inspect(shell, request):
    code, position = _code(request["content"])
    name = token_at_cursor(code, position)
    level = 1 if request["content"].get("detail_level") else 0
    data = {}
    if name:
        try:
            data = shell.object_inspect_mime(name, detail_level=level)
        except KeyError:
            pass
    return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}


def is_complete(shell, request):
    status, indent = shell.input_transformer_manager.check_complete(_code(request["content"])[0])
    return {"status": status, "indent": " " * (indent or 0)} if status == "incomplete" else {"status": status}


def history(shell, request):
    """Of this session: there is no other. Session 0, as IPython calls the current one."""
    content = request["content"]
    manager = shell.history_manager
    inputs = manager.input_hist_raw if content.get("raw", True) else manager.input_hist_parsed
    lines = list(enumerate(inputs))[1:]
    kind = content.get("hist_access_type", "tail")
    if kind == "range":
        lines = _range(content, lines)
    elif kind == "search":
        lines = _search(content, lines)
    if kind != "range":
        count = content.get("n")
        if type(count) is int:
            lines = lines[-count:] if count > 0 else []
    if content.get("output"):
        outputs = manager.output_hist_reprs
        return {"status": "ok", "history": [[0, number, [line, outputs.get(number)]] for number, line in lines]}
    return {"status": "ok", "history": [[0, number, line] for number, line in lines]}


def _range(content, lines):
    if content.get("session") not in (None, 0):
        return []
    start, stop = content.get("start"), content.get("stop")
    total = len(lines) + 1
    start = start if type(start) is int else 1
    stop = stop if type(stop) is int and stop else total
    start, stop = (value + total if value < 0 else value for value in (start, stop))
    return [(number, line) for number, line in lines if start <= number < stop]


def _search(content, lines):
    pattern = content.get("pattern")
    pattern = pattern if isinstance(pattern, str) else "*"
    found = [(number, line) for number, line in lines if fnmatchcase(line, pattern)]
    if content.get("unique"):
        last = {line: number for number, line in found}
        found = [(number, line) for number, line in found if last[line] == number]
    return found


def kernel_info(_, __):
    return {"status": "ok", "protocol_version": "5.3", "implementation": "ipython",
            "implementation_version": IPython.__version__, "language_info": LANGUAGE, "banner": _banner,
            "help_links": []}


def comm_info(_, request):
    return {"status": "ok", "comms": comms.info(request["content"].get("target_name"))}


def _comm(kind):
    def handle(_, request):
        comms.handle(kind, request)
        return {"status": "ok"}

    return handle


HANDLERS = {"complete": complete, "inspect": inspect, "history": history, "is_complete": is_complete,
            "kernel_info": kernel_info, "comm_info": comm_info,
            "comm_open": _comm("comm_open"), "comm_msg": _comm("comm_msg"), "comm_close": _comm("comm_close")}
# Those after which nobody can be left who writes.
BRIEF = {"freeze", "complete", "inspect", "history", "is_complete", "kernel_info", "comm_info"}
