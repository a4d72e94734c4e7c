# SPDX-License-Identifier: Apache-2.0
# Made by tools/gen-types from /openapi.json: do not edit.
"""What the API takes and answers, as /openapi.json has it: see docs/boxes.md.

Of a class X the keys that are always there are in _X.
"""
from __future__ import annotations

from typing import Dict, List, Literal, Tuple, TypedDict, Union


class Environment(TypedDict):
    # for `environment` of a box
    name: str
    # the machine's own programs, packages beside them, or another root file system
    kind: Literal["machine", "packages", "root"]
    # the path of its Python in a box
    python: Union[str, None]
    # as it was when that was built; null: the machine's
    python_version: Union[str, None]
    # whether it has IPython, for cells
    cells: bool
    # whether its kernels start from an image now
    warm: bool
    # on disk
    bytes: Union[int, None]
    # sessions that wait to be handed out
    ready: int
    # when this version was built, RFC 3339
    created_at: Union[str, None]


class EnvironmentList(TypedDict):
    # the machine's own first
    environments: List[Environment]


class _BuildEnvironmentRequest(TypedDict):
    # a-z, 0-9, '-', '_', '.', beginning with a letter or digit; one that is there is replaced
    name: str


class BuildEnvironmentRequest(_BuildEnvironmentRequest, total=False):
    # as pip has them: names, with versions or without
    requirements: List[str]
    # modules that its kernels have imported when they start
    imports: List[str]
    # sessions that are kept ready
    pool: int


class EnvironmentBuild(TypedDict):
    # of the environment
    name: str
    # how it goes
    status: Literal["running", "ok", "failed"]
    # when it began, RFC 3339
    started_at: str
    # when it ended, RFC 3339
    ended_at: Union[str, None]
    # the end of what it said, when it has ended
    log: str


class BoxLimits(TypedDict, total=False):
    # memory of all its processes together, files in memory apart; above it the kernel ends one
    memory_bytes: Union[int, None]
    # share of the processors, 0.5 is half of one
    cpus: Union[float, None]
    # processor time of one process, then SIGXCPU and SIGKILL
    cpu_seconds: Union[int, None]
    # processes and threads at once
    processes: Union[int, None]
    # bytes kept of each of stdout and stderr; the rest is read and dropped
    output_bytes: Union[int, None]
    # size of one file, 0: that of the workspace
    file_bytes: Union[int, None]
    # bytes in /workspace; full is ENOSPC
    workspace_bytes: Union[int, None]
    # files and directories in /workspace
    workspace_inodes: Union[int, None]
    # open descriptors of one process
    open_files: Union[int, None]
    # bytes in /tmp and the home directory together
    scratch_bytes: Union[int, None]
    # bytes in /dev/shm
    shm_bytes: Union[int, None]


class _BoxMount(TypedDict):
    # a directory that mount_root allows: its path, or the last part of it
    root: str


class BoxMount(_BoxMount, total=False):
    # which part of it; relative, links are not followed
    path: str
    # where in the box; absolute; null: /mnt and the last part of the path
    at: Union[str, None]
    # whether the box may only read it
    readonly: bool


class _BoxFile(TypedDict):
    # where in the workspace; relative
    path: str


class BoxFile(_BoxFile, total=False):
    # content: a file of the store
    file_id: str
    # content: this text
    content: str
    # content: these bytes, in base64
    content_base64: str
    # permissions, as a decimal number
    mode: int


class NetworkPorts(TypedDict, total=False):
    # a port
    port: Union[int, None]
    # a port, or several as first-last
    ports: str


class _NetworkRuleInject(TypedDict):
    # which one, Authorization for example; what a program says by it is replaced
    header: str
    # the name of one that the operator has for that host
    secret: str


class NetworkRuleInject(_NetworkRuleInject, total=False):
    # what stands in front of it, as in 'Bearer '
    prefix: str
    # whether answers that show it have asterisks in its place; they are not compressed then, and no WebSocket
    redact: bool


