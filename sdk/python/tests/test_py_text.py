# SPDX-License-Identifier: Apache-2.0
"""Small parts, without a server: text for terminals, addresses, paths, events, exceptions."""
import copy
import datetime
import pickle
import threading

import pytest
from pysdk import tool

import glovebox
from glovebox import _address, _fields, _paths, _refusals, _sse, _text, errors


def test_nothing_acts_on_a_terminal():
    for text, said in (("a\tb\nc", "a\tb\nc"), ("\x1b[31;1mred\x1b[0m", "red"), ("\x1b]0;title\x07x", "x"), ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
                       ("\x1bc\x1b(B\x1b=x", "x"), ("\x9b2Jx", "x"), ("a\r\nb\rc", "a\nb\\x0dc"), ("\x00\x07\x08\x7f\x85", "\\x00\\x07\\x08\\x7f\\x85"),
                       ("\u202edcba\u2069", "\\u202edcba\\u2069"), ("\x1b", "\\x1b"), ("\x1b[", ""), ("\x1bPq#0\x1b\\x", "x"), ("\ud800", "\\ud800"), ("ä😀", "ä😀")):
        assert glovebox.plain(text) == said, repr(text)
    assert len(glovebox.plain("\x1b]" * 100_000 + "x")) < 500_000


def test_sizes():
    assert [_text.size(n) for n in (0, 1023, 1024, 1536, 256 << 20, 1 << 30, 5 << 40)] == ["0 B", "1023 B", "1 KiB", "1.5 KiB", "256 MiB", "1 GiB", "5120 GiB"]
    assert _text.clipped("abcdef", 3) == "[3 characters left out]\ndef" and _text.clipped("abc", 3) == "abc"


def test_addresses():
    for url, expected in (("http://127.0.0.1:8000", ("http", "127.0.0.1", 8000, None, "", "127.0.0.1:8000")),
                          ("https://boxes.example.org/", ("https", "boxes.example.org", 443, None, "", "boxes.example.org")),
                          ("https://h/a/b%2F/", ("https", "h", 443, None, "/a/b%2F", "h")), ("http://[::1]:80/", ("http", "::1", 80, None, "", "[::1]")),
                          ("http://bücher.example", ("http", "xn--bcher-kva.example", 80, None, "", "xn--bcher-kva.example")),
                          ("unix:/run/x", ("http", "localhost", 80, "/run/x", "", "localhost")), ("unix:///run/x", ("http", "localhost", 80, "/run/x", "", "localhost"))):
        found = _address.parse(url)
        assert (found.scheme, found.host, found.port, found.unix, found.prefix, found.authority) == expected, url
    found = _address.parse("http://gb:t%2Fk@h:1/")
    assert found.token == "t/k" and "t%2Fk" not in found.url


def test_paths():
    assert _paths.file_target("a/./b//c") == ("a/b/c", "") and _paths.file_target("/etc/x") == ("etc/x", "root=%2F")
    assert _paths.file_target(b"\xff?") == ("%FF%3F", "") and _paths.file_target("ä%") == ("%C3%A4%25", "")
    assert _paths.directory_query("") == "" and _paths.directory_query("/") == "root=%2F" and _paths.directory_query("/a/b") == "root=%2F&path=a%2Fb"
    for wrong in ("..", "a/../b", "a\0", "", "/", "."):
        with pytest.raises(glovebox.InvalidRequest, match="no path in a box"):
            _paths.file_target(wrong)
    with pytest.raises(glovebox.InvalidRequest, match="half a character"):
        _paths.file_target("\ud800")


