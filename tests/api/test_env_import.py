# SPDX-License-Identifier: Apache-2.0
"""`glovebox env import`: root file systems from images, and from archives that strangers have made."""
import gzip
import io
import json
import os
import signal
import subprocess
import tarfile

import pytest

import images
import tars
from server import needs_root, until  # noqa: F401

pytestmark = needs_root


class Place:
    """A directory of environments, and the program."""

    def __init__(self, run, path):
        self.run, self.path = run, path

    def env(self, verb, *words, **kw):
        return self.run("env", verb, "--dir", self.path, *words, **kw)

    def take(self, source, *words, name="mine", **kw):
        done = self.env("import", name, source, *words, **kw)
        assert done.returncode == 0, done.stderr.decode()
        return done

    def refuses(self, source, why, *words, name="mine", **kw):
        before = self.files()
        done = self.env("import", name, source, *words, **kw)
        said = done.stderr.decode()
        assert done.returncode not in (0, None) and why in said, (done.returncode, said)
        assert "Traceback" not in said and self.files() == before, "nothing of it is left"
        return said

    def listed(self):
        return [json.loads(line) for line in self.env("list", "--json").stdout.splitlines()]

    def files(self):
        return sorted(os.listdir(self.path)) if self.path.exists() else []

    def sh(self, command, name="mine", **kw):
        """What a command says in a box of it."""
        done = self.run("run", "--environments-dir", self.path, "--environment", name, "--shell", "-c", command, **kw)
        return done.stdout.decode(), done.stderr.decode(), done.returncode

    def python(self, code, name="mine"):
        done = self.run("run", "--environments-dir", self.path, "--environment", name, "-c", code)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


@pytest.fixture
def place(run, tmp_path):
    return Place(run, tmp_path / "environments")


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """A root with a shell in it."""
    return images.root(tmp_path_factory.mktemp("root") / "root", texts={"etc/issue": "ours\n", "opt/data/a": "1", "opt/data/b": "2", "root-file": "x"})


@pytest.fixture(scope="module")
def base(shell):
    return images.layer(shell)


# --- what is taken ---------------------------------------------------------------------------------------------


def shown(place, name="mine"):
    out, err, status = place.sh("cat /etc/issue; ls /opt/data; ls /", name)
    assert status == 0, err
    return out.splitlines()


def test_a_directory(place, shell):
    done = place.take(shell)
    assert done.stdout.startswith(b"mine: no Python: for commands only, ")
    said = shown(place)
    assert said[:3] == ["ours", "a", "b"] and "usr" in said and "root-file" not in said
    about, = place.listed()
    assert (about["name"], about["kind"]) == ("mine", "root")
    done = place.run("run", "--environments-dir", place.path, "--environment", "mine", "-c", "1")
    assert done.returncode != 0 and b"Python" in done.stderr, "there is none in it, and the machine's is not shown"


@pytest.mark.parametrize("how", ["oci-directory", "oci-archive", "oci-plain", "docker-save", "archive.gz", "standard input"])
def test_each_form(place, base, tmp_path, how):
    files = {"oci-directory": images.oci, "oci-archive": images.oci, "docker-save": images.docker_save}.get(how, lambda layers: images.oci(layers, compress=False))([base])
    if how == "oci-directory":
        source = images.to_directory(tmp_path / "image", files)
    elif how == "archive.gz":
        source = tmp_path / "root.tar.gz"
        source.write_bytes(gzip.compress(base, 1))
    else:
        source = images.to_archive(tmp_path / "image.tar", files)
    if how == "standard input":
        with open(source, "rb") as f:
            place.take("-", stdin=f)
    else:
        place.take(source)
    assert shown(place)[:3] == ["ours", "a", "b"]


