# SPDX-License-Identifier: Apache-2.0
"""Packages of npm as a lock file names them, in a folder of ours. For tests (npm.py) and for the benchmark; what went wrong is told, not raised."""
import os
import shutil
import subprocess

INSTALL_S = 240
FILES = ("package.json", "package-lock.json")


def run(*words, cwd, timeout, env=None):
    """As subprocess.run(); a program that does not end in time has the status 124."""
    try:
        return subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(cwd), "NODE_OPTIONS": "", **(env or {})})
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, (e.stdout or b"").decode(), (e.stderr or b"").decode() + f"\nno end after {timeout} s")


def lacking():
    """What there is no npm without, or None."""
    return next((f"no {program}: programs of npm cannot be tried" for program in ("node", "npm") if not shutil.which(program)), None)


def install(here, folder, *scripts):
    """The packages of here/package-lock.json and copies of these files. None, or why there is no way to have it."""
    if why := lacking():
        return why
    folder.mkdir(parents=True, exist_ok=True)
    wanted = b"".join((here / one).read_bytes() for one in FILES)
    done = folder / "installed"
    if not done.exists() or done.read_bytes() != wanted:
        for one in FILES:
            shutil.copy(here / one, folder)
        got = run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--cache", str(folder / "cache"), cwd=folder, timeout=INSTALL_S)
        if got.returncode:
            return f"npm ci failed: is the registry there? {got.stderr[-300:]}"
        done.write_bytes(wanted)
    for one in scripts:
        shutil.copy(one, folder)
    return None
