# SPDX-License-Identifier: Apache-2.0
"""Kernels for tests: real ones, with a real IPython, one per test.

A plugin, not a conftest.py: there is one already, and its name is imported by others.
"""
import os

import pytest

from fake_init import FakeInit, Zygote, has_module

# Every kernel from its own start instead of from a prepared one: slower, and should make no difference.
COLD = bool(os.environ.get("GLOVEBOX_KERNEL_COLD"))


@pytest.fixture(scope="session")
def ipython():
    if not has_module("IPython"):
        pytest.skip("NO IPYTHON: /usr/bin/python3 cannot import IPython, so the kernel is not tested here "
                    "(apt-get install python3-ipython, or set GLOVEBOX_KERNEL_LIBS)")


@pytest.fixture(scope="session")
def zygote(ipython, nothing_left_by_session, tmp_path_factory):
    """Ends before it is looked for what was left: the last test of a run need not have been one with a kernel."""
    if COLD:
        yield None
        return
    parent = Zygote(tmp_path_factory.mktemp("zygote"))
    yield parent
    parent.close()


@pytest.fixture
def boot(ipython, zygote, tmp_path):
    """boot(env={...}): a kernel, in an empty home; ended with the test."""
    started = []

    def call(**options):
        options.setdefault("zygote", zygote)
        home = tmp_path / f"home{len(started)}"
        home.mkdir()
        started.append(FakeInit(home, **options))
        return started[-1]

    yield call
    for kernel in started:
        kernel.close()


@pytest.fixture
def kernel(boot):
    return boot()


@pytest.fixture
def cold(boot):
    return boot(zygote=None)