class NetworkRule(TypedDict, total=False):
    # pypi.org, *.pypi.org, 10.1.0.0/16, [2001:db8::]/32, each with :port or :first-last if it is to be some ports only; ! in front denies, and
    # wins
    rule: str
    # a name, or *.name for all below it
    host: str
    # an address or a network, IPv6 with or without brackets
    cidr: str
    # these ports only: numbers, or first-last as text
    ports: List[Union[str, int, NetworkPorts]]
    # what must be spoken
    protocol: Literal["any", "tls", "http"]
    # requests of HTTP by these methods only: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS
    methods: List[str]
    # requests of HTTP for these paths, and what is below them, only
    paths: List[str]
    # a header with a secret that requests get on their way out: those in TLS, which is opened for that, or with the protocol http those without
    inject: Union[NetworkRuleInject, None]
    # it denies, and wins over what others allow
    deny: bool


class BoxNetwork(TypedDict, total=False):
    # what it may reach: nothing, what rules allow, or public addresses (and what rules allow); learn: as open, and the answers say which rules it
    # would need
    policy: Literal["none", "allow", "open", "learn"]
    # what it may reach, or (deny) may not: texts, or objects that can say more
    rules: List[Union[str, NetworkRule]]
    # connections at once; null: box_net_connections
    max_connections: Union[int, None]
    # bytes that it may send and receive in all, since it was made; null: box_net_bytes
    max_bytes: Union[int, None]
    # bytes that it may send, and receive, in a second; null: box_net_rate
    bytes_per_second: Union[int, None]


class BoxPorts(TypedDict, total=False):
    # where its kernels are; from 1024 on; 0: a free one
    executor: int
    # where its files and modules are; from 1024 on; 0: a free one
    resource: int


class CreateBoxRequest(TypedDict, total=False):
    # yours, and unique: name:x stands for the id in paths; a-z, 0-9, '-', '_' and '.'
    name: Union[str, None]
    # the programs that it sees: `default`, those of the machine, or one of GET /v1/environments
    environment: str
    # what it may use; above the configured maximum is refused
    limits: BoxLimits
    # environment variables of every command
    env: Dict[str, str]
    # directories of the host, of those that mount_root allows
    mounts: List[BoxMount]
    # put into the workspace first
    files: List[BoxFile]
    # what it may reach
    network: BoxNetwork
    # ports of 127.0.0.1 for clients of ipybox; true: two free ones
    ports: Union[BoxPorts, bool, None]
    # where its programs begin and its files are; null: /app with ports, else /workspace
    workdir: Union[Literal["/workspace", "/app"], None]
    # how long it lives, whatever happens; null: box_ttl_default
    ttl_seconds: Union[int, None]
    # how long it lives without a command; 0: as long as it may; null: box_idle_default
    idle_seconds: Union[int, None]
    # yours; the list can be asked for boxes by it
    metadata: Dict[str, str]
    # tools of MCP servers that code in it may call: 'server' or 'server/tool'; none unless said
    tools: List[str]
    # which of these calls wait until somebody allows them: 'server', 'server/tool', or '*'
    approvals: List[str]


class LimitValues(TypedDict):
    # memory of all its processes together
    memory_bytes: int
    # share of the processors
    cpus: float
    # processor time of one process; 0: any
    cpu_seconds: int
    # processes and threads at once
    processes: int
    # bytes kept of each of stdout and stderr of a command or cell
    output_bytes: int
    # size of one file; 0: that of the workspace
    file_bytes: int
    # bytes in /workspace
    workspace_bytes: int
    # files and directories in /workspace
    workspace_inodes: int
    # open descriptors of one process
    open_files: int
    # bytes in /tmp and the home directory together
    scratch_bytes: int
    # bytes in /dev/shm
    shm_bytes: int


class _Network(TypedDict):
    # what it may reach
    policy: Literal["none", "allow", "open", "learn"]
    # texts, and objects (NetworkRule) where a text does not say it all
    rules: List[Union[str, Dict[str, object]]]


class Network(_Network, total=False):
    # connections at once; not there: 512
    max_connections: int
    # bytes in all; not there: no limit
    max_bytes: int
    # each way; not there: no limit
    bytes_per_second: int
    # with policy learn: rules that would allow what it has reached, and what was refused
    learned: List[str]