def test_layers_lie_on_each_other(place, base, tmp_path):
    """Files replaced and taken away, directories made empty, what was a directory and is a file, and the other way round."""
    second = images.layer(texts={"etc/issue": "theirs\n", "opt/data/.wh.a": "", "opt/more/x": "x", "opt/was/in": "1", "opt/turns": "file"}, dirs=["opt/empty"])
    third = images.layer(texts={"opt/more/.wh..wh..opq": "", "opt/more/y": "y", "opt/was": "a file", "opt/turns/into": "a directory"})
    place.take(images.to_directory(tmp_path / "image", images.oci([base, second, third])))
    out, err, _ = place.sh("cat /etc/issue; cd /opt; ls data more empty; cat was turns/into")
    assert (out, err) == ("theirs\ndata:\nb\n\nempty:\n\nmore:\ny\na filea directory", "")


def test_the_same_layer_twice(place, base, tmp_path):
    image = images.docker_save([base, images.layer(texts={"opt/data/.wh.a": ""}), images.layer(texts={"opt/data/.wh.b": ""})])
    place.take(images.to_archive(tmp_path / "image.tar", image))
    assert place.sh("ls /opt/data")[0] == ""


def test_python_and_variables(place, tmp_path):
    folder = images.root(tmp_path / "root", images.python_files())
    image = images.oci([images.layer(folder)], env=["PATH=/opt/tools:/usr/bin", "GREETING=hello there", "LD_PRELOAD=/x.so", "HOME=/root", "bad", "=bad", "MULTI=a\nb"])
    done = place.take(images.to_directory(tmp_path / "image", image))
    assert b"mine: Python 3." in done.stdout and b"without IPython" in done.stdout
    told = json.loads(place.python("import json, os, sys; print(json.dumps([sys.prefix, os.path.exists('/usr/share'), os.getuid(), dict(os.environ)]))"))
    assert told[:3] == ["/usr", False, 65532]
    assert told[3]["PATH"] == "/opt/tools:/usr/bin" and told[3]["GREETING"] == "hello there" and told[3]["HOME"] == "/home/box"
    assert not {"LD_PRELOAD", "bad", "", "MULTI"} & set(told[3])


def test_it_is_read_only_and_sealed(place, shell):
    place.take(shell)
    out, err, _ = place.sh("echo x > /opt/data/a; echo x > /etc/issue; echo x > /usr/new; echo ok > /workspace/x; cat /workspace/x /opt/data/a; ls -la /.environment /proc/1/root 2>&1")
    assert out.startswith("ok\n1") and err.count("Read-only") + err.count("denied") >= 3, (out, err)
    assert "cannot access '/.environment'" in out


def test_what_is_no_file_is_left_out_and_no_privilege_is_kept(place, tmp_path):
    """Not even on the disk of the host."""
    archive = tarfile.open(tmp_path / "image.tar", "w")
    for name, kind, mode in (("usr/bin/su", tarfile.REGTYPE, 0o6755), ("dev/sda", tarfile.BLKTYPE, 0o666), ("usr/null", tarfile.CHRTYPE, 0o666), ("usr/fifo", tarfile.FIFOTYPE, 0o666)):
        about = tarfile.TarInfo(name)
        about.type, about.mode, about.devmajor, about.devminor = kind, mode, 1, 3
        archive.addfile(about, io.BytesIO())
    archive.close()
    said = place.take(tmp_path / "image.tar").stderr.decode()
    assert "left out: 3 that are no files" in said and "without its privilege: 1 programs" in said
    seen = {os.path.relpath(os.path.join(at, name), place.path): os.lstat(os.path.join(at, name)) for at, _, names in os.walk(place.path) for name in names}
    assert [oct(st.st_mode) for path, st in seen.items() if path.endswith("usr/bin/su")] == ["0o100755"]
    assert not [path for path in seen if path.endswith(("null", "fifo", "sda"))]


def test_another_replaces_it(place, shell, base, tmp_path):
    place.take(shell)
    place.take(images.to_directory(tmp_path / "image", images.oci([base, images.layer(texts={"etc/issue": "another\n"})])))
    assert shown(place)[0] == "another"
    assert len(place.listed()) == 1 and len(place.files()) == 2, "a name and a version"
    assert place.env("remove", "mine").returncode == 0 and place.files() == []


# --- what is refused ---------------------------------------------------------------------------------------------

