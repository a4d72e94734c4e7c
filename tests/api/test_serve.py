# SPDX-License-Identifier: Apache-2.0
"""`glovebox serve` as who operates it meets it: start, configuration, listeners, logs, audit, stop, and its processes."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess

import pytest

from conftest import ROOT

from server import SANITIZED, certificate, ends, lives, mark, needs_root, serve, shared, status_of, tokens_variable, until, waiting  # noqa: F401

pytestmark = needs_root

TOKEN = "operator-5d1c9e7720ab"
MOUNT, BPF = 165, 321  # system calls of x86-64
CI_ROUTES = {
    ("get", "/health"), ("get", "/ready"), ("get", "/metrics"), ("post", "/v1/execute"), ("post", "/v1/execute/stream"),
    ("post", "/v1/files"),
    ("get", "/v1/files"), ("get", "/v1/files/{file_id}"), ("delete", "/v1/files/{file_id}"), ("post", "/v1/sessions"),
    ("delete", "/v1/sessions/{session_id}"), ("post", "/v1/sessions/{session_id}/bash"),
}

server = shared()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# --- start ---------------------------------------------------------------------------------------------------


def test_one_line_says_where(serve):
    server = serve()
    assert re.fullmatch(r"listening on http://127\.0\.0\.1:[1-9][0-9]*\n", server.said())
    until(lambda: "sealed by:" in server.log(), "standard error says which layers there are")
    assert "curl" in server.log(), "and has a line to copy"
    server.execute("print(1)")
    assert server.said() == server.line


def test_roles(server):
    found = server.pids()
    assert found["serve"] == [server.pid]
    assert len(found["keeper"]) == 1 and len(found["gate"]) == 1 and len(found["store"]) == 1


def test_host_and_port_are_variables(serve):
    port = free_port()
    server = serve(listen=(), env={"HOST": "127.0.0.1", "PORT": str(port)})
    assert server.line == f"listening on http://127.0.0.1:{port}\n"


def test_the_flag_wins(serve):
    port = free_port()
    server = serve(listen=f"127.0.0.1:{port}", env={"PORT": "1", "HOST": "192.0.2.1", "GLOVEBOX_LISTEN": "127.0.0.1:2"})
    assert server.line == f"listening on http://127.0.0.1:{port}\n"


def test_our_own_variable_wins_over_the_dialects(serve):
    port = free_port()
    server = serve(listen=(), env={"PORT": "1", "HOST": "192.0.2.1", "GLOVEBOX_LISTEN": f"127.0.0.1:{port}"})
    assert server.line == f"listening on http://127.0.0.1:{port}\n"


def test_a_port_that_is_taken(tmp_path):
    """It says who has it, and how to take another."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = ends(listen=f"127.0.0.1:{port}", state_dir=tmp_path)
    assert done.returncode != 0 and done.stdout == ""
    assert str(port) in done.stderr and str(os.getpid()) in done.stderr and "--listen" in done.stderr, done.stderr


def test_a_port_that_another_glovebox_has(server, tmp_path):
    done = ends(listen=f"127.0.0.1:{server.port}", state_dir=tmp_path)
    assert done.returncode != 0 and "--listen" in done.stderr
    assert any(re.search(rf"\b{pid}\b", done.stderr) for pid in server.tree()), "one of its processes is named"
    assert server.execute("print(1)")["stdout"] == "1\n"


