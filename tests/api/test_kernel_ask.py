# SPDX-License-Identifier: Apache-2.0
"""Questions to a kernel: what a name could become, whether a cell is whole, what something is."""
import concurrent.futures
import re
import time

import pytest

from server import WARM, needs_root, shared, until  # noqa: F401
from test_boxes import Box, refused

pytestmark = needs_root

server = shared(**WARM)


@pytest.fixture
def box(server):
    with Box(server) as box:
        yield box


def ask(box, what, code="", **fields):
    return box.server.call("POST", f"{box.path}/{what}", {"code": code, **fields})


def run(box, code, **fields):
    status, answer = box.server.call("POST", f"{box.path}/cells", {"code": code, **fields})
    assert status == 200 and answer["status"] == "ok", answer
    return answer


def test_complete(box):
    run(box, "longish_name = 1")
    status, answer = ask(box, "complete", "x = longish_na")
    assert status == 200 and answer == {"matches": ["longish_name"], "start": 4, "end": 14}
    status, answer = ask(box, "complete", "'ä' + longi + 1", cursor=11)
    assert status == 200 and answer["matches"] == ["longish_name"] and (answer["start"], answer["end"]) == (6, 11)
    assert ask(box, "complete", "no_such_name_")[1]["matches"] == []
    assert ask(box, "complete", "longi", kernel="other")[1]["matches"] == [], "each kernel has its own names"


@pytest.mark.parametrize("code, status, indent", [("1 + 1", "complete", None), ("for i in x:", "incomplete", "    "), ("(1,", "incomplete", None), ("1 +* 2", "invalid", None)])
def test_is_complete(box, code, status, indent):
    got, answer = ask(box, "is_complete", code)
    assert got == 200 and answer["status"] == status
    assert indent is None or answer["indent"] == indent


def test_inspect(box):
    run(box, "def f(x):\n    'what it does'\n    return x")
    status, answer = ask(box, "inspect", "f(1)", cursor=1)
    assert status == 200 and answer["found"] is True and "what it does" in answer["data"]["text/plain"]
    assert "return x" in re.sub(r"\x1b\[[\d;]*m", "", ask(box, "inspect", "f", detail=1)[1]["data"]["text/plain"])
    assert ask(box, "inspect", "no_such_name_")[1]["found"] is False


def test_they_are_in_no_list(box):
    before = box.server.call("GET", f"{box.path}/cells")[1]
    ask(box, "complete", "x")
    assert box.server.call("GET", f"{box.path}/cells")[1] == before


@pytest.mark.parametrize("body", [{}, {"code": 1}, {"code": "x", "cursor": -1}, {"code": "x", "cursor": "1"}, {"code": "x", "other": 1}, {"code": "x", "kernel": ""}])
@pytest.mark.parametrize("what", ["complete", "is_complete", "inspect"])
def test_bad_input(box, what, body):
    status, answer = box.server.call("POST", f"{box.path}/{what}", body)
    assert status in (400, 422), (status, answer)


def test_of_no_box(server):
    refused(server.call("POST", "/v1/boxes/name:nobody/complete", {"code": "x"}), 404, "not_found")


def test_a_busy_kernel_answers_when_it_is_not(box):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        cell = pool.submit(run, box, "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)\nnew_name = 1")
        assert box.out("while ! test -e begun; do sleep 0.01; done; echo yes") == "yes\n"
        answer = pool.submit(ask, box, "complete", "new_na")
        time.sleep(0.2)
        assert not answer.done()
        box.out("touch go")
        assert cell.result()["status"] == "ok" and answer.result()[1]["matches"] == ["new_name"]


@pytest.mark.more
def test_one_that_takes_long_does_not_end_the_kernel(box):
    """It is refused after ten seconds; the kernel and its variables stay."""
    run(box, "import time\nkept = 1\nclass Slow:\n    def __dir__(self):\n        time.sleep(14)\n        return ['later']\nslow = Slow()")
    refused(ask(box, "complete", "slow.la"), 409, "wrong_state", "kernel")
    assert run(box, "kept")["results"][0]["data"]["text/plain"] == "1"
