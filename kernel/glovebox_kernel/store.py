# SPDX-License-Identifier: Apache-2.0
"""What IPython would keep in files of its profile, in memory."""
from .safe import builtins as __builtins__  # isort: skip

import os
from fnmatch import fnmatch
from pickle import dumps, loads

from IPython.core.profiledir import ProfileDir
from traitlets import observe


class Profile(ProfileDir):
    """Has a place, and makes no directory there."""

    @observe("location")
    def _location_changed(self, change):
        for name in ("security", "log", "startup", "pid", "static"):
            setattr(self, f"{name}_dir", os.path.join(change["new"], name))

    def _mkdir(self, path, mode=None):
        return False

    @observe("log_dir")
    def check_log_dir(self, change=None):
        pass

    @observe("startup_dir")
    def check_startup_dir(self, change=None):
        pass

    @observe("security_dir")
    def check_security_dir(self, change=None):
        pass

    @observe("pid_dir")
    def check_pid_dir(self, change=None):
        pass


class Memory:
    """shell.db, as %store, %bookmark and %cd use it: values are copies of what was put in."""

    def __init__(self, *_):
        self._values = {}

    def __getitem__(self, key):
        return loads(self._values[key])

    def __setitem__(self, key, value):
        self._values[key] = dumps(value)

    def __delitem__(self, key):
        self._values.pop(key, None)

    def __contains__(self, key):
        return key in self._values

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        return len(self._values)

    def get(self, key, default=None):
        return self[key] if key in self._values else default

    def keys(self, pattern=None):
        return [key for key in self._values if pattern is None or fnmatch(key, pattern)]

    def clear(self):
        self._values.clear()
