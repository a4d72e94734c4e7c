// SPDX-License-Identifier: Apache-2.0
/*
 * A line is made where it will lie, at the end of the buffer, which has room for the longest line
 * or is not written to. Before each pair stands a budget: what is left of the line, less what its
 * end may need. Both formats are the same but for what stands around a key and for values that are
 * not plain; those go through base/json.h in JSON.
 */
#include "base/log.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
	STAMP = 24,      /* of a time */
	TAIL = 64,       /* dropped=N, cut=true and what ends a line */
	AROUND = 12,     /* comma, quotes, colon, ellipsis */
	PER_BYTE = 6,    /* what one byte becomes at most by escapes */
	NUMBER_MAX = 20, /* digits, or the longest word */
};

static const char ellipsis[] = "\xe2\x80\xa6";
static const char *const level_words[] = { "error", "warn", "info", "debug" };

_Static_assert(sizeof(level_words) / sizeof(level_words[0]) == LOG_LEVEL_MAX,
	       "a level lacks its word");
_Static_assert(LOG_VALUE_MAX + TAIL + 512 < LOG_LINE_MAX, "a line has room for a value");

void log_init(struct log *l, int fd, enum log_level level, enum log_format format)
{
	l->fd = fd;
	l->level = level;
	l->format = format;
	l->dropped = l->lost = 0;
	l->second = -1;
	l->len = 0;
	json_init(&l->json);
}

void log_done(struct log *l)
{
	(void)log_flush(l);
	json_done(&l->json);
	l->len = 0;
}

static void drop_lines(struct log *l, uint64_t n)
{
	l->dropped += n;
	l->lost += n;
}

/* Nobody reads: whole lines and the rest of one are gone. */
static void drop_buffer(struct log *l)
{
	for (size_t i = 0; i < l->len; i++)
		if (l->buf[i] == '\n')
			drop_lines(l, 1);
	l->len = 0;
}

