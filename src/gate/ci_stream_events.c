// SPDX-License-Identifier: Apache-2.0
/*
 * A stream's events, from frames of init.
 *
 * An id is the number of init's frame and, behind it, the bytes of a character that was cut in two
 * by it, per stream and in hex: "12--e282". So no state has to be kept for a client.
 */
#include "gate/ci_stream_impl.h"

#include "base/own.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static void put_id(struct json *j, const struct ci_stream *s, uint64_t number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "id: %llu", (unsigned long long)number);

	for (unsigned int i = 0; i < 2 && s->carry[0].n + s->carry[1].n > 0; i++) {
		text[n++] = '-';
		for (size_t k = 0; k < s->carry[i].n; k++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%02x", s->carry[i].p[k]);
	}
	text[n++] = '\n';
	json_raw(j, text, (size_t)n);
}

static void put_event(struct json *j, const struct ci_stream *s, uint64_t number,
		      unsigned int stream, const void *p, size_t n)
{
	static const char head[] = "event: output\ndata: ";

	if (s->resumable)
		put_id(j, s, number);
	json_raw(j, head, sizeof(head) - 1);
	json_restart(j);
	json_open(j, NULL, '{');
	json_str(j, "stream", stream == 1 ? "stdout" : "stderr");
	json_bytes(j, "data", p, n);
	json_close(j, '}');
	json_raw(j, "\n\n", 2);
}

/* An event that there is no memory for must not be missing from the middle: rather the client has to come again. */
static void write_event(struct ci_stream *s, struct json *j)
{
	if (j->failed)
		stream_lose_client(s);
	else
		(void)req_write(s->r, j->buf, j->len);
	json_done(j);
}

void stream_send_output(struct ci_stream *s, uint64_t number, unsigned int stream,
			const unsigned char *p, size_t n)
{
	struct carry *c = &s->carry[stream - 1];
	unsigned char *joined = NULL;
	struct json j;
	size_t rest;

	if (c->n > 0) {
		joined = malloc(c->n + n);
		if (joined == NULL) {
			stream_lose_client(s);
			return;
		}
		(void)memcpy(joined, c->p, c->n);
		(void)memcpy(joined + c->n, p, n);
		p = joined;
		n += c->n;
	}
	rest = utf8_unfinished(p, n);
	c->n = rest;
	(void)memcpy(c->p, p + n - rest, rest);
	if (n > rest) {
		json_init(&j);
		put_event(&j, s, number, stream, p, n - rest);
		write_event(s, &j);
	}
	free(joined);
}

/* A character that never came whole. */
static void send_carry(struct ci_stream *s, uint64_t number)
{
	struct json j;

	for (unsigned int i = 0; i < 2; i++)
		if (s->carry[i].n > 0 && s->r != NULL) {
			struct carry c = s->carry[i];

			s->carry[i].n = 0;
			json_init(&j);
			put_event(&j, s, number, i + 1, c.p, c.n);
			write_event(s, &j);
		}
}

void stream_begin_answer(struct ci_stream *s)
{
	struct req *r = s->r;

	req_header(r, "Cache-Control", "no-cache");
	if (r->head.keep_alive && !r->g->stopping && r->head.minor >= 1)
		req_header(r, "Connection", "keep-alive");
	req_header(r, "X-Accel-Buffering", "no");
	req_begin(r, 200, "text/event-stream; charset=utf-8", -1);
}

static void send_gap(struct ci_stream *s, uint64_t from, uint64_t to)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n",
			 (unsigned long long)from, (unsigned long long)to);

	s->carry[0].n = s->carry[1].n = 0;
	(void)req_write(s->r, text, (size_t)n);
}

void stream_tell_gap(struct ci_stream *s, uint64_t number)
{
	if (s->resumable && number != UINT64_MAX && number > s->told + 1)
		send_gap(s, s->told + 1, number - 1);
	s->told = number;
}

void stream_send_result(struct ci_stream *s)
{
	struct json j;

	stream_tell_gap(s, s->result_number);
	if (s->r != NULL)
		send_carry(s, s->result_number);
	if (s->r == NULL)
		return;
	json_init(&j);
	if (s->resumable)
		put_id(&j, s, s->result_number);
	json_raw(&j, s->result, s->result_len);
	write_event(s, &j);
	if (s->r == NULL)
		return;
	s->result_end = req_sent(s->r);
	s->moved_us = s->g->loop.now_us;
	if (s->resumable) {
		stream_confirm(s);
	} else {
		struct req *r = s->r;

		s->r = NULL;
		stream_end(s);
		req_end(r);
	}
}
