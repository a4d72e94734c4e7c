/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/cell_messages.c, cell_results.c: what a kernel says, and what comes of it. */
#include "gate/cell_messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/base64.h"
#include "base/own.h"
#include "base/utf8.h"
#include "wire/json_text.h"
#include "wire/jsonr.h"

#include "test_help.h"

#define REPLACED "\xef\xbf\xbd"

/* Text that is put together: fprintf() to f, then text_end(). */
struct text {
	char *p;
	size_t n;
	FILE *f;
};

static void text_begin(struct text *t)
{
	*t = (struct text){ 0 };
	t->f = open_memstream(&t->p, &t->n);
	CHECK(t->f != NULL);
}

static void text_end(struct text *t)
{
	CHECK(fclose(t->f) == 0);
	t->f = NULL;
}

/* --- one message ----------------------------------------------------------------------------------------------- */

/* From in front of a fence. */
static int say(const char *p, size_t n, struct cell_said *ret)
{
	struct fence f = fence_open(n > 0 ? n : 1);
	int rc;

	memset(ret, 0x5a, sizeof(*ret));
	rc = cell_said((const char *)fence_copy(&f, p, n), n, ret);
	fence_close(&f);
	return rc;
}

/* Members are one line that any reader takes, and one that writes it anew writes the same. */
static void check_line(const struct json *members)
{
	struct json whole, again;
	struct json_text t;
	uint32_t c;

	json_init(&whole);
	json_init(&again);
	json_open(&whole, NULL, '{');
	json_raw(&whole, members->buf, members->len);
	json_close(&whole, '}');
	for (size_t i = 0; i < whole.len;) {
		size_t n = utf8_next((const unsigned char *)whole.buf + i, whole.len - i, &c);

		if (n == 0 || utf8_is_tricky(c))
			test_fail(__FILE__, __LINE__, "at %zu of '%s'", i, whole.buf);
		i += n;
	}
	CHECK_EQ_INT(json_text_read(whole.buf, whole.len, &t), 0);
	json_text_put(t, &again, NULL);
	CHECK_STR(again.buf, whole.buf);
	json_done(&whole);
	json_done(&again);
}

static void check_said(const char *message, enum run_event event, const char *want)
{
	struct cell_said said;
	int rc = say(message, strlen(message), &said);

	if (rc != 0)
		test_fail(__FILE__, __LINE__, "'%s' gives %d", message, rc);
	CHECK_STR(run_event_str(said.event), run_event_str(event));
	CHECK_STR(said.members.buf, want);
	CHECK_EQ_INT(said.members.len, strlen(want));
	CHECK_EQ_INT(said.wait, event == RUN_CLEAR && strcmp(want, "\"wait\":true") == 0);
	check_line(&said.members);
	json_done(&said.members);
}

static void check_refused(const char *message)
{
	struct cell_said said;
	int rc = say(message, strlen(message), &said);

	if (rc != -EPROTO || said.event != RUN_EVENT_MAX)
		test_fail(__FILE__, __LINE__, "'%s' gives %d", message, rc);
	json_done(&said.members);
}

#define MESSAGE(type, content) "{\"type\":\"" type "\",\"content\":" content "}"
#define DISPLAY(content)       MESSAGE("display_data", content)

TEST(cell_says_displays)
{
	check_said(DISPLAY("{\"data\":{\"text/plain\":\"x\"},\"metadata\":{\"a\":1},"
			   "\"transient\":{\"display_id\":\"d1\"}}"),
		   RUN_DISPLAY,
		   "\"display_id\":\"d1\",\"data\":{\"text/plain\":\"x\"},\"metadata\":{\"a\":1}");
	check_said(MESSAGE("update_display_data",
			   "{\"transient\":{\"display_id\":\"d1\"},\"metadata\":{},\"data\":{}}"),
		   RUN_UPDATE, "\"display_id\":\"d1\",\"data\":{},\"metadata\":{}");
	check_said(MESSAGE("execute_result",
			   "{\"execution_count\":7,\"data\":{\"text/plain\":\"3\"},"
			   "\"metadata\":{}}"),
		   RUN_RESULT,
		   "\"display_id\":null,\"data\":{\"text/plain\":\"3\"},\"metadata\":{},"
		   "\"execution_count\":7");
	/* In any order, with anything beside it. */
	check_said("{\"x\":[1],\"content\":{\"y\":{},\"data\":{}},\"type\":\"display_data\"}",
		   RUN_DISPLAY, "\"display_id\":null,\"data\":{},\"metadata\":{}");
}

TEST(cell_says_data_of_any_type)
{
	check_said(DISPLAY("{\"data\":{\"text/html\":[\"<b>\\n\",\"\\u00e9\",\"\"],\"image/"
			   "png\":\"iVBORw==\","
			   "\"application/json\":{\"a\":[1, 2.50]},\"application/geo+json\":[],"
			   "\"application/vnd.vega.v5+json\":\"text\",\"application/x+json\":null,"
			   "\"image/svg+xml\":[]}}"),
		   RUN_DISPLAY,
		   "\"display_id\":null,\"data\":{\"text/html\":\"<b>\\n\xc3\xa9\","
		   "\"image/png\":\"iVBORw==\",\"application/json\":{\"a\":[1,2.50]},"
		   "\"application/geo+json\":[],\"application/vnd.vega.v5+json\":\"text\","
		   "\"application/x+json\":null,\"image/svg+xml\":\"\"},\"metadata\":{}");
	/* What should be text and is none is left out. */
	check_said(DISPLAY("{\"data\":{\"a\":1,\"b\":null,\"c\":{},\"d\":[\"x\",1],\"e\":[[]],"
			   "\"f\":true,"
			   "\"application/x\":{},\"application/+jso\":1,\"text/"
			   "x+json\":1,\"application+json\":1,"
			   "\"Application/json\":1,\"application/json \":1,\"last\":\"kept\"}}"),
		   RUN_DISPLAY, "\"display_id\":null,\"data\":{\"last\":\"kept\"},\"metadata\":{}");
	/* A type by another spelling, and one that nobody can have meant. */
	check_said(DISPLAY("{\"data\":{\"\\u0061pplication\\/json\":1,\"application/"
			   "json\\u0000\":2}}"),
		   RUN_DISPLAY,
		   "\"display_id\":null,\"data\":{\"application/json\":1},\"metadata\":{}");
	check_said(DISPLAY("{\"data\":{\"application/+json\":[1]}}"), RUN_DISPLAY,
		   "\"display_id\":null,\"data\":{\"application/+json\":[1]},\"metadata\":{}");
}

