# SPDX-License-Identifier: Apache-2.0
"""Files of a box by the API, while the box exchanges what they are: a directory for a symbolic link, a file for another.

The server reads, writes, lists, packs and watches for a client what a hostile program lays out and changes at the same time. Links lead to /etc,
to process 1, to paths that are those of the host; and, in the sharpest case, the directory is one of the host that the box may write to, and
beside it lies what nobody may touch. Whatever the moment: of the host nothing is read, and nothing outside of the box's own file systems is
written, made or removed. What is the box's own (its /etc/passwd) a client may see: it asked for it.
"""
import concurrent.futures
import contextlib
import io
import itertools
import os
import tarfile
import threading
import urllib.parse
import uuid

import pytest

from server import Server, needs_root, until
from world import neighbour, unharmed  # noqa: F401

pytestmark = needs_root

# How often each route is asked, and how often the box exchanges at least.
ROUNDS = [pytest.param(8, 2000, id="some"), pytest.param(400, 100_000, id="many", marks=pytest.mark.slow)]
# 500 is not among them: no moment is unforeseen. 416: a file that is written anew is empty for a moment. 429: others are faster.
FORESEEN = {200, 201, 204, 206, 304, 403, 404, 409, 412, 413, 416, 422, 429, 503}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Directories of the host: shared with boxes, and beside it."""
    return tmp_path_factory.mktemp("races")


@pytest.fixture(scope="module")
def server(glovebox, place):
    (place / "shared").mkdir()
    with Server(place / "serve", mount_root=[str(place / "shared")], max_concurrent_executions=64) as running:
        yield running


class Canary:
    """What is of the host alone: a name and a content that are nowhere else."""

    def __init__(self, place):
        self.name, self.secret = f"canary-{uuid.uuid4().hex}", f"secret of the host {uuid.uuid4().hex}"
        self.unsaid = f"unsaid-{uuid.uuid4().hex}"  # a name that no call ever has, and so no box
        self.folder = place / f"outside-{uuid.uuid4().hex}"
        (self.folder / "deep").mkdir(parents=True)
        for file in (self.folder / self.name, self.folder / "deep" / self.name, self.folder / self.unsaid, self.folder / "real"):
            file.write_text(self.secret)
        self.before = self.state()

    def state(self):
        found = {"/etc": (os.stat("/etc").st_mtime_ns, sorted(os.listdir("/etc")))}
        for top, folders, files in os.walk(self.folder):
            for name in folders + files + ["."]:
                path = os.path.join(top, name)
                st = os.lstat(path)
                text = open(path, encoding="utf-8").read() if name in files else None
                found[path] = (st.st_mode, st.st_uid, st.st_mtime_ns, st.st_ino, text)
        return found

    def check(self, *answers):
        assert self.state() == self.before, "something outside was changed"
        for what, answer in answers:
            assert self.secret.encode() not in answer, f"{what} told what only the host knows"

    def check_names(self, *answers):
        """Of answers to questions that did not name it."""
        self.check(*answers)
        for what, answer in answers:
            assert self.unsaid.encode() not in answer, f"{what} told a name of the host"


@pytest.fixture
def canary(place):
    return Canary(place)


class Box:
    """One, with the directory in which it plays: below the workspace, or a directory of the host."""

    def __init__(self, server, shared_folder=None):
        self.server, self.shared = server, shared_folder
        body = {"mounts": [{"root": str(shared_folder.parent), "path": shared_folder.name, "at": "/mnt/shared", "readonly": False}]} if shared_folder else {}
        status, answer = server.call("POST", "/v1/boxes", body)
        assert status == 201, answer
        self.path, self.top = f"/v1/boxes/{answer['id']}", "/mnt/shared" if shared_folder else "/workspace/play"
        self.run(f"mkdir -p {self.top}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.call("DELETE", self.path)

    def call(self, **fields):
        status, answer = self.server.call("POST", f"{self.path}/commands", fields)
        assert status in (200, 202), answer
        return answer

    def run(self, shell):
        answer = self.call(shell=shell)
        assert answer["status"] == "ok", answer
        return answer["stdout"]

    def target(self, what, query):
        return f"{self.path}/{what}?{urllib.parse.urlencode({'root': '/', **query})}"

    def file(self, path, **query):
        return self.target(f"files/{urllib.parse.quote(f'{self.top}/{path}'.lstrip('/'))}", query)

    def below(self, path):
        return f"{self.top}/{path}".lstrip("/")

    def ask(self, method, target, body=None, headers=None):
        status, heads, data = self.server.request(method, target, body, {"Content-Type": "application/octet-stream", **(headers or {})})
        return status, str(heads).encode() + data


# --- who exchanges -------------------------------------------------------------------------------------------

# sub is a directory or the link that was called trap; file is a file, or a link. What was removed is made again.
FLIP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
top, to, least = sys.argv[1], sys.argv[2], int(sys.argv[3])
os.chdir(top)

def lay():
    for name, link in (("sub", "trap"), ("file", "file-trap")):
        kinds = [os.path.lexists(n) and os.path.islink(n) for n in (name, link)]
        if not os.path.lexists(name) or kinds == [True, True]:
            if os.path.lexists(name): os.unlink(name)
            if name == "sub":
                os.makedirs("sub/deep", exist_ok=True)
                for f in ("sub/real", "sub/deep/real"): open(f, "w").write("real")
            else:
                open("file", "w").write("real")
        if not os.path.lexists(link):
            os.symlink(to if name == "sub" else to.rstrip("/") + "/passwd", link)

n = 0
lay()
print("flipping", flush=True)
while n < least or not os.path.exists("stop"):
    for _ in range(100):
        for a, b in ((b"sub", b"trap"), (b"file", b"file-trap")):
            if libc.renameat2(-100, a, -100, b, 2) < 0:  # RENAME_EXCHANGE
                try: lay()
                except OSError: pass
            else:
                n += 1
print(n, flush=True)
"""


