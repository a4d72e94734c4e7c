# SPDX-License-Identifier: Apache-2.0
"""Answers beside what /openapi.json says of them: all that it names must be there, and nothing else."""
import copy
import json
import re

import pytest

from se import quoted

try:
    import jsonschema
except ImportError:
    jsonschema = None

needs_jsonschema = pytest.mark.skipif(not jsonschema, reason="python3-jsonschema is not installed: nobody compared answers with /openapi.json")


def everything(node):
    """Every object in a document."""
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from everything(child)


def operations(api):
    for path, methods in api["paths"].items():
        for method, call in methods.items():
            yield method, path, call


class Described:
    """The description of a server, and calls that are looked at by it."""

    def __init__(self, server):
        self.server, self.api = server, server.call("GET", "/openapi.json")[1]
        self.closed = copy.deepcopy(self.api["components"])
        for node in everything(self.closed):
            if node.get("type") == "object" and isinstance(node.get("properties"), dict):
                node.setdefault("additionalProperties", False)
        self.seen = set()  # (method, template, status)

    def validate(self, value, schema):
        jsonschema.Draft202012Validator({**schema, "components": self.closed}).validate(value)

    def fits(self, value, name):
        """A value is what the schema of this name says."""
        self.validate(value, {"$ref": f"#/components/schemas/{name}"})

    def ask(self, method, template, query="", body=None, headers=None, **values):
        """Make a call: values are those of the parameters in its path. Its answer must be one that is described."""
        target = re.sub(r"\{(\w+)\}", lambda part: quoted(values[part[1]]), template)
        status, got, data = self.server.request(method, target + query, body, headers)
        where = method, target[:200] + query, status, data[:200]
        told = self.api["paths"][template][method.lower()]["responses"].get(str(status))
        assert told is not None, where
        self.seen.add((method.lower(), template, status))
        if "content" not in told:
            assert not data, where
            return status, got, data
        media = got.get_content_type()
        content = told["content"].get(media, told["content"].get("*/*"))
        assert content is not None, (media, *where)
        if "schema" in content:
            self.validate(json.loads(data) if media == "application/json" else data.decode(), content["schema"])
        return status, got, data
