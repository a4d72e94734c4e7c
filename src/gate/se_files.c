// SPDX-License-Identifier: Apache-2.0
/* Files of a session: create, upload, download, preview, files, status. Each is an operation on files of its box. */
#include "gate/se_files.h"

#include "base/own.h"
#include "gate/file_head.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
	LISTING_MAX = 32 * 1024 * 1024, /* bytes of a listing, as JSON */
	LOCATION_MAX = 1000,
};

/* --- how files are told of -------------------------------------------------------------------- */

static const struct {
	int error;
	enum se_error e;
	const char *text;
} errors[] = {
	{ ENOENT, SE_NOT_FOUND, "it does not exist" },
	{ ENOTDIR, SE_NOT_A_DIRECTORY, "it is none, or something on the way to it is none" },
	{ EISDIR, SE_NOT_A_FILE, "it is a directory" },
	{ EINVAL, SE_NOT_A_FILE, "it is something else" },
	{ EXDEV, SE_PATH, "a link on its way leads out of the session" },
	{ ELOOP, SE_PATH, "it goes through links without end" },
	{ ENAMETOOLONG, SE_PATH, "it is too long, or has a name that is" },
	{ EEXIST, SE_PATH, "something else is there" },
	{ EACCES, SE_NOT_PERMITTED, "the user of the session may not do this" },
	{ EPERM, SE_NOT_PERMITTED, "the user of the session may not do this" },
	{ EROFS, SE_NOT_PERMITTED, "it is on a file system that is read-only" },
	{ ENOSPC, SE_NO_SPACE, "the session is full" },
	{ EDQUOT, SE_NO_SPACE, "the session is full" },
	{ EFBIG, SE_NO_SPACE, "the session has no room for a file of this size" },
	{ ECANCELED, SE_CONDITION, "it is not as If-Match or If-None-Match has it" },
	{ ERANGE, SE_RANGE, "it has no byte of this range" },
	{ EMFILE, SE_UNAVAILABLE, "the session has no descriptors left" },
	{ ENFILE, SE_UNAVAILABLE, "there are no descriptors left" },
	{ ENOMEM, SE_UNAVAILABLE, "the session has no memory left" },
	{ EAGAIN, SE_UNAVAILABLE, "the session has no processes left" },
	{ E2BIG, SE_FILE_FAILED, "there are too many files: ask for a directory of them" },
	{ FILE_GONE, SE_SESSION_ENDED, "the session has ended" },
	{ FILE_BROKEN, SE_FILE_FAILED, "what the session answers makes no sense" },
	{ FILE_FULL, SE_QUEUE, "too many operations on files of this session are under way" },
	{ FILE_NO_BOX, SE_UNAVAILABLE, "the session cannot be reached yet" },
	{ FILE_NO_MEMORY, SE_UNAVAILABLE, "out of memory" },
	{ FILE_NO_AUDIT, SE_UNAVAILABLE, "the audit file cannot be written" },
};

enum se_error se_file_error(int error, const char *path, const char *why, char text[SE_FILE_TEXT])
{
	unsigned int i = 0;

	while (i < ARRAY_LEN(errors) && errors[i].error != error)
		i++;
	(void)snprintf(text, SE_FILE_TEXT, "'%.600s': %s%s%.200s", path,
		       i < ARRAY_LEN(errors) ? errors[i].text : "it cannot be worked with",
		       why[0] != '\0' ? ": " : "", why);
	return i < ARRAY_LEN(errors) ? errors[i].e : SE_FILE_FAILED;
}

void se_file_refuse(struct req *r, int error, const char *path, const char *why)
{
	char text[SE_FILE_TEXT];
	enum se_error e = se_file_error(error, path, why, text);

	se_refuse(r, e, "%s", text);
}

/* A file was written. */
static void done(struct req *r, enum fileop op, const struct file_path *path,
		 const struct listing_entry *e)
{
	struct json j;

	(void)op;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "filename", path->text);
	json_u64(&j, "size", e->size);
	json_close(&j, '}');
	se_answer(r, &j);
}

/* The reference says of no file what it is. */
static const char *head_of_download(struct req *r, const struct file_path *p)
{
	file_head_hostile(r, file_path_name(p));
	return "application/octet-stream";
}

