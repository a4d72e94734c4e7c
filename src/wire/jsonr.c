// SPDX-License-Identifier: Apache-2.0
/*
 * A recursive reader over one buffer. It never looks beyond the end of the text, which has no NUL
 * behind it, and never writes in front of what it has read: unescaping only shortens.
 *
 * What takes time is long strings (code, files in base64), so a string is passed over eight bytes
 * at a time as long as they are plain: ASCII, no quote, no backslash, no control character. From
 * the first escape on they are moved down as well.
 *
 * Refusals stand where Python's reader has them, with its words: clients of dialects compare them.
 * That is why a number ends where it stops making sense ("01" is 0 with something behind it).
 */
#include "wire/jsonr.h"

#include "base/utf8.h"
#include "wire/jsonr_keys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_FIRST = 32 };

struct reader {
	struct jsonr *d;
	char *start, *p, *end;
	size_t wide; /* bytes before p that begin no character */
	unsigned int depth;
	struct jsonr_keys keys;
	struct jsonr_error *e;
};

static int refuse_wide(struct reader *r, int rc, const char *at, size_t wide, const char *why)
{
	size_t offset = (size_t)(at - r->start);

	*r->e = (struct jsonr_error){ .offset = offset, .chars = offset - wide, .why = why };
	return rc;
}

static int refuse(struct reader *r, int rc, const char *at, const char *why)
{
	return refuse_wide(r, rc, at, r->wide, why);
}

