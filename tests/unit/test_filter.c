/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/filter.c: what a box prints, on a terminal. */
#include "cli/filter.h"

#include <string.h>

#include "test.h"

static void check(enum filter_mode mode, const char *in, const char *want)
{
	for (size_t step = 1; step <= strlen(in) + 1; step++) {
		struct filter f;
		struct bytes out;

		filter_init(&f, mode);
		bytes_init(&out, 1000);
		for (size_t at = 0; at < strlen(in); at += step) {
			size_t n = strlen(in) - at;

			filter_put(&f, in + at, n < step ? n : step, &out);
		}
		CHECK_STR(bytes_str(&out), want);
		bytes_done(&out);
	}
}

TEST(filter_keeps_what_is_harmless)
{
	static const char *const rows[] = {
		"plain\ttext\n",
		"\033[31mred\033[0m",
		"\033[1;38;5;208mbold\033[m",
		"\033[38:2:1:2:3mtrue\033[39m",
		"50%\r100%\n",
		"\033[2K\033[1A\033[G",
		"\033[?25lspinner\033[?25h",
		"\033[H\033[2J",
		"\033[J\033[0J\033[1J",
		"a\b\a",
		"\xc3\xa4\xe6\xbc\xa2\xf0\x9f\x98\x80",
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(FILTER_SAFE, rows[i], rows[i]);
}

TEST(filter_takes_the_rest_away)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "a\033[6nb", "ab" },                /* where is the cursor: would be typed */
		{ "a\033[cb\033[>c\033[0c", "ab" },   /* who are you */
		{ "a\033[?1049hb", "ab" },            /* another screen */
		{ "a\033[?2004l\033[?25;1hb", "ab" }, /* modes */
		{ "a\033[20tb", "ab" },               /* say your title */
		{ "a\033]0;title\ab", "ab" },         /* titles */
		{ "a\033]52;c;aGk=\033\\b", "ab" },   /* the clipboard */
		{ "a\033]8;;http://x\033\\link\033]8;;\033\\b", "alinkb" },
		{ "a\033P$q\"p\033\\b", "ab" }, /* questions in strings */
		{ "a\033_x\033\\b\033^y\033\\c\033Xz\033\\d", "abcd" },
		{ "a\033]0;never ended\nb", "ab" },
		{ "a\033(0b\033)Bc", "abc" },           /* character sets */
		{ "a\033cb\0337\0338c\033=d", "abcd" }, /* reset, and others of one letter */
		{ "a\033[31\nb", "a\nb" },              /* broken off */
		{ "a\033[>4;2mb", "ab" },
		{ "a\033[0$}b", "ab" },
		{ "a\033[3Jb", "ab" }, /* what has left the screen */
		{ "a\033[03Jb\033[2;3Jc\033[3;Jd\033[:3Je", "abcde" },
		{ "a\xc2\x9b"
		  "31mb",
		  "a31mb" }, /* of 8 bits */
		{ "a\xc2\x9d"
		  "0;t\xc2\x9c"
		  "b",
		  "a0;tb" },
		{ "a\x9b\xff"
		  "b",
		  "a\xef\xbf\xbd\xef\xbf\xbd"
		  "b" },
		{ "a\xe6\xbc"
		  "b",
		  "a\xef\xbf\xbd"
		  "b" },
		{ "a\001\002\016\017\177b", "ab" },
		{ "a\033[1111111111111111111111111111111111111111mb", "ab" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		check(FILTER_SAFE, rows[i].in, rows[i].out);
		check(FILTER_PLAIN, rows[i].in, rows[i].out);
	}
	check(FILTER_PLAIN, "\033[31mred\033[0m\033[2K", "red");
	check(FILTER_NOTHING, "\033]0;t\a\xff", "\033]0;t\a\xff");
}

TEST(filter_ends_what_was_begun)
{
	struct filter f;
	struct bytes out;

	filter_init(&f, FILTER_SAFE);
	bytes_init(&out, 1000);
	filter_put(&f, "\033[?25l\033[31mx\xe6\xbc", 13, &out);
	bytes_clear(&out);
	filter_end(&f, &out);
	CHECK_STR(bytes_str(&out), "\xef\xbf\xbd\033[?25h\033[0m");
	bytes_clear(&out);
	filter_put(&f, "y\033[3", 4, &out);
	filter_end(&f, &out);
	filter_put(&f, "1m", 2, &out);
	CHECK_STR(bytes_str(&out), "y1m");

	filter_init(&f, FILTER_PLAIN);
	bytes_clear(&out);
	filter_put(&f, "x\xe6\xbc", 3, &out);
	filter_end(&f, &out);
	filter_put(&f, "y\033]0;never ended", 16, &out);
	filter_end(&f, &out);
	filter_put(&f, "z", 1, &out);
	CHECK_STR(bytes_str(&out), "x\xef\xbf\xbdyz");
	bytes_done(&out);
}
