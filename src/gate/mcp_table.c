// SPDX-License-Identifier: Apache-2.0
/* What this server has for clients of MCP. */
#include "gate/mcp_work.h"

#include "base/own.h"
#include "config.gen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define INSTRUCTIONS                                                                              \
	"Glovebox runs Python and shell in a sealed box: no network unless it was allowed, no "   \
	"file of "                                                                                \
	"the host. execute_ipython_cell keeps variables from call to call; files written by one " \
	"tool "                                                                                   \
	"are there for the others. Where tools name a box, pass on what create_box returned, or " \
	"what "                                                                                   \
	"a result told you; without, this connection has a box of its own."

#define COMMAND_OUTPUT                                                                             \
	"{\"type\":\"object\",\"properties\":{\"stdout\":{\"type\":\"string\"},"                   \
	"\"stderr\":{\"type\":\"string\"},\"exit_code\":{\"type\":[\"integer\",\"null\"]},"        \
	"\"signal\":{\"type\":[\"string\",\"integer\",\"null\"]},\"status\":{\"type\":\"string\"}" \
	","                                                                                        \
	"\"box\":{\"type\":\"string\"}},\"required\":[\"stdout\",\"stderr\",\"status\",\"box\"]}"
#define BOX_OUTPUT                                                             \
	"{\"type\":\"object\",\"properties\":{\"box\":{\"type\":\"string\"}}," \
	"\"required\":[\"box\"]}"
