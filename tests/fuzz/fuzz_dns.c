/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of a box, and the answers that they get. Input: one byte that picks the reply, then the
 * query.
 *
 * Claims: what is taken, written as a query again, is the same question; what is refused says why,
 * and is answered all the same. An answer fits, repeats id and question, has the flags it must have
 * and the records that its counts say, no byte more; read as a query it gets no answer.
 */
#include "wire/dns.h"

#include <errno.h>

#include "fuzz_input.h"

enum { HEADER = 12 };

static unsigned int u16(const uint8_t *p)
{
	return (unsigned int)p[0] << 8 | p[1];
}

static uint8_t lower(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

/* The question is the name that was read, in labels, and type and class, and nothing else. */
static void check_question(const struct dns_query *q, const uint8_t *p, size_t n)
{
	uint8_t want[300];
	size_t at = 0, len;

	for (const char *s = q->name; *s != '\0'; s += len + (s[len] == '.')) {
		len = strcspn(s, ".");
		MUST(len >= 1 && len <= 63);
		want[at++] = (uint8_t)len;
		memcpy(want + at, s, len);
		at += len;
	}
	want[at++] = 0;
	MUST(q->question_end == HEADER + at + 4 && q->question_end <= n);
	for (size_t i = 0; i < at; i++)
		MUST(lower(p[HEADER + i]) == want[i]);
	MUST(u16(p + HEADER + at) == q->type && u16(p + HEADER + at + 2) == 1);
	MUST(u16(p + 4) == 1 && u16(p + 6) == 0 && u16(p + 8) == 0);
	MUST(u16(p + 10) == (q->edns ? 1u : 0u) && (q->edns || q->question_end == n));
}

/* Behind the name at `at`, which is in labels, or points to the question. */
static size_t skip_name(const uint8_t *p, size_t n, size_t at)
{
	while (at < n && p[at] != 0 && p[at] < 64)
		at += 1 + (size_t)p[at];
	MUST(at < n);
	if (p[at] == 0)
		return at + 1;
	MUST(at + 2 <= n && u16(p + at) == 0xc00c);
	return at + 2;
}

static void check_answer(const struct dns_query *q, const uint8_t *query, const uint8_t *p,
			 size_t n)
{
	size_t at = q->question_end > 0 ? q->question_end : HEADER;
	unsigned int records = u16(p + 6) + u16(p + 8) + u16(p + 10), flags = u16(p + 2);
	struct dns_query again;

	MUST(n >= HEADER && n <= q->room && u16(p) == q->id);
	MUST((flags & 0x8080) == 0x8080 && (flags & 0x0470) == 0); /* no AA, Z, AD, CD */
	MUST(((flags & 0x0100) != 0) == q->recursion);
	MUST((flags & 0x7800) == (u16(query + 2) & 0x7800));
	MUST(u16(p + 4) == (q->question_end > 0 ? 1u : 0u) && u16(p + 10) == (q->edns ? 1u : 0u));
	MUST(u16(p + 6) + u16(p + 8) <= 1);
	MUST(memcmp(p + HEADER, query + HEADER, at - HEADER) == 0);
	for (unsigned int i = 0; i < records; i++) {
		at = skip_name(p, n, at);
		MUST(at + 10 <= n);
		at += 10 + (size_t)u16(p + at + 8);
	}
	MUST(at == n);
	MUST(dns_read(p, n, &again) == -EBADMSG);
}

static void answer(const struct dns_query *q, const uint8_t *query, size_t n,
		   const struct dns_reply *r)
{
	uint8_t *buf = malloc(DNS_MESSAGE_MAX);
	size_t len;

	MUST(buf != NULL);
	len = dns_write(q, query, n, r, buf, DNS_MESSAGE_MAX);
	check_answer(q, query, buf, len);
	if (r->pointer == NULL)
		MUST((buf[2] & 2) == 0); /* only those can be too long */
	if (r->code != DNS_OK)
		MUST(u16(buf + 6) == 0);
	free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in), address[4], *copy = exact_copy(in.p, in.n);
	struct dns_reply r = { .ttl = how,
			       .has_address = (how & 1) != 0,
			       .address = { 1, 2, 3, 4 } };
	struct dns_query q;
	int code = dns_read(copy, in.n, &q);

	MUST(code < 0 || in.n >= HEADER);
	MUST(q.room >= DNS_PLAIN_MAX && q.room <= DNS_MESSAGE_MAX && q.question_end <= in.n);
	if (code == DNS_OK) {
		check_question(&q, copy, in.n);
		if ((how & 2) != 0)
			r.pointer = q.name;
		(void)dns_pointer_address(q.name, address);
	}
	if (code >= 0) {
		MUST(in.n <= DNS_QUERY_MAX);
		MUST(code <= DNS_REFUSED || (code == DNS_BADVERS && q.edns));
		MUST(code == DNS_OK || q.name[0] == '\0');
		r.code = (how & 4) != 0 ? DNS_NXDOMAIN : (enum dns_code)code;
		answer(&q, copy, in.n, &r);
	} else {
		MUST(code == -EBADMSG);
	}
	free(copy);
	return 0;
}
