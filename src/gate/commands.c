// SPDX-License-Identifier: Apache-2.0
#include "gate/commands.h"

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
	/* What init's ring holds of a program without making it wait, and what it is left with when it is told to let
	 * go of the rest. */
	WINDOW = 160 * 1024,
	KEEP = 80 * 1024,
	KEY_SAVED = 16,
	BODY_SAVED = 8,
	SHELL_KILLED = 128 + SIGKILL, /* how a shell says so */
	SHELL_INTERRUPTED = 128 + SIGINT,
};

static const char *const statuses[] = { "running",     "ok",  "error",   "timeout",
					"interrupted", "oom", "crashed", "cancelled" };
_Static_assert(ARRAY_LEN(statuses) == COMMAND_STATUS_MAX, "a word for every status");

const char *command_status_str(enum command_status s)
{
	return statuses[s];
}

void command_key(struct idem_key *k)
{
	(void)memset(k->key + KEY_SAVED, 0, sizeof(k->key) - KEY_SAVED);
	(void)memset(k->body + BODY_SAVED, 0, sizeof(k->body) - BODY_SAVED);
}

/* --- letting go ----------------------------------------------------------------------------------- */

static void command_free(void *arg)
{
	struct command *c = arg;

	buf_done(&c->input);
	free(c);
}

static void command_unlink(struct command *c)
{
	struct abox *a = c->a;

	if (a == NULL)
		return;
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		a->commands = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	else
		a->last_command = c->prev;
	if (c->run.ended)
		a->ended--;
	else
		a->running--;
	c->a = NULL;
}

/* Nobody can ask for it any more; who follows it may read to the end. */
static void command_release(struct command *c)
{
	if (c->released)
		return;
	c->released = true;
	command_unlink(c);
	timer_clear(&c->g->loop, &c->grace);
	timer_clear(&c->g->loop, &c->late);
	keeper_forget(&c->g->keeper, c);
	gjob_drop(&c->job);
	if (c->run.readers == NULL)
		run_done(&c->run, command_free, c);
}

static void on_alone(void *arg)
{
	struct command *c = arg;

	if (c->released)
		run_done(&c->run, command_free, c);
}

/* Init need not hold its end any longer. */
static void let_go(struct command *c)
{
	if (!c->held)
		return;
	c->held = false;
	gjob_ack(&c->job, c->number);
}

/* Ended ones that nobody has heard of are held by init, too; only so many. */
static void settle_held(struct abox *a)
{
	unsigned int unheard = 0;

	for (struct command *c = a->last_command; c != NULL; c = c->prev) {
		if (!c->held)
			continue;
		if (c->told || unheard == BOX_UNHEARD_MAX)
			let_go(c);
		else
			unheard++;
	}
}

/* The oldest that has ended, and that nobody follows. */
static struct command *oldest_ended(const struct abox *a)
{
	struct command *c = a->commands;

	while (c != NULL && (!c->run.ended || c->run.readers != NULL))
		c = c->next;
	return c;
}

static size_t ended_bytes(const struct abox *a)
{
	size_t sum = 0;

	for (const struct command *c = a->commands; c != NULL; c = c->next)
		if (c->run.ended)
			sum += run_bytes(&c->run);
	return sum;
}

static void settle_ended(struct abox *a)
{
	uint64_t max = config_u64(&a->g->config, CONF_BOX_LOG_BYTES);
	struct command *c = oldest_ended(a);

	while (c != NULL && (a->ended > BOX_ENDED_MAX || ended_bytes(a) > max)) {
		if (c->idem.set) /* that it ran is known for longer than what it said */
			idem_add(a->g, &c->idem, NULL, 0, own_now_ms() - c->started_ms);
		let_go(c);
		command_release(c);
		c = oldest_ended(a);
	}
}

static void settle(struct abox *a)
{
	if (a == NULL || a->state != ABOX_READY)
		return;
	settle_held(a);
	settle_ended(a);
	(void)abox_save(a, NULL, NULL);
}

void command_told(void *arg)
{
	struct command *c = arg;

	if (c->told || !c->run.ended)
		return;
	c->told = true;
	settle(c->a);
}

