// SPDX-License-Identifier: Apache-2.0
#include "tools/spec.h"

#include "base/bytes.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16, LIST_MAX = 256 };

/* What is needed on the way. */
struct reading {
	struct spec *s;
	const struct jsonr *d;
	spec_variable *variable;
	void *arg;
	struct err *e;
};

/* --- texts ---------------------------------------------------------------------------------------- */

static char *keep(struct texts_own *own, char *text)
{
	char **more = text != NULL ? realloc(own->v, (own->n + 1) * sizeof(*more)) : NULL;

	if (more == NULL) {
		free(text);
		return NULL;
	}
	own->v = more;
	own->v[own->n++] = text;
	return text;
}

void texts_own_done(struct texts_own *own)
{
	for (unsigned int i = 0; i < own->n; i++)
		free(own->v[i]);
	free(own->v);
	*own = (struct texts_own){ 0 };
}

/* One ${NAME}; returns behind it. NULL: e. */
static const char *put_variable(struct bytes *b, const char *p, spec_variable *variable, void *arg,
				struct err *e)
{
	const char *end = strchr(p, '}'), *value;
	char name[128];

	if (end == NULL || end - p - 2 <= 0 || (size_t)(end - p - 2) >= sizeof(name)) {
		(void)err_set(e, ERR_USAGE, 0, "'${' without a name and '}'");
		return NULL;
	}
	(void)snprintf(name, sizeof(name), "%.*s", (int)(end - p - 2), p + 2);
	value = variable(arg, name);
	if (value == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "the variable '%s' is not set", name);
		return NULL;
	}
	bytes_puts(b, value);
	return end + 1;
}

const char *spec_expand(struct texts_own *own, const char *text, spec_variable *variable, void *arg,
			struct err *e)
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
			text = put_variable(&b, text, variable, arg, e);
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
	got = keep(own, b.p);
	if (got == NULL)
		(void)err_set(e, ERR_SYS, ENOMEM, "read a value");
	return got;
}

static const char *expand(struct reading *r, const char *text)
{
	return spec_expand(&r->s->own, text, r->variable, r->arg, r->e);
}

bool spec_is_name(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= SPEC_NAME || strchr("-.", name[0]) != NULL)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((name[i] | 32) >= 'a' && (name[i] | 32) <= 'z') &&
		    !(name[i] >= '0' && name[i] <= '9') && strchr("_-.", name[i]) == NULL)
			return false;
	return true;
}

/* --- members ---------------------------------------------------------------------------------------- */

/* A member that is a string, with its variables; *ret is NULL where there is none. */
static int take_text(struct reading *r, const struct jsonr_node *object, const char *key,
		     const char **ret)
{
	const struct jsonr_node *n = jsonr_get(r->d, object, key);

	*ret = NULL;
	if (n == NULL)
		return 0;
	if (n->type != JSONR_STRING)
		return err_set(r->e, ERR_USAGE, 0, "'%s' is no string", key);
	*ret = expand(r, n->string);
	return *ret != NULL ? 0 : -1;
}

/* The strings of a list, or "NAMExVALUE" of the members of an object; ends in NULL. before: what stands first, or NULL. */
static int take_many(struct reading *r, const struct jsonr_node *n, const char *what,
		     const char *between, const char *before, char ***ret)
{
	enum jsonr_type type = between != NULL ? JSONR_OBJECT : JSONR_ARRAY;
	char **v = calloc((n != NULL && n->type == type ? n->len : 0) + 2u, sizeof(*v));
	unsigned int at = 0;

	*ret = v;
	if (v == NULL)
		return err_set(r->e, ERR_SYS, ENOMEM, "read '%s'", what);
	if (before != NULL && (v[at++] = keep(&r->s->own, strdup(before))) == NULL)
		return err_set(r->e, ERR_SYS, ENOMEM, "read '%s'", what);
	if (n == NULL)
		return 0;
	if (n->type != type || n->len > LIST_MAX)
		return err_set(r->e, ERR_USAGE, 0, "'%s' is no %s of %d at most", what,
			       between != NULL ? "object" : "list", LIST_MAX);
	for (const struct jsonr_node *one = jsonr_first(r->d, n); one != NULL;
	     one = jsonr_next(r->d, one)) {
		const char *value = one->type == JSONR_STRING ? expand(r, one->string) : NULL;
		char *text = NULL;

		if (one->type != JSONR_STRING)
			return err_set(r->e, ERR_USAGE, 0, "'%s' has what is no string", what);
		if (value == NULL)
			return -1;
		if (asprintf(&text, "%s%s%s", between != NULL ? one->key : "",
			     between != NULL ? between : "", value) < 0)
			text = NULL;
		v[at] = keep(&r->s->own, text);
		if (v[at++] == NULL)
			return err_set(r->e, ERR_SYS, ENOMEM, "read '%s'", what);
	}
	return 0;
}

static int take_headers(struct reading *r, const struct jsonr_node *n)
{
	struct mcp_place *place = &r->s->place;
	char **v;
	int rc = take_many(r, n, "headers", ": ", NULL, &v);

	for (unsigned int i = 0; rc == 0 && v[i] != NULL; i++) {
		if (!mcp_header_check(v[i]) || place->nheaders == MCP_PLACE_HEADERS)
			rc = err_set(r->e, ERR_USAGE, 0,
				     "'headers' has one that can be none, or too many");
		else
			place->headers[place->nheaders++] = v[i];
	}
	free(v);
	return rc;
}

