# SPDX-License-Identifier: Apache-2.0
"""Generated clients of tools: what their models take and refuse, what is sent, and that nothing a server says becomes code.

gen-tool writes the modules; they are imported by the system's Python, whose pydantic is version 1 in Debian 12, and by one with
version 2 of PyPI, in a virtual environment below build/; skipped, and said, without PyPI.
"""
import json
import pathlib
import random
import re
import shutil
import subprocess

import pytest

from conftest import ROOT, program_path
from gen_shape import Shape

pytestmark = pytest.mark.more

DATA = pathlib.Path(__file__).resolve().parent / "data"
SERVER = "a \"server\" \\ of ours"
VERSION = "pydantic==2.12.5"
INSTALL_S, RUN_S = 240, 200
REFUSED = "refused"


# --- tools of the tests ---------------------------------------------------------------------------------------


def call(*words, **kw):
    try:
        return subprocess.run(list(map(str, words)), capture_output=True, timeout=kw.pop("timeout", RUN_S), check=False, **kw)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(words, 124, e.stdout or b"", (e.stderr or b"") + b"\nno end in time")


def generate(folder, tools, layout="mcptools", server=SERVER):
    """Packages below folder: the one that is asked for, called "made", and what it needs. The modules by the names of their tools."""
    made = folder / ("mcptools/made" if layout == "mcptools" else "made")
    made.mkdir(parents=True)
    if layout == "mcptools":
        (folder / "mcptools/__init__.py").touch()
        (folder / "mcptools/_runtime.py").write_text(
            "def call(*words):\n    return list(words)\n\n\nasync def call_async(*words):\n    return list(words)\n")
    else:
        (folder / "ipybox/mcp").mkdir(parents=True)
        (folder / "ipybox/__init__.py").touch()
        (folder / "ipybox/mcp/__init__.py").touch()
        (folder / "ipybox/mcp/run.py").write_text("def run_sync(*words):\n    return list(words)\n")
    text = tools if isinstance(tools, bytes) else json.dumps(tools).encode()
    got = call(program_path().parent / "gen-tool", layout, server, made, input=text)
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout)


def tool(name, schema, output=None, description=None):
    made = {"name": name, "inputSchema": schema}
    if output is not None:
        made["outputSchema"] = output
    if description is not None:
        made["description"] = description
    return made


def system_python():
    if call("/usr/bin/python3", "-c", "import pydantic").returncode:
        pytest.skip("no pydantic in the system's Python: modules are not tried with it")
    return "/usr/bin/python3"


def new_python():
    """A Python below build/ that has pydantic 2."""
    folder = ROOT / "build" / "pydantic-venv"
    done = folder / "installed"
    if not done.exists() or done.read_text() != VERSION:
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(ROOT / "build")}
        shutil.rmtree(folder, ignore_errors=True)
        for words in (["/usr/bin/python3", "-m", "venv", folder],
                      [folder / "bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--quiet", VERSION]):
            got = call(*words, timeout=INSTALL_S, env=env, stdin=subprocess.DEVNULL)
            if got.returncode:
                pytest.skip(f"no {VERSION}, modules are not tried with it: is PyPI there? {got.stderr[-300:]}")
        done.write_text(VERSION)
    return folder / "bin" / "python3"


@pytest.fixture(scope="module", params=["system", pytest.param("pydantic-2", marks=pytest.mark.more)])
def python(request):
    return system_python() if request.param == "system" else new_python()


def run_python(python, folder, code, *words):
    """What a program prints, as JSON; a warning is an error in it."""
    got = call(python, "-B", "-W", "error", "-c", code, *words, cwd=folder, stdin=subprocess.DEVNULL)
    assert got.returncode == 0, got.stderr.decode()[-3000:]
    return json.loads(got.stdout)


# --- what models take, refuse and send -------------------------------------------------------------------------


def one(schema, required=False, **more):
    """An object with one property."""
    return {"type": "object", "properties": {"x": schema}, **({"required": ["x"]} if required else {}), **more}


