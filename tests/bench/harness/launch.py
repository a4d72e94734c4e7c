# SPDX-License-Identifier: Apache-2.0
"""Starts a command, waits for its end, says how long that took. Every peer goes through here alike.

A launcher is a small process of its own: it never imports anything heavy, several of them can work at once,
and one of them can live in a mount namespace that its peer needs. Time is taken inside it, from just before
posix_spawn (which does not copy the launcher's memory) to the moment the last process of the command was
waited for. There is no shell, and the pipe, the arguments and the environment are ready before the clock starts.
"""
import ctypes
import dataclasses
import multiprocessing
import os
import select
import signal
import tempfile
import time
import traceback

TIMEOUT_S = 60
# What every command gets, bare or boxed: that of a box, so that no peer reads or writes more than another.
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}

CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x4000 | 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1


@dataclasses.dataclass
class Run:
    ns: int
    error: str | None = None
    out: bytes = b""
    parts: dict = dataclasses.field(default_factory=dict)  # further figures of this run: name to nanoseconds


@dataclasses.dataclass
class Command:
    """stages: one argument list, or several joined by pipes. "{id}" in an argument is replaced by a fresh name.
    cleanup: run after a failure, untimed; at_last: when nobody runs it any more. expect: what the last stage must
    print; None: its stdout is /dev/null."""

    stages: list
    expect: bytes | None = None
    cleanup: list | None = None
    capture: bool = False
    at_last: list | None = None


# --- inside a launcher --------------------------------------------------------------------------------------

_count = 0


def fresh_id():
    global _count
    _count += 1
    return f"gb-bench-{os.getpid()}-{_count}"


def filled(argv, name):
    return [word.replace("{id}", name) for word in argv]


def spawn(argv, stdin, stdout, stderr, environment=None):
    """Descriptors, or paths to open. Own process group: at a timeout all of it is ended."""
    actions = []
    for number, what in enumerate((stdin, stdout, stderr)):
        if isinstance(what, str):
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY
            actions.append((os.POSIX_SPAWN_OPEN, number, what, mode, 0))
        else:
            actions.append((os.POSIX_SPAWN_DUP2, what, number))
    return os.posix_spawn(argv[0], argv, environment or ENVIRONMENT, file_actions=actions, setpgroup=0,
                          setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])


def wait(pid, deadline):
    """Exit status, or None when it had to be killed."""
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        in_time = bool(poll.poll(max(0, (deadline - time.monotonic()) * 1000)))
    finally:
        os.close(pidfd)
    if not in_time:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if in_time else None


def read_all(fd, enough):
    """What is in a pipe whose writers have ended; a process that stayed behind with it cannot block us."""
    os.set_blocking(fd, False)
    data = b""
    try:
        while len(data) < enough and (piece := os.read(fd, 65536)):
            data += piece
    except BlockingIOError:
        pass
    return data


