/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/jupyter_read.c: what clients of Jupyter send. */
#include <errno.h>
#include <stdio.h>

#include "base/own.h"

#include "test_jupyter.h"

#define HEADER "{\"msg_id\":\"m1\",\"msg_type\":\"execute_request\"}"

static void check_refused_as(enum frame f, const void *p, size_t n, const char *why)
{
	struct reading r = read_frame(f, p, n);

	if (r.rc != -EPROTO)
		test_fail(__FILE__, __LINE__, "'%.*s' gives %d", (int)n, (const char *)p, r.rc);
	if (why != NULL && strcmp(r.why, why) != 0)
		test_fail(__FILE__, __LINE__, "'%.*s' is refused for '%s' instead of '%s'", (int)n,
			  (const char *)p, r.why, why);
	CHECK(r.m.own.buf == NULL && r.m.buffers == NULL && r.m.nbuffers == 0);
	reading_done(&r);
}

static void check_refused(const char *text, const char *why)
{
	check_refused_as(TEXT, text, strlen(text), why);
}

static struct reading read_text(const char *text)
{
	struct reading r = read_frame(TEXT, text, strlen(text));

	if (r.rc != 0)
		test_fail(__FILE__, __LINE__, "'%s' is refused: %s", text, r.why);
	return r;
}

/* --- legacy, text ------------------------------------------------------------------------------------- */

TEST(jupyter_reads_a_text_frame)
{
	struct reading r = read_text(
		"{\"header\": {\"msg_id\": \"m1\", \"username\": \"u\", \"session\": \"s1\","
		" \"date\": \"2024-05-06T07:08:09.123456Z\", \"msg_type\": \"execute_request\","
		" \"version\": \"5.3\", \"subshell_id\": null}, \"parent_header\": {\"msg_id\": "
		"\"p1\"},"
		" \"metadata\": {\"a\": [1]}, \"content\": {\"code\": \"1\\n\" , \"silent\": "
		"false},"
		" \"channel\": \"control\", \"buffers\": [], \"msg_id\": \"m2\", \"msg_type\": "
		"\"x\"}");

	CHECK_EQ_INT(r.m.channel, JUP_CONTROL);
	CHECK_STR(r.m.channel_name, "control");
	CHECK_STR(r.m.msg_id, "m1");
	CHECK_STR(r.m.msg_type, "execute_request");
	CHECK_STR(r.m.session, "s1");
	CHECK_STR(r.m.username, "u");
	CHECK_STR(r.m.date, "2024-05-06T07:08:09.123456Z");
	CHECK_STR(r.m.version, "5.3");
	CHECK_STR(r.m.parent_id, "p1");
	check_text(r.m.header, "{\"msg_id\":\"m1\",\"username\":\"u\",\"session\":\"s1\","
			       "\"date\":\"2024-05-06T07:08:09.123456Z\","
			       "\"msg_type\":\"execute_request\",\"version\":\"5.3\","
			       "\"subshell_id\":null}");
	check_text(r.m.parent_header, "{\"msg_id\": \"p1\"}");
	check_text(r.m.metadata, "{\"a\": [1]}");
	check_text(r.m.content, "{\"code\": \"1\\n\" , \"silent\": false}");
	CHECK_EQ_INT(r.m.nbuffers, 0);
	reading_done(&r);
}

TEST(jupyter_wants_little)
{
	static const char *const least[] = {
		"{\"header\":" HEADER "}",
		"{\"header\":" HEADER ",\"content\":{}}",
		"{\"header\":" HEADER ",\"content\":null,\"channel\":null,\"metadata\":null,"
		"\"parent_header\":null,\"buffers\":null,\"msg_id\":null,\"msg_type\":null}",
		"{\"header\":" HEADER ",\"buffers\":{}}",
		"{\"header\":" HEADER ",\"buffers\":[ ],\"unknown\":[1],\"content\":{}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(least); i++) {
		struct reading r = read_text(least[i]);

		CHECK_EQ_INT(r.m.channel, JUP_SHELL);
		CHECK_STR(r.m.channel_name, "shell");
		CHECK_STR(r.m.msg_id, "m1");
		CHECK_STR(r.m.session, "");
		CHECK_STR(r.m.username, "");
		CHECK_STR(r.m.date, "");
		CHECK_STR(r.m.version, "");
		CHECK_STR(r.m.parent_id, "");
		check_text(r.m.header, HEADER);
		check_text(r.m.parent_header, "{}");
		check_text(r.m.metadata, "{}");
		check_text(r.m.content, "{}");
		reading_done(&r);
	}
}

