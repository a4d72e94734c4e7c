# SPDX-License-Identifier: Apache-2.0
"""Operations on files of a box, below the server: JOB_FILE and JOB_ATTENDED, by a gate of the test's own."""
import errno
import hashlib
import os
import pathlib
import shutil
import signal
import struct
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from gate import (JOB_ATTENDED, JOB_FILE, JOB_STDIN, NEW, Exit, Failed, Gone, Keeper, changes, entries, etag,  # noqa: E402
                  first_entry)

pytestmark = [pytest.mark.more, pytest.mark.skipif(os.geteuid() != 0, reason="a default box needs root on a cgroup v1 host")]

EXITED, SIGNALED = 0, 1
ENV = ("PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8")
KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture
def keeper(glovebox):
    k = Keeper(glovebox)
    yield k
    k.stop()


@pytest.fixture
def box(keeper):
    return keeper.new_box()


def program(box, *argv, **kw):
    box.last_job += 1
    box.run(box.last_job, *argv, env=ENV, **kw)
    return box.last_job


def sh(box, script):
    """What a script prints, which has to succeed."""
    out, err, end = box.until_exit(program(box, "/bin/bash", "-c", script))
    assert (end.how, end.code) == (EXITED, 0), err
    return out


def python(box, code):
    out, err, end = box.until_exit(program(box, "/usr/bin/python3", "-c", code))
    assert (end.how, end.code) == (EXITED, 0), err
    return out


def done(box, *words, **kw):
    """Standard output of an operation that succeeds."""
    out, err, end = box.file(*words, **kw)
    assert (end.how, end.code, err) == (EXITED, 0, b""), (words, errno.errorcode.get(end.code, end.code), err)
    return out


def refused(box, *words, **kw):
    """The errno of an operation that does not."""
    out, _, end = box.file(*words, **kw)
    assert end.how == EXITED and end.code != 0, words
    assert out == b""
    return end.code


def entry(box, *words, **kw):
    """The one record that an operation says."""
    found = entries(done(box, *words, **kw))
    assert len(found) == 1
    return found[0]


def write(box, path, data=b"", mode="", if_match="", if_none_match="", **kw):
    return entry(box, "write", path, mode, if_match, if_none_match, data=data, **kw)


def read(box, path, links="follow", start="0", count="", if_range="", if_none_match=""):
    """(Entry, bytes)"""
    return first_entry(done(box, "read", path, links, start, count, if_range, if_none_match))


def listed(box, path="", recursive=False, after="", limit=0):
    return [e.path for e in entries(done(box, "list", path, "01"[recursive], after, str(limit)))]


def names(box, path="."):
    return sh(box, f"ls -A {path}").decode().split()


# --- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv, code", [
    (("nonsense", "x"), errno.ENOSYS),
    (("", ""), errno.ENOSYS),
    (("READ", "x"), errno.ENOSYS),
    (("read", "x"), errno.EINVAL),
    (("stat", "x", "follow", "more"), errno.EINVAL),
    (("stat", ".", "maybe"), errno.EINVAL),
    (("read", "x", "maybe", "0", "", "", ""), errno.EINVAL),
    (("mkdir", "x", "888"), errno.EINVAL),
    (("mkdir", "x", "1000"), errno.EINVAL),
    (("mkdir", "x", "-1"), errno.EINVAL),
    (("delete", "x", "yes"), errno.EINVAL),
    (("delete", "x", "11"), errno.EINVAL),
    (("delete", "x", ""), errno.EINVAL),
    (("move", "x", "y", "2"), errno.EINVAL),
    (("list", ".", "0", "", "-1"), errno.EINVAL),
    (("list", ".", "0", "", ""), errno.EINVAL),
    (("watch", ".", "x"), errno.EINVAL),
], ids=lambda v: " ".join(v) if isinstance(v, tuple) else None)
def test_words_that_mean_nothing(box, argv, code):
    assert refused(box, *argv) == code
    assert names(box) == []


def test_an_operation_has_a_path_and_no_terminal(box):
    for argv, flags in ((("tree",), 0), (("tree", "."), 1), (("tree", "."), 4), (("tree", "."), 8)):
        box.last_job += 1
        box.run(box.last_job, *argv, kind=JOB_FILE, flags=flags)
        with pytest.raises(Failed):
            box.until_exit(box.last_job)
    assert done(box, "tree", ".") == b""


# --- stat ----------------------------------------------------------------------------------------------------


def test_stat_of_everything(box):
    sh(box, "mkdir -p d/e; printf hello > d/f; chmod 640 d/f; ln -s f d/l; ln -s nowhere d/dangling; mkfifo d/fifo; ln -s d link; chmod 1777 d")
    found = entry(box, "stat", "d/f")
    assert (found.type, found.flags, found.mode, found.size, found.path, found.target) == ("f", 0, 0o640, 5, b"f", b"")
    assert abs(found.mtime / 1e9 - time.time()) < 60 and found.ctime >= found.mtime and found.inode > 0
    assert entry(box, "stat", "/workspace/d/f") == found
    found = entry(box, "stat", "d")
    assert (found.type, found.mode, found.path) == ("d", 0o1777, b"d")
    assert entry(box, "stat", "d/") == found
    found = entry(box, "stat", "d/l")
    assert (found.type, found.size, found.path, found.target) == ("f", 5, b"l", b"")
    assert entry(box, "stat", "d/l", "follow") == found
    found = entry(box, "stat", "d/l", "nofollow")
    assert (found.type, found.path, found.target) == ("l", b"l", b"f")
    assert entry(box, "stat", "d/dangling", "nofollow").target == b"nowhere"
    assert entry(box, "stat", "d/fifo").type == entry(box, "stat", "/dev/null").type == "o"
    assert entry(box, "stat", "link/e").type == "d"


@pytest.mark.parametrize("path, name", [("", b"."), (".", b"."), ("/", b"."), ("..", b"."), ("d/..", b"."), ("d/.", b"."), ("//usr//bin//", b"bin")])
def test_stat_names_the_last_component(box, path, name):
    sh(box, "mkdir d")
    found = entry(box, "stat", path)
    assert (found.type, found.path) == ("d", name)


@pytest.mark.parametrize("path, code", [
    ("missing", errno.ENOENT), ("missing/x", errno.ENOENT), ("f/x", errno.ENOTDIR), ("dangling", errno.ENOENT), ("loop", errno.ELOOP),
    ("x" * 256, errno.ENAMETOOLONG), ("x/" * 2100, errno.ENAMETOOLONG), ("/proc/1/fd/0", errno.EACCES),
])
def test_stat_of_what_is_not_there(box, path, code):
    sh(box, "touch f; ln -s nowhere dangling; ln -s loop loop")
    assert refused(box, "stat", path) == code


ODD = ["a b", "-rf", "caf\u00e9", "a\nb", "\x1b[2J", "tab\t", "\"quoted\"", "back\\slash", b"\xff\xfe", b"latin\xe9", "n" * 255]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_names_are_bytes(box, name):
    raw = name.encode() if isinstance(name, str) else name
    assert write(box, raw, b"1").path == raw
    assert entry(box, "stat", raw).path == raw
    assert read(box, raw)[0].path == raw
    assert listed(box) == [raw] == [e.path for e in entries(done(box, "tree", "."))]
    assert entry(box, "mkdir", b"dir/" + raw, "").path == raw
    assert listed(box, "dir") == [raw]
    assert entry(box, "move", raw, b"dir/" + raw + b"/" + raw, "1").path == raw
    assert listed(box, recursive=True) == [b"dir", b"dir/" + raw, b"dir/" + raw + b"/" + raw]
    done(box, "delete", b"dir/" + raw, "1")
    assert listed(box, recursive=True) == [b"dir"]


