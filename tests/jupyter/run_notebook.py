#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a notebook with nbclient:  run_notebook.py SOURCE TARGET [GATEWAY]

Its kernel is ipykernel's; with a gateway it is one of that, by jupyter_server's own manager of such kernels.
"""
import sys

import nbclient
import nbformat

CELL_S = 60


def main(source, target, gateway=None):
    notebook = nbformat.read(source, 4)
    more = {}
    if gateway:
        from jupyter_server.gateway.gateway_client import GatewayClient
        from jupyter_server.gateway.managers import GatewayKernelManager
        GatewayClient.instance().url = gateway
        more = {"kernel_manager_class": GatewayKernelManager}
    nbclient.NotebookClient(notebook, timeout=CELL_S, startup_timeout=CELL_S, kernel_name="python3", **more).execute()
    nbformat.write(notebook, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
