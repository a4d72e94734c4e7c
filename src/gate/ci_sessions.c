// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions: a box that lives on, and bash in it. /v1/sessions.
 *
 * A session is known to the keeper by its record (id, tenant, end of life, commands that run) and its deadline; the
 * next gate finds it there. A command whose client leaves goes on, and holds its slot until it has ended.
 */
#include "gate/ci.h"
#include "gate/ci_session.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/box_net.h"
#include "gate/net_default.h"
#include "gate/record.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define PREFIX "code-session-"

enum {
	SESSION_ID = sizeof(PREFIX) + 32,
	BASH_OUT_EXTRA = 64,
	LATE_US = 30 * 1000 * 1000,
	COMMANDS_SAVED_MAX = 64, /* as many as init runs at once */
	RECORD_MAX = 512 + 16 * COMMANDS_SAVED_MAX,
};

struct session {
	struct gate *g;
	struct session *prev, *next;
	char id[SESSION_ID];
	const struct tenant *tenant;
	struct gbox *box;
	uint64_t expires_unix_us;
	bool ready, ended;
	bool counted; /* against max_boxes */
	struct bash *commands;
	struct deferred deferred;

	/* while it is being made */
	struct req *r;
	struct ticket ticket;
	struct stage stage;
	struct stage_file *files;
	size_t nfiles;
	struct ci_strings *strings;
	struct ci_body body;
	uint64_t ttl_us, began_us;
};

/* One command. */
struct bash {
	struct session *s;
	struct bash *next;
	struct req *r;
	struct ticket ticket;
	struct gjob job;
	struct timer late;
	bool recorded; /* the keeper knows that it runs */
	struct buf out[2];
	uint64_t began_us, max;
	struct ci_body body;
	struct ci_bash in;
	struct deferred deferred;
};

static uint64_t unix_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000u;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void session_free(void *arg)
{
	free(arg);
}

static void release_making(struct session *s)
{
	stage_end(&s->stage);
	s->stage.g = NULL;
	free(s->files);
	s->files = NULL;
	ci_strings_free(s->strings);
	s->strings = NULL;
	ci_body_done(&s->body);
	s->body = (struct ci_body){ 0 };
}

static void bash_lost(struct bash *b);
static void bash_late(void *arg);

static void session_end(struct session *s, void (*done)(void *arg, const struct box_figures *f),
			void *arg)
{
	struct gate *g = s->g;

	if (s->ended)
		return;
	s->ended = true;
	keeper_forget(&g->keeper, s);
	while (s->commands != NULL)
		bash_lost(s->commands);
	release_making(s);
	admit_done(&s->ticket);
	if (s->box != NULL)
		gbox_end(s->box, done, arg);
	else if (done != NULL)
		done(arg, NULL);
	s->box = NULL;
	if (s->prev != NULL)
		s->prev->next = s->next;
	else
		g->sessions = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	g->nsessions--;
	if (s->counted)
		quota_give(g, s->tenant);
	loop_defer(&g->loop, &s->deferred, session_free, s);
}

static struct session *session_new(struct gate *g)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return NULL;
	s->g = g;
	s->next = g->sessions;
	if (s->next != NULL)
		s->next->prev = s;
	g->sessions = s;
	g->nsessions++;
	return s;
}

/* --- the record ------------------------------------------------------------------------------- */

static bool runs(const struct bash *b)
{
	return b->job.box != NULL;
}

/* fn (may be NULL) hears whether the keeper has it. */
static int save_record(struct session *s, keeper_fn fn)
{
	static uint8_t record[RECORD_MAX], space[RECORD_MAX + 16];
	struct msg_out m;
	uint16_t n = 0;

	for (const struct bash *b = s->commands; b != NULL; b = b->next)
		n += runs(b) && n < COMMANDS_SAVED_MAX;
	msg_out_init(&m, record, sizeof(record));
	msg_put_u8(&m, RECORD_SESSION);
	msg_put_str(&m, s->id);
	msg_put_str(&m, s->tenant->name);
	msg_put_u64(&m, s->expires_unix_us);
	msg_put_u16(&m, n);
	for (const struct bash *b = s->commands; b != NULL && n > 0; b = b->next)
		if (runs(b)) {
			msg_put_u64(&m, b->job.id);
			msg_put_u64(&m, b->late.at_us);
			n--;
		}
	return m.failed ? -EMSGSIZE
			: record_save(s->g, s->box->id, record, m.len, space, sizeof(space), fn,
				      fn != NULL ? s : NULL);
}

/* --- making one ------------------------------------------------------------------------------- */

