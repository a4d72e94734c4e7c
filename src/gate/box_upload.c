// SPDX-License-Identifier: Apache-2.0
/*
 * The body of a request as a file of a box: all of it, or one part of a form.
 *
 * The box publishes a file when its input has ended, and the input ends when the last byte of the body was there and its framing
 * was sound; whatever else happens leaves what was there before.
 */
#include "gate/files.h"
#include "gate/gate.h"
#include "wire/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_end(struct file_call *c)
{
	struct req *r = c->r;

	file_audit(c);
	file_call_close(c);
	c->shape->done(r, c->op, &c->path, c->entry);
}

/* A header as a text of its own. */
static void copy_header(const struct req *r, const char *name, char *out, size_t size)
{
	struct http_slice v = req_get(r, name);

	(void)snprintf(out, size, "%.*s", (int)v.n, v.p != NULL ? v.p : "");
}

/* Begin to write, under the conditions of the request. 0, or -1: answered. */
static int begin(struct file_call *c, const char *mode)
{
	static char match[HTTP_HEAD_MAX], none_match[HTTP_HEAD_MAX]; /* until the job is encoded */
	struct req *r = c->r;

	copy_header(r, "If-Match", match, sizeof(match));
	copy_header(r, "If-None-Match", none_match, sizeof(none_match));
	if (none_match[0] != '\0' && strcmp(none_match, "*") != 0) {
		file_call_close(c);
		req_refuse(r, 422, "invalid_field", "If-None-Match",
			   "'If-None-Match' must be '*' here");
		return -1;
	}
	return file_call_run(c, FILEOP_WRITE,
			     (const char *const[]){ mode, match, none_match, NULL });
}

void file_write(struct req *r, struct abox *a, const struct file_shape *s,
		const struct file_put *put)
{
	static const struct file_ops ops = { .end = on_end };
	struct file_call *c;

	if (!file_may_change(r, s, &put->path))
		return;
	c = file_call_new(r, a, s, &put->path, &ops, sizeof(*c));
	if (c != NULL && begin(c, put->mode) == 0)
		file_call_take_body(c);
}

/* --- forms ---------------------------------------------------------------------------------------- */

enum form_part { PART_OTHER, PART_PATH, PART_FILE };

struct form {
	struct file_call call;
	struct multipart mp;
	struct buf rest; /* of a run of bytes that the box did not take whole */
	enum form_part in;
	bool has_path, has_file;
	bool fixed; /* the path is the request's own */
	char mode[8];
	char path[PATH_MAX]; /* what part 'path' says so far */
	size_t path_len;
};

static void form_release(struct file_call *c)
{
	buf_done(&((struct form *)c)->rest);
}

/* Whether nothing waits for the box any more. */
static bool flush_rest(struct form *f)
{
	if (buf_len(&f->rest) > 0)
		buf_take(&f->rest, file_call_feed(&f->call, buf_head(&f->rest), buf_len(&f->rest)));
	return buf_len(&f->rest) == 0;
}

static void form_want(struct file_call *c)
{
	if (flush_rest((struct form *)c))
		req_body_more(c->r);
}

/* A form that cannot be taken. -1. */
static int form_refuse(struct form *f, const char *field, const char *why)
{
	struct req *r = f->call.r;
	int status = f->call.shape->bad_form;

	file_call_close(&f->call);
	req_refuse(r, status != 0 ? status : 422, "invalid_field", field, "%s", why);
	return -1;
}

static int begin_file(struct form *f)
{
	const struct file_shape *s = f->call.shape;
	const char *name = f->mp.filename;
	int error;

	if (f->has_file)
		return form_refuse(f, "file", "there is more than one part 'file'");
	if (!f->has_path && (name == NULL || name[0] == '\0'))
		return form_refuse(f, "path",
				   "neither the part 'file' nor one before it says "
				   "where the file is to be");
	if (!f->has_path) {
		error = (s->take_name != NULL ? s->take_name : file_path_take)(&f->call.path, name,
									       strlen(name));
		if (error < 0) {
			file_call_fail(&f->call, -error);
			return -1;
		}
	}
	f->has_file = true;
	f->in = PART_FILE;
	return begin(&f->call, f->mode);
}

