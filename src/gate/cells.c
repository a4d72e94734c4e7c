// SPDX-License-Identifier: Apache-2.0
#include "gate/cell_messages.h"
#include "gate/jup.h"

#include "base/clock.h"
#include "base/own.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { FAILURE_MAX = 1024 * 1024 }; /* of an error, as it stands in the answer */

#define GRACE_US (2 * US_PER_S) /* init gives as much to a cell whose time is over */

static struct cell *cell_of(struct task *t)
{
	return (struct cell *)t; /* its first member */
}

/* Its kernel has it, or never will. */
static void drop_request(struct cell *c)
{
	if (c->t.a != NULL)
		c->t.a->queued_bytes -= c->request_cap;
	free(c->request);
	c->request = NULL;
	c->request_cap = 0;
}

static void drop_parts(struct cell *c)
{
	if (c->t.a != NULL)
		c->t.a->parts_bytes -= c->parts_counted;
	c->parts_counted = 0;
	buf_done(&c->message);
}

static bool died(const struct task *t)
{
	return t->has_exit && (t->exit.flags & JOB_KERNEL_DIED) != 0;
}

/* --- what it answers ------------------------------------------------------------------------------ */

/* What the kernel could not say itself. */
static const char *failure(const struct task *t, char *text, size_t size)
{
	const struct job_exit *x = &t->exit;
	const char *sig = x->how == JOB_SIGNALED ? sigabbrev_np(x->code) : NULL;

	(void)snprintf(text, size, "%s", t->error);
	if (t->status == TASK_OOM) {
		(void)snprintf(text, size, "the box ran out of memory: the kernel was killed");
		return "OutOfMemory";
	}
	if (t->status == TASK_TIMEOUT) {
		if (died(t))
			(void)snprintf(text, size,
				       "it went on after the interrupt: the kernel was killed");
		return "Timeout";
	}
	if (t->status == TASK_CANCELLED)
		return "Cancelled";
	if (died(t) && x->how == JOB_SIGNALED)
		(void)snprintf(text, size, "the kernel was killed by signal %d (SIG%s)", x->code,
			       sig != NULL ? sig : "?");
	else if (died(t))
		(void)snprintf(text, size, "the kernel ended with status %d", x->code);
	return "KernelDied";
}

static void put_error(const struct cell *c, struct json *j)
{
	const struct task *t = &c->t;
	char text[TASK_ERROR_TEXT];
	const char *name;

	if (c->failure != NULL && !died(t)) {
		json_open(j, "error", '{');
		json_raw(j, c->failure, c->nfailure);
		json_close(j, '}');
		return;
	}
	if (t->status <= TASK_OK || t->status == TASK_QUEUED) {
		json_null(j, "error");
		return;
	}
	name = failure(t, text, sizeof(text));
	json_open(j, "error", '{');
	json_str(j, "name", name);
	json_str(j, "value", text);
	json_open(j, "traceback", '[');
	json_close(j, ']');
	json_close(j, '}');
}

static void put(const struct task *t, struct json *j)
{
	const struct cell *c = (const struct cell *)t;

	json_str(j, "kernel", c->kernel);
	if (c->count > 0)
		json_i64(j, "execution_count", c->count);
	else
		json_null(j, "execution_count");
	put_error(c, j);
	if (c->restarted != DEATH_NONE)
		json_str(j, "kernel_restarted", kernel_death_str(c->restarted));
	else
		json_null(j, "kernel_restarted");
	json_bool(j, "state_lost", died(t));
	if (spill_path(c->spill) != NULL)
		json_str(j, "output_file", spill_path(c->spill));
	else
		json_null(j, "output_file");
}

static void put_output(const struct task *t, struct json *j, unsigned int parts)
{
	cell_put_results(&t->run, j, (parts & RUN_OUTPUTS) != 0);
}

static size_t text_from(const struct task *t, unsigned int stream)
{
	return cell_text_from(&t->run, stream);
}

/* --- its end -------------------------------------------------------------------------------------- */

static enum task_status status_of(const struct task *t, bool oom)
{
	const struct cell *c = (const struct cell *)t;
	const struct job_exit *x = &t->exit;

