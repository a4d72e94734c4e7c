/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between gate and tools process: a byte stream, because arguments and results are large, with descriptors.
 *
 *   u32 length of the body | u16 type | u16 0 | u64 id | body
 *
 * toolmsg.tbl has every type with its bounds; what does not fit its row ends the stream. Nothing here waits: what the other side does not
 * take is queued up to a bound, what it says is handed out when it is whole.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	TOOLMSG_HEADER = 16,
	TOOLMSG_BODY = 12 * 1024 * 1024, /* more than a call's arguments or result may have */
	TOOLMSG_SERVER_MAX = 256 * 1024,
	TOOLMSG_QUEUE = 64 * 1024 * 1024,
	TOOLMSG_FDS = 8, /* that have come or wait to go */
};

enum toolmsg_dir { TO_TOOLS = 1u << 0, FROM_TOOLS = 1u << 1 };

enum toolmsg_type {
	TOOLMSG_NONE,
#define TOOLMSG(id, dir, min, max, fds, doc) TOOLMSG_##id,
#include "wire/toolmsg.tbl"
#undef TOOLMSG
	TOOLMSG_TYPE_MAX,
};

/* What came of a call. */
enum tool_outcome {
	TOOL_DONE,      /* text: the result, as the server said it */
	TOOL_REFUSED,   /* the server answered with an error of the protocol */
	TOOL_FAILED,    /* the server cannot be used, or has gone */
	TOOL_TIMED_OUT, /* it does not answer */
	TOOL_UNKNOWN,   /* there is no such server */
	TOOL_BUSY,      /* as many calls as may be are under way */
	TOOL_OUTCOME_MAX,
};

struct toolmsg {
	uint16_t type;
	uint64_t id;
	const uint8_t *body;
	size_t len;
	int fd; /* the receiver's; -1: none came */
};

struct toolmsg_row {
	const char *name;
	unsigned int dir;
	size_t min, max;
	unsigned int fds;
};

/* NULL for a type that does not exist. */
const struct toolmsg_row *toolmsg_row(unsigned int type);

/* A message at the front of a buffer: how many bytes it has, 0 when more are needed, -EPROTO for what may not come from there. */
ptrdiff_t toolmsg_parse(const uint8_t *buf, size_t len, unsigned int dir, struct toolmsg *m);

struct toolmsg_stream {
	int fd; /* non-blocking; -1: there is none */
	uint8_t *out, *in;
	size_t out_at, out_end, out_cap; /* bytes [out_at, out_end) are to be sent */
	size_t in_at, in_end, in_cap;
	uint64_t sent; /* bytes in all */
	struct {
		uint64_t at; /* of the stream: it goes with this byte */
		int fd;
	} fds_out[TOOLMSG_FDS];
	int fds_in[TOOLMSG_FDS];
	unsigned int nfds_out, nfds_in;
};

/* fd is the stream's from here on. */
void toolmsg_open(struct toolmsg_stream *s, int fd);
void toolmsg_close(struct toolmsg_stream *s);

/* A message of two parts, either of which may be empty; fd (-1: none) is the stream's, also after a failure. 0, or -errno: nothing was queued. */
int toolmsg_put(struct toolmsg_stream *s, uint16_t type, uint64_t id, const void *head,
		size_t nhead, const void *body, size_t nbody, int fd);
/* Send what can be sent. 0, or -errno: the other side has gone. */
int toolmsg_flush(struct toolmsg_stream *s);

static inline size_t toolmsg_queued(const struct toolmsg_stream *s)
{
	return s->out_end - s->out_at;
}

/* Receive what has come. 1; 0: nothing for now; -EPIPE: the other side has gone; -errno. */
int toolmsg_fill(struct toolmsg_stream *s);
/* The next message, which stays until the next call. 1; 0: none is whole; -EPROTO. */
int toolmsg_next(struct toolmsg_stream *s, unsigned int dir, struct toolmsg *m);
