# SPDX-License-Identifier: Apache-2.0
"""Fills an environment of the kind `root`, in a box: `glovebox env import` runs this there. What is to be imported is at /mnt/image, a directory or image.tar in one; the root
file system goes to /opt/environment. The archive is a stranger's: what it does wrong is refused, and whatever that does to this program, it does it in this box.

Taken are an OCI image layout and what `docker save` writes, as a directory or an archive, also compressed; an archive of a root file system (`docker export`); a directory that is
one. A line of JSON on standard output says what was found; progress goes to standard error.
"""
import errno
import hashlib
import io
import json
import os
import platform
import shutil
import stat
import sys
import tarfile
import time

IMAGE, TREE = "/mnt/image", "/opt/environment"
LAYERS = TREE + "/.glovebox-layers"
OPAQUE, WHITEOUT = ".wh..wh..opq", ".wh."
DEPTH_MAX, ENTRIES_MAX, JSON_MAX, JSON_ALL = 100, 4_000_000, 4 << 20, 64 << 20
PIECE = 1 << 20
# Variables of an image that a box has of its own.
OURS = ("PATH", "HOME", "HOSTNAME", "USER", "LOGNAME", "SHELL", "PWD", "TERM", "LD_PRELOAD", "LD_LIBRARY_PATH")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Refused(Exception):
    pass


def say(text):
    print("== " + text, file=sys.stderr, flush=True)


# --- names ---------------------------------------------------------------------------------------------------------


def parts_of(name):
    """Of a name in an archive, below its root."""
    if name.startswith("/") or "\0" in name:
        raise Refused(f"the name {name!r:.200} is not below its root")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused(f"the name {name!r:.200} leads out of its root")
    if len(parts) > DEPTH_MAX:
        raise Refused(f"the name {name!r:.200} is more than {DEPTH_MAX} directories deep")
    return parts


