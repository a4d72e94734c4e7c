// SPDX-License-Identifier: Apache-2.0
/*
 * A file as the body of an answer: GET with ranges and conditions (RFC 9110), and HEAD.
 *
 * The box sends a record, by which both sides know how many bytes follow (fileop_send). They are announced to the client, and
 * an answer that is not complete then is cut, so that nobody takes it for whole.
 */
#include "gate/file_head.h"
#include "gate/files.h"
#include "wire/http_range.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct reading {
	struct file_call call;
	struct http_range range;
	char *if_range, *if_none_match; /* "" where there is none */
	uint64_t left;                  /* bytes of the answer that have not come yet */
};

static void on_release(struct file_call *c)
{
	struct reading *rd = (struct reading *)c;

	free(rd->if_range);
	free(rd->if_none_match);
}

/* What is said of a file, whether its bytes follow or not. Returns its type. */
static const char *put_head(const struct file_call *c, const struct listing_entry *e)
{
	const struct file_path *p = &c->path;
	struct req *r = c->r;
	char etag[LISTING_ETAG], date[FILE_DATE];

	listing_etag(e, etag);
	file_date(e->mtime_ns, date);
	req_header(r, "ETag", "%s", etag);
	req_header(r, "Last-Modified", "%s", date);
	req_header(r, "Accept-Ranges", "bytes");
	req_header(r, "Cache-Control", "private, no-cache");
	if (c->shape->head != NULL)
		return c->shape->head(r, p);
	file_head_hostile(r, file_path_name(p));
	return file_type(p->text);
}

/* An answer without a body: of HEAD, or because the client has it. */
static void answer_head(struct reading *rd, int status)
{
	struct file_call *c = &rd->call;
	struct req *r = c->r;
	const char *type = put_head(c, c->entry);
	int64_t size = (int64_t)c->entry->size;

	file_call_close(c);
	req_begin(r, status, status == 304 ? NULL : type, size);
	req_end(r);
}

static void refuse_range(struct reading *rd)
{
	req_header(rd->call.r, "Content-Range", "bytes */%" PRIu64, rd->call.entry->size);
	file_call_fail(&rd->call, ERANGE);
}

/* Whether the range holds: not if the client wants the rest of what is not there any more. */
static bool is_part(const struct reading *rd, const struct listing_entry *e)
{
	char etag[LISTING_ETAG];

	listing_etag(e, etag);
	return rd->range.set && (rd->if_range[0] == '\0' || strcmp(rd->if_range, etag) == 0);
}

static void begin_answer(struct reading *rd, const struct listing_entry *e, uint64_t start)
{
	const char *type = put_head(&rd->call, e);
	struct req *r = rd->call.r;
	bool part = is_part(rd, e);

	if (part)
		req_header(r, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, start,
			   start + rd->left - 1, e->size);
	req_begin(r, part ? 206 : 200, type, (int64_t)rd->left);
}

static int on_record(struct file_call *c, const struct listing_entry *e)
{
	struct reading *rd = (struct reading *)c;
	const struct fileop_read q = { .links = "follow",
				       .from = rd->range.from,
				       .count = rd->range.count,
				       .if_range = rd->if_range,
				       .if_none_match = rd->if_none_match };
	uint64_t start = 0;
	int sent = fileop_send(e, &q, &start, &rd->left);

	if (sent < 0 || e->type != 'f' || e->size > INT64_MAX)
		return -1;
	if (sent == FILEOP_UNCHANGED)
		answer_head(rd, 304);
	else if (sent == FILEOP_NO_RANGE || (rd->left == 0 && is_part(rd, e)))
		refuse_range(rd);
	else
		begin_answer(rd, e, start);
	return 0;
}

static int on_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	struct reading *rd = (struct reading *)c;

	if (n > rd->left)
		return -1;
	rd->left -= n;
	(void)req_write(c->r, p, n); /* after a failure gone() comes */
	return 0;
}

static void on_end(struct file_call *c)
{
	struct reading *rd = (struct reading *)c;
	struct req *r = c->r;

	if (rd->left > 0) {
		file_call_fail(c, FILE_BROKEN);
		return;
	}
	file_call_close(c);
	req_end(r);
}

/* --- HEAD ----------------------------------------------------------------------------------------- */

static void on_stat_end(struct file_call *c)
{
	struct reading *rd = (struct reading *)c;
	char etag[LISTING_ETAG];

	if (c->entry->type != 'f' || c->entry->size > INT64_MAX) {
		file_call_fail(c, c->entry->type == 'd'   ? EISDIR
				  : c->entry->type != 'f' ? EINVAL
							  : FILE_BROKEN);
		return;
	}
	listing_etag(c->entry, etag);
	answer_head(rd, etag_listed(rd->if_none_match, etag) ? 304 : 200);
}

/* --- both ----------------------------------------------------------------------------------------- */

static char *copy_header(const struct req *r, const char *name)
{
	struct http_slice v = req_get(r, name);
	char *text = malloc(v.n + 1);

	if (text == NULL)
		return NULL;
	if (v.n > 0)
		(void)memcpy(text, v.p, v.n);
	text[v.n] = '\0';
	return text;
}

void file_read(struct req *r, struct abox *a, const struct file_shape *s, const struct file_path *p)
{
	static const struct file_ops read_ops = {
		.record = on_record, .bytes = on_bytes, .end = on_end, .release = on_release
	};
	static const struct file_ops stat_ops = { .end = on_stat_end, .release = on_release };
	struct reading *rd = (struct reading *)file_call_new(
		r, a, s, p, r->head_only ? &stat_ops : &read_ops, sizeof(*rd));

	if (rd == NULL)
		return;
	http_range_parse(req_get(r, "Range"), &rd->range);
	rd->if_range = copy_header(r, "If-Range");
	rd->if_none_match = copy_header(r, "If-None-Match");
	if (rd->if_range == NULL || rd->if_none_match == NULL)
		file_call_fail(&rd->call, FILE_NO_MEMORY);
	else if (r->head_only)
		(void)file_call_run(&rd->call, FILEOP_STAT,
				    (const char *const[]){ "follow", NULL });
	else
		(void)file_call_run(&rd->call, FILEOP_READ,
				    (const char *const[]){ "follow", rd->range.from,
							   rd->range.count, rd->if_range,
							   rd->if_none_match, NULL });
}
