/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer. Input: calls (one byte each, with what they take behind it), played into one document; and the
 * whole input once more as one string.
 *
 * Claims: any bytes give valid UTF-8 and valid JSON, by the reader below, without a character that could trick a
 * person who looks at it; a string that was valid UTF-8 comes back from it as it was; one that was not has a U+FFFD
 * in it.
 */
#include "base/json.h"

#include <stdbool.h>

#include "base/utf8.h"

#include "fuzz_input.h"

enum { DEPTH = 20 };

/* --- a reader, as small as RFC 8259 allows ------------------------------------------------------------------ */

struct reader {
	const uint8_t *p, *end;
	uint8_t *text; /* of the last string */
	size_t text_len;
};

/* Length of the character at p by the table of the Unicode standard (3-7), 0 for none. */
static size_t utf8_char(const uint8_t *p, size_t n)
{
	static const struct {
		uint8_t first, last, low, high;
		size_t len;
	} rows[] = {
		{ 0x00, 0x7f, 0, 0, 1 },       { 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 }, { 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (p[0] < rows[i].first || p[0] > rows[i].last)
			continue;
		if (n < rows[i].len)
			return 0;
		if (rows[i].len > 1 && (p[1] < rows[i].low || p[1] > rows[i].high))
			return 0;
		for (size_t k = 2; k < rows[i].len; k++)
			if (p[k] < 0x80 || p[k] > 0xbf)
				return 0;
		return rows[i].len;
	}
	return 0;
}

static bool is_utf8(const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t len = utf8_char(p, n);

		if (len == 0)
			return false;
		p += len;
		n -= len;
	}
	return true;
}

/* Valid UTF-8, and nothing in it that a terminal would obey. */
static void check_text(const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t len = utf8_char(p, n);
		uint32_t c;

		MUST(len > 0 && utf8_next(p, n, &c) == len);
		MUST(!utf8_is_tricky(c));
		p += len;
		n -= len;
	}
}

static bool next_is(struct reader *r, uint8_t c)
{
	if (r->p == r->end || *r->p != c)
		return false;
	r->p++;
	return true;
}

static unsigned int read_hex(struct reader *r)
{
	unsigned int v = 0;

	for (int i = 0; i < 4; i++) {
		const char *digits = "0123456789abcdef", *at;

		MUST(r->p < r->end && *r->p != '\0');
		at = strchr(digits, *r->p++);
		MUST(at != NULL);
		v = v * 16 + (unsigned int)(at - digits);
	}
	return v;
}

static void add_char(struct reader *r, uint32_t c)
{
	if (c < 0x80) {
		r->text[r->text_len++] = (uint8_t)c;
		return;
	}
	if (c >= 0x10000) {
		r->text[r->text_len++] = (uint8_t)(0xf0 | c >> 18);
		r->text[r->text_len++] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	} else if (c >= 0x800) {
		r->text[r->text_len++] = (uint8_t)(0xe0 | c >> 12);
	}
	if (c >= 0x800)
		r->text[r->text_len++] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	else
		r->text[r->text_len++] = (uint8_t)(0xc0 | c >> 6);
	r->text[r->text_len++] = (uint8_t)(0x80 | (c & 0x3f));
}

