// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_str[] = {
	[ERR_NONE] = "none",   [ERR_USAGE] = "usage", [ERR_INPUT] = "input",
	[ERR_LAYER] = "layer", [ERR_SYS] = "system",  [ERR_PROTO] = "protocol",
	[ERR_LIMIT] = "limit",
};
_Static_assert(sizeof(kind_str) / sizeof(kind_str[0]) == ERR_KIND_MAX, "a kind lacks its name");

const char *err_kind_str(enum err_kind kind)
{
	return (unsigned int)kind < ERR_KIND_MAX ? kind_str[kind] : "?";
}

int err_set(struct err *e, enum err_kind kind, int sys, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	e->kind = kind;
	e->sys = sys;
	e->hint[0] = '\0';
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	if (sys != 0)
		(void)snprintf(e->text + n, sizeof(e->text) - n, ": %s", strerror(sys));
	return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char old[ERR_TEXT];
	va_list ap;
	size_t n;

	(void)memcpy(old, e->text, sizeof(old));
	va_start(ap, fmt);
	(void)vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	(void)snprintf(e->text + n, sizeof(e->text) - n, ": %s", old);
	return -1;
}

int err_hint(struct err *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e->hint, sizeof(e->hint), fmt, ap);
	va_end(ap);
	return -1;
}