S, I, N, B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
TREE = {"$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"type": "object", "required": ["name"], "additionalProperties": False,
                           "properties": {"name": S, "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "minItems": 1}}}}}

# A schema, and arguments with what is sent for them: themselves if nothing is said.
CASES = {
    "strings": (one(S), [({"x": "a"},), ({}, {}), ({"x": None}, {}), ({"x": ["a"]}, REFUSED)]),
    "required": (one(S, True), [({}, REFUSED), ({"x": None}, REFUSED), ({"x": ""},)]),
    "numbers": (one(N), [({"x": 1.5},), ({"x": 3},), ({"x": "many"}, REFUSED)]),
    "integers": (one(I), [({"x": 10**20},), ({"x": "many"}, REFUSED)]),
    "booleans": (one(B), [({"x": False},), ({"x": "neither"}, REFUSED)]),
    "defaults-are-not-sent": (one({"type": "integer", "default": 7}), [({}, {}), ({"x": 7},)]),
    "default-of-another-type": (one({"type": "integer", "default": "seven"}), [({}, {}), ({"x": 7},)]),
    "required-with-default": (one({"type": "integer", "default": 7}, True), [({}, REFUSED), ({"x": 7},)]),
    "null-that-is-required": (one({"type": ["string", "null"]}, True), [({"x": None},), ({"x": "a"},), ({}, REFUSED)]),
    "null-in-a-list": (one({"type": "array", "items": {"type": ["integer", "null"]}}), [({"x": [1, None]},)]),
    "null-inside": (one(one({"anyOf": [S, {"type": "null"}]}, True), True), [({"x": {"x": None}},), ({"x": {}}, REFUSED)]),
    "nullable": (one({"type": "string", "nullable": True}, True), [({"x": None},), ({}, REFUSED)]),
    "any-that-is-required": (one({}, True), [({}, REFUSED), ({"x": [{"y": 1}]},), ({"x": None},)]),
    "boolean-schemas": ({"type": "object", "properties": {"x": True, "y": False}}, [({"x": 1, "y": [2]},)]),
    "string-enum": (one({"enum": ["a b", "c", "", "1", "name", "mro"]}, True), [({"x": "a b"},), ({"x": ""},), ({"x": "mro"},), ({"x": "d"}, REFUSED)]),
    "enum-with-null": (one({"type": ["string", "null"], "enum": ["a", "b", None]}, True), [({"x": None},), ({"x": "a"},), ({"x": "c"}, REFUSED)]),
    "enum-of-null": (one({"enum": [None]}, True), [({"x": None},), ({"x": 1}, REFUSED)]),
    "mixed-enum": (one({"enum": ["a", 2, -3]}), [({"x": "a"},), ({"x": 2},), ({"x": -3},), ({"x": "b"}, REFUSED), ({"x": 4}, REFUSED)]),
    "enum-of-anything": (one({"enum": [1.5, {"a": 1}]}), [({"x": 1.5},), ({"x": {"a": 1}},)]),
    "enum-default": (one({"enum": ["a", "b"], "default": "b"}), [({}, {}), ({"x": "b"},)]),
    "huge-enum": (one({"enum": [f"v{i}" for i in range(5000)]}), [({"x": "v4999"},)]),
    "const": (one({"const": "it"}), [({"x": "it"},), ({"x": "other"}, REFUSED)]),
    "any-of": (one({"anyOf": [I, S, {"type": "null"}]}), [({"x": 1},), ({"x": "1"},), ({"x": [1]}, REFUSED)]),
    "one-of-models": (one({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "n": I}, "required": ["k", "n"]},
                                     {"type": "object", "properties": {"k": {"const": "b"}, "s": S}, "required": ["k", "s"]}]}),
                      [({"x": {"k": "a", "n": 1}},), ({"x": {"k": "b", "s": "t"}},), ({"x": {"k": "c"}}, REFUSED)]),
    "types": (one({"type": ["string", "integer", "boolean"]}), [({"x": "1"},), ({"x": 1},), ({"x": True},), ({"x": {}}, REFUSED)]),
    "types-with-object": (one({"type": ["string", "object"], "properties": {"a": S}}), [({"x": "s"},), ({"x": {"a": "b"}},), ({"x": [1]}, REFUSED)]),
    "lists": (one({"type": "array", "items": I, "minItems": 1, "maxItems": 2}), [({"x": [1]},), ({"x": []}, REFUSED), ({"x": [1, 2, 3]}, REFUSED)]),
    "lists-of-lists": (one({"type": "array", "items": {"type": "array", "items": N}}), [({"x": [[1.5], []]},), ({"x": [1.5]}, REFUSED)]),
    "tuples": (one({"type": "array", "prefixItems": [S, I], "minItems": 2, "maxItems": 2}), [({"x": ["a", 1]},), ({"x": ["a"]}, REFUSED)]),
    "old-tuples": (one({"type": "array", "items": [S, I], "additionalItems": False}), [({"x": ["a", 1]},), ({"x": ["a", 1, 2]}, REFUSED)]),
    "open-tuples": (one({"type": "array", "prefixItems": [S], "items": I}), [({"x": ["a", 1, 2]},)]),
    "maps": (one({"type": "object", "additionalProperties": I}), [({"x": {"a b": 1}},), ({"x": {"a": "one"}}, REFUSED)]),
    "objects": (one({"type": "object"}), [({"x": {"a": [1]}},), ({"x": 1}, REFUSED)]),
    "more-is-taken": (one(S), [({"x": "a", "y z": [1]},)]),
    "more-is-refused": (one(S, additionalProperties=False), [({"x": "a"},), ({"y": 1}, REFUSED)]),
    "inner-object": (one(one(I, True, additionalProperties=False)), [({"x": {"x": 1}},), ({"x": {"y": 1}}, REFUSED), ({"x": {"x": 1, "y": 2}}, REFUSED)]),
    "bounds": (one({"type": "integer", "minimum": 1, "exclusiveMaximum": 5, "multipleOf": 2}),
               [({"x": 2},), ({"x": 0}, REFUSED), ({"x": 6}, REFUSED), ({"x": 3}, REFUSED)]),
    "both-bounds": (one({"type": "integer", "minimum": 1, "exclusiveMinimum": 1}), [({"x": 2},), ({"x": 1}, REFUSED)]),
    "old-bounds": (one({"type": "number", "minimum": 1, "exclusiveMinimum": True}), [({"x": 1.5},), ({"x": 1}, REFUSED)]),
    "bounds-of-what-may-be-null": (one({"anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}], "default": None}), [({"x": 9},), ({"x": 10}, REFUSED)]),
    "bounds-that-make-no-sense": (one({"type": "integer", "minimum": 1.5, "maximum": "x", "multipleOf": 0}), [({"x": 1},)]),
    "bounds-as-floats": (one({"type": "integer", "minimum": 1.0, "maximum": 1e2}), [({"x": 1},), ({"x": 0}, REFUSED), ({"x": 101}, REFUSED)]),
    "lengths": (one({"type": "string", "minLength": 2, "maxLength": 3}), [({"x": "äö"},), ({"x": "a"}, REFUSED), ({"x": "abcd"}, REFUSED)]),
    "lengths-that-make-no-sense": (one({"type": "string", "minLength": -1, "maxLength": 10**30}), [({"x": "a"},)]),
    "patterns": (one({"type": "string", "pattern": "b+$"}), [({"x": "a\nbb"},), ({"x": "ba"}, REFUSED)]),
    "patterns-with-look-ahead": (one({"type": "string", "pattern": "^(?!a)"}), [({"x": "b"},), ({"x": "a"}, REFUSED)]),
    "patterns-of-others": (one({"type": "string", "pattern": "\\p{L}(?<n>["}), [({"x": "a"},)]),
    "formats": (one({"type": "string", "format": "date-time"}), [({"x": "2026-11-16T00:00:00Z"},), ({"x": "soon"},)]),
    "recursive": (TREE, [({"name": "a", "kids": [{"name": "b", "kids": [{"name": "c"}]}]},), ({"name": "a", "kids": [{}]}, REFUSED)]),
    "recursive-root": ({"type": "object", "properties": {"n": I, "next": {"$ref": "#"}}}, [({"n": 1, "next": {"n": 2}},), ({"next": {"n": "x"}}, REFUSED)]),
    "mutually-recursive": ({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}},
                            "$defs": {"a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
                                      "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}, "n": I}}}},
                           [({"a": {"b": {"a": {"b": {"n": 1}}}}},), ({"a": {"b": {"n": "x"}}}, REFUSED)]),
    "recursive-without-objects": ({"type": "object", "properties": {"x": {"$ref": "#/definitions/l"}},
                                   "definitions": {"l": {"type": "array", "items": {"$ref": "#/definitions/l"}}}}, [({"x": [[[]]]},), ({"x": 1}, REFUSED)]),
    "escaped-refs": ({"type": "object", "properties": {"x": {"$ref": "#/$defs/a~1b%20~0c"}}, "$defs": {"a/b ~c": I}}, [({"x": 1},), ({"x": "y"}, REFUSED)]),
    "refs-elsewhere": ({"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:1/x.json"}, "y": {"$ref": "#/nowhere"}, "z": {"$ref": "#z"}}},
                       [({"x": 1, "y": "a", "z": [2]},)]),
    "refs-in-a-circle": ({"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
                         [({"x": 1},)]),
    "all-of": (one({"allOf": [{"type": "object", "properties": {"a": I}, "required": ["a"]}, {"properties": {"b": S}}], "required": ["b"]}),
               [({"x": {"a": 1, "b": "c"}},), ({"x": {"a": 1}}, REFUSED), ({"x": {"b": "c"}}, REFUSED)]),
    "all-of-one": ({"type": "object", "properties": {"x": {"allOf": [{"$ref": "#/$defs/e"}], "description": "d"}}, "$defs": {"e": {"enum": ["a", "b"]}}},
                   [({"x": "a"},), ({"x": "c"}, REFUSED)]),
    "all-of-what-cannot-be": (one({"allOf": [S, {"enum": ["a"]}]}), [({"x": [1]},)]),
    "all-of-root": ({"allOf": [{"$ref": "#/$defs/base"}, {"properties": {"b": S}, "required": ["b"]}], "$defs": {"base": one(I, True)}},
                    [({"x": 1, "b": "c"},), ({"b": "c"}, REFUSED)]),
    "any-of-root": ({"type": "object", "anyOf": [{"properties": {"a": I}, "required": ["a"]}, {"properties": {"b": S}}]}, [({"a": 1},), ({"a": "x"}, REFUSED)]),
    "any-of-required": ({"type": "object", "properties": {"a": I, "b": I}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, [({"a": 1},)]),
    "no-object": ({"type": "string"}, [({"a": 1},)]),
    "names": ({"type": "object", "additionalProperties": False, "required": ["a-b"], "properties": {
        name: I for name in ("a-b", "a_b", "a.b", "a b", "class", "from", "None", "_x", "__x", "x", "1", "", "é", "日本", "model_config", "model_dump", "model_id",
                             "dict", "json", "copy", "schema", "fields", "validate", "str", "int", "List", "Any", "Field", "Params", "self", "cls", "params",
                             "Config", "construct", "__init__", "__class__", "__import__('os').system('x')", "model_nulls", "Optional", "BaseModel")}},
              [({"a-b": 1, "a_b": 2, "a.b": 3, "a b": 4, "class": 5, "_x": 6, "__x": 7, "x": 8, "1": 9, "": 10},),
               ({"a-b": 1, "é": 1, "日本": 2, "model_config": 3, "model_dump": 4, "model_id": 5, "dict": 6, "json": 7, "str": 8, "int": 9, "List": 10},),
               ({"a-b": 1, "__import__('os').system('x')": 1, "self": 2, "params": 3, "__class__": 4, "BaseModel": 5, "Optional": 6, "Params": 7},),
               ({"a-b": 1, "nobody": 2}, REFUSED), ({"a_b": 1}, REFUSED)]),
    "names-by-name": ({"type": "object", "properties": {"from": S, "a-b": I}}, [({"from_": "a", "a_b": 1}, {"from": "a", "a-b": 1})]),
    "classes-like-fields": ({"type": "object", "properties": {"Item": one(I), "item": one(I), "items": {"type": "array", "items": {"$ref": "#/properties/Item"}}}},
                            [({"Item": {"x": 1}, "item": {"x": 2}, "items": [{"x": 3}]},), ({"Item": {"x": "a"}}, REFUSED), ({"items": [1]}, REFUSED)]),
    "classes-like-types": ({"type": "object", "properties": {k: one(I) for k in ("list", "any", "none", "true", "params", "arguments", "result", "base_model", "enum")}},
                           [({"list": {"x": 1}, "any": {"x": 1}, "none": {"x": 1}, "arguments": {"x": 2}},), ({"none": 1}, REFUSED)]),
}

CALLS = """
import importlib, json, sys
found = {}
for name, module, cases in json.load(open("cases.json")):
    module = importlib.import_module("mcptools.made." + module)
    found[name] = []
    for arguments in cases:
        try:
            found[name].append(module.run(**arguments)[2])
        except (ValueError, TypeError) as e:
            found[name].append("refused")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def sent(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    modules = generate(folder, {"tools": [tool(name, schema) for name, (schema, _) in CASES.items()]})
    (folder / "cases.json").write_text(json.dumps([[name, modules[name], [c[0] for c in cases]] for name, (_, cases) in CASES.items()]))
    return run_python(python, folder, CALLS)


@pytest.mark.parametrize("name", CASES)
def test_what_is_sent(sent, name):
    cases = CASES[name][1]
    assert sent[name] == [case[-1] for case in cases]


def test_run(python, tmp_path):
    output = {"type": "object", "properties": {"n": I, "of": {"type": "array", "items": one(S)}}, "required": ["n"]}
    modules = generate(tmp_path, {"tools": [tool("Do.it", one(I, True), output, 'first\n"second" \\ """third"""\n'), tool("params", one(S)),
                                            {"name": "titled", "title": "A title"}, tool("json", one(I)), tool("re", one({"type": "string", "pattern": "a"})),
                                            tool("named", {"type": "object", "properties": {"name": S, "value": S}})]})
    assert modules == {"named": "named", "Do.it": "do_it", "params": "params", "titled": "titled", "json": "json", "re": "re"}
    got = run_python(python, tmp_path, """
import asyncio, json
from mcptools.made.do_it import Params, Result, run, run_async
from mcptools.made import json as a, params as b, re as c, titled as d
from mcptools.made.named import Params as Named

def of(words):
    return words[:3] + [words[3] and words[3].__name__]

def wrong(*words, **fields):
    try:
        run(*words, **fields)
    except TypeError:
        return True

print(json.dumps([of(run(Params(x=1))), of(run(x=1)), of(run(params=Params(x=1))), of(run({"x": 1})), of(asyncio.run(run_async(x=1))),
                  wrong(Params(x=1), x=2), run.__doc__, run_async.__doc__, d.run.__doc__, a.run.__doc__,
                  of(a.run(x=1)), of(b.run(x="a")), of(b.run(params="a")), of(c.run(x="a")), of(d.run()),
                  Result.model_validate({"n": 1, "of": [{"x": "a"}]}).of[0].x, [(one.name, one.value) for one in (Named(name="b", value="c"),)]]))
""")
    called = [SERVER, "Do.it", {"x": 1}, "Result"]
    doc = 'first\n"second" \\ """third"""\n'
    assert got == [called] * 5 + [True, doc, doc, "A title", None, [SERVER, "json", {"x": 1}, None], [SERVER, "params", {"x": "a"}, None],
                                  [SERVER, "params", {"params": "a"}, None], [SERVER, "re", {"x": "a"}, None], [SERVER, "titled", {}, None], "a", [["b", "c"]]]


def test_ipybox(python, tmp_path):
    schema = {"type": "object", "properties": {"s": S, "n": N, "b": B, "in": {"enum": ["a", "b"], "default": "a"}}, "required": ["s", "n"]}
    params = {"command": "python", "args": ["-m", 'x"; import os #'], "env": {"A\n": None}, "on": True, "n": [-1, 1.5, {}]}
    modules = generate(tmp_path, {"tools": [tool("tool-1", schema, description="A tool."), tool("import", one(I)), tool("run_sync", one(I))], "params": params},
                       "ipybox")
    assert modules == {"tool-1": "tool_1", "import": "import_", "run_sync": "run_sync_"}
    text = (tmp_path / "made/tool_1.py").read_text()
    for fragment in ("class Params(", "s: str", "n: float", "b: Optional[bool]", "def tool_1(params: Params) -> str:", 'run_sync("tool-1"', "from . import SERVER_PARAMS"):
        assert fragment in text
    got = run_python(python, tmp_path, """
import json
from made.tool_1 import Params, tool_1
from made import import_, run_sync_, SERVER_PARAMS
print(json.dumps([tool_1(Params(s="a", n=1)), tool_1(Params(s="a", n=1, b=False, in_="b")), tool_1.__doc__, import_.import_(import_.Params(x=1)),
                  run_sync_.run_sync_(run_sync_.Params())]))
""")
    assert got == [["tool-1", {"s": "a", "n": 1, "in": "a"}, params], ["tool-1", {"s": "a", "n": 1, "b": False, "in": "b"}, params], "A tool.",
                   ["import", {"x": 1}, params], ["run_sync", {}, params]]


IMPORT = """
import importlib, json, sys
for module in json.load(open("modules.json")):
    importlib.import_module(sys.argv[1] + "." + module)
print(json.dumps(sorted(n for n in sys.modules if n.startswith(sys.argv[1] + "."))))
"""


def imports(python, folder, layout, modules):
    (folder / "modules.json").write_text(json.dumps(sorted(modules.values())))
    package = "mcptools.made" if layout == "mcptools" else "made"
    assert run_python(python, folder, IMPORT, package) == sorted(f"{package}.{m}" for m in modules.values())


# --- servers of npm ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["mcptools", "ipybox"])
@pytest.mark.parametrize("name", ["everything", "filesystem", "memory"])
def test_servers_of_npm(python, tmp_path, name, layout):
    listed = json.loads((DATA / f"server-{name}.json").read_text())
    modules = generate(tmp_path, {**listed, "params": {"command": "x"}}, layout)
    assert list(modules) == [t["name"] for t in listed["tools"]]
    assert list(modules.values()) == [re.sub(r"[^A-Za-z0-9_]", "_", t["name"]).lower() for t in listed["tools"]]
    imports(python, tmp_path, layout, modules)
    for t in listed["tools"]:
        check_shape(tmp_path, layout, t, modules[t["name"]])


# --- nothing becomes code ---------------------------------------------------------------------------------------


def plain(text):
    """Halves of surrogate pairs are no characters, two of them are one."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass"))