static void read_escape(struct reader *r)
{
	unsigned int c, low;

	MUST(r->p < r->end);
	switch (*r->p++) {
	case '"':
		add_char(r, '"');
		return;
	case '\\':
		add_char(r, '\\');
		return;
	case 'n':
		add_char(r, '\n');
		return;
	case 'u':
		c = read_hex(r);
		break;
	default:
		MUST(!"an escape that the writer knows");
	}
	MUST(c < 0xdc00 || c > 0xdfff); /* no second half by itself */
	if (c >= 0xd800 && c <= 0xdbff) {
		MUST(next_is(r, '\\') && next_is(r, 'u'));
		low = read_hex(r);
		MUST(low >= 0xdc00 && low <= 0xdfff);
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	add_char(r, c);
}

static void read_string(struct reader *r)
{
	MUST(next_is(r, '"'));
	r->text_len = 0;
	for (;;) {
		uint8_t c;

		MUST(r->p < r->end);
		c = *r->p++;
		if (c == '"')
			return;
		MUST(c >= 0x20);
		if (c == '\\')
			read_escape(r);
		else
			r->text[r->text_len++] = c;
	}
}

static void read_digits(struct reader *r)
{
	MUST(r->p < r->end && *r->p >= '0' && *r->p <= '9');
	while (r->p < r->end && *r->p >= '0' && *r->p <= '9')
		r->p++;
}

static void read_number(struct reader *r)
{
	(void)next_is(r, '-');
	if (next_is(r, '0'))
		MUST(r->p == r->end || *r->p < '0' || *r->p > '9');
	else
		read_digits(r);
	if (next_is(r, '.'))
		read_digits(r);
}

static void read_word(struct reader *r, const char *word)
{
	for (; *word != '\0'; word++)
		MUST(next_is(r, (uint8_t)*word));
}

static void read_value(struct reader *r, unsigned int depth)
{
	MUST(depth <= DEPTH + 1 && r->p < r->end);
	switch (*r->p) {
	case '{':
	case '[': {
		bool object = *r->p++ == '{';

		if (next_is(r, object ? '}' : ']'))
			return;
		do {
			if (object) {
				read_string(r);
				MUST(next_is(r, ':'));
			}
			read_value(r, depth + 1);
		} while (next_is(r, ','));
		MUST(next_is(r, object ? '}' : ']'));
		return;
	}
	case '"':
		read_string(r);
		return;
	case 't':
		read_word(r, "true");
		return;
	case 'f':
		read_word(r, "false");
		return;
	case 'n':
		read_word(r, "null");
		return;
	default:
		read_number(r);
	}
}

/* The last string of the document stays in r->text, which the caller frees. */
static void read_document(struct reader *r, const struct json *j)
{
	MUST(!j->failed && j->buf != NULL && strlen(j->buf) == j->len);
	check_text((const uint8_t *)j->buf, j->len);
	*r = (struct reader){ .p = (const uint8_t *)j->buf,
			      .end = (const uint8_t *)j->buf + j->len,
			      .text = malloc(j->len) };
	MUST(r->text != NULL);
	read_value(r, 0);
	MUST(r->p == r->end);
}

/* --- the writer ----------------------------------------------------------------------------------------------- */

static uint64_t take_u64(struct input *in)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | take_u8(in);
	return v;
}

/* Some bytes as a C string, without the NULs. */
static char *take_text(struct input *in)
{
	size_t n;
	const uint8_t *p = take_bytes(in, take_u8(in), &n);
	char *text = malloc(n + 1);

	MUST(text != NULL);
	(void)memcpy(text, p, n);
	text[n] = '\0';
	return text;
}

static void one_value(struct json *j, struct input *in, unsigned int call, const char *key)
{
	size_t n;
	const uint8_t *p;
	char *text;

	switch (call) {
	case 0:
		text = take_text(in);
		json_str(j, key, text);
		free(text);
		break;
	case 1:
		p = take_bytes(in, take_u16(in), &n);
		json_bytes(j, key, p, n);
		break;
	case 2:
		json_u64(j, key, take_u64(in));
		break;
	case 3:
		json_i64(j, key, (int64_t)take_u64(in));
		break;
	case 4:
		json_milli(j, key, take_u64(in));
		break;
	case 5:
		json_bool(j, key, (take_u8(in) & 1) != 0);
		break;
	default:
		json_null(j, key);
	}
}

static void fuzz_calls(struct input in)
{
	char closing[DEPTH + 1];
	unsigned int depth = 0;
	struct reader r;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '[');
	closing[depth++] = ']';
	while (in.n > 0) {
		unsigned int call = take_u8(&in) % 10;
		char *key = closing[depth - 1] == '}' ? take_text(&in) : NULL;

		if (call >= 8 && depth < DEPTH) {
			json_open(&j, key, call == 8 ? '{' : '[');
			closing[depth++] = call == 8 ? '}' : ']';
		} else if (call == 7 && depth > 1) {
			json_close(&j, closing[--depth]);
		} else {
			one_value(&j, &in, call, key);
		}
		free(key);
	}
	while (depth > 0)
		json_close(&j, closing[--depth]);
	read_document(&r, &j);
	free(r.text);
	json_done(&j);
}

static void fuzz_string(const uint8_t *data, size_t size)
{
	struct reader r;
	struct json j;

	json_init(&j);
	json_bytes(&j, NULL, data, size);
	read_document(&r, &j);
	if (is_utf8(data, size))
		MUST(r.text_len == size && (size == 0 || memcmp(r.text, data, size) == 0));
	else
		MUST(memmem(r.text, r.text_len, "\xef\xbf\xbd", 3) != NULL);
	free(r.text);
	json_done(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size);

	fuzz_calls((struct input){ copy, size });
	fuzz_string(copy, size);
	free(copy);
	return 0;
}
