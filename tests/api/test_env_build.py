# SPDX-License-Identifier: Apache-2.0
"""`glovebox env build`: packages beside the machine's own, put there by pip in a box; and what boxes and servers make of them."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile

import pytest

from cells import NO_POOL, Session
from server import WARM, needs_root, serve, until  # noqa: F401
from test_env_import import Place
from wheels import wheel

pytestmark = needs_root


@pytest.fixture
def wheels(tmp_path):
    """A directory with packages; more are put there by tests."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    put(folder, "gbfirst")
    put(folder, "gbsecond", requires=["gbfirst>=1"])
    return folder


def put(folder, *about, **kw):
    name, data = wheel(*about, **kw)
    (folder / name).write_bytes(data)


@pytest.fixture
def place(run, tmp_path, wheels):
    """With build(): from those wheels, without a network."""
    place = Place(run, tmp_path / "environments")
    place.build = lambda *words, name="mine", **kw: place.env("build", "--find-links", wheels, "--no-index", name, *map(str, words), **kw)
    return place


def built(place, *words, **kw):
    done = place.build(*words, **kw)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return done.stdout.decode()


# --- what is built ---------------------------------------------------------------------------------------------


def test_requirements_from_a_file_and_from_words(place, wheels, tmp_path):
    put(wheels, "gbthird", "2.5")
    file = tmp_path / "requirements.txt"
    file.write_text("# of ours\ngbsecond==1.0  # and what it needs\n")
    said = built(place, "-r", file, "gbthird>=2", "--imports", "gbfirst")
    assert "== packages" in said and "gbsecond-1.0" in said and "mine: Python 3." in said, "progress is shown"
    told = place.python("import gbfirst, gbsecond, gbthird, sys, numpy, os, shutil; print(gbthird.VERSION, sys.prefix, os.environ['VIRTUAL_ENV'], shutil.which('python3'))")
    assert told == "2.5 /opt/environment /opt/environment /opt/environment/bin/python3\n", "beside the machine's own"
    about, = place.listed()
    assert (about["name"], about["kind"], about["imports"], about["cells"]) == ("mine", "packages", "gbfirst", True)
    shown = place.env("show", "mine").stdout.decode()
    assert "imported ahead  gbfirst" in shown and "cells           yes" in shown
    assert place.env("remove", "mine").returncode == 0 and place.files() == [] and place.listed() == []


@pytest.mark.more
def test_isolated(place):
    said = built(place, "--isolated", "gbfirst")
    assert "without IPython" in said
    assert place.python("import gbfirst, importlib.util as u; print(u.find_spec('numpy'))") == "None\n"


@pytest.mark.more
def test_programs_of_packages_are_found(place, wheels):
    files = {"gbtool.py": "def main():\n    print('the tool')\n", "gbtool-1.0.dist-info/entry_points.txt": "[console_scripts]\ngbtool = gbtool:main\n"}
    put(wheels, "gbtool", files=files)
    built(place, "gbtool")
    assert place.sh("gbtool") == ("the tool\n", "", 0)


@pytest.mark.more
def test_what_cannot_be_imported_is_said(place, wheels):
    put(wheels, "gbbad", files={"gbbad.py": "raise RuntimeError('\\x1b[31mnot \\n here')\n"})
    done = place.build("gbbad", "--imports", "gbbad gbnowhere")
    said = done.stderr.decode()
    assert done.returncode == 0 and "cannot be imported: gbbad: RuntimeError: " in said and "gbnowhere: ModuleNotFoundError" in said
    assert "\x1b" not in said, "and nothing of it reaches the terminal"


