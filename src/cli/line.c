// SPDX-License-Identifier: Apache-2.0
#include "cli/line.h"

#include "base/own.h"
#include "base/utf8.h"

#include <string.h>

enum {
	OUT_MAX = 64 * 1024 * 1024,
	INDENT = 4,
};

void line_init(struct line *l, const struct history *h, unsigned int cols, unsigned int rows)
{
	*l = (struct line){ .history = h, .prompt = "", .more = "" };
	bytes_init(&l->out, OUT_MAX);
	bytes_init(&l->text, LINE_TEXT_MAX);
	bytes_init(&l->killed, LINE_TEXT_MAX);
	bytes_init(&l->wanted, 1024);
	screen_init(&l->screen, &l->out, cols, rows);
}

static void forget_undo(struct line *l)
{
	while (l->nundo > 0)
		free(l->undo[--l->nundo].text);
	l->typing = false;
}

void line_done(struct line *l)
{
	forget_undo(l);
	bytes_done(&l->out);
	bytes_done(&l->text);
	bytes_done(&l->killed);
	bytes_done(&l->wanted);
	screen_done(&l->screen);
	free(l->own);
	free(l->before.text);
}

void line_begin(struct line *l, const char *prompt, const char *more, unsigned int flags)
{
	forget_undo(l);
	bytes_clear(&l->text);
	l->at = 0;
	l->flags = flags;
	l->prompt = prompt;
	l->more = more;
	l->has_goal = false;
	l->searching = false;
	l->paste_refused = false;
	l->entry = l->history != NULL ? l->history->n : 0;
	free(l->own);
	l->own = NULL;
	screen_forget(&l->screen);
}

void line_bell(struct line *l)
{
	bytes_puts(&l->out, "\a");
}

/* --- showing -------------------------------------------------------------------------------------- */

static struct screen_view view_of(const struct line *l)
{
	bool secret = (l->flags & LINE_SECRET) != 0;

	return (struct screen_view){ .prompt = l->searching ? l->prompt_search : l->prompt,
				     .more = l->more,
				     .text = secret ? "" : bytes_str(&l->text),
				     .len = secret ? 0 : l->text.n,
				     .at = secret ? 0 : l->at };
}

void line_draw(struct line *l)
{
	struct screen_view v = view_of(l);

	screen_draw(&l->screen, &v);
}

void line_resize(struct line *l, unsigned int cols, unsigned int rows)
{
	screen_resize(&l->screen, cols, rows);
	line_draw(l);
}

void line_accept(struct line *l)
{
	struct screen_view v;

	l->searching = false;
	v = view_of(l);
	screen_finish(&l->screen, &v);
}

void line_drop(struct line *l)
{
	l->searching = false;
	l->at = l->text.n;
	line_draw(l);
	bytes_puts(&l->out, "^C");
	screen_leave(&l->screen);
}

void line_leave(struct line *l)
{
	screen_leave(&l->screen);
}

/* --- changing ------------------------------------------------------------------------------------- */

static void remember(struct line *l)
{
	if (l->nundo == LINE_UNDO) {
		free(l->undo[0].text);
		(void)memmove(l->undo, l->undo + 1, (LINE_UNDO - 1) * sizeof(l->undo[0]));
		l->nundo--;
	}
	l->undo[l->nundo].text = strdup(bytes_str(&l->text));
	l->undo[l->nundo].at = l->at;
	if (l->undo[l->nundo].text != NULL)
		l->nundo++;
}

/* Every change of the text. false: it would be too long, and nothing has changed. */
static bool splice(struct line *l, size_t from, size_t n, const char *p, size_t len)
{
	bytes_splice(&l->text, from, n, p, len);
	if (l->text.failed) {
		l->text.failed = false;
		line_bell(l);
		return false;
	}
	l->at = from + len;
	return true;
}

void line_replace(struct line *l, size_t from, size_t n, const char *p, size_t len)
{
	remember(l);
	l->typing = false;
	(void)splice(l, from, n, p, len);
}

void line_set(struct line *l, const char *text, size_t at)
{
	(void)splice(l, 0, l->text.n, text, strlen(text));
	l->at = at < l->text.n ? at : l->text.n;
	l->typing = false;
	forget_undo(l);
}