TEST(jupyter_takes_a_number_for_a_date)
{
	struct reading r = read_text(
		"{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"date\":1700000000.5}}");

	CHECK_STR(r.m.msg_id, "m");
	CHECK_STR(r.m.date, "");
	reading_done(&r);
}

TEST(jupyter_takes_empty_and_missing_strings_of_a_header)
{
	struct reading r = read_text(
		"{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"date\":\"\",\"session\":\"\","
		"\"username\":null,\"version\":\"\"}}");

	CHECK_STR(r.m.date, "");
	CHECK_STR(r.m.session, "");
	CHECK_STR(r.m.username, "");
	CHECK_STR(r.m.version, "");
	check_text(r.m.header,
		   "{\"msg_id\":\"m\",\"msg_type\":\"t\",\"date\":\"\",\"session\":\"\","
		   "\"username\":null,\"version\":\"\"}");
	reading_done(&r);
}

TEST(jupyter_knows_the_channels)
{
	static const struct {
		const char *text, *name;
		enum jup_channel channel;
	} rows[] = {
		{ "\"shell\"", "shell", JUP_SHELL },
		{ "\"control\"", "control", JUP_CONTROL },
		{ "\"stdin\"", "stdin", JUP_STDIN },
		{ "\"iopub\"", "iopub", JUP_IOPUB },
		{ "\"\\u0069opub\"", "iopub", JUP_IOPUB },
		{ "\"Shell\"", "Shell", JUP_UNKNOWN },
		{ "\"hb\"", "hb", JUP_UNKNOWN },
		{ "\"\"", "", JUP_UNKNOWN },
		{ "\"shell \"", "shell ", JUP_UNKNOWN },
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reading r;

		(void)snprintf(text, sizeof(text), "{\"header\":" HEADER ",\"channel\":%s}",
			       rows[i].text);
		r = read_text(text);
		CHECK_EQ_INT(r.m.channel, rows[i].channel);
		CHECK_STR(r.m.channel_name, rows[i].name);
		reading_done(&r);
	}
	CHECK(jup_channel_name(JUP_UNKNOWN) == NULL);
}

/* Replies carry the header: what stood in for a part of it is in it, once. */
TEST(jupyter_takes_id_and_type_from_beside_the_header)
{
	static const struct {
		const char *header, *beside, *want;
	} rows[] = {
		{ "{}", "\"msg_id\":\"i\",\"msg_type\":\"t\"",
		  "{\"msg_id\":\"i\",\"msg_type\":\"t\"}" },
		{ "{\"msg_id\":\"h\"}", "\"msg_id\":\"i\",\"msg_type\":\"t\"",
		  "{\"msg_id\":\"h\",\"msg_type\":\"t\"}" },
		{ "{\"msg_type\":\"h\",\"session\":\"s\"}", "\"msg_id\":\"i\"",
		  "{\"msg_type\":\"h\",\"session\":\"s\",\"msg_id\":\"i\"}" },
		{ "{\"msg_id\":\"\",\"msg_type\":null,\"x\":1}",
		  "\"msg_id\":\"\\u00e9\\\"\",\"msg_type\":\"t\"",
		  "{\"x\":1,\"msg_id\":\"\xc3\xa9\\\"\",\"msg_type\":\"t\"}" },
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct reading r;

		(void)snprintf(text, sizeof(text), "{\"header\":%s,%s}", rows[i].header,
			       rows[i].beside);
		r = read_text(text);
		check_text(r.m.header, rows[i].want);
		CHECK(r.m.msg_id[0] != '\0' && r.m.msg_type[0] != '\0');
		reading_done(&r);
	}
}

TEST(jupyter_counts_the_last_of_a_key)
{
	struct reading r = read_text(
		"{\"header\":5,\"channel\":7,\"content\":[],\"content\":{\"a\":1},\"buffers\":[1],"
		"\"header\":{\"msg_id\":1,\"msg_id\":\"m1\",\"msg_type\":\"no\",\"session\":[],"
		"\"msg_typ\\u0065\":\"t\",\"session\":\"s\",\"x\":1,\"x\":2},\"buffers\":[],"
		"\"ch\\u0061nnel\":\"stdin\",\"content\":{\"b\":2}}");

	CHECK_EQ_INT(r.m.channel, JUP_STDIN);
	CHECK_STR(r.m.msg_id, "m1");
	CHECK_STR(r.m.msg_type, "t");
	CHECK_STR(r.m.session, "s");
	check_text(r.m.header, "{\"msg_id\":\"m1\",\"msg_type\":\"t\",\"session\":\"s\","
			       "\"x\":1,\"x\":2}");
	check_text(r.m.content, "{\"b\":2}");
	reading_done(&r);
}

