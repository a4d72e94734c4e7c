# SPDX-License-Identifier: Apache-2.0
"""glovebox_kernel.rehearsal: pages that a child writes to or reads."""
import subprocess

import pytest

from fake_init import PYTHON, SOURCE

# Ten pages that were written to, and what the list says about them.
CODE = """
import ctypes, mmap, os, sys, time
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


def listed(ranges):
    return [page for page in range(N) if any(at <= start + page * PAGE < at + n for at, n, _ in ranges)]


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
    assert said("print(listed(rehearsal.learn(perform, play)))") == [3, 4, 7]


def test_what_others_write_to_meanwhile_is_not():
    assert said("def write_too(channel, pid):\n    write(2, 4, 9)\n    play(channel, pid)\n"
                "print(listed(rehearsal.learn(perform, write_too)))") == [3, 4, 7]


def test_only_what_it_had_done_by_then():
    """The list is of the moment when play() returns; and nothing of the child is left, or was written here."""
    assert said("ranges = rehearsal.learn(lambda c: (perform(c), write(8)), play)\nprint((listed(ranges), area[3 * PAGE], os.listdir('/proc/self/task') == [str(os.getpid())],"
                "[fd for fd in os.listdir('/proc/self/fd') if int(fd) > 2 and os.path.exists(f'/proc/self/fd/{fd}')]))") == ([3, 4, 7], 1, True, [])


@pytest.mark.parametrize("do", [
    "ranges = rehearsal.learn(lambda channel: 1 / 0, play)",
    "ranges = rehearsal.learn(lambda channel: os.kill(os.getpid(), 9), play)",
    "ranges = rehearsal.learn(perform, lambda channel, pid: 1 / 0)",
    "ranges = rehearsal.learn(lambda channel: channel.send(b'short'), play)",
    "rehearsal.PATIENCE_S = 0.2\nranges = rehearsal.learn(lambda channel: time.sleep(100), play)",
    "rehearsal._join = open\nranges = rehearsal.learn(perform, play)",
    "ranges = rehearsal.learn(lambda channel: os._exit(0), rehearsal.expect_stop)",
])
def test_a_rehearsal_that_fails_leaves_no_list(do):
    assert said(f"{do}\nprint(ranges)\ntry:\n    os.wait()\n    print('somebody is left')\nexcept ChildProcessError:\n    pass") == []


def test_a_child_that_stops_has_come_to_its_end():
    assert said("def stop(channel):\n    write(3, 4, 7)\n    channel.close()\n    os.kill(os.getpid(), 19)\n    write(8)\n"
                "print(listed(rehearsal.learn(stop, rehearsal.expect_stop)))") == [3, 4, 7]


def test_the_list_is_bounded():
    assert said("rehearsal.PAGES_MAX = 2\nprint(sum(n for _, n, how in rehearsal.learn(perform, play) if how == 23) // PAGE)") == 2


def test_neighbours_are_together():
    assert said("print(rehearsal._join([1, 2, 3, 4, 7, 9, 10]))") == [(4096, 4 * 4096), (7 * 4096, 4096), (9 * 4096, 2 * 4096)]


def test_one_page_of_those_that_are_mapped_together():
    assert said("print(rehearsal._first_of_each([3, 4, 15, 16, 17, 40, 47, 48]))") == [3, 16, 40, 48]


def test_pages_of_files_are_learned_by_who_reads_them(tmp_path):
    """What was read before the rehearsal is not in the list; the system maps some pages around each that is read."""
    (tmp_path / "file").write_bytes(b"x" * 4096 * 4000)
    kinds, of_file = said(f"""
path = {str(tmp_path / "file")!r}
file = mmap.mmap(os.open(path, os.O_RDONLY), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
for page in range(4000):
    file[page * PAGE]
ranges = rehearsal.learn(lambda channel: (file[2000 * PAGE], perform(channel)), play)
start, end = next([int(word, 16) for word in line.split()[0].split("-")] for line in open("/proc/self/maps") if path in line)
print((sorted({{how for _, _, how in ranges}}), [((at - start) // PAGE, n // PAGE) for at, n, how in ranges if how == 22 and start <= at < end]))
""")
    assert kinds == [22, 23]
    assert len(of_file) < 2000 and any(abs(page - 2000) < 16 for page, _ in of_file)
    assert {n for _, n in of_file} == {1}