/* In units of the table: bytes, how many, thousandths of a processor, seconds. */
static int take_limits(struct reading *r, const struct jsonr_node *n)
{
	if (n == NULL)
		return 0;
	if (n->type != JSONR_OBJECT)
		return err_set(r->e, ERR_USAGE, 0, "'limits' is no object");
	for (const struct jsonr_node *one = jsonr_first(r->d, n); one != NULL;
	     one = jsonr_next(r->d, one)) {
		const struct limit_row *row = NULL;
		double v = one->type == JSONR_INT    ? (double)one->integer
			   : one->type == JSONR_REAL ? one->real
						     : -1;
		int id = 0;

		for (; id < LIMIT_ID_MAX; id++) {
			row = limit_row((enum limit_id)id);
			if (strcmp(row->key, one->key) == 0)
				break;
		}
		if (id == LIMIT_ID_MAX)
			return err_set(r->e, ERR_USAGE, 0, "there is no limit '%.64s'", one->key);
		if (row->unit == LIMIT_MILLI)
			v *= 1000;
		if (v < (double)row->min || v > (double)row->max)
			return err_set(r->e, ERR_USAGE, 0, "'limits.%s' is out of its bounds",
				       row->key);
		r->s->limits[id] = (uint64_t)v;
		r->s->limited |= 1u << id;
	}
	return 0;
}

static int take_mount(struct reading *r, const struct jsonr_node *n)
{
	const struct jsonr_node *writable = jsonr_get(r->d, n, "writable");
	struct spec_mount *m = &r->s->mounts[r->s->nmounts];

	if (n->type != JSONR_OBJECT || r->s->nmounts == SPEC_MOUNTS_MAX ||
	    (writable != NULL && writable->type != JSONR_BOOL))
		return err_set(
			r->e, ERR_USAGE, 0,
			"'mounts' is no list of %d objects {root, path, at, writable} at most",
			SPEC_MOUNTS_MAX);
	if (take_text(r, n, "root", &m->root) < 0 || take_text(r, n, "path", &m->path) < 0 ||
	    take_text(r, n, "at", &m->at) < 0)
		return -1;
	if (m->root == NULL || m->at == NULL || strlen(m->at) >= SPEC_PLACE)
		return err_set(r->e, ERR_USAGE, 0, "a mount has to have 'root' and 'at'");
	m->path = m->path != NULL ? m->path : "";
	m->writable = writable != NULL && writable->boolean;
	r->s->nmounts++;
	return 0;
}

static int take_mounts(struct reading *r, const struct jsonr_node *n)
{
	int rc = 0;

	if (n == NULL)
		return 0;
	if (n->type != JSONR_ARRAY)
		return err_set(r->e, ERR_USAGE, 0, "'mounts' is no list");
	for (const struct jsonr_node *one = jsonr_first(r->d, n); one != NULL && rc == 0;
	     one = jsonr_next(r->d, one))
		rc = take_mount(r, one);
	return rc;
}

static bool ends_in_sse(const char *url)
{
	size_t n = strcspn(url, "?#");

	while (n > 0 && url[n - 1] == '/')
		n--;
	return n >= 4 && strncmp(url + n - 4, "/sse", 4) == 0;
}

static int take_all(struct reading *r, const struct jsonr_node *n)
{
	struct spec *s = r->s;
	const char *command, *type;

	if (take_text(r, n, "command", &command) < 0 || take_text(r, n, "url", &s->place.url) < 0 ||
	    take_text(r, n, "type", &type) < 0)
		return -1;
	if ((command == NULL) == (s->place.url == NULL))
		return err_set(r->e, ERR_USAGE, 0, "it has to have one of 'command' and 'url'");
	s->typed = type != NULL;
	if (command == NULL) {
		s->place.old = type != NULL ? strcmp(type, "sse") == 0 : ends_in_sse(s->place.url);
		return take_headers(r, jsonr_get(r->d, n, "headers"));
	}
	if (take_many(r, jsonr_get(r->d, n, "args"), "args", NULL, command, &s->argv) < 0 ||
	    take_many(r, jsonr_get(r->d, n, "env"), "env", "=", NULL, &s->env) < 0 ||
	    take_text(r, n, "cwd", &s->cwd) < 0 ||
	    take_limits(r, jsonr_get(r->d, n, "limits")) < 0 ||
	    take_mounts(r, jsonr_get(r->d, n, "mounts")) < 0)
		return -1;
	s->place.argv = s->argv;
	s->place.env = s->env;
	return 0;
}

int spec_read(struct spec *s, const struct jsonr *d, const struct jsonr_node *n,
	      spec_variable *variable, void *arg, struct err *e)
{
	struct reading r = { .s = s, .d = d, .variable = variable, .arg = arg, .e = e };

	*s = (struct spec){ 0 };
	if (n == NULL || n->type != JSONR_OBJECT)
		return err_set(e, ERR_USAGE, 0, "it is no object");
	return take_all(&r, n);
}

void spec_done(struct spec *s)
{
	free(s->argv);
	free(s->env);
	texts_own_done(&s->own);
	*s = (struct spec){ 0 };
}
