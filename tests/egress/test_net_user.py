# SPDX-License-Identifier: Apache-2.0
"""`glovebox run --allow` of an ordinary user: the same network, the same refusals."""
import errno
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import program_path
from net import PRELUDE, needs_root, world  # noqa: F401
from net_world import PUBLIC, RESOLVER

pytestmark = needs_root

UID = 23456


@pytest.fixture
def home():
    """Its own files, and the program where it can be read: the one under test may lie in a directory of root's."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
    for name in ("glovebox", "glovebox-gate"):
        shutil.copy(program_path().parent / name, folder / name)
    for path in (folder, *folder.iterdir()):
        os.chown(path, UID, UID)
    yield folder
    shutil.rmtree(folder)
    shutil.rmtree(f"/tmp/glovebox-{UID}", ignore_errors=True)


def test_the_same_for_an_ordinary_user(world, home):
    code = PRELUDE + f"""
say(get("http://web.test/")["at"], get("http://other.test/"), get("http://{PUBLIC}/"), get("http://10.9.9.9/"))
"""
    done = subprocess.run(world.inside("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", home / "glovebox", "run",
                                       "--accept-missing", "memory-limit,process-limit,cpu-limit,own-uids", "--allow", "web.test", "--resolver", RESOLVER, "-"),
                          input=code, capture_output=True, text=True, timeout=60, check=False, cwd=home, env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": ""})
    if "user namespace" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [PUBLIC] + [errno.ENETUNREACH] * 3
    assert "--allow other.test" in done.stderr
