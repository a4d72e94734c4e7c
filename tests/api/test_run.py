# SPDX-License-Identifier: Apache-2.0
"""`glovebox run`: every option, what goes in and out, how it is interrupted, and what bad input gets."""
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

MIB = 1 << 20
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


# --- helpers -------------------------------------------------------------------------------------------------


def read_until(stream, text, timeout=30):
    """Bytes of a pipe or terminal up to and with `text`, and not one more: the rest is for others."""
    fd = stream if isinstance(stream, int) else stream.fileno()
    seen = bytearray()
    end = time.monotonic() + timeout
    while not seen.endswith(text):
        if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
            pytest.fail(f"{text!r} did not come; so far: {seen!r}")
        try:
            more = os.read(fd, 1)
        except OSError as e:
            assert e.errno == errno.EIO
            more = b""
        if not more:
            pytest.fail(f"{text!r} did not come before the end; so far: {seen!r}")
        seen += more
    return bytes(seen)


def keeper_of(process):
    """The keeper that this `glovebox run` started."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            cmdline = pathlib.Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if int(stat[stat.rindex(")") + 2:].split()[1]) == process.pid and cmdline[1:2] == [b"keeper"]:
            return int(entry)
    pytest.fail("it has no keeper")


def said(done):
    """What Glovebox itself said: its lines on standard error, and nothing else may be there."""
    lines = done.stderr.decode().splitlines()
    assert lines, "it said nothing"
    assert all(line.startswith("glovebox: ") for line in lines), lines
    assert all(line.isprintable() for line in lines), lines
    return lines


def refused(done, *words):
    """A call that was refused: status 125, nothing on stdout, one line that says what (and one with a hint)."""
    assert done.returncode == 125, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == b""
    lines = said(done)
    assert len(lines) <= 2, lines
    for word in words:
        assert word in "\n".join(lines), lines
    return lines


@pytest.fixture
def tree(tmp_path):
    """A directory that may be mounted, and the option that allows it."""
    base = tmp_path / "base"
    base.mkdir()
    return base


# --- the program ---------------------------------------------------------------------------------------------


def test_file(run, tmp_path):
    program = tmp_path / "prog.py"
    program.write_text("import sys; print(sys.argv, __file__)")
    r = run("run", program, "a", "--memory", "-x", "", "ä b")
    assert r.stdout.decode() == "['prog.py', 'a', '--memory', '-x', '', 'ä b'] /workspace/prog.py\n"
    assert r.returncode == 0 and r.stderr == b""


def test_stdin_is_the_program(run):
    r = run("run", "-", "x", input=b"import sys; print(sys.argv[1:], sys.stdin.read() == '')")
    assert r.stdout == b"['x'] True\n"


def test_code(run):
    assert run("run", "-c", "import sys; print(sys.argv[1:])", "--", "-c", "d").stdout == b"['-c', 'd']\n"
    assert run("run", "-c", "import sys; print(sys.argv[1:])", "a", "-c", "d").stdout == b"['a', '-c', 'd']\n"
    assert run("run", "--code=print(2)").stdout == b"2\n"
    assert run("run", "--", "/dev/null").returncode == 0


def test_program_named_like_an_option(run, tmp_path):
    (tmp_path / "-odd.py").write_text("print('odd')")
    assert run("run", "--", "-odd.py", cwd=tmp_path).stdout == b"odd\n"
    assert run("run", "./-odd.py", cwd=tmp_path).stdout == b"odd\n"


@pytest.mark.parametrize("name", ["with space.py", "ünï.py", "a'b\".py", "x" * 250, ".hidden", "$(id).py"])
def test_program_with_an_odd_name(run, tmp_path, name):
    (tmp_path / name).write_text("print('ran')")
    r = run("run", tmp_path / name)
    assert r.stdout == b"ran\n", r.stderr


def test_program_with_bytes_that_are_no_text(run, tmp_path):
    (tmp_path / "p.sh").write_bytes(b"printf '\\xff\\x00\\xfe'\n")
    assert run("run", "--shell", tmp_path / "p.sh").stdout == b"\xff\x00\xfe"


def test_empty_program(run):
    r = run("run", "-", input=b"")
    assert r.returncode == 0 and r.stdout == b"" and r.stderr == b""


def test_the_largest_program(run):
    r = run("run", "-", input=b"#" * (16 * MIB - 9) + b"\nprint(1)")
    assert r.stdout == b"1\n"


def test_shell(run):
    r = run("run", "--shell", "-", "one", "two words", input=b'echo "$0|$1|$2|$#"; exit 5')
    assert r.stdout == b"__main__.sh|one|two words|2\n" and r.returncode == 5
    assert run("run", "-s", "-c", "echo $BASH_VERSION").stdout != b"\n"


def test_interpreter(run):
    assert run("run", "--interpreter", "/bin/cat", "-c", "as it is").stdout == b"as it is"
    assert run("run", "--interpreter", "cat", "-c", "by path").stdout == b"by path"


def test_many_arguments(run):
    r = run("run", "-c", "import sys; print(len(sys.argv))", *["x"] * 3000)
    assert r.stdout == b"3001\n"


def test_help(run):
    r = run("run", "--help")
    assert r.returncode == 0 and r.stderr == b"" and r.stdout.startswith(b"usage: glovebox run")
    for option in ("--memory", "--timeout", "--out", "--mount", "--json", "--tty", "--accept-missing"):
        assert option.encode() in r.stdout
    assert run("run", "-h").stdout == r.stdout


# --- input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["pipe", "file", "option", "letter"])
def test_large_binary_input_comes_through(run, tmp_path, way):
    data = os.urandom(5 * MIB) + b"\0\xff\n"
    path = tmp_path / "data"
    path.write_bytes(data)
    code = "exec cat"
    if way == "pipe":
        r = run("run", "--shell", "--stdin", "-c", code, input=data)
    elif way == "letter":
        r = run("run", "--shell", "-i", "-c", code, input=data)
    elif way == "file":
        with open(path, "rb") as f:
            r = run("run", "--shell", "--stdin", "-c", code, stdin=f)
    else:
        r = run("run", "--shell", f"--stdin={path}", "-c", code)
    assert r.returncode == 0 and hashlib.sha256(r.stdout).digest() == hashlib.sha256(data).digest()


def test_input_that_nobody_reads(run):
    assert run("run", "--stdin", "-c", "print(1)", input=b"x" * MIB).stdout == b"1\n"


def test_input_that_is_half_read(run):
    r = run("run", "--stdin", "-c", "import os; os.read(0, 10); os.close(0); print(1)", input=b"x" * MIB)
    assert r.stdout == b"1\n" and r.returncode == 0


def test_input_that_never_comes(start):
    """The program ends although our standard input is still open."""
    p = start("run", "--stdin", "-c", "print(1)")
    assert p.stdout.read() == b"1\n" and p.wait(30) == 0


def test_no_input_unless_asked(run):
    assert run("run", "-c", "import sys; print(repr(sys.stdin.read()))", input=b"secret").stdout == b"''\n"


def test_input_from_a_device_is_endless(run):
    r = run("run", "--stdin=/dev/zero", "-c", "import sys; print(len(sys.stdin.buffer.read(300000)))")
    assert r.stdout == b"300000\n" and r.returncode == 0


# --- environment ---------------------------------------------------------------------------------------------


def test_environment(run):
    code = "import os; print(os.environ['A'], os.environ['B'], repr(os.environ['C']), 'SECRET' in os.environ)"
    r = run("run", "--env", "A=1", "-e", "B", "--env=C=", "-c", code,
            env={**os.environ, "B": "from the caller", "SECRET": "x"})
    assert r.stdout == b"1 from the caller '' False\n"


def test_environment_overrides(run):
    r = run("run", "-e", "HOME=/x", "-e", "A=1", "-e", "A=2=3", "-e", "Ü=ä", "-c",
            "import os; print(os.environ['HOME'], os.environ['A'], os.environ['Ü'])")
    assert r.stdout.decode() == "/x 2=3 ä\n"


def test_environment_with_odd_bytes(run):
    value = "a\nb\x1b[31m'\"$(id)"
    r = run("run", "-e", f"A={value}", "-c", "import os; print(repr(os.environ['A']))")
    assert r.stdout.decode() == repr(value) + "\n"


# --- files in ------------------------------------------------------------------------------------------------


def test_files_in(run, tmp_path):
    for name, mode in (("a.txt", 0o644), ("tool", 0o755), ("private", 0o600), ("none", 0o444)):
        (tmp_path / name).write_text(name)
        (tmp_path / name).chmod(mode)
    r = run("run", "-f", tmp_path / "a.txt", "--file", f"{tmp_path}/tool:bin/deep/er/tool",
            f"--file={tmp_path}/private:p", "-f", tmp_path / "none", "-c", """
