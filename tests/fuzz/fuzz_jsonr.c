/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON reader. Input: the text.
 *
 * Claims: a second reader below, written for size and not for speed, accepts the same texts and finds the same
 * values in the same order; strings end in NUL, have none inside and are UTF-8; what is written again reads as the
 * same and is written the same; an echo is JSON, and short; a refusal says where, within the text, and leaves nothing.
 */
#include "wire/jsonr.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "base/utf8.h"

#include "fuzz_input.h"

/* --- the second reader: every value and key goes into one hash ----------------------------------------------- */

struct second {
	const uint8_t *p, *end;
	uint8_t *text; /* of the last string */
	size_t text_len;
	uint64_t hash;
	unsigned int values, depth;
};

static uint64_t hash_value(uint64_t h, char type, const void *p, size_t n)
{
	h = hash_bytes(h, &type, 1);
	h = hash_bytes(h, &n, sizeof(n));
	return hash_bytes(h, p, n);
}

static int peek(const struct second *s)
{
	return s->p < s->end ? *s->p : -1;
}

static bool take(struct second *s, int c)
{
	if (peek(s) != c)
		return false;
	s->p++;
	return true;
}

static void space(struct second *s)
{
	while (take(s, ' ') || take(s, '\t') || take(s, '\r') || take(s, '\n'))
		;
}

static bool hex(struct second *s, uint32_t *ret)
{
	char text[5] = "";

	for (int i = 0; i < 4; i++) {
		int c = peek(s);

		if (c <= 0 || strchr("0123456789abcdefABCDEF", c) == NULL)
			return false;
		text[i] = (char)c;
		s->p++;
	}
	*ret = (uint32_t)strtoul(text, NULL, 16);
	return true;
}

