# SPDX-License-Identifier: Apache-2.0
"""Forks: another box with the same variables and the same files, each on its own from then on."""
import concurrent.futures
import contextlib
import json
import os
import socket
import time

import pytest

from cells import LOST, NO_POOL, Session
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

server = shared(env=NO_POOL, **WARM)


class Fork(Session):
    """One that is there already."""

    def __init__(self, server, answer, headers=None):  # pylint: disable=super-init-not-called
        self.server, self.headers, self.answer, self.id = server, headers, answer, answer["id"]


@contextlib.contextmanager
def forks(box, **fields):
    """The copies, and what is lost."""
    status, answer = box.server.call("POST", f"{box.path}/fork", fields, box.headers)
    assert status == 201, (status, answer)
    made = [Fork(box.server, one, box.headers) for one in (answer["boxes"] if "count" in fields else [answer])]
    try:
        yield made, answer["lost"]
    finally:
        for one in made:
            one.delete()


@pytest.fixture
def box(server):
    one = Session(server)
    yield one
    one.delete()


def test_a_fork_has_variables_and_files_of_its_own(box):
    box.ok("""
def count():
    for i in range(10): yield i
half = count(); next(half)
data = {"a": [1, 2]}
open("here", "w").write("first")
f = open("here"); f.read(2)
""")
    with forks(box) as ([fork], lost):
        assert lost == []
        assert fork.value("next(half), data, f.read(), open('here').read()") == "(1, {'a': [1, 2]}, 'rst', 'first')"
        fork.ok("data['a'].append(3); open('here', 'w').write('of the fork')")
        assert box.value("next(half), data, open('here').read()") == "(1, {'a': [1, 2]}, 'first')"
        box.ok("open('here', 'w').write('of the box'); data = None")
        assert fork.value("data, open('here').read()") == "({'a': [1, 2, 3]}, 'of the fork')"


def test_many_at_once_and_forks_of_forks(box):
    box.ok("path = []")
    with forks(box, count=4) as (made, _):
        for i, one in enumerate(made):
            one.ok(f"path.append({i}); open('mine', 'w').write('{i}')")
        with forks(made[2]) as ([below], _):
            below.ok("path.append('below')")
            with forks(below) as ([third], _):
                assert third.value("path, open('mine').read()") == "([2, 'below'], '2')"
        assert [one.value("path") for one in made] == [f"[{i}]" for i in range(4)]
    assert box.value("path") == "[]"


def test_what_a_fork_is(server):
    with Session(server, name="first", env={"MINE": "1"}, limits={"memory_bytes": 700 << 20}, metadata={"a": "b"}, workdir="/app", idle_seconds=100) as box:
        box.ok("x = 1")
        with forks(box, name="second", ttl_seconds=50) as ([fork], _):
            got = fork.get()[1]
            assert (got["name"], got["ttl_seconds"], got["idle_seconds"], got["metadata"]) == ("second", 50, 100, {"a": "b"})
            assert (got["limits"]["memory_bytes"], got["workdir"], got["state"]) == (700 << 20, "/app", "ready")
            assert fork.value("import os; os.environ['MINE'], os.getcwd(), x") == "('1', '/app', 1)"
            assert fork.run("echo $MINE; pwd")["stdout"] == "1\n/app\n"
            assert box.get()[1]["name"] == "first"


def test_counters_and_history_go_on(box):
    box.ok("1")
    box.ok("2")
    with forks(box) as ([fork], _):
        assert fork.ok("In[1], Out[2]")["execution_count"] == 3
        assert box.ok("3")["execution_count"] == 3


def test_a_box_without_a_kernel_is_copied_too(box):
    box.run("echo text > file; mkdir -p ~/.config && echo conf > ~/.config/x; echo t > /tmp/t")
    with forks(box) as ([fork], lost):
        assert lost == [] and fork.run("cat file ~/.config/x /tmp/t")["stdout"] == "text\nconf\nt\n"
        assert fork.value("1 + 1") == "2"


