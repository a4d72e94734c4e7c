// SPDX-License-Identifier: Apache-2.0
/*
 * register_mcp_server: typed clients for the tools of an MCP server, as a package of the caller's box, mcptools.NAME. The server is asked for its tools inside the box, and runs
 * there when it is called: it can reach what the box can, and nothing else.
 */
#include "gate/mcp_work.h"
#include "gate/tool_calls.h"
#include "mcp/gen.h"

#include "base/own.h"
#include "gate/ipybox_run.gen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct register_in {
	struct field_str name, where, box;
};

/* clang-format off */
static const struct field rows[] = {
	{ "server_name", FIELD_STRING, FIELD_REQUIRED, 1, 64, 0, offsetof(struct register_in, name), .doc = "what it is called: code in the box then does `from mcptools.NAME.tool import Params, run`" },
	{ "where", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct register_in, where), .doc = "where it runs", .text = "box", .words = "box apart" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct register_in, box), .doc = MCP_BOX_DOC },
};
static const struct fields in_fields = { "register_mcp_server", rows, ARRAY_LEN(rows), sizeof(struct register_in), 0 };
/* clang-format on */

/* It is written by hand, because of server_params: any object. */
const char mcp_register_schema[] =
	"{\"type\":\"object\",\"title\":\"register_mcp_server\",\"properties\":{"
	"\"server_name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":64,\"description\":"
	"\"what it is called: code in the box then does `from mcptools.NAME.tool import Params, "
	"run`\"},"
	"\"server_params\":{\"type\":\"object\",\"description\":\"'command' and 'args', 'env' of a "
	"program that is started in the box; or 'url' and 'type' (streamable_http, sse), "
	"'headers'. "
	"${NAME} is a variable of the "
	"box\",\"properties\":{\"command\":{\"type\":\"string\"},\"args\":{\"type\":\"array\","
	"\"items\":{\"type\":\"string\"}},"
	"\"env\":{\"type\":\"object\"},\"url\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"}"
	",\"headers\":{\"type\":\"object\"}}},"
	"\"where\":{\"type\":\"string\",\"enum\":[\"box\",\"apart\"],\"default\":\"box\","
	"\"description\":\"box: it runs in the box, with its network and files; apart: in a box of "
	"its "
	"own, which needs no server_params for one that the operator has configured\"},"
	"\"box\":{\"type\":[\"string\",\"null\"],\"default\":null,\"description\":\"which box: "
	"what create_box returned, or name:x; without, the one of this connection\"}},"
	"\"required\":[\"server_name\"],\"additionalProperties\":false}";

/* Writes what comes on standard input below mcptools/; the package of the server is made anew. */
static const char writer[] =
	"import json, os, shutil, sys\n"
	"shutil.rmtree(os.path.join('mcptools', sys.argv[1]), ignore_errors=True)\n"
	"for name, text in json.load(sys.stdin).items():\n"
	"  path = os.path.join('mcptools', name)\n"
	"  os.makedirs(os.path.dirname(path), exist_ok=True)\n"
	"  with open(path, 'w', encoding='utf-8') as f: f.write(text)\n";

/* What is known of it on the way; w->extra. */
struct registering {
	char module[GEN_NAME];
	char names[]; /* the answer, as JSON */
};

/* --- asking a program in the box ------------------------------------------------------------------ */

static void ask(struct mcp_work *w, const char *source, size_t nsource, const char *const *words,
		const char *input, size_t ninput)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "argv", '[');
	json_str(&j, NULL, "/usr/bin/python3");
	json_str(&j, NULL, "-I");
	json_str(&j, NULL, "-c");
	json_bytes(&j, NULL, source, nsource);
	for (; *words != NULL; words++)
		json_str(&j, NULL, *words);
	json_close(&j, ']');
	json_bytes(&j, "stdin", input, ninput);
	json_i64(&j, "timeout_ms", 60000);
	json_str(&j, "on_disconnect", "interrupt");
	json_close(&j, '}');
	mcp_work_ask(w, command_create, &j);
}

/* A string of an answer as a text of its own, or NULL. */
static char *text_of(struct json_text s)
{
	char *text = s.n > 0 ? malloc(s.n + 1) : NULL;

	if (text == NULL || json_text_str(s, text, s.n + 1))
		return text;
	free(text);
	return NULL;
}

