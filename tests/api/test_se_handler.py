# SPDX-License-Identifier: Apache-2.0
"""Sandbox Runtime: v2/execute_code. A handler gets an event and returns a result; a fresh interpreter for every call, whatever the last one did.

Whether a hostile handler gets at its own result is its own affair. What must hold: each call has an answer of its own that tells what
happened, and the next call is not touched.
"""
import concurrent.futures
import json
import math
import re
import textwrap

import pytest

from hostile_handlers import HOSTILE
from se import BASE, MIB, answered, checked, each, error_of, failed, handle, result
from server import POOLED, both_ways, mark, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

CANARY = "canary-of-the-servers-environment"
V2 = f"{BASE}/v2/execute_code"

server = both_ways(env={"SECRET_OF_THE_SERVER": CANARY})

ECHO = "def handler(event):\n    return event"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def is_untouched(server):
    """Another call goes as if nothing had been."""
    return result(server, "import json\ndef handler(event):\n    print('out')\n    return json.dumps([event['n'], 1])", {"n": 41}) == "[41, 1]"


def body_of(code, lead="def handler(event):\n"):
    return lead + textwrap.indent(textwrap.dedent(code).strip("\n"), "    ")


# --- the answer ----------------------------------------------------------------------------------------------


def test_the_answer(server):
    answer = answered(server,
                      "import sys\ndef handler(event):\n    print('out')\n"
                      "    print('err', file=sys.stderr)\n    return {'n': event['n'] + 1}", {"n": 1})
    assert (answer["stdout"], answer["stderr"], answer["result"], answer["exit_code"]) == ("out\n", "err\n", {"n": 2}, 0)
    assert answer["metrics"]["timeout_seconds"] == 300 and answer["metrics"]["memory_peak_mb"] > 0
    status, headers, _ = server.request("POST", V2, {"handler_code": ECHO})
    assert status == 200 and headers.get_content_type() == "application/json"


def test_event_and_context_may_be_left_out(server):
    assert result(server, ECHO) == {}
    assert result(server, "def handler(event, context):\n    return [event, context.function_name]") == [{}, "unknown-function"]


def test_figures_belong_to_the_call(server):
    answer = answered(server, "import time\ndef handler(event):\n    x = b'x' * (40 << 20)\n    begin = time.process_time()\n"
                              "    while time.process_time() - begin < 0.3: pass\n    time.sleep(0.2)\n    return time.process_time() - begin")
    assert answer["metrics"]["memory_peak_mb"] >= 40
    assert answer["metrics"]["cpu_time_ms"] >= answer["result"] * 1000 * 0.5
    assert answer["metrics"]["duration_ms"] >= 490
    assert answered(server, ECHO)["metrics"]["memory_peak_mb"] < answer["metrics"]["memory_peak_mb"]


# --- how it is called ----------------------------------------------------------------------------------------

NAME = "getattr(context, 'function_name', None)"
SIGNATURES = {
    "event": ("def handler(event):\n    return event['k']", "v"),
    "any name": ("def handler(e):\n    return e['k']", "v"),
    "event, context": (f"def handler(event, context):\n    return [event['k'], {NAME}]", ["v", "f"]),
    "a second that is needed": ("def handler(event, c):\n    return c.function_name", "f"),
    "context with a default": (f"def handler(event, context=None):\n    return {NAME}", "f"),
    "another with a default": ("def handler(event, flag=False):\n    return flag", False),
    "args": ("def handler(*args):\n    return [len(args), args[1].function_name]", [2, "f"]),
    "event, args": ("def handler(event, *args):\n    return args[0].function_name", "f"),
    "keyword only": ("def handler(event, *, context):\n    return context.function_name", "f"),
    "keyword only with a default": (f"def handler(event, *, context=None):\n    return {NAME}", "f"),
    "keyword only, another": ("def handler(event, *, flag=False):\n    return flag", False),
    "positional only": ("def handler(event, /):\n    return event['k']", "v"),
    "positional only, two": ("def handler(event, context, /):\n    return context.function_name", "f"),
    "async": ("import asyncio\nasync def handler(event):\n    await asyncio.sleep(0)\n    return event['k']", "v"),
    "async with context": ("async def handler(event, context):\n    return context.function_name", "f"),
    "annotated": ("def handler(event: dict, context: 'nothing' = None) -> str:\n    return context.function_name", "f"),
    "decorated": ("import functools\ndef deco(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        return f(*a, **k)\n"
                  "    return inner\n"
                  "@deco\ndef handler(event, context):\n    return context.function_name", "f"),
    "helper below": ("def handler(event):\n    return helper(event)\ndef helper(event):\n    return event['k']", "v"),
    "globals": ("n = 5\ndef handler(event):\n    global n\n    n += 1\n    return [n, __name__ != '__main__' or True]", [6, True]),
    "classes": ("import dataclasses, typing\n@dataclasses.dataclass\nclass C:\n    x: typing.Optional[int] = 1\ndef handler(event):\n"
                "    return dataclasses.asdict(C())", {"x": 1}),
    "pickle": ("import pickle\nclass C: pass\ndef handler(event):\n    return type(pickle.loads(pickle.dumps(C()))).__name__", "C"),
    "future": ("from __future__ import annotations\ndef handler(event) -> Unknown:\n    return 1", 1),
    "line ends": ("def handler(event):\r\n    return 'crlf'\r\n", "crlf"),
    "unicode": ("def handler(event):\n    größe = 'é€𝄞'\n    return größe", "é€𝄞"),
    "coding line": ("# -*- coding: utf-8 -*-\ndef handler(event):\n    return 'é'", "é"),
    "in a block": ("if True:\n    def handler(event):\n        return 1", 1),
    "the last one": ("def handler(event):\n    return 1\ndef handler(event):\n    return 2", 2),
    "threads": ("import concurrent.futures\ndef handler(event):\n    with concurrent.futures.ThreadPoolExecutor() as p:\n"
                "        return list(p.map(abs, [-1, -2]))", [1, 2]),
    "processes": ("import subprocess\ndef handler(event):\n    return subprocess.run(['echo', 'sub'], capture_output=True, text=True).stdout",
                  "sub\n"),
    "an own loop": ("import asyncio\nasync def f():\n    return 3\ndef handler(event):\n    return asyncio.run(f())", 3),
}


