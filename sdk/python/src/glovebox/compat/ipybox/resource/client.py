# SPDX-License-Identifier: Apache-2.0
"""ResourceClient: files, directories and sources of a container, by its resource port. It also speaks to containers of ipybox itself.

Archives come from a stranger: they are written by _extract.py, below the directory that the caller names and nowhere else.
"""
from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import os
import pathlib
import urllib.parse
import zlib
from typing import TYPE_CHECKING, AsyncIterable, AsyncIterator, BinaryIO, Dict, Iterator, List, Mapping, Optional, Tuple, Union, cast

from .... import _json
from ...._async import folders
from ...._async.http import JSON_TYPE, Answer, Body
from ...._folders import CHUNK, Packer, Unpacker
from ...._transport import aio as io
from ...._transport.patience import Patience
from ...._transport.trouble import Trouble
from ....errors import ApiError, GloveboxError, ProtocolError, Retriable, ServerUnreachable
from .._failures import translated
from .._port import Port

if TYPE_CHECKING:
    from ...._async.files import AsyncReader

__all__ = ["ConnectionError", "ResourceClient"]

# Of a directory: as box.files.download_dir() has it.
_BYTES_MAX, _FILES_MAX = 4 << 30, 100_000

LocalPath = Union[str, "os.PathLike[str]"]


class ConnectionError(ServerUnreachable):  # pylint: disable=redefined-builtin
    """There is no resource server."""


