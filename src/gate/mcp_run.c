// SPDX-License-Identifier: Apache-2.0
/* Tools of MCP that run something in a box: cells and commands; and boxes themselves. */
#include "gate/box_fork.h"
#include "gate/kernels.h"
#include "gate/mcp_work.h"

#include "base/own.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what they are asked ---------------------------------------------------------------------- */

struct cell_in {
	struct field_str code, box;
	int64_t timeout_ms, max_chars;
	bool max_set;
};

struct command_in {
	struct field_str command, cwd, input, box;
	int64_t timeout_ms;
};

struct install_in {
	struct field_str name, box;
};

struct box_in {
	struct field_str box, name;
	int64_t count;
};

/* clang-format off */
static const struct field cell_rows[] = {
	{ "code", FIELD_STRING, FIELD_REQUIRED, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct cell_in, code), .doc = "what is run: Python as IPython takes it, with !commands and %magics. Variables stay from call to call" },
	{ "timeout", FIELD_MILLI, FIELD_NULLABLE, 1, FIELD_NO_MAX, 120000, offsetof(struct cell_in, timeout_ms), .doc = "seconds, then it is interrupted; null: none" },
	{ "max_output_chars", FIELD_INT, FIELD_NULLABLE, 1, FIELD_NO_MAX, 0, offsetof(struct cell_in, max_chars), .doc = "what is longer is cut; null: nothing is", .set_at = offsetof(struct cell_in, max_set) },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct cell_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_cell_fields = { "execute_ipython_cell", cell_rows, ARRAY_LEN(cell_rows), sizeof(struct cell_in), FIELDS_CLOSED };