def test_signatures(server):
    def check(name):
        code, expected = SIGNATURES[name]
        answer = answered(server, code, {"k": "v"}, {"function_name": "f"})
        assert (answer["exit_code"], answer["result"]) == (0, expected), answer

    each(SIGNATURES, check)


@pytest.mark.parametrize("code",
                         ["def handler():\n    return 1", "def handler(a, b, c):\n    return 1", "def handler(event, *, other):\n    return 1"])
def test_signatures_that_cannot_be_called(server, code):
    assert "TypeError" in failed(server, code, 2)["stderr"]


SHOW = """
def handler(event, context):
    names = ("function_name", "function_version", "request_id", "log_group_name", "log_stream_name", "remaining_time_in_millis",
             "memory_limit_in_mb", "invoked_function_arn")
    return {name: getattr(context, name) for name in names}
"""
DEFAULTS = {"function_name": "unknown-function", "function_version": "$LATEST", "log_group_name": "/lambda-sandbox/logs",
            "remaining_time_in_millis": 3000,
            "memory_limit_in_mb": 256, "invoked_function_arn": None}


def test_context(server):
    first, second = result(server, SHOW), result(server, SHOW)
    for found in (first, second):
        assert {name: found[name] for name in DEFAULTS} == DEFAULTS
        assert UUID.fullmatch(found["request_id"]) and UUID.fullmatch(found["log_stream_name"])
    assert first["request_id"] != second["request_id"]
    given = {"function_name": "naïve", "request_id": "r", "memory_limit_in_mb": 7, "invoked_function_arn": "arn:x",
             "remaining_time_in_millis": 1,
             "log_group_name": "", "log_stream_name": "s", "function_version": "3"}
    assert result(server, SHOW, {}, given) == given


def test_context_with_odd_names(server):
    """They may be attributes, or nothing. They are not code, and they break nothing."""
    for given in ({"extra": 1}, {"": 1}, {"a b": 1}, {"__class__": "x"}, {"__init__": 1}, {"__dict__": {}}, {"function_name": {"nested": [1]}},
                  {"self": 1}, {"event": 1}):
        answer = answered(server, "def handler(event, context):\n    return event", {"k": 1}, given)
        assert answer["result"] == {"k": 1} or answer["exit_code"] != 0 and answer["stderr"], (given, answer)
    assert is_untouched(server)


# --- what goes in --------------------------------------------------------------------------------------------

EVENTS = [
    {}, {"a": None, "b": True, "c": False}, {"n": [0, -1, 2 ** 31, 2 ** 53 + 1, -2 ** 63, 2 ** 64, 10 ** 40]},
    {"f": [0.1, -0.5, 1e308, 5e-324, 1.5e300, -0.0]},
    {"": {"": {"": []}}}, {"a.b": 1, "a b": 2, "a\"b\\c": 3, "\n": 4}, {"t": "né€𝄞\u2028\u2029\x7f\x1b[31m"}, {"t": "'''\"\"\"\\n{}%s$(id)"},
    {"t": "</script>"},
    {"__proto__": 1, "__class__": 2, "self": 3, "event": 4, "context": 5, "handler_code": "x"}, {"k" * 1000: "v" * 100000},
    {"l": list(range(10000))},
    {str(i): i for i in range(5000)}, {"big": "x" * MIB},
]


def test_events_come_as_they_are(server):
    each(EVENTS, lambda event: exactly(result(server, ECHO, event), event))


def exactly(a, b):
    assert a == b and json.dumps(a) == json.dumps(b), (str(a)[:200], str(b)[:200])


RAW_EVENTS = {
    "NUL": (rb'{"t": "a\u0000b"}', {"t": "a\0b"}), "half a pair": (rb'{"t": "\ud800"}', {"t": "\ud800"}),
    "other half": (rb'{"t": "a\udc00b"}', {"t": "a\udc00b"}),
    "pair the wrong way": (rb'{"t": "\udc00\ud800"}', {"t": "\udc00\ud800"}), "a pair": (rb'{"t": "\ud834\udd1e"}', {"t": "𝄞"}),
    "half a pair as a key": (rb'{"\ud800": 1}', {"\ud800": 1}), "NUL as a key": (rb'{"\u0000": 1}', {"\0": 1}),
    "too large a number": (b'{"n": 1e400}', {"n": None}),
    "many digits": (b'{"n": 0.1000000000000000055511151231257827}', {"n": 0.1}),
    "a thousand digits": (b'{"n": 1%s}' % (b"0" * 999), {"n": 10 ** 999}),
    "spaces": (b' {\n"a" :\t[ 1 , 2 ] } ', {"a": [1, 2]}), "deep": (b'{"d": ' + b"[" * 200 + b"]" * 200 + b"}", None),
}


def test_events_at_the_edge_of_json(server):
    """As it was said, or refused as a whole; never changed in silence."""
    def check(name):
        raw, expected = RAW_EVENTS[name]
        status, answer = server.call("POST", V2, b'{"handler_code": %s, "event": %s}' % (json.dumps(ECHO).encode(), raw))
        if status == 200:
            assert checked(answer)["exit_code"] == 0 or answer["stderr"], answer
            assert answer["exit_code"] != 0 or answer["result"] == (json.loads(raw) if expected is None else expected), answer
        else:
            assert 400 <= status < 500 and answer["detail"], answer

    each(RAW_EVENTS, check)
    assert is_untouched(server)


def test_an_event_of_ten_megabytes(server):
    code = "def handler(event):\n    return [len(event['t']), event['t'][:3], event['t'][-3:]]"
    assert result(server, code, {"t": "begin" + "x" * (10 * MIB) + "end"}) == [10 * MIB + 8, "beg", "end"]
    status, answer = handle(server, ECHO, {"t": "x" * (17 * MIB)})
    assert status == 413 and answer, "a body has its limit"
    assert is_untouched(server)


@pytest.mark.parametrize("depth", [1000, 100000, 4000000])
def test_a_deep_event(server, depth):
    """Refused, or told by the interpreter; nobody's stack is at its end."""
    raw = b'{"d": ' + b"[" * depth + b"]" * depth + b"}"
    status, answer = server.call("POST", V2,
                                 b'{"handler_code": %s, "event": %s}' % (json.dumps("def handler(event):\n    return 1").encode(), raw))
    assert 400 <= status < 500 and answer["detail"] or status == 200 and (answer["result"] == 1
                                                                          or answer["exit_code"] != 0 and answer["stderr"]), answer
    assert is_untouched(server)


