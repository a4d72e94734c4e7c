// SPDX-License-Identifier: Apache-2.0
#include "gate/oneshot_impl.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/box_net.h"
#include "gate/genv.h"
#include "gate/record.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	BEFORE_SAVED_MAX = 120,  /* entries of the first listing that fit into a record */
	INLINE_MAX = 15000,      /* six times as long in JSON, at worst: JOB_GO_MAX */
	GRACE_US = 60 * 1000000, /* for files in and out, beside the program's own time */
};

/* --- the end ------------------------------------------------------------------------------------ */

static void free_entries(struct entry *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].path);
	free(v);
}

static void oneshot_free(void *arg)
{
	struct oneshot *o = arg;

	free_entries(o->before, o->nbefore);
	free_entries(o->after, o->nafter);
	for (size_t i = 0; i < o->result.nfiles; i++)
		free(o->result.files[i].path);
	free(o->result.files);
	free(o->reader);
	buf_done(&o->fetched);
	free(o);
}

/* Nothing of it is left: so the slot is free. */
static void box_ended(void *arg, const struct box_figures *f)
{
	struct oneshot *o = arg;

	if (f != NULL && f->oom_kills > 0) {
		o->g->metrics.boxes_oom++;
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "memory", "tenant",
		      o->spec.tenant->name, NULL);
	}
	if (o->counted)
		quota_give(o->g, o->spec.tenant);
	admit_done(&o->ticket);
	if (o->pooled)
		pool_turn(o->g);
	loop_defer(&o->g->loop, &o->deferred, oneshot_free, o);
}

void oneshot_end(struct oneshot *o)
{
	if (o->ended)
		return;
	o->ended = true;
	if (o->phase == PHASE_RECORD || o->phase == PHASE_NET)
		keeper_forget(&o->g->keeper, o);
	o->phase = PHASE_DONE;
	stage_end(&o->stage);
	if (o->uploading)
		store_upload_abort(&o->upload);
	if (o->box != NULL)
		gbox_end(o->box, box_ended, o);
	else
		box_ended(o, NULL);
	o->box = NULL;
}

void oneshot_fail(struct oneshot *o, int status, int why, const char *fmt, ...)
{
	struct oneshot_failure f = { .status = status, .file = o->stage.at };
	va_list ap;

	if (o->told || o->ended)
		return;
	o->told = true;
	f.why = (unsigned int)why;
	f.ran = o->phase >= PHASE_RUN;
	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	o->ops->failed(o->arg, &f);
}

void oneshot_box_lost(struct oneshot *o)
{
	oneshot_fail(o, 500, ONESHOT_BOX_GONE, "the box ended unexpectedly");
}

void oneshot_tell_result(struct oneshot *o)
{
	if (o->told)
		return;
	o->told = true;
	o->result.duration_us = clock_us() - o->born_us;
	o->ops->result(o->arg, &o->result);
}

void oneshot_job_failed(void *arg, int error, const char *why)
{
	struct oneshot *o = arg;

	oneshot_fail(o, error == EAGAIN || error == ENOMEM || error == EMFILE ? 503 : 500,
		     ONESHOT_BOX_GONE, "the box refused a job: %s", why);
}

/* --- files in ----------------------------------------------------------------------------------- */

static void on_staged(void *arg)
{
	struct oneshot *o = arg;

	if (o->chilled && o->inlined) { /* then the program has to go in, too */
		o->inlined = false;
		o->phase = PHASE_STAGE;
		stage_run(&o->stage, o->box, 0);
		return;
	}
	/* The program itself, which is not returned, needs no listing. */
	if (o->spec.nfiles > 1)
		oneshot_list(o, PHASE_BEFORE);
	else
		oneshot_save_record(o);
}

static void on_not_staged(void *arg, const struct stage_failure *f)
{
	struct oneshot *o = arg;

	oneshot_fail(o, f->status, f->status == 404 ? ONESHOT_NO_FILE : ONESHOT_NO_STORE, "%s",
		     f->text);
}

/* --- the program -------------------------------------------------------------------------------- */

static void main_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct oneshot *o = arg;

	o->ops->output(o->arg, number, stream, p, n);
}

static void main_message(void *arg, uint64_t number, unsigned int flags, const uint8_t *p, size_t n)
{
	struct oneshot *o = arg;

	if (o->ops->message != NULL)
		o->ops->message(o->arg, number, (flags & FRAME_MORE) != 0, p, n);
	else
		gjob_ack(&o->program, number);
}

static void start_run(struct oneshot *o);