import os
for name in ("a.txt", "bin/deep/er/tool", "p", "none"):
    st = os.stat(name)
    print(name, oct(st.st_mode & 0o7777), st.st_uid == os.getuid(), open(name).read())
""")
    assert r.stdout.decode().splitlines() == [
        "a.txt 0o644 True a.txt", "bin/deep/er/tool 0o755 True tool", "p 0o600 True private",
        "none 0o444 True none"]


def test_special_mode_bits_do_not_come_along(run, tmp_path):
    (tmp_path / "f").write_text("")
    (tmp_path / "f").chmod(0o6755)
    assert run("run", "-f", tmp_path / "f", "-c", "import os; print(oct(os.stat('f').st_mode))").stdout == \
        b"0o100755\n"


def test_large_file_in(run, tmp_path):
    data = os.urandom(8 * MIB)
    (tmp_path / "f").write_bytes(data)
    r = run("run", "-f", tmp_path / "f", "-c",
            "import hashlib; print(hashlib.sha256(open('f', 'rb').read()).hexdigest())")
    assert r.stdout.decode().strip() == hashlib.sha256(data).hexdigest()


def test_file_that_does_not_fit(run, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * MIB)
    refused(run("run", "-f", tmp_path / "f", "--workspace", "512K", "-c", "pass"), "No space left")


def test_later_file_wins(run, tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    r = run("run", "-f", f"{tmp_path}/a:x", "-f", f"{tmp_path}/b:x", "-c", "print(open('x').read())")
    assert r.stdout == b"b\n"


BAD_PLACES = ["/etc/passwd", "..", "../x", "a/../../x", ".", "a/./b", "a//b", "", "a/", "x\ny", "x\x1b[2J",
              "y" * 300, "a/" * 3000 + "b"]


@pytest.mark.parametrize("dest", BAD_PLACES, ids=lambda dest: repr(dest[:20]))
def test_file_to_a_bad_place(run, tmp_path, dest):
    (tmp_path / "f").write_text("")
    refused(run("run", "-f", f"{tmp_path}/f:{dest}", "-c", "pass"), "--file")


# --- files out -----------------------------------------------------------------------------------------------


def test_files_out(run, tmp_path):
    (tmp_path / "same").write_text("same")
    (tmp_path / "changed").write_text("before")
    (tmp_path / "touched").write_text("touched")
    out = tmp_path / "out"
    r = run("run", "-f", tmp_path / "same", "-f", tmp_path / "changed", "-f", tmp_path / "touched",
            "--out", out, "--json", "-c", """
import os
open("new", "w").write("new")
open("changed", "w").write("after")
os.makedirs("a/b/c")
open("a/b/c/deep", "w").write("deep")
open("tool", "w").write("#!")
os.chmod("tool", 0o755)
os.symlink("new", "link"); os.symlink("/etc/passwd", "outside"); os.symlink("/etc", "dir")
os.mkfifo("fifo")
os.makedirs("empty")
open("/tmp/elsewhere", "w").write("x")
open("same").read()
""")
    result = json.loads(r.stdout)
    assert result["exit_code"] == 0
    assert sorted(result["files"]) == ["a/b/c/deep", "changed", "new", "tool"]
    found = sorted(str(p.relative_to(out)) for p in out.rglob("*") if not p.is_dir() or p.is_symlink())
    assert found == ["a/b/c/deep", "changed", "new", "tool"]
    assert (out / "changed").read_text() == "after" and (out / "a/b/c/deep").read_text() == "deep"
    assert os.access(out / "tool", os.X_OK) and not os.access(out / "new", os.X_OK)
    assert (out / "new").stat().st_uid == os.getuid()


def test_files_out_without_special_bits(run, tmp_path):
    out = tmp_path / "out"
    run("run", "-o", out, "-c", "import os; open('s', 'w').close(); os.chmod('s', 0o6777)")
    assert not (out / "s").exists() or (out / "s").stat().st_mode & 0o7000 == 0


def test_files_out_of_a_program_that_fails(run, tmp_path):
    out = tmp_path / "out"
    assert run("run", "-o", out, "-c", "open('f', 'w').write('x'); raise SystemExit(9)").returncode == 9
    assert (out / "f").read_text() == "x"


def test_files_out_of_a_program_that_timed_out(run, tmp_path):
    out = tmp_path / "out"
    assert run("run", "--timeout", "500ms", "-o", out, "-c",
               "open('f', 'w').write('x'); import time; time.sleep(100)").returncode == 124
    assert (out / "f").read_text() == "x"


def test_hard_links_and_rewrites_out(run, tmp_path):
    (tmp_path / "same").write_text("same")
    out = tmp_path / "out"
    run("run", "-f", tmp_path / "same", "-o", out, "-c", """