def is_directory(path):
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def remove(path):
    try:
        if is_directory(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except FileNotFoundError:
        pass


# --- one archive ----------------------------------------------------------------------------------------------------


class Member(tarfile.TarInfo):
    """tarfile takes a block that it cannot read for the end: then half of an image would be one."""

    @classmethod
    def frombuf(cls, buf, encoding, errors):
        try:
            return super().frombuf(buf, encoding, errors)
        except (tarfile.InvalidHeaderError, tarfile.TruncatedHeaderError) as e:
            raise tarfile.ReadError(f"a bad header: {e}") from None


def open_archive(mode, **of):
    return tarfile.open(mode=mode, bufsize=PIECE, tarinfo=Member, **of)


class Unpacker:
    """An archive below a directory, which nobody else writes to."""

    def __init__(self, base):
        self.base = base
        self.made = {""}
        self.skipped = self.privileged = self.entries = 0
        os.makedirs(base, exist_ok=True)

    def place(self, parts):
        """Where it goes; directories above it are made, and none of them is a link."""
        for n in range(1, len(parts)):
            above = "/".join(parts[:n])
            if above in self.made:
                continue
            path = f"{self.base}/{above}"
            if not is_directory(path):
                if os.path.lexists(path):
                    raise Refused(f"something is below {above!r:.200}, which is no directory")
                os.mkdir(path, 0o755)
            self.made.add(above)
        return "/".join([self.base, *parts])

    def take(self, archive, member):
        self.entries += 1
        if self.entries > ENTRIES_MAX:
            raise Refused(f"there are more than {ENTRIES_MAX} entries")
        parts = parts_of(member.name)
        if not parts:
            return
        path = self.place(parts)
        if member.isdir():
            if not is_directory(path):
                remove(path)
                os.mkdir(path, 0o755)
            self.made.add("/".join(parts))
            os.chmod(path, member.mode & 0o777 | 0o700)
            return
        if "/".join(parts) in self.made:
            shutil.rmtree(path)
            self.made = {name for name in self.made if not (name + "/").startswith("/".join(parts) + "/")}
        if not (member.isreg() or member.issym() or member.islnk()):
            self.skipped += 1
            return
        remove(path)
        if member.issym():
            os.symlink(member.linkname, path)
        elif member.islnk():
            other = "/".join([self.base, *parts_of(member.linkname)])
            self.place(parts_of(member.linkname))
            if not os.path.lexists(other) or not stat.S_ISREG(os.lstat(other).st_mode):
                raise Refused(f"{member.name!r:.200} is a link to {member.linkname!r:.200}, which is no file of the archive")
            os.link(other, path)
        else:
            self.privileged += bool(member.mode & 0o7000)
            self.write(archive.extractfile(member), path, member)

    @staticmethod
    def write(source, path, member):
        with open(path, "xb", buffering=0) as f:
            left = member.size
            while left > 0:
                piece = source.read(min(left, PIECE))
                if not piece:
                    raise Refused("the archive is cut off")
                f.write(piece)
                left -= len(piece)
            os.fchmod(f.fileno(), member.mode & 0o777)
            os.utime(f.fileno(), (member.mtime, member.mtime))

    def all_of(self, file):
        """From a stream that is read once."""
        with open_archive("r|*", fileobj=file) as archive:
            for member in archive:
                self.take(archive, member)
                archive.members.clear()


# --- layers ----------------------------------------------------------------------------------------------------------


def merge(layer, tree):
    """What a layer has, over what is there: as overlay file systems show it."""
    names = os.listdir(layer)
    if OPAQUE in names:
        for name in os.listdir(tree):
            if f"{tree}/{name}" != LAYERS:
                remove(f"{tree}/{name}")
    for name in names:
        if name.startswith(WHITEOUT) and name != OPAQUE:
            gone = name[len(WHITEOUT):]
            if gone in ("", ".", "..") or "/" in gone:
                raise Refused(f"{name!r:.200} takes away nothing")
            remove(f"{tree}/{gone}")
    for name in names:
        new, old = f"{layer}/{name}", f"{tree}/{name}"
        if name.startswith(WHITEOUT):
            continue
        if is_directory(new):
            if not is_directory(old):
                remove(old)
                os.mkdir(old, 0o755)
            merge(new, old)
            os.chmod(old, os.stat(new).st_mode & 0o777)
        else:
            remove(old)
            os.rename(new, old)


class Checked(io.RawIOBase):
    """A blob, which must be what its name says."""

    def __init__(self, file, digest):
        self.file, self.digest, self.hash = file, digest, hashlib.sha256()

    def readable(self):
        return True

    def read(self, n=-1):
        piece = self.file.read(n)
        self.hash.update(piece)
        return piece

    def finish(self):
        while self.read(PIECE):
            pass
        if self.hash.hexdigest() != self.digest:
            raise Refused(f"the blob sha256:{self.digest} has other bytes than it should")


# --- images ----------------------------------------------------------------------------------------------------------


class Directory:
    """The files of an image in a directory."""

    def names(self):
        for folder, directories, files in os.walk(IMAGE):
            directories.sort()
            for name in files:
                path = os.path.join(folder, name)
                if stat.S_ISREG(os.lstat(path).st_mode):
                    yield os.path.relpath(path, IMAGE), os.stat(path).st_size, lambda path=path: open(path, "rb")

    def each(self):
        yield from self.names()


class Archive:
    """The same in an archive, from its beginning to its end each time."""

    def __init__(self, path):
        self.path = path

    def each(self):
        with open_archive("r:*", name=self.path) as archive:
            for member in archive:
                if member.isreg():
                    yield member.name.removeprefix("./"), member.size, lambda member=member: archive.extractfile(member)
                elif member.issym() or member.islnk():  # docker save, of a layer that is there twice
                    target = member.linkname if member.islnk() else os.path.normpath(os.path.join(os.path.dirname(member.name), member.linkname))
                    self.links[member.name.removeprefix("./")] = target.removeprefix("./")
                archive.members.clear()

    links = {}


def documents(source):
    """Small files: manifests and configurations are among them."""
    found, room = {}, JSON_ALL
    for name, size, open_it in source.each():
        if size <= JSON_MAX and size <= room and (name.startswith("blobs/") or "/" not in name or name.endswith("json")):
            room -= size
            found[name] = open_it().read()
    return found


def blob(digest):
    kind, _, name = str(digest).partition(":")
    if kind != "sha256" or len(name) != 64 or not set(name) <= set("0123456789abcdef"):
        raise Refused(f"{digest!r:.100} is no sha256 digest")
    return f"blobs/sha256/{name}"


def read_json(found, name):
    try:
        value = json.loads(found[name])
    except KeyError:
        raise Refused(f"the image lacks {name}") from None
    except ValueError:
        raise Refused(f"{name} is no JSON") from None
    if name.startswith("blobs/") and hashlib.sha256(found[name]).hexdigest() != name.rpartition("/")[2]:
        raise Refused(f"{name} has other bytes than it should")
    return value


def here():
    return MACHINES.get(platform.machine(), platform.machine())


def pick(found, index, depth=0):
    """The manifest for this machine."""
    wanted, others = here(), []
    for entry in index.get("manifests", []):
        about = entry.get("platform") or {}
        if about.get("architecture", wanted) != wanted or about.get("os", "linux") != "linux":
            others.append(f"{about.get('os')}/{about.get('architecture')}")
            continue
        manifest = read_json(found, blob(entry.get("digest")))
        if "manifests" in manifest and depth < 4:
            return pick(found, manifest, depth + 1)
        if "layers" in manifest:
            return manifest
    raise Refused(f"there is no image for linux/{wanted}" + (f", only for {', '.join(sorted(set(others)))}"[:300] if others else ""))


def plan(found):
    """(names of layers, the configuration) of an image; None: it is none."""
    if "index.json" in found:
        manifest = pick(found, read_json(found, "index.json"))
        for layer in manifest["layers"]:
            if str(layer.get("mediaType", "")).endswith("zstd"):
                raise Refused("a layer is compressed by zstd, which cannot be read: gzip or none can")
        return [blob(layer["digest"]) for layer in manifest["layers"]], read_json(found, blob(manifest["config"]["digest"]))
    if "manifest.json" in found:
        images = read_json(found, "manifest.json")
        if len(images) != 1:
            raise Refused(f"there are {len(images)} images in it: save one")
        return [str(name) for name in images[0]["Layers"]], read_json(found, str(images[0]["Config"]))
    return None


def unpack_image(source, layers, config):
    if config.get("os", "linux") != "linux" or config.get("architecture", here()) != here():
        raise Refused(f"it is an image for {config.get('os')}/{config.get('architecture')}, this machine is linux/{here()}")
    where = {}
    for at, name in enumerate(layers):
        where.setdefault(name, []).append(at)
    totals = [0, 0]
    for name, size, open_it in source.each():
        if name not in where:
            continue
        say(f"layer {where[name][0] + 1} of {len(layers)}, {size >> 20} MiB")
        file = open_it()
        digest = name.rpartition("/")[2] if name.startswith("blobs/sha256/") else None
        checked = Checked(file, digest) if digest else None
        unpacker = Unpacker(f"{LAYERS}/{where[name][0]}")
        unpacker.all_of(checked or file)
        if checked:
            checked.finish()
        totals[0] += unpacker.skipped
        totals[1] += unpacker.privileged
    links = getattr(source, "links", {})
    for at, name in enumerate(layers):
        first = where.get(links.get(name, name), where[name])[0]
        if not is_directory(f"{LAYERS}/{first}"):
            raise Refused(f"the image lacks its layer {name:.200}")
    say("putting the layers together")
    for at, name in enumerate(layers):
        first = where.get(links.get(name, name), where[name])[0]
        if first == at:
            merge(f"{LAYERS}/{first}", TREE)
    shutil.rmtree(LAYERS, ignore_errors=True)
    return totals


def copy_directory(source=IMAGE, target=TREE, totals=None):
    """A directory that is a root file system."""
    totals = totals or [0, 0]
    with os.scandir(source) as entries:
        for entry in entries:
            mode, path = entry.stat(follow_symlinks=False).st_mode, f"{target}/{entry.name}"
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(entry.path), path)
            elif stat.S_ISDIR(mode):
                os.mkdir(path, 0o700)
                copy_directory(entry.path, path, totals)
                os.chmod(path, mode & 0o777 | 0o700)
            elif stat.S_ISREG(mode):
                shutil.copyfile(entry.path, path)
                os.chmod(path, mode & 0o777)
                totals[1] += bool(mode & 0o7000)
            else:
                totals[0] += 1
    return totals


