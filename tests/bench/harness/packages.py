# SPDX-License-Identifier: Apache-2.0
"""Environments of packages: how long building one takes, its first session, and those after it; beside a virtual environment of the host.

Both have the same wheels, made by hand, by the same options of pip, and import all of them in their first program. A new environment has no
image to start Python from: whoever uses it first starts cold, and has it made meanwhile.
"""
import dataclasses
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import time

from . import launch, server, sessions
from .server import NOT_THERE, DoesNotWork, connect, exchange, request

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TESTS))

import wheels  # noqa: E402

PYTHON = "/usr/bin/python3"
BUILD_S, IMAGE_S = 300, 60
PACKAGES, MODULES, FUNCTIONS = 20, 10, 30
NAMES = [f"gbbench{number:02}" for number in range(PACKAGES)]
CODE = f"import {', '.join(NAMES)}; print(1)"
# As env build calls it: src/cli/boxed/env_build.py.
PIP = ["-m", "pip", "install", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off", "--no-index"]


def lacking(ctx):
    """Why this build, or this machine, has no environments; None: it has."""
    if "env" not in ctx.found:
        done = subprocess.run([ctx.glovebox, "env", "--help"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False)
        ctx.found["env"] = None if done.returncode == 0 else f"{NOT_THERE}: there is no `glovebox env`"
    return ctx.found["env"] or (None if os.geteuid() == 0 else "needs root")


def argv_of(ctx, folder, verb, *words):
    """A command of `glovebox env`, on environments in this directory."""
    return [str(ctx.glovebox), "env", verb, "--dir", str(folder), *map(str, words)]


# --- packages by hand -----------------------------------------------------------------------------------------------


def module(draw, number):
    """A few kilobytes of Python, as modules have them."""
    lines = [f'"""Module {number}."""\nimport collections\nimport re\n']
    for n in range(FUNCTIONS):
        lines.append(f"\ndef function_{n}(first, second={draw.randrange(1000)}, *rest):\n"
                     f'    """What it does: {draw.randrange(1 << 60):x}."""\n'
                     f"    found = collections.Counter(str(first) + {str(draw.randrange(1 << 60))!r})\n"
                     "    return [found, second, *rest] if re.match('[a-z]+', str(first)) else None\n")
    return "".join(lines)


def plant(folder):
    """(directory of wheels, requirements file): packages that import all of their modules, every second one needs the one before."""
    draw, place = random.Random(1), folder / "wheels"
    place.mkdir()
    for at, name in enumerate(NAMES):
        files = {f"{name}/m{number}.py": module(draw, number) for number in range(MODULES)}
        files[f"{name}/__init__.py"] = "".join(f"from . import m{number}\n" for number in range(MODULES))
        file, data = wheels.wheel(name, files=files, requires=[f"{NAMES[at - 1]}>=1"] if at % 2 else ())
        (place / file).write_bytes(data)
    requirements = folder / "requirements.txt"
    requirements.write_text("".join(f"{name}==1.0\n" for name in NAMES))
    return place, requirements


def brief(ctx, *commands):
    """Commands as they are reported: not with every name twice."""
    text = ctx.shown("; ".join(shlex.join(argv) for argv in commands))
    for joint in (" ", ", "):
        text = text.replace(joint.join(NAMES), f"{NAMES[0]}{joint}…{joint}{NAMES[-1]}")
    return text


def planted(ctx):
    """One for all peers of a run."""
    if "wheels" not in ctx.found:
        ctx.found["wheels"] = plant(ctx.folder("packages"))
    return ctx.found["wheels"]


# --- a virtual environment of the host ------------------------------------------------------------------------------


class Venv:
    def __init__(self, ctx):
        self.launcher = launch.Launcher()
        place, requirements = planted(ctx)
        self.folder = ctx.folder("venv") / "venv"
        self.python = str(self.folder / "bin" / "python3")
        self.making = [[PYTHON, "-m", "venv", "--system-site-packages", str(self.folder)],
                       [self.python, *PIP, "--find-links", str(place), "-r", str(requirements)]]

    def build(self):
        """Nanoseconds of both commands together; OSError."""
        shutil.rmtree(self.folder, ignore_errors=True)
        total = 0
        for argv in self.making:
            run = self.launcher.call(launch.once, launch.Command([argv]), BUILD_S)
            if run.error:
                raise OSError(run.error)
            total += run.ns
        return total

    def start(self, work):
        return self.launcher.call(launch.once, launch.Command([[self.python, "-c", work.text]], work.expect))

    def close(self):
        self.launcher.close()


class OpenedVenv:
    """once() is a program of a virtual environment that is there, or a new one of that and its first program."""

    def __init__(self, peer, ctx, work):
        self.venv, self.work, self.fresh = Venv(ctx), work, peer.fresh
        programs = self.venv.making if peer.fresh else []
        self.shown = brief(ctx, *programs, [self.venv.python, "-c", work.text])
        if not peer.fresh:
            try:
                self.venv.build()
            except OSError as e:
                self.venv.close()
                raise DoesNotWork(f"no virtual environment: {e}") from e

    def once(self):
        if not self.fresh:
            return self.venv.start(self.work)
        try:
            ns = self.venv.build()
        except OSError as e:
            return launch.Run(0, str(e))
        run = self.venv.start(self.work)
        return launch.Run(ns, run.error, parts={FIRST: run.ns})

    def close(self):
        self.venv.close()


@dataclasses.dataclass(frozen=True)
class VenvPeer:
    name: str
    fresh: bool = False
    program: str = PYTHON
    holds: str = "nothing"
    version: tuple = ("-c", "import platform, pip; print('Python', platform.python_version(), 'pip', pip.__version__)")

    def path(self, _ctx):
        return self.program

    def missing(self, _ctx):
        done = subprocess.run([PYTHON, "-c", "import ensurepip, pip, venv"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return "not installed: python3-venv, python3-pip" if done.returncode else None

    def open(self, ctx, work):
        return OpenedVenv(self, ctx, work)


# --- an environment -------------------------------------------------------------------------------------------------

FIRST = "first start"
IMAGE = "until its image is there, from the first request on"


class Environments:
    """A directory of them, and a server that has it. What it says of one is asked by `tell`."""

    def __init__(self, peer, ctx, work):
        self.ctx, self.work, self.outcome = ctx, work, peer.outcome
        self.folder = ctx.folder("environments")
        self.server = server.Server(ctx, (*peer.options, "--environments-dir", str(self.folder)))
        self.launcher = launch.Launcher()
        try:
            self.launcher.call(server.keep_connection, self.server.port)
        except RuntimeError as e:
            self.close()
            raise DoesNotWork("the server does not answer") from e

    def command(self, verb, *words):
        return argv_of(self.ctx, self.folder, verb, *words)

    def building(self, name, *words):
        place, requirements = planted(self.ctx)
        return self.command("build", "--find-links", place, "--no-index", "--imports", " ".join(NAMES), *words, name, "-r", requirements)

    def run(self, argv):
        """Nanoseconds; OSError."""
        run = self.launcher.call(launch.once, launch.Command([argv]), BUILD_S)
        if run.error:
            raise OSError(run.error)
        return run.ns

    def told(self, name, *commands):
        """How it is called, for the report."""
        return f"{brief(self.ctx, *commands)}; {self.server.shown}, POST /v1/boxes {{\"environment\": \"{name}\"}}, POST …/cells {brief(self.ctx, [self.work.text])}"

    def tell(self, name):
        with connect(self.server.port) as connection:
            status, body = exchange(connection, request("GET", f"/v1/environments/{name}"))
        return json.loads(body) if status == 200 else None

    def until(self, name, judge, what):
        end = time.monotonic() + IMAGE_S
        while not judge(self.tell(name)):
            if time.monotonic() > end:
                raise OSError(f"{what} does not come: {self.tell(name)}")
            time.sleep(0.002)

    def session(self, name):
        """A new session to the result of its first cell."""
        return self.launcher.call(sessions.ask_session, sessions.cell_request(self.work.text), self.work.expect, self.server.rest, self.outcome,
                                  request("POST", "/v1/boxes", {"environment": name}))

    def close(self):
        self.launcher.close()
        self.server.stop()


class OpenedNew(Environments):
    """once() builds an environment, and uses it first."""

    def __init__(self, peer, ctx, work):
        super().__init__(peer, ctx, work)
        self.number = 0
        self.shown = self.told("NAME", self.building("NAME"))

    def once(self):
        self.number += 1
        name = f"bench{self.number}"
        try:
            ns = self.run(self.building(name))
            try:
                return self.first(name, ns)
            finally:
                self.run(self.command("remove", name))
        except OSError as e:
            return launch.Run(0, str(e))

    def first(self, name, ns):
        self.until(name, lambda told: told is not None, "the environment")
        if self.tell(name)["warm"]:
            return launch.Run(ns, "it has an image before anybody has used it")
        start = time.perf_counter_ns()
        run = self.session(name)
        self.until(name, lambda told: told and told["warm"], "its image")
        made = time.perf_counter_ns() - start
        return launch.Run(ns, run.error, parts={FIRST: run.ns, IMAGE: made})


class OpenedWarm(Environments):
    """once() is a session of an environment whose image is there, and whose pool is full."""

    def __init__(self, peer, ctx, work):
        super().__init__(peer, ctx, work)
        pool = peer.fields["pool"]
        self.shown = self.told("bench", self.building("bench", "--pool", pool))
        try:
            self.run(self.building("bench", "--pool", pool))
            self.until("bench", lambda told: told is not None, "the environment")
            self.outcome, wanted = None, self.outcome
            if error := self.session("bench").error:
                raise DoesNotWork(error)
            self.outcome = wanted
            self.until("bench", lambda told: told and told["warm"] and told["ready"] == pool, "its image, or its pool,")
            self.server.settle()
        except (DoesNotWork, OSError) as e:
            self.close()
            raise e if isinstance(e, DoesNotWork) else DoesNotWork(str(e)) from e

    def once(self):
        return self.session("bench")


class EnvironmentPeer(server.ServerPeer):
    """A server with environments; `fields` say how many sessions are kept ready of the one that is there, if any is."""

    def missing(self, ctx):
        return super().missing(ctx) or lacking(ctx)

    def open(self, ctx, work):
        return (OpenedWarm if "pool" in self.fields else OpenedNew)(self, ctx, work)
