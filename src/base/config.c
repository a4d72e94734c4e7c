// SPDX-License-Identifier: Apache-2.0
/*
 * The rows of the configuration, access to values, and what can be said about two configurations or
 * about one as a whole. Parsing of a value is in config_value.c, of files in config_file.c,
 * precedence in config_load.c, text that comes out in config_text.c.
 */
#include "base/config_impl.h"
#include "base/own.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define KIB(n) ((uint64_t)(n) << 10)
#define MIB(n) ((uint64_t)(n) << 20)
#define GIB(n) ((uint64_t)(n) << 30)
#define TIB(n) ((uint64_t)(n) << 40)
#define MS(n)  ((uint64_t)(n) * 1000)
#define S(n)   ((uint64_t)(n) * 1000000)

#define LIST   CONFIG_LIST
#define RELOAD CONFIG_RELOAD
#define SECRET CONFIG_SECRET
#define SHOWN  CONFIG_SHOWN

static const struct config_row rows[] = {
#define GROUP(title, first)
#define CONF(id, key, type, def, min, max, flags, words, variable, as, doc) \
	[CONF_##id] = { #key, CONFIG_##type, def, min, max, flags, words, variable, as, doc },
#include "policy/config.tbl"
#undef CONF
#undef GROUP
};

enum { KEY_LEN = 64 }; /* longer than every key */

const struct config_row *config_row(enum config_key key)
{
	assert((unsigned int)key < CONF_MAX);
	return &rows[key];
}

int config_find(const char *name)
{
	for (int i = 0; i < CONF_MAX; i++)
		if (strcmp(rows[i].key, name) == 0)
			return i;
	return -1;
}

static char fold(char c)
{
	return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

/* How many letters to change, add or leave out to make b of a. */
static unsigned int distance(const char *a, const char *b)
{
	unsigned int row[KEY_LEN + 1];
	size_t n = strlen(b);

	for (size_t k = 0; k <= n; k++)
		row[k] = (unsigned int)k;
	for (size_t i = 0; a[i] != '\0'; i++) {
		unsigned int corner = row[0];

		row[0] = (unsigned int)i + 1;
		for (size_t k = 0; k < n; k++) {
			unsigned int best = corner + (fold(a[i]) != fold(b[k]));

			corner = row[k + 1];
			if (row[k] + 1 < best)
				best = row[k] + 1;
			if (corner + 1 < best)
				best = corner + 1;
			row[k + 1] = best;
		}
	}
	return row[n];
}

static void closer(const char *name, const char *known, unsigned int *best, const char **ret)
{
	unsigned int d = strlen(known) < KEY_LEN ? distance(name, known) : *best;

	if (d < *best) {
		*best = d;
		*ret = known;
	}
}

const char *conf_nearest(const char *name, const char *const *more)
{
	size_t n = strlen(name);
	/* Up to a third of the letters: beyond that it is another word. */
	unsigned int best = (unsigned int)n / 3 + 1;
	const char *found = NULL;

	if (n >= KEY_LEN)
		return NULL;
	for (unsigned int i = 0; i < CONF_MAX; i++)
		closer(name, rows[i].key, &best, &found);
	for (; more != NULL && *more != NULL; more++)
		closer(name, *more, &best, &found);
	return found;
}

/* --- access ----------------------------------------------------------------------------------- */

uint64_t config_u64(const struct config *c, enum config_key key)
{
	const struct config_row *row = config_row(key);

	assert(row->type == CONFIG_INTEGER || row->type == CONFIG_BYTES ||
	       row->type == CONFIG_DURATION || row->type == CONFIG_MILLI);
	return c->v[key].num;
}

bool config_bool(const struct config *c, enum config_key key)
{
	assert(config_row(key)->type == CONFIG_BOOL);
	return c->v[key].num != 0;
}

unsigned int config_enum(const struct config *c, enum config_key key)
{
	assert(config_row(key)->type == CONFIG_ENUM);
	return (unsigned int)c->v[key].num;
}

const char *config_str(const struct config *c, enum config_key key)
{
	assert((config_row(key)->flags & CONFIG_LIST) == 0);
	return c->v[key].text != NULL ? c->v[key].text : "";
}

char *const *config_list(const struct config *c, enum config_key key, unsigned int *ret_n)
{
	assert((config_row(key)->flags & CONFIG_LIST) != 0);
	*ret_n = c->v[key].n;
	return c->v[key].list;
}

static void drop(enum config_key key, char *text)
{
	if (text != NULL && (rows[key].flags & CONFIG_SECRET) != 0)
		explicit_bzero(text, strlen(text));
	free(text);
}

void conf_clear(enum config_key key, struct config_value *v)
{
	drop(key, v->text);
	for (unsigned int i = 0; i < v->n; i++)
		drop(key, v->list[i]);
	free(v->list);
	free(v->where);
	*v = (struct config_value){ 0 };
}

void config_done(struct config *c)
{
	for (unsigned int i = 0; i < CONF_MAX; i++)
		conf_clear((enum config_key)i, &c->v[i]);
	c->help = c->dump = false;
}

/* --- two of them ------------------------------------------------------------------------------ */

static bool same_text(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

bool conf_same(const struct config_row *row, const struct config_value *a,
	       const struct config_value *b)
{
	if ((row->flags & CONFIG_LIST) != 0) {
		bool same = a->n == b->n;

		for (unsigned int i = 0; same && i < a->n; i++)
			same = strcmp(a->list[i], b->list[i]) == 0;
		return same;
	}
	switch (row->type) {
	case CONFIG_INTEGER:
	case CONFIG_BYTES:
	case CONFIG_DURATION:
	case CONFIG_MILLI:
	case CONFIG_BOOL:
	case CONFIG_ENUM:
		return a->num == b->num; /* "60s" is "1m" */
	case CONFIG_STRING:
	case CONFIG_PATH:
	case CONFIG_LISTEN:
	case CONFIG_TOKEN:
	case CONFIG_HOST:
	case CONFIG_ORIGIN:
	case CONFIG_LAYER:
	case CONFIG_TYPE_MAX:
		break;
	}
	return same_text(a->text, b->text);
}

void config_changes(const struct config *old, const struct config *now, struct config_changes *ret)
{
	*ret = (struct config_changes){ 0 };
	for (unsigned int i = 0; i < CONF_MAX; i++) {
		if (conf_same(&rows[i], &old->v[i], &now->v[i]))
			continue;
		if ((rows[i].flags & CONFIG_RELOAD) != 0)
			ret->reload[ret->nreload++] = (enum config_key)i;
		else
			ret->restart[ret->nrestart++] = (enum config_key)i;
	}
}

static void swap_reloadable(struct config *a, struct config *b)
{
	for (unsigned int i = 0; i < CONF_MAX; i++)
		if ((rows[i].flags & CONFIG_RELOAD) != 0) {
			struct config_value v = a->v[i];

			a->v[i] = b->v[i];
			b->v[i] = v;
		}
}

int config_reload(struct config *c, struct config *fresh, struct err *e)
{
	swap_reloadable(c, fresh);
	if (config_check(c, e) == 0)
		return 0;
	swap_reloadable(c, fresh);
	return err_wrap(e, "with what a reload cannot change");
}

/* --- as a whole ------------------------------------------------------------------------------- */

static bool is_set(const struct config *c, enum config_key key)
{
	return config_str(c, key)[0] != '\0';
}

static int check_tls(const struct config *c, struct err *e)
{
	if (is_set(c, CONF_TLS_CERT) == is_set(c, CONF_TLS_KEY))
		return 0;
	return err_set(e, ERR_INPUT, 0, "%s is set and %s is not: TLS needs both",
		       is_set(c, CONF_TLS_CERT) ? "tls_cert" : "tls_key",
		       is_set(c, CONF_TLS_CERT) ? "tls_key" : "tls_cert");
}

static int check_auth(const struct config *c, struct err *e)
{
	unsigned int ntokens, nlisten;
	char *const *listen = config_list(c, CONF_LISTEN, &nlisten);
	bool no_auth = config_bool(c, CONF_NO_AUTH);

	(void)config_list(c, CONF_TOKEN, &ntokens);
	if (no_auth && (ntokens > 0 || is_set(c, CONF_TOKEN_FILE)))
		return err_set(e, ERR_INPUT, 0,
			       "no_auth is set and so is a token: either nobody needs one or "
			       "everybody does");
	for (unsigned int i = 0; i < nlisten; i++) {
		struct config_listen l;
		char shown[CONF_SHOWN];

		if (no_auth || ntokens > 0 || (config_listen_parse(listen[i], &l) == 0 && l.local))
			continue;
		(void)err_set(e, ERR_INPUT, 0,
			      "listening on '%s' needs a token: other machines can reach it",
			      conf_shown(listen[i], 64, false, shown));
		return err_hint(e, "name one in a token_file, or say no_auth if whoever reaches it "
				   "may run code");
	}
	return 0;
}

static int by_token(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	int r = strcmp(strchrnul(x, ':'), strchrnul(y, ':'));

	return r != 0 ? r : strcmp(x, y);
}

/* A token belongs to one tenant: which one it is must not depend on the order of lines. */
static int check_tenants(const struct config *c, struct err *e)
{
	unsigned int n;
	char *const *tokens = config_list(c, CONF_TOKEN, &n);
	own_free const char **sorted = calloc(n + 1, sizeof(*sorted));

	if (sorted == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "compare tokens");
	for (unsigned int i = 0; i < n; i++)
		sorted[i] = tokens[i];
	qsort(sorted, n, sizeof(*sorted), by_token);
	for (unsigned int i = 1; i < n; i++) {
		const char *a = sorted[i - 1], *b = sorted[i];

		if (strcmp(strchrnul(a, ':'), strchrnul(b, ':')) == 0 && strcmp(a, b) != 0)
			return err_set(e, ERR_INPUT, 0,
				       "one token belongs to two tenants, '%.*s' and '%.*s'",
				       (int)strcspn(a, ":"), a, (int)strcspn(b, ":"), b);
	}
	return 0;
}

static int check_backend(const struct config *c, struct err *e)
{
	const char *backend = config_str(c, CONF_EXECUTOR_BACKEND);

	if (*backend == '\0' || strcmp(backend, "native") == 0)
		return 0;
	(void)err_set(e, ERR_INPUT, 0, "backend '%s' is not built", backend);
	return err_hint(e, "executor_backend is native, or nothing");
}

static int check_ttl(const struct config *c, struct err *e)
{
	if (config_u64(c, CONF_SESSION_TTL_DEFAULT) <= config_u64(c, CONF_SESSION_TTL_MAX))
		return 0;
	return err_set(
		e, ERR_INPUT, 0, "session_ttl_default '%s' is more than session_ttl_max '%s'",
		config_str(c, CONF_SESSION_TTL_DEFAULT), config_str(c, CONF_SESSION_TTL_MAX));
}

int config_check(const struct config *c, struct err *e)
{
	static int (*const checks[])(const struct config *, struct err *) = {
		check_tls, check_auth, check_tenants, check_backend, check_ttl,
	};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (checks[i](c, e) < 0)
			return -1;
	return 0;
}
