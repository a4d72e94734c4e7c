# SPDX-License-Identifier: Apache-2.0
"""`glovebox shell`, in a real terminal: the prompt, what runs, what interrupts it, and that everything is as before when it is over."""
import base64
import fcntl
import os
import re
import signal
import socket
import stat
import tempfile
import termios
import threading
import time
import time

import pytest

from between import HANGS, HEAD_ONLY, Between, refusal
from cells import NO_POOL, Session
from conftest import stat_of
from server import needs_root, serve, shared, until  # noqa: F401
from terminal import SANE, Terminal, glovebox, is_dead

pytestmark = [needs_root, pytest.mark.more]

server = shared(env=NO_POOL)

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def url(server):
    return f"unix:{server.path}" if server.path else f"http://{server.authority}"


@pytest.fixture
def boxes(server):
    """Those that there are; none of a test's own may be left."""
    def ids():
        return {b["id"] for b in server.call("GET", "/v1/boxes")[1]["boxes"]}

    before = ids()
    yield lambda: ids() - before
    until(lambda: not ids() - before, "boxes of the test are gone")


@pytest.fixture
def shell(server, boxes, tmp_path):
    """A session whose prompt is there."""
    with Terminal(tmp_path, glovebox("shell", "--url", url(server))) as t:
        t.see(r"^In \[1\]:")
        yield t


def leave(t, status=0):
    t.keys("C-d")
    assert t.ended() == (status, SANE)


# --- a session -----------------------------------------------------------------------------------------------


def test_a_first_session(shell, boxes):
    assert len(boxes()) == 1
    shell.line("x = 41")
    shell.see(r"^In \[2\]:")
    shell.line("x + 1")
    assert "Out[2]: 42" in shell.see(r"^In \[3\]:")
    shell.line("print('hello'); import sys; print('err', file=sys.stderr)")
    screen = shell.see(r"^In \[4\]:")
    assert "hello\n" in screen and "err\n" in screen
    shell.line("print('no line end', end='')")
    assert "\nno line end\n" in shell.see(r"^In \[5\]:")
    shell.line("{i: i * i for i in range(40)}")
    assert re.search(r"Out\[5\]:\n\{0: 0,", shell.see(r"^In \[6\]:"))
    leave(shell)
    until(lambda: not boxes(), "the box is gone")


@pytest.mark.more
def test_a_block_of_lines(shell):
    shell.line("for i in range(3):")
    shell.see(r"^   \.\.\.:$")
    shell.line("print(i * 11)")
    shell.see(r"^   \.\.\.:     print\(i \* 11\)\n   \.\.\.:$")
    shell.keys("Enter")
    assert "0\n11\n22\n" in shell.see(r"^In \[2\]:")
    # It comes back as one, and can be changed.
    shell.keys("Up")
    shell.see(r"^In \[2\]: for i in range\(3\):\n   \.\.\.:     print")
    shell.keys("Up", "End", "Left", "Left", "BSpace")
    shell.type("2")
    shell.keys("Down", "End", "Enter", "Enter")
    assert "0\n11\n" in shell.see(r"^In \[3\]:").split("In [2]:")[1]
    leave(shell)


def test_an_open_bracket(shell):
    shell.line("sum([1,")
    shell.line("2])")
    assert "Out[1]: 3" in shell.see(r"^In \[2\]:")
    leave(shell)


def test_an_error_has_its_colours(shell):
    shell.line("1 / 0")
    shell.see(r"^ZeroDivisionError: division by zero")
    assert re.search(r"\x1b\[[0-9;]*31m.*ZeroDivisionError", shell.screen(colours=True))
    assert "\x1b[32mIn [" in shell.screen(colours=True)
    shell.see(r"^In \[2\]:")
    leave(shell)


@pytest.mark.more
def test_no_colour_where_none_is_wanted(server, boxes, tmp_path):
    with Terminal(tmp_path, glovebox("shell", "--url", url(server)), env={"NO_COLOR": "1"}) as t:
        t.see(r"^In \[1\]:")
        t.line("1 / 0")
        t.see(r"^In \[2\]:")
        assert "ZeroDivisionError" in t.screen() and "\x1b[3" not in t.screen(colours=True)
        leave(t)


def test_leaving_by_words(shell):
    shell.line("exit()")
    assert shell.ended() == (0, SANE)


@pytest.mark.more
def test_kernel_that_dies(shell):
    shell.line("x = 1; import os; os.kill(os.getpid(), 9)")
    assert "variables are lost" in shell.see(r"^In \[\d+\]:", 2)
    shell.line("'x' in globals()")
    shell.see(r"^Out\[\d+\]: False")
    shell.see("started anew")
    leave(shell)


# --- Ctrl-C, Ctrl-Z ------------------------------------------------------------------------------------------


def test_ctrl_c_interrupts_a_cell(shell):
    shell.line("x = 5; print('up', flush=True); exec('while True: pass')")
    shell.see(r"^up$")
    shell.keys("C-c")
    assert "KeyboardInterrupt" in shell.see(r"^In \[2\]:")
    shell.line("x")
    shell.see(r"^Out\[2\]: 5")
    leave(shell)


@pytest.mark.more
def test_ctrl_c_interrupts_a_child(shell):
    shell.line("!echo up; sleep 1000")
    shell.see(r"^up$")
    shell.keys("C-c")
    shell.see(r"^In \[2\]:")
    leave(shell)