WRONG = {
    "no code": ({}, ["handler_code"]), "code is a number": ({"handler_code": 1}, ["handler_code"]),
    "code is null": ({"handler_code": None}, ["handler_code"]),
    "event is a list": ({"handler_code": ECHO, "event": []}, ["event"]), "event is text": ({"handler_code": ECHO, "event": "{}"}, ["event"]),
    "event is null": ({"handler_code": ECHO, "event": None}, ["event"]), "event is true": ({"handler_code": ECHO, "event": True}, ["event"]),
    "context is a list": ({"handler_code": ECHO, "context": []}, ["context"]),
    "context is text": ({"handler_code": ECHO, "context": "x"}, ["context"]),
}


def test_wrong_fields_are_named(server):
    def check(name):
        body, where = WRONG[name]
        status, answer = server.call("POST", V2, body)
        assert status == 422 and answer["detail"][0]["loc"] == ["body", *where], answer

    each(WRONG, check)


@pytest.mark.parametrize("body",
                         [b"", b"[]", b"null", b"{", b'{"handler_code": "x"', b'{"handler_code": "a", "handler_code": "b"}', b"\xff",
                          b'{"handler_code": "\xff"}',
                                  b"handler_code=x"], ids=repr)
def test_bodies_that_are_none(server, body):
    status, answer = server.call("POST", V2, body)
    assert status in (400, 422) and answer["detail"]


def test_a_body_in_pieces(server):
    body = json.dumps({"handler_code": ECHO, "event": {"a": "é"}}, ensure_ascii=False).encode()
    with server.wire() as wire:
        wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                  % (V2.encode(), server.authority.encode()))
        for byte in body:
            wire.send(b"1\r\n%c\r\n" % byte)
        wire.send(b"0\r\n\r\n")
        assert wire.response().json()["result"] == {"a": "é"}


def test_unknown_keys_are_ignored(server):
    status, answer = server.call("POST", V2, {"handler_code": ECHO, "event": {"a": 1}, "colour": "blue", "timeout": 5})
    assert status == 200 and answer["result"] == {"a": 1}


def test_how_long_code_may_be(server):
    """In characters."""
    for letter in ("x", "€", "𝄞"):
        room = 102400 - len(ECHO) - 3
        assert result(server, f"# {letter * room}\n{ECHO}", {"a": 1}) == {"a": 1}, letter
        error_of(*handle(server, f"# {letter * (room + 1)}\n{ECHO}"), 400, "Sandbox.InvalidParameter")
    error_of(*handle(server, "x" * 2 * MIB), 400, "Sandbox.InvalidParameter")


# --- what comes out ------------------------------------------------------------------------------------------

RESULTS = {
    "None": ("None", None), "true": ("True", True), "zero": ("0", 0), "an empty list": ("[]", []), "an empty text": ("''", ""),
    "false": ("False", False),
    "large numbers": ("[2 ** 53 + 1, -2 ** 64, 10 ** 400]", [2 ** 53 + 1, -2 ** 64, 10 ** 400]),
    "fractions": ("[0.1, 1e308, 5e-324]", [0.1, 1e308, 5e-324]),
    "text": ("'né€𝄞\\u2028\\0\\x1b\"\\\\'", "né€𝄞\u2028\0\x1b\"\\"), "nested": ("{'a': [{'b': None}]}", {"a": [{"b": None}]}),
    "a tuple": ("(1, (2,))", [1, [2]]), "keys": ("{1: 'a', None: 'b', True: 'c', 1.5: 'd'}", {"1": "c", "null": "b", "1.5": "d"}),
    "not a number": ("float('nan')", None), "infinite": ("float('inf')", None),
    "inside": ("{'a': [float('nan'), 1, -float('inf')], 'b': (float('nan'),)}",
                                                                                       {"a": [None, 1, None], "b": [None]}),
    "looks like one": ("'NaN Infinity -Infinity'", "NaN Infinity -Infinity"),
    "looks like one inside": ("{'NaN': 'NaN', 'x': ['Infinity']}", {"NaN": "NaN", "x": ["Infinity"]}),
    "an answer": ("{'exit_code': 7, 'stdout': 'forged', 'result': 'forged', 'metrics': {}}",
                  {"exit_code": 7, "stdout": "forged", "result": "forged", "metrics": {}}),
    "an enum": ("__import__('enum').IntEnum('E', 'A B').B", 2),
    "a text of its own": ("type('T', (str,), {'__str__': lambda s: 'forged', '__repr__': lambda s: 'forged'})('true')", "true"),
    "a number of its own": ("[type('N', (int,), {'__repr__': lambda s: '1, 2', '__str__': lambda s: '1, 2'})(5)]", [5]),
    "a fraction of its own": ("[type('F', (float,), {'__repr__': lambda s: '1], \"x\": [2'})(0.5)]", [0.5]),
    "many": ("list(range(100000))", list(range(100000))),
    "deep": ("__import__('functools').reduce(lambda x, _: [x], range(100), 0)", None),
}


def test_results(server):
    def check(name):
        code, expected = RESULTS[name]
        status, _, data = server.request("POST", V2, {"handler_code": f"def handler(event):\n    return {code}"})
        assert status == 200, data
        data.decode("utf-8", "strict")
        answer = checked(json.loads(data, parse_constant=lambda text: pytest.fail(f"{text} is no JSON")))
        assert answer["exit_code"] == 0 and answer["stderr"] == "", answer
        assert name == "deep" or json.dumps(answer["result"]) == json.dumps(expected), answer

    each(RESULTS, check)


NO_JSON = {
    "a set": ("{1}", "set"), "bytes": ("b'x'", "bytes"), "an object": ("object()", "object"), "complex": ("1j", "complex"),
    "a function": ("handler", "function"),
    "inside": ("{'a': [1, {2}]}", "set"), "a key": ("{(1, 2): 3}", "tuple"), "circular": ("(lambda x: (x.append(x), x)[1])([])", ""),
    "deep": ("__import__('functools').reduce(lambda x, _: [x], range(100000), 0)", ""), "a generator": ("(i for i in [])", "generator"),
    "a date": ("__import__('datetime').date(2020, 1, 1)", "date"), "ten thousand digits": ("10 ** 10000", ""),
    "a dictionary that raises": ("type('D', (dict,), {'items': lambda s: 1 / 0})(a=1)", ""),
    "a list that raises": ("type('L', (list,), {'__iter__': lambda s: 1 / 0, '__len__': lambda s: 1 / 0})([1])", ""),
}