TEST(cell_says_display_ids)
{
	static const struct {
		const char *transient, *want;
	} rows[] = {
		{ "{\"display_id\":\"\"}", "\"\"" },
		{ "{\"display_id\":\"a\\u0062\\n\"}", "\"ab\\n\"" },
		{ "{\"display_id\":5}", "\"5\"" },
		{ "{\"display_id\":-1.5e3}", "\"-1.5e3\"" },
		{ "{\"display_id\":1,\"display_id\":\"last\"}", "\"last\"" },
		{ "{\"display_id\":null}", "null" },
		{ "{\"display_id\":true}", "null" },
		{ "{\"display_id\":[\"a\"]}", "null" },
		{ "{}", "null" },
		{ "null", "null" },
		{ "[\"display_id\"]", "null" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char message[256], want[256];

		(void)snprintf(message, sizeof(message), DISPLAY("{\"transient\":%s,\"data\":{}}"),
			       rows[i].transient);
		(void)snprintf(want, sizeof(want), "\"display_id\":%s,\"data\":{},\"metadata\":{}",
			       rows[i].want);
		check_said(message, RUN_DISPLAY, want);
	}
}

TEST(cell_says_counts)
{
	static const struct {
		const char *count, *want; /* NULL: refused */
	} rows[] = {
		{ ",\"execution_count\":0", "0" },
		{ ",\"execution_count\":-3", "-3" },
		{ ",\"execution_count\":9223372036854775807", "9223372036854775807" },
		{ ",\"execution_count\":9223372036854775808", "null" },
		{ ",\"execution_count\":1.5", "null" },
		{ ",\"execution_count\":null", "null" },
		{ "", "null" },
		{ ",\"execution_count\":\"1\"", NULL },
		{ ",\"execution_count\":true", NULL },
		{ ",\"execution_count\":[1]", NULL },
		{ ",\"execution_count\":1,\"execution_count\":{}", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char message[256], want[256];

		(void)snprintf(message, sizeof(message),
			       MESSAGE("execute_result", "{\"data\":{}%s}"), rows[i].count);
		(void)snprintf(
			want, sizeof(want),
			"\"display_id\":null,\"data\":{},\"metadata\":{},\"execution_count\":%s",
			rows[i].want != NULL ? rows[i].want : "");
		if (rows[i].want != NULL)
			check_said(message, RUN_RESULT, want);
		else
			check_refused(message);
	}
}

TEST(cell_says_everything_else)
{
	check_said(MESSAGE("error", "{\"ename\":\"E\",\"evalue\":\"v\\u001b\",\"traceback\":["
				    "\"a\\n\", \"b\"]}"),
		   RUN_ERROR,
		   "\"name\":\"E\",\"value\":\"v\\u001b\",\"traceback\":[\"a\\n\",\"b\"]");
	check_said(MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\",\"traceback\":[]}"), RUN_ERROR,
		   "\"name\":\"\",\"value\":\"\",\"traceback\":[]");
	check_said(MESSAGE("clear_output", "{\"wait\":true}"), RUN_CLEAR, "\"wait\":true");
	check_said(MESSAGE("clear_output", "{\"wait\":true,\"wait\": false}"), RUN_CLEAR,
		   "\"wait\":false");
	check_said(MESSAGE("input_request", "{\"prompt\":\"? \",\"password\":true}"), RUN_INPUT,
		   "\"prompt\":\"? \",\"password\":true");
	check_said(MESSAGE("input_request", "{\"prompt\":\"\",\"password\":false}"), RUN_INPUT,
		   "\"prompt\":\"\",\"password\":false");
}

TEST(cell_says_comms)
{
	check_said("{\"type\":\"comm_open\",\"content\":{\"comm_id\":\"c\",\"target_name\":\"t\","
		   "\"data\":{ }},"
		   "\"metadata\":{\"v\":1},\"buffers\":[\"AAAA\", \"\"]}",
		   RUN_COMM,
		   "\"type\":\"comm_open\",\"content\":{\"comm_id\":\"c\",\"target_name\":\"t\","
		   "\"data\":{}},"
		   "\"metadata\":{\"v\":1},\"buffers\":[\"AAAA\",\"\"]");
	check_said(MESSAGE("comm_msg", "{\"comm_id\":\"c\",\"data\":[{\"a\":1,\"a\":2}]}"),
		   RUN_COMM,
		   "\"type\":\"comm_msg\",\"content\":{\"comm_id\":\"c\",\"data\":[{\"a\":1,\"a\":"
		   "2}]},"
		   "\"metadata\":{},\"buffers\":[]");
	check_said(MESSAGE("comm_close", "{\"comm_id\":\"\"}"), RUN_COMM,
		   "\"type\":\"comm_close\",\"content\":{\"comm_id\":\"\"},\"metadata\":{},"
		   "\"buffers\":[]");
}

TEST(cell_says_what_no_log_has)
{
	static const char *const unknown[] = {
		MESSAGE("status", "{\"execution_state\":\"busy\"}"),
		MESSAGE("", "{}"),
		MESSAGE("display_dat", "{}"),
		MESSAGE("display_data ", "{}"),
		MESSAGE("display_data\\u0000", "{}"),
		MESSAGE("a very long type that is longer than all that we know of", "{}"),
		MESSAGE("execute_reply", "{\"status\":\"ok\"}"),
		"{\"type\":\"display_data\",\"type\":\"x\",\"content\":{}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
		struct cell_said said;

		CHECK_EQ_INT(say(unknown[i], strlen(unknown[i]), &said), 0);
		CHECK_EQ_INT(said.event, RUN_EVENT_MAX);
		CHECK_EQ_INT(said.members.len, 0);
		json_done(&said.members);
	}
}

TEST(cell_refuses_what_is_no_message)
{
	static const char *const bad[] = {
		"",
		"x",
		"null",
		"[]",
		"{}",
		"\"display_data\"",
		"{\"type\":\"x\"}",
		"{\"content\":{}}",
		"{\"type\":null,\"content\":{}}",
		"{\"type\":[\"x\"],\"content\":{}}",
		"{\"type\":\"x\",\"content\":[]}",
		"{\"type\":\"x\",\"content\":null}",
		"{\"type\":\"x\",\"content\":{},\"content\":1}",
		"[\"type\",\"x\",\"content\",{}]",
		MESSAGE("x", "{}") ",",
		MESSAGE("x", "{}") MESSAGE("x", "{}"),
		MESSAGE("x", "{\"a\":NaN}"),
		MESSAGE("x", "{\"a\":Infinity}"),
		MESSAGE("x", "{\"a\":01}"),
		MESSAGE("x", "{\"a\":1.}"),
		MESSAGE("x", "{\"a\":\"\n\"}"),
		DISPLAY("{}"),
		DISPLAY("{\"data\":null}"),
		DISPLAY("{\"data\":[]}"),
		DISPLAY("{\"data\":\"x\"}"),
		DISPLAY("{\"data\":{},\"data\":1}"),
		DISPLAY("{\"data\":{},\"metadata\":null}"),
		DISPLAY("{\"data\":{},\"metadata\":[]}"),
		DISPLAY("{\"data\":{},\"metadata\":\"\"}"),
		MESSAGE("update_display_data", "{\"transient\":{\"display_id\":\"a\"}}"),
		MESSAGE("execute_result", "{\"execution_count\":1}"),
		MESSAGE("execute_result", "{\"execution_count\":1,\"data\":{},\"metadata\":1}"),
		MESSAGE("error", "{}"),
		MESSAGE("error", "{\"evalue\":\"\",\"traceback\":[]}"),
		MESSAGE("error", "{\"ename\":\"\",\"traceback\":[]}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\"}"),
		MESSAGE("error", "{\"ename\":1,\"evalue\":\"\",\"traceback\":[]}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":null,\"traceback\":[]}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\",\"traceback\":null}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\",\"traceback\":\"x\"}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\",\"traceback\":{}}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\",\"traceback\":[\"\",1]}"),
		MESSAGE("error", "{\"ename\":\"\",\"evalue\":\"\",\"traceback\":[[]]}"),
		MESSAGE("clear_output", "{}"),
		MESSAGE("clear_output", "{\"wait\":null}"),
		MESSAGE("clear_output", "{\"wait\":1}"),
		MESSAGE("clear_output", "{\"wait\":\"true\"}"),
		MESSAGE("input_request", "{\"prompt\":\"\"}"),
		MESSAGE("input_request", "{\"password\":false}"),
		MESSAGE("input_request", "{\"prompt\":1,\"password\":false}"),
		MESSAGE("input_request", "{\"prompt\":\"\",\"password\":0}"),
		MESSAGE("comm_open", "{\"comm_id\":\"c\"}"),
		MESSAGE("comm_open", "{\"target_name\":\"t\"}"),
		MESSAGE("comm_open", "{\"comm_id\":\"c\",\"target_name\":1}"),
		MESSAGE("comm_msg", "{}"),
		MESSAGE("comm_msg", "{\"comm_id\":7}"),
		MESSAGE("comm_close", "{\"comm_id\":null}"),
		"{\"type\":\"comm_msg\",\"content\":{\"comm_id\":\"c\"},\"metadata\":null}",
		"{\"type\":\"comm_msg\",\"content\":{\"comm_id\":\"c\"},\"metadata\":[]}",
		"{\"type\":\"comm_msg\",\"content\":{\"comm_id\":\"c\"},\"buffers\":null}",
		"{\"type\":\"comm_msg\",\"content\":{\"comm_id\":\"c\"},\"buffers\":{}}",
		"{\"type\":\"comm_msg\",\"content\":{\"comm_id\":\"c\"},\"buffers\":[1]}",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_refused(bad[i]);
}

TEST(cell_says_nothing_half)
{
	static const char text[] = " {\"type\" : \"error\", \"content\": {\"ename\":\"a\\\"\", "
				   "\"evalue\":\"\\ud83d\\ude00\","
				   " \"traceback\":[\"1\", \"2\"]}}";
	struct cell_said said;

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		CHECK_EQ_INT(say(text, n, &said), -EPROTO);
		json_done(&said.members);
	}
	check_said(text, RUN_ERROR,
		   "\"name\":\"a\\\"\",\"value\":\"\xf0\x9f\x98\x80\",\"traceback\":[\"1\",\"2\"]");
}

TEST(cell_says_one_line_of_text_whatever_comes)
{
	check_said(
		"\n{\r\"type\"\t:\n\"display_data\" ,\r\n\"content\" : {\n\"data\" :\n{ "
		"\"text/plain\" : [ \"a\\r\" ,\n"
		"\"\\u2028\" ] , \"application/json\" : [\n\n1\t,\r\n{ \"b\\n\" :\n2 } ] } } }\n\n",
		RUN_DISPLAY,
		"\"display_id\":null,\"data\":{\"text/plain\":\"a\\u000d\\u2028\","
		"\"application/json\":[1,{\"b\\n\":2}]},\"metadata\":{}");
	check_said(DISPLAY("{\"data\":{\"t\xff\":\"\xc3(\\ud800\\u0041\\udfff\\u0000\x7f\"},"
			   "\"metadata\":{\"\\udc00\":\"\xf5\"}}"),
		   RUN_DISPLAY,
		   "\"display_id\":null,\"data\":{\"t" REPLACED "\":\"" REPLACED "(" REPLACED
		   "A" REPLACED "\\u0000\\u007f\"},\"metadata\":{\"" REPLACED "\":\"" REPLACED
		   "\"}");
}

TEST(cell_says_no_more_than_so_deep)
{
	for (int extra = -1; extra <= 1; extra++) {
		int n = JSON_TEXT_DEPTH_MAX - 3 + extra; /* in message, content, data */
		struct cell_said said;
		struct text t;

		text_begin(&t);
		(void)fprintf(
			t.f,
			"{\"type\":\"display_data\",\"content\":{\"data\":{\"application/json\":");
		for (int i = 0; i < n; i++)
			(void)fputs("[ ", t.f);
		for (int i = 0; i < n; i++)
			(void)fputs("] ", t.f);
		(void)fprintf(t.f, "}}}");
		text_end(&t);
		CHECK_EQ_INT(say(t.p, t.n, &said), extra > 0 ? -EPROTO : 0);
		if (extra <= 0)
			check_line(&said.members);
		json_done(&said.members);
		free(t.p);
	}
}

/* The longest message, of characters that grow most. */
TEST(cell_says_much)
{
	enum { N = 16 * 1024 * 1024 };
	static const char head[] =
		"{\"type\":\"display_data\",\"content\":{\"data\":{\"text/plain\":\"",
			  tail[] = "\"}}}";
	static const char want[] = "\"display_id\":null,\"data\":{\"text/plain\":\"";
	static const struct {
		const char *piece, *want;
	} rows[] = { { "aaaa", "aaaa" },
		     { "\\t\\t", "\\u0009\\u0009" },
		     { "\\\"\\\"", "\\\"\\\"" } };
	own_free char *text = malloc(N);

	CHECK(text != NULL);
	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		size_t at = sizeof(head) - 1, pieces = 0, each = strlen(rows[r].want);
		struct cell_said said;
		const char *got;

		memcpy(text, head, at);
		for (; N - at >= 4 + sizeof(tail); at += 4, pieces++)
			memcpy(text + at, rows[r].piece, 4);
		memcpy(text + at, tail, sizeof(tail) - 1);
		CHECK_EQ_INT(say(text, at + sizeof(tail) - 1, &said), 0);
		CHECK(strncmp(said.members.buf, want, sizeof(want) - 1) == 0);
		got = said.members.buf + sizeof(want) - 1;
		for (size_t i = 0; i < pieces; i++)
			if (memcmp(got + i * each, rows[r].want, each) != 0)
				test_fail(__FILE__, __LINE__, "piece %zu of row %zu", i, r);
		CHECK_STR(got + pieces * each, "\"},\"metadata\":{}");
		json_done(&said.members);
	}
}