class Ports(TypedDict):
    # where its kernels are
    executor: int
    # where its files and modules are
    resource: int


class PublishedPort(TypedDict):
    # of the box
    port: int
    # of this server, where it is
    path: str
    # the port of 127.0.0.1 where it is, too
    loopback: Union[int, None]
    # that port as a URL
    url: Union[str, None]


class _NetworkFigures(TypedDict):
    # connections that are there now
    open: int
    # that reached somebody
    connections: int
    # connections, and questions for names
    refused: int
    # for names
    questions: int
    # to the world
    sent_bytes: int
    # from it
    received_bytes: int


class NetworkFigures(_NetworkFigures, total=False):
    # rules that would allow what was refused because no rule allows it
    refused_rules: List[str]


class FigureValues(TypedDict):
    # since it was made
    wall_ms: int
    # of all its processes
    cpu_ms: Union[int, None]
    # of all its processes
    peak_memory_bytes: Union[int, None]
    # processes that were ended for want of memory
    oom_kills: Union[int, None]
    # what it had of the network; null: it was never given one
    network: Union[NetworkFigures, None]


class _Box(TypedDict):
    # for the other calls
    id: str
    # as it was named
    name: Union[str, None]
    # busy: a command or a cell runs
    state: Literal["creating", "ready", "busy", "paused", "ending"]
    # the programs that it sees
    environment: str
    # how it is made
    backend: str
    # isolation that it has
    layers: List[str]
    # what it may use
    limits: LimitValues
    # what it may reach
    network: Network
    # yours
    metadata: Dict[str, object]
    # tools of MCP servers that it may call
    tools: List[str]
    # which of these calls somebody has to allow
    approvals: List[str]
    # where its programs begin and its files are
    workdir: Literal["/workspace", "/app"]
    # of 127.0.0.1, where clients of ipybox reach it
    ports: Union[Ports, None]
    # where programs of it that listen can be reached
    published_ports: List[PublishedPort]
    # how long it lives, from when that was said
    ttl_seconds: int
    # how long it lives without a command; 0: as long as it may
    idle_seconds: int
    # when it was made, RFC 3339
    created_at: str
    # when it ends at the latest, RFC 3339
    expires_at: str


class Box(_Box, total=False):
    # what it has used; when one box is asked for
    figures: Union[FigureValues, None]


class BoxList(TypedDict):
    # the oldest first
    boxes: List[Box]
    # to be given as `after` for the next page
    next: Union[str, None]


class PatchBoxRequest(TypedDict, total=False):
    # how long it lives from now on, whatever happens; null: as it was
    ttl_seconds: Union[int, None]
    # how long it lives without a command; 0: as long as it may; null: as it was
    idle_seconds: Union[int, None]
    # in place of what it had; null: as it was
    metadata: Union[Dict[str, str], None]


class _PublishPortRequest(TypedDict):
    # of the box, where a program of it listens or will listen
    port: int


class PublishPortRequest(_PublishPortRequest, total=False):
    # a port of 127.0.0.1 for it, from 1024 on; 0: a free one; null: it has its path on this server only
    loopback: Union[int, None]


class PublishedPortList(TypedDict):
    # by their numbers
    published_ports: List[PublishedPort]


class CreateCommandRequest(TypedDict, total=False):
    # the program, looked for in PATH, and its arguments
    argv: List[str]
    # a text for bash -c
    shell: str
    # fed to it first; null: nothing
    stdin: Union[str, None]
    # whether more input may come, by the call stdin; otherwise it ends here
    stdin_open: bool
    # environment variables, besides those of the box
    env: Dict[str, str]
    # where it begins; relative ones are below the working directory of the box, which is where it begins without
    cwd: str
    # wall clock, then it is killed; null: until the box ends; absent: box_timeout_ms
    timeout_ms: Union[int, None]
    # answer with its events as they come
    stream: bool
    # answer at once (202); it is looked at by its id
    detach: bool
    # of stdout and stderr: text, in which what is not UTF-8 becomes U+FFFD, or all bytes
    output_encoding: Literal["utf-8", "base64"]
    # what a client that leaves means for it: nothing, or SIGINT
    on_disconnect: Literal["continue", "interrupt"]