	if (x->how == JOB_FAILED)
		return TASK_CANCELLED;
	if ((x->flags & JOB_TIMED_OUT) != 0)
		return TASK_TIMEOUT;
	if (died(t) && ((t->flags & TASK_CANCEL) != 0 || (c->k != NULL && c->k->shunned)))
		return TASK_CANCELLED;
	if (died(t))
		return oom ? TASK_OOM : TASK_CRASHED;
	if (c->reply_aborted || (t->adopted && (t->flags & TASK_FEEDING) != 0))
		return TASK_CANCELLED;
	if (c->reply_ok && c->failure == NULL) /* a value that cannot be shown is no success */
		return TASK_OK;
	return (t->flags & TASK_SIGINT) != 0 && c->reply_interrupted ? TASK_INTERRUPTED
								     : TASK_ERROR;
}

static enum kernel_death death_of(const struct task *t)
{
	if (t->status == TASK_OOM)
		return DEATH_OOM;
	if (t->status == TASK_TIMEOUT)
		return DEATH_TIMEOUT;
	if (t->status == TASK_CANCELLED)
		return DEATH_CANCELLED;
	return t->exit.how == JOB_SIGNALED ? DEATH_CRASHED : DEATH_EXITED;
}

static void leave_queue(struct cell *c)
{
	struct kernel *k = c->k;
	struct cell **at = &k->queue;

	k->last = NULL;
	while (*at != NULL) {
		if (*at == c) {
			*at = c->next;
			k->nqueued--;
			continue;
		}
		k->last = *at;
		at = &(*at)->next;
	}
	c->next = NULL;
}

/* Its kernel goes on without it. */
static void leave(struct cell *c)
{
	struct task *t = &c->t;
	struct kernel *k = c->k;

	if (k == NULL)
		return;
	leave_queue(c);
	c->k = NULL;
	if (k->running != c)
		return;
	k->running = NULL;
	if (c->count > 0)
		k->count = c->count;
	if (k->a->state != ABOX_READY)
		return;
	if (died(t) || (t->run.ended && !t->has_exit && (t->job.started || t->adopted))) {
		if (!k->shunned)
			k->death = death_of(t);
		if (k->state == KERNEL_BUSY)
			k->state = KERNEL_DYING;
		if (!died(t)) /* init lost its way with it */
			kernel_kill(k, DEATH_TIMEOUT);
	} else if (k->state == KERNEL_BUSY) {
		k->state = KERNEL_IDLE;
	}
	kernel_turn(k);
}

static void finished(struct task *t)
{
	struct cell *c = cell_of(t);

	struct kernel *k = c->k;

	bool ready = k != NULL && k->a->state == ABOX_READY;

	drop_parts(c);
	drop_request(c);
	if (ready)
		jup_failed(k, c); /* before the next one begins */
	leave(c);
	if (ready)
		jup_ended(k);
}

static void release(struct task *t)
{
	struct cell *c = cell_of(t);

	leave(c);
	if (!t->run.ended) { /* nobody is to hear of it any more */
		spill_free(c->spill);
		c->spill = NULL;
	}
}

static void cell_free(struct task *t)
{
	struct cell *c = cell_of(t);

	buf_done(&c->message);
	free(c->request);
	spill_free(c->spill);
	free(c->failure);
	free(c);
}

/* --- what its kernel says ------------------------------------------------------------------------- */

static void keep_failure(struct cell *c, const struct json *members)
{
	static const char too_long[] =
		"\"name\":\"Error\",\"value\":\"too long to be kept\",\"traceback\":[]";
	bool fits = !members->failed && members->len <= FAILURE_MAX;
	size_t n = fits ? members->len : sizeof(too_long) - 1;
	char *copy = malloc(n + 1);

	if (copy == NULL)
		return;
	(void)memcpy(copy, fits ? members->buf : too_long, n);
	free(c->failure);
	c->failure = copy;
	c->nfailure = n;
}

static void keep_reply(struct cell *c, uint64_t number, const char *p, size_t n)
{
	struct cell_said s;

	if (cell_reply_said(p, n, &s) == 0)
		c->replied = run_event(&c->t.run, number, s.event, s.members.buf, s.members.len);
	else
		run_nothing(&c->t.run, number);
	json_done(&s.members);
}

