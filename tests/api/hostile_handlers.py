# SPDX-License-Identifier: Apache-2.0
"""Handlers that do their worst: bodies of `def handler(event)`, each of which returns 'true' if it gets that far.

Each gets an answer of its own: 'true', or none and why. Never what it forged, and the next call is not touched.
"""
import json

FORGED = json.dumps({"exit_code": 0, "result": "forged", "stdout": "forged", "stderr": "", "metrics": {}})


def to_every_descriptor(act, first=0):
    return f"""
import os, socket
for fd in range({first}, 256):
    try:
        {act}
    except OSError:
        pass
return 'true'
"""


HOSTILE = {
    "writes to every descriptor": to_every_descriptor(f"os.write(fd, {FORGED!r}.encode() + b'\\n')", 3),
    "writes nonsense to every descriptor": to_every_descriptor(r"os.write(fd, b'\xff\x00' * 100000)", 3),
    "closes every descriptor": """
import os
os.closerange(0, 256)
return 'true'
""",
    "closes all but its output": """
import os
os.closerange(3, 65536)
return 'true'
""",
    "every descriptor is another": to_every_descriptor("os.dup2(os.open('/dev/null', os.O_RDWR), fd)"),
    "every descriptor is its output": to_every_descriptor("os.dup2(1, fd)", 2),
    "shuts every socket down": to_every_descriptor("socket.socket(fileno=fd).shutdown(2)"),
    "seeks and truncates": to_every_descriptor("os.lseek(fd, 0, 0); os.ftruncate(fd, 0)"),
    "makes them block and not": to_every_descriptor("os.set_blocking(fd, False)"),
    "reads from every descriptor": to_every_descriptor("os.set_blocking(fd, False); os.read(fd, 65536)"),
    "no builtins": """
import builtins
for name in list(vars(builtins)):
    try:
        setattr(builtins, name, None)
    except Exception:
        pass
return 'true'
""",
    "no modules": """
import sys
sys.modules.clear()
return 'true'
""",
    "another json": """
import json, json.encoder, json.decoder
class Forged:
    def __init__(self, *a, **k):
        pass
    def encode(self, o):
        return '"forged"'
    def iterencode(self, o, *a):
        return ['"forged"']
json.dumps = lambda *a, **k: '"forged"'
json.dump = lambda o, f, *a, **k: f.write('"forged"')
json.JSONEncoder = json.encoder.JSONEncoder = Forged
json.encoder.c_make_encoder = None
return 'true'
""",
    "another os": """
import os
real = os.write
os.write = lambda fd, data: real(fd, b'forged')
os._exit = lambda n: None
os.fdopen = open = None
return 'true'
""",
    "another print": """
import builtins
builtins.print = lambda *a, **k: None
builtins.open = lambda *a, **k: 1 / 0
return 'true'
""",
    "no output": """
import sys
sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = None
return 'true'
""",
    "another output": """
import io, sys
sys.stdout = sys.stderr = io.StringIO()
print('hidden')
return 'true'
""",
    "output that raises": """
import sys
class Bad:
    def __getattr__(self, name):
        raise ValueError
sys.stdout = sys.stderr = Bad()
return 'true'
""",
    "closed output": """
import sys
sys.stdout.close()
sys.stderr.close()
return 'true'
""",
    "forks and both return": """
import os
os.fork()
return 'true'
""",
    "forks and the child raises": """
import os
if os.fork() == 0:
    1 / 0
return 'true'
""",
    "forks and the child exits": """
import os
if os.fork() == 0:
    os._exit(9)
return 'true'
""",
    "many children": """
import os, time
for _ in range(20):
    if os.fork() == 0:
        time.sleep(1000)
return 'true'
""",
    "a child that left its session": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
return 'true'
""",
    "a thread that goes on": """
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
return 'true'
""",
    "a thread that must be waited for": """
import threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
return 'true'
""",
    "threads that print": """
import threading
def f():
    while True:
        print('x' * 50)
for _ in range(3):
    threading.Thread(target=f, daemon=True).start()
return 'true'
""",
    "a thread that raises": """
import threading
t = threading.Thread(target=lambda: 1 / 0)
t.start()
t.join()
return 'true'
""",
    "a thread that exits": """
import os, threading, time
threading.Timer(0.0, os._exit, (0,)).start()
time.sleep(5)
return 'true'
""",
    "an end that hangs": """
import atexit, time
atexit.register(time.sleep, 1000)
return 'true'
""",
    "an end that raises": """
import atexit, os
atexit.register(lambda: 1 / 0)
atexit.register(os._exit, 9)
return 'true'
""",
    "an object that hangs at its end": """
import time, builtins
class C:
    def __del__(self):
        time.sleep(1000)
builtins.kept = C()
return 'true'
""",
    "signals that are ignored": """
import signal
for s in range(1, 65):
    try:
        signal.signal(s, signal.SIG_IGN)
    except Exception:
        pass
return 'true'
""",
    "signals that are blocked": """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
return 'true'
""",
    "an alarm": """
import signal
signal.setitimer(signal.ITIMER_REAL, 0.0001)
import time
time.sleep(1)
return 'true'
""",
    "tracing": """
import sys
def trace(*a):
    raise ValueError('traced')
sys.settrace(trace)
sys.setprofile(trace)
return 'true'
""",
    "no recursion": """
import sys
sys.setrecursionlimit(30)
return 'true'
""",
    "no descriptors": """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
return 'true'
""",
    "no files": """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
return 'true'
""",
    "no memory": """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1, 1))
