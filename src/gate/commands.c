// SPDX-License-Identifier: Apache-2.0
#include "gate/commands.h"

#include "base/own.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	INPUT_EXTRA = 1024 * 1024,        /* beyond what it is given at its start */
	SHELL_INTERRUPTED = 128 + SIGINT, /* how a shell says so */
};

/* --- as a task ------------------------------------------------------------------------------------ */

static void put(const struct task *t, struct json *j)
{
	const struct job_exit *x = &t->exit;

	if (t->has_exit && x->how == JOB_EXITED)
		json_i64(j, "exit_code", x->code);
	else
		json_null(j, "exit_code");
	if (t->has_exit && x->how == JOB_SIGNALED)
		json_i64(j, "signal", x->code);
	else
		json_null(j, "signal");
	if (t->error[0] != '\0')
		json_str(j, "error", t->error);
	else
		json_null(j, "error");
}

static enum task_status status_of(const struct task *t, bool oom)
{
	const struct job_exit *x = &t->exit;
	bool interrupted = (t->flags & TASK_SIGINT) != 0;

	if ((x->flags & JOB_TIMED_OUT) != 0)
		return TASK_TIMEOUT;
	if ((t->flags & TASK_CANCEL) != 0)
		return TASK_CANCELLED;
	if (oom)
		return TASK_OOM;
	if (x->how == JOB_SIGNALED)
		return interrupted && x->code == SIGINT ? TASK_INTERRUPTED : TASK_CRASHED;
	if (x->how == JOB_FAILED || x->code != 0)
		return interrupted && x->code == SHELL_INTERRUPTED ? TASK_INTERRUPTED : TASK_ERROR;
	return TASK_OK;
}

static void save(const struct task *t, struct msg_out *m)
{
	(void)t;
	msg_put_u8(m, 0);
}

static void interrupt(struct task *t)
{
	gjob_signal(&t->job, SIGINT, 0);
}

static void cut(struct task *t)
{
	gjob_signal(&t->job, SIGKILL, 0);
}

static void command_free(struct task *t)
{
	free(t);
}

static const struct gjob_ops job_ops = { .output = task_on_output,
					 .want = task_on_want,
					 .ended = task_on_ended,
					 .failed = task_on_failed };

const struct task_kind command_kind = { .name = "command",
					.operation = OPERATION_COMMAND,
					.put = put,
					.status = status_of,
					.job = &job_ops,
					.save = save,
					.interrupt = interrupt,
					.cut = cut,
					.free = command_free };

struct task *command_load(struct abox *a, unsigned int flags)
{
	struct task *t = calloc(1, sizeof(*t));

	if (t != NULL)
		task_init(t, &command_kind, a, flags);
	return t;
}

/* --- its life ------------------------------------------------------------------------------------- */

struct task *command_start(struct abox *a, const struct command_spec *spec,
			   const struct idem_key *key, int *ret_error)
{
	bool input = spec->input_len > 0 || spec->input_open;
	struct job_spec job = { .kind = JOB_EXEC,
				.flags = JOB_KEEP | (input ? JOB_STDIN : 0),
				.timeout_us = spec->timeout_us,
				.output_max = a->limits.v[LIMIT_OUTPUT],
				.cwd = spec->cwd,
				.argv = spec->argv,
				.envp = spec->envp };
	struct task *t = command_load(a, spec->flags | (input ? TASK_STDIN | TASK_FEEDING : 0));
	int r = -ENOMEM;

	if (t != NULL) {
		t->idem = *key;
		buf_init(&t->input, spec->input_len + INPUT_EXTRA);
		r = buf_put(&t->input, spec->input, spec->input_len);
		t->input_end = !spec->input_open;
	}
	if (r == 0)
		r = gjob_start(a->box, &t->job, 0, &job, &job_ops, t);
	if (r < 0) {
		*ret_error = r;
		if (t != NULL)
			task_release(t);
		return NULL;
	}
	t->job_id = t->job.id;
	t->started_ms = own_now_ms();
	(void)snprintf(t->summary, sizeof(t->summary), "%.*s",
		       (int)jsonr_cut(spec->summary, strlen(spec->summary), TASK_SUMMARY - 1),
		       spec->summary);
	task_begin(t);
	task_expect(t, spec->timeout_us);
	abox_touch(a);
	abox_changed(a); /* before the job is sent, which happens at the end of this turn */
	if (input)
		task_on_want(t);
	return t;
}

static void on_grace(void *arg)
{
	struct task *t = arg;

	gjob_signal(&t->job, SIGKILL, 0);
}

void command_kill(struct task *t, uint64_t grace_us)
{
	if (t->run.ended || t->has_exit)
		return;
	t->flags |= TASK_CANCEL;
	gjob_signal(&t->job, grace_us == 0 ? SIGKILL : SIGTERM, 0);
	if (grace_us != 0 &&
	    timer_set(&t->g->loop, &t->grace, t->g->loop.now_us + grace_us, on_grace, t) < 0)
		on_grace(t);
	abox_changed(t->a);
}
