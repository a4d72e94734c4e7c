# SPDX-License-Identifier: Apache-2.0
"""A gateway whose kernel says what a test wants: for what no kernel of ours says."""
import asyncio
import json

try:
    from websockets.asyncio.server import serve as serve_websocket
except ImportError:  # before websockets 13
    from websockets.legacy.server import serve as serve_websocket


class Kernel:
    """To its first cell it says nothing but that it is done (that is the client's own); to the second `messages`: (type, content), text as it is, None
    to close the connection."""

    def __init__(self, messages):
        self.messages, self.cells = messages, 0

    async def __aenter__(self):
        self.websocket = await serve_websocket(self.talk, "127.0.0.1", 0)
        inner = self.websocket.sockets[0].getsockname()[1]
        self.http = await asyncio.start_server(lambda r, w: self.relay(r, w, inner), "127.0.0.1", 0)
        self.port = self.http.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        for server in (self.http, self.websocket):
            server.close()
            await server.wait_closed()

    async def relay(self, reader, writer, inner):
        """Requests are answered here; an upgrade goes on to the WebSocket."""
        head = await reader.readuntil(b"\r\n\r\n")
        if b"upgrade: websocket" not in head.lower():
            body = b'{"id": "k"}'
            writer.write(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            writer.close()
            return
        other_reader, other = await asyncio.open_connection("127.0.0.1", inner)
        other.write(head)
        await asyncio.gather(self.copy(reader, other), self.copy(other_reader, writer))

    async def copy(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except ConnectionError:
            pass
        writer.close()

    async def talk(self, socket, *_):
        async for text in socket:
            parent = json.loads(text)["header"]
            self.cells += 1
            for message in self.messages if self.cells > 1 else [("execute_reply", {"status": "ok"})]:
                if message is None:
                    return
                if not isinstance(message, str):
                    message = json.dumps({"msg_type": message[0], "parent_header": parent, "content": message[1]})
                await socket.send(message)
