# SPDX-License-Identifier: Apache-2.0
"""Everything but `execute`."""
import base64

import pytest

from fake_init import need, plain

pytest_plugins = ["kernels"]


def test_completion(kernel):
    kernel.run("import os\nvery_long_name = {'key one': 1}\nclass A:\n    attribute = 1\na = A()")
    reply = kernel.ask("complete", {"code": "very_lo", "cursor_pos": 7})
    assert reply["matches"] == ["very_long_name"] and (reply["cursor_start"], reply["cursor_end"]) == (0, 7)
    assert reply["status"] == "ok"
    assert any("attribute" in m for m in kernel.ask("complete", {"code": "a.att + 1", "cursor_pos": 5})["matches"])
    assert any("getcwd" in m for m in kernel.ask("complete", {"code": "os.getc", "cursor_pos": 7})["matches"])
    assert "%timeit" in kernel.ask("complete", {"code": "%timei", "cursor_pos": 6})["matches"]
    assert any("key one" in m for m in kernel.ask("complete", {"code": "very_long_name['k", "cursor_pos": 17})["matches"])
    assert kernel.ask("complete", {"code": "nothing_like_it", "cursor_pos": 15})["matches"] == []
    # Positions are in characters, not in bytes or UTF-16.
    reply = kernel.ask("complete", {"code": "'😀ü'; very_lo", "cursor_pos": 13})
    assert (reply["cursor_start"], reply["cursor_end"]) == (6, 13)
    for content in ({}, {"code": "x", "cursor_pos": 99}, {"code": "x", "cursor_pos": -1}, {"code": None}, {"code": "a.\ud800"}):
        assert kernel.ask("complete", content)["status"] == "ok"


def test_completion_does_not_count(kernel):
    kernel.ask("complete", {"code": "x", "cursor_pos": 1})
    assert kernel.run("1").reply["execution_count"] == 1


def test_inspection(kernel):
    kernel.run("def f(a, b=2):\n    'The doc.'\n    return a")
    reply = kernel.ask("inspect", {"code": "f(1)", "cursor_pos": 1, "detail_level": 0})
    assert reply["found"] and "The doc." in reply["data"]["text/plain"]
    source = kernel.ask("inspect", {"code": "f(1)", "cursor_pos": 3, "detail_level": 1})["data"]["text/plain"]
    assert "return a" in plain([source])
    assert kernel.ask("inspect", {"code": "nope", "cursor_pos": 4})["found"] is False
    assert kernel.ask("inspect", {"code": "", "cursor_pos": 0})["found"] is False


def test_is_complete(kernel):
    for code, status, indent in (("x = 1", "complete", None), ("for i in x:", "incomplete", "    "), ("x = (", "incomplete", ""),
                                 ("x = = 1", "invalid", None), ("%%bash\necho", "incomplete", ""), ("", "complete", None)):
        reply = kernel.ask("is_complete", {"code": code})
        assert reply["status"] == status, code
        if status == "incomplete" and indent:
            assert reply["indent"] == indent


def test_history(kernel):
    for code in ("a = 1", "a", "%pwd", "a"):
        kernel.run(code)
    kernel.run("not kept", store_history=False)

    def ask(**content):
        return kernel.ask("history", {"output": False, "raw": True, **content})["history"]

    assert ask(hist_access_type="tail", n=2) == [[0, 3, "%pwd"], [0, 4, "a"]]
    assert ask(hist_access_type="range", session=0, start=1, stop=3) == [[0, 1, "a = 1"], [0, 2, "a"]]
    assert ask(hist_access_type="range", session=0, start=-1)[0][1] == 4
    assert ask(hist_access_type="range", session=7, start=1) == []
    assert ask(hist_access_type="search", pattern="a*", n=10) == [[0, 1, "a = 1"], [0, 2, "a"], [0, 4, "a"]]
    assert ask(hist_access_type="search", pattern="a*", unique=True) == [[0, 1, "a = 1"], [0, 4, "a"]]
    assert ask(hist_access_type="tail", n=0) == []
    assert ask(hist_access_type="tail", n=2, raw=False)[0][2] == "get_ipython().run_line_magic('pwd', '')"
    assert ask(hist_access_type="range", start=2, stop=3, output=True) == [[0, 2, ["a", "1"]]]
    assert "a = 1" in kernel.run("%history").out


def test_history_can_be_refused(boot):
    kernel = boot(history=False)
    kernel.run("a = 1")
    assert kernel.ask("history", {"hist_access_type": "tail", "n": 5, "raw": True, "output": False})["history"] == []
    assert kernel.run("In[1]").value == "'a = 1'"


def test_kernel_info(kernel):
    reply = kernel.ask("kernel_info")
    assert reply["status"] == "ok" and reply["implementation"] == "ipython" and reply["protocol_version"] == "5.3"
    assert reply["language_info"] == kernel.ready["language_info"] and reply["banner"] == kernel.ready["banner"]


