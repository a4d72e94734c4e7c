/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms. Input: one byte that says how to cut, one with the length of a Content-Type, that, then the body. Without a
 * Content-Type the boundary is "xyz".
 *
 * Claims: pieces give the same parts, data and end as the whole; events come in order; data has no boundary in it, and all
 * of it lies in what was given or in the reader; names are text within their bounds.
 */
#include "wire/multipart.h"

#include <stdbool.h>

#include "fuzz_input.h"

struct result {
	uint64_t hash;
	uint8_t *data; /* of the part at hand */
	size_t len;
	unsigned int parts;
	bool in_part, ended, refused;
	struct http_refusal r;
};

static uint64_t hash_text(uint64_t h, const char *s)
{
	return s == NULL ? h * 7 : hash_bytes(h, s, strlen(s) + 1);
}

static void check_name(const char *s)
{
	if (s != NULL) {
		MUST(strlen(s) <= MULTIPART_NAME_MAX);
		MUST(http_is_text((struct http_slice){ s, strlen(s) }));
	}
}

static void take(struct result *res, const struct multipart *m, enum multipart_event event,
		 struct http_slice data)
{
	MUST((event == MULTIPART_DATA) == (data.n > 0));
	MUST(!res->ended || event == MULTIPART_MORE);
	if (event == MULTIPART_DATA) {
		MUST(res->in_part);
		memcpy(res->data + res->len, data.p, data.n);
		res->len += data.n;
	} else if (event == MULTIPART_PART) {
		MUST(!res->in_part);
		check_name(m->name);
		check_name(m->filename);
		MUST(m->content_type == NULL || strlen(m->content_type) <= MULTIPART_TYPE_MAX);
		res->hash = hash_text(hash_text(res->hash, m->name), m->filename);
		res->hash = hash_text(res->hash, m->content_type);
		res->in_part = true;
		res->len = 0;
		res->parts++;
	} else if (event == MULTIPART_PART_END) {
		MUST(res->in_part);
		MUST(res->len == 0 || memmem(res->data, res->len, m->mark, m->mark_len) == NULL);
		res->hash = hash_bytes(res->hash, &res->len, sizeof(res->len));
		res->hash = hash_bytes(res->hash, res->data, res->len);
		res->in_part = false;
	} else if (event == MULTIPART_END) {
		MUST(!res->in_part);
		res->ended = true;
	}
}

static void feed(struct result *res, struct multipart *m, const char *p, size_t n)
{
	enum multipart_event event;

	do {
		struct http_slice data;
		ptrdiff_t used = multipart_feed(m, p, n, &event, &data, &res->r);

		res->refused = used < 0;
		if (used < 0)
			return;
		MUST((size_t)used <= n);
		MUST(data.n == 0 || (data.p >= p && data.p + data.n <= p + used) ||
		     (data.p >= m->mark && data.p + data.n <= m->mark + m->mark_len));
		take(res, m, event, data);
		p += used;
		n -= (size_t)used;
	} while (event != MULTIPART_MORE);
	MUST(n == 0);
}

static struct result read_form(struct http_slice type, struct input in, uint32_t how, bool cut)
{
	static struct multipart m;
	struct result res = { .hash = 1, .data = malloc(in.n + 1) };

	MUST(res.data != NULL);
	memset(&m, 0x55, sizeof(m));
	res.refused = multipart_init(&m, type, &res.r) < 0;
	MUST(!res.refused || res.r.status == 400 || res.r.status == 415);
	while (!res.refused && in.n > 0) {
		size_t n;
		const uint8_t *p = take_bytes(&in, cut ? next_piece(&how) : in.n, &n);
		char *piece = (char *)exact_copy(p, n);

		feed(&res, &m, piece, n);
		free(piece);
	}
	if (!res.refused) {
		res.refused = multipart_end(&m, &res.r) < 0;
		MUST(res.refused == !res.ended);
	}
	return res;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char usual[] = "multipart/form-data; boundary=xyz";
	struct input in = { data, size };
	uint8_t how = take_u8(&in);
	size_t n;
	const uint8_t *given = take_bytes(&in, take_u8(&in), &n);
	char *copy = (char *)(n > 0 ? exact_copy(given, n) : exact_copy(usual, sizeof(usual) - 1));
	struct http_slice type = { copy, n > 0 ? n : sizeof(usual) - 1 };
	struct result a = read_form(type, in, how, false), b = read_form(type, in, how, true);

	MUST(a.refused == b.refused && a.ended == b.ended && a.in_part == b.in_part);
	MUST(a.parts == b.parts && a.hash == b.hash);
	MUST(!a.in_part || (a.len == b.len && memcmp(a.data, b.data, a.len) == 0));
	MUST(!a.refused || (a.r.status == b.r.status && a.r.why == b.r.why));
	free(a.data);
	free(b.data);
	free(copy);
	return 0;
}
