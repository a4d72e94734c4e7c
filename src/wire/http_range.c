// SPDX-License-Identifier: Apache-2.0
#include "wire/http_range.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MAX = 18 }; /* that surely fit; what has more lies behind every file */

/* Digits at the front of *s; false: there are none. */
static bool take_number(struct http_slice *s, uint64_t *ret)
{
	size_t n = 0, digits = 0; /* zeros before them do not count */
	uint64_t v = 0;

	while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9') {
		if (v > 0 || s->p[n] != '0')
			v = digits++ < DIGITS_MAX ? v * 10 + (uint64_t)(s->p[n] - '0') : INT64_MAX;
		n++;
	}
	s->p += n;
	s->n -= n;
	*ret = v;
	return n > 0;
}

static bool take(struct http_slice *s, const char *text)
{
	size_t n = strlen(text);

	if (s->n < n || !http_slice_is_nocase((struct http_slice){ s->p, n }, text))
		return false;
	s->p += n;
	s->n -= n;
	return true;
}

void http_range_parse(struct http_slice header, struct http_range *ret)
{
	uint64_t first = 0, last = 0;
	bool has_first, has_last;

	*ret = (struct http_range){ .from = "0" };
	if (!take(&header, "bytes="))
		return;
	has_first = take_number(&header, &first);
	if (!take(&header, "-"))
		return;
	has_last = take_number(&header, &last);
	if (header.n > 0 || (!has_first && !has_last) || (has_first && has_last && last < first))
		return;
	ret->set = true;
	(void)snprintf(ret->from, sizeof(ret->from), "%s%" PRIu64, has_first ? "" : "-",
		       has_first ? first : last);
	if (has_first && has_last)
		(void)snprintf(ret->count, sizeof(ret->count), "%" PRIu64, last - first + 1);
}
