// SPDX-License-Identifier: Apache-2.0
#include "cli/show.h"

#include "base/base64.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/say.h"
#include "cli/wake.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { TEXT_MAX = 256 * 1024 * 1024, OUT = 0, ERR = 1 };

bool show_has_colour(int fd)
{
	const char *no = getenv("NO_COLOR");

	return isatty(fd) && (no == NULL || no[0] == '\0');
}

static bool is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static enum filter_mode mode_of(int fd)
{
	if (!isatty(fd))
		return FILTER_NOTHING;
	return show_has_colour(fd) ? FILTER_SAFE : FILTER_PLAIN;
}

void show_init(struct show *s, const char *images, bool prompts)
{
	*s = (struct show){ .images = images, .prompts = prompts };
	s->colour = show_has_colour(STDOUT_FILENO);
	s->at_line_begin[OUT] = s->at_line_begin[ERR] = true;
	s->same_terminal = is_same_file(STDOUT_FILENO, STDERR_FILENO);
	filter_init(&s->filter[OUT], mode_of(STDOUT_FILENO));
	filter_init(&s->filter[ERR], mode_of(STDERR_FILENO));
	bytes_init(&s->text, TEXT_MAX);
}

void show_done(struct show *s)
{
	bytes_done(&s->text);
}

/* --- writing -------------------------------------------------------------------------------------- */

/* What has been collected, to standard output or standard error. */
static void flush(struct show *s, int to)
{
	const char *p = bytes_str(&s->text);
	size_t n = s->text.n;
	int fd = to == OUT ? STDOUT_FILENO : STDERR_FILENO;

	if (n > 0) {
		s->at_line_begin[to] = p[n - 1] == '\n';
		if (s->same_terminal)
			s->at_line_begin[1 - to] = s->at_line_begin[to];
	}
	if (s->error == 0)
		s->error = wake_write(fd, p, n, s->heard, s->arg);
	bytes_clear(&s->text);
}

static void own_line(struct show *s, int to)
{
	if (!s->at_line_begin[to])
		bytes_puts(&s->text, "\n");
}

static void put_text(struct show *s, int to, const char *p, size_t n)
{
	filter_put(&s->filter[to], p, n, &s->text);
}