OK = tars.file("usr/ok", "x")
HOSTILE = {
    "absolute": (tars.file("/etc/cron.d/x", "x"), "is not below its root"),
    "leads out": (tars.file("usr/../../../etc/x", "x"), "leads out of its root"),
    "through a link": (tars.head("usr/out", b"2", link="/etc") + tars.file("usr/out/x", "x"), "which is no directory"),
    "through a relative link": (tars.head("out", b"2", link="../..") + tars.file("out/x", "x"), "which is no directory"),
    "a link to what is outside": (tars.head("usr/x", b"1", link="/etc/passwd"), "is not below its root"),
    "a link that leads out": (tars.head("usr/x", b"1", link="../../etc/passwd"), "leads out of its root"),
    "a link to a link": (tars.head("usr/s", b"2", link="/etc/passwd") + tars.head("usr/x", b"1", link="usr/s"), "which is no file of the archive"),
    "a link to a directory": (tars.head("usr/d", b"5") + tars.head("usr/x", b"1", link="usr/d"), "which is no file of the archive"),
    "a link to itself": (tars.head("usr/x", b"1", link="usr/x"), "which is no file of the archive"),
    "too deep": (b"".join(tars.pax(path="usr/" + "d/" * 101 + "x") for _ in range(1)) + tars.file("x", "x"), "directories deep"),
    "cut off": (tars.head("usr/x", size=10**6) + b"x" * 512, "cannot be read"),
    "a checksum": (tars.head("usr/x", checksum=b"000000\0 "), "cannot be read"),
    "no archive": (b"#!/bin/sh\necho no\n" * 100, "cannot be read"),
    "nothing": (b"", "cannot be read"),
    "no root": (b"", "neither /usr nor /bin"),
}


@pytest.mark.parametrize("how", [pytest.param(how, marks=() if how in ("absolute", "through a link", "a link to a link", "cut off") else pytest.mark.more) for how in HOSTILE])
def test_hostile_archives(place, tmp_path, how):
    data, why = HOSTILE[how]
    good = how in ("no archive", "nothing")
    path = tmp_path / "image.tar"
    path.write_bytes(data if good else (tars.file("srv/x", "x") if how == "no root" else OK) + data + (b"" if how == "cut off" else tars.END))
    place.refuses(path, why)


@pytest.mark.more
@pytest.mark.parametrize("how", ["through a link", "leads out", "a link to a link"])
@pytest.mark.parametrize("form", ["oci", "docker"])
def test_hostile_layers(place, base, tmp_path, how, form):
    """A layer is looked at like any archive."""
    data, why = HOSTILE[how]
    make = images.oci if form == "oci" else images.docker_save
    place.refuses(images.to_archive(tmp_path / "image.tar", make([base, OK + data + tars.END])), why)


def test_a_link_of_one_layer_is_no_way_for_the_next(place, base, tmp_path):
    """Under a link of the first the second has a file: it replaces the link."""
    first = images.layer(texts={"usr/ok": "x"})[:-1024 * 10] + tars.head("opt/out", b"2", link="/workspace") + tars.END
    second = tars.file("opt/out/x", "x") + tars.END
    place.take(images.to_directory(tmp_path / "image", images.oci([base, first, second])))
    assert place.sh("cat /opt/out/x; ls -a /workspace | grep -w x")[0] == "x"


@pytest.mark.parametrize("name", [".wh...", ".wh..", ".wh."])
def test_whiteouts_of_nothing(place, base, tmp_path, name):
    place.refuses(images.to_directory(tmp_path / "image", images.oci([base, images.layer(texts={f"opt/{name}": ""})])), "takes away nothing")


