/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter's messages on a WebSocket: as clients send them, and as they are sent to clients.
 *
 *   legacy, a text frame    a JSON object of header, parent_header, metadata, content, channel, buffers
 *   legacy, a binary frame  u32 n | n times u32 offset | that object | buffers…           big-endian
 *   v1, a binary frame      u64 n | n times u64 offset | channel | header | parent_header | metadata | content | buffers…
 *                                                                                         little-endian
 *
 * An offset says where a part begins, counted from the beginning of the message; in v1 the last one is the end of it. Parts
 * follow each other without a gap, and may be empty.
 *
 * What a client may leave out or set to null: everything but header, msg_id and msg_type. No channel is shell, no object is
 * {}, no text is empty. A date may be a number, which counts as none: jupyter_server sends it so. In the legacy framing
 * msg_id and msg_type may stand beside the header instead. `buffers` of the object is empty or not there. Of a key that
 * stands there twice the last one counts. What must be right: UTF-8; JSON within the bounds of json_text.h (legacy: all of
 * the object); types of what is named below; the bounds below. Channels and types of messages that nobody knows are for
 * the caller to answer.
 *
 * Nothing is decoded but the strings below. Time is linear in the length, and memory is below 64 KiB.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/json_text.h"

/* What a client that wants v1 says in Sec-WebSocket-Protocol, and hears. */
#define JUP_V1_PROTOCOL "v1.kernel.websocket.jupyter.org"

enum {
	JUP_HEADER_MAX = 4096, /* bytes of a header, as it came and as it is written */
	JUP_ID_MAX = 128,      /* msg_id, session, username */
	JUP_TYPE_MAX = 64,     /* msg_type, and the name of a channel */
	JUP_DATE_MAX = 64,
	JUP_VERSION_MAX = 32,
	JUP_BUFFERS_MAX = 256,
	JUP_WRITE_MAX = 1 << 30, /* bytes that are given to jup_write() */
};

enum jup_framing { JUP_LEGACY, JUP_V1 };

enum jup_channel { JUP_SHELL, JUP_CONTROL, JUP_STDIN, JUP_IOPUB, JUP_UNKNOWN };

/* NULL for JUP_UNKNOWN. */
const char *jup_channel_name(enum jup_channel c);

struct jup_bytes {
	const uint8_t *p;
	size_t n;
};

/* --- reading ---------------------------------------------------------------------------------------- */

/* Objects and buffers lie in the bytes that were read, but header, which is the message's own: one line without space,
 * with msg_id and msg_type, to be the parent_header of replies. */
struct jup_msg {
	enum jup_channel channel;
	char channel_name[JUP_TYPE_MAX + 1];
	char msg_id[JUP_ID_MAX + 1];     /* not empty */
	char msg_type[JUP_TYPE_MAX + 1]; /* not empty */
	char session[JUP_ID_MAX + 1];
	char username[JUP_ID_MAX + 1];
	char date[JUP_DATE_MAX + 1];
	char version[JUP_VERSION_MAX + 1];
	char parent_id[JUP_ID_MAX + 1]; /* msg_id of parent_header */
	struct json_text header, parent_header, metadata, content;
	struct jup_bytes *buffers;
	size_t nbuffers;
	struct json own; /* where header lies */
};

/* Read the message of a whole frame. Whatever *m held before is not looked at; after a failure it is empty, and *why is a
 * constant text, lower case, for people.
 *   -EPROTO  it is none, or not one of those above
 *   -ENOMEM  no memory */
int jup_read(struct jup_msg *m, enum jup_framing framing, bool binary, const void *p, size_t n,
	     const char **why);
void jup_msg_done(struct jup_msg *m);

/* --- writing ---------------------------------------------------------------------------------------- */

/* Objects are JSON in UTF-8, and go out as they are; none is {}. */
struct jup_out {
	enum jup_channel channel;
	struct json_text header; /* has msg_id and msg_type */
	struct json_text parent_header, metadata, content;
	const struct jup_bytes *buffers;
	size_t nbuffers;
};

/* Append a message to what is in j. *ret_binary says what frame it is for: legacy messages are binary if they have buffers,
 * those of v1 always. -EMSGSIZE: more than the bounds above; -EINVAL: for an unknown channel; in both cases j is as it was.
 * -ENOMEM: j has failed. */
int jup_write(struct json *j, enum jup_framing framing, const struct jup_out *o, bool *ret_binary);

struct jup_header {
	const char *msg_id, *session, *username, *msg_type;
	uint64_t unix_us; /* when, in microseconds since 1970 */
};

/* A header of protocol 5.3. The date is UTC, in ISO 8601 with microseconds. */
void jup_header_put(const struct jup_header *h, struct json *j, const char *key);
