// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/execute/stream: output as it comes, as server-sent events.
 *
 * Without more, a client that leaves ends its run. With an Idempotency-Key the run outlives the
 * connection, and this gate: events then carry an id, and who repeats the request with that key and
 * the last id it saw (Last-Event-ID) goes on behind it. Frames are held here, and in init's ring,
 * until the client's side has certainly received them; a new gate gets them again from init.
 *
 * An id is the number of init's frame and, behind it, the bytes of a character that was cut in two
 * by it, per stream and in hex: "12--e282". So no state has to be kept for a client.
 */
#include "gate/ci.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "base/utf8.h"
#include "gate/record.h"
#include "wire/msg.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

enum {
	CONFIRM_US = 5 * 1000,           /* how often to ask whether the other side has it */
	RECONNECT_US = 30 * 1000 * 1000, /* how long a lost client may stay away */
	CARRY_MAX = 3,
	AHEAD_MAX = 2 * 1024 * 1024, /* what init's ring can hold is far less */
};

struct carry { /* the beginning of a character */
	unsigned char p[CARRY_MAX];
	size_t n;
};

struct held {
	struct held *next;
	uint64_t number;
	unsigned int stream;
	uint64_t end; /* of the connection's bytes, once it was sent; 0: not sent */
	size_t n;
	unsigned char p[];
};

struct ci_stream {
	struct gate *g;
	struct ci_stream *prev, *next;
	struct req *r; /* NULL: nobody listens */
	struct ci_run run;
	struct oneshot *o;
	uint64_t began_us;
	struct carry carry[2];
	uint64_t ack_later; /* the connection's queue is full */
	bool running;

	bool resumable;
	uint8_t key[SHA256_DIGEST_LENGTH], body[SHA256_DIGEST_LENGTH];
	struct timer timer;
	char *text; /* the request's body, into which `run` points: the request may go first */
	struct held *first, *last;
	size_t held;        /* bytes */
	uint64_t confirmed; /* frames up to this number are not held any more */
	uint64_t seen;      /* what the client says it has */
	uint64_t
		told; /* the last that this connection was sent; the first frame, STARTED, is for us */
	char *result; /* the last event without its id, when there is one */
	size_t result_len;
	uint64_t result_number, result_end;
	uint64_t moved, moved_us; /* how far the client has come with it, since when */
	bool ended;
	struct deferred deferred;
};

/* --- the end ---------------------------------------------------------------------------------- */

static void stream_free(void *arg)
{
	struct ci_stream *s = arg;

	while (s->first != NULL) {
		struct held *h = s->first;

		s->first = h->next;
		free(h);
	}
	free(s->result);
	ci_run_done(&s->run);
	free(s->text);
	free(s);
}

static void end(struct ci_stream *s)
{
	if (s->ended)
		return;
	s->ended = true;
	if (s->o != NULL)
		oneshot_end(s->o);
	s->o = NULL;
	timer_clear(&s->g->loop, &s->timer);
	if (s->prev != NULL)
		s->prev->next = s->next;
	else if (s->g->streams == s)
		s->g->streams = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	loop_defer(&s->g->loop, &s->deferred, stream_free, s);
}

static void detach(struct ci_stream *s);

static void on_gone(struct req *r)
{
	struct ci_stream *s = r->work;

	s->r = NULL;
	if (s->resumable && s->o != NULL && oneshot_is_running(s->o))
		detach(s);
	else
		end(s);
}

static void on_abandoned(void *arg)
{
	end(arg);
}

/* Nobody listens: for a while. */
static void detach(struct ci_stream *s)
{
	for (struct held *h = s->first; h != NULL; h = h->next)
		h->end = 0;
	s->result_end = 0;
	if (timer_set(&s->g->loop, &s->timer, s->g->loop.now_us + RECONNECT_US, on_abandoned, s) <
	    0)
		end(s);
}

/* --- events ----------------------------------------------------------------------------------- */

/* How many bytes at the end of p are the beginning of a character that has not come whole. */
static size_t unfinished(const unsigned char *p, size_t n)
{
	for (size_t back = 1; back <= CARRY_MAX && back <= n; back++) {
		unsigned char c = p[n - back];
		size_t need = c > 0xf4 ? 0 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;

		if ((c & 0xc0) == 0x80)
			continue;
		return need > back && utf8_bad(p + n - back, back) == back ? back : 0;
	}
	return 0;
}

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