TEST(jupyter_refuses_what_is_no_message)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "not JSON" },
		{ "x", "not JSON" },
		{ "{", "not JSON" },
		{ "{\"header\":" HEADER "} x", "not JSON" },
		{ "{\"header\":" HEADER ",}", "not JSON" },
		{ "{\"header\":" HEADER ",\"content\":{\"a\":NaN}}", "not JSON" },
		{ "{\"header\":" HEADER ",\"content\":{\"a\":\"\n\"}}", "not JSON" },
		{ "\xef\xbb\xbf{\"header\":" HEADER "}", "not JSON" },
		{ "{\"header\":" HEADER ",\"content\":{\"a\":\"\xff\"}}", "not UTF-8" },
		{ "{\"header\":" HEADER ",\"content\":{\"a\":\"12345678\xc3\"}}", "not UTF-8" },
		{ "{\"header\":" HEADER ",\"content\":{\"\xed\xa0\x80\":1}}", "not UTF-8" },
		{ "{\"header\":" HEADER ",\"content\":{\"a\":\"\xc0\xaf\"}}", "not UTF-8" },
		{ "null", "not an object" },
		{ "[]", "not an object" },
		{ "\"header\"", "not an object" },
		{ "7", "not an object" },
		{ "{}", "header is not an object" },
		{ "{\"header\":null,\"msg_id\":\"m\",\"msg_type\":\"t\"}",
		  "header is not an object" },
		{ "{\"header\":[]}", "header is not an object" },
		{ "{\"header\":\"{}\"}", "header is not an object" },
		{ "{\"header\":{}}", "msg_id or msg_type is missing" },
		{ "{\"header\":{\"msg_id\":\"m\"}}", "msg_id or msg_type is missing" },
		{ "{\"header\":{\"msg_type\":\"t\"}}", "msg_id or msg_type is missing" },
		{ "{\"header\":{\"msg_id\":\"\",\"msg_type\":\"t\"}}",
		  "msg_id or msg_type is missing" },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"\"},\"msg_type\":\"\"}",
		  "msg_id or msg_type is missing" },
		{ "{\"header\":{\"msg_id\":1,\"msg_type\":\"t\"},\"msg_id\":\"m\"}",
		  "header.msg_id is not a string, or too long" },
		{ "{\"header\":{\"msg_type\":\"t\"},\"msg_id\":[\"m\"]}",
		  "header.msg_id is not a string, or too long" },
		{ "{\"header\":{\"msg_id\":\"a\\u0000\",\"msg_type\":\"t\"}}",
		  "header.msg_id is not a string, or too long" },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":{}}}",
		  "header.msg_type is not a string, or too long" },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"session\":5}}",
		  "header.session is not a string, or too long" },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"username\":true}}",
		  "header.username is not a string, or too long" },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"date\":[]}}",
		  "header.date is not a string, or too long" },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"version\":5.3}}",
		  "header.version is not a string, or too long" },
		{ "{\"header\":" HEADER ",\"parent_header\":[]}",
		  "parent_header is not an object" },
		{ "{\"header\":" HEADER ",\"parent_header\":{\"msg_id\":1}}",
		  "parent_header.msg_id is not a string, or too long" },
		{ "{\"header\":" HEADER ",\"metadata\":\"\"}", "metadata is not an object" },
		{ "{\"header\":" HEADER ",\"content\":[]}", "content is not an object" },
		{ "{\"header\":" HEADER ",\"content\":false}", "content is not an object" },
		{ "{\"header\":" HEADER ",\"channel\":1}", "channel is not a string, or too long" },
		{ "{\"header\":" HEADER ",\"channel\":\"shell\\u0000\"}",
		  "channel is not a string, or too long" },
		{ "{\"header\":" HEADER ",\"buffers\":[1]}", "buffers in JSON" },
		{ "{\"header\":" HEADER ",\"buffers\":{\"0\":1}}", "buffers in JSON" },
		{ "{\"header\":" HEADER ",\"buffers\":\"\"}", "buffers in JSON" },
		{ "{\"header\":" HEADER ",\"buffers\":false}", "buffers in JSON" },
	};
	static const char nul_before[] = "\0{\"header\":" HEADER "}";
	static const char nul_behind[] = "{\"header\":" HEADER "}\0";
	static const char nul_inside[] = "{\"header\":" HEADER ",\"content\":{\"a\":\"\0\"}}";

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_refused(rows[i].text, rows[i].why);
	check_refused_as(TEXT, nul_before, sizeof(nul_before) - 1, "not JSON");
	check_refused_as(TEXT, nul_behind, sizeof(nul_behind) - 1, "not JSON");
	check_refused_as(TEXT, nul_inside, sizeof(nul_inside) - 1, "not JSON");
	check_refused_as(TEXT, NULL, 0, "not JSON");
}

