// SPDX-License-Identifier: Apache-2.0
/*
 * The head of a request, in two steps.
 *
 * The search for its end runs as bytes arrive and looks at each of them once: it finds line ends
 * that are none, bytes that cannot begin a request, a request line that is wrong or too long, and
 * a head that does not end. What it refuses, it refuses at the same byte however the stream was
 * cut.
 *
 * The headers are read when the head is whole, line by line, and then judged together. That order
 * is fixed, too, so a head has one result and not one per way of sending it.
 */
#include "wire/http1.h"

#include "base/base64.h"
#include "base/utf8.h"

#include <string.h>

/* method SP target SP HTTP/1.1 CR LF */
enum { REQUEST_LINE_MAX = HTTP_METHOD_MAX + 1 + HTTP_TARGET_MAX + 1 + 8 + 2 };

/* Headers that mean something here. */
enum known {
	HOST,
	CONTENT_LENGTH,
	TRANSFER_ENCODING,
	EXPECT,
	UPGRADE,
	WS_KEY,
	WS_VERSION,
	AUTHORIZATION,
	CONTENT_TYPE,
	ORIGIN,
	IDEMPOTENCY_KEY,
	LAST_EVENT_ID,
	TRACEPARENT,
	KNOWN_MAX,
};

#define KNOWN(text) { text, sizeof(text) - 1, "more than one '" text "' header" }

static const struct {
	const char *name;
	size_t n;
	const char *twice;
} known[] = {
	[HOST] = KNOWN("Host"),
	[CONTENT_LENGTH] = KNOWN("Content-Length"),
	[TRANSFER_ENCODING] = KNOWN("Transfer-Encoding"),
	[EXPECT] = KNOWN("Expect"),
	[UPGRADE] = KNOWN("Upgrade"),
	[WS_KEY] = KNOWN("Sec-WebSocket-Key"),
	[WS_VERSION] = KNOWN("Sec-WebSocket-Version"),
	[AUTHORIZATION] = KNOWN("Authorization"),
	[CONTENT_TYPE] = KNOWN("Content-Type"),
	[ORIGIN] = KNOWN("Origin"),
	[IDEMPOTENCY_KEY] = KNOWN("Idempotency-Key"),
	[LAST_EVENT_ID] = KNOWN("Last-Event-ID"),
	[TRACEPARENT] = KNOWN("traceparent"),
};
_Static_assert(sizeof(known) / sizeof(known[0]) == KNOWN_MAX, "a row for each");

struct head_reader {
	struct http_head *h;
	struct http_refusal *r;
	const struct http_slice *known[KNOWN_MAX]; /* their values */
	bool close, keep_alive, upgrade;           /* tokens of Connection, which may be repeated */
};

static const bool token_chars[256] = {
	['!'] = true,         ['#'] = true,         ['$'] = true, ['%'] = true,
	['&'] = true,         ['\''] = true,        ['*'] = true, ['+'] = true,
	['-'] = true,         ['.'] = true,         ['^'] = true, ['_'] = true,
	['`'] = true,         ['|'] = true,         ['~'] = true, ['0' ... '9'] = true,
	['A' ... 'Z'] = true, ['a' ... 'z'] = true,
};

/* --- pieces ----------------------------------------------------------------------------------- */

