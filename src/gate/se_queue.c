// SPDX-License-Identifier: Apache-2.0
/*
 * What is run in a session: one after the other, in the order in which it was asked for. Each is a command of the box, so /v1/boxes shows
 * it, it outlives its client, and it outlives the gate; the next one then waits for it as if it was its own.
 */
#include "gate/se.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/utf8.h"
#include "gate/commands.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NOT_EXECUTABLE = 126, NO_COMMAND = 127, KILLED_BY = 128 };

struct se_queue {
	struct abox *a;
	struct se_exec *running, *first, *last;
	unsigned int n; /* that wait */
	bool turning;
	struct run_reader other; /* of a command that the gate before this one started */
	struct deferred deferred;
};

static void turn(struct abox *a);

/* --- the end ---------------------------------------------------------------------------------- */

static void forget_text(struct se_exec *x)
{
	if (x->a != NULL)
		x->a->queued_bytes -= x->text_len;
	x->text_len = 0;
	ci_body_done(&x->body);
	x->body = (struct ci_body){ 0 };
	free(x->text);
	x->text = NULL;
}

static void exec_free(void *arg)
{
	struct se_exec *x = arg;

	x->steps->free(x);
}

/* It is not its session's any more. Returns that, if it is there. */
static struct abox *unlink_exec(struct se_exec *x)
{
	struct abox *a = x->a;
	struct se_queue *q = a != NULL ? a->se : NULL;
	struct se_exec **at = q != NULL ? &q->first : NULL, *before = NULL;

	forget_text(x);
	x->a = NULL;
	if (q == NULL)
		return NULL;
	if (q->running == x) {
		q->running = NULL;
		return a;
	}
	while (*at != NULL && *at != x) {
		before = *at;
		at = &(*at)->next;
	}
	if (*at == x) {
		*at = x->next;
		if (q->last == x)
			q->last = before;
		q->n--;
	}
	return a;
}

static void release(struct se_exec *x)
{
	run_leave(&x->rd);
	loop_defer(&x->g->loop, &x->deferred, exec_free, x);
}

static struct req *take_request(struct se_exec *x)
{
	struct req *r = x->r;

	x->r = NULL;
	if (r != NULL)
		r->gone = NULL;
	return r;
}