int log_flush(struct log *l)
{
	ssize_t n;
	int r;

	if (l->len == 0)
		return 0;
	do {
		n = write(l->fd, l->buf, l->len);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		r = errno == EWOULDBLOCK ? -EAGAIN : -errno;
		if (r != -EAGAIN)
			drop_buffer(l);
		return r;
	}
	l->len -= (size_t)n;
	if (l->len == 0)
		return 0;
	(void)memmove(l->buf, l->buf + n, l->len);
	return -EAGAIN;
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* 2026-01-31T12:00:00.123Z; all but the milliseconds is kept for a second. */
static const char *timestamp(struct log *l)
{
	struct timespec t;
	unsigned int ms;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	if (t.tv_sec != l->second) {
		struct tm tm;

		l->second = t.tv_sec;
		if (gmtime_r(&t.tv_sec, &tm) == NULL ||
		    strftime(l->stamp, sizeof(l->stamp), "%Y-%m-%dT%H:%M:%S.000Z", &tm) == 0)
			(void)snprintf(l->stamp, sizeof(l->stamp), "0000-00-00T00:00:00.000Z");
	}
	ms = (unsigned int)(t.tv_nsec / 1000000);
	l->stamp[20] = (char)('0' + ms / 100);
	l->stamp[21] = (char)('0' + ms / 10 % 10);
	l->stamp[22] = (char)('0' + ms % 10);
	return l->stamp;
}

/* How many bytes of p can be shown in `room` bytes, whole characters, however badly they must be
 * escaped. */
static size_t fitting(const char *p, size_t n, size_t room)
{
	size_t used = 0, at = 0;

	if (n <= room / PER_BYTE)
		return n;
	while (at < n) {
		uint32_t c = 0;
		size_t len = utf8_next((const unsigned char *)p + at, n - at, &c), cost;

		if (len == 0)
			cost = 4; /* \xff, or U+FFFD */
		else if (utf8_is_tricky(c))
			cost = c < 0x10000 ? 6 : 12;
		else
			cost = c == '"' || c == '\\' ? 2 : len;
		if (used + cost > room)
			break;
		used += cost;
		at += len > 0 ? len : 1;
	}
	return at;
}

/* --- values ----------------------------------------------------------------------------------- */

static char *put(char *to, const char *p, size_t n)
{
	(void)memcpy(to, p, n);
	return to + n;
}

static char *put_word(char *to, const char *s)
{
	return put(to, s, strlen(s));
}

static char *put_u64(char *to, uint64_t v)
{
	char digits[NUMBER_MAX], *at = digits + sizeof(digits);

	do {
		*--at = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	return put(to, at, (size_t)(digits + sizeof(digits) - at));
}

static char *put_escaped(char *to, uint32_t c)
{
	char text[16];

	if (c == '"' || c == '\\')
		(void)snprintf(text, sizeof(text), "\\%c", (char)c);
	else if (c == '\n')
		(void)snprintf(text, sizeof(text), "\\n");
	else if (c < 0x10000)
		(void)snprintf(text, sizeof(text), "\\u%04x", c);
	else
		(void)snprintf(text, sizeof(text), "\\U%08x", c);
	return put_word(to, text);
}

/* What stands between quotes in text. */
static char *put_quoted(char *to, const char *p, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *b = (const unsigned char *)p;

	for (size_t i = 0, len; i < n; i += len > 0 ? len : 1) {
		uint32_t c = 0;

		len = utf8_next(b + i, n - i, &c);
		if (len == 0) {
			to = put(to, "\\x", 2);
			*to++ = digits[b[i] >> 4];
			*to++ = digits[b[i] & 15];
		} else if (c == '"' || c == '\\' || utf8_is_tricky(c)) {
			to = put_escaped(to, c);
		} else {
			to = put(to, p + i, len);
		}
	}
	return to;
}

/* Text needs no quotes around this byte. */
static bool is_bare(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '-' && c <= ':') ||
	       c == '_' || c == '@' || c == '+' || c == ',';
}

/* JSON and quoted text need no escape for this byte. */
static bool is_visible(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static char *put_json(struct json *j, char *to, const char *p, size_t shown, bool cut)
{
	char copy[LOG_VALUE_MAX + sizeof(ellipsis)];

	(void)memcpy(copy, p, shown);
	(void)memcpy(copy + shown, ellipsis, sizeof(ellipsis) - 1);
	j->len = 0;
	j->comma = j->failed = false;
	json_bytes(j, NULL, copy, shown + (cut ? sizeof(ellipsis) - 1 : 0));
	return j->failed ? put(to, "\"\"", 2) : put(to, j->buf, j->len);
}

static char *put_bytes(struct log *l, char *to, const char *p, size_t n, size_t room)
{
	size_t shown = fitting(p, n, room);
	bool bare = n > 0 && shown == n && l->format == LOG_TEXT, plain = shown == n;

	for (size_t i = 0; plain && i < n; i++) {
		bare &= is_bare((unsigned char)p[i]);
		plain = is_visible((unsigned char)p[i]);
	}
	if (bare && plain)
		return put(to, p, n);
	if (!plain && l->format == LOG_JSON)
		return put_json(&l->json, to, p, shown, shown < n);
	*to++ = '"';
	to = plain ? put(to, p, n) : put_quoted(to, p, shown);
	if (shown < n)
		to = put_word(to, ellipsis);
	*to++ = '"';
	return to;
}

static char *put_value(struct log *l, char *to, const struct log_pair *p, size_t room)
{
	switch (p->kind) {
	case LOG_IS_BYTES:
		return put_bytes(l, to, p->v.bytes, p->n, room);
	case LOG_IS_U64:
		return put_u64(to, p->v.u64);
	case LOG_IS_I64:
		if (p->v.i64 < 0)
			*to++ = '-';
		return put_u64(to, p->v.i64 < 0 ? -(uint64_t)p->v.i64 : (uint64_t)p->v.i64);
	case LOG_IS_BOOL:
		return put_word(to, p->v.yes ? "true" : "false");
	case LOG_NOTHING:
		break;
	}
	return to;
}

/* --- a line ----------------------------------------------------------------------------------- */

/* Room for the value of a pair when `used` bytes of the line are taken; 0: not even for a
 * number. */
static size_t room_for(const char *key, size_t used)
{
	size_t taken = used + strlen(key) + AROUND + TAIL;

	if (taken + NUMBER_MAX > LOG_LINE_MAX)
		return 0;
	return LOG_LINE_MAX - taken < LOG_VALUE_MAX ? LOG_LINE_MAX - taken : LOG_VALUE_MAX;
}

static char *put_key(const struct log *l, char *to, const char *key)
{
	if (l->format == LOG_TEXT) {
		*to++ = ' ';
		to = put_word(to, key);
		*to++ = '=';
		return to;
	}
	to = put(to, ",\"", 2);
	to = put_word(to, key);
	return put(to, "\":", 2);
}

static char *put_head(struct log *l, char *to, enum log_level level, const char *event)
{
	bool json = l->format == LOG_JSON;

	to = put_word(to, json ? "{\"time\":\"" : "time=");
	to = put(to, timestamp(l), STAMP);
	to = put_word(to, json ? "\",\"level\":\"" : " level=");
	to = put_word(to, level_words[level]);
	to = put_word(to, json ? "\"" : "");
	to = put_key(l, to, "event");
	return put_bytes(l, to, event, strlen(event), LOG_VALUE_MAX);
}

static size_t make_line(struct log *l, char *line, enum log_level level, const char *event,
			const struct log_pair *pairs, size_t n)
{
	char *to = put_head(l, line, level, event);
	bool cut = false;

	for (size_t i = 0; i < n; i++) {
		size_t room;

		if (pairs[i].key == NULL)
			continue;
		room = room_for(pairs[i].key, (size_t)(to - line));
		cut |= room == 0;
		if (room > 0)
			to = put_value(l, put_key(l, to, pairs[i].key), &pairs[i], room);
	}
	if (cut)
		to = put_word(put_key(l, to, "cut"), "true");
	if (l->dropped > 0)
		to = put_u64(put_key(l, to, "dropped"), l->dropped);
	to = put_word(to, l->format == LOG_JSON ? "}\n" : "\n");
	return (size_t)(to - line);
}

void log_write(struct log *l, enum log_level level, const char *event, const struct log_pair *pairs,
	       size_t n)
{
	if (sizeof(l->buf) - l->len < LOG_LINE_MAX)
		(void)log_flush(l);
	if (sizeof(l->buf) - l->len < LOG_LINE_MAX) {
		drop_lines(l, 1);
		return;
	}
	l->len += make_line(l, l->buf + l->len, level, event, pairs, n);
	l->dropped = 0;
	if (level == LOG_ERROR)
		(void)log_flush(l);
}