TEST(jupyter_refuses_every_beginning_of_a_text_frame)
{
	static const char text[] = "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\xc3\xa9\"},"
				   "\"content\":{\"code\":\"\\ud83d\\ude00\"},\"buffers\":[]}";
	struct reading r = read_text(text);

	reading_done(&r);
	for (size_t n = 0; n < sizeof(text) - 1; n++)
		check_refused_as(TEXT, text, n, NULL);
}

/* --- bounds ------------------------------------------------------------------------------------------- */

/* n times the same in front of a NUL. To be freed. */
static char *repeated(const char *piece, size_t n)
{
	size_t each = strlen(piece);
	char *text = malloc(n * each + 1);

	CHECK(text != NULL);
	for (size_t i = 0; i < n; i++)
		memcpy(text + i * each, piece, each);
	text[n * each] = '\0';
	return text;
}

/* n times a piece between two texts. To be freed. */
static char *around(const char *before, const char *piece, size_t n, const char *behind)
{
	own_free char *middle = repeated(piece, n);
	char *text = malloc(strlen(before) + strlen(middle) + strlen(behind) + 1);

	CHECK(text != NULL);
	(void)stpcpy(stpcpy(stpcpy(text, before), middle), behind);
	return text;
}

TEST(jupyter_bounds_its_strings)
{
	static const struct {
		const char *before, *behind, *why;
		size_t max;
	} rows[] = {
		{ "{\"header\":{\"msg_type\":\"t\",\"msg_id\":\"", "\"}}",
		  "header.msg_id is not a string, or too long", 128 },
		{ "{\"header\":{\"msg_type\":\"t\"},\"msg_id\":\"", "\"}",
		  "header.msg_id is not a string, or too long", 128 },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"", "\"}}",
		  "header.msg_type is not a string, or too long", 64 },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"session\":\"", "\"}}",
		  "header.session is not a string, or too long", 128 },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"username\":\"", "\"}}",
		  "header.username is not a string, or too long", 128 },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"date\":\"", "\"}}",
		  "header.date is not a string, or too long", 64 },
		{ "{\"header\":{\"msg_id\":\"m\",\"msg_type\":\"t\",\"version\":\"", "\"}}",
		  "header.version is not a string, or too long", 32 },
		{ "{\"header\":" HEADER ",\"channel\":\"", "\"}",
		  "channel is not a string, or too long", 64 },
		{ "{\"header\":" HEADER ",\"parent_header\":{\"msg_id\":\"", "\"}}",
		  "parent_header.msg_id is not a string, or too long", 128 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *before = rows[i].before, *behind = rows[i].behind;
		own_free char *most = around(before, "x", rows[i].max, behind);
		own_free char *more = around(before, "x", rows[i].max + 1, behind);
		own_free char *escaped = around(before, "\\u0078", rows[i].max, behind);
		struct reading r = read_text(most);

		reading_done(&r);
		r = read_text(escaped);
		reading_done(&r);
		check_refused(more, rows[i].why);
	}
}

/* A header of exactly n bytes, in a message. To be freed. */
static char *with_header_of(size_t n, const char *piece)
{
	static const char before[] = "{\"msg_id\":\"m\",\"msg_type\":\"t\",\"x\":\"",
			  behind[] = "\"}";
	size_t rest = n - (sizeof(before) - 1) - (sizeof(behind) - 1), each = strlen(piece);
	own_free char *fill = repeated(piece, rest / each), *plain = repeated("x", rest % each);
	char *text = malloc(n + 64);

	CHECK(text != NULL);
	(void)sprintf(text, "{\"header\":%s%s%s%s}", before, plain, fill, behind);
	return text;
}

