// SPDX-License-Identifier: Apache-2.0
/* Operations whose answer is one record, or none. */
#include "gate/files.h"

#include <errno.h>

bool file_may_change(struct req *r, const struct file_shape *s, const struct file_path *p)
{
	char text[FILE_PATH_IN_BOX];

	if (audit_allows(r->g))
		return true;
	file_path_in_box(p, text);
	s->refuse(r, FILE_NO_AUDIT, text, "");
	return false;
}

void file_audit(const struct file_call *c)
{
	audit(c->r->g, "file", c->r, "tenant", c->a->tenant->name, "box", c->a->id, "operation",
	      fileop_row(c->op)->name, NULL);
}

static void on_end(struct file_call *c)
{
	struct req *r = c->r;

	if (c->op == FILEOP_DELETE || c->op == FILEOP_MOVE)
		file_audit(c);
	file_call_close(c);
	c->shape->done(r, c->op, &c->path, c->entry);
}

static const struct file_ops ops = { .end = on_end };

static void run(struct req *r, struct abox *a, const struct file_shape *s,
		const struct file_path *p, enum fileop op, const char *const *args)
{
	struct file_call *c = file_call_new(r, a, s, p, &ops, sizeof(*c));

	if (c != NULL)
		(void)file_call_run(c, op, args);
}

void file_stat(struct req *r, struct abox *a, const struct file_shape *s, const struct file_path *p)
{
	run(r, a, s, p, FILEOP_STAT, (const char *const[]){ "follow", NULL });
}

void file_delete(struct req *r, struct abox *a, const struct file_shape *s,
		 const struct file_path *p, bool recursive)
{
	if (file_may_change(r, s, p))
		run(r, a, s, p, FILEOP_DELETE,
		    (const char *const[]){ recursive ? "1" : "0", NULL });
}

void file_mkdir(struct req *r, struct abox *a, const struct file_shape *s,
		const struct file_path *p, const char *mode)
{
	if (file_may_change(r, s, p))
		run(r, a, s, p, FILEOP_MKDIR, (const char *const[]){ mode, NULL });
}

/* --- moving --------------------------------------------------------------------------------------- */

struct moving {
	struct file_call call;
	struct file_path to;
};

static void move_end(struct file_call *c)
{
	c->path = ((struct moving *)c)->to; /* it is there now */
	on_end(c);
}

/* It is about the one that stands in the way, not about the one that was to be moved. */
static bool is_about_target(int error)
{
	return error == EEXIST || error == ENOTEMPTY || error == EISDIR || error == ENOSPC;
}

static void move_fail(struct file_call *c, int error)
{
	if (is_about_target(error))
		c->path = ((struct moving *)c)->to;
	file_call_fail(c, error);
}

void file_move(struct req *r, struct abox *a, const struct file_shape *s, const struct file_path *p,
	       const struct file_path *to, bool overwrite)
{
	static const struct file_ops move_ops = { .end = move_end, .fail = move_fail };
	char target[FILE_PATH_IN_BOX];
	struct moving *m;

	if (!file_may_change(r, s, p))
		return;
	m = (struct moving *)file_call_new(r, a, s, p, &move_ops, sizeof(*m));
	if (m == NULL)
		return;
	m->to = *to;
	file_path_in_box(to, target);
	(void)file_call_run(&m->call, FILEOP_MOVE,
			    (const char *const[]){ target, overwrite ? "1" : "0", NULL });
}
