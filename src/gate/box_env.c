// SPDX-License-Identifier: Apache-2.0
/* The variables of what runs in a box: ours, then those of what it is made of, then what its network needs, then the box's, then its own; the last of a name counts. */
#include "gate/box_net.h"
#include "gate/boxes.h"
#include "gate/ci.h"
#include "gate/genv.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>

/* A variable takes the place of one of that name. */
static int put(struct box_env *e, const char *text)
{
	size_t n = strcspn(text, "=") + 1;

	for (size_t i = 0; i < e->n; i++)
		if (strncmp(e->v[i], text, n) == 0) {
			e->v[i] = text;
			return 0;
		}
	if (e->n + 1 >= JOB_ENV_MAX)
		return -E2BIG;
	e->v[e->n++] = text;
	e->v[e->n] = NULL;
	return 0;
}

static int put_all(struct box_env *e, const char *const *v)
{
	int r = 0;

	for (; *v != NULL && r == 0; v++)
		r = put(e, *v);
	return r;
}

static int begin(struct box_env *e, const char *const *ours, const struct genv *v)
{
	int r;

	e->n = 0;
	e->strings = NULL;
	e->v[0] = NULL;
	r = put_all(e, ours);
	return r < 0 ? r : put_all(e, genv_variables(v));
}

int genv_begin(struct box_env *e, const struct genv *v)
{
	return begin(e, ci_environment(), v);
}

int box_env_begin(struct box_env *e, const struct abox *a, const char *const *ours)
{
	int r = begin(e, ours, a->box->env);

	if (r == 0)
		r = put_all(e, box_net_variables(a));
	return r < 0 ? r : box_env_add(e, &a->env);
}

int box_env_add(struct box_env *e, const struct texts *t)
{
	const char *key, *value;
	size_t at = 0;

	while (texts_next(t, &at, &key, &value)) {
		size_t n = strlen(key) + strlen(value) + 1;
		char *text = ci_string(&e->strings, n);

		if (text == NULL)
			return -ENOMEM;
		(void)snprintf(text, n + 1, "%s=%s", key, value);
		if (put(e, text) < 0)
			return -E2BIG;
	}
	return 0;
}

void box_env_done(struct box_env *e)
{
	ci_strings_free(e->strings);
	e->strings = NULL;
}
