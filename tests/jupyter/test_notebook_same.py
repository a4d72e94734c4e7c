# SPDX-License-Identifier: Apache-2.0
"""A notebook is run twice by nbclient: with ipykernel, and with a kernel of ours. What is in it then must be the same, cell by cell."""
import base64
import importlib.util
import io
import json
import pathlib
import re
import subprocess

import pytest

from jup import Kernel
from server import WARM, environment, needs_root, shared

pytestmark = [needs_root, pytest.mark.more]
server = shared(**WARM)

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
RUN_S = 250

# name: code. Those whose name ends with an exclamation mark raise.
CELLS = {
    "print and value": "print('hello')\n6 * 7",
    "nothing": "x = 1",
    "no value": "6 * 7;",
    "characters": "print('ä€𝄞', '\\x1b[31mred\\x1b[0m', 'a\\rb', end='')",
    "last results": "_, __, Out[1], In[1]",
    "plot": "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()\nprint('after')",
    "plot at the end": "fig, axes = plt.subplots(figsize=(2, 1))\naxes.bar([1, 2], [3, 4]);",
    "two plots": "for i in range(2):\n    plt.figure(figsize=(1 + i, 1))\n    plt.plot([i, 1])\n    plt.show()\n    print('shown', i)",
    "figure as value": "fig",
    "svg": "%config InlineBackend.figure_formats = ['svg']\nplt.plot([1]);",
    "png again": "%config InlineBackend.figure_formats = ['png']",
    "division!": "print('before')\n1 / 0",
    "nested!": "def f(n):\n    if n == 0:\n        raise ValueError('deep ä')\n    return f(n - 1)\nf(3)",
    "syntax!": "x = (1,\ny = 2",
    "indentation!": "if True:\nprint(1)",
    "chained!": "try:\n    {}['k']\nexcept KeyError as e:\n    raise TypeError('no') from e",
    "name!": "no_such_name",
    "own class!": "class Mine(Exception):\n    pass\nraise Mine(1, 'two')",
    "exit!": "import sys\nsys.exit(3)",
    "input!": "input('who? ')",
    "import!": "import no_such_module_at_all",
    "html": "from IPython.display import HTML, Latex, Markdown, JSON, SVG, Javascript, Image, display\nHTML('<b>bold</b>')",
    "all kinds": "display(HTML('<i>x</i>'), Latex('$x^2$'), Markdown('**m**'), JSON({'a': [1, {'b': None}]}), Javascript('1'), "
                 "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))",
    "raw": "display({'text/plain': 'p', 'application/vnd.x+json': {'k': [1, 2]}}, metadata={'text/plain': {'m': 1}}, raw=True)",
    "picture": "from PIL import Image as Picture\nPicture.new('RGB', (30, 20), 'red')",
    "picture from bytes": "b = __import__('io').BytesIO()\nPicture.new('L', (5, 4)).save(b, 'PNG')\nImage(data=b.getvalue(), width=50)",
    "display id": "h = display('first', display_id='one')\nprint('between')\nh.update('second')",
    "updated later": "from IPython.display import update_display\nupdate_display('third', display_id='one')\nprint('updated')",
    "streams": "import sys\nfor i in range(5):\n    print('out', i, flush=True)\n    print('err', i, file=sys.stderr, flush=True)",
    "streams and displays": "for i in range(5):\n    print('out', i)\n    display(i)\n    print('err', i, file=sys.stderr)\n    display(-i)",
    "without line ends": "for i in range(3):\n    print(i, end=' ')\ndisplay('x')\nprint('y', end='')",
    "progress": "for i in range(101):\n    print(f'\\r{i}%', end='', flush=True)",
    "clear": "from IPython.display import clear_output\nprint(1)\nclear_output()\nprint(2)",
    "clear and wait": "for i in range(5):\n    clear_output(wait=True)\n    print(i)\n    display(i)",
    "clear at the end": "print('gone')\nclear_output()",
    "clear and wait for nothing": "print('stays')\nclear_output(wait=True)",
    "bash": "%%bash\nfor i in 1 2 3; do echo $i; done\necho bad >&2",
    "bash that fails!": "%%bash\necho out\nexit 3",
    "shell": "!echo one; echo two\ngot = !printf 'a\\nb'\nprint(got)",
    "captured": "%%capture c\nprint('caught')\ndisplay(5)",
    "shown again": "print(c.stdout, end='')\nc.show()",
    "system": "import subprocess\nprint(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout)",
    "await": "import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')\nawait asyncio.gather(*(asyncio.sleep(0, i) for i in range(3)))",
    "await that fails!": "async def g():\n    await asyncio.sleep(0)\n    raise RuntimeError('in a coroutine')\nawait g()",
    "thread": "import threading\nt = threading.Thread(target=lambda: print('from a thread'))\nt.start()\nt.join()",
    "table": "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'ä']})\ndf",
    "series": "print(df.a)\ndf.a",
    "array": "import numpy as np\nnp.arange(2000).reshape(50, 40)",
    "long": "list(range(3000))",
    "dictionary": "{str(i): {'n': i, 'list': list(range(i))} for i in range(30)}",
    "rich object": "class Rich:\n    def __repr__(self): return 'plain'\n    def _repr_html_(self): return '<u>rich</u>'\n"
                   "    def _repr_mimebundle_(self, **kw): return {'text/x-own': 'bundle'}\nRich()",
    "object with metadata": "class Meta:\n    def _repr_html_(self): return '<u>m</u>', {'isolated': True}\n    def __repr__(self): return 'meta'\nMeta()",
    "object that displays itself": "class Shows:\n    def _ipython_display_(self): print('by itself')\nShows()",
    "object that cannot be shown!": "class Bad:\n    def __repr__(self): raise ValueError('no repr')\nBad()",
    "object that is half shown": "class Half:\n    def __repr__(self): return 'half'\n    def _repr_html_(self): raise ValueError('no html')\nHalf()",
    "warning": "import warnings\nwarnings.warn('careful')",
    "logging": "import logging\nlogging.warning('logged')",
    "help": "len?",
    "magics": "%who_ls\n%precision 3\n3.14159",
    "env": "%env GLOVEBOX_X=1\nimport os\nprint(os.environ['GLOVEBOX_X'])",
    "writefile": "%%writefile written.txt\ncontent",
    "read": "print(open('written.txt').read())",
    "run": "open('s.py', 'w').write('print(__name__)\\ny = 5')\n%run s.py\ny",
    "set next input": "%recall 1",
    "dunder": "__name__, type(get_ipython()).__name__, sys.argv[0:0]",
    "annotations": "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1)",
    "pickle": "import pickle\npickle.loads(pickle.dumps(P(2)))",
    "inspect": "import inspect\nprint(inspect.getsource(f))",
    "semicolon in text": "'a;'",
    "comment behind": "6 * 7  # comment",
    "future": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as e:\n    r = list(e.map(lambda n: n * n, range(4)))\nr",
}