def strings_of(value):
    if isinstance(value, str):
        yield plain(value)
    elif isinstance(value, list):
        for x in value:
            yield from strings_of(x)
    elif isinstance(value, dict):
        for k, x in value.items():
            yield plain(k)
            yield from strings_of(x)


def check_shape(folder, layout, a_tool, module, server=SERVER):
    file = folder / ("mcptools/made" if layout == "mcptools" else "made") / f"{module}.py"
    return Shape(file.read_text(encoding="ascii"), layout, server, plain(a_tool["name"]), module, set(strings_of(a_tool))).check()


CANARY = "canary"
HOSTILE = [
    f"__import__('os').system('touch {CANARY}')", f'"; open("{CANARY}", "w") #', f'"""\nopen("{CANARY}", "w")\n"""', f"'''\nopen('{CANARY}', 'w')\n'''", "\\", "\\\\", '\\"',
    '"', "'", '"""', "'''", "\n", "\r", "\r\n", "\t", "\x00", "\x1b[31m", "\x7f", "\x80", "\u2028", "\u202e", "\u2066x", "\ufeff", "\ud800", "\udc00x", "\ud83d\ude00", "é",
    "日本", "", " ", "_", "__", "__init__", "__class__", "__doc__", "{x}", "%s", "${X}", "\\N{BULLET}", "\\x41", "\\u0041", "\n    import os\n", "\nclass X:\n    pass\n",
    "# coding: rot13", "a" * 300, "x" * 64, "class", "None", "self", "Params", "Result", "BaseModel", "Field", "str", "List", "run", "call", "Optional", "Enum", "params", "dict",
    "model_config", "model_dump", "mro", "name", "a-b", "a_b", "a.b", "A_B", "ａ", "ﬁ", "1", "1e9", "0x10", "#", "#/$defs/x", "*", "):", "](", "/",
]
WORDS = ["type", "$ref", "properties", "items", "enum", "const", "default", "anyOf", "oneOf", "allOf", "required", "description", "pattern", "minimum", "maximum", "minLength",
         "maxItems", "minItems", "multipleOf", "exclusiveMinimum", "additionalProperties", "prefixItems", "nullable", "title", "format", "$defs", "maxLength",
         "patternProperties", "not", "if", "$schema", "$id", "uniqueItems"]


