// SPDX-License-Identifier: Apache-2.0
#include "gate/pool.h"

#include "base/clock.h"
#include "base/json.h"
#include "gate/ci.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	LATER_US = 1000 * 1000, /* after a failure */
};

/* --- the job ---------------------------------------------------------------------------------- */

int warm_job_start(struct gbox *b, struct gjob *j, uint64_t id, const struct gjob_ops *ops,
		   void *arg)
{
	static const char *const argv[] = { "/usr/bin/python3", NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_SWEEP | JOB_STDIN | JOB_HELD | JOB_THAW,
				 .cwd = "/workspace",
				 .argv = argv,
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

/* --- members ---------------------------------------------------------------------------------- */

static void on_later(void *arg)
{
	pool_turn(arg);
}

static void later(struct gate *g)
{
	(void)timer_set(&g->loop, &g->pool.later, g->loop.now_us + LATER_US, on_later, g);
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

	g->pool.lost++;
	forget(m);
	later(g);
}

static void on_ready_job(void *arg)
{
	struct pool_member *m = arg;

	m->waits = true;
	m->g->pool.making--;
	m->g->pool.made++;
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
	log_line(&m->g->log, LOG_WARN, "pool_member_ended", log_i64("code", x->code));
	gbox_end(m->box, NULL, NULL);
	lost(m);
}

static void on_job_failed(void *arg, int error, const char *why)
{
	struct pool_member *m = arg;

	(void)error;
	log_line(&m->g->log, LOG_WARN, "pool_member_failed", log_str("why", why));
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

	metrics_box(&m->g->metrics, b->info.setup_us);
	if (warm_job_start(b, &m->job, PROGRAM_JOB, &ops, m) < 0)
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

static bool same(const struct box_request *a, const struct box_request *b)
{
	return a->image == b->image && a->flags == b->flags && a->waived == b->waived &&
	       a->nmounts == 0 && b->nmounts == 0 &&
	       memcmp(&a->limits, &b->limits, sizeof(a->limits)) == 0;
}

static int make(struct gate *g, const struct box_request *q)
{
	static const struct gbox_ops ops = { .ready = on_ready,
					     .failed = on_failed,
					     .gone = on_gone };
	struct pool_member *m = calloc(1, sizeof(*m));
	struct err e;

	if (m == NULL)
		return -ENOMEM;
	m->g = g;
	m->q = *q;
	m->born_us = clock_us();
	m->box = gbox_new(g, &m->q, &ops, m, &e);
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

/* Of an image or with limits that nobody will ask for any more. */
static void end_stale(struct gate *g, const struct box_request want[WARM_MAX])
{
	for (struct pool_member *m = g->pool.members, *next; m != NULL; m = next) {
		bool wanted = false;

		next = m->next;
		for (int i = 0; i < WARM_MAX; i++)
			wanted = wanted || (want[i].image != 0 && same(&m->q, &want[i]));
		if (!wanted)
			end_member(m);
	}
}

static unsigned int count(const struct gate *g, const struct box_request *q)
{
	unsigned int n = 0;

	for (const struct pool_member *m = g->pool.members; m != NULL; m = m->next)
		n += same(&m->q, q);
	return n;
}

void pool_turn(struct gate *g)
{
	uint64_t size = config_u64(&g->config, CONF_POOL_SIZE);
	uint64_t at_once = config_u64(&g->config, CONF_POOL_REFILL);
	struct box_request want[WARM_MAX];

	if (g->stopping)
		return;
	for (int i = 0; i < WARM_MAX; i++) {
		ci_limits(g, &want[i]);
		want[i].image = g->warm.images[i].id;
	}
	end_stale(g, want);
	for (int i = 0; i < WARM_MAX; i++)
		while (want[i].image != 0 && g->pool.making < at_once && count(g, &want[i]) < size)
			if (make(g, &want[i]) < 0) {
				later(g);
				return;
			}
}

struct gbox *pool_take(struct gate *g, const struct box_request *q, struct gjob *job,
		       const struct gbox_ops *box_ops, const struct gjob_ops *job_ops, void *arg)
{
	struct pool_member *oldest = NULL;
	struct gbox *b;

	for (struct pool_member *m = g->pool.members; m != NULL; m = m->next)
		if (m->waits && same(&m->q, q))
			oldest = m; /* the list has the youngest first */
	if (oldest == NULL) {
		g->pool.misses++;
		return NULL;
	}
	g->pool.hits++;
	b = oldest->box;
	gbox_give(b, box_ops, arg);
	gjob_give(&oldest->job, job, job_ops, arg);
	forget(oldest);
	/* First let this one run. */
	(void)timer_set(&g->loop, &g->pool.later, g->loop.now_us + 1, on_later, g);
	return b;
}

void pool_stop(struct gate *g)
{
	while (g->pool.members != NULL)
		end_member(g->pool.members);
}