def test_results_that_are_no_json(server):
    """Where the interpreter itself knows better (a list is one, whatever its class says), the true content is as good."""
    def check(name):
        code, said = NO_JSON[name]
        answer = answered(server, f"def handler(event):\n    print('ran')\n    return {code}")
        if "that raises" in name and answer["exit_code"] == 0:
            assert answer["result"] in ({"a": 1}, [1]), answer
            return
        assert (answer["exit_code"], answer["result"], answer["stdout"]) == (3, None, "ran\n"), answer
        assert answer["stderr"].strip() and said in answer["stderr"], answer

    each(NO_JSON, check)


def test_results_of_generators(server):
    failed(server, "def handler(event):\n    yield 1", 3)
    failed(server, "async def handler(event):\n    yield 1", 3)


def test_a_text_that_is_none(server):
    """A result with half a pair of surrogates: as JSON has it, or said to be none. The answer can be read."""
    status, _, data = server.request("POST", V2,
                                     {"handler_code": "def handler(event):\n    print('\\ud800')\n    return ['a\\ud800b', {'\\udfff': 1}]"})
    assert status == 200
    data.decode("utf-8", "strict")
    answer = checked(json.loads(data))
    assert answer["exit_code"] in (2, 3) and answer["result"] is None and answer["stderr"] or answer["result"][0] in ("a\ud800b", "a\ufffdb",
                                                                                                                      "a?b")


def test_large_results(server):
    """15 MiB go, 17 do not, and that is said."""
    code = "def handler(event):\n    return 'x' * event['n']"
    assert result(server, code, {"n": 15 * MIB}) == "x" * (15 * MIB)
    assert result(server, code.replace("x", "€"), {"n": 5 * MIB}) == "€" * (5 * MIB), "as much text in another alphabet"
    assert "large" in failed(server, code, 3, {"n": 17 * MIB})["stderr"]
    assert is_untouched(server)


@pytest.mark.more
def test_results_larger_than_its_memory(server):
    answer = answered(server, "def handler(event):\n    return ['x' * 50000000] * 20")
    assert answer["result"] is None and answer["exit_code"] in (2, 3, 137) and answer["stderr"]
    assert is_untouched(server)


# --- code that does not load ---------------------------------------------------------------------------------

UNLOADABLE = {
    "no handler": "def other(event):\n    return 1", "only a comment": "# nothing", "syntax": "def handler(event):\n    return = 1",
    "indentation": "def handler(event):\nreturn 1",
    "open": "def handler(event):\n    return '", "raises": "def handler(event):\n    return 1\nraise ValueError('at import')",
    "exits": "import sys\ndef handler(event):\n    return 1\nsys.exit(0)",
    "no module": "import no_such_module\ndef handler(event):\n    return 1", "taken away": "def handler(event):\n    return 1\ndel handler",
    "no longer one": "def handler(event):\n    return 1\nhandler = 5",
    "in a class": "class C:\n    def handler(self, event):\n        return 1",
    "recursion": "def f():\n    f()\nf()\ndef handler(event):\n    return 1",
    "interrupt": "def handler(event):\n    return 1\nraise KeyboardInterrupt",
    "return": "def handler(event):\n    return 1\nreturn 2", "await": "def handler(event):\n    return 1\nawait x",
    "base exception": "def handler(event): pass\nraise BaseException('odd')",
    "too deep": "def handler(event):\n    return " + "(" * 5000 + ")" * 5000, "no such name": "def handler(event):\n    return 1\nunknown",
    "its text raises": "def handler(event):\n    return 1\nclass E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E",
}


def test_code_that_does_not_load(server):
    def check(name):
        answer = failed(server, UNLOADABLE[name], 1)
        assert answer["stderr"].startswith("System error: "), answer["stderr"][:300]

    each(UNLOADABLE, check)
    assert is_untouched(server)


def test_why_it_does_not_load(server):
    assert "handler" in failed(server, "x = 1", 1)["stderr"]
    said = failed(server, "x = 1\n\ndef handler(event):\n    return = 1", 1)["stderr"]
    assert "SyntaxError" in said or "invalid syntax" in said
    assert "line 4" in said
    answer = failed(server, "print('before')\ndef handler(event):\n    return 1\nraise ValueError('at import')", 1)
    assert answer["stdout"] == "before\n" and "ValueError: at import" in answer["stderr"]
    assert "no_such_module" in failed(server, "import no_such_module\ndef handler(event): pass", 1)["stderr"]


def test_no_code(server):
    failed(server, "", 7)
    for blank in (" ", "\n\n", "\t \n", "\ufeff"):
        answer = answered(server, blank)
        assert answer["exit_code"] in (1, 7) and answer["result"] is None and answer["stderr"]


def test_code_with_nul(server):
    status, answer = handle(server, "def handler(event):\n    return 1\0")
    assert status in (400, 422) and answer["detail"] or answer["exit_code"] == 1 and answer["result"] is None


def test_tricks_with_the_name_of_the_handler(server):
    """It is looked for in what was run, not in the text: a comment or a text is no handler."""
    for code in ("# def handler(event): return 1", "'''def handler(event):\n    return 1'''", "x = 'def handler'"):
        assert failed(server, code, 1)["stderr"].startswith("System error: ")


# --- handlers that raise -------------------------------------------------------------------------------------

