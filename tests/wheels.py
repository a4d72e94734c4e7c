# SPDX-License-Identifier: Apache-2.0
"""Wheels made by hand, so that pip has something to install without an index."""
import io
import zipfile


def wheel(name, version="1.0", files=None, requires=()):
    """(file name, bytes) of a package; `files` are texts by their paths, a module of its name unless said."""
    about = f"{name}-{version}.dist-info"
    meta = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {r}\n" for r in requires)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        for path, text in (files or {f"{name}.py": f"VERSION = {version!r}\n"}).items():
            z.writestr(path, text)
        z.writestr(f"{about}/METADATA", meta)
        z.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(f"{about}/RECORD", "")
    return f"{name}-{version}-py3-none-any.whl", data.getvalue()
