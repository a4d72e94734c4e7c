/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client of TLS says first. Input: one byte that says how to cut (odd: what follows is a
 * message, which the target puts into records; even: the records themselves), then the bytes.
 *
 * Claims: a buffer that grows, and is looked at when it is as long as was wanted, gives the same
 * result as the whole; a message gives the same however it is cut into records; a second reader in
 * the target, of a message in one piece, takes the same ones and finds the same in them.
 */
#include "wire/tls_hello.h"

#include <errno.h>
#include <stdbool.h>

#include "fuzz_input.h"

enum { MESSAGE_MAX = 65000 };

/* --- the second reader ---------------------------------------------------------------------------- */

/* The part behind a length of that many bytes; it is taken off the front of *in. False: it is
 * longer than *in. */
static bool cut(struct input *in, unsigned int width, struct input *ret)
{
	size_t n = 0;

	if (in->n < width)
		return false;
	for (unsigned int i = 0; i < width; i++)
		n = n << 8 | take_u8(in);
	*ret = (struct input){ in->p, n };
	if (n > in->n)
		return false;
	in->p += n;
	in->n -= n;
	return true;
}

static bool has(const struct input *in, const char *text)
{
	return in->n == strlen(text) && memcmp(in->p, text, in->n) == 0;
}

static bool is_name(struct input in, struct tls_hello *h)
{
	struct input list, name;

	if (!cut(&in, 2, &list) || in.n > 0 || list.n == 0 || take_u8(&list) != 0)
		return false;
	h->has_name = true;
	return cut(&list, 2, &name) && list.n == 0 &&
	       dnsname_read((const char *)name.p, name.n, h->name) == 0;
}

static bool is_alpn(struct input in, struct tls_hello *h)
{
	struct input list, name;

	h->has_alpn = true;
	if (!cut(&in, 2, &list) || in.n > 0 || list.n == 0)
		return false;
	while (list.n > 0) {
		if (!cut(&list, 1, &name) || name.n == 0)
			return false;
		h->offers_h2 |= has(&name, "h2");
		h->offers_http1 |= has(&name, "http/1.0") || has(&name, "http/1.1");
	}
	return true;
}

static bool is_versions(struct input in, struct tls_hello *h)
{
	struct input list;
	uint8_t low = 0;

	if (!cut(&in, 1, &list) || in.n > 0 || list.n % 2 != 0)
		return false;
	for (size_t i = 0; i < list.n; i += 2)
		if (list.p[i] == 3 && list.p[i + 1] > low)
			low = list.p[i + 1];
	h->version = (uint16_t)(0x0300 | low);
	return low > 0;
}

static bool are_extensions(struct input in, struct tls_hello *h)
{
	const struct input all = in;
	struct input body;

	while (in.n > 0) {
		struct input before = { all.p, (size_t)(in.p - all.p) }, other;
		const uint8_t *type = in.p;
		bool good = true;

		if (in.n < 2)
			return false;
		in.p += 2;
		in.n -= 2;
		if (!cut(&in, 2, &body))
			return false;
		/* Those in front of it are another. */
		while (before.n > 0) {
			if (memcmp(before.p, type, 2) == 0)
				return false;
			before.p += 2;
			before.n -= 2;
			MUST(cut(&before, 2, &other));
		}
		if (memcmp(type, "\0\0", 2) == 0)
			good = is_name(body, h);
		else if (memcmp(type, "\0\x10", 2) == 0)
			good = is_alpn(body, h);
		else if (memcmp(type, "\0\x2b", 2) == 0)
			good = is_versions(body, h);
		else if (memcmp(type, "\xfe\x0d", 2) == 0)
			h->has_ech = true;
		if (!good)
			return false;
	}
	return true;
}

static bool is_hello(struct input in, struct tls_hello *h)
{
	struct input body, part;

	memset(h, 0, sizeof(*h));
	if (take_u8(&in) != 1 || !cut(&in, 3, &body) || in.n > 0 || body.n < 34)
		return false;
	if (body.p[0] != 3 || body.p[1] < 1 || body.p[1] > 3)
		return false;
	h->version = (uint16_t)(0x0300 | body.p[1]);
	body.p += 34;
	body.n -= 34;
	if (!cut(&body, 1, &part) || part.n > 32)
		return false;
	if (!cut(&body, 2, &part) || part.n == 0 || part.n % 2 != 0)
		return false;
	if (!cut(&body, 1, &part) || part.n == 0 || memchr(part.p, 0, part.n) == NULL)
		return false;
	return body.n == 0 || (cut(&body, 2, &part) && body.n == 0 && are_extensions(part, h));
}

