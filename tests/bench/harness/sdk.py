# SPDX-License-Identifier: Apache-2.0
"""The Python SDK, both forms, and http.client beside it: the same cell, one after the other, in a session that is there.

Each is a launcher of its own, so that the processor time of that process is the client's: connection, JSON, and what makes a result of an
answer. Whether the answer was right is looked at behind the clock.
"""
import asyncio
import contextlib
import dataclasses
import http.client
import importlib.util
import json
import os
import pathlib
import sys
import time

from . import launch, server, sessions
from .server import DoesNotWork

SOURCE = pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python" / "src"
PYTHON = "/usr/bin/python3"
NEEDS = ("h11", "websockets")
CALL_S = 30

# --- inside a launcher ------------------------------------------------------------------------------------------


class Raw:
    """http.client as its documentation has it: one connection, JSON both ways."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_S)
        self.box = self.ask("/v1/boxes", {}, 201)["id"]
        self.path = f"/v1/boxes/{self.box}/cells"

    def ask(self, path, fields, wanted):
        self.connection.request("POST", path, json.dumps(fields).encode(), {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        body = response.read()
        if response.status != wanted:
            raise OSError(f"POST {path}: status {response.status}: {body[:150].decode(errors='replace')}")
        return json.loads(body)

    def run(self, code):
        return self.ask(self.path, {"code": code}, 200)

    @staticmethod
    def said(answer):
        return answer["status"], answer["stdout"]

    def several(self, code, expect, milliseconds):
        return timed(lambda: self.run(code), self.said, expect, milliseconds)

    def close(self):
        self.connection.close()


def said_by_result(result):
    return result.status, result.stdout


class Blocking:
    def __init__(self, port):
        import glovebox
        self.client = glovebox.Client(f"http://127.0.0.1:{port}")
        self.box = glovebox.Box(client=self.client).open()

    def several(self, code, expect, milliseconds):
        return timed(lambda: self.box.run(code), said_by_result, expect, milliseconds)

    def close(self):
        self.box.close()
        self.client.close()


class Asyncio:
    def __init__(self, port):
        import glovebox
        self.loop = asyncio.new_event_loop()
        self.client = glovebox.AsyncClient(f"http://127.0.0.1:{port}")
        self.box = self.loop.run_until_complete(glovebox.AsyncBox(client=self.client).open())

    def several(self, code, expect, milliseconds):
        return self.loop.run_until_complete(timed_async(lambda: self.box.run(code), said_by_result, expect, milliseconds))

    def close(self):
        self.loop.run_until_complete(self.box.close())
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


class Slice:
    """What came of some calls: the time of each that was right, and the processor time of all."""

    def __init__(self, milliseconds):
        self.until = time.monotonic() + milliseconds / 1000
        self.times, self.failed, self.error, self.processor = [], 0, "", 0

    def begin(self):
        self.used = time.process_time_ns()
        self.start = time.perf_counter_ns()

    def end(self):
        self.took = time.perf_counter_ns() - self.start
        self.processor += time.process_time_ns() - self.used

    def judge(self, said, expect):
        if said == ("ok", expect):
            self.times.append(self.took)
        else:
            self.bad(f"answered {said!r:.150}")

    def bad(self, error):
        self.failed += 1
        self.error = self.error or error

    def is_over(self):
        return time.monotonic() >= self.until

    def told(self):
        return self.times, self.failed, self.error, self.processor


def timed(call, said, expect, milliseconds):
    done = Slice(milliseconds)
    while not done.is_over():
        try:
            done.begin()
            result = call()
            done.end()
            done.judge(said(result), expect)
        except Exception as e:  # whatever it is: a failure of the row
            done.bad(f"{type(e).__name__}: {e}")
    return done.told()


async def timed_async(call, said, expect, milliseconds):
    """The same with `await`: a loop that is entered anew for every call would be part of its time."""
    done = Slice(milliseconds)
    while not done.is_over():
        try:
            done.begin()
            result = await call()
            done.end()
            done.judge(said(result), expect)
        except Exception as e:  # as above
            done.bad(f"{type(e).__name__}: {e}")
    return done.told()


WAYS = {"http": Raw, "blocking": Blocking, "asyncio": Asyncio}
SHOWN = {"http": "http.client: POST …/cells and json.loads(), {!r}", "blocking": "Box.run({!r})", "asyncio": "await AsyncBox.run({!r})"}
_way = None


def begin(way, port):
    """The imports are no part of any figure, and nothing of this environment is."""
    global _way
    os.environ.clear()
    os.environ.update(launch.ENVIRONMENT)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(SOURCE))
    _way = WAYS[way](port)


def several(code, expect, milliseconds):
    return _way.several(code, expect, milliseconds)


def end():
    if _way is not None:
        _way.close()


# --- outside ------------------------------------------------------------------------------------------------------


class OpenedClient:
    def __init__(self, peer, ctx, work):
        self.work = work
        self.server = server.Server(ctx, sessions.known(ctx, peer.options))
        self.launcher = launch.Launcher()
        try:
            sessions.probe(self.server.port, work)
            self.launcher.call(begin, peer.way, self.server.port)
            _, failed, error = self.cells(1)[:3]  # whatever is made when it is needed first
            if failed:
                raise DoesNotWork(error)
            self.server.settle()
        except (DoesNotWork, OSError, ValueError, KeyError, RuntimeError) as e:
            self.launcher.close()
            self.server.stop()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"{peer.name}: {str(e).strip().splitlines()[-1]}") from e
        self.shown = f"{self.server.shown}, {SHOWN[peer.way].format(work.text)}"

    def cells(self, milliseconds):
        """Times of cells, one after the other, failures, and the processor time of the client: (ns, failed, error, ns)."""
        return self.launcher.call(several, self.work.text, self.work.expect.decode(), milliseconds)

    def close(self):
        with contextlib.suppress(RuntimeError):  # its server is gone: that was a failure already
            self.launcher.call(end)
        self.launcher.close()
        self.server.stop()


@dataclasses.dataclass(frozen=True)
class ClientPeer(server.ServerPeer):
    way: str = "http"
    program: str = PYTHON

    def path(self, _ctx):
        return self.program

    def open(self, ctx, work):
        return OpenedClient(self, ctx, work)


@dataclasses.dataclass(frozen=True)
class SdkPeer(ClientPeer):
    version: tuple = ("-B", "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import glovebox, h11, websockets; "
                                  "print('glovebox', glovebox.__version__, 'h11', h11.__version__, 'websockets', websockets.__version__)")

    def missing(self, ctx):
        lacks = [name for name in NEEDS if not importlib.util.find_spec(name)]
        return super().missing(ctx) or (f"not installed: {', '.join(lacks)}" if lacks else None)
