// SPDX-License-Identifier: Apache-2.0
/* The environment of what runs in a box: ours, then what its network needs, then the box's, then its own; the last of a name counts. */
#include "gate/box_net.h"
#include "gate/boxes.h"

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

int box_env_begin(struct box_env *e, const struct abox *a, const char *const *ours)
{
	const char *const *trust = box_net_variables(a);

	e->n = 0;
	e->strings = NULL;
	e->v[0] = NULL;
	for (; *ours != NULL; ours++)
		(void)put(e, *ours);
	for (; *trust != NULL; trust++)
		(void)put(e, *trust);
	return box_env_add(e, &a->env);
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
