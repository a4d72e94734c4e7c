// SPDX-License-Identifier: Apache-2.0
#include "gate/stage.h"

#include "base/own.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PUMP_BYTES = 65536 };

static void next(struct stage *s);
static void check_next(struct stage *s);

static void close_pipe(struct stage *s)
{
	loop_unwatch(&s->g->loop, &s->pipe);
	fd_close(&s->pipe_fd);
}

static void fail(struct stage *s, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct stage *s, int status, const char *fmt, ...)
{
	struct stage_failure f = { .status = status };
	va_list ap;

	if (s->over)
		return;
	s->over = true;
	close_pipe(s);
	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	s->ops->failed(s->arg, &f);
}

/* --- do they exist ------------------------------------------------------------------------------ */

static void on_stat(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct stage *s = arg;
	struct stage_file *file = &s->files[s->at];
	struct store_meta meta;

	if (m == NULL || store_meta_decode(m->body, m->len, &meta) < 0) {
		if (m != NULL)
			chan_msg_close(m);
		if (f == NULL || f->reason == STORE_NOT_FOUND)
			fail(s, 404, "not found");
		else
			fail(s, 503, "the file store: %s", store_reason_str(f->reason));
		return;
	}
	chan_msg_close(m);
	file->has_sha = true;
	(void)memcpy(file->sha256, meta.sha256, sizeof(file->sha256));
	s->at++;
	check_next(s);
}

static void check_next(struct stage *s)
{
	/* One after the other: the store answers in some ten microseconds. */
	for (; s->at < s->n; s->at++) {
		const char *id = s->files[s->at].id;

		if (id == NULL)
			continue;
		if (!store_id_is_valid(id))
			fail(s, 404, "not found");
		else if (store_ask_name(&s->g->store, STORE_OP_STAT, s->tenant->name, id, on_stat,
					s) < 0)
			fail(s, 503, "the file store is busy");
		return;
	}
	s->at = 0;
	s->ops->checked(s->arg);
}

void stage_check(struct gate *g, struct stage *s, const struct tenant *tenant,
		 struct stage_file *files, size_t n, const struct stage_ops *ops, void *arg)
{
	*s = (struct stage){ .g = g,
			     .tenant = tenant,
			     .files = files,
			     .n = n,
			     .ops = ops,
			     .arg = arg,
			     .pipe_fd = -1 };
	check_next(s);
}

/* --- into the box ------------------------------------------------------------------------------- */

/* From the store's pipe to the job, as fast as the slower one. */
static void pump(struct stage *s)
{
	while (s->pipe_fd >= 0) {
		ssize_t n;

		if (s->pump_at < s->pump_len) {
			s->pump_at +=
				gjob_input(&s->job, s->pump + s->pump_at, s->pump_len - s->pump_at);
			if (s->pump_at < s->pump_len) { /* the box is slower: no events for now */
				loop_change(&s->g->loop, &s->pipe, 0);
				return;
			}
		}
		n = read(s->pipe_fd, s->pump, PUMP_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_change(&s->g->loop, &s->pipe, EPOLLIN);
			return;
		}
		if (n <= 0) {
			close_pipe(s);
			gjob_input_end(&s->job);
			return;
		}
		s->pump_at = 0;
		s->pump_len = (size_t)n;
	}
}

static void on_pipe(void *arg, uint32_t events)
{
	(void)events;
	pump(arg);
}

static void put_want(void *arg)
{
	pump(arg);
}

/* What it says of the file is not needed, and is acknowledged with its end. */
static void put_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	(void)arg;
	(void)number;
	(void)stream;
	(void)p;
	(void)n;
}

static void put_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct stage *s = arg;
	const char *path = s->files[s->at].path;

	gjob_ack(&s->job, number);
	close_pipe(s);
	if (s->asked) /* it ended without its content, which must not be taken for the next one's */
		store_forget(&s->g->store, s);
	s->asked = false;
	if (x->how == JOB_EXITED && x->code == 0) {
		s->at++;
		next(s);
	} else if (x->how == JOB_EXITED && (x->code == ENOSPC || x->code == EDQUOT)) {
		fail(s, 422, "File '%s' does not fit into the workspace.", path);
	} else if (x->how == JOB_EXITED) {
		fail(s, 422, "File '%s' cannot be placed: %s", path, strerrordesc_np(x->code));
	} else {
		fail(s, 500, "File '%s' cannot be placed", path);
	}
}

static void put_failed(void *arg, int error, const char *why)
{
	fail(arg, error == EAGAIN || error == ENOMEM || error == EMFILE ? 503 : 500,
	     "the box refused a file: %s", why);
}

static void on_content(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct stage *s = arg;

	s->asked = false;
	if (m == NULL || m->nfds != 1) {
		if (m != NULL)
			chan_msg_close(m);
		if (f != NULL && f->reason == STORE_NOT_FOUND)
			fail(s, 404, "not found");
		else
			fail(s, 503, "the file store is busy");
		return;
	}
	s->pipe_fd = m->fds[0];
	s->pump_at = s->pump_len = 0;
	if (s->pump == NULL)
		s->pump = malloc(PUMP_BYTES);
	(void)fcntl(s->pipe_fd, F_SETFL, O_NONBLOCK);
	if (s->pump == NULL ||
	    loop_watch(&s->g->loop, &s->pipe, s->pipe_fd, EPOLLIN, on_pipe, s) < 0)
		fail(s, 503, "out of memory");
	else
		pump(s);
}

static int ask_content(struct stage *s, const struct stage_file *f)
{
	struct store_get get = { 0 };
	uint8_t body[256];
	ptrdiff_t n;

	(void)snprintf(get.name.tenant, sizeof(get.name.tenant), "%s", s->tenant->name);
	(void)snprintf(get.name.id, sizeof(get.name.id), "%s", f->id);
	n = store_get_encode(&get, body, sizeof(body));
	if (n < 0)
		return -EINVAL;
	s->asked = store_ask(&s->g->store, STORE_OP_GET, body, (size_t)n, -1, on_content, s) >= 0;
	return s->asked ? 0 : -EBUSY;
}

static void next(struct stage *s)
{
	static const struct gjob_ops ops = {
		.output = put_output, .want = put_want, .ended = put_ended, .failed = put_failed
	};
	static const char *const envp[] = { NULL };
	const struct stage_file *f = &s->files[s->at];
	char octal[8];
	const char *const argv[] = { "write", s->at < s->n ? f->path : "", octal, "", "", NULL };
	struct job_spec spec = {
		.kind = JOB_FILE, .flags = JOB_STDIN, .cwd = s->box->cwd, .argv = argv, .envp = envp
	};

	if (s->over)
		return;
	if (s->at == s->n) {
		s->over = true;
		s->ops->staged(s->arg);
		return;
	}
	(void)snprintf(octal, sizeof(octal), "%o", f->mode & 0777);
	if (gjob_start(s->box, &s->job, 0, &spec, &ops, s) < 0)
		fail(s, 500, "the box cannot be reached");
	else if (f->id == NULL)
		gjob_input_all(&s->job, f->p, f->n);
	else if (ask_content(s, f) < 0)
		fail(s, 503, "the file store is busy");
}

void stage_run(struct stage *s, struct gbox *box, size_t from)
{
	s->box = box;
	s->at = from;
	s->over = false; /* it may be done again */
	next(s);
}

void stage_end(struct stage *s)
{
	if (s->g == NULL)
		return;
	s->over = true;
	close_pipe(s);
	gjob_drop(&s->job);
	store_forget(&s->g->store, s);
	free(s->pump);
	s->pump = NULL;
}
