# SPDX-License-Identifier: Apache-2.0
"""What the tests of glovebox.compat.rayai share."""
import pytest
from pysdk import private_place, url_of  # noqa: F401

import glovebox
from glovebox.compat.rayai import cleanup_session
from glovebox.compat.rayai.sandbox import sessions
from server import serve  # noqa: F401

RESULT = {"status", "stdout", "stderr", "exit_code", "execution_id"}
ERROR = {"status", "error", "error_type", "execution_id"}


@pytest.fixture(autouse=True)
def no_session_is_left(serve, private_place):  # noqa: F811
    """Before a server that a test has started is stopped."""
    yield
    for id in list(sessions._sessions):
        cleanup_session(id)
    sessions._at_exit()


@pytest.fixture
def there(server, monkeypatch):
    """Sessions are on a server that runs already."""
    monkeypatch.setenv("GLOVEBOX_URL", url_of(server))
    return server


def boxes_of(server):
    with glovebox.Client(url_of(server)) as client:
        return [one.id for one in client.boxes.list()]


def good(result, exit_code=0):
    assert set(result) == RESULT and result["exit_code"] == exit_code and result["status"] == ("error" if exit_code else "success"), result
    return result["stdout"]


def bad(result, kind, *said):
    assert set(result) == ERROR and result["status"] == "error" and result["error_type"] == kind, result
    for one in said:
        assert one in result["error"], result
    return result["error"]