TEST(jupyter_bounds_the_header)
{
	own_free char *most = with_header_of(JUP_HEADER_MAX, "x");
	own_free char *more = with_header_of(JUP_HEADER_MAX + 1, "x");
	own_free char *shrinks = with_header_of(JUP_HEADER_MAX + 1, "\\u0078");
	own_free char *grows = with_header_of(JUP_HEADER_MAX, "\x7f");
	struct reading r = read_text(most);

	CHECK_EQ_INT(r.m.header.n, JUP_HEADER_MAX);
	reading_done(&r);
	check_refused(more, "header is too long");
	check_refused(shrinks, "header is too long");
	check_refused(grows, "header is too long");
}

/* A message whose content has so many levels. To be freed. */
static char *with_levels(size_t n)
{
	own_free char *open = repeated("{\"a\":", n - 1), *close = repeated("}", n - 1);
	char *text = malloc(n * 6 + 128);

	CHECK(text != NULL);
	(void)sprintf(text, "{\"header\":" HEADER ",\"content\":%s{}%s}", open, close);
	return text;
}

TEST(jupyter_bounds_the_levels)
{
	own_free char *most = with_levels(JSON_TEXT_DEPTH_MAX - 1);
	own_free char *more = with_levels(JSON_TEXT_DEPTH_MAX);
	own_free char *many = with_levels(1000000);
	own_free char *open = repeated("[", 1000000);
	static const char why[] = "JSON with too many levels, or with too long a number";
	struct reading r = read_text(most);

	reading_done(&r);
	check_refused(more, why);
	check_refused(many, why);
	check_refused(open, why);
}

TEST(jupyter_reads_large_contents)
{
	enum { N = 4 << 20 }; /* more values than a tree would hold */
	own_free char *values = repeated("[],", N), *text = malloc((size_t)N * 3 + 128);
	size_t n;
	struct reading r;

	CHECK(text != NULL);
	n = (size_t)sprintf(text, "{\"header\":" HEADER ",\"content\":{\"a\":[%s1]}}", values);
	r = read_frame(TEXT, text, n);
	CHECK_EQ_INT(r.rc, 0);
	CHECK_EQ_INT(r.m.content.n, (size_t)N * 3 + 9);
	reading_done(&r);
}

/* --- binary frames ------------------------------------------------------------------------------------ */

#define OBJECT "{\"header\":" HEADER ",\"content\":{\"a\":1},\"channel\":\"shell\",\"buffers\":[]}"

/* Parts of a good message, up to the buffers. */
static const struct bytes text_parts[] = { { OBJECT, sizeof(OBJECT) - 1 } };
static const struct bytes v1_parts[] = {
	{ "control", 7 }, { HEADER, sizeof(HEADER) - 1 }, { "{\"msg_id\":\"p\"}", 14 },
	{ "null", 4 },    { " {\"a\":1}\n", 9 },
};

static const struct bytes buffers[] = { { "\0\xff", 2 }, { "", 0 }, { "{}", 2 } };

/* A good frame with so many buffers. To be freed. */
static uint8_t *good(enum frame f, size_t nbuffers, size_t *ret_n)
{
	const struct bytes *fixed = f == V1 ? v1_parts : text_parts;
	size_t n = f == V1 ? ARRAY_LEN(v1_parts) : ARRAY_LEN(text_parts);
	struct bytes parts[5 + JUP_BUFFERS_MAX + 1];

	CHECK(n + nbuffers <= ARRAY_LEN(parts));
	memcpy(parts, fixed, n * sizeof(*parts));
	for (size_t i = 0; i < nbuffers; i++)
		parts[n + i] = buffers[i % ARRAY_LEN(buffers)];
	return build(f, parts, n + nbuffers, ret_n);
}

/* How many parts are no buffers, and how many offsets are no part. */
static size_t fixed_of(enum frame f)
{
	return f == V1 ? 5 : 1;
}

static size_t ends_of(enum frame f)
{
	return f == V1 ? 1 : 0;
}

