// SPDX-License-Identifier: Apache-2.0
#include "cli/box_body.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void box_put_limits(struct json *j, const struct limits *l, const bool set[LIMIT_ID_MAX])
{
	json_open(j, "limits", '{');
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);

		if (set[i] && row->unit == LIMIT_MILLI)
			json_milli(j, row->key, l->v[i]);
		else if (set[i])
			json_u64(j, row->key, l->v[i]);
	}
	json_close(j, '}');
}

void box_put_env(struct json *j, const char *const *env, unsigned int n)
{
	char name[256];

	json_open(j, "env", '{');
	for (unsigned int i = 0; i < n; i++) {
		size_t len = strcspn(env[i], "=");

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, env[i]);
		json_str(j, name, env[i] + len + 1);
	}
	json_close(j, '}');
}

/* --- directories of this machine ------------------------------------------------------------------ */

int box_bind_check(const char *option, const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');

	if (colon == NULL || colon == text || colon[1] == '\0')
		return err_set(e, ERR_USAGE, 0, "--%s '%s' is not DIR:PATH", option, text);
	return 0;
}

static int split(const char *text, const char *base, struct box_bind *b, struct err *e)
{
	char rest[PATH_MAX];
	size_t n;

	*b = (struct box_bind){ 0 };
	n = (size_t)(strchr(text, ':') - text); /* it has one: see box_bind_check() */
	if (n >= sizeof(b->root) || strlen(text + n + 1) >= sizeof(rest) - strlen(base) - 1)
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "'%.100s…'", text);
	(void)memcpy(b->root, text, n);
	(void)snprintf(rest, sizeof(rest), "%s", text + n + 1);
	n = strlen(rest);
	if (n > 3 && strcmp(rest + n - 3, ":ro") == 0) {
		b->read_only = true;
		rest[n - 3] = '\0';
	}
	n = rest[0] == '/' ? 0 : (size_t)snprintf(b->at, sizeof(b->at), "%s/", base);
	(void)snprintf(b->at + n, sizeof(b->at) - n, "%s", rest);
	return 0;
}

int box_bind_take(const char *text, const char *base, bool ours, struct box_bind *ret,
		  struct err *e)
{
	own_free char *real = NULL;
	char *two;

	if (split(text, base, ret, e) < 0)
		return -1;
	if (!ours) {
		two = strstr(ret->root + 1, "//");
		if (two != NULL) {
			(void)snprintf(ret->path, sizeof(ret->path), "%s", two + 2);
			*two = '\0';
		}
		return 0;
	}
	if (mkdir(ret->root, 0755) < 0 && errno != EEXIST)
		return err_set(e, ERR_INPUT, errno, "make the directory '%s'", ret->root);
	real = realpath(ret->root, NULL);
	if (real == NULL)
		return err_set(e, ERR_INPUT, errno, "open the directory '%s'", ret->root);
	(void)snprintf(ret->root, sizeof(ret->root), "%s", real);
	return 0;
}

int box_put_binds(struct json *j, const char *const *texts, unsigned int n, const char *base,
		  bool ours, struct err *e)
{
	static struct box_bind b;

	json_open(j, "mounts", '[');
	for (unsigned int i = 0; i < n; i++) {
		if (box_bind_take(texts[i], base, ours, &b, e) < 0)
			return -1;
		json_open(j, NULL, '{');
		json_str(j, "root", b.root);
		json_str(j, "path", b.path);
		json_str(j, "at", b.at);
		json_bool(j, "readonly", b.read_only);
		json_close(j, '}');
	}
	json_close(j, ']');
	return 0;
}
