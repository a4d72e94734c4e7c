# SPDX-License-Identifier: Apache-2.0
"""The programs that people use, in a box that may use them: dig, curl, wget, pip, git, npm. Nothing is set for them but what they trust."""
import base64
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from net import needs_root, server, shared, world  # noqa: F401
from net_world import PUBLIC

pytestmark = needs_root

RULES = {"policy": "allow", "rules": ["web.test:443", "web.test:80", "six.test"]}
CA = "/workspace/ca.pem"


def needs(*programs):
    """In a box are the programs of the machine that are below /usr."""
    return pytest.mark.skipif(not all(os.access(f"/usr/bin/{name}", os.X_OK) for name in programs), reason=f"{' or '.join(programs)} is not in /usr/bin")


@pytest.fixture
def box(server, world):
    it = server.box(network=RULES)
    assert server.request("PUT", f"/v1/boxes/{it['id']}/files/ca.pem", (world.folder / "ca.pem").read_bytes())[0] in (200, 201, 204)
    return it


def sh(server, box, text, status=0):
    """(standard output, standard error) of a shell in a box."""
    code, answer = server.call("POST", f"/v1/boxes/{box['id']}/commands", {"shell": text, "timeout_ms": 60000})
    assert code == 200 and answer["exit_code"] in ((status,) if isinstance(status, int) else status), answer
    return answer["stdout"], answer["stderr"]


def refused(server, box):
    return server.call("GET", f"/v1/boxes/{box['id']}")[1]["figures"]["network"]["refused_rules"]


@pytest.fixture(scope="module")
def files(world):
    folder = world.folder / "files"
    folder.mkdir(exist_ok=True)
    return folder


# --- names ---------------------------------------------------------------------------------------------------------


@needs("dig")
def test_dig(server, box):
    """An allowed name has an address of its own; another one has one that leads nowhere. The rest is an answer, too, and comes at once."""
    out, _ = sh(server, box, "dig +short +tries=1 web.test; dig +short +tries=1 other.test; dig +short +tries=1 +tcp web.test")
    assert out.splitlines() == ["198.18.1.0", "192.0.2.1", "198.18.1.0"]
    for kind in ("AAAA", "MX", "TXT", "SRV", "HTTPS", "SVCB", "NS", "SOA", "CAA"):
        out, _ = sh(server, box, f"dig +tries=1 web.test {kind}")
        assert "status: NOERROR" in out and "ANSWER: 0" in out, (kind, out)
    out, _ = sh(server, box, "dig +tries=1 +short -x 198.18.1.0")
    assert out == "web.test.\n"


@needs("getent")
def test_getent(server, box):
    assert sh(server, box, "getent ahostsv4 web.test")[0].split()[0] == "198.18.1.0"


# --- files -----------------------------------------------------------------------------------------------------------


@needs("curl")
def test_curl(server, box):
    for url in ("http://web.test/x", "https://web.test/x"):
        said = json.loads(sh(server, box, f"curl -sS --cacert {CA} {url}")[0])
        assert (said["host"], said["path"], said["at"]) == ("web.test", "/x", PUBLIC)
    assert json.loads(sh(server, box, f"curl -sS --http2 --cacert {CA} https://web.test/x")[0])["path"] == "/x"
    assert json.loads(sh(server, box, f"curl -sS -x socks5h://127.0.0.1:1080 --cacert {CA} https://web.test/x")[0])["path"] == "/x"
    assert json.loads(sh(server, box, f"curl -sS -x http://127.0.0.1:1080 --cacert {CA} https://web.test/x")[0])["path"] == "/x"


@needs("curl")
def test_curl_is_told_why_not(server, box):
    """At once, by the kernel; with a proxy, in words; and the box says which rule would do."""
    _, err = sh(server, box, "curl -sS http://other.test/", status=7)
    assert "other.test" in err
    assert "403" in sh(server, box, "curl -sS -x http://127.0.0.1:1080 https://other.test/", status=56)[1]
    out, _ = sh(server, box, "curl -s -x http://127.0.0.1:1080 http://other.test/")
    assert "other.test:80 is not allowed by the network rules of this box" in out
    sh(server, box, "curl -sS http://web.test:81/", status=(7, 56))  # reset: before curl has seen that it was connected, or behind that
    assert {"other.test", "other.test:443", "other.test:80", "web.test:81"} <= set(refused(server, box))
    assert server.network(box, "allow", *RULES["rules"], *refused(server, box))[0] == 200
    assert refused(server, box) == []
    assert json.loads(sh(server, box, "curl -sS http://other.test/")[0])["host"] == "other.test"