def test_another_one_leaves_boxes_that_run_alone(place, wheels, start):
    built(place, "gbfirst")
    box = start("run", "-i", "--environments-dir", place.path, "--environment", "mine", "-c",
                "import sys\nprint('begun', flush=True)\nsys.stdin.readline()\nimport gbfirst\nprint(gbfirst.VERSION)", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert box.stdout.readline() == b"begun\n"
    put(wheels, "gbfirst", "2.0")
    built(place, "gbfirst")
    assert place.python("import gbfirst; print(gbfirst.VERSION)") == "2.0\n"
    assert len(place.files()) == 3, "a name, and two versions"
    assert place.env("remove", "mine").returncode == 0 and len(place.files()) == 1
    assert box.communicate(b"\n")[0] == b"1.0\n"
    put(wheels, "gbfirst", "3.0")
    built(place, "gbfirst")
    assert len(place.files()) == 2, "what nobody has any more is removed by the next"


# --- in a box ----------------------------------------------------------------------------------------------------

SETUP = """
import json, os, socket
from setuptools import setup

def outcome(f):
    try:
        return f()
    except OSError as e:
        return type(e).__name__

seen = {"uid": os.getuid(), "root": outcome(lambda: os.listdir("/root")), "secret": outcome(lambda: open(%(secret)r).read()),
        "network": outcome(lambda: socket.create_connection(("127.0.0.1", %(port)d), 2) and "reached"),
        "others": sorted(outcome(lambda: os.listdir("/opt"))), "usr": outcome(lambda: open("/usr/lib/x", "w") and "written"),
        "processes": [p for p in os.listdir("/proc") if p.isdigit() and "glovebox" in open("/proc/" + p + "/cmdline").read()]}
open("gbsource.py", "w").write("SEEN = " + repr(seen))
setup(name="gbsource", version="1.0", py_modules=["gbsource"])
"""


@pytest.mark.more
def test_what_builds_sees_nothing_of_the_machine(place, wheels, tmp_path):
    """A package that runs code when it is built."""
    if not pathlib.Path("/usr/lib/python3/dist-packages/wheel").is_dir():
        pytest.skip("python3-wheel is not installed")
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    with socket.create_server(("127.0.0.1", 0)) as host, tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "setup.py").write_text(SETUP % {"secret": str(secret), "port": host.getsockname()[1]})
        with tarfile.open(wheels / "gbsource-1.0.tar.gz", "w:gz") as archive:
            archive.add(folder + "/setup.py", "gbsource-1.0/setup.py")
        done = place.build("--python", "/usr/bin/python3", "gbsource", env={**os.environ, "PIP_NO_BUILD_ISOLATION": "0", "SECRET": "x"})
    assert done.returncode == 0, done.stdout.decode()[-3000:]
    seen = eval(place.python("import gbsource; print(gbsource.SEEN)"))  # noqa: S307: what a test of ours wrote
    assert seen == {"uid": 65532, "root": "FileNotFoundError", "secret": "FileNotFoundError", "network": "ConnectionRefusedError", "others": ["environment"],
                    "usr": "OSError", "processes": []}


def test_it_is_read_only_for_those_who_use_it(place):
    built(place, "gbfirst")
    out, err, _ = place.sh("echo x > /opt/environment/x; python3 -m pip install --no-index nothing; rm -rf /opt/environment; python3 -c 'import gbfirst; print(gbfirst.VERSION)'")
    assert out.endswith("1.0\n") and "Read-only" in err


# --- what cannot be built ------------------------------------------------------------------------------------------


def test_what_does_not_resolve(place):
    built(place, "gbfirst")
    before = place.files()
    for words, why in ((["gbnowhere"], "No matching distribution found for gbnowhere"), (["gbfirst>=9"], "gbfirst>=9"), (["gbfirst", "gbfirst==0.1"], "gbfirst")):
        done = place.build(*words)
        assert done.returncode not in (0, None) and why in done.stderr.decode() + done.stdout.decode()
        assert place.files() == before
    assert place.python("import gbfirst; print(gbfirst.VERSION)") == "1.0\n", "and the name means what it meant"


def test_bad_words(place, tmp_path):
    bad = [["-r", tmp_path / "nothing"], ["-r", tmp_path], ["--python", "/usr/bin/no-python", "gbfirst"], ["--imports", "os; x", "gbfirst"], ["--pool", "many", "gbfirst"],
           ["--bytes", "little", "gbfirst"], ["--no-such"], ["--timeout", "1ms", "gbfirst"]]
    for words in bad:
        done = place.build(*words)
        assert done.returncode not in (0, None) and done.stderr and b"Traceback" not in done.stderr, words
    for name in ("", ".", "..", "a/b", "default", "python", "Upper", "a b", "-x", "a" * 64, "x@1"):
        done = place.build("gbfirst", name=name)
        assert done.returncode not in (0, None) and done.stderr, name
    assert place.files() == []


