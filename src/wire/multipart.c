// SPDX-License-Identifier: Apache-2.0
/*
 * A body is cut at its marks: a line end, two dashes, the boundary. A mark has one CR, its first
 * byte. So bytes that turn out not to be one cannot hide the beginning of another, and those held
 * back from an earlier piece need no buffer: they are the bytes of the mark itself.
 *
 * The line end of a mark may be the one that ended a head, or be implied by the beginning of the
 * body. In both places the search starts as if CR LF had been held back already; those two are no
 * data when the mark does not come about.
 *
 * RFC 2046 lets white space follow a boundary, for mail that was reformatted on its way. Nothing
 * reformats HTTP; it is refused, as is anything else that leaves two readers in doubt.
 */
#include "wire/multipart.h"

#include <string.h>

enum state {
	BEFORE,     /* before the first mark */
	BODY,       /* inside a part */
	PART_ENDED, /* a mark was seen: say so */
	MARK,       /* behind a mark */
	MARK_CR,    /* CR behind a mark: a part follows */
	MARK_DASH,  /* '-' behind a mark */
	HEAD,       /* headers of a part */
	CLOSED,     /* "--" behind a mark: say so */
	BEHIND,     /* behind the last mark */
	REFUSED,
};

static int fail(struct multipart *m, struct http_refusal *r, const char *why)
{
	m->state = REFUSED;
	return http_refuse(r, 400, why);
}

/* --- parameters: "; key=value; key="value"" --------------------------------------------------- */

struct parameter {
	struct http_slice key, value; /* of a quoted value: what is between the quotes */
	bool quoted;
};

static void skip(struct http_slice *s, size_t n)
{
	s->p += n;
	s->n -= n;
}

static void skip_blanks(struct http_slice *s)
{
	while (s->n > 0 && (s->p[0] == ' ' || s->p[0] == '\t'))
		skip(s, 1);
}

/* Bytes of *rest up to one of the characters, which is left there. */
static struct http_slice take_until(struct http_slice *rest, const char *stop)
{
	struct http_slice taken = { rest->p, 0 };

	while (taken.n < rest->n && strchr(stop, rest->p[taken.n]) == NULL)
		taken.n++;
	skip(rest, taken.n);
	return taken;
}

/* A backslash stands before a quote or a backslash to mean just that; before anything else it is a
 * character of the name, which browsers do not escape. */
static bool is_escape(const char *p, size_t n)
{
	return n > 1 && p[0] == '\\' && (p[1] == '"' || p[1] == '\\');
}

static int take_quoted(struct http_slice *rest, struct http_slice *ret)
{
	size_t n = 1;

	while (n < rest->n && rest->p[n] != '"')
		n += is_escape(rest->p + n, rest->n - n) ? 2 : 1;
	if (n >= rest->n)
		return -1;
	*ret = (struct http_slice){ rest->p + 1, n - 1 };
	skip(rest, n + 1);
	return 0;
}

/* The next parameter: 1, 0 at the end, -1 when this is none. */
static int next_parameter(struct http_slice *rest, struct parameter *ret)
{
	skip_blanks(rest);
	if (rest->n == 0)
		return 0;
	if (rest->p[0] != ';')
		return -1;
	skip(rest, 1);
	skip_blanks(rest);
	ret->key = take_until(rest, "=; \t\"");
	if (!http_is_token(ret->key) || rest->n == 0 || rest->p[0] != '=')
		return -1;
	skip(rest, 1);
	ret->quoted = rest->n > 0 && rest->p[0] == '"';
	if (ret->quoted)
		return take_quoted(rest, &ret->value) < 0 ? -1 : 1;
	ret->value = take_until(rest, "; \t\"");
	return ret->value.n > 0 ? 1 : -1;
}

/* --- the boundary ----------------------------------------------------------------------------- */

