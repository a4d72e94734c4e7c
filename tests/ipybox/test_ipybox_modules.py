# SPDX-License-Identifier: Apache-2.0
"""Sources of modules: found where Python would find them, and never run."""
import json
import urllib.parse

import pytest

from boxes import Box
from server import needs_root, shared, until

pytestmark = needs_root
server = shared()


@pytest.fixture(scope="module")
def running(server):
    with Box(server) as box:
        yield box


@pytest.fixture
def box(running):
    running.shell("chmod -R u+rwx /app; find /app -mindepth 1 -delete; rm -rf /home/box/.local")
    return running


def sources(box, *names):
    status, _, body = box.resource.request("GET", "/modules?" + urllib.parse.urlencode([("q", name) for name in names]))
    return status, json.loads(body)


def missing(name):
    return 404, {"detail": f"Module {name} not found"}


def test_of_the_standard_library(box):
    status, found = sources(box, "json", "os.path", "json.decoder", "xml.etree.ElementTree")
    assert status == 404 and found["detail"] == "Module os.path not found"  # a name that only an import makes
    status, found = sources(box, "json", "json.decoder", "xml.etree.ElementTree")
    assert status == 200 and set(found) == {"json", "json.decoder", "xml.etree.ElementTree"}
    assert "def dumps(" in found["json"] and "class JSONDecoder" in found["json.decoder"]
    assert found["json"] == box.shell("cat /usr/lib/python3*/json/__init__.py")


def test_of_packages(box):
    status, found = sources(box, "numpy", "IPython.core.magic")
    assert status == 200 and "NumPy" in found["numpy"] and "class Magics" in found["IPython.core.magic"]


def test_of_the_box(box):
    box.shell("mkdir -p pkg/sub names/inner && echo 'a = 1' > mine.py && echo '# pkg' > pkg/__init__.py && echo 'b = 2' > pkg/sub/__init__.py "
              "&& printf '# -*- coding: latin-1 -*-\\nx = \"\\xe9\"\\n' > latin.py && echo 'c = 3' > names/inner/deep.py && touch empty.py "
              "&& echo 'd = 4' > my-mod.py && echo 'e = 5' > json.py")
    status, found = sources(box, "mine", "pkg", "pkg.sub", "latin", "names.inner.deep", "empty", "my-mod")
    assert status == 200, found
    assert found == {"mine": "a = 1\n", "pkg": "# pkg\n", "pkg.sub": "b = 2\n", "latin": '# -*- coding: latin-1 -*-\nx = "\xe9"\n', "names.inner.deep": "c = 3\n",
                     "empty": "", "my-mod": "d = 4\n"}
    assert sources(box, "json")[1]["json"] == "e = 5\n", "what is in /app comes first, as for a program that begins there"


def test_installed_by_the_user(box):
    box.shell("d=$(python3 -m site --user-site) && mkdir -p $d && echo 'u = 1' > $d/of_user.py")
    assert sources(box, "of_user") == (200, {"of_user": "u = 1\n"})


def test_without_source(box):
    box.shell("python3 -c \"import py_compile; open('s.py','w').write('x=1'); py_compile.compile('s.py', 'only.pyc')\"; rm s.py")
    status, found = sources(box, "sys", "math", "_ssl", "only")
    assert status == 200 and found == {"sys": "", "math": "", "_ssl": "", "only": ""}, found


def test_all_or_nothing(box):
    assert sources(box, "json", "no_such_module") == missing("no_such_module")
    assert sources(box, "no_such", "json") == missing("no_such")
    assert sources(box, "json.nothing") == missing("json.nothing")
    assert sources(box, "json.decoder.JSONDecoder") == missing("json.decoder.JSONDecoder")