def test_fields():
    assert _fields.creation(**{**dict.fromkeys(("name", "environment", "limits", "env", "mounts", "files", "network", "ports", "workdir", "ttl", "idle", "tools", "approvals",
                                                 "metadata")), "ttl": 1.2, "files": {"a": "x", "b": b"\xff"}, "network": ["x"], "ports": True}) == {
        "ttl_seconds": 2, "files": [{"path": "a", "content": "x"}, {"path": "b", "content_base64": "/w=="}], "network": {"policy": "allow", "rules": ["x"]}, "ports": True}
    assert _fields.timeout_ms(0.0001) == {"timeout_ms": 1} and _fields.timeout_ms(None) == {"timeout_ms": None} and _fields.timeout_ms(_fields.DEFAULT) == {}
    for wrong in (float("nan"), float("inf"), -1, "5", True and 0):
        with pytest.raises(glovebox.InvalidRequest, match="timeout is"):
            _fields.timeout_ms(wrong)
    assert repr(glovebox.DEFAULT) == "DEFAULT"


def test_events_in_every_cut():
    data = b": c\r\nid: 1\nevent: a\ndata: {1}\ndata:2\n\ndata\n\nid: 2\r\nevent: b\r\ndata: x\r\n\r\nevent: lost\n\n"
    expected = [("1", "a", b"{1}\n2"), ("1", "message", b""), ("2", "b", b"x")]
    for step in (1, 2, 3, 7, len(data)):
        parser = _sse.Parser(100)
        found = [tuple(one) for begin in range(0, len(data), step) for one in parser.feed(data[begin:begin + step])]
        assert found == expected, step
    with pytest.raises(glovebox.TooLarge):
        _sse.Parser(100).feed(b"x" * 101)


def test_times():
    assert _refusals.when("2026-01-02T03:04:05.678Z") == datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.timezone.utc)
    assert [_refusals.when(wrong) for wrong in (None, 5, "", "now", "2026-99-01T00:00:00Z", "9" * 100)] == [None] * 6


def test_exceptions_go_from_process_to_process():
    """As concurrent.futures sends them: with all that they know."""
    gone = _refusals.refusal(410, {"error": {"code": "gone", "message": "m", "reason": "ttl"}}, call="GET /x", url="unix:/x", retry_after=None)
    for one in (gone, errors.ServerUnreachable("m"), errors.ServerTimeout("m"), errors.FileMissing("m"), errors.TimedOut("m"), errors.StillRunning("m")):
        again = pickle.loads(pickle.dumps(copy.copy(one)))
        assert type(again) is type(one) and str(again) == str(one) and again.__dict__ == one.__dict__
    assert gone.reason == "ttl" and gone.call == "GET /x"
    for kind in (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)):
        assert issubclass(kind, glovebox.GloveboxError) and kind.__doc__ and getattr(glovebox, kind.__name__) is kind


def test_all_codes_of_the_server_have_an_exception():
    text = (tool("gen-types").HERE.parent.parent / "src/gate/errors.tbl").read_text()
    import re

    rows = re.findall(r'ERROR\(\w+,\s+(\d+),\s+"(\w+)"', text)
    assert len(rows) > 30
    for status, code in rows:
        error = _refusals.refusal(int(status), {"error": {"code": code, "message": "m"}}, call="GET /", url="u", retry_after=None)
        assert type(error) is not errors.ApiError and error.code == code, code


def test_callers_that_are_wrong():
    for make in (lambda: glovebox.Client(timeout=0), lambda: glovebox.Client(timeout=-1), lambda: glovebox.Client(headers={"a b": "c"}),
                 lambda: glovebox.Client(headers={"a": "c\r\nd: e"}), lambda: glovebox.Client("https://h", verify="/no/such/file").http()):
        with pytest.raises(glovebox.InvalidRequest):
            make()


def test_importing_is_light():
    """It starts nothing and opens nothing; what is large comes when it is needed."""
    from pysdk import python

    done = python("import glovebox, sys, threading; print(sorted(n for n in ('httpx', 'PIL', 'numpy', 'pickle') if n in sys.modules), threading.active_count())")
    assert done.stdout.strip() in ("[] 1", "['pickle'] 1") and threading.active_count() >= 1