RAISES = {
    "an exception": ("raise ValueError('boom')", "ValueError: boom"), "its own": ("raise type('Odd', (Exception,), {})('x')", "Odd: x"),
    "a name": ("unknown", "NameError"),
    "division": ("1 / 0", "ZeroDivisionError"), "key": ("event['missing']", "KeyError: 'missing'"),
    "exit": ("import sys; sys.exit(3)", "SystemExit"),
    "exit with 0": ("raise SystemExit", "SystemExit"), "interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "base": ("raise BaseException('odd')", "BaseException: odd"),
    "generator": ("raise GeneratorExit", "GeneratorExit"), "recursion": ("def f(): f()\nf()", "RecursionError"),
    "assertion": ("assert False, 'why'", "AssertionError: why"),
    "a group": ("raise ExceptionGroup('many', [ValueError('a'), TypeError('b')])", "ValueError: a"),
    "from": ("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('x') from e", "ZeroDivisionError"),
    "many lines": ("raise ValueError('a\\nb\\nc')", "a\nb\nc"), "surrogates": ("raise ValueError('a\\ud800b')", "ValueError"),
    "NUL": ("raise ValueError('a\\0b')", "ValueError"),
    "its text raises": ("class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E", "E"),
    "a note": ("e = ValueError('x')\ne.add_note('noted')\nraise e", "noted"),
    "its class lies": ("class E(Exception):\n    __module__ = 5\nraise E('x')", "E"),
    "no traceback": ("raise ValueError('x').with_traceback(None)", "ValueError: x"),
    "memory": ("raise MemoryError", "MemoryError"), "stop": ("raise StopIteration", "StopIteration"), "not one": ("raise 5", "TypeError"),
    "a long text": ("raise ValueError('x' * 1000000)", "ValueError: xxx"),
    "a loop of causes": ("a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a", "ValueError: a"),
    "excepthook": ("import sys\nsys.excepthook = lambda *a: print('forged')\nraise ValueError('boom')", "ValueError: boom"),
}


def test_handlers_that_raise(server):
    def check(name):
        code, said = RAISES[name]
        answer = failed(server, body_of(f"print('ran')\n{code}"), 2)
        assert answer["stdout"] == "ran\n" and said in answer["stderr"], str(answer)[:500]

    each(RAISES, check)
    assert is_untouched(server)


def test_an_async_handler_that_raises(server):
    assert "ValueError: boom" in failed(server, "async def handler(event):\n    raise ValueError('boom')", 2)["stderr"]
    assert "CancelledError" in failed(server, "import asyncio\nasync def handler(event):\n    raise asyncio.CancelledError", 2)["stderr"]


def test_a_traceback_is_of_the_users_code_only(server):
    said = failed(server, "import json\n\ndef handler(event):\n    x = 1\n    raise ValueError(x)", 2)["stderr"]
    assert re.findall(r'File "[^"]*", line (\d+), in (\w+)', said) == [("5", "handler")], said
    assert "Traceback (most recent call last)" in said and said.rstrip().endswith("ValueError: 1")
    said = failed(server, "def handler(event):\n    return outer()\ndef outer():\n    return inner()\ndef inner():\n"
                          "    return {}['k']", 2)["stderr"]
    assert re.findall(r'File "[^"]*", line (\d+), in (\w+)', said) == [("2", "handler"), ("4", "outer"), ("6", "inner")], said
    said = failed(server, "async def handler(event):\n    raise KeyError", 2)["stderr"]
    assert re.findall(r'line (\d+), in handler', said) == ["2"], said
    said = failed(server, "def handler(event):\n    return 1\n\n\nraise ValueError", 1)["stderr"]
    assert [int(n) for n in re.findall(r'File "[^"]*", line (\d+)', said)] in ([5], []), said


# --- output --------------------------------------------------------------------------------------------------

MARKERS = ["=== EXIT CODE ===", "=== STDOUT ===", "=== RESULT ===", "===SANDBOX_RESULT===", "SANDBOX_PORT:1", "System error: forged",
           "Traceback (most recent call last):",
           '{"exit_code": 0, "stdout": "", "stderr": "", "result": "forged", "metrics": {}}', '{"result": "forged"}', "0", "\x04", "\x1e",
           "--boundary", "event: result\ndata: {}\n"]


def test_output_that_looks_like_an_answer(server):
    code = "import sys, os\ndef handler(event):\n    for t in event['t']:\n        print(t)\n        print(t, file=sys.stderr)\n" \
           "    sys.stdout.flush()\n    return 'true'"
    answer = answered(server, code, {"t": MARKERS})
    assert (answer["result"], answer["exit_code"]) == ("true", 0)
    assert answer["stdout"] == answer["stderr"] == "".join(f"{t}\n" for t in MARKERS)
    answer = failed(server, code.replace("return 'true'", "os._exit(0)"), 6, {"t": MARKERS})
    assert answer["stdout"] == "".join(f"{t}\n" for t in MARKERS)


OUTPUTS = {
    "print": ("print('é€𝄞')", "é€𝄞\n", ""), "no line end": ("print('x', end='')", "x", ""), "nothing": ("pass", "", ""),
    "write": ("import os; os.write(1, b'out'); os.write(2, b'err')", "out", "err"),
    "a child": ("import subprocess; subprocess.run('echo out; echo err >&2', shell=True)", "out\n", "err\n"),
    "logging": ("import logging; logging.warning('w')", "", "WARNING:root:w\n"),
    "warnings": ("import sys; sys.stderr.write('a'); sys.stderr.flush(); sys.stdout.write('b')", "b", "a"),
    "no text": ("import os; os.write(1, b'a\\xff\\xc3(b')", "a\ufffd\ufffd(b", ""),
    "NUL": ("print('a\\0b')", "a\0b\n", ""),
    "order": ("import os; print('1'); import sys; sys.stdout.flush(); os.write(1, b'2\\n'); print('3')", "1\n2\n3\n", ""),
    "dup": ("import os; print('x', flush=True); os.dup2(1, 2); os.write(2, b'y')", "x\ny", ""),
    "carriage": ("print('a\\r\\nb\\rc')", "a\r\nb\rc\n", ""),
    "tty": ("import sys; print(sys.stdout.isatty(), sys.stdin.isatty())", "False False\n", ""),
    "stdin": ("import sys; print(repr(sys.stdin.read()))", "''\n", ""),
    "input": ("try:\n    input('?')\nexcept EOFError:\n    print('end')", "?end\n", ""),
    "atexit": ("import atexit; atexit.register(print, 'late')", None, ""),
}


def test_output(server):
    """What is printed when all is over may be seen or not; it is not part of what the handler did."""
    def check(name):
        code, stdout, stderr = OUTPUTS[name]
        answer = answered(server, body_of(f"{code}\nreturn 1"))
        assert answer["result"] == 1 and (stdout is None or answer["stdout"] == stdout) and answer["stderr"] == stderr, answer

    each(OUTPUTS, check)


def test_output_comes_with_the_error(server):
    answer = failed(server, "import sys\ndef handler(event):\n    print('out')\n    print('err', file=sys.stderr)\n    1 / 0", 2)
    assert answer["stdout"] == "out\n" and answer["stderr"].startswith("err\n") and "ZeroDivisionError" in answer["stderr"]