static const struct field command_rows[] = {
	{ "command", FIELD_STRING, FIELD_REQUIRED, 1, FIELD_NO_MAX, 0, offsetof(struct command_in, command), .doc = "a text for bash -c" },
	{ "cwd", FIELD_STRING, FIELD_NULLABLE, 1, 4095, 0, offsetof(struct command_in, cwd), .doc = "where it begins; without, in the working directory of the box" },
	{ "stdin", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct command_in, input), .doc = "what it can read" },
	{ "timeout", FIELD_MILLI, FIELD_NULLABLE, 1, FIELD_NO_MAX, 120000, offsetof(struct command_in, timeout_ms), .doc = "seconds, then it is killed; null: none" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct command_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_command_fields = { "run_command", command_rows, ARRAY_LEN(command_rows), sizeof(struct command_in), FIELDS_CLOSED };

static const struct field install_rows[] = {
	{ "package_name", FIELD_STRING, FIELD_REQUIRED, 1, 1024, 0, offsetof(struct install_in, name), .doc = "as pip takes it: a name, with a version or without" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct install_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_install_fields = { "install_package", install_rows, ARRAY_LEN(install_rows), sizeof(struct install_in), FIELDS_CLOSED };

static const struct field reset_rows[] = {
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct box_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_reset_fields = { "reset", reset_rows, ARRAY_LEN(reset_rows), sizeof(struct box_in), FIELDS_CLOSED };

static const struct field create_rows[] = {
	{ "name", FIELD_STRING, FIELD_NULLABLE, 1, BOX_NAME - 1, 0, offsetof(struct box_in, name), .doc = "yours, and unique: name:x stands for the box then; a-z, 0-9, '-', '_' and '.'" },
};
const struct fields mcp_create_fields = { "create_box", create_rows, ARRAY_LEN(create_rows), sizeof(struct box_in), FIELDS_CLOSED };

static const struct field fork_rows[] = {
	{ "count", FIELD_INT, 0, 1, FORK_MAX, 1, offsetof(struct box_in, count), .doc = "how many" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct box_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_fork_fields = { "fork_box", fork_rows, ARRAY_LEN(fork_rows), sizeof(struct box_in), FIELDS_CLOSED };

static const struct field delete_rows[] = {
	{ "box", FIELD_STRING, FIELD_REQUIRED, 1, MCP_BOX_NAME - 1, 0, offsetof(struct box_in, box), .doc = "which box: what create_box returned, or name:x" },
};
const struct fields mcp_delete_fields = { "delete_box", delete_rows, ARRAY_LEN(delete_rows), sizeof(struct box_in), FIELDS_CLOSED };
/* clang-format on */

/* --- texts ------------------------------------------------------------------------------------ */

/* A string of an answer, decoded, behind what is there. */
static void add_string(struct json *text, struct json_text s)
{
	char *p = s.n > 0 ? malloc(s.n + 1) : NULL;

	if (p != NULL && json_text_str(s, p, s.n + 1))
		json_raw(text, p, strlen(p));
	free(p);
}

static bool is_str(struct json_text t, const char *text)
{
	size_t n = strlen(text);

	return t.n == n + 2 && memcmp(t.p + 1, text, n) == 0;
}

/* Without what colours it. */
static void strip_colours(struct json *text, size_t from)
{
	size_t to = from;

	for (size_t i = from; i < text->len; i++) {
		if (text->buf[i] == '\033' && i + 1 < text->len && text->buf[i + 1] == '[') {
			for (i += 2;
			     i < text->len &&
			     ((text->buf[i] >= '0' && text->buf[i] <= '9') || text->buf[i] == ';');)
				i++;
			continue;
		}
		text->buf[to++] = text->buf[i];
	}
	text->len = to;
}

/* At most so many characters. */
static void cut(struct json *text, uint64_t max)
{
	uint64_t chars = 0;
	char note[96];

	for (size_t i = 0; i < text->len; i++) {
		if (((unsigned char)text->buf[i] & 0xc0) == 0x80)
			continue;
		if (chars++ < max)
			continue;
		text->len = i;
		(void)snprintf(note, sizeof(note),
			       "\n\n[Output truncated: exceeded %llu character limit]",
			       (unsigned long long)max);
		json_raw(text, note, strlen(note));
		return;
	}
}

/* --- cells ------------------------------------------------------------------------------------ */

/* What a cell showed: text, and pictures. */
struct shown {
	struct json text, pictures; /* pictures: elements of an array */
};

static const char *const picture_types[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };

/* Jupyter's base64 has line feeds, MCP's has none. */
static void drop_lines(struct json *text)
{
	size_t to = 0;

	for (size_t i = 0; i < text->len; i++)
		if (text->buf[i] != '\n' && text->buf[i] != '\r')
			text->buf[to++] = text->buf[i];
	text->len = to;
}

static bool add_picture(struct shown *s, struct json_text data)
{
	for (unsigned int i = 0; i < ARRAY_LEN(picture_types); i++) {
		struct json_text value = mcp_get(data, picture_types[i]);
		struct json base64;

		if (json_text_kind(value) != '"')
			continue;
		json_init(&base64);
		add_string(&base64, value);
		drop_lines(&base64);
		json_open(&s->pictures, NULL, '{');
		json_str(&s->pictures, "type", "image");
		json_bytes(&s->pictures, "data", base64.buf != NULL ? base64.buf : "", base64.len);
		json_str(&s->pictures, "mimeType", picture_types[i]);
		json_close(&s->pictures, '}');
		json_done(&base64);
		return true;
	}
	return false;
}

static void add_output(struct shown *s, struct json_text output)
{
	struct json_text type = mcp_get(output, "output_type"), data;

	if (is_str(type, "stream")) {
		add_string(&s->text, mcp_get(output, "text"));
		return;
	}
	data = mcp_get(output, "data");
	if (add_picture(s, data))
		return;
	if (json_text_kind(mcp_get(data, "text/plain")) != '"')
		return;
	add_string(&s->text, mcp_get(data, "text/plain"));
	json_raw(&s->text, "\n", 1);
}

static void add_outputs(struct shown *s, struct json_text outputs)
{
	struct json_walk walk = json_walk(outputs);
	struct json_text key, value;

	while (json_walk_next(&walk, &key, &value))
		if (!is_str(mcp_get(value, "output_type"), "error"))
			add_output(s, value);
	strip_colours(&s->text, 0);
}

/* How it failed, for people and models. */
static void put_failure(struct json *text, struct json_text answer, const struct cell_in *in)
{
	struct json_text error = mcp_get(answer, "error"), status = mcp_get(answer, "status");
	bool lost = json_text_kind(mcp_get(answer, "state_lost")) == 't' &&
		    mcp_get(answer, "state_lost").p[0] == 't';
	struct json_text key, line;
	struct json_walk walk;

	if (is_str(status, "timeout")) {
		char note[96];

		(void)snprintf(note, sizeof(note), "Execution timed out after %lld.%03lld seconds",
			       (long long)in->timeout_ms / 1000, (long long)in->timeout_ms % 1000);
		json_raw(text, note, strlen(note));
	} else if (json_text_kind(error) == '{') {
		add_string(text, mcp_get(error, "name"));
		json_raw(text, ": ", 2);
		add_string(text, mcp_get(error, "value"));
	} else {
		json_raw(text, "Execution ended: ", 17);
		add_string(text, status);
	}
	if (lost)
		json_raw(text,
			 "\nThe kernel is gone, and with it all variables. Files are still there.",
			 70);
	walk = json_walk(mcp_get(error, "traceback"));
	while (json_walk_next(&walk, &key, &line)) {
		json_raw(text, "\n", 1);
		add_string(text, line);
	}
	strip_colours(text, 0);
}

static void put_restarted(struct json *j, struct json_text answer)
{
	static const char note[] =
		"[The kernel was started anew: variables of earlier calls are gone.]";

	if (json_text_kind(mcp_get(answer, "kernel_restarted")) == '"')
		mcp_put_text(j, note, sizeof(note) - 1);
}

/* The answer of a run, as it would be told by the own API. */
static bool read_answer(const struct run *run, unsigned int parts, struct json *j,
			struct json_text *ret)
{
	json_init(j);
	run_answer(run, j, parts);
	return !j->failed && json_text_read(j->buf, j->len, ret) == 0;
}

static void told(struct run *run)
{
	if (run->ops->told != NULL)
		run->ops->told(run->arg);
}

static void cell_ran(struct mcp_work *w, struct run *run)
{
	const struct cell_in *in = w->in;
	struct shown s;
	struct json answer, j, failure;
	struct json_text a;
	bool ok;

	if (!read_answer(run, RUN_OUTPUT | RUN_OUTPUTS, &answer, &a)) {
		json_done(&answer);
		mcp_work_fail(w, "its output cannot be told: out of memory");
		return;
	}
	told(run);
	json_init(&s.text);
	json_init(&s.pictures);
	json_init(&failure);
	add_outputs(&s, mcp_get(a, "outputs"));
	if (in->max_set)
		cut(&s.text, (uint64_t)in->max_chars);
	ok = is_str(mcp_get(a, "status"), "ok");
	if (!ok)
		put_failure(&failure, a, in);
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	put_restarted(&j, a);
	if (s.text.len > 0 || (ok && s.pictures.len == 0))
		mcp_put_text(&j, s.text.buf != NULL ? s.text.buf : "", s.text.len);
	if (s.pictures.len > 0) {
		if (j.comma)
			json_raw(&j, ",", 1);
		json_raw(&j, s.pictures.buf, s.pictures.len);
		j.comma = true;
	}
	if (!ok)
		mcp_put_text(&j, failure.buf, failure.len);
	mcp_work_put_box(w, &j);
	json_close(&j, ']');
	if (!ok)
		json_bool(&j, "isError", true);
	j.failed = j.failed || s.text.failed || s.pictures.failed || failure.failed;
	mcp_result_end(mcp_work_end(w), &j);
	json_done(&s.text);
	json_done(&s.pictures);
	json_done(&failure);
	json_done(&answer);
}

/* 0: null was said. */
static void put_timeout(struct json *j, int64_t ms)
{
	if (ms != 0)
		json_i64(j, "timeout_ms", ms);
	else
		json_null(j, "timeout_ms");
}

static void cell_go(struct mcp_work *w)
{
	const struct cell_in *in = w->in;
	struct json j;

	w->ran = cell_ran;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "code", in->code.p, in->code.n);
	put_timeout(&j, in->timeout_ms);
	json_str(&j, "on_disconnect", "interrupt");
	json_close(&j, '}');
	mcp_work_ask(w, cell_create, &j);
}

void mcp_cell(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_cell_fields, offsetof(struct cell_in, box), cell_go);

	if (w != NULL)
		mcp_work_begin(w);
}

/* --- commands --------------------------------------------------------------------------------- */

/* {"stdout", "stderr", "exit_code", "status", "box"} */
static void put_structured(struct json *j, const struct mcp_work *w, struct json_text a)
{
	static const char *const keys[] = { "stdout", "stderr", "exit_code", "signal", "status" };

	json_open(j, "structuredContent", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(keys); i++)
		json_text_put(mcp_get(a, keys[i]), j, keys[i]);
	json_str(j, "box", w->box);
	json_close(j, '}');
}

/* What a person would see, and how it ended where that is not plain. */
static void add_command_text(struct json *text, struct json_text a)
{
	struct json_text status = mcp_get(a, "status"), code = mcp_get(a, "exit_code");
	int64_t n = 0;
	char note[64];

	add_string(text, mcp_get(a, "stdout"));
	add_string(text, mcp_get(a, "stderr"));
	if (is_str(status, "ok"))
		return;
	if (text->len > 0 && text->buf[text->len - 1] != '\n')
		json_raw(text, "\n", 1);
	if (is_str(status, "error") && json_text_i64(code, &n)) {
		(void)snprintf(note, sizeof(note), "[exit code %lld]", (long long)n);
		json_raw(text, note, strlen(note));
	} else {
		json_raw(text, "[", 1);
		add_string(text, status);
		json_raw(text, "]", 1);
	}
}

static void command_ran(struct mcp_work *w, struct run *run)
{
	struct json answer, j, text;
	struct json_text a, status;

	if (!read_answer(run, RUN_OUTPUT, &answer, &a)) {
		json_done(&answer);
		mcp_work_fail(w, "its output cannot be told: out of memory");
		return;
	}
	told(run);
	status = mcp_get(a, "status");
	json_init(&text);
	add_command_text(&text, a);
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, text.buf != NULL ? text.buf : "", text.len);
	mcp_work_put_box(w, &j);
	json_close(&j, ']');
	if (w->c->tool->output != NULL)
		put_structured(&j, w, a);
	/* A program that ends with another status than 0 has done what it was asked for. */
	if (!is_str(status, "ok") && (!is_str(status, "error") || w->c->tool->output == NULL))
		json_bool(&j, "isError", true);
	j.failed = j.failed || text.failed;
	mcp_result_end(mcp_work_end(w), &j);
	json_done(&text);
	json_done(&answer);
}

static void command_go(struct mcp_work *w)
{
	const struct command_in *in = w->in;
	struct json j;

	w->ran = command_ran;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "shell", in->command.p, in->command.n);
	if (in->cwd.set)
		json_bytes(&j, "cwd", in->cwd.p, in->cwd.n);
	if (in->input.set)
		json_bytes(&j, "stdin", in->input.p, in->input.n);
	put_timeout(&j, in->timeout_ms);
	json_str(&j, "on_disconnect", "interrupt");
	json_close(&j, '}');
	mcp_work_ask(w, command_create, &j);
}

void mcp_command(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_command_fields, offsetof(struct command_in, box), command_go);

	if (w != NULL)
		mcp_work_begin(w);
}

static void install_go(struct mcp_work *w)
{
	static const char *const words[] = { "python3",
					     "-m",
					     "pip",
					     "install",
					     "--no-input",
					     "--user",
					     "--break-system-packages",
					     "--" };
	const struct install_in *in = w->in;
	struct json j;

	w->ran = command_ran;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "argv", '[');
	for (unsigned int i = 0; i < ARRAY_LEN(words); i++)
		json_str(&j, NULL, words[i]);
	json_bytes(&j, NULL, in->name.p, in->name.n);
	json_close(&j, ']');
	json_str(&j, "on_disconnect", "interrupt");
	json_close(&j, '}');
	mcp_work_ask(w, command_create, &j);
}

