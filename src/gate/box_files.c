// SPDX-License-Identifier: Apache-2.0
/* The own API's calls about one file of a box, /v1/boxes/{box_id}/files/{path*}: what they are asked, and how they answer. */
#include "gate/files.h"

#include "base/base64.h"
#include "base/own.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- answers -------------------------------------------------------------------------------------- */

void own_put_path(struct json *j, const char *key, const char *path)
{
	char name[32], text[BASE64_TEXT_LEN(PATH_MAX)];

	json_str(j, key, path);
	if (utf8_is_valid(path))
		return;
	(void)snprintf(name, sizeof(name), "%s_base64", key);
	json_bytes(j, name, text, base64_encode((const uint8_t *)path, strlen(path), text));
}

static const char *type_str(char type)
{
	static const struct {
		char type;
		const char *name;
	} rows[] = { { 'f', "file" }, { 'd', "directory" }, { 'l', "symlink" } };

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].type == type)
			return rows[i].name;
	return "other";
}

void own_put_entry(struct json *j, const char *path, const struct listing_entry *e)
{
	char mode[8];

	(void)snprintf(mode, sizeof(mode), "%04o", (unsigned int)e->mode & 07777);
	own_put_path(j, "path", path);
	json_str(j, "type", type_str(e->type));
	json_u64(j, "size", e->size);
	json_str(j, "mode", mode);
	own_time(j, "mtime", e->mtime_ns / 1000000);
	if (e->type == 'l')
		json_str(j, "target", e->target);
	else
		json_null(j, "target");
}

/* The box has gone, and its reason is known by its word only. */
static void refuse_gone(struct req *r, const char *path, const char *reason)
{
	own_refuse_with(r, OWN_GONE, NULL, (const char *const[]){ "reason", reason, NULL },
			"'%.600s' was in a box that has ended: %s", path, reason);
}

static void refuse(struct req *r, int error, const char *path, const char *why)
{
	const struct file_error *e = file_error(error);

	if (error == FILE_GONE)
		refuse_gone(r, path, why);
	else
		own_refuse(r, (enum own_error)e->code, "path", "'%.600s' %s%s%s", path, e->text,
			   why[0] != '\0' ? ": " : "", why);
}

static int status_of(enum fileop op, const struct listing_entry *e)
{
	bool made = (e->flags & LISTING_NEW) != 0;

	return made && (op == FILEOP_WRITE || op == FILEOP_MKDIR) ? 201 : 200;
}