@pytest.mark.more
def test_a_cell_that_does_not_listen(shell):
    """Three times Ctrl-C end its kernel. Pressed at once they may be one signal: it is pressed until it was heard twice."""
    shell.line("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); exec('while True: pass')")
    shell.see(r"^up$")
    for _ in range(10):
        shell.keys("C-c")
        time.sleep(0.5)
        if "once more ends the kernel" in shell.screen():
            break
    shell.see(r"once more ends the kernel")
    shell.keys("C-c")
    shell.see(r"variables are lost; files")
    shell.see(r"^In \[\d+\]:", 2)
    shell.line("'new'")
    shell.see(r"^Out\[\d+\]: 'new'")
    leave(shell)


@pytest.mark.more
def test_an_early_ctrl_c_is_no_end(server, boxes, tmp_path):
    """One that comes before it is known that the cell runs: it is interrupted, and its kernel stays."""
    held = []
    with Between(server, lambda _, path, __: HEAD_ONLY if held and path.endswith("/events") else None) as between, \
            Terminal(tmp_path, glovebox("shell", "--url", between.url)) as t:
        t.see(r"^In \[1\]:")
        t.line("x = 5; import time")
        t.see(r"^In \[2\]:")
        held.append(True)
        t.paste("try:\n    time.sleep(1000)\nexcept KeyboardInterrupt:\n    time.sleep(1); print('kept', x)\nx = x")
        t.keys("Enter")
        until(lambda: sum(path.endswith("/events") for _, path, _ in between.seen) == 2, "it is followed")
        cells = f"/v1/boxes/{boxes().pop()}/cells"
        until(lambda: "running" in {c["status"] for c in server.call("GET", cells)[1]["cells"]}, "it runs")
        t.keys("C-c")
        until(lambda: "DELETE" in {method for method, _, _ in between.seen}, "Ctrl-C was heard")
        between.go.set()
        t.see(r"^(\^C)?kept 5$")
        t.see(r"^In \[3\]:")
        leave(t)


def test_ctrl_c_at_the_prompt_drops_the_line(shell):
    shell.type("garbage(")
    shell.keys("C-c")
    shell.see(r"^In \[1\]: garbage\(\^C$")
    shell.line("1 + 1")
    shell.see(r"^Out\[1\]: 2")
    leave(shell)


def test_ctrl_z_and_back(server, boxes, tmp_path):
    line = " ".join(map(str, glovebox("shell", "--url", url(server))))
    with Terminal(tmp_path, "bash --norc -i", env={"PS1": "outside> "}) as t:
        t.see("outside>")
        t.line(line)
        t.see(r"^In \[1\]:")
        t.type("6 *")
        t.keys("C-z")
        t.see("outside>", 2)
        t.line("stty -a | grep -o ' echo '")
        t.see("^ ?echo", 1)
        t.line("fg")
        t.see(r"^In \[1\]: 6 \*", 2)
        t.line(" 7")
        t.see(r"^Out\[1\]: 42")
        t.line("print('up', flush=True); import time; time.sleep(1000)")
        t.see("^up$")
        t.keys("C-z")
        t.see("outside>", 4)
        t.line("fg")
        t.keys("C-c")
        t.see(r"KeyboardInterrupt")
        t.see(r"^In \[3\]:")
        t.keys("C-d")
        t.see("outside>", 5)
        t.line("exit")
        assert t.ended()[1] == SANE


def in_bash(t, server, *words):
    """A session as a job of a shell."""
    t.see("outside>")
    t.line(" ".join(map(str, glovebox("shell", "--url", url(server), *words))))


@pytest.mark.more
@pytest.mark.parametrize("go_on", [False, True])
def test_a_stopped_session_hears_kill(server, boxes, tmp_path, go_on):
    """Also in the background, where it must not change the terminal."""
    with Terminal(tmp_path, "bash --norc -i", env={"PS1": "outside> "}) as t:
        in_bash(t, server)
        t.see(r"^In \[1\]:")
        pid = t.pid()
        t.keys("C-z")
        t.see("outside>", 2)
        if go_on:
            t.line("bg")
            until(lambda: stat_of(pid)[2] == "T", "it was stopped again")
        t.line("kill %1")
        until(lambda: is_dead(pid), "it has ended")
        until(lambda: not boxes(), "the box is gone")
        t.line("exit")
        assert t.ended()[1] == SANE


@pytest.mark.more
def test_ctrl_z_while_a_password_is_asked_for(server, boxes, tmp_path):
    with Terminal(tmp_path, "bash --norc -i", env={"PS1": "outside> "}) as t:
        in_bash(t, server)
        t.see(r"^In \[1\]:")
        t.line("import getpass; print(getpass.getpass('secret? ')[::-1])")
        t.see(r"^secret\?")
        t.type("hun")
        os.kill(t.pid(), signal.SIGSTOP)  # as others than Ctrl-Z may
        t.see("outside>", 2)
        t.line("fg")
        t.see(r"^secret\?", 2)
        t.line("ter2")
        t.see("^2retnuh$")
        assert "hun" not in t.screen() and "ter2" not in t.screen()
        t.see(r"^In \[2\]:")
        t.keys("C-d")
        t.see("outside>", 3)
        t.line("exit")
        t.ended()


# --- typing --------------------------------------------------------------------------------------------------


