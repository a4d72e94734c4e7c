# SPDX-License-Identifier: Apache-2.0
"""Makes a package whose functions call the tools of an MCP server. Needs the packages `mcp` and `datamodel-code-generator`.

What a server says of its tools is a stranger's. It becomes literals of Python and nothing else: no text of it can end one.
"""
from __future__ import annotations

import asyncio
import functools
import importlib
import json
import pathlib
import re
import shutil
from typing import Any, Dict, List, Mapping, Optional

from .run import _module, mcp_client

# Of a list of tools, whose end the server says.
_PAGES_MAX = 1000

__all__ = ["generate_function_definition", "generate_init_definition", "generate_input_definition", "generate_mcp_sources", "sanitize_name"]


def sanitize_name(name: str) -> str:
    """As the name of a module."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name).lower()


def generate_init_definition(server_params: Mapping[str, object]) -> str:
    """The text of __init__.py."""
    return f"\nSERVER_PARAMS = {dict(server_params)!r}\n"


def generate_function_definition(sanitized_name: str, original_name: str, description: Optional[str]) -> str:
    """What stands below class Params in the module of a tool."""
    return f'''
from ipybox.mcp.run import run_sync
from . import SERVER_PARAMS

def {sanitized_name}(params: Params) -> str:
    """{_docstring(description or "")}
    """
    return run_sync({_literal(original_name)}, params.model_dump(exclude_none=True), SERVER_PARAMS)
'''


def _literal(text: str) -> str:
    """In double quotes. What JSON escapes Python reads alike, but for halves of characters, which stay halves."""
    return json.dumps(text)


def _docstring(text: str) -> str:
    """Nothing in it ends the docstring, or is an escape."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def generate_input_definition(schema: Mapping[str, object]) -> str:
    """class Params, of pydantic, for the arguments of a tool."""
    try:
        generator: Any = importlib.import_module("datamodel_code_generator")
        model: Any = importlib.import_module("datamodel_code_generator.model")
        parser: Any = importlib.import_module("datamodel_code_generator.parser.jsonschema")
    except ImportError as e:
        raise ImportError(f"datamodel-code-generator is needed to make models of schemas: pip install 'datamodel-code-generator<0.29' ({e})") from e
    types = model.get_data_model_types(data_model_type=generator.DataModelType.PydanticV2BaseModel, target_python_version=generator.PythonVersion.PY_311)
    kinds: Dict[str, Any] = {"data_model_type": types.data_model, "data_model_root_type": types.root_model, "data_model_field_type": types.field_model,
                             "data_type_manager_type": types.data_type_manager, "dump_resolve_reference_action": types.dump_resolve_reference_action}
    return str(parser.JsonSchemaParser(source=json.dumps(schema), class_name="Params", use_field_description=True, use_double_quotes=True, **kinds).parse())


async def generate_mcp_sources(server_name: str, server_params: Mapping[str, object], root_dir: pathlib.Path) -> List[str]:
    """Writes root_dir/server_name, in place of what is there: a module for each tool of the server. Their names. A tool that is called __init__ has none."""
    found: List[Any] = []
    async with mcp_client(server_params) as (read, write), _module("mcp").ClientSession(read, write) as session:
        await session.initialize()
        page, pages = await session.list_tools(), 1
        while True:
            found += [tool for tool in page.tools if sanitize_name(tool.name) != "__init__"]
            if page.nextCursor is None or pages == _PAGES_MAX:
                break
            page, pages = await session.list_tools(cursor=page.nextCursor), pages + 1
    names = [sanitize_name(tool.name) for tool in found]
    texts = {"__init__": generate_init_definition(server_params)}
    for name, tool in zip(names, found):
        texts[name] = f"{generate_input_definition(tool.inputSchema)}\n\n{generate_function_definition(name, tool.name, tool.description)}"
    await asyncio.get_running_loop().run_in_executor(None, functools.partial(_write, pathlib.Path(root_dir) / server_name, texts))
    return names


def _write(folder: pathlib.Path, texts: Mapping[str, str]) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
