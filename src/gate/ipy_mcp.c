// SPDX-License-Identifier: Apache-2.0
/*
 * /mcp of ipybox's resource server: typed clients for the tools of an MCP server, as files of the box.
 *
 * The server is asked for its tools inside the box, where it will run, too (kernel/ipybox/mcp/run.py is what asks, and what the
 * generated code calls). What it says is hostile; the text of the modules is made of it here (mcp/gen.h), and written by a program in the box.
 */
#include "gate/ipy.h"
#include "gate/ipy_program.h"
#include "mcp/gen.h"

#include "base/own.h"
#include "gate/ipybox_run.gen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FOUND = 3 };

static const char writer[] =
	"import json, os, shutil, sys\n"
	"path = sys.argv[1]\n"
	"shutil.rmtree(path, ignore_errors=True)\n"
	"os.makedirs(path, exist_ok=True)\n"
	"for name, text in json.load(sys.stdin).items():\n"
	"  with open(os.path.join(path, name), 'w', encoding='utf-8') as f: f.write(text)\n";

static const char reader[] = "import json, os, sys\n"
			     "path, texts = sys.argv[1], {}\n"
			     "if not os.path.isdir(path): sys.exit(3)\n"
			     "for name in sorted(os.listdir(path)):\n"
			     "  if name.endswith('.py') and name != '__init__.py':\n"
			     "    with open(os.path.join(path, name), encoding='utf-8', "
			     "errors='replace') as f: texts[name[:-3]] = f.read()\n"
			     "json.dump(texts, sys.stdout)\n";

struct making {
	struct ipy_program program; /* its first member */
	struct file_path path;      /* of the package */
	char *params;               /* what the server is, as JSON */
	size_t nparams;
	struct json names, files; /* the answer; texts by their names */
};

static void on_release(struct ipy_program *p)
{
	struct making *m = (struct making *)p;

	free(m->params);
	json_done(&m->names);
	json_done(&m->files);
}

/* --- PUT ------------------------------------------------------------------------------------------ */

static void put_text(struct json *files, const char *name, struct json *text)
{
	char file[GEN_NAME + 8];

	(void)snprintf(file, sizeof(file), "%s.py", name);
	json_bytes(files, file, text->buf != NULL ? text->buf : "", text->len);
	files->failed = files->failed || text->failed;
	json_done(text);
}

/* 0 or -errno. */
static int make_module(struct making *m, const struct gen_named *tool)
{
	struct json text;
	int rc;

	json_init(&text);
	rc = gen_module(GEN_IPYBOX, file_path_name(&m->path), tool->module, tool->tool, &text);
	if (rc == 0) {
		json_str(&m->names, NULL, tool->module);
		put_text(&m->files, tool->module, &text);
	}
	json_done(&text);
	return rc;
}

static int make_package(struct making *m)
{
	struct json_text params;
	struct json text;
	int rc = json_text_read(m->params, m->nparams, &params);

	if (rc < 0)
		return rc;
	json_init(&text);
	rc = gen_package(params, &text);
	if (rc == 0)
		put_text(&m->files, "__init__", &text);
	json_done(&text);
	return rc;
}

/* All texts, from what the box says that the server says. 0 or -errno. */
static int make_texts(struct making *m)
{
	struct json_member tools = { .key = "tools" };
	struct gen_names names = { 0 };
	struct json_text said;
	int rc = json_text_read(buf_head(&m->program.said), buf_len(&m->program.said), &said);

	if (rc < 0)
		return rc;
	json_text_find(said, &tools, 1);
	rc = gen_names(tools.value, &names);
	if (rc < 0)
		return rc;
	json_open(&m->names, NULL, '[');
	json_open(&m->files, NULL, '{');
	rc = make_package(m);
	for (size_t i = 0; i < names.n && rc == 0; i++)
		rc = make_module(m, &names.v[i]);
	json_close(&m->names, ']');
	json_close(&m->files, '}');
	gen_names_done(&names);
	return rc == 0 && (m->names.failed || m->files.failed) ? -ENOMEM : rc;
}

static void on_written(struct ipy_program *p, int status)
{
	struct making *m = (struct making *)p;
	struct req *r = ipy_program_close(p);

	if (status == 0)
		req_reply(r, 200, "application/json", m->names.buf, m->names.len);
	else
		req_refuse(r, 500, NULL, NULL, "'%.200s' cannot be written in the box: %.*s",
			   m->path.text, (int)buf_len(&p->complaint), buf_head(&p->complaint));
}

