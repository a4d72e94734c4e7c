// SPDX-License-Identifier: Apache-2.0
#include "gate/tasks.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/frame.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	INPUT_EXTRA = 1024 * 1024, /* that waits for a program which does not read */
	LATE_US = 30 * 1000 * 1000,
	FORGET_MIN = 65536, /* bytes: less is not worth it */
	/* What init is left with of what was said, at most: this part of the box's memory. When there is more, half. */
	WINDOW_PART = 8,
	WINDOW_MIN = 160 * 1024, /* a ring holds as much, whatever happens */
	WINDOW_MAX = 192 * 1024 * 1024,
	SHELL_KILLED = 128 + SIGKILL, /* how a shell says so */
};

static const char *const statuses[] = { "running", "ok",      "error",     "timeout", "interrupted",
					"oom",     "crashed", "cancelled", "queued" };
_Static_assert(ARRAY_LEN(statuses) == TASK_STATUS_MAX, "a word for every status");

const char *task_status_str(enum task_status s)
{
	return statuses[s];
}

/* --- letting go ----------------------------------------------------------------------------------- */

static void task_free(void *arg)
{
	struct task *t = arg;

	buf_done(&t->input);
	free(t->label);
	t->kind->free(t);
}

static void task_unlink(struct task *t)
{
	struct abox *a = t->a;

	if (a == NULL)
		return;
	if (t->prev != NULL)
		t->prev->next = t->next;
	else
		a->tasks = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	else
		a->last_task = t->prev;
	if (t->run.ended)
		a->ended--;
	else
		a->running--;
	t->a = NULL;
}

void task_release(struct task *t)
{
	if (t->released)
		return;
	t->released = true;
	task_unlink(t);
	timer_clear(&t->g->loop, &t->grace);
	timer_clear(&t->g->loop, &t->late);
	keeper_forget(&t->g->keeper, t);
	if (t->paused)
		gjob_pause(&t->job, false);
	gjob_drop(&t->job);
	if (t->kind->release != NULL)
		t->kind->release(t);
	if (t->run.readers == NULL)
		run_done(&t->run, task_free, t);
}

static void on_alone(void *arg)
{
	struct task *t = arg;

	if (t->released)
		run_done(&t->run, task_free, t);
}

/* Init need not hold its end any longer. */
static void let_go(struct task *t)
{
	if (!t->held)
		return;
	t->held = false;
	gjob_ack(&t->job, t->job.last > t->number ? t->job.last : t->number);
}

/* Ended ones that nobody has heard of are held by init, too; only so many. */
static void settle_held(struct abox *a)
{
	unsigned int unheard = 0;

	for (struct task *t = a->last_task; t != NULL; t = t->prev) {
		if (!t->held)
			continue;
		if (t->told || unheard == BOX_UNHEARD_MAX)
			let_go(t);
		else
			unheard++;
	}
}

/* The oldest that has ended, and that nobody follows. */
static struct task *oldest_ended(const struct abox *a)
{
	struct task *t = a->tasks;

	while (t != NULL && (!t->run.ended || t->run.readers != NULL))
		t = t->next;
	return t;
}

static size_t ended_bytes(const struct abox *a)
{
	size_t sum = 0;

	for (const struct task *t = a->tasks; t != NULL; t = t->next)
		if (t->run.ended)
			sum += run_bytes(&t->run);
	return sum;
}

/* A question was answered to whoever was there: nobody comes for it later. */
static void drop_aside(struct abox *a)
{
	for (struct task *t = a->tasks, *next; t != NULL; t = next) {
		next = t->next;
		if ((t->flags & (TASK_ASIDE | TASK_TALKS)) != TASK_ASIDE || !t->run.ended ||
		    t->run.readers != NULL)
			continue;
		let_go(t);
		task_release(t);
	}
}

static void settle_ended(struct abox *a)
{
	uint64_t max = config_u64(&a->g->config, CONF_BOX_LOG_BYTES);
	struct task *t = oldest_ended(a);

	/* The last one is held however large it is: somebody may be about to ask for it. */
	while (t != NULL && (a->ended > BOX_ENDED_MAX || (a->ended > 1 && ended_bytes(a) > max))) {
		task_remember(t);
		let_go(t);
		task_release(t);
		t = oldest_ended(a);
	}
}