def test_wide_and_combining_characters(shell):
    shell.type("s = '漢字e\u0301😀'")
    shell.see("漢字e\u0301😀'$")
    shell.keys("Left", "Left", "BSpace", "BSpace", "End")
    shell.line("; len(s), s")
    shell.see(r"^Out\[1\]: \(2, '漢😀'\)")
    leave(shell)


def test_a_line_longer_than_the_terminal(shell):
    text = "'" + "0123456789" * 25 + "'"
    shell.type(text)
    until(lambda: text in shell.screen().replace("\n", "").replace("In [1]: ", ""), "all of it")
    shell.keys("C-a")
    shell.type("len(")
    shell.keys("C-e")
    shell.line(")")
    shell.see(r"^Out\[1\]: 250")
    leave(shell)


def test_the_window_changes(shell):
    text = "'" + "abcdefghij" * 9 + "'"
    shell.type(text)
    shell.see("abcdefghij'$")
    for cols, rows in ((60, 20), (40, 10), (100, 30)):
        shell.resize(cols, rows)
        until(lambda: text in shell.screen().replace("\n", ""), "all of it")
        assert shell.screen().count("In [1]:") == 1
    shell.keys("Enter")
    shell.see(r"^In \[2\]:")
    leave(shell)


def test_a_pasted_cell_is_one_cell(shell):
    shell.paste("def f(n):\n    if n < 2:\n        return n\n\n    return f(n - 1) + f(n - 2)\n\nf(20)\n")
    shell.see(r"^   \.\.\.: f\(20\)\n   \.\.\.:$")
    assert "Out[" not in shell.screen()
    shell.keys("Enter")
    shell.see(r"^Out\[1\]: 6765")
    leave(shell)


def test_history(server, boxes, tmp_path):
    file = tmp_path / "home/.local/state/glovebox/history"
    with Terminal(tmp_path, glovebox("shell", "--url", url(server))) as t:
        t.see(r"^In \[1\]:")
        t.line("first = 1")
        t.see(r"^In \[2\]:")
        t.line("def g():")
        t.line("return 2")
        t.keys("Enter")
        t.see(r"^In \[3\]:")
        t.keys("Up", "Up", "Up", "Enter")
        t.see(r"^In \[3\]: first = 1")
        t.see(r"^In \[4\]:")
        leave(t)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().splitlines() == ["first = 1", "def g():\\n    return 2", "first = 1"]
    with Terminal(tmp_path, glovebox("shell", "--url", url(server))) as t:
        t.see(r"^In \[1\]:")
        t.keys("C-r")
        t.type("def")
        t.see(r"\(search: def\) def g\(\):")
        t.keys("Enter")
        t.see(r"^In \[1\]: def g\(\):\n   \.\.\.:     return 2")
        t.keys("C-c")
        t.keys("C-r")
        t.type("nothing")
        t.see("failed search: nothing")
        t.keys("C-g")
        t.see(r"^In \[1\]:$")
        leave(t)


def knows(server, call):
    with Session(server) as box:
        return server.call("POST", f"{box.path}/{call}", {"code": "pri", "kernel": "main", **({"cursor": 3} if call == "complete" else {})})[0] != 404


@pytest.mark.more
def test_typing_ahead(shell):
    """What is typed while a cell runs is there at the next prompt."""
    shell.line("print('up', flush=True); import time; time.sleep(2)")
    shell.see("^up$")
    shell.line("6 * 7")
    shell.type("'not yet")
    shell.see(r"^Out\[2\]: 42")
    shell.see(r"^In \[3\]: 'not yet$")
    shell.line("'")
    shell.see(r"^Out\[3\]: 'not yet'")
    leave(shell)


def test_completion(server, shell):
    if not knows(server, "complete"):
        pytest.skip("this server has no completion yet")
    shell.line("wanted_name = 1; wanted_other = 2")
    shell.see(r"^In \[2\]:")
    shell.type("wanted_n")
    shell.keys("Tab")
    shell.see(r"^In \[2\]: wanted_name$")
    shell.keys("C-u")
    shell.type("'é'; wan")
    shell.keys("Tab")
    shell.see(r"^In \[2\]: 'é'; wanted_$")
    shell.keys("Tab", "Tab")
    shell.see(r"^wanted_name +wanted_other$")
    shell.see(r"^In \[2\]: 'é'; wanted_$")
    shell.keys("C-c")
    leave(shell)


@pytest.mark.more
def test_completions_cannot_act_on_the_terminal(server, boxes, tmp_path):
    """A control character of 8 bits, from a kernel that is not what it seems: only the other one is taken."""
    body = rb'{"matches": ["wanted_a\u009b2J", "wanted_b"], "start": 0, "end": 6}'
    said = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with Between(server, lambda _, path, __: said if path.endswith("/complete") else None) as between, \
            Terminal(tmp_path, glovebox("shell", "--url", between.url)) as t:
        t.see(r"^In \[1\]:")
        t.type("wanted")
        t.keys("Tab")
        t.see(r"^In \[1\]: wanted_b$")
        t.keys("C-c")
        leave(t)


def test_tab_where_there_is_nothing(shell):
    shell.type("nothing_begins_so")
    shell.keys("Tab", "Tab")
    shell.type("1")
    shell.see(r"^In \[1\]: nothing_begins_so1$")
    shell.keys("C-c")
    shell.keys("Tab")
    shell.type("x")
    shell.see(r"^In \[1\]:     x$")
    shell.keys("C-c")
    leave(shell)