void mcp_install(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_install_fields, offsetof(struct install_in, box), install_go);

	if (w != NULL)
		mcp_work_begin(w);
}

/* --- boxes ------------------------------------------------------------------------------------ */

static void answer_empty(struct mcp_work *w)
{
	struct json j;

	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	json_close(&j, ']');
	mcp_result_end(mcp_work_end(w), &j);
}

static void on_done(struct mcp_work *w, const char *body, size_t n)
{
	(void)body;
	(void)n;
	answer_empty(w);
}

static void reset_go(struct mcp_work *w)
{
	const struct abox *a = abox_find(&w->r, true);
	struct json j;

	if (a == NULL)
		return;
	if (kernel_named(a, "main", 4) == NULL) { /* nothing has run: it is as new */
		answer_empty(w);
		return;
	}
	w->replied = on_done;
	json_init(&j);
	json_raw(&j, "{}", 2);
	mcp_work_ask(w, kernel_restart, &j);
}

void mcp_reset(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_reset_fields, offsetof(struct box_in, box), reset_go);

	if (w == NULL)
		return;
	if (!mcp_work_find_box(w)) {
		answer_empty(w);
		return;
	}
	w->r.param[0] = (struct http_slice){ w->box, strlen(w->box) };
	reset_go(w);
}