void se_exec_refuse(struct se_exec *x, enum se_error e, const char *fmt, ...)
{
	struct abox *a = unlink_exec(x);
	struct req *r = take_request(x);
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	release(x);
	if (r != NULL)
		se_refuse(r, e, "%s", text);
	if (a != NULL)
		turn(a);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* What the client is told besides what was printed. */
struct told {
	const struct se_exec *x;
	int returncode;
	char note[512]; /* behind stderr */
};

/* In the unit of SANDBOX_MEMORY_LIMIT. */
static void put_memory(const struct se_exec *x, struct told *o)
{
	const struct task *t = x->task;
	char limit[64] = "";

	if (t->a != NULL)
		(void)snprintf(limit, sizeof(limit), "a session may use %llu KiB, ",
			       (unsigned long long)(t->a->limits.v[LIMIT_MEMORY] / 1024));
	(void)snprintf(o->note, sizeof(o->note),
		       "killed: out of memory: %sits largest process had %llu KiB (se_memory, "
		       "SANDBOX_MEMORY_LIMIT)\n",
		       limit, (unsigned long long)(t->exit.max_rss_bytes / 1024));
}

/* How a shell would tell it. false: it never ran, or nobody knows how it ended. */
static bool take_outcome(const struct se_exec *x, struct told *o)
{
	const struct task *t = x->task;
	const struct job_exit *e = &t->exit;
	bool missing = e->how == JOB_FAILED && e->code == ENOENT;

	*o = (struct told){ .x = x };
	if (!t->has_exit || (e->how == JOB_FAILED && strcmp(e->stage, "exec") != 0))
		return false;
	if (e->how == JOB_EXITED)
		o->returncode = e->code;
	else if (e->how == JOB_SIGNALED)
		o->returncode = KILLED_BY + e->code;
	else
		o->returncode = missing ? NO_COMMAND : NOT_EXECUTABLE;
	if (missing)
		(void)snprintf(o->note, sizeof(o->note), "%s: command not found\n", x->program);
	else if (e->how == JOB_FAILED)
		(void)snprintf(o->note, sizeof(o->note), "%s: %s\n", x->program,
			       strerrordesc_np(e->code) != NULL ? strerrordesc_np(e->code)
								: "cannot be run");
	else if (t->status == TASK_OOM)
		put_memory(x, o);
	return true;
}

/* Of what is too long the end is missing, and that is said. */
static void put_stream(const struct run *run, struct json *j, const char *key, unsigned int stream,
		       const char *note)
{
	const struct buf *b = &run->out[stream - 1];
	bool cut = run->cut[stream - 1];
	size_t n = buf_len(b);

	if (cut && n > 0)
		n -= utf8_unfinished((const unsigned char *)buf_head(b), n);
	json_value(j, key);
	json_raw(j, "\"", 1);
	if (n > 0 &&
	    !run_leave_out(run, j, stream == 1 ? RUN_OF_STDOUT : RUN_OF_STDERR, /* from= */ 0, n))
		json_chars(j, buf_head(b), n);
	if (cut)
		json_raw(j, "\\n...[truncated]", 16);
	json_chars(j, note, strlen(note));
	json_raw(j, "\"", 1);
}

static void put_members(const struct run *run, const struct told *o, struct json *j)
{
	put_stream(run, j, "stdout", 1, "");
	put_stream(run, j, "stderr", 2, o->note);
	json_i64(j, "returncode", o->returncode);
	if (o->x->steps->put != NULL)
		o->x->steps->put(o->x, j);
}

static void put_answer(const struct run *run, void *arg, struct json *j)
{
	json_open(j, NULL, '{');
	put_members(run, arg, j);
	json_open(j, "result", '{');
	put_members(run, arg, j);
	json_close(j, '}');
	json_close(j, '}');
}

static void put_timeout(const struct run *run, void *arg, struct json *j)
{
	const struct se_exec *x = arg;
	char text[128];

	(void)snprintf(text, sizeof(text), "it had not ended after %llu seconds (se_timeout)",
		       (unsigned long long)(config_u64(&x->g->config, CONF_SE_TIMEOUT) / US_PER_S));
	json_open(j, NULL, '{');
	json_open(j, "detail", '{');
	json_str(j, "type", "SandboxError");
	json_str(j, "message", se_message_of(SE_TIMEOUT));
	json_str(j, "detail", text);
	put_stream(run, j, "stdout", 1, "");
	put_stream(run, j, "stderr", 2, "");
	json_close(j, '}');
	json_close(j, '}');
}

static void reply(struct se_exec *x, struct req *r)
{
	struct task *t = x->task;
	struct told o;

	if (t->status == TASK_TIMEOUT) {
		run_reply_as(&t->run, r, se_status_of(SE_TIMEOUT), put_timeout, x);
	} else if (take_outcome(x, &o)) {
		run_reply_as(&t->run, r, 200, put_answer, &o);
	} else {
		se_refuse(r, SE_EXECUTION, "%s", t->error);
	}
}

void se_exec_answer(struct se_exec *x)
{
	struct abox *a = unlink_exec(x);
	struct req *r = take_request(x);

	if (r != NULL)
		reply(x, r);
	task_told(x->task);
	release(x);
	if (a != NULL)
		turn(a);
}

/* Its client has left. What runs goes on. */
static void exec_gone(struct req *r)
{
	struct se_exec *x = r->work;

	x->r = NULL;
	if (x->task != NULL)
		return;
	(void)unlink_exec(x);
	release(x);
}

/* --- running ---------------------------------------------------------------------------------- */

static void on_more(struct run_reader *rd)
{
	struct se_exec *x = (struct se_exec *)rd; /* its first member */

	if (x->ran || !rd->run->ended)
		return;
	x->ran = true;
	if (x->steps->after != NULL && x->a != NULL)
		x->steps->after(x);
	else
		se_exec_answer(x);
}

static struct task *start(struct se_exec *x, int *ret_error)
{
	static struct box_env
		env; /* large, and nobody else's: the job is encoded before this returns */
	const struct idem_key none = { 0 };
	struct command_spec spec = { .cwd = "/workspace",
				     .timeout_us = config_u64(&x->g->config, CONF_SE_TIMEOUT),
				     .input = "" };
	struct task *t = NULL;

	spec.argv = x->steps->argv(x, &spec.summary);
	(void)snprintf(x->program, sizeof(x->program), "%s", spec.argv[0]);
	*ret_error = box_env_begin(&env, x->a, ci_environment());
	spec.envp = env.v;
	if (*ret_error == 0)
		t = command_start(x->a, &spec, &none, ret_error);
	box_env_done(&env);
	return t;
}

void se_exec_run(struct se_exec *x)
{
	int error = 0;

	x->r->work = x;
	x->r->gone = exec_gone;
	if (!audit_allows(x->g)) {
		se_exec_refuse(x, SE_UNAVAILABLE, "the audit file cannot be written");
		return;
	}
	if (x->a->box != NULL)
		x->task = start(x, &error);
	if (x->task == NULL && error == -E2BIG) {
		se_exec_refuse(x, SE_TOO_LONG, "command, arguments and environment are too long");
		return;
	}
	if (x->task == NULL) {
		se_exec_refuse(x, SE_UNAVAILABLE, "the command cannot be started");
		return;
	}
	audit(x->g, "command", x->r, "tenant", x->a->tenant->name, "box", x->a->id, NULL);
	forget_text(x);
	run_attach(&x->task->run, &x->rd, 0, on_more);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void on_other(struct run_reader *rd)
{
	struct se_queue *q = (struct se_queue *)((char *)rd - offsetof(struct se_queue, other));

	if (!rd->run->ended && !rd->run->lost)
		return;
	run_leave(rd);
	turn(q->a);
}

/* Whether a command of the gate before this one runs. It may be one of /v1/boxes: to wait for that is no harm. */
static bool waits_for_other(struct se_queue *q)
{
	if (q->other.run != NULL)
		return true;
	for (struct task *t = q->a->tasks; t != NULL; t = t->next)
		if (t->adopted && t->kind == &command_kind && !t->run.ended && !t->run.lost) {
			run_attach(&t->run, &q->other, 0, on_other);
			return true;
		}
	return false;
}

static struct se_exec *take_first(struct se_queue *q)
{
	struct se_exec *x = q->first;

	if (x == NULL)
		return NULL;
	q->first = x->next;
	if (q->first == NULL)
		q->last = NULL;
	q->n--;
	return x;
}

/* Whose turn it is. What is begun may end at once, and end anything with its answer: so everything is looked at anew. */
static void turn(struct abox *a)
{
	struct se_queue *q = a->se;

	if (q == NULL || q->turning)
		return;
	q->turning = true;
	while (a->state == ABOX_READY && q->running == NULL && q->first != NULL &&
	       !waits_for_other(q)) {
		struct se_exec *x = take_first(q);

		q->running = x;
		if (x->steps->before != NULL)
			x->steps->before(x);
		else
			se_exec_run(x);
	}
	q->turning = false; /* it stays until the end of this turn of the loop */
}

static struct se_queue *queue_of(struct abox *a)
{
	if (a->se == NULL) {
		a->se = calloc(1, sizeof(*a->se));
		if (a->se != NULL)
			a->se->a = a;
	}
	return a->se;
}

void se_exec_new(struct se_exec *x, struct req *r, struct abox *a)
{
	struct se_queue *q = queue_of(a);

	x->g = r->g;
	if (q == NULL || q->n >= SE_QUEUE_MAX || a->queued_bytes + r->body_len > BOX_QUEUED_BYTES) {
		forget_text(x);
		release(x);
		if (q == NULL)
			se_refuse(r, SE_UNAVAILABLE, "out of memory");
		else
			se_refuse(r, SE_QUEUE, "%u executions wait for this session", q->n);
		return;
	}
	x->a = a;
	x->r = r;
	x->text = r->body;
	x->text_len = r->body_len;
	a->queued_bytes += x->text_len;
	r->body = NULL;
	r->work = x;
	r->gone = exec_gone;
	if (q->last != NULL)
		q->last->next = x;
	else
		q->first = x;
	q->last = x;
	q->n++;
	turn(a);
}

bool se_is_busy(const struct abox *a)
{
	return a->se != NULL && (a->se->running != NULL || a->se->first != NULL);
}

static void queue_free(void *arg)
{
	free(arg);
}

void se_end(struct abox *a)
{
	struct se_queue *q = a->se;
	struct se_exec *x;

	if (q == NULL)
		return;
	a->se = NULL;
	run_leave(&q->other);
	x = q->running;
	q->running = NULL;
	if (x != NULL && x->task != NULL)
		se_exec_answer(x); /* its command has ended, and says why */
	else if (x != NULL)
		se_exec_refuse(x, SE_SESSION_ENDED, "it was not run");
	while ((x = take_first(q)) != NULL)
		se_exec_refuse(x, SE_SESSION_ENDED, "it was not run");
	loop_defer(&a->g->loop, &q->deferred, queue_free, q);
}
