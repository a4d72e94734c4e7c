/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 requests. Input: one byte that says what follows (0: a head and its body, 1: a chunked body, 2: a target, or a range),
 * one that says how to cut, then the bytes.
 *
 * Claims: pieces give the same result as the whole, refusals and their reasons included; slices lie within the input, and
 * have only characters that they may have, by rules written a second time here; a body has one length or none; a
 * target, written again with every character encoded, is the same target; a body, written again as one chunk, the
 * same body.
 */
#include "wire/fileop.h"
#include "wire/http1.h"
#include "wire/http_range.h"

#include <errno.h>

#include "fuzz_input.h"

/* --- heads ------------------------------------------------------------------------------------------------- */

struct head_result {
	ptrdiff_t n;
	struct http_refusal r;
	struct http_head h;
	uint64_t hash;
};

static void check_slice(const char *buf, size_t n, struct http_slice s)
{
	MUST(s.p >= buf && s.n <= n && (size_t)(s.p - buf) <= n - s.n);
}

static uint64_t hash_slice(uint64_t h, struct http_slice s)
{
	return hash_bytes(hash_bytes(h, &s.n, sizeof(s.n)), s.p, s.n);
}

static bool is_token(struct http_slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] >= 0x7f ||
		    strchr("\"(),/:;<=>?@[\\]{}", s.p[i]) != NULL)
			return false;
	return s.n > 0;
}

static void check_headers(const char *buf, const struct head_result *res)
{
	const struct http_head *h = &res->h;

	MUST(h->nh <= HTTP_HEADERS_MAX);
	for (unsigned int i = 0; i < h->nh; i++) {
		check_slice(buf, (size_t)res->n, h->h[i].name);
		check_slice(buf, (size_t)res->n, h->h[i].value);
		MUST(is_token(h->h[i].name));
		for (size_t k = 0; k < h->h[i].value.n; k++) {
			unsigned char c = (unsigned char)h->h[i].value.p[k];

			MUST(c == '\t' || (c >= ' ' && c != 0x7f));
			MUST((c != '\t' && c != ' ') || (k > 0 && k + 1 < h->h[i].value.n));
		}
	}
}

static unsigned int count(const struct http_head *h, const char *name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < h->nh; i++)
		n += http_slice_is_nocase(h->h[i].name, name);
	return n;
}

static void check_meaning(const struct http_head *h)
{
	unsigned int te = count(h, "transfer-encoding"), length = count(h, "content-length");

	MUST(h->minor == 0 || h->minor == 1);
	MUST(count(h, "host") == (h->host.n > 0) && (h->minor == 0 || h->host.n > 0));
	MUST(te + length <= 1);
	MUST((h->framing == HTTP_CHUNKED) == (te == 1) && (te == 0 || h->minor == 1));
	MUST((h->framing == HTTP_LENGTH) == (length == 1));
	MUST(h->length <= INT64_MAX && (h->length == 0 || h->framing == HTTP_LENGTH));
	MUST(!h->expect_continue || h->framing == HTTP_CHUNKED || h->length > 0);
	MUST(h->upgrade_websocket == (h->ws_key.n == 24));
	MUST(!h->upgrade_websocket || (h->length == 0 && h->framing != HTTP_CHUNKED));
}

static void check_head(const char *buf, struct head_result *res)
{
	const struct http_head *h = &res->h;
	const struct http_slice slices[] = { h->method, h->target, h->host, h->ws_key };
	const uint8_t numbers[] = { (uint8_t)h->minor, (uint8_t)h->framing, (uint8_t)h->nh,
				    h->keep_alive,     h->expect_continue,  h->upgrade_websocket };

	MUST(res->n <= HTTP_HEAD_MAX && memcmp(buf + res->n - 4, "\r\n\r\n", 4) == 0);
	for (ptrdiff_t i = 0; i < res->n; i++)
		MUST((buf[i] == '\r') == (i + 1 < res->n && buf[i + 1] == '\n'));
	res->hash = hash_bytes(1, numbers, sizeof(numbers));
	res->hash = hash_bytes(res->hash, &h->length, sizeof(h->length));
	for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
		check_slice(buf, (size_t)res->n, slices[i]);
		res->hash = hash_slice(res->hash, slices[i]);
	}
	MUST(is_token(h->method) && h->method.n <= HTTP_METHOD_MAX);
	MUST(h->target.n > 0 && h->target.n <= HTTP_TARGET_MAX);
	MUST(h->target.p[0] == '/' || http_slice_is(h->target, "*"));
	check_headers(buf, res);
	check_meaning(h);
	for (unsigned int i = 0; i < h->nh; i++)
		res->hash = hash_slice(hash_slice(res->hash, h->h[i].name), h->h[i].value);
}

