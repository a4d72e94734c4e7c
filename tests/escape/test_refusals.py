# SPDX-License-Identifier: Apache-2.0
"""What the keeper hears of system calls that programs are refused, and that listening lets nothing through.

`run --json` and the server listen. The calls are those that policy/syscalls.tbl has as TOLD; test_syscalls.py shows the
same table where nobody listens.
"""
import errno
import json
import time

import pytest

from gate import BOX_HEARD, Keeper
from test_syscalls import CALLS, ORDINARY

TOLD = {name: call.nr for name, call in CALLS.items() if call.verdict == "TOLD" and call.nr >= 0}
TRY = """
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)


def call(*args):
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(a) for a in args))
    return ctypes.get_errno() if result == -1 else -result - 1000
"""
MOUNT = CALLS["mount"].nr
NEW_LISTENER = 8


@pytest.fixture
def tell(run):
    """tell(python): (what it printed as JSON, names of the calls that were heard)."""

    def go(code, *args):
        done = run("run", "--json", *args, "-", input=(TRY + code).encode())
        result = json.loads(done.stdout)
        assert result["exit_code"] == 0, (result["stderr"], done.stderr)
        return json.loads(result["stdout"] or "null"), result["refused_syscalls"]

    return go


def test_there_are_calls_to_tell():
    assert len(TOLD) > 50 and {"mount", "unshare", "setns", "ptrace", "bpf", "keyctl", "init_module", "kexec_load"} <= set(TOLD)


def test_every_told_call_is_refused_and_named(tell):
    got, heard = tell(f"print(json.dumps([[call(nr, *[a] * 6) for a in (0, -1)] for nr in {list(TOLD.values())}]))")
    assert got == [[errno.EPERM] * 2] * len(TOLD)
    assert heard == list(TOLD), "each once, in the order in which they were tried"


@pytest.mark.parametrize("name, args", [
    ("clone", (0x10000011, 0, 0, 0, 0)), ("clone", (0x20011, 0, 0, 0, 0)), ("socket", (2, 3, 1)), ("socket", (10, 3, 255)),
    ("socket", (16, 3, 12))])
def test_arguments_that_are_told(tell, name, args):
    got, heard = tell(f"print(json.dumps(call({CALLS[name].nr}, *{args})))")
    assert (got, heard) == (errno.EPERM, [name])


@pytest.mark.parametrize("args", [(), ("--root",)])
def test_ordinary_programs_are_not_heard_of(run, args):
    done = run("run", "--json", *args, "-", input=ORDINARY.encode())
    result = json.loads(done.stdout)
    assert (result["stdout"], result["refused_syscalls"]) == ("all is well\n", []), result["stderr"]


def test_threads_and_children_are_heard(tell):
    got, heard = tell(f"""
import threading
seen = []
t = threading.Thread(target=lambda: seen.append(call({CALLS["keyctl"].nr}, 0, 0, 0, 0, 0)))
t.start(), t.join()
pid = os.fork()
if pid == 0:
    os._exit(call({CALLS["ptrace"].nr}, 0, 0, 0, 0))
seen.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(json.dumps(seen))
""")
    assert (got, heard) == ([errno.EPERM] * 2, ["keyctl", "ptrace"])


# --- nothing gets through ------------------------------------------------------------------------------------

FILTER = f"""
import struct
RET = 0x06
def filter_of(action, nr={MOUNT}):
    # load the number; is it that call? action : allow
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, nr), (RET, 0, 0, action), (RET, 0, 0, 0x7fff0000)]
    buf = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *c) for c in code))
    prog = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(buf)))
    prog.keep = buf
    return prog


def install(action, flags=0):
    prog = filter_of(action)
    libc.prctl(38, 1, 0, 0, 0)
    return call(317, 1, flags, ctypes.addressof(prog))
USER_NOTIF, TRACE, LOG, ALLOW = 0x7fc00000, 0x7ff00000, 0x7ffc0000, 0x7fff0000
"""


@pytest.mark.parametrize("flags", [NEW_LISTENER, NEW_LISTENER | 1 | 16, NEW_LISTENER | 4, NEW_LISTENER | 1 << 32])
def test_no_second_listener(tell, flags):
    """A listener of the program's own could let calls through, once the keeper's is gone."""
    got, heard = tell(FILTER + f"print(json.dumps([install(USER_NOTIF, {flags}), call({MOUNT}, 0, 0, 0, 0, 0)]))")
    assert (got, heard) == ([errno.EBUSY, errno.EPERM], ["mount"])


