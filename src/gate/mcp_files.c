// SPDX-License-Identifier: Apache-2.0
/* Files of a box, as tools of MCP. */
#include "gate/file_head.h"
#include "gate/mcp_reading.h"

#include "base/base64.h"
#include "base/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what they are asked ---------------------------------------------------------------------- */

struct list_in {
	struct field_str path, box;
	bool recursive;
};

struct read_in {
	struct field_str path, box;
	int64_t offset, limit;
};

struct write_in {
	struct field_str path, content, base64, box;
};

#define PATH_DOC "in the working directory of the box; from the root if it begins with '/'"

/* clang-format off */
static const struct field list_rows[] = {
	{ "path", FIELD_STRING, 0, 0, 4095, 0, offsetof(struct list_in, path), .doc = "a directory, " PATH_DOC, .text = "" },
	{ "recursive", FIELD_BOOL, 0, 0, 0, false, offsetof(struct list_in, recursive), .doc = "with what is in its directories" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct list_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_list_fields = { "list_files", list_rows, ARRAY_LEN(list_rows), sizeof(struct list_in), FIELDS_CLOSED };

static const struct field read_rows[] = {
	{ "path", FIELD_STRING, FIELD_REQUIRED, 1, 4095, 0, offsetof(struct read_in, path), .doc = "a file, " PATH_DOC },
	{ "offset", FIELD_INT, 0, 0, FIELD_NO_MAX, 0, offsetof(struct read_in, offset), .doc = "the first byte" },
	{ "limit", FIELD_INT, 0, 1, MCP_READ_MAX, MCP_READ_MAX, offsetof(struct read_in, limit), .doc = "how many bytes at most" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct read_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_read_fields = { "read_file", read_rows, ARRAY_LEN(read_rows), sizeof(struct read_in), FIELDS_CLOSED };

static const struct field write_rows[] = {
	{ "path", FIELD_STRING, FIELD_REQUIRED, 1, 4095, 0, offsetof(struct write_in, path), .doc = "a file, " PATH_DOC "; its directories are made" },
	{ "content", FIELD_STRING, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct write_in, content), .doc = "what is in it then: this text" },
	{ "content_base64", FIELD_BASE64, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct write_in, base64), .doc = "or these bytes" },
	{ "box", FIELD_STRING, FIELD_NULLABLE, 1, MCP_BOX_NAME - 1, 0, offsetof(struct write_in, box), .doc = MCP_BOX_DOC },
};
const struct fields mcp_write_fields = { "write_file", write_rows, ARRAY_LEN(write_rows), sizeof(struct write_in), FIELDS_CLOSED };
/* clang-format on */

/* A path as people write it: "./a/b/" and "/etc" are taken, ".." is not. 0, or -1: answered. */
static int take_path(struct mcp_work *w, const char *text, size_t n, struct file_path *p)
{
	int error;

	(void)memset(p, 0, sizeof(*p));
	p->from_root = n > 0 && text[0] == '/';
	while (n > 0 && (text[0] == '/' || (text[0] == '.' && (n == 1 || text[1] == '/')))) {
		text++;
		n--;
	}
	while (n > 0 && text[n - 1] == '/')
		n--;
	error = n > 0 ? file_path_take(p, text, n) : 0;
	if (error == 0)
		return 0;
	mcp_work_fail(w, "'%.*s' is no path here: '..', empty parts and NUL are not taken",
		      (int)(n < 600 ? n : 600), text);
	return -1;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void put_file(struct json *j, const struct mcp_reading *rd)
{
	const char *type = file_type(rd->call.path.text);

	if (mcp_is_text(&rd->bytes)) {
		mcp_put_text(j, buf_head(&rd->bytes), buf_len(&rd->bytes));
		return;
	}
	json_open(j, NULL, '{');
	if (strncmp(type, "image/", 6) == 0) {
		json_str(j, "type", "image");
		mcp_put_base64(j, "data", &rd->bytes);
		json_str(j, "mimeType", type);
	} else {
		json_str(j, "type", "resource");
		mcp_put_contents(j, "resource", rd);
	}
	json_close(j, '}');
}

static void on_read_end(struct file_call *c)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;
	const struct read_in *in = rd->w->in;
	uint64_t next = (uint64_t)in->offset + buf_len(&rd->bytes);
	struct json j;

	mcp_result_begin(rd->w->c, &j);
	json_open(&j, "content", '[');
	put_file(&j, rd);
	if (next < rd->size) {
		char note[128];

		(void)snprintf(note, sizeof(note), "[%llu of %llu bytes; go on with offset %llu]",
			       (unsigned long long)buf_len(&rd->bytes),
			       (unsigned long long)rd->size, (unsigned long long)next);
		mcp_put_text(&j, note, strlen(note));
	}
	json_close(&j, ']');
	file_call_close(c);
	mcp_result_end(mcp_work_end(rd->w), &j);
}

static void read_go(struct mcp_work *w)
{
	static const struct file_ops ops = { .record = mcp_reading_record,
					     .bytes = mcp_reading_bytes,
					     .end = on_read_end,
					     .release = mcp_reading_release };
	const struct read_in *in = w->in;
	struct file_path p;

	if (take_path(w, in->path.p, in->path.n, &p) == 0)
		mcp_start_read(w, &p, &ops, in->offset, in->limit);
}

void mcp_read_file(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_read_fields, offsetof(struct read_in, box), read_go);

	if (w != NULL)
		mcp_work_begin(w);
}

/* --- lists ------------------------------------------------------------------------------------ */

static const char *kind_of(char type)
{
	return type == 'd' ? "directory" : type == 'l' ? "symlink" : type == 'f' ? "file" : "other";
}

static int on_list_record(struct file_call *c, const struct listing_entry *e)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;
	char line[64];

	if (rd->n == MCP_LIST_MAX) {
		rd->more = true;
		return 0;
	}
	rd->n++;
	json_open(&rd->j, NULL, '{');
	json_str(&rd->j, "path", e->path);
	json_str(&rd->j, "type", kind_of(e->type));
	json_u64(&rd->j, "size", e->size);
	json_close(&rd->j, '}');
	json_raw(&rd->text, e->path, strlen(e->path));
	if (e->type == 'f')
		(void)snprintf(line, sizeof(line), "  %llu\n", (unsigned long long)e->size);
	else
		(void)snprintf(line, sizeof(line), "%s\n", e->type == 'd' ? "/" : "");
	json_raw(&rd->text, line, strlen(line));
	return 0;
}