static bool insert(struct line *l, const char *p, size_t n)
{
	return splice(l, l->at, 0, p, n);
}

static void insert_spaces(struct line *l, unsigned int n)
{
	static const char spaces[] =
		"                                                                ";

	if (n > sizeof(spaces) - 1)
		n = sizeof(spaces) - 1;
	(void)insert(l, spaces, n);
}

void line_newline(struct line *l, unsigned int indent)
{
	remember(l);
	l->typing = false;
	(void)insert(l, "\n", 1);
	insert_spaces(l, indent);
}

static bool type(struct line *l, const char *p, size_t n)
{
	if (!l->typing)
		remember(l);
	l->typing = true;
	return insert(l, p, n);
}

/* What is pasted: line ends of all kinds become ours, other control characters go. It comes in pieces: behind one that
 * there is no room for nothing is taken, or the text would have holes. */
static void paste(struct line *l, const char *p, size_t n)
{
	struct bytes clean;

	if (l->paste_refused)
		return;
	bytes_init(&clean, LINE_TEXT_MAX);
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		bool second = c == '\n' && l->pasted_cr;

		l->pasted_cr = c == '\r';
		if (c == '\r' || (c == '\n' && !second))
			bytes_puts(&clean, "\n");
		else if (c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f))
			bytes_put(&clean, &c, 1);
	}
	if (clean.failed)
		line_bell(l);
	l->paste_refused = clean.failed || !type(l, bytes_str(&clean), clean.n);
	bytes_done(&clean);
}

/* --- places --------------------------------------------------------------------------------------- */

static size_t line_start(const struct line *l, size_t at)
{
	while (at > 0 && l->text.p[at - 1] != '\n')
		at--;
	return at;
}

static size_t line_end(const struct line *l, size_t at)
{
	while (at < l->text.n && l->text.p[at] != '\n')
		at++;
	return at;
}

static size_t after(const struct line *l, size_t at)
{
	return at + char_cluster(bytes_str(&l->text) + at, l->text.n - at);
}

/* Whether what is at i is no part of what stands before it. Only then is it sure where characters begin. */
static bool begins(const struct line *l, size_t i)
{
	const unsigned char *p = (const unsigned char *)l->text.p + i;
	uint32_t c;

	if ((*p & 0xc0) == 0x80)
		return false;
	return utf8_next(p, l->text.n - i, &c) == 0 || char_width(c) > 0;
}

static size_t before(const struct line *l, size_t at)
{
	size_t i = at > 0 ? at - 1 : 0;

	while (i > 0 && !begins(l, i))
		i--;
	while (after(l, i) < at)
		i = after(l, i);
	return i;
}