static void settle(struct abox *a)
{
	if (a == NULL || a->state != ABOX_READY)
		return;
	settle_held(a);
	drop_aside(a);
	settle_ended(a);
	abox_changed(a);
}

void task_told(void *arg)
{
	struct task *t = arg;

	if (t->told || !t->run.ended)
		return;
	t->told = true;
	settle(t->a);
}

static bool may_forget(const struct task *t)
{
	return t->run.ended && t->run.readers == NULL && &t->run != t->g->runs.writing &&
	       run_bytes(&t->run) > FORGET_MIN;
}

/* Whether to let go of this one rather than of that: the owner that holds more, then the larger one. */
static bool goes_first(const struct task *t, const struct task *that)
{
	size_t mine = t->run.share->bytes, theirs;

	if (that == NULL)
		return true;
	theirs = that->run.share->bytes;
	return mine != theirs ? mine > theirs : run_bytes(&t->run) > run_bytes(&that->run);
}

/* Nobody makes room at the cost of a tenant that holds less. */
bool tasks_evict(void *gate)
{
	struct gate *g = gate;
	const struct run_share *own = g->runs.writing->share;
	struct task *first = NULL;

	for (const struct abox *a = g->aboxes; a != NULL; a = a->next) {
		if (&a->tenant->log != own && a->tenant->log.bytes <= own->bytes)
			continue;
		for (struct task *t = a->tasks; t != NULL; t = t->next)
			if (may_forget(t) && goes_first(t, first))
				first = t;
	}
	if (first != NULL)
		run_forget(&first->run);
	return first != NULL;
}

unsigned int tasks_running(const struct abox *a, const struct task_kind *kind)
{
	unsigned int n = 0;

	for (const struct task *t = a->tasks; t != NULL; t = t->next)
		n += t->kind == kind && !t->run.ended;
	return n;
}

/* --- what it answers ------------------------------------------------------------------------------ */

static void put_figures(const struct task *t, struct json *j)
{
	const struct job_exit *x = &t->exit;

	if (!t->has_exit) {
		json_null(j, "figures");
		return;
	}
	json_open(j, "figures", '{');
	json_u64(j, "wall_ms", x->wall_us / 1000);
	json_u64(j, "cpu_ms", (x->user_us + x->sys_us) / 1000);
	json_u64(j, "peak_memory_bytes", x->max_rss_bytes);
	json_close(j, '}');
}

void task_put(void *arg, struct json *j)
{
	const struct task *t = arg;

	json_str(j, "id", t->run.id);
	json_str(j, "status", task_status_str(t->status));
	t->kind->put(t, j);
	put_figures(t, j);
	if (t->summary[0] != '\0')
		json_str(j, "summary", t->summary);
	else
		json_null(j, "summary");
	if (t->started_ms != 0)
		own_time(j, "started_at", t->started_ms);
	else
		json_null(j, "started_at");
	if (t->ended_ms != 0)
		own_time(j, "ended_at", t->ended_ms);
	else
		json_null(j, "ended_at");
}

static void put_output(void *arg, struct json *j, unsigned int parts)
{
	const struct task *t = arg;

	t->kind->put_output(t, j, parts);
}

static size_t text_from(void *arg, unsigned int stream)
{
	const struct task *t = arg;

	return t->kind->text_from(t, stream);
}

/* Without and with an output of its own kind. */
static const struct run_ops run_ops[2] = {
	{ .put = task_put, .told = task_told, .alone = on_alone, .refuse = task_refuse },
	{ .put = task_put,
	  .put_output = put_output,
	  .text_from = text_from,
	  .told = task_told,
	  .alone = on_alone,
	  .refuse = task_refuse },
};

/* --- its end -------------------------------------------------------------------------------------- */

static void tell_audit(const struct task *t)
{
	const char *limit = t->status == TASK_TIMEOUT ? "timeout"
			    : t->status == TASK_OOM   ? "memory"
						      : NULL;

	if (limit != NULL && t->a != NULL)
		audit(t->g, "limit_hit", NULL, "limit", limit, "tenant", t->a->tenant->name, "box",
		      t->a->id, NULL);
}