def test_what_becomes_too_large(place, wheels):
    put(wheels, "gblarge", files={"gblarge.py": "x = 1\n" + "#" * (40 << 20)})
    done = place.build("--bytes", "30M", "gblarge")
    assert done.returncode not in (0, None) and place.files() == []
    assert "--bytes" in done.stderr.decode() or "too large" in (done.stderr + done.stdout).decode().lower(), done.stderr


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(place, glovebox, sig):
    process = subprocess.Popen([glovebox, "env", "build", "--dir", place.path, "--no-index", "mine"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: place.files() != [], "its beginning")
    process.stdout.readline()
    process.send_signal(sig)
    assert process.wait(60) == 128 + sig, process.stdout.read()
    process.stdout.close()
    assert place.files() == []


@pytest.mark.more
def test_a_kill_leaves_what_the_next_removes(place, glovebox):
    process = subprocess.Popen([glovebox, "env", "build", "--dir", place.path, "--no-index", "other"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    process.stdout.readline()
    process.kill()
    process.communicate()
    assert place.listed() == []
    built(place, "gbfirst")
    assert [name.partition("@")[0] for name in place.files()] == ["mine", "mine"]


def test_nobody_else_may_write_where_they_are(place):
    place.path.mkdir()
    place.path.chmod(0o777)
    done = place.build("gbfirst")
    assert done.returncode not in (0, None) and b"can be written to by others" in done.stderr and place.files() == []


def test_who_asks_makes_nothing(place):
    assert place.listed() == [] and not place.path.exists()
    for verb in ("show", "remove"):
        done = place.env(verb, "mine")
        assert done.returncode not in (0, None) and b"no environment 'mine'" in done.stderr
    done = place.run("run", "--environments-dir", place.path, "--environment", "mine", "-c", "1")
    assert done.returncode == 125 and b"no environment 'mine'" in done.stderr


# --- an ordinary user ------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_an_ordinary_user(glovebox, wheels):
    """Without a uid of its own for what builds, which is said; and what it leaves is for nobody else."""
    uid, home = 54323, pathlib.Path(tempfile.mkdtemp(prefix="gbtest-"))
    try:
        shutil.copy(glovebox, home / "glovebox")
        shutil.copytree(wheels, home / "wheels")
        for path in (home, home / "glovebox", home / "wheels", *(home / "wheels").iterdir()):
            os.chown(path, uid, uid)
        missing = "own-uids,memory-limit,process-limit,cpu-limit"

        def call(*words):
            return subprocess.run([home / "glovebox", *words], env={"PATH": "/usr/bin:/bin", "HOME": str(home)}, user=uid, group=uid, extra_groups=[], cwd=home,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)

        done = call("env", "build", "--find-links", home / "wheels", "--no-index", "--accept-missing", missing, "mine", "gbfirst")
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
        done = call("run", "--accept-missing", missing, "--environment", "mine", "-c", "import gbfirst; print(gbfirst.__file__)")
        assert done.stdout.startswith(b"/opt/environment/lib/python3"), done.stderr.decode()
        folder = home / ".local/state/glovebox/environments"
        assert [oct(os.lstat(path).st_mode & 0o777) for path in folder.glob("mine@*")] == ["0o700"]
        assert call("env", "remove", "mine").returncode == 0 and os.listdir(folder) == []
    finally:
        shutil.rmtree(home)
        shutil.rmtree(f"/tmp/glovebox-{uid}", ignore_errors=True)


# --- servers ---------------------------------------------------------------------------------------------------------


def test_a_server_takes_what_is_built(place, serve):  # noqa: F811
    """At once, without being told; by its name for boxes and for Jupyter's clients."""
    server = serve(environments_dir=place.path, env=NO_POOL)
    assert server.call("POST", "/v1/boxes", {"environment": "mine"})[0] == 422
    built(place, "gbfirst")
    until(lambda: server.call("GET", "/v1/environments/mine")[0] == 200, "the environment")
    with Session(server, environment="mine") as box:
        assert box.value("import gbfirst; gbfirst.VERSION") == "'1.0'"
    specs = server.call("GET", "/api/kernelspecs")[1]
    assert specs["default"] == "python3" and {"python3", "mine"} <= set(specs["kernelspecs"])
    status, kernel = server.call("POST", "/api/kernels", {"name": "mine"})
    assert (status, kernel["name"]) == (201, "mine")
    assert server.request("DELETE", f"/api/kernels/{kernel['id']}")[0] == 204
    assert place.env("remove", "mine").returncode == 0
    until(lambda: server.call("GET", "/v1/environments/mine")[0] == 404, "its end")
    assert server.call("POST", "/api/kernels", {"name": "mine"})[0] >= 400


@pytest.mark.more
def test_another_one_has_another_image(place, wheels, serve):  # noqa: F811
    """Its kernels are copies of a Python that has imported the new version; those that run are not touched."""
    put(wheels, "gbahead")
    built(place, "gbahead", "--imports", "gbahead")
    server = serve(environments_dir=place.path, **WARM, env=NO_POOL)
    warm = "import sys; 'gbahead' in sys.modules and sys.modules['gbahead'].VERSION"

    def version_of(name):
        with Session(server, environment=name) as box:
            return box.value(warm)

    version_of("mine")  # whoever uses it first has it made
    until(lambda: server.call("GET", "/v1/environments/mine")[1]["warm"], "its image")
    with Session(server, environment="mine") as old:
        assert old.value(warm) == "'1.0'"
        put(wheels, "gbahead", "2.0")
        built(place, "gbahead", "--imports", "gbahead")
        until(lambda: version_of("mine") == "'2.0'", "the new image")
        assert old.value(warm) == "'1.0'" and old.value("import gbahead; gbahead.VERSION") == "'1.0'"
        assert old.value("import gbahead; gbahead.VERSION", kernel="other") == "'1.0'", "another kernel of the same box"


@pytest.mark.more
def test_each_has_its_own_pool(place, serve):  # noqa: F811
    built(place, "gbfirst", "--imports", "gbfirst", "--pool", "2")
    server = serve(environments_dir=place.path, **WARM)
    until(lambda: server.call("GET", "/v1/environments/mine")[1]["ready"] == 2, "its pool")
    with Session(server, environment="mine") as box:
        assert box.value("import sys; 'gbfirst' in sys.modules") == "True"
    assert server.call("GET", "/v1/environments/default")[1]["ready"] == 0
    built(place, "gbfirst")
    until(lambda: server.call("GET", "/v1/environments/mine")[1]["ready"] == 0, "the end of what was of the old one")