def broken(files, how):
    """An image with something wrong, and what is said."""
    layers = [name for name, data in files.items() if name.startswith("blobs/") and data[:2] == b"\x1f\x8b"]
    if how == "other bytes in a layer":
        files[layers[0]] = gzip.compress(gzip.decompress(files[layers[0]]) + b"\0" * 512)
        return "other bytes than it should"
    if how == "no layer":
        del files[layers[0]]
        return "lacks its layer"
    manifest = next(name for name, data in files.items() if b'"layers"' in data)
    if how == "other bytes in a manifest":
        files[manifest] = files[manifest] + b" "
        return "other bytes than it should"
    if how == "no manifest":
        del files[manifest]
        return "the image lacks blobs/sha256/"
    index = json.loads(files["index.json"])
    if how == "a digest that is a path":
        index["manifests"][0]["digest"] = "sha256:../../index.json"
    elif how == "no digest":
        del index["manifests"][0]["digest"]
    elif how == "an index of numbers":
        index["manifests"] = [1, 2]
    elif how == "an index in itself":
        index = {"manifests": [{"digest": None}]}
    files["index.json"] = json.dumps(index).encode() if how != "no JSON" else b"{"
    return {"no JSON": "is no JSON", "an index of numbers": "cannot be read"}.get(how, "is no sha256 digest")


@pytest.mark.more
@pytest.mark.parametrize("how", ["other bytes in a layer", "other bytes in a manifest", "no layer", "no manifest", "a digest that is a path", "no digest",
                                 "an index of numbers", "an index in itself", "no JSON"])
def test_images_that_are_not_what_they_say(place, base, tmp_path, how):
    files = images.oci([base])
    why = broken(files, how)
    place.refuses(images.to_directory(tmp_path / "image", files), why)


def test_other_machines(place, base, tmp_path):
    said = place.refuses(images.to_directory(tmp_path / "a", images.oci([base], arch=images.FOREIGN)), f"there is no image for linux/{images.ARCH}")
    assert f"only for linux/{images.FOREIGN}" in said
    said = place.refuses(images.to_archive(tmp_path / "b.tar", images.docker_save([base], arch=images.FOREIGN)), f"an image for linux/{images.FOREIGN}")
    assert f"this machine is linux/{images.ARCH}" in said
    place.take(images.to_directory(tmp_path / "c", images.oci([base], others=[images.FOREIGN, "riscv64"])))


def test_zstd_is_named(place, base, tmp_path):
    place.refuses(images.to_directory(tmp_path / "image", images.oci([base], kinds={0: "layer.v1.tar+zstd"})), "compressed by zstd")


def test_several_images(place, base, tmp_path):
    files = images.docker_save([base])
    files["manifest.json"] = json.dumps(2 * json.loads(files["manifest.json"])).encode()
    place.refuses(images.to_archive(tmp_path / "image.tar", files), "there are 2 images in it: save one")


@pytest.mark.more
def test_what_becomes_too_large(place, tmp_path):
    """A gigabyte of nothing is a megabyte, compressed."""
    path = tmp_path / "root.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as f:
        f.write(tars.head("usr/zeros", size=1 << 30))
        for _ in range(1 << 10):
            f.write(os.urandom(1024) * 1024)
        f.write(tars.END)
    said = place.refuses(path, "", "--bytes", "64M")
    assert "--bytes" in said or "too large" in said, said


def test_what_is_not_there(place, shell, tmp_path):
    for words, why in (([tmp_path / "nothing"], "No such file"), ([], "name an image"), ([shell, shell], "name an image")):
        done = place.env("import", "mine", *words)
        assert done.returncode not in (0, None) and why in done.stderr.decode(), done.stderr
    for name in ("", "../x", "default", "python3", "Big", "a" * 64):
        done = place.env("import", name, shell)
        assert done.returncode not in (0, None) and done.stderr, name
    assert place.files() == []


def test_a_failure_leaves_what_was_there(place, shell, tmp_path):
    place.take(shell)
    place.refuses(images.to_archive(tmp_path / "image.tar", {"index.json": b"{"}), "is no JSON")
    assert shown(place)[0] == "ours"


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(place, glovebox, sig):
    """While it reads an archive that has no end yet."""
    process = subprocess.Popen([glovebox, "env", "import", "--dir", place.path, "mine", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(OK)
    process.stdin.flush()
    until(lambda: place.files() != [], "its beginning")
    process.send_signal(sig)
    process.stdin.close()
    assert process.wait(60) == 128 + sig, process.stderr.read()
    assert place.files() == []