# Where ours says it in words of its own, or runs a child another way: what is raised and printed is the same, its text is not.
OWN_WORDS = {"input!", "bash that fails!"}
# A child of the reference has a terminal, which ends lines its own way.
TERMINAL = {"shell"}

WIDGETS = ["import ipywidgets\ns = ipywidgets.IntSlider(value=3, description='ä')\ns", "s.value = 7\nprint(s.value)"]


def notebook(cells):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "cells": [{"cell_type": "code", "id": f"c{i}", "execution_count": None, "outputs": [], "source": code,
                       "metadata": {"tags": ["raises-exception"]} if name.endswith("!") else {}} for i, (name, code) in enumerate(cells.items())]}


def executed(folder, cells, gateway=None):
    """The notebook after nbclient ran it."""
    for name in ("nbclient", "nbformat", "ipykernel", "jupyter_server"):
        if not importlib.util.find_spec(name):
            pytest.skip(f"no module {name}: Debian's package is not installed")
    folder.mkdir()
    (folder / "in.ipynb").write_text(json.dumps(notebook(cells)))
    home = str(folder)
    env = {"HOME": home, "IPYTHONDIR": home, "JUPYTER_RUNTIME_DIR": f"{home}/run", "JUPYTER_CONFIG_DIR": f"{home}/config", "JUPYTER_NO_CONFIG": "1", "TMPDIR": home}
    words = [PYTHON, "-B", HERE / "run_notebook.py", "in.ipynb", "out.ipynb", *([gateway] if gateway else [])]
    try:
        done = subprocess.run(list(map(str, words)), cwd=folder, env=environment(env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=RUN_S, check=False)
    except subprocess.TimeoutExpired as e:
        pytest.fail(f"no end after {RUN_S} s: {e.stderr!r}")
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "out.ipynb").read_text())


def joined(value):
    """nbformat cuts long texts into lines."""
    return "".join(value) if isinstance(value, list) and all(isinstance(one, str) for one in value) else value


