/* SPDX-License-Identifier: Apache-2.0 */
/* What a person reads on standard error: one line each, control characters made harmless. */
#pragma once

#include "base/err.h"

/* "glovebox: text" and, where there is one, "glovebox: hint". Returns EXIT_GLOVEBOX. */
int say_err(const struct err *e);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A text of somebody else's, for a table or a line of our own: what a terminal would act on becomes '?'. */
void say_harmless(char *s);
