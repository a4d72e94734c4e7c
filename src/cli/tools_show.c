// SPDX-License-Identifier: Apache-2.0
/*
 * Tools and results of a server, for a person. All of it is the server's: what a terminal would act on is taken out where there is
 * one; into files and pipes texts go as they are.
 */
#include "cli/tools.h"

#include "base/own.h"
#include "cli/filter.h"
#include "cli/say.h"
#include "cli/show.h"
#include "cli/wake.h"

#include <stdio.h>
#include <string.h>

enum {
	OUT_MAX = 512 << 20,
	LINE_MAX_BYTES = 160,
	PROGRESS_BYTES = 100,
	PARAMETERS_MAX = 64, /* of one tool */
	FILES_MAX = 256,     /* of one result */
	MIME = 128,
	INDENT = 2,
};

/* --- writing -------------------------------------------------------------------------------------- */

/* All of it goes to standard output, and is released. */
static int flush(struct bytes *b)
{
	int r = b->failed ? -ENOMEM : wake_write(STDOUT_FILENO, bytes_str(b), b->n, NULL, NULL);

	bytes_done(b);
	return r;
}

static enum filter_mode mode(void)
{
	if (!isatty(STDOUT_FILENO))
		return FILTER_NOTHING;
	return show_has_colour(STDOUT_FILENO) ? FILTER_SAFE : FILTER_PLAIN;
}

/* The first line of a text, for a line of ours. */
static void put_line(struct bytes *b, struct json_text t)
{
	own_free char *text = malloc(t.n + 1);
	size_t n;

	if (text == NULL || !json_text_str(t, text, t.n + 1))
		return;
	n = strspn(text, " \t\r\n");
	text[n + strcspn(text + n, "\r\n")] = '\0';
	say_harmless(text + n);
	if (strlen(text + n) > LINE_MAX_BYTES) {
		bytes_put(b, text + n, jsonr_cut(text + n, strlen(text + n), LINE_MAX_BYTES));
		bytes_puts(b, "…");
	} else {
		bytes_puts(b, text + n);
	}
}

/* A value in as many lines as it has members. */
static void put_pretty(struct bytes *b, struct json_text t, unsigned int depth)
{
	struct json_walk w = json_walk(t);
	char kind = json_text_kind(t);
	struct json_text key, one;
	bool any = false;
	struct json j;

	json_init(&j);
	if (kind != '{' && kind != '[') {
		json_text_put(t, &j, NULL);
		bytes_put(b, j.buf, j.failed ? 0 : j.len);
		json_done(&j);
		return;
	}
	bytes_put(b, &kind, 1);
	while (json_walk_next(&w, &key, &one)) {
		bytes_puts(b, any ? ",\n" : "\n");
		for (unsigned int i = 0; i < (depth + 1) * INDENT; i++)
			bytes_puts(b, " ");
		if (key.p != NULL) {
			json_text_put(key, &j, NULL);
			bytes_put(b, j.buf, j.failed ? 0 : j.len);
			bytes_puts(b, ": ");
			json_done(&j);
		}
		put_pretty(b, one, depth + 1);
		any = true;
	}
	for (unsigned int i = 0; any && i < depth * INDENT + 1; i++)
		bytes_puts(b, i == 0 ? "\n" : " ");
	bytes_puts(b, kind == '{' ? "}" : "]");
}

int tools_show_json(struct json_text t)
{
	struct bytes b;
	struct json j;

	bytes_init(&b, OUT_MAX);
	json_init(&j);
	json_text_put(t, &j, NULL);
	json_raw(&j, "\n", 1);
	bytes_put(&b, j.buf, j.failed ? 0 : j.len);
	b.failed |= j.failed;
	json_done(&j);
	return flush(&b);
}

/* --- the list ------------------------------------------------------------------------------------- */

static bool is_required(struct json_text required, struct json_text name)
{
	struct json_walk w = json_walk(required);
	struct json_text key, one;

	while (json_walk_next(&w, &key, &one))
		if (one.n == name.n && memcmp(one.p, name.p, name.n) == 0)
			return true;
	return false;
}

static void put_type(struct bytes *b, struct json_text schema)
{
	struct json_member m[] = { { .key = "type" }, { .key = "enum" } };
	struct json_walk w;
	struct json_text key, one;
	bool any = false;

	json_text_find(schema, m, ARRAY_LEN(m));
	w = json_walk(m[0].value);
	if (json_text_kind(m[0].value) == '"')
		put_line(b, m[0].value);
	else if (json_text_kind(m[0].value) != '[')
		bytes_puts(b, json_text_kind(m[1].value) == '[' ? "one of several" : "any");
	for (; json_walk_next(&w, &key, &one); any = true) {
		bytes_puts(b, any ? "|" : "");
		put_line(b, one);
	}
}