/* The Python that was to run the program has ended before: once more, cold. It may have died while files go in. */
static void chill(struct oneshot *o)
{
	o->chilled = true;
	if (o->phase != PHASE_RUN)
		return;
	if (o->inlined)
		on_staged(o);
	else
		start_run(o);
}

static void main_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct oneshot *o = arg;

	if ((x->flags & JOB_NOT_BEGUN) != 0 && !o->chilled) {
		log_line(&o->g->log, LOG_WARN, "thaw_failed", log_i64("code", x->code));
		gjob_ack(&o->program, number);
		chill(o);
		return;
	}
	o->result.exit = *x;
	o->result.number = number;
	if ((x->flags & JOB_TIMED_OUT) != 0)
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "timeout", "tenant",
		      o->spec.tenant->name, NULL);
	if ((x->flags & (JOB_CUT_STDOUT | JOB_CUT_STDERR)) != 0)
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "output", "tenant",
		      o->spec.tenant->name, NULL);
	if (x->how == JOB_SIGNALED && x->code == SIGXCPU)
		audit(o->g, "limit_hit", NULL, "request", o->request, "limit", "cpu_seconds",
		      "tenant", o->spec.tenant->name, NULL);
	if (x->how == JOB_FAILED)
		oneshot_fail(o, 500, ONESHOT_BOX_GONE, "the program could not be started: %s",
			     x->stage);
	else if (o->spec.handler || (o->spec.nfiles == 1 && x->only[0] != '\0' &&
				     strcmp(x->only, o->spec.ignore) == 0))
		oneshot_tell_result(o); /* there is nothing but the program */
	else
		oneshot_list(o, PHASE_AFTER);
}

static const struct gjob_ops program_ops = { .output = main_output,
					     .message = main_message,
					     .ended = main_ended,
					     .failed = oneshot_job_failed };

static int start_cold(struct oneshot *o)
{
	struct job_spec spec = {
		.kind = JOB_EXEC,
		.flags = JOB_SWEEP | (o->spec.input != NULL ? JOB_STDIN : 0),
		.timeout_us = o->spec.timeout_us,
		.output_max = o->spec.output_max,
		.cwd = "/workspace",
		.argv = o->spec.argv,
		.envp = o->spec.envp,
	};

	return gjob_start(o->box, &o->program, PROGRAM_JOB + o->chilled, &spec, &program_ops, o);
}

/* A Python that reads what it is to do from a channel: from an image, or the same without one. */
static int start_warm(struct oneshot *o, bool thaw)
{
	struct warm_program p = { .argv = o->spec.script,
				  .envp = o->spec.envp,
				  .input_path = o->spec.input_path != NULL ? o->spec.input_path
						: o->spec.input != NULL    ? NULL
									   : "/dev/null",
				  .source = o->inlined ? o->spec.files[0].p : NULL,
				  .source_len = o->inlined ? o->spec.files[0].n : 0,
				  .handler = o->spec.handler,
				  .timeout_us = o->spec.timeout_us,
				  .output_max = o->spec.output_max };
	int r = 0;

	if (!thaw)
		r = handler_job_start(o->box, &o->program, PROGRAM_JOB + o->chilled, &program_ops,
				      o);
	else if (!o->pooled)
		r = warm_job_start(o->box, &o->program, PROGRAM_JOB, &program_ops, o);
	return r < 0 ? r : warm_job_go(&o->program, &p);
}

static void start_run(struct oneshot *o)
{
	bool warm = o->box->info.image != 0 && !o->chilled;

	o->phase = PHASE_RUN;
	if ((warm || o->spec.handler ? start_warm(o, warm) : start_cold(o)) < 0) {
		oneshot_box_lost(o);
		return;
	}
	if (o->spec.input != NULL)
		gjob_input_all(&o->program, o->spec.input, o->spec.input_len);
	else
		gjob_input_end(&o->program);
	if (o->ops->running != NULL)
		o->ops->running(o->arg);
}

void oneshot_ack(struct oneshot *o, uint64_t number)
{
	gjob_ack(&o->program, number);
}

bool oneshot_is_running(const struct oneshot *o)
{
	return o->phase >= PHASE_RUN && !o->ended;
}

/* --- the record --------------------------------------------------------------------------------- */

static void on_recorded(void *arg, struct chan_msg *m, const struct err *e)
{
	struct oneshot *o = arg;

	(void)e;
	if (m == NULL) {
		oneshot_fail(o, 503, ONESHOT_NO_BOX, "the keeper has no memory");
		return;
	}
	chan_msg_close(m);
	if (!o->told)
		start_run(o);
}

