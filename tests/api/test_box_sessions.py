# SPDX-License-Identifier: Apache-2.0
"""The own API: sessions, which are boxes with cells. They share nothing, survive each other, and survive the gate.

Written from the contract, not from the program.
"""
import concurrent.futures
import json
import os
import random
import re
import signal
import textwrap
import time

import pytest

from cells import NO_POOL, Session, check_events, checked, follow, kill, names, shown, text, value
from hostile_cells import DEAF, FORGED, HOSTILE, WRECKED
from server import WARM, both_ways, mark, needs_root, serve, stat_of, until  # noqa: F401
from test_boxes import refused

pytestmark = [needs_root, pytest.mark.more]

MIB = 1 << 20

server = both_ways(env=NO_POOL)


class Neighbour(Session):
    """A session that minds its own business: well as long as ask() returns."""

    def __init__(self, server):
        super().__init__(server)
        self.asked = 0
        self.ok("asked = 0")

    def ask(self):
        self.asked += 1
        r = self.ok("asked += 1\nprint('mine')\nasked ** 2")
        assert (value(r), r["stdout"], r["execution_count"]) == (str(self.asked ** 2), "mine\n", self.asked + 1), r
        assert not r["kernel_restarted"] and len(r["results"]) == 1


@pytest.fixture(scope="module")
def neighbour(server):
    with Neighbour(server) as box:
        yield box


# --- nothing is shared ---------------------------------------------------------------------------------------

PLACES = ("/workspace", "/tmp", "/dev/shm", "/home/box", "/var/tmp", "/run", "/dev")
# What one does, what the other then says, which is the same as if nobody had done anything.
APART = {
    "variables": ("x = 1; import builtins; builtins.mine = 1; In.append('mine')",
                  "import builtins\n'x' in globals(), hasattr(builtins, 'mine'), 'mine' in In", "(False, False, False)"),
    "modules": ("import json, sys, numpy; json.dumps = lambda *a, **k: 'patched'; sys.mine = numpy.mine = 1; sys.modules['mine'] = sys",
                "import json, sys, numpy\njson.dumps([1]), hasattr(sys, 'mine'), hasattr(numpy, 'mine'), 'mine' in sys.modules",
                "('[1]', False, False, False)"),
    "IPython": ("from IPython.core.magic import register_line_magic\n@register_line_magic\ndef mine(line): return 5\n"
                "get_ipython().user_ns_hidden['mine'] = 1; get_ipython().display_formatter.mine = 1",
                "'mine' in get_ipython().magics_manager.magics['line'], hasattr(get_ipython().display_formatter, 'mine')", "(False, False)"),
    "files": (f"for d in {PLACES}:\n    try: open(d + '/mine', 'w').close()\n    except OSError: pass",
              f"import os\n[d for d in {PLACES} if os.path.exists(d + '/mine')]", "[]"),
    "environment": ("import os, time\nos.environ['MINE'] = '1'; os.umask(0); os.chdir('/tmp')\nos.environ['TZ'] = 'Asia/Tokyo'; time.tzset()",
                    "import os, time\n'MINE' in os.environ, os.umask(0o22), os.getcwd(), 'JST' in time.tzname", "(False, 18, '/workspace', False)"),
    "processes": ("import subprocess\nchild = subprocess.Popen(['sleep', '1234567'])",
                  "import glob\n[p for p in glob.glob('/proc/[0-9]*/cmdline') if b'1234567' in open(p, 'rb').read()]", "[]"),
    "abstract sockets": ("import socket\ns = socket.socket(socket.AF_UNIX); s.bind('\\0mine'); s.listen()\n"
                         "c = socket.socket(socket.AF_UNIX); c.connect('\\0mine')",
                         "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect_ex('\\0mine') != 0, s.bind('\\0mine')", "(True, None)"),
    "sockets with a path": ("import socket\nkept = []\nfor d in ('/tmp', '/dev/shm', '/workspace'):\n"
                            "    s = socket.socket(socket.AF_UNIX); s.bind(d + '/sock'); s.listen(); kept.append(s)",
                            "import socket\n[socket.socket(socket.AF_UNIX).connect_ex(d + '/sock') for d in ('/tmp', '/dev/shm', '/workspace')]",
                            "[2, 2, 2]"),
    "ports": ("import socket\ns = socket.socket()\ntry: s.bind(('0.0.0.0', 4567)); s.listen()\nexcept OSError: pass",
              "import socket\nc = socket.socket(); c.settimeout(1)\nc.connect_ex(('127.0.0.1', 4567)) != 0", "True"),
    "shared memory": ("import _posixshmem, ctypes, os\nm = _posixshmem.shm_open('/segment', os.O_CREAT | os.O_RDWR, 0o666)\n"
                      "libc = ctypes.CDLL(None)\n"
                      "ids = [libc.shmget(77, 4096, 0o1666), libc.semget(77, 1, 0o1666), libc.msgget(77, 0o1666)]",
                      "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
                      "libc.shmget(77, 0, 0), libc.semget(77, 0, 0), libc.msgget(77, 0), os.path.exists('/dev/shm/segment')",
                      "(-1, -1, -1, False)"),
    "message queues": ("import ctypes\nlibc = ctypes.CDLL(None)\nq = libc.mq_open(b'/mine', 0o102, 0o666, None)",
                       "import ctypes\nctypes.CDLL(None).mq_open(b'/mine', 0, 0, None)", "-1"),
    "keyrings": ("import ctypes, platform\nadd, ctl = {'x86_64': (248, 250)}.get(platform.machine(), (217, 219))\nlibc = ctypes.CDLL(None)\n"
                 "made = [libc.syscall(add, b'user', b'mine', b'secret', 6, ring) for ring in (-2, -3, -4, -5)]",
                 "import ctypes, platform\nctl = {'x86_64': 250}.get(platform.machine(), 219)\nlibc = ctypes.CDLL(None)\n"
                 "[libc.syscall(ctl, 10, ring, b'user', b'mine', 0) for ring in (-2, -3, -4, -5)]", "[-1, -1, -1, -1]"),
}


