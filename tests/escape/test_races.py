# SPDX-License-Identifier: Apache-2.0
"""Paths that change under our hands.

A box that may write to a directory of the host exchanges a directory there for a symbolic link, as fast as it
can, while other runs mount below it, put files into it, collect from it and collect into it. Whatever the
moment: nothing outside that directory is read, written or made. And the slow way, which needs no luck: a program
replaces what its own run will use later.
"""
import concurrent.futures
import contextlib
import os

import pytest

SECRET = "a secret of the host"
RUNS = [pytest.param(12, id="some"), pytest.param(400, id="many", marks=pytest.mark.slow)]

FLIP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
os.chdir("/mnt/shared")
n = 0
print("flipping", flush=True)
while n < int(sys.argv[1]) or not os.path.exists("stop"):
    for _ in range(500):
        if libc.renameat2(-100, b"sub", -100, b"trap", 2) < 0:  # RENAME_EXCHANGE
            sys.exit("renameat2: errno %d" % ctypes.get_errno())
        n += 1
print(n, flush=True)
"""


class Arena:
    """shared/: what boxes may write to, with `sub` a directory or a link; outside/: what nobody may touch."""

    def __init__(self, base, start):
        self.base = base
        self.shared, self.outside = base / "shared", base / "outside"
        for path in (self.shared / "sub" / "deep", self.outside / "deep"):
            path.mkdir(parents=True)
        (self.shared / "sub" / "real").write_text("real")
        (self.shared / "sub" / "deep" / "real").write_text("real")
        (self.outside / "secret").write_text(SECRET)
        (self.outside / "deep" / "secret").write_text(SECRET)
        (self.shared / "trap").symlink_to(self.outside)
        self.before = self.state()
        self.start = start
        self.flipper = None

    def state(self):
        found = {}
        for top, dirs, files in os.walk(self.outside):
            for name in dirs + files:
                path = os.path.join(top, name)
                st = os.lstat(path)
                text = open(path, encoding="utf-8").read() if name in files else None
                found[path] = (st.st_mode, st.st_uid, st.st_mtime_ns, st.st_ino, text)
        return found

    def options(self):
        return "--mount-root", self.shared

    @contextlib.contextmanager
    def flipping(self, runs):
        """While a box flips: a thousand times at least, and a hundred thousand in the slow tests."""
        least = 1000 if runs < 100 else 100_000
        p = self.start("run", *self.options(), "--timeout", "0", "--mount", f"{self.shared}:/mnt/shared:rw", "-c", FLIP,
                       least)
        assert p.stdout.readline() == b"flipping\n", p.stderr.read()
        yield
        (self.shared / "stop").write_text("")
        flips = int(p.stdout.readline())
        assert p.wait(60) == 0 and flips >= least

    def check(self, *texts):
        assert self.state() == self.before, "something outside was changed"
        for text in texts:
            assert SECRET.encode() not in text


@pytest.fixture
def arena(tmp_path, start):
    return Arena(tmp_path, start)


def all_at_once(runs, one):
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(one, range(runs)))


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("below", ["sub", "sub/deep"])
def test_mount_below_a_flipping_directory(run, arena, runs, below):
    """Refused, or it is the directory that was meant."""
    code = "import os; print(sorted(os.listdir('/mnt/x'))); print(open('/mnt/x/real').read())\n" \
           "open('/mnt/x/made', 'w').write('x')"

    def one(_):
        return run("run", *arena.options(), "--mount", f"{arena.shared}/{below}:/mnt/x:rw", "-c", code)

    with arena.flipping(runs):
        results = all_at_once(runs, one)
    for r in results:
        assert r.returncode in (0, 125), r.stderr
        assert r.returncode == 125 or b"real" in r.stdout
        arena.check(r.stdout, r.stderr)


@pytest.mark.parametrize("runs", RUNS)
def test_collect_into_a_flipping_directory(run, arena, runs):
    code = "import os; os.makedirs('sub/deep')\nfor p in ('sub/f', 'sub/deep/g', 'sub/secret'): open(p, 'w').write('x')"

    def one(_):
        return run("run", "--out", arena.shared, "-c", code)

    with arena.flipping(runs):
        results = all_at_once(runs, one)
    for r in results:
        assert r.returncode in (0, 125), r.stderr
    arena.check()


@pytest.mark.parametrize("runs", RUNS)
def test_collect_from_a_flipping_directory(run, arena, runs):
    """The workspace holds a directory of the host in which another box flips."""

    def one(i):
        out = arena.base / f"out{i}"
        r = run("run", *arena.options(), "--mount", f"{arena.shared}:/workspace/data:rw", "--out", out, "-c",
                "open('data/mine', 'w').write('x'); open('own', 'w').write('x')")
        collected = b"".join(p.read_bytes() for p in out.rglob("*") if p.is_file() and not p.is_symlink())
        assert not any(p.is_symlink() for p in out.rglob("*"))
        return r, collected

    with arena.flipping(runs):
        results = all_at_once(runs, one)
    for r, collected in results:
        assert r.returncode in (0, 125), r.stderr
        arena.check(r.stdout, r.stderr, collected)


@pytest.mark.parametrize("runs", RUNS)
def test_put_files_into_a_flipping_directory(run, arena, runs, tmp_path):
    (tmp_path / "f").write_text("put")
    files = [a for name in ("data/sub/f", "data/sub/deep/f", "data/sub/secret", "data/sub/new/f")
             for a in ("--file", f"{tmp_path}/f:{name}")]

    def one(_):
        return run("run", *arena.options(), "--mount", f"{arena.shared}:/workspace/data:rw", *files, "-c", "print('ran')")

    with arena.flipping(runs):
        results = all_at_once(runs, one)
    for r in results:
        assert r.returncode in (0, 125), r.stderr
        arena.check(r.stdout, r.stderr)


@pytest.mark.parametrize("runs", RUNS)
def test_stage_from_a_flipping_directory(run, arena, runs):
    """--file from a directory that a box writes to: what it reads is the caller's choice, but it stays one file."""

    def one(_):
        return run("run", "--file", f"{arena.shared}/sub/real:x", "-c", "print(open('x').read())")

    with arena.flipping(runs):
        results = all_at_once(runs, one)
    for r in results:
        assert (r.returncode, r.stdout) == (0, b"real\n") or r.returncode == 125, r
    arena.check()


