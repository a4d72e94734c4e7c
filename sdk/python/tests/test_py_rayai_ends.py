# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.rayai: what goes wrong, and how programs end."""
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from pysdk import environment, private_place, python, url_of  # noqa: F401
from rayai_calls import bad, boxes_of, good, no_session_is_left, there  # noqa: F401

import glovebox
from glovebox.compat.rayai import execute_code, get_session_stats, upload_file
from glovebox.compat.rayai.sandbox import sessions
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

server = shared(**WARM)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_nobody_answers(monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", "http://127.0.0.1:1")
    bad(execute_code("1"), "ServerUnreachable", "nobody answers", "glovebox serve")


def test_a_wrong_token(serve, monkeypatch):
    guarded = serve(tokens={"alice": "alice-4f0d7a1c6e02b9"})
    monkeypatch.setenv("GLOVEBOX_URL", url_of(guarded))
    monkeypatch.setenv("GLOVEBOX_TOKEN", "wrong-b51e90c2d7713a44")
    assert "wrong" not in bad(execute_code("1"), "Unauthorized", "token=…, or GLOVEBOX_TOKEN")
    sessions._at_exit()
    monkeypatch.setenv("GLOVEBOX_TOKEN", "alice-4f0d7a1c6e02b9")
    good(execute_code("1"))


def test_a_box_that_is_gone(there):
    good(execute_code("x = 1", session_id="s"))
    with glovebox.Client() as client:
        client.boxes.get(sessions.find("s").box(None).id).delete()
    assert get_session_stats("s")["container_status"] == "exited"
    bad(execute_code("print(x)", session_id="s"), "BoxGone", "deleted at 2", "what the session s had is lost, and the next call with its id begins anew")
    assert "NameError" in execute_code("x", session_id="s")["stderr"]
    with glovebox.Client() as client:
        client.boxes.get(sessions.find("s").box(None).id).delete()
    assert "lost" in upload_file("x", b"", "s")["error"] and "s" not in sessions._sessions


@pytest.mark.more
def test_a_private_server_that_was_killed():
    good(execute_code("x = 1", session_id="s"))
    server = sessions._clients[()].client._server
    server._minder.kill()
    server._minder.wait()
    until(lambda: not server.lives(), "it has ended")
    bad(execute_code("print(x)", session_id="s"), "ServerUnreachable", "the private server of this process has ended", "begins anew")
    assert good(execute_code("print(1)", session_id="s")) == "1\n"
    for path in ("log", "socket"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{server.directory}/{path}")
    subprocess.run(["rm", "-rf", "--one-file-system", server.directory], check=True)


# --- how programs end -------------------------------------------------------------------------------------------------


PREFIX = "import os, signal, sys, time\nfrom glovebox.compat.rayai import *\nexecute_code('x = 1', session_id='s')\n"


@pytest.mark.parametrize("end", ["exit", "int", *(pytest.param(one, marks=pytest.mark.more) for one in ("exception", "one-off"))])
@pytest.mark.parametrize("where", ["there", pytest.param("private", marks=pytest.mark.more)])
def test_no_box_is_left(server, private_place, end, where):  # noqa: F811
    """At exit, by an exception, by Ctrl-C in a call, also one without a session."""
    slow = "execute_code('import time; time.sleep(60)'%s)" % ("" if end == "one-off" else ", session_id='s'")
    ends = {"exit": "execute_shell('sleep 60 & true', session_id='s')", "exception": "1 / 0", "int": slow, "one-off": slow}
    process = subprocess.Popen([sys.executable, "-u", "-c", f"{PREFIX}print('here')\n{ends[end]}"], env=environment({"GLOVEBOX_URL": url_of(server)} if where == "there" else None),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    if end in ("int", "one-off"):
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert (said == "") == (end == "exit") and ("KeyboardInterrupt" in said) == (end in ("int", "one-off")), said
    until(lambda: boxes_of(server) == [] and not os.listdir(private_place), "nothing is left")


def test_a_fork(server):
    """The child has sessions of its own, also with the same id, and ends none of its parent's."""
    done = python(textwrap.dedent("""
        import os
        from glovebox.compat.rayai import *
        execute_code("x = 'parent'", session_id="s")
        if os.fork() == 0:
            print(cleanup_session("s")["status"], "NameError" in execute_code("print(x)", session_id="s")["stderr"], flush=True)
            os._exit(0) if cleanup_session("s")["status"] == "success" else os._exit(1)
        print(os.waitstatus_to_exitcode(os.wait()[1]), execute_code("print(x)", session_id="s")["stdout"], end="")
    """), env={"GLOVEBOX_URL": url_of(server)})
    assert done.stdout == "error True\n0 parent\n" and boxes_of(server) == [], done.stdout + done.stderr
