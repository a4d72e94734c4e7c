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

/* Who reads from a terminal in the background is stopped. */
static bool is_in_front(void)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);

	return front < 0 || front == getpgrp();
}

int feed_fd(const struct exec *x)
{
	const struct feed *f = &x->feed;

	if (f->done || f->end || x->f.id[0] == '\0' || !is_in_front())
		return -1;
	if (x->o->code != NULL)
		return x->asking && !is_line(x) ? STDIN_FILENO : -1;
	return f->piece.n == 0 ? STDIN_FILENO : -1;
}

int feed_wait_ms(const struct exec *x, int ms)
{
	const struct feed *f = &x->feed;
	int own;

	if (f->done || x->f.id[0] == '\0')
		return ms;
	if (x->o->code != NULL)
		return is_answer(x) ? 0 : ms;
	if (f->piece.n == 0 && !f->end)
		return ms;
	own = clock_poll_ms(f->try_us);
	return ms < 0 || own < ms ? own : ms;
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

static int post(struct exec *x, const char *what, struct json *j, struct reply *r, struct err *e)
{
	char path[BOX_PATH];
	struct call q = { .method = "POST", .path = path, .body = j };
	int rc;

	json_close(j, '}');
	(void)snprintf(path, sizeof(path), "%s/%s/%s", x->f.path, x->f.id, what);
	rc = client_call(&x->c, &q, r, e);
	json_done(j);
	return rc;
}

/* --- a command ------------------------------------------------------------------------------------ */

static int send_piece(struct exec *x, struct err *e)
{
	struct feed *f = &x->feed;
	char *text = malloc(BASE64_TEXT_LEN(f->piece.n) + 1);
	struct reply r;
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
	if (post(x, "stdin", &j, &r, e) < 0)
		return e->kind == ERR_SYS && e->sys != EINTR ? 0
							     : -1; /* events tell what is lost */
	if (r.status == 429) {
		f->try_us = clock_us() + (PAUSE_MS * US_PER_MS << (f->tries < 5 ? f->tries : 5));
		f->tries++;
	} else {
		f->done = f->end || r.status != 204; /* it has ended, or reads no more */
		f->tries = 0;
		f->try_us = 0;
		bytes_clear(&f->piece);
	}
	reply_free(&r);
	return 0;
}

/* --- a cell --------------------------------------------------------------------------------------- */

static int send_line(struct exec *x, struct err *e)
{
	struct feed *f = &x->feed;
	const char *lf = f->piece.n > 0 ? memchr(f->piece.p, '\n', f->piece.n) : NULL;
	size_t n = lf != NULL ? (size_t)(lf - f->piece.p) : f->piece.n;
	struct reply r;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	if (f->piece.n > 0)
		json_bytes(&j, "text", f->piece.p, n);
	else
		json_bool(&j, "eof", true);
	x->asking = false;
	(void)term_set(TERM_AS_IT_WAS);
	bytes_splice(&f->piece, 0, lf != NULL ? n + 1 : n, "", 0);
	if (post(x, "input", &j, &r, e) < 0)
		return e->kind == ERR_SYS && e->sys != EINTR ? 0 : -1;
	reply_free(&r);
	return 0;
}

int feed_turn(struct exec *x, bool readable, struct err *e)
{
	struct feed *f = &x->feed;

	if (f->done || x->f.id[0] == '\0')
		return 0;
	if (readable && take(f, e) < 0)
		return -1;
	if (x->o->code != NULL)
		return is_answer(x) ? send_line(x, e) : 0;
	if ((f->piece.n == 0 && !f->end) || clock_us() < f->try_us)
		return 0;
	return send_piece(x, e);
}
