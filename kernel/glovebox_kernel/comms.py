# SPDX-License-Identifier: Apache-2.0
"""Comms, for ipywidgets and its like: the `comm` package's messages, passed on as they are.

Older ones have no such package and use those of ipykernel (before 6.18), which need its kernel: when somebody imports
them, they get as much of one as they ask for."""
from .safe import builtins as __builtins__  # isort: skip

import sys
from binascii import a2b_base64
from importlib.machinery import PathFinder

from IPython import get_ipython

from .display import publish

_comm = None
_manager = None


def _publish(comm, msg_type, data=None, metadata=None, buffers=None, **keys):
    content = {"comm_id": comm.comm_id, "data": {} if data is None else data}
    content.update({key: value for key, value in keys.items() if key != "target_module" or value is not None})
    more = {}
    if metadata:
        more["metadata"] = metadata
    if buffers:
        more["buffers"] = [bytes(memoryview(buffer).cast("B")) for buffer in buffers]
    publish(msg_type, content, **more)


class _OldComms:
    """Finds ipykernel's module of comms, once, and makes it speak to us."""

    def find_spec(self, name, path=None, target=None):
        if name != "ipykernel.comm.comm":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _take_over(module)

            spec.loader.exec_module = exec_module
        return spec


def _take_over(module):
    global _manager
    if not hasattr(module.Comm, "_publish_msg"):
        return  # a newer one, which asks the package
    from ipykernel.comm.manager import CommManager
    from ipykernel.kernelbase import Kernel

    class OurKernel(Kernel):
        shell = comm_manager = None

    kernel = OurKernel.__new__(OurKernel)  # no sockets, no threads
    kernel.comm_manager = _manager = CommManager(kernel=kernel)
    Kernel._instance = OurKernel._instance = kernel
    module.Comm._publish_msg = _publish
    get_ipython().kernel = kernel


def install():
    global _comm, _manager
    try:
        import comm
        from comm.base_comm import BaseComm, CommManager
    except ImportError:
        sys.meta_path.insert(0, _OldComms())
        return

    class Comm(BaseComm):
        publish_msg = _publish

    _manager = CommManager()
    _comm = comm
    comm.create_comm = Comm
    comm.get_comm_manager = lambda: _manager


def info(target):
    if _manager is None:
        return {}
    return {comm_id: {"target_name": comm.target_name} for comm_id, comm in list(_manager.comms.items())
            if not target or comm.target_name == target}


def handle(kind, request):
    """comm_open, comm_msg, comm_close from the other side."""
    if _manager is None:
        return
    buffers = [a2b_base64(text) for text in request.get("buffers") or [] if isinstance(text, str)]
    message = {"header": {"msg_type": kind, "msg_id": ""}, "parent_header": {}, "metadata": request.get("metadata") or {},
               "content": request.get("content") or {}, "buffers": [memoryview(buffer) for buffer in buffers]}
    getattr(_manager, kind)(None, None, message)
