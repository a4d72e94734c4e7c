// SPDX-License-Identifier: Apache-2.0
#include "wire/http_answer.h"

#include <string.h>

enum { INTERIM_MAX = 16 };

static void begin(struct http_answer *a)
{
	a->status = 0;
	a->nhead = 0;
	a->nh = 0;
}

void http_answer_init(struct http_answer *a)
{
	begin(a);
	a->interim = 0;
	a->interim_status = 0;
	a->done = a->refused = false;
}

static int refuse(struct http_answer *a, const char **why, const char *text)
{
	a->refused = true;
	*why = text;
	return -1;
}

struct http_slice http_answer_get(const struct http_answer *a, const char *name)
{
	for (unsigned int i = 0; i < a->nh; i++)
		if (http_slice_is_nocase(a->h[i].name, name))
			return a->h[i].value;
	return (struct http_slice){ "", 0 };
}

/* --- the head ------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 whatever"; *ret_minor: which 1.x. */
static int read_status_line(struct http_answer *a, struct http_slice line, int *ret_minor)
{
	const char *p = line.p;

	if (line.n < 12 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1') ||
	    p[8] != ' ' || (line.n > 12 && p[12] != ' '))
		return -1;
	if (p[9] < '1' || p[9] > '5' || !is_digit(p[10]) || !is_digit(p[11]))
		return -1;
	*ret_minor = p[7] - '0';
	a->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
	return 0;
}

static int read_length(struct http_slice s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.n == 0 || s.n > 18)
		return -1;
	for (size_t i = 0; i < s.n; i++) {
		if (!is_digit(s.p[i]))
			return -1;
		v = v * 10 + (uint64_t)(s.p[i] - '0');
	}
	*ret = v;
	return 0;
}

/* It is there, and says nothing: who takes it for missing would take a part for the whole. */
static bool is_empty(const struct http_answer *a, const char *name)
{
	for (unsigned int i = 0; i < a->nh; i++)
		if (http_slice_is_nocase(a->h[i].name, name) && a->h[i].value.n == 0)
			return true;
	return false;
}

static bool has_twice(const struct http_answer *a, const char *name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < a->nh; i++)
		n += http_slice_is_nocase(a->h[i].name, name);
	return n > 1;
}

/* Whether a list such as that of Connection has this word in it. */
static bool has_word(struct http_slice list, const char *word)
{
	while (list.n > 0) {
		const char *comma = memchr(list.p, ',', list.n);
		size_t n = comma != NULL ? (size_t)(comma - list.p) : list.n,
		       step = n + (comma != NULL);
		struct http_slice one = { list.p, n };

		while (one.n > 0 && (one.p[0] == ' ' || one.p[0] == '\t')) {
			one.p++;
			one.n--;
		}
		while (one.n > 0 && (one.p[one.n - 1] == ' ' || one.p[one.n - 1] == '\t'))
			one.n--;
		if (http_slice_is_nocase(one, word))
			return true;
		list.p += step;
		list.n -= step;
	}
	return false;
}

static int judge(struct http_answer *a, int minor, const char **why)
{
	struct http_slice length = http_answer_get(a, "Content-Length");
	struct http_slice coding = http_answer_get(a, "Transfer-Encoding");
	struct http_slice connection = http_answer_get(a, "Connection");

	if (has_twice(a, "Content-Length") || has_twice(a, "Transfer-Encoding"))
		return refuse(a, why, "more than one length of the body");
	if (is_empty(a, "Content-Length") || is_empty(a, "Transfer-Encoding"))
		return refuse(a, why, "an empty length of the body");
	if (length.n > 0 && coding.n > 0)
		return refuse(a, why, "both 'Content-Length' and 'Transfer-Encoding'");
	a->keep_alive = minor == 1 && !has_word(connection, "close");
	if (a->status < 200 || a->status == 204 || a->status == 304) {
		a->framing = HTTP_ANSWER_NONE;
		a->done = true;
	} else if (coding.n > 0) {
		if (!http_slice_is_nocase(coding, "chunked"))
			return refuse(a, why, "a 'Transfer-Encoding' that is not known here");
		a->framing = HTTP_ANSWER_CHUNKED;
		http_chunks_init(&a->chunks);
	} else if (length.n > 0) {
		if (read_length(length, &a->length) < 0)
			return refuse(a, why, "'Content-Length' is not a number of bytes");
		a->framing = HTTP_ANSWER_LENGTH;
		a->left = a->length;
		a->done = a->left == 0;
	} else {
		a->framing = HTTP_ANSWER_TO_END;
		a->keep_alive = false;
	}
	return 0;
}

