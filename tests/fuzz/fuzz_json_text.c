/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that is passed on. Input: the text.
 *
 * Claims: what jsonr takes is taken, and stays the same for it; what it refuses and is taken all the same it refuses for
 * one of the reasons that wire/json_text.h names. What is written is one line of valid UTF-8 without a character that
 * could trick a person, at most six times as long, and written again it is the same. Who walks finds every value
 * once, and of a key the last one.
 */
#include "wire/json_text.h"

#include <errno.h>
#include <stdbool.h>

#include "base/utf8.h"
#include "wire/jsonr.h"

#include "fuzz_input.h"

/* Valid UTF-8, and nothing in it that a terminal or a line would obey. */
static void check_line(const struct json *j)
{
	uint32_t c;

	for (size_t i = 0, n; i < j->len; i += n) {
		n = utf8_next((const unsigned char *)j->buf + i, j->len - i, &c);
		MUST(n > 0 && !utf8_is_tricky(c));
	}
}

static bool may_differ(const char *why)
{
	static const char *const reasons[] = { "NUL in a string",     "half a surrogate pair",
					       "invalid UTF-8",       "duplicate key",
					       "number out of range", "number too long",
					       "nested too deeply",   "too many values" };

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (strcmp(why, reasons[i]) == 0)
			return true;
	return false;
}

/* The text as jsonr has it: NULL if it refuses. */
static char *strictly(const void *text, size_t n, struct jsonr_error *e)
{
	char *copy = (char *)exact_copy(text, n);
	struct jsonr d;
	struct json j;

	json_init(&j);
	if (jsonr_parse(&d, copy, n, e) == 0)
		jsonr_write(&d, jsonr_root(&d), &j, NULL);
	MUST(!j.failed);
	jsonr_done(&d);
	free(copy);
	return j.buf;
}

/* Put together again by its parts, every value must be where it was. */
static void rebuild(struct json_text t, struct json *j, unsigned int depth)
{
	char kind = json_text_kind(t);
	struct json_text key, value;
	struct json_walk w;

	MUST(kind != '\0' && depth <= JSON_TEXT_DEPTH_MAX);
	if (kind != '{' && kind != '[') {
		json_text_put(t, j, NULL);
		return;
	}
	json_open(j, NULL, kind);
	for (w = json_walk(t); json_walk_next(&w, &key, &value);) {
		MUST((json_text_kind(key) == '"') == (kind == '{'));
		MUST(value.p >= t.p && value.p + value.n < t.p + t.n);
		if (kind == '{')
			json_text_put_key(key, j);
		rebuild(value, j, depth + 1);
	}
	json_close(j, kind == '{' ? '}' : ']');
}

/* The last member of an object by its own name, and one that is not there. */
static void check_find(struct json_text t)
{
	struct json_text key, value, last = { NULL, 0 }, found = { NULL, 0 };
	char name[64];
	struct json_walk w;

	if (json_text_kind(t) != '{')
		return;
	for (w = json_walk(t); json_walk_next(&w, &key, &value);) {
		last = key;
		found = value;
	}
	if (json_text_str(last, name, sizeof(name))) {
		struct json_member m[] = { { .key = name }, { .key = "no such key" } };

		json_text_find(t, m, 2);
		MUST(m[0].value.p == found.p && m[0].value.n == found.n);
	}
}

static void check_text(struct json_text t, size_t size)
{
	struct json j, again;
	struct json_text whole;

	json_init(&j);
	json_init(&again);
	json_text_put(t, &j, NULL);
	MUST(!j.failed && j.len > 0 && j.len <= 6 * size);
	check_line(&j);
	rebuild(t, &again, 0);
	MUST(again.len == j.len && memcmp(again.buf, j.buf, j.len) == 0);
	json_done(&again);
	MUST(json_text_read(j.buf, j.len, &whole) == 0 && whole.n == j.len);
	json_text_put(whole, &again, NULL);
	MUST(again.len == j.len && memcmp(again.buf, j.buf, j.len) == 0);
	json_done(&again);
	json_done(&j);
	check_find(t);
}

static void check_strictly(const char *before, struct json_text t)
{
	struct jsonr_error why;
	struct json j;
	char *after;

	json_init(&j);
	json_text_put(t, &j, NULL);
	after = strictly(j.buf, j.len, &why);
	MUST(after != NULL && strcmp(before, after) == 0);
	free(after);
	json_done(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = (char *)exact_copy(data, size);
	struct json_text t = { NULL, 0 };
	struct jsonr_error why = { 0 };
	char *strict = strictly(data, size, &why);
	int rc = json_text_read(copy, size, &t);

	MUST(rc == 0 || ((rc == -EINVAL || rc == -E2BIG) && t.p == NULL));
	MUST(strict == NULL || rc == 0);
	if (rc == 0) {
		MUST(strict != NULL || may_differ(why.why));
		check_text(t, size);
		if (strict != NULL)
			check_strictly(strict, t);
	}
	free(strict);
	free(copy);
	return 0;
}
