/* SPDX-License-Identifier: Apache-2.0 */
/* A file or a list of files of a box, read for a call of MCP: what its tools (mcp_files.c) and resources (mcp_resources.c) share. */
#pragma once

#include "gate/files.h"
#include "gate/mcp_work.h"

enum {
	MCP_READ_MAX = 8 * 1024 * 1024, /* bytes of one answer */
	MCP_LIST_MAX = 1000,            /* entries of one */
};

#define MCP_SCHEME "glovebox://"

/* A file that is read, or a list, for a call. */
struct mcp_reading {
	struct file_call call;
	struct mcp_work *w;
	struct buf bytes;
	uint64_t size;
	struct json j, text; /* of a list: entries, and lines */
	unsigned int n;
	bool more;
};

/* As file_ops has them. */
void mcp_reading_release(struct file_call *c);
int mcp_reading_record(struct file_call *c, const struct listing_entry *e);
int mcp_reading_bytes(struct file_call *c, const uint8_t *p, size_t n);

/* Begin; or the call is answered. */
void mcp_start_read(struct mcp_work *w, const struct file_path *p, const struct file_ops *ops,
		    int64_t offset, int64_t limit);
void mcp_start_list(struct mcp_work *w, const struct file_path *p, const struct file_ops *ops,
		    bool recursive, const char *after, unsigned int limit);

/* Whether it is text, if what is cut off at its end is not looked at. */
bool mcp_is_text(const struct buf *b);
void mcp_put_base64(struct json *j, const char *key, const struct buf *b);
/* The name of a file as a resource, without quotes. */
void mcp_put_uri(const struct mcp_work *w, const struct file_path *p, struct json *uri);
/* {"uri", "mimeType", "text" or "blob"} */
void mcp_put_contents(struct json *j, const char *key, const struct mcp_reading *rd);
