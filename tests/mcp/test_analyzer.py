# SPDX-License-Identifier: Apache-2.0
"""examples/analyzer, as its README has it."""
import pathlib
import subprocess
import sys

from server import WARM, needs_root, serve  # noqa: F401

pytestmark = needs_root

HERE = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "analyzer"


def test_the_analyzer(serve, tmp_path):
    server = serve(env={"DATA_KEY": "k"}, tool_servers=HERE / "mcp.json", mount_root=HERE, **{**WARM, "zygote_imports": "pandas matplotlib.pyplot"})
    done = subprocess.run([sys.executable, HERE / "analyze.py", "--url", f"http://127.0.0.1:{server.port}", "--out", tmp_path / "plot.png"],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = (HERE / "README.md").read_text(encoding="utf-8").split("```")[3].strip("\n")
    assert done.stdout.rstrip("\n").replace(str(tmp_path) + "/", "") == said
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG\r\n")
