// SPDX-License-Identifier: Apache-2.0
/*
 * What came of a call, for a person or a program. All of it is foreign: texts go through the filter where a terminal would act
 * on them; in JSON and YAML what a terminal acts on is escaped.
 */
#include "cli/invoke.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/box_api.h"
#include "cli/filter.h"

#include <fcntl.h>
#include <string.h>

enum { INDENT = 2, KEY_MAX = 128, TEXT_MAX = 512 * 1024 * 1024 };

/* --- JSON and YAML, over several lines -------------------------------------------------------- */

static bool has_parts(struct json_text t)
{
	struct json_walk w = json_walk(t);
	struct json_text key, value;

	return json_walk_next(&w, &key, &value);
}

static void put_line(struct json *j, unsigned int depth)
{
	json_raw(j, "\n", 1);
	for (unsigned int i = 0; i < depth * INDENT; i++)
		json_raw(j, " ", 1);
}

static void put_scalar(struct json *j, struct json_text t)
{
	j->comma = false; /* those are ours */
	json_text_put(t, j, NULL);
	j->comma = false;
}

static void put_key(struct json *j, struct json_text key)
{
	put_scalar(j, key);
	json_raw(j, ": ", 2);
}

/* Not deeper than json_text_read() lets through. */
static void put_json(struct json *j, struct json_text t, unsigned int depth)
{
	bool object = json_text_kind(t) == '{', first = true;
	struct json_walk w = json_walk(t);
	struct json_text key, value;

	if (!has_parts(t)) {
		put_scalar(j, t);
		return;
	}
	json_raw(j, object ? "{" : "[", 1);
	while (json_walk_next(&w, &key, &value)) {
		if (!first)
			json_raw(j, ",", 1);
		first = false;
		put_line(j, depth + 1);
		if (object)
			put_key(j, key);
		put_json(j, value, depth + 1);
	}
	put_line(j, depth);
	json_raw(j, object ? "}" : "]", 1);
}

/* A key that is long, as YAML counts: it has to be told that it is one. */
static void put_yaml_key(struct json *j, struct json_text key, unsigned int depth)
{
	bool is_long = key.n > KEY_MAX;

	if (is_long)
		json_raw(j, "? ", 2);
	put_scalar(j, key);
	if (is_long)
		put_line(j, depth);
}

/* Strings and keys as JSON has them, which is YAML, too; what has parts has a line for each. */
static void put_yaml(struct json *j, struct json_text t, unsigned int depth)
{
	bool object = json_text_kind(t) == '{';
	struct json_walk w = json_walk(t);
	struct json_text key, value;

	if (!has_parts(t)) {
		put_scalar(j, t);
		return;
	}
	while (json_walk_next(&w, &key, &value)) {
		put_line(j, depth);
		if (object)
			put_yaml_key(j, key, depth);
		json_raw(j, object ? ":" : "-", 1);
		if (!has_parts(value))
			json_raw(j, " ", 1);
		put_yaml(j, value, depth + 1);
	}
}

/* --- the formats ------------------------------------------------------------------------------ */

/* What a text says, decoded. */
static void put_text(struct json *j, struct json_text t, bool terminal)
{
	char *text = malloc(t.n + 1);
	struct bytes out;
	struct filter f;

	bytes_init(&out, TEXT_MAX);
	filter_init(&f, terminal ? FILTER_SAFE : FILTER_NOTHING);
	if (text != NULL && json_text_str(t, text, t.n + 1)) {
		filter_put(&f, text, strlen(text), &out);
		filter_end(&f, &out);
		json_raw(j, bytes_str(&out), out.n);
	} else { /* it has a NUL: as it is written */
		json_raw(j, t.p, t.n);
	}
	if (j->len > 0 && j->buf[j->len - 1] != '\n')
		json_raw(j, "\n", 1);
	bytes_done(&out);
	free(text);
}

static void put_title(struct json *j, const char *title)
{
	json_raw(j, "--- ", 4);
	json_raw(j, title, strlen(title));
	json_raw(j, "\n", 1);
}

static bool is_empty(struct json_text t)
{
	return t.p == NULL || t.n <= 2;
}

static void pretty(const struct invoke_opts *o, const struct invoke_answer *a, struct json *j,
		   bool terminal)
{
	if (!o->quiet && !is_empty(a->out)) {
		put_title(j, "stdout");
		put_text(j, a->out, terminal);
	}
	if (!o->quiet && !is_empty(a->err)) {
		put_title(j, "stderr");
		put_text(j, a->err, terminal);
	}
	if (!o->quiet)
		put_title(j, "result");
	put_json(j, a->result, 0);
	json_raw(j, "\n", 1);
	if (o->profile && !o->quiet) {
		struct json_walk w = json_walk(a->metrics);
		struct json_text key, value;

		put_title(j, "metrics");
		while (json_walk_next(&w, &key, &value)) {
			json_raw(j, key.p + 1, key.n - 2);
			json_raw(j, ": ", 2);
			put_scalar(j, value);
			json_raw(j, "\n", 1);
		}
	}
}

/* All of it as one object. */
static void whole(const struct invoke_opts *o, const struct invoke_answer *a, struct json *j)
{
	static const char *const names[] = { "duration_ms", "cpu_time_ms", "memory_peak_mb" };
	struct json_member m[ARRAY_LEN(names)];

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		m[i] = (struct json_member){ .key = names[i] };
	json_text_find(a->metrics, m, ARRAY_LEN(names));
	json_open(j, NULL, '{');
	json_i64(j, "exit_code", a->exit_code);
	json_text_put(a->out, j, "stdout");
	json_text_put(a->err, j, "stderr");
	json_text_put(a->result, j, "result");
	json_open(j, "metrics", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		json_text_put(m[i].value, j, names[i]);
	json_close(j, '}');
	if (o->verbose)
		json_milli(j, "timestamp", (uint64_t)api_now_ms());
	json_close(j, '}');
}

static void structured(const struct invoke_opts *o, const struct invoke_answer *a, struct json *j)
{
	struct json_text all = a->result;
	struct json one;

	json_init(&one);
	if (!o->quiet) {
		whole(o, a, &one);
		all = (struct json_text){ one.buf, one.len };
		j->failed = j->failed || one.failed;
	}
	if (j->failed)
		;
	else if (o->format == INVOKE_JSON)
		put_json(j, all, 0);
	else
		put_yaml(j, all, 0);
	json_raw(j, "\n", 1);
	json_done(&one);
}

/* --- where it goes ---------------------------------------------------------------------------- */

static int write_out(const struct invoke_opts *o, const struct json *j)
{
	const char *p = j->buf;
	size_t n = j->len;
	own_fd fd = -1;

	while (n > 0 && *p == '\n') { /* where YAML begins */
		p++;
		n--;
	}
	if (o->output == NULL)
		return io_write_all(STDOUT_FILENO, p, n);
	fd = open(o->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
	return fd < 0 ? -errno : io_write_all(fd, p, n);
}

int invoke_print(const struct invoke_opts *o, const struct invoke_answer *a)
{
	bool terminal = o->output == NULL && isatty(STDOUT_FILENO);
	struct json j;
	int r;

	json_init(&j);
	if (o->format == INVOKE_PRETTY)
		pretty(o, a, &j, terminal);
	else
		structured(o, a, &j);
	r = j.failed ? -ENOMEM : write_out(o, &j);
	json_done(&j);
	return r;
}