static int take_name(struct file_path *p, const char *text, size_t n)
{
	if (se_join(text, n, p->text) != NULL || p->text[0] == '\0')
		return -EXDEV;
	return 0;
}

const struct file_shape se_shape = { .cwd = "/workspace",
				     .beneath = true,
				     .refuse = se_file_refuse,
				     .done = done,
				     .head = head_of_download,
				     .take_name = take_name,
				     .bad_form = 400 };

/* --- create ----------------------------------------------------------------------------------- */

struct create_in {
	struct field_str content, filename;
	int64_t mode;
};

static const struct field create_rows[] = {
	{ .name = "content",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct create_in, content),
	  .doc = "what is in it" },
	{ .name = "filename",
	  .type = FIELD_STRING,
	  .flags = FIELD_REQUIRED,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct create_in, filename),
	  .doc = "where in the workspace" },
	{ .name = "mode",
	  .type = FIELD_INT,
	  .min = 0,
	  .max = 0777,
	  .def = 0644,
	  .at = offsetof(struct create_in, mode),
	  .doc = "permissions, as a decimal number" },
};

const struct fields se_create_fields = { "CreateFileRequest", create_rows, ARRAY_LEN(create_rows),
					 sizeof(struct create_in), 0 };

/* A request about one file, until there is its session. */
struct asked {
	struct file_path path;
	struct ci_body body;
	struct create_in in;
};

static void asked_drop(void *arg)
{
	struct asked *k = arg;

	ci_body_done(&k->body);
	free(k);
}

static struct asked *asked_new(struct req *r)
{
	struct asked *k = calloc(1, sizeof(*k));

	if (k == NULL)
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
	return k;
}

static void create_ready(void *arg, struct req *r, struct abox *a)
{
	struct asked *k = arg;
	struct create_in in = k->in; /* its texts are in the request */
	struct file_path path = k->path;
	char mode[8];

	asked_drop(k);
	(void)snprintf(mode, sizeof(mode), "%o", (unsigned int)in.mode);
	se_write(r, a, &path, mode, in.content.p, in.content.n);
}

void se_create(struct req *r)
{
	struct asked *k = asked_new(r);
	char name[SE_NAME];

	if (k == NULL)
		return;
	if (se_take_name(r, name) < 0 || ci_decode(r, &se_create_fields, &k->body, &k->in) < 0) {
		free(k);
		return;
	}
	if (se_take_filename(r, k->in.filename.p, k->in.filename.n, k->path.text) < 0)
		asked_drop(k);
	else
		se_with(r, name, create_ready, asked_drop, k);
}

/* --- upload ----------------------------------------------------------------------------------- */

static void upload_ready(void *arg, struct req *r, struct abox *a)
{
	struct file_put put = *(struct file_put *)arg;

	free(arg);
	if (file_form(r, a, &se_shape, &put) == 0)
		req_body_more(r);
}