static bool is_token_char(char c)
{
	return token_chars[(unsigned char)c];
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int http_hex(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_hex(char c)
{
	return http_hex(c) >= 0;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool same_nocase(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lower(a[i]) != lower(b[i]))
			return false;
	return true;
}

bool http_slice_is(struct http_slice s, const char *text)
{
	return s.n == strlen(text) && (s.n == 0 || memcmp(s.p, text, s.n) == 0);
}

bool http_slice_is_nocase(struct http_slice s, const char *text)
{
	return s.n == strlen(text) && same_nocase(s.p, text, s.n);
}

/* As part of the name of a variable. */
static char in_variable(char c)
{
	c = lower(c);
	return is_digit(c) || (c >= 'a' && c <= 'z') ? c : '_';
}

bool http_name_is_like(struct http_slice name, const char *header)
{
	if (name.n != strlen(header))
		return false;
	for (size_t i = 0; i < name.n; i++)
		if (in_variable(name.p[i]) != in_variable(header[i]))
			return false;
	return true;
}

bool http_is_token(struct http_slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_token_char(s.p[i]))
			return false;
	return s.n > 0;
}

bool http_is_text(struct http_slice s)
{
	uint32_t c = 0;

	for (size_t i = 0, step; i < s.n; i += step) {
		step = utf8_next((const unsigned char *)s.p + i, s.n - i, &c);
		if (step == 0 || c < ' ' || (c >= 0x7f && c <= 0x9f))
			return false;
	}
	return true;
}

static struct http_slice between(const char *p, const char *end)
{
	return (struct http_slice){ p, (size_t)(end - p) };
}

static struct http_slice trim(const char *p, size_t n)
{
	while (n > 0 && (p[0] == ' ' || p[0] == '\t')) {
		p++;
		n--;
	}
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	return (struct http_slice){ p, n };
}

/* Is one of eight bytes below the space, or DEL? Tells which eight need a closer look. */
static bool eight_have_control(const char *p)
{
	const uint64_t ones = UINT64_MAX / 0xff;
	uint64_t v, del;

	(void)memcpy(&v, p, sizeof(v));
	del = v ^ ones * 0x7f;
	return ((((v - ones * ' ') & ~v) | ((del - ones) & ~del)) & ones * 0x80) != 0;
}

static bool is_field_char(char c)
{
	return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

/* Text of a header: tabs, printable ASCII, and bytes beyond ASCII, which are opaque. */
static bool is_field_text(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (n - i >= 8 && !eight_have_control(p + i))
			i += 7;
		else if (!is_field_char(p[i]))
			return false;
	}
	return true;
}

int http_header_parse(struct http_slice line, struct http_header *ret, struct http_refusal *r)
{
	size_t n = 0;

	while (n < line.n && is_token_char(line.p[n]))
		n++;
	if (n == line.n || line.p[n] != ':' || n == 0) {
		if (n < line.n && (line.p[n] == ' ' || line.p[n] == '\t'))
			return http_refuse(r, 400,
					   n == 0 ? "a header is folded over two lines"
						  : "white space in the name of a header");
		return http_refuse(r, 400, "a line of the head is not 'name: value'");
	}
	if (!is_field_text(line.p + n + 1, line.n - n - 1))
		return http_refuse(r, 400, "control character in the value of a header");
	ret->name = (struct http_slice){ line.p, n };
	ret->value = trim(line.p + n + 1, line.n - n - 1);
	return 0;
}

const struct http_header *http_find(const struct http_head *h, const char *name)
{
	size_t n = strlen(name);

	for (unsigned int i = 0; i < h->nh; i++)
		if (h->h[i].name.n == n && same_nocase(h->h[i].name.p, name, n))
			return &h->h[i];
	return NULL;
}

/* The next element of a comma-separated list, trimmed, and empty ones left out. */
static bool next_element(struct http_slice *list, struct http_slice *ret)
{
	while (list->n > 0) {
		const char *comma = memchr(list->p, ',', list->n);
		size_t n = comma == NULL ? list->n : (size_t)(comma - list->p);

		*ret = trim(list->p, n);
		n += comma != NULL;
		list->p += n;
		list->n -= n;
		if (ret->n > 0)
			return true;
	}
	return false;
}

/* --- the request line ------------------------------------------------------------------------- */

static bool is_target_char(char c)
{
	return (unsigned char)c > ' ' && (unsigned char)c < 0x7f && c != '#';
}

static int check_target(struct http_slice method, struct http_slice target, struct http_refusal *r)
{
	for (size_t i = 0; i < target.n; i++)
		if (!is_target_char(target.p[i]))
			return http_refuse(r, 400, "a character that no target may have");
	if (http_slice_is(target, "*") && http_slice_is(method, "OPTIONS"))
		return 0;
	if (target.n == 0 || target.p[0] != '/' || http_slice_is(method, "CONNECT"))
		return http_refuse(r, 400, "the target is not a path that begins with '/'");
	return 0;
}

static int check_version(struct http_slice v, int *ret_minor, struct http_refusal *r)
{
	if (v.n != 8 || memcmp(v.p, "HTTP/", 5) != 0 || !is_digit(v.p[5]) || v.p[6] != '.' ||
	    !is_digit(v.p[7]))
		return http_refuse(r, 400, "the request line is not 'method target version'");
	if (v.p[5] != '1' || v.p[7] > '1')
		return http_refuse(r, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
	*ret_minor = v.p[7] - '0';
	return 0;
}

/* The method was checked by check_begin(). */
static int read_request_line(struct http_slice line, struct http_head *h, struct http_refusal *r)
{
	const char *end = line.p + line.n;
	const char *sp = memchr(line.p, ' ', line.n);
	const char *sp2 = sp == NULL ? NULL : memchr(sp + 1, ' ', (size_t)(end - sp - 1));

	if (sp2 == NULL)
		return http_refuse(r, 400, "the request line is not 'method target version'");
	h->method = between(line.p, sp);
	h->target = between(sp + 1, sp2);
	if (h->target.n > HTTP_TARGET_MAX)
		return http_refuse(r, 414, "the target is too long");
	if (check_version(between(sp2 + 1, end), &h->minor, r) < 0)
		return -1;
	return check_target(h->method, h->target, r);
}

/* --- where the head ends ---------------------------------------------------------------------- */

/* Can these bytes begin a request line? */
static int check_begin(const char *p, size_t n, struct http_refusal *r)
{
	if (n > 0 && p[0] == 0x16)
		return http_refuse(r, 400, "this looks like TLS, and plain HTTP is spoken here");
	for (size_t i = 0; i < n; i++) {
		if (p[i] == ' ' && i > 0)
			return 0;
		if (!is_token_char(p[i]))
			return http_refuse(r, 400, "this does not begin with a method");
		if (i == HTTP_METHOD_MAX)
			return http_refuse(r, 501, "no method has such a long name");
	}
	return 0;
}

/* Every line end from *scanned on. Returns as http_head_parse() does. */
static ptrdiff_t find_end(const char *buf, size_t len, size_t start, size_t *scanned,
			  struct http_head *h, struct http_refusal *r)
{
	size_t most = len;
	size_t at = *scanned > start ? *scanned : start;
	const char *lf, *before = NULL;

	if (most > HTTP_HEAD_MAX)
		most = HTTP_HEAD_MAX;
	if (most - start >= REQUEST_LINE_MAX && at - start < REQUEST_LINE_MAX &&
	    memchr(buf + start, '\n', REQUEST_LINE_MAX) == NULL)
		return http_refuse(r, 414, "the request line is too long");
	for (; at < most && (lf = memchr(buf + at, '\n', most - at)) != NULL; before = lf) {
		if (before == NULL) /* perhaps in bytes that were looked at before */
			before = memrchr(buf + start, '\n', at - start);
		if (lf[-1] != '\r')
			return http_refuse(r, 400, "a line of the head does not end with CR LF");
		if (before != NULL && lf - before == 2)
			return lf + 1 - buf;
		if (before == NULL && read_request_line(between(buf + start, lf - 1), h, r) < 0)
			return -1;
		at = (size_t)(lf + 1 - buf);
	}
	*scanned = most;
	return most < HTTP_HEAD_MAX ? 0 : http_refuse(r, 431, "the head is too long");
}

/* --- the headers ------------------------------------------------------------------------------ */

static int read_connection(struct head_reader *hr, struct http_slice list)
{
	struct http_slice token;

	while (next_element(&list, &token)) {
		if (!http_is_token(token))
			return http_refuse(hr->r, 400, "'Connection' is not a list of names");
		hr->close |= http_slice_is_nocase(token, "close");
		hr->keep_alive |= http_slice_is_nocase(token, "keep-alive");
		hr->upgrade |= http_slice_is_nocase(token, "upgrade");
	}
	return 0;
}

/* Spaces before the value and nothing behind it. Readers disagree about tabs and trailing white
 * space, which must not be about where a body ends. */
static bool is_tidy(const struct http_header *header)
{
	const char *p = header->name.p + header->name.n + 1;

	while (p < header->value.p && *p == ' ')
		p++;
	return p == header->value.p && header->value.p[header->value.n] == '\r';
}

static int note_known(struct head_reader *hr, const struct http_header *header)
{
	for (unsigned int i = 0; i < KNOWN_MAX; i++) {
		if (header->name.n != known[i].n ||
		    !same_nocase(header->name.p, known[i].name, known[i].n))
			continue;
		if (hr->known[i] != NULL)
			return http_refuse(hr->r, 400, known[i].twice);
		if ((i == CONTENT_LENGTH || i == TRANSFER_ENCODING) && !is_tidy(header))
			return http_refuse(hr->r, 400, "white space around the length of the body");
		hr->known[i] = &header->value;
		return 0;
	}
	return http_slice_is_nocase(header->name, "Connection") ? read_connection(hr, header->value)
								: 0;
}

/* Every line between the request line and the empty one. */
static int read_headers(struct head_reader *hr, const char *p, const char *end)
{
	struct http_head *h = hr->h;

	for (h->nh = 0; p < end; h->nh++) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));

		if (h->nh == HTTP_HEADERS_MAX)
			return http_refuse(hr->r, 431, "too many headers");
		if (http_header_parse(between(p, lf - 1), &h->h[h->nh], hr->r) < 0 ||
		    note_known(hr, &h->h[h->nh]) < 0)
			return -1;
		p = lf + 1;
	}
	return 0;
}

