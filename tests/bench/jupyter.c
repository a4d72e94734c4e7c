// SPDX-License-Identifier: Apache-2.0
#include "jupyter.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	HEADER_MAX = 512,
	PARTS = 5, /* of a message in v1: channel, header, parent_header, metadata, content */
	PARTS_MAX = 64,
};

/* --- JSON, as far as looking up goes ---------------------------------------------------------- */

static const char *skip_blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Behind the closing quote of what begins at p; NULL: there is none. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; (p = memchr(p, '"', (size_t)(end - p))) != NULL; p++) {
		size_t escapes = 0;

		while (p[-1 - (ptrdiff_t)escapes] == '\\')
			escapes++;
		if (escapes % 2 == 0)
			return p + 1;
	}
	return NULL;
}

/* Behind the value that begins at p; NULL: there is none. */
static const char *value_end(const char *p, const char *end)
{
	unsigned int depth = 0;
	const char *start = p;

	do {
		if (p >= end)
			return NULL;
		if (*p == '"') {
			p = string_end(p, end);
			if (p == NULL)
				return NULL;
			continue;
		}
		depth += *p == '{' || *p == '[';
		if ((*p == '}' || *p == ']') && depth-- == 0)
			return NULL;
		p++;
	} while (depth > 0);
	if (*start != '"' && *start != '{' && *start != '[')
		while (p < end && strchr(",]} \t\r\n", *p) == NULL)
			p++;
	return p;
}

bool find_members(struct slice object, struct member *m, size_t n)
{
	const char *p = object.p, *end = object.p + object.n, *key, *value;

	for (size_t i = 0; i < n; i++)
		m[i].value = (struct slice){ 0 };
	p = skip_blanks(p, end);
	if (p == end || *p != '{')
		return false;
	p = skip_blanks(p + 1, end);
	while (p < end && *p == '"') {
		size_t len;

		key = p + 1;
		p = string_end(p, end);
		if (p == NULL)
			return false;
		len = (size_t)(p - 1 - key);
		p = skip_blanks(p, end);
		if (p == end || *p != ':')
			return false;
		value = skip_blanks(p + 1, end);
		p = value_end(value, end);
		if (p == NULL)
			return false;
		for (size_t i = 0; i < n; i++)
			if (strlen(m[i].key) == len && memcmp(m[i].key, key, len) == 0)
				m[i].value = (struct slice){ value, (size_t)(p - value) };
		p = skip_blanks(p, end);
		if (p < end && *p == ',')
			p = skip_blanks(p + 1, end);
	}
	return p < end && *p == '}';
}

bool is_text(struct slice value, const char *text)
{
	size_t n = strlen(text);

	return value.p != NULL && value.n == n + 2 && value.p[0] == '"' &&
	       memcmp(value.p + 1, text, n) == 0;
}

/* One escaped character, with p behind the backslash; p goes behind it. What is no ASCII becomes 0, which nobody expects. */
static char unescape(const char **p, const char *end)
{
	static const char from[] = "nrtbf\"\\/", to[] = "\n\r\t\b\f\"\\/",
			  hex[] = "0123456789abcdef";
	const char *at = *p < end ? memchr(from, **p, sizeof(from) - 1) : NULL;
	size_t code = 0;

	if (at != NULL) {
		(*p)++;
		return to[at - from];
	}
	if (end - *p < 5 || **p != 'u') {
		*p = end;
		return 0;
	}
	for (int i = 1; i <= 4; i++) {
		at = memchr(hex, (*p)[i] | ' ', sizeof(hex) - 1);
		code = code * 16 + (at != NULL ? (size_t)(at - hex) : 128);
	}
	*p += 5;
	return (char)(code < 128 ? code : 0);
}

/* --- messages --------------------------------------------------------------------------------- */

struct message {
	struct slice channel, header, parent, content;
	char name[16]; /* the channel's, in v1 */
};

static uint64_t number_at(const char *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | (unsigned char)p[i];
	return v;
}

