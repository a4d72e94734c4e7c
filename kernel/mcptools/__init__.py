# SPDX-License-Identifier: Apache-2.0
"""Tools of MCP servers, as functions:

    from mcptools.SERVER.TOOL import Params, run, run_async
    run(a=1)                      # or run(Params(a=1)); await run_async(a=1)

What there is, without reading all of it:

    import mcptools
    mcptools.servers()                        # names
    mcptools.search_tools("read file")        # tools that have to do with these words
    mcptools.tool_help("server", "tool")      # what it takes and returns, and how it is imported

Modules are made when they are imported.
"""
import importlib.machinery
import importlib.util
import keyword
import os
import re
import sys

from . import _gateway
from ._gateway import GatewayError

__all__ = ["GatewayError", "search_tools", "servers", "tool_help"]

# Servers that were registered with this box have a package in its working directory.
_HERE = os.path.abspath("mcptools")


# --- imports -------------------------------------------------------------------------------------------------------


def _module(name):
    """The name of a server as that of a module."""
    name = re.sub("[^A-Za-z0-9_]", "_", name).lower()
    return name + "_" if keyword.iskeyword(name) or name[:1].isdigit() else name


class _Made:
    """Finder and loader of what is made when it is asked for."""

    sources = {}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        parts = name.split(".")
        if parts[0] != __name__ or not 2 <= len(parts) <= 3 or parts[1].startswith("_"):
            return None
        if os.path.isdir(_HERE):
            folder = os.path.join(_HERE, *parts[1:-1])
            found = importlib.machinery.FileFinder(folder, (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)).find_spec(name)
            if found is not None and found.loader is not None:
                return found
        server = next((one for one in _gateway.servers() if _module(one) == parts[1]), None)
        if server is None:
            return None
        try:
            source = _gateway.get("/package") if len(parts) == 2 else _gateway.get("/tools", server=server, module=parts[2])
        except GatewayError as e:
            if e.kind == "not_found":
                return None
            raise ImportError(f"{name}: {e}", name=name) from None
        cls.sources[name] = source
        spec = importlib.machinery.ModuleSpec(name, cls, origin=f"glovebox/{name.replace('.', '/')}.py", is_package=len(parts) == 2)
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @classmethod
    def exec_module(cls, module):
        spec = module.__spec__
        exec(compile(cls.sources[spec.name], spec.origin, "exec"), module.__dict__)

    @classmethod
    def get_source(cls, name):
        return cls.sources[name].decode()


if not any(getattr(one, "__qualname__", "") == "_Made" for one in sys.meta_path):
    sys.meta_path.append(_Made)


# --- what there is -------------------------------------------------------------------------------------------------


def servers():
    """Names of the servers of which this box may call something."""
    return _gateway.servers()


def _type(schema):
    if not isinstance(schema, dict):
        return "Any"
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"][:8])) + (" | …" if len(schema["enum"]) > 8 else "")
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": one}) for one in kind)
    if kind == "array":
        return f"list[{_type(schema.get('items'))}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "dict", "null": "None"}.get(kind, "Any")


class Tool:
    """One that can be called."""

    def __init__(self, server, found):
        self.server, self.module, self.said = server, found["module"], found["tool"]
        self.name, self.description = self.said["name"], self.said.get("description") or self.said.get("title") or ""

    def _fields(self):
        schema = self.said.get("inputSchema")
        schema = schema if isinstance(schema, dict) else {}
        needed = schema.get("required")
        needed = needed if isinstance(needed, list) else []
        fields = schema.get("properties")
        return [(name, one if isinstance(one, dict) else {}, name in needed) for name, one in (fields.items() if isinstance(fields, dict) else ())]

    @property
    def signature(self):
        return f"{self.name}({', '.join(f'{name}: {_type(one)}' + ('' if needed else ' = …') for name, one, needed in self._fields())})"

    @property
    def help(self):
        lines = [f"from mcptools.{_module(self.server)}.{self.module} import Params, run, run_async", "", self.signature, "", self.description.strip()]
        for name, one, needed in self._fields():
            lines.append(f"  {name}: {_type(one)}{'' if needed else ', optional'}{' = ' + repr(one['default']) if 'default' in one else ''}"
                         f"{' — ' + str(one['description']).strip() if one.get('description') else ''}")
        if isinstance(self.said.get("outputSchema"), dict):
            lines += ["", "run() returns a Result with the fields " + ", ".join((self.said["outputSchema"].get("properties") or {}).keys())]
        return "\n".join(lines).strip()

    def __repr__(self):
        first = self.description.strip().split("\n")[0]
        return f"{self.server}: {self.signature}" + (f" — {first[:120]}" if first else "")


class _Tools(list):
    """Shown one in a line."""

    def __repr__(self):
        return "\n".join(map(repr, self)) or "no tools"


def search_tools(query="", server=None, limit=20):
    """Tools whose name or description has to do with these words, the best first; without words all of them."""
    words = [word.lower() for word in re.findall(r"\w+", query)]
    found = []
    for name in servers() if server is None else [server]:
        for one in _gateway.tools(name):
            tool = Tool(name, one)
            title, text = f"{name} {tool.name}".lower(), tool.description.lower()
            score = sum(3 * (word in title) + (word in text) for word in words)
            if score or not words:
                found.append((-score, len(found), tool))
    return _Tools(tool for _, _, tool in sorted(found, key=lambda one: one[:2])[:limit])


def tool_help(server, tool):
    """What a tool takes and returns, and how it is imported; as text."""
    for one in _gateway.tools(server):
        if tool in (one["tool"]["name"], one["module"]):
            return Tool(server, one).help
    raise LookupError(f"there is no tool {tool!r} of {server!r}")
