# SPDX-License-Identifier: Apache-2.0
"""Comms, for ipywidgets and its like: the `comm` package's messages, passed on as they are."""
from .safe import builtins as __builtins__  # isort: skip

from binascii import a2b_base64

from .display import publish

_comm = None
_manager = None


def install():
    """Without the package there are none."""
    global _comm, _manager
    try:
        import comm
        from comm.base_comm import BaseComm, CommManager
    except ImportError:
        return

    class Comm(BaseComm):
        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            content = {"comm_id": self.comm_id, "data": {} if data is None else data}
            content.update({key: value for key, value in keys.items() if key != "target_module" or value is not None})
            more = {}
            if metadata:
                more["metadata"] = metadata
            if buffers:
                more["buffers"] = [bytes(memoryview(buffer).cast("B")) for buffer in buffers]
            publish(msg_type, content, **more)

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