bool commands_evict(void *gate)
{
	struct gate *g = gate;
	struct command *largest = NULL;

	for (const struct abox *a = g->aboxes; a != NULL; a = a->next)
		for (struct command *c = a->commands; c != NULL; c = c->next)
			if (c->run.ended && c->run.readers == NULL &&
			    run_bytes(&c->run) >
				    (largest != NULL ? run_bytes(&largest->run) : 65536))
				largest = c;
	if (largest != NULL)
		run_forget(&largest->run);
	return largest != NULL;
}

/* --- what it answers ------------------------------------------------------------------------------ */

static void put_exit(const struct command *c, struct json *j)
{
	const struct job_exit *x = &c->exit;

	if (c->has_exit && x->how == JOB_EXITED)
		json_i64(j, "exit_code", x->code);
	else
		json_null(j, "exit_code");
	if (c->has_exit && x->how == JOB_SIGNALED)
		json_i64(j, "signal", x->code);
	else
		json_null(j, "signal");
	if (c->error[0] != '\0')
		json_str(j, "error", c->error);
	else
		json_null(j, "error");
	if (!c->has_exit) {
		json_null(j, "figures");
		return;
	}
	json_open(j, "figures", '{');
	json_u64(j, "wall_ms", x->wall_us / 1000);
	json_u64(j, "cpu_ms", (x->user_us + x->sys_us) / 1000);
	json_u64(j, "peak_memory_bytes", x->max_rss_bytes);
	json_close(j, '}');
}

void command_put(void *arg, struct json *j)
{
	const struct command *c = arg;

	json_str(j, "id", c->run.id);
	json_str(j, "status", command_status_str(c->status));
	put_exit(c, j);
	if (c->summary[0] != '\0')
		json_str(j, "summary", c->summary);
	else
		json_null(j, "summary");
	own_time(j, "started_at", c->started_ms);
	if (c->ended_ms != 0)
		own_time(j, "ended_at", c->ended_ms);
	else
		json_null(j, "ended_at");
}

static const struct run_ops run_ops = { .put = command_put,
					.told = command_told,
					.alone = on_alone };

/* --- its end -------------------------------------------------------------------------------------- */

static void tell_audit(const struct command *c)
{
	const char *limit = c->status == COMMAND_TIMEOUT ? "timeout"
			    : c->status == COMMAND_OOM   ? "memory"
							 : NULL;

	if (limit != NULL && c->a != NULL)
		audit(c->g, "limit_hit", NULL, "limit", limit, "tenant", c->a->tenant->name, "box",
		      c->a->id, NULL);
}

static void finish(struct command *c, enum command_status status)
{
	struct abox *a = c->a;

	if (c->run.ended)
		return;
	c->status = status;
	c->ended_ms = own_now_ms();
	timer_clear(&c->g->loop, &c->grace);
	timer_clear(&c->g->loop, &c->late);
	run_end(&c->run, c->number > c->run.seq ? c->number : 0);
	a->running--;
	a->ended++;
	tell_audit(c);
	metrics_completed(&c->g->metrics, OPERATION_COMMAND,
			  status == COMMAND_TIMEOUT ? OUTCOME_TIMED_OUT
			  : status == COMMAND_CRASHED || status == COMMAND_CANCELLED ? OUTCOME_ERROR
										     : OUTCOME_OK,
			  c->g->loop.now_us - c->run.began_us);
	if (a->state == ABOX_READY) {
		abox_touch(a);
		settle(a);
	}
}

static enum command_status status_of(const struct command *c, bool oom)
{
	const struct job_exit *x = &c->exit;
	bool interrupted = (c->flags & COMMAND_SIGINT) != 0;

	if ((x->flags & JOB_TIMED_OUT) != 0)
		return COMMAND_TIMEOUT;
	if ((c->flags & COMMAND_CANCEL) != 0)
		return COMMAND_CANCELLED;
	if (oom)
		return COMMAND_OOM;
	if (x->how == JOB_SIGNALED)
		return interrupted && x->code == SIGINT ? COMMAND_INTERRUPTED : COMMAND_CRASHED;
	if (x->how == JOB_FAILED || x->code != 0)
		return interrupted && x->code == SHELL_INTERRUPTED ? COMMAND_INTERRUPTED
								   : COMMAND_ERROR;
	return COMMAND_OK;
}