static void skip_space(struct reader *r)
{
	while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
		r->p++;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* --- strings ---------------------------------------------------------------------------------- */

#define EACH(byte) (0x0101010101010101u * (uint64_t)(byte))

/* Some byte of w ends a plain run. Exact as to whether, not as to which. */
static bool has_special(uint64_t w)
{
	return ((w | (w - EACH(0x20)) | ((w ^ EACH('"')) - EACH(1)) |
		 ((w ^ EACH('\\')) - EACH(1))) &
		EACH(0x80)) != 0;
}

static bool is_special(char c)
{
	return (unsigned char)c < 0x20 || (unsigned char)c >= 0x80 || c == '"' || c == '\\';
}

/* The end of the plain run at p. */
static char *skip_plain(char *p, const char *end)
{
	uint64_t w;

	for (; end - p >= (ptrdiff_t)sizeof(w); p += sizeof(w)) {
		(void)memcpy(&w, p, sizeof(w));
		if (has_special(w))
			break;
	}
	while (p < end && !is_special(*p))
		p++;
	return p;
}

/* The same, moving the run down to *to. A word is in a register before anything is written over it;
 * one that has an end in it is not written as a whole, or what follows would be lost. */
static char *move_plain(char **to, char *p, const char *end)
{
	char *t = *to;
	uint64_t w;

	for (; end - p >= (ptrdiff_t)sizeof(w); p += sizeof(w), t += sizeof(w)) {
		(void)memcpy(&w, p, sizeof(w));
		if (has_special(w))
			break;
		(void)memcpy(t, &w, sizeof(w));
	}
	while (p < end && !is_special(*p))
		*t++ = *p++;
	*to = t;
	return p;
}

/* Four hexadecimal digits at p, or -1. */
static int hex4(const char *p)
{
	int v = 0;

	for (int i = 0; i < 4; i++) {
		int digit;

		if (is_digit(p[i]))
			digit = p[i] - '0';
		else if ((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'f')
			digit = (p[i] | 0x20) - 'a' + 10;
		else
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

static char *put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

/* At the u of \uXXXX. The digits may not be the last of the text: a quote has to follow. */
static int unescape_u(struct reader *r, char **to)
{
	char *u = r->p;
	int high = r->end - u > 5 ? hex4(u + 1) : -1, low;
	uint32_t c;

	if (high < 0)
		return refuse(r, -EINVAL, u, "invalid \\uXXXX escape");
	c = (uint32_t)high;
	r->p += 5;
	if (c == 0)
		return refuse(r, -EINVAL, u - 1, "NUL in a string");
	if (c >= 0xdc00 && c <= 0xdfff)
		return refuse(r, -EINVAL, u - 1, "half a surrogate pair");
	if (c >= 0xd800 && c <= 0xdbff) {
		low = r->end - r->p > 6 && r->p[0] == '\\' && r->p[1] == 'u' ? hex4(r->p + 2) : -1;
		if (low < 0xdc00 || low > 0xdfff)
			return refuse(r, -EINVAL, u - 1, "half a surrogate pair");
		c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
		r->p += 6;
	}
	*to = put_utf8(*to, c);
	return 0;
}

/* At a backslash with something behind it. */
static int unescape(struct reader *r, char **to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *found;

	r->p++;
	if (*r->p == 'u')
		return unescape_u(r, to);
	found = memchr(from, *r->p, sizeof(from) - 1);
	if (found == NULL)
		return refuse(r, -EINVAL, r->p - 1, "invalid \\escape");
	*(*to)++ = into[found - from];
	r->p++;
	return 0;
}

/* Characters beyond ASCII, as many as follow each other. */
static int move_wide(struct reader *r, char **to)
{
	while (r->p < r->end && (unsigned char)*r->p >= 0x80) {
		const unsigned char *from = (const unsigned char *)r->p;
		uint32_t c;
		size_t n = utf8_next(from, (size_t)(r->end - r->p), &c);

		if (n == 0)
			return refuse(r, -EILSEQ, r->p, "invalid UTF-8");
		r->wide += n - 1;
		if (*to == r->p)
			*to += n;
		else
			for (size_t i = 0; i < n; i++)
				*(*to)++ = (char)from[i];
		r->p += n;
	}
	return 0;
}

/* Behind the opening quote. */
static int read_string(struct reader *r, const char **ret, uint32_t *ret_len)
{
	char *text = r->p, *to;
	size_t wide = r->wide;
	int rc = 0;

	r->p = to = skip_plain(r->p, r->end);
	while (rc == 0 && r->p < r->end && *r->p != '"') {
		if ((unsigned char)*r->p >= 0x80)
			rc = move_wide(r, &to);
		else if (*r->p != '\\')
			return refuse(r, -EINVAL, r->p, "invalid control character at");
		else if (r->end - r->p > 1)
			rc = unescape(r, &to);
		else
			break;
		if (to == r->p)
			r->p = to = skip_plain(r->p, r->end);
		else
			r->p = move_plain(&to, r->p, r->end);
	}
	if (rc < 0)
		return rc;
	if (r->p == r->end || *r->p != '"')
		return refuse_wide(r, -EINVAL, text - 1, wide, "unterminated string starting at");
	r->p++;
	*to = '\0';
	*ret = text;
	*ret_len = (uint32_t)(to - text);
	return 0;
}

/* --- numbers and words ------------------------------------------------------------------------ */

static void skip_digits(struct reader *r)
{
	while (r->p < r->end && is_digit(*r->p))
		r->p++;
}

/* Past ".5" and "e-5"; true when one of them was there. */
static bool skip_fraction(struct reader *r)
{
	const char *from = r->p;

	if (r->end - r->p > 1 && r->p[0] == '.' && is_digit(r->p[1])) {
		r->p++;
		skip_digits(r);
	}
	if (r->end - r->p > 1 && (r->p[0] | 0x20) == 'e') {
		ptrdiff_t sign = r->p[1] == '+' || r->p[1] == '-';

		if (r->end - r->p > 1 + sign && is_digit(r->p[1 + sign])) {
			r->p += 1 + sign;
			skip_digits(r);
		}
	}
	return r->p > from;
}

/* Downwards, since there is one more below zero than above. */
static int to_integer(const char *p, const char *end, int64_t *ret)
{
	bool minus = *p == '-';
	int64_t v = 0;

	for (p += minus; p < end; p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v))
			return -ERANGE;
	if (!minus && __builtin_sub_overflow(0, v, &v))
		return -ERANGE;
	*ret = v;
	return 0;
}

/* The C library reads it, from a copy with an end. Nobody here changes the locale. */
static int to_real(const char *p, size_t n, double *ret)
{
	char text[JSONR_NUMBER_MAX + 1];

	(void)memcpy(text, p, n);
	text[n] = '\0';
	*ret = strtod(text, NULL);
	return isfinite(*ret) ? 0 : -ERANGE;
}

static int read_number(struct reader *r, struct jsonr_node *n)
{
	const char *from = r->p;
	int rc;

	r->p += *r->p == '-';
	if (r->p == r->end || !is_digit(*r->p))
		return refuse(r, -EINVAL, from, "expecting value");
	if (*r->p == '0')
		r->p++;
	else
		skip_digits(r);
	n->type = JSONR_INT;
	if (skip_fraction(r)) {
		n->type = JSONR_REAL;
		if (r->p - from > JSONR_NUMBER_MAX)
			return refuse(r, -EINVAL, from, "number too long");
		rc = to_real(from, (size_t)(r->p - from), &n->real);
	} else {
		rc = to_integer(from, r->p, &n->integer);
	}
	return rc < 0 ? refuse(r, -EINVAL, from, "number out of range") : 0;
}

static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
		return false;
	r->p += n;
	return true;
}

static int read_word(struct reader *r, struct jsonr_node *n)
{
	n->type = JSONR_BOOL;
	if (take_word(r, "true")) {
		n->boolean = true;
		return 0;
	}
	if (take_word(r, "false"))
		return 0;
	n->type = JSONR_NULL;
	if (take_word(r, "null"))
		return 0;
	return refuse(r, -EINVAL, r->p, "expecting value");
}

/* --- values ----------------------------------------------------------------------------------- */

static int new_node(struct reader *r, uint32_t *ret)
{
	struct jsonr *d = r->d;

	if (d->n == JSONR_NODES_MAX)
		return refuse(r, -E2BIG, r->p, "too many values");
	if (d->n == d->cap) {
		uint32_t cap = d->cap == 0 ? NODES_FIRST : d->cap * 2;
		struct jsonr_node *nodes;

		cap = cap < JSONR_NODES_MAX ? cap : JSONR_NODES_MAX;
		nodes = realloc(d->nodes, cap * sizeof(*nodes));
		if (nodes == NULL)
			return refuse(r, -ENOMEM, r->p, "no memory");
		d->nodes = nodes;
		d->cap = cap;
	}
	*ret = d->n++;
	d->nodes[*ret] = (struct jsonr_node){ 0 };
	return 0;
}

/* Of an object whose closing brace is at p. */
static int check_keys(struct reader *r, uint32_t object)
{
	const struct jsonr_node *twice;
	int rc = jsonr_keys_twice(&r->keys, r->d, &r->d->nodes[object], &twice);

	if (rc < 0)
		return refuse(r, rc, r->p, "no memory");
	if (twice != NULL)
		return refuse_wide(r, -EINVAL, twice->key - 1, 0, "duplicate key");
	return 0;
}

static int read_value(struct reader *r, uint32_t *ret);

/* A key with its colon, up to where its value begins. */
static int read_key(struct reader *r, const char **key, uint32_t *key_len)
{
	int rc;

	if (r->p == r->end || *r->p != '"')
		return refuse(r, -EINVAL, r->p,
			      "expecting property name enclosed in double quotes");
	r->p++;
	rc = read_string(r, key, key_len);
	if (rc < 0)
		return rc;
	skip_space(r);
	if (r->p == r->end || *r->p != ':')
		return refuse(r, -EINVAL, r->p, "expecting ':' delimiter");
	r->p++;
	skip_space(r);
	return 0;
}

/* One child, hung behind the one before it. */
static int read_child(struct reader *r, uint32_t parent, uint32_t *last)
{
	bool object = r->d->nodes[parent].type == JSONR_OBJECT;
	const char *key = NULL;
	uint32_t key_len = 0, n;
	int rc = object ? read_key(r, &key, &key_len) : 0;

	if (rc == 0)
		rc = read_value(r, &n);
	if (rc != 0)
		return rc;
	r->d->nodes[n].key = key;
	r->d->nodes[n].key_len = key_len;
	if (*last != 0)
		r->d->nodes[*last].next = n;
	*last = n;
	r->d->nodes[parent].len++;
	return 0;
}

/* Behind the opening bracket. */
static int read_container(struct reader *r, uint32_t me, char closing)
{
	uint32_t last = 0;
	int rc;

	if (++r->depth > JSONR_DEPTH_MAX)
		return refuse(r, -E2BIG, r->p - 1, "nested too deeply");
	skip_space(r);
	if (r->p == r->end || *r->p != closing) {
		for (;;) {
			rc = read_child(r, me, &last);
			if (rc < 0)
				return rc;
			skip_space(r);
			if (r->p == r->end || *r->p != ',')
				break;
			r->p++;
			skip_space(r);
		}
		if (r->p == r->end || *r->p != closing)
			return refuse(r, -EINVAL, r->p, "expecting ',' delimiter");
	}
	rc = closing == '}' ? check_keys(r, me) : 0;
	r->p++;
	r->depth--;
	return rc;
}

static int read_value(struct reader *r, uint32_t *ret)
{
	struct jsonr_node *n;
	int rc = new_node(r, ret);

	if (rc < 0)
		return rc;
	n = &r->d->nodes[*ret];
	if (r->p == r->end)
		return refuse(r, -EINVAL, r->p, "expecting value");
	switch (*r->p) {
	case '"':
		r->p++;
		n->type = JSONR_STRING;
		return read_string(r, &n->string, &n->len);
	case '{':
	case '[':
		n->type = *r->p == '{' ? JSONR_OBJECT : JSONR_ARRAY;
		r->p++;
		return read_container(r, *ret, n->type == JSONR_OBJECT ? '}' : ']');
	case 't':
	case 'f':
	case 'n':
		return read_word(r, n);
	default:
		return read_number(r, n);
	}
}

static int read_document(struct reader *r, size_t len)
{
	uint32_t root;
	int rc;

	if (len > JSONR_TEXT_MAX)
		return refuse(r, -E2BIG, r->start, "text too long");
	if (len >= 3 && memcmp(r->start, "\xef\xbb\xbf", 3) == 0)
		return refuse(r, -EINVAL, r->start, "unexpected byte order mark");
	skip_space(r);
	rc = read_value(r, &root);
	if (rc < 0)
		return rc;
	skip_space(r);
	return r->p == r->end ? 0 : refuse(r, -EINVAL, r->p, "extra data");
}

int jsonr_parse(struct jsonr *d, char *buf, size_t len, struct jsonr_error *e)
{
	struct jsonr_error ignored = { 0 };
	struct reader r = { .d = d, .start = buf, .p = buf, .e = e != NULL ? e : &ignored };
	int rc;

	*d = (struct jsonr){ 0 };
	r.end = len > 0 ? buf + len : buf;
	rc = read_document(&r, len);
	jsonr_keys_done(&r.keys);
	if (rc < 0)
		jsonr_done(d);
	return rc;
}

void jsonr_done(struct jsonr *d)
{
	free(d->nodes);
	*d = (struct jsonr){ 0 };
}

/* --- walking ---------------------------------------------------------------------------------- */

const struct jsonr_node *jsonr_root(const struct jsonr *d)
{
	return d->n > 0 ? &d->nodes[0] : NULL;
}

const struct jsonr_node *jsonr_first(const struct jsonr *d, const struct jsonr_node *n)
{
	(void)d;
	if (n == NULL || (n->type != JSONR_ARRAY && n->type != JSONR_OBJECT) || n->len == 0)
		return NULL;
	return n + 1;
}

const struct jsonr_node *jsonr_next(const struct jsonr *d, const struct jsonr_node *n)
{
	return n != NULL && n->next != 0 ? &d->nodes[n->next] : NULL;
}

const struct jsonr_node *jsonr_get(const struct jsonr *d, const struct jsonr_node *object,
				   const char *key)
{
	size_t len = strlen(key);

	if (object == NULL || object->type != JSONR_OBJECT)
		return NULL;
	for (const struct jsonr_node *n = jsonr_first(d, object); n != NULL; n = jsonr_next(d, n))
		if (n->key_len == len && memcmp(n->key, key, len) == 0)
			return n;
	return NULL;
}
