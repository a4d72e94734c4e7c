# SPDX-License-Identifier: Apache-2.0
"""The names of ipybox, of glovebox.compat.ipybox."""
from .container import DEFAULT_TAG as DEFAULT_TAG, ExecutionContainer as ExecutionContainer
from .executor import Execution as Execution, ExecutionClient as ExecutionClient, ExecutionError as ExecutionError, ExecutionResult as ExecutionResult
from .resource.client import ResourceClient as ResourceClient
from .utils import arun as arun
