# SPDX-License-Identifier: Apache-2.0
"""The tools that judge everything else: do they see what they are there to see?"""
import importlib.machinery
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import textwrap
import types
import urllib.request

import pytest

from conftest import program_path
from server import START_S, STOP_S, environment, needs_root

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def tool(*words, **kw):
    return subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=False, **kw)


# --- tools/test: going on with what was interrupted ---------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    """commit(NAME=TEXT, ...): a repository whose files are changed and committed."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x", "-C", tmp_path]
    subprocess.run([*git, "init", "-q"], check=True)

    def commit(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)

    commit({".gitignore": "build\n__pycache__\n"})
    commit.root = tmp_path
    return commit


def module_of(path):
    loader, module = importlib.machinery.SourceFileLoader(path.name, str(path)), types.ModuleType(path.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def test_parts_that_have_passed_are_not_run_again(repository, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "tools")
    module = module_of(ROOT / "tools/test")

    def suite(go_on=True):
        ran, one = [], module.Suite("", False, module.passed.Record(repository.root, begin=not go_on))
        one.part("good", lambda: (ran.append("good"), (module.Counts(3, 0, 1), ""))[1], tests=("tests/unit",))
        one.part("bad", lambda: (ran.append("bad"), (module.Counts(2, 1, 0), "why"))[1], tests=("tests/unit",))
        return ran, str(one.total)

    both, all_of_it = ["good", "bad"], "5 passed, 1 failed, 1 skipped"
    repository({"file": "first"})
    assert suite() == (both, all_of_it)
    assert suite() == (["bad"], all_of_it), "what failed is run again, what passed counts"
    assert "3 passed, 0 failed, 1 skipped, before" in capsys.readouterr().out
    repository({"tests/api/test_other.py": "", "docs/status.md": "written"})
    assert suite() == (["bad"], all_of_it), "not what concerns others"
    repository({"tests/unit/test_mine.c": ""})
    assert suite() == (both, all_of_it), "its own tests"
    repository({"tests/helper.py": ""})
    assert suite() == (both, all_of_it), "what all tests share"
    assert suite(go_on=False) == (both, all_of_it)
    (repository.root / "file").write_text("not committed")
    assert suite() == (both, all_of_it)
    repository({"file": "second"})
    assert suite() == (both, all_of_it), "other files"
    assert suite() == (["bad"], all_of_it)


def test_tests_that_have_passed_are_not_run_again(repository):
    shutil.copytree(ROOT / "tools", repository.root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    text = """
import pathlib, pytest
def ran(name): open(pathlib.Path.cwd() / "build" / "ran", "a").write(name + " ")
@pytest.fixture
def untidy():
    yield
    assert not "left behind"
def test_good(): ran("NAME")
def test_bad(): ran("NAME-bad"); assert False
def test_untidy(untidy): ran("NAME-untidy")
def test_skipped(): ran("NAME-skipped"); pytest.skip()
"""
    # One of them by way of a link, as those of the SDK.
    repository({"tests/pytest.ini": "[pytest]\n", "tests/api/test_a.py": text.replace("NAME", "a"), "sdk/python/tests/test_b.py": text.replace("NAME", "b")})
    (repository.root / "tests/sdk").symlink_to("../sdk/python/tests")
    repository({})
    (repository.root / "build").mkdir()

    def ran():
        """What a run of all ran, sorted, and its counts."""
        note = repository.root / "build/ran"
        note.write_text("")
        script = "import sys; sys.path.insert(0, 'tools'); import importlib.machinery as m; test = m.SourceFileLoader('test', 'tools/test').load_module()\n" \
                 "suite = test.Suite('', False, test.passed.Record(test.ROOT)); suite.program('these', 'build', ['tests'], which=''); print(suite.total)"
        done = subprocess.run(["/usr/bin/python3", "-B", "-W", "ignore", "-c", script], cwd=repository.root, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return sorted(note.read_text().split()), done.stdout.splitlines()[-1]

    again = [f"{name}-{what}" for name in "ab" for what in ("bad", "skipped", "untidy")]
    # A failed clean-up and its test are one.
    counts = "2 passed, 4 failed, 2 skipped"
    assert ran() == (sorted([*again, "a", "b"]), counts)
    assert ran() == (again, counts)
    repository({"tests/api/test_a.py": text.replace("NAME", "a") + "#"})
    assert ran() == (sorted([*again, "a"]), counts), "a file that was changed, whole; the other not"
    repository({"sdk/python/tests/test_b.py": text.replace("NAME", "b") + "#"})
    assert ran() == (sorted([*again, "b"]), counts)
    repository({"product": "changed"})
    assert ran() == (sorted([*again, "a", "b"]), counts)
    (repository.root / "product").write_text("not committed")
    assert ran() == (sorted([*again, "a", "b"]), counts)


# --- tools/deps ----------------------------------------------------------------------------------------------


@pytest.fixture
def fake_apt(tmp_path):
    """A PATH on which dpkg knows the packages in FAKE_INSTALLED and apt-get only writes down what it is told."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    log = tmp_path / "log"
    log.touch()
    scripts = {
        "dpkg-query": 'shift 3; for p in "$@"; do case " $FAKE_INSTALLED " in'
                      ' *" $p "*) echo "$p installed";; esac; done; exit 1',
        "apt-get": f'echo "$@" >>{log}',
        "apt-cache": "echo '  Candidate: (none)'",
        "sudo": f'echo sudo >>{log}; exec "$@"',
    }
    for name, body in scripts.items():
        (bin_dir / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin_dir / name).chmod(0o755)

    def deps(*sections, installed=(), command="tools/deps", **env):
        env |= {"PATH": f"{bin_dir}:/usr/bin:/bin", "FAKE_INSTALLED": " ".join(installed)}
        return tool(command, *sections, env=env), log.read_text()

    return deps


def packages(section):
    return tool("tools/deps", "--list", section).stdout.split()


def test_deps_is_silent_when_nothing_is_missing(fake_apt):
    done, log = fake_apt("build", "run", installed=packages("build") + packages("run"))
    assert (done.returncode, done.stdout, done.stderr, log) == (0, "", "", "")


def test_deps_installs_what_is_missing_and_says_why(fake_apt):
    have = [p for p in packages("build") if p != "musl-tools"]
    done, log = fake_apt("build", installed=have)
    assert done.returncode == 0, done.stderr
    assert "musl-tools" in done.stdout and "static init" in done.stdout
    assert "update" in log
    install = [line for line in log.splitlines() if " install " in line]
    assert len(install) == 1
    assert install[0].split()[-2:] == ["--no-install-recommends", "musl-tools"]


def test_deps_neither_installs_downloads_nor_insists_on_optional_packages(fake_apt):
    downloads = tool("tools/deps", "--downloads", "guest").stdout.split()
    assert downloads and not set(downloads) & set(packages("guest"))
    mandatory = [p for p in packages("bench") if p not in ("crun", "runsc")]
    done, log = fake_apt("bench", "guest", installed=mandatory + packages("guest"))
    assert (done.returncode, done.stdout, log) == (0, "", "")


def test_deps_names_an_unknown_section():
    done = tool("tools/deps", "--list", "nonsense")
    assert done.returncode != 0
    assert "no section [nonsense]" in done.stderr


def test_deps_without_apt_says_what_to_do(tmp_path):
    for name in ("awk", "dirname", "sh"):
        (tmp_path / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
    done = tool("tools/deps", "build", env={"PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "not a Debian" in done.stderr and "musl-tools" in done.stderr
    assert "GLOVEBOX_DEPS=skip" in done.stderr
    assert tool("tools/deps", "build",
                env={"PATH": str(tmp_path), "GLOVEBOX_DEPS": "skip"}).returncode == 0


# --- make run ------------------------------------------------------------------------------------------------


def serving(command, **env):
    """A server that is to say one line, as (process, that line)."""
    process = subprocess.Popen([str(word) for word in command], cwd=ROOT, env=environment(env), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, process.stdout.readline()


def ended(process):
    """(exit status, the rest of standard output, standard error) after SIGTERM."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=STOP_S)
    return process.returncode, out, err


def test_run_tells_its_phases_and_becomes_the_server(glovebox, tmp_path):
    process, line = serving(["tools/run", "--listen", "127.0.0.1:0", "--state-dir", tmp_path / "state"],
                            GLOVEBOX_DEPS="skip", B=str(glovebox.parent))
    status, rest, said = ended(process)
    assert re.fullmatch(r"listening on http://127\.0\.0\.1:[0-9]+\n", line), said
    assert (status, rest) == (0, ""), said
    assert re.findall(r"^(packages|configure|build|start) +[0-9]+\.[0-9] s", said, re.M) == \
        ["packages", "configure", "build", "start"]


def test_run_asks_for_packages_once_and_says_why(fake_apt):
    done, log = fake_apt(command="tools/run", B="/nonexistent/build", MESON="/bin/false")
    assert done.returncode != 0 and done.stdout == "", "a phase that fails is the last one"
    assert done.stderr.count("Installing Debian packages") == 1 and "static init" in done.stderr
    assert len([line for line in log.splitlines() if " install " in line]) == 1
    assert re.findall(r"^(\w+) +[0-9]", done.stderr, re.M) == ["packages"]


def test_make_run_passes_its_arguments_on():
    done = tool("make", "-n", "run", "B=elsewhere", "ARGS=--listen 127.0.0.1:9000 --no-auth")
    assert done.returncode == 0, done.stderr
    assert "B='elsewhere'" in done.stdout
    assert re.search(r"tools/run --listen 127\.0\.0\.1:9000 --no-auth$", done.stdout, re.M)


# --- installation --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def install(tmp_path_factory):
    """install(): `meson install` below a directory of its own, once more with every call. Returns that directory."""
    build, dest = program_path().parent, tmp_path_factory.mktemp("dest")
    if not os.access(build / "meson-logs", os.W_OK):
        pytest.skip("the build tree is somebody else's")

    def call():
        done = tool("meson", "install", "-C", build, "--no-rebuild", env={**os.environ, "DESTDIR": str(dest)})
        assert done.returncode == 0, done.stdout + done.stderr
        return dest

    call()
    return call


def below(dest, pattern):
    """The one file there that ends in this path."""
    found = [path for path in dest.rglob(pathlib.PurePath(pattern).name) if path.match(pattern)]
    assert len(found) == 1, found
    return found[0]


def test_what_is_installed(install):
    dest = install()
    for program in ("bin/glovebox", "libexec/glovebox/glovebox-gate"):
        assert os.access(below(dest, program), os.X_OK)
    for name in ("code-interpreter-api", "ipybox", "sandbox-run"):
        link = below(dest, f"bin/{name}")
        assert link.is_symlink() and os.readlink(link) == "glovebox"
    for path in ("systemd/system/glovebox.service", "glovebox/glovebox.conf", "apparmor.d/glovebox"):
        assert below(dest, path).stat().st_mode & 0o777 == 0o644


def test_the_unit_starts_what_is_installed(install):
    dest = install()
    text = below(dest, "glovebox.service").read_text()
    options = [line.split("=", 1) for line in text.splitlines() if line and line[0] not in "#["]
    words = dict(options)["ExecStart"].split()
    assert words[1:3] == ["serve", "--config"]
    for path in (words[0], words[3]):
        assert (dest / path.lstrip("/")).is_file()
    expected = {"Type": "notify", "Delegate": "yes", "KillMode": "mixed", "Restart": "on-failure", "StateDirectory": "glovebox",
                "OOMPolicy": "continue"}
    assert {name: value for name, value in options if name in expected} == expected
    assert "@" not in text
    # Boxes would inherit these, see the unit.
    assert not {"NoNewPrivileges", "SystemCallFilter", "RestrictNamespaces", "ProtectKernelTunables"} & set(dict(options))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_systemd_understands_the_unit(install, glovebox, tmp_path):
    text = below(install(), "glovebox.service").read_text()
    unit = tmp_path / "glovebox.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={glovebox}", text, flags=re.M))
    done = tool("systemd-analyze", "verify", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_installing_again_keeps_the_configuration(install):
    conf = below(install(), "glovebox/glovebox.conf")
    kept = conf.read_text()
    conf.write_text("log_level = debug\n")
    install()
    assert conf.read_text() == "log_level = debug\n"
    conf.write_text(kept)


def test_with_prefix_usr_the_system_finds_it(tmp_path):
    done = tool("meson", "setup", "--prefix=/usr", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    names = json.loads(tool("meson", "introspect", "--installed", tmp_path).stdout).values()
    assert {"/usr/bin/glovebox", "/etc/apparmor.d/glovebox"} <= set(names)
    assert [name for name in names if re.fullmatch("(/usr)?/lib/systemd/system/glovebox.service", name)]
    unit = (tmp_path / "packaging" / "glovebox.service").read_text()
    assert "\nExecStart=/usr/bin/glovebox serve --config /etc/glovebox/glovebox.conf\n" in unit


def dump(run, *words):
    done = run("serve", "--dump-config", *words, env=environment({"HOME": "/root"}))
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_the_sample_configuration_changes_nothing_and_shows_the_defaults(run, tmp_path):
    sample = (ROOT / "packaging" / "glovebox.conf").read_text()
    assert dump(run, "--config", ROOT / "packaging" / "glovebox.conf") == dump(run)
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    tokens.chmod(0o600)
    (tmp_path / "conf").write_text(re.sub(r"^#(\w+ = )", r"\1", sample, flags=re.M).replace("/etc/glovebox/tokens", str(tokens)))
    defaults = dict(re.findall(r"^(\w+) = (.+)$", dump(run), re.M))
    filled = dict(re.findall(r"^(\w+) = (.+)$", dump(run, "--config", tmp_path / "conf"), re.M))
    shown = re.findall(r"^#(\w+) = ", sample, re.M)
    assert len(shown) > 10
    for key in set(shown) & set(defaults) - {"listen"}:
        assert filled[key] == defaults[key], key


@needs_root
def test_code_interpreter_api_serves(glovebox, tmp_path):
    link = tmp_path / "code-interpreter-api"
    link.symlink_to(glovebox)
    process, line = serving([link], PORT="0", GLOVEBOX_STATE_DIR=str(tmp_path / "state"))
    try:
        assert re.fullmatch(r"listening on http://127\.0\.0\.1:[0-9]+\n", line), "this machine only, unless HOST says so"
        request = urllib.request.Request(f"{line.split()[-1]}/v1/execute", b'{"code": "6 * 7"}',
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=START_S) as answer:
            assert json.load(answer)["stdout"] == "42\n"
    finally:
        status, rest, said = ended(process)
    assert (status, rest) == (0, ""), said


def test_code_interpreter_api_is_nothing_but_a_server(glovebox, tmp_path):
    link = tmp_path / "code-interpreter-api"
    link.symlink_to(glovebox)
    done = tool(link, "run", "-", env=environment())
    assert done.returncode == 125 and "unexpected argument 'run'" in done.stderr
    done = tool(link, env=environment({"HOST": "0.0.0.0", "GLOVEBOX_STATE_DIR": str(tmp_path / "state")}))
    assert done.returncode == 125 and "needs a token" in done.stderr


# --- house rules ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file, include, verdict", [
    ("base/a.c", "base/b.h", 0),
    ("base/a.c", "wire/b.h", 1),
    ("wire/a.c", "base/b.h", 0),
    ("wire/a.h", "keeper/b.h", 1),
    ("keeper/a.c", "wire/b.h", 0),
    ("keeper/a.c", "seccomp.gen.h", 0),
    ("keeper/a.c", "box/b.h", 1),
    ("box/a.c", "keeper/b.h", 1),
    ("box/a.c", "policy/b.tbl", 0),
    ("cli/a.c", "keeper/b.h", 1),
    ("cli/a.c", "seccomp.gen.h", 1),
    ("cli/a.c", "config.gen.h", 0),
    ("cli/a.c", "b.h", 1),
    ("novel/a.c", "base/b.h", 1),
    ("main.c", "keeper/b.h", 0),
])
def test_layers(tmp_path, file, include, verdict):
    path = tmp_path / "src" / file
    path.parent.mkdir(parents=True)
    path.write_text(f'#include <stdio.h>\n#include "{include}"\n')
    done = tool("tools/check-layers", tmp_path)
    assert done.returncode == verdict, done.stderr
    assert verdict == 0 or str(path.relative_to(tmp_path)) in done.stderr


def test_layers_of_nothing_is_no_success(tmp_path):
    (tmp_path / "src").mkdir()
    assert tool("tools/check-layers", tmp_path).returncode == 1


def test_lists_finds_a_source_that_nobody_compiles(tmp_path):
    for folder in ("src/base", "tests", "tools", "examples"):
        (tmp_path / folder).mkdir(parents=True)
    spdx = "SPDX-License-Identifier: Apache-2.0"
    (tmp_path / "src/base/meson.build").write_text(f"# {spdx}\nfiles('known.c')\n")
    (tmp_path / "src/base/known.c").write_text(f"/* {spdx} */\n")
    assert tool("tools/check-lists", tmp_path).returncode == 0
    (tmp_path / "src/base/lost.c").write_text("int x;\n")
    done = tool("tools/check-lists", tmp_path)
    assert done.returncode == 1
    assert "src/base/lost.c: not listed" in done.stderr
    assert "src/base/lost.c: no 'SPDX" in done.stderr


def test_links(tmp_path):
    (tmp_path / "a.md").write_text("# One thing\n[b](b.md#two-things) [self](#one-thing) `[x](no)`\n")
    (tmp_path / "b.md").write_text("# Two things\n[out](https://example.org/)\n")
    assert tool("tools/check-links", tmp_path).returncode == 0
    (tmp_path / "b.md").write_text("# Three things\n[gone](c.md)\n")
    done = tool("tools/check-links", tmp_path)
    assert done.returncode == 1
    assert "a.md: no such heading: b.md#two-things" in done.stderr
    assert "b.md: no such file: c.md" in done.stderr


def test_version_of_the_program_is_the_one_in_VERSION(run):
    version = (ROOT / "VERSION").read_text().strip()
    assert version in run("--version").stdout.decode().split()


# --- the leak check of conftest.py ---------------------------------------------------------------------------


LEAKS = {
    "process": """
        import subprocess
        def test_leak():
            subprocess.Popen(["sleep", "20"])
        """,
    "orphan": """
        import subprocess
        def test_leak():
            subprocess.run(["sh", "-c", "setsid sleep 20 >/dev/null 2>&1 &"])
        """,
    "file": """
        def test_leak():
            open(f"/tmp/glovebox-leak-selftest", "w").close()
        """,
}


@pytest.mark.parametrize("kind", sorted(LEAKS))
def test_a_leak_fails_the_test(tmp_path, kind):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_leak.py").write_text(
        textwrap.dedent(LEAKS[kind]) + "\ndef test_clean():\n    pass\n")
    try:
        done = subprocess.run(
            ["/usr/bin/python3", "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", tmp_path],
            cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "GLOVEBOX_LEAK_GRACE_S": "0.3"})
    finally:
        pathlib.Path("/tmp/glovebox-leak-selftest").unlink(missing_ok=True)
        end_children()
    assert done.returncode == 1, done.stdout
    assert "left behind by this test" in done.stdout
    assert ("process" if kind == "orphan" else kind) + " " in done.stdout
    assert "2 passed" in done.stdout  # the tests themselves did; it is their leftovers that failed


def end_children():
    """What the inner pytest left is ours now; this test must leave nothing."""
    me = os.getpid()
    for pid in pathlib.Path(f"/proc/{me}/task/{me}/children").read_text().split():
        if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0"):
            os.kill(int(pid), 9)
            os.waitpid(int(pid), 0)
