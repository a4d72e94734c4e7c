# SPDX-License-Identifier: Apache-2.0
"""The own API: watching files of a box.

Readings: `ready` is the first event, and what happens behind it is told, in order. A file that is written anew by a program is `create` and,
when it is closed, `modify`; one that comes by the API comes by a rename and is at least `create`. A test ends with a file of its own that
it waits for, so what is between is all there was.
"""
import pytest

from files import Filed, member, tar, told
from server import SANITIZED, mark, needs_root, shared, status_of, until

pytestmark = needs_root

EVENTS = {"create", "modify", "attrib", "delete", "move", "overflow"}

server = shared()


@pytest.fixture(scope="module")
def box(server):
    with Filed(server) as box:
        yield box


@pytest.fixture
def top(box):
    name = mark()
    box.out(f"mkdir {name}")
    return name


def after(watch, box, top, shell, last="zz-last"):
    """What is told of a command in the directory, without changes of attributes, up to a last file."""
    box.out(f"cd {top}; {shell}; touch {last}")
    found = watch.until("create", last)
    assert {e.name for e in found} <= EVENTS, found
    return [t for t in told(found) if t[0] != "attrib"][:-1]


def test_what_is_told(box, top):
    box.out(f"cd {top}; echo 1 > old; mkdir sub; touch sub/inner")
    with box.watch(path=top) as watch:
        assert after(watch, box, top, "echo new > f", "1") == [("create", "f"), ("modify", "f")]
        assert ("modify", "old") in after(watch, box, top, "echo more >> old", "2")
        assert after(watch, box, top, "rm f", "3")[-1:] == [("delete", "f")]
        assert after(watch, box, top, "mv old renamed", "4")[-1:] == [("move", "old", "renamed")]
        assert after(watch, box, top, "mkdir d; rmdir d", "5")[-2:] == [("create", "d"), ("delete", "d")]
        assert after(watch, box, top, "ln -s nowhere l; mkfifo p", "6")[-2:] == [("create", "l"), ("create", "p")]
        assert not [t for t in after(watch, box, top, "echo x > sub/inner; touch sub/new; rm sub/new", "7") if t[1].startswith("sub/")], "it is not recursive"
        box.out(f"cd {top}; chmod 600 renamed; touch 8")
        assert ("attrib", "renamed") in told(watch.until("create", "8"))


def test_what_an_event_has(box, top):
    with box.watch(path=top) as watch:
        box.out(f"cd {top}; mkdir d; echo x > f; mv f g; mv d e; touch last")
        found = {(e.name, e.data["path"]): e.data for e in watch.until("create", "last") if e.name in ("create", "move")}
    assert found["create", "d"]["type"] == "directory" and found["create", "f"]["type"] == "file"
    assert found["move", "f"]["to"] == "g" and found["move", "d"]["to"] == "e" and found["move", "d"]["type"] == "directory"
    assert "to" not in found["create", "f"] or found["create", "f"]["to"] is None


def test_moves_over_the_edge(box, top):
    """In is created, out is deleted."""
    box.out(f"cd {top}; mkdir seen other; touch other/comes seen/goes")
    with box.watch(path=f"{top}/seen") as watch:
        box.out(f"cd {top}; mv other/comes seen/; mv seen/goes other/; touch seen/last")
        assert [t for t in told(watch.until("create", "last")) if t[0] != "attrib"][:-1] == [("create", "comes"), ("delete", "goes")]


