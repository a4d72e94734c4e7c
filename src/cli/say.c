// SPDX-License-Identifier: Apache-2.0
#include "cli/say.h"

#include "cli/verbs.h"

#include <stdarg.h>
#include <stdio.h>

/* Names and texts may come out of a box: no escape sequence reaches the terminal. */
static void harmless(char *s)
{
	for (; *s != '\0'; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void say(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	harmless(text);
	(void)fprintf(stderr, "glovebox: %s\n", text);
}

int say_err(const struct err *e)
{
	say("%s", e->text);
	if (e->hint[0] != '\0')
		say("%s", e->hint);
	return EXIT_GLOVEBOX;
}
