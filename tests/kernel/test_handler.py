# SPDX-License-Identifier: Apache-2.0
"""glovebox_kernel.handler without a box: what it says on the channel, and what it prints."""
import contextlib
import json
import os
import signal
import socket
import subprocess

import pytest

from fake_init import HEADER, MORE, PATIENCE_S, PYTHON, archive, memfd

CONFIG, BEGUN, WAITING, MESSAGE = 1, 14, 15, 17
TELLS = 4
PACKAGE = archive()


class Call:
    def __init__(self, folder, code, event=None, context=None):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(PATIENCE_S)
        package = memfd(PACKAGE)
        words = ["/bin/bash", "-c", f"exec 3<&{theirs.fileno()} 6<&{package}; exec \"$@\"", "bash", PYTHON, "/proc/self/fd/6", "--handler"]
        self.out, self.err = folder / "out", folder / "err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=out, stderr=err, pass_fds=(theirs.fileno(), package),
                                       start_new_session=True)
        theirs.close()
        os.close(package)
        try:
            self._talk(process, ours, folder, {"handler_code": code, "event": event or {}, "context": context or {}})
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, 0)
            process.returncode = 0
            process.stdin.close()
            ours.close()

    def _talk(self, process, channel, folder, request):
        env = [f"PATH={os.environ['PATH']}", f"HOME={folder}"]
        assert channel.recv(1 << 16)[0] == WAITING
        channel.send(HEADER.pack(CONFIG, 0, 0, 0, 0) + json.dumps({"handler": True, "env": env, "cwd": str(folder)}).encode())
        assert channel.recv(1 << 16)[:2] == bytes([BEGUN, TELLS])
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        self.messages, text, status = [], b"", None
        channel.settimeout(0.05)
        while True:
            # Before it is looked for a packet: who has ended says nothing more.
            ended = status is not None
            try:
                packet = channel.recv(1 << 16)
            except (TimeoutError, ConnectionResetError):
                packet = b""
            if packet:
                assert packet[0] == MESSAGE
                text += packet[HEADER.size:]
                if not packet[1] & MORE:
                    self.messages.append(json.loads(text))
                    text = b""
            elif ended:
                break
            else:
                status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | os.WNOHANG)
        self.how = status.si_code
        with open(f"/proc/{process.pid}/comm", encoding="ascii") as file:
            self.name = file.read().strip()

    @property
    def said(self):
        assert len(self.messages) == 1
        return self.messages[0]["exit_code"], self.messages[0]["result"]

    @property
    def stderr(self):
        return self.err.read_text()


CALLS = {
    "event": ("def handler(event):\n    return event", {"a": [1, "ü\0\ud800", None]}, {"a": [1, "ü\0\ud800", None]}),
    "context by place": ("def handler(event, context):\n    return context.function_version", {}, "$LATEST"),
    "context by any name": ("def handler(e, c):\n    return c.memory_limit_in_mb", {}, 256),
    "context with a default": ("def handler(e, context=None):\n    return context.log_group_name", {}, "/lambda-sandbox/logs"),
    "context by name": ("def handler(e, *, context):\n    return context.function_name", {}, "mine"),
    "another default": ("def handler(e, retries=3):\n    return retries", {}, 3),
    "any arguments": ("def handler(*all):\n    return len(all)", {}, 2),
    "an object": ("class H:\n    def __call__(self, event, context):\n        return 7\nhandler = H()", {}, 7),
    "a method": ("class H:\n    def f(self, event):\n        return 8\nhandler = H().f", {}, 8),
    "decorated": ("import functools\ndef d(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g\n"
                  "@d\ndef handler(e):\n    return 9", {}, 9),
    "async": ("import asyncio\nasync def handler(e):\n    await asyncio.sleep(0)\n    return 10", {}, 10),
    "no numbers": ("n = float('nan')\ndef handler(e):\n    return {'a': n, 'b': [-n, 1.5, (float('inf'),)], n: 1}", {},
                   {"a": None, "b": [None, 1.5, [None]], "nan": 1}),
    "large": ("def handler(e):\n    return 'x' * 1000000", {}, "x" * 1000000),
    "module": ("import sys, handler as me\ndef handler(e):\n    return [__name__, me is sys.modules['handler'], sys.argv]", {},
               ["handler", True, ["handler.py"]]),
    "input": ("import sys\ndef handler(e):\n    return sys.stdin.read()", {}, ""),
    "threads go on": ("import threading, time\ndef handler(e):\n    threading.Thread(target=time.sleep, args=(99,)).start()\n    return 11",
                      {}, 11),
    "forked": ("import os\ndef handler(e):\n    os.fork()\n    return 12", {}, 12),
    "descriptors closed": ("import os\ndef handler(e):\n    os.closerange(3, 4096)\n    return 14", {}, 14),
    "streams gone": ("import sys\ndef handler(e):\n    sys.stdout = None\n    del sys.stderr\n    return 13", {}, 13),
}


