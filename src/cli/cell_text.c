// SPDX-License-Identifier: Apache-2.0
#include "cli/cell_text.h"

#include <string.h>

bool cell_is_blank(const char *text)
{
	return text[strspn(text, " \t\n")] == '\0';
}

bool cell_is_exit(const char *text)
{
	static const char *const words[] = { "exit", "quit", "exit()", "quit()" };
	size_t from = strspn(text, " \t\n"), n = strlen(text);

	while (n > from && strchr(" \t\n", text[n - 1]) != NULL)
		n--;
	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i]) == n - from && strncmp(text + from, words[i], n - from) == 0)
			return true;
	return false;
}

size_t cell_chars(const char *text, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes && text[i] != '\0'; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

size_t cell_bytes(const char *text, size_t chars)
{
	size_t i = 0;

	for (; text[i] != '\0'; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80 && chars-- == 0)
			break;
	return i;
}

/* --- whether it goes on --------------------------------------------------------------------------- */

struct scan {
	int depth;      /* of brackets */
	char quote;     /* of the string that is open; 0: none */
	bool triple;    /* three of them */
	char last;      /* the last character that is neither blank nor of a comment, in its line */
	bool continues; /* the last line ends with a backslash */
	bool last_blank;            /* the last line is empty */
	unsigned int lines, indent; /* indent: of the last line that is not blank */
	bool magic;
};

/* A quote at p; how many characters it takes. */
static size_t take_quote(struct scan *s, const char *p)
{
	bool three = p[1] == p[0] && p[2] == p[0];

	if (s->quote == 0) {
		s->quote = *p;
		s->triple = three;
		return three ? 3 : 1;
	}
	if (s->quote != *p || (s->triple && !three))
		return 1;
	s->quote = 0;
	return s->triple ? 3 : 1;
}

static void begin_line(struct scan *s, const char *p)
{
	size_t blanks = strspn(p, " \t");

	s->lines++;
	s->continues = false;
	s->last_blank = p[blanks] == '\0' || p[blanks] == '\n';
	if (!s->last_blank) {
		s->last = 0;
		s->indent = (unsigned int)blanks;
	}
}

/* One character, or one quote; how many bytes. */
static size_t step(struct scan *s, const char *p)
{
	if (*p == '\\') {
		s->continues = p[1] == '\n' || p[1] == '\0';
		s->last = '\\';
		return p[1] == '\0' || p[1] == '\n' ? 1 : 2;
	}
	if (*p == '\'' || *p == '"') {
		s->last = *p;
		return take_quote(s, p);
	}
	if (s->quote == 0 && *p == '#')
		return strcspn(p, "\n");
	if (strchr(" \t", *p) == NULL)
		s->last = *p;
	if (s->quote == 0 && strchr("([{", *p) != NULL)
		s->depth++;
	if (s->quote == 0 && strchr(")]}", *p) != NULL)
		s->depth--;
	return 1;
}

static void scan(struct scan *s, const char *p)
{
	*s = (struct scan){ .magic = strncmp(p, "%%", 2) == 0 };
	begin_line(s, p);
	while (*p != '\0') {
		if (*p != '\n') {
			p += step(s, p);
			continue;
		}
		if (!s->triple && !s->continues)
			s->quote = 0; /* that string was never closed */
		p++;
		begin_line(s, p);
	}
}

bool cell_goes_on(const char *text, unsigned int *indent)
{
	struct scan s;
	bool block;

	scan(&s, text);
	*indent = s.indent;
	if (s.quote != 0 && s.triple) {
		*indent = 0;
		return true;
	}
	if (s.magic)
		return !s.last_blank || s.lines < 2;
	if (s.depth > 0 || s.continues)
		return true;
	block = s.last == ':' || text[strspn(text, " \t\n")] == '@';
	if (s.last == ':')
		*indent += 4;
	/* An indented line belongs to a block, which an empty one ends. */
	return block ? s.last == ':' || !s.last_blank
		     : s.indent > 0 && s.lines > 1 && !s.last_blank;
}