def test_much_output(server):
    """16 MiB of a stream are kept, and the result still comes."""
    answer = answered(server,
                      "import sys\ndef handler(event):\n    for _ in range(18):\n"
                      "        sys.stdout.write('a' * (1 << 20))\n    return 'came'")
    assert (answer["result"], answer["exit_code"]) == ("came", 0)
    assert answer["stdout"].startswith("a" * (15 * MIB)) and 15 * MIB < len(answer["stdout"]) < 17 * MIB
    assert is_untouched(server)


# --- handlers that do their worst ----------------------------------------------------------------------------

def honest(answer, name):
    """Its own answer: the true result, or none and somebody says why. Never what it forged."""
    if answer["exit_code"] == 0:
        assert answer["result"] == "true", (name, str(answer)[:400])
    else:
        assert answer["result"] is None and answer["stderr"].strip(), (name, str(answer)[:400])


def test_handlers_that_do_their_worst(server):
    def check(name):
        status, answer = handle(server, body_of(HOSTILE[name]), {"__timeout": 10})
        assert status == 200, answer
        honest(checked(answer), name)

    each(HOSTILE, check)
    assert is_untouched(server)


MUST_WORK = ["writes to every descriptor", "closes all but its output", "no output", "another output", "another json", "another print",
             "many children", "a thread that goes on",
             "a thread that must be waited for", "an end that hangs", "forks and the child exits", "no recursion", "threads that print",
             "a thread that raises", "signals that are ignored",
             "imports of its own", "gc", "no workspace"]


def test_what_must_not_cost_the_result(server):
    """Programs of honest people do some of this."""
    def check(name):
        answer = answered(server, body_of(HOSTILE[name]), {"__timeout": 20})
        assert (answer["result"], answer["exit_code"]) == ("true", 0), str(answer)[:400]

    each(MUST_WORK, check)


def test_nothing_of_it_is_left(server):
    """Children, and children of children, end with the call."""
    word = mark()
    code = f"""
import os, subprocess, sys, time
args = [sys.executable, "-c", "import time; time.sleep(1000)", {word!r}]
subprocess.Popen(args)
subprocess.Popen(args, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
if os.fork() == 0:
    os.setsid()
    os.execv(sys.executable, args)
return len(os.listdir("/proc")) > 0
"""
    assert result(server, body_of(code)) is True
    until(lambda: not server.running(word), "all of them are gone")


# --- ends that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["handler", "import"])
@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_exit_without_a_result(server, status, where):
    code = f"import os\ndef handler(event):\n    print('ran', flush=True)\n    os._exit({status})"
    if where == "import":
        code = f"import os\nprint('ran', flush=True)\nos._exit({status})\ndef handler(event): pass"
    assert failed(server, code, 6)["stdout"] == "ran\n"
    assert is_untouched(server)


def test_killed(server):
    answer = failed(server, "import os\ndef handler(event):\n    print('ran', flush=True)\n    os.kill(os.getpid(), 9)", 137)
    assert answer["stdout"] == "ran\n" and "kill" in answer["stderr"].lower()
    answer = answered(server, "import os\ndef handler(event):\n    os.kill(-1, 9)\n    return 'alive'")
    assert (answer["result"], answer["exit_code"]) in (("alive", 0), (None, 137), (None, 2)), "whom that hits is left open, also nobody"
    assert is_untouched(server)


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT", "SIGTERM", "SIGBUS", "SIGSYS", "SIGXCPU"])
def test_other_signals(server, signal):
    answer = answered(server, f"import os, signal\ndef handler(event):\n    os.kill(os.getpid(), signal.{signal})\n    return 1")
    assert answer["result"] is None and answer["exit_code"] not in (0, 1, 2, 3, 7) and answer["stderr"].strip(), answer


def test_out_of_memory(server):
    answer = failed(server,
                    "def handler(event):\n    print('ran', flush=True)\n    x = []\n    while True:\n        x.append(b'x' * (1 << 20))", 137)
    assert "memory" in answer["stderr"].lower() and answer["stdout"] == "ran\n"
    assert is_untouched(server)


def test_a_crash(server):
    """The stack of the interpreter itself is at its end."""
    answer = answered(server,
                      "import sys\ndef handler(event):\n    sys.setrecursionlimit(1 << 30)\n"
                      "    class C:\n        def __getattr__(self, n): return getattr(self, n)\n    return C().x")
    assert answer["result"] is None and answer["exit_code"] != 0 and answer["stderr"].strip()
    assert is_untouched(server)


@pytest.mark.more
def test_bombs(server):
    for code in ("import os\nwhile True:\n    try:\n        os.fork()\n    except OSError: pass",
                 "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
                 "import os\nwhile True: os.pipe()"):
        status, answer = handle(server, body_of(code), {"__timeout": 3})
        if status == 500:
            error_of(status, answer, 500, "Sandbox.ExecTimeout")
        else:
            assert answer["result"] is None and answer["exit_code"] != 0 and answer["stderr"], answer
        assert is_untouched(server)


# --- time ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given, limit",
                         [(None, 300), (0, 300), (-5, 300), (5, 5), (3600, 3600), (3601, 3600), (10 ** 9, 3600), (10 ** 30, 3600), (2.5, 2.5)],
                         ids=str)
def test_the_limit(server, given, limit):
    event = {"a": 1} if given is None else {"a": 1, "__timeout": given}
    answer = answered(server, ECHO, event)
    assert answer["result"] == event, "it is left in the event"
    assert answer["metrics"]["timeout_seconds"] == limit or given == 2.5 and answer["metrics"]["timeout_seconds"] in (2, 3)


@pytest.mark.parametrize("given", ["5", None, True, [], {}, "soon"], ids=repr)
def test_a_limit_that_is_none(server, given):
    """Refused, or as if it were not there; then the event has what was given."""
    status, answer = handle(server, ECHO, {"__timeout": given})
    if status == 200:
        assert answer["result"] == {"__timeout": given} and 0 < answer["metrics"]["timeout_seconds"] <= 3600
    else:
        assert 400 <= status < 500 and answer["detail"]