/* --- any message ------------------------------------------------------------------------------------------------- */

static void random_space(FILE *f, uint64_t *state)
{
	while (rnd_below(state, 4) == 0)
		(void)fputc(" \t\r\n"[rnd_below(state, 4)], f);
}

static void random_string(FILE *f, uint64_t *state)
{
	static const char *const pieces[] = {
		"a",       " ",       "\\n",          "\\\"",     "\\\\", "\\u0000", "\\u001f",
		"\\ud83d", "\\ude00", "\\u2028",      "\xc3\xa9", "\xc3", "\xff",    "{",
		"]",       ",",       "\xe2\x80\xa9", "\\/",      "\x7f", "data"
	};

	(void)fputc('"', f);
	while (rnd_below(state, 4) != 0)
		(void)fputs(pieces[rnd_below(state, ARRAY_LEN(pieces))], f);
	(void)fputc('"', f);
}

static void random_value(FILE *f, uint64_t *state, unsigned int depth)
{
	static const char *const scalars[] = { "0",     "-1",   "1.5",
					       "2E+3",  "1e-7", "true",
					       "false", "null", "123456789012345678901234567890" };
	uint64_t kind = rnd_below(state, depth > 0 ? 4 : 2);
	bool object = kind == 3;

	random_space(f, state);
	if (kind == 0) {
		(void)fputs(scalars[rnd_below(state, ARRAY_LEN(scalars))], f);
	} else if (kind == 1) {
		random_string(f, state);
	} else {
		(void)fputc(object ? '{' : '[', f);
		random_space(f, state);
		for (uint64_t i = 0, n = rnd_below(state, 4); i < n; i++) {
			if (i > 0)
				(void)fputc(',', f);
			if (object) {
				random_space(f, state);
				random_string(f, state);
				random_space(f, state);
				(void)fputc(':', f);
			}
			random_value(f, state, depth - 1);
		}
		(void)fputc(object ? '}' : ']', f);
	}
	random_space(f, state);
}