@needs("wget")
def test_wget(server, box):
    assert json.loads(sh(server, box, f"wget -q -O - --ca-certificate={CA} https://web.test/x")[0])["path"] == "/x"
    assert "Network is unreachable" in sh(server, box, "wget -t 1 -O - http://other.test/", status=4)[1]


# --- packages --------------------------------------------------------------------------------------------------------


def make_wheel(folder, name):
    """A wheel with one module, and the page on which pip finds it."""
    wheel = f"{name}-1.0-py3-none-any.whl"
    (folder / "simple" / name).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "simple" / name / wheel, "w") as z:
        parts = {f"{name}.py": "answer = 42\n", f"{name}-1.0.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                 f"{name}-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
        for path, text in parts.items():
            z.writestr(path, text)
        z.writestr(f"{name}-1.0.dist-info/RECORD", "".join(f"{path},,\n" for path in parts) + f"{name}-1.0.dist-info/RECORD,,\n")
    (folder / "simple" / name / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')


@needs("pip3")
def test_pip(server, box, files):
    make_wheel(files, "gbnumbers")
    sh(server, box, f"pip3 install -q --no-cache-dir --disable-pip-version-check --cert {CA} --index-url https://web.test/files/simple --target /workspace/lib gbnumbers")
    assert sh(server, box, "PYTHONPATH=/workspace/lib python3 -c 'import gbnumbers; print(gbnumbers.answer)'")[0] == "42\n"
    _, err = sh(server, box, "pip3 install -q --no-cache-dir --disable-pip-version-check --retries 1 --target /workspace/other --index-url https://other.test/simple gbnumbers", status=1)
    assert "Network is unreachable" in err
    _, err = sh(server, box, "pip3 --proxy http://127.0.0.1:1080 install -q --no-cache-dir --disable-pip-version-check --retries 1 --target /workspace/other --index-url https://other.test/simple gbnumbers", status=1)
    assert "other.test:443 is not allowed by the network rules of this box" in err


@needs("git")
def test_git(server, box, files):
    """From a server that only has files, as any web server can be one."""
    work = files / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(files / "work.git", ignore_errors=True)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"]
    work.mkdir()
    (work / "README").write_text("hello\n")
    for words in (["init", "-q"], ["add", "README"], ["commit", "-q", "-m", "one"], ["clone", "-q", "--bare", ".", str(files / "work.git")]):
        subprocess.run([*git, *words], cwd=work, check=True)
    subprocess.run([*git, "update-server-info"], cwd=files / "work.git", check=True)
    assert sh(server, box, f"git -c http.sslCAInfo={CA} clone -q https://web.test/files/work.git here && cat here/README")[0] == "hello\n"
    assert "other.test" in sh(server, box, "git clone -q https://other.test/files/work.git there", status=128)[1]


@needs("npm", "node")
def test_npm(server, box, files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for path, text in (("package/package.json", json.dumps({"name": "gbnumbers", "version": "1.0.0", "main": "index.js"})), ("package/index.js", "module.exports = 42\n")):
            member = tarfile.TarInfo(path)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    folder = pathlib.Path(files, "npm")
    (folder / "gbnumbers-1.0.0").mkdir(parents=True, exist_ok=True)
    (folder / "gbnumbers-1.0.0" / "package.tgz").write_bytes(data.getvalue())
    digest = base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
    version = {"name": "gbnumbers", "version": "1.0.0", "main": "index.js",
               "dist": {"tarball": "https://web.test/files/npm/gbnumbers-1.0.0/package.tgz", "integrity": f"sha512-{digest}"}}
    (folder / "gbnumbers").write_text(json.dumps({"name": "gbnumbers", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}))
    npm = f"npm install --no-audit --no-fund --loglevel=error --cafile={CA} --fetch-retries=0"
    sh(server, box, f"{npm} --registry=https://web.test/files/npm/ gbnumbers")
    assert sh(server, box, "node -p 'require(\"gbnumbers\")'")[0] == "42\n"
    assert "ENETUNREACH" in sh(server, box, f"{npm} --registry=https://other.test/ gbothers", status=1)[1]