def test_what_is_lost_is_named(box):
    box.ok("import subprocess, socket, threading\nchild = subprocess.Popen(['sleep', '1000']); s = socket.socket(); t = threading.Thread(target=child.wait, name='waiter'); t.start()")
    with forks(box) as ([fork], lost):
        text = "\n".join(lost)
        assert "sleep" in text and "a socket" in text and "waiter" in text
        assert fork.value("t.is_alive()") == "False"
    assert box.value("t.is_alive(), child.poll()") == "(True, None)"


def test_a_fork_whose_kernel_dies_has_a_new_one(box):
    box.ok("x = 1")
    with forks(box) as ([fork], _):
        assert fork.cell("import os; os._exit(3)")["status"] == "crashed"
        answer = fork.ok("'x' in globals()")
        assert answer["results"][0]["data"]["text/plain"] == "False" and answer["kernel_restarted"] == "exited"


@pytest.mark.parametrize("code, says", [
    ("import mmap; m = mmap.mmap(-1, 4096); m[0:1] = b'x'", "shared"),
], ids=["shared memory"])
def test_what_cannot_be_copied_is_refused(box, code, says):
    box.ok(code)
    status, answer = box.server.call("POST", f"{box.path}/fork", {})
    assert (status, answer["error"]["code"]) == (409, "not_copied") and says in answer["error"]["message"]
    assert box.value("m[0:1]") == "b'x'"


def test_a_box_at_work_is_not_copied(box):
    cell = box.begin("import time; time.sleep(1000)")
    status, answer = box.server.call("POST", f"{box.path}/fork", {})
    assert (status, answer["error"]["code"]) == (409, "busy")
    box.interrupt()
    assert box.done(cell)["status"] == "interrupted"
    with forks(box):
        pass


@pytest.mark.parametrize("fields, status, code, field", [
    ({"count": 0}, 422, "invalid_field", "count"), ({"count": 65}, 422, "invalid_field", "count"), ({"cuont": 1}, 422, "unknown_field", "cuont"),
    ({"name": "a", "count": 2}, 422, "invalid_field", "name"), ({"name": "A b"}, 422, "invalid_field", "name"), ({"ttl_seconds": 1 << 40}, 422, "invalid_field", "ttl_seconds"),
])
def test_bad_input(box, fields, status, code, field):
    got, answer = box.server.call("POST", f"{box.path}/fork", fields)
    assert (got, answer["error"]["code"], answer["error"]["field"]) == (status, code, field)
    assert box.value("1") == "1"


def test_a_name_that_is_taken(box):
    with Session(box.server, name="taken") as other:
        status, answer = box.server.call("POST", f"{box.path}/fork", {"name": "taken"})
        assert (status, answer["error"]["code"], answer["error"]["id"]) == (409, "name_taken", other.id)


def test_one_name_for_several_at_once(server):
    """It is looked at when a fork is asked for, and again when its box is made."""
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(Session(server)) for _ in range(6)]
        for box in sources:
            box.ok("x = 1")
        with concurrent.futures.ThreadPoolExecutor(6) as all_at_once:
            answers = list(all_at_once.map(lambda box: server.call("POST", f"{box.path}/fork", {"name": "same"}), sources))
        [made] = [answer for status, answer in answers if status == 201]
        assert [answer["error"]["code"] for status, answer in answers if status != 201] == ["name_taken"] * 5, answers
        server.call("DELETE", f"/v1/boxes/{made['id']}")
        until(lambda: set(boxes(server)) == {box.id for box in sources}, "those that were refused have left nothing")