# --- what a cell asks and shows ------------------------------------------------------------------------------


def test_input(shell):
    shell.line("name = input('who? ')")
    shell.see(r"^who\? ?$")
    shell.type("worlt")
    shell.keys("BSpace")
    shell.line("d")
    shell.see(r"^In \[2\]:")
    shell.line("name")
    shell.see(r"^Out\[2\]: 'world'")
    shell.line("import getpass; p = getpass.getpass('secret? ')")
    shell.see(r"^secret\? ?$")
    shell.line("hunter2")
    shell.see(r"^In \[4\]:")
    assert "hunter2" not in shell.screen()
    shell.line("p[::-1]")
    shell.see(r"^Out\[4\]: '2retnuh'")
    shell.line("input('more: ')")
    shell.see("^more:")
    shell.keys("C-d")
    assert "EOFError" in shell.see(r"^In \[6\]:")
    shell.line("input('again: ')")
    shell.see("^again:")
    shell.type("half")
    shell.keys("C-c")
    assert "KeyboardInterrupt" in shell.see(r"^In \[7\]:")
    leave(shell)
    assert "hunter2" not in (shell.home / ".local/state/glovebox/history").read_text()


def test_images_are_saved(server, boxes, tmp_path):
    show = f"from IPython.display import Image, SVG, display; display(Image(data={PNG!r})); display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))"
    with Terminal(tmp_path, glovebox("shell", "--url", url(server), "--images", "pictures"), cols=200) as t:
        t.see(r"^In \[1\]:")
        assert not (tmp_path / "pictures").exists()
        t.paste(show)
        t.keys("Enter")
        t.see(r"^\[image/png: pictures/out-1\.png\]")
        t.see(r"^\[image/svg\+xml: pictures/out-1-2\.svg\]")
        t.see(r"^In \[2\]:")
        t.keys("Up", "Enter")
        t.see(r"^\[image/png: pictures/out-2\.png\]")
        t.see(r"^In \[3\]:")
        leave(t)
    assert (tmp_path / "pictures/out-1.png").read_bytes() == PNG
    assert "<svg" in (tmp_path / "pictures/out-1-2.svg").read_text()
    assert len(list((tmp_path / "pictures").iterdir())) == 4


def test_images_never_replace_a_file(server, boxes, tmp_path):
    (tmp_path / "glovebox-images").mkdir()
    (tmp_path / "glovebox-images/out-1.png").symlink_to("/nonexistent/elsewhere")
    with Terminal(tmp_path, glovebox("shell", "--url", url(server)), cols=200) as t:
        t.see(r"^In \[1\]:")
        t.paste(f"from IPython.display import Image; Image(data={PNG!r})")
        t.keys("Enter")
        t.see(r"out-1-2\.png\]")
        t.see(r"^In \[2\]:")
        leave(t)
    assert (tmp_path / "glovebox-images/out-1-2.png").read_bytes() == PNG


def test_output_cannot_act_on_the_terminal(shell):
    """No question that the terminal would answer by typing, no title, no other screen."""
    title = shell.tmux("display-message", "-p", "#{pane_title}")
    shell.line(r"print('\x1b[6n\x1b[c\x1b]0;owned\x07\x1b[?1049h\x1bPq\x1b\\\x9b5n' + 'sa' + 'fe')")
    shell.see(r"^.*safe$")
    shell.see(r"^In \[2\]:$")
    shell.line("'fine'")
    shell.see(r"^Out\[2\]: 'fine'")
    assert shell.tmux("display-message", "-p", "#{pane_title} #{alternate_on}") == f"{title.strip()} 0\n"
    leave(shell)


def test_progress_bars_stay_on_their_line(shell):
    shell.line(r"print('10%\r100%\x1b[K done')")
    shell.see(r"^100% done$")
    shell.line(r"print('a\0b')")
    shell.see(r"^ab$")
    leave(shell)


def test_many_lines(shell):
    shell.line("for i in range(3000): print('line', i)")
    shell.keys("Enter")
    screen = shell.see(r"^In \[2\]:")
    assert [int(n) for n in re.findall(r"^line (\d+)$", screen, re.M)] == list(range(3000))
    leave(shell)


# --- another box, another kernel -----------------------------------------------------------------------------


@pytest.mark.more
def test_a_box_that_is_there(server, boxes, tmp_path):
    with Session(server, name="mine") as box:
        box.ok("x = 'from elsewhere'")
        with Terminal(tmp_path, glovebox("shell", "--url", url(server), "--box", "name:mine")) as t:
            t.see(r"^In \[2\]:")
            t.line("x")
            t.see(r"^Out\[2\]: 'from elsewhere'")
            leave(t)
        with Terminal(tmp_path, glovebox("shell", "--url", url(server), "--box", box.id, "--kernel", "other")) as t:
            t.see(r"^In \[1\]:")
            t.line("'x' in globals()")
            t.see(r"^Out\[1\]: False")
            leave(t)
        assert box.get()[0] == 200