static bool is_word(const struct line *l, size_t at)
{
	unsigned char c = (unsigned char)l->text.p[at];

	return c >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

static size_t word_before(const struct line *l)
{
	size_t at = l->at;

	while (at > 0 && !is_word(l, before(l, at)))
		at = before(l, at);
	while (at > 0 && is_word(l, before(l, at)))
		at = before(l, at);
	return at;
}

static size_t word_after(const struct line *l)
{
	size_t at = l->at;

	while (at < l->text.n && !is_word(l, at))
		at = after(l, at);
	while (at < l->text.n && is_word(l, at))
		at = after(l, at);
	return at;
}

/* The spaces at the beginning of the line, up to the cursor; SIZE_MAX: there is something else among them. */
static size_t blanks_before(const struct line *l)
{
	size_t start = line_start(l, l->at);

	for (size_t i = start; i < l->at; i++)
		if (l->text.p[i] != ' ')
			return SIZE_MAX;
	return l->at - start;
}

static bool only_blanks_from(const struct line *l, size_t at)
{
	for (; at < l->text.n; at++)
		if (strchr(" \t\n", l->text.p[at]) == NULL)
			return false;
	return true;
}

/* --- what keys do --------------------------------------------------------------------------------- */

static void kill_text(struct line *l, size_t from, size_t to)
{
	if (from == to) {
		line_bell(l);
		return;
	}
	bytes_clear(&l->killed);
	if ((l->flags & LINE_SECRET) == 0)
		bytes_put(&l->killed, l->text.p + from, to - from);
	line_replace(l, from, to - from, "", 0);
}

static void do_left(struct line *l)
{
	l->at = before(l, l->at);
}

static void do_right(struct line *l)
{
	l->at = after(l, l->at);
}

static void do_home(struct line *l)
{
	l->at = line_start(l, l->at);
}

static void do_end(struct line *l)
{
	l->at = line_end(l, l->at);
}

static void do_page_up(struct line *l)
{
	l->at = 0;
}

static void do_page_down(struct line *l)
{
	l->at = l->text.n;
}

static void do_word_left(struct line *l)
{
	l->at = word_before(l);
}

static void do_word_right(struct line *l)
{
	l->at = word_after(l);
}

static void do_kill_word_left(struct line *l)
{
	kill_text(l, word_before(l), l->at);
}

static void do_kill_word_right(struct line *l)
{
	kill_text(l, l->at, word_after(l));
}

static void do_kill_to_begin(struct line *l)
{
	kill_text(l, line_start(l, l->at), l->at);
}

static void do_kill_to_end(struct line *l)
{
	size_t end = line_end(l, l->at);

	kill_text(l, l->at, end == l->at && end < l->text.n ? end + 1 : end);
}

static void do_yank(struct line *l)
{
	line_replace(l, l->at, 0, bytes_str(&l->killed), l->killed.n);
}

/* In front of the first word, one step of indentation goes at once. */
static void do_backspace(struct line *l)
{
	size_t blanks = blanks_before(l), from = before(l, l->at);

	if (blanks != SIZE_MAX && blanks > 0)
		from = l->at - ((blanks - 1) % INDENT + 1);
	if (l->at == 0)
		line_bell(l);
	else
		line_replace(l, from, l->at - from, "", 0);
}

static void do_delete(struct line *l)
{
	if (l->at == l->text.n)
		line_bell(l);
	else
		line_replace(l, l->at, after(l, l->at) - l->at, "", 0);
}

static void do_swap(struct line *l)
{
	size_t end = l->at == line_end(l, l->at) ? l->at : after(l, l->at);
	size_t middle = before(l, end), begin = before(l, middle);
	struct bytes two;

	if (begin < line_start(l, l->at) || middle == begin || middle == end) {
		line_bell(l);
		return;
	}
	bytes_init(&two, LINE_TEXT_MAX);
	bytes_put(&two, l->text.p + middle, end - middle);
	bytes_put(&two, l->text.p + begin, middle - begin);
	line_replace(l, begin, end - begin, bytes_str(&two), two.n);
	bytes_done(&two);
}

/* To the same column of another line, which begins at start. */
static void go_to_line(struct line *l, size_t start)
{
	size_t end = line_end(l, start), next;
	unsigned int width = 0;

	for (l->at = start; l->at < end; l->at = next) {
		next = after(l, l->at);
		width += text_width(l->text.p + l->at, next - l->at);
		if (width > l->goal)
			break;
	}
}

static void keep_goal(struct line *l)
{
	size_t start = line_start(l, l->at);

	if (!l->has_goal)
		l->goal = text_width(bytes_str(&l->text) + start, l->at - start);
	l->has_goal = true;
}

static void do_up(struct line *l)
{
	size_t start = line_start(l, l->at);

	if (start == 0) {
		line_older(l);
		return;
	}
	keep_goal(l);
	go_to_line(l, line_start(l, start - 1));
}

static void do_down(struct line *l)
{
	size_t end = line_end(l, l->at);

	if (end == l->text.n) {
		line_newer(l);
		return;
	}
	keep_goal(l);
	go_to_line(l, end + 1);
}

static void do_undo(struct line *l)
{
	struct line_state *s;

	if (l->nundo == 0) {
		line_bell(l);
		return;
	}
	s = &l->undo[--l->nundo];
	(void)splice(l, 0, l->text.n, s->text, strlen(s->text));
	l->at = s->at;
	free(s->text);
	l->typing = false;
}

static void do_clear(struct line *l)
{
	screen_clear(&l->screen);
}

static void do_newline(struct line *l)
{
	if ((l->flags & LINE_PLAIN) == 0)
		line_newline(l, 0);
}

static void do_back_tab(struct line *l)
{
	size_t start = line_start(l, l->at), n = 0, at = l->at;

	while (n < INDENT && start + n < l->text.n && l->text.p[start + n] == ' ')
		n++;
	if (n == 0)
		return;
	line_replace(l, start, n, "", 0);
	l->at = at > start + n ? at - n : start;
}

static void (*const actions[KEY_MAX])(struct line *l) = {
	[KEY_NEWLINE] = do_newline,
	[KEY_BACK_TAB] = do_back_tab,
	[KEY_BACKSPACE] = do_backspace,
	[KEY_DELETE] = do_delete,
	[KEY_LEFT] = do_left,
	[KEY_RIGHT] = do_right,
	[KEY_UP] = do_up,
	[KEY_DOWN] = do_down,
	[KEY_HOME] = do_home,
	[KEY_END] = do_end,
	[KEY_PAGE_UP] = do_page_up,
	[KEY_PAGE_DOWN] = do_page_down,
	[KEY_WORD_LEFT] = do_word_left,
	[KEY_WORD_RIGHT] = do_word_right,
	[KEY_KILL_WORD_LEFT] = do_kill_word_left,
	[KEY_KILL_WORD_RIGHT] = do_kill_word_right,
	[KEY_KILL_TO_BEGIN] = do_kill_to_begin,
	[KEY_KILL_TO_END] = do_kill_to_end,
	[KEY_YANK] = do_yank,
	[KEY_SWAP] = do_swap,
	[KEY_OLDER] = line_older,
	[KEY_NEWER] = line_newer,
	[KEY_SEARCH] = line_search_begin,
	[KEY_UNDO] = do_undo,
	[KEY_CLEAR] = do_clear,
};

/* In the middle of several lines Enter is one more; at their end it means that this is all. */
static enum line_said on_enter(struct line *l)
{
	size_t start = line_start(l, l->at), n = 0;

	if ((l->flags & LINE_PLAIN) != 0 || only_blanks_from(l, line_end(l, l->at)))
		return LINE_ENTER;
	while (start + n < l->at && l->text.p[start + n] == ' ')
		n++;
	line_newline(l, (unsigned int)n);
	return LINE_MORE;
}

static enum line_said on_tab(struct line *l)
{
	size_t blanks = blanks_before(l);

	if ((l->flags & LINE_PLAIN) != 0) {
		(void)type(l, "\t", 1);
		return LINE_MORE;
	}
	if (blanks == SIZE_MAX)
		return LINE_COMPLETE;
	remember(l);
	insert_spaces(l, (unsigned int)(INDENT - blanks % INDENT));
	return LINE_MORE;
}

static enum line_said on_eof(struct line *l)
{
	if (l->text.n == 0)
		return LINE_EOF;
	do_delete(l);
	return LINE_MORE;
}

static enum line_said on_key(struct line *l, enum key key, const char *text, size_t len)
{
	if (key != KEY_UP && key != KEY_DOWN)
		l->has_goal = false;
	if (key != KEY_CHAR && key != KEY_PASTE)
		l->typing = false;
	switch ((int)key) {
	case KEY_CHAR:
		(void)type(l, text, len);
		return LINE_MORE;
	case KEY_PASTE:
		paste(l, text, len);
		return LINE_MORE;
	case KEY_PASTE_END:
		l->paste_refused = false;
		return LINE_MORE;
	case KEY_ENTER:
		return on_enter(l);
	case KEY_TAB:
		return on_tab(l);
	case KEY_EOF:
		return on_eof(l);
	case KEY_BREAK:
		return LINE_INTERRUPT;
	case KEY_STOP:
		return LINE_SUSPEND;
	default:
		if (actions[key] != NULL)
			actions[key](l);
		return LINE_MORE;
	}
}

size_t line_feed(struct line *l, const char *p, size_t n, enum line_said *said)
{
	size_t used = 0;

	*said = LINE_MORE;
	while (used < n && *said == LINE_MORE) {
		enum key key;
		const char *text;
		size_t len;

		used += keys_take(&l->keys, p + used, n - used, &key, &text, &len);
		if (key == KEY_NONE || (l->searching && line_search_key(l, key, text, len)))
			continue;
		*said = on_key(l, key, text, len);
	}
	line_draw(l);
	return used;
}

void line_escape(struct line *l)
{
	enum key key = keys_escape(&l->keys);

	if (l->searching && key == KEY_ABORT)
		line_search_end(l, false);
	line_draw(l);
}