def test_more_at_once_than_there_may_be(server):
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(Session(server)) for _ in range(9)]
        for box in sources[:8]:
            box.ok("import time\nfrom glovebox_kernel import twin\ntwin.freeze = lambda *_: time.sleep(1000)")
        sources[8].ok("x = 1")
        with concurrent.futures.ThreadPoolExecutor(8) as others:
            asked = [others.submit(server.call, "POST", f"{box.path}/fork", {}) for box in sources[:8]]
            until(lambda: all(box.get()[1]["state"] == "busy" for box in sources[:8]), "all eight are at it")
            status, answer = server.call("POST", f"{sources[8].path}/fork", {})
            assert (status, answer["error"]["code"]) == (429, "too_many")
            for box in sources[:8]:
                box.delete()
            assert not [one.result()[0] for one in asked if one.result()[0] == 201]
        with forks(sources[8]) as ([fork], _):
            assert fork.value("x") == "1"


# --- others of the box ---------------------------------------------------------------------------------------

# Writes one number to two files, the one after the other, as fast as it can.
PAIR = """
import os
n = 0
while True:
    n += 1
    for name in ("a", "z"):
        with open(name + ".new", "w") as f: f.write(str(n))
        os.rename(name + ".new", name)
"""


def test_files_are_of_one_moment(box):
    """A program that goes on writing stands still meanwhile, and goes on."""
    box.ok(f"open('pair.py', 'w').write({PAIR!r}); [open(f'm{{i}}', 'wb').write(os.urandom(200000)) for i in range(100)]" .replace("open('pair", "import os; open('pair", 1))
    command = box.call(shell="exec python3 pair.py", detach=True)[1]["id"]
    until(lambda: box.run("cat z")["status"] == "ok", "it writes")
    for _ in range(5):
        with forks(box) as ([fork], _):
            first, last = (int(fork.run(f"cat {name}")["stdout"]) for name in "az")
            assert first - last in (0, 1), (first, last)
        seen = int(box.run("cat a")["stdout"])
        until(lambda: int(box.run("cat a")["stdout"]) > seen, "it goes on")
    assert box.server.call("GET", f"{box.path}/commands/{command}")[1]["status"] == "running"


def test_nobody_stands_still_when_a_gate_died_over_it(serve):
    server = serve(env=NO_POOL, **WARM)
    with Session(server) as box:
        box.ok("x = 1")
        box.run("head -c 60000000 /dev/urandom > big")
        box.call(shell="while :; do date +%N > t; sleep 0.01; done", detach=True)
        for n in range(4):
            with concurrent.futures.ThreadPoolExecutor(1) as other:
                asked = other.submit(lost, server, "POST", f"{box.path}/fork", {})
                time.sleep(0.04 * n + 0.02)
                server.kill_gate()
                answer = asked.result()
            until(lambda: server.call("GET", "/ready")[0] == 200, "the next gate serves")
            if answer is not None and answer[0] == 201:
                server.call("DELETE", f"/v1/boxes/{answer[1]['id']}")
            seen = box.run("cat t")["stdout"]
            until(lambda: box.run("cat t")["stdout"] != seen, "it goes on")
        assert box.value("x") == "1"


# --- what is left --------------------------------------------------------------------------------------------


def images(server):
    """How many the keeper has."""
    folder, found = f"/proc/{server.pid_of('keeper')}/fd", 0
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found += "memfd:image" in os.readlink(f"{folder}/{fd}")
    return found


def boxes(server):
    return [one["id"] for one in server.call("GET", "/v1/boxes")[1]["boxes"]]


def nothing_is_left(box, before):
    until(lambda: boxes(box.server) == [box.id] and images(box.server) == before, "only the box is there, and the images that were there before")


