# SPDX-License-Identifier: Apache-2.0
"""A forked child of the kernel is not the kernel: it prints where its cell prints, and says nothing on the channel."""
from .safe import builtins as __builtins__  # isort: skip

import os
from os import _exit

from . import descriptors
from .cells import cells
from .interrupt import interrupts

forked = False
# A copy of the kernel, which is going to be one: see twin.py.
becoming = False
_channels = []
# What there is to do before, which is not known here.
_before_fork = []


def watch(before):
    _before_fork.append(before)
    os.register_at_fork(before=_before, after_in_child=_in_child)


def own(channel):
    _channels.append(channel)


def _before():
    for step in _before_fork:
        step()


def _in_child():
    global forked
    if becoming:
        return
    if not _channels:
        # There is no kernel yet: a zygote that goes on in a child, or was thawed.
        return
    forked = True
    descriptors.unguard()
    for channel in _channels:
        channel.abandon()
    cells.after_fork()
    interrupts.after_fork()


def end(status=0):
    """Where the kernel would go on, its child ends."""
    try:
        _before()
    except BaseException:
        pass
    _exit(status)


def check():
    if forked:
        end()
