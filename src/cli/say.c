// SPDX-License-Identifier: Apache-2.0
#include "cli/say.h"

#include "base/utf8.h"
#include "cli/verbs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names and texts may come out of a box: nothing that a terminal would act on reaches it. */
void say_harmless(char *s)
{
	unsigned char *p = (unsigned char *)s;
	size_t n = strlen(s);

	while (n > 0) {
		uint32_t c = 0;
		size_t len = utf8_next(p, n, &c);

		if (len == 0 || utf8_is_tricky(c))
			(void)memset(p, '?', len > 0 ? len : 1);
		p += len > 0 ? len : 1;
		n -= len > 0 ? len : 1;
	}
}

void say(const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say_harmless(text);
	(void)fprintf(stderr, "glovebox: %s\n", text);
}

int say_err(const struct err *e)
{
	say("%s", e->text);
	if (e->hint[0] != '\0')
		say("%s", e->hint);
	return EXIT_GLOVEBOX;
}