@pytest.mark.parametrize("given", [1e-9, 1e-7, 1e-300, 0.000001, 0.0009])
def test_a_limit_of_almost_nothing(server, given):
    """Little is not nothing, and nothing would be 300 s: in no case has it no limit."""
    status, answer = handle(server, "import time\ndef handler(event):\n    time.sleep(3)", {"__timeout": given})
    if status == 200:
        assert answer["metrics"]["timeout_seconds"] == 300, answer
    else:
        error_of(status, answer, 500, "Sandbox.ExecTimeout")


OUT_OF_TIME = {
    "sleeps": "import time\ntime.sleep(1000)", "spins": "while True: pass",
    "ignores": "import signal\nfor s in range(1, 65):\n    try:\n        signal.signal(s, signal.SIG_IGN)\n"
    "    except Exception: pass\nwhile True: pass",
    "stops itself": "import os\nos.kill(os.getpid(), 19)", "in C": "return sum(range(10 ** 12))",
    "catches all": "import time\nwhile True:\n    try:\n        time.sleep(1000)\n    except BaseException: pass",
    "waits for a child": "import subprocess\nsubprocess.run(['sleep', '1000'])",
}


def test_out_of_time(server):
    word = mark()

    def late(name):
        code = body_of(OUT_OF_TIME[name]).replace("'sleep', '1000'", f"'sh', '-c', 'sleep 1000; : {word}'")
        return name, handle(server, code, {"__timeout": 1})

    with concurrent.futures.ThreadPoolExecutor(len(OUT_OF_TIME)) as pool:
        for name, (status, answer) in pool.map(late, OUT_OF_TIME):
            detail = error_of(status, answer, 500, "Sandbox.ExecTimeout")
            assert "1" in detail["description"] + detail["error_detail"], (name, detail)
    until(lambda: not server.running(word), "nothing of it is left")
    assert is_untouched(server)


def test_out_of_time_while_loading(server):
    error_of(*handle(server, "import time\ntime.sleep(1000)\ndef handler(event): pass", {"__timeout": 1}), 500, "Sandbox.ExecTimeout")
    error_of(*handle(server, "import asyncio\nasync def handler(event):\n    await asyncio.Event().wait()", {"__timeout": 1}), 500,
             "Sandbox.ExecTimeout")


# --- nothing of one call is seen by the next -----------------------------------------------------------------

# What the first does, what the next one looks at, and what it must find.
TRACES = {
    "a global": ("global x\nx = 1", "'x' in globals()", False),
    "a builtin": ("import builtins\nbuiltins.x = 1", "hasattr(__import__('builtins'), 'x')", False),
    "a patched module": ("import json\njson.dumps = None", "__import__('json').dumps is None", False),
    "a module": ("import sys, types\nsys.modules['made'] = types.ModuleType('made')", "'made' in __import__('sys').modules", False),
    "an import": ("import decimal", "'decimal' in __import__('sys').modules", None),
    "sys.path": ("import sys\nsys.path.insert(0, '/evil')", "'/evil' in __import__('sys').path", False),
    "a file in /tmp": ("open('/tmp/f', 'w').close()", "__import__('os').path.exists('/tmp/f')", False),
    "a file in the workspace": ("open('f', 'w').close(); open('/workspace/json.py', 'w').write('1/0')",
                                "__import__('os').path.exists('/workspace/json.py')", False),
    "shared memory": ("try:\n    open('/dev/shm/f', 'w').close()\nexcept OSError: pass", "__import__('os').path.exists('/dev/shm/f')", False),
    "a variable": ("import os\nos.environ['X'] = 'x'", "__import__('os').environ.get('X')", None),
    "a directory": ("import os\nos.chdir('/tmp')", "__import__('os').getcwd()", "/workspace"),
    "a mask": ("import os\nos.umask(0o077)", "oct(__import__('os').umask(0o022))", None),
    "a signal": ("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
                 "__import__('signal').getsignal(2) is __import__('signal').SIG_IGN", False),
    "an alarm": ("import signal\nsignal.alarm(1000)", "__import__('signal').alarm(0)", 0),
    "a limit": ("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))", "__import__('resource').getrlimit(7)[0] > 10", True),
    "a thread": ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True, name='left').start()",
                 "[t.name for t in __import__('threading').enumerate() if t.name == 'left']", []),
    "a child": ("import os, time\nif os.fork() == 0:\n    time.sleep(1000)",
                "len([p for p in __import__('os').listdir('/proc') if p.isdigit()])", None),
    "a priority": ("import os\nos.nice(5)", "__import__('os').nice(0)", None),
    "a seed": ("import random\nrandom.seed(5)", "__import__('random').random() != __import__('random').Random(5).random()", True),
    "recursion": ("import sys\nsys.setrecursionlimit(77)", "__import__('sys').getrecursionlimit() == 77", False),
    "a locale": ("import time, os\nos.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()", "__import__('time').tzname[0] == 'JST'", False),
    "a warning filter": ("import warnings\nwarnings.simplefilter('error')", "__import__('warnings').filters[0][0] == 'error'", False),
    "a logger": ("import logging\nlogging.disable(50)", "__import__('logging').root.manager.disable", 0),
}


def looks_at(expression):
    """A handler that tells what it finds."""
    return f"def handler(event):\n    return {expression}"


@pytest.fixture(scope="module")
def clean(server):
    """What a handler finds in a box where nothing was done: the first of them all says it."""
    return {name: result(server, looks_at(probe)) for name, (_, probe, expected) in TRACES.items() if expected is None}


def test_nothing_of_one_call_is_seen_by_the_next(server, clean):
    def check(name):
        act, probe, expected = TRACES[name]
        answered(server, body_of(f"{act}\nreturn 1"))
        for _ in range(2):
            found = result(server, looks_at(probe))
            assert found == (clean[name] if expected is None else expected), found

    each(TRACES, check)


@pytest.mark.more
def test_nothing_of_one_call_is_seen_by_the_next_of_a_pool(serve):
    """Boxes that were made ahead, from one image."""
    server = serve(**POOLED)
    found = {name: result(server, looks_at(probe)) for name, (_, probe, expected) in TRACES.items() if expected is None}

    def check(name):
        act, probe, expected = TRACES[name]
        answered(server, body_of(f"{act}\nreturn 1"))
        seen = [result(server, looks_at(probe)) for _ in range(3)]
        assert seen == [found[name] if expected is None else expected] * 3, seen

    each(TRACES, check)
    code = "import os, random, tempfile, uuid\ndef handler(event):\n    return [random.random(), os.urandom(8).hex(), str(uuid.uuid4()), " \
           "str(uuid.uuid1()), next(tempfile._get_candidate_names())]"
    assert all(len(set(column)) == 6 for column in zip(*(result(server, code) for _ in range(6)))), "calls from one image are not twins"


