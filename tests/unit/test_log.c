/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/log.c: lines of the log, in both formats, to a reader who may be slow or gone. */
#include "base/log.h"

#include "base/config.h"
#include "base/io.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "test_help.h"

static struct log logger;

struct ends {
	int in, out;
};

static struct ends pipe_ends(void)
{
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
	return (struct ends){ fds[0], fds[1] };
}

static void close_ends(struct ends *p)
{
	(void)close(p->in);
	(void)close(p->out);
}

/* What the reader has got, as a string. */
static size_t drain(int fd, char *buf, size_t size)
{
	size_t n = 0;
	ssize_t r;

	while (n < size - 1 && (r = read(fd, buf + n, size - 1 - n)) > 0)
		n += (size_t)r;
	buf[n] = '\0';
	return n;
}

/* The one line that was logged, with its time checked and taken out: "TIME level=…". */
static const char *last_line(void)
{
	static char line[LOG_BUFFER + 1];
	const char *format = "0000-00-00T00:00:00.000Z";
	size_t at = logger.format == LOG_JSON ? strlen("{\"time\":\"") : strlen("time=");

	CHECK(logger.len > at + strlen(format) && logger.buf[logger.len - 1] == '\n');
	CHECK(memchr(logger.buf, '\n', logger.len) == logger.buf + logger.len - 1);
	for (size_t i = 0; format[i] != '\0'; i++)
		if (format[i] == '0')
			CHECK(isdigit((unsigned char)logger.buf[at + i]));
		else
			CHECK(logger.buf[at + i] == format[i]);
	(void)snprintf(line, sizeof(line), "%.*sTIME%.*s", (int)at, logger.buf,
		       (int)(logger.len - at - strlen(format) - 1),
		       logger.buf + at + strlen(format));
	logger.len = 0;
	return line;
}

static void start(enum log_format format)
{
	log_init(&logger, -1, LOG_INFO, format);
}

static void stop(void)
{
	logger.len = 0;
	log_done(&logger);
}

TEST(log_line_has_fixed_keys_first)
{
	start(LOG_TEXT);
	log_line(&logger, LOG_INFO, "request", log_str("req", "abc"), log_u64("status", 200));
	CHECK_STR(last_line(), "time=TIME level=info event=request req=abc status=200");
	log_line(&logger, LOG_WARN, "alone");
	CHECK_STR(last_line(), "time=TIME level=warn event=alone");
	logger.format = LOG_JSON;
	log_line(&logger, LOG_INFO, "request", log_str("req", "abc"), log_u64("status", 200));
	CHECK_STR(last_line(), "{\"time\":\"TIME\",\"level\":\"info\",\"event\":\"request\","
			       "\"req\":\"abc\",\"status\":200}");
	log_line(&logger, LOG_WARN, "alone");
	CHECK_STR(last_line(), "{\"time\":\"TIME\",\"level\":\"warn\",\"event\":\"alone\"}");
	stop();
}

TEST(log_time_is_now)
{
	struct timespec before, after;
	struct tm tm = { 0 };
	int64_t got, low, high;

	start(LOG_TEXT);
	for (int i = 0; i < 20; i++) {
		(void)clock_gettime(CLOCK_REALTIME, &before);
		log_line(&logger, LOG_INFO, "x");
		(void)clock_gettime(CLOCK_REALTIME, &after);
		CHECK(strptime(logger.buf, "time=%Y-%m-%dT%H:%M:%S", &tm) != NULL);
		CHECK(logger.buf[24] == '.' && logger.buf[28] == 'Z');
		got = (int64_t)timegm(&tm) * 1000 + strtol(logger.buf + 25, NULL, 10);
		low = (int64_t)before.tv_sec * 1000 + before.tv_nsec / 1000000;
		high = (int64_t)after.tv_sec * 1000 + after.tv_nsec / 1000000;
		CHECK(got >= low && got <= high);
		logger.len = 0;
		if (i % 5 == 0) { /* as if the last line were old */
			logger.second = 1;
			memset(logger.stamp, 'x', 20);
		}
	}
	stop();
}