static void parse_head(const uint8_t *p, size_t n, uint32_t how, bool cut, struct head_result *res)
{
	size_t arrived = 0, scanned = 0;

	memset(&res->r, 0, sizeof(res->r));
	do {
		size_t piece = cut ? next_piece(&how) : n;
		char *buf;

		arrived += piece < n - arrived ? piece : n - arrived;
		buf = (char *)exact_copy(p, arrived);
		memset(&res->h, 0x55, sizeof(res->h));
		res->n = http_head_parse(buf, arrived, &scanned, &res->h, &res->r);
		MUST(res->n >= -1 && res->n <= (ptrdiff_t)arrived && scanned <= arrived);
		if (res->n > 0)
			check_head(buf, res);
		free(buf);
	} while (res->n == 0 && arrived < n);
}

static size_t fuzz_head(const uint8_t *p, size_t n, uint8_t how, bool *ret_chunked)
{
	static struct head_result whole, parts;

	parse_head(p, n, how, false, &whole);
	parse_head(p, n, how, true, &parts);
	MUST(whole.n == parts.n);
	*ret_chunked = false;
	if (whole.n < 0) {
		MUST(whole.r.status >= 400 && whole.r.status < 600 && whole.r.why != NULL);
		MUST(whole.r.status == parts.r.status && whole.r.why == parts.r.why);
		return 0;
	}
	MUST(whole.n == 0 || whole.hash == parts.hash);
	*ret_chunked = whole.n > 0 && whole.h.framing == HTTP_CHUNKED;
	return (size_t)whole.n;
}

/* --- chunked bodies ---------------------------------------------------------------------------------------- */

struct body_result {
	uint8_t *body;
	size_t len, used;
	bool end, refused;
	struct http_refusal r;
};

static struct body_result read_body(const uint8_t *p, size_t n, uint32_t how, bool cut)
{
	struct body_result res = { .body = malloc(n + 1) };
	struct http_chunks c;

	MUST(res.body != NULL);
	http_chunks_init(&c);
	while (res.used < n && !res.end && !res.refused) {
		size_t piece = cut ? next_piece(&how) : n, have = n - res.used;
		struct http_slice data;
		ptrdiff_t used;
		char *buf;

		have = piece < have ? piece : have;
		buf = (char *)exact_copy(p + res.used, have);
		used = http_chunks_feed(&c, buf, have, &data, &res.end, &res.r);
		res.refused = used < 0;
		if (used >= 0) {
			MUST(used > 0 && (size_t)used <= have);
			check_slice(buf, (size_t)used, data);
			if (data.n > 0)
				memcpy(res.body + res.len, data.p, data.n);
			res.len += data.n;
			res.used += (size_t)used;
		}
		free(buf);
	}
	return res;
}

/* One chunk and the last. */
static void check_body_again(const struct body_result *body)
{
	size_t n, room = body->len + 40;
	uint8_t *text = malloc(room);
	struct body_result again;

	MUST(text != NULL);
	n = body->len == 0 ? 0 : (size_t)snprintf((char *)text, room, "%zX\r\n", body->len);
	memcpy(text + n, body->body, body->len);
	n += body->len;
	n += (size_t)snprintf((char *)text + n, room - n, "%s0\r\n\r\n",
			      body->len == 0 ? "" : "\r\n");
	again = read_body(text, n, 0, false);
	MUST(again.end && again.used == n && again.len == body->len);
	MUST(memcmp(again.body, body->body, body->len) == 0);
	free(again.body);
	free(text);
}

static void fuzz_body(const uint8_t *p, size_t n, uint8_t how)
{
	struct body_result whole = read_body(p, n, how, false), parts = read_body(p, n, how, true);

	MUST(whole.end == parts.end && whole.refused == parts.refused);
	MUST(whole.len == parts.len && memcmp(whole.body, parts.body, whole.len) == 0);
	if (whole.refused)
		MUST(whole.r.status == 400 && whole.r.why == parts.r.why);
	else
		MUST(whole.used == parts.used);
	if (whole.end)
		check_body_again(&whole);
	free(whole.body);
	free(parts.body);
}

/* --- targets ----------------------------------------------------------------------------------------------- */

static void check_text(const struct http_target *t, struct http_slice s)
{
	MUST(s.p >= t->buf && s.p + s.n < t->buf + sizeof(t->buf));
	MUST(s.p[s.n] == '\0' && strlen(s.p) == s.n && http_is_text(s));
	for (size_t i = 0; i < s.n; i++)
		MUST((unsigned char)s.p[i] >= ' ' && s.p[i] != 0x7f);
}

static size_t put_encoded(char *out, char before, struct http_slice s)
{
	static const char digits[] = "0123456789abcdef";
	size_t n = 0;

	out[n++] = before;
	for (size_t i = 0; i < s.n; i++) {
		out[n++] = '%';
		out[n++] = digits[(unsigned char)s.p[i] >> 4];
		out[n++] = digits[(unsigned char)s.p[i] & 15];
	}
	return n;
}

