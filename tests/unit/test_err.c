/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/err.c: errors with a text for a person. */
#include "base/err.h"

#include <errno.h>
#include <string.h>

#include "test_help.h"

TEST(err_set_fills_everything)
{
	struct err e;

	memset(&e, 'x', sizeof(e));
	CHECK_EQ_INT(err_set(&e, ERR_SYS, ENOENT, "open '%s'", "/a"), -1);
	CHECK_EQ_INT(e.kind, ERR_SYS);
	CHECK_EQ_INT(e.sys, ENOENT);
	CHECK_STR(e.text, "open '/a': No such file or directory");
	CHECK_STR(e.hint, "");
}

TEST(err_set_without_errno_adds_nothing)
{
	struct err e;

	CHECK_EQ_INT(err_set(&e, ERR_USAGE, 0, "no such verb"), -1);
	CHECK_EQ_INT(e.sys, 0);
	CHECK_STR(e.text, "no such verb");
}

TEST(err_set_forgets_an_older_hint)
{
	struct err e;

	(void)err_set(&e, ERR_LAYER, 0, "first");
	CHECK_EQ_INT(err_hint(&e, "do %d things", 2), -1);
	CHECK_STR(e.hint, "do 2 things");
	CHECK_STR(e.text, "first");
	(void)err_set(&e, ERR_LAYER, 0, "second");
	CHECK_STR(e.hint, "");
}

TEST(err_wrap_puts_context_in_front)
{
	struct err e;

	(void)err_set(&e, ERR_INPUT, EPERM, "mount '/x'");
	(void)err_hint(&e, "be root");
	CHECK_EQ_INT(err_wrap(&e, "box %d", 7), -1);
	CHECK_EQ_INT(err_wrap(&e, "gate"), -1);
	CHECK_STR(e.text, "gate: box 7: mount '/x': Operation not permitted");
	CHECK_EQ_INT(e.kind, ERR_INPUT);
	CHECK_EQ_INT(e.sys, EPERM);
	CHECK_STR(e.hint, "be root");
}

/* Whatever the length, the text is terminated inside its array, and what was written first is still there. */
TEST(err_text_is_cut_not_overrun)
{
	char what[2 * ERR_TEXT];
	struct err e;

	for (size_t n = ERR_TEXT - 40; n < ERR_TEXT + 40; n++) {
		memset(what, 'w', sizeof(what));
		what[n] = '\0';
		memset(&e, 'x', sizeof(e));
		(void)err_set(&e, ERR_SYS, EIO, "%s", what);
		CHECK(strnlen(e.text, ERR_TEXT) < ERR_TEXT);
		CHECK_MEM(e.text, what, n < ERR_TEXT - 1 ? n : ERR_TEXT - 1);
		CHECK_STR(e.hint, "");
		(void)err_wrap(&e, "context");
		CHECK(strnlen(e.text, ERR_TEXT) < ERR_TEXT);
		CHECK_MEM(e.text, "context: www", 12);
		(void)err_wrap(&e, "%s", what);
		CHECK(strnlen(e.text, ERR_TEXT) < ERR_TEXT);
		(void)err_hint(&e, "%s", what);
		CHECK_EQ_INT(strnlen(e.hint, ERR_HINT), ERR_HINT - 1);
	}
}

TEST(err_kind_str_names_each_kind_once)
{
	for (int i = 0; i < ERR_KIND_MAX; i++) {
		const char *name = err_kind_str((enum err_kind)i);

		CHECK(name != NULL && name[0] != '\0' && strcmp(name, "?") != 0);
		for (int j = 0; j < i; j++)
			CHECK(strcmp(name, err_kind_str((enum err_kind)j)) != 0);
	}
	CHECK_STR(err_kind_str(ERR_KIND_MAX), "?");
	CHECK_STR(err_kind_str((enum err_kind) - 1), "?");
}