/* Whether the kernel ended something for want of memory since somebody last looked. */
static void on_figures(void *arg, struct chan_msg *m, const struct err *e)
{
	struct command *c = arg;
	struct box_figures f = { 0 };
	bool oom = false;

	(void)e;
	if (m != NULL && box_figures_decode(m->body, m->len, &f) == 0 &&
	    (f.has & FIGURE_OOM) != 0 && c->a != NULL) {
		oom = f.oom_kills > c->a->oom_kills;
		c->a->oom_kills = f.oom_kills;
	}
	if (m != NULL)
		chan_msg_close(m);
	if (oom)
		c->g->metrics.boxes_oom++;
	if (!c->run.ended)
		finish(c, status_of(c, oom));
}

/* --- what its job tells --------------------------------------------------------------------------- */

/* Frames that the last gate acknowledged were in its memory. */
static void note_missing(struct command *c, uint64_t number)
{
	if (number > c->run.seq + 1)
		c->run.cut[0] = c->run.cut[1] = true;
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct command *c = arg;
	uint64_t ack;

	note_missing(c, number);
	run_output(&c->run, number, stream, p, n);
	c->unacked += n + FRAME_HEADER;
	if (c->unacked <= WINDOW)
		return;
	ack = run_behind(&c->run, KEEP, FRAME_HEADER);
	gjob_ack(&c->job, ack != 0 ? ack : number);
	c->unacked = ack != 0 ? KEEP : 0;
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct command *c = arg;
	bool killed = (x->how == JOB_SIGNALED && x->code == SIGKILL) ||
		      (x->how == JOB_EXITED && x->code == SHELL_KILLED);
	bool ours = (x->flags & JOB_TIMED_OUT) != 0 || (c->flags & COMMAND_CANCEL) != 0;

	note_missing(c, number);
	c->exit = *x;
	c->has_exit = true;
	c->held = true;
	c->number = number;
	c->run.cut[0] = c->run.cut[0] || (x->flags & JOB_CUT_STDOUT) != 0;
	c->run.cut[1] = c->run.cut[1] || (x->flags & JOB_CUT_STDERR) != 0;
	if (x->how == JOB_FAILED)
		(void)snprintf(
			c->error, sizeof(c->error), "it could not be started: %s: %s", x->stage,
			strerrordesc_np(x->code) != NULL ? strerrordesc_np(x->code) : "unknown");
	if (x->how == JOB_FAILED && c->adopted)
		(void)snprintf(c->error, sizeof(c->error),
			       "it could not be started, or the server was restarted before");
	if (killed && !ours &&
	    keeper_ask_box(&c->g->keeper, OP_BOX_FIGURES, c->a->box->id, on_figures, c) == 0)
		return;
	finish(c, status_of(c, false));
}

static void on_failed(void *arg, int error, const char *why)
{
	struct command *c = arg;

	if (c->adopted && error == EALREADY) { /* it ended, and somebody had its answer */
		command_release(c);
		return;
	}
	(void)snprintf(c->error, sizeof(c->error), "the box refused it: %.120s", why);
	finish(c, COMMAND_ERROR);
}

/* Should its init not keep to the time, somebody must. */
static void on_late(void *arg)
{
	struct command *c = arg;

	gjob_drop(&c->job);
	(void)snprintf(c->error, sizeof(c->error), "it did not end in time");
	finish(c, COMMAND_TIMEOUT);
}

static void feed(struct command *c)
{
	bool feeding = (c->flags & COMMAND_FEEDING) != 0;

	while (buf_len(&c->input) > 0) {
		size_t n = gjob_input(&c->job, buf_head(&c->input), buf_len(&c->input));

		if (n == 0)
			return;
		buf_take(&c->input, n);
	}
	if (c->input_end && c->job.in_open) {
		gjob_input_end(&c->job);
		c->flags &= ~(unsigned int)COMMAND_STDIN;
		feeding = true;
	}
	c->flags &= ~(unsigned int)COMMAND_FEEDING;
	if (feeding && c->a != NULL)
		(void)abox_save(c->a, NULL, NULL);
}