import os
open("a", "w").write("one")
os.link("a", "b")
os.rename("same", "moved")
""")
    assert (out / "a").read_text() == (out / "b").read_text() == "one"
    assert (out / "moved").read_text() == "same" and not (out / "same").exists()


def test_names_with_control_characters_stay(run, tmp_path):
    out = tmp_path / "out"
    r = run("run", "-o", out, "-c", """
for name in (b"good", "\\u00fc \\u6f22".encode(), b"a\\nb", b"\\x1b[31mred", b"tab\\t", b"\\x7f"):
    open(name, "w").write("x")
""")
    assert r.returncode == 0
    assert sorted(os.listdir(out)) == ["good", "ü 漢"]
    assert len(said(r)) == 1 and "not collected" in said(r)[0] and b"\x1b" not in r.stderr


def test_names_that_are_no_text(run, tmp_path):
    """Bytes that are no UTF-8 are legal file names: kept as they are, or left with a warning; JSON stays JSON."""
    out = tmp_path / "out"
    r = run("run", "--json", "-o", out, "-c", "open(b'\\xff\\xfe', 'w').write('x')")
    assert r.returncode == 0
    files = json.loads(r.stdout)["files"]
    assert os.listdir(os.fsencode(out)) in ([b"\xff\xfe"], []) and len(files) <= 1


@pytest.mark.more
def test_thousand_files_out(run, tmp_path):
    out = tmp_path / "out"
    r = run("run", "-o", out, "-c", """
import os
for i in range(1000):
    os.makedirs(f"d{i % 7}", exist_ok=True)
    open(f"d{i % 7}/f{i}", "w").write(str(i))
""")
    assert r.returncode == 0, r.stderr
    assert sorted(int(p.read_text()) for p in out.rglob("f*")) == list(range(1000))


def test_deep_tree_out(run, tmp_path):
    out = tmp_path / "out"
    r = run("run", "-o", out, "-c", """
import os
open("top", "w").write("x")
for i in range(30):
    os.mkdir("d" * 200); os.chdir("d" * 200)
open("bottom", "w").write("x")
""")
    # Deeper than a path is long.
    assert r.returncode == 0 and (out / "top").exists()
    assert len(said(r)) == 1 and "not collected" in said(r)[0]


def test_a_tree_as_deep_as_a_path_is_long_out(run, tmp_path):
    out = tmp_path / "out"
    r = run("run", "-o", out, "-c", "import os\nos.makedirs('d/' * 400)\nopen('d/' * 400 + 'bottom', 'w').write('x')")
    assert r.returncode == 0 and r.stderr == b""
    assert (out / ("d/" * 400) / "bottom").read_text() == "x"


def test_unreadable_files_out(run, tmp_path):
    """The program's own doing, so no failure of Glovebox: the rest is collected and it is said."""
    out = tmp_path / "out"
    r = run("run", "-o", out, "-c", """
import os
open("a", "w").write("a")
open("b", "w").write("b"); os.chmod("b", 0)
open("c", "w").write("c")
os.mkdir("d"); open("d/e", "w"); os.chmod("d", 0)
""")
    assert r.returncode == 0, r.stderr
    assert (out / "a").exists() and (out / "c").exists() and "not collected" in said(r)[0]


def test_sparse_file_larger_than_the_workspace_stays(run, tmp_path):
    out = tmp_path / "out"
    r = run("run", "-o", out, "--workspace", "1M", "--file-size", "1T", "-c", """
import os
open("small", "w").write("x")
os.truncate(os.open("giant", os.O_CREAT | os.O_RDWR), 1 << 39)
""")
    assert r.returncode == 0 and os.listdir(out) == ["small"] and "not collected" in said(r)[0]


def test_out_into_planted_links(run, tmp_path):
    """The target is somebody's directory: no name in it leads elsewhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    canary = outside / "canary"
    canary.write_text("untouched")
    out = tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    (out / "file").symlink_to(canary)
    (out / "hard").hardlink_to(canary)
    (out / "sub" / "file").symlink_to(canary)
    (out / "broken").symlink_to(outside / "new")
    r = run("run", "-o", out, "-c", """
import os
os.mkdir("sub")
for name in ("file", "hard", "sub/file", "broken"):
    open(name, "w").write("from the box")
""")
    assert r.returncode == 0, r.stderr
    assert canary.read_text() == "untouched" and os.listdir(outside) == ["canary"]
    for name in ("file", "hard", "sub/file", "broken"):
        assert not (out / name).is_symlink() and (out / name).read_text() == "from the box"


def test_out_into_a_planted_directory_link(run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    out = tmp_path / "out"
    out.mkdir()
    (out / "sub").symlink_to(outside)
    r = run("run", "-o", out, "-c", "import os; os.mkdir('sub'); open('sub/f', 'w').write('x')")
    assert os.listdir(outside) == [] and (out / "sub").is_symlink()
    refused(r, "sub")


def test_out_where_a_directory_has_the_name_of_a_file(run, tmp_path):
    out = tmp_path / "out"
    (out / "f" / "x").mkdir(parents=True)
    refused(run("run", "-o", out, "-c", "open('f', 'w').write('x')"), "f")
    assert sorted(os.listdir(out)) == ["f"], "no half-written file stays"


def test_out_leaves_what_is_there(run, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    assert run("run", "-o", out, "-c", "open('theirs', 'w').write('x')").returncode == 0
    assert (out / "mine").read_text() == "mine" and (out / "theirs").read_text() == "x"


def test_out_with_nothing_to_collect(run, tmp_path):
    assert run("run", "-o", tmp_path / "out", "-c", "pass").returncode == 0
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("place", ["missing/dir", "file", "file/below", "/proc/nowhere"])
def test_out_that_cannot_be_written(run, tmp_path, place):
    (tmp_path / "file").write_text("")
    refused(run("run", "-o", tmp_path / place, "-c", "open('f', 'w').write('x'); print('ran')"), place)


def test_out_without_a_name(run):
    refused(run("run", "--out", "", "-c", "print('ran')"), "--out")


@NEEDS_ROOT
def test_out_to_a_full_disk(run, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", out], check=True)
    try:
        r = run("run", "-o", out, "-c", "open('small', 'w').write('x'); open('t', 'w').write('x' * 3000000)")
        assert r.returncode == 125 and "No space left" in r.stderr.decode() and len(said(r)) <= 2
        assert os.listdir(out) == ["small"], "no half-written file stays"
    finally:
        subprocess.run(["umount", out], check=True)


# --- host directories ----------------------------------------------------------------------------------------


def test_mount_is_read_only_unless_asked(run, tree):
    (tree / "f").write_text("host")
    r = run("run", "--mount-root", tree, "--mount", f"{tree}:/mnt/x", "-c", """
