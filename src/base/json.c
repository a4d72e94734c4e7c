// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

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
	if (j->failed)
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

/* Length of the well-formed UTF-8 sequence at p, 0 when there is none. Overlong forms, surrogates
 * and what lies beyond U+10FFFF are none. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t len;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len > n)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

static void put_escaped(struct json *j, unsigned char c)
{
	char text[8];

	switch (c) {
	case '"':
		put(j, "\\\"", 2);
		break;
	case '\\':
		put(j, "\\\\", 2);
		break;
	case '\n':
		put(j, "\\n", 2);
		break;
	default:
		(void)snprintf(text, sizeof(text), "\\u%04x", c);
		put(j, text, 6);
	}
}

static void put_string(struct json *j, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	size_t plain = 0;

	put(j, "\"", 1);
	for (size_t i = 0; i < n;) {
		size_t len = utf8_length(p + i, n - i);

		if (len > 1 ||
		    (len == 1 && p[i] >= 0x20 && p[i] != '"' && p[i] != '\\' && p[i] != 0x7f)) {
			i += len;
			continue;
		}
		put(j, (const char *)p + plain, i - plain);
		if (len == 0)
			put(j, "\xef\xbf\xbd", 3);
		else
			put_escaped(j, p[i]);
		plain = ++i;
	}
	put(j, (const char *)p + plain, n - plain);
	put(j, "\"", 1);
}

static void begin(struct json *j, const char *key)
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
	begin(j, key);
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
	begin(j, key);
	put_string(j, p, n);
}

void json_str(struct json *j, const char *key, const char *s)
{
	json_bytes(j, key, s, strlen(s));
}

static void put_raw(struct json *j, const char *key, const char *text)
{
	begin(j, key);
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