static void making_failed(struct session *s, int status, const char *text)
{
	struct oneshot_failure f = { .status = status, .file = s->stage.at };
	struct oneshot_spec spec = { .files = s->files };
	struct req *r = s->r;

	if (r == NULL) {
		session_end(s, NULL, NULL);
		return;
	}
	f.why = status == 404 ? ONESHOT_NO_FILE : ONESHOT_NO_BOX;
	(void)snprintf(f.text, sizeof(f.text), "%s", text);
	s->r = NULL;
	r->gone = NULL;
	if (status != 404 && status != 429)
		metrics_completed(&s->g->metrics, OPERATION_SESSION, OUTCOME_ERROR,
				  clock_us() - s->began_us);
	ci_failure(r, &f, &spec);
	session_end(s, NULL, NULL);
}

static void on_recorded(void *arg, struct chan_msg *m, const struct err *e)
{
	struct session *s = arg;
	struct req *r = s->r;
	struct json j;

	(void)e;
	if (m == NULL) {
		making_failed(s, 503, "the keeper has no memory");
		return;
	}
	chan_msg_close(m);
	s->ready = true;
	s->r = NULL;
	r->gone = NULL;
	admit_done(&s->ticket);
	metrics_completed(&s->g->metrics, OPERATION_SESSION, OUTCOME_OK, clock_us() - s->began_us);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "session_id", s->id);
	json_milli(&j, "expires_at", s->expires_unix_us / 1000);
	json_close(&j, '}');
	release_making(s);
	req_json(r, 201, &j);
}

static void on_staged(void *arg)
{
	struct session *s = arg;
	struct msg_out m;
	uint8_t body[16];

	s->expires_unix_us = unix_us() + s->ttl_us;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, s->box->id);
	msg_put_u64(&m, s->ttl_us);
	(void)keeper_ask(&s->g->keeper, OP_BOX_DEADLINE, body, m.len, NULL, NULL);
	if (save_record(s, on_recorded) < 0)
		making_failed(s, 503, "the keeper cannot be asked");
}

static void commands_adopt(struct session *s);

static void on_net(void *arg, struct chan_msg *m, const struct err *e)
{
	struct session *s = arg;
	char text[256];

	if (m == NULL) {
		(void)snprintf(text, sizeof(text), "no network can be made: %.200s", e->text);
		making_failed(s, 503, text);
		return;
	}
	chan_msg_close(m);
	stage_run(&s->stage, s->box, 0);
}

static void set_network(struct session *s, const struct net_policy *p)
{
	box_net_owner(s->box, s->tenant, "session", s->id);
	if (box_net_ask(s->box, p, on_net, s) < 0)
		making_failed(s, 503, "the keeper cannot be asked");
}

static void on_ready(void *arg, struct gbox *b)
{
	struct session *s = arg;
	const struct net_policy *p = net_default(s->g, NET_DEFAULT_CI);

	s->box = b;
	if (s->r == NULL) { /* taken over */
		s->ready = true;
		s->g->metrics.adopted[ADOPTED_SESSION]++;
		box_net_owner(b, s->tenant, "session", s->id);
		commands_adopt(s);
		return;
	}
	metrics_box(&s->g->metrics, b->info.setup_us);
	audit(s->g, "box_made", s->r, "tenant", s->tenant->name, "for", "session", "session", s->id,
	      "policy", box_net_audit(p), NULL);
	if (p->mode != NET_NONE)
		set_network(s, p);
	else
		stage_run(&s->stage, b, 0);
}

static void on_failed(void *arg, const struct err *e)
{
	struct session *s = arg;
	char text[256];

	s->box = NULL;
	s->g->metrics.boxes_failed++;
	gate_log_err(s->g, "box_failed", e);
	(void)snprintf(text, sizeof(text), "unschedulable: %.200s", e->text);
	if (s->r != NULL)
		metrics_rejected(&s->g->metrics, OPERATION_SESSION, REJECT_UNSCHEDULABLE);
	making_failed(s, 503, text);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	struct session *s = arg;

	s->box = NULL;
	if (f != NULL && f->oom_kills > 0)
		audit(s->g, "limit_hit", NULL, "limit", "memory", "tenant", s->tenant->name, NULL);
	if (why == BOX_END_DEADLINE)
		audit(s->g, "session_expired", NULL, "session", s->id, NULL);
	making_failed(s, 500, "the box ended unexpectedly");
}

static void on_refused(void *arg, const char *call)
{
	struct session *s = arg;

	audit(s->g, "syscall_refused", NULL, "syscall", call, "tenant", s->tenant->name, "session",
	      s->id, NULL);
}

