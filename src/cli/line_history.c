// SPDX-License-Identifier: Apache-2.0
/* The history, for who edits a line: one entry before another, and the search by a part of it. */
#include "cli/line.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>

static size_t entries(const struct line *l)
{
	return l->history != NULL && (l->flags & LINE_PLAIN) == 0 ? l->history->n : 0;
}

static void show_entry(struct line *l, size_t entry)
{
	const char *text;

	if (l->entry == entries(l)) { /* from here it can be come back to */
		free(l->own);
		l->own = strdup(bytes_str(&l->text));
	}
	text = entry < entries(l) ? l->history->v[entry] : l->own != NULL ? l->own : "";
	l->entry = entry;
	line_set(l, text, strlen(text));
}

void line_older(struct line *l)
{
	if (l->entry == 0 || entries(l) == 0)
		line_bell(l);
	else
		show_entry(l, l->entry - 1);
}

void line_newer(struct line *l)
{
	if (l->entry >= entries(l))
		line_bell(l);
	else
		show_entry(l, l->entry + 1);
}

/* --- the search ----------------------------------------------------------------------------------- */

/* The wanted text, as much of it as a prompt has room for. */
static void show_search(struct line *l)
{
	const char *wanted = bytes_str(&l->wanted);
	size_t n = l->wanted.n;

	while (n > 100)
		n -= char_cluster(wanted + l->wanted.n - n, n);
	(void)snprintf(l->prompt_search, sizeof(l->prompt_search), "(%ssearch: %.*s) ",
		       l->missing ? "failed " : "", (int)n, wanted + l->wanted.n - n);
}

/* The newest entry at or before `from` that has the wanted text in it. */
static void look(struct line *l, size_t from)
{
	const char *place;

	l->missing = false;
	for (size_t i = from + 1; i-- > 0 && l->wanted.n > 0;) {
		if (i >= entries(l))
			continue;
		place = strstr(l->history->v[i], bytes_str(&l->wanted));
		if (place == NULL)
			continue;
		l->found = i;
		line_set(l, l->history->v[i], (size_t)(place - l->history->v[i]));
		show_search(l);
		return;
	}
	if (l->wanted.n == 0) {
		line_set(l, l->before.text != NULL ? l->before.text : "", l->before.at);
	} else {
		l->missing = true;
		line_bell(l);
	}
	show_search(l);
}

void line_search_begin(struct line *l)
{
	if (entries(l) == 0) {
		line_bell(l);
		return;
	}
	free(l->before.text);
	l->before = (struct line_state){ strdup(bytes_str(&l->text)), l->at };
	l->searching = true;
	l->missing = false;
	l->found = entries(l);
	bytes_clear(&l->wanted);
	show_search(l);
}

void line_search_end(struct line *l, bool keep)
{
	l->searching = false;
	if (!keep)
		line_set(l, l->before.text != NULL ? l->before.text : "", l->before.at);
	else if (l->found < entries(l)) {
		if (l->entry == entries(l)) {
			free(l->own);
			l->own = l->before.text;
			l->before.text = NULL;
		}
		l->entry = l->found;
	}
}

static void older_match(struct line *l)
{
	if (l->found > 0) {
		look(l, l->found - 1);
		return;
	}
	l->missing = true;
	line_bell(l);
	show_search(l);
}

bool line_search_key(struct line *l, enum key key, const char *text, size_t len)
{
	size_t last = l->found < entries(l) ? l->found : entries(l) - 1;

	if (key == KEY_CHAR) {
		bytes_put(&l->wanted, text, len);
		look(l, last);
	} else if (key == KEY_BACKSPACE) {
		size_t n = 0;

		while (n + char_cluster(bytes_str(&l->wanted) + n, l->wanted.n - n) < l->wanted.n)
			n += char_cluster(bytes_str(&l->wanted) + n, l->wanted.n - n);
		bytes_splice(&l->wanted, n, l->wanted.n - n, "", 0);
		look(l, entries(l) - 1);
	} else if (key == KEY_SEARCH || key == KEY_OLDER || key == KEY_UP) {
		older_match(l);
	} else if (key == KEY_ABORT || key == KEY_BREAK) {
		line_search_end(l, false);
	} else if (key == KEY_ENTER || key == KEY_TAB) {
		line_search_end(l, true);
	} else if (key != KEY_NONE) {
		line_search_end(l, true);
		return false;
	}
	return true;
}
