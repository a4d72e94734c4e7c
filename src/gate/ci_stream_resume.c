// SPDX-License-Identifier: Apache-2.0
/*
 * Streams that can be resumed.
 *
 * With an Idempotency-Key the run outlives the connection, and this gate: events then carry an id, and who repeats the
 * request with that key and the last id it saw (Last-Event-ID) goes on behind it. Frames are held here, and in init's
 * ring, until the client's side has certainly received them; a new gate gets them again from init.
 */
#include "gate/ci_stream_impl.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "gate/record.h"
#include "wire/msg.h"

#include <string.h>

enum {
	CONFIRM_US = 5 * 1000,           /* how often to ask whether the other side has it */
	RECONNECT_US = 30 * 1000 * 1000, /* how long a lost client may stay away */
	AHEAD_MAX = 2 * 1024 * 1024,     /* what init's ring can hold is far less */
};

/* --- what the client has ---------------------------------------------------------------------- */

static void on_confirm(void *arg)
{
	stream_confirm(arg);
}

static void watch_confirm(struct ci_stream *s)
{
	if (s->r != NULL && s->timer.place == 0 && (s->first != NULL || s->result_end != 0))
		(void)timer_set(&s->g->loop, &s->timer, s->g->loop.now_us + CONFIRM_US, on_confirm,
				s);
}

static void drop_first(struct ci_stream *s)
{
	struct held *h = s->first;

	s->first = h->next;
	if (s->first == NULL)
		s->last = NULL;
	s->confirmed = h->number;
	s->held -= sizeof(*h) + h->n;
	free(h);
}

void stream_confirm(struct ci_stream *s)
{
	uint64_t there, number = 0;
	struct req *r = s->r;

	if (r == NULL)
		return;
	there = req_confirmed(r);
	while (s->first != NULL && s->first->end != 0 && s->first->end <= there) {
		number = s->first->number;
		drop_first(s);
	}
	if (number > 0 && s->o != NULL)
		oneshot_ack(s->o, number);
	if (s->result_end != 0 && s->result_end <= there) {
		s->r = NULL;
		stream_end(s);
		req_end(r);
		return;
	}
	if (s->moved != there - req_queued(r)) {
		s->moved = there - req_queued(r);
		s->moved_us = s->g->loop.now_us;
	}
	if (s->result_end != 0 && s->g->loop.now_us - s->moved_us > RECONNECT_US) {
		s->r = NULL; /* it does not read: a box is not kept for that */
		stream_end(s);
		req_abort(r);
		return;
	}
	watch_confirm(s);
}

static void send_held(struct ci_stream *s, struct held *h)
{
	stream_tell_gap(s, h->number);
	if (s->r == NULL)
		return;
	stream_send_output(s, h->number, h->stream, h->p, h->n);
	if (s->r != NULL)
		h->end = req_sent(s->r);
}

static int hold(struct ci_stream *s, uint64_t number, unsigned int stream, const uint8_t *p,
		size_t n)
{
	struct held *h = malloc(sizeof(*h) + n);

	if (h == NULL)
		return -ENOMEM;
	*h = (struct held){ .number = number, .stream = stream, .n = n };
	(void)memcpy(h->p, p, n);
	s->held += sizeof(*h) + n;
	if (s->last != NULL)
		s->last->next = h;
	else
		s->first = h;
	s->last = h;
	return 0;
}

int stream_keep(struct ci_stream *s, uint64_t number, unsigned int stream, const uint8_t *p,
		size_t n)
{
	if (number <= s->seen) { /* init repeats what the last gate did not acknowledge */
		s->confirmed = number;
		oneshot_ack(s->o, number);
		return 0;
	}
	if (s->held > AHEAD_MAX || hold(s, number, stream, p, n) < 0)
		return -1;
	if (s->r != NULL) {
		send_held(s, s->last);
		stream_confirm(s);
	}
	return 0;
}

/* --- leaving and coming back ------------------------------------------------------------------ */

static void on_abandoned(void *arg)
{
	stream_end(arg);
}

void stream_detach(struct ci_stream *s)
{
	for (struct held *h = s->first; h != NULL; h = h->next)
		h->end = 0;
	s->result_end = 0;
	if (timer_set(&s->g->loop, &s->timer, s->g->loop.now_us + RECONNECT_US, on_abandoned, s) <
	    0)
		stream_end(s);
}

static void take_hex(const char *text, struct carry *c)
{
	for (c->n = 0; c->n < CARRY_MAX; text += 2) {
		int high = http_hex(text[0]), low = high < 0 ? -1 : http_hex(text[1]);

		if (low < 0)
			return;
		c->p[c->n++] = (unsigned char)(high << 4 | low);
	}
}

/* What the client saw last: a number, and what it has of a character. */
static uint64_t last_seen(struct ci_stream *s, const struct req *r)
{
	struct http_slice id = req_get(r, "Last-Event-ID");
	char text[64], *first, *second;
	uint64_t number = 0;

	s->carry[0].n = s->carry[1].n = 0;
	if (id.n == 0 || id.n >= sizeof(text))
		return 0;
	(void)memcpy(text, id.p, id.n);
	text[id.n] = '\0';
	first = strchr(text, '-');
	if (first != NULL) {
		*first++ = '\0';
		second = strchr(first, '-');
		if (second != NULL) {
			*second++ = '\0';
			take_hex(second, &s->carry[1]);
		}
		take_hex(first, &s->carry[0]);
	}
	return str_to_u64(text, UINT64_MAX, &number) < 0 ? 0 : number;
}

