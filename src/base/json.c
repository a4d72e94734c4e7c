// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_init(struct json *j)
{
	*j = (struct json){ 0 };
}

void json_done(struct json *j)
{
	free(j->buf);
	json_init(j);
}

static void put(struct json *j, const char *p, size_t n)
{
	if (j->failed || n == 0)
		return;
	if (j->cap - j->len < n + 1) {
		size_t cap = j->cap * 2 + n + 256;
		char *buf = realloc(j->buf, cap);

		if (buf == NULL) {
			j->failed = true;
			return;
		}
		j->buf = buf;
		j->cap = cap;
	}
	(void)memcpy(j->buf + j->len, p, n);
	j->len += n;
	j->buf[j->len] = '\0';
}

void json_raw(struct json *j, const char *p, size_t n)
{
	put(j, p, n);
}

void json_restart(struct json *j)
{
	j->comma = false;
}

static size_t put_u(char *to, uint32_t unit)
{
	static const char digits[] = "0123456789abcdef";

	to[0] = '\\';
	to[1] = 'u';
	for (unsigned int i = 0; i < 4; i++)
		to[2 + i] = digits[unit >> (12 - 4 * i) & 15];
	return 6;
}

static void put_escaped(struct json *j, uint32_t c)
{
	char text[12] = { '\\', (char)c };
	size_t n = 2;

	if (c == '\n') {
		text[1] = 'n';
	} else if (c >= 0x10000) {
		n = put_u(text, 0xd7c0 + (c >> 10));
		n += put_u(text + n, 0xdc00 + (c & 0x3ff));
	} else if (c != '"' && c != '\\') {
		n = put_u(text, c);
	}
	put(j, text, n);
}

/* Bytes that stand for themselves and are a character each. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* How many plain bytes p begins with; eight at a time: a byte is not plain if it is below 0x20, above 0x7e, a
 * quote or a backslash, and each of these sets its highest bit in one of the sums. */
static size_t plain_run(const unsigned char *p, size_t n)
{
	const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
	size_t i = 0;

	for (; n - i >= 8; i += 8) {
		uint64_t v, quote, slash;

		(void)memcpy(&v, p + i, 8);
		quote = v ^ ones * '"';
		slash = v ^ ones * '\\';
		if ((((v - ones * 0x20) | (quote - ones) | (slash - ones) | (v + ones) | v) &
		     high) != 0)
			break;
	}
	while (i < n && is_plain(p[i]))
		i++;
	return i;
}

void json_chars(struct json *j, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	size_t plain = 0, i = 0;

	while (i < n) {
		uint32_t c = 0;
		size_t len;

		i += plain_run(p + i, n - i);
		if (i == n)
			break;
		len = utf8_next(p + i, n - i, &c);
		if (len > 0 && c != '"' && c != '\\' && !utf8_is_tricky(c)) {
			i += len;
			continue;
		}
		put(j, (const char *)p + plain, i - plain);
		if (len == 0) {
			put(j, "\xef\xbf\xbd", 3);
			len = utf8_bad(p + i, n - i);
		} else {
			put_escaped(j, c);
		}
		i += len;
		plain = i;
	}
	put(j, (const char *)p + plain, n - plain);
}

static void put_string(struct json *j, const void *bytes, size_t n)
{
	put(j, "\"", 1);
	json_chars(j, bytes, n);
	put(j, "\"", 1);
}

void json_value(struct json *j, const char *key)
{
	if (j->comma)
		put(j, ",", 1);
	j->comma = true;
	if (key != NULL) {
		put_string(j, key, strlen(key));
		put(j, ":", 1);
	}
}

void json_open(struct json *j, const char *key, char bracket)
{
	json_value(j, key);
	put(j, &bracket, 1);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	put(j, &bracket, 1);
	j->comma = true;
}

void json_bytes(struct json *j, const char *key, const void *p, size_t n)
{
	json_value(j, key);
	put_string(j, p, n);
}

void json_str(struct json *j, const char *key, const char *s)
{
	json_bytes(j, key, s, strlen(s));
}

static void put_raw(struct json *j, const char *key, const char *text)
{
	json_value(j, key);
	put(j, text, strlen(text));
}

void json_u64(struct json *j, const char *key, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	put_raw(j, key, text);
}

void json_i64(struct json *j, const char *key, int64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%lld", (long long)v);
	put_raw(j, key, text);
}

void json_bool(struct json *j, const char *key, bool v)
{
	put_raw(j, key, v ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
	put_raw(j, key, "null");
}

void json_milli(struct json *j, const char *key, uint64_t v)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu.%03llu", (unsigned long long)(v / 1000),
		       (unsigned long long)(v % 1000));
	put_raw(j, key, text);
}