static const struct gbox_ops box_ops = {
	.ready = on_ready, .failed = on_failed, .gone = on_gone, .refused = on_refused
};

static void on_turn(void *arg)
{
	struct session *s = arg;
	struct box_request q;
	struct err e;

	if (!audit_allows(s->g)) {
		making_failed(s, 503, "the audit file cannot be written");
		return;
	}
	s->counted = quota_take(s->g, s->tenant);
	if (!s->counted) {
		metrics_rejected(&s->g->metrics, OPERATION_SESSION, REJECT_QUOTA);
		making_failed(s, 503, "quota_exceeded: there are as many boxes as there may be");
		return;
	}
	ci_limits(s->g, &q);
	s->box = gbox_new(s->g, &q, &box_ops, s, &e);
	if (s->box == NULL)
		on_failed(s, &e);
}

static void on_sent_away(void *arg)
{
	making_failed(arg, 429, "saturated");
}

static void on_checked(void *arg)
{
	struct session *s = arg;

	admit_ask(s->g, &s->ticket, OPERATION_SESSION, on_turn, on_sent_away, s);
}

static void on_not_staged(void *arg, const struct stage_failure *f)
{
	making_failed(arg, f->status, f->text);
}

static void create_gone(struct req *r)
{
	struct session *s = r->work;

	s->r = NULL;
	session_end(s, NULL, NULL);
}

static int make_id(char id[SESSION_ID])
{
	uint8_t random[16];
	int n = snprintf(id, SESSION_ID, PREFIX);

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (unsigned int i = 0; i < sizeof(random); i++)
		n += snprintf(id + n, SESSION_ID - (size_t)n, "%02x", random[i]);
	return 0;
}

void ci_session_create(struct req *r)
{
	static const struct stage_ops ops = { .checked = on_checked,
					      .staged = on_staged,
					      .failed = on_not_staged };
	struct ci_body body;
	struct ci_session in;
	struct session *s;

	if (ci_decode(r, &ci_session_fields, &body, &in) < 0)
		return;
	s = session_new(r->g);
	if (s == NULL || make_id(s->id) < 0) {
		ci_body_done(&body);
		ci_detail(r, 503, "out of memory");
		if (s != NULL)
			session_end(s, NULL, NULL);
		return;
	}
	s->body = body;
	s->tenant = r->tenant;
	s->began_us = clock_us();
	s->ttl_us = in.ttl_set ? (uint64_t)in.ttl_seconds * US_PER_S
			       : config_u64(&r->g->config, CONF_SESSION_TTL_DEFAULT);
	s->files = calloc(in.files.n + 1, sizeof(*s->files));
	if (s->files == NULL) {
		ci_detail(r, 503, "out of memory");
	} else if (s->ttl_us > config_u64(&r->g->config, CONF_SESSION_TTL_MAX)) {
		ci_detail(r, 422, "ttl_seconds exceeds maximum of %llu",
			  (unsigned long long)(config_u64(&r->g->config, CONF_SESSION_TTL_MAX) /
					       US_PER_S));
	} else if (ci_stage(r, &in.files, true, s->files, &s->nfiles, &s->strings) == 0) {
		s->r = r;
		r->work = s;
		r->gone = create_gone;
		stage_check(r->g, &s->stage, s->tenant, s->files, s->nfiles, &ops, s);
		return;
	}
	session_end(s, NULL, NULL);
}

/* The commands of a record: they hold their slots from now on. */
static void load_commands(struct session *s, struct msg_in *in)
{
	for (unsigned int n = msg_get_u16(in); n > 0 && !in->failed; n--) {
		uint64_t id = msg_get_u64(in), late_us = msg_get_u64(in);
		struct bash *b = in->failed ? NULL : calloc(1, sizeof(*b));

		if (b == NULL)
			continue;
		b->s = s;
		b->next = s->commands;
		s->commands = b;
		b->began_us = clock_us();
		b->job.id = id;
		admit_hold(s->g, &b->ticket, OPERATION_BASH);
		(void)timer_set(&s->g->loop, &b->late, late_us, bash_late, b);
	}
}

int ci_session_adopt(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n)
{
	struct session *s = session_new(g);
	char tenant[GATE_TENANT];
	struct msg_in in;
	struct err e;

	if (s == NULL)
		return -1;
	msg_in_init(&in, record, n);
	(void)msg_get_u8(&in);
	(void)msg_get_str(&in, s->id, sizeof(s->id));
	(void)msg_get_str(&in, tenant, sizeof(tenant));
	s->expires_unix_us = msg_get_u64(&in);
	load_commands(s, &in);
	s->tenant = tenant_find(g, tenant);
	if (msg_end(&in) == 0 && s->tenant != NULL)
		s->box = gbox_adopt(g, info, &box_ops, s, &e);
	if (s->box != NULL)
		s->counted = quota_take(g, s->tenant);
	if (s->box != NULL)
		return 0;
	session_end(s, NULL, NULL);
	return -1;
}

