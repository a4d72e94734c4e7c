# SPDX-License-Identifier: Apache-2.0
"""`glovebox run --allow` and `glovebox serve` of an ordinary user: the same network, the same refusals."""
import errno
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import program_path
from net import PRELUDE, Net, needs_root, world  # noqa: F401
from net_world import INSIDE6, METADATA, OTHER, PRIVATE, PUBLIC, PUBLIC6, RESOLVER
from test_net_inject import AUTHORIZATION, SEEN, TOKEN
from test_net_run import SOCKS

pytestmark = needs_root

UID = 23456
# What an ordinary user lacks here.
MISSING = "memory-limit,process-limit,cpu-limit,own-uids"
AS_USER = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]


@pytest.fixture
def home():
    """Its own files, and the program where it can be read: the one under test may lie in a directory of root's."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
    for name in ("glovebox", "glovebox-gate"):
        shutil.copy(program_path().parent / name, folder / name)
    for path in (folder, *folder.iterdir()):
        os.chown(path, UID, UID)
    yield folder
    shutil.rmtree(folder)
    shutil.rmtree(f"/tmp/glovebox-{UID}", ignore_errors=True)


def test_the_same_for_an_ordinary_user(world, home):
    code = PRELUDE + f"""
say(get("http://web.test/")["at"], get("http://other.test/"), get("http://{PUBLIC}/"), get("http://10.9.9.9/"))
"""
    done = subprocess.run(world.inside(*AS_USER, home / "glovebox", "run", "--accept-missing", MISSING, "--allow", "web.test", "--resolver", RESOLVER, "-"),
                          input=code, capture_output=True, text=True, timeout=60, check=False, cwd=home, env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": ""})
    if "user namespace" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [PUBLIC] + [errno.ENETUNREACH] * 3
    assert "--allow other.test" in done.stderr


@pytest.fixture
def own(world, home):
    """Its own server. The program that is started is the one in its home."""
    state = home / "state"
    state.mkdir()
    shutil.copy(world.folder / "ca.pem", home)
    for path in (state, home / "ca.pem"):
        os.chown(path, UID, UID)
    server = Net(world, home, state_dir=state, accept_missing=MISSING, secret="web=env:WEB_TOKEN@web.test", secret_ca_file=home / "ca.pem",
                 env={"WEB_TOKEN": TOKEN, "HOME": str(home), "XDG_RUNTIME_DIR": ""})
    server.prefix = world.inside(*AS_USER, "sh", "-c", f'shift; exec {home}/glovebox "$@"', "sh")
    try:
        server.start()
    except pytest.fail.Exception:
        if "user namespace" in server.log():
            pytest.skip(server.log())
        raise
    yield server
    server.stop()


# Public, denied, inside, and what needs no route.
TRY = PRELUDE + SEEN + SOCKS + f"""
def at(url):
    r = get(url)
    return r["at"] if isinstance(r, dict) else r
def by_device(address):
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
            s.settimeout(20)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\\0")
            s.connect((address, 80))
            s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            return s.recv(4).decode()
    except OSError as e:
        return e.errno
def is_none(*words):
    try:
        return socket.socket(*words).close()
    except OSError:
        return True
say([at(u) for u in ("http://web.test/", "http://other.test/", "http://inner.test/", "http://{PRIVATE}/", "http://{METADATA}/", "http://{OTHER}/", "http://[{PUBLIC6}]/", "http://[{INSIDE6[0]}]/")],
    [by_device(a) for a in ("{PRIVATE}", "{METADATA}", "{OTHER}")], socks(b"web.test\\0.other.test")[1], [is_none(*k) for k in ((17, 3, 0), (2, 3, 1), (2, 2, 1), (16, 3, 12), (40, 1, 0), (31, 3, 0))])
"""
U, R = errno.ENETUNREACH, errno.ECONNRESET


def test_a_server_of_an_ordinary_user(own):
    """Its boxes reach what rules say, also when they change, and nothing inside."""
    box = own.box(network={"policy": "allow", "rules": ["web.test", "inner.test"]})
    assert own.python(box, TRY) == [[[PUBLIC, U, R, U, U, U, U, U], [R, R, R], 8, [True] * 6]]
    assert own.network(box, "allow", "other.test", OTHER)[0] == 200
    assert own.python(box, TRY) == [[[U, OTHER, U, U, U, OTHER, U, U], [R, R, "HTTP"], 8, [True] * 6]]
    assert own.network(box, "open", "!other.test", f"!{OTHER}")[0] == 200
    assert own.python(box, TRY) == [[[PUBLIC, U, R, U, U, U, PUBLIC6, U], [R, R, R], 8, [True] * 6]]
    assert own.network(box, "none")[0] == 200
    said = own.python(box, TRY.partition("\nsay(")[0] + f'\nsay([at(u) for u in ("http://web.test/", "http://other.test/", "http://{PRIVATE}/", "http://{PUBLIC}/")])')
    assert said == [[U] * 4]


def test_secrets_of_an_ordinary_user(own):
    """Put in, hidden, not told to a server that nobody vouches for, and gone with the rule; by a process that has no capability."""
    rule = {"host": "web.test", "ports": [443, 8443], "inject": AUTHORIZATION}
    box = own.box(network={"policy": "allow", "rules": [rule]})
    said = own.python(box, SEEN + 'say(seen("https://web.test/echo/"), fetch("https://web.test:8443/echo/"), open("/etc/ssl/glovebox.pem").read().count("BEGIN CERT"))')[0]
    assert said[0]["authorization"] == "Bearer " + "*" * len(json.dumps(TOKEN)[1:-1]) and said[1][0] == 502 and said[2] == 2
    assert TOKEN not in json.dumps(said) + own.log() + (own.state_dir / "audit/audit.jsonl").read_text(encoding="utf-8")
    assert own.network(box, "allow", {**rule, "inject": {**AUTHORIZATION, "redact": False}})[0] == 200
    assert own.python(box, SEEN + 'say(seen("https://web.test/echo/")["authorization"])') == ["Bearer " + TOKEN]
    assert own.network(box, "allow", "web.test:443")[0] == 200
    assert own.python(box, SEEN + 'say("uthorization" in urllib.request.urlopen("https://web.test/echo/", context=ssl._create_unverified_context()).read().decode())') == [False]
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{own.pid_of('egress')}/status").read_text(encoding="ascii").splitlines())
    assert all(int(status[f"Cap{kind}"], 16) == 0 for kind in ("Prm", "Eff", "Bnd", "Amb")) and status["NoNewPrivs"].strip() == "1"