static void count_end(const struct task *t)
{
	enum task_status s = t->status;

	metrics_completed(&t->g->metrics, t->kind->operation,
			  s == TASK_TIMEOUT                          ? OUTCOME_TIMED_OUT
			  : s == TASK_CRASHED || s == TASK_CANCELLED ? OUTCOME_ERROR
								     : OUTCOME_OK,
			  t->g->loop.now_us - t->run.began_us);
}

void task_finish(struct task *t, enum task_status status)
{
	struct abox *a = t->a;

	if (t->run.ended)
		return;
	t->status = status;
	t->ended_ms = own_now_ms();
	timer_clear(&t->g->loop, &t->grace);
	timer_clear(&t->g->loop, &t->late);
	buf_done(&t->input);
	run_end(&t->run, t->number > t->run.frame ? t->number : 0);
	a->running--;
	a->ended++;
	tell_audit(t);
	if ((t->flags & TASK_ASIDE) == 0)
		count_end(t);
	if (t->kind->finished != NULL)
		t->kind->finished(t);
	if (a->state == ABOX_READY) {
		abox_touch(a);
		settle(a);
	}
}

/* Whether the kernel ended something for want of memory since somebody last looked. */
static void on_figures(void *arg, struct chan_msg *m, const struct err *e)
{
	struct task *t = arg;
	struct box_figures f = { 0 };
	bool oom = false;

	(void)e;
	if (m != NULL && box_figures_decode(m->body, m->len, &f) == 0 &&
	    (f.has & FIGURE_OOM) != 0 && t->a != NULL) {
		oom = f.oom_kills > t->a->oom_kills;
		t->a->oom_kills = f.oom_kills;
	}
	if (m != NULL)
		chan_msg_close(m);
	if (oom)
		t->g->metrics.boxes_oom++;
	if (!t->run.ended)
		task_finish(t, t->kind->status(t, oom));
}

/* --- what its job tells --------------------------------------------------------------------------- */

void task_note_missing(struct task *t, uint64_t number)
{
	bool *missing = task_flows(t) ? t->run.trimmed : t->run.cut;

	if (number > t->run.frame + 1)
		missing[0] = missing[1] = true;
}

size_t task_window(const struct task *t)
{
	const uint64_t *limit = t->a->limits.v;
	uint64_t most = 2 * limit[LIMIT_OUTPUT] + RUN_OTHER_MAX;
	uint64_t part = (t->flags & TASK_SPILL) != 0 ? 0 : limit[LIMIT_MEMORY] / WINDOW_PART;

	if (most > WINDOW_MAX)
		most = WINDOW_MAX;
	if (part > most)
		part = most;
	return part > WINDOW_MIN ? (size_t)part : WINDOW_MIN;
}

/* Whether what came so far can be let go of without tearing a message or a character apart. One whose ring is small
 * cannot wait for the end of a large message. */
static bool may_cut(const struct task *t)
{
	const struct run *run = &t->run;

	if (t->partly)
		return (t->flags & TASK_SPILL) != 0;
	return run->taken[0] == buf_len(&run->out[0]) && run->taken[1] == buf_len(&run->out[1]);
}

static void add_point(struct task *t, uint64_t number)
{
	if (t->npoints == TASK_POINTS)
		(void)memmove(t->points, t->points + 1, --t->npoints * sizeof(t->points[0]));
	t->points[t->npoints++] = (struct task_point){ number, t->run.seq, t->total };
}

/* The latest place behind which at least `keep` bytes came; NULL: none. */
static const struct task_point *find_point(const struct task *t, size_t keep)
{
	for (unsigned int i = t->npoints; i > 0; i--)
		if (t->total - t->points[i - 1].total >= keep)
			return &t->points[i - 1];
	return NULL;
}

static void acknowledge(struct task *t, struct task_point p)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < t->npoints; i++)
		if (t->points[i].frame > p.frame)
			t->points[left++] = t->points[i];
	t->npoints = left;
	t->acked_total = p.total;
	t->acked_frame = p.frame;
	t->acked_seq = p.seq;
	abox_changed(t->a); /* the next gate knows what it has missed */
	gjob_ack(&t->job, p.frame);
}

