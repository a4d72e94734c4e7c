// SPDX-License-Identifier: Apache-2.0
/* Writing a value back: whole, or as much of it as an error should show. */
#include "wire/jsonr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may still be written; NULL for everything. */
struct budget {
	size_t nodes, bytes;
	unsigned int depth;
};

size_t jsonr_cut(const char *p, size_t n, size_t max)
{
	if (n <= max)
		return n;
	for (n = max; n > 0 && ((unsigned char)p[n] & 0xc0) == 0x80; n--)
		;
	return n;
}

/* The fewest digits that read back the same, laid out as Python does it: 1.0, 1e+22. */
static void format_real(double v, char *buf, size_t size)
{
	int digits = 0, exponent;

	do
		(void)snprintf(buf, size, "%.*e", digits, v);
	while (strtod(buf, NULL) != v && ++digits < 17);
	exponent = (int)strtol(strchr(buf, 'e') + 1, NULL, 10);
	if (exponent >= -4 && exponent < 16)
		(void)snprintf(buf, size, "%.*f", digits > exponent ? digits - exponent : 1, v);
}

/* The writer has no call for ready text; to it a bracket is just a character. */
static void write_real(double v, struct json *j, const char *key)
{
	char text[64];

	format_real(v, text, sizeof(text));
	json_open(j, key, text[0]);
	for (const char *c = text + 1; *c != '\0'; c++)
		json_close(j, *c);
}

static void write_string(const struct jsonr_node *n, struct json *j, const char *key,
			 struct budget *b)
{
	size_t max = JSONR_ECHO_STRING, len;
	char text[JSONR_ECHO_STRING + sizeof("...")];

	if (b != NULL && b->bytes < max)
		max = b->bytes;
	if (b == NULL || n->len <= max) {
		json_bytes(j, key, n->string, n->len);
		len = n->len;
	} else {
		len = jsonr_cut(n->string, n->len, max);
		(void)snprintf(text, sizeof(text), "%.*s...", (int)len, n->string);
		json_str(j, key, text);
	}
	if (b != NULL)
		b->bytes -= len;
}

/* Half a key would be another key, perhaps one that is there: the whole member is left off. */
static bool take_member(struct budget *b, const struct jsonr_node *n)
{
	if (b == NULL)
		return true;
	if (n->key_len > JSONR_ECHO_STRING || n->key_len > b->bytes)
		return false;
	b->bytes -= n->key_len;
	return true;
}

static void write_node(const struct jsonr *d, const struct jsonr_node *n, struct json *j,
		       const char *key, struct budget *b);

static void write_container(const struct jsonr *d, const struct jsonr_node *n, struct json *j,
			    const char *key, struct budget *b)
{
	bool object = n->type == JSONR_OBJECT;

	json_open(j, key, object ? '{' : '[');
	if (b == NULL || b->depth > 0) {
		if (b != NULL)
			b->depth--;
		for (const struct jsonr_node *c = jsonr_first(d, n);
		     c != NULL && (b == NULL || b->nodes > 0); c = jsonr_next(d, c))
			if (take_member(b, c))
				write_node(d, c, j, c->key, b);
		if (b != NULL)
			b->depth++;
	}
	json_close(j, object ? '}' : ']');
}

static void write_node(const struct jsonr *d, const struct jsonr_node *n, struct json *j,
		       const char *key, struct budget *b)
{
	if (b != NULL)
		b->nodes--;
	switch (n->type) {
	case JSONR_NULL:
		json_null(j, key);
		break;
	case JSONR_BOOL:
		json_bool(j, key, n->boolean);
		break;
	case JSONR_INT:
		json_i64(j, key, n->integer);
		break;
	case JSONR_REAL:
		write_real(n->real, j, key);
		break;
	case JSONR_STRING:
		write_string(n, j, key, b);
		break;
	case JSONR_ARRAY:
	case JSONR_OBJECT:
		write_container(d, n, j, key, b);
		break;
	}
}

void jsonr_write(const struct jsonr *d, const struct jsonr_node *n, struct json *j, const char *key)
{
	if (n == NULL)
		json_null(j, key);
	else
		write_node(d, n, j, key, NULL);
}

void jsonr_echo(const struct jsonr *d, const struct jsonr_node *n, struct json *j, const char *key)
{
	struct budget b = { .nodes = JSONR_ECHO_NODES,
			    .bytes = JSONR_ECHO_BYTES,
			    .depth = JSONR_ECHO_DEPTH };

	if (n == NULL)
		json_null(j, key);
	else
		write_node(d, n, j, key, &b);
}