/* As many as a person would read: each is looked for in the list of those that are required. */
static void put_parameters(struct bytes *b, const struct mcpc_tool *tool)
{
	struct json_member m[] = { { .key = "properties" }, { .key = "required" } };
	struct json_text key, one;
	unsigned int n = 0;
	struct json_walk w;

	json_text_find(tool->input, m, ARRAY_LEN(m));
	for (w = json_walk(m[0].value); json_walk_next(&w, &key, &one);) {
		struct json_member doc = { .key = "description" };

		if (n++ == PARAMETERS_MAX) {
			bytes_puts(b, "    … and more\n");
			return;
		}
		json_text_find(one, &doc, 1);
		bytes_puts(b, "    ");
		put_line(b, key);
		bytes_puts(b, ": ");
		put_type(b, one);
		if (is_required(m[1].value, key))
			bytes_puts(b, ", required");
		if (json_text_kind(doc.value) == '"') {
			bytes_puts(b, "  ");
			put_line(b, doc.value);
		}
		bytes_puts(b, "\n");
	}
}

int tools_show_list(const struct mcpc_tools *t)
{
	struct bytes b;

	bytes_init(&b, OUT_MAX);
	for (unsigned int i = 0; i < t->n; i++) {
		char name[MCPC_NAME];

		(void)memcpy(name, t->v[i].name, sizeof(name));
		say_harmless(name);
		bytes_puts(&b, name);
		if (json_text_kind(t->v[i].description) == '"') {
			bytes_puts(&b, "  ");
			put_line(&b, t->v[i].description);
		}
		bytes_puts(&b, "\n");
		put_parameters(&b, &t->v[i]);
	}
	return flush(&b);
}

int tools_show_list_json(const struct mcpc_tools *t)
{
	struct bytes b;
	struct json j;

	bytes_init(&b, OUT_MAX);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "tools", '[');
	for (unsigned int i = 0; i < t->n; i++)
		json_text_put((struct json_text){ t->v[i].text, t->v[i].n }, &j, NULL);
	json_close(&j, ']');
	json_close(&j, '}');
	json_raw(&j, "\n", 1);
	bytes_put(&b, j.buf, j.failed ? 0 : j.len);
	b.failed |= j.failed;
	json_done(&j);
	return flush(&b);
}

/* --- results -------------------------------------------------------------------------------------- */

struct showing {
	struct bytes out;
	const char *tool, *images;
	unsigned int nfiles;    /* saved, or tried */
	struct json structured; /* in one line; empty: none */
};

/* Whether a text is what the structured content is. */
static bool says_the_same(const struct showing *s, const char *text)
{
	struct json_text t;
	struct json j;
	bool same;

	if (s->structured.len == 0 || json_text_read(text, strlen(text), &t) < 0)
		return false;
	json_init(&j);
	json_text_put(t, &j, NULL);
	same = !j.failed && j.len == s->structured.len &&
	       memcmp(j.buf, s->structured.buf, j.len) == 0;
	json_done(&j);
	return same;
}

static void put_text(struct showing *s, struct json_text t)
{
	own_free char *text = malloc(t.n + 1);
	struct filter f;

	if (text == NULL || !json_text_str(t, text, t.n + 1)) {
		bytes_puts(&s->out, "[a text that cannot be shown]\n");
		return;
	}
	if (says_the_same(s, text))
		return; /* it follows, and is easier to read there */
	filter_init(&f, mode());
	filter_put(&f, text, strlen(text), &s->out);
	filter_end(&f, &s->out);
	if (s->out.n > 0 && s->out.p[s->out.n - 1] != '\n')
		bytes_puts(&s->out, "\n");
}

static void put_file(struct showing *s, struct json_text data, struct json_text mime)
{
	char path[4096], type[MIME];
	int r;

	if (!json_text_str(mime, type, sizeof(type)))
		(void)snprintf(type, sizeof(type), "application/octet-stream");
	r = s->nfiles++ < FILES_MAX ? tools_save(s->images, s->tool, type, data, path, sizeof(path))
				    : -EMFILE;
	say_harmless(type);
	if (r < 0 && s->nfiles <= FILES_MAX + 1)
		say("what the tool sent as '%s' could not be saved in '%s': %s", type, s->images,
		    r == -EINVAL   ? "it is no base64"
		    : r == -EMFILE ? "there are too many"
				   : strerror(-r));
	bytes_puts(&s->out, "[");
	bytes_puts(&s->out, type);
	if (r == 0) {
		bytes_puts(&s->out, ": ");
		bytes_puts(&s->out, path);
	}
	bytes_puts(&s->out, "]\n");
}