def test_sessions_share_nothing(server):
    with Session(server) as one, Session(server) as other:
        for box in (one, other):
            box.ok("1")  # both have their kernels before anything happens
        for name, (act, look, wanted) in APART.items():
            one.ok(act)
            assert other.value(look) == wanted, name


RANDOM = """
import json, os, random, secrets, ssl, tempfile, uuid
import numpy
import multiprocessing
print(json.dumps([random.random(), random.Random().random(), random.SystemRandom().random(), numpy.random.rand(),
                  numpy.random.default_rng().random(), secrets.token_hex(), uuid.uuid1().hex, uuid.uuid4().hex, tempfile.mktemp(),
                  next(tempfile._get_candidate_names()), ssl.RAND_bytes(16).hex(), os.urandom(8).hex(),
                  multiprocessing.current_process().authkey.hex()]))
"""


def test_random_is_random_in_every_session(server):
    """And in every kernel of one, and after a restart."""
    rows = []
    with Session(server) as one, Session(server) as two, Session(server) as three:
        for box in (one, two, three):
            rows.append(json.loads(box.printed(RANDOM)))
        rows.append(json.loads(one.printed(RANDOM, kernel="b")))
        assert two.restart()[0] == 204
        rows.append(json.loads(two.printed(RANDOM)))
    for column in zip(*rows):
        assert len(set(column)) == len(rows), column


def test_a_box_is_never_used_again(server):
    """What a session leaves is gone with it, also for the next one, which may get its place."""
    for i in range(5):
        with Session(server) as box:
            assert box.value("import os\n'left' in globals(), os.path.exists('/tmp/left'), os.listdir('/workspace')") == "(False, False, [])", i
            box.ok("left = 1; open('/tmp/left', 'w').close(); open('left', 'w').close()")


# --- hostile sessions ----------------------------------------------------------------------------------------

SMALL = {"memory_bytes": 384 * MIB, "processes": 48, "cpus": 0.5, "workspace_bytes": 16 * MIB, "scratch_bytes": 16 * MIB,
         "shm_bytes": 16 * MIB}
