// SPDX-License-Identifier: Apache-2.0
/*
 * By the method of Knuth, Morris and Pratt, one for each pattern: every byte is looked at once by each, and nothing is looked at twice. What a pattern has found so far
 * does not depend on what others have made unreadable.
 *
 * Most bytes of most streams begin nothing: while no pattern has found anything they are passed over by a table of the pairs of bytes that patterns begin with.
 */
#include "wire/redact.h"

#include "base/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 4 }; /* what is shorter is in every text */

void redact_init(struct redact *r)
{
	*r = (struct redact){ 0 };
}

void redact_done(struct redact *r)
{
	for (unsigned int i = 0; i < r->n; i++) {
		explicit_bzero(r->v[i].p, r->v[i].n);
		free(r->v[i].p);
		free(r->v[i].fallback);
	}
	if (r->held != NULL)
		explicit_bzero(r->held, r->cap);
	free(r->held);
	free(r->v);
	redact_init(r);
}

/* --- patterns --------------------------------------------------------------------------------- */

static unsigned int pair_of(const uint8_t p[2])
{
	return (unsigned int)p[0] << 8 | p[1];
}

static bool has(const struct redact *r, const void *p, size_t n)
{
	for (unsigned int i = 0; i < r->n; i++)
		if (r->v[i].n == n && memcmp(r->v[i].p, p, n) == 0)
			return true;
	return false;
}

static int make_room(struct redact *r)
{
	unsigned int room = r->room == 0 ? 16 : 2 * r->room;
	struct redact_pattern *v;

	if (r->n < r->room)
		return 0;
	v = reallocarray(r->v, room, sizeof(*v));
	if (v == NULL)
		return -ENOMEM;
	r->v = v;
	r->room = room;
	return 0;
}

static int add(struct redact *r, const void *p, size_t n)
{
	struct redact_pattern *v;
	size_t k = 0;

	if (n < SHORTEST || has(r, p, n))
		return 0;
	if (r->n == REDACT_MAX || n > REDACT_HELD)
		return -E2BIG;
	if (make_room(r) < 0)
		return -ENOMEM;
	v = &r->v[r->n];
	*v = (struct redact_pattern){ .p = malloc(n),
				      .n = n,
				      .fallback = calloc(n + 1, sizeof(*v->fallback)) };
	if (v->p == NULL || v->fallback == NULL) {
		free(v->p);
		free(v->fallback);
		return -ENOMEM;
	}
	(void)memcpy(v->p, p, n);
	for (size_t i = 1; i < n; i++) {
		while (k > 0 && v->p[i] != v->p[k])
			k = v->fallback[k];
		if (v->p[i] == v->p[k])
			k++;
		v->fallback[i + 1] = (uint16_t)k;
	}
	r->pairs[pair_of(v->p) / 64] |= 1ull << pair_of(v->p) % 64;
	r->n++;
	return 0;
}

/* What is made of a text: room for the longest of its forms, and for the text with something in front of it. */
struct scratch {
	char *text;
	uint8_t *bytes;
};

/* What of it is in base64 the same, whatever stands in front of and behind it: `skip` bytes in front, modulo three. */
static int add_base64(struct redact *r, const uint8_t *p, size_t n, size_t skip,
		      const struct scratch *s)
{
	size_t from = (skip * 8 + 5) / 6, to = (n + skip) * 8 / 6;
	int failed;

	if (to <= from)
		return 0;
	(void)memset(s->bytes, 0, skip);
	(void)memcpy(s->bytes + skip, p, n);
	(void)base64_encode(s->bytes, n + skip, s->text);
	failed = add(r, s->text + from, to - from);
	for (char *c = s->text + from; c < s->text + to; c++)
		*c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
	return failed < 0 ? failed : add(r, s->text + from, to - from); /* the alphabet of URLs */
}

static bool is_plain(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-_.~", c) != NULL);
}

static int add_percent(struct redact *r, const uint8_t *p, size_t n, const char *digits,
		       const struct scratch *s)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_plain(p[i])) {
			s->text[len++] = (char)p[i];
			continue;
		}
		s->text[len++] = '%';
		s->text[len++] = digits[p[i] >> 4];
		s->text[len++] = digits[p[i] & 15];
	}
	return add(r, s->text, len);
}