class Maker:
    """Schemas nobody would write, the same for the same seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self):
        r = self.r
        return r.choice(HOSTILE) if r.random() < 0.7 else "".join(r.choice(HOSTILE)[:8] for _ in range(r.randint(1, 4)))

    def number(self):
        return self.r.choice([0, 1, -1, 2, 3.5, -0.0, 1e300, 10**25, -(2**63), 2**31, 0.1, 1e-9])

    def value(self, depth=0):
        r = self.r
        kind = r.randrange(9 if depth < 4 else 6)
        if kind < 2:
            return self.text()
        if kind < 6:
            return [self.number(), True, False, None][kind - 2]
        if kind < 8:
            return [self.value(depth + 1) for _ in range(r.randint(0, 3))]
        return {self.text(): self.value(depth + 1) for _ in range(r.randint(0, 3))}

    def ref(self):
        return self.r.choice(["#", "#/$defs/a", "#/$defs/b~1c", "#/$defs/d", "#/properties/x", "http://127.0.0.1:1/", "#/$defs", self.text()])

    def schema(self, depth=0):
        r = self.r
        if depth > 4 or r.random() < 0.03:
            return r.choice([True, False, {}, None, "x", {"type": "string"}])
        s = {}
        kind = r.randrange(14)
        if kind < 4:
            s = {"type": r.choice(["string", "integer", "number", "boolean", "null", self.text()])}
        elif kind < 7:
            s = {"type": "object", "properties": {self.text(): self.schema(depth + 1) for _ in range(r.randint(0, 5))}}
            s["required"] = [k for k in s["properties"] if r.random() < 0.4]
        elif kind == 7:
            s = {"type": "array", "items": self.schema(depth + 1)}
        elif kind == 8:
            s = {"enum": [self.text() if r.random() < 0.8 else self.value(3) for _ in range(r.randint(0, 6))]}
        elif kind == 9:
            s = {r.choice(["anyOf", "oneOf", "allOf"]): [self.schema(depth + 1) for _ in range(r.randint(0, 3))]}
        elif kind == 10:
            s = {"$ref": self.ref()}
        elif kind == 11:
            s = {"type": "array", r.choice(["prefixItems", "items"]): [self.schema(depth + 1) for _ in range(r.randint(0, 3))]}
        elif kind == 12:
            s = {"type": "object", "additionalProperties": self.schema(depth + 1)}
        else:
            s = {"type": r.sample(["string", "integer", "null", "object", "array", "boolean", "number"], r.randint(1, 3)), "const" if r.random() < 0.2 else "x": self.value()}
        if r.random() < 0.5:
            s["description"] = self.text()
        if r.random() < 0.4:
            s["default"] = self.value()
        for word, value in (("pattern", self.text()), ("minimum", self.number()), ("exclusiveMaximum", self.number()), ("maxLength", self.number()), ("minItems", self.number()),
                            ("multipleOf", self.number()), ("minLength", self.r.randint(0, 3)), ("additionalProperties", False)):
            if r.random() < 0.15:
                s.setdefault(word, value)
        if r.random() < 0.15:
            s[r.choice(WORDS)] = self.value()
        return s

    def root(self):
        s = self.schema() if self.r.random() < 0.2 else {"type": "object", "properties": {self.text(): self.schema(1) for _ in range(self.r.randint(0, 8))}}
        if isinstance(s, dict):
            s["$defs"] = {"a": self.schema(2), "b/c": self.schema(2), "d": self.schema(2)}
            if isinstance(s.get("properties"), dict):
                s["required"] = [k for k in s["properties"] if self.r.random() < 0.3]
        return s

    def tool(self, number):
        t = {"name": f"{number} {self.text()}", "inputSchema": self.root(), "description": self.text(), "title": self.text()}
        if self.r.random() < 0.3:
            t["outputSchema"] = self.root()
        if self.r.random() < 0.05:
            t[self.r.choice(["inputSchema", "description", "title", "outputSchema"])] = self.value()
        return t


HOW_MANY = 300


@pytest.fixture(scope="module", params=["mcptools", "ipybox"])
def hostile(request, tmp_path_factory):
    """Packages of modules of tools that are hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    maker = Maker(4711)
    listed = [maker.tool(n) for n in range(HOW_MANY)]
    modules = generate(folder, {"tools": listed, "params": {maker.text(): maker.value() for _ in range(20)}}, request.param)
    return folder, request.param, listed, modules


