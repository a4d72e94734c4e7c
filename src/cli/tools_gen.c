// SPDX-License-Identifier: Apache-2.0
/* Python for the tools of a server (mcp/gen.h), as code in a box has it: one module for each, to be read, or as files. */
#include "cli/tools.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/say.h"
#include "mcp/gen.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SERVER_NAME = 128 };

/* What the package is called: as was said, as in the file, or as the server calls itself. */
static void name_package(const struct tools_opts *o, const struct toolway *l, char name[GEN_NAME],
			 char server[SERVER_NAME])
{
	const char *own = l->client.server[0] != '\0' ? l->client.server : "server";

	if (o->name != NULL || o->named != NULL)
		(void)snprintf(server, SERVER_NAME, "%s", o->name != NULL ? o->name : o->named);
	else /* its version stands behind it */
		(void)snprintf(server, SERVER_NAME, "%.*s", (int)strcspn(own, " "), own);
	gen_module_name(server, strlen(server), name);
}

/* The tools as one array. */
static void put_array(const struct mcpc_tools *t, struct json *j)
{
	json_open(j, NULL, '[');
	for (unsigned int i = 0; i < t->n; i++) {
		json_value(j, NULL);
		json_raw(j, t->v[i].text, t->v[i].n);
		j->comma = true;
	}
	json_close(j, ']');
}

static int write_file(int dir, const char *name, const struct json *text, struct err *e)
{
	own_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	int r = fd < 0 ? -errno : io_write_all(fd, text->buf, text->len);

	return r < 0 ? err_set(e, ERR_INPUT, -r, "write '%s'", name) : 0;
}

static int open_folder(const char *out, const char *name, struct err *e)
{
	char path[4096];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", out, name) >= (int)sizeof(path))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "--out");
	if ((mkdir(out, 0777) < 0 && errno != EEXIST) || (mkdir(path, 0777) < 0 && errno != EEXIST))
		return err_set(e, ERR_INPUT, errno, "make '%s'", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(e, ERR_INPUT, errno, "open '%s'", path) : fd;
}

static int bad(struct err *e, int rc, const char *what)
{
	return err_set(e, ERR_INPUT, 0,
		       "what the server says of '%s' cannot be made into Python: %s", what,
		       rc == -E2BIG    ? "it is too large"
		       : rc == -EINVAL ? "it makes no sense"
				       : "out of memory");
}

static bool is_wanted(const struct tools_opts *o, const struct gen_named *one)
{
	struct json_member m = { .key = "name" };
	char name[GEN_TOOL_NAME_MAX + 1];

	json_text_find(one->tool, &m, 1);
	if (o->nwords == 0)
		return true;
	for (unsigned int i = 0; i < o->nwords; i++)
		if (strcmp(o->words[i], one->module) == 0 ||
		    (json_text_str(m.value, name, sizeof(name)) && strcmp(o->words[i], name) == 0))
			return true;
	return false;
}

/* To standard output where tools were named, else into the folder. */
static int put_module(const struct tools_opts *o, const char *server, const struct gen_named *one,
		      int dir, struct err *e)
{
	OWN(json_done) struct json text;
	char name[GEN_NAME + 8];
	int rc;

	json_init(&text);
	rc = gen_module(GEN_MCPTOOLS, server, one->module, one->tool, &text);
	if (rc < 0)
		return bad(e, rc, one->module);
	if (o->nwords > 0) {
		rc = io_write_all(STDOUT_FILENO, text.buf, text.len);
		return rc < 0 ? err_set(e, ERR_SYS, -rc, "write to standard output") : 0;
	}
	(void)snprintf(name, sizeof(name), "%s.py", one->module);
	if (write_file(dir, name, &text, e) < 0)
		return -1;
	(void)printf("%s\n", one->module);
	return 0;
}

static int put_package(int dir, struct err *e)
{
	const struct json_text none = { NULL, 0 };
	OWN(json_done) struct json text;
	int rc;

	json_init(&text);
	rc = gen_package(none, &text);
	return rc < 0 ? bad(e, rc, "its tools") : write_file(dir, "__init__.py", &text, e);
}

static int put_all(const struct tools_opts *o, const char *server, const char *name,
		   const struct gen_names *names, struct err *e)
{
	own_fd dir = o->nwords > 0 ? -1 : open_folder(o->out, name, e);
	unsigned int n = 0;

	if (o->nwords == 0 && (dir < 0 || put_package(dir, e) < 0))
		return -1;
	for (size_t i = 0; i < names->n; i++)
		if (is_wanted(o, &names->v[i])) {
			if (put_module(o, server, &names->v[i], dir, e) < 0)
				return -1;
			n++;
		}
	if (n == 0 && o->nwords > 0)
		return err_set(e, ERR_USAGE, 0, "the server has no tool '%s'", o->words[0]);
	if (o->nwords == 0)
		say("%u modules in %s/%s; in a box with this server: from mcptools.%s.TOOL import "
		    "run",
		    n, o->out, name, name);
	return 0;
}

int tools_gen(const struct tools_opts *o, const struct toolway *l, const struct mcpc_tools *t,
	      struct err *e)
{
	OWN(json_done) struct json array;
	struct gen_names names = { 0 };
	struct json_text all;
	char name[GEN_NAME], server[SERVER_NAME];
	int rc;

	json_init(&array);
	put_array(t, &array);
	name_package(o, l, name, server);
	rc = array.failed ? -ENOMEM : json_text_read(array.buf, array.len, &all);
	if (rc == 0)
		rc = gen_names(all, &names);
	if (rc < 0)
		return bad(e, rc, "its tools");
	rc = put_all(o, server, name, &names, e);
	gen_names_done(&names);
	return rc;
}
