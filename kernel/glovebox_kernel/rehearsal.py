# SPDX-License-Identifier: Apache-2.0
"""Which pages of an image are written to by whoever goes on from it, found out by letting somebody do so.

A thawed process shares every page with the image until it writes to it. Then the page is copied, in a fault that takes longer than most of
what is written; and hardly a program leaves the pages of the interpreter's own objects alone. So before a process freezes, a forked
child does what a thawed one will do, with a small program, and its pages that are nobody else's are the ones. Pages of programs and libraries
that are only read cost a fault, too, if a smaller one: a forked child starts without them, and has those in the end that it wanted. The list is
part of the image. A thawed process that waits takes these pages meanwhile: it stops as soon as there is something to do.

Without a list, because the rehearsal failed or the system does not say whose a page is, pages are copied as they are written to.
"""
from .safe import builtins as __builtins__  # isort: skip

import ctypes
import os
import select
import signal
import socket
from array import array

PAGE = 4096
# Of a word of pagemap: in memory, of a file or shared, and mapped by nobody else.
PRESENT, OF_FILE, EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56
# Rights of a mapping, bits that are looked at, and what they must be.
WRITTEN = ("rw-p",), PRESENT | OF_FILE | EXCLUSIVE, PRESENT | EXCLUSIVE
READ = ("r--p", "r-xp"), PRESENT | OF_FILE, PRESENT | OF_FILE
# Larger mappings are room, not memory.
MAPPING_MAX = 1 << 30
# Of each kind, and between two looks at the channel.
PAGES_MAX = 4096
PAGES_AT_ONCE = 32
PATIENCE_S = 20
# As madvise(2) has it, since Linux 5.14; before that it does nothing.
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
HEADER = 16

# (start, length, advice)
_ranges = []
_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def learn(perform, play):
    """perform(channel) in a forked child, play(channel, pid) with the other end here. The list is of the moment when that returns."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            perform(theirs)
        finally:
            os._exit(1)
    try:
        theirs.close()
        ours.settimeout(PATIENCE_S)
        play(ours, pid)
        for kind, advice in ((WRITTEN, MADV_POPULATE_WRITE), (READ, MADV_POPULATE_READ)):
            _ranges.extend((*where, advice) for where in _join(_pages(pid, *kind)[:PAGES_MAX]))
    except Exception:
        _ranges.clear()
    finally:
        ours.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def expect(channel, kind):
    """The next packet of this kind; others are of no interest."""
    packet = b""
    while packet[:1] != bytes([kind]):
        packet = channel.recv(1 << 16)
        if len(packet) < HEADER:
            raise EOFError("it has ended")


def expect_stop(channel, pid):
    """The child stops. It closes the channel before."""
    try:
        while channel.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    if os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code != os.CLD_STOPPED:
        raise EOFError("it has ended")


def _pages(pid, rights, mask, wanted):
    """Numbers of its pages of one kind."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as words:
        for line in maps:
            span, own = line.split(None, 2)[:2]
            start, end = (int(word, 16) for word in span.split("-"))
            # The stack of a thawed process is its own from the beginning, and what the kernel maps is everybody's.
            if own not in rights or end - start > MAPPING_MAX or " [stack" in line or " [v" in line:
                continue
            pages = array("Q", os.pread(words.fileno(), (end - start) // PAGE * 8, start // PAGE * 8))
            found += [start // PAGE + i for i, word in enumerate(pages) if word & mask == wanted]
    return found


def _join(pages):
    """Neighbours together."""
    ranges = []
    for page in pages:
        if ranges and ranges[-1][0] + ranges[-1][1] == page and ranges[-1][1] < PAGES_AT_ONCE:
            ranges[-1][1] += 1
        else:
            ranges.append([page, 1])
    return [(page * PAGE, count * PAGE) for page, count in ranges]


def take(fd):
    """Until something comes on this descriptor. A range that is not there in this process is left out by the system."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    for start, length, advice in _ranges:
        if poller.poll(0):
            return
        _madvise(start, length, advice)
