/* SPDX-License-Identifier: Apache-2.0 */
/* What an answer says of a file that is its body: type, name, times. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct req;

/* Its type, by the end of its name. */
const char *file_type(const char *name);

enum { FILE_DISPOSITION = 1024, FILE_DATE = 32 };

/* The value of Content-Disposition for an attachment of this name, any bytes (RFC 6266): a quoted text for old clients and, where
 * that is not all of it, the name in UTF-8. */
void file_disposition(const char *name, char out[FILE_DISPOSITION]);

/* A time as headers have it (RFC 9110): of Last-Modified. */
void file_date(uint64_t ns, char out[FILE_DATE]);

/* Headers of an answer whose body somebody in a box has written: a browser is to save it and never to take it for a page of ours,
 * with which it shares its origin. */
void file_head_hostile(struct req *r, const char *name);
