/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/cell_text.c: what can be told of a cell without its kernel. */
#include "cli/cell_text.h"

#include "test.h"

TEST(cell_goes_on_where_python_would)
{
	static const struct {
		const char *text;
		bool goes_on;
		unsigned int indent;
	} rows[] = {
		{ "x = 1", false, 0 },
		{ "for x in y:", true, 4 },
		{ "for x in y:  # and so on", true, 4 },
		{ "for x in y:\n    print(x)", true, 4 },
		{ "for x in y:\n    print(x)\n", false, 0 },
		{ "for x in y:\n    print(x)\n    ", false, 0 },
		{ "for x in y:\n    if x:", true, 8 },
		{ "if a:\n    b\nelse:", true, 4 },
		{ "print(1,", true, 0 },
		{ "print(1,\n", true, 0 },
		{ "print(1,\n2)", false, 0 },
		{ "x = [1, {2: (3", true, 0 },
		{ "x = ')' + \"(\"", false, 0 },
		{ "x = '(' # (", false, 0 },
		{ "x = 'it\\'s ('", false, 0 },
		{ "x = '''one", true, 0 },
		{ "x = '''one\n    two", true, 0 },
		{ "x = '''one\ntwo'''", false, 0 },
		{ "x = \"\"\"it's\n\"\"\"", false, 0 },
		{ "x = 1 + \\", true, 0 },
		{ "x = 1 + \\\n2", false, 0 },
		{ "x = 'open", false, 0 }, /* an error, for Python to say */
		{ "lambda: 1", false, 0 },
		{ "x = {'a': 1}", false, 0 },
		{ "@dataclass", true, 0 },
		{ "@dataclass\nclass A:\n    x: int", true, 4 },
		{ "@dataclass\nclass A:\n    x: int\n", false, 0 },
		{ "%%time", true, 0 },
		{ "%%bash\nls", true, 0 },
		{ "%%bash\nls\n", false, 0 },
		{ "%time x", false, 0 },
		{ "# only a comment:", false, 0 },
		{ ")", false, 0 },
		{ "", false, 0 },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int indent = 99;
		bool goes_on = cell_goes_on(rows[i].text, &indent);

		if (goes_on != rows[i].goes_on || (goes_on && indent != rows[i].indent))
			CHECK_STR(rows[i].text, goes_on ? "goes on" : "ends");
		CHECK_EQ_INT(goes_on, rows[i].goes_on);
	}
}

TEST(cell_is_a_way_out)
{
	CHECK(cell_is_exit("exit") && cell_is_exit(" quit()\n") && cell_is_exit("exit()"));
	CHECK(!cell_is_exit("") && !cell_is_exit("exit(1)") && !cell_is_exit("exits"));
	CHECK(!cell_is_exit("x = exit"));
	CHECK(cell_is_blank("") && cell_is_blank(" \n\t") && !cell_is_blank(" x"));
}

TEST(cell_counts_characters)
{
	static const char text[] = "a\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x98\x80z";

	for (size_t chars = 0; chars <= 5; chars++)
		CHECK_EQ_INT(cell_chars(text, cell_bytes(text, chars)), chars);
	CHECK_EQ_INT(cell_bytes(text, 2), 3);
	CHECK_EQ_INT(cell_bytes(text, 4), 10);
	CHECK_EQ_INT(cell_bytes(text, 99), sizeof(text) - 1);
	CHECK_EQ_INT(cell_chars(text, 99), 5);
}