TEST(log_values_by_kind)
{
	start(LOG_TEXT);
	log_line(&logger, LOG_INFO, "v", log_u64("a", 0), log_u64("b", UINT64_MAX),
		 log_i64("c", INT64_MIN), log_i64("d", 7), log_bool("e", true),
		 log_bool("f", false));
	CHECK_STR(last_line(), "time=TIME level=info event=v a=0 b=18446744073709551615 "
			       "c=-9223372036854775808 d=7 e=true f=false");
	logger.format = LOG_JSON;
	log_line(&logger, LOG_INFO, "v", log_u64("b", UINT64_MAX), log_i64("c", INT64_MIN),
		 log_bool("e", true));
	CHECK_STR(
		last_line(),
		"{\"time\":\"TIME\",\"level\":\"info\",\"event\":\"v\",\"b\":18446744073709551615,"
		"\"c\":-9223372036854775808,\"e\":true}");
	stop();
}

TEST(log_leaves_out_what_is_nothing)
{
	start(LOG_TEXT);
	log_line(&logger, LOG_INFO, "v", log_none(), log_str("a", NULL), log_str("b", "x"));
	CHECK_STR(last_line(), "time=TIME level=info event=v b=x");
	stop();
}

/* What bytes look like in either format. */
TEST(log_escapes_bytes_of_others)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *text, *json;
	} rows[] = {
		{ "abc-XYZ_0.9/x:@+,", 17, "abc-XYZ_0.9/x:@+,", "\"abc-XYZ_0.9/x:@+,\"" },
		{ "", 0, "\"\"", "\"\"" },
		{ "a b", 3, "\"a b\"", "\"a b\"" },
		{ "a=b", 3, "\"a=b\"", "\"a=b\"" },
		{ "say \"x\"", 7, "\"say \\\"x\\\"\"", "\"say \\\"x\\\"\"" },
		{ "a\\b", 3, "\"a\\\\b\"", "\"a\\\\b\"" },
		{ "a\nlevel=info", 12, "\"a\\nlevel=info\"", "\"a\\nlevel=info\"" },
		{ "\x1b[31m", 5, "\"\\u001b[31m\"", "\"\\u001b[31m\"" },
		{ "a\0b", 3, "\"a\\u0000b\"", "\"a\\u0000b\"" },
		{ "\xff", 1, "\"\\xff\"", "\"\xef\xbf\xbd\"" },
		{ "\xc3\xa4", 2, "\"\xc3\xa4\"", "\"\xc3\xa4\"" },
		{ "\xe2\x80\x8b", 3, "\"\\u200b\"", "\"\\u200b\"" },
		{ "\xf3\xa0\x80\x81", 4, "\"\\U000e0001\"", "\"\\udb40\\udc01\"" },
		{ "\x7f", 1, "\"\\u007f\"", "\"\\u007f\"" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[256];

		start(LOG_TEXT);
		log_line(&logger, LOG_INFO, "v", log_bytes("k", rows[i].bytes, rows[i].n));
		(void)snprintf(want, sizeof(want), "time=TIME level=info event=v k=%s",
			       rows[i].text);
		CHECK_STR(last_line(), want);
		logger.format = LOG_JSON;
		log_line(&logger, LOG_INFO, "v", log_bytes("k", rows[i].bytes, rows[i].n));
		(void)snprintf(want, sizeof(want),
			       "{\"time\":\"TIME\",\"level\":\"info\",\"event\":\"v\",\"k\":%s}",
			       rows[i].json);
		CHECK_STR(last_line(), want);
		stop();
	}
}

TEST(log_levels_are_the_words_of_the_configuration)
{
	const char *words = config_row(CONF_LOG_LEVEL)->words;

	for (unsigned int i = 0; i < LOG_LEVEL_MAX; i++) {
		size_t n = strcspn(words, "|");
		char want[64];

		log_init(&logger, -1, LOG_DEBUG, LOG_TEXT);
		log_write(&logger, (enum log_level)i, "x", NULL, 0);
		if (i == LOG_ERROR) /* flushed to nobody */
			CHECK_EQ_INT(logger.lost, 1);
		else {
			(void)snprintf(want, sizeof(want), "time=TIME level=%.*s event=x", (int)n,
				       words);
			CHECK_STR(last_line(), want);
		}
		words += n + (words[n] == '|');
		stop();
	}
	CHECK_STR(words, "");
	CHECK_STR(config_row(CONF_LOG_FORMAT)->words, "text|json");
	CHECK_EQ_INT(LOG_TEXT, 0);
	CHECK_EQ_INT(LOG_FORMAT_MAX, 2);
}

static const char *counted(unsigned int *n)
{
	(*n)++;
	return "x";
}

