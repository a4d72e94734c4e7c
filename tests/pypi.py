# SPDX-License-Identifier: Apache-2.0
"""Packages of PyPI as tests need them, in virtual environments below build/. Without PyPI the tests are skipped, and say so."""
import shutil
import subprocess

import pytest

from conftest import ROOT

INSTALL_S = 240
# ipybox itself; what the Python SDK needs beside it; and what ipybox has in its containers only.
IPYBOX = ["ipybox==0.6.7", "h11", "httpx", "websockets",
          "aiofiles", "datamodel-code-generator>=0.28,<0.29", "fastapi>=0.115,<0.116", "ipykernel>=6.29,<7", "jupyter-kernel-gateway>=3,<4", "uvicorn>=0.34,<0.35"]


def call(*words, timeout, cwd=None, env=None):
    try:
        return subprocess.run(list(map(str, words)), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(ROOT / "build"), **(env or {})})  # what pip starts may write there
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, (e.stdout or b"").decode(), (e.stderr or b"").decode() + f"\nno end after {timeout} s")


def python_with(name, packages):
    """A Python below build/ that has them, made once."""
    folder = ROOT / "build" / f"{name}-venv"
    done = folder / "installed"
    if not done.exists() or done.read_text() != "\n".join(packages):
        shutil.rmtree(folder, ignore_errors=True)
        got = call("/usr/bin/python3", "-m", "venv", folder, timeout=INSTALL_S)
        if got.returncode:
            pytest.skip(f"no virtual environment, {packages[0]} cannot be tried: {got.stdout[-300:]}{got.stderr[-300:]}")
        got = call(folder / "bin" / "pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--quiet", *packages, timeout=INSTALL_S)
        if got.returncode:
            pytest.skip(f"pip install {packages[0]} failed: is PyPI there? {got.stderr[-300:]}")
        done.write_text("\n".join(packages))
    return folder / "bin" / "python3"


def python_with_ipybox():
    return python_with("ipybox", IPYBOX)