def test_two_runs_collect_into_one_directory(run, tmp_path):
    """Files of the same names, over and over: each is whole, from one run or the other."""
    out = tmp_path / "out"
    size = 300_000

    def one(i):
        return run("run", "--out", out, "-c", f"import os\nos.makedirs('d', exist_ok=True)\n"
                   f"for n in range(5): open(f'd/f{{n}}', 'w').write('{i}' * {size})")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(r.returncode == 0 for r in pool.map(one, range(8)))
    for n in range(5):
        text = (out / "d" / f"f{n}").read_text()
        assert len(text) == size and len(set(text)) == 1
    assert sorted(os.listdir(out / "d")) == [f"f{n}" for n in range(5)]


# --- without luck --------------------------------------------------------------------------------------------


def test_program_replaces_the_directory_that_is_collected_into(run, arena):
    """The program can write to where --out lies, and leaves a link there. It was another directory that was named."""
    out = arena.shared / "out"
    out.mkdir()
    r = run("run", *arena.options(), "--mount", f"{arena.shared}:/mnt/shared:rw", "--out", out, "-c", f"""
import os
os.rename("/mnt/shared/out", "/mnt/shared/moved")
os.symlink({str(arena.outside)!r}, "/mnt/shared/out")
open("planted", "w").write("from the box")
""")
    assert r.returncode in (0, 125)
    arena.check()


def test_program_replaces_a_directory_above(run, arena):
    above = arena.shared / "above"
    (above / "out").mkdir(parents=True)
    (arena.outside / "out").mkdir()
    arena.before = arena.state()
    r = run("run", *arena.options(), "--mount", f"{arena.shared}:/mnt/shared:rw", "--out", above / "out", "-c", f"""
import os
os.rename("/mnt/shared/above", "/mnt/shared/moved")
os.symlink({str(arena.outside)!r}, "/mnt/shared/above")
open("planted", "w").write("from the box")
""")
    assert r.returncode in (0, 125)
    arena.check()


def test_program_makes_the_directory_that_is_collected_into(run, arena):
    """--out names a directory that is not there yet: the program makes a link of that name."""
    r = run("run", *arena.options(), "--mount", f"{arena.shared}:/mnt/shared:rw", "--out", arena.shared / "out", "-c", f"""
import os
if os.path.lexists("/mnt/shared/out"):
    os.rename("/mnt/shared/out", "/mnt/shared/moved")
os.symlink({str(arena.outside)!r}, "/mnt/shared/out")
open("planted", "w").write("from the box")
""")
    assert r.returncode in (0, 125)
    arena.check()


def test_program_replaces_its_own_files(run, tmp_path):
    """Files that were staged become links, devices and directories before they are collected."""
    out = tmp_path / "out"
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).write_text("staged")
    r = run("run", *[a for n in "abcd" for a in ("-f", tmp_path / n)], "--out", out, "-c", """
import os, socket
os.unlink("a"); os.symlink("/etc/passwd", "a")
os.unlink("b"); os.mkdir("b"); open("b/inner", "w").write("inner")
os.unlink("c"); os.mkfifo("c")
os.unlink("d"); socket.socket(socket.AF_UNIX).bind("d")
os.unlink("__main__.py"); os.symlink("/proc/self/mem", "__main__.py")
""")
    assert r.returncode == 0, r.stderr
    assert [str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()] == ["b/inner"]


def test_program_replaces_the_workspace_itself(run, tmp_path):
    """What it can of it: everything but the mount."""
    r = run("run", "--out", tmp_path / "out", "-c", """
import os, shutil
for name in os.listdir("."):
    os.unlink(name)
for what in (lambda: os.rmdir("/workspace"), lambda: os.rename("/workspace", "/w"),
             lambda: os.symlink("/etc", "/workspace")):
    try:
        what()
        print("done")
    except OSError:
        print("refused")
os.chmod("/workspace", 0)
""")
    assert r.stdout == b"refused\nrefused\nrefused\n"
    assert r.returncode in (0, 125)


def test_mounted_directory_that_is_moved_on_the_host(start, tmp_path):
    """The host moves the directory away while a box has it: the box stays in it, and cannot climb out of it."""
    base = tmp_path / "base"
    (base / "in" / "here").mkdir(parents=True)
    (base / "secret").write_text(SECRET)
    p = start("run", "--stdin", "--mount-root", base, "--mount", f"{base}/in:/mnt/x:rw", "-c", """
import os
os.chdir("/mnt/x/here")
print("in", flush=True)
input()
for _ in range(10):
    try: os.chdir("..")
    except OSError as e: print(e.errno)
print(sorted(os.listdir("."))[:3], os.path.exists("secret"), os.path.exists("/mnt/x/../secret"))
""")
    assert p.stdout.readline() == b"in\n"
    (base / "in" / "here").rename(base / "out")
    p.stdin.write(b"\n")
    p.stdin.close()
    said = p.stdout.read()
    p.wait(30)
    assert b"True" not in said and SECRET.encode() not in said and b"secret" not in said.replace(b"False", b"")