def test_a_box_that_is_kept(server, boxes, tmp_path):
    command = glovebox("shell", "--url", url(server), "--keep", "--name", "kept", "--memory", "256M", "--env", "GREETING=hi there")
    with Terminal(tmp_path, command) as t:
        t.see(r"^In \[1\]:")
        t.line("import os; os.environ['GREETING']")
        t.see(r"^Out\[1\]: 'hi there'")
        leave(t)
        assert "glovebox shell --box" in t.screen()
    status, box = server.call("GET", "/v1/boxes/name:kept")
    assert status == 200 and box["limits"]["memory_bytes"] == 256 << 20
    assert server.call("DELETE", "/v1/boxes/name:kept")[0] == 204


def test_a_box_that_ends_under_a_session(server, shell, boxes):
    shell.line("1")
    shell.see(r"^In \[2\]:")
    assert server.call("DELETE", f"/v1/boxes/{boxes().pop()}")[0] == 204
    shell.line("2")
    status, modes = shell.ended()
    assert status == 125 and modes == SANE
    assert "ended" in shell.screen() and "deleted" in shell.screen()


@pytest.mark.more
def test_a_cell_that_waits_is_cancelled(server, boxes, tmp_path):
    """What runs is somebody else's: Ctrl-C must not interrupt it."""
    with Session(server) as box:
        cell = box.begin("import time\ntime.sleep(1000)", timeout_ms=None)
        with Terminal(tmp_path, glovebox("shell", "--url", url(server), "--box", box.id)) as t:
            t.see(r"^In \[\d+\]:")
            t.line("'mine'")
            until(lambda: any(c["status"] == "queued" for c in server.call("GET", f"{box.path}/cells")[1]["cells"]), "mine waits")
            t.keys("C-c")
            t.see("the cell was cancelled")
            t.see(r"^In \[\d+\]:", 2)
            assert box.look(cell, 0)["status"] == "running"
            leave(t)


# --- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("busy", [False, True])
def test_signals_leave_a_sane_terminal(shell, boxes, sig, busy):
    if busy:
        shell.line("print('up', flush=True); import time; time.sleep(1000)")
        shell.see(r"^up$")
    shell.kill(sig)
    assert shell.ended() == (128 + sig, SANE)
    until(lambda: not boxes(), "the box is gone")


def test_a_crash_leaves_a_sane_terminal(server, shell, boxes):
    shell.kill(signal.SIGABRT)
    assert shell.ended() == (128 + signal.SIGABRT, SANE)
    server.call("DELETE", f"/v1/boxes/{boxes().pop()}")  # nobody was left to do it


def test_the_terminal_goes_away(server, boxes, tmp_path):
    with Terminal(tmp_path, glovebox("shell", "--url", url(server))) as t:
        t.see(r"^In \[1\]:")
        assert len(boxes()) == 1
    until(lambda: not boxes(), "the box is gone")


@pytest.mark.more
def test_the_gate_dies_under_a_cell(serve, tmp_path):
    """The cell goes on, and each of its lines is seen once."""
    mortal = serve(env=NO_POOL)
    with Terminal(tmp_path, glovebox("shell", "--url", url(mortal))) as t:
        t.see(r"^In \[1\]:")
        t.line("import time")
        t.see(r"^In \[2\]:")
        t.line("for i in range(60): print('line', i, flush=True); time.sleep(0.05)")
        t.keys("Enter")
        t.see("^line 5$")
        old = mortal.kill_gate()
        mortal.next_gate(old)
        screen = t.see(r"^In \[3\]:")
        assert [int(n) for n in re.findall(r"^line (\d+)$", screen, re.M)] == list(range(60))
        t.line("i")
        t.see(r"^Out\[3\]: 59")
        leave(t)


def test_the_server_stops_under_a_session(serve, tmp_path):
    mortal = serve(env=NO_POOL)
    with Terminal(tmp_path, glovebox("shell", "--url", url(mortal))) as t:
        t.see(r"^In \[1\]:")
        mortal.stop()
        t.line("1")
        t.see("the connection is lost, trying again")
        t.keys("C-c")
        t.see("not waiting any longer")
        t.see(r"^In \[1\]:", 2)
        t.keys("C-d")
        status, modes = t.ended()
        assert status == 0 and modes == SANE and "could not be ended" in t.screen()


def test_a_cell_that_is_refused(server, boxes, tmp_path):
    """It is said, and the session goes on, with its box."""
    answers = [refusal(429, "too_many"), refusal(503), refusal(413, "too_large"), refusal(401, "unauthorized"), b"SSH-2.0-OpenSSH\r\n"]

    def rule(method, path, _):
        return answers.pop(0) if answers and method == "POST" and path.endswith("/cells") else None

    with Between(server, rule) as between, Terminal(tmp_path, glovebox("shell", "--url", between.url)) as t:
        for n in range(1, len(answers) + 1):
            t.see(r"^In \[1\]:", n)
            t.line("6 * 7")
            t.see("not now|is no glovebox", n)
        t.see(r"^In \[1\]:", 6)
        assert len(boxes()) == 1
        t.line("6 * 7")
        t.see(r"^Out\[1\]: 42")
        leave(t)


@pytest.mark.more
def test_a_server_that_stays_away(serve, tmp_path):
    """After half a minute nobody waits any longer, and the session is still there."""
    mortal = serve(env=NO_POOL)
    with Terminal(tmp_path, glovebox("shell", "--url", url(mortal))) as t:
        t.see(r"^In \[1\]:")
        mortal.stop()
        t.line("1")
        t.see("the connection is lost, trying again")
        t.see(r"^In \[1\]:", 2)
        t.keys("C-d")
        assert t.ended() == (0, SANE)


