# SPDX-License-Identifier: Apache-2.0
"""`glovebox ipybox`: a box on two ports in the foreground, and the commands of ipybox that it has."""
import json
import os
import signal
import socket
import subprocess

import pytest

from boxes import Agent, Port
from server import WAIT_S, environment, needs_root, serve, until  # noqa: F401
from wheels import wheel

pytestmark = needs_root


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def alone(folder):
    """An environment in which no server is found."""
    return environment({"HOME": str(folder), "TMPDIR": str(folder), "GLOVEBOX_LISTEN": f"unix:{folder}/nobody"})


@pytest.fixture
def ipybox(start, tmp_path):
    """ipybox(options…): it runs until the test ends; (process, what it printed)."""

    def call(*words):
        process = start("ipybox", "--json", *words, env=alone(tmp_path), stdin=subprocess.DEVNULL)
        line = process.stdout.readline()
        assert line, process.stderr.read().decode()
        return process, json.loads(line)

    return call


def ended(process, sig=signal.SIGINT):
    """How it ends after a signal: (status, standard error)."""
    process.send_signal(sig)
    _, said = process.communicate(timeout=WAIT_S)
    return process.returncode, said.decode()


def test_a_box_in_the_foreground(ipybox, tmp_path):
    """Without a server of its own anywhere: one is started for it, and ends with it."""
    ports = free_port(), free_port()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "in").write_text("from outside")
    process, said = ipybox("--executor-port", ports[0], "--resource-port", ports[1], "--env", "GREETING=hello", "--bind", f"{tmp_path}/data:data",
                           "--bind", f"{tmp_path}/made:made:ro")
    assert (said["executor_port"], said["resource_port"]) == ports and (tmp_path / "made").is_dir()
    with Agent(Port(ports[0])) as agent:
        assert agent.run("import os; os.getcwd(), os.environ['GREETING']") == "('/app', 'hello')"
        assert agent.run("open('/app/data/in').read()") == "'from outside'"
        agent.run("open('/app/data/out', 'w').write('from inside')")
        assert agent.run("try: open('/app/made/x', 'w')\nexcept OSError as e: print(e.strerror)") == "Read-only file system"
    assert Port(ports[1]).request("GET", "/files/data/out")[2] == b"from inside"
    assert (tmp_path / "data" / "out").read_text() == "from inside"
    status, text = ended(process)
    assert status == 0, text
    with pytest.raises(ConnectionRefusedError):
        Port(ports[0]).request("GET", "/api")
    assert [name for name in os.listdir(tmp_path) if name.startswith("glovebox-")] == []


@pytest.mark.more
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_other_ends(ipybox, sig):
    process, said = ipybox("--executor-port", "0", "--resource-port", "0")
    assert Port(said["resource_port"]).call("GET", "/status/") == (200, {"status": "ok"})
    assert ended(process, sig)[0] == 0


@pytest.mark.more
def test_it_is_killed(ipybox):
    """Its server notices."""
    process, said = ipybox("--executor-port", "0", "--resource-port", "0")
    process.kill()
    process.wait()

    def is_closed():
        try:
            return Port(said["resource_port"]).request("GET", "/status/") is None
        except OSError:
            return True

    until(is_closed, "the ports of a box whose owner was killed are closed")


def test_on_a_server(serve, ipybox, run):
    server = serve()
    url = f"http://{server.authority}"
    process, said = ipybox("--url", url, "--executor-port", "0", "--resource-port", "0", "--memory", "512M")
    status, box = server.call("GET", f"/v1/boxes/{said['box']}")
    assert status == 200 and box["limits"]["memory_bytes"] == 512 << 20
    assert ended(process)[0] == 0
    assert server.request("GET", f"/v1/boxes/{said['box']}")[0] == 410
    # One that was left, and one of somebody else.
    process, said = ipybox("--url", url, "--executor-port", "0", "--resource-port", "0")
    other = server.call("POST", "/v1/boxes", {})[1]["id"]
    process.kill()
    process.wait()
    for words, want in ((("--ancestor", "any"), b"1 box ended"), ((), b"0 boxes ended")):
        done = run("ipybox", "cleanup", "--url", url, *words)
        assert done.returncode == 0 and want in done.stderr, done
    assert server.request("GET", f"/v1/boxes/{said['box']}")[0] == 410
    assert server.request("DELETE", f"/v1/boxes/{other}")[0] == 204