/* What it printed if it ended well, to be freed; else NULL, and answered. */
static char *take_output(struct mcp_work *w, struct run *run)
{
	struct json answer;
	struct json_text a = { NULL, 0 };
	char *said = NULL, *complaint = NULL;
	int64_t code = -1;

	json_init(&answer);
	run_answer(run, &answer, RUN_OUTPUT);
	if (!answer.failed && json_text_read(answer.buf, answer.len, &a) == 0 &&
	    json_text_i64(mcp_get(a, "exit_code"), &code) && code == 0)
		said = text_of(mcp_get(a, "stdout"));
	if (run->ops->told != NULL)
		run->ops->told(run->arg);
	run_leave(&w->rd);
	if (said == NULL) {
		complaint = text_of(mcp_get(a, "stderr"));
		mcp_work_fail(w, "the MCP server cannot be used: %s",
			      complaint != NULL && complaint[0] != '\0' ? complaint
									: "it does not answer");
	}
	free(complaint);
	json_done(&answer);
	return said;
}

/* --- texts ------------------------------------------------------------------------------------------ */

static void put_file(struct json *files, const char *folder, const char *name, const char *p,
		     size_t n)
{
	char path[2 * GEN_NAME + 16];

	(void)snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] != '\0' ? "/" : "", name);
	json_bytes(files, path, p != NULL ? p : "", n);
}

static void put_shared(struct json *files)
{
	put_file(files, "", "__init__.py", (const char *)init___py, sizeof(init___py));
	put_file(files, "", "_gateway.py", (const char *)gateway_py, sizeof(gateway_py));
	put_file(files, "", "_run.py", (const char *)run_py, sizeof(run_py));
	put_file(files, "", "_runtime.py", (const char *)runtime_py, sizeof(runtime_py));
}

/* What the server is, for _runtime.py. */
static void put_server(const struct mcp_work *w, struct json *files, const char *module)
{
	const struct register_in *in = w->in;
	char name[GEN_NAME + 8];
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "name", in->name.p, in->name.n);
	jsonr_write(&w->c->doc, mcp_arg(w->c, "server_params", JSONR_OBJECT), &j, "params");
	json_close(&j, '}');
	(void)snprintf(name, sizeof(name), "%s.json", module);
	put_file(files, "_servers", name, j.buf, j.len);
	files->failed = files->failed || j.failed;
	json_done(&j);
}

/* 0 or -errno. */
static int put_module(const struct mcp_work *w, struct json *files, const char *module,
		      const struct gen_named *tool)
{
	const struct register_in *in = w->in;
	char name[GEN_NAME + 8];
	struct json text;
	int rc;

	json_init(&text);
	rc = gen_module(GEN_MCPTOOLS, in->name.p, tool->module, tool->tool, &text);
	(void)snprintf(name, sizeof(name), "%s.py", tool->module);
	if (rc == 0)
		put_file(files, module, name, text.buf, text.len);
	files->failed = files->failed || text.failed;
	json_done(&text);
	return rc;
}

static int put_package(struct json *files, const char *module)
{
	const struct json_text none = { NULL, 0 };
	struct json text;
	int rc;

	json_init(&text);
	rc = gen_package(none, &text);
	if (rc == 0)
		put_file(files, module, "__init__.py", text.buf, text.len);
	json_done(&text);
	return rc;
}

/* All files, and the names of the modules. 0 or -errno. */
static int put_all(const struct mcp_work *w, const char *said, const char *module,
		   struct json *files, struct json *names)
{
	struct gen_names found = { 0 };
	struct json_text all;
	int rc = json_text_read(said, strlen(said), &all);

	if (rc == 0)
		rc = gen_names(mcp_get(all, "tools"), &found);
	if (rc < 0)
		return rc;
	json_open(files, NULL, '{');
	json_open(names, NULL, '[');
	put_shared(files);
	put_server(w, files, module);
	rc = put_package(files, module);
	for (size_t i = 0; i < found.n && rc == 0; i++) {
		rc = put_module(w, files, module, &found.v[i]);
		json_str(names, NULL, found.v[i].module);
	}
	json_close(files, '}');
	json_close(names, ']');
	json_raw(names, "", 1);
	gen_names_done(&found);
	return rc == 0 && (files->failed || names->failed) ? -ENOMEM : rc;
}

/* --- the steps ------------------------------------------------------------------------------------ */

