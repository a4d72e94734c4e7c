# SPDX-License-Identifier: Apache-2.0
"""What must work through a Jupyter server in gateway mode, whichever it is. A file that imports these has `server` and `host`."""
import contextlib

import pytest

from hosts import HostKernel
from jup import Closed, shown
from server import until


@pytest.fixture
def kernel(host):
    with HostKernel(host) as kernel:
        yield kernel


def ours(server):
    """Ids of our kernels."""
    return {model["id"] for model in server.call("GET", "/api/kernels", headers=server.as_tenant)[1]}


def test_specs(server, host):
    status, theirs = host.ask("GET", "/api/kernelspecs")
    assert status == 200 and theirs["default"] == "python3"
    assert set(theirs["kernelspecs"]) == set(server.call("GET", "/api/kernelspecs", headers=server.as_tenant)[1]["kernelspecs"])
    assert theirs["kernelspecs"]["python3"]["spec"]["language"] == "python"


def test_a_session_is_a_kernel_of_ours(server, host):
    before = ours(server)
    with HostKernel(host) as kernel:
        assert ours(server) == before | {kernel.id}
        assert kernel.id in {model["id"] for model in host.ask("GET", "/api/kernels")[1]}
        assert kernel.get()["id"] == kernel.id
    until(lambda: ours(server) == before, "it ends with its session")


def test_cells(kernel):
    with kernel.client("text") as client:
        told = client.run("print('out')\nimport sys\nprint('err', file=sys.stderr)\ndisplay('shown')\n6 * 7").ok
        assert (told.text(), told.text("stderr"), told.value) == ("out\n", "err\n", "42")
        assert client.run("1/0").reply["ename"] == "ZeroDivisionError"
        told = client.run("for i in range(50000): print(f'{i:099d}')").ok
        assert told.text() == "".join(f"{i:099d}\n" for i in range(50000))
        told = client.run("import matplotlib.pyplot as plt\n_ = plt.plot([1])\nplt.show()").ok
        assert told.of("display_data")[0]["data"]["image/png"].startswith("iVBOR")
        found = client.ask("complete_request", {"code": "prin", "cursor_pos": 4}).reply
        assert "print" in found["matches"]


def test_it_is_in_a_box(kernel):
    with kernel.client("text") as client:
        assert client.value("import os; os.getuid(), os.getcwd()") == "(65532, '/workspace')"


def test_input(kernel):
    with kernel.client("text") as client:
        header = client.execute("input('who? ')")
        client.answer(client.asked(header), "me")
        assert client.told(header).ok.value == "'me'"


def test_interrupt(kernel):
    with kernel.client("text") as client:
        header = client.begin("import time; time.sleep(1000)")
        assert kernel.interrupt()[0] == 204
        assert client.told(header).reply["ename"] == "KeyboardInterrupt"


def test_restart(kernel):
    with kernel.client("text") as client:
        client.run("x = 1").ok
        assert kernel.restart()[0] == 200
        told = client.run("'x' in globals()").ok
        assert told.value == "False" and told.reply["execution_count"] == 1


def test_death(kernel):
    with kernel.client("text") as client:
        header = client.execute("print('before')\nimport os; os._exit(1)")
        told = client.told(header)
        assert told.text() == "before\n" and told.reply["status"] == "error"
        client.until_state("restarting")
        assert client.run("6 * 7").ok.value == "42"


def test_two_browsers(kernel):
    with kernel.client("text") as one, kernel.client("text") as two:
        header = one.execute("print('to both')")
        one.told(header).check().ok
        assert two.told(header).text() == "to both\n"
        assert not [m for m in two.kept if m.channel == "shell"]
        assert two.run("6 * 7").ok.value == "42"


def test_a_browser_that_comes_back(kernel):
    with kernel.client("text") as client:
        header = client.begin("import time\nfor i in range(50):\n    print(i, flush=True)\n    time.sleep(0.01)\nprint('end')")
    with kernel.client("text") as client:
        m = client.until(lambda m: m.type == "stream" and "end\n" in m.content["text"])
        assert m.parent == header["msg_id"]
        assert client.told(header).replies[0].content["status"] == "ok"


def test_the_gate_is_killed(server, kernel):
    """They connect again by themselves; the cell goes on, and what is shown at its end is right."""
    with kernel.client("text") as client:
        client.run("kept = 5").ok
        header = client.begin("import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.01)\n6 * 7")
        before = [m for m in client.kept if m.parent == header["msg_id"]]
        client.kept = []
        server.next_gate(server.kill_gate())
        told = client.told(header)
        want = "".join(f"{i}\n" for i in range(300))
        (kind, text), _ = shown([*before, *told.all])
        assert kind == "stdout" and text.removeprefix("up\n") == want
        assert told.ok.value == "42" and client.run("kept").ok.value == "5"
        with contextlib.suppress(Closed):
            client.leave()