void show_line(struct show *s, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	own_line(s, OUT);
	bytes_put(&s->text, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
	bytes_puts(&s->text, "\n");
	flush(s, OUT);
}

/* --- events --------------------------------------------------------------------------------------- */

static void clear(struct show *s)
{
	s->clear_later = false;
	if (s->filter[OUT].mode == FILTER_SAFE)
		bytes_puts(&s->text, "\r\033[K");
}

static void put_output(struct show *s, int to, const char *p, size_t n)
{
	if (s->clear_later && n > 0)
		clear(s);
	put_text(s, to, p, n);
}

void show_stream(struct show *s, const struct jsonr_node *data, int to)
{
	uint8_t *bytes;
	size_t n;

	if (data == NULL || data->type != JSONR_STRING)
		return;
	bytes = s->is_text ? NULL : malloc(BASE64_BYTES_MAX((size_t)data->len) + 1);
	if (s->is_text)
		put_output(s, to, data->string, data->len);
	else if (bytes != NULL && base64_decode(data->string, data->len, bytes, &n) == 0)
		put_output(s, to, (const char *)bytes, n);
	free(bytes);
	flush(s, to);
}

static void put_mark(struct show *s, int64_t count)
{
	if (!s->prompts)
		return;
	bytes_printf(&s->text,
		     s->colour ? "\033[31mOut[\033[1m%lld\033[0;31m]: \033[0m" : "Out[%lld]: ",
		     (long long)count);
}

/* The plainest form that there is. */
static const struct jsonr_node *plainest(const struct jsonr *d, const struct jsonr_node *data,
					 const char **type)
{
	static const char *const types[] = { "text/plain", "text/markdown", "text/latex" };

	for (unsigned int i = 0; i < ARRAY_LEN(types); i++) {
		const struct jsonr_node *n = jsonr_get(d, data, types[i]);

		if (n != NULL && n->type == JSONR_STRING) {
			*type = types[i];
			return n;
		}
	}
	return NULL;
}

static void show_data(struct show *s, const struct follow_event *e, bool is_result)
{
	const struct jsonr_node *data = jsonr_get(e->doc, e->data, "data");
	const char *type = "";
	const struct jsonr_node *text = plainest(e->doc, data, &type);
	const struct jsonr_node *first = jsonr_first(e->doc, data);

	if (is_result)
		s->count = node_int(e->doc, e->data, "execution_count", s->count);
	if (s->clear_later)
		clear(s);
	own_line(s, OUT);
	if (is_result)
		put_mark(s, s->count);
	if (text != NULL) {
		if (is_result && s->prompts && strchr(text->string, '\n') != NULL)
			bytes_puts(&s->text, "\n"); /* so that columns stay columns */
		put_text(s, OUT, text->string, text->len);
		bytes_puts(&s->text, "\n");
	} else if (is_result) {
		bytes_puts(&s->text, "\n");
	}
	flush(s, OUT);
	if (!show_image(s, e->doc, data) && text == NULL && first != NULL && first->key != NULL) {
		put_text(s, OUT, "[", 1);
		put_text(s, OUT, first->key, first->key_len);
		put_text(s, OUT, "]\n", 2);
		flush(s, OUT);
	}
}

/* Kernels colour it for everybody; who is no terminal gets the words. */
static void show_error(struct show *s, const struct follow_event *e)
{
	const struct jsonr_node *lines = jsonr_get(e->doc, e->data, "traceback");
	enum filter_mode mode = s->filter[ERR].mode;
	bool any = false;

	filter_init(&s->filter[ERR], mode == FILTER_NOTHING ? FILTER_PLAIN : mode);
	own_line(s, ERR);
	for (const struct jsonr_node *l = jsonr_first(e->doc, lines); l != NULL;
	     l = jsonr_next(e->doc, l)) {
		if (l->type != JSONR_STRING)
			continue;
		put_text(s, ERR, l->string, l->len);
		bytes_puts(&s->text, "\n");
		any = true;
	}
	if (!any) {
		const char *name = node_str(e->doc, e->data, "name");
		const char *value = node_str(e->doc, e->data, "value");

		put_text(s, ERR, name, strlen(name));
		put_text(s, ERR, ": ", 2);
		put_text(s, ERR, value, strlen(value));
		bytes_puts(&s->text, "\n");
	}
	filter_end(&s->filter[ERR], &s->text);
	filter_init(&s->filter[ERR], mode);
	flush(s, ERR);
}

static void show_gap(struct show *s)
{
	show_line(s, "[a part of the output is not held any more]");
}

void show_event(struct show *s, const struct follow_event *e)
{
	if (e->data == NULL) { /* of a depth or size that nobody reads */
		char name[64];

		(void)snprintf(name, sizeof(name), "%s", e->name);
		say_harmless(name); /* it is the server's */
		show_line(s, "[a %s that cannot be shown]", name);
		return;
	}
	if (strcmp(e->name, "stdout") == 0) {
		show_stream(s, jsonr_get(e->doc, e->data, "data"), OUT);
	} else if (strcmp(e->name, "stderr") == 0) {
		show_stream(s, jsonr_get(e->doc, e->data, "data"), ERR);
	} else if (strcmp(e->name, "display") == 0 || strcmp(e->name, "update") == 0) {
		show_data(s, e, false);
	} else if (strcmp(e->name, "result") == 0) {
		show_data(s, e, true);
	} else if (strcmp(e->name, "error") == 0) {
		show_error(s, e);
	} else if (strcmp(e->name, "gap") == 0) {
		show_gap(s);
	} else if (strcmp(e->name, "clear") == 0) {
		if (node_bool(e->doc, e->data, "wait"))
			s->clear_later = true;
		else
			clear(s);
		flush(s, OUT);
	}
}

void show_end(struct show *s)
{
	filter_end(&s->filter[ERR], &s->text);
	flush(s, ERR);
	filter_end(&s->filter[OUT], &s->text);
	flush(s, OUT);
	s->clear_later = false;
	s->nimages = 0;
}
