// SPDX-License-Identifier: Apache-2.0
#include "wire/sse.h"

#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sse_init(struct sse *s, size_t max)
{
	*s = (struct sse){ .max = max };
}

void sse_done(struct sse *s)
{
	free(s->line);
	free(s->data);
	sse_init(s, s->max);
}

static void begin_event(struct sse *s)
{
	(void)memcpy(s->next_id, s->last_id, sizeof(s->next_id));
	s->ndata = 0;
	s->name[0] = '\0';
	s->id = 0;
	s->has_data = false;
}

void sse_restart(struct sse *s)
{
	s->nline = 0;
	begin_event(s);
}

/* Add to one of the two buffers; a NUL stands behind it. Both together stay below the bound. */
static int add(const struct sse *s, char **buf, size_t *len, size_t *cap, const char *p, size_t n)
{
	if (n > s->max || s->nline + s->ndata > s->max - n)
		return -E2BIG;
	if (*len + n + 1 > *cap) {
		size_t more = *cap * 2 + n + 256;
		char *fresh = realloc(*buf, more);

		if (fresh == NULL)
			return -ENOMEM;
		*buf = fresh;
		*cap = more;
	}
	if (n > 0)
		(void)memcpy(*buf + *len, p, n);
	*len += n;
	(*buf)[*len] = '\0';
	return 0;
}

static int take_data(struct sse *s, const char *p, size_t n)
{
	int r = 0;

	if (s->has_data)
		r = add(s, &s->data, &s->ndata, &s->data_cap, "\n", 1);
	s->has_data = true;
	return r < 0 ? r : add(s, &s->data, &s->ndata, &s->data_cap, p, n);
}

static bool is_field(const struct sse *s, size_t len, const char *name)
{
	return len == strlen(name) && memcmp(s->line, name, len) == 0;
}

/* It is said back in a header: nothing that would end one. */
static void take_id(struct sse *s, const char *p, size_t n)
{
	bool fits = n < sizeof(s->next_id);

	for (size_t i = 0; i < n && fits; i++)
		fits = (unsigned char)p[i] >= ' ' && p[i] != 0x7f;
	if (fits && n > 0)
		(void)memcpy(s->next_id, p, n);
	s->next_id[fits ? n : 0] = '\0';
	if (strlen(p) != n || str_to_u64(p, INT64_MAX, &s->id) < 0)
		s->id = 0;
}

/* One line that is neither empty nor a comment. */
static int take_field(struct sse *s)
{
	const char *colon = memchr(s->line, ':', s->nline);
	size_t len = colon != NULL ? (size_t)(colon - s->line) : s->nline;
	const char *value = colon != NULL ? colon + 1 : s->line + s->nline;
	size_t n;

	if (colon != NULL && *value == ' ')
		value++;
	n = (size_t)(s->line + s->nline - value);
	if (is_field(s, len, "data"))
		return take_data(s, value, n);
	if (is_field(s, len, "event")) {
		if (n >= sizeof(s->name))
			n = sizeof(s->name) - 1;
		(void)memcpy(s->name, value, n);
		s->name[n] = '\0';
	} else if (is_field(s, len, "id")) {
		take_id(s, value, n);
	} else if (is_field(s, len, "retry") && strlen(value) == n) {
		(void)str_to_u64(value, INT64_MAX, &s->retry_ms);
	}
	return 0;
}

static int take_line(struct sse *s, int (*fn)(void *arg, struct sse_event *e), void *arg)
{
	struct sse_event e;
	int r = 0;

	if (s->nline > 0 && s->line[s->nline - 1] == '\r')
		s->line[--s->nline] = '\0';
	if (s->nline > 0 && s->line[0] != ':') {
		r = take_field(s);
		s->nline = 0;
		return r;
	}
	if (s->nline == 0)
		(void)memcpy(s->last_id, s->next_id, sizeof(s->last_id));
	if (s->nline == 0 && s->has_data) {
		e = (struct sse_event){ .id = s->id, .data = s->data, .n = s->ndata };
		(void)memcpy(e.name, s->name[0] != '\0' ? s->name : "message",
			     s->name[0] != '\0' ? sizeof(e.name) : sizeof("message"));
		r = fn(arg, &e);
	}
	if (s->nline == 0)
		begin_event(s);
	s->nline = 0;
	return r;
}

int sse_feed(struct sse *s, const char *p, size_t n, int (*fn)(void *arg, struct sse_event *e),
	     void *arg)
{
	while (n > 0) {
		const char *lf = memchr(p, '\n', n);
		size_t part = lf != NULL ? (size_t)(lf - p) : n;
		int r = add(s, &s->line, &s->nline, &s->line_cap, p, part);

		if (r == 0 && lf != NULL)
			r = take_line(s, fn, arg);
		if (r != 0)
			return r;
		part += lf != NULL;
		p += part;
		n -= part;
	}
	return 0;
}