@contextlib.contextmanager
def flipping(box, to, least):
    box.run(f"rm -rf {box.top}/stop {box.top}/sub {box.top}/trap {box.top}/file {box.top}/file-trap")
    command = box.call(argv=["/usr/bin/python3", "-c", FLIP, box.top, to, str(least)], detach=True, timeout_ms=None)["id"]

    def look(wait_ms=0):
        return box.server.call("GET", f"{box.path}/commands/{command}?wait_ms={wait_ms}")[1]

    until(lambda: "flipping" in look()["stdout"] or look()["status"] != "running", "it exchanges")
    try:
        yield
        assert look()["status"] == "running", look()
    finally:
        box.run(f"touch {box.top}/stop")
    done = look(60000)
    while done["status"] == "running":
        done = look(60000)
    assert done["status"] == "ok" and int(done["stdout"].split()[-1]) >= least, done


# --- what is asked -------------------------------------------------------------------------------------------


def archive_of(*names):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 7
            archive.addfile(info, io.BytesIO(b"planted"))
    return out.getvalue()


ARCHIVE = archive_of("planted", "deep/planted", "real")
FORM = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="planted"\r\n\r\nplanted\r\n--b--\r\n', {"Content-Type": "multipart/form-data; boundary=b"})

# Each gives (status, answer). The second part asks without naming the canary: its name must not be in the answer, either.
NAMING = {
    "read": lambda box, canary: box.ask("GET", box.file(f"sub/{canary.name}")),
    "read below": lambda box, canary: box.ask("GET", box.file(f"sub/deep/{canary.name}")),
    "stat": lambda box, canary: box.ask("GET", box.file(f"sub/{canary.name}", stat=1)),
    "head": lambda box, canary: box.ask("HEAD", box.file(f"sub/{canary.name}")),
    "replace": lambda box, canary: box.ask("PUT", box.file(f"sub/deep/{canary.name}"), b"planted"),
    "delete": lambda box, canary: box.ask("DELETE", box.file(f"sub/{canary.name}")),
    "delete it below": lambda box, canary: box.ask("DELETE", box.file(f"sub/deep/{canary.name}")),
    "move out": lambda box, canary: box.ask("POST", box.file(f"sub/{canary.name}", op="move", to=box.below("moved"))),
}
BLIND = {
    "read real": lambda box, _: box.ask("GET", box.file("sub/real")),
    "read a range": lambda box, _: box.ask("GET", box.file("sub/real"), headers={"Range": "bytes=0-3"}),
    "read a file": lambda box, _: box.ask("GET", box.file("file")),
    "stat a file": lambda box, _: box.ask("GET", box.file("file", stat=1)),
    "write": lambda box, _: box.ask("PUT", box.file("sub/planted"), b"planted"),
    "write below": lambda box, _: box.ask("PUT", box.file("sub/deep/planted"), b"planted"),
    "write, with parents": lambda box, _: box.ask("PUT", box.file("sub/new/planted"), b"planted"),
    "write a file": lambda box, _: box.ask("PUT", box.file("file"), b"planted"),
    "write over passwd": lambda box, _: box.ask("PUT", box.file("sub/passwd"), b"planted"),
    "form": lambda box, _: box.ask("POST", box.file("sub/formed"), *FORM),
    "mkdir": lambda box, _: box.ask("POST", box.file("sub/made", op="mkdir")),
    "mkdir below": lambda box, _: box.ask("POST", box.file("sub/deep/made/made", op="mkdir")),
    "move in": lambda box, _: (box.ask("PUT", box.file("source"), b"planted"), box.ask("POST", box.file("source", op="move", to=box.below("sub/moved"))))[1],
    "move it": lambda box, _: box.ask("POST", box.file("sub", op="move", to=box.below("elsewhere"))),
    "move onto it": lambda box, _: (box.ask("POST", box.file("empty", op="mkdir")), box.ask("POST", box.file("empty", op="move", to=box.below("sub"))))[1],
    "delete real": lambda box, _: box.ask("DELETE", box.file("sub/real")),
    "delete all of it": lambda box, _: box.ask("DELETE", box.file("sub", recursive=1)),
    "delete below": lambda box, _: box.ask("DELETE", box.file("sub/deep", recursive=1)),
    "list": lambda box, _: box.ask("GET", box.target("files", {"path": box.below("sub")})),
    "list all": lambda box, _: box.ask("GET", box.target("files", {"path": box.below("sub"), "recursive": 1, "limit": 200})),
    "list above": lambda box, _: box.ask("GET", box.target("files", {"path": box.below("").rstrip("/"), "recursive": 1, "limit": 200})),
    "pack": lambda box, _: pack(box, "sub"),
    "pack above": lambda box, _: pack(box, ""),
    "unpack": lambda box, _: box.ask("PUT", box.target("archive", {"path": box.below("sub")}), ARCHIVE),
    "unpack below": lambda box, _: box.ask("PUT", box.target("archive", {"path": box.below("sub/deep")}), ARCHIVE),
    "unpack above": lambda box, _: box.ask("PUT", box.target("archive", {"path": box.below("").rstrip("/")}), archive_of("sub/planted", "sub/deep/planted", "file")),
    "watch": lambda box, _: watched(box),
}
# What reads large trees where links lead to the root of everything is asked less often.
SLOW = {"list all", "list above", "pack", "pack above", "watch", "unpack above"}


