// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/boxes/{box_id}/files: what is in a directory, in pages.
 *
 * A page ends with a limit, and the next one goes on behind the path of its last entry; a path that cannot stand in a query is
 * told as a slash and its base64, for no path begins with one. A short answer goes out in one piece, a long one as it comes.
 */
#include "gate/files.h"

#include "base/base64.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum {
	LIMIT = 1000,
	LIMIT_MAX = 10000,
	PIECE = 64 * 1024,
	CURSOR = 1 + BASE64_TEXT_LEN(PATH_MAX) + 1,
};

struct listing {
	struct file_call call;
	struct json j; /* of the answer, what was not sent yet */
	uint64_t limit, n;
	char last[PATH_MAX]; /* of the entries that were told */
};

static void on_release(struct file_call *c)
{
	json_done(&((struct listing *)c)->j);
}

/* --- cursors -------------------------------------------------------------------------------------- */

static void put_next(struct json *j, const char *last)
{
	size_t n = strlen(last);
	char text[CURSOR] = "/";

	if (http_is_text((struct http_slice){ last, n }))
		json_str(j, "next", last);
	else
		json_bytes(j, "next", text, 1 + base64_encode((const uint8_t *)last, n, text + 1));
}

/* ?after= as a path. 0, or -1: answered. */
static int take_after(struct req *r, char after[PATH_MAX])
{
	struct http_slice v = req_query(r, "after");
	size_t n = v.n;
	bool coded = v.n > 0 && v.p[0] == '/', good;
	uint8_t bytes[BASE64_BYTES_MAX(HTTP_TARGET_MAX)];

	after[0] = '\0';
	if (v.n == 0)
		return 0;
	good = !coded || base64_decode(v.p + 1, v.n - 1, bytes, &n) == 0;
	if (good && n < PATH_MAX) {
		(void)memcpy(after, coded ? (const char *)bytes : v.p, n);
		after[n] = '\0';
		good = strlen(after) == n && path_is_below(after);
	}
	if (good && n < PATH_MAX)
		return 0;
	own_refuse(r, OWN_INVALID_FIELD, "after", "'after' must be `next` of the page before");
	return -1;
}

/* --- the answer ----------------------------------------------------------------------------------- */

/* A piece of a long answer. */
static void send_piece(struct listing *l)
{
	struct req *r = l->call.r;

	if (!r->begun)
		req_begin(r, 200, "application/json", -1);
	(void)req_write(r, l->j.buf, l->j.len); /* after a failure gone() comes */
	l->j.len = 0;
}

static void finish(struct listing *l, bool more)
{
	struct req *r = l->call.r;

	json_close(&l->j, ']');
	if (more)
		put_next(&l->j, l->last);
	else
		json_null(&l->j, "next");
	json_close(&l->j, '}');
	if (l->j.failed) {
		file_call_fail(&l->call, FILE_NO_MEMORY);
		return;
	}
	file_call_close(&l->call); /* it stays until the end of this turn */
	if (r->begun) {
		(void)req_write(r, l->j.buf, l->j.len);
		req_end(r);
	} else {
		req_reply(r, 200, "application/json", l->j.buf, l->j.len);
	}
}

static int on_record(struct file_call *c, const struct listing_entry *e)
{
	struct listing *l = (struct listing *)c;

	if (l->n == l->limit) { /* one more than was asked for: the box says that there are more */
		finish(l, /* more= */ true);
		return 0;
	}
	l->n++;
	(void)memcpy(l->last, e->path, strlen(e->path) + 1);
	json_open(&l->j, NULL, '{');
	own_put_entry(&l->j, e->path, e);
	json_close(&l->j, '}');
	if (l->j.failed)
		file_call_fail(c, FILE_NO_MEMORY);
	else if (l->j.len >= PIECE)
		send_piece(l);
	return 0;
}

static void on_end(struct file_call *c)
{
	finish((struct listing *)c, /* more= */ false);
}

void box_files_list(struct req *r)
{
	static const struct file_ops ops = { .record = on_record,
					     .end = on_end,
					     .release = on_release };
	char after[PATH_MAX], limit[24];
	uint64_t n = LIMIT;
	bool recursive = false;
	struct file_path p;
	struct abox *a = own_find_path(r, &p);
	struct listing *l;

	if (a == NULL || own_query_flag(r, "recursive", &recursive) < 0 ||
	    own_query_u64(r, "limit", 1, LIMIT_MAX, &n) < 0 || take_after(r, after) < 0)
		return;
	l = (struct listing *)file_call_new(r, a, &own_shape, &p, &ops, sizeof(*l));
	if (l == NULL)
		return;
	l->limit = n;
	json_init(&l->j);
	json_open(&l->j, NULL, '{');
	json_open(&l->j, "entries", '[');
	(void)snprintf(limit, sizeof(limit), "%llu", (unsigned long long)n);
	(void)file_call_run(&l->call, FILEOP_LIST,
			    (const char *const[]){ recursive ? "1" : "0", after, limit, NULL });
}