@pytest.mark.parametrize("when", ["1900-01-01", "1970-01-01 00:00:01", "2200-01-01"])
def test_any_time_can_be_told(box, when):
    """tmpfs has them as they are."""
    sh(box, f"TZ=UTC touch -d '{when}' f")
    seconds = int(sh(box, "stat -c %Y f"))
    assert entry(box, "stat", "f").mtime == max(seconds, 0) * 10**9


# --- read ----------------------------------------------------------------------------------------------------


def test_read_sends_the_record_and_the_bytes(box):
    data = os.urandom(3 * MIB + 17)
    written = write(box, "big", data)
    got, rest = read(box, "big")
    assert hashlib.sha256(rest).digest() == hashlib.sha256(data).digest()
    assert got == entry(box, "stat", "big") == written._replace(flags=0)
    write(box, "empty")
    got, rest = read(box, "empty")
    assert (got.size, rest) == (0, b"")
    for size in (1, 65535, 65536, 65537, 65536 - 60, 131072):  # around what is written at once
        write(box, "f", data[:size])
        assert read(box, "f")[1] == data[:size]


@pytest.mark.parametrize("start, count, want", [
    ("0", "", slice(None)), ("0", "10", slice(0, 10)), ("10", "5", slice(10, 15)), ("990", "", slice(990, None)),
    ("990", "5000", slice(990, None)), ("-10", "", slice(990, None)), ("-1000", "", slice(None)), ("-5000", "", slice(None)),
    ("-10", "3", slice(990, 993)), ("500", "99999999999999999999999", slice(500, None)), ("999", "1", slice(999, None)),
    ("1000", "", None), ("1000", "1", None), ("99999999999999999999999", "", None), ("-0", "", None),
])
def test_read_of_a_range(box, start, count, want):
    data = bytes(range(250)) * 4
    write(box, "f", data)
    got, rest = read(box, "f", start=start, count=count)
    assert got.size == 1000
    assert rest == (b"" if want is None else data[want])


def test_read_of_a_range_of_nothing(box):
    write(box, "f")
    for start, count in (("0", ""), ("0", "1"), ("1", ""), ("-1", "")):
        got, rest = read(box, "f", start=start, count=count)
        assert (got.size, rest) == (0, b"")


@pytest.mark.parametrize("start, count", [("", ""), ("x", ""), ("0", "x"), ("--1", ""), ("1.5", ""), (" 1", ""), ("0", "-1")])
def test_read_of_a_range_that_is_none(box, start, count):
    write(box, "f", b"x")
    assert refused(box, "read", "f", "follow", start, count, "", "") == errno.EINVAL


def test_read_with_conditions(box):
    tag = etag(write(box, "f", b"0123456789"))
    assert read(box, "f", if_none_match=tag)[1] == b""
    assert read(box, "f", if_none_match=f'"x", W/{tag}')[1] == b""
    assert read(box, "f", if_none_match="*")[1] == b""
    assert read(box, "f", if_none_match='"x"')[1] == b"0123456789"
    assert read(box, "f", start="2", count="3", if_range=tag)[1] == b"234"
    assert read(box, "f", start="2", count="3", if_range='"x"')[1] == b"0123456789"
    assert read(box, "f", start="2", count="3", if_range="W/" + tag)[1] == b"0123456789", "a weak tag is none for a range"
    sh(box, "printf 0123456789 > f")
    assert read(box, "f", if_none_match=tag)[1] == b"0123456789", "the same bytes, written again"


def test_read_follows_links_or_not(box):
    sh(box, "echo 1 > f; ln -s f l; ln -s /etc/hostname h; ln -s loop loop; ln -s d dl; mkdir d; echo 2 > d/f")
    assert read(box, "l")[1] == b"1\n" and read(box, "l")[0].path == b"l"
    assert read(box, "h")[1] == b"glovebox\n"
    assert read(box, "dl/f", "nofollow")[1] == b"2\n", "only the last component"
    assert refused(box, "read", "l", "nofollow", "0", "", "", "") == errno.ELOOP
    assert refused(box, "read", "loop", "follow", "0", "", "", "") == errno.ELOOP


@pytest.mark.parametrize("path, code", [
    ("d", errno.EISDIR), (".", errno.EISDIR), ("/", errno.EISDIR), ("fifo", errno.EINVAL), ("socket", errno.EINVAL), ("/dev/null", errno.EINVAL),
    ("/dev/zero", errno.EINVAL), ("/dev/ptmx", errno.EINVAL), ("missing", errno.ENOENT), ("f/x", errno.ENOTDIR), ("secret", errno.EACCES),
    ("/proc/1/environ", errno.EACCES), ("", errno.ENOENT),
])
def test_read_of_what_is_no_file(box, path, code):
    python(box, "import os, socket\nos.mkdir('d'); os.mkfifo('fifo'); open('f', 'w')\nsocket.socket(socket.AF_UNIX).bind('socket')\n"
                "open('secret', 'w'); os.chmod('secret', 0)")
    assert refused(box, "read", path, "follow", "0", "", "", "") == code


def begin_read(box, path):
    """A read of which something has come, and nothing was acknowledged."""
    box.last_job += 1
    box.run(box.last_job, "read", path, "follow", "0", "", "", "", kind=JOB_FILE)
    frame = box.wait_for(box.last_job, "OUTPUT")
    return box.last_job, first_entry(frame.body)[0], len(frame.body), frame.number


@pytest.mark.parametrize("how, code", [("truncate -s 1M big", errno.EIO), ("echo > big", errno.EIO), ("echo more >> big", 0),
                                       ("rm big", 0), ("echo x > new; mv new big", 0)])
def test_a_file_that_changes_while_it_is_read(box, how, code):
    sh(box, "head -c 8M /dev/zero > big")
    job, head, _, number = begin_read(box, "big")
    assert head.size == 8 * MIB
    sh(box, how)
    box.send("ACK", job, number)
    rest, _, end = box.until_exit(job)
    assert end.code == code
    assert (end.stdout_bytes == 8 * MIB + 4 + struct.calcsize("<BBIQQQQ") + 4 + len("big") + 4) == (code == 0)


def test_a_reader_who_is_slow_holds_only_itself_up(box):
    sh(box, "head -c 8M /dev/zero > big")
    job, *_ = begin_read(box, "big")
    write(box, "other", b"x")
    assert read(box, "other")[1] == b"x"
    box.send("SIGNAL", job, body=struct.pack("<II", signal.SIGTERM, 0))


# --- write ---------------------------------------------------------------------------------------------------


def test_write_makes_and_replaces(box):
    first = write(box, "a/b/f", b"one")
    assert (first.type, first.flags, first.mode, first.size, first.path) == ("f", NEW, 0o644, 3, b"f")
    second = write(box, "a/b/f", b"second")
    assert (second.flags, second.mode, second.size) == (0, 0o644, 6)
    assert etag(first) != etag(second) and second == entry(box, "stat", "a/b/f")
    assert sh(box, "cat a/b/f; stat -c %a:%U a a/b a/b/f; ls -A a/b") == b"second755:box\n755:box\n644:box\nf\n"


def test_write_keeps_or_sets_the_mode(box):
    assert write(box, "f", mode="600").mode == 0o600
    assert write(box, "f").mode == 0o600, "that of the file that was replaced"
    assert write(box, "f", mode="777").mode == 0o777, "whatever the mask"
    assert write(box, "f", mode="0").mode == 0
    sh(box, "chmod 755 f; ln -s f l; ln -s nowhere dangling")
    assert write(box, "l").mode == 0o755
    assert write(box, "dangling").mode == 0o644