/* How many there are, where each begins, where the last one ends; then the parts. */
static bool cut_v1(struct message *m, struct slice whole)
{
	uint64_t count = whole.n >= 8 ? number_at(whole.p) : 0;
	struct slice part[PARTS];

	if (count <= PARTS || count > PARTS_MAX || whole.n < 8 * (1 + count))
		return false;
	for (size_t i = 0; i < PARTS; i++) {
		uint64_t begin = number_at(whole.p + 8 * (1 + i));
		uint64_t end = number_at(whole.p + 8 * (2 + i));

		if (begin < 8 * (1 + count) || begin > end || end > whole.n)
			return false;
		part[i] = (struct slice){ whole.p + begin, (size_t)(end - begin) };
	}
	(void)snprintf(m->name, sizeof(m->name), "\"%.*s\"", (int)(part[0].n < 12 ? part[0].n : 12),
		       part[0].p);
	m->channel = (struct slice){ m->name, strlen(m->name) };
	m->header = part[1];
	m->parent = part[2];
	m->content = part[4];
	return true;
}

static bool cut_legacy(struct message *m, struct slice whole)
{
	struct member part[] = {
		{ .key = "channel" },
		{ .key = "header" },
		{ .key = "parent_header" },
		{ .key = "content" },
	};

	if (!find_members(whole, part, 4))
		return false;
	m->channel = part[0].value;
	m->header = part[1].value;
	m->parent = part[2].value;
	m->content = part[3].value;
	return true;
}

static struct slice member_of(struct slice object, const char *key)
{
	struct member m = { .key = key };

	return object.p != NULL && find_members(object, &m, 1) ? m.value : (struct slice){ 0 };
}

/* --- what is answered ------------------------------------------------------------------------- */

