/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart/form-data bodies (RFC 7578), as they arrive: fields and files of a form.
 *
 *	if (multipart_init(&m, content_type, &r) < 0)
 *		answer r
 *	for each piece of the body:
 *		do {
 *			used = multipart_feed(&m, p, n, &event, &data, &r);
 *			if (used < 0)
 *				answer r
 *			p += used, n -= used;
 *			act on event
 *		} while (event != MULTIPART_MORE);
 *	if (multipart_end(&m, &r) < 0)
 *		answer r
 *
 * One call reports one event at most, so that a caller who cannot take more stops there and goes
 * on later with the rest. Nothing is allocated; only what may be the beginning of a boundary is
 * held back, and the headers of one part. The events do not depend on how the body was cut, apart
 * from the length of single runs of data.
 */
#pragma once

#include "wire/http1.h"

#include <stddef.h>
#include <stdint.h>

enum {
	MULTIPART_BOUNDARY_MAX = 70,
	MULTIPART_HEAD_MAX = 8192,   /* headers of a part */
	MULTIPART_AROUND_MAX = 8192, /* bytes before the first boundary, and behind the last */
	MULTIPART_NAME_MAX = 1024,   /* of a field, and of a file */
	MULTIPART_TYPE_MAX = 255,
};

enum multipart_event {
	MULTIPART_MORE,     /* everything given was taken, nothing to report */
	MULTIPART_PART,     /* a part begins: name, filename and content_type are those of it */
	MULTIPART_DATA,     /* bytes of it; valid until the next call */
	MULTIPART_PART_END, /* the boundary behind it was seen */
	MULTIPART_END,      /* the last boundary; what follows is skipped, within bounds */
};

/* For others: name, filename and content_type, from MULTIPART_PART on until the next one. Points
 * into itself: do not copy. */
struct multipart {
	char name[MULTIPART_NAME_MAX + 1]; /* UTF-8 without control characters; may be empty */
	const char *filename;     /* the same, or NULL: a label that the client chose, no path */
	const char *content_type; /* printable ASCII, or NULL */

	char filename_buf[MULTIPART_NAME_MAX + 1], type_buf[MULTIPART_TYPE_MAX + 1];
	char mark[4 + MULTIPART_BOUNDARY_MAX]; /* CR LF -- boundary */
	char head[MULTIPART_HEAD_MAX];
	size_t mark_len, head_len;
	size_t held;    /* bytes of mark that were seen, and may be data */
	size_t implied; /* of these: line end that stands before the text and is no data */
	size_t around;  /* bytes skipped before the first boundary, or behind the last */
	unsigned char state;
};

/* From the value of the request's Content-Type. 0, or -1: refused, with 415 where it is no form. */
int multipart_init(struct multipart *m, struct http_slice content_type, struct http_refusal *r);

/* Take bytes from the front of p and report one event. Returns how many were taken, which may be 0
 * when the event comes of bytes before, or -1: refused, now and ever after. *data is set for
 * MULTIPART_DATA alone, is never empty then, and lies in p or in *m. */
ptrdiff_t multipart_feed(struct multipart *m, const char *p, size_t n, enum multipart_event *event,
			 struct http_slice *data, struct http_refusal *r);

/* The body is over: 0 when its last boundary was there, -1 when it was cut short or refused
 * before. */
int multipart_end(const struct multipart *m, struct http_refusal *r);
