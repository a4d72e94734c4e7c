// SPDX-License-Identifier: Apache-2.0
/*
 * /openapi.json: the table of routes, the tables by which request bodies are checked, and the
 * tables here, which say what is answered. OpenAPI 3.1: its schemas are JSON Schema 2020-12.
 */
#include "gate/ci.h"
#include "gate/meta.h"

#include "base/own.h"
#include "config.gen.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 128 };

/* --- what is answered ------------------------------------------------------------------------ */

enum member_flags {
	MEMBER_LIST = 1u << 0,     /* a list of these */
	MEMBER_OPTIONAL = 1u << 1, /* not always there */
};

/* A member of an object. Rows of one schema stand together. */
struct member {
	const char *schema, *name;
	const char *type; /* JSON's types, or the name of a schema */
	unsigned int flags;
	const char *words; /* the only ones that there are, or NULL */
	const char *doc;
};

#define COMMAND_STATUSES "running ok error timeout interrupted oom crashed cancelled"
#define CELL_STATUSES    "queued " COMMAND_STATUSES

/* clang-format off */
static const struct member members[] = {
	{ "Health", "status", "string", 0, "ok error", "whether boxes can be made" },
	{ "Health", "message", "string null", 0, NULL, "why not" },
	{ "Health", "version", "string", 0, NULL, "level of the Code Interpreter dialect" },
	{ "Health", "executor_backend", "string", 0, NULL, "how boxes are made" },
	{ "Health", "network_isolation", "string", 0, NULL, "what a box has of a network" },
	{ "Health", "glovebox_version", "string", 0, NULL, "version of this program" },
	{ "Health", "no_auth", "boolean", MEMBER_OPTIONAL, NULL, "there, and true, when everybody may ask" },
	{ "Health", "missing_layers", "string", MEMBER_LIST, NULL, "isolation that this machine cannot give" },
	{ "Health", "warm", "string", MEMBER_LIST, NULL, "images that Python is started from: lean and full for programs, kernel for cells" },

	{ "WorkspaceFile", "path", "string", 0, NULL, "where in the workspace" },
	{ "WorkspaceFile", "kind", "string", 0, "file directory", "what it is" },
	{ "WorkspaceFile", "file_id", "string null", 0, NULL, "under which the store has it" },

	{ "ExecuteResponse", "stdout", "string", 0, NULL, "what the program wrote" },
	{ "ExecuteResponse", "stderr", "string", 0, NULL, "what it wrote of errors" },
	{ "ExecuteResponse", "exit_code", "integer null", 0, NULL, "128 and the signal where one ended it; null when time was up" },
	{ "ExecuteResponse", "timed_out", "boolean", 0, NULL, "whether time was up" },
	{ "ExecuteResponse", "duration_ms", "integer", 0, NULL, "from the request to the end, files included" },
	{ "ExecuteResponse", "files", "WorkspaceFile", MEMBER_LIST, NULL, "new ones and changed ones" },

	{ "OutputEvent", "stream", "string", 0, "stdout stderr", "on which it was written" },
	{ "OutputEvent", "data", "string", 0, NULL, "what was written, in whole characters" },
	{ "ResultEvent", "exit_code", "integer null", 0, NULL, "128 and the signal where one ended it; null when time was up" },
	{ "ResultEvent", "timed_out", "boolean", 0, NULL, "whether time was up" },
	{ "ResultEvent", "duration_ms", "integer", 0, NULL, "from the request to the end, files included" },
	{ "ResultEvent", "files", "WorkspaceFile", MEMBER_LIST, NULL, "new ones and changed ones" },
	{ "ErrorEvent", "message", "string", 0, NULL, "why there will be no result" },
	{ "GapEvent", "from", "integer", 0, NULL, "number of the first event that is held no longer" },
	{ "GapEvent", "to", "integer", 0, NULL, "number of the last one" },

	{ "UploadResponse", "file_id", "string", 0, NULL, "under which the store has it" },
	{ "UploadResponse", "filename", "string", 0, NULL, "as the client named it" },
	{ "UploadResponse", "size_bytes", "integer", 0, NULL, "how large it is" },

	{ "StoredFile", "file_id", "string", 0, NULL, "under which the store has it" },
	{ "StoredFile", "filename", "string", 0, NULL, "as it was named" },
	{ "StoredFile", "size_bytes", "integer", 0, NULL, "how large it is" },
	{ "StoredFile", "upload_time", "number", 0, NULL, "when it came, in seconds since 1970" },
	{ "FileList", "files", "StoredFile", MEMBER_LIST, NULL, "in no particular order" },

	{ "SessionResponse", "session_id", "string", 0, NULL, "for the other calls" },
	{ "SessionResponse", "expires_at", "number", 0, NULL, "when it ends by itself, in seconds since 1970" },

	{ "BashResponse", "stdout", "string", 0, NULL, "what the command wrote" },
	{ "BashResponse", "stderr", "string", 0, NULL, "what it wrote of errors" },
	{ "BashResponse", "exit_code", "integer null", 0, NULL, "128 and the signal where one ended it; null when time was up" },
	{ "BashResponse", "timed_out", "boolean", 0, NULL, "whether time was up" },
	{ "BashResponse", "duration_ms", "integer", 0, NULL, "how long it took" },

	{ "LimitValues", "memory_bytes", "integer", 0, NULL, "memory of all its processes together" },
	{ "LimitValues", "cpus", "number", 0, NULL, "share of the processors" },
	{ "LimitValues", "cpu_seconds", "integer", 0, NULL, "processor time of one process; 0: any" },
	{ "LimitValues", "processes", "integer", 0, NULL, "processes and threads at once" },
	{ "LimitValues", "output_bytes", "integer", 0, NULL, "bytes kept of each of stdout and stderr of a command or cell" },
	{ "LimitValues", "file_bytes", "integer", 0, NULL, "size of one file; 0: that of the workspace" },
	{ "LimitValues", "workspace_bytes", "integer", 0, NULL, "bytes in /workspace" },
	{ "LimitValues", "workspace_inodes", "integer", 0, NULL, "files and directories in /workspace" },
	{ "LimitValues", "open_files", "integer", 0, NULL, "open descriptors of one process" },
	{ "LimitValues", "scratch_bytes", "integer", 0, NULL, "bytes in /tmp and the home directory together" },
	{ "LimitValues", "shm_bytes", "integer", 0, NULL, "bytes in /dev/shm" },
	{ "Network", "policy", "string", 0, "none allow open", "what it may reach" },
	{ "Network", "rules", "string", MEMBER_LIST, NULL, "with policy allow" },
	{ "FigureValues", "wall_ms", "integer", 0, NULL, "since it was made" },
	{ "FigureValues", "cpu_ms", "integer null", 0, NULL, "of all its processes" },
	{ "FigureValues", "peak_memory_bytes", "integer null", 0, NULL, "of all its processes" },
	{ "FigureValues", "oom_kills", "integer null", 0, NULL, "processes that were ended for want of memory" },
	{ "Ports", "executor", "integer", 0, NULL, "where its kernels are" },
	{ "Ports", "resource", "integer", 0, NULL, "where its files and modules are" },
	{ "Box", "id", "string", 0, NULL, "for the other calls" },
	{ "Box", "name", "string null", 0, NULL, "as it was named" },
	{ "Box", "state", "string", 0, "creating ready busy paused ending", "busy: a command or a cell runs" },
	{ "Box", "environment", "string", 0, NULL, "the programs that it sees" },
	{ "Box", "backend", "string", 0, NULL, "how it is made" },
	{ "Box", "layers", "string", MEMBER_LIST, NULL, "isolation that it has" },
	{ "Box", "limits", "LimitValues", 0, NULL, "what it may use" },
	{ "Box", "network", "Network", 0, NULL, "what it may reach" },
	{ "Box", "metadata", "object", 0, NULL, "yours" },
	{ "Box", "workdir", "string", 0, "/workspace /app", "where its programs begin and its files are" },
	{ "Box", "ports", "Ports?", 0, NULL, "of 127.0.0.1, where clients of ipybox reach it" },
	{ "Box", "ttl_seconds", "integer", 0, NULL, "how long it lives, from when that was said" },
	{ "Box", "idle_seconds", "integer", 0, NULL, "how long it lives without a command; 0: as long as it may" },
	{ "Box", "created_at", "string", 0, NULL, "when it was made, RFC 3339" },
	{ "Box", "expires_at", "string", 0, NULL, "when it ends at the latest, RFC 3339" },
	{ "Box", "figures", "FigureValues?", MEMBER_OPTIONAL, NULL, "what it has used; when one box is asked for" },
	{ "BoxList", "boxes", "Box", MEMBER_LIST, NULL, "the oldest first" },
	{ "BoxList", "next", "string null", 0, NULL, "to be given as `after` for the next page" },

	{ "Truncated", "stdout", "boolean", 0, NULL, "something of it is missing" },
	{ "Truncated", "stderr", "boolean", 0, NULL, "something of it is missing" },
	{ "RunFigures", "wall_ms", "integer", 0, NULL, "from start to end" },
	{ "RunFigures", "cpu_ms", "integer", 0, NULL, "of the program and its children that it waited for" },
	{ "RunFigures", "peak_memory_bytes", "integer", 0, NULL, "of the largest of them" },
	{ "CommandLine", "id", "string", 0, NULL, "for the other calls" },
	{ "CommandLine", "status", "string", 0, COMMAND_STATUSES, "running, or how it ended" },
	{ "CommandLine", "exit_code", "integer null", 0, NULL, "null while it runs, and where a signal ended it" },
	{ "CommandLine", "signal", "integer null", 0, NULL, "that ended it" },
	{ "CommandLine", "error", "string null", 0, NULL, "why it did not run, or not to its end" },
	{ "CommandLine", "figures", "RunFigures?", 0, NULL, "what it used, as the kernel measured it" },
	{ "CommandLine", "summary", "string null", 0, NULL, "the beginning of what was run; null after a restart of the gate" },
	{ "CommandLine", "started_at", "string", 0, NULL, "RFC 3339" },
	{ "CommandLine", "ended_at", "string null", 0, NULL, "RFC 3339" },
	{ "Command", "id", "string", 0, NULL, "for the other calls" },
	{ "Command", "status", "string", 0, COMMAND_STATUSES, "running, or how it ended" },
	{ "Command", "exit_code", "integer null", 0, NULL, "null while it runs, and where a signal ended it" },
	{ "Command", "signal", "integer null", 0, NULL, "that ended it" },
	{ "Command", "error", "string null", 0, NULL, "why it did not run, or not to its end" },
	{ "Command", "stdout", "string", MEMBER_OPTIONAL, NULL, "what it wrote, so far; not in 202" },
	{ "Command", "stderr", "string", MEMBER_OPTIONAL, NULL, "what it wrote of errors, so far; not in 202" },
	{ "Command", "truncated", "Truncated", 0, NULL, "whether something of them is missing" },
	{ "Command", "figures", "RunFigures?", 0, NULL, "what it used, as the kernel measured it" },
	{ "Command", "summary", "string null", 0, NULL, "the beginning of what was run; null after a restart of the gate" },
	{ "Command", "started_at", "string", 0, NULL, "RFC 3339" },
	{ "Command", "ended_at", "string null", 0, NULL, "RFC 3339" },
	{ "CommandList", "commands", "CommandLine", MEMBER_LIST, NULL, "the oldest first" },
	{ "StartEvent", "command", "string", 0, NULL, "its id" },
	{ "StartEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "StartEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "StartEvent", "started_at", "string", 0, NULL, "RFC 3339" },
	{ "DataEvent", "command", "string", 0, NULL, "its id" },
	{ "DataEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "DataEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "DataEvent", "data", "string", 0, NULL, "what was written, in whole characters, or base64 as output_encoding says" },
	{ "RunGapEvent", "command", "string", 0, NULL, "its id" },
	{ "RunGapEvent", "seq", "integer", 0, NULL, "the same as `to`" },
	{ "RunGapEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "RunGapEvent", "from", "integer", 0, NULL, "number of the first event that is held no longer" },
	{ "RunGapEvent", "to", "integer", 0, NULL, "number of the last one" },
	{ "EndEvent", "command", "string", 0, NULL, "its id" },
	{ "EndEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "EndEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "EndEvent", "id", "string", 0, NULL, "its id" },
	{ "EndEvent", "status", "string", 0, COMMAND_STATUSES, "how it ended" },
	{ "EndEvent", "exit_code", "integer null", 0, NULL, "null where a signal ended it" },
	{ "EndEvent", "signal", "integer null", 0, NULL, "that ended it" },
	{ "EndEvent", "error", "string null", 0, NULL, "why it did not run, or not to its end" },
	{ "EndEvent", "truncated", "Truncated", 0, NULL, "whether something of its output is missing" },
	{ "EndEvent", "figures", "RunFigures?", 0, NULL, "what it used, as the kernel measured it" },
	{ "EndEvent", "summary", "string null", 0, NULL, "the beginning of what was run" },
	{ "EndEvent", "started_at", "string", 0, NULL, "RFC 3339" },
	{ "EndEvent", "ended_at", "string null", 0, NULL, "RFC 3339" },

	{ "CellError", "name", "string", 0, NULL, "class of the exception; KernelDied, OutOfMemory, Timeout or Cancelled where there was none" },
	{ "CellError", "value", "string", 0, NULL, "its text" },
	{ "CellError", "traceback", "string", MEMBER_LIST, NULL, "lines as IPython prints them" },
	{ "CellTruncated", "stdout", "boolean", 0, NULL, "something of it is missing" },
	{ "CellTruncated", "stderr", "boolean", 0, NULL, "something of it is missing" },
	{ "CellTruncated", "results", "boolean", 0, NULL, "something of them is missing" },
	{ "CellResult", "type", "string", 0, "display result", "shown, or the value of the last expression" },
	{ "CellResult", "display_id", "string null", 0, NULL, "for updates" },
	{ "CellResult", "data", "object", 0, NULL, "by mime type: texts, images in base64, JSON as it is" },
	{ "CellResult", "metadata", "object", 0, NULL, "by mime type" },
	{ "CellResult", "execution_count", "integer null", MEMBER_OPTIONAL, NULL, "of a result" },
	{ "CellLine", "id", "string", 0, NULL, "for the other calls" },
	{ "CellLine", "status", "string", 0, CELL_STATUSES, "queued, running, or how it ended" },
	{ "CellLine", "kernel", "string", 0, NULL, "whose variables it has" },
	{ "CellLine", "execution_count", "integer null", 0, NULL, "of this kernel; null until it has ended" },
	{ "CellLine", "error", "CellError?", 0, NULL, "what it raised, or what became of it" },
	{ "CellLine", "kernel_restarted", "string null", 0, "crashed oom timeout exited cancelled", "its kernel is a new one: why the last one ended" },
	{ "CellLine", "state_lost", "boolean", 0, NULL, "its kernel ended with it: variables are lost, files are not" },
	{ "CellLine", "output_file", "string null", 0, NULL, "where in the box all that it printed is, if asked to spill" },
	{ "CellLine", "figures", "RunFigures?", 0, NULL, "what it used" },
	{ "CellLine", "summary", "string null", 0, NULL, "the beginning of its code; null after a restart of the gate" },
	{ "CellLine", "started_at", "string null", 0, NULL, "RFC 3339; null while it waits" },
	{ "CellLine", "ended_at", "string null", 0, NULL, "RFC 3339" },
	{ "Cell", "id", "string", 0, NULL, "for the other calls" },
	{ "Cell", "status", "string", 0, CELL_STATUSES, "queued, running, or how it ended" },
	{ "Cell", "kernel", "string", 0, NULL, "whose variables it has" },
	{ "Cell", "execution_count", "integer null", 0, NULL, "of this kernel; null until it has ended" },
	{ "Cell", "error", "CellError?", 0, NULL, "what it raised, or what became of it" },
	{ "Cell", "kernel_restarted", "string null", 0, "crashed oom timeout exited cancelled", "its kernel is a new one: why the last one ended" },
	{ "Cell", "state_lost", "boolean", 0, NULL, "its kernel ended with it: variables are lost, files are not" },
	{ "Cell", "output_file", "string null", 0, NULL, "where in the box all that it printed is, if asked to spill" },
	{ "Cell", "figures", "RunFigures?", 0, NULL, "what it used" },
	{ "Cell", "summary", "string null", 0, NULL, "the beginning of its code; null after a restart of the gate" },
	{ "Cell", "started_at", "string null", 0, NULL, "RFC 3339; null while it waits" },
	{ "Cell", "ended_at", "string null", 0, NULL, "RFC 3339" },
	{ "Cell", "stdout", "string", MEMBER_OPTIONAL, NULL, "what it wrote, so far; not in 202" },
	{ "Cell", "stderr", "string", MEMBER_OPTIONAL, NULL, "what it wrote of errors, so far; not in 202" },
	{ "Cell", "results", "CellResult", MEMBER_OPTIONAL | MEMBER_LIST, NULL, "what it displayed, so far, updates and clearing applied; not in 202" },
	{ "Cell", "outputs", "object", MEMBER_OPTIONAL | MEMBER_LIST, NULL, "the same as nbformat has it, in order, with ?outputs=1" },
	{ "Cell", "truncated", "CellTruncated", 0, NULL, "whether something of them is missing" },
	{ "CellList", "cells", "CellLine", MEMBER_LIST, NULL, "the oldest first" },
	{ "Kernel", "name", "string", 0, NULL, "as cells have it" },
	{ "Kernel", "state", "string", 0, "none starting idle busy ending", "none: its next cell starts it" },
	{ "Kernel", "execution_count", "integer null", 0, NULL, "of its last cell" },
	{ "Kernel", "queued", "integer", 0, NULL, "cells that wait for it" },
	{ "Kernel", "cell", "string null", 0, NULL, "the one that it runs" },
	{ "Kernel", "started_at", "string null", 0, NULL, "RFC 3339" },
	{ "KernelList", "kernels", "Kernel", MEMBER_LIST, NULL, "the oldest first" },
	{ "Completion", "matches", "string", MEMBER_LIST, NULL, "what it could become" },
	{ "Completion", "start", "integer", 0, NULL, "from this character on the match replaces what is there" },
	{ "Completion", "end", "integer", 0, NULL, "up to this one" },
	{ "IsComplete", "status", "string", 0, "complete incomplete invalid unknown", "whether it can be run as it is" },
	{ "IsComplete", "indent", "string null", 0, NULL, "of incomplete: what the next line begins with" },
	{ "Inspection", "found", "boolean", 0, NULL, "whether there is such a thing" },
	{ "Inspection", "data", "object", 0, NULL, "what it is, by mime type" },
	{ "CellStartEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellStartEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellStartEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellStartEvent", "started_at", "string", 0, NULL, "RFC 3339" },
	{ "CellDataEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellDataEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellDataEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellDataEvent", "data", "string", 0, NULL, "what was written, in whole characters, or base64 as output_encoding says" },
	{ "CellDisplayEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellDisplayEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellDisplayEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellDisplayEvent", "display_id", "string null", 0, NULL, "for updates" },
	{ "CellDisplayEvent", "data", "object", 0, NULL, "by mime type" },
	{ "CellDisplayEvent", "metadata", "object", 0, NULL, "by mime type" },
	{ "CellResultEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellResultEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellResultEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellResultEvent", "display_id", "string null", 0, NULL, "for updates" },
	{ "CellResultEvent", "data", "object", 0, NULL, "by mime type" },
	{ "CellResultEvent", "metadata", "object", 0, NULL, "by mime type" },
	{ "CellResultEvent", "execution_count", "integer null", 0, NULL, "of this kernel" },
	{ "CellErrorEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellErrorEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellErrorEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellErrorEvent", "name", "string", 0, NULL, "class of the exception" },
	{ "CellErrorEvent", "value", "string", 0, NULL, "its text" },
	{ "CellErrorEvent", "traceback", "string", MEMBER_LIST, NULL, "lines as IPython prints them" },
	{ "CellClearEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellClearEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellClearEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellClearEvent", "wait", "boolean", 0, NULL, "only when something new comes" },
	{ "CellInputEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellInputEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellInputEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellInputEvent", "prompt", "string", 0, NULL, "what input() asks" },
	{ "CellInputEvent", "password", "boolean", 0, NULL, "not to be shown" },
	{ "CellCommEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellCommEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellCommEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellCommEvent", "type", "string", 0, "comm_open comm_msg comm_close", "as Jupyter has it" },
	{ "CellCommEvent", "content", "object", 0, NULL, "as Jupyter has it" },
	{ "CellCommEvent", "metadata", "object", MEMBER_OPTIONAL, NULL, "as Jupyter has it" },
	{ "CellCommEvent", "buffers", "string", MEMBER_OPTIONAL | MEMBER_LIST, NULL, "in base64" },
	{ "CellGapEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellGapEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellGapEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellGapEvent", "from", "integer", 0, NULL, "number of the first event that is held no longer" },
	{ "CellGapEvent", "to", "integer", 0, NULL, "number of the last one" },
	{ "CellEndEvent", "cell", "string", 0, NULL, "its id" },
	{ "CellEndEvent", "seq", "integer", 0, NULL, "number of the event, the same as its id" },
	{ "CellEndEvent", "t_ms", "integer", 0, NULL, "milliseconds since the start" },
	{ "CellEndEvent", "id", "string", 0, NULL, "for the other calls" },
	{ "CellEndEvent", "status", "string", 0, CELL_STATUSES, "queued, running, or how it ended" },
	{ "CellEndEvent", "kernel", "string", 0, NULL, "whose variables it has" },
	{ "CellEndEvent", "execution_count", "integer null", 0, NULL, "of this kernel; null until it has ended" },
	{ "CellEndEvent", "error", "CellError?", 0, NULL, "what it raised, or what became of it" },
	{ "CellEndEvent", "kernel_restarted", "string null", 0, "crashed oom timeout exited cancelled", "its kernel is a new one: why the last one ended" },
	{ "CellEndEvent", "state_lost", "boolean", 0, NULL, "its kernel ended with it: variables are lost, files are not" },
	{ "CellEndEvent", "output_file", "string null", 0, NULL, "where in the box all that it printed is, if asked to spill" },
	{ "CellEndEvent", "figures", "RunFigures?", 0, NULL, "what it used" },
	{ "CellEndEvent", "summary", "string null", 0, NULL, "the beginning of its code; null after a restart of the gate" },
	{ "CellEndEvent", "started_at", "string null", 0, NULL, "RFC 3339; null while it waits" },
	{ "CellEndEvent", "ended_at", "string null", 0, NULL, "RFC 3339" },
	{ "CellEndEvent", "truncated", "CellTruncated", 0, NULL, "whether something of its output is missing" },

	{ "FileEntry", "path", "string", 0, NULL, "as it was asked for; of a list below the directory that is listed. What is not UTF-8 is U+FFFD" },
	{ "FileEntry", "path_base64", "string", MEMBER_OPTIONAL, NULL, "its bytes, where they are not UTF-8" },
	{ "FileEntry", "type", "string", 0, "file directory symlink other", "what it is" },
	{ "FileEntry", "size", "integer", 0, NULL, "in bytes" },
	{ "FileEntry", "mode", "string", 0, NULL, "its permissions, octal: 0644" },
	{ "FileEntry", "mtime", "string", 0, NULL, "when it was changed last, RFC 3339" },
	{ "FileEntry", "target", "string null", 0, NULL, "of a symlink: what it says" },
	{ "BoxFileList", "entries", "FileEntry", MEMBER_LIST, NULL, "by the bytes of their names, a directory before what is in it" },
	{ "BoxFileList", "next", "string null", 0, NULL, "to be given as `after` for the next page" },
	{ "WatchEvent", "path", "string", 0, NULL, "below the directory that is watched; of ready and overflow empty" },
	{ "WatchEvent", "path_base64", "string", MEMBER_OPTIONAL, NULL, "its bytes, where they are not UTF-8" },
	{ "WatchEvent", "type", "string", 0, "file directory", "whether it is a directory" },
	{ "WatchEvent", "to", "string", MEMBER_OPTIONAL, NULL, "of move: where it is now" },
	{ "WatchEvent", "to_base64", "string", MEMBER_OPTIONAL, NULL, "its bytes, where they are not UTF-8" },
	{ "WatchEndEvent", "reason", "string", 0, NULL, "why the box has ended; unwatched: there is nothing to watch any more" },

	{ "DetailError", "detail", "string", 0, NULL, "what is wrong" },
	{ "ValidationProblem", "type", "string", 0, NULL, "what kind of problem" },
	{ "ValidationProblem", "loc", "string integer", MEMBER_LIST, NULL, "the way to what is wrong: \"body\", keys, indices" },
	{ "ValidationProblem", "msg", "string", 0, NULL, "what is wrong with it" },
	{ "ValidationProblem", "input", "", 0, NULL, "what was sent there" },
	{ "ValidationProblem", "ctx", "object", MEMBER_OPTIONAL, NULL, "the bound that it broke, and the like" },
	{ "ValidationError", "detail", "ValidationProblem", MEMBER_LIST, NULL, "at least one" },

	{ "ErrorBody", "code", "string", 0, NULL, "for programs" },
	{ "ErrorBody", "message", "string", 0, NULL, "for people" },
	{ "ErrorBody", "field", "string null", 0, NULL, "the part of the request that it is about" },
	{ "ErrorBody", "hint", "string null", 0, NULL, "what to do" },
	{ "ErrorBody", "request_id", "string", 0, NULL, "as in X-Request-Id and in the log" },
	{ "ErrorBody", "reason", "string", MEMBER_OPTIONAL, "ttl idle deleted oom restart crashed", "of gone: why the box ended" },
	{ "ErrorBody", "id", "string", MEMBER_OPTIONAL, NULL, "of name_taken: the box that has the name; of answer_gone: the cell or command" },
	{ "ErrorBody", "status", "string null", MEMBER_OPTIONAL, NULL, "of answer_gone: how it ended; null: nobody knows" },
	{ "Error", "error", "ErrorBody", 0, NULL, "what is wrong" },
};

/* Answers that are no JSON. */
static const struct {
	const char *answer, *media;
} plain[] = {
	{ "events", "text/event-stream" },
	{ "command events", "text/event-stream" },
	{ "cell events", "text/event-stream" },
	{ "watch events", "text/event-stream" },
	{ "bytes", "application/octet-stream" },
	{ "archive", "application/gzip" },
	{ "tar", "application/x-tar" },
	{ "text", "text/plain" },
};

static const struct {
	const char *answer, *event, *schema;
} events[] = {
	{ "events", "output", "OutputEvent" },
	{ "events", "result", "ResultEvent" },
	{ "events", "error", "ErrorEvent" },
	{ "events", "gap", "GapEvent" },
	{ "command events", "start", "StartEvent" },
	{ "command events", "stdout", "DataEvent" },
	{ "command events", "stderr", "DataEvent" },
	{ "command events", "gap", "RunGapEvent" },
	{ "command events", "end", "EndEvent" },
	{ "cell events", "start", "CellStartEvent" },
	{ "cell events", "stdout", "CellDataEvent" },
	{ "cell events", "stderr", "CellDataEvent" },
	{ "cell events", "display", "CellDisplayEvent" },
	{ "cell events", "update", "CellDisplayEvent" },
	{ "cell events", "clear", "CellClearEvent" },
	{ "cell events", "result", "CellResultEvent" },
	{ "cell events", "error", "CellErrorEvent" },
	{ "cell events", "input", "CellInputEvent" },
	{ "cell events", "comm", "CellCommEvent" },
	{ "cell events", "gap", "CellGapEvent" },
	{ "cell events", "end", "CellEndEvent" },
	{ "watch events", "ready", "WatchEvent" },
	{ "watch events", "create", "WatchEvent" },
	{ "watch events", "modify", "WatchEvent" },
	{ "watch events", "attrib", "WatchEvent" },
	{ "watch events", "delete", "WatchEvent" },
	{ "watch events", "move", "WatchEvent" },
	{ "watch events", "overflow", "WatchEvent" },
	{ "watch events", "end", "WatchEndEvent" },
};

#define BOX_FILES   "/v1/boxes/{box_id}/files"
#define BOX_FILE    BOX_FILES "/{path*}"
#define BOX_WATCH   "/v1/boxes/{box_id}/watch"
#define BOX_ARCHIVE "/v1/boxes/{box_id}/archive"

/* Answers beside the one of its row: other statuses, or the same with another body. */
static const struct {
	const char *route; /* "METHOD path" */
	int status;
	const char *answer, *doc;
} more[] = {
	{ "GET " BOX_FILE, 200, "FileEntry", NULL },
	{ "GET " BOX_FILE, 206, "bytes", "the part of it that Range asks for" },
	{ "GET " BOX_FILE, 304, NULL, "it is as If-None-Match has it" },
	{ "PUT " BOX_FILE, 200, "FileEntry", "it took the place of another" },
	{ "POST " BOX_FILE, 200, "FileEntry", "it took the place of another, was there, or was moved" },
	{ "POST " BOX_FILES, 200, "FileEntry", "it took the place of another" },
	{ "GET " BOX_ARCHIVE, 200, "tar", NULL },
};

/* Bodies that are neither JSON nor the form of an upload. */
static const struct {
	const char *route, *media, *schema; /* schema NULL: bytes */
} bodies[] = {
	{ "PUT " BOX_FILE, "application/octet-stream", NULL },
	{ "POST " BOX_FILE, "multipart/form-data", "FileForm" },
	{ "POST " BOX_FILES, "multipart/form-data", "FileForm" },
	{ "PUT " BOX_ARCHIVE, "application/gzip", NULL },
	{ "PUT " BOX_ARCHIVE, "application/x-tar", NULL },
};

/* What a route is like: decides in which ways it can refuse. */
enum trait {
	TRAIT_ANY = 1u << 0,
	TRAIT_GUARDED = 1u << 1, /* looks at token, Host and Origin */
	TRAIT_BODY = 1u << 2,
	TRAIT_NAMES = 1u << 3, /* path or body holds the id of something */
	TRAIT_RUNS = 1u << 4,
	TRAIT_EVENTS = 1u << 5,
	TRAIT_HEALTH = 1u << 6, /* says why in its own words */
	TRAIT_KEY = 1u << 7,    /* looks at Idempotency-Key */
	TRAIT_BOX = 1u << 8,    /* is about a box of the own API */
	TRAIT_STATE = 1u << 9,  /* the box must be ready for it */
	TRAIT_QUERY = 1u << 10, /* takes parameters of the query */
	TRAIT_INPUT = 1u << 11, /* feeds a program */
	TRAIT_TYPED = 1u << 12, /* takes a body of one type only */
	TRAIT_FILES = 1u << 13, /* is about files of a box */
	TRAIT_WRITE = 1u << 14, /* of these, one that looks at If-Match */
	TRAIT_RANGE = 1u << 15, /* and one that looks at Range */
};

static const struct refusal {
	int status;
	unsigned int traits; /* one of these */
	bool later;          /* says when to try again; nothing was run */
	const char *doc;
} refusals[] = {
	{ 400, TRAIT_BODY, false, "the body cannot be read at all" },
	{ 401, TRAIT_GUARDED, false, "a token is needed, or this one is not known" },
	{ 403, TRAIT_GUARDED, false, "a page of another origin asks, or a proxy without a token; or the user of a box may not do this" },
	{ 404, TRAIT_NAMES, false, "nothing of yours has this id" },
	{ 409, TRAIT_EVENTS | TRAIT_KEY | TRAIT_STATE, false, "the Idempotency-Key was used with another body, a name is taken, or something is in another state" },
	{ 410, TRAIT_EVENTS | TRAIT_BOX, false, "what it is about has ended, or is not held any more" },
	{ 412, TRAIT_WRITE, false, "the file is not as If-Match or If-None-Match has it" },
	{ 413, TRAIT_BODY, false, "the body, or the file in it, is too large" },
	{ 415, TRAIT_TYPED, false, "the body is of another type" },
	{ 416, TRAIT_RANGE, false, "the file has no byte of this range" },
	{ 421, TRAIT_GUARDED, false, "the Host is not one of this server's" },
	{ 422, TRAIT_BODY | TRAIT_QUERY | TRAIT_FILES, false, "a value is missing or cannot be taken" },
	{ 429, TRAIT_RUNS, true, "as many programs as may are running" },
	{ 429, TRAIT_INPUT, true, "the program does not read what it was given" },
	{ 429, TRAIT_FILES, true, "as many operations on files of the box as may be are under way" },
	{ 500, TRAIT_RUNS | TRAIT_FILES, false, "the box was lost, or broke its word" },
	{ 503, TRAIT_ANY, true, "there is no room, or a part of the server is not there" },
};

#define ROOT_DOC "/: the path begins at the root of the box, not at its working directory"
#define PATH_DOC "a directory; the working directory, or the root, unless said"

/* What stands in a path, or in a header of a route that answers with events. */
static const struct {
	const char *name, *in, *route, *type, *doc; /* route: of a query or some headers, "METHOD path" */
} params[] = {
	{ "file_id", "path", NULL, "string", "as the upload or the run that made the file said" },
	{ "session_id", "path", NULL, "string", "as its creation said" },
	{ "box_id", "path", NULL, "string", "as its creation said; or name:x for the one that is named x" },
	{ "command_id", "path", NULL, "string", "as its start said" },
	{ "cell_id", "path", NULL, "string", "as its start said" },
	{ "kernel", "path", NULL, "string", "its name" },
	{ "path", "path", NULL, "string", "of a file, below the working directory; slashes separate names, encoded ones too" },
	{ "Idempotency-Key", "header", NULL, "string", "the same request with the same key gets the first answer, or goes on with that run" },
	{ "Last-Event-ID", "header", NULL, "string", "the id of the last event that was seen: go on behind it" },
	{ "limit", "query", "GET /v1/boxes", "integer", "how many at most, up to 500" },
	{ "after", "query", "GET /v1/boxes", "string", "behind this one: `next` of the page before" },
	{ "state", "query", "GET /v1/boxes", "string", "only those in this state" },
	{ "metadata.key", "query", "GET /v1/boxes", "string", "only those that have this value under that key of their metadata" },
	{ "wait_ms", "query", "GET /v1/boxes/{box_id}/commands/{command_id}", "integer", "how long to wait for its end, up to 60000" },
	{ "grace_ms", "query", "DELETE /v1/boxes/{box_id}/commands/{command_id}", "integer", "time between SIGTERM and SIGKILL, 5000 unless said" },
	{ "wait_ms", "query", "GET /v1/boxes/{box_id}/cells/{cell_id}", "integer", "how long to wait for its end, up to 60000" },
	{ "outputs", "query", "GET /v1/boxes/{box_id}/cells/{cell_id}", "integer", "1: outputs as nbformat has them, too" },
	{ "outputs", "query", "POST /v1/boxes/{box_id}/cells", "integer", "1: outputs as nbformat has them, too" },
	{ "grace_ms", "query", "DELETE /v1/boxes/{box_id}/cells/{cell_id}", "integer", "time between the interrupt and the end of its kernel, 5000 unless said" },
	{ "after", "query", "GET /v1/boxes/{box_id}/cells/{cell_id}/events", "integer", "the number of the last event that was seen; Last-Event-ID wins" },
	{ "after", "query", "GET /v1/boxes/{box_id}/commands/{command_id}/events", "integer", "the number of the last event that was seen; Last-Event-ID wins" },
	{ "root", "query", "GET " BOX_FILE, "string", ROOT_DOC },
	{ "stat", "query", "GET " BOX_FILE, "integer", "1: what it is, in place of its bytes" },
	{ "Range", "header", "GET " BOX_FILE, "string", "one range of bytes" },
	{ "If-Range", "header", "GET " BOX_FILE, "string", "an ETag: the range holds only for this one" },
	{ "If-None-Match", "header", "GET " BOX_FILE, "string", "ETags of what the client has" },
	{ "root", "query", "PUT " BOX_FILE, "string", ROOT_DOC },
	{ "mode", "query", "PUT " BOX_FILE, "string", "permissions, octal; that of the file before, or 644, unless said" },
	{ "If-Match", "header", "PUT " BOX_FILE, "string", "the ETag of the file that is to be replaced" },
	{ "If-None-Match", "header", "PUT " BOX_FILE, "string", "*: nothing is to be replaced" },
	{ "root", "query", "POST " BOX_FILE, "string", ROOT_DOC },
	{ "op", "query", "POST " BOX_FILE, "string", "mkdir or move, which take no body" },
	{ "mode", "query", "POST " BOX_FILE, "string", "permissions, octal; for a new directory 755 unless said" },
	{ "to", "query", "POST " BOX_FILE, "string", "of move: where to, below the same root" },
	{ "overwrite", "query", "POST " BOX_FILE, "integer", "of move: 0: not onto something that is there" },
	{ "root", "query", "POST " BOX_FILES, "string", ROOT_DOC },
	{ "mode", "query", "POST " BOX_FILES, "string", "permissions, octal; that of the file before, or 644, unless said" },
	{ "root", "query", "DELETE " BOX_FILE, "string", ROOT_DOC },
	{ "recursive", "query", "DELETE " BOX_FILE, "integer", "1: what is in it, too" },
	{ "path", "query", "GET " BOX_FILES, "string", PATH_DOC },
	{ "root", "query", "GET " BOX_FILES, "string", ROOT_DOC },
	{ "recursive", "query", "GET " BOX_FILES, "integer", "1: what is in directories, too" },
	{ "limit", "query", "GET " BOX_FILES, "integer", "how many at most, up to 10000; 1000 unless said" },
	{ "after", "query", "GET " BOX_FILES, "string", "behind this one: `next` of the page before" },
	{ "path", "query", "GET " BOX_WATCH, "string", PATH_DOC },
	{ "root", "query", "GET " BOX_WATCH, "string", ROOT_DOC },
	{ "recursive", "query", "GET " BOX_WATCH, "integer", "1: what is in directories, too" },
	{ "path", "query", "GET " BOX_ARCHIVE, "string", PATH_DOC },
	{ "root", "query", "GET " BOX_ARCHIVE, "string", ROOT_DOC },
	{ "format", "query", "GET " BOX_ARCHIVE, "string", "tar.gz, unless said, or tar" },
	{ "path", "query", "PUT " BOX_ARCHIVE, "string", PATH_DOC },
	{ "root", "query", "PUT " BOX_ARCHIVE, "string", ROOT_DOC },
};

/* A body to begin with. */
static const struct {
	const char *schema, *name, *text;
} examples[] = {
	{ "ExecuteRequest", "code", "print(6 * 7)" },
	{ "BashRequest", "cmd", "python3 --version" },
	{ "CreateBoxRequest", "name", "mine" },
	{ "CreateCommandRequest", "shell", "python3 --version" },
	{ "CreateCellRequest", "code", "6 * 7" },
	{ "CommandInput", "text", "yes\n" },
	{ "CellInput", "text", "yes" },
	{ "KernelRequest", "kernel", "main" },
	{ "CommandSignal", "signal", "SIGINT" },
};
/* clang-format on */

/* --- schemas --------------------------------------------------------------------------------- */

static void write_ref(struct json *j, const char *schema)
{
	char ref[NAME_MAX_LEN + 32];

	(void)snprintf(ref, sizeof(ref), "#/components/schemas/%s", schema);
	json_str(j, "$ref", ref);
}

/* Each word of a text. */
static void write_words(struct json *j, const char *words)
{
	while (*words != '\0') {
		size_t n = strcspn(words, " ");

		json_bytes(j, NULL, words, n);
		words += n;
		words += *words == ' ';
	}
}

static void write_type(struct json *j, const char *type)
{
	size_t n = strlen(type);

	if (n == 0)
		return;                                            /* anything */
	if (isupper((unsigned char)*type) && type[n - 1] == '?') { /* or null */
		char name[NAME_MAX_LEN];

		(void)snprintf(name, sizeof(name), "%.*s", (int)(n - 1), type);
		json_open(j, "anyOf", '[');
		json_open(j, NULL, '{');
		write_ref(j, name);
		json_close(j, '}');
		json_open(j, NULL, '{');
		json_str(j, "type", "null");
		json_close(j, '}');
		json_close(j, ']');
	} else if (isupper((unsigned char)*type)) {
		write_ref(j, type);
	} else if (strchr(type, ' ') == NULL) {
		json_str(j, "type", type);
	} else {
		json_open(j, "type", '[');
		write_words(j, type);
		json_close(j, ']');
	}
}

static void write_member(struct json *j, const struct member *m)
{
	json_open(j, m->name, '{');
	if ((m->flags & MEMBER_LIST) != 0) {
		json_str(j, "type", "array");
		json_open(j, "items", '{');
		write_type(j, m->type);
		json_close(j, '}');
	} else {
		write_type(j, m->type);
	}
	if (m->words != NULL) {
		json_open(j, "enum", '[');
		write_words(j, m->words);
		json_close(j, ']');
	}
	json_str(j, "description", m->doc);
	json_close(j, '}');
}

/* The schema whose rows begin here; returns how many they are. */
static size_t write_schema(struct json *j, const struct member *first, size_t max)
{
	size_t n = 0;

	while (n < max && strcmp(first[n].schema, first->schema) == 0)
		n++;
	json_open(j, first->schema, '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	for (size_t i = 0; i < n; i++)
		write_member(j, &first[i]);
	json_close(j, '}');
	json_open(j, "required", '[');
	for (size_t i = 0; i < n; i++)
		if ((first[i].flags & MEMBER_OPTIONAL) == 0)
			json_str(j, NULL, first[i].name);
	json_close(j, ']');
	json_close(j, '}');
	return n;
}

/* The form of an upload; in a box it may say where to. */
static void write_form(struct json *j, const char *name, bool in_box)
{
	json_open(j, name, '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	json_open(j, "file", '{');
	json_str(j, "type", "string");
	json_str(j, "format", "binary");
	json_str(j, "contentMediaType", "application/octet-stream");
	json_str(j, "description", "the file, with its name");
	json_close(j, '}');
	if (in_box) {
		json_open(j, "path", '{');
		json_str(j, "type", "string");
		json_str(j, "description",
			 "before the file, where the path of the call does not say it: "
			 "where it is to be; its name unless said");
		json_close(j, '}');
	}
	json_close(j, '}');
	json_open(j, "required", '[');
	json_str(j, NULL, "file");
	json_close(j, ']');
	json_close(j, '}');
}

static bool is_told(const struct route *r)
{
	return (r->flags & ROUTE_HIDDEN) == 0;
}

/* Whether a route before this one has the same body. */
static bool is_known(unsigned int at)
{
	for (unsigned int i = 0; i < at; i++)
		if (is_told(&routes[i]) && routes[i].in == routes[at].in)
			return true;
	return false;
}

static void write_schemas(struct json *j)
{
	json_open(j, "schemas", '{');
	for (unsigned int i = 0; i < nroutes; i++)
		if (is_told(&routes[i]) && routes[i].in != NULL && !is_known(i))
			fields_schema(routes[i].in, j, routes[i].in->name);
	write_form(j, "UploadRequest", /* in_box= */ false);
	write_form(j, "FileForm", /* in_box= */ true);
	for (size_t i = 0; i < ARRAY_LEN(members);)
		i += write_schema(j, &members[i], ARRAY_LEN(members) - i);
	json_close(j, '}');
}

/* --- operations ------------------------------------------------------------------------------ */

static bool has_id(const struct fields *table)
{
	for (size_t i = 0; table != NULL && i < table->n; i++)
		if (strcmp(table->rows[i].name, "file_id") == 0 || has_id(table->rows[i].sub))
			return true;
	return false;
}

static bool answers(const struct route *r, const char *what)
{
	return r->answer != NULL && strcmp(r->answer, what) == 0;
}

/* The events of a run's log. */
static bool answers_log(const struct route *r)
{
	return answers(r, "command events") || answers(r, "cell events");
}

/* The row about a part of a path. */
static unsigned int find_param(const char *name, size_t n)
{
	unsigned int i = 0;

	while (i < ARRAY_LEN(params) &&
	       !(strcmp(params[i].in, "path") == 0 && strlen(params[i].name) == n &&
		 memcmp(params[i].name, name, n) == 0))
		i++;
	return i;
}

/* Whether "METHOD path" is this route. */
static bool is_route(const struct route *r, const char *text)
{
	size_t n = strlen(r->method);

	return strncmp(text, r->method, n) == 0 && text[n] == ' ' &&
	       strcmp(text + n + 1, r->path) == 0;
}

/* Whether a header or a part of the query means something to a route. */
static bool has_param(const struct route *r, unsigned int i)
{
	bool key = strcmp(params[i].name, "Idempotency-Key") == 0;

	if (params[i].route != NULL)
		return is_route(r, params[i].route);
	if (strcmp(params[i].in, "header") != 0)
		return false;
	if (answers(r, "events"))
		return true;
	return key ? (r->flags & ROUTE_IDEMPOTENT) != 0
		   : answers_log(r) || (r->flags & ROUTE_RUN) != 0;
}

static bool has_params(const struct route *r)
{
	for (unsigned int i = 0; i < ARRAY_LEN(params); i++)
		if (has_param(r, i))
			return true;
	return strchr(r->path, '{') != NULL;
}

static unsigned int traits_of(const struct route *r)
{
	unsigned int t = TRAIT_ANY;

	if ((r->flags & ROUTE_OPEN) == 0)
		t |= TRAIT_GUARDED;
	if (r->body != BODY_NONE)
		t |= TRAIT_BODY;
	if (strchr(r->path, '{') != NULL || has_id(r->in))
		t |= TRAIT_NAMES;
	if (r->in != NULL && strcmp(r->method, "POST") == 0 && r->status != 204)
		t |= TRAIT_RUNS;
	if (answers(r, "events"))
		t |= TRAIT_EVENTS;
	if (answers(r, "Health"))
		t |= TRAIT_HEALTH;
	if ((r->flags & ROUTE_IDEMPOTENT) != 0)
		t |= TRAIT_KEY;
	if (strstr(r->path, "{box_id}") != NULL)
		t |= TRAIT_BOX;
	if ((t & TRAIT_BOX) != 0 && !(answers(r, "Box") && strcmp(r->method, "GET") == 0))
		t |= TRAIT_STATE;
	if (strstr(r->path, "/stdin") != NULL)
		t |= TRAIT_INPUT;
	if (r->in != NULL || (r->body == BODY_STREAM && strcmp(r->method, "POST") == 0))
		t |= TRAIT_TYPED;
	if (strncmp(r->path, BOX_FILES, strlen(BOX_FILES)) == 0 ||
	    strcmp(r->path, BOX_WATCH) == 0 || strcmp(r->path, BOX_ARCHIVE) == 0)
		t |= TRAIT_FILES;
	if ((t & TRAIT_FILES) != 0 && r->body == BODY_STREAM && strcmp(r->path, BOX_ARCHIVE) != 0)
		t |= TRAIT_WRITE;
	if (is_route(r, "GET " BOX_FILE))
		t |= TRAIT_RANGE;
	for (unsigned int i = 0; i < ARRAY_LEN(params); i++)
		if (strcmp(params[i].in, "query") == 0 && has_param(r, i))
			t |= TRAIT_QUERY;
	return t;
}

/* "post_v1_sessions_session_id_bash" */
static void make_id(const struct route *r, char id[NAME_MAX_LEN])
{
	size_t n = 0;

	for (const char *p = r->method; *p != '\0' && n < NAME_MAX_LEN - 1; p++)
		id[n++] = (char)tolower((unsigned char)*p);
	for (const char *p = r->path; *p != '\0' && n < NAME_MAX_LEN - 1; p++)
		if (strchr("{}*", *p) == NULL)
			id[n++] = isalnum((unsigned char)*p) ? *p : '_';
	id[n] = '\0';
}

/* The group of a route: "files" of /v1/files/{file_id}. */
static struct http_slice tag_of(const struct route *r)
{
	static const char server[] = "server";

	if (strncmp(r->path, "/v1/", 4) != 0)
		return (struct http_slice){ server, sizeof(server) - 1 };
	return (struct http_slice){ r->path + 4, strcspn(r->path + 4, "/") };
}

static void write_param(struct json *j, const char *in, const char *name, size_t n, unsigned int i)
{
	json_open(j, NULL, '{');
	json_bytes(j, "name", name, n);
	json_str(j, "in", in);
	json_bool(j, "required", strcmp(in, "path") == 0);
	if (i < ARRAY_LEN(params))
		json_str(j, "description", params[i].doc);
	json_open(j, "schema", '{');
	json_str(j, "type", i < ARRAY_LEN(params) ? params[i].type : "string");
	json_close(j, '}');
	json_close(j, '}');
}

static void write_params(struct json *j, const struct route *r)
{
	json_open(j, "parameters", '[');
	for (const char *p = strchr(r->path, '{'); p != NULL; p = strchr(p + 1, '{')) {
		size_t n = strcspn(p + 1, "*}");

		write_param(j, "path", p + 1, n, find_param(p + 1, n));
	}
	for (unsigned int i = 0; i < ARRAY_LEN(params); i++)
		if (has_param(r, i))
			write_param(j, params[i].in, params[i].name, strlen(params[i].name), i);
	json_close(j, ']');
}

static void write_example(struct json *j, const char *schema)
{
	for (unsigned int i = 0; i < ARRAY_LEN(examples); i++)
		if (strcmp(examples[i].schema, schema) == 0) {
			json_open(j, "example", '{');
			json_str(j, examples[i].name, examples[i].text);
			json_close(j, '}');
		}
}

/* A body of one type; schema NULL: bytes. */
static void write_body_as(struct json *j, const char *media, const char *schema)
{
	json_open(j, media, '{');
	if (schema != NULL) {
		json_open(j, "schema", '{');
		write_ref(j, schema);
		json_close(j, '}');
		write_example(j, schema);
	}
	json_close(j, '}');
}

static bool is_body_required(const struct route *r)
{
	bool required = r->shape != SHAPE_OWN || is_route(r, "POST " BOX_FILES);

	for (size_t i = 0; r->in != NULL && i < r->in->n; i++)
		required |= (r->in->rows[i].flags & (FIELD_REQUIRED | FIELD_ONE_OF)) != 0;
	return required;
}

static void write_body(struct json *j, const struct route *r)
{
	bool other = false;

	json_open(j, "requestBody", '{');
	json_bool(j, "required", is_body_required(r));
	json_open(j, "content", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(bodies); i++)
		if (is_route(r, bodies[i].route)) {
			write_body_as(j, bodies[i].media, bodies[i].schema);
			other = true;
		}
	if (r->in != NULL)
		write_body_as(j, "application/json", r->in->name);
	else if (!other)
		write_body_as(j, "multipart/form-data", "UploadRequest");
	json_close(j, '}');
	json_close(j, '}');
}

/* What the data of each event is; nothing in OpenAPI says that. */
static void write_events(struct json *j, const char *answer)
{
	json_open(j, "x-events", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(events); i++) {
		if (strcmp(events[i].answer, answer) != 0)
			continue;
		json_open(j, events[i].event, '{');
		write_ref(j, events[i].schema);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void write_media(struct json *j, const char *answer)
{
	const char *media = "application/json";
	bool json = true;

	for (unsigned int i = 0; i < ARRAY_LEN(plain); i++)
		if (strcmp(plain[i].answer, answer) == 0) {
			media = plain[i].media;
			json = false;
		}
	json_open(j, media, '{');
	if (json || strncmp(media, "text/", 5) == 0) { /* bytes have no schema */
		json_open(j, "schema", '{');
		write_type(j, json ? answer : "string");
		json_close(j, '}');
	}
	if (strstr(answer, "events") != NULL)
		write_events(j, answer);
	json_close(j, '}');
}

static void write_content(struct json *j, const char *answer)
{
	json_open(j, "content", '{');
	write_media(j, answer);
	json_close(j, '}');
}

static void open_response(struct json *j, int status, const char *doc)
{
	char key[12];

	(void)snprintf(key, sizeof(key), "%d", status);
	json_open(j, key, '{');
	json_str(j, "description", doc);
}

/* Of 422: one text, or a list of problems. */
static void write_either(struct json *j)
{
	json_open(j, "content", '{');
	json_open(j, "application/json", '{');
	json_open(j, "schema", '{');
	json_open(j, "anyOf", '[');
	json_open(j, NULL, '{');
	write_ref(j, "ValidationError");
	json_close(j, '}');
	json_open(j, NULL, '{');
	write_ref(j, "DetailError");
	json_close(j, '}');
	json_close(j, ']');
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

static void write_later(struct json *j)
{
	json_open(j, "headers", '{');
	json_open(j, "Retry-After", '{');
	json_str(j, "description", "seconds after which to try again");
	json_open(j, "schema", '{');
	json_str(j, "type", "integer");
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

static void write_refusal(struct json *j, const struct route *r, const struct refusal *f)
{
	bool health = f->status == 503 && (traits_of(r) & TRAIT_HEALTH) != 0;

	open_response(j, f->status, health ? "boxes cannot be made" : f->doc);
	if (f->later && !health)
		write_later(j);
	if (health)
		write_content(j, "Health");
	else if (r->shape != SHAPE_DETAIL)
		write_content(j, "Error");
	else if (f->status == 422)
		write_either(j);
	else
		write_content(j, "DetailError");
	json_close(j, '}');
}

/* All bodies of the status that a route is about. */
static void write_contents(struct json *j, const struct route *r)
{
	json_open(j, "content", '{');
	write_media(j, r->answer);
	if ((r->flags & ROUTE_RUN) != 0)
		write_media(j, answers(r, "Cell") ? "cell events" : "command events");
	for (unsigned int i = 0; i < ARRAY_LEN(more); i++)
		if (more[i].status == r->status && is_route(r, more[i].route))
			write_media(j, more[i].answer);
	json_close(j, '}');
}

static void write_more(struct json *j, const struct route *r)
{
	for (unsigned int i = 0; i < ARRAY_LEN(more); i++) {
		if (more[i].status == r->status || !is_route(r, more[i].route))
			continue;
		open_response(j, more[i].status, more[i].doc);
		if (more[i].answer != NULL)
			write_content(j, more[i].answer);
		json_close(j, '}');
	}
}

static void write_responses(struct json *j, const struct route *r)
{
	json_open(j, "responses", '{');
	open_response(j, r->status, r->status == 204 ? "done" : r->doc);
	if (r->answer != NULL)
		write_contents(j, r);
	json_close(j, '}');
	write_more(j, r);
	if ((r->flags & ROUTE_RUN) != 0) {
		open_response(j, 202, "it runs; with `detach`");
		write_content(j, r->answer);
		json_close(j, '}');
	}
	if (answers_log(r)) {
		open_response(j, 204, "there are no further events");
		json_close(j, '}');
	}
	for (unsigned int i = 0; i < ARRAY_LEN(refusals); i++)
		if ((refusals[i].traits & traits_of(r)) != 0)
			write_refusal(j, r, &refusals[i]);
	json_close(j, '}');
}

static void write_operation(struct json *j, const struct route *r)
{
	struct http_slice tag = tag_of(r);
	char method[16] = "", id[NAME_MAX_LEN];

	for (size_t i = 0; i < sizeof(method) - 1 && r->method[i] != '\0'; i++)
		method[i] = (char)tolower((unsigned char)r->method[i]);
	make_id(r, id);
	json_open(j, method, '{');
	json_str(j, "operationId", id);
	json_str(j, "summary", r->doc);
	json_open(j, "tags", '[');
	json_bytes(j, NULL, tag.p, tag.n);
	json_close(j, ']');
	if ((r->flags & ROUTE_OPEN) != 0) {
		json_open(j, "security", '[');
		json_close(j, ']');
	}
	if (has_params(r))
		write_params(j, r);
	if (r->body != BODY_NONE)
		write_body(j, r);
	write_responses(j, r);
	json_close(j, '}');
}

/* --- the document ---------------------------------------------------------------------------- */

/* Whether a route before this one has the same path. */
static bool is_begun(unsigned int at)
{
	for (unsigned int i = 0; i < at; i++)
		if (is_told(&routes[i]) && strcmp(routes[i].path, routes[at].path) == 0)
			return true;
	return false;
}

/* {path*} is a parameter like others, here. */
static void open_path(struct json *j, const char *path)
{
	char text[NAME_MAX_LEN];
	size_t n = 0;

	for (; *path != '\0' && n < sizeof(text) - 1; path++)
		if (*path != '*')
			text[n++] = *path;
	text[n] = '\0';
	json_open(j, text, '{');
}

static void write_paths(struct json *j)
{
	json_open(j, "paths", '{');
	for (unsigned int i = 0; i < nroutes; i++) {
		if (!is_told(&routes[i]) || is_begun(i))
			continue;
		open_path(j, routes[i].path);
		for (unsigned int k = i; k < nroutes; k++)
			if (is_told(&routes[k]) && strcmp(routes[k].path, routes[i].path) == 0)
				write_operation(j, &routes[k]);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void write_info(struct json *j)
{
	json_open(j, "info", '{');
	json_str(j, "title", "Glovebox");
	json_str(j, "version", GLOVEBOX_VERSION);
	json_str(j, "description", "runs untrusted code, each program in a sealed box of its own");
	json_open(j, "license", '{');
	json_str(j, "name", "Apache-2.0");
	json_str(j, "identifier", "Apache-2.0");
	json_close(j, '}');
	json_close(j, '}');
}

static void write_scheme(struct json *j, const char *name, const char *scheme, const char *doc)
{
	json_open(j, name, '{');
	json_str(j, "type", scheme != NULL ? "http" : "apiKey");
	if (scheme != NULL) {
		json_str(j, "scheme", scheme);
	} else {
		json_str(j, "in", "header");
		json_str(j, "name", "X-API-KEY");
	}
	json_str(j, "description", doc);
	json_close(j, '}');
}

/* None is needed where no token is configured, so none is one of the ways. */
static void write_security(struct json *j)
{
	static const char *const ways[] = { NULL, "bearer", "basic", "key" };

	json_open(j, "security", '[');
	for (unsigned int i = 0; i < ARRAY_LEN(ways); i++) {
		json_open(j, NULL, '{');
		if (ways[i] != NULL) {
			json_open(j, ways[i], '[');
			json_close(j, ']');
		}
		json_close(j, '}');
	}
	json_close(j, ']');
}

void openapi_write(struct json *j)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_str(j, "openapi", "3.1.0");
	write_info(j);
	write_security(j);
	write_paths(j);
	json_open(j, "components", '{');
	write_schemas(j);
	json_open(j, "securitySchemes", '{');
	write_scheme(j, "bearer", "bearer", "the token");
	write_scheme(j, "basic", "basic", "the token as password, with any name");
	write_scheme(j, "key", NULL, "the token");
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}
