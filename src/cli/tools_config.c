// SPDX-License-Identifier: Apache-2.0
/*
 * Files that name servers of MCP, as many programs have them. ${NAME} is the environment's, so that a file need not have secrets
 * in it; one that is not set is an error.
 */
#include "cli/tools.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/bytes.h"
#include "wire/jsonr.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, TEXT_MAX = 1 << 16, LIST_MAX = 256 };

/* --- texts ---------------------------------------------------------------------------------------- */

static char *own(struct tools_config *c, char *text)
{
	char **more = text != NULL ? realloc(c->own, (c->nowned + 1) * sizeof(*more)) : NULL;

	if (more == NULL) {
		free(text);
		return NULL;
	}
	c->own = more;
	c->own[c->nowned++] = text;
	return text;
}

/* One ${NAME}; returns behind it. NULL: e. */
static const char *put_variable(struct bytes *b, const char *p, struct err *e)
{
	const char *end = strchr(p, '}');
	char name[128];
	const char *value;

	if (end == NULL || end - p - 2 <= 0 || (size_t)(end - p - 2) >= sizeof(name)) {
		(void)err_set(e, ERR_USAGE, 0, "'${' without a name and '}'");
		return NULL;
	}
	(void)snprintf(name, sizeof(name), "%.*s", (int)(end - p - 2), p + 2);
	value = getenv(name);
	if (value == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "the variable '%s' is not set", name);
		return NULL;
	}
	bytes_puts(b, value);
	return end + 1;
}

const char *tools_expand(struct tools_config *c, const char *text, struct err *e)
{
	struct bytes b;
	char *got;

	bytes_init(&b, TEXT_MAX);
	bytes_puts(&b, "");
	while (*text != '\0') {
		size_t n = strcspn(text, "$");

		bytes_put(&b, text, n);
		text += n;
		if (strncmp(text, "${", 2) == 0) {
			text = put_variable(&b, text, e);
			if (text == NULL) {
				bytes_done(&b);
				return NULL;
			}
		} else if (*text == '$') {
			bytes_put(&b, text++, 1);
		}
	}
	if (b.failed) {
		bytes_done(&b);
		(void)err_set(e, ERR_USAGE, 0, "a value has more than %d bytes", TEXT_MAX);
		return NULL;
	}
	got = own(c, b.p);
	if (got == NULL)
		(void)err_set(e, ERR_SYS, ENOMEM, "read a value");
	return got;
}

void tools_config_done(struct tools_config *c)
{
	for (unsigned int i = 0; i < c->nowned; i++)
		free(c->own[i]);
	free(c->own);
	free(c->text);
	free(c->argv);
	free(c->env);
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

/* A member that is a string, with its variables; *ret is NULL where there is none. */
static int take_text(struct tools_opts *o, const struct jsonr *d, const struct jsonr_node *object,
		     const char *key, const char **ret, struct err *e)
{
	const struct jsonr_node *n = jsonr_get(d, object, key);

	*ret = NULL;
	if (n == NULL)
		return 0;
	if (n->type != JSONR_STRING)
		return err_set(e, ERR_USAGE, 0, "'%s' is no string", key);
	*ret = tools_expand(&o->file, n->string, e);
	return *ret != NULL ? 0 : -1;
}

/* The strings of a list, or "NAMExVALUE" of the members of an object; ends in NULL. before: what stands first, or NULL. */
static int take_many(struct tools_opts *o, const struct jsonr *d, const struct jsonr_node *n,
		     const char *what, const char *between, const char *before, char ***ret,
		     struct err *e)
{
	enum jsonr_type type = between != NULL ? JSONR_OBJECT : JSONR_ARRAY;
	char **v = calloc((n != NULL && n->type == type ? n->len : 0) + 2u, sizeof(*v));
	unsigned int at = 0;

	*ret = v;
	if (v == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read '%s'", what);
	if (before != NULL && (v[at++] = own(&o->file, strdup(before))) == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read '%s'", what);
	if (n == NULL)
		return 0;
	if (n->type != type || n->len > LIST_MAX)
		return err_set(e, ERR_USAGE, 0, "'%s' is no %s of %d at most", what,
			       between != NULL ? "object" : "list", LIST_MAX);
	for (const struct jsonr_node *one = jsonr_first(d, n); one != NULL;
	     one = jsonr_next(d, one)) {
		const char *value =
			one->type == JSONR_STRING ? tools_expand(&o->file, one->string, e) : NULL;
		char *text = NULL;

		if (one->type != JSONR_STRING)
			return err_set(e, ERR_USAGE, 0, "'%s' has what is no string", what);
		if (value == NULL)
			return -1;
		if (asprintf(&text, "%s%s%s", between != NULL ? one->key : "",
			     between != NULL ? between : "", value) < 0)
			text = NULL;
		v[at] = own(&o->file, text);
		if (v[at++] == NULL)
			return err_set(e, ERR_SYS, ENOMEM, "read '%s'", what);
	}
	return 0;
}

static int take_headers(struct tools_opts *o, const struct jsonr *d, const struct jsonr_node *n,
			struct err *e)
{
	char **v;
	int r = take_many(o, d, n, "headers", ": ", NULL, &v, e);

	for (unsigned int i = 0; r == 0 && v[i] != NULL; i++) {
		if (!mcp_header_check(v[i]) || o->place.nheaders == MCP_PLACE_HEADERS)
			r = err_set(e, ERR_USAGE, 0,
				    "'headers' has one that can be none, or too many");
		else
			o->place.headers[o->place.nheaders++] = v[i];
	}
	free(v);
	return r;
}

static int take_server(struct tools_opts *o, const struct jsonr *d, const struct jsonr_node *s,
		       struct err *e)
{
	const char *command, *type;

	if (take_text(o, d, s, "command", &command, e) < 0 ||
	    take_text(o, d, s, "url", &o->place.url, e) < 0 ||
	    take_text(o, d, s, "type", &type, e) < 0)
		return -1;
	if ((command == NULL) == (o->place.url == NULL))
		return err_set(e, ERR_USAGE, 0, "it has to have one of 'command' and 'url'");
	o->old |= type != NULL && strcmp(type, "sse") == 0;
	o->new = type != NULL &&strcmp(type, "sse") != 0;
	if (command == NULL)
		return take_headers(o, d, jsonr_get(d, s, "headers"), e);
	if (take_many(o, d, jsonr_get(d, s, "args"), "args", NULL, command, &o->file.argv, e) < 0 ||
	    take_many(o, d, jsonr_get(d, s, "env"), "env", "=", NULL, &o->file.env, e) < 0)
		return -1;
	o->place.argv = o->file.argv;
	o->place.env = o->file.env;
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
		r = take_server(o, &d, server, e);
	if (r < 0 && server != NULL)
		(void)err_wrap(e, "server '%.100s'", name);
	jsonr_done(&d);
	return r;
}
