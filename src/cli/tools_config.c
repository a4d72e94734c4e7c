// SPDX-License-Identifier: Apache-2.0
/*
 * Files that name servers of MCP, as many programs have them. ${NAME} is the environment's, so that a file need not have secrets
 * in it; one that is not set is an error.
 */
#include "cli/tools.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdlib.h>

enum { FILE_MAX = 1 << 20 };

static const char *from_environment(void *arg, const char *name)
{
	(void)arg;
	return getenv(name);
}

const char *tools_expand(struct tools_config *c, const char *text, struct err *e)
{
	return spec_expand(&c->own, text, from_environment, NULL, e);
}

void tools_config_done(struct tools_config *c)
{
	spec_done(&c->spec);
	texts_own_done(&c->own);
	free(c->text);
	*c = (struct tools_config){ 0 };
}

/* --- the file ------------------------------------------------------------------------------------- */

static int read_file(struct tools_config *c, const char *path, size_t *ret_n, struct err *e)
{
	own_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return err_set(e, ERR_USAGE, errno, "open '%s'", path);
	c->text = malloc(FILE_MAX + 1);
	n = c->text != NULL ? io_read_full(fd, c->text, FILE_MAX + 1) : -ENOMEM;
	if (n < 0 || n > FILE_MAX)
		return err_set(e, ERR_USAGE, n < 0 ? (int)-n : EFBIG, "read '%s'", path);
	*ret_n = (size_t)n;
	return 0;
}

/* Headers of the command line come first. */
static int take_place(struct tools_opts *o, struct err *e)
{
	const struct mcp_place *from = &o->file.spec.place;
	struct mcp_place *to = &o->place;

	if (from->nheaders + to->nheaders > MCP_PLACE_HEADERS)
		return err_set(e, ERR_USAGE, 0, "more than %d headers", MCP_PLACE_HEADERS);
	for (unsigned int i = 0; i < from->nheaders; i++)
		to->headers[to->nheaders++] = from->headers[i];
	to->url = from->url;
	to->argv = from->argv;
	to->env = from->env;
	o->old |= from->old && o->file.spec.typed;
	o->new = o->file.spec.typed && !from->old;
	return 0;
}

int tools_config_read(struct tools_opts *o, const char *name, struct err *e)
{
	const struct jsonr_node *all, *server;
	struct jsonr_error why;
	struct jsonr d;
	size_t n = 0;
	int r;

	if (read_file(&o->file, o->config, &n, e) < 0)
		return -1;
	if (jsonr_parse(&d, o->file.text, n, &why) < 0)
		return err_set(e, ERR_USAGE, 0, "'%s' is not JSON: %s, byte %zu", o->config,
			       why.why, why.offset);
	all = jsonr_root(&d)->type == JSONR_OBJECT ? jsonr_get(&d, jsonr_root(&d), "mcpServers")
						   : NULL;
	server = all != NULL && all->type == JSONR_OBJECT ? jsonr_get(&d, all, name) : NULL;
	if (server == NULL || server->type != JSONR_OBJECT)
		r = err_set(e, ERR_USAGE, 0, "'%s' has no server '%s'", o->config, name);
	else
		r = spec_read(&o->file.spec, &d, server, from_environment, NULL, e);
	if (r < 0 && server != NULL)
		(void)err_wrap(e, "server '%.100s'", name);
	jsonr_done(&d);
	return r == 0 ? take_place(o, e) : r;
}
