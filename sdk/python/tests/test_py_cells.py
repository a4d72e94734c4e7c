# SPDX-License-Identifier: Apache-2.0
"""Cells: run, followed, started, answered, stopped; and every way in which one can end badly."""
import base64
import io

import PIL.Image
import pytest
from pysdk import both, url_of, warm_box  # noqa: F401

import glovebox
import glovebox.outputs
from glovebox import events
from server import WARM, needs_root, shared

pytestmark = needs_root

server = shared(**WARM)


@both
async def test_a_value_output_and_state(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        assert (await box.run("1 + 1")).text == "2"
        done = await box.run("import sys; x = 20; print('out'); print('err', file=sys.stderr)")
        assert (done.ok, done.status, done.stdout, done.stderr, done.text, done.results) == (True, "ok", "out\n", "err\n", "", ())
        assert done.figures.wall_ms >= 0 and done.ended_at >= done.started_at and not done.truncated and done.kernel == "main"
        assert (await box.run("x + 1")).result.text == "21"
        assert (await box.run("'Grüße\\n\\x1b[31m'")).text == "'Grüße\\n\\x1b[31m'"
        assert (await box.get_cell(done.id).get()).stdout == "out\n"
        assert done.id in [one.id for one in await box.list_cells()]


@both
async def test_pictures_and_other_mime_types(server, warm_box):
    code = """
        from IPython.display import display, HTML, JSON, Markdown, Latex, SVG, Image
        import io, PIL.Image
        def picture(kind, size):
            b = io.BytesIO(); PIL.Image.new("RGB", size, "red").save(b, kind); return Image(b.getvalue(), format=kind)
        display(HTML("<b>x</b>"), Markdown("**x**"), Latex("$x$"), JSON({"a": [1]}), SVG("<svg xmlns='http://www.w3.org/2000/svg'/>"))
        display(picture("png", (3, 2)))
        picture("jpeg", (5, 4))
    """
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        done = await box.run("\n".join(line[8:] for line in code.splitlines()))
        html, markdown, latex, json, svg, png, jpeg = done.results
        assert (html.html, markdown.markdown, latex.latex, json.json) == ("<b>x</b>", "**x**", "$x$", {"a": [1]}) and svg.svg.startswith("<svg")
        assert png.png.startswith(b"\x89PNG") and jpeg.jpeg.startswith(b"\xff\xd8") and jpeg.type == "result"
        assert done.images == [png.png, jpeg.jpeg]
        assert png.pil().size == (3, 2) and jpeg.pil().size == (5, 4)
        with pytest.raises(glovebox.GloveboxError, match="no picture: it has text/html"):
            html.pil()


@both(more=["sync"])
async def test_a_figure_of_matplotlib(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        done = await box.run("%matplotlib inline\nimport matplotlib.pyplot as plt\n_ = plt.plot([1, 2])", timeout=60)
        assert len(done.images) == 1 and done.images[0].startswith(b"\x89PNG")


@both
async def test_events(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        seen = []
        stream = box.stream("import sys\nfrom IPython.display import update_display\nprint('a')\nprint('b', file=sys.stderr)\ndisplay('d', display_id='i')\nupdate_display('e', display_id='i')\n7")
        async for event in stream:
            seen.append(event)
        assert [one.kind for one in seen if one.kind != "stdout"] == ["start", "stderr", "display", "update", "result", "end"]
        assert "".join(one.text for one in seen if one.kind == "stdout") == "a\n"
        assert [one.seq for one in seen] == list(range(1, len(seen) + 1)) and seen[-1].info.status == "ok"
        assert isinstance(seen[0], events.Start) and isinstance(seen[-1], events.End) and seen[-2].output.text == "7"
        done = await stream.result()
        assert (done.text, done.id) == ("7", stream.id)
        again = [event async for event in stream.cell.events(after=seen[-2].seq)]
        assert again == seen[-1:]
        assert [event async for event in stream.cell.events(after=seen[-1].seq)] == []


@both
async def test_errors_and_clear(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        seen = [event async for event in box.stream("from IPython.display import clear_output\nprint(1)\nclear_output(wait=True)\n1/0")]
        kinds = [one.kind for one in seen]
        assert kinds.index("clear") < kinds.index("error") and next(one for one in seen if one.kind == "clear").wait is True
        error = next(one for one in seen if one.kind == "error").error
        assert (error.name, error.value) == ("ZeroDivisionError", "division by zero")


@both
async def test_a_stream_that_is_left_goes_on(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        async with box.stream("import time\nprint('first')\ntime.sleep(0.3)\nleft = 1") as stream:
            async for event in stream:
                if event.kind == "stdout":
                    break
        assert (await stream.result()).ok
        assert (await box.run("left")).text == "1"


@both
async def test_input_is_answered(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        code = "a = input('one? '); b = input()\nprint(a, b)"
        assert "1 2" in (await box.run(code, stdin="1\n2\n")).stdout
        assert "3 4" in (await box.run(code, stdin=["3", "4"])).stdout
        asked = []

        def answer(event):
            asked.append((event.prompt, event.password))
            return str(len(asked))

        assert "1 2" in (await box.run(code, stdin=answer)).stdout and asked == [("one? ", False), ("", False)]
        with pytest.raises(glovebox.ExecutionError) as caught:
            await box.run(code, stdin="only one")
        assert caught.value.name == "EOFError"
        with pytest.raises(glovebox.ExecutionError, match="input"):
            await box.run("input()")
        async for event in box.stream("print(input('? '))", stdin=True):
            if event.kind == "input":
                await box.get_cell((await box.list_cells())[-1].id).input("x")
            elif event.kind == "end":
                assert event.info.status == "ok"


@both
async def test_an_answer_that_fails_stops_the_cell(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        def answer(_):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await box.run("input()", stdin=answer)
        assert (await box.list_cells())[-1].status == "interrupted"


@both
async def test_on_event(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        found = []
        assert (await box.run("print(1); 2", on_event=lambda event: found.append(event.kind))).text == "2"
        assert found == ["start", "stdout", "result", "end"]


@both
async def test_started_and_left_to_itself(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        cell = await box.start("import time\nfor i in range(3):\n    print(i, flush=True); time.sleep(0.05)\ninput()", stdin=True)
        with pytest.raises(glovebox.StillRunning, match="goes on"):
            await cell.wait(0.2)
        assert (await cell.get()).status == "running"
        async for event in cell.events():
            if event.kind == "input":
                await cell.input("done")
        assert (await cell.wait()).text == "'done'"
        cell = await box.start("import time; print('begun'); time.sleep(100)")
        async for event in cell.events():
            if event.kind == "stdout":
                await cell.cancel()
        with pytest.raises(glovebox.Interrupted, match="variables and files are kept"):
            await cell.wait()
        assert (await cell.wait(check=False)).status == "interrupted"
        cell = await box.start("input()", stdin=True)
        async for event in cell.events():
            if event.kind == "input":
                await cell.eof()
        assert (await cell.wait(check=False)).error.name == "EOFError"
        with pytest.raises(glovebox.NotFound):
            await box.get_cell("visr2222222223232323232323").get()


@both(more=["sync"])
async def test_kernels(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        other = box.kernel("other")
        await other.run("x = 5")
        assert (await box.run("x", check=False)).error.name == "NameError"
        assert (await box.run("x", kernel="other")).text == "5"
        assert [event.kind async for event in other.stream("x")][-2:] == ["result", "end"]
        assert {one.name for one in await box.list_kernels()} == {"main", "other"}
        info = await other.info()
        assert (info.name, info.state, info.queued, info.cell) == ("other", "idle", 0, None) and info.started_at is not None
        found = await other.complete("x.re")
        assert "real" in " ".join(found.matches) and (found.start, found.end) == (2, 4) or "x.real" in found.matches
        assert (await other.is_complete("for i in x:")).status == "incomplete" and (await other.is_complete("1")).status == "complete"
        looked = await other.inspect("x")
        assert looked.found and "int" in looked.text
        cell = await other.start("import time; print('begun'); time.sleep(100)")
        async for event in cell.events():
            if event.kind == "stdout":
                await other.interrupt()
        assert (await cell.wait(check=False)).status == "interrupted"
        cell = await other.start("import time; time.sleep(100)")
        await other.restart()
        with pytest.raises(glovebox.Cancelled, match="variables are lost"):
            await cell.wait()
        assert (await other.run("'x' in globals()")).text == "False"
        await other.delete()
        assert {one.name for one in await box.list_kernels()} == {"main"}
        await box.interrupt()
        await box.restart()


@both(more=["sync"])
async def test_binary_output_and_spill(server):
    async with glovebox.AsyncBox(url=url_of(server), limits={"output_bytes": 1000}) as box:
        done = await box.run("import os; n = os.write(1, b'a\\xff\\x00b')", binary=True)
        assert done.stdout_bytes == b"a\xff\x00b" and done.stdout == "a\ufffd\x00b"
        assert (await box.run("print('ä')")).stdout_bytes == "ä\n".encode()
        data = b"".join([event.data async for event in box.stream("n = os.write(1, b'a\\xff')", binary=True) if event.kind == "stdout"])
        assert data == b"a\xff"
        done = await box.run("print('x' * 5000)", spill=True)
        assert done.truncated.stdout and bool(done.truncated) and len(done.stdout) == 1000
        assert len(await box.files.read(done.output_file)) == 5001


@both
async def test_what_it_raises(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        with pytest.raises(glovebox.ExecutionError) as caught:
            await box.run("def f():\n    raise ValueError('\\x1b]0;evil\\x07 no \\x1b[2J')\nf()")
        error = caught.value
        assert (error.name, error.value, error.state_lost) == ("ValueError", " no ", False)
        assert "f()" in error.traceback and "\x1b" not in error.traceback + str(error), "nothing that a terminal would act on"
        assert error.result.status == "error" and "\x1b" in "".join(error.result.error.traceback), "but the result has all of it"
        done = await box.run("1/0", check=False)
        assert not done.ok and done.error.name == "ZeroDivisionError"
        with pytest.raises(glovebox.RunError):
            await box.run("raise SystemExit(3)")


@both
async def test_its_time_is_up(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        await box.run("x = 1")
        with pytest.raises(glovebox.TimedOut, match="after 0.2 s: variables and files are kept") as caught:
            await box.run("import time; time.sleep(100)", timeout=0.2)
        assert isinstance(caught.value, TimeoutError) and caught.value.timeout == 0.2 and not caught.value.state_lost
        assert (await box.run("x")).text == "1"
        with pytest.raises(glovebox.InvalidRequest, match="timeout is 0"):
            await box.run("1", timeout=0)
        assert (await box.run("1", timeout=None)).ok


@pytest.mark.more
@both
async def test_its_time_is_up_and_it_does_not_mind(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        with pytest.raises(glovebox.TimedOut, match="variables are lost") as caught:
            await box.run("import time\nwhile True:\n    try:\n        time.sleep(100)\n    except KeyboardInterrupt:\n        pass", timeout=0.2)
        assert caught.value.state_lost
        done = await box.run("'time' in globals()")
        assert done.text == "False" and done.kernel_restarted == "timeout"


@both(more=["sync"])
async def test_out_of_memory(server):
    async with glovebox.AsyncBox(url=url_of(server), limits={"memory_bytes": 256 << 20, "workspace_bytes": 1 << 20, "scratch_bytes": 1 << 20,
                                                            "shm_bytes": 1 << 20}) as box:
        await box.run("x = 1")
        with pytest.raises(glovebox.OutOfMemory) as caught:
            await box.run("a = b'x' * (1 << 30)")
        error = caught.value
        assert (error.limit_bytes, error.field, error.state_lost) == (256 << 20, "limits.memory_bytes", True) and error.peak_bytes > 0
        for said in ("256 MiB", "variables are lost", "files are not", "limits={\"memory_bytes\""):
            assert said in str(error), said
        assert (await box.run("1")).kernel_restarted == "oom"


@both(more=["sync"])
async def test_its_kernel_dies(server):
    async with glovebox.AsyncBox(url=url_of(server)) as box:
        with pytest.raises(glovebox.Crashed, match="variables are lost.*starts another") as caught:
            await box.run("import os; os._exit(3)")
        assert caught.value.state_lost
        assert (await box.run("1")).kernel_restarted == "exited"


@both
async def test_a_queue(server, warm_box):
    async with glovebox.AsyncBox.connect(warm_box, url=url_of(server)) as box:
        first = await box.start("import time; print('begun'); time.sleep(100)")
        second = await box.start("1")
        assert (await second.get()).status == "queued" and (await second.get()).started_at is None
        await second.cancel()
        with pytest.raises(glovebox.Cancelled):
            await second.wait()
        async for event in first.events():
            if event.kind == "stdout":
                await first.cancel()


def test_outputs_that_are_no_pictures():
    def shown(data, mime="image/png"):
        return glovebox.Output("display", {mime: data}, {})

    with pytest.raises(glovebox.ProtocolError, match="no base64"):
        shown("???").png
    with pytest.raises(glovebox.ProtocolError, match="picture that is none"):
        shown(base64.b64encode(b"GIF89a").decode()).pil()
    b = io.BytesIO()
    PIL.Image.new("1", (40, 40)).save(b, "PNG")
    before, glovebox.outputs.PIXELS_MAX = glovebox.outputs.PIXELS_MAX, 1000
    try:
        with pytest.raises(glovebox.TooLarge, match="40 x 40"):
            shown(base64.b64encode(b.getvalue()).decode()).pil()
    finally:
        glovebox.outputs.PIXELS_MAX = before
    b = io.BytesIO()
    PIL.Image.new("RGB", (40, 40)).save(b, "BMP")
    with pytest.raises(glovebox.ProtocolError):
        shown(base64.b64encode(b.getvalue()).decode()).pil()
    assert shown("x").text == "" and "image/png" in repr(shown("x"))