/* As JSON has it. */
static int add_escaped(struct redact *r, const uint8_t *p, size_t n, bool slashes,
		       const struct scratch *s)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '"' || p[i] == '\\' || (slashes && p[i] == '/'))
			s->text[len++] = '\\';
		s->text[len++] = (char)p[i];
	}
	return add(r, s->text, len);
}

static int add_forms(struct redact *r, const uint8_t *p, size_t n, const struct scratch *s)
{
	int failed = add(r, p, n);

	for (size_t skip = 0; skip < 3 && failed == 0; skip++)
		failed = add_base64(r, p, n, skip, s);
	if (failed == 0)
		failed = add_percent(r, p, n, "0123456789ABCDEF", s);
	if (failed == 0)
		failed = add_percent(r, p, n, "0123456789abcdef", s);
	if (failed == 0)
		failed = add_escaped(r, p, n, false, s);
	return failed < 0 ? failed : add_escaped(r, p, n, true, s);
}

int redact_add(struct redact *r, const void *bytes, size_t n)
{
	size_t room = 3 * n + 16, all = room + n + 2;
	char *text = malloc(all);
	int failed;

	if (text == NULL)
		return -ENOMEM;
	failed = add_forms(r, bytes, n,
			   &(struct scratch){ .text = text, .bytes = (uint8_t *)text + room });
	explicit_bzero(text, all);
	free(text);
	return failed;
}

/* --- the stream ------------------------------------------------------------------------------- */

static int hold(struct redact *r, uint8_t c)
{
	if (r->nheld == r->cap) {
		size_t cap = r->cap == 0 ? 256 : 2 * r->cap;
		uint8_t *p = realloc(r->held, cap);

		if (p == NULL)
			return -ENOMEM;
		r->held = p;
		r->cap = cap;
	}
	r->held[r->nheld++] = c;
	return 0;
}

/* One byte more. Returns how many of the last ones may be the beginning of something. */
static size_t look(struct redact *r, uint8_t c)
{
	size_t most = 0;

	for (unsigned int i = 0; i < r->n; i++) {
		struct redact_pattern *v = &r->v[i];

		while (v->found > 0 && v->p[v->found] != c)
			v->found = v->fallback[v->found];
		if (v->p[v->found] == c)
			v->found++;
		if (v->found == v->n) {
			(void)memset(r->held + r->nheld - v->n, '*', v->n);
			v->found = v->fallback[v->n];
		}
		if (v->found > most)
			most = v->found;
	}
	return most;
}

/* How many of them begin nothing, as far as that can be told; nothing has been found before them. */
static size_t pass_over(const struct redact *r, const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i + 1 < n && (r->pairs[pair_of(p + i) / 64] >> pair_of(p + i) % 64 & 1) == 0)
		i++;
	return i;
}

int redact_feed(struct redact *r, const void *bytes, size_t n, uint8_t *out, size_t *ret_n)
{
	const uint8_t *p = bytes;
	size_t told = 0;

	for (size_t i = 0; i < n; i++) {
		size_t over = r->nheld == 0 ? pass_over(r, p + i, n - i) : 0, keep, tell;

		if (over > 0)
			(void)memcpy(out + told, p + i, over);
		told += over;
		i += over;
		if (hold(r, p[i]) < 0)
			return -ENOMEM;
		keep = look(r, p[i]);
		tell = r->nheld - keep;
		if (tell == 0)
			continue;
		(void)memcpy(out + told, r->held, tell);
		told += tell;
		(void)memmove(r->held, r->held + tell, keep);
		r->nheld = keep;
	}
	*ret_n = told;
	return 0;
}

size_t redact_end(struct redact *r, uint8_t *out)
{
	size_t n = r->nheld;

	if (n > 0)
		(void)memcpy(out, r->held, n);
	r->nheld = 0;
	for (unsigned int i = 0; i < r->n; i++)
		r->v[i].found = 0;
	return n;
}