class Truncated(TypedDict):
    # something of it is missing
    stdout: bool
    # something of it is missing
    stderr: bool


class RunFigures(TypedDict):
    # from start to end
    wall_ms: int
    # of the program and its children that it waited for
    cpu_ms: int
    # of the largest of them
    peak_memory_bytes: int


class _Command(TypedDict):
    # for the other calls
    id: str
    # running, or how it ended
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"]
    # null while it runs, and where a signal ended it
    exit_code: Union[int, None]
    # that ended it
    signal: Union[int, None]
    # why it did not run, or not to its end
    error: Union[str, None]
    # whether something of them is missing
    truncated: Truncated
    # what it used, as the kernel measured it
    figures: Union[RunFigures, None]
    # the beginning of what was run; null after a restart of the gate
    summary: Union[str, None]
    # RFC 3339
    started_at: str
    # RFC 3339
    ended_at: Union[str, None]


class Command(_Command, total=False):
    # what it wrote, so far; not in 202
    stdout: str
    # what it wrote of errors, so far; not in 202
    stderr: str


class StartEvent(TypedDict):
    # its id
    command: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # RFC 3339
    started_at: str


class DataEvent(TypedDict):
    # its id
    command: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # what was written, in whole characters, or base64 as output_encoding says
    data: str


RunGapEvent = TypedDict("RunGapEvent", {
    # its id
    "command": str,
    # the same as `to`
    "seq": int,
    # milliseconds since the start
    "t_ms": int,
    # number of the first event that is held no longer
    "from": int,
    # number of the last one
    "to": int,
})


class EndEvent(TypedDict):
    # its id
    command: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # its id
    id: str
    # how it ended
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"]
    # null where a signal ended it
    exit_code: Union[int, None]
    # that ended it
    signal: Union[int, None]
    # why it did not run, or not to its end
    error: Union[str, None]
    # whether something of its output is missing
    truncated: Truncated
    # what it used, as the kernel measured it
    figures: Union[RunFigures, None]
    # the beginning of what was run
    summary: Union[str, None]
    # RFC 3339
    started_at: str
    # RFC 3339
    ended_at: Union[str, None]


class CommandLine(TypedDict):
    # for the other calls
    id: str
    # running, or how it ended
    status: Literal["running", "ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"]
    # null while it runs, and where a signal ended it
    exit_code: Union[int, None]
    # that ended it
    signal: Union[int, None]
    # why it did not run, or not to its end
    error: Union[str, None]
    # what it used, as the kernel measured it
    figures: Union[RunFigures, None]
    # the beginning of what was run; null after a restart of the gate
    summary: Union[str, None]
    # RFC 3339
    started_at: str
    # RFC 3339
    ended_at: Union[str, None]


class CommandList(TypedDict):
    # the oldest first
    commands: List[CommandLine]


class CommandInput(TypedDict, total=False):
    # input, as text
    text: Union[str, None]
    # input, as bytes in base64
    base64: Union[str, None]
    # whether that was all
    eof: bool


class CommandSignal(TypedDict):
    # its name, SIGINT or INT, or its number as a text
    signal: str


class _CreateCellRequest(TypedDict):
    # what is run: Python as IPython takes it
    code: str


class CreateCellRequest(_CreateCellRequest, total=False):
    # whose variables it has; made on first use
    kernel: str
    # wall clock from its start, then it is interrupted, and killed if it goes on; null: until the box ends; absent: box_timeout_ms
    timeout_ms: Union[int, None]
    # answer with its events as they come
    stream: bool
    # answer at once (202); it is looked at by its id
    detach: bool
    # whether input() waits for the call input; otherwise it raises at once
    stdin: bool
    # whether what is more than output_bytes goes into a file of the box
    spill: bool
    # of stdout and stderr: text, in which what is not UTF-8 becomes U+FFFD, or all bytes
    output_encoding: Literal["utf-8", "base64"]
    # what a client that leaves means for it: nothing, or an interrupt
    on_disconnect: Literal["continue", "interrupt"]