void oneshot_save_record(struct oneshot *o)
{
	static uint8_t record[BOX_RECORD_MAX], body[BOX_RECORD_MAX + 16];
	size_t saved = o->nbefore;
	struct msg_out m;

	if (o->spec.owner == NULL) {
		start_run(o);
		return;
	}
	o->phase = PHASE_RECORD;
	if (saved > BEFORE_SAVED_MAX)
		saved = BEFORE_SAVED_MAX;
	msg_out_init(&m, record, sizeof(record));
	msg_put_u8(&m, RECORD_ONESHOT);
	msg_put_bytes(&m, o->spec.owner, o->spec.owner_len);
	msg_put_u16(&m, (uint16_t)saved);
	for (size_t i = 0; i < saved; i++) {
		msg_put_u64(&m, o->before[i].path_hash);
		msg_put_u64(&m, o->before[i].state_hash);
	}
	if (m.failed ||
	    record_save(o->g, o->box->id, record, m.len, body, sizeof(body), on_recorded, o) < 0)
		oneshot_fail(o, 503, ONESHOT_NO_BOX, "the keeper cannot be asked");
}

int oneshot_record_owner(const uint8_t *record, size_t n, const uint8_t **ret, size_t *ret_n)
{
	struct msg_in in;

	msg_in_init(&in, record, n);
	if (msg_get_u8(&in) != RECORD_ONESHOT)
		return -EPROTO;
	*ret = msg_get_bytes(&in, ONESHOT_OWNER_MAX, ret_n);
	return in.failed ? -EPROTO : 0;
}

static int load_before(struct oneshot *o, const uint8_t *record, size_t n)
{
	struct msg_in in;
	size_t len, count;

	msg_in_init(&in, record, n);
	(void)msg_get_u8(&in);
	(void)msg_get_bytes(&in, ONESHOT_OWNER_MAX, &len);
	count = msg_get_u16(&in);
	for (size_t i = 0; i < count && !in.failed; i++) {
		uint64_t path_hash = msg_get_u64(&in), state_hash = msg_get_u64(&in);

		if (oneshot_add_before(o, path_hash, state_hash) < 0)
			return -ENOMEM;
	}
	return msg_end(&in);
}

/* --- the box ------------------------------------------------------------------------------------ */

/* Should this gate hang, the keeper ends the box. */
static void set_deadline(struct oneshot *o)
{
	uint8_t body[16];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, o->box->id);
	msg_put_u64(&m, o->spec.timeout_us + GRACE_US);
	(void)keeper_ask(&o->g->keeper, OP_BOX_DEADLINE, body, m.len, NULL, NULL);
}

static void begin(struct oneshot *o)
{
	o->phase = PHASE_STAGE;
	stage_run(&o->stage, o->box, o->inlined);
}

static void on_net(void *arg, struct chan_msg *m, const struct err *e)
{
	struct oneshot *o = arg;

	if (m == NULL) {
		oneshot_fail(o, 503, ONESHOT_NO_BOX, "no network can be made: %s", e->text);
		return;
	}
	chan_msg_close(m);
	if (!o->told)
		begin(o);
}

/* No program of it runs before it may reach what it may. */
static void set_network(struct oneshot *o, const struct net_policy *p)
{
	o->phase = PHASE_NET;
	box_net_owner(o->box, o->spec.tenant, "request", o->request);
	if (box_net_ask(o->box, p, on_net, o) < 0)
		oneshot_fail(o, 503, ONESHOT_NO_BOX, "the keeper cannot be asked");
}

static void on_ready(void *arg, struct gbox *b)
{
	struct oneshot *o = arg;
	const struct net_policy *p = net_default(o->g, o->spec.network);

	o->box = b;
	o->pooled = o->program.box != NULL;
	if (o->adopted) {
		o->g->metrics.adopted[ADOPTED_RUN]++;
		start_run(o);
		return;
	}
	if (!b->made_ahead)
		metrics_box(&o->g->metrics, b->info.setup_us);
	/* A warm Python writes a small program itself; the next gate could not repeat that. */
	o->inlined = b->info.image != 0 && o->spec.owner == NULL && o->spec.nfiles > 0 &&
		     o->spec.files[0].p != NULL && o->spec.files[0].n <= INLINE_MAX;
	if (p->mode != NET_NONE)
		set_network(o, p);
	else
		begin(o);
	/* What others have to know comes behind what the program waits for. */
	gboxes_flush(o->g);
	audit(o->g, "box_made", NULL, "request", o->request, "tenant", o->spec.tenant->name, "for",
	      operation_str(o->spec.operation), "policy", box_net_audit(p), NULL);
	if (o->box != NULL)
		set_deadline(o);
}

