// SPDX-License-Identifier: Apache-2.0
#include "cli/client_opts.h"

#include "base/config.h"
#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { HEALTH_TIMEOUT_MS = 5000 };

int client_take_url(void *ctx, const char *v, struct err *e)
{
	struct url u;

	((struct client_opts *)ctx)->url = v;
	return url_parse(v, &u, e);
}

int client_take_token(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct client_opts *)ctx)->token = v;
	return 0;
}

int client_take_token_file(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct client_opts *)ctx)->token_file = v;
	return 0;
}

int client_take_json(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct client_opts *)ctx)->json = true;
	return 0;
}

int client_take_help(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct client_opts *)ctx)->help = true;
	return 0;
}

/* --- the token ------------------------------------------------------------------------------------ */

/* The first one of a text as `glovebox serve` takes it: TOKEN or TENANT:TOKEN. */
static int take_token(const char *text, char token[URL_TOKEN], struct err *e)
{
	size_t n = strcspn(text, ",\n");
	const char *colon = memchr(text, ':', n);

	if (colon != NULL) {
		n -= (size_t)(colon + 1 - text);
		text = colon + 1;
	}
	while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == ' '))
		n--;
	if (n == 0 || n >= URL_TOKEN)
		return err_set(e, ERR_INPUT, 0, "there is no token where one should be");
	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			return err_set(e, ERR_INPUT, 0,
				       "the token has a character that is not visible ASCII");
	(void)memcpy(token, text, n);
	token[n] = '\0';
	return 0;
}

static int read_token_file(const char *path, char token[URL_TOKEN], struct err *e)
{
	own_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char text[64 * 1024], *line, *save = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INPUT, errno, "open the token file '%s'", path);
	if (S_ISREG(st.st_mode) && (st.st_mode & 0077) != 0) {
		(void)err_set(e, ERR_INPUT, 0, "the token file '%s' can be read by others", path);
		return err_hint(e, "chmod 600 '%s'", path);
	}
	n = io_read_full(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_set(e, ERR_INPUT, (int)-n, "read the token file '%s'", path);
	text[n] = '\0';
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		line += strspn(line, " \t\r");
		if (*line != '\0' && *line != '#')
			return take_token(line, token, e);
	}
	return err_set(e, ERR_INPUT, 0, "there is no token in '%s'", path);
}

static const char *variable(const char *name)
{
	const char *v = getenv(name);

	return v != NULL && v[0] != '\0' ? v : NULL;
}

static int find_token(const struct client_opts *o, char token[URL_TOKEN], struct err *e)
{
	const char *text = o->token, *file = o->token_file;

	token[0] = '\0';
	if (text == NULL && file == NULL) {
		text = variable("GLOVEBOX_TOKEN");
		file = variable("GLOVEBOX_TOKEN_FILE");
	}
	if (text != NULL)
		return take_token(text, token, e);
	return file != NULL ? read_token_file(file, token, e) : 0;
}

/* --- the server ----------------------------------------------------------------------------------- */

/* Where one listens that was started here and told nothing else. */
static int default_url(struct url *u, struct err *e)
{
	const char *listen = variable("GLOVEBOX_LISTEN");
	char first[512];

	if (listen == NULL)
		listen = config_row(CONF_LISTEN)->def;
	(void)snprintf(first, sizeof(first), "%.*s", (int)strcspn(listen, ", "), listen);
	return url_from_listener(first, u, e);
}

/* Whether what answers there is one of us. */
static bool answers(struct client *c)
{
	struct call q = { .method = "GET", .path = "/health", .timeout_ms = HEALTH_TIMEOUT_MS };
	struct reply r;
	struct err ignored;
	bool is_ours;

	if (client_call(c, &q, &r, &ignored) < 0)
		return false;
	is_ours = node_str(&r.doc, reply_root(&r), "glovebox_version")[0] != '\0';
	reply_free(&r);
	return is_ours;
}

int client_find(const struct client_opts *o, struct client *c, bool *nobody, struct err *e)
{
	const char *text = o->url != NULL ? o->url : variable("GLOVEBOX_URL");
	char token[URL_TOKEN];
	struct url u;

	*nobody = false;
	*c = (struct client){ .fd = -1 };
	if (find_token(o, token, e) < 0)
		return -1;
	if (text != NULL ? url_parse(text, &u, e) < 0 : default_url(&u, e) < 0)
		return -1;
	client_init(c, &u, token);
	if (text != NULL || answers(c))
		return 0;
	client_done(c);
	*nobody = true;
	(void)err_set(e, ERR_INPUT, 0, "no glovebox answers at %s", u.shown);
	return err_hint(e,
			"'glovebox serve' starts one there; --url or GLOVEBOX_URL names another");
}

int box_name_check(const char *name, struct err *e)
{
	const char *p = strncmp(name, "name:", 5) == 0 ? name + 5 : name;
	size_t n = strlen(p);

	for (size_t i = 0; i < n; i++)
		if (!(p[i] >= 'a' && p[i] <= 'z') && !(p[i] >= '0' && p[i] <= '9') &&
		    strchr("-_.", p[i]) == NULL)
			n = 0;
	if (n > 0 && n < 64)
		return 0;
	(void)err_set(e, ERR_USAGE, 0, "'%s' is neither the id of a box nor name:NAME", name);
	return err_hint(e, "'glovebox ps' lists boxes");
}
