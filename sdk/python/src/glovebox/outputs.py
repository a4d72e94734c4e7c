# SPDX-License-Identifier: Apache-2.0
"""What a cell shows: texts, pictures, JSON, by mime type. It is data, and nothing here runs or interprets it."""
from __future__ import annotations

import base64
import binascii
import importlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Mapping, Optional, Protocol, Tuple, Union, cast

from . import _json
from .errors import GloveboxError, ProtocolError, TooLarge

if TYPE_CHECKING:
    import os

#: Pictures with more pixels than this are not decoded by pil() and show().
PIXELS_MAX = 64 * 1024 * 1024


class Picture(Protocol):
    """What is used here of an Image of Pillow."""

    @property
    def size(self) -> Tuple[int, int]: ...

    def load(self) -> object: ...

    def show(self) -> None: ...

    def save(self, fp: Union[str, os.PathLike[str]]) -> None: ...


@dataclass(frozen=True)
class Output:
    """One thing that was displayed, or (type "result") the value of the last expression."""

    type: str
    #: By mime type: texts, images in base64, JSON as Python has it.
    data: Mapping[str, object] = field(repr=False)
    metadata: Mapping[str, object] = field(repr=False)
    display_id: Optional[str] = None
    execution_count: Optional[int] = None

    def __repr__(self) -> str:
        return f"Output({self.type!r}, {self.text[:80]!r}, {sorted(self.data)})"

    def _text(self, mime: str) -> Optional[str]:
        value = self.data.get(mime)
        return value if isinstance(value, str) else None

    @property
    def text(self) -> str:
        """As text/plain; empty if it has none."""
        return self._text("text/plain") or ""

    @property
    def html(self) -> Optional[str]:
        """To be shown only where scripts of a stranger do no harm."""
        return self._text("text/html")

    @property
    def markdown(self) -> Optional[str]:
        return self._text("text/markdown")

    @property
    def latex(self) -> Optional[str]:
        return self._text("text/latex")

    @property
    def svg(self) -> Optional[str]:
        return self._text("image/svg+xml")

    @property
    def json(self) -> object:
        """application/json, None if it has none."""
        return self.data.get("application/json")

    def bytes_of(self, mime: str) -> Optional[bytes]:
        """What is in base64, decoded."""
        value = self._text(mime)
        if value is None:
            return None
        try:
            return base64.b64decode(value.replace("\n", ""), validate=True)
        except (binascii.Error, ValueError):
            raise ProtocolError(f"the box has sent an {mime} that is no base64") from None

    @property
    def png(self) -> Optional[bytes]:
        return self.bytes_of("image/png")

    @property
    def jpeg(self) -> Optional[bytes]:
        return self.bytes_of("image/jpeg")

    @property
    def image(self) -> Optional[bytes]:
        """The picture, PNG or JPEG, if it is one."""
        return self.png or self.jpeg

    def pil(self) -> Picture:
        """The picture as an Image of Pillow, which has to be installed. Only PNG and JPEG, and of a bounded size."""
        data = self.image
        if data is None:
            raise GloveboxError(f"this output is no picture: it has {', '.join(sorted(self.data)) or 'nothing'}")
        return picture(data)

    def show(self) -> None:
        """Opens the picture in a window, by Pillow."""
        self.pil().show()


def picture(data: bytes) -> Picture:
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise GloveboxError("Pillow is needed to decode pictures: pip install pillow, or apt install python3-pil") from None
    try:
        opened = cast(Picture, pillow.open(io.BytesIO(data), formats=("PNG", "JPEG")))
    except (OSError, ValueError, SyntaxError) as e:
        raise ProtocolError(f"the box has sent a picture that is none: {e!r}"[:300]) from None
    width, height = opened.size
    if width * height > PIXELS_MAX:
        raise TooLarge(f"a picture of {width} x {height} pixels; glovebox.outputs.PIXELS_MAX allows more than {PIXELS_MAX}")
    try:
        opened.load()
    except (OSError, ValueError, SyntaxError) as e:
        raise ProtocolError(f"the box has sent a picture that is broken: {e!r}"[:300]) from None
    return opened


def output_of(o: Mapping[str, object], kind: str) -> Output:
    return Output(kind, _json.member(o, "data"), _json.member(o, "metadata"), _json.text_or_none(o, "display_id"), _json.integer_or_none(o, "execution_count"))