static void wrong(struct cell *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void wrong(struct cell *c, const char *fmt, ...)
{
	va_list ap;

	if (c->error[0] != '\0')
		return;
	va_start(ap, fmt);
	(void)vsnprintf(c->error, sizeof(c->error), fmt, ap);
	va_end(ap);
}

static int shown(struct slice s)
{
	return (int)(s.n < 100 ? s.n : 100);
}

/* Whether these bytes come next. */
static bool take_bytes(struct cell *c, const char *p, size_t n)
{
	const struct output *o = &c->output;

	if (n > o->piece.n * o->times - c->printed)
		return false;
	while (n > 0) {
		size_t at = (size_t)(c->printed % o->piece.n), rest = o->piece.n - at;
		size_t some = n < rest ? n : rest;

		if (memcmp(p, o->piece.p + at, some) != 0)
			return false;
		c->printed += some;
		p += some;
		n -= some;
	}
	return true;
}

static bool take_text(struct cell *c, struct slice text)
{
	const char *p = text.p + 1, *end = text.p + text.n - 1;

	if (text.n < 2 || text.p[0] != '"')
		return false;
	while (p < end) {
		const char *escape = memchr(p, '\\', (size_t)(end - p));
		const char *plain_end = escape != NULL ? escape : end;
		char one;

		if (!take_bytes(c, p, (size_t)(plain_end - p)))
			return false;
		if (escape == NULL)
			break;
		p = escape + 1;
		one = unescape(&p, end);
		if (!take_bytes(c, &one, 1))
			return false;
	}
	return true;
}

static void on_stream(struct cell *c, const struct message *m)
{
	struct member said[] = { { .key = "name" }, { .key = "text" } };

	if (!find_members(m->content, said, 2) || !is_text(said[0].value, "stdout"))
		wrong(c, "printed elsewhere: %.*s", shown(m->content), m->content.p);
	else if (!take_text(c, said[1].value))
		wrong(c, "printed something else behind %llu bytes: %.*s",
		      (unsigned long long)c->printed, shown(said[1].value), said[1].value.p);
}

static void on_reply(struct cell *c, const struct message *m)
{
	if (c->replied || !is_text(m->channel, "shell") ||
	    !is_text(member_of(m->content, "status"), "ok"))
		wrong(c, "replied %.*s", shown(m->content), m->content.p);
	c->replied = true;
}

static void on_status(struct cell *c, const struct message *m)
{
	struct slice state = member_of(m->content, "execution_state");

	if (is_text(state, "idle"))
		c->idle = true;
	else if (!is_text(state, "busy"))
		wrong(c, "is %.*s", shown(m->content), m->content.p);
}

static void on_input(struct cell *c, const struct message *m)
{
	(void)c;
	(void)m;
}

/* Nothing else belongs to a cell that only prints. */
static const struct {
	const char *type;
	void (*take)(struct cell *c, const struct message *m);
} messages[] = {
	{ "stream", on_stream },
	{ "execute_reply", on_reply },
	{ "status", on_status },
	{ "execute_input", on_input },
};

bool hear(struct cell *c, int opcode, const char *p, size_t n)
{
	struct slice whole = { p, n }, type;
	struct message m;

	if (opcode != (c->v1 ? WS_BINARY : WS_TEXT) ||
	    !(c->v1 ? cut_v1(&m, whole) : cut_legacy(&m, whole)) || m.header.p == NULL ||
	    m.parent.p == NULL || m.content.p == NULL) {
		wrong(c, "no message: %.*s", shown(whole), p);
		return c->replied && c->idle;
	}
	if (!is_text(member_of(m.parent, "msg_id"), c->id))
		return false; /* of another request, or of none */
	type = member_of(m.header, "msg_type");
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
		if (is_text(type, messages[i].type)) {
			messages[i].take(c, &m);
			return c->replied && c->idle;
		}
	wrong(c, "said %.*s: %.*s", shown(type), type.p != NULL ? type.p : "", shown(m.content),
	      m.content.p);
	return c->replied && c->idle;
}

bool is_right(struct cell *c)
{
	uint64_t all = c->output.piece.n * c->output.times;

	if (c->printed != all)
		wrong(c, "printed %llu bytes of %llu", (unsigned long long)c->printed,
		      (unsigned long long)all);
	return c->error[0] == '\0';
}

/* --- a request -------------------------------------------------------------------------------- */

bool is_v1(const char *framing)
{
	if (strcmp(framing, "v1") != 0 && strcmp(framing, "legacy") != 0)
		die("a framing is legacy or v1");
	return strcmp(framing, "v1") == 0;
}

static size_t put_v1(char *out, const struct slice *part)
{
	size_t at = 8 * (PARTS + 2);

	for (size_t i = 0; i < PARTS + 2; i++) {
		uint64_t v = i == 0 ? PARTS + 1 : at;

		for (size_t k = 0; k < 8; k++)
			out[8 * i + k] = (char)(v >> 8 * k);
		if (i > 0 && i <= PARTS) {
			(void)memcpy(out + at, part[i - 1].p, part[i - 1].n);
			at += part[i - 1].n;
		}
	}
	return at;
}

size_t put_cell(char *out, struct cell *c, bool v1, const char *session, struct slice content,
		const struct output *output)
{
	static const struct slice shell = { "shell", 5 }, nothing = { "{}", 2 };
	static char message[FRAME_MAX];
	static unsigned int count;
	char header[HEADER_MAX];
	size_t n;

	*c = (struct cell){ .v1 = v1, .output = *output };
	(void)snprintf(c->id, sizeof(c->id), "bench-%d-%u", (int)getpid(), ++count);
	n = (size_t)snprintf(header, sizeof(header),
			     "{\"msg_id\":\"%s\",\"msg_type\":\"execute_request\","
			     "\"session\":\"%.64s\",\"username\":\"bench\","
			     "\"date\":\"2026-01-01T00:00:00.000000Z\",\"version\":\"5.3\"}",
			     c->id, session);
	if (content.n > FRAME_MAX / 2)
		die("the cell is too long");
	if (v1) {
		const struct slice part[PARTS] = {
			shell, { header, n }, nothing, nothing, content
		};

		n = put_v1(message, part);
	} else {
		n = (size_t)snprintf(message, sizeof(message),
				     "{\"channel\":\"shell\",\"header\":%s,\"parent_header\":{},"
				     "\"metadata\":{},\"content\":%.*s,\"buffers\":[]}",
				     header, (int)content.n, content.p);
	}
	return put_frame(out, v1 ? WS_BINARY : WS_TEXT, message, n);
}
