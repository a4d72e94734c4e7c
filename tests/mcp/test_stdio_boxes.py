# SPDX-License-Identifier: Apache-2.0
"""`glovebox mcp` with real boxes: on a server that runs, and on one of its own."""
import os
import signal

import pytest

from server import WAIT_S, environment, needs_root, serve, shared, until  # noqa: F401
from stdio import NAMES, alone, client, meta  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

server = shared()


def url(one):
    return f"http://{one.authority}"


def boxes(one):
    return [box for box in one.call("GET", "/v1/boxes")[1]["boxes"] if box["state"] != "ending"]


def put(c, path, relpath="in/f"):
    result = c.tool("upload_file", relpath=relpath, local_path=str(path))
    assert result == {"content": []}, result


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(5_000_000))
    return path


def test_hello_and_tools(server, client):
    c = client("--url", url(server))
    result = c.hello()
    assert result["serverInfo"]["name"] and "tools" in result["capabilities"]
    assert [tool["name"] for tool in c.call("tools/list")["tools"]][-2:] == NAMES
    assert c.modern("server/discover")["supportedVersions"] and boxes(server) == []
    assert c.end() == (0, "")


def test_files_there_and_back(server, client, file, tmp_path):
    c = client("--url", url(server), "--allowed-dir", tmp_path)
    c.hello()
    put(c, file, "dir/ü x")
    (box,) = boxes(server)
    assert box["metadata"] == {"made_by": "mcp"}
    assert server.request("GET", f"/v1/boxes/{box['id']}/files/dir/%C3%BC%20x")[2] == file.read_bytes()
    assert c.tool("download_file", relpath="dir/ü x", local_path=str(tmp_path / "a/b")) == {"content": []}
    assert (tmp_path / "a/b").read_bytes() == file.read_bytes()
    missing = c.tool("download_file", relpath="nothing", local_path=str(tmp_path / "c"))
    assert missing["isError"] and missing["content"][0]["text"] == "File not found: nothing"
    for relpath in ("dir", "dir/ü x/under"):
        assert c.tool("download_file", relpath=relpath, local_path=str(tmp_path / "c"))["isError"]
    assert not (tmp_path / "c").exists()
    assert c.end()[0] == 0 and boxes(server) == []


@pytest.mark.parametrize("how", [None, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_box_ends_with_it(server, client, file, tmp_path, how):
    c = client("--url", url(server), "--allowed-dir", tmp_path)
    put(c, file)
    assert len(boxes(server)) == 1
    assert c.end(how)[0] == 0 and boxes(server) == []


def test_limits_and_environment(server, client, file, tmp_path):
    c = client("--url", url(server), "--allowed-dir", tmp_path, "--container-env-var", "GREETING=hello", "--memory", "64M", "--workspace", "6M")
    put(c, file)
    (box,) = boxes(server)
    assert box["limits"]["memory_bytes"] == 64 << 20
    status, answer = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"shell": "echo $GREETING"})
    assert status in (200, 201) and answer["stdout"] == "hello\n", answer
    full = c.tool("upload_file", relpath="more", local_path=str(file))
    assert full["isError"] and "no room" in full["content"][0]["text"]
    assert c.end()[0] == 0


def test_two_have_two_boxes(server, client, file, tmp_path):
    first, second = (client("--url", url(server), "--allowed-dir", tmp_path) for _ in range(2))
    put(first, file)
    put(second, file)
    assert len(boxes(server)) == 2
    assert first.end()[0] == 0 and len(boxes(server)) == 1
    assert second.end()[0] == 0 and boxes(server) == []


def test_a_box_that_is_there(server, client, file, tmp_path):
    box = server.call("POST", "/v1/boxes", {"name": "mine"})[1]["id"]
    c = client("--url", url(server), "--allowed-dir", tmp_path, "--box", "name:mine")
    put(c, file)
    assert c.end()[0] == 0 and [one["id"] for one in boxes(server)] == [box]
    assert server.request("DELETE", f"/v1/boxes/{box}")[0] == 204


def test_a_box_that_was_ended(server, client, file, tmp_path):
    c = client("--url", url(server), "--allowed-dir", tmp_path)
    put(c, file)
    (box,) = boxes(server)
    assert server.request("DELETE", f"/v1/boxes/{box['id']}")[0] == 204
    gone = c.tool("upload_file", relpath="f", local_path=str(file))
    assert gone["isError"] and "has ended" in gone["content"][0]["text"]
    put(c, file)
    assert len(boxes(server)) == 1 and c.end()[0] == 0


def test_kept_alive(serve, client, file, tmp_path):
    """It outlives its time to live several times, and not its client."""
    one = serve(box_ttl_default="3s")
    c = client("--url", url(one), "--allowed-dir", tmp_path)
    put(c, file)
    (box,) = boxes(one)
    first = box["expires_at"]
    until(lambda: one.call("GET", f"/v1/boxes/{box['id']}")[1]["expires_at"] > first, "it lives longer")
    c.process.kill()
    c.process.wait()
    until(lambda: one.request("GET", f"/v1/boxes/{box['id']}")[0] == 410, "it has ended")


def test_tokens(serve, client, file, tmp_path):
    one = serve(tokens={"a": "token-of-a-0123456789"})
    c = client("--url", url(one), "--allowed-dir", tmp_path)
    assert "--token-file" in c.error("tools/call", {"name": "upload_file", "arguments": {"relpath": "f", "local_path": str(file)}})["message"]
    assert "--token-file" in c.error("ping", {"_meta": meta()})["message"]
    assert c.end()[0] == 0
    c = client("--url", url(one), "--allowed-dir", tmp_path, env=environment({"GLOVEBOX_TOKEN": "token-of-a-0123456789"}))
    c.hello()
    put(c, file)
    assert c.end()[0] == 0


@pytest.mark.more
def test_the_next_gate(serve, client, file, tmp_path):
    one = serve()
    c = client("--url", url(one), "--allowed-dir", tmp_path)
    put(c, file)
    one.next_gate(one.kill_gate())
    until(lambda: one.request("GET", "/ready")[0] == 200, "it is ready")
    put(c, file)
    assert len(boxes(one)) == 1 and c.end()[0] == 0 and boxes(one) == []


# --- a server of its own -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [None, signal.SIGTERM])
def test_alone(client, file, tmp_path, how):
    c = client("--allowed-dir", tmp_path, "--container-bind", f"{tmp_path}/bound:bound", env=alone(tmp_path))
    c.hello()
    assert [tool["name"] for tool in c.call("tools/list")["tools"]][-2:] == NAMES
    put(c, file, "bound/f")
    assert (tmp_path / "bound/f").read_bytes() == file.read_bytes()
    status, said = c.end(how)
    assert status == 0 and "starting one" in said
    assert [name for name in os.listdir(tmp_path) if name.startswith("glovebox-")] == []


@pytest.mark.more
def test_alone_and_killed(client, file, tmp_path):
    c = client("--allowed-dir", tmp_path, env=alone(tmp_path))
    put(c, file)
    c.process.kill()
    c.process.wait(WAIT_S)
    until(lambda: not [name for name in os.listdir(tmp_path) if name.startswith("glovebox-")], "its server has ended")


def test_alone_with_a_box_that_is_there(run, tmp_path):
    done = run("mcp", "--box", "name:x", env=alone(tmp_path))
    assert done.returncode == 125 and b"no glovebox answers" in done.stderr, done