void task_took(struct task *t, uint64_t number, size_t n)
{
	uint64_t last = t->npoints > 0 ? t->points[t->npoints - 1].total : t->acked_total;
	const struct task_point *p;

	t->total += n + FRAME_HEADER;
	if (t->has_exit) { /* late: it goes with the end, or behind it */
		if (!t->held)
			gjob_ack(&t->job, number);
		else if (t->a != NULL && t->total - t->acked_total > task_window(t))
			let_go(t);
		return;
	}
	if (t->a == NULL)
		return;
	if (may_cut(t) && t->total - last >= task_window(t) / TASK_POINTS)
		add_point(t, number);
	if (t->held_back || t->total - t->acked_total <= task_window(t))
		return;
	p = find_point(t, task_window(t) / 2);
	if (p == NULL)
		p = find_point(t, 0);
	if (p != NULL)
		acknowledge(t, *p);
	else if (!t->partly && t->total - t->acked_total > task_window(t) / 4 * 5)
		acknowledge(t, (struct task_point){ number, t->run.seq, t->total });
}

void task_on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct task *t = arg;

	task_note_missing(t, number);
	run_output(&t->run, number, stream, p, n);
	task_took(t, number, n);
}

void task_on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct task *t = arg;
	bool killed = (x->how == JOB_SIGNALED && x->code == SIGKILL) ||
		      (x->how == JOB_EXITED && x->code == SHELL_KILLED);
	bool ours = (x->flags & JOB_TIMED_OUT) != 0 || (t->flags & TASK_CANCEL) != 0;

	task_note_missing(t, number);
	t->exit = *x;
	t->has_exit = true;
	t->held = true;
	t->number = number;
	t->run.cut[0] = t->run.cut[0] || (x->flags & JOB_CUT_STDOUT) != 0;
	t->run.cut[1] = t->run.cut[1] || (x->flags & JOB_CUT_STDERR) != 0;
	if (x->how == JOB_FAILED && t->adopted)
		(void)snprintf(t->error, sizeof(t->error),
			       "it could not be started, or the server was restarted before");
	else if (x->how == JOB_FAILED)
		(void)snprintf(
			t->error, sizeof(t->error), "it could not be started: %s: %s", x->stage,
			strerrordesc_np(x->code) != NULL ? strerrordesc_np(x->code) : "unknown");
	if (killed && !ours &&
	    keeper_ask_box(&t->g->keeper, OP_BOX_FIGURES, t->a->box->id, on_figures, t) == 0)
		return;
	task_finish(t, t->kind->status(t, false));
}

void task_on_failed(void *arg, int error, const char *why)
{
	struct task *t = arg;

	if (t->adopted && error == EALREADY) { /* it ended, and somebody had its answer */
		struct abox *a = t->a;

		task_remember(t);
		run_lose(&t->run);
		task_release(t);
		abox_changed(a);
		return;
	}
	(void)snprintf(t->error, sizeof(t->error), "the box refused it: %.120s", why);
	task_finish(t, TASK_ERROR);
}

/* Should its init not keep to the time, somebody must. */
static void on_late(void *arg)
{
	struct task *t = arg;

	gjob_drop(&t->job);
	(void)snprintf(t->error, sizeof(t->error), "it did not end in time");
	task_finish(t, TASK_TIMEOUT);
}

void task_expect(struct task *t, uint64_t timeout_us)
{
	if (timeout_us != 0)
		(void)timer_set(&t->g->loop, &t->late, t->g->loop.now_us + timeout_us + LATE_US,
				on_late, t);
}

void tasks_clock(struct abox *a, bool on)
{
	for (struct task *t = a->tasks; t != NULL; t = t->next) {
		struct loop *l = &t->g->loop;

		if (t->job.box == NULL)
			continue;
		gjob_clock(&t->job, on);
		if (!on && t->late.place != 0) {
			t->late_left_us = t->late.at_us > l->now_us ? t->late.at_us - l->now_us : 1;
			timer_clear(l, &t->late);
		} else if (on && t->late_left_us != 0) {
			(void)timer_set(l, &t->late, l->now_us + t->late_left_us, on_late, t);
			t->late_left_us = 0;
		}
	}
}