@pytest.mark.parametrize("action", ["TRACE", "LOG", "ALLOW"])
def test_a_milder_filter_changes_nothing(tell, action):
    got, heard = tell(FILTER + f"print(json.dumps([install({action}), call({MOUNT}, 0, 0, 0, 0, 0)]))")
    assert (got, heard) == ([-1000, errno.EPERM], ["mount"])


def test_notify_without_a_listener_runs_nothing(tell):
    """Of two equal verdicts the younger filter's counts; it has no listener, and then the kernel says ENOSYS."""
    got, _ = tell(FILTER + f"print(json.dumps([install(USER_NOTIF), call({MOUNT}, 0, 0, 0, 0, 0)]))")
    assert got == [-1000, errno.ENOSYS]


# --- the keeper ----------------------------------------------------------------------------------------------

FLOOD = TRY + f"""
for _ in range(7):
    if os.fork() == 0:
        break
print("begun", flush=True)
while True:
    call({MOUNT}, 0, 0, 0, 0, 0)
"""
ALL = TRY + f"print([call(nr, 0, 0, 0, 0, 0) for nr in {list(TOLD.values())}].count(errno.EPERM))"


@pytest.fixture
def keeper(glovebox):
    k = Keeper(glovebox)
    yield k
    k.stop()


def python(box, code, job=1):
    box.run(job, "/usr/bin/python3", "-c", code)


def test_what_nobody_asks_for_is_not_told(keeper):
    box = keeper.new_box()
    python(box, ALL)
    assert box.until_exit(1)[0] == b"%d\n" % len(TOLD)
    assert (keeper.refusals(), keeper.refused) == ([], False)
    box.end()


def test_told_once_for_all_that_waits(keeper):
    box = keeper.new_box(flags=BOX_HEARD)
    python(box, ALL)
    assert box.until_exit(1)[0] == b"%d\n" % len(TOLD)
    kind, _, body, _ = keeper.receive()
    assert (kind, body) == (133, b"")
    assert keeper.refusals() == [(box.number, nr) for nr in TOLD.values()]
    assert keeper.refusals() == [], "what was told is forgotten"
    python(box, ALL, job=2)
    box.until_exit(2)
    assert keeper.refusals() == [], "once per box and call"
    box.end()
    assert keeper.events == [] and not keeper.refused


def test_a_gate_that_does_not_ask_keeps_the_boxes_waiting(keeper):
    """512 are kept. Further calls wait, and so do not get through; the keeper serves others meanwhile."""
    boxes = [keeper.new_box(flags=BOX_HEARD) for _ in range(512 // len(TOLD) + 1)]
    for box in boxes:
        python(box, ALL)
    idle = keeper.new_box()
    python(idle, "print(1)")
    assert idle.until_exit(1)[0] == b"1\n"
    heard = []
    while len(heard) < len(TOLD) * len(boxes):
        heard += keeper.refusals()
        time.sleep(0.01)
    assert sorted(heard) == sorted((b.number, nr) for b in boxes for nr in TOLD.values())
    for box in boxes:
        assert box.until_exit(1)[0] == b"%d\n" % len(TOLD)
        box.end()


def test_a_box_that_waits_for_an_answer_can_be_ended(keeper):
    boxes = [keeper.new_box(flags=BOX_HEARD) for _ in range(512 // len(TOLD) + 2)]
    for box in boxes:
        python(box, ALL)
    for box in boxes:
        box.end()


def test_a_flood_costs_its_box_and_nobody_else(keeper):
    hostile = [keeper.new_box(flags=BOX_HEARD) for _ in range(4)]
    for box in hostile:
        python(box, FLOOD)
        assert box.receive().name == "STARTED"
        assert box.receive().body.startswith(b"begun")
    for _ in range(20):
        box = keeper.new_box(flags=BOX_HEARD)
        python(box, TRY + f"print(call({MOUNT}, 0, 0, 0, 0, 0))")
        assert box.until_exit(1)[0] == b"1\n"
        box.end()
    for box in hostile:
        box.end()


def test_who_goes_on_and_on_has_to_wait(tell):
    """After 256 calls at least 10 ms pass between two answers, however fast the machine is."""
    waited, heard = tell(f"""
import time
for _ in range(256):
    call({MOUNT}, 0, 0, 0, 0, 0)
begun = time.monotonic()
for _ in range(52):
    call({MOUNT}, 0, 0, 0, 0, 0)
print(json.dumps(time.monotonic() - begun))
""")
    assert waited >= 0.5 and heard == ["mount"]


def test_asking_takes_no_arguments(keeper):
    keeper.send("REFUSALS", b"x")
    assert keeper.socket.recv(64) == b"", "a gate that breaks the protocol is dropped"