def test_hostile_tools_have_the_shape_of_all(hostile):
    folder, layout, listed, modules = hostile
    assert len(modules) == len(set(modules.values())) == HOW_MANY
    for t in listed:
        check_shape(folder, layout, t, modules[plain(t["name"])])


def test_hostile_tools_are_imported(hostile, python):
    folder, layout, _, modules = hostile
    (folder / "modules.json").write_text(json.dumps(sorted(modules.values())))
    package = "mcptools.made" if layout == "mcptools" else "made"
    # Patterns may be what Python warns about.
    got = call(python, "-B", "-W", "error", "-W", "ignore::FutureWarning", "-W", "ignore::DeprecationWarning:re", "-c", IMPORT, package, cwd=folder, stdin=subprocess.DEVNULL)
    assert got.returncode == 0, got.stderr.decode()[-3000:]
    assert len(json.loads(got.stdout)) == HOW_MANY
    assert not list(folder.rglob(CANARY))


def test_a_name_that_is_all_of_it(tmp_path):
    """Each hostile text as everything at once."""
    listed = []
    for i, text in enumerate(HOSTILE):
        listed.append({"name": f"{i}{text}", "description": text, "inputSchema": {
            "type": "object", "description": text, "required": [text],
            "properties": {text: {"type": "string", "description": text, "default": text, "pattern": text}, text + "2": {"enum": [text, text + "b"], "default": text},
                           text + "3": {"default": {text: [text]}}, text + "4": {"const": text}, text + "5": {"$ref": "#/$defs/" + text}},
            "$defs": {text: {"type": "object", "properties": {text: {"$ref": "#"}}}}}})
    modules = generate(tmp_path, {"tools": listed})
    for t in listed:
        shape = check_shape(tmp_path, "mcptools", t, modules[plain(t["name"])])
        # What has a NUL in it, or is too long, is no field.
        assert len(shape.classes) >= 2 or "\0" in t["description"] or len(t["description"]) > 250


