/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/envtable.c: names of environments, and rows about them between supervisor, keeper and gate. */
#include "wire/envtable.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "wire/msg.h"

#include "test_help.h"

enum { ROW_MAX = 16384 };

static const char variables[] = "LANG=C.UTF-8\0EMPTY=\0TWO=a=b";

static void fill(struct env_row *r)
{
	*r = (struct env_row){ .id = 7,
			       .name = "research-2.x",
			       .kind = ENV_ROOT,
			       .python = "/usr/local/bin/python3",
			       .path = "/usr/local/bin:/usr/bin",
			       .imports = "numpy sklearn.svm",
			       .variables_len = sizeof(variables),
			       .version = "3.12.4",
			       .cells = true,
			       .pool = 3,
			       .bytes = UINT64_MAX,
			       .made_ms = 1795107546394,
			       .tree = "/var/lib/glovebox/environments/research-2.x@1/tree",
			       .gone = true };
	memcpy(r->variables, variables, sizeof(variables));
}

static size_t encode(const struct env_row *r, uint8_t *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	env_row_put(&m, r);
	return m.failed ? 0 : m.len;
}

static int decode(const uint8_t *buf, size_t n, struct env_row *r)
{
	struct msg_in in;
	int result;

	msg_in_init(&in, buf, n);
	result = env_row_get(&in, r);
	if (result == 0)
		CHECK_EQ_INT(in.at, n);
	return result;
}

/* --- names -------------------------------------------------------------------------------------------------- */

TEST(env_names)
{
	static const char *const good[] = {
		"a", "0", "a-b_c.d", "python3.11", "pythonx", "defaults"
	};
	static const char *const bad[] = { "",    ".",        "..",      "-a",     "_a",
					   ".a",  "A",        "a b",     "a/b",    "a@1",
					   "a\n", "\xc3\xa4", "default", "python", "python3" };
	char text[ENV_NAME + 1] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK(env_is_name(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!env_is_name(bad[i]));
	memset(text, 'x', ENV_NAME - 1);
	CHECK(env_is_name(text));
	text[ENV_NAME - 1] = 'x';
	CHECK(!env_is_name(text));
	CHECK(env_is_own("default") && env_is_own("python") && env_is_own("python3"));
	CHECK(!env_is_own("") && !env_is_own("python3.11"));
}

/* --- rows --------------------------------------------------------------------------------------------------- */

static void check_same(const struct env_row *a, const struct env_row *b)
{
	CHECK_EQ_INT(a->id, b->id);
	CHECK_STR(a->name, b->name);
	CHECK_EQ_INT(a->kind, b->kind);
	CHECK_STR(a->python, b->python);
	CHECK_STR(a->path, b->path);
	CHECK_STR(a->imports, b->imports);
	CHECK_EQ_INT(a->variables_len, b->variables_len);
	CHECK_MEM(a->variables, b->variables, a->variables_len);
	CHECK_STR(a->version, b->version);
	CHECK(a->cells == b->cells && a->gone == b->gone);
	CHECK(a->pool == b->pool && a->bytes == b->bytes && a->made_ms == b->made_ms);
	CHECK_STR(a->tree, b->tree);
}

TEST(env_row_comes_back)
{
	static struct env_row row, got;
	uint8_t buf[ROW_MAX];

	fill(&row);
	memset(&got, 0xee, sizeof(got));
	CHECK_EQ_INT(decode(buf, encode(&row, buf, sizeof(buf)), &got), 0);
	check_same(&got, &row);
	row = (struct env_row){ .id = UINT32_MAX, .name = "a" };
	CHECK_EQ_INT(decode(buf, encode(&row, buf, sizeof(buf)), &got), 0);
	check_same(&got, &row);
}

/* The longest of everything: it must still fit where all of them have to. */
TEST(env_row_of_the_largest_kind_has_room_in_a_table)
{
	static struct env_row row, got;
	static uint8_t buf[ENV_TABLE_MAX];
	struct msg_out m;

	row = (struct env_row){ .id = 1, .kind = ENV_ROOT, .variables_len = ENV_VARIABLES };
	memset(row.name, 'n', sizeof(row.name) - 1);
	memset(row.python, 'p', sizeof(row.python) - 1);
	row.python[0] = '/';
	memset(row.path, 'p', sizeof(row.path) - 1);
	memset(row.imports, 'i', sizeof(row.imports) - 1);
	memset(row.variables, 'v', sizeof(row.variables) - 1);
	row.variables[1] = '=';
	memset(row.version, '3', sizeof(row.version) - 1);
	memset(row.tree, 't', sizeof(row.tree) - 1);
	CHECK_EQ_INT(decode(buf, encode(&row, buf, sizeof(buf)), &got), 0);
	check_same(&got, &row);
	msg_out_init(&m, buf, sizeof(buf));
	for (int i = 0; i < ENVS_MAX; i++)
		env_row_put(&m, &row);
	CHECK(!m.failed && m.len < sizeof(buf));
}

TEST(env_row_at_every_size)
{
	static struct env_row row, got;
	uint8_t buf[ROW_MAX];
	size_t n;

	fill(&row);
	n = encode(&row, buf, sizeof(buf));
	CHECK(n > 0);
	for (size_t cap = 0; cap < n; cap++) {
		struct fence f = fence_open(ROW_MAX);

		CHECK_EQ_INT(encode(&row, fence_at(&f, cap), cap), 0);
		CHECK_EQ_INT(decode(fence_copy(&f, buf, cap), cap, &got), -EPROTO);
		fence_close(&f);
	}
}

/* --- what none of ours would write -------------------------------------------------------------------------- */

/* Fields one by one, so that each can be wrong. */
struct raw {
	uint32_t id;
	const char *name;
	uint8_t kind;
	const char *python, *path, *imports;
	const char *variables;
	size_t variables_len;
	const char *version;
	uint8_t cells;
	const char *tree;
	uint8_t gone;
};

static const struct raw plain = { .id = 1,
				  .name = "a",
				  .kind = ENV_ROOT,
				  .python = "/p",
				  .path = "",
				  .imports = "",
				  .variables = "A=1",
				  .variables_len = 4,
				  .version = "",
				  .tree = "" };

static int take(const struct raw *r)
{
	static struct env_row got;
	static uint8_t buf[ROW_MAX];
	struct msg_out m;

	msg_out_init(&m, buf, sizeof(buf));
	msg_put_u32(&m, r->id);
	msg_put_str(&m, r->name);
	msg_put_u8(&m, r->kind);
	msg_put_str(&m, r->python);
	msg_put_str(&m, r->path);
	msg_put_str(&m, r->imports);
	msg_put_bytes(&m, r->variables, r->variables_len);
	msg_put_str(&m, r->version);
	msg_put_u8(&m, r->cells);
	msg_put_u32(&m, 0);
	msg_put_u64(&m, 0);
	msg_put_u64(&m, 0);
	msg_put_str(&m, r->tree);
	msg_put_u8(&m, r->gone);
	CHECK(!m.failed);
	return decode(buf, m.len, &got);
}

static int take_with(size_t at, const char *text)
{
	struct raw r = plain;

	memcpy((char *)&r + at, &text, sizeof(text));
	return take(&r);
}

TEST(env_row_refuses_texts_that_are_too_long)
{
	static const struct {
		size_t at, size;
	} texts[] = { { offsetof(struct raw, name), ENV_NAME },
		      { offsetof(struct raw, python), ENV_PATH },
		      { offsetof(struct raw, path), ENV_PATH },
		      { offsetof(struct raw, imports), ENV_IMPORTS },
		      { offsetof(struct raw, version), ENV_VERSION_TEXT },
		      { offsetof(struct raw, tree), PATH_MAX } };
	static char text[PATH_MAX + 1];

	CHECK_EQ_INT(take(&plain), 0);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		bool python = texts[i].at == offsetof(struct raw, python);

		memset(text, 'x', texts[i].size);
		text[0] = python ? '/' : 'x';
		text[texts[i].size] = '\0';
		CHECK_EQ_INT(take_with(texts[i].at, text), -EPROTO);
		text[texts[i].size - 1] = '\0';
		CHECK_EQ_INT(take_with(texts[i].at, text), 0);
	}
}