static void on_list_end(struct file_call *c)
{
	static const char more[] = "[there are more]\n", none[] = "[nothing]\n";
	struct mcp_reading *rd = (struct mcp_reading *)c;
	struct json j;

	if (rd->more)
		json_raw(&rd->text, more, sizeof(more) - 1);
	if (rd->n == 0)
		json_raw(&rd->text, none, sizeof(none) - 1);
	mcp_result_begin(rd->w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, rd->text.buf, rd->text.len);
	json_close(&j, ']');
	json_open(&j, "structuredContent", '{');
	json_open(&j, "entries", '[');
	json_raw(&j, rd->j.buf != NULL ? rd->j.buf : "", rd->j.len);
	json_close(&j, ']');
	json_bool(&j, "more", rd->more);
	json_str(&j, "box", rd->w->box);
	json_close(&j, '}');
	j.failed = j.failed || rd->j.failed || rd->text.failed;
	file_call_close(c);
	mcp_result_end(mcp_work_end(rd->w), &j);
}

static void list_go(struct mcp_work *w)
{
	static const struct file_ops ops = { .record = on_list_record,
					     .end = on_list_end,
					     .release = mcp_reading_release };
	const struct list_in *in = w->in;
	struct file_path p;

	if (take_path(w, in->path.p, in->path.n, &p) == 0)
		mcp_start_list(w, &p, &ops, in->recursive, "", MCP_LIST_MAX);
}

void mcp_list_files(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_list_fields, offsetof(struct list_in, box), list_go);

	if (w != NULL)
		mcp_work_begin(w);
}

/* --- writing ---------------------------------------------------------------------------------- */

struct writing {
	struct file_call call;
	struct mcp_work *w;
	const char *p;
	size_t n;
};

static void on_want(struct file_call *c)
{
	struct writing *wr = (struct writing *)c;
	size_t taken = wr->n > 0 ? file_call_feed(c, wr->p, wr->n) : 0;

	wr->p += taken;
	wr->n -= taken;
	if (wr->n == 0 && !c->fed)
		file_call_fed(c);
}

static void on_written(struct file_call *c)
{
	struct writing *wr = (struct writing *)c;
	struct mcp_work *w = wr->w;
	struct json j;
	char text[96];

	file_audit(c);
	(void)snprintf(text, sizeof(text), "%llu bytes written",
		       (unsigned long long)(c->entry != NULL ? c->entry->size : 0));
	file_call_close(c);
	mcp_result_begin(w->c, &j);
	json_open(&j, "content", '[');
	mcp_put_text(&j, text, strlen(text));
	mcp_work_put_box(w, &j);
	json_close(&j, ']');
	mcp_result_end(mcp_work_end(w), &j);
}

/* What is to be written: the text, or the bytes that it stands for. 0, or -1: answered. */
static int take_content(struct mcp_work *w, const char **p, size_t *n)
{
	const struct write_in *in = w->in;
	uint8_t *bytes;

	if (in->content.set) {
		*p = in->content.p;
		*n = in->content.n;
		return 0;
	}
	bytes = malloc(BASE64_BYTES_MAX(in->base64.n) + 1);
	if (bytes == NULL || base64_decode(in->base64.p, in->base64.n, bytes, n) < 0) {
		free(bytes);
		mcp_work_fail(w, "'content_base64' is not base64");
		return -1;
	}
	free(w->extra);
	w->extra = bytes;
	*p = (const char *)bytes;
	return 0;
}

static void write_go(struct mcp_work *w)
{
	static const struct file_ops ops = { .want = on_want, .end = on_written };
	const struct write_in *in = w->in;
	struct writing *wr;
	struct file_path p;
	struct abox *a;
	const char *content;
	size_t n;

	if (take_path(w, in->path.p, in->path.n, &p) < 0 || take_content(w, &content, &n) < 0)
		return;
	w->r.param[0] = (struct http_slice){ w->box, strlen(w->box) };
	a = abox_find(&w->r, true);
	if (a == NULL || !file_may_change(&w->r, &own_shape, &p))
		return;
	wr = (struct writing *)file_call_new(&w->r, a, &own_shape, &p, &ops, sizeof(*wr));
	if (wr == NULL)
		return;
	wr->w = w;
	wr->p = content;
	wr->n = n;
	if (file_call_run(&wr->call, FILEOP_WRITE, (const char *const[]){ "", "", "", NULL }) == 0)
		on_want(&wr->call);
}

void mcp_write_file(struct mcp_call *c)
{
	struct mcp_work *w =
		mcp_work_new(c, &mcp_write_fields, offsetof(struct write_in, box), write_go);

	if (w != NULL)
		mcp_work_begin(w);
}