static void take_reply(struct cell *c, uint64_t number, const char *p, size_t n)
{
	struct cell_reply r;

	if ((c->t.flags & TASK_WHOLE) != 0)
		keep_reply(c, number, p, n);
	else
		run_nothing(&c->t.run, number);
	if ((c->t.flags & TASK_ASIDE) != 0) {
		c->reply_ok = c->replied;
		return;
	}
	if (cell_replied(p, n, &r) == 0) {
		c->reply_ok = r.status == CELL_REPLY_OK;
		c->reply_aborted = r.status == CELL_REPLY_ABORTED;
		c->reply_interrupted = r.interrupted;
		c->count = r.has_count && r.execution_count > 0 ? r.execution_count : 0;
		if (r.has_error && c->failure == NULL)
			keep_failure(c, &r.error);
	}
	json_done(&r.error);
}

static void take_message(struct cell *c, uint64_t number, const char *p, size_t n)
{
	struct cell_said s;

	if (cell_said(p, n, &s) < 0 || s.event == RUN_EVENT_MAX || s.members.failed) {
		c->t.run.cut_other = c->t.run.cut_other || s.members.failed;
		run_nothing(&c->t.run, number);
	} else {
		(void)run_event(&c->t.run, number, s.event, s.members.buf, s.members.len);
	}
	if (c->t.run.ended && s.event != RUN_EVENT_MAX)
		jup_late(c);
	if (s.event == RUN_ERROR)
		keep_failure(c, &s.members);
	if (s.event == RUN_INPUT)
		c->asked++;
	json_done(&s.members);
}

/* -errno: there is no room for it, in the box or at all. */
static int put_part(struct cell *c, const uint8_t *p, size_t n)
{
	struct abox *a = c->t.a;

	if (a == NULL || a->parts_bytes + n > BOX_PARTS_BYTES)
		return -ENOBUFS;
	a->parts_bytes += n;
	c->parts_counted += n;
	return buf_put(&c->message, p, n);
}

static void on_message(void *arg, uint64_t number, unsigned int flags, const uint8_t *p, size_t n)
{
	struct cell *c = arg;
	struct task *t = &c->t;
	bool more = (flags & FRAME_MORE) != 0, whole = !more && buf_len(&c->message) == 0;
	const char *text = (const char *)p;
	size_t len = n;

	task_note_missing(t, number);
	drop_request(c);
	if (!whole && !c->too_large && put_part(c, p, n) < 0) {
		c->too_large = true;
		drop_parts(c);
	}
	if (more) {
		t->partly = true;
		run_nothing(&t->run, number);
		task_took(t, number, n);
		return;
	}
	if (!whole) {
		text = c->too_large ? "" : buf_head(&c->message);
		len = c->too_large ? 0 : buf_len(&c->message);
		t->run.cut_other = t->run.cut_other || c->too_large;
	}
	if ((flags & FRAME_END) != 0) {
		take_reply(c, number, text, len);
	} else {
		take_message(c, number, text, len);
	}
	if (!whole)
		drop_parts(c);
	c->too_large = false;
	t->partly = false;
	task_took(t, number, n);
	if (!t->paused)
		cell_flow(c);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct cell *c = arg;
	const struct buf *b = &c->t.run.out[stream - 1];
	size_t before = buf_len(b);

	uint64_t seq = c->t.run.seq;

	drop_request(c);
	task_on_output(&c->t, number, stream, p, n);
	if (c->t.run.ended && c->t.run.seq > seq)
		jup_late(c);
	if (!c->t.paused)
		cell_flow(c);
	if (c->spill != NULL && !c->t.has_exit)
		spill_output(c->spill, p, n, buf_len(b) - before);
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct cell *c = arg;

	if (!spill_end(c->spill, x, number))
		task_on_ended(&c->t, x, number);
}

/* Its kernel is gone, and its end on the way or here already: nothing of this cell was run. */
static bool goes_back(struct cell *c, int error)
{
	struct kernel *k = c->k;
	struct task *t = &c->t;

	if (error != ESRCH || k == NULL || k->running != c || t->adopted || c->request == NULL)
		return false;
	timer_clear(&t->g->loop, &t->late);
	buf_done(&t->input);
	t->status = TASK_QUEUED;
	t->flags |= TASK_WAITS;
	k->running = NULL;
	k->state = KERNEL_DYING;
	c->next = k->queue;
	k->queue = c;
	if (k->last == NULL)
		k->last = c;
	k->nqueued++;
	kernel_turn(k);
	return true;
}

static void on_failed(void *arg, int error, const char *why)
{
	if (!goes_back(arg, error))
		task_on_failed(arg, error, why);
}