# --- what there is in it --------------------------------------------------------------------------------------------------


def resolve(path, depth=0):
    """Where a path of the environment leads, by its own links; None: nowhere."""
    at = []
    parts = [part for part in path.split("/") if part]
    while parts:
        part = parts.pop(0)
        if part == "..":
            at = at[:-1]
            continue
        here_path = "/".join([TREE, *at, part])
        if not os.path.lexists(here_path):
            return None
        if os.path.islink(here_path):
            depth += 1
            if depth > 40:
                return None
            target = os.readlink(here_path)
            if target.startswith("/"):
                at = []
            parts = [p for p in target.split("/") if p not in ("", ".")] + parts
        elif part != ".":
            at.append(part)
    return "/".join([TREE, *at])


def find_python(path):
    for folder in [*path.split(":"), "/usr/local/bin", "/usr/bin", "/opt/venv/bin", "/opt/conda/bin"]:
        for name in ("python3", "python"):
            found = resolve(f"{folder}/{name}") if folder.startswith("/") else None
            if found and os.access(found, os.X_OK) and stat.S_ISREG(os.stat(found).st_mode):
                return f"{folder.rstrip('/')}/{name}"
    return None


def open_to_all():
    """Boxes read it as somebody else, and nothing in it has a privilege."""
    for folder, directories, files in os.walk(TREE):
        for name in directories + files:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode):
                wanted = mode & 0o777 | 0o444 | (0o711 if stat.S_ISDIR(mode) else 0o111 if mode & 0o111 else 0) | (0o055 if stat.S_ISDIR(mode) else 0)
                if wanted != stat.S_IMODE(mode):
                    os.chmod(path, wanted)