TEST(log_evaluates_pairs_only_for_lines_that_are_written)
{
	unsigned int n = 0;

	start(LOG_TEXT);
	log_line(&logger, LOG_DEBUG, "v", log_str("k", counted(&n)));
	CHECK_EQ_INT(n, 0);
	CHECK_EQ_INT(logger.len, 0);
	logger.level = LOG_DEBUG;
	log_line(&logger, LOG_DEBUG, "v", log_str("k", counted(&n)));
	CHECK_EQ_INT(n, 1);
	CHECK_STR(last_line(), "time=TIME level=debug event=v k=x");
	logger.level = LOG_ERROR;
	log_line(&logger, LOG_WARN, "v", log_str("k", counted(&n)));
	CHECK_EQ_INT(n, 1);
	CHECK_EQ_INT(logger.len, 0);
	stop();
}

/* --- long lines ------------------------------------------------------------------------------------------------- */

TEST(log_cuts_a_long_value_between_characters)
{
	static char value[5000];

	for (int format = 0; format < LOG_FORMAT_MAX; format++)
		for (size_t shift = 0; shift < 4; shift++) {
			const char *line, *mark;

			memset(value, 'a', sizeof(value));
			for (size_t i = shift; i + 2 < sizeof(value); i += 2)
				value[i] = '\xc3', value[i + 1] = '\xa4';
			start((enum log_format)format);
			log_line(&logger, LOG_INFO, "v", log_bytes("k", value, sizeof(value)),
				 log_u64("after", 1));
			line = last_line();
			mark = strstr(line, "\xe2\x80\xa6\"");
			CHECK(mark != NULL && mark[-2] == '\xc3' && mark[-1] == '\xa4');
			CHECK(strstr(line, "after") != NULL && strlen(line) < 1200);
			stop();
		}
	/* Exactly as much as fits is not cut. */
	start(LOG_TEXT);
	memset(value, 'a', sizeof(value));
	log_line(&logger, LOG_INFO, "v", log_bytes("k", value, LOG_VALUE_MAX));
	CHECK(strstr(last_line(), "\xe2\x80\xa6") == NULL);
	log_line(&logger, LOG_INFO, "v", log_bytes("k", value, LOG_VALUE_MAX + 1));
	CHECK(strstr(last_line(), "\xe2\x80\xa6") != NULL);
	stop();
}

TEST(log_says_when_pairs_did_not_fit)
{
	static char value[LOG_VALUE_MAX];
	struct log_pair pairs[40];

	memset(value, 'a', sizeof(value));
	for (size_t i = 0; i < 40; i++)
		pairs[i] = log_bytes("key", value, sizeof(value));
	for (int format = 0; format < LOG_FORMAT_MAX; format++) {
		start((enum log_format)format);
		logger.dropped = UINT64_MAX;
		log_write(&logger, LOG_INFO, "v", pairs, 40);
		CHECK(logger.len <= LOG_LINE_MAX && logger.len > LOG_LINE_MAX - 200);
		CHECK(memmem(logger.buf, logger.len,
			     format == LOG_TEXT ? "cut=true" : "\"cut\":true", 8) != NULL);
		CHECK(memmem(logger.buf, logger.len, "18446744073709551615", 20) != NULL);
		CHECK_EQ_INT(logger.dropped, 0);
		stop();
	}
}

/* Whatever the bytes, and however many pairs: one line, within its bound, of characters that can be shown. */
TEST(log_line_is_one_line_whatever_is_in_it)
{
	static char value[3000];
	uint64_t state = 7;

	for (int round = 0; round < 3000; round++) {
		size_t n = rnd_below(&state, 12);
		struct log_pair pairs[12];

		rnd_fill(&state, value, sizeof(value));
		if (round % 3 == 0)
			memset(value, (int)rnd_below(&state, 256), sizeof(value));
		for (size_t i = 0; i < n; i++)
			pairs[i] = log_bytes("key", value, rnd_below(&state, sizeof(value)));
		start((enum log_format)(round % 2));
		logger.dropped = round % 5 == 0 ? UINT64_MAX : 0;
		log_write(&logger, LOG_INFO, "v", pairs, n);
		CHECK(logger.len <= LOG_LINE_MAX);
		CHECK(memchr(logger.buf, '\n', logger.len) == logger.buf + logger.len - 1);
		for (size_t i = 0, len; i + 1 < logger.len; i += len) {
			uint32_t c = 0;

			len = utf8_next((unsigned char *)logger.buf + i, logger.len - i, &c);
			CHECK(len > 0 && !utf8_is_tricky(c));
		}
		stop();
	}
}

