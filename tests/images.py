# SPDX-License-Identifier: Apache-2.0
"""Root file systems and images made by hand, of programs of this machine: layers, OCI layouts, what `docker save` writes."""
import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import subprocess
import tarfile

import tars

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
FOREIGN = {"amd64": "arm64", "arm64": "amd64"}[ARCH]
PYTHON = "/usr/bin/python3"
# As much of its library as a small program needs.
PARTS = ("encodings", "collections", "json", "importlib", "re", "lib-dynload")


def libraries(program):
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    return [word for line in done.stdout.splitlines() for word in line.split() if word.startswith("/")]


def programs(*paths):
    """{path in the root: path of this machine}, with the libraries that they need."""
    found = {}
    for path in paths:
        found[path.lstrip("/")] = os.path.realpath(path)
        for library in libraries(path):
            # On a machine whose /lib is a link to /usr/lib, so it is there.
            found[("usr" + library) if library.startswith("/lib") else library[1:]] = os.path.realpath(library)
    return found


def python_files():
    real = os.path.realpath(PYTHON)
    home = pathlib.Path("/usr/lib", os.path.basename(real))
    found = {**programs("/usr/bin/sh", "/usr/bin/cat", "/usr/bin/ls", PYTHON), real.lstrip("/"): real}
    for path in [*home.glob("*.py"), *(p for part in PARTS for p in (home / part).rglob("*") if p.is_file() and p.suffix in (".py", ".so"))]:
        found[str(path).lstrip("/")] = str(path)
    return found


LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}


def shell_files():
    return programs("/usr/bin/sh", "/usr/bin/cat", "/usr/bin/ls")


def root(folder, files=None, links=None, texts=None):
    """A directory that is a root file system."""
    folder = pathlib.Path(folder)
    for path, source in (files if files is not None else shell_files()).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / path)
    for path, text in (texts or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    for path, target in (LINKS if links is None else links).items():
        (folder / path).symlink_to(target)
    return folder


def layer(folder=None, texts=None, dirs=()):
    """A layer, as bytes of an archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(pathlib.Path(folder).iterdir()) if folder else ():
            archive.add(path, path.name)
        for path in dirs:
            about = tarfile.TarInfo(path)
            about.type, about.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(about)
        for path, text in (texts or {}).items():
            about = tarfile.TarInfo(path)
            about.size, about.mode = len(text), 0o644
            archive.addfile(about, io.BytesIO(text.encode()))
    return data.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def config(env=(), arch=ARCH):
    return json.dumps({"architecture": arch, "os": "linux", "config": {"Env": list(env)}, "rootfs": {"type": "layers", "diff_ids": []}}).encode()


def oci(layers, env=(), arch=ARCH, compress=True, others=(), kinds=None):
    """{name: bytes} of an OCI layout; `others` are architectures that it names and has no layers of."""
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(data, kind):
        files[f"blobs/sha256/{sha256(data)}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{sha256(data)}", "size": len(data)}

    kind = "layer.v1.tar+gzip" if compress else "layer.v1.tar"
    packed = [blob(gzip.compress(data, 1) if compress else data, (kinds or {}).get(n, kind)) for n, data in enumerate(layers)]
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": blob(config(env, arch), "config.v1+json"), "layers": packed}
    entries = [{**blob(json.dumps(manifest).encode(), "manifest.v1+json"), "platform": {"architecture": arch, "os": "linux"}}]
    entries += [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:" + "0" * 64, "size": 1, "platform": {"architecture": other, "os": "linux"}}
                for other in others]
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    return files


def docker_save(layers, env=(), arch=ARCH):
    """The same as `docker save` wrote it before it wrote OCI layouts."""
    about = config(env, arch)
    files = {f"{sha256(about)}.json": about}
    names = []
    for data in layers:
        names.append(f"{sha256(data)}/layer.tar")
        files[names[-1]] = data
    files["manifest.json"] = json.dumps([{"Config": f"{sha256(about)}.json", "RepoTags": ["mine:latest"], "Layers": names}]).encode()
    return files


def to_directory(folder, files):
    for name, data in files.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return pathlib.Path(folder)


def to_archive(path, files):
    pathlib.Path(path).write_bytes(b"".join(tars.file(name, data) for name, data in files.items()) + tars.END)
    return pathlib.Path(path)