def test_a_server_with_a_hostile_name(tmp_path):
    for i, text in enumerate(HOSTILE):
        if "\0" in text or plain(text) != text:
            continue
        folder = tmp_path / str(i)
        t = tool("t", {})
        generate(folder, {"tools": [t]}, server=text)
        check_shape(folder, "mcptools", t, "t", server=text)


def test_bytes_that_are_no_text(tmp_path):
    text = b'{"tools":[{"name":"a\xff\xc3(","description":"\xed\xa0\x80 \\ud800","inputSchema":{"properties":{"\x80":{"enum":["\xf0\x9f","b"]}}}}]}'
    modules = generate(tmp_path, text)
    t = json.loads(text.decode(errors="replace"))["tools"][0]
    assert modules == {t["name"]: "a___"}
    check_shape(tmp_path, "mcptools", t, "a___")


def test_modules_are_named_by_their_tools(tmp_path):
    names = ["a-b", "a.b", "A_B", "a_b", "a_b_2", "", "1", "日本", "__init__", "x" * 100, "x" * 99, "a-b", "import", "_"]
    modules = generate(tmp_path, {"tools": [tool(n, {}) for n in names] + [{"inputSchema": {}}, 5, None, {"name": 7}]})
    assert modules == {"a-b": "a_b_3", "a.b": "a_b_4", "A_B": "a_b_5", "a_b": "a_b", "a_b_2": "a_b_2", "1": "_1", "日本": "__", "__init__": "__init___",
                       "x" * 100: "x" * 63, "x" * 99: "x" * 51 + "_2", "import": "import_", "_": "_"}
    again = tmp_path / "again"
    assert generate(again, {"tools": [tool(n, {}) for n in names]}) == modules