TEST(jupyter_reads_binary_frames)
{
	for (enum frame f = BINARY; f < FRAMES; f++) {
		for (size_t nbuffers = 0; nbuffers <= 5; nbuffers++) {
			size_t n;
			own_free uint8_t *frame = good(f, nbuffers, &n);
			struct reading r = read_frame(f, frame, n);

			CHECK_EQ_INT(r.rc, 0);
			CHECK_EQ_INT(r.m.channel, f == V1 ? JUP_CONTROL : JUP_SHELL);
			CHECK_STR(r.m.msg_id, "m1");
			CHECK_STR(r.m.parent_id, f == V1 ? "p" : "");
			check_text(r.m.header, HEADER);
			check_text(r.m.metadata, "{}");
			check_text(r.m.content, "{\"a\":1}");
			CHECK_EQ_INT(r.m.nbuffers, nbuffers);
			for (size_t i = 0; i < nbuffers; i++) {
				const struct bytes *b = &buffers[i % ARRAY_LEN(buffers)];

				check_buffer(&r.m, i, b->p, b->n);
			}
			reading_done(&r);
		}
	}
}

TEST(jupyter_bounds_the_buffers)
{
	for (enum frame f = BINARY; f < FRAMES; f++) {
		size_t n;
		own_free uint8_t *most = good(f, JUP_BUFFERS_MAX, &n), *more = NULL;
		struct reading r = read_frame(f, most, n);

		CHECK_EQ_INT(r.rc, 0);
		CHECK_EQ_INT(r.m.nbuffers, JUP_BUFFERS_MAX);
		reading_done(&r);
		more = good(f, JUP_BUFFERS_MAX + 1, &n);
		check_refused_as(f, more, n, "too many offsets");
	}
}

/* Each offset of a good frame set to what it must not be. */
TEST(jupyter_refuses_offsets_out_of_place)
{
	static const char backwards[] = "offsets run backwards";
	static const char behind[] = "an offset lies behind the end";
	static const char first[] = "the first offset is not the end of the table";
	static const char last[] = "the last offset is not the end of the message";
	enum { NBUFFERS = 3 };

	for (enum frame f = BINARY; f < FRAMES; f++) {
		size_t count = fixed_of(f) + NBUFFERS + ends_of(f), n, word = f == V1 ? 8 : 4;
		uint64_t table = (1 + count) * word, most = f == V1 ? UINT64_MAX : UINT32_MAX;

		for (size_t i = 1; i <= count; i++) {
			own_free uint8_t *frame = good(f, NBUFFERS, &n);
			const uint64_t bad[] = { 0,           1,        table - 1, n + 1,
						 most,        most - 1, most / 2,  most / 2 + 1,
						 most - table };

			for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
				set_number(frame, f, i, bad[k]);
				if (i == 1)
					check_refused_as(f, frame, n, first);
				else if (ends_of(f) > 0 && i == count)
					check_refused_as(f, frame, n, last);
				else
					check_refused_as(f, frame, n,
							 bad[k] < table ? backwards : behind);
			}
		}
	}
}

TEST(jupyter_refuses_parts_that_overlap)
{
	for (enum frame f = BINARY; f < FRAMES; f++) {
		size_t n, i = fixed_of(f) + 1, word = f == V1 ? 8 : 4;
		own_free uint8_t *frame = good(f, 3, &n);
		uint64_t table = (1 + fixed_of(f) + 3 + ends_of(f)) * word;

		set_number(frame, f, i, n); /* the first buffer at the end */
		check_refused_as(f, frame, n, "offsets run backwards");
		set_number(frame, f, i, n - 4);     /* where it is */
		set_number(frame, f, i + 1, n - 5); /* the second one before it */
		check_refused_as(f, frame, n, "offsets run backwards");
		set_number(frame, f, i + 1, table); /* on top of the first part */
		check_refused_as(f, frame, n, "offsets run backwards");
	}
}

TEST(jupyter_refuses_a_first_offset_that_is_not_the_end_of_the_table)
{
	for (enum frame f = BINARY; f < FRAMES; f++) {
		size_t n, word = f == V1 ? 8 : 4;
		own_free uint8_t *frame = good(f, 0, &n);
		uint64_t table = (1 + fixed_of(f) + ends_of(f)) * word;

		set_number(frame, f, 1, table + 1);
		check_refused_as(f, frame, n, "the first offset is not the end of the table");
		set_number(frame, f, 1, table - 1);
		check_refused_as(f, frame, n, "the first offset is not the end of the table");
	}
}

