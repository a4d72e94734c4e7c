# SPDX-License-Identifier: Apache-2.0
"""What a process in a box is and sees when the box was made by the server: by the same document as for `glovebox run`.

posture.json has the ways "execute", "execute with input", "session" and "session child", with what differs by design: the
dialect's limits and PYTHONIOENCODING. Everything else is the same.
"""
import json

import pytest

import test_posture as posture
from prepared import Prepared
from server import both_ways, needs_root, serve  # noqa: F401

pytestmark = [pytest.mark.posture, needs_root]

MIB = 1 << 20
CANARY = "canary-of-the-servers-environment"

server = both_ways(env={"SECRET_OF_THE_SERVER": CANARY})


def returned(server, files):
    """The report among the files that came back, which must be the only one."""
    assert [f["path"] for f in files] == ["report.json"], files
    return json.loads(server.download(files[0]["file_id"]))


def by_execute(server, **fields):
    answer = server.execute(posture.program(), timeout_ms=60000, **fields)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (0, "", ""), answer
    return returned(server, answer["files"])


class Session:
    """A session that is deleted at the end."""

    def __init__(self, server):
        self.server = server
        status, answer = server.call("POST", "/v1/sessions", {"files": [{"path": "r.py", "content": posture.program()}]})
        assert status == 201, answer
        self.path = f"/v1/sessions/{answer['session_id']}"

    def bash(self, cmd):
        status, answer = self.server.call("POST", f"{self.path}/bash", {"cmd": cmd})
        assert status == 200, answer
        return answer

    def report(self, cmd):
        answer = self.bash(cmd)
        assert answer["exit_code"] == 0, answer
        return json.loads(self.bash("cat report.json; rm report.json")["stdout"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.server.request("DELETE", self.path)[0] == 204


# --- every way -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False], ids=["interactive", "plain"])
def test_execute(server, flag):
    posture.compare(by_execute(server, last_line_interactive=flag), "execute")


def test_execute_with_input(server):
    posture.compare(by_execute(server, stdin="some"), "execute with input")


def test_stream(server):
    events = list(server.sse("/v1/execute/stream", {"code": posture.program(), "timeout_ms": 60000}))
    assert [name for name, _ in events] == ["result"] and events[0][1]["exit_code"] == 0
    posture.compare(returned(server, events[0][1]["files"]), "execute")


def test_resumable_stream(server):
    """With an Idempotency-Key the box must be able to outlive its gate; the program notices nothing."""
    with server.stream({"code": posture.program(), "timeout_ms": 60000}, {"Idempotency-Key": "posture-of-a-keyed-run"}) as stream:
        events = list(stream)
    assert [e.name for e in events] == ["result"] and events[0].data["exit_code"] == 0
    posture.compare(returned(server, events[0].data["files"]), "execute")


def test_session_bash(server):
    with Session(server) as session:
        posture.compare(session.report("exec python3 r.py"), "session")
        posture.compare(session.report("python3 r.py; exit $?"), "session child")


def test_session_after_the_gate_was_killed(serve):
    """The next gate starts commands in a box that it did not make."""
    server = serve()
    with Session(server) as session:
        server.next_gate(server.kill_gate())
        posture.compare(session.report("exec python3 r.py"), "session")


def test_session_after_a_timeout_and_a_crash(server):
    """What is started later is as closed as what was started first."""
    with Session(server) as session:
        status, answer = server.call("POST", f"{session.path}/bash", {"cmd": "while :; do :; done", "timeout_ms": 200})
        assert status == 200 and answer["timed_out"]
        assert session.bash("kill -SEGV $$")["exit_code"] == 139
        posture.compare(session.report("exec python3 r.py"), "session")


def test_beside_others(server):
    """A session's background process and another box are there: the other box sees neither."""
    with Session(server) as session:
        session.bash("setsid sleep 1000 > /dev/null 2>&1 &")
        posture.compare(by_execute(server), "execute")


class Box:
    """One with cells, and its forks."""

    def __init__(self, server, answer=None):
        self.server = server
        self.path = f"/v1/boxes/{(answer or server.call('POST', '/v1/boxes', {})[1])['id']}"

    def cell(self, code):
        status, answer = self.server.call("POST", f"{self.path}/cells", {"code": code})
        assert (status, answer["status"]) == (200, "ok"), answer
        return answer["stdout"]

    def report(self):
        self.cell(f"import runpy\nopen('/tmp/r.py', 'w').write({posture.program()!r})\nrunpy.run_path('/tmp/r.py', run_name='__main__')")
        return json.loads(self.cell("print(open('report.json').read())"))

    def fork(self):
        status, answer = self.server.call("POST", f"{self.path}/fork", {})
        assert status == 201, answer
        return Box(self.server, answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.server.request("DELETE", self.path)[0] == 204


def test_a_fork_is_as_closed_as_any_kernel(server):
    """Its process went on in the middle of a call, in a box that it was not born in."""
    if server.start_way == "cold":
        pytest.skip("kernels that were started cold are not forked")
    with Box(server) as box:
        box.cell("x = 1")
        with box.fork() as fork, Box(server) as other:
            other.cell("x = 1")
            ours, theirs = fork.report(), other.report()
    assert ours.pop("namespaces").keys() == theirs.pop("namespaces").keys()
    assert ours == theirs


# --- what the server has and the box does not ------------------------------------------------------------------


def test_the_servers_environment_is_not_there(server):
    """Neither in variables nor anywhere else that a program can read of itself and of process 1."""
    code = """
import os
for pid in ("self", "1"):
    for name in ("environ", "cmdline", "mountinfo", "cgroup", "maps"):
        try:
            print(open(f"/proc/{pid}/{name}", "rb").read())
        except OSError:
            pass
print(dict(os.environ))
"""
    said = server.execute(code)["stdout"]
    assert "PYTHONIOENCODING" in said
    for secret in (CANARY, "SECRET_OF_THE_SERVER", str(server.state_dir), str(server.folder), str(server.port)):
        assert secret not in said, secret


@pytest.mark.parametrize("prepare", posture.CALLERS.values(), ids=posture.CALLERS.keys())
def test_nothing_of_who_started_the_server_is_inherited(tmp_path, prepare):
    with Prepared(tmp_path, prepare, close_fds=False, env={"LD_BIND_NOW": "1", "SECRET": "x"}) as server:
        assert (server.state_dir / "files").stat().st_mode & 0o777 == 0o700
        posture.compare(by_execute(server), "execute")
        with Session(server) as session:
            posture.compare(session.report("exec python3 r.py"), "session")


# --- the dialect's limits ------------------------------------------------------------------------------------

FORKS = """
import os, time
count = 0
try:
    while count < 200:
        if os.fork() == 0:
            time.sleep(1000)
        count += 1
except OSError as e:
    print(count, e.errno)
"""
TAKE = "b = bytearray(b'x') * ({} << 20); print(len(b) >> 20)"


def test_sixty_four_processes(server):
    """The program is one of them; process 1 of the box is none."""
    answer = server.execute(FORKS, timeout_ms=60000, last_line_interactive=False)
    assert answer["stdout"] == "63 11\n", answer
    with Session(server) as session:
        session.bash("cat > f.py <<'E'" + FORKS + "E")
        assert session.bash("exec python3 f.py")["stdout"] == "63 11\n"


def test_memory(server):
    """256 MiB for processes, and room for full stores beside them (100 MiB workspace, 64 MiB each of scratch and shared memory,
    and their inodes): what programs take can never exceed the sum."""
    fits, too_much = TAKE.format(200), TAKE.format(600)
    assert server.execute(fits, timeout_ms=60000)["stdout"] == "200\n"
    answer = server.execute(too_much, timeout_ms=60000)
    assert (answer["stdout"], answer["exit_code"], answer["timed_out"]) == ("", 137, False)
    with Session(server) as session:
        session.bash(f"cat > fits.py <<'E'\n{fits}\nE\ncat > much.py <<'E'\n{too_much}\nE")
        assert session.bash("python3 fits.py")["stdout"] == "200\n"
        assert session.bash("python3 much.py")["exit_code"] == 137
        assert session.bash("python3 fits.py")["stdout"] == "200\n"


def test_memory_of_files_counts_too(server):
    """A workspace of 100 MiB and the stores beside it are memory of the box: all of them together do not exceed it."""
    answer = server.execute("""
import os
total = 0
for place in ("/workspace", "/tmp", "/dev/shm", "/var/tmp", "/home/box"):
    try:
        with open(place + "/fill", "wb", buffering=0) as f:
            for _ in range(300):
                total += f.write(bytes(1 << 20))
    except OSError:
        pass
    os.write(1, b"%d\\n" % (total >> 20))
    if place == "/workspace":
        os.remove("/workspace/fill")
        total = 0
""", timeout_ms=60000)
    steps = [int(n) for n in answer["stdout"].split()]
    assert 90 <= steps[0] <= 100 and steps[-1] <= 256, steps


@pytest.mark.more
def test_processor_seconds_of_one_process(serve):
    server = serve(env={"CPU_TIME_LIMIT_SEC": "1"})
    for flag in (True, False):
        answer = server.execute("while True: pass", timeout_ms=60000, last_line_interactive=flag)
        assert (answer["exit_code"], answer["timed_out"]) == (137, False), answer
    with Session(server) as session:
        answer = session.bash("python3 -c 'while True: pass'; echo $?")
        assert answer["stdout"].strip() in ("137", "152") and not answer["timed_out"], answer
        assert session.bash("echo here")["stdout"] == "here\n"


def test_other_limits_when_told_so(serve):
    server = serve(env={"CPU_TIME_LIMIT_SEC": "77", "MEMORY_LIMIT_MB": "128"}, ci_processes=20, ci_workspace="8M")
    report = by_execute(server)
    assert report["limits"]["Max cpu time"] == ["77", "78"]
    assert report["limits"]["Max processes"] == ["21", "21"]
    assert 8 * MIB <= int(report["limits"]["Max file size"][0]) < 9 * MIB
    assert server.execute(FORKS, timeout_ms=60000, last_line_interactive=False)["stdout"] == "19 11\n"
    assert server.execute(TAKE.format(400), timeout_ms=60000)["exit_code"] == 137
    for name in ("Max cpu time", "Max processes", "Max file size"):
        report["limits"][name] = posture.expected("execute")["limits"][name]
    posture.compare(report, "execute")
