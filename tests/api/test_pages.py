# SPDX-License-Identifier: Apache-2.0
"""What a browser sees: the pages as they are sent, the description of the API, and both in a real browser."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import ROOT
from described import Described, everything, jsonschema, needs_jsonschema, operations
from se import BASE
from server import WAIT_S, mark, needs_root, serve, shared, stat_of, until, waiting  # noqa: F401

try:
    from openapi_spec_validator import validate_spec
except ImportError:
    validate_spec = None

pytestmark = needs_root

TOKEN = "browser-41c0d8e2a97b"
PAGES = {"/": "text/html", "/docs": "text/html"}
ASSETS = {"/assets/common.js": "text/javascript", "/assets/page.js": "text/javascript", "/assets/docs.js": "text/javascript",
          "/assets/style.css": "text/css"}
TEXTS = {**PAGES, **ASSETS}
ALL = {**TEXTS, "/openapi.json": "application/json", "/api.json": "application/json"}
POLICY = {"default-src": ["'none'"], "script-src": ["'self'"], "style-src": ["'self'"], "connect-src": ["'self'"],
          "img-src": ["'self'", "data:"], "base-uri": ["'none'"], "form-action": ["'none'"], "frame-ancestors": ["'none'"]}

server = shared()
guarded = shared(tokens={"alice": TOKEN})


# --- as they are sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALL)
def test_headers(server, path):
    status, headers, body = server.request("GET", path)
    assert status == 200 and body and headers.get_content_type() == ALL[path]
    assert path.endswith(".json") or headers.get_param("charset") == "utf-8"
    assert headers["Cache-Control"] == "no-cache" and headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin" and headers["Cross-Origin-Resource-Policy"] == "same-origin"
    policy = {name: values for name, *values in map(str.split, headers["Content-Security-Policy"].split(";"))}
    assert policy == POLICY


@pytest.mark.parametrize("path", ALL)
def test_the_head_alone(server, path):
    with server.wire() as wire:
        wire.send(f"HEAD {path} HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
        head = wire.response(has_body=False)
        wire.send(f"GET {path} HTTP/1.1\r\nHost: {server.authority}\r\n\r\n".encode())
        whole = wire.response()
    assert head.status == whole.status == 200
    assert int(head.get("content-length")) == len(whole.body) > 0 and head.get("etag") == whole.get("etag")


@pytest.mark.parametrize("path", ALL)
def test_what_the_browser_has_is_not_sent_again(server, path):
    tag = server.request("GET", path)[1]["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', tag)
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        for method in ("GET", "HEAD"):
            with server.wire() as wire:
                ask = f"{method} {path} HTTP/1.1\r\nHost: {server.authority}\r\n"
                wire.send(f"{ask}If-None-Match: {known}\r\n\r\n{ask}If-None-Match: \"other\"\r\n\r\n".encode())
                same, other = wire.response(has_body=False), wire.response(has_body=method == "GET")
            assert same.status == 304 and same.get("etag") == tag and same.get("cache-control") == "no-cache"
            assert int(same.get("content-length")) == int(other.get("content-length"))
            assert other.status == 200 and bool(other.body) == (method == "GET")


def test_tags_tell_texts_apart(server):
    assert len({server.request("GET", path)[1]["ETag"] for path in TEXTS}) == len(TEXTS)


@pytest.mark.parametrize("path", TEXTS)
def test_nothing_from_outside(server, path):
    body = server.request("GET", path)[2].decode()
    if path.endswith(".js"):
        body = re.sub(r"(^|\s)// .*$", "", body, flags=re.M)
    assert not re.search(r"https?:|//|@import|\burl\(|\bimport\(|\bWebSocket\b", body)


@pytest.mark.parametrize("path", PAGES)
def test_no_script_and_no_style_inside(server, path):
    """The policy would refuse them: a page that has some is broken."""
    body = server.request("GET", path)[2].decode()
    assert not re.search(r"<style|\sstyle\s*=|\son[a-z]+\s*=|javascript:|<script(?![^>]*\ssrc=)|<script[^>]*>[^<]", body, re.I)
    named = re.findall(r"(?:src|href)=\"([^\"]+)\"", body)
    assert named
    for address in named:
        if not address.startswith("data:"):
            assert server.request("HEAD", "/" + address.removeprefix("./"))[0] == 200, address


@pytest.mark.parametrize("path", [p for p in TEXTS if p.endswith(".js")])
def test_scripts_write_text_only(server, path):
    body = server.request("GET", path)[2].decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|\bFunction\(|localStorage|sessionStorage|"
                         r"\.cookie|indexedDB|serviceWorker", body)


def test_they_ask_for_the_token(guarded):
    for path in ALL:
        status, headers, _ = guarded.request("GET", path)
        assert status == 401, path
        # A line each: what stands behind a comma makes Chromium ignore the whole line, and ask nobody for a password.
        assert sorted(headers.get_all("WWW-Authenticate")) == ['Basic realm="glovebox", charset="UTF-8"', "Bearer"]
        assert guarded.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200


def test_they_take_no_other_method(server):
    for path in ALL:
        status, headers, _ = server.request("POST", path, {})
        assert status == 405 and headers["Allow"] == "GET", path


# --- the description of the API ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def api(server):
    status, document = server.call("GET", "/openapi.json")
    assert status == 200
    return document


def resolve(api, ref):
    assert ref.startswith("#/"), ref
    node = api
    for step in ref[2:].split("/"):
        node = node[step]
    return node


def written_routes():
    """[(method, path, hidden)] of the table, as it stands in the source."""
    text = (ROOT / "src/gate/routes.tbl").read_text(encoding="utf-8")
    rows = re.findall(r'^ROUTE\("(\w+|\*)",\s*"([^"]+)",\s*\w+,\s*\w+,\s*\w+,\s*([^,]+),', text, re.M)
    assert len(rows) == len(re.findall(r"^ROUTE\(", text, re.M))
    # What these take apart is told in its parts.
    told = [re.sub(r"\{(file|directory)\*\}", "{session_id}/{path}", path).replace("*}", "}") for _, path, _ in rows]
    return [(method.lower(), path, "ROUTE_HIDDEN" in flags) for (method, _, flags), path in zip(rows, told)]


def test_the_document(api):
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    assert api["openapi"].startswith("3.1.") and api["info"]["title"] == "Glovebox" and api["info"]["version"] == version
    assert {"openapi", "info", "paths", "components"} <= set(api)


def test_every_route_is_there(api):
    told = {(method, path) for method, path, _ in operations(api)}
    assert told == {(method, path) for method, path, hidden in written_routes() if not hidden}


def test_no_two_paths_are_the_same(api):
    """But for the names of their parameters, which nobody sees in a request."""
    paths = [re.sub(r"\{\w+\}", "{}", path) for path in api["paths"]]
    assert len(set(paths)) == len(paths)


def test_every_reference_leads_somewhere(api):
    refs = [node["$ref"] for node in everything(api) if "$ref" in node]
    assert len(refs) > 20
    for ref in refs:
        assert isinstance(resolve(api, ref), dict), ref


def test_every_schema_is_used(api):
    used = {node["$ref"].rsplit("/", 1)[1] for node in everything(api) if "$ref" in node}
    assert set(api["components"]["schemas"]) == used


BOX = "/v1/boxes/{box_id}"
COMMAND, CELL, KERNEL = f"{BOX}/commands/{{command_id}}", f"{BOX}/cells/{{cell_id}}", f"{BOX}/kernels/{{kernel}}"
FILES, FILE, WATCH, ARCHIVE = f"{BOX}/files", f"{BOX}/files/{{path}}", f"{BOX}/watch", f"{BOX}/archive"
SESSION, IN_SESSION = "{session_id}", "{session_id}/{path}"
# A command or a cell that runs, or is only begun; events, or none any more. All of a file, or a part; one that is new, or not.
TWO_WAYS = {("post", f"{BOX}/commands"), ("get", f"{COMMAND}/events"), ("post", f"{BOX}/cells"), ("get", f"{CELL}/events"),
            ("get", FILE), ("put", FILE), ("post", FILE), ("post", FILES),
            ("get", f"{BASE}/download/{IN_SESSION}"), ("get", f"{BASE}/files/preview/{IN_SESSION}")}


def test_only_forms_are_forms(api):
    """A call whose body nobody has described would be told to be an upload."""
    forms = {path for _, path, call in operations(api) if "multipart/form-data" in call.get("requestBody", {}).get("content", {})}
    assert forms == {FILES, FILE, "/v1/files", f"{BASE}/upload/{SESSION}"}
    body = api["paths"][f"{BOX}/tools"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(resolve(api, body["$ref"])["properties"]) == {"server", "params"}


def test_operations_are_whole(api):
    ids = [call["operationId"] for _, _, call in operations(api)]
    assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[a-z0-9_]+", one) for one in ids)
    for method, path, call in operations(api):
        assert call["summary"] and len(call["tags"]) == 1, path
        in_path = {p["name"] for p in call.get("parameters", []) if p["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path)), path
        assert all(p["schema"] and p["description"] and p["required"] == (p["in"] == "path") for p in call.get("parameters", []))
        assert ("requestBody" in call) == (method in ("post", "put", "patch")), path
        good = [code for code in call["responses"] if code.startswith("2")]
        assert len(good) == (2 if (method, path) in TWO_WAYS else 1), path
        assert all(one["description"] for one in call["responses"].values()), path
        for code in good:
            assert ("content" in call["responses"][code]) == (code != "204"), path


ENVS, ENV = "/v1/environments", "/v1/environments/{environment}"
IN_BOX = {401, 403, 404, 409, 410, 503}
TOLD = IN_BOX | {413, 415, 422}
TASK_MADE = TOLD | {429}
IN_FILES = IN_BOX | {422, 429}
OF_ALL = {401, 403, 503}
OF_SESSION = OF_ALL | {404, 422, 429}
ERRORS = {
    ("get", "/health"): {503}, ("get", "/ready"): {503}, ("get", "/metrics"): {401, 403, 503},
    ("post", "/v1/execute"): {401, 403, 404, 413, 415, 422, 429, 503},
    ("post", "/v1/execute/stream"): {401, 403, 404, 409, 410, 413, 415, 422, 429, 503},
    ("post", "/v1/files"): {401, 403, 413, 415, 422, 503}, ("get", "/v1/files"): {401, 403, 503},
    ("get", "/v1/files/{file_id}"): {401, 403, 404, 503}, ("delete", "/v1/files/{file_id}"): {401, 403, 404, 503},
    ("post", "/v1/sessions"): {401, 403, 404, 413, 415, 422, 429, 503},
    ("delete", "/v1/sessions/{session_id}"): {401, 403, 404, 503},
    ("post", "/v1/sessions/{session_id}/bash"): {401, 403, 404, 413, 415, 422, 429, 503},
    ("post", "/v1/boxes"): {401, 403, 404, 409, 413, 415, 422, 429, 503}, ("get", "/v1/boxes"): {401, 403, 422, 503},
    ("get", ENVS): {401, 403, 503}, ("post", ENVS): {401, 403, 409, 413, 415, 422, 503}, ("get", ENV): {401, 403, 404, 503}, ("delete", ENV): {401, 403, 404, 409, 503},
    ("get", f"{ENV}/build"): {401, 403, 404, 422, 503},
    ("get", BOX): {401, 403, 404, 410, 503}, ("patch", BOX): {401, 403, 404, 409, 410, 413, 415, 422, 503},
    ("delete", BOX): {401, 403, 404, 409, 410, 503},
    ("post", f"{BOX}/commands"): TASK_MADE, ("get", f"{BOX}/commands"): IN_BOX,
    ("get", COMMAND): IN_BOX | {422}, ("delete", COMMAND): IN_BOX | {422}, ("get", f"{COMMAND}/events"): IN_BOX | {422},
    ("post", f"{COMMAND}/stdin"): TOLD | {429}, ("post", f"{COMMAND}/signal"): TOLD,
    ("post", f"{BOX}/cells"): TASK_MADE, ("get", f"{BOX}/cells"): IN_BOX,
    ("get", CELL): IN_BOX | {422}, ("delete", CELL): IN_BOX | {422}, ("get", f"{CELL}/events"): IN_BOX | {422},
    ("post", f"{CELL}/input"): TOLD,
    ("get", f"{BOX}/kernels"): IN_BOX, ("get", KERNEL): IN_BOX, ("delete", KERNEL): IN_BOX,
    ("post", f"{BOX}/ports"): TASK_MADE, ("get", f"{BOX}/ports"): IN_BOX, ("get", f"{BOX}/ports/{{port}}"): IN_BOX, ("delete", f"{BOX}/ports/{{port}}"): IN_BOX,
    ("put", f"{BOX}/network"): TOLD, ("post", f"{BOX}/tools"): IN_BOX | {413, 422, 429, 502}, ("get", f"{BOX}/approvals"): IN_BOX, ("post", f"{BOX}/approvals"): TOLD,
    ("post", f"{BOX}/interrupt"): TOLD, ("post", f"{BOX}/restart"): TOLD, ("post", f"{BOX}/fork"): TASK_MADE,
    ("get", FILES): IN_FILES, ("post", FILES): IN_FILES | {412, 413, 415}, ("get", FILE): IN_FILES | {416},
    ("put", FILE): IN_FILES | {412, 413}, ("post", FILE): IN_FILES | {412, 413, 415}, ("delete", FILE): IN_FILES,
    ("get", WATCH): IN_FILES, ("get", ARCHIVE): IN_FILES, ("put", ARCHIVE): IN_FILES | {413},
    ("post", f"{BOX}/complete"): TASK_MADE, ("post", f"{BOX}/is_complete"): TASK_MADE, ("post", f"{BOX}/inspect"): TASK_MADE,
    ("get", f"{BASE}/healthy"): OF_ALL, ("get", f"{BASE}/workspaces"): OF_ALL, ("post", f"{BASE}/cleanup-all"): OF_ALL | {413, 415, 422},
    ("post", f"{BASE}/session/{SESSION}"): OF_SESSION | {409, 413, 415}, ("delete", f"{BASE}/session/{SESSION}"): OF_SESSION,
    ("get", f"{BASE}/status/{SESSION}"): OF_SESSION,
    ("post", f"{BASE}/upload/{SESSION}"): OF_SESSION | {412, 413, 415},
    **{("post", f"{BASE}/{name}/{SESSION}"): OF_SESSION | {413, 415} for name in ("create", "execute", "execute_code", "download_from_efast")},
    **{("get", f"{BASE}/{name}/{IN_SESSION}"): OF_SESSION | {416} for name in ("download", "files/preview")},
    **{("get", f"{BASE}/{name}/{IN_SESSION}"): OF_SESSION for name in ("files", "readfile")},
    ("post", f"{BASE}/v2/execute_code"): OF_ALL | {413, 422},
}
# Said as well, where they apply.
ELSE = {400, 421, 500}


def test_refusals(api):
    for method, path, call in operations(api):
        said = {int(code) for code in call["responses"]}
        assert {code for code in said if code >= 400} - ELSE == ERRORS[method, path], path
        sandbox = "SandboxError" in str(call["responses"]["503"])
        for code in said & {429, 503}:
            silent = path in ("/health", "/ready") or code == 503 and sandbox
            assert ("Retry-After" in call["responses"][str(code)].get("headers", {})) != silent, path
        assert call.get("security") == ([] if 401 not in said else None), path


def test_credentials(api):
    schemes = api["components"]["securitySchemes"]
    kinds = {(s["type"], s.get("scheme") or s.get("name")) for s in schemes.values()}
    assert kinds == {("http", "bearer"), ("http", "basic"), ("apiKey", "X-API-KEY")}
    assert {name for way in api["security"] for name in way} == set(schemes) and {} in api["security"]


def schemas_in(api):
    """(where, schema) of the whole document."""
    for name, schema in api["components"]["schemas"].items():
        yield name, schema
    for node in everything(api["paths"]):
        if isinstance(node.get("schema"), dict):
            yield str(node)[:60], node["schema"]


@pytest.mark.skipif(not jsonschema, reason="python3-jsonschema is not installed: nobody checked the schemas of /openapi.json")
def test_schemas_are_schemas(api):
    for where, schema in schemas_in(api):
        jsonschema.Draft202012Validator.check_schema(schema), where
        words = {"object", "array", "string", "integer", "number", "boolean", "null"}
        for node in everything(schema):
            if isinstance(node.get("type"), str):
                assert node["type"] in words


@pytest.mark.skipif(not validate_spec, reason="openapi-spec-validator is not installed (Debian 12 has no package of it): "
                                              "/openapi.json was checked by our own rules only")
def test_a_validator_accepts_it(api):
    validate_spec(api)


# --- what it says is so --------------------------------------------------------------------------------------

WRONG = {"string": [5, True, [], {}, 1.5], "integer": ["5", True, [], {}, 1.5], "boolean": [[], {}, "perhaps", 7, 1.5],
         "array": ["x", 5, {}, True], "object": ["x", 5, [], True], "null": []}


def types_of(schema):
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def kind_of(value):
    return {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}[type(value)]


def wrong_values(schema):
    """Values that a schema does not allow, each with why."""
    for value in [None] + [v for t in types_of(schema) for v in WRONG[t]]:
        if kind_of(value) not in types_of(schema):
            yield "type", value
    if "minimum" in schema:
        yield "minimum", schema["minimum"] - 1
    if "maximum" in schema:
        yield "maximum", schema["maximum"] + 1
    if "maxItems" in schema:
        yield "maxItems", [{}] * (schema["maxItems"] + 1)


def example(schema):
    """An object with what is required, and one of what is alternative."""
    values = {"string": "x", "integer": schema.get("minimum", 1), "boolean": True, "array": []}
    needed = schema.get("required", []) + schema.get("oneOf", [{"required": []}])[0]["required"]
    return {name: values[types_of(schema["properties"][name])[0]] for name in needed}


def sent(server, path, body):
    status, answer = server.call("POST", path, body)
    places = [tuple(one["loc"]) for one in answer["detail"]] if status == 422 and isinstance(answer["detail"], list) else None
    return status, places


@pytest.mark.parametrize("name, path", [("ExecuteRequest", "/v1/execute"), ("ExecuteRequest", "/v1/execute/stream"),
                                        ("CreateSessionRequest", "/v1/sessions")])
def test_what_the_schema_refuses_is_refused(server, api, name, path):
    schema = resolve(api, api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"])
    assert schema == api["components"]["schemas"][name]
    good = {"code": "", "timeout_ms": 1000} if name == "ExecuteRequest" else {}
    for member, one in schema["properties"].items():
        for why, value in wrong_values(one):
            status, places = sent(server, path, {**good, member: value})
            assert status == 422 and ("body", member) in [p[:2] for p in places], (member, why, value)
        if "items" in one:
            item = one["items"]
            for inner, two in item["properties"].items():
                for why, value in wrong_values(two):
                    if kind_of(value) == "null" and inner in ("file_id", "content", "content_base64"):
                        continue  # null there is as good as nothing
                    status, places = sent(server, path, {**good, member: [{**example(item), inner: value}]})
                    assert status == 422 and places, (member, inner, why, value)
            for inner in item.get("required", []):
                less = {k: v for k, v in example(item).items() if k != inner}
                assert sent(server, path, {**good, member: [less]}) == (422, [("body", member, 0, inner)])
            assert sent(server, path, {**good, member: [{"path": "x"}]})[0] == 422, "one of the alternatives is needed"
    for member in schema.get("required", []):
        assert sent(server, path, {k: v for k, v in good.items() if k != member}) == (422, [("body", member)])


def test_defaults_of_the_schema_are_taken(server, api):
    properties = api["components"]["schemas"]["ExecuteRequest"]["properties"]
    given = {name: one["default"] for name, one in properties.items() if "default" in one}
    assert set(given) == {"stdin", "timeout_ms", "last_line_interactive", "files"}
    said = [server.execute("import sys\nprint(repr(sys.stdin.read()))\n6 * 7", **more) for more in ({}, given)]
    assert said[0]["stdout"] == said[1]["stdout"] == "''\n42\n"


@needs_jsonschema
def test_answers_are_as_described(server, api):
    fits = Described(server).fits
    for path in ("/health", "/ready"):
        fits(server.call("GET", path)[1], "Health")
    ran = server.execute("open('a', 'w').write('x')")
    fits(ran, "ExecuteResponse")
    fits(server.execute("while True: pass", timeout_ms=100), "ExecuteResponse")
    fits(ran["files"][0], "WorkspaceFile")
    described = api["paths"]["/v1/execute/stream"]["post"]["responses"]["200"]["content"]["text/event-stream"]["x-events"]
    seen = set()
    for name, data in server.sse("/v1/execute/stream", {"code": "print(1)"}):
        seen.add(name)
        fits(data, described[name]["$ref"].rsplit("/", 1)[1])
    assert seen == {"output", "result"}
    files = server.call("GET", "/v1/files")[1]
    fits(files, "FileList")
    fits(files["files"][0], "StoredFile")
    session = server.call("POST", "/v1/sessions", {})[1]
    fits(session, "SessionResponse")
    fits(server.call("POST", f"/v1/sessions/{session['session_id']}/bash", {"cmd": "true"})[1], "BashResponse")
    assert server.request("DELETE", f"/v1/sessions/{session['session_id']}")[0] == 204
    fits(server.call("GET", "/v1/files/none")[1], "DetailError")
    box = server.call("POST", "/v1/boxes", {"name": "described", "metadata": {"a": "b"}})[1]
    path = f"/v1/boxes/{box['id']}"
    fits(box, "Box")
    fits(server.call("GET", path)[1], "Box")
    fits(server.call("PATCH", path, {})[1], "Box")
    fits(server.call("GET", "/v1/boxes")[1], "BoxList")
    fits(server.call("POST", "/v1/boxes", {"name": "described"})[1], "Error")
    fits(server.call("POST", f"{path}/commands", {"shell": "echo 1"})[1], "Command")
    command = server.call("POST", f"{path}/commands", {"shell": "echo 1; echo 2 >&2", "detach": True})[1]
    fits(command, "Command")
    fits(server.call("GET", f"{path}/commands/{command['id']}?wait_ms=60000")[1], "Command")
    fits(server.call("GET", f"{path}/commands")[1], "CommandList")
    described = api["paths"][f"{BOX}/commands"]["post"]["responses"]["200"]["content"]["text/event-stream"]["x-events"]
    seen = set()
    for name, data in server.sse(f"{path}/commands", {"shell": "echo 1; echo 2 >&2", "stream": True}):
        seen.add(name)
        fits(data, described[name]["$ref"].rsplit("/", 1)[1])
    assert seen == set(described) - {"gap"}
    for code in ("6 * 7", "1 / 0"):
        fits(server.call("POST", f"{path}/cells?outputs=1", {"code": code})[1], "Cell")
    fits(server.call("GET", f"{path}/cells")[1], "CellList")
    for status in (201, 200):
        answer = server.request("PUT", f"{path}/files/a%FF", b"x")
        assert answer[0] == status
        fits(json.loads(answer[2]), "FileEntry")
    fits(server.call("GET", f"{path}/files/a%FF?stat=1")[1], "FileEntry")
    fits(server.call("GET", f"{path}/files")[1], "BoxFileList")
    fits(server.call("GET", f"{path}/files/none")[1], "Error")
    assert server.request("DELETE", path)[0] == 204
    fits(server.call("GET", path)[1], "Error")
    wrong = server.call("POST", "/v1/execute", {"code": 1, "timeout_ms": 0})[1]
    fits(wrong, "ValidationError")
    for problem in wrong["detail"]:
        fits(problem, "ValidationProblem")


# --- the build -----------------------------------------------------------------------------------------------


def test_pages_are_embedded_as_they_are(server):
    folder = ROOT / "src/gate/pages"
    names = {"/": "page.html", "/docs": "docs.html", **{path: path.removeprefix("/assets/") for path in ASSETS}}
    assert {p.name for p in folder.iterdir() if p.suffix in (".html", ".js", ".css")} == set(names.values())
    for path, name in names.items():
        assert server.request("GET", path)[2] == (folder / name).read_bytes(), "built before the page was changed?"


# --- in a browser --------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed: nobody looked at the pages in a browser")

# Nothing is asked of anybody but this machine, and nothing is written but below the folder that is removed.
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-breakpad",
         "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-extensions", "--disable-default-apps", "--no-proxy-server", "--no-pings", "--password-store=basic",
         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-pipe"]


class PageLeft(Exception):
    """What was asked of a page that is being left for another has no answer."""


class Browser:
    """Chromium without a window, told what to do by the DevTools protocol: JSON and a zero byte, over two pipes."""

    def __init__(self, folder):
        commands, answers = os.pipe(), os.pipe()
        self.commands, self.answers = commands[1], answers[0]
        line = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", "about:blank"]
        # The pipes must be descriptors 3 and 4, which bash can arrange from any other.
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{commands[0]} 4>&{answers[1]}', "bash", *line], pass_fds=(commands[0], answers[1]),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": folder, "TMPDIR": folder, "XDG_RUNTIME_DIR": folder, "LANG": "C.UTF-8"})
        os.close(commands[0])
        os.close(answers[1])
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        self.on = {}  # {event: what to do at once}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1280, height=1000, deviceScaleFactor=1, mobile=False)

    def message(self, deadline):
        """The next message, or None when there is none in time."""
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, deadline - time.monotonic()))[0]:
                return None
            data = os.read(self.answers, 1 << 20)
            if not data:
                pytest.fail("chromium ended")
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **params):
        number, deadline = self.send(method, **params), time.monotonic() + WAIT_S
        while True:
            answer = self.message(deadline)
            if answer is None:
                pytest.fail(f"no answer to {method} in {WAIT_S} s")
            if answer.get("id") == number:
                if "navigated or closed" in answer.get("error", {}).get("message", ""):
                    raise PageLeft
                assert "error" not in answer, (method, params, answer)
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)
                self.on.get(answer["method"], lambda params: None)(answer["params"])

    def open(self, url):
        """To a page that is loaded, its scripts included."""
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        until(lambda: self.js("document.readyState") == "complete", f"{url} is loaded")

    def follow(self, selector):
        """By a link to another page that is loaded."""
        link = f"document.querySelector({json.dumps(selector)})"
        path = self.js(f"{link}.pathname")
        assert path != self.js("location.pathname")

        def there():
            try:
                return self.js("[location.pathname, document.readyState]") == [path, "complete"]
            except PageLeft:
                return False

        self.js(f"{link}.click()")
        until(there, f"{path} is loaded")

    def js(self, expression):
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def see(self, selector, pattern):
        """Waits until the text of an element has the pattern; the match."""
        return until(lambda: re.search(pattern, self.text(selector)), f"{pattern!r} in {selector}")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def key(self, key, ctrl=False, shift=False):
        code = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}[key]
        common = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code,
                  "modifiers": 2 * ctrl + 8 * shift}
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def focus(self):
        return self.js("document.activeElement.id || document.activeElement.textContent.trim()")

    def complaints(self):
        """What the console would show as an error or a warning, violations of the policy among it."""
        self.js("new Promise((done) => setTimeout(done, 50))")
        found = []
        for event in self.events:
            kind, params = event["method"], event["params"]
            if kind == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif kind == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif kind in ("Runtime.exceptionThrown", "Audits.issueAdded"):
                found.append(json.dumps(params))
        return found

    def asked(self):
        """Addresses of everything that was loaded, or was tried to be; without credentials."""
        urls = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [re.sub(r"^(\w+://)[^/@]*@", r"\1", url) for url in urls]

    def answer_with(self, password):
        """As if somebody typed it into the box that a browser shows when it is asked for a password."""
        given = {"response": "ProvideCredentials", "username": "anybody", "password": password}
        self.on["Fetch.requestPaused"] = lambda p: self.send("Fetch.continueRequest", requestId=p["requestId"])
        self.on["Fetch.authRequired"] = lambda p: self.send("Fetch.continueWithAuth", requestId=p["requestId"],
                                                            authChallengeResponse=given)
        self.call("Fetch.enable", handleAuthRequests=True)

    def close(self):
        """Asks it to end; what then is still there of its session is killed, and fails the test."""
        self.session = None
        with contextlib.suppress(OSError, pytest.fail.Exception):
            self.call("Browser.close")
        os.close(self.commands)
        os.close(self.answers)
        left = None
        try:
            self.process.wait(WAIT_S)
            until(lambda: not self.members(), "the processes of chromium are gone", 10)
        except (subprocess.TimeoutExpired, pytest.fail.Exception) as e:
            left = e
        with contextlib.suppress(ProcessLookupError):
            if left:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if left:
            raise left

    def members(self):
        """Living processes of its session."""
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError, ProcessLookupError):
                if entry.isdigit() and os.getsid(int(entry)) == self.process.pid and (stat_of(entry) or "  Z")[2] not in "ZX":
                    found.append(int(entry))
        return found


@pytest.fixture
def browser():
    with tempfile.TemporaryDirectory(prefix="browser-") as folder:
        made = Browser(folder)
        try:
            yield made
        finally:
            made.close()


def origin(server):
    return f"http://127.0.0.1:{server.port}"


def cell(browser, server, code):
    """The page with this in its cell."""
    browser.open(origin(server) + "/")
    assert browser.focus() == "code"
    browser.type(code)


def spans(browser):
    return browser.js("[...document.querySelectorAll('#output span')].map((s) => [s.className, s.textContent])")


def written(browser, stream):
    return "".join(text for name, text in spans(browser) if name == stream)


def clean(browser, server, but=()):
    """Nothing was complained of, and nobody else was asked."""
    assert [text for text in browser.complaints() if not any(part in text for part in but)] == []
    assert [url for url in browser.asked() if not url.startswith((origin(server) + "/", "data:"))] == []


@needs_chromium
def test_the_cell(server, browser):
    cell(browser, server, "import sys\nprint('out')\nprint('err', file=sys.stderr, flush=True)\n6 * 7")
    browser.key("Enter", ctrl=True)
    browser.see("#status", r"^[0-9]+ ms: exit code 0, [0-9]+ ms in the server$")
    assert written(browser, "stdout") == "out\n42\n" and written(browser, "stderr") == "err\n"
    assert browser.js("document.getElementById('made').hidden")
    assert browser.focus() == "code"
    clean(browser, server)


@pytest.mark.more
@needs_chromium
def test_a_program_that_fails_and_one_that_takes_too_long(server, browser):
    cell(browser, server, "1 / 0")
    browser.js("document.getElementById('run').click()")
    browser.see("#status", r"ms: exit code 1,")
    assert "ZeroDivisionError" in browser.text("#output .stderr")
    browser.js("code.value = 'print(1)\\nwhile True: pass'; limit.value = '300'")
    browser.key("Enter", ctrl=True)
    browser.see("#status", r"ms: timed out,")
    assert browser.text("#output") == "1\n"
    clean(browser, server)


@needs_chromium
def test_output_is_text(server, browser):
    """Markup is not markup, and control characters are shown as something."""
    hostile = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    cell(browser, server, f"print({hostile!r})\nprint('\\x1b[31mred\\x07\\x9b0m\\x7f\\u202eevil\\r\\nnext\\rover\\u2028end')")
    browser.key("Enter", ctrl=True)
    browser.see("#status", "exit code 0")
    assert browser.text("#output") == f"{hostile}\n^[[31mred^G<U+009B>0m^?<U+202E>evil\nnext^Mover<U+2028>end\n"
    assert browser.js("document.querySelectorAll('#output img, #output script').length") == 0
    assert browser.js("document.title") == "Glovebox"
    clean(browser, server)


def event(name, **data):
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def output(stream, text):
    return event("output", stream=stream, data=text)


RESULT = event("result", exit_code=0, timed_out=False, duration_ms=7, files=[])
STREAMS = {
    "both, in order": (output("stdout", "1\n") + output("stderr", "2\n") + output("stdout", "3") + output("stdout", "é\u2028\n") + RESULT,
                       [["stdout", "1\n"], ["stderr", "2\n"], ["stdout", "3é<U+2028>\n"]], "exit code 0, 7 ms in the server"),
    "a line break in two halves": (output("stdout", "a\r") + output("stdout", "\nb\r") + RESULT, [["stdout", "a\nb^M"]], "exit code 0"),
    "comments, ids, unknown events": (": a comment\n\nid: 5\n" + event("gap", **{"from": 1, "to": 2}) + "nonsense\n" + output("stdout", "x") +
                                      "event:result\ndata:{\"exit_code\":null,\"timed_out\":true,\"duration_ms\":1,\"files\":[]}\n\n",
                                      [["stdout", "x"]], "timed out"),
    "an error": (output("stdout", "x") + event("error", message="lost\u202e"), [["stdout", "x"], ["problem", "\nlost<U+202E>"]], "failed"),
    "no end": (output("stdout", "x\n") + RESULT[:-1], [["stdout", "x\n"], ["problem", "The connection ended before the program did."]], "lost"),
    "too much": (output("stdout", "x" * 3000000) * 3 + RESULT, None, "exit code 0"),
}


@pytest.mark.more
@needs_chromium
def test_streams_of_all_kinds(server, browser):
    """What the server might send, however it is cut into pieces."""
    browser.open(origin(server) + "/")
    for name, (text, expected, how) in STREAMS.items():
        for size in (1, 5, 1 << 30) if len(text) < 10000 else (1 << 20,):
            browser.js(f"""{{
                const bytes = new TextEncoder().encode({json.dumps(text)});
                let at = 0;
                window.fetch = async () => new Response(new ReadableStream({{ pull(c) {{
                    if (at < bytes.length)
                        c.enqueue(bytes.slice(at, at += {size}));
                    else
                        c.close();
                }} }}));
            }}""")
            browser.key("Enter", ctrl=True)
            browser.see("#status", r"^[0-9]+ ms: " + re.escape(how))
            if expected:
                assert spans(browser) == expected, (name, size)
            else:
                assert browser.text("#output").endswith("x\nThe rest is not shown.")
    clean(browser, server)


@needs_chromium
def test_output_comes_as_it_is_written_and_stop_ends_the_run(server, browser):
    word = mark()
    cell(browser, server, waiting(word))
    browser.js("limit.value = '60000'")
    browser.key("Enter", ctrl=True)
    browser.see("#output", "begun\n")
    assert browser.text("#status") == "Running…" and server.running(word)
    assert browser.js("['run', 'stop'].map((id) => document.getElementById(id).getAttribute('aria-disabled'))") == ["true", "false"]
    browser.js("document.getElementById('stop').click()")
    browser.see("#status", r"^[0-9]+ ms: stopped$")
    until(lambda: not server.running(word), "the server ends the run")
    browser.js("code.value = 'print(2)'")
    browser.key("Enter", ctrl=True)
    browser.see("#status", "exit code 0")
    assert browser.text("#output") == "2\n", "what was there before is gone"
    clean(browser, server, but=["net::ERR_ABORTED"])


@needs_chromium
def test_files_and_input(server, browser):
    name = "a <b>&\u202e.txt"
    cell(browser, server, f"import os, sys\nos.mkdir('d')\nopen('d/x', 'wb').write(bytes(range(256)))\n"
                          f"open({name!r}, 'w').write(sys.stdin.read())")
    browser.js("input.value = 'é\\n'")
    browser.key("Enter", ctrl=True)
    browser.see("#status", "exit code 0")
    links = dict(browser.js("[...document.querySelectorAll('#files a')].map((a) => [a.textContent, a.href])"))
    assert set(links) == {"d/x", "a <b>&<U+202E>.txt"} and not browser.js("made.hidden")
    got = browser.js(f"fetch({json.dumps(links['d/x'])}).then((a) => a.arrayBuffer()).then((b) => [...new Uint8Array(b)])")
    assert got == list(range(256))
    assert browser.js(f"fetch({json.dumps(links['a <b>&<U+202E>.txt'])}).then((a) => a.text())") == "é\n"
    clean(browser, server)


@needs_chromium
def test_what_the_server_says_is_shown(server, browser):
    cell(browser, server, "print(1)")
    browser.js("limit.value = '99999999'")
    browser.key("Enter", ctrl=True)
    browser.see("#status", r"^[0-9]+ ms: refused$")
    assert re.search(r"422 .*\ntimeout_ms exceeds maximum of [0-9]+ ms", browser.text("#output .problem"))
    browser.js("limit.removeAttribute('min'); limit.value = '-1'")
    browser.key("Enter", ctrl=True)
    browser.see("#output .problem", r"422 .*\ntimeout_ms: Input should be greater than or equal to 1")
    clean(browser, server, but=["422"])


@needs_chromium
def test_a_server_that_goes_away(serve, browser):
    gone = serve()
    cell(browser, gone, "print(1)")
    gone.stop()
    browser.key("Enter", ctrl=True)
    browser.see("#output .problem", "The connection failed")
    browser.see("#status", "lost")


@needs_chromium
def test_by_keyboard_alone(server, browser):
    """Enter indents, Tab leaves the cell, the buttons are reached and pressed, and nobody loses the focus."""
    cell(browser, server, "for i in range(2):")
    browser.key("Enter")
    browser.type("print(i)")
    assert browser.js("code.value") == "for i in range(2):\n    print(i)"
    browser.key("Tab")
    assert browser.focus() == "run"
    browser.key(" ")
    browser.see("#status", "exit code 0")
    assert browser.text("#output") == "0\n1\n" and browser.focus() == "run"
    browser.key("Tab")
    assert browser.focus() == "stop"
    browser.js("code.value = 'import time; time.sleep(60)'; limit.value = '60000'")
    browser.key("Enter", ctrl=True)
    browser.see("#status", "Running")
    browser.key("Escape")
    browser.see("#status", "stopped")
    assert browser.focus() == "stop"
    clean(browser, server, but=["net::ERR_ABORTED"])


def unnamed(browser):
    """Interactive things that a screen reader would have no name for."""
    browser.call("Accessibility.enable")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"textbox", "button", "link", "spinbutton", "log", "status", "table", "heading", "list"}
    named = {"textbox", "button", "link", "spinbutton", "log", "heading"}
    found = {n["role"]["value"] for n in nodes if not n["ignored"]} & roles
    return found, [n["role"]["value"] for n in nodes
                   if not n["ignored"] and n["role"]["value"] in named and not n.get("name", {}).get("value")]


@pytest.mark.more
@needs_chromium
def test_a_screen_reader_finds_its_way(server, browser):
    cell(browser, server, "")
    found, missing = unnamed(browser)
    assert {"textbox", "button", "link", "log", "status", "heading"} <= found and missing == []
    browser.open(origin(server) + "/docs#post_v1_execute")
    browser.see("#calls", "/v1/execute")
    browser.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    found, missing = unnamed(browser)
    assert {"textbox", "button", "link", "log", "heading", "table"} <= found and missing == []
    clean(browser, server)


@needs_chromium
def test_light_and_dark(server, browser):
    browser.open(origin(server) + "/")
    colours = {}
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        colours[scheme] = browser.js("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
                                     ".map((c) => c.match(/[0-9]+/g).reduce((a, b) => a + Number(b), 0))")
    assert colours["light"][0] > colours["light"][1] and colours["dark"][0] < colours["dark"][1]


@pytest.mark.more
@needs_chromium
def test_nothing_is_remembered(server, browser):
    cell(browser, server, "print('secret')")
    browser.key("Enter", ctrl=True)
    browser.see("#status", "exit code 0")
    browser.open(origin(server) + "/docs")
    browser.open(origin(server) + "/")
    assert browser.js("[code.value, output.textContent, document.cookie, localStorage.length, sessionStorage.length]") == ["", "", "", 0, 0]


@needs_chromium
@pytest.mark.parametrize("how", ["asked for it", "in the address"])
def test_with_a_token(guarded, browser, how):
    """The browser asks once, and then sends the credentials by itself."""
    if how == "in the address":
        browser.open(f"http://gb:{TOKEN}@127.0.0.1:{guarded.port}/")
    else:
        browser.answer_with(TOKEN)
        browser.open(origin(guarded) + "/")
        browser.call("Fetch.disable")
    assert browser.focus() == "code"
    browser.type("print(6 * 7)\nopen('made', 'w').write('x')")
    browser.key("Enter", ctrl=True)
    browser.see("#status", "exit code 0")
    assert browser.text("#output") == "42\n1\n"
    assert browser.js("fetch(document.querySelector('#files a').href).then((a) => a.text())") == "x"
    browser.follow("header a")
    browser.see("#calls", "/v1/execute")
    clean(browser, guarded, but=["401"])


@needs_chromium
def test_the_api_page(server, api, browser):
    browser.open(origin(server) + "/docs")
    browser.see("#calls", "/v1/execute")
    listed = browser.js("[...document.querySelectorAll('#calls summary h3')].map((h) => h.textContent)")
    assert sorted(listed) == sorted(f"{method.upper()} {path}" for method, path, _ in operations(api))
    assert browser.js("[...document.querySelectorAll('#calls h2')].map((h) => h.textContent)") == \
        ["server", "execute", "files", "sessions", "environments", "boxes", "sandbox-runtime"]
    assert browser.text("#version") == api["info"]["version"]
    shown = browser.text("#post_v1_execute")
    for name in ("code", "stdin", "timeout_ms", "last_line_interactive", "files[].content_base64", "duration_ms", "ValidationError"):
        assert name in shown
    assert "default 2000" in shown and "exactly one of file_id, content, content_base64" in shown
    assert "exit_code" in browser.text("#post_v1_execute_stream") and "Event result" in browser.text("#post_v1_execute_stream")
    clean(browser, server)


@needs_chromium
def test_trying_a_call_by_keyboard(server, browser):
    browser.open(origin(server) + "/docs#post_v1_execute")
    browser.see("#calls", "/v1/execute")
    until(lambda: browser.js("document.getElementById('post_v1_execute').open"), "the named call is open")
    assert browser.js("document.activeElement.tagName") == "SUMMARY"
    browser.key("Tab")
    assert browser.focus() == "post_v1_execute-body"
    browser.key("Tab")
    assert browser.focus() == "Send"
    browser.key("Enter")
    status, output = "#post_v1_execute [role=status]", "#post_v1_execute form pre"
    browser.see(status, r"^200 OK, [0-9]+ ms$")
    browser.see(output, "42")
    assert json.loads(browser.text(output))["stdout"] == "42\n"
    browser.js("document.getElementById('post_v1_execute-body').value = '{\"code\": 5}'")
    browser.key("Enter")
    browser.see(status, r"^422 ")
    browser.see(output, "detail")  # the status is there before the body
    assert json.loads(browser.text(output))["detail"][0]["loc"] == ["body", "code"]
    clean(browser, server, but=["422"])


@pytest.mark.more
@needs_chromium
def test_trying_the_others(server, browser):
    """Events, parameters of a path, an upload, bytes."""
    browser.open(origin(server) + "/docs")
    browser.see("#calls", "/v1/execute")

    def send(call):
        browser.js(f"document.querySelector('#{call} form').requestSubmit()")
        said = browser.see(f"#{call} [role=status]", r"^([0-9]{3}) .*, [0-9]+ ms$")
        return int(said[1]), browser.text(f"#{call} form pre")

    status, text = send("post_v1_execute_stream")
    said = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]
    assert status == 200 and "".join(one.get("data", "") for one in said) == "42\n" and said[-1]["exit_code"] == 0
    browser.js("const t = new DataTransfer(); t.items.add(new File(['abc'], 'a.txt'));"
               "document.getElementById('post_v1_files-file').files = t.files")
    status, text = send("post_v1_files")
    assert status == 201 and json.loads(text)["filename"] == "a.txt"
    file_id = json.loads(text)["file_id"]
    for call in ("get_v1_files_file_id", "delete_v1_files_file_id"):
        browser.js(f"document.getElementById('{call}-file_id').value = {json.dumps(file_id)}")
    assert send("get_v1_files_file_id") == (200, "3 bytes")
    assert send("delete_v1_files_file_id")[0] == 204
    status, text = send("get_v1_files_file_id")
    assert status == 404 and file_id in json.loads(text)["detail"]
    status, text = send("post_v1_sessions")
    assert status == 201
    browser.js(f"document.getElementById('delete_v1_sessions_session_id-session_id').value = {json.dumps(json.loads(text)['session_id'])}")
    assert send("delete_v1_sessions_session_id")[0] == 204
    assert send("get_metrics")[0] == 200
    clean(browser, server, but=["404"])


@needs_chromium
def test_the_policy_holds(server, browser):
    """And a violation is seen by these tests."""
    browser.open(origin(server) + "/")
    browser.js("const s = document.createElement('script'); s.textContent = 'document.title = \"owned\"'; document.body.append(s)")
    browser.js("document.body.setAttribute('style', 'color: red')")
    assert browser.js("fetch('http://127.0.0.1:1/').then(() => 'sent', () => 'refused')") == "refused"
    assert browser.js("document.title") == "Glovebox"
    said = "\n".join(browser.complaints())
    for part in ("script-src", "style-src", "connect-src"):
        assert part in said, said


@needs_chromium
def test_the_browser_leaves_nothing():
    """Neither processes nor files: what the other tests rely on."""
    before = set(os.listdir("/tmp"))
    with tempfile.TemporaryDirectory(prefix="browser-") as folder:
        made = Browser(folder)
        family = made.members()
        made.close()
    assert len(family) > 1 and made.members() == [] and not os.path.exists(folder)
    assert not [name for name in set(os.listdir("/tmp")) - before if re.search("chrom|browser", name, re.I)]
