/* SPDX-License-Identifier: Apache-2.0 */
/* Files into a box: first whether they all exist, then one after the other. */
#pragma once

#include "gate/box.h"
#include "gate/gate.h"

/* A file to be put into a box: from memory (p), or from the store (id). */
struct stage_file {
	const char *path; /* plain and relative to the workspace, or absolute */
	unsigned int mode;
	const char *p;
	size_t n;
	const char *id;
	bool has_sha;
	uint8_t sha256[STORE_SHA256]; /* of its content: an unchanged file is not returned */
};

struct stage_failure {
	int status; /* of HTTP; 404: files[at] does not exist */
	char text[256];
};

struct stage_ops {
	void (*checked)(void *arg);
	void (*staged)(void *arg);
	void (*failed)(void *arg, const struct stage_failure *f);
};

struct stage {
	struct gate *g; /* NULL: never begun */
	const struct tenant *tenant;
	struct stage_file *files;
	size_t n, at;
	const struct stage_ops *ops;
	void *arg;
	struct gbox *box;
	struct gjob job;
	bool over, asked; /* asked: the store was, for a content */
	int pipe_fd;      /* a content on its way from the store */
	struct watch pipe;
	char *pump;
	size_t pump_at, pump_len;
};

/* See whether the store has what is asked for; its hashes are filled in. checked() or failed() is called, perhaps at
 * once. The files stay the caller's. */
void stage_check(struct gate *g, struct stage *s, const struct tenant *tenant,
		 struct stage_file *files, size_t n, const struct stage_ops *ops, void *arg);
/* Then: put them into this box, but for the first `from`. staged() or failed() is called. */
void stage_run(struct stage *s, struct gbox *box, size_t from);
/* Let go; nothing is called any more. Also after the last call. */
void stage_end(struct stage *s);
