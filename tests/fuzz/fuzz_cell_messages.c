/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel says. Input: what a cell puts out, piece by piece, each ended by a byte 0; the first byte of a piece says
 * what it is: 1 and 2 text of a stream, 3 a reply, anything else, itself included, a message.
 *
 * Claims: a message or reply is taken or refused with -EPROTO; its members are one line of valid JSON, without a character
 * that could trick a person, and their keys those of its event in their order; written anew they are the same. All
 * pieces as one log give results and outputs that are valid JSON in one line and no longer than they may be; texts of a
 * stream, one behind the other, are what was not cleared away of it.
 */
#include "gate/cell_messages.h"

#include <errno.h>

#include "base/own.h"
#include "base/utf8.h"
#include "wire/json_text.h"

#include "fuzz_input.h"

enum { STREAM_MAX = 4096 };

/* The members of each event. */
static const char *const keys[RUN_EVENT_MAX][5] = {
	[RUN_DISPLAY] = { "display_id", "data", "metadata" },
	[RUN_UPDATE] = { "display_id", "data", "metadata" },
	[RUN_RESULT] = { "display_id", "data", "metadata", "execution_count" },
	[RUN_ERROR] = { "name", "value", "traceback" },
	[RUN_CLEAR] = { "wait" },
	[RUN_INPUT] = { "prompt", "password" },
	[RUN_COMM] = { "type", "content", "metadata", "buffers" },
};

/* One line, for any reader; t is what is in it. */
static void check_line(const struct json *j, struct json_text *t)
{
	struct json again;
	uint32_t c;

	MUST(!j->failed);
	for (size_t i = 0, n; i < j->len; i += n) {
		n = utf8_next((const unsigned char *)j->buf + i, j->len - i, &c);
		MUST(n > 0 && !utf8_is_tricky(c));
	}
	MUST(json_text_read(j->buf, j->len, t) == 0);
	json_init(&again);
	json_text_put(*t, &again, NULL);
	MUST(again.len == j->len && memcmp(again.buf, j->buf, j->len) == 0);
	json_done(&again);
}

static void check_members(const struct json *members, const char *const *want)
{
	struct json_text t, key, value;
	struct json_walk w;
	struct json j;
	char name[32];

	json_init(&j);
	json_open(&j, NULL, '{');
	json_raw(&j, members->buf, members->len);
	json_close(&j, '}');
	check_line(&j, &t);
	for (w = json_walk(t); json_walk_next(&w, &key, &value); want++)
		MUST(*want != NULL && json_text_str(key, name, sizeof(name)) &&
		     strcmp(name, *want) == 0);
	MUST(*want == NULL);
	json_done(&j);
}

/* Data are strings, but where they are JSON. */
static void check_data(const struct json *members)
{
	struct json_walk w = { members->buf, members->buf + members->len };
	struct json_text key, value;
	char mime[1024]; /* what is no UTF-8 has become longer */

	MUST(json_walk_next(&w, &key, &value));
	MUST(json_text_kind(value) == '"' || json_text_kind(value) == 'n');
	MUST(json_walk_next(&w, &key, &value));
	for (w = json_walk(value); json_walk_next(&w, &key, &value);)
		MUST(json_text_kind(value) == '"' ||
		     (json_text_str(key, mime, sizeof(mime)) &&
		      strncmp(mime, "application/", 12) == 0 &&
		      strcmp(mime + strlen(mime) - 4, "json") == 0));
}

static void hear_message(struct run *run, const char *p, size_t n)
{
	struct cell_said said;
	int rc = cell_said(p, n, &said);

	MUST(rc == 0 || (rc == -EPROTO && said.event == RUN_EVENT_MAX));
	MUST(said.members.len <= 6 * n + 128);
	MUST(!said.wait || said.event == RUN_CLEAR);
	if (rc == 0 && said.event != RUN_EVENT_MAX) {
		MUST(keys[said.event][0] != NULL);
		check_members(&said.members, keys[said.event]);
		if (said.event == RUN_DISPLAY || said.event == RUN_UPDATE ||
		    said.event == RUN_RESULT)
			check_data(&said.members);
		run_event(run, 0, said.event, said.members.buf, said.members.len);
	}
	json_done(&said.members);
}

static void hear_reply(const char *p, size_t n)
{
	struct cell_reply r;
	int rc = cell_replied(p, n, &r);

	MUST(rc == 0 || rc == -EPROTO);
	if (rc == 0) {
		MUST(r.status == CELL_REPLY_ERROR || (!r.has_error && !r.interrupted));
		MUST(r.has_error || !r.interrupted);
		MUST(r.has_error == (r.error.len > 0));
		if (r.has_error)
			check_members(&r.error, keys[RUN_ERROR]);
	}
	json_done(&r.error);
}

static void hear(struct run *run, const uint8_t *p, size_t n)
{
	char *copy = (char *)exact_copy(p, n);

	if (n > 0 && (*p == 1 || *p == 2))
		run_output(run, 0, *p, p + 1, n - 1);
	else if (n > 0 && *p == 3)
		hear_reply(copy + 1, n - 1);
	else
		hear_message(run, copy, n);
	free(copy);
}

/* The texts of a stream, as if they were one. */
static void join_texts(struct json_text outputs, const char *stream, struct json *j)
{
	struct json_walk w = json_walk(outputs);
	struct json_text key, value;
	char name[16];

	json_raw(j, "\"", 1);
	while (json_walk_next(&w, &key, &value)) {
		struct json_member m[] = { { .key = "name" }, { .key = "text" } };

		json_text_find(value, m, 2);
		if (json_text_str(m[0].value, name, sizeof(name)) && strcmp(name, stream) == 0)
			json_text_put_chars(m[1].value, j);
	}
	json_raw(j, "\"", 1);
}

static void check_texts(const struct run *run, struct json_text outputs)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (unsigned int s = 0; s < 2; s++) {
		size_t all = buf_len(&run->out[s]), from = cell_text_from(run, s + 1);
		struct json got, want;

		MUST(from <= all);
		json_init(&got);
		json_init(&want);
		join_texts(outputs, names[s], &got);
		run_put_text(run, &want, NULL, s + 1, from, all - from);
		MUST(got.len == want.len && memcmp(got.buf, want.buf, got.len) == 0);
		json_done(&got);
		json_done(&want);
	}
}

static void check_results(const struct run *run)
{
	struct json_member m[] = { { .key = "results" }, { .key = "outputs" } };
	struct json_text t;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	cell_put_results(run, &j, true);
	json_close(&j, '}');
	check_line(&j, &t);
	json_text_find(t, m, 2);
	MUST(json_text_kind(m[0].value) == '[' && json_text_kind(m[1].value) == '[');
	check_texts(run, m[1].value);
	json_done(&j);
}

static void put(void *arg, struct json *j)
{
	(void)arg;
	(void)j;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct run_ops ops = { .put = put };
	struct runs all = { .max = (size_t)1 << 30 };
	struct run_share share = { 0 };
	struct loop loop = { .epoll_fd = -1 };
	struct run run;

	run_init(&run, &loop, &all, &share, "cell", STREAM_MAX, &ops, NULL);
	while (size > 0) {
		const uint8_t *end = memchr(data, 0, size);
		size_t n = end != NULL ? (size_t)(end - data) : size;

		hear(&run, data, n);
		n += end != NULL;
		data += n;
		size -= n;
	}
	check_results(&run);
	run_done(&run, NULL, NULL);
	MUST(all.bytes == 0);
	return 0;
}
