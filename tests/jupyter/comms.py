# SPDX-License-Identifier: Apache-2.0
"""Comms in a box whose Python has no module `comm` (Debian 12): as much of it as the kernel asks for, by a cell."""

# A stand-in for the module, and the kernel's own word that it looks again.
COMM = '''
try:
    import comm
except ImportError:
    import sys, types, uuid
    comm, base = types.ModuleType("comm"), types.ModuleType("comm.base_comm")

    class BaseComm:
        def __init__(self, target_name="comm", data=None, metadata=None, buffers=None, comm_id=None, primary=True, **more):
            self.target_name, self.comm_id, self.primary = target_name, comm_id or uuid.uuid4().hex, primary
            self.on_msg = lambda f: setattr(self, "handle_msg", f)
            self.on_close = lambda f: setattr(self, "handle_close", f)
            self.handle_msg = self.handle_close = lambda msg: None
            if primary:
                comm.get_comm_manager().register_comm(self)
                self.publish_msg("comm_open", data=data, metadata=metadata, buffers=buffers, target_name=target_name, target_module=None)

        def send(self, data=None, metadata=None, buffers=None):
            self.publish_msg("comm_msg", data=data, metadata=metadata, buffers=buffers)

        def close(self, data=None, metadata=None, buffers=None):
            comm.get_comm_manager().unregister_comm(self)
            self.publish_msg("comm_close", data=data, metadata=metadata, buffers=buffers)

    class CommManager:
        def __init__(self):
            self.comms, self.targets = {}, {}

        def register_target(self, name, f):
            self.targets[name] = f

        def register_comm(self, one):
            self.comms[one.comm_id] = one

        def unregister_comm(self, one):
            self.comms.pop(one.comm_id, None)

        def comm_open(self, stream, ident, msg):
            content = msg["content"]
            f = self.targets.get(content.get("target_name"))
            if f:
                one = comm.create_comm(target_name=content["target_name"], comm_id=content["comm_id"], primary=False)
                self.register_comm(one)
                f(one, msg)

        def comm_msg(self, stream, ident, msg):
            one = self.comms.get(msg["content"].get("comm_id"))
            if one:
                one.handle_msg(msg)

        def comm_close(self, stream, ident, msg):
            one = self.comms.pop(msg["content"].get("comm_id"), None)
            if one:
                one.handle_close(msg)

    base.BaseComm, base.CommManager, comm.base_comm = BaseComm, CommManager, base
    sys.modules["comm"], sys.modules["comm.base_comm"] = comm, base
    import glovebox_kernel.comms
    glovebox_kernel.comms.install()
'''

# A target that sends back what it gets.
ECHO = '''
def echo(c, message):
    def back(m):
        c.send({"echo": m["content"]["data"]}, metadata={"was": len(m["buffers"])}, buffers=m["buffers"])

    c.on_msg(back)
    c.on_close(lambda m: print("closed", m["content"]["data"]))
    c.send({"opened": message["content"]["data"]}, buffers=message["buffers"])

comm.get_comm_manager().register_target("echo", echo)
'''
