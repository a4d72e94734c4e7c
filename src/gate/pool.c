// SPDX-License-Identifier: Apache-2.0
#include "gate/pool.h"

#include "base/clock.h"
#include "base/json.h"
#include "gate/boxes.h"
#include "gate/ci.h"
#include "gate/genv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	LATER_US = 1000 * 1000,    /* after a failure */
	REST_US = 5 * 1000 * 1000, /* after a member had to make room */
	TAKEN_US = 10 * 1000,      /* after one was taken, if who has it does not end before */
};

/* --- the job ---------------------------------------------------------------------------------- */

int warm_job_start(struct gbox *b, struct gjob *j, uint64_t id, const struct gjob_ops *ops,
		   void *arg)
{
	const char *const argv[] = { b->env->python, NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_SWEEP | JOB_STDIN | JOB_HELD | JOB_THAW,
				 .cwd = b->cwd,
				 .argv = argv,
				 .envp = ci_environment() };

	return gjob_start(b, j, id, &spec, ops, arg);
}

int handler_job_start(struct gbox *b, struct gjob *j, uint64_t id, const struct gjob_ops *ops,
		      void *arg)
{
	const char *const argv[] = { b->env->python, "/proc/self/fd/6", "--handler", NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_SWEEP | JOB_STDIN | JOB_HELD | JOB_KIT,
				 .cwd = "/workspace",
				 .argv = argv,
				 .envp = ci_environment() };

	return gjob_start(b, j, id, &spec, ops, arg);
}

int kernel_job_start(struct gbox *b, struct gjob *j, uint64_t id, bool warm,
		     const struct gjob_ops *ops, void *arg)
{
	const char *const thawed[] = { b->env->python, NULL };
	const char *const cold[] = { b->env->python, "-I", "-B", "/proc/self/fd/6", NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_HELD | JOB_KERNEL |
					  (uint32_t)(warm ? JOB_THAW : JOB_KIT),
				 .cwd = b->cwd,
				 .argv = warm ? thawed : cold,
				 .envp = ci_environment() };

	return gjob_start(b, j, id, &spec, ops, arg);
}

static void put_strings(struct json *j, const char *key, const char *const *v)
{
	json_open(j, key, '[');
	for (; *v != NULL; v++)
		json_str(j, NULL, *v);
	json_close(j, ']');
}

int warm_job_go(struct gjob *j, const struct warm_program *p)
{
	struct json text;
	int r;

	json_init(&text);
	json_open(&text, NULL, '{');
	if (p->handler)
		json_bool(&text, "handler", true);
	else
		put_strings(&text, "argv", p->argv);
	put_strings(&text, "env", p->envp);
	json_str(&text, "cwd", "/workspace");
	if (p->source != NULL)
		json_bytes(&text, "source", p->source, p->source_len);
	if (p->input_path != NULL)
		json_str(&text, "stdin", p->input_path);
	json_close(&text, '}');
	r = text.failed ? -ENOMEM : gjob_go(j, p->timeout_us, p->output_max, text.buf, text.len);
	json_done(&text);
	return r;
}

/* --- what is wanted --------------------------------------------------------------------------- */

/* What there can be members of. Of what others have built only sessions are made ahead. */
enum { LINES_MAX = WARM_MAX + 2 * ENVS_MAX };

struct line {
	const struct genv *env;
	enum warm_kind kind;
	struct pool_want want;
};

static void want(struct gate *g, struct line *l)
{
	struct pool_want *w = &l->want;
	enum warm_kind kind = l->kind;
	static struct box_request q;

	if (kind == WARM_KERNEL)
		box_standard(g, &q);
	else
		ci_limits(g, &q);
	*w = (struct pool_want){ .env = l->env,
				 .kind = kind,
				 .image = l->env->warm.images[kind].id,
				 .flags = q.flags,
				 .waived = q.waived,
				 .limits = q.limits };
}

static uint64_t size_of(const struct gate *g, const struct line *l)
{
	if (l->env->row.id != 0)
		return l->env->row.pool;
	return config_u64(&g->config,
			  l->kind == WARM_KERNEL ? CONF_SESSION_POOL_SIZE : CONF_POOL_SIZE);
}

static unsigned int lines_of(struct gate *g, struct line v[LINES_MAX])
{
	unsigned int n = 0;

	for (int i = 0; i < WARM_MAX; i++)
		v[n++] = (struct line){ .env = genv_own(g), .kind = (enum warm_kind)i };
	for (const struct genv *e = genv_own(g)->next; e != NULL && n < LINES_MAX; e = e->next)
		if (e->row.pool > 0 && !e->row.gone)
			v[n++] = (struct line){ .env = e, .kind = WARM_KERNEL };
	for (unsigned int i = 0; i < n; i++)
		want(g, &v[i]);
	return n;
}