static void add(struct second *s, uint32_t c)
{
	static const uint8_t first[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	s->text[s->text_len++] = (uint8_t)(n == 1 ? c : first[n] | c >> (6 * (n - 1)));
	for (int i = n - 2; i >= 0; i--)
		s->text[s->text_len++] = (uint8_t)(0x80 | (c >> (6 * i) & 0x3f));
}

static bool escape(struct second *s)
{
	static const char plain[] = "\"\\/", letters[] = "bfnrt", means[] = "\b\f\n\r\t";
	uint32_t c, low;
	int e = peek(s);

	if (e <= 0)
		return false;
	s->p++;
	if (strchr(plain, e) != NULL) {
		add(s, (uint32_t)e);
		return true;
	}
	if (strchr(letters, e) != NULL) {
		add(s, (uint32_t)means[strchr(letters, e) - letters]);
		return true;
	}
	if (e != 'u' || !hex(s, &c) || c == 0 || (c >= 0xdc00 && c <= 0xdfff))
		return false;
	if (c >= 0xd800 && c <= 0xdbff) {
		if (!take(s, '\\') || !take(s, 'u') || !hex(s, &low) || low < 0xdc00 ||
		    low > 0xdfff)
			return false;
		c = 0x10000 + (c - 0xd800) * 0x400 + (low - 0xdc00);
	}
	add(s, c);
	return true;
}

static bool string(struct second *s)
{
	s->text_len = 0;
	if (!take(s, '"'))
		return false;
	while (!take(s, '"')) {
		uint32_t c;
		size_t n;

		if (peek(s) < 0x20)
			return false;
		if (take(s, '\\')) {
			if (!escape(s))
				return false;
			continue;
		}
		n = utf8_next(s->p, (size_t)(s->end - s->p), &c);
		if (n == 0)
			return false;
		add(s, c);
		s->p += n;
	}
	return true;
}

static bool digits(struct second *s)
{
	const uint8_t *from = s->p;

	while (peek(s) >= '0' && peek(s) <= '9')
		s->p++;
	return s->p > from;
}

static bool number(struct second *s)
{
	const uint8_t *from = s->p;
	bool real = false;
	char *text;
	size_t n;

	(void)take(s, '-');
	if (!take(s, '0') && !digits(s))
		return false;
	if (take(s, '.')) {
		real = true;
		if (!digits(s))
			return false;
	}
	if (take(s, 'e') || take(s, 'E')) {
		real = true;
		if (!take(s, '+'))
			(void)take(s, '-');
		if (!digits(s))
			return false;
	}
	n = (size_t)(s->p - from);
	if (real && n > JSONR_NUMBER_MAX)
		return false;
	text = malloc(n + 1);
	MUST(text != NULL);
	memcpy(text, from, n);
	text[n] = '\0';
	errno = 0;
	if (real) {
		double v = strtod(text, NULL);

		real = isfinite(v);
		s->hash = hash_value(s->hash, 'r', &v, sizeof(v));
	} else {
		int64_t v = strtoll(text, NULL, 10);

		real = errno == 0;
		s->hash = hash_value(s->hash, 'i', &v, sizeof(v));
	}
	free(text);
	return real;
}

static bool word(struct second *s, const char *w)
{
	s->hash = hash_value(s->hash, w[0], "", 0);
	for (; *w != '\0'; w++)
		if (!take(s, *w))
			return false;
	return true;
}

/* The keys of an object so far, each with its length in front. */
struct keys {
	uint8_t *p;
	size_t n;
};

static bool new_key(struct keys *k, const struct second *s)
{
	uint8_t *p;

	for (size_t i = 0, len; i < k->n; i += sizeof(len) + len) {
		memcpy(&len, k->p + i, sizeof(len));
		if (len == s->text_len && memcmp(k->p + i + sizeof(len), s->text, len) == 0)
			return false;
	}
	p = realloc(k->p, k->n + sizeof(size_t) + s->text_len);
	MUST(p != NULL);
	k->p = p;
	memcpy(k->p + k->n, &s->text_len, sizeof(size_t));
	if (s->text_len > 0)
		memcpy(k->p + k->n + sizeof(size_t), s->text, s->text_len);
	k->n += sizeof(size_t) + s->text_len;
	return true;
}

static bool value(struct second *s);

static bool members(struct second *s, bool object, struct keys *k)
{
	int closing = object ? '}' : ']';

	space(s);
	if (take(s, closing))
		return true;
	do {
		space(s);
		if (object) {
			if (!string(s) || !new_key(k, s))
				return false;
			s->hash = hash_value(s->hash, 'k', s->text, s->text_len);
			space(s);
			if (!take(s, ':'))
				return false;
		}
		if (!value(s))
			return false;
		space(s);
	} while (take(s, ','));
	return take(s, closing);
}

static bool container(struct second *s, bool object)
{
	struct keys k = { 0 };
	bool good;

	s->p++;
	if (++s->depth > JSONR_DEPTH_MAX)
		return false;
	s->hash = hash_value(s->hash, object ? '{' : '[', "", 0);
	good = members(s, object, &k);
	s->hash = hash_value(s->hash, object ? '}' : ']', "", 0);
	s->depth--;
	free(k.p);
	return good;
}

static bool value(struct second *s)
{
	bool good;

	space(s);
	if (++s->values > JSONR_NODES_MAX)
		return false;
	switch (peek(s)) {
	case '{':
		return container(s, true);
	case '[':
		return container(s, false);
	case '"':
		good = string(s);
		s->hash = hash_value(s->hash, 's', s->text, s->text_len);
		return good;
	case 't':
		return word(s, "true");
	case 'f':
		return word(s, "false");
	case 'n':
		return word(s, "null");
	default:
		return number(s);
	}
}

static bool second_reader(const uint8_t *data, size_t size, uint64_t *hash)
{
	struct second s = { .p = data, .end = data + size, .text = malloc(size + 1), .hash = 1 };
	bool good;

	MUST(s.text != NULL);
	good = value(&s);
	space(&s);
	*hash = s.hash;
	free(s.text);
	return good && s.p == s.end;
}

/* --- the first one --------------------------------------------------------------------------------------------- */

static void check_text(const char *p, size_t n)
{
	MUST(strlen(p) == n);
	while (n > 0) {
		uint32_t c;
		size_t len = utf8_next((const unsigned char *)p, n, &c);

		MUST(len > 0);
		p += len;
		n -= len;
	}
}

static uint64_t hash_tree(const struct jsonr *d, const struct jsonr_node *n, uint64_t h)
{
	uint32_t children = 0;

	if (n->key != NULL) {
		check_text(n->key, n->key_len);
		h = hash_value(h, 'k', n->key, n->key_len);
	}
	switch (n->type) {
	case JSONR_NULL:
		return hash_value(h, 'n', "", 0);
	case JSONR_BOOL:
		return hash_value(h, n->boolean ? 't' : 'f', "", 0);
	case JSONR_INT:
		return hash_value(h, 'i', &n->integer, sizeof(n->integer));
	case JSONR_REAL:
		return hash_value(h, 'r', &n->real, sizeof(n->real));
	case JSONR_STRING:
		check_text(n->string, n->len);
		return hash_value(h, 's', n->string, n->len);
	case JSONR_ARRAY:
	case JSONR_OBJECT:
		break;
	}
	h = hash_value(h, n->type == JSONR_OBJECT ? '{' : '[', "", 0);
	for (const struct jsonr_node *c = jsonr_first(d, n); c != NULL; c = jsonr_next(d, c)) {
		MUST((c->key != NULL) == (n->type == JSONR_OBJECT));
		MUST(c > n && c < d->nodes + d->n);
		h = hash_tree(d, c, h);
		children++;
	}
	MUST(children == n->len);
	return hash_value(h, n->type == JSONR_OBJECT ? '}' : ']', "", 0);
}

static void check_again(const struct jsonr *d, uint64_t hash)
{
	struct json once, twice;
	struct jsonr again;
	char *copy;

	json_init(&once);
	json_init(&twice);
	jsonr_write(d, jsonr_root(d), &once, NULL);
	MUST(!once.failed);
	copy = (char *)exact_copy(once.buf, once.len);
	MUST(jsonr_parse(&again, copy, once.len, NULL) == 0);
	MUST(hash_tree(&again, jsonr_root(&again), 1) == hash);
	jsonr_write(&again, jsonr_root(&again), &twice, NULL);
	MUST(!twice.failed && strcmp(once.buf, twice.buf) == 0);
	jsonr_done(&again);
	json_done(&twice);
	json_done(&once);
	free(copy);
}

static void check_echo(const struct jsonr *d)
{
	struct jsonr again;
	struct json j;

	json_init(&j);
	jsonr_echo(d, jsonr_root(d), &j, NULL);
	MUST(!j.failed && j.len < JSONR_ECHO_BYTES * 6 + JSONR_ECHO_NODES * 40);
	MUST(jsonr_parse(&again, j.buf, j.len, NULL) == 0);
	MUST(again.n <= JSONR_ECHO_NODES);
	jsonr_done(&again);
	json_done(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = (char *)exact_copy(data, size);
	struct jsonr_error e = { 0 };
	uint64_t hash;
	bool good = second_reader(data, size, &hash);
	struct jsonr d;
	int rc = jsonr_parse(&d, copy, size, &e);

	MUST(rc == 0 || rc == -EINVAL || rc == -EILSEQ || rc == -E2BIG);
	MUST((rc == 0) == good);
	if (rc == 0) {
		MUST(hash_tree(&d, jsonr_root(&d), 1) == hash);
		check_again(&d, hash);
		check_echo(&d);
	} else {
		MUST(e.why != NULL && e.offset <= size && e.chars <= e.offset);
		MUST(jsonr_root(&d) == NULL && d.nodes == NULL);
	}
	jsonr_done(&d);
	free(copy);
	return 0;
}