static void done(struct req *r, enum fileop op, const struct file_path *path,
		 const struct listing_entry *e)
{
	char etag[LISTING_ETAG];
	struct json j;

	if (e == NULL) {
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	if (e->type == 'f') {
		listing_etag(e, etag);
		req_header(r, "ETag", "%s", etag);
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	own_put_entry(&j, path->text, e);
	json_close(&j, '}');
	req_json(r, status_of(op, e), &j);
}

const struct file_shape own_shape = { .refuse = refuse, .done = done };

/* --- what is asked -------------------------------------------------------------------------------- */

/* ?root=/: from the root of the box. 0, or -1: answered. */
static int take_root(struct req *r, struct file_path *p)
{
	struct http_slice root = req_query(r, "root");

	p->from_root = http_slice_is(root, "/");
	if (p->from_root || http_query(&r->target, "root") == NULL)
		return 0;
	own_refuse(r, OWN_INVALID_FIELD, "root", "'root' must be '/', or absent");
	return -1;
}

/* What is wrong with a path that a client has sent. */
static int refuse_path(struct req *r, const char *field, int error, struct http_slice text)
{
	own_refuse(r, OWN_INVALID_PATH, field, "'%.*s' %s", (int)(text.n < 600 ? text.n : 600),
		   text.p,
		   error == -ENAMETOOLONG ? "is too long"
					  : "is no path: its names have 1 to 255 bytes, and are "
					    "neither '.' nor '..'");
	return -1;
}

/* A path of the query. 0, or -1: answered. */
static int take_query(struct req *r, const char *key, struct file_path *p)
{
	struct http_slice text = req_query(r, key);
	int error = file_path_take(p, text.p != NULL ? text.p : "", text.n);

	return error < 0 ? refuse_path(r, key, error, text) : 0;
}

struct abox *own_find_path(struct req *r, struct file_path *p)
{
	struct abox *a = abox_find(r, true);

	p->text[0] = '\0';
	if (a == NULL || take_root(r, p) < 0)
		return NULL;
	if (req_query(r, "path").n > 0 && take_query(r, "path", p) < 0)
		return NULL;
	return a;
}

/* The box and the path of the target. NULL: answered. */
static struct abox *find_file(struct req *r, struct file_path *p)
{
	struct abox *a = abox_find(r, true);
	struct http_refusal why;
	int error;

	if (a == NULL || take_root(r, p) < 0)
		return NULL;
	error = file_path_take_rest(p, r->param[1], &why);
	if (error == 0)
		return a;
	if (error == -EBADMSG)
		req_refuse(r, why.status, "malformed_request", "path", "%s", why.why);
	else
		(void)refuse_path(r, "path", error, r->param[1]);
	return NULL;
}

int own_query_flag(struct req *r, const char *key, bool *ret)
{
	uint64_t v = *ret;

	if (own_query_u64(r, key, 0, 1, &v) < 0)
		return -1;
	*ret = v != 0;
	return 0;
}

/* ?mode=644, as "644"; "" where there is none. 0, or -1: answered. */
static int take_mode(struct req *r, char mode[8])
{
	struct http_slice v = req_query(r, "mode");

	mode[0] = '\0';
	if (http_query(&r->target, "mode") == NULL)
		return 0;
	if (v.n >= 1 && v.n <= 4 && strspn(v.p, "01234567") == v.n && (v.n < 4 || v.p[0] == '0')) {
		(void)snprintf(mode, 8, "%s", v.p);
		return 0;
	}
	own_refuse(r, OWN_INVALID_FIELD, "mode", "'mode' must be octal, 0 to 777");
	return -1;
}

/* --- calls ---------------------------------------------------------------------------------------- */

void box_file_get(struct req *r)
{
	struct file_path p;
	struct abox *a = find_file(r, &p);
	bool stat = false;

	if (a == NULL || own_query_flag(r, "stat", &stat) < 0)
		return;
	if (stat)
		file_stat(r, a, &own_shape, &p);
	else
		file_read(r, a, &own_shape, &p);
}

void box_file_put(struct req *r)
{
	struct file_put put = { .has_path = true };
	struct abox *a = find_file(r, &put.path);

	if (a != NULL && take_mode(r, put.mode) == 0)
		file_write(r, a, &own_shape, &put);
}

void box_file_delete(struct req *r)
{
	struct file_path p;
	struct abox *a = find_file(r, &p);
	bool recursive = false;

	if (a != NULL && own_query_flag(r, "recursive", &recursive) == 0)
		file_delete(r, a, &own_shape, &p, recursive);
}

/* --- POST ----------------------------------------------------------------------------------------- */

static void post_form(struct req *r, struct abox *a, const struct file_put *put)
{
	(void)file_form(r, a, &own_shape, put);
}

static void post_mkdir(struct req *r, struct abox *a, const struct file_put *put)
{
	file_mkdir(r, a, &own_shape, &put->path, put->mode);
}

static void post_move(struct req *r, struct abox *a, const struct file_put *put)
{
	struct file_path to = { .from_root = put->path.from_root };
	bool overwrite = true;

	if (take_query(r, "to", &to) == 0 && own_query_flag(r, "overwrite", &overwrite) == 0)
		file_move(r, a, &own_shape, &put->path, &to, overwrite);
}

void box_file_post(struct req *r)
{
	static const struct {
		const char *op;
		void (*run)(struct req *r, struct abox *a, const struct file_put *put);
	} rows[] = { { "", post_form }, { "mkdir", post_mkdir }, { "move", post_move } };
	struct file_put put = { .has_path = true };
	struct abox *a = find_file(r, &put.path);

	if (a == NULL || take_mode(r, put.mode) < 0)
		return;
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		if (http_slice_is(req_query(r, "op"), rows[i].op)) {
			rows[i].run(r, a, &put);
			return;
		}
	own_refuse(r, OWN_INVALID_FIELD, "op", "'op' must be 'mkdir' or 'move', or absent");
}

void box_files_post(struct req *r)
{
	struct file_put put = { 0 };
	struct abox *a = abox_find(r, true);

	if (a != NULL && take_root(r, &put.path) == 0 && take_mode(r, put.mode) == 0)
		(void)file_form(r, a, &own_shape, &put);
}
