// SPDX-License-Identifier: Apache-2.0
#include "wire/dns.h"

#include "wire/be.h"

#include <errno.h>
#include <string.h>

enum {
	HEADER = 12,
	/* In its third and fourth byte: */
	FLAG_QR = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	CODE = 0x000f,

	CLASS_IN = 1,
	TYPE_OPT = 41,
	OPT_SIZE = 11,     /* without options */
	QUESTION = 0xc00c, /* as a compressed name: the one behind the header */
	WIRE_NAME = 255,   /* lengths of labels included */
	SOA_TIMES = 3600,  /* for secondaries, of which there are none */
};

/* --- reading -------------------------------------------------------------------------------------- */

/* Where the name at `at` ends; 0: it is none, or compressed. */
static size_t name_end(const uint8_t *p, size_t n, size_t at)
{
	const size_t begin = at;

	while (at < n && p[at] != 0) {
		if (p[at] > DNSNAME_LABEL)
			return 0;
		at += 1 + (size_t)p[at];
	}
	return at < n && at + 1 - begin <= WIRE_NAME ? at + 1 : 0;
}

/* A whole name of n bytes as text, if it is a name to us. */
static int name_text(const uint8_t *p, size_t n, char ret[DNS_NAME])
{
	char text[WIRE_NAME];
	size_t label = 0; /* where the length of the next one stands */

	if (n == 1)
		return 0;
	for (size_t i = 0; i < n - 1; i++) {
		text[i] = i == label ? '.' : (char)p[i];
		if (i == label)
			label += 1 + (size_t)p[i];
		else if (p[i] == '.')
			return -EINVAL; /* one that is no end of a label */
	}
	return dnsname_read(text + 1, n - 2, ret);
}

static bool options_add_up(const uint8_t *p, size_t n)
{
	while (n >= 4) {
		size_t len = 4 + (size_t)be16_get(p + 2);

		if (len > n)
			return false;
		p += len;
		n -= len;
	}
	return n == 0;
}

/* The n bytes behind the question, if there are any: one OPT, exactly. */
static enum dns_code read_opt(const uint8_t *p, size_t n, struct dns_query *ret)
{
	size_t room;

	if (n < OPT_SIZE || p[0] != 0 || be16_get(p + 1) != TYPE_OPT)
		return DNS_FORMERR;
	if (n - OPT_SIZE != be16_get(p + 9) || !options_add_up(p + OPT_SIZE, n - OPT_SIZE))
		return DNS_FORMERR;
	room = be16_get(p + 3);
	ret->edns = true;
	if (room > DNS_PLAIN_MAX)
		ret->room = room < DNS_MESSAGE_MAX ? room : DNS_MESSAGE_MAX;
	return p[6] == 0 ? DNS_OK : DNS_BADVERS;
}

int dns_read(const uint8_t *p, size_t n, struct dns_query *ret)
{
	enum dns_code code = DNS_OK;
	unsigned int flags;
	size_t end;

	*ret = (struct dns_query){ .room = DNS_PLAIN_MAX };
	if (n < HEADER || n > DNS_QUERY_MAX)
		return -EBADMSG;
	flags = be16_get(p + 2);
	if ((flags & FLAG_QR) != 0)
		return -EBADMSG;
	ret->id = be16_get(p);
	ret->recursion = (flags & FLAG_RD) != 0;
	if ((flags & FLAG_OPCODE) != 0)
		return DNS_NOTIMP;

	end = name_end(p, n, HEADER);
	if (be16_get(p + 4) != 1 || end == 0 || n - end < 4)
		return DNS_FORMERR;
	ret->type = be16_get(p + end);
	ret->question_end = end + 4;

	if ((flags & FLAG_TC) != 0 || be16_get(p + 6) != 0 || be16_get(p + 8) != 0)
		return DNS_FORMERR;
	if (be16_get(p + 10) == 1)
		code = read_opt(p + end + 4, n - end - 4, ret);
	else if (be16_get(p + 10) != 0 || n > end + 4)
		code = DNS_FORMERR;
	if (code != DNS_OK)
		return (int)code;
	if (be16_get(p + end + 2) != CLASS_IN)
		return DNS_REFUSED;
	return name_text(p + HEADER, end - HEADER, ret->name) < 0 ? DNS_REFUSED : DNS_OK;
}

/* --- writing -------------------------------------------------------------------------------------- */

struct out {
	uint8_t *p;
	size_t n, cap;
	bool failed; /* it did not fit */
};

