# SPDX-License-Identifier: Apache-2.0
"""What must not be the same in two processes that went on from one image: random numbers, names, identities.

remember() is called at the end of prepare(), renew() in serve(). Only modules that were imported are looked at.
"""
from .safe import builtins as __builtins__  # isort: skip

import gc
import random
import sys
import threading
import time
from os import urandom
from struct import unpack

_generators = []


def remember():
    """Generators that libraries made for themselves while they were imported. And a rehearsal: the first time is slow."""
    renew()
    _generators.extend(o for o in gc.get_objects() if isinstance(o, random.Random) and not isinstance(o, random.SystemRandom))


def renew():
    for generator in _generators:
        generator.seed(urandom(32))
    _generators.clear()
    random.seed()
    modules = sys.modules
    for name, step in STEPS.items():
        module = modules.get(name)
        if module is not None:
            try:
                step(module)
            except Exception:
                pass
    threading.main_thread()._set_native_id()
    time.tzset()


def _numpy(module):
    # Ten times faster than without an argument.
    module.seed(list(unpack("=8I", urandom(32))))


def _ssl(module):
    module.RAND_add(urandom(32), 32.0)


def _tempfile(module):
    module._name_sequence = module.tempdir = None


def _uuid(module):
    module._node = module._last_timestamp = None


def _logging(module):
    module._startTime = time.time_ns() if isinstance(module._startTime, int) else time.time()


def _multiprocessing(module):
    module.current_process()._config["authkey"] = module.AuthenticationString(urandom(32))


STEPS = {"numpy.random": _numpy, "ssl": _ssl, "tempfile": _tempfile, "uuid": _uuid, "logging": _logging,
         "multiprocessing.process": _multiprocessing}
