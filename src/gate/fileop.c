// SPDX-License-Identifier: Apache-2.0
#include "gate/fileop.h"

#include "base/own.h"
#include "gate/boxes.h"
#include "gate/gate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* What an operation writes to its standard output. */
enum says {
	SAYS_NOTHING,
	SAYS_RECORD,
	SAYS_RECORDS,
	SAYS_RECORD_AND_BYTES,
	SAYS_BYTES,
};

static const struct {
	enum says says;
	bool takes; /* input */
} kinds[FILEOP_MAX] = {
	[FILEOP_STAT] = { SAYS_RECORD, false },    [FILEOP_READ] = { SAYS_RECORD_AND_BYTES, false },
	[FILEOP_WRITE] = { SAYS_RECORD, true },    [FILEOP_MKDIR] = { SAYS_RECORD, false },
	[FILEOP_DELETE] = { SAYS_NOTHING, false }, [FILEOP_MOVE] = { SAYS_RECORD, false },
	[FILEOP_LIST] = { SAYS_RECORDS, false },   [FILEOP_TREE] = { SAYS_RECORDS, false },
	[FILEOP_WATCH] = { SAYS_BYTES, false },    [FILEOP_PACK] = { SAYS_BYTES, false },
	[FILEOP_UNPACK] = { SAYS_RECORD, true },
};

/* --- errors --------------------------------------------------------------------------------------- */

static const struct file_error errors[] = {
#define FILE_ERROR(error, code, text) { error, OWN_##code, text },
#include "gate/file_errors.tbl"
#undef FILE_ERROR
};

const struct file_error *file_error(int error)
{
	static const struct file_error other = { 0, OWN_FILE_FAILED, "cannot be worked with" };

	for (unsigned int i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i].error == error)
			return &errors[i];
	return &other;
}

static void refuse(struct req *r, const struct file_shape *shape, int error,
		   const struct file_path *path, const char *why)
{
	char text[FILE_PATH_IN_BOX];

	file_path_in_box(path, text);
	shape->refuse(r, error, text, why);
}

void file_call_fail(struct file_call *c, int error)
{
	struct req *r = c->r;

	file_call_close(c); /* it stays until the end of this turn */
	if (r->begun)
		req_abort(r);
	else
		refuse(r, c->shape, error, &c->path, c->why);
}

static void failed(struct file_call *c, int error)
{
	if (c->ops->fail != NULL)
		c->ops->fail(c, error);
	else
		file_call_fail(c, error);
}

/* --- the end -------------------------------------------------------------------------------------- */

static void call_free(void *arg)
{
	struct file_call *c = arg;

	if (c->ops->release != NULL)
		c->ops->release(c);
	free(c);
}

static void unlink_call(struct file_call *c)
{
	struct abox *a = c->a;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		a->files = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	a->nfiles--;
	c->a = NULL;
	abox_touch(a);
}

void file_call_close(struct file_call *c)
{
	struct req *r = c->r;

	if (r == NULL)
		return;
	c->r = NULL;
	r->work = NULL;
	r->gone = r->drained = r->body_end = r->stop = NULL;
	r->take_body = NULL;
	if (c->running) { /* an upload that is cut must not become a file: no end of input, ever */
		gjob_signal(&c->job, SIGTERM, 0);
		gjob_drop(&c->job);
	}
	unlink_call(c);
	loop_defer(&r->g->loop, &c->deferred, call_free, c);
}

void file_calls_end(struct abox *a)
{
	while (a->files != NULL) {
		struct file_call *c = a->files;

		(void)snprintf(c->why, sizeof(c->why), "%s", abox_reason_str(a->reason));
		failed(c, FILE_GONE);
	}
}

/* --- what the box says ---------------------------------------------------------------------------- */

/* What has come of the operation so far, in records and bytes. -EPROTO: it is none of that. */
static int take_record(struct file_call *c, const uint8_t *p, size_t n, size_t *ret_used)
{
	const struct listing_entry *e;
	ptrdiff_t used = listing_first(&c->reader, p, n, &e);

	if (used < 0)
		return -EPROTO;
	*ret_used = (size_t)used;
	if (e == NULL)
		return 0;
	c->told = true;
	if (kinds[c->op].says != SAYS_RECORDS)
		c->entry = e;
	return c->ops->record != NULL ? c->ops->record(c, e) : 0;
}

static int take_output(struct file_call *c, const uint8_t *p, size_t n)
{
	enum says says = kinds[c->op].says;
	int rc = 0;

	while (n > 0 && rc == 0 && c->r != NULL) {
		size_t used = n;

		if (says == SAYS_BYTES || (says == SAYS_RECORD_AND_BYTES && c->told))
			rc = c->ops->bytes(c, p, n);
		else if (says == SAYS_NOTHING || (says == SAYS_RECORD && c->told))
			rc = -EPROTO;
		else
			rc = take_record(c, p, n, &used);
		p += used;
		n -= used;
	}
	return rc;
}