static void on_listed(struct ipy_program *p, int status)
{
	static const struct ipy_program_ops ops = {
		.ended = on_written,
		.release = on_release,
		.what = "clients of MCP servers could not be written"
	};
	struct making *m = (struct making *)p;
	char path[FILE_PATH_IN_BOX];
	int rc;

	if (status != 0) {
		req_refuse(ipy_program_close(p), 400, NULL, NULL,
			   "MCP server %s cannot be used: %.*s", file_path_name(&m->path),
			   (int)buf_len(&p->complaint), buf_head(&p->complaint));
		return;
	}
	rc = make_texts(m);
	if (rc < 0) {
		req_refuse(ipy_program_close(p), rc == -ENOMEM ? 503 : 400, NULL, NULL,
			   "MCP server %s cannot be used: %s", file_path_name(&m->path),
			   rc == -ENOMEM  ? "out of memory"
			   : rc == -E2BIG ? "it has too many tools, or too large ones"
					  : "what it says of its tools makes no sense");
		return;
	}
	gjob_drop(&p->job);
	p->ops = &ops;
	file_path_in_box(&m->path, path);
	(void)ipy_program_run(p, writer, (const char *const[]){ path }, 1, m->files.buf,
			      m->files.len);
}

/* What a server is: an object. */
static bool is_object(const char *p, size_t n)
{
	struct json_text t;

	return json_text_read(p, n, &t) == 0 && json_text_kind(t) == '{';
}

void ipy_mcp_put(struct req *r)
{
	static const struct ipy_program_ops ops = { .ended = on_listed,
						    .release = on_release,
						    .what = "the MCP server could not be asked" };
	static char asker[sizeof(run_py) + 1];
	struct file_path path;
	struct abox *a = ipy_find(r, &path);
	struct making *m;

	if (a == NULL)
		return;
	if (path.text[0] == '\0') {
		req_refuse(r, 400, NULL, NULL, "the name of the MCP server is missing");
		return;
	}
	if (!is_object(r->body != NULL ? r->body : "", r->body_len) ||
	    r->body_len > GEN_PARAMS_MAX) {
		req_refuse(
			r, 422, NULL, NULL,
			"the body must be an object with 'command' or 'url', of at most %d bytes",
			GEN_PARAMS_MAX);
		return;
	}
	m = (struct making *)ipy_program_new(r, a, &ops, sizeof(*m));
	if (m == NULL)
		return;
	m->path = path;
	m->params = r->body;
	m->nparams = r->body_len;
	r->body = NULL;
	r->body_len = r->body_cap = 0;
	json_init(&m->names);
	json_init(&m->files);
	(void)memcpy(asker, run_py, sizeof(run_py)); /* with a NUL behind it */
	(void)ipy_program_run(&m->program, asker, (const char *const[]){ "list", "30" }, 2,
			      m->params, m->nparams);
}

/* --- GET ------------------------------------------------------------------------------------------ */

/* {name: text…} of what the box said; false: it is none of that. */
static bool put_sources(const struct buf *said, struct json *j)
{
	struct json_text all, key, text;
	struct json_walk w;

	if (json_text_read(buf_head(said), buf_len(said), &all) < 0 || json_text_kind(all) != '{')
		return false;
	json_open(j, NULL, '{');
	for (w = json_walk(all); json_walk_next(&w, &key, &text);) {
		if (json_text_kind(text) != '"')
			return false;
		json_text_put_key(key, j);
		json_text_put(text, j, NULL);
	}
	json_close(j, '}');
	return !j->failed;
}

static void on_read(struct ipy_program *p, int status)
{
	struct making *m = (struct making *)p;
	struct req *r = ipy_program_close(p);

	if (status == NOT_FOUND)
		req_refuse(r, 404, NULL, NULL, "MCP server %s not found", file_path_name(&m->path));
	else if (status != 0 || !put_sources(&p->said, &m->files))
		req_refuse(r, 500, NULL, NULL, "the sources could not be read in the box");
	else
		req_reply(r, 200, "application/json", m->files.buf, m->files.len);
}

void ipy_mcp_get(struct req *r)
{
	static const struct ipy_program_ops ops = { .ended = on_read,
						    .release = on_release,
						    .what = "the sources could not be read" };
	struct http_slice server = req_query(r, "server_name");
	char text[PATH_MAX], path[FILE_PATH_IN_BOX];
	struct file_path p;
	struct abox *a = ipy_find(r, &p);
	struct making *m;

	if (a == NULL)
		return;
	if (server.n == 0) {
		static const char missing[] =
			"{\"detail\":[{\"type\":\"missing\",\"loc\":[\"query\",\"server_name\"],"
			"\"msg\":\"Field required\",\"input\":null}]}";

		req_reply(r, 422, "application/json", missing, sizeof(missing) - 1);
		return;
	}
	if (snprintf(text, sizeof(text), "%s%s%.*s", p.text, p.text[0] != '\0' ? "/" : "",
		     (int)server.n, server.p) >= (int)sizeof(text) ||
	    memchr(server.p, '/', server.n) != NULL || file_path_take(&p, text, strlen(text)) < 0) {
		req_refuse(r, 400, NULL, NULL, "Invalid path: escapes root directory");
		return;
	}
	m = (struct making *)ipy_program_new(r, a, &ops, sizeof(*m));
	if (m == NULL)
		return;
	m->path = p;
	json_init(&m->names);
	json_init(&m->files);
	file_path_in_box(&p, path);
	(void)ipy_program_run(&m->program, reader, (const char *const[]){ path }, 1, NULL, 0);
}