print(open("/mnt/x/f").read())
for what in (lambda: open("/mnt/x/f", "w"), lambda: open("/mnt/x/new", "w"), lambda: __import__("os").unlink("/mnt/x/f")):
    try:
        what()
        print("written")
    except OSError as e:
        print(e.errno)
""")
    assert r.stdout.split() == [b"host"] + [b"30"] * 3 or r.stdout.split() == [b"host"] + [b"13"] * 3
    assert (tree / "f").read_text() == "host" and os.listdir(tree) == ["f"]


def test_mount_at_its_own_name(run, tree):
    (tree / "f").write_text("host")
    assert run("run", "--mount-root", tree, "-m", tree, "-c", "print(open('/mnt/base/f').read())").stdout == \
        b"host\n"
    assert run("run", "-m", tree, "-c", "print(open('/mnt/base/f').read())", cwd=tree.parent).stdout == b"host\n"


def test_mount_below_the_home_directory(run, tree, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tree / "f").write_text("host")
    r = run("run", "-m", tree, "-c", "print(open('/mnt/base/f').read())", cwd=elsewhere,
            env={**os.environ, "HOME": str(tree)})
    assert r.stdout == b"host\n"


def test_mount_rw_belongs_to_the_caller(run, tree):
    (tree / "old").write_text("before")
    r = run("run", "--mount-root", tree, "-m", f"{tree}:/mnt/x:rw", "-c", """
import os
print(os.stat("/mnt/x/old").st_uid == os.getuid(), os.stat("/mnt/x").st_gid == os.getgid())
open("/mnt/x/old", "a").write(" and after")
os.makedirs("/mnt/x/d/e")
open("/mnt/x/d/e/new", "w").write("new")
os.symlink("/etc/passwd", "/mnt/x/link")
os.rename("/mnt/x/d", "/mnt/x/D")
""")
    assert r.returncode == 0, r.stderr
    assert r.stdout == b"True True\n"
    assert (tree / "old").read_text() == "before and after"
    for path in (tree / "old", tree / "D", tree / "D/e", tree / "D/e/new", tree / "link"):
        st = path.lstat()
        assert (st.st_uid, st.st_gid) == (os.getuid(), os.getgid()), path


def test_mount_rw_gives_no_setuid_and_no_device(run, tree):
    r = run("run", "--root", "--mount-root", tree, "-m", f"{tree}:/mnt/x:rw", "-c", """