/* A line for people; what is no text for them is left out. */
static void take_why(struct file_call *c, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n && c->why_len + 1 < sizeof(c->why); i++) {
		if (p[i] == '\n')
			break;
		if (p[i] >= 0x20 && p[i] != 0x7f)
			c->why[c->why_len++] = (char)p[i];
	}
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct file_call *c = arg;
	int rc = 0;

	if (stream == 2) {
		take_why(c, p, n);
	} else {
		if (c->op == FILEOP_READ || c->op == FILEOP_PACK)
			c->r->g->metrics.file_bytes_out += n;
		rc = take_output(c, p, n);
	}
	if (c->r == NULL)
		return;
	if (rc < 0) {
		failed(c, FILE_BROKEN);
	} else if (req_queued(c->r) < REQ_HIGH) {
		c->held = 0;
		gjob_ack(&c->job, number);
	} else {
		c->held = number;
	}
}

static void on_drained(struct req *r)
{
	struct file_call *c = r->work;

	if (c->held != 0)
		gjob_ack(&c->job, c->held);
	c->held = 0;
}

static void on_want(void *arg)
{
	struct file_call *c = arg;

	if (c->ops->want != NULL)
		c->ops->want(c);
	else
		req_body_more(c->r);
}

/* Whether it said all that it had to. */
static bool is_whole(const struct file_call *c)
{
	enum says says = kinds[c->op].says;

	if (kinds[c->op].takes && !c->fed)
		return false;
	if (says == SAYS_RECORD || says == SAYS_RECORD_AND_BYTES)
		return c->told;
	return listing_end(&c->reader) == 0;
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct file_call *c = arg;
	int error = x->code;

	gjob_ack(&c->job, number);
	c->running = false;
	if (x->how == JOB_EXITED && x->code == 0) {
		if (is_whole(c))
			c->ops->end(c);
		else
			failed(c, FILE_BROKEN);
		return;
	}
	if (x->how == JOB_SIGNALED) {
		error = x->code == SIGXFSZ ? EFBIG : EIO;
		(void)snprintf(c->why, sizeof(c->why), "it was ended by signal %d", x->code);
	}
	failed(c, error > 0 ? error : EIO);
}

static void on_failed(void *arg, int error, const char *why)
{
	struct file_call *c = arg;

	c->running = false;
	(void)snprintf(c->why, sizeof(c->why), "%s", why);
	failed(c, error > 0 ? error : EIO);
}

/* --- beginning ------------------------------------------------------------------------------------ */

static void on_gone(struct req *r)
{
	file_call_close(r->work);
}

struct file_call *file_call_new(struct req *r, struct abox *a, const struct file_shape *shape,
				const struct file_path *path, const struct file_ops *ops,
				size_t size)
{
	int error = a->nfiles >= FILE_CALLS_MAX ? FILE_FULL : a->box == NULL ? FILE_NO_BOX : 0;
	struct file_call *c = error == 0 ? calloc(1, size) : NULL;

	if (c == NULL) {
		refuse(r, shape, error != 0 ? error : FILE_NO_MEMORY, path, "");
		return NULL;
	}
	c->r = r;
	c->a = a;
	c->shape = shape;
	c->ops = ops;
	c->path = *path;
	c->next = a->files;
	if (c->next != NULL)
		c->next->prev = c;
	a->files = c;
	a->nfiles++;
	abox_touch(a);
	r->work = c;
	r->gone = on_gone;
	r->drained = on_drained;
	return c;
}

const char *file_call_cwd(const struct file_call *c)
{
	return c->shape->cwd != NULL ? c->shape->cwd : c->a->box->cwd;
}

int file_call_run(struct file_call *c, enum fileop op, const char *const *args)
{
	static const struct gjob_ops job_ops = {
		.output = on_output, .want = on_want, .ended = on_ended, .failed = on_failed
	};
	static const char *const envp[] = { NULL };
	char path[FILE_PATH_IN_BOX];
	const char *argv[10] = { fileop_row(op)->name, path };
	struct job_spec spec = { .kind = JOB_FILE,
				 .flags = JOB_ATTENDED | (kinds[op].takes ? JOB_STDIN : 0) |
					  (c->shape->beneath ? JOB_BENEATH : 0),
				 .cwd = c->a->box != NULL ? file_call_cwd(c) : "/",
				 .argv = argv,
				 .envp = envp };

	for (unsigned int i = 2; *args != NULL && i + 1 < ARRAY_LEN(argv); i++)
		argv[i] = *args++;
	file_path_in_box(&c->path, path);
	c->op = op;
	c->r->g->metrics.file_calls[op]++;
	c->running =
		c->a->box != NULL && gjob_start(c->a->box, &c->job, 0, &spec, &job_ops, c) == 0;
	if (c->running)
		return 0;
	failed(c, c->a->box == NULL ? FILE_NO_BOX : FILE_NO_MEMORY);
	return -1;
}

size_t file_call_feed(struct file_call *c, const void *p, size_t n)
{
	size_t taken = gjob_input(&c->job, p, n);

	c->r->g->metrics.file_bytes_in += taken;
	return taken;
}

void file_call_fed(struct file_call *c)
{
	c->fed = true;
	gjob_input_end(&c->job);
}

static ptrdiff_t take_body(struct req *r, const char *p, size_t n)
{
	return (ptrdiff_t)file_call_feed(r->work, p, n);
}

static void body_end(struct req *r)
{
	file_call_fed(r->work);
}

void file_call_take_body(struct file_call *c)
{
	c->r->take_body = take_body;
	c->r->body_end = body_end;
}
