# SPDX-License-Identifier: Apache-2.0
"""glovebox_kernel.rehearsal: pages that a child writes to or reads, and pages that are taken ahead."""
import subprocess

import pytest

from fake_init import PYTHON, SOURCE

# Ten pages that were written to, and what the list says about them.
CODE = """
import ctypes, json, mmap, os, socket, sys, time
sys.path.insert(0, {source!r})
from glovebox_kernel import rehearsal
PAGE, N = 4096, 10
area = mmap.mmap(-1, N * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(N):
    area[page * PAGE] = 1
start = ctypes.addressof(ctypes.c_char.from_buffer(area))


def write(*pages):
    for page in pages:
        area[page * PAGE] = 2


def listed():
    return [page for page in range(N) if any(at <= start + page * PAGE < at + n for at, n, _ in rehearsal._ranges)]


def own():
    # Of this process: those that it does not share with its parent.
    found = rehearsal._pages(os.getpid(), *rehearsal.WRITTEN)
    return [page for page in range(N) if start // PAGE + page in found]


def in_child(do):
    read, end = os.pipe()
    if os.fork() == 0:
        os.write(end, json.dumps(do()).encode())
        os._exit(0)
    said = json.loads(os.read(read, 1000))
    os.wait()
    return said


def perform(channel):
    write(3, 4, 7)
    channel.send(bytes([9]) + bytes(15))
    channel.recv(1)


def play(channel, _):
    rehearsal.expect(channel, 9)


{do}
"""


def said(do):
    done = subprocess.run([PYTHON, "-I", "-B", "-c", CODE.format(source=str(SOURCE), do=do)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return eval(done.stdout)  # pylint: disable=eval-used


def test_what_the_child_wrote_to_is_learned():
    assert said("rehearsal.learn(perform, play)\nprint(listed())") == [3, 4, 7]


def test_only_what_it_had_done_by_then():
    """The list is of the moment when play() returns; and nothing of the child is left, or was written here."""
    assert said("rehearsal.learn(lambda c: (perform(c), write(8)), play)\nprint((listed(), area[3 * PAGE], os.listdir('/proc/self/task') == [str(os.getpid())],"
                "[fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}')]))") == ([3, 4, 7], 1, True, [])


@pytest.mark.parametrize("do", [
    "rehearsal.learn(lambda channel: 1 / 0, play)",
    "rehearsal.learn(lambda channel: os.kill(os.getpid(), 9), play)",
    "rehearsal.learn(perform, lambda channel, pid: 1 / 0)",
    "rehearsal.learn(lambda channel: channel.send(b'short'), play)",
    "rehearsal.PATIENCE_S = 0.2\nrehearsal.learn(lambda channel: time.sleep(100), play)",
    "rehearsal._join = open\nrehearsal.learn(perform, play)",
    "rehearsal.learn(lambda channel: os._exit(0), rehearsal.expect_stop)",
])
def test_a_rehearsal_that_fails_leaves_no_list(do):
    assert said(f"{do}\nprint(rehearsal._ranges)\ntry:\n    os.wait()\n    print('somebody is left')\nexcept ChildProcessError:\n    pass") == []


def test_a_child_that_stops_has_come_to_its_end():
    assert said("def stop(channel):\n    write(3, 4, 7)\n    channel.close()\n    os.kill(os.getpid(), 19)\n    write(8)\n"
                "rehearsal.learn(stop, rehearsal.expect_stop)\nprint(listed())") == [3, 4, 7]


def test_the_list_is_bounded():
    assert said("rehearsal.PAGES_MAX = 2\nrehearsal.learn(perform, play)\nprint(sum(n for _, n, _ in rehearsal._ranges) // PAGE)") == 4


def test_neighbours_are_together():
    assert said("rehearsal.PAGES_AT_ONCE = 3\nprint(rehearsal._join([1, 2, 3, 4, 7, 9, 10]))") == [(4096, 3 * 4096), (4 * 4096, 4096), (7 * 4096, 4096), (9 * 4096, 2 * 4096)]


TAKE = """
rehearsal.learn(perform, play)
rehearsal._ranges.append((0x10000, PAGE, 23))
a, b = socket.socketpair()
{before}
before = in_child(own)
def taken():
    rehearsal.take(b.fileno())
    return own()
print((before, in_child(taken), ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(PAGE), 23)))
"""


def test_pages_of_the_list_are_taken():
    before, taken, works = said(TAKE.format(before=""))
    if works < 0:
        pytest.skip("this system is older than Linux 5.14")
    assert (before, taken) == ([], [3, 4, 7])


@pytest.mark.parametrize("before", ["a.send(b'x')", "a.close()"])
def test_nothing_is_taken_when_there_is_something_to_do(before):
    assert said(TAKE.format(before=before))[:2] == ([], [])


def test_pages_of_files_are_learned_by_who_reads_them(tmp_path):
    """What was read before the rehearsal is not in the list; the system maps some pages around each that is read."""
    (tmp_path / "file").write_bytes(b"x" * 4096 * 4000)
    kinds, of_file = said(f"""
path = {str(tmp_path / "file")!r}
file = mmap.mmap(os.open(path, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
for page in range(4000):
    file[page * PAGE]
rehearsal.learn(lambda channel: (file[2000 * PAGE], perform(channel)), play)
start, end = next([int(word, 16) for word in line.split()[0].split("-")] for line in open("/proc/self/maps") if path in line)
print((sorted({{how for _, _, how in rehearsal._ranges}}), [(page - start) // PAGE for at, n, how in rehearsal._ranges if how == 22
                                                          for page in range(at, at + n, PAGE) if start <= page < end]))
""")
    assert kinds == [22, 23]
    assert 2000 in of_file and len(of_file) < 2000
