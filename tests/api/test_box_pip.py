# SPDX-License-Identifier: Apache-2.0
"""Packages that a session installs: for itself, found at once, and gone with it."""
import pytest

from cells import NO_POOL, Session
from server import both_ways, needs_root  # noqa: F401
from wheels import wheel

pytestmark = needs_root

server = both_ways(env=NO_POOL)
FROM = "--no-index --find-links /workspace"


@pytest.fixture
def session(server):
    with Session(server) as box:
        for name, data in (wheel("gbfirst"), wheel("gbsecond", requires=["gbfirst>=1"])):
            status, _, body = server.request("PUT", f"{box.path}/files/{name}", data)
            assert status == 201, body
        yield box


@pytest.mark.parametrize("how", [f"%pip install {FROM} gbsecond", f"!pip install {FROM} gbsecond", f"!python3 -m pip install --user {FROM} gbsecond",
                                 f"import subprocess, sys; subprocess.run([sys.executable, '-m', 'pip', 'install', *'{FROM}'.split(), 'gbsecond'])"])
def test_found_by_the_next_line(session, how):
    r = session.cell(f"try:\n    import gbsecond\nexcept ImportError:\n    print('not yet')\n{how}\nimport gbsecond, gbfirst\ngbsecond.VERSION, gbfirst.__file__")
    assert r["status"] == "ok" and r["stdout"].startswith("not yet\n"), r
    assert r["results"][-1]["data"]["text/plain"].startswith("('1.0', '/home/box/.local/lib/python3"), r["results"]
    assert session.value("import gbsecond; gbsecond.VERSION", kernel="other") == "'1.0'"


def test_found_by_programs_of_the_box(session):
    session.ok(f"%pip install {FROM} gbsecond")
    status, r = session.server.call("POST", f"{session.path}/commands", {"argv": ["python3", "-c", "import gbsecond; print(gbsecond.VERSION)"]})
    assert (status, r["stdout"]) == (200, "1.0\n"), r


def test_for_this_session_alone(server, session):
    session.ok(f"%pip install {FROM} gbsecond")
    with Session(server) as other:
        assert other.cell("import gbsecond")["error"]["name"] == "ModuleNotFoundError"
        assert other.value("import os; [f for _, _, files in os.walk('/home/box') for f in files]") == "[]"
