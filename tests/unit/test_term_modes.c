/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/term_modes.c: what a program has left switched on. */
#include "cli/term_modes.h"

#include <string.h>

#include "test.h"

TEST(term_modes_switch_off_what_is_on)
{
	static const struct {
		const char *in, *off;
	} rows[] = {
		{ "text \033[31mred\033[2J\033]0;title\a", "" },
		{ "\033[?1049h\033[?25l", "\033[?1049l\033[?25h" },
		{ "\033[?1049h\033[?25l\033[?25h\033[?1049l", "" },
		{ "\033[?1000;1006;2004h", "\033[?1000l\033[?1006l\033[?2004l" },
		{ "\033[?1000;1006;2004h\033[?1006l", "\033[?1000l\033[?2004l" },
		{ "\033[?1h\033=", "\033[?1l\033>" },
		{ "\033=\033>", "" },
		{ "\033[?1002h\033[?1003h\033[?1004h\033c", "" }, /* all of it anew */
		{ "\033[?12h\033[?99999999999999999999h\033[?h\033[?;h", "" },
		{ "\033[1049h\033[>1049h\033[?1049$p\033[?1049s", "" }, /* means something else */
		{ "\033\033[?25l\033[\033[?1049h\033[?7\033[?1000h",
		  "\033[?1049l\033[?1000l\033[?25h" },
		{ "\033[?0;1;0;2;3;4;5;6;0;8;9;10;11;12;13;1000;1002h", "\033[?1000l\033[?1l" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t step = 1; step <= strlen(rows[i].in); step++) {
			struct term_modes m = { 0 };
			struct bytes out;
			size_t n = strlen(rows[i].in);

			bytes_init(&out, 1000);
			for (size_t at = 0; at < n; at += step)
				term_modes_put(&m, rows[i].in + at, n - at < step ? n - at : step);
			term_modes_off(&m, &out);
			CHECK(out.n >= 4);
			CHECK_STR(out.p + out.n - 4, "\033[0m");
			out.p[out.n - 4] = '\0';
			CHECK_STR(out.p, rows[i].off);
			bytes_done(&out);
		}
}