class CellError(TypedDict):
    # class of the exception; KernelDied, OutOfMemory, Timeout or Cancelled where there was none
    name: str
    # its text
    value: str
    # lines as IPython prints them
    traceback: List[str]


class _CellResult(TypedDict):
    # shown, or the value of the last expression
    type: Literal["display", "result"]
    # for updates
    display_id: Union[str, None]
    # by mime type: texts, images in base64, JSON as it is
    data: Dict[str, object]
    # by mime type
    metadata: Dict[str, object]


class CellResult(_CellResult, total=False):
    # of a result
    execution_count: Union[int, None]


class CellTruncated(TypedDict):
    # something of it is missing
    stdout: bool
    # something of it is missing
    stderr: bool
    # something of them is missing
    results: bool


class _Cell(TypedDict):
    # for the other calls
    id: str
    # queued, running, or how it ended
    status: Literal["queued", "running", "ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"]
    # whose variables it has
    kernel: str
    # of this kernel; null until it has ended
    execution_count: Union[int, None]
    # what it raised, or what became of it
    error: Union[CellError, None]
    # its kernel is a new one: why the last one ended
    kernel_restarted: Union[Literal["crashed", "oom", "timeout", "exited", "cancelled"], None]
    # its kernel ended with it: variables are lost, files are not
    state_lost: bool
    # where in the box all that it printed is, if asked to spill
    output_file: Union[str, None]
    # what it used
    figures: Union[RunFigures, None]
    # the beginning of its code; null after a restart of the gate
    summary: Union[str, None]
    # RFC 3339; null while it waits
    started_at: Union[str, None]
    # RFC 3339
    ended_at: Union[str, None]
    # whether something of them is missing
    truncated: CellTruncated


class Cell(_Cell, total=False):
    # what it wrote, so far; not in 202
    stdout: str
    # what it wrote of errors, so far; not in 202
    stderr: str
    # what it displayed, so far, updates and clearing applied; not in 202
    results: List[CellResult]
    # the same as nbformat has it, in order, with ?outputs=1
    outputs: List[Dict[str, object]]


class CellStartEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # RFC 3339
    started_at: str


class CellDataEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # what was written, in whole characters, or base64 as output_encoding says
    data: str


class CellDisplayEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # for updates
    display_id: Union[str, None]
    # by mime type
    data: Dict[str, object]
    # by mime type
    metadata: Dict[str, object]


class CellClearEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # only when something new comes
    wait: bool


class CellResultEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # for updates
    display_id: Union[str, None]
    # by mime type
    data: Dict[str, object]
    # by mime type
    metadata: Dict[str, object]
    # of this kernel
    execution_count: Union[int, None]


class CellErrorEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # class of the exception
    name: str
    # its text
    value: str
    # lines as IPython prints them
    traceback: List[str]


class CellInputEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # what input() asks
    prompt: str
    # not to be shown
    password: bool


class _CellCommEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # as Jupyter has it
    type: Literal["comm_open", "comm_msg", "comm_close"]
    # as Jupyter has it
    content: Dict[str, object]


class CellCommEvent(_CellCommEvent, total=False):
    # as Jupyter has it
    metadata: Dict[str, object]
    # in base64
    buffers: List[str]


CellGapEvent = TypedDict("CellGapEvent", {
    # its id
    "cell": str,
    # number of the event, the same as its id
    "seq": int,
    # milliseconds since the start
    "t_ms": int,
    # number of the first event that is held no longer
    "from": int,
    # number of the last one
    "to": int,
})


class CellEndEvent(TypedDict):
    # its id
    cell: str
    # number of the event, the same as its id
    seq: int
    # milliseconds since the start
    t_ms: int
    # for the other calls
    id: str
    # queued, running, or how it ended
    status: Literal["queued", "running", "ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"]
    # whose variables it has
    kernel: str
    # of this kernel; null until it has ended
    execution_count: Union[int, None]
    # what it raised, or what became of it
    error: Union[CellError, None]
    # its kernel is a new one: why the last one ended
    kernel_restarted: Union[Literal["crashed", "oom", "timeout", "exited", "cancelled"], None]
    # its kernel ended with it: variables are lost, files are not
    state_lost: bool
    # where in the box all that it printed is, if asked to spill
    output_file: Union[str, None]
    # what it used
    figures: Union[RunFigures, None]
    # the beginning of its code; null after a restart of the gate
    summary: Union[str, None]
    # RFC 3339; null while it waits
    started_at: Union[str, None]
    # RFC 3339
    ended_at: Union[str, None]
    # whether something of its output is missing
    truncated: CellTruncated


