# SPDX-License-Identifier: Apache-2.0
"""The verbs about boxes of a server: ps, exec, cp, kill, logs, fork. As people and scripts call them, with real boxes."""
import io
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import tarfile

import pytest

from between import LOST, Between, refusal
from cells import NO_POOL, Session
from conftest import stat_of
from server import WARM, mark, needs_root, serve, shared, until  # noqa: F401
from terminal import SANE, Terminal, glovebox
from test_shell import PNG, is_full, url

pytestmark = needs_root

server = shared(env=NO_POOL)


@pytest.fixture
def box(server):
    with Session(server) as one:
        yield one


@pytest.fixture
def call(run, server):
    """call("exec", BOX, "ls"): a verb, told where the server is."""
    return lambda verb, *words, **kw: run(verb, "--url", url(server), *words, **kw)


def lines(done):
    """What it said, as JSON, line by line."""
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


# What a server answers that cannot now, and may a moment later.
NOT_NOW = [refusal(503), refusal(502), refusal(429, "input_full")]


def first_answers(end, answers):
    """A rule: the first requests whose paths end so are answered like this."""
    left = list(answers)
    return lambda _, path, __: left.pop(0) if left and path.endswith(end) else None


# --- all of them ---------------------------------------------------------------------------------------------

VERBS = {"ps": [], "exec": ["name:x", "true"], "cp": ["name:x:a", "b"], "kill": ["name:x"], "logs": ["name:x"], "fork": ["name:x"]}


@pytest.mark.parametrize("verb", VERBS)
def test_help_and_nobody(run, verb, tmp_path):
    done = run(verb, "--help")
    assert done.returncode == 0 and done.stdout.startswith(f"usage: glovebox {verb}".encode()) and b"--json" in done.stdout
    done = run(verb, *VERBS[verb], env={**os.environ, "GLOVEBOX_LISTEN": f"unix:{tmp_path}/nobody"}, cwd=tmp_path)
    assert done.returncode == 125 and b"no glovebox answers" in done.stderr and b"glovebox serve" in done.stderr, done
    done = run(verb, "--nonsense")
    assert done.returncode == 125 and b"unknown option" in done.stderr


@pytest.mark.parametrize("verb", ["exec", "cp", "kill", "logs", "fork"])
def test_boxes_that_are_none(call, verb, tmp_path):
    for name in ("a" * 26, "name:nobody"):
        words = [word.replace("name:x", name) for word in VERBS[verb]]
        done = call(verb, *words, cwd=tmp_path)
        assert done.returncode == (1 if verb == "kill" else 125) and b"there is no box" in done.stderr, done
    words = [word.replace("name:x", "UPPER") for word in VERBS[verb]]
    assert call(verb, *words, cwd=tmp_path).returncode == 125


# --- fork ----------------------------------------------------------------------------------------------------


def test_fork(serve, run):
    server = serve(env=NO_POOL, **WARM)

    def fork(*words):
        return run("fork", "--url", url(server), *words)

    with Session(server, name="first") as box:
        box.ok("import threading\nx = 1\nthreading.Thread(target=threading.Event().wait, name='waits', daemon=True).start()")
        done = fork("--name", "second", "name:first")
        assert (done.returncode, done.stderr) == (0, b"glovebox: not in the copy: thread waits\n"), done
        assert run("exec", "--url", url(server), done.stdout.decode().strip(), "-c", "x").stdout == b"1\n"
        done = fork("-n", "2", box.id)
        made = done.stdout.decode().split()
        assert len(set(made)) == 2
        answer = lines(fork("--json", "-n", "1", box.id))[0]
        assert answer["lost"] == ["thread waits"] and answer["boxes"][0]["state"] == "ready"
        assert run("kill", "--url", url(server), "name:second", *made, answer["boxes"][0]["id"]).returncode == 0
        for words, says in ((["-n", "0", box.id], b"from 1 to 64"), (["-n", "65", box.id], b"from 1 to 64"), ([], b"no box to fork"), ([box.id, box.id], b"one box"),
                            (["--name", "a", "-n", "2", box.id], b"one name"), (["--name", "first", box.id], b"has the name")):
            done = fork(*words)
            assert done.returncode == 125 and says in done.stderr and not done.stdout, done
        assert [one["id"] for one in server.call("GET", "/v1/boxes")[1]["boxes"]] == [box.id]


# --- ps ------------------------------------------------------------------------------------------------------


