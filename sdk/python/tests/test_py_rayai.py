# SPDX-License-Identifier: Apache-2.0
"""glovebox.compat.rayai: sessions of code and shell. What the original does wrong is not there."""
import contextlib
import http.server
import inspect
import json
import os
import threading
import time

import pytest
from pysdk import SOURCE, private_place, python, url_of  # noqa: F401
from rayai_calls import ERROR, RESULT, bad, boxes_of, good, no_session_is_left, there  # noqa: F401

import glovebox
from glovebox.compat import rayai
from glovebox.compat.rayai import cleanup_session, execute_code, execute_shell, get_session_stats, upload_file
from glovebox.compat.rayai.sandbox import config, sessions, types
from server import WARM, needs_root, serve, shared, until  # noqa: F401

pytestmark = needs_root

server = shared(**WARM)


# --- a program of theirs, with one import changed and its calls plain -------------------------------------------------


def test_a_program(private_place):  # noqa: F811
    """Without a server: a private one, of which nothing is left."""
    done = python("""
        from glovebox.compat.rayai.sandbox import cleanup_session, execute_code, execute_shell, get_session_stats, upload_file

        print(execute_code("print('hello')")["stdout"], end="")
        execute_code("x = 42", session_id="mine")
        print(execute_code("print(x)", session_id="mine")["stdout"], end="")
        upload_file("/tmp/data.csv", b"a,b\\n1,2\\n", session_id="mine")
        result = execute_shell("wc -l < /tmp/data.csv", session_id="mine")
        print(result["stdout"], result["execution_id"])
        print(get_session_stats("mine")["execution_count"])
        print(cleanup_session("mine"))
    """)
    assert done.stdout.split("\n") == ["hello", "42", "2", " mine_shell_3", "3", "{'status': 'success', 'session_id': 'mine'}", ""], done.stdout + done.stderr
    assert done.stderr == "" and not os.listdir(private_place)


def test_names_and_defaults():
    same = {"session_id": None, "image": "python:3.12-slim", "dockerfile": None, "environment": None, "volumes": None, "mcp_allowlist": None, "timeout": 30}
    empty = inspect.Parameter.empty
    for function, wanted in ((execute_code, {"code": empty, **same}), (execute_shell, {"command": empty, **same}), (upload_file, dict.fromkeys(("path", "content", "session_id"), empty)),
                             (get_session_stats, {"session_id": empty}), (cleanup_session, {"session_id": empty})):
        assert {name: one.default for name, one in inspect.signature(function).parameters.items()} == wanted
        assert getattr(rayai, function.__name__) is getattr(rayai.sandbox, function.__name__) is function
        with pytest.raises(NotImplementedError, match=rf"call {function.__name__}\("):
            function.remote("x")
    keys = {name: set(getattr(types, name).__annotations__) for name in ("ExecutionResult", "ExecutionError", "UploadResult", "UploadError", "SessionStats", "CleanupResult", "CleanupError")}
    assert keys == {"ExecutionResult": RESULT, "ExecutionError": ERROR, "UploadResult": {"status", "path", "size"}, "UploadError": {"status", "error", "error_type"},
                    "SessionStats": {"session_id", "execution_count", "created_at", "uptime", "container_status"}, "CleanupResult": {"status", "session_id"}, "CleanupError": {"status", "error", "session_id"}}


# --- code and shell ---------------------------------------------------------------------------------------------------


