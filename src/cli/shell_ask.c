// SPDX-License-Identifier: Apache-2.0
/*
 * What the kernel is asked while a cell is typed: how a word can go on, and whether the cell is whole. A server that does
 * not know these calls, or a kernel that is busy with something else, is done without.
 */
#include "cli/shell.h"

#include "base/own.h"
#include "base/utf8.h"
#include "cli/cell_text.h"

#include <string.h>

enum {
	COMPLETE_MS = 3000,
	IS_COMPLETE_MS = 1000,
	INDENT_MAX = 60,
	LIST_ROWS = 12,
	MATCHES_MAX = 1000,
};

/* A question about the text in the editor. 0: *r has an answer of status 200. *unknown: the server has no such call. */
static int ask(struct shell *s, const char *tail, bool cursor, unsigned int timeout_ms,
	       struct reply *r, bool *unknown)
{
	struct call q = { .method = "POST",
			  .path = shell_path(s, tail),
			  .timeout_ms = timeout_ms,
			  .flags = CALL_INT };
	const char *text = bytes_str(&s->line.text);
	struct json j;
	struct err ignored;
	int rc;

	if (*unknown)
		return -1;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "code", text);
	if (cursor)
		json_u64(&j, "cursor", cell_chars(text, s->line.at));
	json_str(&j, "kernel", s->o->kernel);
	json_close(&j, '}');
	q.body = &j;
	rc = client_call(&s->c, &q, r, &ignored);
	json_done(&j);
	if (rc < 0)
		return -1;
	*unknown = r->status == 404 || r->status == 405;
	s->ended |= shell_is_gone(r);
	if (r->status == 200)
		return 0;
	reply_free(r);
	return -1;
}

bool shell_is_complete(struct shell *s, unsigned int *indent)
{
	const char *text = bytes_str(&s->line.text), *status, *spaces;
	struct reply r;
	bool goes_on;
	size_t n;

	*indent = 0;
	if (cell_is_blank(text) || cell_is_exit(text))
		return true;
	if (ask(s, "/is_complete", false, IS_COMPLETE_MS, &r, &s->no_is_complete) < 0)
		return !cell_goes_on(text, indent);
	status = node_str(&r.doc, reply_root(&r), "status");
	spaces = node_str(&r.doc, reply_root(&r), "indent");
	goes_on = strcmp(status, "incomplete") == 0;
	n = strspn(spaces, " ");
	*indent = (unsigned int)(n < INDENT_MAX ? n : INDENT_MAX);
	reply_free(&r);
	return !goes_on;
}

/* --- completion ----------------------------------------------------------------------------------- */

struct matches {
	const char *v[MATCHES_MAX];
	size_t n;
	size_t from, to; /* what they stand for, in bytes of the text */
};

/* Nothing that would not be typed, or that a terminal would act on. */
static bool is_plain(const struct jsonr_node *n)
{
	const unsigned char *p = (const unsigned char *)n->string;
	uint32_t c;

	if (n->type != JSONR_STRING || n->len == 0)
		return false;
	for (size_t i = 0, len; i < n->len; i += len) {
		len = utf8_next(p + i, n->len - i, &c);
		if (len == 0 || utf8_is_tricky(c))
			return false;
	}
	return true;
}

static void take_matches(const struct shell *s, const struct reply *r, struct matches *m)
{
	const struct jsonr_node *root = reply_root(r);
	const struct jsonr_node *list = jsonr_get(&r->doc, root, "matches");
	const char *text = bytes_str(&s->line.text);
	int64_t from = node_int(&r->doc, root, "start", -1),
		to = node_int(&r->doc, root, "end", -1);

	*m = (struct matches){ 0 };
	if (from < 0 || to < from)
		return;
	m->from = cell_bytes(text, (size_t)from);
	m->to = cell_bytes(text, (size_t)to);
	for (const struct jsonr_node *n = jsonr_first(&r->doc, list);
	     n != NULL && m->n < MATCHES_MAX; n = jsonr_next(&r->doc, n))
		if (is_plain(n))
			m->v[m->n++] = n->string;
}

/* How much all of them have in common, in whole characters. */
static size_t common(const struct matches *m)
{
	size_t n = strlen(m->v[0]);

	for (size_t i = 1; i < m->n; i++) {
		size_t k = 0;

		while (k < n && m->v[i][k] == m->v[0][k])
			k++;
		n = k;
	}
	while (n > 0 && ((unsigned char)m->v[0][n] & 0xc0) == 0x80)
		n--;
	return n;
}

/* In columns below the text, as many as fit. */
static void show_list(struct shell *s, const struct matches *m)
{
	struct bytes *out = &s->line.out;
	unsigned int widest = 0, columns;
	size_t shown;

	for (size_t i = 0; i < m->n; i++) {
		unsigned int width = text_width(m->v[i], strlen(m->v[i]));

		if (width > widest)
			widest = width;
	}
	widest += 2;
	columns = s->line.screen.cols / widest > 0 ? s->line.screen.cols / widest : 1;
	shown = (size_t)columns * LIST_ROWS;
	shown = m->n < shown ? m->n : shown;
	line_leave(&s->line);
	for (size_t i = 0; i < shown; i++) {
		unsigned int width = text_width(m->v[i], strlen(m->v[i]));
		bool last = (i + 1) % columns == 0 || i + 1 == shown;

		bytes_puts(out, m->v[i]);
		for (unsigned int k = width; k < widest && !last; k++)
			bytes_puts(out, " ");
		if (last)
			bytes_puts(out, "\n");
	}
	if (shown < m->n)
		bytes_printf(out, "and %zu more\n", m->n - shown);
}

void shell_complete(struct shell *s, bool again)
{
	static struct matches m;
	struct reply r;
	size_t n;

	if (ask(s, "/complete", true, COMPLETE_MS, &r, &s->no_complete) < 0) {
		line_bell(&s->line);
		shell_flush(s);
		return;
	}
	take_matches(s, &r, &m);
	n = m.n > 0 ? common(&m) : 0;
	if (m.n > 0 && (m.n == 1 || n > m.to - m.from))
		line_replace(&s->line, m.from, m.to - m.from, m.v[0], n);
	else if (m.n > 1 && again)
		show_list(s, &m);
	else
		line_bell(&s->line);
	reply_free(&r);
	line_draw(&s->line);
	shell_flush(s);
}