def test_write_replaces_a_link_itself(box):
    sh(box, "echo target > f; ln -s f l; mkdir d; ln -s d dl; ln -s d way")
    assert write(box, "l", b"new").flags == 0
    assert write(box, "dl", b"new").type == "f"
    write(box, "way/g", b"new")
    assert sh(box, "cat f l dl d/g; test -L l || test -L dl || echo files") == b"target\nnewnewnewfiles\n"


@pytest.mark.parametrize("path, code", [
    ("d", errno.EISDIR), ("d/", errno.EISDIR), (".", errno.EISDIR), ("", errno.EISDIR), ("/", errno.EISDIR), ("..", errno.EISDIR),
    ("new/", errno.EISDIR), ("f/x", errno.ENOTDIR), ("dangling/x", errno.ENOENT), ("x" * 256, errno.ENAMETOOLONG), ("a/" + "x" * 256, errno.ENAMETOOLONG),
    ("/etc/x", errno.EROFS), ("/etc/new/x", errno.EROFS), ("/usr/bin/x", errno.EROFS), ("/proc/x", errno.ENOENT),
])
def test_write_where_no_file_can_be(box, path, code):
    sh(box, "mkdir d; touch f; ln -s nowhere/at/all dangling")
    assert refused(box, "write", path, "", "", "", data=b"x") in (code, errno.EACCES if path[:1] == "/" else code)
    assert set(names(box)) <= {"d", "f", "dangling", "a"}


@pytest.mark.parametrize("mode", ["8", "1000", "x", "0644x", "-1"])
def test_write_with_a_mode_that_is_none(box, mode):
    assert refused(box, "write", "f", mode, "", "", data=b"x") == errno.EINVAL
    assert names(box) == []


def test_write_if_match(box):
    assert refused(box, "write", "f", "", '"x"', "", data=b"x") == errno.ECANCELED
    assert refused(box, "write", "f", "", "*", "", data=b"x") == errno.ECANCELED
    assert refused(box, "write", "new/dir/f", "", "*", "", data=b"x") == errno.ECANCELED
    assert names(box) == [], "nothing is made for it either"
    one = write(box, "f", b"one")
    two = write(box, "f", b"two", if_match=etag(one))
    assert refused(box, "write", "f", "", etag(one), "", data=b"three") == errno.ECANCELED
    assert refused(box, "write", "f", "", "W/" + etag(two), "", data=b"three") == errno.ECANCELED, "weak"
    write(box, "f", b"three", if_match=f'"x", {etag(two)}')
    write(box, "f", b"four", if_match="*")
    assert read(box, "f")[1] == b"four"
    sh(box, "ln -s f l")
    write(box, "l", b"five", if_match=etag(read(box, "l")[0]))  # what was read there
    assert sh(box, "cat f l") == b"fourfive"


def test_write_if_nothing_is_there(box):
    assert write(box, "f", b"one", if_none_match="*").flags == NEW
    assert refused(box, "write", "f", "", "", "*", data=b"two") == errno.ECANCELED
    sh(box, "ln -s nowhere dangling")
    assert refused(box, "write", "dangling", "", "", "*", data=b"two") == errno.ECANCELED
    one = entry(box, "stat", "f")
    assert refused(box, "write", "f", "", "", etag(one), data=b"two") == errno.ECANCELED
    write(box, "f", b"three", if_none_match='"x"')
    assert read(box, "f")[1] == b"three"


def begin_write(box, path, *conditions, flags=0, data=b"x" * 1000):
    box.last_job += 1
    box.run(box.last_job, "write", path, *(conditions or ("", "", "")), kind=JOB_FILE, flags=JOB_STDIN | flags)
    if data:
        box.send("INPUT", box.last_job, 0, body=data)
    while (frame := box.next(box.last_job)).name != "INPUT_ACK" or frame.number < len(data):
        pass
    return box.last_job


def test_conditions_hold_at_the_end_too(box):
    job = begin_write(box, "f", "", "", "*", data=b"late")
    write(box, "f", b"early")
    box.send("INPUT_END", job, 4)
    assert box.until_exit(job)[2].code == errno.ECANCELED
    job = begin_write(box, "f", "", etag(entry(box, "stat", "f")), "", data=b"late")
    write(box, "f", b"other")
    box.send("INPUT_END", job, 4)
    assert box.until_exit(job)[2].code == errno.ECANCELED
    assert read(box, "f")[1] == b"other" and names(box) == ["f"]


def test_a_write_is_seen_when_it_is_complete(box):
    write(box, "f", b"old")
    job = begin_write(box, "f", data=b"new")
    assert sh(box, "cat f; ls -A") == b"oldf\n"
    box.send("INPUT_END", job, 3)
    assert first_entry(box.until_exit(job)[0])[0].size == 3
    assert sh(box, "cat f; ls -A") == b"newf\n"


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_a_write_that_is_cut_leaves_nothing(box, sig):
    write(box, "old", b"old")
    for path in ("old", "new", "dir/new"):
        job = begin_write(box, path)
        box.send("SIGNAL", job, body=struct.pack("<II", sig, 0))
        end = box.until_exit(job)[2]
        assert (end.how, end.code) == (SIGNALED, sig)
    assert sh(box, "cat old; find . -type f") == b"old./old\n"


def test_a_write_that_fails_does_not_want_the_rest(box):
    """Its gate hears of the end before all has been sent."""
    write(box, "f")
    assert refused(box, "write", "f", "", "", "*", data=b"x" * (4 * MIB)) == errno.ECANCELED


def test_a_full_workspace(keeper):
    box = keeper.new_box(WORKSPACE=64 * KIB)
    write(box, "big", b"x" * 60_000)
    assert refused(box, "write", "more", "", "", "", data=b"x" * 60_000) == errno.ENOSPC
    assert refused(box, "write", "big", "", "", "", data=b"y" * 60_000) == errno.ENOSPC
    assert sh(box, "ls -A; head -c 1 big") == b"big\nx"


def test_no_more_files(keeper):
    box = keeper.new_box(WORKSPACE_INODES=16)
    codes = {box.file("write", f"d{i}/f", "", "", "", data=b"")[2].code for i in range(12)}
    assert codes == {0, errno.ENOSPC}
    assert refused(box, "mkdir", "one/more", "") == errno.ENOSPC


def test_a_file_that_is_too_large(keeper):
    box = keeper.new_box(FILE=100 * KIB)
    assert refused(box, "write", "big", "", "", "", data=b"x" * 200_000) == errno.EFBIG
    assert write(box, "small", b"x" * (100 * KIB)).size == 100 * KIB
    assert names(box) == ["small"]


def test_several_write_one_file(box):
    """The last one wins, whole."""
    contents = [bytes([65 + i]) * 200_000 for i in range(6)]
    jobs = {}
    for data in contents:
        jobs[begin_write(box, "f", data=data[:30_000])] = data
    for job, data in jobs.items():
        sent = taken = 30_000
        while sent < len(data):
            while sent - taken >= 65536 - 30_000:
                frame = box.next(job)
                taken = frame.number if frame.name == "INPUT_ACK" else taken
            box.send("INPUT", job, sent, body=data[sent:sent + 10_000])
            sent += 10_000
        box.send("INPUT_END", job, sent)
    made = sum(first_entry(box.until_exit(job)[0])[0].flags for job in jobs)
    assert made == 1, "one of them was the first"
    assert read(box, "f")[1] in contents and names(box) == ["f"]


def test_operations_have_the_user_s_rights_only(box):
    assert refused(box, "write", "/root-file", "", "", "", data=b"x") in (errno.EROFS, errno.EACCES)
    assert refused(box, "mkdir", "/new", "") in (errno.EROFS, errno.EACCES)
    assert refused(box, "delete", "/usr/bin/env", "0") in (errno.EROFS, errno.EACCES)
    assert refused(box, "move", "/usr/bin/env", "env", "1") in (errno.EROFS, errno.EACCES, errno.EXDEV)
    assert names(box) == []