#define FORK_OUTPUT                                                                               \
	"{\"type\":\"object\",\"properties\":{\"boxes\":{\"type\":\"array\",\"items\":{\"type\":" \
	"\"string\"}},"                                                                           \
	"\"lost\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":[\"boxes\"," \
	"\"lost\"]}"
#define LIST_OUTPUT                                                                        \
	"{\"type\":\"object\",\"properties\":{\"entries\":{\"type\":\"array\",\"items\":{" \
	"\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},"              \
	"\"type\":{\"type\":\"string\"},\"size\":{\"type\":\"integer\"}},"                 \
	"\"required\":[\"path\",\"type\",\"size\"]}},\"more\":{\"type\":\"boolean\"},"     \
	"\"box\":{\"type\":\"string\"}},\"required\":[\"entries\",\"more\",\"box\"]}"

#define REGISTER_OUTPUT                                                                           \
	"{\"type\":\"object\",\"properties\":{\"tools\":{\"type\":\"array\",\"items\":{\"type\":" \
	"\"string\"}},"                                                                           \
	"\"package\":{\"type\":\"string\"},\"box\":{\"type\":\"string\"}},\"required\":["         \
	"\"tools\",\"package\",\"box\"]}"

/* Nothing of the world outside of a box is changed by any of them. */
#define READS  "\"readOnlyHint\":true,\"openWorldHint\":false"
#define WRITES "\"readOnlyHint\":false,\"destructiveHint\":true,\"openWorldHint\":false"

/* clang-format off */
static const struct {
	const char *name, *title, *doc;
	const struct fields *in;
	const char *output, *annotations;
	void (*run)(struct mcp_call *c);
} rows[] = {
	{ "execute_ipython_cell", "Run Python", "Run a cell in a stateful IPython session: variables, imports and files stay for the next one. Returns what it printed and displayed, with images; an exception is an error with its traceback.", &mcp_cell_fields, NULL, WRITES, mcp_cell },
	{ "run_command", "Run a shell command", "Run a text by bash in the box, and wait for its end. Returns standard output, standard error and the exit code.", &mcp_command_fields, COMMAND_OUTPUT, WRITES, mcp_command },
	{ "list_files", "List files", "What is in a directory of the box.", &mcp_list_fields, LIST_OUTPUT, READS, mcp_list_files },
	{ "read_file", "Read a file", "A file of the box: as text, as an image, or as bytes.", &mcp_read_fields, NULL, READS, mcp_read_file },
	{ "write_file", "Write a file", "Make a file of the box, or replace it.", &mcp_write_fields, NULL, WRITES, mcp_write_file },
	{ "install_package", "Install a package", "Install a Python package in the box, by pip. The box must be allowed to reach a package index.", &mcp_install_fields, NULL, WRITES, mcp_install },
	{ "register_mcp_server", "Register an MCP server", "Make the tools of an MCP server available to code in the box, as typed functions: `from mcptools.NAME.tool import Params, run`. The server runs inside the box. Returns the names of the modules.", NULL, REGISTER_OUTPUT, WRITES, mcp_register },
	{ "reset", "Start anew", "Start the IPython session anew: variables are gone, files stay.", &mcp_reset_fields, NULL, WRITES, mcp_reset },
	{ "create_box", "Make a box", "Make a further box, with variables and files of its own. Returns its handle, for 'box' of other tools.", &mcp_create_fields, BOX_OUTPUT, WRITES, mcp_create_box },
	{ "fork_box", "Fork a box", "Make further boxes with the same variables and the same files as this one: to go on from here in several ways. Returns their handles, for 'box' of other tools.", &mcp_fork_fields, FORK_OUTPUT, WRITES, mcp_fork_box },
	{ "delete_box", "End a box", "End a box, and all that is in it.", &mcp_delete_fields, NULL, WRITES, mcp_delete_box },
};

static const struct mcp_template templates[] = {
	{ "file", "glovebox://{box}/{+path}", "a file of a box: its path, in the working directory; with a slash before it, from the root", NULL },
};
/* clang-format on */

static struct mcp_tool tools[ARRAY_LEN(rows)];

/* Its box goes with it. */
static void on_session_over(struct mcp_session *se)
{
	struct abox *a = mcp_session_box(se->s->arg, se);

	if (a != NULL)
		abox_end(a, REASON_DELETED);
}

/* The gate before this one had it, if a box says so. */
static bool is_session_known(struct mcp_server *s, const void *owner, const char *id)
{
	return mcp_box_of_session(s->arg, owner, id) != NULL;
}

static struct mcp_table table = {
	.name = "glovebox",
	.title = "Glovebox",
	.version = GLOVEBOX_VERSION,
	.instructions = INSTRUCTIONS,
	.tools = tools,
	.ntools = ARRAY_LEN(tools),
	.templates = templates,
	.ntemplates = ARRAY_LEN(templates),
	.resources = mcp_resources,
	.read = mcp_resource,
	.complete = mcp_complete,
	.subscribe = mcp_watch_add,
	.unsubscribe = mcp_watch_remove,
	.subscribed = mcp_watch_state,
	.session_over = on_session_over,
	.session_known = is_session_known,
};

/* The table of fields as a JSON Schema, for as long as we live. */
static char *schema_of(const struct fields *in)
{
	struct json j;

	json_init(&j);
	fields_schema(in, &j, NULL);
	json_raw(&j, "", 1);
	if (!j.failed)
		return j.buf;
	json_done(&j);
	return NULL;
}

int mcp_start(struct gate *g, struct err *e)
{
	uint8_t key[MCP_KEY];

	if (getrandom(key, sizeof(key), 0) != sizeof(key))
		return err_set(e, ERR_SYS, errno, "get random numbers");
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		tools[i] = (struct mcp_tool){ .name = rows[i].name,
					      .title = rows[i].title,
					      .doc = rows[i].doc,
					      .input = rows[i].in != NULL ? schema_of(rows[i].in)
									  : mcp_register_schema,
					      .output = rows[i].output,
					      .annotations = rows[i].annotations,
					      .run = rows[i].run };
		if (tools[i].input == NULL)
			return err_set(e, ERR_SYS, ENOMEM, "describe the tools of MCP");
	}
	mcp_init(&g->mcp, &table, g, key);
	return 0;
}