/* Send what a frame holds, as whole characters; the rest waits for the next one. */
static void send_output(struct ci_stream *s, uint64_t number, unsigned int stream,
			const unsigned char *p, size_t n)
{
	struct carry *c = &s->carry[stream - 1];
	unsigned char *joined = NULL;
	struct json j;
	size_t rest;

	if (c->n > 0) {
		joined = malloc(c->n + n);
		if (joined == NULL)
			return;
		(void)memcpy(joined, c->p, c->n);
		(void)memcpy(joined + c->n, p, n);
		p = joined;
		n += c->n;
	}
	rest = unfinished(p, n);
	c->n = rest;
	(void)memcpy(c->p, p + n - rest, rest);
	if (n > rest) {
		json_init(&j);
		put_event(&j, s, number, stream, p, n - rest);
		if (!j.failed)
			(void)req_write(s->r, j.buf, j.len);
		json_done(&j);
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
			if (!j.failed)
				(void)req_write(s->r, j.buf, j.len);
			json_done(&j);
		}
}

static void begin_answer(struct ci_stream *s)
{
	struct req *r = s->r;

	req_header(r, "Cache-Control", "no-cache");
	if (r->head.keep_alive && !r->g->stopping && r->head.minor >= 1)
		req_header(r, "Connection", "keep-alive");
	req_header(r, "X-Accel-Buffering", "no");
	req_begin(r, 200, "text/event-stream; charset=utf-8", -1);
}

/* --- what the client has ------------------------------------------------------------------------ */

static void confirm(struct ci_stream *s);

static void on_confirm(void *arg)
{
	confirm(arg);
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

/* Let go of what has certainly arrived. */
static void confirm(struct ci_stream *s)
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
		end(s);
		req_end(r);
		return;
	}
	if (s->moved != there - req_queued(r)) {
		s->moved = there - req_queued(r);
		s->moved_us = s->g->loop.now_us;
	}
	if (s->result_end != 0 && s->g->loop.now_us - s->moved_us > RECONNECT_US) {
		s->r = NULL; /* it does not read: a box is not kept for that */
		end(s);
		req_abort(r);
		return;
	}
	watch_confirm(s);
}

static void send_gap(struct ci_stream *s, uint64_t from, uint64_t to)
{
	char text[96];
	int n = snprintf(text, sizeof(text), "event: gap\ndata: {\"from\":%llu,\"to\":%llu}\n\n",
			 (unsigned long long)from, (unsigned long long)to);

	s->carry[0].n = s->carry[1].n = 0;
	(void)req_write(s->r, text, (size_t)n);
}

/* Number is next. What lies between it and the last one is not held any more: that is said, never passed over. */
static void tell_gap(struct ci_stream *s, uint64_t number)
{
	if (s->resumable && number != UINT64_MAX && number > s->told + 1)
		send_gap(s, s->told + 1, number - 1);
	s->told = number;
}

static void send_held(struct ci_stream *s, struct held *h)
{
	tell_gap(s, h->number);
	if (s->r == NULL)
		return;
	send_output(s, h->number, h->stream, h->p, h->n);
	if (s->r != NULL)
		h->end = req_sent(s->r);
}

static void send_result(struct ci_stream *s)
{
	struct json j;

	tell_gap(s, s->result_number);
	if (s->r != NULL)
		send_carry(s, s->result_number);
	if (s->r == NULL)
		return;
	json_init(&j);
	if (s->resumable)
		put_id(&j, s, s->result_number);
	json_raw(&j, s->result, s->result_len);
	if (!j.failed)
		(void)req_write(s->r, j.buf, j.len);
	json_done(&j);
	if (s->r == NULL)
		return;
	s->result_end = req_sent(s->r);
	s->moved_us = s->g->loop.now_us;
	if (s->resumable) {
		confirm(s);
	} else {
		struct req *r = s->r;

		s->r = NULL;
		end(s);
		req_end(r);
	}
}

/* --- what the run says ------------------------------------------------------------------------ */

static void on_running(void *arg)
{
	struct ci_stream *s = arg;

	s->running = true;
	if (s->r != NULL && !s->r->begun)
		begin_answer(s);
}

