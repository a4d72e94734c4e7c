// SPDX-License-Identifier: Apache-2.0
/*
 * Three passes, none of which recurses: a check, with a stack of one bit per level; a walk, which counts brackets; and
 * writing, which sees only tokens. The latter two rely on the check as to sense, but not as to bounds: they end where
 * the text ends, whatever it is.
 */
#include "wire/json_text.h"

#include <errno.h>
#include <string.h>

/* What may stand behind a backslash, but u, and what it means. */
static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_space(const char *p, const char *end)
{
	while (p < end && is_space(*p))
		p++;
	return p;
}

/* Behind an opening quote: where the closing one is; NULL: nowhere. A backslash is looked at for the one quote behind
 * it, so this is linear. */
static const char *string_end(const char *from, const char *end)
{
	for (const char *q = from;; q++) {
		const char *slash;

		q = memchr(q, '"', (size_t)(end - q));
		if (q == NULL)
			return NULL;
		for (slash = q; slash > from && slash[-1] == '\\'; slash--)
			;
		if ((q - slash) % 2 == 0)
			return q;
	}
}

/* Four hexadecimal digits at p, or -1. */
static int hex4(const char *p, const char *end)
{
	int v = 0;

	if (end - p < 4)
		return -1;
	for (unsigned int i = 0; i < 4; i++) {
		char lower = (char)(p[i] | 0x20);

		if (is_digit(p[i]))
			v = v * 16 + (p[i] - '0');
		else if (lower >= 'a' && lower <= 'f')
			v = v * 16 + (lower - 'a' + 10);
		else
			return -1;
	}
	return v;
}

/* --- the check ------------------------------------------------------------------------------------ */

/* What is to come, if nothing is wrong. */
enum { MORE, WHOLE };

struct checker {
	const char *p, *end;
	unsigned int depth;
	bool object[JSON_TEXT_DEPTH_MAX];
};

static bool take(struct checker *c, char what)
{
	if (c->p == c->end || *c->p != what)
		return false;
	c->p++;
	return true;
}

/* The first byte that does not stand for itself: a control character, a backslash. Eight at a time: each of these sets its highest bit in
 * one of the differences; so may a byte behind one, which is looked at then. */
static const char *skip_plain(const char *p, const char *end)
{
	const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;

	for (; end - p >= 8; p += 8) {
		uint64_t v, slash;

		(void)memcpy(&v, p, 8);
		slash = v ^ ones * '\\';
		if ((((v - ones * 0x20) & ~v) | ((slash - ones) & ~slash)) & high)
			break;
	}
	while (p < end && (unsigned char)*p >= 0x20 && *p != '\\')
		p++;
	return p;
}

static int check_string(struct checker *c)
{
	const char *end = take(c, '"') ? string_end(c->p, c->end) : NULL;

	if (end == NULL)
		return -EINVAL;
	while ((c->p = skip_plain(c->p, end)) < end) {
		char at;

		if (*c->p++ != '\\')
			return -EINVAL;
		at = *c->p++; /* not the closing quote: that one has an even number before it */
		if (at == 'u' ? hex4(c->p, end) < 0
			      : memchr(escapes, at, sizeof(escapes) - 1) == NULL)
			return -EINVAL;
	}
	c->p = end + 1;
	return WHOLE;
}

static bool skip_digits(struct checker *c)
{
	const char *from = c->p;

	while (c->p < c->end && is_digit(*c->p))
		c->p++;
	return c->p > from;
}

static int check_number(struct checker *c)
{
	const char *from = c->p;

	(void)take(c, '-');
	if (!take(c, '0') && !skip_digits(c))
		return -EINVAL;
	if (take(c, '.') && !skip_digits(c))
		return -EINVAL;
	if (take(c, 'e') || take(c, 'E')) {
		if (!take(c, '+'))
			(void)take(c, '-');
		if (!skip_digits(c))
			return -EINVAL;
	}
	return c->p - from > JSON_TEXT_NUMBER_MAX ? -E2BIG : WHOLE;
}

static int check_word(struct checker *c, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
		return -EINVAL;
	c->p += n;
	return WHOLE;
}

/* WHOLE, or -errno. */
static int check_scalar(struct checker *c)
{
	if (c->p == c->end)
		return -EINVAL;
	switch (*c->p) {
	case '"':
		return check_string(c);
	case 't':
		return check_word(c, "true");
	case 'f':
		return check_word(c, "false");
	case 'n':
		return check_word(c, "null");
	default:
		return check_number(c);
	}
}

/* What stands before a value in an object. MORE, or -errno. */
static int check_key(struct checker *c)
{
	c->p = skip_space(c->p, c->end);
	if (check_string(c) < 0)
		return -EINVAL;
	c->p = skip_space(c->p, c->end);
	return take(c, ':') ? MORE : -EINVAL;
}

