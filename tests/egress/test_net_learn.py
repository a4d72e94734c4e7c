# SPDX-License-Identifier: Apache-2.0
"""The policy learn: a box reaches what an open one does, and it is told which rules would have been needed."""
import errno
import json

from net import needs_root, own, server, shared, world  # noqa: F401
from net_world import METADATA, OTHER, PRIVATE, PUBLIC, PUBLIC6
from server import until

pytestmark = needs_root

PROGRAM = f"""
say(get("http://web.test/")["at"], get("http://{OTHER}/")["at"], get("http://[{PUBLIC6}]/")["at"])
for i in range(3):
    get("http://www.web.test/")
say(get("http://{PRIVATE}/"), get("http://inner.test/"), get("http://{METADATA}/"))
"""
SAID = [[PUBLIC, OTHER, PUBLIC6], [errno.ENETUNREACH, errno.ECONNRESET, errno.ENETUNREACH]]
# What the kernel refused has never been heard of; the address that a name led to has, and needs a rule beside that of the name.
RULES = {"web.test:80", "inner.test:80", f"{OTHER}:80", f"[{PUBLIC6}]:80", "www.web.test:80", f"{PRIVATE}:80"}


def learned(server, box):
    return server.call("GET", f"/v1/boxes/{box['id']}")[1]["network"]["learned"]


def test_what_was_needed(server):
    box = server.box(network={"policy": "learn"})
    assert box["network"] == {"policy": "learn", "rules": [], "learned": []}
    assert server.python(box, PROGRAM) == SAID
    until(lambda: set(learned(server, box)) == RULES, "all of them are there")
    assert len(learned(server, box)) == len(RULES)


def test_what_rules_allow_or_deny_is_not_learned(server):
    box = server.box(network={"policy": "learn", "rules": ["web.test", "!other.test"]})
    assert server.python(box, 'say(get("http://web.test/")["at"], get("http://other.test/"), get("http://www.web.test/")["at"])') == [[PUBLIC, errno.ENETUNREACH, PUBLIC]]
    until(lambda: learned(server, box) == ["www.web.test:80"], "the one that has no rule")


def test_what_was_learned_is_enough(server):
    """The rules of one run are those with which the next one does the same."""
    box = server.box(network={"policy": "learn"})
    program = 'say(get("http://web.test/")["at"], get("https://other.test/"), get("http://www.web.test/")["at"])'
    before = server.python(box, program)
    rules = until(lambda: learned(server, box) if len(learned(server, box)) == 3 else None, "three rules")
    assert server.network(box, "allow", *rules)[1]["network"] == {"policy": "allow", "rules": rules}
    assert server.python(box, program) == before
    assert server.python(box, f'say(get("http://{OTHER}/"))') == [errno.ENETUNREACH]


def test_a_change_forgets(server):
    box = server.box(network={"policy": "learn"})
    server.python(box, 'get("http://web.test/")')
    until(lambda: learned(server, box) == ["web.test:80"], "it is there")
    assert server.network(box, "learn")[1]["network"]["learned"] == []


def test_it_is_bounded(server):
    """A box can want to reach anything: 256 rules are kept, as many as it could have."""
    box = server.box(network={"policy": "learn"})
    server.python(box, """
        for i in range(300):
            dial("web.test", 10000 + i)
        """)
    until(lambda: [e for e in server.audit("network_connection") if e["box"] == box["id"] and e["to"] == "web.test:10299"], "the last one")
    assert learned(server, box) == [f"web.test:{10000 + i}" for i in range(256)]


def test_a_run(world):
    done = world.run(PROGRAM, "--network", "learn")
    assert [json.loads(line) for line in done.stdout.splitlines()] == SAID
    line = next(line for line in done.stderr.splitlines() if line.startswith("glovebox: learned:"))
    words = line.removeprefix("glovebox: learned:").split()
    assert words[::2] == ["--allow"] * (len(words) // 2)
    assert {word.strip("'") for word in words[1::2]} == RULES - {f"{PRIVATE}:80"}
    assert f"the network refused {PRIVATE}:80; --allow {PRIVATE}:80 allows it" in done.stderr


def test_a_run_with_what_it_has_learned(world):
    done = world.run('say(get("http://web.test/")["at"])', "--network", "learn", allow=["web.test"])
    assert "learned" not in done.stderr


def test_the_audit(server):
    box = server.box(network={"policy": "learn"})
    server.python(box, 'get("http://web.test/")')
    lines = until(lambda: [e for e in server.audit("network_connection") if e["box"] == box["id"]], "a line in the audit")
    assert [(e["to"], e["rule"], e["end"]) for e in lines] == [("web.test:80", "learn", "closed")]
