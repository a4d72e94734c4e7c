# SPDX-License-Identifier: Apache-2.0
"""The official conformance suite, against the client half and its transports (client_fixture.c): all that is scored and needs no OAuth."""
import re

import pytest

from conftest import program_path
from node import SCOPE, node, packages

pytestmark = pytest.mark.more

SUITE = f"{SCOPE}/conformance/dist/index.js"
# What is scored, and what was added since.
SCENARIOS = {
    "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "json-schema-2020-12-preservation"],
    "2026-07-28": ["tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers", "http-custom-headers", "http-invalid-tool-headers",
                   "json-schema-ref-no-deref", "json-schema-2020-12-preservation"],
}
RUN_S = 90


@pytest.mark.parametrize("revision", SCENARIOS)
def test_no_scored_scenario_is_left_out(revision):
    got = node(packages(), SUITE, "list", "--requirements", revision, timeout=RUN_S)
    scored = got.stdout.partition("Client scenarios")[2].partition("never scored")[0]
    names = [name for name in re.findall(r"^  - (\S+)", scored, re.M) if not name.startswith("auth/")]
    assert names and set(names) <= set(SCENARIOS[revision]), got.stdout + got.stderr


@pytest.mark.parametrize("revision, scenario", [(revision, name) for revision, names in SCENARIOS.items() for name in names])
def test_scenario(revision, scenario):
    got = node(packages(), SUITE, "client", "--command", program_path().parent / "client-fixture", "--scenario", scenario, "--spec-version", revision, timeout=RUN_S)
    said = got.stdout + got.stderr
    assert got.returncode == 0 and "OVERALL: PASSED" in said, said[-5000:]
    passed = re.search(r"Passed: (\d+)/(\d+), 0 failed, 0 warnings", said)
    assert passed and passed[1] == passed[2] != "0", said