void se_upload(struct req *r)
{
	const struct http_slice *filename = http_query(&r->target, "filename");
	struct file_put *put = calloc(1, sizeof(*put));
	char name[SE_NAME];

	if (put == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	put->has_path = filename != NULL && filename->n > 0;
	if (se_take_name(r, name) < 0 ||
	    (put->has_path && se_take_filename(r, filename->p, filename->n, put->path.text) < 0)) {
		free(put);
		return;
	}
	if (r->head.framing == HTTP_NO_BODY ||
	    (r->head.framing == HTTP_LENGTH && r->head.length == 0)) {
		free(put);
		se_refuse(r, SE_NO_FILE, "the request has no body");
		return;
	}
	req_body_wait(r); /* there may be no session to put it into yet */
	se_with(r, name, upload_ready, free, put);
}

/* --- download and preview --------------------------------------------------------------------- */

/* What is shown, and what it is for a browser. It has no rights of a page of this server's. */
static const struct {
	const char *end, *type;
} previews[] = {
	{ "html", "text/html; charset=utf-8" },
	{ "txt", "text/plain; charset=utf-8" },
	{ "md", "text/markdown; charset=utf-8" },
	{ "json", "application/json" },
	{ "xml", "application/xml" },
	{ "csv", "text/csv; charset=utf-8" },
	{ "png", "image/png" },
	{ "jpg", "image/jpeg" },
	{ "jpeg", "image/jpeg" },
	{ "gif", "image/gif" },
	{ "bmp", "image/bmp" },
	{ "webp", "image/webp" },
	{ "svg", "image/svg+xml" },
	{ "ico", "image/x-icon" },
};

static const char *preview_type(const char *path)
{
	const char *end = se_extension(path);

	for (unsigned int i = 0; end != NULL && i < ARRAY_LEN(previews); i++)
		if (strcasecmp(end, previews[i].end) == 0)
			return previews[i].type;
	return NULL;
}

static const char *head_of_preview(struct req *r, const struct file_path *p)
{
	req_header(r, "Content-Disposition", "inline");
	req_header(r, "Content-Security-Policy", "sandbox");
	req_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	return preview_type(p->text);
}

static void download_ready(void *arg, struct req *r, struct abox *a)
{
	struct file_path path = ((struct asked *)arg)->path;

	asked_drop(arg);
	file_read(r, a, &se_shape, &path);
}

void se_download(struct req *r)
{
	struct asked *k = asked_new(r);
	char name[SE_NAME];

	if (k == NULL)
		return;
	if (se_take_file(r, name, k->path.text) < 0)
		asked_drop(k);
	else
		se_with(r, name, download_ready, asked_drop, k);
}

static void preview_ready(void *arg, struct req *r, struct abox *a)
{
	static const struct file_shape shape = { .cwd = "/workspace",
						 .beneath = true,
						 .refuse = se_file_refuse,
						 .head = head_of_preview };
	struct file_path path = ((struct asked *)arg)->path;

	asked_drop(arg);
	file_read(r, a, &shape, &path);
}

/* What has no path behind its session is a list of the session "preview". */
void se_preview(struct req *r)
{
	const struct http_slice rest = r->param[0];
	const char *slash = rest.n > 0 ? memchr(rest.p, '/', rest.n) : NULL;
	struct asked *k;
	char name[SE_NAME];

	if (slash == NULL || slash + 1 == rest.p + rest.n) {
		r->param[0] = http_target_rest(&r->target, SE_FILES_DEPTH);
		se_list(r);
		return;
	}
	k = asked_new(r);
	if (k == NULL)
		return;
	if (se_take_file(r, name, k->path.text) < 0) {
		asked_drop(k);
	} else if (preview_type(k->path.text) == NULL) {
		se_refuse(r, SE_NOT_SHOWN, "'%.600s'", k->path.text);
		asked_drop(k);
	} else {
		se_with(r, name, preview_ready, asked_drop, k);
	}
}

/* --- files and status ------------------------------------------------------------------------- */

struct listing {
	struct file_call call;
	bool status; /* more is told: it is part of the answer to status */
	struct json j;
};

static void on_release(struct file_call *c)
{
	json_done(&((struct listing *)c)->j);
}

/* The reference keeps what a program prints in files of these names, and does not list them. Here it has no such files; but whoever has
 * others of these names finds them listed, or not, as there. */
static bool is_log(const char *name)
{
	return strcmp(name, "stdout.log") == 0 || strcmp(name, "stderr.log") == 0;
}

static void put_file(struct listing *l, const char *name, const struct listing_entry *e)
{
	const char *end = se_extension(name);

	json_open(&l->j, NULL, '{');
	json_str(&l->j, "filename", name);
	json_u64(&l->j, "size", e->size);
	json_str(&l->j, "type", end != NULL ? end : "unknown");
	if (l->status)
		own_time(&l->j, "modified_at", e->mtime_ns / 1000000);
	json_close(&l->j, '}');
}

static int on_record(struct file_call *c, const struct listing_entry *e)
{
	struct listing *l = (struct listing *)c;
	char name[2 * PATH_MAX];

	if (e->type != 'f')
		return 0;
	(void)snprintf(name, sizeof(name), "%s%s%s", c->path.text,
		       c->path.text[0] != '\0' ? "/" : "", e->path);
	if (is_log(name))
		return 0;
	put_file(l, name, e);
	if (l->j.failed || l->j.len > LISTING_MAX)
		file_call_fail(c, l->j.failed ? FILE_NO_MEMORY : E2BIG);
	return 0;
}

static void on_listed(struct file_call *c)
{
	struct listing *l = (struct listing *)c;
	struct req *r = c->r;

	json_close(&l->j, ']');
	json_close(&l->j, '}');
	file_call_close(c); /* it stays until the end of this turn */
	se_answer(r, &l->j);
}

/* A session that is not there. It is not made by asking for its status. */
static void answer_absent(struct req *r, const char *name)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "id", name);
	json_bool(&j, "exists", false);
	json_null(&j, "created_at");
	json_null(&j, "mount_point");
	json_bool(&j, "is_mounted", false);
	json_open(&j, "files", '[');
	json_close(&j, ']');
	json_close(&j, '}');
	se_answer(r, &j);
}

