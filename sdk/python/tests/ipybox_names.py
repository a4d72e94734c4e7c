# SPDX-License-Identifier: Apache-2.0
"""What a package of ipybox has: modules, names, parameters with their defaults. Argument: its name. Prints JSON.

Packages that only its servers need (and which a client's machine may not have) are made up where they are missing."""
import importlib
import inspect
import json
import sys
import unittest.mock

MODULES = ["container", "executor", "utils", "modinfo", "resource.client", "mcp.gen", "mcp.run"]
NEEDED = ["aiofiles", "aiofiles.os", "datamodel_code_generator", "datamodel_code_generator.model", "datamodel_code_generator.parser",
          "datamodel_code_generator.parser.jsonschema"]


def kind(value):
    value = inspect.unwrap(value)
    return [name for name in ("iscoroutinefunction", "isasyncgenfunction") if getattr(inspect, name)(value)]


def parameters(value):
    if inspect.isclass(value) and "__init__" not in vars(value):
        return "those of what it is derived from"
    return [(one.name, str(one.kind), repr(one.default)) for one in inspect.signature(value).parameters.values()]


def described(value):
    if inspect.isclass(value):
        found = {"": parameters(value), "is an exception": issubclass(value, Exception)}
        for name, one in inspect.getmembers(value):
            if isinstance(one, property):
                found[name] = "property"
            elif inspect.isfunction(one) and (not name.startswith("_") or name in ("__aenter__", "__aexit__")):
                found[name] = [kind(one), parameters(one)]
        return found
    return [kind(value), parameters(value)] if callable(value) else repr(value)


def main(package):
    for name in NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = unittest.mock.MagicMock()
    found = {}
    for name in MODULES:
        module = importlib.import_module(f"{package}.{name}")
        for key, value in vars(module).items():
            mine = getattr(value, "__module__", None) == module.__name__ and (inspect.isclass(value) or inspect.isfunction(value))
            if not key.startswith("_") and (mine or key == "DEFAULT_TAG"):
                found[f"{name}.{key}"] = described(value)
    found["top"] = sorted(key for key in vars(importlib.import_module(package)) if key[0].isupper() or key == "arun")
    print(json.dumps(found))


main(sys.argv[1])