class ResourceClient:
    """Files and sources of a container. Paths are below /app.

        async with ResourceClient(port=container.resource_port) as client:
            await client.upload_file("data/in.csv", Path("in.csv"))

    host: of a container on another machine; "gb:TOKEN@host" for one that wants a token. What the server refuses is a GloveboxError with its `status`;
    where aiohttp is installed, it is an aiohttp.ClientResponseError, too.
    """

    def __init__(self, port: int, host: str = "localhost", connect_retries: int = 10, connect_retry_interval: float = 1.0) -> None:
        self.port = port
        self.host = host
        self._connect_retries = connect_retries
        self._connect_retry_interval = connect_retry_interval
        self._port: Optional[Port] = None

    async def __aenter__(self) -> ResourceClient:
        await self.connect()
        return self

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.disconnect()

    async def connect(self) -> None:
        """Waits until the server answers. ConnectionError if it has not after so many tries, or refuses."""
        http = self._http()
        why: Optional[GloveboxError] = None
        http.at_once = True
        try:
            for _ in range(self._connect_retries):
                try:
                    await http.answer("GET", "/status/")
                    return
                except GloveboxError as e:
                    why = e
                    if isinstance(e, ApiError) and e.status < 500 and not isinstance(e, Retriable):
                        break  # it will say the same again
                await asyncio.sleep(self._connect_retry_interval)
        finally:
            http.at_once = False
        raise ConnectionError(f"Failed to connect to resource server{': ' if why else ''}{why or ''}") from why

    async def disconnect(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            await port.close()

    def _http(self) -> Port:
        if self._port is None:
            self._port = Port(self.host, self.port)
        return self._port

    # --- sources --------------------------------------------------------------------------------------------------------------

    async def generate_mcp_sources(self, relpath: str, server_name: str, server_params: Mapping[str, object]) -> List[str]:
        """A package relpath/server_name with one module per tool of an MCP server; their names. One with "command" is started in the container,
        one with "url" is reached by what network that has."""
        target = f"/mcp/{_quoted(relpath)}/{_quoted(server_name)}"
        with _theirs():
            reply = await self._http().call("PUT", target, _json.encode(dict(server_params), f"PUT {target}"), (JSON_TYPE,))
        return list(_json.texts({"names": _decoded(reply.body)}, "names"))

    async def get_mcp_sources(self, relpath: str, server_name: str) -> Dict[str, str]:
        """What was made by that: {name of a tool: source}."""
        return await self._sources(f"/mcp/{_quoted(relpath)}?" + urllib.parse.urlencode({"server_name": server_name}))

    async def get_module_sources(self, module_names: List[str]) -> Dict[str, str]:
        """{name: source} of modules that code in the container could import; all of them, or an exception."""
        return await self._sources("/modules?" + urllib.parse.urlencode([("q", name) for name in module_names]))

    async def _sources(self, target: str) -> Dict[str, str]:
        with _theirs():
            reply = await self._http().call("GET", target)
        return _json.mapping_of_texts({"sources": _decoded(reply.body)}, "sources")

    # --- files ----------------------------------------------------------------------------------------------------------------

    async def upload_file(self, relpath: str, local_path: LocalPath) -> None:
        """FileNotFoundError if there is no such file here."""
        local = pathlib.Path(local_path)
        if not local.is_file():
            raise FileNotFoundError(f"Local file not found: {local}")
        kind = mimetypes.guess_type(local.name)[0] or "application/octet-stream"
        file = await io.beside(local.open, "rb")
        try:
            body, size, _ = folders.body_of(cast(BinaryIO, file), None)
            headers: List[Tuple[bytes, bytes]] = [(b"content-type", kind.encode())]
            if size is not None:
                headers.append((b"content-length", b"%d" % size))
            await self._send(f"/files/{_quoted(relpath)}", body, tuple(headers))
        finally:
            file.close()

    async def download_file(self, relpath: str, local_path: LocalPath) -> None:
        """Appears here when it is complete; directories on the way are made."""
        local = pathlib.Path(local_path)
        local.parent.mkdir(parents=True, exist_ok=True)
        async with _Arriving(self._http(), f"/files/{_quoted(relpath)}") as body:
            await folders.save(cast("AsyncReader", body), str(local), None)

    async def delete_file(self, relpath: str) -> None:
        with _theirs():
            await self._http().call("DELETE", f"/files/{_quoted(relpath)}")

    async def upload_directory(self, relpath: str, local_path: LocalPath) -> None:
        """FileNotFoundError if there is no such directory here."""
        local = pathlib.Path(local_path)
        if not local.is_dir():
            raise FileNotFoundError(f"Local directory not found: {local}")

        async def pieces() -> AsyncIterator[bytes]:
            packer = await io.beside(Packer, local, None, True)
            while True:
                piece = await io.beside(packer.next)
                if not piece:
                    return
                yield piece

        await self._send(f"/directories/{_quoted(relpath)}", pieces, ((b"content-type", b"application/x-gzip"),))

    async def download_directory(self, relpath: str, local_path: LocalPath) -> None:
        """Its files, below local_path and nowhere else, whatever the container has made of them; at most 4 GiB, and 100 000 of them."""
        async with _Arriving(self._http(), f"/directories/{_quoted(relpath)}") as body:
            unpacker = await io.beside(Unpacker, local_path, _BYTES_MAX, _FILES_MAX, False)
            try:
                async for piece in _unzipped(body):
                    await io.beside(unpacker.feed, piece)
                await io.beside(unpacker.finish)
            finally:
                await io.beside(unpacker.close)

    async def _send(self, target: str, body: Body, headers: Tuple[Tuple[bytes, bytes], ...]) -> None:
        with _theirs():
            http = self._http()
            await http.call("POST", target, body, headers, silence=http.timeout)


class _Arriving:
    """What a call answers with, piece by piece."""

    size: Optional[int] = None

    def __init__(self, http: Port, target: str) -> None:
        self._http, self._target = http, target
        self._exchange: Optional[Answer] = None

    async def __aenter__(self) -> _Arriving:
        with _theirs():
            self._exchange = await self._http.open("GET", self._target)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._exchange is not None:
            await self._exchange.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces()

    async def _pieces(self) -> AsyncIterator[bytes]:
        assert self._exchange is not None
        while True:
            try:
                piece = await self._exchange.chunk(Patience(self._http.timeout))
            except Trouble as trouble:
                raise translated(self._http.failed(trouble, "GET", self._target)) from None
            if not piece:
                return
            yield piece


async def _unzipped(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """gzip, never more of it at once than CHUNK. What is behind its end is not looked at."""
    unzip = zlib.decompressobj(31)
    async for piece in pieces:
        while piece and not unzip.eof:
            try:
                data = await io.beside(unzip.decompress, piece, CHUNK)
            except zlib.error as e:
                raise ProtocolError(f"what came is no sound gzip: {e}") from None
            if data:
                yield data
            piece = unzip.unconsumed_tail
    if not unzip.eof:
        raise ProtocolError("what came is no sound gzip: it ends too early")


@contextlib.contextmanager
def _theirs() -> Iterator[None]:
    try:
        yield
    except GloveboxError as e:
        raise translated(e) from None


def _decoded(body: bytes) -> object:
    """JSON of whatever shape: in an object it can be looked at."""
    return _json.decode(b'{"value":' + body + b"}", "the resource server")["value"]


def _quoted(relpath: str) -> str:
    return urllib.parse.quote(str(relpath).lstrip("/"), safe="/")