TEST(jupyter_refuses_a_last_offset_that_is_not_the_end)
{
	size_t n;
	own_free uint8_t *frame = good(V1, 1, &n);

	set_number(frame, V1, 7, n - 1);
	check_refused_as(V1, frame, n, "the last offset is not the end of the message");
	set_number(frame, V1, 7, n);
	check_refused_as(V1, frame, n - 1, "the last offset is not the end of the message");
}

TEST(jupyter_refuses_counts_that_make_no_sense)
{
	static const uint64_t huge[] = {
		/* times the size of a number these are small, or 0, in 32 or 64 bits */
		UINT64_MAX,          UINT64_MAX - 1, UINT64_MAX / 8, UINT64_MAX / 8 + 1,
		UINT64_MAX / 8 + 7,  UINT32_MAX,     UINT32_MAX / 4, UINT32_MAX / 4 + 2,
		(uint64_t)INT64_MAX, 1u << 31,       1u << 30,       1u << 29,
	};

	for (enum frame f = BINARY; f < FRAMES; f++) {
		size_t n, least = fixed_of(f) + ends_of(f);
		own_free uint8_t *frame = good(f, 2, &n);

		for (size_t i = 0; i < least; i++) {
			set_number(frame, f, 0, i);
			check_refused_as(f, frame, n, "too few offsets");
		}
		for (size_t i = 0; i < ARRAY_LEN(huge); i++) {
			uint64_t v = f == V1 ? huge[i] : huge[i] | 1u << 30;

			set_number(frame, f, 0, v);
			check_refused_as(f, frame, n, "too many offsets");
		}
		set_number(frame, f, 0, least + JUP_BUFFERS_MAX); /* fewer bytes than that */
		check_refused_as(f, frame, n, "the table of offsets is cut off");
		set_number(frame, f, 0, least + JUP_BUFFERS_MAX + 1);
		check_refused_as(f, frame, n, "too many offsets");
		set_number(frame, f, 0, least + 1); /* another than there are */
		check_refused_as(f, frame, n, "the first offset is not the end of the table");
	}
}

TEST(jupyter_refuses_every_beginning_of_a_binary_frame)
{
	for (enum frame f = BINARY; f < FRAMES; f++) {
		size_t n, word = f == V1 ? 8 : 4;
		own_free uint8_t *frame = good(f, 0, &n);
		size_t table = (1 + fixed_of(f) + ends_of(f)) * word;

		for (size_t i = 0; i < n; i++)
			check_refused_as(f, frame, i,
					 i < table ? "the table of offsets is cut off" : NULL);
	}
}

/* In the legacy framing nothing says where the last buffer ends: only its beginning must be there. */
TEST(jupyter_reads_a_shorter_last_buffer)
{
	size_t n;
	own_free uint8_t *frame = good(BINARY, 1, &n);

	for (size_t less = 0; less <= 2; less++) {
		struct reading r = read_frame(BINARY, frame, n - less);

		CHECK_EQ_INT(r.rc, 0);
		check_buffer(&r.m, 0, "\0\xff", 2 - less);
		reading_done(&r);
	}
	check_refused_as(BINARY, frame, n - 3, "an offset lies behind the end");
}

