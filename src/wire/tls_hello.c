// SPDX-License-Identifier: Apache-2.0
#include "wire/tls_hello.h"

#include "base/own.h"
#include "wire/be.h"

#include <errno.h>
#include <string.h>

enum {
	RECORD_HEAD = 5, /* type, version, length */
	RECORD_HANDSHAKE = 22,
	RECORD_MAX = 16384,
	MESSAGE_HEAD = 4, /* type, length of three bytes */
	CLIENT_HELLO = 1,
	VERSION_10 = 0x0301,
	VERSION_12 = 0x0303, /* the last one that is said outside of an extension */
	RANDOM = 32,
	SESSION_MAX = 32,
	HOST_NAME = 0,
};

/* --- records -------------------------------------------------------------------------------------- */

/* By what is there of the head of a record. */
static bool head_may_be(const uint8_t *p, size_t n)
{
	if (n > 0 && p[0] != RECORD_HANDSHAKE)
		return false;
	if (n > 1 && p[1] != VERSION_10 >> 8)
		return false;
	if (n > 2 && (p[2] < (VERSION_10 & 0xff) || p[2] > (VERSION_12 & 0xff)))
		return false;
	if (n > 3 && p[3] > RECORD_MAX >> 8)
		return false;
	return n <= 4 || (be16_get(p + 3) > 0 && be16_get(p + 3) <= RECORD_MAX);
}

bool tls_hello_may_be(const uint8_t *p, size_t n)
{
	return head_may_be(p, n) && (n <= RECORD_HEAD || p[RECORD_HEAD] == CLIENT_HELLO);
}

/* The message as far as records were walked through. */
struct walk {
	size_t at;                  /* offset of the next record */
	size_t got;                 /* bytes of the message in records before it */
	uint8_t head[MESSAGE_HEAD]; /* what is there of it */
	size_t length;              /* of the message, its head included; 0: not known yet */
};

/* The next record, of len bytes, of which `have` are there. */
static int take_record(struct walk *w, const uint8_t *p, size_t have, size_t len)
{
	for (size_t i = 0; i < have && w->got + i < MESSAGE_HEAD; i++)
		w->head[w->got + i] = p[i];
	if (w->got == 0 && have > 0 && w->head[0] != CLIENT_HELLO)
		return -EBADMSG;
	if (w->length == 0 && w->got + have >= MESSAGE_HEAD) {
		w->length = MESSAGE_HEAD + ((size_t)w->head[1] << 16) + be16_get(w->head + 2);
		if (w->length > TLS_HELLO_MAX - RECORD_HEAD)
			return -E2BIG;
	}
	/* A key may change behind it, so nothing else may be in its last record. */
	if (w->length > 0 && w->got + len > w->length)
		return -EBADMSG;
	w->at += RECORD_HEAD + len;
	w->got += len;
	return 0;
}

/* 1: the message is whole, and ends at *ret_needs. Otherwise as tls_hello_read() has it. */
static int walk_records(const uint8_t *p, size_t n, size_t *ret_needs, size_t *ret_length)
{
	struct walk w = { 0 };

	for (unsigned int i = 0; w.length == 0 || w.got < w.length; i++) {
		const uint8_t *record = p + w.at;
		size_t there = n - w.at, len;
		int r;

		*ret_needs = w.at + RECORD_HEAD + (i == 0 ? 1 : 0);
		if (i == TLS_HELLO_RECORDS)
			return -E2BIG;
		if (!head_may_be(record, there))
			return -EBADMSG;
		if (there < RECORD_HEAD)
			return 0;
		len = be16_get(record + 3);
		there -= RECORD_HEAD;
		if (len > TLS_HELLO_MAX - RECORD_HEAD - w.at)
			return -E2BIG;
		r = take_record(&w, record + RECORD_HEAD, there < len ? there : len, len);
		if (r < 0 || (i == 0 && there == 0))
			return r;
		*ret_needs = w.at;
		if (there < len)
			return 0;
	}
	*ret_length = w.length;
	return 1;
}

/* --- a message, whose records are all there ------------------------------------------------------- */

/* Some bytes of it. Heads of records may stand between them, and are no part of it. */
struct part {
	const uint8_t *p;
	size_t in_record; /* bytes of the message from p up to the next head */
	size_t n;
	bool failed; /* there were fewer than somebody wanted */
};

static void skip(struct part *s, size_t n)
{
	if (s->failed || n > s->n) {
		*s = (struct part){ .failed = true };
		return;
	}
	s->n -= n;
	while (n > s->in_record) {
		n -= s->in_record;
		s->p += s->in_record;
		s->in_record = be16_get(s->p + 3);
		s->p += RECORD_HEAD;
	}
	s->in_record -= n;
	s->p += n;
}

/* The next n bytes of it as a part of their own. */
static struct part take(struct part *s, size_t n)
{
	struct part taken = *s;

	skip(s, n);
	taken.n = s->failed ? 0 : n;
	taken.failed = s->failed;
	return taken;
}