class CellLine(TypedDict):
    # for the other calls
    id: str
    # queued, running, or how it ended
    status: Literal["queued", "running", "ok", "error", "timeout", "interrupted", "oom", "crashed", "cancelled"]
    # whose variables it has
    kernel: str
    # of this kernel; null until it has ended
    execution_count: Union[int, None]
    # what it raised, or what became of it
    error: Union[CellError, None]
    # its kernel is a new one: why the last one ended
    kernel_restarted: Union[Literal["crashed", "oom", "timeout", "exited", "cancelled"], None]
    # its kernel ended with it: variables are lost, files are not
    state_lost: bool
    # where in the box all that it printed is, if asked to spill
    output_file: Union[str, None]
    # what it used
    figures: Union[RunFigures, None]
    # the beginning of its code; null after a restart of the gate
    summary: Union[str, None]
    # RFC 3339; null while it waits
    started_at: Union[str, None]
    # RFC 3339
    ended_at: Union[str, None]


class CellList(TypedDict):
    # the oldest first
    cells: List[CellLine]


class CellInput(TypedDict, total=False):
    # what input() returns: a line without its end
    text: Union[str, None]
    # there is nothing: EOFError
    eof: bool


class Kernel(TypedDict):
    # as cells have it
    name: str
    # none: its next cell starts it
    state: Literal["none", "starting", "idle", "busy", "ending"]
    # of its last cell
    execution_count: Union[int, None]
    # cells that wait for it
    queued: int
    # the one that it runs
    cell: Union[str, None]
    # RFC 3339
    started_at: Union[str, None]


class KernelList(TypedDict):
    # the oldest first
    kernels: List[Kernel]


class KernelRequest(TypedDict, total=False):
    # which one
    kernel: str


class ForkRequest(TypedDict, total=False):
    # of the new box, as of one that is made; not with count
    name: Union[str, None]
    # how many; the answer is a list then
    count: Union[int, None]
    # how long it lives, whatever happens; null: as this one, from now on
    ttl_seconds: Union[int, None]
    # how long it lives without a command; null: as this one
    idle_seconds: Union[int, None]
    # yours; null: as of this one
    metadata: Union[Dict[str, str], None]


class Fork(TypedDict):
    # with count; without, the members of the new box stand beside lost
    boxes: List[Box]
    # what its kernel had and a copy has not: threads, sockets, processes
    lost: List[str]


class _CompleteRequest(TypedDict):
    # a cell, as far as it was typed
    code: str


class CompleteRequest(_CompleteRequest, total=False):
    # where in it, in characters; null: at its end
    cursor: Union[int, None]
    # who is asked; made on first use
    kernel: str


class Completion(TypedDict):
    # what it could become
    matches: List[str]
    # from this character on the match replaces what is there
    start: int
    # up to this one
    end: int


class _IsCompleteRequest(TypedDict):
    # a cell, as far as it was typed
    code: str


class IsCompleteRequest(_IsCompleteRequest, total=False):
    # who is asked; made on first use
    kernel: str


class IsComplete(TypedDict):
    # whether it can be run as it is
    status: Literal["complete", "incomplete", "invalid", "unknown"]
    # of incomplete: what the next line begins with
    indent: Union[str, None]


class _InspectRequest(TypedDict):
    # a cell, as far as it was typed
    code: str


class InspectRequest(_InspectRequest, total=False):
    # where in it, in characters; null: at its end
    cursor: Union[int, None]
    # who is asked; made on first use
    kernel: str
    # 0: what it is; 1: its source, too
    detail: int


class Inspection(TypedDict):
    # whether there is such a thing
    found: bool
    # what it is, by mime type
    data: Dict[str, object]


