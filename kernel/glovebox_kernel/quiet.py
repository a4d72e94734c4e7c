# SPDX-License-Identifier: Apache-2.0
"""Signal handlers of the user run in the user's code and while nothing is done, not in ours: what they raise would be lost
there, and with it a request. SIGINT has a handler of ours, and what ends a process ends it at any time."""
from .safe import builtins as __builtins__  # isort: skip

import signal
from _signal import SIG_BLOCK, SIG_SETMASK, pthread_sigmask

_AT_ANY_TIME = {signal.SIGINT, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
                signal.SIGTRAP, signal.SIGABRT, signal.SIGSYS, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP}
_LATER = [int(number) for number in signal.valid_signals() - _AT_ANY_TIME]
# Handlers that had been called already, one exception each.
_TRIES = 1000

_theirs = None


def hush():
    """From here on it is our code. Raises nothing."""
    global _theirs
    if _theirs is not None:
        return
    for _ in range(_TRIES):
        try:
            _theirs = pthread_sigmask(SIG_BLOCK, _LATER)
            return
        except BaseException:
            pass


def let():
    """From here on it is theirs. Raises what their handlers raise."""
    global _theirs
    mask, _theirs = _theirs, None
    if mask is not None:
        pthread_sigmask(SIG_SETMASK, mask)
