# SPDX-License-Identifier: Apache-2.0
"""A client of the Sandbox Runtime, written from the description of its SDK and with the standard library only.

Two generations of it are about: the older one indexes "result" of every answer, the newer one does so only where the key is there.
"""
import ast
import asyncio
import http.client
import json
import os
import urllib.parse
import zlib


class SandboxError(Exception):
    def __init__(self, message, original_error=None, context=None):
        super().__init__(message)
        self.message, self.original_error, self.context = message, original_error, context


def old_answer(answer):
    return answer["result"]


def new_answer(answer):
    return answer["result"] if "result" in answer else answer


class SharedEnvSandbox:
    TOTAL_S, HEALTH_S = 300, 10

    def __init__(self, session_id, servers, unwrap, server_selector_type="static"):
        assert server_selector_type == "static"
        self.session_id, self.servers, self.unwrap, self.server = session_id, servers, unwrap, None

    # --- requests --------------------------------------------------------------------------------------------

    def is_healthy(self, server):
        try:
            status, data, _ = self.exchange(server, "GET", "/workspace/se/healthy", timeout=self.HEALTH_S)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and new_answer(json.loads(data)).get("status") == "success"

    def pick(self):
        if self.server is None:
            healthy = [server for server in self.servers if self.is_healthy(server)]
            if not healthy:
                raise SandboxError("no server is healthy", context={"servers": self.servers})
            self.server = healthy[zlib.crc32(self.session_id.encode()) % len(healthy)]
        return self.server

    @staticmethod
    def exchange(server, method, path, body=None, kind=None, timeout=TOTAL_S):
        url = urllib.parse.urlsplit(server)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers
        finally:
            connection.close()

    async def bytes_of(self, method, route, body=None, kind=None):
        path = f"/workspace/se/{route}"
        server = await asyncio.to_thread(self.pick)
        status, data, _ = await asyncio.to_thread(self.exchange, server, method, path, body, kind)
        if status != 200:
            raise SandboxError(f"{method} {path}: {status}", context={"status": status, "body": data.decode(errors="replace")})
        return data

    async def call(self, method, route, body=None):
        data = await self.bytes_of(method, route, None if body is None else json.dumps(body), None if body is None else "application/json")
        return self.unwrap(json.loads(data))

    @property
    def sid(self):
        return urllib.parse.quote(self.session_id, safe="")

    # --- what it can do --------------------------------------------------------------------------------------

    async def create_session(self, size="50M"):
        return await self.call("POST", f"session/{self.sid}", {"size": size})

    async def delete_session(self):
        return (await self.call("DELETE", f"session/{self.sid}"))["status"] == "success"

    async def upload_file(self, path, target_filename=None):
        boundary, name = "----a-line-that-is-in-no-file", target_filename or os.path.basename(path)
        with open(path, "rb") as file:
            content = file.read()
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{os.path.basename(path)}"\r\n' \
               "Content-Type: application/octet-stream\r\n\r\n"
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        data = await self.bytes_of("POST", f"upload/{self.sid}?filename={urllib.parse.quote(name)}", body,
                                   f"multipart/form-data; boundary={boundary}")
        return self.unwrap(json.loads(data))

    async def download_file(self, name, target_path):
        data = await self.bytes_of("GET", f"download/{self.sid}/{urllib.parse.quote(name)}")
        with open(target_path, "wb") as file:
            file.write(data)
        return True

    async def create_file(self, content, filename, mode=0o644):
        return await self.call("POST", f"create/{self.sid}", {"content": content, "filename": filename, "mode": mode})

    async def execute(self, command, *args):
        return await self.call("POST", f"execute/{self.sid}", {"command": command, "args": list(args)})

    async def execute_code(self, code, filename=None, args=None, script_type="python", output_params=None):
        return await self.call("POST", f"execute_code/{self.sid}", {
            "code": unescaped(code), "filename": filename, "args": args, "script_type": script_type, "output_params": output_params})

    async def list_files(self, directory="", recursive=False):
        return (await self.call("GET", f"files/{self.sid}/{urllib.parse.quote(directory)}?recursive={str(recursive).lower()}"))["files"]

    async def read_file(self, filename, offset=0, buffer_size=4096):
        return await self.call("GET", f"readfile/{self.sid}/{urllib.parse.quote(filename)}?offset={offset}&buffer_size={buffer_size}")

    async def get_status(self):
        return await self.call("GET", f"status/{self.sid}")


def unescaped(code):
    """Code that came as the inside of a literal, as language models write it: `\\n` for a line end."""
    try:
        return ast.literal_eval(f'"""{code}"""')
    except (SyntaxError, ValueError):
        return code