ENDS = [
    ("print('a')\nimport sys\nprint('b', file=sys.stderr)\n1 + 1", 0, "a\n", "b\n"), ("1 / 0", 1, "", "ZeroDivisionError: division by zero"), ("def f(:", 1, "", "SyntaxError"),
    ("print('x'); import sys; sys.exit(3)", 3, "x\n", None), ("import sys; sys.exit()", 0, "", ""), ("import sys; sys.exit('why')", 1, "", "why\n"), ("raise SystemExit(-1)", 255, "", None),
    ("import os; os._exit(4)", 4, "", "its variables are lost, files are not"), ("import os; os.kill(os.getpid(), 11)", 139, "", "its variables are lost"),
    ("print('''a\\n\"\"\"''' + r'\\d')", 0, 'a\n"""\\d\n', ""), ("print(__name__)\nimport asyncio\nawait asyncio.sleep(0)", 0, "__main__\n", ""),
    ("import sys; sys.stdout.buffer.write(b'\\xff\\n')", 0, "\ufffd\n", ""), ("input()", 1, "", "StdinNotImplementedError"),
]


def test_how_code_ends(there):
    for n, (code, exit_code, stdout, stderr) in enumerate(ENDS):
        result = execute_code(code, session_id="a/session of ümläuts")
        assert good(result, exit_code) == stdout and result["execution_id"] == f"a/session of ümläuts_{n + 1}", result
        assert result["stderr"] == stderr if stderr == "" or stderr is not None and stderr.endswith("\n") else (stderr or "") in result["stderr"], result
        assert "\x1b" not in result["stderr"] and "UserWarning" not in result["stderr"], result


def test_everything_stays_in_a_session(there):
    """Imports, functions, classes, lambdas and what cannot be pickled, too; and sessions share nothing."""
    good(execute_code("import math, threading\nclass C: pass\nf = lambda n: math.sqrt(n)\nlock = threading.Lock()\ngen = (n for n in range(3))\n_private = 1\nopen('/tmp/f', 'w').write('1')", session_id="one"))
    assert good(execute_code("print(f(4), C.__name__, lock.locked(), next(gen), _private)", session_id="one")) == "2.0 C False 0 1\n"
    good(execute_code("y = 1\n1 / 0", session_id="one"), 1)
    assert good(execute_code("print(y)", session_id="one")) == "1\n"
    assert good(execute_shell("cat /tmp/f; ls /tmp/*.pkl 2>&1 | wc -l", session_id="one")) == "11\n"
    assert "NameError" in execute_code("f", session_id="two")["stderr"]
    assert good(execute_shell("ls /tmp", session_id="two")) == ""
    assert get_session_stats("one")["execution_count"] == 5 and get_session_stats("two")["execution_count"] == 2