/* As many as there should be: its size, or its share of the ceiling, whether the others are there already or not. */
static uint64_t share_of(const struct gate *g, const struct line *v, unsigned int n, unsigned int i)
{
	uint64_t most = config_u64(&g->config, CONF_POOL_MAX), all = 0, before = 0;

	for (unsigned int k = 0; k < n; k++) {
		all += size_of(g, &v[k]);
		before += k < i ? size_of(g, &v[k]) : 0;
	}
	if (all <= most)
		return size_of(g, &v[i]);
	return (before + size_of(g, &v[i])) * most / all - before * most / all;
}

/* Limits apart, which can be changed. */
static bool fits(const struct pool_want *is, const struct box_request *q)
{
	return is->image == q->image && is->flags == q->flags && is->waived == q->waived &&
	       q->nmounts == 0;
}

static bool same(const struct pool_want *a, const struct pool_want *b)
{
	return a->env == b->env && a->kind == b->kind && a->image == b->image &&
	       a->flags == b->flags && a->waived == b->waived &&
	       memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0;
}

/* --- members ---------------------------------------------------------------------------------- */

static void on_later(void *arg)
{
	pool_turn(arg);
}

static void later(struct gate *g, uint64_t us)
{
	(void)timer_set(&g->loop, &g->pool.later, g->loop.now_us + us, on_later, g);
}

static void rest(struct gate *g, uint64_t us)
{
	g->pool.rests_until_us = g->loop.now_us + us;
	later(g, us);
}

static void member_free(void *arg)
{
	free(arg);
}

static void forget(struct pool_member *m)
{
	struct pool *p = &m->g->pool;

	for (struct pool_member **at = &p->members; *at != NULL; at = &(*at)->next)
		if (*at == m) {
			*at = m->next;
			p->n--;
			break;
		}
	if (!m->waits)
		p->making--;
	loop_defer(&m->g->loop, &m->deferred, member_free, m);
}

/* It could not be made, or died while it waited. */
static void lost(struct pool_member *m)
{
	struct gate *g = m->g;

	g->pool.lost[m->is.kind]++;
	forget(m);
	rest(g, LATER_US);
}

static void on_ready_job(void *arg)
{
	struct pool_member *m = arg;

	m->waits = true;
	m->g->pool.making--;
	m->g->pool.made[m->is.kind]++;
	pool_turn(m->g);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct pool_member *m = arg;

	(void)stream;
	(void)p;
	(void)n;
	gjob_ack(&m->job, number);
}

static void on_job_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct pool_member *m = arg;

	(void)number;
	log_line(&m->g->log, LOG_WARN, "pool_member_ended", log_str("image", warm_str(m->is.kind)),
		 log_i64("code", x->code));
	gbox_end(m->box, NULL, NULL);
	lost(m);
}

static void on_job_failed(void *arg, int error, const char *why)
{
	struct pool_member *m = arg;

	(void)error;
	log_line(&m->g->log, LOG_WARN, "pool_member_failed", log_str("image", warm_str(m->is.kind)),
		 log_str("why", why));
	gbox_end(m->box, NULL, NULL);
	lost(m);
}

static void on_ready(void *arg, struct gbox *b)
{
	static const struct gjob_ops ops = { .output = on_output,
					     .ended = on_job_ended,
					     .failed = on_job_failed,
					     .ready = on_ready_job };
	struct pool_member *m = arg;
	int r;

	metrics_box(&m->g->metrics, b->info.setup_us);
	if (m->is.kind == WARM_KERNEL)
		r = kernel_job_start(b, &m->job, POOL_KERNEL_JOB, true, &ops, m);
	else
		r = warm_job_start(b, &m->job, PROGRAM_JOB, &ops, m);
	if (r < 0)
		on_job_failed(m, ENOMEM, "no memory");
}

static void on_failed(void *arg, const struct err *e)
{
	struct pool_member *m = arg;

	gate_log_err(m->g, "pool_member_failed", e);
	lost(m);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	(void)why;
	(void)f;
	lost(arg);
}

