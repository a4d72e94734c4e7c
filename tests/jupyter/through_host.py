# SPDX-License-Identifier: Apache-2.0
"""What must work through a Jupyter server in gateway mode, whichever it is. A file that imports these says which: `in_front_of`."""
import pytest

from hosts import AS_TENANT, TENANT, HostKernel
from jup import shown
from server import WARM, serve, shared, until  # noqa: F401

server = shared(tokens={"them": TENANT}, **WARM)


@pytest.fixture(scope="module")
def host(server, in_front_of):
    with in_front_of(server) as host:
        yield host


@pytest.fixture
def kernel(host):
    with HostKernel(host) as kernel:
        yield kernel


def ours(server):
    """Ids of our kernels."""
    return {model["id"] for model in server.call("GET", "/api/kernels", headers=AS_TENANT)[1]}


def test_specs(server, host):
    status, theirs = host.ask("GET", "/api/kernelspecs")
    assert status == 200 and theirs["default"] == "python3"
    assert set(theirs["kernelspecs"]) == set(server.call("GET", "/api/kernelspecs", headers=AS_TENANT)[1]["kernelspecs"])
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


def test_its_environment_is_its_own(server, in_front_of):
    """Some of them send all of it: it may be large, and means nothing in a box. KERNEL_* does."""
    with in_front_of(server, LS_COLORS="x" * 5000, KERNEL_A="b", LANG="xx_XX.UTF-8") as host, HostKernel(host) as kernel, kernel.client() as client:
        seen = eval(client.value("import os; dict(os.environ)"))
        assert seen["KERNEL_A"] == "b" and seen["HOME"] == "/home/box" and "LS_COLORS" not in seen and str(host.folder) not in seen["PATH"]


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


def test_the_gate_is_killed(serve, in_front_of):
    """They connect again by themselves; the cell goes on, and what is shown at its end is right."""
    server = serve(tokens={"them": TENANT}, **WARM)
    with in_front_of(server) as host, HostKernel(host) as kernel, kernel.client("text") as client:
        client.run("kept = 5").ok
        header = client.begin("import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.01)\n6 * 7")
        before = [m for m in client.kept if m.parent == header["msg_id"]]
        client.kept = []
        server.next_gate(server.kill_gate())
        told = client.told(header)
        (kind, text), _ = shown([*before, *told.all])
        assert kind == "stdout" and text.removeprefix("up\n") == "".join(f"{i}\n" for i in range(300))
        assert told.ok.value == "42" and client.run("kept").ok.value == "5"
