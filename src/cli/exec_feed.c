// SPDX-License-Identifier: Apache-2.0
/*
 * Standard input for a command, as it comes: read only as fast as the box takes it. For a cell it is lines, one for each
 * input().
 */
#include "cli/exec.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"
#include "cli/term.h"

#include <string.h>

enum {
	PIECE = 128 * 1024, /* as base64 it is a body that the server takes */
	LINE_MAX_BYTES = 32 * 1024,
	PAUSE_MS = 10, /* of the first time that there is no room; then longer */
};

void feed_init(struct feed *f, bool wanted)
{
	*f = (struct feed){ .done = !wanted };
	bytes_init(&f->piece, PIECE);
}

static bool is_line(const struct exec *x)
{
	return x->feed.piece.n > 0 && memchr(x->feed.piece.p, '\n', x->feed.piece.n) != NULL;
}

/* Whether a cell asks, and there is something to tell it. */
static bool is_answer(const struct exec *x)
{
	return x->asking && (is_line(x) || x->feed.end || x->feed.piece.n > LINE_MAX_BYTES);
}

int feed_fd(const struct exec *x)
{
	const struct feed *f = &x->feed;

	/* Who reads from a terminal in the background is stopped. */
	if (f->done || f->end || x->f.id[0] == '\0' || !term_is_in_front())
		return -1;
	if (x->o->code != NULL)
		return x->asking && !is_line(x) ? STDIN_FILENO : -1;
	return f->piece.n == 0 ? STDIN_FILENO : -1;
}

/* Whether there is something to send. */
static bool has_piece(const struct exec *x)
{
	const struct feed *f = &x->feed;

	if (f->done || x->f.id[0] == '\0')
		return false;
	return x->o->code != NULL ? is_answer(x) : f->piece.n > 0 || f->end;
}

int feed_wait_ms(const struct exec *x, int ms)
{
	int own = has_piece(x) ? clock_poll_ms(x->feed.try_us) : -1;

	return own >= 0 && (ms < 0 || own < ms) ? own : ms;
}

static int take(struct feed *f, struct err *e)
{
	char buf[LINE_MAX_BYTES];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno != EIO) /* a terminal that we are not in front of has nothing for us */
		return err_set(e, ERR_INPUT, errno, "read standard input");
	if (n <= 0)
		f->end = true;
	else
		bytes_put(&f->piece, buf, (size_t)n);
	return 0;
}

/* Another time, and later each time. */
static void pause_feed(struct feed *f)
{
	f->try_us = clock_us() + (PAUSE_MS * US_PER_MS << (f->tries < 5 ? f->tries : 5));
	f->tries++;
}

enum sent { SENT_FAILED = -1, SENT_TAKEN, SENT_LATER, SENT_UNWANTED };

/* How the server took it. What may have been taken is not sent again: it would be there twice. */
static enum sent sent(struct exec *x, int rc, const struct reply *r, struct err *e)
{
	struct feed *f = &x->feed;

	if (rc < 0 && x->c.unsure) {
		if (e->sys != EINTR)
			(void)err_wrap(e, "standard input may have been passed on in part, and the "
					  "rest was not");
		return SENT_FAILED;
	}
	if (rc < 0 && (e->kind != ERR_SYS || e->sys == EINTR))
		return SENT_FAILED;
	if (rc < 0 || r->status == 429 || r->status == 502 || r->status == 503) {
		pause_feed(f); /* events tell what is lost */
		return SENT_LATER;
	}
	f->tries = 0;
	f->try_us = 0;
	if (r->status == 204)
		return SENT_TAKEN;
	if (r->status == 404 || r->status == 409 || r->status == 410)
		return SENT_UNWANTED;
	(void)reply_refused(r, e);
	return SENT_FAILED;
}

static enum sent post(struct exec *x, const char *what, struct json *j, struct err *e)
{
	char path[BOX_PATH];
	struct call q = { .method = "POST", .path = path, .body = j, .flags = CALL_LATE };
	struct reply r = { 0 };
	enum sent how;
	int rc;

	json_close(j, '}');
	(void)snprintf(path, sizeof(path), "%s/%s/%s", x->f.path, x->f.id, what);
	rc = client_call(&x->c, &q, &r, e);
	json_done(j);
	how = sent(x, rc, &r, e);
	if (rc == 0)
		reply_free(&r);
	return how;
}

/* --- a command ------------------------------------------------------------------------------------ */

static int send_piece(struct exec *x, struct err *e)
{
	struct feed *f = &x->feed;
	char *text = malloc(BASE64_TEXT_LEN(f->piece.n) + 1);
	enum sent how;
	struct json j;

	if (text == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "pass on standard input");
	json_init(&j);
	json_open(&j, NULL, '{');
	if (f->piece.n > 0)
		json_bytes(&j, "base64", text,
			   base64_encode((const uint8_t *)f->piece.p, f->piece.n, text));
	free(text);
	if (f->end)
		json_bool(&j, "eof", true);
	how = post(x, "stdin", &j, e);
	if (how == SENT_TAKEN || how == SENT_UNWANTED) {
		f->done = f->end || how == SENT_UNWANTED; /* it has ended, or reads no more */
		bytes_clear(&f->piece);
	}
	return how == SENT_FAILED ? -1 : 0;
}

/* --- a cell --------------------------------------------------------------------------------------- */

/* A line that nobody waits for any more is for the next who asks. */
static int send_line(struct exec *x, struct err *e)
{
	struct feed *f = &x->feed;
	const char *lf = f->piece.n > 0 ? memchr(f->piece.p, '\n', f->piece.n) : NULL;
	size_t n = lf != NULL ? (size_t)(lf - f->piece.p) : f->piece.n;
	enum sent how;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	if (f->piece.n > 0)
		json_bytes(&j, "text", f->piece.p, n);
	else
		json_bool(&j, "eof", true);
	how = post(x, "input", &j, e);
	if (how == SENT_TAKEN)
		bytes_splice(&f->piece, 0, lf != NULL ? n + 1 : n, "", 0);
	if (how == SENT_TAKEN || how == SENT_UNWANTED) {
		x->asking = false;
		(void)term_set(TERM_AS_IT_WAS);
	}
	return how == SENT_FAILED ? -1 : 0;
}

int feed_turn(struct exec *x, bool readable, struct err *e)
{
	struct feed *f = &x->feed;

	if (f->done || x->f.id[0] == '\0')
		return 0;
	if (readable && take(f, e) < 0)
		return -1;
	if (!has_piece(x) || clock_us() < f->try_us)
		return 0;
	return x->o->code != NULL ? send_line(x, e) : send_piece(x, e);
}