/* A client is back. */
static void attach(struct ci_stream *s, struct req *r)
{
	struct req *old = s->r;

	if (old != NULL) {
		s->r = NULL;
		old->gone = NULL;
		req_abort(old);
	}
	timer_clear(&s->g->loop, &s->timer);
	s->r = r;
	stream_listen(s, r);
	s->seen = last_seen(s, r);
	s->told = s->seen > 1 ? s->seen : 1;
	if (!s->running && s->result == NULL)
		return; /* its answer begins with the program */
	stream_begin_answer(s);
	while (s->first != NULL && s->first->number <= s->seen) {
		if (s->o != NULL)
			oneshot_ack(s->o, s->first->number);
		drop_first(s);
	}
	for (struct held *h = s->first; h != NULL && s->r != NULL; h = h->next)
		send_held(s, h);
	if (s->r != NULL && s->result != NULL)
		stream_send_result(s);
	else if (s->r != NULL)
		watch_confirm(s);
}

static struct ci_stream *find(const struct gate *g, const uint8_t key[SHA256_DIGEST_LENGTH])
{
	struct ci_stream *s = g->streams;

	while (s != NULL && !(s->resumable && memcmp(s->key, key, SHA256_DIGEST_LENGTH) == 0))
		s = s->next;
	return s;
}

/* --- keys and records ------------------------------------------------------------------------- */

/* Keys are a tenant's own. */
static void hash_key(const struct req *r, struct http_slice key, uint8_t ret[SHA256_DIGEST_LENGTH])
{
	uint8_t both[2 * SHA256_DIGEST_LENGTH];

	(void)SHA256((const unsigned char *)r->tenant->name, strlen(r->tenant->name), both);
	(void)SHA256((const unsigned char *)key.p, key.n, both + SHA256_DIGEST_LENGTH);
	(void)SHA256(both, sizeof(both), ret);
}

/* Our own bytes of the record, see ci_stream_adopt(). */
static ptrdiff_t make_owner(const struct ci_stream *s, uint8_t *buf, size_t size)
{
	struct msg_out m;

	msg_out_init(&m, buf, size);
	msg_put_str(&m, s->run.spec.tenant->name);
	msg_put_bytes(&m, s->key, sizeof(s->key));
	msg_put_bytes(&m, s->body, sizeof(s->body));
	msg_put_u64(&m, s->run.spec.timeout_us);
	msg_put_u8(&m, s->run.in.input.set);
	return m.failed ? -EMSGSIZE : (ptrdiff_t)m.len;
}

int stream_make_resumable(struct ci_stream *s)
{
	struct oneshot_spec *spec = &s->run.spec;
	char *bytes = ci_string(&s->run.strings, ONESHOT_OWNER_MAX);
	ptrdiff_t n;

	if (bytes == NULL)
		return -ENOMEM;
	s->resumable = true;
	n = make_owner(s, (uint8_t *)bytes, ONESHOT_OWNER_MAX);
	if (n < 0)
		return (int)n;
	spec->owner = (const uint8_t *)bytes;
	spec->owner_len = (size_t)n;
	if (s->run.in.input.set) {
		/* Input must be in the box before this gate can be gone: as a file. */
		s->run.files[spec->nfiles++] = (struct stage_file){ .path = "/tmp/.stdin",
								    .mode = 0600,
								    .p = s->run.in.input.p,
								    .n = s->run.in.input.n };
		spec->input = NULL;
		ci_spec(s->g, spec, spec->timeout_us, true);
	}
	return 0;
}

int stream_resume_or_new(struct req *r, struct ci_stream *s, struct http_slice key)
{
	struct ci_stream *old;

	hash_key(r, key, s->key);
	(void)SHA256((const unsigned char *)r->body, r->body_len, s->body);
	old = find(r->g, s->key);
	if (old == NULL &&
	    req_get(r, "Last-Event-ID").n > 0) { /* it ran: it is not run again unasked */
		ci_detail(r, 410, "the run of this Idempotency-Key is not held any more");
		return -1;
	}
	if (old == NULL)
		return 0;
	if (memcmp(old->body, s->body, sizeof(s->body)) != 0)
		ci_detail(r, 409, "this Idempotency-Key was used with another body");
	else
		attach(old, r);
	return -1;
}

int ci_stream_adopt(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n)
{
	struct ci_stream *s = calloc(1, sizeof(*s));
	const uint8_t *owner, *key, *body;
	char tenant[GATE_TENANT];
	size_t len, key_len, body_len;
	uint64_t timeout_us;
	struct msg_in in;
	bool fed;

	if (s == NULL || oneshot_record_owner(record, n, &owner, &len) < 0) {
		free(s);
		return -1;
	}
	msg_in_init(&in, owner, len);
	(void)msg_get_str(&in, tenant, sizeof(tenant));
	key = msg_get_bytes(&in, sizeof(s->key), &key_len);
	body = msg_get_bytes(&in, sizeof(s->body), &body_len);
	timeout_us = msg_get_u64(&in);
	fed = msg_get_u8(&in) != 0;
	s->run.spec.tenant = tenant_find(g, tenant);
	if (msg_end(&in) < 0 || key_len != sizeof(s->key) || body_len != sizeof(s->body) ||
	    s->run.spec.tenant == NULL) {
		free(s);
		return -1;
	}
	(void)memcpy(s->key, key, sizeof(s->key));
	(void)memcpy(s->body, body, sizeof(s->body));
	ci_spec(g, &s->run.spec, timeout_us, fed);
	s->run.spec.operation = OPERATION_STREAM;
	s->resumable = true;
	s->began_us = clock_us();
	stream_insert(g, s);
	s->o = oneshot_resume(g, info, record, n, &s->run.spec, &stream_ops, s);
	if (s->o == NULL) {
		stream_end(s);
		return -1;
	}
	stream_detach(s);
	return 0;
}