static const struct gjob_ops job_ops = { .output = on_output,
					 .message = on_message,
					 .want = task_on_want,
					 .ended = on_ended,
					 .failed = on_failed };

/* --- as a task ------------------------------------------------------------------------------------ */

/* A number is a kernel's as long as that is there; then it may be another one's. */
static void save(const struct task *t, struct msg_out *m)
{
	const struct cell *c = (const struct cell *)t;
	const struct kernel *k = kernel_named(t->a, c->kernel, strlen(c->kernel));

	msg_put_u8(m, k != NULL ? k->number : KERNEL_GONE);
	if (k == NULL)
		msg_put_str(m, c->kernel);
}

static void interrupt(struct task *t)
{
	cell_interrupt(cell_of(t), 0);
}

/* A request that was cut off is answered by an error, when init is told that there will be no more of it. */
static void cut(struct task *t)
{
	gjob_signal(&t->job, SIGINT, 0);
}

const struct task_kind cell_kind = { .name = "cell",
				     .operation = OPERATION_CELL,
				     .put = put,
				     .put_output = put_output,
				     .text_from = text_from,
				     .status = status_of,
				     .job = &job_ops,
				     .save = save,
				     .interrupt = interrupt,
				     .cut = cut,
				     .finished = finished,
				     .release = release,
				     .free = cell_free };

/* --- its life ------------------------------------------------------------------------------------- */

static struct cell *make(struct abox *a, struct kernel *k, const char *name, unsigned int flags)
{
	struct cell *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	task_init(&c->t, &cell_kind, a, flags);
	c->t.job.lingers = true;
	c->k = k;
	(void)snprintf(c->kernel, sizeof(c->kernel), "%s", name);
	buf_init(&c->message, CELL_MESSAGE_MAX);
	cell_flow_init(c);
	return c;
}

/* Of a record. One that has ended is only waiting to be heard. */
struct task *cell_load(struct abox *a, unsigned int kernel, const char *name, unsigned int flags)
{
	struct kernel *k = a->kernels;
	struct cell *c;

	while (k != NULL && k->number != kernel)
		k = k->next;
	if (k == NULL && (kernel != KERNEL_GONE || (flags & TASK_OVER) == 0))
		return NULL;
	c = make(a, k, k != NULL ? k->name : name, flags);
	if (c == NULL)
		return NULL;
	if ((flags & TASK_WAITS) != 0)
		c->t.status = TASK_QUEUED;
	if ((flags & TASK_OVER) != 0)
		c->k = NULL;
	else if (k != NULL && (flags & TASK_WAITS) == 0)
		k->running = c;
	return &c->t;
}

static void put_execute(struct json *j, const struct cell_spec *spec)
{
	json_open(j, NULL, '{');
	json_str(j, "type", "execute");
	json_open(j, "content", '{');
	json_bytes(j, "code", spec->code, spec->code_len);
	json_bool(j, "silent", false);
	json_bool(j, "store_history", true);
	json_bool(j, "allow_stdin", spec->allow_stdin);
	json_bool(j, "stop_on_error", true);
	json_close(j, '}');
	json_close(j, '}');
}

/* The request for the kernel. */
static int put_request(struct cell *c, const struct cell_spec *spec)
{
	struct json j;

	json_init(&j);
	if (spec->request != NULL)
		json_raw(&j, spec->request->buf, spec->request->len);
	else
		put_execute(&j, spec);
	if (j.failed || c->t.a->queued_bytes + j.cap > BOX_QUEUED_BYTES) {
		bool full = !j.failed;

		json_done(&j);
		return full ? -ENOBUFS : -ENOMEM;
	}
	c->request = j.buf; /* from now on ours */
	c->request_len = j.len;
	c->request_cap = j.cap;
	c->t.a->queued_bytes += j.cap;
	return 0;
}

static int put_label(struct task *t, const char *label)
{
	if (label == NULL)
		return 0;
	t->label = strdup(label);
	return t->label != NULL ? 0 : -ENOMEM;
}