/* Shapes in which ? is any value and $ any string. */
static void random_message(FILE *f, uint64_t *state)
{
	static const char *const shapes[] = {
		"{\"type\":\"display_data\",\"content\":{\"data\":{\"application/json\":?,\"text/"
		"plain\":$,$:?},"
		"\"metadata\":{\"x\":?},\"transient\":{\"display_id\":$}}}",
		"{\"type\":\"update_display_data\",\"content\":{\"data\":{$:[$,$]},\"transient\":?}"
		"}",
		"{\"type\":\"execute_result\",\"content\":{\"execution_count\":1,\"data\":{$:$,"
		"\"application/x+json\":?}}}",
		"{\"type\":\"error\",\"content\":{\"ename\":$,\"evalue\":$,\"traceback\":[$,$,$]},"
		"\"x\":?}",
		"{\"type\":\"clear_output\",\"content\":{\"wait\":true,$:?}}",
		"{\"type\":\"input_request\",\"content\":{\"prompt\":$,\"password\":false}}",
		"{\"type\":\"comm_msg\",\"content\":{\"comm_id\":$,\"data\":?,$:?},\"metadata\":{$:"
		"?},\"buffers\":[$]}",
		"{\"type\":\"comm_open\",\"content\":{\"comm_id\":$,\"target_name\":$,\"data\":?}}",
		"{\"type\":$,\"content\":{$:?}}",
	};

	for (const char *c = shapes[rnd_below(state, ARRAY_LEN(shapes))]; *c != '\0'; c++) {
		if (*c == '?')
			random_value(f, state, 5);
		else if (*c == '$')
			random_string(f, state);
		else
			(void)fputc(*c, f);
		if (strchr("{}[]:,", *c) != NULL)
			random_space(f, state);
	}
}

/* By the strict reader what it takes: the same before and after, so nothing was lost or made up. Only of comms, whose
 * content passes whole. */
static void check_content(const char *message, size_t n, const struct cell_said *said)
{
	own_free char *before = malloc(n), *after = malloc(said->members.len + 3);
	struct jsonr a, b;
	struct json j, k;

	CHECK(before != NULL && after != NULL);
	memcpy(before, message, n);
	(void)sprintf(after, "{%s}", said->members.buf);
	json_init(&j);
	json_init(&k);
	if (jsonr_parse(&a, before, n, NULL) == 0) {
		CHECK_EQ_INT(jsonr_parse(&b, after, said->members.len + 2, NULL), 0);
		jsonr_write(&a, jsonr_get(&a, jsonr_root(&a), "content"), &j, NULL);
		jsonr_write(&b, jsonr_get(&b, jsonr_root(&b), "content"), &k, NULL);
		CHECK_STR(k.buf, j.buf);
		jsonr_done(&b);
	}
	jsonr_done(&a);
	json_done(&j);
	json_done(&k);
}

TEST(cell_says_any_message_as_one_line)
{
	uint64_t state = 3;

	for (int round = 0; round < 6000; round++) {
		struct cell_said said;
		struct text t;

		text_begin(&t);
		random_message(t.f, &state);
		text_end(&t);
		CHECK_EQ_INT(cell_said(t.p, t.n, &said), 0);
		check_line(&said.members);
		if (said.event == RUN_COMM)
			check_content(t.p, t.n, &said);
		json_done(&said.members);
		free(t.p);
	}
}

TEST(cell_says_or_refuses_what_was_changed_on_its_way)
{
	static const char stray[] = "\"\\{}[]:,\n\r\x01\xff\x80 0e.-u";
	unsigned int taken = 0, refused = 0;
	uint64_t state = 5;

	for (int round = 0; round < 20000; round++) {
		struct cell_said said;
		struct text t;
		int rc;

		text_begin(&t);
		random_message(t.f, &state);
		text_end(&t);
		for (uint64_t n = 1 + rnd_below(&state, 3); n > 0; n--)
			t.p[rnd_below(&state, t.n)] = stray[rnd_below(&state, sizeof(stray) - 1)];
		rc = cell_said(t.p, t.n - rnd_below(&state, 2), &said);
		CHECK(rc == 0 || rc == -EPROTO);
		if (rc == 0)
			check_line(&said.members);
		taken += rc == 0;
		refused += rc != 0;
		json_done(&said.members);
		free(t.p);
	}
	CHECK(taken > 1000 && refused > 1000);
}

/* --- the reply ----------------------------------------------------------------------------------------------------- */

static int reply_of(const char *text, struct cell_reply *ret)
{
	size_t n = strlen(text);
	struct fence f = fence_open(n > 0 ? n : 1);
	int rc;

	memset(ret, 0x5a, sizeof(*ret));
	rc = cell_replied((const char *)fence_copy(&f, text, n), n, ret);
	fence_close(&f);
	return rc;
}

#define REPLY(content) MESSAGE("execute_reply", content)

