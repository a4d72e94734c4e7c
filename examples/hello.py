# SPDX-License-Identifier: Apache-2.0
"""The first program to run in a box: who am I, where am I, and can I get out?"""

import os
import socket

print("Hello from inside a glovebox.")
print(f"  I am uid {os.getuid()} on host {socket.gethostname()!r}, process {os.getpid()}.")
print(f"  I see {len([p for p in os.listdir('/proc') if p.isdigit()])} processes.")

try:
    with socket.create_connection(("192.0.2.1", 80), timeout=2):
        print("  I reached the network: this box has a way out.")
except OSError as e:
    print(f"  The network is refused: {e.strerror or e}.")