def test_comms_that_the_kernel_opens(kernel):
    need("comm")
    result = kernel.run("import comm\nc = comm.create_comm(target_name='t', data={'a': 1}, metadata={'m': 2}, comm_id='id1')\n"
                        "c.send({'b': 2}, buffers=[b'\\x00\\xff', memoryview(b'xy')])\ngot = []\nc.on_msg(got.append)")
    assert [m["type"] for m in result.messages] == ["comm_open", "comm_msg"]
    opened, sent = result.messages
    assert opened["content"] == {"comm_id": "id1", "data": {"a": 1}, "target_name": "t"} and opened["metadata"] == {"m": 2}
    assert sent["content"] == {"comm_id": "id1", "data": {"b": 2}}
    assert [base64.b64decode(b) for b in sent["buffers"]] == [b"\x00\xff", b"xy"]
    assert kernel.ask("comm_info", {"target_name": "t"}) == {"status": "ok", "comms": {"id1": {"target_name": "t"}}}
    assert kernel.ask("comm_info", {"target_name": "other"})["comms"] == {}
    assert kernel.ask("comm_msg", {"comm_id": "id1", "data": {"hello": 1}}, buffers=["AP8="], metadata={"x": 1}) == {"status": "ok"}
    assert kernel.run("m = got[0]; m['content']['data'], [bytes(b) for b in m['buffers']], m['metadata']").value == \
        "({'hello': 1}, [b'\\x00\\xff'], {'x': 1})"
    assert [m["type"] for m in kernel.run("c.close({'bye': 1})").messages] == ["comm_close"]
    assert kernel.ask("comm_info", {})["comms"] == {}


def test_comms_that_the_client_opens(kernel):
    need("comm")
    kernel.run("import comm\ngot = []\ndef target(c, msg):\n    got.append(msg['content']['data'])\n    print('opened')\n"
               "    c.on_msg(lambda m: (print('msg'), c.send({'echo': m['content']['data']})))\n    c.on_close(lambda m: got.append('closed'))\n"
               "comm.get_comm_manager().register_target('here', target)")
    cell = kernel.request("comm_open", {"comm_id": "c1", "target_name": "here", "data": {"x": 1}})
    assert kernel.finish(cell).out == "opened\n"
    result = kernel.finish(kernel.request("comm_msg", {"comm_id": "c1", "data": 5}))
    assert result.out == "msg\n" and result.contents("comm_msg") == [{"comm_id": "c1", "data": {"echo": 5}}]
    kernel.ask("comm_close", {"comm_id": "c1", "data": {}})
    assert kernel.run("got").value == "[{'x': 1}, 'closed']"
    result = kernel.finish(kernel.request("comm_open", {"comm_id": "c2", "target_name": "nowhere", "data": {}}))
    assert [m["type"] for m in result.messages] == ["comm_close"]
    assert kernel.ask("comm_msg", {"comm_id": "nobody", "data": {}})["status"] == "ok"
    assert kernel.ask("comm_msg", {"data": {}})["status"] == "error"


def test_ipywidgets(kernel):
    need("ipywidgets")
    result = kernel.run("import ipywidgets\ns = ipywidgets.IntSlider(3)\ndisplay(s)\nseen = []\ns.observe(lambda c: seen.append(c['new']), 'value')")
    assert result.reply["status"] == "ok", result.reply
    assert [m["type"] for m in result.messages].count("comm_open") == 3
    view = result.contents("display_data")[0]["data"]["application/vnd.jupyter.widget-view+json"]
    model = view["model_id"]
    opened = [m for m in result.messages if m["type"] == "comm_open" and m["content"]["comm_id"] == model][0]
    data, update = opened["content"]["data"], {"method": "update", "state": {"value": 9}, "buffer_paths": []}
    if kernel.run("ipywidgets.version_info[0] < 7").value == "True":  # that of Debian 12, with ipykernel's comms
        update = {"method": "backbone", "sync_data": {"value": 9}}
    else:
        data = data["state"]
        assert "version" in opened["metadata"]
    assert data["value"] == 3
    result = kernel.finish(kernel.request("comm_msg", {"comm_id": model, "data": update}))
    assert result.reply["status"] == "ok"
    assert kernel.run("s.value, seen").value == "(9, [9])"
    assert kernel.run("s.value = 4").contents("comm_msg")[0]["data"]["state"] == {"value": 4}
    assert kernel.ask("comm_info", {})["comms"][model]["target_name"].startswith("jupyter.widget")
    assert [m["type"] for m in kernel.run("s.close()").messages].count("comm_close") == 1


@pytest.mark.parametrize("kind", ["complete", "inspect", "history", "is_complete", "comm_info", "comm_open", "comm_close", "kernel_info"])
def test_requests_without_content(kernel, kind):
    assert kernel.ask(kind, {})["status"] in ("ok", "error", "complete")
    assert kernel.run("1").value == "1"
