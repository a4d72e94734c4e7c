# SPDX-License-Identifier: Apache-2.0
"""Cells that mean harm: name, code, and as what they may end (None: as anything that is said)."""

# Every socket of the kernel's process is tried: which of them is its channel is nobody's business here.
CHANNEL = """
import ctypes, json, os, struct
libc = ctypes.CDLL(None)
sockets = []
for fd in os.listdir('/proc/self/fd'):
    try:
        if os.readlink(f'/proc/self/fd/{fd}').startswith('socket:'): sockets.append(int(fd))
    except OSError: pass
def put(data):
    for fd in sockets: libc.send(fd, data, len(data), 0x40)
def packet(kind, cell, body=b'', flags=0):
    put(struct.pack('<BBHIQ', kind, flags, 0, 0, cell) + (body if isinstance(body, bytes) else json.dumps(body).encode()))
"""
FORGED = CHANNEL + """
reply = {'type': 'execute_reply', 'content': {'status': 'ok', 'execution_count': 99, 'payload': [], 'user_expressions': {}}}
show = {'type': 'display_data', 'content': {'data': {'text/plain': 'forged'}, 'metadata': {}, 'transient': {}}}
for cell in [*range(400), 2**32, 2**63, 2**64 - 1]:
    for kind in (17, 18, 17, 18): packet(kind, cell, show if kind == 17 else reply)
for kind in range(256): packet(kind, 1, show)
"""
NONSENSE = CHANNEL + r"""
bodies = [b'', b'{', b'{"type":', b'\xff\xfe', b'[' * 20000, b'null', b'1e999', b'"x"', b'[]', b'{}', b'{"type": "display_data"}',
          b'{"type": 5, "content": {}}', b'{"type": "display_data", "content": []}', b'{"type": "display_data", "content": {"data": 5}}',
          b'{"type": "stream", "content": {"name": "stdout", "text": "x"}}',
          b'{"type": "display_data", "content": {"data": {"text/plain": 5, "image/png": [1], "": {}}, "metadata": [], "transient": 7}}',
          b'{"type": "update_display_data", "content": {"data": {}, "transient": {"display_id": {}}}}',
          b'{"type": "clear_output", "content": {"wait": "x"}}',
          b'{"type": "error", "content": {"ename": 1, "evalue": {}, "traceback": "x"}}',
          b'{"type": "input_request", "content": {"prompt": [], "password": 3}}',
          b'{"type": "execute_result", "content": {"data": {"a": "b"}, "execution_count": "x"}}', b'{"type": "no_such_thing", "content": {}}',
          b'{"type": "display_data", "content": {"data": {"text/plain": "\\ud800"}}, "type": "error"}']
replies = [b'', b'{', b'{"type": "execute_reply", "content": {"status": "sideways"}}', b'{"type": "execute_reply", "content": {"status": "error"}}',
           b'{"type": "execute_reply", "content": {"status": "error", "ename": [], "evalue": 5, "traceback": {"a": 1}}}',
           b'{"type": "execute_reply", "content": {"status": "ok", "execution_count": -5e300}}', b'{"type": "complete_reply", "content": {}}']
"""
HOSTILE = {
    "exit": ("import os; os._exit(3)", {"crashed"}),
    "kill": ("import os; os.kill(os.getpid(), 9)", {"crashed"}),
    "kills everybody else": ("import os; os.kill(-1, 9)", {"error", "ok"}),
    "kills process 1": ("import os\nfor s in range(1, 65): os.kill(1, s)", None),
    "another program": ("import os; os.execv('/bin/sleep', ['sleep', '1000'])", {"crashed"}),
    "goes on in a child": ("import os, time\nif os.fork(): os._exit(0)\ntime.sleep(0.5)\nprint('orphan')", {"crashed"}),
    "memory bomb": ("x = []\nwhile True: x.append(bytearray(b'x') * (4 << 20))", {"oom"}),
    "memory bomb in a child": (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'b = bytearray(b\"x\") * (1 << 30)'])", {"crashed", "ok", "oom"}),
    "fork bomb": (
        "import os, time\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(1000)\n    except OSError: pass", None),
    "fork bomb that hides": (
        "import os, time\nfor i in range(1000):\n    try:\n        if os.fork() == 0: os.setsid(); time.sleep(1000)\n"
        "    except OSError: pass", None),
    "threads": (
        "import threading, time\nfor i in range(1000):\n    try: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
        "    except RuntimeError: pass", None),
    "prints without end": ("while True: print('x' * 1000)", {"timeout"}),
    "writes without end": ("import os\nwhile True: os.write(1, b'x' * 65536)", {"timeout"}),
    "a child prints without end": ("!yes", {"timeout"}),
    "displays without end": ("while True: display('x' * 1000)", {"timeout"}),
    "prints after its end": (
        "import threading\ndef work():\n    while True: print('x' * 1000); display('late')\n"
        "for i in range(3): threading.Thread(target=work, daemon=True).start()", {"ok"}),
    "fills its disks": (
        "for d in ('/workspace', '/tmp', '/dev/shm', '/home/box'):\n    try:\n        with open(d + '/full', 'wb') as f:\n"
        "            while True: f.write(bytes(1 << 20))\n    except OSError: pass", None),
    "closes everything": ("import os; os.closerange(3, 65536)", None),
    "closes everything by force": (
        "import ctypes\nlibc = ctypes.CDLL(None)\nfor fd in range(3, 2000): libc.close(fd)", None),
    "shuts its channel": (CHANNEL + "for fd in sockets: libc.shutdown(fd, 2)", None),
    "sends nothing": (CHANNEL + "put(b'')", None),
    "uses up descriptors": (
        "kept = []\ntry:\n    while True: kept.append(open('/dev/null'))\nexcept OSError: pass", None),
    "clears builtins": ("import builtins; vars(builtins).clear()", None),
    "replaces builtins": (
        "import builtins\nfor n in ('len', 'isinstance', 'str', 'print', 'type', 'open', 'Exception', 'dict'): setattr(builtins, n, None)", None),
    "clears modules": ("import sys; sys.modules.clear()", None),
    "replaces stdout": ("import sys; sys.stdout = sys.stderr = sys.__stdout__ = 5", None),
    "removes stdout": ("import sys; del sys.stdout, sys.stderr", None),
    "breaks IPython": (
        "ip = get_ipython()\nip.display_pub = ip.displayhook = ip.events = ip.display_formatter = ip.history_manager = None", None),
    "replaces IPython": (
        "ip = get_ipython()\n"
        "for n in ('run_cell', 'run_cell_async', 'showtraceback', '_showtraceback', 'transform_cell'): setattr(type(ip), n, None)", None),
    "breaks what it runs in": (
        "import sys\nfor n, m in list(sys.modules.items()):\n    if 'kernel' in n:\n        for k in list(vars(m)): setattr(m, k, None)", None),
    "breaks json and os": (
        "import json, os, socket, select\nfor m in (json, json.encoder, os, socket, select):\n    for k in list(vars(m)):\n"
        "        if not k.startswith('__'): setattr(m, k, None)", None),
    "writes garbage": (
        CHANNEL + "for n in range(3000): put(os.urandom(n % 70))\nfor n in (49168, 49169, 60000): put(os.urandom(n)); put(bytes(n))", None),
    "forges messages": (FORGED, None),
    "talks nonsense": (
        NONSENSE + "for cell in range(300):\n    for b in bodies: packet(17, cell, b)\n    for b in replies: packet(18, cell, b)", None),
    "begins and does not end": (
        CHANNEL + "for i in range(400):\n    for cell in range(100): packet(17, cell, bytes(20000), 1)", None),
    "recursion in repr": ("class A:\n    def __repr__(self): return repr(self)\nA()", {"error", "ok"}),
    "recursion in everything": (
        "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\n    def __repr__(self): return f'{self!r}'\n"
        "    _ipython_display_ = __repr__\nA()", None),
    "storm of finalisers": (
        "import gc\nclass A:\n    def __del__(self):\n        self.__class__(); print('x'); display(1); raise ValueError\n"
        "for i in range(20): a = A(); a.a = a\ngc.collect()", None),
    "timers": (
        "import signal\ndef h(*a): raise TimeoutError\nfor s in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF): signal.signal(s, h)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01, 0.005)\nsignal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.005)", None),
    "traces": (
        "import sys\ndef t(*a): raise RuntimeError\nsys.settrace(t); sys.setprofile(t)\nimport threading; threading.settrace(t)", None),
    "audits": ("import sys\ndef h(*a): raise RuntimeError\nsys.addaudithook(h)", None),
    "a display of 17 MiB": (
        "display({'text/plain': 'x' * (17 << 20)}, raw=True)\nclass A:\n    def __repr__(self): return 'y' * (17 << 20)\nA()", {"ok"}),
    "many displays": ("for i in range(3000): display(i)", {"ok"}),
    "strange displays": (
        "x = []; x.append(x)\n"
        "for d in (x, {i: i for i in range(10000)}, float('nan'), 10 ** 5000, b'x', {None: {}}):\n"
        "    display({'application/json': d, 'a' * 10000: 'b', '': ''}, raw=True, metadata={'x': d})\n"
        "display({}, raw=True)", None),
    "many updates": (
        "h = display(0, display_id='x')\nfor i in range(2000): h.update(i)\nfor i in range(2000): display(i, display_id='x')", {"ok"}),
    "an error of megabytes": ("raise ValueError('x' * (17 << 20))", {"error"}),
    "an error that lies": (
        "class E(Exception):\n    def _render_traceback_(self): return 5\n    def __str__(self): raise self\nE.__name__ = 'x' * 1000000\n"
        "raise E", {"error"}),
}

# These do not hear an interrupt, so it takes two seconds more until they are killed.
DEAF = {
    "stops itself": ("import os; os.kill(os.getpid(), 19)", {"timeout"}),
    "stops its group": ("import os; os.kill(0, 19)", {"timeout"}),
    "ignores all signals": (
        "import signal, time\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "while True: time.sleep(1)", {"timeout"}),
    "catches every interrupt": (
        "import time\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", {"timeout"}),
    "blocks all signals": (
        "import signal, time\nsignal.pthread_sigmask(signal.SIG_SETMASK, range(1, 65))\nwhile True: time.sleep(1)", {"timeout"}),
    "fork bomb that works": ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", None),
    "waits in C": ("import ctypes\nlibc = ctypes.PyDLL(None)\nwhile True: libc.sleep(1000)", {"timeout"}),
    "hangs in a tracer": (
        "import sys, time\ndef t(*a):\n    while True:\n        try: time.sleep(1)\n        except BaseException: pass\nsys.settrace(t)\n"
        "(lambda: 0)()", {"timeout"}),
}

# Of these something stays in the box that a new kernel cannot help.
WRECKED = {"fork bomb that hides", "fills its disks"}
