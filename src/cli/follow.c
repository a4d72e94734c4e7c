// SPDX-License-Identifier: Apache-2.0
#include "cli/follow.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/say.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static void init(struct follow *f, struct client *c, const char *path)
{
	*f = (struct follow){ .c = c };
	(void)snprintf(f->path, sizeof(f->path), "%s", path);
	stream_init(&f->stream);
}

void follow_start(struct follow *f, struct client *c, const char *path, const struct json *body)
{
	uint8_t bytes[16] = { 0 };
	int n = 0;

	init(f, c, path);
	f->body = body;
	(void)!getrandom(bytes, sizeof(bytes), 0);
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		n += snprintf(f->key + n, sizeof(f->key) - (size_t)n, "%02x", bytes[i]);
}

void follow_run(struct follow *f, struct client *c, const char *path, const char *id,
		uint64_t after)
{
	init(f, c, path);
	(void)snprintf(f->id, sizeof(f->id), "%s", id);
	f->last = after;
}

void follow_done(struct follow *f)
{
	stream_close(&f->stream);
}

bool follow_is_id(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-_");

	return n > 0 && n < FOLLOW_ID && id[n] == '\0';
}

/* --- events --------------------------------------------------------------------------------------- */

enum {
	ENDED_BY_EVENT = 1000, /* what stream_step() tells when event() has ended it */
	SILENCE_S = 45,        /* a server says something every 15 s */
	STEADY_S = 10,         /* a connection that stays so long is none that brings nothing */
};

static int on_event(void *arg, struct sse_event *e)
{
	struct follow *f = arg;
	struct follow_event told = { .name = e->name, .seq = e->id };
	struct jsonr d = { 0 };

	if (e->id != 0 && e->id <= f->last)
		return 0; /* had it */
	f->tries = 0;
	f->futile_us = 0;
	client_no_nul(e->data, e->n);
	if (jsonr_parse(&d, e->data, e->n, NULL) == 0) {
		told.doc = &d;
		told.data = jsonr_root(&d);
	}
	if (e->id != 0)
		f->last = e->id;
	f->has_end |= strcmp(e->name, "end") == 0;
	f->ended = f->has_end && f->body != NULL;
	f->result = f->event(f->arg, &told);
	jsonr_done(&d);
	return f->result != 0 ? ENDED_BY_EVENT : 0;
}

/* --- connections ---------------------------------------------------------------------------------- */

/* Nobody answers: another time, or not any more. */
static int lost(struct follow *f, const struct err *why, struct err *e)
{
	uint64_t now = clock_us(), pause;

	stream_close(&f->stream);
	if (f->open_us != 0 && now - f->open_us > STEADY_S * US_PER_S)
		f->futile_us = 0;
	if (f->lost_us == 0)
		f->lost_us = f->futile_us != 0 ? f->futile_us : now;
	f->futile_us = f->lost_us;
	f->open_us = 0;
	if (why->sys == EINTR || now - f->lost_us > FOLLOW_PATIENCE_S * US_PER_S) {
		*e = *why;
		return -1;
	}
	if (f->tries > 1 && !f->said_lost) {
		f->said_lost = true;
		say("the connection is lost, trying again");
	}
	pause = 50 * US_PER_MS << (f->tries < 5 ? f->tries : 5);
	f->try_us = f->tries == 0 ? now : now + pause;
	f->tries++;
	return 1;
}

/* What may be different in a moment: a server that is being replaced. */
static bool may_pass(const struct follow *f, const struct reply *r)
{
	return f->lost_us != 0 && (r->status == 503 || r->status == 502);
}