@pytest.mark.parametrize("code,event,result", CALLS.values(), ids=CALLS)
def test_result(tmp_path, code, event, result):
    call = Call(tmp_path, code, event, {"function_name": "mine"})
    assert call.said == (0, result)
    assert call.stderr == ""
    # So it says that it has ended, see ending.py.
    assert (call.how, call.name) == (os.CLD_STOPPED, "gb-ended 0")


FAILURES = {
    "empty": ("  \n", 7, "System error: the code is empty\n"),
    "no handler": ("def other(e): pass", 1, "System error: the code defines no function named 'handler'\n"),
    "no function": ("handler = 5", 1, "System error: the code defines no function named 'handler'\n"),
    "syntax": ("def handler(:", 1, "System error:   File \"handler.py\", line 1\n    def handler(:\n                ^\n"
                                   "SyntaxError: invalid syntax\n"),
    "load": ("raise SystemExit(3)", 1, "System error: Traceback (most recent call last):\n  File \"handler.py\", line 1, in <module>\n"
                                       "    raise SystemExit(3)\nSystemExit: 3\n"),
    "exit": ("import sys\ndef handler(e):\n    sys.exit(4)", 2, "Traceback (most recent call last):\n"
             "  File \"handler.py\", line 3, in handler\n    sys.exit(4)\nSystemExit: 4\n"),
    "async": ("async def handler(e):\n    raise KeyError(1)", 2, "Traceback (most recent call last):\n"
              "  File \"handler.py\", line 2, in handler\n    raise KeyError(1)\nKeyError: 1\n"),
    "arguments": ("def handler(): pass", 2, "TypeError: handler() takes 0 positional arguments but 1 was given\n"),
    "no JSON": ("def handler(e): return {1, 2}", 3, "The result is not JSON: TypeError: Object of type set is not JSON serializable\n"),
    "circle": ("def handler(e):\n    e['e'] = e\n    return e", 3, "The result is not JSON: ValueError: Circular reference detected\n"),
    "too large": ("def handler(e): return 'x' * (16 << 20)", 3,
                  "The result is too large: 16777218 bytes as JSON, 16777216 are allowed.\n"),
}


@pytest.mark.parametrize("code,status,text", FAILURES.values(), ids=FAILURES)
def test_failure(tmp_path, code, status, text):
    call = Call(tmp_path, code)
    assert call.said == (status, None)
    assert call.stderr == text


def test_what_is_printed_is_no_result(tmp_path):
    call = Call(tmp_path, "def handler(e):\n    print('{\"exit_code\":0,\"result\":\"forged\"}', flush=True)\n    return 'true'")
    assert call.said == (0, "true")
    assert call.out.read_text() == '{"exit_code":0,"result":"forged"}\n'


def test_a_closed_channel(tmp_path):
    """By who goes behind the back of os.close()."""
    call = Call(tmp_path, "import ctypes\ndef handler(e):\n    for fd in range(3, 4096):\n        ctypes.CDLL(None).close(fd)\n    return 1")
    assert call.messages == []
    assert "the result could not be told" in call.stderr


def test_children_do_not_have_the_channel(tmp_path):
    call = Call(tmp_path, "import subprocess\ndef handler(e):\n    return subprocess.check_output(['ls', '/proc/self/fd'], text=True, "
                          "close_fds=False).split()")
    status, fds = call.said
    assert status == 0
    assert not [fd for fd in fds if int(fd) >= 100]