def test_recursive(box, top):
    """Also what is made while it is watched, however fast it is filled."""
    box.out(f"cd {top}; mkdir -p a/b")
    with box.watch(path=top, recursive=1) as watch:
        assert ("create", "a/b/f") in after(watch, box, top, "touch a/b/f", "1")
        seen = after(watch, box, top, "mkdir -p n/e/w/e/r; echo x > n/e/w/e/r/f", "2")
        assert {("create", p) for p in ("n", "n/e", "n/e/w", "n/e/w/e", "n/e/w/e/r", "n/e/w/e/r/f")} <= set(seen), seen
        assert ("move", "a", "z") in after(watch, box, top, "mv a z", "3")
        assert ("create", "z/b/g") in after(watch, box, top, "touch z/b/g", "4"), "it goes by its new name"
        assert ("delete", "z/b/g") in after(watch, box, top, "rm -r z", "5")
        assert ("create", "z") in after(watch, box, top, "mkdir z; touch z/again", "6")
        assert after(watch, box, top, "ln -s /etc out; ln -s . self; ls out/ self/ > /dev/null", "7")[-2:] == [("create", "out"), ("create", "self")]


def test_by_the_api(box, top):
    with box.watch(path=top, recursive=1) as watch:
        box.write(f"{top}/d/f", b"x").ok(201)
        box.mkdir(f"{top}/e").ok(201)
        box.move(f"{top}/d/f", f"{top}/e/g").ok(200)
        box.remove(f"{top}/d", recursive=1).ok(204)
        box.write(f"{top}/last", b"").ok(201)
        seen = told(watch.until("create", "last"))
        assert {("create", "d"), ("create", "e"), ("delete", "d")} <= set(seen)
        assert [t for t in seen if t[1] == "d/f"][0][0] in ("create", "move") and {t[-1] for t in seen if t[0] in ("create", "move")} >= {"e/g"}
        assert not [t for t in seen if "glovebox" in "".join(t)], "nothing of how it is done"


def test_staging_is_not_told(box, top):
    with box.watch(path=top, recursive=1) as watch:
        box.unpack(tar(member("d/f", b"x"), member("g", b"y")), path=top).ok()
        box.out(f"mkdir {top}/.glovebox-unpack-1; touch {top}/.glovebox-unpack-1/x {top}/last")
        seen = told(watch.until("create", "last"))
        assert not [t for t in seen if ".glovebox-unpack-" in "".join(t)], seen
        assert "g" in {t[-1] for t in seen} and "d" in {t[1] for t in seen} | {t[-1] for t in seen}


def test_names(box, top):
    """As they are; what is no text has no way into the stream but as U+FFFD."""
    names = ["a b", "é", "日本", "data: x", "event: end", '"', "\\", "\u2028", "\U0001d11e", "+%20"]
    with box.watch(path=top) as watch:
        box.python(f"import os\nos.chdir({top!r})\nfor n in {names!r} + [b'nl\\n\\nevent: end\\ndata: {{}}\\n\\n', b'\\xff', 'last']: open(n, 'w').close()")
        seen = [t[1] for t in told(watch.until("create", "last")) if t[0] == "create"]
        assert seen[:len(names)] == names and seen[-1] == "last"
        assert [n for n in seen if n.startswith("nl")] in ([], ["nl\n\nevent: end\ndata: {}\n\n"])
        assert not [n for n in seen if "\ufffd" in n and n != "\ufffd"]


def test_two_watchers(box, top):
    """Each is told everything, and the end of one is nothing to the other."""
    with box.watch(path=top) as one:
        with box.watch(path=top) as two:
            box.out(f"touch {top}/a")
            assert one.until("create", "a") and two.until("create", "a")
        box.out(f"touch {top}/b")
        assert ("create", "b") in told(one.until("create", "b"))
        with box.watch(path=top) as three:
            box.out(f"touch {top}/c")
            assert told(three.until("create", "c"))[0] == ("create", "c"), "what was before is not told"


def test_the_default_is_the_working_directory(box):
    name = mark()
    with box.watch() as watch:
        box.out(f"touch {name}")
        assert ("create", name) in told(watch.until("create", name))
    with box.watch(path="tmp", root="/") as watch:
        box.out(f"touch /tmp/{name}")
        assert ("create", name) in told(watch.until("create", name))


