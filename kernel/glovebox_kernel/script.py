# SPDX-License-Identifier: Apache-2.0
"""A program file, run as `python3 FILE ARGS` runs it, in an interpreter that was started before.

The interpreter's own function for it is called, so that encodings and errors of syntax are not imitated. What remains to do is to make
everything look as after a start: a new __main__, sys.argv, sys.path and the three streams; and the end, see ending.py.

What still differs: our frames are below the program's, where traceback.print_stack() sees them; sys.flags says how the
interpreter was started; and all processes from one image have the same seed for hashes of strings.
"""
from .safe import builtins as __builtins__  # isort: skip

import builtins
import ctypes
import importlib
import io
import os
import sys
from importlib.machinery import BuiltinImporter, SourceFileLoader
from types import ModuleType

from . import ending

# Py_file_input of the C interface.
FILE_INPUT = 257

INPUT = (("stdin", 0),)
OUTPUTS = (("stdout", 1), ("stderr", 2))

# Whoever was __main__ before: its names must not go away while it runs.
_kept = []
# Whether the outputs were opened without buffers; None: not yet.
_direct = None

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fopen.restype = ctypes.c_void_p
_run_file = ctypes.PyDLL(None).PyRun_FileExFlags
_run_file.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int,
                      ctypes.c_void_p]
_run_file.restype = ctypes.py_object


def prepare(imports=()):
    """What may be done before it is known what is to be run."""
    for name in imports:
        try:
            importlib.import_module(name)
        except Exception:
            pass
    ending.remember()


def open_outputs():
    """In the process that will run a program, as soon as its descriptors 1 and 2 are there. Its environment may be another one later."""
    global _direct
    direct = bool(os.environ.get("PYTHONUNBUFFERED"))
    if direct != _direct:
        _direct = direct
        _open_streams(OUTPUTS)


def run(path, args=(), source=None):
    """The program at `path`, or the text `source` under that name. The process ends here, as after the program."""
    path = os.fspath(path)
    open_outputs()
    _open_streams(INPUT)
    name = path
    if source is not None:
        file = _libc.fopen(b"/proc/self/fd/%d" % _memory_file(source), b"rbe")
    else:
        # As the interpreter does: absolute, but not tidied up.
        name = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
        file = _libc.fopen(os.fsencode(path), b"rbe")
    if not file:
        number = ctypes.get_errno()
        print(f"{sys.executable}: can't open file {name!r}: [Errno {number}] {os.strerror(number)}", file=sys.stderr)
        ending.end(2, _libc)
    space = _look_new(path, list(args), source is None)
    space.update(__loader__=SourceFileLoader("__main__", name), __file__=name, __cached__=None)
    _lift_recursion_limit()
    status, error = 0, None
    try:
        _run_file(file, os.fsencode(name), FILE_INPUT, space, space, 1, None)
    except BaseException as e:
        # Without our own frame.
        e.__traceback__ = e.__traceback__.tb_next
        error = e
    if error is not None:
        status = ending.fail(error)
        error = None
    space.pop("__file__", None)
    space.pop("__cached__", None)
    space = None
    ending.end(status, _libc)


def _memory_file(source):
    fd = os.memfd_create("source")
    data = memoryview(source if isinstance(source, bytes) else source.encode("utf-8", "surrogatepass"))
    while data:
        data = data[os.write(fd, data):]
    os.lseek(fd, 0, os.SEEK_SET)
    _kept.append(fd)
    return fd


def _look_new(path, args, is_file):
    main = ModuleType("__main__")
    main.__loader__ = BuiltinImporter
    main.__annotations__ = {}
    main.__builtins__ = builtins
    _kept.append(sys.modules.get("__main__"))
    sys.modules["__main__"] = main
    sys.argv[:] = [path, *args]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable, path, *args]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    more = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = [os.path.dirname(os.path.realpath(path)) if is_file else os.getcwd(), *more]
    return main.__dict__


def _open_streams(which):
    """The descriptors may be of another kind than those of the start: a terminal, for instance."""
    for name, fd in which:
        old = getattr(sys, name)
        _kept.append(old)
        encoding, errors = getattr(old, "encoding", "utf-8"), getattr(old, "errors", "strict")
        try:
            os.fstat(fd)
        except OSError:
            stream = None
        else:
            stream = _open(fd, f"<{name}>", encoding, errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _open(fd, name, encoding, errors):
    writes = fd != 0
    file = io.open(fd, "wb" if writes else "rb", buffering=0 if writes and _direct else -1, closefd=False)
    raw = file if writes and _direct else file.raw
    raw.name = name
    stream = io.TextIOWrapper(file, encoding, errors, newline="\n", line_buffering=not _direct and (fd == 2 or raw.isatty()),
                              write_through=_direct)
    stream.mode = "w" if writes else "r"
    return stream


def _lift_recursion_limit():
    """Our frames do not count: a program that recurses for ever gets as far as it would."""
    frame, ours = sys._getframe(1), 0
    while frame is not None:
        # A program in an archive is run by runpy, with exec(), which counts as a call of its own.
        ours += 2 if frame.f_code.co_name == "_run_code" else 1
        frame = frame.f_back
    if sys.version_info < (3, 12):
        # The call of a C function that calls the program.
        ours += 1
    get, put = sys.getrecursionlimit, sys.setrecursionlimit
    put(get() + ours)

    def getrecursionlimit():
        """Return the current value of the recursion limit."""
        return get() - ours

    def setrecursionlimit(limit, /):
        """Set the maximum depth of the Python interpreter stack to n."""
        put(limit + ours if isinstance(limit, int) and 0 < limit < 1 << 30 else limit)

    sys.getrecursionlimit, sys.setrecursionlimit = getrecursionlimit, setrecursionlimit