struct cell *cell_new(struct kernel *k, const struct cell_spec *spec, const struct idem_key *key,
		      int *ret_error)
{
	struct cell *c = make(k->a, k, k->name, spec->flags | TASK_WAITS);
	struct task *t = &c->t;

	*ret_error = c != NULL ? put_request(c, spec) : -ENOMEM;
	if (*ret_error == 0)
		*ret_error = put_label(t, spec->label);
	if (*ret_error == 0 && spec->spill) {
		c->spill = spill_new(c);
		t->flags |= TASK_SPILL;
		*ret_error = c->spill != NULL ? 0 : -ENOMEM;
	}
	if (*ret_error < 0) {
		if (c != NULL) {
			drop_request(c);
			c->k = NULL;
			task_release(t);
		}
		return NULL;
	}
	t->idem = *key;
	t->input_end = true;
	t->status = TASK_QUEUED;
	t->job_id = ++k->a->box->next_job;
	own_job_id(t->g, k->a->id, t->job_id, t->run.id);
	c->timeout_us = spec->timeout_us;
	c->allow_stdin = spec->allow_stdin;
	(void)snprintf(t->summary, sizeof(t->summary), "%.*s",
		       (int)jsonr_cut(spec->code, spec->code_len, TASK_SUMMARY - 1), spec->code);
	if (k->last != NULL)
		k->last->next = c;
	else
		k->queue = c;
	k->last = c;
	k->nqueued++;
	abox_touch(k->a);
	kernel_turn(k);
	if (t->status == TASK_QUEUED)
		abox_changed(k->a);
	return c;
}

int cell_send(struct cell *c)
{
	static const char *const envp[] = { NULL };
	struct task *t = &c->t;
	char kernel[24];
	const char *argv[] = { kernel, NULL };
	struct job_spec job = { .kind = JOB_CELL,
				.flags = JOB_STDIN | (c->spill == NULL ? JOB_KEEP : 0) |
					 (task_flows(&c->t) ? JOB_FLOW : 0) |
					 ((c->t.flags & TASK_COPIES) != 0 ? JOB_COPIES : 0),
				.timeout_us = c->timeout_us,
				.output_max = c->spill != NULL ? 0
					      : task_flows(t)  ? cell_flow_ring(c)
							       : t->a->limits.v[LIMIT_OUTPUT],
				.cwd = "/",
				.argv = argv,
				.envp = envp };
	int r;

	(void)snprintf(kernel, sizeof(kernel), "%llu", (unsigned long long)c->k->job_id);
	buf_init(&t->input, c->request_len);
	r = buf_put(&t->input, c->request, c->request_len);
	if (r == 0)
		r = gjob_start(t->a->box, &t->job, t->job_id, &job, &job_ops, c);
	if (r < 0)
		return r;
	t->job.lingers = true;
	t->flags = (t->flags & ~(unsigned int)TASK_WAITS) | TASK_STDIN | TASK_FEEDING;
	t->status = TASK_RUNNING;
	t->started_ms = own_now_ms();
	t->run.began_us = t->g->loop.now_us;
	if (t->run.seq == 0)
		task_begin(t);
	if (c->timeout_us != 0)
		task_expect(t, c->timeout_us + GRACE_US);
	abox_changed(t->a);
	task_on_want(t);
	return 0;
}

void cell_cancel(struct cell *c, const char *why)
{
	(void)snprintf(c->t.error, sizeof(c->t.error), "%s", why);
	task_finish(&c->t, TASK_CANCELLED);
}

static void on_grace(void *arg)
{
	struct task *t = arg;
	struct cell *c = cell_of(t);

	if (c->k == NULL || t->run.ended || t->has_exit)
		return;
	t->flags |= TASK_CANCEL;
	(void)snprintf(t->error, sizeof(t->error),
		       "it went on after the interrupt: the kernel was killed");
	kernel_kill(c->k, DEATH_CANCELLED);
	abox_changed(t->a);
}

void cell_interrupt(struct cell *c, uint64_t grace_us)
{
	struct task *t = &c->t;

	if (t->run.ended || t->has_exit)
		return;
	if (t->status == TASK_QUEUED) {
		cell_cancel(c, "it was cancelled before it began");
		return;
	}
	t->flags |= TASK_SIGINT;
	gjob_signal(&t->job, SIGINT, 0);
	if (grace_us != 0 &&
	    timer_set(&t->g->loop, &t->grace, t->g->loop.now_us + grace_us, on_grace, t) < 0)
		on_grace(t);
	abox_changed(t->a);
}

int cell_answer(struct cell *c, const char *p, size_t n, bool end)
{
	int r = gjob_tell(&c->t.job, p, n, end);

	if (r == 0)
		c->asked--;
	return r;
}
