/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/sse.c: events in whatever pieces. */
#include "wire/sse.h"

#include <errno.h>
#include <stdio.h>

#include "test_help.h"

/* Events as "name:id:data|". */
struct seen {
	char text[512];
	size_t n;
	unsigned int stop_after; /* 0: never */
};

static int on_event(void *arg, struct sse_event *e)
{
	struct seen *s = arg;

	CHECK_EQ_INT(strlen(e->data), e->n);
	s->n += (size_t)snprintf(s->text + s->n, sizeof(s->text) - s->n, "%s:%llu:%s|", e->name,
				 (unsigned long long)e->id, e->data);
	CHECK(s->n < sizeof(s->text));
	if (s->stop_after == 0)
		return 0;
	s->stop_after--;
	return s->stop_after == 0 ? 7 : 0;
}

static int read_events(const char *p, size_t n, size_t step, size_t max, struct seen *seen)
{
	struct fence f = fence_open(n + 1);
	struct sse s;
	int r = 0;

	sse_init(&s, max);
	for (size_t at = 0; at < n && r == 0; at += step) {
		size_t part = n - at < step ? n - at : step;

		r = sse_feed(&s, (const char *)fence_copy(&f, p + at, part), part, on_event, seen);
	}
	sse_done(&s);
	fence_close(&f);
	return r;
}

TEST(sse_reads_events)
{
	static const struct {
		const char *text, *events;
	} rows[] = {
		{ "id: 1\nevent: stdout\ndata: {\"a\":1}\n\n", "stdout:1:{\"a\":1}|" },
		{ "data: a\n\ndata: b\n\n", "message:0:a|message:0:b|" },
		{ "data: a\ndata:b\ndata\n\n", "message:0:a\nb\n|" },
		{ ": still there\n\ndata: x\n\n", "message:0:x|" },
		{ "event: only\n\ndata: y\n\n", "message:0:y|" }, /* without data it is none */
		{ "id: 12\r\nevent: end\r\ndata: z\r\n\r\n", "end:12:z|" },
		{ "id: x\ndata: a\n\nid: 99999999999999999999\ndata: b\n\n",
		  "message:0:a|message:0:b|" },
		{ "retry: 10\nother: z\ndata:  two\n\n", "message:0: two|" },
		{ "data: half\n", "" },
		{ "event: 0123456789012345678901234567890123456789\ndata: l\n\n",
		  "0123456789012345678901234567890:0:l|" },
		{ "data:\n\n", "message:0:|" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t step = 1; step <= strlen(rows[i].text); step++) {
			struct seen seen = { .n = 0 };

			CHECK_EQ_INT(
				read_events(rows[i].text, strlen(rows[i].text), step, 1000, &seen),
				0);
			CHECK_STR(seen.text, rows[i].events);
		}
}

TEST(sse_is_bounded)
{
	static const char text[] = "data: 0123456789\ndata: 0123456789\n\n";
	for (size_t max = 0; max < 60; max++) {
		struct seen seen = { .n = 0 };
		int r = read_events(text, sizeof(text) - 1, 5, max, &seen);

		/* Twenty characters and a line end, and beside them the line of the last ten. */
		CHECK_EQ_INT(r, max < 37 ? -E2BIG : 0);
	}
}

TEST(sse_ends_when_it_is_told_to)
{
	static const char text[] = "data: a\n\ndata: b\n\n";
	struct seen seen = { .stop_after = 1 };

	CHECK_EQ_INT(read_events(text, sizeof(text) - 1, 100, 100, &seen), 7);
	CHECK_STR(seen.text, "message:0:a|");
}

TEST(sse_drops_half_an_event_of_the_last_connection)
{
	struct seen seen = { .n = 0 };
	struct sse s;

	sse_init(&s, 100);
	CHECK_EQ_INT(sse_feed(&s, "id: 3\nevent: stdout\ndata: lost\ndat", 33, on_event, &seen), 0);
	sse_restart(&s);
	CHECK_EQ_INT(sse_feed(&s, "data: new\n\n", 11, on_event, &seen), 0);
	CHECK_STR(seen.text, "message:0:new|");
	sse_done(&s);
}

TEST(sse_says_with_what_a_new_connection_begins)
{
	static const struct {
		const char *text, *last;
		uint64_t retry_ms;
	} rows[] = {
		{ "id: event-1\nretry: 500\ndata: \n\n", "event-1", 500 },
		{ "id: a\ndata: x\n\ndata: y\n\n", "a", 0 },    /* it stays */
		{ "id: a\n\n", "a", 0 },                        /* also without data */
		{ "id: a\ndata: x\n\nid\ndata: y\n\n", "", 0 }, /* until it is taken back */
		{ "id: a\ndata: x\n\nid: b\ndata: half\n", "a", 0 },
		{ "id: a\rb\ndata: x\n\n", "", 0 }, /* it would end a header */
		{ "id: 5\r\nretry: 7\r\ndata: x\r\n\r\n", "5", 7 },
		{ "retry: 5x\nretry:\nretry: -1\ndata: x\n\n", "", 0 },
		{ "retry: 99999999999999999999\ndata: x\n\n", "", 0 },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (size_t step = 1; step <= strlen(rows[i].text); step++) {
			struct seen seen = { .n = 0 };
			size_t n = strlen(rows[i].text);
			struct sse s;

			sse_init(&s, 1000);
			for (size_t at = 0; at < n; at += step)
				CHECK_EQ_INT(sse_feed(&s, rows[i].text + at,
						      n - at < step ? n - at : step, on_event,
						      &seen),
					     0);
			sse_restart(&s);
			CHECK_STR(s.last_id, rows[i].last);
			CHECK_STR(s.next_id, rows[i].last);
			CHECK_EQ_INT(s.retry_ms, rows[i].retry_ms);
			sse_done(&s);
		}
}

TEST(sse_takes_no_id_that_is_too_long)
{
	for (size_t n = SSE_ID - 3; n < SSE_ID + 3; n++) {
		struct seen seen = { .n = 0 };
		char text[2 * SSE_ID], id[2 * SSE_ID];
		struct sse s;

		sse_init(&s, 1000);
		(void)memset(id, 'i', n);
		id[n] = '\0';
		(void)snprintf(text, sizeof(text), "id: %.300s\n\n", id);
		CHECK_EQ_INT(sse_feed(&s, text, n + 6, on_event, &seen), 0);
		CHECK_EQ_INT(strlen(s.last_id), n < SSE_ID ? n : 0);
		sse_done(&s);
	}
}