static bool same(struct http_slice a, struct http_slice b)
{
	return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static void check_target_again(const struct http_target *t)
{
	static char text[4 * HTTP_TARGET_MAX];
	static struct http_target again;
	struct http_refusal r;
	size_t n = 0;

	for (unsigned int i = 0; i < t->nseg; i++)
		n += put_encoded(text + n, '/', t->seg[i]);
	if (t->nseg == 0)
		text[n++] = '/';
	for (unsigned int i = 0; i < t->nquery; i++) {
		n += put_encoded(text + n, i == 0 ? '?' : '&', t->query[i].key);
		n += put_encoded(text + n, '=', t->query[i].value);
	}
	if (n > HTTP_TARGET_MAX)
		return;
	MUST(http_target_parse((struct http_slice){ text, n }, &again, &r) == 0);
	MUST(again.nseg == t->nseg && again.nquery == t->nquery);
	for (unsigned int i = 0; i < t->nseg; i++)
		MUST(same(again.seg[i], t->seg[i]));
	for (unsigned int i = 0; i < t->nquery; i++)
		MUST(same(again.query[i].key, t->query[i].key) &&
		     same(again.query[i].value, t->query[i].value));
}

/* What is behind any number of segments, decoded: bytes of the target, and nothing that was not written there. */
static void check_rest(const struct http_target *t, size_t n)
{
	static char bytes[HTTP_TARGET_MAX + 1];

	MUST(t->nseg <= HTTP_SEGMENTS_MAX);
	for (unsigned int i = 0; i <= t->nseg; i++) {
		struct http_slice rest = http_target_rest(t, i);
		struct http_refusal r = { 0 };
		ptrdiff_t got;

		MUST(rest.n < n && (rest.p != NULL || rest.n == 0));
		MUST(rest.p != NULL || (t->bad.status == 0 && i == t->nseg));
		if (rest.p == NULL)
			continue;
		got = http_path_decode(rest, bytes, sizeof(bytes), &r);
		MUST(got < 0 ? r.status == 400
			     : (size_t)got <= rest.n && strlen(bytes) == (size_t)got);
	}
}

static void fuzz_open_target(const char *copy, size_t n)
{
	static struct http_target t;
	struct http_refusal r = { 0 }, strict = { 0 };
	int open = http_target_parse_open((struct http_slice){ copy, n }, &t, &r);

	if (open == 0 && !http_slice_is((struct http_slice){ copy, n }, "*"))
		check_rest(&t, n);
	open = open < 0 || t.bad.status != 0 || t.bad_query.status != 0 || t.repeated ? -1 : 0;
	MUST(http_target_parse((struct http_slice){ copy, n }, &t, &strict) == open);
}

static void fuzz_target(const uint8_t *p, size_t n)
{
	char *copy = (char *)exact_copy(p, n);
	static struct http_target t;
	struct http_refusal r = { 0 };

	fuzz_open_target(copy, n);
	if (http_target_parse((struct http_slice){ copy, n }, &t, &r) < 0) {
		MUST((r.status == 400 || r.status == 414) && r.why != NULL);
		free(copy);
		return;
	}
	free(copy); /* the target does not need it */
	MUST(t.nseg <= HTTP_SEGMENTS_MAX && t.nquery <= HTTP_QUERY_MAX);
	for (unsigned int i = 0; i < t.nseg; i++) {
		check_text(&t, t.seg[i]);
		MUST(!http_slice_is(t.seg[i], ".") && !http_slice_is(t.seg[i], ".."));
		MUST(t.seg[i].n > 0 || i + 1 == t.nseg);
	}
	for (unsigned int i = 0; i < t.nquery; i++) {
		check_text(&t, t.query[i].key);
		check_text(&t, t.query[i].value);
		MUST(http_query(&t, t.query[i].key.p) == &t.query[i].value);
	}
	check_target_again(&t);
}

/* Whatever it is: words that an operation on a file takes. */
static void fuzz_range(const uint8_t *p, size_t n)
{
	char *copy = (char *)exact_copy(p, n);
	struct http_range r;
	uint64_t start = 0, len = 0;
	int rc;

	http_range_parse((struct http_slice){ copy, n }, &r);
	free(copy);
	MUST(r.set || (strcmp(r.from, "0") == 0 && r.count[0] == '\0'));
	rc = fileop_range(1000, r.from, r.count, &start, &len);
	MUST(rc == -ERANGE || (rc == 0 && start < 1000 && len > 0 && len <= 1000 - start));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t what = take_u8(&in), how = take_u8(&in);
	const uint8_t *sp, *sp2;
	bool chunked;
	size_t n;

	if (what % 3 == 1) {
		fuzz_body(in.p, in.n, how);
		return 0;
	}
	if (what % 3 == 2) {
		fuzz_target(in.p, in.n);
		fuzz_range(in.p, in.n);
		return 0;
	}
	n = fuzz_head(in.p, in.n, how, &chunked);
	if (n == 0)
		return 0;
	sp = memchr(in.p, ' ', n);
	MUST(sp != NULL);
	sp2 = memchr(sp + 1, ' ', n - (size_t)(sp + 1 - in.p));
	MUST(sp2 != NULL);
	fuzz_target(sp + 1, (size_t)(sp2 - sp - 1));
	if (chunked)
		fuzz_body(in.p + n, in.n - n, how);
	return 0;
}
