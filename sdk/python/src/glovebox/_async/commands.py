# SPDX-License-Identifier: Apache-2.0
"""Commands: programs and shell texts in a box."""
from __future__ import annotations

import base64
import functools
from typing import Dict, Mapping, Optional, Tuple, Union

from .. import _json
from .._fields import Timeout, timeout_s
from .._outcome import command_error
from ..errors import GloveboxError, StillRunning
from ..events import CommandEvent, command_event
from ..results import CommandResult, command_result
from .http import AsyncHttp, quoted
from .stream import AsyncPlace, AsyncStream, wait


class AsyncCommand:
    """A command that was started. It goes on whether or not somebody waits for it."""

    def __init__(self, box: AsyncPlace, id: str, *, binary: bool = False, timeout: Timeout = None) -> None:
        self.id = id
        self._box, self._binary, self._timeout = box, binary, timeout

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def _way(self) -> Tuple[AsyncHttp, str]:
        http, box = await self._box.way()
        return http, f"{box}/commands/{quoted(self.id)}"

    async def get(self) -> CommandResult:
        """It as it is now, with its output so far."""
        http, path = await self._way()
        return command_result(await http.answer("GET", path), self._binary)

    async def wait(self, timeout: Optional[float] = None, *, check: bool = True) -> CommandResult:
        """Its end. StillRunning after `timeout` seconds, after which it goes on all the same."""
        found = await wait(self._box, "command", self.id, timeout, _is_over)
        if found is None:
            raise StillRunning(f"the command {self.id} has not ended after {timeout:g} s and goes on: wait() again, or cancel()")
        return checked(command_result(found, self._binary), check, self._timeout, self._box.memory)

    def events(self, after: int = 0) -> AsyncCommandStream:
        """Its events behind number `after`, from the first that is held unless said."""
        return AsyncCommandStream(self._box, id=self.id, after=after, binary=self._binary, timeout=self._timeout)

    async def write(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """Input for one that was started with stdin_open=True. eof: that was all."""
        fields: Dict[str, object] = {"text": data} if isinstance(data, str) else {"base64": base64.b64encode(data).decode()}
        if eof:
            fields["eof"] = True
        http, path = await self._way()
        await http.done("POST", f"{path}/stdin", fields)

    async def eof(self) -> None:
        """There is no more input."""
        http, path = await self._way()
        await http.done("POST", f"{path}/stdin", {"eof": True})

    async def signal(self, signal: Union[str, int]) -> None:
        """To its process group: "SIGINT", "INT" or 2."""
        http, path = await self._way()
        await http.done("POST", f"{path}/signal", {"signal": str(int(signal)) if isinstance(signal, int) else signal})

    async def cancel(self, grace: float = 5.0) -> None:
        """SIGTERM, and after `grace` seconds SIGKILL, to its process group. Returns when it has ended."""
        http, path = await self._way()
        await http.call("DELETE", f"{path}?grace_ms={int(grace * 1000)}", timeout=grace + http.timeout)


class AsyncCommandStream(AsyncStream[CommandEvent]):
    """Events of a command. When they are over, result() has all of it."""

    def __init__(self, box: AsyncPlace, *, start: Optional[bytes] = None, id: Optional[str] = None, after: int = 0, binary: bool = False,
                 timeout: Timeout = None) -> None:
        super().__init__(box, "command", functools.partial(_event, binary), start=start, id=id, after=after)
        self._binary, self._timeout = binary, timeout

    async def __aenter__(self) -> AsyncCommandStream:
        return self

    @property
    def command(self) -> AsyncCommand:
        """The command, from its first event on."""
        if self._id is None:
            raise GloveboxError("the command has not begun: its first event has its id")
        return AsyncCommand(self._box, self._id, binary=self._binary, timeout=self._timeout)

    async def write(self, data: Union[str, bytes], *, eof: bool = False) -> None:
        """Input for the command; see AsyncCommand.write()."""
        await self.command.write(data, eof=eof)

    async def signal(self, signal: Union[str, int]) -> None:
        await self.command.signal(signal)

    async def cancel(self, grace: float = 5.0) -> None:
        """Ends the command; see AsyncCommand.cancel()."""
        await self.command.cancel(grace)

    async def result(self, *, check: bool = True) -> CommandResult:
        """The command, when it has ended."""
        return await self.command.wait(check=check)


def _event(binary: bool, name: str, data: Mapping[str, object]) -> CommandEvent:
    return command_event(name, data, binary)


def _is_over(o: _json.Object) -> bool:
    return o.get("status") != "running"


def checked(result: CommandResult, check: bool, timeout: Timeout, memory: Optional[int]) -> CommandResult:
    if check:
        error = command_error(result, timeout_s(timeout), memory)
        if error is not None:
            raise error
    return result