static int set_boundary(struct multipart *m, const struct parameter *p)
{
	char *out = m->mark + 4;
	size_t n = 0;

	for (size_t i = 0; i < p->value.n; i++) {
		char c = p->value.p[i];
		bool letter =
			(c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

		if (n == MULTIPART_BOUNDARY_MAX ||
		    (!letter && (c == '\0' || strchr("'()+_,-./:=? ", c) == NULL)))
			return -1;
		out[n++] = c;
	}
	if (n == 0 || out[n - 1] == ' ')
		return -1;
	(void)memcpy(m->mark, "\r\n--", 4);
	m->mark_len = 4 + n;
	return 0;
}

int multipart_init(struct multipart *m, struct http_slice content_type, struct http_refusal *r)
{
	struct parameter p;
	int more;

	m->name[0] = '\0';
	m->filename = m->content_type = NULL;
	m->mark_len = m->head_len = m->around = 0;
	m->held = m->implied = 2;
	m->state = BEFORE;
	if (!http_slice_is_nocase(take_until(&content_type, "; \t"), "multipart/form-data")) {
		m->state = REFUSED;
		return http_refuse(r, 415, "the body is not 'multipart/form-data'");
	}
	while ((more = next_parameter(&content_type, &p)) > 0) {
		if (!http_slice_is_nocase(p.key, "boundary"))
			continue;
		if (m->mark_len > 0)
			return fail(m, r, "more than one boundary of a form");
		if (set_boundary(m, &p) < 0)
			return fail(m, r,
				    "the boundary of a form is not 1 to 70 characters of its set");
	}
	if (more < 0)
		return fail(m, r, "'Content-Type' is not 'type; key=value'");
	return m->mark_len > 0 ? 0 : fail(m, r, "'multipart/form-data' without boundary");
}

/* --- headers of a part ------------------------------------------------------------------------ */

/* A token, or what is between quotes. Browsers write a quote in a name as %22 and nothing else so
 * that could be told from a name with a percent sign. */
static int read_name(const struct parameter *p, char *out)
{
	struct http_slice v = p->value;
	size_t n = 0;

	if (!p->quoted && !http_is_token(v))
		return -1;
	for (; v.n > 0; n++) {
		size_t used = 1;

		if (n == MULTIPART_NAME_MAX)
			return -1;
		out[n] = v.p[0];
		if (p->quoted && is_escape(v.p, v.n)) {
			out[n] = v.p[1];
			used = 2;
		} else if (p->quoted && v.n >= 3 && memcmp(v.p, "%22", 3) == 0) {
			out[n] = '"';
			used = 3;
		}
		skip(&v, used);
	}
	out[n] = '\0';
	return http_is_text((struct http_slice){ out, n }) ? 0 : -1;
}

/* RFC 8187: charset'language'text, of which only UTF-8 is taken. */
static int read_extended_name(const struct parameter *p, char *out)
{
	struct http_slice v = p->value;
	size_t n = 0;

	if (p->quoted || !http_slice_is_nocase(take_until(&v, "'"), "UTF-8") || v.n == 0)
		return -1;
	skip(&v, 1);
	(void)take_until(&v, "'");
	if (v.n == 0)
		return -1;
	skip(&v, 1);
	for (; v.n > 0; n++) {
		size_t used = 1;

		if (n == MULTIPART_NAME_MAX)
			return -1;
		out[n] = v.p[0];
		if (v.p[0] == '%') {
			int high = v.n >= 3 ? http_hex(v.p[1]) : -1;
			int low = v.n >= 3 ? http_hex(v.p[2]) : -1;

			if (high < 0 || low < 0)
				return -1;
			out[n] = (char)(high << 4 | low);
			used = 3;
		} else if (!http_is_token((struct http_slice){ v.p, 1 }) || v.p[0] == '*' ||
			   v.p[0] == '\'') {
			return -1;
		}
		skip(&v, used);
	}
	out[n] = '\0';
	return http_is_text((struct http_slice){ out, n }) ? 0 : -1;
}

static int read_disposition(struct multipart *m, struct http_slice value, struct http_refusal *r)
{
	bool named = false, plain = false, extended = false;
	char plain_name[MULTIPART_NAME_MAX + 1];
	struct parameter p;
	int more;

	if (!http_slice_is_nocase(take_until(&value, "; \t"), "form-data"))
		return fail(m, r, "a part of a form is not 'form-data'");
	while ((more = next_parameter(&value, &p)) > 0) {
		bool *seen = http_slice_is_nocase(p.key, "name")        ? &named
			     : http_slice_is_nocase(p.key, "filename")  ? &plain
			     : http_slice_is_nocase(p.key, "filename*") ? &extended
									: NULL;
		int bad = 0;

		if (seen == NULL)
			continue;
		if (*seen)
			return fail(m, r, "a part of a form has two names of one kind");
		*seen = true;
		if (seen == &named)
			bad = read_name(&p, m->name);
		else if (seen == &extended)
			bad = read_extended_name(&p, m->filename_buf);
		else
			bad = read_name(&p, plain_name);
		if (bad < 0)
			return fail(m, r, "the name of a part is not text, or is too long");
	}
	if (more < 0 || !named)
		return fail(m, r, "'Content-Disposition' is not 'form-data; name=\"...\"'");
	if (plain && !extended)
		(void)memcpy(m->filename_buf, plain_name, strlen(plain_name) + 1);
	m->filename = plain || extended ? m->filename_buf : NULL;
	return 0;
}

static int read_type(struct multipart *m, struct http_slice value, struct http_refusal *r)
{
	struct http_slice rest = value, type = take_until(&rest, "/");

	if (rest.n > 0)
		skip(&rest, 1);
	if (!http_is_token(type) || !http_is_token(take_until(&rest, "; \t")))
		return fail(m, r, "the 'Content-Type' of a part is not 'type/subtype'");
	for (size_t i = 0; i < value.n; i++)
		if ((unsigned char)value.p[i] < ' ' || (unsigned char)value.p[i] > 0x7e)
			return fail(m, r, "the 'Content-Type' of a part is not ASCII");
	if (value.n > MULTIPART_TYPE_MAX)
		return fail(m, r, "the 'Content-Type' of a part is too long");
	(void)memcpy(m->type_buf, value.p, value.n);
	m->type_buf[value.n] = '\0';
	m->content_type = m->type_buf;
	return 0;
}

static bool is_identity(struct http_slice encoding)
{
	return http_slice_is_nocase(encoding, "binary") || http_slice_is_nocase(encoding, "8bit") ||
	       http_slice_is_nocase(encoding, "7bit");
}

static int read_part_header(struct multipart *m, const struct http_header *h, bool *disposed,
			    struct http_refusal *r)
{
	if (http_slice_is_nocase(h->name, "Content-Disposition")) {
		if (*disposed)
			return fail(m, r, "a part of a form has two 'Content-Disposition'");
		*disposed = true;
		return read_disposition(m, h->value, r);
	}
	if (http_slice_is_nocase(h->name, "Content-Type")) {
		if (m->content_type != NULL)
			return fail(m, r, "a part of a form has two 'Content-Type'");
		return read_type(m, h->value, r);
	}
	if (http_slice_is_nocase(h->name, "Content-Transfer-Encoding") && !is_identity(h->value))
		return fail(m, r, "a part of a form is encoded");
	return 0;
}

/* m->head is whole: lines, each with its end, and an empty one. */
static int read_head(struct multipart *m, struct http_refusal *r)
{
	const char *p = m->head, *end = m->head + m->head_len - 2;
	bool disposed = false;

	m->name[0] = '\0';
	m->filename = m->content_type = NULL;
	while (p < end) {
		const char *lf = memchr(p, '\n', (size_t)(end - p));
		struct http_slice line = { p, (size_t)(lf - 1 - p) };
		struct http_header h;

		if (http_header_parse(line, &h, r) < 0) {
			m->state = REFUSED;
			return -1;
		}
		if (read_part_header(m, &h, &disposed, r) < 0)
			return -1;
		p = lf + 1;
	}
	return disposed ? 0 : fail(m, r, "a part of a form has no 'Content-Disposition'");
}

/* One line, or what there is of it, into m->head. *whole: it was the empty one. */
static ptrdiff_t take_head_line(struct multipart *m, const char *p, size_t n, bool *whole,
				struct http_refusal *r)
{
	const char *lf = memchr(p, '\n', n);
	size_t room = MULTIPART_HEAD_MAX - m->head_len;
	const char *tail;

	if (lf != NULL)
		n = (size_t)(lf - p) + 1;
	if (n > room)
		return fail(m, r, "the headers of a part are too long");
	(void)memcpy(m->head + m->head_len, p, n);
	m->head_len += n;
	tail = m->head + m->head_len;
	if (lf == NULL)
		return (ptrdiff_t)n;
	if (m->head_len < 2 || tail[-2] != '\r')
		return fail(m, r, "a line in the head of a part does not end with CR LF");
	*whole = m->head_len == 2 || tail[-3] == '\n';
	return (ptrdiff_t)n;
}

/* --- marks ------------------------------------------------------------------------------------ */

/* Up to where there is no mark in p, and how much of one is there: all of it, or as much as n
 * allows. */
static size_t find_mark(const struct multipart *m, const char *p, size_t n, size_t *ret_found)
{
	const char *end = p + n, *at = p;

	while (at < end && (at = memchr(at, '\r', (size_t)(end - at))) != NULL) {
		size_t len;

		while (end - at > 1 && at[1] == '\r') /* a call for each would be slow */
			at++;
		len = (size_t)(end - at) < m->mark_len ? (size_t)(end - at) : m->mark_len;
		if (memcmp(at, m->mark, len) == 0) {
			*ret_found = len;
			return (size_t)(at - p);
		}
		at++;
	}
	*ret_found = 0;
	return n;
}

static void begin_search(struct multipart *m, enum state state)
{
	m->state = (unsigned char)state;
	m->held = m->implied = 2;
}

static void mark_seen(struct multipart *m)
{
	m->state = m->state == BODY ? PART_ENDED : MARK;
	m->held = m->implied = 0;
}

/* Bytes that were held back and what follows them. Sets *data to those that were no mark after
 * all. */
static size_t resume_mark(struct multipart *m, const char *p, size_t n, struct http_slice *data)
{
	size_t len = m->mark_len - m->held, same = 0;

	if (len > n)
		len = n;
	while (same < len && p[same] == m->mark[m->held + same])
		same++;
	m->held += same;
	if (m->held == m->mark_len) {
		mark_seen(m);
	} else if (same < len) {
		*data = (struct http_slice){ m->mark + m->implied, m->held - m->implied };
		m->held = m->implied = 0;
	}
	return same;
}

/* Bytes before a mark: data, or what is to be skipped. */
static size_t take_text(struct multipart *m, const char *p, size_t n, struct http_slice *data)
{
	size_t used, found;

	*data = (struct http_slice){ p, 0 };
	if (m->held > 0)
		return resume_mark(m, p, n, data);
	used = find_mark(m, p, n, &found);
	*data = (struct http_slice){ p, used };
	m->held = found;
	if (found == m->mark_len)
		mark_seen(m);
	return used + found;
}

/* --- the body --------------------------------------------------------------------------------- */

static int skip_around(struct multipart *m, size_t n, struct http_refusal *r)
{
	m->around += n;
	return m->around <= MULTIPART_AROUND_MAX
		       ? 0
		       : fail(m, r, "too much outside of the parts of a form");
}

/* One byte behind a mark. */
static int after_mark(struct multipart *m, char c, struct http_refusal *r)
{
	if (m->state == MARK && (c == '\r' || c == '-')) {
		m->state = c == '-' ? MARK_DASH : MARK_CR;
	} else if (m->state == MARK_CR && c == '\n') {
		m->state = HEAD;
		m->head_len = 0;
	} else if (m->state == MARK_DASH && c == '-') {
		m->state = CLOSED;
	} else {
		return fail(m, r, "the boundary of a form is followed by something else");
	}
	return 0;
}

/* Behind the last mark: nothing, or a line end and whatever. */
static int skip_behind(struct multipart *m, const char *p, size_t n, struct http_refusal *r)
{
	for (size_t i = 0; i < n && m->around + i < 2; i++)
		if (p[i] != "\r\n"[m->around + i])
			return fail(m, r, "the boundary of a form is followed by something else");
	return skip_around(m, n, r);
}

/* One step: some bytes, perhaps an event. Returns how many, or -1. n is at least 1. */
static ptrdiff_t step(struct multipart *m, const char *p, size_t n, enum multipart_event *event,
		      struct http_slice *data, struct http_refusal *r)
{
	ptrdiff_t used;
	bool whole = false;

	switch ((enum state)m->state) {
	case BEFORE:
		used = (ptrdiff_t)take_text(m, p, n, data);
		return skip_around(m, data->n, r) < 0 ? -1 : used;
	case BODY:
		used = (ptrdiff_t)take_text(m, p, n, data);
		*event = data->n > 0 ? MULTIPART_DATA : MULTIPART_MORE;
		return used;
	case MARK:
	case MARK_CR:
	case MARK_DASH:
		return after_mark(m, p[0], r) < 0 ? -1 : 1;
	case HEAD:
		used = take_head_line(m, p, n, &whole, r);
		if (used < 0 || !whole)
			return used;
		if (read_head(m, r) < 0)
			return -1;
		begin_search(m, BODY);
		*event = MULTIPART_PART;
		return used;
	case BEHIND:
		return skip_behind(m, p, n, r) < 0 ? -1 : (ptrdiff_t)n;
	case PART_ENDED:
	case CLOSED:
	case REFUSED:
		break;
	}
	return http_refuse(r, 400, "the form was refused before");
}

/* Events that take no byte. */
static enum multipart_event pending(struct multipart *m)
{
	if (m->state == PART_ENDED) {
		m->state = MARK;
		return MULTIPART_PART_END;
	}
	if (m->state == CLOSED) {
		m->state = BEHIND;
		m->around = 0;
		return MULTIPART_END;
	}
	return MULTIPART_MORE;
}

ptrdiff_t multipart_feed(struct multipart *m, const char *p, size_t n, enum multipart_event *event,
			 struct http_slice *data, struct http_refusal *r)
{
	size_t at = 0;

	*data = (struct http_slice){ p, 0 };
	*event = pending(m);
	while (*event == MULTIPART_MORE && at < n) {
		ptrdiff_t used = step(m, p + at, n - at, event, data, r);

		if (used < 0)
			return -1;
		at += (size_t)used;
		if (*event == MULTIPART_MORE)
			*event = pending(m);
	}
	if (*event != MULTIPART_DATA)
		*data = (struct http_slice){ p, 0 };
	return (ptrdiff_t)at;
}

int multipart_end(const struct multipart *m, struct http_refusal *r)
{
	if (m->state == BEHIND)
		return 0;
	return http_refuse(r, 400, "the form ends before its last boundary");
}
