// SPDX-License-Identifier: Apache-2.0
#include "wire/envtable.h"

#include "base/own.h"
#include "base/str.h"
#include "wire/msg.h"

#include <errno.h>
#include <string.h>

const char *const env_kind_str[] = { "packages", "root" };
_Static_assert(ARRAY_LEN(env_kind_str) == ENV_KIND_MAX, "a kind lacks its word");

bool env_is_own(const char *name)
{
	static const char *const names[] = { "default", "python", "python3" };

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

bool env_is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return n > 0 && n < ENV_NAME && name[n] == '\0' && strchr("-_.", name[0]) == NULL &&
	       !env_is_own(name);
}

void env_row_put(struct msg_out *m, const struct env_row *r)
{
	msg_put_u32(m, r->id);
	msg_put_str(m, r->name);
	msg_put_u8(m, (uint8_t)r->kind);
	msg_put_str(m, r->python);
	msg_put_str(m, r->path);
	msg_put_str(m, r->imports);
	msg_put_bytes(m, r->variables, r->variables_len);
	msg_put_str(m, r->version);
	msg_put_u8(m, r->cells);
	msg_put_u32(m, r->pool);
	msg_put_u64(m, r->bytes);
	msg_put_u64(m, r->made_ms);
	msg_put_str(m, r->tree);
	msg_put_u8(m, r->gone);
}

static int get_variables(struct msg_in *m, struct env_row *r)
{
	size_t n;
	const uint8_t *p = msg_get_bytes(m, sizeof(r->variables), &n);

	if (m->failed || (n > 0 && p[n - 1] != '\0'))
		return -EPROTO;
	if (n > 0)
		(void)memcpy(r->variables, p, n);
	r->variables_len = n;
	for (const char *at = r->variables; at < r->variables + n; at += strlen(at) + 1)
		if (strchr(at, '=') == NULL || at[0] == '=')
			return -EPROTO;
	return 0;
}

int env_row_get(struct msg_in *m, struct env_row *r)
{
	uint8_t kind, cells, gone;

	*r = (struct env_row){ .id = msg_get_u32(m) };
	(void)msg_get_str(m, r->name, sizeof(r->name));
	kind = msg_get_u8(m);
	(void)msg_get_str(m, r->python, sizeof(r->python));
	(void)msg_get_str(m, r->path, sizeof(r->path));
	(void)msg_get_str(m, r->imports, sizeof(r->imports));
	if (get_variables(m, r) < 0)
		return -EPROTO;
	(void)msg_get_str(m, r->version, sizeof(r->version));
	cells = msg_get_u8(m);
	r->pool = msg_get_u32(m);
	r->bytes = msg_get_u64(m);
	r->made_ms = msg_get_u64(m);
	(void)msg_get_str(m, r->tree, sizeof(r->tree));
	gone = msg_get_u8(m);
	if (m->failed || r->id == 0 || kind >= ENV_KIND_MAX || cells > 1 || gone > 1 ||
	    !env_is_name(r->name) || (r->python[0] != '\0' && !path_is_plain_abs(r->python)))
		return -EPROTO;
	r->kind = (enum env_kind)kind;
	r->cells = cells != 0;
	r->gone = gone != 0;
	return 0;
}