static void on_created(struct mcp_work *w, const char *body, size_t n)
{
	struct json_text root = { NULL, 0 };
	struct json text, j;

	(void)json_text_read(body, n, &root);
	json_init(&text);
	json_raw(&text, "", 0);
	add_string(&text, mcp_get(root, "id"));
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, text.buf != NULL ? text.buf : "", text.len);
	json_close(&j, ']');
	json_open(&j, "structuredContent", '{');
	json_text_put(mcp_get(root, "id"), &j, "box");
	json_close(&j, '}');
	j.failed = j.failed || text.failed;
	mcp_result_end(mcp_work_end(w), &j);
	json_done(&text);
}

void mcp_create_box(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_create_fields, offsetof(struct box_in, box), NULL);
	const struct box_in *in;
	struct json j;

	if (w == NULL)
		return;
	in = w->in;
	w->replied = on_created;
	json_init(&j);
	json_open(&j, NULL, '{');
	if (in->name.set)
		json_bytes(&j, "name", in->name.p, in->name.n);
	json_close(&j, '}');
	mcp_work_ask(w, box_create, &j);
}

/* Their handles, a line each; and what they lack. */
static void on_forked(struct mcp_work *w, const char *body, size_t n)
{
	struct json_text root = { NULL, 0 }, key, value;
	struct json_walk walk;
	struct json text, j;

	(void)json_text_read(body, n, &root);
	json_init(&text);
	json_raw(&text, "", 0);
	walk = json_walk(mcp_get(root, "boxes"));
	while (json_walk_next(&walk, &key, &value)) {
		add_string(&text, mcp_get(value, "id"));
		json_raw(&text, "\n", 1);
	}
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, text.buf != NULL ? text.buf : "", text.len);
	json_close(&j, ']');
	json_open(&j, "structuredContent", '{');
	json_open(&j, "boxes", '[');
	walk = json_walk(mcp_get(root, "boxes"));
	while (json_walk_next(&walk, &key, &value))
		json_text_put(mcp_get(value, "id"), &j, NULL);
	json_close(&j, ']');
	json_text_put(mcp_get(root, "lost"), &j, "lost");
	json_close(&j, '}');
	j.failed = j.failed || text.failed;
	mcp_result_end(mcp_work_end(w), &j);
	json_done(&text);
}

void mcp_fork_box(struct mcp_call *c)
{
	struct mcp_work *w = mcp_work_new(c, &mcp_fork_fields, offsetof(struct box_in, box), NULL);
	const struct box_in *in;
	struct json j;

	if (w == NULL)
		return;
	if (!mcp_work_find_box(w)) {
		mcp_work_fail(w, "there is no box yet that could be forked");
		return;
	}
	in = w->in;
	w->replied = on_forked;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_i64(&j, "count", in->count);
	json_close(&j, '}');
	mcp_work_ask(w, box_fork, &j);
}

void mcp_delete_box(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_delete_fields, offsetof(struct box_in, box), NULL);

	if (w == NULL)
		return;
	(void)mcp_work_find_box(w);
	w->replied = on_done;
	mcp_work_ask(w, box_delete, NULL);
}