import os, shutil, stat
for what in (lambda: os.mknod("/mnt/x/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
             lambda: os.mknod("/mnt/x/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0))):
    try:
        what()
        print("made")
    except OSError:
        print("refused")
shutil.copy("/bin/cat", "/mnt/x/cat")
try:
    os.chmod("/mnt/x/cat", 0o6755)
except OSError:
    pass
""")
    assert r.stdout == b"refused\nrefused\n"
    assert (tree / "cat").stat().st_mode & 0o6000 == 0, "a program that the host would run with its owner's rights"


@NEEDS_ROOT
def test_files_of_others_in_a_mount(run, tree):
    """What belongs to somebody else is nobody's in the box, and stays unwritable and unreadable there."""
    (tree / "theirs").write_text("theirs")
    os.chown(tree / "theirs", 12345, 12345)
    (tree / "theirs").chmod(0o600)
    r = run("run", "--mount-root", tree, "-m", f"{tree}:/mnt/x:rw", "-c", """
import os
print(os.stat("/mnt/x/theirs").st_uid)
try:
    open("/mnt/x/theirs").read()
    print("read")
except OSError as e:
    print(e.errno)
""")
    assert r.stdout.split()[1:] == [b"13"] and r.stdout.split()[0] == b"65534"


def test_mount_does_not_carry_mounts_below(run, tree, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    (tree / "below").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tree / "below"], check=True)
    try:
        (tree / "below" / "secret").write_text("x")
        r = run("run", "--mount-root", tree, "-m", f"{tree}:/mnt/x", "-c",
                "import os; print(os.listdir('/mnt/x/below'))")
        assert r.stdout == b"[]\n"
    finally:
        subprocess.run(["umount", tree / "below"], check=True)


def test_two_mounts_nested(run, tree):
    for name in ("a", "b"):
        (tree / name).mkdir()
        (tree / name / name).write_text(name)
    (tree / "a" / "inner").mkdir()
    r = run("run", "--mount-root", tree, "-m", f"{tree}/a:/mnt/x", "-m", f"{tree}/b:/mnt/x/inner:rw", "-c", """
import os
print(sorted(os.listdir("/mnt/x")), os.listdir("/mnt/x/inner"))
open("/mnt/x/inner/new", "w").close()
""")
    assert r.stdout == b"['a', 'inner'] ['b']\n", r.stderr
    assert (tree / "b" / "new").exists()


def test_mount_into_the_workspace(run, tree):
    (tree / "f").write_text("x")
    r = run("run", "--mount-root", tree, "-m", f"{tree}:/workspace/data:rw", "-c", """
import os
open("data/g", "w").write("y")
open("own", "w").write("z")
print(sorted(os.listdir("data")))
""")
    assert r.stdout == b"['f', 'g']\n", r.stderr
    assert (tree / "g").read_text() == "y"


@pytest.mark.parametrize("at", ["relative", "", "/", "/mnt/../etc", "/mnt/./x", "/mnt//x", "/mnt/x/", "/mnt/\x1b"])
def test_mount_at_a_bad_place(run, tree, at):
    refused(run("run", "--mount-root", tree, "-m", f"{tree}:{at}:ro", "-c", "pass"), "mount")


@pytest.mark.parametrize("at", ["/usr", "/etc/passwd", "/proc", "/proc/sys", "/dev", "/bin"])
def test_mount_over_the_boxs_own(run, tree, at):
    """Refused, or done without harm: what the mount hides is not what keeps the box closed."""
    r = run("run", "--mount-root", tree, "-m", f"{tree}:{at}:rw", "-c", "print(open('/proc/sys/kernel/hostname').read())")
    if r.returncode != 0:
        assert r.returncode in (125, 127, 1) and r.stderr


def test_mount_outside_the_allowed_roots(run, tree, tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    lines = refused(run("run", "--mount-root", inside, "-m", tree, "-c", "pass"), str(tree), "--mount-root")
    assert len(lines) == 2
    refused(run("run", "-m", "/etc", "-c", "pass", cwd=inside, env={**os.environ, "HOME": str(inside)}), "/etc")
    refused(run("run", "--mount-root", inside, "-m", f"{inside}/../base", "-c", "pass"), "base")
    # A name that only begins alike is not below.
    (tmp_path / "inside-not").mkdir()
    refused(run("run", "--mount-root", inside, "-m", tmp_path / "inside-not", "-c", "pass"), "inside-not")


def test_mount_through_a_link_that_leads_out(run, tree, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tree / "link").symlink_to(outside)
    refused(run("run", "--mount-root", tree, "-m", tree / "link", "-c", "pass"), "outside")


def test_mount_of_what_is_not_there(run, tree):
    refused(run("run", "--mount-root", tree, "-m", tree / "nothing", "-c", "pass"), "nothing")
    (tree / "file").write_text("")
    refused(run("run", "--mount-root", tree, "-m", tree / "file", "-c", "pass"), "file")


def test_mount_root_that_is_not_there(run, tree):
    refused(run("run", "--mount-root", tree / "nothing", "-c", "pass"), "nothing")


# --- JSON ----------------------------------------------------------------------------------------------------

SHAPE = {
    "exit_code": int, "signal": type(None), "timed_out": bool, "oom": bool, "truncated": dict, "stdout": str,
    "stderr": str, "figures": dict, "limits": dict, "layers": list, "files": list, "refused_syscalls": list, "error": type(None)}


def test_json_shape(box_json):
    r = box_json("import sys; print('out'); print('err', file=sys.stderr)")
    assert r.pop("said") == "" and r.pop("status") == 0
    assert {k: type(v) for k, v in r.items()} == SHAPE
    assert r["stdout"] == "out\n" and r["stderr"] == "err\n"
    assert {"wall_ms", "cpu_ms", "peak_memory_bytes", "measured_by"} <= set(r["figures"])
    assert "seccomp" in r["layers"] and "user-namespace" in r["layers"]


def test_json_of_a_refusal(run):
    r = run("run", "--json", "--memory", "x", "-c", "pass")
    assert r.returncode == 125
    error = json.loads(r.stdout)["error"]
    assert set(error) == {"code", "message", "hint"} and "--memory" in error["message"]
    r = run("run", "--json", "/nothing/there.py")
    assert r.returncode == 125 and "/nothing/there.py" in json.loads(r.stdout)["error"]["message"]


def test_json_of_any_bytes(box_json):
    """Whatever a program prints, the object can be parsed, and text comes back as it was."""
    r = box_json("import os; os.write(1, bytes(range(256)) * 3); os.write(2, b'\\xed\\xa0\\x80 \\xf8 \\xc0\\x80')")
    assert r["stdout"].startswith("".join(map(chr, range(128)))) and r["stderr"]
    r["stdout"].encode(), r["stderr"].encode()  # no lone surrogate
    text = "ä 漢字 \U0001f600 \u2028 </script> \" \\ \x00 \x7f"
    r = box_json(f"import sys; sys.stdout.write({text!r})")
    assert r["stdout"] == text


@pytest.mark.parametrize("args", [["--json", "--shell"], ["--tty", "--json", "-c", "pass"], ["--json", "--nonsense"]])
def test_json_of_a_wrong_call(run, args):
    r = run("run", *args)
    assert r.returncode == 125 and json.loads(r.stdout)["error"]["message"]


def test_json_is_one_line(run):
    r = run("run", "--json", "-c", "print('a\\nb')")
    assert r.stdout.count(b"\n") == 1 and r.stdout.endswith(b"\n")


# --- bad input -----------------------------------------------------------------------------------------------

NUMBERS = ["memory", "cpus", "cpu-seconds", "processes", "output-limit", "file-size", "workspace",
           "workspace-inodes", "open-files", "scratch", "shm", "timeout"]


@pytest.mark.parametrize("option", NUMBERS)
def test_bad_numbers(run, option):
    for value in ("", "x", "-1", "1e3", "0x10", "1..2", "99999999999999999999999", "1 G", " 1", "1,5", "nan", "inf",
                  "1Q", "+5", "1.", ".5", "5\n", "18446744073709551616", "9223372036854775807"):
        refused(run("run", f"--{option}={value}", "-c", "print('ran')"), f"--{option}")


@pytest.mark.parametrize("option, value", [("memory", "1M"), ("memory", "5T"), ("cpus", "0"), ("cpus", "5000"),
                                           ("processes", "3"), ("processes", "40000"), ("open-files", "15"),
                                           ("workspace", "1K"), ("workspace", "2T"), ("timeout", "9000h"),
                                           ("workspace-inodes", "1"), ("cpu-seconds", "40000000")])
def test_numbers_out_of_range(run, option, value):
    refused(run("run", f"--{option}", value, "-c", "print('ran')"), f"--{option}", value)


@pytest.mark.parametrize("args, words", [
    (["--nonsense", "-c", "pass"], ["unknown option", "--nonsense", "--help"]),
    (["-Z", "-c", "pass"], ["unknown option", "-Z"]),
    (["--memor", "1G", "-c", "pass"], ["unknown option"]),
    (["--json=yes", "-c", "pass"], ["--json", "no value"]),
    (["--memory"], ["--memory", "needs a value"]),
    (["-c"], ["--code", "needs a value"]),
    ([], ["no program"]),
    (["--env", "=x", "-c", "pass"], ["--env"]),
    (["--env", "", "-c", "pass"], ["--env"]),
    (["--env", "NOT_SET_ANYWHERE", "-c", "pass"], ["NOT_SET_ANYWHERE"]),
    (["--accept-missing", "nonsense", "-c", "pass"], ["nonsense", "layer"]),
    (["--accept-missing", "seccomp,nonsense", "-c", "pass"], ["nonsense"]),
    (["--cgroup", "relative", "-c", "pass"], ["--cgroup"]),
    (["--tty", "--stdin", "-c", "pass"], ["--tty"]),
    (["--stdin", "-"], ["standard input"]),
    (["--stdin=/nothing/there", "-c", "pass"], ["/nothing/there"]),
    (["--file", "/nothing/there", "-c", "pass"], ["/nothing/there"]),
    (["--file", "/etc", "-c", "pass"], ["/etc", "--mount"]),
    (["--file", "/dev/zero", "-c", "pass"], ["/dev/zero"]),
    (["--file", "", "-c", "pass"], ["--file"]),
    (["--file", ":x", "-c", "pass"], ["--file"]),
    (["/nothing/there.py"], ["/nothing/there.py"]),
    (["/etc"], ["/etc"]),
    ([""], ["open ''"]),
    (["--interpreter", "/nothing/there", "-c", "pass"], ["/nothing/there"]),
    (["--interpreter", "nothing-there", "-c", "pass"], ["nothing-there"]),
    (["--interpreter", "/etc/passwd", "-c", "pass"], ["/etc/passwd"]),
    (["--interpreter", "/usr", "-c", "pass"], ["/usr"]),
    (["--mount", "", "-c", "pass"], ["--mount"]),
    (["--mount", ":", "-c", "pass"], ["--mount"]),
    (["--code", "pass", "--code"], ["--code"]),
])
def test_bad_input(run, args, words):
    refused(run("run", *args), *words)


def test_control_characters_do_not_reach_the_terminal(run):
    refused(run("run", "/no\x1b[31m\nwhere"))
    refused(run("run", "--\x1b]0;x\x07"))


@NEEDS_ROOT
def test_unreadable_program(run, tmp_path):
    """As a user who may not read it."""
    program = tmp_path / "p.py"
    program.write_text("print(1)")
    program.chmod(0)
    for p in (tmp_path, *tmp_path.parents):
        if p.stat().st_uid == os.getuid() and str(p).startswith("/tmp/"):
            p.chmod(0o755)
    refused(run("run", program, user=12345, group=12345, extra_groups=[]), "p.py", "Permission denied")


def test_program_that_is_too_large(run, tmp_path):
    refused(run("run", "-", input=b"#" * (16 * MIB + 1)), "16 MiB")
    (tmp_path / "p.py").write_bytes(b"#" * (16 * MIB + 1))
    refused(run("run", tmp_path / "p.py"), "16 MiB")
    refused(run("run", "/dev/zero"), "16 MiB")


def test_program_that_does_not_fit(run):
    refused(run("run", "--workspace", "64K", "-", input=b"#" * 100000), "__main__.py", "No space left")


def test_program_above_the_file_size(run):
    refused(run("run", "--file-size", "64K", "-", input=b"#" * 100000), "__main__.py", "File too large")


@pytest.mark.parametrize("arguments", [["x"] * 5000, ["x" * 100000] * 15], ids=["many", "long"])
def test_too_many_arguments(run, arguments):
    lines = refused(run("run", "-c", "print('ran')", *arguments))
    assert "argument" in lines[0].lower(), lines


def test_too_much_environment(run):
    variables = [a for i in range(5000) for a in ("-e", f"A{i}=1")]
    refused(run("run", *variables, "-c", "print('ran')"), "environment")
    refused(run("run", "-e", "A=" + "x" * 120000, *[a for i in range(15) for a in ("-e", f"B{i}=" + "x" * 100000)],
                "-c", "print('ran')"), "environment")


def test_too_many_files_and_mounts(run, tree):
    (tree / "f").write_text("")
    done = run("run", *[a for i in range(2000) for a in ("-f", f"{tree}/f:f{i}")], "-c", "print('ran')")
    if done.returncode:
        refused(done, "files")
    refused(run("run", "--mount-root", tree, *[a for i in range(200) for a in ("-m", f"{tree}:/mnt/m{i}")],
                "-c", "print('ran')"), "mounts")


def test_unknown_verb(run):
    r = run("no-such-verb")
    assert r.returncode == 125 or r.returncode == 2
    assert b"no-such-verb" in r.stderr


def test_a_program_file_that_is_a_fifo_without_writer(start, tmp_path):
    """Ctrl-C ends it also before there is a box."""
    os.mkfifo(tmp_path / "fifo")
    p = start("run", tmp_path / "fifo")
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    assert p.wait(30) in (130, -signal.SIGINT, 125)


# --- what the caller left us with ----------------------------------------------------------------------------


ODD_CALLERS = {
    "SIGCHLD ignored": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "all signals blocked": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
    "all signals ignored": lambda: [signal.signal(s, signal.SIG_IGN) for s in signal.valid_signals()
                                    if s not in (signal.SIGKILL, signal.SIGSTOP)],
    "umask 777": lambda: os.umask(0o777),
    "no stdin": lambda: os.close(0),
    "current directory gone": lambda: (os.mkdir("gone"), os.chdir("gone"), os.rmdir("../gone")),
    "another session": os.setsid,
}


@pytest.mark.parametrize("prepare", ODD_CALLERS.values(), ids=ODD_CALLERS.keys())
def test_odd_callers(glovebox, tmp_path, prepare):
    """A run works whatever state its caller hands down: a service manager, cron, a careless parent."""
    p = subprocess.Popen([glovebox, "run", "--timeout", "20", "-c", "print('ran')"], cwd=tmp_path,
                         preexec_fn=prepare, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    keeper = None
    try:
        out, err = p.communicate(timeout=8)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(BaseException):
            keeper = keeper_of(p)
        p.kill()
        if keeper:
            os.kill(keeper, signal.SIGKILL)
        p.communicate()
        subprocess.run([glovebox, "run", "-c", "pass"], check=False)  # sweeps
        pytest.fail("no end after 8 s")
    assert (p.returncode, out, err) == (0, b"ran\n", b"")


def test_closed_output(run):
    """Nothing that a program prints may end up in a descriptor that took the number of a closed one."""
    for numbers in ((1,), (2,), (1, 2), (0, 1, 2)):
        r = run("run", "-c", "import sys; print('x' * 100000); print('y' * 1000, file=sys.stderr)",
                preexec_fn=lambda n=numbers: [os.close(i) for i in n])
        assert r.returncode == 0


# --- output as it comes --------------------------------------------------------------------------------------


def test_output_is_shown_as_it_comes(start):
    p = start("run", "--stdin", "-c",
              "import sys\nprint('first')\nprint('err', file=sys.stderr)\ninput()\nprint('second')")
    read_until(p.stdout, b"first\n")
    read_until(p.stderr, b"err\n")
    assert p.poll() is None
    p.stdin.write(b"go\n")
    p.stdin.flush()
    assert p.stdout.read() == b"second\n" and p.wait(30) == 0


def test_input_is_passed_as_it_comes(start):
    p = start("run", "--stdin", "--shell", "-c", "while read -r line; do echo \"got $line\"; done; echo end")
    for i in range(20):
        p.stdin.write(b"%d\n" % i)
        p.stdin.flush()
        read_until(p.stdout, b"got %d\n" % i)
    p.stdin.close()
    assert p.stdout.read() == b"end\n" and p.wait(30) == 0


def test_reader_that_goes_away(start):
    """As in `glovebox run ... | head -1`."""
    p = start("run", "-c", "while True: print('x' * 1000)")
    read_until(p.stdout, b"x")
    p.stdout.close()
    assert p.wait(30) == 128 + signal.SIGPIPE
    assert b"Traceback" not in p.stderr.read()


def test_head(glovebox):
    r = subprocess.run(f"'{glovebox}' run -c 'while True: print(1)' | head -2; echo ${{PIPESTATUS[0]}}",
                       shell=True, executable="/bin/bash", stdout=subprocess.PIPE, timeout=60, check=False)
    assert r.stdout == b"1\n1\n141\n"


def test_output_device_that_is_full(run):
    with open("/dev/full", "wb") as full:
        r = run("run", "-c", "print('x' * 100000)", stdout=full)
    assert r.returncode == 125 and b"No space left" in r.stderr


def test_json_to_a_full_device(run):
    with open("/dev/full", "wb") as full:
        r = run("run", "--json", "-c", "print('x' * 100000)", stdout=full)
    assert r.returncode == 125, "half an object is no result"


# --- interruption --------------------------------------------------------------------------------------------


def begun(start, code, *options):
    p = start("run", *options, "-c", "print('begun', flush=True)\n" + code)
    read_until(p.stdout, b"begun\n")
    return p


def test_interrupt_reaches_the_program(start):
    p = start("run", "-c", """
import sys, time
try:
    print("begun", flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(33)
""")
    read_until(p.stdout, b"begun\n")
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == b"interrupted\n" and p.wait(30) == 33


def test_interrupt_unhandled(start):
    p = begun(start, "import time; time.sleep(100)")
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130 and b"KeyboardInterrupt" in p.stderr.read()


def test_interrupt_reaches_a_shell(start):
    p = start("run", "--shell", "-c", "trap 'echo caught; exit 7' INT; echo begun; sleep 100 & wait")
    read_until(p.stdout, b"begun\n")
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == b"caught\n" and p.wait(30) == 7


def test_second_interrupt_ends_it(start):
    p = begun(start, "import signal, time; signal.signal(2, lambda *a: print('one', flush=True))\n"
                     "print('ready', flush=True)\nwhile True: time.sleep(100)")
    read_until(p.stdout, b"ready\n")
    p.send_signal(signal.SIGINT)
    read_until(p.stdout, b"one\n")
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130


@pytest.mark.more
def test_program_that_ignores_the_interrupt_is_ended(start):
    p = begun(start, "import signal, time; signal.signal(2, signal.SIG_IGN)\nprint('deaf', flush=True)\n"
                     "while True: time.sleep(100)")
    read_until(p.stdout, b"deaf\n")
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130


def test_program_that_goes_on_after_the_interrupt_is_not_interrupted_twice(start):
    """One Ctrl-C, a program that handles it and ends by itself in time: its own status counts."""
    p = begun(start, "import signal, time\nsignal.signal(2, lambda *a: print('once', flush=True))\n"
                     "print('ready', flush=True)\ntime.sleep(1)\nraise SystemExit(4)")
    read_until(p.stdout, b"ready\n")
    p.send_signal(signal.SIGINT)
    assert p.stdout.read() == b"once\n" and p.wait(30) == 4


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_termination(start, name):
    p = begun(start, "import time; time.sleep(100)")
    p.send_signal(getattr(signal, name))
    assert p.wait(30) == 128 + getattr(signal, name)


def test_interrupt_while_nobody_reads_our_output(start):
    p = begun(start, "while True: print('x' * 1000)")
    time.sleep(0.5)  # the pipe is full
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGTERM)
    assert p.wait(30) in (130, 143, -signal.SIGTERM)  # the second one may find us cleaning up already


def test_interrupt_with_json(start):
    p = start("run", "--json", "--stdin", "-c", "import time; time.sleep(100)")
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    result = json.loads(p.stdout.read())
    assert p.wait(30) == 130 and "KeyboardInterrupt" in result["stderr"]


def test_kill_of_the_command(start):
    """kill -9: nobody is left to tidy up but the keeper, which does (the leak check sees)."""
    p = begun(start, "import os, time\nos.fork()\ntime.sleep(100)")
    p.kill()
    assert p.wait(30) == -9


def test_kill_of_the_keeper(start):
    p = begun(start, "import time; time.sleep(100)")
    os.kill(keeper_of(p), signal.SIGKILL)
    assert p.wait(30) == 125
    lines = p.stderr.read().decode().splitlines()
    assert len(lines) == 1 and "keeper" in lines[0]


def test_kill_of_the_keeper_with_json(start):
    p = start("run", "--json", "--stdin", "-c", "input()")
    time.sleep(0.5)
    os.kill(keeper_of(p), signal.SIGKILL)
    result = json.loads(p.stdout.read())
    assert p.wait(30) == 125 and "keeper" in result["error"]["message"]


def test_keeper_ignores_the_terminals_signals(start):
    """Ctrl-C goes to the whole process group: the keeper lives on to tidy up."""
    p = start("run", "-c", "print('begun', flush=True)\nimport time\ntime.sleep(100)", start_new_session=True)
    read_until(p.stdout, b"begun\n")
    os.killpg(p.pid, signal.SIGINT)
    assert p.wait(30) == 130 and b"keeper" not in p.stderr.read()


def test_stop_and_continue(start):
    """A stopped command (Ctrl-Z) is no reason to lose anything."""
    p = start("run", "--stdin", "-c", "import sys\nfor l in sys.stdin: print(l, end='', flush=True)")
    p.stdin.write(b"1\n")
    p.stdin.flush()
    read_until(p.stdout, b"1\n")
    p.send_signal(signal.SIGSTOP)
    p.stdin.write(b"2\n")
    p.stdin.close()
    time.sleep(0.2)
    p.send_signal(signal.SIGCONT)
    assert p.stdout.read() == b"2\n" and p.wait(30) == 0


# --- terminal ------------------------------------------------------------------------------------------------


class Terminal:
    """`glovebox run --tty` on a terminal of its own, as a person would sit before it."""

    def __init__(self, glovebox, *args, size=(30, 90)):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execv(glovebox, [str(glovebox), "run", "--tty", *map(str, args)])
            finally:
                os._exit(99)
        self.resize(*size)
        self.status = None

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text)

    def expect(self, text):
        return read_until(self.fd, text)

    def wait(self):
        end = time.monotonic() + 30
        while self.status is None and time.monotonic() < end:
            with contextlib.suppress(OSError):
                if select.select([self.fd], [], [], 0.02)[0]:
                    os.read(self.fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        assert self.status is not None, "no end"
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal(glovebox):
    opened = []

    def call(*args, **kw):
        t = Terminal(glovebox, *args, **kw)
        opened.append(t)
        return t

    yield call
    for t in opened:
        t.close()


def test_tty_is_a_terminal(terminal):
    t = terminal("-c", "import os, sys\nprint(*(os.isatty(i) for i in range(3)), os.ttyname(0), os.environ['TERM'])\n"
                       "print(os.tcgetpgrp(0) == os.getpgrp(), open('/dev/tty').isatty())\nsys.exit(6)")
    t.expect(b"True True True /dev/pts/0 xterm-256color\r\n")
    t.expect(b"True True\r\n")
    assert t.wait() == 6


def test_tty_size_and_resize(terminal):
    t = terminal("-c", """
import os, select, signal, time
def show(*a):
    print("size", *os.get_terminal_size(0), flush=True)
signal.signal(signal.SIGWINCH, show)
print("ready", flush=True)
while os.get_terminal_size(0).columns != 90:
    time.sleep(0.01)
show()
while not select.select([0], [], [], 0.05)[0]:  # not in read(): a signal just before it is seen after it
    pass
""", size=(30, 90))
    t.expect(b"size 90 30\r\n")
    t.resize(11, 44)
    t.expect(b"size 44 11\r\n")
    t.type(b"q\n")
    assert t.wait() == 0


def test_tty_echo_and_lines(terminal):
    t = terminal("--shell", "-c", "read -r line; echo \"<$line>\"; stty -echo; echo quiet; read -r line; echo \"<$line>\"")
    t.type(b"helloo\x7f\n")
    t.expect(b"<hello>\r\n")
    t.expect(b"quiet\r\n")
    t.type(b"secret\n")
    assert b"secret" not in t.expect(b"<secret>\r\n").replace(b"<secret>", b"")
    assert t.wait() == 0


def test_tty_interrupt_character(terminal):
    t = terminal("-c", "import time\ntry:\n    print('begun', flush=True)\n    time.sleep(100)\n"
                       "except KeyboardInterrupt:\n    print('caught', flush=True)\n    raise SystemExit(9)")
    t.expect(b"begun\r\n")
    t.type(b"\x03")
    t.expect(b"caught\r\n")
    assert t.wait() == 9


def test_tty_end_of_input(terminal):
    t = terminal("-c", "import sys; print('begun', flush=True); print(repr(sys.stdin.read()))")
    t.expect(b"begun\r\n")
    t.type(b"abc\n\x04")
    t.expect(b"'abc\\n'\r\n")
    assert t.wait() == 0


def test_tty_gives_the_callers_terminal_back(terminal, glovebox):
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        for code in ("print(1)", "import os; os.kill(os.getpid(), 9)", "import sys; sys.exit(3)"):
            subprocess.run([glovebox, "run", "--tty", "-c", code], stdin=slave, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=60, check=False)
            assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)


def test_tty_gives_the_terminal_back_when_terminated(glovebox):
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        p = subprocess.Popen([glovebox, "run", "--tty", "-c", "print('begun', flush=True); import time; time.sleep(99)"],
                             stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        read_until(p.stdout, b"begun")
        p.terminate()
        assert p.wait(30) == 143
        p.stdout.close()
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)


def test_tty_cannot_push_input_to_the_caller(terminal):
    """TIOCSTI would type commands into the shell that started us."""
    t = terminal("-c", "import fcntl, os, termios\ntry:\n    fcntl.ioctl(0, termios.TIOCSTI, b'x')\n    print('pushed')\n"
                       "except OSError as e:\n    print('refused', e.errno)")
    t.expect(b"refused")
    assert t.wait() == 0


def test_tty_without_a_terminal(run):
    """Our own standard input is no terminal: it works all the same."""
    r = run("run", "--tty", "-c", "import os; print(os.isatty(0))")
    assert r.returncode == 0 and b"True" in r.stdout


def test_tty_with_many_lines(terminal):
    t = terminal("-c", "for i in range(3000): print(i, 'x' * 50)\nprint('end')")
    seen = t.expect(b"\nend\r\n")
    assert [int(n) for n in re.findall(rb"(?m)^(\d+) x+\r$", seen)] == list(range(3000))
    assert t.wait() == 0


# --- the box -------------------------------------------------------------------------------------------------


def test_root_of_the_box(run):
    r = run("run", "--root", "-c", "import os; print(os.getuid(), os.getgid()); open('f', 'w'); os.chown('f', 0, 0)")
    assert r.stdout == b"0 0\n" and r.returncode == 0, r.stderr


def test_accept_missing_of_what_is_there_changes_nothing(box_json):
    plain = box_json("pass")["layers"]
    assert box_json("pass", "--accept-missing", "seccomp,landlock,memory-limit")["layers"] == plain


def test_every_box_is_fresh(run):
    code = "import os; print(os.listdir('/workspace'), os.listdir('/tmp'), os.listdir('/dev/shm'), " \
           "os.listdir('/home/box')); [open(d + '/left', 'w') for d in ('/tmp', '/dev/shm', '/home/box', '.')]"
    first, second = run("run", "-c", code), run("run", "-c", code)
    assert first.stdout == second.stdout == b"['__main__.py'] [] [] []\n"


def test_copy_of_the_program_elsewhere_works(glovebox, tmp_path):
    """The one file is all there is: no companion beside it is needed."""
    shutil.copy(glovebox, tmp_path / "gb")
    r = subprocess.run([tmp_path / "gb", "run", "-c", "print(1)"], stdout=subprocess.PIPE, check=True, timeout=60)
    assert r.stdout == b"1\n"


def test_a_hangup_that_the_caller_ignores_stays_ignored(start):
    """As nohup(1) has it."""
    p = start("run", "--stdin", "-c", "print('begun', flush=True); print(input())",
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert p.stdout.readline() == b"begun\n"
    p.send_signal(signal.SIGHUP)
    out, _ = p.communicate(b"still here\n", timeout=30)
    assert out == b"still here\n" and p.returncode == 0