def main():
    begun = time.monotonic()
    os.umask(0o022)
    tar = os.path.join(IMAGE, "image.tar")
    source = Archive(tar) if sys.argv[1] == "file" else Directory()
    config = {}
    try:
        is_image = isinstance(source, Archive) or os.path.exists(f"{IMAGE}/index.json") or os.path.exists(f"{IMAGE}/manifest.json")
        image = plan(documents(source)) if is_image else None
        if image is not None:
            layers, config = image
            skipped, privileged = unpack_image(source, layers, config)
        elif isinstance(source, Archive):
            say("a root file system")
            unpacker = Unpacker(TREE)
            with open(tar, "rb", buffering=0) as f:
                unpacker.all_of(f)
            skipped, privileged = unpacker.skipped, unpacker.privileged
        else:
            say("copying")
            skipped, privileged = copy_directory()
        if not is_directory(f"{TREE}/usr") and not is_directory(f"{TREE}/bin"):
            raise Refused("it is no root file system: there is neither /usr nor /bin in it")
    except (tarfile.TarError, EOFError, UnicodeError, KeyError, TypeError, AttributeError, RecursionError, ValueError) as e:
        raise Refused(f"it cannot be read: {type(e).__name__}: {e}"[:300]) from None
    open_to_all()
    pairs = [text.partition("=") for text in (config.get("config") or {}).get("Env") or [] if isinstance(text, str)]
    path = next((value for name, _, value in pairs if name == "PATH" and len(value) < 256), "/usr/local/bin:/usr/bin:/bin")
    variables = [f"{name}={value}" for name, is_, value in pairs if is_ and name and name not in OURS and not any(c < " " for c in name + value)]
    if skipped:
        say(f"left out: {skipped} that are no files, directories or links")
    if privileged:
        say(f"without its privilege: {privileged} programs that were setuid or setgid")
    say(f"{time.monotonic() - begun:.1f} s")
    print(json.dumps({"python": find_python(path), "path": path, "variables": variables}))


try:
    main()
except Refused as e:
    sys.exit(f"refused: {e}")
except OSError as e:
    sys.exit("refused: it becomes larger than --bytes allows" if e.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT) else f"cannot go on: {e}")