/* --- using one -------------------------------------------------------------------------------- */

/* The session of the path; NULL: answered. */
static struct session *find(struct req *r)
{
	struct http_slice id = r->param[0];

	for (struct session *s = r->g->sessions; s != NULL; s = s->next)
		if (s->ready && !s->ended && s->tenant == r->tenant && http_slice_is(id, s->id) &&
		    s->expires_unix_us > unix_us())
			return s;
	ci_detail(r, 404, "Session '%.*s' not found", (int)(id.n < 256 ? id.n : 256), id.p);
	return NULL;
}

struct gbox *ci_session_box(struct req *r)
{
	struct session *s = find(r);

	return s != NULL ? s->box : NULL;
}

struct deletion {
	struct req *r;
};

static void on_deleted(void *arg, const struct box_figures *f)
{
	struct deletion *d = arg;
	struct req *r = d->r;

	(void)f;
	free(d);
	if (r == NULL)
		return;
	r->gone = NULL;
	req_reply(r, 204, NULL, "", 0);
}

static void deletion_gone(struct req *r)
{
	struct deletion *d = r->work;

	d->r = NULL;
}

void ci_session_delete(struct req *r)
{
	struct session *s = find(r);
	struct deletion *d;

	if (s == NULL)
		return;
	d = calloc(1, sizeof(*d));
	if (d == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	d->r = r;
	r->work = d;
	r->gone = deletion_gone;
	session_end(s, on_deleted, d); /* answered when nothing of it is left */
}

static void bash_free(void *arg)
{
	struct bash *b = arg;

	buf_done(&b->out[0]);
	buf_done(&b->out[1]);
	ci_body_done(&b->body);
	free(b);
}

static void bash_end(struct bash *b)
{
	struct bash **at = &b->s->commands;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	timer_clear(&b->s->g->loop, &b->late);
	if (b->recorded && !b->s->ended && b->s->box != NULL)
		(void)save_record(b->s, NULL);
	gjob_drop(&b->job);
	loop_defer(&b->s->g->loop, &b->deferred, bash_free, b);
	admit_done(&b->ticket);
}

/* The session ended under it. */
static void bash_lost(struct bash *b)
{
	struct req *r = b->r;

	b->r = NULL;
	bash_end(b); /* first: the answer may bring the connection's next request */
	if (r != NULL) {
		r->gone = NULL;
		ci_detail(r, 404, "Session '%s' not found", b->s->id);
	}
}

static void bash_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct bash *b = arg;

	if (b->r != NULL)
		(void)buf_put(&b->out[stream - 1], p, n);
	gjob_ack(&b->job, number);
}

static void bash_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct bash *b = arg;
	struct req *r = b->r;
	struct json j;

	gjob_ack(&b->job, number);
	metrics_completed(&b->s->g->metrics, OPERATION_BASH, ci_outcome(x),
			  clock_us() - b->began_us);
	if ((x->flags & JOB_TIMED_OUT) != 0)
		audit(b->s->g, "limit_hit", r, "limit", "timeout", "session", b->s->id, NULL);
	if (r == NULL) {
		bash_end(b);
		return;
	}
	b->r = NULL;
	r->gone = NULL;
	if (x->how == JOB_FAILED) {
		bash_end(b);
		ci_detail(r, 500, "bash could not be started: %s", x->stage);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	ci_put_stream(&j, "stdout", &b->out[0], (x->flags & JOB_CUT_STDOUT) != 0, b->max);
	ci_put_stream(&j, "stderr", &b->out[1], (x->flags & JOB_CUT_STDERR) != 0, b->max);
	ci_put_exit(&j, x);
	json_u64(&j, "duration_ms", (clock_us() - b->began_us) / 1000);
	json_close(&j, '}');
	bash_end(b);
	req_json(r, 200, &j);
}

static void bash_failed(void *arg, int error, const char *why)
{
	struct bash *b = arg;
	struct req *r = b->r;

	b->r = NULL;
	bash_end(b);
	if (r != NULL) {
		r->gone = NULL;
		if (error == EAGAIN) {
			req_header(r, "Retry-After", "%llu",
				   (unsigned long long)config_u64(&r->g->config,
								  CONF_EXECUTION_RETRY_AFTER) /
					   US_PER_S);
			ci_detail(r, 429, "the session is saturated: %s", why);
		} else {
			ci_detail(r, 503, "the session refused the command: %s", why);
		}
	}
}