/* --- what the headers mean together ----------------------------------------------------------- */

static bool is_port(const char *p, size_t n)
{
	unsigned int port = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(p[i]))
			return false;
		port = port * 10 + (unsigned int)(p[i] - '0');
	}
	return port <= UINT16_MAX;
}

/* The bytes of an address in brackets, or of a name. The RFC's sub-delims are not taken for part
 * of a name: no name that anybody resolves has them, and a comma is how two Hosts become one. */
static size_t host_len(struct http_slice s)
{
	size_t n = 0;

	if (s.n > 0 && s.p[0] == '[') {
		for (n = 1; n < s.n && (is_hex(s.p[n]) || s.p[n] == ':' || s.p[n] == '.'); n++)
			;
		return n > 2 && n < s.n && s.p[n] == ']' ? n + 1 : 0;
	}
	while (n < s.n) {
		char c = lower(s.p[n]);

		if (c == '%' && s.n - n > 2 && is_hex(s.p[n + 1]) && is_hex(s.p[n + 2]))
			n += 3;
		else if ((c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '.' ||
			 c == '_' || c == '~')
			n++;
		else
			break;
	}
	return n;
}

static int judge_host(struct head_reader *hr)
{
	const struct http_slice *host = hr->known[HOST];
	size_t n;

	hr->h->host = (struct http_slice){ hr->h->method.p, 0 };
	if (host == NULL)
		return hr->h->minor == 0 ? 0 : http_refuse(hr->r, 400, "no 'Host' header");
	n = host_len(*host);
	if (n == 0 ||
	    (n < host->n && (host->p[n] != ':' || !is_port(host->p + n + 1, host->n - n - 1))))
		return http_refuse(hr->r, 400, "'Host' is not host or host:port");
	hr->h->host = *host;
	return 0;
}

static int read_length(struct http_slice s, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < s.n; i++) {
		uint64_t digit = (uint64_t)(unsigned char)s.p[i] - '0';

		if (digit > 9 || v > ((uint64_t)INT64_MAX - digit) / 10)
			return -1;
		v = v * 10 + digit;
	}
	*ret = v;
	return s.n > 0 ? 0 : -1;
}