/* --- ours ----------------------------------------------------------------------------------------- */

/* But for what they need. */
static bool same(const struct tls_hello *a, const struct tls_hello *b)
{
	return a->has_name == b->has_name && strcmp(a->name, b->name) == 0 &&
	       a->has_ech == b->has_ech && a->has_alpn == b->has_alpn &&
	       a->offers_h2 == b->offers_h2 && a->offers_http1 == b->offers_http1 &&
	       a->version == b->version;
}

static int look(const uint8_t *p, size_t n, struct tls_hello *h)
{
	uint8_t *copy = exact_copy(p, n);
	int r;

	memset(h, 0, sizeof(*h));
	r = tls_hello_read(copy, n, h);
	MUST(r == 1 || r == 0 || r == -EBADMSG || r == -E2BIG);
	MUST(r != 0 || (h->needs > n && h->needs <= TLS_HELLO_MAX));
	MUST(r != 1 || h->needs <= n);
	MUST(r == 1 || same(h, &(struct tls_hello){ 0 }));
	MUST(h->has_name == (h->name[0] != '\0'));
	MUST(r < 0 || tls_hello_may_be(copy, n));
	free(copy);
	return r;
}

/* As it comes: the same in the end, and few looks. */
static int grow(const uint8_t *p, size_t n, uint32_t state, struct tls_hello *h)
{
	unsigned int looks = 0;
	size_t have = 0, needs = 0;
	int r = 0;

	while (r == 0 && have < n) {
		size_t piece = next_piece(&state);

		have += piece < n - have ? piece : n - have;
		if (have < needs && have < n)
			continue;
		r = look(p, have, h);
		needs = h->needs;
		looks++;
	}
	MUST(looks <= 2 * TLS_HELLO_RECORDS + 2);
	return n == 0 ? look(p, 0, h) : r;
}

static size_t wrap(const uint8_t *p, size_t n, uint32_t state, bool one, uint8_t *buf)
{
	size_t len = 0, least = n / TLS_HELLO_RECORDS + 1;

	while (n > 0) {
		size_t piece = one ? 16384 : least + next_piece(&state);
		const uint8_t head[] = { 22, 3, (uint8_t)(1 + state % 3) };

		piece = piece < n ? piece : n;
		memcpy(buf + len, head, sizeof(head));
		buf[len + 3] = (uint8_t)(piece >> 8);
		buf[len + 4] = (uint8_t)piece;
		memcpy(buf + len + 5, p, piece);
		len += 5 + piece;
		p += piece;
		n -= piece;
	}
	return len;
}

/* How long the message says that it is. */
static size_t length_of(const uint8_t *p, size_t n)
{
	return n < 4 ? SIZE_MAX : 4 + ((size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
}

static void check_message(const uint8_t *p, size_t n, uint8_t how)
{
	uint8_t *buf = malloc(n + (TLS_HELLO_RECORDS + 1) * 5);
	size_t length = length_of(p, n), len;
	struct tls_hello want, got;
	bool good = length <= n && is_hello((struct input){ p, length }, &want);
	int r;

	MUST(buf != NULL);
	for (unsigned int one = 0; one < 2; one++) {
		len = wrap(p, n, how, one != 0, buf);
		r = grow(buf, len, how, &got);
		if (length == n)
			MUST(r == (good ? 1 : -EBADMSG));
		if (r != 1)
			continue;
		/* What is behind it may be a record of its own, not a part of its last one. */
		MUST(good && (length == n ? got.needs == len : got.needs < len));
		MUST(same(&got, &want));
	}
	free(buf);
}

static void check_records(const uint8_t *p, size_t n, uint8_t how)
{
	struct tls_hello whole, grown;
	int r = look(p, n, &whole);

	MUST(grow(p, n, how, &grown) == r);
	MUST(same(&whole, &grown) && whole.needs == grown.needs);
	if (r == 1)
		MUST(look(p, whole.needs - 1, &grown) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in);

	if ((how & 1) != 0)
		check_message(in.p, in.n < MESSAGE_MAX ? in.n : MESSAGE_MAX, how);
	else
		check_records(in.p, in.n, how);
	return 0;
}
