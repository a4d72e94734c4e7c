# SPDX-License-Identifier: Apache-2.0
"""Everything that is not text."""
import base64

import pytest

from fake_init import need, png_size

pytest_plugins = ["kernels"]

PIXEL = ("import base64; png = base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
         "AABJRU5ErkJggg==')")


def shown(result, n=0):
    return result.contents("display_data")[n]["data"]


def test_every_mime_type(kernel):
    kernel.run(PIXEL + "\nfrom IPython.display import *")
    assert shown(kernel.run("display(HTML('<b>x</b>'))"))["text/html"] == "<b>x</b>"
    assert shown(kernel.run("display(Markdown('*x*'))"))["text/markdown"] == "*x*"
    assert shown(kernel.run("display(Latex('$x$'))"))["text/latex"] == "$x$"
    assert shown(kernel.run("display(SVG('<svg/>'))"))["image/svg+xml"] == "<svg/>"
    assert shown(kernel.run("display(JSON({'a': [1, None]}))"))["application/json"] == {"a": [1, None]}
    assert shown(kernel.run("display(Javascript('1'))"))["application/javascript"] == "1"
    image = shown(kernel.run("display(Image(png))"))
    assert png_size(image["image/png"].strip()) == (1, 1)
    raw = "display({'image/jpeg': b'\\xff\\xd8', 'application/vnd.x+json': {'k': 1}, 'text/plain': 'p'}, raw=True)"
    assert shown(kernel.run(raw)) == {"image/jpeg": base64.b64encode(b"\xff\xd8").decode(), "application/vnd.x+json": {"k": 1},
                                      "text/plain": "p"}
    assert kernel.run("Image(png)").contents("execute_result")[0]["data"]["image/png"]


def test_metadata(kernel):
    result = kernel.run("display({'text/plain': 'x'}, raw=True, metadata={'text/plain': {'a': 1}})")
    assert result.contents("display_data")[0]["metadata"] == {"text/plain": {"a": 1}}
    result = kernel.run(PIXEL + "\nfrom IPython.display import Image; display(Image(png, width=5))")
    assert result.contents("display_data")[0]["metadata"]["image/png"]["width"] == 5


def test_representations_of_classes(kernel):
    result = kernel.run("class A:\n    def _repr_html_(self): return '<i>'\n    def _repr_json_(self): return {'x': 1}\n"
                        "    def _repr_mimebundle_(self, **kw): return {'a/b': 'c'}\nA()")
    data = result.contents("execute_result")[0]["data"]
    assert data["text/html"] == "<i>" and data["application/json"] == {"x": 1} and data["a/b"] == "c" and "A" in data["text/plain"]


def test_display_ids_and_updates(kernel):
    result = kernel.run("h = display('one', display_id='me')\nh.update('two')\nfrom IPython.display import *\n"
                        "update_display('three', display_id='me')")
    first, = result.contents("display_data")
    assert first["transient"] == {"display_id": "me"} and first["data"]["text/plain"] == "'one'"
    assert [(c["transient"], c["data"]["text/plain"]) for c in result.contents("update_display_data")] == [
        ({"display_id": "me"}, "'two'"), ({"display_id": "me"}, "'three'")]
    # From another cell, too.
    assert kernel.run("h.update('four')").contents("update_display_data")[0]["transient"] == {"display_id": "me"}


def test_clear_output(kernel):
    result = kernel.run("from IPython.display import clear_output\nprint('a'); clear_output(); clear_output(wait=True); print('b')")
    assert result.contents("clear_output") == [{"wait": False}, {"wait": True}]
    assert result.order == ["stdout", "clear_output", "clear_output", "stdout", "end"]


def test_figures(kernel):
    need("matplotlib")
    need("matplotlib_inline")
    assert kernel.run("import sys; [m for m in sys.modules if m.startswith(('matplotlib', 'numpy', 'PIL'))]").value == "[]"
    result = kernel.run("import warnings; warnings.simplefilter('ignore')\nimport matplotlib.pyplot as plt\nprint('a')\nplt.plot([1, 2]);")
    assert result.order[-2:] == ["display_data", "end"], result.err
    width, height = png_size(shown(result)["image/png"].strip())
    assert width > 100 and height > 100
    assert "Figure" in shown(result)["text/plain"]
    result = kernel.run("plt.plot([1, 2]); plt.show(); print('between'); plt.figure(); plt.plot([2, 1]); plt.show(); print('end')")
    assert result.order == ["display_data", "stdout", "display_data", "stdout", "end"]
    assert kernel.run("1").order == ["execute_result", "end"]
    result = kernel.run("fig, ax = plt.subplots(); ax.plot([1]); fig.savefig('x.png'); plt.close()")
    assert result.order == ["end"] and (kernel.home / "x.png").exists()
    result = kernel.run("fig")
    assert result.contents("execute_result")[0]["data"]["image/png"]
    assert kernel.run("plt.plot([1]); 1/0").order == ["error", "display_data", "end"]
    assert kernel.run("%matplotlib inline").reply["status"] == "ok"
    assert kernel.run("plt.plot([1]);").order == ["display_data", "end"]
    assert "MPLBACKEND" not in kernel.run("!env").out
    child = kernel.run("!python3 -c 'import matplotlib; print(matplotlib.rcParams._get_backend_or_none())' 2>/dev/null")
    assert "inline" not in child.out


