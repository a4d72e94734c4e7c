# SPDX-License-Identifier: Apache-2.0
"""A server that is started by somebody with peculiar properties: limits, signals, priorities, a cgroup of its own."""
import subprocess

from conftest import program_path
from server import Server, arguments, environment


class Prepared(Server):
    """As Server; prepare() is called in the new process before it becomes `glovebox serve`."""

    def __init__(self, folder, prepare, *, close_fds=True, **options):
        super().__init__(folder, **options)
        self.prepare, self.close_fds = prepare, close_fds

    def launch(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state_dir.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "stdout", "wb") as out, open(self.folder / "stderr", "ab") as err:
            self.process = subprocess.Popen([str(program_path()), "serve", *arguments(self.options)], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, env=environment(self.env), cwd=self.folder,
                                            preexec_fn=self.prepare, close_fds=self.close_fds)