static int judge_framing(struct head_reader *hr)
{
	const struct http_slice *te = hr->known[TRANSFER_ENCODING];
	const struct http_slice *length = hr->known[CONTENT_LENGTH];
	struct http_head *h = hr->h;

	h->framing = HTTP_NO_BODY;
	h->length = 0;
	if (te != NULL) {
		if (length != NULL)
			return http_refuse(hr->r, 400,
					   "both 'Content-Length' and 'Transfer-Encoding'");
		if (h->minor == 0)
			return http_refuse(hr->r, 400, "'Transfer-Encoding' in HTTP/1.0");
		if (!http_slice_is_nocase(*te, "chunked"))
			return http_refuse(hr->r, 501,
					   "the only 'Transfer-Encoding' known here is 'chunked'");
		h->framing = HTTP_CHUNKED;
	} else if (length != NULL) {
		if (read_length(*length, &h->length) < 0)
			return http_refuse(hr->r, 400, "'Content-Length' is not a number of bytes");
		h->framing = HTTP_LENGTH;
	}
	return 0;
}

static int judge_expect(struct head_reader *hr)
{
	const struct http_slice *expect = hr->known[EXPECT];
	struct http_head *h = hr->h;

	if (expect != NULL && !http_slice_is_nocase(*expect, "100-continue"))
		return http_refuse(hr->r, 417, "the only expectation known here is '100-continue'");
	h->expect_continue =
		expect != NULL && h->minor == 1 && (h->framing == HTTP_CHUNKED || h->length > 0);
	return 0;
}