/* An answer that is none of what was hoped for. */
static int refused(struct follow *f, const struct reply *r, struct err *e)
{
	struct err why;

	if (f->has_end) { /* and nothing of it is held any more */
		f->ended = true;
		return 0;
	}
	f->gone = strcmp(reply_code(r), "gone") == 0 ||
		  (f->id[0] == '\0' && strcmp(reply_code(r), "not_found") == 0);
	f->not_held = r->status == 404 || r->status == 410;
	if (!may_pass(f, r))
		return reply_refused(r, e);
	(void)reply_refused(r, &why);
	return lost(f, &why, e);
}

static int no_answer(struct follow *f, const struct err *why, struct err *e)
{
	if (why->kind == ERR_SYS)
		return lost(f, why, e);
	*e = *why;
	return -1;
}

/* Its id is needed before it says anything: to end it, or to give it input. */
static int start(struct follow *f, struct err *e)
{
	struct call q = { .method = "POST",
			  .path = f->path,
			  .body = f->body,
			  .key = f->key,
			  .flags = CALL_LATE };
	const char *id;
	struct reply r;
	struct err why;
	int rc = 1;

	if (client_call(f->c, &q, &r, &why) < 0)
		return no_answer(f, &why, e);
	id = node_str(&r.doc, reply_root(&r), "id");
	if (r.status != 202)
		rc = refused(f, &r, e);
	else if (!follow_is_id(id))
		rc = err_set(e, ERR_PROTO, 0, "the server answered without an id");
	else
		(void)snprintf(f->id, sizeof(f->id), "%s", id);
	reply_free(&r);
	return rc;
}

static int open_stream(struct follow *f, struct err *e)
{
	char path[FOLLOW_PATH + FOLLOW_ID + 16];
	struct call q = { .method = "GET", .path = path, .after = f->last, .flags = CALL_LATE };
	struct reply r;
	struct err why;
	int rc;

	(void)snprintf(path, sizeof(path), "%s/%s/events", f->path, f->id);
	rc = stream_open(f->c, &q, &f->stream, &r, &why);
	if (rc < 0) {
		rc = no_answer(f, &why, e);
	} else if (rc == 0) {
		if (f->said_lost)
			say("connected again");
		f->said_lost = false;
		f->lost_us = f->try_us = 0;
		f->open_us = clock_us();
		rc = 1;
	} else if (r.status == 204) {
		f->ended = true; /* there is no more */
		rc = 0;
	} else {
		rc = refused(f, &r, e);
	}
	reply_free(&r);
	return rc;
}

int follow_fd(const struct follow *f)
{
	return f->stream.fd;
}

int follow_wait_ms(const struct follow *f, int ms)
{
	int own;

	if (f->ended || stream_has_early(&f->stream))
		return 0;
	if (f->stream.fd >= 0)
		own = clock_poll_ms(f->stream.heard_us + SILENCE_S * US_PER_S);
	else
		own = f->try_us == 0 ? 0 : clock_poll_ms(f->try_us);
	return ms < 0 || own < ms ? own : ms;
}

int follow_turn(struct follow *f, struct err *e)
{
	struct err why;
	int rc;

	if (f->ended)
		return 0;
	if (f->stream.fd < 0)
		return f->try_us != 0 && clock_us() < f->try_us ? 1
		       : f->id[0] == '\0'                       ? start(f, e)
								: open_stream(f, e);
	rc = stream_step(&f->stream, on_event, f);
	if (rc == ENDED_BY_EVENT || f->ended || (rc == 0 && f->has_end)) {
		stream_close(&f->stream);
		f->ended = true;
		return 0;
	}
	if (rc > 0 && clock_us() - f->stream.heard_us > SILENCE_S * US_PER_S)
		rc = -ETIMEDOUT;
	if (rc > 0)
		return 1;
	if (rc == -EPROTO || rc == -E2BIG || rc == -ENOMEM)
		return err_set(e, ERR_PROTO, -rc, "follow the events of %s", f->c->url.shown);
	(void)err_set(&why, ERR_SYS, rc == 0 ? ECONNRESET : -rc, "the connection to %s is lost",
		      f->c->url.shown);
	return lost(f, &why, e);
}
