/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server answers, for our own clients. Input: one byte that says how to cut, then the bytes of a connection up to
 * its end.
 *
 * Claims: pieces give the same answer as the whole, refusals and their reasons included; no byte is consumed twice or
 * behind the end; a body by length has that length; headers hold only what they may, by rules written a second time here;
 * the events in a body are the same, in pieces or not, and none has a line end in its name; the last id is fit for a header.
 */
#include "wire/http_answer.h"
#include "wire/sse.h"

#include <stdbool.h>

#include "fuzz_input.h"

enum { EVENT_MAX = 4096 };

struct result {
	int status;
	bool done, refused;
	const char *why;
	size_t used, body, events;
	uint64_t hash, events_hash;
	int events_end;
};

static int on_event(void *arg, struct sse_event *e)
{
	struct result *r = arg;

	MUST(strlen(e->name) < SSE_NAME && e->name[0] != '\0' && strchr(e->name, '\n') == NULL);
	MUST(e->n <= EVENT_MAX && e->data[e->n] == '\0');
	r->events++;
	r->events_hash = hash_bytes(r->events_hash, e->name, strlen(e->name) + 1);
	r->events_hash = hash_bytes(r->events_hash, &e->id, sizeof(e->id));
	r->events_hash = hash_bytes(r->events_hash, e->data, e->n);
	return 0;
}

static void check_head(const struct http_answer *a)
{
	MUST(a->status == 101 || (a->status >= 200 && a->status < 600));
	MUST(a->nh <= HTTP_HEADERS_MAX && a->nhead <= HTTP_HEAD_MAX);
	for (unsigned int i = 0; i < a->nh; i++) {
		const struct http_header *h = &a->h[i];

		MUST(http_is_token(h->name));
		for (size_t k = 0; k < h->value.n; k++)
			MUST(((unsigned char)h->value.p[k] >= ' ' || h->value.p[k] == '\t') &&
			     h->value.p[k] != 0x7f);
	}
	if (a->framing == HTTP_ANSWER_TO_END)
		MUST(!a->keep_alive);
}

static struct result read_all(const uint8_t *p, size_t n, uint8_t how, bool in_pieces)
{
	static struct http_answer a;
	struct result r = { .hash = 1, .events_hash = 1, .why = "" };
	uint32_t state = how;
	struct sse s;

	http_answer_init(&a);
	sse_init(&s, EVENT_MAX);
	while (r.used < n && !a.done && !r.refused) {
		size_t have = n - r.used, piece = in_pieces ? next_piece(&state) : have;
		struct http_slice data;
		ptrdiff_t used;
		char *copy;

		have = piece < have ? piece : have;
		copy = (char *)exact_copy(p + r.used, have);
		used = http_answer_feed(&a, copy, have, &data, &r.why);
		r.refused = used < 0;
		if (used >= 0) {
			MUST(used > 0 && (size_t)used <= have);
			MUST(data.n == 0 || (data.p >= copy && data.p + data.n <= copy + used));
			r.hash = hash_bytes(r.hash, data.p, data.n);
			if (r.events_end == 0)
				r.events_end = sse_feed(&s, data.p, data.n, on_event, &r);
			r.body += data.n;
			r.used += (size_t)used;
		}
		free(copy);
	}
	r.done = http_answer_end(&a);
	r.status = r.refused ? 0 : a.status;
	MUST(!(r.done && r.refused));
	if (r.status != 0) {
		check_head(&a);
		if (r.done && a.framing == HTTP_ANSWER_LENGTH)
			MUST(r.body == a.length);
		if (a.framing == HTTP_ANSWER_NONE)
			MUST(r.body == 0);
	}
	for (const char *c = s.last_id; *c != '\0'; c++)
		MUST((unsigned char)*c >= ' ' && *c != 0x7f);
	r.events_hash = hash_bytes(r.events_hash, s.last_id, strlen(s.last_id));
	r.events_hash = hash_bytes(r.events_hash, &s.retry_ms, sizeof(s.retry_ms));
	sse_done(&s);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in);
	struct result whole = read_all(in.p, in.n, how, false),
		      parts = read_all(in.p, in.n, how, true);

	MUST(whole.done == parts.done && whole.refused == parts.refused);
	MUST(strcmp(whole.why, parts.why) == 0);
	if (whole.refused)
		return 0;
	MUST(whole.status == parts.status && whole.used == parts.used);
	MUST(whole.body == parts.body && whole.hash == parts.hash);
	/* What is too long is refused when it is: how much was there before depends on the pieces, events do not. */
	MUST(whole.events_end == parts.events_end && whole.events == parts.events);
	MUST(whole.events_hash == parts.events_hash);
	return 0;
}