/* One that ends while its files are listed is not there. */
static void on_unlisted(struct file_call *c, int error)
{
	struct req *r = c->r;
	char name[SE_NAME];

	if (error != FILE_GONE || !((struct listing *)c)->status || r->begun) {
		file_call_fail(c, error);
		return;
	}
	(void)snprintf(name, sizeof(name), "%s", se_name(c->a));
	file_call_close(c);
	answer_absent(r, name);
}

/* All files below a directory, into an object that is begun by put(). */
static void list(struct req *r, struct abox *a, const struct file_path *path, bool recursive,
		 void (*put)(struct json *j, const struct abox *a))
{
	static const struct file_ops ops = {
		.record = on_record, .end = on_listed, .fail = on_unlisted, .release = on_release
	};
	struct listing *l =
		(struct listing *)file_call_new(r, a, &se_shape, path, &ops, sizeof(*l));

	if (l == NULL)
		return;
	l->status = put != NULL;
	json_init(&l->j);
	json_open(&l->j, NULL, '{');
	if (put != NULL)
		put(&l->j, a);
	json_open(&l->j, "files", '[');
	(void)file_call_run(&l->call, FILEOP_LIST,
			    (const char *const[]){ recursive ? "1" : "0", "", "0", NULL });
}

struct listed {
	struct file_path path;
	bool recursive;
};

static void list_ready(void *arg, struct req *r, struct abox *a)
{
	struct listed k = *(struct listed *)arg;

	free(arg);
	list(r, a, &k.path, k.recursive, NULL);
}

void se_list(struct req *r)
{
	struct listed *k = calloc(1, sizeof(*k));
	char name[SE_NAME];

	if (k == NULL)
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
	else if (se_take_directory(r, name, k->path.text) < 0 ||
		 se_query_bool(r, "recursive", &k->recursive) < 0)
		free(k);
	else
		se_with(r, name, list_ready, free, k);
}

/* /files/{sid} is no directory, as browsers see it: what is below it would be relative to /files. */
void se_list_here(struct req *r)
{
	struct http_slice path = r->head.target, query = { "", 0 };
	const char *at = path.n > 0 ? memchr(path.p, '?', path.n) : NULL;

	if (path.n > LOCATION_MAX) { /* a header has no room for it: the list itself, then */
		r->param[0] = http_target_rest(&r->target, SE_FILES_DEPTH);
		se_list(r);
		return;
	}
	if (at != NULL) {
		query = (struct http_slice){ at, path.n - (size_t)(at - path.p) };
		path.n = (size_t)(at - path.p);
	}
	req_header(r, "Location", "%.*s/%.*s", (int)path.n, path.p, (int)query.n, query.p);
	req_reply(r, 307, NULL, "", 0);
}

static void put_status(struct json *j, const struct abox *a)
{
	json_str(j, "id", se_name(a));
	json_bool(j, "exists", true);
	own_time(j, "created_at", a->created_ms);
	json_str(j, "mount_point", SE_MOUNT_POINT);
	json_bool(j, "is_mounted", true);
}

void se_status(struct req *r)
{
	static const struct file_path top = { 0 };
	char name[SE_NAME];
	struct abox *a;

	if (se_take_name(r, name) < 0)
		return;
	a = se_find(r->g, r->tenant, name);
	if (a != NULL)
		list(r, a, &top, true, put_status);
	else
		answer_absent(r, name);
}
