# SPDX-License-Identifier: Apache-2.0
"""`glovebox doctor`: what it says, in both forms, on this machine and on machines that lack something.

The lacking ones are made here: another user, a user namespace without room for more, a seccomp filter as
containers have it, sysctls of other distributions put over this one's. Commands that it proposes are run, in a mount
namespace where /etc is a copy, and must do what they promise.
"""
import json
import os
import pathlib
import pty
import pwd
import re
import select
import shlex
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKERS = {"ok", "note", "missing"}



def unknown_uid():
    """An ordinary user of whom this machine knows nothing."""
    known = {e.pw_uid for e in pwd.getpwall()}
    for name in ("/etc/subuid", "/etc/subgid"):
        if os.path.exists(name):
            known |= {int(who) for who in re.findall(r"^(\d+):", pathlib.Path(name).read_text(), re.M)}
    return next(uid for uid in range(12345, 60000) if uid not in known)


UID = unknown_uid()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def policy_layers():
    text = (ROOT / "policy" / "layers.tbl").read_text()
    rows = re.findall(r'^LAYER\(\w+,\s*"([^"]+)",\s*(\w+)', text, re.M)
    return {name: need != "EXTRA" for name, need in rows}


def read_human(text):
    """The lines of checks as {name: (status, detail, fix)}, and what follows them."""
    checks, name, rest = {}, None, []
    for line in text.splitlines():
        words = line.split(None, 2)
        if words and words[0] in MARKERS and not line.startswith(" "):
            name = words[1]
            assert name not in checks
            checks[name] = (words[0], words[2], None)
        elif line.startswith("  fix: "):
            checks[name] = (*checks[name][:2], line[len("  fix: "):])
        else:
            rest.append(line)
    return checks, "\n".join(rest)


def by_name(report):
    return {c["name"]: c for c in report["checks"]}


def parse(done):
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == b""
    report = json.loads(done.stdout)
    assert report["can_make_box"] is (done.returncode == 0)
    return report


# Numbers that change from one look to the next.
MOVING = ("free-memory", "free-disk")


def assert_agree(human, report):
    checks, rest = read_human(human)
    assert list(checks) == [c["name"] for c in report["checks"]]
    for c in report["checks"]:
        status, detail, fix = checks[c["name"]]
        assert (status, fix) == (c["status"], c["fix"]), c["name"]
        if c["name"] not in MOVING:
            layers = f" [{', '.join(c['layers'])}]" if c["layers"] and status != "ok" else ""
            assert detail == c["detail"] + layers
    if report["can_make_box"]:
        assert "A default box can be made here" in rest
        for layer in report["box"]["layers"] + report["box"]["missing"]:
            assert layer in rest
    else:
        assert "A default box cannot be made here: " + report["error"]["message"] in rest


