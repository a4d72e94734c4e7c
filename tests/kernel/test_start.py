# SPDX-License-Identifier: Apache-2.0
"""Both ways to start, and what is between prepare() and serve()."""
import json
import os
import re
import subprocess
import time

import pytest

from fake_init import CONFIG, LIBS, PYTHON, RUN, SOURCE, Zygote

pytest_plugins = ["kernels"]


@pytest.fixture(params=["cold", "warm"])
def either(request, boot, zygote):
    if request.param == "warm" and zygote is None:
        pytest.skip("GLOVEBOX_KERNEL_COLD is set")
    return lambda **options: boot(**({"zygote": None} if request.param == "cold" else {}), **options)


def test_ready_says_what_is_here(either):
    ready = either().ready
    assert ready["protocol"] == 1 and ready["implementation"] == "ipython"
    assert re.fullmatch(r"3\.\d+\.\d+", ready["python"]) and re.match(r"\d+\.\d+", ready["ipython"])
    assert ready["language_info"]["name"] == "python" and ready["language_info"]["file_extension"] == ".py"
    assert ready["banner"].startswith("Python ")


def test_nothing_is_said_before_config(either):
    """But that it waits."""
    kernel = either(configure=False)
    kernel.until(lambda: kernel.waiting)
    kernel.channel.settimeout(0.5)
    with pytest.raises(TimeoutError):
        kernel.channel.recv(1, 0)
    kernel.channel.settimeout(None)
    kernel.configure(kernel.home)
    assert kernel.run("1").value == "1"


def test_config_is_environment_directory_and_arguments(either):
    kernel = either(env={"FOO": "bär", "ONLY": "this"}, argv=["prog", "-x", "ü"])
    assert json.loads(kernel.run("import os, json; print(json.dumps(dict(os.environ)))").out) == kernel.env
    assert kernel.run("os.getcwd()").value == repr(str(kernel.home))
    assert kernel.run("import sys; sys.argv").value == "['prog', '-x', 'ü']"
    assert kernel.run("!echo $FOO; pwd").out == f"bär\n{kernel.home}\n"
    assert kernel.run("import time; time.tzname").value == "('UTC', 'UTC')"


def test_time_zone_is_of_the_environment(either):
    kernel = either(env={"TZ": "Asia/Tokyo"})
    assert kernel.run("import time; time.tzname").value == "('JST', 'JST')"


def test_time_begins_with_config(either):
    kernel = either(configure=False)
    kernel.until(lambda: kernel.waiting)
    before = time.time()
    kernel.configure(kernel.home)
    assert kernel.run(f"import logging\nlogging._startTime / (1e9 if isinstance(logging._startTime, int) else 1) >= {before}").value == "True"


def test_modules_of_the_directory_and_of_pythonpath(either, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "there.py").write_text("x = 2\n")
    kernel = either(env={"PYTHONPATH": str(tmp_path / "lib")})
    (kernel.home / "here.py").write_text("x = 1\n")
    assert kernel.run("import here, there; here.x, there.x").value == "(1, 2)"
    assert not (kernel.home / "__pycache__").exists()
    assert "fd" not in kernel.run("import sys; sys.path").value


def test_modules_that_are_lent(either):
    kernel = either()
    assert kernel.run("import sys; [n for n in sys.modules if n.startswith('ipybox')]").value == "[]"
    assert kernel.run("import ipybox.mcp.run as r; r.__file__, r.run_sync.__module__").value == "('glovebox/ipybox/mcp/run.py', 'ipybox.mcp.run')"
    assert kernel.run("import inspect; 'MCP' in inspect.getsource(r)").value == "True"
    assert kernel.run("try:\n    r.run_sync('x', {}, {})\nexcept ValueError as e:\n    print(e)").out.startswith("Neither a \"command\" nor a \"url\" key")


def test_a_package_of_ones_own_wins_over_what_is_lent(either):
    kernel = either()
    (kernel.home / "ipybox.py").write_text("x = 'mine'\n")
    assert kernel.run("import ipybox; ipybox.x").value == "'mine'"


def test_a_directory_that_is_not_there(either):
    kernel = either(configure=False)
    kernel.configure("/no/such/place")
    assert kernel.run("1").value == "1"


def test_no_trace_of_the_cells_that_warmed_it_up(either):
    kernel = either()
    first = kernel.run("(In, Out, _i, _ii, _oh, _, [n for n in globals() if n.startswith('_')])")
    assert first.reply["execution_count"] == 1
    inputs, outputs, i, ii, oh, under, names = eval(first.value)  # pylint: disable=eval-used
    assert inputs[0] == "" and len(inputs) == 2 and outputs == oh == {} and (i, ii) == ("", "")
    assert under == "" and "_1" not in names
    assert kernel.run("%who").out == "Interactive namespace is empty.\n"
    assert kernel.run("import sys; hasattr(sys, 'last_type'), 'warm' in globals(), len(Out)").value == "(False, False, 1)"
    assert kernel.ask("history", {"hist_access_type": "tail", "n": 10, "raw": True})["history"][0][1] == 1


def test_home_stays_empty(either):
    kernel = either()
    for code in ("1", "print?", "%cd /tmp", "x = 5\n%store x", "!true", "%history", "1/0", "%bookmark here"):
        kernel.run(code)
    kernel.ask("complete", {"code": "import os; os.pa", "cursor_pos": 16})
    assert os.listdir(kernel.home) == []