static void on_drained(struct req *r)
{
	struct ci_stream *s = r->work;

	if (s->ack_later > 0 && s->o != NULL)
		oneshot_ack(s->o, s->ack_later);
	s->ack_later = 0;
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

/* No memory, or an init that does not wait to be acknowledged. */
static void cut(struct ci_stream *s)
{
	struct req *r = s->r;

	s->r = NULL;
	end(s);
	if (r != NULL)
		req_abort(r);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct ci_stream *s = arg;

	if (s->resumable &&
	    number <= s->seen) { /* init repeats what the last gate did not acknowledge */
		s->confirmed = number;
		oneshot_ack(s->o, number);
		return;
	}
	if (s->resumable) {
		if (s->held > AHEAD_MAX || hold(s, number, stream, p, n) < 0) {
			cut(s);
		} else if (s->r != NULL) {
			send_held(s, s->last);
			confirm(s);
		}
		return;
	}
	if (s->r == NULL)
		return;
	send_output(s, number, stream, p, n);
	if (s->r == NULL)
		return;
	if (req_queued(s->r) < REQ_HIGH)
		oneshot_ack(s->o, number);
	else
		s->ack_later = number;
}

/* The last event: kept, because it may have to be sent again. */
static void keep_last(struct ci_stream *s, const char *name, struct json *data, uint64_t number)
{
	struct json j;

	json_init(&j);
	json_raw(&j, "event: ", 7);
	json_raw(&j, name, strlen(name));
	json_raw(&j, "\ndata: ", 7);
	json_raw(&j, data->buf, data->len);
	json_raw(&j, "\n\n", 2);
	if (j.failed) {
		json_done(&j);
		j.buf = strdup("event: error\ndata: {\"message\":\"out of memory\"}\n\n");
		j.len = j.buf != NULL ? strlen(j.buf) : 0;
	}
	s->result = j.buf;
	s->result_len = j.len;
	s->result_number = number;
	json_done(data);
	if (s->r != NULL)
		send_result(s);
}

static void on_result(void *arg, const struct oneshot_result *res)
{
	struct ci_stream *s = arg;
	struct json j;

	metrics_completed(&s->g->metrics, OPERATION_STREAM, ci_outcome(&res->exit),
			  clock_us() - s->began_us);
	json_init(&j);
	json_open(&j, NULL, '{');
	ci_put_exit(&j, &res->exit);
	json_u64(&j, "duration_ms", res->duration_us / 1000);
	ci_put_files(&j, res);
	json_close(&j, '}');
	keep_last(s, "result", &j, res->number);
}

static void on_failed(void *arg, const struct oneshot_failure *f)
{
	struct ci_stream *s = arg;
	struct req *r = s->r;
	struct json j;

	if (f->status != 404 && f->status != 429)
		metrics_completed(&s->g->metrics, OPERATION_STREAM, OUTCOME_ERROR,
				  clock_us() - s->began_us);
	if (r != NULL && !r->begun) {
		s->r = NULL;
		r->gone = NULL;
		end(s); /* first: the connection's next request may have the same key */
		ci_failure(r, f, &s->run.spec);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "message", f->text);
	json_close(&j, '}');
	keep_last(s, "error", &j, UINT64_MAX);
}

static const struct oneshot_ops ops = {
	.running = on_running, .output = on_output, .result = on_result, .failed = on_failed
};

/* --- resuming --------------------------------------------------------------------------------- */

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
	r->work = s;
	r->gone = on_gone;
	r->drained = on_drained;
	s->seen = last_seen(s, r);
	s->told = s->seen > 1 ? s->seen : 1;
	if (!s->running && s->result == NULL)
		return; /* its answer begins with the program */
	begin_answer(s);
	while (s->first != NULL && s->first->number <= s->seen) {
		if (s->o != NULL)
			oneshot_ack(s->o, s->first->number);
		drop_first(s);
	}
	for (struct held *h = s->first; h != NULL && s->r != NULL; h = h->next)
		send_held(s, h);
	if (s->r != NULL && s->result != NULL)
		send_result(s);
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

static void insert(struct gate *g, struct ci_stream *s)
{
	s->g = g;
	s->next = g->streams;
	if (s->next != NULL)
		s->next->prev = s;
	g->streams = s;
}

/* --- requests --------------------------------------------------------------------------------- */

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

static int make_resumable(struct ci_stream *s)
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

static int resume_or_new(struct req *r, struct ci_stream *s, struct http_slice key)
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

void ci_stream_run(struct req *r)
{
	struct http_slice key = req_get(r, "Idempotency-Key");
	struct ci_stream *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	if (key.n > 0 && resume_or_new(r, s, key) < 0) {
		free(s);
		return;
	}
	s->r = r;
	s->told = 1;
	s->began_us = clock_us();
	if (ci_run_prepare(r, &s->run, OPERATION_STREAM) < 0) {
		free(s);
		return;
	}
	s->text = r->body;
	r->body = NULL;
	insert(r->g, s);
	if (key.n == 0 || make_resumable(s) == 0)
		s->o = oneshot_new(r->g, &s->run.spec, &ops, s);
	if (s->o == NULL) {
		ci_detail(r, 503, "out of memory");
		end(s);
		return;
	}
	r->work = s;
	r->gone = on_gone;
	r->drained = on_drained;
	oneshot_start(s->o);
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
	insert(g, s);
	s->o = oneshot_resume(g, info, record, n, &s->run.spec, &ops, s);
	if (s->o == NULL) {
		end(s);
		return -1;
	}
	detach(s);
	return 0;
}