static void on_failed(void *arg, const struct err *e)
{
	struct oneshot *o = arg;

	o->box = NULL;
	o->g->metrics.boxes_failed++;
	metrics_rejected(&o->g->metrics, o->spec.operation, REJECT_UNSCHEDULABLE);
	gate_log_err(o->g, "box_failed", e);
	oneshot_fail(o, 503, ONESHOT_NO_BOX, "unschedulable: %s", e->text);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	struct oneshot *o = arg;

	o->box = NULL;
	if (f != NULL && f->oom_kills > 0)
		oneshot_fail(o, 500, ONESHOT_BOX_GONE, "the box ran out of memory");
	else
		oneshot_fail(o, 500, ONESHOT_BOX_GONE,
			     why == BOX_END_DEADLINE ? "the box took too long"
						     : "the box ended unexpectedly");
}

static void on_refused(void *arg, const char *call)
{
	struct oneshot *o = arg;

	audit(o->g, "syscall_refused", NULL, "request", o->request, "syscall", call, "tenant",
	      o->spec.tenant->name, NULL);
}

static const struct gbox_ops box_ops = {
	.ready = on_ready, .failed = on_failed, .gone = on_gone, .refused = on_refused
};

static void on_turn(void *arg)
{
	struct oneshot *o = arg;
	struct err e;

	o->phase = PHASE_BOX;
	o->born_us = clock_us();
	if (!audit_allows(o->g)) {
		oneshot_fail(o, 503, ONESHOT_AUDIT, "the audit file cannot be written");
		return;
	}
	o->counted = quota_take(o->g, o->spec.tenant);
	if (!o->counted) {
		metrics_rejected(&o->g->metrics, o->spec.operation, REJECT_QUOTA);
		oneshot_fail(o, 503, ONESHOT_NO_BOX,
			     "quota_exceeded: there are as many boxes as there may be");
		return;
	}
	o->spec.box.image = warm_image(genv_own(o->g), o->spec.warm);
	if (o->spec.box.image != 0)
		o->box = pool_take(o->g, o->spec.warm, &o->spec.box, &o->program, &box_ops,
				   &program_ops, o);
	if (o->spec.handler && o->spec.box.image == 0)
		o->spec.box.flags |= BOX_KIT;
	if (o->box == NULL)
		o->box = gbox_new(o->g, &o->spec.box, &box_ops, o, &e);
	if (o->box == NULL)
		on_failed(o, &e);
}

static void on_sent_away(void *arg)
{
	oneshot_fail(arg, 429, ONESHOT_BUSY, "saturated");
}

/* --- life --------------------------------------------------------------------------------------- */

static void on_checked(void *arg)
{
	struct oneshot *o = arg;

	o->phase = PHASE_ADMIT;
	admit_ask(o->g, &o->ticket, o->spec.operation, on_turn, on_sent_away, o);
}

void oneshot_start(struct oneshot *o)
{
	static const struct stage_ops ops = { .checked = on_checked,
					      .staged = on_staged,
					      .failed = on_not_staged };

	stage_check(o->g, &o->stage, o->spec.tenant, o->spec.files, o->spec.nfiles, &ops, o);
}

struct oneshot *oneshot_new(struct gate *g, const struct oneshot_spec *spec,
			    const struct oneshot_ops *ops, void *arg)
{
	struct oneshot *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return NULL;
	o->g = g;
	o->spec = *spec;
	(void)snprintf(o->request, sizeof(o->request), "%s",
		       spec->request != NULL ? spec->request : "");
	o->ops = ops;
	o->arg = arg;
	o->born_us = clock_us();
	return o;
}

struct oneshot *oneshot_resume(struct gate *g, const struct box_info *info, const uint8_t *record,
			       size_t n, const struct oneshot_spec *spec,
			       const struct oneshot_ops *ops, void *arg)
{
	struct oneshot *o = oneshot_new(g, spec, ops, arg);
	struct err e;

	if (o == NULL)
		return NULL;
	o->adopted = true;
	o->counted = quota_take(g, spec->tenant);
	admit_hold(g, &o->ticket, spec->operation); /* it runs, whatever the limit is */
	o->phase = PHASE_BOX;
	if (load_before(o, record, n) == 0)
		o->box = gbox_adopt(g, info, &box_ops, o, &e);
	if (o->box == NULL) {
		if (o->counted)
			quota_give(g, spec->tenant);
		admit_done(&o->ticket);
		oneshot_free(o);
		return NULL;
	}
	return o;
}