TEST(env_row_refuses_what_cannot_be)
{
	static const char *const pythons[] = { "p", "/../p", "/a/./p", "//p", "/p/" };
	static const char *const names[] = { "", "A", "a/b", "default", "../a" };
	struct raw r;

	for (size_t i = 0; i < ARRAY_LEN(pythons); i++)
		CHECK_EQ_INT(take_with(offsetof(struct raw, python), pythons[i]), -EPROTO);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK_EQ_INT(take_with(offsetof(struct raw, name), names[i]), -EPROTO);
	CHECK_EQ_INT(take_with(offsetof(struct raw, python), ""), 0);
	r = plain;
	r.id = 0;
	CHECK_EQ_INT(take(&r), -EPROTO);
	r = plain;
	r.kind = ENV_KIND_MAX;
	CHECK_EQ_INT(take(&r), -EPROTO);
	r.kind = UINT8_MAX;
	CHECK_EQ_INT(take(&r), -EPROTO);
	r = plain;
	r.cells = 2;
	CHECK_EQ_INT(take(&r), -EPROTO);
	r = plain;
	r.gone = 2;
	CHECK_EQ_INT(take(&r), -EPROTO);
}

TEST(env_row_refuses_variables_that_are_none)
{
	static const struct {
		const char *bytes;
		size_t n;
		int want;
	} cases[] = { { "", 0, 0 },
		      { "A=", 3, 0 },
		      { "A=1\0B=2", 8, 0 },
		      { "A=1", 3, -EPROTO }, /* without its end */
		      { "A=1\0B=2", 7, -EPROTO },
		      { "", 1, -EPROTO }, /* an empty one */
		      { "A=1\0", 5, -EPROTO },
		      { "A", 2, -EPROTO },  /* no value */
		      { "=1", 3, -EPROTO }, /* no name */
		      { "A=1\0=2", 7, -EPROTO } };
	static char many[ENV_VARIABLES + 1];
	struct raw r = plain;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		r.variables = cases[i].bytes;
		r.variables_len = cases[i].n;
		CHECK_EQ_INT(take(&r), cases[i].want);
	}
	memset(many, '=', sizeof(many) - 1);
	many[0] = 'A';
	r.variables = many;
	r.variables_len = sizeof(many);
	CHECK_EQ_INT(take(&r), -EPROTO);
	r.variables = many + 1;
	many[1] = 'A';
	r.variables_len = sizeof(many) - 1;
	CHECK_EQ_INT(take(&r), 0);
}