def test_what_cannot_be_watched(box, top):
    box.out(f"cd {top}; touch f; mkdir d; chmod 000 d; mkfifo p")
    for path, status, code in (("missing", 404, "not_found"), ("f", 409, "not_a_directory"), ("d", 403, "not_permitted"), ("p", 409, "not_a_directory")):
        reply = box.ask("GET", "watch", query={"path": f"{top}/{path}"})
        reply.refused(status, code)
    assert box.ask("GET", "watch", query={"path": top, "recursive": "perhaps"}).status == 422


def test_it_ends_with_the_box(server):
    box = Filed(server)
    with box.watch() as watch, box.watch(recursive=1) as other:
        box.out("touch f")
        assert watch.until("create", "f")
        assert box.delete()[0] == 204
        assert [e.name for e in watch][-1] == "end" and [e.name for e in other][-1] == "end"


def test_the_directory_that_is_watched_goes(box, top):
    """It is told, or the stream ends; nobody waits for what cannot come, and the job does not spin."""
    box.out(f"mkdir {top}/d; touch {top}/d/f")
    with box.watch(path=f"{top}/d", recursive=1) as watch:
        box.out(f"rm -r {top}/d; mkdir {top}/d; touch {top}/d/g")
        assert ("delete", "f") in told(watch.until("delete", "f"))
    assert box.names(path=f"{top}/d") == ["g"]


def test_a_watcher_that_leaves(server, box, top):
    """Its job ends with it, although nothing happens in the box."""
    before = len(server.tree())
    watches = [box.watch(path=top, recursive=n % 2) for n in range(8)]
    assert len(server.tree()) >= before + 8
    for watch in watches:
        watch.close()
    until(lambda: len(server.tree()) <= before, "their jobs have ended")


@pytest.mark.more
def test_a_slow_reader(server, box, top):
    """What it did not take is told, or told to be lost: `overflow`. The gate does not keep it all, and the box is not held up."""
    gate = server.pid_of("gate")
    with open(f"/proc/{gate}/clear_refs", "w", encoding="ascii") as f:
        f.write("5")
    before = int(status_of(gate)["VmHWM"].split()[0])
    # A window below a segment of loopback (64 KiB) would trickle for minutes.
    with box.watch(path=top, receive=131072) as slow, box.watch(path=top) as quick:
        for _ in range(3):
            box.python(f"import os\nos.chdir({top!r})\nfor n in range(20000): open('x' * 100, 'w').close(); os.unlink('x' * 100)")
            assert server.request("GET", "/health")[0] == 200
        box.out(f"touch {top}/last")
        assert SANITIZED or int(status_of(gate)["VmHWM"].split()[0]) - before < 16 * 1024
        for watch in (quick, slow):
            count, lost = 0, False
            for event in watch:
                count += event.name == "create"
                lost = lost or event.name == "overflow"
                if event.name == "create" and event.data["path"] == "last" or lost:
                    break
            else:
                # One that takes nothing for too long is cut off, as every reader is.
                assert watch is slow
            assert lost or count == 60_001 or watch is slow, count


@pytest.mark.more
def test_a_comment_every_15_seconds(box, top):
    """So that nobody on the way takes silence for the end."""
    with box.watch(path=top) as watch:
        assert watch.answer.readline().startswith(b":")


def test_many_watched_directories(box, top):
    """A thousand below one: each of them, and their end."""
    box.python(f"import os\nfor n in range(1000): os.makedirs(f'{top}/{{n % 10}}/{{n}}')")
    with box.watch(path=top, recursive=1) as watch:
        box.python(f"for n in range(0, 1000, 7): open(f'{top}/{{n % 10}}/{{n}}/f', 'w').close()\nopen('{top}/last', 'w')")
        seen = told(watch.until("create", "last"))
        assert {t[1] for t in seen if t[0] == "create"} == {f"{n % 10}/{n}/f" for n in range(0, 1000, 7)} | {"last"} or "overflow" in {t[0] for t in seen}
    box.remove(top, recursive=1).ok(204)