/* --- the reader ------------------------------------------------------------------------------------------------- */

TEST(log_flush_writes_everything_at_once)
{
	struct ends p = pipe_ends();
	char got[4096];

	log_init(&logger, p.out, LOG_INFO, LOG_TEXT);
	CHECK_EQ_INT(log_flush(&logger), 0);
	log_line(&logger, LOG_INFO, "one");
	log_line(&logger, LOG_INFO, "two");
	CHECK_EQ_INT(drain(p.in, got, sizeof(got)), 0); /* not before the flush */
	CHECK_EQ_INT(log_flush(&logger), 0);
	CHECK_EQ_INT(logger.len, 0);
	(void)drain(p.in, got, sizeof(got));
	CHECK(strstr(got, "event=one\n") != NULL && strstr(got, "event=two\n") != NULL);
	log_line(&logger, LOG_INFO, "three");
	log_done(&logger);
	(void)drain(p.in, got, sizeof(got));
	CHECK(strstr(got, "event=three\n") != NULL);
	close_ends(&p);
}

TEST(log_flushes_an_error_at_once)
{
	struct ends p = pipe_ends();
	char got[4096];

	log_init(&logger, p.out, LOG_INFO, LOG_TEXT);
	log_line(&logger, LOG_INFO, "before");
	log_line(&logger, LOG_ERROR, "now");
	(void)drain(p.in, got, sizeof(got));
	CHECK(strstr(got, "event=before\n") != NULL && strstr(got, "event=now\n") != NULL);
	log_done(&logger);
	close_ends(&p);
}

/* Every line arrives whole or is counted; the count comes with the first line that fits again. */
TEST(log_drops_and_counts_what_a_slow_reader_does_not_take)
{
	enum { LINES = 20000 };
	static char got[1 << 22];
	struct ends p = pipe_ends();
	unsigned int arrived = 0;
	uint64_t dropped = 0;
	size_t n = 0;

	log_init(&logger, p.out, LOG_INFO, LOG_TEXT);
	for (unsigned int i = 0; i < LINES; i++) {
		log_line(&logger, LOG_INFO, "line", log_u64("n", i),
			 log_str("pad", "0123456789012345678901234567890123456789"));
		if (i % 50 == 0)
			(void)log_flush(&logger);
		if (i % 5000 == 4999)
			n += drain(p.in, got + n, sizeof(got) - n);
	}
	CHECK(logger.lost > 0);
	CHECK_EQ_INT(log_flush(&logger) == 0 || logger.len > 0, 1);
	n += drain(p.in, got + n, sizeof(got) - n);
	while (log_flush(&logger) == -EAGAIN)
		n += drain(p.in, got + n, sizeof(got) - n);
	log_line(&logger, LOG_INFO, "last");
	CHECK_EQ_INT(log_flush(&logger), 0);
	(void)drain(p.in, got + n, sizeof(got) - n);
	for (char *save = NULL, *line = strtok_r(got, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *at = strstr(line, " dropped=");

		CHECK(strncmp(line, "time=20", 7) == 0);
		arrived++;
		if (at != NULL)
			dropped += strtoull(at + 9, NULL, 10);
	}
	CHECK_EQ_INT(arrived + dropped, LINES + 1);
	CHECK_EQ_INT(dropped, logger.lost);
	CHECK_EQ_INT(logger.dropped, 0);
	log_done(&logger);
	close_ends(&p);
}

TEST(log_goes_on_when_nobody_reads)
{
	struct ends p = pipe_ends();

	(void)signal(SIGPIPE, SIG_IGN);
	log_init(&logger, p.out, LOG_INFO, LOG_TEXT);
	(void)close(p.in);
	log_line(&logger, LOG_INFO, "one");
	log_line(&logger, LOG_INFO, "two");
	CHECK_EQ_INT(log_flush(&logger), -EPIPE);
	CHECK_EQ_INT(logger.len, 0);
	CHECK_EQ_INT(logger.lost, 2);
	for (int i = 0; i < 5000; i++)
		log_line(&logger, LOG_INFO, "more");
	CHECK(logger.len <= LOG_BUFFER && logger.lost > 2);
	log_done(&logger);
	(void)close(p.out);
}
