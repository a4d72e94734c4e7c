// SPDX-License-Identifier: Apache-2.0
#include "gate/mcp_reading.h"

#include "gate/file_head.h"

#include "base/base64.h"
#include "base/own.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mcp_reading_release(struct file_call *c)
{
	struct mcp_reading *rd = (struct mcp_reading *)c;

	buf_done(&rd->bytes);
	json_done(&rd->j);
	json_done(&rd->text);
}

int mcp_reading_record(struct file_call *c, const struct listing_entry *e)
{
	((struct mcp_reading *)c)->size = e->size;
	return e->type == 'f' ? 0 : -1;
}

int mcp_reading_bytes(struct file_call *c, const uint8_t *p, size_t n)
{
	return buf_put(&((struct mcp_reading *)c)->bytes, p, n);
}

void mcp_put_base64(struct json *j, const char *key, const struct buf *b)
{
	char *text = malloc(BASE64_TEXT_LEN(buf_len(b)) + 1);

	if (text == NULL) {
		j->failed = true;
		return;
	}
	json_bytes(j, key, text, base64_encode((const uint8_t *)buf_head(b), buf_len(b), text));
	free(text);
}

bool mcp_is_text(const struct buf *b)
{
	const unsigned char *p = (const unsigned char *)buf_head(b);
	size_t n = buf_len(b), at = 0;
	uint32_t ch;

	n -= n > 0 ? utf8_unfinished(p, n) : 0;
	while (at < n) {
		size_t k = p[at] == '\0' ? 0 : utf8_next(p + at, n - at, &ch);

		if (k == 0)
			return false;
		at += k;
	}
	return n > 0 || buf_len(b) == 0;
}

void mcp_put_uri(const struct mcp_work *w, const struct file_path *p, struct json *uri)
{
	static const char plain[] = "-._~/!$&'()*+,;=:@";

	json_raw(uri, MCP_SCHEME, sizeof(MCP_SCHEME) - 1);
	json_raw(uri, w->box, strlen(w->box));
	json_raw(uri, p->from_root ? "//" : "/", p->from_root ? 2 : 1);
	for (const char *s = p->text; *s != '\0'; s++) {
		char code[4];

		if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		    (*s >= '0' && *s <= '9') || strchr(plain, *s) != NULL) {
			json_raw(uri, s, 1);
		} else {
			(void)snprintf(code, sizeof(code), "%%%02X", (unsigned char)*s);
			json_raw(uri, code, 3);
		}
	}
}

void mcp_put_contents(struct json *j, const char *key, const struct mcp_reading *rd)
{
	const char *type = file_type(rd->call.path.text);
	struct json uri;

	json_init(&uri);
	mcp_put_uri(rd->w, &rd->call.path, &uri);
	json_open(j, key, '{');
	json_bytes(j, "uri", uri.buf != NULL ? uri.buf : "", uri.len);
	json_str(j, "mimeType", type);
	if (mcp_is_text(&rd->bytes))
		json_bytes(j, "text", buf_head(&rd->bytes), buf_len(&rd->bytes));
	else
		mcp_put_base64(j, "blob", &rd->bytes);
	json_close(j, '}');
	j->failed = j->failed || uri.failed;
	json_done(&uri);
}

static struct mcp_reading *reading_new(struct mcp_work *w, const struct file_path *p,
				       const struct file_ops *ops)
{
	struct abox *a;
	struct mcp_reading *rd;

	w->r.param[0] = (struct http_slice){ w->box, strlen(w->box) };
	a = abox_find(&w->r, true);
	if (a == NULL)
		return NULL;
	rd = (struct mcp_reading *)file_call_new(&w->r, a, &own_shape, p, ops, sizeof(*rd));
	if (rd == NULL)
		return NULL;
	rd->w = w;
	buf_init(&rd->bytes, MCP_READ_MAX);
	json_init(&rd->j);
	json_init(&rd->text);
	return rd;
}

void mcp_start_read(struct mcp_work *w, const struct file_path *p, const struct file_ops *ops,
		    int64_t offset, int64_t limit)
{
	struct mcp_reading *rd = reading_new(w, p, ops);
	char from[24], count[24];

	if (rd == NULL)
		return;
	(void)snprintf(from, sizeof(from), "%lld", (long long)offset);
	(void)snprintf(count, sizeof(count), "%lld", (long long)limit);
	(void)file_call_run(&rd->call, FILEOP_READ,
			    (const char *const[]){ "follow", from, count, "", "", NULL });
}

void mcp_start_list(struct mcp_work *w, const struct file_path *p, const struct file_ops *ops,
		    bool recursive, const char *after, unsigned int limit)
{
	struct mcp_reading *rd = reading_new(w, p, ops);
	char count[24];

	if (rd == NULL)
		return;
	(void)snprintf(count, sizeof(count), "%u", limit);
	(void)file_call_run(&rd->call, FILEOP_LIST,
			    (const char *const[]){ recursive ? "1" : "0", after, count, NULL });
}