static unsigned int take_u8(struct part *s)
{
	skip(s, 1);
	return s->failed ? 0 : s->p[-1];
}

static unsigned int take_u16(struct part *s)
{
	unsigned int high = take_u8(s);

	return high << 8 | take_u8(s);
}

/* What a length of one or two bytes stands in front of. */
static struct part take_vec8(struct part *s)
{
	return take(s, take_u8(s));
}

static struct part take_vec16(struct part *s)
{
	return take(s, take_u16(s));
}

/* Whether it was read, all of it. */
static bool is_read(const struct part *s)
{
	return !s->failed && s->n == 0;
}

/* --- extensions ----------------------------------------------------------------------------------- */

static bool read_name(struct part s, struct tls_hello *ret)
{
	char text[DNSNAME_MAX + 1]; /* a dot may be at its end */
	struct part list = take_vec16(&s), name;
	unsigned int kind = take_u8(&list);
	size_t n;

	name = take_vec16(&list);
	n = name.n;
	if (!is_read(&s) || !is_read(&list) || kind != HOST_NAME || n > sizeof(text))
		return false;
	for (size_t i = 0; i < n; i++)
		text[i] = (char)take_u8(&name);
	ret->has_name = true;
	return dnsname_read(text, n, ret->name) == 0;
}

static bool is_text(struct part s, const char *text)
{
	if (s.n != strlen(text))
		return false;
	while (s.n > 0)
		if (take_u8(&s) != (unsigned char)*text++)
			return false;
	return true;
}

static bool read_alpn(struct part s, struct tls_hello *ret)
{
	struct part list = take_vec16(&s);

	if (!is_read(&s) || list.n == 0)
		return false;
	while (list.n > 0) {
		struct part name = take_vec8(&list);

		if (name.n == 0)
			return false;
		ret->offers_h2 = ret->offers_h2 || is_text(name, "h2");
		ret->offers_http1 =
			ret->offers_http1 || is_text(name, "http/1.1") || is_text(name, "http/1.0");
	}
	ret->has_alpn = true;
	return is_read(&list);
}

/* Instead of the version that the hello itself says. */
static bool read_versions(struct part s, struct tls_hello *ret)
{
	struct part list = take_vec8(&s);

	ret->version = 0;
	while (list.n > 0) {
		unsigned int version = take_u16(&list);

		/* GREASE and drafts have other numbers in front. */
		if (version >> 8 == VERSION_10 >> 8 && version > ret->version)
			ret->version = (uint16_t)version;
	}
	return is_read(&s) && is_read(&list) && ret->version >= VERSION_10;
}

static bool read_ech(struct part s, struct tls_hello *ret)
{
	ret->has_ech = true;
	return !s.failed;
}

static const struct {
	unsigned int type;
	bool (*read)(struct part, struct tls_hello *);
} readers[] = {
	{ 0, read_name },
	{ 16, read_alpn },
	{ 43, read_versions },
	{ 0xfe0d, read_ech },
};

static bool read_extensions(struct part s, struct tls_hello *ret)
{
	uint8_t seen[(UINT16_MAX + 1) / 8] = { 0 };

	while (s.n > 0) {
		unsigned int type = take_u16(&s), bit = 1u << type % 8;
		struct part body = take_vec16(&s);

		if (body.failed || (seen[type / 8] & bit) != 0)
			return false;
		seen[type / 8] = (uint8_t)(seen[type / 8] | bit);
		for (size_t i = 0; i < ARRAY_LEN(readers); i++)
			if (readers[i].type == type && !readers[i].read(body, ret))
				return false;
	}
	return is_read(&s);
}

/* --- the message ---------------------------------------------------------------------------------- */

static bool has_zero(struct part s)
{
	while (s.n > 0)
		if (take_u8(&s) == 0)
			return true;
	return false;
}

static bool read_message(struct part s, struct tls_hello *ret)
{
	struct part session, suites, compression;

	skip(&s, MESSAGE_HEAD);
	ret->version = (uint16_t)take_u16(&s);
	skip(&s, RANDOM);
	session = take_vec8(&s);
	suites = take_vec16(&s);
	compression = take_vec8(&s); /* none is one of them */
	if (s.failed || ret->version < VERSION_10 || ret->version > VERSION_12)
		return false;
	if (session.n > SESSION_MAX || suites.n == 0 || suites.n % 2 != 0 || !has_zero(compression))
		return false;
	if (s.n > 0) {
		struct part extensions = take_vec16(&s);

		if (extensions.failed || !read_extensions(extensions, ret))
			return false;
	}
	return is_read(&s);
}

int tls_hello_read(const uint8_t *p, size_t n, struct tls_hello *ret)
{
	size_t needs = 0, length = 0;
	int r = walk_records(p, n, &needs, &length);

	*ret = (struct tls_hello){ .needs = r < 0 ? 0 : needs };
	if (r <= 0)
		return r;
	if (read_message((struct part){ .p = p, .n = length }, ret))
		return 1;
	*ret = (struct tls_hello){ 0 };
	return -EBADMSG;
}