TEST(jupyter_wants_a_whole_object_in_a_binary_frame)
{
	static const struct {
		struct bytes part;
		const char *why;
	} rows[] = {
		{ { "", 0 }, "not JSON" },
		{ { "{}", 2 }, "header is not an object" },
		{ { "[]", 2 }, "not an object" },
		{ { OBJECT "\0", sizeof(OBJECT) }, "not JSON" },
		{ { OBJECT "\xff", sizeof(OBJECT) }, "not UTF-8" },
		{ { "{\"header\":" HEADER ",\"buffers\":[{}]}",
		    sizeof("{\"header\":" HEADER ",\"buffers\":[{}]}") - 1 },
		  "buffers in JSON" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bytes parts[] = { rows[i].part, { "x", 1 } };
		size_t n;
		own_free uint8_t *frame = build(BINARY, parts, 2, &n);

		check_refused_as(BINARY, frame, n, rows[i].why);
	}
}

TEST(jupyter_checks_each_part_of_v1)
{
	static const struct {
		size_t part;
		struct bytes bytes;
		const char *why;
	} rows[] = {
		{ 0, { "she\0l", 5 }, "channel is not a text, or too long" },
		{ 0, { "\0", 1 }, "channel is not a text, or too long" },
		{ 0, { "shell\xff", 6 }, "channel is not a text, or too long" },
		{ 1, { "", 0 }, "not JSON" },
		{ 1, { "{}", 2 }, "msg_id or msg_type is missing" },
		{ 1, { "null", 4 }, "header is not an object" },
		{ 1, { "[]", 2 }, "header is not an object" },
		{ 1, { HEADER "\0", sizeof(HEADER) }, "not JSON" },
		{ 2, { "", 0 }, "not JSON" },
		{ 2, { "[]", 2 }, "parent_header is not an object" },
		{ 2,
		  { "{\"msg_id\":[]}", 13 },
		  "parent_header.msg_id is not a string, or too long" },
		{ 3, { "{", 1 }, "not JSON" },
		{ 3, { "1", 1 }, "metadata is not an object" },
		{ 4, { "\"\"", 2 }, "content is not an object" },
		{ 4, { "{\"a\":\"\xff\"}", 9 }, "not UTF-8" },
		{ 4, { "{}{}", 4 }, "not JSON" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bytes parts[ARRAY_LEN(v1_parts)];
		size_t n;
		own_free uint8_t *frame = NULL;

		memcpy(parts, v1_parts, sizeof(parts));
		parts[rows[i].part] = rows[i].bytes;
		frame = build(V1, parts, ARRAY_LEN(parts), &n);
		check_refused_as(V1, frame, n, rows[i].why);
	}
}

TEST(jupyter_v1_names_its_channel_in_bytes)
{
	own_free char *most = repeated("x", JUP_TYPE_MAX), *more = repeated("x", JUP_TYPE_MAX + 1);
	const struct {
		const char *name;
		enum jup_channel channel;
	} rows[] = {
		{ "shell", JUP_SHELL }, { "control", JUP_CONTROL },
		{ "stdin", JUP_STDIN }, { "iopub", JUP_IOPUB },
		{ "", JUP_UNKNOWN },    { "\"shell\"", JUP_UNKNOWN },
		{ most, JUP_UNKNOWN },  { "caf\xc3\xa9", JUP_UNKNOWN },
	};
	struct bytes parts[ARRAY_LEN(v1_parts)];
	own_free uint8_t *long_one = NULL;
	size_t n;

	memcpy(parts, v1_parts, sizeof(parts));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		own_free uint8_t *frame = NULL;
		struct reading r;

		parts[0] = (struct bytes){ rows[i].name, strlen(rows[i].name) };
		frame = build(V1, parts, ARRAY_LEN(parts), &n);
		r = read_frame(V1, frame, n);
		CHECK_EQ_INT(r.rc, 0);
		CHECK_EQ_INT(r.m.channel, rows[i].channel);
		CHECK_STR(r.m.channel_name, rows[i].name);
		reading_done(&r);
	}
	parts[0] = (struct bytes){ more, JUP_TYPE_MAX + 1 };
	long_one = build(V1, parts, ARRAY_LEN(parts), &n);
	check_refused_as(V1, long_one, n, "channel is not a text, or too long");
}

TEST(jupyter_v1_has_no_text_frames)
{
	struct jup_msg m;
	const char *why;

	CHECK_EQ_INT(jup_read(&m, JUP_V1, false, OBJECT, sizeof(OBJECT) - 1, &why), -EPROTO);
	CHECK_STR(why, "not a binary frame");
}

/* Whatever is changed, nothing beyond the frame is touched, and what is taken lies within it. */
TEST(jupyter_stays_within_a_frame_whatever_it_says)
{
	uint64_t state = 5;
	unsigned int taken = 0;

	for (int round = 0; round < 6000; round++) {
		enum frame f = rnd_below(&state, 2) == 0 ? BINARY : V1;
		size_t n, table = f == V1 ? 8 * 10 : 4 * 5;
		own_free uint8_t *frame = good(f, 3, &n);
		struct reading r;

		for (uint64_t k = 1 + rnd_below(&state, 2); k > 0; k--) {
			uint64_t at = rnd_below(&state, rnd_below(&state, 4) == 0 ? n : table);

			frame[at] = (uint8_t)(frame[at] + (rnd_below(&state, 2) ? 1 : 255));
		}
		r = read_frame(f, frame, n);
		for (size_t i = 0; i < r.m.nbuffers; i++)
			CHECK(r.m.buffers[i].p >= r.p && r.m.buffers[i].n <= n &&
			      r.m.buffers[i].p + r.m.buffers[i].n <= r.p + n);
		taken += r.rc == 0;
		reading_done(&r);
	}
	CHECK(taken > 100);
}
