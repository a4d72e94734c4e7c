# SPDX-License-Identifier: Apache-2.0
"""examples/beam_search, as its README has it."""
import os
import pathlib
import subprocess

from server import WARM, needs_root, serve  # noqa: F401

pytestmark = needs_root

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "examples/beam_search"


def test_the_beam_search(serve, tmp_path):
    server = serve(**{**WARM, "zygote_imports": "numpy matplotlib.pyplot"})
    env = {**os.environ, "GLOVEBOX_URL": f"http://127.0.0.1:{server.port}", "PYTHONPATH": str(ROOT / "sdk/python/src")}
    done = subprocess.run(["/usr/bin/python3", "-B", HERE / "beam_search.py", "--out", tmp_path / "out"], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == (HERE / "README.md").read_text(encoding="utf-8").split("```")[3].strip("\n")
    pictures = sorted((tmp_path / "out").iterdir())
    assert len(pictures) == 24 and len({picture.read_bytes() for picture in pictures}) >= 20, "two branches may go the same way"
    assert all(picture.read_bytes().startswith(b"\x89PNG\r\n") for picture in pictures)
    assert server.call("GET", "/v1/boxes")[1]["boxes"] == []