# --- mkdir ---------------------------------------------------------------------------------------------------


def test_mkdir_makes_parents_and_says_whether(box):
    found = entry(box, "mkdir", "a/b/c", "")
    assert (found.type, found.flags, found.mode, found.path) == ("d", NEW, 0o755, b"c")
    assert entry(box, "mkdir", "a/b/c", "").flags == entry(box, "mkdir", "a/b/", "700").flags == 0
    assert entry(box, "mkdir", "all/", "777").mode == 0o777
    assert entry(box, "mkdir", "/tmp/x/y", "700").mode == 0o700
    assert sh(box, "stat -c %a a a/b a/b/c all /tmp/x") == b"755\n755\n755\n777\n755\n"
    for path in (".", "/", ""):
        assert (entry(box, "mkdir", path, "").path, entry(box, "mkdir", path, "").flags) == (b".", 0)
    sh(box, "touch f; ln -s a l; ln -s nowhere dangling")
    assert refused(box, "mkdir", "f", "") == refused(box, "mkdir", "dangling", "") == errno.EEXIST
    assert refused(box, "mkdir", "f/x", "") == errno.ENOTDIR
    assert entry(box, "mkdir", "l", "").flags == 0, "a link to a directory is one"
    assert entry(box, "mkdir", "l/new", "").flags == NEW
    assert refused(box, "mkdir", "/etc/x", "") in (errno.EROFS, errno.EACCES)


# --- delete --------------------------------------------------------------------------------------------------


def test_delete_of_everything(box):
    python(box, "import os, socket\nos.makedirs('d/e'); os.mkdir('empty'); os.mkfifo('fifo'); open('f', 'w'); open('d/e/g', 'w')\n"
                "socket.socket(socket.AF_UNIX).bind('socket')\nos.symlink('d', 'l'); os.symlink('nowhere', 'dangling')")
    for path in ("f", "fifo", "socket", "l", "dangling", "empty"):
        assert done(box, "delete", path, "0") == b""
        assert refused(box, "delete", path, "0") == errno.ENOENT
    assert refused(box, "delete", "d", "0") == errno.ENOTEMPTY
    assert listed(box, recursive=True) == [b"d", b"d/e", b"d/e/g"], "what the link showed is still there"
    done(box, "delete", "d/", "1")
    assert names(box) == []
    assert refused(box, "delete", "d/x", "1") == errno.ENOENT


def test_delete_never_goes_through_a_link(box):
    sh(box, "mkdir -p keep/deep d; touch keep/f keep/deep/g; ln -s ../keep d/l; ln -s keep top; ln -s /tmp d/tmp; touch /tmp/precious")
    done(box, "delete", "d", "1")
    done(box, "delete", "top", "1")
    assert sh(box, "find . | sort; ls /tmp") == b".\n./keep\n./keep/deep\n./keep/deep/g\n./keep/f\nprecious\n"
    sh(box, "ln -s keep way")
    done(box, "delete", "way/deep", "1")
    assert names(box, "keep") == ["f"]


@pytest.mark.parametrize("path", [".", "/", "", "..", "./", "d/..", "d/.", "/workspace", "../workspace", "//workspace/", "/workspace/."])
@pytest.mark.parametrize("recursive", ["0", "1"])
def test_delete_of_the_ground_one_stands_on(box, path, recursive):
    sh(box, "mkdir d; touch f")
    assert refused(box, "delete", path, recursive) == errno.EBUSY
    assert names(box) == ["d", "f"]


@pytest.mark.parametrize("path", ["/tmp", "/proc", "/dev/shm", "/workspace"])
def test_delete_of_a_place_where_something_is_mounted(box, path):
    sh(box, "touch /tmp/precious /dev/shm/precious precious")
    assert refused(box, "delete", path, "1", cwd="/") in (errno.EBUSY, errno.EROFS, errno.EACCES)
    assert sh(box, "ls /tmp /dev/shm .").count(b"precious") == 3


def test_delete_ends_where_it_may_not(box):
    sh(box, "mkdir -p d/closed/x; chmod 555 d/closed")
    assert refused(box, "delete", "d", "1") == errno.EACCES
    sh(box, "chmod 755 d/closed")
    done(box, "delete", "d", "1")


DEEP = """
import os
for i in range(%d):
    os.mkdir(%r)
    os.chdir(%r)
    if i %% 10 == 0:
        open("file", "w")
        os.mkdir("side")
"""


