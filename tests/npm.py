# SPDX-License-Identifier: Apache-2.0
"""Packages of npm, for tests whose peers are written in JavaScript: what a lock file names, in a folder below build/."""
import os
import shutil
import subprocess

import pytest

from conftest import ROOT

INSTALL_S = 240


def run(*words, cwd, timeout, env=None):
    """As subprocess.run(); a program that does not end in time has the status 124."""
    try:
        return subprocess.run(words, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(cwd), "NODE_OPTIONS": "", **(env or {})})
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, (e.stdout or b"").decode(), (e.stderr or b"").decode() + f"\nno end after {timeout} s")


def installed(here, name, *scripts):
    """The folder, with the packages of here/package-lock.json and copies of these scripts; skips the test if there is no way to have it."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"no {program}: programs of npm cannot be tried")
    folder = ROOT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [(here / one).read_bytes() for one in ("package.json", "package-lock.json")]
    done = folder / "installed"
    if not done.exists() or done.read_bytes() != b"".join(wanted):
        for one in ("package.json", "package-lock.json"):
            shutil.copy(here / one, folder)
        got = run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline", "--cache", str(folder / "cache"), cwd=folder, timeout=INSTALL_S)
        if got.returncode:
            pytest.skip(f"npm ci failed: is the registry there? {got.stderr[-300:]}")
        done.write_bytes(b"".join(wanted))
    for one in scripts:
        shutil.copy(here / one, folder)
    return folder
