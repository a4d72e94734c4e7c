// SPDX-License-Identifier: Apache-2.0
/* Files of a box as resources of MCP: glovebox://BOX/PATH; and what a path or a box may go on with. */
#include "gate/file_head.h"
#include "gate/mcp_reading.h"

#include "base/base64.h"
#include "base/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMPLETE_MAX = 100 }; /* as the protocol has it */

/* --- resources -------------------------------------------------------------------------------- */

static int from_hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* %41 and the like, where it stands. false: it is wrong, or a NUL. */
static bool unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p != '\0';) {
		int high, low;

		if (*p != '%') {
			*to++ = *p++;
			continue;
		}
		high = from_hex(p[1]);
		low = high >= 0 ? from_hex(p[2]) : -1;
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*to++ = (char)(high << 4 | low);
		p += 3;
	}
	*to = '\0';
	return true;
}

bool mcp_take_uri(const char *uri, char box[MCP_BOX_NAME], char path[MCP_URI_MAX])
{
	const size_t n = sizeof(MCP_SCHEME) - 1;
	const char *slash = strncmp(uri, MCP_SCHEME, n) == 0 ? strchr(uri + n, '/') : NULL;

	if (slash == NULL || (size_t)(slash - uri) - n >= MCP_BOX_NAME || slash == uri + n)
		return false;
	(void)snprintf(box, MCP_BOX_NAME, "%.*s", (int)(slash - uri - (ptrdiff_t)n), uri + n);
	(void)snprintf(path, MCP_URI_MAX, "%s", slash + 1);
	return unescape(path) && path[0] != '\0';
}

static void on_resource_end(struct file_call *c)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;
	struct json j;

	if (rd->size > MCP_READ_MAX) {
		struct mcp_work *w = rd->w;

		file_call_close(c);
		mcp_error(mcp_work_end(w), MCP_INVALID_PARAMS, NULL,
			  "a resource has at most %d bytes: read_file takes it in parts",
			  MCP_READ_MAX);
		return;
	}
	mcp_result_begin(rd->w->c, &j);
	json_open(&j, "contents", '[');
	mcp_put_contents(&j, NULL, rd);
	json_close(&j, ']');
	file_call_close(c);
	mcp_result_end(mcp_work_end(rd->w), &j);
}

/* Whatever is wrong with it: to the client there is no such resource. */
static void on_resource_fail(struct file_call *c, int error)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;
	struct mcp_work *w = rd->w;

	(void)error;
	file_call_close(c);
	mcp_no_resource(mcp_work_end(w));
}

void mcp_resource(struct mcp_call *c)
{
	static const struct file_ops ops = { .record = mcp_reading_record,
					     .bytes = mcp_reading_bytes,
					     .end = on_resource_end,
					     .fail = on_resource_fail,
					     .release = mcp_reading_release };
	char path[MCP_URI_MAX];
	struct mcp_work *w = mcp_work_new(c, NULL, 0, NULL);
	struct file_path p = { .from_root = false };

	if (w == NULL)
		return;
	if (!mcp_take_uri(c->uri, w->box, path) ||
	    file_path_take(&p, path + (path[0] == '/'), strlen(path) - (path[0] == '/')) < 0 ||
	    !mcp_work_has_box(w)) {
		mcp_no_resource(mcp_work_end(w));
		return;
	}
	p.from_root = path[0] == '/';
	mcp_start_read(w, &p, &ops, 0, MCP_READ_MAX);
}

static int on_resources_record(struct file_call *c, const struct listing_entry *e)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;
	struct file_path p = { .from_root = false };
	struct json uri;

	if (rd->n == MCP_PAGE) {
		rd->more = true;
		return 0;
	}
	if (e->type != 'f' || file_path_take(&p, e->path, strlen(e->path)) < 0)
		return 0;
	rd->n++;
	json_init(&uri);
	mcp_put_uri(rd->w, &p, &uri);
	json_open(&rd->j, NULL, '{');
	json_bytes(&rd->j, "uri", uri.buf != NULL ? uri.buf : "", uri.len);
	json_str(&rd->j, "name", e->path);
	json_str(&rd->j, "mimeType", file_type(e->path));
	json_u64(&rd->j, "size", e->size);
	json_close(&rd->j, '}');
	json_done(&uri);
	rd->text.len = 0;
	json_raw(&rd->text, e->path, strlen(e->path));
	return 0;
}

static void finish_resources(struct mcp_call *c, const struct mcp_reading *rd)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "resources", '[');
	if (rd != NULL && rd->j.len > 0)
		json_raw(&j, rd->j.buf, rd->j.len);
	json_close(&j, ']');
	if (rd != NULL && rd->more) {
		char cursor[BASE64_TEXT_LEN(PATH_MAX)];

		json_bytes(&j, "nextCursor", cursor,
			   base64_encode((const uint8_t *)rd->text.buf, rd->text.len, cursor));
	}
	j.failed = j.failed || (rd != NULL && (rd->j.failed || rd->text.failed));
	mcp_result_end(c, &j);
}

static void on_resources_end(struct file_call *c)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;

	file_call_close(c);
	finish_resources(mcp_work_end(rd->w), rd);
}