@pytest.mark.parametrize("number", range(2))
def test_calls_are_no_twins(server, number):
    code = "import os, random, uuid\ndef handler(event):\n    return [random.random(), os.urandom(8).hex(), str(uuid.uuid4())]"
    assert all(len(set(column)) == 4 for column in zip(*(result(server, code) for _ in range(4))))


def test_where_it_runs(server):
    code = """
import os, socket, sys
def handler(event):
    return {"cwd": os.getcwd(), "uid": os.getuid(), "home": os.environ.get("HOME"), "path": os.environ.get("PYTHONPATH"), "env": dict(os.environ),
            "net": [n for _, n in socket.if_nameindex()], "files": os.listdir("."), "pids": [p for p in os.listdir("/proc") if p.isdigit()],
            "writes": os.access(".", os.W_OK),
            "caps": [line for line in open("/proc/self/status") if line.startswith(("CapEff", "NoNewPrivs", "Seccomp:"))]}
"""
    found = result(server, code)
    assert (found["cwd"], found["uid"], found["home"], found["path"], found["writes"]) == ("/workspace", 65532, "/workspace", "/workspace",
                                                                                           True)
    assert CANARY not in json.dumps(found["env"]) and not [name for name in found["env"] if name.startswith("GLOVEBOX")]
    assert found["net"] == ["lo"] and len(found["pids"]) < 10
    assert [line.split()[1] for line in found["caps"]] == ["0000000000000000", "1", "2"]
    assert [name for name in found["files"] if not name.startswith((".", "__"))] == []


# --- many ----------------------------------------------------------------------------------------------------


def waits(word):
    """A handler that does not end; a child of it has this word in its command line."""
    return f"import subprocess\ndef handler(event):\n    subprocess.run(['sh', '-c', 'sleep 1000; : {word}'])"


def begin(server, wire, code):
    """Asks, and waits for no answer."""
    body = json.dumps({"handler_code": code}).encode()
    wire.send(b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
              % (V2.encode(), server.authority.encode(), len(body), body))


def test_many_at_once(server):
    """Each gets its own."""
    code = "import time\ndef handler(event):\n    time.sleep(0.05)\n    print(event['n'])\n    return event['n'] ** 2"

    def one(n):
        return answered(server, code, {"n": n})

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for n, answer in enumerate(pool.map(one, range(24))):
            assert (answer["result"], answer["stdout"]) == (n * n, f"{n}\n")


def test_one_does_its_worst_beside_others(server):
    hostile = [name for name in HOSTILE if name not in ("exec of itself",)][:12]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        bad = [pool.submit(handle, server, body_of(HOSTILE[name]), {"__timeout": 10}) for name in hostile]
        good = [pool.submit(result, server, ECHO, {"n": n}) for n in range(12)]
        assert [g.result() for g in good] == [{"n": n} for n in range(12)]
        for name, one in zip(hostile, bad):
            status, answer = one.result()
            assert status == 200
            honest(answer, name)


@pytest.mark.more
def test_saturated(serve):
    server, word = serve(env={"GLOVEBOX_MAX_CONCURRENT_EXECUTIONS": "1", "GLOVEBOX_EXECUTION_QUEUE_TIMEOUT": "200ms"}), mark()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(handle, server, waits(word), {"__timeout": 4})
        until(lambda: server.running(word), "the first one runs")
        status, headers, data = server.request("POST", V2, {"handler_code": ECHO})
        error_of(status, json.loads(data), 503, "Sandbox.TooManyRequestsExection")
        assert headers["Retry-After"]
        assert first.result()[0] == 500
    assert is_untouched(server)


def test_no_box_is_left(serve):
    """Others have them all. That is said, as often as it is asked, and by the same gate."""
    server = serve(max_boxes=2)
    boxes = [server.call("POST", "/v1/boxes")[1]["id"] for _ in range(2)]
    gate = server.pid_of("gate")
    for _ in range(3):
        status, answer = handle(server, ECHO)
        assert status == 503 and answer["detail"]["error_code"].startswith("Sandbox."), answer
    assert server.pid_of("gate") == gate
    for box in boxes:
        assert server.request("DELETE", f"/v1/boxes/{box}")[0] == 204
    until(lambda: handle(server, ECHO)[0] == 200, "there are some again")


def test_clients_that_leave(server):
    """All at once, more than may run: nothing of it is left, and there is room."""
    words = [mark() for _ in range(20)]
    wires = [server.wire() for _ in words]
    for wire, word in zip(wires, words):
        begin(server, wire, waits(word))
    until(lambda: any(server.running(word) for word in words), "some run")
    for wire in wires:
        wire.socket.close()
    assert is_untouched(server)
    until(lambda: not any(server.running(word) for word in words), "they are gone")


def test_a_client_that_leaves(server):
    """A handler ends with who asked for it."""
    word = mark()
    with server.wire() as wire:
        begin(server, wire, waits(word))
        until(lambda: server.running(word), "it runs")
    until(lambda: not server.running(word), "it is gone")
    assert is_untouched(server)


def test_gate_killed_between_calls(serve):
    server = serve()
    for n in range(3):
        assert result(server, ECHO, {"n": n}) == {"n": n}
        server.kill_gate()
    assert is_untouched(server)


@pytest.mark.more
def test_gate_killed_while_a_handler_runs(serve):
    server, word = serve(), mark()
    with server.wire() as wire:
        begin(server, wire, waits(word))
        until(lambda: server.running(word), "it runs")
        server.kill_gate()
        assert wire.is_ended(), "no half answer"
    until(lambda: not server.running(word), "nobody waits for it any more")
    assert is_untouched(server)


@pytest.mark.slow
def test_a_thousand_calls(server):
    """Good ones and bad ones in turn; the last is as the first."""
    names = sorted(set(HOSTILE) - {"a thread that exits", "an alarm"})
    for n in range(1000):
        if n % 10 == 9:
            handle(server, body_of(HOSTILE[names[n // 10 % len(names)]]), {"__timeout": 10})
        else:
            assert result(server, ECHO, {"n": n}) == {"n": n}
    assert is_untouched(server) and math.isfinite(answered(server, ECHO)["metrics"]["duration_ms"])