def test_ps(server, call, box):
    assert re.match(rb"ID +NAME +STATE +AGE +IDLE +MEMORY +RUNS\n", call("ps").stdout)
    with Session(server, name="second") as other:
        other.ok("1")
        command = other.server.call("POST", f"{other.path}/commands", {"shell": "sleep 1000 # waits", "detach": True})[1]["id"]
        text = call("ps").stdout.decode()
        rows = {row.split()[0]: row for row in text.splitlines()[1:]}
        assert set(rows) == {box.id, other.id}
        assert re.fullmatch(rf"{box.id} +ready +\d+s +\d+s +\S.*", rows[box.id]), text
        assert re.fullmatch(rf"{other.id}  second  busy +\d+s +- +\S+ \S+ +sleep 1000 # waits", rows[other.id]), text
        seen = {one["id"]: one for one in lines(call("ps", "--json"))}
        assert seen[box.id]["running"] == [] and seen[other.id]["name"] == "second"
        assert [(r["kind"], r["id"], r["status"]) for r in seen[other.id]["running"]] == [("command", command, "running")]
        assert seen[other.id]["figures"]["peak_memory_bytes"] > 0


def test_ps_in_pages(server, call):
    made = [server.call("POST", "/v1/boxes")[1]["id"] for _ in range(3)]
    assert [one["id"] for one in lines(call("ps", "--json"))] == made
    assert call("kill", *made).returncode == 0
    assert lines(call("ps", "--json")) == []


@pytest.mark.more
def test_ps_passes_over_only_what_is_gone(server, run, box):
    for answer, status in ((refusal(404, "not_found"), 0), (refusal(410, "gone"), 0), (refusal(503), 125)):
        for end in (box.id, f"{box.id}/cells"):
            with Between(server, first_answers(end, [answer])) as between:
                done = run("ps", "--url", between.url)
            assert done.returncode == status and box.id.encode() not in done.stdout and (b"not now" in done.stderr) == (status != 0), (end, done)


# --- exec ----------------------------------------------------------------------------------------------------


