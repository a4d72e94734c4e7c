# SPDX-License-Identifier: Apache-2.0
"""What has passed already, so that hours of tests can be interrupted, and one mended test does not ask for all of them again.

build/passed.jsonl gets a line for each part and each test of pytest that has passed, with a digest of the files that it depends on: all that
are committed, less the tests of others (`tests/**/test_*`) and docs/status.md. A change of the product, of a tool or of what tests share is a
change for everybody. Files that differ from what is committed have no digest: nothing is written, and nothing counts.

tools/test asks for parts; as a plugin of pytest (`-p tools.passed --part TITLE`) this leaves out the tests that count, and writes down each that passes.
"""
import hashlib
import json
import pathlib
import re
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
A_TEST = re.compile(r"(sdk/python/)?tests/(.*/)?test_[^/]*$")
CONCERNS_NOBODY = {"docs/status.md"}
# Git is asked this often whether files were changed beside the tests.
ASK_S = 5


def git(root, *words):
    done = subprocess.run(["git", *words], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


class Record:
    """Of the files below root as they are committed now. With begin, what was written before is forgotten."""

    def __init__(self, root=ROOT, begin=False):
        self.root, self.path = root, root / "build/passed.jsonl"
        self.files, self.asked = None, 0.0
        self.files = self.committed()
        if begin:
            self.path.unlink(missing_ok=True)
        self.digests = {}

    def committed(self):
        """All files and their contents as git has them, or None: some differ from it."""
        return None if git(self.root, "status", "--porcelain") != "" else git(self.root, "ls-files", "--stage")

    def digest(self, tests):
        """Of all files that matter to tests, which are files or folders of tests; None: not committed."""
        if self.files is not None and tests not in self.digests:
            known = hashlib.sha256()
            for line in self.files.splitlines(keepends=True):
                name = line.rstrip("\n").split("\t", 1)[1]
                its_own = any(name == test or name.startswith(test + "/") for test in tests)
                if name not in CONCERNS_NOBODY and (its_own or not A_TEST.match(name)):
                    known.update(line.encode())
            self.digests[tests] = known.hexdigest()
        return self.digests.get(tests)

    def lines(self):
        """A run may have been killed while it wrote its last line."""
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    yield json.loads(line)
                except ValueError:
                    pass

    def unchanged(self):
        """Whether the files are still those that were committed; git is not asked each time."""
        if time.monotonic() - self.asked > ASK_S:
            self.asked = time.monotonic()
            if self.committed() != self.files:
                self.files, self.digests = None, {}
        return self.files is not None

    def write(self, **what):
        self.path.parent.mkdir(exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as journal:
            journal.write(json.dumps(what) + "\n")

    def get(self, part, tests):
        """Passed, failed, skipped of a part that has passed, or None."""
        digest = self.digest(tests)
        return next((line["counts"] for line in self.lines() if "counts" in line and line["part"] == part and line["of"] == digest), None)

    def keep(self, part, tests, counts):
        self.asked = 0.0
        if self.unchanged():
            self.write(part=part, of=self.digest(tests), counts=counts)

    def tests(self, part):
        """Those of pytest that have passed in that part and count."""
        return {line["test"] for line in self.lines()
                if "test" in line and line["part"] == part and line["of"] is not None and line["of"] == self.digest((line["test"].split("::")[0],))}

    def keep_test(self, part, test):
        if self.unchanged():
            self.write(part=part, of=self.digest((test.split("::")[0],)), test=test)


class Plugin:
    def __init__(self, part):
        self.part, self.record, self.good = part, Record(), False
        # Pytest's own begin where its configuration is; ours where git's do.
        self.names = {}

    def pytest_collection_modifyitems(self, config, items):
        before = self.record.tests(self.part)
        self.names = {item.nodeid: f"{item.path.resolve().relative_to(ROOT)}::{item.nodeid.split('::', 1)[1]}" for item in items}
        left_out = [item for item in items if self.names[item.nodeid] in before]
        items[:] = [item for item in items if self.names[item.nodeid] not in before]
        config.hook.pytest_deselected(items=left_out)

    def pytest_runtest_logreport(self, report):
        """Passed means: before, while and after."""
        if report.when == "setup":
            self.good = True
        self.good = self.good and report.outcome == "passed"
        if report.when == "teardown" and self.good:
            self.record.keep_test(self.part, self.names[report.nodeid])


def pytest_addoption(parser):
    parser.addoption("--part", help="the part of `tools/test all` that these tests are")


def pytest_configure(config):
    if config.getoption("--part"):
        config.pluginmanager.register(Plugin(config.getoption("--part")))
