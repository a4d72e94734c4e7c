// SPDX-License-Identifier: Apache-2.0
/* The prompt: keys of the terminal into the line editor, until there is a cell. */
#include "cli/shell.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/cell_text.h"
#include "cli/term.h"
#include "cli/wake.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { ESCAPE_MS = 50, PROMPT = 64 };

void shell_flush(struct shell *s)
{
	(void)wake_write(STDOUT_FILENO, bytes_str(&s->line.out), s->line.out.n, NULL, NULL);
	bytes_clear(&s->line.out);
}

void shell_resize(struct shell *s)
{
	unsigned int cols, rows;

	term_size(&cols, &rows);
	line_resize(&s->line, cols, rows);
	shell_flush(s);
}

bool shell_take_keys(struct shell *s)
{
	char buf[4096];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n > 0)
		bytes_put(&s->typed, buf, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

void shell_again(struct shell *s)
{
	term_again();
	screen_forget(&s->line.screen);
	shell_resize(s);
}

static void make_prompts(const struct shell *s, char prompt[PROMPT], char more[PROMPT])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%lld", (long long)s->count);

	if (s->show.colour) {
		(void)snprintf(prompt, PROMPT, "\033[32mIn [\033[1m%s\033[0;32m]: \033[0m", digits);
		(void)snprintf(more, PROMPT, "\033[32m%*s...: \033[0m", n + 2, "");
	} else {
		(void)snprintf(prompt, PROMPT, "In [%s]: ", digits);
		(void)snprintf(more, PROMPT, "%*s...: ", n + 2, "");
	}
}

/* Signals at the prompt. false: one that ends us. */
static bool on_wake(struct shell *s)
{
	struct wake w;

	wake_take(&w);
	if (w.end != 0)
		return false;
	if (w.goes_on)
		shell_again(s);
	else if (w.resized)
		shell_resize(s);
	return true;
}

/* Wait for keys. false: there will be none. */
static bool await_keys(struct shell *s)
{
	while (s->typed.n == 0 && wake_end() == 0) {
		struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				       { .fd = wake_fd(), .events = POLLIN } };
		bool escape = keys_waits(&s->line.keys);

		(void)poll(p, 2, escape ? ESCAPE_MS : clock_poll_ms(s->alive_us));
		if (p[1].revents != 0 && !on_wake(s))
			return false;
		if (p[0].revents != 0 && !shell_take_keys(s))
			return false;
		if (escape && p[0].revents == 0) {
			line_escape(&s->line);
			shell_flush(s);
		}
		shell_keep_alive(s);
	}
	return wake_end() == 0;
}

static bool accept(struct shell *s)
{
	unsigned int indent = 0;

	if (shell_is_complete(s, &indent)) {
		line_accept(&s->line);
		shell_flush(s);
		return true;
	}
	line_newline(&s->line, indent);
	line_draw(&s->line);
	shell_flush(s);
	return false;
}

void shell_suspend(struct shell *s)
{
	struct wake w;

	line_leave(&s->line);
	shell_flush(s);
	term_suspend();
	wake_take(&w); /* that we go on is no news */
	if (w.end == 0)
		shell_resize(s);
}

/* Keys up to the first that asks for something. */
static enum line_said take_keys(struct shell *s)
{
	enum line_said said;
	size_t n = line_feed(&s->line, s->typed.p, s->typed.n, &said);

	bytes_splice(&s->typed, 0, n, "", 0);
	shell_flush(s);
	return said;
}

static enum shell_read edit(struct shell *s)
{
	enum line_said said = LINE_MORE, before;

	for (;;) {
		if (!await_keys(s))
			return SHELL_END;
		before = said;
		said = take_keys(s);
		if (said == LINE_ENTER && accept(s))
			return SHELL_CELL;
		if (said == LINE_COMPLETE)
			shell_complete(s, before == LINE_COMPLETE);
		if (said == LINE_SUSPEND)
			shell_suspend(s);
		if (said == LINE_EOF)
			return SHELL_EOF;
		if (said == LINE_INTERRUPT)
			return SHELL_DROPPED;
	}
}

enum shell_read shell_read(struct shell *s)
{
	char prompt[PROMPT], more[PROMPT];
	enum shell_read r;

	if (term_set(TERM_EDIT) < 0)
		return SHELL_END;
	make_prompts(s, prompt, more);
	line_begin(&s->line, prompt, more, 0);
	shell_resize(s);
	r = edit(s);
	if (r == SHELL_DROPPED)
		line_drop(&s->line);
	else if (r != SHELL_CELL)
		line_leave(&s->line);
	shell_flush(s);
	(void)term_set(TERM_AS_IT_WAS);
	return r;
}
