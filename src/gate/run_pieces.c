// SPDX-License-Identifier: Apache-2.0
/*
 * What is long is told in pieces. A text is written as ever, but what the log has of it stays in the log: the text has holes, and they are
 * filled when their turn comes. So nothing is copied that the client may never take, and no turn of the loop is longer than a
 * piece. A character of a text can have six in JSON: the pieces of texts are smaller.
 */
#include "gate/run.h"

#include "base/base64.h"
#include "base/utf8.h"

#include <stdlib.h>

enum {
	HOLE_MIN = 32 * 1024,
	RAW_PIECE = 64 * 1024,
	TEXT_PIECE = 3 * 4096, /* whole groups of base64 */
	LONG = 128 * 1024,
	FIRST_HOLES = 4,
};

void run_pieces_done(struct run_pieces *p)
{
	json_done(&p->j);
	free(p->holes);
	*p = (struct run_pieces){ 0 };
}

bool run_is_long(const struct run *run)
{
	return buf_len(&run->out[0]) + buf_len(&run->out[1]) + buf_len(&run->other) >= LONG;
}

static const struct buf *source(const struct run *run, enum run_source of)
{
	return of == RUN_OF_OTHER ? &run->other : &run->out[of];
}

bool run_leave_out(const struct run *run, struct json *j, enum run_source of, size_t from, size_t n)
{
	struct run_pieces *p = run->pieces;

	if (p == NULL || n < HOLE_MIN || j->failed)
		return false;
	if (p->nholes == p->cap) {
		unsigned int cap = p->cap > 0 ? p->cap * 2 : FIRST_HOLES;
		struct run_hole *holes = reallocarray(p->holes, cap, sizeof(*holes));

		if (holes == NULL) {
			j->failed = true;
			return true;
		}
		p->holes = holes;
		p->cap = cap;
	}
	p->holes[p->nholes++] = (struct run_hole){ .at = j->len, .of = of, .from = from, .n = n };
	return true;
}

static size_t put_text(const char *p, size_t n, struct json *to)
{
	size_t part = n;

	if (n > TEXT_PIECE)
		part = TEXT_PIECE - utf8_unfinished((const unsigned char *)p, TEXT_PIECE);
	json_chars(to, p, part);
	return part;
}

static size_t put_base64(const char *p, size_t n, struct json *to)
{
	static char text[BASE64_TEXT_LEN(TEXT_PIECE)];
	size_t part = n < TEXT_PIECE ? n : TEXT_PIECE;

	json_raw(to, text, base64_encode((const uint8_t *)p, part, text));
	return part;
}

static size_t put_raw(const char *p, size_t n, struct json *to)
{
	size_t part = n < RAW_PIECE ? n : RAW_PIECE;

	json_raw(to, p, part);
	return part;
}

static void fill(const struct run *run, struct run_pieces *p, struct json *to)
{
	const struct run_hole *h = &p->holes[p->hole];
	const char *from = buf_head(source(run, h->of)) + h->from + p->filled;
	size_t n = h->n - p->filled;

	if (h->of == RUN_OF_OTHER)
		p->filled += put_raw(from, n, to);
	else if (run->base64)
		p->filled += put_base64(from, n, to);
	else
		p->filled += put_text(from, n, to);
	if (p->filled == h->n) {
		p->hole++;
		p->filled = 0;
	}
}

bool run_pieces_next(const struct run *run, struct run_pieces *p, struct json *to)
{
	bool hole = p->hole < p->nholes;
	size_t end = hole ? p->holes[p->hole].at : p->j.len;

	if (p->at < end)
		p->at += put_raw(p->j.buf + p->at, end - p->at, to);
	else if (hole)
		fill(run, p, to);
	return p->at < p->j.len;
}