@pytest.mark.more
def test_a_server_that_hangs(serve, tmp_path):
    """Ctrl-C is heard though nobody answers; afterwards everything is as it was."""
    mortal = serve(env=NO_POOL, hang_timeout="1h")
    with Terminal(tmp_path, glovebox("shell", "--url", url(mortal))) as t:
        t.see(r"^In \[1\]:")
        gate = mortal.pid_of("gate")
        os.kill(gate, signal.SIGSTOP)
        try:
            t.line("x = 1")
            until(lambda: t.cursor()[0] == 0, "the cell is sent")
            t.keys("C-c")
            t.see("not waiting any longer")
            t.see(r"^In \[1\]:", 2)
        finally:
            os.kill(gate, signal.SIGCONT)
        t.line("6 * 7")
        t.see(r"^Out\[\d\]: 42")
        leave(t)


# --- no terminal ---------------------------------------------------------------------------------------------


@pytest.mark.more
def test_one_cell_from_a_pipe(run, server, boxes, tmp_path):
    done = run("shell", "--url", url(server), input=b"print('out')\nimport sys\nprint('err', file=sys.stderr)\n6 * 7", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n42\n", b"err\n")
    done = run("shell", "--url", url(server), input=b"print(1)\n1 / 0", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == b"1\n" and b"ZeroDivisionError" in done.stderr
    done = run("shell", "--url", url(server), input=b"input()", cwd=tmp_path)
    assert done.returncode == 1 and b"StdinNotImplementedError" in done.stderr
    done = run("shell", "--url", url(server), input=b"", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    done = run("shell", "--url", url(server), "--timeout", "500ms", input=b"while True: pass", cwd=tmp_path)
    assert done.returncode == 1 and b"out of time" in done.stderr
    done = run("shell", "--url", url(server), input=b"import os; os.write(1, bytes(range(256)))\nNone", cwd=tmp_path)
    assert done.stdout == bytes(range(256))
    done = run("shell", "--url", url(server), input=b"x = '\0'", cwd=tmp_path)
    assert done.returncode == 125 and b"NUL" in done.stderr
    until(lambda: not boxes(), "boxes are gone")


def test_nobody_reads(server, boxes, start):
    process = start("shell", "--url", url(server))
    process.stdin.write(b"while True: print('x' * 1000)")
    process.stdin.close()
    process.stdout.read(100)
    process.stdout.close()
    assert process.wait(60) != 0
    until(lambda: not boxes(), "the box is gone")


@pytest.mark.more
def test_a_cell_that_is_typed_without_a_prompt(server, boxes, tmp_path):
    """Standard output is no terminal: input is read to its end, and Ctrl-C ends it before."""
    command = " ".join(map(str, glovebox("shell", "--url", url(server))))
    with Terminal(tmp_path, f"{command} | cat") as t:
        until(boxes, "there is a box")
        t.line("6 * 7")
        t.keys("C-d")
        t.see("^42$")
        assert t.ended() == (0, SANE)
    with Terminal(tmp_path, f"{command} | cat") as t:
        until(boxes, "there is a box")
        t.keys("C-c")
        t.ended()
    until(lambda: not boxes(), "the box is gone")


@pytest.mark.more
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_cell_that_never_comes(server, boxes, start, sig):
    process = start("shell", "--url", url(server))
    until(boxes, "there is a box")
    process.send_signal(sig)
    assert process.wait(60) == 128 + sig


def is_full(pipe):
    """Whether nobody writes to it any more: how much fits depends on the sizes of the pieces."""
    def held():
        return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")

    before = held()
    time.sleep(0.3)
    return before == held() > 4096


@pytest.mark.more
def test_signals_while_nobody_reads(server, boxes, start):
    process = start("shell", "--url", url(server))
    process.stdin.write(b"while True: print('x' * 1000)")
    process.stdin.close()
    until(lambda: is_full(process.stdout), "nobody can write any more")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    until(lambda: not boxes(), "the box is gone")


def test_names_of_events_are_harmless(server, boxes, run):
    events = b"id: 1\nevent: \x1b]0;owned\x07odd\ndata: {]\n\nid: 2\nevent: end\ndata: {\"status\": \"ok\"}\n\n"
    said = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + events
    with Between(server, lambda _, path, __: said if path.endswith("/events") else None) as between:
        done = run("shell", "--url", between.url, input=b"1")
    assert done.returncode == 0 and b"odd that cannot be shown" in done.stdout and b"\x1b" not in done.stdout + done.stderr, done


BAD = [
    (["--url", "https://localhost"], "does not speak https"),
    (["--url", "localhost:8000"], "neither 'http://' nor 'unix:'"),
    (["--url", "http://127.0.0.1:1"], "connect to http://127.0.0.1:1"),
    (["--url", "unix:/nonexistent/socket"], "connect to unix:/nonexistent/socket"),
    (["--box", "../x"], "neither the id of a box"),
    (["--box", "a" * 26], "a" * 26),
    (["--kernel", "A"], "--kernel"),
    (["--memory", "lots"], "--memory"),
    (["--memory", "1T"], "memory_bytes"),
    (["--box", "a" * 26, "--memory", "64M"], "for a new box"),
    (["--env", "NOT SET"], "no such variable"),
    (["--env", "A B=c"], "no name of a variable"),
    (["--mount", "/etc"], "mounts"),
    (["--token-file", "/nonexistent"], "token file"),
    (["--nonsense"], "unknown option"),
    (["argument"], "is no option"),
    (["--sh"], "--sh needs a terminal"),
]


@pytest.mark.parametrize("words, says", BAD)
def test_bad_input(run, server, boxes, words, says):
    done = run("shell", *([] if "--url" in words else ["--url", url(server)]), *words, input=b"print('ran')")
    assert done.returncode == 125 and says in done.stderr.decode(), done
    assert done.stdout == b"" and all(line.startswith("glovebox: ") for line in done.stderr.decode().splitlines())


def test_help(run):
    done = run("shell", "--help")
    assert done.returncode == 0 and all(f"--{word}" in done.stdout.decode() for word in ("url", "box", "sh", "keep", "images", "memory"))


@pytest.mark.more
def test_tokens(serve, run, tmp_path):
    guarded = serve(tokens={"team": "a-token-of-24-characters"}, env=NO_POOL)
    file = tmp_path / "token"
    file.write_text("# mine\n\nteam:a-token-of-24-characters\n")
    where = ("--url", url(guarded))
    done = run("shell", *where, input=b"1")
    assert done.returncode == 125 and b"token" in done.stderr and b"--token-file" in done.stderr
    done = run("shell", *where, "--token-file", file, input=b"1")
    assert done.returncode == 125 and b"chmod 600" in done.stderr
    file.chmod(0o600)
    for words, env in ((["--token-file", file], {}), (["--token", "a-token-of-24-characters"], {}), ([], {"GLOVEBOX_TOKEN": "team:a-token-of-24-characters"}),
                       ([], {"GLOVEBOX_TOKEN_FILE": str(file)})):
        done = run("shell", *where, *words, input=b"6 * 7", env={**os.environ, **env})
        assert (done.returncode, done.stdout) == (0, b"42\n"), done
    named = f"http://gb:a-token-of-24-characters@{guarded.authority}"
    assert run("shell", "--url", named, input=b"1").returncode == 0
    done = run("shell", *where, "--token", "another-token-of-24-char", input=b"1")
    assert done.returncode == 125 and b"not known" in done.stderr and b"another-token" not in done.stderr


def test_what_answers_is_no_server_of_ours(run, tmp_path):
    """Bytes of anybody: one line, and the end."""
    for said in (b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"", b"HTTP/1.1 200 OK\r\n", b"\x15\x03\x01\x00\x02\x02\x46",
                 b"HTTP/1.1 201 Created\r\nContent-Length: 21\r\n\r\n{\"id\": \"../../../..\"}\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def answer(said=said, listener=listener):
                c, _ = listener.accept()
                with c:
                    c.recv(65536)
                    c.sendall(said)

            thread = threading.Thread(target=answer)
            thread.start()
            done = run("shell", "--url", f"http://127.0.0.1:{listener.getsockname()[1]}", input=b"1")
            thread.join()
        assert done.returncode == 125 and done.stdout == b"" and done.stderr.startswith(b"glovebox: "), (said, done)


# --- a server of its own -------------------------------------------------------------------------------------


@pytest.fixture
def spot():
    """Where a server of its own puts its things; nothing of them may stay. (A short path: there is a socket in it.)"""
    folder = tempfile.mkdtemp(prefix="spot-", dir="/tmp")
    yield folder
    until(lambda: not os.listdir(folder), f"{folder} is empty")
    os.rmdir(folder)


def alone(spot, **more):
    """Nobody listens where one would be looked for."""
    return {"GLOVEBOX_LISTEN": f"unix:{spot}/nobody", "TMPDIR": spot, "XDG_RUNTIME_DIR": "", **more}


def test_a_server_for_the_session(spot, tmp_path):
    with Terminal(tmp_path, glovebox("shell"), env=alone(spot)) as t:
        t.see("no server runs here: starting one")
        t.see(r"^In \[1\]:")
        assert len(os.listdir(spot)) == 1
        t.line("6 * 7")
        t.see(r"^Out\[1\]: 42")
        t.keys("C-c")  # which is no signal for the server
        t.line("'still there'")
        t.see(r"^Out\[2\]: 'still there'")
        leave(t)
        assert os.listdir(spot) == []


@pytest.mark.more
def test_a_server_for_one_cell(run, spot, tmp_path):
    env = {**os.environ, **alone(spot)}
    done = run("shell", input=b"6 * 7", env=env)
    assert (done.returncode, done.stdout) == (0, b"42\n"), done
    done = run("shell", "--mount", tmp_path, input=f"import os; os.listdir('/mnt/{tmp_path.name}')".encode(), env=env, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"[]\n"), done
    assert os.listdir(spot) == []


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_its_session(start, spot, sig):
    """Also when the session is killed: nothing is left, as the fixtures look."""
    process = start("shell", env={**os.environ, **alone(spot)})
    process.stdin.write(b"print('up', flush=True); import time; time.sleep(1000)")
    process.stdin.close()
    assert process.stdout.readline() == b"up\n"
    assert len(os.listdir(spot)) == 1
    process.send_signal(sig)
    assert process.wait(60) == (-sig if sig == signal.SIGKILL else 128 + sig)


def test_a_server_that_cannot_start(run, spot):
    done = run("shell", input=b"1", env={**os.environ, **alone(spot), "GLOVEBOX_MAX_BOXES": "nonsense"})
    assert done.returncode == 125 and b"none could be started" in done.stderr and b"started: GLOVEBOX_MAX_BOXES" in done.stderr, done


@pytest.mark.more
def test_another_program_at_the_usual_place(run, spot):
    """Many a machine has something on port 8000: it is not ours, and is left alone."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            c, _ = listener.accept()
            with c:
                c.recv(65536)
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

        thread = threading.Thread(target=answer)
        thread.start()
        done = run("shell", input=b"6 * 7", env={**os.environ, **alone(spot, GLOVEBOX_LISTEN=f"127.0.0.1:{listener.getsockname()[1]}")})
        thread.join()
    assert (done.returncode, done.stdout) == (0, b"42\n"), done


@pytest.mark.more
def test_a_server_that_was_there_is_used(serve, run, tmp_path):
    """One that listens where it would be looked for is found, and is not ended."""
    there = serve(listen=f"unix:{tmp_path}/socket", env=NO_POOL)
    done = run("shell", input=b"6 * 7", env={**os.environ, "GLOVEBOX_LISTEN": f"unix:{there.path}"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"")
    assert there.call("GET", "/v1/boxes")[1]["boxes"] == []


# --- a shell with a terminal ---------------------------------------------------------------------------------


@pytest.fixture
def sh(server, boxes, tmp_path):
    with Terminal(tmp_path, glovebox("shell", "--url", url(server), "--sh"), cols=90, rows=24) as t:
        t.see(r"\$ ?$")
        yield t


def test_a_real_shell(sh, boxes):
    sh.line("tty; stty size; echo $((6 * 7))")
    screen = sh.see(r"^42$")
    assert "/dev/pts/" in screen and "24 90" in screen
    sh.resize(70, 20)
    until(lambda: "20 70" in (sh.line("stty size"), sh.screen())[1], "the box has the new size")
    sh.line("sh -c 'echo u''p; sleep 1000'")
    sh.see("^up$")
    sh.keys("C-c")
    sh.line("echo $?")
    sh.see("^130$")
    sh.line("printf 'a\\001\\033[1mb\\n'; exit 7")
    assert sh.ended() == (7, SANE)
    until(lambda: not boxes(), "the box is gone")


def test_a_shell_that_is_killed(sh):
    sh.line("kill -9 $$")
    assert sh.ended() == (128 + 9, SANE)


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGABRT])
def test_signals_leave_a_sane_terminal_of_a_shell(server, sh, boxes, sig):
    sh.kill(sig)
    assert sh.ended() == (128 + sig, SANE)
    if sig == signal.SIGABRT:
        server.call("DELETE", f"/v1/boxes/{boxes().pop()}")


def test_a_shell_outlives_the_gate(serve, tmp_path):
    mortal = serve(env=NO_POOL)
    with Terminal(tmp_path, glovebox("shell", "--url", url(mortal), "--sh")) as t:
        t.see(r"\$ ?$")
        t.line("x=kept; echo before")
        t.see("^before$")
        old = mortal.kill_gate()
        mortal.next_gate(old)
        until(lambda: (t.line("echo $x-$x"), "kept-kept" in t.screen())[1], "the same shell")
        t.line("exit 3")
        assert t.ended() == (3, SANE)


def test_a_shell_whose_box_ends(server, sh, boxes):
    assert server.call("DELETE", f"/v1/boxes/{boxes().pop()}")[0] == 204
    status, modes = sh.ended()
    assert status == 125 and modes == SANE and "ended" in sh.screen()


def test_a_shell_whose_server_ends(serve, tmp_path):
    mortal = serve(env=NO_POOL)
    with Terminal(tmp_path, glovebox("shell", "--url", url(mortal), "--sh")) as t:
        t.see(r"\$ ?$")
        mortal.kill()
        t.see("the connection is lost")
        t.keys("C-c")
        status, modes = t.ended()
        assert status == 125 and modes == SANE


@pytest.mark.more
def test_what_a_shell_has_switched_on_is_switched_off(server, sh, boxes):
    """By a program that could not do it: its box has ended."""
    def flags():
        return sh.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_cursor_flag}").strip()

    before = flags()
    sh.line("printf '\\033[?1049h\\033[?25l\\033[?1000;1006h\\033[?1h\\033[31m'; exec sleep 1000")
    until(lambda: flags() == "1 0 1 1", "all of it is on")
    assert server.call("DELETE", f"/v1/boxes/{boxes().pop()}")[0] == 204
    assert sh.ended() == (125, SANE)
    assert flags() == before == "0 1 0 0"


@pytest.mark.more
def test_a_shell_whose_server_hangs(server, boxes, tmp_path):
    """Ctrl-C gives up, also while the connection is being made anew."""
    hangs = []
    with Between(server, lambda _, path, __: HANGS if hangs and "/tty" in path else None) as between, \
            Terminal(tmp_path, glovebox("shell", "--url", between.url, "--sh")) as t:
        t.see(r"\$ ?$")
        hangs.append(True)
        between.cut()
        t.see("the connection is lost")
        until(lambda: sum("/tty" in path for _, path, _ in between.seen) > 1, "it comes back")
        t.keys("C-c")
        assert t.ended() == (125, SANE)
