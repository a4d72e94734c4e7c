# SPDX-License-Identifier: Apache-2.0
"""Jupyter's REST calls, from what its clients rely on: statuses, bodies, who may ask, limits, and nothing left."""
import concurrent.futures
import contextlib
import json
import time
import uuid

import pytest
import yaml

from jup import UUID, Client, Closed, Kernel, check_model, date_of, refusal
from server import WARM, needs_root, serve, shared, tokens_variable, until  # noqa: F401

pytestmark = needs_root

server = shared(**WARM)
ONE, TWO = "the-first-token-0123456789", "the-second-token-0123456789"
tokens = shared(tokens={"one": ONE, "two": TWO}, **WARM)


@pytest.fixture
def kernel(server):
    with Kernel(server) as kernel:
        yield kernel


@pytest.fixture(autouse=True)
def tidy(request):
    """What a test that fails leaves behind is nobody else's failure."""
    yield
    for name, headers in (("server", [{}]), ("tokens", [{"Authorization": f"token {ONE}"}, {"Authorization": f"token {TWO}"}])):
        if name in request.fixturenames:
            server = request.getfixturevalue(name)
            for one in headers:
                for kernel in ids(server, one):
                    server.call("DELETE", f"/api/kernels/{kernel}", headers=one)


def ids(server, headers=None):
    status, answer = server.call("GET", "/api/kernels", headers=headers)
    assert status == 200, answer
    return {check_model(model)["id"] for model in answer}


# --- what this is ----------------------------------------------------------------------------------------------


def test_version(server):
    status, given, data = server.request("GET", "/api")
    assert status == 200 and given["Content-Type"].startswith("application/json")
    assert isinstance(json.loads(data)["version"], str) and json.loads(data)["version"]


def check_spec(spec, name):
    assert spec["name"] == name and isinstance(spec["resources"], dict), spec
    inner = spec["spec"]
    assert isinstance(inner["argv"], list) and all(isinstance(word, str) for word in inner["argv"])
    assert inner["language"] == "python" and isinstance(inner["display_name"], str) and inner["display_name"]
    assert isinstance(inner["env"], dict) and isinstance(inner["metadata"], dict) and inner["interrupt_mode"] in ("signal", "message")


def test_specs(server):
    status, answer = server.call("GET", "/api/kernelspecs")
    assert status == 200 and answer["default"] == "python3" and answer["default"] in answer["kernelspecs"]
    for name, spec in answer["kernelspecs"].items():
        check_spec(spec, name)
        assert server.call("GET", f"/api/kernelspecs/{name}") == (200, spec)


def test_no_such_spec(server):
    refusal(server.call("GET", "/api/kernelspecs/cobol"), 404, "cobol")
    refusal(server.call("GET", "/api/kernelspecs/" + "x" * 500), 404)


def test_no_pictures(server):
    refusal(server.call("GET", "/kernelspecs/python3/logo-64x64.png"), 404)


# --- making one --------------------------------------------------------------------------------------------------

BODIES = {
    "none": None,
    "empty": b"",
    "object": b"{}",
    "null": b"null",
    "name": b'{"name": "python3"}',
    "language": b'{"name": "python"}',
    "no name": b'{"name": null}',
    "path": b'{"name": "python3", "path": "a/b.ipynb"}',
    "unknown keys": b'{"name": "python3", "kernel_id": null, "cwd": "/", "more": [1, {"x": 2}]}',
    "empty env": b'{"name": "python3", "env": {}}',
}


@pytest.mark.parametrize("name", BODIES)
def test_make(server, name):
    with Kernel(server, BODIES[name]) as kernel:
        assert kernel.location == f"/api/kernels/{kernel.id}"
        assert kernel.model["name"] in ("python3", "python") and kernel.model["connections"] == 0
        assert kernel.get()["id"] == kernel.id and kernel.id in ids(server)