def test_shell(there):
    """The text is what the shell gets, whatever quotes are in it."""
    assert good(execute_shell("""echo "it's" 'a "b"' \\$x; printf '%s\\n' "$((1+1))" """, session_id="s")) == 'it\'s a "b" $x\n2\n'
    assert good(execute_shell("echo a; echo b >&2; exit 7", session_id="s"), 7) == "a\n"
    assert good(execute_shell("kill -9 $$", session_id="s"), 137) == ""
    assert good(execute_shell("test -t 0; echo $0 $PWD", session_id="s")) == "sh /workspace\n"
    assert good(execute_shell("cat", session_id="s")) == "", "nothing is there to read"
    many = 300_000
    assert good(execute_shell(f"echo {'x' * 100_000} | wc -c; yes | head -c {many}", session_id="s")) == "100001\n" + "y\n" * (many // 2)


def test_what_takes_too_long_is_ended(there):
    good(execute_code("import time\nx = 1", session_id="s"))
    bad(execute_code("time.sleep(60)", session_id="s", timeout=0.3), "TimeoutError", "Execution timed out after 0.3 seconds", "variables and files are kept")
    assert good(execute_code("print(x)", session_id="s")) == "1\n"
    bad(execute_shell("sleep 60 & sleep 61", session_id="s", timeout=0.3), "TimeoutError", "Shell execution timed out after 0.3 seconds")
    assert good(execute_shell("pgrep -c sleep; true", session_id="s")) == "0\n", "it is not left running"
    for timeout in (0, -1, "5", float("nan")):
        bad(execute_code("1", session_id="s", timeout=timeout), "InvalidRequest", "timeout")


@pytest.mark.more
def test_what_cannot_be_interrupted(there):
    good(execute_code("open('f', 'w').write('x')\nimport time", session_id="s"))
    bad(execute_code("while True:\n    try:\n        time.sleep(60)\n    except BaseException: pass", session_id="s", timeout=0.3), "TimeoutError", "its variables are lost, files are not")
    assert good(execute_code("print(open('f').read(), 'time' in globals())", session_id="s")) == "x False\n"


def test_memory(there):
    result = execute_code("print('so far')\nb = bytearray(2 << 30)", session_id="s")
    assert good(result, 137) == "so far\n"
    for said in ("out of memory", "the session may use 512 MiB", "its largest process had", "variables are lost, files are not", "MEMORY_LIMIT"):
        assert said in result["stderr"], result
    result = execute_shell("exec python3 -c 'b = bytearray(2 << 30)'", session_id="s")
    good(result, 137)
    assert "may use 512 MiB" in result["stderr"] and "MEMORY_LIMIT" in result["stderr"], result


def test_what_config_says(there, monkeypatch):
    monkeypatch.setattr(config, "MEMORY_LIMIT", "64m")
    monkeypatch.setattr(config, "CPU_QUOTA", 50000)
    monkeypatch.setattr(config, "SESSION_TIMEOUT", 7)
    good(execute_code("1", session_id="s"))
    with glovebox.Client() as client:
        (box,) = client.boxes.list()
    assert (box.limits["memory_bytes"], box.limits["cpus"], box.idle_seconds, box.network.policy, box.metadata) == (64 << 20, 0.5, 7, "none", {"rayai.session": "s"})
    monkeypatch.setattr(config, "MEMORY_LIMIT", "much")
    bad(execute_code("1", session_id="t"), "ValueError", "config.MEMORY_LIMIT is 'much'")


@pytest.mark.more
def test_more_than_is_held_is_told(serve, monkeypatch):
    server = serve(box_output_bytes=10)
    monkeypatch.setenv("GLOVEBOX_URL", url_of(server))
    assert good(execute_code("print('x' * 20)", session_id="s")) == "x" * 10 + "\n...[truncated]"
    assert good(execute_shell("yes | head -100", session_id="s")) == "y\n" * 5 + "\n...[truncated]"


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_files(there):
    with pytest.raises(ValueError, match="Session s not found. Execute code first to create session."):
        upload_file("/tmp/x", b"", "s")
    good(execute_code("1", session_id="s"))
    assert upload_file("/tmp/d/e/x.bin", bytes(3 << 20), "s") == {"status": "success", "path": "/tmp/d/e/x.bin", "size": 3 << 20}
    assert upload_file("rel 'x'", b"1", "s") == {"status": "success", "path": "rel 'x'", "size": 1}
    assert good(execute_shell("stat -c %s /tmp/d/e/x.bin \"/workspace/rel 'x'\"", session_id="s")) == f"{3 << 20}\n1\n"
    for path, content, kind in (("/etc/x", b"", "Forbidden"), ("/tmp", b"", "FileConflict"), ("../x", b"", "InvalidRequest"), ("x", "text", "TypeError"), ("/tmp/x", bytes(65 << 20), "NoSpace")):
        answer = upload_file(path, content, "s")
        assert set(answer) == {"status", "error", "error_type"} and (answer["status"], answer["error_type"]) == ("error", kind), answer


def test_stats_and_cleanup(there):
    before = time.time()
    with pytest.raises(ValueError, match="Session s not found"):
        get_session_stats("s")
    assert cleanup_session("s") == {"status": "error", "error": "Session s not found", "session_id": "s"}
    good(execute_shell("true", session_id="s"))
    stats = get_session_stats("s")
    assert stats.pop("uptime") >= 0 and before <= stats.pop("created_at") <= time.time() and stats == {"session_id": "s", "execution_count": 1, "container_status": "running"}
    # Also under what runs in it.
    results = []
    thread = threading.Thread(target=lambda: results.append(execute_code("import time; time.sleep(60)", session_id="s", timeout=60)))
    thread.start()
    until(lambda: any(cell.status == "running" for cell in sessions.find("s").box(None).list_cells()), "it runs")
    assert cleanup_session("s") == {"status": "success", "session_id": "s"}
    thread.join(30)
    assert set(results[0]) == ERROR and boxes_of(there) == [] and cleanup_session("s")["status"] == "error"


def test_without_an_id_nothing_stays(there):
    first, second = execute_code("open('f', 'w')"), execute_shell("ls")
    assert good(second) == "" and first["execution_id"].startswith("session-") and first["execution_id"].endswith("_1") and second["execution_id"].endswith("_shell_1")
    assert boxes_of(there) == [] and not sessions._sessions


def test_many_threads_have_one_box(there):
    results = []
    threads = [threading.Thread(target=lambda: results.append(execute_code("n = globals().get('n', 0) + 1\nprint(n)", session_id="s"))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(int(good(one)) for one in results) == list(range(1, 9)) and len(boxes_of(there)) == 1
    assert {one["execution_id"] for one in results} == {f"s_{n}" for n in range(1, 9)}


# --- what a session has -----------------------------------------------------------------------------------------------


class Tools(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = json.dumps({"got": said}).encode() if self.path == "/mcp/tools/call" else b"{}"
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def tools():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tools) as there:
        thread = threading.Thread(target=there.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{there.server_address[1]}/mcp"
        finally:
            there.shutdown()
            thread.join()


CALL = """
import json, socket, struct
def call(message):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("/tmp/mcp.sock")
        data = json.dumps(message).encode()
        s.sendall(struct.pack(">I", len(data)) + data)
        reader = s.makefile("rb")
        return json.loads(reader.read(struct.unpack(">I", reader.read(4))[0]))
"""


@pytest.fixture
def folder(tmp_path):
    for one in (tmp_path, *tmp_path.parents):
        if one != one.parent and one.stat().st_uid == os.geteuid() and one.stat().st_mode & 0o5 != 0o5:
            one.chmod(one.stat().st_mode | 0o5)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/f").write_text("from the host")
    return tmp_path


def test_volumes_and_tools_of_a_private_server(folder, private_place):  # noqa: F811
    """Which has these, and no others; it goes with the session."""
    with tools() as url:
        (folder / "out").mkdir()
        more = {"session_id": "s", "environment": {"GREETING": "hello"}, "mcp_allowlist": [url],
                "volumes": {str(folder / "in"): {"bind": "/mnt/servers", "mode": "ro"}, str(folder / "out"): {"bind": "/tmp/out", "mode": "rw"}}}
        assert good(execute_code("import os\nprint(open('/mnt/servers/f').read(), os.environ['GREETING'])\nopen('/tmp/out/made', 'w').write('x')", **more)) == "from the host hello\n"
        assert (folder / "out/made").read_text() == "x" and (folder / "out/made").stat().st_uid == os.geteuid()
        assert good(execute_shell("echo $GREETING; touch /mnt/servers/x 2>/dev/null; echo $?", session_id="s")) == "hello\n1\n"
        assert good(execute_code(CALL + f"print(call({{'url': {url!r}, 'tool': 't', 'arguments': {{'a': 1}}}}))\nprint(call({{'url': {url + 'x'!r}, 'tool': 't'}}))", session_id="s")) == \
            f"{{'result': {{'got': {{'tool': 't', 'arguments': {{'a': 1}}}}}}}}\n{{'error': 'URL not in allowlist: {url}x', 'allowed_urls': ['{url}']}}\n"
        good(execute_code("import socket\ntry:\n    socket.create_connection(('127.0.0.1', 80), 1)\nexcept OSError as e:\n    print(type(e).__name__)\nassert not __import__('os').path.exists('/sys/class/net/eth0')", session_id="s"))
        # Later wishes change nothing, and another session has its own.
        assert good(execute_shell("echo $GREETING", session_id="s", environment={"GREETING": "other"})) == "hello\n"
        assert good(execute_shell("ls -A /mnt; ls -A /tmp; echo $GREETING", session_id="other")) == "\n"
        assert len(sessions._clients) == 2
        assert cleanup_session("s")["status"] == "success" and len(sessions._clients) == 1
        cleanup_session("other")
    sessions._at_exit()
    assert not os.listdir(private_place)


@pytest.mark.more
def test_volumes_of_a_server(serve, folder, monkeypatch):
    """It allows a directory, of which a session has a part; and no other."""
    monkeypatch.setenv("GLOVEBOX_URL", url_of(serve(mount_root=folder)))
    volumes = {str(folder / "in"): {"bind": "/mnt/x", "mode": "ro"}}
    assert good(execute_shell("cat /mnt/x/f", session_id="s", volumes=volumes)) == "from the host"
    bad(execute_code("1", session_id="t", volumes={"/usr/share": {"bind": "/mnt/x", "mode": "ro"}}), "InvalidRequest", "mount", "/usr/share")
    bad(execute_code("1", session_id="t", mcp_allowlist=["http://127.0.0.1:1/x"]), "InvalidRequest", "rayai_url")
    assert "t" in sessions._sessions and good(execute_code("print(1)", session_id="t")) == "1\n", "a session that was refused can be had with less"


@pytest.mark.parametrize("more,said", [
    ({"dockerfile": "FROM python:3.12-slim"}, "`glovebox env import`"), ({"image": "no-such-image:1"}, "environment"), ({"volumes": {"name": {"bind": "/x", "mode": "ro"}}}, "no absolute path"),
    ({"volumes": {"/usr": {"bind": "/x", "mode": "z"}}}, "'ro' or 'rw'"), ({"volumes": {"/usr": "/x"}}, "'bind'"), ({"environment": {"A=B": "x"}}, "env")])
def test_what_cannot_be_had(there, more, said):
    bad(execute_code("1", session_id="s", **more), "ValueError" if "environ" not in said and said != "env" else "InvalidRequest", said)
    assert boxes_of(there) == []


def test_a_volume_that_is_not_there(monkeypatch):
    bad(execute_code("1", volumes={"/no/such/dir": {"bind": "/x", "mode": "ro"}}), "ValueError", "'/no/such/dir' is no directory of this machine")
    monkeypatch.setenv("GLOVEBOX_PROGRAM", "/no/such/program")
    bad(execute_code("1"), "NoServer", "GLOVEBOX_PROGRAM")


def test_programs_that_are_not_changed_at_all():
    """By a directory in which the modules have the names of the originals: the same modules, and not copies of them."""
    place = python("import runpy; runpy.run_module('glovebox.compat.names', run_name='__main__')").stdout.strip()
    done = python("""
        import rayai.sandbox.config, rayai, sandbox_runtime
        from rayai.sandbox import execute_code
        from sandbox_runtime.sdk.shared_env import SharedEnvSandbox
        from sandbox_runtime.sandbox.core.errors import ExitCode
        import glovebox.compat.rayai.sandbox, glovebox.compat.sandbox_runtime
        assert execute_code is glovebox.compat.rayai.execute_code and rayai.sandbox.config is glovebox.compat.rayai.sandbox.config
        assert SharedEnvSandbox is glovebox.compat.sandbox_runtime.SharedEnvSandbox is sandbox_runtime.SharedEnvSandbox and ExitCode.SUCCESS == 0
        print(execute_code("print(6 * 7)")["stdout"])
    """, env={"PYTHONPATH": f"{place}{os.pathsep}{SOURCE}"})
    assert done.stdout == "42\n\n", done.stderr