BAD_CALLS = {
    "unknown flag": (["--no-such-flag"], {}, "no-such-flag"),
    "unknown word": (["word"], {}, "word"),
    "no address": (["--listen", "nonsense"], {}, "nonsense"),
    "port too large": (["--listen", "127.0.0.1:65536"], {}, "65536"),
    "no number": (["--max-connections", "many"], {}, "max-connections"),
    "negative": (["--max-connections", "-1"], {}, "max-connections"),
    "variable that is no number": ([], {"MAX_OUTPUT_BYTES": "much"}, "MAX_OUTPUT_BYTES"),
    "own variable that is no number": ([], {"GLOVEBOX_MAX_CONNECTIONS": "many"}, "GLOVEBOX_MAX_CONNECTIONS"),
    "a backend that is none": ([], {"EXECUTOR_BACKEND": "balloons"}, "balloons"),
    "a backend that is not built": ([], {"EXECUTOR_BACKEND": "kubernetes"}, "kubernetes"),
    "configuration that is not there": (["--config", "/nonexistent/glovebox.conf"], {}, "/nonexistent/glovebox.conf"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_call_that_cannot_be(tmp_path, name):
    words, env, named = BAD_CALLS[name]
    listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    done = ends(*listen, "--state-dir", tmp_path, *words, env=env)
    assert done.returncode != 0 and done.stdout == "" and named in done.stderr, done.stderr


def test_readiness_is_told_to_systemd(serve, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        s.settimeout(60)
        server = serve(env={"NOTIFY_SOCKET": str(path)})
        said = ""
        while "READY=1" not in said:
            said += s.recv(4096).decode() + "\n"
        server.stop()
        while "STOPPING=1" not in said:
            said += s.recv(4096).decode() + "\n"


def test_the_watchdog_of_systemd_hears_that_it_lives(serve, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        s.settimeout(60)
        server = serve(env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"})
        said = []
        while said.count("WATCHDOG=1") < 3:
            said += s.recv(4096).decode().split("\n")
        server.stop()


def test_a_keeper_that_hangs_is_not_vouched_for(serve, tmp_path):
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        server = serve(env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "200000"})
        keeper = server.pid_of("keeper")
        os.kill(keeper, signal.SIGSTOP)
        try:
            s.settimeout(1)  # ten times as long as it is silent otherwise
            with pytest.raises(TimeoutError):
                for _ in range(100):  # what it had said before
                    s.recv(4096)
        finally:
            os.kill(keeper, signal.SIGCONT)
        s.settimeout(60)
        assert s.recv(4096) == b"WATCHDOG=1"
        server.stop()


# --- configuration -------------------------------------------------------------------------------------------


def dump(*words, env=None):
    done = ends(*words, "--dump-config", env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_dump_config_names_every_key():
    text = dump()
    for key in ("listen", "state_dir", "log_level", "log_format", "max_connections", "header_timeout", "audit_file",
                "tls_cert", "tls_key"):
        assert re.search(rf"^#? *{key}\b", text, re.M), key


def test_dump_config_can_be_read_back(tmp_path):
    first = dump("--max-connections", "321", "--log-level", "debug", "--listen", "127.0.0.1:9")
    assert first != dump()
    (tmp_path / "glovebox.conf").write_text(first)
    again = dump("--config", tmp_path / "glovebox.conf")
    assert [s for s in again.splitlines() if not s.startswith("#")] == [s for s in first.splitlines() if not s.startswith("#")]


def line_of(text, key):
    return re.search(rf"^{key}\b.*$", text, re.M).group()


def test_flags_over_environment_over_file_over_default(tmp_path):
    config = tmp_path / "glovebox.conf"
    config.write_text("# a comment\n\nmax_connections = 101\n")
    default, from_file = dump(), dump("--config", config)
    from_env = dump("--config", config, env={"GLOVEBOX_MAX_CONNECTIONS": "202"})
    from_flag = dump("--config", config, "--max-connections", "303", env={"GLOVEBOX_MAX_CONNECTIONS": "202"})
    lines = [line_of(text, "max_connections") for text in (default, from_file, from_env, from_flag)]
    assert len(set(lines)) == 4
    assert "101" in lines[1] and "202" in lines[2] and "303" in lines[3]


def test_an_empty_variable_counts_as_unset():
    names = ["MAX_EXEC_TIMEOUT_MS", "MAX_OUTPUT_BYTES", "CPU_TIME_LIMIT_SEC", "MEMORY_LIMIT_MB", "FILE_STORAGE_DIR", "MAX_FILE_SIZE_MB",
             "FILE_TTL_SEC", "LOG_LEVEL", "LOG_FORMAT", "MAX_CONCURRENT_EXECUTIONS", "EXECUTION_QUEUE_TIMEOUT_SEC",
             "EXECUTION_RETRY_AFTER_SEC",
             "HOST", "PORT", "EXECUTOR_BACKEND"]
    assert dump(env={name: "" for name in names}) == dump()


@pytest.mark.parametrize("text, line, named", [("max_connections = 5\n# fine\nno_such_key = 1\n", 3, "no_such_key"),
                                               ("\nmax_connections = many\n", 2, "max_connections"),
                                               ("what is this\n", 1, "key = value")], ids=["unknown key", "bad value", "no key"])
def test_a_mistake_in_a_file_is_named_with_file_and_line(tmp_path, text, line, named):
    config = tmp_path / "glovebox.conf"
    config.write_text(text)
    done = ends("--listen", "127.0.0.1:0", "--state-dir", tmp_path, "--config", config)
    assert done.returncode != 0 and done.stdout == ""
    assert f"{config}:{line}" in done.stderr and named in done.stderr, done.stderr


def test_dump_config_shows_no_token():
    assert TOKEN not in dump(env=tokens_variable({"operator": TOKEN}))


def test_sighup_takes_over_the_log_level(serve, tmp_path):
    """At first a request is not logged; after SIGHUP with another level, requests are."""
    config = tmp_path / "glovebox.conf"
    config.write_text("log_level = error\n")
    server = serve(config=config)
    server.request("GET", "/v1/files/before-the-reload")
    config.write_text("log_level = debug\n")
    os.kill(server.pid, signal.SIGHUP)

    def is_logged():
        server.request("GET", "/v1/files/after-the-reload")
        return "after-the-reload" in server.log()

    until(is_logged, "requests are logged")
    assert "before-the-reload" not in server.log()


def test_sighup_with_a_mistake_changes_nothing(serve, tmp_path):
    config = tmp_path / "glovebox.conf"
    config.write_text("log_level = info\n")
    server = serve(config=config)
    config.write_text("log_level = info\nno_such_key = 1\n")
    os.kill(server.pid, signal.SIGHUP)
    until(lambda: f"{config}:2" in server.log(), "the mistake is named")
    assert server.execute("print(1)")["stdout"] == "1\n"


# --- listeners -----------------------------------------------------------------------------------------------


def test_a_unix_socket(serve, tmp_path):
    path = tmp_path / "s"
    server = serve(listen=f"unix:{path}")
    assert server.line == f"listening on unix:{path}\n"
    assert server.execute("print(1)")["stdout"] == "1\n"
    server.stop()
    assert not path.exists()


def test_a_unix_socket_whose_server_was_killed(serve, tmp_path):
    path = tmp_path / "s"
    server = serve(listen=f"unix:{path}")
    family = server.tree()
    server.kill()
    until(lambda: not any(lives(*one) for one in family.items()), "the rest follows")
    server.start()
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_tls(serve, certificate):
    cert, key = certificate
    server = serve(tls_cert=cert, tls_key=key, ca=cert)
    assert re.fullmatch(r"listening on https://127\.0\.0\.1:[0-9]+\n", server.line)
    assert server.execute("print('é' * 100000)")["stdout"] == "é" * 100000 + "\n"
    file_id = server.upload(bytes(range(256)) * 4096)
    assert server.download(file_id) == bytes(range(256)) * 4096
    assert [name for name, _ in server.sse("/v1/execute/stream", {"code": "import os\nos.write(1, b'x')\nNone"})] == ["output", "result"]
    with socket.create_connection((server.host, server.port), 60) as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while data := s.recv(4096):
                said += data
        assert b" 200 " not in said, "plain HTTP is not answered there"
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_tls_with_files_that_are_none(tmp_path, certificate):
    cert, key = certificate
    (tmp_path / "empty").write_text("")
    for options in ({"tls_cert": cert}, {"tls_cert": tmp_path / "none", "tls_key": key},
                    {"tls_cert": tmp_path / "empty", "tls_key": key}):
        done = ends(listen="127.0.0.1:0", state_dir=tmp_path, **options)
        assert done.returncode != 0 and done.stdout == "" and "tls" in done.stderr.lower(), done.stderr


# --- what it shows -------------------------------------------------------------------------------------------


def test_openapi_has_the_routes_of_the_dialect(server):
    status, document = server.call("GET", "/openapi.json")
    assert status == 200 and document["openapi"].startswith("3.")
    routes = {(method, re.sub(r"\{\w+\}", "{}", path)) for path, methods in document["paths"].items() for method in methods}
    assert {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in CI_ROUTES} <= routes
    assert server.call("GET", "/api.json")[1] == document


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_load_nothing_from_outside(server, path):
    status, headers, body = server.request("GET", path)
    assert status == 200 and headers.get_content_type() == "text/html"
    loaded = re.findall(rb"""<(?!a\s)[a-z]+\s[^>]*?\b(?:src|href|action)\s*=\s*["']?([^"'\s>]+)""", body, re.I)
    assert not [address for address in loaded if re.match(rb"(?:[a-z]+:)?//", address)]
    assert not re.search(rb"@import|url\(\s*[\"']?(?:https?:)?//", body)


@pytest.fixture(scope="module")
def promtool():
    """From Debian's package prometheus, taken out of it: installed, that would start a server."""
    kept = ROOT / "build" / "promtool" / "usr" / "bin" / "promtool"
    if shutil.which("promtool"):
        return shutil.which("promtool")
    if not kept.exists():
        folder = kept.parents[2]
        folder.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, check=False)
        package = next(folder.glob("prometheus_*.deb"), None)
        if fetched.returncode or package is None:
            pytest.skip("no promtool, and the package prometheus cannot be downloaded: nobody checked the format of /metrics")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        package.unlink()
    return kept


def test_promtool_accepts_the_metrics(server, promtool):
    server.execute("1")
    _, _, body = server.request("GET", "/metrics")
    done = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, check=False)
    assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


def test_logs_are_one_json_object_per_event(serve):
    """A request id in every line about a request; the trace of who asked is taken over."""
    server = serve(log_format="json", log_level="debug")
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    server.request("GET", "/v1/files", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    server.request("GET", "/v1/files/x%0a%7b%22forged%22%3a1%7d")
    until(lambda: trace in server.log(), "the request is logged with its trace")
    server.stop()
    events = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    about = [e for e in events if trace in json.dumps(e)]
    assert about and all(any("request" in key and e[key] for key in e) for e in about)
    assert not any("forged" in e for e in events), "nothing that a client sends makes a line of its own"


def test_what_a_client_sends_makes_no_line_of_text(serve):
    server = serve(log_level="debug")
    server.request("GET", "/v1/files/x%0aFORGED%20line%1b[31m")
    server.request("GET", "/v1/files/marker-at-the-end")
    until(lambda: "marker-at-the-end" in server.log(), "requests are logged")
    assert not re.search(r"^FORGED", server.log(), re.M) and "\x1b" not in server.log()


# --- audit ---------------------------------------------------------------------------------------------------


def audit_of(path):
    """Its events. Every line is an object of the same schema."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    events = [json.loads(line) for line in whole]
    assert all(isinstance(e, dict) for e in events)
    versions = [next((e[key] for key in ("schema", "schema_version", "version", "v") if key in e), None) for e in events]
    assert None not in versions and len(set(map(str, versions))) <= 1, versions
    return events


def kinds_of(path):
    return " ".join(str(e.get("event")) for e in audit_of(path))


def test_audit(serve, tmp_path):
    path = tmp_path / "audit.jsonl"
    server = serve(audit_file=path, tokens={"operator": TOKEN}, env={"MEMORY_LIMIT_MB": "64"})
    mine = {"Authorization": f"Bearer {TOKEN}"}
    assert server.call("POST", "/v1/execute", {"code": "print(1)"}, mine)[1]["stdout"] == "1\n"
    until(lambda: re.search(r"box\S*(made|new|creat|start)", kinds_of(path)), "a box that was made is there")
    assert server.call("POST", "/v1/execute", {"code": "import time; time.sleep(1000)", "timeout_ms": 100}, mine)[1]["timed_out"] is True
    until(lambda: re.search(r"limit|timeout", kinds_of(path)), "a limit that was hit is there")
    before = len(audit_of(path))
    assert server.call("POST", "/v1/execute", {"code": "b = bytearray(b'x') * (1 << 30)", "timeout_ms": 60000},
                       mine)[1]["exit_code"] == 137
    until(lambda: re.search("memory|oom", json.dumps(audit_of(path)[before:])), "which limit it was is there")
    assert server.request("GET", "/v1/files", headers={"Authorization": "Bearer wrong-9b1"})[0] == 401
    until(lambda: re.search(r"token|auth", kinds_of(path)), "a token that was refused is there")
    text = path.read_text()
    assert TOKEN not in text and "wrong-9b1" not in text and "operator" in text, "whose box it was, and no secret"


REFUSED_CALLS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in (%d, %d):
    print(libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6), ctypes.get_errno())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")
def test_audit_of_refused_calls(serve, tmp_path):
    path = tmp_path / "audit.jsonl"
    server = serve(audit_file=path, tokens={"operator": TOKEN})
    mine = {"Authorization": f"Bearer {TOKEN}", "X-Request-Id": "who-tried-it"}

    def lines():
        return [e for e in audit_of(path) if e["event"] == "syscall_refused"]

    done = server.call("POST", "/v1/execute", {"code": REFUSED_CALLS % (MOUNT, BPF)}, mine)[1]
    assert done["stdout"] == "-1 1\n-1 1\n"
    until(lambda: len(lines()) == 2, "both are there")
    assert [(e["syscall"], e["tenant"]) for e in lines()] == [("mount", "operator"), ("bpf", "operator")]
    made = [e["request"] for e in audit_of(path) if e["event"] == "box_made"]
    assert {e["request"] for e in lines()} == set(made[-1:])
    session = server.call("POST", "/v1/sessions", {}, mine)[1]["session_id"]
    for _ in range(2):
        done = server.call("POST", f"/v1/sessions/{session}/bash",
                           {"cmd": "unshare -U true; python3 - <<'E'\n" + REFUSED_CALLS % (MOUNT, MOUNT) + "\nE"}, mine)[1]
        assert done["stdout"] == "-1 1\n-1 1\n", done
    until(lambda: len(lines()) == 4, "those of the session are there, once each")
    assert [(e["syscall"], e["tenant"], e["session"]) for e in lines()[2:]] == [
        ("unshare", "operator", session), ("mount", "operator", session)]
    assert re.search(r"^glovebox_syscalls_refused_total 4$", server.request("GET", "/metrics", headers=mine)[2].decode(), re.M)


def test_refused_tokens_do_not_fill_the_audit(serve, tmp_path):
    """Who has no token can have little written: the first ones are named, the others counted, none is forgotten."""
    path, many = tmp_path / "audit.jsonl", 300
    server = serve(audit_file=path, tokens={"operator": TOKEN})
    with contextlib.closing(server.connection()) as c:
        for _ in range(many):
            answer = server.send(c, "GET", "/v1/files", headers={"Authorization": "Bearer not-a-token-of-anybody"})
            assert answer.status == 401 and answer.read()
    server.stop()
    lines = [e for e in audit_of(path) if e["event"] == "token_refused"]
    sums = [e for e in lines if "count" in e]
    assert len(lines) - len(sums) + sum(int(e["count"]) for e in sums) == many
    assert len(lines) <= 61 * 2, "of one minute, or two if it is a slow machine"
    assert all(e["why"] == "many" and "peer" not in e for e in sums) and sums
    assert all(e["why"] == "wrong" and e["peer"] and e["request"] for e in lines if e not in sums)


def test_audit_is_only_ever_appended_to(serve, tmp_path):
    path = tmp_path / "audit.jsonl"
    server = serve(audit_file=path)
    server.execute("print(1)")
    until(lambda: audit_of(path), "something is there")
    server.stop()
    before = path.read_bytes()
    server.start()
    server.execute("print(2)")
    until(lambda: len(path.read_bytes()) > len(before), "more is there")
    assert path.read_bytes().startswith(before)


# --- the gate ------------------------------------------------------------------------------------------------


def test_the_gate_is_nobody_and_sees_nothing(server):
    gate = server.pid_of("gate")
    status = status_of(gate)
    assert "0" not in status["Uid"].split() + status["Gid"].split() and "0" not in status["Groups"].split()
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "0" if SANITIZED else "2")
    assert os.listdir(f"/proc/{gate}/root/") == []
    assert os.readlink(f"/proc/{gate}/ns/net") != os.readlink("/proc/self/ns/net")


def test_the_gate_holds_no_descriptor_of_a_host_directory(server):
    """Through one it could reach every file below it."""
    server.execute("print(1)")
    gate = server.pid_of("gate")
    for fd in os.listdir(f"/proc/{gate}/fd"):
        with contextlib.suppress(OSError):
            target = f"/proc/{gate}/fd/{fd}"
            assert not (os.path.isdir(target) and os.listdir(target)), os.readlink(target)


# --- stop ----------------------------------------------------------------------------------------------------


def test_sigterm_lets_a_stream_finish(serve):
    server = serve()
    with server.stream({"code": "import time\nprint('begun')\ntime.sleep(2)\nprint('done')", "timeout_ms": 60000}) as stream:
        first = stream.next()
        os.kill(server.pid, signal.SIGTERM)
        events = [first, *stream]
    assert "".join(e.data["data"] for e in events[:-1]) == "begun\ndone\n"
    assert events[-1].name == "result" and events[-1].data["exit_code"] == 0
    assert server.process.wait(60) == 0


@pytest.mark.more
def test_sigterm_lets_an_execute_finish(serve):
    server, word = serve(), mark()
    code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'import time; time.sleep(2); print(1)', {word!r}])"
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.execute, code, timeout_ms=60000)
        until(lambda: server.running(word), "the program runs")
        os.kill(server.pid, signal.SIGTERM)
        assert answer.result()["stdout"] == "1\n"
    assert server.process.wait(60) == 0


def busy_server(serve, word, **options):
    """A server with a session in which something runs, and a file."""
    server = serve(**options)
    server.upload(b"x")
    status, answer = server.call("POST", "/v1/sessions", {"ttl_seconds": 600})
    assert status == 201
    server.call("POST", f"/v1/sessions/{answer['session_id']}/bash",
                {"cmd": f"setsid bash -c 'trap \"\" TERM; sleep 1000; : {word}' > /dev/null 2>&1 &"})
    until(lambda: server.running(word), "the background process runs")
    return server


def test_sigterm_ends_every_session(serve):
    server = busy_server(serve, mark())
    server.stop()


def test_sigint_stops_as_well(serve):
    server = serve()
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(60) == 0


def test_kill_of_serve_leaves_nothing(serve, run):
    server = busy_server(serve, mark())
    family = server.tree()
    server.kill()
    until(lambda: not any(lives(*one) for one in family.items()), "all its processes are gone")
    assert run("run", "-c", "print(1)").stdout == b"1\n"  # whoever comes next sweeps


def test_kill_of_the_keeper_leaves_nothing(serve, run):
    """serve ends, too; the keeper that it starts for a moment only sweeps."""
    server, word = serve(), mark()
    with server.stream({"code": waiting(word), "timeout_ms": 60000}) as stream:
        assert stream.next().name == "output"
        program = server.running(word)[0]
        family = server.tree()
        keeper = server.pid_of("keeper")
        os.kill(keeper, signal.SIGKILL)
        until(lambda: not lives(program, family[program]), "the program is gone")
    until(lambda: server.process.poll() is not None, "serve ends")
    assert server.process.returncode != 0
    server.process = None
    until(lambda: not any(lives(*one) for one in family.items()), "all its processes are gone")
    assert run("run", "-c", "print(1)").stdout == b"1\n"


@pytest.mark.more
def test_kill_of_the_store_is_survived(serve):
    """Files are there again, and programs run, when the store was killed."""
    server = serve()
    file_id = server.upload(b"kept")

    def is_there():
        try:
            return server.request("GET", f"/v1/files/{file_id}")[::2] == (200, b"kept")
        except (ConnectionError, http.client.HTTPException):
            return False  # of the gate that goes with its store

    for _ in range(3):
        os.kill(server.pid_of("store"), signal.SIGKILL)
        until(is_there, "the file is there again")
    assert server.execute("print(1)")["stdout"] == "1\n"


def test_the_state_directory_is_enough_to_go_on(serve):
    """After kill -9 of everything, a start with the same directory serves what was there."""
    server = serve()
    file_id = server.upload(b"kept")
    family = server.tree()
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.kill()
    until(lambda: not any(lives(*one) for one in family.items()), "all are gone")
    server.start()
    assert server.download(file_id) == b"kept" and server.execute("print(1)")["stdout"] == "1\n"