@pytest.mark.more
def test_the_box_goes(serve, ipybox):
    """Its process does not stay behind: it hears of it when it next says that the box is needed."""
    server = serve(box_ttl_default="3s")
    process, said = ipybox("--url", f"http://{server.authority}", "--executor-port", "0", "--resource-port", "0")
    assert server.request("DELETE", f"/v1/boxes/{said['box']}")[0] == 204
    assert process.wait(WAIT_S) == 125
    assert "has ended" in process.stderr.read().decode()


def test_a_port_that_is_taken(run, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run("ipybox", "--executor-port", port, "--resource-port", "0", env=alone(tmp_path))
        assert done.returncode == 125 and f"port {port} of 127.0.0.1 is taken".encode() in done.stderr, done


@pytest.mark.more
def test_build_makes_an_environment(run, start, tmp_path):
    """A file as ipybox has them, a tag as of an image; what was built is what the tag means, for `ipybox mcp`, too."""
    for name, data in (wheel("gbfirst"), wheel("gbsecond", "2.0", requires=["gbfirst"])):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "dependencies").write_text('# mine\n"gbsecond>=1",\n\'gbfirst\'\n')
    env = {"GLOVEBOX_ENVIRONMENTS_DIR": str(tmp_path / "environments"), "PATH": os.environ["PATH"]}
    done = run("ipybox", "build", "-t", "Someone/My_Box:v1", "-d", tmp_path / "dependencies", "-r", "--", "--no-index", "--find-links", tmp_path, env=env, timeout=300)
    assert done.returncode == 0 and b"the environment 'my_box-v1'" in done.stderr and b"--root means nothing" in done.stderr, done
    code = "import gbsecond, gbfirst; print(gbsecond.VERSION)"
    assert run("run", "--environment", "my_box-v1", "-c", code, env=env).stdout == b"2.0\n"
    process = start("ipybox", "--json", "--environment", "my_box-v1", "--executor-port", "0", "--resource-port", "0", env={**alone(tmp_path), **env}, stdin=subprocess.DEVNULL)
    with Agent(Port(json.loads(process.stdout.readline())["executor_port"])) as agent:
        assert agent.run("import gbsecond; gbsecond.VERSION") == "'2.0'"
    assert ended(process)[0] == 0


def test_build_says_what_is_wrong(run, tmp_path):
    done = run("ipybox", "build", "-d", tmp_path / "missing")
    assert done.returncode == 125 and b"--dependencies" in done.stderr and b"No such file" in done.stderr, done
    (tmp_path / "dependencies").write_text('"--index-url=https://elsewhere",\n')
    done = run("ipybox", "build", "-d", tmp_path / "dependencies")
    assert done.returncode == 125 and b"is none" in done.stderr, done
    done = run("ipybox", "build", "--help")
    assert done.returncode == 0 and all(word in done.stdout for word in (b"--tag", b"--dependencies", b"--root"))


def test_cleanup_without_a_server(run, tmp_path):
    done = run("ipybox", "cleanup", env=alone(tmp_path))
    assert done.returncode == 0 and b"nothing to end" in done.stderr, done


@pytest.mark.parametrize("words", [("--executor-port", "x"), ("--executor-port", "70000"), ("--env", "x"), ("--env", "=x"), ("--bind", "x"), ("--bind", ":x"),
                                   ("word",), ("--no-such",), ("build", "word"), ("build", "-x"), ("cleanup", "word"), ("--memory", "x")])
def test_called_wrongly(run, words):
    done = run("ipybox", *words)
    assert done.returncode == 125 and done.stderr.startswith(b"glovebox: ") and done.stdout == b"", done


def test_help(run):
    done = run("ipybox", "--help")
    assert done.returncode == 0 and all(word in done.stdout for word in (b"--executor-port", b"--resource-port", b"--env", b"--bind", b"build", b"cleanup"))
    assert b"ipybox" in run("--help").stdout