def test_who_leaves_gets_nothing_and_leaves_nothing(box):
    box.ok("x = 1")
    before = images(box.server)
    for n in range(12):
        with contextlib.closing(box.server.connection()) as connection:
            connection.request("POST", f"{box.path}/fork", json.dumps({"count": 2}), {"Content-Type": "application/json"})
            time.sleep(0.008 * n)
            connection.sock.shutdown(socket.SHUT_WR)
            with contextlib.suppress(*LOST):
                # It was sooner: then they are somebody's.
                for one in json.loads(connection.getresponse().read())["boxes"]:
                    box.server.call("DELETE", f"/v1/boxes/{one['id']}")
        until(lambda: box.server.call("POST", f"{box.path}/fork", {"count": 0})[0] == 422 and box.get()[1]["state"] == "ready", "it is itself again")
        nothing_is_left(box, before)
    assert box.value("x") == "1"


def test_a_box_that_ends_while_it_is_copied(server):
    before = images(server)
    for n in range(8):
        box = Session(server)
        box.ok("x = 1")
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            asked = other.submit(server.call, "POST", f"{box.path}/fork", {})
            time.sleep(0.008 * n)
            assert box.delete()[0] == 204
            status, answer = asked.result()
        if status == 201:
            server.call("DELETE", f"/v1/boxes/{answer['id']}")
        else:
            assert status in (404, 409, 410, 500, 503), (status, answer)
        until(lambda: boxes(server) == [] and images(server) == before, "nothing of it is left")


def test_gates_that_die_over_it(serve):
    server = serve(env=NO_POOL, **WARM)
    with Session(server) as box:
        box.ok("x = 1")
        before = images(server)
        for n in range(6):
            with concurrent.futures.ThreadPoolExecutor(1) as other:
                asked = other.submit(lost, server, "POST", f"{box.path}/fork", {})
                time.sleep(0.01 * n)
                server.kill_gate()
                answer = asked.result()
            until(lambda: server.call("GET", "/ready")[0] == 200, "the next gate serves")
            if answer is not None and answer[0] == 201:
                server.call("DELETE", f"/v1/boxes/{answer[1]['id']}")
            nothing_is_left(box, before)
        assert box.value("x") == "1"
        with forks(box) as ([fork], _):
            assert fork.value("x") == "1"


def lost(server, *request):
    """Its answer, or None: the gate died over it."""
    try:
        return server.call(*request)
    except LOST:
        return None


def test_images_that_are_not_wanted_any_more_go(box):
    """Those of copies at once; a copy that lives keeps what it came from, and no more."""
    box.ok("x = bytearray(1 << 20)")
    before = images(box.server)
    for _ in range(3):
        with forks(box, count=2) as (made, _):
            until(lambda: images(box.server) == before, "the image of the copies is gone")
            with forks(made[0]) as ([below], _):
                made[0].delete()
                assert below.value("len(x)") == "1048576"
                until(lambda: images(box.server) == before, "nothing more is kept")


# --- hostile kernels -----------------------------------------------------------------------------------------

LIES = {
    "nothing written": "twin.freeze = lambda *_: {'status': 'ok', 'lost': []}",
    "more than it has": "twin.freeze = lambda *_: {'status': 'ok', 'lost': [], 'bytes': 1 << 60}",
    "nonsense written": "def lie(kernel, image): os.pwrite(image, os.urandom(1 << 20), 0); return {'status': 'ok', 'lost': []}\ntwin.freeze = lie",
    "a head and nothing": "real = twin.freeze\ndef lie(kernel, image):\n    answer = real(kernel, image)\n    os.ftruncate(image, 1 << 20)\n    return answer\ntwin.freeze = lie",
    "wrong entries": "real = twin.freeze\ndef lie(kernel, image):\n    answer = real(kernel, image)\n    if answer: os.pwrite(image, b'\\x41' * 4000, 3000)\n    return answer\ntwin.freeze = lie",
    "no list": "twin.freeze = lambda *_: {'status': 'ok', 'lost': {'a': 1}}",
    "a mapping that is kept": "import mmap\ndef lie(kernel, image):\n    global m\n    m = mmap.mmap(image, 4096)\n    return {'status': 'ok', 'lost': []}\ntwin.freeze = lie",
    "an exception": "def lie(*_): raise RuntimeError('x' * 100000)\ntwin.freeze = lie",
    "no end": "import time\ntwin.freeze = lambda *_: time.sleep(1000)",
    "always too little": "class E(twin.NoRoom): pass\ndef lie(*_): raise twin.NoRoom('small', 1 << 50)\ntwin.freeze = lie",
    "death": "twin.freeze = lambda *_: os._exit(3)",
}


