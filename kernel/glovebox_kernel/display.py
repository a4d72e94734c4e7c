# SPDX-License-Identifier: Apache-2.0
"""What IPython displays, as messages."""
from .safe import builtins as __builtins__  # isort: skip

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from . import fork
from .cells import cells
from .channel import MESSAGE
from .messages import message
from .output import flush_c, flush_theirs

_channel = None


def connect(channel):
    global _channel
    _channel = channel


def publish(kind, content, **more):
    """A message of whoever's code is running, after all that it has printed."""
    channel = _channel
    if channel is None or fork.forked:
        return
    cell = cells.current()
    data = message(kind, content, **more)
    flush(cell)
    if cell is not None:
        cell.behind = True
    channel.send(MESSAGE, cell.id if cell is not None else 0, data)


def flush(cell):
    flush_theirs()
    flush_c()
    cells.flush()
    if cell is not None:
        cell.flush()


class Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        self._validate_data(data, metadata)
        content = {"data": data, "metadata": metadata or {}, "transient": transient or {}}
        publish("update_display_data" if update else "display_data", content)

    def clear_output(self, wait=False):
        publish("clear_output", {"wait": bool(wait)})


class Hook(DisplayHook):
    """sys.displayhook in a cell: the value of its last expression is its result."""

    content = None

    def start_displayhook(self):
        self.content = {}

    def write_output_prompt(self):
        self.content["execution_count"] = self.prompt_count

    def write_format_data(self, format_dict, md_dict=None):
        self.content["data"] = format_dict
        self.content["metadata"] = md_dict or {}

    def finish_displayhook(self):
        content, self.content = self.content, None
        if content and content.get("data"):
            publish("execute_result", content)
