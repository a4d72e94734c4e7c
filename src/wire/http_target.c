// SPDX-License-Identifier: Apache-2.0
/*
 * Targets: path and query of a request, split first and decoded then, once. What comes out of the
 * decoder is checked, not what went in: "%2e%2e" is as refused as "..".
 *
 * Decoded text never outgrows its source, and the NUL behind a piece takes the place of the
 * character in front of it ('/', '?', '&', '='): a target of n bytes needs n bytes of buffer.
 */
#include "wire/http1.h"

#include <string.h>

struct target_reader {
	struct http_target *t;
	struct http_refusal *r;
	size_t used; /* of t->buf */
};

/* Bytes of a piece into `out`, which has room for as many as it has now. Their number, or -1. */
static ptrdiff_t decode_bytes(struct http_slice from, char space, char *out, struct http_refusal *r)
{
	ptrdiff_t n = 0;

	for (size_t i = 0; i < from.n; i++) {
		char c = from.p[i];

		if (c == '%') {
			int high = from.n - i > 2 ? http_hex(from.p[i + 1]) : -1;
			int low = from.n - i > 2 ? http_hex(from.p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return http_refuse(r, 400, "'%' without two hexadecimal digits");
			c = (char)(high << 4 | low);
			i += 2;
		} else if ((unsigned char)c <= ' ' || (unsigned char)c >= 0x7f || c == '#') {
			return http_refuse(r, 400, "a character that no target may have");
		} else if (c == space) {
			c = ' ';
		}
		out[n++] = c;
	}
	return n;
}

/* One piece into the buffer. space: which character stands for one. */
static int decode(struct target_reader *tr, struct http_slice from, char space,
		  struct http_slice *ret)
{
	char *out = tr->t->buf + tr->used;
	ptrdiff_t got = decode_bytes(from, space, out, tr->r);
	size_t n = (size_t)got;

	if (got < 0)
		return -1;
	*ret = (struct http_slice){ out, n };
	if (!http_is_text(*ret))
		return http_refuse(tr->r, 400, "the target is not text, or has control characters");
	out[n] = '\0';
	tr->used += n + 1;
	return 0;
}

/* The part of *rest up to a separator, which is dropped; *last without one. */
static struct http_slice split(struct http_slice *rest, char separator, bool *last)
{
	const char *at = rest->n > 0 ? memchr(rest->p, separator, rest->n) : NULL;
	struct http_slice part = { rest->p, at == NULL ? rest->n : (size_t)(at - rest->p) };
	size_t n = part.n + (at != NULL);

	*last = at == NULL;
	rest->p += n;
	rest->n -= n;
	return part;
}

/* What follows the first slash. */
static int read_path(struct target_reader *tr, struct http_slice path)
{
	struct http_target *t = tr->t;

	for (bool last = path.n == 0; !last;) {
		struct http_slice part = split(&path, '/', &last), *seg = &t->seg[t->nseg];

		if (t->nseg == HTTP_SEGMENTS_MAX)
			return http_refuse(tr->r, 414, "the path has too many segments");
		if (part.n == 0 && !last)
			return http_refuse(tr->r, 400, "'//' in the path");
		if (decode(tr, part, /* space= */ '\0', seg) < 0)
			return -1;
		if (http_slice_is(*seg, ".") || http_slice_is(*seg, ".."))
			return http_refuse(tr->r, 400, "'.' or '..' in the path");
		t->nseg++;
	}
	return 0;
}

static int read_parameter(struct target_reader *tr, struct http_slice pair)
{
	struct http_target *t = tr->t;
	struct http_slice key, value = { NULL, 0 };
	bool alone;

	if (t->nquery == HTTP_QUERY_MAX)
		return http_refuse(tr->r, 414, "the query has too many parameters");
	if (decode(tr, split(&pair, '=', &alone), '+', &key) < 0)
		return -1;
	if (key.n == 0)
		return http_refuse(tr->r, 400, "a parameter of the query has no name");
	for (unsigned int i = 0; i < t->nquery; i++)
		if (t->query[i].key.n == key.n && memcmp(t->query[i].key.p, key.p, key.n) == 0)
			t->repeated = true;
	if (alone)
		value.p = key.p + key.n; /* its NUL */
	else if (decode(tr, pair, '+', &value) < 0)
		return -1;
	t->query[t->nquery].key = key;
	t->query[t->nquery++].value = value;
	return 0;
}

int http_target_parse_open(struct http_slice target, struct http_target *t, struct http_refusal *r)
{
	struct target_reader tr = { .t = t, .r = r };
	bool last;

	t->nseg = t->nquery = 0;
	t->repeated = false;
	t->path = (struct http_slice){ target.p, 0 };
	t->bad = t->bad_query = (struct http_refusal){ 0 };
	if (http_slice_is(target, "*"))
		return 0;
	if (target.n == 0 || target.p[0] != '/')
		return http_refuse(r, 400, "the target is not a path that begins with '/'");
	if (target.n > HTTP_TARGET_MAX)
		return http_refuse(r, 414, "the target is too long");
	target.p++;
	target.n--;
	t->path = split(&target, '?', &last);
	if (read_path(&tr, t->path) < 0)
		t->bad = *r;
	last = target.n == 0;
	while (!last && t->bad_query.status == 0)
		if (read_parameter(&tr, split(&target, '&', &last)) < 0)
			t->bad_query = *r;
	return 0;
}

int http_target_parse(struct http_slice target, struct http_target *t, struct http_refusal *r)
{
	if (http_target_parse_open(target, t, r) < 0)
		return -1;
	if (t->bad.status != 0)
		return http_refuse(r, t->bad.status, t->bad.why);
	if (t->bad_query.status != 0)
		return http_refuse(r, t->bad_query.status, t->bad_query.why);
	return t->repeated ? http_refuse_repeated(r) : 0;
}

struct http_slice http_target_rest(const struct http_target *t, unsigned int n)
{
	struct http_slice rest = t->path;
	bool last = false;

	for (; n > 0 && !last; n--)
		(void)split(&rest, '/', &last);
	return last ? (struct http_slice){ NULL, 0 } : rest;
}

ptrdiff_t http_path_decode(struct http_slice from, char *to, size_t size, struct http_refusal *r)
{
	ptrdiff_t n;

	if (from.n >= size)
		return http_refuse(r, 414, "the path is too long");
	n = decode_bytes(from, /* space= */ '\0', to, r);
	if (n < 0)
		return -1;
	if (memchr(to, '\0', (size_t)n) != NULL)
		return http_refuse(r, 400, "a NUL in the path");
	to[n] = '\0';
	return n;
}

int http_refuse_repeated(struct http_refusal *r)
{
	return http_refuse(r, 400, "a parameter of the query is there twice");
}

const struct http_slice *http_query(const struct http_target *t, const char *key)
{
	for (unsigned int i = 0; i < t->nquery; i++)
		if (http_slice_is(t->query[i].key, key))
			return &t->query[i].value;
	return NULL;
}
