# SPDX-License-Identifier: Apache-2.0
"""Packages of npm, for tests whose peers are written in JavaScript: what a lock file names, in a folder below build/."""
import pytest

from conftest import ROOT
from npm_install import install, run

__all__ = ["installed", "run"]


def installed(here, name, *scripts):
    """The folder, with the packages of here/package-lock.json and copies of these scripts; skips the test if there is no way to have it."""
    folder = ROOT / "build" / name
    if why := install(here, folder, *(here / one for one in scripts)):
        pytest.skip(why)
    return folder