@pytest.mark.parametrize("lie", LIES)
def test_lies(box, lie):
    before = images(box.server)
    with Session(box.server) as hostile:
        hostile.ok(f"import os\nfrom glovebox_kernel import twin\n{LIES[lie]}")
        status, answer = box.server.call("POST", f"{hostile.path}/fork", {})
        assert status in (409, 500) and answer["error"]["code"] in ("not_copied", "box_lost"), (status, answer)
        assert len(answer["error"]["message"]) < 600
    nothing_is_left(box, before)
    box.ok("x = 1")
    with forks(box) as ([fork], _):
        assert fork.value("x") == "1"


def test_an_image_cannot_be_changed_any_more(box):
    """Who was copied may have kept the descriptor."""
    box.ok("import os\nfrom glovebox_kernel import twin\nreal = twin.freeze\ndef keep(kernel, image):\n    global kept\n    kept = os.dup(image)\n"
           "    return real(kernel, image)\ntwin.freeze = keep\nx = 1")
    with forks(box) as ([fork], _):
        for act in ("os.pwrite(kept, b'x', 0)", "os.ftruncate(kept, 0)", "os.pwrite(kept, b'x', 1 << 30)", "__import__('mmap').mmap(kept, 4096)",
                    "os.open(f'/proc/self/fd/{kept}', os.O_RDWR)", "os.fchmod(kept, 0o777)"):
            assert box.cell(act)["status"] == "error", act
        assert fork.value("x") == "1"


@pytest.mark.parametrize("count", [pytest.param(20, id="some"), pytest.param(1000, id="1000", marks=pytest.mark.slow)])
def test_nothing_is_left_of_many(box, count):
    """Neither in the one that is copied again and again nor in the server."""
    # But for pipes: those of the last cells stay open.
    look = ("import os\nkinds = [os.readlink(f'/proc/self/fd/{d}').split(':')[0] for d in os.listdir('/proc/self/fd') if os.path.lexists(f'/proc/self/fd/{d}')]\n"
            "sorted(kind for kind in kinds if kind != 'pipe'), len([p for p in os.listdir('/proc') if p.isdigit()])")
    box.ok("x = list(range(10000))")
    with forks(box):
        pass
    seen, before, keeper = box.value(look), images(box.server), len(os.listdir(f"/proc/{box.server.pid_of('keeper')}/fd"))
    for n in range(count):
        with forks(box) as ([fork], _):
            assert n % 50 or fork.value("len(x)") == "10000"
    assert box.value(look) == seen
    until(lambda: images(box.server) == before and len(os.listdir(f"/proc/{box.server.pid_of('keeper')}/fd")) <= keeper, "no descriptor is left in the keeper")


# --- memory --------------------------------------------------------------------------------------------------


def test_a_box_near_its_limit_can_be_copied(server):
    """What the image needs is not charged to it; a copy has room of its own."""
    with Session(server, limits={"memory_bytes": 256 << 20, "workspace_bytes": 1 << 20, "scratch_bytes": 1 << 20, "shm_bytes": 1 << 20}) as box:
        box.ok("x = bytearray(b'x') * (150 << 20)")
        with forks(box, count=2) as (made, _):
            for one in made:
                assert one.value("len(x), x[-1]") == f"({150 << 20}, {ord('x')})"
                assert one.cell("y = bytearray(b'y') * (300 << 20)")["status"] == "oom"
        assert box.value("len(x)") == str(150 << 20)
