# SPDX-License-Identifier: Apache-2.0
"""Which pages of an image are written to by whoever goes on from it, found out by letting somebody do so.

A thawed process shares every page with the image until it writes to it. Then the page is copied, in a fault that takes longer than most of
what is written; and hardly a program leaves the pages of the interpreter's own objects alone. So before a process freezes, a forked
child does what a thawed one will do, with a small program, and its pages that are nobody else's are the ones. Pages of programs and libraries
that are only read cost a fault, too, if a smaller one: a forked child starts without them, and has those in the end that it wanted. The list is
part of the image, and thaw takes these pages in a few calls before the process goes on (src/warm/thaw.c).

Without a list, because the rehearsal failed or the system does not say whose a page is, pages are copied as they are written to.
"""
from .safe import builtins as __builtins__  # isort: skip

import os
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
# Pages that a fault for reading maps, as the system has it by default.
AROUND = 16
# Of each kind.
PAGES_MAX = 4096
PATIENCE_S = 20
# As madvise(2) has it, since Linux 5.14; before that it does nothing.
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
HEADER = 16


def _fork(do):
    pid = os.fork()
    if pid == 0:
        try:
            do()
        finally:
            os._exit(1)
    return pid


def _end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def learn(perform, play):
    """perform(channel) in a forked child, play(channel, pid) with the other end here.

    Returns [(start, length, advice)] of the moment when that returns; nothing, where anything went wrong.
    """
    # A page that this process writes to meanwhile would be the child's alone as well. So there is a third who has all of them, and does nothing.
    third = _fork(signal.pause)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = _fork(lambda: (ours.close(), perform(theirs)))
    try:
        theirs.close()
        ours.settimeout(PATIENCE_S)
        play(ours, pid)
        written, read = (_pages(pid, *kind)[:PAGES_MAX] for kind in (WRITTEN, READ))
        return ([(*where, MADV_POPULATE_WRITE) for where in _join(written)] +
                [(page * PAGE, PAGE, MADV_POPULATE_READ) for page in _first_of_each(read)])
    except Exception:
        return []
    finally:
        ours.close()
        _end(pid)
        _end(third)


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


def _first_of_each(pages):
    """With a page of a file that is read the system maps those around it: one of them is enough."""
    return list({page // AROUND: page for page in reversed(pages)}.values())[::-1]


def _join(pages):
    """Neighbours together."""
    ranges = []
    for page in pages:
        if ranges and ranges[-1][0] + ranges[-1][1] == page:
            ranges[-1][1] += 1
        else:
            ranges.append([page, 1])
    return [(page * PAGE, count * PAGE) for page, count in ranges]