static void feed(struct task *t)
{
	bool feeding = (t->flags & TASK_FEEDING) != 0;

	if (feeding && t->adopted)
		return; /* the rest of it is lost */
	if (!gjob_listens(&t->job))
		return; /* task_on_want() follows */
	while (buf_len(&t->input) > 0) {
		size_t n = gjob_input(&t->job, buf_head(&t->input), buf_len(&t->input));

		if (n == 0)
			return;
		buf_take(&t->input, n);
	}
	if (t->input_end && t->job.in_open) {
		gjob_input_end(&t->job);
		t->flags &= ~(unsigned int)TASK_STDIN;
		feeding = true;
	}
	t->flags &= ~(unsigned int)TASK_FEEDING;
	if (feeding && t->a != NULL)
		abox_changed(t->a);
}

void task_on_want(void *arg)
{
	feed(arg);
}

int task_feed(struct task *t, const void *p, size_t n, bool end)
{
	int r = buf_put(&t->input, p, n);

	if (r < 0)
		return r;
	t->input_end = t->input_end || end;
	feed(t);
	return 0;
}

/* --- its beginning -------------------------------------------------------------------------------- */

void task_init(struct task *t, const struct task_kind *kind, struct abox *a, unsigned int flags)
{
	struct gate *g = a->g;

	g->runs.max = (size_t)config_u64(&g->config, CONF_LOG_BYTES);
	g->runs.evict = tasks_evict;
	g->runs.arg = g;
	t->kind = kind;
	t->g = g;
	t->a = a;
	t->flags = flags;
	run_init(&t->run, &g->loop, &g->runs, &g->tenants[a->tenant - g->tenants].log, kind->name,
		 (size_t)a->limits.v[LIMIT_OUTPUT], &run_ops[kind->put_output != NULL], t);
	t->run.base64 = (flags & TASK_BASE64) != 0;
	buf_init(&t->input, INPUT_EXTRA);
	t->prev = a->last_task;
	if (t->prev != NULL)
		t->prev->next = t;
	else
		a->tasks = t;
	a->last_task = t;
	a->running++;
}

void task_begin(struct task *t)
{
	struct json j;

	own_job_id(t->g, t->a->id, t->job_id, t->run.id);
	json_init(&j);
	json_open(&j, NULL, '{');
	own_time(&j, "started_at", t->started_ms);
	json_close(&j, '}');
	if (!j.failed)
		(void)run_event(&t->run, 1, RUN_START, j.buf + 1, j.len - 2);
	json_done(&j);
}

void task_left(void *arg)
{
	struct task *t = arg;

	if ((t->flags & TASK_ON_LEAVE) == 0 || t->has_exit || t->run.ended || t->a == NULL)
		return;
	t->flags |= TASK_SIGINT;
	t->kind->interrupt(t);
	abox_changed(t->a);
}

void tasks_end(struct abox *a, bool oom, const char *why)
{
	while (a->tasks != NULL) {
		struct task *t = a->tasks;

		if (!t->run.ended) {
			(void)snprintf(t->error, sizeof(t->error), "%s", why);
			task_finish(t, oom ? TASK_OOM : TASK_CANCELLED);
		}
		task_release(t);
	}
}

/* --- another gate --------------------------------------------------------------------------------- */

/* One that was cancelled before it began is known to nobody else. */
static bool is_saved(const struct task *t, enum record_room room)
{
	bool unheard = (t->flags & TASK_WAITS) != 0 && !t->told && room == ROOM_FOR_ALL;

	return t->job_id != 0 && (!t->run.ended || t->held || unheard);
}

bool task_saves_key(const struct task *t, enum record_room room)
{
	return t->idem.set && room != ROOM_FOR_LITTLE && is_saved(t, room);
}

void tasks_save(const struct abox *a, struct msg_out *m, enum record_room room)
{
	uint16_t n = 0;

	for (const struct task *t = a->tasks; t != NULL; t = t->next)
		n += is_saved(t, room);
	msg_put_u16(m, n);
	for (const struct task *t = a->tasks; t != NULL; t = t->next) {
		if (!is_saved(t, room))
			continue;
		t->kind->save(t, m);
		msg_put_u64(m, t->job_id);
		msg_put_u64(m, t->started_ms);
		msg_put_u16(m, (uint16_t)(t->flags | (t->run.ended ? TASK_OVER : 0) |
					  (t->acked_frame != 0 ? TASK_ACKED : 0)));
		msg_put_u8(m, task_saves_key(t, room));
		if (task_saves_key(t, room))
			task_key_put(m, &t->idem);
		if (t->acked_frame != 0) {
			msg_put_u64(m, t->acked_frame);
			msg_put_u64(m, t->acked_seq);
		}
		if ((t->flags & TASK_WHOLE) != 0)
			msg_put_str(m, t->label != NULL && room != ROOM_FOR_LITTLE ? t->label : "");
	}
}