/* The head is whole. */
static int read_head(struct http_answer *a, const char **why)
{
	const char *p = a->head, *end = a->head + a->nhead - 2;
	const char *lf = memchr(p, '\n', a->nhead);
	struct http_refusal r;
	int minor;

	if (read_status_line(a, (struct http_slice){ p, (size_t)(lf - 1 - p) }, &minor) < 0)
		return refuse(a, why, "this is no HTTP/1.1");
	for (a->nh = 0, p = lf + 1; p < end; p = lf + 1, a->nh++) {
		lf = memchr(p, '\n', (size_t)(end - p));
		if (a->nh == HTTP_HEADERS_MAX)
			return refuse(a, why, "too many headers");
		if (http_header_parse((struct http_slice){ p, (size_t)(lf - 1 - p) }, &a->h[a->nh],
				      &r) < 0)
			return refuse(a, why, r.why);
	}
	if (a->status < 200 && a->status != 101) { /* the answer itself is to come */
		a->interim_status = a->status;
		begin(a);
		return a->interim++ < INTERIM_MAX
			       ? 0
			       : refuse(a, why, "too many answers before the answer");
	}
	return judge(a, minor, why);
}

/* One byte of the head. */
static int take_head(struct http_answer *a, char c, const char **why)
{
	size_t n = a->nhead;

	if (n == HTTP_HEAD_MAX)
		return refuse(a, why, "the head is too long");
	if (n < 7 && c != "HTTP/1."[n])
		return refuse(a, why, "this is no HTTP/1.1");
	a->head[a->nhead++] = c;
	if (c != '\n')
		return 0;
	if (a->head[n - 1] != '\r') /* n is at least 7 */
		return refuse(a, why, "a line of the head does not end with CR LF");
	return n >= 3 && a->head[n - 2] == '\n' ? read_head(a, why) : 0;
}

/* --- the body ------------------------------------------------------------------------------------- */

static ptrdiff_t take_body(struct http_answer *a, const char *p, size_t n, struct http_slice *data,
			   const char **why)
{
	struct http_refusal r;
	ptrdiff_t used;

	if (a->framing == HTTP_ANSWER_CHUNKED) {
		used = http_chunks_feed(&a->chunks, p, n, data, &a->done, &r);
		return used < 0 ? refuse(a, why, r.why) : used;
	}
	if (a->framing == HTTP_ANSWER_LENGTH && n > a->left)
		n = (size_t)a->left;
	*data = (struct http_slice){ p, n };
	if (a->framing == HTTP_ANSWER_LENGTH) {
		a->left -= n;
		a->done = a->left == 0;
	}
	return (ptrdiff_t)n;
}

ptrdiff_t http_answer_feed(struct http_answer *a, const char *p, size_t n, struct http_slice *data,
			   const char **why)
{
	size_t at = 0;

	*data = (struct http_slice){ p, 0 };
	if (a->refused)
		return refuse(a, why, "the answer was refused before");
	if (a->done)
		return 0;
	if (a->status != 0)
		return n > 0 ? take_body(a, p, n, data, why) : 0;
	while (at < n && a->status == 0)
		if (take_head(a, p[at++], why) < 0)
			return -1;
	return (ptrdiff_t)at;
}

bool http_answer_end(struct http_answer *a)
{
	if (a->status != 0 && !a->refused && a->framing == HTTP_ANSWER_TO_END)
		a->done = true;
	return a->done;
}
