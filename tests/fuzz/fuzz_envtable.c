/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows about environments, as the keeper has them from the supervisor and a gate from the keeper.
 *
 * Claims: a row that is taken keeps the rules of wire/envtable.h; written again, it is the same bytes; with a byte less it is none.
 */
#include "wire/envtable.h"

#include "wire/msg.h"

#include <errno.h>

#include "fuzz_input.h"

static void check(const struct env_row *r)
{
	size_t at = 0;

	MUST(r->id != 0 && r->kind < ENV_KIND_MAX && env_is_name(r->name));
	MUST(strlen(r->name) < ENV_NAME && strlen(r->python) < ENV_PATH);
	MUST(strlen(r->path) < ENV_PATH && strlen(r->imports) < ENV_IMPORTS);
	MUST(strlen(r->version) < ENV_VERSION_TEXT && strlen(r->tree) < PATH_MAX);
	MUST(r->python[0] == '\0' || (r->python[0] == '/' && strstr(r->python, "/../") == NULL));
	MUST(r->variables_len <= ENV_VARIABLES);
	while (at < r->variables_len) {
		const char *end = memchr(r->variables + at, '\0', r->variables_len - at);
		const char *equals = strchr(r->variables + at, '=');

		MUST(end != NULL && equals != NULL && equals > r->variables + at && equals < end);
		at = (size_t)(end - r->variables) + 1;
	}
}

static void check_again(const struct env_row *r, const uint8_t *p, size_t n)
{
	static struct env_row shorter;
	uint8_t *again = exact_copy(p, n);
	struct msg_out out;
	struct msg_in in;

	msg_out_init(&out, again, n);
	env_row_put(&out, r);
	MUST(!out.failed && out.len == n && memcmp(again, p, n) == 0);
	free(again);
	again = exact_copy(p, n - 1);
	msg_in_init(&in, again, n - 1);
	MUST(env_row_get(&in, &shorter) == -EPROTO);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct env_row row;
	uint8_t *copy = exact_copy(data, size);
	struct msg_in in;

	msg_in_init(&in, copy, size);
	while (in.at < in.len) {
		size_t before = in.at;
		int r = env_row_get(&in, &row);

		MUST(r == 0 || r == -EPROTO);
		if (r < 0)
			break;
		check(&row);
		check_again(&row, copy + before, in.at - before);
	}
	free(copy);
	return 0;
}