ALL = {**HOSTILE, **DEAF}
# In the fast tier some of each kind, many at once; all of them one by one in the other.
GROUPS = {
    "takes": ["memory bomb", "fork bomb", "fork bomb that hides", "threads", "prints without end", "writes without end", "fills its disks",
              "uses up descriptors"],
    "breaks": ["exit", "kills everybody else", "another program", "closes everything", "closes everything by force", "clears builtins",
               "replaces stdout", "breaks IPython", "breaks what it runs in", "traces"],
    "talks": ["writes garbage", "forges messages", "talks nonsense", "begins and does not end", "a display of 17 MiB", "strange displays",
              "recursion in repr", "storm of finalisers", "prints after its end"],
    "deaf": list(DEAF),
}


def attack(server, name):
    """Runs it in a box of its own; then that box answers or says what happened, can be restarted, and ends."""
    code, statuses = ALL[name]
    with Session(server, limits=SMALL) as box:
        box.ok("kept = 1")
        r = box.done(box.start(code, timeout_ms=1000 if statuses is None or "timeout" in statuses else 30000))
        assert statuses is None or r["status"] in statuses, (name, r)
        if r["state_lost"]:
            assert r["status"] in ("timeout", "crashed", "oom", "interrupted"), (name, r)
        status, after = box.post("6 * 7", timeout_ms=3000)
        # A box whose resources are used up may be unable to start a kernel: that is an error with a name, or the status of the cell.
        assert status == 200 and checked(after) or status in (500, 503) and after["error"]["code"], (name, status, after)
        if status == 200 and r["state_lost"]:
            assert after["kernel_restarted"] or after["status"] != "ok", (name, after)
        assert box.restart() == (204, None), name
        status, again = box.post("print(6 * 7)", timeout_ms=20000)
        if name in WRECKED:
            assert status in (200, 500, 503), (name, status, again)
        else:
            assert (status, again.get("status"), again.get("stdout")) == (200, "ok", "42\n"), (name, status, again)
        assert box.delete()[0] == 204, name
        refused(box.get(), 410, "gone")


def attacks(server, neighbour, chosen):
    """All at once, while another session goes on to answer. Nothing is left of them."""
    neighbour.ask()
    before = server.tree()
    with concurrent.futures.ThreadPoolExecutor(len(chosen)) as pool:
        doing = [pool.submit(attack, server, name) for name in chosen]
        while not all(d.done() for d in doing):
            neighbour.ask()
            time.sleep(0.05)
        for d in doing:
            d.result()
    neighbour.ask()
    until(lambda: set(server.tree()) <= set(before), "all processes of the boxes are gone")


@pytest.mark.parametrize("group", GROUPS)
def test_hostile_sessions_harm_nobody_else(server, neighbour, group):
    attacks(server, neighbour, GROUPS[group])


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_hostile_session_harms_nobody_else(server, neighbour, name):
    attacks(server, neighbour, [name])


def test_forged_messages_reach_nobody(server):
    """Neither another session, nor another kernel of the same box, nor what its own kernel has answered. To cells that its kernel runs while
    the forger still does, they are the kernel's word: who is lied to lies to himself, until he restarts it."""
    with Session(server) as other, Session(server) as box:
        theirs = other.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')\n'true'")
        beside = box.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')\n'true'", kernel="b")
        before = box.ok("print('before')\n'true'")
        for _ in range(3):
            box.cell(FORGED, timeout_ms=20000)
        assert box.restart()[0] == 204
        after = box.ok("print('after')\n'true'")
        assert (after["stdout"], value(after), shown(after)) == ("after\n", "'true'", [])
        held = box.look(before["id"], 0)
        assert (held["status"], held["stdout"], value(held)) == ("ok", "before\n", "'true'") and held["execution_count"] == before["execution_count"]
        for session, cell in ((other, theirs), (box, beside)):
            session.out("touch go")
            r = session.done(cell)
            assert (r["status"], r["stdout"], value(r), shown(r), r["execution_count"]) == ("ok", "up\nend\n", "'true'", [], 1)


def test_large_and_many_displays(server):
    """Complete, or replaced by something that says what was left out."""
    with Session(server) as box:
        r = box.ok("display({'text/plain': 'x' * (15 << 20)}, raw=True)\n"
                   "display({'text/html': 'y' * (17 << 20), 'text/plain': 'short'}, raw=True)\nprint('after')")
        first, second = r["results"]
        assert first["data"]["text/plain"] == "x" * (15 * MIB) and r["stdout"] == "after\n"
        assert second["data"].get("text/html") == "y" * (17 * MIB) or re.search("left out|too large", json.dumps(second["data"]))
        r = box.ok("for i in range(2000): display(i)")
        assert shown(r) == [str(i) for i in range(2000)]
        assert box.value("6 * 7") == "42"