/* The files of the box of this connection; without one there are none. */
void mcp_resources(struct mcp_call *c)
{
	static const struct file_ops ops = { .record = on_resources_record,
					     .end = on_resources_end,
					     .release = mcp_reading_release };
	uint8_t after[BASE64_BYTES_MAX(MCP_URI_MAX * 2)];
	struct mcp_work *w = mcp_work_new(c, NULL, 0, NULL);
	struct file_path p = { .from_root = false };
	size_t n = strlen(c->cursor);

	if (w == NULL)
		return;
	if (n >= MCP_URI_MAX * 2 || base64_decode(c->cursor, n, after, &n) < 0 || n >= PATH_MAX ||
	    memchr(after, '\0', n) != NULL) {
		mcp_error(mcp_work_end(w), MCP_INVALID_PARAMS, NULL,
			  "there is no such page: begin without 'cursor'");
		return;
	}
	after[n] = '\0';
	if (!mcp_work_find_box(w) || !mcp_work_has_box(w))
		finish_resources(mcp_work_end(w), NULL);
	else /* a page is of files, and directories are between them */
		mcp_start_list(w, &p, &ops, true, (const char *)after, 0);
}

/* --- completion ------------------------------------------------------------------------------- */

static void finish_completion(struct mcp_call *c, const struct mcp_reading *rd)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "completion", '{');
	json_open(&j, "values", '[');
	if (rd != NULL && rd->j.len > 0)
		json_raw(&j, rd->j.buf, rd->j.len);
	json_close(&j, ']');
	json_bool(&j, "hasMore", rd != NULL && rd->more);
	json_close(&j, '}');
	j.failed = j.failed || (rd != NULL && rd->j.failed);
	mcp_result_end(c, &j);
}

/* Boxes of who asks, whose ids begin like that. */
static void complete_box(struct mcp_work *w, const char *begin)
{
	struct mcp_reading found = { .n = 0 };
	size_t n = strlen(begin);

	json_init(&found.j);
	for (const struct abox *a = w->g->aboxes; a != NULL; a = a->next) {
		if (a->tenant != w->r.tenant || a->state != ABOX_READY ||
		    strncmp(a->id, begin, n) != 0)
			continue;
		found.more = found.n == COMPLETE_MAX;
		if (found.more)
			break;
		found.n++;
		json_str(&found.j, NULL, a->id);
	}
	finish_completion(mcp_work_end(w), &found);
	json_done(&found.j);
}

static int on_complete_record(struct file_call *c, const struct listing_entry *e)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;
	const char *begin = rd->w->extra;
	char path[2 * PATH_MAX + 2];

	(void)snprintf(path, sizeof(path), "%s%s%s%s", rd->call.path.text,
		       rd->call.path.text[0] != '\0' ? "/" : "", e->path,
		       e->type == 'd' ? "/" : "");
	if (strncmp(path, begin, strlen(begin)) != 0)
		return 0;
	if (rd->n == COMPLETE_MAX) {
		rd->more = true;
		return 0;
	}
	rd->n++;
	json_str(&rd->j, NULL, path);
	return 0;
}

static void on_complete_end(struct file_call *c)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;

	file_call_close(c);
	finish_completion(mcp_work_end(rd->w), rd);
}

static void on_complete_fail(struct file_call *c, int error)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;

	(void)error;
	file_call_close(c);
	finish_completion(mcp_work_end(rd->w), NULL);
}

/* Files of the directory that the beginning of a path is in. */
static void complete_path(struct mcp_work *w, const char *begin)
{
	static const struct file_ops ops = { .record = on_complete_record,
					     .end = on_complete_end,
					     .fail = on_complete_fail,
					     .release = mcp_reading_release };
	const char *slash = strrchr(begin, '/');
	struct file_path p = { .from_root = false };

	w->extra = strdup(begin);
	if (w->extra == NULL || begin[0] == '/' || !mcp_work_has_box(w) ||
	    (slash != NULL && file_path_take(&p, begin, (size_t)(slash - begin)) < 0))
		finish_completion(mcp_work_end(w), NULL);
	else
		mcp_start_list(w, &p, &ops, false, "", MCP_LIST_MAX);
}

/* A text of an object inside params, or NULL. */
static const char *text_of(const struct mcp_call *c, const char *object, const char *key)
{
	const struct jsonr_node *o = jsonr_get(&c->doc, c->params, object);
	const struct jsonr_node *n =
		o != NULL && o->type == JSONR_OBJECT ? jsonr_get(&c->doc, o, key) : NULL;

	return n != NULL && n->type == JSONR_STRING ? n->string : NULL;
}

/* The box that was chosen already, of context.arguments. */
static const char *chosen_box(const struct mcp_call *c)
{
	const struct jsonr_node *context = jsonr_get(&c->doc, c->params, "context");
	const struct jsonr_node *args = context != NULL && context->type == JSONR_OBJECT
						? jsonr_get(&c->doc, context, "arguments")
						: NULL;
	const struct jsonr_node *box =
		args != NULL && args->type == JSONR_OBJECT ? jsonr_get(&c->doc, args, "box") : NULL;

	return box != NULL && box->type == JSONR_STRING ? box->string : NULL;
}

void mcp_complete(struct mcp_call *c)
{
	const char *name = text_of(c, "argument", "name"), *value = text_of(c, "argument", "value");
	const char *box = chosen_box(c);
	struct mcp_work *w = mcp_work_new(c, NULL, 0, NULL);

	if (w == NULL)
		return;
	if (box != NULL)
		(void)snprintf(w->box, sizeof(w->box), "%s", box);
	if (name == NULL || value == NULL) /* the core lets none such through */
		finish_completion(mcp_work_end(w), NULL);
	else if (strcmp(name, "box") == 0)
		complete_box(w, value);
	else if (strcmp(name, "path") == 0 && (box != NULL || mcp_work_find_box(w)))
		complete_path(w, value);
	else
		finish_completion(mcp_work_end(w), NULL);
}