class _FileEntry(TypedDict):
    # as it was asked for; of a list below the directory that is listed. What is not UTF-8 is U+FFFD
    path: str
    # what it is
    type: Literal["file", "directory", "symlink", "other"]
    # in bytes
    size: int
    # its permissions, octal: 0644
    mode: str
    # when it was changed last, RFC 3339
    mtime: str
    # of a symlink: what it says
    target: Union[str, None]


class FileEntry(_FileEntry, total=False):
    # its bytes, where they are not UTF-8
    path_base64: str


class BoxFileList(TypedDict):
    # by the bytes of their names, a directory before what is in it
    entries: List[FileEntry]
    # to be given as `after` for the next page
    next: Union[str, None]


class _WatchEvent(TypedDict):
    # below the directory that is watched; of ready and overflow empty
    path: str
    # whether it is a directory
    type: Literal["file", "directory"]


class WatchEvent(_WatchEvent, total=False):
    # its bytes, where they are not UTF-8
    path_base64: str
    # of move: where it is now
    to: str
    # its bytes, where they are not UTF-8
    to_base64: str


class WatchEndEvent(TypedDict):
    # why the box has ended; unwatched: there is nothing to watch any more
    reason: str


class _ToolServerRequest(TypedDict):
    # its name: one of the operator's, or a new one with params
    server: str


class ToolServerRequest(_ToolServerRequest, total=False):
    # command, args and env, or url and headers: a server of yours, which runs in a box of its own
    params: Union[Dict[str, object], None]


class ToolServer(TypedDict):
    # its name
    server: str
    # of `mcptools`, for code in the box
    package: str
    # modules of that package
    tools: List[str]


class Approval(TypedDict):
    # to be answered with
    id: str
    # of which server
    server: str
    # which tool
    tool: str
    # as the box wants it called
    arguments: Dict[str, object]
    # since when it waits, RFC 3339
    asked_at: str


class ApprovalList(TypedDict):
    # the oldest first
    approvals: List[Approval]


class ApprovalRequest(TypedDict):
    # which call
    id: str
    # whether it may be made
    approved: bool


class ApprovalAnswer(TypedDict):
    # as it was answered
    approved: bool


class _ErrorBody(TypedDict):
    # for programs
    code: str
    # for people
    message: str
    # the part of the request that it is about
    field: Union[str, None]
    # what to do
    hint: Union[str, None]
    # as in X-Request-Id and in the log
    request_id: str


class ErrorBody(_ErrorBody, total=False):
    # of gone: why the box ended
    reason: Literal["ttl", "idle", "deleted", "oom", "restart", "crashed"]
    # of gone: when it ended, RFC 3339; not there where only the reason is known
    ended_at: str
    # of name_taken: the box that has the name; of answer_gone: the cell or command
    id: str
    # of answer_gone: how it ended; null: nobody knows
    status: Union[str, None]


class Error(TypedDict):
    # what is wrong
    error: ErrorBody