static int make(struct gate *g, const struct pool_want *w)
{
	static const struct gbox_ops ops = { .ready = on_ready,
					     .failed = on_failed,
					     .gone = on_gone };
	static struct box_request q;
	struct pool_member *m = calloc(1, sizeof(*m));
	struct err e;

	if (m == NULL)
		return -ENOMEM;
	m->g = g;
	m->is = *w;
	m->born_us = clock_us();
	q.flags = w->flags | BOX_SPARE;
	q.waived = w->waived;
	q.limits = w->limits;
	q.image = w->image;
	q.env = w->env->row.id;
	m->box = gbox_new(g, &q, &ops, m, &e);
	if (m->box == NULL) {
		free(m);
		return -EAGAIN;
	}
	m->next = g->pool.members;
	g->pool.members = m;
	g->pool.n++;
	g->pool.making++;
	return 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static void end_member(struct pool_member *m)
{
	gbox_end(m->box, NULL, NULL);
	forget(m);
}

static bool is_of(const struct pool_member *m, const struct genv *env, enum warm_kind kind)
{
	return (env == NULL || m->is.env == env) && (kind == WARM_MAX || m->is.kind == kind);
}

/* The oldest of a kind, or of all (WARM_MAX), of an environment or of all (NULL): of those that wait, if there are any. */
static struct pool_member *oldest(const struct gate *g, const struct genv *env, enum warm_kind kind)
{
	struct pool_member *found[2] = { NULL, NULL };

	for (struct pool_member *m = g->pool.members; m != NULL; m = m->next)
		if (is_of(m, env, kind))
			found[m->waits] = m;
	return found[true] != NULL ? found[true] : found[false];
}

static unsigned int count(const struct gate *g, const struct line *l)
{
	unsigned int n = 0;

	for (const struct pool_member *m = g->pool.members; m != NULL; m = m->next)
		n += is_of(m, l->env, l->kind);
	return n;
}

static bool is_wanted(const struct pool_member *m, const struct line *v, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (same(&m->is, &v[i].want))
			return true;
	return false;
}

/* Of an image or with limits that nobody will ask for any more, or more than there should be. */
static void end_stale(struct gate *g, const struct line *v, unsigned int n)
{
	for (struct pool_member *m = g->pool.members, *next; m != NULL; m = next) {
		next = m->next;
		if (!is_wanted(m, v, n))
			end_member(m);
	}
	for (unsigned int i = 0; i < n; i++) {
		uint64_t share = share_of(g, v, n, i);
		struct pool_member *m = oldest(g, v[i].env, v[i].kind);

		for (; m != NULL && count(g, &v[i]) > share; m = oldest(g, v[i].env, v[i].kind))
			end_member(m);
	}
}

/* Of which the smallest part is there; NULL: nothing is missing. */
static const struct line *most_wanted(const struct gate *g, const struct line *v, unsigned int n)
{
	uint64_t best_have = 0, best_size = 0;
	const struct line *best = NULL;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t have = count(g, &v[i]), size = share_of(g, v, n, i);

		if (v[i].want.image == 0 || have >= size ||
		    (best != NULL && have * best_size >= best_have * size))
			continue;
		best = &v[i];
		best_have = have;
		best_size = size;
	}
	return best;
}

void pool_turn(struct gate *g)
{
	static struct line lines[LINES_MAX];
	const struct line *next;
	unsigned int n;

	if (g->stopping)
		return;
	n = lines_of(g, lines);
	end_stale(g, lines, n);
	if (g->pool.rests_until_us > g->loop.now_us) {
		later(g, g->pool.rests_until_us - g->loop.now_us);
		return;
	}
	while (g->pool.making < config_u64(&g->config, CONF_POOL_REFILL) &&
	       (next = most_wanted(g, lines, n)) != NULL)
		if (make(g, &next->want) < 0) {
			rest(g, LATER_US);
			return;
		}
}

struct gbox *pool_take(struct gate *g, enum warm_kind kind, const struct box_request *q,
		       struct gjob *job, const struct gbox_ops *box_ops,
		       const struct gjob_ops *job_ops, void *arg)
{
	struct pool_member *found = NULL;
	struct gbox *b;

	for (struct pool_member *m = g->pool.members; m != NULL; m = m->next)
		if (m->waits && m->is.kind == kind && fits(&m->is, q))
			found = m; /* the last one is the oldest */
	if (found != NULL && gbox_hand_out(found->box, &found->is.limits, q, box_ops, arg) < 0) {
		end_member(found);
		found = NULL;
	}
	if (found == NULL) {
		g->pool.misses[kind]++;
		return NULL;
	}
	g->pool.hits[kind]++;
	b = found->box;
	gjob_give(&found->job, job, job_ops, arg);
	forget(found);
	/* First let this one run. Others that are taken meanwhile do not put it off. */
	if (g->pool.later.place == 0)
		later(g, TAKEN_US);
	return b;
}

bool pool_yield(struct gate *g, void (*done)(void *arg, const struct box_figures *f), void *arg)
{
	struct pool_member *m = oldest(g, NULL, WARM_MAX);

	if (m == NULL)
		return false;
	g->pool.yielded++;
	rest(g, REST_US);
	gbox_end(m->box, done, arg);
	forget(m);
	return true;
}

void pool_stop(struct gate *g)
{
	while (g->pool.members != NULL)
		end_member(g->pool.members);
}

unsigned int pool_ready(const struct genv *v)
{
	unsigned int n = 0;

	for (const struct pool_member *m = v->g->pool.members; m != NULL; m = m->next)
		n += m->is.env == v && m->is.kind == WARM_KERNEL && m->waits;
	return n;
}

void pool_count(const struct gate *g, enum warm_kind kind, unsigned int *ret_waiting,
		unsigned int *ret_making, uint64_t *ret_oldest_us)
{
	const struct pool_member *m = oldest(g, NULL, kind);

	*ret_waiting = *ret_making = 0;
	*ret_oldest_us = m != NULL && m->waits ? clock_us() - m->born_us : 0;
	for (m = g->pool.members; m != NULL; m = m->next)
		if (m->is.kind == kind && m->waits)
			++*ret_waiting;
		else if (m->is.kind == kind)
			++*ret_making;
}
