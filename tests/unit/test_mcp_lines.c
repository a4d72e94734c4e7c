/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/mcp_lines.c: lines in whatever pieces, lines that are too long, and output that nobody takes. */
#include "cli/mcp_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "test_help.h"

enum { SHORT = 100 };

/* Everything that comes of a text, one line each; "!" stands for one that is too long. */
static void expect(const char *text, size_t piece, const char *want)
{
	static struct lines_in in;
	size_t at = 0, len = strlen(text), n;
	struct bytes got;
	int ends[2];
	char *line;

	CHECK_EQ_INT(pipe2(ends, O_CLOEXEC), 0);
	lines_in_init(&in, ends[0], SHORT);
	bytes_init(&got, 65536);
	while (!in.ended || lines_in_has(&in)) {
		int r = lines_in_has(&in) ? lines_in_next(&in, &line, &n) : 0;

		if (r == -E2BIG)
			bytes_puts(&got, "!|");
		CHECK(r >= 0 || r == -E2BIG);
		if (r > 0) {
			CHECK_EQ_INT(line[n], '\0');
			bytes_put(&got, line, n);
			bytes_puts(&got, "|");
			free(line);
		}
		if (r != 0 || lines_in_has(&in))
			continue;
		if (at < len) {
			size_t part = piece < len - at ? piece : len - at;

			CHECK_EQ_INT(write(ends[1], text + at, part), (int)part);
			at += part;
		} else if (ends[1] >= 0) {
			(void)close(ends[1]);
			ends[1] = -1;
		}
		lines_in_fill(&in);
	}
	CHECK_STR(bytes_str(&got), want);
	bytes_done(&got);
	lines_in_done(&in);
	(void)close(ends[0]);
}

TEST(lines_in_gives_lines_in_any_pieces)
{
	static const size_t pieces[] = { 1, 2, 3, 7, 1000 };

	for (unsigned int i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		expect("", pieces[i], "");
		expect("a\n", pieces[i], "a|");
		expect("one\ntwo\r\n\nlast", pieces[i], "one|two||last|");
		expect("\n\n", pieces[i], "||");
	}
}

TEST(lines_in_skips_what_is_too_long_and_says_so_once)
{
	static const size_t pieces[] = { 1, 13, 99, 100, 101, 4096 };
	char text[1024], exact[SHORT + 1], over[3 * SHORT + 1], want[1024];

	(void)memset(exact, 'x', SHORT);
	exact[SHORT] = '\0';
	(void)memset(over, 'y', 3 * SHORT);
	over[3 * SHORT] = '\0';
	(void)snprintf(text, sizeof(text), "%s\n%s\nb\n%sz\nc\n%s", exact, over, exact, over);
	(void)snprintf(want, sizeof(want), "%s|!|b|!|c|!|", exact);
	for (unsigned int i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
		expect(text, pieces[i], want);
}

TEST(lines_in_takes_a_descriptor_that_cannot_be_read_for_ended)
{
	static struct lines_in in;
	char *line;
	size_t n;

	lines_in_init(&in, 1000, SHORT);
	lines_in_fill(&in);
	CHECK(in.ended);
	CHECK(!lines_in_has(&in));
	CHECK_EQ_INT(lines_in_next(&in, &line, &n), 0);
	lines_in_done(&in);
}

TEST(lines_out_writes_all_of_it_in_order)
{
	struct lines_out out;
	char back[64];
	int ends[2];

	CHECK_EQ_INT(pipe2(ends, O_CLOEXEC), 0);
	lines_out_init(&out, ends[1]);
	lines_out_flush(&out);
	lines_out_put(&out, "{\"a\":1}", 7);
	lines_out_put(&out, "{}", 2);
	CHECK_EQ_INT(lines_out_waits(&out), 11);
	lines_out_flush(&out);
	CHECK_EQ_INT(lines_out_waits(&out), 0);
	CHECK_EQ_INT(read(ends[0], back, sizeof(back)), 11);
	CHECK_MEM(back, "{\"a\":1}\n{}\n", 11);
	lines_out_done(&out);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

/* A reader that takes a little now and then gets everything; nothing is written that it has no room for. */
TEST(lines_out_never_waits_for_its_reader)
{
	enum { LINES = 500, LEN = 3000 };
	static char line[LEN], back[8192];
	size_t total = 0, got = 0;
	struct lines_out out;
	int ends[2];

	CHECK_EQ_INT(pipe2(ends, O_CLOEXEC), 0); /* a write that has no room would wait for ever */
	lines_out_init(&out, ends[1]);
	(void)memset(line, 'l', sizeof(line));
	while (total < (size_t)LINES * (LEN + 1) || lines_out_waits(&out) > 0) {
		struct pollfd p = { .fd = ends[1], .events = POLLOUT };

		if (total < (size_t)LINES * (LEN + 1)) {
			lines_out_put(&out, line, LEN);
			total += LEN + 1;
		}
		CHECK(poll(&p, 1, 0) >= 0);
		if (p.revents != 0)
			lines_out_flush(&out);
		else
			got += (size_t)read(ends[0], back, sizeof(back));
	}
	while (got < total)
		got += (size_t)read(ends[0], back, sizeof(back));
	CHECK_EQ_INT(got, total);
	CHECK(!out.broken);
	lines_out_done(&out);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

TEST(lines_out_knows_when_nobody_reads)
{
	struct lines_out out;
	int ends[2];

	(void)signal(SIGPIPE, SIG_IGN);
	CHECK_EQ_INT(pipe2(ends, O_CLOEXEC), 0);
	(void)close(ends[0]);
	lines_out_init(&out, ends[1]);
	lines_out_put(&out, "{}", 2);
	lines_out_flush(&out);
	CHECK(out.broken);
	lines_out_put(&out, "{}", 2);
	lines_out_flush(&out);
	lines_out_done(&out);
	(void)close(ends[1]);
}
