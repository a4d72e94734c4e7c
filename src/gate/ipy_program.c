// SPDX-License-Identifier: Apache-2.0
#include "gate/ipy_program.h"

#include "base/own.h"
#include "wire/job.h"

#include <signal.h>
#include <stdlib.h>

enum {
	LOOKS_MAX = 64, /* under way, or not read to their end, in all boxes */
	BOX_LOOKS_MAX = 2,
	COMPLAINT_MAX = 16 * 1024,
};
#define TIME_US (60ull * 1000 * 1000)

static void program_free(void *arg)
{
	struct ipy_program *p = arg;

	if (p->ops->release != NULL)
		p->ops->release(p);
	buf_done(&p->said);
	buf_done(&p->complaint);
	free(p);
}

void ipy_program_ran(struct ipy_program *p)
{
	if (p->a == NULL)
		return;
	p->a->looks--;
	abox_touch(p->a);
	p->a = NULL;
	gjob_drop(&p->job);
}

struct req *ipy_program_close(struct ipy_program *p)
{
	struct req *r = p->r;

	ipy_program_ran(p);
	p->g->looks--;
	r->work = NULL;
	r->gone = r->drained = NULL;
	p->r = NULL;
	loop_defer(&p->g->loop, &p->deferred, program_free, p);
	return r;
}

static void on_gone(struct req *r)
{
	struct ipy_program *p = r->work;

	if (p->a != NULL)
		gjob_signal(&p->job, SIGKILL, 0);
	(void)ipy_program_close(p);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *bytes,
		      size_t n)
{
	struct ipy_program *p = arg;

	if (stream == 1 && !p->too_much && buf_put(&p->said, bytes, n) < 0) {
		p->too_much = true;
		gjob_signal(&p->job, SIGKILL, 0);
	}
	if (stream == 2 && n <= COMPLAINT_MAX - buf_len(&p->complaint))
		(void)buf_put(&p->complaint, bytes, n);
	gjob_ack(&p->job, number);
}

static void fail(struct ipy_program *p, const char *why)
{
	const char *what = p->ops->what;

	if (p->ops->failed != NULL)
		p->ops->failed(p, why);
	else
		req_refuse(ipy_program_close(p), 503, NULL, NULL, "%s in the box%s%s", what,
			   why[0] != '\0' ? ": " : "", why);
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct ipy_program *p = arg;

	gjob_ack(&p->job, number);
	if (p->too_much)
		req_refuse(ipy_program_close(p), 413, NULL, NULL,
			   "what the box has to say of it has more than %d bytes", IPY_SAID_MAX);
	else if (x->how == JOB_EXITED)
		p->ops->ended(p, x->code);
	else
		fail(p, "");
}

static void on_failed(void *arg, int error, const char *why)
{
	(void)error;
	fail(arg, why);
}

static void on_lost(void *arg)
{
	req_refuse(ipy_program_close(arg), 410, NULL, NULL, "the box has ended");
}

int ipy_program_run(struct ipy_program *p, const char *source, const char *const *words,
		    unsigned int n, const char *input, size_t input_len)
{
	static const struct gjob_ops ops = {
		.output = on_output, .ended = on_ended, .failed = on_failed, .lost = on_lost
	};
	const char *argv[5 + IPY_WORDS_MAX] = { p->a->box->env->python, "-I", "-c", source };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_ATTENDED | (input != NULL ? JOB_STDIN : 0),
				 .timeout_us = TIME_US,
				 .cwd = p->a->box->cwd,
				 .argv = argv };
	struct box_env env;
	int rc;

	for (unsigned int i = 0; i < n && i < IPY_WORDS_MAX; i++)
		argv[4 + i] = words[i];
	buf_take(&p->said, buf_len(&p->said));
	buf_take(&p->complaint, buf_len(&p->complaint));
	rc = box_env_begin(&env, p->a, ci_environment());
	spec.envp = env.v;
	if (rc == 0)
		rc = gjob_start(p->a->box, &p->job, 0, &spec, &ops, p);
	box_env_done(&env);
	if (rc == 0 && input != NULL)
		gjob_input_all(&p->job, input, input_len);
	if (rc == 0)
		return 0;
	req_refuse(ipy_program_close(p), 503, NULL, NULL, "out of memory");
	return -1;
}

struct ipy_program *ipy_program_new(struct req *r, struct abox *a,
				    const struct ipy_program_ops *ops, size_t size)
{
	struct ipy_program *p;

	if (a->looks >= BOX_LOOKS_MAX || r->g->looks >= LOOKS_MAX) {
		req_header(r, "Retry-After", "1");
		req_refuse(r, 429, NULL, NULL, "too much of this is asked of the box at once");
		return NULL;
	}
	p = a->box != NULL ? calloc(1, size) : NULL;
	if (p == NULL) {
		req_refuse(r, 503, NULL, NULL, "out of memory");
		return NULL;
	}
	p->r = r;
	p->a = a;
	p->g = r->g;
	p->ops = ops;
	buf_init(&p->said, IPY_SAID_MAX);
	buf_init(&p->complaint, COMPLAINT_MAX);
	a->looks++;
	r->g->looks++;
	abox_touch(a);
	r->work = p;
	r->gone = on_gone;
	return p;
}