def test_help_and_bad_usage(run):
    done = run("doctor", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"--json" in done.stdout and b"exit status" in done.stdout
    for wrong in (["--nonsense"], ["extra"], ["--json=1"], ["-x"]):
        done = run("doctor", *wrong)
        assert (done.returncode, done.stdout) == (125, b""), wrong
        assert done.stderr.startswith(b"glovebox: "), wrong


def test_human_and_json_agree(run):
    human = run("doctor")
    report = parse(run("doctor", "--json"))
    assert human.returncode == (0 if report["can_make_box"] else 1)
    assert_agree(human.stdout.decode(), report)


def test_shape(run):
    report = parse(run("doctor", "--json"))
    assert set(report) == {"can_make_box", "checks", "box", "error"}
    for c in report["checks"]:
        assert set(c) == {"name", "status", "detail", "fix", "layers"}
        assert c["status"] in MARKERS and c["detail"]
        assert c["status"] != "ok" or c["fix"] is None
        assert c["status"] != "missing" or c["fix"], f"{c['name']} is missing, and what is to be done?"
        for text in (c["detail"], c["fix"] or ""):
            assert text.isprintable()
    assert (report["box"] is None) is (report["error"] is not None) is (not report["can_make_box"])


def test_every_layer_has_a_check(run):
    report = parse(run("doctor", "--json"))
    named = {layer for c in report["checks"] for layer in c["layers"]}
    assert named == set(policy_layers())


def test_box_is_a_real_one(run):
    """The layers that doctor names are those that `glovebox run` reports."""
    report = parse(run("doctor", "--json"))
    done = run("run", "--json", "-c", "pass")
    if not report["can_make_box"]:
        assert done.returncode == 125
        return
    box = json.loads(done.stdout)
    assert report["box"]["layers"] == box["layers"]
    layers = policy_layers()
    assert set(report["box"]["layers"]) | set(report["box"]["missing"]) == set(layers)
    assert not any(layers[name] for name in report["box"]["missing"])
    assert 0 < report["box"]["setup_ms"] < 60000


def test_a_box_means_that_no_required_layer_is_missing(run):
    report = parse(run("doctor", "--json"))
    if report["can_make_box"]:
        assert [c for c in report["checks"] if c["status"] == "missing" and c["layers"]] == []
        extra = {n for n, required in policy_layers().items() if not required}
        for c in report["checks"]:
            if set(c["layers"]) <= extra and c["layers"]:
                assert (c["status"] == "ok") is (c["layers"][0] in report["box"]["layers"]), c


def test_packages_are_what_python_says(run):
    checks = by_name(parse(run("doctor", "--json")))
    modules = "numpy pandas matplotlib IPython scipy PIL openpyxl requests lxml yaml pydantic".split()
    code = "import importlib.util as u, sys; print([m for m in sys.argv[1:] if not u.find_spec(m)])"
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", code, *modules], stdout=subprocess.PIPE, check=True)
    missing = eval(done.stdout)
    packages = checks["python-packages"]
    assert packages["status"] == ("note" if missing else "ok")
    if missing:
        assert packages["detail"] == "boxes cannot import " + ", ".join(missing)
        assert packages["fix"].count("python3-") == len(missing)
    assert checks["python"]["detail"].startswith("/usr/bin/python3 is 3.")


# --- terminals ------------------------------------------------------------------------------------------------


def on_terminal(command, **env):
    """What a command writes to a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ.update(env)
        os.execv(command[0], command)
    out, end = b"", time.monotonic() + 30
    while time.monotonic() < end and select.select([fd], [], [], 30)[0]:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(fd)
    os.waitpid(pid, 0)
    return out.decode()


def test_colours(glovebox, run):
    command = [str(glovebox), "doctor"]
    assert "\033[32mok" in on_terminal(command, TERM="xterm")
    assert "\033" not in on_terminal(command, TERM="xterm", NO_COLOR="1")
    assert "\033" not in on_terminal(command, TERM="dumb")
    assert b"\033" not in run("doctor", env={**os.environ, "TERM": "xterm"}).stdout


def test_full_disk_is_our_failure(run):
    with open("/dev/full", "wb") as full:
        done = run("doctor", stdout=full)
    assert done.returncode == 125
    assert b"write the report" in done.stderr


# --- machines that lack something -------------------------------------------------------------------------------

# A private mount namespace: what an ordinary user's keeper leaves in /tmp goes with it, and the program is where
# that user can reach it, whatever the mode of the build's directories.
PRIVATE = """
set -e
exec 9<"$GLOVEBOX"
mount -t tmpfs tmpfs /tmp
cat <&9 >/tmp/gb && chmod 755 /tmp/gb
exec 9<&-
chmod 755 /tmp /tmp/gb
chmod 1777 /tmp
"""
AS_USER = f"setpriv --reuid {UID} --regid {UID} --clear-groups"


@pytest.fixture
def in_private(glovebox):
    """Run a shell script, as root, in a mount namespace of its own; the program is /tmp/gb there."""

    def call(script, private=PRIVATE):
        return subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", private + script],
                              env={**os.environ, "GLOVEBOX": str(glovebox)}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)

    return call


@needs_root
def test_ordinary_user(in_private):
    done = in_private(f"exec {AS_USER} /tmp/gb doctor --json")
    assert done.returncode == 1
    report = parse(done)
    checks = by_name(report)
    assert str(UID) in checks["caller"]["detail"]
    assert checks["own-uids"]["status"] == "missing"
    assert re.search(r"sudo usermod --add-subuids \d+-\d+ --add-subgids \d+-\d+ \S+$", checks["own-uids"]["fix"])
    assert checks["cgroup"]["status"] == "missing"
    assert re.search("systemd-run --user --scope -p Delegate=yes|/cgroup", checks["cgroup"]["fix"])
    assert report["box"] is None and report["error"]["code"] == "layer"
    human = in_private(f"exec {AS_USER} /tmp/gb doctor")
    assert human.returncode == 1
    assert_agree(human.stdout.decode(), report)


@needs_root
def test_proposed_range_is_free(in_private):
    checks = by_name(parse(in_private(f"exec {AS_USER} /tmp/gb doctor --json")))
    first, last = map(int, re.search(r"--add-subuids (\d+)-(\d+)", checks["own-uids"]["fix"]).groups())
    assert last - first + 1 == 65536
    for name in ("/etc/subuid", "/etc/subgid"):
        for line in pathlib.Path(name).read_text().split():
            start, count = map(int, line.split(":")[1:])
            assert last < start or start + count <= first


ETC_IS_A_COPY = PRIVATE + """
mkdir /tmp/upper /tmp/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/tmp/upper,workdir=/tmp/work /etc
mount -t tmpfs tmpfs /var/log
"""


def remove_cgroups(name):
    for folder, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
        if name in folder.split("/"):
            os.rmdir(folder)


@needs_root
def test_the_fixes_fix(in_private):
    """The commands for a missing range and a missing cgroup, run as they are printed, make a box possible."""
    checks = by_name(parse(in_private(f"exec {AS_USER} /tmp/gb doctor --json")))
    fixes = [c["fix"].replace("sudo ", "") for c in checks.values() if c["status"] == "missing"]
    possible = [f for f in fixes if "systemd-run" not in f]  # that one needs the user's own systemd
    script = "\n".join(f"({f}) >&2" if "$$" not in f else f"{f} >&2" for f in possible)
    try:
        done = in_private(f"{script}\nexec {AS_USER} /tmp/gb doctor --json 2>/tmp/err", private=ETC_IS_A_COPY)
    finally:
        remove_cgroups(f"user-{UID}")
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    after = by_name(report)
    assert after["own-uids"]["status"] == "ok", (after["own-uids"], done.stderr)
    if len(possible) == len(fixes):
        assert after["cgroup"]["status"] == "ok", (after["cgroup"], done.stderr)
        assert report["can_make_box"], (report["error"], done.stderr)


@needs_root
def test_no_room_for_user_namespaces(glovebox):
    script = f"echo 0 > /proc/sys/user/max_user_namespaces; exec {shlex.quote(str(glovebox))} doctor --json"
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1
    check = by_name(parse(done))["user-namespace"]
    assert check["status"] == "missing"
    assert "user.max_user_namespaces is 0" in check["detail"]
    assert "sysctl -w user.max_user_namespaces=" in check["fix"]
    untried = [c for c in parse(done)["checks"] if "before user namespaces work" in c["detail"]]
    assert len(untried) > 5 and all(c["status"] == "note" and c["fix"] is None for c in untried)


@needs_root
@pytest.mark.parametrize("kind, name", [("net", "network"), ("ipc", "ipc"), ("uts", "uts"), ("pid", "pid"),
                                        ("cgroup", "cgroup"), ("mnt", "mount")])
def test_no_room_for_one_kind(glovebox, kind, name):
    script = f"echo 0 > /proc/sys/user/max_{kind}_namespaces; exec {shlex.quote(str(glovebox))} doctor --json"
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    check = by_name(parse(done))[name + "-namespace"]
    assert check["status"] == "missing"
    assert check["detail"] == f"user.max_{kind}_namespaces is 0: no further one may be made"
    assert check["fix"].endswith(f"sysctl -w user.max_{kind}_namespaces=15000")


# --- a filter as containers have it ---

UNSHARE, CLONE3 = {"x86_64": (272, 435), "aarch64": (97, 435)}.get(os.uname().machine, (None, None))
known_machine = pytest.mark.skipif(UNSHARE is None, reason="system call numbers are those of x86-64 and arm64")

# unshare is EPERM and clone3 ENOSYS, as under the default profile of Docker; then the program. For a process of its
# own: the filter cannot be taken off again.
FILTERED = f"""
import ctypes, os, struct, sys
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, {UNSHARE}), (0x06, 0, 0, 0x50000 | 1), (0x15, 0, 1, {CLONE3}),
        (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *r) for r in rows))
