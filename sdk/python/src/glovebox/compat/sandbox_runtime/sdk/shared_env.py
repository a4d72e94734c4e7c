# SPDX-License-Identifier: Apache-2.0
"""A session of a Sandbox Runtime server: its files, commands and scripts, by the name of the session."""
from __future__ import annotations

import asyncio
import logging
import os
import pathlib
import secrets
from typing import AsyncIterator, Dict, List, Mapping, NoReturn, Optional, Sequence, Union
from urllib.parse import quote, urlencode

from glovebox import _json, _owner
from glovebox._async.client import AsyncClient
from glovebox._async.http import AsyncHttp
from glovebox._transport import aio as io
from glovebox._transport.patience import Patience
from glovebox._transport.trouble import Trouble
from glovebox.errors import ApiError, GloveboxError, ServerTimeout, ServerUnreachable, Unauthorized

from .servers import choose, listed, shown, unwrapped
from .utils.common import safe_unescape

DEFAULT_SESSION_SIZE = "50M"

logger = logging.getLogger(__name__)

_BASE = "/workspace/se"
_TIMEOUT_S = 300.0
# A server has 300 s for what it runs, too: its word on that is to come before ours.
_RUN_S = 330.0
_END_S = 20.0
_PIECE = 256 * 1024


class SandboxError(Exception):
    """Whatever goes wrong. `original_error` is what it was, `context` what was asked and what the server said to it."""

    def __init__(self, message: str, original_error: Optional[Exception] = None, context: Optional[Mapping[str, object]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.original_error = original_error
        self.context: Dict[str, object] = dict(context or {})

    def to_dict(self) -> Dict[str, object]:
        return {"message": self.message, "original_error": str(self.original_error), "context": self.context}


class SharedEnvSandbox:
    """A session by its name, which the server makes when it is first used; close() or delete_session() ends it.

    servers: addresses, http://any:TOKEN@HOST:PORT where a token is needed. Without any: GLOVEBOX_URL, a server at http://localhost:8899, or a
    private one. One object may be used by several tasks at once.
    """

    def __init__(self, session_id: str, server_selector_type: str = "static", server_selector_params: Optional[Mapping[str, object]] = None, *,
                 servers: Optional[Sequence[str]] = None, check_interval: float = 60.0) -> None:
        if not session_id:
            raise ValueError("session_id is required")
        if server_selector_type != "static":
            raise ValueError(f"server_selector_type is {server_selector_type!r}, and only 'static' is there: name the address of the service, servers=[\"http://NAME:PORT\"]")
        params = dict(server_selector_params or {})
        chosen = params.pop("servers", None)
        params.pop("check_interval", None)
        if params:
            raise ValueError(f"server_selector_params has {sorted(params)}, and may have 'servers'")
        self.session_id = session_id
        self.servers = listed(chosen if servers is None else servers)
        self._client: Optional[AsyncClient] = None
        self._lost: Optional[AsyncClient] = None  # whose server does not answer
        self._choosing = io.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id!r} at {self.current_server or 'no server yet'}>"

    async def __aenter__(self) -> SharedEnvSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def current_server(self) -> Optional[str]:
        """The one that has the session, once that is known."""
        return None if self._client is None else self._client.url

    # --- its life -------------------------------------------------------------------------------------------------------

    async def create_session(self, size: str = DEFAULT_SESSION_SIZE) -> Dict[str, object]:
        """Only needed for another size than the server's. SandboxError if it is there already."""
        making = asyncio.ensure_future(self._call("POST", "session", fields={"size": size}))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            # Nobody else will end what is made just now.
            async def undo(seconds: float) -> None:
                await asyncio.wait({making}, timeout=seconds)
                if making.done() and not making.cancelled() and making.exception() is None:
                    await self._end(seconds)

            await io.finish(undo, _END_S)
            raise

    async def delete_session(self) -> bool:
        """Ends it with all that is in it; also where there is none."""
        await self._call("DELETE", "session")
        return True

    async def close(self) -> None:
        """Ends the session, and lets go of the server. What stands against that is logged; the session has its time, then."""
        client = self._client
        if client is None:
            return
        try:
            if _owner.is_here(client._process):
                await io.finish(self._end, _END_S)
        except SandboxError as e:
            logger.error("the session %s could not be deleted: %s", self.session_id, e)
        finally:
            self._client = None
            await client.close()

    async def _end(self, seconds: float) -> None:
        await self._call("DELETE", "session", timeout=seconds)

    async def get_status(self) -> Dict[str, object]:
        return await self._call("GET", "status")

    # --- files ----------------------------------------------------------------------------------------------------------

    async def create_file(self, content: str, filename: str, mode: int = 0o644) -> Dict[str, object]:
        return await self._call("POST", "create", fields={"content": content, "filename": filename, "mode": mode})

    async def upload_file(self, file_path: Union[str, pathlib.Path], target_filename: Optional[str] = None) -> Dict[str, object]:
        """A file of this machine, piece by piece."""
        path = pathlib.Path(file_path)
        name = target_filename or path.name
        try:
            file = open(path, "rb")
        except OSError as e:
            raise SandboxError(f"File not found: {path}" if isinstance(e, FileNotFoundError) else f"{path} cannot be read: {e.strerror}", e,
                               {"file_path": str(path), "target_filename": name, "session_id": self.session_id}) from None
        with file:
            boundary = secrets.token_hex(16)
            shown = quote(name, safe="/ !#$&'()+,;=@[]^`{}~")
            head = f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{shown}\"\r\nContent-Type: application/octet-stream\r\n\r\n".encode()
            tail = f"\r\n--{boundary}--\r\n".encode()
            size = os.fstat(file.fileno()).st_size

            async def body() -> AsyncIterator[bytes]:
                yield head
                left = size
                while left:
                    piece = await io.beside(file.read, min(_PIECE, left))
                    if not piece:
                        raise SandboxError(f"{path} has become shorter while it was read: nothing was uploaded", None, {"file_path": str(path)})
                    left -= len(piece)
                    yield piece
                yield tail

            headers = ((b"content-type", f"multipart/form-data; boundary={boundary}".encode()), (b"content-length", b"%d" % (len(head) + size + len(tail))))
            target = self._path("upload", query={"filename": name})
            http = await self._http()
            try:
                reply = await http.call("POST", target, body, headers, timeout=_TIMEOUT_S)
                return unwrapped(_json.decode(reply.body, http.where("POST", target)))
            except GloveboxError as e:
                self._failed(e, "POST", target)

    async def download_file(self, filename: str, target_path: Union[str, pathlib.Path]) -> bool:
        """Into a file of this machine: all of it, or none. Directories on the way are made."""
        target, path = pathlib.Path(target_path), self._path("download", filename)
        http = await self._http()
        part = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            exchange = await http.open("GET", path, timeout=_TIMEOUT_S)
            try:
                with open(part, "xb") as file:
                    patience = Patience(_TIMEOUT_S)
                    while True:
                        piece = await exchange.chunk(patience)
                        if not piece:
                            break
                        await io.beside(file.write, piece)
            finally:
                await exchange.close()
            os.replace(part, target)
        except Trouble as e:
            self._failed(http.failed(e, "GET", path), "GET", path)
        except GloveboxError as e:
            self._failed(e, "GET", path)
        except OSError as e:
            raise SandboxError(f"{target} cannot be written: {e.strerror or e}", e, {"filename": filename, "target_path": str(target)}) from None
        finally:
            part.unlink(missing_ok=True)
        return True

    async def list_files(self, directory: str = "", recursive: bool = False) -> List[Dict[str, object]]:
        answer = await self._call("GET", "files", directory, query={"recursive": "true" if recursive else "false"}, slash=True)
        try:
            return _json.objects(answer, "files")
        except GloveboxError as e:
            self._failed(e, "GET", "files")

    async def read_file(self, filename: str, offset: int = 0, buffer_size: int = 4096) -> Dict[str, object]:
        """A piece of it: content (base64 where is_binary), offset of the next one, size, is_eof."""
        return await self._call("GET", "readfile", filename, query={"offset": str(offset), "buffer_size": str(buffer_size)})

    async def download_from_efast(self, file_params: Sequence[Mapping[str, object]], save_path: Optional[str] = "", efast_url: Optional[str] = "",
                                  token: Optional[str] = "", timeout: Optional[int] = 300) -> Dict[str, object]:
        fields = {"file_params": list(file_params), "save_path": save_path, "efast_url": efast_url, "token": token, "timeout": timeout}
        return await self._call("POST", "download_from_efast", fields=fields, timeout=_RUN_S)

    # --- what runs ------------------------------------------------------------------------------------------------------

    async def execute(self, command: str, *args: str) -> Dict[str, object]:
        """Without args a text for the shell; with them a program, whose arguments no shell sees. Returns stdout, stderr, returncode."""
        return await self._call("POST", "execute", fields={"command": command, "args": list(args)}, timeout=_RUN_S)

    async def execute_code(self, code: str, filename: Optional[str] = None, args: Optional[Sequence[str]] = None, script_type: str = "python",
                           output_params: Optional[Sequence[str]] = None) -> Dict[str, object]:
        """A script, which is kept in the session. output_params: names of its globals, returned in output_variables."""
        fields: Dict[str, object] = {"code": safe_unescape(code) if script_type == "python" else code, "filename": filename, "args": list(args or ()),
                                     "script_type": script_type, "output_params": list(output_params or ())}
        return await self._call("POST", "execute_code", fields=fields, timeout=_RUN_S)

    # --- requests -------------------------------------------------------------------------------------------------------

    async def _http(self) -> AsyncHttp:
        async with self._choosing:
            lost, self._lost = self._lost, None
            if lost is not None:
                await lost.close()
            if self._client is None:
                try:
                    self._client, why = await choose(self.session_id, self.servers, _TIMEOUT_S)
                except GloveboxError as e:
                    raise SandboxError(str(e), e, {"servers": [shown(url) for url in self.servers]}) from None
                if self._client is None:
                    raise SandboxError("No available server found: " + "; ".join(f"{url}: {reason}" for url, reason in why.items()), None, {"servers": why})
            client = self._client
        try:
            return await client.http()
        except GloveboxError as e:
            raise SandboxError(str(e), e, {"session_id": self.session_id}) from None

    def _path(self, route: str, rest: Optional[str] = None, query: Optional[Mapping[str, str]] = None, slash: bool = False) -> str:
        try:
            path = f"{_BASE}/{route}/{quote(self.session_id, safe='')}" + ("/" if slash and not rest else "")
            return path + (f"/{quote(rest.lstrip('/'))}" if rest else "") + (f"?{urlencode(query)}" if query else "")
        except UnicodeEncodeError as e:
            raise SandboxError(f"a name has half a character (a lone surrogate) in it: it cannot be sent ({route})", e) from None

    async def _call(self, method: str, route: str, rest: Optional[str] = None, *, query: Optional[Mapping[str, str]] = None, slash: bool = False,
                    fields: Optional[Mapping[str, object]] = None, timeout: float = _TIMEOUT_S) -> Dict[str, object]:
        path = self._path(route, rest, query, slash)
        http = await self._http()
        try:
            return unwrapped(await http.answer(method, path, fields, timeout=timeout))
        except GloveboxError as e:
            self._failed(e, method, path)

    def _failed(self, error: GloveboxError, method: str, path: str) -> NoReturn:
        context: Dict[str, object] = {"method": method, "url": f"{self.current_server}{path}", "session_id": self.session_id}
        message = str(error)
        if isinstance(error, ApiError):
            context.update(status=error.status, err_msg=error.body)
            if error.message.startswith("Execution timed out"):
                message += "; its process was killed, what is in the session stays; se_timeout of the server gives it more time"
            elif isinstance(error, Unauthorized):
                message += "; in servers=[…] it goes into the address: http://any:TOKEN@HOST:PORT"
        elif isinstance(error, ServerTimeout):
            message += "; what was begun goes on in the session"
        elif isinstance(error, ServerUnreachable):
            # Another one may have to do: it is looked for with the next call.
            self._lost, self._client = self._client, None
            message += "; the next call looks for a server again"
        raise SandboxError(message, error, context) from error
