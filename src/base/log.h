/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happened, one line per event, as text or JSON:
 *
 *	log_line(&log, LOG_INFO, "request", log_str("req", id), log_u64("status", 200));
 *
 *	time=2026-01-31T12:00:00.123Z level=info event=request req=x status=200
 *	{"time":"2026-01-31T12:00:00.123Z","level":"info","event":"request","req":"x","status":200}
 *
 * 1. A line never blocks: lines gather in a buffer, log_flush() writes it to the descriptor in one
 *    write(2), at the end of a turn of the loop. A line of level error is flushed at once, and so
 *    is a buffer that has no room.
 * 2. What then does not fit is dropped, and counted: the next line that fits says dropped=N.
 * 3. A line has LOG_LINE_MAX bytes at most. A value that is longer than LOG_VALUE_MAX or than the
 *    rest of the line is cut and ends with an ellipsis; pairs for which there is no room at all are
 *    replaced by cut=true.
 * 4. Bytes of others cannot forge a line or do something to a terminal: in text, whatever is not
 *    plain is quoted and escaped; JSON is valid for any bytes. Keys and events are ours, and are
 *    words.
 *
 * The descriptor is the caller's, should not block, and SIGPIPE should be ignored. There are no
 * threads.
 */
#pragma once

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* In the order of the words of log_level and log_format in policy/config.tbl. */
enum log_level {
	LOG_ERROR, /* somebody should act */
	LOG_WARN,  /* it goes on, less well */
	LOG_INFO,  /* what it does */
	LOG_DEBUG, /* how */
	LOG_LEVEL_MAX,
};
enum log_format { LOG_TEXT, LOG_JSON, LOG_FORMAT_MAX };

enum { LOG_BUFFER = 65536, LOG_LINE_MAX = 4096, LOG_VALUE_MAX = 1024 };

/* Large: static, or a part of something that is. */
struct log {
	int fd;
	enum log_level level; /* lines above it are not written; may be changed at any time */
	enum log_format format;
	uint64_t dropped; /* lines that nobody was told of yet */
	uint64_t lost;    /* all lines that were ever dropped */
	time_t second;    /* that `stamp` was made for */
	char stamp[32];
	struct json json; /* kept from line to line for its memory */
	size_t len;
	char buf[LOG_BUFFER];
};

void log_init(struct log *l, int fd, enum log_level level, enum log_format format);

/* Flush what can be flushed and free; the descriptor stays open. */
void log_done(struct log *l);

/* Write what is there. 0: the buffer is empty; -EAGAIN: the reader is behind, the rest waits;
 * else -errno: nobody reads, and what was there is dropped. */
int log_flush(struct log *l);

/* --- a line ----------------------------------------------------------------------------------- */

enum log_kind { LOG_NOTHING, LOG_IS_BYTES, LOG_IS_U64, LOG_IS_I64, LOG_IS_BOOL };

/* A key and its value, which lives until the line is written. One without a key is left out. */
struct log_pair {
	const char *key;
	enum log_kind kind;
	union {
		uint64_t u64;
		int64_t i64;
		bool yes;
		const char *bytes;
	} v;
	size_t n;
};

static inline struct log_pair log_bytes(const char *key, const char *p, size_t n)
{
	return (struct log_pair){ .key = key, .kind = LOG_IS_BYTES, .v.bytes = p, .n = n };
}

/* NULL is left out. */
static inline struct log_pair log_str(const char *key, const char *s)
{
	return s != NULL ? log_bytes(key, s, strlen(s)) : (struct log_pair){ 0 };
}

static inline struct log_pair log_u64(const char *key, uint64_t v)
{
	return (struct log_pair){ .key = key, .kind = LOG_IS_U64, .v.u64 = v };
}

static inline struct log_pair log_i64(const char *key, int64_t v)
{
	return (struct log_pair){ .key = key, .kind = LOG_IS_I64, .v.i64 = v };
}

static inline struct log_pair log_bool(const char *key, bool v)
{
	return (struct log_pair){ .key = key, .kind = LOG_IS_BOOL, .v.yes = v };
}

/* For `condition ? log_str(…) : log_none()`. */
static inline struct log_pair log_none(void)
{
	return (struct log_pair){ 0 };
}

/* Whether a line of that level would be written. */
static inline bool log_is_on(const struct log *l, enum log_level level)
{
	return level <= l->level;
}

/* The pairs are evaluated only if the line is written. */
#define log_line(to, at, event, ...)                                                       \
	do {                                                                               \
		struct log *log_to = (to);                                                 \
		if (log_is_on(log_to, (at))) {                                             \
			const struct log_pair log_pairs[] = { log_none(), ##__VA_ARGS__ }; \
			log_write(log_to, (at), (event), log_pairs,                        \
				  sizeof(log_pairs) / sizeof(log_pairs[0]));               \
		}                                                                          \
	} while (0)

/* What log_line() calls; it does not ask for the level again. */
void log_write(struct log *l, enum log_level level, const char *event, const struct log_pair *pairs,
	       size_t n);
