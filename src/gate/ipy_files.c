// SPDX-License-Identifier: Apache-2.0
/*
 * Files and directories of ipybox's resource server. What is done is files.h; paths are read as pathlib reads them, and
 * answers are what its clients know.
 */
#include "gate/ipy.h"

#include "gate/files.h"

#include <errno.h>
#include <string.h>

#define ESCAPES "Invalid path: escapes root directory"

/* --- paths ---------------------------------------------------------------------------------------- */

/* Put the names of a path behind what is there: "." and nothing are none, ".." takes one away. */
static size_t walk(char *out, size_t n, const char *text)
{
	while (*text != '\0') {
		size_t len = strcspn(text, "/");

		if (len == 2 && memcmp(text, "..", 2) == 0) {
			while (n > 0 && out[n - 1] != '/')
				n--;
			n -= n > 0;
		} else if (len > 0 && !(len == 1 && *text == '.')) {
			out[n++] = '/';
			(void)memcpy(out + n, text, len);
			n += len;
		}
		text += len + (text[len] == '/');
	}
	out[n] = '\0';
	return n;
}

/* A path below `root`, as what follows that; false: it leads elsewhere. `out` has room for both. */
static bool resolve(const char *root, const char *text, char *out)
{
	size_t n = text[0] == '/' ? 0 : walk(out, 0, root), len = strlen(root);

	n = walk(out, n, text);
	if (n < len || memcmp(out, root, len) != 0 || (out[len] != '/' && out[len] != '\0'))
		return false;
	(void)memmove(out, out + len + (out[len] == '/'), n - len + (out[len] != '/'));
	return true;
}

struct abox *ipy_find(struct req *r, struct file_path *p)
{
	char text[HTTP_TARGET_MAX + 1], plain[HTTP_TARGET_MAX + 32];
	struct abox *a = ipy_box(r);
	struct http_refusal why;

	if (a == NULL)
		return NULL;
	*p = (struct file_path){ .from_root = false };
	if (http_path_decode(req_param(r), text, sizeof(text), &why) < 0)
		req_refuse(r, why.status, NULL, NULL, "%s", why.why);
	else if (!resolve(a->box->cwd, text, plain))
		req_refuse(r, 400, NULL, NULL, ESCAPES);
	else if (plain[0] != '\0' && file_path_take(p, plain, strlen(plain)) < 0)
		req_refuse(r, 400, NULL, NULL, "Invalid path: too long");
	else
		return a;
	return NULL;
}

/* --- answers -------------------------------------------------------------------------------------- */

/* What its clients do not know is told as the own API tells it. */
static void refuse_other(struct req *r, int error, const char *path, const char *why)
{
	const struct file_error *e = file_error(error);

	if (error == EXDEV) { /* by a link */
		req_refuse(r, 400, NULL, NULL, ESCAPES);
		return;
	}
	req_refuse(r, own_status((enum own_error)e->code), NULL, NULL, "'%.600s' %s%s%s", path,
		   e->text, why[0] != '\0' ? ": " : "", why);
}

static void refuse_file(struct req *r, int error, const char *path, const char *why)
{
	bool writes = http_slice_is(r->head.method, "POST");

	if (error == ENOENT || error == ENOTDIR || (error == EISDIR && !writes))
		req_refuse(r, 404, NULL, NULL, "File not found");
	else
		refuse_other(r, error, path, why);
}

static void refuse_directory(struct req *r, int error, const char *path, const char *why)
{
	if (error == ENOENT || error == ENOTDIR)
		req_refuse(r, 404, NULL, NULL, "Directory not found");
	else if (error == EBADMSG)
		req_refuse(r, 400, NULL, NULL, "Invalid tar member: %s", why);
	else
		refuse_other(r, error, path, why);
}

static void done(struct req *r, enum fileop op, const struct file_path *path,
		 const struct listing_entry *e)
{
	char text[FILE_PATH_IN_BOX + 32];
	struct json j;

	if (e == NULL) {
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s uploaded to %s",
		       op == FILEOP_WRITE ? "File" : "Directory",
		       path->text[0] != '\0' ? path->text : ".");
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "message", text);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

static const struct file_shape file_shape = { .beneath = true,
					      .refuse = refuse_file,
					      .done = done };
static const struct file_shape directory_shape = { .beneath = true,
						   .refuse = refuse_directory,
						   .done = done };

/* --- files ---------------------------------------------------------------------------------------- */

void ipy_file_get(struct req *r)
{
	struct file_path p;
	struct abox *a = ipy_find(r, &p);

	if (a != NULL)
		file_read(r, a, &file_shape, &p);
}

void ipy_file_post(struct req *r)
{
	struct file_put put = { .has_path = true };
	struct abox *a = ipy_find(r, &put.path);

	if (a != NULL)
		file_write(r, a, &file_shape, &put);
}

/* Only a file is deleted: what it is was looked at first. */
static void looked(struct req *r, enum fileop op, const struct file_path *path,
		   const struct listing_entry *e)
{
	struct abox *a;

	(void)op;
	if (e->type == 'd')
		refuse_file(r, EISDIR, path->text, "");
	else if (req_box(r, &a) == 0)
		file_delete(r, a, &file_shape, path, false);
}

void ipy_file_delete(struct req *r)
{
	static const struct file_shape look = { .beneath = true,
						.refuse = refuse_file,
						.done = looked };
	struct file_path p;
	struct abox *a = ipy_find(r, &p);

	if (a != NULL)
		file_stat(r, a, &look, &p);
}

/* --- directories ---------------------------------------------------------------------------------- */

void ipy_directory_get(struct req *r)
{
	static const struct file_archive as = { .format = "tar.gz",
						.what = "files",
						.type = "application/x-gzip" };
	struct file_path p;
	struct abox *a = ipy_find(r, &p);

	if (a != NULL)
		file_pack(r, a, &directory_shape, &p, &as);
}

void ipy_directory_post(struct req *r)
{
	struct file_path p;
	struct abox *a = ipy_find(r, &p);

	if (a != NULL)
		file_unpack(r, a, &directory_shape, &p);
}