def last_line(file):
    file.seek(0)
    lines = file.read(4096).decode(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""


def once(command, timeout_s=TIMEOUT_S):
    """One timed run. What goes wrong is in Run.error; nothing is raised."""
    name = fresh_id()
    stages = [filled(argv, name) for argv in command.stages]
    captured = command.capture or command.expect is not None
    with tempfile.TemporaryFile() as errors:
        ends, out_r = [], None
        if captured:
            out_r, out_w = os.pipe()
            ends.append(out_w)
        inputs, outputs = ["/dev/null"], []
        for _ in stages[1:]:
            r, w = os.pipe()
            ends += [r, w]
            inputs.append(r)
            outputs.append(w)
        outputs.append(out_w if captured else "/dev/null")
        statuses, pids, error = [], [], None
        deadline = time.monotonic() + timeout_s
        start = time.perf_counter_ns()
        try:
            for argv, stdin, stdout in zip(stages, inputs, outputs):
                pids.append(spawn(argv, stdin, stdout, errors.fileno()))
        except OSError as e:
            error = f"{e.filename or stages[len(pids)][0]}: {e.strerror}"
        for fd in ends:
            os.close(fd)
        for pid in pids:
            statuses.append(wait(pid, deadline))
        ns = time.perf_counter_ns() - start
        out = b""
        if captured:
            out = read_all(out_r, 1 << 20)
            os.close(out_r)
        if error is None:
            error = judge(statuses, out, command.expect, timeout_s, errors)
        if error and command.cleanup:
            clean(filled(command.cleanup, name))
        return Run(ns, error, out if command.capture else b"")


def judge(statuses, out, expect, timeout_s, errors):
    if None in statuses:
        return f"no end after {timeout_s} s"
    if any(statuses):
        return f"exit status {statuses}: {last_line(errors)}"
    if expect is not None and out != expect:
        return f"printed {out[:60]!r}, not {expect[:60]!r}: {last_line(errors)}"
    return None


def clean(argv):
    try:
        wait(spawn(argv, "/dev/null", "/dev/null", "/dev/null"), time.monotonic() + 10)
    except OSError:
        pass


def loop(command, seconds):
    """Runs until the time is over, the one begun to its end: (times in ns of good runs, errors, seconds)."""
    times, errors = [], []
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        run = once(command)
        if run.error:
            errors.append(run.error)
        else:
            times.append(run.ns)
    return times, errors, time.monotonic() - start


def count_bytes(command, timeout_s=TIMEOUT_S):
    """How many bytes come out of a one-stage command; a fast pipe that loses some is not fast."""
    name = fresh_id()
    r, w = os.pipe()
    pid = spawn(filled(command.stages[0], name), "/dev/null", w, "/dev/null")
    os.close(w)
    total = 0
    with open(r, "rb", buffering=0) as pipe:
        while piece := pipe.read(1 << 16):
            total += len(piece)
    wait(pid, time.monotonic() + timeout_s)
    return total


def memory_of_idle(command, ready, timeout_s=TIMEOUT_S):
    """Starts a program that prints `ready` and then reads its input; says what its processes occupy meanwhile.

    Returns (processes, error); a process is a dict of depth, name, rss_kib, pss_kib."""
    name = fresh_id()
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    deadline = time.monotonic() + timeout_s
    processes, error = [], None
    with tempfile.TemporaryFile() as errors:
        pid = spawn(filled(command.stages[0], name), in_r, out_w, errors.fileno())
        os.close(in_r)
        os.close(out_w)
        if not comes(out_r, ready, deadline):
            error = f"did not come up: {last_line(errors)}"
        else:
            try:
                processes = [memory_of(p, depth) for p, depth in family(pid)]
            except OSError as e:
                error = f"{e.filename}: {e.strerror}"
        os.close(in_w)
        status = wait(pid, deadline if error is None else time.monotonic() + 5)
        os.close(out_r)
        if error is None and status != 0:
            error = f"exit status {status}: {last_line(errors)}"
        if error and command.cleanup:
            clean(filled(command.cleanup, name))
    return processes, error


def comes(fd, text, deadline):
    """Whether exactly this is what a pipe says first."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    got = b""
    while got != text and text.startswith(got):
        piece = b""
        if poll.poll(max(0, (deadline - time.monotonic()) * 1000)):
            piece = os.read(fd, len(text) - len(got))
        if not piece:
            return False
        got += piece
    return got == text


def family(root):
    """A process and its descendants, with how far down each is."""
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry))
    found, front = [], [(root, 0)]
    while front:
        pid, depth = front.pop(0)
        found.append((pid, depth))
        front += [(child, depth + 1) for child in sorted(children.get(pid, []))]
    return found


def memory_of(pid, depth):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read().split(b"\0")
    figures = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key in ("Rss", "Pss"):
                figures[f"{key.lower()}_kib"] = int(value.split()[0])
    return {"depth": depth, "name": words[0].decode(errors="replace"), **figures}


# --- preparing a launcher -----------------------------------------------------------------------------------


def hide_unified_cgroup():
    """crun 1.8 refuses a machine whose v1 hierarchies have an idle v2 one beside them. Take that one away, in
    a mount namespace of this launcher only."""
    libc = ctypes.CDLL(None, use_errno=True)
    for ok in (libc.unshare(CLONE_NEWNS) == 0,
               libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None) == 0,
               libc.umount2(b"/sys/fs/cgroup/unified", MNT_DETACH) == 0):
        if not ok:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


# --- outside ------------------------------------------------------------------------------------------------


class Launcher:
    """A launcher process: call() waits for the answer, send() and answer() let several work at once."""

    def __init__(self, prepare=None):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=self.serve, args=(self.pipe, theirs, prepare), daemon=True)
        self.process.start()
        theirs.close()
        self.answer()

    @staticmethod
    def serve(ours, pipe, prepare):
        # Ctrl-C is for the harness: it lets the run that has begun come to its end and clean up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # A harness that is killed leaves nobody behind. (Its end of the pipe would not tell: launchers that
        # were started later hold copies of it.)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        ours.close()
        function, args = prepare or (lambda: None), ()
        while True:
            try:
                answer = (True, function(*args))
            except Exception:  # the harness shows it
                answer = (False, traceback.format_exc())
            try:
                pipe.send(answer)
                function, args = pipe.recv()
                if function is None:
                    return
            except (EOFError, OSError):
                return

    def send(self, function, *args):
        self.pipe.send((function, args))

    def answer(self):
        good, value = self.pipe.recv()
        if not good:
            raise RuntimeError(f"launcher failed: {value}")
        return value

    def call(self, function, *args):
        self.send(function, *args)
        return self.answer()

    def close(self):
        try:
            self.send(None)
        except OSError:
            pass  # it is gone already
        self.process.join()
        self.pipe.close()