prog = ctypes.create_string_buffer(struct.pack("@HP", len(rows), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, prog, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@known_machine
def test_filter_of_a_container(glovebox):
    done = subprocess.run(["/usr/bin/python3", "-c", FILTERED, str(glovebox), "doctor", "--json"], check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    check = by_name(parse(done))["user-namespace"]
    assert check["status"] == "missing"
    assert "seccomp filter refuses clone3 (ENOSYS)" in check["detail"]
    assert "seccomp" in check["fix"]


# --- root of a container ---


@needs_root
def test_root_without_sys_admin(in_private):
    """Mapping ids does not take CAP_SYS_ADMIN: what doctor says of own-uids, the box says too."""
    report = parse(in_private("exec setpriv --bounding-set -sys_admin /tmp/gb doctor --json"))
    checks = by_name(report)
    assert "CAP_SYS_ADMIN" in checks["caller"]["detail"]
    assert checks["own-uids"]["status"] == "ok"
    assert report["can_make_box"] or "own-uids" not in report["error"]["message"]


@needs_root
def test_root_without_setfcap(in_private):
    done = in_private("exec setpriv --bounding-set -sys_admin,-setfcap /tmp/gb doctor --json")
    assert done.returncode == 1
    check = by_name(parse(done))["user-namespace"]
    assert check["status"] == "missing" and "CAP_SETFCAP" in check["detail"]
    assert "--cap-add SETFCAP" in check["fix"]


# --- other distributions ---

FAKE_SYSCTL = """
mkdir /tmp/kernel
cp /proc/sys/kernel/pid_max /tmp/kernel/
{write}
mount --bind /tmp/kernel /proc/sys/kernel
"""


@pytest.fixture
def filtered_user(in_private):
    """Doctor for an ordinary user who cannot make user namespaces, on a machine prepared by a script."""

    def call(script):
        return in_private(f"{script}\nexec {AS_USER} /usr/bin/python3 -c {shlex.quote(FILTERED)} /tmp/gb doctor --json")

    return call


@needs_root
@known_machine
def test_debian_sysctl(filtered_user):
    done = filtered_user(FAKE_SYSCTL.format(write="echo 0 > /tmp/kernel/unprivileged_userns_clone"))
    check = by_name(parse(done))["user-namespace"]
    assert "kernel.unprivileged_userns_clone is 0" in check["detail"]
    assert check["fix"] == "sudo sysctl -w kernel.unprivileged_userns_clone=1"


@needs_root
@known_machine
def test_ubuntu_sysctl(filtered_user):
    done = filtered_user(FAKE_SYSCTL.format(write="echo 1 > /tmp/kernel/apparmor_restrict_unprivileged_userns"))
    check = by_name(parse(done))["user-namespace"]
    assert "kernel.apparmor_restrict_unprivileged_userns" in check["detail"]
    assert "/tmp/gb" in check["detail"]
    # The command writes a profile that names this very program, and loads it.
    command, load = check["fix"].split(" | sudo tee ")
    profile = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert profile == 'abi <abi/4.0>,\nprofile glovebox-local "/tmp/gb" flags=(unconfined) {\n  userns,\n}\n'
    assert load == "/etc/apparmor.d/glovebox-local && sudo apparmor_parser -r /etc/apparmor.d/glovebox-local"


COVER_PROC = "mount --bind /dev/null /proc/version\n"


@needs_root
def test_masked_proc(in_private):
    """A /proc with something over it, as containers have it: a box cannot mount its own."""
    done = in_private(COVER_PROC + f"exec {AS_USER} /tmp/gb doctor --json")
    assert done.returncode == 1
    check = by_name(parse(done))["own-proc"]
    assert check["status"] == "missing" and "are covered" in check["detail"]
    assert check["fix"]


@needs_root
def test_masked_proc_as_root(in_private):
    """Root mounts one for the box: whatever doctor says of it, it says the same as the box."""
    report = parse(in_private(COVER_PROC + "exec /tmp/gb doctor --json"))
    check = by_name(report)["own-proc"]
    assert "are covered" in check["detail"]
    assert (check["status"] == "ok") is report["can_make_box"]


@needs_root
def test_read_only_cgroups(in_private):
    done = in_private("awk '/ - cgroup2? /{print $5}' /proc/self/mountinfo | while read d; do\n"
                      "mount -o remount,bind,ro $d; done\nexec /tmp/gb doctor --json")
    assert done.returncode == 1
    check = by_name(parse(done))["cgroup"]
    assert check["status"] == "missing" and "Read-only file system" in check["detail"]
    assert check["fix"]


@needs_root
def test_no_devices(in_private):
    done = in_private("mount -t tmpfs tmpfs /dev\nexec /tmp/gb doctor --json", private=PRIVATE)
    check = by_name(parse(done))["devices"]
    assert check["status"] == "missing"
    assert check["fix"].endswith("mknod -m 666 /dev/null c 1 3")


# --- the profile --------------------------------------------------------------------------------------------------


def test_apparmor_profile():
    text = (ROOT / "packaging" / "apparmor" / "glovebox").read_text()
    body = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert body[:2] == ["abi <abi/4.0>,", "include <tunables/global>"]
    assert "profile glovebox /usr/{local/,}bin/glovebox flags=(unconfined) {" in body
    assert "userns," in body and "include if exists <local/glovebox>" in body
    assert text.count("{") == text.count("}")
