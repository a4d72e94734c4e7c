// SPDX-License-Identifier: Apache-2.0
/* Texts in other encodings. GBK has a table of 24 000 characters, which Python has and this process need not: the box is asked. */
#include "gate/se_decode.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "base/utf8.h"
#include "gate/boxes.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum {
	GBK_US = 10 * 1000 * 1000,
	GBK_GROWS = 2, /* two bytes become three at most, and one stays one */
	HEAD = 32,
};

/* --- here ------------------------------------------------------------------------------------- */

/* How many bytes at the front belong to a character that began before. */
static size_t begun_before(const struct se_piece *piece)
{
	const unsigned char *p = (const unsigned char *)piece->p;
	uint32_t c;

	for (size_t k = 1; k <= piece->before && k <= SE_DECODE_EXTRA; k++) {
		size_t len = utf8_next(p - k, piece->n + k, &c);

		if (len > 0)
			return len > k ? len - k : 0;
	}
	return 0;
}

ptrdiff_t se_utf8_part(const struct se_piece *piece)
{
	const unsigned char *p = (const unsigned char *)piece->p;
	size_t at = begun_before(piece), len, left;
	uint32_t c;

	while (at < piece->want) {
		left = piece->n - at;
		len = utf8_next(p + at, left, &c);
		if (len == 0) /* fine, if the rest of it is in the next piece */
			return !piece->last && at > 0 && utf8_unfinished(p + at, left) == left
				       ? (ptrdiff_t)at
				       : -1;
		if (at + len > piece->want && at > 0)
			break;
		at += len;
	}
	return (ptrdiff_t)at;
}

int se_latin1(const char *p, size_t n, struct buf *to)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		char two[2] = { (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)) };
		int r = c < 0x80 ? buf_put(to, p + i, 1) : buf_put(to, two, 2);

		if (r < 0)
			return -ENOMEM;
	}
	return 0;
}

/* --- in the box ------------------------------------------------------------------------------- */

/* Says how many bytes it took, and then the text. Nothing: it is not GBK. A character may be cut at the end: then one byte less is tried, or
 * if that leaves nothing one more. */
static const char program[] =
	"import sys\n"
	"want, last = int(sys.argv[1]), sys.argv[2] == '1'\n"
	"b = sys.stdin.buffer.read()\n"
	"for n in [want] if last and want == len(b) else [want, want - 1 or want + 1]:\n"
	"    try:\n"
	"        t = b[:n].decode('gbk')\n"
	"    except ValueError:\n"
	"        continue\n"
	"    sys.stdout.buffer.write(b'%d\\n%s' % (min(n, len(b)), t.encode()))\n"
	"    break\n";

struct se_gbk {
	struct gate *g;
	struct req *r;
	struct gjob job;
	struct buf out;
	struct se_piece piece;
	void (*done)(void *arg, struct req *r, const char *text, size_t n, size_t used);
	void (*gone)(void *arg);
	void *arg;
	struct deferred deferred;
};

static void gbk_free(void *arg)
{
	struct se_gbk *d = arg;

	buf_done(&d->out);
	free(d);
}

static void close_gbk(struct se_gbk *d)
{
	if (d->r != NULL)
		d->r->gone = NULL;
	d->r = NULL;
	gjob_signal(&d->job, SIGKILL, 0); /* nothing, if it has ended */
	gjob_drop(&d->job);
	loop_defer(&d->g->loop, &d->deferred, gbk_free, d);
}

/* What it said: a number, the end of a line, UTF-8. */
static void finish(struct se_gbk *d, bool well)
{
	const char *p = buf_head(&d->out), *text = NULL;
	size_t n = buf_len(&d->out), len = 0;
	const char *end = n > 0 ? memchr(p, '\n', n < HEAD ? n : HEAD) : NULL;
	struct req *r = d->r;
	uint64_t used = 0;
	char number[HEAD];

	if (well && end != NULL) {
		(void)memcpy(number, p, (size_t)(end - p));
		number[end - p] = '\0';
		if (str_to_u64(number, d->piece.n, &used) == 0 && used > 0) {
			text = end + 1;
			len = n - (size_t)(text - p);
		}
	}
	close_gbk(d); /* it stays until the end of this turn */
	d->done(d->arg, r, text, len, (size_t)used);
}

static void gbk_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct se_gbk *d = arg;

	if (stream == 1)
		(void)buf_put(&d->out, p, n);
	gjob_ack(&d->job, number);
}

static void gbk_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct se_gbk *d = arg;

	gjob_ack(&d->job, number);
	finish(d, x->how == JOB_EXITED && x->code == 0 && (x->flags & JOB_CUT_STDOUT) == 0);
}

static void gbk_failed(void *arg, int error, const char *why)
{
	(void)error;
	(void)why;
	finish(arg, false);
}

static void gbk_lost(void *arg)
{
	finish(arg, false);
}

static void on_gone(struct req *r)
{
	struct se_gbk *d = r->work;

	d->r = NULL;
	close_gbk(d);
	d->gone(d->arg);
}

static int start(struct se_gbk *d, const struct abox *a)
{
	static const struct gjob_ops ops = {
		.output = gbk_output, .ended = gbk_ended, .failed = gbk_failed, .lost = gbk_lost
	};
	char want[24];
	const char *const argv[] = { "/usr/bin/python3",        "-I", "-S", "-c", program, want,
				     d->piece.last ? "1" : "0", NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_STDIN | JOB_ATTENDED,
				 .timeout_us = GBK_US,
				 .output_max = d->out.max,
				 .cwd = "/",
				 .argv = argv,
				 .envp = ci_environment() };
	int r;

	(void)snprintf(want, sizeof(want), "%zu", d->piece.want);
	if (a->box == NULL)
		return -EPIPE;
	r = gjob_start(a->box, &d->job, 0, &spec, &ops, d);
	if (r == 0)
		gjob_input_all(&d->job, d->piece.p, d->piece.n);
	return r;
}

void se_gbk(struct req *r, struct abox *a, const struct se_piece *piece,
	    void (*done)(void *arg, struct req *r, const char *text, size_t n, size_t used),
	    void (*gone)(void *arg), void *arg)
{
	struct se_gbk *d = calloc(1, sizeof(*d));

	if (d == NULL) {
		done(arg, r, NULL, 0, 0);
		return;
	}
	d->g = r->g;
	d->r = r;
	d->piece = *piece;
	d->done = done;
	d->gone = gone;
	d->arg = arg;
	buf_init(&d->out, HEAD + GBK_GROWS * piece->n);
	r->work = d;
	r->gone = on_gone;
	if (start(d, a) < 0)
		finish(d, false);
}
