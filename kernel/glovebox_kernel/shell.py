# SPDX-License-Identifier: Apache-2.0
"""IPython's shell, with everything that would go to a terminal or a file sent elsewhere."""
from .safe import builtins as __builtins__  # isort: skip

import io
import os
import sys
import threading
import traceback
from pathlib import Path

from IPython.core import interactiveshell, page, payloadpage
from IPython.core.autocall import ExitAutocall
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.text import LSString, SList
from traitlets import Type, default, observe
from traitlets.config import Config

from . import commands, fork
from .display import Hook, Publisher, publish
from .interrupt import interrupts
from .plain import text_of
from .store import Memory, Profile
from .transform import Manager

try:
    _Groups = (BaseExceptionGroup,)
except NameError:
    _Groups = ()

_HERE = os.path.dirname(__file__) + os.sep
GUIS = (None, "", "inline", "agg")


class LeaveCell(BaseException):
    """exit() and quit(): the rest of the cell is not run, and nothing went wrong."""


class Exit(ExitAutocall):
    """Exit IPython. Autocallable, so it needn't be explicitly called."""

    def __call__(self, *_, **__):
        if threading.current_thread() is not threading.main_thread() or fork.forked:
            raise SystemExit
        self._ip.ask_exit()
        raise LeaveCell


class ZMQInteractiveShell(InteractiveShell):
    """It has this name because libraries ask for it to find out whether they may display HTML and images."""

    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)

    # What the `error` message of this cell said, for its reply.
    last_error = None
    # Whether it was sent.
    _shown = False

    # --- nothing is written, nothing depends on where it was made ---------------------------------------------

    def init_ipython_dir(self, ipython_dir):
        self.ipython_dir = os.path.join(os.path.expanduser("~"), ".ipython")

    @observe("ipython_dir")
    def _ipython_dir_changed(self, change):
        pass

    def init_profile_dir(self, profile_dir):
        self.profile_dir = Profile(location=os.path.join(self.ipython_dir, "profile_default"))

    def init_virtualenv(self):
        pass

    def settle(self, home, cwd):
        """What was remembered of another process, another time and another place is of here and now."""
        folder = os.path.join(home, ".ipython")
        # Behind the back of those who would make these directories.
        self._trait_values["ipython_dir"] = folder
        self.profile_dir._trait_values["location"] = os.path.join(folder, "profile_default")
        self.home_dir = home
        self.starting_dir = cwd
        self.history_manager.dir_hist[:] = [Path(cwd)]

    # --- hooks ------------------------------------------------------------------------------------------------

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(payloadpage.page), 99)
        self.set_hook("editor", _edit, 0)

    def init_magics(self):
        super().init_magics()
        commands.script_magic(self)

    def enable_gui(self, gui=None):
        if gui not in GUIS:
            raise NotImplementedError(f"there is no screen here for {gui!r}; figures are displayed inline")

    def set_next_input(self, s, replace=False):
        self.payload_manager.write_payload({"source": "set_next_input", "text": s, "replace": replace})

    @default("exiter")
    def _exiter_default(self):
        return Exit(self)

    def ask_exit(self):
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": True})

    # --- errors -----------------------------------------------------------------------------------------------

    def showtraceback(self, exc_tuple=None, *args, **kw):
        error = (exc_tuple or sys.exc_info())[1]
        if isinstance(error, LeaveCell):
            return
        if error is not None:
            _cut_ours(error.__traceback__)
        if _Groups and _has_group(error) and not kw.get("exception_only"):
            # IPython shows one of them, or none as a message.
            _, value, tb = self._get_exc_info(exc_tuple)
            self._showtraceback(type(value), value, traceback.format_exception(type(value), value, _below_ours(tb)))
            return
        before, self._shown = self._shown, False
        super().showtraceback(exc_tuple, *args, **kw)
        if not self._shown and error is not None and not isinstance(error, UsageError):
            # An interrupt while the traceback was made, or one that cannot be made.
            self._showtraceback(type(error), error, None)
        self._shown = self._shown or before

    def _showtraceback(self, etype, evalue, stb):
        self.last_error = describe(etype, evalue, stb)
        if fork.forked:
            print("\n".join(self.last_error["traceback"]), file=sys.stderr)
            self._shown = True
            return
        with interrupts.later() as wanted:
            publish("error", self.last_error)
            self._shown = True
        if wanted and not issubclass(etype, KeyboardInterrupt):
            raise KeyboardInterrupt

    # --- commands ---------------------------------------------------------------------------------------------

    def system(self, cmd):
        self.user_ns["_exit_code"] = commands.run(self.var_expand(cmd, depth=1))

    system_piped = system_raw = system

    def getoutput(self, cmd, split=True, depth=0):
        text = commands.collect(self.var_expand(cmd, depth=depth + 1))
        return SList(text.splitlines()) if split else LSString(text)


def describe(etype, evalue, stb=None):
    """ename, evalue and traceback of an error, whatever kind of exception it is."""
    try:
        name = str(etype.__name__)
    except Exception:
        name = "Exception"
    value = text_of(evalue)
    if isinstance(stb, str):
        stb = [stb]
    elif not isinstance(stb, (list, tuple)):
        stb = [f"{name}: {value}" if value else name]
    return {"ename": name, "evalue": value, "traceback": [line if type(line) is str else text_of(line) for line in stb]}


def _has_group(error):
    """In the chain, which may be a circle."""
    for _ in range(100):
        if error is None or isinstance(error, _Groups):
            break
        error = error.__cause__ or error.__context__
    return error is not None and isinstance(error, _Groups)


def _below_ours(tb):
    """Without the frames that run cells."""
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename == interactiveshell.__file__:
        tb = tb.tb_next
    return tb


def _cut_ours(tb):
    """An error ends in the user's code, not in our print(), input() or signal handler."""
    last = tb
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_HERE):
            last = tb
        tb = tb.tb_next
    if last is not None:
        last.tb_next = None


def _edit(shell, filename, linenum=None, wait=True):
    shell.payload_manager.write_payload({"source": "edit_magic", "filename": str(filename), "line_number": linenum or 0})


class _Nowhere(io.TextIOBase):
    """IPython.utils.io.devnull, without a descriptor."""

    def writable(self):
        return True

    def write(self, text):
        return len(text)


def _close_null():
    """IPython opens /dev/null when it is imported, and hardly anybody ever uses it."""
    from IPython.utils import io as ipython_io

    null = getattr(ipython_io, "devnull", None)
    if null is not None:
        ipython_io.devnull = _Nowhere()
        null.close()


def create():
    _close_null()
    config = Config()
    # No database and no thread that writes to it: inputs are kept in lists.
    config.HistoryManager.enabled = False
    # Jedi reads source files and keeps a cache of them on disk, and its first answer takes a second.
    config.IPCompleter.use_jedi = False
    if hasattr(interactiveshell, "PickleShareDB"):
        interactiveshell.PickleShareDB = Memory
    shell = ZMQInteractiveShell.instance(config=config)
    shell.db = Memory()
    shell.input_transformer_manager = Manager()
    # What IPython loads wherever it is started as a program.
    shell.extension_manager.load_extension("storemagic")
    return shell