@pytest.mark.parametrize("name,schema", {
    "deep": eval("{'type':'array','items':" * 40 + "{}" + "}" * 40),
    "deep-objects": eval("{'type':'object','properties':{'x':" * 40 + "{}" + "}}" * 40),
    "many-fields": {"properties": {f"p{i}": {"type": "string"} for i in range(3000)}},
    "many-classes": {"properties": {f"p{i}": {"type": "object", "properties": {"x": {}}} for i in range(500)}},
    "twice-each": {"$defs": {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}}]} for i in range(30)},
                   "properties": {"x": {"$ref": "#/$defs/d0"}}},
    "all-of-itself": {"allOf": [{"$ref": "#"}, {"$ref": "#"}, {"properties": {"x": {"$ref": "#"}}}]},
    "many-refs": {"$defs": {"s": {"type": "string", "description": "d" * 100000}}, "properties": {f"p{i}": {"$ref": "#/$defs/s"} for i in range(500)}},
    "long-text-often": {"$defs": {"b": {"properties": {"l": {"description": "d" * 300000}}}},
                        "properties": {f"p{i}": {"allOf": [{"$ref": "#/$defs/b"}, {"properties": {"y": {}}}]} for i in range(300)}},
    "same-names": {"properties": {"-" * (i + 1): {} for i in range(200)}},
}.items())
def test_bounds(tmp_path, name, schema):
    """However large it would be, it is a module, and not a large one."""
    t = tool("t", {"type": "object", **schema})
    generate(tmp_path, {"tools": [t]})
    text = (tmp_path / "mcptools/made/t.py").read_text()
    assert len(text) < 4 << 20, name
    check_shape(tmp_path, "mcptools", t, "t")
    compile(text, "t.py", "exec")


# --- what a schema allows, its model takes ----------------------------------------------------------------------