def test_exec_streams_and_status(call, box):
    done = call("exec", box.id, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    data = bytes(range(256)) * 5000
    done = call("exec", box.id, "cat", input=data)
    assert done.returncode == 0 and done.stdout == data
    assert call("exec", "-n", box.id, "cat", input=b"not this").stdout == b""
    assert call("exec", box.id, "head", "-c", "1", input=data).stdout == b"\0"
    done = call("exec", box.id, "--env", "A=b c", "--cwd", "/tmp", "--", "sh", "-c", "echo $A; pwd")
    assert done.stdout == b"b c\n/tmp\n"
    assert call("exec", box.id, "sh", "-c", "kill -9 $$").returncode == 137
    done = call("exec", "--timeout", "300ms", box.id, "sleep", "1000")
    assert done.returncode == 124 and b"out of time" in done.stderr
    done = call("exec", box.id, "/nonexistent")
    assert done.returncode == 125 and b"glovebox: " in done.stderr
    assert call("exec", box.id).returncode == 125
    assert call("exec").returncode == 125


def test_exec_more_than_the_box_keeps(server, call):
    with Session(server, limits={"output_bytes": 1000}) as small:
        done = call("exec", small.id, "sh", "-c", "head -c 5000 /dev/zero; exit 4")
        assert done.returncode == 4 and done.stdout == b"\0" * 1000 and b"more than the box keeps" in done.stderr


def test_exec_input_faster_than_it_is_read(call, box):
    """Megabytes for a program that begins to read late: it gets all of them."""
    data = os.urandom(5 << 20)
    done = call("exec", box.id, "sh", "-c", "sleep 1; sha256sum", input=data)
    assert done.returncode == 0
    assert done.stdout.split()[0].decode() == subprocess.run(["sha256sum"], input=data, capture_output=True, check=True).stdout.split()[0].decode()


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_exec_passes_signals_on(server, box, start, sig):
    program = f"trap 'echo got; exit 9' {sig.name[3:]}; echo up; while :; do sleep 0.05; done"
    process = start("exec", "--url", url(server), box.id, "bash", "-c", program)
    assert process.stdout.readline() == b"up\n"
    process.send_signal(sig)
    assert process.stdout.readline() == b"got\n" and process.wait(60) == 9


def test_exec_nobody_reads(server, box, start):
    word = mark()
    process = start("exec", "--url", url(server), box.id, "sh", "-c", f"while :; do echo {word}; done")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 128 + signal.SIGPIPE
    until(lambda: not server.running(word), "the command has ended")


def test_exec_goes_on_without_us(server, box, start):
    """A client that is killed leaves its command; another one sees what it says."""
    process = start("exec", "--url", url(server), box.id, "sh", "-c", "echo up; sleep 1000")
    process.stdout.readline()
    process.kill()
    process.wait()
    assert [c["status"] for c in server.call("GET", f"{box.path}/commands")[1]["commands"]] == ["running"]


def test_exec_json(call, box):
    answer = lines(call("exec", "--json", box.id, "sh", "-c", "cat; echo err >&2", input=b"in"))[0]
    assert (answer["status"], answer["exit_code"], answer["stdout"], answer["stderr"]) == ("ok", 0, "in", "err\n")
    done = call("exec", "--json", box.id, "false")
    assert done.returncode == 1 and json.loads(done.stdout)["exit_code"] == 1
    answer = lines(call("exec", "--json", box.id, "-c", "6 * 7"))[0]
    assert answer["results"][0]["data"]["text/plain"] == "42"


def test_exec_detached(server, call, box):
    done = call("exec", "--detach", box.id, "sh", "-c", "echo later")
    command = done.stdout.decode().strip()
    assert done.returncode == 0
    until(lambda: server.call("GET", f"{box.path}/commands/{command}")[1]["status"] == "ok", "it has run")


@pytest.mark.more
def test_exec_of_a_cell(call, box, tmp_path):
    assert call("exec", box.id, "-c", "x = 6").returncode == 0
    assert call("exec", box.id, "-c", "x * 7").stdout == b"42\n"
    assert call("exec", "--kernel", "other", box.id, "-c", "'x' in globals()").stdout == b"False\n"
    done = call("exec", box.id, "-c", "1 / 0")
    assert done.returncode == 1 and b"ZeroDivisionError: division" in done.stderr and b"\x1b" not in done.stderr
    done = call("exec", box.id, "-c", "print(input() + input())", input=b"one\ntwo\nthree\n")
    assert (done.returncode, done.stdout) == (0, b"onetwo\n")
    done = call("exec", box.id, "-c", "input(); input()", input=b"only one")
    assert done.returncode == 1 and b"EOFError" in done.stderr
    done = call("exec", "-n", box.id, "-c", "input()")
    assert done.returncode == 1 and b"StdinNotImplementedError" in done.stderr
    assert call("exec", "--timeout", "1", box.id, "-c", "while True: pass").returncode == 124
    show = f"from IPython.display import Image; Image(data={PNG!r})"
    assert b"[image/png]" in call("exec", box.id, "-c", show).stdout
    assert call("exec", "--images", tmp_path, box.id, "-c", show).returncode == 0
    broken = "from IPython.display import display; display({'image/png': '!'}, raw=True)"
    assert b"[image/png that cannot be read]" in call("exec", "--images", tmp_path, box.id, "-c", broken).stdout
    assert [f.read_bytes() for f in tmp_path.iterdir() if f.suffix == ".png"] == [PNG]
    assert call("exec", box.id, "-c", "1", "ls").returncode == 125


def test_exec_of_a_cell_is_interrupted(server, box, start):
    process = start("exec", "--url", url(server), box.id, "-c", "print('up', flush=True)\nwhile True: pass")
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1 and b"KeyboardInterrupt" in process.stderr.read()
    assert box.value("1") == "1"


@pytest.mark.more
def test_exec_over_a_gate_that_dies(serve, start):
    mortal = serve(env=NO_POOL)
    with Session(mortal) as box:
        process = start("exec", "--url", url(mortal), box.id, "bash", "-c", "for i in {1..60}; do echo $i; sleep 0.05; done; read x; echo $x; exit 5")
        for i in range(1, 6):
            assert process.stdout.readline() == b"%d\n" % i
        mortal.next_gate(mortal.kill_gate())
        for i in range(6, 61):
            assert process.stdout.readline() == b"%d\n" % i
        process.stdin.write(b"after it\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"after it\n" and process.wait(60) == 5


def test_exec_over_a_server_that_ends(serve, start):
    """It is waited for, and a signal ends the waiting."""
    mortal = serve(env=NO_POOL)
    box = Session(mortal)
    process = start("exec", "--url", url(mortal), box.id, "sh", "-c", "echo up; sleep 1000")
    assert process.stdout.readline() == b"up\n"
    mortal.kill()
    assert b"the connection is lost" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGINT


def test_exec_password_in_a_terminal(server, box, tmp_path):
    code = "import getpass; print(getpass.getpass('secret? ')[::-1])"
    with Terminal(tmp_path, glovebox("exec", "--url", url(server), box.id, "-c", code)) as t:
        t.see(r"^secret\?")
        t.line("hunter2")
        t.see("^2retnuh$")
        assert t.ended() == (0, SANE) and "hunter2" not in t.screen()


@pytest.mark.more
def test_exec_password_after_ctrl_z(server, box, tmp_path):
    """Whoever had the terminal meanwhile shows what is typed: that is over when we are back."""
    code = "import getpass; print(getpass.getpass('secret? ')[::-1])"
    with Terminal(tmp_path, "bash --norc -i", env={"PS1": "outside> "}) as t:
        t.see("outside>")
        t.line(shlex.join(map(str, glovebox("exec", "--url", url(server), box.id, "-c", code))))
        t.see(r"^secret\?")
        t.keys("C-z")
        t.see("outside>", 2)
        t.line("stty echo; fg")
        pid = t.pid("exec")
        until(lambda: not is_echoed(t.tty()) and stat_of(pid)[2] == "S", "it does not show what is typed")
        t.line("hunter2")
        t.see("^2retnuh$")
        t.see("outside>", 3)
        assert "hunter2" not in t.screen()
        t.line("exit")
        t.ended()


def is_echoed(tty):
    return " echo " in subprocess.run(["stty", "-F", tty, "-a"], capture_output=True, check=True, text=True).stdout


def test_exec_input_that_is_refused_for_a_while(server, run, box):
    data = os.urandom(400_000)
    with Between(server, first_answers("/stdin", NOT_NOW)) as between:
        done = run("exec", "--url", between.url, box.id, "cat", input=data)
        assert (done.returncode, done.stdout) == (0, data)
    with Between(server, first_answers("/input", NOT_NOW)) as between:
        done = run("exec", "--url", between.url, box.id, "-c", "print(input() + input())", input=b"one\ntwo\n")
        assert (done.returncode, done.stdout) == (0, b"onetwo\n"), done


@pytest.mark.parametrize("answer, says", [(LOST, b"may have been passed on in part"), (refusal(500, "internal"), b"not now")], ids=["lost", "refused"])
def test_exec_input_that_is_lost(server, run, box, answer, says):
    """Nothing is there twice, and nobody waits for the rest."""
    for words, end in ((["cat"], "/stdin"), (["-c", "print(input())"], "/input")):
        with Between(server, first_answers(end, [answer])) as between:
            done = run("exec", "--url", between.url, box.id, *words, input=b"one\n")
            assert done.returncode == 125 and says in done.stderr, done
            assert sum(path.endswith(end) for _, path, _ in between.seen) == 1


def test_exec_whose_end_is_not_held(server, run, box):
    with Between(server, first_answers("/events", [b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"])) as between:
        done = run("exec", "--url", between.url, box.id, "true")
    assert done.returncode == 125 and b"how it ended is not held" in done.stderr, done


def test_exec_detached_shows_only_an_id(server, run, box):
    body = rb'{"id": "\u001b]0;owned\u0007", "status": "running"}'
    said = b"HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    for more in ([], ["--json"]):
        with Between(server, first_answers("/commands", [said])) as between:
            done = run("exec", "-d", *more, "--url", between.url, box.id, "true")
        assert done.returncode == 125 and done.stdout == b"" and b"without an id" in done.stderr, done


@pytest.mark.more
def test_where_there_is_no_room_to_write(server, run, box):
    """Half of an output is none, and somebody is told."""
    command = box.server.call("POST", f"{box.path}/commands", {"shell": "echo out", "detach": True})[1]["id"]
    for words in (["exec", box.id, "echo", "x"], ["exec", "--json", box.id, "true"], ["exec", "-d", box.id, "true"], ["exec", "-d", "--json", box.id, "true"],
                  ["exec", box.id, "-c", "print('x')"], ["logs", box.id], ["logs", "--json", box.id], ["logs", "-f", box.id, command], ["ps"], ["ps", "--json"],
                  ["kill", "--json", box.id]):
        with open("/dev/full", "wb") as full:
            done = run(words[0], "--url", url(server), *words[1:], stdout=full)
        assert done.returncode == 125 and b"No space left" in done.stderr, (words, done)


def has_socket(pid):
    return any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.more
def test_exec_over_a_server_that_hangs(serve, start):
    mortal = serve(env=NO_POOL, hang_timeout="1h")
    with Session(mortal) as box:
        process = start("exec", "--url", url(mortal), box.id, "sh", "-c", "echo up; sleep 1000")
        assert process.stdout.readline() == b"up\n"
        gate = mortal.pid_of("gate")
        os.kill(gate, signal.SIGSTOP)
        try:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
            process = start("exec", "--url", url(mortal), box.id, "true")
            until(lambda: has_socket(process.pid), "it has begun")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            os.kill(gate, signal.SIGCONT)


# --- cp ------------------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    """A directory with one of everything."""
    top = tmp_path / "tree"
    (top / "sub/deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a.txt").write_text("hello\n")
    (top / "sub/run.sh").write_text("#!/bin/sh\necho ran\n")
    (top / "sub/run.sh").chmod(0o755)
    (top / "sub/deep/bytes").write_bytes(bytes(range(256)) * 100)
    (top / "sub/größe 漢 -x").write_text("name")
    (top / ("n" * 200)).write_text("long name")
    (top / "zero").write_bytes(b"")
    (top / "link").symlink_to("a.txt")
    (top / "sub/up").symlink_to("../a.txt")
    os.utime(top / "a.txt", (1600000000, 1600000000))
    return top


def listing(top):
    """{path: (kind, contents or target, mode)}."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path), None)
        elif path.is_dir():
            found[name] = ("directory", None, None)
        else:
            found[name] = ("file", path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


def test_cp_there_and_back(call, box, tree, tmp_path):
    assert call("cp", tree, f"{box.id}:").returncode == 0
    assert box.out("cat tree/a.txt; tree/sub/run.sh; stat -c %Y tree/a.txt; ls tree/empty; readlink tree/sub/up; stat -c %u tree/a.txt") == (
        "hello\nran\n1600000000\n../a.txt\n65532\n")
    assert call("cp", f"{box.id}:tree", tmp_path / "back").returncode == 0
    assert listing(tmp_path / "back") == listing(tree)
    assert (tmp_path / "back/a.txt").stat().st_mtime == 1600000000
    into = tmp_path / "into"
    into.mkdir()
    assert call("cp", f"{box.id}:tree/sub", into).returncode == 0
    inside = listing(tree / "sub")
    del inside["up"]  # which leads out of it
    assert listing(into / "sub") == inside
    assert call("cp", f"{box.id}:/workspace/tree/a.txt", "relative", cwd=into).returncode == 0
    assert (into / "relative").read_text() == "hello\n"


def test_cp_names(call, box, tree, tmp_path):
    file = tree / "a.txt"
    for to, there in (("x", "x"), ("/workspace/y", "y"), ("d/", "d/a.txt"), ("d/z", "d/z"), ("/tmp", "/tmp/a.txt"), (".", "a.txt")):
        box.out("mkdir -p d")
        assert call("cp", file, f"{box.id}:{to}").returncode == 0, to
        assert box.out(f"cat '{there}'") == "hello\n"
    done = call("cp", file, f"{box.id}:nothing/there/")
    assert done.returncode == 125 and b"no directory" in done.stderr
    for to in ("missing/x", "missing/"):
        done = call("cp", f"{box.id}:x", f"{tmp_path}/{to}")
        assert done.returncode == 125 and not (tmp_path / "missing").exists(), done
    done = call("cp", f"{box.id}:missing", tmp_path / "x")
    assert done.returncode == 125 and b"No such file" in done.stderr and not (tmp_path / "x").exists()
    done = call("cp", f"{box.id}:/root", tmp_path / "x")
    assert done.returncode == 125 and b"glovebox: " in done.stderr
    done = call("cp", tmp_path / "missing", f"{box.id}:x")
    assert done.returncode == 125 and b"missing" in done.stderr
    for words in ((file, tmp_path / "x"), (file,), ()):
        assert call("cp", *words).returncode == 125
    call("cp", f"{box.id}:.", tmp_path / "whole")
    assert (tmp_path / "whole/d/z").read_text() == "hello\n"
    for n, path in enumerate(("", ".", "./", "/workspace", "/workspace/")):
        into = tmp_path / f"into{n}"
        into.mkdir()
        assert call("cp", f"{box.id}:{path}", into).returncode == 0
        assert [p.name for p in into.iterdir()] == ["workspace"] and (into / "workspace/d/z").read_text() == "hello\n"
    for path in ("..", "d/.", "d/..", "/"):
        done = call("cp", f"{box.id}:{path}", into)
        assert done.returncode == 125 and b"give the copy a name" in done.stderr, done
    assert call("cp", ".", f"{box.id}:", cwd=tree).returncode == 0
    assert box.out("cat tree/a.txt") == "hello\n"


def test_cp_replaces_files(call, box, tmp_path):
    file = tmp_path / "f"
    file.write_text("new")
    box.out("echo old, and longer > f")
    assert call("cp", file, f"{box.id}:f").returncode == 0 and box.out("cat f") == "new"
    box.out("echo newer > f")
    assert call("cp", f"{box.id}:f", file).returncode == 0 and file.read_text() == "newer\n"
    # What is at the place is replaced, not written through.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    file.unlink()
    file.symlink_to(elsewhere)
    assert call("cp", f"{box.id}:f", file).returncode == 0
    assert file.read_text() == "newer\n" and not file.is_symlink() and elsewhere.read_text() == "untouched"


def test_cp_large(server, call, tmp_path):
    """More than the server keeps of the output of a command, both ways."""
    with Session(server, limits={"output_bytes": 300000}) as small:
        big = tmp_path / "big"
        big.write_bytes(os.urandom(12_345_678))
        answer = lines(call("cp", "--json", big, f"{small.id}:big"))[0]
        assert answer == {"files": 1, "bytes": 12_345_678, "skipped": 0, "error": None}
        assert call("cp", f"{small.id}:big", tmp_path / "back").returncode == 0
        assert (tmp_path / "back").read_bytes() == big.read_bytes()
        assert call("cp", "--max", "1M", f"{small.id}:big", tmp_path / "refused").returncode == 125
        assert not (tmp_path / "refused").exists()
        assert server.call("GET", f"{small.path}/commands")[1]["commands"][-1]["status"] != "running"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back", "big"]


def test_cp_where_there_is_no_room(server, call, tmp_path):
    with Session(server, limits={"workspace_bytes": 1 << 20}) as small:
        big = tmp_path / "big"
        big.write_bytes(b"x" * (6 << 20))
        done = call("cp", big, f"{small.id}:")
        assert done.returncode == 125 and b"in the box: tar: big: " in done.stderr, done


def test_cp_leaves_out_what_cannot_be_copied(call, box, tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    os.mkfifo(top / "pipe")
    (top / "file").write_text("x")
    (top / "bad\nname").write_text("x")
    done = call("cp", top, f"{box.id}:")
    assert done.returncode == 0 and b"left out" in done.stderr and b"pipe" in done.stderr
    assert box.out("ls top") == "file\n"
    box.out("mkfifo top/p; mkdir $'top/bad\\ndir'; touch $'top/bad\\ndir/in it' $'top/bell\\a'; ln -s $'x\\033' top/odd; ln -s /etc/passwd top/out; ln -s ../../.. top/up; ln -s . top/self; ln -s self/../.. top/sly; ln -s file top/fine")
    done = call("cp", f"{box.id}:top", tmp_path / "back")
    assert done.returncode == 0, done
    assert sorted(p.name for p in (tmp_path / "back").iterdir()) == ["file", "fine", "self"]
    assert all(word in done.stderr for word in (b"out'", b"up'", b"sly'", b"'top/p'", b"'top/bad'", b"'top/bell?'", b"'top/odd'"))
    assert b"\x1b" not in done.stderr
    answer = lines(call("cp", "--json", f"{box.id}:top", tmp_path / "again"))[0]
    assert answer["skipped"] == 7


def test_cp_of_a_link_follows_it(call, box, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    assert call("cp", tmp_path / "link", f"{box.id}:l").returncode == 0
    assert box.out("stat -c %F l") == "regular file\n"


def member(name, kind=tarfile.REGTYPE, data=b"x", link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    return info, data


# What a box might send instead of what was asked for.
HOSTILE = {
    "absolute": [member("/tmp/owned")],
    "up": [member("../owned")],
    "up inside": [member("top", tarfile.DIRTYPE), member("top/../../owned")],
    "another name": [member("top", tarfile.DIRTYPE), member("other")],
    "no top": [member("top/owned")],
    "through a link": [member("top", tarfile.DIRTYPE), member("top/sub", tarfile.SYMTYPE, link="."), member("top/sub/owned")],
    "link out": [member("top", tarfile.SYMTYPE, link="/tmp"), member("top/owned")],
    "hard link": [member("top", tarfile.DIRTYPE), member("top/x", tarfile.LNKTYPE, link="/etc/passwd")],
    "device": [member("top", tarfile.CHRTYPE)],
    "file as directory": [member("top"), member("top/owned")],
    "control": [member("top", tarfile.DIRTYPE), member("top/\x1b]0;owned\x07")],
    "nothing": [],
}


def put_archive(call, box, members):
    """Whoever asks for tar in the box gets these. (Its PATH has to have /workspace/bin first.)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    box.out("mkdir -p bin top; printf '#!/bin/sh\\ncat > /dev/null\\ncat /workspace/archive\\n' > bin/tar; chmod 755 bin/tar")
    assert call("exec", box.id, "sh", "-c", "cat > archive", input=out.getvalue()).returncode == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_cp_of_a_hostile_box(server, call, tmp_path, name):
    """A tar of its own choice: nothing outside of the place is touched, and somebody is told."""
    place = tmp_path / "place"
    place.mkdir()
    before = set(os.listdir("/tmp"))
    with Session(server, env={"PATH": "/workspace/bin:/usr/bin:/bin"}) as box:
        put_archive(call, box, HOSTILE[name])
        done = call("cp", f"{box.id}:top", place / "copy")
    assert done.returncode == 125 and b"glovebox: " in done.stderr and b"\x1b" not in done.stderr, done
    assert "owned" not in {p.name for p in tmp_path.rglob("*")}
    assert not {entry for entry in set(os.listdir("/tmp")) - before if "owned" in entry}
    assert not [p for p in place.rglob("*") if p.name.startswith(".glovebox")]


# Whatever the box calls it, in a home directory it must not be one of these.
CHOSEN = {
    "file": [member(".bashrc", data=b"owned")],
    "directory": [member(".ssh", tarfile.DIRTYPE, mode=0o755), member(".ssh/authorized_keys", data=b"owned")],
}


@pytest.mark.parametrize("name", CHOSEN)
def test_cp_never_takes_a_name_from_the_box(server, call, tmp_path, name):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    for file in (".bashrc", ".ssh/authorized_keys"):
        (home / file).write_text("mine")
    with Session(server, env={"PATH": "/workspace/bin:/usr/bin:/bin"}) as box:
        put_archive(call, box, CHOSEN[name])
        for path in ("", ".", "/workspace", "top"):
            assert call("cp", f"{box.id}:{path}", ".", cwd=home).returncode == 0
    assert {p.name for p in home.iterdir()} == {".bashrc", ".ssh", "workspace", "top"}
    assert all((home / file).read_text() == "mine" for file in (".bashrc", ".ssh/authorized_keys"))


def test_cp_is_interrupted(server, box, start, tmp_path):
    box.out("mkdir top; mkfifo top-pipe; printf '#!/bin/sh\\ncat top-pipe\\n' > tar; chmod 755 tar")
    with Session(server, env={"PATH": "/workspace/bin:/usr/bin:/bin"}) as slow:
        slow.out("mkdir -p bin top; printf '#!/bin/sh\\necho up > /workspace/up; sleep 1000\\n' > bin/tar; chmod 755 bin/tar")
        process = start("cp", "--url", url(server), f"{slow.id}:top", tmp_path / "copy")
        until(lambda: slow.run("cat up")["stdout"] == "up\n", "tar runs")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
        until(lambda: not any(c["status"] == "running" and "tar=" in c["summary"]
                              for c in server.call("GET", f"{slow.path}/commands")[1]["commands"]), "nothing of it runs")
    assert list(tmp_path.iterdir()) == []


# --- kill ----------------------------------------------------------------------------------------------------


def test_kill(server, call):
    one, two = (server.call("POST", "/v1/boxes", {"name": name})[1]["id"] for name in ("one", "two"))
    assert call("kill", "name:one", two).returncode == 0
    assert lines(call("ps", "--json")) == []
    done = call("kill", one, "name:nobody")
    assert done.returncode == 1 and b"deleted" in done.stderr and b"name:nobody" in done.stderr
    done = call("kill", "--json", one)
    assert done.returncode == 1 and json.loads(done.stdout)["ended"] is False
    assert call("kill").returncode == 125
    assert call("kill", "--all", one).returncode == 125


def test_kill_all(serve, run, tmp_path):
    alone = serve(env=NO_POOL)
    made = {alone.call("POST", "/v1/boxes")[1]["id"] for _ in range(3)}
    there = ("--url", url(alone))
    done = run("kill", *there, "--all")
    assert done.returncode == 125 and b"-f" in done.stderr
    with Terminal(tmp_path, glovebox("kill", *there, "--all")) as t:
        t.see(r"End 3 boxes, with everything in them\? \[y/N\]")
        t.line("n")
        assert t.ended()[0] == 1
    assert len(alone.call("GET", "/v1/boxes")[1]["boxes"]) == 3
    done = run("kill", *there, "--all", "--force", "--json")
    assert done.returncode == 0 and {json.loads(line)["box"] for line in done.stdout.splitlines()} == made
    assert alone.call("GET", "/v1/boxes")[1]["boxes"] == []
    assert run("kill", *there, "--all", "-f").returncode == 0


# --- logs ----------------------------------------------------------------------------------------------------


def test_logs_of_one(call, box):
    command = box.server.call("POST", f"{box.path}/commands", {"shell": "echo out; echo err >&2", "detach": True})[1]["id"]
    until(lambda: box.server.call("GET", f"{box.path}/commands/{command}")[1]["status"] == "ok", "it has run")
    done = call("logs", box.id, command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")
    assert call("logs", "-f", box.id, command).stdout == b"out\n"
    cell = box.start("print('printed'); 6 * 7")
    box.done(cell)
    assert call("logs", box.id, cell).stdout == b"printed\n42\n"
    answer = lines(call("logs", "--json", box.id, cell))[0]
    assert answer["kind"] == "cell" and answer["stdout"] == "printed\n"
    events = lines(call("logs", "--json", "-f", box.id, cell))
    assert [e["event"] for e in events][0] == "start" and events[-1]["event"] == "end" and events[-1]["cell"] == cell
    done = call("logs", box.id, "a" * 26)
    assert done.returncode == 125 and b"glovebox: " in done.stderr
    assert call("logs", box.id, "../x").returncode == 125
    assert call("logs").returncode == 125


def test_logs_of_one_that_runs(server, call, box, start):
    cell = box.begin("import time\nwhile True: print('more', flush=True); time.sleep(0.1)", timeout_ms=None)
    done = call("logs", box.id, cell)
    assert done.returncode == 0 and done.stdout.startswith(b"up\n")
    process = start("logs", "--url", url(server), "-f", box.id, cell)
    assert process.stdout.readline() == b"up\n" and process.stdout.readline() == b"more\n"
    box.cancel(cell)
    assert process.wait(60) == 0


def test_logs_of_all(call, box):
    box.ok("print('first')")
    box.run("echo second")
    box.cell("print('third'); 1 / 0")
    done = call("logs", box.id)
    assert done.returncode == 0
    assert re.fullmatch(r"==> cell \w{26}: print\('first'\)\nfirst\n==> command \w{26}: echo second\nsecond\n==> cell \w{26}: .*\nthird\n",
                        done.stdout.decode()), done.stdout
    assert b"ZeroDivisionError" in done.stderr
    assert [one["kind"] for one in lines(call("logs", "--json", box.id))] == ["cell", "command", "cell"]


@pytest.mark.more
def test_logs_follow_a_box(server, box, start):
    box.ok("print('before')")
    process = start("logs", "--url", url(server), "-f", box.id)
    assert b"before" in process.stdout.readline()
    assert process.stdout.readline() == b"before\n"
    box.start("import time\nfor i in range(30): print('one', i, flush=True); time.sleep(0.1)")
    box.run("echo two")
    out = ""
    while not re.search(r"^one 29$", out, re.M) or "\ntwo\n" not in out:
        out += process.stdout.readline().decode()
    box.delete()
    out += process.stdout.read().decode()
    assert process.wait(60) == 0
    assert [int(n) for n in re.findall(r"^one (\d+)$", out, re.M)] == list(range(30)) and out.count("\ntwo\n") == 1, out


@pytest.mark.more
def test_logs_of_one_that_ends_while_it_is_asked_for(server, box, start):
    """It was in the list as one that runs: what it says is told once all the same."""
    command = box.server.call("POST", f"{box.path}/commands", {"shell": "echo once; sleep 1000", "detach": True})[1]["id"]
    until(lambda: box.server.call("GET", f"{box.path}/commands/{command}")[1]["stdout"] == "once\n", "it has said it")

    def rule(_, path, __):
        if path == f"{box.path}/commands/{command}":
            server.call("DELETE", f"{path}?grace_ms=0")

    with Between(server, rule) as between:
        process = start("logs", "--url", between.url, "-f", box.id)
        assert process.stdout.readline().startswith(b"==> command") and process.stdout.readline() == b"once\n"
        box.run("echo after it")
        out = b""
        while not out.endswith(b"\nafter it\n"):
            out += process.stdout.readline()
        assert b"once" not in out.replace(b": echo once", b"")
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM


@pytest.mark.more
def test_logs_of_very_many(server, box, start):
    """Those that the server has forgotten are forgotten here, too."""
    looks = iter([f"c{n}x" for n in range(n * 600, n * 600 + 600)] for n in range(3))

    def rule(_, path, __):
        if path == f"{box.path}/commands":
            ids = next(looks, None)
            body = json.dumps({"commands": [{"id": i, "ended_at": "2026-01-01T00:00:00.000Z"} for i in ids]}).encode() if ids else b""
            return ids and b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        return refusal(404, "not_found") if re.search(r"/c\d+x$", path) else None

    with Between(server, rule) as between:
        process = start("logs", "--url", between.url, "-f", box.id)
        box.run("echo seen")
        assert b"echo seen" in process.stdout.readline() and process.stdout.readline() == b"seen\n"
        process.terminate()
        process.wait(60)


@pytest.mark.more
def test_logs_nobody_reads(server, box, start):
    for _ in range(2):
        box.server.call("POST", f"{box.path}/commands", {"shell": "while :; do echo more; sleep 0.1; done", "detach": True})
    process = start("logs", "--url", url(server), "-f", "--json", box.id)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0


@pytest.mark.more
def test_logs_hear_signals_while_nobody_reads(server, box, start):
    box.server.call("POST", f"{box.path}/commands", {"shell": "yes", "detach": True})
    for more in ([], ["--json"]):
        process = start("logs", "--url", url(server), "-f", *more, box.id)
        until(lambda: is_full(process.stdout), "nobody can write any more")  # noqa: B023
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM


@pytest.mark.more
def test_logs_go_on_after_the_gate(serve, start):
    mortal = serve(env=NO_POOL)
    with Session(mortal) as box:
        cell = box.begin("import time\nfor i in range(60): print(i, flush=True); time.sleep(0.05)", timeout_ms=None)
        process = start("logs", "--url", url(mortal), "-f", box.id, cell)
        assert process.stdout.readline() == b"up\n"
        for i in range(5):
            assert process.stdout.readline() == b"%d\n" % i
        mortal.next_gate(mortal.kill_gate())
        for i in range(5, 60):
            assert process.stdout.readline() == b"%d\n" % i
        assert process.wait(60) == 0


def test_output_on_a_terminal_is_harmless(server, box, tmp_path):
    command = box.server.call("POST", f"{box.path}/commands", {"shell": "printf '\\033]0;owned\\007\\033[6nsafe\\n'", "detach": True})[1]["id"]
    with Terminal(tmp_path, glovebox("logs", "--url", url(server), "-f", box.id, command)) as t:
        t.see("^safe$")
        assert t.ended()[0] == 0
        assert "owned" not in t.tmux("display-message", "-p", "#{pane_title}")