#: Every call that there is.
CALLS: Tuple[Tuple[str, str], ...] = (
    ("GET", "/v1/boxes"),
    ("POST", "/v1/boxes"),
    ("DELETE", "/v1/boxes/{box_id}"),
    ("GET", "/v1/boxes/{box_id}"),
    ("PATCH", "/v1/boxes/{box_id}"),
    ("GET", "/v1/boxes/{box_id}/approvals"),
    ("POST", "/v1/boxes/{box_id}/approvals"),
    ("GET", "/v1/boxes/{box_id}/archive"),
    ("PUT", "/v1/boxes/{box_id}/archive"),
    ("GET", "/v1/boxes/{box_id}/cells"),
    ("POST", "/v1/boxes/{box_id}/cells"),
    ("DELETE", "/v1/boxes/{box_id}/cells/{cell_id}"),
    ("GET", "/v1/boxes/{box_id}/cells/{cell_id}"),
    ("GET", "/v1/boxes/{box_id}/cells/{cell_id}/events"),
    ("POST", "/v1/boxes/{box_id}/cells/{cell_id}/input"),
    ("GET", "/v1/boxes/{box_id}/commands"),
    ("POST", "/v1/boxes/{box_id}/commands"),
    ("DELETE", "/v1/boxes/{box_id}/commands/{command_id}"),
    ("GET", "/v1/boxes/{box_id}/commands/{command_id}"),
    ("GET", "/v1/boxes/{box_id}/commands/{command_id}/events"),
    ("POST", "/v1/boxes/{box_id}/commands/{command_id}/signal"),
    ("POST", "/v1/boxes/{box_id}/commands/{command_id}/stdin"),
    ("POST", "/v1/boxes/{box_id}/complete"),
    ("GET", "/v1/boxes/{box_id}/files"),
    ("POST", "/v1/boxes/{box_id}/files"),
    ("DELETE", "/v1/boxes/{box_id}/files/{path}"),
    ("GET", "/v1/boxes/{box_id}/files/{path}"),
    ("POST", "/v1/boxes/{box_id}/files/{path}"),
    ("PUT", "/v1/boxes/{box_id}/files/{path}"),
    ("POST", "/v1/boxes/{box_id}/fork"),
    ("POST", "/v1/boxes/{box_id}/inspect"),
    ("POST", "/v1/boxes/{box_id}/interrupt"),
    ("POST", "/v1/boxes/{box_id}/is_complete"),
    ("GET", "/v1/boxes/{box_id}/kernels"),
    ("DELETE", "/v1/boxes/{box_id}/kernels/{kernel}"),
    ("GET", "/v1/boxes/{box_id}/kernels/{kernel}"),
    ("PUT", "/v1/boxes/{box_id}/network"),
    ("GET", "/v1/boxes/{box_id}/ports"),
    ("POST", "/v1/boxes/{box_id}/ports"),
    ("DELETE", "/v1/boxes/{box_id}/ports/{port}"),
    ("GET", "/v1/boxes/{box_id}/ports/{port}"),
    ("POST", "/v1/boxes/{box_id}/restart"),
    ("POST", "/v1/boxes/{box_id}/tools"),
    ("GET", "/v1/boxes/{box_id}/watch"),
    ("GET", "/v1/environments"),
    ("POST", "/v1/environments"),
    ("DELETE", "/v1/environments/{environment}"),
    ("GET", "/v1/environments/{environment}"),
    ("GET", "/v1/environments/{environment}/build"),
)

__all__ = [
    "CALLS",
    "Approval",
    "ApprovalAnswer",
    "ApprovalList",
    "ApprovalRequest",
    "Box",
    "BoxFile",
    "BoxFileList",
    "BoxLimits",
    "BoxList",
    "BoxMount",
    "BoxNetwork",
    "BoxPorts",
    "BuildEnvironmentRequest",
    "Cell",
    "CellClearEvent",
    "CellCommEvent",
    "CellDataEvent",
    "CellDisplayEvent",
    "CellEndEvent",
    "CellError",
    "CellErrorEvent",
    "CellGapEvent",
    "CellInput",
    "CellInputEvent",
    "CellLine",
    "CellList",
    "CellResult",
    "CellResultEvent",
    "CellStartEvent",
    "CellTruncated",
    "Command",
    "CommandInput",
    "CommandLine",
    "CommandList",
    "CommandSignal",
    "CompleteRequest",
    "Completion",
    "CreateBoxRequest",
    "CreateCellRequest",
    "CreateCommandRequest",
    "DataEvent",
    "EndEvent",
    "Environment",
    "EnvironmentBuild",
    "EnvironmentList",
    "Error",
    "ErrorBody",
    "FigureValues",
    "FileEntry",
    "Fork",
    "ForkRequest",
    "InspectRequest",
    "Inspection",
    "IsComplete",
    "IsCompleteRequest",
    "Kernel",
    "KernelList",
    "KernelRequest",
    "LimitValues",
    "Network",
    "NetworkFigures",
    "NetworkPorts",
    "NetworkRule",
    "NetworkRuleInject",
    "PatchBoxRequest",
    "Ports",
    "PublishPortRequest",
    "PublishedPort",
    "PublishedPortList",
    "RunFigures",
    "RunGapEvent",
    "StartEvent",
    "ToolServer",
    "ToolServerRequest",
    "Truncated",
    "WatchEndEvent",
    "WatchEvent",
]