class Sane(Maker):
    """Schemas as people write them, and values for them."""

    NAMES = ["a", "b", "a-b", "class", "_id", "items", "Item", "str", "json", "model_id", "name", "x y", "é"]

    def schema(self, depth=0):
        r = self.r
        kind = r.randrange(15 if depth < 4 else 8)
        if kind < 2:
            return r.choice([{"type": "string"}, {"type": "string", "maxLength": 3}, {"type": "string", "pattern": "a|b"}, {"type": "string", "format": "date"}])
        if kind == 2:
            return r.choice([{"type": "integer"}, {"type": "integer", "minimum": 0, "exclusiveMaximum": 8}, {"type": "integer", "multipleOf": 2}])
        if kind == 3:
            return r.choice([{"type": "number"}, {"type": "number", "minimum": 0.5}])
        if kind == 4:
            return r.choice([{"type": "boolean"}, {"type": "null"}, {}, True])
        if kind == 5:
            return {"enum": r.sample(["a", "b", "c d", ""], 3)}
        if kind == 6:
            return r.choice([{"enum": ["a", 1, None]}, {"const": "a"}, {"const": 3}, {"enum": [True, "true"]}])
        if kind == 7:
            return {"$ref": r.choice(["#/$defs/one", "#/$defs/two", "#"])}
        if kind == 8:
            return {"type": "array", "items": self.schema(depth + 1), **r.choice([{}, {"minItems": 1}, {"maxItems": 2}])}
        if kind == 9:
            return {"anyOf": [self.schema(depth + 1) for _ in range(r.randint(1, 3))]}
        if kind == 10:
            return {"type": "object", "additionalProperties": self.schema(depth + 1)}
        if kind == 11:
            return {"type": "array", "prefixItems": [self.schema(depth + 1), self.schema(depth + 1)], "minItems": 2, "maxItems": 2}
        if kind == 12:
            return {"type": r.sample(["string", "integer", "null", "boolean", "object", "array"], 2)}
        if kind == 13:
            return {"allOf": [self.object(depth), self.object(depth)]}
        return self.object(depth)

    def object(self, depth):
        r = self.r
        properties = {name: self.schema(depth + 1) for name in r.sample(self.NAMES, r.randint(1, 4))}
        return {"type": "object", "properties": properties, "required": [k for k in properties if r.random() < 0.4],
                **({"additionalProperties": False} if r.random() < 0.2 else {})}

    def root(self):
        return {**self.object(0), "$defs": {"one": self.object(3), "two": self.schema(4)}}

    def value_for(self, schema, root, depth=0):
        """One that may be allowed."""
        r = self.r
        if not isinstance(schema, dict) or not schema or depth > 12:
            return self.r.choice([1, "a", None, [], {}])
        if "$ref" in schema:
            word = schema["$ref"].rpartition("/")[2]
            return self.value_for(root if word == "#" else root["$defs"][word], root, depth + 1)
        if "enum" in schema:
            return r.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        if "anyOf" in schema:
            return self.value_for(r.choice(schema["anyOf"]), root, depth + 1)
        if "allOf" in schema:
            parts = [self.value_for(one, root, depth + 1) for one in schema["allOf"]]
            return {k: v for one in parts if isinstance(one, dict) for k, v in one.items()}
        kind = schema["type"] if isinstance(schema["type"], str) else r.choice(schema["type"])
        if kind == "object":
            value = {k: self.value_for(s, root, depth + 1) for k, s in schema.get("properties", {}).items()
                     if k in schema.get("required", []) or r.random() < 0.5 - depth / 20}
            if isinstance(schema.get("additionalProperties"), dict):
                value.update({k: self.value_for(schema["additionalProperties"], root, depth + 1) for k in r.sample(["k", "l l"], r.randint(0, 2))})
            return value
        if kind == "array":
            if "prefixItems" in schema:
                return [self.value_for(one, root, depth + 1) for one in schema["prefixItems"]]
            return [self.value_for(schema.get("items", {}), root, depth + 1) for _ in range(r.randint(0, 2))]
        return r.choice({"string": ["a", "b", "", "abc", "true", "1"], "integer": [0, 1, 2, 4, -1], "number": [0, 1.5, -2, 3], "boolean": [True, False], "null": [None]}[kind])


def without_none(value):
    """What is None need not be sent."""
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return [without_none(v) for v in value] if isinstance(value, list) else value


def test_what_a_schema_allows_is_taken(python, tmp_path):
    jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema: nobody to compare with")
    maker, listed, cases = Sane(815), [], []
    for n in range(400):
        schema = maker.root()
        check = jsonschema.Draft202012Validator(schema)
        try:
            values = [v for v in (maker.value_for(schema, schema) for _ in range(12)) if check.is_valid(v)]
        except RecursionError:
            continue  # a $ref to itself
        if values:
            listed.append(tool(f"t{n}", schema))
            cases.append([f"t{n}", f"t{n}", values])
    assert sum(len(c[2]) for c in cases) > 1000
    generate(tmp_path, {"tools": listed})
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    got = run_python(python, tmp_path, CALLS)
    for (name, _, values), t in zip(cases, listed):
        for value, sent in zip(values, got[name]):
            assert sent != REFUSED, (t, value)
            assert without_none(sent) == without_none(value), (t, value, sent)