@pytest.mark.parametrize("depth, name", [(100, "d"), pytest.param(3000, "d", marks=pytest.mark.more), (40, "n" * 250)])
@pytest.mark.parametrize("limit", [24, 1024])
def test_a_tree_may_be_as_deep_as_it_likes(keeper, depth, name, limit):
    """Deeper than there are descriptors, and longer than a path may be."""
    box = keeper.new_box(OPEN_FILES=limit)
    python(box, "import os\nos.mkdir('top'); os.chdir('top')\n" + DEEP % (depth, name, name))
    fits = min(depth, 4096 // (len(name) + 1))
    out, err, end = box.file("list", "top", "1", "", "0")
    found = [e.path for e in entries(out)]
    assert end.code == 0 and bool(err) == (fits < depth)
    assert sum(path.split(b"/")[-1] == name.encode() for path in found) == fits
    out, _, end = box.file("tree", "top")
    assert (end.code, sorted(e.path for e in entries(out))) == (errno.ENAMETOOLONG if fits < depth else 0, sorted(found))
    done(box, "delete", "top", "1")
    assert names(box) == []


def test_delete_of_many(box):
    python(box, "import os\nfor d in range(300):\n    os.mkdir(f'top{d % 2}/{d}' if d > 1 else f'top{d}')\n"
                "    for i in range(50): open(f'top{d % 2}/{d}/{i}' if d > 1 else f'top{d}/f{i}', 'w')")
    done(box, "delete", "top0", "1")
    done(box, "delete", "top1", "1")
    assert names(box) == []


CHURN = """
import os, random, sys
random.seed(int(sys.argv[1]))
os.makedirs('/'.join('abcdefghijklmnopqrstuvwxyz'), exist_ok=True)
print('ready', flush=True)
while True:
    try:
        at = random.randint(1, 25)
        path = '/'.join('abcdefghijklmnopqrstuvwxyz'[:at])
        what = random.randrange(4)
        if what == 0: os.rename(path, 'aside%d' % random.randrange(3))
        elif what == 1: os.rename('aside%d' % random.randrange(3), path)
        elif what == 2: os.makedirs(path, exist_ok=True); open(path + '/file', 'w').close()
        else: os.symlink('/etc', path + '/link%d' % random.randrange(9))
    except OSError:
        pass
"""


def churn(box, seed):
    box.last_job += 1
    box.run(box.last_job, "/usr/bin/python3", "-c", CHURN, str(seed), env=ENV)
    box.wait_for(box.last_job, "OUTPUT")
    return box.last_job


def end_job(box, job):
    box.send("SIGNAL", job, body=struct.pack("<II", signal.SIGKILL, 0))
    box.until_exit(job)


@pytest.mark.parametrize("seed", [1, 2])
def test_directories_that_change_while_they_are_walked(box, seed):
    job = churn(box, seed)
    for _ in range(25):
        for words in (("list", ".", "1", "", "0"), ("tree", "."), ("delete", "a", "1"), ("delete", "aside1", "1")):
            out, _, end = box.file(*words)
            assert end.how == EXITED, words
            for found in entries(out):
                assert not found.path.startswith((b"/", b"..")) and b"//" not in found.path
                assert found.type == "l" or b"link" not in found.path
    assert sh(box, "ls /etc/passwd") == b"/etc/passwd\n"
    end_job(box, job)
    for name in names(box):
        done(box, "delete", name, "1")


def test_somebody_else_deletes_too(box):
    python(box, "import os\nfor i in range(3000): os.makedirs(f'd/{i % 50}/{i}')")
    jobs = []
    for _ in range(4):
        box.last_job += 1
        box.run(box.last_job, "delete", "d", "1", kind=JOB_FILE)
        jobs.append(box.last_job)
    codes = [box.until_exit(job)[2].code for job in jobs]
    assert set(codes) <= {0, errno.ENOENT} and names(box) == []


# --- move ----------------------------------------------------------------------------------------------------


def test_move_of_files_and_directories(box):
    sh(box, "echo 1 > f; mkdir -p d/e; echo 2 > d/e/g; ln -s f l")
    found = entry(box, "move", "f", "new/place/h", "0")
    assert (found.type, found.flags, found.size, found.path) == ("f", NEW, 2, b"h")
    assert (entry(box, "move", "d/", "moved", "0").type, entry(box, "move", "l", "m", "0").target) == ("d", b"f")
    assert listed(box, recursive=True) == [b"m", b"moved", b"moved/e", b"moved/e/g", b"new", b"new/place", b"new/place/h"]
    assert entry(box, "move", "/workspace/new/place/h", "/workspace/h", "0").path == b"h"


def test_move_onto_something(box):
    sh(box, "echo 1 > a; echo 2 > b; mkdir d empty full; touch full/f; ln -s a l")
    assert refused(box, "move", "a", "b", "0") == errno.EEXIST
    assert refused(box, "move", "a", "l", "0") == errno.EEXIST
    assert refused(box, "move", "a", "a", "0") == errno.EEXIST
    assert refused(box, "move", "a", ".", "1") == errno.EEXIST
    assert refused(box, "move", "a", "d", "1") == errno.EISDIR
    assert refused(box, "move", "d", "a", "1") == errno.ENOTDIR
    assert refused(box, "move", "d", "full", "1") == errno.ENOTEMPTY
    assert refused(box, "move", "d", "d/x", "1") == errno.EINVAL
    assert sh(box, "cat a b") == b"1\n2\n"
    assert entry(box, "move", "a", "a", "1").flags == 0, "itself"
    assert entry(box, "move", "a", "b", "1").flags == 0
    assert entry(box, "move", "d", "empty", "1").flags == 0
    assert entry(box, "move", "b", "l", "1").type == "f", "the link is replaced"
    assert sorted(names(box)) == ["empty", "full", "l"]


@pytest.mark.parametrize("source, to, code", [
    ("missing", "x", errno.ENOENT), ("missing", "new/x", errno.ENOENT), ("f/x", "y", errno.ENOTDIR), ("f", "f/x", errno.ENOTDIR), (".", "x", errno.EBUSY),
    ("/", "x", errno.EBUSY), ("/workspace", "/tmp/x", errno.EBUSY), ("f", "x" * 256, errno.ENAMETOOLONG), ("f", "/etc/x", errno.EROFS),
])
def test_move_that_cannot_be(box, source, to, code):
    sh(box, "touch f")
    assert refused(box, "move", source, to, "1") in (code, errno.EXDEV if source == "/workspace" else code)
    assert names(box) == ["f"]


def test_move_to_another_file_system(box):
    data = os.urandom(300_000)
    write(box, "f", data, mode="751")
    sh(box, "touch -d '2001-02-03 04:05:06.789' f; mkdir d; ln -s f l; mkfifo fifo; mkdir /tmp/d")
    before = entry(box, "stat", "f")
    found = entry(box, "move", "f", "/tmp/new/f", "0")
    assert (found.flags, found.mode, found.size, found.mtime) == (NEW, 0o751, len(data), before.mtime)
    assert read(box, "/tmp/new/f")[1] == data and "f" not in names(box)
    for source in ("d", "l", "fifo"):
        assert refused(box, "move", source, f"/tmp/{source}x", "1") == errno.EXDEV
    write(box, "f", b"other")
    assert refused(box, "move", "f", "/tmp/new/f", "0") == errno.EEXIST
    assert refused(box, "move", "f", "/tmp/d", "1") == errno.EISDIR
    assert entry(box, "move", "f", "/tmp/new/f", "1").flags == 0
    assert sh(box, "cat /tmp/new/f; ls -A /tmp/new; ls") == b"otherf\nd\nfifo\nl\n"
    assert refused(box, "move", "/etc/hostname", "f", "1") in (errno.EROFS, errno.EACCES), "what cannot be removed is not copied"
    assert "f" not in names(box)


def test_move_to_another_file_system_that_is_full(keeper):
    box = keeper.new_box(SCRATCH=64 * KIB)
    write(box, "f", b"x" * 200_000)
    assert refused(box, "move", "f", "/tmp/f", "1") == errno.ENOSPC
    assert sh(box, "ls -A /tmp; ls") == b"f\n"


# --- list ----------------------------------------------------------------------------------------------------


TREE = [b"A", b"a", b"a-b", b"a/b", b"a/b/c", b"a/b-c", b"a/c", b"a.txt", b"b", b"b/x", "\u00e9".encode(), b"\xff"]
IN_ORDER = [b"A", b"a", b"a/b", b"a/b/c", b"a/b-c", b"a/c", b"a-b", b"a.txt", b"b", b"b/x", "\u00e9".encode(), b"\xff"]


def make_tree(box):
    python(box, f"import os\nfor p in {TREE!r}:\n    os.makedirs(p) if p in (b'a', b'a/b', b'b') else open(p, 'w').close()")


def test_list_is_in_order(box):
    make_tree(box)
    assert listed(box, recursive=True) == IN_ORDER
    assert listed(box) == [p for p in IN_ORDER if b"/" not in p]
    assert listed(box, "a", recursive=True) == [b"b", b"b/c", b"b-c", b"c"]
    assert sorted(e.path for e in entries(done(box, "tree", "."))) == sorted(TREE)
    found = {e.path: e for e in entries(done(box, "list", ".", "1", "", "0"))}
    assert found[b"a/b/c"] == entry(box, "stat", "a/b/c")._replace(path=b"a/b/c")


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
@pytest.mark.parametrize("recursive", [False, True])
def test_list_in_parts_is_the_whole(box, limit, recursive):
    make_tree(box)
    whole, parts, after = listed(box, recursive=recursive), [], b""
    while True:
        part = listed(box, recursive=recursive, after=after, limit=limit)
        assert len(part) <= limit + 1
        parts += part[:limit]
        if len(part) <= limit:
            break
        after = part[limit - 1]
    assert parts == whole


@pytest.mark.parametrize("after, want", [
    (b"a/b/b", [b"a/b/c"]), (b"a/b/c", [b"a/b-c"]), (b"a/b/d", [b"a/b-c"]), (b"a/b", [b"a/b/c"]), (b"a/zzz/y", [b"a-b"]), (b"a/c/below-a-file", [b"a-b"]),
    (b"0", [b"A"]), (b"B", [b"a"]), (b"\xff", []), (b"zz/../..", ["\u00e9".encode()]), (b"a/", [b"a/b"]), (b"/", [b"A"]), (b"a//b", [b"a/b/c"]),
])
def test_list_after_what_may_not_be_there(box, after, want):
    make_tree(box)
    assert listed(box, recursive=True, after=after, limit=1)[:1] == want


def test_list_of_a_directory_that_is_none(box):
    sh(box, "touch f; mkdir d; ln -s d l; mkfifo fifo; mkdir closed; chmod 0 closed")
    assert refused(box, "list", "f", "0", "", "0") == refused(box, "list", "fifo", "0", "", "0") == errno.ENOTDIR
    assert refused(box, "list", "missing", "0", "", "0") == errno.ENOENT
    assert refused(box, "list", "closed", "0", "", "0") == errno.EACCES
    sh(box, "touch d/g")
    assert listed(box, "l") == [b"g"], "a link to a directory"


def test_list_passes_over_what_it_may_not_read(box):
    sh(box, "mkdir a closed z; touch a/f z/g closed/h; chmod 0 closed")
    out, err, end = box.file("list", ".", "1", "", "0")
    assert [e.path for e in entries(out)] == [b"a", b"a/f", b"closed", b"z", b"z/g"]
    assert (end.code, err) == (0, b"'closed' could not be read\n")
    out, _, end = box.file("tree", ".")
    assert (end.code, len(entries(out))) == (errno.EACCES, 5)
    sh(box, "mkdir $'a/new\\nline'; chmod 0 a/new*")
    assert box.file("list", ".", "1", "", "0")[1] == b"'a/new?line' could not be read, nor could others\n"


def test_list_of_many(box):
    python(box, "for i in range(20000): open(f'{i:05}', 'w')")
    assert listed(box) == [b"%05d" % i for i in range(20000)]
    assert listed(box, after="12345", limit=10) == [b"%05d" % i for i in range(12346, 12357)]
    assert len(entries(done(box, "tree", "."))) == 20000


@pytest.mark.parametrize("name", [".glovebox-unpack-7", ".glovebox-put-7"])
def test_what_is_not_complete_is_not_shown(box, name):
    sh(box, f"mkdir -p d/{name}/inside; touch d/{name}/f d/.glovebox d/f")
    assert listed(box, recursive=True) == [b"d", b"d/.glovebox", b"d/f"]
    assert len(entries(done(box, "tree", "."))) == 3
    done(box, "delete", "d", "1")
    assert names(box) == []


def test_the_whole_box_can_be_listed(box):
    found = listed(box, "/", limit=0)
    assert {b"usr", b"etc", b"workspace", b"proc", b"tmp"} <= set(found)
    assert len(listed(box, "/usr/bin", limit=20)) == 21


# --- watch ---------------------------------------------------------------------------------------------------


class Watch:
    """A watch that is ready, and what it has told."""

    def __init__(self, box, path=".", recursive="1", **kw):
        self.box, self.rest, self.seen = box, b"", []
        box.last_job += 1
        self.job = box.last_job
        box.run(self.job, "watch", path, recursive, kind=JOB_FILE, **kw)
        assert self.take() == ("ready", False, b"", b"")

    def take(self, ack=True):
        while not self.seen:
            frame = self.box.next(self.job)
            assert frame.name in ("OUTPUT", "STARTED"), Exit(frame.body).code if frame.name == "EXIT" else frame
            if frame.name == "OUTPUT":
                assert frame.flags == 1, frame.body
                self.box.send("ACK", self.job, frame.number) if ack else None
                found, self.rest = changes(self.rest + frame.body)
                self.seen += found
        return self.seen.pop(0)

    def until(self, what, path, directory=False, to=b""):
        """All that is told up to this, which is the last."""
        found, last = [], (what, directory, path if isinstance(path, bytes) else path.encode(), to if isinstance(to, bytes) else to.encode())
        while not found or found[-1] != last:
            found.append(self.take())
        return found

    def until_mark(self):
        """All that is told so far; what is told several times in a row, once."""
        sh(self.box, "mkdir /workspace/mark; rmdir /workspace/mark")
        found = self.until("delete", "mark", directory=True)[:-2]
        return [f for i, f in enumerate(found) if i == 0 or f != found[i - 1]]


def plain(*found):
    return [(what, False, path.encode(), b"") for what, path in found]


def test_watch_tells_what_happens_to_a_file(box):
    w = Watch(box)
    sh(box, "echo 1 > f")
    assert w.until("modify", "f") == plain(("create", "f"), ("modify", "f"))
    sh(box, "echo 2 >> f; chmod 600 f; mv f g; ln g h; rm g")
    assert w.until_mark() == [*plain(("modify", "f"), ("attrib", "f")), ("move", False, b"f", b"g"), *plain(("create", "h"), ("delete", "g"))]
    sh(box, "mkfifo p; ln -s p l; rm p l")
    assert w.until_mark() == plain(("create", "p"), ("create", "l"), ("delete", "p"), ("delete", "l"))


def test_watch_of_operations_on_files(box):
    w = Watch(box)
    write(box, "f", b"1")
    assert w.until_mark() == plain(("create", "f"))
    write(box, "f", b"2", mode="600")
    assert w.until_mark() == plain(("modify", "f")), "replaced: nobody sees how"
    python(box, "import os, tempfile\nwith tempfile.TemporaryFile(dir='.') as f:\n    os.fchmod(f.fileno(), 0o640)\n    f.write(b'x')")
    assert w.until_mark() == [], "nor what has no name"
    sh(box, "ln -s x '#5'; chmod -h 777 '#5' 2>/dev/null; touch -h '#5'")
    assert w.until_mark() == plain(("create", "#5"), ("attrib", "#5"))
    done(box, "mkdir", "a/b", "777")
    assert w.until_mark() == [("create", True, b"a", b""), ("create", True, b"a/b", b"")]
    done(box, "move", "f", "a/g", "1")
    assert w.until_mark() == [("move", False, b"f", b"a/g")]
    done(box, "delete", "a", "1")
    assert w.until_mark() == [("delete", False, b"a/g", b""), ("delete", True, b"a/b", b""), ("delete", True, b"a", b"")]


@pytest.mark.parametrize("name", ODD, ids=ascii)
def test_watch_tells_names_as_they_are(box, name):
    raw = name.encode() if isinstance(name, str) else name
    w = Watch(box)
    write(box, b"d/" + raw)
    assert w.until("create", b"d/" + raw)[0] == ("create", True, b"d", b"")


def test_watch_hides_what_is_not_complete(box):
    w = Watch(box)
    sh(box, "mkdir .glovebox-unpack-1; echo 1 > .glovebox-unpack-1/f; chmod 700 .glovebox-unpack-1; mv .glovebox-unpack-1/f f; rm -r .glovebox-unpack-1; "
            "echo 2 > .glovebox-put-1; rm .glovebox-put-1")
    assert w.until_mark() == plain(("create", "f"))


def test_watch_goes_into_new_directories(box):
    """What was made before anybody could look is told, and once."""
    w = Watch(box)
    for i in range(20):
        sh(box, f"mkdir -p t{i}/a/b/c; touch t{i}/f t{i}/a/f t{i}/a/b/f t{i}/a/b/c/f")
        found = w.until_mark()
        want = {("create", True, f"t{i}{d}".encode(), b"") for d in ("", "/a", "/a/b", "/a/b/c")}
        want |= {("create", False, f"t{i}{d}/f".encode(), b"") for d in ("", "/a", "/a/b", "/a/b/c")}
        made = [f for f in found if f[0] == "create"]  # touch also changes and closes them
        assert sorted(made) == sorted(want), "each of them, and none twice"
        assert {f[0] for f in found} <= {"create", "modify", "attrib"}
        sh(box, f"echo 1 > t{i}/a/b/c/g")
        assert ("modify", False, f"t{i}/a/b/c/g".encode(), b"") in w.until_mark()


def test_watch_follows_directories_that_move(box):
    sh(box, "mkdir -p a/b/c other")
    w = Watch(box)
    sh(box, "mv a/b other/x; echo 1 > other/x/c/f")
    assert w.until_mark() == [("move", True, b"a/b", b"other/x"), *plain(("create", "other/x/c/f"), ("modify", "other/x/c/f"))]
    sh(box, "mv other/x out; ln -s x out/c/g; mv out new; ln -s x new/c/h")
    assert w.until_mark() == [("move", True, b"other/x", b"out"), *plain(("create", "out/c/g")), ("move", True, b"out", b"new"), *plain(("create", "new/c/h"))]


def test_watch_of_what_comes_and_goes(keeper):
    """In and out of the tree by rename, which is not a move of which both ends are seen."""
    box = keeper.new_box()
    sh(box, "mkdir in out; mkdir -p out/d/e; touch out/f out/d/g out/d/e/h")
    w = Watch(box, "in")
    sh(box, "mv out/f in/f")
    assert w.until("create", "f") == plain(("create", "f"))
    sh(box, "mv out/d in/d; mv in/f out/f; mv in/d/e out/e; touch out/e/unseen; ln -s x in/d/seen")
    found = w.until("create", "d/seen")
    assert found[0] == ("create", True, b"d", b"")
    assert sorted(found[1:4]) == sorted([("create", True, b"d/e", b""), *plain(("create", "d/g"), ("create", "d/e/h"))])
    assert found[4:] == [*plain(("delete", "f")), ("delete", True, b"d/e", b""), *plain(("create", "d/seen"))]


def test_watch_that_is_not_recursive(box):
    sh(box, "mkdir old")
    w = Watch(box, ".", "0")
    sh(box, "mkdir new; touch new/f old/f; ln -s x g; mv g old/g; mv old/g g")
    assert w.until_mark() == [("create", True, b"new", b""), *plain(("create", "g"), ("delete", "g"), ("create", "g"))]


@pytest.mark.parametrize("path, code", [("missing", errno.ENOENT), ("f", errno.ENOTDIR), ("closed", errno.EACCES), ("x" * 256, errno.ENAMETOOLONG)])
def test_watch_of_what_is_none(box, path, code):
    sh(box, "touch f; mkdir closed; chmod 0 closed")
    assert refused(box, "watch", path, "1") == code


@pytest.mark.parametrize("how", ["rm -r d", "mv d e", "rmdir d/e; rmdir d"])
def test_watch_ends_with_its_directory(box, how):
    sh(box, "mkdir -p d/e")
    w = Watch(box, "d")
    sh(box, how)
    _, _, end = box.until_exit(w.job)
    assert (end.how, end.code) == (EXITED, errno.ENOENT)


def test_watch_through_a_link(box):
    sh(box, "mkdir -p d/e; ln -s d l; ln -s /tmp d/elsewhere")
    w = Watch(box, "l")
    sh(box, "touch /tmp/unseen d/e/f")
    assert w.until("create", "e/f") == plain(("create", "e/f"))


def test_watch_of_a_deep_tree(keeper):
    box = keeper.new_box(OPEN_FILES=24)
    python(box, DEEP % (200, "d", "d"))
    w = Watch(box)
    deep = "/".join(["d"] * 200)
    sh(box, f"touch {deep}/last")
    w.until("create", deep + "/last")
    sh(box, "rm -rf d")
    assert ("delete", True, b"d/d", b"") in w.until("delete", "d", directory=True)


def test_watch_says_when_something_was_lost(box):
    """Nobody acknowledges, so it waits, and the kernel drops events."""
    w = Watch(box)
    python(box, "import os\nfor i in range(30000):\n    open('f', 'w').close()\n    os.unlink('f')\nos.makedirs('late/er')")
    found = []
    while not found or found[-1][0] != "overflow":
        found.append(w.take())
    assert {f[0] for f in found} == {"create", "modify", "delete", "overflow"}
    w.until_mark()
    sh(box, "touch late/er/f")
    assert w.until("create", "late/er/f") == plain(("create", "late/er/f")), "what was made meanwhile is watched"


def test_watch_when_there_are_no_more(box):
    hold = program(box, "/usr/bin/python3", "-c", "import ctypes, time\nc = ctypes.CDLL(None)\nwhile c.inotify_init() >= 0: pass\nprint('full', flush=True)\ntime.sleep(1000)")
    box.wait_for(hold, "OUTPUT")
    assert refused(box, "watch", ".", "1") == errno.EMFILE
    end_job(box, hold)
    Watch(box)


def test_watches_in_plenty(box):
    watches = [Watch(box) for _ in range(16)]
    sh(box, "touch f")
    assert [w.until("create", "f") for w in watches] == [plain(("create", "f"))] * 16


def test_watch_keeps_up_with_moves(box):
    sh(box, "mkdir a b")
    w = Watch(box)
    python(box, "import os\nfor i in range(300):\n    open(f'a/{i}', 'w').close()\n    os.rename(f'a/{i}', f'b/{i}')")
    moves = [f for f in w.until_mark() if f[0] == "move"]
    assert len(moves) == 300 and all(f[3] == f[2].replace(b"a", b"b") for f in moves)


MODEL = """
import os, random, shutil, sys
random.seed(int(sys.argv[1]))
def name(): return '/'.join(random.choice('abc') for _ in range(random.randint(1, 3)))
for _ in range(2000):
    try:
        what, one, two = random.randrange(8), name(), name()
        if what < 2: os.makedirs(one, exist_ok=True)
        elif what < 4: open(one, 'w').close()
        elif what == 4: os.rename(one, two)
        elif what == 5: os.unlink(one)
        elif what == 6: os.rmdir(one)
        elif random.randrange(4) == 0: shutil.rmtree(one)
        else: os.makedirs(one + '/' + two, exist_ok=True); open(one + '/' + two + '/f', 'w').close()
    except OSError:
        pass
"""


@pytest.mark.more
@pytest.mark.parametrize("seed", range(60))
def test_watch_is_enough_to_know_what_is_there(box, seed):
    """Whoever does as it says has the tree in the end."""
    python(box, MODEL.replace("sys.argv[1]", "99").replace("2000", "50"))
    w = Watch(box)
    tree = set(listed(box, recursive=True))
    job = program(box, "/usr/bin/python3", "-c", MODEL, str(seed))
    box.until_exit(job)
    sh(box, "mkdir end")
    while (found := w.take())[2] != b"end":
        what, _, path, to = found
        if what == "overflow":  # there, back, and something new there meanwhile: that might have been an exchange
            tree = set(listed(box, recursive=True)) - {b"end"}
        below = {p for p in tree if p == path or p.startswith(path + b"/")}
        if what in ("delete", "move"):
            tree -= below
        if what == "create":
            tree.add(path)
        if what == "move":
            tree |= {to} | {to + p[len(path):] for p in below}
    assert tree == set(listed(box, recursive=True)) - {b"end"}


CHURN_DIRECTORIES = """
import os
for i in range(40): os.makedirs(f'a/{i}/x', exist_ok=True)
os.makedirs('b', exist_ok=True)
print('up', flush=True)
while True:
    for i in range(40): os.rename(f'a/{i}', f'b/{i}')
    for i in range(40): os.rename(f'b/{i}', f'a/{i}')
"""


def test_watch_is_ready_first(box):
    """Whatever is found twice while it looks around: nothing is told before."""
    job = program(box, "/usr/bin/python3", "-c", CHURN_DIRECTORIES)
    box.wait_for(job, "OUTPUT")
    for _ in range(30):
        end_job(box, Watch(box).job)
    end_job(box, job)


EXCHANGES = {"files": "touch a b", "a directory and a file": "mkdir a; touch a/x b", "a file and a directory": "mkdir b; touch a b/y",
             "directories": "mkdir a b; touch a/x b/y", "in directories": "mkdir -p d/a e/b; touch d/a/x e/b/y; ln -s d/a a; ln -s e/b b"}


@pytest.mark.parametrize("what", EXCHANGES)
def test_watch_of_two_that_change_places(box, what):
    """By one call. Whoever does as it says, and looks anew where it says that it does not know, has the tree."""
    sh(box, EXCHANGES[what])
    w = Watch(box)
    names_of = ("d/a", "e/b") if what == "in directories" else ("a", "b")
    python(box, f"import ctypes\nassert ctypes.CDLL(None).renameat2(-100, {names_of[0].encode()!r}, -100, {names_of[1].encode()!r}, 2) == 0")
    assert "overflow" in {found[0] for found in w.until_mark()}
    sh(box, f"for n in {' '.join(names_of)}; do if [ -d $n ]; then touch $n/new; fi; done")
    new = {found[2] for found in w.until_mark() if found[0] == "create"}
    assert new == {path for path in listed(box, recursive=True) if path.endswith(b"/new")}, "and watches both of them"


def test_watch_whose_way_has_moved(box):
    """What is above it moves: it could not find what is new in it, and says so by its end."""
    sh(box, "mkdir -p p/q")
    w = Watch(box, "p/q")
    sh(box, "mv p p2; mkdir p2/q/n; touch p2/q/n/f")
    assert w.take() == ("create", True, b"n", b"")
    frame = box.next(w.job)
    while frame.name == "OUTPUT":
        frame = box.next(w.job)
    assert frame.name == "EXIT" and Exit(frame.body).code == errno.ENOENT


def test_watch_of_what_could_not_be_seen(box):
    w = Watch(box)
    sh(box, "mkdir -m 0 d; sleep 0.1; chmod 755 d; sleep 0.1; touch d/f")
    assert ("create", False, b"d/f", b"") in w.until_mark()


def test_watch_of_directories_that_change_all_the_time(box):
    job = churn(box, 5)
    w = Watch(box)
    for _ in range(2000):
        what, _, path, to = w.take()
        assert what != "ready"
    end_job(box, job)
    sh(box, "touch mark")
    w.until("create", "mark")


# --- archives ------------------------------------------------------------------------------------------------


def test_archives_are_another_program_s(box):
    sh(box, "mkdir d; echo 1 > d/f")
    try:
        out, err, end = box.file("pack", "d", "tar", "all")
    except Failed as refusal:
        assert refusal.args[0] == errno.ENOSYS
        pytest.skip("this keeper gives boxes no program for archives")
    assert (end.code, err) == (0, b"") and out[257:262] == b"ustar"
    assert entry(box, "unpack", "e", "auto", "0", "0", data=out).type == "d"
    assert read(box, "e/f")[1] == b"1\n"


# --- jobs that go with their gate ----------------------------------------------------------------------------


def processes(box):
    """Processes of the box, but for init and who looks."""
    me, *found = sh(box, "echo $$; cd /proc; echo [0-9]*").decode().split()
    return set(found) - {"1", me}


def until_gone(box):
    """Those that go hold their places until they have gone: so long, there may be none for who looks."""
    end = time.monotonic() + 30

    def some():
        try:
            return processes(box)
        except Failed as refusal:
            assert refusal.args[0] == errno.EAGAIN
            return True

    while some():
        assert time.monotonic() < end, sh(box, "cat /proc/[0-9]*/status | grep -E '^(Name|Pid|State)'")


def leave(box, how):
    """The gate goes, and another one comes."""
    if how == "closed":
        box.stream.close()
    elif how == "broke":
        box.stream.sendall(b"\xff" * 24)
        with pytest.raises(Gone):
            while True:
                box.receive()
    box.attach()


@pytest.mark.parametrize("how", ["closed", "broke", "replaced"])
def test_an_attended_write_goes_with_its_gate(box, how):
    sh(box, "mkdir d")
    job = begin_write(box, "d/f", flags=JOB_ATTENDED)
    leave(box, how)
    assert names(box, "d") == []
    until_gone(box)
    assert names(box, "d") == []
    # Nobody is told of it, and its number is free.
    box.run(job, "/bin/echo", "again", env=ENV)
    assert box.until_exit(job)[0] == b"again\n"


@pytest.mark.parametrize("how", ["closed", "broke", "replaced"])
def test_others_stay(box, how):
    job = begin_write(box, "f", data=b"half")
    other = program(box, "/bin/bash", "-c", "sleep 0.3; echo there")
    leave(box, how)
    box.send("INPUT", job, 4, body=b"whole")
    box.send("INPUT_END", job, 9)
    assert box.until_exit(job)[2].code == 0
    assert read(box, "f")[1] == b"halfwhole"
    assert box.until_exit(other)[0] == b"there\n"


def test_attended_programs_go_with_all_of_their_group(box):
    job = program(box, "/bin/bash", "-c", "sleep 1000 & sleep 1000 & echo ready; wait", flags=JOB_ATTENDED)
    box.wait_for(job, "OUTPUT")
    assert len(processes(box)) == 3
    leave(box, "closed")
    until_gone(box)
    Watch(box, flags=JOB_ATTENDED)
    assert len(processes(box)) == 1
    leave(box, "replaced")
    until_gone(box)


def test_what_attended_jobs_said_is_not_repeated(box):
    """Neither that of one that has ended, nor that of one that was ended."""
    box.last_job += 1
    ended = box.last_job
    box.run(ended, "tree", ".", kind=JOB_FILE, flags=JOB_ATTENDED)
    box.until_exit(ended, ack=False)
    sh(box, "head -c 1M /dev/zero > big")
    box.last_job += 1
    reads = box.last_job
    box.run(reads, "read", "big", "follow", "0", "", "", "", kind=JOB_FILE, flags=JOB_ATTENDED)
    box.wait_for(reads, "OUTPUT")
    box.attach()
    job = program(box, "/bin/bash", "-c", "sleep 0.5; echo end")
    while (frame := box.receive()).name != "EXIT":
        assert frame.job == job, frame
    assert frame.job == job


def test_attended_jobs_leave_their_places(box):
    for _ in range(3):
        jobs = []
        for i in range(128):
            box.last_job += 1
            box.run(box.last_job, "write", f"f{i}", "", "", "", kind=JOB_FILE, flags=JOB_STDIN | JOB_ATTENDED)
            jobs.append(box.last_job)
        for job in jobs:
            box.wait_for(job, "STARTED")
        leave(box, "closed")
        until_gone(box)
    assert names(box) == []


def test_a_held_job_cannot_be_attended(box):
    box.last_job += 1
    box.run(box.last_job, "/bin/true", flags=JOB_ATTENDED | 8)
    with pytest.raises(Failed):
        box.until_exit(box.last_job)


# --- a file system that has links, and one in which a box writes to the host --------------------------------------


def test_write_into_a_mount(glovebox):
    place = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-files-", dir="/var/tmp"))
    try:
        (place / "shared").mkdir()
        os.chmod(place / "shared", 0o777)
        os.chmod(place, 0o755)
        keeper = Keeper(glovebox, f"root={place}")
        box = keeper.new_box(mounts=[(0, False, "shared", "/mnt/shared")])
        try:
            assert write(box, "/mnt/shared/a/f", b"1").flags == NEW
            assert write(box, "/mnt/shared/a/f", b"2").flags == 0
            assert (place / "shared/a/f").read_bytes() == b"2"
            assert entry(box, "move", "/mnt/shared/a/f", "back", "0").flags == NEW
            assert refused(box, "delete", "/mnt/shared", "1") in (errno.EBUSY, errno.EACCES, errno.EROFS)
            done(box, "delete", "/mnt/shared/a", "1")
            assert list((place / "shared").iterdir()) == []
        finally:
            keeper.stop()
    finally:
        shutil.rmtree(place)
