// SPDX-License-Identifier: Apache-2.0
/*
 * What the tools process is to know (src/tools/settings.c): the servers of `tool_servers` as they stand in that file, the variables that they name, and where
 * those are that have a URL. All of it is looked at here, so that what is wrong is said when the server starts.
 */
#include "cli/say.h"
#include "cli/serve.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "tools/spec.h"
#include "wire/endpoint.h"

#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, VARIABLES_MAX = 256 };

struct telling {
	struct tool_settings *to;
	struct endpoint places[ARRAY_LEN(((struct tool_settings *)NULL)->ways)];
	char *names[VARIABLES_MAX];
	unsigned int nnames;
	struct err *e;
};

/* --- variables -------------------------------------------------------------------------------------- */

static void note_variable(struct telling *t, const char *name)
{
	for (unsigned int i = 0; i < t->nnames; i++)
		if (strcmp(t->names[i], name) == 0)
			return;
	if (t->nnames < VARIABLES_MAX && (t->names[t->nnames] = strdup(name)) != NULL)
		t->nnames++;
}

/* Those that a server names are passed on, and no others. */
static const char *noted(void *telling, const char *name)
{
	const char *value = getenv(name);

	if (value != NULL)
		note_variable(telling, name);
	return value;
}

/* --- places ----------------------------------------------------------------------------------------- */

static int note_place(struct telling *t, const struct endpoint *at)
{
	struct tool_settings *to = t->to;
	int r;

	for (int i = 0; i < to->nways; i++)
		if (endpoint_is(&t->places[i], at))
			return 0;
	if (to->nways == (int)ARRAY_LEN(t->places))
		return err_set(t->e, ERR_USAGE, 0, "MCP servers are at more than %zu places",
			       ARRAY_LEN(t->places));
	t->places[to->nways] = *at;
	r = serve_look_up(at, to->ways[to->nways]);
	if (r != 0) {
		to->ways[to->nways][0] = '\0';
		say("warning: MCP servers: '%s': %s: nothing there can be called", at->host,
		    gai_strerror(r));
	}
	to->nways++;
	return 0;
}

static int note_url(struct telling *t, const char *url)
{
	struct endpoint at;
	const char *rest;
	bool secure;
	int r = endpoint_of_any_url(url, &at, &rest, &secure);

	if (r < 0)
		return err_set(t->e, ERR_USAGE, 0, "'%.200s' is no URL that can be spoken to%s",
			       url, r == -EPROTONOSUPPORT ? ": only http:// and https:// can" : "");
	return note_place(t, &at);
}

static int note_places(struct telling *t, const struct config *c)
{
	unsigned int n;
	char *const *v = config_list(c, CONF_TOOL_PLACE, &n);

	for (unsigned int i = 0; i < n; i++) {
		struct endpoint at;

		if (endpoint_parse(v[i], strlen(v[i]), 80, &at) < 0)
			return err_set(t->e, ERR_USAGE, 0, "tool_place: '%s' is not NAME[:PORT]",
				       v[i]);
		if (note_place(t, &at) < 0)
			return -1;
	}
	return 0;
}

/* --- servers ---------------------------------------------------------------------------------------- */

static int note_server(struct telling *t, const struct jsonr *d, const struct jsonr_node *n)
{
	struct spec s;
	int r = spec_is_name(n->key) ? spec_read(&s, d, n, noted, t, t->e) : -1;

	if (!spec_is_name(n->key))
		return err_set(t->e, ERR_USAGE, 0,
			       "it is no name: a-z, 0-9, '_', '-', '.', %d at most", SPEC_NAME - 1);
	if (r == 0 && s.place.url != NULL)
		r = note_url(t, s.place.url);
	spec_done(&s);
	return r;
}

