# SPDX-License-Identifier: Apache-2.0
"""What must not be the same in two processes that went on from one image: random numbers, names, identities.

remember() is called at the end of prepare(). In each process renew() comes first of all, and begin() when it knows what it is to do. Only modules
that were imported are looked at.
"""
from .safe import builtins as __builtins__  # isort: skip

import ctypes
import functools
import gc
import random
import sys
import threading
import time
from os import urandom
from struct import unpack

_generators = []
_bit_generators = []
# A seed that somebody chose is a short number, or not told; one that numpy drew has 128 bits.
DRAWN_MIN = 1 << 64


def remember():
    """Generators that libraries made for themselves while they were imported. And a rehearsal: the first time is slow."""
    renew()
    begin()
    objects = gc.get_objects()
    _generators.extend(o for o in objects if isinstance(o, random.Random) and not isinstance(o, random.SystemRandom))
    kind = getattr(sys.modules.get("numpy.random"), "BitGenerator", None)
    if kind is not None:
        _bit_generators.extend(o for o in objects if isinstance(o, kind) and _is_drawn(o))


def _is_drawn(bit_generator):
    seed = getattr(bit_generator, "seed_seq", None) or getattr(bit_generator, "_seed_seq", None)
    entropy = getattr(seed, "entropy", None)
    return isinstance(entropy, int) and entropy >= DRAWN_MIN


def renew():
    for generator in _generators:
        generator.seed(urandom(32))
    _generators.clear()
    for generator in _bit_generators:
        generator.state = type(generator)().state
    _bit_generators.clear()
    random.seed()
    _take(FIRST_STEPS)
    threading.main_thread()._set_native_id()


def renew_again():
    """In a copy of a process that somebody has worked in. Generators that they have made are variables, and stay as they are, but for those whose seed
    numpy has drawn."""
    kind = getattr(sys.modules.get("numpy.random"), "BitGenerator", None)
    if kind is not None:
        _bit_generators.extend(o for o in gc.get_objects() if issubclass(type(o), kind) and _is_drawn(o))
    renew()


def begin():
    """What is the caller's: the time zone, and from when on time counts."""
    time.tzset()
    _take(LAST_STEPS)


def _take(steps):
    modules = sys.modules
    for name, step in steps.items():
        module = modules.get(name)
        if module is not None:
            try:
                step(module)
            except Exception:
                pass


def _numpy(module):
    # Ten times faster than without an argument.
    module.seed(list(unpack("=8I", urandom(32))))


def _ssl(module):
    module.RAND_add(urandom(32), 32.0)


@functools.cache
def _forget(library):
    return ctypes.PyDLL(library).sqlite3_randomness


def _sqlite(module):
    # Without a place to write to: the library seeds itself anew when it is asked for the next number.
    _forget(module.__file__)(0, None)


def _tempfile(module):
    module._name_sequence = module.tempdir = None


def _uuid(module):
    module._node = module._last_timestamp = None


def _logging(module):
    module._startTime = time.time_ns() if isinstance(module._startTime, int) else time.time()


def _multiprocessing(module):
    module.current_process()._config["authkey"] = module.AuthenticationString(urandom(32))


FIRST_STEPS = {"numpy.random": _numpy, "ssl": _ssl, "_sqlite3": _sqlite, "tempfile": _tempfile, "uuid": _uuid,
               "multiprocessing.process": _multiprocessing}
LAST_STEPS = {"logging": _logging}
