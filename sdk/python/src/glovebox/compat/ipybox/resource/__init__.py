# SPDX-License-Identifier: Apache-2.0
"""The resource server of a container: its files, sources of modules, clients for tools."""
