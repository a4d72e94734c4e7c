// SPDX-License-Identifier: Apache-2.0
/*
 * What the operator has configured, as the supervisor passes it on: {"idle_ms", "ca_file", "variables": {NAME: VALUE}, "lent": [NAME], "places": ["host:port"], "servers": {NAME:
 * {…}}}. It came by a file that nobody else can read, and is forgotten but for what is needed.
 */
#include "tools/tools.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SETTINGS_MAX = 4 << 20 };

static const struct setting *find(const struct tools *t, const char *name)
{
	for (unsigned int i = 0; i < t->nsettings; i++)
		if (strcmp(t->settings[i].name, name) == 0)
			return &t->settings[i];
	return NULL;
}

const char *settings_variable(void *tools, const char *name)
{
	const struct setting *s = find(tools, name);

	return s != NULL ? s->value : NULL;
}

const char *settings_lent(void *tools, const char *name)
{
	const struct setting *s = find(tools, name);

	return s != NULL && s->lent ? s->value : NULL;
}

static int take_variables(struct tools *t, const struct jsonr *d, const struct jsonr_node *n)
{
	for (const struct jsonr_node *one = jsonr_first(d, n); one != NULL;
	     one = jsonr_next(d, one)) {
		struct setting *s = &t->settings[t->nsettings];

		if (t->nsettings == SETTINGS_VARIABLES || one->type != JSONR_STRING)
			return -1;
		*s = (struct setting){ .name = strdup(one->key), .value = strdup(one->string) };
		if (s->name == NULL || s->value == NULL)
			return -1;
		t->nsettings++;
	}
	return 0;
}

static void take_lent(struct tools *t, const struct jsonr *d, const struct jsonr_node *n)
{
	for (const struct jsonr_node *one = jsonr_first(d, n); one != NULL;
	     one = jsonr_next(d, one))
		for (unsigned int i = 0; i < t->nsettings; i++)
			if (one->type == JSONR_STRING &&
			    strcmp(t->settings[i].name, one->string) == 0)
				t->settings[i].lent = true;
}

/* "host:port", in the keeper's order. */
static int take_places(struct tools *t, const struct jsonr *d, const struct jsonr_node *n)
{
	for (const struct jsonr_node *one = jsonr_first(d, n); one != NULL;
	     one = jsonr_next(d, one)) {
		if (one->type != JSONR_STRING || t->nplaces == PLACES_MAX ||
		    endpoint_parse(one->string, one->len, 80, &t->places[t->nplaces]) < 0)
			return -1;
		t->nplaces++;
	}
	return 0;
}

static int take_servers(struct tools *t, const struct jsonr *d, const struct jsonr_node *n,
			struct err *e)
{
	for (const struct jsonr_node *one = jsonr_first(d, n); one != NULL;
	     one = jsonr_next(d, one))
		if (server_new(t, "", one->key, d, one, settings_variable, e) == NULL)
			return err_wrap(e, "server '%.64s'", one->key);
	return 0;
}

static int take_all(struct tools *t, const struct jsonr *d, struct err *e)
{
	const struct jsonr_node *root = jsonr_root(d), *idle = jsonr_get(d, root, "idle_ms"),
				*ca = jsonr_get(d, root, "ca_file");

	if (idle == NULL || idle->type != JSONR_INT || idle->integer < 0 ||
	    take_variables(t, d, jsonr_get(d, root, "variables")) < 0 ||
	    take_places(t, d, jsonr_get(d, root, "places")) < 0)
		return err_set(e, ERR_INPUT, 0, "the settings make no sense");
	t->idle_us = (uint64_t)idle->integer * 1000;
	if (ca != NULL && ca->type == JSONR_STRING)
		(void)snprintf(t->ca_file, sizeof(t->ca_file), "%s", ca->string);
	take_lent(t, d, jsonr_get(d, root, "lent"));
	return take_servers(t, d, jsonr_get(d, root, "servers"), e);
}

int settings_read(struct tools *t, int fd, struct err *e)
{
	own_free char *text = malloc(SETTINGS_MAX);
	ssize_t n = text != NULL ? pread(fd, text, SETTINGS_MAX, 0) : -1;
	struct jsonr d;
	int r;

	if (n < 0 || jsonr_parse(&d, text, (size_t)n, NULL) < 0)
		return err_set(e, ERR_INPUT, 0, "the settings cannot be read");
	r = take_all(t, &d, e);
	jsonr_done(&d);
	explicit_bzero(text, (size_t)n);
	return r;
}
