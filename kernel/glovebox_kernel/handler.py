# SPDX-License-Identifier: Apache-2.0
"""A call of a handler: standard input is the request, the result goes to init by the channel.

The request is {"handler_code", "event", "context"}. Its code is a module named `handler`, of which the function of that name is called, once.
What it prints goes where a program prints; what it returns is a message of its own, {"exit_code", "result"}, so nothing that is
printed can be taken for it. The call is over when the function has returned: threads and children are not waited for.

Who wants to cheat can: the channel is a descriptor of the same process, if out of the way. It is his own result that he spoils.
"""
import ctypes
import json
import linecache
import os
import sys
import traceback
from types import FunctionType, ModuleType, SimpleNamespace

from . import descriptors, ending

OK, NOT_LOADED, RAISED, NOT_JSON, EMPTY = 0, 1, 2, 3, 7
MESSAGE, MORE = 17, 1
HEADER = 16
PAYLOAD_MAX = 49152
RESULT_MAX = 16 << 20
FILE = "handler.py"
CO_VARARGS = 4

# Of our own: the code may change the module's.
_dumps, _loads = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode, json.loads
_dumps_escaped = json.JSONEncoder(allow_nan=False).encode
_libc = ctypes.CDLL(None)
_infinity = float("inf")


class NotLoaded(Exception):
    """There is nothing to call, and why."""


def run(channel):
    """The rest of this process's life."""
    fd, me = descriptors.own(channel.detach()), os.getpid()
    descriptors.guard()
    answer = _answer(_loads(_read_input()))
    ending.flush()
    # A copy that the handler made of us, and that returned from it, too, has nothing to tell.
    if os.getpid() == me:
        try:
            _tell(fd, answer)
        except OSError:
            _say("System error: the result could not be told: its descriptor was closed\n")
            ending.flush()
    ending.leave(_libc)


def _read_input():
    with open(0, "rb", closefd=False) as file:
        data = file.read()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return data


def _tell(fd, answer):
    for at in range(0, len(answer), PAYLOAD_MAX):
        more = MORE if at + PAYLOAD_MAX < len(answer) else 0
        os.write(fd, bytes([MESSAGE, more]) + bytes(HEADER - 2) + answer[at:at + PAYLOAD_MAX])


def _answer(request):
    """As bytes: the message."""
    status, value = _call(request)
    data = b"null"
    if status == OK:
        try:
            data = _encode(value)
        except BaseException as e:
            status, data = NOT_JSON, b"null"
            _say(f"The result is not JSON: {_describe(e)}\n")
    if len(data) > RESULT_MAX:
        _say(f"The result is too large: {len(data)} bytes as JSON, {RESULT_MAX} are allowed.\n")
        status, data = NOT_JSON, b"null"
    return b'{"exit_code":%d,"result":%s}' % (status, data)


def _call(request):
    code, event = request["handler_code"], request["event"]
    if not code.strip():
        _say("System error: the code is empty\n")
        return EMPTY, None
    try:
        function = _load(code)
    except NotLoaded as e:
        _say(f"System error: {e}\n")
        return NOT_LOADED, None
    try:
        return OK, _invoke(function, event, request["context"])
    except BaseException as e:
        _say(_traceback(e))
        return RAISED, None


# --- loading -------------------------------------------------------------------------------------------------


def _load(code):
    module = ModuleType("handler")
    module.__file__ = os.path.join(os.getcwd(), FILE)
    sys.modules["handler"] = module
    sys.argv[:] = [FILE]
    more = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = [os.getcwd(), *(entry for entry in more if entry != os.getcwd())]
    # For tracebacks: there is no such file.
    linecache.cache[FILE] = (len(code), None, code.splitlines(True), FILE)
    try:
        exec(compile(code, FILE, "exec", dont_inherit=True), module.__dict__)
    except BaseException as e:
        raise NotLoaded(_traceback(e).rstrip("\n")) from None
    function = module.__dict__.get("handler")
    if not callable(function):
        raise NotLoaded("the code defines no function named 'handler'")
    return function


# --- calling -------------------------------------------------------------------------------------------------


def _invoke(function, event, context):
    """As many arguments as it wants: a second one that must be given, or is called context, is the context."""
    by_place, by_name = _wants_context(function)
    context = _context(context) if by_place or by_name else None
    if by_place:
        value = function(event, context)
    elif by_name:
        value = function(event, context=context)
    else:
        value = function(event)
    if hasattr(value, "__await__"):
        import asyncio
        value = asyncio.run(_awaited(value))
    return value


async def _awaited(value):
    return await value


def _wants_context(function):
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return _asks(function)
    code = function.__code__
    names, places = code.co_varnames, code.co_argcount
    required = places - len(function.__defaults__ or ())
    only_by_name = names[places:places + code.co_kwonlyargcount]
    by_place = required > 1 or names[1:places][:1] == ("context",) or bool(places < 2 and code.co_flags & CO_VARARGS)
    return by_place, not by_place and "context" in only_by_name


def _asks(function):
    """Whatever is not a plain function."""
    import inspect
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False, False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    by_place = rest and len(places) < 2 or len(places) > 1 and (places[1].default is inspect.Parameter.empty or places[1].name == "context")
    return by_place, not by_place and any(p.kind is p.KEYWORD_ONLY and p.name == "context" for p in parameters)


def _context(given):
    import uuid
    known = {
        "function_name": "unknown-function",
        "function_version": "$LATEST",
        "request_id": str(uuid.uuid4()),
        "log_group_name": "/lambda-sandbox/logs",
        "log_stream_name": str(uuid.uuid4()),
        "remaining_time_in_millis": 3000,
        "memory_limit_in_mb": 256,
        "invoked_function_arn": None,
    }
    context = SimpleNamespace(**{**known, **given})
    context.get_remaining_time_in_millis = lambda: context.remaining_time_in_millis
    return context


# --- answering -----------------------------------------------------------------------------------------------


def _encode(value):
    try:
        return _bytes(value)
    except ValueError as e:
        # JSON has no numbers that are none.
        try:
            return _bytes(_finite(value))
        except RecursionError:
            raise e from None


def _bytes(value):
    """Half a character, which Python has and UTF-8 has not, is written as the number that it is."""
    try:
        return _dumps(value).encode()
    except UnicodeEncodeError:
        return _dumps_escaped(value).encode()


def _finite(value):
    if isinstance(value, float):
        return value if -_infinity < value < _infinity else None
    if isinstance(value, dict):
        return {_finite_key(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _finite_key(key):
    return repr(key) if isinstance(key, float) and not -_infinity < key < _infinity else key


def _describe(error):
    try:
        return "".join(traceback.format_exception_only(error)).rstrip("\n")
    except BaseException:
        return type(error).__name__


def _traceback(error):
    """From the first frame of the handler's own, if there is one."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
        trace = trace.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, trace))
    except BaseException:
        return f"{type(error).__name__}\n"


def _say(text):
    try:
        sys.stderr.write(text)
    except Exception:
        pass
