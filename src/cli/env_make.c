// SPDX-License-Identifier: Apache-2.0
/*
 * A version of an environment: made, filled in a box, looked at in a box of its own, and only then named. Whatever goes wrong on the way, the name means what it meant before, and what was
 * half made is removed.
 */
#include "cli/env.h"

#include "base/own.h"
#include "base/str.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SAID_MAX = 64 * 1024, IMPORTS = 128 };

/* --- what it has ------------------------------------------------------------------------------ */

static bool is_version(const char *text)
{
	return text[0] != '\0' && strspn(text, "0123456789.") == strlen(text);
}

/* Each thing that could not be imported, as its own Python has said it: for a person, and harmless. */
static void say_failed(struct json_text list)
{
	struct json_walk w = json_walk(list);
	struct json_text key, value;
	char text[512];

	while (json_walk_next(&w, &key, &value))
		if (json_text_str(value, text, sizeof(text)))
			say("cannot be imported: %s", text);
}

/* A line of a program in a box: hostile. -1: it is none that was asked for. */
static int take_found(char *said, struct env_row *row)
{
	struct json_member m[] = { { .key = "python_version" },
				   { .key = "cells" },
				   { .key = "failed" } };
	struct json_text t;

	said[strcspn(said, "\n")] = '\0';
	if (json_text_read(said, strlen(said), &t) < 0)
		return -1;
	json_text_find(t, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, row->version, sizeof(row->version)) ||
	    !is_version(row->version))
		return -1;
	row->cells = json_text_kind(m[1].value) == 't' && m[1].value.p[0] == 't';
	say_failed(m[2].value);
	return 0;
}

static int probe(const struct env_opts *o, const char *version, struct env_row *row)
{
	static char said[SAID_MAX], imports[ENV_IMPORTS];
	const char *words[IMPORTS + 1];
	char *save = NULL;
	unsigned int n = 0;
	struct boxed b = { .program = BOXED_PROBE,
			   .environment = version,
			   .words = words,
			   .said = said,
			   .size = sizeof(said) };
	int status;

	(void)snprintf(imports, sizeof(imports), "%s", row->imports);
	for (char *w = strtok_r(imports, " ", &save); w != NULL && n < IMPORTS;
	     w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	words[n] = NULL;
	if (row->python[0] == '\0')
		return 0;
	status = env_run(o, &b);
	if (status != 0 || take_found(said, row) < 0) {
		say("its Python does not run");
		return status != 0 ? status : EXIT_GLOVEBOX;
	}
	return 0;
}

/* --- from its beginning to its name --------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void tell(const struct env_opts *o, const struct env_row *row)
{
	char size[32];

	if (row->python[0] == '\0')
		(void)printf("%s: no Python: for commands only", o->name);
	else
		(void)printf("%s: Python %s%s", o->name, row->version,
			     row->cells ? "" : ", without IPython: for commands only");
	(void)printf(", %s\n", str_from_bytes(row->bytes, size, sizeof(size)));
}

static int or_asked(int status)
{
	return env_asked() != 0 ? EXIT_SIGNAL_BASE + env_asked() : status;
}

/* A page that lets boxes of the version be made, before its name means it. */
static int look(const struct env_opts *o, const struct envdir *d, int page, const char *version,
		struct env_row *row)
{
	struct envtree_size size;
	struct err e;
	int status;

	if (!env_fits(o, row->tree, &size))
		return EXIT_GLOVEBOX;
	row->bytes = size.bytes;
	row->made_ms = now_ms();
	if (envdir_draft(page, version, row, &e) < 0)
		return say_err(&e);
	status = or_asked(probe(o, version, row));
	if (status != 0)
		return status;
	return envdir_publish(d, page, version, row, &e) < 0 ? say_err(&e) : 0;
}

/* A version of that name, complete or not there. */
static int make(const struct env_opts *o, const struct envdir *d, struct env_row *row,
		int (*fill)(const struct env_opts *o, const char *tree, struct env_row *row))
{
	char version[ENVDIR_VERSION];
	own_fd page = -1;
	struct err e;
	int status;

	page = envdir_new(d, o->name, version, &e);
	if (page < 0)
		return say_err(&e);
	(void)snprintf(row->name, sizeof(row->name), "%s", o->name);
	(void)snprintf(row->imports, sizeof(row->imports), "%s",
		       o->imports != NULL ? o->imports : "");
	(void)snprintf(row->tree, sizeof(row->tree), "%.*s/%s/tree", PATH_MAX - 128, d->path,
		       version);
	status = or_asked(fill(o, row->tree, row));
	if (status == 0)
		status = look(o, d, page, version, row);
	return status;
}

/* What is mounted is named by HOST:BOX. */
static int check_paths(const struct env_opts *o)
{
	const char *const paths[] = { o->dir, o->find_links, o->source };
	struct err e;

	for (unsigned int i = 0; i < ARRAY_LEN(paths); i++)
		if (paths[i] != NULL && strchr(paths[i], ':') != NULL) {
			(void)err_set(&e, ERR_INPUT, 0, "'%s': a path with ':' cannot be mounted",
				      paths[i]);
			return say_err(&e);
		}
	return 0;
}

int env_make(const struct env_opts *o, enum env_kind kind,
	     int (*fill)(const struct env_opts *o, const char *tree, struct env_row *row))
{
	static struct env_row row;
	struct envdir d = { .fd = -1 };
	struct err e;
	int status;

	row = (struct env_row){ .kind = kind, .pool = o->pool };
	status = check_paths(o);
	if (status != 0)
		return status;
	if (envdir_open(&d, o->dir, &e) < 0)
		return say_err(&e);
	env_guard();
	(void)envdir_sweep(&d);
	status = make(o, &d, &row, fill);
	(void)envdir_sweep(&d);
	envdir_close(&d);
	if (status == 0)
		tell(o, &row);
	return status;
}