static int put_servers(struct telling *t, const char *path, char *text, size_t size, struct json *j)
{
	const struct jsonr_node *all;
	struct jsonr_error why;
	struct jsonr d;
	int r = 0;

	if (jsonr_parse(&d, text, size, &why) < 0)
		return err_set(t->e, ERR_USAGE, 0, "tool_servers: '%s' is not JSON: %s, byte %zu",
			       path, why.why, why.offset);
	all = jsonr_root(&d)->type == JSONR_OBJECT ? jsonr_get(&d, jsonr_root(&d), "mcpServers")
						   : NULL;
	if (all == NULL || all->type != JSONR_OBJECT)
		r = err_set(t->e, ERR_USAGE, 0, "tool_servers: '%s' has no object 'mcpServers'",
			    path);
	for (const struct jsonr_node *n = r == 0 ? jsonr_first(&d, all) : NULL; n != NULL && r == 0;
	     n = jsonr_next(&d, n)) {
		r = note_server(t, &d, n);
		if (r < 0)
			(void)err_wrap(t->e, "tool_servers '%.200s', server '%.64s'", path, n->key);
	}
	if (r == 0)
		jsonr_write(&d, all, j, "servers");
	jsonr_done(&d);
	return r;
}

static int read_servers(struct telling *t, const char *path, struct json *j)
{
	own_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	own_free char *text = NULL;
	ssize_t n;

	if (fd < 0)
		return err_set(t->e, ERR_INPUT, errno, "tool_servers '%s'", path);
	text = malloc(FILE_MAX + 1);
	n = text != NULL ? io_read_full(fd, text, FILE_MAX + 1) : -ENOMEM;
	if (n < 0 || n > FILE_MAX)
		return err_set(t->e, ERR_INPUT, n < 0 ? (int)-n : EFBIG, "tool_servers '%s'", path);
	return put_servers(t, path, text, (size_t)n, j);
}

/* --- all of it -------------------------------------------------------------------------------------- */

static void put_variables(struct telling *t, const struct config *c, struct json *j)
{
	unsigned int n;
	char *const *lent = config_list(c, CONF_TOOL_ENV, &n);

	json_open(j, "lent", '[');
	for (unsigned int i = 0; i < n; i++) {
		json_str(j, NULL, lent[i]);
		if (noted(t, lent[i]) == NULL)
			say("warning: tool_env: the variable '%s' is not set", lent[i]);
	}
	json_close(j, ']');
	json_open(j, "variables", '{');
	for (unsigned int i = 0; i < t->nnames; i++)
		json_str(j, t->names[i], getenv(t->names[i]));
	json_close(j, '}');
}

static void put_places(const struct telling *t, struct json *j)
{
	char text[ENDPOINT_HOST + 10];

	json_open(j, "places", '[');
	for (int i = 0; i < t->to->nways; i++) {
		endpoint_text(&t->places[i], text);
		json_str(j, NULL, text);
	}
	json_close(j, ']');
}

static int seal(const struct json *j, int *ret, struct err *e)
{
	int fd = j->failed ? -ENOMEM : io_sealed("tools", j->buf, j->len);

	if (fd < 0)
		return err_set(e, ERR_SYS, -fd, "put the MCP servers into a memory file");
	*ret = fd;
	return 0;
}

int serve_tools(const struct config *c, struct tool_settings *ret, struct err *e)
{
	static struct telling t;
	const char *path = config_str(c, CONF_TOOL_SERVERS);
	struct json j;
	int r = 0;

	t = (struct telling){ .to = ret, .e = e };
	ret->fd = -1;
	ret->nways = 0;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_u64(&j, "idle_ms", config_u64(c, CONF_TOOL_IDLE) / US_PER_MS);
	json_str(&j, "ca_file", config_str(c, CONF_TOOL_CA_FILE));
	if (path[0] != '\0')
		r = read_servers(&t, path, &j);
	if (r == 0)
		r = note_places(&t, c);
	if (r == 0) {
		put_places(&t, &j);
		put_variables(&t, c, &j);
		json_close(&j, '}');
		r = seal(&j, &ret->fd, e);
	}
	if (j.buf != NULL)
		explicit_bzero(j.buf, j.len);
	json_done(&j);
	for (unsigned int i = 0; i < t.nnames; i++)
		free(t.names[i]);
	return r;
}