def test_descriptors_are_few_and_null_between_cells(either):
    kernel = either()
    fds = kernel.fds()
    assert [fds[n] for n in (0, 1, 2)] == ["/dev/null"] * 3
    # The channel, /dev/null and its two in reserve, the loop's three.
    assert len(fds) == 3 + 1 + 3 + 3, fds
    kernel.run("1")
    fds = kernel.fds()
    assert [fds[n] for n in (0, 1, 2)] == ["/dev/null"] * 3
    assert len(fds) == 3 + 1 + 3 + 3 + 2, fds
    assert not any("memfd" in name for name in fds.values())


def test_descriptors_of_the_user_begin_at_the_usual_place(either):
    kernel = either()
    assert int(kernel.run("f = open('/dev/null'); f.fileno()").value) < 10


def test_both_starts_look_alike(boot, zygote):
    if zygote is None:
        pytest.skip("GLOVEBOX_KERNEL_COLD is set")
    code = ("import sys, threading, signal\nprint(sys.path, sys.argv, sorted(globals()), sorted(sys.modules), sys.flags, "
            "threading.enumerate(), signal.getsignal(2).__name__, sys.getrecursionlimit(), sys.stdout, sys.meta_path)")
    cold, warm = boot(zygote=None), boot()
    ours = "importlib._bootstrap"

    def shown(kernel):
        out = kernel.run(code).out.replace(str(kernel.home), "HOME")
        return re.sub(r"0x[0-9a-f]+|\d{6,}", "N", out).replace(ours, "")

    extra = {"'glovebox_kernel.main', ", "'runpy', ", "'pkgutil', "}
    a, b = shown(cold), shown(warm)
    for name in extra:
        a, b = a.replace(name, ""), b.replace(name, "")
    assert a == b


def test_two_of_one_image_have_nothing_random_in_common(boot, zygote):
    if zygote is None:
        pytest.skip("GLOVEBOX_KERNEL_COLD is set")
    code = ("import random, uuid, tempfile, ssl, secrets, os, threading\n"
            "print([random.random(), uuid.uuid4(), uuid.uuid1(), tempfile.mktemp(), ssl.RAND_bytes(8), secrets.token_hex(),"
            " tempfile._get_candidate_names().rng.random()], sep='\\n')\n"
            "assert threading.get_native_id() == threading.main_thread().native_id == os.getpid()")
    kernels = boot(), boot()
    first, second = (kernel.run(code) for kernel in kernels)
    assert first.reply["status"] == second.reply["status"] == "ok", first.err
    assert all(a != b for a, b in zip(first.out.strip("[]\n").split(", "), second.out.strip("[]\n").split(", ")))


def test_numpy_of_one_image_is_seeded_anew(ipython, boot, tmp_path):
    parent = Zygote(tmp_path, imports=["random", "numpy", "numpy.random", "no_such_module"])
    try:
        kernels = [boot(zygote=parent) for _ in range(2)]
        code = "import sys\nassert 'numpy' in sys.modules\nimport numpy\nprint(numpy.random.rand(), numpy.random.default_rng().random())"
        first, second = (kernel.run(code) for kernel in kernels)
        if first.error:
            pytest.skip("no numpy here")
        assert all(a != b for a, b in zip(first.out.split(), second.out.split()))
        for kernel in kernels:
            kernel.close()
    finally:
        parent.close()


SEAM = """
import json, os, sys, threading
from glovebox_kernel import main
main.prepare(["json"])
import asyncio
fds = sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}"))
assert not asyncio.events._get_running_loop()
sys.__stderr__.flush()
os.write(2, json.dumps({"fds": fds, "threads": threading.active_count(), "tasks": len(os.listdir("/proc/self/task")),
                        "home": os.listdir(os.environ["HOME"])}).encode())
os._exit(0)
"""


def test_between_the_halves_there_is_one_thread_and_no_descriptor(ipython, tmp_path):
    done = subprocess.run([PYTHON, "-I", "-B", "-c", f"import sys; sys.path[:0] = {[str(SOURCE), *LIBS]!r}\n{SEAM}"],
                          capture_output=True, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}, check=True)
    assert json.loads(done.stderr) == {"fds": [0, 1, 2], "threads": 1, "tasks": 1, "home": []}


def test_the_kernel_ends_with_its_channel(cold):
    cold.run("import atexit, os; atexit.register(lambda: open('bye', 'w').close())")
    assert cold.close() == 0
    assert (cold.home / "bye").exists()


def test_a_second_run_waits_for_the_first(kernel):
    first = kernel.begin("import time; time.sleep(0.2); print('first')")
    second = kernel.begin("print('second')")
    kernel.finish(second)
    kinds = [(e.kind, e.cell) for e in kernel.events]
    assert kinds[-4:] == [("stdout", first), ("end", first), ("stdout", second), ("end", second)]


def test_messages_that_make_no_sense_get_an_end(kernel):
    for payload in (b"", b"{", b"[]", b"\xff", b'{"type": "nonsense", "content": {}}', b'{"type": "execute", "content": 1}',
                    b'{"type": 5}', b"[" * 100000):
        kernel.number += 1
        kernel.send(RUN, kernel.number, payload)
        assert kernel.finish(kernel.number).reply["status"] == "error"
    kernel.send(77, 5, {"what": "is this"})
    kernel.send(CONFIG, 0, {"env": {}})
    assert kernel.run("1").value == "1"


def test_a_request_that_is_too_large_gets_an_end(kernel):
    assert kernel.run("x = 1 # " + "x" * (17 << 20)).error[1] == "the request is too large"
    assert kernel.run("1").value == "1"
