/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/etag.c: the tags of If-None-Match and If-Match. */
#include "wire/etag.h"

#include "base/own.h"

#include "test_help.h"

TEST(etag_listed_finds_a_tag)
{
	static const struct {
		const char *header;
		bool weak, strong;
	} cases[] = {
		{ "\"a-1\"", true, true },
		{ "  \"a-1\"\t ", true, true },
		{ "\"x\", \"a-1\"", true, true },
		{ "\"x\",\"a-1\",\"y\"", true, true },
		{ ",, \"a-1\" ,", true, true },
		{ "\"x,y\", \"a-1\"", true, true }, /* a comma in a tag */
		{ "W/\"a-1\"", true, false },
		{ "W/\"x\", W/\"a-1\"", true, false },
		{ "W/\"a-1\", \"a-1\"", true, true },
		{ "*", true, true },
		{ " *\t", true, true },
		{ "", false, false },
		{ "a-1", false, false },
		{ "\"a-1", false, false },
		{ "a-1\"", false, false },
		{ "\"a-12\"", false, false },
		{ "\"a-\"", false, false },
		{ "\"\"", false, false },
		{ "\"A-1\"", false, false },
		{ "w/\"a-1\"", false, false },
		{ "W/ \"a-1\"", false, false },
		{ "**", false, false },
		{ "*, \"x\"", false, false },
		{ "\"x\" \"a-1\"", false, false }, /* what follows nonsense is not looked at */
		{ "x, \"a-1\"", false, false },
		{ "\"a-1\"x", false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (etag_listed(cases[i].header, "\"a-1\"") != cases[i].weak ||
		    etag_listed_strong(cases[i].header, "\"a-1\"") != cases[i].strong)
			test_fail(__FILE__, __LINE__, "'%s' misjudged", cases[i].header);
		test_count();
	}
}
