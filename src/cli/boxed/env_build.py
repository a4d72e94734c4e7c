# SPDX-License-Identifier: Apache-2.0
"""Fills an environment of the kind `packages`, in a box: `glovebox env build` runs this there, with the directory to be filled at /opt/environment.

What it is told is JSON in its first argument (`{"ask": true}`: where pip goes unless it is told otherwise); requirements are in /workspace/requirements.txt. Whatever a package does while it is built it does in this box.
"""
import json
import os
import subprocess
import sys

PLACE = "/opt/environment"


def say(text):
    print("== " + text, flush=True)


def call(*words):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, check=False)
    except OSError as e:
        sys.exit(f"{words[0]}: {e.strerror}")
    if done.returncode:
        sys.exit(f"{os.path.basename(words[0])} ended with status {done.returncode}")


def open_to_all():
    """Boxes read it as somebody else."""
    for folder, directories, files in os.walk(PLACE):
        for name in directories + files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                mode = os.stat(path).st_mode & 0o777
                os.chmod(path, mode | 0o444 | (0o111 if os.path.isdir(path) or mode & 0o111 else 0))


def main():
    want = json.loads(sys.argv[1])
    if want.get("ask"):
        from pip._internal.models.index import PyPI
        print(json.dumps([PyPI.netloc, PyPI.file_storage_domain]))
        return
    python = want.get("python") or "/usr/bin/python3"
    say(f"a virtual environment of {python}")
    call(python, "-m", "venv", *([] if want["isolated"] else ["--system-site-packages"]), PLACE)
    pip = [f"{PLACE}/bin/python3", "-m", "pip", "install", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar", "off"]
    if want["no_index"]:
        pip.append("--no-index")
    elif want["index_url"]:
        pip += ["--index-url", want["index_url"]]
    if want["find_links"]:
        pip += ["--find-links", "/mnt/wheels"]
    if want["requirements"]:
        say("packages")
        call(*pip, "-r", "/workspace/requirements.txt")
    open_to_all()


main()