/* Behind a bracket, up to the first value. WHOLE: there is none. */
static int check_open(struct checker *c, bool object)
{
	if (c->depth == JSON_TEXT_DEPTH_MAX)
		return -E2BIG;
	c->p = skip_space(c->p, c->end);
	if (take(c, object ? '}' : ']'))
		return WHOLE;
	c->object[c->depth++] = object;
	return object ? check_key(c) : MORE;
}

/* Behind a value, up to the next one. WHOLE: there is none. */
static int check_close(struct checker *c)
{
	while (c->depth > 0) {
		bool object = c->object[c->depth - 1];

		c->p = skip_space(c->p, c->end);
		if (take(c, ','))
			return object ? check_key(c) : MORE;
		if (!take(c, object ? '}' : ']'))
			return -EINVAL;
		c->depth--;
	}
	return WHOLE;
}

static int check_value(struct checker *c)
{
	int rc;

	do {
		c->p = skip_space(c->p, c->end);
		if (take(c, '{'))
			rc = check_open(c, true);
		else if (take(c, '['))
			rc = check_open(c, false);
		else
			rc = check_scalar(c);
		if (rc == WHOLE)
			rc = check_close(c);
	} while (rc == MORE);
	return rc < 0 ? rc : 0;
}

int json_text_read(const char *p, size_t n, struct json_text *ret)
{
	struct checker c;
	const char *from;
	int rc;

	if (n == 0)
		return -EINVAL;
	c.end = p + n;
	c.depth = 0;
	c.p = from = skip_space(p, c.end);
	rc = check_value(&c);
	if (rc < 0)
		return rc;
	if (skip_space(c.p, c.end) != c.end)
		return -EINVAL;
	*ret = (struct json_text){ from, (size_t)(c.p - from) };
	return 0;
}

/* --- the walk --------------------------------------------------------------------------------------- */

char json_text_kind(struct json_text t)
{
	if (t.p == NULL || t.n == 0)
		return '\0';
	if (*t.p == '-' || is_digit(*t.p))
		return '0';
	return *t.p == 'f' ? 't' : *t.p;
}

/* Behind the string at p. */
static const char *skip_string(const char *p, const char *end)
{
	const char *quote = string_end(p + 1, end);

	return quote != NULL ? quote + 1 : end;
}

/* Behind the value at p: a scalar ends before what may stand behind it, a container with its last bracket. */
static const char *skip_value(const char *p, const char *end)
{
	size_t depth = 0;

	while (p < end) {
		switch (*p) {
		case '"':
			p = skip_string(p, end);
			if (depth == 0)
				return p;
			continue;
		case '{':
		case '[':
			depth++;
			break;
		case '}':
		case ']':
			if (depth <= 1)
				return depth == 1 ? p + 1 : p;
			depth--;
			break;
		case ',':
		case ' ':
		case '\t':
		case '\r':
		case '\n':
			if (depth == 0)
				return p;
			break;
		default:
			break;
		}
		p++;
	}
	return end;
}

struct json_walk json_walk(struct json_text t)
{
	char kind = json_text_kind(t);

	if ((kind != '{' && kind != '[') || t.n < 2)
		return (struct json_walk){ NULL, NULL };
	return (struct json_walk){ t.p + 1, t.p + t.n - 1 };
}

static struct json_text next_value(struct json_walk *w)
{
	const char *from = w->p;

	w->p = skip_value(from, w->end);
	return (struct json_text){ from, (size_t)(w->p - from) };
}

bool json_walk_next(struct json_walk *w, struct json_text *key, struct json_text *value)
{
	*key = (struct json_text){ NULL, 0 };
	w->p = skip_space(w->p, w->end);
	if (w->p == w->end)
		return false;
	*value = next_value(w);
	w->p = skip_space(w->p, w->end);
	if (w->p < w->end && *w->p == ':') {
		*key = *value;
		w->p = skip_space(w->p + 1, w->end);
		*value = next_value(w);
		w->p = skip_space(w->p, w->end);
	}
	if (w->p < w->end)
		w->p++; /* the comma */
	return true;
}

void json_text_find(struct json_text object, struct json_member *m, size_t n)
{
	struct json_walk w = json_walk(object);
	struct json_text key, value;
	char name[64];

	for (size_t i = 0; i < n; i++)
		m[i].value = (struct json_text){ NULL, 0 };
	while (json_walk_next(&w, &key, &value)) {
		if (!json_text_str(key, name, sizeof(name)))
			continue;
		for (size_t i = 0; i < n; i++)
			if (strcmp(m[i].key, name) == 0)
				m[i].value = value;
	}
}