@pytest.mark.slow
def test_a_million_displays(server, neighbour):
    """Reading: all of them, or `truncated` says that there were more."""
    with Session(server) as box:
        cell = box.start("for i in range(1000000): display({'text/plain': str(i)}, raw=True)\ndone = 1", timeout_ms=None)
        while box.look(cell, 2000)["status"] == "running":
            neighbour.ask()
        r = box.done(cell)
        found = shown(r)
        assert r["status"] == "ok" and (found == [str(i) for i in range(1000000)] or any(r["truncated"].values())), (len(found), r["truncated"])
        assert box.value("done") == "1"


# --- a gate that dies ----------------------------------------------------------------------------------------


@pytest.fixture(params=[pytest.param("cold", marks=pytest.mark.slow), "warm"])
def mortal(request, serve):
    return serve(env=NO_POOL, **(WARM if request.param == "warm" else {}))


COUNTING = textwrap.dedent("""
    import sys, time
    for i in range({lines}):
        print('{name}', i)
        display(i)
        if i % 10 == 0: print('err', i, file=sys.stderr)
        time.sleep({pause})
    kept.append('{name}')
    len(kept)
    """)


def check_counted(found, name, lines):
    """Every line and display once and in order; no number twice, none missing, no gap."""
    check_events(found)
    assert "gap" not in names(found)
    assert text(found) == "".join(f"{name} {i}\n" for i in range(lines))
    assert text(found, "stderr") == "".join(f"err {i}\n" for i in range(0, lines, 10))
    assert [e.data["data"]["text/plain"] for e in found if e.name == "display"] == [str(i) for i in range(lines)]
    assert found[-1].data["status"] == "ok" and not found[-1].data["kernel_restarted"]


def under_kills(server, boxes, kernels, kills, lines, pause=0.03):
    """Cells in several kernels of several boxes, all followed by clients that come back; the gate is killed meanwhile."""
    sessions = [Session(server) for _ in range(boxes)]
    wanted = ["main", "b", "c", "d"][:kernels]
    for n, box in enumerate(sessions):
        for k in wanted:
            box.ok(f"kept = ['{n}{k}']", kernel=k)
    cells = [(box, k, f"{n}{k}", box.start(COUNTING.format(lines=lines, name=f"{n}{k}", pause=pause), kernel=k, timeout_ms=None))
             for n, box in enumerate(sessions) for k in wanted]
    with concurrent.futures.ThreadPoolExecutor(len(cells)) as pool:
        following = [pool.submit(follow, box, cell) for box, _, _, cell in cells]
        for _ in range(kills):
            time.sleep(random.uniform(0.05, 0.5))
            if any(one.done() for one in following):
                break  # the end of a cell that was heard is not told to the next gate
            kill(server)
        for (box, k, name, cell), one in zip(cells, following):
            check_counted(one.result(), name, lines)
            r = box.done(cell)
            # The answer has what is held: all of it where nothing was let go of, else it says that something is missing.
            everything = "".join(f"{name} {i}\n" for i in range(lines))
            assert r["stdout"] == everything or r["truncated"]["stdout"] and everything.endswith(r["stdout"])
            assert box.value("kept", kernel=k) == f"['{name}', '{name}']", "the session is the same"
    for box in sessions:
        assert box.delete()[0] == 204


def test_sessions_and_cells_survive_the_gate(mortal):
    under_kills(mortal, boxes=3, kernels=2, kills=4, lines=60)


@pytest.mark.slow
def test_many_survive_many_kills(mortal):
    under_kills(mortal, boxes=8, kernels=3, kills=40, lines=1500, pause=0.02)


