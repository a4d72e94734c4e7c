// SPDX-License-Identifier: Apache-2.0
/* A file of a session from what is in memory: a script before it is run, and what `create` is given. */
#include "gate/se_code.h"
#include "gate/se_files.h"

#include <stdio.h>

struct writing {
	struct file_call call;
	const char *p;
	size_t n, at;
	struct se_exec *x; /* of a script, until its fate is known */
};

static void feed(struct file_call *c)
{
	struct writing *w = (struct writing *)c;

	w->at += file_call_feed(c, w->p + w->at, w->n - w->at);
	if (w->at == w->n && !c->fed)
		file_call_fed(c);
}

static void begin(struct writing *w, const char *mode)
{
	if (file_call_run(&w->call, FILEOP_WRITE, (const char *const[]){ mode, "", "", NULL }) == 0)
		feed(&w->call);
}

/* --- create ----------------------------------------------------------------------------------- */

static void create_end(struct file_call *c)
{
	struct req *r = c->r;

	file_audit(c);
	file_call_close(c);
	c->shape->done(r, c->op, &c->path, c->entry);
}

void se_write(struct req *r, struct abox *a, const struct file_path *path, const char *mode,
	      const char *p, size_t n)
{
	static const struct file_ops ops = { .want = feed, .end = create_end };
	struct writing *w;

	if (!file_may_change(r, &se_shape, path))
		return;
	w = (struct writing *)file_call_new(r, a, &se_shape, path, &ops, sizeof(*w));
	if (w == NULL)
		return;
	w->p = p;
	w->n = n;
	begin(w, mode);
}

/* --- scripts ---------------------------------------------------------------------------------- */

static void script_end(struct file_call *c)
{
	struct se_exec *x = ((struct writing *)c)->x;

	file_audit(c);
	file_call_close(c);
	se_exec_run(x);
}

static void script_fail(struct file_call *c, int error)
{
	struct se_exec *x = ((struct writing *)c)->x;
	char text[SE_FILE_TEXT];
	enum se_error e = se_file_error(error, c->path.text, c->why, text);

	file_call_close(c);
	se_exec_refuse(x, e, "%s", text);
}

/* Nobody waits for it: it is not run. */
static void script_gone(struct req *r)
{
	struct writing *w = r->work;
	struct se_exec *x = w->x;

	x->r = NULL;
	file_call_close(&w->call);
	se_exec_refuse(x, SE_SESSION_ENDED, "nobody is told");
}

void se_script_write(struct se_exec *x)
{
	static const struct file_ops ops = { .want = feed, .end = script_end, .fail = script_fail };
	struct se_code *code = (struct se_code *)x; /* its first member */
	struct file_path path = { 0 };
	struct req *r = x->r;
	struct writing *w;

	if (!audit_allows(x->g)) {
		se_exec_refuse(x, SE_UNAVAILABLE, "the audit file cannot be written");
		return;
	}
	(void)snprintf(path.text, sizeof(path.text), "%s", code->path);
	x->r = NULL; /* it may be answered, and gone, before the next line */
	w = (struct writing *)file_call_new(r, x->a, &se_shape, &path, &ops, sizeof(*w));
	if (w == NULL) {
		se_exec_refuse(x, SE_UNAVAILABLE, "nobody is told");
		return;
	}
	x->r = r;
	r->gone = script_gone;
	w->p = code->in.code.p;
	w->n = code->in.code.n;
	w->x = x;
	begin(w, code->shell ? "755" : "644");
}
