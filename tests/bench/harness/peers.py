# SPDX-License-Identifier: Apache-2.0
"""Who is measured: one row per peer, with the flags it is called with.

A peer is anything with a name, `missing(ctx)` (why it cannot take part, or None) and `open(ctx, work)`, which
returns something with `once()`, `shown` (how it was called, for the report) and `close()`. The peers here are
commands, and servers, whose class is in server.py.
"""
import dataclasses
import io
import json
import os
import pathlib
import shlex
import subprocess
import tarfile
import typing

from . import box_files, imports, jupyter, kernels, launch, net, packages, sdk, server, sessions, tools

PYTHON = "/usr/bin/python3"
BASH = "/bin/bash"
DOCKER = next((path for path in ("/usr/bin/docker", "/usr/local/bin/docker") if os.access(path, os.X_OK)),
              "/usr/bin/docker")

# What the OCI runtimes and bwrap show of the host, as Glovebox does (policy/root.tbl).
SHOWN = ["/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl", "/etc/python3", "/etc/python3.11",
         "/etc/localtime"]
LINKS = ["/bin", "/sbin", "/lib", "/lib64"]


@dataclasses.dataclass(frozen=True)
class Work:
    """What is run: Python or shell text, and what it must print. None: its output is not kept."""

    language: str
    text: str
    expect: bytes | None = b""

    def argv(self, *options):
        return [PYTHON if self.language == "python" else BASH, *options, "-c", self.text]


class Opened:
    """A command, ready to be run any number of times."""

    def __init__(self, command, prepare, shown):
        self.command, self.prepare, self.shown = command, prepare, shown
        self.launcher = launch.Launcher(prepare)

    def once(self):
        return self.launcher.call(launch.once, self.command)

    def close(self):
        if self.command.at_last:
            self.launcher.call(launch.clean, self.command.at_last)
        self.launcher.close()


@dataclasses.dataclass(frozen=True)
class CommandPeer:
    name: str
    program: str
    holds: str
    command: typing.Callable
    version: tuple = ("--version",)
    root: bool = False
    prepare: typing.Callable = lambda ctx: None
    absent: typing.Callable = lambda path: None  # a further reason why it cannot take part

    def path(self, ctx):
        return str(ctx.glovebox) if self.program == "glovebox" else self.program

    def missing(self, ctx):
        if not os.access(self.path(ctx), os.X_OK):
            return "not installed"
        if self.root and os.geteuid() != 0:
            return "needs root"
        return self.absent(self.path(ctx))

    def open(self, ctx, work):
        command = self.command(self, ctx, work)
        shown = " | ".join(shlex.join(argv) for argv in command.stages).replace("\n", "\\n")
        return Opened(command, self.prepare(ctx), ctx.shown(shown))


# --- the commands -------------------------------------------------------------------------------------------


def bare(*options):
    def command(peer, _ctx, work):
        argv = work.argv(*options)
        return launch.Command([[peer.program, *argv[1:]]], work.expect)

    return command


def bwrap_argv(peer, work):
    argv = [peer.program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
            "--uid", "65532", "--gid", "65532", "--hostname", "box"]
    for path in SHOWN:
        argv += ["--ro-bind-try", path, path]
    for link in LINKS:
        if os.path.islink(link):
            argv += ["--symlink", os.readlink(link), link]
        else:
            argv += ["--ro-bind-try", link, link]
    argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/workspace",
             "--chdir", "/workspace", "--"]
    return argv + work.argv()


def bwrap(peer, _ctx, work):
    return launch.Command([bwrap_argv(peer, work)], work.expect)


def glovebox(*options):
    def command(peer, ctx, work):
        shell = ["--shell"] if work.language == "shell" else []
        argv = [peer.path(ctx), "run", *options, *shell, "-c", work.text]
        # With --json the output is inside the answer, and the case judges it.
        json_wanted = "--json" in options
        return launch.Command([argv], None if json_wanted else work.expect, capture=json_wanted)

    return command


def to_cat(inner):
    """The same through a pipe to cat."""
    def command(peer, ctx, work):
        made = inner(peer, ctx, work)
        return dataclasses.replace(made, stages=[*made.stages, ["/usr/bin/cat"]])

    return command


# --- OCI bundles --------------------------------------------------------------------------------------------