def test_the_gate_dies_while_nothing_runs(mortal):
    with Session(mortal, env={"COLOUR": "blue"}) as box:
        box.ok("x = 1; open('f', 'w').write('kept')")
        box.ok("y = 2", kernel="b")
        for i in range(3):
            kill(mortal)
            r = box.ok(f"x += 1\nx, open('f').read(), __import__('os').environ['COLOUR']")
            assert value(r) == f"({i + 2}, 'kept', 'blue')" and r["execution_count"] == i + 2 and not r["kernel_restarted"]
            assert box.kernel("b")[0] == 200
        assert box.value("y", kernel="b") == "2"
        kill(mortal)
        assert box.restart() == (204, None) and box.kernel("b", "DELETE") == (204, None)
        assert box.value("'x' in globals()") == "False" and box.value("'y' in globals()", kernel="b") == "False"


def test_who_waits_is_told(mortal):
    """Reading: a cell that waited in the gate's queue is run by the next gate, or says that it was not; never nothing."""
    with Session(mortal) as box:
        box.ok("seen = []")
        first = box.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')")
        cells = [box.start(f"seen.append({i})\nprint('ran', {i})") for i in range(4)]
        beside = box.begin("import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('end')", kernel="b")
        for _ in range(2):
            kill(mortal)
        assert box.get()[1]["state"] == "busy"
        box.out("touch go")
        assert box.done(first)["stdout"] == box.done(beside)["stdout"] == "up\nend\n"
        ran = []
        for i, cell in enumerate(cells):
            r = box.done(cell)
            if r["status"] == "ok":
                assert r["stdout"] == f"ran {i}\n"
                ran.append(i)
            else:
                assert (r["status"], r["stdout"], r["state_lost"]) == ("cancelled", "", False) and r["error"], r
            assert names(box.events(cell))[-1] == "end"
        assert box.value("seen") == str(ran)
        until(lambda: box.get()[1]["state"] == "ready", "it is ready")


def test_a_question_survives(mortal):
    with Session(mortal) as box:
        cell = box.start("print('first')\na = input('one? ')\nb = input('two? ')\nprint(a, b)", stdin=True)
        box.asked(cell)
        kill(mortal)
        assert [e.data["prompt"] for e in box.asked(cell)] == ["one? "]
        assert box.tell(cell, "eins")[0] == 204
        assert [e.data["prompt"] for e in box.asked(cell, 2)] == ["one? ", "two? "]
        kill(mortal)
        kill(mortal)
        assert box.tell(cell, "zwei")[0] == 204
        r = box.done(cell)
        assert (r["status"], r["stdout"]) == ("ok", "first\neins zwei\n")


def test_an_answer_may_be_sooner_than_the_question(mortal):
    """Who was asked by a gate answers the next one, which has not heard of the question yet: the box is slow to repeat it."""
    with Session(mortal) as box:
        cell = box.start("a = input('one? ')\nprint(a)", stdin=True)
        box.asked(cell)
        init = [pid for pid in mortal.tree() if stat_of(pid)[3] == "init"]
        for pid in init:
            os.kill(pid, signal.SIGSTOP)
        try:
            kill(mortal)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                telling = pool.submit(box.tell, cell, "eins")
                time.sleep(0.3)
                for pid in init:
                    os.kill(pid, signal.SIGCONT)
                assert telling.result()[0] == 204
        finally:
            for pid in init:
                os.kill(pid, signal.SIGCONT)
        assert box.done(cell)["stdout"] == "eins\n"


def test_nobody_asked_whom_a_new_gate_answers(mortal):
    with Session(mortal) as box:
        cell = box.start("import time\nprint('here')\nwhile True: time.sleep(0.01)", stdin=True, timeout_ms=None)
        box.wait_for(cell, "here\n")
        kill(mortal)
        status, answer = box.tell(cell, "eins")
        assert (status, answer["error"]["code"]) == (409, "no_input")


@pytest.mark.slow
def test_displays_of_megabytes_survive(mortal):
    """Followed from the beginning, by a client that is cut off in the middle of them."""
    code = ("import time\nfor i in range(8):\n    display({'text/plain': chr(97 + i) * 3000000}, raw=True)\n    print(i)\n    time.sleep(0.2)\n"
            "print('end')")
    with Session(mortal) as box:
        cell = box.start(code)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            following = pool.submit(follow, box, cell)
            box.wait_for(cell, "0\n")  # one that waits for its kernel would be cancelled
            for _ in range(3):
                time.sleep(random.uniform(0.1, 0.6))
                kill(mortal)
            found = following.result()
        check_events(found)
        assert "gap" not in names(found) and text(found) == "".join(f"{i}\n" for i in range(8)) + "end\n"
        shown_ones = [e.data["data"]["text/plain"] for e in found if e.name == "display"]
        assert [(t[0], len(t)) for t in shown_ones] == [(chr(97 + i), 3000000) for i in range(8)]
        assert box.value("6 * 7") == "42"