TEST(cell_replies)
{
	static const struct {
		const char *text;
		enum cell_reply_status status;
		int64_t count; /* -1: none */
		const char *error;
		bool interrupted;
	} rows[] = {
		{ REPLY("{\"status\":\"ok\",\"execution_count\":3,\"payload\":[],\"user_"
			"expressions\":{}}"),
		  CELL_REPLY_OK, 3, NULL, false },
		{ REPLY("{\"status\":\"ok\"}"), CELL_REPLY_OK, -1, NULL, false },
		{ REPLY("{\"status\":\"aborted\",\"execution_count\":null}"), CELL_REPLY_ABORTED,
		  -1, NULL, false },
		{ REPLY("{\"status\":\"ok\",\"execution_count\":1e3}"), CELL_REPLY_OK, -1, NULL,
		  false },
		{ REPLY("{\"status\":\"ok\",\"execution_count\":99999999999999999999}"),
		  CELL_REPLY_OK, -1, NULL, false },
		{ REPLY("{\"status\":\"ok\",\"ename\":\"KeyboardInterrupt\"}"), CELL_REPLY_OK, -1,
		  NULL, false },
		{ REPLY("{\"status\":\"error\",\"execution_count\":4,\"ename\":\"E\",\"evalue\":"
			"\"v\","
			"\"traceback\":[\"l\\n\"]}"),
		  CELL_REPLY_ERROR, 4, "\"name\":\"E\",\"value\":\"v\",\"traceback\":[\"l\\n\"]",
		  false },
		{ REPLY("{\"status\":\"error\",\"ename\":\"KeyboardInterrup\\u0074\",\"evalue\":"
			"\"\",\"traceback\":[]}"),
		  CELL_REPLY_ERROR, -1,
		  "\"name\":\"KeyboardInterrupt\",\"value\":\"\",\"traceback\":[]", true },
		{ REPLY("{\"status\":\"error\"}"), CELL_REPLY_ERROR, -1, NULL, false },
		{ REPLY("{\"status\":\"ok\",\"status\":\"error\"}"), CELL_REPLY_ERROR, -1, NULL,
		  false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cell_reply r;

		CHECK_EQ_INT(reply_of(rows[i].text, &r), 0);
		CHECK_EQ_INT(r.status, rows[i].status);
		CHECK_EQ_INT(r.has_count, rows[i].count >= 0);
		if (r.has_count)
			CHECK_EQ_INT(r.execution_count, rows[i].count);
		CHECK_EQ_INT(r.has_error, rows[i].error != NULL);
		CHECK_STR(r.error.buf, rows[i].error);
		if (r.has_error)
			check_line(&r.error);
		CHECK_EQ_INT(r.interrupted, rows[i].interrupted);
		json_done(&r.error);
	}
}

TEST(cell_replies_are_refused)
{
	static const char *const bad[] = {
		"",
		"{}",
		"[]",
		MESSAGE("inspect_reply", "{\"status\":\"ok\"}"),
		MESSAGE("display_data", "{\"status\":\"ok\"}"),
		REPLY("{}"),
		REPLY("[\"status\",\"ok\"]"),
		REPLY("{\"status\":null}"),
		REPLY("{\"status\":\"OK\"}"),
		REPLY("{\"status\":\"ok\\u0000\"}"),
		REPLY("{\"status\":\"\"}"),
		REPLY("{\"status\":true}"),
		REPLY("{\"status\":\"ok\",\"execution_count\":\"1\"}"),
		REPLY("{\"status\":\"ok\",\"execution_count\":false}"),
		REPLY("{\"status\":\"error\",\"ename\":1,\"evalue\":\"\",\"traceback\":[]}"),
		REPLY("{\"status\":\"error\",\"ename\":\"E\"}"),
		REPLY("{\"status\":\"error\",\"ename\":\"E\",\"evalue\":\"\",\"traceback\":[0]}"),
		REPLY("{\"status\":\"ok\"}") "}",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct cell_reply r;

		if (reply_of(bad[i], &r) != -EPROTO)
			test_fail(__FILE__, __LINE__, "'%s' is taken", bad[i]);
		json_done(&r.error);
	}
	CHECK(ARRAY_LEN(bad) > 0);
}

/* --- results ------------------------------------------------------------------------------------------------------- */

static struct loop loop;
static struct runs all;
static struct run_share share;
static struct run run;

static void put(void *arg, struct json *j)
{
	(void)arg;
	(void)j;
}

static const struct run_ops ops = { .put = put };

static void begin(size_t max)
{
	loop = (struct loop){ .epoll_fd = -1 };
	all = (struct runs){ .max = (size_t)1 << 30 };
	run_init(&run, &loop, &all, &share, "cell", max, &ops, NULL);
	run_event(&run, 0, RUN_START, NULL, 0);
}

static void done(void)
{
	run_done(&run, NULL, NULL); /* nobody reads: what it puts off may stay so */
	CHECK_EQ_INT(all.bytes, 0);
}

/* A message into the log. */
static void log_message(const char *message)
{
	struct cell_said said;

	CHECK_EQ_INT(cell_said(message, strlen(message), &said), 0);
	run_event(&run, 0, said.event, said.members.buf, said.members.len);
	json_done(&said.members);
}

static void log_text(unsigned int stream, const char *text)
{
	run_output(&run, 0, stream, text, strlen(text));
}

static void log_display(const char *type, const char *id, unsigned int value)
{
	char message[256];

	(void)snprintf(message, sizeof(message),
		       "{\"type\":\"%s\",\"content\":{\"data\":{\"text/"
		       "plain\":\"%u\"},\"metadata\":{\"n\":%u},"
		       "\"execution_count\":%u,\"transient\":{\"display_id\":%s}}}",
		       type, value, value, value, id);
	log_message(message);
}

#define CLEAR      MESSAGE("clear_output", "{\"wait\":false}")
#define CLEAR_WAIT MESSAGE("clear_output", "{\"wait\":true}")
#define ERROR      MESSAGE("error", "{\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"t\"]}")

static void check_results(bool outputs, const char *want)
{
	struct json j;

	json_init(&j);
	cell_put_results(&run, &j, outputs);
	CHECK(!j.failed);
	CHECK_STR(j.buf, want);
	json_done(&j);
}

TEST(cell_results_of_nothing)
{
	begin(100);
	check_results(false, "\"results\":[]");
	check_results(true, "\"results\":[],\"outputs\":[]");
	CHECK_EQ_INT(cell_text_from(&run, 1), 0);
	CHECK_EQ_INT(cell_text_from(&run, 2), 0);
	done();
}

TEST(cell_results_in_order)
{
	begin(100);
	log_text(1, "a");
	log_text(1, "b");
	log_text(2, "!");
	log_display("display_data", "null", 1);
	log_message(MESSAGE("comm_msg", "{\"comm_id\":\"c\"}"));
	log_text(2, "?");
	log_message(MESSAGE("input_request", "{\"prompt\":\"\",\"password\":false}"));
	log_text(2, "\xe2\x82");
	log_text(1, "c\n");
	log_text(2, "\xac");
	log_message(ERROR);
	log_display("execute_result", "\"x\"", 2);
	log_text(1, "d\xc3");
	check_results(
		true,
		"\"results\":[{\"type\":\"display\",\"display_id\":null,\"data\":{\"text/"
		"plain\":\"1\"},"
		"\"metadata\":{\"n\":1}},{\"type\":\"result\",\"display_id\":\"x\","
		"\"data\":{\"text/plain\":\"2\"},\"metadata\":{\"n\":2},\"execution_count\":2}],"
		"\"outputs\":[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"ab\"},"
		"{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"!\"},"
		"{\"output_type\":\"display_data\",\"data\":{\"text/"
		"plain\":\"1\"},\"metadata\":{\"n\":1}},"
		"{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"?\"},"
		"{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"c\\n\"},"
		"{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"\xe2\x82\xac\"},"
		"{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\",\"traceback\":[\"t\"]}"
		","
		"{\"output_type\":\"execute_result\",\"data\":{\"text/"
		"plain\":\"2\"},\"metadata\":{\"n\":2},"
		"\"execution_count\":2},"
		"{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"d" REPLACED "\"}]");
	run_end(&run, 0);
	done();
}

/* Text of which nothing is whole yet is none that would come in between. */
TEST(cell_results_join_text)
{
	begin(100);
	log_text(1, "a");
	log_text(2, "\xe2");
	log_text(1, "b");
	log_text(2, "\x82\xac");
	check_results(
		true,
		"\"results\":[],\"outputs\":["
		"{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"ab\"},"
		"{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"\xe2\x82\xac\"}]");
	done();
}

TEST(cell_results_are_updated)
{
	begin(100);
	log_display("update_display_data", "\"a\"", 90); /* nobody has it yet */
	log_display("display_data", "\"a\"", 1);
	log_display("display_data", "null", 2);
	log_display("execute_result", "\"a\"", 3);
	log_display("display_data", "\"b\"", 4);
	log_display("update_display_data", "\"a\"", 91);
	log_display("update_display_data", "\"a\"", 92);
	log_display("update_display_data", "null", 93);
	log_display("update_display_data", "\"aa\"", 94);
	log_display("display_data", "\"a\"", 5); /* displayed anew */
	check_results(false,
		      "\"results\":[{\"type\":\"display\",\"display_id\":\"a\",\"data\":{\"text/"
		      "plain\":\"92\"},"
		      "\"metadata\":{\"n\":92}},"
		      "{\"type\":\"display\",\"display_id\":null,\"data\":{\"text/"
		      "plain\":\"2\"},\"metadata\":{\"n\":2}},"
		      "{\"type\":\"result\",\"display_id\":\"a\",\"data\":{\"text/plain\":\"92\"},"
		      "\"metadata\":{\"n\":92},\"execution_count\":3},"
		      "{\"type\":\"display\",\"display_id\":\"b\",\"data\":{\"text/"
		      "plain\":\"4\"},\"metadata\":{\"n\":4}},"
		      "{\"type\":\"display\",\"display_id\":\"a\",\"data\":{\"text/"
		      "plain\":\"5\"},\"metadata\":{\"n\":5}}]");
	done();
}

TEST(cell_results_are_cleared)
{
	begin(100);
	log_text(1, "ab");
	log_display("display_data", "\"a\"", 1);
	log_message(CLEAR);
	log_display("update_display_data", "\"a\"", 9); /* what is gone does not come back */
	check_results(true, "\"results\":[],\"outputs\":[]");
	CHECK_EQ_INT(cell_text_from(&run, 1), 2);
	CHECK_EQ_INT(cell_text_from(&run, 2), 0);
	log_text(2, "xyz");
	log_text(1, "c");
	check_results(true, "\"results\":[],\"outputs\":["
			    "{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"xyz\"},"
			    "{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"c\"}]");
	CHECK_EQ_INT(cell_text_from(&run, 1), 2);
	CHECK_EQ_INT(cell_text_from(&run, 2), 0);
	log_message(CLEAR);
	log_message(CLEAR);
	CHECK_EQ_INT(cell_text_from(&run, 1), 3);
	CHECK_EQ_INT(cell_text_from(&run, 2), 3);
	done();
}

/* What a clear that waits does, by what comes behind it. */
static void check_waiting(void (*more)(void), const char *outputs)
{
	char want[512];
	struct json j;

	begin(100);
	log_text(1, "ab");
	log_message(CLEAR_WAIT);
	if (more != NULL)
		more();
	(void)snprintf(want, sizeof(want), "\"outputs\":[%s]", outputs);
	json_init(&j);
	cell_put_results(&run, &j, true);
	CHECK_STR(strstr(j.buf, "\"outputs\""), want);
	json_done(&j);
	CHECK_EQ_INT(cell_text_from(&run, 1), strstr(outputs, "\"ab\"") != NULL ? 0 : 2);
	done();
}

static void more_text(void)
{
	log_text(1, "c");
}

static void more_error_text(void)
{
	log_text(2, "c");
}

static void more_displays(void)
{
	log_display("display_data", "null", 1);
}

static void more_errors(void)
{
	log_message(ERROR);
}

static void more_of_the_rest(void)
{
	log_message(CLEAR_WAIT);
	log_message(MESSAGE("comm_msg", "{\"comm_id\":\"c\"}"));
	log_message(MESSAGE("input_request", "{\"prompt\":\"\",\"password\":false}"));
	log_display("update_display_data", "\"a\"", 1);
}

static void more_clears(void)
{
	log_message(CLEAR);
}

TEST(cell_results_are_cleared_when_more_comes)
{
	static const char kept[] =
		"{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"ab\"}";

	check_waiting(NULL, kept);
	check_waiting(more_of_the_rest, kept);
	check_waiting(more_clears, "");
	check_waiting(more_text, "{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"c\"}");
	check_waiting(more_error_text,
		      "{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"c\"}");
	check_waiting(more_displays,
		      "{\"output_type\":\"display_data\",\"data\":{\"text/plain\":\"1\"},"
		      "\"metadata\":{\"n\":1}}");
	check_waiting(more_errors, "{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\","
				   "\"traceback\":[\"t\"]}");
}

/* A character whose first half came before a clear is whole behind it. */
TEST(cell_results_begin_with_whole_characters)
{
	begin(100);
	log_text(1, "a\xe2\x82");
	log_message(CLEAR);
	log_text(1, "\xac!");
	CHECK_EQ_INT(cell_text_from(&run, 1), 1);
	check_results(
		true,
		"\"results\":[],\"outputs\":["
		"{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"\xe2\x82\xac!\"}]");
	done();
}

TEST(cell_results_have_base64)
{
	begin(100);
	run.base64 = true;
	log_text(1, "a");
	log_text(1, "\xff\xfe");
	log_text(2, "x");
	log_text(1, "b");
	check_results(true, "\"results\":[],\"outputs\":["
			    "{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"Yf/+\"},"
			    "{\"output_type\":\"stream\",\"name\":\"stderr\",\"text\":\"eA==\"},"
			    "{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":\"Yg==\"}]");
	done();
}

TEST(cell_results_after_what_was_forgotten)
{
	begin(100);
	log_text(1, "a");
	log_display("display_data", "\"a\"", 1);
	log_message(CLEAR);
	log_text(1, "b");
	run_end(&run, 0);
	run_forget(&run);
	check_results(true, "\"results\":[],\"outputs\":[]");
	CHECK_EQ_INT(cell_text_from(&run, 1), 0);
	done();
}

/* The results, or outputs, of the run as a walk over them; to be freed. */
static struct json_walk walk_results(struct json *j, const char *which)
{
	struct json_member m = { .key = which };
	struct json_text t;

	json_init(j);
	json_open(j, NULL, '{');
	cell_put_results(&run, j, true);
	json_close(j, '}');
	CHECK(!j->failed);
	CHECK_EQ_INT(json_text_read(j->buf, j->len, &t), 0);
	json_text_find(t, &m, 1);
	return json_walk(m.value);
}

/* The text of the next one: "text" of a stream, "text/plain" of data. */
static bool next_text(struct json_walk *w, struct json_text *name, struct json_text *ret)
{
	struct json_member m[] = { { .key = "name" }, { .key = "text" }, { .key = "data" } };
	struct json_member plain = { .key = "text/plain" };
	struct json_text key, value;

	if (!json_walk_next(w, &key, &value))
		return false;
	json_text_find(value, m, ARRAY_LEN(m));
	json_text_find(m[2].value, &plain, 1);
	*name = m[0].value;
	*ret = m[1].value.p != NULL ? m[1].value : plain.value;
	return true;
}

static bool is_text(struct json_text t, const char *text)
{
	return t.n == strlen(text) + 2 && memcmp(t.p + 1, text, t.n - 2) == 0;
}

/* The older half of the events is gone; its text is not. */
TEST(cell_results_of_more_events_than_are_held)
{
	enum { N = RUN_MARKS_MAX / 2 + 10 };
	struct json_text name, text;
	struct json_walk w;
	struct json j;
	size_t n = 0;

	begin(1 << 20);
	log_text(2, "first");
	for (unsigned int i = 0; i < N; i++) {
		log_text(1, "x");
		log_display("display_data", "\"a\"", i);
	}
	log_text(2, "last");
	for (w = walk_results(&j, "outputs"); next_text(&w, &name, &text);) {
		if (is_text(name, "stdout"))
			n += text.n - 2;
		else if (name.p != NULL)
			CHECK(is_text(text, "firstlast"));
	}
	CHECK_EQ_INT(n, N);
	json_done(&j);
	log_message(CLEAR);
	CHECK_EQ_INT(cell_text_from(&run, 1), N);
	CHECK_EQ_INT(cell_text_from(&run, 2), 9);
	done();
}

/* As many events as there can be, all of one id: this must not take the square of their number. */
TEST(cell_results_of_many_updates)
{
	enum { N = RUN_MARKS_MAX - 2 };
	struct json_text name, text;
	unsigned int shown = 0;
	uint64_t state = 1;
	struct json_walk w;
	struct json j;
	char last[16];

	begin(100);
	for (unsigned int i = 0; i < N; i++) {
		bool update = i == N - 1 || rnd_below(&state, 2) == 0;

		log_display(update ? "update_display_data" : "display_data", "\"one\"", i);
		shown += !update;
	}
	CHECK(shown > N / 3);
	(void)snprintf(last, sizeof(last), "%d", N - 1);
	for (w = walk_results(&j, "results"); next_text(&w, &name, &text); shown--)
		CHECK(is_text(text, last));
	CHECK_EQ_INT(shown, 0);
	json_done(&j);
	done();
}

static void log_large_update(const char *id, int size)
{
	struct text t;

	text_begin(&t);
	(void)fprintf(t.f,
		      MESSAGE("update_display_data", "{\"transient\":{\"display_id\":\"%s\"},"
						     "\"data\":{\"text/plain\":\"%0*d\"}}"),
		      id, size, 0);
	text_end(&t);
	log_message(t.p);
	free(t.p);
}

/* A megabyte, displayed hundreds of times, would be as many megabytes. */
TEST(cell_results_do_not_grow_without_bound)
{
	enum { SHOWN = 1000, SIZE = 1 << 20 };
	unsigned int updated = 0, first = 0, entries = 0;
	struct json_text name, text;
	struct json_walk w;
	struct json j;

	begin(100);
	log_display("display_data", "\"another\"", 0);
	for (unsigned int i = 0; i < SHOWN; i++)
		log_display("display_data", i % 2 == 0 ? "\"big\"" : "\"small\"", i);
	log_large_update("big", SIZE);
	log_large_update("another", SIZE + 1);
	log_display("update_display_data", "\"small\"", 7777);
	w = walk_results(&j, "results");
	CHECK(next_text(&w, &name, &text));
	CHECK_EQ_INT(text.n, SIZE + 1 + 2); /* one has it in any case */
	for (; next_text(&w, &name, &text); entries++) {
		if (entries % 2 != 0)
			CHECK(is_text(text, "7777"));
		else if (text.n == SIZE + 2 && updated++ == 0)
			first = entries;
	}
	CHECK_EQ_INT(entries, SHOWN);
	/* One in any case and as many more as fit, each a few bytes larger than its text; they are the last ones. */
	CHECK_EQ_INT(updated, RUN_OTHER_MAX / SIZE);
	CHECK_EQ_INT(first, SHOWN - 2 * updated);
	json_done(&j);
	done();
}

/* --- beside a model that is too simple to be wrong ----------------------------------------------------------------- */

enum { MODEL_MAX = 256 };

struct model_entry {
	char kind; /* 1, 2: text of a stream; d, r, e */
	char text[64];
	unsigned int id, value, count;
};

static struct {
	struct model_entry v[MODEL_MAX];
	size_t n, from[2], written[2];
	bool waits;
} model;

static void model_clear(void)
{
	model.n = 0;
	model.waits = false;
	memcpy(model.from, model.written, sizeof(model.from));
}

static struct model_entry *model_add(char kind, unsigned int id, unsigned int value)
{
	struct model_entry *e = &model.v[model.n];

	if (model.waits) {
		model_clear();
		e = &model.v[0];
	}
	CHECK(model.n < MODEL_MAX);
	if ((kind == 1 || kind == 2) && model.n > 0 && e[-1].kind == kind)
		return e - 1;
	*e = (struct model_entry){ .kind = kind, .id = id, .value = value, .count = value };
	model.n++;
	return e;
}

static void model_text(unsigned int stream, const char *text)
{
	struct model_entry *e = model_add((char)stream, 0, 0);
	size_t n = strlen(e->text);

	CHECK(n + strlen(text) < sizeof(e->text));
	(void)snprintf(e->text + n, sizeof(e->text) - n, "%s", text);
	model.written[stream - 1] += strlen(text);
}

static void model_update(unsigned int id, unsigned int value)
{
	for (size_t i = 0; i < model.n; i++)
		if ((model.v[i].kind == 'd' || model.v[i].kind == 'r') && id != 0 &&
		    model.v[i].id == id)
			model.v[i].value = value;
}

static const char *const ids[] = { "null", "\"a\"", "\"b\"", "\"a\\u0000\"", "\"\"" };

static void model_results(FILE *f)
{
	const char *comma = "";

	(void)fprintf(f, "\"results\":[");
	for (size_t i = 0; i < model.n; i++) {
		const struct model_entry *e = &model.v[i];

		if (e->kind != 'd' && e->kind != 'r')
			continue;
		(void)fprintf(f,
			      "%s{\"type\":\"%s\",\"display_id\":%s,\"data\":{\"text/"
			      "plain\":\"%u\"},\"metadata\":{\"n\":%u}",
			      comma, e->kind == 'd' ? "display" : "result", ids[e->id], e->value,
			      e->value);
		if (e->kind == 'r')
			(void)fprintf(f, ",\"execution_count\":%u", e->count);
		(void)fprintf(f, "}");
		comma = ",";
	}
	(void)fprintf(f, "]");
}

static void model_output(FILE *f, const struct model_entry *e, bool base64)
{
	char text[128];

	switch (e->kind) {
	case 'd':
		(void)fprintf(f,
			      "{\"output_type\":\"display_data\",\"data\":{\"text/"
			      "plain\":\"%u\"},\"metadata\":{\"n\":%u}}",
			      e->value, e->value);
		break;
	case 'r':
		(void)fprintf(f,
			      "{\"output_type\":\"execute_result\",\"data\":{\"text/"
			      "plain\":\"%u\"},\"metadata\":{\"n\":%u},"
			      "\"execution_count\":%u}",
			      e->value, e->value, e->count);
		break;
	case 'e':
		(void)fprintf(f, "{\"output_type\":\"error\",\"ename\":\"E\",\"evalue\":\"v\","
				 "\"traceback\":[\"t\"]}");
		break;
	default:
		(void)snprintf(text, sizeof(text), "%s", e->text);
		if (base64)
			text[base64_encode((const uint8_t *)e->text, strlen(e->text), text)] = '\0';
		(void)fprintf(f, "{\"output_type\":\"stream\",\"name\":\"%s\",\"text\":\"%s\"}",
			      e->kind == 1 ? "stdout" : "stderr", text);
	}
}

static void check_model(bool outputs)
{
	struct text t;

	text_begin(&t);
	model_results(t.f);
	if (outputs) {
		(void)fprintf(t.f, ",\"outputs\":[");
		for (size_t i = 0; i < model.n; i++) {
			(void)fprintf(t.f, i > 0 ? "," : "");
			model_output(t.f, &model.v[i], run.base64);
		}
		(void)fprintf(t.f, "]");
	}
	text_end(&t);
	check_results(outputs, t.p);
	CHECK_EQ_INT(cell_text_from(&run, 1), model.from[0]);
	CHECK_EQ_INT(cell_text_from(&run, 2), model.from[1]);
	free(t.p);
}

static void random_step(uint64_t *state, unsigned int value)
{
	static const char *const texts[] = { "a", "bc", "def" };
	unsigned int id = (unsigned int)rnd_below(state, ARRAY_LEN(ids));
	unsigned int stream = 1 + (unsigned int)rnd_below(state, 2);
	const char *text = texts[rnd_below(state, ARRAY_LEN(texts))];

	switch (rnd_below(state, 14)) {
	case 0:
		log_message(CLEAR);
		model_clear();
		return;
	case 1:
		log_message(CLEAR_WAIT);
		model.waits = true;
		return;
	case 2:
		log_message(ERROR);
		(void)model_add('e', 0, 0);
		return;
	case 3:
		log_message(MESSAGE("comm_close", "{\"comm_id\":\"a\"}"));
		return;
	case 4:
		log_display("execute_result", ids[id], value);
		(void)model_add('r', id, value);
		return;
	case 5:
	case 6:
	case 7:
		log_display("display_data", ids[id], value);
		(void)model_add('d', id, value);
		return;
	case 8:
	case 9:
	case 10:
		log_display("update_display_data", ids[id], value);
		model_update(id, value);
		return;
	default:
		log_text(stream, text);
		model_text(stream, text);
	}
}

TEST(cell_results_are_those_of_a_model)
{
	uint64_t state = 9;

	for (int round = 0; round < 3000; round++) {
		begin(10000);
		run.base64 = round % 4 == 0;
		memset(&model, 0, sizeof(model));
		for (unsigned int i = 0, n = (unsigned int)rnd_below(&state, 25); i < n; i++) {
			random_step(&state, i);
			if (rnd_below(&state, 5) == 0)
				check_model(true);
		}
		check_model(round % 2 == 0);
		done();
	}
}

/* --- without memory ------------------------------------------------------------------------------------------------ */

#if defined(__SANITIZE_ADDRESS__)
#define NO_LIMITS true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NO_LIMITS true
#endif
#endif
#ifndef NO_LIMITS
#define NO_LIMITS false
#endif

/* From here on this process gets no more than so many bytes. */
static void starve(size_t bytes)
{
	FILE *f = fopen("/proc/self/statm", "re");
	char line[128] = "";

	CHECK(f != NULL && fgets(line, sizeof(line), f) != NULL);
	(void)fclose(f);
	bytes += strtoul(line, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
	CHECK_EQ_INT(setrlimit(RLIMIT_AS, &(struct rlimit){ bytes, bytes }), 0);
}

TEST(cell_says_when_there_is_no_memory)
{
	static const char *const parts[] = {
		"{\"content\":{\"status\":\"error\",\"ename\":\"E\",\"traceback\":[],\"evalue\":\"",
		"\"},\"type\":\"error\"}", "\"},\"type\":\"execute_reply\"}"
	};
	enum { N = 12 << 20 };
	struct cell_reply reply;
	struct cell_said said;
	char *text;

	if (NO_LIMITS)
		SKIP("the address sanitizer needs all of the address space");
	text = malloc(N + 64);
	CHECK(text != NULL);
	memset(text, 'x', N);
	memcpy(text, parts[0], strlen(parts[0]));
	starve(N / 2);
	(void)snprintf(text + N, 64, "%s", parts[1]);
	CHECK_EQ_INT(cell_said(text, strlen(text), &said), -ENOMEM);
	json_done(&said.members);
	(void)snprintf(text + N, 64, "%s", parts[2]);
	CHECK_EQ_INT(cell_replied(text, strlen(text), &reply), -ENOMEM);
	json_done(&reply.error);
	free(text);
}

TEST(cell_results_fail_without_memory)
{
	struct json j;

	if (NO_LIMITS)
		SKIP("the address sanitizer needs all of the address space");
	begin(100);
	log_display("display_data", "\"a\"", 1);
	for (unsigned int i = 0; i < 60000; i++)
		run_event(&run, 0, RUN_INPUT, NULL, 0);
	log_display("update_display_data", "\"a\"", 1);
	json_init(&j);
	starve(256 * 1024);
	cell_put_results(&run, &j, false);
	CHECK(j.failed);
	json_done(&j);
	done();
}
