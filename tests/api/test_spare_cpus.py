# SPDX-License-Identifier: Apache-2.0
"""spare_cpus: processors that no box may use."""
import os

import pytest

from server import WARM, ends, needs_root, serve  # noqa: F401

pytestmark = needs_root

CPUS = sorted(os.sched_getaffinity(0))
ASK = """
import os
print(sorted(os.sched_getaffinity(0)))
try:
    os.sched_setaffinity(0, {%d})
    print("moved", sorted(os.sched_getaffinity(0)))
except OSError as e:
    print(e.strerror)
"""


@pytest.mark.skipif(len(CPUS) < 2, reason="there is one processor")
@pytest.mark.parametrize("options", [{"warm": "false"}, WARM], ids=["cold", "warm"])
def test_a_box_cannot_use_them(serve, options):
    server = serve(spare_cpus=1, **options)
    wanted = f"{CPUS[1:]}\nInvalid argument\n"
    assert server.execute(ASK % CPUS[0])["stdout"] == wanted
    box = server.call("POST", "/v1/boxes", {})[1]["id"]
    assert server.call("POST", f"/v1/boxes/{box}/cells", {"code": ASK % CPUS[0]})[1]["stdout"] == wanted
    assert os.sched_getaffinity(server.pid_of("gate")) == set(CPUS)


def test_without_it_a_box_uses_all(serve):
    assert serve(warm="false").execute(ASK % CPUS[0])["stdout"] == f"{CPUS}\nmoved {CPUS[:1]}\n"


def test_not_all_of_them(tmp_path):
    done = ends(listen="127.0.0.1:0", state_dir=tmp_path, spare_cpus=len(CPUS))
    assert done.returncode != 0
    assert f"spare_cpus: of {len(CPUS)} processors {len(CPUS)} cannot be kept free of boxes" in done.stderr