def plain(text):
    """Without what differs from one run to the next: colours, addresses, times, names of temporary files, random ids."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0x", text)
    text = re.sub(r"(/\S*/ipykernel_\d+/)?\b\d+\.py\b|<ipython-input-[^>]*>", "FILE", text)
    text = re.sub(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\d+(\.\d+)?(?= ?(ns|µs|us|ms|s)\b)", "N", text)
    return around(text) if "Traceback" in text else text


def around(text):
    """A traceback without the lines around those that are pointed at: which ones IPython shows is not the same twice."""
    lines = [line for line in text.split("\n") if not re.match(r" +\d+( |$)", line)]
    return "\n".join(re.sub(r"^(-+> \d+) +", r"\1 ", line) for line in lines)


def picture(text):
    from PIL import Image
    return "PNG", Image.open(io.BytesIO(base64.b64decode(text))).size


def value(mime, data):
    data = joined(data)
    if mime == "image/png":
        return picture(data)
    if mime == "image/svg+xml":
        return data.count("<path") if "matplotlib" in data else data.strip()
    return plain(data if isinstance(data, str) else json.dumps(data, sort_keys=True))


def seen(outputs):
    """Outputs as they are compared: texts of a stream in a row are one."""
    found = []
    for one in outputs:
        kind = one["output_type"]
        if kind == "stream":
            text = plain(joined(one["text"]))
            if found and found[-1][:2] == ("stream", one["name"]):
                found[-1] = ("stream", one["name"], found[-1][2] + text)
            else:
                found.append(("stream", one["name"], text))
        elif kind == "error":
            found.append(("error", one["ename"], plain(one["evalue"]), plain("\n".join(one["traceback"])).strip().split("\n")))
        else:
            data = {mime: value(mime, data) for mime, data in one["data"].items()}
            found.append((kind, data, one["metadata"], one.get("execution_count")))
    return found


@pytest.fixture(scope="module")
def both(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    reference = executed(folder / "ipykernel", CELLS)
    ours = executed(folder / "ours", CELLS, f"http://{server.authority}")
    return {name: pair for name, pair in zip(CELLS, zip(reference["cells"], ours["cells"]))}


@pytest.mark.parametrize("name", CELLS)
def test_cell(both, name):
    reference, ours = both[name]
    want, got = seen(reference["outputs"]), seen(ours["outputs"])
    if name == "streams":  # two pipes: what was written to one is in order, and nothing is lost
        want, got = ({kind: "".join(text for _, one, text in found if one == kind) for kind in ("stdout", "stderr")} for found in (want, got))
    if name in OWN_WORDS:
        want, got = ([one[:2] if one[0] == "error" else one for one in found] for found in (want, got))
    if name in TERMINAL:
        want = [(*one[:2], one[2].replace("\r\n", "\n")) for one in want]
    assert got == want
    assert ours["execution_count"] == reference["execution_count"]
    if name.endswith("!"):
        assert [one for one in want if one[0] == "error"], "the reference raises as well"


def widget_messages(run):
    """What is told of widgets when these cells are run, by type."""
    found = []
    for code in WIDGETS:
        for kind, content in run(code):
            if kind.startswith("comm_"):
                found.append((kind, content.get("target_name"), sorted(content["data"])))
            elif kind == "display_data" or kind == "execute_result":
                found.append((kind, sorted(content["data"])))
    return found


@pytest.fixture
def ipykernel(tmp_path):
    """run(code): (type, content) of each message of a cell of ipykernel's."""
    manager = pytest.importorskip("jupyter_client.manager", reason="Debian's python3-jupyter-client is not installed")
    env = environment({"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)})
    kernel = manager.KernelManager(kernel_name="python3", connection_file=str(tmp_path / "connection.json"))
    kernel.kernel_spec.argv[0] = PYTHON
    kernel.start_kernel(env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = kernel.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)

    def run(code):
        found = []
        client.execute_interactive(code, timeout=60, output_hook=lambda m: found.append((m["msg_type"], m["content"])))
        return found

    yield run
    client.stop_channels()
    kernel.shutdown_kernel(now=True)


def test_widgets(server, ipykernel):
    if not importlib.util.find_spec("ipywidgets"):
        pytest.skip("no module ipywidgets: Debian's package is not installed")
    with Kernel(server) as kernel, kernel.client() as client:
        ours = widget_messages(lambda code: [(m.type, m.content) for m in client.run(code).ok.all])
    reference = widget_messages(ipykernel)
    assert [one[0] for one in reference].count("comm_open") > 0
    assert ours == reference
