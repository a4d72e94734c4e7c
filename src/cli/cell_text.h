/* SPDX-License-Identifier: Apache-2.0 */
/* What can be told of a cell without asking its kernel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Whether a cell that is being typed goes on: brackets or quotes are open, a block begins, or it has begun and no empty line
 * ends it. *indent: how far the next line is to be indented. A guess, for servers and kernels that do not answer. */
bool cell_goes_on(const char *text, unsigned int *indent);

/* Whether somebody wants to leave by typing exit, quit, exit() or quit(). */
bool cell_is_exit(const char *text);

bool cell_is_blank(const char *text);

/* Characters before a byte, and the other way round: the API counts as Python does. */
size_t cell_chars(const char *text, size_t bytes);
size_t cell_bytes(const char *text, size_t chars);