def test_content_types_mean_nothing(server):
    """Clients send JSON under every name, or under none."""
    for kind in ("application/json", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"):
        with Kernel(server, b'{"name": "python3"}', {"Content-Type": kind}) as kernel:
            assert UUID.fullmatch(kernel.id)
    body = b'{"name": "python3"}'
    with server.wire() as wire:
        wire.send(b"POST /api/kernels HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s" % (server.authority.encode(), len(body), body))
        answer = wire.response()
    assert answer.status == 201
    assert server.call("DELETE", f"/api/kernels/{answer.json()['id']}")[0] == 204


def test_the_name_is_the_one_that_was_asked_for(server):
    for name in ("python3", "python"):
        with Kernel(server, {"name": name}) as kernel:
            assert kernel.model["name"] == kernel.get()["name"] == name


@pytest.mark.parametrize("body, status", [(b"{", 400), (b"[]", 400), (b'"python3"', 400), (b"\xff\xfe", 400), (b'{"name": "cobol"}', 404),
                                          (b'{"name": "\xc3\xa4\\n\\u0000"}', 404), (b'{"name": "' + b"x" * 5000 + b'"}', 404)])
def test_what_is_no_kernel(server, body, status):
    before = ids(server)
    refusal(server.call("POST", "/api/kernels", body), status)
    assert ids(server) == before


@pytest.mark.parametrize("body", [b'{"name": 5}', b'{"name": []}', b'{"env": []}', b'{"env": {"KERNEL_A": 5}}', b'{"env": {"": "x"}}',
                                  b'{"env": {"KERNEL_A=B": "x"}}', b'{"env": {"KERNEL_A": "x\\u0000y"}}',
                                  json.dumps({"env": {"KERNEL_LONG": "x" * 100000}}).encode()])
def test_odd_bodies(server, body):
    """Refused by a clear word, or taken for what they can mean; never half."""
    before = ids(server)
    status, answer = server.call("POST", "/api/kernels", body)
    if status == 201:
        assert server.call("DELETE", f"/api/kernels/{check_model(answer)['id']}")[0] == 204
    else:
        assert 400 <= status < 500, (status, answer)
        refusal((status, answer), status)
    assert ids(server) == before


def test_environment(server):
    with Kernel(server, {"name": "python3", "env": {"KERNEL_USERNAME": "me", "KERNEL_EMPTY": "", "KERNEL_TEXT": "ä 'x'\n"}}) as kernel:
        code = "import os\n{k: v for k, v in os.environ.items() if k.startswith('KERNEL_')}"
        want = {"KERNEL_USERNAME": "me", "KERNEL_EMPTY": "", "KERNEL_TEXT": "ä 'x'\n"}
        assert eval(kernel.run(code).value) == want
        assert kernel.restart()[0] == 200
        assert eval(kernel.run(code).value) == want, "also of the next process"


def test_environment_of_others(server):
    """Servers in gateway mode may send all that they have: what is the kernel's is KERNEL_*, and the rest is no reason to refuse."""
    env = {"PATH": "/nowhere", "HOME": "/root", "LS_COLORS": "x" * 20000, "LD_PRELOAD": "/nowhere.so", "JPY_SESSION_NAME": "x.ipynb", "KERNEL_A": "b"}
    with Kernel(server, {"name": "python3", "env": env}) as kernel:
        assert kernel.run("import os; os.environ['KERNEL_A'], os.environ['PATH'] == '/nowhere'").value == "('b', False)"
        assert kernel.run("sorted(set(os.environ) & {'LS_COLORS', 'LD_PRELOAD', 'JPY_SESSION_NAME'})").value == "[]"


@pytest.mark.more
def test_environment_that_is_allowed(serve):
    server = serve(jupyter_client_env="ONE_OF_MINE,JPY_SESSION_NAME", **WARM)
    env = {"ONE_OF_MINE": "1", "ANOTHER": "2", "JPY_SESSION_NAME": "x", "KERNEL_A": "b"}
    with Kernel(server, {"name": "python3", "env": env}) as kernel:
        assert eval(kernel.run(f"import os; {{k: v for k, v in os.environ.items() if k in {env}}}").value) == {k: env[k] for k in env if k != "ANOTHER"}


@pytest.mark.more
def test_nothing_of_the_server_is_in_the_environment(serve):
    secret = "secret-of-the-server-0123456789"
    server = serve(env={"KG_AUTH_TOKEN": secret, "KERNEL_HIDDEN": secret, **tokens_variable({"one": ONE})}, **WARM)
    with Kernel(server, headers={"Authorization": f"token {ONE}"}) as kernel:
        seen = kernel.run("import os, glob\nprint(dict(os.environ))\n"
                          "for f in glob.glob('/proc/[0-9]*/environ'):\n    try: print(open(f).read())\n    except OSError: pass").text()
        assert "PATH" in seen and secret not in seen and ONE not in seen


def test_a_client_that_does_not_wait(server):
    """Nothing stays of a kernel whose maker left before the answer."""
    before = ids(server)
    for _ in range(5):
        with server.wire() as wire:
            wire.send(b"POST /api/kernels HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n" % server.authority.encode())
    with Kernel(server) as kernel:  # behind them in every queue
        assert kernel.id in ids(server)
    until(lambda: ids(server) == before, "no kernel without a client")


# --- looking, interrupting, restarting -----------------------------------------------------------------------------


def test_model(kernel):
    model = kernel.get()
    assert model["connections"] == 0 and model["execution_state"] in ("starting", "idle")
    with kernel.client() as first, kernel.client("text") as second:
        assert kernel.get()["connections"] == 2
        header, asked = first.hold()
        assert kernel.state == "busy"
        before = date_of(kernel.get()["last_activity"])
        first.answer(asked, "x")
        first.told(header).ok.check()
        second.left()
        assert kernel.state == "idle" and date_of(kernel.get()["last_activity"]) >= before
    kernel.wait_alone()


def test_the_list(server):
    before = ids(server)
    with Kernel(server) as a, Kernel(server) as b:
        assert ids(server) == before | {a.id, b.id} and a.id != b.id
        listed = {model["id"]: model for model in server.call("GET", "/api/kernels")[1]}
        assert listed[a.id]["name"] == a.get()["name"]
    assert ids(server) == before


NOBODY = ["00000000-0000-4000-8000-000000000000", str(uuid.uuid4()), "x", "ABCDEF", "a" * 300, "..%2f..", "%00"]


@pytest.mark.parametrize("name", NOBODY)
def test_no_such_kernel(server, name):
    for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart")):
        status, answer = server.call(method, f"/api/kernels/{name}{tail}")
        assert status == 404 or "%" in name and status == 400, (method, tail, status, answer)
        assert {"reason", "message"} <= set(answer) or "error" in answer or "detail" in answer
        if name in NOBODY[:2]:
            refusal((status, answer), 404, name)


def test_no_channels_of_nobody(server, kernel):
    ghost = Kernel.__new__(Kernel)
    ghost.server, ghost.headers, ghost.path = server, {}, f"/api/kernels/{NOBODY[0]}"
    for framing in ("text", "v1"):
        with Client(ghost, framing) as client:
            assert client.status == 404
            refusal((404, client.body()), 404, NOBODY[0])
    status, given, _ = server.request("GET", f"{kernel.path}/channels")
    assert status in (400, 426), "no upgrade was asked for"


def test_interrupt(server, kernel):
    """204, whatever the body is, and whether or not something runs."""
    for body in (None, b"", b"{}", b"nonsense"):
        status, _, data = server.request("POST", f"{kernel.path}/interrupt", body)
        assert (status, data) == (204, b"")
    with kernel.client() as client:
        header = client.begin("import time; time.sleep(1000)")
        assert kernel.interrupt() == (204, None)
        told = client.told(header)
        assert told.reply["status"] == "error" and told.reply["ename"] == "KeyboardInterrupt"
        assert client.value("6 * 7") == "42"


def test_restart(server, kernel):
    with kernel.client() as client:
        client.run("import os\nstate = 1\nfirst = os.getpid()\nopen('kept', 'w').write('file')").ok
    for body in (None, b"{}"):
        status, model = kernel.call("POST", "/restart", body)
        assert status == 200 and check_model(model)["id"] == kernel.id
    told = kernel.run("'state' in globals(), open('kept').read()")
    assert told.value == "(False, 'file')" and told.reply["execution_count"] == 1
    assert ids(server) >= {kernel.id}


def test_end(server):
    """Nothing of it is left: no process, no box, no name."""
    boxes = server.call("GET", "/v1/boxes")[1]["boxes"]
    kernel = Kernel(server)
    word = uuid.uuid4().hex
    kernel.run(f"import subprocess\np = subprocess.Popen(['bash', '-c', 'sleep 1000; : {word}'], start_new_session=True)").ok
    until(lambda: server.running(word), "its process runs")
    status, _, data = server.request("DELETE", kernel.path)
    assert (status, data) == (204, b"")
    refusal(kernel.call("GET"), 404, kernel.id)
    refusal(kernel.call("DELETE"), 404, kernel.id)
    assert kernel.id not in ids(server)
    until(lambda: not server.running(word), "its processes are gone")
    until(lambda: server.call("GET", "/v1/boxes")[1]["boxes"] == boxes, "its box is gone")


def test_end_while_busy(server):
    kernel = Kernel(server)
    with kernel.client() as client, kernel.client("text") as other:
        header = client.begin("import time; time.sleep(1000)")
        waits = client.execute("print('never')")
        assert kernel.call("DELETE")[0] == 204
        assert (client.told(header).reply["status"], client.told(waits).reply["status"]) == ("error", "aborted")
        assert client.close_code() in (1000, 1001) and other.close_code() in (1000, 1001)
    with kernel.client() as client:
        assert client.status == 404


def test_methods(server, kernel):
    for method, path in (("PUT", "/api/kernels"), ("DELETE", "/api/kernels"), ("POST", "/api"), ("GET", f"{kernel.path}/restart"),
                         ("GET", f"{kernel.path}/interrupt"), ("PATCH", kernel.path), ("POST", "/api/kernelspecs")):
        status, given, _ = server.request(method, path)
        assert status == 405 and given["Allow"], (method, path, status)


def test_what_editors_probe(server):
    """No password is needed where there is no page to enter one."""
    assert server.request("GET", "/tree?")[0] == 404
    assert server.request("GET", "/")[0] in (200, 302, 404)


# --- who may ask -----------------------------------------------------------------------------------------------------

CALLS = [("GET", "/api"), ("GET", "/api/kernelspecs"), ("GET", "/api/kernelspecs/python3"), ("GET", "/api/kernels"), ("POST", "/api/kernels"),
         ("GET", "/api/kernels/{}"), ("DELETE", "/api/kernels/{}"), ("POST", "/api/kernels/{}/interrupt"), ("POST", "/api/kernels/{}/restart")]


def test_no_token(tokens):
    with Kernel(tokens, headers={"Authorization": f"token {ONE}"}) as kernel:
        for method, path in CALLS:
            for headers in ({}, {"Authorization": "token"}, {"Authorization": "token wrong"}, {"Authorization": "Bearer wrong"},
                            {"Authorization": f"Basic {ONE}"}, {"Authorization": ONE}):
                status, answer = tokens.call(method, path.format(kernel.id), headers=headers)
                assert status == 401, (method, path, headers, status)
                assert {"reason", "message"} <= set(answer), answer
            assert tokens.call(method, path.format(kernel.id) + "?token=wrong")[0] == 401
        assert kernel.get()["id"] == kernel.id
        assert ids(tokens, kernel.headers) == {kernel.id}


@pytest.mark.parametrize("scheme", ["token", "Token", "TOKEN", "Bearer", "bearer"])
def test_a_token_in_the_header(tokens, scheme):
    with Kernel(tokens, headers={"Authorization": f"{scheme} {ONE}"}) as kernel:
        assert kernel.run("6 * 7").value == "42"


def test_a_token_in_the_address(tokens):
    query = f"?token={ONE}"
    status, model = tokens.call("POST", f"/api/kernels{query}")
    assert status == 201
    path = f"/api/kernels/{model['id']}"
    assert tokens.call("GET", path + query)[1]["id"] == model["id"]
    assert tokens.call("POST", f"{path}/interrupt{query}")[0] == 204 and tokens.call("POST", f"{path}/restart{query}")[0] == 200
    assert tokens.call("GET", path)[0] == 401
    ghost = Kernel.__new__(Kernel)
    ghost.server, ghost.headers, ghost.path = tokens, {}, path
    with Client(ghost, query=f"?session_id=abc&token={ONE}") as client:
        assert client.value("6 * 7") == "42"
    for query_of in ("", "?token=", "?token=wrong", f"?session_id=abc&token={ONE}x"):
        with Client(ghost, query=query_of) as client:
            assert client.status == 401
    assert tokens.call("DELETE", path + query)[0] == 204
    assert ONE not in tokens.log()


def test_a_page_of_an_allowed_origin(serve):
    """A browser asks without a token whether it may send one."""
    page = "https://lab.example.org"
    server = serve(allowed_origin=page, env=tokens_variable({"one": ONE}), **WARM)
    ask = {"Origin": page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    status, given, _ = server.request("OPTIONS", "/api/kernels", headers=ask)
    assert status == 204 and given["Access-Control-Allow-Origin"] == page and "POST" in given["Access-Control-Allow-Methods"]
    assert given["Access-Control-Allow-Headers"] == "authorization,content-type" and given["Vary"] == "Origin"
    status, given, _ = server.request("GET", "/api/kernelspecs", headers={"Origin": page, "Authorization": f"token {ONE}"})
    assert status == 200 and given["Access-Control-Allow-Origin"] == page
    assert server.request("GET", "/api/kernelspecs", headers={"Origin": page})[0] == 401
    assert server.request("OPTIONS", "/api/kernels", headers={"Origin": page})[0] == 401, "no preflight"
    assert server.request("OPTIONS", "/api/kernels", headers={**ask, "Origin": "https://evil.example.org"})[0] == 403
    with Kernel(server, headers={"Authorization": f"token {ONE}", "Origin": page}) as kernel:
        with kernel.client() as client:
            assert client.value("6 * 7") == "42"


def test_others_see_nothing(tokens):
    one, two = {"Authorization": f"token {ONE}"}, {"Authorization": f"token {TWO}"}
    with Kernel(tokens, headers=one) as kernel, Kernel(tokens, headers=two) as other:
        assert ids(tokens, one) == {kernel.id} and ids(tokens, two) == {other.id}
        for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart")):
            nobody = tokens.call(method, f"/api/kernels/{NOBODY[0]}{tail}", headers=two)
            answer = tokens.call(method, kernel.path + tail, headers=two)
            refusal(answer, 404, kernel.id)
            assert answer[1]["message"].replace(kernel.id, "") == nobody[1]["message"].replace(NOBODY[0], ""), "as if there were none"
        ghost = Kernel.__new__(Kernel)
        ghost.server, ghost.headers, ghost.path = tokens, two, kernel.path
        with Client(ghost) as client:
            assert client.status == 404
        assert kernel.run("6 * 7").value == "42"


# --- limits ----------------------------------------------------------------------------------------------------------


def test_too_many_of_a_tenant(serve):
    server = serve(max_boxes_per_tenant=2, tokens={"one": ONE, "two": TWO})
    one, two = {"Authorization": f"token {ONE}"}, {"Authorization": f"token {TWO}"}
    with Kernel(server, headers=one), Kernel(server, headers=one) as second:
        refusal(server.call("POST", "/api/kernels", headers=one), 403)
        with Kernel(server, headers=two):
            pass
        assert second.call("DELETE")[0] == 204
        until(lambda: server.call("GET", "/v1/boxes", headers=one)[1]["boxes"][1:] == [], "room for another")
        with Kernel(server, headers=one):
            refusal(server.call("POST", "/api/kernels", headers=one), 403)


def test_too_many_kernels(serve):
    server = serve(jupyter_max_kernels=2)
    status, box = server.call("POST", "/v1/boxes", {})
    assert status == 201
    with Kernel(server), Kernel(server):
        refusal(server.call("POST", "/api/kernels"), 403)
        refusal(server.call("POST", "/api/sessions", {"path": "a", "type": "notebook", "kernel": {"name": "python3"}}), 403)
        assert server.call("POST", "/v1/boxes", {})[0] == 201, "boxes are not counted here"
    with Kernel(server):
        pass


def test_the_variable_of_the_gateway_that_others_know(serve):
    server = serve(env={"KG_MAX_KERNELS": "1"})
    with Kernel(server):
        refusal(server.call("POST", "/api/kernels"), 403)


@pytest.mark.more
def test_idle_kernels_end(serve):
    """Those without a client and without a request; who is connected keeps his."""
    server = serve(jupyter_cull_idle="2s", **WARM)
    alone, watched, busy = Kernel(server), Kernel(server), Kernel(server)
    with busy.client() as client:
        client.begin("import time; time.sleep(6)")
    with watched.client() as client:
        until(lambda: alone.id not in ids(server), "nobody wants it")
        assert {watched.id, busy.id} <= ids(server)
        time.sleep(3)
        assert client.run("6 * 7").ok.value == "42"
    until(lambda: ids(server) == set(), "all of them are gone")


def test_too_many_of_all(serve):
    server = serve(max_boxes=2)
    with Kernel(server), Kernel(server):
        refusal(server.call("POST", "/api/kernels"), 403)
        assert len(ids(server)) == 2


@pytest.mark.slow
def test_many_come_and_go(server):
    before = ids(server)
    for _ in range(100):
        with Kernel(server) as kernel:
            assert kernel.id in ids(server)
    assert ids(server) == before
    until(lambda: server.call("GET", "/v1/boxes")[1]["boxes"] == [], "no box is left")


# --- sessions --------------------------------------------------------------------------------------------------------

SESSION_KEYS = {"id", "path", "name", "type", "kernel"}


def session(server, body, status=201, headers=None):
    got, given, data = server.request("POST", "/api/sessions", body, headers)
    assert got == status, (got, data)
    answer = json.loads(data)
    assert SESSION_KEYS <= set(answer) and answer["id"], answer
    check_model(answer["kernel"])
    if status == 201:
        assert given["Location"] == f"/api/sessions/{answer['id']}"
    return answer


def test_sessions(server):
    made = session(server, {"path": "a/x.ipynb", "name": "x.ipynb", "type": "notebook", "kernel": {"name": "python3"}})
    assert (made["path"], made["name"], made["type"]) == ("a/x.ipynb", "x.ipynb", "notebook")
    path, kernel = f"/api/sessions/{made['id']}", made["kernel"]["id"]
    assert kernel in ids(server)
    assert [s["id"] for s in server.call("GET", "/api/sessions")[1]] == [made["id"]]
    assert server.call("GET", path)[1]["path"] == "a/x.ipynb"
    status, answer = server.call("PATCH", path, {"path": "b/y.ipynb", "name": "y.ipynb", "type": "console"})
    assert status == 200 and (answer["path"], answer["name"], answer["type"], answer["kernel"]["id"]) == ("b/y.ipynb", "y.ipynb", "console", kernel)
    again = session(server, {"path": "b/y.ipynb", "type": "notebook", "kernel": {"name": "python3"}})
    assert (again["id"], again["kernel"]["id"]) == (made["id"], kernel), "one path, one session"
    assert server.call("DELETE", path)[0] == 204
    refusal(server.call("GET", path), 404, made["id"])
    refusal(server.call("DELETE", path), 404, made["id"])
    refusal(server.call("PATCH", path, {"path": "z"}), 404, made["id"])
    until(lambda: kernel not in ids(server), "its kernel ended with it")
    assert server.call("GET", "/api/sessions") == (200, [])


def test_a_session_of_an_old_notebook(server):
    made = session(server, {"notebook": {"path": "old.ipynb", "name": ""}, "kernel": {"name": "python3", "id": None}})
    assert made["path"] == "old.ipynb" and made["type"] == "notebook" and made["notebook"]["path"] == "old.ipynb"
    assert server.call("DELETE", f"/api/sessions/{made['id']}")[0] == 204


def test_a_session_with_a_kernel_that_is_there(server):
    with Kernel(server) as kernel:
        made = session(server, {"path": "k.ipynb", "name": "", "type": "notebook", "kernel": {"id": kernel.id}})
        assert made["kernel"]["id"] == kernel.id
        with Kernel(server) as other:
            status, answer = server.call("PATCH", f"/api/sessions/{made['id']}", {"kernel": {"id": other.id}})
            assert status == 200 and answer["kernel"]["id"] == other.id
            until(lambda: kernel.id not in ids(server), "the kernel that it had is ended", 10)
            refusal(server.call("PATCH", f"/api/sessions/{made['id']}", {"kernel": {"id": NOBODY[0]}}), 404)
            assert server.call("DELETE", f"/api/sessions/{made['id']}")[0] == 204


def test_a_session_gets_another_kernel(server):
    made = session(server, {"path": "k.ipynb", "type": "notebook", "kernel": {"name": "python3"}})
    status, answer = server.call("PATCH", f"/api/sessions/{made['id']}", {"kernel": {"name": "python"}})
    assert status == 200 and answer["kernel"]["id"] != made["kernel"]["id"] and answer["kernel"]["name"] == "python"
    until(lambda: made["kernel"]["id"] not in ids(server), "the kernel that it had is ended", 10)
    assert server.call("DELETE", f"/api/sessions/{made['id']}")[0] == 204
    until(lambda: answer["kernel"]["id"] not in ids(server), "and so is this one")


def test_a_session_ends_with_its_kernel(server):
    made = session(server, {"path": "k.ipynb", "type": "notebook", "kernel": {"name": "python3"}})
    assert server.call("DELETE", f"/api/kernels/{made['kernel']['id']}")[0] == 204
    until(lambda: server.call("GET", "/api/sessions") == (200, []), "no session without a kernel")
    refusal(server.call("GET", f"/api/sessions/{made['id']}"), 404, made["id"])


@pytest.mark.parametrize("body, status", [(b"{", 400), (b"[]", 400), (b"{}", 400), (b'{"path": "x", "type": "notebook", "kernel": {"name": "cobol"}}', 404),
                                          (b'{"path": "x", "type": "notebook", "kernel": {"id": "00000000-0000-4000-8000-000000000000"}}', 404)])
def test_what_is_no_session(server, body, status):
    before = ids(server)
    got, answer = server.call("POST", "/api/sessions", body)
    assert 400 <= got < 500 and got in (status, 400, 404, 501), (got, answer)
    refusal((got, answer), got)
    assert ids(server) == before and server.call("GET", "/api/sessions") == (200, [])


def test_a_session_that_has_no_room(server):
    """Long names and a large environment: it is made, or nothing of it is left."""
    before = ids(server)
    for size in (100, 300, 500, 600):
        body = {"path": "p" * size, "name": "n" * 120, "type": "notebook", "kernel": {"name": "python3", "env": {"KERNEL_A": "x" * 1000}}}
        status, answer = server.call("POST", "/api/sessions", body)
        if status == 201:
            assert server.call("DELETE", f"/api/sessions/{answer['id']}")[0] == 204
        else:
            refusal((status, answer), status)
        until(lambda: ids(server) == before, f"{status}: no kernel is left of it", 10)


def test_sessions_of_others(tokens):
    one, two = {"Authorization": f"token {ONE}"}, {"Authorization": f"token {TWO}"}
    body = {"path": "same.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    made, other = session(tokens, body, headers=one), session(tokens, body, headers=two)
    assert made["id"] != other["id"] and made["kernel"]["id"] != other["kernel"]["id"], "a path is a tenant's own"
    path = f"/api/sessions/{made['id']}"
    for method, sent in (("GET", None), ("PATCH", {"path": "stolen"}), ("DELETE", None)):
        refusal(tokens.call(method, path, sent, two), 404, made["id"])
        assert tokens.call(method, path, sent)[0] == 401
    assert [s["id"] for s in tokens.call("GET", "/api/sessions", headers=two)[1]] == [other["id"]]
    refusal(tokens.call("POST", "/api/sessions", {"path": "x", "type": "notebook", "kernel": {"id": made["kernel"]["id"]}}, two), 404)
    for name, headers in ((made["id"], one), (other["id"], two)):
        assert tokens.call("DELETE", f"/api/sessions/{name}", headers=headers)[0] == 204


@pytest.mark.more
def test_sessions_survive_the_gate(serve):
    server = serve(**WARM)
    made = session(server, {"path": "a/ä.ipynb", "name": "ä", "type": "notebook", "kernel": {"name": "python3"}})
    server.next_gate(server.kill_gate())
    (kept,) = server.call("GET", "/api/sessions")[1]
    assert [kept[key] for key in ("id", "path", "name", "type")] == [made[key] for key in ("id", "path", "name", "type")]
    assert kept["kernel"]["id"] == made["kernel"]["id"]
    assert server.call("DELETE", f"/api/sessions/{made['id']}")[0] == 204


def test_session_limit(serve):
    server = serve(max_boxes=1)
    body = {"path": "a", "type": "notebook", "kernel": {"name": "python3"}}
    session(server, body)
    refusal(server.call("POST", "/api/sessions", {**body, "path": "b"}), 403)


# --- what else JupyterLab asks for -------------------------------------------------------------------------------------


def test_status(server):
    with Kernel(server) as kernel, kernel.client():
        status, answer = server.call("GET", "/api/status")
        assert status == 200 and answer["kernels"] == len(ids(server)) and answer["connections"] == 1
        date_of(answer["started"]), date_of(answer["last_activity"])


def test_me(server, tokens):
    status, answer = server.call("GET", "/api/me")
    assert status == 200 and isinstance(answer["identity"]["username"], str) and isinstance(answer["permissions"], dict)
    assert {"username", "name", "display_name", "initials", "avatar_url", "color"} <= set(answer["identity"])
    assert tokens.call("GET", "/api/me")[0] == 401


def test_swagger(server):
    status, given, data = server.request("GET", "/api/swagger.json")
    assert status == 200 and given["Content-Type"].startswith("application/json")
    described = json.loads(data)
    assert described["swagger"] == "2.0" and described["info"]["title"] and "/kernels" in str(list(described["paths"]))
    status, _, data = server.request("GET", "/api/swagger.yaml")
    assert status == 200 and yaml.safe_load(data)["paths"].keys() == described["paths"].keys()


# --- kernels of a box --------------------------------------------------------------------------------------------------


def test_kernels_of_a_box(server):
    status, box = server.call("POST", "/v1/boxes", {"files": [{"path": "f", "content": "of the box"}]})
    assert status == 201
    base = f"/v1/boxes/{box['id']}/jupyter"
    assert server.call("GET", f"{base}/api")[0] == 200 and server.call("GET", f"{base}/api/kernelspecs")[0] == 200
    with Kernel(server, base=base) as one, Kernel(server, base=base) as two:
        assert one.id != two.id
        assert one.run("x = 1; open('f').read()").value == "'of the box'"
        assert two.run("'x' in globals()").value == "False"
        assert {k["id"] for k in server.call("GET", f"{base}/api/kernels")[1]} >= {one.id, two.id}
    assert server.call("GET", f"/v1/boxes/{box['id']}")[0] == 200, "the box stays"
    assert server.call("DELETE", f"/v1/boxes/{box['id']}")[0] == 204
    assert server.call("GET", f"{base}/api/kernels")[0] in (404, 410)


def in_box(server, base):
    status, model = server.call("POST", f"{base}/api/kernels")
    assert status == 201, (status, model)
    return model["id"]


def test_a_box_ends_with_its_last_kernel(server):
    with Kernel(server) as kernel:
        base = f"/v1/boxes/{kernel.box}/jupyter"
        second = in_box(server, base)
        assert ids(server) >= {kernel.id, second}
        assert server.call("DELETE", f"{base}/api/kernels/{second}")[0] == 204
        assert second not in ids(server) and kernel.id in ids(server), "answered when it was done"
        assert kernel.run("6 * 7").value == "42"
        third = in_box(server, base)
        assert third != second, "another kernel, another id"
        assert server.call("DELETE", f"/api/kernels/{kernel.id}")[0] == 204
        assert third in ids(server) and kernel.id not in ids(server)
        assert server.call("DELETE", f"/api/kernels/{third}")[0] == 204
        assert kernel.box not in kernel.boxes(), "the box has ended when the answer comes"


def test_a_kernel_that_was_deleted_is_not_revived(server):
    status, box = server.call("POST", "/v1/boxes", {})
    assert status == 201
    base = f"/v1/boxes/{box['id']}/jupyter"
    kernel = Kernel(server, base=base)
    with kernel.client() as client, concurrent.futures.ThreadPoolExecutor(1) as pool:
        client.begin("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(1000)")
        deleted = pool.submit(kernel.call, "DELETE")
        with contextlib.suppress(Closed, ConnectionError):
            for _ in range(20):
                client.say("shutdown_request", {"restart": True}, "control")
        assert deleted.result()[0] == 204
    assert kernel.id not in ids(server)
    assert server.call("DELETE", f"/v1/boxes/{box['id']}")[0] == 204


def test_a_session_stays_in_its_box(server):
    status, box = server.call("POST", "/v1/boxes", {})
    assert status == 201
    with Kernel(server) as kernel:
        body = {"path": "x", "type": "notebook", "kernel": {"id": kernel.id}}
        refusal(server.call("POST", f"/v1/boxes/{box['id']}/jupyter/api/sessions", body), 404, kernel.id)
    assert server.call("DELETE", f"/v1/boxes/{box['id']}")[0] == 204
