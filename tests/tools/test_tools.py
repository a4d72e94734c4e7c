# SPDX-License-Identifier: Apache-2.0
"""The tools that judge everything else: do they see what they are there to see?"""
import os
import pathlib
import shutil
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def tool(*words, **kw):
    return subprocess.run([str(w) for w in words], cwd=ROOT, capture_output=True, text=True,
                          timeout=60, check=False, **kw)


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

    def deps(*sections, installed=()):
        env = {"PATH": f"{bin_dir}:/usr/bin:/bin", "FAKE_INSTALLED": " ".join(installed)}
        return tool("tools/deps", *sections, env=env), log.read_text()

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