def oci_spec(work, cgroup):
    """A container with what a box has of namespaces, tree, limits and ids. No seccomp filter, no Landlock, no
    user namespace: that is less than a box has, so their figures are rather too good."""
    def tmpfs(path, size):
        return {"destination": path, "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "nodev", "mode=1777", f"size={size}"]}

    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=64k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
        tmpfs("/dev/shm", "64m"), tmpfs("/tmp", "128m"), tmpfs("/workspace", "512m"),
    ]
    mounts += [{"destination": path, "type": "bind", "source": path,
                "options": ["rbind", "ro", "nosuid", "nodev"]}
               for path in SHOWN + [link for link in LINKS if not os.path.islink(link)]
               if os.path.exists(path)]
    namespaces = ["pid", "network", "ipc", "uts", "mount"] + (["cgroup"] if cgroup else [])
    linux = {
        "namespaces": [{"type": kind} for kind in namespaces],
        "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    }
    if cgroup:
        linux["resources"] = {"memory": {"limit": 1 << 30}, "pids": {"limit": 256},
                              "cpu": {"quota": 200000, "period": 100000}}
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False, "user": {"uid": 65532, "gid": 65532}, "args": work.argv(),
            "env": [f"{key}={value}" for key, value in launch.ENVIRONMENT.items()], "cwd": "/workspace",
            "noNewPrivileges": True,
            "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "ambient")},
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        },
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "box",
        "mounts": mounts,
        "linux": linux,
    }


def make_bundle(folder, spec):
    rootfs = folder / "rootfs"
    for mount in spec["mounts"]:
        place = rootfs / mount["destination"].lstrip("/")
        if mount["type"] == "bind" and not os.path.isdir(mount["source"]):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
        else:
            place.mkdir(parents=True, exist_ok=True)
    for link in LINKS:
        if os.path.islink(link):
            (rootfs / link.lstrip("/")).symlink_to(os.readlink(link))
    (folder / "config.json").write_text(json.dumps(spec, indent=1))
    return folder


def oci(options=lambda ctx, peer: [], cgroup=True):
    def command(peer, ctx, work):
        bundle = make_bundle(ctx.folder(f"bundle-{peer.name}"), oci_spec(work, cgroup))
        state = ctx.temp / f"state-{peer.name}"
        common = [peer.program, "--root", str(state), *options(ctx, peer)]
        return launch.Command([[*common, "run", "--bundle", str(bundle), "{id}"]], work.expect,
                              cleanup=[*common, "delete", "--force", "{id}"])

    return command


def runsc_options(ctx, peer):
    return [f"--platform={runsc_platform(ctx, peer)}", "--network=none", "--ignore-cgroups"]


def runsc_platform(ctx, peer):
    """The best platform of gVisor that works here: newest first, each tried with a short patience."""
    if peer.name not in ctx.found:
        work = Work("shell", "echo works", b"works\n")
        for platform in ("systrap", "kvm", "ptrace"):
            def options(_ctx, _peer, name=platform):
                return [f"--platform={name}", "--network=none", "--ignore-cgroups"]

            command = oci(options)(peer, ctx, work)
            launcher = launch.Launcher()
            run = launcher.call(launch.once, command, 8)
            launcher.close()
            ctx.note(f"runsc --platform={platform}: {run.error or 'works'}")
            ctx.found[peer.name] = platform
            if run.error is None:
                break
    return ctx.found[peer.name]


def hide_unified(ctx):
    if pathlib.Path("/sys/fs/cgroup/unified/cgroup.procs").exists():
        ctx.note("crun ran in a mount namespace without /sys/fs/cgroup/unified: crun 1.8 refuses hybrid cgroups")
        return launch.hide_unified_cgroup
    return None


# --- docker -------------------------------------------------------------------------------------------------