def test_another_backend_is_left_alone(boot):
    need("matplotlib")
    kernel = boot(env={"MPLBACKEND": "agg"})
    assert kernel.run("import matplotlib; matplotlib.get_backend().lower()").value == "'agg'"


def test_images_of_pillow(kernel):
    need("PIL")
    result = kernel.run("from PIL import Image\nimg = Image.new('RGB', (7, 5), 'red')\nimg.show()\nprint('x')\nimg")
    assert png_size(shown(result)["image/png"].strip()) == (7, 5)
    assert result.order == ["display_data", "stdout", "execute_result", "end"]


def test_without_matplotlib_nothing_fails(kernel):
    code = "import sys\nfor n in ('matplotlib', 'matplotlib_inline', 'PIL', 'comm'):\n    sys.modules[n] = None\n"
    assert kernel.run(code + "print(1); display(2)\n3").value == "3"
    assert kernel.run("import matplotlib").error[0] == "ModuleNotFoundError"
    assert kernel.run("%matplotlib inline").reply["status"] == "error"
    assert kernel.run("1/0").error[0] == "ZeroDivisionError"


# --- what cannot be sent -------------------------------------------------------------------------------------


def test_representations_that_raise(kernel):
    result = kernel.run("class A:\n    def __repr__(self): raise ValueError('no repr')\n    def _repr_html_(self): return '<b>'\nA()")
    assert result.reply["status"] == "ok"
    assert result.contents("error")[0]["evalue"] == "no repr"
    assert result.contents("execute_result")[0]["data"] == {"text/html": "<b>"}
    result = kernel.run("class B:\n    def _repr_html_(self): raise KeyError('no html')\n    def __repr__(self): return 'B!'\ndisplay(B())")
    assert shown(result) == {"text/plain": "B!"} and result.contents("error")[0]["ename"] == "KeyError"
    result = kernel.run("class C:\n    def __repr__(self): raise SystemExit\nC()")
    assert result.error[0] == "SystemExit"
    assert kernel.run("class D(str):\n    def __str__(self): raise ValueError\n"
                      "display({D('text/plain'): D('text')}, raw=True)").reply["status"] == "ok"
    assert kernel.run("1").value == "1"


@pytest.mark.parametrize("value, expected", [
    ("b'\\xff'", "/w=="), ("float('nan')", None), ("[float('inf'), 1.5]", [None, 1.5]), ("{1, }", [1]), ("(1, 2)", [1, 2]),
    ("{1: 2, None: 3, True: 4}", {"1": 4, "null": 3}), ("10**5000", None), ("'\\ud800'", "\ud800"), ("'\\0'", "\0"),
    ("__import__('datetime').date(2020, 1, 2)", "2020-01-02"), ("range(3)", [0, 1, 2]),
    ("__import__('types').MappingProxyType({'a': 1})", {"a": 1}), ("__import__('enum').IntEnum('E', 'A').A", 1),
    ("True", True), ("bytearray(b'ab')", "YWI="), ("1j", "1j"), ("Ellipsis", "Ellipsis"),
])
def test_values_that_json_does_not_have(kernel, value, expected):
    result = kernel.run(f"display({{'application/json': {value}, 'text/plain': ''}}, raw=True)")
    assert shown(result)["application/json"] == expected


def test_values_of_numpy(kernel):
    need("numpy")
    result = kernel.run("import numpy as np\ndisplay({'application/json': [np.int64(1), np.float32(0.5), np.bool_(True), np.nan]}, raw=True)")
    assert shown(result)["application/json"] == [1, 0.5, 1, None] or shown(result)["application/json"] == [1, 0.5, True, None]


def test_values_without_end(kernel):
    result = kernel.run("x = []; x.append(x); x.append(x)\ndisplay({'application/json': x}, raw=True)")
    assert "left out" in shown(result)["text/plain"]
    result = kernel.run("x = {}; x['x'] = x\ndisplay({'application/json': x}, raw=True)")
    assert result.reply["status"] == "ok" and "application/json" in shown(result)
    code = "class M:\n    def keys(self): raise ValueError\n    def __getitem__(self, k): pass\n    def __str__(self): 1/0\n"
    assert shown(kernel.run(code + "display({'a/b': M()}, raw=True)"))["a/b"] == "<unprintable M object>"


def test_messages_have_a_bound(kernel):
    result = kernel.run("display({'text/plain': 'x' * (15 << 20)}, raw=True)")
    assert len(shown(result)["text/plain"]) == 15 << 20
    result = kernel.run("h = display({'text/html': 'x' * (20 << 20)}, raw=True, display_id='big'); print('after')")
    text = shown(result)["text/plain"]
    assert "display_data of 2097" in text and "bytes was left out" in text and "16 MiB" in text
    assert result.contents("display_data")[0]["transient"] == {"display_id": "big"} and result.out == "after\n"
    result = kernel.run("class A:\n    def __repr__(self): return 'x' * (17 << 20)\nA()")
    assert "left out" in result.value and result.contents("execute_result")[0]["execution_count"] == 3
    result = kernel.run("raise ValueError('x' * (17 << 20))")
    assert "left out" in result.contents("error")[0]["evalue"] and result.contents("error")[0]["ename"] == "ValueError"
    assert result.reply["status"] == "error" and result.reply["execution_count"] == 4
    result = kernel.run("1", user_expressions={"a": "A()"})
    assert result.reply["status"] == "error" and "16 MiB" in result.reply["evalue"]
    assert kernel.run("1").value == "1"