return 'true'
""",
    "all descriptors": """
import os
kept = []
try:
    while True:
        kept.append(os.open('/dev/null', os.O_RDONLY))
except OSError:
    pass
return 'true'
""",
    "a full disk": """
try:
    with open('/tmp/f', 'wb') as f:
        while True:
            f.write(b'x' * (1 << 20))
except OSError:
    pass
return 'true'
""",
    "a full workspace": """
try:
    with open('f', 'wb') as f:
        while True:
            f.write(b'x' * (1 << 20))
except OSError:
    pass
return 'true'
""",
    "no workspace": """
import os, shutil
shutil.rmtree('/workspace', ignore_errors=True)
os.chdir('/')
return 'true'
""",
    "imports of its own": """
import os, sys
for name in ('json', 'io', 'os', 'traceback', 'sitecustomize', 'usercustomize', 'encodings'):
    open(f'/workspace/{name}.py', 'w').write('1 / 0')
sys.path.insert(0, '/workspace')
sys.modules.pop('json', None); sys.modules.pop('traceback', None)
return 'true'
""",
    "frames above": """
import sys
f = sys._getframe()
while f:
    f.f_locals.update(result='forged', exit_code=7)
    f.f_trace = None
    f = f.f_back
return 'true'
""",
    "globals above": """
import sys
f = sys._getframe().f_back
while f:
    for name in list(f.f_globals):
        if name not in ('__builtins__',):
            f.f_globals[name] = None
    f = f.f_back
return 'true'
""",
    "kills its parent": """
import os
for s in (9, 15, 19):
    try:
        os.kill(os.getppid(), s)
    except OSError:
        pass
return 'true'
""",
    "stops everybody else": """
import os
for pid in os.listdir('/proc'):
    if pid.isdigit() and int(pid) != os.getpid():
        try:
            os.kill(int(pid), 19)
        except OSError:
            pass
return 'true'
""",
    "gc": """
import gc
gc.disable()
gc.callbacks.append(lambda *a: 1 / 0)
return 'true'
""",
    "frozen by an import hook": """
import builtins
builtins.__import__ = lambda *a, **k: 1 / 0
return 'true'
""",
    "another locale": """
import os, locale
os.environ.clear()
os.environ['PYTHONIOENCODING'] = 'ascii'
return 'true'
""",
    "exec of itself": """
import os, sys
os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])
""",
}