def no_engine(path):
    """The client alone is of no use."""
    try:
        done = subprocess.run([path, "info", "--format", "{{.ServerVersion}}"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"docker: {e.__class__.__name__}"
    return "no engine runs" if done.returncode or not done.stdout.strip() else None


def empty_image(peer, ctx):
    """An image with nothing but links and places for mounts: what it shows comes from the host, as for the others."""
    name = f"gb-bench-{os.getpid()}"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in [*(path for path in SHOWN if os.path.isdir(path)), "/tmp", "/workspace"]:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for link in LINKS:
            entry = tarfile.TarInfo(link.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr{link}"
            tar.addfile(entry)
    try:
        done = subprocess.run([peer.program, "import", "-", name], input=archive.getvalue(), capture_output=True,
                              timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise server.DoesNotWork(f"docker import: {e}") from None
    if done.returncode:
        raise server.DoesNotWork(f"docker import: {done.stderr.decode(errors='replace').strip()[:200]}")
    return name


def docker(peer, ctx, work):
    image = empty_image(peer, ctx)
    argv = [peer.program, "run", "--rm", "--name", "{id}", "--network", "none", "--read-only", "--user", "65532:65532",
            "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--memory", "1g", "--pids-limit", "256",
            "--cpus", "2", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--workdir", "/workspace"]
    for path in SHOWN:
        if os.path.exists(path):
            argv += ["--volume", f"{path}:{path}:ro"]
    for name, value in launch.ENVIRONMENT.items():
        argv += ["--env", f"{name}={value}"]
    return launch.Command([[*argv, image, *work.argv()]], work.expect,
                          cleanup=[peer.program, "rm", "--force", "{id}"],
                          at_last=[peer.program, "rmi", "--force", image])


# --- the table ----------------------------------------------------------------------------------------------

NAMESPACES = "namespaces, no limits, no seccomp"
RUNTIME = "namespaces, cgroup limits, no seccomp, no user namespace"

# Servers. What is asked of one beside the code, where the defaults of the interface are too small for the work.
LONG = {"timeout_ms": 60000}
WIDE = ("--ci-memory", "1G")
FLOODED = ("--ci-output-bytes", "1G", "--ci-cpu-seconds", "60")
STORING = ("--file-max-bytes", "2G", "--store-bytes", "8G")
ROOMY = ("--box-max-workspace", "4G", "--pool-size", "0", "--session-pool-size", "0")
MANY = ("--max-boxes", "2048")
SESSIONS = "--session-pool-size"

_ROWS = [
    #           name              program              what it keeps in                  how it is called
    CommandPeer("python3",        PYTHON,              "nothing",                        bare()),
    CommandPeer("python3 -I -S",  PYTHON,              "nothing",                        bare("-I", "-S")),
    CommandPeer("bash",           BASH,                "nothing",                        bare()),
    CommandPeer("sh",             "/bin/sh",           "nothing",                        bare(), ()),
    CommandPeer("bwrap",          "/usr/bin/bwrap",    NAMESPACES,                       bwrap),
    CommandPeer("crun",           "/usr/bin/crun",     RUNTIME,                          oci(), root=True,
                prepare=hide_unified),
    CommandPeer("runc",           "/usr/sbin/runc",    RUNTIME,                          oci(), root=True),
    CommandPeer("runsc",          "/usr/bin/runsc",    "a kernel in user space, no limits",
                oci(runsc_options), root=True),
    CommandPeer("docker run",     DOCKER,              "namespaces, cgroup limits, Docker's seccomp filter",
                docker, absent=no_engine),
    CommandPeer("glovebox",       "glovebox",          "all layers of `glovebox doctor`", glovebox()),
    CommandPeer("glovebox --json", "glovebox",         "all layers of `glovebox doctor`", glovebox("--json")),
    CommandPeer("python3 | cat",  PYTHON,              "nothing",                        to_cat(bare())),
    CommandPeer("bwrap | cat",    "/usr/bin/bwrap",    NAMESPACES,                       to_cat(bwrap)),
    CommandPeer("glovebox --output-limit 0", "glovebox", "all layers of `glovebox doctor`",
                glovebox("--output-limit", "0")),
    CommandPeer("glovebox --stdin", "glovebox",        "all layers of `glovebox doctor`", glovebox("--stdin")),
    server.ServerPeer("glovebox serve, pool hit", options=("--pool-size", "8", SESSIONS, "0"), outcome="hit"),
    server.ServerPeer("glovebox serve, pool miss", options=("--pool-size", "0", SESSIONS, "0"), outcome="miss"),
    server.ServerPeer("glovebox serve, cold", options=("--warm=false", *WIDE), fields=LONG),
    server.ServerPeer("glovebox serve, lean image", options=("--pool-size", "8", SESSIONS, "0")),
    server.ServerPeer("glovebox serve, full image", options=("--pool-size", "8", SESSIONS, "0")),
    server.HandlerPeer("glovebox serve, handlers, lean image", options=("--pool-size", "8", SESSIONS, "0")),
    server.HandlerPeer("glovebox serve, handlers, full image", options=("--pool-size", "8", SESSIONS, "0")),
    server.HealthPeer("GET /health by the same client", "nothing: what client, connection and gate cost"),
    server.ServerPeer("glovebox serve, output limit off", options=FLOODED, fields=LONG),
    server.ServerPeer("glovebox serve, file limits raised", options=STORING),
    server.ServerPeer("glovebox serve"),
    server.StartingPeer("glovebox serve, started anew"),
    server.CopyPeer(),
    box_files.BoxPeer("glovebox serve, a box with room", options=ROOMY, fields={"limits": {"workspace_bytes": 4 << 30}}),
    box_files.SandboxPeer("glovebox serve, Sandbox Runtime", options=(*ROOMY, "--se-workspace", "4G")),
    box_files.ResourcePeer("glovebox serve, ipybox", options=ROOMY, fields={"limits": {"workspace_bytes": 4 << 30}, "ports": True}),
    box_files.TarPeer(),
    server.AnswersPeer(),
    jupyter.JupyterPeer(),
    kernels.HostPeer("jupyter_server, legacy framing", kernels.LEGACY),
    kernels.HostPeer("jupyter_server, v1 framing", kernels.V1),
    sessions.SessionPeer("glovebox serve, session pool hit", options=(SESSIONS, "8"), needs=(SESSIONS,), outcome="hit"),
    sessions.SessionPeer("glovebox serve, session pool miss", options=(SESSIONS, "0")),
    sessions.SessionPeer("glovebox serve, HTTP keep-alive", options=(SESSIONS, "8"), fields={"way": "http"}),
    sessions.SessionPeer("glovebox serve, WebSocket", options=(SESSIONS, "8"), fields={"way": "socket"}),
    sessions.SessionPeer("glovebox serve, MCP", options=(SESSIONS, "8"), fields={"way": "mcp"}),
    sessions.SessionPeer("glovebox serve, session pool 8", options=(SESSIONS, "8", *MANY), needs=(SESSIONS,)),
    sessions.SessionPeer("glovebox serve, session pool 100", options=(SESSIONS, "100", *MANY), needs=(SESSIONS,)),
    sessions.SessionPeer("glovebox serve, live sessions", options=("--pool-size", "8", SESSIONS, "8", *MANY)),
    sessions.SessionPeer("glovebox serve, beside a hostile session", fields={"way": "http"}),
    sessions.SessionPeer("glovebox serve, a processor kept free", options=("--spare-cpus", "1"), fields={"way": "http"}),
    sessions.IdlePeer("glovebox serve, idle sessions", options=(SESSIONS, "8", *MANY)),
    kernels.KernelPeer("glovebox serve, legacy framing", options=(SESSIONS, "8"), fields={"framing": kernels.LEGACY}),
    kernels.KernelPeer("glovebox serve, v1 framing", options=(SESSIONS, "8"), fields={"framing": kernels.V1}),
    kernels.KernelPeer("glovebox serve, kernels, session pool 8", options=(SESSIONS, "8", *MANY), fields={"framing": kernels.V1}),
    kernels.KernelPeer("glovebox serve, kernels, session pool 200", options=(SESSIONS, "200", "--pool-max", "512", *MANY),
                       fields={"framing": kernels.V1}),
    net.DirectPeer("without a box"),
    net.DirectPeer("without a box, a server that answers without looking", way="dns"),
    net.NetPeer("glovebox serve, a box with rules", options=(SESSIONS, "0"), fields={"network": net.RULES}),
    net.NetPeer("glovebox serve, names of a box", options=(SESSIONS, "0"), fields={"network": net.RULES}, way="dns"),
    net.NetPeer("glovebox serve, network none", options=(SESSIONS, "8"), fields={"network": {"policy": "none"}}),
    net.NetPeer("glovebox serve, network allow", options=(SESSIONS, "8"), fields={"network": net.RULES}),
    sdk.ClientPeer("http.client, one connection", options=(SESSIONS, "8")),
    sdk.SdkPeer("glovebox SDK, blocking", options=(SESSIONS, "8"), way="blocking"),
    sdk.SdkPeer("glovebox SDK, asyncio", options=(SESSIONS, "8"), way="asyncio"),
    imports.TarPeer("tar -x"),
    imports.ImportPeer("glovebox env import"),
    packages.VenvPeer("python3 -m venv, pip", fresh=True),
    packages.VenvPeer("python3 of a venv"),
    packages.EnvironmentPeer("glovebox serve, a new environment", options=("--pool-size", "0", SESSIONS, "0")),
    packages.EnvironmentPeer("glovebox serve, environment, pool hit", options=("--pool-size", "0", SESSIONS, "0"), fields={"pool": 8}, outcome="hit"),
    packages.EnvironmentPeer("glovebox serve, environment, pool miss", options=("--pool-size", "0", SESSIONS, "0"), fields={"pool": 0}, outcome="miss"),
    tools.SdkPeer(),
    tools.ToolPeer("glovebox serve, tools", options=(SESSIONS, "0", "--tool-rate", "0"), needs=("--tool-servers",)),
]
PEERS = {peer.name: peer for peer in _ROWS}