static void bash_late(void *arg)
{
	bash_failed(arg, ETIMEDOUT, "it did not end in time");
}

/* The client left; the command goes on. */
static void bash_gone(struct req *r)
{
	struct bash *b = r->work;

	b->r = NULL;
	if (b->job.box == NULL)
		bash_end(b); /* it had not begun */
}

static const struct gjob_ops bash_ops = { .output = bash_output,
					  .ended = bash_ended,
					  .failed = bash_failed };

/* Hear again of the commands that the last gate had started. A job that init knows is not run again, and one that has
 * run is refused; should a command never have come so far, what runs in its place does nothing. */
static void commands_adopt(struct session *s)
{
	static const char *const argv[] = { "/bin/true", NULL };
	struct job_spec spec = {
		.kind = JOB_EXEC, .cwd = "/workspace", .argv = argv, .envp = ci_environment()
	};
	struct bash *next;

	for (struct bash *b = s->commands; b != NULL; b = next) {
		next = b->next;
		b->recorded = true;
		if (gjob_start(s->box, &b->job, b->job.id, &spec, &bash_ops, b) < 0)
			bash_end(b);
	}
}

static void bash_turn(void *arg)
{
	struct bash *b = arg;
	const char *const argv[] = { "/bin/bash", "-c", b->in.cmd.p, NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .timeout_us = (uint64_t)b->in.timeout_ms * 1000,
				 .output_max = b->max,
				 .cwd = "/workspace",
				 .argv = argv,
				 .envp = ci_environment() };
	int r;

	if (b->s->ended) { /* the slot is that of another command that went down with it */
		bash_lost(b);
		return;
	}
	if (!audit_allows(b->s->g)) {
		bash_failed(b, EIO, "the audit file cannot be written");
		return;
	}
	audit(b->s->g, "command", b->r, "tenant", b->s->tenant->name, "session", b->s->id, NULL);
	r = gjob_start(b->s->box, &b->job, 0, &spec, &bash_ops, b);
	if (r == -E2BIG) {
		struct req *req = b->r;

		b->r = NULL;
		req->gone = NULL;
		bash_end(b);
		ci_detail(req, 422, "cmd is too long");
	} else if (r == 0) {
		/* Should its init not keep to the time, somebody must. */
		(void)timer_set(&b->s->g->loop, &b->late,
				b->s->g->loop.now_us + spec.timeout_us + LATE_US, bash_late, b);
		b->recorded = save_record(b->s, NULL) == 0;
	} else {
		bash_failed(b, -r, "it cannot be reached");
	}
}

static void bash_sent_away(void *arg)
{
	struct bash *b = arg;
	struct oneshot_failure f = { .status = 429, .why = ONESHOT_BUSY };
	struct req *r = b->r;

	b->r = NULL;
	r->gone = NULL;
	bash_end(b);
	ci_failure(r, &f, NULL);
}

void ci_session_bash(struct req *r)
{
	uint64_t max_ms = config_u64(&r->g->config, CONF_CI_MAX_TIMEOUT_MS);
	struct session *s = find(r);
	struct bash *b;

	if (s == NULL)
		return;
	b = calloc(1, sizeof(*b));
	if (b == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	if (ci_decode(r, &ci_bash_fields, &b->body, &b->in) < 0) {
		free(b);
		return;
	}
	if (!b->in.timeout_set) {
		b->in.timeout_ms = (int64_t)config_u64(&r->g->config, CONF_CI_BASH_TIMEOUT_MS);
		if ((uint64_t)b->in.timeout_ms > max_ms)
			b->in.timeout_ms = (int64_t)max_ms;
	}
	if ((uint64_t)b->in.timeout_ms > max_ms) {
		ci_detail(r, 422, "timeout_ms exceeds maximum of %llu ms",
			  (unsigned long long)max_ms);
		bash_free(b);
		return;
	}
	b->s = s;
	b->r = r;
	b->next = s->commands;
	s->commands = b;
	b->began_us = clock_us();
	b->max = config_u64(&r->g->config, CONF_CI_OUTPUT_BYTES);
	buf_init(&b->out[0], (size_t)b->max + BASH_OUT_EXTRA);
	buf_init(&b->out[1], (size_t)b->max + BASH_OUT_EXTRA);
	r->work = b;
	r->gone = bash_gone;
	admit_ask(r->g, &b->ticket, OPERATION_BASH, bash_turn, bash_sent_away, b);
}