static void on_want(void *arg)
{
	feed(arg);
}

static const struct gjob_ops job_ops = {
	.output = on_output, .want = on_want, .ended = on_ended, .failed = on_failed
};

/* --- its beginning -------------------------------------------------------------------------------- */

static struct command *command_new(struct abox *a, unsigned int flags)
{
	struct command *c = calloc(1, sizeof(*c));
	struct gate *g = a->g;

	if (c == NULL)
		return NULL;
	g->runs.max = (size_t)config_u64(&g->config, CONF_LOG_BYTES);
	g->runs.evict = commands_evict;
	g->runs.arg = g;
	c->g = g;
	c->a = a;
	c->flags = flags;
	run_init(&c->run, &g->loop, &g->runs, "command", (size_t)a->limits.v[LIMIT_OUTPUT],
		 &run_ops, c);
	c->run.base64 = (flags & COMMAND_BASE64) != 0;
	c->prev = a->last_command;
	if (c->prev != NULL)
		c->prev->next = c;
	else
		a->commands = c;
	a->last_command = c;
	a->running++;
	return c;
}

static void begin(struct command *c)
{
	struct json j;

	own_job_id(c->g, c->a->id, c->job_id, c->run.id);
	json_init(&j);
	json_open(&j, NULL, '{');
	own_time(&j, "started_at", c->started_ms);
	json_close(&j, '}');
	if (!j.failed)
		run_event(&c->run, 1, RUN_START, j.buf + 1, j.len - 2);
	json_done(&j);
}

struct command *command_start(struct abox *a, const struct command_spec *spec,
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
	struct command *c =
		command_new(a, spec->flags | (input ? COMMAND_STDIN | COMMAND_FEEDING : 0));
	int r = -ENOMEM;

	if (c != NULL) {
		c->idem = *key;
		buf_init(&c->input, spec->input_len + INPUT_EXTRA);
		r = buf_put(&c->input, spec->input, spec->input_len);
		c->input_end = !spec->input_open;
	}
	if (r == 0)
		r = gjob_start(a->box, &c->job, 0, &job, &job_ops, c);
	if (r < 0) {
		*ret_error = r;
		if (c != NULL)
			command_release(c);
		return NULL;
	}
	c->job_id = c->job.id;
	c->started_ms = own_now_ms();
	(void)snprintf(c->summary, sizeof(c->summary), "%.*s",
		       (int)jsonr_cut(spec->summary, strlen(spec->summary), COMMAND_SUMMARY - 1),
		       spec->summary);
	begin(c);
	if (spec->timeout_us != 0)
		(void)timer_set(&c->g->loop, &c->late,
				c->g->loop.now_us + spec->timeout_us + LATE_US, on_late, c);
	abox_touch(a);
	(void)abox_save(a, NULL,
			NULL); /* before the job is sent, which happens at the end of this turn */
	if (input)
		feed(c);
	return c;
}

int command_feed(struct command *c, const void *p, size_t n, bool end)
{
	int r = buf_put(&c->input, p, n);

	if (r < 0)
		return r;
	c->input_end = c->input_end || end;
	feed(c);
	return 0;
}

static void on_grace(void *arg)
{
	struct command *c = arg;

	gjob_signal(&c->job, SIGKILL, 0);
}

void command_kill(struct command *c, uint64_t grace_us)
{
	if (c->run.ended || c->has_exit)
		return;
	c->flags |= COMMAND_CANCEL;
	gjob_signal(&c->job, grace_us == 0 ? SIGKILL : SIGTERM, 0);
	if (grace_us != 0 &&
	    timer_set(&c->g->loop, &c->grace, c->g->loop.now_us + grace_us, on_grace, c) < 0)
		on_grace(c);
	(void)abox_save(c->a, NULL, NULL);
}