static bool asks_for_websocket(const struct http_slice *upgrade)
{
	struct http_slice list, protocol;

	if (upgrade == NULL)
		return false;
	list = *upgrade;
	while (next_element(&list, &protocol))
		if (http_slice_is_nocase(protocol, "websocket"))
			return true;
	return false;
}

static bool is_ws_key(struct http_slice key)
{
	uint8_t bytes[18];
	size_t n;

	return key.n == 24 && base64_decode(key.p, key.n, bytes, &n) == 0 && n == 16;
}

static int judge_upgrade(struct head_reader *hr)
{
	const struct http_slice *version = hr->known[WS_VERSION], *key = hr->known[WS_KEY];
	struct http_head *h = hr->h;

	h->upgrade_websocket = asks_for_websocket(hr->known[UPGRADE]);
	h->ws_key = (struct http_slice){ h->method.p, 0 };
	if (!h->upgrade_websocket)
		return 0;
	if (!http_slice_is(h->method, "GET") || h->minor == 0)
		return http_refuse(hr->r, 400, "a WebSocket begins with GET and HTTP/1.1");
	if (h->framing == HTTP_CHUNKED || h->length > 0)
		return http_refuse(hr->r, 400, "a request for a WebSocket has no body");
	if (!hr->upgrade)
		return http_refuse(hr->r, 400,
				   "'Upgrade: websocket' without 'Connection: upgrade'");
	if (version == NULL)
		return http_refuse(hr->r, 400, "no 'Sec-WebSocket-Version'");
	if (!http_slice_is(*version, "13"))
		return http_refuse(hr->r, 426, "the only WebSocket version known here is 13");
	if (key == NULL || !is_ws_key(*key))
		return http_refuse(hr->r, 400, "'Sec-WebSocket-Key' is not 16 bytes in base64");
	h->ws_key = *key;
	return 0;
}

ptrdiff_t http_head_parse(const char *buf, size_t len, size_t *scanned, struct http_head *h,
			  struct http_refusal *r)
{
	struct head_reader hr = { .h = h, .r = r };
	size_t start = 0;
	const char *headers;
	ptrdiff_t n;

	if (len == 0)
		return 0;
	if (buf[0] == '\r') { /* one empty line may stand before a request */
		if (len == 1)
			return 0;
		if (buf[1] != '\n')
			return http_refuse(r, 400, "this does not begin with a method");
		start = 2;
	}
	if (check_begin(buf + start, len - start, r) < 0)
		return -1;
	n = find_end(buf, len, start, scanned, h, r);
	if (n <= 0)
		return n;
	headers = (const char *)memchr(buf + start, '\n', (size_t)n - start) + 1;
	if (read_request_line(between(buf + start, headers - 2), h, r) < 0)
		return -1;
	if (read_headers(&hr, headers, buf + n - 2) < 0 || judge_host(&hr) < 0 ||
	    judge_framing(&hr) < 0 || judge_expect(&hr) < 0 || judge_upgrade(&hr) < 0)
		return -1;
	h->keep_alive = !hr.close && (h->minor == 1 || hr.keep_alive);
	return n;
}