static void put_resource(struct showing *s, struct json_text r)
{
	struct json_member m[] = {
		{ .key = "text" }, { .key = "blob" }, { .key = "mimeType" }, { .key = "uri" }
	};

	json_text_find(r, m, ARRAY_LEN(m));
	bytes_puts(&s->out, "[resource ");
	put_line(&s->out, m[3].value);
	bytes_puts(&s->out, "]\n");
	if (json_text_kind(m[0].value) == '"')
		put_text(s, m[0].value);
	else if (json_text_kind(m[1].value) == '"')
		put_file(s, m[1].value, m[2].value);
}

static void put_item(struct showing *s, struct json_text item)
{
	struct json_member m[] = { { .key = "type" },     { .key = "text" },     { .key = "data" },
				   { .key = "mimeType" }, { .key = "resource" }, { .key = "uri" } };
	char type[32];

	json_text_find(item, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, type, sizeof(type)))
		type[0] = '\0';
	if (strcmp(type, "text") == 0 && json_text_kind(m[1].value) == '"') {
		put_text(s, m[1].value);
	} else if ((strcmp(type, "image") == 0 || strcmp(type, "audio") == 0) &&
		   json_text_kind(m[2].value) == '"') {
		put_file(s, m[2].value, m[3].value);
	} else if (strcmp(type, "resource") == 0) {
		put_resource(s, m[4].value);
	} else if (strcmp(type, "resource_link") == 0) {
		bytes_puts(&s->out, "[resource ");
		put_line(&s->out, m[5].value);
		bytes_puts(&s->out, "]\n");
	} else {
		put_pretty(&s->out, item, 0);
		bytes_puts(&s->out, "\n");
	}
}

int tools_show_result(const char *tool, struct json_text result, const char *images, bool *is_error)
{
	struct json_member m[] = { { .key = "content" },
				   { .key = "structuredContent" },
				   { .key = "isError" } };
	struct showing s = { .tool = tool, .images = images };
	struct json_text key, item;
	struct json_walk w;

	bytes_init(&s.out, OUT_MAX);
	json_init(&s.structured);
	json_text_find(result, m, ARRAY_LEN(m));
	*is_error = m[2].value.n == 4 && memcmp(m[2].value.p, "true", 4) == 0;
	if (json_text_kind(m[1].value) != '\0')
		json_text_put(m[1].value, &s.structured, NULL);
	for (w = json_walk(m[0].value); json_walk_next(&w, &key, &item);)
		put_item(&s, item);
	if (s.structured.len > 0) {
		put_pretty(&s.out, m[1].value, 0);
		bytes_puts(&s.out, "\n");
	}
	json_done(&s.structured);
	return flush(&s.out);
}

/* --- progress ------------------------------------------------------------------------------------- */

void tools_show_progress(const struct json_text *params)
{
	struct json_member m[] = { { .key = "progress" },
				   { .key = "total" },
				   { .key = "message" } };
	static bool shown;
	struct bytes b;

	if (!isatty(STDERR_FILENO))
		return;
	if (params == NULL) {
		if (shown)
			(void)fputs("\r\033[K", stderr);
		shown = false;
		return;
	}
	json_text_find(*params, m, ARRAY_LEN(m));
	bytes_init(&b, 1024);
	if (json_text_kind(m[0].value) == '0' && m[0].value.n < 32)
		bytes_put(&b, m[0].value.p, m[0].value.n);
	if (json_text_kind(m[1].value) == '0' && m[1].value.n < 32) {
		bytes_puts(&b, " of ");
		bytes_put(&b, m[1].value.p, m[1].value.n);
	}
	if (json_text_kind(m[2].value) == '"') {
		bytes_puts(&b, "  ");
		put_line(&b, m[2].value);
	}
	(void)fprintf(stderr, "\r\033[K%.*s", (int)jsonr_cut(bytes_str(&b), b.n, PROGRESS_BYTES),
		      bytes_str(&b));
	shown = true;
	bytes_done(&b);
}