static int begin_path(struct form *f)
{
	if (f->fixed)
		return 0;
	if (f->has_path)
		return form_refuse(f, "path", "the path is said twice");
	if (f->has_file)
		return form_refuse(f, "path", "the part 'path' must stand before the part 'file'");
	f->in = PART_PATH;
	return 0;
}

static int begin_part(struct form *f)
{
	f->in = PART_OTHER;
	if (strcmp(f->mp.name, "file") == 0)
		return begin_file(f);
	return strcmp(f->mp.name, "path") == 0 ? begin_path(f) : 0;
}

static int take_data(struct form *f, struct http_slice data)
{
	size_t taken;

	if (f->in == PART_PATH) {
		if (data.n >= sizeof(f->path) - f->path_len)
			return form_refuse(f, "path", "the path is too long");
		(void)memcpy(f->path + f->path_len, data.p, data.n);
		f->path_len += data.n;
	}
	if (f->in != PART_FILE)
		return 0;
	taken = file_call_feed(&f->call, data.p, data.n);
	if (taken < data.n && buf_put(&f->rest, data.p + taken, data.n - taken) < 0) {
		file_call_fail(&f->call, FILE_NO_MEMORY);
		return -1;
	}
	return 0;
}

static int end_part(struct form *f)
{
	int error = 0;

	if (f->in == PART_PATH) {
		f->has_path = true;
		error = file_path_take(&f->call.path, f->path, f->path_len);
	}
	f->in = PART_OTHER;
	if (error == 0)
		return 0;
	file_call_fail(&f->call, -error);
	return -1;
}

static int act(struct form *f, enum multipart_event event, struct http_slice data)
{
	switch (event) {
	case MULTIPART_PART:
		return begin_part(f);
	case MULTIPART_DATA:
		return take_data(f, data);
	case MULTIPART_PART_END:
		return end_part(f);
	case MULTIPART_MORE:
	case MULTIPART_END:
		break;
	}
	return 0;
}

/* What is no form. -1. */
static int refuse_form(struct req *r, struct form *f, const struct http_refusal *why)
{
	file_call_close(&f->call);
	req_refuse(r, why->status,
		   why->status == 415 ? "unsupported_media_type" : "malformed_request", NULL, "%s",
		   why->why);
	return -1;
}

static ptrdiff_t form_body(struct req *r, const char *p, size_t n)
{
	enum multipart_event event = MULTIPART_DATA;
	struct form *f = r->work;
	size_t at = 0;

	while (flush_rest(f) && event != MULTIPART_MORE) {
		struct http_slice data = { NULL, 0 };
		struct http_refusal why;
		ptrdiff_t used = multipart_feed(&f->mp, p + at, n - at, &event, &data, &why);

		if (used < 0)
			return refuse_form(r, f, &why);
		at += (size_t)used;
		if (act(f, event, data) < 0)
			return -1;
	}
	return (ptrdiff_t)at;
}

static void form_end(struct req *r)
{
	struct form *f = r->work;
	struct http_refusal why;

	if (multipart_end(&f->mp, &why) < 0)
		(void)refuse_form(r, f, &why);
	else if (!f->has_file)
		(void)form_refuse(f, "file", "the form has no part 'file'");
	else
		file_call_fed(&f->call);
}

int file_form(struct req *r, struct abox *a, const struct file_shape *s, const struct file_put *put)
{
	static const struct file_ops ops = { .want = form_want,
					     .end = on_end,
					     .release = form_release };
	struct http_refusal why;
	struct form *f;

	if (!file_may_change(r, s, &put->path))
		return -1;
	f = (struct form *)file_call_new(r, a, s, &put->path, &ops, sizeof(*f));
	if (f == NULL)
		return -1;
	buf_init(&f->rest, GATE_SCRATCH);
	f->has_path = f->fixed = put->has_path;
	(void)snprintf(f->mode, sizeof(f->mode), "%s", put->mode);
	if (multipart_init(&f->mp, req_get(r, "Content-Type"), &why) < 0)
		return refuse_form(r, f, &why);
	r->take_body = form_body;
	r->body_end = form_end;
	return 0;
}