static int load_label(struct task *t, struct msg_in *in)
{
	char label[TASK_LABEL];

	if ((t->flags & TASK_WHOLE) == 0)
		return 0;
	(void)msg_get_str(in, label, sizeof(label));
	if (in->failed)
		return -EPROTO;
	t->label = label[0] != '\0' ? strdup(label) : NULL;
	return 0;
}

int tasks_load(struct abox *a, struct msg_in *in)
{
	uint64_t now_ms = own_now_ms();

	for (unsigned int n = msg_get_u16(in); n > 0; n--) {
		unsigned int what = msg_get_u8(in), flags;
		uint64_t job, started_ms, acked_frame, acked_seq;
		char kernel[KERNEL_NAME] = "";
		struct idem_key idem = { 0 };
		struct task *t;

		if (what == KERNEL_GONE)
			(void)msg_get_str(in, kernel, sizeof(kernel));
		job = msg_get_u64(in);
		started_ms = msg_get_u64(in);
		flags = msg_get_u16(in);
		idem.set = msg_get_u8(in) != 0;
		if (idem.set)
			task_key_get(in, &idem);
		acked_frame = (flags & TASK_ACKED) != 0 ? msg_get_u64(in) : 0;
		acked_seq = (flags & TASK_ACKED) != 0 ? msg_get_u64(in) : 0;
		if (in->failed)
			return -EPROTO;
		t = what == 0 ? command_load(a, flags) : cell_load(a, what, kernel, flags);
		if (t == NULL)
			return -EPROTO;
		t->idem = idem;
		t->job_id = job;
		t->started_ms = started_ms;
		t->adopted = true;
		t->adopted_us = t->g->loop.now_us;
		if (started_ms != 0 && now_ms > started_ms)
			t->run.began_us -= (now_ms - started_ms) * 1000;
		t->flags &= ~(unsigned int)(TASK_OVER | TASK_ACKED);
		if (load_label(t, in) < 0)
			return -EPROTO;
		t->run.known_frame = t->acked_frame = acked_frame;
		t->run.known_seq = t->acked_seq = acked_seq;
		if (t->status == TASK_QUEUED)
			own_job_id(t->g, a->id, job, t->run.id);
		else
			task_begin(t);
	}
	return 0;
}

/* A job that init knows is not run again, and one that has run and was acknowledged is refused. Should it never have come
 * so far, nothing is run in its place: there is no such program. */
static int adopt(struct task *t)
{
	static const char *const argv[] = { "/nonexistent", NULL };
	static const char *const envp[] = { NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = (t->flags & TASK_STDIN) != 0 ? JOB_STDIN : 0,
				 .cwd = "/",
				 .argv = argv,
				 .envp = envp };
	bool lingers = t->job.lingers;
	int r = gjob_start(t->a->box, &t->job, t->job_id, &spec, t->kind->job, t);

	t->job.lingers = lingers;
	if (r == 0)
		t->job.adopted = true;
	return r;
}

void tasks_adopt(struct abox *a)
{
	struct task *next;

	for (struct task *t = a->tasks; t != NULL; t = next) {
		next = t->next;
		if (t->status == TASK_QUEUED) { /* what it was to run is lost */
			(void)snprintf(t->error, sizeof(t->error),
				       "the server was restarted before it began");
			task_finish(t, TASK_CANCELLED);
		} else if (adopt(t) < 0) {
			task_finish(t, TASK_CRASHED);
		} else {
			gjob_clock(&t->job, true); /* whoever was asked is not any more */
			if ((t->flags & TASK_FEEDING) == 0)
				continue;
			(void)snprintf(t->error,
				       sizeof(t->error), /* the rest of its input is lost */
				       "the server was restarted while its input was being sent");
			t->kind->cut(t);
		}
	}
}
