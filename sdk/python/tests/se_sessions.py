# SPDX-License-Identifier: Apache-2.0
"""What the tests of glovebox.compat.sandbox_runtime share: sessions, servers that are not ours."""
import asyncio
import contextlib
import http.server
import json
import socket
import threading

import pytest

from glovebox.compat.sandbox_runtime import SandboxError, SharedEnvSandbox


def with_session(url, work, session_id="a b/c", **more):
    """work(sandbox) with a session, which is gone afterwards."""
    async def go():
        async with SharedEnvSandbox(session_id, servers=[url], **more) as sandbox:
            return await work(sandbox)

    return asyncio.run(go())


def sessions_of(server):
    return set(server.call("GET", "/workspace/se/workspaces")[1]["workspaces"])


class Heard:
    heads = []  # of the last request to another server


@contextlib.contextmanager
def other_server(answer, status=200):
    """One that is not ours: it says the same to everything."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.server.heard.append(self.path)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            Heard.heads = self.headers.keys()

        do_POST = do_DELETE = do_GET

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as instead:
        instead.heard = []
        thread = threading.Thread(target=instead.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{instead.server_address[1]}", instead.heard
        finally:
            instead.shutdown()
            thread.join()


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def error_of(awaitable):
    with pytest.raises(SandboxError) as caught:
        await awaitable
    return caught.value