static void put(struct out *o, const void *p, size_t n)
{
	if (o->failed || n > o->cap - o->n) {
		o->failed = true;
		return;
	}
	(void)memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void put_u16(struct out *o, uint16_t v)
{
	uint8_t b[2];

	be16_put(b, v);
	put(o, b, sizeof(b));
}

static void put_u32(struct out *o, uint32_t v)
{
	put_u16(o, (uint16_t)(v >> 16));
	put_u16(o, (uint16_t)(v & 0xffff));
}

/* One that dnsname_read() took. */
static void put_name(struct out *o, const char *name)
{
	while (*name != '\0') {
		uint8_t n = (uint8_t)strcspn(name, ".");

		put(o, &n, 1);
		put(o, name, n);
		name += n + (name[n] == '.' ? 1 : 0);
	}
	put(o, "", 1);
}

/* The length of what was written behind `at`, into the two bytes in front of it. */
static void put_length(const struct out *o, size_t at)
{
	if (!o->failed)
		be16_put(o->p + at - 2, (uint16_t)(o->n - at));
}

/* What stands in front of the data of a record; where that begins. */
static size_t put_record(struct out *o, uint16_t type, uint32_t ttl)
{
	put_u16(o, type);
	put_u16(o, CLASS_IN);
	put_u32(o, ttl);
	put_u16(o, 0); /* its length, see put_length() */
	return o->n;
}

static void put_soa(struct out *o, uint32_t ttl)
{
	size_t at;

	put(o, "", 1);
	at = put_record(o, DNS_SOA, ttl);
	put_name(o, "glovebox.invalid");
	put_name(o, "nobody.invalid");
	put_u32(o, 1);
	for (unsigned int i = 0; i < 3; i++)
		put_u32(o, SOA_TIMES);
	put_u32(o, ttl);
	put_length(o, at);
}

static void put_opt(struct out *o, enum dns_code code)
{
	put(o, "", 1);
	put_u16(o, TYPE_OPT);
	put_u16(o, DNS_MESSAGE_MAX);
	put_u32(o, (uint32_t)code >> 4 << 24);
	put_u16(o, 0);
}

/* What is said in the end. */
struct answer {
	enum dns_code code;
	uint16_t type; /* of its record; 0: there is none */
	bool soa;      /* says that there is none */
	char pointer[DNS_NAME];
};

static uint16_t record_type(const struct dns_query *q, const struct dns_reply *r)
{
	bool any = q->type == DNS_ANY;

	if (r->code != DNS_OK || q->question_end == 0)
		return 0;
	if (r->has_address && (any || q->type == DNS_A))
		return DNS_A;
	return r->pointer != NULL && (any || q->type == DNS_PTR) ? DNS_PTR : 0;
}

static void answer_init(struct answer *a, const struct dns_query *q, const struct dns_reply *r)
{
	*a = (struct answer){ .code = r->code, .type = record_type(q, r) };
	if (a->type == DNS_PTR && dnsname_read(r->pointer, strlen(r->pointer), a->pointer) < 0)
		a->code = DNS_SERVFAIL;
	if ((unsigned int)a->code > CODE && !q->edns)
		a->code = DNS_SERVFAIL; /* its upper bits have their place in the OPT */
	if (a->code != DNS_OK)
		a->type = 0;
	a->soa = a->type == 0 && (a->code == DNS_OK || a->code == DNS_NXDOMAIN);
}

static void put_answer(struct out *o, const struct answer *a, const struct dns_reply *r)
{
	size_t at;

	put_u16(o, QUESTION);
	at = put_record(o, a->type, r->ttl);
	if (a->type == DNS_A)
		put(o, r->address, sizeof(r->address));
	else
		put_name(o, a->pointer);
	put_length(o, at);
}

/* Over the header of the query: its opcode stays. */
static void put_header(uint8_t *p, const struct dns_query *q, const struct answer *a, bool cut)
{
	unsigned int flags = (be16_get(p + 2) & FLAG_OPCODE) | FLAG_QR | FLAG_RA;

	flags |= (q->recursion ? FLAG_RD : 0u) | (cut ? FLAG_TC : 0u);
	be16_put(p + 2, (uint16_t)(flags | ((unsigned int)a->code & CODE)));
	be16_put(p + 4, q->question_end > 0 ? 1 : 0);
	be16_put(p + 6, a->type != 0 && !cut ? 1 : 0);
	be16_put(p + 8, a->soa && !cut ? 1 : 0);
	be16_put(p + 10, q->edns ? 1 : 0);
}

size_t dns_write(const struct dns_query *q, const uint8_t *p, size_t n, const struct dns_reply *r,
		 uint8_t *buf, size_t cap)
{
	size_t head = q->question_end > 0 ? q->question_end : HEADER;
	size_t room = q->room < cap ? q->room : cap, opt = q->edns ? OPT_SIZE : 0;
	struct out o = { .p = buf, .n = head, .cap = room - opt };
	struct answer a;

	if (n < head || head < HEADER || room < head + opt)
		return 0;
	(void)memcpy(buf, p, head);
	answer_init(&a, q, r);
	if (a.type != 0)
		put_answer(&o, &a, r);
	else if (a.soa)
		put_soa(&o, r->ttl);
	put_header(buf, q, &a, o.failed);
	o = (struct out){ .p = buf, .n = o.failed ? head : o.n, .cap = room };
	if (q->edns)
		put_opt(&o, a.code);
	return o.n;
}

/* --- names of addresses --------------------------------------------------------------------------- */

int dns_pointer_address(const char *name, uint8_t ret[4])
{
	static const char suffix[] = ".in-addr.arpa";
	size_t n = strlen(name), end = sizeof(suffix) - 1;
	uint8_t address[4];

	if (n < end || strcmp(name + n - end, suffix) != 0)
		return -EINVAL;
	if (dnsname_v4(name, n - end, address) < 0)
		return -EINVAL;
	for (unsigned int i = 0; i < 4; i++)
		ret[i] = address[3 - i];
	return 0;
}
