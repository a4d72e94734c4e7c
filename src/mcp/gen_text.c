// SPDX-License-Identifier: Apache-2.0
/* Foreign text in a module: strings and other constants. Whatever they are, they stay within their quotes. */
#include "mcp/gen_impl.h"

#include "base/own.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>

#define INDENT "    "

static int hex(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* A unit of \uXXXX, as json.h writes it. */
static uint32_t unit(const char *p)
{
	return (uint32_t)(hex(p[2]) << 12 | hex(p[3]) << 8 | hex(p[4]) << 4 | hex(p[5]));
}

static size_t put_utf8(uint32_t c, char *to)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* What json.h has written is valid, and has few escapes: a letter, a unit, or two that are a pair. It only gets shorter. */
static void unescape(struct json *j)
{
	size_t from = 0, to = 0;

	while (from < j->len) {
		const char *p = j->buf + from;

		if (*p != '\\') {
			j->buf[to++] = j->buf[from++];
		} else if (p[1] != 'u') {
			j->buf[to++] = p[1] == 'n' ? '\n' : p[1];
			from += 2;
		} else {
			uint32_t c = unit(p);

			from += 6;
			if (c >= 0xd800 && c <= 0xdbff) {
				c = 0x10000 + ((c - 0xd800) << 10) + (unit(p + 6) - 0xdc00);
				from += 6;
			}
			to += put_utf8(c, j->buf + to);
		}
	}
	j->len = to;
}

int gen_decode(struct json_text t, struct json *ret)
{
	json_init(ret);
	if (json_text_kind(t) != '"')
		return -EINVAL;
	json_text_put_chars(t, ret);
	if (ret->failed)
		return -ENOMEM;
	unescape(ret);
	return 0;
}

static void put_char(struct json *out, uint32_t c)
{
	char text[16] = { (char)c };

	if (c == '"' || c == '\\')
		(void)snprintf(text, sizeof(text), "\\%c", (char)c);
	else if (c == '\n')
		(void)snprintf(text, sizeof(text), "\\n");
	else if (c < 0x20 || (c >= 0x7f && c < 0x100))
		(void)snprintf(text, sizeof(text), "\\x%02x", c);
	else if (c >= 0x10000)
		(void)snprintf(text, sizeof(text), "\\U%08x", c);
	else if (c >= 0x100)
		(void)snprintf(text, sizeof(text), "\\u%04x", c);
	put_text(out, text);
}

void gen_literal(struct json *out, const char *p, size_t n)
{
	const unsigned char *at = (const unsigned char *)p;

	put_text(out, "\"");
	while (n > 0) {
		uint32_t c = 0xfffd;
		size_t len = utf8_next(at, n, &c);

		if (len == 0)
			len = utf8_bad(at, n);
		put_char(out, c);
		at += len;
		n -= len;
	}
	put_text(out, "\"");
}

/* A line for each of its lines. */
static void put_doc(struct json *out, const char *p, size_t n)
{
	const char *end = n > 0 ? p + n : p;

	put_text(out, INDENT);
	if (n == 0 || memchr(p, '\n', n - 1) == NULL) {
		gen_literal(out, p, n);
		put_text(out, "\n");
		return;
	}
	put_text(out, "(\n");
	while (p < end) {
		const char *line = memchr(p, '\n', (size_t)(end - p));

		line = line != NULL ? line + 1 : end;
		put_text(out, INDENT INDENT);
		gen_literal(out, p, (size_t)(line - p));
		put_text(out, "\n");
		p = line;
	}
	put_text(out, INDENT ")\n");
}

void gen_doc(struct gen *g, struct json_text doc, struct json *out)
{
	OWN(json_done) struct json text;

	json_init(&text);
	if (json_text_kind(doc) != '"' || !gen_take(g, doc.n))
		return;
	g->failed |= gen_decode(doc, &text) < 0;
	if (text.len > 0)
		put_doc(out, text.buf, text.len);
}

static bool put_value(struct json *out, struct json_text v, unsigned int depth);

static void put_string(struct json *out, struct json_text t)
{
	struct json text;

	if (gen_decode(t, &text) < 0)
		out->failed = true;
	gen_literal(out, text.buf, text.len);
	json_done(&text);
}

static bool put_container(struct json *out, struct json_text v, unsigned int depth)
{
	bool object = json_text_kind(v) == '{', first = true, whole = true;
	struct json_walk w = json_walk(v);
	struct json_text key, value;

	put_text(out, object ? "{" : "[");
	while (whole && json_walk_next(&w, &key, &value)) {
		if (!first)
			put_text(out, ", ");
		first = false;
		if (object) {
			put_string(out, key);
			put_text(out, ": ");
		}
		whole = put_value(out, value, depth + 1);
	}
	put_text(out, object ? "}" : "]");
	return whole;
}

static bool put_value(struct json *out, struct json_text v, unsigned int depth)
{
	switch (json_text_kind(v)) {
	case '"':
		put_string(out, v);
		return true;
	case '{':
	case '[':
		return depth < GEN_VALUE_DEPTH && put_container(out, v, depth);
	case '0':
		json_raw(out, v.p, v.n); /* numbers of JSON are some of Python */
		return true;
	case 't':
		put_text(out, *v.p == 't' ? "True" : "False");
		return true;
	default:
		put_text(out, "None");
		return true;
	}
}

bool gen_value(struct json *out, struct json_text v)
{
	return put_value(out, v, 0);
}