static void on_written(struct mcp_work *w, struct run *run)
{
	const struct registering *g = w->extra;
	char *said = take_output(w, run);
	struct json j;

	if (said == NULL)
		return;
	free(said);
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, g->names, strlen(g->names));
	json_close(&j, ']');
	json_open(&j, "structuredContent", '{');
	json_value(&j, "tools");
	json_raw(&j, g->names, strlen(g->names));
	j.comma = true;
	json_str(&j, "package", g->module);
	json_str(&j, "box", w->box);
	json_close(&j, '}');
	mcp_result_end(mcp_work_end(w), &j);
}

static void on_listed(struct mcp_work *w, struct run *run)
{
	const struct register_in *in = w->in;
	char *said = take_output(w, run);
	struct json files, names;
	struct registering *g;
	char module[GEN_NAME];
	int rc;

	if (said == NULL)
		return;
	json_init(&files);
	json_init(&names);
	gen_module_name(in->name.p, in->name.n, module);
	rc = put_all(w, said, module, &files, &names);
	free(said);
	g = rc == 0 ? calloc(1, sizeof(*g) + names.len) : NULL;
	if (g == NULL) {
		mcp_work_fail(w, "the MCP server cannot be used: %s",
			      rc == -E2BIG    ? "it has too many tools, or too large ones"
			      : rc == -EINVAL ? "what it says of its tools makes no sense"
					      : "out of memory");
	} else {
		(void)memcpy(g->module, module, sizeof(module));
		(void)memcpy(g->names, names.buf, names.len);
		free(w->extra);
		w->extra = g;
		w->ran = on_written;
		ask(w, writer, sizeof(writer) - 1, (const char *const[]){ g->module, NULL },
		    files.buf, files.len);
	}
	json_done(&files);
	json_done(&names);
}

/* The own API does it: what it answers is the answer. */
static void on_apart(struct mcp_work *w, const char *body, size_t n)
{
	struct json_text all = { NULL, 0 };
	struct json names, j;

	(void)json_text_read(body, n, &all);
	json_init(&names);
	json_text_put(mcp_get(all, "tools"), &names, NULL);
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, names.buf != NULL ? names.buf : "", names.len);
	json_close(&j, ']');
	json_open(&j, "structuredContent", '{');
	json_text_put(mcp_get(all, "tools"), &j, "tools");
	json_text_put(mcp_get(all, "package"), &j, "package");
	json_str(&j, "box", w->box);
	json_close(&j, '}');
	json_done(&names);
	mcp_result_end(mcp_work_end(w), &j);
}

static void go_apart(struct mcp_work *w)
{
	const struct register_in *in = w->in;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "server", in->name.p, in->name.n);
	if (mcp_arg(w->c, "server_params", JSONR_OBJECT) != NULL)
		jsonr_write(&w->c->doc, mcp_arg(w->c, "server_params", JSONR_OBJECT), &j, "params");
	json_close(&j, '}');
	w->replied = on_apart;
	mcp_work_ask(w, box_tools_post, &j);
}

static void go(struct mcp_work *w)
{
	const struct register_in *in = w->in;
	struct json j;

	if (strcmp(in->where.p, "apart") == 0) {
		go_apart(w);
		return;
	}

	json_init(&j);
	jsonr_write(&w->c->doc, mcp_arg(w->c, "server_params", JSONR_OBJECT), &j, NULL);
	w->ran = on_listed;
	ask(w, (const char *)run_py, sizeof(run_py), (const char *const[]){ "list", "30", NULL },
	    j.buf != NULL ? j.buf : "", j.len);
	json_done(&j);
}

/* Whether its package would be one of ours. */
static bool is_taken(const char *p, size_t n)
{
	static const char *const ours[] = { "_gateway", "_run", "_runtime", "_servers" };
	char module[GEN_NAME];

	gen_module_name(p, n, module);
	for (unsigned int i = 0; i < ARRAY_LEN(ours); i++)
		if (strcmp(module, ours[i]) == 0)
			return true;
	return false;
}

void mcp_register(struct mcp_call *c)
{
	struct mcp_work *w = mcp_work_new(c, &in_fields, offsetof(struct register_in, box), go);
	const struct register_in *in;

	if (w == NULL)
		return;
	in = w->in;
	if (is_taken(in->name.p, in->name.n)) {
		mcp_work_fail(w, "an MCP server cannot be called '%s'", in->name.p);
		return;
	}
	if (strcmp(in->where.p, "apart") != 0 && mcp_arg(c, "server_params", JSONR_OBJECT) == NULL)
		mcp_work_fail(w, "'server_params' must be an object with 'command' or 'url'");
	else
		mcp_work_begin(w);
}