void command_left(void *arg)
{
	struct command *c = arg;

	if ((c->flags & COMMAND_ON_LEAVE) == 0 || c->has_exit || c->run.ended || c->a == NULL)
		return;
	c->flags |= COMMAND_SIGINT;
	gjob_signal(&c->job, SIGINT, 0);
	(void)abox_save(c->a, NULL, NULL);
}

void commands_end(struct abox *a, const char *status, const char *why)
{
	while (a->commands != NULL) {
		struct command *c = a->commands;

		if (!c->run.ended) {
			(void)snprintf(c->error, sizeof(c->error), "%s", why);
			finish(c, strcmp(status, "oom") == 0 ? COMMAND_OOM : COMMAND_CANCELLED);
		}
		command_release(c);
	}
}

/* --- another gate --------------------------------------------------------------------------------- */

static bool is_saved(const struct command *c)
{
	return !c->run.ended || c->held;
}

void commands_save(const struct abox *a, struct msg_out *m)
{
	uint16_t n = 0;

	for (const struct command *c = a->commands; c != NULL; c = c->next)
		n += is_saved(c) && c->job_id != 0;
	msg_put_u16(m, n);
	for (const struct command *c = a->commands; c != NULL; c = c->next) {
		if (!is_saved(c) || c->job_id == 0)
			continue;
		msg_put_u64(m, c->job_id);
		msg_put_u64(m, c->started_ms);
		msg_put_u16(m, (uint16_t)c->flags);
		msg_put_u8(m, c->idem.set);
		for (unsigned int i = 0; c->idem.set && i < KEY_SAVED; i++)
			msg_put_u8(m, c->idem.key[i]);
		for (unsigned int i = 0; c->idem.set && i < BODY_SAVED; i++)
			msg_put_u8(m, c->idem.body[i]);
	}
}

int commands_load(struct abox *a, struct msg_in *in)
{
	uint64_t now_ms = own_now_ms();

	for (unsigned int n = msg_get_u16(in); n > 0; n--) {
		uint64_t job = msg_get_u64(in), started_ms = msg_get_u64(in);
		unsigned int flags = msg_get_u16(in);
		struct idem_key idem = { .set = msg_get_u8(in) != 0 };
		struct command *c;

		for (unsigned int i = 0; idem.set && i < KEY_SAVED; i++)
			idem.key[i] = msg_get_u8(in);
		for (unsigned int i = 0; idem.set && i < BODY_SAVED; i++)
			idem.body[i] = msg_get_u8(in);
		c = in->failed ? NULL : command_new(a, flags);
		if (c == NULL)
			return -EPROTO;
		c->idem = idem;
		c->job_id = job;
		c->started_ms = started_ms;
		c->adopted = true;
		c->run.began_us -= now_ms > started_ms ? (now_ms - started_ms) * 1000 : 0;
		buf_init(&c->input, INPUT_EXTRA);
		begin(c);
	}
	return 0;
}

/* A job that init knows is not run again, and one that has run and was acknowledged is refused. Should it never have come
 * so far, nothing is run in its place: there is no such program. */
void commands_adopt(struct abox *a)
{
	static const char *const argv[] = { "/nonexistent", NULL };
	static const char *const envp[] = { NULL };
	struct command *next;

	for (struct command *c = a->commands; c != NULL; c = next) {
		struct job_spec spec = { .kind = JOB_EXEC,
					 .flags = (c->flags & COMMAND_STDIN) != 0 ? JOB_STDIN : 0,
					 .cwd = "/",
					 .argv = argv,
					 .envp = envp };

		next = c->next;
		if (gjob_start(a->box, &c->job, c->job_id, &spec, &job_ops, c) < 0) {
			finish(c, COMMAND_CRASHED);
			continue;
		}
		c->job.adopted = true;
		if ((c->flags & COMMAND_FEEDING) != 0) { /* the rest of its input is lost */
			(void)snprintf(c->error, sizeof(c->error),
				       "the server was restarted while its input was being sent");
			gjob_signal(&c->job, SIGKILL, 0);
		}
	}
}