/* --- what a string says ----------------------------------------------------------------------------- */

static size_t utf8_put(uint32_t c, char to[4])
{
	static const unsigned char first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--) {
		to[i] = (char)(0x80 | (c & 0x3f));
		c >>= 6;
	}
	to[0] = (char)(first[n] | c);
	return n;
}

/* The second half of a surrogate pair, if it comes next; else -1. */
static int low_half(const struct json_walk *w)
{
	int unit;

	if (w->end - w->p < 6 || w->p[0] != '\\' || w->p[1] != 'u')
		return -1;
	unit = hex4(w->p + 2, w->end);
	return unit >= 0xdc00 && unit <= 0xdfff ? unit : -1;
}

/* The character of a \uXXXX whose digits come next, or of two; U+FFFD for half a pair. */
static uint32_t decode_u(struct json_walk *w)
{
	const uint32_t replaced = 0xfffd;
	int unit = hex4(w->p, w->end), low;

	w->p = unit < 0 ? w->end : w->p + 4;
	if (unit < 0xd800 || unit > 0xdfff)
		return unit < 0 ? replaced : (uint32_t)unit;
	low = unit < 0xdc00 ? low_half(w) : -1;
	if (low < 0)
		return replaced;
	w->p += 6;
	return 0x10000 + (((uint32_t)unit - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
}

/* The next bytes that a string stands for: those up to an escape as they are, or a character in buf. */
static struct json_text next_piece(struct json_walk *w, char buf[4])
{
	const char *at = w->p, *slash = memchr(at, '\\', (size_t)(w->end - at)), *found;

	if (slash != at) {
		w->p = slash != NULL ? slash : w->end;
		return (struct json_text){ at, (size_t)(w->p - at) };
	}
	w->p += w->end - at >= 2 ? 2 : 1;
	if (w->p[-1] == 'u')
		return (struct json_text){ buf, utf8_put(decode_u(w), buf) };
	found = memchr(escapes, w->p[-1], sizeof(escapes) - 1);
	buf[0] = found != NULL ? meant[found - escapes] : '\\';
	return (struct json_text){ buf, 1 };
}

/* What is between the quotes. */
static struct json_walk inside(struct json_text t)
{
	if (json_text_kind(t) != '"' || t.n < 2)
		return (struct json_walk){ NULL, NULL };
	return (struct json_walk){ t.p + 1, t.p + t.n - 1 };
}

bool json_text_str(struct json_text t, char *buf, size_t size)
{
	struct json_walk w = inside(t);
	size_t n = 0;
	char one[4];

	if (w.p == NULL || size == 0)
		return false;
	while (w.p < w.end) {
		struct json_text piece = next_piece(&w, one);

		if (piece.n >= size - n || memchr(piece.p, '\0', piece.n) != NULL)
			return false;
		(void)memcpy(buf + n, piece.p, piece.n);
		n += piece.n;
	}
	buf[n] = '\0';
	return true;
}

bool json_text_i64(struct json_text t, int64_t *ret)
{
	bool minus = t.n > 0 && *t.p == '-';
	int64_t v = 0;

	if (json_text_kind(t) != '0')
		return false;
	for (size_t i = minus; i < t.n; i++)
		if (!is_digit(t.p[i]) || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_sub_overflow(v, t.p[i] - '0', &v))
			return false;
	if (!minus && __builtin_sub_overflow(0, v, &v))
		return false;
	*ret = v;
	return true;
}

/* --- writing ------------------------------------------------------------------------------------------ */

void json_text_put_chars(struct json_text t, struct json *j)
{
	struct json_walk w = inside(t);
	char one[4];

	while (w.p < w.end) {
		struct json_text piece = next_piece(&w, one);

		json_chars(j, piece.p, piece.n);
	}
}

static void put_string(struct json_text t, struct json *j)
{
	json_raw(j, "\"", 1);
	json_text_put_chars(t, j);
	json_raw(j, "\"", 1);
}

void json_text_put(struct json_text t, struct json *j, const char *key)
{
	const char *p = t.p, *end = t.n > 0 ? p + t.n : p;

	json_value(j, key);
	if (p == end)
		json_raw(j, "null", 4);
	while (p < end) {
		const char *from = p;

		if (*p == '"') {
			p = skip_string(p, end);
			put_string((struct json_text){ from, (size_t)(p - from) }, j);
			continue;
		}
		while (p < end && *p != '"' && !is_space(*p))
			p++;
		json_raw(j, from, (size_t)(p - from));
		p = skip_space(p, end);
	}
}

void json_text_put_key(struct json_text key, struct json *j)
{
	json_value(j, NULL);
	put_string(key, j);
	json_raw(j, ":", 1);
	json_restart(j);
}
