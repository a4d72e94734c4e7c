# SPDX-License-Identifier: Apache-2.0
"""On what was it measured: enough to judge the figures, nothing that names the machine or its owner."""
import hashlib
import json
import os
import pathlib
import re
import subprocess


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def find(pattern, text, otherwise="unknown"):
    match = re.search(pattern, text, re.M)
    return match.group(1).strip() if match else otherwise


def cgroup_kind():
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return "v2"
    if os.path.exists("/sys/fs/cgroup/unified/cgroup.procs"):
        controllers = read("/sys/fs/cgroup/unified/cgroup.controllers").split()
        return f"v1, beside it v2 with {', '.join(controllers) or 'no controller'}"
    return "v1" if os.path.exists("/sys/fs/cgroup/memory") else "none"


def build_options(glovebox):
    """How the program under test was built; a sanitizer would explain a lot."""
    try:
        options = json.loads(read(glovebox.parent / "meson-info" / "intro-buildoptions.json"))
    except ValueError:
        return {}
    wanted = ("buildtype", "optimization", "b_sanitize", "b_coverage")
    return {o["name"]: o["value"] for o in options if o["name"] in wanted}


def describe(glovebox):
    cpuinfo = read("/proc/cpuinfo")
    model = find(r"^model name\s*:\s*(.*)$", cpuinfo)
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "virtual": bool(re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.M)),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or "unknown",
        "memory_bytes": int(find(r"^MemTotal:\s*(\d+)", read("/proc/meminfo"), "0")) * 1024,
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "system": find(r'^PRETTY_NAME="?(.*?)"?$', read("/etc/os-release")),
        "cgroups": cgroup_kind(),
        "user": "root" if os.geteuid() == 0 else "ordinary user",
        "build": build_options(glovebox),
    }


def digest(path):
    """Which program it was."""
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def load():
    return [round(x, 2) for x in os.getloadavg()]


def cpu_times():
    """(stolen by the hypervisor, all) in ticks since boot."""
    fields = [int(x) for x in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    return (fields[7], sum(fields)) if len(fields) == 8 else (0, 1)


def version(path, options):
    """First line that the program says about itself."""
    if not options:
        return "no version option"
    try:
        done = subprocess.run([path, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"unknown ({e.__class__.__name__})"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0][:100] if lines else "unknown"