def test_what_nobody_has_heard_of_survives(mortal):
    """Cells that ended while nobody looked, one of them with its kernel."""
    with Session(mortal) as box:
        box.ok("1")
        cells = [box.start(f"print({i})\ndisplay('d{i}')\n{i} * 2") for i in range(3)]
        until(lambda: box.get()[1]["state"] == "ready", "all have ended")
        kill(mortal)
        dying = box.start("import os, time\nprint('last words')\nwhile not os.path.exists('go'): time.sleep(0.01)\nos._exit(3)")
        box.wait_for(dying, "last words")
        box.run("(sleep 0.5; touch go) > /dev/null 2>&1 &")
        kill(mortal)
        for i, cell in enumerate(cells):
            r = box.done(cell)
            assert (r["status"], r["stdout"], shown(r), value(r)) == ("ok", f"{i}\n", [f"'d{i}'"], str(i * 2))
        r = box.done(dying)
        assert (r["status"], r["stdout"], r["state_lost"]) == ("crashed", "last words\n", True)
        assert box.ok("1")["kernel_restarted"]


def test_time_and_interrupts_go_on_over_gates(mortal):
    with Session(mortal) as box:
        box.ok("kept = 1")
        cell = box.begin("import time; time.sleep(1000)", timeout_ms=2000)
        beside = box.begin("import time; time.sleep(1000)", kernel="b", timeout_ms=None)
        kill(mortal)
        assert box.look(beside, 0)["status"] == "running"
        assert box.interrupt(kernel="b") == (204, None)
        r = box.done(beside)
        assert (r["status"], r["stdout"], r["state_lost"]) == ("interrupted", "up\n", False)
        r = box.done(cell)
        assert (r["status"], r["stdout"], r["state_lost"]) == ("timeout", "up\n", False)
        assert box.value("kept") == "1"


@pytest.mark.slow
def test_a_box_that_is_busy_is_ended_after_a_kill(mortal):
    word = mark()
    box = Session(mortal)
    box.begin(f"import subprocess, time\nchild = subprocess.Popen(['bash', '-c', 'sleep 1000; : {word}'])\ntime.sleep(1000)", timeout_ms=None)
    until(lambda: mortal.running(word), "its child runs")
    kill(mortal)
    assert mortal.running(word)
    assert box.delete()[0] == 204
    assert not mortal.running(word), "when it is answered nothing is left"


# --- a thousand of them --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("pool_size", [0, 16])
def test_a_thousand_sessions(serve, pool_size):
    """All at once; each remembers its own. Ended, they leave nothing."""
    server = serve(env={"GLOVEBOX_SESSION_POOL_SIZE": str(pool_size)}, max_boxes=1100, **WARM)
    before = server.tree()

    def make(n):
        box = Session(server, limits={"memory_bytes": 256 * MIB, "processes": 32}, idle_seconds=0)
        assert box.value(f"mine = {n}\nmine * 3") == str(n * 3)
        return box

    def ask(box, n):
        r = box.ok("print('mine is', mine)\nmine ** 2")
        assert (r["stdout"], value(r), r["execution_count"], r["kernel_restarted"] or None) == (f"mine is {n}\n", str(n ** 2), 2, None)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        boxes = list(pool.map(make, range(1000)))
        listed, after = [], ""
        while after is not None:
            page = server.call("GET", f"/v1/boxes?limit=500{after and '&after=' + after}")[1]
            listed += [b["id"] for b in page["boxes"]]
            after = page["next"]
        assert sorted(listed) == sorted(b.id for b in boxes)
        list(pool.map(ask, boxes, range(1000)))
        assert {b.delete()[0] for b in boxes} == {204}
    assert server.call("GET", "/v1/boxes")[1]["boxes"] == []
    if pool_size == 0:
        until(lambda: set(server.tree()) <= set(before), "all processes of the boxes are gone")