def test_nothing_is_run(box):
    """Neither a module nor its packages, nor what Python runs by itself when it starts."""
    trap = "open('/app/RAN-' + __name__, 'w').close()"
    box.shell(f"mkdir -p trap/sub ~/.local && echo \"{trap}\" | tee trap/__init__.py trap/sub/__init__.py trap/sub/leaf.py alone.py sitecustomize.py "
              "usercustomize.py importlib.py os.py site.py > /dev/null; d=$(python3 -I -c 'import site; print(site.getusersitepackages())'); mkdir -p $d; "
              "cp sitecustomize.py usercustomize.py $d; echo 'import os; os.mkdir(\"/app/RAN-pth\")' > $d/x.pth; rm -rf /app/RAN*")
    status, found = sources(box, "trap", "trap.sub", "trap.sub.leaf", "alone", "sitecustomize", "os")
    assert status == 200 and all(text.startswith("open('/app/RAN-'") for text in found.values()), found
    assert box.shell("ls /app | grep RAN || true") == ""


HOSTILE = ["", ".", "..", ".json", "json.", "json..decoder", "/etc/passwd", "../x", "a/b", "json/decoder", "-c", "--help", "-", "x" * 3000, "a.b." * 500 + "c",
           "\u20ac", "os;import os", "$(touch /app/x)", "\"", "'", "json\n", "__import__('os')", "%s%n", "x\\u0000"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names(box, name):
    box.shell("touch a.py")
    status, found = sources(box, name)
    assert status in (400, 404), found
    if status == 404:
        assert found == {"detail": f"Module {name} not found"[:1023]}
    assert box.shell("ls -A") == "a.py\n"


def test_no_name(box):
    status, _, body = box.resource.request("GET", "/modules")
    assert status == 422
    assert json.loads(body) == {"detail": [{"type": "missing", "loc": ["query", "q"], "msg": "Field required", "input": None}]}


def test_the_same_twice(box):
    assert set(sources(box, "json", "json")[1]) == {"json"}


def test_what_is_no_file(box):
    box.shell("mkfifo pipe.py; ln -s /dev/zero zero.py; ln -s loop.py loop.py; mkdir dir.py; head -c 9000000 /dev/zero | tr '\\0' '#' > large.py; "
              "printf '\\xff\\xfe' > bytes.py; touch locked.py; chmod 0 locked.py")
    for name in ("pipe", "zero", "loop", "dir"):
        assert sources(box, name)[0] == 404, name
    assert sources(box, "large")[0] == 413
    assert sources(box, "bytes") == (200, {"bytes": ""}) and sources(box, "locked") == (200, {"locked": ""})


def test_a_box_that_lies(server):
    """Whatever runs beside the program that looks: the answer is sound, or there is none."""
    with Box(server) as box:
        box.shell("nohup python3 -c \"import os, signal\nwhile True:\n  for p in os.listdir('/proc'):\n    try:\n      if p.isdigit() and b'get_importer' in "
                  "open(f'/proc/{p}/cmdline', 'rb').read() and int(p) != os.getpid(): os.kill(int(p), signal.SIGKILL)\n    except OSError: pass\" > /dev/null 2>&1 &")
        for _ in range(5):
            status, answer = sources(box, "json")
            assert status in (200, 503), answer


def test_more_than_may_be_looked_for(box):
    assert box.resource.request("GET", "/modules?" + "&".join(f"q=m{i}" for i in range(33)))[0] == 414


def test_a_client_that_leaves(server, box):
    """Its program goes with it."""
    for _ in range(5):
        with box.resource.wire() as wire:
            wire.send(b"GET /modules?q=json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: sources(box, "json")[0] == 200, "the box may be asked again")  # two at once may be; the server has yet to see who left
    until(lambda: not server.running("get_importer"), "no program looks for modules any more")


def test_only_here_is_a_parameter_taken_twice(server, box):
    assert box.resource.request("GET", "/files/x?a=1&a=2")[0] == 400
    assert server.request("GET", "/v1/boxes?limit=1&limit=2")[0] == 400