def pack(box, path):
    """The names and contents of an archive, as plain bytes; a cut one is as good."""
    with contextlib.suppress(Exception):
        status, data = box.ask("GET", box.target("archive", {"path": box.below(path).rstrip("/"), "format": "tar"}))
        return status, data
    return 200, b""


def watched(box):
    """The first events of a watcher, recursive, while a file is made."""
    with contextlib.closing(box.server.connection()) as connection:
        answer = box.server.send(connection, "GET", box.target("watch", {"path": box.below("sub"), "recursive": 1}))
        if answer.status != 200:
            return answer.status, answer.read()
        said = answer.readline() + answer.readline()
        box.ask("PUT", box.file("sub/seen"), b"planted")
        connection.sock.settimeout(0.3)
        with contextlib.suppress(OSError):
            for _ in range(6):
                said += answer.readline()
        return 200, said


def attack(box, canary, rounds):
    """Every route, by four clients at once. Afterwards everything outside is as it was."""
    calls = [(name, call) for name, call in (*NAMING.items(), *BLIND.items()) for _ in range(max(1, rounds // 4) if name in SLOW else rounds)]
    step = 7
    order = [calls[i] for start in range(step) for i in range(start, len(calls), step)]  # not all of a kind at once
    named, blind, statuses = [], [], {}
    lock = threading.Lock()

    def one(item):
        name, call = item
        status, answer = call(box, canary)
        with lock:
            statuses.setdefault(name, set()).add(status)
            (named if name in NAMING else blind).append((name, answer))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(one, order))
    canary.check(*named)
    canary.check_names(*blind)
    assert not {n: s - FORESEEN for n, s in statuses.items() if s - FORESEEN}
    return statuses


def answer_both(box, canary, statuses):
    """It is really asked, and answered: in a race that others win nearly always, it is asked more often."""
    for name, wanted in (("read real", 200), ("write", 201)):
        for _ in range(5000):
            if wanted in statuses[name]:
                break
            status, answer = {**NAMING, **BLIND}[name](box, canary)
            canary.check((name, answer))
            statuses[name].add(status)
        assert wanted in statuses[name], statuses[name]


# --- the races -----------------------------------------------------------------------------------------------

TRAPS = ["/etc", "/proc/1", "/proc/1/root", "/proc/self", "/dev/shm", "HOST"]


@pytest.mark.parametrize("rounds, least", ROUNDS)
def test_in_the_workspace(server, canary, unharmed, rounds, least):
    """Links to what is not the client's to change, and to what is not even there."""
    statuses = {}
    for trap in TRAPS:
        with Box(server) as box:
            with flipping(box, str(canary.folder) if trap == "HOST" else trap, least // len(TRAPS) + 1):
                for name, seen in attack(box, canary, max(1, rounds // 4)).items():
                    statuses.setdefault(name, set()).update(seen)
                if trap == TRAPS[-1]:
                    answer_both(box, canary, statuses)
            assert box.run("cat /etc/hostname") == "glovebox\n"
            assert "planted" not in box.run("ls /etc /proc")


@pytest.mark.parametrize("rounds, least", ROUNDS)
def test_in_a_directory_of_the_host(server, place, canary, unharmed, rounds, least):
    """Where a link that leads outside would lead outside, if anybody on the host followed it."""
    folder = place / "shared" / uuid.uuid4().hex
    folder.mkdir()
    beside = place / "shared" / f"beside-{uuid.uuid4().hex}"
    beside.mkdir()
    (beside / canary.name).write_text(canary.secret)
    before = sorted(os.listdir(place)), sorted(os.listdir(place / "shared"))
    for to in (str(canary.folder), f"../{beside.name}"):
        with Box(server, folder) as box:
            with flipping(box, to, least // 2):
                answer_both(box, canary, attack(box, canary, rounds))
            box.run("rm -rf /mnt/shared/* /mnt/shared/.[!.]*")
    assert (sorted(os.listdir(place)), sorted(os.listdir(place / "shared"))) == before
    assert {p.name: p.read_text() for p in beside.iterdir()} == {canary.name: canary.secret}


@pytest.mark.parametrize("rounds, least", ROUNDS)
def test_two_boxes_and_one_directory(server, place, canary, rounds, least):
    """One exchanges, the other is asked: it has no part in it, and its client gets nothing but what lies there."""
    folder = place / "shared" / uuid.uuid4().hex
    folder.mkdir()
    with Box(server, folder) as hostile, Box(server, folder) as victim:
        with flipping(hostile, str(canary.folder), least // 2):
            attack(victim, canary, max(1, rounds // 2))
        hostile.run("rm -rf /mnt/shared/*")


# --- without luck --------------------------------------------------------------------------------------------


def test_a_link_that_stays(server, place, canary, unharmed):
    """Each trap, and nobody exchanges anything: the same questions, answered by what the box itself could see."""
    folder = place / "shared" / uuid.uuid4().hex
    folder.mkdir()
    for shared_folder in (None, folder):
        with Box(server, shared_folder) as box:
            for trap in (*TRAPS, "/", "..", "../../../../../..", "/mnt", "sub", "/proc/self/root", "/proc/self/cwd", "/workspace"):
                to = str(canary.folder) if trap == "HOST" else trap
                box.run(f"cd {box.top}; rm -rf sub file; ln -s {to} sub; ln -s {to}/passwd file")
                for name, call in itertools.chain(NAMING.items(), BLIND.items()):
                    if name in SLOW:  # of everything there is: too much of the same
                        continue
                    status, answer = call(box, canary)
                    assert status in FORESEEN, (trap, name, status, answer[-300:])
                    (canary.check if name in NAMING else canary.check_names)((name, answer))
                box.run(f"test -d {box.top}")
            box.run(f"rm -rf {box.top}/*")


# What is begun while sub is a directory, and goes on when it is a link: head lines, body.
BEGUN = {
    "write": ("PUT", lambda box: box.file("sub/planted"), [], b"p" * 100_000),
    "write below": ("PUT", lambda box: box.file("sub/deep/planted"), [], b"p" * 100_000),
    "replace": ("PUT", lambda box: box.file("sub/real"), [], b"p" * 100_000),
    "unpack": ("PUT", lambda box: box.target("archive", {"path": box.below("sub")}), [], archive_of(*(f"deep/planted{n}" for n in range(100)), "real")),
    "form": ("POST", lambda box: box.file("sub/real"), ["Content-Type: multipart/form-data; boundary=b"], FORM[0].replace(b"planted\r\n--b--", b"p" * 100_000 + b"\r\n--b--")),
}


@pytest.mark.parametrize("name", BEGUN)
def test_exchanged_in_the_middle(server, place, canary, name):
    """Half of it is sent, then the directory becomes a link. It goes where it began, or nowhere."""
    folder = place / "shared" / uuid.uuid4().hex
    folder.mkdir()
    method, target, lines, body = BEGUN[name]
    for trap in (str(canary.folder), "/etc", f"../{canary.folder.name}"):
        with Box(server, folder) as box:
            box.run("cd /mnt/shared; rm -rf *; mkdir -p sub/deep; echo real > sub/real")
            processes = len(server.tree())
            with server.wire() as wire:
                request = "\r\n".join([f"{method} {target(box)} HTTP/1.1", f"Host: {server.authority}", f"Content-Length: {len(body)}", *lines, "", ""])
                wire.send(request.encode() + body[:len(body) // 2])
                until(lambda: len(server.tree()) > processes, "it has begun")
                # Who begins between the two makes a directory of that name, and the link is not made.
                box.run(f"cd /mnt/shared; mv sub moved; ln -sT {trap} sub || test -d sub/deep")
                wire.send(body[len(body) // 2:])
                answer = wire.response()
            assert answer.status in FORESEEN, answer
            canary.check((name, answer.body))
            assert box.run("cat /etc/hostname; ls /etc | grep -c planted || true") == "glovebox\n0\n"
            assert box.run("cd /mnt/shared; readlink sub || ls sub").strip() in (trap, "deep"), "the link is what it was"
            box.run("rm -rf /mnt/shared/*")


def test_a_directory_that_moves_while_it_is_walked(server, place, canary):
    """List, pack and delete go down a tree whose parts are moved up and away: they see it, or do not; they never climb out of it."""
    folder = place / "shared" / uuid.uuid4().hex
    folder.mkdir()
    move = ("import os\nos.chdir('/mnt/shared')\nprint('up', flush=True)\nwhile not os.path.exists('stop'):\n"
            "    for a, b in (('top/a/b', 'b'), ('b', 'top/a/b'), ('top/a', 'a'), ('a', 'top/a')):\n"
            "        try: os.rename(a, b)\n        except OSError:\n"
            "            try: os.makedirs('top/a/b/c/d', exist_ok=True)\n            except OSError: pass  # somebody deletes it\n")
    with Box(server, folder) as box:
        box.run("mkdir -p /mnt/shared/top/a/b/c/d; echo outside > /mnt/shared/kept; echo also > /workspace/kept")
        command = box.call(argv=["/usr/bin/python3", "-c", move], detach=True, timeout_ms=None)["id"]
        for n in range(60):
            for status, answer in (box.ask("GET", box.target("files", {"path": "mnt/shared/top", "recursive": 1})),
                                   box.ask("GET", box.target("archive", {"path": "mnt/shared/top", "format": "tar"})) if n % 4 == 0 else (200, b""),
                                   box.ask("DELETE", box.file("top/a/b", recursive=1)) if n % 2 else (204, b"")):
                assert status in FORESEEN, (status, answer)
                assert b"kept" not in answer and canary.name.encode() not in answer, "it climbed out"
        box.run("touch /mnt/shared/stop")
        assert box.server.call("GET", f"{box.path}/commands/{command}?wait_ms=60000")[1]["status"] == "ok"
        assert box.run("cat /mnt/shared/kept /workspace/kept") == "outside\nalso\n"
        box.run("rm -rf /mnt/shared/*")
    canary.check()
